"""A muscle under stimulation against another implementation and closed forms."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
import sympy as sp
from scipy.optimize import brentq

import kinesym as ks
from kinesym import hybrid as kh

DATA = Path(__file__).parents[1] / "data"
TOLD = json.loads((DATA / "knee_20Hz.json").read_text())
P = TOLD["params"]
CLOCK = kh.Calcium(P["tau"], P["t1"], P["t2"], P["Up"], P["Um"])
NUMBERS = {"F0": P["F0"], "k0": P["k0"], "ks": P["ks"], "Lc0": P["Lc0"], "recruitment": P["alpha"]}


def knee():
    """A seated person's shank, and the muscle that extends it."""
    theta, omega = ks.dynamicsymbols("theta omega")
    quad = kh.FESMuscle("quad", rate=-P["r"] * omega, **NUMBERS)
    torque = P["r"] * quad.force - P["m"] * P["g"] * P["lc"] * sp.sin(theta) - P["bv"] * omega
    model = ks.Model(
        "knee",
        [theta, omega],
        [quad.force],
        [],
        [theta.diff(ks.t) - omega, P["I"] * omega.diff(ks.t) - torque],
    )
    return kh.Hybrid(model, muscles=[quad]), quad


def test_knee_at_20_hz():
    """Angle and rate to 1e-7, force to 1e-6 N, switches to 1e-7 s, breaks of the clock."""
    hybrid, quad = knee()
    with gzip.open(DATA / "knee_20Hz.csv.gz", "rt") as file:
        told = np.genfromtxt(file, delimiter=",", names=True)
    impulses = kh.train(P["t0"], P["T"], P["npulse"])
    start = {"theta": 0.0, "omega": 0.0, **quad.rest}
    run = ks.simulate(
        hybrid,
        told["t_s"],
        start,
        inputs={quad.clock: CLOCK.signal(impulses)},
        rtol=1e-11,
        atol=1e-12,
    )
    assert not run.message
    for ours, theirs, most in (
        ("theta", "theta_rad", 1e-9),
        ("omega", "omega_rad_s", 1e-9),
        ("quad_F", "Fc_N", 1e-7),
        ("quad_kc", "kc_N_per_m", 1e-5),
    ):
        assert np.abs(run[ours] - told[theirs]).max() < most, ours
    free = np.abs(told["t_s"][:, None] - TOLD["clock_break_times"]).min(axis=1) > 1e-9
    np.testing.assert_allclose(
        run["quad_rate"][free], told["eps_c_dot_right_limit_1_per_s"][free], atol=1e-6
    )
    assert len(run.plot(["theta", "quad_F"]).axes) == 2
    breaks = [e.time for e in run.happened("clock")]
    np.testing.assert_allclose(breaks, TOLD["clock_break_times"], atol=1e-14)
    switches = run.happened("event")
    assert len(switches) == len(TOLD["mode_switches"]) == 32
    for ours, theirs in zip(switches, TOLD["mode_switches"], strict=True):
        assert abs(ours.time - theirs["t"]) < 1e-10
        assert ours.name == ("quad lengthens" if theirs["new_mode"] > 0 else "quad shortens")
    assert run["theta"].max() == pytest.approx(0.9516, abs=1e-4)
    assert run["quad_F"].max() == pytest.approx(185.2, abs=0.1)


def held(rate, **numbers):
    """A muscle whose ends move apart at a given rate."""
    length = sp.Function("length")(ks.t)
    muscle = kh.FESMuscle("m", rate=sp.Float(rate), **{**NUMBERS, **numbers})
    rates = {length: rate, **dict(zip(muscle.states, muscle.rates, strict=True))}
    equations = [x.diff(ks.t) - value for x, value in rates.items()]
    model = ks.Model("held", list(rates), muscle.inputs, [], equations)
    return kh.Hybrid(model, muscle.modes, muscle.events), muscle


def test_isometric_with_a_stiff_tendon():
    """F = alpha F0 (1 - exp(-Up t)) while the clock is at Up."""
    hybrid, muscle = held(0.0, ks=1e12)
    time = np.linspace(0.0, 0.2, 21)
    run = ks.simulate(
        hybrid,
        time,
        {"length": 0.0, **muscle.rest},
        inputs={muscle.clock: 20.0},
        rtol=1e-10,
        atol=1e-12,
    )
    expected = P["alpha"] * P["F0"] * (1.0 - np.exp(-20.0 * time))
    np.testing.assert_allclose(run["m_F"], expected, atol=1e-6 * P["F0"])


def test_stretch_without_calcium():
    """A stretch by D of a stiff tendon: (F + kc Lc0 D) exp(-D)."""
    hybrid, muscle = held(0.05, ks=1e12)
    time = np.linspace(0.0, 0.4, 9)
    start = {"length": 0.0, "m_kc": 2000.0, "m_F": 40.0}
    run = ks.simulate(hybrid, time, start, inputs={muscle.clock: 0.0}, rtol=1e-11, atol=1e-12)
    D = 0.05 * time / P["Lc0"]
    np.testing.assert_allclose(run["m_F"], (40.0 + 2000.0 * P["Lc0"] * D) * np.exp(-D), rtol=1e-6)


def test_rate_of_the_contractile_element():
    """The exact solution against a root of the difference of both equations."""
    rng = np.random.default_rng(1)
    muscle = kh.FESMuscle("m", rate=sp.Symbol("L"), **NUMBERS)
    kc, F = muscle.states
    mode = next(iter(muscle.modes))
    exact = sp.lambdify([kc, F, muscle.clock, mode, sp.Symbol("L")], muscle.contractile_rate)
    for _ in range(200):
        k, f = rng.uniform(0, 3e4), rng.uniform(0, 1500.0)
        u, rate = rng.uniform(-20, 20), rng.uniform(-1, 1)
        if f >= (k + P["ks"]) * P["Lc0"]:
            continue

        def gap(x, k=k, f=f, u=u, rate=rate):
            left = -(abs(u) + abs(x)) * f + P["alpha"] * P["F0"] * max(u, 0) + k * P["Lc0"] * x
            return left - P["ks"] * (rate - P["Lc0"] * x)

        root = brentq(gap, -1e4, 1e4, xtol=1e-13, rtol=1e-15)
        assert exact(k, f, u, np.sign(root), rate) == pytest.approx(root, rel=1e-9, abs=1e-9)


def test_an_hour_of_stimulation_does_not_drift():
    signal = CLOCK.signal(kh.train(0.1, 0.05, 72_000))
    begin = np.asarray(signal.begin)[1:].reshape(-1, 5)
    assert begin.shape[0] == 72_000
    np.testing.assert_allclose(begin[:, 0], 0.1 + 0.05 * np.arange(72_000), atol=5e-13)
    assert begin[-1, 0] == 0.1 + 0.05 * 71_999


def test_clocks_that_cannot_be():
    with pytest.raises(ValueError, match=r"Um must be negative \(relaxation rate\), got 15"):
        kh.Calcium(0.02, 0.015, 0.01, 20.0, 15)
    with pytest.raises(ValueError, match=r"come before the delay of 0\.02 s is over"):
        CLOCK.signal(kh.train(0.0, 0.015, 3))
    with pytest.warns(UserWarning, match="cut the pulse before them"):
        CLOCK.signal(kh.train(0.0, 0.03, 3))
    with pytest.raises(ValueError, match="muscle 'm': ks must be positive, got -1"):
        kh.FESMuscle("m", 0, 1.0, 1.0, -1, 1.0)
    with pytest.warns(UserWarning, match="may lose uniqueness in a stretch: needs more than"):
        kh.FESMuscle("m", 0, 1200.0, 3e4, 100.0, 0.1)


def test_slack_tendon_is_held_until_it_is_tight():
    """Shortening faster than the muscle can: the force stays 0, then rises again; the length by
    which the tendon hangs is that of the ends less that of the contractile element."""
    length, rate = ks.dynamicsymbols("length rate")
    muscle = kh.FESMuscle("m", rate=rate, slack="hold", **NUMBERS)
    model = ks.Model("held", [length], [rate], [], [length.diff(ks.t) - rate])
    hybrid = kh.Hybrid(model, muscles=[muscle])
    signal = ks.Signal.pieces([0.0, 0.1, 0.2], [0.0, -1.5, 0.5])
    time = np.linspace(0.0, 0.5, 501)
    run = ks.simulate(
        hybrid, time, {"length": 0.0, **muscle.rest}, inputs={rate: signal, muscle.clock: 20.0}
    )
    (slack,), (tight,) = run.happened("event", "m goes slack"), run.happened("event", "m is tight")
    assert 0.1 < slack.time < 0.2 < tight.time < 0.5
    within = (time > slack.time + 1e-9) & (time < tight.time - 1e-9)
    np.testing.assert_array_equal(run["m_F"][within], 0.0)
    assert (run["m_slack"][within] > 0.0).all() and run["m_F"][-1] > 10.0
    grown = np.gradient(run["m_slack"][within], 1e-3)
    expected = -(signal(time[within]) - P["Lc0"] * run["m_rate"][within])
    np.testing.assert_allclose(grown[5:-5], expected[5:-5], atol=0.02)
    stopped = kh.Hybrid(model, muscles=[kh.FESMuscle("m", rate=rate, **NUMBERS)])
    with pytest.warns(UserWarning, match="the tendon is slack"):
        with_error = ks.simulate(
            stopped,
            time,
            {"length": 0.0, "m_kc": 0.0, "m_F": 0.0},
            inputs={rate: signal, muscle.clock: 20.0},
        )
    assert "the tendon is slack" in with_error.message
