"""Table 1 of the curvature paper: what methods store, what a visit costs, how the visits grow with the condition number."""

import itertools
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from finitesum.datasets import make_logistic
from finitesum.evaluation.hessian import hessian_at
from finitesum.evaluation.smoothness import full_smoothness, momentum_limit
from finitesum.methods import as_method
from finitesum.papers.claims import Finding, Verdict, single
from finitesum.papers.experiment import Context, Drawing, Outcome, Size, Table, Unit, Value, captions
from finitesum.papers.runs import find_minimum, follow, slope
from finitesum.problems.linear import Problem
from finitesum.reporting.files import show
from finitesum.reporting.plots import Line, Panel, panels_figure
from finitesum.running.checkpoint import flatten
from finitesum.running.sampling import order_of_pass

CAPTIONS = captions("ciag/table1")


class Formulas(NamedTuple):
    """What Table 1 says of a method for linear models."""

    label: str
    storage: str
    of_m: int  # exponent of m in the largest term of the storage
    of_d: int  # exponent of d there, and in the work of a visit for methods with curvature
    iterations: str

    @property
    def work(self) -> tuple[str, int]:
        """The work of a visit, and its exponent of d."""
        return ("d²", 2) if self.of_d == 2 else ("d", 1)


METHODS = {
    "iag": Formulas("IAG", "m", 1, 0, "κ m log 1/ε"),
    "sag": Formulas("SAG", "m", 1, 0, "(m + κ_max) log 1/ε"),
    "saga": Formulas("SAGA", "m", 1, 0, "(m + κ_max) log 1/ε"),
    "svrg": Formulas("SVRG", "d", 0, 1, "(m + κ_max) log 1/ε"),
    "acc-svrg": Formulas("AccSVRG", "d", 0, 1, "(m + m κ_max / (m + √κ_max)) log 1/ε"),
    "svrg2": Formulas("SVRG2", "d²", 0, 2, "κ log 1/ε at best"),
    "iqn": Formulas("IQN", "m d²", 1, 2, "o(log 1/ε)"),
    "nim": Formulas("NIM", "m + d²", 0, 2, "o(log 1/ε)"),
    "ciag": Formulas("CIAG", "m + d²", 0, 2, "κ log 1/ε for small ε"),
    "a-ciag": Formulas("A-CIAG", "m + d²", 0, 2, "√κ log 1/ε for small ε"),
}

#: Rows and columns at which storage is counted.
M, D = 400, 40
#: Columns for the time of a visit, and visits that are timed.
TIMED_D, TIMED_VISITS = (50, 100, 200), 400

#: Rows and columns, the condition numbers of the columns, and the decrease of the squared distance to the optimum.
KAPPA_M, KAPPA_D, DECREASE = 200, 20, 1e-6
CONDITIONS = {"quick": (1.0, 10.0, 100.0, 1000.0), "full": (1.0, 10.0, 100.0, 1000.0, 10000.0)}
MAX_PASSES = {"quick": 20_000, "full": 100_000}
#: How far from the optimum runs begin: near enough for the components to be quadratics.
START = 1e-4
GROWN = ("iag", "svrg2", "nim", "ciag", "a-ciag")


def _after_a_pass(name: str, m: int, d: int) -> tuple[Problem, Any, Any]:
    """Return a problem, a method, and its state after the first pass."""
    data = make_logistic(m, d, noise=0.1, seed=0)
    problem = Problem.linear(data.rows, data.targets(), alpha=1.0 / m, batch_size=1)
    method = as_method(name, {"solver": "inverse"} if name == "nim" else None)
    state = method.init(problem, np.zeros(d))
    return problem, method, method.run_pass(problem, state, order_of_pass("shuffled", 0, 0, m))


def count(name: str) -> dict[str, Any]:
    """Return the numbers in a method's memory at (m, d), (2m, d) and (m, 2d), and the gradients and Hessians of a pass."""
    sizes: dict[str, Any] = {}
    for key, m, d in (("rows", 2 * M, D), ("columns", M, 2 * D), ("base", M, D)):
        problem, method, state = _after_a_pass(name, m, d)
        sizes[key] = int(sum(array.size for array in flatten(state).values()))
    after = method.run_pass(problem, state, order_of_pass("shuffled", 0, 1, M))
    added = {"gradients": after.n_gradients - state.n_gradients, "hessians": after.n_hessians - state.n_hessians}
    return sizes | {name: number / M for name, number in added.items()}


def time_visits(name: str) -> dict[str, float]:
    """Return the microseconds of a visit by the number of columns: the least of several passes, snapshots included."""
    found = {}
    for d in TIMED_D:
        problem, method, state = _after_a_pass(name, TIMED_VISITS, d)
        seconds = []
        for k in range(1, 6):
            order = order_of_pass("shuffled", 0, k, TIMED_VISITS)
            start = time.perf_counter()
            state = method.run_pass(problem, state, order)
            seconds.append(time.perf_counter() - start)
        found[str(d)] = 1e6 * min(seconds) / TIMED_VISITS
    return found


@cache
def _near(condition: float) -> tuple[Problem, Any, float, float]:
    """Return a problem, its optimum, and bounds of the curvature: mu at the optimum, L everywhere."""
    data = make_logistic(KAPPA_M, KAPPA_D, condition=condition, noise=0.2, seed=1)
    problem = Problem.linear(data.rows, data.targets(), alpha=1e-6, batch_size=1)
    optimum = np.array(find_minimum(problem)["x"])
    mu = float(np.linalg.eigvalsh(hessian_at(problem, optimum))[0])
    return problem, optimum, mu, full_smoothness(problem)


def grow(name: str, condition: float, max_passes: int) -> dict[str, float]:
    """Return kappa, and the visits that bring the squared distance to a millionth, from a start close to the optimum."""
    problem, optimum, mu, smoothness = _near(condition)
    step = 0.5 / smoothness
    known: dict[str, dict[str, Any]] = {
        "ciag": {"step_size": 2.0 / (mu + smoothness)},
        "a-ciag": {"step_size": step, "extrapolation": momentum_limit(mu, step)},
        "nim": {"step_size": 1.0, "solver": "inverse"},
    }
    method = as_method(name, {**known[name], "warm_start_method": "full"} if name in known else None)
    start = optimum + START * np.cos(np.arange(problem.dim))
    until = DECREASE * float(np.sum((start - optimum) ** 2))
    every = 5 if name in known else KAPPA_M
    visits, distances = follow(problem, method, start, optimum, every, max_passes * KAPPA_M, until)
    reached = distances[-1] <= until
    return {"kappa": smoothness / mu, "visits": float(visits[-1]) if reached else math.nan}


def _units(size: Size) -> Iterator[Unit]:
    for name in METHODS:
        yield Unit(f"count-{name}", partial(count, name))
        yield Unit(f"time-{name}", partial(time_visits, name))
    for name, condition in itertools.product(GROWN, CONDITIONS[size]):
        yield Unit(f"kappa-{name}-{condition:g}", partial(grow, name, condition, MAX_PASSES[size]))


def run(context: Context) -> Outcome:
    """Count, time, and measure the growth with the condition number."""
    results = context.complete(list(_units(context.size)))
    grown = {name: _grown(results, name, CONDITIONS[context.size]) for name in GROWN}
    values = {  # a few single numbers more or less, such as counters, are no matter of the table
        f"numbers stored, {method.label}": Value(results[f"count-{name}"]["base"], absolute=10.0)
        for name, method in METHODS.items()
    }
    values |= {
        f"exponent of kappa, {METHODS[n].label}": Value(_exponent(*grown[n]), absolute=0.1) for n in grown if n != "nim"
    }
    drawing = Drawing("kappa", CAPTIONS["figure"], _figure(grown))
    return Outcome([drawing], [_table(results), _growth_table(grown)], _verdicts(results, grown), values)


def _grown(results: Mapping[str, Any], name: str, conditions: Sequence[float]) -> tuple[Any, Any]:
    found = [results[f"kappa-{name}-{c:g}"] for c in conditions]
    return np.array([f["kappa"] for f in found]), np.array([f["visits"] for f in found])


def _exponent(kappa: Any, visits: Any) -> float:
    """Return the exponent of kappa in the visits; NaN where fewer than three runs got there."""
    kept = np.isfinite(visits)
    return slope(np.log(kappa[kept]), np.log(visits[kept])) if kept.sum() > 2 else math.nan


def _figure(grown: Mapping[str, tuple[Any, Any]]) -> Any:
    lines = [Line(METHODS[name].label, kappa, visits, style=name) for name, (kappa, visits) in grown.items()]
    kappa, visits = grown["ciag"]
    for text, power in (("∝ κ", 1.0), ("∝ √κ", 0.5)):
        base, style = (visits[0], "guide") if power == 1.0 else (grown["a-ciag"][1][0], "guide-2")
        lines.append(Line(text, kappa, base * (kappa / kappa[0]) ** power, style))
    return panels_figure([Panel("", "κ = L / μ", "visits", lines, x_scale="log")], height=3.6, width=5.6)


def _table(results: Mapping[str, Any]) -> Table:
    lines = []
    for name, method in METHODS.items():
        counted, times = results[f"count-{name}"], results[f"time-{name}"]
        lines.append(
            {
                "method": method.label,
                "storage": method.storage,
                f"numbers at m = {M}, d = {D}": f"{counted['base']:,}",
                "× for 2m": f"{counted['rows'] / counted['base']:.2f}",
                "× for 2d": f"{counted['columns'] / counted['base']:.2f}",
                "gradients, Hessians a visit": f"{counted['gradients']:.3g}, {counted['hessians']:.3g}",
                "work of a visit": method.work[0],
                **{f"µs, d = {d}": f"{times[str(d)]:.3g}" for d in TIMED_D},
                "iterations": method.iterations,
            }
        )
    return Table("table1", CAPTIONS["table1"], tuple(lines[0]), [list(line.values()) for line in lines])


def _growth_table(grown: Mapping[str, tuple[Any, Any]]) -> Table:
    kappas = next(iter(grown.values()))[0]
    header = ("method", *(f"κ = {kappa:.0f}" for kappa in kappas), "exponent of κ")
    rows = [
        [METHODS[name].label, *(show(v, ".0f") for v in visits), show(abs(_exponent(kappa, visits)), ".2f")]
        for name, (kappa, visits) in grown.items()
    ]
    return Table("kappa", CAPTIONS["kappa"].format(m=KAPPA_M, d=KAPPA_D), header, rows)


def _verdicts(results: Mapping[str, Any], grown: Mapping[str, tuple[Any, Any]]) -> list[Verdict]:
    def storage(name: str) -> Finding:
        counted, formulas = results[f"count-{name}"], METHODS[name]
        rows, columns = (math.log2(counted[key] / counted["base"]) for key in ("rows", "columns"))
        if name in ("nim", "ciag", "a-ciag", "svrg2"):  # sums of two terms: each may not outgrow its own
            holds = rows <= 1.0 and columns <= 2.05
        else:
            holds = abs(rows - formulas.of_m) < 0.25 and abs(columns - formulas.of_d) < 0.25
        measured = f"measured exponents {rows:.2f} of m, {columns:.2f} of d"
        return Finding(formulas.label, holds, f"{formulas.storage}: {measured}")

    def work(name: str) -> Finding:
        times = results[f"time-{name}"]
        power = slope(np.log(TIMED_D), np.log([times[str(d)] for d in TIMED_D]))
        formula, expected = METHODS[name].work
        return Finding(METHODS[name].label, power <= expected + 0.5, f"{formula}: measured exponent {power:.2f}")

    def exponent(claim: str, name: str, limit: float) -> Verdict:
        power = _exponent(*grown[name])
        return single(claim, power <= limit, f"the visits grow like κ to the power {power:.2f}")

    ratio = float(np.nanmin(grown["iag"][1] / grown["ciag"][1]))
    return [
        Verdict("Storage grows as the formulas say", tuple(map(storage, METHODS))),
        Verdict(
            "The time of a visit grows no faster with d than the formulas say (within half an exponent)",
            tuple(map(work, METHODS)),
            noisy=True,
        ),
        exponent("CIAG needs O(κ) visits near the optimum", "ciag", 1.1),
        exponent("A-CIAG needs O(√κ) visits near the optimum", "a-ciag", 0.6),
        single(
            "CIAG's visits are fewer than IAG's by a factor of the order of m",
            ratio > 0.1 * KAPPA_M,
            f"{ratio:.0f} times fewer at least; m = {KAPPA_M}",
        ),
    ]
