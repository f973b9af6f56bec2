"""The suite motionbench: its files are what its declarations say, and scores are right."""

import json
import re
import sys

import numpy as np
import pytest
from motionbench import reference, score, suite

PROBLEMS = suite.all_problems()
#: Cheap to simulate: inputs, events, kinks, clocks, trials.
CHEAP = ["cart_pole", "rocking_block", "hopper", "gyro_bias", "knees_of_four"]
KINDS = {
    *("unstable", "closed loop", "unknown input", "errors in variables", "delay", "contact"),
    *("impact", "friction", "several subjects", "unknown sigma", "gaps", "multi-rate"),
    *("bad guesses", "10^5 samples", "cannot be known"),
}


def test_every_kind_is_there():
    found = [kind for each in PROBLEMS.values() for kind in each.statement["kinds"]]
    assert len(PROBLEMS) >= 25 and {*found} >= KINDS


@pytest.mark.parametrize("name", PROBLEMS)
def test_files_are_as_declared_and_keep_the_truth_apart(name):
    statement, truth = PROBLEMS[name]
    text = (suite.HERE / "data" / name / "statement.json").read_text()
    assert json.loads(text) == json.loads(json.dumps(statement))
    kept = json.loads((suite.HERE / "truth" / f"{name}.json").read_text())
    assert kept["parameters"] == truth["parameters"]
    assert [*kept["parameters"]] == statement["report"]
    lost = [k for k, v in kept["least_standard_errors"].items() if v is None]
    assert lost == truth["cannot_be_known"] or not kept["least_standard_errors"]
    for row in statement["unknown"].values():
        assert row["low"] <= row["guess"] <= row["high"] and "truth" not in row
    for key, value in truth["parameters"].items():
        row = statement["unknown"][key.split("[")[0]]
        assert row["low"] < value < row["high"]


@pytest.mark.parametrize("name", CHEAP)
def test_the_truth_gives_the_record_but_for_noise(name):
    """The record in the repository is record 0, its chi-square that of its noise."""
    statement, truth = PROBLEMS[name]
    kept = suite.read_record(suite.HERE / "data" / name / "record_0")
    made = suite.record(name, 0)
    assert {*kept} == {*made}
    squares, count = 0.0, 0
    for k in range(len(statement["trials"])):
        _, clean = suite.true_samples(name, k, 0)
        for key, row in statement["measured"].items():
            file = f"{row['clock']}.{k}.csv"
            np.testing.assert_allclose(kept[file][key], made[file][key], rtol=1e-5, atol=1e-9)
            off = (kept[file][key] - clean[key]) / truth["std"][key]
            squares, count = squares + np.nansum(off**2), count + np.isfinite(off).sum()
    assert abs(squares - count) < 4.0 * np.sqrt(2.0 * count)
    assert any(
        np.any(suite.record(name, 1)[file][key] != columns[key])
        for file, columns in made.items()
        for key in columns
    )


def test_the_reference_finds_impacts_and_delays():
    """A ball without drag, and x' = -x(t - 1) from 1, in closed form."""
    statement = json.loads(json.dumps(PROBLEMS["bouncing_ball"].statement))
    motion = reference.Simulator(statement)(
        {"e": 0.5, "d": 0.0, "g": 8.0}, {"y": 1.0, "v": 0.0}, {}
    )
    times = [when for when, _ in motion.events]
    np.testing.assert_allclose(times[:3], [0.5, 1.0, 1.25], rtol=1e-10)
    late = {
        "states": {"x": {}},
        "inputs": {},
        "known": {},
        "unknown": {"tau": {}},
        "delays": ["tau"],
        "rates": {"x": "-delayed(x, tau)"},
        "clocks": {"main": {"stop": 2.0}},
    }
    run = reference.Simulator(late)({"tau": 1.0}, {"x": 1.0}, {})
    at = np.array([0.5, 1.5, 2.0])
    exact = 1.0 - at + np.maximum(at - 1.0, 0.0) ** 2 / 2.0
    np.testing.assert_allclose(run.states(at)[0], exact, atol=1e-9)


def test_scores_of_answers_made_up():
    """Four records: right, off by two standard errors, lost, with a wrong verdict."""
    truth = {
        "parameters": {"a": 1.0, "b": 5.0},
        "cannot_be_known": ["b"],
        "least_standard_errors": {"a": 0.05, "b": None},
    }
    base = {"problem": "p", "cpu": 2.0, "cannot_be_known": ["b"], "standard_errors": {"a": 0.1}}
    answers = [
        {**base, "parameters": {"a": 1.0, "b": 0.0}, "first": True, "cpu": 5.0},
        {**base, "parameters": {"a": 1.2, "b": 0.0}},
        {**base, "parameters": {"a": 1.5, "b": 0.0}},
        {**base, "parameters": {"a": 1.0, "b": 0.0}, "cannot_be_known": []},
    ]
    found = score.scored("p", "t", answers, truth)
    assert (found.records, found.failures) == (4, 2)
    assert (found.inside, found.intervals) == (2, 4)
    assert found.error == pytest.approx(np.sqrt(2.0)) and found.width == pytest.approx(2.0)
    assert found.loss == pytest.approx(np.sqrt(8.0)) and (found.cpu, found.first) == (2.0, 5.0)
    refused = score.scored("p", "t", [{"refused": "delays", "cpu": 0.0}], truth)
    assert refused.failures == 0 and "refused: delays" in score.cells(refused)
    failed = score.scored("p", "t", [{"failed": "no", "cpu": 0.0}], truth)
    assert failed.failures == 1 and np.isnan(failed.cpu)


def test_the_suite_imports_no_tool():
    """But NumPy and SciPy, outside the adapters."""
    files = [*suite.HERE.glob("*.py"), *(suite.HERE / "problems").glob("*.py")]
    text = "".join(path.read_text() for path in files)
    found = {*re.findall(r"^ *(?:import|from) ([a-z]\w*)", text, re.M)}
    assert found - {*sys.stdlib_module_names} == {"numpy", "scipy"}


def test_equations_are_arithmetic():
    from motionbench.equations import OF_NUMBERS, value

    assert value("-a**2 + max(a, 4)", {"a": 3.0}, OF_NUMBERS) == -5.0
    for text in ("__import__('os')", "a.b", "[a]", "a if a else 1", "open(a)"):
        with pytest.raises(ValueError):
            value(text, {"a": 1.0}, OF_NUMBERS)
