"""Verdict on a record of several runs, where perfect measurements cannot tell its unknowns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from kinesym.symbolic.identifiability.field import Field
from kinesym.symbolic.identifiability.null import first_look
from kinesym.symbolic.identifiability.points import points_of
from kinesym.symbolic.identifiability.posed import Question, names_asked, posed
from kinesym.symbolic.identifiability.system import Run
from kinesym.symbolic.identifiability.tape import TooLong
from kinesym.symbolic.prime_field import rank

if TYPE_CHECKING:
    from kinesym.symbolic.identifiability.verdict import Identifiability

#: Operations for which one library of monomials is searched for combinations.
_LIBRARY = 1_500_000
#: Draws for a point at which all roots exist: starts at zero may leave none.
_TRIES = 2


def untold(question: Question, operations: int) -> Identifiability | None:
    """The verdict on a question of which some parameters cannot be known; None if all can, or if it
    takes more operations than these, about, to say so.

    What one run tells, all tell; so runs are added until all is known. More than two with the same
    starts and numbers tell nothing if the second does not. Starts with values at a time that the
    equations have are not like those at others, and nothing is said of them.
    """
    try:
        return _untold(question, operations)
    except TooLong:
        return None


def _untold(question: Question, operations: int) -> Identifiability | None:
    left = list[int]()
    for runs in _parts(question.runs):
        some = replace(question, runs=runs)
        asked, symbols = posed(some)
        orders = asked.affordable(operations)
        if orders < 1 or (asked.special and asked.system.timed):
            return None
        generator = np.random.default_rng(0)
        point = points_of(asked.system, Field.random(generator), 1, generator, _TRIES)
        seen = first_look(asked, point, orders)
        left += [rank(one.basis[:, : len(names_asked(some))], one.p) for one in seen]
        if not seen or not left[-1]:
            return None
    if len(runs) < len(question.runs) and left[-2] != left[-1]:
        return None
    from kinesym.symbolic.identifiability.question import verdict_on  # seldom

    return verdict_on(some, asked, symbols, max(1, operations // _LIBRARY))


def _parts(runs: Sequence[Run]) -> Iterator[tuple[Run, ...]]:
    """The first run; one of each kind; two of each kind, or all where some have parameters of their
    own."""
    kinds: dict[object, list[Run]] = {}
    for run in runs:
        kinds.setdefault((*run.starts.items(), *run.values.items()), []).append(run)
    parts = [tuple(runs[:1])]
    parts += [tuple(one for of_kind in kinds.values() for one in of_kind[:k]) for k in (1, 2)]
    if any(run.own for run in runs):
        parts = [parts[0], tuple(runs)]
    yield from (part for k, part in enumerate(parts) if not k or len(part) > len(parts[k - 1]))
