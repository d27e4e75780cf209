"""The command `finitesum`.

Data go to stdout, everything else to stderr. Exit codes: 0 done; 1 `doctor` found something broken; 2 wrong usage or
input, described in one line; 3 not converged, with ``--strict``; 130 interrupted.

Modules that take long to import (NumPy, numba, SciPy, scikit-learn, matplotlib) are imported inside the commands, so that
``finitesum --help`` answers at once.
"""

import click

from finitesum import __version__
from finitesum.cli import compare, data, demo, doctor, fit, methods, predict, reproduce, show, warmup
from finitesum.cli.errors import CommandLine

__all__ = ["main"]


@click.group(cls=CommandLine, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="finitesum")
def main() -> None:
    """Minimise finite sums: linear models, fitted to the exact optimum.

    \b
    finitesum demo                               see it work on small data
    finitesum fit data.svm --alpha 1/n --out run fit a model
    finitesum show run                           its coefficients
    finitesum predict run test.svm               use it
    finitesum compare data.svm --out report      compare methods
    finitesum reproduce list                     the experiments behind them
    """


for _command in (demo.demo, fit.fit, predict.predict, show.show, compare.compare, reproduce.reproduce):
    main.add_command(_command)
for _command in (methods.methods, data.data, doctor.doctor, warmup.warmup):
    main.add_command(_command)
