"""The nonlinear program of a case in high precision, straight from what the schemes say.

With h = t_1 - t_0 the length of an interval, f the equations, each of them zero, and x(t) the
polynomial through the states at its knots:

radau, gauss : f(x'(t), x(t), u, t) at the stages, where inputs and algebraic states are unknown
lobatto : (x_k - x_0)/h - sum_j A_kj g_j with x' = g(x, u, t) solved for at the knots

An input that is held has its left value on the whole interval. Integrals are sums over the stages.
What has no value at nodes is continued to the ends of a trial, and is measured at the stages: with
Radau at the last one.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import rules
import sympy as sp
from jets import OPEN, TRUST, UNIT, add, constant, div, mul, number, scaled, variable, without
from mpmath import mpf
from tree import Sides, Tree

import kinesym as ks

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
        self.N, self.h, self.t, self.rule = len(case.grid), [], [], case.rule
        every = [variable(float(value), j) for j, value in enumerate(self.z)]
        blocks = []
        for names, count in case.blocks:
            rows = [[every.pop(0) for _ in range(count)] for _ in names]
            blocks.append(dict(zip(names, rows, strict=True)))
        inner = 1 + len(self.rule.inner)
        self.at_nodes, self.within, self.staged = blocks[0], blocks[1:inner], blocks[inner:]
        unknown = [p for p in model.parameters if p.name in case.unknown]
        self.p = {p: constant(case.known[p.name]) for p in model.parameters if p not in unknown}
        self.p.update(zip(unknown, every, strict=False))
        self._clock(every[-1] if case.free_duration else None)
        self.nodes = [self._node(i) for i in range(self.N)]
        self.ends = [self._end(i) for i in (0, self.N - 1)]

    def _clock(self, duration):
        for value in self.case.grid:
            now = constant(float(value))
            self.t.append(now if duration is None else mul(duration, now))
        for a, b in zip(self.case.grid, self.case.grid[1:], strict=False):
            exact = mpf(float(b)) - mpf(float(a))
            step = constant(exact, 0.0 if float(exact) == exact else UNIT * abs(float(exact)))
            self.h.append(step if duration is None else mul(duration, step))

    def _known(self, name, i, c=0):
        """A known input at a share of the interval after node i."""
        row = [float(value) for value in self.case.inputs[name]]
        if name in self.case.held or not c:
            return constant(row[i])
        if c == 1:
            return constant(row[i + 1])
        value = (1 - c) * mpf(row[i]) + c * mpf(row[i + 1])
        return constant(value, UNIT * (abs(row[i]) + abs(row[i + 1])))

    def _values(self, i, held_from=None):
        """Jets of what has a value at a node; held inputs those of another one."""
        case, found = self.case, {}
        for s in (*case.model.states, *case.model.inputs):
            at = held_from if held_from is not None and s.name in case.held else i
            if s.name in self.at_nodes:
                found[s] = self.at_nodes[s.name][at]
            elif s.name not in case.staged:
                found[s] = self._known(s.name, at)
        return found

    def _node(self, i):
        """The tree at a node; it knows x' if that must be solved for anyway."""
        case, values, time = self.case, self._values(i), self.t[i]
        outputs = case.model.outputs
        wanted = [*case.path, *(outputs[n] for n in case.measured if n in outputs)]
        if self.rule.at_knots and any(e.has(sp.Derivative) for e in wanted):
            return self._with_rates(values, time)
        return self._tree(values, time)

    def _end(self, i):
        """The tree at the first or last node, with what is continued from the stages."""
        case, values = self.case, self._values(i)
        weights = rules.values(self.rule.stages, mpf(i > 0))
        for s in (*case.model.states, *case.model.inputs):
            if s.name in case.staged:
                row = [stage[s.name][max(i - 1, 0)] for stage in self.staged]
                values[s] = weighted(weights, row)
        return self._tree(values, self.t[i])

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
    def intervals(self):
        """The trees at the stages of each interval, with x'."""
        make = self._knot if self.rule.at_knots else self._stage
        return [[make(i, k) for k in range(len(self.rule.stages))] for i in range(self.N - 1)]

    def _time(self, i, c):
        return add([self.t[i], scaled(self.h[i], weight(c))]) if c else self.t[i]

    def _knot(self, i, k):
        """Of a Lobatto scheme, with x' solved for."""
        c, last = self.rule.stages[k], len(self.rule.stages) - 1
        values = self._values(i + (k == last), held_from=i)
        if 0 < k < last:
            for s in (*self.case.model.states, *self.case.model.inputs):
                if s.name in self.within[k - 1]:
                    values[s] = self.within[k - 1][s.name][i]
                elif s.name not in self.at_nodes:
                    values[s] = self._known(s.name, i, c)
        return self._with_rates(values, self._time(i, c))

    def _stage(self, i, k):
        """Of a Radau or Gauss scheme."""
        case, c, h = self.case, self.rule.stages[k], self.h[i]
        values, rates = {}, {}
        for x in case.model.states:
            rates[x.diff(ks.t)] = constant(0)
            if x.name in case.staged:
                values[x] = self.staged[k][x.name][i]
                continue
            left, right = self.at_nodes[x.name][i : i + 2]
            row = [left, *(block[x.name][i] for block in self.within), right]
            values[x] = weighted(rules.values(self.rule.knots, c), row)
            rates[x.diff(ks.t)] = div(weighted(rules.slopes(self.rule.knots, c), row), h)
        for u in case.model.inputs:
            if u.name in case.staged:
                values[u] = self.staged[k][u.name][i]
            elif u.name in self.at_nodes:
                values[u] = self.at_nodes[u.name][i]
            else:
                values[u] = self._known(u.name, i, c)
        return self._tree(values, self._time(i, c), rates)

    def defects(self):
        """Constraints of the intervals: equation by equation, stage by stage."""
        model, stages = self.case.model, range(len(self.rule.stages))
        if not self.rule.at_knots:
            return [
                trees[k](e) for e in model.equations for k in stages for trees in self.intervals
            ]
        found = []
        for x in model.states:
            for k in stages[1:]:
                for h, trees in zip(self.h, self.intervals, strict=True):
                    step = div(minus(trees[k](x), trees[0](x)), h)
                    rates = [tree(x.diff(ks.t)) for tree in trees]
                    found.append(minus(step, weighted(self.rule.matrix[k], rates)))
        return found

    def constraints(self):
        """All of them: equations, path conditions within intervals and at nodes, boundary
        conditions."""
        case, found = self.case, self.defects()
        for e in case.path:
            found += [trees[k](e) for k in case.places_within(e) for trees in self.intervals]
        found += [tree(e) for e in case.path if not case.inside(e) for tree in self.nodes]
        return found + [self._boundary(e) for e in case.boundary]

    def _boundary(self, e):
        ends = {
            end: self.ends[isinstance(end, ks.at_end)](end.args[0])
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
            parts.append(self.ends[1](case.terminal))
        for name in case.measured:
            parts += self._squares(name)
        return add(parts) if parts else constant(0)

    def _squares(self, name):
        """Weighted squares of a measured state or output; missing samples, of weight zero, are
        interpolated, samples and weights at stages by straight lines."""
        case, (samples, std) = self.case, self.case.measured[name]
        e = {**{x.name: x for x in case.model.states}, **case.model.outputs}[name]
        missing = np.isnan(samples)
        y = [mpf(v) for v in np.interp(case.grid, case.grid[~missing], samples[~missing])]
        w = [mpf(0) if gone else 1 / mpf(std) ** 2 for gone in missing]
        terms = [*zip(self.nodes, y, w, strict=True)]
        if case.inside(e):
            stages = [*zip(self.rule.stages, self.rule.weights, strict=True)]
            places = [(-1, 1, 1)] if stages[-1][0] == 1 else [(k, *s) for k, s in enumerate(stages)]
            terms = [
                (
                    trees[k],
                    *((row[i] * (1 - c) + row[i + 1] * c) * b for row, b in ((y, 1), (w, b))),
                )
                for k, c, b in places
                for i, trees in enumerate(self.intervals)
            ]
        found = []
        for tree, sample, share in terms:
            if share:
                residual = minus(tree(e), constant(sample, UNIT * abs(float(sample))))
                found.append(scaled(mul(residual, residual), weight(share)))
        return found

    def _integral(self):
        return [
            mul(scaled(h, weight(b)), tree(self.case.integrand))
            for h, trees in zip(self.h, self.intervals, strict=True)
            for b, tree in zip(self.rule.weights, trees, strict=True)
        ]


def weight(value):
    """A number of a scheme, which double arithmetic rounds."""
    value = mpf(value)
    return value, abs(float(value)), 0.0 if float(value) == value else UNIT * abs(float(value))


def weighted(weights, jets):
    """A sum with weights; those of a polynomial are sums themselves, rounded as the largest."""
    largest = max(abs(float(w)) for w in weights)
    exact = all(float(w) == w for w in weights)
    parts = [
        scaled(jet, (w, abs(float(w)), 0.0 if exact else UNIT * largest))
        for w, jet in zip(weights, jets, strict=True)
        if w
    ]
    return add(parts)


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
