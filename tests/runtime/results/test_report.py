"""Reports: what they say, and that pages stand alone."""

import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.runtime.results.estimates import Uncertainty, estimates_of
from kinesym.runtime.results.plot import subplots
from kinesym.runtime.results.precision import (
    correlated,
    correlations,
    known_to,
    least_certain,
    plot_correlations,
    precision,
)
from kinesym.runtime.results.report import (
    Findings,
    Picture,
    Report,
    Table,
    environment,
)

NAMES = ["k", "b", "m"]
COVARIANCE = np.array([[4.0, 0.0, 1.98], [0.0, 0.0, 0.0], [1.98, 0.0, 1.0]])


def figure():
    made, axis = subplots(figsize=(3, 2))
    axis.plot([0, 1], [0, 1])
    return made


def report():
    return Report(
        title="standing <human>",
        verdict=["k is known to 4 %.", "residuals of theta are not white"],
        pictures=[Picture("Fit", figure(), "dots: measured"), Picture("Residuals", figure())],
        tables=[
            Table("Parameters", ("", "estimate"), [("k", "3"), ("a|b", "<1>")]),
            Table("Channels", ("", "VAF"), [("theta", "99 %")]),
        ],
        details=environment(),
    )


class Page(HTMLParser):
    """Tags that are open, images, and the text of a page."""

    def __init__(self):
        super().__init__()
        self.open, self.images, self.text = [], [], ""

    def handle_starttag(self, tag, attributes):
        if tag == "img":
            self.images.append(dict(attributes)["src"])
        elif tag not in ("meta", "link"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_a_page_stands_alone(tmp_path):
    path = report().write(tmp_path / "report.html")
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    assert not page.open
    assert len(page.images) == 2 and all(i.startswith("data:image/png") for i in page.images)
    assert "standing <human>" in page.text and "a|b" in page.text and "<1>" in page.text
    assert page.text.index("k is known to 4 %.") < page.text.index("dots: measured")
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_markdown(tmp_path):
    path = report().write(tmp_path / "fit.md")
    text = path.read_text(encoding="utf-8")
    assert "- k is known to 4 %." in text
    assert "| k | 3 |\n| a\\|b | &lt;1> |" in text
    assert "![Fit](fit_pictures/1.png)" in text
    assert (tmp_path / "fit_pictures" / "2.png").read_bytes().startswith(b"\x89PNG")


def test_other_endings(tmp_path):
    with pytest.raises(ValueError, match=r"a report is a \.html or a \.md file, got 'fit\.pdf'"):
        report().write(tmp_path / "fit.pdf")


def test_a_browser_renders_it(tmp_path):
    """Where Chromium is installed: the page as a browser sees it."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    path = report().write(tmp_path / "report.html")
    if browser is None:
        return
    seen = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    assert seen.count("<figure>") == 2 and "How it was made" in seen


def estimates(**more):
    values = {"k": 100.0, "b": 0.0, "m": 1.5}
    return estimates_of(values, Uncertainty(names=NAMES, covariance=COVARIANCE, **more))


def test_how_well_parameters_are_known():
    assert list(known_to(estimates(held=["b"]))) == [
        "k is known to 2 % (standard errors).",
        "m is known to 67 %: this record tells little about it.",
        "b: at a bound.",
    ]


def test_owners_are_no_part_of_names():
    """Brackets in a parameter's own name mean nothing."""
    names = ["k[0]", "k[1]"]
    found = estimates_of(
        {"k[0]": 1.0, "k[1]": 2.0}, Uncertainty(names=names, covariance=1e-4 * np.eye(2))
    )
    each = "k[1] is known to 0.5 %; k[0] is known to 1 % (standard errors)."
    assert list(known_to(found)) == [each]
    every = "k of 2 owners is known to 0.5 % (k[1]) to 1 % (k[0]) (standard errors)."
    assert list(known_to(found, owned=dict.fromkeys(names, "k"))) == [every]


def test_correlations():
    rho = correlations(COVARIANCE)
    assert rho[0, 2] == pytest.approx(0.99) and np.isnan(rho[1]).all()
    [said] = correlated(NAMES, COVARIANCE)
    assert said.startswith("k and m are told apart badly (correlation 0.990)")
    assert "their sum is least certain" in said
    assert len(plot_correlations(NAMES, COVARIANCE).axes) == 2


def test_combination_that_is_known_least():
    """A sum that is known ten times better than its parts; against the formulas of two."""
    values = {"k": 10.0, "m": 5.0}
    shape = np.array([[1.0, -0.99], [-0.99, 1.0]])
    about = Uncertainty(names=[*values], covariance=shape * np.outer([0.1, 0.1], [0.1, 0.1]))
    found = estimates_of(values, about)
    alone = 0.02 * np.sqrt(1.0 - 0.99**2)
    assert precision(found, about)[0] == ("m", "2 %", f"{100 * alone:.2g} %")
    [said] = least_certain(found, about)
    assert said.startswith("Hardest to see is a common change, m +2 %, k -1 % (one")
    apart = Uncertainty(names=[*values], covariance=np.diag([1e-4, 1.0]))
    assert not list(least_certain(estimates_of(values, apart), apart))


def test_of_what_has_not_converged(tmp_path):
    """Where `std` was not given, and no fit tells it."""
    x, k = ks.dynamicsymbols("x"), sp.Symbol("k")
    model = ks.Model("decay", [x], [], [k], [x.diff(ks.t) + k * x])
    time = np.linspace(0.0, 2.0, 11)
    trial = ks.Experiment(time, measurements={x: np.exp(-3 * time)})
    problem = ks.Collocation(model, trial, unknown={k: (0, 9)})
    lost = problem.solve({k: 0.1}, max_iterations=1)
    assert not lost.success
    text = lost.report(tmp_path / "lost.md").read_text(encoding="utf-8")
    assert "It has not converged" in text and "- sampling: 11 of x at 5 Hz" in text


@pytest.mark.study
def test_what_was_solved(tmp_path):
    """Equations, known values, method, grid, sampling, bounds, starts; units in tables, subjects in
    headings; and after loading, too."""
    x, v = ks.dynamicsymbols("x v")
    k, c, m = sp.symbols("k c m")
    rates = [x.diff(ks.t) - v, m * v.diff(ks.t) + k * x + c * v]
    units = {k: "N/m", x: "m", m: "kg"}
    model = ks.Model("swing", [x, v], [], [k, c, m], rates, units=units)
    time, rng = np.linspace(0.0, 2.0, 41), np.random.default_rng(0)
    known, trials = {m: 2.0}, []
    for subject, stiffness in (("s01", 4.0), ("s02", 5.0)):
        run = ks.simulate(model, time, {x: 1.0, v: 0.0}, {k: stiffness, c: 0.3, **known})
        record = {x: run["x"] + 0.01 * rng.standard_normal(41)}
        about = {"std": {x: 0.01}, "labels": {"subject": subject}}
        trials.append(ks.Experiment(time, measurements=record, **about))
    unknown = {k: ks.per("subject", (1, 9)), c: None}
    given = {"unknown": unknown, "known": known}
    problem = ks.Collocation(model, trials, **given)
    shooting = ks.Shooting(model, trials, initial={x: 1.0, v: 0.0}, **given)
    best = problem.multistart(3, ranges={c: (0.1, 1)}, guess={c: 0.2}, max_iterations=100).best
    fit = shooting.solve({k: 3.0, c: 0.2})
    best.save(tmp_path / "best.nc")
    for page, lines in (
        (ks.Solution.load(tmp_path / "best.nc"), ("- scheme: radau-3", "starts: 3, of which")),
        (fit, ("- method: rk4, 1 step per interval",)),
    ):
        text = page.report(tmp_path / "fit.md").read_text(encoding="utf-8")
        for line in (
            *lines,
            "## Fit, trial 1 (s02)",
            "0 = c\\*v + k\\*x + m\\*Derivative(v, t)",
            "| m [kg] | 2 |",
            "- nodes: 41 over 2 s, 2 trials",
            "- sampling: 82 of x at 20 Hz",
            "| x [m], trial 1 (s02) | 41 |",
        ):
            assert line in text, line
        first, second = text.split("## What this experiment can tell")
        assert "if all others were known" in second and "four such records" in second
        rows = [line for line in first.splitlines() if line.startswith(("| k[s", "| c |"))]
        assert [row.endswith("| 1 ... 9 |") for row in rows] == [row[2] == "k" for row in rows]


def test_bands_are_around_their_lines_and_many_channels_are_chosen(monkeypatch, tmp_path):
    """Fourteen channels at levels of their own, in two columns; those that fit worst are drawn."""
    x, level = ks.dynamicsymbols("x"), sp.Symbol("level")
    names = [f"c{k}" for k in range(14)]
    outputs = {name: x + 10 * k for k, name in enumerate(names)}
    model = ks.Model("rest", [x], [], [level], [x.diff(ks.t)], outputs=outputs)
    time = np.linspace(0.0, 1.0, 5)
    noise = (
        np.random.default_rng(0).standard_normal((14, 5)) * np.r_[np.ones(12), 0.1, 0.1][:, None]
    )
    rows = {name: 3.0 + 10 * k + noise[k] for k, name in enumerate(names)}
    trial = ks.Experiment(time, measurements=rows, std=dict.fromkeys(names, 1.0))
    fit = ks.Shooting(model, trial, {level: (0, 9)}, initial={x: level}).solve({level: 2.0})
    caught = []
    monkeypatch.setattr(Findings, "report", lambda self: caught.append(self) or report())
    fit.report(tmp_path / "fit.html")
    axes = [axis for axis in caught[0]._fit(0).axes if axis.lines]
    assert len(axes) == 12 and not {"c12", "c13"} & {axis.get_ylabel() for axis in axes}
    for axis in axes:
        band = axis.collections[-1].get_paths()[0].vertices[:, 1]
        shown = axis.lines[-1].get_ydata()
        assert band.min() < shown.min() and shown.max() < band.max(), axis.get_ylabel()
