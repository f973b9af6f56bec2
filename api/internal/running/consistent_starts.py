"""Consistent initial values of differential-algebraic models: all equations and hidden constraints
hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import factorial

import numpy as np
import sympy as sp

from kinesym.base.quiet import warn
from kinesym.codegen.derive import Sparse, jacobian, with_kinks
from kinesym.codegen.graph import Graph
from kinesym.codegen.interpret import evaluate_nodes
from kinesym.codegen.lower import Lowering
from kinesym.internal.problems.simulation_arguments import Input, SimulationArguments
from kinesym.internal.running.delayed_run import start_signals
from kinesym.runtime.arrays import Array
from kinesym.runtime.signals.signal import Signal
from kinesym.runtime.summary import listed
from kinesym.symbolic.combination import combined
from kinesym.symbolic.differentiated import (
    Constraint,
    Differentiated,
    Invariant,
    differentiated,
    unknowns,
)
from kinesym.symbolic.expression import parts_of
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of, t

#: Relative step at which Newton's method has converged, and relative rank tolerance: rounding.
_SOLVED = 1e-12
#: Relative residual that given initial values may leave.
_TOLERATED = 1e-6

#: Name of time in the graph.
_TIME = "time"

#: Most steps of Newton's method.
_NEWTON_STEPS = 60
#: Most halvings of one step.
_HALVINGS = 12

#: Weight by which x' and algebraic states move more easily than differential states.
_EASE = 1e4

#: Relative displacement of a guess at which no equation changes with it.
_MOVED = 0.1


@dataclass(frozen=True, eq=False)
class _Equations:
    """The equations of a model and the derivatives of them that bind its states, on a graph.

    rows : kept ones, then constraints. inner : what the kept ones determine, by its symbol in the
    graph. slopes : derivatives by `columns`, inner ones and then the other states. tables : their
    numbers.
    """

    graph: Graph
    rows: Sequence[Constraint | Invariant]
    kept: int
    nodes: Sequence[int]
    inner: Sequence[str]
    columns: Sequence[str]
    slopes: Sparse
    input_rates: Sequence[sp.Derivative]
    tables: Array

    def __call__(self, values: Mapping[str, Array], members: int) -> tuple[Array, Array]:
        """Evaluate rows (rows, M) and their derivatives (M, rows, columns)."""
        wanted = [*self.nodes, *self.slopes.values()]
        known = {**values, "data": self.tables}
        found = evaluate_nodes(self.graph, self.graph.ancestors(wanted), known)
        residual = np.array([np.broadcast_to(found[node], members) for node in self.nodes])
        slopes = np.zeros((members, len(self.rows), len(self.columns)))
        for (i, j), node in self.slopes.items():
            slopes[:, i, j] = found[node]
        return residual.reshape(-1, members), slopes


@lru_cache(maxsize=32)
def _equations(model: Model) -> _Equations:
    regular = combined(model)
    form = differentiated(regular) if regular else _undifferentiated(model)
    invariants = [Invariant(name, model.outputs[name]) for name in model.invariants]
    known_already = {row.expression for row in form.constraints}
    more = [row for row in invariants if row.expression not in known_already]
    rows: tuple[Constraint | Invariant, ...] = (*form.kept, *form.constraints, *more)
    every = [*(row.expression for row in rows), *(e for _, e in form.program)]
    found = parts_of(sp.Derivative, *every)
    rates = sorted((a for a in found if a.expr in model.inputs), key=str)
    g = Graph()
    known = [*model.states, *model.inputs, *model.parameters, *model.derivatives, *form.higher]
    symbols = {atom: g.symbol(_symbol(atom)) for atom in (*known, *rates)}
    lower = Lowering(g, {**symbols, t: g.symbol(_TIME)}, model.tables)
    lower.define(form.program)
    nodes = [lower(row.expression) for row in rows]
    inner = [*map(_symbol, unknowns(regular or model, form))]
    outer = [name for name in map(_symbol, model.states) if name not in inner]
    slopes = jacobian(g, with_kinks(g, nodes), g.symbols([*inner, *outer]))
    columns, numbers = [*inner, *outer], model.tables.values
    return _Equations(g, rows, len(form.kept), nodes, inner, columns, slopes, rates, numbers)


def _undifferentiated(model: Model) -> Differentiated:
    """The equations as they are, where factors of combinations are not constant: what they lack
    shows as a remainder that no values remove."""
    rows = tuple(Constraint(i, 0, e) for i, e in enumerate(model.equations))
    return Differentiated(rows, (), model.intermediates, ())


def _symbol(atom: sp.Basic) -> str:
    """Name of an atom in the graph; no name of a model has a slash."""
    if isinstance(atom, sp.Derivative):
        return f"{name_of(atom.expr)}/dt{atom.derivative_count}"
    return name_of(atom)


def consistent_initial(
    model: Model, given: SimulationArguments, keep: Sequence[str] | None = None
) -> dict[str, Array]:
    """Initial values of all states that agree with the equations and their derivatives.

    keep : states whose values stand; others may move from theirs as little as it takes. None: only
    algebraic states move. Raises `ValueError`, naming the equation that cannot be satisfied.
    """
    equations, members = _equations(model), given.members or 1
    point = {name: np.full(members, np.nan) for name in equations.columns}
    point |= {name: np.zeros(members) for name in equations.inner}
    for name, number in (*given.initial.items(), *given.parameters.items()):
        point[name] = np.array(np.broadcast_to(number, members), dtype=float)
    point[_TIME] = np.full(members, given.time[0])
    late = start_signals(model, given) if model.delays else {}
    for name, value in (*given.inputs.items(), *late.items()):
        point[name] = _input(value, given.time, 0, members)
    for rate in equations.input_rates:
        order = int(rate.derivative_count)
        point[_symbol(rate)] = _input(given.inputs[name_of(rate.expr)], given.time, order, members)
    may = set(equations.inner) if keep is None else set(equations.columns) - set(keep)
    free = [name for name in equations.columns if name in may]
    rows = equations.kept if keep is None else len(equations.rows)
    begin = dict(point)
    _solve(equations, point, free, rows, members)
    try:
        _check(model, equations, point, members, keep)
    except ValueError as error:
        algebraic = [name for name in free if name in model.state_names]
        stuck = _stuck(equations, begin, algebraic, members)
        if not stuck:
            raise
        point = _unstuck(equations, begin, stuck, free, rows, members)
        try:
            _check(model, equations, point, members, keep)
        except ValueError:
            raise ValueError(f"{error}; {_singular(stuck)}: guess another value") from None
        warn(
            f"model {model.name}: {_singular(stuck)}; it was moved a little and ended at "
            f"{', '.join(f'{point[name].flat[0]:.6g}' for name in stuck)}; if another solution is "
            "meant, guess a value near that",
            stacklevel=4,
        )
    return {
        name: point[name] if given.members else point[name].reshape(())
        for name in model.state_names
    }


def _stuck(
    equations: _Equations, point: Mapping[str, Array], names: Sequence[str], members: int
) -> dict[str, Array]:
    """Algebraic states with which no equation changes where they are guessed, and of which members,
    (M,), that is."""
    _, slopes = equations(point, members)
    most = {n: np.abs(slopes[:, :, equations.columns.index(n)]).max(axis=1) for n in names}
    return {name: (row == 0.0).astype(float) for name, row in most.items() if not row.all()}


def _unstuck(
    equations: _Equations,
    begin: Mapping[str, Array],
    stuck: Mapping[str, Array],
    free: Sequence[str],
    rows: int,
    members: int,
) -> dict[str, Array]:
    """Solution from guesses that are moved a little."""
    moved = {n: begin[n] + _MOVED * (np.abs(begin[n]) + 1.0) * there for n, there in stuck.items()}
    point = {**begin, **moved}
    _solve(equations, point, free, rows, members)
    return point


def _singular(stuck: Mapping[str, Array]) -> str:
    names = listed(list(stuck))
    return f"the guess of {names} is singular, as no equation changes with {names} there"


def _input(value: Input, time: Array, order: int, members: int) -> Array:
    """The derivative of that order of an input at the first node, (M,)."""
    rows = [value] if isinstance(value, Signal) else value
    signals = [row if isinstance(row, Signal) else Signal(time, row) for row in rows]
    return np.broadcast_to([_derivative(s, time[0], order) for s in signals], members)


def _derivative(signal: Signal, time: float, order: int) -> float:
    """Derivative of a signal at a time; at a break, that of the piece after it."""
    k = max(int(np.searchsorted(signal.begin, time + 1e-12, side="right")) - 1, 0)
    s, row = time - signal.begin[k], signal.coefficients[:, k]
    terms = [
        factorial(q) / factorial(q - order) * row[q] * s ** (q - order) for q in range(order, 4)
    ]
    return float(sum(terms))


def _solve(
    equations: _Equations, point: dict[str, Array], free: Sequence[str], rows: int, members: int
) -> None:
    """Newton's method, or Gauss and Newton's, in the free values, each member by itself, with steps
    halved until its equations are better satisfied. `point` is changed."""
    places = [equations.columns.index(name) for name in free]
    ease = np.array([_EASE if name in equations.inner else 1.0 for name in free])

    def at(z: Array) -> tuple[Array, Array, Array]:
        residual, slopes = equations({**point, **dict(zip(free, z, strict=True))}, members)
        part = residual[:rows]
        return part, slopes[:, :rows, places] * ease, np.linalg.norm(part, axis=0)

    z = np.array([point[name] for name in free]).reshape(-1, members)
    now = at(z)
    for _ in range(_NEWTON_STEPS):
        step = ease[:, None] * _least_squares(now[0], now[1])
        done = (np.abs(step) <= _SOLVED * (np.abs(z) + 1e-3)).all(axis=0)
        for _ in range(_HALVINGS):
            then = at(z - step)
            worse = ~(then[2] < now[2])
            if not (worse & ~done).any():
                break
            step[:, worse] *= 0.5
        step[:, worse] = 0.0
        if not step.any():
            break
        z, now = z - step, at(z - step)
        if done.all():
            break
    point.update(zip(free, z, strict=True))


def _least_squares(residual: Array, slopes: Array) -> Array:
    """The shortest of the best steps, (free, M); none where something is not finite."""
    finite = np.isfinite(slopes.sum(axis=(1, 2)) + residual.sum(axis=0))
    inverse = np.linalg.pinv(np.where(finite[:, None, None], slopes, 0.0), _SOLVED)
    return np.asarray(np.einsum("mij,jm->im", inverse, np.where(finite, residual, 0.0)))


def _check(
    model: Model,
    equations: _Equations,
    point: Mapping[str, Array],
    members: int,
    keep: Sequence[str] | None,
) -> None:
    """Raise `ValueError` for equations that are not satisfied. A derivative that is not finite says
    nothing of the size of an equation."""
    residual, slopes = equations(point, members)
    slopes[~np.isfinite(slopes)] = 0.0
    values = np.array([point[name] for name in equations.columns])
    scale = np.einsum("mij,jm->im", np.abs(slopes), np.abs(values) + _TOLERATED)
    off = np.argwhere(np.logical_not(np.abs(residual.T) <= _TOLERATED * scale.T)).tolist()
    if not off:
        return
    member = off[0][0]
    wrong = [row for k, row in off if k == member]
    of = f" of member {member}" if members > 1 else ""
    bound = [i for i in wrong if i >= equations.kept]
    words = "; ".join(
        f"{equations.rows[i]} = 0 by {np.abs(residual[i, member]):.3g}" for i in (bound or wrong)
    )
    if model.index.reason:
        words += f" ({model.index.reason})"
    remedy = (
        "correct them, or ks.consistent(model, time, initial, keep=[...]) finds values near them"
        if keep is None
        else "keep fewer states, or start nearer to a solution"
    )
    raise ValueError(f"model {model.name}: the initial values{of} violate {words}; {remedy}")
