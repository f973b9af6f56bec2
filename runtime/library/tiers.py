"""Tiers of kernels: compiled, or interpreted until a compiled library takes over.

Where nothing is kept of a model, its kernels are interpreted at first, so that small problems are
solved before a compiler has begun. Once that has taken as long as the compiler is likely to, it
works in the background, and the compiled library takes over between two calls. Loops of time
stepping are compiled at once: an interpreter is slowest at steps one after the other. The
environment variable `KINESYM_TIER` forces one way, `compiled` or `interpreted`.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from kinesym.base.checks import check_choice
from kinesym.runtime.library.build import CompilerError, build, find
from kinesym.runtime.library.cache import CacheError
from kinesym.runtime.native import Interpreted, Library

TIER_VARIABLE = "KINESYM_TIER"
#: Tier whose kernels run as machine code from the first call.
COMPILED = "compiled"
#: Tier whose kernels are interpreted.
INTERPRETED = "interpreted"

#: Time that a compiler is likely to take to start [s]. Measured with gcc 12: 0.25 s for a pendulum,
#: 3 s for the 5,600 operations of ten links on a cart.
_START = 0.25
#: Time that it is likely to take per operation of the kernels [s].
_EACH = 0.5e-3


def tier() -> str:
    """The way that is forced, or nothing. Raises `ValueError` for another word."""
    chosen = os.environ.get(TIER_VARIABLE, "")
    if chosen:
        check_choice(chosen, (COMPILED, INTERPRETED), f"the environment variable {TIER_VARIABLE}")
    return chosen


def opened(
    source: Callable[[], Mapping[str, Any]],
    machine: Callable[[], Interpreted],
    at_once: bool,
) -> tuple[Library, float]:
    """The library of a program, and the seconds spent compiling.

    source : the arguments of `build`. machine : its kernels without a compiler. at_once :
    whether it is compiled before it is used. Raises `CompilerError` if `compiled` is forced and
    impossible; else that warns.
    """
    chosen = tier()
    if chosen == INTERPRETED:
        return machine(), 0.0
    arguments = source()
    if chosen == COMPILED:
        return build(**arguments)
    if library := find(**arguments):
        return library, 0.0
    if at_once:
        try:
            return build(**arguments)
        except CompilerError as error:
            warnings.warn(
                f"kernels are interpreted, time stepping takes several times as long: {error}",
                stacklevel=3,
            )
    made = machine()
    made.source = arguments
    return made, 0.0


def interpreted(library: Library) -> float:
    """About how long kernels of a library were interpreted so far [s]; 0 if it is compiled."""
    return library.spent if isinstance(library, Interpreted) else 0.0


def look(library: Library) -> None:
    """Start compiling in the background, between two calls, if interpreting has taken as long as
    that may."""
    if not isinstance(library, Interpreted) or library.source is None or library.asked:
        return
    if library.spent > _START + _EACH * library.operations:
        library.asked = True
        _background().submit(_compile, library)


@cache
def _background() -> ThreadPoolExecutor:
    """Thread that compiles in the background, one library at a time."""
    return ThreadPoolExecutor(1, "kinesym-compiler")


def _compile(library: Interpreted) -> None:
    try:
        library.take_over(build(**library.source)[0])
    except (CompilerError, CacheError) as error:
        warnings.warn(f"kernels stay interpreted: {error}", stacklevel=1)


def landed(name: str, kernels: list[Any], lanes: int | None, source: Any) -> Library:
    """A pickled interpreted library, opened here; compiled if it is kept here as such."""
    if source is not None and not tier() and (library := find(**source)):
        return library
    made = Interpreted(name, kernels, lanes)
    made.source = source
    return made
