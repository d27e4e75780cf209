"""Theorems 1 and 2 of the curvature paper: linear convergence, in the end at the rate of full gradients.

What they say of a small logistic regression whose classes overlap (allowed steps, rates, bounds), beside measured runs.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.datasets import make_logistic
from finitesum.evaluation.hessian import hessian_at
from finitesum.evaluation.smoothness import full_smoothness, momentum_limit
from finitesum.methods import ACIAG, CIAG
from finitesum.papers.claims import Finding, Verdict, verdict
from finitesum.papers.experiment import Context, Drawing, Outcome, Size, Table, Unit, Value, captions
from finitesum.papers.runs import find_minimum, follow, slope
from finitesum.problems.linear import Problem
from finitesum.problems.rows import to_matrix
from finitesum.reporting.files import show
from finitesum.reporting.plots import Line, Panel, panels_figure

CAPTIONS = captions("ciag/phases")
M, D, ALPHA, CONDITION = 40, 8, 2e-3, 30.0

#: Distances of the start from the optimum; those of the runs with the step that the theorem's condition allows.
STARTS = (1e-4, 1e-1, 1.0, 10.0)
NEAR = (1e-1, 1e-3, 1e-6)
METHODS = ("CIAG", "A-CIAG")
#: Visits of a run; where V(k) is so small, rounding errors begin.
N_VISITS = {"quick": 12_000, "full": 40_000}
ROUNDING = 1e-26
#: Visits between two measurements of the long runs.
SPARSE = 5
#: The late phase: V(k) / V(1) below this.
LATE = 1e-4

_rate = partial(show, spec=".5f")


class Constants(NamedTuple):
    """Of the problem, the mean taken: mu and L of F, L_H the mean Lipschitz constant of the components' Hessians."""

    mu: float
    smoothness: float
    hessian_lipschitz: float
    curvatures: Vector  # eigenvalues of the Hessian at the optimum
    optimum: Vector

    @property
    def kappa(self) -> float:
        """L / mu."""
        return self.smoothness / self.mu


@cache
def problem_of() -> Problem:
    """Return the logistic regression."""
    data = make_logistic(M, D, condition=CONDITION, noise=0.2, seed=0)
    return Problem.linear(data.rows, data.targets(), alpha=ALPHA, batch_size=1)


@cache
def constants() -> Constants:
    """Return what the theorems need of the problem."""
    problem = problem_of()
    optimum = np.array(find_minimum(problem)["x"])
    curvatures = np.asarray(np.linalg.eigvalsh(hessian_at(problem, optimum)), dtype=np.float64)
    lipschitz = float(np.mean(np.linalg.norm(to_matrix(problem.rows), axis=1) ** 3) / (6.0 * math.sqrt(3.0)))
    return Constants(ALPHA, full_smoothness(problem), lipschitz, curvatures, optimum)


def allowed_factor(distance: float) -> float:
    """Return c0, the fraction of 2 / (mu + L) that a sufficient condition of Theorem 1 allows from a start at a distance.

    With t = mu L / (2 (mu + L)), K = m and V the squared distance, the step is at most the least of 2 / (mu + L),
    (t / (K^2 L_H sqrt(V) (L^2 + 4 L_H^2 V)))^(1/2) and (t / (K^4 L_H^2 V (L^4 + 16 L_H^4 V^2)))^(1/5).
    """
    mu, big, hessian, _, _ = constants()
    v, t = distance**2, mu * big / (2.0 * (mu + big))
    first = t / (M**2 * hessian * math.sqrt(v) * (big**2 + 4.0 * hessian**2 * v))
    second = t / (M**4 * hessian**2 * v * (big**4 + 16.0 * hessian**4 * v**2))
    return float(min(1.0, min(first**0.5, second**0.2) * (mu + big) / 2.0))


def promised(distance: float, factor: float) -> float:
    """Return delta of Theorem 1: V(k) <= delta^ceil(k / (2 K + 1)) V(1)."""
    mu, big, hessian, _, _ = constants()
    step, v = 2.0 * factor / (mu + big), distance**2
    added: float = (
        2.0 * step**3 * M**2 * hessian * big**2 * v**0.5
        + 8.0 * step**3 * M**2 * hessian**3 * v**1.5
        + 2.0 * step**6 * M**4 * hessian**2 * big**4 * v
        + 32.0 * step**6 * M**4 * hessian**6 * v**3
    )
    return 1.0 - 2.0 * step * mu * big / (mu + big) + added


def asymptotic_rate(name: str, factor: float = 1.0) -> float:
    """Return the ratio of V that the full gradient method (or its accelerated form) has near the optimum.

    For each curvature h there: (1 - step h)^2, or the larger squared root of z^2 - (1 + a)(1 - step h) z + a (1 - step h).
    """
    mu, big, _, curvatures, _ = constants()
    if name == "CIAG":
        return float(np.max((1.0 - 2.0 * factor / (mu + big) * curvatures) ** 2))
    step = factor / (2.0 * big)
    a = momentum_limit(mu, step)
    roots = [np.roots([1.0, -(1.0 + a) * (1.0 - step * h), a * (1.0 - step * h)]) for h in curvatures]
    return float(np.max(np.abs(roots)) ** 2)


def bound(name: str, factor: float = 1.0) -> float:
    """Return the asymptotic rate of the theorem: 1 - 4 c0 kappa / (kappa + 1)^2, or 1 - sqrt(c1 / (2 kappa))."""
    kappa = constants().kappa
    return 1.0 - (4.0 * factor * kappa / (kappa + 1.0) ** 2 if name == "CIAG" else math.sqrt(factor / (2.0 * kappa)))


def trajectory(name: str, distance: float, factor: float, n_visits: int, every: int = 1) -> dict[str, Any]:
    """Return V(k) = ||w_k - w*||^2 along a run from a distance, with c0 = factor (c1 for A-CIAG), measured now and then."""
    mu, big, _, _, optimum = constants()
    if name == "CIAG":
        method = CIAG(step_size=2.0 * factor / (mu + big), warm_start_method="full")
    else:
        step = factor / (2.0 * big)
        method = ACIAG(step_size=step, extrapolation=momentum_limit(mu, step), warm_start_method="full")
    start = optimum + distance * np.ones(D) / math.sqrt(D)
    visits, found = follow(problem_of(), method, start, optimum, every, n_visits, until=ROUNDING * 1e-3)
    return {"visits": visits.tolist(), "squared": found.tolist()}


def rates(found: Mapping[str, Any]) -> tuple[float, float]:
    """Return the ratio of V in the first and in the late phase; NaN where a phase has no points."""
    visits, squared = np.array(found["visits"]), np.array(found["squared"])
    kept = squared > max(1e4 * ROUNDING, 1e-18 * float(squared[0]))
    early = kept & (visits <= M)
    late = kept & (squared < LATE * squared[0]) & (visits > M)
    late &= visits >= visits[late][visits[late].size // 3] if late.sum() > 30 else False
    first, last = (
        math.exp(slope(visits[part], np.log(squared[part]))) if part.sum() > 10 else math.nan for part in (early, late)
    )
    return first, last


def _units(size: Size) -> Iterator[Unit]:
    n = N_VISITS[size]
    for name in METHODS:
        for distance in STARTS:
            yield Unit(f"{name}-{distance:g}", partial(trajectory, name, distance, 1.0, n))
    for distance in NEAR:
        factor = allowed_factor(distance)
        yield Unit(f"allowed-{distance:g}", partial(trajectory, "CIAG", distance, factor, 10 * n, SPARSE))


def run(context: Context) -> Outcome:
    """Follow CIAG and A-CIAG from several starts, visit by visit."""
    results = context.complete(list(_units(context.size)))
    measured = {name: rates(found) for name, found in results.items()}
    values = {
        f"late rate, {name}, start {distance:g}": Value(measured[f"{name}-{distance:g}"][1], absolute=2e-3)
        for name in METHODS
        for distance in STARTS
    }
    drawings = [
        Drawing("phases", CAPTIONS["phases"].format(m=M), _figure(results)),
        Drawing("allowed", CAPTIONS["allowed"], _allowed_figure(results)),
    ]
    note = CAPTIONS["note"].format(m=M, d=D, alpha=ALPHA, kappa=constants().kappa)
    return Outcome(drawings, [_table(measured)], _verdicts(results, measured), values, [note])


def _thinned(found: Mapping[str, Any], floor: float = 0.0) -> tuple[Vector, Vector]:
    """Return V(k) / V(1) by visits in some hundred points, until it is down to the floor or to rounding errors."""
    visits, squared = np.array(found["visits"]), np.array(found["squared"])
    below = np.flatnonzero(squared <= max(ROUNDING, floor * squared[0]))
    end = int(below[0]) + 1 if below.size else squared.size
    every = max(1, end // 400)
    return visits[:end:every], squared[:end:every] / squared[0]


def _figure(results: Mapping[str, Any]) -> Any:
    panels = []
    styles = dict(zip(STARTS, ("ciag", "iag", "saga", "a-ciag"), strict=True))
    for name in METHODS:
        lines = [Line(f"start at {d:g}", *_thinned(results[f"{name}-{d:g}"]), style=styles[d]) for d in STARTS]
        right = max(float(line.x[-1]) for line in lines)
        guide = np.linspace(0.0, right, 50)
        lines.append(Line("rate of the theorem", guide, bound(name) ** guide, "guide"))
        title = f"{name}, {'c₀' if name == 'CIAG' else 'c₁'} = 1"
        panels.append(Panel(title, "visits", "V(k) / V(1)", lines, x_limits=(0.0, right), y_limits=(1e-24, 1e3)))
    return panels_figure(panels, height=3.4)


def _allowed_figure(results: Mapping[str, Any]) -> Any:
    lines = []
    for distance, style in zip(NEAR, ("a-ciag", "iag", "ciag"), strict=True):
        curve = _thinned(results[f"allowed-{distance:g}"], floor=1e-16)
        lines.append(Line(f"start at {distance:g}, c₀ = {allowed_factor(distance):.2g}", *curve, style=style))
    panel = Panel("", "visits", "V(k) / V(1)", lines, x_scale="log", y_limits=(1e-16, 3.0))
    return panels_figure([panel], height=3.0, width=5.0)


def _table(measured: Mapping[str, tuple[float, float]]) -> Table:
    runs = [(name, distance, 1.0, f"{name}-{distance:g}") for name in METHODS for distance in STARTS]
    runs += [("CIAG", distance, allowed_factor(distance), f"allowed-{distance:g}") for distance in NEAR]
    rows = [
        [name, f"{distance:g}", f"{factor:.2g}"]
        + [_rate(rate) for rate in (*measured[key], asymptotic_rate(name, factor), bound(name, factor))]
        for name, distance, factor, key in runs
    ]
    header = ("method", "start at", "c", "rate, first pass", "rate, late", "of full gradients", "bound of the theorem")
    return Table("rates", CAPTIONS["rates"], header, rows)


def _verdicts(results: Mapping[str, Any], measured: Mapping[str, tuple[float, float]]) -> list[Verdict]:
    def by_rates(
        claim: str,
        name: str,
        holds: Callable[[float, float], bool],
        evidence: Callable[[float, float], str],
        starts: Sequence[float] = STARTS,
    ) -> Verdict:
        """Return a claim about the rates of the two phases, undecided where there is no late one."""
        found = {f"start at {distance:g}": measured[f"{name}-{distance:g}"] for distance in starts}
        return verdict(
            claim,
            found,
            lambda case: None if math.isnan(found[case][1]) else bool(holds(*found[case])),
            lambda case: evidence(*found[case]),
        )

    def theorem(k: int, name: str) -> Verdict:
        claim, most = f"Theorem {k}: {name}'s late rate is at most {bound(name):.5f}", bound(name) + 1e-6
        return by_rates(claim, name, lambda _, late: late <= most, lambda _, late: f"late rate {_rate(late)}")

    def two_phases(name: str) -> Verdict:
        return by_rates(
            f"{name}: the first pass is slower than the late phase",
            name,
            lambda first, late: first > late,
            lambda first, late: f"V(k) times {_rate(first)} a visit, then {_rate(late)}",
            STARTS[1:],
        )

    def as_full_gradients(name: str, method: str, within: float) -> Verdict:
        rate = asymptotic_rate(name)
        return by_rates(
            f"{name}'s late rate is that of the {method} (within {100.0 * within:.0f} % of its logarithm)",
            name,
            lambda _, late: abs(math.log(late) / math.log(rate) - 1.0) <= within,
            lambda _, late: f"late rate {_rate(late)} against {_rate(rate)}",
        )

    return [
        Verdict("Theorem 1: CIAG's V(k) stays below δ^⌈k/(2K+1)⌉ V(1)", tuple(_promise(results))),
        theorem(1, "CIAG"),
        theorem(2, "A-CIAG"),
        two_phases("CIAG"),
        two_phases("A-CIAG"),
        as_full_gradients("CIAG", "full gradient method, a visit for a full gradient", 0.02),
        as_full_gradients("A-CIAG", "accelerated full gradient method", 0.1),
    ]


def _promise(results: Mapping[str, Any]) -> Iterator[Finding]:
    for distance in NEAR:
        factor = allowed_factor(distance)
        delta = promised(distance, factor)
        found = results[f"allowed-{distance:g}"]
        visits, squared = np.array(found["visits"]), np.array(found["squared"])
        limit = delta ** np.ceil(visits / (2 * M + 1)) * squared[0] + ROUNDING
        holds = bool(np.all(squared <= limit)) if delta < 1.0 else None
        evidence = f"at most {float(np.max(squared[1:] / limit[1:])):.2f} of it; c₀ = {factor:.2g}, δ = {delta:.5f}"
        yield Finding(f"start at {distance:g}", holds, evidence)
