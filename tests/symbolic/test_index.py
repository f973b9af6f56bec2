"""The index of differential-algebraic models, against Kronecker's index and what is known of
textbook systems; models of reduced index keep the solutions."""

from itertools import pairwise

import numpy as np
import pytest
import sympy as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kinesym as ks
from kinesym.codegen.evaluate import model_symbols
from kinesym.codegen.interpret import evaluate_nodes
from kinesym.multibody import Body, Revolute, Tree
from kinesym.symbolic.differentiated import differentiated
from kinesym.symbolic.structure import differentiations, signature, structure_of

t = ks.t
x, y, z, w, s = ks.dynamicsymbols("x y z w s")
u = ks.dynamicsymbols("u")
R, C, a = sp.symbols("R C a")


def model(states, equations, inputs=(), parameters=(), **more):
    return ks.Model("m", states, inputs, parameters, equations, **more)


def residual(of, trajectories, at, parameters=()):
    """The equations along expressions of time for all states and inputs, with exact rates."""
    found = model_symbols(of)
    rates = {f"xdot.{name}": sp.diff(e, t) for name, e in trajectories.items()}
    values = {f"x.{name}": e for name, e in trajectories.items()}
    values |= {f"u.{name}": e for name, e in trajectories.items()} | rates
    numbers = {name: float((e + sp.S.Zero).subs(t, at)) for name, e in values.items()}
    numbers |= {f"p.{name}": value for name, value in {**of.values, **dict(parameters)}.items()}
    numbers["t.time"] = at
    nodes = [found.lower(e) for e in of.equations]
    known = evaluate_nodes(found.graph, found.graph.ancestors(nodes), numbers)
    return np.array([float(known[node]) for node in nodes])


# -- textbook systems ----------------------------------------------------------------------------


def test_ordinary_differential_equations():
    for ode in (ks.models.pendulum(), ks.models.standing(), ks.models.n_link_pendulum_on_cart(5)):
        assert ode.index.value == 0 and ode.index.freedom == len(ode.states)
        assert not ode.index.algebraic and not ode.index.constraints
        assert "index" not in str(ode)


def test_pendulum_in_cartesian_coordinates():
    """Index 3; Pantelides (1988) finds that the circle is differentiated twice."""
    pendulum = ks.models.cartesian_pendulum()
    assert structure_of(pendulum).equations == (1, 1, 0, 0, 2)
    assert structure_of(pendulum).states == (2, 2, 1, 1, 0)
    index = pendulum.index
    assert (index.value, index.freedom, index.algebraic) == (3, 2, ("tension",))
    assert [str(c) for c in index.constraints] == [
        "the second derivative of equation 4, -L**2 + x**2 + y**2"
    ]
    assert len(index.dependent) == 3 and "tension" in index.dependent
    assert "index 3; 2 initial values are free" in str(pendulum)
    form = differentiated(pendulum)
    assert [(c.equation, c.order) for c in form.constraints] == [(4, 0), (4, 1)]
    velocity = 2 * x * ks.dynamicsymbols("u") + 2 * y * ks.dynamicsymbols("v")
    assert sp.expand(form.constraints[1].expression - velocity) == 0


def test_four_bar():
    linkage = ks.models.four_bar()
    assert (linkage.index.value, linkage.index.freedom) == (3, 2)
    assert len(linkage.index.constraints) == 8 and len(linkage.index.algebraic) == 8
    assert "4 more" in str(linkage)


def test_circuits():
    """A source, a resistor and a capacitor: index 1. A capacitor across the source: its current is
    C u', index 2, and u' becomes an input."""
    v_c, i, v_s = ks.dynamicsymbols("v_c i v_s")
    charged = model([v_c, i], [C * v_c.diff(t) - i, v_s - R * i - v_c], [v_s], [R, C])
    assert charged.index.value == 1 and charged.index.algebraic == ("i",)
    assert charged.index.dependent == ("i",) and charged.index.freedom == 1
    loop = model([v_c, i], [C * v_c.diff(t) - i, v_s - v_c], [v_s], [C])
    assert loop.index.value == 2 and loop.index.freedom == 0
    assert "first derivative of equation 1, v_c - v_s" in str(loop.index).replace(
        "-v_c + v_s", "v_c - v_s"
    )
    reduced = loop.reduced_index()
    assert reduced.index.value == 1 and reduced.input_names == ("v_s", "v_s_rate")
    course = {"v_c": sp.sin(t), "i": 3 * sp.cos(t), "v_s": sp.sin(t), "v_s_rate": sp.cos(t)}
    found = residual(reduced, course, 0.7, {"C": 3.0})
    np.testing.assert_allclose(found, 0.0, atol=1e-14)


def test_quaternion_with_its_norm():
    """The norm in the place of one rate: index 1. With a multiplier beside all four rates: 2."""
    q = ks.dynamicsymbols("q_:4")
    p = sp.symbols("omega_:3")
    rates = [
        (-q[1] * p[0] - q[2] * p[1] - q[3] * p[2]) / 2,
        (q[0] * p[0] + q[2] * p[2] - q[3] * p[1]) / 2,
        (q[0] * p[1] - q[1] * p[2] + q[3] * p[0]) / 2,
        (q[0] * p[2] + q[1] * p[1] - q[2] * p[0]) / 2,
    ]
    norm = sum(e**2 for e in q) - 1
    three = [e.diff(t) - rate for e, rate in zip(q[1:], rates[1:], strict=True)]
    short = model(q, [*three, norm], parameters=p)
    assert short.index.value == 1 and short.index.algebraic == ("q_0",)
    four = [e.diff(t) - rate + z * e for e, rate in zip(q, rates, strict=True)]
    full = model([*q, z], [*four, norm], parameters=p)
    assert full.index.value == 2 and full.index.freedom == 3
    assert full.reduced_index().index.value == 1
    assert full.reduced_index("gear-gupta-leimkuhler") is full


@pytest.mark.parametrize("links", [2, 3, 4, 5])
def test_chain_of_any_index(links):
    """x_k + x_(k+1)' = 0 with x_n given: index n (a nilpotent block of Jordan's form)."""
    xs = [sp.Function(f"x_{k}")(t) for k in range(links)]
    equations = [e + after.diff(t) for e, after in pairwise(xs)]
    chain = model(xs, [*equations, xs[-1] - sp.sin(t)])
    assert chain.index.value == links and chain.index.freedom == 0
    assert chain.index.constraints[0].order == links - 1
    assert str(chain.index.constraints[0]).endswith(f"x_{links - 1} - sin(t)")
    if links > 2:
        second = chain.reduced_index("gear-gupta-leimkuhler")
        assert second.index.value == 2 and len(second.states) == 2 * links - 2
    course = {name_of(e): sp.sin(t).diff(t, k) * (-1) ** k for k, e in enumerate(reversed(xs))}
    for index in (0, 1):
        reduced = chain.reduced_index(index=index)
        assert reduced.index.value == index
        known = dict(course)
        for name in reduced.state_names:
            if name.endswith("_integral"):
                known[name] = sp.integrate(known[name.removesuffix("_integral")], t)
            elif "_rate" in name:
                known[name] = known[name.split("_rate")[0]].diff(t, name.count("_rate") + 1)
        np.testing.assert_allclose(residual(reduced, known, 0.4), 0.0, atol=1e-12)


def name_of(e):
    return e.name


# -- where the structure misleads ----------------------------------------------------------------


def test_floating_capacitor():
    """Between two nodes: each rate is in two equations, but only their difference is determined.
    The structure says index 0; it is 1."""
    circuit = model(
        [x, y],
        [C * (x.diff(t) - y.diff(t)) + x / R - u, C * (y.diff(t) - x.diff(t)) + y / R],
        [u],
        [C, R],
    )
    assert structure_of(circuit).index == 0
    assert (circuit.index.value, circuit.index.freedom) == (1, 1)
    assert "equations 0, 1 determine something only in combination" in circuit.index.reason
    decay = sp.exp(-t / (2 * 0.3 * 0.5)) / 2  # and x + y = R u
    course = {"x": 1 - decay, "y": decay, "u": sp.S(2), "u_rate": sp.S.Zero}
    reduced = circuit.reduced_index(index=0)
    assert reduced.index.value == 0 and set(reduced.outputs) == {"constraint_0"}
    found = residual(reduced, course, 0.2, {"C": 0.3, "R": 0.5})
    np.testing.assert_allclose(found, 0.0, atol=1e-13)
    assert circuit.reduced_index() is circuit


def test_combinations_with_factors_that_move():
    """The factor of the second equation is the state x: the index is found, and not reduced."""
    moved = model([x, y], [x.diff(t) + y.diff(t) - x, x * (x.diff(t) + y.diff(t)) - y])
    assert moved.index.value == 1
    with pytest.raises(ValueError, match=r"cannot be reduced.*combine them by hand"):
        moved.reduced_index(index=0)


def test_less_than_the_structure_says():
    """The second equation gives x; of x' + w' only the sum is a rate: index 1, structurally 2."""
    misled = model([x, y, w], [x.diff(t) + w.diff(t) + y + w, x - u, x.diff(t) + w.diff(t)], [u])
    assert structure_of(misled).index == 2 and structure_of(misled).regular
    assert misled.index.value == 1


def test_trigonometry_that_cancels():
    """sin^2 + cos^2 is 1 for numbers, not for the structure."""
    angle = ks.dynamicsymbols("angle")
    turned = model(
        [x, y, angle],
        [
            sp.cos(angle) * x.diff(t) + sp.sin(angle) * y.diff(t) - 1,
            sp.cos(angle) ** 2 * x.diff(t) + sp.sin(angle) * sp.cos(angle) * y.diff(t) - angle,
            angle.diff(t) - x,
        ],
    )
    assert structure_of(turned).index == 0
    assert turned.index.value not in (None, 0)


def test_undetermined():
    twice = model([x, y, z], [x - u, y + z, x.diff(t) - 2 * u], [u])
    assert twice.index.value is None
    assert twice.index.reason == "equations 0, 2 contain only x"
    same = model([x, y], [x + y - u, 2 * x + 2 * y - u], [u])
    assert same.index.value is None and "depend on one another" in same.index.reason
    with pytest.raises(ValueError, match="cannot be reduced, because equations 0, 1"):
        same.reduced_index()


def test_kinks_and_domains():
    """Values that are real only in a part of space, and functions with kinks."""
    f = sp.Piecewise((x**2, x > 0), (sp.Abs(x), True))
    odd = model(
        [x, y, z],
        [
            x.diff(t) - sp.log(y) + sp.Max(x, 0) * sp.sign(y) + sp.atan2(y, x),
            sp.asin(x / 5) + f - y + sp.Heaviside(x) + sp.floor(x),
            sp.sqrt(x) + z,
        ],
    )
    assert odd.index.value == 1 and odd.index.algebraic == ("y", "z")


# -- random linear systems -----------------------------------------------------------------------


def kronecker(E, A):
    """The index of E x' + A x = f: the nilpotency of the infinite part, by ranks of powers of
    (c E + A)^-1 E, exactly; None for a singular pencil (Gantmacher)."""
    n = len(E)
    E, A = sp.Matrix(E), sp.Matrix(A)
    shifted = next((c * E + A for c in range(1, n + 2) if (c * E + A).det() != 0), None)
    if shifted is None:
        return None
    step = shifted.inv() * E
    power, ranks = sp.eye(n), [n]
    while True:
        power = power * step
        ranks.append(power.rank())
        if ranks[-1] == ranks[-2]:
            return len(ranks) - 2


def pencil(n):
    entries = st.sampled_from([0, 0, 0, 1, 1, -1, 2])
    matrix = st.lists(st.lists(entries, min_size=n, max_size=n), min_size=n, max_size=n)
    return st.tuples(matrix, matrix)


def linear(E, A):
    n = len(E)
    xs = [sp.Function(f"x_{k}")(t) for k in range(n)]
    side = [sp.sin((k + 1) * t) for k in range(n)]
    rows = sp.Matrix(E) * sp.Matrix(xs).diff(t) + sp.Matrix(A) * sp.Matrix(xs) - sp.Matrix(side)
    return ks.Model("linear", xs, [], [], list(rows))


@settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(1, 4).flatmap(pencil))
def test_kronecker_index(matrices):
    """Of random linear systems, and of what they are reduced to."""
    E, A = matrices
    if not all(any(E[i][j] or A[i][j] for i in range(len(E))) for j in range(len(E))):
        return  # a state without an equation is no model
    system, known = linear(E, A), kronecker(E, A)
    assert system.index.value == known
    if known is None or system.index.reason:
        return
    for wanted in (0, 1):
        assert system.reduced_index(index=wanted).index.value <= wanted
    rank = sp.Matrix([[*e, *b] for e, b in zip(E, A, strict=True)]).rank()
    assert rank == len(E)
    c = structure_of(system).equations
    assert (sum(c) == 0) == (not differentiated(system).constraints)
    polynomial = (sp.Symbol("c") * sp.Matrix(E) + sp.Matrix(A)).det()
    assert system.index.freedom == sp.degree(polynomial, sp.Symbol("c"))


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(1, 3), st.integers(1, 4), st.randoms(use_true_random=False))
def test_hidden_in_combinations(differential, nilpotent, random):
    """Weierstrass' form, its rows and columns mixed: the index is the size of the nilpotent block,
    whatever the structure says."""
    n = differential + nilpotent
    E, A = sp.zeros(n), sp.eye(n)
    for k in range(differential):
        E[k, k], A[k, k] = 1, random.randint(1, 3)
    for k in range(differential, n - 1):
        E[k, k + 1] = 1
    mix = [
        sp.Matrix(n, n, lambda i, j: 1 if i == j else random.randint(-1, 1) * int(int(i) > int(j)))
        for _ in range(2)
    ]
    E, A = mix[0] * E * mix[1].T, mix[0] * A * mix[1].T
    assert kronecker(E.tolist(), A.tolist()) == nilpotent
    assert linear(E.tolist(), A.tolist()).index.value == nilpotent


def test_differentiations_are_enough():
    """At every equation some state is at its highest derivative, and none is above."""
    for system in (ks.models.cartesian_pendulum(), ks.models.four_bar()):
        orders = signature(system)
        c, d = differentiations(orders)
        for i, row in enumerate(orders):
            assert all(order + c[i] <= d[j] for j, order in row.items())
            assert any(order + c[i] == d[j] for j, order in row.items())


# -- models of reduced index ---------------------------------------------------------------------


def circling(of):
    """The pendulum without weight, turning at 2 rad/s on a circle of radius 1."""
    states = {"x": sp.cos(2 * t), "y": sp.sin(2 * t)}
    states |= {"u": sp.diff(states["x"], t), "v": sp.diff(states["y"], t)}
    more = {"tension": sp.S(4), "tension_integral": 4 * t, "mu_4": sp.S.Zero}
    return {name: {**states, **more}[name] for name in of.state_names}


@pytest.mark.parametrize(
    ("how", "index"), [("baumgarte", 1), ("baumgarte", 0), ("gear-gupta-leimkuhler", 2)]
)
def test_solutions_stay(how, index):
    """A solution of the model satisfies the reduced equations, and what leaves the circle is seen
    in the outputs."""
    reduced = ks.models.cartesian_pendulum().reduced_index(how, index=index)
    assert reduced.index.value == index
    for at in (0.0, 0.3, 2.1):
        found = residual(reduced, circling(reduced), at, {"g": 0.0})
        np.testing.assert_allclose(found, 0.0, atol=1e-13)
    assert {"energy", "constraint_4", "constraint_4_rate"} <= set(reduced.outputs)
    assert reduced.positive == ("m", "L")


def test_through_intermediates():
    """What is written with intermediates is differentiated through them."""
    plain = ks.models.cartesian_pendulum()
    (x_, y_, u_, v_, f), (m, L, g) = plain.states, plain.parameters
    square, length, pull = sp.symbols("square length pull")
    program = [(square, x_**2 + y_**2), (length, sp.sqrt(square)), (pull, f / L)]
    long = ks.Model(
        "p",
        plain.states,
        [],
        plain.parameters,
        [
            *plain.equations[:2],
            m * u_.diff(t) + pull * x_,
            m * v_.diff(t) + pull * y_ + m * g,
            length - L,
        ],
        intermediates=program,
        values=plain.values,
    )
    assert long.index.value == 3 and long.index.freedom == 2
    for how in ("baumgarte", "gear-gupta-leimkuhler"):
        reduced = long.reduced_index(how)
        assert set(program) < set(reduced.intermediates)
        found = residual(reduced, circling(reduced), 0.3, {"g": 0.0})
        np.testing.assert_allclose(found, 0.0, atol=1e-13)


@pytest.mark.parametrize("long", [False, True])
def test_rates_that_are_not_solved_for(long):
    """Kinematic equations with a matrix before q': further derivatives become algebraic states."""
    plain = ks.models.cartesian_pendulum()
    x_, y_, u_, v_, _ = plain.states
    turned = [
        (2 + x_) * (x_.diff(t) - u_) + y_.diff(t) - v_,
        x_.diff(t) - u_ - 3 * (y_.diff(t) - v_),
    ]
    square, equations = sp.Symbol("square"), [*turned, *plain.equations[2:]]
    if long:
        equations[-1] = square - plain.parameters[1] ** 2
    mixed = ks.Model(
        "p",
        plain.states,
        [],
        plain.parameters,
        equations,
        intermediates=[(square, x_**2 + y_**2)] * long,
        values=plain.values,
    )
    assert mixed.index.value == 3 and mixed.index.freedom == 2
    reduced = mixed.reduced_index()
    assert reduced.state_names[-2:] == ("x_rate_rate", "y_rate_rate")
    course = circling(mixed)
    course |= {"x_rate_rate": course["x"].diff(t, 2), "y_rate_rate": course["y"].diff(t, 2)}
    found = residual(reduced, course, 0.3, {"g": 0.0})
    np.testing.assert_allclose(found, 0.0, atol=1e-13)
    second = mixed.reduced_index("gear-gupta-leimkuhler")
    assert second.index.value == 2
    found = residual(second, circling(second), 0.3, {"g": 0.0})
    np.testing.assert_allclose(found, 0.0, atol=1e-13)


def test_constraints_without_multipliers():
    """z' is needed in the derivative of x + z = s, and only that of another constraint has it;
    other constraints contain rates themselves."""
    rows = [z - u, y.diff(t) + z + 3 * w, x + z - s, 2 * x.diff(t) - x + y]
    twice = ks.Model("m", [x, y, z, w], [u, s], [], rows)
    within = [
        z - u,
        y.diff(t) + z.diff(t),
        2 * x.diff(t) + y.diff(t) - w + s,
        y.diff(t) - x + 3 * y + z,
        s.diff(t) + 2 * w.diff(t) - z.diff(t) + x + 3 * y + 3 * z,
    ]
    for coupled in (twice, model([x, y, z, w, s], within, [u])):
        assert coupled.index.value == 3 and coupled.reduced_index().index.value == 1
        with pytest.raises(ValueError, match=r"no multipliers .* use the stabilisation baumgarte"):
            coupled.reduced_index("gear-gupta-leimkuhler")


def test_what_is_kept():
    linkage = ks.models.four_bar()
    reduced = linkage.reduced_index(rate=50.0)
    assert reduced.drawing == linkage.drawing and reduced.positive == linkage.positive
    assert reduced.values == {**linkage.values, "baumgarte_rate": 50.0}
    assert set(linkage.outputs) < set(reduced.outputs)
    assert reduced.reduced_index() is reduced
    ode = ks.models.pendulum()
    assert ode.reduced_index() is ode


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"stabilisation": "none"}, "stabilisation is one of baumgarte, gear-gupta-leimkuhler"),
        ({"index": -1}, "the index must be at least 0"),
        ({"stabilisation": "gear-gupta-leimkuhler", "index": 1}, "must be at least 2"),
        ({"rate": 0.0}, "the rate must be positive"),
    ],
)
def test_bad_arguments(given, words):
    with pytest.raises(ValueError, match=words):
        ks.models.cartesian_pendulum().reduced_index(**given)


def test_large_models():
    """Two hundred states in a chain, whose matching is found without recursion."""
    xs = [sp.Function(f"x_{k}")(t) for k in range(200)]
    heat = [e.diff(t) - (b - 2 * e + c) for b, e, c in zip(xs[:-2], xs[1:-1], xs[2:], strict=True)]
    rod = model(xs, [xs[0] - sp.sin(t), *heat, xs[-1]])
    assert rod.index.value == 1 and len(rod.index.algebraic) == 2
    assert ks.models.sim3d().index.value == 0


def test_constraints_have_the_names_of_their_loops():
    """Outputs and multipliers of what a tree closes are named after its forces, others after the
    number of the equation; the multipliers are known to vanish."""
    rods = [
        Body("arm", 1.0, (0.5, 0, 0), (0, 0.1, 0.1), Revolute("y")),
        Body("rod", 1.0, (0.5, 0, 0), (0, 0.1, 0.1), Revolute("y"), (1.0, 0, 0), "arm"),
    ]
    tree = Tree("two", rods, gravity=(0, 0, -9.81))
    ends = tree.place("rod", (1, 0, 0))
    named = tree.constrain(ends[2], "sink_rate").model().reduced_index()
    assert named.invariants == {"constraint_sink_rate": 0, "constraint_sink_rate_rate": 1}
    model = tree.constrain(ends[2], "guide").model()
    both = {"constraint_guide": 0, "constraint_guide_rate": 1}
    assert model.labels == {4: "guide"}
    assert model.reduced_index().invariants == both and not model.reduced_index().vanishing
    twice = model.reduced_index("gear-gupta-leimkuhler")
    assert twice.invariants == both and twice.vanishing == ("mu_guide",)
    assert twice.state_names[-1] == "mu_guide" and twice.labels == {4: "guide", 5: "guide_rate"}
    plain = ks.models.cartesian_pendulum().reduced_index("gear-gupta-leimkuhler")
    assert plain.vanishing == ("mu_4",)
