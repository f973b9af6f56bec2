"""Names, labels and units are text, in every format and picture: no tags, no markup, no formulas
that are none."""

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.runtime.results.plot import close, plain, subplots
from kinesym.runtime.results.report import Report, Table, markdown

#: As text, and what Markdown shows of it.
NAMES = (
    "x<script>alert(1)</script>",
    "b[s01] of k[a](http://x)",
    "_x_ and theta_dot",
    "a*b*c **d**",
    "$x$ a$b$",
    "v|b `c` ~~d~~",
    "&lt; & \\alpha\\",
    "# no heading",
    "- no list",
    "> no quotation",
    "[a]: http://x",
    "5 > 1 - 2, -0.5 ... 3",
)


@pytest.mark.parametrize("text", NAMES)
def test_markdown(text):
    """By a renderer that stands for all, if it is here."""
    found = markdown(text)
    assert "<" not in found and "|" not in found.replace("\\|", "")
    parser = pytest.importorskip("markdown_it").MarkdownIt("commonmark")
    [_, inline, _] = parser.enable(["table", "strikethrough"]).parse(found)
    assert inline.content == found
    assert {part.type for part in inline.children} <= {"text", "text_special"}
    assert "".join(part.content for part in inline.children) == text


def test_pages(tmp_path):
    table = Table(NAMES[0], NAMES, [NAMES, NAMES[::-1]])
    made = Report("# <b>", NAMES, [], [table], dict.fromkeys(NAMES, "<i>"))
    for ending in ("md", "html"):
        page = made.write(tmp_path / f"a.{ending}").read_text(encoding="utf-8")
        assert "<script>" not in page and "<b>" not in page and "<i>" not in page


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("theta", "theta"),
        (r"$\omega_1$ [rad/s]", r"$\omega_1$ [rad/s]"),
        (r"$\frac{$", r"\$\frac{\$"),
        ("$$", r"\$\$"),
        ("5 $ a", r"5 \$ a"),
        ("a$b$\n$\\no$", "a$b$\n\\$\\no\\$"),
    ],
)
def test_formulas(text, shown):
    figure, axis = subplots(figsize=(1, 1))
    axis.set_title(plain(text))
    figure.canvas.draw()
    close([figure])
    assert plain(text) == shown


@pytest.mark.study
def test_pictures(tmp_path):
    """Of names that are no formulas, all that are drawn of a fit."""
    names = ["x$\\frac{$", "v$\\no$", "$$", "c$^$"]
    x, v = (sp.Function(name)(ks.t) for name in names[:2])
    k, c = map(sp.Symbol, names[2:])
    model = ks.Model("m $_$", [x, v], [], [k, c], [x.diff(ks.t) - v, v.diff(ks.t) + k * x + c * v])
    time = np.linspace(0.0, 3.0, 31)
    run = ks.simulate(model, time, {x: 1.0, v: 0.0}, {k: 4.0, c: 0.3})
    noise = 0.01 * np.random.default_rng(1).standard_normal(31)
    trial = ks.Experiment(time, measurements={x: run[x] + noise}, std={x: 0.01})
    unknown = {k: (1, 9), c: (0, 1)}
    problem = ks.Collocation(model, trial, unknown=unknown, scheme="midpoint")
    shooting = ks.Shooting(model, trial, unknown=unknown, initial={x: 1.0, v: 0.0})
    solution, fit = problem.solve({k: 3.0, c: 0.2}), shooting.solve({k: 3.0, c: 0.2})
    fit.report(tmp_path / "a.html", profiles=[fit.profile(k)])
    many = problem.multistart(3, max_iterations=50)
    figures = [
        *(run.plot(), solution.plot(), solution.bands().plot(), solution.grid_error().plot()),
        *(fit.plot_history(), problem.verify(solution).plot(), many.plot_waterfall()),
        *(many.plot_parameters(), problem.violations().plot()),
    ]
    for figure in figures:
        figure.canvas.draw()
    close(figures)
