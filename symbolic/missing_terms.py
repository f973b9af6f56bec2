"""Terms that equations of motion may lack: where they can act, a library of them, the model with
them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations_with_replacement

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.base.checks import shown, suggest
from kinesym.symbolic.delayed import delayed
from kinesym.symbolic.derivation import fresh_name, jacobian_at
from kinesym.symbolic.expression import atoms_of, real_expression
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of, t
from kinesym.symbolic.smooth import smooth_max, smooth_min

#: Width of a step, as of Coulomb friction, as a share of the root mean square of what is in it.
_STEP = 0.05
#: Bounds of that width.
_STEPS = (0.002, 0.5)
#: Width of the corners of a dead zone, as such a share.
_CORNER = 0.02
#: Delays that are compared with the force, in units of the time in which what may be late changes
#: by its size.
_LATE = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
#: The largest delay, in this unit.
_LATEST = 3.0
#: Half widths of dead zones that are compared with the force, in root mean squares.
_ZONES = (0.1, 0.3, 0.6, 1.0)
#: The same of gaps before stops.
_GAPS = (0.4, 0.8, 1.2)
#: The largest of both.
_WIDEST = 2.0
#: Symbol that stands for the parameter of a term.
_VALUE = sp.Dummy("value")
#: Symbol that stands for its width.
_WIDTH = sp.Dummy("width")


@dataclass(frozen=True)
class Row:
    """An equation in which something may be missing. state : the one whose rate it gives. sign :
    of that rate in the residual. position : the state whose rate that state is itself, if any."""

    equation: int
    state: AppliedUndef
    sign: int
    position: AppliedUndef | None = None


@dataclass(frozen=True)
class Fitted:
    """Context of terms. size : root mean square of an expression along a fit. pace : seconds
    in which it changes by its size, 0 if it does not. jump : where it jumps as unknowns move, in
    words, "" if it does not. unknown : parameters that were fitted."""

    size: Callable[[sp.Expr], float]
    pace: Callable[[sp.Expr], float]
    jump: Callable[[sp.Expr], str] = lambda e: ""
    unknown: frozenset[sp.Symbol] = frozenset()


@dataclass(frozen=True)
class Term:
    """Term on the side of the forces of a row, with a parameter: nothing where that is 0.

    name : of the parameter: a coefficient, or the delay or half width of something that is there.
    expression : what it is of, as it reads. change : what is added. bounds : of the parameter,
    None without; of `width` if there is one. scanned : values of what is bounded at which its
    course is compared with the force, each of which counts as a test. width : name of a second
    parameter, which is held while the term is tested.
    """

    name: str
    row: Row
    expression: sp.Expr
    change: sp.Expr
    bounds: tuple[float, float] | None = None
    scanned: tuple[float, ...] = (1.0,)
    width: str = ""

    @property
    def where(self) -> str:
        """The rate or, of an equation with masses, the force to which it is added."""
        return f"{name_of(self.row.state)}'"

    @property
    def shown(self) -> str:
        """Text of what it is of, without time."""
        signals = (f for f in self.expression.atoms(AppliedUndef) if f.args == (t,))
        return str(self.expression.xreplace({f: sp.Symbol(name_of(f)) for f in signals}))

    @property
    def replaces(self) -> bool:
        """Whether it stands in place of something that is there."""
        return self.bounds is not None and not self.width

    def excluded_by(self, other: Term) -> bool:
        """Whether it is a term that was chosen, or replaces something where that does."""
        both = self.replaces and other.replaces and self.row == other.row
        return both or self.name == other.name

    @property
    def courses(self) -> dict[float, sp.Expr]:
        """Expressions that are added at the scanned values; of a coefficient, at 1."""
        scanned, more = (_WIDTH, {_VALUE: sp.S.One}) if self.width else (_VALUE, {})
        return {s: self.change.xreplace({scanned: sp.Float(s), **more}) for s in self.scanned}

    def at(self, scanned: float) -> Term:
        """The term from one of the scanned values on."""
        return replace(self, scanned=(scanned,))

    @property
    def start(self) -> dict[str, float]:
        """Values of its parameters where a fit begins."""
        if self.width:
            return {self.name: 0.0, self.width: self.scanned[0]}
        return {self.name: self.scanned[0] if self.bounds else 0.0}

    def unknown(self, tested: bool = False) -> dict[str, tuple[float, float] | None]:
        """Unknown parameters with bounds; of a term that is tested, without its width."""
        if self.width and (tested or self.bounds is None):
            return {self.name: None}
        return (
            {self.name: None, self.width: self.bounds} if self.width else {self.name: self.bounds}
        )

    @property
    def added(self) -> sp.Expr:
        """Expression that is added, of its parameters."""
        return self.change.xreplace({_VALUE: sp.Symbol(self.name), _WIDTH: sp.Symbol(self.width)})


def rows_of(model: Model, point: Mapping[sp.Basic, float], speeds: Mapping[str, str]) -> list[Row]:
    """Equations that give rates, but for kinematic ones, whose rates are states and numbers alone;
    all of them if all are kinematic. point : values of all that the model has, at which signs of
    rates are taken. speeds : names of the states whose rates they are, by name."""
    from scipy.optimize import linear_sum_assignment  # here: slow to import

    program = model.intermediates
    slopes = jacobian_at(model.equations, program, model.derivatives, point)
    with np.errstate(invalid="ignore"):
        sizes = np.where(np.isfinite(slopes), np.abs(slopes), 0.0)
    own = zip(*linear_sum_assignment(-sizes), strict=True)
    known = dict[sp.Basic, set[sp.Basic]]()
    for symbol, e in program:
        known[symbol] = _atoms(e, known)
    every = {i: (j, _atoms(model.equations[i], known)) for i, j in own if sizes[i, j] > 0.0}
    given = {*model.parameters, *model.inputs}
    chosen = {i: j for i, (j, atoms) in every.items() if atoms & given} or {
        i: j for i, (j, _) in every.items()
    }
    named = {name_of(x): x for x in model.states}
    positions = {named[speed]: named[x] for speed, x in speeds.items() if speed in named}
    return [
        Row(i, model.states[j], 1 if slopes[i, j] > 0.0 else -1, positions.get(model.states[j]))
        for i, j in sorted(chosen.items())
    ]


def force_in(model: Model, row: Row) -> str:
    """Name of the input that is added to a row as an unknown force."""
    return fresh_name(f"force_{name_of(row.state)}", model.symbols)


def with_forces(model: Model, rows: Sequence[Row]) -> Model:
    """The model with an input more in each row, see `force_in`."""
    inputs = [sp.Function(force_in(model, row))(t) for row in rows]
    equations = _added(model, zip(rows, inputs, strict=True))
    return replace(model, equations=equations, inputs=[*model.given, *inputs])


def with_terms(model: Model, terms: Sequence[Term]) -> Model:
    """The model with these terms; the values of their parameters are those where a fit begins."""
    starts = {name: value for term in terms for name, value in term.start.items()}
    return replace(
        model,
        equations=_added(model, ((term.row, term.added) for term in terms)),
        parameters=[*model.parameters, *map(sp.Symbol, starts)],
        values={**model.values, **starts},
    )


def _added(model: Model, more: Iterable[tuple[Row, sp.Expr]]) -> list[sp.Expr]:
    """The equations with expressions on the side of the forces."""
    equations = list(model.equations)
    for row, e in more:
        equations[row.equation] = equations[row.equation] - row.sign * e
    return equations


def terms_of(
    model: Model, rows: Sequence[Row], library: Sequence[object], fitted: Fitted
) -> list[Term]:
    """Terms of a library, each in every row: names of `KINDS`, or expressions. Raises `ValueError`
    for names that are none, and what the model lacks."""
    found, seen = list[Term](), set[tuple[int, sp.Expr]]()
    taken: set[sp.Basic | str] = {*model.symbols}
    for row in rows:
        for entry in library:
            for term in _entries(model, row, entry, fitted):
                if (row.equation, term.change) in seen:
                    continue
                seen.add((row.equation, term.change))
                name = fresh_name(f"{term.name}_in_{name_of(row.state)}", taken)
                width = fresh_name(f"width_of_{name}", taken) if term.width else ""
                taken |= {name, width}
                found.append(replace(term, name=name, width=width))
    return found


def _entries(model: Model, row: Row, entry: object, fitted: Fitted) -> Iterator[Term]:
    if isinstance(entry, str):
        if entry not in KINDS:
            raise ValueError(
                f"library has no terms {entry!r}; {suggest(entry, KINDS)}; other terms are "
                "expressions of states, inputs and parameters"
            )
        yield from KINDS[entry](model, row, fitted)
        return
    e = real_expression(entry, "a term of library")
    strange = sorted(map(str, atoms_of(e) - {*model.states, *model.inputs, *model.parameters, t}))
    if strange:
        raise ValueError(f"the term {shown(e)} of library has {strange[0]}, which the model lacks")
    if e == 0:
        raise ValueError("a term of library is zero")
    yield _stepped("term", row, e, fitted) if fitted.jump(e) else _times("term", row, e)


def _times(name: str, row: Row, e: sp.Expr) -> Term:
    """An expression times a coefficient."""
    return Term(name, row, e, _VALUE * e)


def _stepped(name: str, row: Row, e: sp.Expr, fitted: Fitted) -> Term:
    """Term of an expression whose signs, of which no derivative of a fit sees the jumps, are smooth
    steps of one width, in the unit of the first, times a coefficient. Raises `ValueError` for other
    jumps."""
    signs = e.replace(sp.Heaviside, lambda x, *_: (1 + sp.sign(x)) / 2)
    inner = sorted((call.args[0] for call in signs.atoms(sp.sign)), key=str)
    sizes = [fitted.size(x) for x in inner]
    steps = {
        sp.sign(x): sp.tanh(x / (_WIDTH * sp.Float(size / sizes[0]) if k else _WIDTH))
        for k, (x, size) in enumerate(zip(inner, sizes, strict=True))
    }
    smooth = signs.xreplace(steps)
    jump = fitted.jump(smooth.xreplace({_WIDTH: sp.S.One}))
    if jump:
        raise ValueError(
            f"the term {shown(e)} of library jumps where {jump}, which no derivative of a fit "
            "sees; smooth it, as with ks.smooth_step"
        )
    return Term(
        name,
        row,
        smooth.xreplace({_WIDTH: sp.Symbol("width")}),
        _VALUE * smooth,
        bounds=(_STEPS[0] * sizes[0], _STEPS[1] * sizes[0]),
        scanned=(_STEP * sizes[0],),
        width="width",
    )


def _bias(model: Model, row: Row, fitted: Fitted) -> Iterator[Term]:
    yield _times("bias", row, sp.Integer(1))


def _linear(model: Model, row: Row, fitted: Fitted) -> Iterator[Term]:
    for x in model.states:
        yield _times(f"linear_{name_of(x)}", row, x)


def _inputs(model: Model, row: Row, fitted: Fitted) -> Iterator[Term]:
    for u in model.inputs:
        yield _times(f"input_{name_of(u)}", row, u)


def _coulomb(model: Model, row: Row, fitted: Fitted) -> Iterator[Term]:
    if row.position is not None:
        yield _stepped(f"coulomb_{name_of(row.state)}", row, sp.sign(row.state), fitted)


def _drag(model: Model, row: Row, fitted: Fitted) -> Iterator[Term]:
    if row.position is not None:
        yield _times(f"drag_{name_of(row.state)}", row, row.state * sp.Abs(row.state))


def _cubic(model: Model, row: Row, fitted: Fitted) -> Iterator[Term]:
    for x in model.states:
        yield _times(f"cubic_{name_of(x)}", row, x**3)


def _products(model: Model, row: Row, fitted: Fitted) -> Iterator[Term]:
    for x, y in combinations_with_replacement(model.states, 2):
        yield _times(f"product_{name_of(x)}_{name_of(y)}", row, x * y)


def _delays(model: Model, row: Row, fitted: Fitted) -> Iterator[Term]:
    parts = _of_unknown(model, row, fitted.unknown)
    for part in [*_given(model, row), *parts, *_together(parts, fitted.unknown)]:
        pace = fitted.pace(part.expression)
        if pace > 0.0:
            scanned = tuple(share * pace for share in _LATE)
            yield part.as_term("delayed", lambda e: delayed(e, _VALUE), scanned, _LATEST * pace)


def _dead_zones(model: Model, row: Row, fitted: Fitted) -> Iterator[Term]:
    for part in [*_given(model, row), *_of_unknown(model, row, fitted.unknown)]:
        e = part.inner
        signals = e.atoms(AppliedUndef)
        damps = row.position is not None and row.state in signals
        if damps or any(e.diff(x).atoms(AppliedUndef) for x in signals):  # is not linear
            continue
        size = fitted.size(e)
        scanned = tuple(share * size for share in _ZONES)
        zone = partial(_dead_zone, half=_VALUE, size=size)
        yield part.as_term("dead_zone", zone, scanned, _WIDEST * size)


def _stops(model: Model, row: Row, fitted: Fitted) -> Iterator[Term]:
    if row.position is not None:
        size = fitted.size(row.position)
        yield Term(
            f"stop_{name_of(row.position)}",
            row,
            sp.Function("dead_zone")(row.position, sp.Symbol("width")),
            _VALUE * _dead_zone(row.position, _WIDTH, size),
            bounds=(0.0, _WIDEST * size),
            scanned=tuple(share * size for share in _GAPS),
            width="width",
        )


Kind = Callable[[Model, Row, Fitted], Iterator[Term]]

#: Terms by name: a constant; each state and each input; Coulomb friction and drag, of speeds; the
#: cube of each state; products of two states; delays and dead zones of inputs and of what unknown
#: parameters multiply; springs beyond a gap, of positions.
KINDS: Mapping[str, Kind] = {
    "bias": _bias,
    "linear": _linear,
    "inputs": _inputs,
    "coulomb": _coulomb,
    "drag": _drag,
    "cubic": _cubic,
    "products": _products,
    "delays": _delays,
    "dead zones": _dead_zones,
    "stops": _stops,
}


@dataclass(frozen=True)
class Part:
    """Part of a row. name : of it. expression : as it reads. inner : what may be late, or act
    through a dead zone. changed : what is added to the side of the forces if a function of `inner`
    stands in its place."""

    name: str
    row: Row
    expression: sp.Expr
    inner: sp.Expr
    changed: Callable[[Callable[[sp.Expr], sp.Expr]], sp.Expr]

    def as_term(
        self,
        kind: str,
        function: Callable[[sp.Expr], sp.Expr],
        scanned: tuple[float, ...],
        largest: float,
    ) -> Term:
        """The term of a function in place of the inner expression, whose parameter is positive."""
        name, shown = f"{kind}{self.name}", sp.Function(kind)(self.expression)
        bounds = (0.0, largest)
        return Term(name, self.row, shown, self.changed(function), bounds, scanned)


def _given(model: Model, row: Row) -> list[Part]:
    """Given inputs of a row."""
    e = model.equations[row.equation]

    def part(u: AppliedUndef) -> Part:
        return Part(
            f"_{name_of(u)}",
            row,
            u,
            u,
            lambda function: -row.sign * (e.xreplace({u: function(u)}) - e),
        )

    return [part(u) for u in model.given if e.has(u)]


def _of_unknown(model: Model, row: Row, unknown: frozenset[sp.Symbol]) -> list[Part]:
    """Factors of each unknown parameter in a row, if it has states."""
    e = model.equations[row.equation]

    def part(p: sp.Symbol, factor: sp.Expr) -> Part:
        shown = -factor if factor.could_extract_minus_sign() else factor
        return Part(
            f"_{name_of(p)}",
            row,
            p * shown,
            factor,
            lambda function: p * (function(factor) - factor),
        )

    found = []
    for p in sorted(unknown & atoms_of(e), key=str):
        factor = -row.sign * e.diff(p)
        atoms = atoms_of(factor)
        if p not in atoms and not atoms.isdisjoint(model.states) and not factor.has(sp.Derivative):
            found.append(part(p, factor))
    return found


def _together(parts: Sequence[Part], unknown: frozenset[sp.Symbol]) -> list[Part]:
    """Several such parts as one, of a feedback that is late as a whole; none if they overlap."""
    if len(parts) < 2 or any(unknown & atoms_of(part.inner) for part in parts):
        return []
    whole = sp.Add(*(part.expression for part in parts))
    return [Part("", parts[0].row, whole, whole, lambda f: sp.Add(*(p.changed(f) for p in parts)))]


def _dead_zone(e: sp.Expr, half: sp.Expr, size: float) -> sp.Expr:
    """An expression less what of it is within +-half, with smooth corners; itself for half = 0."""
    corner = sp.Float(_CORNER * size, 4)
    return smooth_max(0, e - half, corner) + smooth_min(0, e + half, corner)


def _atoms(e: sp.Expr, known: Mapping[sp.Basic, set[sp.Basic]]) -> set[sp.Basic]:
    """Atoms of an expression, those of its intermediates too."""
    found = set[sp.Basic]()
    for atom in atoms_of(e):
        found |= known.get(atom, {atom})
    return found
