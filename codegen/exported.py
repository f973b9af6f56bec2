"""The functions of a model that programs of others call, with the patterns of their derivatives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import sympy as sp

from kinesym.codegen.c99 import plain
from kinesym.codegen.derive import Sparse, by_row, jacobian, pullback, with_smooth_kinks
from kinesym.codegen.evaluate import (
    ModelSymbols,
    equation_label,
    model_functions,
    model_jacobians,
    model_symbols,
    rhs_kernel,
)
from kinesym.codegen.graph import Graph
from kinesym.codegen.kernel import Argument, Kernel
from kinesym.codegen.lower import Lowering
from kinesym.codegen.solve import Linearised, NotExplicit, affine_residual, linearised_rates
from kinesym.codegen.switching import hybrid_program
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of

#: What derivatives are taken with respect to, by the name of the argument.
GROUPS = {"xdot": "derivatives", "x": "states", "u": "inputs", "p": "parameters"}


@dataclass(frozen=True)
class Sparsity:
    """Pattern of a matrix by columns: entries of column j are begin[j] ... begin[j + 1] - 1, in the
    rows `row`, from 0."""

    shape: tuple[int, int]
    begin: tuple[int, ...]
    row: tuple[int, ...]


@dataclass(frozen=True)
class Exported:
    """A function: its kernel; for a matrix whose entries it gives, their places."""

    kernel: Kernel
    sparsity: Sparsity | None = None


def exported_functions(model: Model) -> list[Exported]:
    """`rhs` if x' can be solved for, `residual`, `outputs`; `mass_matrix` and `forcing` if the
    equations are linear in x' and not solved for it; Jacobians `rhs_jacobian_states`,
    `residual_jacobian_inputs` and so on; products `rhs_hessian_product`,
    `residual_hessian_product`. Entries of matrices are by columns. With delays, delayed values are
    an argument of its own after the inputs, and `delays` are the times by which they are late.

    Raises `ValueError` for functions that C99 does not have.
    """
    kernels = {kernel.name: kernel for kernel in model_functions(model).kernels}
    order = [name for name in ("rhs", "residual", "outputs") if name in kernels]
    found = [Exported(kernels[name]) for name in order]
    found += [*_mass_and_forcing(model), *_jacobians(model, "rhs" in order)]
    found += [_hessian_product(model, of) for of in order if of != "outputs"]
    if model.delays:
        found = [*chain.from_iterable(_with_delays(model, f) for f in found), _delays(model)]
    return [replace(f, kernel=plain(f.kernel)) for f in found if f.kernel.outputs]


def step_functions(model: Model, explicit: bool) -> list[Exported]:
    """Functions that steps of time call: `rhs`, of explicit methods, or `residual`, and its
    Jacobians. Raises `ValueError` for functions that C99 does not have."""
    of = "rhs" if explicit else "residual"
    kernels = {kernel.name: kernel for kernel in model_functions(model).kernels}
    found = [Exported(kernels[of]), *_jacobians(model, explicit)]
    found = [f for f in found if f.kernel.name.split("_")[0] == of and f.kernel.outputs]
    return [replace(f, kernel=plain(f.kernel)) for f in found]


def start_function(
    name: str,
    model: Model,
    known: Mapping[str, float],
    rules: Mapping[str, sp.Expr],
    free: Sequence[str],
) -> Kernel:
    """Start of a simulation from parameters: the states, then their derivatives by each parameter
    of `free`. known : states that are numbers. rules : those that are expressions of parameters.

    Raises `ValueError` for functions that C99 does not have.
    """
    g = Graph()
    p = Argument("p", tuple(f"p.{name}" for name in model.parameter_names))
    lower = Lowering(g, dict(zip(model.parameters, g.symbols(p.symbols), strict=True)))
    names = model.state_names
    values = [lower(rules[x]) if x in rules else g.const(known[x]) for x in names]
    slopes = jacobian(g, with_smooth_kinks(g, values), [g.symbol(f"p.{name}") for name in free])
    labels = [*names, *(f"d {x} / d {q}" for q in free for x in names)]
    by = [slopes.get((i, j), g.zero) for j in range(len(free)) for i in range(len(names))]
    return plain(
        Kernel(name, g, (p,), (*values, *by), tuple(labels), "states at the start, and slopes")
    )


def hybrid_functions(hybrid: Hybrid) -> list[Exported]:
    """`guards`: the guard of each event, then whether it is armed, which it is if that is positive;
    Jacobians of the guards, `guards_jacobian_states` and so on; `reset_0`, `reset_1`, ...: states
    and inputs after an event, of which modes are some.

    Raises `ValueError` for functions that C99 does not have.
    """
    program, states = hybrid_program(hybrid), hybrid.model.state_names
    found = {kernel.name: kernel for kernel in program.kernels}
    if "guards" not in found:
        return []
    inputs = hybrid.model.input_names
    made = [replace(found["guards"], purpose="guards of events, then whether these are armed")]
    begin = 0
    for number, event in enumerate(hybrid.events):
        targets = [name_of(target) for target in (*event.resets, *event.sets)]
        kernel = found.get("resets", found["guards"])
        g = kernel.graph
        new = dict(zip(targets, kernel.outputs[begin : begin + len(targets)], strict=True))
        begin += len(targets)
        same = [(x, f"x.{x}") for x in states] + [(u, f"u.{u}") for u in inputs]
        nodes = tuple(new[x] if x in new else g.symbol(symbol) for x, symbol in same)
        about = f"reset_{number}", f"states, then inputs, after event {number}, {event.name}"
        labels = (*states, *inputs)
        made.append(Kernel(about[0], g, kernel.arguments, nodes, labels, about[1]))
    order = tuple(f"u.{u}" for u in inputs)
    made = [_with_inputs(kernel, order) for kernel in made]
    slopes = _guard_jacobians(made[0], [event.name for event in hybrid.events])
    return [Exported(plain(kernel)) for kernel in made] + [
        replace(f, kernel=plain(f.kernel)) for f in slopes
    ]


def _guard_jacobians(guards: Kernel, names: Sequence[str]) -> Iterator[Exported]:
    """Derivatives of the guards by states, inputs and parameters, where there are any."""
    g, purpose = guards.graph, "derivatives of the guards with respect to the {}, by columns"
    rows = with_smooth_kinks(g, guards.outputs[: len(names)])
    for argument in guards.arguments:
        if argument.name not in ("x", "u", "p"):
            continue
        wrt = GROUPS[argument.name]
        if entries := jacobian(g, rows, g.symbols(argument.symbols)):
            labels = tuple(f"d {names[i]} / d {argument.symbols[j]}" for i, j in entries)
            kernel = Kernel(
                f"guards_jacobian_{wrt}",
                g,
                guards.arguments,
                tuple(entries.values()),
                labels,
                purpose.format(wrt),
            )
            yield _by_columns(kernel, list(entries), (len(names), len(argument.symbols)))


def _with_inputs(kernel: Kernel, order: tuple[str, ...]) -> Kernel:
    """A kernel with its inputs in another order."""
    arguments = (replace(a, symbols=order) if a.name == "u" else a for a in kernel.arguments)
    return replace(kernel, arguments=tuple(arguments))


# -- delays ---------------------------------------------------------------------------------------


def _with_delays(model: Model, f: Exported) -> Iterator[Exported]:
    """A function whose delayed values, the last inputs, are an argument of their own; a Jacobian by
    inputs as two."""
    count = len(model.inputs) - len(model.delays)
    arguments: list[Argument] = []
    for a in f.kernel.arguments:
        own = a.name == "u"
        arguments.append(replace(a, symbols=a.symbols[:count]) if own else a)
        arguments += [Argument("delayed", a.symbols[count:])] * own
    f = Exported(replace(f.kernel, arguments=tuple(arguments)), f.sparsity)
    if f.sparsity is None or not f.kernel.name.endswith("_jacobian_inputs"):
        yield f
        return
    yield _columns(f, f.sparsity, 0, count, "inputs")
    late = _columns(f, f.sparsity, count, f.sparsity.shape[1], "delayed values")
    name = f.kernel.name.replace("_inputs", "_delayed")
    yield replace(late, kernel=replace(late.kernel, name=name))


def _columns(f: Exported, pattern: Sparsity, low: int, high: int, wrt: str) -> Exported:
    """Some columns of a Jacobian by inputs, which are those `wrt`."""
    begin, part = pattern.begin, slice(pattern.begin[low], pattern.begin[high])
    kernel = replace(
        f.kernel,
        outputs=f.kernel.outputs[part],
        labels=f.kernel.labels[part],
        purpose=f.kernel.purpose.replace("inputs", wrt),
    )
    mine = tuple(k - begin[low] for k in begin[low : high + 1])
    return Exported(kernel, Sparsity((pattern.shape[0], high - low), mine, pattern.row[part]))


def _delays(model: Model) -> Exported:
    """Delays of delayed values, of those that depend on parameters alone."""
    s = model_symbols(model)
    values = tuple(s.lower(delay.tau) for delay in model.delays)
    labels = tuple(delay.name for delay in model.delays)
    return Exported(Kernel("delays", s.graph, (s.p,), values, labels, "delays of these values [s]"))


# -- matrices -------------------------------------------------------------------------------------


def _by_columns(
    kernel: Kernel, places: Sequence[tuple[int, int]], shape: tuple[int, int]
) -> Exported:
    """The matrix of a kernel whose outputs are at these places."""
    order = sorted(range(len(places)), key=lambda k: places[k][::-1])
    count = [sum(1 for _, j in places if j < column) for column in range(shape[1] + 1)]
    outputs = tuple(kernel.outputs[k] for k in order)
    labels = tuple(kernel.labels[k] for k in order)
    rows = tuple(places[k][0] for k in order)
    return Exported(
        replace(kernel, outputs=outputs, labels=labels), Sparsity(shape, tuple(count), rows)
    )


def _matrix(
    s: ModelSymbols, name: str, entries: Sparse, shape: tuple[int, int], purpose: str
) -> Exported:
    """Entries that do not depend on x' as a matrix."""
    labels = tuple(f"row {i}, column {j}" for i, j in entries)
    kernel = Kernel(name, s.graph, s.arguments, tuple(entries.values()), labels, purpose)
    return _by_columns(kernel, list(entries), shape)


def _mass_and_forcing(model: Model) -> Iterator[Exported]:
    """M and f of M x' = f, unless M is 1 or x' enters nonlinearly."""
    s = model_symbols(model)
    g, rates, n = s.graph, s.nodes(s.xdot), len(model.states)
    try:
        residual = affine_residual(
            g, [s.lower(e) for e in model.equations], rates, model.state_names
        )
    except NotExplicit:
        return
    mass = jacobian(g, residual, rates)
    if mass == {(k, k): g.one for k in range(n)}:
        return
    bias = g.substitute(residual, dict.fromkeys(rates, g.zero))
    yield _matrix(s, "mass_matrix", mass, (n, n), "M of M x' = f, by columns")
    labels = tuple(equation_label(model, k) for k in range(n))
    forcing = tuple(g.neg(b) for b in bias)
    yield Exported(Kernel("forcing", g, s.arguments, forcing, labels, "f of M x' = f"))


def _jacobians(model: Model, explicit: bool) -> Iterator[Exported]:
    """Jacobians of the right-hand side, of the residual and of outputs."""
    sizes = {
        "derivatives": len(model.states),
        "states": len(model.states),
        "inputs": len(model.inputs),
        "parameters": len(model.parameters),
        "residual": len(model.equations),
        "outputs": len(model.outputs),
    }
    if explicit:
        for group in ("x", "u", "p"):
            if sizes[GROUPS[group]]:
                yield _rhs_jacobian(model, group)
    program = model_jacobians(model)
    about = program.description["jacobians"]["patterns"]
    for kernel in program.kernels:
        of, wrt = kernel.name.split("_")
        named = replace(
            kernel, name=f"{of}_jacobian_{wrt}", purpose=f"{kernel.purpose}, by columns"
        )
        places = list(zip(*about[kernel.name], strict=True))
        yield _by_columns(named, places, (sizes[of], sizes[wrt]))


def _rhs_jacobian(model: Model, group: str) -> Exported:
    """The Jacobian of x', differentiated or as the solution of linear equations, whatever takes
    fewer operations."""
    ways = (made(model, group) for made in (_differentiated, _solved))
    found = [way for way in ways if way is not None]
    return min(found, key=lambda exported: exported.kernel.operations)


def _group(s: ModelSymbols, name: str) -> Argument:
    return next(a for a in (s.xdot, *s.arguments) if a.name == name)


def _differentiated(model: Model, group: str) -> Exported:
    s = model_symbols(model)
    rows = with_smooth_kinks(s.graph, rhs_kernel(model, s).outputs)
    return _of_rhs(model, s, group, jacobian(s.graph, rows, s.nodes(_group(s, group))))


def _solved(model: Model, group: str) -> Exported | None:
    s = model_symbols(model)
    equations = [s.lower(e) for e in model.equations]
    wrt = s.nodes(_group(s, group))
    try:
        found = linearised_rates(s.graph, equations, s.nodes(s.xdot), model.state_names, wrt)
    except NotExplicit:  # an explicit form was given with the model
        return None
    return _of_rhs(model, s, group, _rates_by(s, found))


def _of_rhs(model: Model, s: ModelSymbols, group: str, entries: Sparse) -> Exported:
    """Entries as the Jacobian of x'."""
    wrt, columns = GROUPS[group], _group(s, group).symbols
    labels = tuple(f"d {model.state_names[i]}' / d {columns[j]}" for i, j in entries)
    purpose = f"derivatives of the rhs with respect to the {wrt}, by columns"
    name, outputs = f"rhs_jacobian_{wrt}", tuple(entries.values())
    kernel = Kernel(name, s.graph, s.arguments, outputs, labels, purpose)
    return _by_columns(kernel, list(entries), (len(model.states), len(columns)))


def _rates_by(s: ModelSymbols, found: Linearised) -> Sparse:
    """d x' / d z = M^-1 side: the steps of `Linearised` on sparse rows."""
    g, rows = s.graph, by_row(found.side)
    for target, source, node in found.steps:
        given = rows.get(source, {})
        if target == source:
            rows[target] = {j: g.mul(node, value) for j, value in given.items()}
            continue
        row = rows.setdefault(target, {})
        for j, value in given.items():
            row[j] = g.sub(row.get(j, g.zero), g.mul(node, value))
    return {
        (i, j): value
        for i in range(len(found.rates))
        for j, value in sorted(rows.get(i, {}).items())
        if value != g.zero
    }


# -- second derivatives ---------------------------------------------------------------------------


def _hessian_product(model: Model, of: str) -> Exported:
    """Gradient of a weighted sum of a function, and its Hessian times a direction."""
    s = model_symbols(model)
    g = s.graph
    groups = [s.x, s.u, s.p] if of == "rhs" else [s.xdot, s.x, s.u, s.p]
    rows = rhs_kernel(model, s).outputs if of == "rhs" else [s.lower(e) for e in model.equations]
    rows = with_smooth_kinks(g, rows)
    wrt = [node for group in groups for node in s.nodes(group)]
    names = [name for group in groups for name in group.symbols]
    weights = Argument("weights", tuple(f"weights.{i}" for i in range(len(rows))))
    direction = Argument("direction", tuple(f"direction.{name}" for name in names))
    gradient = pullback(g, rows, g.symbols(weights.symbols), wrt)
    product = pullback(g, gradient, g.symbols(direction.symbols), wrt)
    labels = (*(f"gradient, {name}" for name in names), *(f"product, {name}" for name in names))
    given = s.arguments if of == "rhs" else (s.xdot, *s.arguments)
    by = ", ".join(a.name for a in groups)
    by = by.replace("u", "u, delayed") if model.delays else by
    purpose = (
        f"gradient of weights . {of} with respect to ({by}), then its Hessian with respect to "
        "these times direction"
    )
    arguments, nodes = (*given, weights, direction), (*gradient, *product)
    return Exported(Kernel(f"{of}_hessian_product", g, arguments, nodes, labels, purpose))
