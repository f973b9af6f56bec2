"""Names of a package that are loaded when they are first used."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def lazy_names(package: str, file: str) -> tuple[Callable[[str], Any], list[str]]:
    """`__getattr__` and `__all__` of a package, whose file imports its names for type checkers.

    These imports, `from kinesym... import ...` under `if TYPE_CHECKING:`, are the one list of what
    it has: they are read here, and carried out one by one. Loading an unknown name raises
    `AttributeError` with all that are known.
    """
    text = Path(file).read_text(encoding="utf-8")
    imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    homes = {alias.asname: str(node.module) for node in imports for alias in node.names}
    names = sorted(name for name in homes if name)

    def load(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"{package} has no {name}; it has {', '.join(names)}")
        home = homes[name]
        whole = home == package  # a module of the package
        found = importlib.import_module(f"{home}.{name}" if whole else home)
        value = found if whole else getattr(found, name)
        setattr(sys.modules[package], name, value)
        return value

    return load, names
