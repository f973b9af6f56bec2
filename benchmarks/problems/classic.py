"""Optimal control as COPS, PSOPT and opty have it, by their schemes and numbers of nodes.

Where a source used one of our discretisations, scheme and number of nodes are the same, so that the
objectives can be compared digit by digit; elsewhere the published value is that of a finer method,
and `tolerance` says how far second order is from it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import sympy as sp
from sympy import cos, exp, pi, sin, sqrt

import kinesym as ks
from problems.statement import COPS, COPS_GAUSS, OPTY, PSOPT, Published, ends, explicit, graded


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
