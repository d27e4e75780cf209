"""What the interior-point method keeps of some rows and sides, and what they tell each other in a step."""

from typing import Any, NamedTuple

from finitesum.core.arrays import Flags, Matrix, Vector
from finitesum.methods.newton.hinge_rows import Hinges
from finitesum.problems.linear import Problem


class Numbers(NamedTuple):
    """Positive numbers of m hinges and sides; shape (m,) each, those of the rows' hinges in front."""

    slacks: Any  # xi; 0 where a side must hold
    gaps: Any  # r = m - 1 + xi
    multipliers: Any  # a
    complements: Any  # 1 - a, which keeps its own digits; 1 where a side must hold


class Direction(NamedTuple):
    """By what a whole step changes them, shape (m,) each."""

    slacks: Vector
    gaps: Vector
    multipliers: Vector


class Equations(NamedTuple):
    """Sums over rows and sides that a step begins with."""

    n_wrong: int  # numbers that have left the range of floats or lost their sign
    pull: Vector  # sum_i c_i (a_i + rho_i) y_i x_i
    matrix: Matrix  # (dim, dim)  sum_i c_i theta_i x_i x_i' of the rows; (1, 1), a 0, of sides alone and where one is wrong


class Ahead(NamedTuple):
    """What a first solution promises."""

    length: float  # up to which it may be gone
    terms: Vector  # (3,)  the sum of products is what it is, and these by t, t^2 and t^3
    pulls: Matrix  # (2, dim)  for the second solution, with two targets of the products


class Targets(NamedTuple):
    """What a second solution aims at, shape (m,) each."""

    products: Vector  # of a r, less what comes of products of changes
    slacks: Any  # the same of (1 - a) xi; 0 where a side must hold
    gained: Vector  # by what multipliers grow for these


class Report(NamedTuple):
    """Sums over rows and sides at the end of a step."""

    losses: float  # that slacks and gaps mean
    products: float  # sum of c_i (a_i r_i + (1 - a_i) xi_i)
    at_points: Vector  # the losses at some points
    constants: Vector  # (2,)  of the hinges with y_i = 1, and of those with y_i = -1: what they are for the multipliers
    slopes: Matrix  # (2, dim)


class Step(NamedTuple):
    """What makes the numbers after a step of those before."""

    first: Vector  # dz of the first solution
    aim: float  # of the products
    second: Vector  # dz
    length: float


class Fixed(NamedTuple):
    """What stays, shape (m,) each; None: all of them."""

    costs: Vector  # c_i
    used: Flags | None  # c_i > 0
    is_soft: Flags | None  # which may be violated


class Place(NamedTuple):
    """Some rows and sides."""

    problem: Problem | None  # the rows; None: sides alone
    hinges: Hinges | None
    sides: Any  # sparse (k, size), tangents in the place of an l2 ball; None: none
    fixed: Fixed
    n_columns: int
    size: int  # of (w, b) or (w, b, v)
    radius: float  # of the l2 ball that is the last side, or 0
