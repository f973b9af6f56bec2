"""A ball that bounces and a block that rocks: impacts located exactly, against closed forms.

The ball loses the share 1 - e of its speed at each impact, an infinity of them in finite time. The
block (Housner 1963) turns about one lower corner, then about the other; every impact turns it more
slowly by a ratio that follows from its angular momentum. Both come to rest. A plain integrator with
fixed steps shows why impacts are located, and why a contact that opens has to move away a little
before it can close again (hysteresis; Wieber, Billet 2006).
"""

import math
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq

import kinesym as ks
from kinesym.multibody import Body, Planar, Tree

G = 9.81  # m/s^2

# The ball
DROP = 1.0  # height of its release [m]
RESTITUTION = 0.5
BALL_MASS = 0.5  # kg

# The block, homogeneous
MASS = 10.0  # kg
HALF_WIDTH, HALF_HEIGHT = 0.1, 0.4  # m
TILT = 0.1  # angle at its release, leaning to the right [rad]

RADIUS = math.hypot(HALF_WIDTH, HALF_HEIGHT)  # from the centre to a corner [m]
SLENDERNESS = math.atan2(HALF_WIDTH, HALF_HEIGHT)  # leaning by this it stands on its corner [rad]
INERTIA = MASS * RADIUS**2 / 3.0  # about the centre [kg m^2]
ABOUT_CORNER = INERTIA + MASS * RADIUS**2
GROWTH = MASS * G * RADIUS / ABOUT_CORNER  # rate squared of the pendulum upside down [1/s^2]
#: Rate after an impact over that before: the angular momentum about the new corner is kept.
HOUSNER = (INERTIA + MASS * (HALF_HEIGHT**2 - HALF_WIDTH**2)) / ABOUT_CORNER

#: A contact that opened can close again after it has moved away by this, the square root of the
#: resolution of numbers: negligible in metres and in radians.
HYSTERESIS = 2.0**-26


# -- the ball -------------------------------------------------------------------------------------


def ball():
    """A point mass above the floor: height y [m], rate v [m/s]."""
    y, v, push = ks.dynamicsymbols("y v push")
    equations = [y.diff(ks.t) - v, BALL_MASS * (v.diff(ks.t) + G) - push]
    model = ks.Model("ball", [y, v], [push], [], equations)
    floor = ks.hybrid.Contact("floor", y, push, restitution=RESTITUTION)
    return ks.hybrid.Hybrid(model, contacts=[floor])


def drop(nodes=1601, duration=1.6):
    """The run of the ball from its release."""
    time = np.linspace(0.0, duration, nodes)
    return ks.simulate(ball(), time, {"y": DROP, "v": 0.0}, rtol=1e-11, atol=1e-13)


def ball_impacts(count):
    """Times (count,) [s] of the first impacts and the time of the last one, the end of all."""
    fall = math.sqrt(2.0 * DROP / G)
    flights = np.cumsum(RESTITUTION ** np.arange(1, count))
    last = fall * (1.0 + 2.0 * RESTITUTION / (1.0 - RESTITUTION))
    return fall * (1.0 + 2.0 * np.append(0.0, flights)), last


def bounce_heights(run):
    """Heights [m] that the ball reaches after its impacts, by their speeds."""
    return np.array([e.after["v"] ** 2 / (2.0 * G) for e in run.happened("impact")])


# -- the block ------------------------------------------------------------------------------------


def block():
    """A block in the plane on two corners that do not slide; it leans to the right by `block_y`."""
    body = Body("block", MASS, inertia=(1, INERTIA, 1), joint=Planar("xz"))
    tree = Tree("rocking_block", [body], gravity=(0, 0, -G))
    corners = [
        ks.hybrid.GroundPoint(side, "block", (sign * HALF_WIDTH, 0, -HALF_HEIGHT), "stick")
        for side, sign in (("left", -1), ("right", 1))
    ]
    return ks.hybrid.on_ground(tree, corners, outputs=["energy"])


def corner_at_origin(angle):
    """Place of the centre (x, z) [m] while the block leans to the right on a corner at x = 0."""
    return RADIUS * math.sin(angle - SLENDERNESS), RADIUS * math.cos(angle - SLENDERNESS)


def rock(nodes=3001, duration=3.0):
    """The run of the block from rest at `TILT`."""
    x, z = corner_at_origin(TILT)
    hybrid = block()
    start = dict.fromkeys(hybrid.model.state_names, 0.0)
    start |= {"block_px": x, "block_pz": z, "block_y": TILT}
    return ks.simulate(
        hybrid, np.linspace(0.0, duration, nodes), {**start, "right": True}, rtol=1e-11, atol=1e-12
    )


def amplitudes(count):
    """Largest angles (count,) [rad]: each impact leaves the share HOUSNER^2 of the energy."""
    upright = math.cos(SLENDERNESS)
    energy = (math.cos(SLENDERNESS - TILT) - upright) * HOUSNER ** (2.0 * np.arange(count))
    return SLENDERNESS - np.arccos(upright + energy)


def swing(angle):
    """Time [s] from rest at an angle [rad] until the block is upright, by its energy."""

    def integrand(s):  # over s, with the angle there (1 - s^2) of the first, nothing is singular
        middle = SLENDERNESS - angle * (1.0 - 0.5 * s**2)
        return angle * s / math.sqrt(GROWTH * math.sin(middle) * math.sin(0.5 * angle * s**2))

    return quad(integrand, 0.0, 1.0, epsabs=1e-14, epsrel=1e-13)[0]


def block_impacts(count):
    """Times (count,) [s] of the first impacts."""
    quarters = np.array([swing(angle) for angle in amplitudes(count)])
    return np.cumsum(np.append(quarters[:1], 2.0 * quarters[1:]))


# -- a plain integrator, for comparison -----------------------------------------------------------


def runge_kutta(y, h, side):
    """One step [s] of angle and rate, y (2,), while the block turns about one corner: side 1, the
    right one, or -1."""

    def rate(y):
        return np.array([y[1], -side * GROWTH * math.sin(SLENDERNESS - side * y[0])])

    k1 = rate(y)
    k2 = rate(y + 0.5 * h * k1)
    k3 = rate(y + 0.5 * h * k2)
    k4 = rate(y + h * k3)
    return y + h / 6.0 * (k1 + 2.0 * (k2 + k3) + k4)


def shortened(y, h, side):
    """The step [s] after which the block is upright."""
    if y[0] == 0.0:
        return 0.0
    return brentq(lambda step: runge_kutta(y, step, side)[0], 0.0, h, xtol=1e-15)


def plain_block(h, locate=False, hysteresis=0.0, end=3.0, most=1000):
    """The block by fixed steps h [s]: times, angles, and times of what it took for impacts.

    An impact is a change of the sign of the angle. It is handled at the end of the step, or where
    it is if `locate`. With `hysteresis` [rad] the next change counts once the angle was beyond.
    It ends at a time [s], after `most` impacts, or when the block lies flat.
    """
    t, y, side, armed = 0.0, np.array([TILT, 0.0]), 1, True
    path: list = [(t, y[0])]
    impacts: list[float] = []
    while t < end and abs(y[0]) < 0.5 * math.pi and len(impacts) < most:
        new, step = runge_kutta(y, h, side), h
        armed = armed or abs(y[0]) > hysteresis
        if armed and y[0] * new[0] <= 0.0:
            if locate:
                step = shortened(y, h, side)
                new = runge_kutta(y, step, side)
            new[1] *= HOUSNER
            side, armed = -side, hysteresis == 0.0
            impacts.append(t + step)
        t, y = t + step, new
        path.append((t, y[0]))
    return (*np.array(path).T, np.array(impacts))


# -- what is printed ------------------------------------------------------------------------------


def ball_table(run):
    """Impacts of the ball, simulated and by formula, as text."""
    impacts = run.happened("impact")
    times, last = ball_impacts(len(impacts))
    rows = ["ball: impact   simulated [s]    by formula [s]   difference   next height [m]"]
    for k, (e, t, h) in enumerate(zip(impacts, times, bounce_heights(run), strict=True)):
        rows.append(f"{k + 1:12d} {e.time:15.9f} {t:17.9f} {e.time - t:12.1e} {h:14.3e}")
    end = run.happened("close")[0].time
    rows.append(
        f"at rest from {end:.6f} s on, as it would leave by less than 1 mm/s; the series "
        f"of impacts ends at {last:.6f} s"
    )
    return "\n".join(rows)


def block_table(run):
    """Impacts of the block, simulated and by quadrature, as text."""
    impacts = run.happened("impact")
    times = block_impacts(len(impacts))
    rows = [f"block: Housner's ratio of rates at an impact is {HOUSNER:.12f}"]
    rows += [" impact on   simulated [s]  by quadrature [s]   difference   ratio - Housner's"]
    for e, t in zip(impacts, times, strict=True):
        ratio = e.after["block_wy"] / e.before["block_wy"]
        rows.append(
            f"{e.name:>10} {e.time:15.12f} {t:18.12f} {e.time - t:12.1e} {ratio - HOUSNER:15.1e}"
        )
    return "\n".join(rows)


# -- pictures -------------------------------------------------------------------------------------


def with_jumps(run, name):
    """Time and a state, at nodes and just before and after all that happened."""
    log = run.events
    time = np.concatenate([[e.time for e in log for _ in range(2)], run.time])
    value = np.concatenate([[row[name] for e in log for row in (e.before, e.after)], run[name]])
    order = np.argsort(time, kind="stable")
    return time[order], value[order]


def ball_figure(run):
    """Height over time; heights of bounces, which fall by e^2."""
    fig, (left, right) = plt.subplots(
        1, 2, figsize=(11, 4), width_ratios=(3, 2), layout="constrained"
    )
    heights = bounce_heights(run)
    times, last = ball_impacts(len(heights))
    left.plot(*with_jumps(run, "y"), "C0", label="simulated")
    left.plot(times, 0 * times, "k|", ms=12, label="impacts by formula")
    left.axvline(last, color="C3", lw=1, ls="--")
    left.annotate(
        f"all impacts are over\n{last:.6f} s",
        (last, 0.5 * DROP),
        (-6, 0),
        textcoords="offset points",
        ha="right",
        color="C3",
    )
    left.set(
        xlabel="time [s]",
        ylabel="height [m]",
        xlim=(0, run.time[-1]),
        ylim=(-0.04, 1.05),
        title=f"A ball from {DROP:g} m, e = {RESTITUTION:g}",
    )
    left.legend(loc="upper right", bbox_to_anchor=(0.82, 1.0))
    number = np.arange(1, len(heights) + 1)
    moved = heights > 0.0
    right.semilogy(number, DROP * RESTITUTION ** (2 * number), "k-", lw=1, label="$e^{2n}$")
    right.semilogy(number[moved], heights[moved], "C0o", label="simulated")
    right.semilogy(
        number[~moved],
        DROP * RESTITUTION ** (2 * number[~moved]),
        "C0o",
        mfc="w",
        label="plastic: it stays down",
    )
    right.set(xlabel="impact n", ylabel="height after it [m]", title="Heights of the bounces")
    right.legend()
    right.grid(alpha=0.3)
    return fig


def outline(angle, x=0.0):
    """Corners (2, 4) [m] of the block that leans by an angle, its foot about a place x."""
    turn = np.array([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]])
    box = np.array([[-1, 1, 1, -1], [-1, -1, 1, 1]]) * [[HALF_WIDTH], [HALF_HEIGHT]]
    pivot = np.array([math.copysign(HALF_WIDTH, angle), -HALF_HEIGHT])
    return turn @ (box - pivot[:, None]) + [[x + pivot[0]], [0.0]]


def block_figure(run):
    """The block where it turns back, its angle, and its energy, which falls at impacts."""
    impacts = np.array([e.time for e in run.happened("impact")])
    turns = np.append(0.0, 0.5 * (impacts[:-1] + impacts[1:]))  # there and back take equal time
    fig, (strip, lean, energy) = plt.subplots(
        3, 1, figsize=(11, 8.2), height_ratios=(1.8, 2, 2), sharex=True, layout="constrained"
    )
    draw_blocks(strip, turns, np.interp(turns, run.time, run["block_y"]), run.time[-1])
    strip.set_title("A block that rocks on two corners, where it turns back (triangle: its corner)")
    lean.plot(*with_jumps(run, "block_y"), "C0", label="simulated")
    lean.plot(impacts, 0 * impacts, "C3o", ms=5, label=f"{len(impacts)} impacts")
    peaks = amplitudes(len(impacts)) * (-1.0) ** np.arange(len(impacts))
    lean.plot(turns, peaks, "k+", ms=9, label="by Housner's ratio")
    lean.axhline(0.0, color="0.8", lw=0.8, zorder=0)
    lean.set_ylabel("leans to the right by [rad]")
    total = run["kinetic_energy"] + run["potential_energy"] - MASS * G * HALF_HEIGHT
    energy.plot(run.time, run["kinetic_energy"], "C1", lw=0.9, label="kinetic")
    energy.plot(run.time, total, "C0", lw=4, alpha=0.4, label="total, above that at rest")
    first = MASS * G * (corner_at_origin(TILT)[1] - HALF_HEIGHT)
    steps = first * HOUSNER ** (2.0 * np.arange(len(impacts) + 1))
    energy.stairs(
        steps,
        [0.0, *impacts, run.time[-1]],
        color="k",
        ls="--",
        lw=1,
        baseline=None,
        label="by Housner's ratio",
    )
    energy.set(xlabel="time [s]", ylabel="energy [J]", ylim=(0, None), xlim=(-0.1, run.time[-1]))
    for axis in (lean, energy):
        axis.legend(loc="upper right", ncols=3)
    return fig


def draw_blocks(axis, times, angles, end):
    """Blocks in a strip over an axis of time [s], as wide as 5.6 m."""
    scale, top = end / 5.6, 0.98
    for at, angle in zip(times, angles, strict=True):
        x, z = outline(angle)
        axis.fill(at + scale * x, z, fc="C0", alpha=0.3)
        axis.fill(at + scale * x, z, fill=False, ec="C0", lw=1.2)
        axis.plot(at + scale * math.copysign(HALF_WIDTH, angle), 0.0, "k^", ms=5, clip_on=False)
    axis.axhline(0.0, color="0.3", lw=1)
    axis.set(ylim=(-0.04, top - 0.04), xlim=(-0.1, end), ylabel="[m]")
    axis.set_box_aspect(top / (5.6 * (end + 0.1) / end))


def errors(steps):
    """Errors of the time of the first impact [s] by fixed steps, at their ends and located."""
    true = block_impacts(1)[0]
    return np.array(
        [
            [abs(plain_block(h, locate, most=1)[2][0] - true) for h in steps]
            for locate in (False, True)
        ]
    )


def integrators_figure(run, steps):
    """What an integrator loses that does not locate impacts, or does so without hysteresis."""
    fig, (left, right) = plt.subplots(1, 2, figsize=(12, 4.6), layout="constrained")
    at_ends, located = errors(steps)
    ours = abs(run.happened("impact")[0].time - block_impacts(1)[0])
    left.loglog(steps, at_ends, "C3o", ms=4, label="impact at the end of a step")
    left.loglog(steps, steps, "C3-", lw=1, label="slope 1: one step")
    left.loglog(steps, located, "C0s", ms=4, label="impact located within the step")
    left.loglog(steps, located[0] * (steps / steps[0]) ** 4, "C0-", lw=1, label="slope 4")
    left.axhline(
        ours, color="k", ls="--", lw=1, label=f"kinesym, adaptive, rtol 1e-11: {ours:.0e} s"
    )
    left.set(
        xlabel="step of Runge-Kutta [s]",
        ylabel="error of the first impact [s]",
        title="Where an impact is handled decides the order",
        ylim=(1e-16, 1),
    )
    left.legend(loc="lower right", fontsize="small")
    right.plot(run.time, run["block_y"], "k", lw=3, alpha=0.25, label="kinesym")
    for h, color in ((0.005, "C3"), (0.007, "C1")):
        time, angle, impacts = plain_block(h, locate=True)
        end = "falls over" if abs(angle[-1]) > 1.0 else "never leaves one instant"
        right.plot(
            time,
            angle,
            color,
            lw=1.2,
            label=f"without, steps of {1e3 * h:g} ms: {len(impacts)} impacts, {end}",
        )
        right.plot(time[-1], angle[-1], color, marker="X", ms=9)
    time, angle, impacts = plain_block(0.005, locate=True, hysteresis=HYSTERESIS)
    right.plot(time, angle, "C0--", lw=1.2, label=f"with, steps of 5 ms: {len(impacts)} impacts")
    right.set(
        xlabel="time [s]",
        ylabel="leans to the right by [rad]",
        ylim=(-0.16, 0.26),
        xlim=(0, run.time[-1]),
        title="Without hysteresis an impact repeats itself",
    )
    right.legend(loc="upper right", fontsize="small")
    return fig


# -- the study ------------------------------------------------------------------------------------


def main(out: Path, nodes: int | None = None) -> list[Path]:
    """Run ball and block, compare with formulas, draw."""
    bouncing, rocking = drop(nodes or 1601), rock(nodes or 3001)
    print(f"{ball_table(bouncing)}\n\n{block_table(rocking)}")
    steps = np.geomspace(2e-2, 2e-4, 41)
    figures = {
        "ball": ball_figure(bouncing),
        "block": block_figure(rocking),
        "integrators": integrators_figure(rocking, steps),
    }
    paths = []
    for name, figure in figures.items():
        paths.append(out / f"bounces_{name}.png")
        figure.savefig(paths[-1], dpi=120)
        plt.close(figure)
    return paths
