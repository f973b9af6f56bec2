"""What users hand over as a trial: times, missing samples, deviations, gaps."""

import re
import warnings
from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pytest
import sympy as sp

from kinesym import Experiment, Signal

theta = sp.Function("theta")(sp.Symbol("t"))
TIME = np.linspace(0.0, 1.0, 11)
Y = np.cos(TIME)


@pytest.mark.parametrize(
    "time",
    [
        pd.to_timedelta(TIME, unit="s"),
        pd.Series(pd.Timestamp("2024-02-29") + pd.to_timedelta(TIME, unit="s"), index=range(5, 16)),
        (1000.0 * TIME).round().astype("timedelta64[ms]"),
        np.datetime64("2024-02-29") + (1000.0 * TIME).round().astype("timedelta64[ms]"),
        [datetime(2024, 2, 29) + timedelta(seconds=float(s)) for s in TIME],
    ],
    ids=["spans", "stamps", "milliseconds", "dates", "datetimes"],
)
def test_times_with_units_are_seconds(time):
    np.testing.assert_allclose(Experiment(time, measurements={"y": Y}).grid, TIME, atol=1e-12)


def test_bounds_of_a_duration_with_units():
    trial = Experiment(nodes=3.0, duration=[np.timedelta64(500, "ms"), np.timedelta64(2, "s")])
    assert trial.duration == (0.5, 2.0) and trial.n_nodes == 3


def test_masked_samples_are_missing():
    masked = np.ma.masked_where(np.arange(11) == 4, np.where(np.arange(11) == 4, -9999.0, Y))
    trial = Experiment(TIME, measurements={"y": masked})
    np.testing.assert_array_equal(np.isnan(trial.measurements["y"]), np.arange(11) == 4)


MASKED = np.ma.masked_less(Y, 0.8)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"inputs": {"u": MASKED}}, "input u has .* missing .masked."),
        ({"time": np.ma.masked_equal(TIME, 0.0)}, "time has 1 missing .masked."),
        ({"inputs": {"u": Y + 1j}}, "input u must be real numbers, got complex"),
        ({"measurements": {"y": Y + 0j}}, "measurement y must be real numbers, got complex"),
        ({"measurements": {"y": ["1.0"] * 11}}, "measurement y must be real numbers, got text"),
        ({"inputs": {"u": pd.to_timedelta(TIME, unit="s")}}, "input u must be .* got time spans"),
        ({"time": ["0", "1"]}, "time must be real numbers, got text"),
        ({"time": [0.0, 1e308, 1.7e308]}, "step 0 of time, .* is no time in seconds"),
        ({"time": [-1.7e308, 1.7e308]}, "step 0 of time, .* is no time in seconds"),
        ({"time": [0.0, 1e-320]}, "step 0 of time, .* is no time in seconds"),
        (
            {"measurements": {"y": np.where(TIME > 0.5, np.inf, Y)}},
            "5 values are not .* index 6",
        ),
        (
            {"measurements": {theta: Y, "theta": Y}},
            "measurements: theta is given twice, by symbol and",
        ),
        ({"std": {"y": np.inf}}, "std of y must be positive and finite, got inf; .* make .* NaN"),
        ({"std": {"y": -1.0}}, "std of y must be positive and finite, got -1"),
        ({"std": {"y": [1.0] * 7 + [0.0] * 4}}, "positive and finite, got 0 at index 7"),
        ({"std": {"y": np.nan}}, "std of y must be positive and finite, got nan"),
        ({"std": {"y": 1e-200}}, "std of y must be positive and finite, got 1e-200"),
        ({"std": {"y": " "}}, "std of y is an empty text; give numbers, or the name of a group"),
        (
            {"measurements": {theta: Y}, "std": {theta: 0.1, "theta": 0.2}},
            "std: theta is given twice",
        ),
        (
            {"measurements": {"thta": Y}, "std": {"theta": 0.1}},
            "std of theta, which is not measured in this experiment; measured is thta",
        ),
        ({"measurements": {}, "std": {"y": 0.1}}, "std of y, .*; measured is nothing"),
        ({"inputs": {theta: 1.0, "theta": 2.0}}, "inputs: theta is given twice"),
        ({"time": None, "nodes": 5.5, "duration": (1, 2)}, "nodes must be at least 2 and whole"),
        ({"time": None, "nodes": "5", "duration": (1, 2)}, "nodes must be at least 2 and whole"),
        ({"time": None, "nodes": 5, "duration": (1, "long")}, "duration must be real numbers, got"),
        ({"time": None, "nodes": 5, "duration": 2.0}, r"duration must be \(low, high\)"),
    ],
)
def test_refused_in_a_sentence(given, words):
    with pytest.raises(ValueError, match=words):
        Experiment(**{"time": TIME, "measurements": {"y": Y}, **given})


# -- rows left out ---------------------------------------------------------------------------------

LONG = np.linspace(0.0, 20.0, 2001)


def leaping(time, **more):
    """What is said of a record at these times."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        trial = Experiment(time, measurements={"y": np.sin(time)}, **more)
        trial.refined(3)
    return [str(warning.message) for warning in said]


def without(*gaps):
    return np.delete(LONG, np.concatenate([np.arange(*gap) for gap in gaps]))


@pytest.mark.parametrize(
    ("time", "words"),
    [
        (
            without((300, 400)),
            "time leaps from 2.99 to 4 s among steps of 0.01 s, and y is measured",
        ),
        (
            without((300, 400), (700, 720), (1500, 1520)),
            r"leaps from 2.99 to 4 s .* \(3 such steps\)",
        ),
        (np.round(without((900, 915)) * 4, 2) / 4, "leaps from 8.99 to 9.15"),
        (np.append(LONG[:100], 3.0), "leaps from 0.99 to 3 s"),
    ],
)
def test_rows_left_out(time, words):
    said = leaping(time)
    assert len(said) == 1 and re.search(words, said[0]), said
    assert "keep their rows, with NaN in the measurements" in said[0]


def test_missing_samples_are_no_leap():
    y = np.where((LONG > 3) & (LONG < 4), np.nan, LONG)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Experiment(LONG, measurements={"y": y})
        Experiment(without((300, 400)))  # nothing is measured
        late = without((300, 400))
        Experiment(late, measurements={"y": np.where(np.abs(late - 3.5) < 1, np.nan, late)})


RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    "time",
    [
        np.geomspace(1e-4, 10.0, 500),
        np.concatenate([np.linspace(0, 1, 1001), np.linspace(1, 20, 101)[1:]]),
        np.unique(np.concatenate([np.linspace(0, 3, 301), np.linspace(1, 1.1, 1001)])),
        1.0 - np.cos(np.linspace(0.0, np.pi, 300)),
        np.cumsum(RNG.exponential(0.01, 2000)),
        np.cumsum(0.01 * (1.0 + 0.3 * RNG.uniform(-1, 1, 2000))),
        np.concatenate([k + np.linspace(0.0, 0.01, 10) for k in range(40)]),
        np.array([0.0, 1, 2, 3, 4, 5, 6, 7, 8, 24]),
        without(*((k, k + 8) for k in range(50, 1950, 40))),
        LONG,
    ],
    ids=[
        "geometric",
        "two",
        "refined",
        "chebyshev",
        "poisson",
        "jitter",
        "bursts",
        "few",
        "short",
        "even",
    ],
)
def test_grids_made_on_purpose(time):
    assert leaping(time) == []


def test_one_line_and_a_table():
    time = np.linspace(0.0, 2.0, 201)
    trial = Experiment(time, {"a": 0 * time}, {"theta": 0 * time}, {"theta": 0.005})
    assert repr(trial) == "<experiment: inputs a; measured theta; 201 nodes, t = 0 ... 2 s>"
    assert "<td" in trial._repr_html_() and "0.005" in trial._repr_html_()
    free = Experiment(nodes=11, duration=(0.5, 20.0))
    assert repr(free).endswith("11 nodes, duration 0.5 ... 20 s>")


def test_tables_of_pandas():
    """Columns of a table with an index left over, integers, and missing samples of either kind."""
    table = pd.DataFrame({"theta": [1, None, 3], "rate": [1, 2, 3]}, index=[7, 3, 9])
    person = pd.Series({"mass": 54, "height": 1.6}, name="s01")
    for part in (table, table.convert_dtypes(), table.astype(object)):
        trial = Experiment([0, 1, 2], measurements=part[["theta", "rate"]], parameters=person)
        np.testing.assert_array_equal(trial.measurements["theta"], [1.0, np.nan, 3.0])
        np.testing.assert_array_equal(trial.measurements["rate"], [1.0, 2.0, 3.0])
        assert trial.parameters == {"mass": 54.0, "height": 1.6}
        timed = Experiment([0, 2], measurements={"theta": Signal([0, 1, 2], part["theta"])}).timed
        np.testing.assert_array_equal(timed["theta"].values, [1.0, np.nan, 3.0])


def test_a_missing_sample_with_a_missing_deviation():
    """As tables have them: the sample is missing, and the other deviations stay."""
    y, std = np.array([1.0, np.nan, 3.0]), np.array([0.1, np.nan, 0.3])
    trial = Experiment([0.0, 1.0, 2.0], measurements={"y": y}, std={"y": std})
    np.testing.assert_array_equal(trial.std["y"][[0, 2]], [0.1, 0.3])
    with pytest.raises(ValueError, match="std of y must be positive and finite, got nan at ind"):
        Experiment([0.0, 1.0, 2.0], measurements={"y": [1.0, 2.0, 3.0]}, std={"y": std})
