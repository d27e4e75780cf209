"""Projections equal the library's own; the convex mode solves constrained problems and keeps the true displacement."""

import numpy as np
import pytest

pytest.importorskip("torch.optim", reason="torch is not installed")

import torch

from finitesum.constraints import (
    CONSTRAINTS,
    Box,
    HalfSpace,
    L1Ball,
    L2Ball,
    LInfBall,
    NonNegative,
    Polyhedron,
    Simplex,
    Unconstrained,
)
from finitesum.torch import HB, AdaHB, EachRow
from finitesum.torch.projections import Projector

BOTH = pytest.mark.parametrize("optimizer_class", [AdaHB, HB])
D = 23


def sets(d=D):
    rng = np.random.default_rng(0)
    return [
        L1Ball(1.5),
        L1Ball(1.5, weights=rng.uniform(0.5, 2.0, d)),
        L2Ball(0.7),
        LInfBall(0.3),
        Box(-0.1, 0.4),
        Box(-rng.random(d), rng.random(d)),
        NonNegative(),
        Unconstrained(),
        Simplex(2.0),
        HalfSpace(rng.standard_normal(d), -1.0),
        Polyhedron.increasing(range(d), d),
    ]


def name_of(constraint):
    return type(constraint).__name__


def test_every_set_of_the_library_is_known():
    assert {name_of(s) for s in sets()} == set(CONSTRAINTS)


@pytest.mark.parametrize("constraint", sets(), ids=name_of)
@pytest.mark.parametrize("decades", [None, 0, 2, 10], ids=lambda k: f"metric over {k} decades")
def test_projections_equal_the_librarys(constraint, decades):
    rng = np.random.default_rng(1)
    for scale in (0.01, 1.0, 100.0):
        x = scale * rng.standard_normal(D)
        metric = None if decades is None else 10 ** rng.uniform(-decades, 0, D)
        expected = constraint.project(x, metric)
        s = None if metric is None else torch.tensor(metric)
        actual = Projector(constraint)(torch.tensor(x), s).numpy()
        loose = 1e-7 if decades == 10 else 1e-12
        np.testing.assert_allclose(actual, expected, rtol=loose, atol=loose * scale)
        assert constraint.contains(actual)


@pytest.mark.parametrize("constraint", [s for s in sets() if s.dim is None], ids=name_of)
def test_projections_of_tiny_and_long_tensors(constraint):
    rng = np.random.default_rng(2)
    for d in (1, 2, 5000):
        x, s = rng.standard_normal(d), rng.uniform(0.1, 1.0, d)
        actual = Projector(constraint)(torch.tensor(x), torch.tensor(s)).numpy()
        np.testing.assert_allclose(actual, constraint.project(x, s), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("constraint", sets(), ids=name_of)
def test_projections_keep_type_and_shape_and_argument(constraint):
    x = torch.randn(D, 1)
    before = x.clone()
    y = Projector(constraint)(x, torch.rand(D, 1) + 0.1)
    assert y.dtype == torch.float32
    assert y.shape == x.shape
    assert torch.equal(x, before)
    assert constraint.contains(y.numpy().ravel().astype(float), 1e-6)
    assert Projector(Unconstrained())(torch.empty(0), None).shape == (0,)


@pytest.mark.parametrize("constraint", sets(5), ids=name_of)
def test_each_row_is_projected_by_itself(constraint):
    x, s = torch.randn(4, 5, dtype=torch.float64), torch.rand(4, 5, dtype=torch.float64) + 0.1
    rows = Projector(EachRow(constraint))(x, s)
    for row, one, metric in zip(rows, x, s, strict=True):
        torch.testing.assert_close(row, Projector(constraint)(one, metric), rtol=1e-12, atol=1e-14)


@BOTH
@pytest.mark.parametrize("constraint", sets(), ids=name_of)
@pytest.mark.parametrize("how", [{"foreach": False}, {"foreach": True}, {"capturable": True}], ids=str)
def test_each_constrained_step_equals_the_oracle(optimizer_class, constraint, how, oracle):
    """For 40 steps: on the l1 ball and the simplex a rounding error grows to 1e-3 within 1,000 steps."""
    rng = np.random.default_rng(3)
    start, gradients = constraint.start(D), rng.standard_normal((40, D))
    adaptive = {"gamma": 0.9, "delta": 1e-3} if optimizer_class is AdaHB else {}
    w = torch.nn.Parameter(torch.tensor(start))
    optimizer = optimizer_class([w], lr=0.3, steps_per_epoch=1, constraint=constraint, **adaptive, **how)
    path = oracle.iterates(
        start,
        gradients,
        alpha=0.3,
        times=range(1, 41),
        project=constraint.project if adaptive else _euclidean(constraint),
        **adaptive,
    )
    for gradient, (expected, _) in zip(gradients, path, strict=True):
        w.grad = torch.tensor(gradient)
        before = w.detach().clone()
        optimizer.step()
        np.testing.assert_allclose(w.detach().numpy(), expected, rtol=1e-9, atol=1e-10)
        torch.testing.assert_close(optimizer.state[w]["momentum_buffer"], before - w.detach(), rtol=1e-9, atol=1e-12)
        assert constraint.contains(w.detach().numpy())


def _euclidean(constraint):
    return lambda x, s: constraint.project(x)


@BOTH
@pytest.mark.parametrize("foreach", [False, True])
def test_a_constraint_that_never_acts_changes_no_bit(optimizer_class, foreach):
    free, held = (torch.nn.Parameter(torch.zeros(3)) for _ in range(2))
    a = optimizer_class([free], lr=0.1, steps_per_epoch=2, foreach=foreach)
    b = optimizer_class([held], lr=0.1, steps_per_epoch=2, foreach=foreach, constraint=L1Ball(1e3))
    for _ in range(50):
        free.grad = torch.randn(3)
        held.grad = free.grad.clone()
        a.step()
        b.step()
    assert torch.equal(free, held)


@BOTH
def test_a_start_outside_is_no_displacement(optimizer_class):
    w = torch.nn.Parameter(torch.tensor([100.0, 0.0]))
    optimizer = optimizer_class([w], lr=0.3, steps_per_epoch=1, constraint=L2Ball(1.0))
    w.grad = torch.tensor([1.0, 0.0])
    optimizer.step()
    assert 0.5 < w[0].item() < 1.0
    assert optimizer.state[w]["momentum_buffer"].abs().max() < 0.5


def test_counterexample_to_the_euclidean_projection():
    """min g.w over the unit l1 ball, g = (1, 0.9): the printed method ends at -0.95 for every step size."""
    g = torch.tensor([1.0, 0.9], dtype=torch.float64)

    class EuclideanL1:
        def project_(self, tensor, metric):
            tensor.copy_(Projector(L1Ball(1.0))(tensor, None))

    values = {}
    for name, constraint in {"metric": L1Ball(1.0), "euclidean": EuclideanL1()}.items():
        w = torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))
        optimizer = AdaHB([w], lr=0.3, gamma=0.9, steps_per_epoch=1, constraint=constraint)
        for _ in range(1000):
            w.grad = g.clone()
            optimizer.step()
        values[name] = (g @ w.detach()).item()
    assert values["euclidean"] == pytest.approx(-0.95, abs=1e-6)
    assert values["metric"] == pytest.approx(-1.0, abs=1e-6)


def harvey(w, a, b):
    """Value and subgradient of max_i <h_i, w>; of several maximisers the first."""
    before = np.concatenate([[0.0], np.cumsum(a * w)])
    values = np.append(before[:-1] - b * w, before[-1])
    i = int(np.argmax(values))
    gradient = np.where(np.arange(w.size) < i, a, 0.0)
    if i < w.size:
        gradient[i] = -b[i]
    return values[i], gradient


def test_harveys_function_to_six_digits():
    """HB with alpha = 8 on the unit ball after T = 1000 steps: no log factor (projected subgradient ends at 0.00503)."""
    n, c = 1000, 2.0
    i = np.arange(1, n + 1)
    a, b = 1 / (8 * c * (n - i + 1)), np.sqrt(i) / (2 * c * np.sqrt(n))
    w = torch.nn.Parameter(torch.zeros(n, dtype=torch.float64))
    optimizer = HB([w], lr=8.0, steps_per_epoch=1, constraint=L2Ball(1.0))
    for _ in range(n):
        value, gradient = harvey(w.detach().numpy(), a, b)
        w.grad = torch.tensor(gradient)
        optimizer.step()
    assert value == pytest.approx(0.00327224, abs=5e-9)
    assert harvey(w.detach().numpy(), a, b)[0] == pytest.approx(0.00329237, abs=5e-9)


@pytest.mark.parametrize("constraint", [L1Ball(2.0), L2Ball(0.8), LInfBall(0.4), Box(-0.2, 0.9), Simplex()], ids=name_of)
def test_last_iterate_solves_a_constrained_problem(constraint):
    """Least squares with all rows at once: the optimum is a fixed point of the projected gradient step."""
    torch.manual_seed(0)
    x = torch.randn(60, 6, dtype=torch.float64)
    y = x @ torch.linspace(-1, 1, 6, dtype=torch.float64)
    w = torch.nn.Parameter(torch.tensor(constraint.start(6)))
    optimizer = AdaHB([w], lr=0.3, gamma=0.9, delta=1e-3, steps_per_epoch=1, constraint=constraint)
    for _ in range(1500):
        optimizer.zero_grad()
        (0.5 * (x @ w - y).square().mean()).backward()
        optimizer.step()

    def residual(point):
        gradient = x.numpy().T @ (x.numpy() @ point - y.numpy()) / 60
        return np.linalg.norm(point - constraint.project(point - gradient))

    solution = w.detach().numpy()
    assert constraint.contains(solution)
    assert residual(solution) < 0.02 < 0.1 * residual(constraint.start(6))


@BOTH
def test_groups_have_constraints_of_their_own(optimizer_class):
    free, ball, rows = (torch.nn.Parameter(torch.randn(3, 4)) for _ in range(3))
    groups = [
        {"params": [free]},
        {"params": [ball], "constraint": L2Ball(0.5)},
        {"params": [rows], "constraint": EachRow(L2Ball(0.5))},
    ]
    optimizer = optimizer_class(groups, lr=1.0, steps_per_epoch=3)
    for _ in range(5):
        for p in (free, ball, rows):
            p.grad = torch.randn(3, 4)
        optimizer.step()
    assert free.norm() > 0.6
    assert ball.norm() < 0.501
    assert rows.norm(dim=1).max() < 0.501
    assert rows.norm() > 0.6


def test_half_precision_parameters_are_held_too():
    w = torch.nn.Parameter(torch.zeros(8, dtype=torch.bfloat16))
    optimizer = AdaHB([w], lr=0.5, steps_per_epoch=5, constraint=L1Ball(1.0))
    for _ in range(50):
        w.grad = torch.randn(8).bfloat16()
        optimizer.step()
    assert w.float().abs().sum() <= 1.0 + 8 * 2**-9
    assert optimizer.state[w]["momentum_buffer"].dtype == torch.float32


@pytest.mark.parametrize(
    ("param", "constraint", "message"),
    [
        (torch.zeros(3, dtype=torch.complex64), L2Ball(1.0), "holds real parameters only"),
        (torch.zeros(3), HalfSpace([1.0, 2.0], 1.0), "made for 2 variables"),
        (torch.zeros(2, 3), EachRow(Box([0.0] * 6, 1.0)), "has 3 in a row"),
        (torch.zeros(2), L1Ball(1.0, weights=[1.0] * 3), "made for 3 variables"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(param, constraint, message):
    with pytest.raises(ValueError, match=message):
        AdaHB([torch.nn.Parameter(param)], steps_per_epoch=1, constraint=constraint)


def test_sharded_parameters_take_separable_sets_only():
    class Sharded(torch.nn.Parameter):
        device_mesh = "two ranks"

    with pytest.raises(ValueError, match="sharded"):
        HB([Sharded(torch.zeros(2))], steps_per_epoch=1, constraint=L1Ball(1.0))
    HB([Sharded(torch.zeros(2))], steps_per_epoch=1, constraint=Box(0.0, 1.0))


def test_a_set_of_the_users_own():
    class EvenSum:
        """{sum = 0}, in the metric."""

        def project_(self, tensor, metric):
            inverse = torch.ones_like(tensor) if metric is None else 1 / metric
            tensor -= tensor.sum() / inverse.sum() * inverse

    w = torch.nn.Parameter(torch.randn(4, dtype=torch.float64))
    optimizer = AdaHB([w], steps_per_epoch=1, constraint=EvenSum())
    for _ in range(5):
        w.grad = torch.randn(4, dtype=torch.float64)
        optimizer.step()
        assert abs(w.sum().item()) < 1e-12
