"""Files of benchmarks/, whose folder is on the path of imports, shadow no other module, and what
they ask of kinesym is there."""

import importlib.metadata
import re
import sys
from pathlib import Path

import kinesym as ks

FOLDER = Path(__file__).parents[2] / "benchmarks"
#: Modules that packages we use import where they are there: numba coverage, pandas tables.
OPTIONAL = {"coverage", "records", "tables"}


def test_no_file_shadows_another_module():
    ours = {path.stem for path in FOLDER.glob("*.py")}
    ours |= {path.parent.name for path in FOLDER.glob("*/*.py")}
    others = {*sys.stdlib_module_names, *importlib.metadata.packages_distributions(), *OPTIONAL}
    assert not ours & others


def test_names_of_kinesym_are_there():
    """Most of these scripts run nowhere in the tests."""
    text = "".join(path.read_text(encoding="utf-8") for path in FOLDER.rglob("*.py"))
    assert [name for name in {*re.findall(r"\bks\.(\w+)", text)} if not hasattr(ks, name)] == []
