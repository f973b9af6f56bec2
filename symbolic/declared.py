"""The parts of a model: declarations, expressions, pictures, and whether they fit together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import sympy as sp
from sympy.core.function import AppliedUndef
from sympy.logic.boolalg import BooleanAtom

from kinesym.base.checks import check_name, check_text, listed, mapping, shown
from kinesym.symbolic.delayed import Delay, Reduction, as_it_is, shown_late
from kinesym.symbolic.expression import atoms_of, parts_of, real_expression, real_expressions
from kinesym.symbolic.homotopy import HOMOTOPY, uses_homotopy
from kinesym.symbolic.names import by_name, name_of, suggest, t

#: Names that results use for themselves.
_RESERVED = frozenset(("time", "duration"))

#: Remedy for a relation among equations.
_RELATION = "write 5 - x for x < 5"


@dataclass(frozen=True, eq=False)
class Explicit:
    """x' of all states, in their order, from x, u, p, t: a program of its own, intermediates
    first. solves : states, equations and intermediates of the model whose x' these are."""

    intermediates: tuple[tuple[sp.Symbol, sp.Expr], ...]
    rates: tuple[sp.Expr, ...]
    solves: tuple[object, ...] = ()


@dataclass(frozen=True, repr=False, eq=False)
class Declared:
    """The parts of a model, which fit together; see `Model`."""

    name: str = ""  # what is left out is refused in words
    states: Sequence[AppliedUndef] = ()
    inputs: Sequence[AppliedUndef] = ()
    parameters: Sequence[sp.Symbol] = ()
    equations: Sequence[sp.Expr] = ()
    outputs: Mapping[str, sp.Expr] = field(default_factory=dict)
    intermediates: Sequence[tuple[sp.Symbol, sp.Expr]] = ()
    values: Mapping[Any, float] = field(default_factory=dict)
    positive: Sequence[Any] = ()
    limits: Mapping[str, sp.Expr] = field(default_factory=dict)
    drawing: Sequence[Sequence[str]] = ()
    delays: Sequence[Delay] = ()
    explicit: Explicit | None = None
    invariants: Mapping[str, int] = field(default_factory=dict)
    vanishing: tuple[str, ...] = ()
    integrals: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[int, str] = field(default_factory=dict)
    units: Mapping[Any, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_text(self.name, "the name of a model, its first argument,")
        put, where = partial(object.__setattr__, self), f"model {self.name}: "
        for group in ("states", "inputs", "parameters", "equations", "intermediates", "drawing"):
            given = getattr(self, group)
            rows = given.flat() if isinstance(given, sp.MatrixBase) else given
            put(group, listed(rows, where + group))
        equations = (_equation(f"{where}equation {k}", e) for k, e in enumerate(self.equations))
        put("equations", tuple(equations))
        put("intermediates", tuple(_intermediate(where, row) for row in self.intermediates))
        lines = (listed(line, f"{where}a line of the drawing") for line in self.drawing)
        put("drawing", tuple(lines))
        outputs = mapping(self.outputs, f"{where}outputs", "{name: expression}")
        outputs = by_name(outputs, None, f"{where}outputs")
        put("outputs", real_expressions(outputs, f"{where}output", _RELATION))
        limits = mapping(self.limits, f"{where}limits", "{sentence: expression}")
        what = f"{where}the limit "
        put("limits", {k: real_expression(e, f"{what}{k!r}", _RELATION) for k, e in limits.items()})
        used = (*self.equations, *(e for _, e in self.intermediates))
        if HOMOTOPY not in self.parameters and uses_homotopy((*used, *self.outputs.values())):
            put("parameters", (*self.parameters, HOMOTOPY))
        self._check_drawing()
        self._check_declarations()
        self._put_delays()
        self._check_expressions()

    def _put_delays(self) -> None:
        """Expressions with inputs in place of delays, and these inputs after all others."""
        put, reduction = partial(object.__setattr__, self), self.reduction()
        for group, label in (("outputs", "output {}"), ("limits", "the limit {!r}")):
            given = getattr(self, group).items()
            put(group, {k: reduction(label.format(k), e) for k, e in given})
        rows = enumerate(self.equations)
        put("equations", tuple(reduction(f"equation {k}", e) for k, e in rows))
        put("intermediates", reduction.program)
        every = (*self.equations, *self.outputs.values(), *self.limits.values())
        put("delays", reduction.delays(every))
        put("inputs", (*self.given, *(delay.symbol for delay in self.delays)))

    def reduction(self, program: Sequence[tuple[sp.Basic, sp.Expr]] | None = None) -> Reduction:
        """Reduction of delays in expressions to delays of states and inputs, which it collects.

        program : intermediates of these expressions, those of the model if None.
        """
        given = self.intermediates if program is None else program
        signals = (*self.states, *self.given)
        about = (signals, given, self.delays)
        return Reduction(f"model {self.name}: ", *about)

    def _check_declarations(self) -> None:
        """Kinds, names and uniqueness of the declared symbols, and the number of equations."""
        where = f"model {self.name}"
        for group in ("states", "inputs"):
            for x in getattr(self, group):
                check_signal(x, f"{where}: {group[:-1]}")
        for p in self.parameters:
            if not isinstance(p, sp.Symbol) or p == t:
                raise ValueError(
                    f"{where}: parameter {shown(p)} is not a constant symbol; use sympy.Symbol"
                )
        self._check_names()
        n, count = len(self.states), len(self.equations)
        if n != count:
            unused = [x for x in self.states if not any(e.has(x) for e in self.equations)]
            hint = f"state {unused[0]} has no equation; " if unused else ""
            names = ", ".join(map(str, self.states))
            raise ValueError(f"{where}: {hint}{count} equations for {n} states ({names})")

    def _check_names(self) -> None:
        own = {name_of(symbol): symbol for symbol, _ in self.intermediates}
        groups = {
            "a state": self.states,
            "an input": self.inputs,
            "a parameter": self.parameters,
            "an intermediate": [symbol for symbol, _ in self.intermediates],
            "an output": [y for y, e in self.outputs.items() if e != own.get(y)],  # or is one
        }
        kinds = [(name_of(key), kind) for kind, group in groups.items() for key in group]
        counts = Counter(name for name, _ in kinds)
        for name, kind in kinds:
            check_name(name, f"model {self.name}: the name of {kind}")
            if name in _RESERVED or name.startswith(("measured_", "std_")):
                raise ValueError(
                    f"model {self.name}: the name {name} is reserved for results; choose another"
                )
            if "/" in name or name == ".":
                raise ValueError(
                    f"model {self.name}: the name {name!r} cannot be that of a column in "
                    "saved files, where '/' separates groups; choose another"
                )
            if counts[name] > 1:
                raise ValueError(f"model {self.name}: the name {name} is declared more than once")
        for sentence in self.limits:
            check_text(sentence, f"model {self.name}: the sentence of a limit")

    def _check_drawing(self) -> None:
        """Lines from point to point, and a place for every point of the stick figure."""
        for line in self.drawing:
            if len(line) < 2 or not all(isinstance(name, str) and len(name) > 1 for name in line):
                raise ValueError(
                    f"model {self.name}: a line of the drawing names two points or more, "
                    f"such as ('hip', 'knee'), got {shown(line)}"
                )
        for point in dict.fromkeys(point for line in self.drawing for point in line):
            for name in (f"{point}_x", f"{point}_y"):
                if name not in self.outputs:
                    raise ValueError(
                        f"model {self.name}: point {point} of the drawing needs the output {name}; "
                        "without a drawing: drawing=()"
                    )

    def _check_expressions(self) -> None:
        """Check that expressions contain only declared symbols and first derivatives of states, and
        that there is an equation for every state."""
        where, known, rates = f"model {self.name}", self.symbols, set(self.derivatives)
        self._check_order()
        labelled = {
            **{f"intermediate {name_of(symbol)}": e for symbol, e in self.intermediates},
            **{f"equation {number}": e for number, e in enumerate(self.equations)},
            **{f"output {name}": e for name, e in self.outputs.items()},
            **{f"the limit {sentence!r}": e for sentence, e in self.limits.items()},
            **{f"the delay of {delay.name}": delay.tau for delay in self.delays},
        }
        atoms = {label: atoms_of(e) for label, e in labelled.items()}
        late = parts_of(shown_late, *labelled.values())
        for label, e in labelled.items() if late else ():
            if (as_it_is(e) if label.startswith("output ") else e).has(shown_late):
                raise ValueError(
                    f"{where}: {label} contains a sensor with a delay; it must be an output of its "
                    "own, or stand in sensors={...}"
                )
        for label, found in atoms.items():
            check_atoms(found, known, rates, f"{where}: {label}")
        in_equations = atoms_of(*self.through(self.equations))
        for x, rate in zip(self.states, self.derivatives, strict=True):
            if x not in in_equations and rate not in in_equations:
                raise ValueError(f"{where}: state {x} has no equation; it appears in none of them")

    def _check_order(self) -> None:
        """Intermediates use earlier ones only."""
        later = {symbol for symbol, _ in self.intermediates}
        for symbol, expression in self.intermediates:
            early = later & atoms_of(expression)
            if early:
                other = min(early, key=str)
                what = f"{other}, which is defined later; move it down"
                raise ValueError(
                    f"model {self.name}: intermediate {name_of(symbol)} contains "
                    f"{'itself' if other == symbol else what}"
                )
            later.discard(symbol)

    @cached_property
    def derivatives(self) -> tuple[sp.Derivative, ...]:
        """x', in the order of the states."""
        return tuple(x.diff(t) for x in self.states)

    @property
    def symbols(self) -> set[sp.Basic]:
        """Symbols that expressions of the model may contain, besides x'."""
        names = {symbol for symbol, _ in self.intermediates}
        return {*self.states, *self.inputs, *self.parameters, *names, t}

    @cached_property
    def state_names(self) -> tuple[str, ...]:
        """Names of the states."""
        return tuple(map(name_of, self.states))

    @cached_property
    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs."""
        return tuple(map(name_of, self.inputs))

    @property
    def given(self) -> tuple[AppliedUndef, ...]:
        """The inputs without those that are delays."""
        late = {delay.symbol for delay in self.delays}
        return tuple(u for u in self.inputs if u not in late)

    @property
    def given_names(self) -> tuple[str, ...]:
        """Names of these."""
        return tuple(map(name_of, self.given))

    @cached_property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return tuple(map(name_of, self.parameters))

    @property
    def expressions(self) -> tuple[sp.Expr, ...]:
        """Expressions of intermediates, equations, outputs and limits."""
        inner = (e for _, e in self.intermediates)
        return (*inner, *self.equations, *self.outputs.values(), *self.limits.values())

    def through(self, expressions: Iterable[sp.Expr]) -> list[sp.Expr]:
        """`expressions`, and those of the intermediates that they use."""
        found = list(expressions)
        atoms = atoms_of(*found)
        for symbol, expression in reversed(self.intermediates):
            if symbol in atoms:
                atoms |= atoms_of(expression)
                found.append(expression)
        return found

    def written_out(self, e: sp.Expr) -> sp.Expr:
        """An expression with the intermediates in it written out."""
        for symbol, expression in reversed(self.intermediates):
            e = e.xreplace({symbol: expression})
        return e


def _equation(what: str, equation: Any) -> sp.Expr:
    """`equation` as an expression that is zero; lhs - rhs of a SymPy equation."""
    if isinstance(equation, sp.Eq):
        equation = equation.lhs - equation.rhs
    if isinstance(equation, (bool, BooleanAtom)):
        always = "always" if equation else "never"
        raise ValueError(
            f"{what} is {equation}: what was written {always} holds, or compares "
            "objects; each is an expression, = 0"
        )
    return real_expression(equation, what, "each is an expression, = 0")


def _intermediate(where: str, row: Any) -> tuple[sp.Basic, sp.Expr]:
    """A pair of a symbol and the expression it stands for."""
    if not isinstance(row, (tuple, list)) or len(row) != 2:
        raise ValueError(f"{where}intermediates are (symbol, expression) pairs, got {shown(row)}")
    symbol, value = row
    if not isinstance(symbol, (sp.Symbol, AppliedUndef)) or symbol == t:
        raise ValueError(f"{where}the name of an intermediate is a symbol, got {shown(symbol)}")
    return symbol, real_expression(value, f"{where}intermediate {name_of(symbol)}", _RELATION)


def check_signal(x: object, what: str) -> None:
    """Raise `ValueError` naming `what` for anything but a function of time."""
    if not isinstance(x, AppliedUndef) or x.args != (t,):
        raise ValueError(
            f"{what} {shown(x)} is not a function of time; make it with kinesym.dynamicsymbols"
        )


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
                "function; for a delay write kinesym.delayed(expression, tau), for a function from "
                "data kinesym.table(x, points, values)"
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
