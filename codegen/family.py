"""A kind of point: its cost and constraints as nodes, and the symbols that it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.codegen.graph import Graph
from kinesym.codegen.kernel import Argument
from kinesym.codegen.lower import Lowering
from kinesym.codegen.solve import MassMatrix, NotExplicit, model_rates
from kinesym.symbolic.expression import atoms_of
from kinesym.symbolic.losses import Loss, log_normal_tail
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of, t, written
from kinesym.symbolic.objective import at_end, at_start
from kinesym.symbolic.problem import Problem, algebraic_states, known_intermediates
from kinesym.symbolic.schemes import CollocationScheme

#: Number of operations above which a condition is not spelled out in its name.
_SHORT = 15
#: Number of letters above which it is not.
_LETTERS = 60


@dataclass(frozen=True)
class At:
    """Values at one point, as nodes: states, unknown inputs and signals, and the time."""

    values: Mapping[sp.Basic, int]
    time: int

    def of(self, symbols: Iterable[sp.Basic]) -> list[int]:
        """Values of symbols."""
        return [self.values[symbol] for symbol in symbols]


@dataclass(frozen=True)
class Group:
    """An argument of one scalar per variable of z, and where it lies.

    array : of the layout of z, see `Problem.arrays`, `Problem.parameter_arrays`; "T" for the
    duration.
    side : 0 for its entry at this point, or at the first of two; 1 for the next node, or the
    second of two points.
    """

    argument: Argument
    array: str
    side: int = 0


class Score(NamedTuple):
    """Score of a term of a likelihood, in place of a square and of the slopes of its residual, as
    in the method of scoring; these are nodes.

    cost : in place of the square. Slopes are `pace` times the derivatives of `moving`: residual
    times slope is half the derivative of the cost, slope times slope half the curvature that is
    expected (Fisher's information).
    """

    cost: int
    moving: int
    pace: int


class Square(NamedTuple):
    """A term factor * weight * residual^2 of an objective, or its loss; these are nodes.

    label : what it is about, such as the name of a measurement. weight : share/std^2. samples : for
    how many samples it stands: means of two have less noise. score : of a term that is no square.
    """

    weight: int
    residual: int
    label: str = ""
    factor: float = 1.0
    share: float = 1.0
    samples: float = 1.0
    loss: Loss | None = None
    score: Score | None = None

    def cost(self, g: Graph) -> int:
        """The term."""
        if self.score is not None:
            return g.mul(g.mul(g.const(self.factor), self.weight), self.score.cost)
        if self.loss is None:
            weight = g.mul(g.const(self.factor), self.weight)
            return g.mul(weight, g.mul(self.residual, self.residual))
        return g.mul(g.const(self.factor * self.share), self._of(g, self.loss.cost))

    def root(self, g: Graph) -> tuple[int, int, int]:
        """A weight, and what moves at which pace: the Hessian of the term is about twice the weight
        times slope times slope."""
        if self.loss is None:
            return g.mul(g.const(self.factor), self.weight), *self.slope(g)
        return g.const(self.factor * self.share), self._of(g, self.loss.root), g.one

    def slope(self, g: Graph) -> tuple[int, int]:
        """Node that moves the residual, and at which pace."""
        return (self.residual, g.one) if self.score is None else self.score[1:]

    def _of(self, g: Graph, function: Callable[[sp.Expr], sp.Expr]) -> int:
        """A function of the residual over its standard deviation."""
        full = g.mul(g.const(1.0 / self.share), self.weight)
        e = g.mul(g.function("sqrt", full), self.residual)
        return Lowering(g, {_E: e})(function(_E))


_E = sp.Symbol("e", real=True)
#: Added to the root of a curvature, so that a score over it is zero where both are.
LEAST = 1e-150


@dataclass(frozen=True)
class Label:
    """Label of a constraint or an output. kind : "condition" of the problem, "moment" for one at a
    time, "hold" for a contact that stays in its place. of : contact or input that it is about.
    stage : from 1, where there are several."""

    name: str
    kind: str = ""
    of: str = ""
    stage: int = 0

    def __str__(self) -> str:
        return f"{self.name}, stage {self.stage}" if self.stage else self.name


def condition_label(family: str, number: int, condition: sp.Expr, model: Model) -> Label:
    """`boundary condition 2 (at_end(x) - 5)`: its number and what it says, if that is short, or the
    name of the invariant of the model that is zero at the start."""
    text = written(condition, _SHORT) if sp.count_ops(condition) <= _SHORT else ""
    text = text if len(text) <= _LETTERS else ""
    for name in model.invariants:
        if condition == at_start(model.outputs[name]):
            text = f"{name} at the start"
    return Label(f"{family} condition {number}" + f" ({text})" * bool(text), "condition")


@dataclass(frozen=True)
class Family:
    """Cost and constraints at one kind of point, in terms of `inner` = v(z).

    `groups` are those of z, `data` the arguments of known numbers. `outer` are the symbols v
    that `cost` and `rows`, the constraints, are written in. The objective is `cost`
    and the sum over `squares`. `timed` is what the model has where measurements have times of
    their own.
    """

    name: str
    graph: Graph
    groups: tuple[Group, ...]
    data: tuple[Argument, ...]
    outer: Sequence[int]
    inner: Sequence[int]
    cost: int
    rows: Mapping[Label, int]
    outputs: Mapping[Label, int] = field(default_factory=dict)
    squares: Sequence[Square] = ()
    timed: Sequence[int] = ()

    @property
    def variables(self) -> tuple[Argument, ...]:
        """The arguments of `groups`."""
        return tuple(group.argument for group in self.groups)

    @property
    def objective(self) -> int:
        """Objective at this point: cost and squares."""
        g = self.graph
        return g.sum([self.cost, *(square.cost(g) for square in self.squares)])

    @property
    def z(self) -> list[int]:
        """The local variables."""
        return self.graph.symbols(s for group in self.variables for s in group.symbols)


class Points:
    """Graph symbols of one point or two, and the arguments they belong to.

    x, u, s : states and unknown inputs with values at nodes, and signals, one argument for each of
    `suffixes`. p, T, k : unknown parameters, one argument for each of their arrays, the duration
    (if free) and known parameters.
    groups : those of z. scaled : parameters of which z has the logarithm, symbols that stand for
    their values in the equations, which are differentiated with respect to these first.
    """

    def __init__(self, problem: Problem, suffixes: Sequence[str] = ("0", "1")) -> None:
        self.problem, self.graph = problem, Graph()
        self.x, self.u, self.s = (
            [self.group(name + suffix, members) for suffix in suffixes]
            for name, members in (
                ("x", problem.node_states),
                ("u", problem.node_inputs),
                ("s", problem.signals),
            )
        )
        duration = ["duration"] if problem.free_duration else []
        self.p = [
            self.group(array, members, varying=False)
            for array, members in problem.parameter_arrays.items()
        ]
        self.T = self.group("T", duration, varying=False)
        known, tables = problem.known_parameters, len(problem.tables.values)
        self.k = replace(self.group("k", known, varying=False), tables=tables)
        self.scaled: dict[int, int] = {}
        for array in self.p:
            for symbol in array.symbols:
                name = symbol.removeprefix(f"{array.name}.")
                if name in problem.log_scale:
                    value = self.graph.function("exp", self.graph.symbol(symbol))
                    self.scaled[self.graph.symbol(f"scaled.{name}")] = value

    @property
    def varying(self) -> tuple[Group, ...]:
        """The groups of trajectories at these points."""
        states = [Group(x, "x", side) for side, x in enumerate(self.x) if x.symbols]
        inputs = [Group(u, "u", side) for side, u in enumerate(self.u) if u.symbols]
        return (*states, *inputs)

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups of z at these points: of trajectories, parameters, and the duration."""
        return (*self.varying, *(Group(p, p.name) for p in self.p), Group(self.T, "T"))

    @property
    def own(self) -> list[int]:
        """The nodes of all groups."""
        return self.nodes(*(group.argument for group in self.groups))

    def group(self, name: str, members: Iterable[object], varying: bool = True) -> Argument:
        """The argument `name` of one scalar per member."""
        return Argument(name, tuple(f"{name}.{name_of(m)}" for m in members), varying)

    def nodes(self, *arguments: Argument) -> list[int]:
        """Their nodes."""
        return self.graph.symbols(s for argument in arguments for s in argument.symbols)

    def of_duration(self, *arguments: Argument) -> list[int]:
        """Their nodes, times the duration if that is unknown."""
        nodes, T = self.nodes(*arguments), self.nodes(self.T)
        return [self.graph.mul(T[0], node) for node in nodes] if T else nodes

    def at(self, k: int, time: int) -> At:
        """Values at node k of states, unknown inputs and signals."""
        problem = self.problem
        symbols = (*problem.node_states, *problem.node_inputs, *problem.signals)
        nodes = self.nodes(self.x[k], self.u[k], self.s[k])
        return At(dict(zip(symbols, nodes, strict=True)), time)

    def lowering(self, at: At, rates: Sequence[int] = ()) -> Lowering:
        """A translator of expressions at this point, intermediates included."""
        model = self.problem.model
        table: dict[sp.Basic, int] = {t: at.time, **self._parameters(), **at.values}
        if rates:
            table.update(zip(model.derivatives, rates, strict=True))
        lower = Lowering(self.graph, table, self.problem.tables)
        variables = {*model.states, *model.inputs, *model.derivatives}
        lower.define(known_intermediates(model, variables - set(table)))
        return lower

    def _parameters(self) -> dict[sp.Basic, int]:
        arrays = self.problem.parameter_arrays.values()
        symbols = (*(p for members in arrays for p in members), *self.problem.known_parameters)
        found = dict(zip(symbols, self.nodes(*self.p, self.k), strict=True))
        on_scale = [p for p in symbols if name_of(p) in self.problem.log_scale]
        return {**found, **dict(zip(on_scale, self.scaled, strict=True))}

    def parameter(self, name: str) -> tuple[int, int]:
        """Node of an unknown parameter in the equations, and of its entry of z."""
        arrays = zip(self.problem.parameter_arrays.values(), self.p, strict=True)
        [(p, entry)] = [
            (p, node)
            for members, array in arrays
            for p, node in zip(members, self.nodes(array), strict=True)
            if name_of(p) == name
        ]
        return self._parameters()[p], entry

    def entry(self, p: sp.Symbol) -> int:
        """The value of an unknown parameter in terms of z."""
        node = self._parameters()[p]
        return self.scaled.get(node, node)

    def boundary(self, e: sp.Expr, first: Lowering, last: Lowering) -> int:
        """A condition in which `at_start` and `at_end` stand for values at the two ends."""
        table: dict[sp.Basic, int] = {}
        for end in sorted(e.atoms(at_start, at_end), key=str):
            table[end] = (first if isinstance(end, at_start) else last)(end.args[0])
        return Lowering(self.graph, {**table, **self._parameters()}, self.problem.tables)(e)

    def determined(self, at: At, rates: bool) -> tuple[At, list[int]]:
        """Values at this point, and x' if there are to be `rates`; algebraic states are with x', or
        where measurements follow jumps, what the equations tell there.

        Raises `ValueError` if they do not tell it in closed form.
        """
        model, g, solved = self.problem.model, self.graph, sorted(self.problem.solved)
        algebraic = algebraic_states(model)
        if not (rates or solved):
            return at, []
        if not algebraic:
            return at, self.explicit(at)
        names = [f"{'solved' if x in algebraic else 'rate'}.{name_of(x)}" for x in model.states]
        unknown = dict(zip(model.states, g.symbols(names), strict=True))
        own = At({**at.values, **{x: unknown[x] for x in algebraic}}, at.time)
        lower = self.lowering(own, [g.zero if x in algebraic else unknown[x] for x in unknown])
        residual = [lower(e) for e in model.equations]
        try:
            mass = MassMatrix(g, residual, list(unknown.values()), model.state_names)
        except NotExplicit as error:
            what = (
                f"{', '.join(solved)} at jumps of inputs" if solved else "outputs with x' at nodes"
            )
            remedy = "use ks.Collocation"
            if solved:
                remedy = "leave the samples there out (NaN)"
            if solved and model.index.value == 2:
                remedy += ", or take model.reduced_index()"
            why = str(error)
            for x in map(name_of, algebraic):
                why = why.replace(f"{x}'", x)
            raise ValueError(
                f"model {model.name}: the equations do not tell {what} in closed form: {why}; "
                f"{remedy}"
            ) from error
        found = dict(zip(model.states, mass.rates(), strict=True))
        after = At({**at.values, **{x: found[x] for x in algebraic}}, at.time)
        return after, [g.zero if x in algebraic else found[x] for x in model.states]

    def explicit(self, at: At) -> list[int]:
        """x' = f(x, u, p, t) at this point; raises `ValueError` if the equations do not give it."""
        model = self.problem.model
        rates = self.graph.symbols(f"rate.{name}" for name in model.state_names)
        lower = self.lowering(at, () if model.explicit else rates)
        try:
            return model_rates(model, lower, rates)
        except NotExplicit as error:
            staged = isinstance(self.problem.scheme, CollocationScheme)
            raise ValueError(
                f"{self.problem.scheme.title} needs explicit derivatives: {error}; use "
                + ("radau-3 or backward-euler" if staged else "ks.Collocation with radau-3")
            ) from error


class Ends(Points):
    """Two points with a time of their own each, such as the ends of a trial.

    What has values at stages only is continued from the interval there. last : the point at the end
    of a trial, whose time is the duration if that is unknown.
    """

    def __init__(self, problem: Problem, last: int) -> None:
        super().__init__(problem)
        self._stages = [
            [self.group(f"{array}_{side}", staged) for array in problem.staged_arrays]
            for side in (0, 1)
            for staged in [problem.staged]
        ]
        self._times = [self.group(name, ["time"]) for name in ("t0", "t1")]
        self._data = (self.k, *self.s, *self._times)
        if problem.free_duration:
            self._times[last] = self.T
        # makes the symbols; sums and products are written in the order of their operands' making
        self.nodes(self._times[last], *self.x, *self.u)
        self._continued = [self._at_end(side, float(side == last)) for side in (0, 1)]

    @property
    def varying(self) -> tuple[Group, ...]:
        """The groups of trajectories at these points."""
        arrays = self.problem.staged_arrays
        stages = (
            Group(argument, array, side)
            for side, row in enumerate(self._stages)
            for array, argument in zip(arrays, row, strict=True)
        )
        return (*super().varying, *stages)

    def _at_end(self, side: int, place: float) -> dict[sp.Basic, tuple[int, int]]:
        """Symbols of variables that are continued from the stages of an interval to its start
        (place 0) or its end (1), with their values."""
        g, staged = self.graph, self.problem.staged
        scheme = self.problem.scheme
        if not staged or not isinstance(scheme, CollocationScheme):
            return {}
        weights = scheme.inputs(place)[0]
        rows = zip(*(self.nodes(stage) for stage in self._stages[side]), strict=True)
        return {
            symbol: (
                g.symbol(f"end{side}.{name_of(symbol)}"),
                g.sum([g.mul(g.const(w), node) for w, node in zip(weights, row, strict=True)]),
            )
            for symbol, row in zip(staged, rows, strict=True)
        }

    def end(self, k: int) -> At:
        """Values at point k, at its own time; `staged` variables continued from the stages."""
        at = self.at(k, *self.nodes(self._times[k]))
        return At({**at.values, **{x: s for x, (s, _) in self._continued[k].items()}}, at.time)

    def family(
        self,
        name: str,
        cost: int,
        rows: Mapping[Label, int],
        squares: Sequence[Square] = (),
        more: tuple[Argument, ...] = (),
    ) -> Family:
        """Cost, squares and constraints as a family; more : data of squares."""
        continued = [pair for side in self._continued for pair in side.values()]
        outer = [*self.own, *self.scaled, *(symbol for symbol, _ in continued)]
        inner = [*self.own, *self.scaled.values(), *(value for _, value in continued)]
        data = (*self._data, *more)
        return Family(
            name, self.graph, self.groups, data, outer, inner, cost, rows, squares=squares
        )


def integrates_on_intervals(problem: Problem) -> bool:
    """Whether the integrand has no values at the nodes, or jumps there with a held signal."""
    if isinstance(problem.scheme, CollocationScheme) and not problem.scheme.explicit_start:
        return True
    integrand = problem.objective.integrand
    behind = atoms_of(*problem.model.through([integrand]))
    held = {name_of(f) for f in behind if isinstance(f, AppliedUndef)} & problem.held
    jumps = bool(problem.held) and problem.moves(integrand)
    return bool(held) or jumps or problem.on_interval(integrand)


def squares_of(
    s: Points,
    lower: Lowering,
    expressions: Mapping[str, sp.Expr],
    y: Sequence[int],
    w: Sequence[int],
    share: float = 1.0,
    place: float = 1.0,
) -> list[Square]:
    """The residual, expression - y, of each measurement, if the objective has them.

    share : of the weight 1/std^2 of a sample that w has. place : in the interval, between two
    samples of which y is the mean there.
    """
    g, objective, spreads = s.graph, s.problem.objective, s.problem.spreads
    factor, found = objective.least_squares, list[Square]()
    for (label, expression), value, weight in zip(expressions.items(), y, w, strict=True):
        if factor:
            g.mul(g.const(factor), weight)  # made here: sums are written in the order of making
            residual = g.counted(weight, g.sub(lower(expression), value))
            samples = share * ((1.0 - place) ** 2 + place**2)
            more = (factor, share, samples, objective.loss)
            square = Square(weight, residual, label, *more)
            if label in s.problem.sides:
                _check_place(s.problem, label, place)
                std = lower(spreads[label]) if label in spreads else None
                found.append(_of_limit(g, square, s.problem.sides[label], std))
            elif label in spreads:
                found += _of_spread(g, square, g.counted(weight, lower(spreads[label])))
            else:
                found.append(square)
    return found


def _check_place(problem: Problem, label: str, place: float) -> None:
    """Raise `ValueError` for limits that would be means of two."""
    if place != 1.0:
        raise ValueError(
            f"{label} are censored samples of what {problem.scheme.title} has within intervals "
            "only, where it compares means; use a radau scheme, or a ks.Signal(times, values)"
        )


def _of_limit(g: Graph, square: Square, side: int, std: int | None) -> Square:
    """The term -2 log Phi(-v) of a censored sample, v = -side * off/std, from the square of `off`,
    the modelled value less the limit. std : if it is an expression, else the weight has it."""
    weight, off = square.weight, square.residual
    v = g.mul(off, g.function("sqrt", g.mul(g.const(1.0 / square.share), weight)))
    v = g.mul(g.const(-float(side)), v)
    v = v if std is None else g.counted(weight, g.mul(v, g.inv(std)))
    log = log_normal_tail(_E)
    hazard = -sp.diff(log, _E)
    root = sp.sqrt(sp.Max(hazard * (hazard - _E), 0))
    cost, slope, pace = map(Lowering(g, {_E: v}), (-2 * log, hazard, root))
    there = g.mul(g.const(square.share), g.binary("lt", g.zero, weight))
    score = g.mul(slope, g.inv(g.add(pace, g.const(LEAST))))
    return square._replace(weight=there, residual=score, score=Score(cost, v, pace))


def _of_spread(g: Graph, square: Square, std: int) -> list[Square]:
    """Terms rho(e) + 2 log std of a residual e = off/std, from the square of `off`, whose weight is
    that without std: -2 log of a density, of a normal one with rho = e^2. Derivatives of the mean
    and of log std are scores psi and 1 - e psi that do not covary, over the roots of their
    variances here, psi = rho'/2."""
    weight, off = square.weight, square.residual
    pace, log = g.counted(weight, g.inv(std)), g.counted(weight, g.function("log", std))
    e, loss = g.mul(off, pace), square.loss
    a, b = (1.0, float(np.sqrt(2.0))) if loss is None else loss.roots_of_information
    cost, psi, share = g.mul(e, e), e, e
    if loss is not None:
        cost, psi = map(Lowering(g, {_E: e}), (loss.cost(_E), loss.slope(_E)))
        pace, share = g.mul(g.const(a), pace), g.mul(g.const(1.0 / a), psi)
    of_mean = Score(cost, off, pace)
    of_std = Score(g.mul(g.const(2.0), log), log, g.const(b))
    spread = square._replace(
        residual=g.mul(g.const(1.0 / b), g.sub(g.one, g.mul(e, psi))),
        label=f"log std of {square.label}",
        samples=0.0,
        loss=None,
        score=of_std,
    )
    return [square._replace(residual=share, loss=None, score=of_mean), spread]
