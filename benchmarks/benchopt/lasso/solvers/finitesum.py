"""finitesum's methods, with a point after each pass."""

import numpy as np
from benchopt import BaseSolver

from finitesum import Problem, minimize


class Solver(BaseSolver):
    name = "finitesum"
    sampling_strategy = "callback"
    requirements = ["pip::finitesum"]  # noqa: RUF012 - as benchopt has it
    parameters = {"method": ["auto", "saga"]}  # noqa: RUF012

    def skip(self, X, y, lmbd, fit_intercept=False):
        return bool(fit_intercept), "the result has no place for an intercept"

    def set_objective(self, X, y, lmbd, fit_intercept=False):
        n = X.shape[0]  # the losses are averaged here
        self.problem = Problem.linear(X, y, loss="squared", alpha=lmbd / n, l1_ratio=1.0)

    def warm_up(self):
        minimize(self.problem, method=self.method, max_iter=20)

    def run(self, cb):
        self.beta, self.n_passes = np.zeros(self.problem.dim), 0.0
        cb()

        def is_over(report):
            if np.array_equal(report.x, self.beta):  # a pass within a step
                return False
            self.beta, self.n_passes = report.x, report.n_passes
            return not cb()

        result = minimize(self.problem, method=self.method, tol=1e-12, max_iter=1e5, measure_every=0, callback=is_over)
        self.beta, self.n_passes = result.x, result.n_passes

    def get_result(self):
        return {"beta": self.beta, "n_passes": self.n_passes}
