"""Estimators on Dask collections, on a cluster of two processes: the same models as in memory, lost workers included."""

import contextlib
import functools
import gc
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, cross_val_score

import finitesum

pytest.importorskip("distributed", reason="dask and distributed are not installed")

import dask
import dask.array as da
import dask.dataframe as dd
from distributed import Client, LocalCluster, wait

import finitesum.dask as on_dask
from finitesum import Problem, minimize
from finitesum.core.engine import Engine, PartError
from finitesum.dask import brought
from finitesum.dask.workers import WINDOW, workers_of
from finitesum.evaluation.row_products import gram_product
from finitesum.evaluation.row_sums import curvatures_at
from finitesum.methods import ACIAG
from finitesum.problems.beside import Beside

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),  # of Dask's own
]

N, D, CHUNK = 600, 4, 100

#: Passes that a fit is expected to take.
PASSES = brought.PASSES


@pytest.fixture(autouse=True)
def _rows_stay(monkeypatch):
    """Leave rows where they are, however few: what is tested here is the work on the cluster."""
    monkeypatch.setattr("finitesum.dask.brought.PASSES", 0.0)


@contextlib.contextmanager
def two_workers():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client():
    with two_workers() as client:
        yield client


@pytest.fixture
def mortal():
    """A cluster for one test, whose workers may be killed: on a loaded machine it can take minutes until they are back."""
    with two_workers() as client:
        yield client


def kill(client, n=1):
    """Kill the processes of some workers."""
    for pid in list(client.run(os.getpid).values())[:n]:
        os.kill(pid, signal.SIGKILL)


def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    signal_ = X @ [1.0, -0.5, 0.2, 0.0]
    return X, signal_ + rng.standard_normal(N), rng.random(N), rng


def chunked(*arrays):
    return [da.from_array(one, chunks=(CHUNK, *one.shape[1:])) for one in arrays]


CASES = {
    "two classes": ("LogisticRegression", {"C": 0.5}, lambda y: np.where(y > 0.0, "b", "a")),
    "three classes": ("LogisticRegression", {"C": 0.5}, lambda y: np.digitize(y, [-0.5, 0.5])),
    "l1": ("LogisticRegression", {"C": 0.05, "l1_ratio": 1.0}, lambda y: y > 0.0),
    "squared hinge": ("LinearSVC", {}, lambda y: y > 0.0),
    "probit": ("LinearClassifier", {"loss": "probit"}, lambda y: y > 0.0),
    "hinge": ("LinearSVC", {"loss": "hinge", "C": 0.5}, lambda y: y > 0.0),
    "absolute errors": ("LinearRegressor", {"loss": "quantile", "alpha": 0.01}, lambda y: y),
    "tubes, l1": ("LinearRegressor", {"loss": "epsilon-insensitive", "alpha": 0.02, "l1_ratio": 0.5}, lambda y: y),
    "ridge": ("Ridge", {"alpha": 2.0}, lambda y: y),
    "huber": ("LinearRegressor", {"loss": "huber", "bounds": (0.0, None)}, lambda y: y),
    "huber, a scale": ("HuberRegressor", {"scale": 0.5, "alpha": 0.01}, lambda y: y),
    "huber, joint": ("HuberRegressor", {"scale": "joint", "alpha": 0.01}, lambda y: y),
    "class weights": ("LogisticRegression", {"class_weight": "balanced"}, lambda y: np.digitize(y, [-1.0, 0.5])),
    "a class weight": ("LinearSVC", {"class_weight": {True: 3.0}}, lambda y: y > 0.5),
    "poisson": ("PoissonRegressor", {"alpha": 0.1}, lambda y: np.round(np.exp(0.3 * y))),
    "gamma": ("GammaRegressor", {"alpha": 0.1}, lambda y: np.exp(0.3 * y)),
    "tweedie": ("TweedieRegressor", {"alpha": 0.1, "power": 1.5}, lambda y: np.exp(0.3 * y)),
}


@pytest.mark.parametrize("case", CASES)
def test_models_and_predictions_are_those_in_memory(case, client):
    name, parameters, targets = CASES[case]
    X, y, weights, _ = data()
    y = targets(y)
    local = getattr(finitesum, name)(**parameters).fit(X, y, sample_weight=weights)
    dX, dy, dw = chunked(X, y, weights)
    model = getattr(on_dask, name)(client=client, **parameters).fit(dX, dy, sample_weight=dw)
    assert model.coef_ == pytest.approx(local.coef_, abs=1e-6)
    assert model.intercept_ == pytest.approx(local.intercept_, abs=1e-6)
    assert model.optimality_ <= model.tol
    lazy = model.predict(dX)
    assert isinstance(lazy, da.Array)
    found = lazy.compute()
    if found.dtype.kind == "f":
        assert found == pytest.approx(local.predict(X), abs=1e-5)
    else:
        np.testing.assert_array_equal(found, model.to_local().predict(X))
    assert model.score(dX, dy, dw).compute() == pytest.approx(local.score(X, y, weights), abs=1e-4)
    assert type(model.to_local()) is getattr(finitesum, name)
    if name == "LogisticRegression":
        assert model.predict_proba(dX).compute() == pytest.approx(local.predict_proba(X), abs=1e-5)


def test_dataframes_sparse_blocks_and_vectors_in_memory(client):
    X, y, _, _ = data()
    frame = pd.DataFrame(X, columns=["age", "dose", "site", "time"])
    known = finitesum.Ridge().fit(frame, y)
    lazy = dd.from_pandas(frame.assign(y=y), npartitions=3)
    model = on_dask.Ridge(client=client).fit(lazy[list(frame.columns)], lazy["y"])
    assert model.coef_ == pytest.approx(known.coef_, abs=1e-8)
    assert list(model.feature_names_in_) == list(frame.columns)
    assert model.predict(lazy[list(frame.columns)]).compute() == pytest.approx(known.predict(frame), abs=1e-7)
    (dX,) = chunked(X * (np.abs(X) > 0.5))
    sparse = dX.map_blocks(scipy.sparse.csr_matrix)
    known = finitesum.Ridge().fit(scipy.sparse.csr_array(dX.compute()), y)
    assert on_dask.Ridge(client=client).fit(sparse, y).coef_ == pytest.approx(known.coef_, abs=1e-7)


@pytest.mark.parametrize("case", ["two classes", "three classes", "ridge", "poisson", "gamma"])
def test_standard_errors_are_those_in_memory(case, client):
    name, parameters, targets = CASES[case]
    X, y, weights, _ = data()
    y = targets(y)
    parameters = parameters | {"standard_errors": True, "tol": 1e-11}
    local = getattr(finitesum, name)(**parameters).fit(X, y, sample_weight=weights)
    model = getattr(on_dask, name)(client=client, **parameters).fit(*chunked(X, y, weights))
    assert model.standard_errors_ == pytest.approx(local.standard_errors_, rel=1e-9)
    for number in ("log_likelihood", "deviance", "dispersion", "n_observations", "rank"):
        assert getattr(model.to_local().inference_, number) == pytest.approx(getattr(local.inference_, number), rel=1e-9)


@pytest.mark.parametrize("scale", [0.5, "joint"])
def test_outliers_of_huber_are_those_in_memory(scale, client):
    X, y, weights, _ = data()
    local = finitesum.HuberRegressor(scale=scale, epsilon=1.1).fit(X, y, sample_weight=weights)
    model = on_dask.HuberRegressor(client=client, scale=scale, epsilon=1.1).fit(*chunked(X, y, weights))
    np.testing.assert_array_equal(model.outliers_, local.outliers_)
    assert 0 < local.outliers_.sum() < N


@pytest.mark.parametrize("case", CASES)
def test_rows_that_are_few_bytes_are_fitted_here(case, client, monkeypatch):
    monkeypatch.setattr("finitesum.dask.brought.PASSES", PASSES)
    name, parameters, targets = CASES[case]
    X, y, weights, _ = data()
    y = targets(y)
    X[np.abs(X) < 0.5] = 0.0
    local = getattr(finitesum, name)(**parameters).fit(scipy.sparse.csr_array(X), y, sample_weight=weights)
    dX, dy, dw = chunked(X, y, weights)
    model = getattr(on_dask, name)(client=client, **parameters)
    model.fit(dX.map_blocks(scipy.sparse.csr_matrix), dy, sample_weight=dw)
    assert model.solver_ == local.solver_
    assert model.coef_ == pytest.approx(local.coef_, abs=1e-6)
    assert model.intercept_ == pytest.approx(local.intercept_, abs=1e-6)


def test_rows_come_here_where_a_point_is_as_large_as_they_are(client, monkeypatch):
    monkeypatch.setattr("finitesum.dask.brought.PASSES", PASSES)
    rng, settings = np.random.default_rng(0), {"loss": "multinomial", "alpha": 0.1, "engine": on_dask.DaskEngine(client)}
    y, wide = rng.integers(0, 5, 400), scipy.sparse.random_array((400, 100_000), density=1e-4, rng=rng, format="csr")
    tall = rng.standard_normal((400_000, 5))
    for X, labels, is_worth in ((wide, y, True), (tall, np.tile(y, 1000), False)):
        half = len(labels) // 2
        problem = Problem.partitioned([(X[:half], labels[:half]), (X[half:], labels[half:])], **settings)
        assert brought.is_worth_bringing(problem) is is_worth


def test_a_class_without_weight_counts_as_absent(client):
    X, y, weights, _ = data()
    labels = np.digitize(y, [-1.0, 1.0])
    weights[labels == 1] = 0.0
    local = finitesum.LogisticRegression(class_weight="balanced").fit(X, labels, sample_weight=weights)
    model = on_dask.LogisticRegression(client=client, class_weight="balanced").fit(*chunked(X, labels, weights))
    np.testing.assert_array_equal(model.classes_, local.classes_)
    assert model.coef_ == pytest.approx(local.coef_, abs=1e-6)


def test_refusals_say_where_to_go(client):
    X, y, _, _ = data()
    dX, dy = chunked(X, y)
    with pytest.raises(TypeError, match=r"X is a Dask collection: fit finitesum\.dask\.Ridge"):
        finitesum.Ridge().fit(dX, dy)
    with pytest.raises(TypeError, match="X must be a dask array or dataframe of rows and columns, got a ndarray"):
        on_dask.Ridge(client=client).fit(X, y)
    with pytest.raises(TypeError, match="got a Array of 1 dimensions"):
        on_dask.Ridge(client=client).fit(dy, dy)
    with pytest.raises(ValueError, match="y must have one dimension, got 2"):
        on_dask.Ridge(client=client).fit(dX, dX)
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        on_dask.LogisticRegression(client=client).fit(dX, dy)
    with pytest.raises(ValueError, match="y must have 600 entries to match the rows of X"):
        on_dask.Ridge(client=client).fit(dX, dy[:500])
    with pytest.raises(ValueError, match="LinearSVC takes two classes, got 3"):
        on_dask.LinearSVC(client=client).fit(dX, np.digitize(y, [-0.5, 0.5]))
    with pytest.raises(ValueError, match="y must have 600 entries"):
        on_dask.Ridge(client=client).fit(dX, y[:-1])
    with pytest.raises(ValueError, match='checkpoint is not known with scale="joint"'):
        on_dask.HuberRegressor(client=client, scale="joint", checkpoint="a.ckpt").fit(dX, dy)
    with pytest.raises(ValueError, match="class_weight has the labels"):
        on_dask.LogisticRegression(client=client, class_weight={"c": 2.0}).fit(dX, dy > 0.0)
    with pytest.raises(ValueError, match="standard_errors of a robust loss are not known for collections"):
        on_dask.LinearRegressor(client=client, loss="huber", standard_errors=True).fit(dX, dy)
    for name in ("LogisticRegression", "Ridge"):
        one, labels = getattr(on_dask, name)(client=client), (dy > 0.0).astype(int)
        for weight, says in (
            (-1.0, r"part \d.*weight must be >= 0, got -1.0"),
            (np.nan, r"part \d.*weight must be finite"),
        ):
            with pytest.raises(PartError, match=says):
                one.fit(dX, labels, sample_weight=da.full(N, weight, chunks=CHUNK))
        with pytest.raises(ValueError, match="must have a positive"):
            one.fit(dX, labels, sample_weight=da.zeros(N, chunks=CHUNK))
        with pytest.raises(ValueError, match="y must have a label or a target for each row of X, got None"):
            one.fit(dX, None)
    with pytest.raises(PartError, match=r"part 2.*y must be finite, got nan at position 50"):
        on_dask.LogisticRegression(client=client).fit(dX, np.where(np.arange(N) == 250, np.nan, y > 0.0))
    broken = X.copy()
    broken[250, 1] = np.nan
    (dX,) = chunked(broken)
    with pytest.raises(PartError, match=r"part 2.*X must be finite"):
        on_dask.Ridge(client=client).fit(dX, dy)


@pytest.mark.parametrize("method", ["newton", "lazy-newton", "newton-cg", "saga"])
def test_the_bits_do_not_depend_on_the_number_of_workers(method, client, monkeypatch):
    monkeypatch.setattr("finitesum.problems.beside.LEAST_BYTES", 0)
    X, y, weights, _ = data()
    signs = np.where(y > 0.0, 1.0, -1.0)
    parts = [(X[k : k + CHUNK], signs[k : k + CHUNK], weights[k : k + CHUNK]) for k in range(0, N, CHUNK)]

    def solution(engine):
        problem = Problem.partitioned(parts, alpha=0.01, engine=engine)
        return minimize(problem, method=method, tol=1e-8, max_iter=8)

    assert isinstance(on_dask.DaskEngine(client), Engine)
    one, two = solution(on_dask.DaskEngine(client)), None
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as alone:
        two = solution(on_dask.DaskEngine(alone))
    np.testing.assert_array_equal(one.x, two.x)
    here = solution(None)
    if method == "lazy-newton":  # which asks one part first where they are elsewhere
        assert one.x == pytest.approx(here.x, abs=1e-6)
    else:
        assert one.x == pytest.approx(here.x, rel=1e-9)
        assert one.n_passes == here.n_passes


@pytest.mark.parametrize("solver", ["exact", "cg"])
def test_scores_of_classes_stay_with_the_workers_to_the_same_bits(solver, client, monkeypatch):
    monkeypatch.setattr("finitesum.problems.beside.LEAST_BYTES", 0)
    X, y, _, _ = data()
    parts = [(X[k : k + CHUNK], np.digitize(y[k : k + CHUNK], [-0.5, 0.5])) for k in range(0, N, CHUNK)]
    settings = {"method": "multinomial-newton", "options": {"solver": solver}, "tol": 1e-9}
    here = minimize(Problem.partitioned(parts, loss="multinomial", alpha=1e-3), **settings)
    brought, each = [], Beside.numbers
    monkeypatch.setattr(Beside, "numbers", property(lambda self: brought.append(1) or each.fget(self)))
    engine = on_dask.DaskEngine(client)
    there = minimize(Problem.partitioned(parts, loss="multinomial", alpha=1e-3, engine=engine), **settings)
    assert there.success
    np.testing.assert_array_equal(there.x, here.x)
    assert not brought


@pytest.mark.parametrize("model", ["LogisticRegression", "HuberRegressor"])
def test_a_fit_leaves_nothing_with_the_workers(model, client):
    def count():
        return client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))

    X, y, weight, _ = data()
    dX, dy, dweight = client.persist(chunked(X, y > 0.0 if model == "LogisticRegression" else y, weight))
    wait([dX, dy, dweight])
    gc.collect()
    gc.disable()  # what refers to itself stays until it is collected
    try:
        before = count()
        models = [getattr(on_dask, model)(client=client).fit(dX, dy, dweight) for _ in range(2)]
        deadline = time.monotonic() + 20.0
        while count() > before and time.monotonic() < deadline:
            time.sleep(0.05)
        assert count() <= before
    finally:
        gc.enable()
    assert (models[0].coef_ == models[1].coef_).all()


@pytest.mark.parametrize(("seconds", "least_bytes"), [(0.05, 1 << 16), (0.4, 1 << 16), (0.4, 0)])
def test_a_killed_worker_costs_its_parts_and_no_bit(seconds, least_bytes, mortal, monkeypatch):
    monkeypatch.setattr("finitesum.problems.beside.LEAST_BYTES", least_bytes)  # 0: numbers by row stay with the workers
    X, y, _, _ = data()
    dX, dy = chunked(np.tile(X, (5, 1)), np.tile(y > 0.0, 5))
    parameters = {"client": mortal, "tol": 1e-9, "solver": "newton"}
    known = on_dask.LogisticRegression(**parameters).fit(dX, dy)
    pid = next(iter(mortal.run(os.getpid).values()))
    killer = threading.Timer(seconds, os.kill, (pid, signal.SIGKILL))
    killer.start()
    model = on_dask.LogisticRegression(**parameters).fit(dX, dy)
    killer.join()
    np.testing.assert_array_equal(model.coef_, known.coef_)


def test_numbers_by_row_that_are_lost_with_their_worker_are_computed_again(mortal, monkeypatch):
    monkeypatch.setattr("finitesum.problems.beside.LEAST_BYTES", 0)
    X, y, _, _ = data()
    parts = [(X[k : k + CHUNK], np.where(y[k : k + CHUNK] > 0.0, 1.0, -1.0)) for k in range(0, N, CHUNK)]
    problem = Problem.partitioned(parts, alpha=0.01, engine=on_dask.DaskEngine(mortal))
    here = Problem.partitioned(parts, alpha=0.01)
    w = np.full(D, 0.1)
    curvatures, expected = curvatures_at(problem, w), curvatures_at(here, w)
    assert isinstance(curvatures, Beside)
    kill(mortal)
    np.testing.assert_array_equal(gram_product(problem, curvatures, w), gram_product(here, expected, w))
    np.testing.assert_array_equal(curvatures, expected)


@pytest.mark.parametrize("n_killed", [0, 1])
def test_points_that_are_sent_to_each_worker_once_change_no_bit(n_killed, mortal, monkeypatch):
    monkeypatch.setattr("finitesum.dask.engine.LARGE", 0)
    monkeypatch.setattr("finitesum.problems.partitioned.MOST_BROUGHT", 0)  # results are added up where they are
    X, y, _, _ = data()
    parts = [(X[k : k + CHUNK], np.where(y[k : k + CHUNK] > 0.0, 1.0, -1.0)) for k in range(0, N, CHUNK)]
    known = minimize(Problem.partitioned(parts, alpha=0.01), method="newton", tol=1e-9)

    def kills(report):
        if report.nit == 2:
            kill(mortal, n_killed)

    problem = Problem.partitioned(parts, alpha=0.01, engine=on_dask.DaskEngine(mortal))
    np.testing.assert_array_equal(minimize(problem, method="newton", tol=1e-9, callback=kills).x, known.x)


def test_calls_that_were_given_to_a_worker_that_is_killed_go_to_others(mortal, monkeypatch):
    monkeypatch.setattr("finitesum.dask.engine.PATIENCE", 0.5)
    X, y, _, _ = data()
    parts = [(X[k : k + CHUNK], np.where(y[k : k + CHUNK] > 0.0, 1.0, -1.0)) for k in range(0, N, CHUNK)]
    settings = {"method": ACIAG(max_delay=2, asynchronous=False), "tol": 1e-10, "measure_every": 0}
    known = minimize(Problem.partitioned(parts, alpha=0.01), **settings)
    problem = Problem.partitioned(parts, alpha=0.01, engine=on_dask.DaskEngine(mortal))
    workers, processes = workers_of(mortal), mortal.run(os.getpid)
    (fast, pid), (slow, _) = processes.items()
    tell = {"n_threads": 1, "part": problem.rows.parts[0].handle.key, "call": ""}
    deadline = time.monotonic() + 10.0
    while tell["part"] not in workers._n_bytes and time.monotonic() < deadline:
        time.sleep(0.01)  # reports come after results
    for _ in range(WINDOW):
        for worker, seconds in ((slow, 1e4), (fast, 1.0)):
            workers._noted((0.0, {**tell, "worker": worker, "seconds": seconds}))
    assert workers.choice(tell["part"]) == fast
    os.kill(pid, signal.SIGKILL)
    result = minimize(problem, **settings)
    np.testing.assert_array_equal(result.x, known.x)


def test_data_that_differ_when_a_lost_part_is_loaded_again_are_noticed(mortal, tmp_path, monkeypatch):
    monkeypatch.setattr("finitesum.dask.engine.PATIENCE", 30.0)  # all workers are killed, and started again
    X, y, _, _ = data()
    for k in range(0, N, CHUNK):
        np.savez(tmp_path / f"{k}.npz", X=X[k : k + CHUNK], y=np.where(y[k : k + CHUNK] > 0.0, 1.0, -1.0))

    def read(k):
        held = np.load(tmp_path / f"{k}.npz")
        return held["X"], held["y"]

    def changes(report):
        if report.nit == 2:
            np.savez(tmp_path / "0.npz", X=X[:CHUNK] + 1e-9, y=np.where(y[:CHUNK] > 0.0, 1.0, -1.0))
            kill(mortal, 2)

    parts = [functools.partial(read, k) for k in range(0, N, CHUNK)]
    problem = Problem.partitioned(parts, alpha=0.01, engine=on_dask.DaskEngine(mortal))
    with pytest.raises(PartError, match="part 0: its data have changed since they were first read"):
        minimize(problem, method="afg", tol=1e-10, callback=changes)


def test_where_all_workers_are_lost_it_is_said_and_another_cluster_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr("finitesum.dask.engine.PATIENCE", 0.3)
    X, y, _, _ = data()
    parts = [(X[k : k + CHUNK], np.where(y[k : k + CHUNK] > 0.0, 1.0, -1.0)) for k in range(0, N, CHUNK)]
    settings = {"method": ACIAG(max_delay=2, asynchronous=False), "tol": 1e-10, "measure_every": 0}
    whole = minimize(Problem.partitioned(parts, alpha=0.01), **settings)
    settings["checkpoint"] = tmp_path / "run.ckpt"

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as many:
        problem = Problem.partitioned(parts, alpha=0.01, engine=on_dask.DaskEngine(many))
        with pytest.raises(PartError, match="all workers of the Dask cluster are lost"):
            minimize(problem, callback=lambda report: cluster.scale(0) if report.nit == 2 else None, **settings)
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as alone:
        problem = Problem.partitioned(parts, alpha=0.01, engine=on_dask.DaskEngine(alone))
        resumed = minimize(problem, resume=True, **settings)
    assert resumed.success
    assert resumed.x == pytest.approx(whole.x, rel=1e-9)
    assert resumed.n_passes == whole.n_passes


#: A process that fits on a cluster, whose address it is given, and says when it has taken some passes.
CLIENT = """
import sys, time
import numpy as np
from distributed import Client
from finitesum import Problem, minimize
from finitesum.dask import DaskEngine

address, arrays, checkpoint = sys.argv[1:]
with np.load(arrays) as file:
    X, signs = file["X"], file["signs"]
parts = [(X[k : k + 50], signs[k : k + 50]) for k in range(0, len(X), 50)]

def wait(report):
    if report.nit == 3:
        print("three passes", flush=True)
        time.sleep(600)

problem = Problem.partitioned(parts, alpha=0.01, engine=DaskEngine(Client(address)))
settings = {"method": "newton", "tol": 1e-10, "measure_every": 0, "checkpoint_seconds": 0}
minimize(problem, checkpoint=checkpoint, callback=wait, **settings)
"""


def test_a_client_that_is_killed_is_resumed_by_another_to_the_same_bits(client, tmp_path):
    X, y, _, _ = data()
    signs, seen = np.where(y > 0.0, 1.0, -1.0), []
    np.savez(tmp_path / "arrays.npz", X=X, signs=signs)
    arguments = [client.scheduler.address, str(tmp_path / "arrays.npz"), str(tmp_path / "run.ckpt")]
    with subprocess.Popen([sys.executable, "-c", CLIENT, *arguments], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "three passes\n"
        other.kill()
    parts = [(X[k : k + 50], signs[k : k + 50]) for k in range(0, len(X), 50)]
    settings = {"method": "newton", "tol": 1e-10, "measure_every": 0}
    whole = minimize(Problem.partitioned(parts, alpha=0.01, engine=on_dask.DaskEngine(client)), **settings)
    resumed = minimize(
        Problem.partitioned(parts, alpha=0.01, engine=on_dask.DaskEngine(client)),
        checkpoint=tmp_path / "run.ckpt",
        resume=True,
        callback=lambda report: seen.append(report.nit),
        **settings,
    )
    assert whole.success
    assert resumed.x.tobytes() == whole.x.tobytes()
    assert seen[0] > 2
    assert resumed.nit == whole.nit


def test_an_estimator_goes_on_from_its_checkpoint_on_a_cluster_of_another_size(client, tmp_path):
    X, y, _, _ = data()
    parameters = {"client": client, "solver": "newton", "tol": 1e-10}
    known = on_dask.LogisticRegression(**parameters).fit(*chunked(X, y > 0.0))
    parameters["checkpoint"] = tmp_path / "fit.ckpt"
    with pytest.warns(ConvergenceWarning):
        on_dask.LogisticRegression(max_iter=2, **parameters).fit(*chunked(X, y > 0.0))
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as alone:
        parameters["client"], seen = alone, []
        resumed = on_dask.LogisticRegression(callback=lambda report: seen.append(report.nit), **parameters)
        resumed.fit(*chunked(X, y > 0.0))
    np.testing.assert_array_equal(resumed.coef_, known.coef_)
    assert seen[0] > 1


def test_parts_of_all_kinds(client, tmp_path):
    X, y, _, _ = data()
    signs = np.where(y > 0.0, 1.0, -1.0)
    blocks = [(X[k : k + CHUNK], signs[k : k + CHUNK]) for k in range(0, N, CHUNK)]
    np.savez(tmp_path / "part.npz", X=blocks[0][0], y=blocks[0][1])
    loaded = [dask.delayed(one) for one in blocks[2:]]
    parts = [tmp_path / "part.npz", functools.partial(tuple, blocks[1]), *loaded]
    known = minimize(Problem.partitioned(blocks, alpha=0.01), tol=1e-10).x
    for engine in (None, on_dask.DaskEngine(client)):
        found = minimize(Problem.partitioned(parts, alpha=0.01, engine=engine), tol=1e-10).x
        assert found == pytest.approx(known, abs=1e-8)


def test_without_a_barrier_on_a_cluster(client):
    X, y, weights, _ = data()
    signs = np.where(y > 0.0, 1.0, -1.0)
    parts = [(X[k : k + CHUNK], signs[k : k + CHUNK], weights[k : k + CHUNK]) for k in range(0, N, CHUNK)]
    problem = Problem.partitioned(parts, alpha=0.01, engine=on_dask.DaskEngine(client))
    here = minimize(Problem.partitioned(parts, alpha=0.01), method="newton", tol=1e-10)
    for asynchronous in (False, True):
        result = minimize(problem, method=ACIAG(max_delay="auto", asynchronous=asynchronous), tol=1e-10)
        assert result.success
        assert result.x == pytest.approx(here.x, abs=2e-8)  # two gradients of 1e-10, over the least curvature


def _become_slow():
    """Have each call for a part take some time more in this process."""
    import finitesum.problems.part_jobs as parted

    run = parted.run_job

    def slowly(*arguments):
        time.sleep(0.3)
        return run(*arguments)

    parted.run_job = slowly


def test_a_worker_that_becomes_slow_is_waited_for_no_longer(monkeypatch):
    monkeypatch.setattr("finitesum.methods.rounds.HESSIANS", 0.0)  # wherever Dask has put the parts
    rng = np.random.default_rng(1)
    X = rng.standard_normal((1200, D))
    signs = np.where(X @ [1.0, -0.5, 0.2, 0.0] + 0.3 * rng.logistic(size=1200) > 0.0, 1.0, -1.0)
    parts = [(X[k : k + CHUNK], signs[k : k + CHUNK]) for k in range(0, 1200, CHUNK)]
    here = minimize(Problem.partitioned(parts, alpha=1e-3), method="newton", tol=1e-10)
    with (
        dask.config.set({"distributed.scheduler.work-stealing": False}),  # else idle workers take parts, rounds later
        LocalCluster(n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        problem = Problem.partitioned(parts, alpha=1e-3, engine=on_dask.DaskEngine(client))
        problem.rows.arrivals = [0.1 * (k + 1) for k in range(len(parts))]  # when they were first read, all were even
        places = client.who_has([part.handle for part in problem.rows.parts])
        held = [workers[0] for workers in places.values()]
        client.run(_become_slow, workers=[min(set(held), key=held.count)])  # where the fewest parts are
        result = minimize(problem, tol=1e-8, measure_every=0)
    assert result.success
    assert result.method.name == "a-ciag"
    assert "Rounds were synchronous at first, and are asynchronous now: in the last 3 rounds before" in result.message
    assert result.x == pytest.approx(here.x, abs=1e-5)


def test_without_a_client_it_is_said(monkeypatch):
    def no_client():
        raise ValueError("No global client found")

    monkeypatch.setattr("distributed.get_client", no_client)
    X, y, _, _ = data()
    dX, dy = chunked(X, y)
    with pytest.raises(ValueError, match=r"there is no Dask client: make one by distributed\.Client"):
        on_dask.Ridge().fit(dX, dy)


def test_the_bits_are_those_of_seven_workers(client):
    X, y, weights, _ = data()
    signs = np.where(y > 0.0, 1.0, -1.0)
    parts = [(X[k : k + 40], signs[k : k + 40], weights[k : k + 40]) for k in range(0, N, 40)]

    def solution(method, one):
        problem = Problem.partitioned(parts, alpha=0.01, engine=on_dask.DaskEngine(one))
        return minimize(problem, method=method, tol=1e-8, max_iter=8, measure_every=0).x.tobytes()

    threads = {"processes": False, "threads_per_worker": 1, "dashboard_address": None}
    methods = ("fg", "newton", "lazy-newton", "newton-cg", "saga")
    with LocalCluster(n_workers=7, **threads) as cluster, Client(cluster) as seven:
        found = [solution(method, seven) for method in methods]
    with LocalCluster(n_workers=1, **threads) as cluster, Client(cluster) as alone:
        assert found == [solution(method, alone) for method in methods]
    assert found == [solution(method, client) for method in methods]


@pytest.mark.parametrize("case", ["two classes", "three classes", "ridge", "class weights", "huber, joint"])
def test_empty_blocks_change_no_bit_and_have_empty_predictions(case, client):
    name, parameters, targets = CASES[case]
    X, y, weights, _ = data()
    y = targets(y)
    kept = np.ones(N, dtype=bool)
    kept[: 2 * CHUNK] = kept[3 * CHUNK : 4 * CHUNK] = False
    kept[::7] = False
    full = chunked(X, y, weights, kept)
    dX, dy, dw = (one[full[3]] for one in full[:3])  # of unknown lengths
    places = [2, 4, 5]
    known = getattr(on_dask, name)(client=client, **parameters)
    known.fit(*(da.concatenate([one.blocks[k] for k in places]) for one in (dX, dy, dw)))
    model = getattr(on_dask, name)(client=client, **parameters).fit(dX, dy, dw)
    np.testing.assert_array_equal(model.coef_, known.coef_)
    np.testing.assert_array_equal(model.intercept_, known.intercept_)
    local = model.to_local()
    np.testing.assert_array_equal(model.predict(dX).compute(), local.predict(X[kept]))
    assert model.score(dX, dy, dw).compute() == pytest.approx(local.score(X[kept], y[kept], weights[kept]), abs=1e-12)
    if hasattr(model, "classes_"):
        assert local.classes_.dtype == y.dtype
        assert model.predict(dX).compute().dtype == y.dtype
    if name == "LogisticRegression":
        np.testing.assert_array_equal(model.predict_proba(dX).compute(), local.predict_proba(X[kept]))
    with pytest.raises(ValueError, match=r"X must have at least one row, got none in all parts \(6\)"):
        getattr(on_dask, name)(client=client, **parameters).fit(*(one[~full[3] & full[3]] for one in full[:2]))


def test_empty_blocks_of_dataframes_are_left_out(client):
    X, y, _, _ = data()
    frame = pd.DataFrame(X, columns=["age", "dose", "site", "time"]).assign(sick=y > 0.0, row=np.arange(N))
    lazy = dd.from_pandas(frame, npartitions=6)
    lazy = lazy[lazy.row < 250]
    names = list(frame.columns[:4])
    known = finitesum.LogisticRegression().fit(frame[names][:250], frame.sick[:250])
    model = on_dask.LogisticRegression(client=client).fit(lazy[names], lazy.sick)
    assert model.coef_ == pytest.approx(known.coef_, abs=1e-6)
    assert model.predict_proba(lazy[names]).compute() == pytest.approx(known.predict_proba(frame[names][:250]), abs=1e-6)


FRAMES = {
    "bool beside float": lambda frame: frame.assign(site=frame.site > 0.0),
    "Int64": lambda frame: frame.assign(site=frame.site.round().astype("Int64")),
    "float32 beside int": lambda frame: frame.astype("float32").assign(site=frame.site.round().astype(int)),
    "pyarrow": lambda frame: frame.astype("float64[pyarrow]"),
}


@pytest.mark.parametrize("case", FRAMES)
def test_columns_of_dataframes_are_converted_as_in_memory(case, client):
    X, y, _, _ = data()
    frame = FRAMES[case](pd.DataFrame(X, columns=["age", "dose", "site", "time"]))
    known = finitesum.LogisticRegression().fit(frame, y > 0.0)
    lazy = dd.from_pandas(frame, npartitions=3)
    model = on_dask.LogisticRegression(client=client).fit(lazy, dd.from_pandas(pd.Series(y > 0.0), npartitions=3))
    assert model.coef_.dtype == known.coef_.dtype
    assert model.coef_ == pytest.approx(known.coef_, abs=1e-6)
    assert model.predict_proba(lazy).compute() == pytest.approx(known.predict_proba(frame), abs=1e-6)
    gap = frame.assign(dose=pd.array([None] + [1] * (N - 1), dtype="Int64"))
    with pytest.raises(PartError, match=r"part 0.*X must be finite, got nan in row 0, column 1"):
        on_dask.Ridge(client=client).fit(dd.from_pandas(gap, npartitions=3), dd.from_pandas(pd.Series(y), npartitions=3))
    text = dd.from_pandas(frame.assign(dose="none"), npartitions=3)
    with pytest.raises(PartError, match=r"part \d.*could not convert string to float: 'none'"):
        on_dask.Ridge(client=client).fit(text, dd.from_pandas(pd.Series(y), npartitions=3))


def test_what_is_no_open_client_is_refused(client):
    dX, dy = chunked(*data()[:2])
    for given, kind in ((client.scheduler.address, "str"), (client.cluster, "LocalCluster"), (3, "int")):
        with pytest.raises(
            TypeError, match=rf"client must be a distributed\.Client, got a {kind}: give distributed\.Client\("
        ):
            on_dask.Ridge(client=given).fit(dX, dy)
    closed = Client(client.scheduler.address, set_as_default=False)
    closed.close()
    with pytest.raises(ValueError, match="client must be open, got one that is closed: make another one by distributed"):
        on_dask.Ridge(client=closed).fit(dX, dy)


def test_clones_have_the_same_client(client):
    model = on_dask.LogisticRegression(client=client, C=0.3, penalty_weights=[1.0, 2.0, 1.0, 1.0])
    other = clone(model)
    assert other.client is client
    assert other.get_params().keys() == model.get_params().keys()
    assert (other.C, other.penalty_weights) == (0.3, [1.0, 2.0, 1.0, 1.0])
    assert other.penalty_weights is not model.penalty_weights
    X, y, _, _ = data()
    model.fit(*chunked(X, y > 0.0))
    assert not hasattr(clone(model), "coef_")
    assert model.client is client


def test_searches_of_scikit_learn_choose_as_in_memory(client):
    X, y, _, _ = data()
    dX, dy = chunked(X, y > 0.0)
    grid = {"C": [1e-4, 1e-2, 1.0]}
    known = GridSearchCV(finitesum.LogisticRegression(), grid, cv=3).fit(X, y > 0.0)
    found = GridSearchCV(on_dask.LogisticRegression(client=client), grid, cv=3).fit(dX, dy)
    assert found.best_params_ == known.best_params_
    assert found.cv_results_["mean_test_score"] == pytest.approx(known.cv_results_["mean_test_score"], abs=1e-12)
    assert found.best_estimator_.client is client
    scores = cross_val_score(on_dask.Ridge(client=client), *chunked(X, y), cv=3)
    assert scores == pytest.approx(cross_val_score(finitesum.Ridge(), X, y, cv=3), abs=1e-6)


def test_where_all_workers_are_lost_an_estimator_says_that_the_same_call_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr("finitesum.dask.engine.PATIENCE", 0.3)
    X, y, _, _ = data()
    file = tmp_path / "fit.ckpt"
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as many:
        stops = {"callback": lambda report: cluster.scale(0) if report.nit == 2 else None}
        model = on_dask.LogisticRegression(client=many, solver="afg", tol=1e-12, checkpoint=file, **stops)
        with pytest.raises(PartError, match="all workers of the Dask cluster are lost") as raised:
            model.fit(*chunked(X, y > 0.0))
    assert raised.value.__notes__ == [f"The run was written to {file}; the same call goes on from there."]
