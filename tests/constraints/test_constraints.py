"""Constraint sets: what they accept, what they say about themselves, and that they can be kept and read back."""

import copy
import json
import math
import pickle

import numpy as np
import pytest

from finitesum.constraints import (
    CONSTRAINTS,
    Box,
    Constraint,
    HalfSpace,
    L1Ball,
    L2Ball,
    LInfBall,
    NonNegative,
    Polyhedron,
    Simplex,
    Unconstrained,
    constraint_from_dict,
)

EXAMPLES = [
    Unconstrained(),
    NonNegative(),
    Box(-1.0, 2.0),
    Box(-math.inf, 2.0),
    Box([-1.0, -math.inf, 0.5], [1.0, 0.0, 0.5]),
    LInfBall(0.7),
    L1Ball(1.5),
    L1Ball(1.5, [1.0, 2.0, 0.1]),
    L2Ball(0.3),
    Simplex(2.0),
    HalfSpace([1.0, -2.0, 0.0], -0.5),
    Polyhedron([[1.0, -1.0, 0.0], [0.0, 2.0, -1.0]], [0.0, -0.5]),
]
every_example = pytest.mark.parametrize("constraint", EXAMPLES, ids=repr)


def test_every_class_has_an_example():
    assert {type(example) for example in EXAMPLES} == set(CONSTRAINTS.values())


@every_example
def test_is_read_back_from_json(constraint):
    text = json.dumps(constraint.to_dict(), allow_nan=False)
    again = constraint_from_dict(json.loads(text))
    assert again == constraint
    assert hash(again) == hash(constraint)
    x = np.array([3.0, -2.0, 0.1])
    assert np.array_equal(again.project(x), constraint.project(x))


@every_example
@pytest.mark.parametrize("duplicate", [copy.deepcopy, copy.copy, lambda c: pickle.loads(pickle.dumps(c))])
def test_is_copied_whole(constraint, duplicate):
    assert duplicate(constraint) == constraint
    assert type(duplicate(constraint).compiled) is type(constraint.compiled)


def test_sets_differ():
    assert len({*EXAMPLES}) == len(EXAMPLES)
    assert L1Ball(1.0) != L2Ball(1.0)
    assert L1Ball(1.0) != "L1Ball"


@every_example
def test_is_immutable(constraint):
    with pytest.raises(AttributeError):
        constraint.radius = 3.0


def test_arrays_are_copied():
    lower, weights = np.zeros(2), np.ones(2)
    box, ball = Box(lower, 1.0), L1Ball(1.0, weights)
    lower[0] = weights[0] = 9.0
    assert box == Box([0.0, 0.0], 1.0)
    assert ball == L1Ball(1.0, [1.0, 1.0])


@every_example
def test_kernels_get_a_tuple_of_this_package(constraint):
    assert type(constraint.compiled).__module__.startswith("finitesum.")  # its machine code is kept on disk
    assert isinstance(constraint.compiled, tuple)


@every_example
def test_start_is_the_nearest_point_to_zero(constraint):
    start = constraint.start(3)
    assert start.shape == (3,)
    assert constraint.contains(start)
    assert np.array_equal(start, constraint.project(np.zeros(3)))


@every_example
def test_support_bounds_the_set_and_is_reached(constraint):
    rng = np.random.default_rng(0)
    for _ in range(50):
        direction = rng.standard_normal(3) * (rng.random(3) < 0.8)
        sigma = constraint.support(direction)
        far = constraint.project(1e7 * direction)
        assert direction @ constraint.project(rng.standard_normal(3)) <= sigma + 1e-12 * abs(sigma)
        if constraint.is_bounded:
            assert direction @ far >= sigma - 1e-5 * abs(sigma)


def test_support_of_unbounded_sets():
    assert Unconstrained().support([0.0, 0.0]) == 0.0
    assert Unconstrained().support([0.0, 1e-9]) == math.inf
    assert NonNegative().support([-1.0, 0.0]) == 0.0
    assert NonNegative().support([-1.0, 1e-9]) == math.inf
    assert Box(-math.inf, 2.0).support([1.0, 3.0]) == 8.0
    assert HalfSpace([1.0, 2.0], -3.0).support([2.0, 4.0]) == -6.0
    assert HalfSpace([1.0, 2.0], -3.0).support([-2.0, -4.0]) == math.inf
    assert HalfSpace([1.0, 2.0], -3.0).support([0.0, 0.0]) == 0.0


@every_example
def test_diameter_and_width_are_bounds_that_are_reached(constraint):
    rng = np.random.default_rng(0)
    assert constraint.is_bounded == math.isfinite(constraint.width()) == math.isfinite(constraint.diameter(3))
    if not constraint.is_bounded:
        return
    corners = [constraint.project(v) for v in 1e6 * np.vstack([np.eye(3), -np.eye(3)])]
    corners += [constraint.project(v) for v in 1e6 * rng.choice([-1.0, 1.0], (60, 3))]
    differences = np.array([a - b for a in corners for b in corners])
    assert np.linalg.norm(differences, axis=1).max() == pytest.approx(constraint.diameter(3))
    assert np.abs(differences).max() == pytest.approx(constraint.width())


def test_diameter_of_one_point():
    assert Simplex(3.0).diameter(1) == 0.0
    assert Box(2.0, 2.0).diameter(5) == 0.0


def test_contains():
    assert L1Ball(1.0).contains([0.5, -0.5])
    assert not L1Ball(1.0).contains([0.5, -0.6])
    assert L1Ball(1.0).contains([0.5, -0.6], tolerance=0.2)
    assert not L1Ball(1.0, [1.0, 2.0]).contains([0.5, -0.5])
    assert L2Ball(1.0).contains([0.6, 0.8])
    assert not L2Ball(1.0).contains([0.7, 0.8])
    assert not LInfBall(1.0).contains([0.7, -1.1])
    assert Box([0.0, -math.inf], 1.0).contains([0.0, -1e300])
    assert not Box([0.0, -math.inf], 1.0).contains([-1.0, -1e300])
    assert not Simplex().contains([0.5, 0.6])
    assert not Simplex().contains([1.5, -0.5])
    assert HalfSpace([1.0, 1.0], 1.0).contains([0.5, 0.5])
    assert not HalfSpace([1.0, 1.0], 1.0).contains([0.5, 0.6])
    for example in EXAMPLES:
        assert not example.contains([math.nan] * 3)


def test_which_metrics_matter():
    assert [example.is_separable for example in EXAMPLES] == [True] * 6 + [False] * 6


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: L1Ball(0.0), ValueError, "radius must be > 0 and finite, got 0.0. Give the largest norm"),
        (lambda: L1Ball(math.inf), ValueError, "radius must be > 0 and finite, got inf"),
        (lambda: L2Ball(-1), ValueError, "radius must be > 0 and finite, got -1"),
        (lambda: L2Ball(math.nan), ValueError, "radius must be > 0 and finite, got nan"),
        (lambda: L2Ball("1"), TypeError, "radius must be a number, got '1'"),
        (lambda: LInfBall(True), TypeError, "radius must be a number, got True"),
        (lambda: LInfBall(-2.0), ValueError, "radius must be > 0"),
        (lambda: Simplex(0), ValueError, "total must be > 0 and finite, got 0"),
        (lambda: L1Ball(1.0, [1.0, 0.0]), ValueError, "weights must be > 0 and finite, got 0.0"),
        (lambda: L1Ball(1.0, [1.0, math.inf]), ValueError, "weights must be > 0 and finite, got inf"),
        (lambda: L1Ball(1.0, [1.0, math.nan]), ValueError, "weights must not hold NaN, got it at index 1"),
        (lambda: L1Ball(1.0, [[1.0]]), ValueError, r"weights must have one axis and an entry at least, got shape \(1, 1\)"),
        (lambda: L1Ball(1.0, 2.0), ValueError, r"weights must have one axis and an entry at least, got shape \(\)"),
        (lambda: L1Ball(1.0, ["a"]), TypeError, "weights must be numbers"),
        (lambda: Box(2.0, 1.0), ValueError, "lower must be <= upper, with a number between them, got 2.0 and 1.0"),
        (lambda: Box(math.inf, math.inf), ValueError, "lower must be <= upper, with a number between"),
        (lambda: Box(-math.inf, -math.inf), ValueError, "lower must be <= upper, with a number between"),
        (lambda: Box([0.0, 0.0], [1.0, -1.0]), ValueError, "got 0.0 and -1.0"),
        (
            lambda: Box([0.0, 0.0], [1.0, 1.0, 1.0]),
            ValueError,
            r"lower and upper must be of one shape, got \(2,\) and \(3,\)",
        ),
        (lambda: Box(math.nan, 1.0), ValueError, "lower must not be NaN"),
        (lambda: Box(None, 1.0), TypeError, "lower must be a number, got None"),
        (lambda: Box([], 1.0), ValueError, "lower must have one axis and an entry at least"),
        (lambda: HalfSpace([0.0, 0.0], 1.0), ValueError, "normal must be finite and not 0"),
        (lambda: HalfSpace([1.0, math.inf], 1.0), ValueError, "normal must be finite and not 0"),
        (lambda: HalfSpace([1.0], math.inf), ValueError, "offset must be finite, got inf"),
        (lambda: Polyhedron([1.0, 2.0], 1.0), ValueError, r"matrix must have shape \(m, d\), got \(2,\)"),
        (lambda: Polyhedron([[1.0], [0.0]], 1.0), ValueError, "matrix and limits must be finite, and no row 0"),
        (lambda: Polyhedron([[1.0], [-1.0]], [0.0, -1.0]), ValueError, "no point fulfils all the inequalities"),
        (lambda: Polyhedron.increasing([0, 0], 3), ValueError, r"columns must hold two different numbers in \[0, 3\)"),
        (lambda: constraint_from_dict({"type": "Ball"}), ValueError, "type must be one of Unconstrained, .*got 'Ball'"),
        (lambda: constraint_from_dict({"type": "L1Ball"}), ValueError, "L1Ball cannot be made of {}"),
        (lambda: constraint_from_dict({"type": "L1Ball", "r": 1.0}), ValueError, "L1Ball cannot be made of {'r': 1.0}"),
    ],
)
def test_refused_at_construction(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("x", "metric", "message"),
    [
        ([[1.0, 2.0]], None, r"x must have one axis, got shape \(1, 2\)"),
        (1.0, None, r"x must have one axis, got shape \(\)"),
        ([], None, "There must be a variable at least, got 0"),
        ([1.0, math.nan], None, "x must be finite, got nan"),
        ([1.0, math.inf], None, "x must be finite, got inf"),
        ([1.0, 2.0], [1.0], r"metric must have the shape \(2,\) of x, got \(1,\)"),
        ([1.0, 2.0], [1.0, 0.0], "metric must be > 0 and finite, got 0.0. Add a small constant"),
        ([1.0, 2.0], [1.0, math.nan], "metric must be > 0 and finite, got nan"),
        ([1.0, 2.0], [1.0, math.inf], "metric must be > 0 and finite, got inf"),
    ],
)
@pytest.mark.parametrize("constraint", [L1Ball(1.0), NonNegative()], ids=repr)
def test_refused_by_project(constraint, x, metric, message):
    with pytest.raises(ValueError, match=message):
        constraint.project(x, metric)


@pytest.mark.parametrize("constraint", [example for example in EXAMPLES if example.dim], ids=repr)
def test_number_of_variables_is_checked(constraint):
    for call in (constraint.project, constraint.support, constraint.contains):
        with pytest.raises(ValueError, match="is made for 3 variables, but there are 2"):
            call([1.0, 2.0])
    for call in (constraint.start, constraint.diameter, constraint.check_dim):
        with pytest.raises(ValueError, match="is made for 3 variables, but there are 2"):
            call(2)


def test_x_of_any_kind_of_number():
    for kind in (np.float32, np.int64, np.float64):
        p = L1Ball(1.0).project(np.array([2, 1, 0], kind))
        assert p.dtype == np.float64
        assert np.array_equal(p, [1.0, 0.0, 0.0])
    fixed = np.array([2.0, 1.0])
    fixed.setflags(write=False)
    assert np.array_equal(L1Ball(1.0).project(fixed, fixed), L1Ball(1.0).project([2.0, 1.0], [2.0, 1.0]))
    strided = np.array([2.0, 9.0, 1.0, 9.0])[::2]
    assert np.array_equal(L1Ball(1.0).project(strided, strided), L1Ball(1.0).project([2.0, 1.0], [2.0, 1.0]))


def test_a_set_of_ones_own():
    class Slab(Constraint):
        compiled = Box(-1.0, 1.0).compiled
        is_bounded = False
        support = contains = diameter = width = None

    assert np.array_equal(Slab().project([3.0, 0.5]), [1.0, 0.5])
