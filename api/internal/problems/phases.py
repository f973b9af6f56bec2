"""Phases of one motion, `ks.Phases`, for collocation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, NoReturn

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.base.checks import check_kind, count, finite, listed, mapping, shown
from kinesym.base.notebook import Displayed
from kinesym.base.quiet import warn
from kinesym.internal.problems.checked_trials import checked_trials
from kinesym.internal.problems.conditions import Condition, conditions
from kinesym.internal.problems.controls import Held, Step, check_pieces, instants_of
from kinesym.internal.problems.interior_conditions import Moment
from kinesym.runtime.nlp.bounds import ALWAYS, Limits, RateLimits
from kinesym.runtime.signals.experiment import MOST_NODES, Experiment
from kinesym.symbolic.derivation import all_atoms
from kinesym.symbolic.expression import atoms_of, parts_of, real_number
from kinesym.symbolic.hybrid import Contact, Hybrid, flags_of, holds_of
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import by_name, name_of, names_of, t
from kinesym.symbolic.objective import Objective, at_end, at_start
from kinesym.symbolic.problem import Problem, algebraic_states

Pair = tuple[float, float]
_FREE = (-np.inf, np.inf)
#: Residual of a constraint that initial values may leave, relative to its largest term.
_OFF = 1e-6


@dataclass(frozen=True)
class Phase:
    """A part of the motion of a `Hybrid` between two events.

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
        object.__setattr__(self, "nodes", count(self.nodes, "nodes of a phase", 2, MOST_NODES))
        if not isinstance(self.duration, (tuple, list)):
            raise ValueError(
                f"duration must be (low, high) with 0 < low <= high, got {shown(self.duration)}"
            )
        Experiment(nodes=2, duration=self.duration)


@dataclass(frozen=True, repr=False)
class Phases(Displayed):
    """Phases of one motion: trial k of a problem is phase k.

    sequence : `Experiment`s for a `Model`, or a list of models, one for each phase; `Phase`s for a
    `Hybrid`. maps : of models, for each joint in turn the start of the next phase, {state:
    expression of the end of the phase before}, as {m: m - shell}, None where it is free; states
    that are not in it continue. links : further conditions on `at_end(...)` of a phase and
    `at_start(...)` of the next, or without maps, of one model, all of them; joints : such
    conditions of each joint in turn, a list each; cycle : of the last and the first. start, end :
    conditions on `at_start(...)` of the first and `at_end(...)` of the last phase. drift : how far
    a point of a `Hybrid` may be below the ground when it is open [m]: what it has sunk by the error
    of the rule while it pressed.

    In phases of unknown duration `t` counts from the start of each, and a warning says so where it
    stands in an equation or condition. Durations of a `Phase` are free. Contact forces are unknown:
    where a contact is closed it has no acceleration and does not pull, where it is open there is no
    force and it is not below the ground. A phase ends where a contact of the next one lands, or
    else where the force of one that opens is zero. From phase to phase the states continue through
    the impacts of `hits`, by the same law as in a simulation.

    Models of phases may have states and inputs that others lack, and parameters with other values:
    results have NaN where there is nothing. Conditions and bounds hold in the phases that have all
    that they are about. A terminal cost is at the end of the last phase, what is of `at_start(...)`
    alone at the start of the first, and `t` in it the time of the motion. A list of objectives has
    one for each phase, with ends of its own.

    Raises `ValueError` for what does not fit.
    """

    sequence: Sequence[Experiment] | Sequence[Phase]
    links: Sequence[Any] = ()
    cycle: Sequence[Any] = ()
    start: Sequence[Any] = ()
    end: Sequence[Any] = ()
    drift: float = 1e-4
    maps: Sequence[Mapping[Any, Any]] | None = None
    joints: Sequence[Sequence[Any]] = ()

    def __repr__(self) -> str:
        return f"<motion in {len(self.sequence)} phases>"

    def __post_init__(self) -> None:
        steps = tuple(self.sequence) if isinstance(self.sequence, (list, tuple)) else (None,)
        if not steps:
            raise ValueError("a motion needs at least one phase")
        if not any(all(isinstance(step, k) for step in steps) for k in (Phase, Experiment)):
            raise ValueError(
                "the sequence must be a list of Phase(...) for a Hybrid, or of Experiment(...) for "
                f"a Model, got {shown(self.sequence)}"
            )
        object.__setattr__(self, "sequence", steps)
        for group, what in (
            ("links", "link"),
            ("cycle", "cycle condition"),
            ("start", "start condition"),
            ("end", "end condition"),
        ):
            object.__setattr__(self, group, conditions(getattr(self, group), what))
        if self.maps is not None:
            object.__setattr__(self, "maps", listed(self.maps, "the maps of phases"))
        rows = listed(self.joints, "the conditions of joints")
        found = [conditions(row, f"condition of joint {k}") for k, row in enumerate(rows)]
        object.__setattr__(self, "joints", found)
        if rows and len(rows) != len(steps) - 1:
            raise ValueError(
                f"there are conditions of {len(rows)} joints of {len(steps)} phases; give a list "
                "for each joint, [] for none"
            )
        if finite(self.drift, "drift") < 0.0:
            raise ValueError(f"drift must not be negative, got {self.drift}")


class Row(NamedTuple):
    """A condition (None for one of a contact), its bounds in each trial, and when it holds."""

    expression: sp.Expr | None
    bounds: Sequence[Pair]
    span: Pair = ALWAYS


@dataclass(frozen=True)
class Posed:
    """Trials of a model and the conditions on them.

    objective : the one that is meant if none is given.
    """

    model: Model
    trials: Sequence[Experiment]
    unknown_inputs: Mapping[Any, Any] = field(default_factory=dict)
    path: Sequence[Row] = ()
    boundary: Sequence[Row] = ()
    links: Sequence[Row] = ()
    cycle: Sequence[Row] = ()
    contacts: Sequence[Contact] = ()
    objective: Objective | None = None
    steps: Sequence[Step] = ()
    moments: Sequence[Moment] = ()

    @property
    def conditions(self) -> dict[str, list[Any]]:
        """The expressions of all conditions by kind, those of steps with their inputs."""
        kinds = ("path", "boundary", "links", "cycle")
        found: dict[str, list[Any]] = {
            kind: [row.expression for row in getattr(self, kind) if row.expression is not None]
            for kind in kinds
        }
        return {**found, "steps": [step[:2] for step in self.steps], "moments": [*self.moments]}

    def bounds(self, problem: Problem) -> dict[str, list[list[Limits | RateLimits]]]:
        """Bounds of the last constraints of each family of points, by trial."""
        families: dict[str, list[tuple[Row, float]]] = {
            "node": [(self.path[k], 0.0) for k in problem.path_at_nodes],
            "interval": [
                (self.path[k], problem.place_within(k, place)) for k, place in problem.path_within
            ],
        }
        for name, more in (("ends", self.boundary), ("link", self.links), ("cycle", self.cycle)):
            families[name] = [(row, 0.0) for row in more]
        found: dict[str, list[list[Limits | RateLimits]]] = {
            name: [
                [Limits(*row.bounds[k], row.span, place) for row, place in rows]
                for k in range(len(self.trials))
            ]
            for name, rows in families.items()
        }
        steps = [
            *(step.limits for step in self.steps),
            *[RateLimits(split=True)] * len(self.moments),
        ]
        return {**found, "interval": [[*steps, *row] for row in found["interval"]]}

    @property
    def instants(self) -> list[float]:
        """The times at which a condition begins or ends to hold."""
        times = {time for row in self.path for time in row.span if np.isfinite(time)}
        return sorted({*times, *instants_of(self.steps, self.trials)})

    def check_spans(self, problem: Problem) -> None:
        """Raise `ValueError` for a condition at times at which a trial has no node and no stage."""
        check_pieces(self.steps, self.trials)
        for number, row in enumerate(self.path):
            places = [problem.place_within(k, c) for k, c in problem.path_within if k == number]
            places += [0.0] * (number in problem.path_at_nodes)
            for k, trial in enumerate(self.trials):
                limits = [Limits(0.0, 0.0, row.span, place) for place in places]
                if not any(limit.holds(trial.grid).any() for limit in limits):
                    _no_instant(number, row.span, k, trial)


def _no_instant(number: int, span: Pair, k: int, trial: Experiment) -> NoReturn:
    unit = " of the duration" if trial.duration else " s"
    begin, end = span
    when = f"at {begin:g}{unit}" if begin == end else f"from {begin:g} to {end:g}{unit}"
    nearest = np.sort(trial.grid[np.argsort(np.abs(trial.grid - begin))[:2]])
    raise ValueError(
        f"path condition {number} is to hold {when}, where trial {k} has no node; the nearest are "
        f"at {nearest[0]:g} and {nearest[1]:g}: add that time to the grid"
    )


def posed(
    system: Model | Hybrid,
    trials: Experiment | Sequence[Experiment] | Phases,
    unknown_inputs: Mapping[Any, Any] | None,
    path: Sequence[Any],
    boundary: Sequence[Any],
    steps: Sequence[Step] = (),
    moments: Sequence[Moment] = (),
    maps: Sequence[Row] = (),
) -> Posed:
    """Trials, or phases, with conditions, maps : further links; raises `ValueError` for what does
    not fit."""
    at_nodes = conditions(path, "path condition")
    at_ends = conditions(boundary, "boundary condition")
    free = mapping({} if unknown_inputs is None else unknown_inputs, "unknown_inputs")
    make: Any = _of_phases if isinstance(trials, Phases) else _of_experiments
    made: Posed = make(system, trials)
    made = replace(made, links=[*made.links, *maps])
    count = len(made.trials)
    unknown = {**made.unknown_inputs, **free}
    rows = [*made.boundary, *_in_all(at_ends, count)]
    for time in dict.fromkeys(m.time for m in moments if made.trials[0].duration):
        rows.append(Row(at_end(t) - time, [(0.0, np.inf)] * count))  # it is before the end
    if not made.cycle:  # which would say it once more
        rows += _on_constraints(made.model, names_of(list(unknown), "unknown_inputs"), rows, made)
    return replace(
        made,
        unknown_inputs=unknown,
        path=[*made.path, *_in_all(at_nodes, count)],
        boundary=rows,
        steps=steps,
        moments=moments,
    )


def _on_constraints(
    model: Model, free: Sequence[str], conditions: Sequence[Row], made: Posed
) -> list[Row]:
    """Conditions that the constraints of a model hold at the start of each trial, or of the first
    of linked ones, as a scheme may have its equations at later nodes only; but those of which other
    conditions fix all states there, and those with unknown inputs."""
    fixed, known = set[sp.Basic](), set[sp.Basic]()
    for expression, bounds, _ in conditions:
        if expression is not None and all(low == high for low, high in bounds[:1]):
            known |= {expression, -expression}
            ends = list(expression.atoms(at_start, at_end))
            fixed |= {ends[0].args[0]} if len(ends) == 1 and ends[0].func is at_start else set()
    zero = [(0.0, 0.0)] * len(made.trials)
    zero[1:] = [_FREE if made.links else pair for pair in zero[1:]]
    rows = []
    for expression in _constraints(model):
        atoms = all_atoms(model.intermediates, expression)
        states, inputs = atoms & {*model.states}, {name_of(u) for u in atoms & {*model.inputs}}
        by_hand = {at_start(expression), expression.xreplace({x: at_start(x) for x in states})}
        if not (states <= fixed or by_hand & known or inputs & set(free)):
            rows.append(Row(at_start(expression), zero))
    return rows


def _constraints(model: Model) -> list[sp.Expr]:
    """Expressions of differential states that are zero along every motion: invariants, and
    equations without rates and algebraic states."""
    found = [model.outputs[name] for name in model.invariants]
    algebraic, driven = {*algebraic_states(model)}, set[sp.Basic]()
    for symbol, e in model.intermediates:
        driven |= {symbol} if _of_rates(e, driven) else set()
    for equation in (e for e in model.equations if not _of_rates(e, driven)):
        moving = parts_of(AppliedUndef, *model.through([equation]))
        free = not moving & algebraic and moving & {*model.states}
        if free and not {equation, -equation} & {*found}:
            found.append(equation)
    return found


def _of_rates(e: sp.Expr, driven: set[sp.Basic]) -> bool:
    """Whether an expression has derivatives, or intermediates that have."""
    atoms = atoms_of(e)
    return not driven.isdisjoint(atoms) or any(isinstance(a, sp.Derivative) for a in atoms)


def check_starts(
    model: Model, fixed: Sequence[Mapping[str, Mapping[float, float]]], known: Sequence[Any]
) -> None:
    """Raise `ValueError` if the values that conditions fix at the start of each trial violate a
    constraint of the model. fixed : see `fixed_values`; known : parameters of each trial."""
    for number, (values, parameters) in enumerate(zip(fixed, known, strict=True)):
        starts = {name: at[-np.inf] for name, at in values.items() if -np.inf in at}
        told = {**parameters, **starts}
        names = [s for s in (*model.states, *model.parameters) if name_of(s) in told]
        table = {s: sp.Float(told[name_of(s)]) for s in names}  # a term may be one of them alone
        for expression in _constraints(model):
            terms = [term.xreplace(table) for term in sp.Add.make_args(expression)]
            if not all(term.is_number for term in terms):
                continue
            size, off = max(abs(float(term)) for term in terms), abs(float(sum(terms)))
            if off > _OFF * size:
                many = f" of trial {number}" if len(fixed) > 1 else ""
                raise ValueError(
                    f"model {model.name}: what conditions fix at the start{many} violates the "
                    f"constraint {shown(expression)} = 0 by {off:.4g}; correct one of them, or "
                    "leave it out"
                )


def _of_experiments(system: Any, trials: Any) -> Posed:
    if isinstance(system, Hybrid):
        raise ValueError(
            f"an experiment does not say which contacts of {system.model.name} press when; name "
            "its phases, ks.Phases([ks.Phase(...), ...]), or take the model of the Hybrid"
        )
    return Posed(system, checked_trials(system, trials))


def _in_all(conditions: Sequence[Condition], count: int) -> list[Row]:
    return [Row(e, [(low, high)] * count, span) for e, low, high, span in conditions]


def _where(zero: Sequence[bool]) -> list[Pair]:
    """Bounds of a quantity that is zero in some phases and free in others."""
    return [(0.0, 0.0) if here else _FREE for here in zero]


def _of_phases(system: Model | Hybrid, phases: Phases) -> Posed:
    """The phases with their links, and conditions at the ends of the motion."""
    count = len(phases.sequence)
    others = [_FREE] * (count - 1)
    ends = [Row(e, [(low, high), *others]) for e, low, high, _ in phases.start]
    ends += [Row(e, [*others, (low, high)]) for e, low, high, _ in phases.end]
    steps = [step for step in phases.sequence if isinstance(step, Phase)]
    _warn_of_time(system, phases)
    if steps:
        if isinstance(system, Model):
            raise ValueError(
                f"ks.Phase is for a kinesym.hybrid.Hybrid, got {shown(system)}; phases of models "
                "are ks.Experiment(nodes=..., duration=(low, high))"
            )
        check_kind(system, Hybrid, "kinesym.hybrid")
        if phases.maps is not None:
            raise ValueError("phases with contacts continue through their impacts; leave out maps")
        made = _of_hybrid(system, steps, ends, phases.drift)
    else:
        made = replace(_of_experiments(system, phases.sequence), boundary=ends)
    if steps and count > 1 and not (phases.links or made.contacts):
        raise ValueError(
            "nothing says how the states continue from phase to phase; give links=[...]"
        )
    links = _in_all(phases.links, count)
    for k, joint in enumerate(phases.joints):
        for c in joint:
            pairs = [(c.low, c.high) if j == k else _FREE for j in range(count)]
            links.append(Row(c.expression, pairs))
    return replace(made, links=links, cycle=_in_all(phases.cycle, count))


def _warn_of_time(system: Any, phases: Phases) -> None:
    """Warn of the time in equations and conditions of phases that begin nobody knows when."""
    free = [isinstance(step, Phase) or step.free_duration for step in phases.sequence]
    model = system.model if isinstance(system, Hybrid) else system
    if len(free) < 2 or not any(free) or not isinstance(model, Model):
        return
    rows = [(f"equation {k} of {model.name}", e) for k, e in enumerate(model.equations)]
    rows += [(f"the intermediate {s}", e) for s, e in model.intermediates]
    rows += [("a condition at the end", e) for e, *_ in phases.end]
    for what, e in rows:
        if e.xreplace({f: sp.Dummy() for f in e.atoms(AppliedUndef, sp.Derivative)}).has(t):
            warn(
                f"{what} contains the time t, which counts from the start of each phase where "
                "durations are unknown; for that of the motion make it a state, x.diff(t) - 1",
                stacklevel=6,
            )
            return


def _of_hybrid(hybrid: Any, steps: Sequence[Phase], ends: Sequence[Row], drift: float) -> Posed:
    """Contact forces are unknown inputs; closed contacts do not move and do not pull."""
    contacts, tangential = hybrid.contacts, hybrid.tangential
    hits = [_hits(hybrid, steps, k) for k in range(len(steps))]
    closed = [set(step.closed) for step in steps]
    held = [now - set(step.loose) for now, step in zip(closed, steps, strict=True)]
    later = list(zip(closed[:-1], closed[1:], hits[1:], strict=True))

    cones = [  # of friction that sticks
        Condition(c.friction_coefficient * c.force + sign * c.friction, 0.0, np.inf)
        for c in tangential
        if c.law == "coulomb"
        for sign in (1, -1)
    ]

    def first(groups: Sequence[set[str]], c: Contact) -> list[Pair]:
        return _where([k == 0 and c.name in group for k, group in enumerate(groups)])

    def lands(c: Contact) -> list[Pair]:
        return _where([*(c.name in hit and c.name not in now for now, _, hit in later), False])

    def lets_go(c: Contact) -> list[Pair]:
        """An impact may open a contact that presses."""
        opens = (not hit and c.name in now and c.name not in after for now, after, hit in later)
        return _where([*opens, False])

    def above(c: Contact) -> list[Pair]:
        free = (c.name in (*step.closed, *step.ignored) for step in steps)
        return [(-np.inf if anywhere else -drift, np.inf) for anywhere in free]

    kept = [u for c in contacts if any(c.name in now for now in closed) for u in holds_of(c) if u]
    return Posed(
        hybrid.model.extended(inputs=kept),
        [_trial(hybrid, step, hit) for step, hit in zip(steps, hits, strict=True)],
        {
            **{c.force: (0.0, None) for c in contacts},
            **{c.friction: None for c in tangential},
            **{u: Held() for u in kept},
        },
        path=[*(Row(c.height, above(c)) for c in contacts), *_in_all(cones, len(steps))],
        boundary=[
            *(Row(None, first(closed, c)) for c in contacts),
            *(Row(None, first(held, c)) for c in tangential),
            *ends,
            *(Row(at_start(c.height), first(closed, c)) for c in contacts),
            *(Row(at_end(c.height), lands(c)) for c in contacts),
            *(Row(at_end(c.force), lets_go(c)) for c in contacts),
        ],
        contacts=contacts,
        objective=Objective(),
    )


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
        flag: float(contact.name in groups[kind])
        for contact in hybrid.contacts
        for kind, flag in flags_of(contact).items()
    }
    rows = {
        name: real_number(value, f"input {name}") if np.ndim(value) == 0 else value
        for name, value in {**modes, **given, **flags}.items()
    }
    return Experiment(nodes=phase.nodes, duration=phase.duration, inputs=rows)
