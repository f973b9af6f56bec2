"""Every result and problem as the value of a notebook's cell."""

from dataclasses import replace
from html.parser import HTMLParser
from inspect import isclass

import numpy as np
import pytest
import sympy as sp
from jupyter_client.manager import start_new_kernel

import kinesym as ks
from kinesym.base.notebook import Displayed, html_table
from kinesym.multibody import Body, Revolute, Tree
from kinesym.runtime.results.why import Why

#: Public classes that are parts of what is written, not results or problems.
PARTS = {"Interruption", "Phase", "Support", "UnknownHistory", "at_end", "at_start", "integral"}
#: What other tests make.
ELSEWHERE = {"ContinuousAdjoint", "Recording", "Regressor"}


class Page(HTMLParser):
    """Its text, if every element is closed in order and nothing in it can run."""

    def __init__(self, html):
        super().__init__()
        self.open, self.words = [], []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        assert tag in {"div", "table", "tr", "th", "td", "pre"}
        assert not any(name.startswith("on") for name, _ in attrs)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(self.words)


def page(value):
    html = value._repr_html_()
    assert len(html) < 20_000
    return Page(html).text


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """One of each, by the name of its class."""
    model = replace(ks.models.pendulum(), name="<x>")
    time = np.linspace(0.0, 5.0, 101)
    run = ks.simulate(model, time, {"theta": 0.5, "omega": 0.0}, {"p": 10.0})
    noise = 0.01 * np.random.default_rng(1).standard_normal((2, len(time)))
    trials = [
        ks.Experiment(time, measurements={"theta": run["theta"] + row}, labels={"subject": str(k)})
        for k, row in enumerate(noise)
    ]
    problem = ks.Collocation(model, trials, unknown={"p": (1.0, 50.0)}, scheme="gauss-4")
    solution = problem.solve({"p": 9.0})
    shooting = ks.Shooting(model, trials[0], {"p": (1.0, 50.0)}, initial={"theta": 0.5, "omega": 0})
    fit = shooting.solve({"p": 9.0})
    hybrid = ks.hybrid.Hybrid(model)
    x = sp.Symbol("x")
    path = tmp_path_factory.mktemp("shown") / "fit.kin"
    ks.bundle(problem, solution, path)
    bundle = ks.Bundle.read(path)
    every = [
        *(bundle, bundle.verify()),
        *(model, problem, shooting, hybrid, trials[0], ks.Phases(trials)),
        *(
            ks.Signal(time, run["theta"]),
            ks.Motion.harmonics([1.0], *np.ones((2, 6, 1))),
        ),
        *(solution, fit, run, problem.multistart(2, seed=1), solution.parameters),
        *(solution.diagnostics(), solution.bands(), solution.profile("p"), solution.grid_error()),
        *(run.error(), problem.verify(solution), Why("stopped", ["a < b", "c"]), fit.likelihood[0]),
        *(ks.compare({"a": solution, "<b>": solution}), ks.cross_validate(problem, solution)),
        ks.simulate(model, time, {"theta": 0.5, "omega": 0.0}, {"p": np.array([9.0, 10.0])}),
        ks.polynomial_fit(x, [0.0, 1.0, 2.0], [0.0, 1.0, 4.0], 2),
        Tree("<x>", [Body("rod", 1.0, joint=Revolute("y"))]),
        *(solution.bootstrap(3, seed=1), solution.influence(), solution.without(trials=1)),
        *(told := [ks.forecast(problem, solution, std=0.01, trials=[2])]),
        ks.Design(told[0], told[0], problem.trials, problem.trials, "D", (2.0, 1.0)),
    ]
    return {type(each).__name__: each for each in every}


def test_each_is_well_formed_and_escaped(shown):
    for name, value in shown.items():
        assert page(value).strip(), name
        assert "<x>" not in value._repr_html_(), name


def test_none_is_forgotten(shown, tmp_path):
    """Every public class is shown here, elsewhere, or is a part of what is written."""
    shown = {*shown, type(ks.Study(tmp_path)).__name__, *PARTS, *ELSEWHERE}
    assert {name for name in ks.__all__ if isclass(getattr(ks, name))} <= shown
    for name in ELSEWHERE:
        assert issubclass(getattr(ks, name), Displayed)


@pytest.mark.parametrize("kind", "Model Collocation Shooting Solution Fit Trajectory".split())
def test_names_are_there(shown, kind):
    assert "<x>" in page(shown[kind])


def test_numbers_are_there(shown):
    solution = shown["Solution"]
    estimate = f"{solution.parameters['p']:.4g}"
    for kind in ("Solution", "Fit", "Estimates", "Profile", "MultiStart"):
        assert estimate[:4] in page(shown[kind]), kind
    assert f"{solution.objective:.8g}" in page(solution)
    assert f"{shown['Trajectory']['theta'].max():.6g}" in page(shown["Trajectory"])
    assert "2 members" in page(shown["Ensemble"]) and "2 trials" in page(shown["Collocation"])
    assert "theta, omega" in page(shown["Model"])


def test_columns_are_a_table_and_sentences_are_lines(shown):
    assert "<table>" in shown["MultiStart"]._repr_html_()
    html = shown["Why"]._repr_html_()
    assert html == "<div>stopped</div><pre> 1. a &lt; b\n 2. c</pre>"
    assert html_table("<", [["a", "&"]]).count("<td") == 1


LONG = """
import numpy as np, kinesym as ks
time = np.linspace(0, 100, 100_001)
trial = ks.Experiment(time, measurements={"theta": np.sin(time)})
problem = ks.Collocation(ks.models.pendulum(), trial, unknown={"p": (0.1, 50.0)})
while True:
    solution = problem.solve({"p": 9.0}, tolerance=1e-15, max_iterations=10**6)
    if solution.status == "interrupted":
        break
solution
"""


def test_the_stop_button_returns_the_iterate():
    """SIGINT to a kernel while a line of iterations is shown; the cell ends as any other."""
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        cell, pressed, shown = client.execute(LONG), False, {}
        while shown.get("execution_state") != "idle":
            message = client.get_iopub_msg(timeout=60)
            if message["parent_header"].get("msg_id") != cell:
                continue
            shown = message["content"]
            assert message["msg_type"] != "error", shown
            if "iteration" in shown.get("text", "") and not pressed:
                manager.interrupt_kernel()
                pressed = True
            if message["msg_type"] == "execute_result":
                assert "interrupted: this is" in shown["data"]["text/html"]
                assert "p = " in shown["data"]["text/plain"]
        assert pressed
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
