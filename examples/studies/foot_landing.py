"""A step of a foot: heel strike, toe strike, heel off and toe off, each at its exact time.

A rigid foot in a plane touches the ground with heel and toe. Force and moment of the shank at the
ankle are straight lines between given instants. The step is simulated twice: without friction, as
in Wieber, Billet 2006, and with Coulomb's. The times of all events, the velocities after impacts
and the forces are compared with `reference`, which knows the order of the phases and solves each by
itself: a parabola; a body with one degree of freedom that turns about a point; statics. A contact
ends when its force does, or when its height has grown to a threshold, which is noticed later.
Angles and moments are about y: positive ones turn the toes down.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import kinesym as ks
from kinesym.multibody import Body, Load, Planar, Tree

MASS, INERTIA, GRAVITY = 1.2, 0.005, 9.81  # kg, kg m^2 about the centre of mass, m/s^2
FRICTION = 0.7
#: Places from the ankle, forwards and upwards, while the foot is flat [m].
POINTS = {"heel": np.array([-0.05, -0.07]), "toe": np.array([0.21, -0.07])}
CENTRE = np.array([0.065, -0.035])
LENGTH = POINTS["toe"][0] - POINTS["heel"][0]

#: The load: instants [s], force upwards [N], by law the force forwards [N] and the moment [N m].
INSTANTS = np.array([0, 0.03, 0.06, 0.10, 0.18, 0.30, 0.41, 0.45, 0.49, 0.53, 0.57, 0.60, 0.66])
UPWARDS = np.array([0, 0, -120, -400, -760, -560, -740, -650, -400, -120, 10, 12, 14.0])
FORWARDS = {
    "slip": np.zeros(13),
    "coulomb": np.array([0, 0, 10, 60, 120, 20, -110, -120, -90, -30, 0, 0, 0.0]),
}
MOMENT = {
    "slip": np.array([0, 0, -5.9, -15.5, 60, 95, 155.6, 142.6, 78.1, 14.3, -1.5, -0.8, -0.3]),
    "coulomb": np.array([0, 0, -6.3, -20.3, 60, 95, 163.2, 151.4, 90.1, 20, -1.5, -0.8, -0.3]),
}
END = 0.65  # s
#: At the start: angle [rad] and its rate, speed of the centre of mass forwards [m/s], height of the
#: heel [m] and its rate.
ANGLE, RATE, SPEED, HEIGHT, SINKING = -0.4, 1.5, 0.2, 0.0065, -0.1

#: Kind and contact of the four events.
EVENTS = {
    "heel strike": ("impact", "heel"),
    "toe strike": ("impact", "toe"),
    "heel off": ("release", "heel"),
    "toe off": ("release", "toe"),
}
STATES = ["foot_px", "foot_pz", "foot_y", "foot_vx", "foot_vz", "foot_wy"]
TITLES = {"slip": "no friction", "coulomb": f"Coulomb, {FRICTION}"}


# -- the model ------------------------------------------------------------------------------------


def foot(law, restitution=0.0):
    """The foot on the ground; inputs are force and moment of the shank."""
    forwards, upwards, moment = ks.dynamicsymbols("shank_fx shank_fz shank_my")
    load = Load("foot", force=(forwards, 0, upwards), torque=(0, moment, 0))
    body = Body(
        "foot", mass=MASS, com=(CENTRE[0], 0, CENTRE[1]), inertia=(INERTIA,) * 3, joint=Planar("xz")
    )
    tree = Tree("foot_landing", [body], gravity=(0, 0, -GRAVITY), loads=[load])
    points = [
        ks.hybrid.GroundPoint(name, "foot", (x, 0, z), law, FRICTION, restitution)
        for name, (x, z) in POINTS.items()
    ]
    return ks.hybrid.on_ground(tree, points)


def inputs(law):
    """Courses of the load."""
    rows = {"shank_fx": FORWARDS[law], "shank_fz": UPWARDS, "shank_my": MOMENT[law]}
    return {name: ks.Signal(INSTANTS, row) for name, row in rows.items()}


def simulate(law, time, release="force", restitution=0.0, load=None):
    """The step on a grid (N,) [s]; tolerances near rounding, as times are compared to 1e-8 s."""
    return ks.simulate(
        replace(foot(law, restitution), release=release),
        time,
        dict(zip(STATES, start(), strict=True)),
        inputs=inputs(law) if load is None else load,
        rtol=1e-12,
        atol=1e-13,
    )


def arm(place, angle):
    """From the centre of mass to a point of the foot, forwards and upwards in the world [m]."""
    (x, z), c, s = place - CENTRE, np.cos(angle), np.sin(angle)
    return x * c + z * s, z * c - x * s


def at_ankle(state):
    """States of the model from those of the centre of mass, (6,) or (6, N)."""
    x, z, angle, vx, vz, rate = state
    rx, rz = arm(np.zeros(2), angle)
    return np.array([x + rx, z + rz, angle, vx + rz * rate, vz - rx * rate, rate])


def start_of_centre():
    """Place, angle and rates of the centre of mass at the start, with the ankle above x = 0."""
    rx, rz = arm(POINTS["heel"], ANGLE)
    return np.array(
        [-arm(np.zeros(2), ANGLE)[0], HEIGHT - rz, ANGLE, SPEED, SINKING + rx * RATE, RATE]
    )


def start():
    """The six states at the start."""
    return at_ankle(start_of_centre())


# -- the reference --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Phase:
    """From begin to end [s]. states : of time (N,), those of the centre of mass (6, N). forces : of
    time, normal forces of heel and toe and all friction, (3, N) [N]."""

    name: str
    begin: float
    end: float
    states: Callable
    forces: Callable


@dataclass
class Reference:
    """times : of events [s]. after : velocities of the ankle and the rate after impacts (3,).
    jerks : third derivatives of heights where contacts end [m/s^3]."""

    law: str
    phases: list[Phase] = field(default_factory=list)
    times: dict = field(default_factory=dict)
    after: dict = field(default_factory=dict)
    jerks: dict = field(default_factory=dict)

    def along(self, time, what):
        """`states` or `forces` of the phases at times (N,)."""
        index = np.searchsorted([phase.begin for phase in self.phases[1:]], time, side="right")
        parts = [getattr(phase, what)(time[index == k]) for k, phase in enumerate(self.phases)]
        return np.concatenate(parts, axis=1)


def load_of(law, t):
    """Force forwards and upwards, moment."""
    return [np.interp(t, INSTANTS, row) for row in (FORWARDS[law], UPWARDS, MOMENT[law])]


def about_centre(load, angle):
    """The moment of the load about the centre of mass."""
    fx, fz, moment = load
    rx, rz = arm(np.zeros(2), angle)
    return moment + rz * fx - rx * fz


def pivot(load, angle, rate, point, ratio=None):
    """Angular acceleration, normal force and friction of a foot that turns about a point.

    ratio : friction over normal force of a point that slides, 0 without friction; None for a point
        that stays. One equation of moments about the centre of mass, forces from its acceleration.
    """
    (fx, fz, _), (rx, rz) = load, arm(POINTS[point], angle)
    torque, weight = about_centre(load, angle), MASS * GRAVITY - fz
    if ratio is None:
        inertia = INERTIA + MASS * (rx**2 + rz**2)
        turn = (torque - rz * fx - rx * weight) / inertia
    else:
        lever = rz * ratio - rx
        turn = (torque + lever * (MASS * rz * rate**2 + weight)) / (INERTIA - MASS * lever * rx)
    normal = MASS * (rx * turn + rz * rate**2) + weight
    along = MASS * (rx * rate**2 - rz * turn) - fx if ratio is None else ratio * normal
    return turn, normal, along


def integrate(slope, begin, y, ends=None):
    """Solution of y' = slope(t, y) from break to break, until ends(t, y) < 0; it and its end."""
    stops = np.append(INSTANTS[(begin < INSTANTS) & (INSTANTS < END)], END)
    begins, parts = [begin], []
    for stop in stops:
        part = solve_ivp(
            slope,
            (begins[-1], stop),
            y,
            "DOP853",
            rtol=1e-13,
            atol=1e-15,
            max_step=2e-3,
            dense_output=True,
        )
        parts.append(part.sol)
        if ends and ends(stop, part.y[:, -1]) < 0.0:
            stop = brentq(
                lambda t, sol=part.sol: ends(t, sol(t)), begins[-1] + 1e-6, stop, xtol=1e-15
            )
            break
        y = part.y[:, -1]
        begins.append(stop)

    def solution(t):
        index = np.searchsorted(begins[1 : len(parts)], t, side="right")
        history = np.empty((len(y), len(t)))
        for k in np.unique(index):
            history[:, index == k] = parts[k](t[index == k])
        return history

    return solution, stop


def turning(told, name, begin, state, point, ratio, ends):
    """A phase in which the foot turns about a point until ends(normal, friction, angle) < 0."""

    def at(t, y):
        return pivot(load_of(told.law, t), y[1], y[3], point, ratio)

    def slope(t, y):
        turn, _, along = at(t, y)
        return [y[2], y[3], (load_of(told.law, t)[0] + along) / MASS, turn]

    solution, end = integrate(
        slope, begin, state[[0, 2, 3, 5]], lambda t, y: ends(*at(t, y)[1:], y[1])
    )

    def states(t):
        x, angle, vx, rate = solution(t)
        rx, rz = arm(POINTS[point], angle)
        return np.array([x, -rz, angle, vx, rx * rate, rate])

    def forces(t):
        _, normal, along = at(t, solution(t))
        return np.array([normal, 0.0 * t, along] if point == "heel" else [0.0 * t, normal, along])

    told.phases.append(Phase(name, begin, end, states, forces))
    return end, states(np.array([end]))[:, 0]


def fall(told):
    """Free flight to heel strike: a parabola, a constant rate, one root."""
    first = start_of_centre()
    x, z, angle, vx, vz, rate = first

    def states(t):
        one = np.ones_like(t)
        return np.array(
            [
                x + vx * t,
                z + vz * t - GRAVITY * t**2 / 2,
                angle + rate * t,
                vx * one,
                vz - GRAVITY * t,
                rate * one,
            ]
        )

    def height(t):
        _, z, angle, *_ = states(t)
        return z + arm(POINTS["heel"], angle)[1]

    end = brentq(height, 0.0, INSTANTS[1], xtol=1e-16)  # until then the load is zero
    told.phases.append(Phase("swing", 0.0, end, states, lambda t: np.zeros((3, len(t)))))
    return end, states(np.float64(end))


def mobility(point, angle):
    """Velocities (upwards, forwards) of a point by unit impulses there, (2, 2) [1/kg]."""
    rx, rz = arm(POINTS[point], angle)
    return np.array([[rx**2, -rx * rz], [-rx * rz, rz**2]]) / INERTIA + np.eye(2) / MASS


def strike(state, point, sticks, restitution=0.0):
    """The state after an impact of a single point, and its impulse (upwards, forwards) [N s]."""
    x, z, angle, vx, vz, rate = state
    rx, rz = arm(POINTS[point], angle)
    W, velocity = mobility(point, angle), np.array([vz - rx * rate, vx + rz * rate])
    if sticks:
        impulse = -np.linalg.solve(W, velocity)
    else:
        impulse = np.array([-(1.0 + restitution) * velocity[0] / W[0, 0], 0.0])
    up, along = impulse
    rate += (rz * along - rx * up) / INERTIA
    return np.array([x, z, angle, vx + along / MASS, vz + up / MASS, rate]), impulse


def flat(told, begin, state):
    """The foot rests, or glides without friction, until statics gives no force at the heel: a
    straight line, as the load is."""
    fx, fz, moment = load_of(told.law, INSTANTS)
    forwards, below = POINTS["toe"]  # of the toe from the ankle
    weight = MASS * GRAVITY * (forwards - CENTRE[0])
    heel = (weight - moment + below * fx - forwards * fz) / LENGTH  # moments about the toe
    toe = MASS * GRAVITY - fz - heel
    k = np.flatnonzero((begin < INSTANTS) & (heel < 0.0))[0]
    share = heel[k - 1] / (heel[k - 1] - heel[k])
    end = INSTANTS[k - 1] + share * (INSTANTS[k] - INSTANTS[k - 1])

    def states(t):
        history = np.repeat(state[:, None], len(t), axis=1)
        history[0] += state[3] * (t - begin)
        return history

    def forces(t):
        return np.array([np.interp(t, INSTANTS, row) for row in (heel, toe, -fx)])

    told.phases.append(Phase("flat", begin, end, states, forces))
    return end, states(np.array([end]))[:, 0]


def lift(told, begin, state):
    """Flight under the load after toe off."""

    def slope(t, y):
        fx, fz, moment = load_of(told.law, t)
        turn = about_centre((fx, fz, moment), y[2]) / INERTIA
        return [*y[3:], fx / MASS, fz / MASS - GRAVITY, turn]

    solution, end = integrate(slope, begin, state)
    told.phases.append(Phase("swing", begin, end, solution, lambda t: np.zeros((3, len(t)))))


def reference(law):
    """The step phase by phase. Raises `ValueError` if the load leads to other phases."""
    told, rough = Reference(law), law == "coulomb"
    ratio = None if rough else 0.0
    end, state = fall(told)
    told.times["heel strike"] = end
    state, impulse = strike(state, "heel", rough)
    check(abs(impulse[1]) <= FRICTION * impulse[0], "the heel does not slide at its strike")
    told.after["heel strike"] = at_ankle(state)[3:]
    end, state = turning(told, "heel", end, state, "heel", ratio, lambda n, f, angle: -angle)
    told.times["toe strike"] = end
    state = landed(state, rough)
    told.after["toe strike"] = at_ankle(state)[3:]
    end, state = flat(told, end, state)
    told.times["heel off"] = end
    h = 1e-4  # the load grows along a straight line, and so does the acceleration
    told.jerks["heel off"] = LENGTH * pivot(load_of(law, end + h), 0.0, 0.0, "toe", ratio)[0] / h
    if rough:
        end, state = turning(
            told, "toe", end, state, "toe", None, lambda n, f, angle: FRICTION * n - abs(f)
        )
        told.times["toe slides"] = end
        ratio = FRICTION * np.sign(told.phases[-1].forces(np.array([end]))[2, 0])
    end, state = turning(told, "toe", end, state, "toe", ratio, lambda n, f, angle: n)
    told.times["toe off"] = end
    h = 1e-6
    loss = told.phases[-1].forces(np.array([end - h]))[1, 0] / h
    told.jerks["toe off"] = loss * (mobility("toe", state[2])[0] @ [1.0, ratio])
    lift(told, end, state)
    check_phases(told)
    return told


def landed(state, rough):
    """The state after toe strike: at rest, but for what glides forwards without friction. Impulses
    of heel and toe follow from both momenta."""
    vx, vz, rate = state[3:]
    up, along = -MASS * vz, -MASS * vx if rough else 0.0
    back, _ = CENTRE - POINTS["heel"]
    _, below = POINTS["toe"] - CENTRE
    toe = (back * up + below * along + INERTIA * rate) / LENGTH
    check(0.0 <= toe <= up, "the heel stays down at toe strike")
    check(abs(along) <= FRICTION * up, "the foot does not slide at toe strike")
    return np.array([*state[:2], 0.0, vx + along / MASS, 0.0, 0.0])


def check(true, what):
    if not true:
        raise ValueError(f"the load leads to other phases: it is not true that {what}")


def check_phases(told):
    """Contacts press, and friction stays within its bounds."""
    for phase in told.phases[1:-1]:
        heel, toe, along = phase.forces(np.linspace(phase.begin, phase.end, 1000)[:-1])
        check(min(heel.min(), toe.min()) > -1e-9, f"contacts press, {phase.name}")
        check((abs(along) <= FRICTION * (heel + toe) + 1e-6).all(), f"nothing slides, {phase.name}")


# -- the study ------------------------------------------------------------------------------------


def happened(run, law):
    """When what happened first, by event [s]; without friction nothing slides."""
    times = {name: run.happened(*which)[0].time for name, which in EVENTS.items()}
    if law == "coulomb":  # the last of the kind is that before toe off
        times["toe slides"] = run.happened("slide", "toe")[-1].time
    return times


def lags(run, told):
    """How late ends of contacts are noticed by height, and by the formula [s]: a height that grows
    as jerk t^3 / 6 comes to the threshold, the root of the resolution of numbers."""
    found, threshold = {}, np.sqrt(np.finfo(float).eps)
    for name, jerk in told.jerks.items():
        late = run.happened(*EVENTS[name])[0].time - told.times[name]
        found[name] = late, np.cbrt(6.0 * threshold / jerk)
    return found


def velocities(run, event):
    """Of the ankle and the rate just after an event, (3,)."""
    after = run.happened(*EVENTS[event])[0].after
    return np.array([after[name] for name in STATES[3:]])


def errors(run, told):
    """Largest differences from the reference: states (6,), normal forces and friction (3,)."""
    states = at_ankle(told.along(run.time, "states"))
    forces = told.along(run.time, "forces")
    ours = [np.array([run[name] for name in STATES]), ground(run, told.law)]
    return [np.abs(a - b).max(axis=1) for a, b in zip(ours, (states, forces), strict=True)]


def ground(run, law):
    """Normal forces of heel and toe and all friction, (3, N) [N]. While the foot is flat, how heel
    and toe share the friction is not determined."""
    friction = run["heel_friction"] + run["toe_friction"] if law == "coulomb" else 0.0 * run.time
    return np.array([run["heel_normal"], run["toe_normal"], friction])


def table(law, runs, told):
    """Times, their differences from the reference, and how late a release by height is."""
    ours, late = happened(runs["force"], law), lags(runs["height"], told)
    rows = [
        f"{TITLES[law]:14}{'t [s]':>15}{'difference [s]':>16}{'velocities after':>18}"
        f"{'late by height [ms]':>21}{'formula':>9}"
    ]
    for name, time in told.times.items():
        row = f"{name:14}{ours[name]:15.10f}{ours[name] - time:16.0e}"
        if name in told.after:
            gap = np.abs(velocities(runs["force"], name) - told.after[name]).max()
            row += f"{gap:18.0e}"
        if name in late:
            row += f"{1e3 * late[name][0]:39.5f}{1e3 * late[name][1]:9.5f}"
        rows.append(row)
    states, forces = errors(runs["force"], told)
    both = max(np.abs(runs["force"][name] - runs["height"][name]).max() for name in STATES)
    rows += [
        f"states differ from the reference by {states.max():.0e}, forces by "
        f"{forces.max():.0e} N, both ways to release by {both:.0e}"
    ]
    return "\n".join(rows)


# -- pictures -------------------------------------------------------------------------------------

COLOURS = {"heel": "C0", "toe": "C3"}
SHADES = {"swing": "1.0", "heel": "#dbe7f3", "flat": "#ececec", "toe": "#f6dcd9"}


def figure_histories(results):
    """Heights and forces of both laws, phases shaded."""
    fig, axes = plt.subplots(
        2, 2, figsize=(11, 6.5), sharex=True, sharey="row", layout="constrained"
    )
    for (law, (runs, told)), (heights, forces) in zip(results.items(), axes.T, strict=True):
        run = runs["force"]
        shade(told, heights, forces)
        for name, colour in COLOURS.items():
            heights.plot(run.time, 100.0 * run[f"{name}_height"], colour)
            forces.plot(run.time, run[f"{name}_normal"], colour, label=name)
        forces.plot(run.time, -run["shank_fz"], "k:", lw=1, label="load, downwards")
        if law == "coulomb":
            forces.plot(run.time, ground(run, law)[2], "C2", label="friction of both, forwards")
        heights.set_title(TITLES[law], pad=18)
        forces.set_xlabel("time [s]")
    axes[0, 0].set_ylabel("height [cm]")
    axes[1, 0].set_ylabel("force of the ground [N]")
    axes[0, 0].set_xlim(0.0, END)
    fig.legend(*forces.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return fig


def shade(told, *axes):
    """Phases behind the time histories, named at the top, with the times of events."""
    phases = [phase for phase in told.phases if phase.end - phase.begin > 1e-3]
    for axis in axes:
        for phase in phases:
            axis.axvspan(phase.begin, phase.end, color=SHADES[phase.name], lw=0)
        for name in EVENTS:
            axis.axvline(told.times[name], color="0.4", lw=0.8, ls="--")
    for phase in phases:
        axes[0].annotate(
            phase.name,
            ((phase.begin + phase.end) / 2, 1.0),
            (0, 4),
            ha="center",
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            fontsize="small",
        )
    for name in EVENTS:
        high = 0.55 if name == "toe off" else 0.97  # beside the time history of the heel
        axes[0].annotate(
            f"{name} {told.times[name]:.4f} s",
            (told.times[name], high),
            (-2, 0),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            rotation=90,
            ha="right",
            va="top",
            fontsize="x-small",
            color="0.3",
        )


#: The outline of the foot from the ankle [m].
OUTLINE = np.array(
    [
        POINTS["heel"],
        POINTS["toe"],
        [0.205, -0.05],
        [0.15, -0.035],
        [0.035, 0.015],
        [-0.035, 0.015],
        [-0.058, -0.035],
    ]
)
SPACING, SCALE = 0.37, 3e-4  # m between pictures, m/N


def figure_steps(results):
    """The foot through the step with the forces on it."""
    fig, axes = plt.subplots(2, 1, figsize=(13, 6.6), layout="constrained")
    for axis, (law, (runs, told)) in zip(axes, results.items(), strict=True):
        times = told.times
        shown = {"before": 0.0, **{name: times[name] for name in EVENTS}, "after": END}
        shown |= {
            "heel down": (times["heel strike"] + times["toe strike"]) / 2,
            "foot flat": 0.25,
            "toe down": (times["heel off"] + times["toe off"]) / 2,
        }
        for k, (name, at) in enumerate(sorted(shown.items(), key=lambda item: item[1])):
            draw(axis, runs["force"], law, np.searchsorted(runs["force"].time, at), SPACING * k)
            axis.text(
                SPACING * k + 0.08,
                -0.25,
                f"{name}\n{at:.3f} s",
                ha="center",
                va="top",
                fontweight="bold" if name in EVENTS else None,
            )
        axis.axhline(0.0, color="0.5", lw=1, zorder=0)
        axis.set(aspect="equal", xlim=(-0.17, SPACING * len(shown) - 0.08), ylim=(-0.34, 0.43))
        axis.set_title(f"{TITLES[law]}; above: force upwards and moment of the shank", loc="left")
        axis.set_axis_off()
        arrow(axis, np.array([0.0, 500.0]), np.array([3.15, -0.03]), "0.6")
        axis.text(3.13, -0.11, "500 N", ha="right", va="center", color="0.5")
    return fig


def draw(axis, run, law, k, shift):
    """The foot at node k with arrows that end where forces act; friction shared like pressure."""
    _, height, angle = (run[name][k] for name in STATES[:3])
    c, s = np.cos(angle), np.sin(angle)
    turn, origin = np.array([[c, s], [-s, c]]), np.array([shift, height])
    axis.fill(*(OUTLINE @ turn.T + origin).T, color="#e8c9a8", ec="0.3", lw=0.8)
    axis.plot(*origin, "o", color="0.3", ms=4)
    heel, toe, friction = ground(run, law)[:, k]
    for name, normal in (("heel", heel), ("toe", toe)):
        if normal > 0.0:
            force = np.array([friction * normal / (heel + toe), normal])
            arrow(axis, force, turn @ POINTS[name] + origin, COLOURS[name])
    force = np.array([run["shank_fx"][k], run["shank_fz"][k]])
    arrow(axis, force, origin, "0.2")
    axis.text(
        shift + 0.08,
        0.41,
        f"{round(force[1]):d} N\n{round(run['shank_my'][k]):d} N m",
        color="0.2",
        fontsize="small",
        ha="center",
        va="top",
    )


def arrow(axis, force, tip, colour):
    if np.hypot(*force) < 20.0:
        return  # shorter than its head
    axis.annotate(
        "",
        tip,
        tip - SCALE * force,
        annotation_clip=False,
        zorder=3,
        arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 1.8, "shrinkA": 0, "shrinkB": 0},
    )


def main(out: Path, nodes: int | None = None) -> list[Path]:
    """Simulate both laws, compare with the reference, draw."""
    time = np.linspace(0.0, END, nodes or 1301)
    results: dict = {}
    for law in TITLES:
        runs = {release: simulate(law, time, release) for release in ("force", "height")}
        results[law] = runs, reference(law)
        print(table(law, *results[law]))
    pictures = {"foot_landing.png": figure_histories, "foot_landing_steps.png": figure_steps}
    for name, figure in pictures.items():
        fig = figure(results)
        fig.savefig(out / name, dpi=120)
        plt.close(fig)
    return [out / name for name in pictures]
