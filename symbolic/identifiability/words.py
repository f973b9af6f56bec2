"""Words on combinations and second solutions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.symbolic.identifiability.second import Search, SecondSolution
from kinesym.symbolic.names import name_of, written

#: Changes that are printed of a second solution, at most.
_SHOWN = 6
#: Second solutions that are printed, at most.
_SOLUTIONS = 4
#: Operations of an expression that is printed, at most.
_LONG = 30


def several(name: str, solutions: Sequence[SecondSolution]) -> str:
    """Words on an unknown that has several values."""
    mine = [one for one in solutions if name in one.changes]
    if all(name in _signs(one.changes) for one in mine):
        return "can be known up to its sign"
    partners = [dict(_partners(one.changes)).get(name) for one in mine]
    if None not in partners:
        whom = list(dict.fromkeys(str(x) for x in partners))
        return f"can be known up to an exchange with {together(whom)}"
    named = [e for one in mine if (e := one.changes[name]) is not None]
    count = 1 + max(len(set(named)), 1)
    if not named:
        return f"has at least {count} values, {_example(mine[0], name)}"
    return f"has at least {count} values, another is {at_start(named[0], _LONG)}"


def said(search: Search) -> Iterator[str]:
    """Sentences on second solutions, or that none were found."""
    if search.why_not:
        yield f"second solutions were not sought: {search.why_not}"
        return
    allowed = [one for one in search.solutions if not one.excluded]
    for one in allowed[:_SOLUTIONS]:
        yield _sentence(one)
    if len(allowed) > _SOLUTIONS:
        yield f"{len(allowed) - _SOLUTIONS} more second solutions"
    for one in search.solutions:
        if one.excluded:
            verb = "is" if len(one.excluded) == 1 else "are"
            yield f"{_sentence(one)}, but not as {together(one.excluded)} {verb} positive"
    if search.tries:
        other = "no other" if search.solutions else "no"
        yield f"{other} second solution was found in {search.tries} tries"


def _sentence(one: SecondSolution) -> str:
    """Words on what is different in a second solution."""
    pairs = sorted({tuple(sorted(pair)) for pair in _partners(one.changes)})
    signs = _signs(one.changes)
    done = {*signs, *(name for pair in pairs for name in pair)}
    rest = [name for name in one.changes if name not in done]
    exchanged = ", ".join(together(pair) for pair in pairs)
    parts = [f"{exchanged} may be exchanged"] if pairs else []
    if signs:
        what = "the sign" if len(signs) == 1 else "the signs"
        with_it = " together" if len(signs) > 1 else ""
        parts.append(f"{what} of {together(signs)} may change{with_it}")
    changed = [
        f"{name} -> {at_start(e, _LONG)}" for name in rest if (e := one.changes[name]) is not None
    ]
    changed += [_example(one, name) for name in rest if one.changes[name] is None]
    more = len(changed) - _SHOWN
    words = (
        together([*changed[:_SHOWN], *([f"{more} more"] if more > 0 else [])]) if changed else ""
    )
    if not parts:
        return f"another solution has {words}"
    return together(parts) + (f", with {words}" if words else "")


def _partners(changes: Mapping[str, sp.Expr | None]) -> Iterator[tuple[str, str]]:
    """Unknowns that are exchanged, with each other."""
    to = {name: _name(e) for name, e in changes.items()}
    for name, other in to.items():
        if other is not None and other != name and to.get(other) == name:
            yield name, other


def _signs(changes: Mapping[str, sp.Expr | None]) -> list[str]:
    return [name for name, e in changes.items() if e is not None and _name(-e) == name]


def _name(e: sp.Expr | None) -> str | None:
    return name_of(e) if isinstance(e, sp.Symbol | AppliedUndef) else None


def _example(one: SecondSolution, name: str) -> str:
    value, other = one.example[name]
    return f"e.g. {name} = {other:.3g} for {value:.3g}"


def at_start(e: sp.Expr, operations: int) -> str:
    """Text of an expression with states at the start as symbols."""
    starts = e.atoms(AppliedUndef)
    return written(e.xreplace({x: sp.Symbol(f"{name_of(x)}(0)") for x in starts}), operations)


def together(words: Sequence[str]) -> str:
    """Words joined by commas and an and."""
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
