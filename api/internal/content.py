"""What a function and its data are, as a digest: equal content, equal digest, in any process."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import fields, is_dataclass
from functools import partial, singledispatch
from hashlib import blake2b
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import cloudpickle
import numpy as np
import pandas as pd
import sympy as sp

from kinesym.runtime.signals.signal import Signal

_SIZE = 16


def digest(value: Any) -> str:
    """32 hexadecimal digits. Of numbers, text, arrays, tables, containers, expressions, models,
    experiments, problems, functions (their source, defaults, and what of their module they use) and
    files (their bytes); of other objects those of their pickle."""
    return content(value).hex()


@singledispatch
def content(value: Any) -> bytes:
    """The digest of a value, of any class."""
    kind = type(value)
    title = f"{kind.__module__}.{kind.__qualname__}"
    if is_dataclass(value) and not isinstance(value, type):
        own = ((field.name, getattr(value, field.name)) for field in fields(value))
        return joined(title, (part for name, each in own for part in (name, each)))
    if isinstance(value, type):
        return joined("class", [value.__module__, value.__qualname__])
    return _hashed(title.encode(), cloudpickle.dumps(value))


def _hashed(*parts: bytes) -> bytes:
    made = blake2b(digest_size=_SIZE)
    for part in parts:
        made.update(len(part).to_bytes(8, "little"))
        made.update(part)
    return made.digest()


def joined(title: str, parts: Iterable[Any]) -> bytes:
    """The digest of something that has these parts, in this order."""
    return _hashed(title.encode(), *map(content, parts))


@content.register(type(None))
@content.register(bool)
@content.register(int)
@content.register(float)
@content.register(complex)
@content.register(str)
@content.register(range)
def _(value: Any) -> bytes:
    return _hashed(type(value).__name__.encode(), repr(value).encode())


@content.register
def _(value: bytes) -> bytes:
    return _hashed(b"bytes", value)


@content.register
def _(value: np.generic) -> bytes:
    return content(value.item())


@content.register
def _(value: np.ndarray) -> bytes:
    if value.dtype.hasobject:
        return joined("array of objects", [value.shape, value.tolist()])
    head = f"{value.dtype.str} {value.shape}"
    return _hashed(b"array", head.encode(), np.ascontiguousarray(value).tobytes())


@content.register(list)
@content.register(tuple)
def _(value: Any) -> bytes:
    return joined("sequence", value)


@content.register
def _(value: Mapping) -> bytes:
    rows = sorted((content(key), content(each)) for key, each in value.items())
    return _hashed(b"mapping", *(part for row in rows for part in row))


@content.register
def _(value: Set) -> bytes:
    return _hashed(b"set", *sorted(map(content, value)))


@content.register(pd.DataFrame)
@content.register(pd.Series)
@content.register(pd.Index)
def _(value: Any) -> bytes:
    table = value.to_frame() if not isinstance(value, pd.DataFrame) else value
    columns = (table[name].to_numpy() for name in table.columns)
    return joined("table", [list(table.columns), table.index.to_numpy(), *columns])


@content.register
def _(value: Path) -> bytes:
    """A file by what is in it, anything else by its name."""
    return joined("path", [str(value), value.read_bytes() if value.is_file() else b""])


@content.register
def _(value: sp.Basic) -> bytes:
    """Each part once, as they may be shared many times; functions of time, too, by their names."""
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


@content.register(sp.MatrixBase)
def _(value: Any) -> bytes:
    return joined("matrix", [value.shape, list(value)])


@content.register
def _(value: Signal) -> bytes:
    return joined("signal", [vars(value)[name] for name in sorted(vars(value))])


@content.register
def _(value: FunctionType) -> bytes:
    """With what it uses of its own module: functions, and other things by their content."""
    return joined("function", map(_of_function, _used(value).values()))


def _used(function: FunctionType) -> dict[str, FunctionType]:
    """A function and those of its module that it calls, and these, by name."""
    found, new = dict[str, FunctionType](), [function]
    while new:
        one = new.pop()
        if one.__qualname__ not in found:
            found[one.__qualname__] = one
            others = (one.__globals__.get(name) for name in sorted(_names(one.__code__)))
            new += [f for f in others if isinstance(f, FunctionType) and _beside(f, function)]
    return dict(sorted(found.items()))


def _beside(one: FunctionType, other: FunctionType) -> bool:
    return one.__module__ == other.__module__


def _names(code: CodeType) -> set[str]:
    """Global names, of functions within, too."""
    inner = [_names(part) for part in code.co_consts if isinstance(part, CodeType)]
    return {*code.co_names}.union(*inner)


def _of_function(value: FunctionType) -> bytes:
    try:
        text = inspect.getsource(value).strip()
    except (OSError, TypeError):  # typed in a console
        text = value.__code__.co_code.hex() + repr(value.__code__.co_consts)
    enclosed = [cell.cell_contents for cell in value.__closure__ or ()]
    around = [
        (name, _of_global(value.__globals__[name]))
        for name in sorted(_names(value.__code__))
        if name in value.__globals__
    ]
    about = [value.__qualname__, text, value.__defaults__, value.__kwdefaults__, enclosed, around]
    return joined("source", about)


def _of_global(value: Any) -> bytes:
    """Modules, classes and functions by name: those of the same module count by themselves."""
    if isinstance(value, FunctionType | BuiltinFunctionType | ModuleType | type):
        return joined("name", [getattr(value, "__module__", ""), value.__name__])
    return content(value)


@content.register(BuiltinFunctionType)
@content.register(ModuleType)
def _(value: Any) -> bytes:
    return joined("name", [getattr(value, "__module__", ""), value.__name__])


@content.register
def _(value: MethodType) -> bytes:
    return joined("method", [value.__func__, value.__self__])


@content.register
def _(value: partial) -> bytes:
    return joined("partial", [value.func, value.args, value.keywords])


def title_of(function: Callable[..., Any]) -> str:
    """A function in words."""
    return getattr(function, "__qualname__", type(function).__qualname__)
