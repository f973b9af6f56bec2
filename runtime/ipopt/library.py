"""Finding IPOPT: the library behind cyipopt, else that of the casadi wheel, else the system's."""

from __future__ import annotations

import ctypes.util
import importlib.util
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

from kinesym.runtime.native import Ipopt

_IPOPT_REMEDY = "install casadi, whose wheel contains IPOPT (pip install casadi)"
_CYIPOPT_REMEDY = (
    "build it with tools/build_cyipopt.py of the sources, or install it from conda-forge"
)


class IpoptMissing(ImportError):
    """Error: no IPOPT library can be loaded."""


def load_cyipopt() -> ModuleType:
    """The module cyipopt; raises `IpoptMissing` with the remedy."""
    try:
        import cyipopt
    except ImportError as error:
        raise IpoptMissing(f"cyipopt cannot be imported ({error}); {_CYIPOPT_REMEDY}") from error
    if cyipopt.IPOPT_VERSION < (3, 14):
        old = ".".join(map(str, cyipopt.IPOPT_VERSION))
        raise IpoptMissing(f"cyipopt uses IPOPT {old}, expected 3.14 or newer; {_CYIPOPT_REMEDY}")
    return cyipopt


@cache
def load_ipopt() -> Ipopt:
    """The C interface of the first IPOPT that is found; raises `IpoptMissing` with the remedy."""
    reasons = []
    for path in _candidates():
        try:
            return Ipopt(path)
        except OSError as error:
            reasons.append(str(error))
    why = f" ({'; '.join(reasons)})" if reasons else ""
    raise IpoptMissing(f"IPOPT 3.14 or newer is missing{why}; {_IPOPT_REMEDY}")


def warn_if_missing() -> None:
    """Warn before long work that its result can be inspected but not solved."""
    try:
        load_ipopt()
    except IpoptMissing as error:
        warnings.warn(f"the problem cannot be solved: {error}", stacklevel=3)


def _candidates() -> Iterator[str]:
    """Libraries with IPOPT's C interface, or linked to one that has it."""
    # not imported: that takes half a second, for scipy.optimize
    cyipopt = importlib.util.find_spec("cyipopt")
    for folder in (cyipopt.submodule_search_locations or []) if cyipopt else []:
        yield from map(str, sorted(Path(folder).glob("ipopt_wrapper*.*")))
    before = importlib.util.find_spec("ipopt_wrapper")  # of cyipopt before version 1.5
    if before is not None and before.origin:
        yield before.origin
    casadi = importlib.util.find_spec("casadi")
    for folder in (casadi.submodule_search_locations or []) if casadi else []:
        yield from map(str, sorted(Path(folder).glob("libipopt*.so*"), reverse=True))
        yield from map(str, sorted(Path(folder).glob("libipopt*.dylib")))
    system = ctypes.util.find_library("ipopt")
    if system is not None:
        yield system
