"""The first fit of a fresh process, 1,000 rows by 20 columns or more: finitesum's estimators against scikit-learn's.

    python benchmarks/first_fit.py [--rounds 5] [NAME ...]

Each run is a whole process: the interpreter, the imports, the data, three fits. The two libraries take turns, so that what
else the machine does meets both. finitesum's processes begin with an empty cache of kernels, so that whatever must be
compiled is. Printed are medians in seconds: of the imports, of the first fit, and of the third.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile

PROGRAM = """
import time
begin = time.perf_counter()
import numpy as np
from {library} import {name} as Model
imported = time.perf_counter()
import scipy.sparse
rng = np.random.default_rng(0)
n, d, density = {shape}
X = rng.standard_normal((n, d))
if density < 1.0:
    X = scipy.sparse.csr_array(X * (rng.random((n, d)) < density))
signal = X @ (rng.standard_normal(d) * (rng.random(d) < 20.0 / d))
noisy = signal + rng.standard_normal(n)
counts, classes = rng.poisson(np.exp(np.minimum(0.3 * signal, 5.0))), np.digitize(noisy, [-3, 0, 3])
y = {{"sign": noisy > 0, "real": noisy, "count": counts, "class": classes}}
weights = rng.random(n)
seconds = [imported - begin]
for _ in range(3):
    start = time.perf_counter()
    Model({options}).fit(X, y[{kind!r}]{more})
    seconds.append(time.perf_counter() - start)
print(*seconds)
"""

#: The target's kind, our estimator, scikit-learn's (its module, name and options), and what is given to `fit`.
MODELS = {
    "logistic": ("sign", "LogisticRegression()", "linear_model LogisticRegression()", ""),
    "logistic, weights": ("sign", "LogisticRegression()", "linear_model LogisticRegression()", ", sample_weight=weights"),
    "logistic, l1": (
        "sign",
        "LogisticRegression(l1_ratio=1.0)",
        "linear_model LogisticRegression(l1_ratio=1.0, solver='liblinear')",
        "",
    ),
    "multinomial": ("class", "LogisticRegression()", "linear_model LogisticRegression()", ""),
    "hinge": ("sign", "LinearSVC(loss='hinge')", "svm LinearSVC(loss='hinge', max_iter=100000)", ""),
    "squared hinge": ("sign", "LinearSVC()", "svm LinearSVC()", ""),
    "Poisson": ("count", "PoissonRegressor()", "linear_model PoissonRegressor()", ""),
    "ridge": ("real", "Ridge()", "linear_model Ridge()", ""),
    "Huber": ("real", "HuberRegressor()", "linear_model HuberRegressor()", ""),
    "lasso": ("real", "LinearRegressor(alpha=0.1, l1_ratio=1.0)", "linear_model Lasso(alpha=0.1)", ""),
    "logistic, 10 values by 5 folds": ("sign", "LogisticRegressionCV()", "linear_model LogisticRegressionCV()", ""),
}

#: Rows, columns and the part of entries that are not 0, of models on other data than 1,000 x 20.
SHAPES = {"high": (2000, 300, 1.0), "wide": (200, 1000, 1.0), "text": (1000, 2000, 0.01), "counts": (5000, 200, 0.1)}

#: Such models: the shape, and the name of one above.
MORE = [(shape, name) for shape in SHAPES for name in ("logistic", "logistic, l1", "lasso", "hinge", "squared hinge")]


def run(library: str, model: str, kind: str, more: str, shape: tuple[int, int, float]) -> list[float]:
    """Return the seconds of imports and of three fits, in a process with no compiled kernels."""
    name, options = model[:-1].split("(", 1)
    program = PROGRAM.format(library=library, name=name, options=options, kind=kind, more=more, shape=shape)
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder, "PYTHONWARNINGS": "ignore"}
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment)
    return [float(word) for word in done.stdout.split()]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    known_names = [*MODELS, *(f"{shape}: {name}" for shape, name in MORE)]
    parser.add_argument("names", nargs="*", default=known_names, metavar="NAME", help=f"of {', '.join(known_names)}")
    asked = parser.parse_args()
    print(f"{'':31}{'finitesum':>27}{'scikit-learn':>27}\n{'':31}" + 2 * f"{'imports':>9}{'first':>9}{'third':>9}")
    for name in asked.names:
        shape, _, of_shape = name.rpartition(": ")
        kind, ours, theirs, more = MODELS[of_shape]
        module, peer = theirs.split(" ", 1)
        pairs = [("finitesum", ours), (f"sklearn.{module}", peer)]
        seconds: list[list[list[float]]] = [[], []]
        for _ in range(asked.rounds):
            for known, (library, model) in zip(seconds, pairs, strict=True):
                known.append(run(library, model, kind, more, SHAPES.get(shape, (1000, 20, 1.0))))
        medians = [statistics.median(column) for known in seconds for column in zip(*known, strict=True)]
        print(f"{name:31}" + "".join(f"{medians[k]:9.4f}" for k in (0, 1, 3, 4, 5, 7)), flush=True)


if __name__ == "__main__":
    main()
