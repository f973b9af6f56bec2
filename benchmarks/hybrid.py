"""How fast are hybrid models with many events, against SciPy and numba?

- `knee`: a seated person's shank and a muscle under 16 impulses at 20 Hz (Wieber, Billet 2006):
  80 breaks of the calcium clock and 32 switches of the contractile element in 1.5 s;
- `hour`: the same under 72,000 impulses;
- work and precision: time over error for several tolerances;
- walkers, only kinesym: 10 s of a machine on a slope, and of a body of 57 states whose twelve
  muscles are stimulated by a regulator;
- derivatives, only kinesym: how many simulations a gradient takes, by all parameters, initial
  values and pieces of inputs.

For the knee, all use the pair of Dormand and Prince, begin anew at breaks and switches, and return
the states every 10 ms. SciPy is `solve_ivp` with an event; numba is a loop for this model alone,
with dense output, event location and a step that survives restarts. All are compared with a
reference by SciPy's DOP853 before any is timed.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from record import Table, table
from report import leave, machine, number, parsed, ratio
from scipy.integrate import solve_ivp

import kinesym as ks
from kinesym.examples.studies import foot_landing, walker
from kinesym.models.planar_walker import passive_walker, planar_walker
from kinesym.runtime.hybrid import simulation as hybrid_simulation
from kinesym.runtime.library.build import CACHE_VARIABLE
from kinesym.runtime.native import HybridRun

Array = NDArray[np.float64]
Form = Callable[..., Any]

#: Muscle [N, N/m, m, -], clock [s, 1/s], shank with foot [kg, m, kg m^2, N m s], moment arm [m], g:
#: orders of magnitude, not of a person.
P = {
    "F0": 1200.0,
    "k0": 30000.0,
    "ks": 20000.0,
    "Lc0": 0.1,
    "alpha": 0.3,
    "tau": 0.02,
    "t1": 0.015,
    "t2": 0.01,
    "Up": 20.0,
    "Um": -15.0,
    "m": 4.85,
    "lc": 0.26,
    "I": 0.44,
    "bv": 0.4,
    "r": 0.045,
    "g": 9.81,
}
STATES = ("theta", "omega", "quad_kc", "quad_F")
METHODS = OURS, LOOP, SCIPY, NUMBA = "kinesym", "kinesym, loop in C", "SciPy", "numba"
RTOL, RTOLS = 1e-9, (1e-6, 1e-8, 1e-10, 1e-12)
SWITCH = 2.0**-26  # a guard must be beyond zero by this share of its scale, for all
MOST = {"theta": 1e-6, "quad_F": 1e-4, "switches": 1e-6}  # errors allowed [rad], [N], [s]
FEW, MANY = 20, 100  # calls in a turn: short ones find the caches as warm as long ones


@dataclass(frozen=True)
class Case:
    """Nodes (N,) [s] and the calcium clock: for kinesym its signal, for the others the same as
    begins with the end (S + 1,), values and slopes (S,)."""

    time: Array
    clock: ks.Signal
    lines: tuple[Array, Array, Array]


@dataclass(frozen=True)
class Outcome:
    """states : (N, 4) at the nodes. switches : times [s]."""

    states: Array
    switches: Array
    evaluations: int


@dataclass(frozen=True)
class Side:
    """run : of a case and rtol, what is timed; atol is a hundredth. read : its outcome."""

    run: Callable[[Case, float], Any]
    read: Callable[[Any], Outcome]
    calls: int


def make_case(impulses: int, end: float) -> Case:
    clock = ks.hybrid.Calcium(*(P[key] for key in ("tau", "t1", "t2", "Up", "Um")))
    signal = clock.signal(ks.hybrid.train(0.1, 0.05, impulses))
    begin, value, slope = (np.array(row) for row in (signal.begin, signal.value, signal.slope))
    begin[0] = 0.0  # Um is constant before the first impulse
    time = np.linspace(0.0, end, round(100 * end) + 1)
    return Case(time, signal, (np.append(begin, end), value, slope))


# -- kinesym --------------------------------------------------------------------------------------


class Watched(HybridRun):
    """Counts the time within the loop in C [s]."""

    seconds = 0.0

    def march(self, *arguments: Any) -> Any:
        begin = perf_counter()
        status = super().march(*arguments)
        Watched.seconds += perf_counter() - begin
        return status


def knee() -> ks.hybrid.Hybrid:
    theta, omega = ks.dynamicsymbols("theta omega")
    numbers = {key: P[key] for key in ("F0", "k0", "ks", "Lc0")}
    quad = ks.hybrid.FESMuscle("quad", rate=-P["r"] * omega, recruitment=P["alpha"], **numbers)
    torque = P["r"] * quad.force - P["m"] * P["g"] * P["lc"] * sp.sin(theta) - P["bv"] * omega
    model = ks.Model(
        "knee",
        [theta, omega],
        [quad.force],
        [],
        [theta.diff(ks.t) - omega, P["I"] * omega.diff(ks.t) - torque],
    )
    return ks.hybrid.Hybrid(model, muscles=[quad])


def kinesym_side() -> Side:
    """What users call: states, inputs and outputs at the nodes, and a log of all events."""
    hybrid, start = knee(), dict.fromkeys(STATES, 0.0)

    def run(case: Case, rtol: float) -> Any:
        return ks.simulate(
            hybrid,
            case.time,
            start,
            inputs={"quad_u": case.clock},
            rtol=rtol,
            atol=0.01 * rtol,
            progress=False,
        )

    def read(found: Any) -> Outcome:
        switches = np.array([event.time for event in found.happened("event")])
        return Outcome(np.stack([found[x] for x in STATES], axis=-1), switches, found.work[2])

    return Side(run, read, FEW)


# -- the model, as the peers get it ---------------------------------------------------------------


def knee_form(compiled: Callable[[Form], Form]) -> tuple[Form, Form]:
    """Rates of the states, and the guard whose sign is the mode."""
    r, weight, inertia, damping = P["r"], P["m"] * P["g"] * P["lc"], P["I"], P["bv"]
    tendon, length = P["ks"], P["Lc0"]
    force, stiffness = P["alpha"] * P["F0"], P["alpha"] * P["k0"]
    sin, scale = math.sin, 1.0 / (tendon * length)

    @compiled
    def rates(theta, omega, kc, F, u, mode):
        w, up, stretch = abs(u), max(u, 0.0), -r * omega
        b = tendon * stretch + w * F - force * up
        x = b / ((kc + tendon) * length - mode * F)
        return (
            omega,
            (r * F - weight * sin(theta) - damping * omega) / inertia,
            stiffness * up - (w + mode * x) * kc,
            tendon * (stretch - length * x),
        )

    @compiled
    def guard(omega, F, u):
        return (abs(u) * F - tendon * r * omega - force * max(u, 0.0)) * scale

    return rates, guard


# -- SciPy ----------------------------------------------------------------------------------------


def scipy_run(case: Case, rtol: float, method: str = "RK45", atol: float | None = None) -> Outcome:
    """From break to break and from switch to switch. Numbers of Python are faster here than those
    of NumPy; compiled rates make no difference to the time, which is SciPy's own."""
    rates, guard = knee_form(lambda f: f)
    x, mode, calls, rows, switches = np.zeros(4), 1.0, 0, [], []
    begins, values, slopes = (row.tolist() for row in case.lines)
    for begin, end, value, slope in zip(begins, begins[1:], values, slopes, strict=False):

        def rate(t, x, begin=begin, value=value, slope=slope):
            return rates(*x.tolist(), value + slope * (t - begin), mode)  # noqa: B023 (used at once)

        def switch(t, x, begin=begin, value=value, slope=slope):
            u = value + slope * (t - begin)
            return mode * guard(float(x[1]), float(x[3]), u) + SWITCH  # noqa: B023

        switch.terminal, switch.direction = True, -1
        t = begin
        if switch(t, x) < 0.0:
            mode = -mode
            switches.append(t)
        while t < end:
            nodes = case.time[slice(*np.searchsorted(case.time, [t, end]))]
            part = solve_ivp(
                rate,
                (t, end),
                x,
                method,
                np.append(nodes, end),
                events=switch,
                rtol=rtol,
                atol=0.01 * rtol if atol is None else atol,
            )
            calls += part.nfev
            if part.status < 0:
                raise ValueError(f"SciPy: {part.message}")
            if part.status == 1:
                rows += [part.y.T] if len(part.t) else []
                t, x, mode = float(part.t_events[0][0]), part.y_events[0][0], -mode
                switches.append(t)
            else:
                rows.append(part.y.T[:-1])
                t, x = end, part.y[:, -1]
    return Outcome(np.concatenate([*rows, x[None]]), np.array(switches), calls)


def reference(case: Case) -> Outcome:
    """Of order 8, near rounding; SciPy takes no smaller rtol."""
    return scipy_run(case, 2.3e-14, "DOP853", 1e-14)


# -- numba ----------------------------------------------------------------------------------------

# Dormand and Prince: stages, weights, error, dense output (Hairer, Norsett, Wanner I, II.5, II.6)
A3, A4 = (3 / 40, 9 / 40), (44 / 45, -56 / 15, 32 / 9)
A5 = (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729)
A6 = (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656)
B = (35 / 384, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84)  # of all stages but the second
E = (71 / 57600, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)
D = (
    -12715105075 / 11282082432,
    87487479700 / 32700410799,
    -10690763975 / 1880347072,
    701980252875 / 199316789632,
    -1453857185 / 822651844,
    69997945 / 29380423,
)
SAMPLES = 5  # of the guard in a step, as many as in kinesym


def step_form(compiled: Callable[[Form], Form], rates: Form) -> tuple[Form, Form, Form]:
    """A step of length h from x, whose rates are k[0], to y; its polynomial; a point on that."""

    @compiled
    def step(x, y, k, h, u, slope, mode, rtol, atol):
        """The norm of the error over what is allowed. u : at the begin."""
        for j in range(4):
            y[j] = x[j] + h * 0.2 * k[0, j]
        v = u + 0.2 * slope * h
        k[1, 0], k[1, 1], k[1, 2], k[1, 3] = rates(y[0], y[1], y[2], y[3], v, mode)
        for j in range(4):
            y[j] = x[j] + h * (A3[0] * k[0, j] + A3[1] * k[1, j])
        v = u + 0.3 * slope * h
        k[2, 0], k[2, 1], k[2, 2], k[2, 3] = rates(y[0], y[1], y[2], y[3], v, mode)
        for j in range(4):
            y[j] = x[j] + h * (A4[0] * k[0, j] + A4[1] * k[1, j] + A4[2] * k[2, j])
        v = u + 0.8 * slope * h
        k[3, 0], k[3, 1], k[3, 2], k[3, 3] = rates(y[0], y[1], y[2], y[3], v, mode)
        for j in range(4):
            y[j] = x[j] + h * (
                A5[0] * k[0, j] + A5[1] * k[1, j] + A5[2] * k[2, j] + A5[3] * k[3, j]
            )
        v = u + 8 / 9 * slope * h
        k[4, 0], k[4, 1], k[4, 2], k[4, 3] = rates(y[0], y[1], y[2], y[3], v, mode)
        for j in range(4):
            y[j] = x[j] + h * (
                A6[0] * k[0, j]
                + A6[1] * k[1, j]
                + A6[2] * k[2, j]
                + A6[3] * k[3, j]
                + A6[4] * k[4, j]
            )
        v = u + slope * h
        k[5, 0], k[5, 1], k[5, 2], k[5, 3] = rates(y[0], y[1], y[2], y[3], v, mode)
        for j in range(4):
            y[j] = x[j] + h * (
                B[0] * k[0, j] + B[1] * k[2, j] + B[2] * k[3, j] + B[3] * k[4, j] + B[4] * k[5, j]
            )
        k[6, 0], k[6, 1], k[6, 2], k[6, 3] = rates(y[0], y[1], y[2], y[3], v, mode)
        total = 0.0
        for j in range(4):
            e = E[0] * k[0, j] + E[1] * k[2, j] + E[2] * k[3, j] + E[3] * k[4, j]
            e = h * (e + E[4] * k[5, j] + E[5] * k[6, j])
            e /= atol + rtol * max(abs(x[j]), abs(y[j]))
            total += e * e
        return math.sqrt(0.25 * total)

    @compiled
    def polynomial(x, y, k, h, c):
        for j in range(4):
            a = y[j] - x[j]
            b = h * k[0, j] - a
            c[0, j], c[1, j], c[2, j], c[3, j] = x[j], a, b, a - h * k[6, j] - b
            d = D[0] * k[0, j] + D[1] * k[2, j] + D[2] * k[3, j] + D[3] * k[4, j]
            c[4, j] = h * (d + D[4] * k[5, j] + D[5] * k[6, j])

    @compiled
    def dense(c, s, out):
        r = 1.0 - s
        for j in range(4):
            out[j] = c[0, j] + s * (c[1, j] + r * (c[2, j] + s * (c[3, j] + r * c[4, j])))

    return step, polynomial, dense


def march_form(compiled: Callable[[Form], Form]) -> Form:
    """From segment to segment and from switch to switch, without allocation in the loop."""
    rates, guard = knee_form(compiled)
    step, polynomial, dense = step_form(compiled, rates)

    @compiled
    def locate(c, h, close, u, slope, mode, z):
        """The share of the step at which the guard falls below zero, -1 if it does not: on the
        dense output, by the Illinois method."""
        a, va = 0.0, mode * guard(c[0, 1], c[0, 3], u) + SWITCH
        for sample in range(1, SAMPLES + 1):
            b = sample / SAMPLES
            dense(c, b, z)
            vb = mode * guard(z[1], z[3], u + slope * b * h) + SWITCH
            if vb < 0.0:
                break
            a, va = b, vb
        else:
            return -1.0
        kept = 0
        while b - a > close:
            s = b - vb * (b - a) / (vb - va)
            if not a < s < b:
                s = 0.5 * (a + b)
            dense(c, s, z)
            v = mode * guard(z[1], z[3], u + slope * s * h) + SWITCH
            if v < 0.0:
                b, vb = s, v
                va *= 0.5 if kept < 0 else 1.0
                kept = -1
            else:
                a, va = s, v
                vb *= 0.5 if kept > 0 else 1.0
                kept = 1
        return b

    @compiled
    def march(begins, values, slopes, time, x, rtol, atol, states, switches):
        """Evaluations and switches. x : (4,), states : (N, 4) and switches are written."""
        k, c, y, z = np.empty((7, 4)), np.empty((5, 4)), np.empty(4), np.empty(4)
        mode, h, node, found, calls = 1.0, 1e-6, 0, 0, 0
        for segment in range(len(values)):
            begin, end, slope = begins[segment], begins[segment + 1], slopes[segment]
            t, u, fresh = begin, values[segment], True
            if mode * guard(x[1], x[3], u) + SWITCH < 0.0:
                mode = -mode
                switches[found % len(switches)] = t
                found += 1
            while t < end:
                if fresh:
                    k[0, 0], k[0, 1], k[0, 2], k[0, 3] = rates(x[0], x[1], x[2], x[3], u, mode)
                    calls, fresh = calls + 1, False
                last = 1.000001 * h >= end - t
                w = end - t if last else h
                size = step(x, y, k, w, u, slope, mode, rtol, atol)
                calls += 6
                if not size <= 1.0:
                    h = w * max(0.9 * size**-0.2, 0.2)
                    continue
                wanted = w * min(0.9 * size**-0.2, 5.0) if size > 1e-10 else 5.0 * w
                polynomial(x, y, k, w, c)
                close = 4.0 * 2.2e-16 * max(1.0, t) / w
                share = locate(c, w, close, u, slope, mode, z)
                reached = t + (w if share < 0.0 else share * w)
                while node < len(time) and time[node] < reached:
                    dense(c, (time[node] - t) / w, states[node])
                    node += 1
                h = max(h, wanted) if last or share >= 0.0 else wanted
                if share >= 0.0:
                    step(x, y, k, share * w, u, slope, mode, rtol, atol)  # more exact than dense
                    x[:], calls = y, calls + 6
                    t, mode, fresh = reached, -mode, True
                    switches[found % len(switches)] = t
                    found += 1
                else:
                    x[:], k[0] = y, k[6]
                    t = end if last else reached
                u = values[segment] + slope * (t - begin)
        states[node:] = x
        return calls, found

    return march


def numba_side() -> Side | None:
    """None without numba."""
    try:
        import numba
    except ImportError:
        return None
    # No test before a division, and multiplications joined with additions, as C compilers do it
    return loop_side(numba.njit(error_model="numpy", fastmath={"contract"}))


def loop_side(compiled: Callable[[Form], Form]) -> Side:
    march = march_form(compiled)

    def run(case: Case, rtol: float) -> Outcome:
        states, switches = np.empty((len(case.time), 4)), np.empty(2 * len(case.lines[1]))
        calls, found = march(
            *case.lines, case.time, np.zeros(4), rtol, 0.01 * rtol, states, switches
        )
        return Outcome(states, switches[:found], calls)

    return Side(run, lambda found: found, MANY)


# -- comparison and timing ------------------------------------------------------------------------


def errors(found: Outcome, true: Outcome) -> dict[str, float]:
    """Largest ones over all nodes, the last one being the end: of the angle [rad], the force [N],
    and the switches [s], infinite if there are more or fewer."""
    gaps, late = np.abs(found.states - true.states).max(axis=0), math.inf
    if len(found.switches) == len(true.switches):
        late = float(np.abs(found.switches - true.switches).max())
    return {"theta": float(gaps[0]), "quad_F": float(gaps[3]), "switches": late}


def verify(sides: Mapping[str, Side], case: Case, true: Outcome) -> dict[str, Outcome]:
    """Raises `ValueError` if one is too far from the reference."""
    outcomes = {name: side.read(side.run(case, RTOL)) for name, side in sides.items()}
    for name, outcome in outcomes.items():
        for what, error in errors(outcome, true).items():
            if not error <= MOST[what]:
                raise ValueError(
                    f"{name}: {what} differs from the reference by {error:.1e}, "
                    f"allowed are {MOST[what]:g}"
                )
    return outcomes


def medians(sides: Mapping[str, Side], case: Case, rtol: float, seconds: float) -> dict[str, float]:
    """Median time of a call of each [s], in turns, for `seconds` in all but at least 5 turns; and
    of the loop within kinesym's."""
    samples: dict[str, list[float]] = {name: [] for name in (*sides, LOOP)}
    end, turn = perf_counter() + seconds, 0
    while (turn := turn + 1) <= 5 or perf_counter() < end:
        for name, side in sides.items():
            Watched.seconds, begin = 0.0, perf_counter()
            for _ in range(side.calls):
                side.run(case, rtol)
            samples[name].append((perf_counter() - begin) / side.calls)
            if name == OURS:
                samples[LOOP].append(Watched.seconds / side.calls)
    return {name: median(values) for name, values in samples.items()}


def first_calls(sides: Mapping[str, Side], case: Case) -> str:
    """Seconds of the first call, in words: they are the compilers'."""
    words = []
    for name, side in sides.items():
        begin = perf_counter()
        side.run(case, RTOL)
        if name != SCIPY:
            words.append(f"{name} {number(perf_counter() - begin)} s")
    return ", ".join(words)


def hour(sides: Mapping[str, Side], impulses: int) -> list[dict[str, Any]]:
    """One long run: time [s] and that per break of the clock [µs]. numba, where it is, checks it;
    SciPy would take minutes."""
    case = make_case(impulses, 0.1 + 0.05 * impulses)
    breaks = len(case.lines[1]) - 1
    times: dict[str, float] = {}
    outcomes: dict[str, Outcome] = {}
    for name in (name for name in (OURS, NUMBA) if name in sides):
        Watched.seconds, begin = 0.0, perf_counter()
        found = sides[name].run(case, RTOL)
        times[name] = perf_counter() - begin
        outcomes[name] = sides[name].read(found)
        if name == OURS:
            times[LOOP], outcomes[LOOP] = Watched.seconds, outcomes[OURS]
            logged = len(found.happened("clock"))
            if logged != breaks:
                raise ValueError(f"hour: {logged} of {breaks} breaks of the clock in the log")
    if NUMBA in outcomes:
        gaps = errors(outcomes[NUMBA], outcomes[OURS])
        if not all(gaps[what] <= MOST[what] for what in gaps):
            raise ValueError(f"hour: numba and kinesym differ: {gaps}")
    return [
        {
            "task": "hour",
            "method": name,
            "breaks": breaks,
            "seconds": seconds,
            "us per break": 1e6 * seconds / breaks,
            "evaluations": outcomes[name].evaluations,
            "switches": len(outcomes[name].switches),
        }
        for name, seconds in times.items()
    ]


# -- walkers --------------------------------------------------------------------------------------


def walkers(seconds: float, rtol: float = 1e-8) -> list[dict[str, Any]]:
    """Walks of the example `walker`, the median of three. The machine is simulated in one call,
    with nodes every 10 ms; the body in one call per impulse, as its regulator, in Python, sets the
    intensities by the posture at that instant."""
    machine, body = passive_walker(), planar_walker(walker.MASS, walker.STATURE)
    time = np.linspace(0.0, seconds, round(100 * seconds) + 1)

    def descend() -> tuple[int, int, str]:
        run = walker.descend(machine, time, rtol=rtol)
        return 1, run.work[2], run.message

    def walk() -> tuple[int, int, str]:
        pattern, _, evaluations, _ = walker.walk(body, seconds, rtol)
        calls = len(pattern["Rtriceps"])
        wanted = round(seconds / walker.PERIOD)
        return calls, evaluations, "" if calls == wanted else f"fell after {calls} impulses"

    rows = []
    for name, run, states in (
        ("machine", descend, len(machine.model.states)),
        ("body", walk, len(body.model.states)),
    ):
        run()  # and compile
        samples = []
        for _ in range(3):
            Watched.seconds, begin = 0.0, perf_counter()
            calls, evaluations, message = run()
            samples.append((perf_counter() - begin, Watched.seconds))
            if message:
                raise ValueError(f"walkers: {name}: {message}")
        whole, loop = median(samples)
        rows.append(
            {
                "task": "walkers",
                "method": name,
                "states": states,
                "calls": calls,
                "simulated": seconds,
                "seconds": whole,
                "in C": loop,
                "evaluations": evaluations,
            }
        )
    return rows


# -- derivatives ----------------------------------------------------------------------------------


def differentiated(end: float) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Name, state whose end is differentiated, and arguments of a simulation."""
    case, body = make_case(16, 1.5), planar_walker(walker.MASS, walker.STATURE)
    names, law = foot_landing.STATES, "coulomb"
    tight = {"rtol": RTOL, "atol": 0.01 * RTOL}
    yield (
        "knee",
        "theta",
        {
            "system": knee(),
            "time": case.time,
            "initial": dict.fromkeys(STATES, 0.0),
            "inputs": {"quad_u": case.clock},
            **tight,
        },
    )
    yield (
        "foot",
        "foot_px",
        {
            "system": foot_landing.foot(law),
            "time": np.linspace(0.0, foot_landing.END, 66),
            "initial": dict(zip(names, foot_landing.start(), strict=True)),
            "inputs": foot_landing.inputs(law),
            **tight,
        },
    )
    standing, loose = {"Rheel": True, "Rtoe": True}, {"rtol": 1e-8, "atol": 1e-10}
    time = np.linspace(0.0, end, round(100 * end) + 1)
    initial = {**walker.upright(walker.GAIT), **standing}
    yield (
        "machine",
        "hip_px",
        {"system": passive_walker(), "time": time, "initial": initial, **loose},
    )
    pattern, *_ = walker.walk(body, min(end, 1.0))
    yield (
        "body",
        "hip_px",
        {
            "system": body,
            "time": np.linspace(0.0, min(end, 1.0), 101),
            "initial": {**walker.at_start(body), **standing},
            "inputs": walker.signals(pattern),
            **loose,
        },
    )


def derivatives(seconds: float, end: float) -> list[dict[str, Any]]:
    """Least times of a simulation, and of one with the gradient of a state at its end, in turns;
    and of one with that of a weighted sum of it at all nodes [s]."""
    rows = []
    for name, state, task in differentiated(end):

        def gradient(of: Any, task: Mapping[str, Any] = task) -> Any:
            return ks.sensitivities(**task, progress=False).gradient(of)

        found, nodes = gradient(state), np.ones(len(task["time"]))
        samples: list[list[float]] = []
        stop = perf_counter() + seconds
        while len(samples) < 3 or perf_counter() < stop:
            times = [perf_counter()]
            ks.simulate(**task, progress=False)
            times.append(perf_counter())
            gradient(state)
            times.append(perf_counter())
            gradient({state: nodes})
            times.append(perf_counter())
            samples.append(np.diff(times).tolist())
        alone, ending, sum_of = np.min(samples, axis=0).tolist()
        pieces = sum(part.size for row in found.inputs.values() for part in row.parts)
        rows.append(
            {
                "task": "derivatives",
                "method": name,
                "states": len(found.initial),
                "by": len(found.initial) + len(found.parameters) + pieces,
                "seconds": alone,
                "end": ending,
                "nodes": sum_of,
            }
        )
    return rows


# -- report ---------------------------------------------------------------------------------------


def rows_of_knee(
    outcomes: Mapping[str, Outcome], true: Outcome, times: Mapping[str, float]
) -> list[dict[str, Any]]:
    found = {**outcomes, LOOP: outcomes[OURS]}
    return [
        {
            "task": "knee",
            "method": name,
            "rtol": RTOL,
            "seconds": times[name],
            "evaluations": found[name].evaluations,
            "switches": len(found[name].switches),
            **{f"error of {what}": error for what, error in errors(found[name], true).items()},
        }
        for name in METHODS
        if name in found
    ]


def rows_of_precision(
    sides: Mapping[str, Side], case: Case, true: Outcome, seconds: float
) -> list[dict[str, Any]]:
    """Time and error of each for every tolerance."""
    rows = []
    for rtol in RTOLS:
        times = medians(sides, case, rtol, seconds)
        outcomes = {name: side.read(side.run(case, rtol)) for name, side in sides.items()}
        outcomes[LOOP] = outcomes[OURS]
        rows += [
            {
                "task": "precision",
                "method": name,
                "rtol": rtol,
                "seconds": times[name],
                "evaluations": outcomes[name].evaluations,
                "error of theta": errors(outcomes[name], true)["theta"],
            }
            for name in METHODS
            if name in outcomes
        ]
    return rows


def knee_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    header = [
        "method",
        "time [ms]",
        "ratio",
        "evaluations",
        "switches",
        "error of the angle [rad]",
        "of the force [N]",
        "of the switches [s]",
    ]
    ours = rows[0]["seconds"]
    lines = [
        [
            row["method"],
            number(1e3 * row["seconds"]),
            ratio(row["seconds"], ours),
            f"{row['evaluations']}",
            f"{row['switches']}",
            *(f"{row[f'error of {what}']:.0e}" for what in MOST),
        ]
        for row in rows
    ]
    return table(header, lines)


def precision_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    names = list(dict.fromkeys(row["method"] for row in rows))
    header = ["rtol"]
    for name in names:
        header += [f"{name} [ms]", "ratio", "error [rad]"]
    lines = []
    for rtol in dict.fromkeys(row["rtol"] for row in rows):
        line, here = [f"{rtol:.0e}"], [row for row in rows if row["rtol"] == rtol]
        for row in here:
            seconds = row["seconds"]
            line += [
                number(1e3 * seconds),
                ratio(seconds, here[0]["seconds"]),
                f"{row['error of theta']:.0e}",
            ]
        lines.append(line)
    return table(header, lines)


def hour_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    header = ["method", "breaks", "switches", "evaluations", "time [s]", "per break [µs]", "ratio"]
    ours = rows[0]["seconds"]
    lines = [
        [
            row["method"],
            f"{row['breaks']}",
            f"{row['switches']}",
            f"{row['evaluations']}",
            number(row["seconds"]),
            number(row["us per break"]),
            ratio(row["seconds"], ours),
        ]
        for row in rows
    ]
    return table(header, lines)


def walkers_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    header = [
        "walker",
        "states",
        "calls",
        "evaluations",
        "time [s]",
        "of it in C [s]",
        "in C, per evaluation [µs]",
        "times real time",
    ]
    lines = [
        [
            row["method"],
            f"{row['states']}",
            f"{row['calls']}",
            f"{row['evaluations']}",
            number(row["seconds"]),
            number(row["in C"]),
            number(1e6 * row["in C"] / row["evaluations"]),
            number(row["simulated"] / row["seconds"]),
        ]
        for row in rows
    ]
    return table(header, lines)


def derivatives_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    header = ["task", "states", "derivatives", "simulation [ms]"]
    header += ["with the gradient of its end [ms]", "ratio", "of a sum of all nodes [ms]", "ratio"]
    lines = [
        [
            row["method"],
            f"{row['states']}",
            f"{row['by']}",
            *(number(1e3 * row["seconds"]), number(1e3 * row["end"])),
            ratio(row["end"], row["seconds"]),
            number(1e3 * row["nodes"]),
            ratio(row["nodes"], row["seconds"]),
        ]
        for row in rows
    ]
    return table(header, lines)


def report(first: str, rows: Sequence[Mapping[str, Any]], impulses: int) -> list[str | Table]:
    part: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        part.setdefault(row["task"], []).append(row)
    return [
        f"`knee`, rtol {RTOL:g}, atol {0.01 * RTOL:g}; errors are the largest at the nodes:",
        knee_table(part["knee"]),
        f"First calls, nothing cached: {first}.",
        "Work and precision, atol a hundredth of rtol:",
        precision_table(part["precision"]),
        f"`hour`, {impulses:,} impulses in {0.05 * impulses:,g} s, one call:",
        hour_table(part["hour"]),
        f"Walkers, {part['walkers'][0]['simulated']:g} s:",
        walkers_table(part["walkers"]),
        "Derivatives, least times:",
        derivatives_table(part["derivatives"]),
    ]


def draw(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """What is simulated, and time over error."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplot_mosaic(
        [["angle", "work"], ["force", "work"]], figsize=(11.0, 4.6), layout="constrained"
    )
    case = replace(make_case(16, 1.5), time=np.linspace(0.0, 1.5, 1501))
    true = reference(case)
    axes["angle"].sharex(axes["force"])
    axes["angle"].tick_params(labelbottom=False)
    for name, label, state in (("angle", "angle [rad]", "theta"), ("force", "force [N]", "quad_F")):
        axis, history = axes[name], true.states[:, STATES.index(state)]
        axis.vlines(
            case.lines[0][1:-1],
            0.0,
            0.06,
            "0.6",
            lw=0.8,
            transform=axis.get_xaxis_transform(),
            label="break of the clock",
        )
        axis.plot(case.time, history, "C0")
        axis.plot(
            true.switches, np.interp(true.switches, case.time, history), "C3.", ms=5, label="switch"
        )
        axis.set(ylabel=label, xlim=case.time[[0, -1]])
        axis.grid(alpha=0.3)
    axes["angle"].set_title("knee, 16 impulses at 20 Hz")
    axes["angle"].legend(fontsize="small")
    axes["force"].set_xlabel("time [s]")
    axis = axes["work"]
    for name, style in zip(METHODS, ("C0o-", "C0o:", "C1s-", "C2v-"), strict=True):
        points = [
            (row["error of theta"], 1e3 * row["seconds"])
            for row in rows
            if (row["task"], row["method"]) == ("precision", name)
        ]
        if points:
            axis.loglog(
                *zip(*points, strict=True), style, label=name, lw=2.5 if name == OURS else 1.2
            )
    axis.set(
        title="work and precision",
        xlabel="largest error of the angle at the nodes [rad]",
        ylabel="time [ms]",
    )
    axis.invert_xaxis()
    axis.grid(alpha=0.3)
    axis.legend(loc="center right", bbox_to_anchor=(1.0, 0.72))
    fig.savefig(path, dpi=120)
    plt.close(fig)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--impulses", type=int, help="of `hour` (default: 72000)")
    parser.add_argument("--seconds", type=float, default=10.0, help="per task (default: 10)")
    given = parsed(parser)
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    impulses = given.impulses or (100 if given.quick else 72_000)
    seconds = 0.0 if given.quick else given.seconds
    print(words := machine("scipy", "numba"))
    case = make_case(16, 1.5)
    true = reference(case)
    hybrid_simulation.HybridRun = Watched
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE_VARIABLE] = folder
        sides = {OURS: kinesym_side(), SCIPY: Side(scipy_run, lambda found: found, 1)}
        sides |= {NUMBA: side} if (side := numba_side()) else {}
        first = first_calls(sides, case)
        outcomes = verify(sides, case, true)
        rows = rows_of_knee(outcomes, true, medians(sides, case, RTOL, seconds))
        rows += rows_of_precision(sides, case, true, 0.5 * seconds)
        walked = 1.0 if given.quick else 10.0
        rows += hour(sides, impulses) + walkers(walked) + derivatives(0.1 * seconds, walked)
    for path in leave(given, "hybrid", words, report(first, rows, impulses), rows):
        draw(path, rows)


if __name__ == "__main__":
    main()
