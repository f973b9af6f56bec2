"""Formulas as MathML, which browsers draw themselves: the site needs no network and no scripts.

The font, STIX Two Math (SIL Open Font License), is that of the package ziamath, cut to what occurs.
"""

from html import escape
from importlib import resources
from pathlib import Path

from docutils import nodes
from docutils.utils.math import MathError, latex2mathml
from fontTools import subset
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

_LOG = logging.getLogger(__name__)
#: Latin, Greek, signs, operators, letters of formulas.
_SIGNS = "U+20-17F,U+2C6-3FF,U+2000-22FF,U+2308-230B,U+27E8-27E9,U+2A00-2AFF,U+1D400-1D7FF"


def mathml(node: nodes.Element, display: bool) -> str:
    """A formula in TeX as MathML; what it does not know is warned of."""
    text = node.astext()
    try:
        return latex2mathml.tex2mathml(text, as_block=display)
    except MathError as error:
        _LOG.warning("%s in the formula %s", error, text, location=node)
        return escape(text)


def visit_math(translator: HTML5Translator, node: nodes.math) -> None:
    """A formula in a line."""
    translator.body.append(f'<span class="math">{mathml(node, False)}</span>')
    raise nodes.SkipNode


def visit_math_block(translator: HTML5Translator, node: nodes.math_block) -> None:
    """A formula by itself."""
    translator.body.append(f'<div class="math-block">{mathml(node, True)}</div>')
    raise nodes.SkipNode


def put_font(app: Sphinx, error: Exception | None) -> None:
    """Called at the end: the font beside the style sheets."""
    target = Path(app.outdir) / "_static" / "math.woff"
    if error is None and app.builder.format == "html" and not target.exists():
        source = resources.files("ziamath") / "fonts" / "STIXTwoMath-Regular.ttf"
        with resources.as_file(source) as path:
            made = [f"--unicodes={_SIGNS}", "--flavor=woff", f"--output-file={target}"]
            subset.main([str(path), *made])


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("build-finished", put_font)
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
