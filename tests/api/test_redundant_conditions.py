"""Conditions at ends that follow from others along every motion, and those that contradict them."""

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import kinesym as ks
from kinesym.internal.fitting.redundant import Bound, bound_together

t, start, end = ks.t, ks.at_start, ks.at_end
q = [ks.dynamicsymbols(f"q{k}") for k in range(4)]
w = [ks.dynamicsymbols(f"w{k}") for k in range(3)]
u = [ks.dynamicsymbols(f"u{k}") for k in range(3)]
X, Y, theta, omega = ks.dynamicsymbols("X Y theta omega")
ANGLE = np.pi / 3.0
TARGET = [np.cos(ANGLE), np.sin(ANGLE) / 2**0.5, np.sin(ANGLE) / 2**0.5, 0.0]


def body():
    """A rigid body, by unit quaternions."""
    (a, b, c, d), (x, y, z), (i, j, k) = q, w, (1.0, 1.7, 2.4)
    rates = [-b * x - c * y - d * z, a * x + c * z - d * y, a * y - b * z + d * x]
    rates.append(a * z + b * y - c * x)
    moments = [i * x.diff(t) - (j - k) * y * z - u[0], j * y.diff(t) - (k - i) * z * x - u[1]]
    moments.append(k * z.diff(t) - (i - j) * x * y - u[2])
    turns = [s.diff(t) - r / 2 for s, r in zip(q, rates, strict=True)]
    return ks.Model("body", [*q, *w], u, [], [*turns, *moments])


BODY = body()
LOTKA = ks.Model(
    "lotka",
    [X, Y],
    [],
    [],
    [X.diff(t) - (X - X * Y / 2), Y.diff(t) - (X * Y / 4 - 3 * Y / 4)],
)


def turned(given=(0, 1, 2, 3), scheme="radau-3", size=1.0, nodes=21, **more):
    """The body turned from rest to rest within 3 s, with these values of the end."""
    boundary = [start(q[0]) - 1, *(start(s) for s in (*q[1:], *w)), *(end(s) for s in w)]
    boundary += [end(q[k]) - size * TARGET[k] for k in given]
    return ks.Collocation(
        BODY,
        ks.Experiment(nodes=nodes, duration=(3.0, 3.0)),
        objective=ks.Integral(sum(s**2 for s in u)),
        unknown_inputs={s: (-5, 5) for s in u},
        boundary=boundary,
        scheme=scheme,
        **more,
    )


CASES = [("radau-3", 21), ("radau-1", 11), ("radau-5", 21)]


@pytest.mark.parametrize(
    ("scheme", "nodes"),
    [CASES[0], *(pytest.param(*case, marks=pytest.mark.study) for case in CASES[1:])],
)
def test_a_condition_that_follows_from_others_is_left_out(scheme, nodes):
    """Four values of a unit quaternion are as good as three; radau-5 solves them as they are, bent
    by the error of the grid."""
    four, three = (turned(given, scheme, nodes=nodes) for given in ((0, 1, 2, 3), (1, 2, 3)))
    found, known = four.solve(progress=False), three.solve(progress=False)
    assert found.success and known.success
    assert found.objective == pytest.approx(known.objective, rel=1e-6)
    (note,) = (n for n in found.notes if "left out" in n)
    assert "at_end(q0) - 0.5) follows from the other conditions along every motion" in note
    assert abs(found.trials[0]["q0"][-1] - 0.5) == pytest.approx(float(note.split()[-1]), rel=0.1)
    assert re_named(four.why(), "at_end(q0) - 0.5) follows from", "at_start(q0)", "at_end(q1)")
    assert (
        not any("follows" in n for n in known.notes)
        and not bound_together(three.problem, three.pack()).words
    )


def re_named(why, *words):
    return any(all(word in cause for word in words) for cause in why.causes)


def test_what_is_made_of_a_solution_with_less_conditions(tmp_path):
    task = turned()
    fine = task.solve(progress=False, tolerance_grid=1e-4)
    assert fine.success and fine.grid_error().largest < 1e-4
    assert fine.objective == pytest.approx(3.66008, rel=1e-4)
    fine.save(tmp_path / "fine.nc")
    loaded = ks.Solution.load(tmp_path / "fine.nc")
    assert task.verify(loaded).largest < 1e-4
    many = task.multistart(2, progress=False)
    assert np.isfinite(many.objective).all() and "left out" in many.best.notes[-1]


def test_conditions_that_contradict_what_is_conserved_are_not_left_out():
    task = turned(size=1.01)
    why = task.why()
    assert re_named(why, "at_end(q0) - 0.505) contradicts", "at_end(q1)", "conserved", "off by 0.0")
    found = task.solve(progress=False, max_iterations=60)
    assert not found.success and any("contradicts" in note for note in found.notes)


def test_orbits_close():
    """With the start given, both states are periodic after one period, that of SciPy; radau-3 and
    all others lose or gain a little."""
    fun = lambda _, y: [y[0] - y[0] * y[1] / 2, y[0] * y[1] / 4 - 0.75 * y[1]]  # noqa: E731
    exact = solve_ivp(fun, (0, 9), [4.0, 1.0], rtol=1e-11, atol=1e-11, dense_output=True)
    period = brentq(lambda s: exact.sol(s)[0] - 4.0, 7.0, 8.0)
    time = np.linspace(0, 7.5, 41)
    guess = {"X": exact.sol(time)[0], "Y": exact.sol(time)[1], "duration": 7.5}
    given = [start(X) - 4, start(Y) - 1]
    about = {"objective": ks.Integral(0 * X), "scheme": "gauss-4"}
    trial = ks.Experiment(nodes=41, duration=(4, 12))
    task = ks.Collocation(LOTKA, trial, boundary=[*given, ks.periodic(X), ks.periodic(Y)], **about)
    found = task.solve(guess, progress=False)
    assert found.success and found.duration == pytest.approx(period, rel=1e-5)
    assert "left out" in found.notes[0]
    wrong = ks.Collocation(LOTKA, trial, boundary=[*given, end(X) - 4.2, end(Y) - 1], **about)
    found = wrong.solve(guess, progress=False)
    assert not found.success and re_named(found.why(), "contradicts", "off by 0.0275")


@pytest.mark.parametrize("scheme", ["radau-3", "gauss-4"])
def test_what_can_hardly_be_changed_is_not_bound(scheme):
    """A chain of eight integrators; a car that stands, as it is to end where it is."""
    chain = [ks.dynamicsymbols(f"c{k}") for k in range(8)]
    rows = [a.diff(t) - b for a, b in zip(chain, [*chain[1:], u[0]], strict=True)]
    x, y, turn, v, steer = ks.dynamicsymbols("x y turn v steer")
    rates = [v * sp.cos(turn), v * sp.sin(turn), v * sp.tan(steer), u[0], u[1]]
    car = [x, y, turn, v, steer]
    moves = [s.diff(t) - r for s, r in zip(car, rates, strict=True)]
    for model, states, first in (
        (ks.Model("chain", chain, u[:1], [], rows), chain, 1),
        (ks.Model("car", car, u[:2], [], moves), car, 0),
    ):
        task = ks.Collocation(
            model,
            ks.Experiment(nodes=21, duration=(1.0, 1.0)),
            objective=ks.Integral(u[0] ** 2),
            unknown_inputs=dict.fromkeys(model.inputs, (-9, 9)),
            boundary=[start(states[0]) - first, *map(start, states[1:]), *map(end, states)],
            scheme=scheme,
        )
        assert not bound_together(task.problem, task.pack()).words


def test_nothing_is_said_of_conditions_that_are_met_at_last(monkeypatch):
    """A swing-up that lines between the ends do not lead to, but zero does: what was thought to
    contradict itself meanwhile is met."""
    doubt = lambda *given: Bound(words=["this contradicts that"])  # noqa: E731
    monkeypatch.setattr("kinesym.internal.fitting.attempts.bound_together", doubt)
    turns = [theta.diff(t) - omega, omega.diff(t) + 9.81 * sp.sin(theta) - u[0]]
    swing = ks.Model("swing_up", [theta, omega], u[:1], [], turns)
    task = ks.Collocation(
        swing,
        ks.Experiment(np.linspace(0, 8, 101)),
        objective=ks.Integral(u[0] ** 2),
        boundary=[start(theta), start(omega), end(theta) - sp.pi, end(omega)],
        unknown_inputs={u[0]: (-2, 2)},
    )
    found = task.solve()
    assert found.success and any("one from zero" in note for note in found.notes)
    assert not any("contradicts" in note for note in found.notes)


def test_a_state_is_not_tied_to_its_rate_without_a_word():
    swing = ks.Model(
        "swing", [theta, omega], [], [], [theta.diff(t) - omega, omega.diff(t) + sp.sin(theta)]
    )
    trial = ks.Experiment(nodes=11, duration=(3, 12))
    with pytest.warns(UserWarning, match=r"ks.periodic\(theta\), ks.periodic\(omega\)"):
        ks.Collocation(
            swing, trial, objective=ks.Integral(0 * theta), boundary=[ks.periodic(theta, omega)]
        )
