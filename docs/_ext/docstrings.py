"""Docstrings as Sphinx wants them: arguments as a list, names of the package as links.

In a docstring an argument is told by `name : what it is`, at the start of a line or after a full
stop; there is no other markup than `code`, and public names in it.
"""

import importlib
import re
from functools import cache

from sphinx.application import Sphinx

PACKAGES = ("kinesym", "kinesym.multibody", "kinesym.hybrid", "kinesym.gait", "kinesym.models")
_ARGUMENT = re.compile(r"(?:^|(?<=[.);])\s|\n)((?:\*{0,2}\w+)(?:, \*{0,2}\w+)*) : ")


@cache
def public() -> dict[str, str]:
    """Where each public name is told of: `Collocation` at `kinesym.Collocation`."""
    places: dict[str, str] = {}
    for package in PACKAGES:
        for name in importlib.import_module(package).__all__:
            places.setdefault(name, f"{package}.{name}")
    return places


def inline(text: str) -> str:
    """A paragraph as reStructuredText: code, links, and signs that mean nothing there."""
    parts = re.split(r"`([^`]+)`", text)
    words = [
        re.sub(r"([*|\\])", r"\\\1", re.sub(r"(\w)_(?=\W|$)", r"\1\\_", part))
        for part in parts[::2]
    ]
    codes = [
        f":py:obj:`~{public()[code]}`" if code in public() else f"``{code}``"
        for code in (re.sub(r"\s+", " ", code) for code in parts[1::2])
    ]
    pairs = zip(words, [*codes, ""], strict=True)
    return "".join(
        word + code + ("\\" if code and words[k + 1][:1].isalnum() else "")
        for k, (word, code) in enumerate(pairs)
    )


def paragraph(text: str) -> list[str]:
    """Lines of a paragraph, its arguments as a list."""
    if re.match(r"\s*(- |\d+\. |\||\+-)", text):
        return [inline(line) for line in text.splitlines()]
    first, *rest = _ARGUMENT.split(text)
    flat = [" ".join(part.split()) for part in (first, *rest)]
    lines = [inline(flat[0])] if flat[0] else []
    for names, told in zip(flat[1::2], flat[2::2], strict=True):
        shown = ", ".join(f"**{name.replace('*', chr(92) + '*')}**" for name in names.split(", "))
        lines += ["", f"* {shown}: {inline(told)}"]
    return [*lines, ""]


def process(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list) -> None:
    """Called by autodoc for each docstring; changes `lines`."""
    text = re.sub(r"Parameters\n-+\n", "", "\n".join(lines))
    made = [line for block in re.split(r"\n\s*\n", text) for line in [*paragraph(block), ""]]
    lines[:] = made


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", process)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
