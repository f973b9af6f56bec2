"""Ensembles of hybrid runs; files and pictures of a run."""

import matplotlib
import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym import hybrid as kh

matplotlib.use("agg")

y, v, lam = ks.dynamicsymbols("y v lam")
g, m = sp.symbols("g m")
TIME = np.linspace(0.0, 1.2, 25)
CLOCK = kh.Calcium(0.02, 0.015, 0.01, 20.0, -15.0)


@pytest.fixture(scope="module")
def ball():
    """A ball and an event at half a metre."""
    equations = [y.diff(ks.t) - v, m * v.diff(ks.t) + m * g - lam]
    model = ks.Model(
        "ball",
        [y, v],
        [lam],
        [g, m],
        equations,
        values={g: 9.81, m: 0.5},
        outputs={"energy": m * v**2 / 2 + m * g * y},
    )
    return kh.Hybrid(
        model,
        events=[kh.Event("half", y - sp.Rational(1, 2), 0)],
        contacts=[kh.Contact("floor", y, lam, restitution=0.5)],
    )


@pytest.fixture(scope="module")
def slider():
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
        contacts=[kh.Contact("floor", z, normal, "coulomb", s, along, friction_coefficient=0.3)],
    )


@pytest.fixture(scope="module")
def knee():
    theta, omega = ks.dynamicsymbols("theta omega")
    quad = kh.FESMuscle("quad", -0.045 * omega, 1200.0, 3e4, 2e4, 0.1, 0.3)
    torque = 0.045 * quad.force - 12.4 * sp.sin(theta) - 0.4 * omega
    model = ks.Model(
        "knee",
        [theta, omega],
        [quad.force],
        [],
        [theta.diff(ks.t) - omega, 0.44 * omega.diff(ks.t) - torque],
    )
    return kh.Hybrid(model, muscles=[quad])


def equal_runs(one, other):
    """Bit for bit."""
    for name in (*one.states, *one.inputs, *one.outputs):
        np.testing.assert_array_equal(one[name], other[name])
    assert [(e.time, e.kind, e.name) for e in one.log] == [
        (e.time, e.kind, e.name) for e in other.log
    ]
    for a, b in zip(one.log, other.log, strict=True):
        np.testing.assert_array_equal(a.rows, b.rows)
        assert list(a.states) == list(b.states)
    for part in ("time", "x", "modes", "contacts", "friction", "armed"):
        ours, theirs = (np.asarray(getattr(run.final, part)) for run in (one, other))
        np.testing.assert_array_equal(ours, theirs)
        assert ours.dtype == theirs.dtype
    assert (one.message, one.contacts, one.pressed, one.work) == (
        other.message,
        other.contacts,
        other.pressed,
        other.work,
    )
    assert dict(one.parameters) == dict(other.parameters)


# -- ensembles ------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 3, None])
def test_members_are_single_runs(ball, threads):
    """From no bounce to a hundred, each with its own parameters, in order."""
    heights, pulls = np.linspace(0.02, 8.0, 40), np.linspace(20.0, 3.0, 40)
    runs = ks.simulate(ball, TIME, {y: heights, v: 0.0}, {g: pulls}, threads=threads, rtol=1e-10)
    assert len(runs) == 40 and runs["y"].shape == (40, 25)
    counts = [len(events) for events in runs.happened("impact")]
    assert min(counts) == 0 and max(counts) > 8
    for k in range(0, 40, 3):
        one = ks.simulate(ball, TIME, {y: heights[k], v: 0.0}, {g: pulls[k]}, rtol=1e-10)
        equal_runs(runs.member(k), one)
        np.testing.assert_array_equal(runs["y"][k], one["y"])
        np.testing.assert_array_equal(runs["energy"][k], one["energy"])
    assert [run.parameters["g"] for run in runs] == pulls.tolist()


def test_members_with_inputs_of_their_own(slider):
    """Numbers, pieces and samples; what has no list is shared."""
    pulls = [0.0, ks.Signal.pieces([0.0, 0.5], [0.0, 8.0]), 8.0 * TIME]
    start = {"s": 0.0, "z": 0.0, "vs": 0.3, "vz": 0.0}
    runs = ks.simulate(slider, TIME, {**start, "floor": True}, inputs={"pull": pulls})
    for run, pull in zip(runs, pulls, strict=True):
        equal_runs(run, ks.simulate(slider, TIME, {**start, "floor": True}, inputs={"pull": pull}))
    shared = ks.simulate(
        slider,
        TIME,
        {**start, "vs": [0.3, 0.6], "floor": True},
        inputs={"pull": pulls[2]},
        method="rk4",
    )
    for run, speed in zip(shared, (0.3, 0.6), strict=True):
        equal_runs(
            run,
            ks.simulate(
                slider,
                TIME,
                {**start, "vs": speed, "floor": True},
                inputs={"pull": pulls[2]},
                method="rk4",
            ),
        )


def test_stimulated_members(knee):
    """Trains of other frequencies: other breaks, other switches."""
    trains = [CLOCK.signal(kh.train(0.05, period, 8)) for period in (0.05, 0.1, 0.2)]
    start = dict.fromkeys(knee.model.state_names, 0.0)
    runs = ks.simulate(knee, TIME, start, inputs={"quad_u": trains}, threads=2)
    for run, signal in zip(runs, trains, strict=True):
        equal_runs(run, ks.simulate(knee, TIME, start, inputs={"quad_u": signal}))
    assert len({len(events) for events in runs.happened("clock")}) > 1


def test_members_that_end_early(ball):
    """They say so, are NaN from there on, and leave the others alone."""
    stopping = kh.Hybrid(
        ball.model, contacts=ball.contacts, events=[kh.Event("deep", y - 0.2, -1, stop=True)]
    )
    runs = ks.simulate(stopping, TIME, {y: [1.0, 0.1, 0.5], v: 0.0})
    assert [bool(run.message) for run in runs] == [True, False, True]
    assert runs.member(0).message.startswith("stopped at t = 0.40385")
    assert not np.isnan(runs["y"][1]).any() and "2 ended early" in repr(runs)
    for k, end in ((0, 0.403855), (2, 0.247310)):
        np.testing.assert_array_equal(np.isnan(runs["y"][k]), end < TIME)
        assert runs.member(k).final.time == pytest.approx(end, abs=1e-6)
    assert [failure.member for failure in runs.failures] == [0, 2]
    runs.plot()


def test_members_that_do_not_fit(ball, slider):
    for words, initial, more in (
        (
            "the number of members is not clear: 2 for y, 3 for v",
            {y: [1, 2], v: np.zeros(3)},
            {},
        ),
        ("member 1: contact 'floor' starts 2 m below", {y: [1.0, -2.0], v: 0.0}, {}),
        (
            "the initial value of state y of member 1 is nan, not a finite number",
            {y: [1.0, np.nan], v: 0.0},
            {},
        ),
        ("initial: q is unknown", {"q": [1.0, 2.0], y: 1.0, v: 0.0}, {}),
        (
            "member 2: no finite number at the start",
            {y: 1.0, v: 0.0},
            {"parameters": {m: [1.0, 2.0, 0.0]}},
        ),
        (
            r"state y must be one number or \(members,\), got shape \(2, 2\)",
            {y: np.ones((2, 2)), v: 0},
            {},
        ),
        (r"state y must be one number or \(members,\), got shape \(0,\)", {y: [], v: 0.0}, {}),
        ("threads must be at least 1 and whole, got -1", {y: [1.0, 2.0], v: 0.0}, {"threads": -1}),
        ("rtol must be positive", {y: [1.0, 2.0], v: 0.0}, {"rtol": 0.0}),
    ):
        with pytest.raises(ValueError, match=words):
            ks.simulate(ball, TIME, initial, **more)
    start = {"s": 0.0, "z": 0.0, "vs": [0.3, 0.4], "vz": 0.0}
    for words, pull in (
        ("members is not clear: 2 for vs, 3 for pull", [ks.Signal(TIME, 0.0 * TIME)] * 3),
        ("members is not clear: 2 for vs, 3 for pull", np.zeros((3, 25))),
        (r"input pull has shape \(2, 24\)", np.zeros((2, 24))),
        ("input pull has 3 values, expected 25", [0.0, 1.0, 2.0]),
    ):
        with pytest.raises(ValueError, match=words):
            ks.simulate(slider, TIME, {**start, "floor": True}, inputs={"pull": pull})


def test_members_go_on_from_one_state(ball):
    """Each with its own parameters, as from that state alone."""
    final = ks.simulate(ball, TIME, {y: 1.0, v: 0.0}).final
    runs = ks.simulate(ball, TIME + 1.2, final, {g: [9.8, 9.7]})
    for run, pull in zip(runs, (9.8, 9.7), strict=True):
        equal_runs(run, ks.simulate(ball, TIME + 1.2, final, {g: pull}))


def test_files_of_an_ensemble(ball, tmp_path):
    """With the events of every member."""
    runs = ks.simulate(ball, TIME, {y: [1.0, 2.0], v: 0.0})
    runs.save(tmp_path / "runs.nc")
    again = ks.Ensemble.load(tmp_path / "runs.nc")
    for run, other in zip(runs, again, strict=True):
        equal_runs(run, other)


# -- files ----------------------------------------------------------------------------------------


def saved(run, folder):
    run.save(folder / "run.nc")
    return ks.Trajectory.load(folder / "run.nc")


def test_files(ball, knee, tmp_path):
    """Everything comes back: trajectory, events with states, the end, why it ended."""
    bounces = ks.simulate(ball, TIME, {y: 1.0, v: 0.0})
    equal_runs(saved(bounces, tmp_path), bounces)
    rests = ks.simulate(ball, TIME, {y: 0.0, v: 0.0, "floor": True})
    again = saved(rests, tmp_path)
    equal_runs(again, rests)
    assert again.pressed == ("floor",) and again.pressing("floor") == [(0.0, 1.2)]
    clock = CLOCK.signal(kh.train(0.05, 0.05, 8))
    kicks = ks.simulate(
        knee, TIME, dict.fromkeys(knee.model.state_names, 0.0), inputs={"quad_u": clock}
    )
    equal_runs(saved(kicks, tmp_path), kicks)
    free = ks.Model("free", [y], [], [], [y.diff(ks.t) + y])
    quiet = ks.simulate(kh.Hybrid(free), TIME, {y: 1.0})
    equal_runs(saved(quiet, tmp_path), quiet)
    stops = kh.Hybrid(free, events=[kh.Event("é: half", y - sp.Rational(1, 2), -1, stop=True)])
    early = ks.simulate(stops, TIME, {y: 1.0})
    assert "é: half" in early.message
    equal_runs(saved(early, tmp_path), early)


def test_going_on_from_a_file(slider, knee, tmp_path):
    """As from the state itself, with contacts that press, modes and a clock that goes on."""
    clock = {"quad_u": CLOCK.signal(kh.train(0.05, 0.05, 20))}
    half, rest = TIME[:13], TIME[12:]
    pull = {"pull": ks.Signal.pieces([0.0], [0.0], [9.0])}
    for hybrid, start, inputs in (
        (knee, dict.fromkeys(knee.model.state_names, 0.0), clock),
        (slider, {"s": 0.0, "z": 0.0, "vs": 0.9, "vz": 0.0, "floor": True}, pull),
    ):
        first = ks.simulate(hybrid, half, start, inputs=inputs)
        second = ks.simulate(hybrid, rest, first.final, inputs=inputs)
        equal_runs(ks.simulate(hybrid, rest, saved(first, tmp_path).final, inputs=inputs), second)


def test_files_of_something_else(ball, tmp_path):
    ks.simulate(ball, TIME, {y: [1.0, 2.0], v: 0.0}).save(tmp_path / "ensemble.nc")
    with pytest.raises(ValueError, match=r"was not written by Trajectory\.save, but by Ensemble"):
        ks.Trajectory.load(tmp_path / "ensemble.nc")
    with pytest.raises(FileNotFoundError):
        ks.Trajectory.load(tmp_path / "none.nc")


# -- what a run tells -----------------------------------------------------------------------------


def test_spans_and_names(ball):
    run = ks.simulate(ball, TIME, {y: 0.1, v: 0.0}, rtol=1e-10)
    (span,) = run.pressing("floor")
    assert span == pytest.approx((3.0 * np.sqrt(0.2 / 9.81), 1.2), abs=1e-3)
    assert run.happened("impact", "floor") == run.happened("impact")
    assert run.happened("impact", "half") == [] and run.happened("clock") == []
    with pytest.raises(ValueError, match="there is no kind 'bounce'; there are clock, impact"):
        run.happened("bounce")
    with pytest.raises(ValueError, match="there is no contact 'half'; there are floor"):
        run.pressing("half")
    assert str(run.events[0]).endswith("impact floor") and "events" in repr(run)
    with pytest.raises(KeyError, match="q is no trajectory here"):
        run["q"]


def test_pictures(ball, knee):
    """A bar or a row of marks for each contact and event; a line at each impact in plots."""
    run = ks.simulate(ball, TIME, {y: 1.0, v: 0.0})
    axis = run.plot_modes().axes[0]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["floor", "half"]
    marks = {line.get_ydata()[0]: len(line.get_xdata()) for line in axis.lines}
    assert marks == {0: len(run.happened("impact")), 1: len(run.happened("event"))}
    assert axis.get_xlim() == (0.0, 1.2) and axis.get_xlabel() == "time [s]"
    panels = run.plot(["y", "lam"]).axes
    shown = len(run.happened("impact")) + len(run.happened("event"))
    assert [len(panel.lines) for panel in panels] == [1 + shown] * 2
    rests = ks.simulate(ball, TIME, {y: 0.0, v: 0.0, "floor": True})
    (bar,) = rests.plot_modes().axes[0].collections
    np.testing.assert_allclose(bar.get_paths()[0].get_extents().intervalx, [0.0, 1.2])
    free = ks.Model("free", [y], [], [], [y.diff(ks.t) + y])
    assert ks.simulate(kh.Hybrid(free), TIME, {y: 1.0}).plot_modes().axes
    kicks = ks.simulate(
        knee,
        TIME,
        dict.fromkeys(knee.model.state_names, 0.0),
        inputs={"quad_u": CLOCK.signal(kh.train(0.05, 0.05, 8))},
    )
    labels = [label.get_text() for label in kicks.plot_modes().axes[0].get_yticklabels()]
    assert labels[:2] == ["quad shortens", "quad lengthens"]
    runs = ks.simulate(ball, TIME, {y: [1.0, 2.0, 3.0], v: 0.0})
    assert len(runs.plot("three balls").axes) == 4
