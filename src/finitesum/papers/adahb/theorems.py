"""Theorems 3 to 6 of the heavy-ball paper: HB and AdaHB beside their bounds, on random problems of known minimum.

With z_1 = w_1, steps alpha / sqrt(t) and gradients of norm at most M, the theorems with their constants are, for t >= 1,

    3   f(w_t) - f*      <= (delta_0 + sqrt(t) (alpha M^2 + M_0 / (2 alpha))) / (t + 1)
    4   f(mean_t) - f*   <= b (f(w_0) - f(w_t)) / t + ((1 - beta) M_0 / (2 alpha) + alpha M^2 / (1 - beta)) / sqrt(t)
    5   f(w_t) - f*      <= (delta_0 + (M_1 / (2 alpha) + alpha c) G_t) / (t + 1)
    6   f(mean_t) - f*   <= b (f(w_0) - f(w_t)) / t + ((1 - beta) M_1 / (2 alpha) + alpha c / (1 - beta)) G_t / t

with delta_0 = f(w_0) - f*, b = beta / (1 - beta), c = (2 - gamma) / gamma, G_t = sum_i (sqrt(t V_{t,i}) + delta), and
M_0 at least all |w* - z_k|^2, M_1 at least all (w*_i - z_{k,i})^2, k <= t + 1. In the averaging form z stays in the set, so
that M_0 is at most the squared diameter and M_1 the squared width. In the printed form, z_t = w_t + q_t (w_t - w_{t-1})
with q_t = t, or b where momentum is constant, may leave the set: then the constants are those that were measured.
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from finitesum.constraints import L1Ball, L2Ball, LInfBall
from finitesum.constraints.base import Constraint
from finitesum.core.arrays import Vector
from finitesum.methods import HB, AdaHB
from finitesum.papers.claims import Verdict, verdict
from finitesum.papers.experiment import Context, Drawing, Outcome, Table, Unit, Value, captions
from finitesum.problems.callables import SubgradientProblem
from finitesum.reporting.files import show
from finitesum.reporting.plots import Line, Panel, panels_figure

#: Variables, linear functions, and how many of these are largest at the minimiser.
DIM, N_PIECES, N_ACTIVE = 20, 60, 10

BETA, GAMMA, DELTA = 0.9, 0.9, 1e-8

#: Steps alpha, in multiples of the one that the bound is least for.
FACTORS = (0.1, 1.0, 10.0)
N_STEPS, N_SEEDS = {"quick": 600, "full": 5000}, {"quick": 3, "full": 10}

AVERAGING, PRINTED, EUCLIDEAN = "averaging", "displacement", "displacement, Euclidean"

#: By set, and whether the minimiser lies inside of it.
SETS: dict[str, tuple[Constraint, bool]] = {
    "l1 ball": (L1Ball(1.0), False),
    "l2 ball": (L2Ball(1.0), False),
    "box": (LInfBall(1.0), False),
    "l2 ball (minimum inside)": (L2Ball(1.0), True),
}


class Theorem(NamedTuple):
    """What a theorem is about."""

    number: int
    is_adaptive: bool
    momentum: float | str

    @property
    def name(self) -> str:
        """The method and its momentum."""
        kind = "varying" if self.is_varying else "constant"
        return f"Theorem {self.number}: {'AdaHB' if self.is_adaptive else 'HB'}, {kind} momentum"

    @property
    def is_varying(self) -> bool:
        """Whether beta_t = t / (t + 2), so that the theorem is about the last iterate; else about the mean."""
        return isinstance(self.momentum, str)

    @property
    def forms(self) -> tuple[str, ...]:
        """The forms that are run: with AdaHB the printed algorithm with the Euclidean projection as well."""
        return (AVERAGING, PRINTED, EUCLIDEAN) if self.is_adaptive else (AVERAGING, PRINTED)

    def method(self, form: str, step_size: float) -> Any:
        """Return the method."""
        output = "last" if self.is_varying else "average"
        common: dict[str, Any] = {"momentum": self.momentum, "form": form.partition(",")[0], "output": output}
        if not self.is_adaptive:
            return HB(step_size, **common)
        projection = "euclidean" if form == EUCLIDEAN else "weighted"
        return AdaHB(step_size, gamma=GAMMA, delta=DELTA, projection=projection, **common)


_THEOREMS = Theorem(3, False, "varying"), Theorem(4, False, BETA), Theorem(5, True, "varying"), Theorem(6, True, BETA)
THEOREMS = {theorem.name: theorem for theorem in _THEOREMS}


class Case(NamedTuple):
    """A convex function on a set, whose minimum is 0."""

    problem: SubgradientProblem
    solution: Vector
    M: float  # the largest norm of a subgradient

    @property
    def size(self) -> tuple[float, float]:
        """The squared diameter of the set, and its squared width along a coordinate."""
        constraint: Any = self.problem.constraint
        return constraint.diameter(DIM) ** 2, constraint.width() ** 2


def case_of(name: str, seed: int) -> Case:
    """Return max_i <a_i, w - w*> - s_i with s >= 0, whose active a_i have a mean that is opposite to a normal at w*."""
    rng = np.random.default_rng(seed)
    constraint, is_inside = SETS[name]
    solution, normal = _point_and_normal(constraint, rng)
    if is_inside:
        solution, normal = 0.5 * solution, np.zeros(DIM)
    scales = 10.0 ** rng.uniform(-1.0, 0.0, DIM)  # coordinates differ, which is what AdaHB's metric is for
    A, slack = scales * rng.standard_normal((N_PIECES, DIM)), rng.exponential(0.3, N_PIECES)
    A[:N_ACTIVE] -= A[:N_ACTIVE].mean(axis=0) + 0.5 * normal
    slack[:N_ACTIVE] = 0.0

    def value(w: Vector) -> float:
        return float(np.max(A @ (w - solution) - slack))

    def subgradient(w: Vector) -> Vector:
        return np.asarray(A[np.argmax(A @ (w - solution) - slack)])

    problem = SubgradientProblem(DIM, value, subgradient, constraint)
    return Case(problem, solution, float(np.linalg.norm(A, axis=1).max()))


def _point_and_normal(constraint: Constraint, rng: np.random.Generator) -> tuple[Vector, Vector]:
    """Return a point on the boundary, and a vector of its normal cone."""
    signs = np.where(rng.random(DIM) < 0.5, -1.0, 1.0)
    if isinstance(constraint, L1Ball):
        sizes = np.where(np.arange(DIM) < DIM // 4, rng.uniform(0.2, 1.0, DIM), 0.0)
        normal = signs * np.where(sizes > 0.0, 1.0, rng.uniform(0.0, 0.9, DIM))
        return signs * sizes / sizes.sum(), normal
    if isinstance(constraint, L2Ball):
        direction = rng.standard_normal(DIM)
        direction /= np.linalg.norm(direction)
        return direction, direction
    is_bound = np.arange(DIM) < DIM // 2
    inner = rng.uniform(-0.5, 0.5, DIM)
    return np.where(is_bound, signs, inner), np.where(is_bound, signs * rng.uniform(0.2, 1.0, DIM), 0.0)


def best_step(theorem: Theorem, case: Case) -> float:
    """Return the alpha that the theorem's bound is least for, by the size of the set."""
    diameter, width = map(math.sqrt, case.size)
    found = diameter / (math.sqrt(2.0) * case.M)
    if theorem.is_adaptive:
        found = width * math.sqrt(GAMMA / (2.0 * (2.0 - GAMMA)))
    return found if theorem.is_varying else (1.0 - BETA) * found


def bound(theorem: Theorem, case: Case, alpha: float, t: int, size: float, metric: float, drops: Sequence[float]) -> float:
    """Return the right-hand side at t: `size` is M_0 or M_1, `metric` G_t, `drops` delta_0 and f(w_0) - f(w_t)."""
    scale = metric if theorem.is_adaptive else math.sqrt(t)
    noise = (2.0 - GAMMA) / GAMMA if theorem.is_adaptive else case.M**2
    if theorem.is_varying:
        return (drops[0] + (size / (2.0 * alpha) + alpha * noise) * scale) / (t + 1)
    factor = (1.0 - BETA) * size / (2.0 * alpha) + alpha * noise / (1.0 - BETA)
    return BETA / ((1.0 - BETA) * t) * drops[1] + factor * scale / t


def followed(theorem: Theorem, form: str, case: Case, alpha: float, n_steps: int) -> dict[str, Any]:
    """Return, for t = 1, ..., n_steps, the gap of which the theorem speaks, the bound, and the measured M_0 or M_1.

    The bound of the averaging form has the set's size, those of the others what was measured.
    """
    problem, method = case.problem, theorem.method(form, alpha)
    state = method.init(problem, np.zeros(DIM))
    before = now = state.memory.iterate
    first, known = problem.value(now), case.size[theorem.is_adaptive]
    gaps, bounds, size = [], [], _distance(theorem, case, now)
    for t in range(1, n_steps + 1):
        state = method.run_pass(problem, state, np.zeros(1, dtype=np.int64))
        before, now = now, state.memory.iterate
        q = t + 1 if theorem.is_varying else BETA / (1.0 - BETA)
        z = state.memory.companion if form == AVERAGING else now + q * (now - before)
        size = max(size, _distance(theorem, case, z))
        metric = float(np.sum(np.sqrt(t * state.memory.second) + DELTA)) if theorem.is_adaptive else 0.0
        at_t = problem.value(before)
        used = known if form == AVERAGING else size
        gaps.append(at_t if theorem.is_varying else problem.value(state.x))
        bounds.append(bound(theorem, case, alpha, t, used, metric, (first, first - at_t)))
    return {"gap": np.array(gaps), "bound": np.array(bounds), "size": size / known}


def _distance(theorem: Theorem, case: Case, z: Vector) -> float:
    apart = np.square(z - case.solution)
    return float(apart.max() if theorem.is_adaptive else apart.sum())


def shown_times(n_steps: int) -> list[int]:
    """Return the t of the curves, evenly spread on a log scale."""
    return sorted({round(t) for t in np.geomspace(1, n_steps, 60)})


def compare(name: str, set_name: str, seed: int, n_steps: int) -> dict[str, Any]:
    """Return what all forms and steps of a theorem come to on one problem."""
    theorem, case, found = THEOREMS[name], case_of(set_name, seed), dict[str, Any]()
    for form, factor in itertools.product(theorem.forms, FACTORS):
        run = followed(theorem, form, case, factor * best_step(theorem, case), n_steps)
        ratio = run["gap"] / run["bound"]
        entry = {"ratio": float(ratio.max()), "end": float(ratio[-1]), "size": float(run["size"])}
        if factor == 1.0:
            at = np.array(shown_times(n_steps)) - 1
            entry |= {key: run[key][at].tolist() for key in ("gap", "bound")}
        found[f"{form}, {factor:g}"] = entry
    return found


class Results(NamedTuple):
    """What all problems came to."""

    found: Mapping[str, Any]
    seeds: range

    def of(self, name: str, form: str, set_name: str, key: str) -> list[float]:
        """Return a number of all seeds and steps."""
        runs = [self.found[_unit(name, set_name, seed)] for seed in self.seeds]
        return [run[f"{form}, {factor:g}"][key] for run in runs for factor in FACTORS]

    def largest(self, name: str, form: str, set_name: str, key: str) -> float:
        """Return the largest of these."""
        return max(self.of(name, form, set_name, key))

    def curves(self, name: str, form: str, set_name: str, key: str) -> Vector:
        """Return the curves of all seeds with the step that the bound is least for."""
        return np.array([self.found[_unit(name, set_name, seed)][f"{form}, 1"][key] for seed in self.seeds])


def _unit(name: str, set_name: str, seed: int) -> str:
    return f"{name.partition(':')[0]}, {set_name}, {seed}"


def _units(seeds: range, n_steps: int) -> Iterator[Unit]:
    for name, set_name, seed in itertools.product(THEOREMS, SETS, seeds):
        yield Unit(_unit(name, set_name, seed), partial(compare, name, set_name, seed, n_steps))


def run(context: Context) -> Outcome:
    """Run the methods of all theorems on all problems."""
    seeds, n_steps = range(N_SEEDS[context.size]), N_STEPS[context.size]
    results, said = Results(context.complete(list(_units(seeds, n_steps))), seeds), captions("adahb/theorems")
    values = {
        f"largest f - f* by its bound, {name}, averaging, {set_name}": Value(
            results.largest(name, AVERAGING, set_name, "ratio"), relative=1e-3
        )
        for name, set_name in itertools.product(THEOREMS, SETS)
    }
    figure = panels_figure(
        [_panel(results, name, set_name, n_steps) for name in THEOREMS for set_name in tuple(SETS)[:2]], height=3.1
    )
    notes = [said["note"].format(n_seeds=len(seeds), n_steps=n_steps, factors=", ".join(f"{f:g}" for f in FACTORS))]
    drawings, tables = [Drawing("theorems", said["theorems"], figure)], [_table(results, said["ratios"])]
    return Outcome(drawings, tables, _verdicts(results), values, notes)


def _panel(results: Results, name: str, set_name: str, n_steps: int) -> Panel:
    t = np.array(shown_times(n_steps), dtype=np.float64)
    lines = []
    for form, style, guide in ((AVERAGING, "ciag", "guide"), (PRINTED, "a-ciag", "guide-2")):
        gaps, bounds = (results.curves(name, form, set_name, key) for key in ("gap", "bound"))
        lines.append(Line(form, t, np.median(gaps, axis=0), style, gaps.min(axis=0), gaps.max(axis=0)))
        constants = "the set's size" if form == AVERAGING else "measured constants"
        lines.append(Line(f"bound, {constants}", t, np.median(bounds, axis=0), guide))
    title = f"{name.partition(' momentum')[0]}, {set_name}"
    return Panel(title, "t", "f − f*", lines, x_scale="log")


def _table(results: Results, caption: str) -> Table:
    header = (
        "theorem",
        "form",
        "set",
        "largest f − f* by its bound",
        "at the end",
        "largest M_0 or M_1 by that of the set",
    )
    rows = [
        [name, form, set_name, *(show(results.largest(name, form, set_name, key)) for key in ("ratio", "end", "size"))]
        for name, theorem in THEOREMS.items()
        for form, set_name in itertools.product(theorem.forms, SETS)
    ]
    return Table("ratios", caption, header, rows)


def _verdicts(results: Results) -> list[Verdict]:
    def below(claim: str, name: str, form: str, key: str, says: str) -> Verdict:
        numbers = {set_name: results.largest(name, form, set_name, key) for set_name in SETS}
        evidence = {set_name: says.format(show(number)) for set_name, number in numbers.items()}
        return verdict(claim, numbers, lambda case: numbers[case] <= 1.0 + 1e-9, evidence.__getitem__)

    bounded = "f − f* is at most {} times its bound"
    found = []
    for name, theorem in THEOREMS.items():
        what = "last iterate" if theorem.is_varying else "mean"
        claim = f"{name}: the {what} is below the bound"
        found.append(below(f"{claim} (averaging form, constants by the set's size)", name, AVERAGING, "ratio", bounded))
        found.append(below(f"{claim} (as printed, measured constants)", name, PRINTED, "ratio", bounded))
        size = "M_1" if theorem.is_adaptive else "M_0"
        claim = f"{name}: that the set is bounded bounds {size} (as printed)"
        found.append(below(claim, name, PRINTED, "size", f"{size} is {{}} times that of the set"))
        if theorem.is_adaptive:
            claim = f"{name}: the {what} is below the bound (Algorithm 1's Euclidean projection, measured constants)"
            found.append(below(claim, name, EUCLIDEAN, "ratio", bounded))
    return found
