"""Graph symbols of one interval of a grid."""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from kinesym.codegen.family import At, Group, Points
from kinesym.codegen.slots import moved_signals, signal_places, slot_arguments
from kinesym.symbolic.names import name_of
from kinesym.symbolic.problem import Problem
from kinesym.symbolic.schemes import CollocationScheme


def measured_places(scheme: CollocationScheme) -> list[tuple[float, float]]:
    """Places in an interval where quantities without values at nodes are compared with their
    samples, each with its share of their weights."""
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
        both = scheme.explicit_start or moved_signals(problem) or bool(problem.resets.inputs)
        ends = self.s if both else ()
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
        """Values at stage k of a scheme whose nodes are no stages or only the last."""
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
        """Values at knot k of a scheme whose stages are the knots."""
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


def mixed(s: Points, row: Sequence[int], weights: Sequence[float]) -> int:
    """Nodes mixed with weights."""
    g = s.graph
    if len(set(weights)) == 1:
        return g.mul(g.const(float(weights[0])), g.sum(row))
    pairs = zip(row, weights, strict=True)
    return g.sum([g.mul(g.const(float(w)), node) for node, w in pairs if w])
