"""The optax transformation against the oracle, and against the optimizer of torch."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

jax = pytest.importorskip("jax")
optax = pytest.importorskip("optax")

import jax.numpy as jnp  # noqa: E402

from finitesum.optax import adahb, scale_by_adahb  # noqa: E402


@pytest.fixture(scope="module")
def oracle():
    path = Path(__file__).parents[1] / "oracles" / "adahb_torch.py"
    spec = importlib.util.spec_from_file_location("oracle_adahb_for_jax", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def double():
    if hasattr(jax, "enable_x64"):
        context = jax.enable_x64(True)
    else:  # older releases
        from jax.experimental import enable_x64

        context = enable_x64(True)
    with context:
        yield


def gradients(n=60, d=5, seed=0):
    g = np.random.default_rng(seed).normal(size=(n, d)) * np.logspace(-3, 2, d)
    g[:, 2] *= np.arange(n) > 20  # a coordinate whose first gradients are zero
    return g


def run(optimizer, w, all_gradients, jit=True):
    state = optimizer.init(w)
    update = jax.jit(optimizer.update) if jit else optimizer.update
    for g in all_gradients:
        moves, state = update(jax.tree.map(lambda x, g=g: jnp.asarray(g, x.dtype).reshape(x.shape), w), state, w)
        w = optax.apply_updates(w, moves)
        yield w


@pytest.mark.parametrize("steps_per_epoch", [1, 7])
@pytest.mark.parametrize("delta", [0.0, 1e-8, 1e-2])
def test_steps_equal_the_oracle(double, oracle, steps_per_epoch, delta):
    g, w = gradients(), np.linspace(-1.0, 1.0, 5)
    times = [oracle.time_of(step, steps_per_epoch) for step in range(1, len(g) + 1)]
    wanted = oracle.iterates(w, g, alpha=0.03, times=times, gamma=0.1, delta=delta)
    got = run(adahb(0.03, steps_per_epoch=steps_per_epoch, delta=delta), jnp.asarray(w), g)
    for (theirs, _), ours in zip(wanted, got, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)


def test_steps_equal_those_of_torch():
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch.optim")
    from finitesum.torch import AdaHB

    g = gradients(seed=3).astype(np.float32)
    parameter = torch.nn.Parameter(torch.linspace(-1.0, 1.0, 5))
    optimizer = AdaHB([parameter], lr=0.01, steps_per_epoch=9, foreach=False)
    for step, ours in zip(g, run(adahb(0.01, steps_per_epoch=9), jnp.linspace(-1.0, 1.0, 5), g), strict=True):
        parameter.grad = torch.from_numpy(step)
        optimizer.step()
        np.testing.assert_allclose(ours, parameter.detach().numpy(), rtol=2e-5, atol=2e-6)


def test_trees_schedules_and_chains():
    g = gradients(12, 4)
    tree = {"a": jnp.zeros(4), "b": {"c": jnp.zeros((2, 2))}}
    *_, last = run(optax.chain(optax.identity(), adahb(lambda n: 0.1 / (1 + n), steps_per_epoch=4)), tree, g)
    np.testing.assert_allclose(last["a"], last["b"]["c"].ravel())
    *_, plain = run(scale_by_adahb(steps_per_epoch=4), tree, g)
    *_, scaled = run(adahb(0.1, steps_per_epoch=4), tree, g)
    np.testing.assert_allclose(0.1 * plain["a"], scaled["a"], rtol=1e-5)


def test_compiled_equals_interpreted():
    g = gradients(9)
    for a, b in zip(
        run(adahb(0.1, steps_per_epoch=3), jnp.zeros(5), g),
        run(adahb(0.1, steps_per_epoch=3), jnp.zeros(5), g, jit=False),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_half_precision_keeps_a_wide_state():
    optimizer = adahb(0.01, steps_per_epoch=3)
    w = jnp.ones(3, jnp.float16)
    state = optimizer.init(w)
    moves, state = optimizer.update(jnp.full(3, 1e-5, jnp.float16), state)
    assert state.square_avg.dtype == jnp.float32
    assert moves.dtype == jnp.float16
    np.testing.assert_allclose(np.asarray(moves, np.float32), -0.01 / (3 * 0.1**0.5), rtol=1e-2)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"steps_per_epoch": 0}, "steps_per_epoch"),
        ({"steps_per_epoch": 1.5}, "steps_per_epoch"),
        ({"steps_per_epoch": 1, "gamma": 0.0}, "gamma"),
        ({"steps_per_epoch": 1, "gamma": 1.1}, "gamma"),
        ({"steps_per_epoch": 1, "delta": -1.0}, "delta"),
        ({"steps_per_epoch": 1, "learning_rate": -1.0}, "learning_rate"),
    ],
)
def test_wrong_options_are_named(options, name):
    with pytest.raises(ValueError, match=f"{name} must be"):
        adahb(**{"learning_rate": 0.1, **options})


def test_complex_parameters_are_refused():
    with pytest.raises(TypeError, match="must be real, got complex64"):
        adahb(0.1, steps_per_epoch=1).init({"w": jnp.zeros(2, jnp.complex64)})
