"""docs/reliability.md counts the reports whose cases are here: right, or told in a sentence."""

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "reliability.md"


def reports():
    """Of each report whether all its tests end in a sentence: `test_told_...`."""
    found = {}
    for path in sorted(HERE.glob("test_*.py")):
        functions = (n for n in ast.parse(path.read_text()).body if isinstance(n, ast.FunctionDef))
        for function in functions:
            said = ast.get_docstring(function) or ""
            if function.name.startswith("test_") and path != Path(__file__):
                sources = said.split(": ")[0].replace("\n", " ").split(", ")
                told = function.name.startswith("test_told_")
                found |= {one: told and found.get(one, True) for one in sources}
    return found


def test_the_page_counts_them():
    row = re.search(r"\| public bug reports .*?\|.*?\|([^\n]*)\|", PAGE.read_text())
    tried, right, _, told, *rest = (cell.strip() for cell in row[1].split("|"))
    found = reports()
    assert (int(tried), int(right), int(told)) == (
        len(found),
        len(found) - sum(found.values()),
        sum(found.values()),
    )
    assert rest == ["0", "0", "0"]
