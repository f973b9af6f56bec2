"""Rows of long runs: kept as they come, failed ones too, and not measured a second time."""

import argparse

import pytest
import rows


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run of tasks; a task of 0 raises, one of 9 ends the run, as would the loss of power."""
    monkeypatch.setattr(rows, "FOLDER", tmp_path)
    monkeypatch.setattr(rows, "commit", lambda: "abc")
    seen = []

    def function(name, number):
        seen.append(number)
        if number == 9:
            raise KeyboardInterrupt
        return [name, 1 / number]

    def made(tasks, resume=False):
        seen.clear()
        given = argparse.Namespace(resume=resume, quick=False)
        return list(rows.kept(given, "x", function, tasks)), [*seen]

    return made


def test_a_run_that_ended_goes_on(run, tmp_path):
    tasks = [("a", 2), ("b", 0), ("c", 9), ("d", 4)]
    with pytest.raises(KeyboardInterrupt):
        run(tasks)
    file = tmp_path / "x.jsonl"
    file.write_text(file.read_text() + '{"task": ["d", 4], "val')  # cut off
    found, seen = run([*tasks[:2], tasks[3]], resume=True)
    assert seen == [0, 4] and [row.value for row in found] == [["a", 0.5], None, ["d", 0.25]]
    assert rows.remarks(found) == ["Failed: b (ZeroDivisionError: division by zero)."]
    lines = [rows.line_of(row, "abc", lambda value: [*map(str, value), "!"]) for row in found[:2]]
    assert lines == [["a", "0.5", "!"], ["b", "ZeroDivisionError: division by zero", "-"]]
    assert run(tasks[:1]) == (found[:1], [2])  # without --resume all is measured anew


def test_rows_of_several_runs_are_told(run, monkeypatch):
    run([("a", 2)])
    monkeypatch.setattr(rows, "commit", lambda: "def")
    [remark] = rows.remarks(run([("a", 2), ("b", 4)], resume=True)[0])
    assert remark.startswith("Rows are from 2 runs: a (2") and "commit abc); b (" in remark
