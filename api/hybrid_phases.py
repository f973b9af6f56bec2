"""Direct collocation of a hybrid model whose sequence of phases is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import sympy as sp

from kinesym.collocation import Collocation
from kinesym.runtime.checks import count, finite
from kinesym.runtime.experiment import Experiment
from kinesym.runtime.solution import Solution
from kinesym.runtime.trajectory import KINDS, Trajectory
from kinesym.symbolic.expression import real_number
from kinesym.symbolic.given import check_kind, listed, listed_of, mapping, shown
from kinesym.symbolic.hybrid import Hybrid, flags_of
from kinesym.symbolic.names import by_name
from kinesym.symbolic.objective import Objective, at_end, at_start
from kinesym.task import conditions


@dataclass(frozen=True)
class Phase:
    """A part of a motion between two events.

    closed : contacts that press throughout, and do not slide if they have friction, unless `loose`,
    as where another point of the same body holds it already. ignored : open ones that may be below
    the ground. duration : (low, high) [s]. nodes : of the grid. modes : those that differ from the
    model's. inputs : given ones, numbers or (nodes,). hits : contacts that are hit at its start, so
    that impulses act there; by default, where a contact closes, all that are closed.

    Raises `ValueError` for what is none of these.
    """

    closed: Sequence[str] = ()
    duration: tuple[float, float] = (1e-3, 10.0)
    nodes: int = 41
    modes: Mapping[Any, float] = field(default_factory=dict)
    inputs: Mapping[Any, Any] = field(default_factory=dict)
    hits: Sequence[str] | None = None
    loose: Sequence[str] = ()
    ignored: Sequence[str] = ()

    def __post_init__(self) -> None:
        for group in ("closed", "loose", "ignored", "hits"):
            if group != "hits" or self.hits is not None:
                listed(getattr(self, group), f"{group} of a phase")
        for group in ("modes", "inputs"):
            mapping(getattr(self, group), f"{group} of a phase")
        object.__setattr__(self, "nodes", count(self.nodes, "nodes of a phase", least=2))
        if not isinstance(self.duration, (tuple, list)):
            raise ValueError(
                f"duration must be (low, high) with 0 < low <= high, got {shown(self.duration)}"
            )
        Experiment(nodes=2, duration=self.duration)


def phases(
    hybrid: Hybrid,
    sequence: Sequence[Phase],
    unknown: Mapping[Any, Any] | None = None,
    known: Mapping[Any, float] | None = None,
    objective: Objective | None = None,
    bounds: Mapping[Any, Any] | None = None,
    start: Sequence[Any] = (),
    end: Sequence[Any] = (),
    links: Sequence[Any] = (),
    cycle: Sequence[Any] = (),
    path: Sequence[Any] = (),
    unknown_inputs: Mapping[Any, Any] | None = None,
    drift: float = 1e-4,
) -> Collocation:
    """One nonlinear program for all phases, with free durations: trial k of it is phase k.

    Contact forces are unknown: where a contact is closed it has no acceleration and does not pull,
    where it is open there is no force and it is not below the ground. A phase ends where a contact
    of the next one lands, or else where the force of one that opens is zero. From phase to phase
    the states continue through the impacts of `hits`, by the same law as in a simulation. Without
    contacts say in `links` how they do, for example by a reset.

    drift : how far a point may be below the ground when it is open [m]: what it has sunk by the
    error of the rule while it pressed. start, end : conditions on `at_start(...)` of the first and
    `at_end(...)` of the last phase. links, cycle : on `at_end(...)` of a phase and `at_start(...)`
    of the next; of the last and the first. The rest as in `Collocation`, with the trapezoidal rule.

    Raises `ValueError` for what does not fit.
    """
    check_kind(hybrid, Hybrid, "kinesym.hybrid")
    steps = listed_of(sequence, Phase, "the sequence")
    if not steps:
        raise ValueError("a motion needs at least one phase")
    for given, what in ((start, "start"), (end, "end"), (path, "path")):
        conditions(given, f"{what} condition")
    if finite(drift, "drift") < 0.0:
        raise ValueError(f"drift must not be negative, got {drift}")
    hits = [_hits(hybrid, steps, k) for k in range(len(steps))]
    trials = [_trial(hybrid, phase, hit) for phase, hit in zip(steps, hits, strict=True)]
    contacts = hybrid.contacts
    free = {contact.force: (0.0, None) for contact in contacts}
    free |= {contact.friction: None for contact in hybrid.tangential}
    free |= mapping({} if unknown_inputs is None else unknown_inputs, "unknown_inputs")
    heights = [contact.height for contact in contacts]
    boundary = [*start, *end]
    boundary += [at_start(height) for height in heights]
    boundary += [at_end(height) for height in heights]
    boundary += [at_end(contact.force) for contact in contacts]
    problem = Collocation(
        hybrid.model,
        trials,
        unknown,
        known,
        "trapezoid",
        objective or Objective(),
        bounds,
        boundary,
        [*((height, 0.0, None) for height in heights), *_cones(hybrid), *path],
        free,
        links=links,
        cycle=cycle,
        contacts=contacts,
    )
    if len(steps) > 1 and not problem.layout.linked:
        raise ValueError(
            "nothing says how the states continue from phase to phase; give links=[...]"
        )
    _phase_bounds(problem, hybrid, steps, hits, list(start), list(end), drift)
    return problem


def joined(solution: Solution) -> Trajectory:
    """The phases of a solution one after the other, time counted on; where they meet there are two
    nodes at the same time."""
    check_kind(solution, Solution, "kinesym")
    trials, begin = [], 0.0
    for trial in solution.trials:
        trials.append(replace(trial, time=trial.time + begin))
        begin = float(trials[-1].time[-1])
    groups: dict[str, Any] = {
        kind: {
            name: np.concatenate([getattr(trial, kind)[name] for trial in trials])
            for name in getattr(trials[0], kind)
        }
        for kind in KINDS
    }
    time = np.concatenate([trial.time for trial in trials])
    return replace(trials[0], time=time, measurements={}, std={}, **groups)


def _cones(hybrid: Hybrid) -> list[tuple[sp.Expr, float, None]]:
    """Friction of contacts that stick by Coulomb's law."""
    rows = [
        (c.friction_coefficient * c.force + sign * c.friction, 0.0, None)
        for c in hybrid.tangential
        if c.law == "coulomb"
        for sign in (1, -1)
    ]
    return rows


def _hits(hybrid: Hybrid, steps: Sequence[Phase], k: int) -> tuple[str, ...]:
    names = [contact.name for contact in hybrid.contacts]
    for name in (*steps[k].closed, *(steps[k].hits or ()), *steps[k].loose, *steps[k].ignored):
        if name not in names:
            raise ValueError(
                f"phase {k}: there is no contact {name!r}; there are {', '.join(names) or 'none'}"
            )
    given, before = steps[k].hits, set(steps[k - 1].closed) if k else set()
    if given and k == 0:
        raise ValueError(
            "phase 0: nothing comes before the first phase, so nothing is hit there; "
            "put the phase that ends with the impact first"
        )
    lands = k > 0 and set(steps[k].closed) - before
    hits = tuple(given) if given is not None else tuple(steps[k].closed) if lands else ()
    bounces = {c.restitution for c in hybrid.contacts if c.name in hits and c.name not in before}
    if len(bounces) > 1:
        raise ValueError(
            f"phase {k}: contacts that are hit together need the same restitution, "
            f"got {', '.join(map(str, sorted(bounces)))}"
        )
    return hits


def _trial(hybrid: Hybrid, phase: Phase, hits: Sequence[str]) -> Experiment:
    modes = {**hybrid.modes, **by_name(phase.modes, list(hybrid.modes), "modes")}
    given = by_name(phase.inputs, hybrid.given, "inputs")
    held = [name for name in phase.closed if name not in phase.loose]
    groups = {"closed": phase.closed, "hit": hits, "stuck": held}
    flags = {
        flag: float(contact.name in groups[flag.split("_", 1)[0]])
        for contact in hybrid.contacts
        for flag in flags_of(contact)
    }
    rows = {
        name: real_number(value, f"input {name}") if np.ndim(value) == 0 else value
        for name, value in {**modes, **given, **flags}.items()
    }
    return Experiment(nodes=phase.nodes, duration=phase.duration, inputs=rows)


def _phase_bounds(
    problem: Collocation,
    hybrid: Hybrid,
    steps: Sequence[Phase],
    hits: Sequence[Sequence[str]],
    start: list[Any],
    end: list[Any],
    drift: float,
) -> None:
    """Bounds of conditions that hold in some phases only; elsewhere they are free."""
    layout, contacts = problem.layout, hybrid.contacts
    low, high = problem.constraint_bounds
    _, start_pairs = conditions(start, "start condition")
    _, end_pairs = conditions(end, "end condition")
    anything = (-np.inf, np.inf)
    for k, phase in enumerate(steps):
        first, last = k == 0, k == len(steps) - 1
        after = () if last else steps[k + 1].closed
        landing = () if last else set(hits[k + 1]) - set(phase.closed)
        shut = [c.name in phase.closed for c in contacts]
        held = set(phase.closed) - set(phase.loose)
        rests = [*shut, *(c.name in held for c in hybrid.tangential)]
        pairs = [(0.0, 0.0) if first and rest else anything for rest in rests]
        pairs += [pair if first else anything for pair in start_pairs]
        pairs += [pair if last else anything for pair in end_pairs]
        pairs += [(0.0, 0.0) if first and closed else anything for closed in shut]
        pairs += [(0.0, 0.0) if c.name in landing else anything for c in contacts]
        lets_go = not last and not hits[k + 1]  # an impact may open a contact that presses
        pairs += [
            (0.0, 0.0) if closed and lets_go and c.name not in after else anything
            for closed, c in zip(shut, contacts, strict=True)
        ]
        begin = layout.constraint_offsets[k, "ends"]
        low[begin : begin + len(pairs)], high[begin : begin + len(pairs)] = (
            np.array(pairs).reshape(-1, 2).T
        )
        rows = layout.constraint_offsets[k, "node"] + len(hybrid.forces) * phase.nodes
        for row, contact in enumerate(contacts):
            here = slice(rows + row * phase.nodes, rows + (row + 1) * phase.nodes)
            free = contact.name in (*phase.closed, *phase.ignored)
            low[here] = -np.inf if free else -drift
