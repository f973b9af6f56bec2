"""How time is stepped: the method and its options, checked; for simulation and shooting alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kinesym import checks
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.model import Model
from kinesym.symbolic.schemes import ADAPTIVE, EXPLICIT, SCHEMES

#: Of a model; implicit ones are the schemes of collocation.
METHODS = (*EXPLICIT, *SCHEMES)

#: With more, rounding is most of what a step does.
MOST_SUBSTEPS = 10**10


@dataclass(frozen=True)
class Steps:
    """The method, steps per interval of the grid for methods that do not choose them, relative and
    absolute tolerance for those that do."""

    method: str
    substeps: int
    tolerances: tuple[float, float]


def methods_of(system: Model | Hybrid, derivatives: bool = False) -> tuple[str, ...]:
    """Methods for a system, the default one first. derivatives : those of every step are wanted."""
    if isinstance(system, Hybrid):
        explicit = sorted(EXPLICIT, key=lambda name: not EXPLICIT[name].error)
        return tuple(explicit) if derivatives else (*explicit, "trapezoid", *ADAPTIVE)
    return (*(k for k, v in EXPLICIT.items() if not (derivatives and v.error)), *SCHEMES)


def checked_steps(
    methods: Sequence[str],
    method: str | None,
    substeps: int = 1,
    rtol: float = 1e-9,
    atol: float = 1e-11,
    most: int = MOST_SUBSTEPS,
) -> Steps:
    """One of the methods, None for the first, with its options; raises `ValueError` for what is
    unknown, not positive, or more than `most` substeps."""
    method = methods[0] if method is None else method
    checks.check_choice(method, methods, "method")
    substeps = checks.count(substeps, "substeps", most=most)
    return Steps(method, substeps, checks.tolerances(rtol, atol))
