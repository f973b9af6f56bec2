"""What is known of parameters that a record does not tell apart: as which combination."""

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.runtime.statistics import factors
from kinesym.runtime.statistics.exchange import Exchange, known_as

t = ks.t
x, v = ks.dynamicsymbols("x v")
k, m, c, a, b = sp.symbols("k m c a b")
TIME = np.linspace(0.0, 3.0, 31)
NOISE = 0.02 * np.random.default_rng(0).standard_normal(31)
PLAIN = ks.Model("plain", [x, v], [], [], [x.diff(t) - v, v.diff(t) + 20 * x + 0.4 * v])
RUN = ks.simulate(PLAIN, TIME, {x: 1.0, v: 0.0}, substeps=10)
TRIAL = ks.Experiment(TIME, measurements={x: RUN["x"] + NOISE})


def fitted(way, equation, unknown, guess):
    model = ks.Model("m", [x, v], [], list(unknown), [x.diff(t) - v, equation])
    if way == "collocation":
        return ks.Collocation(model, TRIAL, unknown, scheme="radau-5").solve(guess)
    shooting = ks.Shooting(model, TRIAL, unknown, initial={x: None, v: None}, substeps=10)
    return shooting.solve(guess, optimizer="least-squares")


@pytest.mark.parametrize("way", ["collocation", "shooting"])
@pytest.mark.parametrize(
    "equation, unknown, guess, only",
    [
        (m * v.diff(t) + k * x + c * v, (k, m, c), (1500.0, 80.0, 30.0), "k/c and m/c"),
        (m * v.diff(t) + k * x + c * v, (k, m, c), (2e-5, 1e-6, 3e-7), "k/c and m/c"),
        (v.diff(t) + a * b * x + c * v, (a, b, c), (4.0, 4.0, 0.3), "a*b"),
        (v.diff(t) + a**2 * b * x + c * v, (a, b, c), (2.0, 4.0, 0.3), "a^2*b"),
        (v.diff(t) + (a + b) * x + c * v, (a, b, c), (9.0, 9.0, 0.3), "a + b"),  # equal at first
        (v.diff(t) + (a - 2 * b) * x + c * v, (a, b, c), (30.0, 5.0, 0.3), "a - 2*b"),
    ],
)
def test_combinations_in_words(way, equation, unknown, guess, only):
    bounds = {p: (0.0, 10.0 * start) for p, start in zip(unknown, guess, strict=True)}
    fit = fitted(way, equation, bounds, dict(zip(unknown, guess, strict=True)))
    table = fit.parameters.table
    lost = [name for name, row in table.items() if np.isnan(row.standard_error)]
    assert {table[name].remark for name in lost} == {f"known only as {only}"}
    assert f"only as {only}; fix one of them" in str(fit)
    if "k" not in only:
        assert table["c"].standard_error > 0.0 and not table["c"].remark


@pytest.mark.parametrize("count", [2, 12])
def test_few_matrices_whatever_the_number_of_parameters(count, monkeypatch):
    """Those of the solution, with the parameters held, relaxed, and with enough of them fixed."""
    made, plain = [], factors.Factorisation

    def factorisation(*places, **more):
        made.append(plain(*places, **more))
        return made[-1]

    monkeypatch.setattr(factors, "Factorisation", factorisation)
    alike = sp.symbols(f"p0:{count}")
    equations = [x.diff(t) - v, v.diff(t) + sum(alike) * x + 0.4 * v]
    model = ks.Model(f"alike_{count}", [x, v], [], alike, equations)
    trial = ks.Experiment(TIME, measurements=TRIAL.measurements, std={"x": 0.02})
    guess = {p: 20.0 / count + 0.01 * n for n, p in enumerate(alike)}
    fit = ks.Collocation(model, trial, dict.fromkeys(alike)).solve(guess)
    assert f"only as {' + '.join(p.name for p in alike[:2])}" in str(fit)
    assert len(made) <= 5


def test_a_combination_has_an_interval():
    """That of the model in which one of them is known."""
    equation = m * v.diff(t) + k * x + c * v
    guess = {k: 20.0, m: 1.0, c: 0.3}
    for way in ("collocation", "shooting"):
        fit = fitted(way, equation, dict.fromkeys(guess, (0.0, 99.0)), guess)
        found = fit.interval(k / m)
        known = fitted(way, v.diff(t) + k * x + c * v, {k: (0, 99), c: (0, 9)}, {k: 20.0, c: 0.3})
        expected = known.parameters.table["k"]
        assert found.value == pytest.approx(expected.value, rel=1e-5)
        error = expected.standard_error * np.sqrt(known.noise[0].freedom / fit.noise[0].freedom)
        assert found.standard_error == pytest.approx(error, rel=1e-3)


def exchange(names, values, directions, high=np.inf):
    values, directions = np.array(values), np.array(directions, dtype=float).T
    bounds = np.zeros(len(values)), np.full(len(values), high)
    return Exchange(names, values, directions, bounds)


def test_groups_and_what_says_nothing():
    """k/m, a*b and nothing of c, along directions that are mixed."""
    values = [2.0, 3.0, 5.0, 7.0, 11.0]
    ways = np.array([[2.0, 3.0, 0, 0, 0], [0, 0, 5.0, -7.0, 0], [0, 0, 0, 0, 1.0]])
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3))).Q

    def same(moved):
        return np.allclose([moved[0] / moved[1], moved[2] * moved[3]], [2.0 / 3.0, 35.0])

    every = exchange(["k", "m", "a", "b", "c"], values, turn @ ways)
    found = known_as(every, lambda which, moved: 0.0 if same(moved) else 1.0, 1.0, 0.0)
    assert [each.sentence for each in found] == [
        "c is not identifiable from this record; fix it",
        "k and m are not identifiable together, only as k/m; fix one of them",
        "a and b are not identifiable together, only as a*b; fix one of them",
    ]


def test_what_no_long_step_shows():
    """a exp(b) is no power and no sum: what goes with what, to first order."""
    every = exchange(["a", "b"], [2.0, 1.5], [[2.0, -1.0]])
    [found] = known_as(every, lambda which, moved: np.inf, 1.0, 0.0)
    assert not found.exact and found.remarks == dict.fromkeys(["a", "b"], "not identifiable")
    assert "1 a with -0.5 b can be exchanged" in found.sentence


def test_bounds_leave_no_long_step():
    asked = []
    tight = exchange(["a", "b"], [2.0, 3.0], [[2.0, 3.0]], high=3.0)
    tight.bounds[0][:] = [2.0, 3.0]
    known_as(tight, lambda which, moved: asked.append(moved) or 0.0, 1.0, 0.0)
    assert not asked
