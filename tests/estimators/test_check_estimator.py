"""scikit-learn's own checks of every estimator, none of them expected to fail."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from finitesum.estimators import (
    HuberRegressor,
    LinearClassifier,
    LinearRegressor,
    LinearSVC,
    LogisticRegression,
    LogisticRegressionCV,
    PoissonRegressor,
    Ridge,
)

ESTIMATORS = [
    LogisticRegression(),
    LogisticRegressionCV(Cs=3, cv=3),
    LinearClassifier(),
    LinearSVC(),
    LinearSVC(loss="hinge"),
    LinearRegressor(),
    Ridge(),
    HuberRegressor(),
    PoissonRegressor(),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_check(estimator, check):
    check(estimator)
