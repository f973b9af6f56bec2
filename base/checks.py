"""Checks of arguments: text, lists, mappings, flags, counts and options; and how a
message shows what was given instead. Arrays and times are in `runtime/arrays.py`."""

from __future__ import annotations

import difflib
import gzip
import io
import os
import unicodedata
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from decimal import Decimal
from inspect import signature
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

T = TypeVar("T")
#: More threads, or processes, than any machine has; OpenMP ends the process where it cannot make
#: them.
MOST_THREADS = 1024
#: No table or model that was packed is larger [bytes]; what is made to fill the memory is.
_UNPACKED = 200 << 20


def shown(value: Any) -> str:
    """`value` in a message: on one line, not too long, functions and the like by their names."""
    if getattr(value, "__name__", "") == "<lambda>":
        return "a function"
    if callable(value) and hasattr(value, "__name__"):
        return f"the {'class' if isinstance(value, type) else 'function'} {value.__name__}"
    if getattr(type(value), "__repr__", None) is object.__repr__:
        return f"an object of type {type(value).__name__}"
    plain = value.item() if isinstance(value, np.generic) else value
    try:
        if isinstance(plain, Integral) and abs(int(plain)) >= 10**20:
            return f"{Decimal(int(plain)):.3e}"
        text = " ".join(repr(plain).split())
    except ValueError:  # it holds an integer of thousands of digits
        return f"something of type {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def suggest(name: object, known: Iterable[str]) -> str:
    """A sentence fragment that helps after a misspelt name: near matches or all known names."""
    names = list(known)
    near = difflib.get_close_matches(str(name), names, n=1)
    if near:
        return f"did you mean {near[0]}?"
    return f"known are: {', '.join(names)}" if names else "none are declared"


class Renamed:
    """Class whose attributes had other names once: those raise `AttributeError` with the new name.

    renamed : new names by old ones, given where the class is made.
    """

    _renamed: ClassVar[Mapping[str, str]] = {}

    def __init_subclass__(cls, renamed: Mapping[str, str] | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._renamed = {**cls._renamed, **(renamed or {})}

    if not TYPE_CHECKING:  # or else every attribute would be known

        def __getattr__(self, name: str) -> Any:
            said = f"{type(self).__name__!r} object has no attribute {name!r}"
            new = type(self)._renamed.get(name)
            raise AttributeError(f"{said}; it is called {new!r} now" if new else said)


class Named(dict[str, T]):
    """A dictionary by name whose `KeyError` says what is missing, and suggests a name."""

    def __init__(self, what: str, *items: Mapping[str, T] | Iterable[tuple[str, T]]) -> None:
        super().__init__(*items)
        self.what = what

    def __missing__(self, name: object) -> T:
        raise KeyError(f"there is no {self.what} {name!r}; {suggest(name, self)}")


@contextmanager
def naming(what: object) -> Iterator[None]:
    """Context manager that prefixes messages of `ValueError` with where they arose: a file, a
    segment, ..."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from error


def mapping(value: Any, what: str, of: str = "{name: value}") -> Mapping[Any, Any]:
    """`value` if it is a mapping, or the columns of a table (pandas). Raises `ValueError` naming
    `what` for anything else, and for a table with a name twice."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, type) or not (hasattr(value, "keys") and hasattr(value, "__getitem__")):
        raise ValueError(f"{what} must be a mapping {of}, got {shown(value)}")
    names = list(value.keys())
    for k, name in enumerate(names):
        if name in names[:k]:
            raise ValueError(f"{what}: {name} is given twice")
    return {name: value[name] for name in names}


def listed(value: Any, what: str) -> tuple[Any, ...]:
    """The entries of a list. Raises `ValueError` naming `what` for a single thing, and for what has
    no order."""
    if (
        not isinstance(value, Iterable)
        or isinstance(value, str | bytes | Mapping | Set)
        or (isinstance(value, np.ndarray) and value.ndim == 0)
    ):
        raise ValueError(f"{what} must be a list, got {shown(value)}")
    return tuple(value)


def listed_of(value: Any, kind: type, what: str) -> tuple[Any, ...]:
    """The entries of a list of one kind. Raises `ValueError` naming `what` for anything else."""
    single = isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable)
    rows = () if single else tuple(value)
    if single or not all(isinstance(row, kind) for row in rows):
        raise ValueError(f"{what} must be a list of {kind.__name__}(...), got {shown(value)}")
    return rows


def check_kind(value: Any, kind: type, where: str) -> None:
    """Raise `ValueError` for what is not of a kind, such as `Model` of `kinesym`."""
    if not isinstance(value, kind):
        raise ValueError(f"expected a {where}.{kind.__name__}, got {shown(value)}")


def check_text(value: Any, what: str) -> None:
    """Raise `ValueError` naming `what` for anything but text that can be read."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{what} must be text that is not empty, got {shown(value)}")
    for letter in value:
        if unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp"):
            raise ValueError(f"{what}, {value!r}, contains the control character {letter!r}")


def check_path(value: Any) -> None:
    """Raise `ValueError` for what names no file or folder: neither text nor a path."""
    if not isinstance(value, str | os.PathLike) and not hasattr(value, "read_bytes"):
        raise ValueError(f"a file is named by its path, text or a Path, got {shown(value)}")


def unpacked(data: bytes) -> bytes:
    """The bytes of a file, unpacked if gzip packed them.

    Raises `ValueError` if they are damaged, or far more than such a file holds.
    """
    if data[:2] != b"\x1f\x8b":
        return data
    parts, size = list[bytes](), 0
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            while part := file.read(1 << 20):
                size += len(part)
                if size > _UNPACKED:
                    raise ValueError(
                        f"it unpacks to more than {_UNPACKED >> 20} MB; if that is meant, unpack "
                        "it and read what comes out"
                    )
                parts.append(part)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(
            f"it is damaged: it cannot be decompressed ({error}); take another copy"
        ) from error
    return b"".join(parts)


def check_identifier(value: Any, what: str) -> None:
    """Raise `ValueError` naming `what` for a name that others are made of, if it is none."""
    if not isinstance(value, str) or not value.isidentifier():
        raise ValueError(f"{what} must be letters, digits and underscores, got {shown(value)}")


def check_name(value: Any, what: str) -> None:
    """Raise `ValueError` naming `what` unless the value is text that names a symbol: it must not
    begin with a digit."""
    check_text(value, what)
    if value[0].isdigit():
        raise ValueError(f"{what} must not begin with a digit, got {value!r}")


def check_choice(value: Any, choices: Iterable[str], what: str) -> None:
    """Raise `ValueError` naming `what` for anything but one of these words."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{what} is one of {', '.join(choices)}, got {shown(value)}")


def check_known(name: object, known: Collection[str], what: str) -> None:
    """Raise `ValueError` with `what` and a suggestion for a name that is not `known`."""
    if name not in known:
        raise ValueError(f"{what}; {suggest(name, known)}")


def pair(value: Any, what: str) -> tuple[Any, Any]:
    """The entries of a list of two. Raises `ValueError` with `what` for anything else."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ValueError(f"{what}, got {shown(value)}")
    return value[0], value[1]


def flag(value: Any, what: str) -> bool:
    """True or False. Raises `ValueError` naming `what` for anything else."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{what} is True or False, got {shown(value)}")
    return bool(value)


def count(value: Any, what: str, least: int = 1, most: int | None = None) -> int:
    """A whole number (of Python or NumPy; 3.0 counts as 3) from `least` to `most`.

    Raises `ValueError` naming `what`.
    """
    whole = isinstance(value, Integral) or _number(value).is_integer()
    if isinstance(value, bool | np.bool_) or not whole or int(value) < least:
        raise ValueError(f"{what} must be at least {least} and whole, got {shown(value)}")
    if most is not None and int(value) > most:
        raise ValueError(f"{what} must be at most {most}, got {shown(value)}")
    return int(value)


def finite(value: Any, what: str) -> float:
    """A finite number. Raises `ValueError` naming `what`."""
    number = _number(value)
    if not -np.inf < number < np.inf:
        raise ValueError(f"{what} must be a finite number, got {shown(value)}")
    return number


def positive(value: Any, what: str, least: float = 0.0) -> float:
    """A finite number above zero, at least `least`. Raises `ValueError` naming `what`."""
    number = _number(value)
    if not 0.0 < number < np.inf:
        raise ValueError(f"{what} must be positive, got {shown(value)}")
    if number < least:
        raise ValueError(f"{what} must be at least {least:g}, got {value!r}; rounding is more")
    return number


def not_negative(value: Any, what: str) -> float:
    """A finite number, zero or more. Raises `ValueError` naming `what`."""
    if finite(value, what) < 0.0:
        raise ValueError(f"{what} must not be negative, got {value}")
    return float(value)


def between(value: Any, low: float, high: float, what: str) -> float:
    """A number between two others; raises `ValueError` for anything else."""
    number = _number(value)
    if not low < number < high:
        raise ValueError(f"{what} must be between {low:g} and {high:g}, got {shown(value)}")
    return number


def _number(value: Any) -> float:
    """A real number as float, NaN for anything else."""
    try:
        return float(value) if isinstance(value, Real) and not isinstance(value, bool) else np.nan
    except OverflowError:
        return np.inf


def tolerances(rtol: Any, atol: Any) -> tuple[float, float]:
    """Relative and absolute tolerance of adaptive steps, one number each.

    Raises `ValueError` for what is not positive, below what rounding allows, and for one per state.
    """
    for value, what in ((rtol, "rtol"), (atol, "atol")):
        if isinstance(value, Mapping | Sequence | np.ndarray) and not isinstance(value, str):
            raise ValueError(
                f"{what} is one number for all states, got {shown(value)}; take that of the "
                "smallest state, or write the states in units in which they are of one size"
            )
    return positive(rtol, "rtol", least=1e-14), positive(atol, "atol", least=1e-50)


def threads(value: Any = None) -> int:
    """Number of threads: `value`; for None OMP_NUM_THREADS, else the number of processors that this
    process may use. Raises `ValueError` for anything but a count."""
    if value is not None:
        return count(value, "threads", most=MOST_THREADS)
    chosen = os.environ.get("OMP_NUM_THREADS", "")
    return int(chosen) if chosen.isdigit() and int(chosen) > 0 else cores()


def cores() -> int:
    """The number of processors that this process may use."""
    available = getattr(os, "sched_getaffinity", None)
    return len(available(0)) if available else os.cpu_count() or 1


def none_left(others: Mapping[str, Any], function: Callable[..., Any], own: str) -> None:
    """Raise `TypeError` for an argument that a function does not have, suggesting one that it has.
    own : whose options are given otherwise."""
    for name, value in others.items():
        known = [*signature(function).parameters]
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}? " if near else ""
        raise TypeError(
            f"{function.__qualname__} has no argument {name}; {hint}options of {own} go into "
            f"options={{{name!r}: {shown(value)}}}"
        )


def options(value: Any) -> dict[str, Any]:
    """Options by name; none for None. Raises `ValueError` for anything but a mapping of names."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"options must be a mapping {{name: value}}, got {shown(value)}")
    return dict(value)
