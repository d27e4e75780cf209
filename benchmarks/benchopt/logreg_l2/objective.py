"""l2-penalised logistic regression: sum_i log(1 + exp(-y_i x_i'b)) + lmbd / 2 ||b||^2."""

import numpy as np
from benchopt import BaseObjective


class Objective(BaseObjective):
    name = "L2 Logistic Regression"
    parameters = {"lmbd": [1.0, 0.01]}  # noqa: RUF012 - as benchopt has it

    def set_data(self, X, y):
        self.X, self.y = X, y

    def evaluate_result(self, beta, n_passes=float("nan")):
        losses = np.logaddexp(0.0, -self.y * (self.X @ beta))
        return {"value": losses.sum() + 0.5 * self.lmbd * beta @ beta, "n_passes": n_passes}

    def get_one_result(self):
        return {"beta": np.zeros(self.X.shape[1])}

    def get_objective(self):
        return {"X": self.X, "y": self.y, "lmbd": self.lmbd}
