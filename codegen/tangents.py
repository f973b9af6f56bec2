"""States with their derivatives by few unknowns, stepped as one: many trials side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kinesym.codegen.derive import Sparse, by_row, jacobian
from kinesym.codegen.evaluate import ModelSymbols, model_symbols
from kinesym.codegen.graph import Graph
from kinesym.codegen.kernel import Argument, Kernel, Program
from kinesym.codegen.solve import Linearised, linearised_rates
from kinesym.codegen.stepping import explicit_description
from kinesym.symbolic.names import name_of
from kinesym.symbolic.problem import Problem


def tangent_program(problem: Problem, starts: int) -> Program:
    """Kernels that step x and X = d x / d q together, and what is measured with its derivatives.

    Columns of X are the unknown parameters and as many initial states as `starts`, whose columns
    have no entries but those that X begins with. States are x, then the rows of X; outputs are each
    channel, followed by its derivatives. Parameters differ between members.
    """
    model, chosen = problem.model, problem.unknown_parameters
    s = model_symbols(model, varying=True, tables=problem.tables)
    columns = [*map(name_of, chosen), *(f"start {k}" for k in range(starts))]
    x, xdot = (_wider(argument, columns) for argument in (s.x, s.xdot))
    parameters = [s.lower(p) for p in chosen]
    residual = [s.lower(e) for e in model.equations]
    wrt = [*s.nodes(s.x), *parameters]
    found = linearised_rates(s.graph, residual, s.nodes(s.xdot), model.state_names, wrt)
    about = (tuple(x.symbols), "x' = f(x, u, p, t) and X' = M^-1 (side X + direct)")
    rates = [*found.rates, *_rates(s.graph, found, s.nodes(x), len(columns))]
    arguments = (x, *s.arguments[1:])
    rhs = Kernel("rhs", s.graph, arguments, tuple(rates), *about)
    measured = problem.sampled(between=False)
    values = _outputs(problem, s, (s.nodes(xdot), s.nodes(x)), parameters, len(columns))
    names = [label for y in measured for label in (y, *(f"d {y} / d {c}" for c in columns))]
    outputs = Kernel(
        "outputs", s.graph, (xdot, *arguments), tuple(values), tuple(names), "y and d y / d q"
    )
    description = explicit_description(
        model,
        states=[name.split(".", 1)[1] for name in x.symbols],
        outputs=names,
        outputs_need_rates=any(map(problem.moves, measured.values())),
        varying=True,
    )
    name = f"{model.name}_tangents".replace("-", "_")
    return Program(name, (rhs, outputs), {"stepping": description}, problem.tables.values)


def _wider(argument: Argument, columns: Sequence[str]) -> Argument:
    """An argument of n values, with their derivatives (n, columns) behind them."""
    more = (f"{x} by {c}" for x in argument.symbols for c in columns)
    return replace(argument, symbols=(*argument.symbols, *more))


def _rates(g: Graph, found: Linearised, x: Sequence[int], width: int) -> list[int]:
    """X', row by row; x : nodes of x, then of X."""
    n = len(found.rates)
    side = _product(g, found.side, x[n:], n, width)
    for target, source, node in found.steps:
        for c in range(width):
            value = g.mul(node, side[source][c])
            side[target][c] = value if target == source else g.sub(side[target][c], value)
    return [node for row in side for node in row]


def _product(
    g: Graph, entries: Sparse, X: Sequence[int], n: int, width: int, rows: int | None = None
) -> list[list[int]]:
    """Rows of a sparse matrix times X (n, width), of which the columns from n on are those of the
    parameters, whose derivatives are 1 in the first columns of the product."""
    of = by_row(entries)

    def entry(row: Mapping[int, int], c: int) -> int:
        through = [g.mul(node, X[j * width + c]) for j, node in row.items() if j < n]
        return g.sum(through + [node for j, node in row.items() if j == n + c])

    count = n if rows is None else rows
    return [[entry(of.get(i, {}), c) for c in range(width)] for i in range(count)]


def _outputs(
    problem: Problem,
    s: ModelSymbols,
    nodes: tuple[Sequence[int], Sequence[int]],
    parameters: Sequence[int],
    width: int,
) -> list[int]:
    """Outputs: each measured channel, followed by its derivatives; nodes : of x', X' and of x,
    X."""
    g, n = s.graph, len(problem.model.states)
    values = [s.lower(e) for e in problem.sampled(between=False).values()]
    (xdot, x), count = nodes, len(values)
    by_rate = jacobian(g, values, xdot[:n])
    by_state = jacobian(g, values, [*x[:n], *parameters])
    direct = _product(g, by_state, x[n:], n, width, count)
    moving = _product(g, by_rate, xdot[n:], n, width, count)
    rows = zip(values, direct, moving, strict=True)
    return [node for y, a, b in rows for node in (y, *map(g.add, a, b))]
