"""One expression in some symbols: value, gradient and Hessian by the project and by the reference.

Small enough to try thousands, and what a flagged model is shrunk to.
"""

from dataclasses import dataclass

import mpmath
import numpy as np
import sympy as sp
from jets import variable
from reference import MANY, NOTHING, SIDES, accepts, is_endless
from sympy.core.function import AppliedUndef
from tree import Sides, Tree

from kinesym.codegen.derive import hessian
from kinesym.codegen.graph import Graph
from kinesym.codegen.interpret import interpret
from kinesym.codegen.kernel import Argument, Kernel
from kinesym.codegen.lower import Lowering
from kinesym.symbolic.expression import real_expression


@dataclass
class Flag:
    """A number that is wrong: of `expression` at `point` (by symbol); its place in the jet."""

    expression: object
    point: dict
    entry: tuple
    found: float
    expected: list

    def __str__(self):
        symbols = list(self.point)
        what = "value" if not self.entry else "d/" + " d".join(str(symbols[i]) for i in self.entry)
        true = [e if isinstance(e, str) else mpmath.nstr(e[0], 17) for e in self.expected]
        return (
            f"{what} of {self.expression} at {self.point}: {self.found!r}, "
            f"true {', '.join(dict.fromkeys(true))}"
        )


def kernel_of(expression, leaves, name="one"):
    """The kernel of value, gradient and Hessian of an expression, and the entries in its order."""
    g = Graph()
    nodes = g.symbols(f"x.{k}" for k in range(len(leaves)))
    value = Lowering(g, dict(zip(leaves, nodes, strict=True)))(real_expression(expression, "term"))
    gradient, second = hessian(g, [value], [g.one], nodes)
    entries = {(): value, **{(j,): d for j, d in enumerate(gradient) if d != g.zero}, **second}
    argument = Argument("x", tuple(f"x.{k}" for k in range(len(leaves))))
    labels = tuple(map(str, entries))
    return Kernel(name, g, (argument,), tuple(entries.values()), labels), list(entries)


def project(expression, leaves, points):
    """Numbers of the project by entry, at every point, by the interpreter."""
    kernel, entries = kernel_of(expression, leaves)
    x = np.array(points, dtype=float).reshape(-1, len(leaves)).T
    values = np.real(interpret(kernel, {"x": x}, x.shape[1]))
    return [dict(zip(entries, column, strict=True)) for column in values.T]


def truth(expression, leaves, point, ways=SIDES):
    """Jets of the expression for every way at the kinks."""
    sides = Sides()
    known = {s: variable(float(v), k) for k, (s, v) in enumerate(zip(leaves, point, strict=True))}
    jets = [Tree(known, sides)(expression)]
    if sides.met:
        jets += [Tree(known, Sides(*side))(expression) for side in ways]
    return jets


def compare(expression, leaves, point, found):
    """The flags of one point, given what the project found."""
    wrong = _compared(expression, leaves, point, found, SIDES)
    several = any(len(flag.expected) > 1 for flag in wrong)
    return _compared(expression, leaves, point, found, [*SIDES, *MANY]) if several else wrong


def _compared(expression, leaves, point, found, ways):
    jets = truth(expression, leaves, point, ways)
    expected = {(): [jet.lack or jet.number for jet in jets]}
    if not any(jet.lack for jet in jets):
        keys = set(found).union(*({(k,) for k in jet.slope} | set(jet.bend) for jet in jets)) - {()}
        for key in sorted(keys):
            part = [
                (jet.slope.get(key[0]) if len(key) == 1 else jet.bend.get(key)) or NOTHING
                for jet in jets
            ]
            expected[key] = part
    about = any(map(is_endless, jets)), any(jet.strained for jet in jets)
    return [
        Flag(
            expression,
            dict(zip(leaves, map(float, point), strict=True)),
            key,
            float(found.get(key, 0.0)),
            e,
        )
        for key, e in expected.items()
        if not accepts(found.get(key, 0.0), e, len(key), *about)
    ]


def flags(expression, leaves, points):
    """All flags of an expression at some points."""
    found = project(expression, leaves, points)
    return [
        flag
        for point, numbers in zip(points, found, strict=True)
        for flag in compare(expression, leaves, point, numbers)
    ]


def smallest(flag):
    """The flag of the smallest subexpression that is wrong at the same point."""
    parts = sorted(
        {
            e
            for e in sp.preorder_traversal(flag.expression)
            if isinstance(e, sp.Expr)
            and e.args
            and not isinstance(e, (AppliedUndef, sp.Derivative))
        },
        key=lambda e: (sp.count_ops(e), sp.default_sort_key(e)),
    )
    for part in parts:
        leaves = [s for s in flag.point if part.has(s)]
        if not leaves:
            continue
        try:
            wrong = flags(part, leaves, [[flag.point[s] for s in leaves]])
        except (ValueError, NotImplementedError):
            continue
        if wrong:
            return wrong[0]
    return flag
