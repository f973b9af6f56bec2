"""A kind of point: its cost and constraints as nodes, and the symbols that it reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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
    that `cost` and `rows`, the constraints by their labels, are written in. The objective is `cost`
    and the sum of weight * residual^2 over `squares`, pairs (weight, residual).
    """

    name: str
    graph: Graph
    variables: tuple[Argument, ...]
    data: tuple[Argument, ...]
    outer: Sequence[int]
    inner: Sequence[int]
    cost: int
    rows: Mapping[str, int]
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
        return self.graph.symbols(s for group in self.variables for s in group.symbols)


class Points:
    """Graph symbols of one point or two, and the argument groups they belong to.

    x, u, s : states, unknown inputs and signals, one group for each of `suffixes`. p, T, k :
    unknown parameters, the duration (if free) and known parameters. variables : the groups of z.
    """

    def __init__(self, problem: Problem, suffixes: Sequence[str] = ("0", "1")) -> None:
        self.problem, self.graph = problem, Graph()
        self.x, self.u, self.s = (
            [self.group(name + suffix, members) for suffix in suffixes]
            for name, members in (
                ("x", problem.model.states),
                ("u", problem.unknown_inputs),
                ("s", problem.signals),
            )
        )
        duration = ["duration"] if problem.free_duration else []
        self.p = self.group("p", problem.unknown_parameters, varying=False)
        self.T = self.group("T", duration, varying=False)
        self.k = self.group("k", problem.known_parameters, varying=False)
        self.variables = (*self.x, *self.u, self.p, self.T)

    def group(self, name: str, members: Iterable[object], varying: bool = True) -> Argument:
        """The argument `name` of one scalar per member."""
        return Argument(name, tuple(f"{name}.{name_of(m)}" for m in members), varying)

    def nodes(self, *groups: Argument) -> list[int]:
        """Their nodes."""
        return self.graph.symbols(s for group in groups for s in group.symbols)

    def of_duration(self, *groups: Argument) -> list[int]:
        """Their nodes, times the duration if that is unknown."""
        nodes, T = self.nodes(*groups), self.nodes(self.T)
        return [self.graph.mul(T[0], node) for node in nodes] if T else nodes

    def at(self, k: int, time: int) -> At:
        """States, unknown inputs, signals and time at point k."""
        return self.nodes(self.x[k]), self.nodes(self.u[k]), self.nodes(self.s[k]), time

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
        table: dict[sp.Basic, int] = {t: time, **self._parameters()}
        table.update(zip(model.states, states, strict=True))
        table.update(zip(problem.unknown_inputs, inputs, strict=True))
        table.update(zip(problem.signals, signals, strict=True))
        if rates:
            table.update(zip(model.derivatives, rates, strict=True))
        lower = Lowering(self.graph, table)
        absent = set() if rates else moving_symbols(model)
        lower.define((s, e) for s, e in model.intermediates if s not in absent)
        return lower

    def _parameters(self) -> dict[sp.Basic, int]:
        symbols = (*self.problem.unknown_parameters, *self.problem.known_parameters)
        return dict(zip(symbols, self.nodes(self.p, self.k), strict=True))

    def boundary(self, e: sp.Expr, first: Lowering, last: Lowering) -> int:
        """A condition in which `at_start` and `at_end` stand for values at the two ends."""
        table: dict[sp.Basic, int] = {}
        for end in sorted(e.atoms(at_start, at_end), key=str):
            table[end] = (first if isinstance(end, at_start) else last)(end.args[0])
        return Lowering(self.graph, {**table, **self._parameters()})(e)

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


class Ends(Points):
    """Two points with a time of their own each, such as the ends of a trial.

    last : the one at the end of a trial, whose time is the duration if that is unknown.
    """

    def __init__(self, problem: Problem, last: int) -> None:
        super().__init__(problem)
        self._times = [self.group(name, ["time"]) for name in ("t0", "t1")]
        self._data = (self.k, *self.s, *self._times)
        if problem.free_duration:
            self._times[last] = self.T
        # makes the symbols; sums and products are written in the order of their operands' making
        self.nodes(self._times[last], *self.x, *self.u)

    def end(self, k: int) -> At:
        """States, unknown inputs, signals and time at point k."""
        return self.at(k, *self.nodes(self._times[k]))

    def family(self, name: str, cost: int, rows: Mapping[str, int]) -> Family:
        """Cost and constraints, by their labels, as a family."""
        own = self.nodes(*self.variables)
        return Family(name, self.graph, self.variables, self._data, own, own, cost, rows)
