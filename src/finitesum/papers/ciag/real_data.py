"""The seven problems of Table 2 of the curvature paper, and the steps with which methods are run on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from finitesum.datasets import Dataset, find, make_logistic
from finitesum.evaluation.smoothness import component_smoothness, full_smoothness
from finitesum.papers.data import load
from finitesum.papers.runs import Trial
from finitesum.problems.linear import Problem

#: Rows in a component: of the authors' examples for CIAG and A-CIAG, and of NIM's authors for NIM.
BATCH, NIM_BATCH = 5, 100

#: Measurements in a pass of the methods with curvature, from the second pass on.
PARTS = 5


@dataclass(frozen=True)
class DataSet:
    """A data set of Table 2.

    Parameters
    ----------
    name
        Its name in the registry.
    n_rows, n_features
        Its size.
    has_stand_in
        Whether a generated problem of the same size takes its place where it is absent.
    quick_rows
        Rows of the stand-in in the quick form.
    max_passes
        Passes after which a run ends: methods with curvature, and methods without.
    is_quick
        Whether the quick form has it.
    """

    name: str
    n_rows: int
    n_features: int
    max_passes: tuple[int, int]
    has_stand_in: bool = False
    quick_rows: int = 0
    is_quick: bool = False

    @property
    def slug(self) -> str:
        """Its short name."""
        return self.name.partition(".")[0]


SETS = (
    DataSet("mushrooms", 8_124, 112, (60, 400), is_quick=True),
    DataSet("a9a", 32_561, 123, (60, 200), is_quick=True),
    DataSet("SUSY", 5_000_000, 18, (12, 40), has_stand_in=True, quick_rows=50_000, is_quick=True),
    DataSet("covtype.binary.scale", 581_012, 54, (40, 150)),
    DataSet("w8a", 49_749, 300, (25, 200)),
    DataSet("mnist", 60_000, 784, (15, 60)),
    DataSet("alpha", 500_000, 500, (8, 20), has_stand_in=True, quick_rows=5_000, is_quick=True),
)

#: The fraction of labels that is flipped in a stand-in, so that the classes overlap as they do in the originals.
NOISE = 0.1

#: Tuned by hand, as the paper's were: the best of the grids of `finitesum.papers.ciag.tuning`, in multiples of 1 / L (for
#: IAG of 1 / (m L)), with L the smoothness of F, and for A-CIAG the extrapolation. The paper's own values are lost.
TUNED: dict[str, dict[str, tuple[float, ...]]] = {
    "mushrooms": {"A-CIAG": (8.0, 0.98), "CIAG": (8.0,), "IAG": (64.0,)},
    "a9a": {"A-CIAG": (2.0, 0.98), "CIAG": (2.0,), "IAG": (4.0,)},
    "SUSY": {"A-CIAG": (2.0, 0.98), "CIAG": (2.0,), "IAG": (4.0,)},
    "covtype.binary.scale": {"A-CIAG": (1.0, 0.98), "CIAG": (2.0,), "IAG": (4.0,)},
    "w8a": {"A-CIAG": (16.0, 0.98), "CIAG": (16.0,), "IAG": (128.0,)},
    "mnist": {"A-CIAG": (2.0, 0.98), "CIAG": (2.0,), "IAG": (4.0,)},
    "alpha": {"A-CIAG": (1.0, 0.95), "CIAG": (2.0,), "IAG": (4.0,)},
}

#: (kappa_opt, extrapolation) of the authors' program: its default, and its example on a9a.
PROGRAM = {"a9a": (1.5e-4, 0.95)}
PROGRAM_DEFAULT = (1e-4, 0.99)


def stand_in(entry: DataSet, is_quick: bool) -> Dataset:
    """Return the generated problem that replaces an absent data set."""
    n = entry.quick_rows if is_quick else entry.n_rows
    return make_logistic(n, entry.n_features, noise=NOISE, seed=0)


@lru_cache(maxsize=1)
def problem_of(entry: DataSet, is_quick: bool, data_dir: Path | None) -> Problem:
    """Return mean logistic loss + 1/(2n) ||w||^2, on the original data or, where it is absent, on its stand-in."""
    if entry.has_stand_in and find(entry.name, data_dir=data_dir) is None:
        data = stand_in(entry, is_quick)
        return _logistic(data.rows, data.targets())
    data = load(entry.name, data_dir)
    if entry.name == "mnist":  # digits 0 to 4 against 5 to 9; four of five pixels are zero
        return _logistic(scipy.sparse.csr_array(data.rows), np.where(np.asarray(data.labels) >= 5, 1.0, -1.0))
    rows = _scaled(data.rows) if entry.has_stand_in else data.rows
    return _logistic(rows, data.targets())


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


@dataclass(frozen=True)
class Smoothness:
    """The constants that steps are made of.

    Parameters
    ----------
    tight
        L of the mean, by its largest eigenvalue.
    trace
        The bound on it that the authors' program takes: a quarter of the mean squared row length, and the penalty.
    """

    tight: float
    trace: float


@lru_cache(maxsize=1)
def smoothness_of(problem: Problem) -> Smoothness:
    """Return the constants of a problem."""
    return Smoothness(full_smoothness(problem), component_smoothness(problem.batched(problem.n_rows)))


def program_trials(entry: DataSet, problem: Problem) -> list[Trial]:
    """Return CIAG and A-CIAG with the step N kappa_opt / L of the authors' program."""
    kappa, extrapolation = PROGRAM.get(entry.name, PROGRAM_DEFAULT)
    step = problem.n_rows * kappa / smoothness_of(problem).trace
    return [
        Trial("A-CIAG", "a-ciag", {"step_size": step, "extrapolation": extrapolation}, BATCH, "cyclic", PARTS),
        Trial("CIAG", "ciag", {"step_size": step}, BATCH, "cyclic", PARTS),
    ]


def a_ciag(problem: Problem, multiple: float, extrapolation: float) -> Trial:
    """Return A-CIAG with a multiple of 1 / L as its step."""
    step = multiple / smoothness_of(problem).tight
    return Trial("A-CIAG", "a-ciag", {"step_size": step, "extrapolation": extrapolation}, BATCH, "cyclic", PARTS)


def ciag(problem: Problem, multiple: float) -> Trial:
    """Return CIAG with a multiple of 1 / L as its step."""
    return Trial("CIAG", "ciag", {"step_size": multiple / smoothness_of(problem).tight}, BATCH, "cyclic", PARTS)


def iag(problem: Problem, multiple: float) -> Trial:
    """Return IAG with a multiple of 1 / (m L) as its step."""
    step = multiple / (smoothness_of(problem).tight * problem.batched(BATCH).n_components)
    return Trial("IAG", "iag", {"step_size": step}, BATCH, "cyclic")


#: Makes a trial of a problem and the numbers of `TUNED`.
MAKERS: dict[str, Callable[..., Trial]] = {"A-CIAG": a_ciag, "CIAG": ciag, "IAG": iag}


def tuned_trials(entry: DataSet, problem: Problem) -> list[Trial]:
    """Return all methods with constant steps: CIAG, A-CIAG and IAG as in `TUNED`, NIM and SAG as in the programs."""
    made = {label: maker(problem, *TUNED[entry.name][label]) for label, maker in MAKERS.items()}
    sag = {"step_size": 1.0 / smoothness_of(problem).trace}
    return [
        made["A-CIAG"],
        made["CIAG"],
        Trial("NIM, inexact", "nim", {"step_size": 1.0}, NIM_BATCH, "cyclic", PARTS),
        Trial("NIM, exact", "nim", {"step_size": 1.0, "solver": "exact"}, NIM_BATCH, "cyclic", PARTS),
        Trial("SAG", "sag", sag, BATCH, "with-replacement"),
        made["IAG"],
    ]


def automatic_trials() -> list[Trial]:
    """Return the same methods with automatic steps, batches and orders, and lazy Newton, which is ours."""
    names = {"A-CIAG": "a-ciag", "CIAG": "ciag", "NIM, inexact": "nim", "SAG": "sag", "IAG": "iag"}
    exact = Trial("NIM, exact", "nim", {"solver": "exact"}, NIM_BATCH, parts=PARTS)
    trials = [Trial(label, name, parts=1 if label in ("SAG", "IAG") else PARTS) for label, name in names.items()]
    return [*trials[:3], exact, *trials[3:], Trial("Lazy Newton", "lazy-newton")]
