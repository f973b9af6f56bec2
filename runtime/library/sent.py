"""Libraries that are pickled, for other processes and machines, or copied.

The source goes along, and the library itself. Where it lands, it is taken from the cache; else what
came along is used, if machine, C library and abilities of the processor are those where it came
from, or more; else it is built from its source.
"""

from __future__ import annotations

import pickle
import platform
import zlib
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from kinesym.runtime.library import cache
from kinesym.runtime.library.build import abilities, build, kept
from kinesym.runtime.native import Compiled


def reduced(library: Compiled) -> tuple[Any, ...]:
    """State for pickling a library, returned by `Compiled.__reduce__`. Raises `TypeError` for one
    that was opened as a file."""
    if library.source is None:
        raise TypeError(
            f"the library {library.path} was opened as a file and cannot be pickled; only what "
            "kinesym built can"
        )
    source = zlib.compress(pickle.dumps(library.source), 1)
    return landed, (source, _packed(library.path), Path(library.path).stem, *_here())


@lru_cache(maxsize=16)
def _packed(path: str) -> bytes:
    """The file of a library, compressed; nothing if it is not there any more."""
    return zlib.compress(cache.read(Path(path)) or b"", 1)


def _here() -> tuple[tuple[str, ...], Sequence[str]]:
    """Machine, C library and processor abilities of this process."""
    return (platform.machine(), *platform.libc_ver()), sorted(abilities())


def landed(
    source: bytes, packed: bytes, key: str, system: tuple[str, ...], abilities: Sequence[str]
) -> Compiled:
    """A pickled library, opened here; errors and warnings as of `build`."""
    arguments = pickle.loads(zlib.decompress(source))
    mine, able = _here()
    library = None
    if system == mine and set(abilities) <= set(able):
        library = kept(key) or _stored(key, zlib.decompress(packed))
    if library is None:
        return build(**arguments)[0]
    library.source = arguments
    return library


def _stored(key: str, data: bytes) -> Compiled | None:
    """The library that came along, put into the cache; None if it cannot be used."""
    folder = cache.cache_folder()
    if not data:
        return None
    with suppress(OSError, RuntimeError):  # RuntimeError: of another kinesym, or a bad cache
        cache.prepare(folder)
        cache.store(folder / f"{key}.so", data)
        return Compiled(folder / f"{key}.so")
    return None
