"""One motion through phases of several models, against closed forms."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
import sympy as sp

import kinesym as ks

x, v, u, m, h = ks.dynamicsymbols("x v u m h")
c, exhaust, g, rate = sp.symbols("c exhaust g rate")
ice = ks.Model("ice", [x, v], [u], [], [x.diff(ks.t) - v, v.diff(ks.t) - u])
sand = ks.Model("sand", [x, v], [u], [c], [x.diff(ks.t) - v, v.diff(ks.t) - u + c], values={c: 0.5})
equations = [h.diff(ks.t) - v, v.diff(ks.t) - exhaust * rate / m + g, m.diff(ks.t) + rate]
first, second = (
    ks.Model(
        name,
        [h, v, m],
        [],
        [exhaust, rate, g],
        equations,
        {"thrust": exhaust * rate},
        values={exhaust: speed, rate: flow, g: 9.81},
    )
    for name, speed, flow in (("first", 2500.0, 20.0), ("second", 3000.0, 5.0))
)
fall = [h.diff(ks.t) - v, v.diff(ks.t) + g]
coast = ks.Model("coast", [h, v], [], [g], fall, {"energy": v**2 / 2 + g * h}, values={g: 9.81})
REST = [ks.at_start(x), ks.at_start(v)], [ks.at_end(x) - 1, ks.at_end(v)]


def phase(nodes=11, duration=(0.01, 100.0), **more):
    return ks.Experiment(nodes=nodes, duration=duration, **more)


def driven(models, phases, **more):
    given = {"objective": ks.Terminal(ks.t), "unknown_inputs": {u: (-1, 1)}, **more}
    return ks.Collocation(models, phases, **given)


@pytest.mark.parametrize("scheme", ["radau-3", "midpoint", "hermite-simpson"])
def test_from_ice_to_sand(scheme):
    """As fast as possible from rest to rest over 1 m with |u| <= 1, sand with friction 1/2 from the
    middle on: full speed until 5/8, then brake, 2 sqrt(2) - 1 in all."""
    start, end = REST
    sequence = [phase(), phase(bounds={u: (1, 1)}), phase(bounds={u: (-1, -1)})]
    way = ks.Phases(sequence, joints=[[ks.at_end(x) - 0.5], []], start=start, end=end)
    solution = driven([ice, sand, sand], way, scheme=scheme).solve({"duration": 0.6, v: 0.5})
    assert solution.success
    times = [trial.time[-1] for trial in solution.trials]
    top = np.sqrt(9 / 8)
    np.testing.assert_allclose(times, [1.0, 2 * (top - 1), top / 1.5], rtol=3e-6)
    np.testing.assert_allclose(solution.objective, 2 * np.sqrt(2) - 1, rtol=1e-7)
    np.testing.assert_allclose(solution.trials[2]["u"][1:-1], -1.0, atol=1e-5)


def test_staging():
    """Two stages burn one after the other, the shell of the first is dropped; then coasting without
    a mass, as far as that goes. Tsiolkovsky's equation with gravity."""
    way = ks.Phases(
        [phase(31), phase(31), phase(5, (1, 2000))],
        maps=[{m: m - 80.0}, {}],
        start=[ks.at_start(h), ks.at_start(v), ks.at_start(m) - 1000.0],
        joints=[[ks.at_end(m) - 300.0], [ks.at_end(m) - 50.0]],
        end=[ks.at_end(v)],
    )
    problem = ks.Collocation(
        [first, second, coast], way, objective=ks.Integral(0), scheme="radau-5"
    )
    solution = problem.solve({"duration": [40.0, 40.0, 500.0], m: 300.0})
    assert solution.success
    T1, T2 = 700.0 / 20.0, 170.0 / 5.0

    def burnt(speed, before, after, rate, T):
        """Gains of height, beside that by the speed at the start, and of speed."""
        logs = np.log(before / after)
        gain = speed * T - speed * after / rate * logs - 9.81 * T**2 / 2
        return gain, speed * logs - 9.81 * T

    (h1, v1), (h2, v2) = (
        burnt(2500.0, 1000.0, 300.0, 20.0, T1),
        burnt(3000.0, 220.0, 50.0, 5.0, T2),
    )
    burn, later, free = solution.trials
    np.testing.assert_allclose(burn.time[-1], T1, rtol=1e-9)
    np.testing.assert_allclose(later["m"][[0, -1]], [220.0, 50.0], rtol=1e-9)
    np.testing.assert_allclose(later["v"][-1], v1 + v2, rtol=1e-6)
    top = h1 + v1 * T2 + h2 + (v1 + v2) ** 2 / (2 * 9.81)
    np.testing.assert_allclose(free["h"][-1], top, rtol=1e-6)
    assert np.isnan(free["m"]).all() and np.isnan(free["thrust"]).all()
    np.testing.assert_allclose(free["energy"], 9.81 * top, rtol=1e-6)
    np.testing.assert_allclose([burn["thrust"][3], later["thrust"][3]], [5e4, 1.5e4])
    assert later.parameters["exhaust"] == 3000.0 and np.isnan(burn["energy"]).all()
    whole = solution.joined()
    assert solution.grid_error().largest < 1e-6 and problem.solve(guess=solution).iterations <= 2
    assert problem.verify(solution).largest < 1e-6
    assert len(whole.time) == 67 and np.isclose(whole.time[-1], T1 + T2 + free.time[-1])


def test_states_appear_by_maps():
    """A stone falls, and burns from 100 m/s on, with a mass of 10 kg times an unknown factor, so
    long that it rests: of 10/exp(...)."""
    k = sp.Symbol("k")
    way = ks.Phases(
        [phase(5), phase(41)],
        maps=[{m: 10.0 * k + v / 100 + 1, v: v}],
        start=[ks.at_start(h) - 2000.0, ks.at_start(v)],
        joints=[[ks.at_end(v) + 100.0]],
        end=[ks.at_end(m) - 5.0, ks.at_end(v), (ks.at_end(h), 0, None)],
    )
    heavier = second.extended(parameters=[k])
    problem = ks.Collocation([coast, heavier], way, {k: (0.1, 10.0)}, objective=ks.Integral(0))
    solution = problem.solve({"duration": [10.0, 2.0], m: 8.0, k: 1.0})
    assert solution.success
    mass = 10.0 * solution.parameters["k"]
    T = (mass - 5.0) / 5.0
    np.testing.assert_allclose(solution.trials[1]["m"][0], mass, rtol=1e-9)
    np.testing.assert_allclose(3000.0 * np.log(mass / 5.0) - 9.81 * T, 100.0, rtol=1e-6)
    assert np.isnan(solution["m"]).all()


def test_objectives_and_conditions_of_phases():
    """Effort counts on sand only: there as little as can be, on ice full speed. What is asked of
    inputs that a phase lacks is not asked there."""
    start, _ = REST
    w = ks.dynamicsymbols("w")
    pulled = ks.Model("pulled", [x, v], [w], [], [x.diff(ks.t) - v, v.diff(ks.t) - w])
    way = ks.Phases(
        [phase(duration=(1.0, 1.0)), phase(duration=(2.0, 2.0))],
        start=start,
        end=[ks.at_end(x), ks.at_end(v)],
    )
    aims = [ks.Integral(u**2), ks.Integral(w**2) + ks.Terminal(0 * x)]
    given = {"unknown_inputs": {u: None, w: (-9, 9)}, "scheme": "radau-5"}
    problem = driven([ice, pulled], way, objective=aims, path=[u - 1 >= 0], **given)
    solution = problem.solve()
    assert solution.success
    # u = 1 for 1 s, to x = 1/2, v = 1; back to rest at 0 in 2 s
    np.testing.assert_allclose(solution.trials[0]["u"], 1.0, rtol=1e-6)
    effort = 12 * 0.5**2 / 8 + 12 * 0.5 * 1.0 / 4 + 4 * 1.0 / 2
    np.testing.assert_allclose(solution.objective, 1.0 + effort, rtol=1e-6)
    assert np.isnan(solution.trials[1]["u"]).all() and np.isnan(solution["w"]).all()


def test_models_with_constraints_and_intermediates():
    """A bob on a rod swings down from the side, is let go at the bottom, and falls: with Cartesian
    coordinates, the force of the rod an algebraic state that the fall lacks. Symbols of
    intermediates may stand for something else in each model."""
    y, w, pull = ks.dynamicsymbols("y w pull")
    s = sp.Symbol("s")
    moving = [x.diff(ks.t) - v, y.diff(ks.t) - w]
    rod = ks.Model(
        "rod",
        [x, y, v, w, pull],
        [],
        [],
        [*moving, v.diff(ks.t) + pull * x, w.diff(ks.t) + s, x**2 + y**2 - 1],
        intermediates=[(s, pull * y + 9.81)],
    )
    free = [*moving, v.diff(ks.t), w.diff(ks.t) + s]
    flight = ks.Model("flight", [x, y, v, w], [], [], free, intermediates=[(s, sp.Float(9.81))])
    way = ks.Phases(
        [phase(31, (0.3, 1.0)), phase(7, (0.05, 2.0))],
        start=[ks.at_start(x) - 1, ks.at_start(w)],
        joints=[[ks.at_end(x)]],
        end=[ks.at_end(y) + 2],
    )
    problem = ks.Collocation([rod, flight], way, objective=ks.Integral(0), scheme="radau-5")
    share = np.linspace(0, 1, 31) * np.pi / 2
    guess = {x: [np.cos(share), np.zeros(7)], y: [-np.sin(share), np.full(7, -1.5)]}
    solution = problem.solve({**guess, pull: 9.0, v: -3.0, "duration": [0.6, 0.4]})
    assert solution.success
    swing, fall = solution.trials
    np.testing.assert_allclose(swing["pull"][-1], 3 * 9.81, rtol=1e-4)
    np.testing.assert_allclose(fall["v"], -np.sqrt(2 * 9.81), rtol=1e-4)
    np.testing.assert_allclose(fall.time[-1], np.sqrt(2 / 9.81), rtol=1e-4)
    assert np.isnan(fall["pull"]).all() and not np.isnan(swing["pull"]).any()


def test_known_inputs_and_costs_of_absolute_values():
    """A wind that only the second phase has blows 0.6 m/s away, which thrust must bring back: there
    alone if it costs twice as much before."""
    wind = ks.dynamicsymbols("wind")
    windy = ks.Model("windy", [x, v], [u, wind], [], [x.diff(ks.t) - v, v.diff(ks.t) - u - wind])
    blows = np.linspace(-0.6, 0.0, 11)
    way = ks.Phases(
        [phase(6, (1, 1)), phase(11, (2, 2), inputs={wind: blows})],
        start=[ks.at_start(x), ks.at_start(v)],
        end=[ks.at_end(v)],
    )
    aims = [2.0 * ks.l1(u), ks.l1(u)]
    solution = driven([ice, windy], way, objective=aims, scheme="midpoint").solve()
    np.testing.assert_allclose(solution.trials[0]["u"], 0.0, atol=1e-4)
    np.testing.assert_allclose(solution.objective, 0.6, rtol=1e-6)


def test_phases_of_one_model_continue():
    """Without links the states of phases of one model continue; a map resets one."""
    start, end = REST
    plain = ks.Phases([phase()] * 2, start=start, end=end)
    solution = driven(ice, plain, scheme="midpoint").solve({"duration": 1.0})
    np.testing.assert_allclose(solution.objective, 2.0, rtol=1e-7)
    jump = ks.Phases([phase()] * 2, maps=[{v: -v / 2, x: x}], start=start, end=[ks.at_end(x)])
    back = driven(ice, jump, boundary=[(ks.at_end(x), 0.0, 2.0)], scheme="midpoint")
    bounced = back.solve({"duration": 1.0, x: 0.3})
    before, after = bounced.trials
    np.testing.assert_allclose(after["v"][0], -0.5 * before["v"][-1], atol=1e-9)


@pytest.mark.parametrize(
    ("steps", "given", "exact"),
    [
        ([ks.Experiment(np.linspace(k, k + 1, 21)) for k in (0, 1)], {u: None}, 24.0),
        ([phase()] * 2, {u: (-1, 1)}, 4.0),
    ],
)
def test_a_cycle_of_one_model_continues(steps, given, exact):
    """A cycle ties the last phase to the first, and leaves the joint between as it is: to 1 and
    back from rest to rest, least effort in 1 s each and least time with |u| <= 1."""
    tied = {"start": [ks.at_start(x)], "cycle": [ks.periodic(x), ks.periodic(v)]}
    tied["joints"] = [[ks.at_end(x) - 1, ks.at_end(v)]]
    aim = ks.Terminal(ks.t) if steps[0].free_duration else ks.Integral(u**2)
    way = ks.Phases(steps, **tied)
    solution = driven(ice, way, objective=aim, unknown_inputs=given, scheme="radau-5").solve()
    before, after = solution.trials
    assert [before["x"][-1], after["x"][0]] == pytest.approx([1.0, 1.0], abs=1e-8)
    assert solution.objective == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("free", [False, True])
def test_terminal_costs_are_of_the_end_of_the_motion(free):
    """Far in 2 s with little effort: x' = v = 2 t - t^2/2, 8/3 from the start, in one trial and in
    phases; the parts of a list are those of its phases."""
    cuts = np.array([0.0, 0.7, 1.5, 2.0])
    steps = [
        phase(21, (b - a, b - a)) if free else ks.Experiment(np.linspace(a, b, 21))
        for a, b in pairwise(cuts)
    ]
    start = [ks.at_start(x) - 3, ks.at_start(v)]
    effort, way = ks.Integral(u**2) / 2, ks.Terminal(ks.at_start(x) - x)
    given = {"unknown_inputs": {u: None}, "scheme": "radau-5"}
    whole = driven(ice, ks.Phases(steps, start=start), objective=effort + way, **given)
    assert whole.solve().objective == pytest.approx(-4 / 3, rel=1e-9)
    goes_on = [ks.at_start(s) - ks.at_end(s) for s in (x, v)]
    linked = ks.Phases(steps, goes_on, start=start)
    for aims in (
        effort - ks.Terminal(x) + ks.Terminal(2 * ks.t),
        [effort + ks.Terminal(2 * (ks.t - ks.at_start(ks.t)))] * 2
        + [effort - ks.Terminal(x - 2 * (ks.t - ks.at_start(ks.t)))],
    ):
        found = driven(ice, linked, objective=aims, **given).solve()
        assert found.objective == pytest.approx(-4 / 3 - 3 + 4, rel=1e-9)
        assert found.trials[2]["x"][-1] == pytest.approx(3 + 8 / 3, rel=1e-9)


@pytest.mark.study
def test_launch_of_a_satellite():
    """Four phases of a Delta III, nine boosters burning six and three at a time, two stages: the
    most mass in a transfer orbit, 7529.712 kg at 924.139 s (Rao et al. 2010, Algorithm 902, ACM
    Transactions on Mathematical Software 37, 22, example "launch"). Units: radius of the Earth,
    speed of a circular orbit there, mass at launch."""
    mu, radius, spin, mass = 3.986012e14, 6378145.0, 7.29211585e-5, 301454.0
    speed = np.sqrt(mu / radius)
    second_, weight = radius / speed, mass * speed**2 / radius
    r, w, push = (sp.Matrix(ks.dynamicsymbols(f"{n}:3")) for n in ("r_", "w_", "push_"))
    T, flow, thin = sp.symbols("T flow thin")
    far, turn = sp.sqrt(r.dot(r)), spin * second_
    wind = w - sp.Matrix([-turn * r[1], turn * r[0], 0])
    thick = 0.5 * (0.5 * 4 * np.pi) * 1.225 * radius / mass
    drag = -thick * sp.exp((1 - far) * thin) * sp.sqrt(wind.dot(wind)) * wind
    rates = [*w, *((T * push + drag) / m - r / far**3), -flow]
    motion = [x.diff(ks.t) - rate for x, rate in zip([*r, *w, m], rates, strict=True)]
    models = [
        ks.Model(
            "launcher",
            [*r, *w, m],
            [*push],
            [T, flow, thin],
            motion,
            values={
                T: (boosters * 628500.0 + force) / weight,
                flow: (boosters * 17010 / 75.2 + lost) / mass * second_,
                thin: radius / 7200.0,
            },
        )
        for boosters, force, lost in (
            (6, 1083100.0, 95550 / 261),
            (3, 1083100.0, 95550 / 261),
            (0, 1083100.0, 95550 / 261),
            (0, 110094.0, 16820 / 700),
        )
    ]
    size, shape = 24361140.0 / radius, 0.7308
    tilt, node, argument = np.deg2rad([28.5, 269.8, 130.5])
    normal = [np.sin(tilt) * np.sin(node), -np.sin(tilt) * np.cos(node), np.cos(tilt)]
    cos, sin = np.cos(argument), np.sin(argument)
    nearest = [  # the way to the perigee
        cos * np.cos(node) - sin * np.sin(node) * np.cos(tilt),
        cos * np.sin(node) + sin * np.cos(node) * np.cos(tilt),
        sin * np.sin(tilt),
    ]
    spun = r.cross(w)
    bent = w.cross(spun) - r / far
    orbit = [spun[k] - np.sqrt(size * (1 - shape**2)) * normal[k] for k in range(3)]
    orbit += [bent[k] - shape * nearest[k] for k in (0, 2)]
    begin = [np.cos(tilt), 0.0, np.sin(tilt), 0.0, turn * np.cos(tilt), 0.0, 1.0]
    lengths, nodes = np.array([75.2, 75.2, 110.6]) / second_, [21, 21, 21, 41]
    last = phase(nodes[-1], (300 / second_, 700 / second_))
    way = ks.Phases(
        [*(phase(n, (T, T)) for n, T in zip(nodes, lengths, strict=False)), last],
        maps=[{m: m - shell / mass} for shell in (13680, 6840, 8830)],
        start=[ks.at_start(x) - value for x, value in zip([*r, *w, m], begin, strict=True)],
        end=[ks.at_end(e) for e in orbit],
    )
    problem = ks.Collocation(
        models,
        way,
        objective=[ks.Integral(0)] * 3 + [ks.Terminal(-m)],
        unknown_inputs=dict.fromkeys(push, (-1.1, 1.1)),
        path=[push.dot(push) - 1],
        bounds={m: (1e-3, 1), **dict.fromkeys([*r, *w], (-10, 10))},
        scheme="radau-5",
    )
    top = size * (1 - shape)
    there = [*(top * np.array(nearest)), *np.sqrt((1 + shape) / top) * np.cross(normal, nearest)]
    guess = {
        x: [np.full(n, (begin, there)[k > 1][j]) for k, n in enumerate(nodes)]
        for j, x in enumerate([*r, *w])
    }
    guess |= {
        push[j]: [np.full(n, float(j == (k > 1))) for k, n in enumerate(nodes)] for j in (0, 1)
    }
    spent = [(301454, 171863), (158184, 79623), (72783, 32294), (23464, 6644)]
    guess[m] = [np.linspace(*pair, n) / mass for pair, n in zip(spent, nodes, strict=True)]
    solution = problem.solve({**guess, "duration": [*lengths, 680 / second_]})
    assert solution.success
    np.testing.assert_allclose(-solution.objective * mass, 7529.712412, rtol=1e-6)
    total = sum(trial.time[-1] for trial in solution.trials) * second_
    np.testing.assert_allclose(total, 924.139, rtol=2e-6)
    assert solution.grid_error().largest < 1e-6


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: driven([ice, sand], ks.Phases([phase()])), "1 phases need one Model, or a list"),
        (lambda: driven([ice], phase()), "a list of models goes with ks.Phases"),
        (lambda: driven([ice, 3], ks.Phases([phase()] * 2)), "2 phases need"),
        (
            lambda: driven([ice, sand], ks.Phases([phase()] * 2, maps=[])),
            "there are 0 maps for 2 phases",
        ),
        (
            lambda: driven([coast, first], ks.Phases([phase()] * 2)),
            r"state m begins in phase 1; give its start in maps\[0\]",
        ),
        (
            lambda: driven([first, coast], ks.Phases([phase()] * 2, maps=[{m: m}])),
            "the map from phase 0 to 1: m is unknown",
        ),
        (
            lambda: driven([coast, first], ks.Phases([phase()] * 2, maps=[{m: m + 1}])),
            r"map of m in maps\[0\] contains m, which phase 0 does not have",
        ),
        (
            lambda: driven([ice, sand], ks.Phases([phase()] * 2, maps=[{x: ks.at_end(x)}])),
            "leave out at_end and at_start",
        ),
        (
            lambda: driven([coast, first], ks.Phases([phase()] * 2, start=[ks.at_start(m)])),
            "start condition 0 contains m, which phase 0 does not have",
        ),
        (
            lambda: driven([ice, sand], ks.Phases([phase()] * 2), objective=[ks.Terminal(x)]),
            "1 objectives for 2 phases",
        ),
        (
            lambda: driven([ice, sand], ks.Phases([phase()] * 2), objective=[ks.Terminal(x), 3]),
            "the objective of a phase is none: 3",
        ),
        (
            lambda: driven(
                [ice, sand], ks.Phases([phase()] * 2), objective=[ks.Terminal(x), ks.l1(u)]
            ),
            "stand in the objectives of all phases or of none",
        ),
        (
            lambda: driven(ice, ks.Phases([phase()] * 2), objective=ks.Terminal(x * ks.t)),
            "contains the time t, which counts from the start of each phase",
        ),
        (
            lambda: driven(
                ice, ks.Phases([phase()] * 2), objective=ks.Terminal(x * ks.at_start(v))
            ),
            "is of the start and of the end at once",
        ),
        (
            lambda: ks.Phases([phase()] * 2, joints=[[], []]),
            "conditions of 2 joints of 2 phases",
        ),
        (
            lambda: driven(
                [first, coast],
                ks.Phases([phase()] * 2),
                unknown={c: (1, 2)},
                unknown_inputs={},
                path=[ks.at(c, m - 3)],
            ),
            "condition at c contains m, which phase 1 does not have",
        ),
        (
            lambda: driven([ice, ice.with_rates(u)], ks.Phases([phase()] * 2)),
            "u is a state, an input or a parameter of one phase, and another",
        ),
        (
            lambda: driven(
                [ice, sand], ks.Phases([phase()] * 2), unknown_inputs={u: ks.continuous(-1, 1)}
            ),
            "nothing says how input u goes on from phase to phase",
        ),
    ],
)
def test_bad_input(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_joined_phases_keep_their_times():
    """Gaps of known times stay; phases that count from 0 each follow each other."""
    way = {"start": [ks.at_start(x)], "end": [ks.at_end(x) - 1]}
    for spans, exact in (
        ([(5, 6), (7, 9), (9, 10)], [5, 6, 7, 9, 9, 10]),
        ([(0, 1), (0, 2)], [0, 1, 1, 3]),
    ):
        steps = [ks.Experiment(np.linspace(*span, 5)) for span in spans]
        solution = driven(ice, ks.Phases(steps, **way), objective=ks.Integral(u**2)).solve()
        whole = solution.joined()
        np.testing.assert_allclose(whole.time.reshape(-1, 5)[:, [0, -1]].ravel(), exact)
        np.testing.assert_allclose(whole["x"], np.concatenate([p["x"] for p in solution.trials]))


def test_time_of_phases_of_unknown_duration():
    """It counts from the start of each phase, and a warning says so where that matters."""
    model = ks.Model("timed", [x], [], [], [x.diff(ks.t) - ks.t])
    plain = ks.Model("plain", [x], [], [], [x.diff(ks.t) - 1])
    free = [ks.Experiment(nodes=5, duration=(0.5, 2)) for _ in range(2)]
    known = [ks.Experiment(np.linspace(k, k + 1, 5)) for k in range(2)]
    aim = ks.Terminal(ks.t)

    def posed(model, steps, *end):
        phases = ks.Phases(steps, start=[ks.at_start(x)], end=[ks.at_end(x) - 2, *end])
        return ks.Collocation(model, phases, objective=aim if steps is free else ks.Integral(0 * x))

    words = "contains the time t, which counts from the start of each phase"
    with pytest.warns(UserWarning, match=f"equation 0 of timed {words}"):
        posed(model, free)
    with pytest.warns(UserWarning, match=f"a condition at the end {words}"):
        posed(plain, free, ks.at_end(ks.t) - 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert posed(plain, free).solve().joined().time[-1] == pytest.approx(2.0)
        posed(model, known)
