"""A hash-consed expression graph over scalars.

A node is an integer; equal expressions are the same integer by construction, so that common
subexpressions need no search. Construction applies light algebra only: constants are folded, signs
and constant factors move outwards, operands of commutative operations are ordered. Nothing is
expanded, so building is linear in the number of operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from kinesym.codegen.gates import Gates
from kinesym.codegen.operations import EVEN, ODD, OPERATIONS, Operation
from kinesym.codegen.traits import Traits

#: Nodes without operands: constants, symbols, and the numbers of all tables.
LEAVES = frozenset(("const", "sym", "data"))

#: Powers of symbols up to which a denominator counts as a number of ordinary size: of 1e-25 the
#: 12th is the last whose reciprocal is finite.
_ORDINARY = 12.0

#: Cases of a choice up to which a product with it is one of each case.
_FEW = 4


class Graph:
    """Arena of expression nodes; `args[i]` lists the operands of node `i`, `op[i]` its operation.

    Operations: `const` (see `value`), `sym` (see `name`), `neg`, `inv` (1/x), `select`
    (`c != 0 ? a : b`), `add`, `sub`, `mul`, `div`, and the functions of `codegen.operations`.
    Comparisons yield 1.0 or 0.0, `mod` has the sign of the divisor. `data` are the numbers of
    tables, see `locate` and `entry`.
    Quotients with equal denominators share one division as `x * inv(y)`, unless y may be so small
    that 1/y overflows where x/y does not: then they are `div`.
    """

    def __init__(self) -> None:
        self.op: list[str] = []
        self.args: list[tuple[int, ...]] = []
        self.value: dict[int, float] = {}
        self.name: dict[int, str] = {}
        self.note: dict[int, str] = {}  # what it means if a node is not finite
        self.operations: Mapping[str, Operation] = OPERATIONS  # and those of functions of users
        self._known: dict[tuple[object, ...], int] = {}
        self._traits = Traits(self)
        self._gates = Gates(self)
        self.zero: int = self.const(0.0)
        self.one: int = self.const(1.0)

    def __len__(self) -> int:
        return len(self.op)

    def _node(self, op: str, *args: int) -> int:
        key = (op, *args)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self.op)
            self.op.append(op)
            self.args.append(args)
            if op == "select" or self._gates:
                self._gates.see(found)
        return found

    def const(self, value: float) -> int:
        """The constant `value`."""
        value = float(value) + 0.0  # -0.0 becomes 0.0: one zero only
        key = ("const", repr(value))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self.op)
            self.op.append("const")
            self.args.append(())
            self.value[found] = value
        return found

    def symbol(self, name: str) -> int:
        """The symbol called `name`."""
        key = ("sym", name)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self.op)
            self.op.append("sym")
            self.args.append(())
            self.name[found] = name
        return found

    def symbols(self, names: Iterable[str]) -> list[int]:
        """One symbol for each of `names`."""
        return [self.symbol(name) for name in names]

    # -- numbers from tables ----------------------------------------------------------------

    def data(self) -> int:
        """The numbers of all tables, one after the other: no number itself."""
        return self._node("data")

    def locate(self, begin: int, count: int, x: int) -> int:
        """Number of the increasing data[begin + 1 : begin + 1 + count] that are not larger than x;
        0 for NaN; see `symbolic.table.searched`. Its derivative is zero."""
        numbers = self.const(begin), self.const(count)
        return self._node("locate", self.data(), *numbers, x)

    def entry(self, begin: int, step: int, number: int) -> int:
        """data[begin + step * number], where `number` is a node. Its derivative is zero."""
        return self._node("entry", self.data(), self.const(begin), self.const(step), number)

    # -- arithmetic -------------------------------------------------------------------------

    def neg(self, a: int) -> int:
        """-a"""
        if a in self.value:
            return self.const(-self.value[a])
        op = self.op[a]
        if op == "neg":
            return self.args[a][0]
        if op == "select":
            return self._over_cases(a, self.neg)
        if op == "mul" and self.args[a][0] in self.value:
            c, x = self.args[a]
            return self.mul(self.const(-self.value[c]), x)
        return self._node("neg", a)

    def add(self, a: int, b: int) -> int:
        """a + b"""
        value = self.value
        if a in value and b in value:
            return self.const(value[a] + value[b])
        if a == self.zero:
            return b
        if b == self.zero:
            return a
        if a == b:
            return self.mul(self.const(2.0), a)
        if self.op[b] == "neg":
            return self.sub(a, self.args[b][0])
        if self.op[a] == "neg":
            return self.sub(b, self.args[a][0])
        if self.op[a] == self.op[b] == "select":
            if self.args[a][0] == self.args[b][0]:
                return self._add_cases(a, b)
            if self._is_mask(a) and self._is_mask(b):
                return self._add_masked(a, b)
        return self._node("add", a, b) if a < b else self._node("add", b, a)

    def _over_cases(self, node: int, function: Callable[[int], int]) -> int:
        """`function` of every case of nested selects; in a loop, as there may be thousands."""
        cases: list[tuple[int, int]] = []
        while self.op[node] == "select":
            condition, x, node = self.args[node]
            cases.append((condition, function(x)))
        result = function(node)
        for condition, x in reversed(cases):
            result = self.select(condition, x, result)
        return result

    def _add_cases(self, a: int, b: int) -> int:
        """The sum of two selects, as far as their conditions are the same."""
        cases: list[tuple[int, int]] = []
        while self.op[a] == self.op[b] == "select" and self.args[a][0] == self.args[b][0]:
            (condition, x, a), (_, y, b) = self.args[a], self.args[b]
            cases.append((condition, self.add(x, y)))
        result = self.add(a, b)
        for condition, x in reversed(cases):
            result = self.select(condition, x, result)
        return result

    def _add_masked(self, a: int, b: int) -> int:
        """The sum of two values that are chosen or zero. Where both hang on one condition, or on it
        and its opposite, that is chosen first: a factor that is not finite counts only there."""
        (of_a, x), (of_b, y) = self._mask(a), self._mask(b)
        for condition, rest in of_a.items():
            inside, opposite = self.select(rest, x, self.zero), self.no(condition)
            if condition in of_b:
                both = self.add(inside, self.select(of_b[condition], y, self.zero))
                return self.select(condition, both, self.zero)
            if opposite in of_b:
                return self.select(condition, inside, self.select(of_b[opposite], y, self.zero))
        return self._node("add", min(a, b), max(a, b))

    def _mask(self, node: int) -> tuple[dict[int, int], int]:
        """The condition of a value that is chosen or zero, and the value: the condition and its
        factors, each with the rest of it."""
        condition, inside, other = self.args[node]
        if inside == self.zero:
            condition, inside = self.no(condition), other
        rest = {condition: self.one}
        if self.op[condition] == "mul":
            first, second = self.args[condition]
            rest |= {first: second, second: first}
        return rest, inside

    def _is_hollow(self, node: int, cases: int = _FEW) -> bool:
        """Whether `node` is a choice of a few, one of them zero."""
        choices = self.args[node][1:] if self.op[node] == "select" and cases else ()
        return self.zero in choices or any(self._is_hollow(c, cases - 1) for c in choices)

    def _is_mask(self, node: int) -> bool:
        """Whether `node` is chosen or zero."""
        return self.op[node] == "select" and self.zero in self.args[node][1:]

    def _masked(self, node: int, function: Callable[[int], int]) -> int:
        """`function`, zero at zero, of both cases of a select: what is not chosen counts for
        nothing, even where the function is not finite."""
        condition, first, second = self.args[node]
        return self.select(
            condition, *(case if case == self.zero else function(case) for case in (first, second))
        )

    def _product(self, a: int, b: int) -> int:
        """a * b as a node of its own."""
        node = self._node("mul", a, b) if a in self.value or a < b else self._node("mul", b, a)
        if self._gates:
            for factor, gated in ((a, b), (b, a)):
                if gated in self._gates and not self._traits[factor].total:
                    node = self._opened(node, gated)
        return node

    def _opened(self, result: int, gated: int) -> int:
        """A product or quotient of a gated node with what may not be finite: it counts only where
        the condition holds."""
        return self.select(self._gates[gated], result, self.zero)

    def sub(self, a: int, b: int) -> int:
        """a - b; written with the older node first, so that a - b and b - a are one node."""
        value = self.value
        if a == b:
            return self.zero
        if a in value and b in value:
            return self.const(value[a] - value[b])
        if b == self.zero:
            return a
        if a == self.zero:
            return self.neg(b)
        if self.op[b] in ("neg", "select"):
            return self.add(a, self.neg(b))
        if self.op[a] == "neg":
            return self.neg(self.add(self.args[a][0], b))
        return self._node("sub", a, b) if a < b else self._node("neg", self._node("sub", b, a))

    def mul(self, a: int, b: int) -> int:
        """a * b; a constant factor comes first.

        A factor `select(c, x, 0)`, or of a few cases with a zero among them, takes the product
        inside: what is not chosen counts for nothing, even if the other factor is not finite there.
        Nor does it where the factor is a sum of such, see `codegen.gates`.
        """
        value, op, args = self.value, self.op, self.args
        if op[a] == "select" or op[b] == "select":
            for x, y in ((a, b), (b, a)):
                of_few = op[x] != "select" and self._is_hollow(y)
                if x != self.zero and (of_few or self._is_mask(y)):
                    return self._masked(y, partial(self.mul, x))
        if b in value:
            a, b = b, a
        if a in value:
            c = value[a]
            if b in value:
                return self.const(c * value[b])
            if c == 0.0:
                return self.zero
            if c == 1.0:
                return b
            if c == -1.0:
                return self.neg(b)
            if op[b] == "neg":
                return self.mul(self.const(-c), args[b][0])
            if op[b] == "mul" and args[b][0] in value:
                return self.mul(self.const(c * value[args[b][0]]), args[b][1])
            if c != c and b not in self._gates:
                return a
            return self._product(a, b)
        if op[a] == "neg":
            return self.neg(self.mul(args[a][0], b))
        if op[b] == "neg":
            return self.neg(self.mul(a, args[b][0]))
        if op[a] == "mul" and args[a][0] in value:
            return self.mul(args[a][0], self.mul(args[a][1], b))
        if op[b] == "mul" and args[b][0] in value:
            return self.mul(args[b][0], self.mul(a, args[b][1]))
        if op[b] == "div" and args[b][0] == self.one:
            return self.div(a, args[b][1])
        if op[a] == "div" and args[a][0] == self.one:
            return self.div(b, args[a][1])
        return self._product(a, b)

    def inv(self, a: int) -> int:
        """1 / a, to be shared by quotients; `div` where 1 / a may overflow and they do not."""
        if a in self.value:
            return self.const(1.0 / self.value[a] if self.value[a] else math.inf)
        if self.op[a] == "inv":
            return self.args[a][0]
        if self.op[a] == "neg":
            return self.neg(self.inv(self.args[a][0]))
        return self._node("inv", a)

    def div(self, a: int, b: int) -> int:
        """a / b"""
        if b in self.value or self._traits[b].degree <= _ORDINARY:
            return self.mul(a, self.inv(b))
        if a in (self.zero, b):
            return self.zero if a == self.zero else self.one
        if self._is_hollow(a):
            return self._masked(a, lambda case: self.div(case, b))
        for x, y in ((a, b), (b, a)):
            if self.op[x] == "neg":
                rest = self.args[x][0]
                return self.neg(self.div(rest, y) if x == a else self.div(y, rest))
        if self.op[a] == "mul" and self.args[a][0] in self.value:
            return self.mul(self.args[a][0], self.div(self.args[a][1], b))
        node = self.quotient(a, b)
        return self._opened(node, a) if a in self._gates else node

    def quotient(self, a: int, b: int) -> int:
        """a / b as one rounded division, never as a product with 1 / b."""
        if a in self.value and b in self.value and self.value[b]:
            return self.const(self.value[a] / self.value[b])
        return self._node("div", a, b)

    def power(self, a: int, exponent: float) -> int:
        """`a` to a constant power: products for integers, a square root for 1/2, else `pow`."""
        if not math.isfinite(exponent):
            return self._node("pow", a, self.const(exponent))
        if self.op[a] == "exp" and exponent != int(exponent):
            return self._power_of_exp(a, self.const(exponent))
        if exponent < 0:
            return self.div(self.one, self.power(a, -exponent))
        if a in self.value:
            return self.const(self.operations["pow"].folded(self.value[a], exponent))
        if exponent <= 64 and exponent == int(exponent):
            return self._integer_power(a, int(exponent))
        if exponent == 0.5:
            return self.function("sqrt", a)
        return self._node("pow", a, self.const(exponent))

    def _power_of_exp(self, a: int, exponent: int) -> int:
        """exp(x)^p as exp(p x), whose derivatives need no quotient of tiny numbers."""
        return self.function("exp", self.mul(exponent, self.args[a][0]))

    def _integer_power(self, a: int, n: int) -> int:
        if n == 0:
            return self.one
        half = self._integer_power(a, n // 2)
        square = self.mul(half, half) if n > 1 else self.one
        return self.mul(square, a) if n % 2 else square

    # -- functions --------------------------------------------------------------------------

    def function(self, name: str, a: int) -> int:
        """A function of one number, with the parity of odd and even ones used."""
        row = self.operations[name]
        if a in self.value:
            return self.const(row.folded(self.value[a]))
        if self.op[a] == "neg":
            if row.parity == ODD:
                return self.neg(self.function(name, self.args[a][0]))
            if row.parity == EVEN:
                return self.function(name, self.args[a][0])
        return self._node(name, a)

    def binary(self, name: str, a: int, b: int) -> int:
        """A function of two numbers, such as `pow`, `atan2`, `min` or `lt`."""
        row = self.operations[name]
        if name == "pow" and b in self.value:
            return self.power(a, self.value[b])
        if name == "pow" and self.op[a] == "exp":
            return self._power_of_exp(a, b)
        if a in self.value and b in self.value:
            return self.const(row.folded(self.value[a], self.value[b]))
        if name in ("min", "max") and a == b:
            return a
        if row.commutative and a > b:
            a, b = b, a
        return self._node(name, a, b)

    def select(self, condition: int, a: int, b: int) -> int:
        """`a` where `condition`, 1 or 0, holds, else `b`.

        A value that is chosen or zero, and then again chosen or zero, has one condition.
        """
        if a == b:
            return a
        if condition in self.value:
            return a if self.value[condition] != 0.0 else b
        chosen = b if a == self.zero else a
        if self.zero in (a, b) and self.op[chosen] == "select" and self.zero in self.args[chosen]:
            inner, first, second = self.args[chosen]
            outer = self.no(condition) if a == self.zero else condition
            kept = self.no(inner) if first == self.zero else inner
            both = outer if outer == kept else self.mul(outer, kept)
            return self.select(both, second if first == self.zero else first, self.zero)
        return self._node("select", condition, a, b)

    def counted(self, weight: int, x: int) -> int:
        """`x` where `weight` is positive; else 0, if `x` may not be finite there."""
        if self._traits[x].total:
            return x
        return self.select(self.binary("lt", self.zero, weight), x, self.zero)

    def no(self, condition: int) -> int:
        """1 where `condition` is 0, and 0 where it is 1."""
        first, last = self.args[condition] if self.op[condition] == "sub" else (self.zero,) * 2
        return last if first == self.one else self.sub(self.one, condition)

    def apply(self, op: str, args: Sequence[int]) -> int:
        """The operation `op` on `args`, by the constructor that belongs to it."""
        if op in ("add", "sub", "mul", "div", "neg", "inv", "select"):
            return int(getattr(self, op)(*args))
        if len(args) > 2:
            return self._node(op, *args)
        return self.function(op, *args) if len(args) == 1 else self.binary(op, *args)

    def sum(self, terms: Sequence[int]) -> int:
        """Sum of `terms`, multiples of one expression collected, as a balanced tree."""
        if len(terms) == 1:
            return terms[0]
        factors: dict[int, float] = {}
        for term in terms:
            base, factor = self._multiple(term)
            factors[base] = factors.get(base, 0.0) + factor
        if len(factors) < len(terms):
            terms = [self.mul(self.const(c), base) for base, c in factors.items()]
        return self._tree(terms)

    def _multiple(self, node: int) -> tuple[int, float]:
        """(x, c) for a node that is c * x with a constant c."""
        if self.op[node] == "neg":
            base, factor = self._multiple(self.args[node][0])
            return base, -factor
        if self.op[node] == "mul" and self.args[node][0] in self.value:
            return self.args[node][1], self.value[self.args[node][0]]
        return node, 1.0

    def _tree(self, terms: Sequence[int]) -> int:
        if len(terms) <= 1:
            return terms[0] if terms else self.zero
        middle = len(terms) // 2
        return self.add(self._tree(terms[:middle]), self._tree(terms[middle:]))

    # -- queries ----------------------------------------------------------------------------

    def ancestors(self, outputs: Iterable[int]) -> list[int]:
        """Nodes that `outputs` depend on (with themselves), operands before users."""
        seen: set[int] = set()
        stack = list(outputs)
        while stack:
            node = stack.pop()
            if node not in seen:
                seen.add(node)
                stack.extend(self.args[node])
        return sorted(seen)  # a node is always younger than its operands

    def substitute(self, outputs: Sequence[int], replacement: dict[int, int]) -> list[int]:
        """`outputs` with the nodes of `replacement` exchanged."""
        new = dict(replacement)
        for node in self.ancestors(outputs):
            if node in new:
                continue
            args = self.args[node]
            mapped = tuple(new[a] for a in args)
            new[node] = node if mapped == args else self.apply(self.op[node], mapped)
        return [new[node] for node in outputs]
