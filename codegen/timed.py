"""Measurements at times of their own, compared with interpolated values within the intervals of a
scheme.

An interval has slots for the samples of a channel. Of each slot the share of the interval that has
passed, the sample, its weight, zero in an empty slot, and known signals are data. The states there
are on the polynomial of the scheme: through the knots, or, where the knots are the stages
(Lobatto IIIA), with the rates there (Hairer, Norsett, Wanner, Solving Ordinary Differential
Equations I, II.7.7). What is known at the stages is on the polynomial through these.

With an unknown delay tau the share is s - tau/h, s that at which the sample was taken, and known
signals are on the polynomial through the nodes and the stages. Where trajectories follow by steps
of time, states are on the cubic polynomials with the rates at both nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

import numpy as np
import sympy as sp

from kinesym.codegen.family import At, Label, Square, squares_of
from kinesym.codegen.graph import Graph
from kinesym.codegen.interval_symbols import Interval
from kinesym.codegen.lower import Lowering
from kinesym.codegen.slots import needed_atoms, signal_places, signals_of_slots
from kinesym.symbolic.names import name_of
from kinesym.symbolic.schemes import CollocationScheme

#: x' at the knots by state, where these are the stages.
Rates = Sequence[Mapping[sp.Basic, int]]


def timed(s: Interval, rates: Rates = ()) -> tuple[list[Square], list[int]]:
    """Residuals of all slots, channel by channel, if the objective has them, and what the model has
    there."""
    problem, squares, values = s.problem, list[Square](), list[int]()
    kind = _Slot if isinstance(problem.scheme, CollocationScheme) else _Step
    for (name, expression), row in zip(problem.timed.items(), s.slots, strict=True):
        at, y, w, known, falls = (s.nodes(argument) for argument in row)
        names, count, spreads = signals_of_slots(problem, name), problem.slots[name], list[int]()
        for k, share in enumerate(_moved(s, name, at, falls)):
            signals = dict(zip(names, known[k::count], strict=True))
            lower = kind(s, f"{name}.{k}", share, rates).lowering(problem.behind(name), signals)
            squares += squares_of(s, lower, {name: expression}, [y[k]], [w[k]])
            values.append(lower(expression))
            spreads += map(lower, problem.behind(name)[1:])
        values += spreads
    return squares, values


def moment_rows(s: Interval, rates: Rates = ()) -> dict[Label, int]:
    """Inputs rise by expressions at times that are parameters in the interval that has the time,
    the first and the last one also if it is before or after."""
    g, (begin, h), rows = s.graph, s.spans, dict[Label, int]()
    inputs = zip(s.problem.node_inputs, *map(s.nodes, s.u), strict=True)
    ends = {symbol: pair for symbol, *pair in inputs}
    edges = s.of_duration(s.edges)
    for u, e, time in s.problem.moments:
        tau, (left, right) = s.entry(time), ends[u]
        here = g.mul(g.binary("le", edges[0], tau), g.binary("lt", tau, edges[1]))
        share = g.mul(here, g.mul(g.sub(tau, begin), g.inv(h)))
        value = _Slot(s, name_of(u), share, rates).lowering([e], {})(e)
        row = Label(f"condition at {time}, {name_of(u)}", "moment", of=name_of(u))
        rows[row] = g.sub(g.sub(right, left), g.mul(here, value))
    return rows


def _moved(s: Interval, name: str, shares: Sequence[int], falls: Sequence[int]) -> Sequence[int]:
    """Shares in terms of z, with the delay of a channel if that is unknown."""
    if name not in s.problem.delays:
        return shares
    g, T = s.graph, s.nodes(s.T)
    delay = s.entry(s.problem.delays[name])
    relative = g.mul(delay, g.inv(T[0])) if T else delay
    return [g.sub(at, g.mul(relative, by)) for at, by in zip(shares, falls, strict=True)]


class _Slot:
    """A place in an interval, whose `share` is data, or moves with a delay; label : of the symbols
    that stand for what has values there."""

    def __init__(self, s: Interval, label: str, share: int, rates: Rates) -> None:
        self.s, self.label, self.share, self.rates = s, label, share, rates

    def lowering(self, expressions: Sequence[sp.Expr], signals: Mapping[str, int]) -> Lowering:
        """A translator of expressions at this place."""
        s, used = self.s, needed_atoms(self.s.problem, expressions)
        values = self._states(used) | self._inputs(used)
        for f in s.problem.signals:
            if name_of(f) in signals:
                values[f] = signals[name_of(f)]
            elif used is None or f in used:
                values[f] = self._signal(s.problem.signals.index(f))
        at = At(values, self._time())
        return s.lowering(at, self._slopes(at) if used is None else ())

    def _states(self, used: set[sp.Basic] | None) -> dict[sp.Basic, int]:
        s, g, scheme = self.s, self.s.graph, self.s.scheme
        weights, found = _basis(g, scheme.knots, self.share), dict[sp.Basic, int]()
        for x, *row in zip(s.problem.node_states, *self._knots(), strict=True):
            if used is not None and x not in used:
                continue
            value = _mixed(g, weights, row)
            if self.rates:
                found[x] = g.add(value, self._bend([rate[x] for rate in self.rates]))
            else:
                found[x] = s.link(f"{name_of(x)} at {self.label}", value)
        return found

    def _bend(self, rates: Sequence[int]) -> int:
        """Contribution of the rates at the knots to the collocation polynomial, which has one
        degree more than the polynomial through the values at the knots."""
        g, knots = self.s.graph, self.s.scheme.knots
        factors = [g.sub(self.share, g.const(c)) for c in knots]
        weights = [1.0 / (len(knots) * np.prod([c - o for o in knots if o != c])) for c in knots]
        mixed = g.sum([g.mul(g.const(float(w)), f) for w, f in zip(weights, rates, strict=True)])
        return g.mul(self.s.h, g.mul(reduce(g.mul, factors), mixed))

    def _knots(self) -> list[list[int]]:
        """Rated states at the knots."""
        s = self.s
        x0, x1 = map(s.nodes, s.x)
        return [x0, *(s.nodes(x) for x, _ in s.inner), x1]

    def _inputs(self, used: set[sp.Basic] | None) -> dict[sp.Basic, int]:
        """Unknown inputs, and algebraic states that have values at the stages."""
        g, found = self.s.graph, dict[sp.Basic, int]()
        for symbol, row in self._rows_of_inputs().items():
            if used is not None and symbol not in used:
                continue
            values = [*row.values()]
            if len(values) == 1:
                found[symbol] = values[0]
                continue
            value = _mixed(g, _basis(g, [*row], self.share), values)
            found[symbol] = self.s.link(f"{name_of(symbol)} at {self.label}", value)
        return found

    def _rows_of_inputs(self) -> dict[sp.Basic, dict[float, int]]:
        """Values of each input in the interval, by place: at the stages, and at both nodes if it is
        late, or at the left node if it is held, at both if it is linear, else at the knots."""
        s, problem, scheme = self.s, self.s.problem, self.s.scheme
        stages = dict(zip(scheme.nodes, map(s.nodes, s.stages), strict=False))
        found = {x: {c: row[k] for c, row in stages.items()} for k, x in enumerate(problem.staged)}
        inner = [dict(zip(problem.inner_inputs, s.nodes(u), strict=True)) for _, u in s.inner]
        for symbol, begin, end in zip(problem.node_inputs, *map(s.nodes, s.u), strict=True):
            pairs = zip(scheme.inner, inner, strict=True)
            within = {c: row[symbol] for c, row in pairs if symbol in row}
            held = name_of(symbol) in problem.held
            nodes = {0.0: begin} if held else {0.0: begin, **within, 1.0: end}
            found[symbol] = {**found.get(symbol, {}), **nodes}
        return found

    def _signal(self, number: int) -> int:
        """A known signal on the polynomial through the nodes and what is between; the left node if
        it is held."""
        s = self.s
        begin, *within, end = (s.nodes(row)[number] for row in (s.s[0], *s.between, s.s[1]))
        name = name_of(s.problem.signals[number])
        if name in s.problem.held:
            return begin
        pairs = dict(zip((0.0, *signal_places(s.scheme), 1.0), (begin, *within, end), strict=True))
        value = _mixed(s.graph, _basis(s.graph, [*pairs], self.share), [*pairs.values()])
        return s.link(f"{name} at {self.label}", value)

    def _time(self) -> int:
        g, s = self.s.graph, self.s
        begin, h = s.spans
        return s.link(f"t at {self.label}", g.add(begin, g.mul(self.share, h)))

    def _slopes(self, at: At) -> list[int]:
        """x': of the equations where they give it, else of the polynomial."""
        s = self.s
        try:
            return s.explicit(at)
        except ValueError:
            return self._polynomial_slopes()

    def _polynomial_slopes(self) -> list[int]:
        s, g = self.s, self.s.graph
        polynomials = [_powers(s.scheme.knots, k) for k in range(len(s.scheme.knots))]
        weights = [_horner(g, np.polyder(p), self.share) for p in polynomials]
        found = {}
        for x, *row in zip(s.problem.node_states, *self._knots(), strict=True):
            slope = g.mul(_mixed(g, weights, row), g.inv(s.spans[1]))
            found[x] = s.link(f"rate of {name_of(x)} at {self.label}", slope)
        return [found.get(x, g.zero) for x in s.problem.model.states]


class _Step(_Slot):
    """A place in a step of time."""

    def _states(self, used: set[sp.Basic] | None) -> dict[sp.Basic, int]:
        s, g, share = self.s, self.s.graph, self.share
        left = g.sub(share, g.one)
        both, skew, found = g.mul(share, left), g.add(share, left), dict[sp.Basic, int]()
        for x, begin, end in zip(s.problem.node_states, *self._knots(), strict=True):
            if used is not None and x not in used:
                continue
            first, last = (rate[x] for rate in self.rates)
            rise = g.mul(s.h, g.add(g.mul(left, first), g.mul(share, last)))
            step = g.sub(end, begin)
            bend = g.mul(both, g.sub(rise, g.mul(skew, step)))
            found[x] = g.sum([begin, g.mul(share, step), bend])
        return found


def _basis(g: Graph, knots: Sequence[float], share: int) -> list[int]:
    """The Lagrange polynomials through knots, at a share that is a node of the graph."""
    found = []
    for own in knots:
        others = [o for o in knots if o != own]
        factors = [g.sub(share, g.const(o)) for o in others]
        scale = g.const(float(1.0 / np.prod([own - o for o in others])))
        found.append(reduce(g.mul, factors, scale))
    return found


def _powers(knots: Sequence[float], k: int) -> np.ndarray:
    """Coefficients of a Lagrange polynomial, of the highest power first."""
    others = [o for j, o in enumerate(knots) if j != k]
    return np.asarray(np.poly(others) / np.prod([knots[k] - o for o in others]))


def _horner(g: Graph, coefficients: np.ndarray, x: int) -> int:
    first, *rest = (g.const(float(c)) for c in coefficients)
    return reduce(lambda value, c: g.add(g.mul(value, x), c), rest, first)


def _mixed(g: Graph, weights: Sequence[int], row: Sequence[int]) -> int:
    return g.sum([g.mul(w, value) for w, value in zip(weights, row, strict=True)])
