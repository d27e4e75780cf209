"""Options, param groups, refusals, closures, mixed precision, derivatives through the update."""

import copy

import numpy as np
import pytest

pytest.importorskip("torch.optim", reason="torch is not installed")

import torch

from finitesum.constraints import L2Ball
from finitesum.torch import HB, AdaHB, heavy_ball

BOTH = pytest.mark.parametrize("optimizer_class", [AdaHB, HB])
HOW = pytest.mark.parametrize("how", [{}, {"foreach": False}, {"fused": True}, {"capturable": True}], ids=str)


def one_parameter(*shape, dtype=torch.float64):
    return torch.nn.Parameter(torch.randn(shape or (3,), dtype=dtype))


@BOTH
@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"lr": -0.1}, ValueError, "lr must be >= 0, got -0.1"),
        ({"lr": float("nan")}, ValueError, "lr must be >= 0"),
        ({"lr": torch.ones(2)}, ValueError, "lr must be one number"),
        ({"steps_per_epoch": 0}, ValueError, "steps_per_epoch must be >= 1"),
        ({"steps_per_epoch": 97.5}, TypeError, "steps_per_epoch must be a whole number"),
        ({"steps_per_epoch": True}, TypeError, "steps_per_epoch must be a whole number"),
        ({"steps_per_epoch": [1, 2]}, TypeError, "Use len"),
        ({"steps_per_epoch": None, "interpolate": True}, ValueError, "interpolate=True needs steps_per_epoch"),
        ({"weight_decay": -1.0}, ValueError, "weight_decay must be >= 0"),
        ({"decay": "linear"}, ValueError, 'decay must be "sqrt" or "none"'),
        ({"foreach": True, "fused": True}, ValueError, "exclude each other"),
        ({"foreach": True, "differentiable": True}, ValueError, "differentiable=True has no foreach"),
        ({"fused": True, "differentiable": True}, ValueError, "differentiable=True has no foreach"),
        ({"fused": True, "constraint": L2Ball(1.0)}, ValueError, "fused=True has no projections"),
        ({"constraint": "l1"}, TypeError, "constraint must be a set"),
    ],
)
def test_wrong_options_are_refused(optimizer_class, wrong, error, message):
    with pytest.raises(error, match=message):
        optimizer_class([one_parameter()], **{"steps_per_epoch": 3, **wrong})


@pytest.mark.parametrize("wrong", [{"gamma": 0.0}, {"gamma": 1.5}, {"delta": -1e-8}])
def test_wrong_options_of_the_metric_are_refused(wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
        AdaHB([one_parameter()], steps_per_epoch=3, **wrong)


@BOTH
def test_a_refused_group_is_not_added(optimizer_class):
    optimizer = optimizer_class([one_parameter()], steps_per_epoch=3)
    with pytest.raises(ValueError, match="weight_decay"):
        optimizer.add_param_group({"params": [one_parameter()], "weight_decay": -1.0})
    assert len(optimizer.param_groups) == 1


@BOTH
def test_numpy_integers_count_as_whole_numbers(optimizer_class):
    optimizer = optimizer_class([one_parameter()], steps_per_epoch=np.int64(3))
    assert type(optimizer.param_groups[0]["steps_per_epoch"]) is int


@BOTH
def test_no_parameters(optimizer_class):
    with pytest.raises(ValueError, match="empty parameter list"):
        optimizer_class([], steps_per_epoch=3)
    with pytest.raises(TypeError, match="iterable of Tensors"):
        optimizer_class(torch.ones(2), steps_per_epoch=3)


@BOTH
@HOW
def test_sparse_gradients_are_refused(optimizer_class, how):
    embedding = torch.nn.Embedding(5, 2, sparse=True)
    optimizer = optimizer_class(embedding.parameters(), steps_per_epoch=3, **how)
    embedding(torch.tensor([1, 2])).sum().backward()
    before = embedding.weight.detach().clone()
    with pytest.raises(RuntimeError, match="sparse gradients are not supported"):
        optimizer.step()
    assert torch.equal(embedding.weight, before)
    assert not optimizer.state


def test_fused_refuses_what_it_cannot_do(monkeypatch):
    with pytest.raises(RuntimeError, match="on the CPU and on CUDA"):
        AdaHB([torch.nn.Parameter(torch.ones(2, device="meta"))], steps_per_epoch=3, fused=True)

    class Special(torch.nn.Parameter):
        pass

    with pytest.raises(RuntimeError, match="plain floating-point tensors, got Special"):
        AdaHB([Special(torch.ones(2))], steps_per_epoch=3, fused=True)
    monkeypatch.setattr(heavy_ball, "HAS_TRITON", False)
    AdaHB([one_parameter()], steps_per_epoch=3, fused=True)


@BOTH
def test_tensor_subclasses_take_the_reference(optimizer_class):
    class Special(torch.nn.Parameter):
        pass

    special, plain = Special(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
    for w in (special, plain):
        optimizer = optimizer_class([w], steps_per_epoch=3)
        for _ in range(3):
            w.grad = torch.ones(2)
            optimizer.step()
    torch.testing.assert_close(special.detach(), plain.detach())


@BOTH
@HOW
def test_param_groups_have_options_of_their_own(optimizer_class, how):
    a, b = one_parameter(), one_parameter()
    x, y = copy.deepcopy(a), copy.deepcopy(b)
    own = {"lr": 0.5, "weight_decay": 0.1, "steps_per_epoch": 2, "maximize": True, "decay": "none"}
    together = optimizer_class([{"params": [a]}, {"params": [b], **own}], lr=0.1, steps_per_epoch=5, **how)
    apart = optimizer_class([x], lr=0.1, steps_per_epoch=5, **how), optimizer_class([y], **own, **how)
    for _ in range(12):
        for p, q in ((a, x), (b, y)):
            p.grad = torch.randn_like(p)
            q.grad = p.grad.clone()
        together.step()
        for optimizer in apart:
            optimizer.step()
    assert torch.equal(a, x)
    assert torch.equal(b, y)


@BOTH
@HOW
def test_missing_gradients_leave_parameters_and_states(optimizer_class, how):
    a, b = one_parameter(), one_parameter()
    before = b.detach().clone()
    optimizer = optimizer_class([a, b], steps_per_epoch=2, **how)
    optimizer.step()
    assert not optimizer.state
    assert optimizer.epoch == 0
    a.grad = torch.ones_like(a)
    optimizer.step()
    assert torch.equal(b, before)
    assert b not in optimizer.state


@BOTH
@HOW
def test_empty_parameters(optimizer_class, how):
    w = one_parameter(0)
    optimizer = optimizer_class([w], steps_per_epoch=2, **how)
    for _ in range(3):
        w.grad = torch.empty_like(w)
        optimizer.step()
    assert w.numel() == 0


@BOTH
@HOW
def test_maximize_is_minimising_the_negative(optimizer_class, how):
    up, down = one_parameter(), None
    down = copy.deepcopy(up)
    climb = optimizer_class([up], steps_per_epoch=2, maximize=True, **how)
    descend = optimizer_class([down], steps_per_epoch=2, **how)
    for _ in range(10):
        up.grad = torch.randn_like(up)
        down.grad = -up.grad
        climb.step()
        descend.step()
    assert torch.equal(up, down)


@BOTH
@HOW
def test_closure(optimizer_class, how):
    w = one_parameter()
    optimizer = optimizer_class([w], lr=0.1, steps_per_epoch=1, **how)

    def closure():
        assert torch.is_grad_enabled()
        optimizer.zero_grad()
        loss = w.square().sum()
        loss.backward()
        return loss

    with torch.no_grad():
        losses = [optimizer.step(closure).item() for _ in range(50)]
    assert losses[-1] < 0.1 * losses[0]
    assert optimizer.step() is None


@BOTH
@HOW
def test_grad_scaler_skips_infinite_gradients(optimizer_class, how):
    w, twin = one_parameter(dtype=torch.float32), None
    twin = copy.deepcopy(w)
    optimizer = optimizer_class([w], steps_per_epoch=2, **how)
    plain = optimizer_class([twin], steps_per_epoch=2, **how)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    for k in range(6):
        optimizer.zero_grad()
        loss = (w * (float("inf") if k == 2 else 1.0)).square().sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if k != 2:
            plain.zero_grad()
            twin.square().sum().backward()
            plain.step()
    torch.testing.assert_close(w, twin)
    assert optimizer.n_updates == 5


@BOTH
def test_learns_under_autocast(optimizer_class):
    net = torch.nn.Linear(4, 1)
    optimizer = optimizer_class(net.parameters(), lr=0.1, steps_per_epoch=5)
    x = torch.randn(64, 4)
    y = x.sum(1, keepdim=True)
    losses = []
    for _ in range(100):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = torch.nn.functional.mse_loss(net(x).float(), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.2 * losses[0]


def _differentiated(optimizer_class, w, grad, state, lr, **options):
    w = w.clone()
    w.grad = grad
    optimizer = optimizer_class([w], lr=lr, steps_per_epoch=2, differentiable=True, **options)
    optimizer.state[w] = {"step": torch.tensor(3.0), **{name: x.clone() for name, x in state.items()}}
    optimizer.step()
    return (w, *(x for x in optimizer.state[w].values() if x.requires_grad))


@BOTH
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"weight_decay": 0.3},
        {"weight_decay": 0.3, "decoupled_weight_decay": True, "maximize": True},
        {"constraint": L2Ball(1.0)},
        {"capturable": True},
    ],
    ids=["plain", "coupled", "decoupled", "constraint", "capturable"],
)
def test_derivatives_through_an_update(optimizer_class, changes):
    w, grad, m, v = (torch.rand(4, dtype=torch.float64) + 0.5 for _ in range(4))
    lr = torch.tensor(0.3, dtype=torch.float64)
    inputs = [x.requires_grad_() for x in (w, grad, m, lr)]
    if optimizer_class is AdaHB:
        inputs.append(v.requires_grad_())

    def update(w, grad, m, lr, *v):
        state = {"momentum_buffer": m, **({"square_avg": v[0]} if v else {})}
        return _differentiated(optimizer_class, w, grad, state, lr, **changes)

    assert torch.autograd.gradcheck(update, inputs, fast_mode=True)


@BOTH
def test_derivatives_through_two_updates_reach_the_learning_rate(optimizer_class):
    def final(lr):
        w = torch.full((2,), 1.5, dtype=torch.float64, requires_grad=True).clone()
        optimizer = optimizer_class([w], lr=lr, steps_per_epoch=1, differentiable=True)
        for _ in range(3):
            w.grad = 2 * w.clone()
            optimizer.step()
        return w.square().sum()

    lr = torch.tensor(0.1, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(final(lr), lr)
    with torch.no_grad():
        expected = (final(lr + 1e-6) - final(lr - 1e-6)) / 2e-6
    torch.testing.assert_close(slope, expected, rtol=1e-6, atol=0)


def test_derivatives_are_finite_where_the_gradient_is_zero():
    w = torch.ones(2, dtype=torch.float64, requires_grad=True)
    grad = torch.tensor([0.0, 1.0], dtype=torch.float64, requires_grad=True)
    zeros = {"momentum_buffer": torch.zeros(2).double(), "square_avg": torch.zeros(2).double()}
    out = _differentiated(AdaHB, w, grad, zeros, 0.1)[0]
    assert all(x.isfinite().all() for x in torch.autograd.grad(out.sum(), (w, grad)))


@BOTH
def test_complex_parameters_are_differentiable_too(optimizer_class):
    z = torch.randn(3, dtype=torch.complex128, requires_grad=True)
    w = z.clone()
    w.grad = z * (1 + 1j)
    optimizer = optimizer_class([w], steps_per_epoch=1, differentiable=True)
    optimizer.step()
    (slope,) = torch.autograd.grad(w.abs().square().sum(), z)
    assert slope.isfinite().all()
    assert optimizer.state[w]["momentum_buffer"].is_complex()
