"""Methods as data, one file each; `SCHEMES` lists those of collocation, which are implicit methods
of time stepping too, by name, `EXPLICIT` those of explicit steps."""

from kinesym.symbolic.schemes.dormand_prince import DORMAND_PRINCE
from kinesym.symbolic.schemes.gauss_2 import GAUSS_2
from kinesym.symbolic.schemes.gauss_4 import GAUSS_4
from kinesym.symbolic.schemes.gauss_6 import GAUSS_6
from kinesym.symbolic.schemes.lobatto_2 import LOBATTO_2
from kinesym.symbolic.schemes.lobatto_4 import LOBATTO_4
from kinesym.symbolic.schemes.lobatto_6 import LOBATTO_6
from kinesym.symbolic.schemes.radau_1 import RADAU_1
from kinesym.symbolic.schemes.radau_3 import RADAU_3
from kinesym.symbolic.schemes.radau_5 import RADAU_5
from kinesym.symbolic.schemes.rk4 import RK4
from kinesym.symbolic.schemes.scheme import CollocationScheme, ExplicitScheme

_COLLOCATION = (
    *(RADAU_1, RADAU_3, RADAU_5),
    *(GAUSS_2, GAUSS_4, GAUSS_6),
    *(LOBATTO_2, LOBATTO_4, LOBATTO_6),
)
SCHEMES: dict[str, CollocationScheme] = {
    name: s for s in _COLLOCATION for name in (s.name, s.alias) if name
}
#: Collocation schemes that choose their steps in a simulation.
ADAPTIVE: dict[str, CollocationScheme] = {s.name: s for s in (RADAU_5,)}
EXPLICIT: dict[str, ExplicitScheme] = {s.name: s for s in (RK4, DORMAND_PRINCE)}


def scheme_named(name: str) -> CollocationScheme:
    """The scheme of collocation called `name`; raises `ValueError` with the list of schemes."""
    if not isinstance(name, str) or name not in SCHEMES:
        raise ValueError(f"unknown scheme {name!r}; choose one of {', '.join(SCHEMES)}")
    return SCHEMES[name]


__all__ = [
    "ADAPTIVE",
    "EXPLICIT",
    "RK4",
    "SCHEMES",
    "CollocationScheme",
    "ExplicitScheme",
    "scheme_named",
]
