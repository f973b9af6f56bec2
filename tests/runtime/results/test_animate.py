"""Moving stick figures: frames of films, the numbers on pages, and drawings that files keep."""

import json
import re
import shutil
import subprocess
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
import sympy as sp
from PIL import Image

import kinesym as ks
from kinesym.runtime.results.animate import animate, coordinates

matplotlib.use("Agg")

TIME = np.linspace(2.0, 3.0, 201)
LINES = (("foot", "knee"), ("knee", "hip", "foot"))
RNG = np.random.default_rng(3)
BEGIN = {"foot": (0.0, 0.0, 0.0), "knee": (0.4, 0.3, 0.5), "hip": (-0.2, 0.3, 1.0)}
PATHS = {
    name: np.array(at)[:, None] + np.cumsum(0.02 * RNG.normal(size=(3, len(TIME))), axis=1)
    for name, at in BEGIN.items()
}


def figure(**changes):
    """Three points that wander in space."""
    outputs = {
        f"{name}_{axis}": row
        for name, rows in PATHS.items()
        for axis, row in zip("xyz", rows, strict=True)
    }
    run = ks.Trajectory(TIME, {}, {}, outputs, {"m": 1.0}, model="leg", drawing=LINES)
    return replace(run, **changes)


def flat(axes="xy"):
    """The same in a plane."""
    outputs = {
        f"{name}_{axis}": row
        for name, rows in PATHS.items()
        for axis, row in zip(axes, rows, strict=False)
    }
    return figure(outputs=outputs)


def frames(path):
    with Image.open(path) as film:
        durations = []
        for k in range(film.n_frames):
            film.seek(k)
            durations.append(film.info["duration"])
        return film.n_frames, sum(durations) / 1000.0, film.size


def film_of(path):
    """The numbers on a page."""
    text = path.read_text(encoding="utf-8")
    (found,) = re.findall(r"^const film = (.*);$", text, re.MULTILINE)
    return json.loads(found), text


# -- films ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fps", "speed", "count"), [(10.0, 1.0, 11), (10.0, 0.5, 21), (4, 2.0, 3)])
def test_frames(tmp_path, fps, speed, count):
    """One second of motion: a picture every speed/fps seconds, both ends included."""
    path = figure().animate(tmp_path / "leg.gif", fps=fps, speed=speed)
    assert path == tmp_path / "leg.gif"
    found, seconds, size = frames(path)
    assert found == count
    assert seconds == pytest.approx(count / fps, rel=1e-9)
    assert size[0] > 1.5 * size[1]  # two views


def test_sticks_in_both_views(tmp_path):
    """In every picture, and not the same in all of them."""
    path, pictures = figure().animate(tmp_path / "leg.gif", fps=4.0), []
    with Image.open(path) as film:
        for k in range(film.n_frames):
            film.seek(k)
            pictures.append(np.asarray(film.convert("RGB"), dtype=float))
    middle = pictures[0].shape[1] // 2
    for colour in ((31, 119, 180), (255, 127, 14)):  # of the two lines
        there = [np.abs(picture - colour).max(axis=2) < 40.0 for picture in pictures]
        assert all(view[:, :middle].sum() > 20 and view[:, middle:].sum() > 20 for view in there)
        assert all((there[k] != there[k - 1]).sum() > 20 for k in range(1, len(there)))


def test_frames_in_a_plane(tmp_path):
    count, seconds, size = frames(flat().animate(tmp_path / "leg.gif", fps=5.0))
    assert (count, seconds) == (6, pytest.approx(1.2)) and size[0] < 1.5 * size[1]


@pytest.mark.parametrize("fps", [0.4, 2.5, 30.0])
def test_a_film_lasts_as_long_as_the_motion(tmp_path, fps):
    """Whole pictures per second or not, within the 0.01 s of a gif for each picture."""
    time = np.linspace(0.0, 10.0, len(TIME))
    count, seconds, _ = frames(figure(time=time).animate(tmp_path / "leg.gif", fps=fps, speed=5.0))
    assert count == int(2.0 * fps) + 1
    assert seconds == pytest.approx(count / fps, abs=0.0051 * count)


def test_what_stands_still(tmp_path):
    """Equal pictures may be stored as one; they last as long."""
    still = {name: 0.0 * row + 1.0 for name, row in figure().outputs.items()}
    _, seconds, _ = frames(figure(outputs=still).animate(tmp_path / "leg.gif", fps=10.0))
    assert seconds == pytest.approx(1.1)


def test_no_figure_is_left_open(tmp_path):
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    figure().animate(tmp_path / "leg.gif", fps=2.0)
    assert plt.get_fignums() == before


# -- pages ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("up", "order", "signs"), [("z", (0, 1, 2), (1, 1, 1)), ("y", (0, 2, 1), (1, -1, 1))]
)
def test_page(tmp_path, up, order, signs):
    """Points at the times of the pictures: forwards, to the left, upwards."""
    film, text = film_of(figure().animate(str(tmp_path / "leg.html"), fps=20.0, up=up))
    assert "<title>leg</title>" in text and "TITLE" not in text and "FILM" not in text
    np.testing.assert_allclose(film["times"], np.linspace(2.0, 3.0, 21), atol=1e-9)
    assert film["lines"] == [[0, 1], [1, 2, 0]] and film["fps"] == 20.0 and not film["flat"]
    for points, rows in zip(film["points"], PATHS.values(), strict=True):
        expected = rows[list(order), ::10].T * signs
        np.testing.assert_allclose(points, expected, atol=0.51e-5)
    points = np.array(film["points"]).reshape(-1, 3)
    middle = (points.max(axis=0) + points.min(axis=0)) / 2.0
    np.testing.assert_allclose(film["middle"], middle, atol=2e-5)
    assert film["reach"] >= np.ptp(points, axis=0).max() / 2.0


@pytest.mark.skipif(shutil.which("node") is None, reason="runs the script of the page")
def test_page_is_seen_from_above(tmp_path):
    """From forwards to the left is counterclockwise on the screen, and up is up."""
    _, text = film_of(figure().animate(tmp_path / "leg.html"))
    begin = text.index("let azimuth")
    needed = [
        text[begin : text.index("\n", begin)],
        text[text.index("function project") : text.index("function draw")],
    ]
    world = (
        "const film = {middle: [0, 0, 0], reach: 1}, canvas = {width: 700, height: 500};",
        *needed,
        "console.log(JSON.stringify([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]].map(project)))",
    )
    done = subprocess.run(["node", "-e", "\n".join(world)], capture_output=True, check=True)
    places = np.array(json.loads(done.stdout)) * (1, -1)  # downwards on a canvas
    (forwards, left, up) = places[1:] - places[0]
    assert forwards[0] * left[1] - forwards[1] * left[0] > 0.0
    assert up[1] > 0.0 and up[0] == pytest.approx(0.0)


def test_page_between_samples(tmp_path):
    """Pictures fall between the nodes of a coarse run: straight lines from node to node."""
    time = np.array([0.0, 1.0])
    outputs = {f"{p}_{a}": np.array([0.0, 1.0 + k]) for p in PATHS for k, a in enumerate("xyz")}
    film, _ = film_of(figure(time=time, outputs=outputs).animate(tmp_path / "a.html", fps=4.0))
    np.testing.assert_allclose(film["points"][1][1], [0.25, 0.5, 0.75])


@pytest.mark.parametrize(("axes", "up"), [("xy", "z"), ("xy", "y"), ("xz", "z")])
def test_page_in_a_plane(tmp_path, axes, up):
    """The first axis forwards, the second upwards, whatever is up in space."""
    run = flat(axes)
    film, _ = film_of(run.animate(tmp_path / "leg.html", fps=10.0, up=up))
    assert film["flat"]
    for points, rows in zip(film["points"], PATHS.values(), strict=True):
        np.testing.assert_allclose(np.array(points)[:, [0, 2]], rows[:2, ::20].T, atol=0.51e-5)
        assert not np.array(points)[:, 1].any()
    assert coordinates(run, "knee", TIME, up).shape == (2, len(TIME))


def test_title_of_a_page(tmp_path):
    """Names of models are text, whatever they hold."""
    for name, expected in (("a < b & c", "a &lt; b &amp; c"), ("FILM", "FILM")):
        film, text = film_of(figure(model=name).animate(tmp_path / "leg.html"))
        assert f"<title>{expected}</title>" in text and f"<h3>{expected}</h3>" in text
        assert len(film["points"]) == 3


# -- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("leg.mp4", {}, "an animation is a .gif or .html file, got leg.mp4"),
        ("leg", {}, "an animation is a .gif or .html file, got leg"),
        ("leg.gif", {"fps": 0.0}, "fps and speed must be positive and up 'z' or 'y', got 0.0, 1.0"),
        ("leg.gif", {"speed": -1.0}, "must be positive and up 'z' or 'y', got 25.0, -1.0 and 'z'"),
        ("leg.gif", {"fps": float("nan")}, "must be positive and up 'z' or 'y', got nan"),
        ("leg.html", {"up": "x"}, "up 'z' or 'y', got 25.0, 1.0 and 'x'"),
    ],
)
def test_bad_animations(tmp_path, name, options, words):
    with pytest.raises(ValueError, match=words):
        figure().animate(tmp_path / name, **options)
    assert not list(tmp_path.iterdir())


def test_no_stick_figure(tmp_path):
    with pytest.raises(ValueError, match=r"leg has no stick figure; .* outputs=\['places'\], any"):
        animate(figure(drawing=()), tmp_path / "leg.gif", 25.0, 1.0, "z")


def test_points_in_space_and_in_a_plane(tmp_path):
    """One of them must be told where it is."""
    outputs = {name: row for name, row in figure().outputs.items() if name != "knee_z"}
    with pytest.raises(ValueError, match="knee"):
        figure(outputs=outputs).animate(tmp_path / "leg.html")


# -- drawings of models ---------------------------------------------------------------------------

angle, rate = ks.dynamicsymbols("angle rate")
BOB = {"pivot_x": sp.S.Zero, "pivot_y": sp.S.Zero, "bob_x": sp.sin(angle), "bob_y": -sp.cos(angle)}


def pendulum(**changes):
    fields = {"outputs": BOB, "drawing": [["pivot", "bob"]]}
    equations = [angle.diff(ks.t) - rate, rate.diff(ks.t) + 9.81 * sp.sin(angle)]
    return ks.Model("pendulum", [angle, rate], [], [], equations, **{**fields, **changes})


@pytest.fixture(scope="module")
def swing():
    return ks.simulate(pendulum(), np.linspace(0.0, 1.0, 101), {"angle": 0.5, "rate": 0.0})


@pytest.fixture(scope="module")
def swings():
    start = {"angle": [0.5, 1.0, -0.3], "rate": 0.0}
    return ks.simulate(pendulum(), np.linspace(0.0, 1.0, 101), start)


def test_a_planar_model(tmp_path, swing):
    """From the drawing of a model to a film."""
    assert swing.drawing == (("pivot", "bob"),)
    assert frames(swing.animate(tmp_path / "swing.gif", fps=10.0))[0] == 11
    film, _ = film_of(swing.animate(tmp_path / "swing.html", fps=100.0))
    expected = [np.sin(swing["angle"]), -np.cos(swing["angle"])]
    np.testing.assert_allclose(np.array(film["points"][1])[:, [0, 2]].T, expected, atol=0.51e-5)


def test_files_keep_drawings(tmp_path, swing, swings):
    """Of trajectories, of ensembles, and of members of these; no drawing stays none."""
    swing.save(tmp_path / "one.nc")
    swings.save(tmp_path / "many.nc")
    one, many = ks.Trajectory.load(tmp_path / "one.nc"), ks.Ensemble.load(tmp_path / "many.nc")
    for result in (one, many, many.member(1), swings.member(-1)):
        assert result.drawing == (("pivot", "bob"),)
    first = film_of(swings.member(1).animate(tmp_path / "a.html"))[0]
    assert film_of(many.member(1).animate(tmp_path / "b.html"))[0] == first
    replace(swing, drawing=()).save(tmp_path / "plain.nc")
    assert ks.Trajectory.load(tmp_path / "plain.nc").drawing == ()
    figure().save(tmp_path / "leg.nc")
    assert ks.Trajectory.load(tmp_path / "leg.nc").drawing == LINES


@pytest.mark.parametrize(
    ("drawing", "words"),
    [
        ([["pivot", "hand"]], "model pendulum: point hand of the drawing needs the output hand_x"),
        ([["pivot", "half"]], "model pendulum: point half of the drawing needs the output half_y"),
        ("pivot", "drawing"),
        (["pivot", "bob"], "drawing"),
    ],
)
def test_bad_drawings(drawing, words):
    """Lines go from point to point, and every point has a place."""
    with pytest.raises(ValueError, match=words):
        pendulum(outputs={**BOB, "half_x": angle}, drawing=drawing)
