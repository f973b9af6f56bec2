"""Verdict on what can be known of a model from perfect measurements, as a value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.base.notebook import Displayed
from kinesym.symbolic.expression import atoms_of, real_expression
from kinesym.symbolic.identifiability.combinations import Group
from kinesym.symbolic.identifiability.field import Field
from kinesym.symbolic.identifiability.null import Asked, Silent
from kinesym.symbolic.identifiability.second import Search, SecondSolution, Sought, searched
from kinesym.symbolic.identifiability.series import Expansion
from kinesym.symbolic.identifiability.tape import Tape
from kinesym.symbolic.identifiability.values import drawn
from kinesym.symbolic.identifiability.words import at_start, said, several, together
from kinesym.symbolic.names import check_known, name_of
from kinesym.symbolic.prime_field import product

#: Combinations that are printed of a group, at most, and operations of each.
_SHOWN = 6
_LONG = 60


@dataclass(frozen=True)
class Lacking:
    """Unknowns that cannot be known singly. known : combinations that can, in words, if these are
    all and no starts are in them."""

    sentence: str
    names: tuple[str, ...]
    known: tuple[str, ...]


@dataclass(frozen=True, repr=False, eq=False)
class Identifiability(Displayed):
    """Verdict on parameters and starting states: what perfect measurements determine, up to
    finitely many values, for almost all values of what is unknown.

    verdict["k"] : whether a parameter, or the start of a state, can be known; also of an expression
    of parameters and states, these at the start. parameters, starts : the same by name, of those
    that are unknown. combinations : of what cannot be known singly, what can be known. positive :
    names of unknowns that must be positive. chance : of a false verdict, at most, over the random
    points that it was found at; 1 where the degree of the equations is too high to say, and three
    points agree instead of two. order : of the derivatives of the outputs that were needed. The
    printed verdict and `summary` look for second solutions, too.
    """

    title: str
    parameters: Mapping[str, bool]
    starts: Mapping[str, bool]
    groups: Sequence[Group]
    symbols: Sequence[sp.Expr]
    positive: Sequence[str]
    chance: float
    order: int
    silent: Silent
    asked: Asked

    def __getitem__(self, key: Any) -> bool:
        if isinstance(key, sp.Expr) and not isinstance(key, sp.Symbol | AppliedUndef):
            return self._knows(key)
        name, every = name_of(key), {**self.parameters, **self.starts}
        check_known(name, every, f"{name} is no unknown of this verdict")
        return every[name]

    @property
    def identifiable(self) -> bool:
        """Whether all parameters can be known."""
        return all(self.parameters.values())

    @property
    def observable(self) -> bool:
        """Whether all starting states that are unknown can be known."""
        return all(self.starts.values())

    @property
    def combinations(self) -> tuple[sp.Expr, ...]:
        """Combinations that can be known of unknowns that cannot, at the start where of states."""
        return tuple(e for group in self.groups for e in group.combinations)

    @property
    def second_solutions(self) -> tuple[SecondSolution, ...]:
        """Second solutions: other parameters and starts with the same measurements at all times,
        which differ in what can be known up to finitely many values. Signs and exchanges are tried,
        and where iterations from random starts lead; each is verified. That none is found does not
        say that there is none. They are looked for when first asked, for about a second."""
        return self._search.solutions

    @property
    def tries(self) -> int:
        """Number of points and starts at which second solutions were looked for."""
        return self._search.tries

    @property
    def ambiguous(self) -> tuple[str, ...]:
        """Names of unknowns that second solutions have other values of, without solutions in which
        something is not positive that must be."""
        found = {name for one in self._allowed for name in one.changes}
        known = {**self.parameters, **self.starts}
        return tuple(name for name, is_known in known.items() if is_known and name in found)

    @property
    def _allowed(self) -> list[SecondSolution]:
        return [one for one in self.second_solutions if not one.excluded]

    @cached_property
    def _search(self) -> Search:
        names = [*self.parameters, *self.starts]
        known = [*self.parameters.values(), *self.starts.values()]
        return searched(
            Sought(
                self.asked,
                self.silent,
                self.symbols,
                len(self.parameters),
                frozenset(k for k, is_known in enumerate(known) if is_known),
                frozenset(k for k, name in enumerate(names) if name in self.positive),
            )
        )

    def _knows(self, expression: sp.Expr) -> bool:
        e = real_expression(expression, "what can be known")
        started = {x: x.func(0) for x in atoms_of(e) if isinstance(x, AppliedUndef)}
        e = e.xreplace(started)
        for atom in sorted(atoms_of(e), key=str):
            check_known(
                str(atom),
                [*map(str, self.symbols)],
                f"{atom} is no parameter or state of this verdict",
            )
        one = self.silent
        tape = Tape(dict.fromkeys(self.symbols, False), "the expression")
        places = [tape.add(x) for x in self.symbols]
        last, n = tape.add(e), one.basis.shape[1]
        draws = drawn(Field(one.p), len(tape.steps), 64, np.random.default_rng(1))
        expansion = Expansion(tape.steps, draws, None, n + 1, 0, "the expression")
        for k, place in enumerate(places):
            expansion.values[place][0][:, 0] = one.values[k]
            if k < n:
                expansion.values[place][0][:, k + 1] = 1
        expansion.start(range(len(tape.steps)))
        slopes = expansion.values[last][0][0, 1:]
        return not product(one.basis, slopes[:, None], one.p).any()

    def __str__(self) -> str:
        names = [*self.parameters, *self.starts]
        words = dict.fromkeys(names, "can be known")
        for name in self.ambiguous:
            words[name] = several(name, self._allowed)
        for group in self.groups:
            for k in group.unknowns:
                words[names[k]] = self._said(group, k)
        width = max(map(len, names), default=0)
        at = {name: "" if name in self.parameters else " at the start" for name in names}
        rows = [f"  {name:<{width}}  {words[name]}{at[name]}" for name in names]
        return "\n".join([self.title, *rows, *(f"  {words}" for words in said(self._search))])

    def __repr__(self) -> str:
        return f"<{self.title}: {self.summary}>"

    @property
    def summary(self) -> str:
        """Sentence on what cannot be known, what can be of it, and on second solutions."""
        names = [*self.parameters, *self.starts]
        parts = []
        for group in self.groups:
            who = together([names[k] for k in group.unknowns])
            parts.append(f"{who} {self._said(group)}")
        finitely = ", up to finitely many values" if self.ambiguous else ""
        all_known = f"all can be known{finitely}"
        return "; ".join([*(parts or [all_known]), *said(self._search)])

    def lacking(self, measured: str) -> list[Lacking]:
        """Groups of what cannot be known that hold parameters. measured : names of what is, in
        words."""
        names, count = [*self.parameters, *(f"{x}(0)" for x in self.starts)], len(self.parameters)
        found = list[Lacking]()
        for group in self.groups:
            if group.unknowns[0] >= count:
                continue
            who, words = [names[k] for k in group.unknowns], self._words(group)
            more = [f"{len(who) - _SHOWN} more"] if len(who) > _SHOWN else []
            most = "" if len(who) == group.freedom else f", at most {self._known(group, names)}"
            one = "one of them" if len(who) > 1 else "it"
            remedy = f"fix {one}, or give it a prior"
            if group.freedom > 1:
                remedy = f"fix {group.freedom} of them, or give them priors"
            every = together([*who[:_SHOWN], *more])
            sentence = f"{every} cannot be known from {measured}{most}: {remedy}"
            apart = group.complete and group.unknowns[-1] < count
            found.append(Lacking(sentence, tuple(who), tuple(words) if apart else ()))
        return found

    def _said(self, group: Group, of: int | None = None) -> str:
        """Words on what can be known of a group, or of one of its unknowns."""
        names = [*self.parameters, *self.starts]
        if len(group.unknowns) == group.freedom:
            return "cannot be known"
        into = "in " if self._words(group, of) else ""
        return f"only {into}{self._known(group, names, of)}"

    def _known(self, group: Group, names: Sequence[str], of: int | None = None) -> str:
        """Combinations that can be known of a group, in words."""
        others = [names[k] for k in group.unknowns if k != of]
        found = self._words(group, of)
        words, more = found[:_SHOWN], len(found) - _SHOWN
        words += [f"{more} more"] if more > 0 else []
        if not group.complete:
            others = others[:_SHOWN] if of is not None else []
            words += (
                ["together with " + together(others)]
                if others
                else ["combinations that were not found"]
            )
        return together(words)

    def _words(self, group: Group, of: int | None = None) -> list[str]:
        """Combinations of a group, or those with one of its unknowns."""
        some = (e for e in group.combinations if of is None or self.symbols[of] in atoms_of(e))
        return [at_start(e, _LONG) for e in some]
