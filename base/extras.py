"""Optional packages: which part of kinesym needs them, and the command that installs them."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

#: Modules in which packages made by SWIG find one another's tables of types.
_TABLES = "swig_runtime_data"
#: Optional packages by the extra of `pyproject.toml` that installs them: what each is used for.
EXTRAS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "gait": {"ezc3d": "kinesym.gait reads and writes C3D files with ezc3d"},
        "jax": {"jax": "kinesym.export to the target 'jax' makes functions with jax"},
        "petab": {
            "libsbml": "kinesym.sbml and kinesym.petab read models with libsbml",
            "yaml": "kinesym.petab reads problems with yaml",
        },
        "studies": {
            "cloudpickle": "kinesym.Study sends tasks to its workers with cloudpickle",
            "loky": "kinesym.Study runs tasks in processes of loky",
        },
        "units": {"pint": "check_units reads units with pint"},
    }
)


class NotInstalled(ImportError):
    """A package of an extra that is not installed; its text names the command that does it."""


def installed(package: str) -> bool:
    """Whether a package can be found; it is not imported."""
    return importlib.util.find_spec(package) is not None


def check_installed(package: str) -> None:
    """Raise `NotInstalled` for a package of `EXTRAS` that cannot be found; it is not imported."""
    if not installed(package):
        uses = {name: (extra, use) for extra, row in EXTRAS.items() for name, use in row.items()}
        extra, use = uses[package]
        raise NotInstalled(f"{use}; pip install 'kinesym[{extra}]'", name=package)


def required(package: str) -> Any:
    """The module of a package of `EXTRAS`. Raises `NotInstalled` where it cannot be found."""
    check_installed(package)
    if package in sys.modules:
        return sys.modules[package]
    with _types_apart() as tables:
        module = importlib.import_module(package)
    module.__dict__["_tables_of_types"] = tables  # as long as the package is there
    return module


@contextmanager
def _types_apart() -> Iterator[list[Any]]:
    """Let a package that SWIG has made have a table of C++ types of its own, which is in the list
    then. Tables are shared otherwise, and the vectors of ezc3d and of libsbml are no longer what
    they were when both are imported."""
    before = {name: sys.modules.pop(name) for name in [*sys.modules] if name.startswith(_TABLES)}
    tables = list[Any]()
    try:
        yield tables
    finally:
        tables += [sys.modules.pop(name) for name in [*sys.modules] if name.startswith(_TABLES)]
        sys.modules.update(before)
