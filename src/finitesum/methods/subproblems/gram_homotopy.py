"""Minimisers of one quadratic model with elastic-net penalties of several strengths, by following the path between them.

The minimiser of w'G w / 2 - r'w + a sum_j (q_j w_j^2 / 2 + t_j |w_j|) is, with l1 penalties alone, a piecewise linear
function of the strength a (Osborne, Presnell and Turlach 2000; Efron, Hastie, Johnstone and Tibshirani 2004). With l2
penalties it is not, but between two strengths a path that has the same ends is: with the second one's diagonal from the
start, and an excess of r that makes the first one's minimiser that of its beginning, and vanishes linearly,

    (G + a1 Q) w - r - (1 - theta) e + (a0 + theta (a1 - a0)) T sign(w) = 0,   e = (a1 - a0) Q w0,   theta in [0, 1].

A piece ends where a coordinate becomes 0, or where one that is 0 has a slope that reaches its threshold. The inverse of the
part of the matrix whose coordinates are not 0 is updated there, so that a piece takes as many operations as a pass over
their rows of G. Paths to weak penalties, for which coordinate descent takes thousands of sweeps, have about twice as many
pieces as coordinates that are not 0.
"""

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri

from finitesum.core.arrays import Indices, Matrix, Vector

#: Pieces between two strengths for each coordinate, at most: beyond, rounding errors are likely to turn in a circle.
MOST_PIECES = 4

#: The length of a piece without one, and how many in a row are such a circle.
EMPTY, MOST_EMPTY = 1e-14, 50

#: What may be lacking to a minimum, relative to the largest entry of r.
LACKING = 1e-8

#: The part of a diagonal entry that must be left of it where the other coordinates are eliminated.
SINGULAR = 1e-11


class Lost(Exception):
    """The path cannot be followed: a part of the matrix is singular, or rounding errors turn in a circle."""


class Path:
    """The minimisers of a model for falling strengths, one after the other.

    Parameters
    ----------
    gram : ndarray, shape (d, d)
        G, symmetric, >= 0.
    right : ndarray, shape (d,)
    quadratic, thresholds : ndarray, shape (d,)
        Those of strength 1, >= 0.
    strength : float
        Where the path begins.
    w : ndarray, shape (d,)
        The minimiser there, or a point near it.

    Raises
    ------
    Lost
        The coordinates that are not 0, or have no threshold, are not independent; or later, where the path ends.

    Examples
    --------
    >>> path = Path(np.eye(2), np.array([3.0, 0.5]), np.zeros(2), np.ones(2), 3.0, np.zeros(2))
    >>> path.at(1.0).tolist(), path.at(0.25).tolist()
    ([2.0, 0.0], [2.75, 0.25])
    """

    def __init__(
        self, gram: Matrix, right: Vector, quadratic: Vector, thresholds: Vector, strength: float, w: Vector
    ) -> None:
        self._gram, self._right, self._quadratic, self._thresholds = gram, right, quadratic, thresholds
        self._strength, self._w = strength, w.astype(np.float64)
        self._signs = np.sign(w) * (thresholds > 0.0)
        self._dependent: list[int] = []  # on those that are not 0: they stay at their thresholds while these stay
        chosen = np.flatnonzero((self._signs != 0.0) | (thresholds == 0.0))
        self._n, d = chosen.size, right.size
        capacity = min(d, 2 * self._n + 16)
        self._all_chosen = np.zeros(capacity, dtype=np.int64)
        self._all_rows, self._all_inverse = np.empty((capacity, d)), np.empty((capacity, capacity))
        self._all_chosen[: self._n] = chosen
        self._all_rows[: self._n] = gram[chosen]
        self._renew(strength)
        self._correct()

    def at(self, strength: float) -> Vector:
        """Return the minimiser for a strength that is not above the last one."""
        before, self._strength = self._strength, strength
        excess = (strength - before) * self._quadratic * self._w
        if self._quadratic[self._chosen].any():
            self._renew(strength)
        left = self._right + excess - self._times(self._w) - strength * self._quadratic * self._w
        change, theta, last_left = (strength - before) * self._thresholds, 0.0, (-1, 0.0)
        n_empty = 0
        for _ in range(MOST_PIECES * self._w.size + 100):
            bounds = before * self._thresholds + theta * change
            moves, falls = self._directions(excess, change)
            most = 1.0 - theta
            step, event, side = self._end_of_piece(most, bounds - left, bounds + left, moves, falls, change, last_left)
            self._w[self._chosen] += step * moves
            left += step * falls
            theta += step
            if event < 0:
                self._correct()
                self._require_minimum()
                return self._w.copy()
            n_empty = n_empty + 1 if step <= EMPTY else 0
            if n_empty > MOST_EMPTY:
                break
            last_left = (-1, 0.0)
            if side != 0.0:
                self._add(event, side)
            else:
                last_left = self._remove(event)
        raise Lost

    # -- what belongs to the coordinates that are not 0

    @property
    def _chosen(self) -> Indices:
        return self._all_chosen[: self._n]

    @property
    def _rows(self) -> Matrix:
        return self._all_rows[: self._n]

    @property
    def _inverse(self) -> Matrix:
        return self._all_inverse[: self._n, : self._n]

    def _times(self, w: Vector) -> Vector:
        return np.asarray(w[self._chosen] @ self._rows)

    def _renew(self, strength: float) -> None:
        """Compute the inverse for a strength of the l2 penalty, from a factor whose pivots show what is singular."""
        if self._n == 0:
            return
        part = self._rows[:, self._chosen]
        part[np.diag_indices(self._n)] += strength * self._quadratic[self._chosen]
        factor, failed = dpotrf(part, lower=1)
        if failed or not (np.diagonal(factor) ** 2 > SINGULAR * np.diagonal(part)).all():
            raise Lost
        inverse, _ = dpotri(factor, lower=1)
        lower = np.tril(inverse)
        self._inverse[...] = lower + np.tril(lower, -1).T

    def _correct(self) -> None:
        """Take a step of the equations of the chosen coordinates: pieces add rounding errors up."""
        strength, chosen = self._strength, self._chosen
        reached = self._quadratic * self._w + self._thresholds * self._signs
        self._w[chosen] += self._inverse @ (self._right - self._times(self._w) - strength * reached)[chosen]

    def _require_minimum(self) -> None:
        strength, chosen = self._strength, self._chosen
        left = self._right - self._times(self._w) - strength * self._quadratic * self._w
        lacking = np.maximum(np.abs(left) - strength * self._thresholds, 0.0)
        lacking[chosen] = np.abs(left - strength * self._thresholds * self._signs)[chosen]
        if not lacking.max(initial=0.0) <= LACKING * float(np.abs(self._right).max(initial=0.0)):
            raise Lost

    # -- pieces

    def _directions(self, excess: Vector, change: Vector) -> tuple[Vector, Vector]:
        """Return the changes of the chosen coordinates with theta, and those of what is left of the gradient, of all."""
        pushed = -excess - change * self._signs
        moves = self._inverse @ pushed[self._chosen]
        falls = -excess - moves @ self._rows
        falls[self._chosen] = (change * self._signs)[self._chosen]
        return moves, falls

    def _end_of_piece(
        self,
        step: float,
        above: Vector,
        below: Vector,
        moves: Vector,
        falls: Vector,
        change: Vector,
        last_left: tuple[int, float],
    ) -> tuple[float, int, float]:
        """Return how far the piece goes, and what ends it: the place or the coordinate, and the sign of one that enters."""
        event, side = -1, 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.where(self._signs[self._chosen] * moves < 0.0, -self._w[self._chosen] / moves, np.inf)
            ups = np.where(falls > change, above / (falls - change), np.inf)
            downs = np.where(-falls > change, below / (-falls - change), np.inf)
        ups[self._chosen] = downs[self._chosen] = np.inf
        ups[self._dependent] = downs[self._dependent] = np.inf
        if last_left[0] >= 0:  # it is still at its threshold, and goes away from it
            (ups if last_left[1] > 0.0 else downs)[last_left[0]] = np.inf
        for reaches, sign in ((reach, 0.0), (ups, 1.0), (downs, -1.0)):
            if reaches.size and (least := max(float(reaches[k := int(reaches.argmin())]), 0.0)) < step:
                step, event, side = least, k, sign
        return step, event, side

    def _add(self, j: int, sign: float) -> None:
        """Let a coordinate be one of those that are not 0, unless it depends on them: it may stay 0 then."""
        if self._n == self._all_chosen.size:
            self._enlarge()
        row, n = self._gram[j], self._n
        own = row[self._chosen]
        others = self._inverse @ own
        whole = row[j] + self._strength * self._quadratic[j]
        rest = whole - own @ others
        if not rest > SINGULAR * whole:
            self._dependent.append(j)
            return
        self._inverse[...] += np.multiply.outer(others, others / rest)
        self._all_inverse[n, :n] = self._all_inverse[:n, n] = -others / rest
        self._all_inverse[n, n] = 1.0 / rest
        self._all_chosen[n], self._all_rows[n], self._signs[j] = j, row, sign
        self._n += 1

    def _remove(self, place: int) -> tuple[int, float]:
        """Let a coordinate be 0; return which one it was, and its sign."""
        j, last, inverse = int(self._all_chosen[place]), self._n - 1, self._inverse
        sign = float(self._signs[j])
        inverse[[place, last]] = inverse[[last, place]]
        inverse[:, [place, last]] = inverse[:, [last, place]]
        self._all_chosen[place], self._all_rows[place] = self._all_chosen[last], self._all_rows[last]
        own = inverse[last, :last]
        inverse[:last, :last] -= np.multiply.outer(own, own / inverse[last, last])
        self._w[j] = self._signs[j] = 0.0
        self._n, self._dependent = last, []
        return j, sign

    def _enlarge(self) -> None:
        n, d = self._n, self._w.size
        capacity = min(2 * n, d)
        chosen, rows, inverse = self._all_chosen, self._all_rows, self._inverse
        self._all_chosen, self._all_rows = np.zeros(capacity, dtype=np.int64), np.empty((capacity, d))
        self._all_inverse = np.empty((capacity, capacity))
        self._all_chosen[:n], self._all_rows[:n], self._inverse[...] = chosen, rows, inverse
