"""Identification: coefficients of rates from published measurements; a boundary-value problem."""

from __future__ import annotations

from functools import partial

import numpy as np
import sympy as sp
from sympy import log

import kinesym as ks
from problems.statement import COPS_GAUSS, Published, ends, explicit, sampled, table


def gas_oil(nodes: int = 801) -> Published:
    """Rates p of the catalytic cracking of gas oil y1 to gasoline y2 (Tjoa, Biegler 1991)."""
    y1, y2 = ks.dynamicsymbols("y1 y2")
    p = sp.symbols("p1:4")
    model = explicit(
        "gas_oil", {y1: -(p[0] + p[2]) * y1**2, y2: p[0] * y1**2 - p[1] * y2}, parameters=p
    )
    time, *samples = table("gas_oil.csv")
    posed = partial(
        ks.Collocation,
        model,
        sampled(time, dict(zip((y1, y2), samples, strict=True)), nodes),
        scheme="midpoint",
        unknown=dict.fromkeys(p, (0, None)),
        boundary=ends({y1: 1, y2: 0}, {}),
    )
    optimum = (11.84674, 8.344521, 1.001436)
    found = {k.name: (value, 2e-4 * value) for k, value in zip(p, optimum, strict=True)}
    return Published(posed, COPS_GAUSS, 5.2366e-3, 1e-4, parameters=found)


def alpha_pinene(nodes: int = 801) -> Published:
    """Rates p of the thermal isomerisation of alpha-pinene (Box et al. 1973)."""
    y, p = ks.dynamicsymbols("y1:6"), sp.symbols("p1:6")
    forth, back = (p[2] + p[3]) * y[2], p[4] * y[4]
    rates = [
        -(p[0] + p[1]) * y[0],
        p[0] * y[0],
        p[1] * y[0] - forth + back,
        p[2] * y[2],
        p[3] * y[2] - back,
    ]
    time, *samples = table("alpha_pinene.csv")
    start = [100, 0, 0, 0, 0]  # known, not measured
    measured = {x: np.append(np.nan, row) for x, row in zip(y, samples, strict=True)}
    posed = partial(
        ks.Collocation,
        explicit("alpha_pinene", dict(zip(y, rates, strict=True)), parameters=p),
        sampled(np.append(0.0, time), measured, nodes),
        scheme="midpoint",
        unknown=dict.fromkeys(p, (0, None)),
        boundary=ends(dict(zip(y, start, strict=True)), {}),
    )
    optimum = (5.925849e-5, 2.963402e-5, 2.047284e-5, 2.744679e-4, 3.997950e-5)
    found = {k.name: (value, 1e-4 * value) for k, value in zip(p, optimum, strict=True)}
    return Published(posed, COPS_GAUSS, 19.8721, 2e-5, parameters=found)


def lynx_and_hare(nodes: int = 801) -> Published:
    """Rates of predation from the pelts of hares and lynxes, errors proportional to the numbers.

    Published are means and standard deviations of a Bayesian posterior with weak priors; the least
    squares of the logarithms should lie within these deviations.
    """
    hare, lynx = ks.dynamicsymbols("hare lynx")
    a, b, c, d = sp.symbols("a b c d")
    model = explicit(
        "lynx_and_hare",
        {hare: (a - b * lynx) * hare, lynx: (d * hare - c) * lynx},
        parameters=[a, b, c, d],
        outputs={"log_hare": log(hare), "log_lynx": log(lynx)},
    )
    year, lynxes, hares = table("lynx_hare.csv")
    measured = {"log_hare": np.log(hares), "log_lynx": np.log(lynxes)}
    posed = partial(
        ks.Collocation,
        model,
        sampled(year - year[0], measured, nodes),
        scheme="midpoint",
        unknown=dict.fromkeys((a, b, c, d), (0, None)),
        bounds={hare: (0.1, None), lynx: (0.1, None)},
    )
    found = {"a": (0.545, 0.064), "b": (0.028, 0.004), "c": (0.803, 0.092), "d": (0.024, 0.004)}
    guess = {a: 0.5, b: 0.03, c: 0.8, d: 0.03, hare: 30.0, lynx: 20.0}
    return Published(posed, "Carpenter 2018 (Stan)", guess=guess, parameters=found)


def methanol(nodes: int = 801) -> Published:
    """Coefficients p of the conversion of methanol y1 to olefins y2 and others y3 (Maria 1989)."""
    y, p = ks.dynamicsymbols("y1:4"), sp.symbols("p1:6")
    rate = p[0] * y[0] / ((p[1] + p[4]) * y[0] + y[1])
    rates = [
        rate * y[1] - (2 * p[1] + p[2] + p[3]) * y[0],
        rate * (p[1] * y[0] - y[1]) + p[2] * y[0],
        rate * (y[1] + p[4] * y[0]) + p[3] * y[0],
    ]
    time, *samples = table("methanol.csv")
    start = [1, 0, 0]
    posed = partial(
        ks.Collocation,
        explicit("methanol", dict(zip(y, rates, strict=True)), parameters=p),
        sampled(time, dict(zip(y, samples, strict=True)), nodes),
        scheme="midpoint",
        unknown=dict.fromkeys(p, (0, None)),
        boundary=ends(dict(zip(y, start, strict=True)), {}),
    )
    guess = {**dict.fromkeys(p, 1.0), **dict.fromkeys(y, 0.001)}
    return Published(posed, COPS_GAUSS, 9.02229e-3, 5e-6, guess)


def marine(nodes: int = 801) -> Published:
    """Rates of growth g and of mortality m of a marine population in eight stages of life
    (Rothschild, Sharov, Kearsley, Bondarenko 1997)."""
    y, g, m = ks.dynamicsymbols("y1:9"), sp.symbols("g1:8"), sp.symbols("m1:9")
    grown = [0, *(rate * stage for rate, stage in zip(g, y[:-1], strict=True))]
    lost = [(dies + grows) * stage for dies, grows, stage in zip(m, (*g, 0), y, strict=True)]
    rates = [a - b for a, b in zip(grown, lost, strict=True)]
    time, *samples = table("marine.csv")
    posed = partial(
        ks.Collocation,
        explicit("marine", dict(zip(y, rates, strict=True)), parameters=(*g, *m)),
        sampled(time, dict(zip(y, samples, strict=True)), nodes),
        scheme="midpoint",
        unknown=dict.fromkeys((*g, *m), (0, None)),
    )
    return Published(posed, COPS_GAUSS, 1.97465e7, 5e-6)


def channel(nodes: int = 401) -> Published:
    """Flow of a fluid in a long channel, injected through a wall, at Reynolds number 10 (Ascher,
    Mattheij, Russell 1995): a boundary-value problem, with nothing left to minimise."""
    u, *slopes = ks.dynamicsymbols("u u1 u2 u3")
    chain = dict(
        zip((u, *slopes), (*slopes, 10 * (slopes[0] * slopes[1] - u * slopes[2])), strict=True)
    )
    posed = partial(
        ks.Collocation,
        explicit("channel", chain),
        ks.Experiment(np.linspace(0.0, 1.0, nodes)),
        scheme="midpoint",
        objective=ks.Integral(slopes[1] ** 2),
        boundary=ends({u: 0, slopes[0]: 0}, {u: 1, slopes[0]: 0}),
    )
    s = np.linspace(0.0, 1.0, nodes)
    cubic = (s**2 * (3 - 2 * s), 6 * s * (1 - s), 6 * (1 - 2 * s), np.full(nodes, -12.0))
    guess = dict(zip((u, *slopes), cubic, strict=True))
    return Published(posed, "scipy.integrate.solve_bvp", 14.09195229, 1e-6, guess)
