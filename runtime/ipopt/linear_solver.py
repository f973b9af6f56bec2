"""Linear solver of IPOPT: the time-structured one of this package, MUMPS, or another.

The time-structured solver (see `runtime/native/c/kkt/kkt.h`) is offered to IPOPT as the library of
HSL's MA57, whose interface hands over a matrix entry by entry, as it was made.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.ipopt.driver import IpoptProblem
from kinesym.runtime.ipopt.library import IpoptMissing, load_ipopt
from kinesym.runtime.native import KKT_LIBRARY, close_session, open_session, trial

Report = dict[str, Any]

#: Name of the linear solver of this package.
TIME_STRUCTURED = "time-structured"
#: Name of the choice between it and MUMPS.
AUTO = "auto"

_OPTIONS: dict[str, Any] = {
    # Its solutions rarely need the step of refinement that IPOPT takes unless told otherwise: then
    # IPOPT refines only where the residual asks for it.
    TIME_STRUCTURED: {
        "linear_solver": "ma57",
        "hsllib": KKT_LIBRARY,
        "linear_system_scaling": "none",
        "min_refinement_steps": 0,
    },
    # Parameters border every node with dense columns, which makes MUMPS's default ordering
    # quadratic in the number of nodes; ordering 6 (QAMD) treats them apart.
    "mumps": {"linear_solver": "mumps", "mumps_pivot_order": 6},
}

#: Linear solvers that IPOPT loads from a library of their own, and the names of that library.
_HSL = frozenset("ma27 ma57 ma77 ma86 ma97".split())
_HSL_LIBRARIES = ("libhsl.so", "libcoinhsl.so", "libhsl.dylib", "libcoinhsl.dylib")


def options_of(name: str) -> dict[str, Any]:
    """Options of IPOPT for a linear solver."""
    return dict(_OPTIONS.get(name, {"linear_solver": name}))


def choose(name: str, options: Mapping[str, Any]) -> tuple[str, str]:
    """The linear solver to use for a name and IPOPT's options, and why if the name is "auto" and it
    is not the time-structured one. Raises `ValueError` for one that does not work here."""
    if "linear_solver" in options:
        if name not in (AUTO, options["linear_solver"]):
            raise ValueError(
                f"linear_solver is {name!r} and, among the options, {options['linear_solver']!r}"
            )
        name = str(options["linear_solver"])
    reason = obstacle() if name in (AUTO, TIME_STRUCTURED) else ""
    if name == TIME_STRUCTURED and reason:
        raise ValueError(f"the time-structured solver does not work here: {reason}")
    if name in (AUTO, TIME_STRUCTURED) and "hsllib" in options:
        raise ValueError("hsllib is for linear solvers of HSL: name one, linear_solver='ma57'")
    if name == AUTO:
        return ("mumps", reason) if reason else (TIME_STRUCTURED, "")
    if name != TIME_STRUCTURED:
        check_solver(name, options)
    return name, ""


@cache
def obstacle() -> str:
    """Reason why the time-structured solver cannot be used here; empty if it can. Solves three
    nodes."""
    try:
        ipopt = load_ipopt()
    except IpoptMissing:
        return "no IPOPT library with a C interface is found"
    with session(6, np.zeros(0, np.int32), multipliers=2) as report:
        solved = trial(ipopt, options_of(TIME_STRUCTURED))
    if report["factorisations"] == 0:
        return "this IPOPT loads no linear solver from a library"
    return "" if solved else "the trial problem was not solved"


@contextmanager
def session(
    order: int, stages: NDArray[np.int32], multipliers: int, threads: int = 1
) -> Iterator[Report]:
    """The time-structured solver, on this thread and `threads` - 1 others, for KKT systems of an
    order whose first unknowns have these stages. multipliers : how many of the last unknowns are,
    to end factorisations where there is negative curvature; 0 to end none. The report is filled at
    the end, see `kkt_report` in `kkt/session.h`."""
    report: Report = {}
    open_session(order, stages, multipliers, threads)
    try:
        yield report
    finally:
        report.update(close_session())


def kkt_stages(problem: IpoptProblem) -> tuple[int, NDArray[np.int32], int]:
    """Order of IPOPT's KKT systems, the stages of their first unknowns, and the number of their
    multipliers. Unknowns are variables that bounds do not fix, a slack for each inequality, and the
    multipliers."""
    (low, high), (below, above) = problem.bounds, problem.constraint_bounds
    stages = problem.stages[low < high]
    return len(stages) + int(np.count_nonzero(below < above)) + len(below), stages, len(below)


def available() -> list[str]:
    """Names of the linear solvers with which IPOPT solves a trial problem here."""
    names = ["mumps", "spral", *(sorted(_HSL) if _loads(_HSL_LIBRARIES) else [])]
    own = [] if obstacle() else [TIME_STRUCTURED]
    return own + [name for name in names if trial(load_ipopt(), options_of(name))]


def _loads(libraries: tuple[str, ...]) -> bool:
    for library in libraries:
        with suppress(OSError):
            ctypes.CDLL(library)
            return True
    return False


def check_solver(name: str, options: Mapping[str, Any]) -> None:
    """Raise `ValueError` if IPOPT cannot use a linear solver here, naming those that it can; its
    options may name the library of the solver."""
    library = options.get("hsllib")
    if name in _HSL and not _loads((str(library),) if library else _HSL_LIBRARIES):
        where = library or "libhsl.so or libcoinhsl.so"  # IPOPT 3.14 crashes without some of them
        raise ValueError(f"linear solver {name} needs the library {where}, which cannot be loaded")
    with suppress(IpoptMissing):
        if not _works(name, str(library or ""), str(options.get("pardisolib") or "")):
            others = ", ".join(other for other in available() if other != name)
            raise ValueError(f"linear solver {name!r} does not work here; choose one of {others}")


@cache
def _works(name: str, hsllib: str, pardisolib: str) -> bool:
    """Whether IPOPT solves a trial problem with it."""
    named = {"hsllib": hsllib, "pardisolib": pardisolib}
    libraries = {option: path for option, path in named.items() if path}
    return trial(load_ipopt(), {**options_of(name), **libraries})
