"""Problems of optimal control in the words of rockit, dymos and pycollo."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import sympy as sp
from numpy.typing import NDArray
from published import Published

import kinesym as ks
from kinesym.symbolic.names import name_of
from peers.programs import flat_equations

Array = NDArray[np.float64]
T = sp.Symbol("duration")


class Found(NamedTuple):
    """What a package says: seconds of CPU time, iterations (-1: not said), objective, failure."""

    cpu: float
    iterations: int
    objective: float
    failure: str = ""


@dataclass(frozen=True)
class Stated:
    """A problem in SymPy: least `terminal` (of states at the end and `T`) plus integral.

    rates : x' of each state. start, end, bounds, guess : by name; guesses (N,) or a number.
    duration : a number, or bounds.
    """

    states: list[sp.Symbol]
    inputs: list[sp.Symbol]
    rates: list[sp.Expr]
    start: dict[str, float]
    end: dict[str, float]
    bounds: dict[str, tuple[float, float]]
    duration: float | tuple[float, float]
    guess: dict[str, Any]
    integrand: sp.Expr
    terminal: sp.Expr
    intervals: int

    @property
    def names(self) -> list[str]:
        """Of states and inputs."""
        return [s.name for s in (*self.states, *self.inputs)]

    @property
    def length(self) -> float:
        """The duration, or its guess."""
        free = isinstance(self.duration, tuple)
        return float(self.guess["duration"]) if free else float(self.duration)  # type: ignore[arg-type]

    def function(self, expressions: Sequence[sp.Expr], modules: Any) -> Callable[..., Any]:
        """Of states and inputs, one after the other."""
        return sp.lambdify([*self.states, *self.inputs], expressions, modules, cse=True)

    def first(self, name: str) -> Array:
        """The guess at the nodes."""
        return np.broadcast_to(np.asarray(self.guess.get(name, 0.0), float), self.intervals + 1)

    def limits(self, name: str) -> tuple[float, float]:
        """Bounds of a state or an input; infinite without any."""
        return self.bounds.get(name, (-np.inf, np.inf))


def stated(made: Published) -> Stated:
    """A problem with explicit rates, conditions `x = value` at its ends, and a uniform grid."""
    (model, trial), given = made.posed.args, made.posed.keywords  # type: ignore[attr-defined]
    plain = {s: sp.Symbol(name_of(s)) for s in (*model.states, *model.inputs)}
    ends: tuple[dict[str, float], dict[str, float]] = {}, {}
    for condition in given["boundary"]:
        (point,) = condition.atoms(ks.at_start, ks.at_end)
        ends[isinstance(point, ks.at_end)][name_of(point.args[0])] = float(point - condition)
    limits = {**given.get("bounds", {}), **given["unknown_inputs"]}
    still = {x.diff(ks.t): 0 for x in model.states}
    cost = given["objective"]
    return Stated(
        [plain[x] for x in model.states],
        [plain[u] for u in model.inputs],
        [-e.xreplace(still).xreplace(plain) for e in flat_equations(model)],
        *ends,
        {name_of(s): _pair(pair) for s, pair in limits.items()},
        trial.duration or float(trial.grid[-1] - trial.grid[0]),
        {k if isinstance(k, str) else name_of(k): v for k, v in made.guess.items()},
        cost.integrand.xreplace(plain),
        cost.terminal.xreplace({**plain, ks.t: T}),
        trial.n_nodes - 1,
    )


def _pair(pair: Any) -> tuple[float, float]:
    low, high = pair or (None, None)
    return -np.inf if low is None else float(low), np.inf if high is None else float(high)


# -- rockit ---------------------------------------------------------------------------------------


def rockit(about: Stated, settings: Mapping[str, Any]) -> Callable[[], Found]:
    """Radau points of degree 3. Inputs are algebraic variables, with a value at each point:
    rockit's own `control`, held over an interval, is of order 2."""
    import casadi as ca
    from rockit import DirectCollocation, FreeTime, Ocp

    free = isinstance(about.duration, tuple)
    ocp = Ocp(T=FreeTime(about.length) if free else about.length)
    x, u = [ocp.state() for _ in about.states], [ocp.algebraic() for _ in about.inputs]
    rates = about.function([*about.rates, about.integrand], ca)(*x, *u)
    for state, rate in zip(x, rates[:-1], strict=True):
        ocp.set_der(state, rate)
    variables = dict(zip(about.names, (*x, *u), strict=True))
    for name, value in about.start.items():
        ocp.subject_to(ocp.at_t0(variables[name]) == value)
    for name, value in about.end.items():
        ocp.subject_to(ocp.at_tf(variables[name]) == value)
    for name, (low, high) in about.bounds.items():
        where = {"grid": "integrator_roots"} if name not in map(str, about.states) else {}
        if np.isfinite(low) and np.isfinite(high):
            ocp.subject_to(low <= (variables[name] <= high), **where)
        elif np.isfinite([low, high]).any():
            bounded = variables[name] >= low if np.isfinite(low) else variables[name] <= high
            ocp.subject_to(bounded, **where)
    if free:
        low, high = about.duration  # type: ignore[misc]
        ocp.subject_to(low <= (ocp.T <= high))  # noqa: SIM300
    if about.integrand != 0:
        ocp.add_objective(ocp.integral(rates[-1]))
    if about.terminal != 0:
        end = sp.lambdify([*about.states, T], about.terminal, ca)
        ocp.add_objective(end(*map(ocp.at_tf, x), ocp.T))
    for name, variable in variables.items():
        ocp.set_initial(variable, _polynomial(about.first(name), ocp.t / about.length))
    ocp.method(DirectCollocation(N=about.intervals, M=1, degree=3, scheme="radau"))
    options = {f"ipopt.{k}": v for k, v in settings.items()}
    quiet = {"print_time": False, "ipopt.print_level": 0, "ipopt.sb": "yes"}
    ocp.solver("ipopt", {**options, **quiet, "expand": True})
    ocp._transcribe()

    def solve() -> Found:
        clock = time.process_time()
        try:
            found = ocp.solve()
        except RuntimeError as error:  # says that it has not converged
            return Found(time.process_time() - clock, -1, np.nan, str(error)[-80:])
        cpu = time.process_time() - clock
        return Found(cpu, int(found.stats["iter_count"]), float(found.value(ocp.objective)))

    return solve


def _polynomial(row: Array, place: Any) -> Any:
    """A guess in closed form: rows of values fail in rockit 0.6.7."""
    degree = min(6, len(row) - 1)
    coefficients = np.polyfit(np.linspace(0.0, 1.0, len(row)), row, degree)
    return sum(c * place ** (degree - k) for k, c in enumerate(coefficients))


# -- dymos ----------------------------------------------------------------------------------------


def _component(about: Stated) -> Any:
    """x' and the integrand with exact derivatives, for all points at once."""
    import openmdao.api as om

    outputs = {f"{x}_rate": e for x, e in zip(about.states, about.rates, strict=True)}
    outputs["integrand"] = about.integrand
    value = about.function([*outputs.values()], "numpy")
    every = [*about.states, *about.inputs]
    pairs = [(o, s) for o, e in outputs.items() for s in every if e.has(s)]
    slope = about.function([outputs[o].diff(s) for o, s in pairs], "numpy")

    class Rates(om.ExplicitComponent):  # type: ignore[misc]
        def initialize(self) -> None:
            self.options.declare("num_nodes", types=int)

        def setup(self) -> None:
            n = self.options["num_nodes"]
            for name in about.names:
                self.add_input(name, np.ones(n))
            for name in outputs:
                self.add_output(name, np.zeros(n))
            for output, symbol in pairs:
                self.declare_partials(output, symbol.name, rows=np.arange(n), cols=np.arange(n))

        def compute(self, inputs: Any, outs: Any) -> None:
            found = value(*(inputs[name] for name in about.names))
            for name, row in zip(outputs, found, strict=True):
                outs[name] = row

        def compute_partials(self, inputs: Any, partials: Any) -> None:
            found = slope(*(inputs[name] for name in about.names))
            for (output, symbol), row in zip(pairs, found, strict=True):
                partials[output, symbol.name] = row

    return Rates


def _finite(pair: tuple[float, float]) -> dict[str, float]:
    """Of bounds, those that are."""
    named = zip(("lower", "upper"), pair, strict=True)
    return {what: value for what, value in named if np.isfinite(value)}


def dymos(about: Stated, settings: Mapping[str, Any]) -> Callable[[], Found]:
    """Radau transcription of order 3, with SLSQP of SciPy: IPOPT needs pyoptsparse."""
    import dymos as dm
    import openmdao.api as om

    problem = om.Problem(reports=False)
    driver = om.ScipyOptimizeDriver(optimizer="SLSQP", tol=settings["tol"], maxiter=1000)
    problem.driver, driver.options["disp"] = driver, False
    driver.declare_coloring(show_summary=False)
    trajectory = problem.model.add_subsystem("motion", dm.Trajectory())
    grid = dm.Radau(num_segments=about.intervals, order=3, compressed=True)
    phase = trajectory.add_phase("phase", dm.Phase(ode_class=_component(about), transcription=grid))
    free = isinstance(about.duration, tuple)
    limits = {"duration_bounds": about.duration} if free else {"fix_duration": True}
    phase.set_time_options(fix_initial=True, **limits)
    for x in about.states:
        fixed = {"fix_initial": x.name in about.start, "fix_final": x.name in about.end}
        used = any(e.has(x) for e in (*about.rates, about.integrand))
        targets = {"targets": [x.name]} if used else {}
        bounds = _finite(about.limits(x.name))
        phase.add_state(x.name, rate_source=f"{x}_rate", **fixed, **targets, **bounds)
    for u in about.inputs:
        smooth = {"continuity": False, "rate_continuity": False}
        phase.add_control(u.name, targets=[u.name], **smooth, **_finite(about.limits(u.name)))
    what, sign = _objective(about, phase)
    problem.setup()
    place = np.linspace(0.0, about.length, about.intervals + 1)

    def begin() -> None:
        phase.set_time_val(0.0, about.length)
        for x in about.states:
            phase.set_state_val(x.name, about.first(x.name), time_vals=place)
        if about.integrand != 0:
            phase.set_state_val("effort", [0.0, 1.0])
        for u in about.inputs:
            phase.set_control_val(u.name, about.first(u.name), time_vals=place)

    def solve() -> Found:
        begin()
        clock = time.process_time()
        result = problem.run_driver()
        cpu = time.process_time() - clock
        value = sign * float(problem.get_val(f"motion.phase.timeseries.{what}")[-1, 0])
        failure = "" if result.success else str(result.exit_status)
        return Found(cpu, driver.iter_count, value, failure)

    return solve


def _objective(about: Stated, phase: Any) -> tuple[str, float]:
    """Adds it, an integral as a state; its name in the time series, and its sign."""
    if about.integrand != 0:
        phase.add_state("effort", rate_source="integrand", fix_initial=True)
        phase.add_objective("effort", loc="final")
        return "effort", 1.0
    sign = -1.0 if about.terminal.could_extract_minus_sign() else 1.0
    name = "time" if about.terminal == T else str(sign * about.terminal).removeprefix("1.0*")
    phase.add_objective(name, loc="final", scaler=sign)
    return name, sign


# -- pycollo --------------------------------------------------------------------------------------


def pycollo(about: Stated, settings: Mapping[str, Any]) -> Callable[[], Found]:
    """Lobatto quadrature with four points (its Radau quadrature gets integrals wrong), one mesh;
    through its CasADi and IPOPT."""
    import pycollo as pc

    problem = pc.OptimalControlProblem(name="problem")
    phase = problem.new_phase(name="A")
    phase.state_variables, phase.control_variables = about.states, about.inputs
    phase.state_equations = dict(zip(about.states, about.rates, strict=True))
    if about.integrand != 0:
        phase.integrand_functions = [about.integrand]
        problem.objective_function = phase.integral_variables[0]
        phase.bounds.integral_variables = [[-1e3, 1e3]]
        phase.guess.integral_variables = np.array([1.0])
    else:
        final = dict(zip(about.states, phase.final_state_variables, strict=True))
        final[T] = phase.final_time_variable
        problem.objective_function = about.terminal.xreplace(final)
    free, length = isinstance(about.duration, tuple), about.length
    phase.bounds.initial_time = 0.0
    phase.bounds.final_time = list(about.duration) if free else length  # type: ignore[arg-type]
    phase.bounds.state_variables = {x: _boxed(about, x.name) for x in about.states}
    phase.bounds.control_variables = {u: _boxed(about, u.name) for u in about.inputs}
    symbols = {x.name: x for x in about.states}
    phase.bounds.initial_state_constraints = {symbols[x]: v for x, v in about.start.items()}
    phase.bounds.final_state_constraints = {symbols[x]: v for x, v in about.end.items()}
    phase.guess.time = np.linspace(0.0, length, about.intervals + 1)
    phase.guess.state_variables = np.array([about.first(x.name) for x in about.states])
    phase.guess.control_variables = np.array([about.first(u.name) for u in about.inputs])
    phase.mesh.number_mesh_sections = about.intervals
    phase.mesh.number_mesh_section_nodes = 4
    problem.settings.quadrature_method = "lobatto"
    problem.settings.max_mesh_iterations = 1
    problem.settings.nlp_tolerance = settings["tol"]
    problem.settings.display_mesh_result_graph = False
    problem.initialise()
    backend = problem._backend

    def solve() -> Found:
        clock = time.process_time()
        found = backend.solve_nlp()
        cpu = time.process_time() - clock
        stats = backend.nlp_solver.stats()
        failure = "" if stats["success"] else stats["return_status"]
        return Found(cpu, stats["iter_count"], float(found.solution["f"]), failure)

    return solve


def _boxed(about: Stated, name: str) -> list[float]:
    """Bounds, which it wants finite: ten times what is given."""
    ends = [about.start.get(name, 0.0), about.end.get(name, 0.0), 1.0]
    size = 10.0 * float(np.max(np.abs([*about.first(name), *ends])))
    low, high = about.limits(name)
    return [max(low, -size), min(high, size)]
