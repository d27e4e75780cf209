"""Sums of functions over the rows of batches: what f is asked for, derivatives, parameters and errors."""

import builtins
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from contracts.test_functions import losses_and_slopes

from finitesum import FiniteSum, minimize
from finitesum.constraints import Box
from finitesum.evaluation.optimality import evaluate
from finitesum.methods.auto import choose

RNG = np.random.default_rng(0)
X = RNG.standard_normal((23, 3))
Y = np.where(X @ [1.0, -2.0, 0.5] + RNG.standard_normal(23) > 0.0, 1.0, -1.0)
W = np.array([0.3, -0.2, 0.7])


def of_numpy(f=losses_and_slopes, data=(X, Y), dim=3, **options):
    return FiniteSum.from_function(f, data, dim=dim, backend="numpy", **options)


def library(name):
    found = pytest.importorskip(name, reason=f"{name} is not installed")
    if getattr(found, "__file__", None) is None:
        pytest.skip(f"{name} is not installed")
    return found


@pytest.fixture(params=["torch", "jax"])
def backend(request):
    """The name of a library that differentiates, and its functions."""
    if request.param == "torch":
        return "torch", library("torch")
    library("jax")
    import jax.numpy as jnp

    return "jax", jnp


def differences(function, w, width=1e-5):
    units = np.eye(w.size)
    return np.array([(function(w + width * u) - function(w - width * u)) / (2.0 * width) for u in units])


# -- calls


def test_a_visit_is_one_call_with_its_rows_and_a_full_pass_one_call():
    asked = []

    def f(w, indices):
        asked.append(indices.tolist())
        return losses_and_slopes(w, (X[indices], Y[indices]))

    problem = of_numpy(f, 23, batch_size=10)
    assert problem.n_components == 3
    problem.component_gradient(W, 2)
    assert asked == [[20, 21, 22]]
    asked.clear()
    evaluate(problem, W)
    assert asked == [list(range(23))]
    asked.clear()
    result = minimize(problem, method="saga", options={"step_size": 0.1}, max_iter=1, tol=0.0, measure_every=0)
    order = [rows for rows in asked if len(rows) < 23]
    assert len(order) == 6  # one check of the start, and one visit of each
    assert result.n_passes == 2


def test_many_numbers_are_read_in_several_calls(monkeypatch):
    monkeypatch.setattr("finitesum.problems.batches.NUMBERS_PER_CALL", 40)
    sizes = []

    def f(w, batch):
        sizes.append(len(batch[0]))
        return losses_and_slopes(w, batch)

    problem, whole = of_numpy(f), of_numpy()
    value, gradient = problem.mean_value_and_gradient(W)
    assert sizes == [10, 10, 3]
    assert value == pytest.approx(whole.mean_value_and_gradient(W)[0], rel=1e-14)
    np.testing.assert_allclose(gradient, losses_and_slopes(W, (X, Y))[1].mean(axis=0), rtol=1e-13)


@pytest.mark.parametrize(("batch_size", "size"), [(2, 4), (5, 5)])
def test_a_call_takes_as_many_rows_as_there_is_room_for_parameters_and_a_batch_at_least(batch_size, size, monkeypatch):
    monkeypatch.setattr("finitesum.problems.batches.NUMBERS_PER_CALL", 12)
    sizes = []

    def f(w, rows):
        sizes.append(rows.size)
        return losses_and_slopes(w, (X[rows], Y[rows]))

    of_numpy(f, 23, batch_size=batch_size).mean_value_and_gradient(W)
    assert set(sizes[:-1]) == {size}
    assert sum(sizes) == 23


def test_a_hessian_is_not_computed_again_for_the_two_last_points():
    asked = []

    def hessian(w, batch):
        asked.append(w[0])
        return np.eye(3)

    problem = of_numpy(hessian=hessian)
    for first in (1.0, 2.0, 1.0, 2.0, 3.0, 2.0, 1.0):
        problem.component_hessian(np.array([first, 0.0, 0.0]), 0)
    assert asked == [1.0, 2.0, 3.0, 1.0]


# -- derivatives


def test_gradients_may_be_those_of_rows_or_of_their_sum():
    problem = of_numpy(lambda w, batch: (losses_and_slopes(w, batch)[0], losses_and_slopes(w, batch)[1].sum(axis=0)))
    np.testing.assert_allclose(problem.component_gradient(W, 1), of_numpy().component_gradient(W, 1), rtol=1e-14)
    assert problem.check(W).success


def test_rows_may_be_sparse_with_numpy():
    problem = of_numpy(
        lambda w, batch: losses_and_slopes(w, (batch[0].toarray(), batch[1])), (scipy.sparse.csr_array(X), Y)
    )
    np.testing.assert_allclose(problem.component_gradient(W, 1), of_numpy().component_gradient(W, 1), rtol=1e-14)


def rosenbrock_like(np_like):
    """Losses that are no function of a product with w, and not convex."""
    return lambda w, batch: np_like.sin(batch[0] @ w) * w[0] ** 2 + batch[1] * np_like.exp(w[1] * w[2])


def test_derivatives_are_those_of_differences(backend):
    name, np_like = backend
    problem = FiniteSum.from_function(rosenbrock_like(np_like), (X, Y), dim=3, batch_size=5, backend=name)
    assert problem.check(W).success
    hessian = problem.hessian(W)
    np.testing.assert_allclose(
        hessian, differences(lambda w: problem.mean_value_and_gradient(w)[1], W), rtol=1e-6, atol=1e-8
    )
    np.testing.assert_allclose(problem.components.mean_hessian_product(W, Y[:3]), hessian @ Y[:3], rtol=1e-12)
    for j in (0, 4):
        product = problem.components[j].hessian_product(W, Y[:3])
        np.testing.assert_allclose(product, problem.component_hessian(W, j) @ Y[:3], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("n_residuals", [1, 2])
def test_residuals_have_the_hessians_of_gauss_and_newton(backend, n_residuals):
    name, np_like = backend

    def f(w, batch):
        first = np_like.exp(batch[0] @ w) - batch[1]
        return first if n_residuals == 1 else np_like.stack([first, w[0] * batch[1] ** 2], -1)

    problem = FiniteSum.from_function(f, (X, Y), dim=3, batch_size=5, backend=name, residuals=True)
    J = np.exp(X @ W)[:, None] * X
    r = np.exp(X @ W) - Y
    gram, gradient, square = J.T @ J, J.T @ r, r @ r
    if n_residuals == 2:
        gram[0, 0] += 23.0
        gradient[0] += 23.0 * W[0]
        square += 23.0 * W[0] ** 2
    value, found = problem.mean_value_and_gradient(W)
    assert value == pytest.approx(0.5 * square / 23, rel=1e-13)
    np.testing.assert_allclose(found, gradient / 23, rtol=1e-12)
    np.testing.assert_allclose(problem.hessian(W), gram / 23, rtol=1e-12)
    np.testing.assert_allclose(problem.components.mean_hessian_product(W, Y[:3]), gram @ Y[:3] / 23, rtol=1e-11)
    assert problem.check(W).success


def test_the_loss_of_one_row_is_vectorised(backend):
    name, np_like = backend
    rows = FiniteSum.from_function(rosenbrock_like(np_like), (X, Y), dim=3, backend=name)
    one = FiniteSum.from_function(rosenbrock_like(np_like), (X, Y), dim=3, backend=name, one_row=True)
    for found, expected in zip(one.mean_value_and_gradient(W), rows.mean_value_and_gradient(W), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-13)
    np.testing.assert_allclose(one.hessian(W), rows.hessian(W), rtol=1e-12)


def test_functions_of_numbers_of_rows(backend):
    name, np_like = backend
    table = np_like.asarray(Y)
    problem = FiniteSum.from_function(
        lambda w, rows: (w[0] - table[rows]) ** 2, 23, dim=1, batch_size=4, backend=name, dtype="float64"
    )
    np.testing.assert_allclose(problem.mean_value_and_gradient(W[:1])[1], [2.0 * (W[0] - Y.mean())], rtol=1e-6)


def test_a_linear_function_has_no_curvature(backend):
    name, _ = backend
    problem = FiniteSum.from_function(lambda w, batch: batch @ w, X, dim=3, backend=name)
    np.testing.assert_array_equal(problem.hessian(W), np.zeros((3, 3)))
    np.testing.assert_array_equal(problem.components.mean_hessian_product(W, W), np.zeros(3))


def test_float32_is_used_where_it_is_asked_for_and_float64_else(backend):
    name, _ = backend
    seen = []

    def f(w, batch):
        seen.append((str(w.dtype), str(batch.dtype)))
        return (batch @ w) ** 2

    for dtype in ("float32", "float64"):
        problem = FiniteSum.from_function(f, X.astype(np.float32), dim=3, backend=name, dtype=dtype)
        assert problem.mean_value_and_gradient(W)[1].dtype == np.float64
        assert all(part.endswith(dtype) for part in seen.pop())
        seen.clear()


# -- parameters


def test_parameters_keep_their_form(backend):
    name, _np_like = backend
    like = {"slopes": [np.zeros(2), np.zeros(())], "intercept": [[0]]}

    def f(p, batch):
        at = batch[0][:, :2] @ p["slopes"][0] + batch[0][:, 2] * p["slopes"][1] + p["intercept"][0][0]
        return (at - batch[1]) ** 2

    problem = FiniteSum.from_function(f, (X, Y), like=like, backend=name)
    result = minimize(problem, method="newton", tol=1e-10)
    expected = np.linalg.lstsq(np.column_stack([X, np.ones(23)]), Y, rcond=None)[0]
    found = problem.unflatten(result.x)
    np.testing.assert_allclose(found["slopes"][0], expected[:2], rtol=1e-9)
    np.testing.assert_allclose(found["intercept"][0][0], expected[3], rtol=1e-9)
    np.testing.assert_array_equal(problem.flatten(found), result.x)


def test_numpy_takes_gradients_of_the_parameters_form():
    def f(p, batch):
        losses, gradients = losses_and_slopes(np.append(p["a"], p["b"]), batch)
        return losses, {"a": gradients[:, :2], "b": gradients[:, 2]}

    problem = of_numpy(f, dim=None, like={"a": np.zeros(2), "b": 0.0})
    np.testing.assert_allclose(problem.component_gradient(W, 1), of_numpy().component_gradient(W, 1), rtol=1e-14)
    assert problem.unflatten(W)["b"] == W[2]


def test_modules_and_their_state_dicts_are_parameters():
    torch = library("torch")
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2), torch.nn.Linear(2, 1)).eval()

    def f(p, batch):
        return (torch.func.functional_call(model, p, (batch[0],))[:, 0] - batch[1]) ** 2

    problem = FiniteSum.from_function(f, (X, Y), like=model, convex=False)
    w = problem.flatten(model)
    given = problem.unflatten(w)
    assert given.keys() == model.state_dict().keys()
    assert given["1.num_batches_tracked"].dtype == torch.int64
    assert problem.check(w).success
    model.load_state_dict(given)


def test_a_result_of_a_sum_that_is_not_convex_says_stationary():
    problem = of_numpy(convex=False, alpha=0.1)
    assert "x is near a stationary point" in minimize(problem, method="fg").message
    assert "stationary" not in minimize(of_numpy(alpha=0.1), method="fg").message


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"hessian": lambda w, batch: np.eye(3)}, "lazy-newton"),
        ({"hessian": lambda w, batch: np.eye(3), "convex": False}, "newton-cg"),
        ({"hessian": lambda w, batch: np.eye(3), "convex": False, "constraint": Box(-1.0, 1.0)}, "lazy-newton"),
        ({"hessian": lambda w, batch: np.eye(3), "groups": [0, 0, 1], "alpha": 0.1}, "lazy-newton"),
        ({}, "svrg"),
    ],
)
def test_the_method_that_suits_batches_is_chosen(options, name):
    assert choose(of_numpy(**options)).method.name == name


def test_penalties_and_sets_hold_for_batches(backend):
    name, _np_like = backend
    problem = FiniteSum.from_function(
        lambda w, batch: (batch[0] @ w - batch[1]) ** 2, (X, Y), dim=3, backend=name, constraint=Box(-0.1, 0.2)
    )
    found = [minimize(problem, method=method, tol=1e-9) for method in ("newton", "fg", "acc-svrg", "nim")]
    for result in found:
        assert result.success, result.message
        np.testing.assert_allclose(result.x, found[0].x, atol=1e-8)


def test_the_example_has_the_same_iterates_three_times():
    library("torch")
    path = Path(__file__).parents[2] / "examples" / "functions.py"
    if not path.is_file():
        pytest.skip("the examples are not part of this copy")
    found = runpy.run_path(str(path))["main"]()
    for method in ("saga", "newton"):
        of_method = [result for (name, _), result in found.items() if name == method]
        for result in of_method:
            np.testing.assert_allclose(result.x, of_method[0].x, rtol=1e-10)
            assert result.n_passes == of_method[0].n_passes


# -- errors


@pytest.mark.parametrize(
    ("change", "error", "what"),
    [
        ({"f": 3}, TypeError, "f must be a function"),
        ({"data": "rows"}, TypeError, "data must be an array"),
        ({"data": (X, Y[:5])}, ValueError, "equally many rows, one at least, got 23, 5"),
        ({"data": 0}, ValueError, "one row at least"),
        ({"dim": 0}, ValueError, "dim must be a whole number >= 1, got 0"),
        ({"dim": None}, ValueError, "give either dim"),
        ({"like": np.zeros(3)}, ValueError, "give either dim"),
        ({"batch_size": 0}, ValueError, "batch_size must be a whole number >= 1, got 0"),
        ({"dtype": "float16"}, ValueError, "dtype must be"),
        ({"one_row": True}, ValueError, "one_row and dtype need"),
    ],
)
def test_names_what_is_wrong_with_its_arguments(change, error, what):
    with pytest.raises(error, match=what):
        of_numpy(**change)


def test_a_backend_that_is_unknown_or_not_installed_is_named(monkeypatch):
    with pytest.raises(ValueError, match="backend must be one of numpy, torch, jax, got 'tensorflow'"):
        FiniteSum.from_function(losses_and_slopes, X, dim=3, backend="tensorflow")

    def refuse(name, *args, **kwargs):
        if name.split(".")[0] == "jax":
            raise ModuleNotFoundError("No module named 'jax'", name="jax")
        return known(name, *args, **kwargs)

    known = builtins.__import__
    for module in [name for name in sys.modules if name.split(".")[0] == "jax" or name.startswith("finitesum.jax")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ModuleNotFoundError, match=r"needs jax: pip install 'finitesum\[jax\]'"):
        FiniteSum.from_function(losses_and_slopes, X, dim=3, backend="jax")


@pytest.mark.parametrize(
    ("returned", "what"),
    [
        (lambda w, batch: np.zeros(len(batch[0])), r"must return \(losses, gradients\)"),
        (lambda w, batch: (0.0, np.zeros(3)), r"one loss, shape \(b,\), for the b = 10 rows of a batch, got shape \(\)"),
        (lambda w, batch: (np.zeros(len(batch[0])), np.zeros(4)), r"gradients of the rows, shape \(10, 3\)"),
    ],
)
def test_names_what_is_wrong_with_what_f_returns(returned, what):
    problem = of_numpy(returned, batch_size=10)
    with pytest.raises(ValueError, match=what):
        problem.component_gradient(W, 0)


def test_losses_must_be_those_of_the_rows(backend):
    name, _ = backend
    problem = FiniteSum.from_function(lambda w, batch: (batch @ w).sum(), X, dim=3, backend=name)
    with pytest.raises(ValueError, match=r"one loss, shape \(b,\), for the b = 1 rows"):
        problem.component_gradient(W, 0)


def test_derivatives_by_hand_are_for_numpy(backend):
    with pytest.raises(ValueError, match='hessian_product are for backend="numpy"'):
        FiniteSum.from_function(abs, X, dim=3, backend=backend[0], hessian=abs)


def test_flatten_is_for_functions():
    problem = of_numpy()
    with pytest.raises(ValueError, match=r"w must have shape \(3,\)"):
        problem.unflatten([1.0])
    with pytest.raises(ValueError, match="parameters must have the shapes"):
        problem.flatten(np.zeros(4))
    with pytest.raises(TypeError, match=r"FiniteSum\.from_function"):
        FiniteSum(list(problem.components), 3).flatten(W)


@pytest.mark.parametrize("cut", ["detach", "item", "integers"])
def test_losses_that_are_cut_off_from_w_are_refused_where_they_would_look_stationary(cut):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    cuts = {
        "detach": lambda w, batch: (batch @ w.detach() - 1.0) ** 2,
        "item": lambda w, batch: torch.tensor([loss.item() for loss in (batch @ w - 1.0) ** 2]),
        "integers": lambda w, batch: (batch @ w > 1.0).long(),
    }
    problem = FiniteSum.from_function(cuts[cut], np.ones((4, 2)), dim=2)
    with pytest.raises(ValueError, match="what f returns does not depend on w"):
        minimize(problem)
