"""How fast are simulation, ensembles and gradients by time stepping, against CasADi, numba and
diffrax?

The classical Runge-Kutta method with fixed steps, one thread, for
- `standing`: two links with feedback, 4 states; gradient with respect to the 8 gains;
- `n_link_10`: ten links on a cart, 22 states, mass matrix 11 x 11; gradient with respect to all 22
  masses, lengths and g.
Single runs; ensembles, whose members have starts and parameters of their own; the sum of squared
differences to "measured" states at the nodes, and its gradient by the discrete adjoint. The peers
get closed forms written by hand. All must return the same numbers before any is timed.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from record import Table, table
from report import leave, machine, number, parsed, ratio

import kinesym as ks
from kinesym.runtime.library.build import CACHE_VARIABLE, find_compiler

Array = NDArray[np.float64]
Form = Callable[..., Any]  # rates(x, u, p, out, work): out = x'
Calls = dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]]  # task: what is timed, numbers

MODELS = ("standing", "n_link_10")
PACKAGES = ("kinesym", "CasADi, loop in C", "CasADi, mapaccum", "numba", "diffrax")
SUBSTEPS = "run, 5 substeps"  # only kinesym: what a step costs without the call around the loop
TOGETHER = (("run", SUBSTEPS), ("ensemble",), ("cost", "gradient"))  # measured in turns
NODES, WEIGHTS = (0.5, 0.5, 1.0, 0.0), (1 / 6, 1 / 3, 1 / 3, 1 / 6)  # each stage to the next, to x
FLAGS = ["-O3", "-march=native"]  # for CasADi's C; with -ffast-math it takes 0.94 to 1.1 times that
BASE = 80  # steps that mapaccum nests; with CasADi's default, 10, gradients take 1.3 times as long
TOLERANCE = 1e-9  # largest difference between the packages, relative to the largest entry


@dataclass(frozen=True)
class Case:
    """A model with numbers: N steps, n states, r parameters, the first q of them unknown.

    u : (N + 1,), the only input. start : (n,). measured : (N + 1, n). trial : (r,), where cost and
    gradient are taken. starts : (M, n) and parameters : (M, r) of the ensemble of `few` steps.
    """

    model: ks.Model
    form: Callable[..., Form]
    unknown: int
    time: Array
    u: Array
    start: Array
    values: Array
    measured: Array
    trial: Array
    starts: Array
    parameters: Array
    few: int

    @property
    def sizes(self) -> tuple[int, int, int, int, float]:
        """N, n, r, q and the time step [s]."""
        steps, n = len(self.time) - 1, len(self.start)
        return steps, n, len(self.values), self.unknown, float(self.time[1] - self.time[0])

    def steps(self, task: str) -> int:
        return len(self.starts) * self.few if task == "ensemble" else self.sizes[0]

    def rooms(self) -> tuple[Array, Array]:
        """Memory for the states of a run and of the ensemble, (1 or M, nodes, n), starts in it."""
        one = np.zeros((1, len(self.time), len(self.start)))
        many = np.zeros((len(self.starts), self.few + 1, len(self.start)))
        one[:, 0], many[:, 0] = self.start, self.starts
        return one, many


def make_case(name: str, quick: bool) -> Case:
    """Reproducible numbers; few of them to see whether everything works."""
    rng = np.random.default_rng(7)
    if name == "standing":
        model, form, unknown, few = ks.models.standing(), standing_form, 8, 1000
        grid, start = 0.01 * np.arange(6000), np.zeros(4)
        w = np.array([7, 11, 16, 25, 38, 61, 103, 131, 151, 181, 313, 523]) * np.pi / 120.0
        u = 0.01 * w**2 @ np.sin(np.outer(w, grid))
    else:
        model, form = ks.models.n_link_pendulum_on_cart(10), partial(chain_form, 10)
        unknown, few, grid, start = 22, 100, 0.002 * np.arange(5001), np.zeros(22)
        start[1:11] = np.pi + 0.2 * np.sin(np.arange(10))  # hangs: rounding grows slowly
        u = 5.0 * np.sin(2.0 * grid) + 3.0 * np.sin(5.0 * grid)
    nodes, members, few = (21, 9, 10) if quick else (len(grid), 1024, few)
    grid, u, names = grid[:nodes], u[:nodes], model.state_names
    values = np.array([model.values[p] for p in model.parameter_names])
    run = ks.simulate(model, grid, named(names, start), inputs={model.input_names[0]: u})
    states = np.stack([run[x] for x in names], axis=-1)
    return Case(
        model,
        form,
        unknown,
        grid,
        u,
        start,
        values,
        measured=states + 0.01 * rng.standard_normal(states.shape),
        trial=np.where(np.arange(len(values)) < unknown, 1.02, 1.0) * values,
        starts=start + 0.02 * rng.standard_normal((members, len(start))),
        parameters=values * rng.uniform(0.97, 1.03, (members, len(values))),
        few=few,
    )


def named(names: Sequence[str], values: Sequence[Any] | Array) -> dict[str, Any]:
    return dict(zip(names, values, strict=True))


# -- the models, as the peers get them ------------------------------------------------------------


def standing_form(sin: Any, cos: Any, compiled: Callable[[Form], Form]) -> Form:
    """Equations of motion for the absolute accelerations, by Cramer's rule."""

    @compiled
    def rates(x, u, p, out, work):
        length, leg_centre, leg_mass, leg_inertia = p[8], p[9], p[10], p[11]
        centre, mass, inertia, g = p[12], p[13], p[14], p[15]
        s_a, c_a, s_h, c_h = sin(x[0]), cos(x[0]), sin(x[1]), cos(x[1])
        s_t, c_t = s_a * c_h + c_a * s_h, c_a * c_h - s_a * s_h
        ankle = -(p[0] * x[0] + p[1] * x[1] + p[2] * x[2] + p[3] * x[3])
        hip = -(p[4] * x[0] + p[5] * x[1] + p[6] * x[2] + p[7] * x[3])
        m_aa = leg_mass * leg_centre * leg_centre + mass * length * length + leg_inertia
        m_tt, coupling = mass * centre * centre + inertia, mass * length * centre
        m_at, b, w = coupling * c_h, coupling * s_h, x[2] + x[3]
        q_a = (leg_mass * leg_centre + mass * length) * (g * s_a + u * c_a)
        q_a = q_a + ankle - hip + b * w * w
        q_t = mass * centre * (g * s_t + u * c_t) + hip - b * x[2] * x[2]
        scale = 1.0 / (m_aa * m_tt - m_at * m_at)
        out[0], out[1], out[2] = x[2], x[3], (m_tt * q_a - m_at * q_t) * scale
        out[3] = (m_aa * q_t - m_at * q_a) * scale - out[2]

    return rates


def chain_form(n: int, sin: Any, cos: Any, compiled: Callable[[Form], Form]) -> Form:
    """n links on a cart, M u' = Q: closed form, sums along the chain, M = L D L'."""
    k = n + 1  # a constant for numba, which unrolls the loops then: 1.3 times as fast

    @compiled
    def system(x, u, p, work):
        """The upper triangle of M in the first k rows of the work, Q in the next."""
        q, mu, e, f, w = work[k], work[k + 1], work[k + 2], work[k + 3], work[k + 4]
        mu[n] = p[n]
        for i in range(n - 1, -1, -1):
            mu[i] = mu[i + 1] + p[i]
        for i in range(1, k):
            e[i], f[i], w[i] = p[n + i] * sin(x[i]), p[n + i] * cos(x[i]), x[k + i] * x[k + i]
        g, e_sum, f_sum = p[2 * n + 1], 0.0 * u, 0.0 * u
        for i in range(n, 0, -1):
            q[i] = mu[i] * e[i] * g - e[i] * f_sum + f[i] * e_sum
            e_sum, f_sum = e_sum + mu[i] * e[i] * w[i], f_sum + mu[i] * f[i] * w[i]
        q[0], e_sum, f_sum, work[0, 0] = u - e_sum, 0.0 * u, 0.0 * u, mu[0]
        for i in range(1, k):
            e_sum, f_sum = e_sum + e[i] * w[i], f_sum + f[i] * w[i]
            q[i] += mu[i] * (f[i] * e_sum - e[i] * f_sum)
            work[0, i] = -mu[i] * f[i]
            for j in range(1, i + 1):
                work[j, i] = (e[j] * e[i] + f[j] * f[i]) * mu[i]

    @compiled
    def factorise(m, row):
        """L below the diagonal of m, 1 / D on it."""
        for i in range(k):
            d = m[i, i]
            for j in range(i):
                v = m[j, i]
                for c in range(j):
                    v -= row[c] * m[j, c]
                row[j], m[i, j] = v, v * m[j, j]
                d -= v * m[i, j]
            m[i, i] = 1.0 / d

    @compiled
    def solve(m, b):
        for i in range(k):
            for j in range(i):
                b[i] -= m[i, j] * b[j]
        for i in range(k):
            b[i] *= m[i, i]
        for i in range(k - 1, -1, -1):
            for j in range(i):
                b[j] -= m[i, j] * b[i]

    @compiled
    def rates(x, u, p, out, work):
        system(x, u, p, work)
        factorise(work, work[k + 1])
        solve(work, work[k])
        for i in range(k):
            out[i], out[k + i] = x[k + i], work[k, i]

    rates.parts = system, solve  # for the adjoint in CasADi
    return rates


# -- kinesym and numba ----------------------------------------------------------------------------


def kinesym_calls(case: Case) -> Calls:
    """What users call: inputs and outputs at all nodes are part of the results."""
    model, states, parameters = case.model, case.model.state_names, case.model.parameter_names
    u, few, q = model.input_names[0], case.few + 1, case.unknown
    start = named(states, case.start)
    run = partial(ks.simulate, model, case.time, start, inputs={u: case.u})
    ensemble = partial(
        ks.simulate,
        model,
        case.time[:few],
        named(states, case.starts.T),
        named(parameters, case.parameters.T),
        {u: case.u[:few]},
        threads=1,
    )
    measured = named(states, case.measured.T)
    trial = ks.Experiment(case.time, inputs={u: case.u}, measurements=measured)
    bounds = {p: (0.5 * model.values[p], 2.0 * model.values[p]) for p in parameters[:q]}
    shooting = ks.Shooting(model, trial, unknown=bounds, initial=start, method="rk4", threads=1)
    # The states of the last call are kept, so every call gets other values, by the last bit.
    guesses = cycle((case.trial[:q], np.nextafter(case.trial[:q], np.inf)))

    def read(result: Any) -> Array:
        return np.stack([result[x] for x in states], axis=-1)

    return {
        "run": (run, read),
        SUBSTEPS: (partial(run, substeps=5), read),
        "ensemble": (ensemble, read),
        "cost": (lambda: shooting.cost(next(guesses)), np.atleast_1d),
        "gradient": (lambda: shooting.gradient(next(guesses), mode="adjoint"), np.asarray),
    }


def numba_calls(case: Case) -> Calls:
    """Loops as users of numba write them; it has no derivatives."""
    try:
        import numba
    except ImportError:
        return {}
    compiled = numba.njit(error_model="numpy")  # no test before a division: up to 1.9 times as fast
    rates, (_, n, _, _, h) = case.form(np.sin, np.cos, compiled), case.sizes

    @compiled
    def ensemble(u, parameters, x):
        slope, now, y, end = np.empty((4, n))
        work = np.empty((n, n))
        for m in range(len(x)):
            p = parameters[m]
            now[:] = x[m, 0]
            for i in range(x.shape[1] - 1):
                inputs = u[i], 0.5 * (u[i] + u[i + 1]), 0.5 * (u[i] + u[i + 1]), u[i + 1]
                y[:] = end[:] = now
                for s in range(4):
                    rates(y, inputs[s], p, slope, work)
                    for j in range(n):
                        y[j] = now[j] + NODES[s] * h * slope[j]
                        end[j] += WEIGHTS[s] * h * slope[j]
                now[:] = x[m, i + 1] = end

    @compiled
    def cost(u, parameters, measured, x):
        ensemble(u, parameters, x)
        total = 0.0
        for a, b in zip(x.flat, measured.flat):  # noqa: B905 (numba knows no strict)
            total += (a - b) ** 2
        return total

    one, many = case.rooms()
    return {
        "run": (partial(ensemble, case.u, case.values[None], one), lambda _: one[0]),
        "ensemble": (partial(ensemble, case.u, case.parameters, many), lambda _: many),
        "cost": (partial(cost, case.u, case.trial[None], case.measured, one), np.atleast_1d),
    }


def diffrax_calls(case: Case) -> Calls:
    """See `peers.by_diffrax`."""
    from peers.by_diffrax import stepping_calls

    try:
        return stepping_calls(case)
    except ImportError:
        return {}


# -- CasADi ---------------------------------------------------------------------------------------

DRIVER = """
#define WORK const double *arg[%(arg)d]; double *res[%(res)d], w[%(w)d]; casadi_int iw[%(iw)d]
enum {n = %(n)d, r = %(r)d, q = %(q)d};
void ensemble(long members, long steps, const double *u, const double *p, double *x) {
    WORK;
    for (long m = 0; m < members; m++, p += r, x += n)
        for (long i = 0; i < steps; i++, x += n) {
            arg[0] = x; arg[1] = u + i; arg[2] = u + i + 1; arg[3] = p; res[0] = x + n;
            rk4_step(arg, res, iw, w, 0);
        }
}
double cost(long steps, const double *u, const double *p, const double *measured, double *x,
            double *g) { /* and its gradient, unless g is NULL */
    WORK;
    double sum = 0.0, bar[n] = {0.0}, before[n], more[q];
    ensemble(1, steps, u, p, x);
    for (long i = 0; i < (steps + 1) * n; i++) sum += (x[i] - measured[i]) * (x[i] - measured[i]);
    for (int k = 0; g && k < q; k++) g[k] = 0.0;
    for (long i = steps - 1; g && i >= 0; i--) {
        const double *y = x + (i + 1) * n, *ym = measured + (i + 1) * n;
        for (int k = 0; k < n; k++) bar[k] += 2.0 * (y[k] - ym[k]);
        arg[0] = y - n; arg[1] = u + i; arg[2] = u + i + 1; arg[3] = p; arg[4] = bar;
        res[0] = before; res[1] = more;
        rk4_back(arg, res, iw, w, 0);
        for (int k = 0; k < n; k++) bar[k] = before[k];
        for (int k = 0; k < q; k++) g[k] += more[k];
    }
    return sum;
}
"""


def casadi_sides(case: Case, folder: str) -> dict[str, Calls]:
    """A step and its pull-back, compiled, in a loop in C; and loops by mapaccum."""
    try:
        import casadi as ca
    except ImportError:
        return {}
    step, back = casadi_steps(ca, case)
    build = partial(casadi_build, ca, f"{folder}/{case.model.name}")
    return {
        "CasADi, loop in C": casadi_loop(case, step, back, build),
        "CasADi, mapaccum": casadi_mapaccum(ca, case, step, build),
    }


def casadi_steps(ca: Any, case: Case) -> tuple[Any, Any]:
    """All operations of a step unrolled (SX), which is faster than calls of x' from an MX graph.

    The pull-back uses the rule for M a = Q and the factors of M again: the gradient of ten links
    is 1.4 times as fast as with the derivatives of the elimination.
    """
    _, n, r, q, h = case.sizes
    rates, half, sizes = case.form(ca.sin, ca.cos, lambda f: f), n // 2, (n, 1, 1, r, n)
    x, u, v, p, bar = (ca.SX.sym(*pair) for pair in zip("xuvpb", sizes, strict=True))
    out, work, plain = np.full(n, ca.SX(0)), *(np.full((n, n), ca.SX(0)) for _ in range(2))
    arguments = ca.vertsplit(x), u, ca.vertsplit(p)
    rates(*arguments, out, work)
    slope = ca.vertcat(*out)
    if hasattr(rates, "parts"):
        system, solve = rates.parts
        dual = np.array(ca.vertsplit(bar[half:]))
        solve(work, dual)
        system(*arguments, plain)
        a, b = ca.SX.sym("a", half), ca.SX.sym("b", half)
        product = ca.dot(bar[:half], x[half:])
        for i in range(half):
            forces = sum(plain[min(i, j), max(i, j)] * a[j] for j in range(half))
            product += b[i] * (plain[half, i] - forces)
        bars = [ca.gradient(product, z) for z in (x, p)]
        bars = ca.substitute(bars, [a, b], [slope[half:], ca.vertcat(*dual)])
    else:
        bars = [ca.jtimes(slope, z, bar, True) for z in (x, p)]
    f, pull_back = ca.Function("f", [x, u, p], [slope]), ca.Function("b", [x, u, p, bar], bars)

    inputs, points, end = (u, 0.5 * (u + v), 0.5 * (u + v), v), [x], x
    for now, node, weight in zip(inputs, NODES, WEIGHTS, strict=True):
        k = f(points[-1], now, p)
        end += weight * h * k
        points.append(x + node * h * k)
    before, x_bar, p_bar = ca.SX(n, 1), bar, 0
    for s in (3, 2, 1, 0):
        force = h * (WEIGHTS[s] * bar + NODES[s] * before)
        before, more = pull_back(points[s], inputs[s], p, force)
        x_bar, p_bar = x_bar + before, p_bar + more
    share = {"cse": True}
    step = ca.Function("rk4_step", [x, u, v, p], [end], share)  # "step" is a name of glibc
    return step, ca.Function("rk4_back", [x, u, v, p, bar], [x_bar, p_bar[:q]], share)


def casadi_loop(case: Case, step: Any, back: Any, build: Callable[..., str]) -> Calls:
    sizes = {
        k: getattr(step, f"sz_{k}")() + getattr(back, f"sz_{k}")() + 1
        for k in ("arg", "res", "iw", "w")
    }
    steps, n, r, q, _ = case.sizes
    library = ctypes.CDLL(build([step, back], DRIVER % {**sizes, "n": n, "r": r, "q": q}))
    library.cost.restype = ctypes.c_double
    (one, many), g, whole = case.rooms(), np.empty(q), ctypes.c_long(steps)
    u, p, trial, members, measured, x, xs, gradient = (
        a.ctypes.data_as(ctypes.c_void_p)
        for a in (case.u, case.values, case.trial, case.parameters, case.measured, one, many, g)
    )
    count, few = ctypes.c_long(len(many)), ctypes.c_long(case.few)
    cost = partial(library.cost, whole, u, trial, measured, x)
    return {
        "run": (partial(library.ensemble, 1, whole, u, p, x), lambda _: one[0]),
        "ensemble": (partial(library.ensemble, count, few, u, members, xs), lambda _: many),
        "cost": (partial(cost, None), np.atleast_1d),
        "gradient": (partial(cost, gradient), lambda _: g),
    }


def casadi_mapaccum(ca: Any, case: Case, step: Any, build: Callable[..., str]) -> Calls:
    """Everything by functions and derivatives of CasADi."""
    steps, n, r, q, _ = case.sizes

    def simulator(name: str, steps: int) -> Any:
        x, u, p = ca.MX.sym("x", n), ca.MX.sym("u", 1, steps + 1), ca.MX.sym("p", r)
        loop = step.mapaccum(f"{name}_loop", steps, 1, {"base": BASE})
        states = ca.horzcat(x, loop(x, u[:, :-1], u[:, 1:], ca.repmat(p, 1, steps)))
        return ca.Function(name, [x, u, p], [states])

    one, member = simulator("run", steps), simulator("member", case.few)
    x, u, xm = ca.MX.sym("x", n), ca.MX.sym("u", 1, steps + 1), ca.MX.sym("xm", n, steps + 1)
    guess = ca.MX.sym("guess", q)
    squares = ca.sumsqr(one(x, u, ca.vertcat(guess, case.values[q:])) - xm)
    functions = [
        one,
        member.map("ensemble", "serial", len(case.starts), [1], []),
        ca.Function("cost", [x, u, guess, xm], [squares]),
        ca.Function("gradient", [x, u, guess, xm], [ca.gradient(squares, guess)]),
    ]
    library, inputs, start = build(functions), ca.DM(case.u).T, ca.DM(case.start)
    many = ca.DM(case.starts.T), inputs[:, : case.few + 1], ca.DM(case.parameters.T)
    single = start, inputs, ca.DM(case.trial[:q]), ca.DM(case.measured.T)
    given = ((start, inputs, ca.DM(case.values)), many, single, single)
    shapes = ((steps + 1, n), (len(case.starts), case.few + 1, n), 1, q)
    return {
        f.name(): (
            partial(ca.external(f.name(), library), *arguments),
            lambda y, shape=shape: np.array(y).T.reshape(shape),
        )
        for f, arguments, shape in zip(functions, given, shapes, strict=True)
    }


def casadi_build(ca: Any, path: str, functions: Sequence[Any], more: str = "") -> str:
    path = f"{path}_{functions[0].name()}"
    generator = ca.CodeGenerator(Path(path).name)
    for function in functions:
        generator.add(function)
    Path(f"{path}.c").write_text(generator.dump() + more, encoding="utf-8")
    command = [*find_compiler().command, *FLAGS, "-fPIC", "-shared", f"{path}.c", "-lm"]
    subprocess.run([*command, "-o", f"{path}.so"], check=True)
    return f"{path}.so"


# -- comparison, timing, report -------------------------------------------------------------------


def verify(sides: Mapping[str, Calls]) -> str:
    """Largest relative differences in words; raises `ValueError` if one is too large."""
    worst: dict[str, float] = {}
    for task in sum(TOGETHER, ()):
        results = {
            name: read(call())
            for name, calls in sides.items()
            if task in calls
            for call, read in [calls[task]]
        }
        first, *others = results
        for name in others:
            error = float(np.max(np.abs(results[name] - results[first])))
            error /= float(np.max(np.abs(results[first])))
            worst[task] = max(worst.get(task, 0.0), error)
            if not error <= TOLERANCE:
                raise ValueError(f"{task}: {first} and {name} differ by {error:.1e} of the largest")
    return "same numbers: " + ", ".join(f"{task} {error:.0e}" for task, error in worst.items())


def medians(calls: Mapping[Any, Callable[[], Any]], seconds: float) -> dict[Any, float]:
    """Median time of each [s], in turns, for `seconds` in all but at least 5 turns."""
    samples: dict[Any, list[float]] = {key: [] for key in calls}
    end, turn = time.perf_counter() + seconds, 0
    while (turn := turn + 1) <= 5 or time.perf_counter() < end:
        for key, call in calls.items():
            start = time.perf_counter()
            call()
            samples[key].append(time.perf_counter() - start)
    return {key: median(values) for key, values in samples.items()}


def measure(case: Case, sides: Mapping[str, Calls], seconds: float) -> dict[str, list[float]]:
    """Times [s] by task, in the order of the packages."""
    results: dict[str, list[float]] = {}
    for tasks in TOGETHER:
        calls = {
            (task, package): c[task][0]
            for package, c in sides.items()
            for task in tasks
            if task in c
        }
        found = medians(calls, seconds * len(tasks))
        for task in tasks:
            results[task] = [found.get((task, package), float("nan")) for package in PACKAGES]
        if SUBSTEPS in tasks:  # 4 more steps per interval
            loop = (results.pop(SUBSTEPS)[0] - results["run"][0]) / 4.0
            results["run, loop only"] = [loop, *results["run"][1:]]
    return results


def report(
    results: Sequence[tuple[Case, Mapping[str, Sequence[float]]]],
) -> list[str | Table]:
    header = ["model", "task", "steps", "kinesym [10⁶ steps/s]"]
    header += [word for peer in PACKAGES[1:] for word in (peer, "ratio")]
    rates, gradients = [], []
    for case, times in results:
        for task, (ours, *others) in times.items():
            steps = case.steps(task)
            line = [case.model.name, task, f"{steps}", number(1e-6 * steps / ours)]
            for theirs in others:
                line += [number(1e-6 * steps / theirs), ratio(theirs / ours, 1.0)]
            rates.append(line)
        pairs = zip(times["gradient"], times["cost"], strict=True)
        gradients.append([case.model.name, f"{case.unknown}", *(number(g / c) for g, c in pairs)])
    return [
        table(header, rates),
        "Time of the gradient over time of the cost:",
        table(["model", "unknown", *PACKAGES], gradients),
    ]


def numbers(
    results: Sequence[tuple[Case, Mapping[str, Sequence[float]]]],
) -> Iterator[dict[str, Any]]:
    """Lines of the raw numbers."""
    for case, times in results:
        for task, seconds in times.items():
            for package, value in zip(PACKAGES, seconds, strict=True):
                yield {
                    "model": case.model.name,
                    "task": task,
                    "steps": case.steps(task),
                    "package": package,
                    "seconds": value,
                }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--seconds", type=float, default=5.0, help="per task (default: 5)")
    given = parsed(parser)
    os.environ["OMP_NUM_THREADS"] = "1"
    words = machine("casadi", "numba", "diffrax", "jax")
    print(words)
    results = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ[CACHE_VARIABLE] = folder
        for name in given.models:
            case = make_case(name, given.quick)
            sides = {"kinesym": kinesym_calls(case), **casadi_sides(case, folder)}
            sides |= {"numba": numba_calls(case), "diffrax": diffrax_calls(case)}
            print(f"{name}: {verify(sides)}")
            results.append((case, measure(case, sides, 0.0 if given.quick else given.seconds)))
    absent = ", ".join(name for name in PACKAGES if not sides.get(name))
    parts = [f"Left out, as not installed: {absent}."] * bool(absent) + report(results)
    leave(given, "stepping", words, parts, list(numbers(results)))


if __name__ == "__main__":
    main()
