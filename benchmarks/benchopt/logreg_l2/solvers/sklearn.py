"""scikit-learn's solvers, at one number of iterations after the other."""

from benchopt import BaseSolver
from sklearn.linear_model import LogisticRegression


class Solver(BaseSolver):
    name = "scikit-learn"
    sampling_strategy = "iteration"
    parameters = {"solver": ["lbfgs", "newton-cholesky"]}  # noqa: RUF012 - as benchopt has it

    def set_objective(self, X, y, lmbd):
        self.X, self.y = X, y
        self.model = LogisticRegression(C=1.0 / lmbd, solver=self.solver, tol=1e-14, fit_intercept=False)

    def run(self, n_iter):
        self.model.set_params(max_iter=n_iter + 1).fit(self.X, self.y)

    def get_result(self):
        return {"beta": self.model.coef_.ravel()}
