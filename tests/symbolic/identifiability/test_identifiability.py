"""What can be known of a model, against published functions and models made to be known."""

import numpy as np
import pytest
import sympy as sp
from known_answers import HIDDEN, KNOWN
from known_functions import OF_PARAMETERS, OF_STATES, read
from scipy.integrate import solve_ivp

import kinesym as ks
from kinesym.symbolic.prime_field import rank

t = ks.t
x, v, w, z, F = ks.dynamicsymbols("x v w z F")
m, k, c, J, L, g = sp.symbols("m k c J L g")
oscillator = ks.Model(
    "oscillator", [x, v], [F], [m, k, c], [x.diff(t) - v, m * v.diff(t) + c * v + k * x - F]
)
pendulum = ks.Model(
    "pendulum",
    [x, v],
    [F],
    [J, m, L, g],
    [x.diff(t) - v, (J + m * L**2) * v.diff(t) + m * g * L * sp.sin(x) - F],
)

#: Models whose combinations take long.
LONG = {
    *("three from the end", "bacteria under stress", "four compartments", "EAIHRD", "constants"),
    *("SEUIR", "Akt pathway", "nonlinear exchange"),
}


@pytest.mark.parametrize(
    ("text", "states"),
    [
        pytest.param(text, states, id=name, marks=[pytest.mark.study] * (name in LONG))
        for states, table in enumerate((OF_PARAMETERS, OF_STATES))
        for name, text in table.items()
    ],
)
def test_published_functions_are_all_that_can_be_known(text, states):
    model, measured, functions = read(text)
    verdict = model.identifiability(measured)
    assert all(map(verdict.__getitem__, functions))
    symbols = [*model.parameters, *model.states]
    point = dict(
        zip(symbols, np.random.default_rng(3).uniform(0.5, 1.5, len(symbols)), strict=True)
    )
    slopes = [[float(f.diff(s).subs(point)) for s in symbols] for f in functions]
    independent = np.linalg.matrix_rank(np.reshape(slopes, (-1, len(symbols))), 1e-9)
    n = len(model.parameters) + len(model.states) * states
    silent = verdict.silent
    assert independent == n - rank(silent.basis[:, :n], silent.p)
    assert all(map(verdict.__getitem__, verdict.combinations))
    assert all(group.complete for group in verdict.groups)
    assert verdict.chance < 1e-6


@pytest.mark.parametrize("row", [*((*row, "") for row in KNOWN), *HIDDEN], ids=lambda row: row[0])
def test_constructed_models(row):
    rates, outputs, inputs, hidden = row
    model, measured, _ = read((rates, outputs, inputs.replace("?", ""), ""))
    unknown = [name[:-1] for name in inputs.split() if name.endswith("?")]
    verdict = model.identifiability(measured, unknown_inputs=unknown)
    found = {name for name, known in {**verdict.parameters, **verdict.starts}.items() if not known}
    assert found == set(hidden.split())


def test_words_and_combinations():
    verdict = pendulum.identifiability(["x"])
    assert set(verdict.combinations) == {m * g * L, J + m * L**2}
    assert not verdict.identifiable and verdict.observable
    assert verdict["x"] and not verdict[m] and verdict[m * g * L / (J + m * L**2)]
    assert not verdict[m * L]
    assert str(verdict).splitlines()[:3] == [
        "identifiability of pendulum: measured x, inputs F known",
        "  J  only in J + L**2*m",
        "  m  only in L*g*m and J + L**2*m",
    ]
    free = oscillator.substitute({F: 0}, inputs=[]).identifiability([x])
    assert set(free.combinations) == {m / k, m / c} and free.summary in repr(free)
    assert pendulum.identifiability([x], unknown=[J, m]).identifiable


def test_inputs_that_are_unknown():
    hidden = oscillator.identifiability(["x"], unknown_inputs=[F])
    assert not any(hidden.parameters.values()) and hidden.observable
    also = oscillator.identifiability(["x", F], known_inputs=[], unknown_inputs=[F])
    assert also.identifiable


def test_starts_that_are_known():
    a, b = sp.symbols("a b")
    chain = ks.Model("chain", [x, v], [], [a, b], [x.diff(t) - a * v, v.diff(t) - b * x])
    assert set(chain.identifiability([x]).combinations) == {a * b, a * v.func(0)}
    assert chain.identifiability([x], starts="known").identifiable
    assert chain.identifiability([x], starts={x: 0, v: 1}).identifiable
    assert chain.identifiability([x], starts={v: a}).identifiable
    still = chain.identifiability([x], starts={x: 0, v: 0})
    assert not any(still.parameters.values())
    late = ks.Model("late", [x, v, w], [], [a], [x.diff(t) - v**2, v.diff(t) - w**2, w.diff(t) - a])
    assert late.identifiability([x], starts={x: 0, v: 0, w: 0}).identifiable  # at order 7


def test_constraints():
    """A pendulum in Cartesian coordinates, of index 3."""
    rod = ks.models.cartesian_pendulum()
    verdict = rod.identifiability(["x"])
    assert verdict.parameters == {"m": False, "L": True, "g": True} and verdict.observable
    assert rod.identifiability(["x", "tension"]).identifiable


@pytest.mark.parametrize("n", [3, pytest.param(10, marks=pytest.mark.study)])
def test_many_links(n):
    """Masses of links by their ratios, where the force on the cart is unknown."""
    chain = ks.models.n_link_pendulum_on_cart(n)
    verdict = chain.identifiability([f"q_{j}" for j in range(n + 1)], unknown_inputs=["F"])
    masses = [f"m_{j}" for j in range(n + 1)]
    assert [p for p, known in verdict.parameters.items() if not known] == masses
    ratios = {sp.Symbol("m_1") / sp.Symbol(f"m_{j}") for j in range(2, n + 1)}
    assert set(verdict.combinations) == ratios and verdict.chance < 1e-6


def test_standing_is_known_but_for_its_bodies():
    standing = ks.models.standing()
    verdict = standing.identifiability(["theta_a", "theta_h", "T_a", "T_h"])
    hidden = {p for p, known in verdict.parameters.items() if not known}
    assert hidden == {"d_L", "m_L", "I_L", "d_T", "m_T", "I_T"} and len(verdict.combinations) == 4


def test_phases_of_a_hopper():
    """The spring acts in stance alone, and weight is all there is in flight."""
    y, stance = ks.dynamicsymbols("y stance")
    weight = m * v.diff(t) + m * g - stance * k * (L - y)
    hop = ks.Model("hopper", [y, v], [stance], [m, g, k, L], [y.diff(t) - v, weight])
    events = [ks.hybrid.Event("down", y - L, -1, sets={stance: 1})]
    hopper = ks.hybrid.Hybrid(hop, {stance: 0}, events)
    flight, down = hopper.identifiability([y]), hopper.identifiability([y], [{stance: 1}])
    assert flight.parameters == {"m": False, "g": True}
    assert set(down.combinations) == {m / k, sp.together(g - k * L / m)}
    both = hopper.identifiability([y], [{}, {stance: 1}])
    assert both.combinations == (m / k,) and both["L"] and both["g"]
    with pytest.raises(ValueError, match="z is unknown; known are: stance"):
        hopper.identifiability([y], [{"z": 1}])


def test_force_of_a_closed_contact():
    """Nothing moves in a closed contact, but its force is the weight."""
    y = ks.dynamicsymbols("y")
    fall = m * v.diff(t) + m * g + c * v - F
    ball = ks.Model("ball", [y, v], [F], [m, g, c], [y.diff(t) - v, fall])
    system = ks.hybrid.Hybrid(ball, contacts=[ks.hybrid.Contact("ground", y, F)])
    assert system.identifiability([y]).combinations == (m / c,)
    assert system.identifiability([y, F], [{"ground": True}]).combinations == (g * m,)
    assert system.identifiability([y, F], [{}, {"ground": True}]).identifiable


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"measured": []}, "nothing is measured"),
        ({"measured": "x"}, "measured must be a list"),
        ({"measured": ["y"]}, "y is no output or state of the model"),
        ({"measured": [z]}, "contains z"),
        ({"measured": [sp.Abs(x)]}, r"holds Abs\(x\), which has pieces"),
        ({"measured": [sp.gamma(x)]}, "function without an equation"),
        ({"measured": [ks.table(x, [0, 1], [0, 1], "linear")]}, "function without an equation"),
        ({"measured": [x], "unknown_inputs": ["u"]}, "the model has no input u"),
        ({"measured": [x], "known_inputs": []}, "input F is in neither"),
        ({"measured": [x], "starts": {"y": 0}}, "y is unknown"),
        ({"measured": [x], "starts": {x: "free"}}, "must be a number"),
        ({"measured": [x], "starts": {x: v}}, "which is no parameter"),
        ({"measured": [x], "unknown": ["q"]}, "the model has no parameter q"),
        ({"measured": [ks.delayed(x, 0.1)]}, "is delayed"),
    ],
)
def test_told_what_cannot_be_asked(arguments, message):
    with pytest.raises(ValueError, match=message):
        oscillator.identifiability(**arguments)


def test_told_of_delays_and_of_unknown_names():
    late = oscillator.substitute({F: -ks.delayed(x, 0.1)}, inputs=[])
    with pytest.raises(ValueError, match="holds the delay"):
        late.identifiability([x])
    verdict = oscillator.identifiability([x])
    for key in ("q", sp.Symbol("q") * m):
        with pytest.raises(ValueError, match="q is no"):
            verdict[key]


def simulated_rank(model, measured, seed):
    """Rank of the sensitivities of simulated outputs at a point, by complex steps."""
    draw = np.random.default_rng(seed)
    inputs = {
        u: sum(draw.uniform(0.5, 1.5) * sp.sin((3 * j + 1) * t) for j in range(3))
        for u in model.inputs
    }
    constants = [*model.parameters, *model.states]
    rates = [(-e.subs({r: 0 for r in model.derivatives})).subs(inputs) for e in model.equations]
    rate = sp.lambdify((t, *constants), rates, "scipy")
    shown = sp.lambdify((t, *constants), [e.subs(inputs) for e in measured], "scipy")
    point, n = draw.uniform(0.4, 0.8, len(constants)), len(model.parameters)
    times, columns = np.linspace(0.0, 0.1, 30), []
    for k in range(len(constants)):
        at = point + 1e-30j * (np.arange(len(constants)) == k)
        run = solve_ivp(
            lambda s, y, p=at[:n]: np.array(rate(s, *p, *y), dtype=complex),
            (0.0, 0.1), at[n:], method="DOP853", t_eval=times, rtol=1e-12, atol=1e-14,
        )  # fmt: skip
        rows = [shown(s, *at[:n], *y) for s, y in zip(run.t, run.y.T, strict=True)]
        columns.append(np.imag(rows).ravel() / 1e-30)
    matrix = np.array(columns).T
    sizes = np.linalg.norm(matrix, axis=0)
    values = np.linalg.svd(matrix / np.where(sizes > 1e-12, sizes, 1.0), compute_uv=False)
    return int((values > 1e-9 * max(values[0], 1e-300)).sum())


@pytest.mark.study
@pytest.mark.parametrize("row", [*((*row, "") for row in KNOWN), *HIDDEN], ids=lambda row: row[0])
def test_ranks_of_simulated_sensitivities(row):
    """At three points; models whose inputs are unknown have no simulation."""
    rates, outputs, inputs, _ = row
    if "?" in inputs:
        return
    model, measured, _ = read((rates, outputs, inputs, ""))
    silent = model.identifiability(measured).silent
    ranks = {simulated_rank(model, measured, seed) for seed in range(3)}
    assert ranks == {silent.basis.shape[1] - len(silent.basis)}
