"""Ensembles: every member is what it is alone."""

import os
import re
import signal
import warnings
from contextlib import contextmanager
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.internal.running.model_run import compiled_stepper
from kinesym.runtime.results.ensemble import Failure

matplotlib.use("Agg")

t = ks.t
x, v, u, w = ks.dynamicsymbols("x v u w")
k, c, q = sp.symbols("k c q")
#: A damped pendulum with two inputs; with q = 1 and a large x it escapes to infinity
MODEL = ks.Model(
    "swing",
    [x, v],
    [u, w],
    [k, c, q],
    [x.diff(t) - v, v.diff(t) + k * sp.sin(x) + c * v - u - x * w - q * x**3],
    outputs={"force": v.diff(t) + c * v, "twice": 2 * x + u},
    values={k: 4.0, c: 0.3, q: 0.0},
)
N, MOST = 40, 17
TIME = np.concatenate([[0.0], np.cumsum(np.random.default_rng(0).uniform(0.02, 0.12, N - 1))])
METHODS = ["rk4", "trapezoid", "dormand-prince"]
VARIED = ["parameters", "initial", "inputs", "midpoints", "everything"]


def parabolas(samples):
    return ks.Signal.parabolas(TIME, samples)


def given(varied):
    """Arguments of an ensemble of `MOST` members."""
    rng = np.random.default_rng(1)
    fields = {
        "initial": {x: 0.7, v: -0.2},
        "parameters": {k: 4.0},
        "inputs": {u: rng.normal(size=N), w: parabolas(rng.normal(size=2 * N - 1))},
    }
    if varied in ("parameters", "everything"):
        fields["parameters"] = {k: rng.uniform(2, 9, MOST), c: rng.uniform(0, 1, MOST)}
    if varied in ("initial", "everything"):
        fields["initial"] = {x: rng.normal(size=MOST), v: 0.1}
    if varied in ("inputs", "everything"):
        fields["inputs"][u] = rng.normal(size=(MOST, N))
    if varied in ("midpoints", "everything"):
        fields["inputs"][w] = [parabolas(row) for row in rng.normal(size=(MOST, 2 * N - 1))]
    return fields


def part(fields, which):
    """The arguments of some members; of one alone if `which` is a number."""

    def taken(value, dimensions):
        if isinstance(value, ks.Signal):
            return value
        if isinstance(value, list) and isinstance(value[0], ks.Signal):
            chosen = np.arange(len(value))[which]
            return [value[k] for k in chosen] if np.ndim(chosen) else value[chosen]
        value = np.asarray(value)
        return value[which] if value.ndim == dimensions else value

    return {
        kind: {name: taken(value, 2 if kind == "inputs" else 1) for name, value in group.items()}
        for kind, group in fields.items()
    }


def rows(run):
    return np.array([run["x"], run["v"], run["force"], run["twice"]])


def simulate(fields, **more):
    return ks.simulate(MODEL, TIME, **fields, **more)


@pytest.mark.parametrize(
    ("varied", "method"),
    [
        *((varied, method) for varied in VARIED for method in ("rk4", "dormand-prince")),
        ("parameters", "trapezoid"),
        ("everything", "trapezoid"),
    ],
)
def test_members_are_single_runs(varied, method):
    """For full and partly filled blocks of lanes; outputs included."""
    fields = given(varied)
    single = np.array([rows(simulate(part(fields, j), method=method)) for j in range(MOST)])
    size = np.abs(single).max(axis=(0, 2))[:, None]
    lanes = compiled_stepper(MODEL, method, True, False).library.lanes
    for count in sorted({1, 2, max(lanes - 1, 1), lanes, lanes + 1, MOST}):
        runs = simulate(part(fields, slice(count)), method=method)
        assert isinstance(runs, ks.Ensemble) and len(runs) == runs.members == count
        assert not runs.failures
        for j, run in enumerate(runs):
            assert np.abs((rows(run) - single[j]) / size).max() < 1e-13, (count, j)
    if varied == "everything":
        assert np.ptp(single[:, 0, -1]) > 0.1  # they do differ
        np.testing.assert_array_equal(runs.parameters["k"], fields["parameters"][k])
        np.testing.assert_array_equal(runs["u"], fields["inputs"][u])
        np.testing.assert_array_equal(runs["w"], [signal(TIME) for signal in fields["inputs"][w]])


@pytest.mark.parametrize("method", METHODS)
def test_order_of_members_does_not_matter(method):
    """Which lane a member is computed in, and beside whom, changes no bit."""
    fields, order = given("everything"), np.random.default_rng(2).permutation(MOST)
    one = simulate(fields, method=method)
    other = simulate(part(fields, order), method=method)
    for name in ("x", "v", "force", "twice"):
        np.testing.assert_array_equal(one[name][order], other[name])


@pytest.mark.parametrize("method", METHODS)
def test_threads_change_no_bit(method):
    rng = np.random.default_rng(3)
    fields = {
        "initial": {x: rng.normal(size=101), v: 0.0},
        "parameters": {k: np.full(101, 5.0)},
        "inputs": {u: rng.normal(size=(101, N)), w: 0.0},
    }
    more = {} if method == "dormand-prince" else {"substeps": 3}
    one, two = (simulate(fields, method=method, threads=n, **more) for n in (1, 2))
    for name in ("x", "v", "force", "twice"):
        np.testing.assert_array_equal(one[name], two[name])


WORDS = {
    "rk4": "diverged between",
    "trapezoid": "Newton's method failed between",
    "dormand-prince": "shorter than rounding",
}


def runaways():
    """Members 5 and 11 escape, early and late."""
    fields = given("everything")
    fields["parameters"][q] = np.zeros(MOST)
    fields["parameters"][q][[5, 11]] = 1.0
    fields["initial"][x] = np.where(np.arange(MOST) == 5, 3.0, fields["initial"][x])
    fields["initial"][x][11] = 2.45
    fields["initial"][v] = np.where(np.arange(MOST) == 11, -0.6, 0.1)
    return fields


@pytest.mark.parametrize("method", METHODS)
def test_divergence_of_members(method, tmp_path):
    """They stop alone, are NaN from there on, and say why; no other member notices."""
    fields = runaways()
    with pytest.warns(UserWarning) as caught:
        runs = simulate(fields, method=method)
    assert [str(item.category.__name__) for item in caught] == ["UserWarning"]
    assert caught[0].filename == __file__
    text = str(caught[0].message)
    assert text.startswith("2 of 17 members of swing ended early, the first is member 5: ")
    assert [failure.member for failure in runs.failures] == [5, 11]
    assert "2 ended early" in repr(runs)
    times = [failure.time for failure in runs.failures]
    assert 0.0 < times[0] < times[1] < TIME[-1]
    for failure in runs.failures:
        with pytest.warns(UserWarning, match=re.escape(WORDS[method])):
            alone = simulate(part(fields, failure.member), method=method)
        end = len(alone.time)
        assert failure.time == TIME[end] and WORDS[method] in failure.message
        for name in ("x", "v", "force", "twice"):
            row = runs[name][failure.member]
            assert np.isnan(row[end:]).all()
            size = np.abs(alone[name]).max()
            np.testing.assert_allclose(row[:end] / size, alone[name] / size, atol=1e-12)
        member = runs.member(failure.member)
        assert member.message == failure.message and len(member.time) == len(member["x"]) == end
        place = re.compile("between t = .* and .* s")
        assert place.search(member.message)[0] == place.search(alone.message)[0]
    for j in set(range(MOST)) - {5, 11}:
        alone, member = simulate(part(fields, j), method=method), runs.member(j)
        assert member.message == "" and len(member.time) == N
        np.testing.assert_allclose(rows(member), rows(alone), rtol=1e-11, atol=1e-12)

    runs.save(tmp_path / "runs.nc")
    back = ks.Ensemble.load(tmp_path / "runs.nc")
    assert list(back.failures) == list(runs.failures) and back.model == "swing"
    for name in ("x", "v", "u", "w", "force", "twice"):
        np.testing.assert_array_equal(runs[name], back[name])


def test_picture_and_remedy_after_divergence():
    """Members at 1e99 do not hide the others in the picture, and are no reason to advise 1e15
    substeps: x^3 has no bound, whatever the steps."""
    with pytest.warns(UserWarning, match="2 of 17"):
        runs = simulate(runaways())
    for failure in runs.failures:
        named = re.search(r"substeps=(\d+)", failure.message)
        assert named is None or int(named[1]) < 1e6, failure.message
    sound = [j for j in range(MOST) if j not in (5, 11)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = runs.plot()
        figure.canvas.draw()
    for axis in figure.axes:
        rest = runs[axis.get_ylabel()][sound]
        low, high = axis.get_ylim()
        assert low < rest.min() and rest.max() < high
        assert high - low < 20.0 * np.ptp(rest), axis.get_ylabel()
    matplotlib.pyplot.close("all")


def test_all_members_diverge():
    """A picture there is even then; one member did not make a single step."""
    with pytest.warns(UserWarning, match="2 of 2 members"):
        runs = ks.simulate(
            MODEL,
            [0.0, 0.5, 1.0, 2.0, 4.0],
            {x: [3.0, 1e100], v: 0.0},
            {q: [5.0, 5.0]},
            {u: 0.0, w: 0.0},
        )
    assert len(runs.member(0).time) > 1 and runs.member(1).time.tolist() == [0.0]
    assert np.isnan(runs["x"][:, -1]).all() and np.isfinite(runs["x"][:, 0]).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runs.plot().canvas.draw()


def test_interrupt(monkeypatch):
    """Ctrl-C: all nodes so far come back; who had diverged before keeps its reason."""

    @contextmanager
    def bar(total, show):
        count = iter(range(10**9))

        def report(nodes):
            if next(count) == 1:
                os.kill(os.getpid(), signal.SIGINT)

        yield report

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    monkeypatch.setattr("kinesym.runtime.simulation.stepper.node_bar", bar)
    time = np.linspace(0.0, 4.0, 101)
    try:
        with pytest.warns(UserWarning, match="3 of 3 members"):
            runs = ks.simulate(
                MODEL,
                time,
                {x: [0.5, 3.0, 0.1], v: 0.0},
                {q: [0.0, 5.0, 0.0]},
                {u: 0.0, w: 0.0},
                substeps=2500,
            )
    finally:
        signal.signal(signal.SIGINT, before)
    first, broken, last = runs.failures
    assert first.message == last.message == "interrupted at t = 2.08 s"
    assert first.time == pytest.approx(2.12) and np.isfinite(runs["x"][0, :53]).all()
    assert np.isnan(runs["x"][0, 53:]).all() and broken.time < 1.5
    assert "diverged" in broken.message


# -- what one can do with them --------------------------------------------------------------


def test_models_without_states(tmp_path):
    """Where everything follows from the inputs; a member that ended early, too."""
    still = ks.Model("still", [], [u], [k], [], outputs={"y": k * u})
    pushes = np.array([[0.1], [0.2], [1.0]]) * np.arange(4.0)
    runs = ks.simulate(still, np.arange(4.0), {}, {k: 3.0}, {u: pushes})
    assert len(runs) == 3 and repr(runs).startswith("<ensemble of still: 3 members; 4 nodes")
    np.testing.assert_allclose(runs.member(1)["y"], [0.0, 0.6, 1.2, 1.8])
    assert len(runs.plot().axes) == 2
    runs.save(tmp_path / "runs.nc")
    assert len(ks.Ensemble.load(tmp_path / "runs.nc")) == 3
    runs = replace(runs, failures=[Failure(2, 2.0, "left its limits")])
    assert runs.member(-1).time.tolist() == [0.0, 1.0] and runs.member(2).message


def test_a_rigid_person_on_a_ship_has_no_states():
    model = ks.models.grm3d()
    still = {name: np.zeros((2, N)) for name in model.input_names}
    runs = ks.simulate(model, TIME, {}, inputs=still)
    assert len(runs) == 2 and "grm3d" in repr(runs) and len(runs.member(1).time) == N


@pytest.fixture(scope="module")
def runs():
    return simulate(given("everything"))


def test_access(runs):
    assert runs["x"].shape == (MOST, N) and runs[x] is runs["x"]
    assert [run["x"][-1] for run in runs] == runs["x"][:, -1].tolist()
    last = runs.member(-1)
    np.testing.assert_array_equal(last["force"], runs["force"][MOST - 1])
    assert last.parameters[k] == runs.parameters["k"][-1] and last.parameters["q"] == 0.0
    assert repr(runs).startswith("<ensemble of swing: 17 members; 40 nodes, t = 0 ...")
    for wrong in (MOST, -MOST - 1):
        with pytest.raises(IndexError, match=f"member {wrong} of 17"):
            runs.member(wrong)
    with pytest.raises(KeyError, match="y is no trajectory here; there are x, v, u, w, force"):
        runs["y"]


@pytest.mark.parametrize("where", ["initial", "parameters", "inputs", "midpoints"])
def test_one_member_is_still_an_ensemble(where):
    """Whichever argument has the axis of members."""
    fields = {"initial": {x: 0.5, v: 0.0}, "parameters": {}, "inputs": {u: 0.0, w: 0.0}}
    fields["inputs" if where == "midpoints" else where] |= {
        "initial": {x: [0.5]},
        "parameters": {k: [4.0]},
        "inputs": {u: np.zeros((1, N))},
        "midpoints": {w: [parabolas(np.zeros(2 * N - 1))]},
    }[where]
    runs = simulate(fields)
    assert isinstance(runs, ks.Ensemble) and len(runs) == 1 and runs["x"].shape == (1, N)


def test_files(runs, tmp_path):
    data = runs.to_xarray()
    assert data["x"].dims == ("member", "time") and data["parameter_k"].dims == ("member",)
    np.testing.assert_array_equal(data["time"], TIME)
    assert float(data["force"].sel(member=3).isel(time=-1)) == runs["force"][3, -1]
    runs.save(tmp_path / "runs.nc")
    back = ks.Ensemble.load(tmp_path / "runs.nc")
    assert len(back) == MOST and not back.failures
    for kind in ("states", "inputs", "outputs", "parameters"):
        one, other = getattr(runs, kind), getattr(back, kind)
        assert list(one) == list(other)
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])
    runs.member(0).save(tmp_path / "one.nc")
    with pytest.raises(ValueError, match=r"one.nc was not written by Ensemble.save"):
        ks.Ensemble.load(tmp_path / "one.nc")


def test_file_of_an_ensemble_is_no_trajectory(runs, tmp_path):
    runs.save(tmp_path / "runs.nc")
    with pytest.raises(ValueError, match=r"runs.nc was not written by Trajectory.save"):
        ks.Trajectory.load(tmp_path / "runs.nc")


def test_plot(runs):
    """One panel per trajectory, labelled, with the median of all members among its lines."""
    figure = runs.plot()
    axes = [axis for axis in figure.axes if axis.axison]
    assert [axis.get_ylabel() for axis in axes].count("x") == 1 and len(axes) == 6
    panel = next(axis for axis in axes if axis.get_ylabel() == "force")
    middle = np.median(runs["force"], axis=0)
    assert any(np.allclose(line.get_ydata(), middle) for line in panel.get_lines())
    assert "17 members" in figure.get_suptitle()
    assert runs.plot(title="mine").get_suptitle() == "mine"
    matplotlib.pyplot.close("all")
