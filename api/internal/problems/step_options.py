"""Time stepping options: the method and its tolerances or substeps, checked, for simulation and
shooting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kinesym.base import checks
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.model import Model
from kinesym.symbolic.schemes import ADAPTIVE, EXPLICIT, SCHEMES

#: Methods for a model; implicit ones are the schemes of collocation.
METHODS = (*EXPLICIT, *SCHEMES)

#: Most steps per interval: with more, a step is mostly rounding.
MOST_SUBSTEPS = 10**10

#: Default relative tolerance.
RTOL = 1e-9
#: Default absolute tolerance.
ATOL = 1e-11


@dataclass(frozen=True)
class Steps:
    """The method, steps per interval of the grid for methods that do not choose them, relative and
    absolute tolerance for those that do. adaptive : whether it chooses them."""

    method: str
    substeps: int
    tolerances: tuple[float, float]
    adaptive: bool


def methods_of(system: Model | Hybrid, derivatives: bool = False) -> tuple[str, ...]:
    """Methods for a system, the default one first. derivatives : those of every step are wanted,
    which with delays are fixed ones."""
    if isinstance(system, Hybrid):
        explicit = sorted(EXPLICIT, key=lambda name: not EXPLICIT[name].error)
        return tuple(explicit) if derivatives else (*explicit, "trapezoid", *ADAPTIVE)
    fixed = derivatives and bool(system.delays)
    return (*(k for k, v in EXPLICIT.items() if not (fixed and v.error)), *SCHEMES)


def checked_steps(
    methods: Sequence[str],
    method: str | None,
    substeps: int = 1,
    rtol: float = RTOL,
    atol: float = ATOL,
    most: int = MOST_SUBSTEPS,
    fixed: Sequence[str] = (),
) -> Steps:
    """Check a method (None for the first) and its options; raises `ValueError` for what is unknown,
    not positive, more than `most` substeps, or not used by the method. fixed : methods that choose
    their steps elsewhere, but not here."""
    method = methods[0] if method is None else method
    checks.check_choice(method, methods, "method")
    substeps = checks.count(substeps, "substeps", most=most)
    tolerances = checks.tolerances(rtol, atol)
    chosen = [name for name in methods if chooses_steps(name) and name not in fixed]
    if method in chosen and substeps > 1:
        raise ValueError(
            f"{method} chooses its steps by rtol and atol; substeps are for methods with fixed "
            "steps, such as rk4"
        )
    if method not in chosen and tolerances != (RTOL, ATOL):
        name = "rtol" if tolerances[0] != RTOL else "atol"
        of = f" of {' and '.join(chosen)}" if chosen else ", which no method has here"
        raise ValueError(
            f"{method} takes fixed steps, shorter ones by substeps; {name} is a tolerance{of}"
        )
    return Steps(method, substeps, tolerances, method in chosen)


def chooses_steps(method: str) -> bool:
    """Whether a method chooses its steps in a simulation."""
    return method in ADAPTIVE or (method in EXPLICIT and bool(EXPLICIT[method].error))
