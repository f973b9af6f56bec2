"""Time stepping with compiled kernels: trajectories, ensembles, and why they end early."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.interrupts import interruptible
from kinesym.runtime.library.manifest import Built, SteppingManifest, TableauManifest
from kinesym.runtime.native import HELD, PARABOLA, Call, Library, Plan, Run
from kinesym.runtime.nlp.places import rows
from kinesym.runtime.progress import node_bar
from kinesym.runtime.status import UNSTABLE, Stepping

#: Steps of all members, and operations of a vector, between two looks at the clock and at Ctrl-C.
#: Adaptive methods make a stop at nodes, so that theirs must not depend on the number of members.
_STEPS_AT_ONCE = 200_000
_WORK_AT_ONCE = 1e8
_ADAPTIVE_NODES_AT_ONCE = 4096
#: Steps of a block of members that are worth a call.
_LEAST_STEPS = 64

#: More substeps than this are no remedy; such a mode is the consequence of a divergence.
_WORTHWHILE = 1e4

#: Growth of a small error, as a power of e, from which a model counts as unstable.
_GROWTH = 20.0

#: In `Outcome.trouble`: an adaptive method needed too many steps.
STIFF = 1.0

#: No state of a body is as large as this, or has grown so much from where it began, or from 1.
_LARGEST, _LARGEST_GROWTH = 1e100, 1e30


@dataclass(frozen=True)
class Stepper:
    """A library that steps a model, and the names of what it steps.

    `loop` is the name of an explicit method, whose numbers are `tableau`, or "implicit"; parameters
    are `varying` if they may differ between members; `limits` are the sentences of what must not be
    negative; `pattern` and `solution` are places of derivatives, see kinesym.h; `work` are
    operations per step, about.
    """

    library: Library
    loop: str
    tableau: TableauManifest | None
    model: str
    states: tuple[str, ...]
    inputs: tuple[str, ...]
    parameters: tuple[str, ...]
    outputs: tuple[str, ...]
    limits: tuple[str, ...]
    values: Mapping[str, float]
    varying: bool
    outputs_need_rates: bool
    pattern: tuple[Sequence[int], Sequence[int]]
    solution: tuple[Sequence[int], Sequence[int]]
    work: float

    @classmethod
    def of(cls, built: Built, loop: str) -> Stepper:
        """From a built library."""
        about, kernels = built.manifest.of(SteppingManifest), built.manifest.kernels
        operations = {name: float(kernel.operations) for name, kernel in kernels.items()}
        named = {k: v for k, v in vars(about).items() if k not in ("solution", "methods")}
        return cls(
            library=built.library,
            loop=loop,
            solution=([i for i, _ in about.solution], [j for _, j in about.solution]),
            tableau=about.methods.get(loop),
            work=_work(loop, operations, len(about.states)),
            **named,
        )

    @property
    def adaptive(self) -> bool:
        """Whether the method chooses its steps."""
        return self.tableau is not None and bool(self.tableau.error)

    @property
    def fixed(self) -> bool:
        """Whether steps are explicit and as long as they are said to be."""
        return self.tableau is not None and not self.adaptive

    @property
    def steps_at_once(self) -> int:
        """Steps of a block of members between two looks at Ctrl-C."""
        return max(1, min(_STEPS_AT_ONCE, int(_WORK_AT_ONCE / max(self.work, 1.0))))


def _work(loop: str, operations: Mapping[str, float], n: int) -> float:
    """Operations of a step: stages of an explicit method, or a few steps of Newton's method."""
    if loop == "implicit":
        return 3.0 * (operations["defect"] + operations["newton"] + n**3 + 10.0 * n)
    return 7.0 * (operations["rhs"] + 10.0 * n)


@dataclass(frozen=True)
class Task:
    """What to simulate: M members on N nodes.

    time : (N,). initial : (n, M). parameters : (1 or M, r). inputs : per input its samples
    (1 or M, N), or 3 N - 2 of them with `PARABOLA`, and their kind (see kinesym.h).
    """

    time: Array
    initial: Array
    parameters: Array
    inputs: Sequence[tuple[Array, int]]
    substeps: int = 1
    tolerances: tuple[float, float] = (1e-8, 1e-10)
    threads: int = 1

    @property
    def members(self) -> int:
        """Their number M."""
        return self.initial.shape[1]


@dataclass(frozen=True)
class Outcome:
    """States (n, M, N) and outputs (n_out, M, N), NaN beyond the `reached` nodes of each member.

    trouble : (M,), the defect where Newton's method failed; adaptive: whether the steps were too
    many. interrupted : (M,), whether Ctrl-C ended it. broken : the limit that ended a member, by
    its number.
    """

    states: Array
    values: Array
    reached: NDArray[np.intp]
    trouble: Array
    interrupted: NDArray[np.bool_]
    broken: Mapping[int, str] = field(default_factory=dict)


def bind(stepper: Stepper, task: Task, states: Array, values: Array) -> tuple[Run, Outcome]:
    """The loop bound to its arrays; the initial states are put in place."""
    members = states.shape[1]
    states[:, :, 0] = task.initial
    reached = np.ones(members, dtype=np.intp)
    trouble = np.zeros(members)
    run = Run(
        stepper.library,
        stepper.pattern,
        stepper.solution,
        task.time,
        list(task.inputs),
        task.parameters,
        states,
        values,
        reached,
        np.zeros(members),
        trouble,
        task.substeps,
        *task.tolerances,
        task.threads,
        stepper.outputs_need_rates,
        _budget(stepper, task, members),
        vars(stepper.tableau) if stepper.tableau else None,
    )
    return run, Outcome(states, values, reached, trouble, np.zeros(members, dtype=bool))


def _budget(stepper: Stepper, task: Task, members: int) -> int:
    """Steps of each block of members in one call: blocks share threads."""
    blocks = -(-members // stepper.library.lanes)
    return max(
        min(_LEAST_STEPS, stepper.steps_at_once),
        stepper.steps_at_once * min(task.threads, blocks) // blocks,
    )


def simulate(stepper: Stepper, task: Task, progress: bool | None = None) -> Outcome:
    """March through all nodes; Ctrl-C ends it with what has been computed.

    Raises `ValueError` if a limit is broken at the start.
    """
    members, N = task.initial.shape[1], len(task.time)
    states = np.empty((len(stepper.states), members, N))
    n_outputs = len(stepper.outputs)
    values = np.empty((_rows(stepper), members, N))
    run, outcome = bind(stepper, task, states, values)
    with interruptible() as stop:
        check_start(stepper, task, run, values[n_outputs:, :, 0])
        _march(stepper, task, run, outcome, progress, stop)
        run.outputs(0, int(outcome.reached.max()) - 1)
        broken = broken_limits(stepper, values[n_outputs:], outcome.reached)
        for member in np.flatnonzero(outcome.reached < N):
            states[:, member, outcome.reached[member] :] = np.nan
            values[:, member, outcome.reached[member] :] = np.nan
        for k in broken:
            outcome.interrupted[k] = False
        kept = values[:n_outputs]
        if n_outputs < len(stepper.limits):  # do not keep the limits alive
            kept = kept.copy()
        return Outcome(states, kept, outcome.reached, outcome.trouble, outcome.interrupted, broken)


def _march(
    stepper: Stepper,
    task: Task,
    run: Run,
    outcome: Outcome,
    progress: bool | None,
    stop: threading.Event,
) -> None:
    """Through all nodes, or until `stop` is set: then the members that were on their way are noted
    as interrupted."""
    N, done, reached = len(task.time), 0, outcome.reached
    chunk = max(1, stepper.steps_at_once // (len(reached) * task.substeps))
    if stepper.adaptive:
        chunk = _ADAPTIVE_NODES_AT_ONCE
    with node_bar(N - 1, progress) as advance:
        while done < N - 1 and (reached == done + 1).any():
            end = min(done + chunk, N - 1)
            if not run.march(stepper.loop, done, end, stop):
                break
            advance(end - done)
            done = end
    if stop.is_set():
        outcome.interrupted[:] = (reached < N) & (reached > done) & ~run.failed


def check_start(stepper: Stepper, task: Task, run: Run, limits: Array) -> None:
    """Raise `ValueError` if one of the limits (n_limits, M) is broken by the initial state."""
    if not stepper.limits:
        return
    run.outputs(0, 0)
    for limit, member in np.argwhere(limits < 0.0):
        state = zip(stepper.states, task.initial[:, member], strict=True)
        moved = [f"{name} = {x:.4g}" for name, x in state if x]
        more = f", and {len(moved) - 24} more" if len(moved) > 24 else ""
        which = f" of member {member}" if limits.shape[1] > 1 else ""
        raise ValueError(
            f"the initial state{which} of {stepper.model} cannot be: "
            f"{stepper.limits[limit]} ({', '.join(moved[:24])}{more})"
        )


def broken_limits(stepper: Stepper, limits: Array, reached: NDArray[np.intp]) -> dict[int, str]:
    """The first limit (n_limits, M, N) that each member breaks; `reached` ends before that node."""
    found: dict[int, str] = {}
    for row, sentence in zip(limits, stepper.limits, strict=True):
        for member in np.flatnonzero((row < 0.0).any(axis=1)).tolist():
            node = int(np.argmax(row[member] < 0.0))
            if node < reached[member]:
                reached[member] = node
                found[member] = sentence
    return found


# -- why a run ended early ------------------------------------------------------------------


def failure(
    stepper: Stepper, task: Task, outcome: Outcome, member: int, undefined: str = ""
) -> str:
    """Why a member did not reach the end, in words: time, state, cause and remedy.

    undefined : an expression that is not finite there, if that is known to be the cause.
    """
    last = int(outcome.reached[member]) - 1
    time, x = task.time, outcome.states[:, member, last]
    if outcome.interrupted[member]:
        return Stepping.INTERRUPTED.said(time=time[last])
    place = f"between t = {time[last]:g} and {time[last + 1]:g} s"
    state = ", ".join(f"{k} = {v:.4g}" for k, v in list(zip(stepper.states, x, strict=True))[:12])
    if len(x) > 12:
        state += f", and {len(x) - 12} more"
    step = (time[last + 1] - time[last]) / task.substeps
    if undefined or member in outcome.broken:
        advice = _unstable(stepper, task, outcome, member, step) if stepper.fixed else ""
        more = f"; but {advice}" if advice.startswith("the step of") else ""
        status, cause = Stepping.NOT_POSSIBLE, f"{undefined or outcome.broken[member]}{more}"
    elif not stepper.fixed and implausible(outcome.states[:, member, 0], x).any():
        status, cause = Stepping.DIVERGED, UNSTABLE
    elif stepper.loop == "implicit":
        status, cause = Stepping.NEWTON, ""
    elif stepper.adaptive:
        stiff = outcome.trouble[member] == STIFF
        status, cause = Stepping.STIFF if stiff else Stepping.STEP, ""
    else:
        status, cause = Stepping.DIVERGED, _unstable(stepper, task, outcome, member, step)
    words = status.said(place=place, cause=cause, defect=outcome.trouble[member], step=step)
    return f"{words}; last state {state}"


def implausible(start: Array, end: Array) -> NDArray[np.bool_]:
    """Which states are larger at the end than any plausible size, given those at the start."""
    with np.errstate(over="ignore"):
        limit = np.minimum(_LARGEST, _LARGEST_GROWTH * np.maximum(1.0, np.abs(start)))
    return np.asarray(np.abs(end) > limit)


def growth(names: Sequence[str], states: Array, time: Array) -> tuple[int, str]:
    """Where the first of those states (n, N) that are implausible at the end became so, in words;
    N and nothing if there are none."""
    for name, row in zip(names, states, strict=True):
        if implausible(row[0], row[-1]):
            node = int(np.argmax(implausible(row[0], row)))
            return node, Stepping.GREW.said(
                name=name, value=row[node], time=time[node], last=row[-1]
            )
    return len(time), ""


def cause_of_growth(stepper: Stepper, task: Task, outcome: Outcome, member: int, node: int) -> str:
    """The likely cause that a member grew beyond any plausible size at a node."""
    if not stepper.fixed:
        return UNSTABLE
    step = float(task.time[node] - task.time[node - 1]) / task.substeps
    return _unstable(stepper, task, outcome, member, step)


# -- whether a single step is enough --------------------------------------------------------

#: Steps that one is compared with, and by how much of a state they may differ.
_PARTS, _TOLERABLE = 16, 0.01


def too_long(stepper: Stepper, task: Task, outcome: Outcome) -> str:
    """Of a task with two nodes and one step between them: a sentence if shorter steps lead
    elsewhere, else nothing."""
    shorter = replace(task, substeps=_PARTS)
    states, values = np.empty_like(outcome.states), np.empty((_rows(stepper), task.members, 2))
    bind(stepper, shorter, states, values)[0].march(stepper.loop, 0, 1)
    ends, truer = outcome.states[:, :, 1], states[:, :, 1]
    size = np.maximum(np.abs(task.initial), np.abs(truer))
    size = np.maximum(size, 1e-6 * size.max(axis=0))  # what is next to nothing may differ
    wrong = np.argwhere(~(np.abs(ends - truer) <= _TOLERABLE * size))
    if not len(wrong):
        return ""
    k, member = wrong[0]
    begin, end = task.time
    of = f" of member {member}" if task.members > 1 else ""
    return (
        f"one step of {end - begin:g} s is too long: {stepper.states[k]}{of} ends at "
        f"{ends[k, member]:.4g}, with {_PARTS} steps at {truer[k, member]:.4g}; time is the "
        f"grid of nodes, for example np.linspace({begin:g}, {end:g}, 2001)"
    )


def _rows(stepper: Stepper) -> int:
    """Rows of what the kernel `outputs` gives."""
    return len(stepper.outputs) + len(stepper.limits)


# -- within an interval ---------------------------------------------------------------------


def refined(task: Task, states: Array, member: int, node: int, parts: int) -> Task:
    """One interval of one member, from its state (n, M, N) at `node`, on a grid of equal parts."""
    begin, end = task.time[node], task.time[node + 1]
    share = np.arange(parts + 1) / parts
    inputs = []
    for samples, kind in task.inputs:
        row = samples[member if len(samples) > 1 else 0]
        course = within(row, kind, node, share)
        if kind == PARABOLA:
            thirds = (np.arange(parts)[:, None] + [0.0, 0.5, 1.0]) / parts
            course = np.append(within(row, kind, node, thirds.ravel()), course[-1])
        inputs.append((np.ascontiguousarray(course)[None], kind))
    row = member if len(task.parameters) > 1 else 0
    return Task(
        begin + share * (end - begin),
        states[:, member, [node]],
        task.parameters[row : row + 1],
        inputs,
        1,
        task.tolerances,
    )


def within(samples: Array, kind: int, node: int, share: Array) -> Array:
    """An input at shares of the interval after a node; see `ks_input_at` in kinesym_step.h."""
    if kind == HELD:
        return np.full(share.shape, samples[node])
    if kind == PARABOLA:
        a, b, c = samples[3 * node : 3 * node + 3]
        rest, twice = 1.0 - share, 2.0 * share
        return rest * (1.0 - twice) * a + 2.0 * twice * rest * b + share * (twice - 1.0) * c
    return samples[node] + share * (samples[node + 1] - samples[node])


def said(reason: str, model: str = "") -> str:
    """The reason as a sentence about the simulation."""
    what = f"the simulation of {model}" if model else "the simulation"
    if reason.startswith(("diverged", "grew")):
        return f"{what} {reason}"
    if reason.startswith("interrupted"):
        return f"{what} was {reason}"
    return f"{what} ended early: {reason}"


def _unstable(stepper: Stepper, task: Task, outcome: Outcome, member: int, step: float) -> str:
    """Whether the step is too long for the fastest mode at the start or at the last state."""
    last = int(outcome.reached[member]) - 1
    spent = float(task.time[last] - task.time[0])
    for node in (0, last):
        modes = modes_at(stepper, task, outcome.states[:, member, node], node, member)
        mode, worst = modes[np.argmax(np.abs(modes))], modes[np.argmax(modes.real)]
        longest = longest_step(stepper, mode)
        if longest < step < _WORTHWHILE * longest:
            return (
                f"the step of {step:g} s is too long for the mode {eigenvalue(mode)} 1/s at "
                f"t = {task.time[node]:g} s: use steps of at most {rounded_down(longest)} s "
                f"(substeps={int(np.ceil(task.substeps * step / longest))}) or method='trapezoid'"
            )
        if worst.real * spent > _GROWTH:
            return (
                f"the model is unstable: eigenvalue {eigenvalue(worst)} 1/s at "
                f"t = {task.time[node]:g} s"
            )
    return f"the model is unstable, or the step of {step:g} s too long (raise substeps)"


def eigenvalue(mode: complex) -> str:
    """A mode [1/s] as text, a real one without its imaginary part."""
    return f"{mode.real:.4g}" if mode.imag == 0.0 else f"{mode:.4g}"


def longest_step(stepper: Stepper, mode: complex) -> float:
    """The longest explicit step for which x' = mode x does not grow [s].

    Infinite for a mode that grows by itself, and for implicit methods.
    """
    if stepper.tableau is None or not (mode.real <= 0.0 and abs(mode) > 0.0):
        return np.inf
    *matrix, weights = np.array(stepper.tableau.a)
    stages = len(weights)
    powers = [np.ones(stages)]  # of the matrix, times ones
    for _ in range(stages - 1):
        powers.append(np.array(matrix) @ powers[-1])
    radius = 1e-3 * np.arange(1, 1000 * stages)
    z = radius * mode / abs(mode)
    growth = np.abs(np.polyval([*(weights @ row for row in reversed(powers)), 1.0], z))
    unstable = growth > 1.0 + 1e-12
    return float(radius[max(int(np.argmax(unstable)) - 1, 0)] / abs(mode))


def rounded_down(value: float) -> str:
    """A positive number with two digits, not larger than it is."""
    unit = 10.0 ** (np.floor(np.log10(value)) - 1.0)
    return f"{np.floor(value / unit) * unit:.2g}"


def modes_at(
    stepper: Stepper, task: Task, x: Array, node: int, member: int = 0
) -> NDArray[np.complex128]:
    """The eigenvalues of d x'/d x [1/s] at a state, by differences; NaN if it is not finite."""
    n = len(x)
    steps = 1e-6 * np.maximum(1.0, np.abs(x))
    points = x[:, None] + np.hstack([np.diag(steps), -np.diag(steps)])
    inputs = [
        samples[member if len(samples) > 1 else 0, 3 * node if kind == PARABOLA else node]
        for samples, kind in task.inputs
    ]
    parameters = task.parameters[member if len(task.parameters) > 1 else 0]
    rates = evaluate_rhs(stepper, points, np.array(inputs), parameters, float(task.time[node]))
    with np.errstate(invalid="ignore"):
        matrix = (rates[:, :n] - rates[:, n:]) / (2.0 * steps)
    if not np.isfinite(matrix).all():
        return np.full(n, np.nan, dtype=np.complex128)
    return np.asarray(np.linalg.eigvals(matrix), dtype=np.complex128)


def evaluate_rhs(stepper: Stepper, x: Array, u: Array, p: Array, t: float) -> Array:
    """x' at the points x (n, k) for one input u (m,), parameters p (r,) and time."""
    n, count = x.shape
    out = np.empty(n * count)
    given = (np.ascontiguousarray(x), np.repeat(u, count), p, np.full(count, t))
    arguments = [(a.ravel(), 0, count) for a in given]
    if stepper.varying:
        arguments[2] = (np.repeat(p, count), 0, count)
    else:
        arguments[2] = (np.ascontiguousarray(p), 0, 1)
    call = Call(stepper.library, "rhs", count, arguments, (), rows(n, count), out.size)
    Plan([call], [], out.size)((), out)
    return out.reshape(n, count)
