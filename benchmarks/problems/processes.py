"""Reactors, fermenters, heat, growth: optimal control of what is no motion."""

from __future__ import annotations

import numpy as np
import sympy as sp
from sympy import Max, Rational, cos, exp, log, pi, sin

import kinesym as ks
from problems.statement import (
    BETTS,
    BOCOP,
    PROPT,
    PSOPT,
    RECALLED,
    Published,
    explicit,
    fixed,
    free,
    line,
    starts,
    stated,
)


def stirred_tank(nodes: int = 41) -> Published:
    """A stirred tank with a hot reaction is cooled back (Aris, Amundson 1958); a second minimum has
    0.24442."""
    x, y, u = ks.dynamicsymbols("x y u")
    reaction = (y + 0.5) * exp(25 * x / (x + 2))
    return stated(
        explicit("tank", {x: reaction - (u + 2) * (x + 0.25), y: 0.5 - y - reaction}, [u]),
        fixed(nodes, 0.78),
        f"Luus 2000 (Iterative Dynamic Programming); {RECALLED}",
        0.133094,
        2e-5,
        objective=ks.Integral(x**2 + y**2 + 0.1 * u**2),
        boundary=starts({x: 0.09, y: 0.09}),
        unknown_inputs={u: None},
    )


def batch_reactor(nodes: int = 41) -> Published:
    """The temperature of a batch reactor A -> B -> C that leaves most B after 1 h."""
    a, b, kelvin = ks.dynamicsymbols("a b kelvin")
    first, second = 4000 * exp(-2500 / kelvin) * a**2, 620_000 * exp(-5000 / kelvin) * b
    return stated(
        explicit("batch", {a: -first, b: first - second}, [kelvin]),
        fixed(nodes, 1.0),
        "Rajesh et al. 2001 (APMonitor)",
        -0.610775,
        1e-4,
        {a: 1.0, kelvin: 350.0},
        objective=-ks.Terminal(b),
        boundary=starts({a: 1, b: 0}),
        unknown_inputs={kelvin: (298, 398)},
    )


def tubular_reactor(nodes: int = 41) -> Published:
    """Parallel reactions along a tube: the feed that leaves most of one product."""
    a, b, u = ks.dynamicsymbols("a b u")
    return stated(
        explicit("tube", {a: -(u + u**2 / 2) * a, b: u * a}, [u]),
        fixed(nodes, 1.0),
        f"Dadebo, McAuley 1995 (APMonitor, benchmark 3); {RECALLED}",
        -0.57353,
        5e-5,
        {a: 1.0, u: 1.0},
        objective=-ks.Terminal(b),
        boundary=starts({a: 1, b: 0}),
        unknown_inputs={u: (0, 5)},
    )


def two_catalysts(nodes: int = 101) -> Published:
    """Two catalysts for 4 s (Jackson 1968): bang, singular arc, bang."""
    a, b, c, u = ks.dynamicsymbols("a b c u")
    one, other = u * (a - 10 * b), (1 - u) * b
    return stated(
        explicit("jackson", {a: -one, b: one - other, c: other}, [u]),
        fixed(nodes, 4.0),
        BOCOP,
        -0.192011,
        2e-3,
        objective=-ks.Terminal(c),
        bounds=dict.fromkeys((a, b, c), (0, 1.1)),
        boundary=starts({a: 1, b: 0, c: 0}),
        unknown_inputs={u: (0, 1)},
    )


def protein(nodes: int = 151) -> Published:
    """Secreted protein of yeast in a fed-batch reactor (Park, Ramirez 1988): singular arcs."""
    out, total, cells, sugar, volume, u = ks.dynamicsymbols("out total cells sugar volume u")
    growth = 21.87 * sugar / ((sugar + 0.4) * (sugar + 62.5))
    secretion = 4.75 * growth / (0.12 + growth)
    made = sugar / (0.1 + sugar) * exp(-5 * sugar)
    thin = u / volume
    rates = {
        out: secretion * (total - out) - thin * out,
        total: made * cells - thin * total,
        cells: growth * cells - thin * cells,
        sugar: -7.3 * growth * cells + thin * (20 - sugar),
        volume: u,
    }
    return stated(
        explicit("protein", rates, [u]),
        fixed(nodes, 15.0),
        f"{PROPT}, Balsa-Canto et al. 2001",
        -32.686,
        2e-4,
        {cells: 1.0, sugar: 5.0, volume: line(1, 10, nodes), u: 1.0},
        missed="along singular arcs the feed oscillates within intervals, where the default scheme "
        "leaves it free: the grid promises more than there is, and says so (0.08); the trapezoidal "
        "rule ends at 32.683",
        objective=-ks.Terminal(out * volume),
        bounds={sugar: (0, None), volume: (1, None)},
        boundary=starts({out: 0, total: 0, cells: 1, sugar: 5, volume: 1}),
        unknown_inputs={u: (0, 2)},
    )


def penicillin(nodes: int = 151) -> Published:
    """Penicillin from a fed-batch fermenter in free time (Cuthrell, Biegler 1989)."""
    cells, product, sugar, volume, u = ks.dynamicsymbols("cells product sugar volume u")
    growth = 0.11 * sugar / (0.006 * cells + sugar)
    rate = 0.0055 * sugar / (0.0001 + sugar * (1 + 10 * sugar))
    thin = u / (500 * volume)
    rates = {
        cells: growth * cells - thin * cells,
        product: rate * cells - 0.01 * product - thin * product,
        sugar: -growth * cells / 0.47
        - rate * cells / 1.2
        - cells * 0.029 * sugar / (0.0001 + sugar)
        + u / volume * (1 - sugar / 500),
        volume: u / 500,
    }
    return stated(
        explicit("penicillin", rates, [u]),
        free(nodes, 10.0, 256.0),
        f"{PROPT}, Banga et al. 1997",
        -87.99,
        2e-3,
        {
            cells: line(1.5, 30, nodes),
            product: line(0, 8.5, nodes),
            sugar: line(0, 5, nodes),
            volume: line(7, 10, nodes),
            u: 10.0,
            "duration": 126.0,
        },
        objective=-ks.Terminal(product * volume),
        bounds={cells: (0, 40), product: (0, 50), sugar: (0, 25), volume: (1, 10)},
        boundary=starts({cells: 1.5, product: 0, sugar: 0, volume: 7}),
        unknown_inputs={u: (0, 50)},
    )


def ethanol(nodes: int = 151) -> Published:
    """Ethanol from a fed-batch fermenter in free time (Chen, Hwang 1990)."""
    cells, sugar, product, volume, u = ks.dynamicsymbols("cells sugar product volume u")
    growth = 0.408 / (1 + product / 16) * sugar / (0.22 + sugar)
    rate = 1 / (1 + product / 71.5) * sugar / (0.44 + sugar)
    thin = u / volume
    rates = {
        cells: growth * cells - thin * cells,
        sugar: -10 * growth * cells + thin * (150 - sugar),
        product: rate * cells - thin * product,
        volume: u,
    }
    return stated(
        explicit("ethanol", rates, [u]),
        free(nodes, 30.0, 100.0),
        f"Bojkov, Luus 1996; Banga et al. 2003, case study II (PROPT); {RECALLED}",
        -20842.2,
        1e-4,
        {
            cells: line(1, 10, nodes),
            sugar: line(150, 10, nodes),
            product: line(0, 100, nodes),
            volume: line(10, 200, nodes),
            u: 3.0,
            "duration": 60.0,
        },
        objective=-ks.Terminal(product * volume),
        bounds={cells: (0, None), sugar: (0, None), product: (0, None), volume: (10, 200)},
        boundary=starts({cells: 1, sugar: 150, product: 0, volume: 10}),
        unknown_inputs={u: (0, 12)},
    )


def methane(nodes: int = 101) -> Published:
    """Methane from algae in a periodic day of 10 units, half of it night."""
    algae, waste, bacteria, u = ks.dynamicsymbols("algae waste bacteria u")
    light = Max(0, sin(2 * pi * ks.t / 10)) ** 2
    growth = 0.1 * waste / (waste + 0.05)
    rates = {
        algae: light * algae / (1 + algae) - (0.005 + u) * algae,
        waste: -growth * bacteria + u * (algae - waste),
        bacteria: (growth - u) * bacteria,
    }
    return stated(
        explicit("methane", rates, [u]),
        fixed(nodes, 10.0),
        BOCOP,
        -0.614,
        1e-3,
        {algae: 1.0, waste: 1.0, bacteria: 1.0, u: 0.1},
        objective=ks.Integral(-growth * bacteria / 3),
        bounds={algae: (0, None), waste: (0, None), bacteria: (0.001, None)},
        boundary=[ks.periodic(s) for s in rates]
        + [ks.at_start(algae) >= 1, ks.at_start(bacteria) >= 1],
        unknown_inputs={u: (0, 1)},
    )


def algae_and_bacteria(nodes: int = 201) -> Published:
    """Algae that live on what bacteria make of a substrate, harvested for 20 days."""
    s, e, v, q, c = ks.dynamicsymbols("s e v q c")
    share, flow = ks.dynamicsymbols("share flow")
    eaten, taken = 6.48 * s / (0.09 + s), 0.0273 * v / (0.00057 + v)
    growth = 1.0211 * (1 - 0.0027628 / q)
    rates = {
        s: flow * (0.5 - s) - eaten * e / 0.44,
        e: ((1 - share) * eaten - flow) * e,
        v: share * 0.023 * eaten * e - taken * c - flow * v,
        q: taken - growth * q,
        c: (growth - flow) * c,
    }
    begin = dict(zip(rates, (0.1629, 0.0487, 0.0003, 0.0177, 0.035), strict=True))
    return stated(
        explicit("algae", rates, [share, flow]),
        fixed(nodes, 20.0),
        "CTDirect.jl 2025",
        -5.45,
        2e-3,
        {**begin, share: 0.5, flow: 0.5},
        objective=ks.Integral(-flow * c),
        bounds={**dict.fromkeys((s, e, v, c), (0, None)), q: (0.0027628, None)},
        boundary=starts(begin),
        unknown_inputs={share: (0, 1), flow: (0, 1.5)},
    )


def tumour(nodes: int = 101) -> Published:
    """The least tumour that a limited dose against its vessels leaves (Ledzewicz, Schättler 2008):
    bang, singular arc, rest."""
    p, q, y, u = ks.dynamicsymbols("p q y u")
    largest = ((5.85 - 0.02) / 0.00873) ** 1.5 / 1e4
    rates = {
        p: -0.084 * p * log(p / q),
        q: q * (5.85 - 0.02 - 0.00873 * (1e4 * p) ** Rational(2, 3) - 0.15 * u),
        y: u,
    }
    return stated(
        explicit("tumour", rates, [u]),
        free(nodes, 0.1, 20.0),
        f"{BETTS}, example 10.141",
        0.75716712,
        1e-6,
        {p: largest / 2, q: largest / 4, y: line(0, 15, nodes), u: 10.0, "duration": 1.2},
        objective=ks.Terminal(p),
        bounds={p: (1e-6, largest), q: (1e-6, largest), y: (0, 15)},
        boundary=starts({p: largest / 2, q: largest / 4, y: 0}),
        unknown_inputs={u: (0, 75)},
    )


def heated_probe(nodes: int = 41) -> Published:
    """A probe in a kiln: nonlinear heat conduction with ten cells; two of the inputs are algebraic
    variables beyond the ends."""
    n, rho = 10, -1
    y, v = ks.dynamicsymbols(f"y1:{n + 1}"), ks.dynamicsymbols("v1:4")
    delta = sp.Rational(1, n - 1)
    decay = exp(rho * ks.t)

    def source(place: sp.Expr) -> sp.Expr:
        c = cos(pi * place)
        return (
            (rho * 6 + 2 * pi**2) * decay * c
            + pi**2 * decay**2
            + (-2 * pi**2 + rho) * decay**2 * c**2
        )

    beyond = [v[1], *y, v[2]]
    rates = {}
    for k in range(n):
        low, here, high = beyond[k : k + 3]
        flux = (4 - here) * (high - 2 * here + low) / delta**2 - ((high - low) / (2 * delta)) ** 2
        rates[y[k]] = (source(k * delta) + flux) / (4 + here)
    begin = {e: float(2 + np.cos(np.pi * k / (n - 1))) for k, e in enumerate(y)}
    return stated(
        explicit("probe", rates, v),
        fixed(nodes, 0.5),
        PSOPT,
        4.372843e-5,
        1e-2,
        {**begin, v[0]: 0.05, v[1]: 2.9, v[2]: 1.1},
        objective=ks.Integral((y[-1] - 2 + decay) ** 2 / 2 + 0.0005 * v[0] ** 2),
        bounds=dict.fromkeys(y, (0, 3)),
        boundary=starts(begin),
        path=[
            y[0] - v[0] - (4 - y[0]) * (y[1] - v[1]) / (2 * delta),
            (4 - y[-1]) * (v[2] - y[-2]) / (2 * delta),
        ],
        unknown_inputs={v[0]: (0, 0.1), v[1]: (0, 3), v[2]: (0, 3)},
    )


def warm_rod(nodes: int = 51) -> Published:
    """Least heating of a rod of 20 cells at its ends that keeps it above a bump in space and
    time."""
    n = 20
    y, u = ks.dynamicsymbols(f"y1:{n}"), ks.dynamicsymbols("u1:3")
    delta = np.pi / n
    beyond = [u[0], *y, u[1]]
    rates = {e: (beyond[k + 2] - 2 * beyond[k + 1] + beyond[k]) / delta**2 for k, e in enumerate(y)}
    cost = sum(delta * e**2 for e in y) + sum((delta / 2 + 1e-3) * e**2 for e in u)
    bumps = [sin((k + 1) * delta) * sin(pi * ks.t / 5) - 0.7 for k in range(n - 1)]
    return stated(
        explicit("rod", rates, u),
        fixed(nodes, 5.0),
        f"{BETTS}, example 10.57",
        0.468159793,
        1e-5,
        objective=ks.Integral(cost),
        boundary=starts(dict.fromkeys(y, 0)),
        path=[e >= bump for e, bump in zip(y, bumps, strict=True)] + [u[0] >= -0.7, u[1] >= -0.7],
        unknown_inputs=dict.fromkeys(u),
    )


def insurance(nodes: int = 101) -> Published:
    """An insurance whose premium is a parameter, its definitions algebraic equations (Bocop)."""
    cover, cost, paid = ks.dynamicsymbols("cover cost paid")
    h, income, health, use, slope = ks.dynamicsymbols("h income health use slope")
    premium = sp.Symbol("premium")
    end = 10
    ill = 0.25 * exp(-0.25 * ks.t) + exp(-0.25 * end) / end
    cured, change = cost**2 / (1 + cost**2), 2 * cost / (1 + cost**2) ** 2
    rates = {cover: (1 - 0.2 * ks.t * change / slope) * h, cost: h, paid: cover * ill}
    model = explicit("insurance", rates, [h, income, health, use, slope], parameters=[premium])
    return stated(
        model,
        fixed(nodes, float(end)),
        BOCOP,
        -2.059511,
        1e-3,
        {cover: 0.1, cost: 0.1, paid: 0.1, **dict.fromkeys((h, income, health, use, slope), 0.1)},
        missed="the expense jumps within intervals, where the default scheme leaves its rate free: "
        "the grid promises more than there is, and says so (0.6); order 4 ends at 2.0623",
        unknown={premium: (0, None)},
        objective=ks.Integral(-use * ill),
        bounds={cover: (0, 1.1), cost: (0, 1.1)},
        boundary=[*starts({cover: 0, cost: 0.001, paid: 0}), premium - ks.at_end(paid)],
        path=[
            income - (1 - premium + cover - cost),
            health - (1.5 - 0.2 * ks.t * (1 - cured)),
            use - (1 - exp(-10 * income) + health),
            slope - 10 * exp(-10 * income),
        ],
        unknown_inputs={
            h: (0, 25),
            **dict.fromkeys((income, health, use), (0, None)),
            slope: (1e-8, None),
        },
    )
