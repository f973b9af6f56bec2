"""How fast are multibody models, next to Pinocchio and MuJoCo, and how do they grow with links?

- Right-hand side and steps of the classical Runge-Kutta method, h = 0.01 s, one thread: a person of
  four links with three degrees of freedom and PD control at each joint, 24 states, on ground that
  rests; kinesym also on a ship of known motion.
- Time to build, operations and time per point of open chains of more and more such links.
x' are the rates of angles and speeds, u' of the speeds alone. Pinocchio's articulated bodies
get loops in C++ and in Python; MuJoCo, which has quaternions and returns u', its own loop and
torques in C. All must return the same numbers before any is timed.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from record import Table, table
from report import leave, machine, number, parsed, ratio, tasks_of_peers
from stepping import medians, named

import kinesym as ks
from kinesym.codegen.evaluate import model_functions
from kinesym.internal.problems.pipeline import realise
from kinesym.multibody import Body, FixedBase, PrescribedBase, Tree
from kinesym.runtime.functions import Functions
from kinesym.runtime.library.build import CACHE_VARIABLE, find_compiler

Array = NDArray[np.float64]
Tasks = dict[str, tuple[Callable[[], Any], int]]  # what is timed, points or steps in it
Times = dict[tuple[str, str], float]  # seconds by task and package

#: Mass [kg], centre of mass [m], principal moments [kg m^2], joint from that of the link before
#: [m], gains [N m/rad, N m s/rad]: shanks, thighs, trunk with arms, head of a person of 80 kg and
#: 1.80 m, near those of de Leva 1996; offsets and gains are chosen. Longer chains begin again.
LINKS = (
    (
        6.928,
        0.01,
        0.0,
        0.248629,
        0.090702,
        0.086484,
        0.014798,
        0.0,
        0.0,
        0.251132,
        2500.0,
        2500.0,
        40.0,
        80.0,
        80.0,
        0.5,
    ),
    (
        22.656,
        0.0,
        0.0,
        0.257758,
        0.46726,
        0.46726,
        0.095838,
        0.0,
        0.0,
        0.448708,
        2000.0,
        2000.0,
        40.0,
        30.0,
        30.0,
        0.8,
    ),
    (
        42.672,
        -0.02,
        0.0,
        0.303265,
        1.786096,
        1.554533,
        0.474166,
        0.0,
        0.0,
        0.436508,
        1000.0,
        1000.0,
        60.0,
        25.0,
        25.0,
        2.0,
    ),
    (
        5.552,
        0.015,
        0.003,
        0.125516,
        0.032147,
        0.034743,
        0.023852,
        -0.01,
        0.0,
        0.623745,
        60.0,
        60.0,
        10.0,
        2.0,
        2.0,
        0.5,
    ),
)
G, H = 9.81, 0.01  # [m/s^2], [s]
OURS = ("kinesym", "on a ship")
PEERS = ("Pinocchio", "MuJoCo")
RATES = ("x' in a loop", "x' in calls from Python", "u' in a loop", "u' in calls from Python")
IMPLICIT = ("run", "run, loop in Python", "ensemble")
NAN = float("nan")
FEW, OFTEN = 100, 8  # points and steps in Python; calls of our loop
WHOLE = 8  # links up to which all Jacobians are compiled, which takes minutes with more
TOLERANCE = 1e-9  # largest difference between the packages, relative to the largest entry
LOOSE = 1e-4  # of MuJoCo's steps, which turn quaternions; of accelerations of long chains


@dataclass(frozen=True)
class Case:
    """Numbers for a chain. rows : (n, 16), see `LINKS`. x : (points, 6 n), Bryant angles, then
    angular velocities. starts : (members, 6 n) of an ensemble of `few` steps, the first of them
    that of the run."""

    rows: Array
    x: Array
    starts: Array
    steps: int
    few: int


def make_case(n: int, points: int, members: int = 1, steps: int = 1, few: int = 1) -> Case:
    rng, rows = np.random.default_rng(3), np.array([LINKS[k % len(LINKS)] for k in range(n)])
    rows[0, 7:10] = 0.0
    x = rng.standard_normal((points, 6 * n)) * np.repeat([0.3, 0.5], 3 * n)
    return Case(rows, x, 0.02 * rng.standard_normal((members, 6 * n)), steps, few)


def quaternions(x: Array, scalar: int) -> Array:
    """(..., 4 n) of turns about x, y and z, from (..., 6 n), with the scalar at 0 or 3."""
    angles = 0.5 * x[..., : x.shape[-1] // 2].reshape(*x.shape[:-1], -1, 3)
    (a, b, c), (d, e, f) = (np.moveaxis(g(angles), -1, 0) for g in (np.cos, np.sin))
    parts = [d * b * c + a * e * f, a * e * c - d * b * f, a * b * f + d * e * c]
    parts.insert(scalar, a * b * c - d * e * f)
    return np.stack(parts, axis=-1).reshape(*x.shape[:-1], -1)


def pointer(array: Array) -> ctypes.c_void_p:
    return array.ctypes.data_as(ctypes.c_void_p)


# -- kinesym --------------------------------------------------------------------------------------


def make_model(rows: Array, base: FixedBase | PrescribedBase) -> ks.Model:
    """Every number is a parameter: the code is that of all persons."""
    bodies, values = [], {}
    for k, (mass, *more) in enumerate(rows.tolist()):
        name, before = f"link_{k}", f"link_{k - 1}" if k else None
        bodies.append(Body(name, mass, more[:3], more[3:6], at=more[6:9], parent=before))
        gains = (f"{kind}_{name}_{axis}" for kind in ("Kp", "Kd") for axis in "xyz")
        values.update(zip(gains, more[9:], strict=True))
    tree = Tree("chain", bodies, base, gravity=(0, 0, -G)).parametrised()
    return tree.model(tree.joint_pd(), values=values)


def kinesym_tasks(case: Case, model: ks.Model) -> Tasks:
    """What users call: new arrays for the results, tests for divergence, inputs at all nodes."""
    f, x, time = ks.compile(model), case.x.T.copy(), H * np.arange(case.steps + 1)
    p = np.array([model.values[name] for name in f.parameters])
    inputs = dict.fromkeys(f.inputs, 0.01)  # of the ship; the time does not depend on them
    u = np.full((len(inputs), len(case.x)), 0.01)
    one, many = named(f.states, case.starts[0]), named(f.states, case.starts.T)
    march = partial(ks.simulate, model, inputs=inputs, threads=1)
    return {
        RATES[0]: (partial(often, lambda: f.rhs(x, u, p).T), OFTEN * len(case.x)),
        RATES[1]: (lambda: [f.rhs(x[:, k], u[:, k], p) for k in range(FEW)], FEW),
        IMPLICIT[0]: (partial(march, time, one), case.steps),
        IMPLICIT[2]: (partial(march, time[: case.few + 1], many), len(case.starts) * case.few),
    }


def often(call: Callable[[], Any]) -> Any:
    """Our loop is over sooner than those of the others: caches are to be as warm."""
    for _ in range(OFTEN - 1):
        call()
    return call()


# -- Pinocchio ------------------------------------------------------------------------------------

PINOCCHIO = r"""
#include <pinocchio/multibody.hpp>
#include <pinocchio/multibody/joint.hpp>
#include <pinocchio/algorithm/aba.hpp>
#define OUT extern "C" __attribute__((visibility("default")))
using namespace pinocchio;
using In = Eigen::Map<const Eigen::VectorXd>; using Out = Eigen::Map<Eigen::VectorXd>;
using Three = Eigen::Map<const Eigen::Vector3d>; using Ball = JointModelSphericalTpl<double, 0>;
template <typename S, int O> struct Balls { /* no other joints: sooner compiled */
    typedef S Scalar;
    static constexpr int Options = O;
    typedef boost::variant<JointModelSphericalTpl<S, O>> JointModelVariant;
    typedef boost::variant<JointDataSphericalTpl<S, O>> JointDataVariant;
};
static ModelTpl<double, 0, Balls> *model;
static DataTpl<double, 0, Balls> *data;
static const double *gains;
static Eigen::VectorXd q, tau, y, slope;

OUT void make(int n, double g, const double *row) {
    model = new ModelTpl<double, 0, Balls>(), gains = row + 10;
    model->gravity.linear() << 0, 0, -g;
    for (int k = 0; k < n; k++, row += 16) {
        const Inertia body(row[0], Three(row + 1), Eigen::Matrix3d(Three(row + 4).asDiagonal()));
        const SE3 at(Eigen::Matrix3d::Identity(), Three(row + 7));
        model->addJoint(k, Ball(), at, std::to_string(k));
        model->appendBodyToJoint(k + 1, body, SE3::Identity());
    }
    data = new DataTpl<double, 0, Balls>(*model);
    q.resize(4 * n), tau.resize(3 * n), y.resize(6 * n), slope.resize(6 * n);
}
OUT void rates(long points, const double *x, double *dx) {
    const int n = model->nv / 3;
    for (; points-- > 0; x += 6 * n, dx += 6 * n) {
        for (int k = 0; k < n; k++) {
            const double *a = x + 3 * k, *w = a + 3 * n, *gain = gains + 16 * k;
            double s[3], c[3], *da = dx + 3 * k; /* sines and cosines of half the angles */
            for (int j = 0; j < 3; j++) sincos(0.5 * a[j], s + j, c + j);
            q.segment<4>(4 * k) << s[0] * c[1] * c[2] + c[0] * s[1] * s[2],
                c[0] * s[1] * c[2] - s[0] * c[1] * s[2], c[0] * c[1] * s[2] + s[0] * s[1] * c[2],
                c[0] * c[1] * c[2] - s[0] * s[1] * s[2];
            const double sine = 2.0 * s[2] * c[2], cosine = c[2] * c[2] - s[2] * s[2];
            da[0] = (w[0] * cosine - w[1] * sine) / (c[1] * c[1] - s[1] * s[1]);
            da[1] = w[0] * sine + w[1] * cosine, da[2] = w[2] - da[0] * 2.0 * s[1] * c[1];
            for (int j = 0; j < 3; j++) tau[3 * k + j] = -gain[j] * a[j] - gain[3 + j] * w[j];
        }
        Out(dx + 3 * n, 3 * n) = aba(*model, *data, q, In(x + 3 * n, 3 * n), tau);
    }
}
OUT void run(long members, long steps, double h, double *x) {
    const double node[] = {0.5, 0.5, 1.0, 0.0}, weight[] = {h / 6, h / 3, h / 3, h / 6};
    for (const int n = 2 * model->nv; members-- > 0; x += n)
        for (long i = 0; i < steps; i++, x += n) {
            Out now(x, n), next(x + n, n);
            y = next = now;
            for (int s = 0; s < 4; s++) {
                rates(1, y.data(), slope.data());
                next += weight[s] * slope, y = now + node[s] * h * slope;
            }
        }
}
"""
#: Those of Pinocchio's own targets; the relaxed `get` is for the short list of joints. Without
#: Eigen's vectors, too wide for 3 x 3 matrices, it takes 0.8 of the time.
CXX_FLAGS = """-std=c++17 -w -fvisibility=hidden -DNDEBUG -DEIGEN_DONT_VECTORIZE
-DBOOST_MPL_LIMIT_LIST_SIZE=30 -DBOOST_MPL_LIMIT_VECTOR_SIZE=30 -DBOOST_FUSION_INVOKE_MAX_ARITY=12
-DBOOST_MPL_CFG_NO_PREPROCESSED_HEADERS -DBOOST_VARIANT_USE_RELAXED_GET_BY_DEFAULT""".split()


def pinocchio_library(path: Path, text: str) -> ctypes.CDLL:
    """Compiled loops. Pinocchio's wheel has its headers, CasADi's those of Eigen."""
    packages = [importlib.util.find_spec(name) for name in ("pinocchio", "casadi")]
    places = [Path("/usr"), *(p for spec in packages if spec for p in Path(spec.origin).parents)]
    folders = [place / "include" / more for place in places for more in ("", "eigen3")]
    found = [
        next((path for path in folders if (path / header).exists()), None)
        for header in ("pinocchio/multibody.hpp", "Eigen/Core")
    ]
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if compiler is None or None in found:
        raise ImportError("no C++ compiler" if compiler is None else "no headers")
    options = *CXX_FLAGS, *(f"-isystem{path}" for path in found)
    return compiled(path, text, (compiler,), options)


@cache
def compiled(
    path: Path, text: str, compiler: tuple[str, ...], options: tuple[str, ...]
) -> ctypes.CDLL:
    path.write_text(text, encoding="utf-8")
    command = [*compiler, "-O3", "-march=native", "-fPIC", "-shared", str(path), *options]
    if subprocess.run([*command, "-o", f"{path}.so"], capture_output=True).returncode:
        raise ImportError(f"{path.name} does not compile")
    return ctypes.CDLL(f"{path}.so")


def pinocchio_in_python(case: Case, folder: str) -> Tasks:
    import pinocchio as pin

    model, n = pin.Model(), len(case.rows)
    model.gravity.linear = np.array([0.0, 0.0, -G])
    for k, row in enumerate(case.rows):
        body = pin.Inertia(row[0], row[1:4], np.diag(row[4:7]))
        model.addJoint(k, pin.JointModelSpherical(), pin.SE3(np.eye(3), row[7:10]), f"{k}")
        model.appendBodyToJoint(k + 1, body, pin.SE3.Identity())
    aba = partial(pin.aba, model, model.createData())
    batch = partial(pin.abaInParallel, 1, pin.ModelPool(model, 1))
    q, u = quaternions(case.x, 3), case.x[:, 3 * n :]
    columns = [a.T.copy("F") for a in (q, u, u)]

    def rates(x: Array) -> Array:
        angles, w = x.reshape(2, n, 3)
        (_, sb, sc), (_, cb, cc) = np.sin(angles.T), np.cos(angles.T)
        a = (w[:, 0] * cc - w[:, 1] * sc) / cb
        slope = np.array([a, w[:, 0] * sc + w[:, 1] * cc, w[:, 2] - a * sb]).T
        torques = -case.rows[:, 10:13] * angles - case.rows[:, 13:] * w
        return np.concatenate([slope.ravel(), aba(quaternions(x, 3), w.ravel(), torques.ravel())])

    def run() -> list[Array]:
        states = [case.starts[0]]
        for _ in range(FEW):
            x = states[-1]
            k1 = rates(x)
            k2 = rates(x + 0.5 * H * k1)
            k3 = rates(x + 0.5 * H * k2)
            states.append(x + H / 6.0 * (k1 + 2.0 * (k2 + k3) + rates(x + H * k3)))
        return states

    return {
        RATES[1]: (lambda: [rates(x) for x in case.x[:FEW]], FEW),
        RATES[2]: (lambda: batch(*columns), len(q)),
        RATES[3]: (lambda: [aba(q[k], u[k], u[k]) for k in range(FEW)], FEW),
        IMPLICIT[1]: (run, FEW),
    }


def pinocchio_in_cpp(case: Case, folder: str) -> Tasks:
    library, slope = pinocchio_library(Path(folder, "chain.cpp"), PINOCCHIO), np.empty_like(case.x)
    library.make(len(case.rows), ctypes.c_double(G), pointer(case.rows))
    many = np.repeat(case.starts[:, None], case.few + 1, axis=1)
    one = np.repeat(case.starts[:1, None], case.steps + 1, axis=1)

    def rates() -> Array:
        library.rates(ctypes.c_long(len(slope)), pointer(case.x), pointer(slope))
        return slope

    def run(x: Array) -> Array:
        sizes = ctypes.c_long(len(x)), ctypes.c_long(x.shape[1] - 1)
        library.run(*sizes, ctypes.c_double(H), pointer(x))
        return x[0]

    return {
        RATES[0]: (rates, len(slope)),
        IMPLICIT[0]: (partial(run, one), case.steps),
        IMPLICIT[2]: (partial(run, many), len(many) * case.few),
    }


# -- MuJoCo ---------------------------------------------------------------------------------------

MUJOCO = r"""
#include <math.h>
#include <string.h>
#include <mujoco/mujoco.h>
const double *rows;
void torques(const mjModel *m, mjData *d) { /* Bryant angles by entries of the rotation */
    for (int k = 0; k < m->njnt; k++) {
        const double *q = d->qpos + 4 * k, *w = d->qvel + 3 * k, *gain = rows + 16 * k + 10;
        const double a = q[0], b = q[1], c = q[2], e = q[3];
        const double angle[3] = {atan2(2.0 * (a * b - c * e), 1.0 - 2.0 * (b * b + c * c)),
                                 asin(2.0 * (b * e + a * c)),
                                 atan2(2.0 * (a * e - b * c), 1.0 - 2.0 * (c * c + e * e))};
        for (int j = 0; j < 3; j++)
            d->qfrc_applied[3 * k + j] = -gain[j] * angle[j] - gain[3 + j] * w[j];
    }
}
void forward(mjModel *m, mjData *d, long points, const double *q, const double *v, double *a) {
    for (long i = 0; i < points; i++, q += m->nq, v += m->nv, a += m->nv) {
        memcpy(d->qpos, q, sizeof(double) * m->nq), memcpy(d->qvel, v, sizeof(double) * m->nv);
        mj_forward(m, d);
        memcpy(a, d->qacc, sizeof(double) * m->nv);
    }
}
"""


def mujoco_tasks(case: Case, folder: str) -> Tasks:
    """Balls, inertia, gravity and torques from a C function; all else is disabled."""
    import mujoco
    from mujoco.rollout import Rollout

    place, text, n = Path(mujoco.__file__).parent, "", len(case.rows)
    options = f"-I{place / 'include'}", str(next(place.glob("libmujoco*"))), "-lm"
    library = compiled(Path(folder, "torques.c"), MUJOCO, find_compiler().command, options)
    for row in case.rows[::-1]:
        com, moments, at = (" ".join(map(repr, v)) for v in row[1:10].reshape(3, 3).tolist())
        text = (
            f'<body pos="{at}"><joint type="ball"/><inertial pos="{com}" mass="{row[0]}" '
            f'diaginertia="{moments}"/>{text}</body>'
        )
    flags = 'contact="disable" constraint="disable" spring="disable" damper="disable"'
    option = f'<option integrator="RK4" timestep="{H}" gravity="0 0 {-G}"><flag {flags}/></option>'
    text = f"<mujoco>{option}<worldbody>{text}</worldbody></mujoco>"
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    both = ctypes.c_void_p(model._address), ctypes.c_void_p(data._address)
    ctypes.c_void_p.in_dll(library, "rows").value = case.rows.ctypes.data
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    mujoco.set_mjcb_control(kind(("torques", library)))
    q, u = quaternions(case.x, 0), case.x[:, 3 * n :].copy()
    zero, out = np.zeros((len(case.starts), 1)), np.empty_like(u)
    starts = np.hstack([zero, quaternions(case.starts, 0), case.starts[:, 3 * n :]])  # time first
    march = partial(Rollout(nthread=0).rollout, model, data)

    def loop() -> Array:
        library.forward(*both, ctypes.c_long(len(q)), *map(pointer, (q, u, out)))
        return out

    def call(k: int) -> Array:
        data.qpos, data.qvel = q[k], u[k]
        mujoco.mj_forward(model, data)
        return np.array(data.qacc)

    return {
        RATES[0]: (loop, len(q)),
        RATES[1]: (lambda: [call(k) for k in range(FEW)], FEW),
        IMPLICIT[0]: (lambda: march(starts[:1], nstep=case.steps)[0][0, :, -3 * n :], case.steps),
        IMPLICIT[2]: (lambda: march(starts, nstep=case.few)[0], len(starts) * case.few),
    }


# -- comparison, timing, report -------------------------------------------------------------------


MAKERS = (
    ("Pinocchio", pinocchio_in_python),
    ("Pinocchio", pinocchio_in_cpp),
    ("MuJoCo", mujoco_tasks),
)


def verify(sides: Mapping[str, Tasks]) -> str:
    """Largest relative differences in words; raises `ValueError` if one is too large."""
    words = []
    for name, task in ((name, task) for name in PEERS for task in (*RATES[:2], *IMPLICIT[:2])):
        if task in sides[name]:
            ours = sides["kinesym"][RATES[0] if task in RATES else IMPLICIT[0]][0]()
            if task in IMPLICIT:
                ours = np.array([*ours.states.values()]).T[int(name == "MuJoCo") :]  # no start
            error = difference(ours, np.array(sides[name][task][0]()))
            words.append(f"{name}, {task} {error:.0e}")
            if not error <= (LOOSE if name == "MuJoCo" and task in IMPLICIT else TOLERANCE):
                raise ValueError(f"{words[-1]} of the largest entry from kinesym")
    return "; ".join(words)


def difference(ours: Array, theirs: Array) -> float:
    """Of points and columns (the last ones) that both have, over the largest."""
    points, columns = min(len(ours), len(theirs)), min(ours.shape[-1], theirs.shape[-1])
    a, b = ours[:points, -columns:], theirs[:points, -columns:]
    return float(np.max(np.abs(a - b)) / np.max(np.abs(a)))


def measure(sides: Mapping[str, Tasks], seconds: float) -> Times:
    """Seconds per point or step by task and package."""
    found: Times = {}
    for tasks in (RATES, IMPLICIT):
        chosen = {
            (task, name): side[task]
            for name, side in sides.items()
            for task in tasks
            if task in side
        }
        times = medians({key: call for key, (call, _) in chosen.items()}, seconds)
        found |= {key: times[key] / count for key, (_, count) in chosen.items()}
    return found


def grow(n: int, folder: str, seconds: float) -> dict[str, float]:
    """One line of the growth."""
    case, stamps, whole = make_case(n, 4096), [perf_counter()], NAN
    os.environ[CACHE_VARIABLE] = f"{folder}/{n}"
    model = make_model(case.rows, FixedBase())
    stamps.append(perf_counter())
    program = model_functions(model)
    stamps.append(perf_counter())
    f = Functions(realise(program), NotImplemented)
    stamps.append(perf_counter())
    x, p = case.x.T.copy(), np.array([model.values[name] for name in f.parameters])
    if n <= WHOLE:
        os.environ[CACHE_VARIABLE] = f"{folder}/{n} whole"
        ks.compile(model).jacobian(x, x, (), p)
        whole = perf_counter() - stamps[-1]
    calls = {
        "residual": partial(often, lambda: f.residual(x, x, (), p)),
        "x'": partial(often, lambda: f.rhs(x, (), p).T),
    }
    for name, tasks in tasks_of_peers(MAKERS, case, folder)[0].items():
        if RATES[0] in tasks:
            calls[name] = tasks[RATES[0]][0]
            if not (error := difference(calls["x'"](), calls[name]())) <= LOOSE:
                raise ValueError(f"{n} links: {name} and kinesym differ by {error:.0e}")
    times = {
        name: value / len(case.x) / (1 if name in PEERS else OFTEN)
        for name, value in medians(calls, seconds).items()
    }
    return {
        "links": n,
        **named(("model", "graph", "C"), np.diff(stamps)),
        "all": whole,
        "operations": program.kernel("residual").operations,
        "of x'": program.kernel("rhs").operations,
        **dict.fromkeys(PEERS, NAN),
        **times,
    }


def cells(found: Times, task: str, first: str, shown: Callable[[float], float]) -> list[str]:
    """Ours, and each peer's with its time over ours, or over ours of the `first` task."""
    times = {name: found.get((task, name), NAN) for name in (*OURS, *PEERS)}
    ours, line = found.get((task, "kinesym"), found[first, "kinesym"]), []
    for name, value in times.items():
        line += [number(shown(value)), *([ratio(value, ours)] if name in PEERS else [])]
    return line


def growth_cells(row: Mapping[str, float]) -> list[str]:
    line = [f"{row['links']}", *(number(row[key]) for key in ("model", "graph", "C", "all"))]
    for key in ("operations", "of x'"):
        line += [f"{row[key]}", f"{row[key] / row['links']:.0f}"]
    line += [number(1e9 * row[key]) for key in ("residual", "x'")]
    return line + [
        word for name in PEERS for word in (number(1e9 * row[name]), ratio(row[name], row["x'"]))
    ]


def report(said: str, found: Times, growth: Sequence[Mapping[str, float]]) -> list[str | Table]:
    theirs = [word for name in PEERS for word in (name, "ratio")]
    header = [
        "links",
        "model [s]",
        "graph [s]",
        "C [s]",
        "all [s]",
        "operations",
        "per link",
        "of x'",
        "per link",
        "residual [ns]",
        "x' [ns]",
        *theirs,
    ]
    rates = [[task, *cells(found, task, RATES[0], lambda s: 1e9 * s)] for task in RATES]
    steps = [[task, *cells(found, task, IMPLICIT[0], lambda s: 1e-3 / s)] for task in IMPLICIT]
    return [
        said,
        "Four links, one evaluation:",
        table(["task", "kinesym [ns]", OURS[1], *theirs], rates),
        f"Four links, steps of {H} s; 1000 steps/s are {1000 * H:g} times real time:",
        table(["task", "kinesym [10³ steps/s]", OURS[1], *theirs], steps),
        "Chains of links:",
        table(header, map(growth_cells, growth)),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--links", nargs="+", type=int, help="chains (default: 1 2 4 8 16 32)")
    parser.add_argument("--seconds", type=float, default=10.0, help="per table (default: 10)")
    given = parsed(parser)
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    links = given.links or ([1, 2] if given.quick else [1, 2, 4, 8, 16, 32])
    seconds = 0.0 if given.quick else given.seconds
    print(words := machine("pin", "mujoco"))
    case = make_case(4, 4096, 1024, *((20, 2) if given.quick else (2000, 50)))
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE_VARIABLE] = folder
        sides, missing = tasks_of_peers(MAKERS, case, folder)
        for name, base in zip(OURS, (FixedBase(), PrescribedBase("ship")), strict=True):
            sides[name] = kinesym_tasks(case, make_model(case.rows, base))
        said = f"Differences: {verify(sides)}.{missing}"
        found, growth = measure(sides, seconds), []
        for n in links:
            growth.append(grow(n, folder, 0.2 * seconds))
            print(", ".join(f"{key} {number(value)}" for key, value in growth[-1].items()))
    raw = [
        {"links": 4, "task": task, "of": name, "value": value}
        for (task, name), value in found.items()
    ]
    raw += [
        {"links": row["links"], "task": "growth", "of": key, "value": value}
        for row in growth
        for key, value in row.items()
    ]
    leave(given, "multibody", words, report(said, found, growth), raw)


if __name__ == "__main__":
    main()
