"""Corrections of a step of the interior-point method that keep products alike, so that steps stay long.

A step stops at the first of the positive numbers that would vanish, and where some products c a r or c (1 - a) xi are much
smaller or larger than others, that is soon. So a point further ahead is looked at, and the products there that are not
within a factor of ten of the aim become targets of a further solution with the same factor. It is taken in place of the
one before where it goes longer [1]. A few large products cannot be brought down at once: no target is below -10 aims.

References
----------
.. [1] J. Gondzio, "Multiple centrality corrections in a primal-dual method for linear programming", Comput. Optim. Appl. 6
       (1996).
"""

from collections.abc import Callable

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.methods.newton.interior_numbers import Inner
from finitesum.methods.newton.interior_pieces import Pieces
from finitesum.methods.newton.interior_records import Step
from finitesum.problems.partitioned import is_parted

#: Corrections of a step, at most; the length from which none is tried: in extreme units, where rounding errors cut steps
#: short, corrections of longer ones did harm.
MOST_CORRECTIONS, LONG = 2, 0.5

#: How far ahead products are looked at, by the length of the step and beyond; the part of this that has to be gained.
AHEAD, BEYOND, GAINED = 1.08, 0.3, 0.1

#: Products that are left as they are, by the aim.
LEAST, MOST = 0.1, 10.0


def _corrections(products: Vector, aims: Vector) -> Vector:
    return np.maximum(np.clip(products, LEAST * aims, MOST * aims) - products, -MOST * aims)


def _aiming(here: Inner, step: Step, ahead: float) -> Inner:
    """Return the numbers with targets that bring products ahead of a step nearer to its aim."""
    aims = here.aims(step.aim)
    return here.aiming(step, *(_corrections(products, aims) for products in here.products_at(step, ahead)))


def centred(pieces: Pieces, step: Step, fraction: float, solve: Callable[[Vector], Vector]) -> tuple[Pieces, Step, int]:
    """Return a step that may be longer, the pieces that know its targets, and how many solutions were tried.

    `solve` returns the solution for a pull. Of rows in parts, where a solution is three rounds of sums, none is tried.
    """
    for n_tried in range(MOST_CORRECTIONS):
        if step.length >= LONG or is_parted(pieces.problem):
            return pieces, step, n_tried
        ahead = min(1.0, AHEAD * step.length + BEYOND)
        other = pieces.with_inner(_aiming(pieces.here, step, ahead))
        second = solve(other.here.second_pull(step.first, step.aim))
        length = other.length(step.first, step.aim, second, fraction)
        if length < step.length + GAINED * (ahead - step.length):
            return pieces, step, n_tried + 1
        pieces, step = other, step._replace(second=second, length=length)
    return pieces, step, MOST_CORRECTIONS
