"""The seven problems of Table 2 of the curvature paper, and the steps with which methods are run on them."""

from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from finitesum.datasets import find, make_logistic
from finitesum.evaluation.smoothness import component_smoothness, full_smoothness
from finitesum.papers import runs
from finitesum.papers.experiment import load
from finitesum.papers.runs import Trial
from finitesum.problems.linear import Problem

#: Rows in a component: of the authors' examples for CIAG and A-CIAG, and of NIM's authors for NIM.
BATCH, NIM_BATCH = 5, 100

#: Measurements in a pass of the methods with curvature, from the second pass on.
PARTS = 5

#: The largest entry of the gradient that runs end at, and what counts as a moderate accuracy.
TOL, MODERATE = 1e-10, 1e-3

#: The fraction of labels that is flipped in a stand-in, so that the classes overlap as they do in the originals.
NOISE = 0.1

#: The methods by their labels, and the one that is ours; NIM is run with two solvers.
METHODS, LAZY = ("A-CIAG", "CIAG", "NIM, inexact", "NIM, exact", "SAG", "IAG"), "Lazy Newton"
NAMES = {label: runs.NAMES[label.partition(",")[0]] for label in (*METHODS, LAZY)}
PROGRAM_STEPS, TUNED_STEPS, AUTOMATIC = "the program's step", "tuned", "automatic"
LABELS = {TUNED_STEPS: METHODS, AUTOMATIC: tuple(NAMES), PROGRAM_STEPS: METHODS[:2]}


class DataSet(NamedTuple):
    """A data set of Table 2.

    For A-CIAG, CIAG and IAG `tuned` has the best of the grids of benchmarks/ciag_tuning.py: multiples of 1 / L (for
    IAG of 1 / (m L)) with L the smoothness of F, and for A-CIAG the extrapolation. The paper's own values are lost.
    """

    name: str  # in the registry
    n_rows: int
    n_features: int
    max_passes: tuple[int, int]  # of a run: methods with curvature, and methods without
    tuned: tuple[tuple[float, ...], ...]
    program: tuple[float, float] = (1e-4, 0.99)  # kappa_opt, extrapolation: the default, or the example on the data
    is_quick: bool = False  # whether the quick form has it
    quick_rows: int = 0  # in the quick form, of the generated problem that takes its place where it is absent; 0: none

    @property
    def has_stand_in(self) -> bool:
        """Whether a generated problem of the same size takes its place where it is absent."""
        return self.quick_rows > 0

    def title(self, is_quick: bool, data_dir: Path | None) -> str:
        """Return its short name; a stand-in is called one, with its size."""
        slug = self.name.partition(".")[0]
        if find(self.name, data_dir=data_dir) is not None:
            return slug
        return f"{slug} stand-in ({self.quick_rows if is_quick else self.n_rows:,} rows)"


SETS = (
    DataSet("mushrooms", 8_124, 112, (60, 400), ((8.0, 0.98), (8.0,), (64.0,)), is_quick=True),
    DataSet("a9a", 32_561, 123, (60, 200), ((2.0, 0.98), (2.0,), (4.0,)), (1.5e-4, 0.95), is_quick=True),
    DataSet("SUSY", 5_000_000, 18, (12, 40), ((2.0, 0.98), (2.0,), (4.0,)), is_quick=True, quick_rows=50_000),
    DataSet("covtype.binary.scale", 581_012, 54, (40, 150), ((1.0, 0.98), (2.0,), (4.0,))),
    DataSet("w8a", 49_749, 300, (25, 200), ((16.0, 0.98), (16.0,), (128.0,))),
    DataSet("mnist", 60_000, 784, (15, 60), ((2.0, 0.98), (2.0,), (4.0,))),
    DataSet("alpha", 500_000, 500, (8, 20), ((1.0, 0.95), (2.0,), (4.0,)), is_quick=True, quick_rows=5_000),
)


@lru_cache(maxsize=1)
def problem_of(entry: DataSet, is_quick: bool, data_dir: Path | None) -> Problem:
    """Return mean logistic loss + 1/(2n) ||w||^2, on the original data or, where it is absent, on its stand-in."""
    if entry.has_stand_in and find(entry.name, data_dir=data_dir) is None:
        n = entry.quick_rows if is_quick else entry.n_rows
        data = make_logistic(n, entry.n_features, noise=NOISE, seed=0)
        return _logistic(data.rows, data.targets())
    data = load(entry.name, data_dir)
    if entry.name == "mnist":  # digits 0 to 4 against 5 to 9; four of five pixels are zero
        return _logistic(scipy.sparse.csr_array(data.rows), np.where(np.asarray(data.labels) >= 5, 1.0, -1.0))
    return _logistic(_scaled(data.rows) if entry.has_stand_in else data.rows, data.targets())


def _logistic(rows: Any, targets: Any) -> Problem:
    return Problem.linear(rows, targets, loss="logistic", alpha=1.0 / rows.shape[0])


def _scaled(rows: Any) -> Any:
    """Return dense rows whose every column spans [-1, 1]."""
    dense = rows.toarray() if scipy.sparse.issparse(rows) else np.array(rows, dtype=np.float64)
    low, high = dense.min(axis=0), dense.max(axis=0)
    dense -= low
    dense *= 2.0 / np.where(high > low, high - low, 1.0)
    dense -= 1.0
    return dense


@lru_cache(maxsize=1)
def smoothness_of(problem: Problem) -> dict[str, float]:
    """Return L of the mean by its largest eigenvalue ("tight"), and the bound that the authors' program takes ("trace").

    The bound is a quarter of the mean squared row length, and the penalty.
    """
    trace = component_smoothness(problem.batched(problem.n_rows))
    return {"tight": full_smoothness(problem), "trace": trace}


def tuned_trial(problem: Problem, label: str, multiple: float, *extrapolation: float) -> Trial:
    """Return A-CIAG, CIAG or IAG with a multiple of 1 / L (for IAG of 1 / (m L)) as its step."""
    m = problem.batched(BATCH).n_components if label == "IAG" else 1
    return _with_step(label, multiple / (smoothness_of(problem)["tight"] * m), *extrapolation)


def _with_step(label: str, *numbers: float) -> Trial:
    options = dict(zip(("step_size", "extrapolation"), numbers, strict=False))
    return Trial(NAMES[label], options, BATCH, "cyclic", _parts(label))


def _parts(label: str) -> int:
    return PARTS if "CIAG" in label or "NIM" in label else 1


def trial_of(entry: DataSet, problem: Problem, kind: str, label: str) -> Trial:
    """Return a method with a tuned step, with that of a program (its own, or NIM's and SAG's), or with nothing set."""
    name, parts = NAMES[label], _parts(label)
    exact = {"solver": "exact"} if label == "NIM, exact" else {}
    if kind == AUTOMATIC:  # batches and orders, too, are the method's own
        return Trial(name, exact, NIM_BATCH if exact else None, parts=parts)
    if label in ("NIM, inexact", "NIM, exact"):
        return Trial(name, {"step_size": 1.0, **exact}, NIM_BATCH, "cyclic", parts)
    if label == "SAG":
        return Trial(name, {"step_size": 1.0 / smoothness_of(problem)["trace"]}, BATCH, "with-replacement")
    if kind == TUNED_STEPS:
        return tuned_trial(problem, label, *entry.tuned[("A-CIAG", "CIAG", "IAG").index(label)])
    kappa, *extrapolation = entry.program
    step_size = problem.n_rows * kappa / smoothness_of(problem)["trace"]
    return _with_step(label, step_size, *(extrapolation if label == "A-CIAG" else ()))
