"""Logistic regression for two and more classes."""

from dataclasses import field
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, log_expit

from finitesum.core.arrays import Data, Vector
from finitesum.estimators.array_api import in_kind
from finitesum.estimators.classification import LabelledData, LinearClassifierMixin, log_probabilities, probabilities
from finitesum.estimators.elsewhere import estimator
from finitesum.estimators.inference import InferenceMixin


@estimator
class LogisticRegressionMixin(LinearClassifierMixin, InferenceMixin):
    """What a logistic model predicts, and the problem that it is the solution of."""

    def _problems(self, data: LabelledData, alpha: float) -> list[Any]:
        """Return the one problem: of two classes, or multinomial."""
        if len(data.classes) == 2:
            return self._one_against_the_rest(data, "logistic", alpha)
        return [self._problem(data.X, data.codes, data.weights, "multinomial", alpha, data.offset)]

    def _unpacked(self, points: list[Vector]) -> tuple[Any, Any]:
        """Of several classes return those that sum to 0: what is added to all of them changes no probability."""
        coef, intercept = super()._unpacked(points)
        if len(coef) > 1 and not self._has_labels:
            intercept = intercept - intercept.mean()
            is_ridge = not getattr(self, "l1_ratio_", self.l1_ratio) and self.groups is None and self.penalty is None
            coef = coef - coef.mean(axis=0) if is_ridge and self._set() is None else coef
        return coef, intercept

    @in_kind
    def predict_proba(self, X: Any, offset: Any = None) -> Data:
        """Return the probabilities of the classes, (n, K), for rows X, (n, d), with offsets as for `decision_function`.

        Of several labels a row, that of each label by itself.
        """
        scores = self.decision_function(X, offset)
        return np.asarray(expit(scores)) if self._has_labels else probabilities(scores)

    @in_kind
    def predict_log_proba(self, X: Any, offset: Any = None) -> Data:
        """Return the logarithms of the probabilities that `predict_proba` gives, without underflow."""
        scores = self.decision_function(X, offset)
        return np.asarray(log_expit(scores)) if self._has_labels else log_probabilities(scores)


@estimator
class LogisticRegression(LogisticRegressionMixin):
    """Logistic regression, binary or multinomial, to a verified optimum.

    F(w, b) = (1/S) sum_i s_i log(1 + exp(-y_i (x_i'w + b + o_i))) + 1/(C S) (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2)

    over w in the set, with y_i = +-1, S the sum of the weights s_i and o_i known offsets: what scikit-learn minimises,
    divided by C S. With K > 2 classes the losses are logsumexp_k(u_ik) - u_{i, y_i} with u_ik = x_i'w_k + b_k + o_ik, the
    penalty is the sum over the classes, and the coefficients w_k of each class lie in the set by themselves. The intercepts
    are never penalised nor constrained. Where adding numbers to all classes changes nothing (intercepts; coefficients
    without a penalty and a set), they sum to 0.

    Parameters
    ----------
    C : float > 0
        Inverse strength of the penalty; infinity for none.
    l1_ratio : float in [0, 1]
        0 is the l2 penalty, 1 the l1 penalty.
    solver : str or Method
        "auto", or a method's name; with several classes one that handles several outputs, such as "newton" or "saga".
    step_size, max_iter, tol, fit_intercept, class_weight, constraint, penalty, penalty_weights, groups, \
bounds, random_state, verbose, warm_start, n_threads, callback, measure_every
        As in `LinearClassifier`. Class weights are counted in S.
    standard_errors : bool
        Whether to set `cov_params_` and `standard_errors_`, and to have `summary`.

    Attributes
    ----------
    classes_, coef_, intercept_, n_iter_, n_passes_, n_hessian_passes_, optimality_, objective_, trace_, solver_
        As in `LinearClassifier`.
    cov_params_ : ndarray, shape (p, p)
        The inverse Hessian of the sum of losses and penalty at the solution, if `standard_errors`. Variables are in the
        order of `coef_` with the intercept behind (class by class with several classes, where the one direction that
        the data do not determine is left out by a pseudo-inverse). NaN for coefficients that an l1 penalty holds at 0.
    standard_errors_ : ndarray, shape (p,)
        The square roots of its diagonal.

    Warns
    -----
    ConvergenceWarning
        A run ended short of `tol`, with the reached and the asked value. Or C is infinite and the classes are separated.

    Examples
    --------
    >>> X = [[0.0], [1.0], [2.0], [3.0]]
    >>> model = LogisticRegression(tol=1e-12).fit(X, ["no", "yes", "no", "yes"], sample_weight=[1.0, 2.0, 3.0, 4.0])
    >>> model.coef_.round(4), model.optimality_ <= 1e-12
    (array([[0.6002]]), True)
    """

    takes_labels: ClassVar[bool] = True

    C: float = field(default=1.0, kw_only=False)
    standard_errors: bool = False
