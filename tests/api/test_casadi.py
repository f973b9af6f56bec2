"""Models and problems as functions of CasADi and back: values and derivatives of both."""

from pathlib import Path
from tempfile import TemporaryDirectory

import casadi
import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.codegen.evaluate import model_jacobians
from kinesym.codegen.graph import Graph
from kinesym.codegen.interpret import interpret
from kinesym.codegen.kernel import Argument, Kernel
from kinesym.codegen.operations import OPERATIONS
from kinesym.internal.exporting.casadi_function import (
    OPERATIONS_OF_CASADI,
    function_of_kernel,
    model_in_casadi,
    problem_in_casadi,
)
from kinesym.models import (
    cip,
    n_link_pendulum_on_cart,
    pendulum,
    person_on_ship,
    standing,
)
from kinesym.symbolic.casadi_model import OPERATIONS_IN_SYMPY

x, v, F = ks.dynamicsymbols("x v F")
k = sp.Symbol("k")


def with_tables():
    """A model whose equations look up tables, choose and jump."""
    points = np.linspace(-1.0, 2.0, 6)
    line = ks.table(x, points, np.sin(np.arange(6.0)), outside="constant")
    plane = ks.table((x, v), (points, points), np.sin(np.arange(36.0)).reshape(6, 6))
    force = F * line + plane + sp.Heaviside(x - 0.4, 0.5) * sp.Mod(v, k) + sp.Max(x * v, sp.cbrt(k))
    rates = [x.diff(ks.t) - v, (1 + x**2) * v.diff(ks.t) - force]
    return ks.Model("tables", [x, v], [F], [k], rates, {"speed": v * x.diff(ks.t)}, values={k: 0.7})


def robot():
    """An arm of three joints, read from a file of URDF."""
    links = "".join(
        f'<link name="l{i}"><inertial><origin xyz="0.1 0.02 -0.2"/><mass value="1.5"/><inertia '
        'ixx="0.02" ixy="0.001" ixz="0" iyy="0.03" iyz="0" izz="0.02"/></inertial></link>'
        for i in range(4)
    )
    joints = "".join(
        f'<joint name="j{i}" type="revolute"><parent link="l{i}"/><child link="l{i + 1}"/><origin '
        f'xyz="0 0.1 -0.4"/><axis xyz="{axis}"/><limit effort="1" velocity="1"/></joint>'
        for i, axis in enumerate(("0 0 1", "0 1 0", "0.6 0.8 0"))
    )
    with TemporaryDirectory() as folder:
        path = Path(folder) / "arm.urdf"
        path.write_text(f'<robot name="arm">{links}{joints}</robot>')
        return ks.urdf.read(path).model()


MODELS = {
    "pendulum": pendulum,
    "standing": standing,
    "cip": cip,
    "tables": with_tables,
    "links": lambda: n_link_pendulum_on_cart(10),
    "robot": robot,
    "tree": lambda: person_on_ship().model(),
}
MARKED = {"robot": pytest.mark.domain, "tree": pytest.mark.study}
ROWS = [pytest.param(name, marks=MARKED.get(name, ())) for name in MODELS]


def point_of(model, seed=0):
    """x', x, u, p and t that are of no meaning."""
    rng = np.random.default_rng(seed)
    n = len(model.states)
    p = np.array([model.values.get(name, 1.0) for name in model.parameter_names])
    return rng.normal(size=n), rng.uniform(0.1, 0.7, n), rng.normal(size=len(model.inputs)), p, 0.3


def close(found, expected, within=1e-12):
    found = found.full() if isinstance(found, casadi.DM) else found
    size = max(1.0, np.max(np.abs(expected), initial=0.0))
    np.testing.assert_allclose(np.reshape(found, np.shape(expected)), expected, 0, within * size)


def rates_and_slopes(model, at):
    """x' and its derivatives by the states, from those of the residual."""
    functions, (_, *rest) = ks.compile(model), at
    rates = functions.rhs(*rest)
    by_rate, by_state = (
        functions.jacobian(rates, *rest, wrt=wrt) for wrt in ("derivatives", "states")
    )
    return rates, -np.linalg.solve(by_rate, by_state)


@pytest.mark.parametrize("name", ROWS)
def test_a_model_and_its_derivatives(name):
    model = MODELS[name]()
    functions, at, found = ks.compile(model), point_of(model), model_in_casadi(model)
    residual = found["residual"]
    assert residual.name_in() == ["xdot", "x", "u", "p", "t"]
    assert [str(e) for e in residual.sx_in("x").nonzeros()] == [*model.state_names]
    close(residual(*at), functions.residual(*at))
    close(found["rhs"](*at[1:]), functions.rhs(*at[1:]))
    if model.outputs:
        close(found["outputs"](*at), functions.outputs(*at))
    close(residual.jacobian()(*at, 0)[1], functions.jacobian(*at))
    weights, along = np.random.default_rng(1).normal(size=(2, len(model.states)))
    states = residual.sx_in("x")
    symbols = [states if a == "x" else residual.sx_in(a) for a in residual.name_in()]
    scalar = casadi.dot(weights, residual(*symbols))
    curvature = casadi.Function("H", symbols, [casadi.hessian(scalar, states)[0]])
    kernel = model_jacobians(model).kernel("residual_states")
    given = dict(zip(residual.name_in(), map(np.atleast_1d, at), strict=True))
    given |= {"x": given["x"] + 1e-30j * along, "p": np.append(at[3], model.tables.values)}
    entries = interpret(kernel, {a: e if a == "p" else e[:, None] for a, e in given.items()}, 1)
    rows, columns = model_jacobians(model).description["jacobians"]["patterns"]["residual_states"]
    expected = np.zeros(len(along))
    np.add.at(expected, columns, weights[rows] * entries[:, 0].imag / 1e-30)
    close(curvature(*at).full() @ along, expected)


@pytest.mark.parametrize(
    "name",
    [
        *ROWS[:4],
        *(pytest.param(*row.values, marks=[*row.marks, pytest.mark.study]) for row in ROWS[4:]),
    ],
)
def test_a_model_there_and_back(name):
    model = MODELS[name]()
    at, found = point_of(model), model_in_casadi(model)
    for function in (found["rhs"], found["residual"]):
        back = ks.Model.from_casadi(function, name=model.name, values=model.values)
        assert (back.state_names, back.input_names) == (model.state_names, model.input_names)
        assert back.values == model.values
        for ours, theirs in zip(
            rates_and_slopes(back, at), rates_and_slopes(model, at), strict=True
        ):
            close(ours, theirs)


#: Points of two operands: in the domains of all functions, at an edge, and where others have none.
POINTS = np.array([[0.3, 0.7], [0.4, 0.4], [1.7, 2.3], [-1.3, 0.6], [2.1, -0.8], [-0.5, -1.7]]).T


@pytest.mark.parametrize("name", sorted({*OPERATIONS} - {"locate", "entry"}))
def test_an_operation_of_the_graph(name):
    """It is one of CasADi, or refused by name."""
    row, graph = OPERATIONS[name], Graph()
    symbols = tuple(f"x.{k}" for k in range(row.arity))
    node = graph._node(name, *graph.symbols(symbols))
    kernel = Kernel(name, graph, (Argument("x", symbols),), (node,), ("y",))
    if name not in OPERATIONS_OF_CASADI:
        with pytest.raises(ValueError, match=f"needs the function {name}"):
            function_of_kernel(kernel, np.zeros(0), "f", "y")
        return
    at = np.vstack([POINTS, POINTS[:1]])[: row.arity]
    function = function_of_kernel(kernel, np.zeros(0), "f", "y").map(at.shape[1])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(function(at).full()[0], row.value(*at), rtol=1e-15)


def test_every_operation_of_casadi():
    a, b = casadi.SX.sym("a"), casadi.SX.sym("b")
    made = []
    for name in OPERATIONS_IN_SYMPY:
        number = getattr(casadi, f"OP_{name}")
        binary = casadi.SX.binary(number, a, b) if name not in UNARY else None
        made.append(casadi.SX.unary(number, a) if binary is None else binary)
    f = casadi.Function("f", [casadi.vertcat(a, b)], [0 * a + casadi.vertcat(b, a), *made])
    names = [name.lower() for name in OPERATIONS_IN_SYMPY]
    model = ks.Model.from_casadi(f, outputs=names, results=["dx", *names])
    with np.errstate(all="ignore"):
        ours = ks.compile(model).outputs(POINTS, POINTS, [], [], 0.0)
        theirs = f.map(POINTS.shape[1])(POINTS)
    for name, found, expected in zip(names, ours, theirs[1:], strict=True):
        np.testing.assert_allclose(found, expected.full()[0], rtol=1e-14, err_msg=name)


UNARY = {
    *("ASSIGN", "NEG", "INV", "SQ", "TWICE", "SQRT", "FABS", "CEIL", "SIN", "COS", "TAN", "ASIN"),
    *("ACOS", "ATAN", "SINH", "COSH", "TANH", "ASINH", "ACOSH", "ATANH", "EXP", "LOG", "FLOOR"),
    *("SIGN", "ERF", "LOG1P", "EXPM1", "NOT"),
}


def test_choices_stay_one_expression():
    """An if-else of CasADi, a sum of two masks, is one choice; what is not chosen may be NaN."""
    f = casadi.Function(
        "f",
        [a := casadi.SX.sym("a")],
        [casadi.if_else(casadi.logic_and(a > 0, a < 2), casadi.sqrt(a), -casadi.sqrt(-a))],
        ["x"],
        ["dx"],
    )
    model = ks.Model.from_casadi(f)
    assert len(model.equations[0].atoms(sp.Piecewise)) == 1 and not model.intermediates
    functions = ks.compile(model)
    at = np.array([[-4.0, 0.25, 1.0]])
    np.testing.assert_array_equal(functions.rhs(at, [], []), [[-2.0, 0.5, 1.0]])
    slopes = functions.jacobian(0 * at, at, [], [])[0, 0]
    np.testing.assert_allclose(slopes, [-0.25, -1.0, -0.5], rtol=1e-15)


def test_shared_expressions_stay_shared():
    """Forty times squared: as many operations, not 2^40."""
    a = e = casadi.SX.sym("a")
    for _ in range(40):
        e = casadi.sin(e) * e
    f = casadi.Function("f", [a], [e])
    model = ks.Model.from_casadi(f, states=["angle"])
    assert len(model.intermediates) == 39
    np.testing.assert_allclose(ks.compile(model).rhs([0.8], [], []), float(f(0.8)), rtol=1e-13)


def test_choices_within_conditions():
    """Thirty of them one in the other: as many choices, not 2^30."""
    a = e = casadi.SX.sym("a")
    for k in range(30):
        chosen = casadi.if_else(e > 0.7, casadi.sin(e), casadi.cos(e))
        e = casadi.if_else(casadi.logic_or(chosen > 0.8, chosen < 0.1 * k), chosen - e, e + 0.2)
    f = casadi.Function("f", [a], [e])
    model = ks.Model.from_casadi(f)
    at = np.linspace(-2, 2, 9)[None]
    close(ks.compile(model).rhs(at, [], []), f.map(9)(at).full())


def test_differential_algebraic_equations():
    """x' = -z, z + z^3 = x: arguments by the names of CasADi, names of the entries given."""
    a, z, p = (casadi.SX.sym(name) for name in "azp")
    f = casadi.Function(
        "f", [a, z, p], [-p * z, z + z**3 - a, a + z], ["x", "z", "p"], ["ode", "alg", "total"]
    )
    model = ks.Model.from_casadi(f, states=["a", "b"], values={"p": 2.0})
    assert model.state_names == ("a", "b") and [*model.outputs] == ["total"]
    run = ks.simulate(model, np.linspace(0, 1, 101), {"a": 2.0, "b": 1.0}, method="radau-5")
    dae = {"x": a, "z": z, "p": p, "ode": -p * z, "alg": z + z**3 - a}
    options = {"abstol": 1e-11, "reltol": 1e-11}
    there = casadi.integrator("F", "idas", dae, 0.0, 1.0, options)(x0=2.0, z0=1.0, p=2.0)
    np.testing.assert_allclose(run["a"][-1], float(there["xf"]), rtol=1e-8)


def test_matrices_without_entries():
    """What is not there in a sparse result is zero."""
    a = casadi.SX.sym("a", 2)
    f = casadi.Function("f", [a], [casadi.sparsify(casadi.vertcat(0, a[0])), casadi.diag(a)])
    model = ks.Model.from_casadi(f)
    assert model.state_names == ("a_0", "a_1") and model.equations[0] == model.derivatives[0]
    assert [*model.outputs] == ["o1_0", "o1_1", "o1_2", "o1_3"] and model.outputs["o1_1"] == 0


A, B = casadi.SX.sym("A"), casadi.SX.sym("B")
INNER = casadi.Function("g", [A], [A**2], {"never_inline": True})
REFUSED = {
    "expected a casadi.Function": lambda: 3,
    r"give f.expand\(\)": lambda: casadi.Function(
        "f", [casadi.MX.sym("x")], [casadi.MX.sym("x")], {"allow_free": True}
    ),
    "contains B, which is none": lambda: casadi.Function("f", [A], [B], {"allow_free": True}),
    "is ERFINV, which a model": lambda: casadi.Function("f", [A], [casadi.erfinv(A)]),
    "is CALL.* without never_inline": lambda: casadi.Function("f", [A], [INNER(A)]),
    "has the arguments x, w.*'u' .inputs.": lambda: casadi.Function(
        "f", [A, B], [A], ["x", "w"], ["dx"]
    ),
    "has the results y.*'dx'": lambda: casadi.Function("f", [A], [A], ["x"], ["y"]),
    "has 2 entries for 1 states": lambda: casadi.Function("f", [A], [casadi.vertcat(A, A)]),
    "the name A is declared more than once": lambda: casadi.Function(
        "f", [A, casadi.SX.sym("A")], [A]
    ),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_no_model(words):
    with pytest.raises(ValueError, match=words):
        ks.Model.from_casadi(REFUSED[words]())


def test_as_many_names_as_entries():
    with pytest.raises(ValueError, match="the states are 1, got 2 names"):
        ks.Model.from_casadi(casadi.Function("f", [A], [A]), states=["a", "b"])


# -- problems -------------------------------------------------------------------------------------


def moved(**more):
    """From rest to rest in a time that is unknown, with a table and a parameter per trial."""
    force = F + ks.table(x, [0.0, 0.4, 1.0], [0.0, 0.1, 0.0], kind="pchip")
    cart = ks.Model("cart", [x, v], [F], [k], [x.diff(ks.t) - v, v.diff(ks.t) - force + k * v])
    return ks.Collocation(
        cart,
        [ks.Experiment(nodes=9, duration=(0.5, 3.0)) for _ in range(2)],
        unknown={k: ks.per_trial(0.1, 1.0)},
        objective=ks.Integral(F**2 + 1) + ks.Terminal(k**2),
        boundary=[ks.at_start(x), ks.at_start(v), ks.at_end(x) - 1, ks.at_end(v)],
        unknown_inputs={F: (-10, 10)},
        **more,
    )


@pytest.mark.parametrize("scheme", ["radau-5", "trapezoid"])
def test_a_problem_and_its_derivatives(scheme):
    problem = moved(scheme=scheme, path=[(v * x, -1.0, 2.0)])
    nlp = problem_in_casadi(problem.problem)["nlp"]
    z, weights = (
        np.random.default_rng(3).uniform(0.2, 0.9, n)
        for n in (problem.n_variables, problem.n_constraints)
    )
    w = casadi.MX.sym("w", problem.n_constraints)
    lagrangian = nlp["f"] + casadi.dot(w, nlp["g"])
    of = [nlp["f"], nlp["g"], casadi.jacobian(nlp["g"], nlp["x"])]
    of += [casadi.gradient(nlp["f"], nlp["x"]), casadi.hessian(lagrangian, nlp["x"])[0]]
    found = casadi.Function("all", [nlp["x"], w], of)(z, weights)
    expected = [problem.cost(z), problem.constraints(z), problem.constraint_jacobian(z).toarray()]
    expected += [problem.cost_gradient(z), problem.lagrangian_hessian(z, weights).toarray()]
    for ours, theirs in zip(expected, found, strict=True):
        close(theirs, ours)


def test_a_problem_is_solved_there():
    problem = moved()
    found = problem_in_casadi(problem.problem)
    quiet = {"ipopt.print_level": 0, "ipopt.sb": "yes", "print_time": False}
    solver = casadi.nlpsol("solver", "ipopt", found["nlp"], quiet)
    there = solver(**found["arguments"])
    assert solver.stats()["success"]
    assert abs(float(there["f"]) - problem.solve().objective) < 1e-7


def test_delayed_inputs_are_refused():
    late = ks.Model("late", [x], [], [], [x.diff(ks.t) + ks.delayed(x, 0.1)])
    problem = ks.Collocation(late, ks.Experiment(np.linspace(0, 1, 6)), objective=ks.Integral(x))
    with pytest.raises(ValueError, match="has delayed inputs"):
        problem_in_casadi(problem.problem)
