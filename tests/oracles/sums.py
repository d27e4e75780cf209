"""A finite sum in plain NumPy, from its definition: what every oracle of a method works on."""

import numpy as np

LOSSES = {
    # name: (loss, first derivative, second derivative) in the prediction u and the target y
    "logistic": (
        lambda u, y: np.logaddexp(0.0, -y * u),
        lambda u, y: -y / (1.0 + np.exp(y * u)),
        lambda u, y: np.exp(y * u) / (1.0 + np.exp(y * u)) ** 2,
    ),
    "squared": (lambda u, y: 0.5 * (u - y) ** 2, lambda u, y: u - y, lambda u, y: np.ones_like(u)),
    "squared-hinge": (
        lambda u, y: np.maximum(0.0, 1.0 - y * u) ** 2,
        lambda u, y: -2.0 * y * np.maximum(0.0, 1.0 - y * u),
        lambda u, y: 2.0 * (y * u < 1.0),
    ),
    "hinge": (lambda u, y: np.maximum(0.0, 1.0 - y * u), lambda u, y: -y * (y * u < 1.0), lambda u, y: np.zeros_like(u)),
    "huber": (
        lambda u, y: np.where(np.abs(u - y) <= 1.35, 0.5 * (u - y) ** 2, 1.35 * (np.abs(u - y) - 0.675)),
        lambda u, y: np.clip(u - y, -1.35, 1.35),
        lambda u, y: 1.0 * (np.abs(u - y) <= 1.35),
    ),
    "squared-epsilon-insensitive": (
        lambda u, y: np.maximum(0.0, np.abs(u - y) - 0.1) ** 2,
        lambda u, y: 2.0 * np.sign(u - y) * np.maximum(0.0, np.abs(u - y) - 0.1),
        lambda u, y: 2.0 * (np.abs(u - y) > 0.1),
    ),
    "smoothed-hinge": (
        lambda u, y: np.where(
            y * u >= 1.0, 0.0, np.where(y * u <= 0.0, 0.5 - y * u, 0.5 * np.maximum(0.0, 1.0 - y * u) ** 2)
        ),
        lambda u, y: -y * np.clip(1.0 - y * u, 0.0, 1.0),
        lambda u, y: 1.0 * ((y * u > 0.0) & (y * u < 1.0)),
    ),
    "poisson": (lambda u, y: np.exp(u) - y * u, lambda u, y: np.exp(u) - y, lambda u, y: np.exp(u)),
}


class Sum:
    """F(x) = sum_i p_i loss(y_i, x_i'x + o_i) + l1 |x| + l2/2 |x|^2 over the penalised coordinates; p sums to 1."""

    def __init__(
        self,
        X,
        y,
        loss="logistic",
        *,
        l1=0.0,
        l2=0.0,
        intercept=False,
        weights=None,
        offsets=None,
        batch_size=1,
        project=None,
    ):
        X = np.asarray(X, dtype=np.float64)
        self.n, columns = X.shape
        self.Z = np.hstack([X, np.ones((self.n, 1))]) if intercept else X
        self.y = np.asarray(y, dtype=np.float64)
        self.name, (self.loss, self.d1, self.d2) = loss, LOSSES[loss]
        self.penalised = np.arange(self.Z.shape[1]) < columns
        self.l1, self.l2 = l1 * self.penalised, l2 * self.penalised
        weights = np.ones(self.n) if weights is None else np.asarray(weights, dtype=np.float64)
        self.p = weights / weights.sum()
        self.offsets = np.zeros(self.n) if offsets is None else np.asarray(offsets, dtype=np.float64)
        self.blocks = [np.arange(i, min(i + batch_size, self.n)) for i in range(0, self.n, batch_size)]
        self.m, self.dim = len(self.blocks), self.Z.shape[1]
        self.project = project

    def predictions(self, x, block=slice(None)):
        return self.Z[block] @ x + self.offsets[block]

    def objective(self, x):
        loss = self.p @ self.loss(self.predictions(x), self.y)
        return loss + self.l1 @ np.abs(x) + 0.5 * self.l2 @ x**2

    def loss_gradient(self, j, x):
        """The gradient of component j, m sum_{i in B_j} p_i loss_i, without the penalty."""
        block = self.blocks[j]
        return self.m * self.Z[block].T @ (self.p[block] * self.d1(self.predictions(x, block), self.y[block]))

    def loss_hessian(self, j, x):
        block = self.blocks[j]
        curvature = self.p[block] * self.d2(self.predictions(x, block), self.y[block])
        return self.m * (self.Z[block].T * curvature) @ self.Z[block]

    def largest_component_smoothness(self):
        """m c sum_{i in B_j} p_i |x_i|^2 + l2 of the largest component, with c = 1/4 for the logistic loss."""
        squares = self.p * np.sum(self.Z**2, axis=1)
        return 0.25 * self.m * max(squares[block].sum() for block in self.blocks) + self.l2.max()

    def gradient(self, x):
        """The gradient of the smooth part of F."""
        return sum(self.loss_gradient(j, x) for j in range(self.m)) / self.m + self.l2 * x

    def hessian(self, x):
        return sum(self.loss_hessian(j, x) for j in range(self.m)) / self.m + np.diag(self.l2)

    def prox(self, x, step):
        if self.project is not None:
            return np.concatenate([self.project(x[self.penalised]), x[~self.penalised]])
        return np.sign(x) * np.maximum(np.abs(x) - step * self.l1, 0.0)

    def prox_in(self, x, metric):
        """The projection of x in a metric; x itself without a constraint."""
        if self.project is None:
            return x
        return np.concatenate([self.project(x[self.penalised], metric[self.penalised]), x[~self.penalised]])

    def optimality(self, x):
        return np.linalg.norm(x - self.prox(x - self.gradient(x), 1.0))
