"""Kernels of a problem, built when they are first needed."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from kinesym.codegen.kernel import Program
from kinesym.codegen.point import with_point
from kinesym.codegen.transcribe import residual_program, transcribe
from kinesym.internal.problems.pipeline import realise
from kinesym.runtime.library.manifest import Built
from kinesym.runtime.progress import waiting_line
from kinesym.symbolic.problem import Problem


@dataclass(frozen=True, eq=False)
class Libraries:
    """The libraries of a problem. timings : seconds to derive and compile those that there are."""

    symbolic: Problem
    timings: dict[str, float] = field(default_factory=lambda: {"derive": 0.0, "compile": 0.0})

    @property
    def program(self) -> Program:
        """The kernels of objective, constraints and their exact derivatives."""
        return self._exact[0]

    @property
    def exact(self) -> Built:
        """Library with exact Hessians."""
        return self._exact[1]

    @cached_property
    def gauss_newton(self) -> Built:
        """Library with the Gauss-Newton Hessian, J'J of the residuals. Raises `ValueError` without
        `LeastSquares`."""
        if not self.symbolic.objective.least_squares:
            raise ValueError(
                "hessian='gauss-newton' needs an objective with LeastSquares; use 'exact'"
            )
        return self._transcribed("gauss-newton")[1]

    @cached_property
    def residuals(self) -> Built:
        """The residuals of measurements, which few need. Raises `ValueError` without any."""
        if not self.symbolic.objective.least_squares:
            raise ValueError("the objective has no LeastSquares, so that there are no residuals")
        start = time.perf_counter()
        built = _with_residuals(self.symbolic, tuple(self.symbolic.measurements))
        self._count(time.perf_counter() - start, built)
        return built

    @cached_property
    def _exact(self) -> tuple[Program, Built]:
        return self._transcribed("exact")

    def _transcribed(self, hessian: str) -> tuple[Program, Built]:
        start = time.perf_counter()
        program, built = _transcribed(self.symbolic, tuple(self.symbolic.measurements), hessian)
        self._count(time.perf_counter() - start, built)
        return program, built

    def _count(self, seconds: float, built: Built) -> None:
        """Add the time that a library took."""
        compiling = built.compile if built.compile < seconds else 0.0  # it was kept
        self.timings["derive"] += seconds - compiling
        self.timings["compile"] += compiling


@lru_cache(maxsize=4)
def _transcribed(
    problem: Problem, measurements: tuple[str, ...], hessian: str
) -> tuple[Program, Built]:
    """The program of a problem, built, and kept for the next one that differs in numbers only.

    measurements : in their order, which equal problems need not share.
    """
    with waiting_line("deriving equations and derivatives"):
        program = transcribe(problem, hessian)
        program = with_point(program, problem) if hessian == "exact" else program
    return program, realise(program)


@lru_cache(maxsize=4)
def _with_residuals(problem: Problem, measurements: tuple[str, ...]) -> Built:
    """The library of the residuals of a problem, kept as `_transcribed` is."""
    return realise(residual_program(problem))
