"""Inputs over time: what is between samples, jumps, spans, and what the loops are given."""

import warnings

import numpy as np
import pytest
import sympy as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import CubicSpline

import kinesym as ks
from kinesym import hybrid as kh
from kinesym.runtime.native import HELD, LINEAR, PARABOLA
from kinesym.runtime.signals.signal import segments, with_jumps

x, u = ks.dynamicsymbols("x u")
k = sp.Symbol("k")
TIMES = np.array([0.0, 0.1, 0.35, 0.5, 1.0])
VALUES = np.array([1.0, -2.0, 0.5, 3.0, 1.0])
FINE = np.linspace(0.0, 1.0, 1001)
#: x' = u, so that x is the integral of the input.
MODEL = ks.Model("sum", [x], [u], [], [x.diff(ks.t) - u])
#: The same with a guard that is never crossed.
HYBRID = kh.Hybrid(MODEL, events=[kh.Event("never", x - 100)])


def integral(signal, time):
    """From time[0] on, by Gauss's rule of order 6 on every piece of the signal and of the grid."""
    edges = np.union1d(time, signal.begin[(signal.begin > time[0]) & (signal.begin < time[-1])])
    points, weights = np.polynomial.legendre.leggauss(3)
    h = np.diff(edges)
    places = edges[:-1, None] + 0.5 * h[:, None] * (1.0 + points)
    steps = 0.5 * h * (signal(places.ravel()).reshape(places.shape) @ weights)
    return np.append(0.0, np.cumsum(steps))[np.searchsorted(edges, time)]


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        ("linear", np.interp(FINE, TIMES, VALUES)),
        ("held", VALUES[np.searchsorted(TIMES, FINE, side="right") - 1]),
        ("cubic", CubicSpline(TIMES, VALUES)(FINE)),
    ],
)
def test_between_samples(between, expected):
    signal = ks.Signal(TIMES, VALUES, between)
    np.testing.assert_allclose(signal(FINE), expected, atol=1e-13)
    np.testing.assert_array_equal(signal(TIMES), VALUES)
    assert f"<signal: {between}, 5 breaks, t = 0 ... 1 s>" == repr(signal)
    low, high = signal.range(0.0, 1.0)
    assert low <= VALUES.min() + 1e-15 and high >= VALUES.max() - 1e-15


def test_pieces_jump_where_they_say():
    signal = ks.Signal.pieces([0.0, 0.4, 0.7], [1.0, 3.0, 3.0], [0.0, -10.0, 2.0])
    np.testing.assert_allclose(signal([-1.0, 0.2, 0.4, 0.5, 0.7, 2.0]), [1, 1, 3, 2, 3, 5.6])
    np.testing.assert_array_equal(signal.jumps(0.0, 1.0), [0.4, 0.7])
    assert signal.range(0.0, 0.7) == (pytest.approx(0.0, abs=1e-15), 3.0)
    assert not ks.Signal(TIMES, VALUES).jumps(0.0, 1.0).size
    tiny = ks.Signal([0.0, 1.0, 2.0], [1.0, 1e-17, 1.0])  # what rounding leaves is no jump
    assert not tiny.jumps(0.0, 2.0).size


def test_where_a_signal_is_known():
    signal = ks.Signal(TIMES, VALUES)
    for time in ([-0.1], [1.1]):
        with pytest.raises(ValueError, match=r"known for 0 \.\.\. 1 s, but needed for"):
            signal(time)
    signal([1.0 + 1e-12])  # the rounding of a grid
    assert ks.Signal(TIMES, VALUES, "held")([7.0]) == 1.0
    assert ks.Signal.pieces([0.5], [2.0], [1.0])([-1.0]) == 0.5
    with pytest.raises(ValueError, match="depends on parameters, k"):
        ks.Signal.pieces([0.0], [k])([0.0])


def test_what_the_loops_are_given():
    """Samples at the nodes where these say all; else a parabola on each interval."""
    grid = np.union1d(TIMES, [0.2, 0.8])
    for between, kind in (("linear", LINEAR), ("held", HELD), ("cubic", PARABOLA)):
        signal = ks.Signal(TIMES, VALUES, between)
        samples, found = signal.sampled(grid)
        assert found == kind
        np.testing.assert_array_equal(samples[:: 3 if kind == PARABOLA else 1], signal(grid))
    broken = ks.Signal(TIMES, VALUES)
    assert broken.sampled(np.linspace(0.0, 1.0, 3))[1] == PARABOLA
    saw = ks.Signal.pieces(TIMES[:-1], VALUES[:-1], np.ones(4))
    samples, kind = saw.sampled(TIMES)
    assert kind == PARABOLA
    np.testing.assert_allclose(samples[2::3], VALUES[:-1] + np.diff(TIMES))  # before the jumps


@pytest.mark.parametrize("begin", [0.0, 1.7e9, -3e5])
def test_clocks_of_any_kind(begin):
    """Seconds since 1970 with steps of a millisecond, and breaks that differ by their rounding."""
    time = begin + 1e-3 * np.arange(11)
    values = np.random.default_rng(0).normal(size=11)
    for between, kind in (("linear", LINEAR), ("held", HELD)):
        samples, found = ks.Signal(time, values, between).sampled(time)
        assert found == kind
        np.testing.assert_array_equal(samples, values)
    late = ks.Signal(np.nextafter(time[:-1], np.inf), values[:-1], "held")
    late = ks.Signal.pieces(late.begin, late.value)
    samples, found = late.sampled(time)
    assert found == HELD
    np.testing.assert_array_equal(samples, np.append(values[:-1], values[-2]))


def test_equal_values_do_not_make_a_line_held():
    """One integral of u^2 is a sum over nodes, whatever u is; held inputs make another sum."""
    grid = np.linspace(0.0, 1.0, 5)
    signals = [ks.Signal(grid, values) for values in (np.zeros(5), np.ones(5), grid)]
    assert not any(signal.held for signal in signals)
    assert ks.Signal(grid, np.ones(5), "held").held and ks.Signal.pieces(grid, np.ones(5)).held
    trials = [ks.Experiment(grid, {"u": signal}) for signal in signals]
    assert not any(trial.held for trial in trials)


def test_a_node_at_each_jump():
    signals = [ks.Signal([0.0, 0.33], [0.0, 1.0], "held"), ks.Signal.pieces([0.0, 0.5], [0.0, 2.0])]
    grid, nodes = with_jumps(np.linspace(0.0, 1.0, 5), [*signals, ks.Signal(TIMES, VALUES)])
    np.testing.assert_array_equal(grid, [0.0, 0.25, 0.33, 0.5, 0.75, 1.0])
    np.testing.assert_array_equal(nodes, [0, 1, 3, 4, 5])


def test_common_segments():
    """Polynomials are moved to the begins that all have in common."""
    given = {"a": ks.Signal(TIMES, VALUES, "cubic"), "b": ks.Signal.pieces([0.2, 0.6], [1.0, -1.0])}
    common = segments(given, 0.0, 1.0)
    segment = np.searchsorted(common.begin, FINE[:-1], side="right") - 1
    powers = (FINE[:-1] - common.begin[segment]) ** np.arange(4)[:, None, None]
    found = (common.coefficients[:, :, segment] * powers).sum(axis=0)
    np.testing.assert_allclose(found, [signal(FINE[:-1]) for signal in given.values()], atol=1e-13)


# -- in simulations -------------------------------------------------------------------------------


@st.composite
def signals(draw):
    """Samples of every kind, or pieces that jump, at times of their own."""
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    times = np.concatenate([[0.0], np.sort(rng.uniform(0.05, 1.9, draw(st.integers(1, 5)))), [2.0]])
    values = rng.normal(size=len(times))
    kind = draw(st.sampled_from(["linear", "held", "cubic", "pieces"]))
    if kind == "pieces":
        return ks.Signal.pieces(times, values, rng.normal(size=len(times)))
    return ks.Signal(times, values, kind)


@given(signals())
@settings(max_examples=25, deadline=None)
def test_smooth_and_hybrid_systems_integrate_them(signal):
    """The integral, exactly: jumps are hit; with events all breaks are."""
    time = np.linspace(0.0, 2.0, 9)
    exact = integral(signal, time)
    across = ks.simulate(HYBRID, time, {x: 0.0}, inputs={u: signal})
    np.testing.assert_allclose(across["x"], exact, atol=1e-9)
    np.testing.assert_allclose(across["u"][:-1], signal(time[:-1]), atol=1e-13)
    grid = np.union1d(time, signal.begin)  # RK4 is exact for cubics whose breaks are nodes
    run = ks.simulate(MODEL, grid, {x: 0.0}, inputs={u: signal})
    np.testing.assert_allclose(run["x"][np.searchsorted(grid, time)], exact, atol=1e-12)
    if not signal.coefficients[2:].any():
        straight = ks.simulate(MODEL, time, {x: 0.0}, inputs={u: signal})  # nodes at its breaks
        np.testing.assert_allclose(straight["x"], exact, atol=1e-12)
        np.testing.assert_array_equal(straight.time, time)


def test_samples_that_a_coarse_grid_cannot_show():
    """A tone between the nodes would be lost: a warning, but not where steps or events hit all
    breaks, nor where parabolas show it."""
    tone = ks.Signal(FINE, np.sin(40 * np.pi * FINE))
    coarse = np.linspace(0.0, 1.0, 11)
    with pytest.warns(UserWarning, match="input u changes between nodes .* by 50 % of its"):
        ks.simulate(MODEL, coarse[::3], {x: 0.0}, inputs={u: ks.Signal(FINE, tone(FINE), "cubic")})
    with pytest.warns(UserWarning, match="input u of trial 0 changes between nodes"):
        ks.Collocation(
            MODEL,
            ks.Experiment(coarse, {u: tone}),
            boundary=[ks.at_start(x)],
            objective=ks.Integral(x**2),
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ks.simulate(HYBRID, coarse, {x: 0.0}, inputs={u: tone})
        slow = ks.Signal(FINE, np.sin(np.pi * FINE), "cubic")
        ks.simulate(MODEL, coarse, {x: 0.0}, inputs={u: slow})
        ks.simulate(MODEL, coarse, {x: 0.0}, inputs={u: ks.Signal(FINE[::2], tone(FINE[::2]))})
        ks.simulate(MODEL, FINE, {x: 0.0}, inputs={u: tone})
        ks.simulate(MODEL, FINE[::3], {x: 0.0}, inputs={u: tone})


def test_members_with_signals_of_their_own():
    """Rows, or a list of signals of any kind; the same for a system with events."""
    time = np.linspace(0.0, 1.0, 21)
    rows = np.random.default_rng(1).normal(size=(3, 21))
    mixed = [2.0, rows[1], ks.Signal(TIMES, VALUES, "held")]
    for system in (MODEL, HYBRID):
        for given_inputs in (rows, mixed):
            runs = ks.simulate(system, time, {x: 0.0}, inputs={u: given_inputs})
            assert isinstance(runs, ks.Ensemble) and len(runs) == 3
            for run, row in zip(runs, given_inputs, strict=True):
                one = ks.simulate(system, time, {x: 0.0}, inputs={u: row})
                np.testing.assert_allclose(run["x"], one["x"], atol=1e-13)


def test_a_smooth_run_goes_on_where_it_ended():
    whole = ks.simulate(MODEL, FINE, {x: 1.0}, inputs={u: ks.Signal(TIMES, VALUES)})
    first = ks.simulate(MODEL, FINE[:501], {x: 1.0}, inputs={u: ks.Signal(TIMES, VALUES)})
    rest = ks.simulate(MODEL, FINE[500:], first.final, inputs={u: ks.Signal(TIMES, VALUES)})
    np.testing.assert_allclose(rest["x"], whole["x"][500:], rtol=1e-14)
    assert first.events == () and first.happened("event") == []
    with pytest.raises(
        ValueError, match=r"the grid begins at 0 s, the state to go on from is at 0"
    ):
        ks.simulate(MODEL, FINE, first.final, inputs={u: 0.0})


def test_sensitivities_of_a_smooth_model():
    """x' = -k x: dx/dk = -t x, dx/dx0 = e^(-k t), forward and by the adjoint."""
    decay = ks.Model("decay", [x], [], [k], [x.diff(ks.t) + k * x])
    time = np.linspace(0.0, 2.0, 5)
    found = ks.sensitivities(decay, time, {x: 3.0}, {k: 0.7})
    exact = np.array([-time * 3.0 * np.exp(-0.7 * time), np.exp(-0.7 * time)])
    np.testing.assert_allclose(found.forward([k, x])[x], exact, atol=1e-9)
    weights = np.array([0.3, 0.0, -1.0, 2.0, 0.5])
    back = found.gradient({"x": weights})
    assert back.parameters["k"] == pytest.approx(weights @ exact[0], abs=1e-8)
    assert back.initial["x"] == pytest.approx(weights @ exact[1], abs=1e-8)


def test_collocation_on_samples_of_a_signal():
    """Cubic signals are sampled at the nodes; held ones get a node at each jump, but beside
    bounds."""
    time = np.linspace(0.0, 1.0, 401)
    cubic = ks.Signal(TIMES, VALUES, "cubic")
    trial = ks.Experiment(time, inputs={u: cubic})
    np.testing.assert_array_equal(trial.inputs["u"], cubic(time))
    start = [ks.at_start(x)]
    solved = ks.Collocation(MODEL, trial, boundary=start, objective=ks.Integral(0 * x)).solve()
    np.testing.assert_allclose(solved["x"], integral(cubic, time), atol=2e-4)
    held = ks.Experiment(time, inputs={u: ks.Signal(TIMES, VALUES, "held")})
    assert held.held == {"u"}
    coarse = ks.Experiment(np.linspace(0.0, 1.0, 4), inputs={u: ks.Signal(TIMES, VALUES, "held")})
    about = {"boundary": start, "objective": ks.Integral(0 * x)}
    assert 0.1 in ks.Collocation(MODEL, coarse, **about).trials[0].grid
    with pytest.raises(ValueError, match=r"input u of trial 0 jumps at t = 0\.1 s.*add that time"):
        ks.Collocation(MODEL, coarse, **about, bounds={x: (-9, 9)})
