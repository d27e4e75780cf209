"""Finite sums with several outputs in plain NumPy, a row at a time: what the oracles of methods work on."""

import numpy as np
from oracles.sums import Sum


def multinomial(u, y):
    """Loss, gradient and Hessian in the K scores u of a row, for the class y."""
    u = u - u.max()
    p = np.exp(u) / np.exp(u).sum()
    return np.log(np.exp(u).sum()) - u[y], p - np.eye(u.size)[y], np.diag(p) - np.outer(p, p)


def squared(u, y):
    return 0.5 * ((u - y) ** 2).sum(), u - y, np.eye(u.size)


class SumOfOutputs(Sum):
    """F(w) = sum_i p_i loss(y_i, W x_i + o_i) + l1 |w| + l2/2 |w|^2, for the table W of shape (K, d) row by row in w."""

    def __init__(self, X, y, loss, n_outputs, *, offsets=None, **settings):
        super().__init__(X, np.zeros(len(X)), **settings)
        self.y, self.row_loss, self.K = y, {"multinomial": multinomial, "squared": squared}[loss], n_outputs
        self.offsets = np.zeros((self.n, n_outputs)) if offsets is None else offsets
        self.l1, self.l2 = np.tile(self.l1, n_outputs), np.tile(self.l2, n_outputs)
        self.dim *= n_outputs

    def rows(self, w, block):
        """Weight, row and derivatives in the scores, one row after the other."""
        for i in block:
            if self.p[i] > 0:
                yield (self.p[i], self.Z[i], self.row_loss(w.reshape(self.K, -1) @ self.Z[i] + self.offsets[i], self.y[i]))

    def objective(self, w):
        loss = sum(p * value for p, _, (value, _, _) in self.rows(w, range(self.n)))
        return loss + self.l1 @ np.abs(w) + 0.5 * self.l2 @ w**2

    def loss_gradient(self, j, w):
        rows = self.rows(w, self.blocks[j])
        return self.m * sum((p * np.kron(slope, z) for p, z, (_, slope, _) in rows), start=np.zeros(self.dim))

    def loss_hessian(self, j, w):
        rows = self.rows(w, self.blocks[j])
        total = sum((p * np.kron(C, np.outer(z, z)) for p, z, (_, _, C) in rows), start=np.zeros((self.dim, self.dim)))
        return self.m * total
