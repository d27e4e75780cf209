"""`finitesum reproduce`: resuming, the page and its files, the comparison with recorded values."""

import csv
import json
import math
import re
from functools import partial
from pathlib import Path

import pytest

from finitesum.papers import experiment as registry, runner
from finitesum.papers.claims import Finding, Verdict, against, listed, tally
from finitesum.papers.experiment import Context, Outcome, Table, Unit, Value
from finitesum.papers.runner import agrees, check, classes_of, record, recorded


def references_are(monkeypatch, values, verdicts=None):
    known = {"values": values, "verdicts": verdicts or {}}
    monkeypatch.setattr("finitesum.papers.runner.recorded", lambda name, size: known)


def test_a_unit_is_computed_once_and_again_with_other_arguments(tmp_path):
    calls = []

    def compute(folder, k, at=0):
        calls.append(k)
        return {"value": k + at + 0.1}

    def unit(name, k, folder="here", **options):
        return Unit(name, partial(compute, Path(folder), k, **options))

    context = Context("quick", tmp_path)
    first = context.complete([unit("a", 1), unit("b/c d", 2)])
    assert first == {"a": {"value": 1.1}, "b/c d": {"value": 2.1}}
    assert context.complete([unit("a", 1, folder="there"), unit("b/c d", 2)]) == first
    assert len(calls) == 2
    assert context.complete([unit("a", 3)]) == {"a": {"value": 3.1}}
    assert context.complete([unit("a", 3, at=1)]) == {"a": {"value": 4.1}}
    assert len(calls) == 4


def test_a_damaged_unit_is_computed_again(tmp_path):
    context, unit = Context("quick", tmp_path), Unit("a", partial(dict, value=math.nan))
    context.complete([unit])
    (file,) = (tmp_path / "units").iterdir()
    file.write_text(file.read_text()[:5])
    assert math.isnan(context.complete([unit])["a"]["value"])
    assert json.loads(file.read_text())


def test_an_interrupted_run_continues_with_the_next_unit(run, squares, tmp_path):
    squares.fails_at = 3
    stopped = run("reproduce", "toy/squares", "--out", tmp_path)
    assert stopped.exit_code == 130
    assert "Give the same command again" in stopped.stderr
    assert squares.computed == [1, 2]
    squares.fails_at = None
    done = run("reproduce", "toy/squares", "--out", tmp_path)
    assert done.exit_code == 0, done.output
    assert squares.computed == [1, 2, 3]


def test_page_and_files(run, squares, tmp_path):
    result = run("reproduce", "all", "--quick", "--out", tmp_path, "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["experiments"][0]["verdicts"] == [{"claim": "Squares grow", "outcome": "holds"}]
    assert report["experiments"][0]["values"] == {"sum": 14.0}
    folder = tmp_path / "toy-squares"
    assert (folder / "squares.png").read_bytes().startswith(b"\x89PNG")
    with (folder / "squares.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [["k", "square"], ["1", "1"], ["2", "4"], ["3", "9"]]
    assert json.loads((folder / "result.json").read_text())["values"] == {"sum": 14.0}
    page = (tmp_path / "reproduce.html").read_text(encoding="utf-8")
    for text in ("Three squares", "A setting.", "A note.", "Squares of 1, 2 &amp; 3.", "1, 4, 9", "1 claim: 1 holds"):
        assert text in page
    assert page.count("<svg") == 1
    assert not re.search(r"https?:|<script|<link|<img|@import", page)


def test_absent_data_is_a_note_and_no_error(run, squares, tmp_path):
    squares.absent = {"SUSY": "'finitesum data fetch SUSY' gets it."}
    result = run("reproduce", "toy/squares", "--out", tmp_path)
    assert result.exit_code == 0
    assert "SUSY was left out. 'finitesum data fetch SUSY' gets it." in result.stderr
    assert "finitesum data fetch SUSY" in (tmp_path / "reproduce.html").read_text()


@pytest.mark.parametrize(
    ("values", "verdicts", "code"),
    [
        ({"sum": 14.4}, {"Squares grow": "holds"}, 0),
        ({"sum": 14.6}, {}, 1),
        ({"sum": None}, {}, 1),
        ({"sum": 14.0, "other": 1.0}, {}, 1),
        ({"sum": 14.0}, {"Squares grow": "does not hold"}, 1),
    ],
)
def test_check_exits_with_1_on_a_difference(run, squares, tmp_path, monkeypatch, values, verdicts, code):
    references_are(monkeypatch, values, verdicts)
    result = run("reproduce", "toy/squares", "--check", "--out", tmp_path)
    assert result.exit_code == code, result.output


def test_where_nothing_is_recorded_that_is_said(run, squares, tmp_path, monkeypatch):
    references_are(monkeypatch, {})
    result = run("reproduce", "toy/squares", "--check", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert "0 recorded values and verdicts were found again. Nothing could be compared in toy/squares." in result.stdout


def test_what_absent_data_leaves_out_is_not_compared(run, squares, tmp_path, monkeypatch):
    references_are(monkeypatch, {"sum": 14.0, "SUSY": 1.0}, {"Squares grow": "holds only for SUSY"})
    squares.absent = {"SUSY": "Get it."}
    result = run("reproduce", "toy/squares", "--check", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    assert "2 more could not be compared" in (tmp_path / "reproduce.html").read_text()


def test_recorded_outcomes_are_found_again(tmp_path, monkeypatch):
    file = tmp_path / "references.json"
    verdicts = [Verdict("a", ()), Verdict("seconds", (), noisy=True)]
    outcome = Outcome(verdicts=verdicts, values={"x": Value(1.23456789012), "gone": Value(math.nan)})
    record(file, "toy", "quick", outcome)
    record(file, "toy", "full", outcome)
    monkeypatch.setattr(runner.resources, "files", lambda package: tmp_path)
    known = recorded("toy", "quick")
    assert known == {"verdicts": {"a": "undecided"}, "values": {"x": 1.2345679, "gone": None}}
    assert recorded("other", "quick") == {"verdicts": {}, "values": {}}
    close = Outcome(verdicts=verdicts, values={"x": Value(1.2345679, 1e-7), "gone": Value(math.nan)})
    assert check(close, known).differences == ()
    with pytest.raises(ValueError, match="lacks SUSY"):
        record(file, "toy", "quick", Outcome(absent={"SUSY": ""}))


def test_where_data_is_absent_values_alone_are_recorded_and_none_is_lost(tmp_path, monkeypatch):
    file = tmp_path / "references.json"
    monkeypatch.setattr(runner.resources, "files", lambda package: tmp_path)
    part = Outcome(verdicts=[Verdict("a", ())], values={"x": Value(1.0)}, absent={"SUSY": "Get it."})
    record(file, "toy", "full", part)
    assert recorded("toy", "full") == {"verdicts": {}, "values": {"x": 1.0}}
    whole = Outcome(verdicts=[Verdict("a", ())], values={"x": Value(1.0), "y": Value(2.0)})
    assert check(whole, recorded("toy", "full")).differences == ()
    record(file, "toy", "full", Outcome(values={"x": Value(1.0), "y": Value(2.0)}))
    with pytest.raises(ValueError, match="lacks SUSY"):
        record(file, "toy", "full", part)
    with pytest.raises(ValueError, match="stand-in"):
        record(file, "toy", "full", Outcome(values={"x": Value(1.0), "y": Value(2.0)}, is_usual=False))


def test_a_tally_counts_the_papers_claims():
    yes, no = (Verdict("a", (Finding("", holds, ""),)) for holds in (True, False))
    assert tally([yes, yes, no, Verdict("b", ())]) == ("4 claims: 2 hold, 1 does not hold, 1 holds in part or is undecided")
    assert tally([Verdict("ours", (), of_paper=False)]) == ""


def test_columns_of_words_differ_from_columns_of_numbers():
    rows = [["a9a", "tuned", "3.6 / 0.04", "–", "1/64 of it", 7], ["w8a", "own", "> 40 (2e-03)", "–", "the whole", 8]]
    rows.append(["mnist", "own", "diverges", "-0.5", "half", 9])
    assert classes_of(Table("", "", ("", "", "", "", "", ""), rows)) == ["name", "text", "", "", "text", ""]
    assert classes_of(Table("", "", ("a", "b"), [])) == ["name", ""]


def test_agreement():
    assert agrees(Value(10.0, relative=0.1), 11.0)
    assert not agrees(Value(10.0, relative=0.1), 11.2)
    assert agrees(Value(math.inf), math.inf)
    assert not agrees(Value(math.inf), 1.0)
    assert not agrees(Value(1.0, absolute=5.0), math.nan)
    assert agrees(Value(math.nan), math.nan)


def outcome_of(findings):
    return Verdict("", tuple(Finding(*entry, "") for entry in findings)).outcome


def test_numbers_in_words():
    numbers = {"A-CIAG": 4.1, "NIM, exact": 3.4, "IAG": math.inf}
    assert listed(numbers, "passes") == "A-CIAG 4.1 passes, NIM exact 3.4, IAG not reached"
    assert against(4.0, 5.5) == "4 passes against 5.5"
    assert against(44.0, math.inf) == "44 passes against not reached"


def test_outcomes_in_words():
    assert outcome_of([("", True)]) == "holds"
    assert outcome_of([("", False)]) == "does not hold"
    assert outcome_of([("a", True), ("b", False), ("c", None)]) == "holds only for a (not for b; undecided for c)"
    assert outcome_of([("a", False), ("b", None)]) == "does not hold for a, undecided for b"
    assert outcome_of([]) == outcome_of([("a", None), ("b", None)]) == "undecided"


def test_list_names_all_experiments(run):
    result = run("reproduce", "list", "--json")
    assert result.exit_code == 0
    assert [entry["name"] for entry in json.loads(result.stdout)] == list(registry.names())


def test_an_unknown_name_is_reported_with_the_known_ones(run, tmp_path):
    result = run("reproduce", "ciag/fig9", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "ciag/fig1" in result.stderr
    assert not (tmp_path / "out").exists()
