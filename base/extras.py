"""Optional packages: which part of kinesym needs them, and the command that installs them."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

#: Optional packages by the extra of `pyproject.toml` that installs them: what each is used for.
EXTRAS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "gait": {"ezc3d": "kinesym.gait writes C3D files with ezc3d"},
        "jax": {"jax": "kinesym.export to the target 'jax' makes functions with jax"},
        "petab": {"yaml": "kinesym.petab reads problems with yaml"},
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
    return importlib.import_module(package)
