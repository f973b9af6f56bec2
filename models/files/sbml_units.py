"""Units of a model in SBML, as text that the package pint reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from xml.etree.ElementTree import Element

from kinesym.models.files.sbml_document import Document, flag, listed, value_of
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
_NAMES = {"avogadro": "6.02214179e23", "item": "", "dimensionless": "", "Celsius": "degC"}
#: Attribute of the model, and unit of Level 2, for sizes of compartments by dimension.
_SIZES = {3.0: ("volume", "litre"), 2.0: ("area", "metre**2"), 1.0: ("length", "metre")}


class _Unit(NamedTuple):
    """One factor of a unit, as SBML states it."""

    kind: str
    exponent: float = 1.0
    scale: int = 0
    factor: float = 1.0


def units_of(roles: Roles) -> dict[str, str]:
    """Units by name, of those elements that have one."""
    kept, defined = {*roles.states, *roles.parameters}, _definitions(roles.document)
    rows = ((n, e) for n, e in roles.elements.items() if n in kept)
    found = {own_name(n): _said(_of_element(roles, defined, n, e)) for n, e in rows}
    return {name: said for name, said in found.items() if said}


def _definitions(document: Document) -> dict[str, list[_Unit]]:
    """Units that the document defines."""
    return {
        e.get("id", ""): [_unit(one) for one in listed(e, "Units")]
        for e in document.each("UnitDefinitions")
    }


def _unit(e: Element) -> _Unit:
    exponent, scale, factor = (value_of(e, key) for key in ("exponent", "scale", "multiplier"))
    return _Unit(
        e.get("kind", ""),
        1.0 if exponent is None else exponent,
        int(scale or 0),
        1.0 if factor is None else factor,
    )


def _of_element(
    roles: Roles, defined: Mapping[str, list[_Unit]], name: str, e: Element
) -> list[_Unit]:
    """The unit of what the name of an element stands for; empty where it is not said."""
    match e.tag:
        case "parameter":
            return _named(e.get("units"), defined)
        case "compartment":
            return _of_size(roles.document, defined, e)
        case "species":
            word = e.get("substanceUnits") or _default(roles.document, defined, "substance", "mole")
            amount = _named(word, defined)
            if flag(e, "hasOnlySubstanceUnits") or roles.is_amount(name):
                return amount
            size = _of_size(roles.document, defined, roles.elements[roles.home(name)])
            below = [one._replace(exponent=-one.exponent) for one in size]
            return [*amount, *below] if amount and below else []
    return []


def _of_size(
    document: Document, defined: Mapping[str, list[_Unit]], compartment: Element
) -> list[_Unit]:
    dimension = value_of(compartment, "spatialDimensions")
    what, unit = _SIZES.get(3.0 if dimension is None else dimension, ("", ""))
    return _named(compartment.get("units") or _default(document, defined, what, unit), defined)


def _default(
    document: Document, defined: Mapping[str, list[_Unit]], what: str, unit: str
) -> str | None:
    """The unit of all of a kind: of the model in Level 3, redefined or one of SI in Level 2."""
    if document.level > 2:
        return document.model.get(f"{what}Units")
    return what if what in defined else unit


def _named(name: str | None, defined: Mapping[str, list[_Unit]]) -> list[_Unit]:
    """The unit of a name."""
    if not name:
        return []
    kind, _, power = name.partition("**")
    return defined[name] if name in defined else [_Unit(kind, float(power or 1))]


def _said(units: Iterable[_Unit]) -> str:
    """The text of a unit, such as "nanomole / litre"."""
    above, below = list[str](), list[str]()
    for kind, exponent, scale, factor in units:
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
