"""x' from implicit equations: right, refused in words, or not a number; never a wrong number."""

import numpy as np
import pytest
import sympy as sp
import sympy.physics.mechanics as me
from hypothesis import given, settings
from hypothesis import strategies as st

import kinesym as ks
from kinesym.codegen.blocks import MOST_ROWS, Exchanged, Ordered, is_symmetric
from kinesym.codegen.evaluate import model_symbols
from kinesym.codegen.interpret import first_failure, interpret
from kinesym.codegen.kernel import Kernel
from kinesym.codegen.solve import MassMatrix, NotExplicit, linearised_rates

t = ks.t
x, v, w, q = ks.dynamicsymbols("x v w q")
a, b, c = ks.dynamicsymbols("a b c")
k = sp.Symbol("k")


def model(equations, states, parameters=()):
    return ks.Model("m", states, [], parameters, equations)


def mass_of(made):
    point = model_symbols(made)
    residual = [point.lower(e) for e in made.equations]
    return point, MassMatrix(point.graph, residual, point.nodes(point.xdot), made.state_names)


def rates(made, state, parameters=()):
    """x' by the interpreter, and why it is no number, if it is none."""
    point, mass = mass_of(made)
    arguments = (point.x, point.u, point.p, point.t)
    labels = tuple(made.state_names)
    kernel = Kernel("rhs", point.graph, arguments, tuple(mass.rates()), labels)
    values = {
        "x": np.array(state, dtype=float)[:, None],
        "u": np.zeros((0, 1)),
        "p": np.array(parameters, dtype=float),
        "t": np.zeros((1, 1)),
    }
    found = interpret(kernel, values, 1)[:, 0]
    bad = np.flatnonzero(~np.isfinite(found))
    return found, first_failure(kernel, int(bad[0]), values) if len(bad) else None


# -- terms that are not linear in x' -------------------------------------------------------------

IMPLICIT = {
    "sign": (sp.sign(x.diff(t)), 1.0),
    "Heaviside": (sp.Heaviside(x.diff(t)), 1.0),
    "floor": (sp.floor(x.diff(t) / 2), 2.0),
    "ceiling": (sp.ceiling(x.diff(t) / 2), 3.0),
    "Piecewise": (sp.Piecewise((7, x.diff(t) > 0), (-7, True)), 7.0),
    "Abs": (sp.Abs(x.diff(t)), 5.0),
    "square": (x.diff(t) ** 2, 25.0),
    "tanh": (sp.tanh(x.diff(t)), np.tanh(5.0)),
    "quotient": (1 / (1 + x.diff(t)), 1 / 6),
}


@pytest.mark.parametrize("law", IMPLICIT)
@pytest.mark.parametrize("through", ["equation", "intermediate"])
def test_friction_laws_of_rates(law, through):
    """x' - v = 0 says what x' is in the other equation."""
    term, force = IMPLICIT[law]
    f = sp.Symbol("f")
    program, term = ([(f, term)], f) if through == "intermediate" else ([], term)
    made = ks.Model(
        "m", [x, v], [], [], [x.diff(t) - v, v.diff(t) + 2 * term], intermediates=program
    )
    assert rates(made, [0.0, 5.0])[0] == pytest.approx([5.0, -2 * force], rel=1e-15)


def test_rates_that_a_block_of_equations_determines():
    """Speeds are turned by an angle; friction acts along x', which no single equation gives."""
    turned = [
        sp.cos(q) * x.diff(t) + sp.sin(q) * q.diff(t) - v,
        -sp.sin(q) * x.diff(t) + sp.cos(q) * q.diff(t) - w,
    ]
    made = model([*turned, v.diff(t) + sp.sign(x.diff(t)), w.diff(t)], [x, q, v, w])
    found, _ = rates(made, [0.0, np.pi / 2, 1.0, -3.0])
    np.testing.assert_allclose(found, [3.0, 1.0, -1.0, 0.0], atol=1e-15)


@pytest.mark.parametrize(
    ("equation", "words"),
    [
        (v.diff(t) + sp.sign(v.diff(t)), "equation 1 nonlinearly, in sign\\(v'\\)"),
        (v.diff(t) * sp.exp(-v.diff(t)), "equation 1 nonlinearly, in exp\\("),
        (v.diff(t) ** 2 - 1, "equation 1 nonlinearly, in \\(v'\\*v'\\)"),
        (sp.Max(v.diff(t), x), "equation 1 nonlinearly, in max\\("),
    ],
)
def test_refusals_name_equation_and_term(equation, words):
    with pytest.raises(NotExplicit, match=words):
        rates(model([x.diff(t) - v, equation], [x, v]), [0.0, 0.0])


def test_coefficient_of_friction_by_trapezoid():
    time = np.linspace(0, 1, 11)
    made = model([x.diff(t) - v, v.diff(t) + k * sp.sign(x.diff(t))], [x, v], [k])
    problem = ks.Collocation(
        made,
        ks.Experiment(time, measurements={v: 5 - 2 * time}),
        unknown={k: (0, 9)},
        scheme="trapezoid",
    )
    assert problem.solve(guess={k: 1.0}).parameters["k"] == pytest.approx(2.0, abs=1e-6)


# -- symmetry ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("above", "below", "symmetric"),
    [
        (sp.Abs(q), q, False),
        (sp.sqrt(q**2), q, False),
        (sp.Max(q, 0), q, False),
        (1e28 * q, q, False),
        (q + 1e-15, q, False),
        (q * sp.cos(x - w), sp.cos(w - x) * q, True),
        ((q + 1) * (q - 1), q**2 - 1, True),
        (sp.sin(2 * q), 2 * sp.sin(q) * sp.cos(q), False),  # true, but not by arithmetic
    ],
)
def test_symmetry_is_proved(above, below, symmetric):
    made = model(
        [
            3 * a.diff(t) + above * b.diff(t),
            below * a.diff(t) + 3 * b.diff(t),
            q.diff(t),
            x.diff(t),
            w.diff(t),
        ],
        [a, b, q, x, w],
    )
    point, mass = mass_of(made)
    rows = {i: mass._row(i, [0, 1]) for i in (0, 1)}
    assert is_symmetric(point.graph, rows) is symmetric


def test_chain_of_links_is_eliminated_in_place():
    """The mass matrix of a pendulum with ten links, found recursively, is proved symmetric."""
    _, mass = mass_of(ks.models.n_link_pendulum_on_cart(10))
    (block,) = [block for block in mass._blocks if len(block.order) > 1]
    assert isinstance(block, Ordered) and len(block.order) == 11


# -- pivots --------------------------------------------------------------------------------------

TURN = [
    sp.cos(q) * a.diff(t) + sp.sin(q) * b.diff(t) - 1,
    -sp.sin(q) * a.diff(t) + sp.cos(q) * b.diff(t) - 2,
    q.diff(t),
]


@pytest.mark.parametrize("angle", [0.0, np.pi / 2, np.pi / 2 - 1e-9, np.pi, 1.0])
def test_turned_rates(angle):
    found, _ = rates(model(TURN, [a, b, q]), [0.0, 0.0, angle])
    s, c = np.sin(angle), np.cos(angle)
    np.testing.assert_allclose(found, [c - 2 * s, s + 2 * c, 0.0], rtol=1e-14)


@pytest.mark.parametrize(
    ("entries", "side", "right"),
    [
        ([[1e-20, 1], [1, 1]], [1, 2], [1, 1]),
        ([[1e28, 1], [2, 1]], [1e28, 5], [1, 3]),
        ([[0, 1], [1, 1]], [1, 2], [1, 1]),
        ([[1e-310, 1], [1, 0]], [1, 2], [2, 1]),
    ],
)
def test_small_pivots(entries, side, right):
    (m, n), (o, p) = entries
    s = sp.Symbol("s")  # a zero pivot must not show in the structure
    made = model(
        [
            (m + s) * a.diff(t) + n * b.diff(t) - side[0],
            o * a.diff(t) + (p + s) * b.diff(t) - side[1],
        ],
        [a, b],
        [s],
    )
    np.testing.assert_allclose(rates(made, [0.0, 0.0], [0.0])[0], right, rtol=1e-14)


SPECIAL = st.sampled_from([0.0, 1.0, -1.0, 1e-17, 0.5])
#: Products of much smaller ones are none.
ENTRY = SPECIAL | st.floats(-2, 2).map(lambda e: e if abs(e) > 1e-30 else 0.0)
SIZES = st.sampled_from([1e-20, 1e-8, 1.0, 1e9, 1e20])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_random_matrices(data):
    """Against exact solutions: as accurate as the condition allows, or no number at all."""
    n = data.draw(st.integers(2, 6))
    M = np.array(data.draw(st.lists(ENTRY, min_size=n * n, max_size=n * n))).reshape(n, n)
    M = M * np.array(data.draw(st.lists(SIZES, min_size=n, max_size=n)))[:, None]
    side = np.array(
        data.draw(st.lists(st.sampled_from([-3.0, 0.7, 1.0, 2.5]), min_size=n, max_size=n))
    )
    states = ks.dynamicsymbols(f"y_:{n}")
    entries = sp.symbols(f"M_:{n}_:{n}")
    equations = [
        sum(entries[i * n + j] * states[j].diff(t) for j in range(n)) - side[i] for i in range(n)
    ]
    made = model(equations, states, entries)
    found, why = rates(made, np.zeros(n), M.ravel())
    exact = sp.Matrix(n, n, [sp.Rational(float(e)) for e in M.ravel()])
    if exact.det() == 0:
        assert why is not None
        return
    right = np.array(exact.LUsolve(sp.Matrix([sp.Rational(e) for e in side])), dtype=float)[:, 0]
    if not np.isfinite(right).all():  # beyond double precision
        assert why is not None
        return
    scaled = sp.diag(*[1 / max(map(abs, exact.row(i))) for i in range(n)]) * exact
    condition = float(scaled.norm(1) * scaled.inv().norm(1))
    if why is None:
        error = np.abs(found - right).max() / (np.abs(right).max() + 1e-300)
        assert error / condition <= 1e-14
    else:
        assert condition > 1e10 and "do not determine" in why


@pytest.mark.parametrize("n", [3, 5, MOST_ROWS + 4])
def test_large_blocks(n):
    """Mass matrices of numbers, symmetric or not, and one that is singular."""
    rng = np.random.default_rng(n)
    L = rng.standard_normal((n, n))
    states = ks.dynamicsymbols(f"y_:{n}")
    flat = np.ones((n, n)) + np.diag([0.0] * 2 + [1.0] * (n - 2))
    for M in (L @ L.T + np.eye(n), L + n * np.eye(n), flat):
        equations = [
            sum(k * float(M[i, j]) * states[j].diff(t) for j in range(n)) - i for i in range(n)
        ]
        found, why = rates(model(equations, states, [k]), np.zeros(n), [1.0])
        if np.linalg.matrix_rank(M) == n:
            np.testing.assert_allclose(found, np.linalg.solve(M, np.arange(n)), rtol=1e-10)
        else:
            assert "singular, or symmetric and not definite" in why


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_accelerations_and_reactions(seed):
    """Ten links in redundant coordinates, level: half the slopes of their constraints are 0. They
    are eliminated without exchanges, in whatever order the equations are written."""
    n, rng = 10, np.random.default_rng(0)
    x, y, f = (ks.dynamicsymbols(f"{name}_:{n}") for name in "xyf")
    u, v = (ks.dynamicsymbols(f"{name}_:{n}") for name in "uv")
    masses = rng.uniform(0.5, 1.5, 2 * n).tolist()
    ends = list(zip([0, *x], [0, *y], x, y, strict=False))
    gaps = [(c - a) ** 2 + (d - b) ** 2 - 1 for a, b, c, d in ends]
    jacobian = sp.Matrix(gaps).jacobian([*x, *y])
    speeds, forces = sp.Matrix([*u, *v]), sp.Matrix([e.diff(t) for e in f])
    dynamic = sp.diag(*masses) * speeds.diff(t) + jacobian.T * forces + sp.Matrix([k] * 2 * n)
    second = [
        g.diff(t).subs(dict(zip(sp.Matrix([*x, *y]).diff(t), speeds, strict=True))) for g in gaps
    ]
    kinematic = sp.Matrix([*x, *y]).diff(t) - speeds
    equations = [*kinematic, *dynamic, *(e.diff(t) for e in second)]
    if seed is not None:
        np.random.default_rng(seed).shuffle(equations)
    made = model(equations, [*x, *y, *u, *v, *f], [k])
    level = np.concatenate([np.arange(1.0, n + 1), np.zeros(4 * n)])
    found, why = rates(made, level, [9.81])
    G = np.array(jacobian.subs(dict(zip([*x, *y], level, strict=False))), dtype=float)
    whole = np.block([[np.diag(masses), G.T], [G, np.zeros((n, n))]])
    right = np.linalg.solve(whole, np.concatenate([np.full(2 * n, -9.81), np.zeros(n)]))
    assert why is None
    np.testing.assert_allclose(found[2 * n :], right, atol=1e-11)


def test_symmetric_and_indefinite_is_no_wrong_number():
    """Without exchanges the pivots are 0 and infinite; the solution exists."""
    M = sp.Matrix([[k, 1, 2], [1, k, 3], [2, 3, k]])
    rows = M * sp.Matrix([a.diff(t), b.diff(t), c.diff(t)])
    made = model([e - 1 for e in rows], [a, b, c], [k])
    assert "symmetric and not definite" in rates(made, np.zeros(3), [0.0])[1]
    right = np.linalg.solve(np.array(M.subs(k, 7.0), dtype=float), np.ones(3))
    np.testing.assert_allclose(rates(made, np.zeros(3), [7.0])[0], right, rtol=1e-14)


# -- what uses it --------------------------------------------------------------------------------


def test_derivatives_of_exchanged_rows():
    """M^-1 times the side, as shooting uses it, against complex steps of the rates."""
    equations = [
        sp.cos(q) * a.diff(t) + sp.sin(q) * b.diff(t) + x * c.diff(t) - k * a,
        -sp.sin(q) * a.diff(t) + sp.cos(q) * b.diff(t) - b * x,
        x * a.diff(t) + k * c.diff(t) - sp.sin(a),
        q.diff(t) - a * c.diff(t),
        x.diff(t) - c,
    ]
    made = model(equations, [a, b, c, q, x], [k])
    point, mass = mass_of(made)
    assert any(isinstance(block, Exchanged) for block in mass._blocks)
    g, names = point.graph, made.state_names
    wrt = [*point.nodes(point.x), *point.nodes(point.p)]
    residual = [point.lower(e) for e in made.equations]
    found = linearised_rates(g, residual, point.nodes(point.xdot), names, wrt)
    outputs = (*found.rates, *found.side.values(), *(node for _, _, node in found.steps))
    kernel = Kernel("k", g, (point.x, point.u, point.p, point.t), outputs, ("",) * len(outputs))
    state, p = np.array([0.3, -0.5, 0.7, np.pi / 2, 0.4]), np.array([1.3])

    def at(state, p):
        return interpret(
            kernel, {"x": state[:, None], "u": np.zeros((0, 1)), "p": p, "t": np.zeros((1, 1))}, 1
        )[:, 0]

    values, n = at(state, p), len(state)
    D = np.zeros((n, n + 1))
    for (i, j), value in zip(found.side, values[n:], strict=False):
        D[i, j] = value
    for (i, j, _), value in zip(found.steps, values[n + len(found.side) :], strict=True):
        D[i] = D[i] * value if i == j else D[i] - value * D[j]
    for j in range(n + 1):
        step = 1e-30j * (np.arange(n + 1) == j)
        exact = at(state + step[:n], p + step[n:])[:n].imag * 1e30
        np.testing.assert_allclose(D[:, j], exact, rtol=1e-12, atol=1e-13)


@pytest.mark.study
@pytest.mark.parametrize("order", ["XYZ", "ZXZ", "ZYX", "XYX"])
@pytest.mark.parametrize("third", [0.0, np.pi / 2])
def test_free_body_by_kane_from_ordinary_angles(order, third):
    """Body-fixed speeds with Euler angles: the attitude matrix against its own equation of motion,
    R' = R [w], integrated by SciPy."""
    from scipy.integrate import solve_ivp

    q1, q2, q3, u1, u2, u3 = symbols = me.dynamicsymbols("q1 q2 q3 u1 u2 u3")
    N, origin = me.ReferenceFrame("N"), me.Point("O")
    B = N.orientnew("B", "Body", [q1, q2, q3], order)
    speed = B.ang_vel_in(N)
    given = [u - speed.dot(axis) for u, axis in zip((u1, u2, u3), (B.x, B.y, B.z), strict=True)]
    B.set_ang_vel(N, u1 * B.x + u2 * B.y + u3 * B.z)
    origin.set_vel(N, 0)
    kane = me.KanesMethod(N, [q1, q2, q3], [u1, u2, u3], kd_eqs=given)
    body = me.RigidBody("b", origin, B, sp.S(1), (me.inertia(B, 1, 2, 3), origin))
    kane.kanes_equations([body], [])
    start = (0.1, 0.5, third, 1.0, 0.2, 0.3)
    time = np.linspace(0.0, 0.4, 401)
    run = ks.simulate(ks.Model.from_kane(kane), time, dict(zip(symbols, start, strict=True)))
    turn = sp.lambdify((q1, q2, q3), N.dcm(B))

    def motion(_, y):
        p, r, s = u = y[:3]
        cross = np.array([[0, -s, r], [s, 0, -p], [-r, p, 0]])
        return [
            *((-u[1] * u[2]), u[0] * u[2], -u[0] * u[1] / 3),
            *(y[3:].reshape(3, 3) @ cross).ravel(),
        ]

    begin = [*start[3:], *np.ravel(turn(*start[:3]))]
    end = solve_ivp(motion, (0.0, 0.4), begin, rtol=1e-12, atol=1e-12).y[:, -1]
    found = turn(*(run[name][-1] for name in ("q1", "q2", "q3")))
    np.testing.assert_allclose(np.ravel(found), end[3:], atol=1e-9)


def test_runs_say_where_the_mass_matrix_is_singular():
    f = ks.compile(
        model(
            [sp.cos(q) * a.diff(t) + b.diff(t) - 1, b.diff(t) - a.diff(t) * k, q.diff(t) - 1],
            [a, b, q],
            [k],
        )
    )
    assert np.isnan(f.rhs([0.0, 0.0, 0.0], [], [-1.0])[0])
    np.testing.assert_allclose(f.rhs([0.0, 0.0, np.pi], [], [-1.0]), [-0.5, 0.5, 1.0])
