"""Units of a model in SBML, as text that the package pint reads."""

from __future__ import annotations

from typing import Any

from kinesym.base.extras import required
from kinesym.models.files.sbml_math import own_name
from kinesym.models.files.sbml_roles import Roles

#: Prefixes of powers of ten.
_PREFIXES = {
    -15: "femto",
    -12: "pico",
    -9: "nano",
    -6: "micro",
    -3: "milli",
    0: "",
    3: "kilo",
    6: "mega",
}
#: Units of SBML that pint calls otherwise.
_NAMES = {"avogadro": "6.02214179e23", "item": "", "dimensionless": "", "celsius": "degC"}


def units_of(roles: Roles) -> dict[str, str]:
    """Units by name, of those elements that have one."""
    found = {own_name(name): unit(e.getDerivedUnitDefinition()) for name, e in _with_units(roles)}
    return {name: said for name, said in found.items() if said}


def _with_units(roles: Roles) -> list[tuple[str, Any]]:
    kept = {*roles.states, *roles.parameters}
    kinds = ("compartment", "species", "parameter")
    rows = ((n, e) for n, e in roles.elements.items() if n in kept)
    return [(n, e) for n, e in rows if e.getElementName() in kinds]


def unit(definition: Any) -> str:
    """The unit that a definition of libsbml says, such as "nanomole / litre"; empty where it says
    none."""
    libsbml = required("libsbml")
    if definition is None:
        return ""
    above, below = list[str](), list[str]()
    for one in map(definition.getUnit, range(definition.getNumUnits())):
        kind = libsbml.UnitKind_toString(one.getKind())
        exponent, scale, factor = one.getExponentAsDouble(), one.getScale(), one.getMultiplier()
        word = _NAMES.get(kind, kind)
        if factor != 1.0 or scale not in _PREFIXES or (scale and not word):
            size = f"{factor * 10.0**scale:g}"
            word = f"({size} {word})" if word else size
        elif word:
            word = _PREFIXES[scale] + word
        if word and exponent:
            power = abs(exponent)
            side = above if exponent > 0 else below
            side.append(word if power == 1 else f"{word}**{power:g}")
    if not below:
        return " * ".join(above)
    return " / ".join([" * ".join(above) or "1", *below])
