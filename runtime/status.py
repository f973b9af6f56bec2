"""How a solve or a factorisation ended: a name for programs, and a sentence for people.

One class for each kind of thing that ends; a member is its name, so that `status == "converged"`.
"""

from __future__ import annotations

from enum import Enum


class Status(str, Enum):
    """A way to end. sentence : what it means, and what to do where that helps. code : of C."""

    sentence: str
    code: int

    def __new__(cls, name: str, sentence: str = "", code: int = 0) -> Status:
        """The member `name`."""
        member = str.__new__(cls, name)
        member._value_, member.sentence, member.code = name, sentence, code
        return member

    __str__ = str.__str__  # the name, in every version of Python


class Solve(Status):
    """How IPOPT ended; codes as in its IpReturnCodes.h."""

    CONVERGED = "converged", "converged", 0
    ACCEPTABLE = (
        "acceptable",
        "converged to the acceptable tolerance only; inspect the result or loosen the problem",
        1,
    )
    INFEASIBLE = (
        "infeasible",
        "IPOPT stopped at a point of local infeasibility; another guess, scaling or barrier "
        "strategy (mu_strategy) may solve it, unless the constraints contradict each other",
        2,
    )
    SMALL_STEP = (
        "small step",
        "the search direction became too small; the result may still be useful",
        3,
    )
    DIVERGED = "diverged", "the iterates diverge; give bounds or a better guess", 4
    INTERRUPTED = "interrupted", "interrupted: this is the last iterate, not a solution", 5
    FEASIBLE = "feasible", "a feasible point was found", 6
    ITERATION_LIMIT = (
        "iteration limit",
        "the limit of iterations was reached; solve again from this solution or raise the limit",
        -1,
    )
    RESTORATION_FAILED = (
        "restoration failed",
        "the restoration phase failed; try another guess, bounds or scaling",
        -2,
    )
    STEP_FAILED = "step failed", "a step could not be computed; the linear solver failed", -3
    CPU_LIMIT = "CPU time limit", "the limit of CPU time was reached", -4
    TIME_LIMIT = "time limit", "the limit of wall-clock time was reached", -5
    FEW_FREEDOMS = (
        "too few degrees of freedom",
        "there are fewer degrees of freedom than equations; free a parameter, an input or a state",
        -10,
    )
    INVALID_PROBLEM = "invalid problem", "IPOPT found the problem definition invalid", -11
    INVALID_OPTION = "invalid option", "IPOPT did not accept the value of an option", -12
    NOT_FINITE = "not finite", "a function became NaN or infinite", -13
    EXCEPTION = "exception", "IPOPT failed with an unrecoverable exception", -100
    FOREIGN_EXCEPTION = "foreign exception", "IPOPT threw an exception that is not its own", -101
    NO_MEMORY = "no memory", "memory ran out; use fewer nodes, or free memory", -102
    INTERNAL_ERROR = "internal error", "IPOPT had an internal error", -199
    UNKNOWN = "unknown", "IPOPT ended in a way that it does not document", -1000

    @property
    def success(self) -> bool:
        """Whether the result meets IPOPT's tolerances (the acceptable ones count)."""
        return self in (Solve.CONVERGED, Solve.ACCEPTABLE, Solve.FEASIBLE)


#: Statuses by the codes of IPOPT.
IPOPT_CODES = {status.code: status for status in Solve}


class Factors(Status):
    """How a factorisation by the time-structured solver ended; names as `kkt_status` has them."""

    OK = "ok", "factorised"
    SINGULAR = "singular", "the matrix is singular"
    NO_MEMORY = "no memory", "its factors do not fit into memory"
    NOT_FINITE = "not finite", "the matrix contains NaN or infinity"
    UNSUPPORTED = "unsupported", "the pattern has no narrow stages in time"
    INACCURATE = "inaccurate", "its solutions were not accurate"
    DELAYED = "delayed", "too many columns had no good pivot in their stage"
