"""Formulas as MathML, which browsers draw themselves: the site needs no network and no scripts."""

from html import escape

from docutils import nodes
from docutils.utils.math import latex2mathml
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


def mathml(text: str, display: bool) -> str:
    """A formula in TeX as MathML."""
    tree = latex2mathml.tex2mathml(text, as_block=display)
    return str(tree)


def visit_math(translator: HTML5Translator, node: nodes.math) -> None:
    """A formula in a line."""
    text = node.astext()
    translator.body.append(f'<span class="math" title="{escape(text)}">{mathml(text, False)}</span>')
    raise nodes.SkipNode


def visit_math_block(translator: HTML5Translator, node: nodes.math_block) -> None:
    """A formula by itself."""
    translator.body.append(f'<div class="math-block">{mathml(node.astext(), True)}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
