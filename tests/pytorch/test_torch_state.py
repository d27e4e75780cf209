"""States survive saving, loading into other types, pickling and copying; t goes with them."""

import copy
import io
import pickle

import pytest

pytest.importorskip("torch.optim", reason="torch is not installed")

import torch

from finitesum.constraints import L1Ball, L2Ball
from finitesum.torch import HB, AdaHB, EachRow, EpochT
from finitesum.torch.projections import describe

BOTH = pytest.mark.parametrize("optimizer_class", [AdaHB, HB])
HOW = pytest.mark.parametrize(
    "how", [{}, {"foreach": False}, {"fused": True}, {"capturable": True}, {"capturable": True, "foreach": False}], ids=str
)


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2)).double()


def train(net, optimizer, n_steps, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(n_steps):
        optimizer.zero_grad()
        x = torch.randn(5, 4, generator=generator, dtype=torch.float64)
        net(x.to(next(net.parameters()).dtype)).square().sum().backward()
        optimizer.step()


def assert_same(a, b):
    for p, q in zip(a.parameters(), b.parameters(), strict=True):
        assert torch.equal(p, q)


def through_a_file(state, **options):
    buffer = io.BytesIO()
    torch.save(state, buffer)
    buffer.seek(0)
    return torch.load(buffer, **options)


@BOTH
@HOW
def test_resumed_equals_uninterrupted(optimizer_class, how):
    """In the middle of an epoch, through a file that holds nothing but tensors and plain values."""
    whole = model()
    optimizer = optimizer_class(whole.parameters(), steps_per_epoch=4, weight_decay=0.1, **how)
    train(whole, optimizer, 10)
    part = copy.deepcopy(whole)
    resumed = optimizer_class(part.parameters(), steps_per_epoch=99, **how)
    resumed.load_state_dict(through_a_file(optimizer.state_dict(), weights_only=True))
    assert resumed.param_groups[0]["steps_per_epoch"] == 4
    train(whole, optimizer, 10, seed=1)
    train(part, resumed, 10, seed=1)
    assert_same(whole, part)
    assert resumed.epoch == optimizer.epoch == 5


@BOTH
def test_state_may_move_between_implementations(optimizer_class):
    whole = model()
    optimizer = optimizer_class(whole.parameters(), steps_per_epoch=4, capturable=True)
    train(whole, optimizer, 6)
    for how in ({}, {"fused": True}, {"foreach": False}):
        part = copy.deepcopy(whole)
        saved = optimizer.state_dict()
        saved["param_groups"][0].update({"capturable": False, "foreach": None, "fused": None, **how})
        other = optimizer_class(part.parameters(), steps_per_epoch=4, **how)
        other.load_state_dict(saved)
        reference = copy.deepcopy(whole)
        twin = optimizer_class(reference.parameters(), steps_per_epoch=4)
        twin.load_state_dict(saved)
        train(part, other, 3)
        train(reference, twin, 3)
        for p, q in zip(part.parameters(), reference.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-13, atol=1e-14)


@BOTH
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_loading_into_another_type_keeps_the_state_precise(optimizer_class, dtype):
    net = model()
    optimizer = optimizer_class(net.parameters(), steps_per_epoch=4)
    train(net, optimizer, 6)
    narrow = copy.deepcopy(net).to(dtype)
    other = optimizer_class(narrow.parameters(), steps_per_epoch=4)
    other.load_state_dict(optimizer.state_dict())
    for p, q in zip(net.parameters(), narrow.parameters(), strict=True):
        for name, value in optimizer.state[p].items():
            assert other.state[q][name].dtype == torch.float32
            torch.testing.assert_close(other.state[q][name], value.float(), rtol=0, atol=0)
    train(narrow, other, 2)


@BOTH
def test_half_precision_round_trip_is_exact(optimizer_class):
    net = model().to(torch.bfloat16)
    optimizer = optimizer_class(net.parameters(), steps_per_epoch=4)
    train(net, optimizer, 6)
    twin = copy.deepcopy(net)
    other = optimizer_class(twin.parameters(), steps_per_epoch=4)
    other.load_state_dict(optimizer.state_dict())
    train(net, optimizer, 6, seed=1)
    train(twin, other, 6, seed=1)
    assert_same(net, twin)


@BOTH
def test_complex_state_round_trip(optimizer_class):
    def run(z, optimizer, n):
        for _ in range(n):
            z.grad = z.detach() * (1 + 2j)
            optimizer.step()

    z = torch.nn.Parameter(torch.randn(3, dtype=torch.complex64))
    optimizer = optimizer_class([z], steps_per_epoch=2)
    run(z, optimizer, 5)
    y = torch.nn.Parameter(z.detach().clone())
    other = optimizer_class([y], steps_per_epoch=2)
    other.load_state_dict(optimizer.state_dict())
    run(z, optimizer, 5)
    run(y, other, 5)
    assert torch.equal(z, y)


@BOTH
def test_loading_copies(optimizer_class):
    net = model()
    optimizer = optimizer_class(net.parameters(), steps_per_epoch=4)
    train(net, optimizer, 2)
    saved = optimizer.state_dict()
    kept = copy.deepcopy(saved)
    other_net = copy.deepcopy(net)
    other = optimizer_class(other_net.parameters(), steps_per_epoch=4)
    other.load_state_dict(saved)
    train(other_net, other, 3)
    for key, state in kept["state"].items():
        for name, value in state.items():
            assert torch.equal(saved["state"][key][name], value)


@BOTH
def test_pickle_and_deepcopy(optimizer_class):
    net = model()
    optimizer = optimizer_class(net.parameters(), steps_per_epoch=4, constraint=L2Ball(5.0))
    train(net, optimizer, 6)
    for clone in (copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))):
        twin_net, twin = clone((net, optimizer))
        assert twin.epoch == 2
        assert type(twin) is optimizer_class
        assert twin.epoch_end() is None
        original, original_optimizer = copy.deepcopy((net, optimizer))
        train(twin_net, twin, 5, seed=1)
        train(original, original_optimizer, 5, seed=1)
        assert_same(twin_net, original)


@BOTH
def test_older_states_get_the_defaults(optimizer_class):
    net = model()
    optimizer = optimizer_class(net.parameters(), steps_per_epoch=4)
    train(net, optimizer, 2)
    saved = optimizer.state_dict()
    for key in ("maximize", "fused", "interpolate", "t", "constraint", "decoupled_weight_decay"):
        del saved["param_groups"][0][key]
    optimizer.load_state_dict(saved)
    train(net, optimizer, 2)


def test_t_of_a_scheduler_is_saved():
    net = model()
    for capturable in (False, True):
        optimizer = AdaHB(net.parameters(), steps_per_epoch=None, capturable=capturable)
        scheduler = EpochT(optimizer)
        train(net, optimizer, 2)
        scheduler.step()
        other = AdaHB(net.parameters(), steps_per_epoch=None, capturable=capturable)
        saved = optimizer.state_dict()
        other.load_state_dict(saved)
        assert other.param_groups[0]["t"] == 2.0
        assert isinstance(other.param_groups[0]["t"], torch.Tensor) == capturable
        scheduler.step()
        assert other.param_groups[0]["t"] == 2.0


def test_constraints_are_given_again_and_compared():
    w = torch.nn.Parameter(torch.ones(3))
    optimizer = AdaHB([w], steps_per_epoch=4, constraint=L1Ball(2.0))
    saved = through_a_file(optimizer.state_dict(), weights_only=True)
    assert saved["param_groups"][0]["constraint"] == "L1Ball(radius=2.0)"
    assert optimizer.param_groups[0]["constraint"] == L1Ball(2.0)
    same = AdaHB([w], steps_per_epoch=4, constraint=L1Ball(2.0))
    same.load_state_dict(saved)
    assert same.param_groups[0]["constraint"] == L1Ball(2.0)
    other = AdaHB([w], steps_per_epoch=4, constraint=EachRow(L2Ball(2.0)))
    with pytest.warns(UserWarning, match="saved under the constraint L1Ball"):
        other.load_state_dict(saved)
    without = AdaHB([w], steps_per_epoch=4)
    with pytest.warns(UserWarning, match="loaded under none"):
        without.load_state_dict(saved)
    assert without.param_groups[0]["constraint"] is None
    assert describe(EachRow(L2Ball(2.0))) == "each row: L2Ball(radius=2.0)"


@BOTH
def test_step_hooks_and_state_hooks(optimizer_class):
    net = model()
    optimizer = optimizer_class(net.parameters(), steps_per_epoch=4)
    seen = []
    optimizer.register_step_pre_hook(lambda *_: seen.append("before"))
    optimizer.register_step_post_hook(lambda *_: seen.append("after"))
    optimizer.register_state_dict_pre_hook(lambda *_: seen.append("saving"))
    optimizer.register_state_dict_post_hook(lambda *_: seen.append("saved"))
    train(net, optimizer, 1)
    saved = optimizer.state_dict()
    assert seen == ["before", "after", "saving", "saved"]

    def exchange(_, given):
        return {**given, "param_groups": [{**group, "lr": 0.5} for group in given["param_groups"]]}

    def complete(loaded):
        seen.append(loaded.state[next(net.parameters())]["momentum_buffer"].dtype)

    net.to(torch.bfloat16)
    other = optimizer_class(net.parameters(), steps_per_epoch=4)
    other.register_load_state_dict_pre_hook(exchange)
    other.register_load_state_dict_post_hook(complete)
    other.load_state_dict(saved)
    assert other.param_groups[0]["lr"] == 0.5
    assert seen[-1] == torch.float32
    assert len(other._optimizer_load_state_dict_pre_hooks) == 1


@BOTH
def test_named_parameters(optimizer_class):
    net = model()
    optimizer = optimizer_class(net.named_parameters(), steps_per_epoch=4)
    train(net, optimizer, 3)
    saved = optimizer.state_dict()
    assert saved["param_groups"][0]["param_names"] == [name for name, _ in net.named_parameters()]
    twin = copy.deepcopy(net)
    other = optimizer_class(twin.named_parameters(), steps_per_epoch=4)
    other.load_state_dict(saved)
    train(net, optimizer, 3, seed=1)
    train(twin, other, 3, seed=1)
    assert_same(net, twin)


@BOTH
def test_shows_its_options(optimizer_class):
    text = repr(optimizer_class(model().parameters(), steps_per_epoch=4))
    assert optimizer_class.__name__ in text
    assert "steps_per_epoch: 4" in text


@BOTH
def test_module_cast_after_construction(optimizer_class):
    """The state keeps its type; w is rounded to the new one."""
    net = model()
    optimizer = optimizer_class(net.parameters(), steps_per_epoch=4)
    train(net, optimizer, 3)
    net.float()
    train(net, optimizer, 3)
    assert all(p.dtype == torch.float32 and p.isfinite().all() for p in net.parameters())
