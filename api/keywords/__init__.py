"""Keyword arguments that a public function does not have: the sentence that names the function, the
argument and the nearest one that there is, instead of the interpreter's."""

from __future__ import annotations

import difflib
import enum
from collections.abc import Callable, Iterable, MutableMapping
from inspect import Parameter, signature
from types import FunctionType
from typing import Any

from kinesym.keywords._told import Told

#: Methods that a class is made and called by.
_SPECIAL = ("__init__", "__new__", "__call__")


def misnamed(function: Callable[..., Any], given: Iterable[str]) -> str | None:
    """What is said of the first keyword that a function does not have; None if it has all."""
    parameters = signature(function).parameters
    kinds = {parameter.kind for parameter in parameters.values()}
    known = [name for name, p in parameters.items() if p.kind in _BY_NAME]
    if function.__name__ in _SPECIAL or known[:1] in (["self"], ["cls"]):
        known = known[1:]
    unknown = [name for name in given if name not in known]
    if not unknown or Parameter.VAR_KEYWORD in kinds:
        return None
    called = function.__qualname__
    for name in _SPECIAL:
        called = called.removesuffix(f".{name}")
    near = difflib.get_close_matches(unknown[0], known, n=1, cutoff=0.5)
    if near:
        hint = f"did you mean {near[0]}?"
    else:
        hint = f"it has {', '.join(known)}" if known else "it takes none by name"
    return f"{called.lstrip('_')} has no argument {unknown[0]}; {hint}"


_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def told(value: Any) -> Any:
    """A function, or a class with its public methods, whose calls with keywords that it does not
    have end in a sentence. A class is changed in place; what is neither stays as it is."""
    if type(value) is FunctionType:
        return Told(value, misnamed)
    if isinstance(value, type) and not issubclass(value, enum.Enum):
        package = value.__module__.partition(".")[0]
        for owner in value.__mro__:
            if owner.__module__.partition(".")[0] == package:  # no class of another project
                _tell(owner)
    return value


def told_names(namespace: MutableMapping[str, Any], names: Iterable[str]) -> None:
    """The same of those names of a module."""
    for name in names:
        namespace[name] = told(namespace[name])


def _tell(owner: type) -> None:
    """The methods that a class has of its own."""
    for name, method in list(vars(owner).items()):
        if name.startswith("_") and name not in _SPECIAL:
            continue
        kind = type(method)
        if kind is FunctionType:
            setattr(owner, name, Told(method, misnamed))
        elif kind in (classmethod, staticmethod) and type(method.__func__) is FunctionType:
            setattr(owner, name, kind(Told(method.__func__, misnamed)))
