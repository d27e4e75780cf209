"""Reads thousands of damaged files: `python tests/fuzz/campaign.py --files 10000`.

Each is a valid small file that was changed at random. What may come of it is the right result, by another reader where
there is one, or one of the package's errors, in a sentence. Another exception, a crash, ten seconds without an answer, two
gigabytes of memory, other numbers, or a traceback of the command line is a failure, which is reported with the numbers that
make the same file again. Files are read by processes of their own, with kernels as Python: an index beyond an array's end
is an IndexError there.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

#: Seconds that a file may take, and files that a process reads.
SECONDS, IN_A_PROCESS = 10, 250

#: One in so many files is given to the command line, too.
COMMANDS = 12


class _TooLongError(BaseException):
    pass


def _too_long(*_arguments: Any) -> None:
    raise _TooLongError(f"no answer in {SECONDS} seconds")


def one(kinds: list[Any], seeds: dict[str, bytes], number: int, folder: Path) -> tuple[str, str]:
    """Return the outcome of a file, "read", "refused" or "FAILED", and what happened."""
    from fuzz.mutations import mutated

    r = random.Random(number)
    kind = kinds[number % len(kinds)]
    where = folder / str(number % len(kinds))
    where.mkdir(exist_ok=True)
    if kind.name not in seeds:
        path = kind.make(where)
        seeds[kind.name] = path.name.encode() + b"\n" + path.read_bytes()
        kind.read(path)  # what is not changed is read
        if kind.is_fixed:
            seeds[kind.name + " read"] = repr(kind.read(path)).encode()
    name, _, content = seeds[kind.name].partition(b"\n")
    path = next(iter(where.rglob(name.decode())), where / name.decode())
    path.write_bytes(mutated(r, content, is_text=kind.is_text, is_archive=kind.is_archive))
    outcome = _of_reader(kind, path, seeds)
    if outcome[0] != "FAILED" and kind.in_commands and r.randrange(COMMANDS) == 0 and path.stat().st_size < 10**6:
        outcome = _of_command(path) or outcome
    return outcome


def _of_reader(kind: Any, path: Path, seeds: dict[str, bytes]) -> tuple[str, str]:
    import numpy as np

    try:
        found = kind.read(path)
    except kind.errors as error:
        message = str(error)
        is_sentence = message.endswith((".", "?", ")")) and "Traceback" not in message and len(message) < 2000
        return ("refused", message) if is_sentence else ("FAILED", f"no sentence: {message!r}")
    except MemoryError:
        return "FAILED", "two gigabytes were not enough"
    except Exception:
        return "FAILED", traceback.format_exc(limit=-6)
    if kind.is_fixed and repr(found).encode() != seeds[kind.name + " read"]:
        return "FAILED", f"read {found!r}"
    if kind.other is not None:
        try:
            others = kind.other(path, found)
        except Exception as error:
            return "FAILED", f"another reader refuses it: {type(error).__name__}: {error}; read {found!r}"
        for one, other in zip(found, others, strict=True):
            if not (np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other):
                return "FAILED", f"read {one!r}, another reader {other!r}"
    return "read", ""


def _of_command(path: Path) -> tuple[str, str] | None:
    from click.testing import CliRunner

    from finitesum.cli import main

    arguments = ["fit", str(path), "--loss", "squared", "--max-iter", "2", "--solver", "fg"]
    result = CliRunner().invoke(main, arguments, prog_name="finitesum")
    is_line = result.exit_code == 0 or (result.exit_code == 2 and result.stderr.count("\n") <= 2)
    if isinstance(result.exception, SystemExit | None) and is_line and "Traceback" not in result.output:
        return None
    return "FAILED", f"finitesum fit: {result.exit_code} {result.exception!r} {result.output}"


def read_some(first: int, last: int, log: Path) -> None:
    """Read the files of some numbers, and write a line for each."""
    import resource

    from fuzz.kinds import kinds

    faulthandler.enable()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _too_long)
    known, seeds = kinds(), {}
    used = int(Path("/proc/self/statm").read_text().split()[0]) * 4096
    resource.setrlimit(resource.RLIMIT_AS, (used + (2 << 30), used + (2 << 30)))
    with tempfile.TemporaryDirectory() as folder, log.open("w", buffering=1) as out:
        os.environ["FINITESUM_HOME"] = str(Path(folder, "home"))
        for number in range(first, last):
            out.write(f"{number}\t")
            signal.alarm(SECONDS)
            try:
                outcome = one(known, seeds, number, Path(folder))
            except _TooLongError as error:
                outcome = "FAILED", str(error)
            finally:
                signal.alarm(0)
            out.write(json.dumps([known[number % len(known)].name, *outcome]) + "\n")


def run(n_files: int, seed: int = 0, jobs: int = 1) -> tuple[dict[str, int], list[str]]:
    """Return how many files had which outcome, and the failures."""
    counts, failures = {"read": 0, "refused": 0}, []
    parts = [(k, min(k + IN_A_PROCESS, seed + n_files)) for k in range(seed, seed + n_files, IN_A_PROCESS)]
    running: list[tuple[int, Any, Path]] = []
    environment = {**os.environ, "NUMBA_DISABLE_JIT": os.environ.get("NUMBA_DISABLE_JIT", "1"), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        while parts or running:
            while parts and len(running) < jobs:
                start, last = parts.pop(0)
                log = Path(folder, f"{start}.log")
                command = [sys.executable, __file__, "--read", str(start), str(last), str(log)]
                running.append((last, subprocess.Popen(command, env=environment, stderr=subprocess.PIPE), log))
            last, process, log = running.pop(0)
            errors = b""
            with contextlib.suppress(subprocess.TimeoutExpired):
                errors = process.communicate(timeout=120 + SECONDS * IN_A_PROCESS / 10)[1]
            if process.returncode is None:
                process.kill()
                errors = process.communicate()[1]
            lines = log.read_text().splitlines() if log.exists() else []
            for line in lines:
                number, _, report = line.partition("\t")
                if not report:  # the process ended here
                    text = errors.decode(errors="replace")[-1500:]
                    failures.append(f"file {number}: exit {process.returncode}\n{text}")
                    parts += [(int(number) + 1, last)] if int(number) + 1 < last else []
                    break
                kind, outcome, message = json.loads(report)
                counts[outcome] = counts.get(outcome, 0) + 1
                if outcome == "FAILED":
                    failures.append(f"file {number} ({kind}): {message}")
            if not lines:
                failures.append(f"no file was read: {errors.decode(errors='replace')[-1500:]}")
    return counts, failures


def main() -> None:
    """Run a campaign."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="number of the first file")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--read", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read:
        read_some(int(given.read[0]), int(given.read[1]), Path(given.read[2]))
        return
    begun = time.time()
    counts, failures = run(given.files, given.seed, given.jobs)
    print("\n".join(failures))
    print(f"{sum(counts.values())} files in {time.time() - begun:.0f} s: {counts}; {len(failures)} failures")
    sys.exit(bool(failures))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    main()
