"""Files of benchmarks/, whose folder is on the path of imports, shadow no other module."""

import importlib.metadata
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "benchmarks"
#: Modules that packages we use import where they are there: numba coverage, pandas tables.
OPTIONAL = {"coverage", "records", "tables"}


def test_no_file_shadows_another_module():
    ours = {path.stem for path in FOLDER.glob("*.py")}
    ours |= {path.parent.name for path in FOLDER.glob("*/*.py")}
    others = {*sys.stdlib_module_names, *importlib.metadata.packages_distributions(), *OPTIONAL}
    assert not ours & others
