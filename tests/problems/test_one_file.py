"""Rows in parts that methods visit one by one: written to one mapped file, to the bits of the same rows in memory."""

import errno
import itertools

import numpy as np
import pytest
import scipy.sparse

from finitesum import METHODS, Problem, minimize
from finitesum.constraints import L1Ball, Simplex
from finitesum.core.engine import PartError, Threads
from finitesum.core.mapped import mapping_of
from finitesum.methods import SAGA, as_method
from finitesum.methods.base import is_suited
from finitesum.problems import one_file
from finitesum.problems.one_file import in_one_file
from finitesum.running.sampling import order_for

CUTS = (0, 40, 41, 100, 160)


def arrays(loss="logistic", n=CUTS[-1], d=6):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6)
    signal = X @ rng.standard_normal(d) + rng.standard_normal(n)
    y = np.digitize(signal, [-1.0, 1.0]) if loss == "multinomial" else np.where(signal > 0.0, "yes", "no")
    return X, y, rng.integers(0, 4, n).astype(float), 0.2 * rng.standard_normal(n)


def whole_and_parts(loss="logistic", form=np.asarray, weighted=True, **term):
    X, y, weight, offset = arrays(loss)
    given = (form(X), y, *((weight, offset) if weighted else ()))
    more = {"sample_weight": weight, "offset": offset} if weighted else {}
    parts = [tuple(array[a:b] for array in given) for a, b in itertools.pairwise(CUTS)]
    settings = {"loss": loss, "fit_intercept": True, **term}
    return Problem.linear(*given[:2], **settings, **more), Problem.partitioned(parts, **settings)


#: Methods that neither add sums over parts nor see a part as a component: what they read are rows.
BY_ROWS = [name for name in METHODS if not {"parts", "components"} & METHODS[name].handles]
BY_COMPONENTS = [name for name in METHODS if "components" in METHODS[name].handles and "parts" not in METHODS[name].handles]


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
@pytest.mark.parametrize("name", BY_ROWS)
def test_methods_that_read_rows_take_parts_to_the_same_bits(name, form):
    terms = [{"alpha": 0.05}, {"loss": "hinge", "alpha": 0.05}, {"loss": "hinge", "constraint": L1Ball(0.7)}]
    terms.append({"loss": "multinomial", "alpha": 0.02, "l1_ratio": 1.0, "weighted": False})
    tried = 0
    for term in terms:
        whole, parts = whole_and_parts(form=form, **term)
        if is_suited(as_method(name), whole):
            expected, found = (minimize(one, method=name, tol=1e-6, max_iter=4) for one in (whole, parts))
            assert found.x.tobytes() == expected.x.tobytes()
            assert found.fun == expected.fun
            tried += 1
    assert tried > 0


@pytest.mark.parametrize("loss", ["logistic", "multinomial"])
@pytest.mark.parametrize("name", BY_COMPONENTS)
def test_visits_of_a_few_rows_are_those_in_memory_to_the_bit(name, loss):
    whole, parts = whole_and_parts(loss, weighted=loss == "logistic", alpha=0.05)
    expected, found = (minimize(one.batched(3), method=name, tol=1e-6, max_iter=3) for one in (whole, parts))
    assert found.x.tobytes() == expected.x.tobytes()


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
def test_rows_are_mapped_and_a_run_is_resumed_to_the_same_bits(form, tmp_path, monkeypatch):
    monkeypatch.setattr(one_file, "LEAST_BYTES", 0)
    _, parts = whole_and_parts(form=form, alpha=0.05)
    rows = in_one_file(parts).rows
    assert mapping_of(rows.values) is not None
    run = {"method": "saga", "tol": 1e-9}
    expected = minimize(parts.batched(1), **run)
    minimize(parts.batched(1), max_iter=2, checkpoint=tmp_path / "run.npz", **run)
    found = minimize(parts.batched(1), checkpoint=tmp_path / "run.npz", resume=True, **run)
    assert expected.success
    assert found.x.tobytes() == expected.x.tobytes()


def test_components_of_a_part_follow_each_other_where_the_file_is_large(monkeypatch):
    monkeypatch.setattr(one_file, "MOST_AT_RANDOM", 0)
    whole, parts = whole_and_parts(alpha=0.05)
    together = in_one_file(parts).batched(1)
    for sampling in ("shuffled", "with-replacement"):
        order = order_for(together, sampling, 0, 0)
        part_of = np.searchsorted(CUTS[1:-1], order, side="right")
        assert np.count_nonzero(np.diff(part_of)) == np.unique(part_of).size - 1
    expected, found = (minimize(one, method="saga", tol=1e-9) for one in (whole, parts.batched(1)))
    assert found.success
    np.testing.assert_allclose(found.x, expected.x, atol=1e-7)


def test_a_part_is_a_component_where_components_are_large_or_asked_for_ahead():
    _, parts = whole_and_parts(alpha=0.05)
    assert minimize(parts, method="saga", max_iter=2, tol=0.0).batch_size == 1  # of four parts
    ahead = minimize(parts.batched(20), method=SAGA(max_delay=2), tol=1e-6, max_iter=400)
    assert "Visits of parts" in ahead.message


def test_a_disk_without_room_is_said_before_anything_is_written(monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(one_file, "LEAST_BYTES", 0)
    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(PartError, match=r"No space left.*Threads\(folder=\.\.\.\)"):
        minimize(whole_and_parts(alpha=0.05)[1], method="adam")


def test_what_a_method_cannot_treat_is_refused_before_rows_are_written(monkeypatch):
    monkeypatch.setattr("finitesum.running.driver.in_one_file", None)
    with pytest.raises(ValueError, match="dual-ascent cannot treat a constraint"):
        minimize(whole_and_parts(constraint=Simplex())[1], method="dual-ascent")


def test_files_go_with_their_engine_and_problem(tmp_path, monkeypatch):
    monkeypatch.setattr(one_file, "LEAST_BYTES", 0)
    engine = Threads(1, folder=tmp_path)
    X, y, *_ = arrays()
    problem = Problem.partitioned([(X[:80], y[:80]), (X[80:], y[80:])], alpha=0.1, engine=engine)
    minimize(problem, method="adam", max_iter=2)
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]
    engine.close()
