"""Gates: conditions under which a value counts in sums and products of values that are chosen or
zero.

An adjoint is the sum of those of all users, each of which may be a case that is chosen or not.
Where none is, the sum is 0, and so is its product with a derivative, even if that is not finite
there: sqrt(p) in a case that is not chosen has no derivative at p = -1 and needs none.
"""

from __future__ import annotations

from kinesym.codegen.algebra import Algebra

#: Operations that are 0 where one operand is, or all, or what they choose.
_LINEAR = frozenset(("select", "add", "sub", "neg", "mul", "div"))


class Gates:
    """Nodes of a graph that are 0 wherever a condition does not hold, and these conditions."""

    def __init__(self, graph: Algebra) -> None:
        self._graph = graph
        self._gated: set[int] = set()
        self._known: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._gated)

    def __contains__(self, node: int) -> bool:
        return node in self._gated

    def see(self, node: int) -> None:
        """Note a new node if it is gated, which its operands tell: one of two cases is 0 or gated,
        both terms are gated, or a factor is. A choice is the first of all that are."""
        op, args = self._graph.op[node], self._graph.args[node]
        if op not in _LINEAR:
            return
        if op in ("add", "sub"):
            gated = self._gated.issuperset(args)
        else:
            of = {"select": args[1:], "div": args[:1]}.get(op, args)
            gated = not self._gated.isdisjoint(of) or (op == "select" and self._graph.zero in of)
        if gated:
            self._gated.add(node)

    def __getitem__(self, node: int) -> int:
        """The condition, 1 or 0, as a node."""
        found, stack = {node}, [node]
        while stack:  # a loop, as there may be thousands
            for a in self._graph.args[stack.pop()]:
                if a in self._gated and a not in self._known and a not in found:
                    found.add(a)
                    stack.append(a)
        for new in sorted(found):
            if new not in self._known:
                self._known[new] = self._condition(new)
        return self._known[node]

    def _condition(self, node: int) -> int:
        """Condition of a node, where those of its operands are known."""
        g, known = self._graph, self._known
        op, args = g.op[node], g.args[node]
        if op == "select":
            kept = zip((args[0], g.no(args[0])), args[1:], strict=True)
            of = [g.mul(c, known.get(x, g.one)) for c, x in kept if x != g.zero]
            return of[0] if len(of) == 1 else self._either(*of)
        if op in ("add", "sub"):
            return self._either(known[args[0]], known[args[1]])
        of = [known[a] for a in args[: 1 if op == "div" else None] if a in known]
        return of[0] if len(of) == 1 else g.mul(*of)

    def _either(self, a: int, b: int) -> int:
        """1 where one of two conditions holds."""
        g = self._graph
        if g.one in (a, b) or g.no(a) == b:
            return g.one
        return a if a == b else g.binary("max", a, b)
