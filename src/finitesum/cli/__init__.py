"""The command `finitesum`.

Data go to stdout, everything else to stderr. Exit codes: 0 done; 1 `doctor` found something broken; 2 wrong usage or
input, told in one line; 3 not converged, with ``--strict``; 130 interrupted.

Modules that take long to import (NumPy, numba, SciPy, scikit-learn, matplotlib) are imported inside the commands, so that
``finitesum --help`` answers at once.
"""

from __future__ import annotations

import click

from finitesum import __version__
from finitesum.cli.compare import compare
from finitesum.cli.data import data
from finitesum.cli.demo import demo
from finitesum.cli.doctor import doctor
from finitesum.cli.errors import CommandLine
from finitesum.cli.fit import fit
from finitesum.cli.methods import methods
from finitesum.cli.predict import predict
from finitesum.cli.warmup import warmup

__all__ = ["main"]


@click.group(cls=CommandLine, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="finitesum")
def main() -> None:
    """Minimise finite sums: linear models, fitted to the exact optimum.

    \b
    finitesum demo                               see it work on small data
    finitesum fit data.svm --alpha 1/n --out run fit a model
    finitesum predict run/model.npz test.svm     use it
    finitesum compare data.svm --out report      compare methods
    """


for _command in (demo, fit, predict, compare, methods, data, doctor, warmup):
    main.add_command(_command)
