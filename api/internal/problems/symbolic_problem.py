"""The symbolic problem, from checked arguments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.internal.problems.checked_trials import check_signals
from kinesym.internal.problems.conditions import check_times
from kinesym.internal.problems.controls import Held, Linear
from kinesym.internal.problems.measured_terms import chosen_objective, sides_of, spreads_of
from kinesym.internal.problems.parameters import Unknown, densities_of, labels_of, logs_of, terms_of
from kinesym.internal.problems.table_checks import check_known_variables
from kinesym.runtime.nlp.owned import owned_parameters
from kinesym.runtime.signals.experiment import Experiment
from kinesym.symbolic.derivation import all_atoms
from kinesym.symbolic.expression import atoms_of
from kinesym.symbolic.hybrid import Contact, flags_of
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of, suggest, t
from kinesym.symbolic.objective import (
    Objective,
)
from kinesym.symbolic.problem import NO_RESETS, Problem, Resets, measured_expressions
from kinesym.symbolic.schemes import CollocationScheme, ExplicitScheme

#: Samples of a measurement at times of its own that an interval may hold: each is code.
MOST_SLOTS = 32


def symbolic_problem(
    model: Model,
    trials: Sequence[Experiment],
    unknown: Mapping[str, Unknown],
    unknown_inputs: Mapping[str, Any],
    scheme: CollocationScheme | ExplicitScheme,
    objective: Objective | None,
    contacts: Sequence[Contact] = (),
    delays: Mapping[str, sp.Symbol] | None = None,
    steps: Sequence[tuple[AppliedUndef, sp.Expr]] = (),
    moments: Sequence[tuple[AppliedUndef, sp.Expr, sp.Symbol]] = (),
    resets: Resets = NO_RESETS,
    **asked: Sequence[sp.Expr],
) -> Problem:
    """Check the trials against the model and collect what the transcription needs to know.

    contacts, delays, steps, moments, resets, asked : path, boundary, links and cycle, see
    `kinesym.symbolic.problem.Problem`.
    """
    check_signals(trials)
    if asked.get("links") and len(trials) == 1:
        raise ValueError(
            "links join each trial to the next one, but there is only one; there use "
            "boundary=[at_start(x) - at_end(x)], or cycle=[...]"
        )
    chosen = chosen_objective(objective)
    for what, cost in (("integrand", chosen.integrand), ("terminal cost", chosen.terminal)):
        check_times(cost, what)
    flags = [sp.Function(flag)(t) for c in contacts for flag in flags_of(c).values()]
    used = [e for each in asked.values() for e in each]
    used += [chosen.integrand, chosen.terminal, *flags, *(e for _, e, _ in moments)]
    owners = labels_of(unknown)
    for name in owners if contacts else ():
        raise ValueError(
            f"parameter {name} has a value per owner, but the phases of a hybrid model share all "
            "parameters: impacts join them; give one value"
        )
    _check_links(model, asked, [*owners, *trials[0].parameters])
    owned_parameters(list(unknown), owners, trials)  # says where a label is missing
    signals = _signals(model, trials, unknown_inputs, used)
    measured = list(dict.fromkeys(name for trial in trials for name in trial.measured))
    if len({trial.free_duration for trial in trials}) > 1:
        raise ValueError("either all trials have an unknown duration or none")
    problem = Problem(
        model=model,
        scheme=scheme,
        objective=chosen,
        unknown_parameters=[p for p in model.parameters if name_of(p) in unknown],
        unknown_inputs=[u for u in model.inputs if name_of(u) in unknown_inputs],
        signals=signals,
        measurements=measured_expressions(model, measured),
        spreads=spreads_of(model, trials, chosen),
        sides=sides_of(trials, chosen),
        held=_held(trials, unknown_inputs),
        linear=_linear(scheme, unknown_inputs, measured),
        free_duration=trials[0].free_duration,
        contacts=contacts,
        owners=owners,
        log_scale=frozenset(logs_of(unknown)),
        priors=terms_of(densities_of(unknown)),
        slots=_slots(trials, delays or {}),
        delays=delays or {},
        steps=steps,
        moments=moments,
        resets=resets,
        **asked,
    )
    problem = replace(problem, solved=_at_jumps(problem, trials))
    for number, trial in enumerate(trials if problem.tables.functions else ()):
        if not trial.free_duration:
            where = f" of trial {number}"
            check_known_variables(problem.tables, trial.signals, trial.grid, where)
    return problem


def _at_jumps(problem: Problem, trials: Sequence[Experiment]) -> frozenset[str]:
    """Measurements with x' or algebraic states that have a sample where an input jumps with which
    they do; none where the equations have inputs without values at nodes, which tell them."""
    inside = ({*problem.staged} - {*problem.late}) & {*problem.model.inputs}
    if inside & all_atoms(problem.model.intermediates, sp.Tuple(*problem.model.equations)):
        return frozenset()
    free = {name_of(u) for u in problem.unknown_inputs} & problem.held
    found = set[str]()
    for trial in trials:
        jumps = {name: trial.jumps([name]) for name in trial.signals}
        jumps |= {name: np.arange(trial.n_nodes) > 0 for name in free}
        for name in problem.measurements.keys() & trial.measurements.keys() - problem.slots.keys():
            there = np.isfinite(trial.measurements[name])
            inputs = [u for u, nodes in jumps.items() if (nodes & there).any()]
            if inputs and any(problem.follows(e, inputs) for e in problem.behind(name)):
                found.add(name)
    return frozenset(found)


def _slots(trials: Sequence[Experiment], delays: Mapping[str, Any]) -> dict[str, int]:
    """Largest number of samples in an interval, for each measurement at times of its own; with
    unknown delays, wherever these place them."""
    found: dict[str, int] = {}
    for name in dict.fromkeys(name for trial in trials for name in trial.timed):
        for number, trial in enumerate(trials):
            own = trial.timed_samples(name)
            if own is None:
                continue
            counts = np.bincount(own.places(trial.grid)[0], minlength=1)
            k, most = int(np.argmax(counts)), int(counts.max())
            if name in delays:
                steps = np.diff(trial.grid)
                k, most = int(np.argmax(steps)), own.most_within(float(steps.max()))
            if most > MOST_SLOTS:
                raise ValueError(
                    f"measurement {name} of trial {number} has {most} samples between the "
                    f"nodes at {trial.grid[k]:g} and {trial.grid[k + 1]:g}, more than "
                    f"{MOST_SLOTS}; give a finer grid, or means of neighbouring samples"
                )
            found[name] = max(found.get(name, 1), most)
    return found


def _check_links(
    model: Model,
    asked: Mapping[str, Sequence[sp.Expr]],
    own: Sequence[str],
) -> None:
    """Raise `ValueError` for links with parameters that differ between trials."""
    links = [*asked.get("links", ()), *asked.get("cycle", ())]
    for symbol in sorted(atoms_of(*model.through(links)), key=str):
        if isinstance(symbol, sp.Symbol) and name_of(symbol) in own:
            raise ValueError(
                f"a link or cycle condition depends on parameter {symbol}, which has a value of "
                "its own on each side; write it with parameters that the trials share"
            )


def _signals(
    model: Model,
    trials: Sequence[Experiment],
    unknown_inputs: Mapping[str, Any],
    conditions: Iterable[sp.Expr],
) -> list[AppliedUndef]:
    """Known trajectories: known inputs, and functions of time in objective and conditions only."""
    known = [u for u in model.inputs if name_of(u) not in unknown_inputs]
    declared = {*model.states, *model.inputs}
    found = set().union(*(c.atoms(AppliedUndef) for c in conditions))
    extra = sorted(found - declared, key=name_of)
    names = [name_of(s) for s in (*known, *extra)]
    for number, trial in enumerate(trials):
        for name in names:
            if name not in trial.inputs:
                raise ValueError(
                    f"input {name} has no data in trial {number}; give inputs={{{name}: ...}} in "
                    f"the experiment, or make it unknown with unknown_inputs"
                    f"{_only_outputs(model, name)}"
                )
        for name in trial.inputs:
            if name not in names:
                also = " because it is unknown" if name in unknown_inputs else ""
                raise ValueError(
                    f"trial {number} has data for input {name}, which is not used{also}; "
                    f"{suggest(name, names)}"
                )
    return [*known, *extra]


def _only_outputs(model: Model, name: str) -> str:
    """Part of a sentence: outputs that need an input which no equation needs."""
    needing: set[sp.Basic] = {u for u in model.inputs if name_of(u) == name}
    for symbol, expression in model.intermediates:
        if expression.atoms(sp.Symbol, AppliedUndef) & needing:
            needing.add(symbol)
    if any(e.atoms(sp.Symbol, AppliedUndef) & needing for e in model.equations):
        return ""
    outputs = [k for k, e in model.outputs.items() if e.atoms(sp.Symbol, AppliedUndef) & needing]
    more = ", ..." if len(outputs) > 4 else ""
    return f"; only outputs need it: {', '.join(outputs[:4])}{more}" if outputs else ""


def _held(trials: Sequence[Experiment], unknown_inputs: Mapping[str, Any]) -> frozenset[str]:
    """Inputs that are constant between nodes, in all trials."""
    for number, trial in enumerate(trials):
        for name in sorted(trials[0].held ^ trial.held):
            ways = ["held" if name in some.held else "linear" for some in (trials[0], trial)]
            raise ValueError(
                f"all trials must have the same between the samples of an input: {name} is "
                f"{ways[0]} in trial 0 and {ways[1]} in trial {number}; give held signals in all"
            )
    free = {name for name, bounds in unknown_inputs.items() if isinstance(bounds, Held)}
    return trials[0].held | free


def _linear(
    scheme: CollocationScheme | ExplicitScheme,
    unknown_inputs: Mapping[str, Any],
    measured: Sequence[str],
) -> frozenset[str]:
    """Unknown inputs that are linear between nodes."""
    if not isinstance(scheme, CollocationScheme):
        return frozenset(n for n, bounds in unknown_inputs.items() if not isinstance(bounds, Held))
    asked = {name for name, bounds in unknown_inputs.items() if isinstance(bounds, Linear)}
    for name in sorted(asked.difference(measured)):
        if scheme.order <= 2:
            raise ValueError(
                f"nothing determines an alternating part of input {name} if it is linear between "
                f"nodes and the scheme is {scheme.title}; use ks.held, or a scheme of higher order"
            )
    free = {name for name, bounds in unknown_inputs.items() if not isinstance(bounds, Held)}
    return frozenset(asked | free.intersection(measured))


#: Parts of names that only angles have.
_ANGLES = re.compile(r"(^|_)(theta|phi|psi|angle|angles|roll|pitch|yaw|heading|flexion)(_|\d|$)")
