"""Numbers of calls: counts, sizes, threads and options, refused in words where they enter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np

from kinesym.runtime.arrays import shown
from kinesym.runtime.nlp.nlp import default_threads

#: More threads than any machine has; OpenMP ends the process where it cannot make them.
_MOST_THREADS = 1024


def count(value: Any, what: str, least: int = 1, most: int | None = None) -> int:
    """A whole number (of Python or NumPy; 3.0 counts as 3) from `least` to `most`.

    Raises `ValueError` naming `what`.
    """
    whole = isinstance(value, Integral) or _number(value).is_integer()
    if isinstance(value, bool | np.bool_) or not whole or int(value) < least:
        raise ValueError(f"{what} must be at least {least} and whole, got {value!r}")
    if most is not None and int(value) > most:
        raise ValueError(f"{what} must be at most {most}, got {value!r}")
    return int(value)


def positive(value: Any, what: str, least: float = 0.0) -> float:
    """A finite number above zero, at least `least`. Raises `ValueError` naming `what`."""
    number = _number(value)
    if not 0.0 < number < np.inf:
        raise ValueError(f"{what} must be positive, got {value!r}")
    if number < least:
        raise ValueError(f"{what} must be at least {least:g}, got {value!r}; rounding is more")
    return number


def finite(value: Any, what: str) -> float:
    """A finite number. Raises `ValueError` naming `what`."""
    number = _number(value)
    if not -np.inf < number < np.inf:
        raise ValueError(f"{what} must be a finite number, got {shown(value)}")
    return number


def one_of(value: Any, known: Iterable[str], what: str) -> None:
    """Raise `ValueError`, naming `what`, for what is none of the known names."""
    if value not in tuple(known):
        raise ValueError(f"unknown {what} {shown(value)}; choose one of {', '.join(known)}")


def flag(value: Any, what: str) -> bool:
    """True or False. Raises `ValueError` naming `what` for anything else."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{what} is True or False, got {shown(value)}")
    return bool(value)


def listed(value: Any, what: str) -> list[Any]:
    """The entries of a list. Raises `ValueError` naming `what` for a single thing."""
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
        raise ValueError(f"{what} must be a list, got {shown(value)}")
    return list(value)


def listed_of(value: Any, kind: type, what: str) -> list[Any]:
    """The entries of a list of one kind. Raises `ValueError` naming `what` for anything else."""
    single = not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping)
    rows = [] if single else list(value)
    if single or not all(isinstance(row, kind) for row in rows):
        raise ValueError(f"{what} must be a list of {kind.__name__}(...), got {shown(value)}")
    return rows


def mapping(value: Any, what: str) -> Mapping[Any, Any]:
    """`value` if it is a mapping. Raises `ValueError` naming `what` for anything else."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{what} must be a mapping {{name: value}}, got {shown(value)}")
    return value


def check_text(value: Any, what: str) -> None:
    """Raise `ValueError` naming `what` for anything but text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{what} must be text that is not empty, got {shown(value)}")


def check_kind(value: Any, kind: type, where: str) -> None:
    """Raise `ValueError` for what is not of a kind, such as `Support` of `kinesym`."""
    if not isinstance(value, kind):
        raise ValueError(f"expected a {where}.{kind.__name__}, got {shown(value)}")


def _number(value: Any) -> float:
    """A real number as float, NaN for anything else."""
    try:
        return float(value) if isinstance(value, Real) and not isinstance(value, bool) else np.nan
    except OverflowError:
        return np.inf


def tolerances(rtol: Any, atol: Any) -> tuple[float, float]:
    """Relative and absolute tolerance of adaptive steps.

    Raises `ValueError` for what is not positive, and below what rounding allows.
    """
    return positive(rtol, "rtol", least=1e-14), positive(atol, "atol", least=1e-50)


def threads(value: Any) -> int:
    """So many threads; for None OMP_NUM_THREADS or the number of processors.

    Raises `ValueError` for anything but a count.
    """
    return default_threads() if value is None else count(value, "threads", most=_MOST_THREADS)


def options(value: Any) -> dict[str, Any]:
    """Options by name; none for None. Raises `ValueError` for anything but a mapping of names."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        raise ValueError(f"options must be a mapping {{name: value}}, got {value!r}")
    return dict(value)
