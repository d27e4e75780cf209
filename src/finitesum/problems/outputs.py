"""Linear models with several outputs, in the form in which kernels see rows of data: a row is a block of rows.

With w = (w_1, b_1, ..., w_K, b_K) row by row in one vector, a component of b consecutive data rows X_b enters a method by

    its scores  X_b W' + offsets, shape (b, K),    the slopes of its rows, (b, K),    their curvatures, (b, K, K),

where a component of one output enters by a number each. The weights of the rows are in slopes and curvatures. A visit is
two matrix products, and kernels run as Python (`finitesum.core.jit.Interpreted`); float32 rows are widened block by block.
The last block is filled up with rows of weight 0, so that all have one shape.
"""

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from finitesum.core.arrays import Matrix, Vector
from finitesum.core.jit import Interpreted
from finitesum.losses.base import OfComponents
from finitesum.losses.classes import ClassLoss, weighted
from finitesum.problems.rows import CSRRows, DenseRows, to_matrix

if TYPE_CHECKING:
    from finitesum.problems.linear import Problem

#: Fraction of stored entries above which a sparse block's Gram matrix is formed from a dense copy.
DENSE_ENOUGH = 0.05


def gram_of(block: Any, weights: Vector, intercept: int) -> Matrix:
    """Return sum_i c_i x_i x_i' over the rows of an ndarray or CSR array, a 1 behind each row where there is an intercept.

    Examples
    --------
    >>> gram_of(np.array([[1.0], [2.0]]), np.array([1.0, 0.5]), 1)
    array([[3. , 2. ],
           [2. , 1.5]])
    """
    n, d = block.shape
    is_dense = isinstance(block, np.ndarray)
    if not is_dense and block.nnz > DENSE_ENOUGH * n * d:
        block, is_dense = block.toarray(), True
    if is_dense and weights.min(initial=0.0) >= 0.0:  # of one matrix and itself only half is computed
        roots, scaled = np.sqrt(weights)[:, None], np.empty((n, d + intercept))
        np.multiply(block, roots, out=scaled[:, :d])
        scaled[:, d:] = roots
        return np.asarray(scaled.T @ scaled)
    out = np.zeros((d + intercept, d + intercept))
    if is_dense:
        scaled = block * weights[:, None]
        out[:d, :d] = block.T @ scaled
    else:
        scaled = block.multiply(weights[:, None]).tocsr()
        out[:d, :d] = (block.T @ scaled).toarray()
    if intercept:
        out[d, :d] = np.asarray(scaled.sum(axis=0)).reshape(-1)
        out[d, d] = weights.sum()
        out[:d, d] = out[d, :d]
    return out


class RowBlocks(Interpreted):
    """Blocks of rows in the place of rows: see `finitesum.problems.rows.DenseRows` for the verbs."""

    def __init__(self, rows: DenseRows | CSRRows, batch_size: int, n_outputs: int) -> None:
        self.n_rows = -(-rows.n_rows // batch_size)
        self.n_columns, self.intercept, self.n_outputs = rows.n_columns, int(rows.intercept), n_outputs
        self._matrix, self._batch_size = to_matrix(rows), batch_size

    def dim(self) -> int:
        return self.n_outputs * (self.n_columns + self.intercept)

    def is_sparse(self) -> bool:
        return False  # a visit works on the whole iterate, whatever a block touches

    def _block(self, i: int) -> Any:
        return self._matrix[i * self._batch_size : (i + 1) * self._batch_size].astype(np.float64, copy=False)

    def dot(self, i: int, w: Vector) -> Matrix:
        """Return the scores of a block without offsets, shape (b, K)."""
        table, block = w[: self.dim()].reshape(self.n_outputs, -1), self._block(i)
        scores = np.zeros((self._batch_size, self.n_outputs))
        with np.errstate(all="ignore"):  # after a divergence
            scores[: block.shape[0]] = block @ table[:, : self.n_columns].T
        if self.intercept:
            scores += table[:, self.n_columns]
        return scores

    def add_to(self, i: int, scale: Matrix, out: Vector) -> None:
        """Add sum_i s_ik x_i to the row k of out, for scales of shape (b, K)."""
        table, block = out[: self.dim()].reshape(self.n_outputs, -1), self._block(i)
        scales = scale[: block.shape[0]]
        with np.errstate(all="ignore"):
            table[:, : self.n_columns] += (block.T @ scales).T
        if self.intercept:
            table[:, self.n_columns] += scales.sum(axis=0)

    def gram_add(self, i: int, scale: Any, out: Matrix) -> None:
        """Add sum_i C_i (x) x_i x_i' to the lower triangle of out, for scales C of shape (b, K, K)."""
        block, size = self._block(i), self.n_columns + self.intercept
        for k in range(self.n_outputs):
            for other in range(k + 1):
                gram = gram_of(block, scale[: block.shape[0], k, other], self.intercept)
                lower = np.tril(gram) if k == other else gram
                out[k * size : (k + 1) * size, other * size : (other + 1) * size] += lower


class BlockLoss(Interpreted, OfComponents):
    """The components as losses of their scores, shape (b, K); bounds are those of a row of weight 1."""

    def __init__(self, loss: ClassLoss, targets: Any, weights: Matrix) -> None:
        self._loss, self._targets, self._weights = loss, targets, weights

    def value(self, prediction: Matrix, target: float) -> float:
        j = int(target)
        with np.errstate(all="ignore"):
            return float(weighted(self._loss.value(prediction, self._targets[j]), self._weights[j]).sum())

    def d1(self, prediction: Matrix, target: float) -> Matrix:
        """Return the slopes of the rows, shape (b, K)."""
        j = int(target)
        with np.errstate(all="ignore"):
            return cast(Matrix, weighted(self._loss.d1(prediction, self._targets[j]), self._weights[j]))

    def d2(self, prediction: Matrix, target: float) -> Any:
        """Return the curvatures of the rows, shape (b, K, K)."""
        j = int(target)
        with np.errstate(all="ignore"):
            return weighted(self._loss.d2(prediction, self._targets[j]), self._weights[j])

    def d2_times(self, prediction: Matrix, target: float, v: Matrix) -> Matrix:
        """Return the curvatures' product with changes of the scores, shape (b, K)."""
        with np.errstate(all="ignore"):
            product = self._loss.curvature_product(self._loss.curvatures(prediction), v)
        return cast(Matrix, weighted(product, self._weights[int(target)]))

    def curvature_bound(self) -> float:
        return self._loss.curvature_bound()

    def d2_lipschitz(self) -> float:
        return self._loss.d2_lipschitz()


def in_blocks(values: Any, batch_size: int) -> Any:
    """Return an array whose first axis is the rows as one of blocks of rows, the last block filled up with zeros."""
    n_blocks = -(-values.shape[0] // batch_size)
    missing = n_blocks * batch_size - values.shape[0]
    if missing:
        values = np.concatenate([values, np.zeros((missing, *values.shape[1:]), dtype=values.dtype)])
    return values.reshape(n_blocks, batch_size, *values.shape[1:])


def block_parts(problem: "Problem") -> tuple[Any, ...]:
    """Return what kernels see of a problem of several outputs: the first fields of a `View`, before those of its term."""
    m, size = problem.n_components, problem.batch_size or 1
    targets, weights = in_blocks(problem.targets, size), in_blocks(m * problem.weights, size)
    rows, loss = RowBlocks(problem.rows, size, problem.n_outputs), BlockLoss(cast(Any, problem.loss), targets, weights)
    offsets = in_blocks(problem.offsets, size) if problem.has_offsets else np.zeros((m, 1, 1))
    return rows, np.arange(m, dtype=np.float64), offsets, np.full(m, 1.0 / m), 1.0 / m, problem.has_offsets, loss
