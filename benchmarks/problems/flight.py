"""Rockets, aircraft, satellites, drones."""

from __future__ import annotations

import numpy as np
import sympy as sp
from sympy import cos, exp, pi, sin, sqrt

import kinesym as ks
from problems.statement import (
    BETTS,
    BOCOP,
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

DYMOS = "Falck et al. 2021 (Dymos)"


def longest_flight(nodes: int = 101) -> Published:
    """The farthest flight in 2 s with a constant thrust against gravity, up to 0.1 (Bryson, Ho
    1975); the direction has two components of a unit vector."""
    x, y, v, c, s = ks.dynamicsymbols("x y v c s")
    return stated(
        explicit("flight", {x: v * c, y: v * s, v: 0.5 - s}, [c, s]),
        fixed(nodes, 2.0),
        PSOPT,
        -1.712313,
        1e-5,
        {x: line(0, 1, nodes), y: line(0, 0.1, nodes), v: line(0, 1, nodes), c: 0.7, s: 0.7},
        objective=-ks.Terminal(x),
        boundary=ends({x: 0, y: 0, v: 0}, {y: 0.1}),
        path=[c**2 + s**2 - 1],
        unknown_inputs=dict.fromkeys((c, s), (-10, 10)),
    )


def moon_lander(nodes: int = 101) -> Published:
    """Softly onto the moon with the least fuel: free fall, then full thrust."""
    h, v, m, thrust = ks.dynamicsymbols("h v m thrust")
    return stated(
        explicit("lander", {h: v, v: thrust / m - 1, m: -thrust / 2.349}, [thrust]),
        free(nodes, 0.1, 10.0),
        PSOPT,
        1.420411,
        1e-4,
        {h: line(1, 0, nodes), v: line(-0.783, 0, nodes), m: line(1, 0.01, nodes), "duration": 1.5},
        objective=ks.Integral(thrust),
        bounds={m: (0.01, 1)},
        boundary=ends({h: 1, v: -0.783, m: 1}, {h: 0, v: 0}),
        unknown_inputs={thrust: (0, 1.227)},
    )


def planar_lander(nodes: int = 101) -> Published:
    """The least time of a craft with two thrusters to a place 5 m up and 5 m aside; its attitude
    ends free."""
    x, y, vx, vy, angle, rate, f, g = ks.dynamicsymbols("x y vx vy angle rate f g")
    rates = {
        x: vx,
        y: vy,
        vx: -(f + g) * sin(angle),
        vy: (f + g) * cos(angle) - 9.81,
        angle: rate,
        rate: 5 * (g - f),
    }
    return stated(
        explicit("craft", rates, [f, g]),
        free(nodes, 0.1, 100.0),
        BOCOP,
        0.962,
        5e-4,
        {f: 5.0, g: 5.0, "duration": 1.0},
        objective=ks.Terminal(ks.t),
        boundary=ends(dict.fromkeys(rates, 0), {x: 5, y: 5, vx: 0, vy: 0}),
        unknown_inputs=dict.fromkeys((f, g), (0, 2 * 9.81)),
    )


def quadrotor(nodes: int = 61) -> Published:
    """The least time of a quadrotor over 5 m with bounded tilt, and a little yaw."""
    p, v = ks.dynamicsymbols("p1:4"), ks.dynamicsymbols("v1:4")
    roll, pitch, thrust, droll, dpitch, yaw = ks.dynamicsymbols(
        "roll pitch thrust droll dpitch yaw"
    )
    cr, sr, cp, tp, cy, sy = (f(e) for e in (roll, pitch, yaw) for f in (cos, sin))
    push = [
        thrust * (cy * tp * cr + sy * sr),
        thrust * (sy * tp * cr - cy * sr),
        thrust * cp * cr - 9.81,
    ]
    rates = dict(zip((*p, *v, roll, pitch), (*v, *push, droll, dpitch), strict=True))
    still = dict.fromkeys(v, 0)
    small = 1e-8 * (roll**2 + pitch**2 + yaw**2 + thrust**2) + 100 * yaw**2
    return stated(
        explicit("quadrotor", rates, [thrust, droll, dpitch, yaw]),
        free(nodes, 0.1, 10.0),
        f"{BOCOP}, trapezoidal rule",
        1.4925,
        1e-3,
        {thrust: 10.0, "duration": 1.0},
        objective=ks.Terminal(ks.t) + ks.Integral(small),
        bounds=dict.fromkeys((roll, pitch), (-np.pi / 2, np.pi / 2)),
        boundary=ends(
            {**dict(zip(p, (0, 0, 2.5), strict=True)), **still, roll: 0, pitch: 0},
            {**dict(zip(p, (0.01, 5, 2.5), strict=True)), **still},
        ),
        path=[cos(pitch) * cos(roll) >= float(np.cos(0.55))],
        unknown_inputs={
            thrust: (0, 45.9),
            **dict.fromkeys((droll, dpitch), (-3, 3)),
            yaw: None,
        },
    )


def ducted_fan(nodes: int = 101) -> Published:
    """A ducted fan moves by 1 m: time and mean effort (Graichen, Petit 2009)."""
    x, vx, y, vy, angle, rate = ks.dynamicsymbols("x vx y vy angle rate")
    effort, u, w = ks.dynamicsymbols("effort u w")
    rates = {
        x: vx,
        vx: (u * cos(angle) - w * sin(angle)) / 2.2,
        y: vy,
        vy: (u * sin(angle) + w * cos(angle) - 4) / 2.2,
        angle: rate,
        rate: 4 * u,
        effort: 2 * u**2 + w**2,
    }
    return stated(
        explicit("fan", rates, [u, w]),
        free(nodes, 0.1, 10.0),
        f"{BOCOP}, trapezoidal rule",
        1831.8,
        2e-3,
        {"duration": 1.0},
        objective=ks.Terminal(effort / ks.t + 1000 * ks.t),
        bounds={angle: (-np.pi / 6, np.pi / 6)},
        boundary=ends(
            dict.fromkeys(rates, 0), {x: 1, **dict.fromkeys((vx, y, vy, angle, rate), 0)}
        ),
        unknown_inputs={u: (-5, 5), w: (0, 17)},
    )


def space_shuttle(nodes: int = 201) -> Published:
    """Largest cross range of a shuttle that returns from orbit, in degrees of latitude; altitude in
    10,000 ft, speed in 1000 ft/s."""
    h, lon, lat, v, path, azimuth = ks.dynamicsymbols("h lon lat v path azimuth")
    attack, bank = ks.dynamicsymbols("attack bank")
    r, g, a, lift, drag = sp.symbols("r g a lift drag")
    mass, mu = 203000.0 / 32.174, 0.14076539e17
    steps = [
        (r, 20902900.0 + 1e4 * h),
        (g, mu / r**2),
        (a, 180 / pi * attack),
        (lift, (-0.20704 + 0.029244 * a) * 1345.0 * 2378.0 * exp(-h / 2.38) * v**2 / mass),
        (
            drag,
            (0.07854 - 6.1592e-3 * a + 6.21408e-4 * a**2)
            * 1345.0
            * 2378.0
            * exp(-h / 2.38)
            * v**2
            / mass,
        ),
    ]
    along = 1000 * v * cos(path)
    rates = {
        h: 0.1 * v * sin(path),
        lon: along * sin(azimuth) / (r * cos(lat)),
        lat: along * cos(azimuth) / r,
        v: (-drag - g * sin(path)) / 1000,
        path: lift * cos(bank) / (1000 * v) + cos(path) * (1000 * v / r - g / (1000 * v)),
        azimuth: lift * sin(bank) / (1000 * v * cos(path))
        + along * sin(azimuth) * sin(lat) / (r * cos(lat)),
    }
    d = np.pi / 180
    begin = dict(zip(rates, (26, -0.5 * 75.3153 * d, 0, 25.6, -d, np.pi / 2), strict=True))
    end = {h: 8, v: 2.5, path: -5 * d}
    return stated(
        explicit("shuttle", rates, [attack, bank], intermediates=steps),
        free(nodes, 100.0, 4000.0),
        f"{BETTS}, {PSOPT}",
        -34.1412,
        1e-5,
        {
            h: line(26, 8, nodes),
            v: line(25.6, 2.5, nodes),
            path: line(-d, -5 * d, nodes),
            azimuth: line(np.pi / 2, -np.pi / 2, nodes),
            lon: -0.785,
            lat: 0.0,
            bank: d,
            "duration": 1000.0,
        },
        objective=-ks.Terminal(180 / pi * lat),
        bounds={
            h: (0, 30),
            lon: (-45 * d, 45 * d),
            lat: (-89 * d, 89 * d),
            v: (1, 40),
            path: (-89 * d, 89 * d),
            azimuth: (-np.pi, np.pi),
        },
        boundary=ends(begin, end),
        unknown_inputs={attack: (-89 * d, 89 * d), bank: (-90 * d, d)},
    )


def goddard_in_feet(nodes: int = 201) -> Published:
    """Goddard's rocket with an exponential atmosphere, as high as it gets: a singular arc."""
    h, v, m, thrust = ks.dynamicsymbols("h v m thrust")
    drag = 5.4915348492e-5 * v**2 * exp(-h / 23800)
    return stated(
        explicit(
            "rocket", {h: v, v: (thrust - drag) / m - 32.174, m: -thrust / 1580.942579}, [thrust]
        ),
        free(nodes, 10.0, 100.0),
        "Rao et al. 2010 (GPOPS); Betts 2020, example 10.47",
        -18550.872,
        5e-5,
        {h: line(0, 18000, nodes), v: 500.0, m: line(3, 1, nodes), thrust: 100.0, "duration": 40.0},
        missed="the thrust oscillates along the singular arc: with an error of the grid of 2e-4, "
        "which is said, the height is 1.3e-4 too large",
        objective=-ks.Terminal(h),
        bounds={m: (1, 3)},
        boundary=ends({h: 0, v: 0, m: 3}, {}),
        unknown_inputs={thrust: (0, 193.044)},
    )


def cannonball(nodes: int = 101) -> Published:
    """Radius, speed and angle of an iron ball that flies farthest with at most 400 kJ: unknown
    parameters, no input."""
    v, angle, h, x = ks.dynamicsymbols("v angle h x")
    radius, aim = sp.symbols("radius aim")
    density = 1.225 * exp(-h / 8440)
    per_mass = sp.Rational(3, 4) / (7870 * radius)  # area by mass
    rates = {
        v: -density * v**2 / 2 * per_mass * 0.5 - 9.80665 * sin(angle),
        angle: -9.80665 * cos(angle) / v,
        h: v * sin(angle),
        x: v * cos(angle),
    }
    energy = sp.Rational(2, 3) * pi * 7870 * radius**3 * ks.at_start(v) ** 2
    return stated(
        explicit("ball", rates, parameters=[radius, aim]),
        free(nodes, 0.1, 100.0),
        f"{DYMOS}, with the air of tables",
        -3183.25,
        2e-2,
        {
            v: 100.0,
            angle: line(0.785, -0.785, nodes),
            h: 3000 * np.sin(np.pi * line(0, 1, nodes)),
            x: line(0, 3000, nodes),
            radius: 0.05,
            aim: 0.785,
            "duration": 10.0,
        },
        unknown={radius: (0.01, 0.1), aim: (0.087, 1.4835)},
        objective=-ks.Terminal(x),
        boundary=[*ends({angle: aim, h: 0, x: 0}, {h: 0}), energy <= 400_000],
    )


def orbit_in_one_stage(nodes: int = 101) -> Published:
    """The least time to a circular orbit at 185 km with drag; the thrust turns freely (km, km/s,
    100,000 kg)."""
    x, y, vx, vy, m, pitch = ks.dynamicsymbols("x y vx vy m pitch")
    speed = sqrt(vx**2 + vy**2 + 1e-12)
    drag = 0.5 * 1.225 * exp(-y / 8.44) * 0.5 * 7.069 * 1e6 * speed
    g, thrust = 9.80665, 2.1e6
    rates = {
        x: vx,
        y: vy,
        vx: (thrust * cos(pitch) - drag * vx) / (1e5 * m) / 1000,
        vy: (thrust * sin(pitch) - drag * vy) / (1e5 * m) / 1000 - g / 1000,
        m: -thrust / (g * 265.2) / 1e5,
    }
    return stated(
        explicit("ssto", rates, [pitch]),
        free(nodes, 10.0, 144.0),
        DYMOS,
        143.0,
        5e-3,
        {
            x: line(0, 500, nodes),
            y: line(0, 185, nodes),
            vx: line(0, 7.8, nodes),
            vy: 0.0,
            m: line(1.17, 0.02, nodes),
            pitch: line(1.5, -0.5, nodes),
            "duration": 140.0,
        },
        objective=ks.Terminal(ks.t),
        boundary=ends({x: 0, y: 0, vx: 0, vy: 0, m: 1.17}, {y: 185, vx: 7.7966961, vy: 0}),
        unknown_inputs={pitch: (-np.pi / 2, np.pi / 2)},
    )


def vehicle_launch(nodes: int = 31) -> Published:
    """A launcher drops boosters and its first stage on the way to an orbit with five given
    elements, in four phases (Benson 2004); 1000 km, 1000 s and 100 t."""
    r, v = ks.dynamicsymbols("x y z"), ks.dynamicsymbols("vx vy vz")
    m, u = ks.dynamicsymbols("m"), ks.dynamicsymbols("ux uy uz")
    mu, radius, turn = 398.6012, 6.378145, 0.0729211585
    burn = {"srb": (628500.0, 17010 / 75.2), "first": (1083100.0, 95550 / 261)}
    away = sqrt(sum(e**2 for e in r))
    wind = [v[0] + turn * r[1], v[1] - turn * r[0], v[2]]
    altitude = sp.Symbol("altitude")  # in scale heights
    drag = -1.225 * exp(-altitude) * 0.5 * 4 * np.pi / 2 * 10 * sqrt(sum(e**2 for e in wind))

    def phase(name: str, boosters: int, stage: tuple[float, float]) -> ks.Model:
        push = (boosters * burn["srb"][0] + stage[0]) / 1e5
        flow = (boosters * burn["srb"][1] + stage[1]) / 100
        rates = dict(zip(r, v, strict=True))
        for k in range(3):
            rates[v[k]] = -mu * r[k] / away**3 + (push * u[k] + drag * wind[k]) / m
        steps = [(altitude, (away - radius) / 0.0072)]
        return explicit(name, {**rates, m: -flow}, u, intermediates=steps)

    momentum = sp.Matrix(r).cross(sp.Matrix(v))
    speed2 = sum(e**2 for e in v)
    towards = sum(a * b for a, b in zip(r, v, strict=True))
    shape = [((speed2 - mu / away) * a - towards * b) / mu for a, b in zip(r, v, strict=True)]
    axis, ecc, tilt, node, peri = 24.36114, 0.7308, *np.radians((28.5, 269.8, 130.5))
    h = np.sqrt(mu * axis * (1 - ecc**2))
    normal = h * np.array([np.sin(tilt) * np.sin(node), -np.sin(tilt) * np.cos(node), np.cos(tilt)])
    across = np.array([np.cos(node), np.sin(node), 0.0])
    aim = ecc * (np.cos(peri) * across + np.sin(peri) * np.cross(normal / h, across))
    end = [*(a - b for a, b in zip(momentum, normal, strict=True))]
    end += [a - b for a, b in zip(shape[:2], aim[:2], strict=True)]
    place = np.array([np.cos(np.radians(28.5)), 0.0, np.sin(np.radians(28.5))]) * radius
    begin = dict(zip((*r, *v, m), (*place, 0.0, turn * place[0], 0.0, 3.01454), strict=True))
    shells = (6 * 0.0228, 3 * 0.0228, 0.0883)
    first, second = burn["first"], (110094.0, 16820 / 700)
    perigee = axis * (1 - ecc) * aim / ecc
    fastest = mu / h * (1 + ecc) * np.cross(normal / h, aim / ecc)
    return stated(
        [phase("six", 6, first), phase("three", 3, first), phase("core", 0, first)]
        + [phase("upper", 0, second)],
        ks.Phases(
            [free(nodes, 0.01, 1.0) for _ in range(4)],
            maps=[{m: m - shell} for shell in shells],
            joints=[[ks.at_end(ks.t) - lasts] for lasts in (0.0752, 0.0752, 0.1106)],
            start=starts(begin),
            end=[ks.at_end(e) for e in end],
        ),
        "Rao et al. 2010 (GPOPS)",
        -0.07529712,
        1e-6,
        {
            **{a: [b, b, c, c] for a, b, c in zip(r, place, perigee, strict=True)},
            **{
                a: [b, b, c, c] for a, b, c in zip(v, (0, turn * place[0], 0), fastest, strict=True)
            },
            m: [2.5, 1.4, 0.7, 0.15],
            u[0]: 0.6,
            u[1]: 0.8,
            u[2]: 0.0,
            "duration": [0.0752, 0.0752, 0.1106, 0.7],
        },
        objective=[ks.Integral(0)] * 3 + [-ks.Terminal(m)],
        path=[sum(e**2 for e in u) - 1],
        unknown_inputs=dict.fromkeys(u, (-1.1, 1.1)),
    )
