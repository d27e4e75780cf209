"""The Lasso: 1/2 ||y - X b||^2 + lmbd ||b||_1, with lmbd a part of what leaves no coefficient."""

import numpy as np
from benchopt import BaseObjective


class Objective(BaseObjective):
    name = "Lasso Regression"
    parameters = {"reg": [0.1, 0.01]}  # noqa: RUF012 - as benchopt has it

    def set_data(self, X, y):
        self.X, self.y = X, y
        self.lmbd = self.reg * float(np.abs(X.T @ y).max())

    def evaluate_result(self, beta, n_passes=float("nan")):
        residual = self.y - self.X @ beta
        return {"value": 0.5 * residual @ residual + self.lmbd * np.abs(beta).sum(), "n_passes": n_passes}

    def get_one_result(self):
        return {"beta": np.zeros(self.X.shape[1])}

    def get_objective(self):
        return {"X": self.X, "y": self.y, "lmbd": self.lmbd, "fit_intercept": False}
