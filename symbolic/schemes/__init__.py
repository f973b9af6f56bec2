"""Discretisation schemes as data, one file each; `SCHEMES` lists those of collocation by name,
`EXPLICIT` those of explicit steps."""

from kinesym.symbolic.schemes.backward_euler import BACKWARD_EULER
from kinesym.symbolic.schemes.dormand_prince import DORMAND_PRINCE
from kinesym.symbolic.schemes.midpoint import MIDPOINT
from kinesym.symbolic.schemes.rk4 import RK4
from kinesym.symbolic.schemes.scheme import ExplicitScheme, NodeScheme, Scheme, StageScheme
from kinesym.symbolic.schemes.trapezoid import TRAPEZOID

SCHEMES: dict[str, Scheme] = {s.name: s for s in (BACKWARD_EULER, MIDPOINT, TRAPEZOID)}
EXPLICIT: dict[str, ExplicitScheme] = {s.name: s for s in (RK4, DORMAND_PRINCE)}


def scheme_named(name: str) -> Scheme:
    """The scheme called `name`; raises `ValueError` with the list of schemes."""
    if name not in SCHEMES:
        raise ValueError(f"unknown scheme {name!r}; choose one of {', '.join(SCHEMES)}")
    return SCHEMES[name]


__all__ = [
    "BACKWARD_EULER",
    "DORMAND_PRINCE",
    "EXPLICIT",
    "MIDPOINT",
    "RK4",
    "SCHEMES",
    "TRAPEZOID",
    "ExplicitScheme",
    "NodeScheme",
    "Scheme",
    "StageScheme",
    "scheme_named",
]
