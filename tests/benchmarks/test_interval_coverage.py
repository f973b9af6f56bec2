"""Coverage of intervals: a small cut of the benchmark, and its bookkeeping."""

import json
from concurrent.futures import ThreadPoolExecutor

import interval_coverage
import numpy as np
import pytest

RECORDS = 16


def shares(model, which, records=RECORDS):
    """Of the intervals with the truth, by method [%]."""
    rows = [
        interval_coverage.fitted(model, interval_coverage.FITS[which], k) for k in range(records)
    ]
    found = interval_coverage.coverages(model, which, rows)
    assert all(each.failed == 0 for each in found)
    return {each.method: each.share for each in found}


@pytest.mark.parametrize("which", ["white, sigma known", "white, sigma unknown"])
def test_where_assumptions_hold(which):
    """Of 32 intervals at least 25: there would be fewer once in 5,000 tries."""
    found = shares("oscillator", which)
    assert min(found.values()) >= 78.0
    assert found["profile"] == pytest.approx(found["t"], abs=8.0)


@pytest.mark.parametrize("model", ["oscillator", "predator_prey"])
def test_correlated_residuals(model):
    found = shares(model, "AR(1) 0.8")
    assert found["t"] < 75.0 < 78.0 < found["sandwich"]


@pytest.mark.parametrize(
    "which", ["outliers 2 %, Huber", "outliers 2 %, Student", "noisy input as unknown"]
)
def test_other_noise(which):
    assert min(shares("oscillator", which, 8).values()) >= 75.0


@pytest.mark.parametrize("model", interval_coverage.MODELS)
def test_every_model(model):
    """Truth is within four standard errors; nothing that the simulation left out shifts it."""
    which = next(which for _, which in interval_coverage.cases([model]))
    row = interval_coverage.fitted(model, interval_coverage.FITS[which], 0)
    truth = interval_coverage.subject(model)[0].truth
    for name, value in truth.items():
        assert abs(row["estimates"][name] - value) < 4.0 * row["standard_errors"][name]
        if "profile" not in row["intervals"]:
            continue
        np.testing.assert_allclose(
            row["intervals"]["profile"][name],
            row["intervals"]["t"][name],
            atol=0.5 * row["standard_errors"][name],
        )


def test_records_that_are_there_are_not_fitted_again(tmp_path, monkeypatch):
    which = "white, sigma known"
    made = []

    def quietly(name, kind, number):
        made.append(number)
        return name, kind, {"record": number, "failed": "tried"}

    monkeypatch.setattr(interval_coverage, "quietly", quietly)
    with ThreadPoolExecutor(1) as executor:
        interval_coverage.collect(tmp_path, [("oscillator", which)], 2, executor)
        path = interval_coverage.file_of(tmp_path, "oscillator", which)
        path.write_text(path.read_text() + json.dumps({"record": 2})[:-3])  # cut off
        interval_coverage.collect(tmp_path, [("oscillator", which)], 4, executor)
    assert made == [0, 1, 2, 3]
    assert [row["record"] for row in interval_coverage.kept(tmp_path, "oscillator", which)] == made


def test_shares():
    truth = interval_coverage.subject("oscillator")[0].truth
    inside = {name: (value - 1.0, value + 1.0) for name, value in truth.items()}
    missed = {**inside, "k": (0.0, 1.0)}
    rows = [
        {
            "record": k,
            "estimates": {name: value + 0.1 * (-1) ** k for name, value in truth.items()},
            "intervals": dict.fromkeys(("t", "sandwich"), missed if k == 0 else inside),
        }
        for k in range(4)
    ]
    rows.append({"record": 4, "failed": "abnormal"})
    first, _ = interval_coverage.coverages("oscillator", "AR(1) 0.8", rows)
    assert (first.records, first.failed, first.parameter) == (4, 1, "k")
    assert (first.share, first.least) == (87.5, 75.0)
    assert interval_coverage.cells(first)[5] == "87.5 ± 10.8"
