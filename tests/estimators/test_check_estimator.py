"""scikit-learn's own checks of every estimator, none of them expected to fail."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from finitesum.estimators import (
    GammaRegressor,
    HuberRegressor,
    LinearClassifier,
    LinearRegressor,
    LinearRegressorCV,
    LinearSVC,
    LogisticRegression,
    LogisticRegressionCV,
    NegativeBinomialRegressor,
    OrdinalLogisticRegression,
    PoissonRegressor,
    PoissonRegressorCV,
    QuantileRegressor,
    Ridge,
    RidgeCV,
    TweedieRegressor,
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
    GammaRegressor(),
    TweedieRegressor(),
    TweedieRegressor(power=1.5),
    PoissonRegressorCV(alphas=[0.1, 1.0], cv=3),
    NegativeBinomialRegressor(),
    NegativeBinomialRegressor(theta="estimate"),
    LinearClassifier(loss="probit"),
    OrdinalLogisticRegression(),
    QuantileRegressor(),
    LinearRegressorCV(alphas=3, cv=3),
    RidgeCV(alphas=[0.1, 1.0], cv=3),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_check(estimator, check):
    check(estimator)
