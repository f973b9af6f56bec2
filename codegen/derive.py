"""Exact derivatives on the graph, with exact structural sparsity.

An entry that is identically zero does not exist. Both sweeps cost a small multiple of the
operations they differentiate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kinesym.codegen.graph import Graph

#: One entry per (row, column), sorted by row and then by column.
Sparse = dict[tuple[int, int], int]


def _weighted(g: Graph, node: int, position: int, partial: int, weight: int) -> int:
    """`partial * weight`; a select keeps the untaken branch from leaking NaN into the product, of
    y = a/b, -y * weight/b neither over- nor underflows where it need not."""
    if g.op[node] == "div" and position == 1:
        return g.neg(g.mul(node, g.div(weight, g.args[node][1])))
    if g.op[node] == "inv":
        return g.neg(g.mul(node, g.mul(node, weight)))
    if g.op[node] != "select":
        return g.mul(partial, weight)
    condition = g.args[node][0]
    branches = (weight, g.zero) if position == 1 else (g.zero, weight)
    return g.zero if position == 0 else g.select(condition, *branches)


def _partials(g: Graph, node: int) -> list[tuple[int, int, int]]:
    """Position, operand and derivative with respect to it, where that is not zero."""
    op, args = g.op[node], g.args[node]
    if op == "select":
        found: tuple[int, ...] = (g.zero, g.one, g.one)  # the branch is chosen by `_weighted`
    elif op == "div":
        found = (g.div(g.one, args[1]), g.one)  # the second one, too
    else:
        rule = g.operations[op].partials
        assert rule is not None  # only div and select have none
        found = rule(g, node, args)
    pairs = zip(args, found, strict=True)
    return [(k, operand, e) for k, (operand, e) in enumerate(pairs) if e != g.zero]


def _active(g: Graph, outputs: Sequence[int], wrt: Sequence[int]) -> list[int]:
    """Ancestors of `outputs` that depend on `wrt`, operands first."""
    active = set(wrt)
    order = []
    for node in g.ancestors(outputs):
        if node in active or any(a in active for a in g.args[node]):
            active.add(node)
            order.append(node)
    return order


def pullback(
    g: Graph, outputs: Sequence[int], weights: Sequence[int], wrt: Sequence[int]
) -> list[int]:
    """Gradient of `sum(weights * outputs)` with respect to `wrt`, by one reverse sweep."""
    order = _active(g, outputs, wrt)
    active, leaves = set(order), set(wrt)
    terms: dict[int, list[int]] = {}
    for output, weight in zip(outputs, weights, strict=True):
        terms.setdefault(output, []).append(weight)
    adjoint: dict[int, int] = {}
    for node in reversed(order):
        if node not in terms:
            continue
        bar = adjoint[node] = g.sum(terms.pop(node))
        if node in leaves or bar == g.zero:
            continue
        for position, operand, partial in _partials(g, node):
            if operand in active:
                term = _weighted(g, node, position, partial, bar)
                terms.setdefault(operand, []).append(term)
    return [adjoint.get(node, g.zero) for node in wrt]


def jacobian(g: Graph, outputs: Sequence[int], wrt: Sequence[int]) -> Sparse:
    """Derivatives of `outputs` (rows) with respect to `wrt` (columns), by a forward sweep.

    Each node has the sparse row of its own derivatives, so the work is proportional to the
    derivatives that exist.
    """
    column = {node: j for j, node in enumerate(wrt)}
    tangent: dict[int, dict[int, int]] = {}
    for node in _active(g, outputs, wrt):
        if node in column:
            tangent[node] = {column[node]: g.one}
            continue
        terms: dict[int, list[int]] = {}
        for position, operand, partial in _partials(g, node):
            for j, dot in tangent.get(operand, {}).items():
                terms.setdefault(j, []).append(_weighted(g, node, position, partial, dot))
        row = {j: g.sum(parts) for j, parts in terms.items()}
        tangent[node] = {j: dot for j, dot in row.items() if dot != g.zero}
    return {
        (i, j): tangent[output][j]
        for i, output in enumerate(outputs)
        for j in sorted(tangent.get(output, ()))
    }


def hessian(
    g: Graph, outputs: Sequence[int], weights: Sequence[int], wrt: Sequence[int]
) -> tuple[list[int], Sparse]:
    """Gradient of `sum(weights * outputs)` and its second derivatives.

    These are the upper triangle, row <= column, by a reverse and then a forward sweep; the weights
    do not depend on `wrt`.
    """
    gradient = pullback(g, outputs, weights, wrt)
    second = jacobian(g, gradient, wrt)
    return gradient, {(i, j): node for (i, j), node in second.items() if i <= j}


def with_kinks(g: Graph, outputs: Sequence[int]) -> list[int]:
    """Outputs with unchanged values, where distances, square roots of sums of squares, have
    derivatives of 0 where they are 0: subgradients, with which Newton's method goes on. No
    derivatives of results, which there are none of at a kink."""
    return _flat_at_zero(g, outputs, _distances(g, g.ancestors(outputs)))


def _distances(g: Graph, nodes: Sequence[int]) -> list[int]:
    """Square roots of sums of squares."""
    return [node for node in nodes if g.op[node] == "sqrt" and _is_square(g, g.args[node][0])]


def _flat_at_zero(g: Graph, outputs: Sequence[int], distances: Sequence[int]) -> list[int]:
    """Outputs with unchanged values, where these distances have derivatives of 0 at 0."""
    shown: dict[int, int] = {}
    for node in distances:
        (distance,) = g.substitute([node], shown)
        shown[node] = g.select(g.binary("eq", distance, g.zero), g.zero, distance)
    return g.substitute(outputs, shown) if shown else list(outputs)


def _is_square(g: Graph, node: int) -> bool:
    """Whether a node is a square, or a sum of squares, with positive factors."""
    op, args, stack = g.op, g.args, [node]
    while stack:
        top = stack.pop()
        if op[top] == "add":
            stack.extend(args[top])
        elif op[top] == "mul" and g.value.get(args[top][0], -1.0) > 0.0:
            stack.append(args[top][1])
        elif op[top] != "mul" or args[top][0] != args[top][1]:
            return False
    return True


def with_smooth_kinks(g: Graph, outputs: Sequence[int]) -> list[int]:
    """Outputs with unchanged values, where distances, see `with_kinks`, have derivatives of 0 where
    they are 0 if that is exact: each is a factor of products with what vanishes there too, as in
    sqrt(v**2 + w**2)*v, a drag from rest."""
    nodes = g.ancestors(outputs)
    users: dict[int, list[int]] = {output: [-1] for output in outputs}
    for node in nodes:
        for operand in g.args[node]:
            users.setdefault(operand, []).append(node)
    roots = _distances(g, nodes)
    inside = [n for n in roots if _in_products(g, n, users, _bases(g, g.args[n][0]))]
    return _flat_at_zero(g, outputs, inside)


def _bases(g: Graph, node: int) -> set[int]:
    """Bases of the squares in a sum of squares."""
    found, stack = set[int](), [node]
    while stack:
        args = g.args[top := stack.pop()]
        if g.op[top] == "mul" and args[0] == args[1]:
            found.add(args[0])
        else:
            stack.extend(args if g.op[top] == "add" else args[1:])
    return found


def _in_products(g: Graph, node: int, users: Mapping[int, list[int]], bases: set[int]) -> bool:
    """Whether each use of a node is in a product that has one of `bases` as another factor."""
    stack, seen = [node], set[int]()
    while stack:
        top = stack.pop()
        for user in users[top]:
            op = g.op[user] if user >= 0 else ""
            others = [a for a in g.args[user] if a != top] if op == "mul" else []
            if bases.isdisjoint(_factors(g, others)) and user not in seen:
                if op not in ("mul", "neg"):
                    return False
                seen.add(user)
                stack.append(user)
    return True


def _factors(g: Graph, nodes: Sequence[int]) -> set[int]:
    """Nodes, and the factors of products among them."""
    found, stack = set[int](), [*nodes]
    while stack:
        top = stack.pop()
        if top not in found:
            found.add(top)
            stack.extend(g.args[top] if g.op[top] in ("mul", "neg") else ())
    return found


def compose_jacobian(g: Graph, outer: Sparse, inner: Sparse) -> Sparse:
    """Jacobian of f(v(z)) from df/dv (`outer`) and dv/dz (`inner`)."""
    rows = by_row(inner)
    terms: dict[tuple[int, int], list[int]] = {}
    for (i, v), weight in outer.items():
        for z, dv in rows.get(v, {}).items():
            terms.setdefault((i, z), []).append(g.mul(weight, dv))
    return summed(g, terms)


def compose_hessian(
    g: Graph, gradient: Sequence[int], outer: Sparse, inner: Sparse, curvature: Sequence[Sparse]
) -> Sparse:
    """Second derivatives of f(v(z)), upper triangle.

    `gradient` is df/dv, `outer` the upper triangle of d2f/dv2, `inner` dv/dz and `curvature[v]`
    the upper triangle of d2v/dz2.
    """
    full = {**outer, **{(j, i): node for (i, j), node in outer.items()}}
    half = compose_jacobian(g, full, inner)  # (v, z)
    rows, halves = by_row(inner), by_row(half)
    terms: dict[tuple[int, int], list[int]] = {}
    for v in sorted(halves):
        for z1, dv in rows.get(v, {}).items():
            for z2, node in halves[v].items():
                if z1 <= z2:
                    terms.setdefault((z1, z2), []).append(g.mul(node, dv))
    for bar, second in zip(gradient, curvature, strict=True):
        for key, node in second.items():
            terms.setdefault(key, []).append(g.mul(bar, node))
    return summed(g, terms)


def pattern_of(entries: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Rows and columns of sparse entries, in their order."""
    pairs = list(entries)
    return [[i for i, _ in pairs], [j for _, j in pairs]]


def by_row(entries: Mapping[tuple[int, int], int]) -> dict[int, dict[int, int]]:
    """Sparse entries by row, then column."""
    rows: dict[int, dict[int, int]] = {}
    for (i, j), node in entries.items():
        rows.setdefault(i, {})[j] = node
    return rows


def summed(g: Graph, terms: Mapping[tuple[int, int], list[int]]) -> Sparse:
    """Sparse entries that are sums, but for those that are zero."""
    sums = {key: g.sum(parts) for key, parts in sorted(terms.items())}
    return {key: node for key, node in sums.items() if node != g.zero}
