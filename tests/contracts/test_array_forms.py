"""Each kernel that has a form over arrays computes there what its loops do: all losses, rows, weights, batches, subsets."""

import itertools
import math
import os
import subprocess
import sys
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from contracts.problems import targets_for

from finitesum import Problem, constraints, minimize
from finitesum.core import jit, kernel_folder, stand_ins
from finitesum.core.jit import COMPILED, MOST_NUMBERS, Kernel, as_python, compilable
from finitesum.evaluation import lines, many_points, row_products
from finitesum.evaluation.certificates import slopes_bound
from finitesum.evaluation.hessian import gram, hessian_at
from finitesum.evaluation.rounding import gradient_rounding
from finitesum.evaluation.row_sums import Majorize, loss_sums
from finitesum.losses import LOSSES, Cornered, Logistic
from finitesum.losses.arrays import takes_arrays
from finitesum.methods.newton import dual_arrays, stale_hessian
from finitesum.methods.subproblems import scaled_columns
from finitesum.problems.penalties import MCP, SCAD, ElasticNet
from finitesum.problems.rows import CSRRows, DenseRows, columns_of
from finitesum.problems.view import n_numbers

pytestmark = [
    pytest.mark.as_chosen,
    pytest.mark.skipif(not COMPILED, reason="all kernels run as Python under NUMBA_DISABLE_JIT"),
]

N, D = 37, 6


@compilable
class WrittenForNumbers(NamedTuple):
    """The logistic loss, as it is written without arrays in mind."""

    scale: float = 1.0

    def value(self, prediction, target):
        margin = target * prediction
        return math.log1p(math.exp(-margin)) if margin > 0.0 else -margin + math.log1p(math.exp(margin))

    def d1(self, prediction, target):
        return -target / (1.0 + math.exp(target * prediction))  # overflows at 710

    def d2(self, prediction, target):
        return math.exp(-abs(prediction)) / (1.0 + math.exp(-abs(prediction))) ** 2

    def d1_d2(self, prediction, target):
        return self.d1(prediction, target), self.d2(prediction, target)

    def majorant(self, prediction, target):
        return 0.25

    def curvature_bound(self):
        return 0.25

    def d2_lipschitz(self):
        return 0.1

    def target_kind(self):
        return "sign"

    def is_smooth(self):
        return True


class WrittenWithNumPy(WrittenForNumbers):
    def value(self, prediction, target):
        return np.logaddexp(0.0, -target * prediction)

    def d1(self, prediction, target):
        return -target / (1.0 + np.exp(target * prediction))

    def d2(self, prediction, target):
        return np.exp(-np.abs(prediction)) / (1.0 + np.exp(-np.abs(prediction))) ** 2


ALL_LOSSES = {**{name: cls() for name, cls in LOSSES.items()}, "for numbers": WrittenForNumbers()}
ROWS = ("dense", "float32", "csr", "csr64")


def problem_of(loss, rows, *, seed=0, **more):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, D)) * (rng.random((N, D)) < 0.6)
    X[2], X[:, 3] = 0.0, 0.0  # an empty row and column
    u = X @ rng.standard_normal(D)
    y = targets_for(loss, u + rng.standard_normal(N), rng)
    if rows == "float32":
        X = X.astype(np.float32)
    if rows.startswith("csr"):
        X = sp.csr_array(X)
    problem = Problem.linear(X, y, loss=loss, alpha=0.1, **more)
    if rows == "csr64":
        columns, starts = (part.astype(np.int64) for part in problem.rows[1:3])
        problem = replace(problem, rows=problem.rows._replace(columns=columns, starts=starts))
    return problem


def weights(kind, rng):
    return {"equal": None, "some 0": np.where(rng.random(N) < 0.3, 0.0, rng.random(N))}[kind]


def sums_over(problem, components):
    """What the kernels compute: all sums over rows that methods see data by."""
    rng = np.random.default_rng(5)
    w, v, curvatures = rng.standard_normal(problem.dim), rng.standard_normal(problem.dim), rng.random(N)
    rows = np.zeros(N, dtype=bool)
    size = problem.batch_size or 1
    for j in range(problem.n_components) if components is None else components:
        rows[j * size : (j + 1) * size] = True
    for majorize in Majorize:
        slopes, second = np.zeros(N), np.zeros(N)
        yield from loss_sums(problem, w, components, slopes=slopes, curvatures=second, majorize=majorize)
        yield from (slopes, second)
    yield row_products.predictions(problem, w, components)[rows]
    yield row_products.gram_product(problem, curvatures, v, components)
    yield row_products.gram_diagonal(problem, curvatures, components)
    line = lines.line_through(problem, w, v, components)
    line = line._replace(starts=np.where(rows, line.starts, 0.0), changes=np.where(rows, line.changes, 0.0))
    yield lines.slope_along(problem, line, 0.3)
    yield lines.value_along(problem, line, 0.3)
    now, summed = np.random.default_rng(6).random((2, N)).astype(np.float32)
    members = np.arange(problem.n_components) if components is None else components
    yield from stale_hessian._by_size(problem, members, now, summed, 0.02)
    yield from stale_hessian._total_and_moved(problem, members, now, summed)
    picked, rises, summed = np.zeros(N, dtype=np.int64), np.zeros(N), summed.copy()
    n = stale_hessian._replace(problem.view, members, now, summed, 0.01, picked, rises)
    yield from (n, picked[:n], rises[:n], summed)
    if components is None:
        points, weightings = rng.standard_normal((3, problem.dim)), rng.random((2, N)) * (problem.weights > 0.0)
        yield many_points.gradients_at_each(problem, points, weightings, np.array([0, 1, 1]))
        yield many_points.gradients_of_all(problem, points, weightings)
        yield many_points.curvatures_at_each(problem, points)
        yield row_products.combination(problem, curvatures)
        yield row_products.squared_norms(problem, 1)
        yield from row_products.minorant_sums(problem, w)
        if isinstance(problem.loss, Cornered):
            yield slopes_bound(problem, rng.uniform(-1.0, 1.0, N), w)
        yield from (hessian_at(problem, w), gram(problem, np.abs(curvatures), every=2), gradient_rounding(problem, w))


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("loss", ALL_LOSSES)
def test_sums_over_rows(loss, rows):
    compare_sums(loss, rows)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("density", [0.1, 0.9])
def test_sums_over_rows_that_no_cache_holds(rows, density, monkeypatch):
    monkeypatch.setattr("finitesum.evaluation.whole_arrays.MOST_IN_COLUMNS", 0)
    monkeypatch.setattr("finitesum.evaluation.whole_arrays.DENSITY_OF_LARGE", density)
    monkeypatch.setattr("finitesum.evaluation.whole_arrays.AT_A_TIME", 4 * D)  # rows are weighted four at a time
    compare_sums("logistic", rows)


def compare_sums(loss, rows):
    rng = np.random.default_rng(1)
    settings = itertools.product((False, True), ("equal", "some 0"), (None, 3), (None, np.array([0, 1, 4, 5, 11])))
    for intercept, kind, batch_size, components in settings:
        more = {"fit_intercept": intercept, "sample_weight": weights(kind, rng), "batch_size": batch_size}
        problem = problem_of(ALL_LOSSES[loss], rows, offset=rng.standard_normal(N), **more)
        found = list(sums_over(problem, components))
        with as_python():
            wanted = list(sums_over(problem, components))
        for k, (left, right) in enumerate(zip(found, wanted, strict=True)):
            np.testing.assert_allclose(left, right, rtol=1e-11, atol=1e-12, err_msg=f"{k} {more}")


@pytest.mark.parametrize("rows", ROWS)
def test_rows_with_some_columns(rows):
    given, columns = problem_of(Logistic(), rows).rows, np.array([0, 2, 3, 5])
    found = columns_of(given, columns)
    with as_python():
        wanted = columns_of(given, columns)
    for left, right in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(left, right)


PENALTIES = {
    "elastic net": {"alpha": 0.3, "l1_ratio": 0.5},
    "weights": {"alpha": 0.3, "l1_ratio": 0.5, "penalty_weights": np.arange(D) / 2.0},
    "groups": {"alpha": 0.3, "groups": [0, 0, 1, 1, 2, 2]},
    "box": {"constraint": "NonNegative()"},
    "ball": {"constraint": "L1Ball(0.5)"},
}


@pytest.mark.parametrize("penalty", PENALTIES)
def test_terms(penalty):
    rng = np.random.default_rng(2)
    more = {k: eval(v, vars(constraints)) if k == "constraint" else v for k, v in PENALTIES[penalty].items()}
    X, y = rng.standard_normal((N, D)), rng.standard_normal(N)
    term = Problem.linear(X, y, loss="squared", fit_intercept=True, **more).term
    w, gradient = rng.standard_normal(D + 1), rng.standard_normal(D + 1)
    w[2] = math.nan if penalty != "ball" else w[2]

    def all_of_it():
        return term.prox_step(w, gradient, 0.4), term.prox(w, 0.4), term.value(w), term.add_to(gradient.copy(), w)

    found = all_of_it()
    with as_python():
        wanted = all_of_it()
    for left, right in zip(found, wanted, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-13, atol=1e-15)


@pytest.mark.parametrize("loss", ["logistic", "poisson", "squared-hinge", "hinge"])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.7])
def test_a_fit_takes_the_same_steps(loss, l1_ratio):
    problem = problem_of(LOSSES[loss](), "csr", fit_intercept=True)
    problem = Problem.linear(sp.csr_array(problem.rows[:3]), problem.targets, loss=loss, alpha=0.05, l1_ratio=l1_ratio)
    found = minimize(problem, tol=1e-9)
    with as_python():
        wanted = minimize(problem, tol=1e-9)
    assert found.success
    assert (found.nit, found.n_passes) == (wanted.nit, wanted.n_passes)
    np.testing.assert_allclose(found.x, wanted.x, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("rows", ["dense", "csr"])
@pytest.mark.parametrize("kind", ["equal", "some 0"])
@pytest.mark.parametrize("loss", ["hinge", "epsilon-insensitive", "quantile"])
def test_a_fit_at_corners_takes_the_same_steps(loss, kind, rows):
    sample_weight = weights(kind, np.random.default_rng(7))
    problem = problem_of(LOSSES[loss](), rows, fit_intercept=True, sample_weight=sample_weight)
    found = minimize(problem, method="semismooth-newton", tol=1e-9)
    with as_python():
        wanted = minimize(problem, method="semismooth-newton", tol=1e-9)
    assert found.success
    assert (found.nit, found.n_passes) == (wanted.nit, wanted.n_passes)
    np.testing.assert_allclose(found.x, wanted.x, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("rows", ["dense", "csr", "long csr"])
@pytest.mark.parametrize("loss", ["hinge", "epsilon-insensitive", "quantile", "squared-hinge"])
def test_dual_ascent_takes_the_same_visits(loss, rows, intercept, monkeypatch):
    if rows == "long csr":  # whose zeros would take more than a gather
        monkeypatch.setattr("finitesum.methods.newton.dual_arrays.MOST_WITH_ZEROS", 0.0)
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 40)) * (rng.random((60, 40)) < 0.4)
    y = rng.standard_normal(60) + X.sum(axis=1)
    targets = np.where(y > 0, 1, -1) if "hinge" in loss else y
    data = X if rows == "dense" else sp.csr_array(X)
    problem = Problem.linear(data, targets, loss=loss, alpha=0.05, fit_intercept=intercept, sample_weight=rng.random(60))
    found = minimize(problem, method="dual-ascent", tol=1e-9)
    with as_python():
        wanted = minimize(problem, method="dual-ascent", tol=1e-9)
    assert found.success
    assert found.optimality <= 1e-9
    np.testing.assert_allclose(found.fun, wanted.fun, rtol=0, atol=2e-9)
    np.testing.assert_allclose(found.x, wanted.x, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("rows", ["dense", "csr", "long csr"])
@pytest.mark.parametrize("more", [{"l1_ratio": 1.0}, {"l1_ratio": 0.5}, {"constraint": constraints.Box(-0.1, 0.2)}])
def test_coordinate_descent_ends_at_the_same_minimum(more, rows, intercept, monkeypatch):
    if rows == "long csr":
        monkeypatch.setattr("finitesum.methods.subproblems.scaled_columns.MOST_WITH_ZEROS", 0.0)
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 150)) * (rng.random((60, 150)) < 0.4)
    y = rng.standard_normal(60) + X[:, :10].sum(axis=1)
    data = X if rows == "dense" else sp.csr_array(X)
    for loss, targets in (("logistic", y > 0), ("squared", y)):
        problem = Problem.linear(data, targets, loss=loss, alpha=0.02, fit_intercept=intercept, **more)
        found = minimize(problem, method="coordinate-descent", tol=1e-10)
        with as_python():
            wanted = minimize(problem, method="coordinate-descent", tol=1e-10)
        assert found.success
        np.testing.assert_allclose(found.fun, wanted.fun, rtol=1e-12)
        np.testing.assert_allclose(found.x, wanted.x, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("rows", ["dense", "csr", "long csr"])
@pytest.mark.parametrize("penalty", [MCP(0.1), SCAD(0.2)])
def test_coordinate_descent_by_a_prox_takes_the_same_steps(penalty, rows, intercept, monkeypatch):
    if rows == "long csr":
        monkeypatch.setattr("finitesum.methods.subproblems.scaled_columns.MOST_WITH_ZEROS", 0.0)
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 150)) * (rng.random((60, 150)) < 0.4)
    y = rng.standard_normal(60) + X[:, :10].sum(axis=1)
    data = X if rows == "dense" else sp.csr_array(X)
    for loss, targets in (("poisson", rng.poisson(np.exp(0.2 * y))), ("squared", y)):
        problem = Problem.linear(data, targets, loss=loss, penalty=penalty, fit_intercept=intercept)
        found = minimize(problem, method="coordinate-descent", tol=1e-10)
        with as_python():
            wanted = minimize(problem, method="coordinate-descent", tol=1e-10)
        assert found.success
        np.testing.assert_allclose(found.x, wanted.x, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("l1_ratio", [0.0, 0.4])
def test_coordinate_descent_by_groups_ends_at_the_same_minimum(l1_ratio, form, intercept):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 150)) * (rng.random((60, 150)) < 0.4)
    y = rng.standard_normal(60) + X[:, :10].sum(axis=1)
    labels = rng.integers(0, 40, 150)
    for loss, targets in (("logistic", y > 0), ("squared", y)):
        own = {"alpha": 0.02, "l1_ratio": l1_ratio, "groups": labels}
        problem = Problem.linear(form(X), targets, loss=loss, fit_intercept=intercept, **own)
        found = minimize(problem, method="coordinate-descent", tol=1e-10)
        with as_python():
            wanted = minimize(problem, method="coordinate-descent", tol=1e-10)
        assert found.success
        np.testing.assert_allclose(found.fun, wanted.fun, rtol=1e-12)
        np.testing.assert_allclose(found.x, wanted.x, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("constraint", [None, constraints.L1Ball(1.0), constraints.Box(-0.1, 0.1)])
def test_newton_s_models_of_many_columns_end_at_the_same_minimum(constraint):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((300, 80)) * np.logspace(0, -2, 80)
    y = rng.standard_normal(300) + X[:, :10].sum(axis=1) > 0
    more = {"alpha": 0.003, "l1_ratio": 0.9} if constraint is None else {"constraint": constraint, "alpha": 1e-4}
    problem = Problem.linear(X, y, loss="logistic", fit_intercept=True, **more)
    found = minimize(problem, method="newton", tol=1e-10)
    with as_python():
        wanted = minimize(problem, method="newton", tol=1e-10)
    assert found.success
    np.testing.assert_allclose(found.x, wanted.x, rtol=1e-6, atol=1e-7)


def test_a_loss_of_the_users_own_needs_no_compiler():
    assert not takes_arrays(WrittenForNumbers())
    assert takes_arrays(WrittenWithNumPy())
    known = minimize(problem_of(Logistic(), "dense"), tol=1e-10).x
    for loss in (WrittenForNumbers(), WrittenWithNumPy()):
        result = minimize(problem_of(loss, "dense"), tol=1e-10)
        assert result.success
        np.testing.assert_allclose(result.x, known, rtol=1e-7)


def test_the_form_depends_on_the_size_of_the_data_alone():
    kernel = row_products._predict
    assert isinstance(kernel, Kernel)
    small = problem_of(Logistic(), "dense")
    assert n_numbers(small.view) == N * (D + 10.0)
    n = int(MOST_NUMBERS / (D + 10.0))
    for size, is_small in ((n, True), (n + 1, False)):
        problem = Problem.linear(np.zeros((size, D)), np.ones(size), loss="squared")
        assert (n_numbers(problem.view) <= MOST_NUMBERS) == is_small


def test_a_small_fit_in_a_process_of_its_own_never_loads_the_compiler():
    code = """
import sys, numpy as np
from finitesum.estimators import HuberRegressor, LinearSVC, PoissonRegressor, Ridge
from finitesum.constraints import L1Ball
from finitesum.estimators import LinearRegressor, LogisticRegression, LogisticRegressionCV
rng = np.random.default_rng(0)
X = rng.standard_normal((60, 4))
u = X.sum(axis=1) + rng.standard_normal(60)
for C in (dict(), dict(l1_ratio=1.0), dict(constraint=L1Ball(1.0))):
    LogisticRegression(**C).fit(X, u > 0)
LogisticRegression().fit(X, np.digitize(u, [-1, 1]))
for loss in ("hinge", "squared-hinge"):
    LinearSVC(loss=loss).fit(X, u > 0)
LogisticRegressionCV().fit(X, u > 0)
corners = [LinearRegressor(loss=loss, alpha=0.01) for loss in ("epsilon-insensitive", "quantile")]
for model in (HuberRegressor(), PoissonRegressor(), Ridge(), *corners):
    model.fit(X, np.abs(u))
print("numba" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_small_fit_of_many_columns_never_loads_the_compiler_where_nothing_is_compiled(tmp_path):
    code = """
import sys, numpy as np, scipy.sparse as sp
from finitesum.constraints import Box, L1Ball
from finitesum.estimators import LinearRegressor, LinearSVC, LogisticRegression, LogisticRegressionCV, PoissonRegressor
rng = np.random.default_rng(0)
wide, high = rng.standard_normal((60, 300)), rng.standard_normal((300, 100))
text = sp.csr_array(sp.random(200, 500, density=0.02, random_state=0))
penalties = [dict(), dict(l1_ratio=1.0), dict(l1_ratio=0.5), dict(constraint=L1Ball(1.0)), dict(constraint=Box(-0.1, 0.1))]
for X in (wide, high, text):
    u = X[:, :10].sum(axis=1) + 0.1 * rng.standard_normal(X.shape[0])
    for more in penalties:
        LogisticRegression(**more).fit(X, u > 0)
    for loss in ("hinge", "squared-hinge"):
        LinearSVC(loss=loss).fit(X, u > 0)
    LinearRegressor(loss="epsilon-insensitive", alpha=0.01).fit(X, u)
    LinearRegressor(alpha=0.01, l1_ratio=1.0).fit(X, u)
    PoissonRegressor(alpha=0.1, l1_ratio=1.0).fit(X, np.abs(u))
u = high[:, 0] + rng.standard_normal(300)
LogisticRegression(l1_ratio=1.0).fit(high[:, :20], np.digitize(u, [-1, 0, 1]))
LogisticRegressionCV(l1_ratios=[0.5, 1.0], Cs=3).fit(high[:, :20], u > 0)
print("numba" in sys.modules)
"""
    assert _printed(code, tmp_path) == "False\n"


def _printed(code, folder):
    """Return what a process prints that keeps its kernels in a folder."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder)}
    command = [sys.executable, "-W", "ignore", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


@pytest.mark.slow
@pytest.mark.compiled
def test_stand_ins_give_way_to_what_is_on_disk_in_later_processes_alone(tmp_path):
    code = """
import sys, numpy as np
from finitesum.core.jit import as_compiled
from finitesum.estimators import LinearRegressor
rng = np.random.default_rng(0)
X = rng.standard_normal((60, 300))
y = X[:, :10].sum(axis=1) + 0.1 * rng.standard_normal(60)
model = lambda: LinearRegressor(alpha=0.01, l1_ratio=1.0, tol=1e-10).fit(X, y)
first = model()
is_loaded = "numba" in sys.modules
with as_compiled():
    other = model()
again = model()
print(is_loaded, (first.coef_ == again.coef_).all(), np.abs(first.coef_ - other.coef_).max() < 1e-8)
"""
    assert _printed(code, tmp_path) == "False True True\n"
    assert _printed(code, tmp_path) == "True True True\n"


@pytest.mark.slow
@pytest.mark.compiled
def test_a_run_is_resumed_to_the_same_bits_where_its_kernels_were_compiled_in_between(tmp_path):
    code = """
import sys, numpy as np
from finitesum import Problem, minimize
from finitesum.core.jit import as_compiled
rng = np.random.default_rng(0)
X = rng.standard_normal((60, 300))
problem = Problem.linear(X, X[:, :10].sum(axis=1) + rng.standard_normal(60) > 0, alpha=0.003, l1_ratio=1.0)
step, file = sys.argv[1:] if len(sys.argv) > 1 else STEP
given = dict(method="coordinate-descent", tol=1e-10)
if step == "whole":
    print(minimize(problem, **given).x.tobytes().hex())
elif step == "begin":
    print(minimize(problem, **given, max_iter=3, checkpoint=file).success)
elif step == "compile":
    with as_compiled():
        minimize(problem, **given)
    print("numba" in sys.modules)
else:
    print(minimize(problem, **given, checkpoint=file, resume=True).x.tobytes().hex(), "numba" in sys.modules)
"""

    def printed(step):
        return _printed(code.replace("STEP", repr((step, str(tmp_path / "run.npz")))), tmp_path / "kernels").split()

    (whole,) = printed("whole")
    assert printed("begin") == ["False"]
    assert printed("compile") == ["True"]
    assert printed("whole") != [whole]
    assert printed("resume") == [whole, "False"]


def test_no_form_stands_in_on_parts_and_marks_are_for_later_processes(monkeypatch, tmp_path):
    seen = []
    monkeypatch.setattr(kernel_folder, "cache_folder", lambda: tmp_path)
    kernel = jit.Kernel(lambda x: seen.append("kernel"))
    jit.array_form(kernel, lambda x: 1.0, stands_in=True)(lambda x: seen.append("arrays"))
    monkeypatch.setattr(kernel, "_cached", kernel.function)
    kernel(1.0)
    with jit.without_stand_ins():
        kernel(1.0)
    kernel(1.0)
    assert seen == ["arrays", "kernel", "arrays"]
    assert [path.suffix for path in tmp_path.iterdir()] == [".kept"]
    monkeypatch.setattr(kernel_folder, "_FOUND", {})  # as in a later process
    later = jit.Kernel(kernel.function)
    assert jit.has_machine_code(later, 1.0)
    assert not jit.has_machine_code(later, 1)
    assert later.is_on_disk((1.0,))
    assert later.is_on_disk((np.float64(2.0),))  # machine code is the same
    assert not later.is_on_disk((1,))


def test_what_has_stood_in_for_long_ends_with_the_next_run(monkeypatch, tmp_path):
    """Not within one, nor where an earlier run goes on; a checkpoint knows it then."""
    seen = []
    monkeypatch.setattr(kernel_folder, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(kernel_folder, "_FOUND", {})
    monkeypatch.setattr(stand_ins, "ENOUGH", 0.0)
    monkeypatch.setattr(stand_ins, "_spent", {})
    kernel = jit.Kernel(lambda x: seen.append("kernel"))
    jit.array_form(kernel, lambda x: 1.0, stands_in=True)(lambda x: seen.append(sum(range(10_000)) and "arrays"))
    monkeypatch.setattr(kernel, "_cached", kernel.function)

    @stand_ins.run_of_kernels
    def run(inner=None, resume=False, earlier=None):
        kernel(1.0)
        if inner:
            inner()
        kernel(1.0)

    run()
    assert seen == ["arrays"] * 2
    run(resume=True)
    run(earlier="a result")
    assert seen == ["arrays"] * 6
    monkeypatch.setattr(stand_ins, "ENOUGH", 1e9)
    run(inner=lambda: (monkeypatch.setattr(stand_ins, "ENOUGH", 0.0), run()))
    assert seen == ["arrays"] * 10
    run()
    assert seen == ["arrays"] * 10 + ["kernel"] * 2
    assert set(kernel_folder.found_on_disk().values()) == {True}
    kernel(1)  # of other kinds
    assert seen[-1] == "arrays"
    kernel_folder.take_as_found(dict.fromkeys(kernel_folder.found_on_disk(), False))  # of a run that is resumed
    kernel(1.0)
    assert seen[-1] == "arrays"
    assert not kernel.is_on_disk((1.0,))


@pytest.mark.parametrize(
    ("loss", "rows"), [("logistic", "dense"), ("logistic", "csr"), ("hinge", "csr"), ("huber", "float32")]
)
@pytest.mark.parametrize("l1_ratio", [0.0, 0.5])
def test_a_run_that_is_resumed_has_the_same_bits(loss, rows, l1_ratio, tmp_path):
    def run(**more):
        problem = problem_of(LOSSES[loss](), rows, fit_intercept=True)
        problem = replace(problem, penalty=ElasticNet(0.1 * l1_ratio, 0.1 - 0.1 * l1_ratio))
        return minimize(problem, tol=1e-10, checkpoint=tmp_path / "run.npz", **more)

    run(max_iter=2)
    resumed = run(resume=True)
    (tmp_path / "run.npz").unlink()
    whole = run()
    assert whole.nit > 2
    assert resumed.x.tobytes() == whole.x.tobytes()
    assert (resumed.fun, resumed.optimality, resumed.nit) == (whole.fun, whole.optimality, whole.nit)


@pytest.mark.parametrize(
    ("n", "d", "density", "is_small"),
    [
        (10_000, 20, 1.0, True),
        (11_000, 20, 1.0, False),
        (4000, 900, 0.05, True),
        (5000, 900, 0.05, False),
        (3300, 900, 0.05, True),
    ],
)
def test_dual_ascent_stands_in_for_kernels_up_to_some_thousand_rows(n, d, density, is_small):
    X = np.zeros((n, d)) if density == 1.0 else sp.random(n, d, density, format="csr", random_state=0)
    view = Problem.linear(X, np.arange(n) % 2, loss="hinge", alpha=0.1).view
    assert (dual_arrays.n_numbers_of_visits(view) <= jit.MOST_NUMBERS) == is_small


def test_column_models_stand_in_for_kernels_up_to_some_thousand_columns():
    none, some = np.zeros(0), np.zeros(0, dtype=np.int32)
    for n_columns, is_small in ((5000, True), (5001, False)):
        columns = CSRRows(none, some, np.zeros(n_columns + 1, dtype=np.int32), n_columns, 100, 0)
        assert (scaled_columns.n_numbers(columns) <= jit.MOST_NUMBERS) == is_small
    for n_columns, is_small in ((3000, True), (3001, False)):
        columns = DenseRows(np.broadcast_to(0.0, (n_columns, 1000)), n_columns, 1000, 0)
        assert (scaled_columns.n_numbers(columns) <= jit.MOST_NUMBERS) == is_small
