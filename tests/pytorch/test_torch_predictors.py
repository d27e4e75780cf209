"""Hessians by linear predictors: the same as column by column, and only where losses have this form."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from finitesum import FiniteSum, minimize  # noqa: E402

softplus = torch.nn.functional.softplus
N, D = 30, 4
rng = np.random.default_rng(0)
X, Y = rng.standard_normal((N, D)), np.where(rng.random(N) < 0.5, -1.0, 1.0)
CHOICES = rng.standard_normal((N, 3, D)), rng.integers(0, 3, N)
LABELS = rng.integers(0, 3, N)


def logistic(w, batch):
    return softplus(-batch[1] * (batch[0] @ w))


def of_tree(p, batch):
    return torch.nn.functional.cross_entropy(batch[0] @ p["W"].T / 2.0 + p["b"], batch[1], reduction="none")


def choice(w, batch):
    utilities = batch[0] @ w
    return torch.logsumexp(utilities, 1) - utilities.gather(1, batch[1][:, None])[:, 0]


def by_control_flow(w, batch):  # its predictors change with w
    return softplus(batch[0] * (w.detach() > 0.0) @ w)


TREE = {"W": np.zeros((3, D)), "b": np.zeros(3)}

#: A function, its data and options, and whether its Hessians are made of linear predictors.
FUNCTIONS = {
    "logistic": (logistic, (X, Y), {"dim": D}, True),
    "one row": (logistic, (X, Y), {"dim": D, "one_row": True}, True),
    "float32": (logistic, (X, Y), {"dim": D, "dtype": "float32"}, True),
    "choice": (choice, CHOICES, {"dim": D}, True),
    "count": (lambda w, rows: softplus(torch.as_tensor(X)[rows] @ w), N, {"dim": D}, True),
    "residuals": (lambda w, b: torch.exp(b[0] @ w) - b[1], (X, Y), {"dim": D, "residuals": True}, True),
    "residual pairs": (
        lambda w, b: torch.stack([torch.sin(b[0] @ w), torch.exp(b[0][:, 0] * w[0])], 1),
        (X, Y),
        {"dim": D, "residuals": True},
        False,
    ),
    "mostly zeros": (of_tree, (X, LABELS), {"like": TREE}, False),
    "sums over rows": (lambda w, b: torch.logcumsumexp(b[0] @ w, 0), (X, Y), {"dim": D}, False),
    "more of w": (lambda w, b: logistic(w, b) + (w**4).sum(), (X, Y), {"dim": D}, False),
    "no predictors": (lambda w, b: softplus(b[0] @ (w * w)), (X, Y), {"dim": D}, False),
    "linear": (lambda w, b: b[0] @ w, (X, Y), {"dim": D}, False),
    "constant": (lambda w, b: b[1] + 0.0 * w.sum(), (X, Y), {"dim": D}, False),
}


def hessians(problem, w, *, by_predictors=True):
    problem.components.backend._jacobians.is_useful = by_predictors
    parts = [component.hessian(w) for component in problem.components]
    return parts, problem.components.backend._jacobians.is_useful


@pytest.mark.parametrize("name", FUNCTIONS)
def test_hessians_are_those_that_autograd_gives_column_by_column(name):
    f, data, options, is_found = FUNCTIONS[name]
    problems = [FiniteSum.from_function(f, data, batch_size=8, **options) for _ in range(2)]
    for seed in range(3):
        w = np.random.default_rng(seed).standard_normal(problems[0].dim)
        found, is_used = hessians(problems[0], w)
        expected, _ = hessians(problems[1], w, by_predictors=False)
        assert is_used == is_found
        close = 1e-5 if options.get("dtype") == "float32" else 1e-12
        np.testing.assert_allclose(found, expected, rtol=close, atol=close)
        for component, H in zip(problems[0].components, found, strict=True):
            np.testing.assert_allclose(component.hessian_product(w, w), H @ w, rtol=close, atol=100 * close)


def test_predictors_that_change_with_the_point_are_noticed():
    problem, other = (FiniteSum.from_function(by_control_flow, (X, Y), dim=D, batch_size=8) for _ in range(2))
    for w in (np.ones(D), np.array([1.0, -1.0, 1.0, 1.0])):
        found, is_used = hessians(problem, w, by_predictors=problem.components.backend._jacobians.is_useful)
        np.testing.assert_allclose(found, hessians(other, w, by_predictors=False)[0], rtol=1e-12, atol=1e-14)
    assert not is_used


def test_they_serve_to_the_last_digit_of_the_gradient():
    problem = FiniteSum.from_function(logistic, (X, Y), dim=D, alpha=1e-2)
    result = minimize(problem, method="newton", tol=1e-14)
    assert result.optimality <= 1e-14
    assert problem.components.backend._jacobians.is_useful


def test_torch_s_own_generator_is_left_alone():
    state = torch.random.get_rng_state()
    hessians(FiniteSum.from_function(logistic, (X, Y), dim=D, batch_size=8), np.ones(D))
    assert torch.equal(torch.random.get_rng_state(), state)
