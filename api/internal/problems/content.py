"""Digests of functions and their data: equal content has an equal digest, in any process.

Code counts by what was compiled, so that comments do not; that of Python, of installed packages and
of kinesym by name.
"""

from __future__ import annotations

import dis
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import fields, is_dataclass
from functools import lru_cache, partial, singledispatch
from hashlib import blake2b
from pathlib import Path
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np
import sympy as sp

from kinesym.runtime.functions import Functions
from kinesym.runtime.signals.signal import Signal

#: Metadata of a dataclass field on which results do not depend.
UNCOUNTED: Mapping[str, bool] = MappingProxyType({"uncounted": True})
_SIZE = 16
#: Folders in which packages are installed.
_INSTALLED = tuple(
    {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)


def digest(value: Any) -> str:
    """32 hexadecimal digits. Of numbers, text, arrays, tables, containers, expressions, models,
    experiments, problems, functions (their code, defaults, and what they use of the user's own
    code and values), files (their bytes), and of other objects by their parts."""
    _count_tables()
    return content(value).hex()


def content(value: Any) -> bytes:
    """The digest of a value, as bytes."""
    return _Content({}, []).of(value)


class _Content:
    """Builder of one digest. known : digests of functions and classes that are done, by id. here :
    ids of the objects being looked at, from the outermost in: an object that contains itself counts
    by its depth."""

    def __init__(self, known: dict[int, bytes], here: list[int]) -> None:
        self._known, self._here = known, here

    def of(self, value: Any) -> bytes:
        if id(value) in self._known:
            return self._known[id(value)]
        if id(value) in self._here:
            return _hashed(b"within", str(self._here.index(id(value))).encode())
        self._here.append(id(value))
        found = _parts(value, self)
        self._here.pop()
        if isinstance(value, FunctionType | type):
            self._known[id(value)] = found
        return found

    def joined(self, title: str, parts: Iterable[Any]) -> bytes:
        """Digest of an object that has these parts, in this order."""
        return _hashed(title.encode(), *map(self.of, parts))


def _hashed(*parts: bytes) -> bytes:
    made = blake2b(digest_size=_SIZE)
    for part in parts:
        made.update(len(part).to_bytes(8, "little"))
        made.update(part)
    return made.digest()


@singledispatch
def _parts(value: Any, made: _Content) -> bytes:
    """The digest of a value, of any class."""
    kind = type(value)
    if is_dataclass(value) and not isinstance(value, type):
        counted = [field.name for field in fields(value) if "uncounted" not in field.metadata]
        own = ((name, getattr(value, name)) for name in counted)
        return made.joined("dataclass", [kind, *(part for pair in own for part in pair)])
    reduced = value.__reduce_ex__(4)
    if isinstance(reduced, str):
        return made.joined("name", [kind, reduced])
    made_by, arguments, *state = reduced
    return made.joined("object", [kind, made_by, arguments, *map(_listed, state)])


def _listed(value: Any) -> Any:
    """List of the items of an iterator."""
    return list(value) if isinstance(value, Iterator) else value


def counts_as(kind: type, parts: Callable[[Any], Iterable[Any]]) -> None:
    """Let objects of a class count by these parts."""
    _parts.register(kind)(lambda value, made: made.joined(kind.__qualname__, parts(value)))


# -- numbers, text, containers ------------------------------------------------------------------


@_parts.register(type(None))
@_parts.register(type(...))
@_parts.register(bool)
@_parts.register(int)
@_parts.register(float)
@_parts.register(complex)
@_parts.register(str)
@_parts.register(range)
def _(value: Any, made: _Content) -> bytes:
    return _hashed(type(value).__name__.encode(), repr(value).encode())


@_parts.register(bytes)
@_parts.register(bytearray)
def _(value: Any, made: _Content) -> bytes:
    return _hashed(type(value).__name__.encode(), bytes(value))


@_parts.register
def _(value: np.generic, made: _Content) -> bytes:
    plain = value.item()
    if type(plain) is type(value):  # longer than numbers of Python
        return _hashed(str(value.dtype).encode(), value.tobytes())
    return made.of(plain)


@_parts.register
def _(value: np.ndarray, made: _Content) -> bytes:
    if isinstance(value, np.ma.MaskedArray):
        return made.joined("masked", [np.asarray(value.filled()), np.ma.getmaskarray(value)])
    if value.dtype.hasobject:
        return made.joined("array of objects", [value.shape, value.tolist()])
    kind = value.dtype.descr if value.dtype.names else value.dtype.str
    head = f"{kind} {value.shape}"
    return _hashed(b"array", head.encode(), np.ascontiguousarray(value).tobytes())


@_parts.register(list)
@_parts.register(tuple)
def _(value: Any, made: _Content) -> bytes:
    title = "list" if isinstance(value, list) else "tuple"
    kind = [] if type(value) in (list, tuple) else [type(value)]
    return made.joined(title, [*kind, *value])


@_parts.register
def _(value: Mapping, made: _Content) -> bytes:
    rows = sorted((made.of(key), made.of(each)) for key, each in value.items())
    return _hashed(b"mapping", *(part for row in rows for part in row))


@_parts.register
def _(value: Set, made: _Content) -> bytes:
    return _hashed(b"set", *sorted(map(made.of, value)))


@lru_cache(maxsize=1)
def _count_tables() -> None:
    """Let tables of pandas count, which take long to import, by what is in them."""
    import pandas as pd

    for kind in (pd.DataFrame, pd.Series, pd.Index):
        _parts.register(kind)(_of_table)


def _of_table(value: Any, made: _Content) -> bytes:
    import pandas as pd

    if isinstance(value, pd.Index):
        about = [getattr(value, "categories", None)] if value.dtype == "category" else []
        return made.joined(
            "index", [list(value.names), str(value.dtype), np.asarray(value), *about]
        )
    if isinstance(value, pd.Series):
        about = [value.cat.categories] if value.dtype == "category" else []
        own = [value.name, str(value.dtype), np.asarray(value), value.index]
        return made.joined("series", [*own, *about])
    return made.joined("frame", [value.columns, *(value.iloc[:, k] for k in range(value.shape[1]))])


@_parts.register
def _(value: Path, made: _Content) -> bytes:
    """Digest of a path: a file by its content, anything else by its name."""
    return made.joined("path", [str(value), value.read_bytes() if value.is_file() else b""])


# -- expressions and what is made of them -------------------------------------------------------


@_parts.register
def _(value: sp.Basic, made: _Content) -> bytes:
    """Digest of an expression: shared parts are visited once; functions of time count by name."""
    known: dict[sp.Basic, bytes] = {}
    for part in sp.postorder_traversal(value):
        if part not in known:
            known[part] = _of_expression(part, known)
    return known[value]


def _of_expression(part: sp.Basic, known: Mapping[sp.Basic, bytes]) -> bytes:
    kind = type(part)
    title = f"{kind.__module__}.{kind.__name__}".encode()
    if part.args:
        return _hashed(b"expression", title, *(known[arg] for arg in part.args))
    numbers = getattr(part, "digest", b"")  # of the record of a table
    return _hashed(b"atom", title, sp.srepr(part).encode(), numbers)


@_parts.register(sp.MatrixBase)
def _(value: Any, made: _Content) -> bytes:
    return made.joined("matrix", [value.shape, list(value)])


counts_as(Signal, lambda value: (vars(value)[name] for name in sorted(vars(value))))
counts_as(Functions, lambda value: (value.library.source, value.values))


# -- code -----------------------------------------------------------------------------------------


@_parts.register
def _(value: FunctionType, made: _Content) -> bytes:
    if _foreign(value.__module__) and len(made._here) > 1:
        return _named(value)
    cells = [_of_cell(cell) for cell in value.__closure__ or ()]
    space = value.__globals__
    used = [(name, space[name]) for name in sorted(_globals(value.__code__)) if name in space]
    about = [value.__defaults__, value.__kwdefaults__, cells, used]
    return made.joined("function", [value.__code__, *about])


def _of_cell(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return None


@_parts.register
def _(value: CodeType, made: _Content) -> bytes:
    names = (value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars)
    counts = (value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount, value.co_flags)
    return made.joined("code", [value.co_code, *names, *counts, value.co_consts])


def _globals(code: CodeType) -> set[str]:
    """Global names that code reads, that of functions within, too."""
    read = ("LOAD_GLOBAL", "LOAD_NAME")
    own = {str(i.argval) for i in dis.get_instructions(code) if i.opname in read}
    inner = [_globals(part) for part in code.co_consts if isinstance(part, CodeType)]
    return own.union(*inner)


@_parts.register
def _(value: type, made: _Content) -> bytes:
    if _foreign(value.__module__):
        return _named(value)
    own = {k: v for k, v in vars(value).items() if k not in _OF_CLASSES}
    return made.joined("class", [value.__qualname__, value.__bases__, own])


#: Attributes of classes that do not count: they say nothing, or name the module.
_OF_CLASSES = ("__module__", "__dict__", "__weakref__", "__doc__", "__firstlineno__")


@_parts.register(property)
def _(value: Any, made: _Content) -> bytes:
    return made.joined("property", [value.fget, value.fset, value.fdel])


@_parts.register(staticmethod)
@_parts.register(classmethod)
def _(value: Any, made: _Content) -> bytes:
    return made.joined(type(value).__name__, [value.__func__])


@_parts.register
def _(value: ModuleType, made: _Content) -> bytes:
    file = getattr(value, "__file__", None)
    if file is None or _foreign(value.__name__):
        return _hashed(b"module", value.__name__.encode())
    return _hashed(b"module", Path(file).read_bytes())


@_parts.register
def _(value: BuiltinFunctionType, made: _Content) -> bytes:
    return _named(value)


@_parts.register
def _(value: np.ufunc, made: _Content) -> bytes:
    return _hashed(b"ufunc", value.__name__.encode())


@_parts.register(type(lru_cache(len)))
def _(value: Any, made: _Content) -> bytes:
    return made.joined("cached", [value.__wrapped__])


@_parts.register
def _(value: MethodType, made: _Content) -> bytes:
    return made.joined("method", [value.__func__, value.__self__])


@_parts.register
def _(value: partial, made: _Content) -> bytes:
    return made.joined("partial", [value.func, value.args, value.keywords])


def _named(value: Any) -> bytes:
    return _hashed(b"name", str(value.__module__).encode(), value.__qualname__.encode())


def _foreign(name: str | None) -> bool:
    """Whether a module is Python's, an installed package's or kinesym's."""
    root = (name or "").partition(".")[0]
    if root in sys.stdlib_module_names or root == "kinesym":
        return True
    file = getattr(sys.modules.get(name or ""), "__file__", None)
    return file is not None and str(file).startswith(_INSTALLED)


def title_of(function: Callable[..., Any]) -> str:
    """Name of a function, in words."""
    return getattr(function, "__qualname__", type(function).__qualname__)
