"""Warnings are left out in one thread only, and no state of the process is held while code of
others may run."""

import ast
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import kinesym as ks
from kinesym.base.quiet import quietly, warn

TOP = Path(__file__).parents[2]
PRODUCT = [
    path
    for folder in ("api", "symbolic", "codegen", "runtime", "gait", "models")
    for path in sorted((TOP / folder).rglob("*.py"))
]
#: Context managers that change what others in the thread, or in the process, see.
STATES = ("catch_warnings", "errstate", "printoptions", "quietly")


def held_by(node):
    """Names of functions whose results a with-statement enters."""
    calls = [item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call)]
    return {getattr(call.func, "attr", getattr(call.func, "id", "")) for call in calls}


def test_no_state_is_held_across_a_yield_and_no_warning_of_the_process_muted():
    for path in PRODUCT:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.With | ast.AsyncWith):
                yields = any(isinstance(e, ast.Yield | ast.YieldFrom) for e in ast.walk(node))
                assert not (yields and held_by(node) & {*STATES}), f"{path}:{node.lineno}"
                assert "catch_warnings" not in held_by(node), f"{path}:{node.lineno}"


def test_other_threads_are_heard_meanwhile():
    entered, heard = threading.Event(), threading.Event()

    def silent():
        with quietly():
            entered.set()
            assert heard.wait(10.0)
            warn("not to be heard")

    thread = threading.Thread(target=silent)
    with pytest.warns(UserWarning) as found:
        thread.start()
        assert entered.wait(10.0)
        warnings.warn("of another package", stacklevel=1)
        warn("of ours")
        heard.set()
        thread.join()
        with quietly():
            warnings.warn("of code that is called within", stacklevel=1)
        warn("after it")
    words = ["of another package", "of ours", "of code that is called within", "after it"]
    assert [str(one.message) for one in found] == words
    assert {one.filename for one in found} == {__file__}


def test_an_error_of_steps_is_found_quietly_and_leaves_the_filters_alone(monkeypatch):
    x = ks.dynamicsymbols("x")
    model = ks.Model("blow_up", [x], [], [], [x.diff(ks.t) - x**2])
    with pytest.warns(UserWarning, match="blow_up"):
        run = ks.simulate(model, np.linspace(0.0, 2.0, 41), {x: 1.0})

    def enter(self):
        raise AssertionError("warnings of the process are muted")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        monkeypatch.setattr(warnings.catch_warnings, "__enter__", enter)
        assert np.isfinite(run.error().states["x"]).any()
        monkeypatch.undo()
