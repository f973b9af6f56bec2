"""Walking on feet with heel and toe: a machine on a slope, and a body whose muscles are stimulated.

Single support, heel contact, double support, toe-off (Wieber, Billet 2006): what changes between
them are the contacts of heels and toes with the ground.

The machine has straight legs, flat feet on springs, and no motor. Its gait is periodic and stable:
from a start beside it the walker comes back to it. Gravity gives in each step what impacts and
dampers take. The gait was found by Newton's method on the map from one upright leg to the next.

The body has seven segments and twelve muscles that are stimulated 40 times a second. A regulator
sets the intensity of each impulse from the posture at that instant: wanted torques in the manner of
Yin, Loken, van de Panne (2007), shared among muscles, with numbers that a search found; so the body
goes on walking. The record of all intensities is a pattern, and the walk is simulated again from
the pattern alone: for some steps nothing differs, and then the walker falls, as nothing corrects
what began in the last digits.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from time import process_time

import matplotlib.pyplot as plt
import numpy as np

import kinesym as ks
from kinesym.models.planar_body import planar_body, planar_segments
from kinesym.models.planar_walker import (
    ANKLE,
    CONTRACTILE,
    MACHINE,
    MUSCLES,
    SIDES,
    passive_body,
    passive_walker,
    planar_walker,
)

CONTACTS = [f"{side}{point}" for side in SIDES for point in ("heel", "toe")]
#: Colours of sides and of phases.
SIDE = {"R": "C3", "L": "C0"}
PHASES = {
    "single support": "0.96",
    "heel off": "#dcebf7",
    "heel contact": "#fbd5c0",
    "double support": "#d3ecd0",
    "on the heel": "#f3e6f5",
    "flight": "w",
}
#: Phases that are shorter than this are not counted: after an impact points part for moments [s].
BRIEF = 5e-3


# -- phases of contact ----------------------------------------------------------------------------


def phases(run):
    """Phases of a run by its contacts: begin [s], end [s] and name of each."""
    spans = {name: run.pressing(name) for name in CONTACTS}
    edges = sorted(
        {
            float(run.time[0]),
            run.final.time,
            *(t for pairs in spans.values() for pair in pairs for t in pair),
        }
    )
    found: list = []
    for begin, end in pairwise(edges):
        middle = 0.5 * (begin + end)
        down = [name for name in CONTACTS if any(a < middle < b for a, b in spans[name])]
        name = phase_of(down)
        if end - begin < BRIEF or (found and found[-1][2] == name):
            if found:
                found[-1] = (found[-1][0], end, found[-1][2])
            continue
        found.append((begin, end, name))
    return found


def phase_of(down):
    """The name of a phase with these contacts."""
    feet = {side: {name[1:] for name in down if name[0] == side} for side in SIDES}
    bearing = [points for points in feet.values() if points]
    if len(bearing) == 2:
        return "heel contact" if {"heel"} in bearing else "double support"
    if not bearing:
        return "flight"
    return {"heel": "on the heel", "toe": "heel off"}.get("".join(bearing[0]), "single support")


def losses(run, energy):
    """Energy that each impact takes (K,) [J], and times (K,) [s]."""
    impacts = run.happened("impact")
    rows = np.array([e.rows for e in impacts])
    return energy(rows[:, 0]) - energy(rows[:, 1]), np.array([e.time for e in impacts])


def energy_of(tree):
    """Kinetic and potential energy [J] of a tree as a function of states (K, n), of which those
    of the tree come first."""
    functions = ks.compile(tree.model(outputs="energy"))
    values = [functions.values[name] for name in functions.parameters]

    def energy(states):
        x = np.ascontiguousarray(states[:, : len(functions.states)].T)
        return functions.outputs(np.zeros_like(x), x, np.zeros((0, x.shape[1])), values).sum(axis=0)

    return energy


# -- the machine ----------------------------------------------------------------------------------

#: Its gait when the right leg is upright: rates of right and left leg, angle and rate of the left
#: ankle, angle of the left leg [rad, rad/s]; the right foot is flat.
GAIT = {
    "Rleg_wy": 0.38551100531,
    "Lleg_y": 0.01875833376,
    "Lleg_wy": -2.89151650534,
    "Lfoot_y": 0.01911105130,
    "Lfoot_wy": -0.06238157661,
}
OTHER = {"R": "L", "L": "R"}


def weight():
    """Of the machine [N]."""
    legs_and_feet = 2 * (MACHINE["leg_mass"] + MACHINE["foot_mass"])
    return MACHINE["g"] * (MACHINE["hip_mass"] + legs_and_feet)


def upright(gait):
    """All states of the machine for such numbers."""
    rate = gait["Rleg_wy"]
    names = [*passive_body().coordinates, *passive_body().speeds, "damper_work"]
    return dict.fromkeys(names, 0.0) | {
        "hip_pz": MACHINE["length"] + MACHINE["ankle"],
        "hip_vx": rate * MACHINE["length"],
        "Rfoot_wy": -rate,
        **gait,
    }


def descend(machine, time, gait=None, rtol=1e-10):
    """The machine from the right leg upright on, on a grid (N,) [s]."""
    return ks.simulate(
        machine,
        time,
        {**upright(gait or GAIT), "Rheel": True, "Rtoe": True},
        rtol=rtol,
        atol=1e-2 * rtol,
    )


def next_upright(machine, gait, rtol=1e-12):
    """The numbers of `GAIT` a step later, with right and left exchanged."""
    run = descend(machine, [0.0, 1.2], gait, rtol)
    after = run.happened("event", "L upright")[0].after
    return {name: after[OTHER[name[0]] + name[1:]] for name in gait}


def multipliers(machine, step=1e-6):
    """By how much what is beside the gait is still beside it a step later (5,)."""
    columns = []
    for name in GAIT:
        ends = [next_upright(machine, {**GAIT, name: GAIT[name] + d}) for d in (step, -step)]
        columns.append([(ends[0][k] - ends[1][k]) / (2.0 * step) for k in GAIT])
    return np.linalg.eigvals(np.array(columns).T)


def steps_of(run, energy):
    """Of each whole step from upright to upright: begin and end [s], length [m], and what gravity
    gives and what impacts, dampers, and the rest took [J]."""
    marks = sorted(
        (e for side in SIDES for e in run.happened("event", f"{side} upright")),
        key=lambda e: e.time,
    )
    lost, times = losses(run, energy)
    rows = []
    for a, b in pairwise(marks):
        length = b.after["hip_px"] - a.after["hip_px"]
        given = weight() * np.sin(MACHINE["slope"]) * length
        impacts = lost[(times > a.time) & (times < b.time)].sum()
        damped = a.after["damper_work"] - b.after["damper_work"]
        rows.append((a.time, b.time, length, given, impacts, damped, given - impacts - damped))
    return np.array(rows)


# -- the body: stimulation and its regulator ------------------------------------------------------

PERIOD = 1 / 40  # s, of impulses
CLOCK = ks.hybrid.Calcium(tau=0.003, tau1=0.012, tau2=0.004, Up=30.0, Um=-20.0)
#: Intensities are steps of a stimulator.
LEVELS = 255
#: Force of a muscle that is stimulated for long at full intensity, over F0; the share of it that
#: there is at the start.
STEADY, BEGUN = 0.6, 0.8
MASS, STATURE = 85.0, 1.82

#: Numbers of the regulator. Targets of hip (in the world), knee and ankle [rad]; gains of angle and
#: rate [N m/rad, N m s/rad].
REGULATOR = {
    "lean": 0.053,
    "trunk": (765.0, 75.0),  # the trunk, by the hip of the leg that bears it
    "knee": (-0.149, 122.0, 11.1),
    "ankle": (-0.169, 487.0, 22.4),  # of that leg
    "early": 0.366,  # duration of the first part of a swing [s]
    "bent": (-0.647, 1.23, -0.0523),
    "reach": (-0.509, 0.838, -0.307),  # targets in both parts
    "hip swings": (133.0, 15.7),
    "knee swings": (26.8, 1.65),
    "ankle swings": (11.4, 0.417),
    "speed": 1.15,
    "by speed": 0.334,
    "by place": -0.11,  # [m/s], corrections of the hip's target
    "push": 90.3,
    "pushes": 0.146,  # the ankle of the leg behind after heel strike [N m], [s]
    "force": 2.5,  # intensity that what is missing of a force adds, over that of the force
}
#: Speed at the start [m/s], the bent knee of the right leg, which bears the walker, angles and
#: rates of the left one.
START = {
    "speed": 1.15,
    "bent": 0.05,
    "Lthigh_y": -0.529,
    "Lshank_y": 1.18,
    "Lfoot_y": -0.2,
    "Lthigh_wy": -3.11,
    "Lshank_wy": -6.44,
    "HAT_y": 0.053,
}


def legs():
    """Lengths of thigh and shank, height of the ankle [m]."""
    rows = {row.name: row for row in planar_segments(MASS, STATURE)}
    return -rows["Rthigh"].points["RK"][1], -rows["Rshank"].points["RA"][1], ANKLE * STATURE


def posture(start):
    """Coordinates and speeds of the body: it turns about the right ankle, that foot is flat."""
    thigh, shank, ankle = legs()
    bent = 0.5 * start["bent"]
    height = (thigh + shank) * np.cos(bent)
    rate = start["speed"] / height
    given = {name: value for name, value in start.items() if "_" in name}
    forwards = (shank - thigh) * np.sin(bent)
    return given | {
        "Rthigh_y": -bent,
        "Rshank_y": 2.0 * bent,
        "Rfoot_y": -bent,
        "Rthigh_wy": rate,
        "Rfoot_wy": -rate,
        "hip_px": forwards,
        "hip_pz": height + ankle,
        "hip_vx": start["speed"],
        "hip_vz": -rate * forwards,
    }


@dataclass
class Regulator:
    """What the stimulator does at each impulse. bears, swings : sides of legs. since : when the one
    began to bear [s]. lifted : whether the other one has left the ground since."""

    numbers: dict = field(default_factory=lambda: dict(REGULATOR))
    bears: str = "R"
    swings: str = "L"
    since: float = -0.15
    lifted: bool = True

    def __call__(self, time, state, touches):
        """Intensities 0 to `LEVELS` by muscle. state : by name. touches : names of contacts."""
        self.exchange(time, state, touches)
        behind = any(name[0] == self.swings for name in touches) and not self.lifted
        wanted = {self.swings: self.swinging(time - self.since, state, behind), self.bears: None}
        wanted[self.bears] = self.bearing(state, wanted[self.swings][0])
        found = {}
        for side in SIDES:
            for name, force in share(*wanted[side]).items():
                missing = force - state[f"{side}{name}_F"]
                level = force / STEADY + (self.numbers["force"] * missing if force > 0.0 else 0.0)
                share_of = np.clip(level / MUSCLES[name].F0, 0.0, 1.0)
                found[f"{side}{name}"] = round(LEVELS * float(share_of))
        return found

    def exchange(self, time, state, touches):
        """Legs change their parts when the one that swings lands in front of the other."""
        down = any(name[0] == self.swings for name in touches)
        if not self.lifted and not down and time - self.since > 0.1:
            self.lifted = True
        ahead = state[f"{self.swings}thigh_y"] < state[f"{self.bears}thigh_y"]
        if self.lifted and down and ahead and time - self.since > 0.2:
            self.bears, self.swings = self.swings, self.bears
            self.since, self.lifted = time, False

    def swinging(self, passed, state, behind):
        """Torques of hip, knee and ankle of the leg that swings, or has yet to leave the ground."""
        n, side = self.numbers, self.swings
        late = passed >= n["early"]
        hip, knee, ankle = n["reach"] if late else n["bent"]
        hip += n["by speed"] * (state["hip_vx"] - n["speed"])
        if late:
            hip += n["by place"] * over_ankle(state, self.bears)
        at_ankle = regulated(state, f"{side}foot", ankle, *n["ankle swings"])
        if behind:
            at_ankle = n["push"] if passed < n["pushes"] else 0.0
        return (
            regulated(state, f"{side}thigh", hip, *n["hip swings"]),
            regulated(state, f"{side}shank", knee, *n["knee swings"]),
            at_ankle,
        )

    def bearing(self, state, other):
        """Torques of the leg that bears the walker; its hip holds the trunk against the other."""
        n, side = self.numbers, self.bears
        trunk = regulated(state, "HAT", n["lean"], *n["trunk"])
        return (
            -trunk - other,
            regulated(state, f"{side}shank", *n["knee"]),
            regulated(state, f"{side}foot", *n["ankle"]),
        )


def regulated(state, name, target, gain, damping):
    """A torque that leads an angle to its target [N m]."""
    return gain * (target - state[f"{name}_y"]) - damping * state[f"{name}_wy"]


def over_ankle(state, side):
    """How far the hip is ahead of the ankle of a leg [m]."""
    thigh, shank, _ = legs()
    angle = state[f"{side}thigh_y"]
    return thigh * np.sin(angle) + shank * np.sin(angle + state[f"{side}shank_y"])


def share(hip, knee, ankle):
    """Forces of the muscles of a leg [N] for torques of its joints, none against another but
    where hamstrings bend the knee."""
    arm = {name: muscle.arms for name, muscle in MUSCLES.items()}
    hamstrings = max(0.0, knee) / arm["hamstrings"]["knee"]
    hip -= hamstrings * arm["hamstrings"]["hip"]
    if knee <= 0.0:  # they help to extend the hip, and the knee has to be held against them
        hamstrings += 0.3 * max(0.0, hip) / arm["hamstrings"]["hip"]
        knee -= hamstrings * arm["hamstrings"]["knee"]
        hip -= 0.3 * max(0.0, hip)
    return {
        "iliopsoas": max(0.0, -hip) / -arm["iliopsoas"]["hip"],
        "gluteus": max(0.0, hip) / arm["gluteus"]["hip"],
        "hamstrings": hamstrings,
        "quadriceps": max(0.0, -knee) / -arm["quadriceps"]["knee"],
        "tibialis": max(0.0, -ankle) / -arm["tibialis"]["ankle"],
        "triceps": max(0.0, ankle) / arm["triceps"]["ankle"],
    }


# -- the body: simulation -------------------------------------------------------------------------


def at_start(body):
    """All states of the body; its muscles have been stimulated before."""
    state = dict.fromkeys(body.model.state_names, 0.0) | posture(START)
    for name, level in Regulator()(0.0, state, ["Rheel", "Rtoe"]).items():
        force = BEGUN * STEADY * level / LEVELS * MUSCLES[name[1:]].F0
        state |= {f"{name}_F": force, f"{name}_kc": CONTRACTILE * force}
    return state


def signals(pattern, first=0):
    """Inputs for intensities by muscle, one per impulse, from the impulse `first` on."""
    count = len(next(iter(pattern.values())))
    times = (first + np.arange(count)) * PERIOD
    clock = CLOCK.signal(times)
    inputs: dict = {}
    for name, levels in pattern.items():
        share_of = np.asarray(levels) / LEVELS
        inputs |= {f"{name}_u": clock, f"{name}_recruitment": ks.Signal.pieces(times, share_of)}
    return inputs


def walk(body, duration, rtol=1e-6):
    """A walk under the regulator: intensities of all impulses by muscle, seconds of computing in
    the simulation, evaluations of x', and where the hip ended [m]."""
    regulator, here, touches = Regulator(), at_start(body), ["Rheel", "Rtoe"]
    now: dict | ks.hybrid.HybridState = {**here, **dict.fromkeys(touches, True)}
    pattern: dict = {f"{side}{name}": [] for side in SIDES for name in MUSCLES}
    spent, calls = 0.0, 0
    for k in range(round(duration / PERIOD)):
        levels = regulator(k * PERIOD, here, touches)
        for name, level in levels.items():
            pattern[name].append(level)
        inputs = signals({name: [level] for name, level in levels.items()}, k)
        begin = process_time()
        run = ks.simulate(
            body,
            [k * PERIOD, (k + 1) * PERIOD],
            now,
            inputs=inputs,
            rtol=rtol,
            atol=1e-2 * rtol,
            progress=False,
        )
        spent, calls, now = spent + process_time() - begin, calls + run.work[2], run.final
        if run.message:
            break
        here = dict(zip(body.model.state_names, run.final.x.tolist(), strict=True))
        touches = [name for name, on in zip(CONTACTS, run.final.contacts, strict=True) if on == 1]
    return pattern, spent, calls, here["hip_px"]


def stimulated(body, pattern, time, rtol=1e-8):
    """The walk from the pattern alone, on a grid (N,) [s]."""
    return ks.simulate(
        body,
        time,
        {**at_start(body), "Rheel": True, "Rtoe": True},
        inputs=signals(pattern),
        rtol=rtol,
        atol=1e-2 * rtol,
        progress=False,
    )


def balance(run, energy):
    """What goes into the energy of the body up to the end [J]: work of muscles, dampers and stops,
    friction, impacts; its change; what is left over."""
    lost, _ = losses(run, energy)
    ends = np.array([[run[name][0] for name in run.states], run.final.x])
    names = list(run.states)
    works = {
        name: run.final.x[names.index(name)]
        for name in ("muscle_work", "passive_work", "friction_work")
    }
    works["friction_work"] -= sum(
        e.after["friction_work"] - e.before["friction_work"] for e in run.happened("impact")
    )
    change = float(np.diff(energy(ends))[0])
    total = sum(works.values()) - lost.sum()
    return {**works, "impacts": -lost.sum(), "change": change, "left over": change - total}


def apart(one, other):
    """Times of contact events that two runs share (K,) [s], and by how much they differ."""
    logs = [
        [e for e in run.events if e.kind in ("impact", "close", "release")] for run in (one, other)
    ]
    count = 0
    for a, b in zip(*logs, strict=False):
        if (a.kind, a.name) != (b.kind, b.name):
            break
        count += 1
    times = np.array([[e.time for e in log[:count]] for log in logs])
    return times[0], np.abs(times[0] - times[1])


# -- pictures -------------------------------------------------------------------------------------


def skeleton(run, k, slope=0.0):
    """Points of each leg at node k, hip to ankle, heel and toe, and the trunk if there is one; as
    complex numbers in a world whose ground falls by `slope` [rad]."""
    turn = np.exp(-1j * slope)
    carriers = ["shank", "foot"] if "Rshank_place_x" in run.outputs else ["foot"]

    def place(name):
        return turn * (run[f"{name}_x"][k] + 1j * run[f"{name}_z"][k])

    def ground(name):
        return turn * (run[f"{name}_place"][k] + 1j * run[f"{name}_height"][k])

    hip, lines = place("hip_place"), {}
    for side in SIDES:
        ankle = place(f"{side}foot_place")
        lines[side] = np.array(
            [
                hip,
                *(place(f"{side}{name}_place") for name in carriers),
                ground(f"{side}toe"),
                ground(f"{side}heel"),
                ankle,
            ]
        )
    if "HAT_end_x" in run.outputs:  # as far again beyond the centre of the trunk
        lines["trunk"] = np.array([hip, hip + 1.9 * (place("HAT_end") - hip)])
    return lines


def draw_steps(axis, run, times, slope=0.0):
    """Stick figures at times; the later, the darker."""
    for n, time in enumerate(times):
        k = min(int(np.searchsorted(run.time, time)), len(run.time) - 1)
        shade = 0.45 + 0.55 * n / max(len(times) - 1, 1)
        for name, line in skeleton(run, k, slope).items():
            colour = SIDE.get(name, "0.2")
            axis.plot(line.real, line.imag, color=colour, lw=1.2, alpha=shade)
    axis.set_aspect("equal")
    axis.set_ylabel("height [m]")
    axis.set_xlabel("position [m]")


def shade_phases(axis, found):
    """Phases as background."""
    for begin, end, name in found:
        axis.axvspan(begin, end, color=PHASES[name], lw=0, zorder=0)


def draw_contacts(axis, run, found):
    """Bars while a contact presses, on the phases."""
    shade_phases(axis, found)
    for row, name in enumerate(reversed(CONTACTS)):
        for begin, end in run.pressing(name):
            axis.barh(row, end - begin, left=begin, height=0.55, color=SIDE[name[0]])
    sides = {"R": "right", "L": "left"}
    labels = [f"{sides[name[0]]} {name[1:]}" for name in reversed(CONTACTS)]
    axis.set_yticks(range(len(CONTACTS)), labels)
    axis.set_ylim(-0.6, len(CONTACTS) - 0.4)
    seen = list(dict.fromkeys(name for _, _, name in found))
    patches = [plt.Rectangle((0, 0), 1, 1, fc=PHASES[name], ec="0.6", lw=0.5) for name in seen]
    axis.legend(
        patches,
        seen,
        ncols=len(seen),
        loc="lower left",
        bbox_to_anchor=(0, 1),
        frameon=False,
        fontsize="small",
        borderaxespad=0.2,
    )


def draw_forces(axis, run, weight, found):
    """Forces along the normal of the ground under each foot, over the weight."""
    shade_phases(axis, found)
    for side, colour in SIDE.items():
        points = [run[f"{side}{point}_normal"] / weight for point in ("heel", "toe")]
        axis.plot(run.time, sum(points), colour, lw=1.4)
        axis.plot(run.time, points[0], colour, lw=0.7, ls="--")
    axis.set_ylabel("normal force\nover weight")
    axis.set_ylim(0.0, min(2.5, axis.get_ylim()[1]))


def figure_machine(run, disturbed, end):
    """Steps on the slope, contacts and forces up to `end` [s], and the cycle in the phase plane."""
    fig = plt.figure(figsize=(12, 8.5), layout="constrained")
    grid = fig.add_gridspec(3, 3, height_ratios=[1.25, 1, 1])
    steps, bars, forces, plane = (
        fig.add_subplot(place) for place in (grid[0, :], grid[1, :2], grid[2, :2], grid[1:, 2])
    )
    slope, found = MACHINE["slope"], phases(run)
    draw_steps(steps, run, np.arange(0.0, run.final.time, 0.124), slope)
    ends = np.array(steps.get_xlim())
    steps.plot(ends, -np.tan(slope) * ends, "0.5", lw=0.8, zorder=0)
    steps.set_xlim(*ends)
    steps.set_title("A machine walks down a slope: right leg red, left leg blue", loc="left")
    draw_contacts(bars, run, found)
    draw_forces(forces, run, weight() * np.cos(slope), found)
    for axis in (bars, forces):
        axis.set_xlim(0.0, end)
    forces.set_xlabel("time [s]   (dashed: heel alone)")
    plane.plot(disturbed["Rleg_y"], disturbed["Rleg_wy"], "0.6", lw=0.7, label="from beside it")
    plane.plot(run["Rleg_y"], run["Rleg_wy"], "C3", lw=1.6, label="the gait")
    plane.set_xlabel("angle of the right leg [rad]")
    plane.set_ylabel("its rate [rad/s]")
    plane.set_title("It comes back to its gait", loc="left")
    plane.legend(loc="center", fontsize="small")
    return fig


def draw_pattern(axis, pattern, end):
    """Intensities of all muscles over time."""
    rows = np.array([pattern[f"{side}{name}"] for side in SIDES for name in MUSCLES])
    rows = rows[:, : int(np.ceil(end / PERIOD))]
    edges = PERIOD * np.arange(rows.shape[1] + 1)
    axis.pcolormesh(
        edges,
        np.arange(len(rows) + 1),
        rows[::-1] / LEVELS,
        cmap="Greys",
        vmin=0,
        vmax=1,
        rasterized=True,
    )
    names = [f"{name} {side}" for side in SIDES for name in MUSCLES]
    axis.set_yticks(np.arange(len(rows)) + 0.5, names[::-1], fontsize="x-small")
    axis.axhline(len(MUSCLES), color="C1", lw=0.8)


def figure_body(run, pattern, times, difference):
    """Steps, contacts, forces, intensities of the stimulated walk; how two tolerances part."""
    fig = plt.figure(figsize=(12, 11), layout="constrained")
    grid = fig.add_gridspec(4, 3, height_ratios=[1.5, 0.8, 0.8, 1.25])
    steps, bars, forces, muscles, part = (
        fig.add_subplot(place)
        for place in (grid[0, :], grid[1, :], grid[2, :], grid[3, :2], grid[3, 2])
    )
    end, found = run.final.time, phases(run)
    draw_steps(steps, run, np.arange(0.0, end, 0.1))
    steps.axhline(0.0, color="0.5", lw=0.8, zorder=0)
    steps.set_title(
        "Recorded stimulation, replayed without feedback until the walker falls",
        loc="left",
    )
    draw_contacts(bars, run, found)
    draw_forces(forces, run, 9.81 * MASS, found)
    draw_pattern(muscles, pattern, end)
    for axis in (bars, forces, muscles):
        axis.set_xlim(0.0, end)
    forces.set_xlabel("time [s]   (dashed: heel alone)")
    muscles.set_xlabel("time [s]   (intensity 0 white, 1 black)")
    part.semilogy(times, np.maximum(difference, 1e-13), "k.", ms=3)
    part.axhline(1e-6, color="C1", lw=0.8)
    part.set_xlabel("time of contact event [s]")
    part.set_title("rtol 1e-8 and 1e-10 differ by [s]", loc="left", fontsize="medium")
    return fig


# -- the study ------------------------------------------------------------------------------------


def study_machine(out, nodes):
    """The machine: report and picture."""
    machine = passive_walker()
    energy = energy_of(passive_body())
    time = np.linspace(0.0, 5.5, nodes)
    run = descend(machine, time)
    disturbed = descend(machine, time, {**GAIT, "Rleg_wy": 1.2 * GAIT["Rleg_wy"], "Lleg_y": 0.1})
    table = steps_of(run, energy)
    begin, end, length, given, impacts, damped, _ = table[0]
    print(
        f"machine: a step of {length:.4f} m in {end - begin:.4f} s; multipliers "
        + ", ".join(f"{m:.2g}" for m in abs(multipliers(machine)))
    )
    print(
        f"  gravity gives {given:.4f} J, impacts take {impacts:.4f} J, dampers {damped:.4f} J; "
        f"left over at most {abs(table[:, -1]).max():.1e} J in {len(table)} steps"
    )
    print_phases(run, begin, end)
    figure = figure_machine(run, disturbed, 3.6)
    figure.savefig(out / "walker_machine.png", dpi=120)
    plt.close(figure)
    return out / "walker_machine.png"


def study_body(out, nodes, duration):
    """The body: report and picture."""
    body = planar_walker(MASS, STATURE)
    pattern, spent, calls, place = walk(body, duration, rtol=1e-8)
    walked = PERIOD * len(pattern["Rtriceps"])
    print(
        f"body under a regulator: {place:.2f} m in {walked:.1f} s; {spent:.2f} s of computing "
        f"in {len(pattern['Rtriceps'])} runs, {calls} evaluations"
    )
    time = np.linspace(0.0, min(walked, 4.4), nodes)
    rough = stimulated(body, pattern, time)
    begin = process_time()
    stimulated(body, pattern, time[[0, -1]])
    spent = process_time() - begin
    run = stimulated(body, pattern, time, rtol=1e-10)
    fallen = [f"falls at {e.time:.2f} s" for e in run.happened("event", "the walker falls")]
    print(
        f"from the pattern it {''.join(fallen) or 'still walks'}; computing takes "
        f"{spent / rough.final.time:.3f} s per second, {1e6 * spent / rough.work[2]:.2f} us per "
        f"evaluation"
    )
    times, difference = apart(rough, run)
    good = times[np.maximum.accumulate(difference) < 1e-6]
    print(f"  events at rtol 1e-8 and 1e-10 agree to 1e-6 s until {good[-1]:.2f} s")
    energy = energy_of(planar_body(planar_segments(MASS, STATURE)))
    print(
        "  "
        + ", ".join(
            f"{name.replace('_', ' ')} {value:.3g} J"
            for name, value in balance(run, energy).items()
        )
    )
    print_phases(run, 0.5, 1.9)
    figure = figure_body(run, pattern, times, difference)
    figure.savefig(out / "walker_body.png", dpi=120)
    plt.close(figure)
    return out / "walker_body.png"


def print_phases(run, begin, end):
    """Phases that begin within a span [s]."""
    for a, b, name in phases(run):
        if begin <= a < end:
            print(f"  {a:7.4f} s  {name:<15} {b - a:.4f} s")


def main(out: Path, nodes: int | None = None) -> list[Path]:
    """Both walkers."""
    many = nodes or 2001
    return [study_machine(out, many), study_body(out, many, 10.0 if nodes is None else 4.0)]
