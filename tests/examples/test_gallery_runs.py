"""Runs of examples for the site: the limit is CPU time, and what is over it is told of."""

import signal
import time
from itertools import count
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]


@pytest.fixture
def runs(monkeypatch):
    monkeypatch.syspath_prepend(str(TOP / "docs" / "_ext"))
    import example_runs

    monkeypatch.setattr(example_runs, "_SHARED", [])
    return example_runs


def test_work_is_stopped_by_cpu_time_and_not_by_the_clock(runs):
    assert runs.limited(sum, (count(),), 1) == -signal.SIGXCPU
    assert runs.limited(time.sleep, (1.1,), 1) == 0


@pytest.mark.parametrize("status", [-signal.SIGXCPU, 0, 2])
def test_an_example_that_takes_long_is_no_failure(runs, tmp_path, monkeypatch, status):
    def limited(work, arguments, seconds):
        if status != -signal.SIGXCPU:
            Path(arguments[1]).write_text("wrote a.png\nfound: 1\n2.5\n")
        return status

    monkeypatch.setattr(runs, "limited", limited)
    monkeypatch.setattr(runs, "KEPT", tmp_path)
    path = TOP / "examples" / "standing.py"
    if status == 2:
        with pytest.raises(runs.ExampleError, match="standing failed"):
            runs.run(path)
        return
    example = runs.run(path)
    if status == 0:
        assert example.seconds == 2.5 and "took 2.5 CPU seconds" in example.took
        assert example.printed == "found: 1" and example.pictures == (Path("a.png"),)
    else:
        assert example.seconds is None and not example.pictures
        assert "was stopped after 300 CPU seconds" in example.took
        assert not any(p.suffix == "" and p.is_file() for p in (tmp_path / "standing").iterdir())
