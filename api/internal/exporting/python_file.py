"""One file of Python with NumPy alone: the functions of a model, for papers and teaching."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from kinesym.codegen.c99 import file_name
from kinesym.codegen.evaluate import (
    ModelSymbols,
    equation_label,
    model_functions,
    model_jacobians,
    model_symbols,
)
from kinesym.codegen.graph import LEAVES
from kinesym.codegen.kernel import Argument, Kernel
from kinesym.codegen.numpy_text import Names, statements
from kinesym.symbolic.model import Model

#: Names that the file has for other things.
_TAKEN = (
    *("np", "special", "xdot", "x", "u", "p", "t", "points", "TABLES"),
    *("_arrays", "_rows", "_matrix", "_locate", "_entry"),
)
#: Letters of a line of names or numbers.
_WIDTH = 88


def python_files(model: Model) -> Mapping[str, bytes]:
    """The file, by its name.

    Functions `rhs` (x, u, p, t), if x' can be solved for, `residual` (xdot, x, u, p, t), `outputs`
    and Jacobians `residual_states` and so on, of one point or of arrays of points, are those of
    `kinesym.compile`; `simulate` makes steps of the method of Runge and Kutta, or of backward
    Euler. Raises `ValueError` for a model with delays, and for functions that are C text alone.
    """
    if model.delays:
        raise ValueError(
            f"model {model.name} has delays, {', '.join(d.name for d in model.delays)}, whose past "
            "functions of one point do not keep"
        )
    symbols = model_symbols(model)
    program, derived = model_functions(model, symbols), model_jacobians(model, symbols)
    writer = _Writer.of(model, symbols)
    values = [writer.values(kernel) for kernel in program.kernels]
    patterns = derived.description["jacobians"]["patterns"]
    jacobians = [writer.jacobian(kernel, patterns[kernel.name]) for kernel in derived.kernels]
    explicit = any(kernel.name == "rhs" for kernel in program.kernels)
    body = [*values, *jacobians]
    with_scipy = any("special." in text for text in body)
    parts = [
        _head(model, with_scipy),
        _constants(model),
        _HELPERS,
        *([_LOOKUP.format(numbers=_numbers(program.tables))] if len(program.tables) else []),
        *body,
        (_RUNGE_KUTTA if explicit else _BACKWARD_EULER),
        _MAIN,
    ]
    return {f"{file_name(model.name)}.py": "\n\n\n".join(map(str.strip, parts)).encode() + b"\n"}


# -- head -----------------------------------------------------------------------------------------


def _head(model: Model, with_scipy: bool) -> str:
    groups = (
        ("states x", model.state_names),
        ("inputs u", model.input_names),
        ("parameters p", model.parameter_names),
        ("outputs", tuple(model.outputs)),
    )
    lists = [
        textwrap.fill(f"{what}: {_listed(names, model.units)}", _WIDTH, subsequent_indent="    ")
        for what, names in groups
        if names
    ]
    needs = "NumPy and SciPy" if with_scipy else "NumPy"
    text = "\n\n".join(
        [
            f"Model {model.name}, 0 = f(x', x, u, p, t), as functions of {needs}.",
            "\n".join(lists),
            textwrap.fill(
                "Arguments are x' and x (states, ...), u (inputs, ...), p (parameters,) and the "
                "time t, where ... are points; results are (rows, ...), of Jacobians (rows, "
                "columns, ...). Jacobians of x' follow from d residual/d x' J = -d residual/d x.",
                _WIDTH,
            ),
            f"Written by kinesym {version('kinesym')}; whoever uses kinesym owns this file, and "
            "may\nlicense it as they like.",
        ]
    )
    safe = text.replace("\\", "\\\\").replace('"', "'")
    imports = "import numpy as np" + "\nfrom scipy import special" * with_scipy
    return f'"""{safe}\n"""\n\n{imports}'


def _listed(names: Iterable[str], units: Mapping[str, str]) -> str:
    return ", ".join(f"{name} [{units[name]}]" if name in units else name for name in names)


def _constants(model: Model) -> str:
    groups = {
        "STATES": model.state_names,
        "INPUTS": model.input_names,
        "OUTPUTS": tuple(model.outputs),
    }
    parts = [
        f"{what} = ({_wrapped(_tuple(map(_quoted, names)))})" for what, names in groups.items()
    ]
    rows = [
        f"    {_quoted(name)}: {model.values[name]!r},"
        if name in model.values
        else f"    {_quoted(name)}: 1.0,  # the model has no value"
        for name in model.parameter_names
    ]
    parts.append("\n".join(["PARAMETERS = {", *rows, "}"]) if rows else "PARAMETERS = {}")
    return "\n".join(parts)


def _tuple(words: Iterable[str]) -> str:
    found = [*words]
    return ", ".join(found) + "," * (len(found) == 1)


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _wrapped(words: str) -> str:
    """A list in parentheses, on lines of its own if it is long."""
    words = words.strip()
    if len(words) < _WIDTH - 12:
        return words
    lines = textwrap.fill(
        words, _WIDTH, break_long_words=False, initial_indent="    ", subsequent_indent="    "
    )
    return f"\n{lines}\n"


def _numbers(values: Iterable[float]) -> str:
    text = ", ".join(
        repr(float(v)).replace("nan", "np.nan").replace("inf", "np.inf") for v in values
    )
    return _wrapped(text)


# -- functions ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Writer:
    """Writer of the functions of a model. arguments : names by symbol of each argument. known :
    names of intermediates, by node. names : all of these."""

    model: Model
    arguments: Mapping[str, Mapping[str, str]]
    known: Mapping[int, str]
    names: Names

    @classmethod
    def of(cls, model: Model, symbols: ModelSymbols) -> _Writer:
        """The writer with names for all symbols."""
        names = Names(_TAKEN)

        def named(argument: Argument, end: str = "") -> dict[str, str]:
            return {s: names(f"{s.partition('.')[2]}{end}") for s in argument.symbols}

        arguments = {a.name: named(a) for a in (symbols.x, symbols.u, symbols.p)}
        arguments |= {"xdot": named(symbols.xdot, "_rate"), "t": {"t.time": "t"}}
        more = () if model.explicit is None else model.explicit.intermediates
        known: dict[int, str] = {}
        for symbol, _ in (*model.intermediates, *more):
            node = symbols.lower(symbol)
            if symbols.graph.op[node] not in LEAVES and node not in known:
                known[node] = names(str(symbol))
        return cls(model, arguments, known, names)

    def values(self, kernel: Kernel) -> str:
        """A function with a row for each output."""
        labels = kernel.labels
        if kernel.name == "residual":
            labels = tuple(equation_label(self.model, k) for k in range(len(labels)))
        lines, rows = self._statements(kernel, labels)
        entries = [f"    {row},  # {label}" for row, label in zip(rows, labels, strict=True)]
        result = ["return _rows(points, [", *entries, "])"]
        return self._function(kernel, kernel.purpose, [*lines, *result])

    def jacobian(self, kernel: Kernel, pattern: Sequence[Sequence[int]]) -> str:
        """A function with the entries of a matrix that are not zero everywhere."""
        of, _, wrt = kernel.name.partition("_")
        count = {
            "residual": len(self.model.equations),
            "outputs": len(self.model.outputs),
            "inputs": len(self.model.inputs),
            "parameters": len(self.model.parameters),
        }
        shape = count[of], count.get(wrt, len(self.model.states))
        lines, rows = self._statements(kernel, kernel.labels)
        entries = [f"    ({i}, {j}): {row}," for i, j, row in zip(*pattern, rows, strict=True)]
        result = [f"return _matrix(points, {shape}, {{", *entries, "})"]
        return self._function(kernel, kernel.purpose, [*lines, *result])

    def _statements(self, kernel: Kernel, labels: Sequence[str]) -> tuple[list[str], list[str]]:
        named = {s: name for group in self.arguments.values() for s, name in group.items()}
        return statements(kernel, labels, named, self.known, self.names.copy())

    def _function(self, kernel: Kernel, purpose: str, lines: Sequence[str]) -> str:
        arrays = [a.name for a in kernel.arguments if a.name in ("xdot", "x", "u", "p")]
        given = ", ".join(arrays)
        used = {kernel.graph.name[n] for n in kernel.nodes if n in kernel.graph.name}
        body = "\n".join(lines)
        count = f"{kernel.operations} operation{'s' * (kernel.operations != 1)}"
        head = [
            *(['@np.errstate(all="ignore")'] if "np.where(" in body else []),
            f"def {kernel.name}({given}, t=0.0):",
            f'    """{purpose}; {count}."""',
            f"    {given}, t, points = _arrays(t, {given})",
        ]
        for name in arrays:
            group = self.arguments[name]
            if not used.isdisjoint(group):
                text = _wrapped(_tuple(group.values()))
                text = f"({text})" if "\n" in text or len(group) == 1 else text
                head.append(textwrap.indent(f"{text} = {name}", "    "))
        return "\n".join([*head, textwrap.indent(body, "    ")])


_HELPERS = '''
def _arrays(t, *arguments):
    """The arguments as arrays, and the shape of the points."""
    arrays = [np.asarray(a, dtype=float) for a in arguments]
    t = np.asarray(t, dtype=float)[()]
    return *arrays, t, np.broadcast_shapes(t.shape, *(a.shape[1:] for a in arrays))


def _rows(points, rows):
    return np.stack([np.broadcast_to(row, points) for row in rows])


def _matrix(points, shape, entries):
    found = np.zeros(shape + points)
    for place, value in entries.items():
        found[place] = value
    return found
'''
_LOOKUP = '''
#: The numbers of tables: points, then coefficients of polynomials between them.
TABLES = np.array([{numbers}])


def _locate(begin, count, x):
    """How many of the points of a table are not larger than x."""
    found = np.searchsorted(TABLES[begin + 1 : begin + 1 + count], x, side="right")
    return np.where(np.isnan(x), 0, found)


def _entry(begin, step, number):
    return TABLES[np.asarray(begin + step * number, dtype=int)]
'''
_RUNGE_KUTTA = '''
def simulate(start, u, p, end=1.0, steps=100):
    """States (states, steps + 1) from t = 0 with constant inputs, by steps of RK4."""
    h, found = end / steps, [np.asarray(start, dtype=float)]
    for k in range(steps):
        t, x = k * h, found[-1]
        a = rhs(x, u, p, t)
        b = rhs(x + h / 2 * a, u, p, t + h / 2)
        c = rhs(x + h / 2 * b, u, p, t + h / 2)
        d = rhs(x + h * c, u, p, t + h)
        found.append(x + h / 6 * (a + 2 * b + 2 * c + d))
    return np.stack(found, axis=-1)
'''
_BACKWARD_EULER = '''
def simulate(start, u, p, end=1.0, steps=100):
    """States (states, steps + 1) from t = 0 with constant inputs, by backward Euler steps."""
    h, found = end / steps, [np.asarray(start, dtype=float)]
    for k in range(steps):
        t, before = (k + 1) * h, found[-1]
        x = before.copy()
        for _ in range(20):
            rate = (x - before) / h
            matrix = residual_derivatives(rate, x, u, p, t) / h + residual_states(rate, x, u, p, t)
            step = np.linalg.solve(matrix, residual(rate, x, u, p, t))
            x = x - step
            if np.max(np.abs(step)) < 1e-10 * (1.0 + np.max(np.abs(x))):
                break
        found.append(x)
    return np.stack(found, axis=-1)
'''
_MAIN = '''
def main():
    """Print a motion from states of 0.1, without inputs."""
    start, u, p = np.full(len(STATES), 0.1), np.zeros(len(INPUTS)), [*PARAMETERS.values()]
    x = simulate(start, u, p)
    print("t", *STATES)
    for k in range(0, 101, 20):
        print(f"{k / 100:g}", *(f"{value:.6g}" for value in x[:, k]))


if __name__ == "__main__":
    main()
'''
