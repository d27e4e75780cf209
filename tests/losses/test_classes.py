"""Losses of several predictions: derivatives against differences, bounds that are suprema, nothing that overflows."""

import math

import numpy as np
import pytest

from finitesum.losses import Logistic, Loss, as_loss
from finitesum.losses.classes import Multinomial, SquaredTargets, probabilities, weighted

EXAMPLES = [Multinomial(), Multinomial(2.5), SquaredTargets(), SquaredTargets(0.5)]
examples = pytest.mark.parametrize("loss", EXAMPLES, ids=repr)


def rows(loss, n=7, n_outputs=4, seed=0):
    rng = np.random.default_rng(seed)
    scores = 2.0 * rng.standard_normal((n, n_outputs))
    return scores, rng.integers(0, n_outputs, n) if isinstance(loss, Multinomial) else rng.standard_normal((n, n_outputs))


@examples
def test_derivatives_are_those_of_the_value(loss):
    scores, targets = rows(loss)
    width = 1e-5
    gradients, matrices = loss.d1_d2(scores, targets)
    for k in range(scores.shape[1]):
        step = np.zeros(scores.shape[1])
        step[k] = width
        slopes = (loss.value(scores + step, targets) - loss.value(scores - step, targets)) / (2 * width)
        changes = (loss.d1(scores + step, targets) - loss.d1(scores - step, targets)) / (2 * width)
        np.testing.assert_allclose(gradients[:, k], slopes, atol=1e-9)
        np.testing.assert_allclose(matrices[:, :, k], changes, atol=1e-9)
    np.testing.assert_array_equal(gradients, loss.d1(scores, targets))
    np.testing.assert_array_equal(matrices, loss.d2(scores, targets))


@examples
def test_the_curvatures_give_entries_and_products_of_the_second_derivative(loss):
    scores, targets = rows(loss)
    changes = np.random.default_rng(1).standard_normal(scores.shape)
    matrices, curvatures = loss.d2(scores, targets), loss.curvatures(scores)
    assert curvatures.shape == scores.shape
    entries = [[loss.curvature_entry(curvatures, k, other) for other in range(4)] for k in range(4)]
    np.testing.assert_allclose(np.moveaxis(entries, 2, 0), matrices, rtol=1e-14)
    products = np.einsum("ikl,il->ik", matrices, changes)
    np.testing.assert_allclose(loss.curvature_product(curvatures, changes), products, rtol=1e-12, atol=1e-14)


@examples
def test_blocks_of_rows_are_rows(loss):
    scores, targets = rows(loss, n=6)
    blocks, block_targets = scores.reshape(2, 3, 4), targets.reshape(2, 3, *targets.shape[1:])
    for name in ("value", "d1", "d2"):
        whole = getattr(loss, name)(scores, targets)
        np.testing.assert_array_equal(getattr(loss, name)(blocks, block_targets).reshape(whole.shape), whole)


@examples
def test_the_curvature_bound_is_the_largest_eigenvalue(loss):
    rng = np.random.default_rng(2)
    scores = rng.standard_normal((2000, 3)) * 10.0 ** rng.uniform(-2, 2, (2000, 1))
    scores = np.vstack([scores, [[30.0, 30.0, -30.0]]])  # two classes of probability 1/2
    targets = rng.integers(0, 3, 2001) if isinstance(loss, Multinomial) else np.zeros((2001, 3))
    largest = np.linalg.eigvalsh(loss.d2(scores, targets))[:, -1]
    assert largest.max() == pytest.approx(loss.curvature_bound(), rel=1e-12)
    assert loss.majorant(scores, targets) == loss.curvature_bound()


@examples
def test_d2_lipschitz_is_the_largest_change_of_the_second_derivative(loss):
    rng = np.random.default_rng(3)
    start = rng.uniform(-3, 3, (20_000, 3))
    start[:, 2] -= rng.choice([0.0, 30.0], 20_000)  # the supremum is at two classes
    step = rng.standard_normal((20_000, 3))
    step[:10_000] = [1.0, -1.0, 0.0]
    step *= 1e-4 / np.linalg.norm(step, axis=1, keepdims=True)
    targets = np.zeros(20_000, dtype=int) if isinstance(loss, Multinomial) else np.zeros((20_000, 3))
    change = np.linalg.norm(loss.d2(start + step, targets) - loss.d2(start - step, targets), ord=2, axis=(1, 2)) / 2e-4
    assert change.max() <= loss.d2_lipschitz() * (1 + 1e-9)
    assert change.max() >= 0.98 * loss.d2_lipschitz()


def test_far_out_the_limits_are_reached_without_overflow():
    scores, targets = np.array([[1e3, -1e3, 0.0], [-1e3, 1e3, 0.0]]), np.array([0, 0])
    with np.errstate(all="raise", under="ignore"):
        gradients, matrices = Multinomial().d1_d2(scores, targets)
        np.testing.assert_allclose(Multinomial().value(scores, targets), [0.0, 2e3], rtol=1e-15)
    np.testing.assert_allclose(gradients, [[0.0, 0.0, 0.0], [-1.0, 1.0, 0.0]], atol=1e-300)
    assert not matrices.any()


@examples
def test_nan_stays_nan_so_that_a_divergence_is_seen(loss):
    scores, targets = rows(loss)
    scores[3, 1] = math.nan
    assert np.isnan(loss.value(scores, targets)[3])
    assert np.isnan(loss.d1(scores, targets)[3]).any()
    assert np.isfinite(loss.value(scores, targets)[:3]).all()


def test_two_classes_are_the_logistic_loss_of_the_difference():
    scores = np.random.default_rng(4).standard_normal((5, 2))
    for i, target in enumerate(np.array([0, 1, 1, 0, 1])):
        margin, sign = scores[i, 1] - scores[i, 0], 2.0 * target - 1.0
        value = Multinomial().value(scores[i : i + 1], np.array([target]))[0]
        assert value == pytest.approx(Logistic().value(margin, sign), rel=1e-13)
        assert Multinomial().d1(scores[i : i + 1], np.array([target]))[0, 1] == pytest.approx(Logistic().d1(margin, sign))


@examples
def test_shifts_change_nothing_where_the_loss_says_so(loss):
    scores, targets = rows(loss)
    shifted = loss.value(scores + 3.0, targets)
    assert np.allclose(shifted, loss.value(scores, targets), atol=1e-13) == loss.ignores_shifts()


@examples
def test_a_class_loss_is_a_loss(loss):
    assert isinstance(loss, Loss)
    assert as_loss(loss) == loss
    assert loss.is_smooth()
    assert loss.target_kind() == ("class" if isinstance(loss, Multinomial) else "reals")


def test_weight_zero_leaves_nothing_of_what_overflows():
    weights = np.array([0.0, 2.0])
    np.testing.assert_array_equal(weighted(np.array([math.nan, 1.0]), weights), [0.0, 2.0])
    np.testing.assert_array_equal(weighted(np.full((2, 1), math.inf), np.zeros(2)), np.zeros((2, 1)))


def test_probabilities_sum_to_one():
    chances = probabilities(np.random.default_rng(5).standard_normal((4, 6)) * 100)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0, rtol=1e-15)
