"""Rows in parts: the optimum of the same rows in memory, the same bits for any number of workers, and clear errors."""

import functools
import itertools
import pickle
import threading
import time
import types
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse

from finitesum import METHODS, FiniteSum, Problem, minimize
from finitesum.constraints import Box, HalfSpace, L1Ball, L2Ball, LInfBall, NonNegative, Polyhedron, Simplex
from finitesum.core.engine import PartError, Threads
from finitesum.core.jit import as_compiled
from finitesum.core.mapped import mapping_of
from finitesum.evaluation.part_components import parts_as_components
from finitesum.evaluation.row_products import predictions
from finitesum.losses import LOSSES, Cornered, as_loss
from finitesum.methods import ACIAG, NewtonCG
from finitesum.methods.newton import multinomial_newton
from finitesum.methods.rounds import lateness
from finitesum.problems.arrivals import Rounds
from finitesum.problems.beside import Beside, some_by_row
from finitesum.problems.penalties import MCP, SCAD

cloudpickle = pytest.importorskip("cloudpickle")  # which joblib needs, too

#: Where parts begin and end: of unequal size, one of a single row.
CUTS = (0, 50, 51, 120, 200)

#: All losses, and the squared one of two targets.
ALL = (*LOSSES, "multinomial", "two targets")

#: Losses of several outputs.
SEVERAL = ("multinomial", "two targets")

TERMS = {
    "l2": {"alpha": 0.05},
    "elastic net": {"alpha": 0.05, "l1_ratio": 0.5},
    "weights": {"alpha": 0.05, "penalty_weights": [1.0, 2.0, 0.5, 1.0, 3.0]},
    "groups": {"alpha": 0.02, "groups": [0, 0, 1, 1, 2]},
    "box": {"alpha": 0.01, "constraint": Box(-0.2, 0.3)},
    "l1-ball": {"constraint": L1Ball(0.7)},
}


def data(loss, n=CUTS[-1], d=5):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.7)
    signal = X @ rng.standard_normal(d) + rng.standard_normal(n)
    kind = "real" if loss == "two targets" else as_loss(loss).target_kind()
    if kind in ("count", "positive"):
        y = rng.poisson(np.exp(np.clip(0.5 * signal, -2.0, 2.0))) + (0.5 if kind == "positive" else 0.0)
    elif kind == "share":
        y = 1.0 / (1.0 + np.exp(-signal))
    elif kind == "real":
        y = np.column_stack([signal, rng.standard_normal(n)]) if loss == "two targets" else signal
    else:  # sorted, so that no part has all labels
        order = np.argsort(signal)
        X, signal = X[order], signal[order]
        y = np.digitize(signal, [-1.0, 1.0]) if loss == "multinomial" else np.where(signal > 0.0, "yes", "no")
    return X, y, rng.integers(0, 4, n).astype(float), 0.2 * rng.standard_normal(n)


def in_parts(*arrays, cuts=CUTS):
    return [tuple(array[a:b] for array in arrays) for a, b in itertools.pairwise(cuts)]


def both(loss, term, *, form=np.asarray, weighted=False, engine=None):
    X, y, weight, offset = data(loss)
    arrays, more = (form(X), y), {}
    if weighted:
        offset = np.tile(offset[:, None], {"multinomial": 3, "two targets": 2}[loss]) if loss in SEVERAL else offset
        arrays, more = (*arrays, weight, offset), {"sample_weight": weight, "offset": offset}
    settings = {"loss": "squared" if loss == "two targets" else loss, "fit_intercept": True, **term}
    return Problem.linear(*arrays[:2], **settings, **more), Problem.partitioned(
        in_parts(*arrays), engine=engine, **settings
    )


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize("loss", ALL)
def test_parts_have_the_optimum_of_the_whole(loss, name, weighted):
    form = scipy.sparse.csr_array if weighted else np.asarray
    expected, found = solutions(loss, TERMS[name], 1e-8 if name == "groups" else 1e-10, form=form, weighted=weighted)
    is_sharp = loss not in SEVERAL and not as_loss(loss).is_smooth()  # F hardly rises along some edge, or not at all
    if not isinstance(found, str) and not is_sharp:
        assert np.linalg.norm(found.x - expected.x) <= 1e-7 * np.linalg.norm(expected.x)


#: Penalties, and the sets of the coefficients: the table goes over all of their pairs with each loss.
PENALTIES = {
    "none": {},
    "l2": {"alpha": 0.05},
    "l1": {"alpha": 0.03, "l1_ratio": 1.0},
    "elastic net": TERMS["elastic net"],
    "weights": TERMS["weights"],
    "groups": TERMS["groups"],
    "sparse groups": {**TERMS["groups"], "l1_ratio": 0.5},
    "mcp": {"penalty": MCP(0.05)},
    "scad": {"penalty": SCAD(0.05)},
}
PLANES = Polyhedron(np.array([[1.0, 1.0, 0.0, 0.0, 0.0], [0.0, -1.0, 1.0, 0.0, 1.0]]), [0.3, 0.4])
SETS = (
    *(None, Box(-0.2, 0.3), NonNegative(), L1Ball(0.7), L2Ball(0.6), LInfBall(0.3)),
    *(Simplex(1.0), HalfSpace(np.ones(5), 0.5), PLANES),
)


def solutions(loss, term, tol, method="auto", **settings):
    """Return the results in memory and in parts, or the sentences that refuse them, which are the same."""
    found = []
    for k in range(2):
        try:
            with np.errstate(all="ignore"):  # of kernels as Python that step too far
                found.append(
                    minimize(both(loss, term, **settings)[k], method=method, tol=tol, max_iter=20_000, measure_every=0)
                )
        except ValueError as error:
            found.append(str(error))
    if isinstance(found[0], str):
        assert found[0] == found[1]
    else:
        assert found[0].success
        assert found[1].success
        assert abs(found[1].fun - found[0].fun) <= 1e-10 * max(abs(found[0].fun), 1.0)  # with corners: the gap, to tol
    return found


@pytest.mark.slow
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", ALL)
def test_each_loss_penalty_and_set_has_one_optimum_or_one_refusal(loss, penalty):
    tol = 1e-8 if penalty.endswith("groups") or penalty in ("mcp", "scad") else 1e-10
    for constraint in SETS:
        term = PENALTIES[penalty] if constraint is None else PENALTIES[penalty] | {"constraint": constraint}
        expected, *_ = solutions(loss, term, tol, "fg" if penalty in ("mcp", "scad") else "auto")  # many stationary points
        if constraint is None:
            is_hard = loss not in SEVERAL and isinstance(as_loss(loss), Cornered)
            may_be_refused = is_hard and penalty not in ("none", "l2", "l1", "elastic net", "weights")
            assert not isinstance(expected, str) or may_be_refused


#: A problem that each method can treat, and passes that suffice.
SUITED = {name: ("logistic", TERMS["l2"]) for name, cls in METHODS.items() if {"parts", "components"} & cls.handles}
SUITED |= dict.fromkeys(("multinomial-newton", "multinomial-lbfgs"), ("multinomial", TERMS["l2"]))
SUITED["working-set-newton"] = ("logistic", TERMS["elastic net"])
SUITED["interior-point"] = ("hinge", TERMS["elastic net"])
SUITED["semismooth-newton"] = ("quantile", TERMS["l2"])


@pytest.mark.parametrize("thinks", [False, True])
def test_lazy_newton_takes_the_same_passes_as_in_memory(thinks, monkeypatch):
    if thinks:  # about which rows of the Hessian to sum again, as on large data
        monkeypatch.setattr("finitesum.methods.newton.stale_hessian.NO_THOUGHT", 0.0)
    problems = both("logistic", TERMS["l2"], weighted=True)
    runs = [minimize(problem, method="lazy-newton", tol=1e-12, measure_every=0) for problem in problems]
    assert runs[0].n_passes == runs[1].n_passes
    np.testing.assert_allclose(runs[0].x, runs[1].x, rtol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", ["logistic", "multinomial"])
def test_blocks_of_rows_of_parts_are_components(loss, weighted):
    X, y, weight, offset = data(loss)
    more = {} if not weighted else {"weight": weight, "offset": np.tile(offset[:, None], 3) if loss in SEVERAL else offset}
    settings = {"loss": loss, "alpha": 0.1, "fit_intercept": True, "batch_size": 10}
    names = {"weight": "sample_weight", "offset": "offset"}
    whole = Problem.linear(X, y, **settings, **{names[name]: array for name, array in more.items()})
    parts = in_parts(X, y, *more.values(), cuts=(0, 30, 100, 200))
    parted = Problem.partitioned(parts, loss=loss, alpha=0.1, fit_intercept=True).batched(10)
    expected, found = FiniteSum.from_linear(whole), parts_as_components(parted)
    w = np.random.default_rng(4).standard_normal(whole.dim)
    assert found.n_components == expected.n_components == 20
    for j in range(20):
        assert found.component_value(w, j) == pytest.approx(expected.component_value(w, j), rel=1e-12)
        np.testing.assert_allclose(found.component_gradient(w, j), expected.component_gradient(w, j), atol=1e-12)
        np.testing.assert_allclose(found.component_hessian(w, j), expected.component_hessian(w, j), atol=1e-12)
    exact = minimize(whole, method="newton", tol=1e-10).x
    np.testing.assert_allclose(minimize(parted, method="saga", tol=1e-8).x, exact, atol=1e-6)


@pytest.mark.parametrize("method", SUITED)
def test_bits_do_not_depend_on_the_number_of_workers(method):
    loss, term = SUITED[method]
    runs = [
        minimize(both(loss, term, engine=Threads(n))[1], method=method, tol=1e-8, max_iter=30, measure_every=0)
        for n in (1, 2, 7)
    ]
    assert len({run.x.tobytes() for run in runs}) == 1
    assert len({run.n_passes for run in runs}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("loss", ALL)
def test_bits_of_each_loss_and_penalty_do_not_depend_on_the_number_of_workers(loss):
    for term in PENALTIES.values():
        found = []
        for n in (1, 2, 7):
            problem = both(loss, term, weighted=True, engine=Threads(n))[1]
            try:
                with np.errstate(all="ignore"):
                    found.append(minimize(problem, tol=1e-8, max_iter=500, measure_every=0).x.tobytes())
            except ValueError as error:
                found.append(str(error))
        assert len(set(found)) == 1


@pytest.mark.parametrize("method", sorted(set(METHODS) - set(SUITED)))
def test_other_methods_say_that_they_cannot_read_rows_that_are_elsewhere(method):
    _, parted = both("logistic", TERMS["l2"], engine=Elsewhere())
    with pytest.raises(ValueError, match=f"{method} cannot treat rows in parts"):
        minimize(parted, method=method)


class Reloading(Threads):
    """An engine that keeps no part, and loads it again each time."""

    def place(self, part):
        return part

    def submit(self, function, handle, *arguments):
        if not hasattr(handle, "load"):
            return super().submit(function, handle, *arguments)

        def call():
            with np.errstate(all="ignore"):
                return function(handle.load(), *arguments)

        return self._pool.submit(call)


class Elsewhere(Reloading):
    """An engine whose workers share no memory with us: what they are sent and what they send is pickled."""

    is_elsewhere = True

    def __init__(self):
        super().__init__(2)
        self.sent = []

    def submit(self, function, handle, *arguments):
        is_from_workers = any(isinstance(one, Future) for one in arguments)
        if is_from_workers:  # which send it to each other
            self.sent.append(len(cloudpickle.dumps((function, [one for one in arguments if not isinstance(one, Future)]))))
        handle, *arguments = (one.result() if isinstance(one, Future) else one for one in (handle, *arguments))
        text = cloudpickle.dumps((function, arguments))
        if not is_from_workers:
            self.sent.append(len(text))

        def call(part):
            with np.errstate(all="ignore"):
                copied, given = pickle.loads(text)
                return pickle.loads(cloudpickle.dumps(copied(part.load() if hasattr(part, "load") else part, *given)))

        return self._pool.submit(call, pickle.loads(cloudpickle.dumps(handle)))


@pytest.mark.parametrize(
    "method", ["fg", "newton", "lazy-newton", "newton-cg", "lbfgs", "working-set-newton", "saga", "a-ciag"]
)
def test_workers_need_no_memory_of_ours(method, monkeypatch):
    monkeypatch.setattr("finitesum.methods.newton.stale_hessian.NO_THOUGHT", 0.0)
    (loss, term), elsewhere = SUITED[method], Elsewhere()
    runs = [
        minimize(both(loss, term, weighted=True, engine=engine)[1], method=method, tol=1e-8, max_iter=20, measure_every=0)
        for engine in (Threads(2), elsewhere)
    ]
    if method == "lazy-newton":  # which asks one part first where they are elsewhere
        assert runs[0].x == pytest.approx(runs[1].x, abs=1e-7)
    else:
        assert np.array_equal(runs[0].x, runs[1].x)
    assert max(elsewhere.sent) < 20_000  # bytes: no part is among them


@pytest.mark.parametrize("method", ["newton-cg", pytest.param("lazy-newton", marks=pytest.mark.slow)])
def test_samples_are_named_by_their_components_and_not_by_their_rows(method):
    X, y, *_ = data("logistic", n=80_000)
    parts, engine = in_parts(X, y, cuts=range(0, 80_001, 20_000)), Elsewhere()
    minimize(Problem.partitioned(parts, alpha=0.01, engine=engine), method=method, tol=1e-6, max_iter=20, measure_every=0)
    assert max(engine.sent) < 20_000  # bytes: the rows of a sample would be 50,000 and more


@pytest.mark.as_chosen
@pytest.mark.parametrize("is_sorted", [False, True])
@pytest.mark.parametrize("term", [{"fit_intercept": True}, {"l1_ratio": 0.5}, {"constraint": Box(-0.2, 0.3)}])
def test_lazy_newton_asks_one_part_first_where_parts_are_elsewhere(term, is_sorted):
    X, y, *_ = data("logistic", n=12_000)
    cuts = (0, 3000, 3001, 8000, 12_000)
    order = np.arange(len(y)) if is_sorted else np.random.default_rng(0).permutation(len(y))  # one label a part, or both
    X, y, term = X[order], y[order], {"alpha": 0.01, **term}
    known = minimize(Problem.linear(X, y, **term), method="newton", tol=1e-10)
    problem = Problem.partitioned(in_parts(X, y, cuts=cuts), engine=(engine := Elsewhere()), **term)
    n_before, steps = len(engine.sent), []
    result = minimize(problem, method="lazy-newton", tol=1e-10, measure_every=0, callback=lambda report: steps.append(0))
    assert result.success
    assert result.x == pytest.approx(known.x, abs=1e-7)
    if not is_sorted:  # rounds of sums over four parts, and Hessians of some
        assert len(engine.sent) - n_before < 9 * len(steps)
        assert len(steps) < 12


@pytest.mark.as_chosen
@pytest.mark.parametrize("is_sorted", [False, True])
@pytest.mark.parametrize(("form", "weighted"), [(np.asarray, True), (scipy.sparse.csr_array, False)])
def test_newton_cg_asks_one_part_first_where_parts_are_elsewhere(is_sorted, form, weighted):
    X, y, weight, offset = data("logistic", n=30_000)
    cuts = (0, 5000, 5001, 20_000, 30_000)
    order = np.arange(len(y)) if is_sorted else np.random.default_rng(0).permutation(len(y))  # one label a part, or both
    arrays = [X[order], y[order], weight[order], offset[order]][: 4 if weighted else 2]
    term = {"alpha": 0.01, "fit_intercept": True}
    given = dict(zip(("sample_weight", "offset"), arrays[2:], strict=False))
    known = minimize(Problem.linear(*arrays[:2], **given, **term), method="newton", tol=1e-10)
    parts = [(form(part[0]), *part[1:]) for part in in_parts(*arrays, cuts=cuts)]
    rounds, n_passes = [], []
    for engine, first_rows in ((Elsewhere(), "auto"), (Elsewhere(), 2000)):
        problem = Problem.partitioned(parts, engine=engine, **term)
        n_before = len(engine.sent)
        result = minimize(problem, method=NewtonCG(first_rows=first_rows), tol=1e-10, measure_every=0)
        assert result.success
        assert result.x == pytest.approx(known.x, abs=1e-7)
        rounds.append(len(engine.sent) - n_before)
        n_passes.append(result.n_passes)
    if not is_sorted:  # else the start is the better point, and samples are as without
        assert rounds[0] < rounds[1]
        assert n_passes[0] < 2.0 * n_passes[1]


@pytest.mark.as_chosen
@pytest.mark.parametrize("method", ["lazy-newton", "newton-cg"])
def test_a_run_on_parts_elsewhere_is_resumed_to_the_same_bits(method, tmp_path):
    n = 12_000 if method == "lazy-newton" else 40_000
    X, y, *_ = data("logistic", n=n)
    runs = []
    for cut in (None, 1, 3):
        problem = Problem.partitioned(in_parts(X, y, cuts=range(0, n + 1, n // 4)), alpha=0.01, engine=Elsewhere())
        settings = {"method": method, "tol": 1e-10, "measure_every": 0}
        if cut is not None:
            file = tmp_path / f"{cut}.ckpt"
            minimize(problem, max_iter=cut, checkpoint=file, **settings)
            settings |= {"checkpoint": file, "resume": True}
        runs.append(minimize(problem, **settings))
    assert runs[0].success
    assert runs[1].x.tobytes() == runs[0].x.tobytes() == runs[2].x.tobytes()


#: Methods that have numbers by row, a loss, a penalty and options that let them need all rows.
BESIDE = {
    "afg": ("logistic", {"alpha": 0.05}, {}),
    "newton": ("logistic", {"alpha": 0.05}, {}),
    "newton, linear pieces": ("huber", {"alpha": 0.05}, {}),
    "newton-cg": ("logistic", {"alpha": 0.05}, {"first_rows": 8000}),
    "newton-cg, from a sample": ("logistic", {"alpha": 0.05}, {}),
    "lazy-newton": ("logistic", {"alpha": 0.05}, {}),
    "working-set-newton": ("logistic", {"alpha": 0.05, "l1_ratio": 0.5}, {}),
    "multinomial-lbfgs": ("multinomial", {"alpha": 0.05}, {"preconditioner": "none"}),
    "multinomial-newton": ("multinomial", {"alpha": 0.05}, {}),
    "multinomial-newton, products": ("multinomial", {"alpha": 1e-4}, {"solver": "cg"}),
    "semismooth-newton": ("hinge", {"alpha": 0.05}, {}),
    "semismooth-newton, an intercept": ("hinge", {"alpha": 0.05, "fit_intercept": True}, {}),
    "semismooth-newton, two corners": ("epsilon-insensitive", {"alpha": 0.05, "fit_intercept": True}, {}),
    "interior-point": ("hinge", {"alpha": 0.05, "l1_ratio": 0.5}, {}),
    "interior-point, two hinges a row": ("quantile", {"alpha": 0.05, "l1_ratio": 0.5, "fit_intercept": True}, {}),
}


@pytest.mark.as_chosen
@pytest.mark.parametrize("name", BESIDE)
def test_what_workers_wrote_stays_with_them(name, monkeypatch):
    monkeypatch.setattr("finitesum.problems.beside.LEAST_BYTES", 1 << 10)
    monkeypatch.setattr("finitesum.methods.newton.stale_hessian.NO_THOUGHT", 0.0)
    loss, term, options = BESIDE[name]
    X, y, *_ = data(loss, n=8000)
    runs, elsewhere, brought = [], Elsewhere(), []
    each = Beside.numbers
    monkeypatch.setattr(Beside, "numbers", property(lambda self: brought.append(1) or each.fget(self)))
    settings = {"method": name.split(",")[0], "options": options, "tol": 1e-8, "max_iter": 400, "measure_every": 0}
    for engine in (Threads(2), elsewhere):
        problem = Problem.partitioned(in_parts(X, y, cuts=range(0, 8001, 2000)), loss=loss, engine=engine, **term)
        runs.append(minimize(problem, **settings))
    assert runs[0].success
    assert runs[0].x == pytest.approx(runs[1].x, abs=1e-7)
    if name != "lazy-newton":  # which asks one part first where they are elsewhere
        assert np.array_equal(runs[0].x, runs[1].x)
    if name not in ("lazy-newton", "working-set-newton"):  # which send rises of rows whose curvature moved
        assert max(elsewhere.sent) < 8000  # bytes; the least array by row of a part has as many
    assert not brought


#: Penalties and sets, without and with sides beside the rows, of each kind that interior points know.
SIDES = {
    "l2": {"alpha": 0.05},
    "l1": {"alpha": 0.03, "l1_ratio": 1.0},
    "box": {"alpha": 0.01, "constraint": Box(-0.2, 0.3)},
    "l1-ball": {"constraint": L1Ball(0.7)},
    "l2-ball": {"constraint": L2Ball(0.6)},
    "simplex": {"constraint": Simplex(1.0)},
    "half-space": {"alpha": 0.01, "constraint": HalfSpace(np.ones(5), 0.5)},
}


@pytest.mark.as_chosen
@pytest.mark.parametrize(
    ("loss", "name"),
    [
        *(("hinge", name) for name in SIDES),
        *itertools.product(["quantile", "epsilon-insensitive"], ["l2", "l1-ball"]),
        *(
            pytest.param(loss, name, marks=pytest.mark.slow)
            for loss, name in itertools.product(["quantile", "epsilon-insensitive"], SIDES)
            if name not in ("l2", "l1-ball")
        ),
    ],
)
def test_interior_points_leave_their_numbers_beside_the_rows(loss, name, monkeypatch):
    monkeypatch.setattr("finitesum.problems.beside.LEAST_BYTES", 1 << 8)
    X, y, weight, offset = data(loss, n=400)
    cuts, n_rounds = [0, 120, 200, 400], []
    each = Beside.numbers
    settings = {"loss": loss, "fit_intercept": True, **SIDES[name]}
    ask = {"method": "interior-point", "tol": 1e-9, "measure_every": 0}
    known = minimize(Problem.linear(X, y, sample_weight=weight, offset=offset, **settings), **ask)
    runs = []
    for engine in (Threads(1), Threads(2), Threads(7), Elsewhere()):
        parts = in_parts(X, y, weight, offset, cuts=cuts)
        problem = Problem.partitioned(parts, engine=engine, **settings)
        with monkeypatch.context() as patched:
            brought, rounds = [], []
            patched.setattr(Beside, "numbers", property(lambda self, to=brought: to.append(1) or each.fget(self)))
            patched.setattr(problem.rows.rounds, "add", rounds.append)
            runs.append(minimize(problem, **ask))
            n_rounds.append(len(rounds))
        assert not brought
    assert known.success
    assert all(run.success for run in runs)
    assert len({run.x.tobytes() for run in runs}) == 1
    assert abs(runs[0].fun - known.fun) <= 2e-9
    assert max(n_rounds) <= 6 * runs[0].nit + 12  # those of the start, of the bound and of the check


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
def test_few_rows_in_parts_are_brought_together_where_their_span_is_needed(form):
    rng = np.random.default_rng(3)
    X, weight = rng.standard_normal((30, 80)), rng.integers(0, 4, 30).astype(float)
    y, offset = np.where(rng.random(30) < 0.5, 1.0, -1.0), 0.2 * rng.standard_normal(30)
    settings = {"loss": "hinge", "alpha": 0.2, "fit_intercept": True}
    whole = Problem.linear(form(X), y, sample_weight=weight, offset=offset, **settings)
    parted = Problem.partitioned(in_parts(form(X), y, weight, offset, cuts=(0, 10, 30)), engine=Elsewhere(), **settings)
    runs = [minimize(problem, method="interior-point", tol=1e-11, measure_every=0) for problem in (whole, parted)]
    assert runs[0].nit == runs[1].nit
    np.testing.assert_allclose(runs[1].x, runs[0].x, atol=1e-10)


@pytest.mark.parametrize(
    "name",
    [
        "newton-cg",
        "semismooth-newton, an intercept",
        pytest.param("interior-point", marks=pytest.mark.slow),
        pytest.param("interior-point, two hinges a row", marks=pytest.mark.slow),
    ],
)
def test_kernels_are_given_arrays_where_numbers_by_row_are_elsewhere(name, monkeypatch):
    monkeypatch.setattr("finitesum.problems.beside.LEAST_BYTES", 1 << 10)
    loss, term, options = BESIDE[name]
    X, y, *_ = data(loss, n=8000)
    settings = {"method": name.split(",")[0], "options": options, "tol": 1e-4, "max_iter": 60, "measure_every": 0}
    runs = []
    with as_compiled():
        for engine in (Threads(2), Elsewhere()):
            problem = Problem.partitioned(in_parts(X, y, cuts=range(0, 8001, 2000)), loss=loss, engine=engine, **term)
            runs.append(minimize(problem, **settings))
    assert runs[0].success
    assert runs[0].x.tobytes() == runs[1].x.tobytes()


def test_factors_of_several_classes_see_as_many_rows_of_each_part_as_of_all(monkeypatch):
    monkeypatch.setattr(multinomial_newton, "PLAIN_PRODUCTS", 1)
    made, make = [], multinomial_newton._preconditioner
    monkeypatch.setattr(
        multinomial_newton, "_preconditioner", lambda *a, **k: made.append(k["is_factored"]) or make(*a, **k)
    )
    X, y, *_ = data("multinomial", n=1200)
    found = []
    for alpha, solver in itertools.product((1e-3, 1e-5), ("exact", "cg")):
        problem = Problem.partitioned(in_parts(X, y, cuts=[0, 500, 1199, 1200]), loss="multinomial", alpha=alpha)
        found.append(minimize(problem, method="multinomial-newton", options={"solver": solver}, tol=1e-9))
        assert found[-1].success
    assert found[0].x == pytest.approx(found[1].x, abs=1e-5)
    assert found[2].fun == pytest.approx(found[3].fun, abs=1e-9)
    assert any(made)


@pytest.mark.as_chosen
@pytest.mark.parametrize("cut", [pytest.param(1, marks=pytest.mark.slow), 3])
@pytest.mark.parametrize(
    "name",
    [
        "newton",
        "newton-cg",
        "lazy-newton",
        "multinomial-newton, exact",
        "multinomial-newton, cg",
        "semismooth-newton",
        "interior-point",
        "interior-point, quantile",
    ],
)
def test_numbers_by_row_elsewhere_are_in_checkpoints(name, cut, tmp_path, monkeypatch):
    monkeypatch.setattr("finitesum.problems.beside.LEAST_BYTES", 1 << 10)
    method, *more = name.split(", ")
    solver = more if method == "multinomial-newton" else []
    loss = {"multinomial-newton": "multinomial", "semismooth-newton": "hinge", "interior-point": "hinge"}.get(method)
    loss = (loss or "logistic") if solver or not more else more[0]
    X, y, *_ = data(loss, n=8000)
    settings = {"method": method, "options": {"solver": solver[0]} if solver else {}, "tol": 1e-10, "measure_every": 0}

    def problem(engine):
        return Problem.partitioned(in_parts(X, y, cuts=range(0, 8001, 2000)), loss=loss, alpha=0.05, engine=engine)

    whole, leaves = minimize(problem(Elsewhere()), **settings), Elsewhere()

    def leave(report):
        if report.nit == cut:
            leaves.submit = lost

    def lost(*_call):
        raise PartError("all workers are lost")

    settings["checkpoint"] = tmp_path / "run.ckpt"
    with pytest.raises(PartError, match="all workers are lost"):
        minimize(problem(leaves), callback=leave, **settings)
    assert minimize(problem(Elsewhere()), resume=True, **settings).x.tobytes() == whole.x.tobytes()


class Uneven(Elsewhere):
    """Four workers with parts of their own, of which the first takes many times as long as the others."""

    def __init__(self):
        super().__init__()
        self.n_workers, self.pools, self.worker_of = 4, [ThreadPoolExecutor(1) for _ in range(4)], {}

    def place(self, part):
        self.worker_of[part.name] = len(self.worker_of) % 4
        return part

    def submit(self, function, handle, *arguments):
        if not hasattr(handle, "load"):
            return super().submit(function, handle, *arguments)
        worker = self.worker_of[handle.name]
        self._pool = self.pools[worker]
        return super().submit(functools.partial(_late, function, 0.003 if worker else 0.05), handle, *arguments)


#: Seconds in which 16 parts may come: evenly, the last one late, and too fast to say anything.
EVEN = [0.1 * k for k in range(1, 17)]
LATE = [*(0.01 * k for k in range(1, 16)), 0.8]
FAST = [0.001 * k for k in range(1, 17)]


def _told_times(problem, is_late):
    """Let sums over the parts have taken these times, whatever else the machine does."""
    rounds = problem.rows.rounds
    rounds.add = lambda _seconds: Rounds.add(rounds, LATE if is_late() else FAST)
    return problem


def _late(function, seconds, *arguments):
    time.sleep(seconds)
    return function(*arguments)


@pytest.mark.parametrize(
    ("loss", "changed", "says"),
    [
        ("logistic", {}, "Rounds are asynchronous: when parts were first read, the last one came"),
        ("logistic", {"arrivals": EVEN}, "Rounds were synchronous at first, and are asynchronous now: in the last 3"),
        ("logistic", {"arrivals": EVEN, "MOST_COLUMNS": 4}, "Rounds are synchronous: when parts were first read, none"),
        ("logistic", {"MOST_COLUMNS": 4}, "a-ciag sends matrices of all columns, and takes up to 4."),
        ("logistic", {"HESSIANS": 1e6}, "Hessians of all parts, which a-ciag takes, are likely to cost more time."),
        ("squared", {}, "a quadratic is one round."),
        ("multinomial", {}, "a-ciag takes smooth losses of one output"),
    ],
)
def test_auto_decides_between_synchronous_and_asynchronous_rounds_by_measured_times(loss, changed, says, monkeypatch):
    X, y, *_ = data(loss, n=800)
    order = np.random.default_rng(0).permutation(len(y))
    parts = in_parts(X[order], y[order], cuts=range(0, 801, 50))
    problem = _told_times(Problem.partitioned(parts, loss=loss, alpha=0.1, engine=Uneven()), lambda: True)
    for name, value in changed.items():
        if name == "arrivals":
            problem.rows.arrivals = value
        else:
            monkeypatch.setattr(f"finitesum.methods.rounds.{name}", value)
    result = minimize(problem, tol=1e-7, measure_every=0)
    assert says in result.message
    assert result.success
    is_asynchronous = "are asynchronous" in result.message
    assert (result.method.name == "a-ciag") == ("(asynchronous)" in result.message) == is_asynchronous
    expected = minimize(Problem.linear(X, y, loss=loss, alpha=0.1), tol=1e-9)
    assert abs(result.fun - expected.fun) <= 1e-7


def test_a_run_that_auto_began_without_a_barrier_goes_on_without(tmp_path):
    X, y, *_ = data("logistic", n=800)

    def problem():
        return Problem.partitioned(in_parts(X, y, cuts=range(0, 801, 50)), alpha=0.1, engine=Uneven())

    settings = {"tol": 1e-8, "measure_every": 0, "checkpoint": tmp_path / "run.ckpt"}
    minimize(problem(), max_iter=2, **settings)
    even = problem()
    even.rows.arrivals = EVEN
    result = minimize(even, resume=True, **settings)
    assert result.success
    assert result.method.name == "a-ciag"


class SlowLater(Uneven):
    """Four workers of equal speed, the first of which takes many times as long from some call of a part on."""

    def __init__(self, n_fast, n_slow=10**9):
        super().__init__()
        self.n_fast, self.n_slow, self.n_calls, self.was_slow = n_fast, n_slow, 0, False

    def submit(self, function, handle, *arguments):
        if not hasattr(handle, "load"):
            return Elsewhere.submit(self, function, handle, *arguments)
        worker, self.n_calls = self.worker_of[handle.name], self.n_calls + 1
        self._pool = self.pools[worker]
        is_slow = worker == 0 and self.n_fast < self.n_calls <= self.n_fast + self.n_slow
        self.was_slow |= is_slow
        return Elsewhere.submit(self, functools.partial(_late, function, 0.05 if is_slow else 0.003), handle, *arguments)

    def is_late(self):
        """Return whether a call since the last question was slow."""
        was_slow, self.was_slow = self.was_slow, False
        return was_slow


def _later_problem(engine, **term):
    X, y, *_ = data("logistic", n=800)
    order = np.random.default_rng(0).permutation(len(y))
    parts = in_parts(X[order], y[order], cuts=range(0, 801, 50))
    problem = Problem.partitioned(parts, engine=engine, **({"alpha": 1e-3} | term))
    if isinstance(engine, SlowLater):
        problem.rows.arrivals = EVEN
        _told_times(problem, engine.is_late)
    return problem


def test_rounds_become_asynchronous_where_a_worker_becomes_slow():
    expected = minimize(_later_problem(None), method="newton", tol=1e-10)
    result = minimize(_later_problem(SlowLater(16)), tol=1e-7, measure_every=0)
    assert result.success
    assert result.method.name == "a-ciag"
    assert (
        "Rounds were synchronous at first, and are asynchronous now: in the last 3 rounds before, the last"
        in result.message
    )
    assert "waited for parts that were late, and a-ciag went on from its point" in result.choice
    assert abs(result.fun - expected.fun) <= 1e-7
    assert 3.0 <= result.n_passes < 60.0
    assert [row.n_passes for row in result.trace.rows] == sorted(row.n_passes for row in result.trace.rows)


@pytest.mark.parametrize(
    ("n_slow", "changed"), [(0, {}), (16, {}), (10**9, {"HESSIANS": 1e6}), (10**9, {"MOST_COLUMNS": 4})]
)
def test_rounds_stay_synchronous_to_the_same_bits_where_it_does_not_pay_to_change(n_slow, changed, monkeypatch):
    for name, value in changed.items():
        monkeypatch.setattr(f"finitesum.methods.rounds.{name}", value)
    even = minimize(_later_problem(Elsewhere()), tol=1e-7, measure_every=0)
    result = minimize(_later_problem(SlowLater(16, n_slow)), tol=1e-7, measure_every=0)
    assert result.x.tobytes() == even.x.tobytes()
    assert "Rounds are synchronous: when parts were first read, none came much later" in result.message


def test_a_method_that_was_named_waits_for_parts_that_are_late():
    result = minimize(_later_problem(SlowLater(16)), method="newton", tol=1e-7, measure_every=0)
    assert result.success
    assert result.method.name == "newton"


def test_a_run_that_has_left_the_barrier_is_resumed_and_gone_on_with(tmp_path):
    settings = {"tol": 1e-8, "measure_every": 0}
    file = tmp_path / "run.ckpt"
    cut = minimize(_later_problem(SlowLater(16)), max_iter=7, checkpoint=file, **settings)
    assert not cut.success
    assert cut.method.name == "a-ciag"
    resumed = minimize(_later_problem(Elsewhere()), checkpoint=file, resume=True, **settings)
    assert resumed.success
    assert resumed.method.name == "a-ciag"
    assert "as the run did before it was resumed" in resumed.message
    later = minimize(_later_problem(Elsewhere()), earlier=cut, **settings)
    assert later.success
    assert later.method.name == "a-ciag"
    assert "are synchronous" not in later.message
    assert "Rounds are asynchronous, as at the end of the earlier run." in later.message
    assert later.choice == "asynchronous rounds, as in the earlier run"


@pytest.mark.parametrize("options", [{}, {"max_delay": "auto"}])
def test_auto_does_not_go_on_from_a_run_of_a_ciag_that_was_not_asynchronous(options):
    earlier = minimize(_later_problem(Elsewhere()), method="a-ciag", options=options, max_iter=2, measure_every=0)
    with pytest.raises(ValueError, match=r"earlier must be a result of .*, got one of ACIAG"):
        minimize(_later_problem(Elsewhere()), earlier=earlier)


def test_late_rounds_of_an_earlier_run_are_forgotten():
    problem = _later_problem(engine := SlowLater(16))
    minimize(problem, method="newton", tol=1e-7, measure_every=0)
    assert len(problem.rows.rounds.latest) == problem.rows.rounds.latest.maxlen
    engine.n_slow = 0
    result = minimize(problem, tol=1e-7, measure_every=0)
    even = minimize(_later_problem(Elsewhere()), tol=1e-7, measure_every=0)
    assert result.x.tobytes() == even.x.tobytes()
    assert "Rounds are synchronous: when parts were first read, none came much later" in result.message


def test_a_run_begins_without_the_rounds_of_the_one_before(monkeypatch):
    problem, seen = _later_problem(Elsewhere()), []
    for _ in range(3):
        problem.rows.rounds.add([0.1, 9.0])
    monkeypatch.setattr(Rounds, "add", lambda self, _seconds: seen.append((self.n_seen, len(self.latest))))
    minimize(problem, tol=1e-7, max_iter=2, measure_every=0)
    assert seen[-1] == (0, 0)


def test_late_rounds_with_even_ones_between_are_not_the_last_three():
    rounds = Rounds()
    for seconds in ([0.1, 9.0], [0.1, 8.0], [0.01, 0.02], [0.1, 7.0]):
        rounds.add(seconds)
    assert list(rounds.latest) == [(0.1, 7.0)]
    assert rounds.n_seen == 3
    rounds.clear()
    assert (rounds.n_seen, len(rounds.latest)) == (0, 0)


@pytest.mark.parametrize(
    ("seconds", "n_workers", "expected"),
    [
        ([1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0], 2, 1.0),
        ([1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 8.0], 2, 2.0),
        ([1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 8.0], 1, 1.0),  # nobody else is kept waiting
        ([1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 8.0], 5, 1.0),  # too few parts to see a rate
        ([0.01, 0.01, 0.02, 0.02, 0.03, 0.03, 0.04, 0.08], 2, 1.0),  # of no matter
    ],
)
def test_lateness_is_that_of_the_last_part_beside_the_rate_of_the_first(seconds, n_workers, expected):
    assert lateness(seconds, n_workers) == pytest.approx(expected)


class Forgetful(Reloading):
    """An engine that gives results in another order, and loses every third one."""

    def __init__(self):
        super().__init__(2)
        self.n_calls = self.n_recovered = 0
        self.calls = {}

    def submit(self, function, handle, *arguments):
        self.n_calls += 1
        lost = self.n_calls % 3 == 0
        future = super().submit(_lost if lost else function, handle, *arguments)
        self.calls[future] = function, handle, arguments
        return future

    def as_completed(self, futures):
        return reversed(list(super().as_completed(futures)))

    def recover(self, future):
        if not isinstance(future.exception(), ConnectionError):
            raise future.exception()
        self.n_recovered += 1
        function, handle, arguments = self.calls[future]
        again = super().submit(function, handle, *arguments)
        self.calls[again] = function, handle, arguments
        return again


def _lost(*_arguments):
    raise ConnectionError("the worker is gone")


def test_many_rows_keep_their_predictions_in_files(monkeypatch):
    monkeypatch.setattr("finitesum.problems.beside.MOST_IN_MEMORY", 100)
    whole, parted = both("logistic", TERMS["l2"], weighted=True)
    w = np.random.default_rng(1).standard_normal(whole.dim)
    found = predictions(parted, w)
    assert mapping_of(found) is not None
    np.testing.assert_allclose(found, predictions(whole, w), rtol=1e-12)


class Delayed:
    """What a ``dask.delayed`` is to us: it has any name, and can be called."""

    def __init__(self, value):
        self.value = value

    def __getattr__(self, name):
        return Delayed(None)

    def __call__(self):
        return Delayed(None)

    def compute(self):
        return self.value


def test_what_is_delayed_and_single_precision_are_parts():
    X, y = data("logistic")[:2]
    X = X.astype(np.float32)
    parts = [Delayed(in_parts(X, y)[0]), *in_parts(X, y)[1:]]
    found = minimize(Problem.partitioned(parts, alpha=0.1), tol=1e-10)
    np.testing.assert_allclose(found.x, minimize(Problem.linear(X, y, alpha=0.1), tol=1e-10).x, rtol=1e-8)


def test_no_part_waits_once_a_run_was_ended():
    def slow():
        time.sleep(0.01)
        raise OSError("gone")

    engine = Threads(1)
    with pytest.raises(PartError, match="part 0"):
        Problem.partitioned([slow, *in_parts(*data("logistic")[:2])], engine=engine)
    engine._pool.shutdown()
    assert not engine._waiting


def test_an_engine_that_loses_results_ends_at_the_same_bits():
    forgetful = Forgetful()
    runs = [minimize(both("logistic", TERMS["l2"], engine=engine)[1], tol=1e-10) for engine in (Threads(1), forgetful)]
    assert forgetful.n_recovered > 10
    assert np.array_equal(runs[0].x, runs[1].x)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda X, y: (X[:, :4], y), r"part 2: all parts must have the same columns, got 4, and 5 in part 0"),
        (lambda X, y: (scipy.sparse.csr_array(X), y), r"part 2: all parts must have the same layout, got sparse"),
        (lambda X, y: (X.astype(np.float32), y), r"part 2: all parts must have the same dtype, got float32"),
        (lambda X, y: (np.where(X[3, 1] == X, np.nan, X), y), r"part 2: X must be finite, got nan in row"),
        (lambda X, y: (X, y[:-1]), r"part 2: y must have shape \(69,\)"),
        (lambda X, y: (X, np.where(y == "no", "maybe", y)), r"y must hold two classes for Logistic, got 3 classes"),
        (lambda X, y: (X, y, -np.ones(69)), r"part 2: weight must be >= 0"),
        (lambda X, y: (X,), r"part 2: TypeError: a part is \(X, y\)"),
        (
            lambda X, y: (X, y, None, np.zeros((69, 2))),
            r"part 2: offset must have shape \(69,\) to match the rows of X, got",
        ),
        (lambda X, y: lambda: 1 / 0, r"part 2: ZeroDivisionError: division by zero"),
    ],
)
def test_an_error_names_the_part(spoil, message):
    parts = in_parts(*data("logistic")[:2])
    parts[2] = spoil(*parts[2])
    with pytest.raises(ValueError, match=message):
        Problem.partitioned(parts)


@pytest.mark.parametrize("shape", [(69,), (69, 2)])
def test_each_row_has_an_offset_for_each_class(shape):
    parts = in_parts(*data("multinomial")[:2])
    parts[2] = (*parts[2], None, np.ones(shape))
    with pytest.raises(PartError, match=rf"part 2: offset must have shape \(69, 3\).*got \({shape[0]},"):
        Problem.partitioned(parts, loss="multinomial")


def test_columns_in_another_order_are_noticed():
    pandas = pytest.importorskip("pandas")
    X, y, *_ = data("logistic")
    parts = in_parts(pandas.DataFrame(X, columns=list("abcde")), y)
    assert Problem.partitioned(parts).dim == 5
    parts[2] = (parts[2][0][list("abedc")], parts[2][1])
    with pytest.raises(
        PartError, match=r"part 2: .* the same columns in the same order, got 'e' as column 2, which is 'c' in"
    ):
        Problem.partitioned(parts)


@pytest.mark.parametrize("as_whole", [True, False])
def test_fragments_with_columns_in_another_order_are_noticed(as_whole, tmp_path):
    pa, dataset = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.dataset")
    from pyarrow import parquet

    X, y, *_ = data("logistic")
    for k, names in enumerate(("abcde", "abced")):
        columns = {name: X[100 * k : 100 * k + 100, "abcde".index(name)] for name in names}
        parquet.write_table(pa.table({**columns, "target": y[100 * k : 100 * k + 100]}), tmp_path / f"{k}.parquet")
    given = dataset.dataset([str(tmp_path / f"{k}.parquet") for k in range(2)])
    with pytest.raises(PartError, match="in the same order, got 'e' as column 3, which is 'd' in part 0"):
        Problem.partitioned(given if as_whole else list(given.get_fragments()))


def test_sparse_files_of_a_list_may_lack_the_last_columns(tmp_path):
    files = [tmp_path / f"{k}.svm" for k in range(2)]
    files[0].write_text("1 1:1 3:2\n-1 2:1\n")
    files[1].write_text("1 1:1 4:2\n-1 2:1\n")
    X, y, *_ = data("logistic")
    assert Problem.partitioned(files).dim == 4
    with pytest.raises(PartError, match=r"0\.svm.*the same columns, got 4, and 5 in part 0"):
        Problem.partitioned([(scipy.sparse.csr_array(X), y), *files])


def test_a_file_that_is_written_to_is_noticed(tmp_path):
    from finitesum.datasets import load

    X, y, *_ = data("hinge")
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", np.where(y == "yes", 1.0, -1.0))
    problem = Problem.partitioned(load([tmp_path / "X.npy"], target=str(tmp_path / "y.npy")), alpha=0.1)
    assert minimize(problem).success
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r+")
    mapped[:50] *= -1.0
    mapped.flush()
    with pytest.raises(PartError, match=r"X\.npy.*was written to since it was read"):
        minimize(problem)


@pytest.mark.parametrize("given", [{"a": 1.0}, "frame"])
def test_what_is_no_list_of_parts_is_said(given):
    given = pytest.importorskip("pandas").DataFrame({"a": [1.0]}) if given == "frame" else given
    with pytest.raises(TypeError, match="parts must be a list of tuples"):
        Problem.partitioned(given)


def test_an_engine_that_is_none_or_closed_is_said():
    parts, engine = in_parts(*data("logistic")[:2]), Threads(1)
    with pytest.raises(TypeError, match=r"engine must have the functions place, submit.*got 3"):
        Problem.partitioned(parts, engine=3)
    problem = Problem.partitioned(parts, alpha=0.1, engine=engine)
    engine.close()
    with pytest.raises(PartError, match="the engine of the parts is closed"):
        minimize(problem)


def test_a_part_that_raises_later_ends_the_run_with_one_error():
    parts, calls = in_parts(*data("logistic")[:2]), []

    def often():
        calls.append(1)
        if len(calls) > 4:
            raise OSError("the disk is gone")
        return parts[1]

    problem = Problem.partitioned([parts[0], often, *parts[2:]], alpha=0.1, engine=Reloading(2))
    with pytest.raises(PartError, match="part 1: OSError: the disk is gone"):
        minimize(problem, tol=1e-10)


def test_data_that_change_between_loads_are_noticed():
    parts, calls = in_parts(*data("logistic")[:2]), []

    def changing():
        calls.append(1)
        X, y = parts[1]
        return X + 1e-12 * (len(calls) > 2), y

    problem = Problem.partitioned([parts[0], changing, *parts[2:]], alpha=0.1, engine=Reloading(2))
    with pytest.raises(PartError, match="part 1: its data have changed since they were first read"):
        minimize(problem, tol=1e-10)


class Leaving(Threads):
    """An engine that all workers leave after so many calls."""

    n_calls, most_calls = 0, np.inf

    def submit(self, function, handle, *arguments):
        self.n_calls += 1
        if self.n_calls > self.most_calls:
            raise PartError("all workers are lost")
        return super().submit(function, handle, *arguments)


@pytest.mark.parametrize("method", [ACIAG(max_delay=2, asynchronous=False), "fg", "saga"])
def test_where_all_workers_are_lost_the_checkpoint_is_kept(method, tmp_path):
    settings = {"method": method, "tol": 1e-9, "max_iter": 2000, "measure_every": 0}
    stays, leaves = Leaving(2), Leaving(2)
    whole = minimize(both("logistic", TERMS["l2"], engine=stays)[1], **settings)
    settings["checkpoint"] = tmp_path / "run.ckpt"
    leaves.most_calls = stays.n_calls - 12
    with pytest.raises(PartError, match="all workers are lost") as raised:
        minimize(both("logistic", TERMS["l2"], engine=leaves)[1], **settings)
    assert "resume=True goes on from there" in raised.value.__notes__[0]
    resumed = minimize(both("logistic", TERMS["l2"], engine=Threads(1))[1], resume=True, **settings)
    assert resumed.x.tobytes() == whole.x.tobytes()
    assert resumed.n_passes == whole.n_passes


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
def test_a_part_from_elsewhere_is_loaded_once_and_kept_in_files(form, tmp_path, monkeypatch):
    monkeypatch.setattr("finitesum.core.mapped.LEAST_BYTES", 256)
    parts, calls = in_parts(*data("logistic")[:2]), []

    def counted(k):
        calls.append(k)
        return form(parts[k][0]), parts[k][1]

    engine = Threads(2, folder=tmp_path)
    made = [functools.partial(counted, k) for k in range(len(parts))]
    problem = Problem.partitioned(made, alpha=0.1, engine=engine)
    found, expected = (minimize(p, tol=1e-10) for p in (problem, Problem.linear(*data("logistic")[:2], alpha=0.1)))
    np.testing.assert_allclose(found.x, expected.x, rtol=1e-9)
    assert sorted(calls) == list(range(len(parts)))
    rows = problem.rows.parts[0].handle.data().rows
    assert mapping_of(rows.values) is not None
    assert list(tmp_path.rglob("*.npy"))
    engine.close()
    assert not list(tmp_path.rglob("*.npy"))


class Asking(Threads):
    """Keeps what each call for a part says that it reads."""

    def submit(self, function, handle, *arguments):
        if hasattr(handle, "data"):
            self.asked = arguments[0].reads(handle.data()) if arguments and hasattr(arguments[0], "reads") else None
        return super().submit(function, handle, *arguments)


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
def test_a_call_says_which_rows_of_a_part_it_reads(form, monkeypatch):
    monkeypatch.setattr("finitesum.problems.part_jobs.NEAR", 4)
    parts, engine = [(form(X), y) for X, y in in_parts(*data("logistic")[:2])], Asking(1)
    problem = Problem.partitioned(parts, engine=engine)
    predictions(problem, np.ones(problem.dim), np.array([0, 1, 50, 121, 123, 150, 151, 190]))
    rows = problem.rows.parts[3].handle.data().rows  # from the 120th row on
    for arrays, (first, end) in zip(engine.asked, [(1, 4), (30, 32), (70, 71)], strict=True):
        expected = rows.values[first:end] if form is np.asarray else rows.values[rows.starts[first] : rows.starts[end]]
        assert arrays[0].ctypes.data == expected.ctypes.data  # the part's own memory
        assert arrays[0].nbytes == expected.nbytes
    predictions(problem, np.ones(problem.dim))
    assert engine.asked.rows.values is rows.values  # all of it


def test_the_next_part_is_read_ahead_as_its_call_says(tmp_path, monkeypatch):
    asked, may_begin = [], threading.Event()
    monkeypatch.setattr("finitesum.core.engine.read_ahead", asked.append)
    problem = Problem.partitioned(in_parts(*data("logistic")[:2]), engine=Threads(1))
    engine, handles = problem.rows.engine, [part.handle for part in problem.rows.parts]
    engine._ahead.submit(len, ()).result()  # behind what the first pass had read ahead
    asked.clear()
    first = engine.submit(lambda data: may_begin.wait(), handles[0])
    while engine._waiting:  # until it was begun
        time.sleep(0.001)
    said = types.SimpleNamespace(reads=lambda data: (data.rows.n_rows, "said"))
    others = [engine.submit(lambda data, *_: None, handles[k], *given) for k, given in ((1, ()), (2, (said,)), (3, (1.0,)))]
    may_begin.set()
    for future in (first, *others):
        future.result()
    engine._ahead.submit(len, ()).result()  # behind what is read ahead, of which closing would leave out what waits
    engine.close()
    assert asked == [(69, "said"), handles[3].data()]


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("components", [[], [0], [2, 3, 4], [1, 5, 6, 66], [0, 1, 65, 66]])
def test_numbers_of_some_rows_are_copied(size, components):
    problem = Problem.linear(*data("logistic")[:2], loss="logistic").batched(size)
    numbers, chosen = np.arange(1.0, 201.0, dtype=np.float32), np.array(components, dtype=np.int64)
    expected = np.zeros_like(numbers)
    for component in chosen:
        expected[component * size : (component + 1) * size] = numbers[component * size : (component + 1) * size]
    copied = some_by_row(problem, numbers, chosen)
    assert copied.dtype == np.float32
    np.testing.assert_array_equal(copied, expected)
    assert not np.shares_memory(copied, numbers)


def test_a_full_disk_is_said_with_the_part(tmp_path, monkeypatch):
    monkeypatch.setattr("finitesum.core.mapped.LEAST_BYTES", 256)
    parts = in_parts(*data("logistic")[:2])
    with pytest.raises(
        PartError, match=r"part 2: its parsed copy cannot be kept: .*Name another folder by Threads\(folder=\.\.\.\)"
    ):
        Problem.partitioned([*parts[:2], lambda: parts[2]], engine=Threads(folder=tmp_path / "missing"))


def test_a_problem_in_parts_is_known_by_its_data(tmp_path):
    _, parted = both("logistic", TERMS["l2"])
    first = minimize(parted, tol=1e-10, max_iter=3, checkpoint=tmp_path / "run.npz", checkpoint_seconds=0.0)
    assert not first.success
    resumed = minimize(both("logistic", TERMS["l2"])[1], tol=1e-10, checkpoint=tmp_path / "run.npz", resume=True)
    assert np.array_equal(resumed.x, minimize(parted, tol=1e-10).x)
    other = Problem.partitioned(in_parts(*data("logistic")[:2], cuts=(0, 100, 200)), fit_intercept=True, alpha=0.05)
    with pytest.raises(ValueError, match="problem"):
        minimize(other, tol=1e-10, checkpoint=tmp_path / "run.npz", resume=True)


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("loss", ["logistic", "multinomial", "squared"])
def test_parts_without_rows_change_no_bit(loss, form):
    X, y, weight, offset = data(loss)
    offset = np.zeros((*offset.shape, 3)) if loss == "multinomial" else offset
    settings = {"loss": loss, "alpha": 0.01, "fit_intercept": True}
    known = Problem.partitioned(in_parts(form(X), y, weight, offset), **settings)
    parts = in_parts(form(X), y, weight, offset, cuts=(0, 0, 50, 50, 51, 120, 200, 200))
    parts += [(np.empty((0, 2), dtype=np.float32), np.array([], dtype=object)), lambda: (form(X[:0]), [], [])]
    found = Problem.partitioned(parts, **settings)
    assert (found.n_rows, len(found.rows.parts), len(found.rows.arrivals)) == (200, 4, 4)
    assert found.rows.parts[1].name == "part 3"
    assert found.fingerprint == known.fingerprint
    np.testing.assert_array_equal(minimize(found, tol=1e-10).x, minimize(known, tol=1e-10).x)


def test_parts_that_are_all_empty_or_whose_targets_are_not_are_refused():
    empty = np.empty((0, 2)), np.empty(0)
    with pytest.raises(ValueError, match=r"X must have at least one row, got none in all parts \(3\)\. Check what"):
        Problem.partitioned([empty] * 3)
    with pytest.raises(PartError, match=r"part 1: y must have shape \(0,\) to match the rows of X, got \(4,\)"):
        Problem.partitioned([(np.eye(2), [0, 1]), (empty[0], [0, 1, 0, 1])])
