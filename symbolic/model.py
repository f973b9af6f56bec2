"""The symbolic model: an implicit residual with named outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from typing import Any

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.symbolic.expression import real_expression, real_expressions
from kinesym.symbolic.names import by_name, name_of, suggest, t

#: Names that results use for themselves.
_RESERVED = frozenset(("time", "duration"))

#: What to write instead of a relation.
_RELATION = "write 5 - x for x < 5"


@dataclass(frozen=True, eq=False)
class Explicit:
    """x' of all states from x, u, p, t: a program of its own, intermediates first.

    of : states, equations and intermediates that it solves; it is dropped where these change.
    """

    intermediates: tuple[tuple[sp.Symbol, sp.Expr], ...]
    rates: tuple[sp.Expr, ...]
    of: tuple[Any, ...]

    def substitute(self, replacement: Mapping[sp.Basic, Any]) -> Explicit:
        """With symbols exchanged, in what it solves too."""
        states, equations, intermediates = self.of
        return Explicit(
            _exchanged(self.intermediates, replacement),
            tuple(e.xreplace(replacement) for e in self.rates),
            (states, tuple(e.xreplace(replacement) for e in equations),
             _exchanged(intermediates, replacement)),
        )  # fmt: skip


def _exchanged(
    program: Iterable[tuple[sp.Symbol, sp.Expr]], replacement: Mapping[sp.Basic, Any]
) -> tuple[tuple[sp.Symbol, sp.Expr], ...]:
    return tuple((s, e.xreplace(replacement)) for s, e in program)


@dataclass(frozen=True, repr=False, eq=False)
class Model:
    """A dynamic system `0 = f(x', x, u, p, t)` with outputs `y = g(x', x, u, p, t)`.

    Parameters
    ----------
    name : identifier of the model.
    states : n functions of time x. A state whose derivative appears nowhere is algebraic.
    inputs : m functions of time u.
    parameters : r constants p.
    equations : n expressions, each = 0; first derivatives of states only.
    outputs : expressions by name.
    intermediates : ordered (symbol, expression) pairs that equations, outputs and later
        intermediates may use. Large models are written this way, never as one expression.
    values : default values of parameters, by symbol or name [units of the model].
    positive : parameters that must be positive, by symbol or name.
    limits : expressions that must not be negative, by the sentence to say where one is: there a
        simulation ends. Those of parameters alone are checked at once.
    drawing : lines of a stick figure, each from point to point; a point `knee` is where outputs
        `knee_x`, `knee_y` and, in space, `knee_z` say [m].
    explicit : x' solved for, if there is a better way than to eliminate x' from the equations.

    Raises `ValueError` if the parts do not fit together, naming the symbol and the remedy.
    """

    name: str
    states: Sequence[AppliedUndef]
    inputs: Sequence[AppliedUndef]
    parameters: Sequence[sp.Symbol]
    equations: Sequence[sp.Expr]
    outputs: Mapping[str, sp.Expr] = field(default_factory=dict)
    intermediates: Sequence[tuple[sp.Symbol, sp.Expr]] = ()
    values: Mapping[Any, float] = field(default_factory=dict)
    positive: Sequence[Any] = ()
    limits: Mapping[str, sp.Expr] = field(default_factory=dict)
    drawing: Sequence[Sequence[str]] = ()
    explicit: Explicit | None = None

    def __post_init__(self) -> None:
        put = object.__setattr__
        for group in ("states", "inputs", "parameters", "equations", "intermediates"):
            value = getattr(self, group)
            if not isinstance(value, Iterable) or isinstance(value, (str, Mapping)):
                raise ValueError(f"model {self.name}: {group} must be a list, got {value!r}")
        for group in ("states", "inputs", "parameters"):
            put(self, group, tuple(getattr(self, group)))
        put(self, "equations", tuple(_equation(self.name, k, e)
                                     for k, e in enumerate(self.equations)))
        put(self, "intermediates", tuple(_intermediate(self.name, row)
                                         for row in self.intermediates))  # fmt: skip
        if not isinstance(self.outputs, Mapping):
            raise ValueError(f"model {self.name}: outputs must be {{name: expression}}")
        where = f"model {self.name}: "
        put(self, "outputs", {str(k): real_expression(e, f"{where}output {k}", _RELATION)
                              for k, e in self.outputs.items()})  # fmt: skip
        put(self, "limits", {str(k): real_expression(e, f"{where}the limit {k!r}", _RELATION)
                             for k, e in dict(self.limits).items()})  # fmt: skip
        put(self, "drawing", tuple(tuple(line) for line in self.drawing))
        _check_drawing(self)
        _check_declarations(self)
        if self.explicit is not None and not _is_explicit(self):
            put(self, "explicit", None)
        _check_expressions(self)
        names = [name_of(p) for p in self.parameters]
        values = by_name(self.values, names, f"values of model {self.name}")
        for name, value in values.items():
            if not isinstance(value, (int, float)) and not hasattr(value, "__float__"):
                raise ValueError(f"model {self.name}: the value of {name} is no number: {value!r}")
        put(self, "values", {name: values[name] for name in names if name in values})
        chosen = by_name(dict.fromkeys(self.positive), names, f"positive of model {self.name}")
        put(self, "positive", tuple(name for name in names if name in chosen))
        check_values(self, self.values)

    @classmethod
    def from_kane(
        cls,
        kane: Any,
        inputs: Sequence[AppliedUndef] = (),
        parameters: Sequence[sp.Symbol] | None = None,
        outputs: Mapping[str, sp.Expr] | None = None,
        name: str = "kane",
        values: Mapping[Any, float] | None = None,
    ) -> Model:
        """The model of a `sympy.physics.mechanics.KanesMethod` after `kanes_equations`.

        States are the generalised coordinates q and speeds u; equations are the kinematic
        differential equations and Kane's dynamical equations Fr + Fr* = 0, which need no solution
        for u'. `parameters=None` takes every constant of the equations, sorted by name.
        """
        from kinesym.symbolic.kane import kane_equations

        states, equations = kane_equations(kane)
        used = {*equations, *(outputs or {}).values()}
        if parameters is None:
            used = {real_expression(e, f"model {name}: an equation or output") for e in used}
            free = set().union(*(e.free_symbols for e in used)) - {t}
            parameters = sorted(free, key=name_of)
        return cls(name, states, inputs, parameters, equations, outputs or {}, (), values or {})

    @cached_property
    def derivatives(self) -> tuple[sp.Derivative, ...]:
        """x', in the order of the states."""
        return tuple(x.diff(t) for x in self.states)

    @cached_property
    def moving_limits(self) -> dict[str, sp.Expr]:
        """The limits that change along a trajectory."""
        parameters = set(self.parameters)
        return {sentence: e for sentence, e in self.limits.items()
                if e.atoms(AppliedUndef) or not e.free_symbols <= parameters}  # fmt: skip

    @cached_property
    def _limits_of_parameters(self) -> dict[str, tuple[list[str], Any]]:
        """The others: names of parameters and a function of them, by the sentence."""
        found = {}
        for sentence, expression in self.limits.items():
            if sentence not in self.moving_limits:
                symbols = sorted(expression.free_symbols, key=str)
                found[sentence] = [name_of(s) for s in symbols], sp.lambdify(symbols, expression)
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Without functions, which cannot be pickled."""
        return {k: v for k, v in self.__dict__.items() if k != "_limits_of_parameters"}

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names of the states."""
        return tuple(map(name_of, self.states))

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the inputs."""
        return tuple(map(name_of, self.inputs))

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return tuple(map(name_of, self.parameters))

    def with_rates(self, *names: Any) -> Model:
        """The model with inputs as states, whose rates `name_rate` are inputs instead.

        So a torque that is to be found can start anywhere and change no faster than it should, by
        bounds or weights of its rate. Raises `ValueError` for a name that is no input.
        """
        chosen = {name_of(name) for name in names}
        for name in chosen - set(self.input_names):
            raise ValueError(f"model {self.name} has no input {name}; "
                             f"{suggest(name, self.input_names)}")  # fmt: skip
        states = [u for u in self.inputs if name_of(u) in chosen]
        rates = [sp.Function(f"{name_of(u)}_rate")(t) for u in states]
        return replace(
            self, states=[*self.states, *states],
            inputs=[u for u in self.inputs if u not in states] + rates,
            equations=[*self.equations,
                       *(x.diff(t) - rate for x, rate in zip(states, rates, strict=True))],
        )  # fmt: skip

    def substitute(self, replacement: Mapping[sp.Basic, Any], **changes: Any) -> Model:
        """A model with symbols exchanged, e.g. an input by a feedback law.

        `changes` replace fields of the model: `plant.substitute({T: -k*x}, inputs=[], ...)`.
        """
        table = real_expressions(replacement, "the replacement of")
        new: dict[str, Any] = {
            "equations": [e.xreplace(table) for e in self.equations],
            "outputs": {k: e.xreplace(table) for k, e in self.outputs.items()},
            "intermediates": _exchanged(self.intermediates, table),
            "limits": {k: e.xreplace(table) for k, e in self.limits.items()},
        }
        kept_fields = ("name", "states", "inputs", "parameters", "values", "drawing")
        same = {k: getattr(self, k) for k in kept_fields}
        kept = {name_of(p) for p in changes.get("parameters", self.parameters)}
        if self.explicit is not None:
            new["explicit"] = self.explicit.substitute(table)
        new["positive"] = [name for name in self.positive if name in kept]
        return Model(**{**same, **new, **changes})

    def __repr__(self) -> str:
        return f"<{self._sizes}>"

    def __str__(self) -> str:
        count = sum(sp.count_ops(e) for e in [*self.equations, *(e for _, e in self.intermediates)])
        rows = [f"{self._sizes}, {count} operations",
                *(f"  {label:<11} {words}" for label, words in self._parts())]  # fmt: skip
        if self.intermediates:
            rows.append(f"  {len(self.intermediates)} intermediates")
        rows.extend(f"  0 = {_shortened(e)}" for e in self.equations)
        return "\n".join(rows)

    def _repr_html_(self) -> str:
        """A table for a notebook."""
        rows = [*self._parts(), *(("0 =", _shortened(e)) for e in self.equations)]
        cells = "".join(f'<tr><th>{escape(label)}</th><td style="text-align: left">{escape(words)}'
                        "</td></tr>" for label, words in rows)  # fmt: skip
        return f"<div>{escape(self._sizes)}</div><table>{cells}</table>"

    @property
    def _sizes(self) -> str:
        return (f"model {self.name}: {len(self.states)} states, {len(self.inputs)} inputs, "
                f"{len(self.parameters)} parameters")  # fmt: skip

    def _parts(self) -> list[tuple[str, str]]:
        """States, inputs, parameters and outputs, in words."""
        known = ", ".join(_with_value(p, self.values) for p in self.parameter_names)
        return [("states", ", ".join(self.state_names)),
                ("inputs", ", ".join(self.input_names) or "-"), ("parameters", known),
                ("outputs", ", ".join(self.outputs) or "-")]  # fmt: skip


#: Functions with kinks or jumps, at which derivatives are one-sided.
KINKS = (
    sp.Abs, sp.Max, sp.Min, sp.Heaviside, sp.sign, sp.Piecewise, sp.floor, sp.ceiling, sp.frac,
    sp.Mod, sp.DiracDelta,
)  # fmt: skip


def check_values(model: Model, values: Mapping[str, Any]) -> None:
    """Raise `ValueError` for values (numbers, or one for each member of an ensemble) that are not
    positive though the model demands it, or that break a limit of parameters alone."""
    for name in model.positive:
        if name in values and not np.min(values[name]) > 0.0:
            raise ValueError(f"parameter {name} must be positive, got {np.min(values[name]):g}")
    for sentence, (names, function) in model._limits_of_parameters.items():
        if all(name in values for name in names):
            given = [np.asarray(values[name], dtype=float) for name in names]
            if np.min(function(*given)) < 0.0:
                found = ", ".join(f"{name} = {v}" for name, v in zip(names, given, strict=True))
                raise ValueError(f"model {model.name}: {sentence} ({found})")


def _is_explicit(model: Model) -> bool:
    """Whether the explicit form solves the equations of this model and has no x' on the right."""
    explicit = model.explicit
    assert explicit is not None
    if explicit.of != (model.states, model.equations, model.intermediates):
        return False
    expressions = (*explicit.rates, *(e for _, e in explicit.intermediates))
    return not any(e.has(sp.Derivative) for e in expressions)


def _equation(name: str, number: int, equation: Any) -> sp.Expr:
    """`equation` as an expression that is zero; lhs - rhs of a SymPy equation."""
    if isinstance(equation, sp.Eq):
        equation = equation.lhs - equation.rhs
    what = f"model {name}: equation {number}"
    return real_expression(equation, what, "each is an expression, = 0")


def _intermediate(name: str, row: Any) -> tuple[sp.Basic, sp.Expr]:
    """A pair of a symbol and the expression it stands for."""
    if not isinstance(row, (tuple, list)) or len(row) != 2:
        raise ValueError(f"model {name}: intermediates are (symbol, expression) pairs, got {row!r}")
    symbol, value = row
    if not isinstance(symbol, (sp.Symbol, AppliedUndef)) or symbol == t:
        raise ValueError(f"model {name}: an intermediate is called by a symbol, got {symbol!r}")
    what = f"model {name}: intermediate {name_of(symbol)}"
    return symbol, real_expression(value, what, _RELATION)


def _with_value(name: str, values: Mapping[Any, float]) -> str:
    return f"{name} = {values[name]:g}" if name in values else name


def _shortened(expression: sp.Expr, limit: int = 160) -> str:
    operations = sp.count_ops(expression)
    if operations > limit // 2:
        return f"... {operations} operations"
    text = str(expression).replace("(t)", "")
    return text if len(text) <= limit else f"{text[:limit]} ... {operations} operations"


def _check_declarations(model: Model) -> None:
    """Kinds and uniqueness of the declared symbols, and the number of equations."""
    where = f"model {model.name}"
    for group in ("states", "inputs"):
        for x in getattr(model, group):
            if not isinstance(x, AppliedUndef) or x.args != (t,):
                raise ValueError(
                    f"{where}: {group[:-1]} {x} is not a function of time; "
                    "make it with kinesym.dynamicsymbols"
                )
    for p in model.parameters:
        if not isinstance(p, sp.Symbol) or p == t:
            raise ValueError(f"{where}: parameter {p} is not a constant symbol; use sympy.Symbol")
    names = [name_of(x) for x in (*model.states, *model.inputs, *model.parameters)]
    names += [name_of(s) for s, _ in model.intermediates] + list(model.outputs)
    counts = Counter(names)
    for name in names:
        if name in _RESERVED or name.startswith(("measured_", "std_")):
            raise ValueError(f"{where}: the name {name} is reserved for results; choose another")
        if "/" in name or "\0" in name or name in ("", "."):
            raise ValueError(f"{where}: the name {name!r} cannot be that of a column in saved "
                             "files, where '/' separates groups; choose another")  # fmt: skip
        if counts[name] > 1:
            raise ValueError(f"{where}: the name {name} is declared more than once")
    n, count = len(model.states), len(model.equations)
    if n != count:
        unused = [x for x in model.states if not any(e.has(x) for e in model.equations)]
        hint = f"state {unused[0]} has no equation; " if unused else ""
        raise ValueError(
            f"{where}: {hint}{count} equations for {n} states ({', '.join(map(str, model.states))})"
        )


def _check_drawing(model: Model) -> None:
    """Lines from point to point, and a place for every point of the stick figure."""
    for line in model.drawing:
        if len(line) < 2 or any(len(name) < 2 for name in line):
            raise ValueError(f"model {model.name}: a line of the drawing names two points or more, "
                             f"such as ('hip', 'knee'), got {line!r}")  # fmt: skip
    for point in {point for line in model.drawing for point in line}:
        for name in (f"{point}_x", f"{point}_y"):
            if name not in model.outputs:
                raise ValueError(
                    f"model {model.name}: point {point} of the drawing needs the output {name}; "
                    "without a drawing: drawing=()"
                )


def _check_expressions(model: Model) -> None:
    """Only declared symbols, only first derivatives of states, an equation for every state."""
    where = f"model {model.name}"
    known: set[sp.Basic] = {*model.states, *model.inputs, *model.parameters, t}
    rates = set(model.derivatives)
    everything: set[sp.Basic] = set()
    for label, expression, symbol in _labelled(model):
        atoms = expression.atoms(sp.Symbol, AppliedUndef, sp.Derivative)
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
    if model.explicit is not None:
        for symbol, expression in model.explicit.intermediates:
            yield f"intermediate {name_of(symbol)} of the explicit form", expression, symbol
        for x, expression in zip(model.states, model.explicit.rates, strict=True):
            yield f"the explicit form of {x}'", expression, None


def atoms_through(model: Model, expressions: Iterable[sp.Expr]) -> set[sp.Basic]:
    """Symbols, functions of time and derivatives of expressions, through the intermediates that
    they use."""
    atoms = set().union(*(e.atoms(sp.Symbol, AppliedUndef, sp.Derivative) for e in expressions))
    for symbol, expression in reversed(model.intermediates):
        if symbol in atoms:
            atoms |= expression.atoms(sp.Symbol, AppliedUndef, sp.Derivative)
    return atoms


def check_atoms(
    atoms: Set[sp.Basic], known: Set[sp.Basic], rates: Set[sp.Derivative], where: str
) -> None:
    """Raise `ValueError` for an atom that is neither known nor the derivative of a state."""
    for atom in sorted(atoms - known - rates, key=str):
        if isinstance(atom, sp.Derivative):
            function, order = atom.expr, atom.derivative_count
            if order > 1 and function in known:
                raise ValueError(
                    f"{where} contains {atom}, a derivative of order {order}; "
                    f"introduce a state for the derivative of {function}"
                )
            raise ValueError(f"{where} contains {atom}, but {function} is not a state")
        names = sorted(name_of(k) for k in known)
        if name_of(atom) in names:
            raise ValueError(
                f"{where} contains {atom}, another symbol than the declared one of that name; "
                "use the same object (assumptions, constant or function of time differ)"
            )
        raise ValueError(
            f"{where} contains {atom}, which is not declared; add it to states, inputs or "
            f"parameters ({suggest(name_of(atom), names)})"
        )
