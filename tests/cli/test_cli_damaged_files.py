"""Files that are damaged, or something else than their names say, end in one sentence and exit code 2."""

import io
import json
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp

from finitesum.estimators.model import LinearModel

ROWS = np.arange(12.0).reshape(4, 3)


def npy(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def npz(**arrays):
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def members(method=zipfile.ZIP_STORED, flags=0, kind=0):
    """Return an archive of one array, with flags or a way of packing that its bytes do not have."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("X.npy", npy(ROWS))
    content = bytearray(out.getvalue())
    for start, flag_at, kind_at in ((content.find(b"PK\x03\x04"), 6, 8), (content.find(b"PK\x01\x02"), 8, 10)):
        content[start + flag_at] |= flags
        content[start + kind_at] |= kind
    return bytes(content)


def sparse(form, **changed):
    out = io.BytesIO()
    matrix = sp.coo_array(ROWS).asformat(form)
    for name, value in changed.items():
        getattr(matrix, name)[0] = value
    sp.save_npz(out, matrix)
    return out.getvalue()


FILES = {
    "lone-cr.csv": (b"a,b,y\r1,2,1\r3,4,0\r", "cannot be cut into cells|CR"),
    "long-cell.csv": (b"a" * 140_000 + b",b,y\n1,2,1\n3,4,0\n", "field limit"),
    "quote.csv": (b'a,b,y\n1,2,1\n3,"4,0\n5,6,1\n', "cannot be cut into cells"),
    "doubt.csv": (b"1.5f,2,1\n3,4,0\n5,6,1\n", "may be a header or a row"),
    "null.csv": (b"a,b,y\n1,\x00,1\n", "has a null character"),
    "header.npy": (npy(ROWS).replace(b")", b"("), "cannot be read as an .npy array"),
    "short.npy": (npy(ROWS)[:-8], "cannot be read as an .npy array"),
    "huge.npy": (npy(ROWS).replace(b"(4, 3)", b"(4, 3000000000000)").replace(b" " * 13 + b"\n", b"\n"), "cannot be read"),
    "zip.npy": (b"PK\x03\x04" + b"a" * 50, "cannot be read as an .npy array"),
    "archive.npy": (npz(X=ROWS), "is an archive of several arrays"),
    "array.npz": (npy(ROWS), "is one array"),
    "empty.npz": (b"", "cannot be read as an .npz archive"),
    "cut.npz": (npz(X=ROWS)[:-40], "cannot be read as an .npz archive"),
    "fractions.npz": (npz(data=[1.0], indices=[0], indptr=[0, 1], shape=[1, 2.5]), "cannot be read as an .npz archive"),
    "text.npz": (npz(X=ROWS.astype(str), y=np.ones(4)), "must hold real numbers"),
    "missing.npz": (npz(data=[1.0], indices=[0], shape=[1, 2]), "none of them is known to hold rows"),
    "encrypted.npz": (members(flags=1), "encrypted"),
    "unknown.npz": (members(kind=97), "cannot be read as an .npz archive"),
    "csc.npz": (sparse("csc", indices=10**8), "row indices from 0 to 3"),
    "coo.npz": (sparse("coo", col=10**8), "cannot be read as an .npz archive"),
    "underscore.svm": (b"1 1:1_000\n-1 1_0:2\n", "line 1"),
    "utf16.svm": ("1 1:2\n".encode("utf-16"), "UTF-16"),
    "bytes.svm": (bytes(range(256)), "line 1"),
    "cut.svm.gz": (b"\x1f\x8b\x08\x00abc", "cannot be read"),
    "zip.svm": (npz(X=ROWS), "is a zip archive"),
    "folder-name.parquet": (b"PAR1" + bytes(100) + b"PAR1", "Parquet"),
}


def one_line(result):
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("finitesum: error: ")
    return result.stderr


@pytest.mark.parametrize("name", FILES)
def test_damaged_data(run, tmp_path, name):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow", reason="Parquet is read by pyarrow")
    content, says = FILES[name]
    (tmp_path / name).write_bytes(content)
    message = one_line(run("fit", tmp_path / name))
    assert name in message
    assert any(part in message for part in says.split("|"))


def header(**changed):
    def change(path):
        with np.load(path) as found:
            arrays = dict(found)
        arrays["header"] = np.array(json.dumps({**json.loads(str(arrays["header"])), **changed}))
        np.savez(path, **arrays)

    return change


def coefficients(array):
    def change(path):
        with np.load(path) as found:
            arrays = {**found, "coef": array}
        np.savez(path, **arrays)

    return change


MODELS = {
    "intercept is text": (header(intercept="abc"), "intercept is 'abc'"),
    "intercept is NaN": (header(intercept=float("nan")), "not finite"),
    "flag is text": (header(fit_intercept="yes"), "fit_intercept is 'yes'"),
    "three classes": (header(classes=["a", "b", "c"]), "classes are"),
    "classes of two kinds": (header(classes=["a", 1]), "mix numbers with text"),
    "classes are tables": (header(classes=[{}, {}]), "damaged or no model"),
    "names do not fit": (header(feature_names=["a"]), "1 names of features do not fit 3 coefficients"),
    "coefficients are NaN": (coefficients(np.full(3, np.nan)), "not finite"),
    "coefficients are text": (coefficients(np.array(["a"] * 3)), "coef has shape"),
    "coefficients are a table": (coefficients(np.ones((3, 1))), "coef has shape"),
    "cut": (lambda path: path.write_bytes(path.read_bytes()[:-9]), "damaged or no model"),
    "deep": (lambda path: np.savez(path, header=np.array("[" * 10**5), coef=np.ones(3)), "damaged or no model"),
}


@pytest.mark.parametrize("case", MODELS)
def test_damaged_models(run, svm, tmp_path, case):
    change, says = MODELS[case]
    path = tmp_path / "model.npz"
    LinearModel(np.ones(3), 0.5, classes=("a", "b")).save(path)
    change(path)
    assert says in one_line(run("predict", path, svm))


@pytest.mark.parametrize("content", ["{", "[]", "[" * 10**5, '{"written_by": "x"}', "3", '{"success": true}', "\x00"])
@pytest.mark.parametrize("name", ["settings.json", "result.json"])
def test_damaged_folders_of_fits(run, svm, tmp_path, name, content):
    folder = tmp_path / "run"
    assert run("fit", svm, "--out", folder).exit_code == 0
    (folder / name).write_text(content)
    assert f"{name} is damaged" in one_line(run("fit", "--resume", folder))


@pytest.mark.parametrize(
    "setting", [{"alpha": [1]}, {"tol": "small"}, {"max_iter": None}, {"data": 3}, {"solver": {}}, {"memmap": "yes"}]
)
def test_settings_of_other_kinds(run, svm, tmp_path, setting):
    folder = tmp_path / "run"
    assert run("fit", svm, "--out", folder).exit_code == 0
    content = json.loads((folder / "settings.json").read_text())
    (folder / "settings.json").write_text(json.dumps({**content, "settings": {**content["settings"], **setting}}))
    assert f"settings.json is damaged ({next(iter(setting))} is " in one_line(run("fit", "--resume", folder))


def test_a_stored_step_size_that_is_no_number_is_refused_in_a_sentence(run, csv_file, tmp_path):
    folder = tmp_path / "fit"
    run("fit", csv_file, "--out", folder, "--solver", "saga", "--max-iter", "1", "--tol", "0")
    content = json.loads((folder / "settings.json").read_text())
    (folder / "settings.json").write_text(json.dumps({**content, "settings": {**content["settings"], "step_size": "to"}}))
    assert "step_size must be" in one_line(run("fit", "--resume", folder))
