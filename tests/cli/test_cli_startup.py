"""The command answers at once: nothing heavy is imported for help."""

import json
import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete

from finitesum.cli import main

HEAVY = {"numpy", "scipy", "numba", "sklearn", "matplotlib", "pandas", "rich", "jinja2", "pooch", "torch"}

COMMANDS = ["fit", "show", "predict", "compare", "demo", "methods", "warmup", "doctor", "data", "data list", "data verify"]


def test_help_imports_nothing_heavy():
    program = (
        "import json, sys, contextlib, io\n"
        "from finitesum.cli import main\n"
        f"for command in {['', *COMMANDS]!r}:\n"
        "    with contextlib.redirect_stdout(io.StringIO()):\n"
        "        main.main([*command.split(), '--help'], standalone_mode=False)\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not HEAVY & set(json.loads(done.stdout))


def test_models_in_files_wait_for_no_estimators():
    program = "import sys, finitesum.estimators.model\nprint('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_as_a_module():
    done = subprocess.run([sys.executable, "-m", "finitesum", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("finitesum, version ")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command(run, command):
    result = run(*command.split(), "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: finitesum {command}")
    assert result.stderr == ""


def test_a_shell_completes_names():
    def complete(*args, begun):
        completion = ShellComplete(main, {}, "finitesum", "_FINITESUM_COMPLETE")
        return [item.value for item in completion.get_completions(list(args), begun)]

    assert complete(begun="com") == ["compare"]
    assert complete("fit", "--solver", begun="sa") == ["sag", "saga", "sarah"]
    assert complete("fit", "--loss", begun="squ") == ["squared", "squared-epsilon-insensitive", "squared-hinge"]
