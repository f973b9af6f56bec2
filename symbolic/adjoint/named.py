"""Named expressions with derivatives through them, for expressions too large to be expanded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import sympy as sp


class NamedExpressions:
    """A straight-line program `symbol = expression`, and derivatives, forward and reverse, through
    it.

    Everything is a plain symbol here. Equal expressions get the same symbol. A symbol that is
    `frozen` counts as an independent variable.
    """

    def __init__(self, taken: Iterable[str]) -> None:
        self.definitions: dict[sp.Symbol, sp.Expr] = {}
        self._symbols: dict[sp.Expr, sp.Symbol] = {}
        self._free: dict[sp.Expr, tuple[sp.Symbol, ...]] = {}
        self._taken = set(taken)
        self._count = 0

    def unique(self, name: str) -> str:
        """`name`, or something like it that is not taken; it is taken from now on."""
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name

    def define(self, expression: sp.Expr) -> sp.Expr:
        """A symbol for `expression`, or the expression itself if it is +- a symbol or number."""
        if expression.is_Atom or (-expression).is_Atom:
            return expression
        return self.name(expression)

    def name(self, expression: sp.Expr) -> sp.Expr:
        """A symbol for `expression`, so that it can be frozen; a number is left as it is."""
        if expression.is_number:
            return expression
        if expression not in self._symbols:
            symbol = sp.Symbol(self.unique(f"adj_{self._count}"))
            self._count += 1
            self._symbols[expression] = symbol
            self.definitions[symbol] = expression
        return self._symbols[expression]

    def free(self, expression: sp.Expr) -> tuple[sp.Symbol, ...]:
        """Symbols of `expression`, sorted by name."""
        if expression not in self._free:
            symbols = sorted(expression.free_symbols, key=lambda s: str(s.name))
            self._free[expression] = tuple(symbols)
        return self._free[expression]

    def symbols(self, expressions: Iterable[sp.Expr]) -> set[sp.Symbol]:
        """Symbols that `expressions` contain."""
        return {s for e in expressions for s in self.free(e)}

    def needed(
        self, expressions: Iterable[sp.Expr], frozen: Iterable[sp.Symbol] = ()
    ) -> list[sp.Symbol]:
        """Defined symbols that `expressions` depend on, each after those that it uses."""
        order: list[sp.Symbol] = []
        seen = set(frozen)
        stack = [(s, False) for e in expressions for s in self.free(e)][::-1]
        while stack:  # not recursive: chains of definitions may be long
            symbol, complete = stack.pop()
            if complete:
                order.append(symbol)
            elif symbol in self.definitions and symbol not in seen:
                seen.add(symbol)
                stack.append((symbol, True))
                stack += [(s, False) for s in self.free(self.definitions[symbol])][::-1]
        return order

    def variables(
        self, expressions: Sequence[sp.Expr], frozen: Iterable[sp.Symbol] = ()
    ) -> set[sp.Symbol]:
        """Symbols that `expressions` depend on, directly or through definitions."""
        through = [self.definitions[s] for s in self.needed(expressions, frozen)]
        return self.symbols([*expressions, *through])

    def gradient(
        self, scalar: sp.Expr, wrt: Sequence[sp.Symbol], frozen: Iterable[sp.Symbol] = ()
    ) -> list[sp.Expr]:
        """d scalar / d wrt, by one reverse sweep."""
        order = self.needed([scalar], frozen)
        leading = set(wrt)  # symbols through which the scalar depends on wrt
        for symbol in order:
            if not leading.isdisjoint(self.free(self.definitions[symbol])):
                leading.add(symbol)
        parts: dict[sp.Symbol, list[sp.Expr]] = {}

        def spread(expression: sp.Expr, factor: sp.Expr) -> None:
            for s in self.free(expression):
                if s in leading:
                    parts.setdefault(s, []).append(factor * expression.diff(s))

        spread(scalar, sp.S.One)
        for symbol in reversed(order):
            factor = self.define(sp.Add(*parts.get(symbol, ())))
            if factor != 0:
                spread(self.definitions[symbol], factor)
        return [sp.Add(*parts.get(x, ())) for x in wrt]

    def along(
        self,
        expressions: Sequence[sp.Expr],
        direction: Mapping[sp.Symbol, sp.Expr],
        frozen: Iterable[sp.Symbol] = (),
    ) -> list[sp.Expr]:
        """Derivatives of `expressions` when every symbol moves with the rate of `direction`."""
        rate = dict(direction)

        def derivative(expression: sp.Expr) -> sp.Expr:
            moving = (s for s in self.free(expression) if rate.get(s, 0) != 0)
            return sp.Add(*(expression.diff(s) * rate[s] for s in moving))

        for symbol in self.needed(expressions, frozen):
            rate[symbol] = self.define(derivative(self.definitions[symbol]))
        return [derivative(e) for e in expressions]

    def replace(
        self, expressions: Sequence[sp.Expr], replacement: Mapping[sp.Symbol, sp.Expr]
    ) -> list[sp.Expr]:
        """`expressions` with symbols exchanged, in the definitions that they use too."""
        new = dict(replacement)
        for symbol in self.needed(expressions):
            expression = self.definitions[symbol]
            exchanged = expression.xreplace(new)
            if exchanged != expression:
                new[symbol] = self.define(exchanged)
        return [e.xreplace(new) for e in expressions]

    def solve(
        self, matrix: Sequence[Mapping[int, sp.Expr]], right: Sequence[sp.Expr]
    ) -> list[sp.Expr]:
        """x with matrix x = right, by sparse elimination without numerical pivoting.

        matrix : rows {column: entry}. Pivots are chosen for sparsity, numbers first. Raises
        `ArithmeticError` with the first column that no row determines.
        """
        rows, b = [dict(row) for row in matrix], list(right)
        left = list(range(len(rows)))
        steps: list[tuple[int, int]] = []
        while left:
            uses = [j for i in left for j in rows[i]]
            choices = [
                ((len(rows[i]) - 1) * (uses.count(j) - 1), not entry.is_number, i, j)
                for i in left
                for j, entry in rows[i].items()
            ]
            if not choices:
                raise ArithmeticError(min(set(range(len(rows))) - {j for _, j in steps}))
            *_, i, j = min(choices)
            left.remove(i)
            steps.append((i, j))
            for k in left:
                if j in rows[k]:
                    factor = self.define(rows[k].pop(j) / rows[i][j])
                    b[k] = self.define(b[k] - factor * b[i])
                    for column, entry in rows[i].items():
                        if column != j:
                            new = self.define(rows[k].pop(column, sp.S.Zero) - factor * entry)
                            rows[k].update({column: new} if new != 0 else {})
        x: dict[int, sp.Expr] = {}
        for i, j in reversed(steps):
            rest = sp.Add(*(entry * x[c] for c, entry in rows[i].items() if c != j))
            x[j] = self.define((b[i] - rest) / rows[i][j])
        return [x[j] for j in range(len(rows))]
