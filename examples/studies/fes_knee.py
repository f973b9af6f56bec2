"""A seated person's knee, extended by electrical stimulation, also against a stop of the joint.

Impulses start a calcium clock; the contractile element of the muscle lengthens in one mode and
shortens in another; the joint may meet a stop (Wieber, Billet 2006, whose figures 1 to 4 are drawn
with the solver and the run). Each change happens at its own instant, where the integration stops.

States: knee angle theta from the vertical [rad], rate omega [rad/s], stiffness [N/m] and force [N]
of the muscle. The mass is that of shank and foot of a man of 85 kg (de Leva 1996); the other
numbers are chosen and have the order of magnitude of a leg and its quadriceps.
"""

import math
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import sympy as sp
from matplotlib.patches import FancyBboxPatch

import kinesym as ks
from kinesym.examples.studies.bounces import BALL_MASS, with_jumps
from kinesym.runtime.native import solve_contacts

G = 9.81  # m/s^2

# Shank and foot
MASS = 4.85  # kg
CENTRE = 0.26  # from the knee to the centre of mass [m]
INERTIA = 0.44  # about the knee [kg m^2]
DAMPING = 0.40  # of the knee [N m s]

# Muscle and tendon
MOMENT_ARM = 0.045  # m
LARGEST_FORCE = 1200.0  # N
LARGEST_STIFFNESS = 3e4  # of the contractile element [N/m]
TENDON_STIFFNESS = 2e4  # N/m
ELEMENT_LENGTH = 0.10  # of the contractile element [m]
RECRUITED = 0.3  # share of the fibres

# Calcium clock and stimulation
DELAY, HIGH, RAMP = 0.020, 0.015, 0.010  # tau, tau1, tau2 [s]
ACTIVATION, RELAXATION = 20.0, -15.0  # Up, Um [1/s]
FIRST, PERIOD, IMPULSES = 0.1, 0.05, 16  # s, s, -

# The joint with a stop, stimulated more strongly so that it rests there
STOP = 0.8  # rad
RESTITUTION = 0.2
STRONGER, LONGER = 0.5, 24  # share of the fibres, impulses

theta, omega, stop_torque = ks.dynamicsymbols("theta omega stop_torque")


# -- the model ------------------------------------------------------------------------------------


def quadriceps(recruited=RECRUITED):
    """The muscle that extends the knee."""
    return ks.hybrid.FESMuscle(
        "quad",
        rate=-MOMENT_ARM * omega,
        F0=LARGEST_FORCE,
        k0=LARGEST_STIFFNESS,
        ks=TENDON_STIFFNESS,
        Lc0=ELEMENT_LENGTH,
        recruitment=recruited,
    )


def knee(muscle, stop=False):
    """The shank on the knee; a stop keeps the angle below `STOP` by a torque [N m]."""
    torque = MOMENT_ARM * muscle.force - DAMPING * omega - MASS * G * CENTRE * sp.sin(theta)
    if stop:
        torque -= stop_torque
    model = ks.Model(
        name="knee",
        states=[theta, omega],
        inputs=[muscle.force, *([stop_torque] if stop else [])],
        parameters=[],
        equations=[theta.diff(ks.t) - omega, INERTIA * omega.diff(ks.t) - torque],
    )
    contacts = [ks.hybrid.Contact("stop", STOP - theta, stop_torque, restitution=RESTITUTION)]
    return ks.hybrid.Hybrid(model, contacts=contacts if stop else [], muscles=[muscle])


def calcium(ramp="to_Um"):
    """The calcium clock of the muscle."""
    return ks.hybrid.Calcium(DELAY, HIGH, RAMP, ACTIVATION, RELAXATION, ramp)


def stimulate(time, recruited=RECRUITED, impulses=IMPULSES, stop=False):
    """The run from the hanging shank over time (N,) [s]."""
    muscle = quadriceps(recruited)
    signal = calcium().signal(ks.hybrid.train(FIRST, PERIOD, impulses))
    return ks.simulate(
        knee(muscle, stop),
        time,
        {theta: 0.0, omega: 0.0, **muscle.rest},
        inputs={muscle.clock: signal},
        rtol=1e-11,
        atol=1e-12,
    )


def free_knee(nodes=1501):
    """The knee without a stop."""
    return stimulate(np.linspace(0.0, 1.5, nodes))


def stopped_knee(nodes=2001):
    """The knee that meets its stop."""
    return stimulate(np.linspace(0.0, 2.0, nodes), STRONGER, LONGER, stop=True)


def static_torque(force):
    """What presses a shank that rests at the stop against it [N m], by statics."""
    return MOMENT_ARM * force - MASS * G * CENTRE * math.sin(STOP)


# -- what is printed ------------------------------------------------------------------------------


def switches(run):
    """The switches of the contractile element."""
    return [e for e in run.happened("event") if e.name in ("quad shortens", "quad lengthens")]


def peak(run, name):
    """The largest value at a node, and its time [s]."""
    k = int(np.argmax(run[name]))
    return run[name][k], run.time[k]


def summary(run):
    """The free knee as text."""
    angle, force = peak(run, "theta"), peak(run, "quad_F")
    return (
        f"largest knee angle {angle[0]:.4f} rad at {angle[1]:.2f} s\n"
        f"largest force {force[0]:.1f} N at {force[1]:.3f} s\n"
        f"{len(run.happened('clock'))} breaks of the clock, "
        f"{len(switches(run))} switches of the contractile element"
    )


def stop_summary(run):
    """What happened at the stop, as text."""
    rows = [f"a stop at {STOP:g} rad, {STRONGER:.0%} of the fibres, {LONGER} impulses"]
    for e in run.events:
        if e.kind in ("impact", "close", "release"):
            rows.append(
                f"  {e.time:.6f} s  {e.kind:8} {e.before['omega']:9.5f} -> "
                f"{e.after['omega']:9.5f} rad/s"
            )
    return "\n".join(rows)


# -- the figures of Wieber, Billet 2006 -----------------------------------------------------------


def through_origin(axis, x, y):
    """Axes as arrows through the origin, with their labels."""
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axis.spines[side].set_position("zero")
    axis.plot(1, 0, "k>", transform=axis.get_yaxis_transform(), clip_on=False, ms=6)
    axis.plot(0, 1, "k^", transform=axis.get_xaxis_transform(), clip_on=False, ms=6)
    axis.annotate(x, (1, 0), (0, -22), axis.get_yaxis_transform(), "offset points", ha="right")
    axis.annotate(y, (0, 1), (8, -2), axis.get_xaxis_transform(), "offset points", va="top")


def signorini(axis, x, y):
    """The graph of two quantities that are not negative, of which one is 0."""
    (left, right), (bottom, top) = axis.get_xlim(), axis.get_ylim()
    axis.fill_betweenx([bottom, top], left, 0.0, color="0.93", lw=0, zorder=0)
    axis.fill_between([0.0, right], bottom, 0.0, color="0.93", lw=0, zorder=0)
    axis.plot([0.0, 0.0, right], [top, 0.0, 0.0], "C0", lw=4, solid_joinstyle="miter", zorder=1.5)
    through_origin(axis, x, y)


def ball_on_floor(pull):
    """Of a ball of 0.5 kg on the floor that is pulled up by a force [N]: the force of the floor [N]
    that the solver finds, and the acceleration [m/s^2] by the dynamics."""
    inverse_mass, free = 1.0 / BALL_MASS, pull / BALL_MASS - G
    found = solve_contacts(
        law=[0],
        tangent=[-1],
        mu=[0.0],
        W=[[inverse_mass]],
        b=[free],
        near=[1],
        slide=[0.0],
        mode=[1],
    )
    assert found is not None  # one point has one solution
    _, (force,) = found
    return force, inverse_mass * force + free


def signorini_figure():
    """Figure 1: height and force; acceleration and force, with the dynamics of a ball."""
    fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.8))
    fig.subplots_adjust(left=0.03, right=0.97, bottom=0.03, top=0.93, wspace=0.1)
    left.set(xlim=(-0.35, 1), ylim=(-0.35, 1), xticks=[], yticks=[])
    signorini(left, r"force $\lambda$", r"height $\varphi$")
    left.text(0.03, 0.6, "open: no force", color="C0")
    left.text(0.5, 0.03, "in contact: the ground pushes", color="C0", ha="center")
    left.text(-0.03, 0.45, "the ground pulls", color="0.4", rotation=90, ha="right", va="center")
    left.text(0.5, -0.2, "below the ground", color="0.4", ha="center")
    left.set_title("Signorini's law of the position ...", loc="left")
    weight = BALL_MASS * G
    right.set(xlim=(-4.0, 10.0), ylim=(-12.5, 14.0), xticks=[-2, 2, 4, 6], yticks=[-10, -5, 5, 10])
    signorini(right, r"force $\lambda$ [N]", "acceleration\n" r"$\ddot\varphi$ [m/s$^2$]")
    force = np.array([-4.0, 10.0])
    for pull, color, text, shift in (
        (0.0, "C3", "at rest: the floor\ncarries its weight", (8, -66)),
        (1.5 * weight, "C2", "pulled up by 1.5 times\nits weight: it leaves", (10, -24)),
    ):
        right.plot(force, (force + pull) / BALL_MASS - G, color, lw=1.5)
        found = ball_on_floor(pull)
        right.plot(*found, "o", color=color, ms=9, zorder=4)
        right.annotate(text, found, shift, textcoords="offset points", color=color)
    right.set_title("... of the acceleration, crossed once by the dynamics of a ball", loc="left")
    return fig


def dimension(axis, start, end, y, text):
    """A line with arrows from start to end, and its name."""
    style = {"arrowstyle": "<->", "shrinkA": 0, "shrinkB": 0, "lw": 0.8}
    axis.annotate("", (start, y), (end, y), arrowprops=style)
    axis.text(0.5 * (start + end), y, text, ha="center", va="bottom")


def calcium_figure():
    """Figure 2: the clock of a muscle after two impulses, with both ramps."""
    impulses = ks.hybrid.train(0.0, PERIOD, 2)
    fig, axes = plt.subplots(2, 1, figsize=(10, 6.4), sharex=True, layout="constrained")
    for axis, ramp in zip(axes, ("to_Um", "to_zero"), strict=True):
        signal = calcium(ramp).signal(impulses)
        ends = np.append(signal.begin[1:], 2.0 * PERIOD)  # straight lines between breaks
        lines = (
            np.array([signal.begin, ends]),
            np.array([signal.value, signal.value + signal.slope * (ends - signal.begin)]),
        )
        axis.plot(1e3 * lines[0].T.ravel(), lines[1].T.ravel(), "C0", lw=2)
        axis.plot(1e3 * signal.begin[1:], signal.value[1:], "C0o", ms=5)
        axis.axhline(0.0, color="0.6", lw=0.8)
        for at in impulses:
            axis.annotate(
                "impulse",
                (1e3 * at, RELAXATION - 1),
                (1e3 * at, RELAXATION - 9),
                ha="center",
                color="C3",
                arrowprops={"arrowstyle": "-|>", "color": "C3"},
            )
        axis.set(
            yticks=[RELAXATION, 0.0, ACTIVATION],
            xlim=(-6, 2e3 * PERIOD),
            ylim=(-26, 36),
            yticklabels=["$U_m$", "0", "$U_p$"],
            ylabel="$u(t)$",
        )
        title = "falls to $U_m$, continuous" if ramp == "to_Um" else "falls to 0, then jumps"
        axis.set_title(f'ramp="{ramp}": {title}', loc="left")
    marks = 1e3 * np.cumsum([0.0, DELAY, HIGH, RAMP])
    for k, text in enumerate(("$\\tau$", "$\\tau_1$", "$\\tau_2$")):
        dimension(axes[0], marks[k], marks[k + 1], 22.5, text)
    dimension(axes[0], 0.0, 1e3 * PERIOD, 29.0, "$T$")
    for at in (*marks, 1e3 * PERIOD):
        axes[0].axvline(at, color="0.8", lw=0.7, zorder=0)
    axes[1].set_xlabel("time [ms]; dots: where the integration stops")
    return fig


def contractile_lines(x, u, kc, force, rate):
    """The rate of the force [N/s] by equations (9) and (10) over the rate of the contractile
    element, x [1/s]; rate : of the whole muscle [m/s]."""
    nine = -(abs(u) + np.abs(x)) * force + kc * ELEMENT_LENGTH * x
    nine += RECRUITED * LARGEST_FORCE * max(u, 0.0)
    return nine, TENDON_STIFFNESS * (rate - ELEMENT_LENGTH * x)


def contractile_figure(run):
    """Figure 3: both equations at two instants of a pulse, and how their intersection moves."""
    begin = FIRST + 9 * PERIOD + DELAY  # of the tenth pulse
    fig, axes = plt.subplots(1, 3, figsize=(14, 4.6), layout="constrained")
    axes[1].sharey(axes[0])
    instants = ((begin + 0.010, "shortens", "b < 0"), (begin + 0.030, "lengthens", "b \\geq 0"))
    for axis, (at, what, sign) in zip(axes, instants, strict=False):
        draw_contractile(axis, run, int(np.argmin(np.abs(run.time - at))))
        axis.set_title(f"{1e3 * (at - begin):.0f} ms after the rise: ${sign}$, it {what}")
    within = (run.time >= begin) & (run.time < begin + PERIOD - 1e-9)
    x, t = run["quad_rate"][within], 1e3 * (run.time[within] - begin)
    change = 1e-3 * TENDON_STIFFNESS * (-MOMENT_ARM * run["omega"][within] - ELEMENT_LENGTH * x)
    last = axes[2]
    last.axvspan(-4.0, 0.0, color="C1", alpha=0.12, lw=0)
    last.plot(x, change, "0.6", lw=1)
    dots = last.scatter(x, change, c=t, cmap="viridis", s=22, zorder=3)
    fig.colorbar(dots, ax=last, label="time after the rise of the clock [ms]")
    last.axvline(0.0, color="0.4", lw=0.8)
    last.text(-1.9, 3.4, "shortens", color="C1", ha="center")
    last.text(0.06, 3.4, "lengthens", color="0.3")
    last.set(
        xlim=(-3.2, 1.0),
        ylim=(-2.6, 4.2),
        xlabel=r"rate of the contractile element $\dot\varepsilon_c$ [1/s]",
        title="The intersection through a period",
    )
    axes[0].set_ylabel(r"rate of the force $\dot F_c$ [kN/s]")
    return fig


def draw_contractile(axis, run, k):
    """Both equations at a node, with the rate that the run had there."""
    x = np.linspace(-5.0, 3.0, 801)
    now = run["quad_u"][k], run["quad_kc"][k], run["quad_F"][k], -MOMENT_ARM * run["omega"][k]
    nine, ten = contractile_lines(x, *now)
    axis.plot(x, 1e-3 * nine, "C0", lw=2, label="(9), contractile element")
    axis.plot(x, 1e-3 * ten, "C3", lw=2, label="(10), tendon")
    corner = contractile_lines(np.zeros(1), *now)[0]
    axis.plot(0.0, 1e-3 * corner, "C0o", mfc="w")
    found = run["quad_rate"][k]
    axis.plot(found, 1e-3 * contractile_lines(found, *now)[1], "ko", ms=9, label="of the run")
    axis.axvspan(-5.0, 0.0, color="C1", alpha=0.12, lw=0, zorder=0)
    axis.axvline(0.0, color="0.4", lw=0.8)
    axis.set(xlim=(-5, 3), xlabel=r"rate of the contractile element $\dot\varepsilon_c$ [1/s]")
    axis.legend(fontsize="small")


#: Boxes of the scheme: place of the centre, size, text, colour.
BOXES = {
    "start": ((2.1, 8.4), (3.6, 0.9), "state, modes, time", "0.92"),
    "smooth": (
        (2.1, 6.5),
        (3.6, 1.3),
        "integrate the smooth equations\nof these modes, one step\n(not beyond a break of a clock)",
        "#d6e6f4",
    ),
    "event": (
        (2.1, 4.4),
        (3.6, 1.3),
        "does a function of an event\ncross zero, or does a clock\nbreak at the end?",
        "#fff2cc",
    ),
    "stop": (
        (2.1, 2.3),
        (3.6, 1.3),
        "stop exactly there:\nroot of the interpolant;\nthe earliest, if several",
        "#d6e6f4",
    ),
    "handle": ((7.6, 2.9), (4.6, 2.9), "", "#fbe3d6"),
    "again": ((7.6, 5.7), (3.6, 1.1), "did anything change\nat this instant?", "#fff2cc"),
    "restart": (
        (7.6, 7.9),
        (3.6, 1.1),
        "restart with the new modes\nand a new first step",
        "#d9ead3",
    ),
}
#: What is handled, in this order.
HANDLED = (
    "breaks of calcium clocks",
    "the event found: resets, new modes",
    "impacts, by impulses",
    "contacts: close, open, slide",
    "switches of contractile elements",
)
#: Arrows of the scheme: their corners, and a text at a place.
ARROWS = (
    ([(2.1, 7.95), (2.1, 7.15)], "", (0, 0)),
    ([(2.1, 5.85), (2.1, 5.05)], "", (0, 0)),
    ([(2.1, 3.75), (2.1, 2.95)], "yes", (2.2, 3.4)),
    ([(0.3, 4.4), (-0.3, 4.4), (-0.3, 6.5), (0.3, 6.5)], "no", (-0.25, 5.4)),
    ([(3.9, 2.3), (5.3, 2.3)], "", (0, 0)),
    ([(7.6, 4.35), (7.6, 5.15)], "", (0, 0)),
    ([(9.4, 5.7), (10.3, 5.7), (10.3, 2.9), (9.9, 2.9)], "yes", (9.5, 5.85)),
    ([(7.6, 6.25), (7.6, 7.35)], "no", (7.7, 6.75)),
    ([(5.8, 7.9), (4.9, 7.9), (4.9, 6.5), (3.9, 6.5)], "", (0, 0)),
)


def scheme_figure():
    """Figure 4: integration from event to event."""
    fig, axis = plt.subplots(figsize=(9.5, 6.8), layout="constrained")
    for (x, y), (width, height), text, color in BOXES.values():
        axis.add_patch(
            FancyBboxPatch(
                (x - 0.5 * width, y - 0.5 * height),
                width,
                height,
                boxstyle="round,pad=0,rounding_size=0.15",
                fc=color,
                ec="0.3",
            )
        )
        axis.text(x, y, text, ha="center", va="center")
    (x, y), (_, height), *_ = BOXES["handle"]
    axis.text(
        x, y + 0.5 * height - 0.3, "handle, in this order", ha="center", va="center", weight="bold"
    )
    for k, text in enumerate(HANDLED):
        axis.text(x - 2.0, y + 0.6 - 0.44 * k, f"{k + 1}  {text}", va="center")
    for corners, text, place in ARROWS:
        px, py = np.array(corners).T
        axis.plot(px, py, "0.3", lw=1.2, zorder=0)
        axis.annotate(
            "",
            corners[-1],
            corners[-2],
            zorder=3,
            arrowprops={"arrowstyle": "-|>", "color": "0.3", "shrinkA": 0, "shrinkB": 0},
        )
        axis.text(place[0], place[1], text, va="center", color="0.2")
    axis.set(xlim=(-0.6, 10.7), ylim=(1.3, 9.1), aspect="equal")
    axis.axis("off")
    axis.set_title("Hybrid integration: from event to event")
    return fig


# -- pictures of the runs -------------------------------------------------------------------------


def shade_shortening(axis, run):
    """Where the contractile element shortens."""
    log = [(e.time, e.name == "quad shortens") for e in switches(run)]
    ends = [time for time, _ in log[1:]] + [run.time[-1]]
    for (start, shortens), end in zip(log, ends, strict=True):
        if shortens:
            axis.axvspan(start, end, color="C1", alpha=0.18, lw=0)


def draw_leg(axis, angles):
    """A thigh that lies and the shank at angles [rad], the last one black."""
    thigh = 0.42
    shank = np.array([[0.0, 0.0, 0.16], [0.0, -0.42, -0.42]])  # knee, ankle, toes
    for k, angle in enumerate(angles):
        turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        x, z = turn @ shank
        grey = 0.8 * (1.0 - (k + 1) / len(angles))
        axis.plot(x, z, color=str(grey), lw=5, solid_capstyle="round", solid_joinstyle="round")
    axis.plot([-thigh, 0.0], [0.0, 0.0], "k", lw=9, solid_capstyle="round")
    axis.plot([-thigh, -thigh - 0.08], [0.0, 0.45], "k", lw=9, solid_capstyle="round")
    axis.plot([-0.6, -0.12, -0.12], [-0.07, -0.07, -0.5], "0.6", lw=3)
    axis.plot(
        [-0.4, -0.02, 0.05 * math.cos(angles[-1])],
        [0.055, 0.06, 0.05 * angles[-1] - 0.05],
        "C3",
        lw=3,
    )
    axis.set(aspect="equal", xlim=(-0.65, 0.6), ylim=(-0.5, 0.5))
    axis.axis("off")


def knee_figure(run):
    """The free knee: angle, force, stiffness, clock; a few switches close by."""
    fig, axes = plt.subplot_mosaic(
        [["theta", "leg"], ["quad_F", "leg"], ["quad_kc", "rate"], ["quad_u", "rate"]],
        figsize=(13, 8),
        width_ratios=(3, 1.4),
        layout="constrained",
    )
    labels = {
        "theta": "knee angle [rad]",
        "quad_F": "force [N]",
        "quad_kc": "stiffness [N/m]",
        "quad_u": "calcium clock [1/s]",
    }
    for name, label in labels.items():
        axis = axes[name]
        shade_shortening(axis, run)
        if name == "quad_u":
            axis.plot(run.time, run[name], "C0", lw=1.2)
        else:
            axis.plot(*with_jumps(run, name), "C0", lw=1.6)
        axis.set(ylabel=label, xlim=(0, run.time[-1]))
        axis.margins(y=0.22)
        axis.label_outer()
    axes["quad_u"].set_xlabel("time [s]")
    for name, unit in (("theta", "rad"), ("quad_F", "N")):
        value, at = peak(run, name)
        axes[name].plot(at, value, "kv", ms=6)
        axes[name].annotate(
            f"{value:.4g} {unit} at {at:.2f} s", (at, value), (2, 6), textcoords="offset points"
        )
    axes["theta"].set_title(
        "Seated knee, 16 impulses at 20 Hz; shaded: the contractile element shortens"
    )
    rate = axes["rate"]
    shade_shortening(rate, run)
    rate.axhline(0.0, color="0.4", lw=0.8)
    rate.plot(run.time, run["quad_rate"], "C0", lw=1.6)
    at = [e.time for e in switches(run)]
    rate.plot(at, np.zeros(len(at)), "C3o", ms=5, zorder=3, label="switches")
    rate.set(xlim=(0.48, 0.64), xlabel="time [s]", ylabel="rate of the contractile element [1/s]")
    rate.legend(loc="upper left")
    shown = [0.0, 0.3, 0.45, 0.6, peak(run, "theta")[1]]
    draw_leg(axes["leg"], np.interp(shown, run.time, run["theta"]))
    return fig


def stop_figure(run):
    """The knee at its stop: angle, rate, torques."""
    fig, (angle, rate, torque) = plt.subplots(
        3, 1, figsize=(11, 8.4), sharex=True, layout="constrained"
    )
    (closed,), (released,) = run.happened("close"), run.happened("release")
    impacts = run.happened("impact")
    angle.axhline(STOP, color="0.5", ls="--", lw=1)
    angle.plot(*with_jumps(run, "theta"), "C0", lw=1.6)
    angle.plot(
        [e.time for e in impacts],
        [STOP] * len(impacts),
        "C3o",
        ms=5,
        label=f"{len(impacts)} impacts",
    )
    angle.set(ylabel="knee angle [rad]", xlim=(0, run.time[-1]))
    angle.set_title(f"A stop at {STOP:g} rad, e = {RESTITUTION:g}: impacts, rest, release")
    angle.legend(loc="lower left")
    close_by = angle.inset_axes((0.4, 0.12, 0.24, 0.55))
    close_by.axhline(STOP, color="0.5", ls="--", lw=1)
    close_by.plot(*with_jumps(run, "theta"), "C0", lw=1.4)
    close_by.plot([e.time for e in impacts[1:]], [STOP] * len(impacts[1:]), "C3o", ms=4)
    close_by.set(xlim=(impacts[1].time - 0.02, closed.time + 0.02), ylim=(0.7945, 0.8006))
    close_by.set_title("close by", fontsize="small")
    close_by.tick_params(labelsize="small")
    rate.plot(*with_jumps(run, "omega"), "C0", lw=1.6)
    rate.set_ylabel("rate [rad/s]")
    torque.plot(
        run.time,
        static_torque(run["quad_F"]),
        "C2",
        lw=1,
        label="by statics: muscle less weight, at the stop",
    )
    torque.plot(run.time, run["stop_torque"], "C0", lw=2, label="torque of the stop")
    torque.axhline(0.0, color="0.5", lw=0.8)
    torque.plot(released.time, 0.0, "ko", ms=6, label=f"release at {released.time:.4f} s")
    torque.set(ylabel="torque [N m]", xlabel="time [s]")
    torque.legend(loc="lower center")
    for axis in (angle, rate, torque):
        axis.axvspan(closed.time, released.time, color="C0", alpha=0.1, lw=0)
    return fig


# -- the study ------------------------------------------------------------------------------------


def main(out: Path, nodes: int | None = None) -> list[Path]:
    """Simulate the knee without and with a stop; draw what happens, and how it is computed."""
    free, stopped = free_knee(nodes or 1501), stopped_knee(nodes or 2001)
    print(f"{summary(free)}\n{stop_summary(stopped)}")
    figures = {
        "signorini": signorini_figure(),
        "calcium": calcium_figure(),
        "contractile": contractile_figure(free),
        "scheme": scheme_figure(),
        "run": knee_figure(free),
        "stop": stop_figure(stopped),
    }
    paths = []
    for name, figure in figures.items():
        paths.append(out / f"fes_knee_{name}.png")
        figure.savefig(paths[-1], dpi=120)
        plt.close(figure)
    return paths
