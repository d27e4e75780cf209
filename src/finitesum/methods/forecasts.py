"""Forecasts: what the methods of Newton's kind take on a smooth linear model, from the shape of its data and a few rows.

Of classes with an l2 penalty these are L-BFGS, and Newton's method with a factor and by conjugate gradients.

    seconds = price(usual counts) exp(sum_j effect_j feature_j)

A *price* turns counts of passes, Hessians and steps into seconds, linearly, with the costs of rows and factors
(`finitesum.methods.cost_model`). Usual counts are powers of the digits that are asked for and of the rows by columns. The
*effects* say how seconds, beyond what price and counts know, depend on the problem: on the digits that are asked for, on
how strongly the penalty couples rows, on the shape, the loss and the penalty. Features are kept within the range that was
seen, so that beyond it the price decides alone.

Prices, usual counts and effects stand in `forecasts.toml`. ``python benchmarks/auto_choice.py fit`` writes that file: least
squares on the logarithms of seconds measured on generated problems of four families, with several classes of five and with
an l1 penalty of seven, and what is reported of the choice is measured on others. No clock is read here, and no sample is
drawn at random, so that a choice can be repeated.
"""

import functools
import math
import operator
import tomllib
from collections.abc import Sequence
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.evaluation.conditioning import centred_redundancy_of, redundancy_of
from finitesum.evaluation.hessian import is_single
from finitesum.evaluation.outputs import loss_of
from finitesum.evaluation.row_blocks import sum_over_problems
from finitesum.evaluation.row_products import sum_of_squares
from finitesum.losses import Huber, RoundedCorner, SmoothedHinge, SquaredHinge
from finitesum.losses.arrays import in_arrays
from finitesum.losses.classes import weighted
from finitesum.losses.families import OfMean
from finitesum.methods import set_forecasts
from finitesum.methods.class_costs import (
    is_whole_cheap,
    is_worth_epochs,
    nanoseconds_of_factor,
    nanoseconds_of_pass,
    order_of_factor,
    steps_before_whole,
)
from finitesum.methods.cost_model import costs_by_products, costs_of, has_few_rows, hessian_sample, takes_fewer_by_rows
from finitesum.problems.linear import Problem
from finitesum.problems.memory import remembered
from finitesum.problems.partitioned import is_parted
from finitesum.problems.rows import add_combination, n_entries, some_rows

#: Numbers of the rows that are looked at, and those rows, at least.
MOST_NUMBERS, FEWEST_ROWS = 5e4, 128.0

#: By how much the steps of Newton's method with few rows are fewer than the logarithm of their coupling, and the fewest.
LESS_STEPS, FEWEST_STEPS = 2.0, 3.0

#: Rows by columns up to which dual ascent treats rounded corners: beyond, a Hessian of columns is small; and q_i phi'' of
#: sparse rows without an intercept from which it does: before, the epochs that newton-cg begins with need no faces.
#: Gradients that its visits cost, its passes: (least, by the root of the rows by columns and this power of q_i phi''), and
#: how many times as many an intercept takes, as measured.
MOST_ROWS, LEAST_COUPLED, DUAL_VISIT, DUAL_PASSES, DUAL_INTERCEPT = 3.0, 10.0, 2.3, (20.0, 30.0, 0.3), 1.2

#: What one step of least squares with few rows takes by the costs of its parts, in the middle of 14 draws.
ONE_STEP = 1.9

#: What Newton's method with few rows takes by the costs of its parts, and where the curvature is constant in pieces (31 and
#: 24 draws of the half that is fitted to; of 68 others the regret fell from 1.21 to 1.11 in the geometric mean).
OF_FEW_ROWS, IN_PIECES = 0.65, 0.4

#: Seconds of a step of dual ascent beside its visits, as measured on 80 small problems.
OF_STEP = 1e-4

#: What a Hessian of Newton's method in single precision takes of one in double precision, for which figures were fitted.
IN_SINGLE = 0.6

#: Columns of a first working set.
FIRST_COLUMNS = 128.0

#: The least accuracy that a forecast is made for, in digits, and the least tol.
LEAST_DIGITS, LEAST_TOL = 0.5, 1e-14

#: A coupling that is as good as no l2 penalty.
MOST_COUPLED = 1e6

#: What several classes are fitted by: L-BFGS, Newton's method with a factor, and by conjugate gradients.
OF_CLASSES = ("multinomial-lbfgs", "multinomial-newton exact", "multinomial-newton cg")

#: Variables of all classes but one up to which Newton's method has a factor.
MOST_OF_CLASSES = 5000

#: Such variables from which it is not compared where rows are fewer than columns.
LEAST_OF_FEW_ROWS = 400

#: How alike the columns of dense rows may be (`redundancy_of`) where L-BFGS is compared: of 39 draws of other families it
#: was the fastest on 4, and took more than twice as long as the best method, or did not end, on 29.
MOST_ALIKE = 2.0

#: The features that counts grow with, as powers.
OF_COUNTS = ("digits", "height")

#: Losses whose pieces, tails or lack of a bound change the counts.
LOSSES = {"squared_hinge": SquaredHinge, "smoothed_hinge": SmoothedHinge, "huber": Huber, "mean": OfMean}


class Counts(NamedTuple):
    """What a run has spent: passes over the rows, Hessians of all rows, and steps."""

    passes: float
    hessians: float
    steps: float


class Traits(NamedTuple):
    """What forecasts know of a problem beside its shape."""

    optimality: float  # at 0
    coupling: float  # mean ||x_i||^2 phi'' / l2
    sparsity: float  # log of the largest slope at 0 by the l1 penalty: at 0 or below all coefficients are 0
    entries: float  # of a row


def _gradient_at_0(problem: Problem, n_wanted: int) -> tuple[Vector, float, float]:
    """Return sum_i p_i phi'_i x_i at 0, sum_i p_i and the mean ||x_i||^2 over some rows, spread evenly.

    With an l1 penalty and an intercept, at whose best value, about, columns far from 0 should not see the slopes' mean, the
    gradient is followed by that of slopes less their mean.
    """
    n, rows, weights, targets, offsets = problem.n_rows, problem.rows, problem.weights, problem.targets, problem.offsets
    if n_wanted < n:
        chosen = np.linspace(0, n, n_wanted, endpoint=False, dtype=np.int64)
        rows, weights, targets, offsets = some_rows(rows, chosen), weights[chosen], targets[chosen], offsets[chosen]
    gradient = np.zeros(problem.dim)
    if problem.n_outputs > 1:
        slopes = weighted(loss_of(problem).d1(offsets, targets), weights)
        for of_output, part in zip(slopes.T, gradient.reshape(problem.n_outputs, -1), strict=True):
            add_combination(rows, np.ascontiguousarray(of_output), part)
    else:
        slopes = np.where(weights > 0.0, weights * in_arrays(problem.loss).d1(offsets, targets), 0.0)
        add_combination(rows, slopes, gradient)
        if problem.has_intercept and problem.term.has_l1:
            centred = np.zeros(problem.dim)
            add_combination(rows, slopes - weights * (float(slopes.sum()) / (float(weights.sum()) or 1.0)), centred)
            gradient = np.concatenate([gradient, centred])
    squares = np.square(
        rows.values, dtype=np.float64
    )  # no product of BLAS, whose threads take long to wake on a busy machine
    square = float(squares.sum()) / rows.n_rows + rows.intercept
    return gradient, float(weights.sum()), square


@remembered
def traits_of(problem: Problem) -> Traits:
    """Return what some rows, spread evenly, say of a problem with a smooth loss and an elastic net."""
    n, term = problem.n_rows, problem.term
    entries = n_entries(problem.rows) / n
    wanted = int(max(FEWEST_ROWS, MOST_NUMBERS / max(entries, 1.0)))

    def of_part(part: Problem) -> tuple[Vector, float]:
        return _gradient_at_0(part, -(-wanted * part.n_rows // n))[:2]

    with np.errstate(all="ignore"):
        if is_parted(problem):
            (gradient, weight), square = sum_over_problems(of_part, problem), sum_of_squares(problem) / n
        else:
            gradient, weight, square = _gradient_at_0(problem, wanted)
        gradient, centred = np.reshape(gradient / (weight or 1.0), (-1, problem.dim))[[0, -1]]
        curvature = problem.loss.curvature_bound()
        square *= curvature if math.isfinite(curvature) else 1.0
        coupling = square / max(term.ridge, 1e-12 * square, 1e-300) if math.isfinite(square) else MOST_COUPLED
        steepest = float(np.nan_to_num(np.abs(centred[: problem.rows.n_columns])).max(initial=0.0))
        sparsity = math.log(max(steepest, 1e-300) / term.lasso) if term.has_l1 else 0.0
        return Traits(float(term.optimality(np.zeros(problem.dim), gradient)), coupling, sparsity, entries)


def features_of(problem: Problem, tol: float) -> dict[str, float]:
    """Return the features by their names."""
    n, dim, traits = problem.n_rows, problem.dim, traits_of(problem)
    start = traits.optimality if 0.0 < traits.optimality < math.inf else 1.0
    digits = max(math.log10(start / max(tol, LEAST_TOL)), LEAST_DIGITS)
    coupling, width = math.log1p(min(traits.coupling, MOST_COUPLED)), math.log(n / dim)
    is_sparse, entries = float(problem.rows.is_sparse()), max(traits.entries, 1.0)
    return {
        "one": 1.0,
        "digits": math.log(digits),
        "coupling": coupling,
        "without_l2": float(not problem.term.ridge > 0.0),
        "rows": math.log(n),
        "height": max(width, 0.0),
        "width": max(-width, 0.0),
        "entries": math.log(entries),
        "sparse": is_sparse,
        "smallness": max(math.log(1e6 / (n * entries)), 0.0),
        "zeros": min(max(traits.sparsity, -1.0), 8.0),
        "intercept": float(problem.has_intercept),
        **{"classes": _of_outputs, "squares": _of_squares}.get(_kind(problem), _of_loss)(problem),
    }


def _of_loss(problem: Problem) -> dict[str, float]:
    """Return the features of one output alone: the loss, and how alike columns of dense rows are.

    The latter is asked with the squared loss and an l1 penalty, or where L-BFGS is compared.
    """
    found = {name: float(isinstance(problem.loss, loss)) for name, loss in LOSSES.items()}
    if _kind(problem) == "quadratic":
        is_known = not (problem.is_constrained or problem.rows.is_sparse() or is_parted(problem))
        return found | {"redundancy": math.log(centred_redundancy_of(problem)) if is_known else 0.0}
    return found | ({"redundancy": math.log(redundancy_of(problem))} if is_independent(problem) else {})


def _of_squares(problem: Problem) -> dict[str, float]:
    """Return the features of least squares alone: whether the system is that of the rows, and how many columns are more."""
    by_rows = float(takes_fewer_by_rows(problem))
    return {"by_rows": by_rows, "width_by_rows": by_rows * max(math.log(problem.dim / problem.n_rows), 0.0)}


def _of_outputs(problem: Problem) -> dict[str, float]:
    """Return the features of several outputs alone: how many there are, what L-BFGS has for them, and the redundancy."""
    has = {"metric": is_whole_cheap(problem), "epochs": is_worth_epochs(problem)}
    has["diagonal"] = not problem.is_constrained and steps_before_whole(problem) > 0
    is_asked = not (is_parted(problem) or problem.is_constrained)  # what else has figures of its own
    numbers = {"outputs": math.log(problem.n_outputs), "redundancy": math.log(redundancy_of(problem)) if is_asked else 0.0}
    return numbers | {name: float(value) for name, value in has.items()}


def terms_of(name: str, problem: Problem, counts: Counts) -> list[float]:
    """Return what a method's counts come to, in seconds but for the factors that the file has.

    They are those of steps in Python, passes, Hessians, factors and solutions with factors; with an l1 penalty, of more
    factors and solutions.
    """
    n, dim, costs = problem.n_rows, float(problem.dim), costs_of(problem)
    if name in OF_CLASSES:
        of_pass = nanoseconds_of_pass(problem, is_single=False)
        by_entries = name != "multinomial-newton exact"  # which L-BFGS with such factors beat on 14 of 14 random problems
        of_factor = nanoseconds_of_factor(problem, n, by_entries=by_entries) if has_factor(problem) else 0.0
        return [1e-3 * counts.steps, 1e-9 * counts.passes * of_pass, 1e-9 * counts.hessians * of_factor]
    overhead = [1e-3 * counts.steps, 1e-9 * counts.passes * n * costs.gradient]
    if name in ("newton-cg", "lbfgs"):
        return overhead
    if name == "coordinate-descent":  # a Hessian is a model, over which it passes
        return [*overhead, 1e-9 * counts.hessians * n * costs.gradient]
    order = min(dim, FIRST_COLUMNS) if name == "working-set-newton" else dim
    hessians = 1e-9 * counts.hessians * n * costs.hessian * order / dim
    if name == "newton" and is_single(problem):
        hessians *= IN_SINGLE
    factors = [1e-11 * counts.steps * order**3, 1e-9 * counts.steps * order**2]
    return [*overhead, hessians, *factors, *(problem.term.has_l1 * seconds for seconds in factors)]


def price(name: str, problem: Problem, counts: Counts) -> float:
    """Return the seconds that a method's counts come to."""
    if problem.is_constrained:
        return set_forecasts.price(name, problem, counts)
    if name == "dual-ascent":
        return OF_STEP * counts.steps + 1e-9 * counts.passes * problem.n_rows * DUAL_VISIT * costs_of(problem).gradient
    if name == "newton" and has_few_rows(problem):
        costs = costs_by_products(problem)
        return 1e-9 * (counts.hessians * costs.step + counts.passes * costs.reading)
    prices = _figures(name, problem)["prices"]
    return float(sum(factor * seconds for factor, seconds in zip(prices, terms_of(name, problem, counts), strict=True)))


def usual_counts(name: str, problem: Problem, features: dict[str, float]) -> Counts:
    """Return what a method needs on average at the digits that are asked for and the shape of the rows."""
    if name == "newton" and has_few_rows(problem):
        n_steps = max(math.log1p(traits_of(problem).coupling) - LESS_STEPS, FEWEST_STEPS)
        n_steps = 1.0 if problem.has_quadratic_loss else n_steps
        return Counts(2.0 + n_steps / costs_by_products(problem).steps_a_pass(), n_steps, n_steps)
    if name == "dual-ascent":
        least, by_coupling, power = DUAL_PASSES
        tall = math.sqrt(problem.n_rows / problem.dim)
        passes = least + by_coupling * tall * _coupling_of_visits(problem) ** power
        return Counts(passes * (DUAL_INTERCEPT if problem.has_intercept else 1.0), 0.0, 0.0)
    figures = _figures(name, problem)
    logs = 1.0, *(_within(features[key], figures["effects"][key]) for key in OF_COUNTS)
    counts = Counts(*(math.exp(sum(map(operator.mul, row, logs))) for row in figures["counts"]))
    if name == "lazy-newton" and problem.is_smooth:
        counts = counts._replace(hessians=counts.hessians * hessian_sample(problem) / problem.n_rows)
    return counts


def forecast(name: str, problem: Problem, tol: float, features: dict[str, float] | None = None) -> float:
    """Return the seconds that a method is likely to take until the optimality is at most tol; features may be known.

    Examples
    --------
    >>> problem = Problem.linear(np.eye(200), np.arange(200) % 2, alpha=0.1)
    >>> forecast("newton", problem, 1e-6) < forecast("newton", problem, 1e-12)
    True
    """
    if name == "newton" and has_few_rows(problem):
        seconds = 1e-9 * costs_by_products(problem).once + price(name, problem, usual_counts(name, problem, {}))
        if _kind(problem) == "squares":
            return ONE_STEP * seconds
        return (IN_PIECES if isinstance(problem.loss, Huber | SquaredHinge) else OF_FEW_ROWS) * seconds
    if name == "dual-ascent":
        return price(name, problem, usual_counts(name, problem, {}))
    features = features_of(problem, tol) if features is None else features
    return price(name, problem, usual_counts(name, problem, features)) * effect(_kind(problem), name, features)


def effect(kind: str, name: str, features: dict[str, float]) -> float:
    """Return by what the seconds of a method are multiplied for the features of a problem of some kind."""
    effects = _table()[kind][name]["effects"]
    return math.exp(sum(row[0] * _within(features[feature], row) for feature, row in effects.items()))


def _within(feature: float, row: Sequence[float]) -> float:
    """Return a feature, kept within the range that was seen."""
    return min(max(feature, row[1]), row[2])


def known_methods(problem: Problem) -> list[str]:
    """Return the names of the methods that are compared by their forecasts.

    With an l1 penalty alone, on fewer rows than columns, F is flat along many directions: conjugate gradients stall there.
    Columns of rows in parts are not copied. Factors of all classes' Hessian on fewer rows than columns were the fastest on
    none of 40 such draws, whose order was `LEAST_OF_FEW_ROWS` at least.
    """
    if problem.n_outputs > 1:
        is_small = problem.n_rows >= problem.rows.n_columns or order_of_factor(problem) < LEAST_OF_FEW_ROWS
        may_factor = has_factor(problem) and is_small
        return [name for name in OF_CLASSES if name != "multinomial-newton exact" or may_factor]
    unsuited = set() if is_independent(problem) else {"lbfgs"}
    is_flat = problem.term.has_l1 and not problem.term.ridge > 0.0 and problem.n_rows < problem.dim
    unsuited |= {"newton-cg"} if is_flat else set()
    unsuited |= {"coordinate-descent"} if is_parted(problem) else set()
    by_visits = ["dual-ascent"] if _has_corners_of_few_rows(problem) else []
    return [name for name in (*_table()[_kind(problem)], *by_visits) if name not in unsuited]


def is_independent(problem: Problem) -> bool:
    """Return whether columns of dense rows depend so little on each other that L-BFGS may need few passes."""
    is_dense = not (problem.rows.is_sparse() or is_parted(problem))
    return is_dense and problem.is_smooth and redundancy_of(problem) <= MOST_ALIKE


def _has_corners_of_few_rows(problem: Problem) -> bool:
    """Return whether dual ascent is compared with Newton's methods for rounded corners."""
    has_corner = isinstance(problem.loss, RoundedCorner) and problem.term.ridge > 0.0 and problem.is_smooth
    is_plain = not (problem.term.has_weights or is_parted(problem))
    return has_corner and is_plain and problem.n_rows <= MOST_ROWS * problem.dim


def is_coupled(problem: Problem) -> bool:
    """Return whether visits of dual ascent see their own changes so much that epochs without faces would be many."""
    return _coupling_of_visits(problem) >= LEAST_COUPLED


def _coupling_of_visits(problem: Problem) -> float:
    """Return the mean q_i phi'', q_i = p_i ||x_i||^2 / l2: by how much a visit sees its own change."""
    return traits_of(problem).coupling / problem.n_rows


def _figures(name: str, problem: Problem) -> dict[str, Any]:
    figures: dict[str, Any] = _table()[_kind(problem)][name]
    return figures


def _kind(problem: Problem) -> str:
    if problem.n_outputs > 1:
        return "classes"
    is_quadratic = problem.has_quadratic_loss
    if problem.is_smooth:
        return "squares" if is_quadratic else "smooth"
    return "quadratic" if is_quadratic else "l1"


def has_factor(problem: Problem) -> bool:
    """Return whether Newton's method for classes may have a factor."""
    return order_of_factor(problem) <= MOST_OF_CLASSES


@functools.cache
def _table() -> dict[str, Any]:
    return tomllib.loads(resources.files("finitesum.methods").joinpath("forecasts.toml").read_text(encoding="utf-8"))
