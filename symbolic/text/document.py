"""Files of the text form: JSON whose layout shows changes line by line, and what is wrong with one
in a sentence that says where."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kinesym.base.checks import naming, shown, suggest
from kinesym.base.files import content_of, replacing

#: Version of the form that is written; earlier ones are read.
VERSION = 1
#: Longest line of a container that is kept on one line.
_WIDTH = 100


class Entries:
    """Entries of a JSON object that are taken one by one; `done` refuses those that are left.

    place : where the object is, for messages, such as "parameters[2]"; empty for the whole file.
    """

    def __init__(self, data: Any, place: str = "") -> None:
        self.place = place
        if not isinstance(data, dict):
            raise ValueError(
                f"{place or 'the file'}: expected an object {{...}}, got {shown(data)}"
            )
        self._left = dict(data)
        self._known: list[str] = []

    def at(self, key: str) -> str:
        """Place of an entry, for messages."""
        return f"{self.place}.{key}" if self.place else key

    def take(self, key: str, kind: type | tuple[type, ...], what: str, default: Any = None) -> Any:
        """The entry of a key, of a kind that `what` names; the default if it is left out, and an
        error if that is None."""
        self._known.append(key)
        if key not in self._left:
            if default is None:
                raise ValueError(f"{self.place or 'the file'}: {key} is missing; it is {what}")
            return default
        value = self._left.pop(key)
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise ValueError(f"{self.at(key)}: expected {what}, got {shown(value)}")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """An entry that is text."""
        return str(self.take(key, str, "text", default))

    def number(self, key: str, default: float | None = None) -> float:
        """An entry that is a number."""
        return float(self.take(key, (int, float), "a number", default))

    def flag(self, key: str) -> bool:
        """An entry that is true or false, the latter by default."""
        return bool(self.take(key, bool, "true or false", False))

    def rows(self, key: str) -> list[Entries]:
        """An entry that is a list of objects, none by default."""
        rows = self.take(key, list, "a list of objects", [])
        return [Entries(row, f"{self.at(key)}[{k}]") for k, row in enumerate(rows)]

    def texts(self, key: str) -> list[tuple[str, str]]:
        """An entry that is a list of texts, none by default; each with its place."""
        rows = self.take(key, list, "a list of texts", [])
        for k, row in enumerate(rows):
            if not isinstance(row, str):
                raise ValueError(f"{self.at(key)}[{k}]: expected text, got {shown(row)}")
        return [(row, f"{self.at(key)}[{k}]") for k, row in enumerate(rows)]

    def mapping(self, key: str, kind: type | tuple[type, ...], what: str) -> dict[str, Any]:
        """An entry that is an object whose values are of a kind, empty by default."""
        found: dict[str, Any] = self.take(key, dict, f"an object of {what}", {})
        for name, value in found.items():
            if not isinstance(value, kind) or isinstance(value, bool):
                raise ValueError(f"{self.at(key)}.{name}: expected {what}, got {shown(value)}")
        return found

    def inner(self, key: str) -> Entries | None:
        """An entry that is an object, None if it is left out."""
        value = self.take(key, dict, "an object", {})
        return Entries(value, self.at(key)) if value else None

    def done(self) -> None:
        """Raise `ValueError` for an entry that nobody has taken."""
        for key in self._left:
            raise ValueError(
                f"{self.place or 'the file'}: there is no entry {shown(key)}; "
                f"{suggest(key, self._known)}"
            )


def write(path: str | Path, kind: str, data: Mapping[str, Any]) -> None:
    """Write a document of a kind, "model" or "hybrid"; an older file stays until it is whole.
    Raises as `replacing`."""
    text = layout({"kinesym": kind, "version": VERSION, **data}) + "\n"
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf-8")


@contextmanager
def reading(path: str | Path, kind: str) -> Iterator[Entries]:
    """Entries of a file of a kind, while errors name the file.

    Raises `FileNotFoundError`, and `ValueError` for what is no such file.
    """
    data = content_of(path)
    with naming(path):
        found = Entries(loaded(data))
        given = found.text("kinesym")
        if given != kind:
            raise ValueError(f"it is a {given}, not a {kind}; read it as such")
        version = found.take("version", int, f"a number up to {VERSION}")
        if not 1 <= version <= VERSION:
            raise ValueError(
                f"it has version {version} of the form, and this kinesym reads up to {VERSION}; "
                "install a newer one"
            )
        yield found
        found.done()


def kind_of(path: str | Path) -> str:
    """Kind of a file, "model" or "hybrid", as it says; empty if not. Raises as `reading`."""
    data = content_of(path)
    with naming(path):
        found = loaded(data)
    return str(found.get("kinesym", "")) if isinstance(found, dict) else ""


def loaded(data: bytes) -> Any:
    """Content of JSON, in UTF-8. Raises `ValueError` for anything else, and for numbers that double
    precision does not have."""
    try:
        return json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_once,
            parse_constant=_refused,
            parse_int=_whole,
            parse_float=_float,
        )
    except json.JSONDecodeError as error:
        raise ValueError(
            f"line {error.lineno}, column {error.colno}: it is no JSON: {error.msg}"
        ) from error
    except UnicodeDecodeError as error:
        raise ValueError(f"it is no text in UTF-8: byte {error.start}") from error
    except RecursionError as error:
        raise ValueError("lists and objects are nested too deeply") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the entry {shown(key)} occurs twice in an object")
        found[key] = value
    return found


def _refused(word: str) -> float:
    raise ValueError(f"{word} is no number here; leave the entry out")


def _whole(text: str) -> int:
    _float(text)
    return int(text)


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{shown(text)} is a number beyond double precision")
    return value


def layout(value: Any, indent: str = "") -> str:
    """JSON with one line for each equation, parameter and the like."""
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or not value:
        return line
    rows = [*value.values()] if isinstance(value, dict) else value
    numbers = all(isinstance(row, int | float) for row in rows)
    objects = any(isinstance(row, dict | list) for row in rows) and isinstance(value, list)
    if indent and (numbers or (len(line) <= _WIDTH and not objects)):
        return line
    inner = f"{indent}  "
    if isinstance(value, dict):
        titles = [f"{json.dumps(key, ensure_ascii=False)}: " for key in value]
    else:
        titles = [""] * len(rows)
    pairs = zip(titles, rows, strict=True)
    body = ",\n".join(f"{inner}{title}{layout(row, inner)}" for title, row in pairs)
    begin, end = ("{", "}") if isinstance(value, dict) else ("[", "]")
    return f"{begin}\n{body}\n{indent}{end}"
