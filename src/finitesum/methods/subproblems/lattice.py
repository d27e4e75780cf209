"""Which floating-point numbers next to a point solve A v = b best: integer combinations of a matrix's columns.

Steps from one float64 vector to another are B k: B has A's columns, each by the spacing of the numbers there, and k is
integer. To minimise ||B k - b|| is to find the nearest point of a lattice. Rounding each coordinate of the solution by
itself may miss it by ||B||; the nearest plane [1] takes one coordinate after the other and lets the rest make up for what
was rounded, so that little is left where columns differ in size or are nearly collinear. A reduced basis [2] helps more.

References
----------
.. [1] L. Babai, "On Lovasz' lattice reduction and the nearest lattice point problem", Combinatorica 6 (1986).
.. [2] A. K. Lenstra, H. W. Lenstra, L. Lovasz, "Factoring polynomials with rational coefficients", Math. Ann. 261 (1982).
"""

import math

import numpy as np

from finitesum.core.arrays import Matrix, Vector

#: What is left of a column, relative to it, that is its rounding errors: in that direction nothing is gained by it.
NEGLIGIBLE = 1e-13

#: By how much a basis vector may be shorter than the one before, and exchanges for each vector, at most.
SHRINKAGE, MOST_EXCHANGES = 0.75, 60


def nearest_combination(basis: Matrix, right: Vector) -> Vector:
    """Return integers k with a small ||basis k - right||, for a finite matrix of at least as many rows as columns.

    Examples
    --------
    >>> nearest_combination(np.array([[1.0, 1000.0], [0.0, 0.1]]), np.array([1.6, 0.3]))
    array([-2998.,     3.])
    """
    order = np.argsort(np.linalg.norm(basis, axis=0), kind="stable")
    best, least = np.zeros(order.size), float(np.linalg.norm(right))
    q, triangle = np.linalg.qr(basis[:, order])
    for transform in (np.eye(order.size), _reduced(triangle)):
        combination = np.zeros(order.size)
        combination[order] = transform @ _nearest_plane(triangle @ transform, q.T @ right)
        left = float(np.linalg.norm(basis @ combination - right))
        if left < least:
            best, least = combination, left
    return best


def _nearest_plane(basis: Matrix, right: Vector) -> Vector:
    q, triangle = np.linalg.qr(basis)
    target, k = q.T @ right, np.zeros(right.size)
    least = NEGLIGIBLE * np.linalg.norm(triangle, axis=0)
    for j in range(k.size - 1, -1, -1):
        if abs(triangle[j, j]) > least[j]:
            k[j] = np.rint((target[j] - triangle[j, j + 1 :] @ k[j + 1 :]) / triangle[j, j])
    return k


def _reduced(triangle: Matrix) -> Matrix:
    """Return the integers that a reduced basis is made by of a triangle's columns, after Lenstra, Lenstra and Lovasz."""
    n = triangle.shape[0]
    triangle, transform = triangle.copy(), np.eye(n)
    k, least = 1, NEGLIGIBLE * np.linalg.norm(triangle, axis=0)
    for _ in range(MOST_EXCHANGES * n):
        if k >= n:
            break
        for j in range(k - 1, -1, -1):
            if abs(triangle[j, j]) > least[j] and (times := np.rint(triangle[j, k] / triangle[j, j])) != 0.0:
                triangle[: j + 1, k] -= times * triangle[: j + 1, j]
                transform[:, k] -= times * transform[:, j]
        corner = triangle[k - 1 : k + 1, k - 1 : k + 1]
        if SHRINKAGE * corner[0, 0] ** 2 <= corner[0, 1] ** 2 + corner[1, 1] ** 2:
            k += 1
            continue
        least[[k - 1, k]] = least[[k, k - 1]]
        triangle[:, [k - 1, k]], transform[:, [k - 1, k]] = triangle[:, [k, k - 1]], transform[:, [k, k - 1]]
        first, second = triangle[k - 1, k - 1], triangle[k, k - 1]
        size = math.hypot(first, second)
        rotation = np.array([[first, second], [-second, first]]) / size
        triangle[k - 1 : k + 1, k - 1 :] = rotation @ triangle[k - 1 : k + 1, k - 1 :]
        triangle[k, k - 1] = 0.0
        k = max(k - 1, 1)
    return transform
