"""Linear classifiers with any loss, and linear support vector machines."""

from dataclasses import field
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import log_softmax
from sklearn.utils.metaestimators import available_if

from finitesum.core.arrays import Data
from finitesum.estimators.array_api import in_kind
from finitesum.estimators.classification import LabelledData, LinearClassifierMixin
from finitesum.estimators.elsewhere import estimator
from finitesum.estimators.inference import InferenceMixin
from finitesum.losses import LIKELIHOODS, Loss, LossName, as_loss
from finitesum.losses.arrays import log_likelihoods


@estimator
class LinearClassifier(LinearClassifierMixin, InferenceMixin):
    """A linear classifier with any loss, penalty and constraint.

    F(w, b) = (1/S) sum_i s_i loss(y_i, x_i'w + b + o_i) + alpha (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2)

    over w in the set, with y_i = +-1, S the sum of the weights s_i and o_i known offsets. The intercept b is neither
    penalised nor constrained. Of more than two classes each is fitted against the rest; of several labels a row each by
    itself.

    Parameters
    ----------
    loss : {"logistic", "squared-hinge", "hinge", "smoothed-hinge", "probit", "complementary-log-log"} or Loss
    alpha : float >= 0
        Strength of the penalty, against the weighted mean of the losses.
    l1_ratio : float in [0, 1]
        0 is the l2 penalty, 1 the l1 penalty.
    solver : str or Method
        "auto", or a method's name. A solver that cannot treat the problem is refused with a list of those that can.
        Nonsmooth losses: "interior-point" (hinge with an elastic net, or on a set), "linear-program" (hinge with an l1
        penalty, or on a polyhedron), both exact; the projected methods ("adahb", ...) approach the optimum like
        1 / sqrt(passes).
    step_size : float > 0 or "auto"
    max_iter : float >= 1
        Effective passes over the data.
    tol : float >= 0
        The optimality asked for: the 2-norm of the gradient or the prox-gradient mapping; a duality gap for nonsmooth
        losses. Confirmed by an exact pass, the same for every solver. A fit that ends short of it warns.
    fit_intercept : bool
    class_weight : None, "balanced" or dict
        Factors by label that multiply the sample weights; "balanced" is S / (K S_k), S_k the weight of class k.
    constraint : Constraint, optional
        A set of `finitesum.constraints` for the coefficients, of each class by themselves where there are several.
    penalty : {"mcp", "scad"} or Penalty, optional
        In the place of the elastic net, a name with the strength that alpha or C say; or one of
        `finitesum.problems.penalties`, with its own. With one that is not convex the solution is a stationary point.
    penalty_weights : array_like, shape (d,), optional
        Numbers >= 0 that the penalty of each coefficient is multiplied with; 0 leaves one free.
    groups : array_like, shape (d,), optional
        A label for each column: the (sparse) group lasso, with l1_ratio the share of the l1 part. A group of d_g columns
        has the factor sqrt(d_g); in a model of K classes at once it has the K d_g coefficients of its columns for all of
        them, and sqrt(K d_g). One class against the rest, or one target of a regressor, is a model of its own.
    bounds : dict or pair, optional
        By a column's name or number its (lower, upper), None for no bound; or one pair for all, of numbers, vectors of
        shape (d,) or, in a model of K classes at once, tables of shape (K, d).
    random_state : int, generator or None
        Seeds the order of visits.
    verbose : int
        1: progress on stderr; 2: a line a pass.
    warm_start : bool
        Start from the last solution; on the same data, also from all that the solver remembers.
    n_threads : int, optional
        Threads: for classes at once; for a single problem inside the solver, where it has some, and inside BLAS.
    callback : callable, optional
        ``callback(intermediate_result)`` after each pass; a true answer ends the run.
    measure_every : int >= 0
        Passes between exact measures for `trace_`, which cost a pass each, off the clock; 0: only where a check is due.
    standard_errors : bool
        Whether to set `cov_params_` and `standard_errors_`, and to have `summary`: for "logistic", "probit" and
        "complementary-log-log".

    Attributes
    ----------
    classes_ : ndarray, shape (K,)
    coef_ : ndarray, shape (1, d) or (K, d)
    intercept_ : ndarray, shape (1,) or (K,)
    n_iter_ : ndarray of int
        Passes of the loop, for each problem.
    n_passes_, n_hessian_passes_ : float
        Effective passes of component gradients (and exact checks), and of component Hessians, of all problems together.
    optimality_ : float
        The largest optimality reached.
    objective_ : float or ndarray
        F at the solutions.
    trace_ : Trace or list of Trace
        The course of each run; ``trace_.to_frame()`` is a pandas DataFrame.
    solver_ : str
        The method that was used.

    Warns
    -----
    ConvergenceWarning
        A run ended short of `tol`, with the reached and the asked value. Or the loss is logistic, nothing penalises the
        coefficients, and classes are separated.

    Examples
    --------
    >>> from finitesum.constraints import L1Ball
    >>> X = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]]
    >>> model = LinearClassifier(loss="hinge", alpha=0.0, constraint=L1Ball(0.5)).fit(X, ["a", "a", "b", "b"])
    >>> abs(model.coef_).round(6), model.predict([[2.5, 0.0]])
    (array([[0.5, 0. ]]), array(['b'], dtype='<U1'))
    """

    takes_labels: ClassVar[bool] = True

    loss: LossName | Loss = field(default="logistic", kw_only=False)
    alpha: float = 1e-4
    standard_errors: bool = False

    def _alpha(self, data: LabelledData) -> float:
        return self.alpha

    def _label_loss(self) -> Loss:
        loss = as_loss(self.loss)
        if loss.target_kind() != "sign":
            raise ValueError(f"loss must be one for classification, such as logistic or squared-hinge, got {self.loss!r}.")
        return loss

    def _problems(self, data: LabelledData, alpha: float) -> list[Any]:
        return self._one_against_the_rest(data, self._label_loss(), alpha)

    @available_if(lambda estimator: isinstance(as_loss(estimator.loss), LIKELIHOODS))
    @in_kind
    def predict_proba(self, X: Any, offset: Any = None) -> Data:
        """Return the probabilities of the classes for rows X, shape (n, d), as (n, K).

        The losses "logistic", "probit" and "complementary-log-log" have them. Of several classes each was fitted against
        the rest: their probabilities are scaled to sum to 1. Offsets are as in `decision_function`.
        """
        scores = self.decision_function(X, offset)
        found: Data = log_likelihoods(as_loss(self.loss), np.asarray(scores))
        if self._has_labels:  # each by itself
            return np.exp(found[..., 1])
        return np.exp(found if scores.ndim == 1 else log_softmax(found[..., 1], axis=1))


@estimator
class LinearSVC(LinearClassifierMixin):
    """A linear support vector machine.

    F(w, b) = (1/S) sum_i s_i loss(y_i, x_i'w + b + o_i) + 1/(C S) (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2)

    over w in the set, with known offsets o_i, loss(y, u) = max(0, 1 - y u)^2 ("squared-hinge") or max(0, 1 - y u)
    ("hinge"), y_i = +-1, S the sum of the weights. That is C sum_i s_i loss_i + ||w||^2/2 divided by C S. Unlike
    scikit-learn's, the intercept b is not penalised. Of more than two classes each is fitted against the rest; of several
    labels a row each by itself.

    Parameters
    ----------
    C : float > 0
        Inverse strength of the penalty.
    loss : {"squared-hinge", "hinge"}
        "hinge" with its l2 penalty is solved by interior points, to the last digits, for up to 3000 columns or rows.
    l1_ratio, solver, step_size, max_iter, tol, fit_intercept, class_weight, constraint, penalty, \
penalty_weights, groups, bounds, random_state, verbose, warm_start, n_threads, callback, measure_every
        As in `LinearClassifier`. Class weights are counted in S.

    Attributes
    ----------
    classes_, coef_, intercept_, n_iter_, n_passes_, n_hessian_passes_, optimality_, objective_, trace_, solver_
        As in `LinearClassifier`.

    Examples
    --------
    >>> X = [[0.0], [1.0], [2.0], [3.0]]
    >>> model = LinearSVC(loss="hinge").fit(X, [0, 0, 1, 1])
    >>> model.coef_.round(6), model.intercept_.round(6), model.optimality_ <= 1e-10
    (array([[1.]]), array([-1.5]), True)
    """

    takes_labels: ClassVar[bool] = True

    C: float = field(default=1.0, kw_only=False)
    loss: Literal["squared-hinge", "hinge"] = "squared-hinge"

    def _label_loss(self) -> Any:
        name = str(self.loss).replace("_", "-")
        if name not in ("squared-hinge", "hinge"):
            raise ValueError(f'loss must be "squared-hinge" or "hinge", got {self.loss!r}.')
        return name

    def _problems(self, data: LabelledData, alpha: float) -> list[Any]:
        return self._one_against_the_rest(data, self._label_loss(), alpha)
