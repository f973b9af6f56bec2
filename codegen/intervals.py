"""The intervals of a grid: what the scheme demands there, and what of objective and conditions
belongs to them."""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from kinesym.codegen.evaluate import condition_label, equation_label
from kinesym.codegen.family import (
    At,
    Family,
    Group,
    Points,
    Square,
    integrates_on_intervals,
    squares_of,
)
from kinesym.codegen.lower import Lowering
from kinesym.codegen.phases import contact_rows, held_contacts, holding_rows, pushed_rates
from kinesym.codegen.timed import (
    Rates,
    moment_rows,
    moved_signals,
    signal_places,
    slot_arguments,
    timed,
)
from kinesym.symbolic.names import name_of
from kinesym.symbolic.problem import Problem
from kinesym.symbolic.schemes import CollocationScheme


def collocation_family(problem: Problem, scheme: CollocationScheme) -> Family:
    """Equations at the stages of each interval, and terms of the objective and conditions that
    belong there."""
    s = Interval(problem, scheme)
    return _at_knots(s) if scheme.explicit_start else _at_stages(s)


def measured_places(scheme: CollocationScheme) -> list[tuple[float, float]]:
    """Where in an interval what has no value at nodes is compared with its samples, and by which
    share of their weights."""
    pairs = zip(scheme.nodes, scheme.weights, strict=True)
    return [(1.0, 1.0)] if scheme.ends_at_stage else list(pairs)


class Interval(Points):
    """Graph symbols of one interval: two nodes, unknowns and signals between, its begin and length.

    inner : states, and inputs with values there, at each place of `scheme.inner`. stages : what has
    values at the stages only, at each stage. between : signals at each of `signal_places`.
    slots : of each measurement at times of its own, see `kinesym.codegen.timed`. linked : what
    is derived from z, by the symbols that stand for it in the equations, which are differentiated
    with respect to these first.
    """

    def __init__(self, problem: Problem, scheme: CollocationScheme) -> None:
        super().__init__(problem)
        self.scheme = scheme
        self.inner = [
            (self.group(f"xi{k}", problem.node_states), self.group(f"ui{k}", problem.inner_inputs))
            for k, _ in enumerate(scheme.inner, start=1)
        ]
        self.stages = [self.group(name, problem.staged) for name in problem.staged_arrays]
        places = enumerate(signal_places(scheme), start=1)
        self.between = [self.group(f"si{k}", problem.signals) for k, _ in places]
        measured = problem.sampled(between=True)
        self.measured = [
            (self.group(f"y{k}", measured), self.group(f"w{k}", measured))
            for k, _ in enumerate(measured_places(scheme), start=1)
        ]
        step, begin = self.group("h", ["step"]), self.group("t", ["time"])
        ends = self.s if scheme.explicit_start or moved_signals(problem) else ()
        samples = (argument for pair in self.measured for argument in pair)
        self.slots = [[self.group(*each) for each in row] for row in slot_arguments(problem)]
        slots = (argument for row in self.slots for argument in row)
        self.edges = self.group("edges", ["begin", "end"] if problem.moments else [])
        self.data = (self.k, *ends, *self.between, step, begin, *samples, *slots, self.edges)
        self._h, self._begin = self.of_duration(step, begin)
        self.linked: dict[int, int] = {}
        self.h = self.link("h", self._h)

    @property
    def spans(self) -> tuple[int, int]:
        """Begin and length of the interval, in terms of z."""
        return self._begin, self._h

    @property
    def varying(self) -> tuple[Group, ...]:
        """The groups of trajectories at this interval."""
        inner = (argument for pair in self.inner for argument in pair if argument.symbols)
        return (*super().varying, *(Group(a, a.name) for a in (*inner, *self.stages)))

    def link(self, name: str, value: int) -> int:
        """A symbol that stands for a value derived from z; a symbol stands for itself."""
        g = self.graph
        if g.op[value] == "sym":
            return value
        symbol = g.symbol(f"stage.{name}")
        self.linked[symbol] = value
        return symbol

    def time(self, place: float) -> int:
        """The time at a share of the interval."""
        g = self.graph
        later = g.add(self._begin, g.mul(g.const(place), self._h))
        return self.link(f"t at {place:.4g}", later)

    def at_stage(self, k: int) -> At:
        """What has a value at stage k of a scheme whose nodes are no stages or only the last."""
        problem, scheme = self.problem, self.scheme
        states = self._mixed(f"x{k}", scheme.states(scheme.nodes[k])[0])
        staged = self.nodes(self.stages[k]) if self.stages else []
        values = dict(zip(problem.node_states, states, strict=True))
        values |= zip(problem.staged, staged, strict=True)
        values |= self._node_inputs(scheme.nodes[k])
        values |= zip(problem.signals, self.nodes(self.between[k]), strict=True)
        return At(values, self.time(scheme.nodes[k]))

    def at_node(self, side: int, stage: At) -> At:
        """States at a node, with all else as it is at a stage."""
        states = zip(self.problem.node_states, self.nodes(self.x[side]), strict=True)
        return At({**stage.values, **dict(states)}, stage.time)

    def _node_inputs(self, place: float) -> dict[sp.Basic, int]:
        """Inputs that are held, or linear between the nodes."""
        rows = zip(self.problem.node_inputs, *map(self.nodes, self.u), strict=True)
        found: dict[sp.Basic, int] = {}
        for symbol, *row in rows:
            name = name_of(symbol)
            if name in self.problem.held:
                found[symbol] = row[0]
            elif name in self.problem.linear:
                value = mixed(self, row, (1.0 - place, place))
                found[symbol] = self.link(f"u at {place:.4g}.{name}", value)
        return found

    def rates(self, k: int) -> list[int]:
        """x' at stage k, by the polynomial through the knots; zero for states without a rate."""
        g, scheme = self.graph, self.scheme
        weights = scheme.rates(scheme.nodes[k])[0]
        mixed = self._mixed(f"rate{k}", weights, g.inv(self._h))
        found = dict(zip(self.problem.node_states, mixed, strict=True))
        return [found.get(x, g.zero) for x in self.problem.model.states]

    def at_knot(self, k: int) -> At:
        """What has a value at knot k of a scheme whose stages are the knots."""
        problem, last = self.problem, len(self.scheme.knots) - 1
        rows = zip(problem.signals, self.nodes(self.s[0]), strict=True)
        values = {symbol: v for symbol, v in rows if name_of(symbol) in problem.held}
        values |= self._node_inputs(self.scheme.knots[k])
        if 0 < k < last:
            (states, inputs), free = self.inner[k - 1], problem.inner_inputs
            signals = self.between[k - 1]
        else:
            side, free = int(k == last), problem.node_inputs
            states, inputs, signals = self.x[side], self.u[side], self.s[side]
        own = dict(zip(problem.node_states, self.nodes(states), strict=True))
        own |= zip((*free, *problem.signals), self.nodes(inputs, signals), strict=True)
        return At({**own, **values}, self.time(self.scheme.knots[k]))

    def _mixed(self, name: str, weights: Sequence[float], factor: int | None = None) -> list[int]:
        """States at the knots mixed with weights, times a factor."""
        g, made = self.graph, []
        x0, x1 = map(self.nodes, self.x)
        knots = (x0, *(self.nodes(x) for x, _ in self.inner), x1)
        for x, *row in zip(self.problem.node_states, *knots, strict=True):
            value = mixed(self, row, weights)
            value = value if factor is None else g.mul(value, factor)
            made.append(self.link(f"{name}.{name_of(x)}", value))
        return made

    def family(
        self,
        cost: int,
        rows: dict[str, int],
        outputs: dict[str, int],
        squares: list[Square],
        rates: Rates = (),
    ) -> Family:
        """The interval as a family. rates : of states at the knots, where these are the stages."""
        more, values = timed(self, rates)
        outer = [*self.own, *self.scaled, *self.linked]
        inner = [*self.own, *self.scaled.values(), *self.linked.values()]
        groups, data = self.groups, self.data
        every = [*squares, *more]
        return Family(
            "interval", self.graph, groups, data, outer, inner, cost, rows, outputs, every, values
        )


def mixed(s: Points, row: Sequence[int], weights: Sequence[float]) -> int:
    """Nodes mixed with weights."""
    g = s.graph
    if len(set(weights)) == 1:
        return g.mul(g.const(float(weights[0])), g.sum(row))
    pairs = zip(row, weights, strict=True)
    return g.sum([g.mul(g.const(float(w)), node) for node, w in pairs if w])


def _at_stages(s: Interval) -> Family:
    """The equations at each stage, where x' is that of the polynomial through the knots."""
    problem, model = s.problem, s.problem.model
    points = [s.at_stage(k) for k in range(s.scheme.stages)]
    lowers = [s.lowering(at, s.rates(k)) for k, at in enumerate(points)]
    pushed = lowers
    if held_contacts(problem):
        rates = [pushed_rates(s, at, s.rates(k), -1.0) for k, at in enumerate(points)]
        pushed = [s.lowering(at, row) for at, row in zip(points, rates, strict=True)]
    rows: dict[str, int] = {}
    for number, equation in enumerate(model.equations):
        label = equation_label(model, number)
        rows |= {label + _stage(s, k): lower(equation) for k, lower in enumerate(pushed)}
    for k, at in enumerate(points if problem.contacts else ()):
        rows |= {label + _stage(s, k): row for label, row in contact_rows(s, at).items()}
    if held_contacts(problem):
        rows |= holding_rows(s, *(s.at_node(side, points[-1]) for side in (0, 1)))
    between = {n: e for n, e in model.outputs.items() if problem.on_interval(e)}
    return s.family(
        cost=_integral(s, lowers, s.scheme.weights),
        rows=rows | _step_rows(s, lowers[0]) | moment_rows(s) | _path_rows(s, lowers),
        outputs={
            name + _stage(s, k): lower(e)
            for name, e in between.items()
            for k, lower in enumerate(lowers)
        },
        squares=_squares(s, lowers),
    )


def _at_knots(s: Interval) -> Family:
    """Defects of Lobatto IIIA, from the explicit x' at both nodes and the places between."""
    problem, scheme, g = s.problem, s.scheme, s.graph
    points = [s.at_knot(k) for k in range(scheme.stages)]
    rates = [s.explicit(at) for at in points]
    lowers = [s.lowering(at, f) for at, f in zip(points, rates, strict=True)]
    pushed = [pushed_rates(s, at, f, 1.0) for at, f in zip(points, rates, strict=True)]
    rows: dict[str, int] = {}
    for n, x in enumerate(problem.model.states):
        begin, slopes = points[0].values[x], [f[n] for f in pushed]
        for k in range(1, scheme.stages):
            step = g.mul(g.sub(points[k].values[x], begin), g.inv(s.h))
            inner = ", within" + f" {k}" * (scheme.stages > 3) if k < scheme.stages - 1 else ""
            rows[f"defect of {name_of(x)}{inner}"] = g.sub(step, mixed(s, slopes, scheme.matrix[k]))
    for k, at in enumerate(points[1:-1] if problem.contacts else ()):
        rows |= {label + _stage(s, k + 1): row for label, row in contact_rows(s, at).items()}
    if held_contacts(problem):
        rows |= holding_rows(s, points[0], points[-1])
    knots = [dict(zip(problem.model.states, f, strict=True)) for f in rates]
    rows |= _step_rows(s, lowers[0]) | moment_rows(s, knots)
    weights = list(scheme.weights)
    if not integrates_on_intervals(problem):
        weights[0] = weights[-1] = 0.0
    return s.family(
        cost=_integral(s, lowers, weights),
        rows=rows | _path_rows(s, lowers[1:-1]),
        outputs={},
        squares=[],
        rates=knots,
    )


def _stage(s: Interval, k: int) -> str:
    """The end of a label: at which stage, if there are several."""
    return f", stage {k + 1}" if s.scheme.stages > 1 else ""


def _integral(s: Interval, lowers: Sequence[Lowering], weights: Sequence[float]) -> int:
    """h sum_k b_k g_k of the integrand g."""
    g, integrand = s.graph, s.problem.objective.integrand
    pairs = [(w, lower(integrand)) for w, lower in zip(weights, lowers, strict=True) if w]
    return g.sum([g.mul(g.mul(s.h, g.const(w)), value) for w, value in pairs])


def _step_rows(s: Interval, lower: Lowering) -> dict[str, int]:
    """Rates of inputs from node to node, less expressions of what is held."""
    g, rows = s.graph, dict[str, int]()
    ends = dict(zip(s.problem.node_inputs, zip(*map(s.nodes, s.u), strict=True), strict=True))
    for u, e in s.problem.steps:
        begin, end = ends[u]
        rate = g.mul(g.sub(end, begin), g.inv(s.h))
        rows[f"{'parts of the ' if e != 0 else ''}rate of {name_of(u)}"] = g.sub(rate, lower(e))
    return rows


def _path_rows(s: Interval, lowers: Sequence[Lowering]) -> dict[str, int]:
    """Path conditions within the interval."""
    problem = s.problem
    return {
        condition_label("path condition", k, problem.path[k], problem.model)
        + (f", stage {place + 1}" if len(lowers) > 1 else ""): lowers[place](problem.path[k])
        for k, place in problem.path_within
    }


def _squares(s: Interval, lowers: Sequence[Lowering]) -> list[Square]:
    """Residuals of measurements between nodes."""
    expressions = s.problem.sampled(between=True)
    used, places = lowers[-len(s.measured) :], measured_places(s.scheme)
    return [
        square
        for lower, (y, w), (place, share) in zip(used, s.measured, places, strict=True)
        for square in squares_of(s, lower, expressions, s.nodes(y), s.nodes(w), share, place)
    ]
