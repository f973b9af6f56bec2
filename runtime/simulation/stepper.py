"""Time stepping with compiled kernels: trajectories, ensembles, and the causes of early ends."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.interrupts import interruptible
from kinesym.runtime.library.manifest import Built, SteppingManifest, TableauManifest
from kinesym.runtime.native import PARABOLA, Call, Library, Plan, Run
from kinesym.runtime.progress import node_bar
from kinesym.runtime.simulation.stages import extended, loop_numbers
from kinesym.runtime.sparse.places import rows
from kinesym.runtime.status import UNSTABLE, Stepping

_Places = tuple[NDArray[np.intp], NDArray[np.intp]]

#: Steps of all members between two looks at the clock and at Ctrl-C.
_STEPS_AT_ONCE = 200_000
#: Vector operations between two looks at the clock and at Ctrl-C.
_WORK_AT_ONCE = 1e8
#: Nodes between two looks of an adaptive method. Its steps end at the node of a look, so that the
#: number must not depend on the members.
_ADAPTIVE_NODES_AT_ONCE = 4096
#: Nodes up to which adaptive steps may be made to end at each node (`IVP.stops`).
_MOST_STOPS = 100_000
#: Steps of a block of members per call, at least, so that calls cost little.
_LEAST_STEPS = 64
#: Substeps above which shorter steps are no remedy: such a mode is the consequence of a divergence.
_WORTHWHILE = 1e4
#: Growth of a small error, as a power of e, from which a model counts as unstable.
_GROWTH = 20.0
#: Code in `RawTrajectories.trouble`: an adaptive method needed too many steps.
STIFF = 1.0
#: How many that are, as in kinesym_step.h, where none are recorded.
_STEPS_MOST = 10_000_000

#: Largest plausible state, in any unit.
_LARGEST = 1e100
#: Largest plausible growth of a state from its initial value, or from 1.
_LARGEST_GROWTH = 1e30


class Diverged(ValueError):
    """Error of a simulation that did not reach its end; the message says when and why."""


@dataclass(frozen=True)
class Stepper:
    """Compiled time stepping of a model, with the manifest of the code generator.

    loop : the name of the method. work : operations per step, about. tables : numbers of tables,
    which follow parameters.
    """

    library: Library
    about: SteppingManifest
    loop: str
    work: float
    tables: Array

    @classmethod
    def of(cls, built: Built, loop: str) -> Stepper:
        """Stepper of a built library; loop : name of the method."""
        about, kernels = built.manifest.of(SteppingManifest), built.manifest.kernels
        operations = {name: float(kernel.operations) for name, kernel in kernels.items()}
        work = _work(operations, len(about.states))
        return cls(built.library, about, loop, work, built.tables)

    @property
    def tableau(self) -> TableauManifest:
        """Coefficients of the method."""
        return self.about.methods[self.loop]

    @cached_property
    def method(self) -> tuple[Array, Array, Array]:
        """A, b and c of an implicit method whose equations are differentiated."""
        moving = {j for j in self.about.partials[1] if j < len(self.about.states)}
        return extended(self.tableau, len(moving) < len(self.about.states))

    @cached_property
    def pattern(self) -> _Places:
        """Rows and columns of the derivatives."""
        rows, columns = self.about.pattern
        return np.array(rows, dtype=np.intp), np.array(columns, dtype=np.intp)

    @cached_property
    def solution(self) -> _Places:
        """Targets and sources of the steps of M^-1."""
        pairs = np.array(self.about.solution, dtype=np.intp).reshape(-1, 2)
        return pairs[:, 0].copy(), pairs[:, 1].copy()

    def with_tables(self, parameters: Array) -> Array:
        """Parameters (1 or M, r) followed by the numbers of tables, unless the parameters vary."""
        if self.about.varying or not len(self.tables):
            return parameters
        return np.hstack([parameters, self.tables[None]])

    @property
    def apart(self) -> list[Array]:
        """Numbers of tables, (count, 1), if they are an argument of their own."""
        return [self.tables[:, None]] if self.about.varying and len(self.tables) else []

    @property
    def explicit(self) -> bool:
        """Whether the method is explicit."""
        return not self.tableau.implicit

    @property
    def adaptive(self) -> bool:
        """Whether the method chooses its steps."""
        return bool(self.tableau.error)

    @property
    def fixed(self) -> bool:
        """Whether the method is explicit with steps of fixed length."""
        return self.explicit and not self.adaptive

    @property
    def remedy(self) -> str:
        """Advice for an adaptive method that needs too many steps."""
        return (
            "use method='radau-5', or looser tolerances" if self.explicit else "loosen tolerances"
        )

    @property
    def steps_at_once(self) -> int:
        """Steps of a block of members between two looks at Ctrl-C."""
        return max(1, min(_STEPS_AT_ONCE, int(_WORK_AT_ONCE / max(self.work, 1.0))))


def _work(operations: Mapping[str, float], n: int) -> float:
    """Operations of a step: stages of an explicit method, or a few steps of Newton's method."""
    if "slopes" in operations:
        return 12.0 * operations["residual"] + operations["slopes"] + 4.0 * n**3 + 10.0 * n
    return 7.0 * (operations["rhs"] + 10.0 * n)


@dataclass(frozen=True)
class IVP:
    """Initial value problems of M members on N nodes.

    time : (N,). initial : (n, M). parameters : (1 or M, r), see `with_tables`. inputs :
    per input its samples (1 or M, N), or 3 N - 2 of them with `PARABOLA`, and their kind (see
    kinesym.h). stops : whether steps of an adaptive method end at each node.
    """

    time: Array
    initial: Array
    parameters: Array
    inputs: Sequence[tuple[Array, int]]
    substeps: int = 1
    tolerances: tuple[float, float] = (1e-8, 1e-10)
    threads: int = 1
    stops: bool = False

    @property
    def members(self) -> int:
        """Their number M."""
        return self.initial.shape[1]


@dataclass(frozen=True)
class RawTrajectories:
    """Raw result of time stepping: states (n, M, N) and values (n_out, M, N) of outputs and limits,
    NaN beyond the `reached` nodes of each member.

    trouble : (M,), the defect where Newton's method failed; adaptive: whether the steps were more
    than `most`. interrupted : (M,), whether Ctrl-C ended it. broken : message on the limit that
    ended a member, by its number.
    """

    stepper: Stepper
    ivp: IVP
    states: Array
    values: Array
    reached: NDArray[np.intp]
    trouble: Array
    interrupted: NDArray[np.bool_]
    broken: Mapping[int, str] = field(default_factory=dict)
    most: int = _STEPS_MOST

    @property
    def limits(self) -> Array:
        """Values (n_limits, M, N) of the limits, which must not be negative."""
        return self.values[len(self.stepper.about.outputs) :]


def bind(
    stepper: Stepper,
    ivp: IVP,
    states: Array | None = None,
    stages: tuple[Array, Array] | None = None,
    steps: Array | None = None,
    recorded: int = 0,
) -> tuple[Run, RawTrajectories]:
    """Bind the loop to its arrays and set the initial states. stages : arrays for x' and x at the
    stages of implicit steps. steps : (M,), lengths of first steps of an adaptive method, replaced
    by those of the next ones. recorded : most steps of such a method that are kept, see
    `Run.steps`; they end at each node."""
    about, shape = stepper.about, (ivp.members, len(ivp.time))
    states = np.empty((len(about.states), *shape)) if states is None else states
    values = np.empty((len(about.outputs) + len(about.limits), *shape))
    members, reached, trouble = shape[0], np.ones(shape[0], dtype=np.intp), np.zeros(shape[0])
    states[:, :, 0] = ivp.initial
    run = Run(
        stepper.library,
        stepper.pattern,
        stepper.solution,
        ivp.time,
        list(ivp.inputs),
        ivp.parameters,
        states,
        values,
        reached,
        np.zeros(members) if steps is None else steps,
        trouble,
        ivp.substeps,
        *ivp.tolerances,
        ivp.threads,
        about.outputs_need_rates,
        _budget(stepper, ivp, members),
        loop_numbers(stepper.tableau),
        stages,
        about.index,
        stepper.tables if stepper.apart else None,
        recorded,
    )
    interrupted = np.zeros(members, dtype=bool)
    made = RawTrajectories(stepper, ivp, states, values, reached, trouble, interrupted)
    return run, replace(made, most=recorded or _STEPS_MOST)


def _budget(stepper: Stepper, ivp: IVP, members: int) -> int:
    """Steps per call of each block of members; blocks share threads."""
    blocks = -(-members // stepper.library.lanes)
    return max(
        min(_LEAST_STEPS, stepper.steps_at_once),
        stepper.steps_at_once * min(ivp.threads, blocks) // blocks,
    )


def simulate(stepper: Stepper, ivp: IVP, progress: bool | None = None) -> RawTrajectories:
    """Simulate through all nodes; Ctrl-C ends it with the part that has been computed.

    Raises `ValueError` if a limit is broken at the start.
    """
    run, raw = bind(stepper, ivp)
    with interruptible() as stop:
        check_start(raw, run)
        _march(raw, run, progress, stop)
        return finished(raw, run)


def finished(raw: RawTrajectories, run: Run) -> RawTrajectories:
    """Complete raw trajectories: outputs are computed, values beyond the reached or permitted nodes
    set to NaN."""
    about = raw.stepper.about
    run.outputs(0, int(raw.reached.max()) - 1)
    broken = _broken_limits(raw)
    for member in np.flatnonzero(raw.reached < len(raw.ivp.time)):
        for group in (raw.states, raw.values):
            group[:, member, raw.reached[member] :] = np.nan
    raw.interrupted[list(broken)] = False
    kept = raw.values[: len(about.outputs)]
    if len(kept) < len(about.limits):  # do not keep the limits alive
        kept = kept.copy()
    return replace(raw, values=kept, broken={**raw.broken, **broken})


def _march(raw: RawTrajectories, run: Run, progress: bool | None, stop: threading.Event) -> None:
    """Step through all nodes, or until `stop` is set: then the unfinished members are marked as
    interrupted."""
    stepper, ivp = raw.stepper, raw.ivp
    N, done, reached = len(ivp.time), 0, raw.reached
    chunk = max(1, stepper.steps_at_once // (len(reached) * ivp.substeps))
    if stepper.adaptive:
        chunk = 1 if ivp.stops and N <= _MOST_STOPS else _ADAPTIVE_NODES_AT_ONCE
    with node_bar(N - 1, progress) as advance:
        while done < N - 1 and (reached == done + 1).any():
            end = min(done + chunk, N - 1)
            if not run.march(stepper.loop, done, end, stop):
                break
            advance(end - done)
            done = end
    if stop.is_set():
        raw.interrupted[:] = (reached < N) & (reached > done) & ~run.failed


def check_start(raw: RawTrajectories, run: Run) -> None:
    """Raise `ValueError` if one of the limits is broken by the initial state."""
    about = raw.stepper.about
    if not about.limits:
        return
    run.outputs(0, 0)
    for limit, member in np.argwhere(raw.limits[:, :, 0] < 0.0):
        state = zip(about.states, raw.ivp.initial[:, member], strict=True)
        moved = [f"{name} = {x:.4g}" for name, x in state if abs(x) > 1e-12]
        more = f", and {len(moved) - 24} more" if len(moved) > 24 else ""
        which = f" of member {member}" if raw.ivp.members > 1 else ""
        raise ValueError(
            f"the initial state{which} of {about.model} cannot be: "
            f"{about.limits[limit]} ({', '.join(moved[:24])}{more})"
        )


def _broken_limits(raw: RawTrajectories) -> dict[int, str]:
    """First limit that each member breaks, by its number; `reached` is cut to end before
    that node."""
    found: dict[int, str] = {}
    for row, sentence in zip(raw.limits, raw.stepper.about.limits, strict=True):
        for member in np.flatnonzero((row < 0.0).any(axis=1)).tolist():
            node = int(np.argmax(row[member] < 0.0))
            if node < raw.reached[member]:
                raw.reached[member] = node
                found[member] = sentence
    return found


# -- why a run ended early ------------------------------------------------------------------


def failure(raw: RawTrajectories, member: int, undefined: str = "") -> str:
    """Message on a member that did not reach the end: time, state, cause and remedy.

    undefined : an expression that is not finite there, if that is known to be the cause.
    """
    stepper, ivp, last = raw.stepper, raw.ivp, int(raw.reached[member]) - 1
    time, x = ivp.time, raw.states[:, member, last]
    if raw.interrupted[member]:
        return Stepping.INTERRUPTED.said(time=time[last])
    place = f"between t = {time[last]:g} and {time[last + 1]:g} s"
    state = ", ".join(
        f"{k} = {v:.4g}" for k, v in list(zip(stepper.about.states, x, strict=True))[:12]
    )
    if len(x) > 12:
        state += f", and {len(x) - 12} more"
    step = (time[last + 1] - time[last]) / ivp.substeps
    if undefined or member in raw.broken:
        blamed, advice = _divergence(raw, member, step) if stepper.fixed else (False, "")
        more = f"; but {advice}" if blamed else ""
        status, cause = Stepping.NOT_POSSIBLE, f"{undefined or raw.broken[member]}{more}"
    elif not stepper.fixed and implausible(raw.states[:, member, 0], x).any():
        status, cause = Stepping.DIVERGED, UNSTABLE
    elif not stepper.explicit and not stepper.adaptive:
        status, cause = Stepping.NEWTON, ""
    elif stepper.adaptive:
        stiff = raw.trouble[member] == STIFF
        status, cause = Stepping.STIFF if stiff else Stepping.STEP, stepper.remedy
    else:
        status, (_, cause) = Stepping.DIVERGED, _divergence(raw, member, step)
    most = f"{raw.most:.2g}".replace("e+0", "e")
    words = status.said(place=place, cause=cause, defect=raw.trouble[member], step=step, most=most)
    return f"{words}; last state {state}"


def implausible(start: Array, end: Array) -> NDArray[np.bool_]:
    """Implausibly large states at the end, given those at the start, booleans."""
    with np.errstate(over="ignore"):
        limit = np.minimum(_LARGEST, _LARGEST_GROWTH * np.maximum(1.0, np.abs(start)))
    return np.asarray(np.abs(end) > limit)


def growth(names: Sequence[str], states: Array, time: Array) -> tuple[int, str]:
    """Node at which the first implausible state became so, and a message on it, from states (n, N);
    N and an empty message if there is none."""
    grown = np.flatnonzero(implausible(states[:, 0], states[:, -1]))
    if not len(grown):
        return len(time), ""
    row = states[grown[0]]
    node = int(np.argmax(implausible(row[0], row)))
    words = Stepping.GREW.said(name=names[grown[0]], value=row[node], time=time[node], last=row[-1])
    return node, words


def cause_of_growth(raw: RawTrajectories, member: int, node: int) -> str:
    """Likely cause of the implausible growth of a member, at a node."""
    if not raw.stepper.fixed:
        return UNSTABLE
    step = float(raw.ivp.time[node] - raw.ivp.time[node - 1]) / raw.ivp.substeps
    return _divergence(raw, member, step)[1]


# -- whether a single step is enough --------------------------------------------------------

#: Short steps with which a single one is compared.
_PARTS = 16
#: Difference between them that is tolerated, as a share of the state.
_TOLERABLE = 0.01


def too_long(raw: RawTrajectories) -> str:
    """Message for a simulation of two nodes and one step, if shorter steps lead elsewhere; else
    empty."""
    stepper, ivp = raw.stepper, raw.ivp
    run, shorter = bind(stepper, replace(ivp, substeps=_PARTS))
    run.march(stepper.loop, 0, 1)
    ends, truer = raw.states[:, :, 1], shorter.states[:, :, 1]
    size = np.maximum(np.abs(ivp.initial), np.abs(truer))
    size = np.maximum(size, 1e-6 * size.max(axis=0))  # negligible states may differ
    wrong = np.argwhere(~(np.abs(ends - truer) <= _TOLERABLE * size))
    if not len(wrong):
        return ""
    k, member = wrong[0]
    begin, end = ivp.time
    of = f" of member {member}" if ivp.members > 1 else ""
    return (
        f"one step of {end - begin:g} s is too long: {stepper.about.states[k]}{of} ends at "
        f"{ends[k, member]:.4g}, with {_PARTS} steps at {truer[k, member]:.4g}; time is the "
        f"grid of nodes, for example np.linspace({begin:g}, {end:g}, 2001)"
    )


# -- why explicit steps diverge -------------------------------------------------------------


def _divergence(raw: RawTrajectories, member: int, step: float) -> tuple[bool, str]:
    """Whether the step is too long for the fastest mode at the start or at the last state, and the
    likely cause that a member diverges."""
    ivp, last = raw.ivp, int(raw.reached[member]) - 1
    spent = float(ivp.time[last] - ivp.time[0])
    for node in (0, last):
        modes = modes_at(raw, node, member)
        mode, worst = modes[np.argmax(np.abs(modes))], modes[np.argmax(modes.real)]
        longest = longest_step(raw.stepper, mode)
        if longest < step < _WORTHWHILE * longest:
            return True, _too_long_for(mode, raw, node, step, longest)
        if worst.real * spent > _GROWTH:
            return False, (
                f"the model is unstable: eigenvalue {eigenvalue(worst)} 1/s at "
                f"t = {ivp.time[node]:g} s"
            )
    return False, f"the model is unstable, or the step of {step:g} s too long (raise substeps)"


def eigenvalue(mode: complex) -> str:
    """Text of an eigenvalue [1/s], a real one without its imaginary part."""
    return f"{mode.real:.4g}" if mode.imag == 0.0 else f"{mode:.4g}"


def unstable_steps(raw: RawTrajectories, member: int) -> str:
    """Message for explicit steps of one length that let a mode grow which decays, at the start or
    at the end of a simulation; else empty."""
    stepper, time = raw.stepper, raw.ivp.time
    if not (stepper.explicit and stepper.fixed):
        return ""
    nodes = [0, len(time) - 1]
    steps = np.diff(time[[0, 1, -2, -1]])[[0, -1]] / raw.ivp.substeps
    for node, step, modes in zip(nodes, steps, _modes(raw, nodes, member), strict=True):
        mode = modes[np.argmax(np.abs(modes))]
        if not step * abs(mode) > 1.0:  # or it grows slowly, as of a spring
            continue
        longest = longest_step(stepper, mode)
        if longest < step:
            return _too_long_for(mode, raw, node, step, longest)
    return ""


def _too_long_for(
    mode: complex, raw: RawTrajectories, node: int, step: float, longest: float
) -> str:
    return (
        f"the step of {step:.9g} s is too long for the mode {eigenvalue(mode)} 1/s at "
        f"t = {raw.ivp.time[node]:g} s: use steps of at most {rounded_down(longest)} s "
        f"(substeps={int(np.ceil(raw.ivp.substeps * step / longest))}) or method='radau-5'"
    )


def longest_step(stepper: Stepper, mode: complex) -> float:
    """Longest explicit step for which x' = mode x does not grow [s].

    Infinite for a mode that grows by itself, and for implicit methods.
    """
    if not stepper.explicit or not (mode.real <= 0.0 and abs(mode) > 0.0):
        return np.inf
    *matrix, weights = np.array(stepper.tableau.a)
    stages = len(weights)
    powers = [np.ones(stages)]  # powers of the matrix, times ones
    for _ in range(stages - 1):
        powers.append(np.array(matrix) @ powers[-1])
    radius = 1e-3 * np.arange(1, 1000 * stages)
    z = radius * mode / abs(mode)
    growth = np.abs(np.polyval([*(weights @ row for row in reversed(powers)), 1.0], z))
    unstable = growth > 1.0 + 1e-12
    return float(radius[max(int(np.argmax(unstable)) - 1, 0)] / abs(mode))


def rounded_down(value: float) -> str:
    """Positive number as text with two digits, rounded down."""
    unit = 10.0 ** (np.floor(np.log10(value)) - 1.0)
    return f"{np.floor(value / unit) * unit:.2g}"


def modes_at(raw: RawTrajectories, node: int, member: int = 0) -> NDArray[np.complex128]:
    """Eigenvalues of d x'/d x [1/s] at a node, by finite differences; NaN if it is not finite."""
    return _modes(raw, [node], member)[0]


def _modes(raw: RawTrajectories, nodes: Sequence[int], member: int) -> NDArray[np.complex128]:
    """Eigenvalues as `modes_at` at several nodes, (nodes, n)."""
    stepper, ivp, x = raw.stepper, raw.ivp, raw.states[:, member, nodes].T
    count, n = x.shape
    steps = 1e-6 * np.maximum(1.0, np.abs(x))
    sides = steps[:, None, :] * np.eye(n)  # by the state that is moved
    points = x[:, None, None, :] + np.stack([sides, -sides], axis=1)
    inputs = [
        samples[member if len(samples) > 1 else 0, np.multiply(nodes, 3 if kind == PARABOLA else 1)]
        for samples, kind in ivp.inputs
    ]
    parameters = ivp.parameters[member if len(ivp.parameters) > 1 else 0][:, None]
    rows = (np.reshape(inputs, (len(inputs), count)), ivp.time[nodes][None])
    given = [np.repeat(row, 2 * n, axis=1) for row in rows]
    if stepper.about.varying:
        parameters = np.repeat(parameters, 2 * n * count, axis=1)
    point = [points.reshape(-1, n).T, given[0], parameters, given[1]]
    rates = mapped(stepper.library, "rhs", [*point, *stepper.apart], n)
    with np.errstate(invalid="ignore"):
        up, down = np.moveaxis(rates.T.reshape(count, 2, n, n), 1, 0)
        slopes = (up - down) / (2.0 * steps[:, :, None])  # by state and rate, of which modes are
    lost: NDArray[np.bool_] = np.asarray(~np.isfinite(slopes).all(axis=(1, 2)))
    found = np.linalg.eigvals(np.where(lost[:, None, None], 0.0, slopes)).astype(np.complex128)
    found[lost] = np.nan
    return found


def mapped(library: Library, kernel: str, arguments: list[Array], n_out: int) -> Array:
    """Values (n_out, N) of a kernel at many points: arguments (rows, N), or (rows, 1) if they are
    equal everywhere."""
    N = max(argument.shape[1] for argument in arguments)
    given = [
        (np.ascontiguousarray(a).ravel(), 0, a.shape[1] if a.shape[1] == N else 1)
        for a in arguments
    ]
    out = np.empty(n_out * N)
    call = Call(library, kernel, N, given, (), rows(n_out, N), out.size)
    Plan([call], [], out.size)((), out)
    return out.reshape(n_out, N)
