"""A checkpoint that was tampered with is refused before a kernel reads what its arrays do not hold."""

import numpy as np
import pytest

from finitesum import METHODS, Problem, minimize
from finitesum.constraints import L1Ball
from finitesum.methods.base import is_suited
from finitesum.running.checkpoint import Checkpoint, CheckpointError, load, save

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 4))
SIGNS = np.sign(X @ RNG.standard_normal(4) + RNG.standard_normal(30))
PROBLEMS = {
    "logistic": Problem.linear(X, SIGNS, alpha=1e-3, fit_intercept=True),
    "hinge": Problem.linear(X, SIGNS, loss="hinge", constraint=L1Ball(1.0)),
    "hinge and ridge": Problem.linear(X, SIGNS, loss="hinge", alpha=1e-2, fit_intercept=True),
    "classes": Problem.linear(X, RNG.integers(0, 3, 30), loss="multinomial", alpha=1e-3),
}

#: Settings with which a method keeps arrays that others leave empty, and passes after which it holds them.
OPTIONS = {
    "lazy-newton": ({"first_rows": 12}, 6),
    "newton-cg": ({}, 4),
    "working-set-newton": ({"first_columns": 2}, 3),
    "coordinate-descent": ({"first_columns": 2}, 3),
    "multinomial-newton": ({"solver": "cg"}, 3),
    "saga": ({}, 3),
    "svrg2": ({"hessian": "CM"}, 3),
    "dual-ascent": ({"epochs": 2}, 3),
}


def run_of(name):
    options, passes = OPTIONS.get(name, ({}, 3))
    problem = next(problem for problem in PROBLEMS.values() if is_suited(METHODS[name], problem))
    return problem, {"method": name, "options": options, "tol": 0.0, "max_iter": passes}


#: What a run may as well have written: a Hessian of fewer rows, no preconditioner before a step, a smaller working set.
OTHER_STATES = {("lazy-newton", "state.hessian.members", (29,))}
OTHER_STATES |= {(name, "state.diagonal", (0,)) for name in ("newton-cg", "lbfgs")}
OTHER_STATES |= {("coordinate-descent", "state.columns", (n_columns,)) for n_columns in (0, 1)}
OTHER_STATES |= {("dual-ascent", "state.active", (n_active,)) for n_active in (0, 29)}

CHANGES = {
    "shorter": lambda array: array[:-1],
    "emptied": lambda array: array[:0],
    "longer": lambda array: np.concatenate([array, array[-1:]]),
    "of another type": lambda array: array.astype({"f": "f2", "i": "i2", "b": "i1"}[array.dtype.kind]),
    "with an axis more": lambda array: array[None],
    "text": lambda array: array.astype(str),
}


@pytest.mark.parametrize("name", METHODS)
def test_arrays_of_other_shapes_are_refused(name, tmp_path):
    problem, arguments = run_of(name)
    good, bad = tmp_path / "good.npz", tmp_path / "bad.npz"
    minimize(problem, checkpoint=good, **arguments)
    header, arrays = load(good)
    resuming = arguments | {"checkpoint": bad, "resume": True, "max_iter": 20}
    assert any(arrays[key].ndim and arrays[key].size for key in arrays if key.startswith("state."))
    for key, array in arrays.items():
        if array.ndim == 0 or key == "trace":
            changed = [np.array("text"), np.array(np.nan), np.ones(3)]
        else:
            changed = [change(array) for change in CHANGES.values() if array.size]
            changed += [np.zeros((2, *array.shape[1:]), array.dtype)] if not array.size else []
            changed += [np.full_like(array, value) for value in (10**8, -1) if array.dtype.kind == "i" and array.size]
        for other in changed:
            if array.ndim == 0 and array.dtype.kind in "fb" and other.shape == () and other.dtype.kind == "f":
                continue  # NaN is a number
            save(bad, Checkpoint(header, {**arrays, key: other}))
            if (name, key, other.shape) in OTHER_STATES:
                minimize(problem, **resuming)
                continue
            with pytest.raises(CheckpointError, match=r"start again|Delete it"):
                minimize(problem, **resuming)


@pytest.mark.parametrize("change", [{"k": "3"}, {"k": -5}, {"k": 2.5}, {"seconds": None}, {"n_checks": [1]}, {"k": True}])
def test_a_loop_of_other_things_than_numbers_is_refused(change, tmp_path):
    problem, arguments = run_of("saga")
    path = tmp_path / "run.npz"
    minimize(problem, checkpoint=path, **arguments)
    header, arrays = load(path)
    save(path, Checkpoint({**header, "loop": {**header["loop"], **change}}, arrays))
    with pytest.raises(CheckpointError, match=r"run\.npz is damaged: (k|seconds|n_checks) is .*\. Delete it and start"):
        minimize(problem, checkpoint=path, resume=True, **arguments)


def test_an_iterate_that_is_not_finite_is_refused(tmp_path):
    problem, arguments = run_of("saga")
    path = tmp_path / "run.npz"
    minimize(problem, checkpoint=path, **arguments)
    header, arrays = load(path)
    save(path, Checkpoint(header, {**arrays, "state.x": np.full(5, np.nan)}))
    with pytest.raises(CheckpointError, match="its iterate is not finite"):
        minimize(problem, checkpoint=path, resume=True, **arguments)


@pytest.mark.parametrize("name", METHODS)
def test_what_is_refused_is_never_what_a_run_has_written(name, tmp_path):
    """Whatever the phase that a run is in, also of methods whose arrays come and go."""
    for name_of_problem, problem in PROBLEMS.items():
        if not is_suited(METHODS[name], problem):
            continue
        for options in ({}, OPTIONS[name][0]) if OPTIONS.get(name, ({},))[0] else ({},):
            path = tmp_path / f"{name_of_problem}{len(options)}.npz"
            arguments = {"method": name, "options": options, "tol": 1e-9, "checkpoint": path, "resume": True}
            for passes in (1, 2, 3, 5, 8):
                minimize(problem, max_iter=passes, **arguments)


@pytest.mark.parametrize("name", METHODS)
def test_a_run_resumed_at_its_end_has_the_same_bits(name, tmp_path):
    problem, arguments = run_of(name)
    arguments |= {"max_iter": 7, "checkpoint": tmp_path / "run.npz", "resume": True}
    whole, again = (minimize(problem, **arguments) for _ in range(2))
    for field in ("x", "fun", "jac", "optimality", "rounding", "n_passes"):
        np.testing.assert_array_equal(whole[field], again[field], err_msg=field)
