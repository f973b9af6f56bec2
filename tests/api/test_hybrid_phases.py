"""Phases of a motion as one nonlinear program, against closed forms and simulations."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import quad

import kinesym as ks
from kinesym import hybrid as kh
from kinesym.internal.problems.symbolic_problem import symbolic_problem
from kinesym.symbolic.schemes import SCHEMES

BLOCK = json.loads((Path(__file__).parents[1] / "data" / "rocking_block.json").read_text())
TIGHT = {"rtol": 1e-12, "atol": 1e-13}
y, v, lam = ks.dynamicsymbols("y v lam")
g, m = sp.symbols("g m")
FALL = np.sqrt(2.0 / 9.81)  # from 1 m [s]
every_kind = pytest.mark.parametrize(
    "scheme", ["trapezoid", "hermite-simpson", "radau-3", "gauss-4"]
)


@cache
def ball(restitution):
    equations = [y.diff(ks.t) - v, m * v.diff(ks.t) + m * g - lam]
    model = ks.Model("ball", [y, v], [lam], [g, m], equations, values={g: 9.81, m: 0.5})
    return kh.Hybrid(model, contacts=[kh.Contact("floor", y, lam, restitution=restitution)])


def free_ball(*more):
    """Without a floor: what happens at it is said in links."""
    drag, kick = (*more, 0, 0)[:2]
    parameters = [g, *(p for p in more if isinstance(p, sp.Symbol))]
    model = ks.Model(
        "ball",
        [y, v],
        [],
        parameters,
        [y.diff(ks.t) - v, v.diff(ks.t) + g + drag * v + 0 * kick],
        values={g: 9.81},
    )
    return kh.Hybrid(model)


def durations(solution):
    assert solution.success, solution.message
    return [trial.time[-1] for trial in solution.trials]


def test_names_of_contacts_say_nothing_of_their_rows():
    contact = "a condition x_rate"
    named = kh.Hybrid(ball(0.5).model, contacts=[kh.Contact(contact, y, lam)])
    rest = ks.Phase(nodes=3, duration=(1.0, 1.0), closed=(contact,))
    problem = ks.Collocation(named, ks.Phases([rest]), scheme="radau-3")
    rows = problem.layout.labels["interval"]
    assert [row.name for row in rows if row.kind == "hold"] == [f"hold by {contact}_hold"]
    about = {row.name: row.kind for row in rows if row.of == contact}
    assert about == {f"contact {contact}": ""}


# -- a ball ---------------------------------------------------------------------------------------


@every_kind
def test_bouncing_ball(scheme):
    """Falls, bounces, and bounces again to the top; e = 0.5: durations are exact for parabolas."""
    flight = ks.Phase(nodes=21, duration=(0.05, 2.0))
    hit = ks.Phase(nodes=21, duration=(0.05, 2.0), hits=("floor",))
    problem = ks.Collocation(
        ball(0.5),
        ks.Phases(
            [flight, hit, hit], start=[ks.at_start(y) - 1, ks.at_start(v)], end=[ks.at_end(v)]
        ),
        scheme=scheme,
    )
    solution = problem.solve({"duration": [0.4, 0.4, 0.1], y: 0.5})
    np.testing.assert_allclose(durations(solution), [FALL, FALL, 0.25 * FALL], atol=1e-8)
    speeds = [trial["v"][[0, -1]] for trial in solution.trials]
    top = 9.81 * FALL
    np.testing.assert_allclose(speeds, [[0, -top], [top / 2, -top / 2], [top / 4, 0]], atol=1e-7)
    assert solution.trials[2]["y"][-1] == pytest.approx(1.0 / 16.0, abs=1e-7)
    whole = solution.joined()
    assert whole.time[-1] == pytest.approx(2.25 * FALL) and len(whole.time) == 63
    run = ks.simulate(ball(0.5), np.unique(whole.time), {y: 1.0, v: 0.0}, **TIGHT)
    np.testing.assert_allclose(np.interp(whole.time, run.time, run["y"]), whole["y"], atol=1e-6)


@every_kind
def test_inelastic_impact_closes(scheme):
    """It lies on the floor, which bears its weight."""
    rest = ks.Phase(("floor",), nodes=5, duration=(0.2, 0.2))
    problem = ks.Collocation(
        ball(0.0),
        ks.Phases([ks.Phase(nodes=11), rest], start=[ks.at_start(y) - 1, ks.at_start(v)]),
        scheme=scheme,
    )
    solution = problem.solve({"duration": [0.4, 0.2], y: 0.5, lam: 1.0})
    np.testing.assert_allclose(durations(solution), [FALL, 0.2], atol=1e-8)
    last = solution.trials[1]
    np.testing.assert_allclose(last["lam"], 0.5 * 9.81, rtol=1e-9)
    np.testing.assert_allclose([last["y"], last["v"]], 0.0, atol=1e-7)


def test_resets_by_links():
    """A ball without contacts: v becomes -0.7 v at y = 0, by three conditions per link."""
    hybrid, phase = free_ball(), ks.Phase(nodes=15, duration=(0.01, 2.0))
    links = [ks.at_end(y), ks.at_start(y), ks.at_start(v) + sp.Rational(7, 10) * ks.at_end(v)]
    problem = ks.Collocation(
        hybrid,
        ks.Phases(
            [phase] * 3, start=[ks.at_start(y) - 1, ks.at_start(v)], end=[ks.at_end(v)], links=links
        ),
    )
    solution = problem.solve({"duration": [0.4, 0.4, 0.2], y: 0.5})
    np.testing.assert_allclose(durations(solution), [FALL, 1.4 * FALL, 0.49 * FALL], atol=1e-8)


def test_periodic_bounce_from_an_unknown_speed():
    """Each bounce halves the speed and adds 1 m/s: it repeats from 2 m/s on, every 0.408 s."""
    cycle = [ks.at_start(y), ks.at_end(y), ks.at_start(v) + ks.at_end(v) / 2 - 1]
    problem = ks.Collocation(
        free_ball(), ks.Phases([ks.Phase(nodes=15, duration=(0.1, 2.0))], cycle=cycle)
    )
    solution = problem.solve({"duration": [0.5], v: 1.0})
    np.testing.assert_allclose(durations(solution), [4.0 / 9.81], atol=1e-8)
    np.testing.assert_allclose(solution.trials[0]["v"][[0, -1]], [2.0, -2.0], atol=1e-8)
    assert solution.trials[0]["y"].max() == pytest.approx(2.0 / 9.81, abs=1e-8)


@every_kind
def test_periodic_bounce_with_the_least_thrust(scheme):
    """e = 0.7, one bounce per second: the thrust that makes up for it is a straight line."""
    thrust = sp.Function("thrust")(ks.t)
    model = ks.Model(
        "ball",
        [y, v],
        [thrust],
        [g],
        [y.diff(ks.t) - v, v.diff(ks.t) + g - thrust],
        values={g: 9.81},
    )
    e = sp.Rational(7, 10)
    nodes = 201
    problem = ks.Collocation(
        kh.Hybrid(model),
        ks.Phases(
            [ks.Phase(nodes=nodes, duration=(1.0, 1.0))],
            start=[ks.at_start(y)],
            cycle=[ks.at_end(y), ks.at_start(v) + e * ks.at_end(v)],
        ),
        scheme=scheme,
        objective=ks.Integral(thrust**2),
        unknown_inputs={thrust: None},
    )
    solution = problem.solve({v: 1.0})
    assert solution.success
    # u = a + b t; v(1) = v0 + a - g + b/2, y(1) = v0 + (a - g)/2 + b/6 = 0, v0 = -e v(1), and of
    # all such the least a^2 + a b + b^2/3
    a, b, v0 = sp.symbols("a b v0")
    found = sp.solve([v0 + (a - 9.81) / 2 + b / 6, v0 + e * (v0 + a - 9.81 + b / 2)], [b, v0])
    square = (a**2 + a * b + b**2 / 3).subs(found)
    best = sp.solve(sp.diff(square, a), a)[0]
    bend = float(found[b].subs(a, best))
    t = np.linspace(0.0, 1.0, nodes)
    np.testing.assert_allclose(
        solution.trials[0]["thrust"][1:-1], (float(best) + bend * t)[1:-1], atol=2e-3
    )
    assert solution.objective == pytest.approx(float(square.subs(a, best)), rel=1e-4)
    start, end = solution.trials[0]["v"][[0, -1]]
    assert start == pytest.approx(-0.7 * end, rel=1e-8)


# -- friction -------------------------------------------------------------------------------------


def slider(mu):
    s, z, vs, vz = ks.dynamicsymbols("s z vs vz")
    normal, along, pull = ks.dynamicsymbols("normal along pull")
    equations = [
        s.diff(ks.t) - vs,
        z.diff(ks.t) - vz,
        2 * vs.diff(ks.t) - along - pull,
        2 * vz.diff(ks.t) + 2 * 9.81 - normal,
    ]
    model = ks.Model("slider", [s, z, vs, vz], [normal, along, pull], [], equations)
    return kh.Hybrid(
        model,
        contacts=[kh.Contact("floor", z, normal, "coulomb", s, along, friction_coefficient=mu)],
    )


@every_kind
def test_a_slider_that_sticks(scheme):
    """Friction holds the pull, up to mu m g: beyond there is no solution."""
    hybrid, pull = slider(0.3), np.linspace(0.0, 5.0, 6)
    phase = ks.Phase(("floor",), (0.5, 0.5), 6, inputs={"pull": pull})
    start = [ks.at_start(hybrid.model.states[0]) - sp.Rational(1, 5)]
    problem = ks.Collocation(hybrid, ks.Phases([phase], start=start), scheme=scheme)
    solution = problem.solve({"normal": 19.0})
    durations(solution)
    only = solution.trials[0]
    np.testing.assert_allclose(only["along"], -pull, atol=1e-8)
    np.testing.assert_allclose(only["normal"], 2 * 9.81, rtol=1e-9)
    np.testing.assert_allclose(only["s"], 0.2, atol=1e-9)
    np.testing.assert_allclose([only["vs"], only["z"]], 0.0, atol=1e-9)
    hybrid = slider(0.2)
    problem = ks.Collocation(
        hybrid, ks.Phases([phase], start=[ks.at_start(hybrid.model.states[0])]), scheme=scheme
    )
    assert not problem.solve({"normal": 19.0}, max_iterations=100).success


# -- the rocking block ----------------------------------------------------------------------------


@cache
def block():
    """The block of rocking_block.json, and its states by name."""
    q = ks.dynamicsymbols("x z th vx vz w")
    told, contacts, inputs = BLOCK["params"], [], []
    total = sp.Matrix([0, -told["m"] * told["g"], 0])
    for side, (a, b) in zip(("left", "right"), told["corners"], strict=True):
        across = q[0] + sp.cos(q[2]) * a - sp.sin(q[2]) * b
        up = q[1] + sp.sin(q[2]) * a + sp.cos(q[2]) * b
        normal, along = ks.dynamicsymbols(f"n_{side} f_{side}")
        total += sp.Matrix([up]).jacobian(q[:3]).T * normal
        total += sp.Matrix([across]).jacobian(q[:3]).T * along
        contacts.append(kh.Contact(side, up, normal, "stick", across, along))
        inputs += [normal, along]
    rates = sp.diag(told["m"], told["m"], told["I"]) * sp.Matrix([u.diff(ks.t) for u in q[3:]])
    model = ks.Model(
        "block",
        q,
        inputs,
        [],
        [*(a.diff(ks.t) - b for a, b in zip(q[:3], q[3:], strict=True)), *(rates - total)],
    )
    states = dict(zip(("x", "z", "th", "vx", "vz", "w"), q, strict=True))
    return kh.Hybrid(model, contacts=contacts), states


def half_cycle(nodes, scheme):
    """From rest on the right corner through the impact of the left one to rest on that."""
    hybrid, s = block()
    phases = [ks.Phase((side,), (0.05, 1.0), nodes) for side in ("right", "left")]
    start = [
        ks.at_start(s["th"]) - BLOCK["q0"][2],
        ks.at_start(s["x"]) - BLOCK["q0"][0],
        ks.at_start(s["w"]),
    ]
    motion = ks.Phases(phases, start=start, end=[ks.at_end(s["w"])])
    problem = ks.Collocation(hybrid, motion, scheme=scheme)
    weight = BLOCK["params"]["m"] * 5.0
    solution = problem.solve(
        {
            "duration": [0.27, 0.25],
            s["z"]: BLOCK["params"]["half_height"],
            "n_right": weight,
            "n_left": weight,
        },
        tolerance=1e-10,
    )
    return solution, np.array([*np.cumsum(durations(solution)), solution.trials[1]["th"][-1]])


@pytest.mark.parametrize(
    ("scheme", "nodes"),
    [
        ("trapezoid", (11, 21)),
        ("hermite-simpson", (5, 9)),
        ("radau-3", (7, 13)),
        ("radau-5", (3, 5)),
        ("gauss-4", (5, 9)),
    ],
)
def test_half_a_cycle_of_a_rocking_block(scheme, nodes):
    """One corner, the impact of the other which opens the first, the other: errors of both times
    and of the angle, against a simulation, fall with the order of the scheme."""
    hybrid, s = block()
    top = kh.Event("top", s["w"], 0)
    start = dict(zip(s.values(), BLOCK["q0"] + BLOCK["v0"], strict=True))
    run = ks.simulate(
        kh.Hybrid(hybrid.model, events=[top], contacts=hybrid.contacts),
        [0.0, 0.6],
        {**start, "right": True},
        **TIGHT,
    )
    hit, rest = run.happened("impact")[0], run.happened("event")[-1]
    exact = np.array([hit.time, rest.time, rest.after["th"]])
    assert hit.time == pytest.approx(BLOCK["first_impact_quadrature"], abs=1e-9)
    (_, a), (fine, b) = (half_cycle(N, scheme) for N in nodes)
    power = 2.0 ** SCHEMES[scheme].order
    np.testing.assert_allclose((a - exact) / (b - exact), power, rtol=0.06)
    np.testing.assert_allclose((power * b - a) / (power - 1.0), exact, atol=1e-5)
    before, after = fine.trials[0]["w"][-1], fine.trials[1]["w"][0]
    assert after / before == pytest.approx(BLOCK["housner_ratio"], rel=1e-3)  # it has drifted
    assert fine.trials[0]["n_right"][-1] > 1.0  # it still presses when the impact opens it


@every_kind
def test_a_block_that_falls_flat(scheme):
    """Both corners hit at once and depend on each other: it stands, and they share the weight."""
    hybrid, s = block()
    high = BLOCK["params"]["half_height"]
    start = [ks.at_start(q) - (high + 0.1 if name == "z" else 0) for name, q in s.items()]
    stands = ks.Phase(("left", "right"), (0.1, 0.1), 5)
    problem = ks.Collocation(
        hybrid,
        ks.Phases([ks.Phase(nodes=7, duration=(0.05, 1.0)), stands], start=start),
        scheme=scheme,
    )
    weight = BLOCK["params"]["m"] * 9.81 / 2.0
    solution = problem.solve(
        {"duration": [0.14, 0.1], s["z"]: high, "n_left": weight, "n_right": weight}
    )
    assert durations(solution)[0] == pytest.approx(np.sqrt(0.2 / 9.81), abs=1e-6)
    last = solution.trials[1]
    np.testing.assert_allclose(last["n_left"] + last["n_right"], 2.0 * weight, rtol=1e-6)
    np.testing.assert_allclose([last["vz"], last["w"], last["vx"]], 0.0, atol=1e-6)


# -- derivatives ----------------------------------------------------------------------------------


def differences(f, z, h=1e-4):
    """d f / d z by central differences of fourth order."""
    columns = []
    for k in range(len(z)):
        step = np.zeros(len(z))
        step[k] = h
        near, far = f(z + step) - f(z - step), f(z + 2 * step) - f(z - 2 * step)
        columns.append((8.0 * near - far) / (12.0 * h))
    return np.array(columns).T


def check_derivatives(problem, seed, size=0.5):
    """Jacobian and Hessian of everything at a random point."""
    rng = np.random.default_rng(seed)
    z = size * rng.normal(size=problem.n_variables)
    multipliers = rng.normal(size=problem.n_constraints)
    offset = problem.layout.duration_offset
    z[offset:] = np.abs(z[offset:]) + 0.3
    jacobian = problem.constraint_jacobian(z).toarray()
    hessian = problem.lagrangian_hessian(z, multipliers, 0.7).toarray()

    def gradient(z):
        return 0.7 * problem.cost_gradient(z) + problem.constraint_jacobian(z).T @ multipliers

    for ours, theirs in (
        (jacobian, differences(problem.constraints, z)),
        (hessian, differences(gradient, z)),
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-8 * max(1.0, np.abs(ours).max()))
    np.testing.assert_allclose(problem.cost_gradient(z), differences(problem.cost, z), atol=1e-8)
    np.testing.assert_array_equal(hessian, hessian.T)


@every_kind
def test_derivatives_of_bounces(scheme):
    hit = ks.Phase(nodes=4, hits=("floor",))
    problem = ks.Collocation(
        ball(0.5),
        ks.Phases(
            [ks.Phase(nodes=5), hit, hit],
            start=[ks.at_start(y) - 1, ks.at_start(v)],
            end=[ks.at_end(v * y) - g],
            links=[ks.at_end(lam) * ks.at_start(v)],
            cycle=[ks.at_end(v) - ks.at_start(y)],
        ),
        unknown={g: None},
        scheme=scheme,
        objective=ks.Terminal(ks.t + y**2) + ks.Integral(v**2 * lam),
    )
    for seed in range(3):
        check_derivatives(problem, seed)
    z = np.random.default_rng(0).uniform(0.5, 1.5, problem.n_variables)
    slopes = [problem.layout.trajectories(problem.cost_gradient(z), k)[0, -1] for k in range(3)]
    assert slopes == [0.0, 0.0, 2.0 * problem.layout.trajectories(z, 2)[0, -1]]  # of y at its end


@pytest.mark.study
@every_kind
def test_derivatives_of_impacts_with_friction(scheme):
    """Corners that stick, impulses of two of them at once, and unknown inputs."""
    hybrid, s = block()
    steps = [
        ks.Phase(("right",), nodes=3),
        ks.Phase(("left",), nodes=4),
        ks.Phase(("right",), nodes=3, hits=("left", "right")),
    ]
    problem = ks.Collocation(
        hybrid,
        ks.Phases(steps, start=[ks.at_start(s["th"]) + 0.1], end=[ks.at_end(s["w"] * s["x"])]),
        scheme=scheme,
        objective=ks.Integral(s["w"] ** 2),
    )
    for seed in range(2):
        check_derivatives(problem, seed, size=0.3)


@every_kind
def test_derivatives_of_friction_cones(scheme):
    hybrid = slider(0.3)
    pull = next(u for u in hybrid.model.inputs if str(u.func) == "pull")
    problem = ks.Collocation(
        hybrid,
        ks.Phases([ks.Phase(nodes=3), ks.Phase(("floor",), nodes=4)]),
        unknown_inputs={pull: (-1, 1)},
        scheme=scheme,
        objective=ks.Integral(pull**2),
        path=[(pull * hybrid.model.states[0], -1, 1)],
    )
    check_derivatives(problem, 0)


# -- what does not fit ----------------------------------------------------------------------------


def test_what_does_not_fit():
    phase = ks.Phase(nodes=5)
    for words, make in {
        "a motion needs at least one phase": lambda: ks.Collocation(ball(0.5), ks.Phases([])),
        "phase 0: there is no contact 'wall'; there are floor": lambda: ks.Collocation(
            ball(0.5), ks.Phases([ks.Phase(("wall",))])
        ),
        "phase 1: there is no contact 'wall'; there are floor": lambda: ks.Collocation(
            ball(0.5), ks.Phases([phase, ks.Phase(hits=("wall",))])
        ),
        "phase 0: nothing comes before the first phase": lambda: ks.Collocation(
            ball(0.5), ks.Phases([ks.Phase(hits=("floor",))])
        ),
        "nothing says how the states continue": lambda: ks.Collocation(
            free_ball(), ks.Phases([phase, phase])
        ),
        "modes: m is unknown": lambda: ks.Collocation(
            ball(0.5), ks.Phases([ks.Phase(modes={m: 1.0})])
        ),
        "inputs: lam is unknown": lambda: ks.Collocation(
            ball(0.5), ks.Phases([ks.Phase(inputs={lam: 1.0})])
        ),
        "input pull has no data in trial 0": lambda: ks.Collocation(
            slider(0.3), ks.Phases([phase])
        ),
        "input pull has 4 values, expected 5": lambda: ks.Collocation(
            slider(0.3), ks.Phases([ks.Phase(nodes=5, inputs={"pull": np.zeros(4)})])
        ),
        r"duration must be \(low, high\) with 0 < low": lambda: ks.Collocation(
            ball(0.5), ks.Phases([ks.Phase(duration=(-1.0, 1.0))])
        ),
        "at least 2 and whole, got 1": lambda: ks.Collocation(
            ball(0.5), ks.Phases([ks.Phase(nodes=1)])
        ),
        "has neither at_start": lambda: ks.Collocation(
            ball(0.5), ks.Phases([phase], start=[y - 1])
        ),
        r"link 0, y\(t\), has neither at_start": lambda: ks.Collocation(
            ball(0.5), ks.Phases([phase, phase], links=[y])
        ),
        "unknown: k is unknown": lambda: ks.Collocation(
            ball(0.5), ks.Phases([phase]), unknown={"k": None}
        ),
    }.items():
        with pytest.raises(ValueError, match=words):
            make()


def test_contacts_hit_together_bounce_alike():
    """A simulation takes the least restitution of all; phases refuse to choose."""
    z, w, n = (ks.dynamicsymbols(f"{k}1 {k}2") for k in "zwn")
    equations = [
        *(a.diff(ks.t) - b for a, b in zip(z, w, strict=True)),
        *(b.diff(ks.t) + 9.81 - f for b, f in zip(w, n, strict=True)),
    ]
    model = ks.Model("two", [*z, *w], n, [], equations)
    hybrid = kh.Hybrid(
        model,
        contacts=[
            kh.Contact(name, z[k], n[k], restitution=0.8 - 0.6 * k) for k, name in enumerate("ab")
        ],
    )
    both = ks.Phase(nodes=5, hits=("a", "b"))
    with pytest.raises(ValueError, match=r"hit together need the same restitution, got 0\.2"):
        ks.Collocation(hybrid, ks.Phases([ks.Phase(nodes=5), both]))
    ks.Collocation(hybrid, ks.Phases([ks.Phase(nodes=5), ks.Phase(nodes=5, hits=("a",))]))


def test_contacts_of_a_collocation():
    """A problem with contacts has forces that are free, and flags."""
    hybrid = ball(0.5)

    def problem(inputs, free):
        trial = ks.Experiment(np.linspace(0.0, 1.0, 5), inputs=inputs)
        cost, contacts = ks.Integral(y**2), hybrid.contacts
        scheme = SCHEMES["trapezoid"]
        return symbolic_problem(hybrid.model, [trial], {}, free, scheme, cost, contacts)

    flags = {f"{what}_floor": np.zeros(5) for what in ("closed", "hit")}
    with pytest.raises(ValueError, match="closed_floor"):
        problem({}, {"lam": None})
    with pytest.raises(ValueError, match="contact force lam must be an unknown input"):
        problem({**flags, lam: np.zeros(5)}, {})
    assert problem(flags, {"lam": None}).contacts == hybrid.contacts


def test_systems_and_their_phases():
    """A Hybrid has phases whose contacts are named, a Model experiments."""
    trial = ks.Experiment(np.linspace(0.0, 1.0, 5))
    for trials in (trial, [trial], ks.Phases([trial])):
        with pytest.raises(ValueError, match=r"which contacts of ball press .* ks\.Phases\(\[ks"):
            ks.Collocation(ball(0.5), trials)
    with pytest.raises(
        ValueError, match=r"kinesym\.hybrid\.Hybrid, got <model ball.* are ks\.Exper"
    ):
        ks.Collocation(ball(0.5).model, ks.Phases([ks.Phase()]))
    with pytest.raises(ValueError, match=r"list of Phase.* or of Experiment.* for a Model"):
        ks.Phases([trial, ks.Phase()])


def test_phases_of_a_model():
    """Conditions at the start of the first and the end of the last trial: a ball thrown up, which
    two trials of given duration follow."""
    trials = [ks.Experiment(np.linspace(0.0, T, 9), inputs={}) for T in (0.2, 0.3)]
    model = free_ball().model
    links = [ks.at_start(q) - ks.at_end(q) for q in model.states]
    ends = {"start": [ks.at_start(y)], "end": [(ks.at_end(y), 0.0, 0.0)]}
    cost = ks.Integral(v**2)
    solution = ks.Collocation(model, ks.Phases(trials, links, **ends), objective=cost).solve()
    whole = solution.joined()
    np.testing.assert_allclose(whole.time[[0, 8, 9, -1]], [0.0, 0.2, 0.2, 0.5], rtol=1e-15)
    np.testing.assert_allclose(whole["v"], 9.81 * (0.25 - whole.time), atol=1e-7)


# -- where contacts are held ----------------------------------------------------------------------


@cache
def pole():
    """A rod of 1 m whose foot sticks, by its middle and its angle to the vertical."""
    x, z, a, vx, vz, w, N, F = ks.dynamicsymbols("x z a vx vz w N F")
    lever = [sp.sin(a) / 2, sp.cos(a) / 2]  # from the foot to the middle
    equations = [
        *(q.diff(ks.t) - s for q, s in ((x, vx), (z, vz), (a, w))),
        vx.diff(ks.t) - F,
        vz.diff(ks.t) + 9.81 - N,
        w.diff(ks.t) / 12 - N * lever[0] + F * lever[1],
    ]
    foot = {"height": z - lever[1], "place": x - lever[0]}
    model = ks.Model("pole", [x, z, a, vx, vz, w], [N, F], [], equations, outputs=foot)
    contact = kh.Contact("foot", foot["height"], N, "stick", foot["place"], F)
    return kh.Hybrid(model, contacts=[contact])


@every_kind
def test_a_foot_that_stands_stays_where_it_is(scheme):
    """A pole that falls over about its foot, by few nodes: the time of the pendulum, by an
    integral, and a foot that neither rises nor slides."""
    hybrid = pole()
    s = dict(zip(hybrid.model.state_names, hybrid.model.states, strict=True))
    phase = ks.Phase(("foot",), (0.1, 3.0), 13)
    first, last = 0.3, 1.2
    start = [ks.at_start(s["a"]) - first, ks.at_start(s["w"]), ks.at_start(s["x"])]
    task = ks.Collocation(
        hybrid, ks.Phases([phase], start=start, end=[ks.at_end(s["a"]) - last]), scheme=scheme
    )
    guess = {"a": np.linspace(first, last, 13), "N": 5.0, "duration": [0.8]}
    found = task.solve(guess, progress=False)
    rate = lambda a: 1 / np.sqrt(3 * 9.81 * (np.cos(first) - np.cos(a)))  # noqa: E731
    exact = quad(lambda r: 2 * r * rate(first + r * r), 0.0, np.sqrt(last - first))[0]
    order = {"trapezoid": 2e-2, "radau-3": 2e-3}.get(scheme, 5e-5)
    assert durations(found)[0] == pytest.approx(exact, rel=order)
    run = found.trials[0]
    np.testing.assert_allclose(run["height"], 0.0, atol=1e-9)
    np.testing.assert_allclose(run["place"], run["place"][0], atol=1e-9)
    assert "closed ones stay in place at all nodes" in str(found)
    assert not any("hold" in note for note in found.notes)


@every_kind
def test_the_error_of_a_grid_leaves_closed_points_on_the_ground(scheme):
    """A rod that a torque turns over its foot, from rest to rest, with the least squares: as by
    SciPy for the pendulum. Inputs that are free alone would lift the foot, and gain by it."""
    x, z, a, vx, vz, w, N, F, M = ks.dynamicsymbols("x z a vx vz w N F M")
    lever = [sp.sin(a) / 2, sp.cos(a) / 2]
    turns = w.diff(ks.t) / 10 - N * lever[0] + F * lever[1] - M
    rates = [q.diff(ks.t) - s for q, s in ((x, vx), (z, vz), (a, w))]
    rates += [vx.diff(ks.t) - F, vz.diff(ks.t) + 9.81 - N, turns]
    rod = ks.Model("rod", [x, z, a, vx, vz, w], [N, F, M], [], rates)
    foot = kh.Contact("foot", z - lever[1], N, "stick", x - lever[0], F)
    start = [ks.at_start(x), ks.at_start(a) + 0.5, ks.at_start(w)]
    end = [ks.at_end(a) - 0.5, ks.at_end(w)]
    task = ks.Collocation(
        kh.Hybrid(rod, contacts=[foot]),
        ks.Phases([ks.Phase(("foot",), (0.5, 0.5), 21)], start=start, end=end),
        objective=ks.Integral(M**2),
        unknown_inputs={M: None},
        scheme=scheme,
    )
    turned = np.linspace(-0.5, 0.5, 21)
    found = task.solve({"a": turned, "z": 0.45, "x": 0.5 * (turned + 0.5), "N": 9.8})
    least = 21.025163511555622
    assert found.success and found.objective == pytest.approx(least, rel=0.02)
    [error] = found.grid
    assert abs(error.objective) < 0.03 * least
