"""Numbers, words and flags from XML; sentences that name the place where they are wrong."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from xml.etree.ElementTree import Element, ParseError, fromstring

from kinesym.base.checks import check_path, shown, unpacked
from kinesym.models.files.description import Triple

#: Faults that other readers let pass: comments within comments, names such as
#: `Contact::Parameters`, the end of a document that has no begin, as in an example of OpenSim.
_DOUBLE = re.compile(r"(</?\w+)::(?=\w)")
_BEGIN, _END = "<OpenSimDocument", "</OpenSimDocument>"
#: No model has elements within so many others.
DEEPEST = 500


def root_of(path: str | Path) -> Element:
    """The root of an XML file, which may be compressed by gzip.

    Raises `FileNotFoundError`, and `ValueError` for what is no XML.
    """
    check_path(path)
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {path}")
    data = unpacked(Path(path).read_bytes())
    wide = data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    said = without_comments(data.decode("utf-16" if wide else "utf-8-sig", "replace"))
    said = said if _BEGIN in said else said.replace(_END, "")
    if "<!ENTITY" in said:  # a few lines of them may stand for any length
        raise ValueError(
            "it declares entities, which no model needs; write out what they stand for"
        )
    try:
        root = fromstring(_DOUBLE.sub(r"\1.", said))
    except ParseError as error:
        raise ValueError(f"it is no XML file: {error}") from error
    level, depth = [root], 0
    while level:
        level, depth = [e for above in level for e in above], depth + 1
        if depth > DEEPEST:
            raise ValueError(f"its elements are within one another, more than {DEEPEST} deep")
    return root


def without_comments(said: str) -> str:
    """Text without XML comments; raises `ValueError` for one that has no end.

    In one pass: a regular expression looks for the end again from each begin.
    """
    parts, at = list[str](), 0
    while (begin := said.find("<!--", at)) >= 0:
        end = said.find("-->", begin + 4)
        if end < 0:
            line = said.count("\n", 0, begin) + 1
            raise ValueError(
                f"it is no XML file: the comment that begins in line {line} has no end"
            )
        parts.append(said[at:begin])
        at = end + 3
    return "".join([*parts, said[at:]])


def named(element: Element) -> str:
    """Name of an element in messages: its tag, and its attribute `name` if it has one."""
    name = element.get("name")
    return f"{element.tag} {name}" if name else element.tag


def text(element: Element, tag: str, default: str = "") -> str:
    """The text of a child without spaces around it; `default` if there is none."""
    return (element.findtext(tag) or "").strip() or default


def words(element: Element, tag: str) -> tuple[str, ...]:
    """The words in the text of a child."""
    return tuple(text(element, tag).split())


def numbers(element: Element, tag: str, default: tuple[float, ...] | None = None) -> list[float]:
    """The numbers in a child; raises `ValueError` if they are none, or missing without default."""
    return _numbers(text(element, tag), default, f"{named(element)}: {tag}")


def _numbers(said: str, default: tuple[float, ...] | None, what: str) -> list[float]:
    found = said.replace(",", " ").split()
    if not found and default is not None:
        return list(default)
    try:
        values = [] if "_" in said else [float(word) for word in found]  # Python's 1_000 is none
    except ValueError:
        values = []
    if not values or not all(map(isfinite, values)):
        raise ValueError(f"{what} must be numbers, got {shown(said.strip())}")
    return values


def listed_numbers(
    element: Element, name: str, count: int, default: tuple[float, ...] | None = None
) -> list[float]:
    """List of `count` numbers of an attribute; raises `ValueError` for other counts."""
    values = _numbers(element.get(name, ""), default, f"{named(element)}: {name}")
    if len(values) != count:
        numbers = "one number" if count == 1 else f"{count} numbers"
        raise ValueError(f"{named(element)}: {name} is {numbers}, got {len(values)}")
    return values


def attributes(element: Element, name: str, default: Triple | None = None) -> Triple:
    """The three numbers of an attribute."""
    x, y, z = listed_numbers(element, name, 3, default)
    return (x, y, z)


def attribute(element: Element, name: str, default: float | None = None) -> float:
    """The number of an attribute."""
    return listed_numbers(element, name, 1, None if default is None else (default,))[0]


def number(element: Element, tag: str, default: float | None = None) -> float:
    """The number in a child."""
    values = numbers(element, tag, None if default is None else (default,))
    if len(values) != 1:
        raise ValueError(f"{named(element)}: {tag} is one number, got {len(values)}")
    return values[0]


def triple(element: Element, tag: str, default: Triple | None = (0.0, 0.0, 0.0)) -> Triple:
    """The three numbers in a child."""
    values = numbers(element, tag, default)
    if len(values) != 3:
        raise ValueError(f"{named(element)}: {tag} has three components, got {len(values)}")
    return (values[0], values[1], values[2])


def flag(element: Element, tag: str, default: bool) -> bool:
    """Whether the text of a child says true."""
    said = text(element, tag).lower()
    if said not in ("", "true", "false", "1", "0"):
        raise ValueError(f"{named(element)}: {tag} is true or false, got {shown(said)}")
    return said in ("true", "1") if said else default


def members(element: Element | None, tag: str) -> Iterator[Element]:
    """The objects of a set, such as `BodySet`, of a model."""
    found = None if element is None else element.find(f"{tag}/objects")
    yield from () if found is None else found
