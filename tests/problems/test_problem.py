"""The problem: bad input is one clear error each, weights are repetitions, fingerprints tell problems apart."""

import hashlib
import inspect
from typing import ClassVar, NamedTuple

import numpy as np
import pytest
import scipy.sparse
from contracts.problems import as_format

from finitesum import Problem, losses, minimize
from finitesum.constraints import L1Ball, L2Ball, Unconstrained
from finitesum.evaluation.optimality import evaluate
from finitesum.losses import Hinge, Huber, Logistic, Poisson, SmoothedHinge
from finitesum.problems.penalties import ElasticNet

X = np.array([[1.0, 2.0], [0.0, -1.0], [3.0, 0.5], [-1.0, 1.0]])
LABELS = [0, 1, 1, 0]
NUMBERS = [0.5, 1.5, -1.0, 2.0]


def linear(**changes):
    arguments = {"X": X, "y": LABELS, **changes}
    return Problem.linear(arguments.pop("X"), arguments.pop("y"), **arguments)


# -- refusals: arguments that differ from a good call, and the whole beginning of the message

REFUSED = {
    "X without axes": ({"X": 3.0}, r"X must have two axes \(rows and columns\), got shape \(\)"),
    "no rows": ({"X": np.zeros((0, 2)), "y": []}, r"X must have at least one row and one column, got shape \(0, 2\)"),
    "no columns": ({"X": np.zeros((4, 0))}, r"X must have at least one row and one column, got shape \(4, 0\)"),
    "NaN in X": ({"X": [[1.0], [np.nan], [0.0], [0.0]]}, r"X must be finite, got nan in row 1, column 0"),
    "inf in X": ({"X": [[1.0], [0.0], [np.inf], [0.0]]}, r"X must be finite, got inf in row 2, column 0"),
    "text in X": ({"X": [["a"], ["b"], ["c"], ["d"]]}, r"X must hold numbers, got <U1\. Encode"),
    "too few labels": ({"y": LABELS[:3]}, r"y must have shape \(4,\) to match the rows of X, got \(3,\)"),
    "no labels": ({"y": []}, r"y must have shape \(4,\) to match the rows of X, got \(0,\)"),
    "two columns of labels": ({"y": np.eye(4)[:, :2]}, r"y must have shape \(4,\) .* got \(4, 2\)"),
    "a row of labels": ({"y": [LABELS]}, r"y must have shape \(4,\) .* got \(1, 4\)"),
    "one label": ({"y": 1}, r"y must have shape \(4,\) .* got \(\)"),
    "ragged labels": ({"y": [0, 1, [1, 0], 0]}, r"y must be a vector: "),
    "a NaN label": ({"y": [0.0, 1.0, np.nan, 1.0]}, r"y must be finite, got nan at position 2\. Drop rows"),
    "an infinite label": ({"y": [0.0, np.inf, 1.0, 1.0]}, r"y must be finite, got inf at position 1\. Drop rows"),
    "a missing label": ({"y": ["a", "b", None, "a"]}, r"y must not lack labels, got None at position 2\. Drop rows"),
    "NaN among objects": (
        {"y": np.array([0.0, np.nan, 0.0, np.nan], dtype=object)},
        r"y must not lack labels, got nan at position 1\. Drop rows",
    ),
    "a label without a date": (
        {"y": np.array(["2020-01-01", "NaT", "2020-01-01", "2021-01-01"], dtype="M8[D]")},
        r"y must not lack labels, got NaT at position 1\. Drop rows",
    ),
    "labels of two kinds": (
        {"y": np.array([1, "a", 1, "a"], dtype=object)},
        r"y must hold labels of one kind: .* Convert them to strings first",
    ),
    "masked labels": ({"y": np.ma.masked_array(LABELS, [0, 1, 0, 0])}, r"y must not have masked entries\. Drop"),
    "one class": ({"y": [7, 7, 7, 7]}, r"y must hold two classes for Logistic, got one class only: 7\. Check"),
    "three classes": ({"y": [1, 2, 3, 1]}, r"y must hold two classes for Logistic, got 3 classes: 1, 2, 3\. Check"),
    "one class by weights": (
        {"y": ["a", "b", "a", "b"], "sample_weight": [1.0, 0.0, 2.0, 0.0]},
        r"y holds one class only: every row of class .*'b'.* has weight 0\.",
    ),
    "text as numbers": ({"y": ["a", "b", "c", "d"], "loss": "squared"}, r"y must hold numbers: could not convert"),
    "complex numbers": ({"y": [1j, 0, 1, 2], "loss": "squared"}, r"y must hold numbers, got complex128"),
    "dates as numbers": (
        {"y": np.array(["2020-01-01"] * 4, dtype="M8[D]"), "loss": "squared"},
        r"y must hold numbers, got datetime64\[D\]",
    ),
    "a NaN number": ({"y": [1.0, 2.0, 3.0, np.nan], "loss": "huber"}, r"y must be finite, got nan at position 3"),
    "no number": ({"y": [1.0, None, 3.0, 4.0], "loss": "squared"}, r"y must be finite, got nan at position 1"),
    "negative counts": (
        {"y": [1.0, 0.0, -2.0, 1.0], "loss": "poisson"},
        r"y must be >= 0 for Poisson, got -2\.0 at position 2",
    ),
    "too few weights": ({"sample_weight": [1.0]}, r"sample_weight must have shape \(4,\) .* got \(1,\)"),
    "one weight": ({"sample_weight": 1.0}, r"sample_weight must have shape \(4,\) .* got "),
    "a negative weight": ({"sample_weight": [1.0, -0.5, 1.0, 1.0]}, r"sample_weight must be >= 0, got -0\.5 at position 1"),
    "a NaN weight": ({"sample_weight": [1.0, np.nan, 1, 1]}, r"sample_weight must be finite, got nan at position 1"),
    "all weights zero": ({"sample_weight": [0.0] * 4}, r"sample_weight must have a positive sum, got zeros only"),
    "weights beyond all sums": ({"sample_weight": [1e308] * 4}, r"sample_weight must have a finite sum, got one"),
    "text as weights": ({"sample_weight": ["a"] * 4}, r"sample_weight must hold numbers: "),
    "too many offsets": ({"offset": [0.0] * 5}, r"offset must have shape \(4,\) to match the rows of X, got \(5,\)"),
    "an infinite offset": ({"offset": [0.0, np.inf, 0, 0]}, r"offset must be finite, got inf at position 1"),
    "a negative alpha": ({"alpha": -1.0}, r"alpha must be a number >= 0 and finite, got -1\.0"),
    "a NaN alpha": ({"alpha": float("nan")}, r"alpha must be a number >= 0 and finite, got nan"),
    "an alpha of text": ({"alpha": "1"}, r"alpha must be a number >= 0 and finite, got '1'"),
    "a ratio above 1": ({"alpha": 1.0, "l1_ratio": 1.5}, r"l1_ratio must be a number in \[0, 1\], got 1\.5"),
    "an unknown loss": ({"loss": "logit"}, r"loss must be one of .*, got 'logit'"),
    "a bad loss": ({"loss": Huber(-1.0), "y": NUMBERS}, r"threshold of Huber must be > 0 and finite, got -1\.0"),
    "batches of nothing": ({"batch_size": 0}, r"batch_size must be a whole number >= 1, got 0"),
    "batches of a half": ({"batch_size": 1.5}, r"batch_size must be a whole number >= 1, got 1\.5"),
    "batches of NaN": ({"batch_size": float("nan")}, r"batch_size must be a whole number >= 1, got nan"),
    "endless batches": ({"batch_size": float("inf")}, r"batch_size must be a whole number >= 1, got inf"),
    "batches of text": ({"batch_size": "32"}, r"batch_size must be a whole number >= 1, got '32'"),
    "l1 and a set": (
        {"alpha": 1.0, "l1_ratio": 0.5, "constraint": L2Ball(1.0)},
        r"an l1 penalty goes with bounds of coefficients, such as .* set l1_ratio to 0 or leave constraint out",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_one_clear_error(case):
    changes, message = REFUSED[case]
    with pytest.raises(ValueError, match=f"^{message}"):
        linear(**changes)


def test_a_wrong_kind_of_argument_is_a_type_error():
    with pytest.raises(TypeError, match=r"^loss must be a name or a loss .*, got 3\."):
        linear(loss=3)
    with pytest.raises(TypeError, match=r"^constraint must be a set from finitesum.constraints .*, got 10\.0"):
        linear(constraint=10.0)


def test_pandas_missing_labels_are_refused():
    pd = pytest.importorskip("pandas")
    for y in (pd.array([0, 1, pd.NA, 1], dtype="Int64"), pd.Series(["a", None, "b", "a"], dtype="string")):
        with pytest.raises(ValueError, match=r"^y must not (lack labels|have masked entries)"):
            linear(y=y)


# -- labels


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        ([0, 1, 1, 0], [0, 1]),
        ([-1.0, 1.0, 1.0, -1.0], [-1.0, 1.0]),
        ([1, 2, 2, 1], [1, 2]),
        ([False, True, True, False], [False, True]),
        (["no", "yes", "yes", "no"], ["no", "yes"]),
        (np.array(["no", "yes", "yes", "no"], dtype=object), ["no", "yes"]),
        (np.array([3, 10, 10, 3], dtype=object), [3, 10]),
        (np.array([[0], [1], [1], [0]]), [0, 1]),
        (np.array([0, 1, 1, 0], dtype=np.float32), [0, 1]),
    ],
)
def test_the_larger_of_two_labels_becomes_one(y, classes):
    problem = linear(y=y)
    np.testing.assert_array_equal(problem.targets, [-1.0, 1.0, 1.0, -1.0])
    np.testing.assert_array_equal(problem.classes, classes)
    assert problem.targets.dtype == np.float64


def test_numbers_stay_numbers():
    problem = linear(y=np.array(NUMBERS)[:, None], loss="squared")
    np.testing.assert_array_equal(problem.targets, NUMBERS)
    assert problem.classes is None
    np.testing.assert_array_equal(linear(y=[0, 3, 1, 0], loss="poisson").targets, [0.0, 3.0, 1.0, 0.0])
    np.testing.assert_array_equal(linear(y=[True, False, True, True], loss="squared").targets, [1.0, 0.0, 1.0, 1.0])


def test_the_callers_vectors_are_copied():
    y, weights, offset = np.array(NUMBERS), np.ones(4), np.ones(4)
    problem = linear(y=y, loss="squared", sample_weight=weights, offset=offset)
    y[0], weights[0], offset[0] = np.nan, np.nan, np.nan
    assert np.isfinite(problem.targets).all()
    assert np.isfinite(problem.weights).all()
    assert np.isfinite(problem.offsets).all()


def test_read_only_vectors_are_taken():
    y = np.array(NUMBERS)
    y.flags.writeable = False
    assert linear(y=y, loss="squared").targets.flags.writeable  # one signature of kernels serves all


# -- weights


@pytest.mark.parametrize("form", ["dense", "csr32"])
def test_a_weight_is_a_repetition(form):
    rng = np.random.default_rng(0)
    matrix = rng.standard_normal((20, 3)) * (rng.random((20, 3)) < 0.6)
    y, offset, counts = rng.integers(0, 2, 20), 0.3 * rng.standard_normal(20), rng.integers(1, 6, 20)
    settings = {"alpha": 0.2, "l1_ratio": 0.3, "fit_intercept": True}
    weighted = Problem.linear(as_format(matrix, form), y, sample_weight=counts, offset=offset, **settings)
    long = [np.repeat(part, counts, axis=0) for part in (matrix, y, offset)]
    repeated = Problem.linear(as_format(long[0], form), long[1], offset=long[2], **settings)
    x = rng.standard_normal(4)
    once, often = evaluate(weighted, x), evaluate(repeated, x)
    assert once.objective == pytest.approx(often.objective, rel=1e-13)
    assert once.optimality == pytest.approx(often.optimality, rel=1e-13)
    np.testing.assert_allclose(once.gradient, often.gradient, rtol=1e-13, atol=1e-15)


def test_weight_zero_leaves_a_row_out():
    kept = linear(y=NUMBERS, loss="squared", sample_weight=[2.0, 0.0, 1.0, 1.0], alpha=0.1)
    dropped = Problem.linear(X[[0, 2, 3]], [0.5, -1.0, 2.0], loss="squared", sample_weight=[2, 1, 1], alpha=0.1)
    ends = [minimize(problem, method="fg", tol=1e-12).x for problem in (kept, dropped)]
    np.testing.assert_allclose(ends[0], ends[1], rtol=1e-13)


def test_weights_are_normalised():
    np.testing.assert_array_equal(linear(sample_weight=[2.0, 4.0, 1.0, 1.0]).weights, [0.25, 0.5, 0.125, 0.125])
    np.testing.assert_array_equal(linear().weights, np.full(4, 0.25))


# -- components


@pytest.mark.parametrize(("size", "count"), [(1, 4), (2, 2), (3, 2), (4, 1), (9, 1), (np.int64(2), 2), (2.0, 2)])
def test_batched(size, count):
    problem = linear()
    batched = problem.batched(size)
    assert (batched.batch_size, batched.n_components) == (min(int(size), 4), count)
    assert (batched.view.batch_size, batched.view.n_components) == (min(int(size), 4), count)
    assert type(batched.batch_size) is int
    assert batched.rows is problem.rows
    assert (problem.batch_size, problem.n_components, problem.view.n_components) == (None, 4, 4)
    assert linear(batch_size=size).n_components == count


def test_components_do_not_change_the_objective():
    problem, x = linear(alpha=0.1), np.array([0.3, -0.2])
    assert evaluate(problem, x).objective == evaluate(problem.batched(3), x).objective


def test_properties():
    problem = linear(fit_intercept=True, alpha=0.5, l1_ratio=0.2)
    assert (problem.n_rows, problem.dim, problem.has_intercept) == (4, 3, True)
    assert problem.view.n_penalised == 2
    assert problem.penalty == ElasticNet(0.1, 0.4)
    assert not problem.is_smooth
    assert linear(alpha=0.5).is_smooth
    assert not linear(loss=Hinge()).is_smooth
    assert not linear(constraint=L1Ball(1.0)).is_smooth
    assert linear(constraint=Unconstrained()).is_smooth
    assert not linear(constraint=Unconstrained()).is_constrained


def test_a_problem_cannot_be_changed():
    with pytest.raises(AttributeError):
        linear().batch_size = 3


# -- fingerprints


class TestFingerprint:
    BASE: ClassVar[dict] = {
        "y": NUMBERS,
        "loss": Huber(1.0),
        "alpha": 0.1,
        "sample_weight": [1.0, 2.0, 1.0, 1.0],
        "offset": [0.0, 0.1, 0.0, 0.0],
        "batch_size": 2,
    }
    CHANGES: ClassVar[list] = [
        {"X": np.where(X == 3.0, 3.0 + 1e-15, X)},
        {"X": X[:, ::-1]},
        {"X": X.astype(np.float32)},
        {"X": scipy.sparse.csr_array(X)},
        {"y": [0.5, 1.5, -1.0, 2.0000000001]},
        {"loss": Huber(1.5)},
        {"loss": "squared"},
        {"alpha": 0.2},
        {"l1_ratio": 0.5},
        {"fit_intercept": True},
        {"sample_weight": [1.0, 1.0, 2.0, 1.0]},
        {"offset": None},
        {"batch_size": 3},
        {"batch_size": None},
        {"constraint": L1Ball(1.0)},
        {"constraint": L1Ball(2.0)},
        {"constraint": L2Ball(1.0)},
    ]

    def test_it_is_another_one_when_any_part_changes(self):
        prints = [linear(**self.BASE).fingerprint]
        prints += [linear(**(self.BASE | change)).fingerprint for change in self.CHANGES]
        assert len(set(prints)) == len(prints)

    @pytest.mark.parametrize(
        "same",
        [
            {},
            {"X": np.asfortranarray(X)},
            {"X": X.tolist()},
            {"y": np.array(NUMBERS)[:, None]},
            {"sample_weight": [2.0, 4.0, 2.0, 2.0]},
            {"constraint": Unconstrained()},
            {"loss": Huber(1)},
            {"batch_size": 2.0},
        ],
        ids=str,
    )
    def test_it_stays_when_only_the_wrapping_changes(self, same):
        assert linear(**(self.BASE | same)).fingerprint == linear(**self.BASE).fingerprint

    def test_sparse_wrappings_do_not_count_either(self):
        wide = scipy.sparse.csr_array(X)
        wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
        duplicates = scipy.sparse.coo_array(
            (np.append(X[X != 0], [0.5, -0.5]), (np.append(np.nonzero(X)[0], [0, 0]), np.append(np.nonzero(X)[1], [0, 0])))
        )
        prints = {linear(X=form).fingerprint for form in (scipy.sparse.csr_array(X), wide, wide.tocsc(), duplicates)}
        assert len(prints) == 1

    def test_labels_count_by_their_codes(self):
        assert linear(y=["no", "yes", "yes", "no"]).fingerprint == linear(y=LABELS).fingerprint
        assert linear(y=[1, 0, 0, 1]).fingerprint != linear(y=LABELS).fingerprint

    def test_it_does_not_depend_on_the_process(self):
        assert linear(**self.BASE).fingerprint == linear(**self.BASE).fingerprint
        assert len(linear().fingerprint) == 32

    def test_matrices_without_entries_have_one(self):
        empty = linear(X=scipy.sparse.csr_array((4, 2))).fingerprint
        assert empty != linear(X=scipy.sparse.csr_array((4, 3))).fingerprint
        assert linear(X=np.zeros((4, 0)), fit_intercept=True).fingerprint != empty

    def test_large_arrays_are_seen_by_blocks(self, monkeypatch):
        import finitesum.problems.digests as module

        monkeypatch.setattr(module, "_WHOLE_DIGEST_BYTES", 1024)
        monkeypatch.setattr(module, "_DIGEST_BLOCKS", 16)
        tall = np.arange(2000.0).reshape(1000, 2)
        y = np.arange(1000.0)
        first = linear(X=tall, y=y, loss="squared").fingerprint
        assert first == linear(X=tall.copy(), y=y, loss="squared").fingerprint
        for i, j in ((0, 0), (999, 1)):  # the ends are always seen
            other = tall.copy()
            other[i, j] += 1.0
            assert linear(X=other, y=y, loss="squared").fingerprint != first


@pytest.mark.parametrize("loss", [Logistic(2.0), SmoothedHinge(0.5), Poisson()])
def test_losses_may_be_given_as_they_are(loss):
    assert linear(loss=loss).loss == loss


def test_losses_of_equal_names_from_other_modules_make_other_problems():
    class Squared(NamedTuple):
        scale: float = 1.0

    for name, member in inspect.getmembers(losses.Squared, inspect.isfunction):
        if not name.startswith("_"):
            setattr(Squared, name, member)
    own = Problem.linear([[1.0], [2.0]], [0.0, 1.0], loss=losses.Squared())
    other = Problem.linear([[1.0], [2.0]], [0.0, 1.0], loss=Squared())
    assert repr(own.loss) == repr(other.loss)
    assert own.fingerprint != other.fingerprint


def test_x_is_shared_where_no_copy_is_needed():
    dense, sparse = np.arange(6.0).reshape(3, 2), scipy.sparse.csr_array(np.arange(6.0).reshape(3, 2))
    for intercept in (False, True):
        assert np.shares_memory(Problem.linear(dense, [0, 1, 1], fit_intercept=intercept).rows.values, dense)
        assert np.shares_memory(Problem.linear(sparse, [0, 1, 1], fit_intercept=intercept).rows.values, sparse.data)
    y = np.array([1.0, -1.0, 1.0])
    assert not np.shares_memory(Problem.linear(dense, y, loss="squared", sample_weight=y**2).targets, y)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8])
def test_a_part_is_known_by_every_number(dtype, monkeypatch):
    import finitesum.problems.digests as module

    monkeypatch.setattr(module, "_WORDS", 8)
    module._multipliers.cache_clear()
    numbers = np.arange(150).astype(dtype)

    def digest(array):
        made = hashlib.blake2b(digest_size=16)
        module.digest_sums(made, array)
        return made.hexdigest()

    changed = [np.where(np.arange(150) == k, numbers + 1, numbers).astype(dtype) for k in range(150)]
    swapped = numbers[np.r_[1, 0, 2:150]]
    assert len({digest(one) for one in (numbers, *changed, swapped, numbers.reshape(2, 75))}) == 153
    assert digest(numbers.copy()) == digest(numbers)
    module._multipliers.cache_clear()
