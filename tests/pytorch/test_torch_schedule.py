"""What t counts: epochs, steps, or what a scheduler says; and that a wrong count is noticed."""

import warnings

import pytest

pytest.importorskip("torch.optim", reason="torch is not installed")

import torch
from torch.optim import lr_scheduler

from finitesum.torch import HB, AdaHB, EpochLengthWarning, EpochT, epochs as epochs_module
from finitesum.torch.schedule import coefficients, time_of

BOTH = pytest.mark.parametrize("optimizer_class", [AdaHB, HB])


def one_parameter(value=1.0, size=3):
    return torch.nn.Parameter(torch.full((size,), value, dtype=torch.float64))


def step(optimizer, n=1):
    for _ in range(n):
        for group in optimizer.param_groups:
            for p in group["params"]:
                p.grad = torch.ones_like(p)
        optimizer.step()


@BOTH
def test_steps_per_epoch_must_be_chosen(optimizer_class):
    with pytest.raises(TypeError, match="steps_per_epoch"):
        optimizer_class([one_parameter()])


@pytest.mark.parametrize("n", [1, 2, 3, 7, 98, 1000])
def test_t_is_the_number_of_the_epoch_for_floats_and_tensors(n):
    group = {"steps_per_epoch": n, "interpolate": False}
    steps = torch.arange(1, 5 * n + 2, dtype=torch.float32)
    expected = [(k - 1) // n + 1 for k in range(1, 5 * n + 2)]
    assert [time_of(float(k), group) for k in steps] == expected
    assert time_of(steps, group).tolist() == expected
    assert [k for k in range(1, 5 * n + 2) if (k - 1) % n == 0] == [
        k for k, (before, now) in enumerate(zip([0, *expected], expected, strict=False), 1) if now > before
    ]


def test_t_is_exact_for_many_steps_in_float32():
    n = 391
    k = torch.tensor([n * 40_000.0, n * 40_000.0 + 1])
    assert time_of(k, {"steps_per_epoch": n, "interpolate": False}).tolist() == [40_000.0, 40_001.0]


def test_interpolated_t_meets_the_epochs():
    group = {"steps_per_epoch": 4, "interpolate": True}
    assert [time_of(float(k), group) for k in (1, 3, 5, 9)] == [1.0, 1.5, 2.0, 3.0]


@pytest.mark.parametrize("scheduled", [False, True])
def test_tensor_coefficients_equal_the_floats(scheduled):
    w = one_parameter()
    options = {"steps_per_epoch": None} if scheduled else {"steps_per_epoch": 4}
    group = AdaHB([w], weight_decay=0.1, decoupled_weight_decay=True, **options).param_groups[0]
    if scheduled:
        group["t"] = 7.0
    steps = torch.arange(1.0, 20.0, dtype=torch.float64)
    for name, column in coefficients(steps, group)._asdict().items():
        floats = [getattr(coefficients(float(k), group), name) for k in steps]
        torch.testing.assert_close(column.expand(19), torch.tensor(floats, dtype=torch.float64), rtol=1e-14, atol=0)


def test_first_coefficients_are_those_of_the_paper():
    group = AdaHB([one_parameter()], lr=1.0, steps_per_epoch=1).param_groups[0]
    first, second, third = (coefficients(float(k), group) for k in (1, 2, 3))
    assert (first.momentum, second.momentum, third.momentum) == pytest.approx((1 / 3, 1 / 2, 3 / 5))
    assert (first.step_size, second.step_size, third.step_size) == pytest.approx((1 / 3, 1 / 4 / 2**0.5, 1 / 5 / 3**0.5))
    assert (first.gain, second.gain) == pytest.approx((0.1, 0.05))


@BOTH
def test_epoch_shows_t(optimizer_class):
    optimizer = optimizer_class([one_parameter()], steps_per_epoch=4)
    seen = [optimizer.epoch]
    for _ in range(9):
        step(optimizer)
        seen.append(optimizer.epoch)
    assert seen == [0, 1, 1, 1, 1, 2, 2, 2, 2, 3]
    assert optimizer.n_updates == 9


@BOTH
def test_parameters_added_late_start_at_their_own_t(optimizer_class):
    old, new = one_parameter(), one_parameter()
    optimizer = optimizer_class([old], steps_per_epoch=2)
    step(optimizer, 20)
    optimizer.add_param_group({"params": [new]})
    step(optimizer, 5)
    alone = one_parameter()
    fresh = optimizer_class([alone], steps_per_epoch=2)
    step(fresh, 5)
    assert torch.equal(new, alone)
    assert optimizer.epoch == 13


@BOTH
@pytest.mark.parametrize("how", [{}, {"foreach": False}, {"fused": True}, {"capturable": True}], ids=str)
def test_first_move_of_a_late_parameter_is_not_too_long_when_a_scheduler_sets_t(optimizer_class, how):
    w = one_parameter(0.0)
    optimizer = optimizer_class([w], lr=1.0, steps_per_epoch=None, **how)
    epochs_module.set_t(optimizer.param_groups[0], 50.0)
    step(optimizer)
    torch.testing.assert_close(w.detach(), torch.full((3,), -1 / 52 / 50**0.5, dtype=torch.float64), rtol=1e-6, atol=0)
    step(optimizer)
    if optimizer_class is AdaHB:
        assert optimizer.state[w]["square_avg"].tolist() == pytest.approx([1.0] * 3)


@BOTH
@pytest.mark.parametrize("capturable", [False, True])
def test_epoch_t_equals_counting(optimizer_class, capturable):
    counted, scheduled = one_parameter(), one_parameter()
    a = optimizer_class([counted], steps_per_epoch=3)
    b = optimizer_class([scheduled], steps_per_epoch=None, capturable=capturable)
    scheduler = EpochT(b)
    for epoch in range(1, 5):
        step(a, 3)
        step(b, 3)
        torch.testing.assert_close(counted, scheduled, rtol=1e-12, atol=0)
        assert b.epoch == epoch
        assert float(b.param_groups[0]["t"]) == epoch
        scheduler.step()


def test_epoch_t_refuses_an_optimizer_that_counts():
    with pytest.raises(ValueError, match="steps_per_epoch=None"):
        EpochT(AdaHB([one_parameter()], steps_per_epoch=3))
    with pytest.raises(ValueError, match="steps_per_epoch=None"):
        EpochT(torch.optim.SGD([one_parameter()], lr=0.1))


def test_epoch_t_resumes_and_chains_with_a_warm_up():
    def make():
        w = one_parameter()
        optimizer = AdaHB([w], lr=0.1, steps_per_epoch=None)
        t, warm_up = EpochT(optimizer), lr_scheduler.LinearLR(optimizer, 0.1, total_iters=4)
        return w, optimizer, t, warm_up

    def run(parts, n_epochs):
        _, optimizer, t, warm_up = parts
        for _ in range(n_epochs):
            step(optimizer, 5)
            t.step()
            warm_up.step()

    whole = make()
    run(whole, 6)
    first = make()
    run(first, 3)
    second = make()
    with torch.no_grad():
        second[0].copy_(first[0])
    for new, old in zip(second[1:], first[1:], strict=True):
        new.load_state_dict(old.state_dict())
    assert second[1].param_groups[0]["t"] == 4.0
    run(second, 3)
    assert torch.equal(whole[0], second[0])
    chained = make()
    both = lr_scheduler.ChainedScheduler(chained[2:], optimizer=chained[1])
    for _ in range(6):
        step(chained[1], 5)
        both.step()
    assert torch.equal(whole[0], chained[0])


def test_epoch_t_alone_restores_t():
    optimizer = AdaHB([one_parameter()], steps_per_epoch=None)
    scheduler = EpochT(optimizer)
    step(optimizer)
    scheduler.step()
    other = AdaHB([one_parameter()], steps_per_epoch=None)
    EpochT(other).load_state_dict(scheduler.state_dict())
    assert other.param_groups[0]["t"] == 2.0


@BOTH
@pytest.mark.parametrize(
    "make",
    [
        lambda o: lr_scheduler.StepLR(o, 2),
        lambda o: lr_scheduler.CosineAnnealingLR(o, 10),
        lambda o: lr_scheduler.LinearLR(o, 0.1),
        lambda o: lr_scheduler.ExponentialLR(o, 0.9),
        lambda o: lr_scheduler.LambdaLR(o, lambda k: 1 / (k + 1)),
        lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=20, cycle_momentum=False),
        lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.1, cycle_momentum=False),
    ],
)
@pytest.mark.parametrize("lr", [0.1, torch.tensor(0.1)], ids=["float", "tensor"])
def test_learning_rate_schedulers_multiply(optimizer_class, make, lr):
    """Equal to setting group["lr"] by hand before each step."""
    w, by_hand = one_parameter(), one_parameter()
    optimizer = optimizer_class([w], lr=lr.clone() if isinstance(lr, torch.Tensor) else lr, steps_per_epoch=5)
    manual = optimizer_class([by_hand], lr=0.1, steps_per_epoch=5)
    scheduler = make(optimizer)
    for _ in range(10):
        manual.param_groups[0]["lr"] = float(scheduler.get_last_lr()[0])
        step(optimizer)
        step(manual)
        scheduler.step()
    torch.testing.assert_close(w, by_hand, rtol=1e-12, atol=0)


@BOTH
def test_plateau_scheduler(optimizer_class):
    optimizer = optimizer_class([one_parameter()], lr=0.1, steps_per_epoch=5)
    scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    for _ in range(3):
        step(optimizer)
        scheduler.step(1.0)
    assert optimizer.param_groups[0]["lr"] < 0.1


@BOTH
def test_schedulers_that_cycle_the_momentum_are_refused_by_torch(optimizer_class):
    optimizer = optimizer_class([one_parameter()], steps_per_epoch=5)
    with pytest.raises(ValueError, match="momentum"):
        lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=20)


@BOTH
def test_epoch_end_is_silent_when_the_length_is_right(optimizer_class):
    optimizer = optimizer_class([one_parameter()], steps_per_epoch=6)
    for _ in range(3):
        step(optimizer, 6)
        assert optimizer.epoch_end() == 6


def test_epoch_end_tolerates_a_skipped_update_in_a_hundred():
    optimizer = AdaHB([one_parameter(size=1)], steps_per_epoch=200)
    step(optimizer, 198)
    assert optimizer.epoch_end() == 198


def test_epoch_end_warns_of_accumulated_gradients():
    optimizer = AdaHB([one_parameter()], steps_per_epoch=8)
    step(optimizer, 2)  # four batches a step
    with pytest.warns(EpochLengthWarning, match=r"had 2 updates, but steps_per_epoch=8"):
        optimizer.epoch_end()


def test_epoch_end_after_loading_has_nothing_to_compare():
    optimizer, other = (AdaHB([one_parameter()], steps_per_epoch=8) for _ in range(2))
    step(optimizer, 3)
    other.load_state_dict(optimizer.state_dict())
    assert other.epoch_end() is None
    step(other, 8)
    assert other.epoch_end() == 8


def test_epoch_end_warns_of_a_scheduler_that_does_not_step():
    optimizer = AdaHB([one_parameter()], steps_per_epoch=None)
    scheduler = EpochT(optimizer)
    for _ in range(2):
        step(optimizer, 3)
        scheduler.step()
        optimizer.epoch_end()
    step(optimizer, 3)
    with pytest.warns(EpochLengthWarning, match="one epoch ago"):
        optimizer.epoch_end()


@pytest.mark.parametrize("capturable", [False, True])
def test_forgotten_scheduler_is_noticed_once(capturable, monkeypatch):
    monkeypatch.setattr(epochs_module, "PATIENCE", 20)
    optimizer = AdaHB([one_parameter()], steps_per_epoch=None, capturable=capturable)
    step(optimizer, 19)
    with pytest.warns(EpochLengthWarning, match="stood still for 20 updates"):
        step(optimizer)
    step(optimizer, 50)


def test_no_warning_while_t_moves_or_a_scheduler_is_there(monkeypatch):
    monkeypatch.setattr(epochs_module, "PATIENCE", 20)
    by_hand = AdaHB([one_parameter()], steps_per_epoch=None)
    for t in range(1, 5):
        by_hand.param_groups[0]["t"] = float(t)
        step(by_hand, 15)
    scheduled = AdaHB([one_parameter()], steps_per_epoch=None)
    EpochT(scheduled)
    step(scheduled, 50)
    step(AdaHB([one_parameter()], steps_per_epoch=3), 50)


def test_epoch_t_stepped_at_every_update_is_noticed():
    optimizer = AdaHB([one_parameter()], steps_per_epoch=None)
    scheduler = EpochT(optimizer)

    def train(n_epochs):
        for _ in range(n_epochs):
            step(optimizer)
            scheduler.step()

    train(9)
    with pytest.warns(EpochLengthWarning, match="after every single update"):
        train(1)
    train(20)


def test_groups_may_count_differently():
    a, b, c = one_parameter(), one_parameter(), one_parameter()
    groups = [{"params": [a]}, {"params": [b], "steps_per_epoch": 1}, {"params": [c], "steps_per_epoch": None, "t": 3.0}]
    optimizer = AdaHB(groups, steps_per_epoch=4)
    step(optimizer, 6)
    times = [time_of(6.0, group) for group in optimizer.param_groups]
    assert times == [2.0, 6.0, 3.0]
    EpochT(optimizer)
    assert [group["t"] for group in optimizer.param_groups] == [None, None, 1.0]


def test_tensor_t_is_kept_in_place_for_captured_graphs():
    optimizer = AdaHB([one_parameter()], steps_per_epoch=None, capturable=True)
    scheduler = EpochT(optimizer)
    t = optimizer.param_groups[0]["t"]
    step(optimizer)
    scheduler.step()
    assert optimizer.param_groups[0]["t"] is t
    assert t == 2.0


def test_warnings_are_warnings_of_the_user():
    assert issubclass(EpochLengthWarning, UserWarning)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EpochLengthWarning)
        optimizer = AdaHB([one_parameter()], steps_per_epoch=8)
        step(optimizer)
        optimizer.epoch_end()
