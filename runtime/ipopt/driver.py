"""Driver of IPOPT for one run: through its C interface, or through cyipopt."""

from __future__ import annotations

import re
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.interrupts import interruptible
from kinesym.runtime.ipopt.library import IpoptMissing, load_cyipopt, load_ipopt
from kinesym.runtime.ipopt.scaling import Bounds, Multipliers, Scaling
from kinesym.runtime.native import NO_FILE, Plan, Problem, Workspace, overheard
from kinesym.runtime.progress import Iteration, counted
from kinesym.runtime.sparse.structure import Factors, arrays
from kinesym.runtime.status import Solve

#: Ways to IPOPT: its C interface directly, or through the package cyipopt.
DRIVERS = ("auto", "direct", "cyipopt")


@dataclass(frozen=True)
class IpoptProblem:
    """A nonlinear program for IPOPT, whoever evaluates it.

    callbacks : with cost, gradient, constraints, jacobian and hessian: plans of compiled kernels,
        or functions f(z, multipliers, factor, out) that fill `out`.
    structures : of Jacobian and Hessian, with `size` and `fill(rows, columns)`, see
        `kinesym.runtime.sparse.structure.Structure`, and with `products` if there is a scaling.
    bounds : of z and of the constraints, (low, high). stages : of the variables in time, see
        `Layout.stages`. scaling : None for IPOPT's own choice. threads : for linear algebra.
    """

    callbacks: Any
    structures: tuple[Any, Any]
    bounds: Bounds
    constraint_bounds: Bounds
    stages: NDArray[np.int32]
    scaling: Scaling | None = None
    threads: int = 1

    @property
    def sizes(self) -> tuple[int, int]:
        """Numbers of variables and constraints."""
        return len(self.bounds[0]), len(self.constraint_bounds[0])

    @property
    def scaled_bounds(self) -> tuple[Bounds, Bounds]:
        """Bounds of variables and constraints, scaled for IPOPT."""
        given = (self.bounds, self.constraint_bounds)
        return self.scaling.bounds(*given) if self.scaling else given

    @cached_property
    def factors(self) -> dict[str, Factors]:
        """Scale factors of the values of callbacks for IPOPT, by name; those of the gradient and of
        constraints also apply to variables and multipliers that come from IPOPT. The objective has
        an option of IPOPT."""
        if self.scaling is None:
            return {}
        sizes, rows = self.scaling.sizes, self.scaling.constraints
        jacobian, hessian = self.structures
        return {
            "gradient": Factors.of(sizes),
            "constraints": Factors.of(rows),
            "jacobian": jacobian.products(rows, sizes),
            "hessian": hessian.products(sizes, sizes),
        }


@dataclass(frozen=True)
class Start:
    """Start of a solve: the free vector and, for a warm start, multipliers of constraints and
    bounds."""

    z: Array
    multipliers: Multipliers | None = None


@dataclass(frozen=True)
class Solved:
    """Result of IPOPT. evaluation : seconds of evaluations. log : IPOPT's own. linear_solver : a
    line on which one was used. linear_seconds : of all linear algebra, None if IPOPT does not tell.
    factorisations, workspace : of the time-structured one, if that was it."""

    z: Array
    multipliers: Multipliers
    objective: float
    status: Solve
    evaluation: float
    log: str
    iterations: tuple[Iteration, ...] = ()
    linear_solver: str = ""
    linear_seconds: float | None = None
    factorisations: int = 0
    workspace: Workspace | None = None

    @property
    def message(self) -> str:
        """Message on the end of the solve, as a sentence."""
        when = counted(self.iterations[-1].number if self.iterations else 0)
        if self.status is Solve.CONVERGED:
            return f"{self.status.sentence} {when}"
        return f"{when}: {self.status.sentence}"


@dataclass
class Watch:
    """Intermediate callback between two iterations: record, report, and stop on Ctrl-C, or if
    `ends` requests it."""

    report: Callable[[Iteration], None]
    ends: Callable[[Iteration], bool] | None = None
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
        ended = self.ends is not None and self.ends(step)
        return not (ended or self.interrupted.is_set())


def evaluate(callback: Any, z: Array, multipliers: Array, factor: float, out: Array) -> None:
    """Evaluate a callback, a plan or a function, at z."""
    if isinstance(callback, Plan):
        callback((z, multipliers, np.array([float(factor)])), out)
    elif out.size:
        callback(z, multipliers, factor, out)


class _Callbacks:
    """The callbacks as cyipopt wants them, with a clock."""

    def __init__(self, problem: IpoptProblem, watch: Watch) -> None:
        """Allocate value arrays once: cyipopt copies the result of a callback."""
        self.callbacks, self.intermediate, self.seconds = problem.callbacks, watch.intermediate, 0.0
        self._factors = problem.factors
        n, m = problem.sizes
        jacobian, hessian = problem.structures
        sizes = {"cost": 1, "gradient": n, "constraints": m}
        sizes |= {"jacobian": jacobian.size, "hessian": hessian.size}
        self._out = {name: np.empty(size) for name, size in sizes.items()}
        self._no_multipliers = np.zeros(m)
        for name in ("gradient", "constraints", "jacobian", "hessian"):
            setattr(self, name, partial(self._values, name))
        self.jacobianstructure = partial(arrays, jacobian)
        self.hessianstructure = partial(arrays, hessian)

    def _values(
        self, name: str, z: Array, multipliers: Array | None = None, factor: float = 1.0
    ) -> Array:
        callback, out = getattr(self.callbacks, name), self._out[name]
        multipliers = self._no_multipliers if multipliers is None else multipliers
        start = time.perf_counter()
        if self._factors:
            z = z * self._factors["gradient"].numbers
            multipliers = multipliers * self._factors["constraints"].numbers
        evaluate(callback, z, multipliers, factor, out)
        if name in self._factors:
            self._factors[name].multiply(out)
        self.seconds += time.perf_counter() - start
        return out

    def objective(self, z: Array) -> float:
        return float(self._values("cost", z)[0])


def _through_cyipopt(problem: IpoptProblem, watch: Watch) -> tuple[Any, Any]:
    """Problem for cyipopt, and the object that counts the `seconds` of evaluations."""
    callbacks = _Callbacks(problem, watch)
    (low, high), (below, above) = problem.scaled_bounds
    made = load_cyipopt().Problem(*problem.sizes, callbacks, low, high, below, above)
    set_options(made, NO_FILE, required=())
    return made, callbacks


def _directly(problem: IpoptProblem, watch: Watch) -> tuple[Any, Any]:
    """Problem for IPOPT's C interface, and the same object as counter of the `seconds` of
    evaluations."""
    more = (*problem.scaled_bounds, watch.intermediate, problem.factors)
    made = Problem(load_ipopt(), problem.callbacks, problem.structures, *more)
    return made, made


def check_driver(driver: str) -> str:
    """ "direct" or "cyipopt"; "auto" is the first that works. Raises `ValueError` for another name,
    `IpoptMissing` if it cannot be loaded."""
    if driver not in DRIVERS:
        raise ValueError(f"unknown driver {driver!r}; choose one of {', '.join(DRIVERS)}")
    if driver == "cyipopt":
        load_cyipopt()
        return driver
    try:
        load_ipopt()
    except IpoptMissing as missing:
        with suppress(IpoptMissing):
            if driver == "auto" and load_cyipopt():
                return "cyipopt"
        raise missing
    return "direct"


def run(
    problem: IpoptProblem,
    start: Start,
    options: Mapping[str, Any],
    required: Collection[str],
    watch: Watch,
    driver: str = "auto",
) -> Solved:
    """Solve from `start`. Options that this IPOPT does not know are ignored unless required. Raises
    `IpoptMissing`, or `ValueError` if an option is not accepted."""
    make = _directly if check_driver(driver) == "direct" else _through_cyipopt
    scaling, z, multipliers = problem.scaling, start.z, start.multipliers
    made, clock = make(problem, watch)
    if scaling is not None:
        options = scaling.options(options)
        z, multipliers = scaling.start(z, multipliers)
    more = {} if multipliers is None else dict(zip(_WARM, multipliers, strict=True))
    with tempfile.TemporaryDirectory() as folder:
        story = Path(folder) / "ipopt.txt"
        set_options(made, {**options, "output_file": str(story)}, required)
        with interruptible(watch.interrupted):
            z, info = made.solve(z, **more)
        status = Solve.of(int(info["status"]))
        if status is Solve.INVALID_OPTION:
            raise ValueError(
                f"{status.sentence}, one of {', '.join(sorted(required))} or of a file of options"
            )
        text = story.read_text(errors="replace") if story.exists() else ""
    found = (info["mult_g"], info["mult_x_L"], info["mult_x_U"])
    if scaling is not None:
        z, found = scaling.end(z, found, problem.bounds)
    iterations = tuple(watch.iterations)
    return Solved(z, found, float(info["obj_val"]), status, clock.seconds, text, iterations)


_WARM = ("lagrange", "zl", "zu")


def set_options(problem: Any, options: Mapping[str, Any], required: Collection[str]) -> None:
    """Set options; those that this IPOPT does not know are ignored unless required. Raises
    `ValueError` with IPOPT's reason, which would otherwise go to stdout."""
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
    """Reason why IPOPT refuses an option, in short."""
    if "It is not a valid option" in words:
        return "it has no option of this name"
    settings = re.findall(r"^\t(\S+) \(", words, flags=re.MULTILINE)
    if settings:
        return f"choose one of {', '.join(settings)}"
    limits = re.search(r"^(.*<.*) \(.*\) (<.*)$", words, flags=re.MULTILINE)
    kind = "a whole number with " if "(Integer)" in words else ""
    return f"expected {kind}{limits[1]} {name} {limits[2]}" if limits else "expected text"
