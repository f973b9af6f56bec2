"""Relations between markers, points and axes against rotations of SciPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from kinesym.gait.relations import (
    Axes,
    Carried,
    Chord,
    Like,
    Midpoint,
    Relations,
    Shifted,
    Trial,
    landmarks,
    rigid_motion,
)

N = 5
seeds = st.integers(0, 2**32 - 1)


def places_of(names, seed=0):
    """Markers that are anywhere within a room, (3, N) each."""
    rng = np.random.default_rng(seed)
    return {name: rng.uniform(-2.0, 2.0, (3, N)) for name in names}


def turns(seed=0, count=N):
    """Random rotations (3, 3, N)."""
    return Rotation.random(count, np.random.default_rng(seed)).as_matrix().transpose(1, 2, 0)


def moved(A, t, local):
    """A point fixed in axes A (3, 3, N) at t (3, N)."""
    return t + np.einsum("ijn,j->in", A, np.asarray(local))


def one_place(what, markers, calibration=None, **axes):
    found = landmarks(Relations({"P": what}, axes), Trial(markers, calibration or {}))
    return found.points["P"]


def one_axes(what, markers, calibration=None, **positions):
    return landmarks(Relations(positions, {"S": what}), Trial(markers, calibration or {})).axes["S"]


# -- points -----------------------------------------------------------------------------------


def test_midpoints():
    markers = places_of("ABC")
    a, b, c = markers.values()
    np.testing.assert_allclose(one_place("A", markers), a, atol=0)
    np.testing.assert_allclose(one_place(Midpoint([*"ABC"]), markers), (a + b + c) / 3, atol=1e-15)
    with pytest.raises(ValueError, match="Midpoint needs a list of positions, got 'ABC'"):
        Midpoint("ABC")
    nested = Midpoint([Midpoint(["A", "B"]), "C"])
    np.testing.assert_allclose(one_place(nested, markers), (a + b) / 4 + c / 2, atol=1e-15)


def segment_markers(seed):
    """Markers O, X, Y on the axes of a moving segment, 0.3 and 0.2 m from its origin."""
    A, t = turns(seed), places_of("O", seed)["O"]
    return A, t, {"O": t, "X": moved(A, t, [0.3, 0, 0]), "Y": moved(A, t, [0, 0.2, 0])}


def test_chord():
    """It moves with its markers, at right angles where its definition says."""
    A, t, markers = segment_markers(3)
    markers |= {"W": moved(A, t, [0.1, -0.05, 0.02])}
    found = one_place(Chord("O", "X", "W", 0.12), markers)
    low = 0.12 * np.sqrt(1.0 - 0.4**2) / np.hypot(0.05, 0.02)  # away from W
    np.testing.assert_allclose(found, moved(A, t, [0.048, 0.05 * low, -0.02 * low]), atol=1e-14)


def test_shifted():
    """By metres, and by multiples of the mean distance between two positions, in axes of its own
    and in those of a segment."""
    A, t, markers = segment_markers(1)
    triad = Axes("x", x=("O", "X"), y=("O", "Y"))
    by = (0.1, -0.2, 0.05)
    np.testing.assert_allclose(
        one_place(Shifted("O", by, triad), markers), moved(A, t, by), atol=1e-14
    )
    found = one_place(Shifted("O", by, Like("S"), ("O", "X")), markers, S=triad)
    np.testing.assert_allclose(found, moved(A, t, 0.3 * np.array(by)), atol=1e-14)
    far = markers | {"F": moved(A, t, [0, 0, 1]) + np.array([0, 0, 1])[:, None] * np.arange(N)}
    mean = np.mean([np.linalg.norm((far["F"] - t)[:, k]) for k in range(N)])
    found = one_place(Shifted("Y", by, triad, ("O", "F")), far)
    np.testing.assert_allclose(found, moved(A, far["Y"], mean * np.array(by)), atol=1e-13)


def test_places_of_places():
    """A point may use points that were declared before, axes may use points."""
    A, t, markers = segment_markers(2)
    relations = Relations(
        {"M": Midpoint(["O", "X"]), "P": Shifted("M", (0.0, 0.0, 1.0), Like("S"))},
        {"S": Axes("x", x=("M", "X"), y=("O", "Y")), "T": Like("S")},
    )
    found = landmarks(relations, Trial(markers))
    np.testing.assert_allclose(found.points["P"], moved(A, t, [0.15, 0, 1]), atol=1e-14)
    np.testing.assert_allclose(found.axes["S"], A, atol=1e-14)
    assert (found.axes["T"] == found.axes["S"]).all()
    assert (*found.points, *found.axes) == ("M", "P", "S", "T")


# -- axes -------------------------------------------------------------------------------------


@pytest.mark.parametrize("letters", ["xy", "yx", "xz", "zx", "yz", "zy"])
@given(seed=seeds)
@settings(max_examples=25, deadline=None)
def test_gram_schmidt(letters, seed):
    """Right-handed and orthonormal; the first direction is kept, the other one is in the plane of
    both, on its side."""
    markers = places_of("ABCD", seed)
    first, other = letters
    directions = {first: ("A", "B"), other: ("C", "D")}
    A = one_axes(Axes(first, **directions), markers).transpose(2, 0, 1)
    np.testing.assert_allclose(
        A.transpose(0, 2, 1) @ A, np.broadcast_to(np.eye(3), A.shape), atol=1e-9
    )
    np.testing.assert_allclose(np.linalg.det(A), 1.0, atol=1e-9)
    u, v = (A[:, :, "xyz".index(letter)] for letter in letters)
    a, b = ((markers[to] - markers[at]).T for at, to in (directions[first], directions[other]))
    np.testing.assert_allclose(u, a / np.linalg.norm(a, axis=1, keepdims=True), atol=1e-12)
    assert (np.sum(v * b, axis=1) > 0.0).all()
    normal = np.cross(a, b)
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    np.testing.assert_allclose(np.sum(normal * v, axis=1), 0.0, atol=1e-9)


@pytest.mark.parametrize("first", "xz")
def test_vertical(first):
    """Axes of someone who looks along a line: the vertical or that line is kept."""
    heading, pitch = np.linspace(-3.0, 3.0, N), np.linspace(-1.2, 1.2, N)
    sight = np.array(
        [np.cos(pitch) * np.cos(heading), np.cos(pitch) * np.sin(heading), np.sin(pitch)]
    )
    A = one_axes(Axes(first, z="up", x=("A", "B")), {"A": 0 * sight, "B": 3 * sight})
    expected = Rotation.from_euler("ZY", np.array([heading, -pitch * (first == "x")]).T)
    np.testing.assert_allclose(A.transpose(2, 0, 1), expected.as_matrix(), atol=1e-14)


# -- clusters ---------------------------------------------------------------------------------


def cluster(seed, count=4, noise=0.0, flat=False):
    """Markers of a segment when calibrated (3,) and when it moves (3, N), the motion between."""
    rng = np.random.default_rng(seed)
    local = rng.uniform(-0.1, 0.1, (count, 3)) + rng.uniform(-1, 1, 3)
    local[:, 2] = local[0, 2] if flat else local[:, 2]
    A, t = turns(seed + 1), rng.uniform(-2, 2, (3, N))
    names = [f"C{k}" for k in range(count)]
    after = {
        n: moved(A, t, p) + noise * rng.normal(size=(3, N))
        for n, p in zip(names, local, strict=True)
    }
    return dict(zip(names, local, strict=True)), after, A, t


@pytest.mark.parametrize("count, flat", [(3, False), (4, False), (6, False), (5, True)])
@given(seed=st.integers(0, 2**31))
@settings(max_examples=10, deadline=None)
def test_carried_moves_rigidly(count, flat, seed):
    """Without noise the motion is found exactly; in a plane too, without a reflection."""
    before, after, A, t = cluster(seed, count, flat=flat)
    p = np.array([0.4, -0.2, 0.9])
    still = before | {"K": p, "D": p + [1.0, 2.0, 0.0], "E": p + [0.0, 1.0, 3.0]}
    triad = Axes("z", z=("K", "D"), y=("K", "E"))
    found = landmarks(
        Relations(
            {"P": Carried("K", list(before)), "Q": Carried(Midpoint(["K", "D"]), list(before))},
            {
                "S": Carried(triad, list(before)),
                "still": Carried(Like("fixed"), list(before)),
                "fixed": Axes("x", x=("C0", "C1"), y=("C0", "C2")),
            },
        ),
        Trial(after, still),
    )
    np.testing.assert_allclose(found.points["P"], moved(A, t, p), atol=1e-11)
    np.testing.assert_allclose(found.points["Q"], moved(A, t, p + [0.5, 1, 0]), atol=1e-11)
    w = np.array([1.0, 2.0, 0.0]) / np.sqrt(5.0)
    v = np.array([0.0, 1.0, 3.0]) - w * (w @ [0.0, 1.0, 3.0])
    v /= np.linalg.norm(v)
    B = np.column_stack([np.cross(v, w), v, w])
    np.testing.assert_allclose(found.axes["S"], np.einsum("ijn,jk->ikn", A, B), atol=1e-11)
    np.testing.assert_allclose(found.axes["still"], found.axes["fixed"], atol=1e-11)


@pytest.mark.parametrize("count", [3, 5])
def test_carried_with_noise(count):
    """The best rotation of SciPy about the centres, for 20 mm noise in clusters of 100 mm."""
    before, after, _, _ = cluster(7, count, noise=0.02)
    local = np.array(list(before.values()))
    measured = np.array(list(after.values()))
    turn, centre = rigid_motion(local, measured)
    for k in range(N):
        here = measured[:, :, k]
        best, _ = Rotation.align_vectors(here - here.mean(axis=0), local - local.mean(axis=0))
        np.testing.assert_allclose(turn[:, :, k], best.as_matrix(), atol=1e-9)
        np.testing.assert_allclose(centre[:, k], here.mean(axis=0), atol=1e-14)
    np.testing.assert_allclose(np.linalg.det(turn.transpose(2, 0, 1)), 1.0, atol=1e-12)


def test_no_reflection():
    """Markers that were mirrored by noise, nearly in a plane, still turn properly."""
    local = np.array([[0.1, 0, 0], [-0.1, 0, 0], [0, 0.1, 1e-4], [0, -0.1, -2e-4]])
    after = (local * [1.0, 1.0, -1.0])[:, :, None]
    turn, _ = rigid_motion(local, after)
    np.testing.assert_allclose(np.linalg.det(turn[:, :, 0]), 1.0, atol=1e-12)
    best, _ = Rotation.align_vectors(after[:, :, 0], local - local.mean(axis=0))
    np.testing.assert_allclose(turn[:, :, 0], best.as_matrix(), atol=1e-9)


# -- bad input --------------------------------------------------------------------------------


def test_relations_that_need_each_other():
    with pytest.raises(ValueError, match=r"the relations of P, Q need each other"):
        landmarks(
            Relations({"P": Midpoint(["Q", "A"]), "Q": Midpoint(["P", "A"])}), Trial(places_of("A"))
        )
    with pytest.raises(ValueError, match=r"the relations of P need each other"):
        one_place(Midpoint(["P", "A"]), places_of("A"))
    with pytest.raises(ValueError, match=r"the relations of P, S need each other"):
        one_place(
            Shifted("A", (1, 0, 0), Like("S")), places_of("AB"), S=Axes("x", x=("A", "P"), z="up")
        )


def test_names():
    with pytest.raises(
        ValueError,
        match=r"marker 'R.Heal' is not in the trial \(needed by P\); "
        r"did you mean R.Heel\?",
    ):
        one_place(Midpoint(["R.Heal", "A"]), places_of(["R.Heel", "A"]))
    with pytest.raises(ValueError, match=r"marker 'Q' is not in the trial .*known are: A, B, P"):
        one_place("Q", places_of("AB"))
    with pytest.raises(ValueError, match=r"segment 'tigh' is not .*did you mean thigh\?"):
        one_place(
            Shifted("A", (1, 0, 0), Like("tigh")),
            places_of("AB"),
            thigh=Axes("x", x=("A", "B"), z="up"),
        )
    before, after, _, _ = cluster(3)
    with pytest.raises(ValueError, match="marker 'K' is not in"):
        one_place(Carried("K", list(before)), after, before)


def test_clusters_that_are_too_small():
    with pytest.raises(ValueError, match=r"at least three markers, got \['A', 'B'\]"):
        Carried("K", ["A", "B"])
    with pytest.raises(ValueError, match="at least three markers"):
        Carried("K", ["A", "B", "A"])


def test_directions():
    line = places_of("AB")
    line["C"] = line["A"] + 0.3 * (line["B"] - line["A"])
    with pytest.raises(ValueError, match=r"the directions of Axes.* are parallel"):
        one_axes(Axes("x", x=("A", "B"), y=("A", "C")), line)
    vertical = {"A": np.zeros((3, N)), "B": np.outer([0, 0, 1.0], np.ones(N))}
    with pytest.raises(ValueError, match="parallel"):
        one_axes(Axes("z", z=("A", "B"), x="up"), vertical)
    with pytest.raises(ValueError, match=r'a pair of positions or "up", got .left.'):
        one_axes(Axes("z", z="up", y="left"), line)
    for given_ in ({"x": ("A", "B")}, {}, {"x": ("A", "B"), "y": ("A", "B"), "z": "up"}):
        with pytest.raises(ValueError, match="axes need two directions, one of them first"):
            Axes("x", **given_)
    with pytest.raises(ValueError, match="axes need two directions, one of them first"):
        Axes("y", x=("A", "B"), z="up")


def test_only_one_instant_is_parallel():
    markers = places_of("ABC")
    markers["C"][:, 3] = 2 * markers["B"][:, 3] - markers["A"][:, 3]
    with pytest.raises(ValueError, match="parallel"):
        one_axes(Axes("x", x=("A", "B"), y=("A", "C")), markers)


@pytest.mark.filterwarnings("ignore:invalid value")
def test_a_direction_of_no_length():
    markers = places_of("AB")
    markers["C"] = markers["A"]
    with pytest.raises(ValueError, match="direction"):
        one_axes(Axes("x", x=("A", "C"), y=("A", "B")), markers)


def test_a_point_with_the_name_of_a_segment():
    A, t, markers = segment_markers(4)
    head = Axes("x", x=("O", "X"), y=("O", "Y"))
    found = landmarks(
        Relations({"head": Shifted("O", (0, 0, 1), Like("head"))}, {"head": head}), Trial(markers)
    )
    np.testing.assert_allclose(found.points["head"], moved(A, t, [0, 0, 1]), atol=1e-14)
