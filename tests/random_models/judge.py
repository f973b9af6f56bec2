"""Whether the numbers of a case are right, and which small expression is to blame if not."""

import random
from dataclasses import dataclass, field

import mpmath
import sympy as sp
from reference import MANY, NOTHING, SIDES, Discrete, accepts, references
from single import flags, smallest
from sympy.core.function import AppliedUndef
from tree import Sides

import kinesym as ks

FACTOR = 0.7
_DEGREE = {"cost": 0, "constraint": 0, "gradient": 1, "jacobian": 1, "hessian": 2}


@dataclass
class Verdict:
    """Numbers that were compared at one point, and those that are wrong: entry, found, expected."""

    compared: int = 0
    left_out: int = 0
    wrong: list = field(default_factory=list)

    def __str__(self):
        lines = [
            f"{entry}: {found!r}, true {', '.join(dict.fromkeys(map(_text, expected)))}"
            for entry, found, expected in self.wrong[:3]
        ]
        return "; ".join(lines)


def _text(number):
    return number if isinstance(number, str) else mpmath.nstr(number[0], 17)


def multipliers_of(case):
    """Some multipliers, the same for every evaluation of the case."""
    rng = random.Random(case.seed)
    return [rng.uniform(0.3, 2.0) * rng.choice([-1, 1]) for _ in range(case.n_constraints)]


def judge(case, evaluated, z):
    """The verdict on all numbers at z, which `evaluated` (see `measured`) gives."""
    verdict = _judged(case, evaluated, z, SIDES[:4])
    several = any(len(expected) > 1 for _, _, expected in verdict.wrong)
    return _judged(case, evaluated, z, [*SIDES, *MANY]) if several else verdict


def _judged(case, evaluated, z, sides):
    """Derivatives of what has no value are left out; a Hessian is of everything together."""
    multipliers = multipliers_of(case)
    expected, lacking = references(case, z, multipliers, FACTOR, sides)
    endless, strained = (
        set().union(*(e.pop(what) for e in expected)) for what in ("endless", "strained")
    )
    found = evaluated.numbers(z, multipliers, FACTOR)
    verdict = Verdict()
    for entry in sorted(set(found).union(*expected), key=str):
        kind, degree = entry[0], _DEGREE[entry[0]]
        of = {"gradient": {-1}, "hessian": lacking | endless | strained}.get(kind, {*entry[1:2]})
        if degree and of & lacking:
            verdict.left_out += 1
            continue
        number, true = found.get(entry, 0.0), [e.get(entry, NOTHING) for e in expected]
        verdict.compared += 1
        if not accepts(number, true, degree, bool(of & endless), bool(of & strained)):
            verdict.wrong.append((entry, float(number), true))
    verdict.wrong.sort(key=lambda wrong: _DEGREE[wrong[0][0]])
    return verdict


def culprit(case, z):
    """The smallest expression of the case that is wrong by itself at z, as a `Flag`, or None."""
    discrete = Discrete(case, z, Sides())
    trees = [*discrete.nodes, *discrete.ends]
    trees += [tree for stages in discrete.intervals for tree in stages]
    conditions = [end.args[0] for e in case.boundary for end in e.atoms(ks.at_start, ks.at_end)]
    masses = [e for row in case.mass for e in row]
    for e in [
        *case.model.equations,
        *case.side,
        *masses,
        *case.path,
        case.integrand,
        case.terminal,
        *case.model.outputs.values(),
        *conditions,
    ]:
        full = _without_intermediates(case, e)
        for tree in trees:
            found = _wrong_at(full, tree)
            if found:
                return found
    return None


def _without_intermediates(case, e):
    full = e
    for symbol, expression in reversed(case.model.intermediates):
        full = full.xreplace({symbol: expression})
    return full


def _leaves(e):
    """Symbols, functions of time and their derivatives in `e`, not what is inside of these."""
    if isinstance(e, (sp.Symbol, AppliedUndef, sp.Derivative)):
        return {e}
    return set().union(*map(_leaves, e.args))


def _wrong_at(e, tree):
    leaves = sorted(_leaves(e), key=str)
    if not leaves or any(s not in tree.known or tree.known[s].lack for s in leaves):
        return None
    symbols = {
        s: sp.Symbol(f"v{k}", **({"real": True} if s.is_real else {})) for k, s in enumerate(leaves)
    }
    point = [float(tree.known[s].value) for s in leaves]
    plain = e.xreplace(symbols)
    try:
        wrong = flags(plain, list(symbols.values()), [point])
    except (ValueError, NotImplementedError):
        return None
    return smallest(wrong[0]) if wrong else None
