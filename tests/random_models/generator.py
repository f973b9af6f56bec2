"""Random models, problems and points, each from a seed.

Points are anywhere, or at the numbers where functions have kinks, zeros and ends of their domains.
"""

import math
import random
from dataclasses import dataclass, field
from functools import cached_property

import kinks
import numpy as np
import rules
import sympy as sp
from expressions import Expressions
from jets import constant

import kinesym as ks
from kinesym.symbolic.derivation import all_atoms

SPECIAL = [
    0.0,
    0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    -2.0,
    3.0,
    math.pi / 2,
    -math.pi / 2,
    math.pi,
    1e-3,
    -1e-5,
    1e-8,
    1e-12,
    1e-20,
    -1e-20,
    1e-60,
    1 - 1e-12,
    1 + 1e-9,
    -1 + 1e-10,
    5.0,
    -5.0,
    12.0,
    20.0,
    -20.0,
    40.0,
    100.0,
    300.0,
    -300.0,
    700.0,
    1e6,
    -1e6,
    1e10,
    1e20,
    1e40,
]
NEAR = [0.0, 0.0, 0.0, 1e-15, -1e-15, 1e-10, -1e-10, 1e-7, -1e-7, 1e-4, -1e-4]


@dataclass
class Case:
    """A model with a problem: symbols, numbers, and points z to try."""

    seed: int
    model: object
    scheme: str
    grid: np.ndarray
    known: dict
    unknown: list
    free_inputs: list
    inputs: dict
    held: list
    free_duration: bool = False
    mass: list = field(default_factory=list)
    side: list = field(default_factory=list)
    integrand: object = sp.S.Zero
    terminal: object = sp.S.Zero
    measured: dict = field(default_factory=dict)
    path: list = field(default_factory=list)
    boundary: list = field(default_factory=list)
    points: list = field(default_factory=list)

    @property
    def rule(self):
        """The scheme from its definition."""
        return rules.rule_named(self.scheme)

    @cached_property
    def staged(self):
        """Names of what is unknown at stages only: states without a rate, inputs not held."""
        if self.rule.at_knots:
            return []
        model = self.model
        every = [*model.equations, *(e for _, e in model.intermediates)]
        pairs = zip(model.states, model.derivatives, strict=True)
        states = [x.name for x, rate in pairs if not any(e.has(rate) for e in every)]
        return states + [name for name in self.free_inputs if name not in self.held]

    @property
    def blocks(self):
        """Names and numbers of values of what is unknown, in the order of z."""
        N, staged = len(self.grid), self.staged
        states = [name for name in self.model.state_names if name not in staged]
        loose = [name for name in self.free_inputs if name not in self.held]
        inner = [(states + (loose if self.rule.at_knots else []), N - 1) for _ in self.rule.inner]
        nodes = states + [name for name in self.free_inputs if name not in staged]
        return [(nodes, N), *inner, *((staged, N - 1) for _ in self.rule.stages)]

    def inside(self, e):
        """Whether an expression has no value at nodes."""
        model = self.model
        found = {s for s in (*model.states, *model.inputs) if s.name in self.staged}
        found |= set() if self.rule.at_knots else set(model.derivatives)
        for symbol, expression in model.intermediates:
            if found and expression.has(*found):
                found.add(symbol)
        return bool(found) and e.has(*found)

    def places_within(self, e):
        """Numbers of the stages at which a path condition holds."""
        stages = range(len(self.rule.stages))
        if self.inside(e):
            return stages
        return stages[1:-1] if self.rule.at_knots else stages[: len(self.rule.inner)]

    @property
    def n_constraints(self):
        """How many constraints there are."""
        N, stages = len(self.grid), len(self.rule.stages)
        defects = len(self.model.states) * (stages - self.rule.at_knots)
        within = sum(len(self.places_within(e)) for e in self.path)
        nodes = sum(not self.inside(e) for e in self.path)
        return (N - 1) * (defects + within) + N * nodes + len(self.boundary)


def case_of(seed):
    """The case of a seed; raises what the project or SymPy say of a model they refuse."""
    rng = random.Random(seed)
    n, m, r = rng.randint(1, 4), rng.randint(0, 3), rng.randint(0, 4)
    real = {"real": True} if rng.random() < 0.4 else {}
    x = [ks.dynamicsymbols(f"x{k}", **real) for k in range(n)]
    u = [ks.dynamicsymbols(f"u{k}", **real) for k in range(m)]
    p = [sp.Symbol(f"p{k}", **real) for k in range(r)]
    kind = rng.choice(["gauss", "radau", "lobatto"])
    order = random.Random(f"order {seed}").choice([1, 3, 5] if kind == "radau" else [2, 4, 6])
    scheme = f"{kind}-{order}"
    w = sp.symbols("w:2", **real)
    static = [*x, *u, *p, ks.t]
    make = Expressions(rng, static)
    intermediates = [(w[0], make(2)), (w[1], Expressions(rng, [*static, w[0]])(2))]
    intermediates = intermediates[: rng.choice([0, 0, 1, 2])]
    static += [s for s, _ in intermediates]
    make = Expressions(rng, static)
    inner = make
    if kind != "lobatto" and rng.random() < 0.2:  # with x', so only for equations
        moving = sp.Symbol("w2", **real)
        intermediates.append((moving, make(2) * rng.choice(x).diff(ks.t)))
        inner = Expressions(rng, [*static, moving])
    equations, mass, side = _equations(rng, kind, x, inner)
    unused = [s for s in (*u, *p) if not any(e.has(s) for e in equations)]
    if unused:
        equations[0] -= sp.Add(*unused)
        if side:
            side[0] += sp.Add(*unused)
    output = make(2) + (rng.choice(x).diff(ks.t) if rng.random() < 0.2 else 0)
    model = ks.Model(
        f"random_{seed}", x, u, p, equations, intermediates=intermediates, outputs={"y": output}
    )
    case = _problem(rng, seed, model, scheme, make)
    case.mass, case.side = mass, side
    _conditions(rng, case, make)
    case.points = points(rng, case)
    return case


def _equations(rng, kind, x, make):
    """Equations, and M and b of M x' = b where x' must be solved for."""
    n, rates, static = len(x), [s.diff(ks.t) for s in x], make.leaves
    if kind == "lobatto" or rng.random() < 0.4:
        small = Expressions(rng, static)
        mass = [
            [sp.S(2) + sp.sin(small(1)) if i == j else sp.S.Zero for j in range(n)]
            for i in range(n)
        ]
        for i in range(n):
            for j in range(n):
                if i != j and rng.random() < 0.4:
                    mass[i][j] = sp.cos(small(1)) / 4
        side = [make(3) for _ in x]
        rows = [sp.Add(*(a * d for a, d in zip(row, rates, strict=True))) for row in mass]
        return [row - b for row, b in zip(rows, side, strict=True)], mass, side
    equations = []
    for k, s in enumerate(x):
        if k and rng.random() < 0.3:
            equations.append(s + make(3))
            continue
        inner = Expressions(rng, [*static, rates[k], rates[0]])
        form = rng.choice(
            [
                lambda rate=rates[k]: rate - make(3),
                lambda rate=rates[k]: rate * make(2) - make(2),
                lambda rate=rates[k], inner=inner: rate + inner(3),
                lambda rate=rates[k]: sp.tanh(rate) + rate**3 - make(3),
            ]
        )
        e = form()
        equations.append(e if e.has(s) or e.has(rates[k]) else e + s)
    return equations, [], []


def _problem(rng, seed, model, scheme, make):
    N = rng.choice([2, 2, 3])
    names = list(model.input_names)
    free = [name for name in names if rng.random() < 0.4]
    unknown = [name for name in model.parameter_names if rng.random() < 0.6]
    free_duration = rng.random() < 0.3
    steps = [rng.choice([0.1, 0.25, 1.0, rng.uniform(0.05, 0.5)]) for _ in range(N - 1)]
    grid = np.linspace(0, 1, N) if free_duration else np.cumsum([rng.choice([0.0, 0.3]), *steps])
    return Case(
        seed,
        model,
        scheme,
        grid,
        {name: rng.choice([0.5, 1.0, 2.0, rng.uniform(-2, 2)]) for name in model.parameter_names},
        unknown,
        free,
        {
            name: np.array([rng.choice([0.0, 1.0, rng.uniform(-2, 2)]) for _ in range(N)])
            for name in names
            if name not in free
        },
        [name for name in names if rng.random() < 0.3],
        free_duration,
    )


def _conditions(rng, case, make):
    """Objective, path and boundary conditions."""
    model = case.model
    x = model.states
    integrand = make(3) if rng.random() < 0.6 else sp.S.Zero
    if integrand != 0 and rng.random() < 0.25:
        integrand += x[0].diff(ks.t) ** 2
    terminal = make(2) if rng.random() < 0.5 else sp.S.Zero
    if case.free_duration or integrand == terminal == 0:
        terminal += x[0] ** 2
    case.integrand = integrand if integrand.has(*x) else integrand + x[0] * int(integrand != 0)
    case.terminal = terminal if terminal == 0 or terminal.has(*x) else terminal + x[-1]
    if rng.random() < 0.3:
        samples = np.array([rng.uniform(-1, 1) for _ in case.grid])
        if len(samples) > 2:
            samples[1] = np.nan
        case.measured = {rng.choice(["y", x[0].name]): (samples, rng.choice([0.5, 0.8, 2.0]))}
    case.path = [make(3) for _ in range(rng.randint(0, 2))]
    case.path = [e for e in case.path if e.free_symbols]
    if rng.random() < 0.15:
        case.path.append(rng.choice(x).diff(ks.t) * make(1) + x[0])
    if rng.random() < 0.5:
        case.boundary = [ks.at_start(make(2)) - make.rng.choice([1, 2]) * ks.at_end(make(2))]
    ends = [end.args[0] for e in case.boundary for end in e.atoms(ks.at_end)]
    there = all_atoms(model.intermediates, sp.Tuple(case.terminal, *ends))
    there = {u.name for u in model.inputs if u in there}
    # what is held has a condition more where ends are about it
    case.held = [name for name in case.held if name not in {*case.free_inputs} & there]


def points(rng, case):
    """Points z: anywhere, positive, and made of special numbers."""
    lengths = [count for names, count in case.blocks for _ in names] + [1] * len(case.unknown)
    size = sum(lengths)
    last = [rng.choice([1.0, 2.0, rng.uniform(0.5, 3)])] if case.free_duration else []
    found = []
    for kind in ("anywhere", "positive", "special", "near")[rng.choice([0, 1]) :]:
        z = [rng.uniform(-2, 2) for _ in range(size)]
        if kind == "positive":
            z = [rng.uniform(0.2, 1.5) for _ in range(size)]
        elif kind == "special":
            z = [rng.choice(SPECIAL) if rng.random() < 0.6 else v for v in z]
        elif kind == "near":
            some = rng.sample(SPECIAL, 2)
            rows = [[rng.choice([*some, rng.uniform(-2, 2)])] * count for count in lengths]
            z = [v * (1 + rng.choice(NEAR)) + rng.choice(NEAR) for row in rows for v in row]
        found.append(np.array([*z, *last]))
    return [*found, *on_kinks(rng, case, last)]


def on_kinks(rng, case, last):
    """Points on or near a kink: at nodes, as trajectories that stay where they are."""
    model = case.model
    some = [*case.path, case.terminal, case.integrand, *model.equations]
    some = [
        target
        for e in some
        for target in kinks.targets(e)
        if not target.has(sp.Derivative, *(s for s, _ in model.intermediates))
    ]
    free = [*model.states, *(u for u in model.inputs if u.name in case.free_inputs)]
    unknown = [p for p in model.parameters if p.name in case.unknown]
    known = {ks.t: constant(float(case.grid[0]))}
    given = [u for u in model.inputs if u not in free]
    known.update({u: constant(float(case.inputs[u.name][0])) for u in given})
    known.update({p: constant(case.known[p.name]) for p in model.parameters if p not in unknown})
    if not some:
        return []
    start = {s: rng.uniform(-2, 2) for s in [*free, *unknown]}
    point = kinks.zero_near(rng.choice(some), known, start)
    if point is None:
        return []
    by_name = {s.name: value for s, value in point.items()}
    z = [by_name[name] for names, count in case.blocks for name in names for _ in range(count)]
    z += [point[p] for p in unknown]
    return [np.array([*(v + rng.choice(NEAR) for v in z), *last])]
