"""The nonlinear program of a case in high precision, straight from what the schemes say.

With h = t_1 - t_0 the length of an interval and f the equations, each of them zero:

midpoint : f((x_1 - x_0)/h, (x_0 + x_1)/2, (u_0 + u_1)/2, t_0 + h/2)
backward-euler : f((x_1 - x_0)/h, x_1, u_1, t_1)
trapezoid : (x_1 - x_0)/h - (g_0 + g_1)/2 with x' = g(x, u, t) solved for at both nodes

An input that is held has its left value on the whole interval. Integrals are sums over nodes, by
trapezoids, or right rectangles with backward Euler; if x' or a held input is involved, values at
the one point of an interval count instead, or those at its two ends with the trapezoidal rule.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np
import sympy as sp
from jets import OPEN, TRUST, UNIT, add, constant, div, mul, number, scaled, variable, without
from mpmath import mpf
from tree import Sides, Tree

import kinesym as ks

HALF = (mpf(0.5), 0.5, 0.0)
MINUS = (mpf(-1), 1.0, 0.0)
#: Of a rounding of the largest entry, as `TRUST` errors are let pass.
SHARE = 1 / 16


@dataclass
class Discrete:
    """Cost and constraints of `case` at z as jets in z; `sides` decides at kinks."""

    case: object
    z: object
    sides: Sides

    def __post_init__(self):
        case, model = self.case, self.case.model
        self.N, self.h, self.t = len(case.grid), [], []
        every = [variable(float(value), j) for j, value in enumerate(self.z)]
        rows = [every[k * self.N : (k + 1) * self.N] for k in range(len(every) // self.N)]
        names = [*model.state_names, *case.free_inputs]
        self.rows = dict(zip(names, rows, strict=False))
        rest = every[len(names) * self.N :]
        unknown = [p for p in model.parameters if p.name in case.unknown]
        self.p = {p: constant(case.known[p.name]) for p in model.parameters if p not in unknown}
        self.p.update(zip(unknown, rest, strict=False))
        self._clock(rest[-1] if case.free_duration else None)
        self.nodes = [self._node(i) for i in range(self.N)]

    def _clock(self, duration):
        for value in self.case.grid:
            now = constant(float(value))
            self.t.append(now if duration is None else mul(duration, now))
        for a, b in zip(self.case.grid, self.case.grid[1:], strict=False):
            exact = mpf(float(b)) - mpf(float(a))
            step = constant(exact, 0.0 if float(exact) == exact else UNIT * abs(float(exact)))
            self.h.append(step if duration is None else mul(duration, step))

    def _input(self, name, i):
        if name in self.rows:
            return self.rows[name][i]
        return constant(float(self.case.inputs[name][i]))

    def _values(self, i, held_from=None):
        """Jets of states and inputs at a node; held inputs those of another one."""
        found = {x: self.rows[x.name][i] for x in self.case.model.states}
        for u in self.case.model.inputs:
            held = held_from is not None and u.name in self.case.held
            found[u] = self._input(u.name, held_from if held else i)
        return found

    def _node(self, i):
        """The tree at a node; it knows x' if that must be solved for anyway."""
        values, time = self._values(i), self.t[i]
        wanted = [
            *self.case.path,
            *(
                self.case.model.outputs[n]
                for n in self.case.measured
                if n in self.case.model.outputs
            ),
        ]
        if self.case.scheme == "trapezoid" and any(e.has(sp.Derivative) for e in wanted):
            return self._with_rates(values, time)
        return self._tree(values, time)

    def _with_rates(self, values, time):
        rates = solved(self._tree(values, time), self.case.mass, self.case.side)
        names = [x.diff(ks.t) for x in self.case.model.states]
        return self._tree(values, time, zip(names, rates, strict=True))

    def _tree(self, values, time, rates=()):
        model = self.case.model
        known = {**self.p, **values, ks.t: time, **dict(rates)}
        return Tree(known, self.sides, model.intermediates)

    # -- schemes ----------------------------------------------------------------------------

    @cached_property
    def stages(self):
        """The one point of each interval, for midpoint and backward Euler."""
        model, middle = self.case.model, self.case.scheme == "midpoint"
        found = []
        for i, h in enumerate(self.h):
            left, right = self._values(i), self._values(i + 1, held_from=i)
            rates = {x.diff(ks.t): div(minus(right[x], left[x]), h) for x in model.states}
            values = right
            if middle:
                values = {k: scaled(add([left[k], right[k]]), HALF) for k in right}
                values.update({u: left[u] for u in model.inputs if u.name in self.case.held})
            time = add([self.t[i], scaled(h, HALF if middle else (mpf(1), 1.0, 0.0))])
            found.append(self._tree(values, time, rates))
        return found

    @cached_property
    def two_ends(self):
        """The trees at the two nodes of each interval, with x' solved for."""
        found = []
        for i, h in enumerate(self.h):
            trees = []
            for node in (i, i + 1):
                now = self.t[i] if node == i else add([self.t[i], h])
                trees.append(self._with_rates(self._values(node, held_from=i), now))
            found.append(trees)
        return found

    def defects(self):
        """Constraints of the intervals: equation by equation."""
        if self.case.scheme != "trapezoid":
            return [tree(e) for e in self.case.model.equations for tree in self.stages]
        found = []
        for x in self.case.model.states:
            row = self.rows[x.name]
            for i, ends in enumerate(self.two_ends):
                mean = scaled(add([tree(x.diff(ks.t)) for tree in ends]), HALF)
                found.append(minus(div(minus(row[i + 1], row[i]), self.h[i]), mean))
        return found

    def constraints(self):
        """All of them: equations, path conditions, boundary conditions."""
        found = self.defects()
        found += [tree(e) for e in self.case.path for tree in self.nodes]
        return found + [self._boundary(e) for e in self.case.boundary]

    def _boundary(self, e):
        ends = {
            end: self.nodes[0 if isinstance(end, ks.at_start) else -1](end.args[0])
            for end in e.atoms(ks.at_start, ks.at_end)
        }
        return Tree({**self.p, **ends}, self.sides)(e)

    # -- the objective ----------------------------------------------------------------------

    def cost(self):
        """Integral, terminal cost and squares of measurements."""
        case, parts = self.case, []
        if case.integrand != 0:
            parts += self._integral()
        if case.terminal != 0:
            parts.append(self.nodes[-1](case.terminal))
        for name in case.measured:
            parts += self._squares(name)
        return add(parts) if parts else constant(0)

    def _squares(self, name):
        """Weighted squares of a measured state or output; between nodes if it needs x' there.

        There sample and weight are the means that the scheme takes; missing samples, of weight
        zero, are interpolated.
        """
        case, (samples, std) = self.case, self.case.measured[name]
        e = {**{x.name: x for x in case.model.states}, **case.model.outputs}[name]
        missing = np.isnan(samples)
        y = [mpf(v) for v in np.interp(case.grid, case.grid[~missing], samples[~missing])]
        w = [mpf(0) if gone else 1 / mpf(std) ** 2 for gone in missing]
        trees = self.nodes
        if case.scheme != "trapezoid" and e.has(sp.Derivative):
            trees, left = self.stages, 0.5 if case.scheme == "midpoint" else 0.0
            y, w = ([left * a + (1 - left) * b for a, b in pairwise(row)] for row in (y, w))
        found = []
        for tree, sample, weight in zip(trees, y, w, strict=True):
            if weight:
                residual = minus(tree(e), constant(sample, UNIT * abs(float(sample))))
                number = weight, float(weight), UNIT * float(weight)
                found.append(scaled(mul(residual, residual), number))
        return found

    def _integral(self):
        case = self.case
        if case.scheme == "trapezoid":
            return [
                mul(scaled(h, HALF), tree(case.integrand))
                for h, ends in zip(self.h, self.two_ends, strict=True)
                for tree in ends
            ]
        if self._on_intervals(case.integrand):
            return [
                mul(h, tree(case.integrand)) for h, tree in zip(self.h, self.stages, strict=True)
            ]
        g = [tree(case.integrand) for tree in self.nodes]
        if case.scheme == "backward-euler":
            return [mul(h, after) for h, after in zip(self.h, g[1:], strict=True)]
        return [
            mul(scaled(h, HALF), value)
            for h, *pair in zip(self.h, g, g[1:], strict=False)
            for value in pair
        ]

    def _on_intervals(self, e):
        """Whether x' or a held input is in `e`, through intermediates too."""
        behind = [e]
        for symbol, expression in reversed(self.case.model.intermediates):
            behind += [expression] if any(part.has(symbol) for part in behind) else []
        held = [u for u in self.case.model.inputs if u.name in self.case.held]
        return any(part.has(sp.Derivative, *held) for part in behind)


def minus(a, b):
    """a - b"""
    return add([a, scaled(b, MINUS)])


def solved(tree, mass, side):
    """M^-1 side by elimination with the largest pivots, as jets.

    Where an entry of M has no value, rows are exchanged that need not be: then it is open what x'
    is, unless this finds it.
    """
    rows = [[tree(e) for e in row] + [tree(b)] for row, b in zip(mass, side, strict=True)]
    n = len(rows)
    whole = not any(a.lack for row in rows for a in row[:n])
    for k in range(n):
        best = max(range(k, n), key=lambda i: 0.0 if rows[i][k].lack else rows[i][k].size)
        rows[k], rows[best] = rows[best], rows[k]
        for i in range(k + 1, n):
            if not _vanishes(rows[i][k]):
                factor = div(rows[i][k], rows[k][k])
                rows[i] = [
                    a if _vanishes(b) else minus(a, mul(factor, b))
                    for a, b in zip(rows[i], rows[k], strict=True)
                ]
    x = [None] * n
    for k in reversed(range(n)):
        known = [
            mul(a, b)
            for a, b in zip(rows[k][k + 1 : n], x[k + 1 :], strict=True)
            if not _vanishes(a)
        ]
        x[k] = div(minus(rows[k][n], add(known)) if known else rows[k][n], rows[k][k])
    return _rounded_together([without(OPEN) if a.lack and not whole else a for a in x])


def _rounded_together(jets):
    """Elimination in any order is right by norm: a rounding of the largest entry reaches all."""

    def raised(part):
        largest = {}
        for row in (getattr(jet, part) for jet in jets):
            for key, d in row.items():
                largest[key] = max(largest.get(key, 0.0), d[1])
        return [
            {key: (*d[:2], d[2] + SHARE * UNIT * largest[key]) for key, d in row.items()}
            for row in (getattr(jet, part) for jet in jets)
        ]

    pairs = zip(jets, raised("slope"), raised("bend"), strict=True)
    return [replace(jet, slope=slope, bend=bend) for jet, slope, bend in pairs]


def _vanishes(jet):
    return not jet.lack and not jet.size and not jet.slope


# -- comparison -----------------------------------------------------------------------------


@dataclass
class Values:
    """Numbers of the reference: value, error and lack of each cost, constraint and derivative."""

    cost: object
    constraints: list

    @classmethod
    def at(cls, case, z, sides):
        discrete = Discrete(case, z, sides)
        return cls(discrete.cost(), discrete.constraints())

    def entries(self, multipliers, factor):
        """Every number by name and place, as (value, size, error) or a lack."""
        found = {("cost",): self.cost.lack or self.cost.number}
        found.update(
            {("constraint", i): c.lack or c.number for i, c in enumerate(self.constraints)}
        )
        found.update({("gradient", j): d for j, d in self.cost.slope.items()})
        for i, c in enumerate(self.constraints):
            found.update({("jacobian", i, j): d for j, d in c.slope.items()})
        weights = [number(value) for value in (factor, *multipliers)]
        unweighted = [self.cost, *self.constraints]
        jets = [scaled(jet, w) for jet, w in zip(unweighted, weights, strict=True)]
        whole = add(jets)
        found.update({("hessian", i, j): d for (i, j), d in whole.bend.items()})
        outputs = list(enumerate(jets, start=-1))
        found["endless"] = {i for i, jet in outputs if is_endless(jet)}
        found["strained"] = {i for i, jet in outputs if jet.strained or whole.lack}
        return found

    def lacking(self):
        """The outputs (cost: -1) that have no value, whose derivatives do not count."""
        return {i for i, jet in enumerate([self.cost, *self.constraints], start=-1) if jet.lack}


SIDES = [(-1, 0), (1, 0), *((None, seed) for seed in range(4))]
MANY = [(None, seed) for seed in range(4, 40)]


def references(case, z, multipliers, factor, sides=SIDES[:4]):
    """The entries for every way at the kinks; and the outputs without value."""
    first = Sides()
    values = [Values.at(case, z, first)]
    if first.met:
        some = sides if first.met > 1 else SIDES[:2]
        values += [Values.at(case, z, Sides(*side)) for side in some]
    lacking = set().union(*(v.lacking() for v in values))
    return [v.entries(multipliers, factor) for v in values], lacking


#: A derivative that does not exist.
NOTHING = (mpf(0), 0.0, 0.0)

#: What is smaller may be zero, what is larger infinite: products on the way leave the range of
#: double.
SMALL, LARGE = 1e-100, 1e100


def is_endless(jet):
    """Whether a first derivative of a jet is infinite."""
    return any(d[2] == float("inf") for d in jet.slope.values())


def accepts(found, expected, order=0, endless=False, strained=False):
    """Whether a double is right, given the numbers of the ways at the kinks.

    order : of the derivative. endless : a first derivative of the same output is infinite; those
    that vanish may be 0 * inf. strained : see `Jet`; then second derivatives do not count.
    """
    if strained and order == 2:
        return True
    lacks = [e for e in expected if isinstance(e, str)]
    if lacks:
        return _accepts_lack(found, lacks, len(lacks) == len(expected))
    if not np.isfinite(found):
        excused = endless and all(e is NOTHING for e in expected)
        return excused or any(not abs(e[0]) < LARGE or e[2] == float("inf") for e in expected)
    if any(e[2] == float("inf") or e[0] != e[0] for e in expected):
        huge = all(abs(e[0]) >= 1e300 for e in expected)
        return not huge or (endless and order == 2) or not abs(found) < 1e299
    low, high = min(e[0] for e in expected), max(e[0] for e in expected)
    room = max(max(1e-9 * abs(float(e[0])), TRUST * e[2], SMALL) for e in expected)
    return low - room <= mpf(found) <= high + room


def _accepts_lack(found, lacks, always):
    if "open" in lacks or not always:
        return True
    return not abs(found) < 1e299
