"""Constants of smoothness and the step sizes that theory gives from them.

With p_i = s_i / S and c = sup of the loss's second derivative:

* of F: L = c lambda_max(sum_i p_i x_i x_i') + l2 and mu >= l2 (`full_smoothness`, `strong_convexity`);
  finding L costs some twenty to fifty passes over the data, which are charged to whoever asks for it in a run;
* with several outputs c is a bound on the eigenvalues of the loss's second derivative (1/2 for the multinomial loss), and
  the sums are those of one output;
* of a component f_j = m sum_{i in B_j} p_i loss_i: L_j <= m c sum_{i in B_j} p_i ||x_i||^2 + l2 (`component_smoothness`);
  that reads each row once and multiplies it with nothing, and is not charged.

References
----------
.. [1] H.-T. Wai, W. Shi, C. A. Uribe, A. Nedic, A. Scaglione, "Accelerating incremental gradient optimization with
   curvature information", Comput. Optim. Appl. 76 (2020).
"""

import math

import numpy as np

from finitesum.core.arrays import Vector
from finitesum.evaluation.row_products import gram_product, squared_norms
from finitesum.problems.linear import Problem
from finitesum.problems.scaled import at_rows, gradient_from_rows


def gram_eigenvalue(problem: Problem) -> float:
    """Return an upper estimate of lambda_max(sum_i p_i x_i x_i'): 1 % above its value, by Lanczos.

    That reads the rows twenty to fifty times (less often for d < 20), see `counted_smoothness`.
    """
    return _counted_eigenvalue(problem)[0]


def _counted_eigenvalue(problem: Problem) -> tuple[float, int]:
    """Return the estimate of `gram_eigenvalue`, and how many products with the data it took."""
    problem = problem.one_output
    from scipy.sparse.linalg import LinearOperator, eigsh  # not at the top: most runs never need it

    dim, n_products, ones = problem.dim, 0, np.ones(problem.n_rows)

    def product(v: Vector) -> Vector:
        nonlocal n_products
        n_products += 1
        point = at_rows(problem, np.ascontiguousarray(v, dtype=np.float64).reshape(-1))
        return gradient_from_rows(problem, gram_product(problem, ones, point))

    start = np.ones(dim) + 0.1 * np.cos(np.arange(dim))  # fixed, and orthogonal to nothing of note
    first = np.stack([product(unit) for unit in np.eye(dim)]) if dim <= 2 else product(start)
    if not np.isfinite(first).all():
        raise ValueError("The squares of X's entries overflow. Scale the columns of X, or give step_size.")
    if dim <= 2:
        return float(np.linalg.eigvalsh(first)[-1]), n_products
    if not first.any():
        return 0.0, n_products
    operator = LinearOperator((dim, dim), matvec=product, dtype=np.float64)
    largest = eigsh(operator, k=1, which="LA", tol=1e-3, v0=start, return_eigenvectors=False, ncv=min(dim, 20))
    return 1.01 * float(largest[0]), n_products


def _curvature_bound(problem: Problem) -> float:
    bound = problem.loss.curvature_bound()
    if not math.isfinite(bound):
        other = ', or use a method that adapts it (method="a-ciag")' if problem.term.is_convex else ""
        raise ValueError(
            f"{type(problem.loss).__name__} has no bound on its second derivative, so no constant step size is safe. "
            f"Give step_size{other}."
        )
    return bound


def full_smoothness(problem: Problem) -> float:
    """Return L, the Lipschitz constant of the gradient of F's smooth part; 1 where F is constant (any bound will do)."""
    return counted_smoothness(problem)[0]


def counted_smoothness(problem: Problem) -> tuple[float, int]:
    """Return L as `full_smoothness` does, and the component gradients that finding it has cost as much as.

    A product with x_i x_i' reads a row as a gradient does, once to multiply and once to add. A method that asks for L
    starts its count of gradients with this number.
    """
    bound = _curvature_bound(problem)
    eigenvalue, n_products = _counted_eigenvalue(problem)
    return bound * eigenvalue + problem.term.largest_quadratic or 1.0, n_products * problem.n_components


def component_smoothness(problem: Problem) -> float:
    """Return L_max, a bound on the Lipschitz constants of all components' gradients; 1 where F is constant."""
    rows = problem.one_output
    parts = rows.weights * squared_norms(rows, rows.rows.intercept)
    largest = float(rows.by_component(parts).max())
    return _curvature_bound(problem) * (largest * problem.n_components) + problem.term.largest_quadratic or 1.0


def strong_convexity(problem: Problem) -> float:
    """Return mu, a lower bound on F's curvature: the strength of the quadratic penalty, 0 with a free intercept."""
    return float(problem.term.quadratic.min())


def momentum_limit(mu: float, step_size: float) -> float:
    """Return (1 - sqrt(mu step)) / (1 + sqrt(mu step)), the extrapolation of Nesterov's method [1, eq. 31]."""
    root = math.sqrt(min(mu * step_size, 1.0))
    return (1.0 - root) / (1.0 + root)
