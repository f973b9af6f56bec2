"""IPOPT: options, drivers, and what it returns."""

from __future__ import annotations

import ctypes
import re
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.ipopt_library import IpoptMissing, load_cyipopt, load_ipopt
from kinesym.runtime.native import Problem, trial
from kinesym.runtime.nlp import NLP

Array = NDArray[np.float64]
Bounds = tuple[Array, Array]

#: Sentences for the statuses of IPOPT (IpReturnCodes.h) that need more than IPOPT's own words.
SENTENCES = {
    0: "converged",
    1: "converged to the acceptable tolerance only; inspect the result or loosen the problem",
    2: "the problem is infeasible: no trajectory meets the constraints near the last iterate",
    3: "the search direction became too small; the result may still be useful",
    4: "the iterates diverge; give bounds or a better guess",
    6: "a feasible point was found",
    5: "interrupted: this is the last iterate, not a solution",
    -1: "the limit of iterations was reached; solve again from this solution or raise the limit",
    -2: "the restoration phase failed; try another guess, bounds or scaling",
    -3: "a step could not be computed; the linear solver failed",
    -4: "the limit of CPU time was reached",
    -5: "the limit of wall-clock time was reached",
    -10: "there are fewer degrees of freedom than equations; free a parameter, an input or a state",
    -11: "IPOPT found the problem definition invalid",
    -12: "IPOPT did not accept an option",
    -13: "a function became NaN or infinite",
    -100: "IPOPT failed with an unrecoverable exception",
    -101: "IPOPT threw an exception that is not its own",
    -102: "memory ran out",
    -199: "IPOPT had an internal error",
}


@dataclass(frozen=True)
class Iteration:
    """State of the solver after one iteration."""

    number: int
    objective: float
    infeasibility: float
    optimality: float


@dataclass
class Result:
    """What IPOPT returned: z, multipliers of the constraints and of both bounds, and its story."""

    z: Array
    multipliers: Array
    lower_multipliers: Array
    upper_multipliers: Array
    objective: float
    status: int
    iterations: tuple[Iteration, ...]
    timings: dict[str, float]
    log: str = ""

    @property
    def success(self) -> bool:
        """Whether the result meets IPOPT's tolerances (the acceptable ones count)."""
        return self.status in (0, 1, 6)

    @property
    def message(self) -> str:
        """The outcome as a sentence."""
        words = SENTENCES.get(self.status, f"IPOPT returned status {self.status}")
        count = self.iterations[-1].number if self.iterations else 0
        when = f"after {count} iteration{'' if count == 1 else 's'}"
        return f"{words} {when}" if self.status == 0 else f"{when}: {words}"


@dataclass
class WarmStart:
    """Multipliers to start from."""

    multipliers: Array
    lower: Array
    upper: Array


#: Ways to IPOPT: its C interface directly, or through the package cyipopt.
DRIVERS = ("auto", "direct", "cyipopt")

#: Linear solvers that IPOPT loads from a library of their own, and the names of that library.
_HSL = frozenset("ma27 ma57 ma77 ma86 ma97".split())
_HSL_LIBRARIES = ("libhsl.so", "libcoinhsl.so", "libhsl.dylib", "libcoinhsl.dylib")


def available_linear_solvers() -> list[str]:
    """Names of the linear solvers with which IPOPT solves a trivial problem here."""
    names = ["mumps", "spral", *(sorted(_HSL) if _loads_hsl() else [])]
    return [name for name in names if trial(load_ipopt(), {"linear_solver": name})]


def _loads_hsl(names: tuple[str, ...] = _HSL_LIBRARIES) -> bool:
    for name in names:
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return True
    return False


def _check_linear_solver(options: Mapping[str, Any]) -> None:
    """IPOPT 3.14 crashes if the library of some HSL solvers is missing: refuse before."""
    name, library = options.get("linear_solver"), options.get("hsllib")
    if name in _HSL and not _loads_hsl((str(library),) if library else _HSL_LIBRARIES):
        where = library or "libhsl.so or libcoinhsl.so"
        raise ValueError(f"linear solver {name} needs the library {where}, which cannot be loaded")


@dataclass
class _Watch:
    """What happens between two iterations: note, report, and stop on Ctrl-C."""

    report: Callable[[Iteration], None]
    iterations: list[Iteration] = field(default_factory=list)
    interrupted: threading.Event = field(default_factory=threading.Event)

    def intermediate(
        self, mode: int, number: int, objective: float, infeasibility: float, optimality: float,
        *rest: float,
    ) -> bool:  # fmt: skip
        step = Iteration(number, objective, infeasibility, optimality)
        self.iterations.append(step)
        self.report(step)
        return not self.interrupted.is_set()


class _Callbacks:
    """The callbacks as cyipopt wants them, with a clock."""

    def __init__(self, nlp: NLP, watch: _Watch) -> None:
        """Value arrays are made once: cyipopt copies what a callback returns."""
        self.nlp, self.intermediate, self.seconds = nlp, watch.intermediate, 0.0
        self._gradient = np.empty(self.nlp.n_variables)
        self._constraints = np.empty(self.nlp.n_constraints)
        self._jacobian = np.empty(self.nlp.jacobian_structure.size)
        self._hessian = np.empty(self.nlp.hessian_structure.size)

    def _timed(self, function: Callable[..., Any], *args: Any) -> Any:
        start = time.perf_counter()
        result = function(*args)
        self.seconds += time.perf_counter() - start
        return result

    def objective(self, z: Array) -> float:
        return float(self._timed(self.nlp.cost, z))

    def gradient(self, z: Array) -> Array:
        return np.asarray(self._timed(self.nlp.gradient, z, self._gradient))

    def constraints(self, z: Array) -> Array:
        return np.asarray(self._timed(self.nlp.constraints, z, self._constraints))

    def jacobian(self, z: Array) -> Array:
        return np.asarray(self._timed(self.nlp.jacobian, z, self._jacobian))

    def hessian(self, z: Array, multipliers: Array, factor: float) -> Array:
        out = self._hessian
        return np.asarray(self._timed(self.nlp.hessian, z, multipliers, factor, out))

    def jacobianstructure(self) -> tuple[Any, Any]:
        return self.nlp.jacobian_structure.arrays()

    def hessianstructure(self) -> tuple[Any, Any]:
        return self.nlp.hessian_structure.arrays()


def _through_cyipopt(
    nlp: NLP, bounds: Bounds, constraint_bounds: Bounds, watch: _Watch
) -> tuple[Any, Callable[[], float]]:
    """The problem in cyipopt, and a function that gives the seconds of evaluations."""
    callbacks = _Callbacks(nlp, watch)
    n, m = nlp.n_variables, nlp.n_constraints
    problem = load_cyipopt().Problem(n, m, callbacks, *bounds, *constraint_bounds)
    return problem, lambda: callbacks.seconds


def _directly(
    nlp: NLP, bounds: Bounds, constraint_bounds: Bounds, watch: _Watch
) -> tuple[Any, Callable[[], float]]:
    """The same through IPOPT's C interface."""
    structures = (nlp.jacobian_structure, nlp.hessian_structure)
    problem = Problem(
        load_ipopt(), nlp.plans, structures, bounds, constraint_bounds, watch.intermediate
    )
    return problem, lambda: problem.seconds


def check_driver(driver: str) -> str:
    """"direct" or "cyipopt"; "auto" is the first that works.

    Raises `ValueError` if the name is unknown, `IpoptMissing` if it cannot be loaded.
    """
    if driver not in DRIVERS:
        raise ValueError(f"unknown driver {driver!r}; choose one of {', '.join(DRIVERS)}")
    if driver == "cyipopt":
        load_cyipopt()
        return driver
    try:
        load_ipopt()
    except IpoptMissing:
        if driver == "direct":
            raise
        load_cyipopt()
        return "cyipopt"
    return "direct"


def default_options(nlp: NLP, hessian: str) -> dict[str, Any]:
    """Options of IPOPT that suit collocation.

    Parameters border every node with dense columns, which makes MUMPS's default ordering quadratic
    in the number of nodes; ordering 6 (QAMD) treats them apart.
    """
    options: dict[str, Any] = {"linear_solver": "mumps", "mumps_pivot_order": 6, "sb": "yes"}
    if hessian == "limited-memory":
        options["hessian_approximation"] = "limited-memory"
    return options


def solve(
    nlp: NLP,
    z: Array,
    bounds: Bounds,
    constraint_bounds: Bounds,
    options: Mapping[str, Any],
    report: Callable[[Iteration], None],
    hessian: str = "exact",
    warm: WarmStart | None = None,
    log: bool = False,
    driver: str = "auto",
) -> Result:
    """Solve from `z`; `report` is called after each iteration.

    Ctrl-C ends the iteration: the result is the last iterate, with status 5. Raises `IpoptMissing`,
    or `ValueError` if an option is not accepted.
    """
    make = _directly if check_driver(driver) == "direct" else _through_cyipopt
    _check_linear_solver(options)
    watch = _Watch(report)
    problem, seconds = make(nlp, bounds, constraint_bounds, watch)
    with tempfile.TemporaryDirectory() as folder:
        story = Path(folder) / "ipopt.txt"
        settings = {
            **default_options(nlp, hessian),
            "print_level": 5 if log else 0,
            "output_file": str(story),
            "file_print_level": 5,
            "print_timing_statistics": "yes",
        }
        if warm is not None:
            settings.update(warm_start_init_point="yes", mu_init=1e-6)
            settings.update(warm_start_bound_push=1e-9, warm_start_mult_bound_push=1e-9)
        for name, value in {**settings, **options}.items():
            _set_option(problem, name, value, optional=name not in options)
        start = time.perf_counter()
        with _interruptible(watch.interrupted):
            z, info = _run(problem, z, warm)
        total = time.perf_counter() - start
        text = story.read_text(errors="replace") if story.exists() else ""
    timings = {"evaluate": seconds(), "solver": total, **_linear_solver_seconds(text)}
    return Result(
        z, info["mult_g"], info["mult_x_L"], info["mult_x_U"],
        float(info["obj_val"]), int(info["status"]),
        tuple(watch.iterations), timings, text,
    )  # fmt: skip


#: Whole numbers are meant as real ones for these options.
_REAL = re.compile(r"(tol|_tol|_factor|_time|_push|_frac|mu_\w+|_wall_time|_inf)$")


def _set_option(problem: Any, name: str, value: Any, optional: bool) -> None:
    if isinstance(value, int) and not isinstance(value, bool) and _REAL.search(name):
        value = float(value)
    try:
        problem.add_option(name, value)
    except TypeError as error:
        if optional:  # a default that this IPOPT does not know
            return
        raise ValueError(f"IPOPT does not accept the option {name} = {value!r}") from error


@contextmanager
def _interruptible(flag: threading.Event) -> Iterator[None]:
    """Ctrl-C sets `flag` instead of raising; a second one raises.

    Only in the main thread, and not where Ctrl-C is ignored, as in background jobs.
    """
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        yield
        return

    def first(number: int, frame: FrameType | None) -> None:
        flag.set()
        signal.signal(signal.SIGINT, previous)

    previous = signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def _run(problem: Any, z: Array, warm: WarmStart | None) -> tuple[Array, dict[str, Any]]:
    more: dict[str, Array] = {}
    if warm is not None:
        more = {"lagrange": warm.multipliers, "zl": warm.lower, "zu": warm.upper}
    solution, info = problem.solve(z, **more)
    return solution, info


def _linear_solver_seconds(text: str) -> dict[str, float]:
    """Wall-clock seconds of all linear algebra, from IPOPT's own statistics."""
    found = re.search(r"StdAugSystemSolverMultiSolve.*wall:\s*([\d.eE+-]+)", text)
    return {"linear solver": float(found[1])} if found else {}
