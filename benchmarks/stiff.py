"""Which accuracy of a stiff simulation costs how much time, against SciPy, SUNDIALS and
diffrax?

Problems of the Test Set for IVP Solvers (Mazzia, Magherini 2008) and three of mechanics, at
tolerances 10^-2 to 10^-10: error of the final state, relative to the largest of each state on the
way, and the least CPU time of a call, in turns. What is compared is the time at equal error,
between these points. All peers get x' and its Jacobian as compiled C, by CasADi; SciPy and
scikit-sundae call it from Python. `ensemble` is the time per member of 256 with other starts, on
one thread.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from record import Table, table
from report import leave, machine, number, parsed, ratio
from scipy.integrate import solve_ivp
from stepping import chain_form

import kinesym as ks
from kinesym.runtime.library.build import find_compiler

Array = NDArray[np.float64]
Solver = Callable[[float], Array]  # final state at a tolerance
OURS, TOGETHER = "kinesym", "kinesym, ensemble"
PEERS = (
    *("SciPy Radau", "SciPy BDF", "SciPy LSODA", "CasADi CVODES", "CasADi IDAS"),
    *("scikit-sundae CVODE", "scikit-sundae IDA", "diffrax Kvaerno5"),
)
TOLERANCES = 10.0 ** -np.arange(2.0, 11.0)
ERRORS = (1e-4, 1e-6, 1e-8)
MEMBERS = 256
LONG = 0.03  # [s]
STEPS = 10**5  # of diffrax, which has no other end where it cannot go on
LEAST = 1e-4  # atol over rtol, times the size of the state
FUNCTIONS = ("sin", "cos", "exp", "sqrt")  # in these models
t = ks.t


@dataclass(frozen=True)
class Problem:
    """A model with values, start (n,) and duration; typical : (n,), sizes of the states."""

    model: ks.Model
    start: Array
    duration: float
    typical: Array

    @property
    def time(self) -> Array:
        return np.array([0.0, self.duration])


# -- problems -------------------------------------------------------------------------------------


def chemistry(name: str, rates: Callable[..., list[Any]], start: list[float], end: float) -> Any:
    states = ks.dynamicsymbols([f"y{k + 1}" for k in range(len(start))])
    equations = [s.diff(t) - rate for s, rate in zip(states, rates(*states), strict=True)]
    return ks.Model(name, states, [], [], equations), start, end


def robertson(a: Any, b: Any, c: Any) -> list[Any]:
    slow, fast = sp.Float(0.04) * a - 1e4 * b * c, 3e7 * b**2
    return [-slow, slow - fast, fast]


def van_der_pol(x: Any, v: Any) -> list[Any]:
    return [v, ((1 - x**2) * v - x) * 1e6]


def hires(*y: Any) -> list[Any]:
    a, b, c, d, e, f, g, h = y
    return [
        -1.71 * a + 0.43 * b + 8.32 * c + 0.0007,
        1.71 * a - 8.75 * b,
        -10.03 * c + 0.43 * d + 0.035 * e,
        8.32 * b + 1.71 * c - 1.12 * d,
        -1.745 * e + 0.43 * f + 0.43 * g,
        -280 * f * h + 0.69 * d + 1.71 * e - 0.43 * f + 0.69 * g,
        280 * f * h - 1.81 * g,
        -280 * f * h + 1.81 * g,
    ]


def orego(a: Any, b: Any, c: Any) -> list[Any]:
    first = 77.27 * (b + a * (1 - 8.375e-6 * a - b))
    return [first, (c - (1 + a) * b) / 77.27, sp.Float(0.161) * (a - c)]


#: Reactions of the air pollution problem: constant, what reacts (numbers from 1).
REACTIONS = (
    *((0.35, (1,)), (26.6, (2, 4)), (12.3e3, (5, 2)), (8.6e-4, (7,)), (8.2e-4, (7,))),
    *((15e3, (7, 6)), (1.3e-4, (9,)), (24e3, (9, 6)), (16.5e3, (11, 2)), (9e3, (11, 1))),
    *((0.022, (13,)), (12e3, (10, 2)), (1.88, (14,)), (16.3e3, (1, 6)), (4.8e6, (3,))),
    *((3.5e-4, (4,)), (1.75e-2, (4,)), (1e8, (16,)), (4.44e11, (16,)), (1240.0, (17, 6))),
    *((2.1, (19,)), (5.78, (19,)), (4.74e-2, (1, 4)), (1780.0, (19, 1)), (3.12, (20,))),
)


def pollution(*y: Any) -> list[Any]:
    rates = [c * sp.Mul(*(y[j - 1] for j in spent)) for c, spent in REACTIONS]
    r = dict(enumerate(rates, start=1))
    made = r[2] + r[3] + r[9] + r[11] + r[12] + r[22] + r[25]
    return [
        made - (r[1] + r[10] + r[14] + r[23] + r[24]),
        -(r[2] + r[3] + r[9] + r[12]) + r[1] + r[21],
        -r[15] + r[1] + r[17] + r[19] + r[22],
        -(r[2] + r[16] + r[17] + r[23]) + r[15],
        -r[3] + 2 * r[4] + r[6] + r[7] + r[13] + r[20],
        -(r[6] + r[8] + r[14] + r[20]) + r[3] + 2 * r[18],
        -(r[4] + r[5] + r[6]) + r[13],
        r[4] + r[5] + r[6] + r[7],
        -(r[7] + r[8]),
        -r[12] + r[7] + r[9],
        -(r[9] + r[10]) + r[8] + r[11],
        r[9],
        -r[11] + r[10],
        -r[13] + r[12],
        r[14],
        -(r[18] + r[19]) + r[16],
        -r[20],
        r[20],
        -(r[21] + r[22] + r[24]) + r[23] + r[25],
        -r[25] + r[24],
    ]


def polluted() -> list[float]:
    start = np.zeros(20)
    start[[1, 3, 6, 7, 8, 16]] = 0.2, 0.04, 0.1, 0.3, 0.01, 0.007
    return start.tolist()


def plant() -> Any:
    model = ks.models.standing()
    return model, [0.05, -0.02, 0.0, 0.0], 10.0


def links() -> Any:
    model = ks.models.n_link_pendulum_on_cart(10)
    start = np.zeros(22)
    start[1:11] = np.pi + 0.2 * np.sin(np.arange(10))  # hangs
    return model, start.tolist(), 2.0


def foot() -> Any:
    """A foot of 1.2 kg that falls on its toe, slides and bounces: springs of 10^6 N/m with damping
    and friction, both smooth."""
    states = ks.dynamicsymbols("x z turn vx vz w")
    _, z, turn, vx, vz, w = states
    force, moment = sp.Matrix([0, sp.Float(-1.2 * 9.81)]), sp.Integer(0)
    for along, up in ((-0.05, -0.07), (0.2, -0.07)):
        arm = sp.rot_axis3(-turn)[:2, :2] * sp.Matrix([along, up])
        speed = sp.Matrix([vx - w * arm[1], vz + w * arm[0]])
        depth = (sp.sqrt((z + arm[1]) ** 2 + 1e-8) - z - arm[1]) / 2
        normal = 1e6 * depth * (1 - speed[1])
        push = sp.Matrix([-0.7 * normal * speed[0] / sp.sqrt(speed[0] ** 2 + 1e-4), normal])
        force, moment = force + push, moment + arm[0] * push[1] - arm[1] * push[0]
    rates = [vx, vz, w, force[0] / 1.2, force[1] / 1.2, moment / 0.005]
    equations = [s.diff(t) - rate for s, rate in zip(states, rates, strict=True)]
    return ks.Model("foot", states, [], [], equations), [0.0, 0.13, -0.3, 0.3, 0.0, 0.0], 0.4


PROBLEMS: dict[str, Callable[[], Any]] = {
    "robertson": lambda: chemistry("robertson", robertson, [1.0, 0.0, 0.0], 1e5),
    "van der pol": lambda: chemistry("vdpol", van_der_pol, [2.0, 0.0], 2.0),
    "hires": lambda: chemistry("hires", hires, [1.0, *[0.0] * 6, 0.0057], 321.8122),
    "orego": lambda: chemistry("orego", orego, [1.0, 2.0, 3.0], 360.0),
    "pollution": lambda: chemistry("pollution", pollution, polluted(), 60.0),
    "standing": plant,
    "10 links": links,
    "foot": foot,
}


def make_problem(name: str) -> tuple[Problem, Array]:
    """A problem and its end, by the tightest tolerance."""
    model, start, duration = PROBLEMS[name]()
    grid = np.append(0.0, np.geomspace(1e-6, 1.0, 100)) * duration
    run = simulated(model, np.array(start), grid, 1e-12, np.full(len(start), 1e-8))
    rows = np.array([run[x] for x in model.state_names])
    typical = np.maximum(np.abs(rows).max(axis=1), 1e-12)
    end = simulated(model, np.array(start), np.array([0.0, duration]), 1e-13, typical)
    return Problem(model, np.array(start), duration, typical), final(model, end)


# -- ours -----------------------------------------------------------------------------------------


def absolute(typical: Array, tolerance: float) -> float:
    """One number for all states: for the smallest of them."""
    return float(LEAST * tolerance * typical.min())


def simulated(model: Any, start: Array, time: Array, tolerance: float, typical: Array) -> Any:
    inputs = dict.fromkeys(model.input_names, 0.0)
    atol = absolute(typical, tolerance)
    columns = dict(zip(model.state_names, start, strict=True))
    options = {"method": "radau-5", "rtol": tolerance, "atol": atol, "threads": 1}
    return ks.simulate(model, time, columns, None, inputs, **options)


def final(model: Any, run: Any) -> Array:
    return np.array([run[x][..., -1] for x in model.state_names])


def our_solvers(problem: Problem) -> dict[str, Solver]:
    shares = 1.0 + 1e-3 * np.random.default_rng(1).standard_normal((len(problem.start), MEMBERS))
    shares[:, 0] = 1.0

    def run(starts: Array, tolerance: float) -> Array:
        found = simulated(problem.model, starts, problem.time, tolerance, problem.typical)
        return final(problem.model, found)

    return {
        OURS: lambda tolerance: run(problem.start, tolerance),
        TOGETHER: lambda tolerance: run(problem.start[:, None] * shares, tolerance)[:, 0],
    }


# -- peers ----------------------------------------------------------------------------------------


def residual_of(model: Any, words: Mapping[str, Any], x: list[Any], v: list[Any]) -> list[Any]:
    """The equations with numbers of another library for states and their rates; words : its
    functions."""
    known = dict(zip(model.derivatives, v, strict=True))
    known |= dict(zip(model.states, x, strict=True)) | dict.fromkeys(model.inputs, 0.0)
    known |= {p: model.values[str(p)] for p in model.parameters}

    def value(e: Any) -> Any:
        names = sorted(e.atoms(sp.Symbol, sp.Derivative, sp.core.function.AppliedUndef), key=str)
        names = [name for name in names if name in known]
        return sp.lambdify(names, e, modules=[words])(*(known[name] for name in names))

    for symbol, e in model.intermediates:
        known[symbol] = value(e)
    return [value(e) for e in model.equations]


def rates_of(ca: Any, model: Any) -> tuple[Any, Any]:
    """x and x' as SX expressions: the mass matrix solved, of ten links by their closed form."""
    x = ca.SX.sym("x", len(model.states))
    if model.name == "n_link_10":
        values = [model.values[name] for name in model.parameter_names]
        out, work = np.full(22, ca.SX(0)), np.full((22, 22), ca.SX(0))
        chain_form(10, ca.sin, ca.cos, lambda f: f)(ca.vertsplit(x), ca.SX(0), values, out, work)
        return x, ca.vertcat(*out)
    v, words = ca.SX.sym("v", len(model.states)), {k: getattr(ca, k) for k in FUNCTIONS}
    residual = residual_of(model, words, ca.vertsplit(x), ca.vertsplit(v))
    residual = ca.vertcat(*map(ca.SX, residual))
    mass = ca.jacobian(residual, v)
    rest = ca.substitute(residual, v, ca.SX.zeros(*v.shape))
    return x, ca.solve(mass, -rest)


def compiled(ca: Any, x: Any, rates: Any, folder: str) -> tuple[Callable[[Array], Array], Any]:
    """x' and its Jacobian as functions of arrays."""
    names = ("rates", "slopes")
    values = (rates, ca.densify(ca.jacobian(rates, x)))
    generator = ca.CodeGenerator("peers.c")
    for name, value in zip(names, values, strict=True):
        generator.add(ca.Function(name, [x], [ca.densify(value)], {"cse": True}))
    path = generator.generate(folder + "/")
    library = str(Path(path).with_suffix(".so"))
    words = [*find_compiler().command, "-O3", "-march=native", "-fPIC", "-shared", path]
    subprocess.run([*words, "-lm", "-o", library], check=True)
    found = []
    for name, value in zip(names, values, strict=True):
        buffer, call = ca.external(name, library).buffer()
        place, out = np.zeros(x.shape[0]), np.zeros(value.shape, order="F")
        buffer.set_arg(0, memoryview(place))
        buffer.set_res(0, memoryview(out.reshape(-1, order="F")))

        def function(y: Array, place: Array = place, out: Array = out, call: Any = call) -> Array:
            place[:] = y
            call()
            return out if out.shape[1] > 1 else out[:, 0]

        function.buffer = buffer  # kept alive
        found.append(function)
    return found[0], found[1]


def peer_solvers(problem: Problem, folder: str) -> dict[str, Solver]:
    try:
        import casadi as ca
    except ImportError:
        return {}
    x, rates = rates_of(ca, problem.model)
    f, jacobian = compiled(ca, x, rates, folder)
    found: dict[str, Solver] = {}

    def scipy_solver(method: str) -> Solver:
        def solve(tolerance: float) -> Array:
            atol = absolute(problem.typical, tolerance)
            found = solve_ivp(
                lambda _, y: f(y).copy(),
                problem.time,
                problem.start,
                method,
                rtol=tolerance,
                atol=atol,
                jac=lambda _, y: jacobian(y).copy(),
            )
            return found.y[:, -1] if found.success else np.full(len(problem.start), np.nan)

        return solve

    for method in ("Radau", "BDF", "LSODA"):
        found[f"SciPy {method}"] = scipy_solver(method)

    def casadi_solver(plugin: str, tolerance: float) -> Array:
        options = {"reltol": tolerance, "abstol": absolute(problem.typical, tolerance)}
        key = (tolerance, plugin)
        if key not in kept:
            more = {"max_num_steps": 10**7, "jit": True, "compiler": "shell"}
            more["jit_options"] = {"flags": ["-O3", "-march=native"]}
            system = {"x": x, "ode": rates}
            here = os.getcwd()
            os.chdir(folder)  # CasADi leaves its C where the process is
            try:
                kept[key] = ca.integrator(
                    "I", plugin, system, 0.0, problem.duration, options | more
                )
            finally:
                os.chdir(here)
        return np.array(kept[key](x0=problem.start)["xf"])[:, 0]

    kept: dict[Any, Any] = {}
    found["CasADi CVODES"] = partial(casadi_solver, "cvodes")
    found["CasADi IDAS"] = partial(casadi_solver, "idas")
    found |= sundae_solvers(problem, f, jacobian)
    return found


def sundae_solvers(problem: Problem, f: Any, jacobian: Any) -> dict[str, Solver]:
    try:
        from sksundae.cvode import CVODE
        from sksundae.ida import IDA
    except ImportError:
        return {}

    def rates(_: float, y: Array, out: Array) -> None:
        out[:] = f(y)

    def slopes(_: float, y: Array, __: Array, out: Array) -> None:
        out[:] = jacobian(y)

    def residual(_: float, y: Array, v: Array, out: Array) -> None:
        out[:] = v - f(y)

    def matrix(_: float, y: Array, __: Array, ___: Array, scale: float, out: Array) -> None:
        out[:] = scale * identity - jacobian(y)

    identity = np.eye(len(problem.start))
    begin = np.array(f(problem.start))

    def solve(kind: Any, function: Any, derivative: Any, tolerance: float, *rate: Array) -> Array:
        atol = absolute(problem.typical, tolerance)
        options = {"rtol": tolerance, "atol": atol, "max_num_steps": 10**7}
        solver = kind(function, jacfn=derivative, **options)
        return np.array(solver.solve(problem.time, problem.start, *rate).y[-1])

    return {
        "scikit-sundae CVODE": lambda tolerance: solve(CVODE, rates, slopes, tolerance),
        "scikit-sundae IDA": lambda tolerance: solve(IDA, residual, matrix, tolerance, begin),
    }


def diffrax_solvers(problem: Problem) -> dict[str, Solver]:
    """By its method of order 5; its linear algebra and Jacobians are those of JAX."""
    from peers.by_diffrax import packages

    try:
        jax, jnp, diffrax = packages()
    except ImportError:
        return {}
    model, n = problem.model, len(problem.start)
    words = {k: getattr(jnp, k) for k in FUNCTIONS}
    zero = jnp.zeros(n)

    def rates(_: Any, x: Any, __: Any) -> Any:
        residual = lambda v: jnp.stack(residual_of(model, words, list(x), list(v)))  # noqa: E731
        return jnp.linalg.solve(jax.jacfwd(residual)(zero), -residual(zero))

    @jax.jit
    def run(rtol: float, atol: float) -> Any:
        found = diffrax.diffeqsolve(
            diffrax.ODETerm(rates),
            diffrax.Kvaerno5(),
            0.0,
            problem.duration,
            None,
            jnp.array(problem.start),
            stepsize_controller=diffrax.PIDController(rtol=rtol, atol=atol),
            max_steps=STEPS,
            throw=False,
        )
        return jnp.where(found.result == diffrax.RESULTS.successful, found.ys[-1], jnp.nan)

    return {
        "diffrax Kvaerno5": lambda tolerance: np.array(
            run(tolerance, absolute(problem.typical, tolerance))
        )
    }


# -- times and errors ---------------------------------------------------------------------------


def called(solve: Solver, tolerance: float, states: int) -> tuple[Array, float]:
    """The final state, NaN if there is none, and the least time of calls [s] that take `LONG`
    together."""
    begin, least = process_time(), np.inf
    while process_time() - begin < LONG:
        now = process_time()
        try:
            found = solve(tolerance)
        except RuntimeError:  # SUNDIALS found no way to the end at this tolerance
            found = np.full(states, np.nan)
        least = min(least, process_time() - now)
    return found, least


def measured(
    problem: Problem, end: Array, solvers: Mapping[str, Solver], turns: int
) -> dict[str, list[tuple[float, float, float]]]:
    """(tolerance, error, time of a member [s]) of each solver: the least of its calls."""
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in solvers}
    for tolerance in TOLERANCES:
        times: dict[str, list[float]] = {name: [] for name in solvers}
        errors: dict[str, float] = {}
        for turn in range(turns + 1):
            for name, solve in solvers.items():
                last, seconds = called(solve, float(tolerance), len(end))
                errors[name] = float(np.max(np.abs(last - end) / problem.typical))
                if turn or turns == 0:
                    times[name].append(seconds / (MEMBERS if name == TOGETHER else 1))
        for name in solvers:
            found[name].append((float(tolerance), errors[name], min(times[name])))
    return found


def time_at(lines: list[tuple[float, float, float]], error: float) -> float:
    """The time at an error, between two of the measured ones; NaN outside of them."""
    best: list[tuple[float, float]] = []
    for _, e, seconds in sorted(lines, key=lambda line: line[2]):
        if np.isfinite(e) and (not best or e < best[-1][0]):  # else more time for nothing
            best.append((max(e, 1e-16), seconds))
    if not best:
        return float("nan")
    errors, seconds = (np.log(np.array(row)) for row in zip(*best, strict=True))
    if not errors[-1] <= np.log(error) <= errors[0]:
        return float(np.exp(seconds[0])) if np.log(error) > errors[0] else float("nan")
    return float(np.exp(np.interp(-np.log(error), -errors, seconds)))


def report(results: Mapping[str, Mapping[str, list[Any]]]) -> list[str | Table]:
    peers = [name for name in (TOGETHER, *PEERS) if any(name in r for r in results.values())]
    header = ["problem", "error", f"{OURS} [ms]", *(f"{name}, ratio" for name in peers)]
    lines = []
    for problem, found in results.items():
        for error in ERRORS:
            ours = time_at(found[OURS], error)
            theirs = [time_at(found[name], error) if name in found else np.nan for name in peers]
            known = np.isfinite(ours)
            cells = [ratio(seconds, ours) if known else "-" for seconds in theirs]
            lines.append([problem, f"{error:.0e}", number(1e3 * ours), *cells])
    return [table(header, lines)]


def draw(path: Path, results: Mapping[str, Mapping[str, list[Any]]]) -> None:
    """Time of a call over the error of the end, one panel per problem."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = [n for n in (OURS, *PEERS) if any(n in found for found in results.values())]
    rows = -(-len(results) // 4)
    size = {"figsize": (13.0, 0.6 + 3.2 * rows), "sharey": True, "layout": "constrained"}
    fig, axes = plt.subplots(rows, min(4, len(results)), squeeze=False, **size)
    for axis, (problem, found) in zip(axes.flat, results.items(), strict=False):
        for k, name in enumerate(names):
            points = [(e, 1e3 * s) for _, e, s in found.get(name, []) if 1e-13 < e < 1.0]
            style = {"color": f"C{k}", "marker": "osv^<>DxP"[k], "ms": 4}
            lines = zip(*points, strict=True) if points else ([], [])
            axis.loglog(*lines, label=name, lw=2.5 if k == 0 else 1.0, **style)
        axis.set(title=problem, xlim=(1.0, 1e-11))
        axis.grid(True, alpha=0.3)
    for axis in list(axes.flat)[len(results) :]:
        axis.remove()
    fig.supxlabel("relative error of the end")
    fig.supylabel("CPU time of a call [ms]")
    handles, labels = axes[0][0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside right center", fontsize="small")
    fig.savefig(path, dpi=120)
    plt.close(fig)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--turns", type=int, default=5, help="of each solver (default: 5)")
    given = parsed(parser)
    os.environ["OMP_NUM_THREADS"] = "1"
    warnings.simplefilter("ignore")
    words = machine("scipy", "casadi", "scikit-sundae", "diffrax", "jax")
    print(words)
    results = {}
    for name in given.problems:
        problem, end = make_problem(name)
        with tempfile.TemporaryDirectory() as folder:
            solvers = our_solvers(problem) | peer_solvers(problem, folder)
            solvers |= diffrax_solvers(problem)
            results[name] = measured(problem, end, solvers, 0 if given.quick else given.turns)
            solvers.clear()  # before their files go
        for solver, lines in results[name].items():
            shown = ", ".join(f"{e:.0e} {1e3 * s:.3g}" for _, e, s in lines)
            print(f"{name}, {solver}: {shown}", flush=True)
    header = ("tolerance", "error", "seconds")
    lines = [
        {"problem": problem, "solver": solver, **dict(zip(header, line, strict=True))}
        for problem, found in results.items()
        for solver, every in found.items()
        for line in every
    ]
    for path in leave(given, "stiff", words, report(results), lines):
        draw(path, results)


if __name__ == "__main__":
    main()
