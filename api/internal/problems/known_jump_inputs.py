"""Jumps of expressions of time in fits, as inputs that are held from one jump to the next, with a
node at each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import sympy as sp

from kinesym.internal.problems.switch_times import signals
from kinesym.runtime.arrays import Array
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.signals.signal import Signal, with_breaks, with_jumps
from kinesym.symbolic.expression import atoms_of
from kinesym.symbolic.jumps import OfKnownTime, Switched, Unevaluated, jumping
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of, t
from kinesym.symbolic.objective import Objective
from kinesym.symbolic.switching import candidates, switched

#: Note on a trial of unknown duration, on whose grid a known time is anywhere.
_FREE = (
    "{}, between two nodes as the unknown duration has it: there the scheme is of first order, and "
    "the error of the grid is not known; make two phases of the trial, which meet at the jump"
)
#: A share of the duration within which a jump is at a node.
_SAME = 1e-9


class HeldSwitches(NamedTuple):
    """Model whose jumps at known times are inputs, `names`, which trials have; notes : jumps that
    stay expressions, in words. before : the grids (N,) of trials that have more nodes now."""

    model: Model
    trials: Sequence[Experiment]
    names: Sequence[str] = ()
    notes: Sequence[str] = ()
    before: Sequence[Array] = ()


def on_given_grids(guess: Mapping[str, Any], grids: Sequence[Array]) -> dict[str, Any]:
    """Values by name, with trajectories (N,) on these grids, of each trial, as signals."""
    if not grids:
        return dict(guess)
    return {name: _signals(value, grids) for name, value in guess.items()}


def _signals(value: Any, grids: Sequence[Array]) -> Any:
    """A trajectory, or one per trial, as signals; what is none as it is."""
    several = isinstance(value, (list, tuple)) and len(value) == len(grids)
    rows = value if several and any(map(np.ndim, value)) else [value] * len(grids)
    sizes = [len(time) for time in grids]
    fits = [np.shape(row) in ((), (N,)) for row, N in zip(rows, sizes, strict=True)]
    if not (rows and all(fits) and any(map(np.ndim, rows))):
        return value
    pairs = zip(grids, rows, strict=True)
    return [Signal(time, np.broadcast_to(row, time.shape)) for time, row in pairs]


def held_switches(
    model: Model,
    trials: Sequence[Experiment],
    unknown: Collection[str],
    known: Sequence[Mapping[str, float]],
    insert: bool,
) -> HeldSwitches:
    """Replace jumps at known times by inputs that are held between nodes, for fits.

    unknown : names of parameters. known : values of the others, by trial. insert : whether trials
    get a node at each jump, of given inputs too; else a jump between nodes stays an expression,
    with a note.
    """
    given, trials = trials, [_with_nodes(e, e.signals) for e in trials] if insert else trials
    before = [] if [*trials] == [*given] else [trial.grid for trial in given]
    found = switched(model, OfKnownTime(frozenset(unknown)), True)
    if not found.switches:
        return HeldSwitches(model, trials, before=before)
    if any(trial.free_duration for trial in trials):
        notes = [_FREE.format(s.said) for s in jumping(found)[:1]]
        return HeldSwitches(model, trials, notes=notes, before=before)
    numbers = [{**dict.fromkeys(unknown, np.nan), **row} for row in known]
    try:
        each = [
            signals(found, row, (float(trial.grid[0]), float(trial.grid[-1])))
            for row, trial in zip(numbers, trials, strict=True)
        ]
    except Unevaluated:
        return HeldSwitches(model, trials, before=before)
    made = [_with_nodes(e, own) for e, own in zip(trials, each, strict=True)]
    if not insert and any(new is not old for new, old in zip(made, trials, strict=True)):
        return HeldSwitches(model, trials, notes=_between(found, trials, each))
    each = [_held_as_others(own, each, trial.grid) for trial, own in zip(made, each, strict=True)]
    driven = [trial.driven(own) for trial, own in zip(made, each, strict=True)]
    before = [trial.grid for trial in given] if made != [*given] else []
    return HeldSwitches(found.model, driven, found.names, before=before)


def held_in_cost(
    held: HeldSwitches,
    objective: Any,
    unknown: Collection[str],
    known: Sequence[Mapping[str, float]],
    insert: bool,
) -> tuple[HeldSwitches, Any]:
    """Jumps of the integrand of an objective as such inputs, too, and the objective with these."""
    model = held.model
    integrand = objective.integrand if isinstance(objective, Objective) else sp.S.Zero
    moving, whole = [*model.states, *model.inputs], model.through([integrand])
    declared = {*moving, *model.parameters, t, *(s for s, _ in model.intermediates)}
    if not candidates(whole, True) or not atoms_of(*whole) <= declared:  # told by later checks
        return held, objective
    total = sp.Function("objective")(t)
    equations, about = [total.diff(t) - integrand], (moving, model.parameters)
    cost = Model("objective", [total], *about, equations, intermediates=model.intermediates)
    found = held_switches(cost, held.trials, unknown, known, insert)
    words = [n.replace("equation 0", "the integrand of the objective") for n in found.notes]
    if not found.names:
        return held._replace(notes=[*held.notes, *words]), objective
    more = [u for u in found.model.inputs if name_of(u) in found.names]
    paid = found.model.written_out(total.diff(t) - found.model.equations[0])
    rest = replace(objective, integrand=paid)
    names, before = [*held.names, *found.names], held.before or found.before
    wider = model.extended(inputs=more)
    return HeldSwitches(wider, found.trials, names, held.notes, before), rest


def _with_nodes(trial: Experiment, own: Mapping[str, Signal]) -> Experiment:
    """A trial with a node at each jump of held signals."""
    held = [signal for signal in own.values() if not signal.expressions and signal.held]
    grid, _ = with_jumps(trial.grid, held)
    return trial if len(grid) == trial.n_nodes else trial.on_grid(grid)


def with_bends(trial: Experiment) -> Experiment:
    """A trial with a node at each bend of its inputs, too, unless they bend very often."""
    known = [signal for signal in trial.signals.values() if not signal.expressions]
    grid, _ = with_breaks(trial.grid, known)
    return trial if len(grid) == trial.n_nodes else trial.on_grid(grid)


def _held_as_others(
    own: Mapping[str, Signal], each: Sequence[Mapping[str, Signal]], grid: Array
) -> dict[str, Signal]:
    """Signals of a trial, held also where they do not jump in it but in others."""
    ends, others = (
        grid[[0, -1]],
        {name for row in each for name, s in row.items() if len(s.begin) > 1},
    )
    return {
        name: Signal(ends, s.at_nodes(ends), between="held")
        if len(s.begin) == 1 and name in others
        else s
        for name, s in own.items()
    }


def _between(
    found: Switched, trials: Sequence[Experiment], each: Sequence[Mapping[str, Signal]]
) -> list[str]:
    """A sentence on the first jump between nodes; none if what is there only bends."""
    for switch in jumping(found):
        for number, (trial, own) in enumerate(zip(trials, each, strict=True)):
            jumps = own[name_of(switch.symbol)].jumps(trial.grid[0], trial.grid[-1])
            apart = np.abs(trial.grid[:, None] - jumps).min(axis=0)
            off = jumps[apart > _SAME * (trial.grid[-1] - trial.grid[0])]
            if len(off):
                return [
                    f"{switch.said} at t = {off[0]:.9g} s, between two nodes of trial {number}: "
                    "there the scheme is of first order, and the error of the grid is not known; "
                    "put a node there, as in time=np.union1d(time, [...])"
                ]
    return []
