"""Whether the parts of a model fit together: declarations, expressions, pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from typing import TYPE_CHECKING

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.checks import check_name, check_text, shown
from kinesym.symbolic.names import name_of, suggest, t

if TYPE_CHECKING:
    from kinesym.symbolic.model import Model

#: Names that results use for themselves.
_RESERVED = frozenset(("time", "duration"))


def check_declarations(model: Model) -> None:
    """Kinds, names and uniqueness of the declared symbols, and the number of equations."""
    where = f"model {model.name}"
    for group in ("states", "inputs"):
        for x in getattr(model, group):
            check_signal(x, f"{where}: {group[:-1]}")
    for p in model.parameters:
        if not isinstance(p, sp.Symbol) or p == t:
            raise ValueError(
                f"{where}: parameter {shown(p)} is not a constant symbol; use sympy.Symbol"
            )
    _check_names(model)
    n, count = len(model.states), len(model.equations)
    if n != count:
        unused = [x for x in model.states if not any(e.has(x) for e in model.equations)]
        hint = f"state {unused[0]} has no equation; " if unused else ""
        raise ValueError(
            f"{where}: {hint}{count} equations for {n} states ({', '.join(map(str, model.states))})"
        )


def check_signal(x: object, what: str) -> None:
    """Raise `ValueError` naming `what` for anything but a function of time."""
    if not isinstance(x, AppliedUndef) or x.args != (t,):
        raise ValueError(
            f"{what} {shown(x)} is not a function of time; make it with kinesym.dynamicsymbols"
        )


def _check_names(model: Model) -> None:
    groups = {
        "a state": model.states,
        "an input": model.inputs,
        "a parameter": model.parameters,
        "an intermediate": [symbol for symbol, _ in model.intermediates],
        "an output": model.outputs,
    }
    kinds = [(name_of(key), kind) for kind, group in groups.items() for key in group]
    counts = Counter(name for name, _ in kinds)
    for name, kind in kinds:
        check_name(name, f"model {model.name}: the name of {kind}")
        if name in _RESERVED or name.startswith(("measured_", "std_")):
            raise ValueError(
                f"model {model.name}: the name {name} is reserved for results; choose another"
            )
        if "/" in name or name == ".":
            raise ValueError(
                f"model {model.name}: the name {name!r} cannot be that of a column in "
                "saved files, where '/' separates groups; choose another"
            )
        if counts[name] > 1:
            raise ValueError(f"model {model.name}: the name {name} is declared more than once")
    for sentence in model.limits:
        check_text(sentence, f"model {model.name}: the sentence of a limit")


def check_drawing(model: Model) -> None:
    """Lines from point to point, and a place for every point of the stick figure."""
    for line in model.drawing:
        if len(line) < 2 or not all(isinstance(name, str) and len(name) > 1 for name in line):
            raise ValueError(
                f"model {model.name}: a line of the drawing names two points or more, "
                f"such as ('hip', 'knee'), got {shown(line)}"
            )
    for point in {point for line in model.drawing for point in line}:
        for name in (f"{point}_x", f"{point}_y"):
            if name not in model.outputs:
                raise ValueError(
                    f"model {model.name}: point {point} of the drawing needs the output {name}; "
                    "without a drawing: drawing=()"
                )


def check_expressions(model: Model) -> None:
    """Only declared symbols, only first derivatives of states, an equation for every state."""
    where = f"model {model.name}"
    known: set[sp.Basic] = {*model.states, *model.inputs, *model.parameters, t}
    rates = set(model.derivatives)
    everything: set[sp.Basic] = set()
    _check_order(model)
    for label, expression, symbol in _labelled(model):
        atoms = atoms_of(expression)
        check_atoms(atoms, known, rates, f"{where}: {label}")
        everything |= atoms
        known |= {symbol} - {None}
    in_equations = atoms_through(model, model.equations)
    for x, rate in zip(model.states, model.derivatives, strict=True):
        if x not in in_equations and rate not in in_equations:
            raise ValueError(f"{where}: state {x} has no equation; it appears in none of them")
    unused = [p for p in (*model.inputs, *model.parameters) if p not in everything]
    if unused:
        raise ValueError(
            f"{where}: {unused[0]} is declared but appears nowhere; remove it or use it"
        )


def _check_order(model: Model) -> None:
    """Intermediates use earlier ones only."""
    open_ones = {symbol for symbol, _ in model.intermediates}
    for symbol, expression in model.intermediates:
        early = open_ones & expression.atoms(sp.Symbol, AppliedUndef)
        if early:
            other = min(early, key=str)
            what = "itself" if other == symbol else f"{other}, which is defined later; move it down"
            raise ValueError(f"model {model.name}: intermediate {name_of(symbol)} contains {what}")
        open_ones.discard(symbol)


def _labelled(model: Model) -> Iterable[tuple[str, sp.Expr, sp.Symbol | None]]:
    """Every expression with its label and the symbol that later ones may use for it."""
    for symbol, expression in model.intermediates:
        yield f"intermediate {name_of(symbol)}", expression, symbol
    for number, equation in enumerate(model.equations):
        yield f"equation {number}", equation, None
    for name, expression in model.outputs.items():
        yield f"output {name}", expression, None
    for sentence, expression in model.limits.items():
        yield f"the limit {sentence!r}", expression, None


def check_explicit(model: Model) -> None:
    """Only declared symbols and intermediates in the explicit form of a model."""
    form = model.explicit
    assert form is not None
    known = model.symbols | {symbol for symbol, _ in form.intermediates}
    where = f"model {model.name}: the explicit form of"
    for symbol, e in (*form.intermediates, *zip(model.derivatives, form.rates, strict=True)):
        check_atoms(atoms_of(e), known, set(), f"{where} {symbol}")


def atoms_of(*expressions: sp.Expr) -> set[sp.Basic]:
    """Symbols, functions of time and derivatives of expressions."""
    return set().union(*(e.atoms(sp.Symbol, AppliedUndef, sp.Derivative) for e in expressions))


def atoms_through(model: Model, expressions: Iterable[sp.Expr]) -> set[sp.Basic]:
    """The same, through the intermediates that they use."""
    return atoms_of(*through(model, expressions))


def through(model: Model, expressions: Iterable[sp.Expr]) -> list[sp.Expr]:
    """`expressions`, and those of the intermediates that they use."""
    found = list(expressions)
    atoms = atoms_of(*found)
    for symbol, expression in reversed(model.intermediates):
        if symbol in atoms:
            atoms |= atoms_of(expression)
            found.append(expression)
    return found


def check_atoms(
    atoms: Set[sp.Basic], known: Set[sp.Basic], rates: Set[sp.Derivative], where: str
) -> None:
    """Raise `ValueError` for an atom that is neither known nor the derivative of a state."""
    for atom in sorted(atoms - known - rates, key=str):
        if isinstance(atom, sp.Derivative):
            function, order = atom.expr, atom.derivative_count
            if set(atom.variables) != {t}:
                raise ValueError(
                    f"{where} contains {atom}, a derivative that is not one with "
                    "respect to time; carry it out, or name it a parameter"
                )
            if order > 1 and function in known:
                raise ValueError(
                    f"{where} contains {atom}, a derivative of order {order}; "
                    f"introduce a state for the derivative of {function}"
                )
            raise ValueError(f"{where} contains {atom}, but {function} is not a state")
        names = sorted(name_of(k) for k in known)
        if isinstance(atom, AppliedUndef) and atom.has(t) and atom.args != (t,):
            raise ValueError(
                f"{where} contains {atom}, a value at another time or of another "
                "function; delays and tables are not available: give it as an input"
            )
        if name_of(atom) in names:
            raise ValueError(
                f"{where} contains {atom}, another symbol than the declared one of that name; "
                "use the same object (assumptions, constant or function of time differ)"
            )
        raise ValueError(
            f"{where} contains {atom}, which is not declared; add it to states, inputs or "
            f"parameters ({suggest(name_of(atom), names)})"
        )
