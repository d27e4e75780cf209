"""Every implementation computes the same update, and the update is the one of the equations."""

import numpy as np
import pytest

pytest.importorskip("torch.optim", reason="torch is not installed")

import torch

from finitesum.torch import HB, AdaHB, fused as fused_module

BOTH = pytest.mark.parametrize("optimizer_class", [AdaHB, HB])
REFERENCE = {"foreach": False}
IMPLEMENTATIONS = {
    "default": {},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
    "capturable": {"capturable": True, "foreach": False},
    "capturable foreach": {"capturable": True, "foreach": True},
    "capturable fused": {"capturable": True, "fused": True},
}
OPTIONS = {
    "plain": {},
    "coupled": {"weight_decay": 0.1},
    "decoupled": {"weight_decay": 0.1, "decoupled_weight_decay": True},
    "maximize": {"weight_decay": 0.1, "maximize": True},
    "interpolate": {"interpolate": True},
    "no decay": {"decay": "none", "weight_decay": 0.1, "decoupled_weight_decay": True},
    "steps": {"steps_per_epoch": 1},
    "lr tensor": {"lr": torch.tensor(0.03)},
}
SHAPES = [(3, 4), (5,), (), (0,), (2, 3, 3, 3)]


def parameters(dtype):
    params = [torch.nn.Parameter(torch.randn(shape, dtype=dtype)) for shape in SHAPES]
    params.append(torch.nn.Parameter(torch.randn(2, 3, 4, 5, dtype=dtype).to(memory_format=torch.channels_last)))
    params.append(torch.nn.Parameter(torch.randn(4, 6, dtype=dtype).t()))
    params.append(torch.nn.Parameter(torch.randn(4, 6, dtype=dtype)[:, ::2]))
    return params


def trained(optimizer_class, dtype, n_steps=100, **options):
    """Return all parameters after random gradients, some of them missing, some with another layout, some exactly 0."""
    torch.manual_seed(1)
    params = parameters(dtype)
    optimizer = optimizer_class(params, **{"steps_per_epoch": 7, "lr": 0.02, **options})
    for step in range(n_steps):
        for index, p in enumerate(params):
            p.grad = None if (step + index) % 5 == 4 else torch.randn(p.shape, dtype=dtype)
            if index == 0 and p.grad is not None:
                p.grad[0] = 0
        optimizer.step()
    return torch.cat([p.detach().flatten() for p in params])


@BOTH
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
def test_all_implementations_equal_the_reference_in_double(optimizer_class, options):
    expected = trained(optimizer_class, torch.float64, **REFERENCE, **options)
    for name, how in IMPLEMENTATIONS.items():
        actual = trained(optimizer_class, torch.float64, **how, **options)
        torch.testing.assert_close(actual, expected, rtol=1e-13, atol=1e-14, msg=lambda m, name=name: f"{name}: {m}")


@BOTH
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64, torch.complex128, torch.bfloat16, torch.float16])
def test_all_implementations_equal_the_reference_in_every_type(optimizer_class, dtype):
    options = {"weight_decay": 0.1, "decoupled_weight_decay": True}
    expected = trained(optimizer_class, dtype, **REFERENCE, **options)
    resolution = torch.finfo(dtype).eps
    for name, how in IMPLEMENTATIONS.items():
        actual = trained(optimizer_class, dtype, **how, **options)
        assert actual.dtype == dtype
        torch.testing.assert_close(
            actual, expected, rtol=8 * resolution, atol=8 * resolution, msg=lambda m, name=name: f"{name}: {m}"
        )


@pytest.mark.parametrize("how", IMPLEMENTATIONS.values(), ids=IMPLEMENTATIONS.keys())
def test_delta_zero_leaves_what_has_no_gradient(how):
    w = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    optimizer = AdaHB([w], lr=0.1, delta=0.0, gamma=1.0, steps_per_epoch=1, **how)
    w.grad = torch.tensor([0.0, 1e-6])
    optimizer.step()
    torch.testing.assert_close(w.detach(), torch.tensor([1.0, 2.0 - 0.1 / 3]))


@BOTH
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS.keys())
@pytest.mark.parametrize("how", [REFERENCE, {"foreach": True}, {"fused": True}], ids=["reference", "foreach", "fused"])
def test_each_step_equals_the_oracle(optimizer_class, options, how, oracle):
    rng = np.random.default_rng(0)
    n = options.get("steps_per_epoch", 7)
    w0, gradients = rng.standard_normal(11), rng.standard_normal((60, 11))
    decay, is_decoupled = options.get("weight_decay", 0.0), options.get("decoupled_weight_decay", False)
    adaptive = {"gamma": 0.3, "delta": 1e-3} if optimizer_class is AdaHB else {}
    w = torch.nn.Parameter(torch.tensor(w0))
    alpha = float(options.get("lr", 0.05))
    optimizer = optimizer_class([w], **{"lr": 0.05, "steps_per_epoch": n, **options, **how}, **adaptive)
    sign = -1 if options.get("maximize") else 1
    path = oracle.iterates(
        w0,
        sign * gradients,
        alpha=alpha,
        times=[oracle.time_of(k, n, options.get("interpolate", False)) for k in range(1, 61)],
        sqrt_decay=options.get("decay", "sqrt") == "sqrt",
        coupled=0.0 if is_decoupled else decay,
        decoupled=decay if is_decoupled else 0.0,
        **adaptive,
    )
    for gradient, (expected, second) in zip(gradients, path, strict=True):
        w.grad = torch.tensor(gradient)
        optimizer.step()
        np.testing.assert_allclose(w.detach().numpy(), expected, rtol=1e-12, atol=1e-12)
        if adaptive:
            np.testing.assert_allclose(optimizer.state[w]["square_avg"].numpy(), second, rtol=1e-12, atol=1e-300)


@BOTH
def test_complex_parameters_are_pairs_of_real_ones(optimizer_class):
    z = torch.nn.Parameter(torch.randn(4, 3, dtype=torch.complex128))
    pair = torch.nn.Parameter(torch.view_as_real(z.detach()).clone())
    optimizer = optimizer_class([z, pair], steps_per_epoch=5)
    for _ in range(20):
        z.grad = torch.randn_like(z)
        pair.grad = torch.view_as_real(z.grad)
        optimizer.step()
    assert optimizer.state[z]["momentum_buffer"].shape == z.shape
    torch.testing.assert_close(torch.view_as_real(z.detach()), pair.detach(), rtol=0, atol=0)


@BOTH
def test_mixed_types_in_one_group(optimizer_class):
    dtypes = [torch.float64, torch.float32, torch.bfloat16, torch.complex64]
    whole = [torch.nn.Parameter(torch.ones(3, dtype=dtype)) for dtype in dtypes]
    alone = [torch.nn.Parameter(torch.ones(3, dtype=dtype)) for dtype in dtypes]
    one = optimizer_class(whole, steps_per_epoch=2)
    several = [optimizer_class([p], steps_per_epoch=2) for p in alone]
    for _ in range(10):
        for p, q in zip(whole, alone, strict=True):
            p.grad = torch.randn_like(p)
            q.grad = p.grad.clone()
        one.step()
        for optimizer in several:
            optimizer.step()
    for p, q in zip(whole, alone, strict=True):
        assert torch.equal(p, q)


@BOTH
def test_fused_pieces_for_several_threads_change_nothing(optimizer_class, monkeypatch):
    def one_run(n_threads):
        torch.manual_seed(0)
        monkeypatch.setattr(torch, "get_num_threads", lambda: n_threads)
        w = torch.nn.Parameter(torch.randn(1000))
        optimizer = optimizer_class([w], steps_per_epoch=3, fused=True)
        for _ in range(10):
            w.grad = torch.randn(1000)
            optimizer.step()
        return w.detach()

    monkeypatch.setattr(fused_module, "PIECE", 100)
    assert torch.equal(one_run(1), one_run(3))


@BOTH
def test_gradients_are_left_as_they_are(optimizer_class):
    for how in IMPLEMENTATIONS.values():
        w = torch.nn.Parameter(torch.ones(3))
        w.grad = torch.tensor([1.0, 2.0, 3.0])
        optimizer_class([w], steps_per_epoch=1, weight_decay=0.1, maximize=True, **how).step()
        assert w.grad.tolist() == [1.0, 2.0, 3.0]


@BOTH
@pytest.mark.parametrize("how", [{}, {"fused": True}, {"foreach": False}], ids=["default", "fused", "reference"])
def test_low_precision_state_is_float32_and_does_not_stall(optimizer_class, how):
    adaptive = optimizer_class is AdaHB
    w = torch.nn.Parameter(torch.zeros(2, dtype=torch.bfloat16))
    h = torch.nn.Parameter(torch.zeros(2, dtype=torch.float16))
    optimizer = optimizer_class([w, h], lr=1.0, steps_per_epoch=1, **how)
    for k in range(300):
        w.grad = torch.full_like(w, 1.0 if k < 50 else 2.0)
        h.grad = torch.full_like(h, 1e-5)  # its square is 0 in float16, and so is delta
        optimizer.step()
    assert h.isfinite().all()
    for p in (w, h):
        assert optimizer.state[p]["momentum_buffer"].dtype == torch.float32
    if adaptive:
        v = 0.0
        for t in range(1, 301):
            v = (1 - 0.1 / t) * v + 0.1 / t * (1.0 if t <= 50 else 4.0)
        torch.testing.assert_close(optimizer.state[w]["square_avg"], torch.full((2,), v), rtol=1e-4, atol=0)
        assert (h < -0.1).all()


@BOTH
def test_equal_to_the_averaging_form_while_t_counts_steps(optimizer_class):
    """z_{t+1} = z_t - alpha/sqrt(t) g/s and w_{t+1} = ((t+1) w_t + z_{t+1}) / (t+2) make the same iterates."""
    w = torch.nn.Parameter(torch.randn(6, dtype=torch.float64))
    start, target = w.detach().clone(), torch.randn(6, dtype=torch.float64)
    optimizer = optimizer_class([w], lr=0.3, steps_per_epoch=1)
    average, z, v = start.clone(), start.clone(), torch.zeros_like(start)
    for t in range(1, 1001):
        w.grad = w.detach() - target
        optimizer.step()
        g = average - target
        v = (1 - 0.1 / t) * v + 0.1 / t * g**2
        s = v.sqrt() + 1e-8 / t**0.5 if optimizer_class is AdaHB else 1.0
        z = z - 0.3 / t**0.5 * g / s
        average = ((t + 1) * average + z) / (t + 2)
    torch.testing.assert_close(w.detach(), average, rtol=1e-10, atol=1e-10)
