"""Discretisation schemes as data, one file each; `SCHEMES` lists them by name."""

from kinesym.symbolic.schemes.backward_euler import BACKWARD_EULER
from kinesym.symbolic.schemes.midpoint import MIDPOINT
from kinesym.symbolic.schemes.scheme import Scheme

SCHEMES: dict[str, Scheme] = {s.name: s for s in (BACKWARD_EULER, MIDPOINT)}


def scheme_named(name: str) -> Scheme:
    """The scheme called `name`; raises `ValueError` with the list of schemes."""
    if name not in SCHEMES:
        raise ValueError(f"unknown scheme {name!r}; choose one of {', '.join(SCHEMES)}")
    return SCHEMES[name]


__all__ = ["BACKWARD_EULER", "MIDPOINT", "SCHEMES", "Scheme", "scheme_named"]
