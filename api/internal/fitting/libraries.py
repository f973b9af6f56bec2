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
        """The kernels of objective, constraints and their exact derivatives, not built yet."""
        return self._exact.program

    @cached_property
    def exact(self) -> Built:
        """Library with exact Hessians."""
        return self._built(self._exact)

    @cached_property
    def gauss_newton(self) -> Built:
        """Library with the Gauss-Newton Hessian, J'J of the residuals. Raises `ValueError` without
        `LeastSquares`."""
        if not self.symbolic.objective.least_squares:
            raise ValueError(
                "hessian='gauss-newton' needs an objective with LeastSquares; use 'exact'"
            )
        return self._built(self._derived("gauss-newton"))

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
    def _exact(self) -> _Derived:
        return self._derived("exact")

    def _derived(self, hessian: str) -> _Derived:
        start = time.perf_counter()
        found = _transcribed(self.symbolic, tuple(self.symbolic.measurements), hessian)
        self.timings["derive"] += time.perf_counter() - start
        return found

    def _built(self, derived: _Derived) -> Built:
        start = time.perf_counter()
        built = derived.built
        self._count(time.perf_counter() - start, built)
        return built

    def _count(self, seconds: float, built: Built) -> None:
        """Add the time that a library took."""
        compiling = built.compile if built.compile < seconds else 0.0  # it was kept
        self.timings["derive"] += seconds - compiling
        self.timings["compile"] += compiling


@dataclass(frozen=True, eq=False)
class _Derived:
    """The program of a problem, which is built when that is first asked for."""

    program: Program

    @cached_property
    def built(self) -> Built:
        return realise(self.program)


@lru_cache(maxsize=4)
def _transcribed(problem: Problem, measurements: tuple[str, ...], hessian: str) -> _Derived:
    """The program of a problem, kept for the next one that differs in numbers only.

    measurements : in their order, which equal problems need not share.
    """
    with waiting_line("deriving equations and derivatives"):
        program = transcribe(problem, hessian)
        return _Derived(with_point(program, problem) if hessian == "exact" else program)


@lru_cache(maxsize=4)
def _with_residuals(problem: Problem, measurements: tuple[str, ...]) -> Built:
    """The library of the residuals of a problem, kept as `_transcribed` is."""
    return realise(residual_program(problem))
