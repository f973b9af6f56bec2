"""The C of a program: equal bytes, no warnings, the interpreter's values however it is cut; and its
instructions for the machine."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace

import mpmath
import numpy as np
import pytest
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

from kinesym import models
from kinesym.codegen import c as printer
from kinesym.codegen.bytecode import encode
from kinesym.codegen.c import emit, identifier, printed_from
from kinesym.codegen.evaluate import model_functions, model_jacobians
from kinesym.codegen.graph import Graph
from kinesym.codegen.interpret import interpret
from kinesym.codegen.kernel import ABI, Argument, Kernel, Program
from kinesym.codegen.operations import FUNCTIONS
from kinesym.codegen.schedule import schedule
from kinesym.codegen.stepping import shooting_kernels, stepper
from kinesym.runtime.library.build import build
from kinesym.runtime.native import Call, Interpreted, Plan
from kinesym.runtime.sparse.places import rows
from kinesym.symbolic.objective import Integral
from kinesym.symbolic.problem import Problem
from kinesym.symbolic.schemes import EXPLICIT, SCHEMES

LANES = [1, 4, 8]
STRICT = ("-Wall", "-Wextra", "-Werror")


def compiled(program, lanes=None):
    return build(emit(program).files, lanes, STRICT)[0]


def interpreted(program, lanes=None):
    try:
        return Interpreted(program.name, encode(program), lanes)
    except ValueError as error:
        pytest.skip(str(error))  # the processor has no such vectors


TIERS = pytest.mark.parametrize("tier", [compiled, interpreted])


def run(library, kernel, arrays, n, threads=1):
    """All outputs of a compiled kernel at n points, (n_outputs, n)."""
    arguments = []
    for argument in kernel.arguments:
        values = np.ascontiguousarray(arrays[argument.name], dtype=float)
        arguments.append((values.ravel(), 0, n if argument.varying else 1))
    count = len(kernel.outputs)
    out = np.full((count, n), np.nan)
    call = Call(library, kernel.name, n, arguments, (), rows(count, n), out.size)
    Plan([call], [], out.size, threads)((), out.reshape(-1))
    return out


def random_arrays(kernel, n, seed=1):
    """Values in (0.3, 1.4) for every argument."""
    rng = np.random.default_rng(seed)
    shapes = {
        a.name: (len(a.symbols), n) if a.varying else len(a.symbols) for a in kernel.arguments
    }
    return {name: rng.uniform(0.3, 1.4, shape) for name, shape in shapes.items()}


def assert_twins(library, kernel, n=13, rtol=1e-12):
    """The compiled kernel has the values of the interpreter."""
    arrays = random_arrays(kernel, n)
    expected = interpret(kernel, arrays, n)
    scale = np.abs(expected[np.isfinite(expected)]).max(initial=1.0)
    np.testing.assert_allclose(run(library, kernel, arrays, n), expected, rtol, rtol * scale)


def chain_kernel():
    """A kernel whose parts share much: many values cross any cut; uniform parts are long too."""
    g = Graph()
    x, p = g.symbols(f"x.{k}" for k in range(4)), g.symbols(f"p.{k}" for k in range(3))
    uniform, nodes = [*p], [*x]
    for k in range(25):
        uniform.append(g.function("sin", g.add(g.mul(uniform[-1], uniform[-2]), uniform[k // 3])))
        nodes.append(g.function("cos", g.add(g.mul(nodes[-1], nodes[k // 2]), uniform[-1])))
    outputs = [*nodes[5::3], g.sum(nodes), uniform[-1], g.const(2.5), x[1], p[2], nodes[7]]
    arguments = (
        Argument("x", tuple(f"x.{k}" for k in range(4))),
        Argument("p", tuple(f"p.{k}" for k in range(3)), varying=False),
    )
    return Kernel(
        "chain", g, arguments, tuple(outputs), tuple(f"y{k}" for k in range(len(outputs)))
    )


# -- determinism ----------------------------------------------------------------------------

_EMIT = """
import hashlib, sys
import numpy as np
from kinesym import models
from kinesym.codegen.c import emit
from kinesym.codegen.evaluate import model_functions
from kinesym.codegen.transcribe import transcribe
from kinesym.symbolic.objective import LeastSquares
from kinesym.symbolic.problem import Problem
from kinesym.symbolic.schemes import SCHEMES

def sources(model):
    measured = dict(zip(model.state_names, model.states))
    yield model_functions(model)
    yield transcribe(Problem(model, SCHEMES["midpoint"], LeastSquares(), model.parameters,
                             signals=model.inputs, measurements=measured))

digest = hashlib.sha256()
for model in (models.cip(), models.standing(), models.n_link_pendulum_on_cart(3)):
    for program in sources(model):
        source = emit(program)
        for name, text in source.files.items():
            digest.update(f"{name}:{text}".encode())
        digest.update(source.manifest.encode())
print(digest.hexdigest())
"""


def test_equal_bytes_whatever_the_hash_seed():
    """Two processes with different hash seeds emit the same bytes, manifest included."""
    children = [
        subprocess.Popen(
            [sys.executable, "-c", _EMIT],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        for seed in ("1", "20260")
    ]
    answers = [child.communicate()[0].strip() for child in children]
    assert len(answers[0]) == 64 and answers[0] == answers[1]


def test_emit_twice():
    """Emitting the same program twice gives the same source."""
    program = model_functions(models.pendulum())
    assert emit(program) == emit(program) == emit(model_functions(models.pendulum()))


def test_digest_of_what_is_printed():
    """Equal where the C is; another one for whatever changes it."""
    program = model_functions(models.standing())
    assert printed_from(program) == printed_from(model_functions(models.standing()))
    rhs, rest = program.kernels[0], program.kernels[1:]
    first = rhs.arguments[0]
    kernels = [
        replace(rhs, name="other"),
        replace(rhs, purpose="another one"),
        replace(rhs, outputs=rhs.outputs[::-1]),
        replace(rhs, labels=rhs.labels[::-1]),
        replace(rhs, arguments=rhs.arguments[::-1]),
        replace(rhs, arguments=(replace(first, varying=False), *rhs.arguments[1:])),
        replace(rhs, arguments=(replace(first, symbols=first.symbols[::-1]), *rhs.arguments[1:])),
    ]
    others = [replace(program, kernels=(kernel, *rest)) for kernel in kernels]
    others += [
        replace(program, kernels=program.kernels[::-1]),
        replace(program, name="other"),
        model_functions(models.pendulum()),
    ]
    digests = {printed_from(other) for other in (program, *others)}
    assert len(digests) == 1 + len(others)


@pytest.mark.parametrize("name", ["methods", "states", "pattern"])
def test_digest_of_time_stepping(name):
    """Of its description what is printed counts, values of parameters do not."""
    program = stepper(models.standing(), SCHEMES["trapezoid"], False)
    about = program.description["stepping"]

    def digest(**changes):
        return printed_from(replace(program, description={"stepping": {**about, **changes}}))

    assert digest() == digest(values={}) == printed_from(program)
    assert digest(**{name: [*about[name]][:-1]}) != digest()
    assert printed_from(replace(program, description={})) != digest()


@given(st.floats(0.1, 9.0), st.floats(0.1, 9.0))
def test_digest_of_constants(a, b):
    """Numbers of an expression count to the last bit."""

    def digest(value):
        g = Graph()
        out = g.mul(g.const(value), g.function("sin", g.symbol("x")))
        kernel = Kernel("f", g, (Argument("x", ("x",)),), (out,), ("f",))
        return printed_from(Program("one", (kernel,)))

    assert (digest(a) == digest(b)) == (a == b)
    assert digest(a) == digest(a) != digest(np.nextafter(a, 10.0))


# -- compilation ----------------------------------------------------------------------------


@pytest.mark.parametrize("piece, lanes", [(None, 1), (None, 4), (None, 8), (20, 4)])
def test_no_warnings(monkeypatch, piece, lanes):
    """Generated C passes -Wall -Wextra -Werror, whole and in pieces."""
    if piece:
        cut_small(monkeypatch, piece)
    program = model_functions(models.standing())
    library, _ = build(emit(program).files, lanes, STRICT)
    assert library.lanes == lanes
    assert library.kernel_names() == [kernel.name for kernel in program.kernels]


def test_no_warnings_from_odd_kernels():
    """Kernels without outputs, without arguments, with odd names and odd constants compile too."""
    g = Graph()
    x = Argument("x", ("x.a b", "x.a'b", "x.θ", "x.double"))
    a, b, theta, double = g.symbols(x.symbols)
    odd = [g.const(value) for value in (np.nan, np.inf, -np.inf, -1e-300, 1e22)]
    outputs = (*odd, g.mul(g.const(-2.0), g.add(a, g.neg(b))), g.div(theta, double), a)
    labels = tuple(f"d */ {k} \\" for k in range(len(outputs)))
    kernels = (
        Kernel("odd", g, (x,), outputs, labels),
        Kernel("empty", g, (x,), (), ()),
        Kernel("constant", g, (), (g.const(3.0),), ("three",)),
    )
    library, _ = build(emit(Program("odd names", kernels)).files, None, STRICT)
    assert_twins(library, kernels[0])
    assert run(library, kernels[2], {}, 5).tolist() == [[3.0] * 5]


@TIERS
@pytest.mark.parametrize("lanes", [1, 2, 4, 8])
def test_functions(tier, lanes):
    """Every operation, in all lanes and tails, is the interpreter's to a few rounding errors.

    Argument x lies in (0.05, 0.95), y in (1, 3), w in (-3, 3) with zeros.
    """
    g = Graph()
    x, y, w = g.symbols(["x.x", "x.y", "x.w"])
    positive = {"log", "sqrt", "asin", "acos", "atanh"}
    nodes = {
        name: g.function(name, y if name == "acosh" else x if name in positive else w)
        for name in sorted(FUNCTIONS)
    }
    for name in ("pow", "atan2", "mod", "min", "max", "lt", "le", "eq"):
        nodes[name] = g.binary(name, *((x, y) if name == "pow" else (w, x)))
    nodes["select"] = g.select(g.binary("lt", w, g.zero), x, y)
    nodes["eq zero"] = g.binary("eq", w, g.zero)
    nodes["quotient"] = g.sub(g.div(x, y), g.inv(g.neg(g.add(x, y))))
    kernel = Kernel(
        "all_functions",
        g,
        (Argument("x", ("x.x", "x.y", "x.w")),),
        tuple(nodes.values()),
        tuple(nodes),
    )
    library = tier(Program("functions", (kernel,)), lanes)
    rng = np.random.default_rng(3)
    n = 61
    points = np.array([rng.uniform(0.05, 0.95, n), rng.uniform(1, 3, n), rng.uniform(-3, 3, n)])
    points[2, ::7] = 0.0
    found, expected = run(library, kernel, {"x": points}, n), interpret(kernel, {"x": points}, n)
    for name, mine, theirs in zip(nodes, found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=4e-15, atol=1e-15, err_msg=name)


@TIERS
@pytest.mark.parametrize("lanes", [1, 2, 4, 8])
def test_sine_and_cosine_of_one_angle(tier, lanes):
    """The pair that is computed together: 2 units in the last place, far angles, no number."""
    g = Graph()
    x = g.symbol("x.x")
    pair = (g.function("sin", x), g.function("cos", x))
    kernel = Kernel("pair", g, (Argument("x", ("x.x",)),), pair, ("sine", "cosine"))
    program = Program("pair", (kernel,))
    assert "ks_sincos(" in "".join(emit(program).files.values())
    library = tier(program, lanes)
    rng = np.random.default_rng(0)
    quarters = np.arange(-40, 41) * np.pi / 2
    angles = np.concatenate(
        [
            rng.uniform(-10, 10, 4000),
            rng.uniform(-1e5, 1e5, 4000),
            quarters,
            quarters + 1e-9,
            [0.0, 1e-310, 1e5, -1e5, 1.1e5, 1e10, -1e300],
        ]
    )
    values = run(library, kernel, {"x": angles[None]}, len(angles))
    with mpmath.workdps(350):
        exact = [[f(mpmath.mpf(float(a))) for a in angles] for f in (mpmath.sin, mpmath.cos)]
        errors = [
            [float(abs(mpmath.mpf(float(v)) - e)) for v, e in zip(*pair, strict=True)]
            for pair in zip(values, exact, strict=True)
        ]
    expected = np.array([[float(e) for e in row] for row in exact])
    assert (np.array(errors) <= 2.0 * np.spacing(np.abs(expected))).all()
    strange = np.array([[np.nan, np.inf, -np.inf, 1.0, np.nan, 2.0, 3e5, 4.0, 5.0]])
    np.testing.assert_allclose(
        run(library, kernel, {"x": strange}, 9)[0],
        [np.nan, np.nan, np.nan, *np.sin([1.0, np.nan, 2, 3e5, 4, 5])],
        rtol=1e-15,
    )


@pytest.mark.study
@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("make", [models.standing, lambda: models.n_link_pendulum_on_cart(7)])
def test_no_warnings_from_the_loops(make, lanes):
    """Time stepping and its derivatives, with the right-hand side inside the loop and outside."""
    model = make()
    problem = Problem(model, EXPLICIT["rk4"], Integral(model.states[0]), model.parameters)
    kernels, about = shooting_kernels(problem, None)
    explicit = Program("sweep", tuple(kernels), {"stepping": about})
    build(emit(explicit).files, lanes=lanes, more_flags=STRICT)
    build(emit(stepper(model, SCHEMES["trapezoid"], True)).files, lanes=lanes, more_flags=STRICT)


@TIERS
@pytest.mark.parametrize("lanes", LANES)
def test_not_a_number_stays_visible(tier, lanes):
    """NaN in one point stays in that point, in every lane."""
    g = Graph()
    x = g.symbol("x.x")
    outputs = (g.function("log", x), g.mul(x, g.function("sqrt", x)), g.inv(x))
    kernel = Kernel("domain", g, (Argument("x", ("x.x",)),), outputs, ("log", "power", "inverse"))
    library = tier(Program("domain", (kernel,)), lanes)
    for k in range(9):
        points = np.full((1, 9), 2.0)
        points[0, k] = -1.0
        found = run(library, kernel, {"x": points}, 9)
        assert np.flatnonzero(np.isnan(found[0])).tolist() == [k]
        assert np.flatnonzero(np.isnan(found[1])).tolist() == [k]
        assert found[2, k] == -1.0


@TIERS
@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize(
    "make", [models.cip, models.standing, lambda: models.n_link_pendulum_on_cart(3)]
)
def test_model_functions(make, tier, lanes):
    """All kernels of the models have the interpreter's values."""
    for program in (model_functions(make()), model_jacobians(make())):
        library = tier(program, lanes)
        for kernel in program.kernels:
            assert_twins(library, kernel)


@pytest.mark.parametrize("n", [1, 7, 8, 127, 128, 129, 1000])
@pytest.mark.parametrize("lanes", [None, 1, 2, 4])
def test_groups_of_points(lanes, n):
    """Whole groups of the machine, and what is left of one; values that all points share."""
    kernel = chain_kernel()
    assert_twins(interpreted(Program("chain", (kernel,)), lanes), kernel, n)


def test_an_operation_that_no_machine_knows():
    (kernel,) = encode(Program("chain", (chain_kernel(),)))
    with pytest.raises(ValueError, match="no machine knows"):
        Interpreted("chain", [(*kernel[:7], ("nonsense",), *kernel[8:])])
    with pytest.raises(ValueError, match="no machine of this processor has 3 points"):
        Interpreted("chain", [kernel], 3)


@TIERS
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_order_of_additions_is_kept(tier, sign):
    """a + (b - c) and a + (b + p c) with b near c: a small `a` must not be rounded away."""
    g = Graph()
    a, b, c, p = g.symbols(["x.a", "x.b", "x.c", "p.p"])
    inner = g.sub(b, c) if sign > 0 else g.add(b, g.mul(p, c))
    arguments = (Argument("x", ("x.a", "x.b", "x.c")), Argument("p", ("p.p",), varying=False))
    kernel = Kernel("sums", g, arguments, (g.add(a, inner),), ("sum",))
    library = tier(Program("sums", (kernel,)))
    arrays = {"x": [[1e-12], [1e6 + 0.5], [1e6 + 0.5]], "p": [-1.0]}
    assert interpret(kernel, arrays, 1) == run(library, kernel, arrays, 1) == 1e-12


# -- pieces ---------------------------------------------------------------------------------


def cut_small(monkeypatch, piece):
    """Make the printer cut kernels into pieces of `piece` operations."""
    monkeypatch.setattr(printer, "PIECE", piece)
    monkeypatch.setattr(printer, "schedule", lambda kernel: schedule(kernel, piece=piece))


@pytest.mark.parametrize("piece, lanes", [(20, 1), (7, 4), (1, 4), (20, 8)])
def test_pieces_have_the_same_values(monkeypatch, piece, lanes):
    """A kernel in pieces of a few operations has the values of the whole one."""
    kernel = chain_kernel()
    cut_small(monkeypatch, piece)
    source = emit(Program("chain", (kernel,)))
    assert len(schedule(kernel, piece).varying) >= 50 // piece
    assert "chain_1.c" in source.files and "chain.c" in source.files
    assert sum(name.startswith("chain_") for name in source.files) <= 8
    library, _ = build(source.files, lanes)
    assert_twins(library, kernel)


def test_pieces_of_a_model(monkeypatch):
    """The Jacobians of standing in pieces of 20 operations: still the interpreter's values."""
    program = model_jacobians(models.standing())
    cut_small(monkeypatch, 20)
    library, _ = build(emit(program).files)
    for kernel in program.kernels:
        assert_twins(library, kernel)


@pytest.mark.parametrize("piece", [1, 7, 20, 1500])
def test_schedule_computes_everything_once(piece):
    """Every varying operation is in a piece, values are read after they are written, every output
    is stored once, and slots are not overwritten before their last reader."""
    kernel = chain_kernel()
    plan = schedule(kernel, piece)
    stored = [k for part in plan.varying for k, _ in part.stores]
    assert sorted(stored) == list(range(len(kernel.outputs)))
    scratch = {}
    for part in plan.varying:
        for node, slot in part.reads.items():
            assert scratch[slot] == node and slot < plan.n_scratch
        scratch.update({slot: node for node, slot in part.writes.items()})
        known = {*part.reads, *plan.slots}
        for node in part.nodes:
            operands = [a for a in kernel.graph.args[node] if kernel.graph.args[a]]
            assert known.issuperset(operands)
            known.add(node)
    made = {node for part in plan.varying for node in part.nodes}
    assert {n for n in kernel.nodes if kernel.graph.op[n] == "cos"} <= made


@pytest.mark.parametrize("piece", [7, 1500])
def test_uniform_parts_leave_the_loop(piece):
    """Functions of uniform arguments are computed once per call: none is left in the loop."""
    kernel = chain_kernel()
    plan = schedule(kernel, piece)
    in_loop = [kernel.graph.op[n] for part in plan.varying for n in part.nodes]
    before = [kernel.graph.op[n] for part in plan.uniform for n in part.nodes]
    assert "sin" not in in_loop and before.count("sin") == 25
    assert "cos" not in before and in_loop.count("cos") == 25
    assert all(kernel.graph.op[node] != "const" for node in plan.slots)


def test_hoisting_in_the_text():
    """sin(p) x + y: the sine is in the function of the uniform part, the loop reads its slot."""
    g = Graph()
    x, y, p = g.symbols(["x.x", "x.y", "p.p"])
    arguments = (Argument("x", ("x.x", "x.y")), Argument("p", ("p.p",), varying=False))
    output = g.add(g.mul(g.function("sin", p), x), y)
    kernel = Kernel("hoisted", g, arguments, (output,), ("value",))
    text = emit(Program("hoisted", (kernel,))).files["kernels_0.c"]
    assert text.count("ks_sin") == 1
    prologue = re.search(r"static void hoisted_uniform_0\(.*?\n}\n", text, re.DOTALL)
    assert prologue is not None and "ks_sin" in prologue[0]
    library, _ = build(emit(Program("hoisted", (kernel,))).files, 4, STRICT)
    assert_twins(library, kernel)


@pytest.mark.study
def test_large_kernels_have_files_of_their_own():
    """A kernel of more operations than a piece is cut; pieces are about as long as asked."""
    g = Graph()
    x = g.symbols(f"x.{k}" for k in range(40))
    outputs = tuple(
        g.function("sin", g.mul(a, g.add(b, g.function("cos", a)))) for a in x for b in x
    )
    labels = tuple(map(str, range(len(outputs))))
    kernel = Kernel(
        "large", g, (Argument("x", tuple(f"x.{k}" for k in range(40))),), outputs, labels
    )
    files = emit(Program("large", (kernel,))).files
    pieces = schedule(kernel).varying
    assert {f"large_{k}.c" for k in range(len(pieces))} < set(files)
    assert max(len(part.nodes) for part in pieces) <= 1.2 * 1500
    library, _ = build(files)
    assert_twins(library, kernel, n=3)


# -- text and manifest ----------------------------------------------------------------------


def test_manifest():
    """The manifest has names, shapes and operation counts of the kernels, in their order."""
    program = model_functions(models.cip())
    manifest = json.loads(emit(program).manifest)
    assert manifest["name"] == "cip" and manifest["abi"] == ABI
    for (name, about), kernel in zip(manifest["kernels"].items(), program.kernels, strict=True):
        assert name == kernel.name and about["outputs"] == list(kernel.labels)
        assert about["counts"] == [len(a.symbols) for a in kernel.arguments]
        assert about["operations"] == kernel.operations


def test_text_reads_like_the_model():
    """A banner with shapes, the names of the model, a comment at every output."""
    program = model_functions(models.pendulum())
    text = "\n".join(emit(program).files.values())
    assert "/* residual: 0 = f(x', x, u, p, t)" in text
    assert "ks_sin(x_theta)" in text and "/* equation 1 */" in text
    derivatives = emit(model_jacobians(models.pendulum())).files.values()
    assert any("d equation 1 / d x.theta" in text for text in derivatives)


@pytest.mark.parametrize(
    "text, name",
    [
        ("x.theta", "x_theta"),
        ("2x", "_2x"),
        ("", "_"),
        ("a b'", "a_b_"),
        ("θ", "_"),
    ],
)
def test_identifier(text, name):
    """Any name becomes an identifier of C."""
    assert identifier(text) == name


def test_symbols_with_equal_identifiers_stay_apart():
    """`a b` and `a_b` are different variables in C too."""
    g = Graph()
    names = ("x.a b", "x.a_b", "x.a-b")
    nodes = g.symbols(names)
    difference = g.sub(g.mul(g.const(2.0), nodes[0]), g.mul(nodes[1], nodes[2]))
    kernel = Kernel("names", g, (Argument("x", names),), (difference,), ("value",))
    library, _ = build(emit(Program("names", (kernel,))).files, None, STRICT)
    assert_twins(library, kernel)


def test_sympy_expression_to_c(lowered, as_kernel):
    """The whole way: an expression of SymPy, in C, against SymPy's value with 30 digits."""
    a, b = sp.symbols("a b", positive=True)
    expression = sp.exp(-a) * sp.atan2(b, a) ** 3 + sp.Max(a, b) / sp.sqrt(1 + a * b) - b**a
    graph, x, f = lowered([a, b], [expression])
    kernel = as_kernel(graph, x, f, "whole_way")
    library, _ = build(emit(Program("whole_way", (kernel,))).files)
    points = np.array([[0.25, 1.5, 3.0], [0.5, 0.75, 2.0]])
    expected = [float(expression.evalf(30, subs={a: p, b: q})) for p, q in points.T]
    np.testing.assert_allclose(run(library, kernel, {"x": points}, 3)[0], expected, rtol=1e-14)


@pytest.mark.study
def test_any_name_compiles():
    """Greek, LaTeX and C keywords as names; names that differ only in what C cannot spell."""
    import sympy as sp

    import kinesym as ks

    names = ["θ", r"\theta", "int", "a b", "a_b", "*)", "V"]
    states = [sp.Function(name)(ks.t) for name in names]
    p = sp.Symbol("λ'")
    model = ks.Model("*) bad name", states, [], [p], [x.diff(ks.t) + p * x for x in states])
    run = ks.simulate(model, [0.0, 1.0], {name: k for k, name in enumerate(names)}, {p: 0.0})
    assert [run[name][-1] for name in names] == list(range(len(names)))
