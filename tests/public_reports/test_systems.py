"""Public reports of other projects about algebraic states, delays, constraints and optimal control,
written for kinesym; numbers are our own.

The first words of each docstring name the report."""

import warnings

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import solve_ivp
from sympy.physics import mechanics as me

import kinesym as ks
from kinesym.hybrid import Event, Hybrid

x, y, z, w, u, v = ks.dynamicsymbols("x y z w u v")


@pytest.mark.parametrize("method", ("radau-5", "radau-3"))
@pytest.mark.parametrize("target", (1.0, 0.0))
def test_distance_through_zero(method, target):
    """do-mpc/do-mpc#101: an algebraic distance that passes through zero."""
    model = ks.Model(
        "lateral",
        [x, y, w],
        [],
        [],
        [x.diff(ks.t) - 1, y.diff(ks.t), w - sp.sqrt((x - target) ** 2 + y**2)],
    )
    run = ks.simulate(model, np.linspace(0, 2, 21), {x: 0, y: 0, w: target}, method=method)
    assert run.time[-1] == 2
    np.testing.assert_allclose(run["w"], abs(run.time - target), atol=1e-8)


@pytest.mark.parametrize("guess", (1.0, 100.0, -1.0, 0.0))
def test_guess_of_an_algebraic_state(guess):
    """SciML/ModelingToolkit.jl#4174: an algebraic guess where its equation is singular."""
    model = ks.Model("steady", [x, y], [], [], [x.diff(ks.t) - 1 + x / 2, 2 * y**2 - x - 16])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        run = ks.simulate(model, np.linspace(0, 50, 11), {x: 0.1, y: guess}, method="radau-5")
    assert abs(run["y"][-1]) == pytest.approx(3.0, abs=1e-6)
    assert any("singular" in str(each.message) for each in said) == (guess == 0)


def test_start_that_contradicts_the_algebra():
    """SciML/OrdinaryDiffEq.jl#2700: a start that violates an algebraic equation is a success; here
    that of w is a guess, and a warning says that no equation changes with it there."""
    lorenz = ks.Model(
        "lorenz",
        [x, y, z, w],
        [],
        [],
        [
            x.diff(ks.t) - 10 * (y - x),
            y.diff(ks.t) + y - x * (28 - z),
            z.diff(ks.t) - x * y + 8 * z / 3,
            x**2 + y**2 - w**2,
        ],
    )
    start = {x: 1.0, y: 0.0, z: 0.0, w: 0.0}
    with pytest.warns(UserWarning, match="the guess of w is singular.*ended at 1;"):
        run = ks.simulate(lorenz, np.linspace(0, 1, 11), start, method="radau-5")
    assert run["w"] == pytest.approx(np.hypot(run["x"], run["y"]), rel=1e-6)


def test_told_start_of_a_higher_index():
    """SciML/OrdinaryDiffEq.jl#1498: a start with 3 x != y is met by "instability detected"."""
    a, b = ks.dynamicsymbols("a b")
    model = ks.Model(
        "loop",
        [x, y, a, b],
        [],
        [],
        [x.diff(ks.t) - y - a, 3 * x - y, y.diff(ks.t) - a * x, a / 5 - b],
    )
    with pytest.raises(ValueError, match=r"(?i)initial|start|3\*x"):
        ks.simulate(
            model, np.linspace(0, 0.1, 11), {x: 3.0, y: 1.0, a: 0.0, b: 0.0}, method="radau-5"
        )


def test_algebraic_state_beside_a_second_order():
    """SciML/ModelingToolkit.jl#2619: algebraic states need starts in one form, not in another."""
    k = 2.0
    model = ks.Model(
        "oscillator",
        [y, v, x],
        [],
        [],
        [y.diff(ks.t) - v, v.diff(ks.t) + 1.0 * v + 0.25 * y, x + k - y - 3],
    )
    run = ks.simulate(model, np.linspace(0, 5, 51), {y: 2.0, v: 0.5, x: 0.0}, method="radau-5")
    # critically damped: y = (2 + 1.5 t) exp(-t / 2)
    np.testing.assert_allclose(run["y"], (2 + 1.5 * run.time) * np.exp(-run.time / 2), atol=1e-6)
    np.testing.assert_allclose(run["x"], run["y"] + 1, atol=1e-9)


def test_state_dependent_delay():
    """neurophysik/jitcdde#7: a delay of 2 + y^2 s meets the jump of its history."""
    model = ks.Model(
        "late", [y], [], [], [y.diff(ks.t) + ks.delayed(y, 2 + y**2, range=(2, 500)) - 5]
    )
    past = ks.Signal([-600, -1, 0], [4.5, -0.5, -0.5], between="held")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = ks.simulate(
            model, np.linspace(0, 3, 501), {y: -0.5}, history={y: past}, method="dormand-prince"
        )
    assert np.interp(0.5, run.time, run["y"]) == pytest.approx(-0.25, abs=1e-6)
    assert run.time[-1] > 0.98 and "step itself" not in run.message


def test_first_interval_of_a_delay():
    """patrick-kidger/diffrax#169: the delayed logistic equation; in the first second its past is
    constant, y = 1.2 exp(-0.36 t)."""
    model = ks.Model("logistic", [y], [], [], [y.diff(ks.t) - 1.8 * y * (1 - ks.delayed(y, 1.0))])
    run = ks.simulate(
        model, np.linspace(0, 2, 41), {y: 1.2}, history={y: 1.2}, method="dormand-prince"
    )
    np.testing.assert_allclose(run["y"][:21], 1.2 * np.exp(-0.36 * run.time[:21]), rtol=1e-6)

    def rate(s, q):
        return 1.8 * q * (1 - 1.2 * np.exp(-0.36 * (s - 1)))

    second = solve_ivp(rate, (1, 2), [1.2 * np.exp(-0.36)], rtol=1e-10, atol=1e-12)
    assert run["y"][-1] == pytest.approx(second.y[0, -1], rel=1e-6)


def test_bolus_in_a_delayed_state():
    """SciML/OrdinaryDiffEq.jl#4515: a jump of a state reaches the history of a delay."""
    bolus = ks.Model(
        "transit",
        [x, y],
        [],
        [],
        [x.diff(ks.t) + 1.5 * x, y.diff(ks.t) - 1.5 * ks.delayed(x, 10.0) + y / 30],
    )
    system = Hybrid(bolus, events=[Event("dose", ks.t - 12, 1, resets={x: x + 20})])
    run = ks.simulate(
        system,
        np.linspace(0, 24, 49),
        {x: 10.0, y: 0.0},
        history={x: 0.0},
        method="dormand-prince",
    )
    exact = np.zeros(49)
    for dose, start in ((10, 10), (20, 22)):
        since = np.clip(run.time - start, 0, None)
        exact += dose * 1.5 / (1.5 - 1 / 30) * (np.exp(-since / 30) - np.exp(-1.5 * since))
    np.testing.assert_allclose(run["y"], exact, atol=2e-5)


def test_sign_of_multipliers():
    """sympy/sympy#30215: Kane's and Lagrange's methods give a constraint's force opposite signs."""
    q, r, s, c = me.dynamicsymbols("q r s c")
    m, g, N = *sp.symbols("m g"), me.ReferenceFrame("N")
    lagrange = me.LagrangesMethod(
        m * (q.diff() ** 2 + r.diff() ** 2) / 2 - m * g * r,
        [q, r],
        hol_coneqs=[q**2 + r**2 - 4],
        frame=N,
    )
    lagrange.form_lagranges_equations()
    origin = me.Point("O")
    origin.set_vel(N, 0)
    mass = origin.locatenew("P", q * N.x + r * N.y)
    mass.set_vel(N, s * N.x + c * N.y)
    kane = me.KanesMethod(
        N,
        q_ind=[q],
        q_dependent=[r],
        u_ind=[s],
        u_dependent=[c],
        kd_eqs=[q.diff() - s, r.diff() - c],
        configuration_constraints=[q**2 + r**2 - 4],
        velocity_constraints=[2 * q * s + 2 * r * c],
    )
    kane.kanes_equations([me.Particle("p", mass, m)], [(mass, -m * g * N.y)])
    values = {m: 3.0, g: 9.81}
    for model in (
        ks.Model.from_kane(kane, values=values, frame=N),
        ks.Model.from_kane(lagrange, values=values),
    ):
        start = dict.fromkeys(model.state_names, 0.0) | {"r": -2.0}
        run = ks.simulate(model, [0, 1.0], start, method="radau-5")
        # M u' = F + J' lam: 0 = -m g + 2 r lam
        assert run["lam1"][-1] == pytest.approx(-3 * 9.81 / 4, rel=1e-6)


def test_least_time_with_bounds_and_a_path():
    """control-toolbox/CTDirect.jl#71: the solver fails at a free final time, bounds and a path
    constraint. From (1, 2) to rest in 2 + 2 sqrt(3) s."""
    model = ks.Model("double", [x, v], [u], [], [x.diff(ks.t) - v, v.diff(ks.t) - u])
    problem = ks.Collocation(
        model,
        ks.Experiment(nodes=101, duration=(0.1, 20)),
        objective=ks.Terminal(ks.t),
        unknown_inputs={u: (-1, 1)},
        bounds={x: (0, 5), v: (-2, 3)},
        path=[(u**2, None, 100)],
        boundary=[ks.at_start(x) - 1, ks.at_start(v) - 2, ks.at_end(x), ks.at_end(v)],
    )
    solution = problem.solve({"duration": 3.0})
    assert solution.success
    assert solution.duration == pytest.approx(2 + 2 * np.sqrt(3), abs=5e-3)


def test_infeasible_is_no_success():
    """brocksam/pycollo#73: "solved" though the solver found no feasible point."""
    model = ks.Model("double", [x, v], [u], [], [x.diff(ks.t) - v, v.diff(ks.t) - u])
    problem = ks.Collocation(
        model,
        ks.Experiment(np.linspace(0, 1, 21)),
        objective=ks.Integral(u**2),
        unknown_inputs={u: (-1, 1)},
        boundary=[ks.at_start(x), ks.at_start(v), ks.at_end(x) - 5, ks.at_end(v)],
    )
    solution = problem.solve()
    assert not solution.success and str(solution.why())


def test_cost_of_the_start():
    """istellartech/OpenGoddard#3: the least speed that reaches a target cannot be said; without
    drag it is sqrt(g d)."""
    a, b = ks.dynamicsymbols("a b")
    flight = ks.Model(
        "flight",
        [x, y, a, b],
        [],
        [],
        [x.diff(ks.t) - a, y.diff(ks.t) - b, a.diff(ks.t), b.diff(ks.t) + 9.81],
    )
    problem = ks.Collocation(
        flight,
        ks.Experiment(nodes=21, duration=(0.1, 10)),
        objective=ks.Terminal(ks.at_start(a) ** 2 + ks.at_start(b) ** 2),
        boundary=[ks.at_start(x), ks.at_start(y), ks.at_end(x) - 6, ks.at_end(y)],
        scheme="radau-5",
    )
    solution = problem.solve({"duration": 1.0, a: 5.0, b: 5.0})
    assert solution.success and solution.objective == pytest.approx(9.81 * 6, rel=1e-6)


def test_start_that_depends_on_a_parameter():
    """AMICI-dev/AMICI#3249: initial values that are expressions of parameters."""
    c = sp.Symbol("c")
    model = ks.Model("start", [x], [], [c], [x.diff(ks.t) + x])
    time = np.linspace(0, 2, 21)
    found = ks.sensitivities(model, time, {x: c**3}, {c: 2.0}).forward(["c"])
    assert found.states["x"][0, -1] == pytest.approx(12 * np.exp(-2), rel=1e-6)
    trial = ks.Experiment(time, measurements={x: 8 * np.exp(-time)}, std={x: 0.01})
    fit = ks.Shooting(model, trial, {c: (0, 10)}, initial={x: c**3}).solve({c: 1.0})
    assert fit.parameters["c"] == pytest.approx(2.0, rel=1e-5)
