"""Points where an expression has a kink, a zero of a denominator or an end of a domain."""

import mpmath
import sympy as sp
from jets import variable
from tree import Sides, Tree


def targets(e):
    """Expressions that vanish where something happens in `e`."""
    found = []
    for part in sp.preorder_traversal(e):
        rule = _TARGETS.get(type(part))
        if rule is not None:
            found += rule(part)
        elif isinstance(part, sp.core.relational.Relational):
            found.append(part.lhs - part.rhs)
    return [target for target in found if target.free_symbols]


def _of_power(e):
    whole = e.exp.is_Integer and e.exp > 0
    return [] if whole else [e.base, e.base - 1] if e.exp.free_symbols else [e.base]


def _of_first(*shifts):
    return lambda e: [e.args[0] - shift for shift in shifts]


_TARGETS = {
    sp.Abs: _of_first(0),
    sp.sign: _of_first(0),
    sp.Heaviside: _of_first(0),
    sp.sinc: _of_first(0),
    sp.floor: _of_first(0, 1),
    sp.ceiling: _of_first(0, 2),
    sp.log: _of_first(0, 1),
    sp.asin: _of_first(1, -1),
    sp.acos: _of_first(1, -1),
    sp.atanh: _of_first(1, -1),
    sp.acosh: _of_first(1),
    sp.coth: _of_first(0),
    sp.csch: _of_first(0),
    sp.frac: _of_first(0, 1),
    sp.csc: _of_first(0),
    sp.cot: _of_first(0),
    sp.tan: _of_first(sp.pi / 2),
    sp.sec: _of_first(sp.pi / 2),
    sp.Pow: _of_power,
    sp.Mod: lambda e: [e.args[0] - e.args[1], e.args[0] - 3 * e.args[1]],
    sp.Max: lambda e: [e.args[0] - e.args[1]],
    sp.Min: lambda e: [e.args[0] - e.args[1]],
    sp.atan2: lambda e: [e.args[0]],
}


def zero_near(target, known, start):
    """Values of the symbols of `start` (a mapping) at which `target` vanishes, by Newton's method
    along the gradient; None if there are none close by. `known` are jets of other symbols."""
    point, symbols = dict(start), list(start)
    for _ in range(12):
        here = {s: variable(point[s], k) for k, s in enumerate(symbols)}
        try:
            jet = Tree({**known, **here}, Sides())(target)
        except (KeyError, NotImplementedError):
            return None
        if jet.lack:
            return None
        if abs(jet.value) < 1e-17:
            return point
        length = sum(d[0] ** 2 for d in jet.slope.values())
        if not length or not mpmath.isfinite(length):
            return None
        for k, d in jet.slope.items():
            point[symbols[k]] = float(point[symbols[k]] - jet.value * d[0] / length)
    return point if abs(jet.value) < 1e-12 and max(map(abs, point.values())) < 1e6 else None
