"""Gaps of markers that the rest of their segment closes: exact for rigid bodies, and on a walk."""

import warnings

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import kinesym as ks
from kinesym.examples.studies.gait import data, relations
from kinesym.gait.gaps import by_clusters
from kinesym.gait.relations import clusters_in

TIME = np.linspace(0.0, 2.0, 201)
SHAPE = {"A": (0, 0, 0), "B": (0.1, 0, 0), "C": (0, 0.12, 0), "D": (0.03, 0.02, 0.2)}


def tumbling(names="ABCD"):
    """Markers of a rigid body that turns and flies."""
    turn = Rotation.from_rotvec(np.outer(TIME, (0.4, 2.0, -0.7)) + 0.3 * np.sin(5 * TIME)[:, None])
    path = np.stack([TIME, np.sin(3 * TIME), 1.0 + 0.2 * np.cos(7 * TIME)])
    return {name: turn.apply(SHAPE[name]).T + path for name in names}


@pytest.mark.parametrize("begin, end", [(40, 120), (0, 60), (150, 201), (199, 201)])
def test_rigid_bodies_are_exact(begin, end):
    """However long the gap, and at either end; what was measured stays."""
    whole = tumbling()
    cut = {name: x.copy() for name, x in whole.items()}
    cut["D"][:, begin:end] = np.nan
    filled = ks.gait.Markers(TIME, cut).filled(0.0, clusters=["ABCD"])
    for name, x in whole.items():
        np.testing.assert_allclose(filled[name], x, atol=1e-12)
    np.testing.assert_array_equal(filled["D"][:, :begin], whole["D"][:, :begin])


def test_several_gaps_at_different_times():
    cut = tumbling()
    for k, name in enumerate("ABCD"):
        cut[name][:, 20 + 40 * k : 50 + 40 * k] = np.nan
    filled = by_clusters(cut, ["ABCD"])
    for name, x in tumbling().items():
        np.testing.assert_allclose(filled[name], x, atol=1e-12)


def test_one_other_is_too_few():
    """Gaps stay, and are named if they are long."""
    cut = tumbling("ABC")
    for name in "BC":
        cut[name][:, 40:120] = np.nan
    assert np.isnan(by_clusters(cut, ["ABC"])["C"][0, 40:120]).all()
    with pytest.warns(UserWarning, match=r"longer than 0\.1 s, stays"):
        left = ks.gait.Markers(TIME, cut).filled(0.1, clusters=["ABC"])
    assert {gap.marker for gap in left.gaps()} == {*"BC"}


def test_what_can_be_filled_is_and_the_advice_works():
    """One gap stays: it is named, and what is said closes or avoids it."""
    cut = tumbling()
    cut["A"][:, 10:14] = cut["B"][:, 30:90] = cut["C"][:, 60:70] = np.nan
    record = ks.gait.Markers(TIME, cut)
    said = (
        r"'B': 60 samples missing at 0.30-0.89 s, longer than 0.2 s, stays; try "
        r"filled\(longest=0.6\), or between\(0.9, 2\), or without\('B'\)"
    )
    with pytest.warns(UserWarning, match=said):
        left = record.filled(0.2)
    assert [gap.marker for gap in left.gaps()] == ["B"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for one in (record.filled(0.6), record.between(0.9, 2).filled(0.2)):
            assert not one.gaps()
        assert not record.without("B").filled(0.2).gaps()


def test_a_gap_at_an_end_stays():
    cut = tumbling()
    cut["A"][:, :3] = cut["B"][:, 30:90] = np.nan
    with pytest.warns(UserWarning, match=r"'A': .* at an end, stays \(and 1 more gaps\); try bet"):
        left = ks.gait.Markers(TIME, cut).filled(0.2)
    assert np.isnan(left["A"][0, :3]).all()


def test_a_part_of_a_marker_is_cut_out():
    record = ks.gait.Markers(TIME, tumbling())
    cut = record.cut("D", 0.4, 0.6)
    assert [str(gap) for gap in cut.gaps()] == ["marker 'D': 21 samples missing at 0.40-0.60 s"]
    assert not record.gaps()
    np.testing.assert_allclose(cut.filled(0.0, clusters=["ABCD"])["D"], record["D"], atol=1e-12)
    with pytest.raises(KeyError, match="no marker 'E'"):
        record.cut("E", 0.4, 0.6)
    with pytest.raises(ValueError, match="no sample is between 7 and 8 s; the markers cover 0"):
        record.cut("D", 7, 8)


@pytest.mark.parametrize("others", [("A", "B"), ("A", "L", "B")], ids=["two", "three on a line"])
def test_a_line_says_all_but_its_spin(others):
    """Exact where the body does not spin about the line; else distances from it are right."""
    tilt = Rotation.from_rotvec(np.outer(np.sin(TIME), (0.0, 0.5, 0.9)))
    spin = Rotation.from_rotvec(np.outer(0.3 * np.sin(2 * TIME), (1.0, 0.0, 0.0)))
    shape = {**SHAPE, "L": (0.04, 0, 0)}
    for turn, exact in ((tilt, True), (tilt * spin, False)):
        whole = {name: turn.apply(shape[name]).T + TIME for name in (*others, "D")}
        cut = {**whole, "D": whole["D"].copy()}
        cut["D"][:, 40:90] = np.nan
        filled = by_clusters(cut, [(*others, "D")])["D"]
        for name in others:
            apart = np.linalg.norm(filled - whole[name], axis=0)
            assert np.ptp(apart) < (1e-12 if exact else 2e-3)
        assert np.abs(filled - whole["D"]).max() < (1e-12 if exact else 0.01)


def test_a_walk():
    """0.6 s cut out of every marker of a cluster of three: within centimetres of what was measured,
    a third of what splines are off."""
    markers = ks.gait.read_csv(data("gait_subject01_markers.csv.gz"))
    groups = {tuple(c) for c in clusters_in([relations().points, relations().axes])}
    off, bent = [], []
    for cluster in sorted(groups):
        for name in cluster:
            cut = {n: x.copy() for n, x in markers.positions.items()}
            cut[name][:, 40:76] = np.nan
            record = ks.gait.Markers(markers.time, cut)
            rigid = record.filled(0.0, clusters=[cluster])[name] - markers[name]
            spline = record.filled(2.0)[name] - markers[name]
            off.append(np.abs(rigid).max())
            bent.append(np.abs(spline).max())
    assert np.median(off) < 0.02 and sum(np.greater(off, 0.06)) == 1  # a heel far from the others
    assert np.median(np.divide(off, bent)) < 0.3
