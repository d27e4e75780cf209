"""`finitesum.compare`: methods, functions of one's own and other libraries on one problem."""

import math

import numpy as np
import pytest

import finitesum
from finitesum import Problem, compare
from finitesum.evaluation.optimality import evaluate
from finitesum.methods import METHODS
from finitesum.methods.first_order.full_gradient import FG
from finitesum.reporting import report


def problem(loss="logistic", **more):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = X @ [1.0, -1.0, 0.5] + rng.standard_normal(60)
    target = {"logistic": np.where(y > 0.0, 1, -1), "poisson": np.round(np.exp(0.3 * y))}.get(loss, y)
    return Problem.linear(X, target, loss=loss, **{"alpha": 0.1, **more})


def gradient_descent(problem, x0):
    """A method as a researcher writes it."""
    x = x0
    for _ in range(300):
        x = x - 1.0 * evaluate(problem, x).gradient
        yield x


def test_names_classes_instances_places_and_functions():
    place = "finitesum.methods.first_order.full_gradient:FG"
    methods = ["newton", METHODS["saga"], FG(step_size=0.5), place, "auto", gradient_descent]
    found = compare(problem(), methods, tol=1e-7)
    assert [one.name for one in found.outcomes] == ["newton", "saga", "fg", "fg", "auto", "gradient_descent"]
    assert all(one.success for one in found.outcomes), str(found)
    for one in found.outcomes[1:]:
        assert one.x == pytest.approx(found.outcomes[0].x, abs=1e-5)
    own = found.outcomes[-1]
    assert own.trace.column("optimality")[-1] == own.optimality <= 1e-7
    assert (np.diff(own.trace.column("seconds")) >= 0.0).all()
    assert math.isnan(own.n_passes)


@pytest.mark.parametrize("spread", [1.0, 1e3])
def test_kernels_are_loaded_off_the_clock_for_the_columns_that_a_run_has(monkeypatch, spread):
    """In scaled columns a run takes kernels of its own: the tiny run before it takes them, too."""
    seen, minimize = [], report.minimize
    monkeypatch.setattr(report, "minimize", lambda one, **named: seen.append((one, named)) or minimize(one, **named))
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3)) * [1.0, spread, 1.0]
    wide = Problem.linear(X, rng.choice([-1, 1], 60), loss="logistic", alpha=0.1)
    compare(wide, ["saga", "newton"])
    tiny = [named["scale_columns"] for one, named in seen if one.n_rows == 4]
    assert tiny == [spread > 1.0, False]  # Newton's steps do not depend on the columns' sizes


@pytest.mark.parametrize(
    ("loss", "peer", "more"),
    [
        ("logistic", "newton-cholesky", {}),
        ("logistic", "saga", {"l1_ratio": 0.5}),
        ("logistic", "lbfgs", {"fit_intercept": True, "sample_weight": np.arange(60.0)}),
        ("squared", "cholesky", {"fit_intercept": True}),
        ("poisson", "newton-cholesky", {"fit_intercept": True}),
    ],
)
def test_peers_minimise_the_same_objective(loss, peer, more):
    known = problem(loss, **more)
    found = compare(known, ["newton"], peers=[f"sklearn:{peer}"], tol=1e-5)
    ours, theirs = found.outcomes
    assert theirs.name == f"scikit-learn {peer}"
    assert theirs.success, theirs.message
    assert theirs.objective == pytest.approx(ours.objective, rel=1e-8)


def test_data_seeds_and_what_is_shown(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 2)), rng.integers(0, 2, 40)
    seen = []
    found = compare((X, y), ["saga", "fg"], seeds=2, tol=1e-6, alpha=0.1, fit_intercept=True, on_done=seen.append)
    assert seen == found.outcomes
    assert [one.name for one in found.outcomes] == ["saga, seed 0", "saga, seed 1", "fg, seed 0", "fg, seed 1"]
    first, second, *steps = (one.n_passes for one in found.outcomes)
    assert steps[0] == steps[1]
    frame = found.to_frame()
    assert frame.loc["saga, seed 1", "n_passes"] == second
    assert list(frame["converged"]) == [True] * 4
    text = str(found).splitlines()
    assert text[0] == "Logistic loss, 40 x 2"
    assert text[-1] == found.verdict()
    assert len(text) == 7
    page = found.write(tmp_path / "report")
    assert "saga, seed 1" in page.read_text(encoding="utf-8")
    assert len(found.plot().axes) == 2
    assert first > 0.0


def test_a_time_limit_ends_runs():
    found = compare(problem(), ["ig", gradient_descent], tol=0.0, max_iter=1e6, time_limit=1e-9, measure_every=0)
    for one in found.outcomes:
        assert not one.success
        assert len(one.trace) <= 3
        assert one.seconds > 0.0


def test_a_callback_sees_the_run_alone_and_goes_with_a_time_limit():
    seen = []
    words = {"time_limit": 3600.0, "callback": lambda report: seen.append(report.nit)}
    compare(problem(), [FG(step_size=0.5)], tol=0.0, max_iter=3, **words)
    assert seen == [1, 2, 3]


def test_what_fails_is_a_line_and_what_is_wrong_is_an_error():
    def broken(problem, x0):
        raise RuntimeError("no licence")

    found = compare(problem("poisson"), ["sag", broken, "newton"])
    assert [one.success for one in found.outcomes] == [False, False, True]
    assert "no licence" in found.outcomes[1].message
    assert "first" in found.verdict()
    for given, message in (
        ({"methods": [3]}, "a method must be a name, a method or a function"),
        ({"methods": ["finitesum.nothing:Method"]}, "no method 'Method' in the module 'finitesum.nothing'"),
        ({"peers": ["R:glm"]}, 'peers are functions, or "sklearn:SOLVER"'),
        ({"seeds": []}, "seeds must be a number >= 1"),
        ({"time_limit": 0.0}, "time_limit must be seconds > 0"),
    ):
        with pytest.raises(ValueError, match=message):
            compare(problem(), **given)
    with pytest.raises(ValueError, match="sklearn:lbfgs knows logistic, squared and Poisson losses"):
        compare(problem("huber"), peers=["sklearn:lbfgs"])
    with pytest.raises(ValueError, match="method must be one of"):
        finitesum.minimize(problem(), method="nothing")
    assert "method must be one of" in compare(problem(), ["nothing"]).outcomes[0].message
