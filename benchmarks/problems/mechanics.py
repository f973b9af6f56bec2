"""Machines, robots and vehicles on the ground and under water."""

from __future__ import annotations

import numpy as np
import sympy as sp
from sympy import cos, exp, pi, sin, tan

import kinesym as ks
from problems.statement import (
    BETTS,
    BOCOP,
    PROPT,
    PSOPT,
    RECALLED,
    Published,
    ends,
    explicit,
    fixed,
    free,
    line,
    starts,
    stated,
)


def cart_pole(nodes: int = 101) -> Published:
    """A pole that hangs from a cart swings up in 2 s with least effort (Kelly 2017, appendix E.1:
    1 kg, 0.3 kg, 0.5 m, 1 m to go, at most 20 N)."""
    q, angle, v, rate, u = ks.dynamicsymbols("q angle v rate u")
    m1, m2, length, g = 1.0, 0.3, 0.5, 9.81
    s, c = sin(angle), cos(angle)
    pull = length * m2 * s * rate**2
    model = explicit(
        "cart_pole",
        {
            q: v,
            angle: rate,
            v: (pull + u + m2 * g * c * s) / (m1 + m2 * s**2),
            rate: -(pull * c + u * c + (m1 + m2) * g * s) / (length * (m1 + m2 * s**2)),
        },
        [u],
    )
    return stated(
        model,
        fixed(nodes, 2.0),
        "Kelly 2017 (Dymos 1.6, 10 segments)",
        58.8839489745,
        2e-3,
        {q: line(0, 1, nodes), angle: line(0, np.pi, nodes)},
        objective=ks.Integral(u**2),
        bounds={q: (-2, 2)},
        boundary=ends({q: 0, angle: 0, v: 0, rate: 0}, {q: 1, angle: pi, v: 0, rate: 0}),
        unknown_inputs={u: (-20, 20)},
    )


def container_crane(nodes: int = 101) -> Published:
    """A container is moved and lifted in 9 s, so that it swings as little as possible (Sakawa,
    Shindo 1982)."""
    x, rope, swing, v, lift, rate = ks.dynamicsymbols("x rope swing v lift rate")
    u, w = ks.dynamicsymbols("u w")
    rates = {
        x: v,
        rope: lift,
        swing: rate,
        v: u + 17.2656 * swing,
        lift: w,
        rate: -(u + 27.0756 * swing + 2 * lift * rate) / rope,
    }
    begin = dict(zip(rates, (0, 22, 0, 0, -1, 0), strict=True))
    end = dict(zip(rates, (10, 14, 0, 2.5, 0, 0), strict=True))
    return stated(
        explicit("crane", rates, [u, w]),
        fixed(nodes, 9.0),
        PSOPT,
        0.005151238,
        2e-4,
        {s: line(begin[s], end[s], nodes) for s in rates},
        objective=ks.Integral((swing**2 + rate**2) / 2),
        bounds={v: (-2.5, 2.5), lift: (-1, 1)},
        boundary=ends(begin, end),
        unknown_inputs={u: (-2.83374, 2.83374), w: (-0.80865, 0.71265)},
    )


def two_link_arm(nodes: int = 101) -> Published:
    """The least time for a turn of a planar arm with two bounded torques (Luus 2000). Published
    times fall with finer grids of the inputs: 2.9887, 2.9836, 2.9830."""
    a, b, bend, turn, u, w = ks.dynamicsymbols("a b bend turn u w")
    s, c = sin(bend), cos(bend)
    mass = sp.Rational(31, 36) + sp.Rational(9, 4) * s**2
    first = s * (2.25 * c * a**2 + 2 * b**2) + (u - w) * sp.Rational(4, 3) - 1.5 * c * w
    second = s * (3.5 * a**2 + 2.25 * c * b**2) - w * sp.Rational(7, 3) + 1.5 * c * (u - w)
    return stated(
        explicit("arm", {a: first / mass, b: -second / mass, bend: b - a, turn: a}, [u, w]),
        free(nodes, 1.0, 10.0),
        f"{PSOPT}, 79 segments",
        2.983021,
        3e-4,
        {bend: 0.5, turn: 0.522, "duration": 3.0},
        objective=ks.Terminal(ks.t),
        boundary=ends({a: 0, b: 0, bend: 0.5, turn: 0}, {a: 0, b: 0, bend: 0.5, turn: 0.522}),
        unknown_inputs={u: (-1, 1), w: (-1, 1)},
    )


def rigid_body(nodes: int = 101) -> Published:
    """The least time to turn an asymmetric body by 150 degrees; the fourth of its quaternion is an
    algebraic variable."""
    q, r, p = ks.dynamicsymbols("q1:4"), ks.dynamicsymbols("q4"), ks.dynamicsymbols("w1:4")
    u = ks.dynamicsymbols("u1:4")
    inertia = (5621, 4547, 2364)
    turn = [
        p[0] * r - p[1] * q[2] + p[2] * q[1],
        p[0] * q[2] + p[1] * r - p[2] * q[0],
        -p[0] * q[1] + p[1] * q[0] + p[2] * r,
    ]
    spin = []
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        spin.append((u[k] - (inertia[j] - inertia[i]) * p[i] * p[j]) / inertia[k])
    rates = dict(zip((*q, *p), (*(e / 2 for e in turn), *spin), strict=True))
    still = dict.fromkeys(p, 0)
    half = np.radians(75.0)
    return stated(
        explicit("body", rates, [*u, r]),
        free(nodes, 25.0, 35.0),
        f"{BETTS}, Fleming et al. 2010",
        28.630408,
        1e-6,
        {
            q[0]: line(0, np.sin(half), nodes),
            r: line(1, np.cos(half), nodes),
            **dict.fromkeys(u, 50.0),
            "duration": 30.0,
        },
        objective=ks.Terminal(ks.t),
        boundary=ends(
            {**dict.fromkeys(q, 0), **still}, {q[0]: np.sin(half), q[1]: 0, q[2]: 0, **still}
        ),
        path=[sum(e**2 for e in (*q, r)) - 1],
        unknown_inputs={**dict.fromkeys(u, (-50, 50)), r: (-1, 1)},
    )


def friction(nodes: int = 41) -> Published:
    """Two masses with springs and dry friction from speed to rest in the least time (Driessen,
    Sadegh 2000). Each mass turns around once: three phases, with friction of known sign."""
    a, b, v, w, f, g = ks.dynamicsymbols("a b v w f g")

    def phase(name: str, first: int, second: int) -> ks.Model:
        rates = {
            a: v,
            b: w,
            v: (-(0.95 + 0.85) * a + 0.85 * b - first + f) / 1.1,
            w: (0.85 * a - 0.85 * b - second + g) / 1.2,
        }
        return explicit(name, rates, [f, g])

    back, forth = (None, 0), (0, None)
    return stated(
        [phase("both_back", -1, -1), phase("one_forth", 1, -1), phase("both_forth", 1, 1)],
        ks.Phases(
            [
                ks.Experiment(nodes=nodes, duration=(0.01, 4.0), bounds={v: one, w: other})
                for one, other in ((back, back), (forth, back), (forth, forth))
            ],
            maps=[{}, {}],
            joints=[[ks.at_end(v)], [ks.at_end(w)]],
            start=starts({a: 0, b: 0, v: -1, w: -2}),
            end=ends({}, {a: 1, b: 2, v: 0, w: 0}),
        ),
        f"{PROPT}, friction smoothed; {RECALLED}",
        2.114475,
        1e-3,
        {"duration": 0.7},
        objective=ks.Terminal(ks.t),
        unknown_inputs={f: (-4, 4), g: (-4, 4)},
    )


def double_oscillator(nodes: int = 101) -> Published:
    """A damper that is switched while a force shakes two masses (Coudurier, Lepreux, Petit 2018);
    states other than positions begin free."""
    a, b, v, w, u = ks.dynamicsymbols("a b v w u")
    rates = {
        a: v,
        b: w,
        v: (-103 * a + 3 * b + sin(ks.t)) / 100,
        w: (3 * a - 3 * b - (1 - u) * w / 2) / 2,
    }
    return stated(
        explicit("oscillators", rates, [u]),
        fixed(nodes, float(2 * pi)),
        BOCOP,
        0.0009,
        5e-2,
        objective=ks.Integral((a**2 + b**2 + u**2) / 2),
        boundary=starts({a: 0, b: 0}),
        unknown_inputs={u: (-1, 1)},
    )


def electric_vehicle(nodes: int = 101) -> Published:
    """Least energy over a hilly road in a given time (Petit, Sciarretta 2011)."""
    x, v, u = ks.dynamicsymbols("x v u")
    road = 3 + 0.4 * x - x**2 + 0.1 * x**3
    return stated(
        explicit("vehicle", {x: v, v: u - 1e-3 * v**2 - 0.1 - road}, [u]),
        fixed(nodes, 1.0),
        BOCOP,
        1.2287e6,
        5e-4,
        {x: line(0, 10, nodes), v: 10.0},
        objective=ks.Integral(1000 * (u * v + u**2)),
        boundary=ends({x: 0, v: 0}, {x: 10, v: 0}),
        unknown_inputs={u: None},
    )


def mountain_car(nodes: int = 201) -> Published:
    """The least time out of a valley with a motor that is too weak (Moore 1990)."""
    x, v, u = ks.dynamicsymbols("x v u")
    return stated(
        explicit("car", {x: v, v: 0.001 * u - 0.0025 * cos(3 * x)}, [u]),
        free(nodes, 0.05, 1000.0),
        "Melnikov et al. 2014 (Dymos 1.6)",
        102.479,
        2e-3,
        {x: line(-0.5, 0.5, nodes), v: line(0, 0.07, nodes), u: np.sign(line(-1, 1, nodes))},
        objective=ks.Terminal(ks.t),
        bounds={x: (-1.2, 0.5), v: (-0.07, 0.07)},
        boundary=[*starts({x: -0.5, v: 0}), ks.at_end(x) - 0.5, ks.at_end(v) >= 0],
        unknown_inputs={u: (-1, 1)},
    )


def truck_with_trailers(nodes: int = 201) -> Published:
    """Parks a truck with two trailers: time and bends are to be small."""
    x, y, a, b, c, v, steer = ks.dynamicsymbols("x y a b c v steer")
    dv, dsteer = ks.dynamicsymbols("dv dsteer")
    l0, m0, l1, l2, m1 = 0.4, 0.1, 1.1, 0.8, 0.2
    turn = v / l0 * tan(steer)
    first = v / l1 * sin(a - b) - m0 / l1 * cos(a - b) * turn
    v1 = v * cos(a - b) + m0 * sin(a - b) * turn
    second = v1 / l2 * sin(b - c) - m1 / l2 * cos(b - c) * first
    v2 = v1 * cos(b - c) + m1 * sin(b - c) * first
    rates = {x: v2 * cos(c), y: v2 * sin(c), a: turn, b: first, c: second, v: dv, steer: dsteer}
    right = np.pi / 2
    return stated(
        explicit("truck", rates, [dv, dsteer]),
        free(nodes, 1.0, 1000.0),
        f"{BOCOP}, trapezoidal rule",
        59.28,
        2e-3,
        {**dict.fromkeys(rates, 0.1), "duration": 10.0},
        missed="two headings have to end at their bounds, and up to 1000 s are allowed: motions of "
        "150 to 300 s are found; with at most 100 s, 59.30",
        objective=ks.Terminal(ks.t) + ks.Integral((a - b) ** 2 + (b - c) ** 2),
        bounds={
            **dict.fromkeys((a, b), (-right, right)),
            v: (-0.2, 0.2),
            steer: (-np.pi / 6, np.pi / 6),
        },
        boundary=ends(dict.fromkeys((x, y, a, b, c), 0), {x: 0, y: -2, c: right})
        + [ks.at_end(a - b), ks.at_end(b - c)],
        path=[(a - b, -right, right), (b - c, -right, right)],
        unknown_inputs={dv: (-1, 1), dsteer: (-np.pi / 10, np.pi / 10)},
    )


def underwater_vehicle(nodes: int = 101) -> Published:
    """A small submarine in a current, with ten states (Büskens, Maurer 2000)."""
    y, u = ks.dynamicsymbols("y1:11"), ks.dynamicsymbols("u1:5")
    current = exp(-(((y[0] - 0.5) / 0.1) ** 2)) * ((y[2] - 0.1) / 0.1) ** 2
    roll, pitch, yaw, speed, p, q, r = y[3:]
    swing = q * sin(roll) + r * cos(roll)
    rates = [
        speed * cos(yaw) * cos(pitch) - 2 * current * (y[0] - 0.5),
        speed * sin(yaw) * cos(pitch),
        -speed * sin(pitch) - 0.1 * current,
        p + swing * tan(pitch),
        q * cos(roll) - r * sin(roll),
        swing / cos(pitch),
        *u,
    ]
    begin = (0, 0, 0.2, np.pi / 2, 0.1, -np.pi / 4, 1, 0, 0.5, 0.1)
    end = (1, 0.5, 0, np.pi / 2, 0, 0, 0, 0, 0, 0)
    return stated(
        explicit("submarine", dict(zip(y, rates, strict=True)), u),
        fixed(nodes, 1.0),
        f"{BETTS}, example 10.6",
        236.528,
        1e-5,
        {s: line(b, e, nodes) for s, b, e in zip(y, begin, end, strict=True)},
        missed="from 12 starts, by several schemes and grids, the statement that two packages have "
        "ends at 237.350",
        objective=ks.Integral(sum(e**2 for e in u)),
        bounds={roll: (np.pi / 2 - 0.02, np.pi / 2 + 0.02)},
        boundary=ends(dict(zip(y, begin, strict=True)), dict(zip(y, end, strict=True))),
        unknown_inputs=dict.fromkeys(u, (-15, 15)),
    )


def free_flying_robot(nodes: int = 201) -> Published:
    """Least fuel of a robot in space with two pairs of thrusters (Sakawa 1999): inputs jump six
    times."""
    x, y, angle, vx, vy, rate = ks.dynamicsymbols("x y angle vx vy rate")
    u = ks.dynamicsymbols("u1:5")
    thrust, turn = u[0] - u[1] + u[2] - u[3], 0.2 * (u[0] - u[1]) - 0.2 * (u[2] - u[3])
    rates = {
        x: vx,
        y: vy,
        angle: rate,
        vx: thrust * cos(angle),
        vy: thrust * sin(angle),
        rate: turn,
    }
    begin = dict(zip(rates, (-10, -10, np.pi / 2, 0, 0, 0), strict=True))
    return stated(
        explicit("robot", rates, u),
        fixed(nodes, 12.0),
        f"{BETTS}, example 10.43",
        7.91055654,
        1e-4,
        {s: line(b, 0, nodes) for s, b in begin.items()},
        objective=ks.Integral(sum(u)),
        boundary=ends(begin, dict.fromkeys(rates, 0)),
        path=[u[0] + u[1] <= 1, u[2] + u[3] <= 1],
        unknown_inputs=dict.fromkeys(u, (0, 1)),
    )
