"""Hybrid runs of the peers against another implementation, at small size."""

import gzip
import json
import sys
from pathlib import Path

import hybrid
import numpy as np
import pytest

from kinesym.runtime.library.build import CACHE_VARIABLE

DATA = Path(__file__).parents[1] / "data"
TOLD = json.loads((DATA / "knee_20Hz.json").read_text())


@pytest.fixture(scope="module")
def case():
    return hybrid.make_case(16, 1.5)


@pytest.fixture(scope="module")
def true(case):
    return hybrid.reference(case)


def test_problem(case):
    assert hybrid.P.items() <= TOLD["params"].items()
    np.testing.assert_allclose(case.lines[0][1:-1], TOLD["clock_break_times"], atol=1e-14)


def test_reference(case, true):
    with gzip.open(DATA / "knee_20Hz.csv.gz", "rt") as file:
        told = np.genfromtxt(file, delimiter=",", names=True)
    np.testing.assert_allclose(case.time, told["t_s"], atol=1e-12)
    for k, (name, most) in enumerate(
        (("theta_rad", 1e-9), ("omega_rad_s", 1e-9), ("kc_N_per_m", 1e-5), ("Fc_N", 1e-7))
    ):
        np.testing.assert_allclose(true.states[:, k], told[name], rtol=0.0, atol=most)
    switches = [switch["t"] for switch in TOLD["mode_switches"]]
    np.testing.assert_allclose(true.switches, switches, atol=1e-10)


def test_all_agree_with_the_reference(case, true):
    """The loop for numba as it is, without numba."""
    sides = {
        "kinesym": hybrid.kinesym_side(),
        "SciPy": hybrid.Side(hybrid.scipy_run, same, 1),
        "loop": hybrid.loop_side(same),
    }
    found = hybrid.verify(sides, case, true)
    assert all(len(outcome.switches) == 32 for outcome in found.values())
    assert all(3000 < outcome.evaluations < 5000 for outcome in found.values())


#: What `walkers` returns for each.
WALKER = {
    "task": "walkers",
    "method": "machine",
    "states": 13,
    "calls": 1,
    "simulated": 10.0,
    "seconds": 0.12,
    "in C": 0.11,
    "evaluations": 36465,
}
#: What `derivatives` returns for each.
GRADIENT = {
    "task": "derivatives",
    "method": "machine",
    "states": 13,
    "by": 28,
    "seconds": 0.1,
    "end": 0.4,
    "nodes": 0.5,
}


def same(thing):
    return thing


def test_what_is_wrong_is_not_timed(case, true):
    late = hybrid.Side(lambda case, rtol: hybrid.scipy_run(case, 1e-3), same, 1)
    with pytest.raises(ValueError, match=r"late: theta differs from the reference by .* are 1e-06"):
        hybrid.verify({"late": late}, case, true)
    fewer = hybrid.Outcome(true.states, true.switches[1:], 0)
    assert hybrid.errors(fewer, true)["switches"] == np.inf


def test_walkers():
    machine, body = rows = hybrid.walkers(0.1)
    assert (machine["calls"], body["calls"]) == (1, 4)
    assert all(row["evaluations"] > 100 for row in rows) and rows[0].keys() == WALKER.keys()


def test_derivatives():
    """What is differentiated, and that it is done for all."""
    rows = hybrid.derivatives(0.0, 0.1)
    by = {row["method"]: row["by"] for row in rows}
    assert by.keys() == {"knee", "foot", "machine", "body"}
    assert by["knee"] == 4 + 3 * 81 and by["foot"] == 6 + 9 * 13 and by["machine"] == 13 + 15
    assert rows[0].keys() == GRADIENT.keys()


def test_report(tmp_path, monkeypatch, capsys):
    """A second of the long run, in plain Python for what numba would compile."""
    monkeypatch.setenv(CACHE_VARIABLE, "")  # so that it is as before afterwards
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    monkeypatch.setattr(hybrid.hybrid_simulation, "HybridRun", hybrid.Watched)
    monkeypatch.setattr(hybrid, "numba_side", lambda: hybrid.loop_side(same))
    monkeypatch.setattr(hybrid, "MANY", 1)
    monkeypatch.setattr(hybrid, "RTOLS", (1e-6,))
    monkeypatch.setattr(hybrid, "walkers", lambda seconds: [WALKER])
    monkeypatch.setattr(hybrid, "derivatives", lambda seconds, end: [GRADIENT])
    words = ["--quick", "--impulses", "20", "--report", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["hybrid.py", *words])
    hybrid.main()
    printed = capsys.readouterr().out
    assert "| SciPy |" in printed and "20 impulses in 1 s" in printed
    assert "| machine | 13 | 1 | 36465 | 0.12 | 0.11 | 3.02 | 83.3 |" in printed
    assert "| machine | 13 | 28 | 100 | 400 | 4.00 | 500 | 5.00 |" in printed
    lines = (tmp_path / "hybrid.csv").read_text().splitlines()
    assert lines[0].startswith("task,method,") and len(lines) == 1 + 4 + 4 + 3 + 1 + 1
    assert (tmp_path / "hybrid.png").exists()
