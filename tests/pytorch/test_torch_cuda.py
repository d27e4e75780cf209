"""What a GPU gives is what the CPU gives: functions as components, constraints, estimators' arrays, networks."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

from sklearn import config_context  # noqa: E402

from finitesum import FiniteSum, LogisticRegression, minimize  # noqa: E402
from finitesum.constraints import Box, L1Ball, L2Ball, Polyhedron, Simplex  # noqa: E402
from finitesum.papers.networks.data import load_images  # noqa: E402
from finitesum.papers.networks.settings import Training  # noqa: E402
from finitesum.papers.networks.training import Run, images_for, train  # noqa: E402
from finitesum.torch import HB, AdaHB  # noqa: E402

N, D = 400, 6


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    return X, np.where(X @ rng.standard_normal(D) + rng.standard_normal(N) > 0.0, 1.0, -1.0)


def logistic(w, batch):
    return torch.nn.functional.softplus(-batch[1] * (batch[0] @ w))


def of_tree(p, batch):
    scores = batch[0] @ p["slopes"] + p["intercept"]
    return torch.nn.functional.softplus(-batch[1] * scores)


@pytest.mark.parametrize("method", ["newton", "lazy-newton", "newton-cg", "a-ciag", "ciag", "nim", "saga", "afg"])
def test_functions_of_tensors_on_the_gpu(rows, method):
    def solve(device):
        data = tuple(torch.tensor(part, device=device) for part in rows)
        problem = FiniteSum.from_function(logistic, data, dim=D, alpha=0.1)
        return minimize(problem, method=method, tol=1e-9, max_iter=2000)

    there, here = solve("cuda"), solve("cpu")
    assert there.success, there.message
    assert there.n_passes == here.n_passes
    np.testing.assert_allclose(there.x, here.x, rtol=1e-7, atol=1e-9)


def test_parameters_with_a_form_come_back_on_the_gpu(rows):
    data = tuple(torch.tensor(part, device="cuda") for part in rows)
    like = {"slopes": torch.zeros(D, device="cuda"), "intercept": torch.zeros((), device="cuda")}
    problem = FiniteSum.from_function(of_tree, data, like=like, alpha=0.01)
    result = minimize(problem, tol=1e-9)
    assert result.success, result.message
    assert {part.device.type for part in problem.unflatten(result.x).values()} == {"cuda"}


@pytest.mark.parametrize(
    "constraint",
    [L1Ball(1.0), L2Ball(0.5), Box(-0.1, 0.2), Simplex(1.0), Polyhedron.increasing(range(20), 20)],
    ids=lambda s: type(s).__name__,
)
@pytest.mark.parametrize("optimizer_class", [AdaHB, HB])
@pytest.mark.parametrize("foreach", [True, False])
def test_constrained_steps(optimizer_class, constraint, foreach):
    def run(device):
        w = torch.nn.Parameter(torch.full((20,), 0.05, dtype=torch.float64, device=device))
        optimizer = optimizer_class([w], lr=0.1, constraint=constraint, steps_per_epoch=1, foreach=foreach)
        generator = torch.Generator().manual_seed(0)
        for _ in range(20):
            w.grad = (w.detach().cpu() - torch.randn(20, generator=generator, dtype=torch.float64)).to(device)
            optimizer.step()
        return w.detach().cpu()

    torch.testing.assert_close(run("cuda"), run("cpu"), rtol=1e-9, atol=1e-10)


def test_estimators_take_tensors_on_the_gpu(rows, monkeypatch):
    X, y = rows
    expected = LogisticRegression().fit(X, y)
    there = torch.tensor(X, device="cuda"), torch.tensor(y, device="cuda")
    model = LogisticRegression().fit(*there)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-12)
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    with config_context(array_api_dispatch=True):
        model = LogisticRegression().fit(*there)
        assert model.coef_.device.type == model.predict_proba(there[0]).device.type == "cuda"
    np.testing.assert_allclose(model.coef_.cpu().numpy(), expected.coef_, rtol=1e-12)


def test_estimators_take_arrays_of_cupy(rows, monkeypatch):
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    X, y = rows
    expected = LogisticRegression().fit(X, y)
    model = LogisticRegression().fit(cupy.asarray(X), cupy.asarray(y), sample_weight=cupy.ones(N))
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-12)
    np.testing.assert_array_equal(model.predict(cupy.asarray(X)), expected.predict(X))
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    with config_context(array_api_dispatch=True):
        model = LogisticRegression().fit(cupy.asarray(X), cupy.asarray(y))
        assert isinstance(model.coef_, cupy.ndarray)
    np.testing.assert_allclose(cupy.asnumpy(model.coef_), expected.coef_, rtol=1e-12)


def test_networks_are_trained_as_on_the_cpu(tmp_path):
    training = Training("digits", epochs=3, batch_size=64, n_train=256, n_test=100, bn_momentum=0.1)
    images = images_for(training, load_images("digits"))
    run = Run(training, "adahb", 0.01, 0)
    ends = [list(train(run, images, device=torch.device(device)))[-1] for device in ("cuda", "cuda", "cpu")]
    assert ends[0][:4] == ends[1][:4]  # seconds differ
    assert ends[0].train_loss == pytest.approx(ends[2].train_loss, rel=0.5)  # dropout draws others on each device
    file = tmp_path / "run.pt"
    resumed = train(run, images, device=torch.device("cuda"), checkpoint=file)
    next(resumed)
    resumed.close()
    assert list(train(run, images, device=torch.device("cuda"), checkpoint=file))[-1][:4] == ends[0][:4]
