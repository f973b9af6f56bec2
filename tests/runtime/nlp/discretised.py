"""The nonlinear program of one trial from the definition of the schemes, in SymPy, dense.

Unknown are states at the knots of each interval, its ends and the places within. Radau, Gauss: the
equations hold at the stages, where x' is that of the polynomial through the knots; algebraic states
have values at the stages only, as have inputs that are neither held nor linear between nodes.
Lobatto: x' at the knots are further unknowns e, which the equations give, and x_k - x_0 is h times
their integral; e is eliminated in numbers.

Jacobian and gradient are the complex step of constraints and cost, the Hessian is the complex step
of SymPy's gradient of the Lagrangian.
"""

import numpy as np
import rules
import sympy as sp
from scipy.interpolate import CubicSpline

import kinesym as ks

STEP = 1e-30


class Discretised:
    """The nonlinear program of `trial`: expressions of z, its variables in their order.

    integrand, terminal : terms of the objective besides the least squares.
    path : expressions at all places; boundary : functions of the values at the first and last node.
    held, linear : inputs by what they are between nodes; linear are also free ones if measured.
    """

    def __init__(
        self,
        model,
        trial,
        scheme,
        unknown,
        free_inputs=(),
        integrand=sp.S.Zero,
        terminal=sp.S.Zero,
        path=(),
        boundary=(),
        held=(),
        linear=(),
    ):
        self.model, self.trial, self.rule = model, trial, rules.rule_named(scheme)
        self.N, self.held, self.free = trial.n_nodes, {*trial.held, *held}, list(free_inputs)
        measured = {*self.free} & {*trial.measurements}
        self.fixed = self.held | {*linear} | measured  # not free at stages
        self.z, self.extra, self.demands = [], [], []
        self._make_variables()
        p = {name: symbol(f"p_{name}") for name in model.parameter_names if name in unknown}
        known = {name: sp.Float(value) for name, value in model.values.items()}
        self.p = {q: p.get(q.name, known.get(q.name)) for q in model.parameters}
        self.z += p.values()
        self.t = [sp.Float(value) for value in trial.grid]
        if trial.free_duration:
            self.z.append(symbol("T"))
            self.t = [value * self.z[-1] for value in self.t]
        at_nodes = [self._node(i) for i in range(self.N)]
        intervals = [self._interval(i) for i in range(self.N - 1)]
        self.constraints = self._defects(intervals)
        self.constraints += [
            points[k](e) for e in path for k in self._places_within(e) for points in intervals
        ]
        self.constraints += [at(e) for e in path if not self._inside(e) for at in at_nodes]
        ends = self._end(0), self._end(self.N - 1)
        self.constraints += [e(*ends) for e in boundary]
        self.cost = ends[1](terminal) + self._integral(integrand, intervals)
        self.cost += self._squares(at_nodes, intervals)

    # -- variables --------------------------------------------------------------------------

    def _make_variables(self):
        model, rule = self.model, self.rule
        inlined = [self._inlined(e) for e in model.equations]
        algebraic = [
            x.name
            for x, rate in zip(model.states, model.derivatives, strict=True)
            if not any(e.has(rate) for e in inlined)
        ]
        loose = [u for u in self.free if u not in self.fixed]
        self.staged = [] if rule.at_knots else algebraic + loose
        states = [x for x in model.state_names if x not in self.staged]
        inputs = [u for u in self.free if u not in self.staged]
        self.nodes = self._rows("node", states + inputs, self.N)
        self.within, self.stages = [], []
        for k, _ in enumerate(rule.inner):
            self.within.append(self._rows(f"within{k}", states, self.N - 1))
            more = loose if rule.at_knots else []
            self.within[-1].update(self._rows(f"within{k}", more, self.N - 1))
        for k, _ in enumerate(rule.stages):
            self.stages.append(self._rows(f"stage{k}", self.staged, self.N - 1))

    def _rows(self, kind, names, count):
        rows = {name: [symbol(f"{name}_{kind}_{i}") for i in range(count)] for name in names}
        self.z += [s for row in rows.values() for s in row]
        return rows

    def _inlined(self, e):
        """Without intermediates."""
        for name, expression in reversed(self.model.intermediates):
            e = sp.S(e).xreplace({name: expression})
        return sp.S(e)

    def _inside(self, e):
        """Whether an expression has no value at nodes."""
        functions = [s for s in (*self.model.states, *self.model.inputs) if s.name in self.staged]
        rates = [] if self.rule.at_knots else [sp.Derivative]
        return bool(functions or rates) and self._inlined(e).has(*functions, *rates)

    # -- points -----------------------------------------------------------------------------

    def _known(self, name, i, c=None):
        """A known input at node i, or at the share c of the interval after it."""
        if c is None or name in self.held:
            return sp.Float(self.trial.inputs[name][i])
        grid, signal = self.trial.grid, self.trial.signals[name]
        at = grid[i] + float(c) * (grid[i + 1] - grid[i])
        if signal.between == "cubic":
            return sp.Float(float(CubicSpline(signal.begin, signal.value)(at)))
        return sp.Float(np.interp(at, signal.begin, signal.value))

    def _evaluator(self, table):
        """A function that puts values into an expression of the model; asked for x' at a Lobatto
        point, it makes them."""
        table = {**table, **self.p}
        rates = dict.fromkeys(self.model.derivatives)

        def evaluate(e):
            e = self._inlined(e)
            if self.rule.at_knots and e.has(sp.Derivative):
                if None in rates.values():
                    rates.update(self._explicit(table))
                e = e.xreplace(rates)
            return e.xreplace(table)

        return evaluate

    def _explicit(self, table):
        """New unknowns x', and the equations as demands on them."""
        made = [symbol(f"e{len(self.extra)}_{x.name}") for x in self.model.states]
        self.extra += made
        rates = dict(zip(self.model.derivatives, made, strict=True))
        self.demands += [
            self._inlined(e).xreplace({**rates, **table}) for e in self.model.equations
        ]
        return rates

    def _values(self, i, last=False):
        """What has a value at node i, or just before it if it is the end of an interval."""
        table = {ks.t: self.t[i]}
        for s in (*self.model.states, *self.model.inputs):
            at = i - 1 if last and s.name in self.held else i
            if s.name in self.nodes:
                table[s] = self.nodes[s.name][at]
            elif s.name not in self.staged:
                table[s] = self._known(s.name, at)
        return table

    def _node(self, i):
        return self._evaluator(self._values(i))

    def _end(self, i):
        """The first or last node, with what the polynomials through the stages have there."""
        place, interval = (0, 0) if i == 0 else (1, i - 1)
        weights = rules.values(self.rule.stages, place)
        table = self._values(i)
        for s in (*self.model.states, *self.model.inputs):
            if s.name in self.staged:
                row = [stage[s.name][interval] for stage in self.stages]
                table[s] = dot(weights, row)
        return self._evaluator(table)

    def _interval(self, i):
        """Evaluators at the stages of interval i."""
        if not self.rule.at_knots:
            return [self._evaluator(self._stage(i, k)) for k in range(len(self.rule.stages))]
        first, last = self._values(i), self._values(i + 1, last=True)
        tables = [first, *(self._knot(i, k) for k in range(len(self.rule.inner))), last]
        return list(map(self._evaluator, tables))

    def _time(self, i, c):
        return self.t[i] + sp.Float(c) * (self.t[i + 1] - self.t[i])

    def _between(self, name, i, c):
        """An unknown input that is held, or linear between the nodes."""
        left, right = self.nodes[name][i : i + 2]
        return left if name in self.held else (1 - sp.Float(c)) * left + sp.Float(c) * right

    def _knot(self, i, k):
        """What has a value at place k within interval i of a Lobatto scheme."""
        c = self.rule.inner[k]
        table = {ks.t: self._time(i, c)}
        for s in (*self.model.states, *self.model.inputs):
            if s.name in self.within[k]:
                table[s] = self.within[k][s.name][i]
            elif s.name in self.nodes:
                table[s] = self._between(s.name, i, c)
            else:
                table[s] = self._known(s.name, i, c)
        return table

    def _stage(self, i, k):
        """What has a value at stage k of interval i of a Radau or Gauss scheme."""
        c, h = self.rule.stages[k], self.t[i + 1] - self.t[i]
        table = {ks.t: self._time(i, c)}
        for u in self.model.inputs:
            if u.name in self.staged:
                table[u] = self.stages[k][u.name][i]
            elif u.name in self.nodes:
                table[u] = self._between(u.name, i, c)
            else:
                table[u] = self._known(u.name, i, c)
        for x, rate in zip(self.model.states, self.model.derivatives, strict=True):
            table[rate] = sp.S.Zero
            if x.name in self.staged:
                table[x] = self.stages[k][x.name][i]
                continue
            left, right = self.nodes[x.name][i : i + 2]
            row = [left, *(w[x.name][i] for w in self.within), right]
            table[x] = dot(rules.values(self.rule.knots, c), row)
            table[rate] = dot(rules.slopes(self.rule.knots, c), row) / h
        return table

    # -- constraints and cost ---------------------------------------------------------------

    def _defects(self, intervals):
        """Of the intervals: equation by equation, stage by stage."""
        rule, model = self.rule, self.model
        if not rule.at_knots:
            stages = range(len(rule.stages))
            return [p[k](e) for e in model.equations for k in stages for p in intervals]
        steps = [b - a for a, b in zip(self.t, self.t[1:], strict=False)]
        return [
            (points[k](x) - points[0](x)) / h
            - dot(rule.matrix[k], [at(x.diff(ks.t)) for at in points])
            for x in model.states
            for k in range(1, len(rule.stages))
            for h, points in zip(steps, intervals, strict=True)
        ]

    def _places_within(self, e):
        """Numbers of the stages where a path condition holds."""
        stages = range(len(self.rule.stages))
        if self._inside(e):
            return stages
        return stages[1:-1] if self.rule.at_knots else stages[: len(self.rule.inner)]

    def _integral(self, integrand, intervals):
        steps = [b - a for a, b in zip(self.t, self.t[1:], strict=False)]
        return sum(
            h * sp.Float(b) * at(integrand)
            for h, points in zip(steps, intervals, strict=True)
            for b, at in zip(self.rule.weights, points, strict=True)
        )

    def _squares(self, at_nodes, intervals):
        """At the nodes; what has no value there at the next node, if that is a stage (Radau), or
        at all stages, with straight lines between samples and shares of the weights."""
        every = {x.name: x for x in (*self.model.states, *self.model.inputs)}
        terms = []
        for name, y in self.trial.measurements.items():
            e, std = {**every, **self.model.outputs}[name], self.trial.std[name]
            there = ~np.isnan(y)
            w = np.where(there, std**-2.0, 0.0)
            y = np.interp(self.trial.grid, self.trial.grid[there], y[there])
            if not self._inside(e):
                terms += zip(at_nodes, [e] * self.N, y, w, strict=True)
                continue
            radau = self.rule.stages[-1] == 1
            stages = zip(self.rule.stages, self.rule.weights, strict=True)
            for k, (c, b) in [(-1, (1, 1))] if radau else enumerate(stages):
                c, b = float(c), float(b)
                for i, points in enumerate(intervals):
                    sample, weight = ((1 - c) * row[i] + c * row[i + 1] for row in (y, w))
                    terms.append((points[k], e, sample, b * weight))
        return sum(w * (at(e) - y) ** 2 for at, e, y, w in terms if w)

    # -- numbers ----------------------------------------------------------------------------

    def numbers(self, z, multipliers, factor):
        """Cost, its gradient, constraints, their Jacobian, Hessian of the Lagrangian at z."""
        weights = sp.symbols(f"weight_:{len(self.constraints)}")
        shares = sp.symbols(f"share_:{len(self.demands)}")
        terms = [
            *((factor * term, term.free_symbols) for term in sp.Add.make_args(self.cost)),
            *((w * c, c.free_symbols) for w, c in zip(weights, self.constraints, strict=True)),
            *((w * c, c.free_symbols) for w, c in zip(shares, self.demands, strict=True)),
        ]
        every = (*self.z, *self.extra)
        gradient = [sum(e.diff(s) for e, contained in terms if s in contained) for s in every]
        demands = numeric([self.z, self.extra], self.demands)
        mass = numeric([self.z], [[e.diff(s) for s in self.extra] for e in self.demands])
        first = numeric([self.z, self.extra], [self.cost, *self.constraints])
        slopes = numeric([self.z, self.extra, weights, shares], [gradient])

        def solved(z):
            matrix = mass(z)
            return matrix, -np.linalg.solve(matrix, demands(z, np.zeros(len(self.extra))))

        def values(z):
            return first(z, solved(z)[1] if self.extra else [])

        def gradient_at(z):
            if not self.extra:
                return slopes(z, [], multipliers, [])[0]
            matrix, extra = solved(z)
            alone = slopes(z, extra, multipliers, np.zeros(len(shares)))[0][len(z) :]
            share = -np.linalg.solve(matrix.T, alone)
            return slopes(z, extra, multipliers, share)[0][: len(z)]

        found, jacobian = values(z), complex_step(values, z)
        return found[0], jacobian[0], found[1:], jacobian[1:], complex_step(gradient_at, z)


def symbol(name):
    """A real variable: of others SymPy may try for minutes whether a function is real."""
    return sp.Symbol(name, real=True)


def dot(weights, row):
    """The sum of products, without those that are zero."""
    return sum((sp.Float(w) * value for w, value in zip(weights, row, strict=True) if w), sp.S.Zero)


def numeric(arguments, expressions):
    """A function that gives an array."""
    function = sp.lambdify(arguments, expressions, "numpy", cse=True)
    return lambda *values: np.array(function(*values))


def complex_step(function, z):
    """Derivatives of a vector function, (n_out, n_z)."""
    columns = [np.imag(function(z + 1j * STEP * e)) / STEP for e in np.eye(len(z))]
    return np.array(columns).T


def assert_derivatives(problem, reference, seed=3, low=0.4, high=1.6):
    """Values, gradient, Jacobian and Hessian at a random point to 1e-10."""
    assert problem.n_variables == len(reference.z)
    assert problem.n_constraints == len(reference.constraints)
    rng = np.random.default_rng(seed)
    z = rng.uniform(low, high, problem.n_variables)
    multipliers = rng.normal(size=problem.n_constraints)
    found = (
        problem.cost(z),
        problem.cost_gradient(z),
        problem.constraints(z),
        problem.constraint_jacobian(z).toarray(),
        problem.lagrangian_hessian(z, multipliers, 0.7).toarray(),
    )
    names = ("cost", "gradient", "constraints", "jacobian", "hessian")
    expected = reference.numbers(z, multipliers, 0.7)
    for name, mine, theirs in zip(names, found, expected, strict=True):
        scale = np.max(np.abs(theirs), initial=1.0)
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-13 * scale, err_msg=name)
