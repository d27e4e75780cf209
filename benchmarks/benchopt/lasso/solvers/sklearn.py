"""scikit-learn's coordinate descent, at one number of passes after the other."""

from benchopt import BaseSolver
from sklearn.linear_model import Lasso


class Solver(BaseSolver):
    name = "scikit-learn"
    sampling_strategy = "iteration"

    def set_objective(self, X, y, lmbd, fit_intercept=False):
        self.X, self.y = X, y
        self.model = Lasso(lmbd / X.shape[0], tol=1e-14, fit_intercept=fit_intercept)

    def run(self, n_iter):
        self.model.set_params(max_iter=n_iter + 1).fit(self.X, self.y)

    def get_result(self):
        return {"beta": self.model.coef_}
