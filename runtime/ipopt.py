"""IPOPT: options, linear solver, and the story of a solve."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.driver import IpoptProblem, Iteration, Outcome, Start, Watch, run
from kinesym.runtime.linear_solver import (
    AUTO,
    TIME_STRUCTURED,
    Report,
    choose,
    kkt_stages,
    options_of,
    session,
)
from kinesym.runtime.status import IPOPT_CODES, Factors, Solve

Array = NDArray[np.float64]


@dataclass
class Result:
    """What IPOPT returned: z, multipliers of the constraints and of both bounds, and its story."""

    z: Array
    multipliers: Array
    lower_multipliers: Array
    upper_multipliers: Array
    objective: float
    status: Solve
    iterations: tuple[Iteration, ...]
    timings: dict[str, float]
    linear_solver: str
    log: str = ""

    @property
    def success(self) -> bool:
        """Whether the result meets IPOPT's tolerances (the acceptable ones count)."""
        return self.status.success

    @property
    def message(self) -> str:
        """The outcome as a sentence."""
        words = self.status.sentence
        count = self.iterations[-1].number if self.iterations else 0
        when = f"after {count} iteration{'' if count == 1 else 's'}"
        return f"{words} {when}" if self.status is Solve.CONVERGED else f"{when}: {words}"


@dataclass(frozen=True)
class Wishes:
    """How to solve. options : further ones of IPOPT. hessian : "limited-memory", or anything else
    for the one of the nonlinear program."""

    options: Mapping[str, Any]
    hessian: str = "exact"
    linear_solver: str = AUTO
    driver: str = "auto"
    log: bool = False


def solve(
    problem: IpoptProblem, start: Start, wishes: Wishes, report: Callable[[Iteration], None]
) -> Result:
    """Solve; `report` is called after each iteration.

    If the time-structured linear solver gives up, MUMPS continues from the last iterate. Ctrl-C
    ends the iteration: the result is the last iterate, with that status. Raises `IpoptMissing`, or
    `ValueError` if an option is not accepted.
    """
    solver, reason = choose(wishes.linear_solver, wishes.options)
    watch = Watch(report)
    if solver != TIME_STRUCTURED:
        outcome = run(
            problem,
            start,
            _settings(wishes, solver, start),
            _required(wishes),
            watch,
            wishes.driver,
        )
        return _result(outcome, watch, f"{solver} ({reason})" if reason else solver)
    with session(*kkt_stages(problem)) as kkt:
        settings = _settings(wishes, solver, start)
        outcome = run(problem, start, settings, _required(wishes), watch, wishes.driver)
    ended = Factors(kkt["status"])
    if outcome.status not in _FAILED or ended is Factors.OK:
        return _result(outcome, watch, _about(kkt))
    if ended is not Factors.NOT_FINITE:
        if not kkt["factorisations"]:  # what IPOPT reports until then has moved nothing
            watch.iterations.clear()
        return _continue(problem, start, wishes, watch, outcome, ended.sentence)
    return _result(replace(outcome, status=Solve.NOT_FINITE), watch, _about(kkt))


#: What IPOPT may say where the linear solver is the cause: its codes below zero.
_FAILED = {status for code, status in IPOPT_CODES.items() if code < 0}


def _about(kkt: Report) -> str:
    """A line on what the time-structured solver did."""
    if not kkt["n_fronts"]:
        return f"{TIME_STRUCTURED} (not called)"
    direction = "forwards" if kkt["reversed"] else "backwards"
    analysed = "analysed" if kkt["analyses"] else "analysis kept"
    return (
        f"{TIME_STRUCTURED} ({kkt['n_fronts'] - 1} stages {direction} in time, fronts of at most "
        f"{kkt['max_rows']} rows, {kkt['bytes'] / 1e6:.0f} MB, {analysed})"
    )


def _continue(
    problem: IpoptProblem,
    start: Start,
    wishes: Wishes,
    watch: Watch,
    stopped: Outcome,
    reason: str,
) -> Result:
    """Go on with MUMPS from where the other linear solver stopped, or from the start if that was
    before the first step."""
    steps = watch.iterations[-1].number if watch.iterations else 0
    if steps:
        start = Start(stopped.z, stopped.multipliers)
    settings = _settings(wishes, "mumps", start)
    settings["max_iter"] = max(int(settings.get("max_iter", 3000)) - steps, 0)
    if steps and watch.mu:
        settings["mu_init"] = watch.mu
    later = Watch(watch.report, number=steps, interrupted=watch.interrupted)
    outcome = run(problem, start, settings, _required(wishes), later, wishes.driver)
    before = [i for i in watch.iterations if i.number < steps]
    watch.iterations[:] = [*before, *later.iterations]
    outcome = replace(
        outcome,
        evaluation=stopped.evaluation + outcome.evaluation,
        total=stopped.total + outcome.total,
        log=stopped.log + outcome.log,
    )
    when = f" after {steps} iteration{'' if steps == 1 else 's'}" if steps else ""
    return _result(outcome, watch, f"mumps ({TIME_STRUCTURED} gave up{when}: {reason})")


def _required(wishes: Wishes) -> set[str]:
    """Options that IPOPT must accept; others are left out where it does not know them."""
    return {*wishes.options, "linear_solver"}


def _settings(wishes: Wishes, solver: str, start: Start) -> dict[str, Any]:
    """All options of IPOPT; the user's win."""
    settings: dict[str, Any] = {
        "sb": "yes",
        **options_of(solver),
        "print_level": 5 if wishes.log else 0,
        "file_print_level": 5,
        "print_timing_statistics": "yes",
    }
    if wishes.hessian == "limited-memory":
        settings["hessian_approximation"] = "limited-memory"
    if start.multipliers is not None:
        settings.update(warm_start_init_point="yes", mu_init=1e-6)
        settings.update(warm_start_bound_push=1e-9, warm_start_mult_bound_push=1e-9)
    chosen = {k: v for k, v in wishes.options.items() if k != "linear_solver"}
    return {**settings, **chosen}


def _result(outcome: Outcome, watch: Watch, linear_solver: str) -> Result:
    seconds = {"evaluate": outcome.evaluation, "solver": outcome.total}
    failed = outcome.status in (Solve.RESTORATION_FAILED, Solve.STEP_FAILED)
    starved = failed and "out of memory" in outcome.log  # MUMPS says so there
    return Result(
        outcome.z,
        *outcome.multipliers,
        outcome.objective,
        Solve.NO_MEMORY if starved else outcome.status,
        tuple(watch.iterations),
        {**seconds, **_linear_solver_seconds(outcome.log)},
        linear_solver,
        outcome.log,
    )


def _linear_solver_seconds(text: str) -> dict[str, float]:
    """Wall-clock seconds of all linear algebra, from IPOPT's own statistics."""
    found = re.findall(r"StdAugSystemSolverMultiSolve.*wall:\s*([\d.eE+-]+)", text)
    return {"linear solver": sum(map(float, found))} if found else {}
