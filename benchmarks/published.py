"""Do published problems of optimal control and identification end at their published optima?

Each function below states one problem and returns it ready to be solved. Where a source used one of
our discretisations, scheme and number of nodes are the same, so that the objectives can be compared
digit by digit; elsewhere the published value is that of a finer method, and `tolerance` says how
far second order is from it.

    python benchmarks/published.py [NAME ...] [--nodes N]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from report import save
from scipy.optimize import brentq
from sympy import cos, exp, log, pi, sin, sqrt
from sympy.core.function import AppliedUndef

import kinesym as ks

Array = NDArray[np.float64]
Values = Mapping[AppliedUndef, Any]

DATA = Path(__file__).with_name("data")
COPS = "Dolan, Moré, Munson 2004 (COPS 3), trapezoidal rule"
COPS_GAUSS = "Dolan, Moré, Munson 2004 (COPS 3), Gauss collocation"
OPTY = "Moore, van den Bogert 2018 (opty, example gallery), backward Euler"
PSOPT = "Becerra 2010 (PSOPT), pseudospectral"


@dataclass(frozen=True)
class Published:
    """A problem and what its source says about the solution.

    posed : makes the problem, by the scheme of its source or `posed(scheme=...)`.
    source : authors, year, and how it discretised.
    value : published objective, as a minimum (of -h to maximise h); None if there is none.
    tolerance : relative difference from `value` that discretisation (with the default number of
        nodes) and printed digits explain.
    guess : where to start; it also selects one of several local minima.
    parameters : published parameters by name, each with its tolerance.
    """

    posed: Callable[..., ks.Collocation]
    source: str
    value: float | None = None
    tolerance: float = 0.0
    guess: Mapping[Any, Any] = field(default_factory=dict)
    parameters: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @cached_property
    def problem(self) -> ks.Collocation:
        """By the scheme of its source."""
        return self.posed()


# -- notation --------------------------------------------------------------------------------------


def explicit(
    name: str, rates: Values, inputs: Sequence[AppliedUndef] = (), **more: Any
) -> ks.Model:
    """The model x' = f for rates = {x: f}."""
    equations = [x.diff(ks.t) - f for x, f in rates.items()]
    return ks.Model(name, list(rates), list(inputs), more.pop("parameters", []), equations, **more)


def ends(start: Values, end: Values) -> list[sp.Expr]:
    """Boundary conditions from values at the start and at the end."""
    first = [ks.at_start(x) - value for x, value in start.items()]
    return first + [ks.at_end(x) - value for x, value in end.items()]


def table(name: str) -> Array:
    """Columns of a file of measurements."""
    return np.loadtxt(DATA / name, delimiter=",", skiprows=1, unpack=True)


def sampled(time: Array, measurements: Mapping[Any, Array], nodes: int) -> ks.Experiment:
    """A trial with about `nodes` nodes, among them all instants of the samples, of equal weight."""
    parts = max(1, round((nodes - 1) / (len(time) - 1)))
    alike = dict.fromkeys(measurements, "all")
    return ks.Experiment(time, measurements=measurements, std=alike).refined(parts)


def graded(duration: float, nodes: int) -> Array:
    """A grid whose steps grow in proportion to the time from the nearer end, from about 0.01 s."""
    growth = np.log(duration)
    half = np.expm1(growth * np.linspace(0.0, 1.0, nodes // 2 + 1)) / np.expm1(growth)
    return np.concatenate([half, 2.0 - half[-2::-1]]) * duration / 2.0


# -- optimal control -------------------------------------------------------------------------------


def brachistochrone(nodes: int = 401) -> Published:
    """Fastest slide from (0, 0) to (2, 2), y downwards, a the angle from the vertical, g = 9.8."""
    x, y, v, a = ks.dynamicsymbols("x y v a")
    model = explicit("brachistochrone", {x: v * sin(a), y: v * cos(a), v: 9.8 * cos(a)}, [a])
    posed = partial(
        ks.Collocation,
        model,
        ks.Experiment(nodes=nodes, duration=(0.1, 10.0)),
        scheme="midpoint",
        objective=ks.Terminal(ks.t),
        boundary=ends({x: 0, y: 0, v: 0}, {x: 2, y: 2}),
        bounds={x: (0, 20), y: (0, 20), v: (0, 20)},
        unknown_inputs={a: (0, 2 * np.pi)},
    )
    ramp = np.linspace(0.0, 2.0, nodes)
    guess = {x: ramp, y: ramp, v: 3.0 * ramp, a: 0.8, "duration": 1.0}
    return Published(posed, PSOPT, 0.8247591, 1e-6, guess)


def brachistochrone_on_a_curve(nodes: int = 201) -> Published:
    """Fastest slide from rest in (0, 0) to (10, -6): a particle that may only move along its curve.

    The constraint -ux sin(b) + uy cos(b) = 0 keeps the velocity on the tangent with the slope angle
    b: a system of differential and algebraic equations.
    """
    x, y, ux, uy, b = ks.dynamicsymbols("x y ux uy b")
    along = ux.diff(ks.t) * cos(b) + (uy.diff(ks.t) + 9.81) * sin(b)
    equations = [x.diff(ks.t) - ux, y.diff(ks.t) - uy, along, uy * cos(b) - ux * sin(b)]
    model = ks.Model("slide", [x, y, ux, uy], [b], [], equations)
    posed = partial(
        ks.Collocation,
        model,
        ks.Experiment(nodes=nodes, duration=(0.1, 10.0)),
        scheme="backward-euler",
        objective=ks.Terminal(ks.t),
        boundary=ends({x: 0, y: 0, ux: 0, uy: 0}, {x: 10, y: -6}),
        unknown_inputs={b: (-np.pi / 2 + 1e-5, 0)},
    )
    guess = {
        x: np.linspace(0, 10, nodes),
        y: np.linspace(0, -6, nodes),
        ux: 5.0,
        uy: -3.0,
        b: -0.5,
        "duration": 2.0,
    }
    return Published(posed, f"{OPTY}, 201 nodes", 1.7906238252, 1e-7, guess)


def bryson_denham(nodes: int = 361) -> Published:
    """Least effort there and back, without going further than l = 1/9; exact value 4/(9 l) = 4.

    The default puts nodes on the ends of the constrained arc, 3 l and 1 - 3 l.
    """
    x, v, u = ks.dynamicsymbols("x v u")
    posed = partial(
        ks.Collocation,
        explicit("bryson_denham", {x: v, v: u}, [u]),
        ks.Experiment(np.linspace(0.0, 1.0, nodes)),
        scheme="midpoint",
        objective=ks.Integral(u**2 / 2),
        boundary=ends({x: 0, v: 1}, {x: 0, v: -1}),
        bounds={x: (None, 1 / 9)},
        unknown_inputs={u: None},
    )
    return Published(posed, "Bryson, Denham, Dreyfus 1963, exact", 4.0, 1e-4)


def hypersensitive(nodes: int = 2401) -> Published:
    """A regulator that leaves its ends within seconds and rests at zero for hours."""
    posed = cubic_regulator(10_000.0, 1, 1.5, 1.0, nodes)
    return Published(posed, "Betts 2010, example 10.7", 6.7241, 1e-4)


def hypersensitive_short(nodes: int = 801) -> Published:
    """The same plant for 50 s; twice the value is the integral of x^2 + u^2."""
    return Published(cubic_regulator(50.0, 1.5, 1, 0.5, nodes), PSOPT, 1.330826, 1e-4)


def cubic_regulator(
    duration: float, start: float, end: float, weight: float, nodes: int
) -> Callable[..., ks.Collocation]:
    """x' = -x^3 + u between given ends, with the least weight (x^2 + u^2)."""
    x, u = ks.dynamicsymbols("x u")
    return partial(
        ks.Collocation,
        explicit("cubic_regulator", {x: u - x**3}, [u]),
        ks.Experiment(graded(duration, nodes)),
        scheme="midpoint",
        objective=weight * ks.Integral(x**2 + u**2),
        boundary=ends({x: start}, {x: end}),
        unknown_inputs={u: None},
    )


def robot_arm(nodes: int = 201) -> Published:
    """Fastest turn of a telescopic arm of length 5, rest to rest; three bounded forces."""
    rho, theta, phi, *rates = ks.dynamicsymbols("rho theta phi rho_t theta_t phi_t")
    u = ks.dynamicsymbols("u_:3")
    L = 5
    inertia = ((L - rho) ** 3 + rho**3) / 3
    forces = [u[0] / L, u[1] / (inertia * sin(phi) ** 2), u[2] / inertia]
    rest = dict.fromkeys(rates, 0)
    model = explicit(
        "robot_arm", dict(zip([rho, theta, phi, *rates], [*rates, *forces], strict=True)), u
    )
    posed = partial(
        ks.Collocation,
        model,
        ks.Experiment(nodes=nodes, duration=(1.0, 50.0)),
        scheme="trapezoid",
        objective=ks.Terminal(ks.t),
        boundary=ends(
            {rho: 4.5, theta: 0, phi: pi / 4, **rest},
            {rho: 4.5, theta: 2 * pi / 3, phi: pi / 4, **rest},
        ),
        bounds={rho: (0, L), theta: (-np.pi, np.pi), phi: (0, np.pi)},
        unknown_inputs=dict.fromkeys(u, (-1, 1)),
    )
    s = np.linspace(0, 1, nodes)
    guess = {
        rho: 4.5,
        theta: 2 * np.pi / 3 * s**2,
        rates[1]: 4 * np.pi / 3 * s,
        phi: np.pi / 4,
        "duration": 1.0,
    }
    return Published(posed, f"{COPS}, 201 nodes", 9.14138, 5e-6, guess)


def goddard_rocket(nodes: int = 401) -> Published:
    """Greatest altitude of Goddard's rocket in thin air: full thrust, singular arc, coasting."""
    h, v, m, T = ks.dynamicsymbols("h v m T")
    drag = 310 * v**2 * exp(-500 * (h - 1))
    model = explicit("rocket", {h: v, v: (T - drag) / m - 1 / h**2, m: -2 * T}, [T])
    posed = partial(
        ks.Collocation,
        model,
        ks.Experiment(nodes=nodes, duration=(0.01, 1.0)),
        scheme="trapezoid",
        objective=-ks.Terminal(h),
        boundary=ends({h: 1, v: 0, m: 1}, {m: 0.6}),
        bounds={h: (1, None), v: (0, None), m: (0.6, 1)},
        unknown_inputs={T: (0, 3.5)},
    )
    s = np.linspace(0, 1, nodes)
    guess = {h: 1.0, v: s * (1 - s), m: 1 - 0.4 * s, T: 1.75, "duration": 1.0}
    return Published(posed, f"{COPS}, 401 nodes", -1.01283, 1e-5, guess)


def hang_glider(nodes: int = 101) -> Published:
    """Greatest range of a hang glider through a thermal.

    101 nodes are too few (infinitely many give 1247.987), but the published value belongs to them.
    """
    x, y, vx, vy, c = ks.dynamicsymbols("x y vx vy c")
    r, up, w, v, D, L = sp.symbols("r up w speed drag lift")
    steps = [
        (r, (x / 100 - sp.Rational(5, 2)) ** 2),
        (up, 2.5 * (1 - r) * exp(-r)),
        (w, vy - up),
        (v, sqrt(vx**2 + w**2)),
        (D, 0.5 * (0.034 + 0.069662 * c**2) * 1.13 * 14 * v**2),
        (L, 0.5 * c * 1.13 * 14 * v**2),
    ]
    rates = {x: vx, y: vy, vx: (-L * w - D * vx) / v / 100, vy: (L * vx - D * w) / v / 100 - 9.81}
    cruise = {vx: 13.227567500, vy: -1.2875005200}
    posed = partial(
        ks.Collocation,
        explicit("glider", rates, [c], intermediates=steps),
        ks.Experiment(nodes=nodes, duration=(1.0, 500.0)),
        scheme="trapezoid",
        objective=-ks.Terminal(x),
        boundary=ends({x: 0, y: 1000, **cruise}, {y: 900, **cruise}),
        bounds={x: (0, None), vx: (0, None)},
        unknown_inputs={c: (0, 1.4)},
    )
    guess = {
        x: np.linspace(0, 1000, nodes),
        y: np.linspace(1000, 900, nodes),
        **cruise,
        c: 1.4,  # of two local minima the better one
        "duration": 100.0,
    }
    return Published(posed, f"{COPS}, 101 nodes", -1255.05, 1e-5, guess)


def catalyst_mixing(nodes: int = 801) -> Published:
    """Best mix of two catalysts along a reactor: bang, singular arc, bang."""
    x1, x2, u = ks.dynamicsymbols("x1 x2 u")
    exchange = u * (10 * x2 - x1)
    posed = partial(
        ks.Collocation,
        explicit("catmix", {x1: exchange, x2: -exchange - (1 - u) * x2}, [u]),
        ks.Experiment(np.linspace(0.0, 1.0, nodes)),
        scheme="midpoint",
        objective=ks.Terminal(x1 + x2 - 1),
        boundary=ends({x1: 1, x2: 0}, {}),
        unknown_inputs={u: (0, 1)},
    )
    return Published(posed, COPS_GAUSS, -0.0480556, 2e-5, {x1: 1.0})


def hanging_chain(nodes: int = 200) -> Published:
    """Shape of a chain of length 4 between heights 1 and 3 with the least potential energy.

    The integral that is given, the length, is a state with two ends.
    """
    x, length, u = ks.dynamicsymbols("x length u")
    posed = partial(
        ks.Collocation,
        explicit("chain", {x: u, length: sqrt(1 + u**2)}, [u]),
        ks.Experiment(np.linspace(0.0, 1.0, nodes)),
        scheme="trapezoid",
        objective=ks.Integral(x * sqrt(1 + u**2)),
        boundary=ends({x: 1, length: 0}, {x: 3, length: 4}),
        unknown_inputs={u: None},
    )
    s = np.linspace(0, 1, nodes)
    guess = {x: 8 * s * (s / 2 - 0.25) + 1, length: 4 * s, u: 8 * (s - 0.25)}
    return Published(posed, f"{COPS}, 200 nodes", 5.06891, 5e-6, guess)


def particle_steering(nodes: int = 201) -> Published:
    """Fastest transfer of a particle with thrust of constant size 100 and free direction u."""
    x, y, vx, vy, u = ks.dynamicsymbols("x y vx vy u")
    posed = partial(
        ks.Collocation,
        explicit("steering", {x: vx, y: vy, vx: 100 * cos(u), vy: 100 * sin(u)}, [u]),
        ks.Experiment(nodes=nodes, duration=(0.01, 10.0)),
        scheme="trapezoid",
        objective=ks.Terminal(ks.t),
        boundary=ends({x: 0, y: 0, vx: 0, vy: 0}, {y: 5, vx: 45, vy: 0}),
        unknown_inputs={u: (-np.pi / 2, np.pi / 2)},
    )
    guess = {y: np.linspace(0, 5, nodes), vx: np.linspace(0, 45, nodes), "duration": 1.0}
    return Published(posed, f"{COPS}, 201 nodes", 0.554577, 1e-6, guess)


def lotka_volterra_fishing(nodes: int = 601) -> Published:
    """Fishing that brings prey x and predators y to rest; the relaxed problem, 0 <= w <= 1."""
    x, y, w = ks.dynamicsymbols("x y w")
    posed = partial(
        ks.Collocation,
        explicit("fishing", {x: x - x * y - 0.4 * x * w, y: -y + x * y - 0.2 * y * w}, [w]),
        ks.Experiment(np.linspace(0.0, 12.0, nodes)),
        scheme="radau-3",
        objective=ks.Integral((x - 1) ** 2 + (y - 1) ** 2),
        boundary=ends({x: 0.5, y: 0.7}, {}),
        unknown_inputs={w: (0, 1)},
    )
    return Published(posed, "Sager 2012 (mintOC)", 1.34408, 1e-5, {x: 1.0, y: 1.0, w: 0.2})


# -- motion ----------------------------------------------------------------------------------------


def swing_up(nodes: int = 501) -> Published:
    """Least effort to swing a pendulum of 1 kg and 1 m upright with at most 2 N m, in free time.

    The published solution is a local minimum with five swings; with more swings there are better
    ones (6.1625 in 16.43 s). The guess has as many swings in less time.
    """
    theta, omega, T = ks.dynamicsymbols("theta omega T")
    posed = partial(
        ks.Collocation,
        explicit("swing_up", {theta: omega, omega: T - 9.81 * sin(theta)}, [T]),
        ks.Experiment(nodes=nodes, duration=(1.0, 250.0)),
        scheme="backward-euler",
        objective=ks.Integral(T**2),
        boundary=ends({theta: 0, omega: 0}, {theta: pi, omega: 0}),
        unknown_inputs={T: (-2, 2)},
    )
    s = np.linspace(0.0, 1.0, nodes)
    swings = np.interp(s, [0, 0.15, 0.3, 0.5, 0.65, 1], [0, 0.4, -0.8, 1.2, -1.7, np.pi])
    guess = {theta: swings, omega: 0.0, "duration": 5.0}
    return Published(posed, f"{OPTY}, 501 nodes", 23.0161068, 1e-6, guess)


def two_links_on_a_cart(nodes: int = 300) -> Published:
    """Fastest swing of two hanging rods on a cart to upright rest, with at most 50 N.

    Cart and rod ends have 1 kg, the ends also 2 kg m^2; rods of 2 m; q2, q3 from the x axis, which
    points along the rail. That the accelerations end with zero is written as F = 0, which upright
    and at rest is the same. While the cart leans on the end of its rail, the force chatters, and
    many minima lie within the tolerance.
    """
    q, u, force = ks.dynamicsymbols("q1:4"), ks.dynamicsymbols("u1:4"), ks.dynamicsymbols("F")
    x2, y2 = q[0] + 2 * cos(q[1]), 2 * sin(q[1])
    x3, y3 = x2 + 2 * cos(q[2]), y2 + 2 * sin(q[2])
    speeds = [sp.Matrix([x]).jacobian(q).dot(u) for x in (q[0], x2, y2, x3, y3)]
    lagrangian = sum(v**2 for v in speeds) / 2 + u[1] ** 2 + u[2] ** 2 - 9.81 * (y2 + y3)
    swap = {x.diff(ks.t): v for x, v in zip(q, u, strict=True)}
    motion = [
        lagrangian.diff(v).diff(ks.t).subs(swap) - lagrangian.diff(x) - f
        for x, v, f in zip(q, u, (force, 0, 0), strict=True)
    ]
    kinematics = [x.diff(ks.t) - v for x, v in zip(q, u, strict=True)]
    rest = dict.fromkeys(u, 0)
    posed = partial(
        ks.Collocation,
        ks.Model("two_links", [*q, *u], [force], [], kinematics + motion),
        ks.Experiment(nodes=nodes, duration=(0.5, 20.0)),
        scheme="backward-euler",
        objective=ks.Terminal(ks.t),
        boundary=ends(
            {q[0]: 0, q[1]: -pi / 2, q[2]: -pi / 2, **rest},
            {q[1]: pi / 2, q[2]: pi / 2, **rest, force: 0},
        ),
        bounds={q[0]: (-5, 5)},
        unknown_inputs={force: (-50, 50)},
    )
    turn = np.linspace(-np.pi / 2, np.pi / 2, nodes)
    guess = {q[1]: turn, q[2]: turn, **rest, "duration": 3.0}
    return Published(posed, f"{OPTY}, 300 nodes", 2.924254701641, 5e-6, guess)


# -- identification --------------------------------------------------------------------------------


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


PROBLEMS: Mapping[str, Callable[..., Published]] = {
    f.__name__: f
    for f in (
        brachistochrone,
        brachistochrone_on_a_curve,
        bryson_denham,
        hypersensitive,
        hypersensitive_short,
        robot_arm,
        goddard_rocket,
        hang_glider,
        catalyst_mixing,
        hanging_chain,
        particle_steering,
        lotka_volterra_fishing,
        swing_up,
        two_links_on_a_cart,
        gas_oil,
        alpha_pinene,
        lynx_and_hare,
        methanol,
        marine,
        channel,
    )
}


# -- closed forms ----------------------------------------------------------------------------------


def cycloid(x: float, y: float, g: float) -> float:
    """Least time from rest to a point x further and y deeper: r (a - sin a), r (1 - cos a)."""
    a = brentq(lambda a: (a - np.sin(a)) / (1.0 - np.cos(a)) - x / y, 0.01, 6.0)
    return a * np.sqrt(y / (1.0 - np.cos(a)) / g)


def catenary(length: float, low: float, high: float) -> float:
    """Least potential energy of a chain over a base of 1 between two heights: c cosh((s-d)/c) + e.

    length^2 - (high - low)^2 = (2 c sinh(1/(2 c)))^2 gives c; the rest follows in closed form.
    """
    rise = high - low
    c = brentq(lambda c: 2.0 * c * np.sinh(0.5 / c) - np.sqrt(length**2 - rise**2), 0.05, 5.0)
    d = 0.5 - c * np.arctanh(rise / length)
    e = low - c * np.cosh(d / c)
    height = c / 2.0 + c**2 / 4.0 * (np.sinh(2.0 * (1.0 - d) / c) + np.sinh(2.0 * d / c))
    return height + e * length


#: Objectives of the continuum.
CLOSED_FORMS: Mapping[str, Callable[[], float]] = {
    "brachistochrone": partial(cycloid, 2.0, 2.0, 9.8),
    "hanging_chain": partial(catenary, 4.0, 1.0, 3.0),
    "bryson_denham": partial(float, 4),
}


# -- report ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """A solved problem; difference and misfit are relative, the misfit that of the parameters."""

    name: str
    published: Published
    solution: ks.Solution
    seconds: float

    @property
    def difference(self) -> float:
        """(objective - published)/|published|; NaN without published value."""
        value = self.published.value
        return np.nan if value is None else (self.solution.objective - value) / abs(value)

    @property
    def misfit(self) -> float:
        """Largest difference of a parameter, in its tolerance; NaN without published ones."""
        known, found = self.published.parameters, self.solution.parameters
        return max((abs(found[k] - p) / tol for k, (p, tol) in known.items()), default=np.nan)

    @property
    def met(self) -> bool:
        """Whether the solver converged to what is published."""
        wrong = abs(self.difference) > self.published.tolerance or self.misfit > 1.0
        return self.solution.success and not wrong


def solve(name: str, nodes: int | None = None) -> Outcome:
    """Build and solve one problem with its own number of nodes, or with `nodes`.

    IPOPT's default tolerance, 1e-8, leaves about 1e-9 per bound in the objective, which thousands
    of bounded nodes make visible in the published digits.
    """
    start = time.perf_counter()
    published = PROBLEMS[name]() if nodes is None else PROBLEMS[name](nodes)
    solution = published.problem.solve(published.guess, tolerance=1e-9)
    return Outcome(name, published, solution, time.perf_counter() - start)


def header() -> str:
    """Titles of the columns."""
    return (
        f"{'problem':<27}{'nodes':>6}{'iterations':>11}{'objective':>15}{'published':>15}"
        f"{'difference':>12}{'seconds':>9}  source"
    )


def row(outcome: Outcome) -> str:
    """One line of the report; a problem that misses what is published gets a mark."""
    solution, published = outcome.solution, outcome.published
    value = "-" if published.value is None else f"{published.value:.9g}"
    difference = "-" if published.value is None else f"{outcome.difference:.1e}"
    mark = "" if outcome.met else f"  MISSED ({solution.message})"
    return (
        f"{outcome.name:<27}{len(solution.time):>6}{solution.iterations:>11}"
        f"{solution.objective:>15.9g}{value:>15}{difference:>12}{outcome.seconds:>9.2f}"
        f"  {published.source}{mark}"
    )


def parameter_rows(outcome: Outcome) -> list[str]:
    """Identified and published parameters, one per line."""
    return [
        f"    {name:<23}{outcome.solution.parameters[name]:>32.7g}{value:>15.7g}"
        f"{(outcome.solution.parameters[name] - value) / value:>12.1e}"
        for name, (value, _) in outcome.published.parameters.items()
    ]


def numbers(outcome: Outcome) -> dict[str, Any]:
    """A line of the raw numbers."""
    solution, published = outcome.solution, outcome.published
    return {
        "problem": outcome.name,
        "nodes": len(solution.time),
        "iterations": solution.iterations,
        "objective": solution.objective,
        "published": published.value,
        "difference": outcome.difference,
        "tolerance": published.tolerance,
        "seconds": outcome.seconds,
        "met": outcome.met,
        "source": published.source,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Solve the named problems (default: all), print a table; 1 if one misses what is published."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", metavar="NAME", nargs="*", help=", ".join(PROBLEMS))
    parser.add_argument("--nodes", type=int, help="instead of the number that belongs to a problem")
    parser.add_argument("--quick", action="store_true", help="only two of them")
    parser.add_argument("--report", metavar="FOLDER", help="leave text and numbers there")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in PROBLEMS]
    if unknown:
        parser.error(f"there is no problem {unknown[0]}; there are {', '.join(PROBLEMS)}")
    lines, outcomes = [header()], []
    print(lines[0])
    for name in options.names or list(PROBLEMS)[: 2 if options.quick else None]:
        outcomes.append(solve(name, options.nodes))
        new = [row(outcomes[-1]), *parameter_rows(outcomes[-1])]
        print("\n".join(new), flush=True)
        lines += new
    if options.report:
        text = "\n".join(["```", *lines, "```"])
        save(options.report, "published", text, [numbers(outcome) for outcome in outcomes])
    return 0 if all(outcome.met for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
