"""Rows: every format gives the same numbers, memory is shared where it fits, bad matrices are refused."""

import numpy as np
import pytest
import scipy.sparse

from finitesum.core.jit import COMPILED, kernel
from finitesum.estimators import LogisticRegression
from finitesum.estimators.model import LinearModel
from finitesum.problems.input import MOST_COPIED, as_rows, stored_well
from finitesum.problems.rows import CSRRows, DenseRows, rows_between, to_matrix


def matrix(n=7, d=5, dtype=np.float64, seed=0):
    """About half of the entries are zero; row 2 and column 3 are empty."""
    rng = np.random.default_rng(seed)
    X = (rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6)).astype(dtype)
    X[2:3], X[:, 3:4] = 0, 0
    return X


def make_rows(form, X, intercept=False):
    if form == "dense":
        return as_rows(X, intercept=intercept)
    rows = as_rows(scipy.sparse.csr_array(X), intercept=intercept)
    if form == "csr64":  # as of a matrix with more entries than an int32 counts
        rows = rows._replace(columns=rows.columns.astype(np.int64), starts=rows.starts.astype(np.int64))
    return rows


def expected_table(X, intercept):
    X = X.astype(np.float64)
    return np.hstack([X, np.ones((X.shape[0], 1))]) if intercept else X


def everything(rows, x, scale, dots, norms, sums, copies, grams):
    """Write what each row can do into arrays."""
    for i in range(rows.n_rows):
        dots[i] = rows.dot(i, x)
        norms[i] = rows.squared_norm(i)
        rows.add_to(i, scale, sums[i])
        rows.copy_to(i, copies[i])
        rows.gram_add(i, scale, grams[i])


def entries(rows, table):
    for i in range(rows.n_rows):
        start = rows.first(i)
        for k in range(start, start + rows.n_stored(i)):
            table[i, rows.column(i, k)] += rows.entry(i, k)


compiled_everything, compiled_entries = kernel(everything), kernel(entries)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("form", ["dense", "csr32", "csr64"])
@pytest.mark.parametrize("mode", ["interpreted", "compiled"])
def test_row_operations_are_those_of_numpy(mode, form, dtype, intercept):
    if mode == "compiled" and not COMPILED:
        pytest.skip("nothing is compiled under NUMBA_DISABLE_JIT")
    X = matrix(dtype=dtype)
    rows = make_rows(form, X, intercept)
    Z = expected_table(X, intercept)
    n, dim = Z.shape
    assert (rows.dim(), rows.n_rows, rows.is_sparse()) == (dim, n, form != "dense")
    assert rows.values.dtype == dtype
    x = np.random.default_rng(1).standard_normal(dim)
    scale = np.float64(-1.7)
    dots, norms = np.empty(n), np.empty(n)
    sums, copies, grams = np.ones((n, dim)), np.full((n, dim + 2), 9.0), np.full((n, dim, dim), 2.0)
    table = np.zeros((n, X.shape[1]))
    run, read = (everything, entries) if mode == "interpreted" else (compiled_everything, compiled_entries)
    run(rows, x, scale, dots, norms, sums, copies, grams)
    read(rows, table)
    np.testing.assert_allclose(dots, Z @ x, rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(norms, (Z**2).sum(axis=1), rtol=1e-14)
    np.testing.assert_allclose(sums, 1.0 + scale * Z, rtol=1e-14, atol=1e-15)
    np.testing.assert_array_equal(copies, np.hstack([Z, np.full((n, 2), 9.0)]))  # only the head is written
    lower = np.tril(np.ones((dim, dim)))
    np.testing.assert_allclose(grams, 2.0 + scale * lower * (Z[:, :, None] * Z[:, None, :]), rtol=1e-14, atol=1e-15)
    np.testing.assert_array_equal(table, X.astype(np.float64))
    np.testing.assert_array_equal([rows.n_stored(i) for i in range(n)], n_stored(X, form))


def n_stored(X, form):
    return np.full(X.shape[0], X.shape[1]) if form == "dense" else (X != 0).sum(axis=1)


# -- memory


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("read_only", [False, True])
def test_dense_memory_is_shared_and_never_written_to(dtype, read_only):
    X = matrix(dtype=dtype)
    X.flags.writeable = not read_only
    rows = as_rows(X)
    assert np.shares_memory(rows.values, X)
    assert rows.values.flags.writeable  # kernels then need one signature; they do not write to it
    assert rows.values.dtype == dtype
    assert X.flags.writeable is not read_only
    np.testing.assert_array_equal(rows.values, X)


@pytest.mark.parametrize("mode", ["r", "r+", "c"])
def test_memory_mapped_arrays_stay_on_the_disk(tmp_path, mode):
    np.save(tmp_path / "X.npy", matrix(dtype=np.float32))
    X = np.load(tmp_path / "X.npy", mmap_mode=mode)
    rows = as_rows(X)
    assert np.shares_memory(rows.values, X)
    assert type(rows.values) is np.ndarray
    del X
    np.testing.assert_array_equal(rows.values, matrix(dtype=np.float32))  # the rows keep the mapping open


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("kind", [scipy.sparse.csr_array, scipy.sparse.csr_matrix])
def test_csr_memory_is_shared(kind, read_only):
    X = kind(matrix(dtype=np.float32))
    for array in (X.data, X.indices, X.indptr):
        array.flags.writeable = not read_only
    rows = as_rows(X)
    assert np.shares_memory(rows.values, X.data)
    assert np.shares_memory(rows.columns, X.indices)
    assert np.shares_memory(rows.starts, X.indptr)
    assert rows.values.dtype == np.float32
    back = to_matrix(rows)
    assert np.shares_memory(back.data, X.data)
    np.testing.assert_array_equal(back.toarray(), X.toarray())


def test_int64_indices_are_narrowed_where_they_fit():
    X = scipy.sparse.csr_array(matrix())
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    rows = as_rows(X)
    assert rows.columns.dtype == rows.starts.dtype == np.int32
    assert X.indices.dtype == np.int64
    np.testing.assert_array_equal(rows.columns, X.indices)
    assert np.shares_memory(rows.values, X.data)


def test_int64_indices_stay_where_int32_cannot_count_the_columns():
    X = scipy.sparse.csr_array((np.ones(2), np.array([7, 2**40]), np.array([0, 1, 2])), shape=(2, 2**40 + 1))
    rows = as_rows(X)
    assert rows.columns.dtype == np.int64
    assert rows.column(1, rows.first(1)) == 2**40


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint16, np.bool_, np.float16, ">f8"])
def test_other_numbers_become_float64(dtype):
    X = (10 * matrix()).astype(dtype)
    sparse = [scipy.sparse.csr_array(X)] if np.dtype(dtype).kind in "iub" else []  # scipy knows no others
    for form in (X, *sparse):
        rows = as_rows(form)
        assert rows.values.dtype == np.float64
        assert rows.values.dtype.isnative
        dense = rows.values if isinstance(rows, DenseRows) else to_matrix(rows).toarray()
        np.testing.assert_array_equal(dense, X.astype(np.float64))


def test_column_order_strided_and_transposed_input_become_rows():
    X = matrix(8, 6)
    for view in (np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2], X.T.copy().T, X[::1]):
        rows = as_rows(view)
        assert rows.values.flags.c_contiguous
        np.testing.assert_array_equal(rows.values, X)


def test_lists_and_frames_are_tables():
    pd = pytest.importorskip("pandas")
    X = matrix(3, 2)
    for given in (X.tolist(), tuple(map(tuple, X)), pd.DataFrame(X)):
        rows = as_rows(given)
        assert isinstance(rows, DenseRows)
        np.testing.assert_array_equal(rows.values, X)


# -- sparse input in all its forms


@pytest.mark.parametrize("kind", ["csc", "coo", "lil", "dok", "bsr", "dia"])
def test_every_sparse_format_becomes_csr(kind):
    rows = as_rows(scipy.sparse.csr_array(matrix(6, 4)).asformat(kind))
    assert isinstance(rows, CSRRows)
    np.testing.assert_array_equal(to_matrix(rows).toarray(), matrix(6, 4))


def unsorted_with_duplicates():
    """Row 0 holds (0, 2) twice and unsorted, row 1 an explicit zero, row 2 nothing; four entries lie beyond the last."""
    return scipy.sparse.csr_array(
        (np.array([4.0, 1.0, 2.5, 0.0]), np.array([2, 0, 2, 1]), np.array([0, 3, 4, 4])), shape=(3, 3)
    )


def test_duplicates_are_summed_and_columns_sorted_without_touching_the_callers_matrix():
    X = unsorted_with_duplicates()
    kept = [array.copy() for array in (X.data, X.indices, X.indptr)]
    rows = as_rows(X)
    np.testing.assert_array_equal(to_matrix(rows).toarray(), [[1.0, 0.0, 6.5], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    np.testing.assert_array_equal(rows.columns, [0, 2, 1])  # the explicit zero is kept
    for array, before in zip((X.data, X.indices, X.indptr), kept, strict=True):
        np.testing.assert_array_equal(array, before)


def test_whole_numbers_with_duplicates_are_summed_too():
    X = unsorted_with_duplicates().astype(np.int32)
    np.testing.assert_array_equal(to_matrix(as_rows(X)).toarray()[0], [1.0, 0.0, 6.0])


def test_room_behind_the_last_entry_is_not_read():
    X = scipy.sparse.csr_array(([1.0, 2.0], [0, 1], [0, 1, 2]), shape=(2, 2))
    X.data, X.indices = np.array([1.0, 2.0, np.nan]), np.array([0, 1, 99], dtype=np.int32)
    rows = as_rows(X)
    assert rows.values.size == rows.columns.size == 2
    np.testing.assert_array_equal(to_matrix(rows).toarray(), [[1.0, 0.0], [0.0, 2.0]])


def test_empty_sparse_matrices_are_rows_of_zeros():
    rows = as_rows(scipy.sparse.csr_array((4, 3)), intercept=True)
    assert (rows.n_rows, rows.dim(), rows.values.size) == (4, 4, 0)
    assert rows.dot(2, np.array([5.0, 6.0, 7.0, 0.5])) == 0.5


def test_rows_pass_through_with_another_intercept():
    rows = as_rows(matrix())
    assert as_rows(rows, intercept=True).values is rows.values
    assert (as_rows(rows, intercept=True).intercept, as_rows(rows).intercept) == (1, 0)
    assert as_rows(matrix(), intercept=2).intercept == 1


def test_an_intercept_alone_is_a_model():
    rows = as_rows(np.zeros((3, 0)), intercept=True)
    assert (rows.dim(), rows.dot(1, np.array([2.5]))) == (1, 2.5)


# -- refusals


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros(3), r"X must have two axes \(rows and columns\), got shape \(3,\)\. Use X.reshape\(-1, 1\)"),
        (3.0, r"X must have two axes .* got shape \(\)"),
        (np.zeros((2, 2, 2)), r"X must have two axes .* got shape \(2, 2, 2\)"),
        (np.zeros((0, 3)), r"X must have at least one row and one column, got shape \(0, 3\)"),
        (np.zeros((3, 0)), r"X must have at least one row and one column, got shape \(3, 0\)"),
        (scipy.sparse.csr_array((0, 3)), r"X must have at least one row and one column, got shape \(0, 3\)"),
        ([["a", "b"]], r"X must hold numbers, got <U1\. Encode text"),
        (np.array([[1.0, None]]), r"X must hold numbers, got object\. Encode text"),
        (np.array([[1j]]), r"X must hold numbers, got complex128"),
        (scipy.sparse.csr_array(np.array([[1j]])), r"X must hold numbers, got complex128"),
        ([[1.0], [1.0, 2.0]], r"X must be a table whose rows have the same length"),
        (np.ma.masked_array([[1.0, 2.0]], [[0, 1]]), r"X must not have masked entries\. Impute"),
    ],
)
def test_what_is_no_table_of_numbers_is_refused(X, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        as_rows(X)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", ["dense", "csr", "csc"])
def test_entries_that_are_not_finite_are_named_by_row_and_column(form, dtype, bad):
    X = matrix(dtype=dtype)
    X[4, 1] = X[5, 0] = bad
    given = X if form == "dense" else scipy.sparse.csr_array(X).asformat(form)
    message = rf"^X must be finite, got {bad} in row 4, column 1 \(from 0\)\. Impute or drop"
    with pytest.raises(ValueError, match=message):
        as_rows(given)


def test_opposite_infinities_are_seen():
    with pytest.raises(ValueError, match="got inf in row 0, column 0"):
        as_rows([[np.inf, -np.inf]])


def test_a_finite_matrix_whose_sum_overflows_is_taken():
    X = np.array([[1.7e308, 1.7e308], [1.0, 0.0]])
    assert np.shares_memory(as_rows(X).values, X)


@pytest.mark.parametrize("columns", [[0, 9], [0, -1]])
def test_column_indices_outside_of_the_matrix_are_refused(columns):
    X = scipy.sparse.csr_array((np.ones(2), np.array([0, 1]), np.array([0, 1, 2])), shape=(2, 2))
    X.indices = np.array(columns, dtype=np.int32)  # scipy looks at them only in check_format()
    with pytest.raises(ValueError, match=rf"^X must have column indices from 0 to 1, got {min(columns)} to"):
        as_rows(X)


def test_a_decreasing_indptr_is_refused():
    X = scipy.sparse.csr_array((np.ones(2), np.array([0, 1]), np.array([0, 1, 2])), shape=(2, 2))
    X.indptr = np.array([0, 3, 2], dtype=np.int32)
    with pytest.raises(ValueError, match=r"^X must have an indptr that does not decrease\. Call X.check_format"):
        as_rows(X)


def test_consecutive_rows_are_a_matrix_of_their_own():
    X = matrix()
    for form in ("dense", "csr", "csr64"):
        rows = make_rows(form, X)
        part = to_matrix(rows_between(rows, 2, 5))
        np.testing.assert_array_equal(part if form == "dense" else part.toarray(), X[2:5])


def broken(form, **arrays):
    """Return a matrix of 4 x 3 with arrays in the place of its own, which SciPy does not look at."""
    X = scipy.sparse.coo_array(np.arange(1.0, 13.0).reshape(4, 3)).asformat(form)
    for name, array in arrays.items():
        setattr(X, name, array)
    return X


def cached_and_changed(change, form="csr"):
    X = broken(form)
    assert form != "csr" or X.has_canonical_format  # a flag that SciPy keeps
    change(X)
    return X


def swapped(X):
    X.indices[:2] = X.indices[1::-1].copy()
    X.data[:2] = X.data[1::-1].copy()


WHOLE = np.arange(12, dtype=np.int32)
BROKEN = {
    "column of csr": (broken("csr", indices=WHOLE), "X must have column indices from 0 to 2, got 0 to 11"),
    "negative column": (broken("csr", indices=WHOLE % 3 - 1), "X must have column indices from 0 to 2, got -1 to 1"),
    "row of csc": (broken("csc", indices=WHOLE), "X must have row indices from 0 to 3, got 0 to 11"),
    "row of coo": (broken("coo", coords=(WHOLE, WHOLE % 3)), "X must have row indices from 0 to 3, got 0 to 11"),
    "column of coo": (broken("coo", coords=(WHOLE % 4, WHOLE)), "X must have column indices from 0 to 2, got 0 to 11"),
    "coo is short": (broken("coo", data=np.ones(3)), "X must have as many indices as entries, got 12 and 3"),
    "block of bsr": (broken("bsr", indices=WHOLE[-4:]), "X must have an indptr of|X must have column indices"),
    "fractions": (broken("csr", indices=WHOLE % 3 + 0.5), "X must have whole numbers as column indices, got float64"),
    "indptr falls": (broken("csc", indptr=np.array([0, 9, 8, 12])), "X must have an indptr that does not decrease"),
    "indptr begins late": (broken("csr", indptr=np.array([3, 3, 6, 9, 12])), r"X must have an indptr of 5 .*\[3, 12\]"),
    "indptr is short": (broken("csr", indptr=np.array([0, 3, 6])), "X must have an indptr of 5 numbers"),
    "indptr is empty": (broken("csr", indptr=np.zeros(0, dtype=np.int32)), "X must have an indptr of 5 numbers"),
    "arrays are short": (
        cached_and_changed(lambda X: vars(X).update(data=X.data[:5], indices=X.indices[:5])),
        r"X must have an indptr of 5 numbers .*\[0, 12\] for 5 indices and 5 values",
    ),
    "lil": (broken("lil", data=np.array([[1.0] * 50, [], [], []], dtype=object)), "X must have as many indices as ent"),
    "column of lil": (
        cached_and_changed(lambda X: X.rows[0].__setitem__(2, 99), "lil"),
        "X must have column indices from 0 to 2, got 0 to 99",
    ),
    "dia": (broken("dia", data=np.ones((1, 3))), "X must have a diagonal for each offset, got 1 for 6"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_indices_that_do_not_fit_are_refused_before_anything_reads_them(case):
    X, message = BROKEN[case]
    with pytest.raises(ValueError, match=f"^({message})"):
        as_rows(X)


@pytest.mark.parametrize("case", [case for case in BROKEN if case != "column of lil"])
def test_so_do_estimators_and_models(case):
    X, message = BROKEN[case]
    y = np.array([0, 1, 0, 1])
    fitted = LogisticRegression().fit(np.arange(12.0).reshape(4, 3), y)
    model = LinearModel(np.ones(3))
    for read in (fitted.predict, lambda X: LogisticRegression().fit(X, y), model.predict):
        with pytest.raises(ValueError, match=f"({message})"):
            read(X)


def test_rows_that_were_sorted_once_are_looked_at_again():
    X = cached_and_changed(swapped)
    np.testing.assert_array_equal(to_matrix(as_rows(X)).toarray(), broken("csr").toarray())
    np.testing.assert_array_equal(as_rows(X).columns[:3], [0, 1, 2])
    X = cached_and_changed(lambda X: X.indices.fill(1))
    np.testing.assert_array_equal(to_matrix(as_rows(X)).toarray()[0], [0.0, 6.0, 0.0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("shape", "density", "is_dense"), [((60, 9), 0.9, True), ((60, 9), 0.2, False), ((9, 60), 0.9, False)]
)
def test_long_rows_of_many_entries_are_better_dense(shape, density, is_dense, dtype):
    X = (np.random.default_rng(0).random(shape) < density).astype(dtype)
    given = scipy.sparse.csr_array(X)
    found = stored_well(given)
    assert isinstance(found, np.ndarray) == is_dense
    assert found is given or (found.flags.c_contiguous and found.dtype == dtype and np.array_equal(found, X))
    assert stored_well(X) is X


def test_a_large_copy_is_made_only_where_it_is_no_larger_than_the_entries():
    n, starts = MOST_COPIED // 16, 2 * np.arange(MOST_COPIED // 16 + 1, dtype=np.int32)
    few = scipy.sparse.csr_array((np.ones(2 * n), np.tile(np.arange(2, dtype=np.int32), n), starts), shape=(n, 4))
    assert stored_well(few) is few
    most = scipy.sparse.csr_array((few.data, few.indices, starts), shape=(n, 3))
    assert stored_well(most).shape == (n, 3)
