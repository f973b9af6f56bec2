"""How a solve or a factorisation ended: a name for programs, and a sentence for people.

One class for each kind of thing that ends; a member is its name, so that `status == "converged"`.
"""

from __future__ import annotations

from enum import Enum


class Status(str, Enum):
    """A way to end. `sentence` says what it means, and what to do where that helps."""

    sentence: str

    def __new__(cls, name: str, sentence: str = "") -> Status:
        """The member `name`."""
        member = str.__new__(cls, name)
        member._value_, member.sentence = name, sentence
        return member

    __str__ = str.__str__  # the name, in every version of Python


class Solve(Status):
    """How IPOPT ended."""

    CONVERGED = "converged", "converged"
    ACCEPTABLE = (
        "acceptable",
        "converged to the acceptable tolerance only; inspect the result or loosen the problem",
    )
    INFEASIBLE = (
        "infeasible",
        "IPOPT stopped at a point of local infeasibility; another guess, scaling or barrier "
        "strategy (mu_strategy) may solve it, unless the constraints contradict each other",
    )
    SMALL_STEP = (
        "small step",
        "the search direction became too small; the result may still be useful",
    )
    DIVERGED = "diverged", "the iterates diverge; give bounds or a better guess"
    INTERRUPTED = "interrupted", "interrupted: this is the last iterate, not a solution"
    FEASIBLE = "feasible", "a feasible point was found"
    ITERATION_LIMIT = (
        "iteration limit",
        "the limit of iterations was reached; solve again from this solution or raise the limit",
    )
    RESTORATION_FAILED = (
        "restoration failed",
        "the restoration phase failed; try another guess, bounds or scaling",
    )
    STEP_FAILED = "step failed", "a step could not be computed; the linear solver failed"
    CPU_LIMIT = "CPU time limit", "the limit of CPU time was reached"
    TIME_LIMIT = "time limit", "the limit of wall-clock time was reached"
    FEW_FREEDOMS = (
        "too few degrees of freedom",
        "there are fewer degrees of freedom than equations; free a parameter, an input or a state",
    )
    INVALID_PROBLEM = "invalid problem", "IPOPT found the problem definition invalid"
    INVALID_OPTION = "invalid option", "IPOPT did not accept the value of an option"
    NOT_FINITE = "not finite", "a function became NaN or infinite"
    EXCEPTION = "exception", "IPOPT failed with an unrecoverable exception"
    FOREIGN_EXCEPTION = "foreign exception", "IPOPT threw an exception that is not its own"
    NO_MEMORY = "no memory", "memory ran out; use fewer nodes, or free memory"
    INTERNAL_ERROR = "internal error", "IPOPT had an internal error"
    UNKNOWN = "unknown", "IPOPT ended in a way that it does not document"

    @property
    def success(self) -> bool:
        """Whether the result meets IPOPT's tolerances (the acceptable ones count)."""
        return self in (Solve.CONVERGED, Solve.ACCEPTABLE, Solve.FEASIBLE)


#: What IPOPT's C interface returns, see its IpReturnCodes.h.
IPOPT_CODES = {
    0: Solve.CONVERGED,
    1: Solve.ACCEPTABLE,
    2: Solve.INFEASIBLE,
    3: Solve.SMALL_STEP,
    4: Solve.DIVERGED,
    5: Solve.INTERRUPTED,
    6: Solve.FEASIBLE,
    -1: Solve.ITERATION_LIMIT,
    -2: Solve.RESTORATION_FAILED,
    -3: Solve.STEP_FAILED,
    -4: Solve.CPU_LIMIT,
    -5: Solve.TIME_LIMIT,
    -10: Solve.FEW_FREEDOMS,
    -11: Solve.INVALID_PROBLEM,
    -12: Solve.INVALID_OPTION,
    -13: Solve.NOT_FINITE,
    -100: Solve.EXCEPTION,
    -101: Solve.FOREIGN_EXCEPTION,
    -102: Solve.NO_MEMORY,
    -199: Solve.INTERNAL_ERROR,
}


class Factors(Status):
    """How a factorisation by the time-structured solver ended; names as `kkt_status` has them."""

    OK = "ok", "factorised"
    SINGULAR = "singular", "the matrix is singular"
    NO_MEMORY = "no memory", "its factors do not fit into memory"
    NOT_FINITE = "not finite", "the matrix contains NaN or infinity"
    UNSUPPORTED = "unsupported", "the pattern has no narrow stages in time"
    INACCURATE = "inaccurate", "its solutions were not accurate"
    DELAYED = "delayed", "too many columns had no good pivot in their stage"
