"""Status of a solve, a factorisation or a simulation: a name for programs, a sentence for people.

One class for each kind of thing that ends; a member is its name, so that `status == "converged"`.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

from kinesym.runtime import native

S = TypeVar("S", bound="Status")


class Status(str, Enum):
    """A way to end. sentence : its meaning, and a remedy if there is one; {fields} are filled in by
    `said` where they are known. code : the number of C, -1 if it has none."""

    sentence: str
    code: int

    def __new__(cls, name: str, sentence: str = "", code: int = -1) -> Status:
        """The member `name`."""
        member = str.__new__(cls, name)
        member._value_, member.sentence, member.code = name, sentence, code
        return member

    __str__ = str.__str__  # the name, in every version of Python

    @classmethod
    def of(cls: type[S], code: int) -> S:
        """The member with a code; the last one for a code that none has."""
        members = list(cls)
        return next((status for status in members if status.code == code), members[-1])

    def said(self, **known: object) -> str:
        """The sentence with its {fields} filled in."""
        return self.sentence.format(**known)


class Task(Status):
    """Status of a task of a study."""

    PENDING = "pending", "not run yet", 0
    DONE = "done", "done", 1
    FAILED = "failed", "the function raised an error", 2
    TIMEOUT = "timeout", "not done within {seconds:g} s", 3
    LOST = (
        "lost",
        "its worker died {times} times while it ran, as one does that is out of memory",
        4,
    )


class Solve(Status):
    """Status of a solve, by whatever optimiser; codes of IPOPT as in its IpReturnCodes.h, others
    below -1000."""

    CONVERGED = "converged", "converged", 0
    ACCEPTABLE = (
        "acceptable",
        "converged to the acceptable tolerance only; inspect the result or loosen the problem",
        1,
    )
    ROUNDED = (
        "rounded",
        "converged as far as rounding allows, not to the tolerance that was asked for",
        7,  # none of IPOPT
    )
    FLAT = (
        "flat",
        "converged as far as the measurements tell: they hardly depend on what is left",
        8,  # none of IPOPT
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
    WORSE = (
        "worse than the guess",
        "ended at a local minimum that explains the measurements less well than the guess does; "
        "bounds, or another guess of the trajectories, may help",
        -1001,
    )
    UNRESOLVED = (
        "not resolved",
        "converged on a grid too coarse to show the motion",
        -1002,
    )
    NO_MINIMUM = "no minimum", "this is not the minimum", -1003
    RISEN = "risen", "this is the best iterate", -1004
    STUCK = "stuck", "no step lowers the cost any more", -1005
    UNSEEN = "unseen", "unknowns move a jump that the derivatives do not see", -1006
    NO_MAXIMUM = (
        "no maximum",
        "the search for the largest likelihood ended without one; change the guess or bounds",
        -1007,
    )
    UNMET = (
        "equations not met",
        "{equation} is not met: its terms are too far apart in size for the solver, which knows "
        "nothing of one of them; give a guess of the size of all states and inputs, or other units",
        -1008,
    )
    UNKNOWN = "unknown", "IPOPT ended in a way that it does not document", -1000

    @property
    def success(self) -> bool:
        """Whether the result is a minimum, of IPOPT one that meets its tolerances (the acceptable
        ones count, and where rounding allows no more the default ones)."""
        good = (Solve.CONVERGED, Solve.ACCEPTABLE, Solve.ROUNDED, Solve.FEASIBLE, Solve.FLAT)
        return self in good


class Factors(Status):
    """Status of a factorisation by the time-structured solver; names as `kkt_status` has them."""

    OK = "ok", "factorised"
    SINGULAR = "singular", "the matrix is singular"
    NO_MEMORY = "no memory", "its factors do not fit into memory"
    NOT_FINITE = "not finite", "the matrix contains NaN or infinity"
    UNSUPPORTED = "unsupported", "the pattern has no narrow stages in time"
    INACCURATE = "inaccurate", "its solutions were not accurate"
    DELAYED = "delayed", "too many columns had no good pivot in their stage"
    INERTIA = "wrong inertia", "it has more negative eigenvalues than multipliers"


#: Why a simulation grows where no step is to blame.
UNSTABLE = "the model is unstable, or its equations are wrong"


class Stepping(Status):
    """Status of time stepping that ended early. {place} : between which times. {time}, {step} : in
    s."""

    INTERRUPTED = "interrupted", "interrupted at t = {time:g} s"
    NOT_POSSIBLE = "not possible", "ended {place}: {cause}"  # a limit, or no number
    DIVERGED = "diverged", "diverged {place}; {cause}"
    NEWTON = (
        "Newton failed",
        "Newton's method failed {place} with a defect of {defect:.2g}; try shorter steps than "
        "{step:g} s (raise substeps), or simulate by 'radau-5', which chooses its steps",
    )
    STIFF = (
        "stiff",
        "stiff: more than {most} steps are needed {place}; {cause}. Equations that jump, as "
        "sign(x), need them where the motion slides along the jump: smooth it, as with "
        "ks.smooth_step",
    )
    STEP = (
        "small step",
        "the steps became shorter than rounding allows {place}: a singularity or a jump, or atol "
        "is too large for a state that is small (lower it)",
    )
    GREW = (
        "grew",
        "grew beyond any plausible size: {name} = {value:.3g} at t = {time:g} s, {last:.3g} at the "
        "end",
    )


class Switching(Status):
    """Status of a hybrid run; codes as in hybrid.h. {at} : the time. {there} : the states."""

    DONE = "done", "", native.DONE
    GREW = "grew", f"{{growth}}; {UNSTABLE}"
    STOPPED = "stopped", "stopped {at} by {event}; there {there}", native.STOPPED
    LOG_FULL = "log full", "", native.FULL
    PAUSED = "paused", "", native.PAUSED
    STEP = "small step", "the step became too small {at}; there {there}", native.STEP
    NO_NUMBER = "not finite", "no finite number {at}: {names}; there {there}", native.NO_NUMBER
    NEWTON = (
        "Newton failed",
        "the equation of the trapezoidal rule has no solution {at}; use a shorter step",
        native.NEWTON,
    )
    BURIED = (
        "buried",
        "contact {contact!r} is {depth:.3g} m below the ground {at}, where no motion led; the "
        "last: {last}",
    )
    NO_STICKING = (
        "no sticking",
        "contacts {contacts}: no consistent sticking state {at}; use law 'coulomb' with a "
        "friction_coefficient",
    )
    NO_FRICTION = (
        "no friction",
        "contacts {contacts}: no forces agree with the friction {at}; try a smaller "
        "friction_coefficient",
    )
    STUCK = (
        "stuck",
        "contacts {contacts}: no forces keep all of them from moving into the ground {at}; their "
        "rows depend on each other, or the mass matrix is singular",
        native.STUCK,
    )
    SLIDES = (
        "slides",
        "events {names} follow each other {at} and no time passes: each takes the motion back "
        "across the guard of another, or to where it stands, so that it slides along the guards. "
        "Give them guards apart from each other (hysteresis), or make the motion along the guard a "
        "mode of its own, with when=; there {there}",
        native.SLIDES,
    )
    ACCUMULATES = (
        "accumulates",
        "events {names} come ever faster, the times between them shrink by {ratio:.3g} each, and "
        "accumulate at t = {limit:.9g} s, beyond which there is no motion. End the run before "
        "(stop=True where what shrinks is small enough), or make what follows a mode of its own, "
        "as v_stop does for contacts; there {there}",
    )
    PASSED = (
        "passed",
        "the guard of {event} stood at zero from the start, and what happened at t = {when:.6g} s "
        "took it beyond, which is no crossing: if it is to happen there, begin a little before "
        "zero, by 1e-9 of its size",
    )
    UNSEEN = (
        "unseen",
        "the guard of {event} changes so fast near t = {when:.6g} s that it may have crossed zero "
        "unseen, by up to {beyond:.2g}; give it a larger scale if that is negligible, else shorter "
        "steps",
    )
    CHATTER = "chatter", "too many events {at}; {remedy}. The last: {last}", native.CHATTER
    INTERRUPTED = "interrupted", "interrupted {at}", native.INTERRUPTED
    STIFF = (
        "stiff",
        "more steps {at} than are kept for derivatives: the model is stiff, or moves fast all the "
        "time. Where all events are at known times, ks.Shooting has implicit methods for it, as "
        "method='radau-5'",
    )
    NO_MEMORY = "no memory", "no memory is left", native.NO_MEMORY
