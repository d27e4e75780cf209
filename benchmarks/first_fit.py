"""The first fit of a fresh process: finitesum's logistic regression against scikit-learn's, 1,000 rows by 20 columns.

    python benchmarks/first_fit.py [--rounds 7]

Each run is a whole process: the interpreter, the imports, the data, one fit. The two take turns, so that what else the
machine does meets both; one run of each comes first, uncounted, and compiles what is not in finitesum's kernel cache.
Printed are the medians and their ratio, for the process and for what it spends in the fit alone.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

PROGRAM = """
import time
import numpy as np
{line}
rng = np.random.default_rng(0)
X = rng.standard_normal((1000, 20))
y = X @ rng.standard_normal(20) + rng.standard_normal(1000) > 0
begin = time.perf_counter()
{fit}
print(time.perf_counter() - begin)
"""

LIBRARIES = {
    "scikit-learn": ("from sklearn.linear_model import LogisticRegression", "LogisticRegression().fit(X, y)"),
    "finitesum": ("from finitesum import LogisticRegression", "LogisticRegression().fit(X, y)"),
    "finitesum, newton": ("from finitesum import LogisticRegression", "LogisticRegression(solver='newton').fit(X, y)"),
}


def run(name: str) -> tuple[float, float]:
    """Return the seconds of a process, and of its fit."""
    line, fit = LIBRARIES[name]
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(line=line, fit=fit)], capture_output=True, text=True, check=True
    )
    return time.perf_counter() - begin, float(done.stdout)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    for name in LIBRARIES:
        run(name)
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in LIBRARIES}
    for _ in range(rounds):
        for name, known in seconds.items():
            known.append(run(name))
    base = statistics.median(whole for whole, _ in seconds["scikit-learn"])
    print(f"{'':20}{'process':>10}{'ratio':>8}{'fit':>10}   (medians of {rounds}, seconds)")
    for name, known in seconds.items():
        whole, fit = (statistics.median(column) for column in zip(*known, strict=True))
        print(f"{name:20}{whole:10.3f}{whole / base:8.2f}{fit:10.3f}")


if __name__ == "__main__":
    main()
