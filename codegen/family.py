"""A kind of point: its cost and constraints as nodes, and the symbols that it reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import sympy as sp

from kinesym.codegen.graph import Graph
from kinesym.codegen.kernel import Argument
from kinesym.codegen.lower import Lowering
from kinesym.codegen.solve import NotExplicit, model_rates
from kinesym.symbolic.names import name_of, t
from kinesym.symbolic.objective import at_end, at_start
from kinesym.symbolic.problem import Problem, moving_symbols

#: States, unknown inputs, signals and time at one point, as nodes.
At = tuple[Sequence[int], Sequence[int], Sequence[int], int]


@dataclass(frozen=True)
class Family:
    """Cost and constraints at one kind of point, in terms of `inner` = v(z).

    `variables` are the groups of z, `data` the groups of known numbers. `outer` are the symbols v
    that `cost` and `constraints` are written in. The objective is `cost` and the sum of weight *
    residual^2 over `squares`, pairs (weight, residual).
    """

    name: str
    graph: Graph
    variables: tuple[Argument, ...]
    data: tuple[Argument, ...]
    outer: Sequence[int]
    inner: Sequence[int]
    cost: int
    constraints: Sequence[int]
    labels: Sequence[str]
    outputs: Mapping[str, int] = field(default_factory=dict)
    squares: Sequence[tuple[int, int]] = ()

    @property
    def objective(self) -> int:
        """All of the objective at this point."""
        g = self.graph
        return g.sum([self.cost, *(g.mul(w, g.mul(r, r)) for w, r in self.squares)])

    @property
    def z(self) -> list[int]:
        """The local variables."""
        return [self.graph.symbol(s) for group in self.variables for s in group.symbols]


@dataclass
class Symbols:
    """Graph symbols of one point and the argument groups they belong to."""

    problem: Problem
    graph: Graph = field(default_factory=Graph)

    def group(self, name: str, members: Sequence[object], varying: bool = True) -> Argument:
        """The argument `name` of one scalar per member."""
        symbols = tuple(f"{name}.{m if isinstance(m, str) else name_of(m)}" for m in members)
        return Argument(name, symbols, varying)

    def pair(self, name: str, members: Sequence[object]) -> tuple[Argument, Argument]:
        """The arguments `name0` and `name1` of one scalar per member."""
        return self.group(f"{name}0", members), self.group(f"{name}1", members)

    def nodes(self, group: Argument) -> list[int]:
        """Its nodes."""
        return self.graph.symbols(group.symbols)

    def parameters(self) -> tuple[Argument, Argument, Argument]:
        """Unknown parameters, duration (if free) and known parameters."""
        problem = self.problem
        duration = ["duration"] if problem.free_duration else []
        return (
            self.group("p", problem.unknown_parameters, varying=False),
            self.group("T", duration, varying=False),
            self.group("k", problem.known_parameters, varying=False),
        )

    def lowering(
        self,
        states: Sequence[int],
        inputs: Sequence[int],
        signals: Sequence[int],
        time: int,
        rates: Sequence[int] = (),
    ) -> Lowering:
        """A translator of expressions at this point, intermediates included."""
        problem, model = self.problem, self.problem.model
        p, _, k = self.parameters()
        table: dict[sp.Basic, int] = {t: time}
        table.update(zip(model.states, states, strict=True))
        table.update(zip(problem.unknown_inputs, inputs, strict=True))
        table.update(zip(problem.signals, signals, strict=True))
        table.update(zip(problem.unknown_parameters, self.nodes(p), strict=True))
        table.update(zip(problem.known_parameters, self.nodes(k), strict=True))
        if rates:
            table.update(zip(model.derivatives, rates, strict=True))
        lower = Lowering(self.graph, table)
        absent = set() if rates else moving_symbols(model)
        lower.define((s, e) for s, e in model.intermediates if s not in absent)
        return lower

    def explicit(
        self, states: Sequence[int], inputs: Sequence[int], signals: Sequence[int], time: int
    ) -> list[int]:
        """x' = f(x, u, p, t) at this point; raises `ValueError` if the equations do not give it."""
        model = self.problem.model
        rates = self.graph.symbols(f"rate.{name}" for name in model.state_names)
        lower = self.lowering(states, inputs, signals, time, () if model.explicit else rates)
        try:
            return model_rates(model, lower, rates)
        except NotExplicit as error:
            raise ValueError(
                f"{self.problem.scheme.name} needs explicit derivatives: {error}; "
                "use midpoint or backward-euler"
            ) from error


class TwoPoints:
    """What is read of two points, 0 and 1, each with a time of its own.

    last : the one at the end of a trial, whose time is the duration if that is unknown.
    """

    def __init__(self, problem: Problem, last: int) -> None:
        s = self.symbols = Symbols(problem)
        x = s.pair("x", problem.model.states)
        u = s.pair("u", problem.unknown_inputs)
        self._signals, times = s.pair("s", problem.signals), s.pair("t", ["time"])
        self._unknown, duration, known = s.parameters()
        self.variables = (*x, *u, self._unknown, duration)
        self.data = (known, *self._signals, *times)
        self._times = list(times)
        if problem.free_duration:
            self._times[last] = duration
        s.nodes(self._times[last])
        self.x, self.u = [s.nodes(group) for group in x], [s.nodes(group) for group in u]

    def at(self, k: int) -> At:
        """States, unknown inputs, signals and time at point k."""
        s = self.symbols
        return self.x[k], self.u[k], s.nodes(self._signals[k]), s.nodes(self._times[k])[0]

    def family(self, name: str, cost: int, rows: Mapping[str, int]) -> Family:
        """Cost and constraints, by their labels, as a family."""
        own = [node for group in self.variables for node in self.symbols.nodes(group)]
        return Family(
            name=name,
            graph=self.symbols.graph,
            variables=self.variables,
            data=self.data,
            outer=own,
            inner=own,
            cost=cost,
            constraints=list(rows.values()),
            labels=list(rows),
        )


def boundary(e: sp.Expr, s: Symbols, first: Lowering, last: Lowering) -> int:
    """A condition in which `at_start` and `at_end` stand for values at the two ends."""
    table: dict[sp.Basic, int] = {}
    for end in sorted(e.atoms(at_start, at_end), key=str):
        table[end] = (first if isinstance(end, at_start) else last)(end.args[0])
    p, _, k = s.parameters()
    table.update(zip(s.problem.unknown_parameters, s.nodes(p), strict=True))
    table.update(zip(s.problem.known_parameters, s.nodes(k), strict=True))
    return Lowering(s.graph, table)(e)
