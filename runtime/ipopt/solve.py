"""IPOPT: options, linear solver, and the story of a solve."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kinesym.runtime.ipopt.blas import blas_of
from kinesym.runtime.ipopt.driver import IpoptProblem, Solved, Start, Watch, run
from kinesym.runtime.ipopt.library import load_ipopt
from kinesym.runtime.ipopt.linear_solver import (
    AUTO,
    TIME_STRUCTURED,
    Report,
    choose,
    kkt_stages,
    options_of,
    session,
)
from kinesym.runtime.ipopt.scaling import TOLERANCE
from kinesym.runtime.progress import Iteration
from kinesym.runtime.status import Factors, Solve


@dataclass(frozen=True)
class SolverOptions:
    """Options of a solve by IPOPT. options : further ones, by name. hessian : "limited-memory", or
    anything else for the exact one of the nonlinear program. deadline : in `time.monotonic()` [s];
    solves end there with their last iterate. ends : whether to end after an iteration, as if by
    Ctrl-C."""

    options: Mapping[str, Any]
    hessian: str = "exact"
    linear_solver: str = AUTO
    driver: str = "auto"
    log: bool = False
    deadline: float = math.inf
    ends: Callable[[Iteration], bool] | None = None

    @property
    def late(self) -> bool:
        """Whether the deadline is over."""
        return time.monotonic() >= self.deadline


def solve(
    problem: IpoptProblem, start: Start, chosen: SolverOptions, report: Callable[[Iteration], None]
) -> Solved:
    """Solve; `report` is called after each iteration.

    If the time-structured linear solver gives up, MUMPS continues from the last iterate. Ctrl-C
    ends the iteration: the result is the last iterate, with that status. Raises `IpoptMissing`, or
    `ValueError` if an option is not accepted.
    """
    found = _solved(problem, start, chosen, report)
    return replace(found, status=Solve.ROUNDED) if _is_rounded(found, chosen) else found


def continued(first: Solved, second: Solved) -> Solved:
    """A solve that goes on where the first one ended, with iterations and seconds of both."""
    begin = first.iterations[-1].number if first.iterations else 0
    later = tuple(replace(s, number=s.number + begin) for s in second.iterations if s.number)
    return replace(
        second,
        iterations=(*first.iterations, *later),
        evaluation=first.evaluation + second.evaluation,
        linear_seconds=_sum(first.linear_seconds, second.linear_seconds),
        factorisations=first.factorisations + second.factorisations,
        log=first.log + second.log,
    )


def _is_rounded(found: Solved, chosen: SolverOptions) -> bool:
    """Whether a solve has met the default tolerance, but not a smaller one that was asked for."""
    asked, stuck = chosen.options.get("tol", TOLERANCE), (Solve.SMALL_STEP, Solve.ACCEPTABLE)
    if asked >= TOLERANCE or found.status not in stuck or not found.iterations:
        return False
    last = found.iterations[-1]
    return max(last.infeasibility, last.optimality) <= TOLERANCE


def _solved(
    problem: IpoptProblem, start: Start, chosen: SolverOptions, report: Callable[[Iteration], None]
) -> Solved:
    """`solve`, as it ends."""
    solver, reason = choose(chosen.linear_solver, chosen.options)
    watch = Watch(report, chosen.ends)
    if solver != TIME_STRUCTURED:
        found = _run(problem, start, chosen, watch, solver)
        return replace(found, linear_solver=f"{solver} ({reason})" if reason else solver)
    blas = blas_of(load_ipopt().path)  # the time-structured solver calls none
    order, stages, multipliers = kkt_stages(problem)
    if chosen.options.get("neg_curv_test_tol"):  # IPOPT then does not ask for the inertia
        multipliers = 0
    with blas.one_thread(), session(order, stages, multipliers, problem.threads) as kkt:
        found = _run(problem, start, chosen, watch, solver)
    spent, count = kkt["seconds"], kkt["factorisations"]
    found = replace(found, linear_seconds=spent, factorisations=count)
    ended = Factors(kkt["status"])
    if found.status.code >= 0 or ended is Factors.OK:  # what IPOPT calls a failure is below zero
        return replace(found, linear_solver=_about(kkt), workspace=kkt["workspace"])
    if ended is Factors.NOT_FINITE:
        return replace(found, status=Solve.NOT_FINITE, linear_solver=_about(kkt))
    if not kkt["factorisations"]:  # what IPOPT reports until then has moved nothing
        found = replace(found, iterations=())
    return _continued(problem, start, chosen, watch, found, ended.sentence)


def _about(kkt: Report) -> str:
    """Note on the time-structured solver: stages, fronts, memory, threads."""
    if not kkt["n_fronts"]:
        return f"{TIME_STRUCTURED} (no step was needed)"
    direction = "forwards" if kkt["reversed"] else "backwards"
    analysed = "analysed" if kkt["analyses"] else "analysis kept"
    threads = f"{kkt['n_parts']} threads, " if kkt["n_parts"] > 1 else ""
    return (
        f"{TIME_STRUCTURED} ({kkt['n_fronts'] - 1} stages {direction} in time, fronts of at most "
        f"{kkt['max_rows']} rows, {kkt['bytes'] / 1e6:.0f} MB, {threads}{analysed})"
    )


def _continued(
    problem: IpoptProblem,
    start: Start,
    chosen: SolverOptions,
    watch: Watch,
    stopped: Solved,
    reason: str,
) -> Solved:
    """Go on with MUMPS from where the other linear solver stopped, or from the start if that was
    before the first step."""
    steps = stopped.iterations[-1].number if stopped.iterations else 0
    more: dict[str, Any] = {"max_iter": max(int(chosen.options.get("max_iter", 3000)) - steps, 0)}
    if steps:
        start = Start(stopped.z, stopped.multipliers)
        more |= {"mu_init": watch.mu} if watch.mu else {}
    later = Watch(watch.report, watch.ends, number=steps, interrupted=watch.interrupted)
    found = _run(problem, start, chosen, later, "mumps", more)
    before = tuple(i for i in stopped.iterations if i.number < steps)
    when = f" after {steps} iteration{'' if steps == 1 else 's'}" if steps else ""
    return replace(
        found,
        evaluation=stopped.evaluation + found.evaluation,
        linear_seconds=_sum(stopped.linear_seconds, found.linear_seconds),
        factorisations=stopped.factorisations,
        log=stopped.log + found.log,
        iterations=before + found.iterations,
        linear_solver=f"mumps ({TIME_STRUCTURED} gave up{when}: {reason})",
    )


def _run(
    problem: IpoptProblem,
    start: Start,
    chosen: SolverOptions,
    watch: Watch,
    solver: str,
    more: Mapping[str, Any] | None = None,
) -> Solved:
    """Run with a linear solver; the options that were chosen, and then `more`, come first."""
    settings: dict[str, Any] = {
        "sb": "yes",
        **options_of(solver),
        "print_level": 5 if chosen.log else 0,
        "file_print_level": 5,
    }
    if solver != TIME_STRUCTURED:  # which has a clock of its own: IPOPT's ask for CPU times often
        settings["print_timing_statistics"] = "yes"
    if chosen.hessian == "limited-memory":
        settings["hessian_approximation"] = "limited-memory"
    if start.multipliers is not None:
        settings.update(warm_start_init_point="yes", mu_init=1e-6)
        settings.update(warm_start_bound_push=1e-9, warm_start_mult_bound_push=1e-9)
    settings |= {k: v for k, v in chosen.options.items() if k != "linear_solver"}
    settings |= more or {}
    required = {*chosen.options, "linear_solver"}  # others may be unknown to this IPOPT
    if math.isfinite(chosen.deadline):
        left = max(chosen.deadline - time.monotonic(), 1e-3)
        settings["max_wall_time"] = min(left, settings.get("max_wall_time", left))
        required.add("max_wall_time")
    found = run(problem, start, settings, required, watch, chosen.driver)
    found = replace(found, linear_seconds=_linear_seconds(found.log))
    failed = found.status in (Solve.RESTORATION_FAILED, Solve.STEP_FAILED)
    if failed and "out of memory" in found.log:  # MUMPS says so there
        return replace(found, status=Solve.NO_MEMORY)
    return found


def _linear_seconds(log: str) -> float | None:
    """Wall-clock seconds of all linear algebra, from IPOPT's own statistics, if there are any."""
    found = re.search(r"StdAugSystemSolverMultiSolve.*wall:\s*([\d.eE+-]+)", log)
    return float(found[1]) if found else None


def _sum(*seconds: float | None) -> float | None:
    """Sum of seconds that are known; None without any."""
    known = [each for each in seconds if each is not None]
    return sum(known) if known else None
