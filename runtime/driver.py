"""One run of IPOPT: through its C interface, or through cyipopt."""

from __future__ import annotations

import re
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.interrupts import interruptible
from kinesym.runtime.ipopt_library import IpoptMissing, load_cyipopt, load_ipopt
from kinesym.runtime.native import NO_FILE, Problem, overheard
from kinesym.runtime.nlp import NLP

Array = NDArray[np.float64]
Bounds = tuple[Array, Array]

#: Ways to IPOPT: its C interface directly, or through the package cyipopt.
DRIVERS = ("auto", "direct", "cyipopt")


@dataclass(frozen=True)
class Iteration:
    """State of the solver after one iteration."""

    number: int
    objective: float
    infeasibility: float
    optimality: float


@dataclass(frozen=True)
class Task:
    """The nonlinear program with its bounds."""

    nlp: NLP
    bounds: Bounds
    constraint_bounds: Bounds


@dataclass(frozen=True)
class Start:
    """Where to start: the free vector and, if known, multipliers of constraints and bounds."""

    z: Array
    multipliers: tuple[Array, Array, Array] | None = None


@dataclass(frozen=True)
class Outcome:
    """What IPOPT returned. seconds : of evaluations, and in all. log : IPOPT's own."""

    z: Array
    multipliers: tuple[Array, Array, Array]
    objective: float
    status: int
    evaluation: float
    total: float
    log: str


@dataclass
class Watch:
    """What happens between two iterations: note, report, and stop on Ctrl-C."""

    report: Callable[[Iteration], None]
    iterations: list[Iteration] = field(default_factory=list)
    number: int = 0  # of the first iteration
    mu: float | None = None  # the barrier parameter
    interrupted: threading.Event = field(default_factory=threading.Event)

    def intermediate(
        self,
        mode: int,
        number: int,
        objective: float,
        infeasibility: float,
        optimality: float,
        mu: float,
        *rest: float,
    ) -> bool:
        self.mu = mu
        step = Iteration(self.number + number, objective, infeasibility, optimality)
        self.iterations.append(step)
        self.report(step)
        return not self.interrupted.is_set()


class _Callbacks:
    """The callbacks as cyipopt wants them, with a clock."""

    def __init__(self, nlp: NLP, watch: Watch) -> None:
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


def _through_cyipopt(task: Task, watch: Watch) -> tuple[Any, Callable[[], float]]:
    """The problem in cyipopt, and a function that gives the seconds of evaluations."""
    callbacks = _Callbacks(task.nlp, watch)
    n, m = task.nlp.n_variables, task.nlp.n_constraints
    problem = load_cyipopt().Problem(n, m, callbacks, *task.bounds, *task.constraint_bounds)
    set_options(problem, NO_FILE, required=())
    return problem, lambda: callbacks.seconds


def _directly(task: Task, watch: Watch) -> tuple[Any, Callable[[], float]]:
    """The same through IPOPT's C interface."""
    nlp = task.nlp
    structures = (nlp.jacobian_structure, nlp.hessian_structure)
    problem = Problem(
        load_ipopt(),
        nlp.plans,
        structures,
        task.bounds,
        task.constraint_bounds,
        watch.intermediate,
    )
    return problem, lambda: problem.seconds


def check_driver(driver: str) -> str:
    """ "direct" or "cyipopt"; "auto" is the first that works.

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


def run(
    task: Task,
    start: Start,
    options: Mapping[str, Any],
    required: Collection[str],
    watch: Watch,
    driver: str,
) -> Outcome:
    """Solve from `start`. Options that this IPOPT does not know are ignored unless required.

    Raises `IpoptMissing`, or `ValueError` if an option is not accepted.
    """
    make = _directly if check_driver(driver) == "direct" else _through_cyipopt
    problem, evaluation = make(task, watch)
    more = {} if start.multipliers is None else dict(zip(_WARM, start.multipliers, strict=True))
    with tempfile.TemporaryDirectory() as folder:
        story = Path(folder) / "ipopt.txt"
        set_options(problem, {**options, "output_file": str(story)}, required)
        began = time.perf_counter()
        with interruptible(watch.interrupted):
            z, info = problem.solve(start.z, **more)
        if int(info["status"]) == _INVALID_OPTION:
            raise ValueError(
                "IPOPT did not accept the value of an option, one of "
                f"{', '.join(sorted(required))} or of a file of options"
            )
        total = time.perf_counter() - began
        text = story.read_text(errors="replace") if story.exists() else ""
    return Outcome(
        z,
        (info["mult_g"], info["mult_x_L"], info["mult_x_U"]),
        float(info["obj_val"]),
        int(info["status"]),
        evaluation(),
        total,
        text,
    )


_INVALID_OPTION = -12
_WARM = ("lagrange", "zl", "zu")


def set_options(problem: Any, options: Mapping[str, Any], required: Collection[str]) -> None:
    """Set options of a problem; those that this IPOPT does not know are ignored unless required.

    Raises `ValueError` with IPOPT's reason, which would otherwise go to stdout.
    """
    for name, value in options.items():
        reason = ""
        if name == "option_file_name" and value and not Path(value).is_file():
            raise ValueError(f"there is no file {value!r}, which option_file_name names")
        for spelling in _spellings(value):
            accepted, words = overheard(problem.add_option, name, spelling)
            if accepted:
                break
            reason = reason or _reason(name, words)
        else:
            if name in required:
                raise ValueError(
                    f"IPOPT does not accept the option {name} = {value!r}: "
                    f"{reason or 'it is no number and no text'}"
                )


def _spellings(value: Any) -> list[Any]:
    """A value as the types that it may stand for: IPOPT tells whole numbers from real ones."""
    if isinstance(value, bool | np.bool_):
        return ["yes" if value else "no"]
    if isinstance(value, Integral) and abs(int(value)) < 10**300:
        return [*([int(value)] if abs(int(value)) < 2**31 else []), float(value)]
    if isinstance(value, float | np.floating) and not np.isnan(value):
        return [float(value), *([int(value)] if float(value).is_integer() else [])]
    return [value] if isinstance(value, str) else []


def _reason(name: str, words: str) -> str:
    """What IPOPT says of an option that it refuses, in short."""
    if "It is not a valid option" in words:
        return "it has no option of this name"
    settings = re.findall(r"^\t(\S+) \(", words, flags=re.MULTILINE)
    if settings:
        return f"choose one of {', '.join(settings)}"
    limits = re.search(r"^(.*<.*) \(.*\) (<.*)$", words, flags=re.MULTILINE)
    kind = "a whole number with " if "(Integer)" in words else ""
    return f"expected {kind}{limits[1]} {name} {limits[2]}" if limits else "expected text"
