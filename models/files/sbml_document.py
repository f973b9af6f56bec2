"""Documents in SBML as elements of XML: the core, without annotations and packages.

Sections are those of SBML Level 3 Version 2 Core (https://sbml.org/specifications).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isinf, isnan
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement

from kinesym.base.checks import shown
from kinesym.models.files.tsv import number_or_nan
from kinesym.models.files.xml import root_of

_CORE = re.compile(r"http://www\.sbml\.org/sbml/level(\d)(?:/version\d)?(?:/core)?")
_MATH = "http://www.w3.org/1998/Math/MathML"
_PACKAGE = re.compile(r"\{http://www\.sbml\.org/sbml/level3/version1/(\w+)/version\d\}required")
_ID = re.compile(r"[A-Za-z_]\w*", re.ASCII)
#: Lists of a model that hold equations, or what these are made of, and their elements.
_READ = {
    "FunctionDefinitions": ("functionDefinition",),
    "UnitDefinitions": ("unitDefinition",),
    "Compartments": ("compartment",),
    "Species": ("species",),
    "Parameters": ("parameter",),
    "InitialAssignments": ("initialAssignment",),
    "Rules": ("assignmentRule", "rateRule", "algebraicRule"),
    "Reactions": ("reaction",),
    "Events": ("event",),
}
#: Lists of a model that change no equation.
_WORDS = ("listOfConstraints", "listOfCompartmentTypes", "listOfSpeciesTypes")


@dataclass(frozen=True, eq=False)
class Document:
    """The element `model` of a document, by plain tags; parameters of single reactions stand among
    the others, as `REACTION_PARAMETER`."""

    model: Element
    level: int

    def each(self, what: str) -> Sequence[Element]:
        """The elements of a list, such as `Rules`."""
        return listed(self.model, what)

    @cached_property
    def by_id(self) -> Mapping[str, Element]:
        """Elements that have a value. Raises `ValueError` for one without a name, and for two with
        the same one."""
        found = dict[str, Element]()
        every = [e for what in ("Compartments", "Species", "Parameters") for e in self.each(what)]
        for e in (*every, *self.each("Reactions"), *self.each("FunctionDefinitions")):
            name = e.get("id", "")
            if not name:
                raise ValueError(f"a {e.tag} has no id")
            if not _ID.fullmatch(name):
                raise ValueError(f"{shown(name)} is no id: letters, digits and underscores")
            if name in found:
                raise ValueError(f"the id {name} is there twice")
            found[name] = e
        return found

    @cached_property
    def functions(self) -> Mapping[str, tuple[Sequence[str], Element]]:
        """Arguments and formulas of functions that the document defines."""
        found = dict[str, tuple[Sequence[str], Element]]()
        for e in self.each("FunctionDefinitions"):
            body = next(e.iter("lambda"), None)
            if body is None or not len(body) or body[-1].tag == "bvar":
                raise ValueError(f"the function {e.get('id')} has no formula")
            arguments = [(ci.text or "").strip() for bvar in body[:-1] for ci in bvar.iter("ci")]
            found[e.get("id", "")] = arguments, body[-1]
        return found


def document_of(path: str | Path) -> Document:
    """The document in a file. Raises `FileNotFoundError`, and `ValueError` for what is no SBML of
    Level 2 or 3, or uses packages of Level 3, which is not read."""
    root = root_of(path)
    space, _, tag = root.tag.removeprefix("{").rpartition("}")
    core = _CORE.fullmatch(space)
    if tag != "sbml" or core is None:
        raise ValueError(f"it is no SBML: its root is {shown(root.tag)}")
    if core[1] not in "23":
        raise ValueError(f"it is SBML of Level {core[1]}; Levels 2 and 3 are read; convert it")
    for name, value in root.attrib.items():
        package = _PACKAGE.fullmatch(name)
        if package and value == "true" and _uses(root, name.rpartition("}")[0] + "}"):
            raise ValueError(f"it needs the package {package[1]} of SBML, which is not read")
    model = _plain(root, (space, _MATH)).find("model")
    if model is None:
        raise ValueError("it has no model")
    known = {f"listOf{what}": tags for what, tags in _READ.items()}
    for e in (e for e in model if e.tag not in _WORDS):
        odd = [e] if e.tag not in known else [part for part in e if part.tag not in known[e.tag]]
        if odd:
            raise ValueError(f"{odd[0].tag} in {e.tag}, which is not read")
    _share_parameters(model)
    return Document(model, int(core[1]))


def _uses(root: Element, space: str) -> bool:
    """Whether there are elements of a namespace."""
    return any(isinstance(e.tag, str) and e.tag.startswith(space) for e in root.iter())


def _plain(e: Element, spaces: Sequence[str]) -> Element:
    """An element of these namespaces by its plain tag, without notes and annotations."""
    plain = Element(e.tag.rpartition("}")[2], {k: v for k, v in e.items() if "}" not in k})
    plain.text, plain.tail = e.text, e.tail
    for part in e:
        space, _, tag = part.tag.removeprefix("{").rpartition("}")
        if space in spaces and tag not in ("notes", "annotation", "annotation-xml"):
            plain.append(_plain(part, spaces))
    return plain


def _share_parameters(model: Element) -> None:
    """Put parameters of single reactions among those of the model, with names that say whose they
    are."""
    home = model.find("listOfParameters")
    home = SubElement(model, "listOfParameters") if home is None else home
    taken = {e.get("id") for e in model.iter()}
    for reaction in listed(model, "Reactions"):
        for law in reaction.iter("kineticLaw"):
            own = [*listed(law, "LocalParameters"), *listed(law, "Parameters")]
            names = dict[str, str]()
            for e in own:
                name = f"{reaction.get('id')}_{e.get('id')}"
                while name in taken:
                    name += "_"
                names[e.get("id", "")] = name
            for ci in law.iter("ci"):
                name = (ci.text or "").strip()
                ci.text = names.get(name, name)
            for e in own:
                home.append(Element("parameter", {**e.attrib, "id": names[e.get("id", "")]}))


def listed(e: Element, what: str) -> Sequence[Element]:
    """The elements of a list of an element, such as `Rules`; empty where there is none."""
    return [part for each in e.iterfind(f"listOf{what}") for part in each]


def math_of(e: Element | None) -> Element | None:
    """The formula of an element."""
    return None if e is None else e.find("math")


def flag(e: Element, name: str, default: bool = False) -> bool:
    """An attribute that is true or false."""
    said = e.get(name, "true" if default else "false").strip()
    if said not in ("true", "false", "1", "0"):
        raise ValueError(f"{e.tag} {e.get('id', '')}: {name} is true or false, got {shown(said)}")
    return said in ("true", "1")


def value_of(e: Element, name: str) -> float | None:
    """The number of an attribute; None where it is missing or NaN."""
    said = e.get(name, "NaN").strip()
    value = number_or_nan(said)
    if (isnan(value) and said != "NaN") or isinf(value):
        raise ValueError(f"{e.tag} {e.get('id', '')}: {name} is a number, got {shown(said)}")
    return None if isnan(value) else value


def references(reaction: Element) -> Iterator[tuple[int, Element]]:
    """Reactants and products of a reaction, with their signs."""
    for sign, what in ((-1, "Reactants"), (1, "Products")):
        yield from ((sign, e) for e in listed(reaction, what))


def of_math(function: str, value: float, name: str) -> Element:
    """The formula of a function of a number and a name."""
    math = Element("math")
    apply = SubElement(math, "apply")
    SubElement(apply, function)
    SubElement(apply, "cn").text = repr(value)
    SubElement(apply, "ci").text = name
    return math
