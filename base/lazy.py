"""Names of a package that are loaded when they are first used."""

from __future__ import annotations

import ast
import importlib
import importlib.util
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
    homes = homes_of(file)
    names = sorted(homes)

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


def homes_of(file: str) -> dict[str, str]:
    """Modules from which a package has its names, see `lazy_names`."""
    imports = [node for node in ast.walk(_parsed(file)) if isinstance(node, ast.ImportFrom)]
    homes = {alias.asname: str(node.module) for node in imports for alias in node.names}
    return {name: home for name, home in homes.items() if name}


def docstring_of(module: str, name: str = "") -> str:
    """Docstring of a module, or of what it defines under a name, without importing it."""
    spec = importlib.util.find_spec(module)
    assert spec is not None and spec.origin is not None
    whole = _parsed(spec.origin)
    parts = [part for part in whole.body if isinstance(part, ast.FunctionDef | ast.ClassDef)]
    found = next(part for part in parts if part.name == name) if name else whole
    return ast.get_docstring(found) or ""


def _parsed(file: str) -> ast.Module:
    return ast.parse(Path(file).read_text(encoding="utf-8"))
