"""Ordinal logistic regression: ordered classes with one row of coefficients and a threshold between neighbours.

With u_i = x_i'w + o_i and z_k = u + b_k, the model is P(y > k) = 1 / (1 + exp(-z_k)) for k = 0, ..., K - 2, with
b_0 > b_1 > ... (proportional odds [1]). With z_-1 = infinity and z_(K-1) = -infinity the loss of a row of class k is

    -log P(y = k) = log(1 + exp(-z_(k-1))) + log(1 + exp(z_k)) - log(1 - exp(b_k - b_(k-1)))

of which each part is convex. The last one is infinite where intercepts are not in order, so that no step that lowers F
leaves them so.

References
----------
.. [1] P. McCullagh, "Regression models for ordinal data", J. R. Stat. Soc. B 42 (1980).
"""

from collections.abc import Callable
from dataclasses import field
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse
from scipy.special import expit, log_expit, logit
from sklearn.utils.validation import check_is_fitted

from finitesum.core.arrays import Data, Matrix, Vector
from finitesum.estimators.array_api import in_kind
from finitesum.estimators.classification import LabelledData, LinearClassifierMixin
from finitesum.estimators.covariance import inverse_and_rank
from finitesum.estimators.elsewhere import estimator
from finitesum.estimators.inference import Inference, InferenceMixin
from finitesum.estimators.residuals import Residuals
from finitesum.estimators.tasks import with_callbacks
from finitesum.problems.finite_sum import FiniteSum
from finitesum.problems.input import checked_numbers
from finitesum.running.driver import Result


class _Rows:
    """The losses of a batch of rows at (w, b), and their derivatives; all sums are by the rows' weights."""

    def __init__(self, w: Vector, batch: tuple[Any, Any, Vector, Vector]) -> None:
        self.X, self.codes, self.weights, offset = batch
        d = self.X.shape[1]
        linear = self.X @ w[:d] + offset
        b = np.concatenate([[np.inf], w[d:], [-np.inf]])
        self.n_free, above, below = w.size - d, b[self.codes], b[self.codes + 1]
        self.gap = above - below
        self.above, self.below = linear + above, linear + below  # z_(k-1) and z_k

    @property
    def is_ordered(self) -> bool:
        """Whether the intercepts that these rows see decrease."""
        return bool((self.gap > 0.0).all())

    def losses(self) -> Vector:
        """Return the weighted losses."""
        if not self.is_ordered:
            return np.full(self.codes.size, np.inf)
        losses: Vector = -self.weights * log_probabilities_between(self.above, self.below, self.gap)
        return losses

    def by_intercept(self, of_above: Vector, of_below: Vector) -> Vector:
        """Return the sums over the rows of numbers that belong to the intercept above a row's class, and below it."""
        size = self.n_free + 2
        total = np.bincount(self.codes, of_above, size) + np.bincount(self.codes + 1, of_below, size)
        return np.asarray(total[1:-1])

    def gradient(self) -> Vector:
        """Return the gradient of the sum of the weighted losses."""
        if not self.is_ordered:
            return np.full(self.X.shape[1] + self.n_free, np.nan)
        of_above, of_below = -self.weights * expit(-self.above), self.weights * expit(self.below)
        of_gap = self.weights / np.expm1(self.gap)
        return np.concatenate(
            [self.X.T @ (of_above + of_below), self.by_intercept(of_above - of_gap, of_below + of_gap)], dtype=np.float64
        )

    def curvatures(self) -> tuple[Vector, Vector, Vector]:
        """Return the weighted second derivatives in z_(k-1), in z_k, and in the gap."""
        at_gap = 1.0 / np.expm1(self.gap)
        above, below = (self.weights * expit(z) * expit(-z) for z in (self.above, self.below))
        return above, below, self.weights * at_gap * (1.0 + at_gap)

    def hessian(self) -> Matrix:
        """Return the Hessian of the sum of the weighted losses."""
        d, X = self.X.shape[1], self.X
        of_above, of_below, of_gap = self.curvatures()
        hessian, total = np.zeros((d + self.n_free, d + self.n_free)), of_above + of_below
        weighted = X.multiply(total[:, None]) if issparse(X) else X * total[:, None]
        product = X.T @ weighted
        hessian[:d, :d] = product.toarray() if issparse(product) else product
        for k in range(self.n_free):
            side = np.where(self.codes == k + 1, of_above, 0.0) + np.where(self.codes == k, of_below, 0.0)
            hessian[:d, d + k] = hessian[d + k, :d] = X.T @ side
        inner = hessian[d:, d:]
        inner.flat[:: self.n_free + 1] = self.by_intercept(of_above + of_gap, of_below + of_gap)
        between = np.bincount(self.codes, of_gap, self.n_free + 1)[1:-1]  # of classes with an intercept on either side
        inner.flat[1 :: self.n_free + 1] -= between
        inner.flat[self.n_free :: self.n_free + 1] -= between
        return hessian

    def hessian_product(self, v: Vector) -> Vector:
        """Return that Hessian times v."""
        d = self.X.shape[1]
        of_above, of_below, of_gap = self.curvatures()
        b, along = np.concatenate([[0.0], v[d:], [0.0]]), self.X @ v[:d]
        above, below = of_above * (along + b[self.codes]), of_below * (along + b[self.codes + 1])
        gap = of_gap * (b[self.codes] - b[self.codes + 1])
        return np.concatenate([self.X.T @ (above + below), self.by_intercept(above + gap, below - gap)], dtype=np.float64)


def log_probabilities_between(above: Data, below: Data, gap: Data) -> Data:
    """Return log(1 / (1 + exp(-above)) - 1 / (1 + exp(-below))), given gap = above - below > 0 with its own digits."""
    found: Data = log_expit(above) + log_expit(-below) + np.log(-np.expm1(-gap))
    return found


@estimator
class OrdinalLogisticRegression(LinearClassifierMixin, InferenceMixin):
    """Logistic regression for ordered classes: one row of coefficients, and a threshold between neighbouring classes.

    F(w, b) = -(1/S) sum_i s_i log P(y_i | x_i) + 1/(C S) (l1_ratio ||w||_1 + (1 - l1_ratio)/2 ||w||^2),

    P(y > k | x) = 1 / (1 + exp(-(x'w + b_k + o))),   b_0 > b_1 > ... > b_(K-2)

    for classes 0 to K - 1 (proportional odds: where x_j grows by 1 the odds of a higher class are multiplied by exp(w_j)),
    S the sum of the weights s_i and o_i known offsets. The thresholds -b_k are neither penalised nor constrained. With two
    classes it is `LogisticRegression`.

    Parameters
    ----------
    C : float > 0
        Inverse strength of the penalty; infinity for none.
    categories : "auto" or sequence
        The labels in order, the lowest first; "auto" sorts those of the data.
    l1_ratio, solver, step_size, max_iter, tol, class_weight, constraint, penalty, penalty_weights, groups, \
bounds, random_state, verbose, warm_start, n_threads, callback, measure_every
        As in `LogisticRegression`.
    fit_intercept : bool
        True: the thresholds are always fitted.
    standard_errors : bool
        Whether to set `cov_params_` and `standard_errors_`, and to have `summary`.

    Attributes
    ----------
    classes_ : ndarray, shape (K,)
        In their order.
    coef_ : ndarray, shape (1, d)
    intercept_ : ndarray, shape (K - 1,)
        b_k, which decrease.
    thresholds_ : ndarray, shape (K - 1,)
        -b_k, which increase.
    n_iter_, n_passes_, n_hessian_passes_, optimality_, objective_, trace_, solver_
        As in `LinearClassifier`.
    cov_params_, standard_errors_ : ndarray
        As in `LogisticRegression`, the intercepts behind the coefficients.

    Examples
    --------
    >>> X, y = [[0.0], [1.0], [1.0], [2.0], [3.0], [3.0]], ["low", "low", "mid", "high", "mid", "high"]
    >>> model = OrdinalLogisticRegression(categories=["low", "mid", "high"]).fit(X, y)
    >>> model.coef_.round(4), model.thresholds_.round(4), model.predict([[0.0], [3.0]])
    (array([[0.941]]), array([0.6786, 2.5539]), array(['low', 'high'], dtype='<U4'))
    """

    C: float = field(default=1.0, kw_only=False)
    categories: Any = "auto"
    standard_errors: bool = False

    @property
    def thresholds_(self) -> Vector:
        """The thresholds between neighbouring classes, -intercept_."""
        found: Vector = -self.intercept_
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # of classes that have no order
        return tags

    def _n_outputs(self) -> int:
        return 1

    def _labelled(self, X: Any, y: Any, sample_weight: Any, offset: Any, *, reset: bool = True) -> LabelledData:
        if not self.fit_intercept:
            raise ValueError("fit_intercept must be True: the thresholds between classes are always fitted.")
        X, y = self._checked_data(X, y, reset=reset)
        data = LabelledData(self, X, y, sample_weight)
        if not isinstance(self.categories, str):
            labels = list(self.categories)
            known = [labels.index(label) if label in labels else -1 for label in data.classes.tolist()]
            if min(known) < 0 or len(set(labels)) < len(labels):
                raise ValueError(
                    f"categories must hold each label of y once, {data.classes.tolist()}, got {labels}: the lowest first."
                )
            data.codes = np.argsort(np.argsort(known))[data.codes]
            data.classes = data.classes[np.argsort(known)]
        elif self.categories != "auto":
            raise ValueError(f'categories must be "auto" or the labels in order, got {self.categories!r}.')
        if reset:
            self.classes_ = data.classes
        elif not np.array_equal(self.classes_, data.classes):
            raise ValueError(f"y must hold the classes of the fit, {self.classes_.tolist()}, got {data.classes.tolist()}.")
        data.offset = np.zeros(X.shape[0]) if offset is None else checked_numbers(offset, (X.shape[0],), "offset")
        return data

    def _problems(self, data: LabelledData, alpha: float) -> list[Any]:
        n, n_free = data.codes.size, data.classes.size - 1
        batches = data.X, data.codes, data.weights * (n / data.total_weight), data.offset

        def of_rows(derivative: Callable[..., Any]) -> Callable[..., Any]:
            return lambda w, *more: derivative(_Rows(w, more[-1]), *more[:-1])

        return [
            FiniteSum.from_function(
                of_rows(lambda rows: (rows.losses(), rows.gradient())),
                batches,
                dim=data.X.shape[1] + n_free,
                backend="numpy",
                hessian=of_rows(_Rows.hessian),
                hessian_product=of_rows(_Rows.hessian_product),
                has_intercept=n_free,
                **self._term(alpha),
            )
        ]

    @in_kind
    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array_like or sparse, shape (n, d)
        y : array_like, shape (n,)
            Labels, in the order of `categories`.
        sample_weight : array_like, shape (n,), optional
            Weights >= 0; weight 2 means the same as the row written twice.
        offset : array_like, shape (n,), optional
            Added to each x'w; give those of the rows in question when you predict, too.
        """
        data = self._labelled(X, y, sample_weight, offset)
        problems = self._problems(data, self._alpha(data))
        starts = self._starts(problems)
        if starts[0] is None:  # the intercepts that are best for w = 0
            shares = np.bincount(data.codes, data.weights) / data.total_weight
            starts = [np.concatenate([np.zeros(data.X.shape[1]), logit(np.cumsum(shares[::-1])[-2::-1])])]
        metadata = {"sample_weight": sample_weight, "offset": offset}
        results = self._run(problems, (data.X, y, metadata), starts)
        self._note_errors(problems, results, data.total_weight)
        return self

    def _unpacked(self, points: list[Vector]) -> tuple[Any, Any]:
        d = self.n_features_in_
        return points[0][None, :d], points[0][d:]

    def _packed(self, n_columns: int, n_points: int) -> list[Vector] | None:
        if np.shape(self.coef_) != (1, n_columns):
            return None
        return [np.concatenate([self.coef_[0], self.intercept_], dtype=np.float64)]

    # -- errors

    def _require_errors(self, problem: Any) -> None:
        """Raise unless errors of the coefficients mean something."""
        term = problem.term
        if term.is_constrained or not term.is_elastic_net or term.has_l1:
            raise ValueError(
                "standard errors are known with an l2 penalty alone. Leave constraint, bounds, groups and penalty out, and "
                "l1_ratio at 0."
            )

    def _coefficient_names(self) -> list[str]:
        names = [str(name) for name in getattr(self, "feature_names_in_", [f"x{j}" for j in range(self.n_features_in_)])]
        return names + [f"y > {label}" for label in self.classes_[:-1]]

    def _note_errors(self, problems: list[Any], results: list[Result], total_weight: float) -> None:
        for name in ("cov_params_", "standard_errors_", "inference_"):
            self.__dict__.pop(name, None)
        if self.standard_errors:
            self.inference_ = self._infer(problems[0], results[0].x, total_weight)
            self.cov_params_, self.standard_errors_ = self.inference_.covariance, self.inference_.standard_errors

    def _infer(self, problem: Any, x: Vector, total: float, **how: Any) -> Inference:
        if how.get("kind", "model") != "model":
            raise ValueError(f'kind must be "model" for ordered classes, got {how["kind"]!r}.')
        self._require_errors(problem)
        covariance, rank = inverse_and_rank(total * problem.hessian(x))
        likelihood = -total * problem.mean_value_and_gradient(x)[0]
        return Inference(
            title=type(self).__name__,
            family="ordinal logistic",
            names=tuple(self._coefficient_names()),
            coefficients=x.copy(),
            covariance=covariance,
            kind="model",
            n_observations=total,
            rank=rank,
            dispersion=1.0,
            log_likelihood=likelihood,
            deviance=-2.0 * likelihood,
            optimality=self.optimality_,
            uses_t=False,
        )

    def residuals(self, X: Any, y: Any, sample_weight: Any = None, offset: Any = None) -> Residuals:
        """Raise: a row of an ordered class has no single residual."""
        raise ValueError("residuals are not known for ordered classes: compare predict_proba with the classes.")

    # -- prediction

    @in_kind
    def decision_function(self, X: Any, offset: Any = None) -> Data:
        """Return the logarithms of the probabilities of rows X, shape (n, K); of two classes x'w + b + o, shape (n,)."""
        check_is_fitted(self)
        if len(self.classes_) > 2:
            return self.predict_log_proba(X, offset)
        return self._decision(X, offset)

    @in_kind
    def predict_proba(self, X: Any, offset: Any = None) -> Data:
        """Return the probabilities of the classes, (n, K), for rows X, (n, d), with offsets (n,)."""
        return np.exp(self.predict_log_proba(X, offset))

    @in_kind
    def predict_log_proba(self, X: Any, offset: Any = None) -> Data:
        """Return the logarithms of the probabilities that `predict_proba` gives, without underflow."""
        z = np.asarray(self._decision(X)).reshape(-1, self.intercept_.size)
        if offset is not None:
            z = z + checked_numbers(offset, z.shape[:1], "offset").astype(z.dtype)[:, None]
        ends = np.full((z.shape[0], 1), np.inf, dtype=z.dtype)
        above, below = np.hstack([ends, z]), np.hstack([z, -ends])
        b = np.concatenate([[np.inf], self.intercept_, [-np.inf]])
        return log_probabilities_between(above, below, (b[:-1] - b[1:]).astype(z.dtype))
