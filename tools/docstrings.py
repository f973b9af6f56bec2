"""Check of words, part of `make lint`: first words of docstrings, and one constant per line.

A docstring begins with the noun or verb that a reader would search for. A tuning constant has a
line of its own, with a `#:` comment above it that names its unit and reason.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

#: folders that are checked, below the root of the repository
DONE = ("base", "symbolic", "codegen", "models", "gait", "runtime", "api", "tools")

#: words that no docstring begins with, as nobody searches for them
BANNED = frozenset(
    "All Also As Because Both But By Each Either Every For From How If In It Its Like Likewise"
    " Neither Of On Only Other Others So Such That Then These They This Those To What When Where"
    " Which Who Why With Within Without".split()
)

#: a sentence that refers to the docstring above instead of naming its object
_RIDDLE = re.compile(r"\bLikewise\.|\bThe same(\.$|:$| of\b| for\b)")


def faults(text: str) -> Iterator[tuple[int, str]]:
    """Line and message of each fault in the text of a Python file; raises `SyntaxError`."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _faults_of_docstring(node)
    for statement in tree.body:
        if _constants(statement) > 1:
            yield statement.lineno, "two or more constants on a line; give each its own and a '#:'"


def _faults_of_docstring(
    node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef,
) -> Iterator[tuple[int, str]]:
    words = (ast.get_docstring(node) or "").split()
    if not words:
        return
    line = node.body[0].lineno
    first = re.match(r"\w*", words[0]).group()  # type: ignore[union-attr]  # matches all text
    if first in BANNED:
        yield line, f"docstring begins with '{first}'; begin with a noun or verb to search for"
    riddle = _RIDDLE.search(" ".join(words))
    if riddle:
        yield line, f"docstring says '{riddle.group()}'; name the object"


def _constants(statement: ast.stmt) -> int:
    """Number of names that a statement like `_A, _B = 1, 2` sets to numbers; otherwise 0."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Tuple):
        return 0
    if not isinstance(statement.targets[0], ast.Tuple):
        return 0
    return sum(_is_number(value) for value in statement.value.elts)


def _is_number(node: ast.expr) -> bool:
    """Whether an expression consists of numbers, besides pi and operators."""
    allowed = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.Name, ast.Attribute)
    parts = [part for part in ast.walk(node) if isinstance(part, ast.expr)]
    constants = [part.value for part in parts if isinstance(part, ast.Constant)]
    return (
        all(isinstance(part, allowed) for part in parts)
        and bool(constants)
        and all(isinstance(constant, int | float) for constant in constants)
    )


def main() -> int:
    """Print file, line and message of each fault in the folders `DONE`; 1 if there is one."""
    root = Path(__file__).parent.parent
    found = [
        f"{path.relative_to(root)}:{line}: {message}"
        for folder in DONE
        for path in sorted((root / folder).rglob("*.py"))
        for line, message in faults(path.read_text(encoding="utf-8"))
    ]
    print(*found, sep="\n", end="\n" if found else "")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
