"""What the regressors do alike."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from finitesum.core.arrays import Vector
from finitesum.estimators.base import LinearEstimator, checked_weights
from finitesum.losses import Loss
from finitesum.problems.linear import Problem


class LinearRegressorMixin(RegressorMixin, LinearEstimator):
    """A linear model u = x'w + b of numbers."""

    def _problem(
        self, X: Any, y: Any, weights: Vector | None, loss: Loss, offset: Any = None, *, alpha: float | None = None
    ) -> Problem:
        return Problem.linear(
            X,
            y,
            loss=loss,
            alpha=self.alpha if alpha is None else alpha,
            l1_ratio=self.l1_ratio,
            fit_intercept=self.fit_intercept,
            sample_weight=weights,
            offset=offset,
            constraint=self.constraint,
        )

    def _checked_fit_data(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Vector | None]:
        X, y = self._checked_data(X, y, y_numeric=True)
        return X, y, checked_weights(sample_weight, X)

    def _unpacked(self, points: list[Vector]) -> tuple[Any, Any]:
        point = points[0]
        return (point[:-1], float(point[-1])) if self.fit_intercept else (point, 0.0)

    def _packed(self, n_columns: int, n_points: int) -> list[Vector] | None:
        if np.shape(self.coef_) != (n_columns,):
            return None
        point = np.asarray(self.coef_, dtype=np.float64)
        return [np.append(point, self.intercept_) if self.fit_intercept else point]

    def predict(self, X: Any) -> Any:
        """Return x'w + b for each row.

        Parameters
        ----------
        X : array_like or sparse, shape (n, d)
        """
        return self._decision(X)
