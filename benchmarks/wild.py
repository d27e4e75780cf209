"""Small problems as wild as users' data can be, drawn at random, and every claim of convergence judged in 50 digits.

    python benchmarks/wild.py [--n 3000] [--first 0] [--method auto] [--log wild.jsonl] [--out benchmarks/results]

A problem has 5 to 600 rows and up to 90 columns whose sizes differ by up to twelve orders of magnitude, any loss, penalty
and set that the library has, weights over six decades with zeros among them, duplicated and constant columns, separable
labels, alpha from 1e-12 to 1e2 and a tol of 1e-6, 1e-8 or 1e-10. Each is minimised by one call of `minimize` with its
defaults. What the call claims is judged from the equations alone, in decimal arithmetic of 50 digits: the prox-gradient
mapping at x for smooth losses, and for the hinge F(x) against the lowest value that any method reached. The numbers taken
as exact are those that the problem holds: rows, targets, normalised weights, penalty and set.

The table counts problems by their end:

- false claim: success, though the optimality in 50 digits is above tol;
- beyond float64: it did not converge, and float64 is the reason: F is above 1.8e308 at every point of the set (weights of
  rows from a linear program prove it), or the minimiser, found in 50 digits, is above tol with each coordinate rounded;
- slow: more than 2 seconds, the second of two runs where kernels were compiled in the first;
- error: an exception, apart from a refusal in words (ValueError, TypeError) before the first pass.

Small problems come first. Each verdict is a line of the log; a campaign that is started again with the same log goes on
where it was left, and `--out` writes the page from all that the log holds.
"""

from __future__ import annotations

import argparse
import json
import re
import time
import traceback
import warnings
from collections import Counter
from contextlib import suppress
from decimal import Decimal, getcontext, localcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linprog

from finitesum import Problem, minimize
from finitesum.constraints import Box, HalfSpace, L1Ball, L2Ball, LInfBall, NonNegative, Simplex
from finitesum.methods import as_method
from finitesum.methods.base import is_suited

getcontext().prec = 50
getcontext().Emax, getcontext().Emin = 10**9, -(10**9)

LOSSES = ("logistic", "squared", "squared-hinge", "hinge", "smoothed-hinge", "huber", "poisson", "multinomial")
SETS = ("none", "none", "none", "l1-ball", "l2-ball", "linf-ball", "box", "orthant", "simplex", "half-space")
PENALTIES = ("l2", "l2", "l1", "elastic-net", "none")
TOLERANCES = (1e-6, 1e-8, 1e-10)
MOST_SECONDS, MOST_PASSES, MOST_NEWTON_STEPS = 2.0, 1000, 25
KINDS = ("at tol", "short of tol", "beyond float64", "rose", "false claim", "error", "refused")


class Wild(NamedTuple):
    """One drawn problem."""

    seed: int
    words: str
    X: np.ndarray
    problem: Problem
    tol: float


def draw(seed: int, most_rows: int = 600, most_columns: int = 90) -> Wild:
    """Return the problem of a seed."""
    random = np.random.default_rng([seed, 2020])
    n = int(np.exp(random.uniform(np.log(5), np.log(most_rows))))
    d = int(np.exp(random.uniform(0.0, np.log(most_columns))))
    loss = str(random.choice(LOSSES))
    X = random.standard_normal((n, d))
    if random.random() < 0.3:  # a decaying spectrum
        X = X @ np.diag(10.0 ** -random.uniform(0, 3, d)) @ random.standard_normal((d, d))
    if d > 1 and random.random() < 0.3:
        X[:, random.integers(d)] = X[:, random.integers(d)]
    if random.random() < 0.2:
        X[:, random.integers(d)] = random.choice([0.0, 1.0])
    signal = X @ random.standard_normal(d) / max(float(np.linalg.norm(X)) / np.sqrt(n), 1e-300)
    if random.random() < 0.7:
        signal += random.choice([0.1, 1.0]) * random.standard_normal(n)
    spread = float(random.choice([0.0, 1.0, 6.0]))
    X = X * 10.0 ** random.uniform(-spread, spread, d)
    if random.random() < 0.2:
        X += random.choice([1.0, 100.0]) * np.abs(X).max(axis=0)
    y = _targets(loss, signal, random)
    words = [loss, f"{n} x {d}", f"scales 1e+-{spread:g}"]
    options: dict[str, Any] = {"fit_intercept": bool(random.random() < 0.4)}
    weight = None
    if random.random() < 0.3:
        weight = 10.0 ** random.uniform(-6, 0, n) * (random.random(n) < 0.8)
        weight[:3] = np.maximum(weight[:3], 1e-3)
        words.append("weights")
    penalty = str(random.choice(PENALTIES))
    if penalty != "none":
        options["alpha"] = float(10.0 ** random.uniform(-12, 2))
        options["l1_ratio"] = {"l2": 0.0, "l1": 1.0, "elastic-net": 0.5}[penalty]
        words.append(f"{penalty} {options['alpha']:.1g}")
    kind = "none" if loss == "multinomial" else str(random.choice(SETS))
    if kind != "none":
        if options.get("l1_ratio", 0.0) > 0.0:
            options["l1_ratio"] = 0.0
        options["constraint"] = _set(kind, d, float(10.0 ** random.uniform(-3, 3)), random)
        words.append(kind)
    if options["fit_intercept"]:
        words.append("intercept")
    tol = float(random.choice(TOLERANCES))
    return Wild(seed, ", ".join(words), X, Problem.linear(X, y, loss=loss, sample_weight=weight, **options), tol)


def _targets(loss: str, signal: np.ndarray, random: np.random.Generator) -> np.ndarray:
    if loss in ("squared", "huber"):
        return signal * 10.0 ** random.uniform(-2, 2)
    if loss == "poisson":
        return random.poisson(np.exp(np.clip(signal, -5, 5))).astype(float)
    if loss == "multinomial":
        classes = np.digitize(signal, [-0.5, 0.5])
        classes[:3] = [0, 1, 2]
        return classes
    signs = np.where(signal > 0.0, 1.0, -1.0)
    signs[0], signs[1] = 1.0, -1.0
    return signs


def _set(kind: str, d: int, size: float, random: np.random.Generator) -> Any:
    if kind == "box":
        middle = size * random.standard_normal(d)
        return Box(middle - size * random.random(d), middle + size * random.random(d))
    if kind == "half-space":
        return HalfSpace(random.standard_normal(d), size * float(random.standard_normal()))
    by_size = {"l1-ball": L1Ball, "l2-ball": L2Ball, "linf-ball": LInfBall, "simplex": Simplex}
    return by_size[kind](size) if kind in by_size else NonNegative()


# -- the judge: everything from here on is in decimal arithmetic, and uses nothing of the library but the problem's numbers


def exact(values: Any) -> np.ndarray:
    """Return an array of Decimals, which hold float64 numbers exactly."""
    array = np.asarray(values, dtype=np.float64)
    return np.array([Decimal(float(v)) for v in array.ravel()], dtype=object).reshape(array.shape)


def _sigmoid(u: Decimal) -> Decimal:
    return 1 / (1 + (-u).exp()) if u > 0 else u.exp() / (1 + u.exp())


def _loss(name: str, loss: Any, u: Decimal, y: Decimal) -> tuple[Decimal, Decimal]:
    """Return value and derivative."""
    one, zero = Decimal(1), Decimal(0)
    if name == "logistic":
        m = y * u
        return max(-m, zero) + (1 + (-abs(m)).exp()).ln(), -y * _sigmoid(-m)
    if name == "squared":
        return (u - y) ** 2 / 2, u - y
    if name == "poisson":
        return u.exp() - y * u, u.exp() - y
    if name == "huber":
        t, r = Decimal(float(loss.threshold)), u - y
        return (r * r / 2, r) if abs(r) <= t else (t * (abs(r) - t / 2), t.copy_sign(r))
    gap = max(one - y * u, zero)
    if name == "squared-hinge":
        return gap * gap, -2 * y * gap
    if name == "hinge":
        return gap, -y if gap > 0 else zero
    width = Decimal(float(loss.width))
    if gap >= width:
        return gap - width / 2, -y
    return gap * gap / (2 * width), -y * gap / width


def derivatives(wild: Wild, x: Any, *, second: bool = False) -> tuple[Decimal, np.ndarray, np.ndarray]:
    """Return the objective at x, the gradient of its smooth part, (K, dim), and if asked for Poisson's Hessian."""
    problem, name = wild.problem, wild.words.split(",")[0]
    X, w, p = exact(wild.X), np.asarray(x, dtype=object), exact(problem.weights)
    n_outputs, d = problem.n_outputs, X.shape[1]
    blocks = w.reshape(n_outputs, -1)
    has_intercept = blocks.shape[1] > d
    value, gradient = Decimal(0), np.full(blocks.shape, Decimal(0), dtype=object)
    hessian = np.full((w.size, w.size), Decimal(0), dtype=object)
    U = X @ blocks[:, :d].T
    for i in range(X.shape[0]):
        if p[i] == 0:
            continue
        u = [U[i, k] + (blocks[k, d] if has_intercept else 0) for k in range(n_outputs)]
        if name == "multinomial":
            y, top = int(problem.targets[i]), max(u)
            shifted = [(v - top).exp() for v in u]
            total = sum(shifted)
            value += p[i] * (total.ln() + top - u[y])
            slopes = [shifted[k] / total - (k == y) for k in range(n_outputs)]
        else:
            loss, slope = _loss(name, problem.loss, u[0], Decimal(float(problem.targets[i])))
            value, slopes = value + p[i] * loss, [slope]
        for k in range(n_outputs):
            gradient[k, :d] += p[i] * slopes[k] * X[i]
            if has_intercept:
                gradient[k, d] += p[i] * slopes[k]
        if second:
            row = np.append(X[i], [Decimal(1)] * has_intercept)
            hessian += p[i] * u[0].exp() * np.outer(row, row)
    l1, l2 = Decimal(float(problem.penalty.lasso())), Decimal(float(problem.penalty.ridge()))
    value += sum(l1 * abs(v) + l2 / 2 * v * v for v in blocks[:, :d].ravel())
    gradient[:, :d] += l2 * blocks[:, :d]
    hessian[np.arange(d), np.arange(d)] += l2
    return value, gradient, hessian


def judged(wild: Wild, x: Any) -> tuple[Decimal, Decimal]:
    """Return the objective at x and the optimality, both in 50 digits."""
    problem, w = wild.problem, x if np.asarray(x).dtype == object else exact(x)
    value, gradient, _ = derivatives(wild, w)
    d = wild.X.shape[1]
    at, slope = w.reshape(gradient.shape)[:, :d], gradient[:, :d]
    moved = _prox(problem.constraint, (at - slope).ravel(), Decimal(float(problem.penalty.lasso()))).reshape(at.shape)
    square = sum(v * v for v in (at - moved).ravel()) + sum(v * v for v in gradient[:, d:].ravel())
    return value, square.sqrt()


def overflows(wild: Wild) -> bool:
    """Return whether F is above 1.8e308 on the whole set, by a proof: a prediction is at least a mean of all of them.

    The weights of the mean are those of the linear program that minimises the largest prediction; they need not be exact.
    """
    problem, d = wild.problem, wild.X.shape[1]
    constraint, kind = problem.constraint, type(problem.constraint).__name__
    if (
        not wild.words.startswith("poisson")
        or problem.has_intercept
        or kind not in ("Box", "LInfBall", "Simplex", "HalfSpace")
    ):
        return False
    used = problem.weights > 0.0
    rows, right = [np.column_stack([wild.X[used], -np.ones(used.sum())])], [np.zeros(used.sum())]
    bounds, equal = np.full((d + 1, 2), [-np.inf, np.inf]), {}
    if kind == "HalfSpace":
        rows, right = [*rows, [[*constraint.normal, 0.0]]], [*right, [constraint.offset]]
    elif kind == "Simplex":
        bounds[:d, 0], equal = 0.0, {"A_eq": [[1.0] * d + [0.0]], "b_eq": [constraint.total]}
    else:
        bounds[:d] = np.column_stack([np.broadcast_to(b, d) for b in constraint.bounds()])
    cost = np.append(np.zeros(d), 1.0)
    found = linprog(cost, np.vstack(rows), np.concatenate(right), bounds=bounds, **equal)
    if found.status != 0 or found.fun < 700.0:
        return False
    means = np.maximum(-found.ineqlin.marginals[: used.sum()], 0.0)
    v = exact(wild.X[used]).T @ (exact(means) / sum(exact(means)))
    if kind == "Simplex":
        least = Decimal(float(constraint.total)) * min(v)
    elif kind == "HalfSpace":  # of one column: of more the mean need not be a multiple of the normal to the last digit
        least = v[0] * Decimal(float(constraint.offset)) / Decimal(float(constraint.normal[0])) if d == 1 else Decimal(0)
        least = least if v[0] * Decimal(float(constraint.normal[0])) < 0 else Decimal(0)
    else:
        lower, upper = (exact(np.broadcast_to(b, d)) for b in constraint.bounds())
        least = sum(min(a * c, b * c) for a, b, c in zip(lower, upper, v, strict=True))
    return least + Decimal(float(problem.weights[used].min())).ln() > 711


def solved(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the solution of a positive definite system, by elimination."""
    matrix, right = matrix.copy(), right.copy()
    for k in range(right.size):
        factors = matrix[k + 1 :, k] / matrix[k, k]
        matrix[k + 1 :, k:] -= np.outer(factors, matrix[k, k:])
        right[k + 1 :] -= factors * right[k]
    for k in reversed(range(right.size)):
        right[k] = (right[k] - matrix[k, k + 1 :] @ right[k + 1 :]) / matrix[k, k]
    return right


def is_lost_by_rounding(wild: Wild, x: np.ndarray) -> bool:
    """Return whether the minimiser, found in 50 digits on the face of x by Newton's method, is above tol when rounded.

    For Poisson's loss on sets of bounds, without a set, and within a ball; for other losses of one output on all sets, if
    `newton` finds no better float64 numbers either. Where Newton's method does not end, it is no.
    """
    if not wild.words.startswith("poisson"):
        nearest = rounded_solution(wild, x)
        if nearest is None or nearest <= Decimal(wild.tol):
            return False
        return not minimize(wild.problem, method="newton", tol=wild.tol, max_iter=MOST_PASSES, random_state=0).success
    kind, w, d = type(wild.problem.constraint).__name__, exact(x), wild.X.shape[1]
    if kind in ("L1Ball", "L2Ball") and np.linalg.norm(x[:d], int(kind[1])) < (1.0 - 1e-9) * wild.problem.constraint.radius:
        kind = "Unconstrained"
    if kind not in ("Unconstrained", "Box", "LInfBall", "NonNegative"):
        return False
    free, lasso = np.full(w.size, True), Decimal(float(wild.problem.penalty.lasso()))
    if kind != "Unconstrained":
        lower, upper = wild.problem.constraint.bounds()
        free[:d] = (lower < x[:d]) & (x[:d] < upper)
    elif lasso > 0:
        free[:d] = x[:d] != 0.0
    for _ in range(80):
        _, gradient, hessian = derivatives(wild, w, second=True)
        slope = gradient.ravel()
        slope[:d] += [lasso.copy_sign(v) if v else 0 for v in w[:d]]
        w[free] -= solved(hessian[np.ix_(free, free)], slope[free])
    tol = Decimal(wild.tol)
    return judged(wild, w)[1] < tol / 1000 and judged(wild, np.array(w, dtype=np.float64))[1] > tol


def rounded_solution(wild: Wild, x: np.ndarray) -> Decimal | None:
    """Return the optimality of the exact solution rounded to float64 numbers; None where it was not found from x.

    It is found by Newton's method for the face of the penalty or set on which the prox-gradient step from a point ends.
    """
    name, constraint = wild.words.split(",")[0], wild.problem.constraint
    if name in ("hinge", "multinomial", "poisson"):
        return None
    w, d = exact(x), wild.X.shape[1]
    with localcontext() as context:
        context.prec = 90
        for _ in range(MOST_NEWTON_STEPS):
            gradient, hessian = _derivatives(wild, name, w)
            z, at = w[:d] - gradient[:d], w[:d]
            l1 = Decimal(float(wild.problem.penalty.lasso()))
            moved = _prox(constraint, z, l1)
            square = sum((v * v for v in at - moved), Decimal(0)) + sum((v * v for v in gradient[d:]), Decimal(0))
            if square.sqrt() < Decimal("1e-25"):
                return judged(wild, np.array([float(v) for v in w]))[1]
            w = w + _newton_step(type(constraint).__name__, w, gradient, hessian, z, moved, l1)
    return None


def _derivatives(wild: Wild, name: str, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return gradient and Hessian of the smooth part, and a little more on the Hessian's diagonal where it is singular."""
    problem, zero = wild.problem, Decimal(0)
    rows = np.flatnonzero(problem.weights)
    Z = exact(np.hstack([wild.X, np.ones((len(wild.X), w.size - wild.X.shape[1]))])[rows])
    slopes, curvatures = [], []
    for u, y in zip(Z @ w, exact(problem.targets[rows]), strict=True):
        slope = _loss(name, problem.loss, u, y)[1]
        near = _loss(name, problem.loss, u + Decimal("1e-60"), y)[1] if name != "logistic" else zero
        curvature = _sigmoid(u) * _sigmoid(-u) if name == "logistic" else (near - slope) * Decimal("1e60")
        slopes.append(slope)
        curvatures.append(curvature)
    ridge = np.array([Decimal(float(q)) for q in problem.term.quadratic])
    weighted = exact(problem.weights[rows])
    gradient = Z.T @ (weighted * np.array(slopes)) + ridge * w
    hessian = (Z.T * (weighted * np.array(curvatures))) @ Z + np.diag(ridge)
    for j in range(w.size):
        hessian[j, j] += Decimal("1e-36") * (hessian[j, j] or 1)
    return gradient, hessian


def _newton_step(
    kind: str, w: np.ndarray, gradient: np.ndarray, hessian: np.ndarray, z: np.ndarray, moved: np.ndarray, l1: Decimal
) -> np.ndarray:
    """Return the step to the minimiser of the model on the face where z = w - g is projected to."""
    d, step, right = z.size, np.full(w.size, Decimal(0), dtype=object), -gradient
    free, normal, lacking = np.full(w.size, True), np.full(w.size, Decimal(0), dtype=object), Decimal(0)
    is_moved = any(a != b for a, b in zip(z, moved, strict=True))
    if kind in ("Box", "LInfBall", "NonNegative"):
        free[:d] = z == moved
    elif l1 or kind in ("Simplex", "L1Ball"):
        free[:d] = [m != 0 for m in moved] if is_moved else True
    if l1:
        right[:d] -= np.array([l1.copy_sign(m) for m in moved], dtype=object)
    step[:d][~free[:d]] = (moved - w[:d])[~free[:d]]
    if is_moved and kind in ("Simplex", "L1Ball", "HalfSpace", "L2Ball"):
        signs = np.array([Decimal(1).copy_sign(m) for m in moved], dtype=object)
        normal[:d] = {"HalfSpace": z - moved, "L2Ball": moved}.get(kind, signs)
        normal[~free] = Decimal(0)
        lacking = (normal[:d] * (moved - w[:d]))[free[:d]].sum()
        if kind == "L2Ball":
            multiplier = (z @ z).sqrt() / (moved @ moved).sqrt() - 1
            hessian, right = hessian + np.diag([multiplier] * d + [Decimal(0)] * (w.size - d)), right.copy()
            right[:d] -= multiplier * w[:d]
    some = np.flatnonzero(free)
    right = (right - hessian @ step)[some]
    system = np.full((some.size + 1, some.size + 2), Decimal(0), dtype=object)
    system[:-1, :-2], system[:-1, -2], system[-1, :-2] = hessian[np.ix_(some, some)], normal[some], normal[some]
    system[:-1, -1], system[-1, -1] = right, lacking
    if not any(normal):
        system[-1, -2] = Decimal(1)
    step[some] = _solved(system)[:-1]
    return step


def _solved(system: np.ndarray) -> np.ndarray:
    """Return the solution of a square system and its right side, by elimination with pivots."""
    n = len(system)
    for k in range(n):
        pivot = max(range(k, n), key=lambda i: abs(system[i, k]))
        system[[k, pivot]] = system[[pivot, k]]
        for i in range(k + 1, n):
            if system[i, k] != 0:
                system[i, k:] = system[i, k:] - system[i, k] / system[k, k] * system[k, k:]
    solution = np.full(n, Decimal(0), dtype=object)
    for k in range(n - 1, -1, -1):
        solution[k] = (system[k, n] - system[k, k + 1 : n] @ solution[k + 1 :]) / system[k, k]
    return solution


def _prox(constraint: Any, z: np.ndarray, l1: Decimal) -> np.ndarray:
    kind = type(constraint).__name__
    if kind == "Unconstrained":
        return np.array([max(abs(v) - l1, Decimal(0)).copy_sign(v) for v in z], dtype=object)
    if kind in ("Box", "LInfBall", "NonNegative"):
        lower, upper = (np.broadcast_to(b, z.shape) for b in constraint.bounds())
        return np.array(
            [min(max(v, Decimal(float(a))), Decimal(float(b))) for v, a, b in zip(z, lower, upper, strict=True)],
            dtype=object,
        )
    if kind == "HalfSpace":
        normal, bound = exact(constraint.normal), Decimal(float(constraint.offset))
        excess = normal @ z - bound
        return z - normal * (max(excess, Decimal(0)) / (normal @ normal))
    if kind == "L2Ball":
        norm, radius = sum(v * v for v in z).sqrt(), Decimal(float(constraint.radius))
        return z if norm <= radius else z * (radius / norm)
    total = Decimal(float(constraint.total if kind == "Simplex" else constraint.radius))
    sizes = z if kind == "Simplex" else np.array([abs(v) for v in z], dtype=object)
    if kind == "L1Ball" and sum(sizes) <= total:
        return z
    ordered, so_far, threshold = sorted(sizes, reverse=True), Decimal(0), Decimal(0)
    for k, v in enumerate(ordered, 1):
        so_far += v
        if v > (so_far - total) / k:
            threshold = (so_far - total) / k
    kept = [max(v - threshold, Decimal(0)) for v in sizes]
    return np.array([k if kind == "Simplex" else k.copy_sign(v) for k, v in zip(kept, z, strict=True)], dtype=object)


# -- the campaign


class Verdict(NamedTuple):
    """How one problem ended."""

    kind: str
    seconds: float
    text: str


def verdict(wild: Wild, method: str) -> Verdict:
    """Return how a problem ends."""
    for _ in range(2):
        started = time.perf_counter()
        try:
            result = minimize(wild.problem, method=method, tol=wild.tol, max_iter=MOST_PASSES, random_state=0)
        except (ValueError, TypeError) as error:
            return Verdict("refused", 0.0, str(error))
        except Exception:
            return Verdict("error", 0.0, traceback.format_exc(limit=-3))
        if (seconds := time.perf_counter() - started) < 0.5 * MOST_SECONDS:
            break
    value, optimality = judged(wild, result.x)
    if wild.words.split(",")[0] == "hinge":
        others = [m for m in ("psg", "interior-point", "linear-program") if is_suited(as_method(m), wild.problem)]
        found = [minimize(wild.problem, method=m, tol=wild.tol, max_iter=100, random_state=0).x for m in others]
        optimality = value - min(value, *(judged(wild, x)[0] for x in found))
    start, _ = judged(wild, wild.problem.term.project(np.zeros(wild.problem.dim)))
    text = f"{result.method.name}: claims {result.optimality:.2e}, is {optimality:.2e}, "
    text += f"F {value:.6g} from {start:.6g}; {result.message}"
    if value > start * (1 + Decimal("1e-12")):
        return Verdict("rose", seconds, text)
    if result.success:
        return Verdict("false claim" if optimality > Decimal(wild.tol) else "at tol", seconds, text)
    with suppress(ArithmeticError):
        if overflows(wild) or (optimality > Decimal(wild.tol) and is_lost_by_rounding(wild, result.x)):
            return Verdict("beyond float64", seconds, text)
    return Verdict("short of tol", seconds, text)


def _cause(text: str) -> str:
    """Return what a message says without its numbers."""
    message = text.partition("; ")[2].partition(": ")
    return re.sub(r"\d[\d.e+-]*", "#", f"{message[0]}: {message[2].partition('passes')[2].lstrip('.; ') or message[2]}")


def page(found: list[dict[str, Any]], command: str, n_asked: int) -> str:
    """Return the page of results."""
    kinds = Counter(f["kind"] for f in found)
    judged_ones = [f for f in found if f["kind"] != "refused"]
    slow = [f for f in found if f["seconds"] > MOST_SECONDS]
    causes = Counter(_cause(f["text"]) for f in found if f["kind"] in ("short of tol", "rose"))
    share = kinds["at tol"] / max(len(judged_ones) - kinds["beyond float64"], 1)
    sizes = [f["n"] * f["d"] for f in found]
    lines = [
        "# Wild problems",
        "",
        f"`{command}`: {len(found)} of {n_asked} problems were run, the smallest first (up to {max(sizes)} entries of X). "
        "What is drawn, and how a claim is judged, says the head of the script.",
        "",
        "| | problems |",
        "|---|---|",
        *(f"| {k} | {kinds[k]} |" for k in KINDS),
        f"| over {MOST_SECONDS:g} s | {len(slow)} |",
        "",
        f"At tol: {100 * share:.2f} % of those that float64 numbers solve and that were not refused in words.",
        "",
        "What the others say, without their numbers:",
        "",
        "| problems | message |",
        "|---|---|",
        *(f"| {count} | {cause} |" for cause, count in causes.most_common()),
        "",
        "All that are not at tol, or slow, by seed:",
        "",
    ]
    rest = [f for f in found if f["kind"] not in ("at tol", "refused") or f["seconds"] > MOST_SECONDS]
    for f in rest:
        figures = f["text"].partition("; ")[0]
        lines.append(f"- {f['seed']} ({f['words']}; tol {f['tol']:g}): {f['kind']}, {f['seconds']:.1f} s, {figures}")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=3000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--rows", type=int, default=600)
    parser.add_argument("--columns", type=int, default=90)
    parser.add_argument("--loss", help="only this one")
    parser.add_argument("--method", default="auto")
    parser.add_argument("--log", type=Path, default=Path("wild.jsonl"))
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    drawn = ((seed, draw(seed, args.rows, args.columns)) for seed in range(args.first, args.first + args.n))
    order = sorted((wild.X.size, seed) for seed, wild in drawn if wild.words.startswith(args.loss or ""))
    found = [json.loads(line) for line in args.log.read_text().splitlines()] if args.log.exists() else []
    done = {f["seed"] for f in found}
    try:
        for _, seed in order:
            if seed in done:
                continue
            wild = draw(seed, args.rows, args.columns)
            n, d = wild.X.shape
            end = verdict(wild, args.method)
            found.append({"seed": seed, "words": wild.words, "tol": wild.tol, "n": n, "d": d, **end._asdict()})
            with args.log.open("a") as log:
                print(json.dumps(found[-1]), file=log)
            if end.kind != "at tol" or end.seconds > MOST_SECONDS:
                print(*found[-1].values(), flush=True)
    finally:
        if args.out:
            command = f"python benchmarks/wild.py --n {args.n} --method {args.method}"
            (args.out / "wild.md").write_text(page(found, command, len(order)))


if __name__ == "__main__":
    main()
