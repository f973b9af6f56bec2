"""Estimates as a table."""

import numpy as np
import pytest
import sympy as sp
from scipy.stats import t

from kinesym.runtime.results.estimates import Estimates, Uncertainty, estimates_of, quantile

VALUES = {"k": 1000.0, "b": 0.0, "m": 70.0, "c": 3.0}


def table(freedom=10.0, **more):
    covariance = np.diag([4.0, 0.0, 0.01, np.nan])
    about = Uncertainty(
        names=list(VALUES),
        covariance=covariance,
        held=["b"],
        freedom=freedom,
        notes=["c ..."],
        **more,
    )
    return estimates_of(VALUES, about, shifts={"k": 5.0})


def test_values_are_those_of_a_mapping():
    found = table()
    assert found == VALUES and dict(found) == VALUES and list(found) == list(VALUES)
    assert found["k"] == found[sp.Symbol("k")] == 1000.0
    assert sp.Symbol("k") in found and "x" not in found


def test_intervals_by_student():
    low, high = table().intervals()["k"]
    assert high - 1000.0 == pytest.approx(1000.0 - low) == pytest.approx(2.0 * t.ppf(0.975, 10))
    low, high = table(freedom=np.inf).intervals()["k"]
    assert high - low == pytest.approx(2.0 * 2.0 * 1.959963984540054)


def test_logarithms():
    """A standard error of 0.1 of 70, 0.1/70 of log m; the interval is not symmetric."""
    row = table(freedom=np.inf, logarithmic=["m"]).table["m"]
    assert row.standard_error == pytest.approx(0.1)
    assert row.interval == pytest.approx(
        (70 * np.exp(-0.19599639845 / 70), 70 * np.exp(0.19599639845 / 70)), rel=1e-9
    )


def test_what_is_not_known():
    found = table()
    assert found.table["b"].remark == "at a bound" and found.standard_errors()["b"] == 0.0
    assert np.isnan(found.intervals()["b"]).all()
    assert found.table["c"].remark == "not identifiable"
    assert np.isnan(found.standard_errors()["c"])
    assert estimates_of(VALUES, None).table["k"].cells() == ("1000", "", "", "")


def test_text():
    lines = str(table()).splitlines()
    assert lines[0] == "95 % intervals (t)"
    assert lines[1].split() == ["estimate", "std.", "error", "interval", "note"]
    assert lines[2].split()[:3] == ["k", "1000", "2"]
    assert lines[2].endswith("the grid shifts it by 2 standard errors")
    assert lines[3].endswith("at a bound") and lines[5].endswith("not identifiable")
    assert "<script>" not in Estimates({"<script>": 1.0})._repr_html_()


def test_pandas():
    frame = table().to_pandas()
    assert list(frame.index) == list(VALUES)
    assert frame.loc["k", "standard_error"] == 2.0 and frame.loc["k", "grid_shift"] == 5.0


def test_few_degrees_of_freedom():
    assert quantile(0.95, 1.0) == pytest.approx(12.706, rel=1e-4)
    assert quantile(0.95, 0.0) > 1e6
