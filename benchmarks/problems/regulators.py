"""Regulators and oscillators: bounds on states, mixed and integral constraints, no constraint."""

from __future__ import annotations

import numpy as np
import sympy as sp
from scipy.optimize import brentq
from sympy import cos, exp, pi, sin, sqrt

import kinesym as ks
from problems.statement import (
    BETTS,
    BOCOP,
    PROPT,
    PSOPT,
    Published,
    ends,
    explicit,
    fixed,
    free,
    line,
    starts,
    stated,
)


def scalar_regulator(nodes: int = 21) -> Published:
    """A scalar regulator with a cross term; exact value e^2 sinh(2)/(1 + e^2)^2."""
    x, u = ks.dynamicsymbols("x u")
    return stated(
        explicit("scalar", {x: x / 2 + u}, [u]),
        fixed(nodes, 1.0),
        "Hager 2000 (Numerische Mathematik 87, 247), exact",
        float(np.e**2 * np.sinh(2.0) / (1.0 + np.e**2) ** 2),
        1e-6,
        objective=ks.Integral(u**2 / 2 + x * u / 2 + sp.Rational(5, 8) * x**2),
        boundary=starts({x: 1}),
        unknown_inputs={u: None},
    )


def linear_regulator(nodes: int = 41) -> Published:
    """Six states, six inputs and a cost at the end (Nagurka, Wang, Benaroya 1991); the exact value
    is that of a Riccati equation."""
    n = 6
    x, u = ks.dynamicsymbols(f"x1:{n + 1}"), ks.dynamicsymbols(f"u1:{n + 1}")
    last = sum((-1) ** k * (k + 1) * x[k] for k in range(n))
    chain = [*x[1:], last]
    return stated(
        explicit("nagurka", {a: b + c for a, b, c in zip(x, chain, u, strict=True)}, u),
        fixed(nodes, 1.0),
        f"{PROPT}, and a Riccati equation",
        109.074347751904,
        1e-6,
        objective=ks.Terminal(10 * x[0] ** 2) + ks.Integral(sum(e**2 for e in (*x, *u))),
        boundary=starts({a: k + 1 for k, a in enumerate(x)}),
        unknown_inputs=dict.fromkeys(u),
    )


def van_der_pol(nodes: int = 41) -> Published:
    """An oscillator of van der Pol brought to rest for 2 s with a quadratic cost."""
    x, v, u = ks.dynamicsymbols("x v u")
    return stated(
        explicit("van_der_pol", {x: v, v: (1 - x**2) * v - x + u}, [u]),
        fixed(nodes, 2.0),
        f"{BOCOP}, midpoint rule",
        1.047921,
        2e-4,
        objective=ks.Integral((x**2 + v**2 + u**2) / 2),
        boundary=starts({x: 1, v: 0}),
        unknown_inputs={u: None},
    )


def van_der_pol_bounded(nodes: int = 201) -> Published:
    """The same for 5 s, its speed never below -0.4: an arc on a bound of order 1."""
    x, v, u = ks.dynamicsymbols("x v u")
    return stated(
        explicit("van_der_pol", {x: v, v: (1 - x**2) * v - x + u}, [u]),
        fixed(nodes, 5.0),
        f"{BETTS}, example 10.144",
        2.95369916,
        1e-5,
        bounds={v: (-0.4, None)},
        objective=ks.Integral(x**2 + v**2 + u**2),
        boundary=starts({x: 1, v: 0}),
        unknown_inputs={u: None},
    )


def rayleigh(nodes: int = 101) -> Published:
    """The oscillator of Rayleigh, an electric circuit, for 2.5 s."""
    x, v, u = ks.dynamicsymbols("x v u")
    return stated(
        explicit("rayleigh", {x: v, v: -x + v * (1.4 - 0.14 * v**2) + 4 * u}, [u]),
        fixed(nodes, 2.5),
        f"{PROPT}, problem 91 of its manual",
        29.37608,
        5e-6,
        objective=ks.Integral(x**2 + u**2),
        boundary=starts({x: -5, v: -5}),
        unknown_inputs={u: None},
    )


def rayleigh_mixed(nodes: int = 401) -> Published:
    """The same for 4.5 s with a constraint on input and state together, u + x/6 <= 0."""
    x, v, u = ks.dynamicsymbols("x v u")
    return stated(
        explicit("rayleigh", {x: v, v: -x + v * (1.4 - 0.14 * v**2) + 4 * u}, [u]),
        fixed(nodes, 4.5),
        f"{BETTS}, example 10.113",
        44.8044433,
        1e-6,
        objective=ks.Integral(x**2 + u**2),
        boundary=starts({x: -5, v: -5}),
        path=[u + x / 6 <= 0],
        unknown_inputs={u: None},
    )


def alp_rider(nodes: int = 401) -> Published:
    """Stiff states that have to stay outside of a ball whose radius has four narrow peaks."""
    y, u = ks.dynamicsymbols("y1:5"), ks.dynamicsymbols("u1:3")
    peaks = [(3, 3, 12), (3, 6, 10), (3, 10, 6), (8, 15, 4)]
    ball = sum(h * exp(-b * (ks.t - a) ** 2) for h, a, b in peaks) + 0.01
    square = sum(e**2 for e in y)
    rates = [
        -10 * y[0] + u[0] + u[1],
        -2 * y[1] + u[0] + 2 * u[1],
        -3 * y[2] + 5 * y[3] + u[0] - u[1],
        5 * y[2] - 3 * y[3] + u[0] + 3 * u[1],
    ]
    begin, end = zip(y, (2, 1, 2, 1), strict=True), zip(y, (2, 3, 1, -2), strict=True)
    return stated(
        explicit("alp_rider", dict(zip(y, rates, strict=True)), u),
        fixed(nodes, 20.0),
        f"{BETTS}, example 10.1",
        2030.85609,
        1e-5,
        {a: line(b, c, nodes) for a, b, c in zip(y, (2, 1, 2, 1), (2, 3, 1, -2), strict=True)},
        objective=ks.Integral(100 * square + 0.01 * (u[0] ** 2 + u[1] ** 2)),
        boundary=ends(dict(begin), dict(end)),
        path=[square >= ball],
        unknown_inputs=dict.fromkeys(u),
    )


def robbins(nodes: int = 401) -> Published:
    """Third order with a lower bound on the position, which the optimum touches again and again
    (Robbins 1980): published values differ in the second digit, by too coarse grids."""
    x, v, a, u = ks.dynamicsymbols("x v a u")
    return stated(
        explicit("robbins", {x: v, v: a, a: u}, [u]),
        fixed(nodes, 10.0),
        BOCOP,
        19.4,
        3e-3,
        objective=ks.Integral(3 * x + u**2 / 2),
        bounds={x: (0, None)},
        boundary=ends({x: 1, v: -2, a: 0}, {x: 0, v: 0, a: 0}),
        unknown_inputs={u: None},
    )


def clamped_beam(nodes: int = 101) -> Published:
    """Least curvature of a beam under a lid of height 0.1; exact value 8/(9 0.1)."""
    x, v, u = ks.dynamicsymbols("x v u")
    return stated(
        explicit("beam", {x: v, v: u}, [u]),
        fixed(nodes, 1.0),
        "Bryson, Denham, Dreyfus 1963 (Bocop), exact",
        80 / 9,
        1e-5,
        objective=ks.Integral(u**2),
        bounds={x: (0, 0.1)},
        boundary=ends({x: 0, v: 1}, {x: 0, v: -1}),
        unknown_inputs={u: (-10, 10)},
    )


def parabolic_lid(nodes: int = 101) -> Published:
    """A speed below a parabola in time (Jacobson, Lele 1969; Teo, Goh, Wong 1991)."""
    x, v, u = ks.dynamicsymbols("x v u")
    return stated(
        explicit("lid", {x: v, v: u - v}, [u]),
        fixed(nodes, 1.0),
        PSOPT,
        0.169818,
        2e-4,
        objective=ks.Integral(x**2 + v**2 + 0.005 * u**2),
        boundary=starts({x: 0, v: -1}),
        bounds={v: (None, lambda time: 8 * (time - 0.5) ** 2 - 0.5)},
        unknown_inputs={u: None},
    )


def interior_point(nodes: int = 41) -> Published:
    """A state with a given value on the way; exact value from two arcs of cosh and sinh."""

    def arc(a: float, b: float, seconds: float) -> float:
        return ((a * a + b * b) * np.cosh(seconds) - 2.0 * a * b) / np.sinh(seconds)

    x, u = ks.dynamicsymbols("x u")
    return stated(
        explicit("scalar", {x: u}, [u]),
        fixed(nodes, 1.0),
        f"{PSOPT}, exact",
        float(arc(1.0, 0.9, 0.75) + arc(0.9, 0.75, 0.25)),
        1e-6,
        objective=ks.Integral(x**2 + u**2),
        boundary=ends({x: 1}, {x: 0.75}),
        path=[ks.at(0.75, x - 0.9)],
        unknown_inputs={u: None},
    )


def isoperimetric(nodes: int = 101) -> Published:
    """Least integral of a state, the effort given as an equality."""
    x, u = ks.dynamicsymbols("x u")
    return stated(
        explicit("isoperimetric", {x: u - sin(x)}, [u]),
        fixed(nodes, 1.0),
        PSOPT,
        -0.3755058,
        1e-4,
        objective=ks.Integral(x),
        boundary=[*ends({x: 1}, {x: 0}), ks.integral(u**2) - 10],
        unknown_inputs={u: (-4, 4)},
    )


def dido(nodes: int = 41) -> Published:
    """Largest area between a chord of length 1 and a curve of length 1.2; exact: an arc of a
    circle."""
    half = brentq(lambda a: np.sin(a) / a - 1.0 / 1.2, 0.1, 3.0)  # of the angle of the arc
    radius = 0.6 / half
    y, u = ks.dynamicsymbols("y u")
    return stated(
        explicit("dido", {y: u}, [u]),
        fixed(nodes, 1.0),
        "Dido, exact",
        -float(radius**2 * (2.0 * half - np.sin(2.0 * half)) / 2.0),
        1e-6,
        {y: 0.3 * np.sin(np.pi * line(0, 1, nodes))},
        objective=ks.Integral(-y),
        boundary=[*ends({y: 0}, {y: 0}), ks.integral(sqrt(1 + u**2)) - 1.2],
        unknown_inputs={u: None},
    )


def soap_film(nodes: int = 41) -> Published:
    """Least surface of revolution between rings of radius 1 at a distance of 1; exact: a
    catenoid."""
    c = brentq(lambda c: c * np.cosh(0.5 / c) - 1.0, 0.5, 2.0)
    y, u = ks.dynamicsymbols("y u")
    return stated(
        explicit("film", {y: u}, [u]),
        fixed(nodes, 1.0),
        "Euler 1744, exact",
        float(np.pi * c * (1.0 + c * np.sinh(1.0 / c))),
        1e-7,
        {y: 1.0},
        objective=ks.Integral(2 * pi * y * sqrt(1 + u**2)),
        boundary=ends({y: 1}, {y: 1}),
        unknown_inputs={u: None},
    )


def wave_power(nodes: int = 41) -> Published:
    """Largest mean power that a buoy of 2 kg draws from a wave force of 3 N by any force on it,
    in a periodic motion; exact: F^2/(8 b)."""
    z, v, u = ks.dynamicsymbols("z v u")
    mass, damping, stiffness, force, period = 2.0, 0.5, 3.0, 3.0, 4.0
    push = force * cos(2 * pi * ks.t / period)
    return stated(
        explicit("buoy", {z: v, v: (push - damping * v - stiffness * z - u) / mass}, [u]),
        fixed(nodes, period),
        "Falnes 2002 (Ocean Waves and Oscillating Systems), exact",
        -(force**2) / (8 * damping),
        1e-6,
        objective=ks.Integral(-u * v / period),
        boundary=[ks.periodic(z), ks.periodic(v)],
        unknown_inputs={u: None},
    )


def robot_path(nodes: int = 41) -> Published:
    """A point follows a rectangular path in two phases of one second (von Stryk 1999)."""
    x, y, vx, vy, ux, uy = ks.dynamicsymbols("x y vx vy ux uy")
    model = explicit("robot_path", {x: vx, y: vy, vx: ux, vy: uy}, [ux, uy])
    phases = ks.Phases(
        [fixed(nodes, 1.0), ks.Experiment(np.linspace(1.0, 2.0, nodes))],
        start=starts({x: 0, y: 0, vx: 0.5, vy: 0}),
        end=ends({}, {x: 0.5, y: 0.5, vx: 0, vy: 0.5}),
    )
    along = 100 * ((x - ks.t / 2) ** 2 + y**2) + 500 * ((vx - 0.5) ** 2 + vy**2)
    across = 100 * ((x - 0.5) ** 2 + (y - (ks.t - 1) / 2) ** 2) + 500 * (vx**2 + (vy - 0.5) ** 2)
    return stated(
        model,
        phases,
        PSOPT,
        1.042568,
        2e-3,
        objective=[ks.Integral(along), ks.Integral(across)],
        unknown_inputs=dict.fromkeys((ux, uy), (-10, 10)),
    )


def schwartz(nodes: int = 59) -> Published:
    """An oscillator around a forbidden ellipse during the first second, then to the origin, which
    it can reach: the least cost is 0 (Schwartz 1996)."""
    x, v, u = ks.dynamicsymbols("x v u")
    ellipse = 9 * (x - 1) ** 2 + ((v - 0.4) / 0.3) ** 2
    return stated(
        explicit("schwartz", {x: v, v: u - 0.1 * (1 + 2 * x**2) * v}, [u]),
        fixed(nodes, 2.9),
        f"{PSOPT}, exact",
        0.0,
        1e-7,
        {x: line(1, 0, nodes), v: line(1, 0, nodes)},
        objective=ks.Terminal(5 * (x**2 + v**2)),
        boundary=starts({x: 1, v: 1}),
        bounds={v: (-0.8, None)},
        path=[ks.during((0, 1), ellipse >= 1), ks.during((0, 1), (u, -1, 1))],
        unknown_inputs={u: (-50, 50)},
    )


def geodesic(nodes: int = 41) -> Published:
    """Shortest flight from New York to London over a spheroid, at 900 km/h; exact by Karney 2013.

    The position stays on the surface: an equation for angles of the velocity (index 2).
    """
    x, y, z, polar, azimuth = ks.dynamicsymbols("x y z polar azimuth")
    a, b, v = 6.384, 6.353, 0.9  # 1000 km and hours
    heading = (sin(polar) * cos(azimuth), sin(polar) * sin(azimuth), cos(polar))
    model = explicit(
        "geodesic", {q: v * e for q, e in zip((x, y, z), heading, strict=True)}, [polar, azimuth]
    )

    up, east = (np.radians(line(*span, nodes)) for span in ((40.6413, 51.47), (-73.7781, -0.4543)))
    rows = np.array([a * np.cos(up) * np.cos(east), a * np.cos(up) * np.sin(east), b * np.sin(up)])
    steps = np.gradient(rows, axis=1)
    return stated(
        model,
        free(nodes, 3.0, 10.0),
        "Karney 2013 (PSOPT)",
        5.5496819 / v,
        1e-6,
        {
            **dict(zip((x, y, z), rows, strict=True)),
            polar: np.arccos(steps[2] / np.linalg.norm(steps, axis=0)),
            azimuth: np.arctan2(steps[1], steps[0]),
            "duration": 6.3,
        },
        objective=ks.Terminal(ks.t),
        boundary=ends(
            dict(zip((x, y, z), rows[:, 0], strict=True)),
            dict(zip((x, y, z), rows[:, -1], strict=True)),
        ),
        path=[(x**2 + y**2) / a**2 + z**2 / b**2 - 1],
        unknown_inputs={polar: (0, np.pi), azimuth: (0, 2 * np.pi)},
    )
