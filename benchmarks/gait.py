"""How fast are inverse and forward dynamics of a whole body, next to Pinocchio and MuJoCo?

18 segments with 57 degrees of freedom on a recorded walk, one thread: single evaluations of x' with
PD actuators, the forces of 1,276 frames, 1,276 steps of 1 ms of the controlled walk; then, of
kinesym alone, times to build and the way from markers to the motion.

kinesym's angles are those of segments in the world. Peers get the same body of a free joint and 17
balls with relative quaternions: once from such coordinates, as their users have them, and once in
loops of C++ and C that turn the numbers of kinesym into theirs. All must agree before any is timed.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy asks

import numpy as np
from multibody import FEW, NAN, PEERS, Tasks, Times, compiled, pinocchio_library, pointer
from numpy.typing import NDArray
from record import Table, table
from report import leave, machine, number, parsed, ratio, tasks_of_peers
from scipy.spatial.transform import Rotation
from stepping import medians, named

import kinesym as ks
from kinesym.codegen.evaluate import model_functions
from kinesym.codegen.stepping import stepper
from kinesym.examples.studies import gait as example
from kinesym.gait.body import _inverse
from kinesym.gait.cutoffs import low_pass_of
from kinesym.gait.kinematics import Spline, in_turn, states
from kinesym.gait.natural.body import NaturalBody
from kinesym.gait.relations import Trial, landmarks
from kinesym.gait.segment_fit import (
    fit,
    landmark_targets,
    segments_from_landmarks,
    start_of,
)
from kinesym.internal.problems.pipeline import realise
from kinesym.models.gait import forward_dynamics, inverse_dynamics
from kinesym.models.whole_body import segments_of_body, whole_body
from kinesym.runtime.functions import Functions
from kinesym.runtime.library.build import CACHE_VARIABLE, find_compiler
from kinesym.symbolic.schemes import SCHEMES

Array = NDArray[np.float64]

S, G = 18, 57  # segments, degrees of freedom
H, STEPS = example.STEP, 1276
TOLERANCE = 1e-9  # largest difference between the packages, relative to the largest entry
LOOSE = 1e-4  # of MuJoCo's steps, which turn quaternions
RATES = (
    "x', points in lanes",
    "x', one by one",
    "x', calls from Python",
    "u' from own coordinates",
    "u', fewest parts",
    "x' as a stage of Runge-Kutta",
)
FORCES = (
    "from x and x'",
    "from own coordinates",
    "fewest parts",
    "calls from Python",
    "`Body.inverse`",
    "spline to joints",
)
RUNS = ("Runge-Kutta", "trapezoid", "Euler", "`forward`, Runge-Kutta", "`forward`, trapezoid")
MORE = "Runge-Kutta, 5 substeps"  # what a stage takes without the call around the loop
WAY = ("low-pass of 123 series", "landmarks", "fit of rigid segments", "splines", "all")
GOALS = (
    ("x', one by one [us]", RATES[1], 1e6, 20.0),
    ("x', in lanes [us]", RATES[0], 1e6, 5.0),
    ("1,276 frames, spline to joints [ms]", FORCES[5], 1e3, 20.0),
    ("controlled walk, Runge-Kutta [s]", RUNS[3], 1.0, 0.2),
    ("controlled walk, trapezoid [s]", RUNS[4], 1.0, 0.2),
)


@dataclass(frozen=True)
class Case:
    """The walk with numbers for all. gains : (57,) in the order of states. x : (points, 114)
    off the walk. u : (points, 171), force, moments, references and their rates. Those with `frame_`
    and `node_` are of the walk itself, at frames, and at nodes of the simulation with midpoints."""

    found: Any
    plates: Any
    body: Any
    gains: Array
    x: Array
    u: Array
    frame_x: Array
    frame_dx: Array
    node_u: Array
    time: Array

    @property
    def parents(self) -> list[int]:
        """Peers hang the torso on the pelvis, in the same place."""
        return [-1, *(max(p, 0) for p in self.body.skeleton.parents[1:])]

    @property
    def places(self) -> Array:
        """Of joints in their parents, (18, 3)."""
        points = {name: at for row in self.body.segments for name, at in row.points.items()}
        return np.array([points.get(row.proximal, (0.0,) * 3) for row in self.body.segments])


def make_case(points: int, steps: int) -> Case:
    (found, plates), rng = example.walk(), np.random.default_rng(3)
    contacts = [c for f in example.FEET for c in ks.gait.contacts_from_wrench(f, plates[f])]
    time = ks.gait.gait_cycle(contacts).begin + H * np.arange(steps + 1)
    body = ks.gait.Body(found.segments)
    instants = np.sort(rng.uniform(time[0], time[-1], points))
    needed = body.inverse(found.kinematics.sample(instants))
    halves = body.inverse(found.kinematics.sample(time[0] + H / 2 * np.arange(2 * steps + 1)))
    x = states(needed.kinematics)[0].T + 0.01 * rng.standard_normal((points, 2 * G))
    frame_x, frame_dx = (part.T.copy() for part in states(found.kinematics.sample(time[:-1])))
    gains = in_turn(ks.gait.PD().gains(body.segments))
    return Case(
        found, plates, body, gains, x, rows_of(needed), frame_x, frame_dx, rows_of(halves), time
    )


def rows_of(needed: Any) -> Array:
    motion = needed.kinematics
    parts = (
        needed.total.force,
        needed.torque.reshape(3 * S, -1),
        in_turn(motion.z),
        in_turn(motion.zd),
    )
    return np.vstack(parts).T.copy()


# -- kinesym --------------------------------------------------------------------------------------


def kinesym_tasks(case: Case) -> Tasks:
    body, model, kinematics = case.body, case.body.model, case.found.kinematics
    f = ks.compile(model)
    program = model_functions(model)
    only = replace(program, kernels=(program.kernel("rhs"),))
    single = Functions(realise(only, lanes=1), NotImplemented)
    gains = {f"Kp_{name}": gain for name, gain in zip(model.state_names, case.gains, strict=False)}
    values = dict(model.values) | gains | {"Td": ks.gait.PD().Td}
    p = np.array([values[name] for name in f.parameters])
    order = input_names(model)
    x, u = case.x.T.copy(), case.u.T[[order.index(name) for name in f.inputs]]
    columns = [(x[:, k].copy(), u[:, k].copy()) for k in range(min(FEW, len(case.x)))]
    fx, fdx, q = case.frame_x.T.copy(), case.frame_dx.T.copy(), _inverse(body._structure)
    pq, frames = [q.values[name] for name in q.parameters], case.time[:-1]
    start = named(model.state_names, case_start(case))
    inputs = [ks.Signal.parabolas(case.time, row) for row in case.node_u.T]
    march = partial(ks.simulate, model, case.time, start, values, named(order, inputs), threads=1)
    track = partial(body.forward, kinematics, case.time, ks.gait.PD())
    contacts = [c for f in example.FEET for c in ks.gait.contacts_from_wrench(f, case.plates[f])]
    return {
        RATES[0]: (lambda: f.rhs(x, u, p).T, len(case.x)),
        RATES[1]: (lambda: single.rhs(x, u, p).T, len(case.x)),
        RATES[2]: (lambda: [f.rhs(*point, p) for point in columns], len(columns)),
        FORCES[0]: (lambda: q.outputs(fdx, fx, (), pq, frames).T, 1),
        FORCES[4]: (partial(body.inverse, kinematics.sample(frames)), 1),
        FORCES[5]: (partial(to_joints, case, contacts), 1),
        RUNS[0]: (lambda: march(method="rk4"), 1),
        MORE: (lambda: march(method="rk4", substeps=5), 1),
        RUNS[1]: (lambda: march(method="trapezoid"), 1),
        RUNS[3]: (lambda: track(method="rk4"), 1),
        RUNS[4]: (lambda: track(method="trapezoid"), 1),
    }


def input_names(model: ks.Model) -> list[str]:
    """In the order of `Case.u`."""
    places = model.state_names[:G]
    segments = [name.removesuffix("_y") for name in places[3::3]]
    turns = [f"{name}_m{axis}" for name in segments for axis in "xyz"]
    wanted = [f"{name}_{kind}" for kind in ("ref", "rate") for name in places]
    return ["J1_fx", "J1_fy", "J1_fz", *turns, *wanted]


def case_start(case: Case) -> Array:
    return states(case.found.kinematics.sample(case.time[:1]))[0][:, 0]


def to_joints(case: Case, contacts: Sequence[Any]) -> Any:
    """Everything between splines and torques of joints."""
    needed = case.body.inverse(case.found.kinematics.sample(case.time[:-1]))
    shared = ks.gait.share(needed.total, contacts, case.plates)
    return needed.joints(shared.wrenches)


# -- what the loops of both peers have in common --------------------------------------------------


def introduce(library: ctypes.CDLL, case: Case) -> None:
    """Tell loops whose they are; what they point to is kept with them."""
    library.kept = np.array(case.parents, np.int32), case.gains.copy()
    library.person(S, *map(pointer, library.kept), ctypes.c_double(ks.gait.PD().Td))


def call(function: Callable[..., Any], result: Array, *given: Any) -> Array:
    """Arrays as pointers, the result last."""
    function(*(pointer(g) if isinstance(g, np.ndarray) else g for g in given), pointer(result))
    return result


def relative(x: Array, dx: Array, parents: Sequence[int], scalar: int) -> tuple[Array, ...]:
    """q, v and a of peers. scalar : place of it in quaternions, 0 for MuJoCo, whose free joint
    moves in world axes, or 3 for Pinocchio, where it moves in its own."""
    A = attitudes(x)
    w, dw = (part[:, G + 3 :].reshape(-1, S, 3) for part in (x, dx))
    R = np.array([np.swapaxes(A[:, k], 1, 2) @ A[:, max(p, 0)] for k, p in enumerate(parents)])
    turned, v, a = A.copy(), w.copy(), dw.copy()
    for k, p in enumerate(parents[1:], 1):
        turned[:, k] = np.swapaxes(R[k], 1, 2)
        v[:, k] -= np.einsum("nij,nj->ni", R[k], w[:, p])
        a[:, k] -= np.einsum("nij,nj->ni", R[k], dw[:, p]) + np.cross(w[:, k], v[:, k])
    quaternions = Rotation.from_matrix(turned.reshape(-1, 3, 3)).as_quat()
    quaternions = np.roll(quaternions, 1 if scalar == 0 else 0, axis=1).reshape(len(x), -1)
    move, push = x[:, G : G + 3], dx[:, G : G + 3]
    if scalar:
        own = np.swapaxes(A[:, 0], 1, 2)
        move, push = (np.einsum("nij,nj->ni", own, part) for part in (move, push))
        push = push - np.cross(w[:, 0], move)
    rest = [part.reshape(len(x), -1) for part in (v, a)]
    return (
        np.hstack([x[:, :3], quaternions]),
        np.hstack([move, rest[0]]),
        np.hstack([push, rest[1]]),
    )


def attitudes(x: Array) -> Array:
    """Axes of all segments, (points, 18, 3, 3)."""
    return Rotation.from_euler("YXZ", x[:, 3:G].reshape(-1, 3)).as_matrix().reshape(-1, S, 3, 3)


def text_of(name: str) -> str:
    """A file of loops beside this one, with what they share."""
    here = Path(__file__).parent
    common = (here / "gait_common.h").read_text()
    return (here / name).read_text().replace('#include "gait_common.h"', common)


# -- Pinocchio ------------------------------------------------------------------------------------


def pinocchio_in_cpp(case: Case, folder: str) -> Tasks:
    library = pinocchio_library(Path(folder, "body.cpp"), text_of("gait_pinocchio.cpp"))
    introduce(library, case)
    numbers = [[row.mass, *row.com, *row.inertia] for row in case.body.segments]
    library.make(pointer(np.hstack([numbers, case.places])))
    slope, forces = np.empty_like(case.x), np.empty((len(case.frame_x), 6 + 18 * S))
    rows = np.repeat(case_start(case)[None], len(case.time), axis=0)
    q, v, a = (part.copy() for part in relative(case.frame_x, case.frame_dx, case.parents, 3))
    tau, back = np.empty_like(v), np.empty_like(v)
    count, size = ctypes.c_long(len(case.x)), ctypes.c_long(len(v))

    inverse = partial(call, library.native, tau, size, 1, q, v, a)
    inverse()
    return {
        RATES[1]: (partial(call, library.rates, slope, count, case.x, case.u), len(slope)),
        RATES[3]: (partial(call, library.native, back, size, 0, q, v, tau), len(v)),
        FORCES[0]: (partial(call, library.forces, forces, size, case.frame_x, case.frame_dx), 1),
        FORCES[1]: (inverse, 1),
        RUNS[0]: (
            partial(
                call,
                library.run,
                rows,
                ctypes.c_long(len(rows) - 1),
                ctypes.c_double(H),
                case.node_u,
            ),
            1,
        ),
    }


def pinocchio_in_python(case: Case, folder: str) -> Tasks:
    import pinocchio as pin

    model, still = pin.Model(), pin.SE3.Identity()
    model.gravity.linear = np.array([0.0, 0.0, -9.81])
    for k, (row, place) in enumerate(zip(case.body.segments, case.places, strict=True)):
        kind = pin.JointModelSpherical() if k else pin.JointModelFreeFlyer()
        model.addJoint(case.parents[k] + 1, kind, pin.SE3(np.eye(3), place), row.name)
        body = pin.Inertia(row.mass, np.array(row.com), np.diag(row.inertia))
        model.appendBodyToJoint(k + 1, body, still)
    data, points = model.createData(), relative(case.frame_x, case.frame_dx, case.parents, 3)
    frames = list(zip(*points, strict=True))
    efforts = [pin.rnea(model, data, *frame).copy() for frame in frames]
    few = list(zip(*points[:2], efforts, strict=True))[:FEW]
    return {
        RATES[2]: (lambda: [pin.aba(model, data, *point).copy() for point in few], len(few)),
        FORCES[3]: (lambda: [pin.rnea(model, data, *frame).copy() for frame in frames], 1),
    }


# -- MuJoCo ---------------------------------------------------------------------------------------


def mujoco_model(case: Case) -> Any:
    """A free joint, 17 balls, inertia and gravity; all else is disabled."""
    import mujoco

    def body(k: int) -> str:
        row, joint = case.body.segments[k], '<joint type="ball"/>' if k else "<freejoint/>"
        at, com, moments = (
            " ".join(repr(float(number)) for number in triple)
            for triple in (case.places[k], row.com, row.inertia)
        )
        inside = "".join(body(j) for j, parent in enumerate(case.parents) if parent == k)
        return (
            f'<body name="{row.name}" pos="{at}">{joint}<inertial pos="{com}" '
            f'mass="{float(row.mass)!r}" diaginertia="{moments}"/>{inside}</body>'
        )

    flags = 'contact="disable" constraint="disable" spring="disable" damper="disable"'
    option = f'<option gravity="0 0 -9.81"><flag {flags}/></option>'
    text = f"<mujoco>{option}<worldbody>{body(0)}</worldbody></mujoco>"
    model = mujoco.MjModel.from_xml_string(text)
    if [model.body(k + 1).name for k in range(S)] != [row.name for row in case.body.segments]:
        raise ValueError("MuJoCo has the segments in another order")
    return model


def mujoco_tasks(case: Case, folder: str) -> Tasks:
    import mujoco

    place = Path(mujoco.__file__).parent
    options = f"-I{place / 'include'}", str(next(place.glob("libmujoco*"))), "-lm"
    text = text_of("gait_mujoco.c")
    library = compiled(Path(folder, "body.c"), text, find_compiler().command, options)
    introduce(library, case)
    model = mujoco_model(case)
    data = mujoco.MjData(model)
    library.both = model, data
    both = ctypes.c_void_p(model._address), ctypes.c_void_p(data._address)

    def points(what: int, q: Array, v: Array, third: Array) -> Callable[[], Array]:
        size = ctypes.c_long(len(q))
        return partial(call, library.points, np.empty_like(v), *both, what, size, q, v, third)

    def run(integrator: Any) -> Callable[[], Array]:
        start, steps = case_start(case)[None], ctypes.c_long(len(case.time) - 1)
        q, v, _ = relative(start, start, case.parents, 0)
        return partial(
            call,
            library.run,
            np.empty((steps.value, G)),
            *both,
            int(integrator),
            ctypes.c_double(H),
            q,
            v,
            case.node_u,
            steps,
        )

    def step(k: int, kind: str) -> Array:
        data.qpos, data.qvel = own[0][k], own[1][k]
        if kind == "inverse":
            data.qacc = own[2][k]
            mujoco.mj_inverse(model, data)
            return np.array(data.qfrc_inverse)
        data.qfrc_applied = efforts[k]
        mujoco.mj_forward(model, data)
        return np.array(data.qacc)

    off = relative(case.x, case.x, case.parents, 0)
    own = [part.copy() for part in relative(case.frame_x, case.frame_dx, case.parents, 0)]
    efforts = points(2, *own)().copy()
    few = min(FEW, len(efforts))
    return {
        RATES[1]: (points(4, *(part.copy() for part in off[:2]), case.u), len(case.x)),
        RATES[2]: (lambda: [step(k, "forward") for k in range(few)], few),
        RATES[3]: (points(0, *own[:2], efforts), len(efforts)),
        RATES[4]: (points(1, *own[:2], efforts), len(efforts)),
        FORCES[1]: (points(2, *own), 1),
        FORCES[2]: (points(3, *own), 1),
        FORCES[3]: (lambda: [step(k, "inverse") for k in range(len(own[0]))], 1),
        RUNS[0]: (run(mujoco.mjtIntegrator.mjINT_RK4), 1),
        RUNS[2]: (run(mujoco.mjtIntegrator.mjINT_EULER), 1),
    }


# -- comparison, timing, report -------------------------------------------------------------------


MAKERS = (
    ("Pinocchio", pinocchio_in_python),
    ("Pinocchio", pinocchio_in_cpp),
    ("MuJoCo", mujoco_tasks),
)


def verify(case: Case, sides: Mapping[str, Tasks]) -> str:
    """Largest relative differences in words; raises `ValueError` if one is too large."""
    ours, words = {task: call() for task, (call, _) in sides["kinesym"].items()}, []
    tracks = {task: np.array([*ours[task].states.values()]).T for task in RUNS[:2]}
    whole = ours[FORCES[0]]
    for name, scalar in (("kinesym", 3), ("Pinocchio", 3), ("MuJoCo", 0)):
        turned = partial(relative, parents=case.parents, scalar=scalar)
        a, efforts = turned(case.frame_x, case.frame_dx)[2], joint_efforts(case, whole, scalar)
        expected = {
            RATES[1]: ours[RATES[0]],
            RATES[2]: a[:FEW],
            RATES[3]: a,
            RATES[4]: a,
            FORCES[0]: np.delete(whole, range(6, 12), axis=1),
            **dict.fromkeys(FORCES[1:4], efforts),
            RUNS[0]: tracks[RUNS[0]],
        }
        if name == "MuJoCo":
            expected[RATES[1]] = turned(case.x, ours[RATES[0]])[2]
            expected |= dict.fromkeys(RUNS[::2], turned(tracks[RUNS[0]], tracks[RUNS[0]])[1][1:])
        elif name == "kinesym":
            expected = {
                RATES[1]: ours[RATES[0]],
                RATES[2]: ours[RATES[0]][:FEW],
                RUNS[1]: tracks[RUNS[0]],
            }
        for task, want in expected.items():
            if task not in sides[name]:
                continue
            got = (
                tracks[task]
                if name == "kinesym" and task in tracks
                else np.array(sides[name][task][0]())
            )
            if task == FORCES[0]:
                got = np.delete(got, range(6, 12), axis=1)  # the pelvis: theirs with the torso
            error = float(np.max(np.abs(got - want)) / np.max(np.abs(want)))
            words.append(f"{name}, {task} {error:.0e}")
            limit = TOLERANCE if task not in RUNS or name == "Pinocchio" else LOOSE
            if task not in RUNS[1:3] and not error <= limit:
                raise ValueError(f"{words[-1]} of the largest entry from kinesym")
    return "; ".join(words)


def joint_efforts(case: Case, whole: Array, scalar: int) -> Array:
    """Generalised forces of peers from the outputs of kinesym."""
    A = attitudes(case.frame_x)
    per = whole[:, 6 : 6 + 9 * S].reshape(-1, S, 9)
    moments, force = per[:, :, 3:6].copy(), whole[:, :3]
    moments[:, 0] += moments[:, 1]  # the torso hangs on the pelvis
    if scalar:
        force = np.einsum("nji,nj->ni", A[:, 0], force)
    return np.hstack([force, np.einsum("nsji,nsj->nsi", A, moments).reshape(len(whole), -1)])


def way_tasks() -> dict[str, Callable[[], Any]]:
    """From markers to splines, in steps and at once."""
    markers = ks.gait.read_csv(example.data("gait_subject01_markers.csv.gz"))
    still = ks.gait.read_places(example.data("gait_subject01_static.csv"))
    segments, relations = example.subject(), example.relations()
    first = low_pass_of(markers)
    clean = markers.smoothed(first)
    found = landmarks(relations, Trial(clean.positions, still))
    rows = segments_from_landmarks(segments, found)

    def fitted() -> Any:
        return fit(NaturalBody(rows), landmark_targets(rows, found), start_of(rows, found))

    z = fitted().z
    calls = (
        lambda: markers.smoothed(first),
        lambda: landmarks(relations, Trial(clean.positions, still)),
        fitted,
        lambda: Spline.through(clean.time, z),
        lambda: ks.gait.reconstruct(segments, relations, markers, still),
    )
    return named(WAY, calls)


def measure(sides: Mapping[str, Tasks], seconds: float, steps: int) -> Times:
    """Seconds per point, per all frames or per run, by task and package."""
    found: Times = {}
    for tasks in (RATES, FORCES, (*RUNS, MORE)):
        chosen = {
            (task, name): side[task]
            for name, side in sides.items()
            for task in tasks
            if task in side
        }
        times = medians({key: call for key, (call, _) in chosen.items()}, seconds)
        found |= {key: times[key] / count for key, (_, count) in chosen.items()}
    for name in sides:
        whole = found.get((RUNS[0], name), NAN)
        more = (found.pop((MORE, name)) - whole) / 4.0 if name == "kinesym" else whole
        found[RATES[5], name] = more / (4.0 * steps)
    return found


def built(kind: str, folder: str) -> dict[str, Any]:
    """Times of one build, from the table, with nothing cached, and operations of its kernels."""
    from sympy.core.cache import clear_cache

    clear_cache()
    os.environ[CACHE_VARIABLE] = f"{folder}/{kind}"
    stamps = [perf_counter()]
    tree = whole_body(segments_of_body()).parametrised()
    model = inverse_dynamics(tree) if kind == "inverse" else forward_dynamics(tree)
    stamps.append(perf_counter())
    if kind == "inverse":
        program = model_functions(model)
        program = replace(program, kernels=(program.kernel("outputs"),))
    else:
        program = stepper(model, SCHEMES.get(kind), False)
    stamps.append(perf_counter())
    realise(program, narrow=kind != "inverse")
    stamps.append(perf_counter())
    return {
        "kind": kind,
        **named(("model", "graph", "C"), np.diff(stamps)),
        "all": stamps[-1] - stamps[0],
        "operations": {k.name: k.operations for k in program.kernels},
    }


def lines_of(found: Times, tasks: Sequence[str], first: str, unit: float) -> list[list[str]]:
    """Ours, and each peer's with its time over ours, or over ours of the `first` task."""
    lines = []
    for task in tasks:
        ours = found.get((task, "kinesym"), NAN)
        line = [task, number(unit * ours)]
        for name in PEERS:
            value = found.get((task, name), NAN)
            line += [
                number(unit * value),
                ratio(value, found[first, "kinesym"] if np.isnan(ours) else ours),
            ]
        lines.append(line)
    return lines


def report(
    said: str,
    found: Times,
    way: Mapping[str, float],
    builds: Sequence[Mapping[str, Any]],
    frames: int,
) -> list[str | Table]:
    theirs = [word for name in PEERS for word in (name, "ratio")]
    made = [
        [
            row["kind"],
            *(number(row[key]) for key in ("model", "graph", "C", "all")),
            ", ".join(f"{name} {count}" for name, count in row["operations"].items()),
        ]
        for row in builds
    ]
    goals = [
        [words, number(unit * found[task, "kinesym"]), number(goal)]
        for words, task, unit, goal in GOALS
    ]
    goals.append(["all builds [s]", number(sum(row["all"] for row in builds)), "60"])
    return [
        said,
        "One evaluation of forward dynamics:",
        table(["task", "kinesym [us]", *theirs], lines_of(found, RATES, RATES[1], 1e6)),
        f"Inverse dynamics of {frames} frames:",
        table(["task", "kinesym [ms]", *theirs], lines_of(found, FORCES, FORCES[0], 1e3)),
        f"{frames} steps of {1e3 * H:g} ms of the walk with PD actuators:",
        table(["task", "kinesym [ms]", *theirs], lines_of(found, RUNS, RUNS[0], 1e3)),
        "To build, nothing cached:",
        table(["what", "model [s]", "graph [s]", "C [s]", "all [s]", "operations"], made),
        "From 151 frames of 41 markers to the motion:",
        table(["step", "[ms]"], [[name, number(1e3 * value)] for name, value in way.items()]),
        "Goals:",
        table(["what", "found", "goal"], goals),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="per table (default: 20)")
    given = parsed(parser)
    seconds = 0.0 if given.quick else given.seconds
    print(words := machine("pin", "mujoco"))
    case = make_case(*((256, 60) if given.quick else (4096, STEPS)))
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE_VARIABLE] = folder
        sides, missing = tasks_of_peers(MAKERS, case, folder)
        sides["kinesym"] = kinesym_tasks(case)
        said = f"Differences: {verify(case, sides)}.{missing}"
        found = measure(sides, seconds, len(case.time) - 1)
        way = medians(way_tasks(), seconds)
        kinds = ("inverse",) if given.quick else ("inverse", "rk4", "trapezoid")
        builds = [built(kind, folder) for kind in kinds]
    raw = [{"task": task, "of": name, "value": value} for (task, name), value in found.items()]
    raw += [{"task": task, "of": "way", "value": value} for task, value in way.items()]
    raw += [
        {"task": f"build {row['kind']}", "of": key, "value": row[key]}
        for row in builds
        for key in ("model", "graph", "C", "all")
    ]
    leave(given, "gait", words, report(said, found, way, builds, len(case.time) - 1), raw)


if __name__ == "__main__":
    main()
