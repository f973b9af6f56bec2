"""Numbers and times as users hand them over."""

import datetime as dt
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import sympy as sp

from kinesym.runtime.arrays import real_array, seconds

MASKED = np.ma.masked_array([1.0, -9999.0, 3.0], [False, True, False])
ZONE = dt.timezone.utc


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (3, 3.0),
        (np.float32(0.5), 0.5),
        (True, 1.0),
        ([1, 2.5], [1.0, 2.5]),
        ((np.int64(1), np.float16(2.0)), [1.0, 2.0]),
        ([[1, 2], [3, 4]], [[1.0, 2.0], [3.0, 4.0]]),
        (np.array([1, 2], dtype=np.uint8), [1.0, 2.0]),
        (np.arange(6.0)[::2], [0.0, 2.0, 4.0]),
        ([sp.Rational(1, 4), sp.pi, 2], [0.25, np.pi, 2.0]),
        ([Decimal("0.1"), Fraction(1, 8)], [0.1, 0.125]),
        (pd.Series([1.0, 2.0]), [1.0, 2.0]),
        ([np.nan, None], [np.nan, np.nan]),
        (np.ma.masked_array([1.0, 2.0]), [1.0, 2.0]),
        ([], []),
    ],
)
def test_numbers(given, expected):
    found = real_array(given, "input F")
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == np.float64 and found.shape == np.shape(expected)


def test_a_copy():
    given = np.ones(3)
    real_array(given, "input F")[0] = 2.0
    assert given[0] == 1.0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (1 + 2j, r"input F must be real numbers, got complex numbers, the first \(1\+2j\)"),
        ([1.0, 2.0 + 0j], "got complex numbers"),
        ("1.0", "got text, the first '1.0'"),
        (["1.0", "2"], "got text"),
        (b"1", "got text"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), "got dates"),
        (np.array([1, 2], dtype="timedelta64[s]"), "got time spans"),
        (np.zeros(2, dtype=[("a", float)]), "got records"),
        ([1.0, [2.0, 3.0]], "input F must be an array of numbers, got rows of unequal length"),
        (object(), "input F must be real numbers, got an object of type object"),
        ({"a": 1}, "got {'a': 1}"),
        ([1.0, sp.Symbol("k")], "got k at index 1"),
        ([1.0, sp.I], "got I at index 1"),
        (np.array([1.0, "2.0"], dtype=object), "got '2.0' at index 1"),
        ([1, 10**400], r"input F must be real numbers, got 1.000e\+400 at index 1"),
        ([[1.0, pd.NA]], "got <NA> at index 0, 1"),
        (MASKED, r"input F has 1 missing \(masked\) of 3 values, the first at index 1; fill them"),
        (
            [MASKED, MASKED],
            r"input F has 2 missing \(masked\) of 6 values, the first at index 0, 1",
        ),
        (np.ma.masked, r"input F has 1 missing \(masked\) of 1 values; fill"),
    ],
)
def test_no_numbers(given, words):
    with pytest.raises(ValueError, match=words):
        real_array(given, "input F")


def test_missing_is_nan():
    np.testing.assert_array_equal(real_array(MASKED, "x", missing=True), [1.0, np.nan, 3.0])
    np.testing.assert_array_equal(
        real_array([MASKED, [1, 2, 3]], "x", missing=True), [[1.0, np.nan, 3.0], [1.0, 2.0, 3.0]]
    )
    np.testing.assert_array_equal(
        real_array(np.ma.masked_array([1, "no"], [False, True], dtype=object), "x", missing=True),
        [1.0, np.nan],
    )


DATES = np.array(
    ["2020-02-28T23:59:59.5", "2020-02-29T00:00:00", "2020-03-01T00:00:00"], dtype="datetime64[ms]"
)
SINCE = [0.0, 0.5, 86400.5]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([0, 1, 2.5], [0.0, 1.0, 2.5]),
        (np.array([0, 250, 500], dtype="timedelta64[ms]"), [0.0, 0.25, 0.5]),
        (np.array([1, 2], dtype="timedelta64[D]"), [86400.0, 172800.0]),
        (DATES, SINCE),
        (DATES.astype("datetime64[ns]"), SINCE),
        (pd.DatetimeIndex(DATES), SINCE),
        (pd.DatetimeIndex(DATES).tz_localize("Europe/Berlin"), SINCE),
        (pd.Series(DATES), SINCE),
        (pd.to_timedelta([0, 10], unit="ms"), [0.0, 0.01]),
        ([pd.Timedelta("1s"), pd.Timedelta("1min")], [1.0, 60.0]),
        ([dt.timedelta(0), dt.timedelta(milliseconds=3)], [0.0, 0.003]),
        ([dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 0, 0, 2)], [0.0, 2.0]),
        (
            [dt.datetime(2020, 1, 1, tzinfo=ZONE), dt.datetime(2020, 1, 2, tzinfo=ZONE)],
            [0.0, 86400.0],
        ),
        ([dt.date(2020, 1, 1), dt.date(2020, 1, 3)], [0.0, 172800.0]),
        (np.array(["2020-01-01", "NaT"], dtype="datetime64[s]"), [0.0, np.nan]),
        (np.array([], dtype="datetime64[s]"), []),
    ],
)
def test_seconds(given, expected):
    found = seconds(given, "time")
    np.testing.assert_allclose(found, expected, rtol=1e-15)
    assert found.dtype == np.float64


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([1j], "time must be real numbers, got complex numbers"),
        (["2020-01-01"], "time must be real numbers, got text"),
        (
            np.array([1, 2], dtype="timedelta64[M]"),
            "time has the unit 'M', which is no fixed number",
        ),
        (np.array([1, 2], dtype="timedelta64"), "time has the unit 'generic'"),
        ([dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, tzinfo=ZONE)], "time zones all or none"),
        ([dt.datetime(2020, 1, 1), 3.0], "time must be all dates"),
        ([dt.timedelta(1), 3.0], "or all spans; the first is"),
        (
            np.ma.masked_array([0.0, 1.0], [False, True]),
            r"time has 1 missing \(masked\) of 2 values",
        ),
        (np.ma.masked_array(DATES, [True, False, False]), "time has 1 missing"),
    ],
)
def test_no_times(given, words):
    with pytest.raises(ValueError, match=words):
        seconds(given, "time")
