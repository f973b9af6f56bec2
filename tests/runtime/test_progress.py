"""Lines that are written over: on a terminal and in a notebook, nowhere else."""

import io
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from kinesym.runtime import progress
from kinesym.runtime.progress import Iteration


class Terminal(io.StringIO):
    def isatty(self):
        return True


def kernel(found):
    return SimpleNamespace(get_ipython=lambda: found)


@pytest.fixture
def hurried(monkeypatch):
    """Bars that are shown at once, and the clock of tqdm, which a test sets."""
    clock, bar = [0.0], progress.tqdm

    def made(**options):
        found = bar(**{**options, "delay": 0.0})
        found._time = lambda: clock[0]
        return found

    made.write = bar.write
    monkeypatch.setattr(progress, "tqdm", made)
    return clock


def shown(error, monkeypatch, show=None):
    """What a solve, a study and a sentence write."""
    monkeypatch.setattr(sys, "stderr", error)
    with progress.iteration_line(show) as report:
        report(Iteration(3, 1.5, 0.0, 0.0))
    with progress.task_bar(7, show, "starts") as report:
        report(2, 1)
    progress.say(show, "grid 1")
    return error.getvalue()


@pytest.mark.parametrize("found", [None, SimpleNamespace(), SimpleNamespace(kernel=None)])
def test_silent_elsewhere(found, monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", kernel(found))
    assert shown(io.StringIO(), monkeypatch) == ""
    monkeypatch.delitem(sys.modules, "IPython")
    assert shown(io.StringIO(), monkeypatch) == ""


def test_seen_on_a_terminal_and_in_a_notebook(monkeypatch, hurried):
    hurried[0] = 1e10
    terminal = shown(Terminal(), monkeypatch)
    monkeypatch.setitem(sys.modules, "IPython", kernel(SimpleNamespace(kernel=object())))
    for text in (terminal, shown(io.StringIO(), monkeypatch)):
        assert "iteration 3: objective 1.5" in text and "2/7" in text and "1 failed" in text
        assert text.endswith("grid 1\n") and text.count("\n") == 1
    assert shown(Terminal(), monkeypatch, show=False) == ""


@pytest.mark.parametrize("show", [None, True])
def test_without_standard_error(show, monkeypatch):
    """As in a daemon, and after 2>&-: nothing is shown, and nothing fails."""
    closed = io.StringIO()
    closed.close()
    for error in (None, closed):
        monkeypatch.setattr(sys, "stderr", error)
        with progress.iteration_line(show) as report:
            report(Iteration(3, 1.5, 0.0, 0.0))
        with progress.time_bar(0.0, 1.0, show) as report, progress.waiting_line("deriving", show):
            report(0.5)
        with progress.node_bar(3, show) as report:
            report(2)
        progress.say(show, "grid 1")


def test_iterations_that_fly_past_are_not_shown(monkeypatch, hurried):
    """A thousand a second are ten lines a second."""
    error = Terminal()
    monkeypatch.setattr(sys, "stderr", error)
    with progress.iteration_line(None) as report:
        start = hurried[0] = 1e10
        for k in range(2000):
            hurried[0] = start + 1e-3 * k
            report(Iteration(k, 1.5, 0.0, 0.0))
    assert 15 < error.getvalue().count("iteration") < 25


def test_what_is_soon_done_is_not_shown(monkeypatch):
    assert "iteration" not in shown(Terminal(), monkeypatch)


def test_waiting(monkeypatch, hurried):
    """Work that cannot tell how far it is has a line that goes on, and ends with it."""
    monkeypatch.setattr(progress, "_TICK", 0.01)
    monkeypatch.setattr(sys, "stderr", Terminal())
    hurried[0] = 1e10
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt), progress.waiting_line("deriving"):
        while "deriving" not in sys.stderr.getvalue():
            time.sleep(0.01)
        raise KeyboardInterrupt
    assert threading.active_count() <= before + 1  # tqdm has a monitor
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with progress.waiting_line("deriving"):
        assert sys.stderr.getvalue() == ""
