"""Equations of statements, from text: read with numbers, arrays, or the symbols of any library.

The grammar is that of Python's arithmetic: names, numbers, + - * / **, unary minus, and calls of
FUNCTIONS. `delayed(x, tau)` is the state or input x as it was tau seconds ago.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

#: Functions that equations may call, beside `delayed`.
FUNCTIONS = ("sin", "cos", "tan", "exp", "log", "sqrt", "tanh", "atan", "sign", "abs", "max", "min")
NODES = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.Call, ast.Name, ast.Constant, ast.Load)
NODES += (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.USub)

#: The functions of numbers, and of arrays.
OF_NUMBERS = {n: getattr(math, n) for n in FUNCTIONS if hasattr(math, n)}
OF_NUMBERS |= {"abs": abs, "max": max, "min": min, "sign": lambda x: math.copysign(x != 0, x)}
OF_ARRAYS = {n: getattr(np, n, None) for n in FUNCTIONS}
OF_ARRAYS |= {"atan": np.arctan, "max": np.maximum, "min": np.minimum}


def checked(text: str) -> ast.Expression:
    """The expression as a tree, which holds nothing but arithmetic. Names of what is delayed become
    strings."""
    tree = ast.parse(str(text), mode="eval")
    for node in ast.walk(tree):
        if not isinstance(node, NODES):
            raise ValueError(f"{text!r}: {type(node).__name__} is no arithmetic")
        if isinstance(node, ast.Constant) and not isinstance(node.value, int | float):
            raise ValueError(f"{text!r}: {node.value!r} is no number")
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", "")
            if name not in (*FUNCTIONS, "delayed") or node.keywords:
                raise ValueError(f"{text!r}: no function {name}; there are {', '.join(FUNCTIONS)}")
            if name == "delayed":
                node.args[0] = ast.Constant(getattr(node.args[0], "id", ""))
    return ast.fix_missing_locations(tree)


def names_in(text: str) -> set[str]:
    """Names of variables in an expression, those that are delayed among them."""
    tree = checked(text)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    plain = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) not in called}
    late = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)}
    return plain | {name for name in late if isinstance(name, str)}


def value(text: Any, names: Mapping[str, Any], functions: Mapping[str, Any]) -> Any:
    """An expression with these values of names and these functions; numbers are themselves."""
    if isinstance(text, int | float):
        return text
    scope = {"__builtins__": {}, **functions, **names}
    return eval(compile(checked(text), "<statement>", "eval"), scope)


def source(text: Any) -> str:
    """The expression as a line of Python."""
    return ast.unparse(checked(text))


def lets(statement: Mapping[str, Any], names: dict[str, Any], functions: Mapping[str, Any]) -> dict:
    """`names` with the abbreviations of a statement added, in their order."""
    for name, text in statement.get("let", {}).items():
        names[name] = value(text, names, functions)
    return names
