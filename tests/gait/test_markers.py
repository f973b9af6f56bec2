"""Markers: what is refused, names, gaps, smoothing."""

import matplotlib
import numpy as np
import pytest

from kinesym.gait.markers import Markers
from kinesym.gait.relations import Relations
from kinesym.gait.smoothing import SSA
from kinesym.gait.tables import uniform

matplotlib.use("Agg")

TIME = np.arange(101) / 100.0


def position(phase=0.0):
    """A marker that goes forwards and swings."""
    return np.array([1.2 * TIME, 0.1 * np.sin(6.0 * TIME + phase), 1.0 + 0.03 * np.cos(9.0 * TIME)])


def walk(**missing):
    """Four markers; `missing` slices by name without the dot."""
    positions = {
        name: position(k) for k, name in enumerate(("R.Heel", "L.Heel", "R.Toe", "Sternum"))
    }
    for name, here in missing.items():
        positions[name.replace("_", ".")][:, here] = np.nan
    return Markers(TIME, positions)


def test_what_it_holds():
    markers = walk()
    assert markers.names == ("R.Heel", "L.Heel", "R.Toe", "Sternum")
    assert len(markers) == 101
    assert markers.rate == pytest.approx(100.0)
    assert "R.Heel" in markers and "r.heel" not in markers
    assert list(markers) == list(markers.names)
    np.testing.assert_array_equal(markers["Sternum"], position(3))
    assert repr(markers) == "<4 markers, 101 samples, t = 0 ... 1 s at 100 Hz, 0 gaps>"


def test_unknown_names_get_a_suggestion():
    with pytest.raises(KeyError, match=r"no marker 'R\.Heal'; did you mean R\.Heel"):
        walk()["R.Heal"]
    with pytest.raises(KeyError, match=r"no marker 'zzz'; known are: R\.Heel"):
        walk().without("zzz")


def test_parts_and_names():
    markers = walk()
    part = markers.between(0.2, 0.5)
    assert len(part) == 31
    np.testing.assert_array_equal(part["R.Toe"], position(2)[:, 20:51])
    assert markers.without("Sternum", "R.Toe").names == ("R.Heel", "L.Heel")
    swapped = markers.renamed({"R.Heel": "L.Heel", "L.Heel": "R.Heel"})
    np.testing.assert_array_equal(swapped["R.Heel"], markers["L.Heel"])
    other = markers.exchanged()
    assert other.names == ("L.Heel", "R.Heel", "L.Toe", "Sternum")
    np.testing.assert_array_equal(other["L.Toe"], markers["R.Toe"])
    np.testing.assert_array_equal(other.exchanged()["R.Heel"], markers["R.Heel"])


def test_between_takes_the_ends_despite_rounding():
    assert len(walk().between(0.1 + 0.2, 0.7)) == 41


@pytest.mark.parametrize(
    "given, message",
    [
        (lambda: walk().between(0.2, 0.205), "fewer than two samples are between 0.2 and 0.205 s"),
        (lambda: walk().renamed({"R.Heel": "L.Heel"}), "two markers would be called 'L.Heel'"),
        (lambda: walk().exchanged("X", "Y"), "no marker begins with 'X' or 'Y'"),
        (lambda: walk().without(*walk().names), "there are no markers"),
        (lambda: Markers(TIME, {}), "there are no markers"),
        (lambda: Markers(TIME, {"a": position().T}), r"'a' must be \(3, 101\), .* got \(101, 3\)"),
        (lambda: Markers([], {"a": np.zeros((3, 0))}), "at least 2 instants"),
        (
            lambda: Markers(TIME, {"a": 1e3 * position()}),
            r"look like millimetres \(max 1200\); set unit='mm'",
        ),
        (lambda: Markers(TIME, {"a": position() / (TIME != 0.3)}), "'a' is infinite at 0.3 s"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_errors(given, message):
    with pytest.raises(ValueError, match=message):
        given()


# -- time ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [50.0, 59.94, 60.0, 100.0, 119.88, 120.0, 150.0, 200.0, 250.0])
@pytest.mark.parametrize("decimals", [3, 4, 5, 12])
def test_rounding_of_files_is_taken_out(rate, decimals):
    exact = 0.35 + np.arange(400) / rate
    found = uniform(np.round(exact, decimals))
    assert np.ptp(np.diff(found)) < 1e-12
    np.testing.assert_allclose(found, exact, atol=1.01 * 10.0**-decimals + 1e-12)


def test_whole_rates_are_exact():
    found = uniform(np.round(np.arange(400) / 150.0, 4))
    np.testing.assert_allclose(found, np.arange(400) / 150.0, atol=1e-13)


@pytest.mark.parametrize(
    "time, message",
    [
        (np.delete(TIME, 40), "not uniform: the step after 0.39 s is 0.02 s, most are 0.01 s"),
        (np.insert(TIME, 40, 0.39), "time must increase; step 39 goes from 0.39 to 0.39"),
        ([0.0, 1.0, 3.0], "not uniform"),
        ([3.0, 2.0, 1.0], "time must increase"),
        (TIME + 1e-5 * np.sin(1e3 * TIME), "not uniform"),
        ([0.0, np.nan, 0.2], "not finite at index 1"),
        (np.zeros((2, 3)), "at least 2 instants in one dimension"),
    ],
)
def test_time_that_is_not_uniform(time, message):
    with pytest.raises(ValueError, match=message):
        uniform(time)


# -- gaps ---------------------------------------------------------------------------------------


def test_gaps_are_found_in_every_coordinate():
    positions = {"a": position(), "b": position()}
    positions["a"][1, 33:45] = np.nan
    positions["b"][:, [7, 9]] = np.nan
    markers = Markers(TIME, positions)
    assert np.isnan(markers["a"][:, 33:45]).all()  # a position without y is no position
    found = [(gap.marker, gap.begin, gap.end, gap.samples) for gap in markers.gaps()]
    assert found == [
        ("a", pytest.approx(0.33), pytest.approx(0.44), 12),
        ("b", 0.07, 0.07, 1),
        ("b", 0.09, 0.09, 1),
    ]
    assert str(markers.gaps()[0]) == "marker 'a': 12 samples missing at 0.33-0.44 s"
    assert str(markers.gaps()[1]) == "marker 'b': 1 sample missing at 0.07 s"
    assert not np.isnan(positions["a"][0]).any()  # the caller's arrays are untouched


def test_short_gaps_are_filled():
    markers = walk(R_Heel=slice(33, 43), R_Toe=slice(60, 62))
    filled = markers.filled(0.1)
    assert not filled.gaps()
    for k, name in enumerate(("R.Heel", "L.Heel", "R.Toe")):
        np.testing.assert_allclose(filled[name], position(k), atol=2e-4)
        known = ~np.isnan(markers[name])
        np.testing.assert_array_equal(filled[name][known], markers[name][known])


@pytest.mark.parametrize(
    "missing, message",
    [
        (
            {"R_Heel": slice(33, 45)},
            r"'R.Heel': 12 samples missing at 0.33-0.44 s, longer than 0.1 s, stays; try filled",
        ),
        ({"L_Heel": slice(0, 3)}, r"'L.Heel': 3 samples missing at 0.00-0.02 s, at an end"),
        ({"Sternum": slice(99, 101)}, r"'Sternum': 2 samples .* at an end"),
    ],
)
def test_other_gaps_stay(missing, message):
    with pytest.warns(UserWarning, match=message):
        assert len(walk(**missing).filled(0.1).gaps()) == 1


# -- smoothing and pictures ---------------------------------------------------------------------


def test_smoothing_by_ssa():
    markers = walk()
    smooth = markers.smoothed(SSA(0.3, rank=4))
    np.testing.assert_array_equal(smooth["R.Heel"], SSA(30, rank=4)(markers["R.Heel"]))
    with pytest.raises(ValueError, match=r"'R.Toe': 12 samples missing at 0.33-0.44 s; fill or"):
        walk(R_Toe=slice(33, 45)).smoothed(SSA())
    with pytest.raises(ValueError, match=r"\(and 1 more gaps\); fill or exclude"):
        walk(R_Toe=slice(33, 45), Sternum=slice(2, 3)).smoothed(SSA())
    with pytest.raises(ValueError, match="SSA window 80 must be between 2 and N/2 = 50"):
        markers.smoothed(SSA(0.8))


def test_plot():
    markers = walk()
    figure = markers.plot(["R.Heel", "L.Heel"], before=markers)
    assert [axis.get_ylabel() for axis in figure.axes] == [
        "x forwards [m]",
        "y left [m]",
        "z up [m]",
    ]
    assert len(figure.axes[0].lines) == 4
    assert len(markers.plot().axes[2].lines) == 4
    with pytest.raises(KeyError, match="no marker 'Knee'"):
        markers.plot(["Knee"])


def test_attributes_that_were_renamed_say_their_new_names():
    markers = Markers([0.0, 0.1], {"R.Heel": np.zeros((3, 2))})
    with pytest.raises(AttributeError, match="'places'; it is called 'positions' now"):
        _ = markers.places
    with pytest.raises(AttributeError, match=r"no attribute 'velocity'$"):
        _ = markers.velocity
    assert not hasattr(markers, "places") and markers.without().positions.keys() == {"R.Heel"}
    with pytest.raises(AttributeError, match="it is called 'points' now"):
        _ = Relations({}, {}).places
