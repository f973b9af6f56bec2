"""Iterations, factorisations and operations of solves are no more than in the record; those of
published problems are compared in `test_published.py`."""

from dataclasses import replace

import counts
import published
import pytest


@pytest.mark.parametrize("name", sorted({*counts.PROBLEMS} - {*published.PROBLEMS}))
def test_no_more_than_in_the_record(name):
    assert not list(counts.grown(counts.solved(name), counts.kept()[name]))


def test_what_has_grown_is_named():
    """Beyond rounding: iterations by a fifth and more than three, operations by a twentieth."""
    before = counts.Counts("pendulum", 100, 10, 12, 400, 1000)
    for more in (before, replace(before, iterations=13, operations=420, instructions=1050)):
        assert not list(counts.grown(more, before))
    (said,) = counts.grown(replace(before, factorisations=16), before)
    assert said == "pendulum: 16 factorisations, 12 in the record"
    (said,) = counts.grown(replace(before, operations=421), before)
    assert said == "pendulum: 421 operations, 400 in the record"
    assert not list(counts.grown(replace(before, instructions=0), before))


def test_the_record_has_every_problem():
    assert {*counts.kept()} == {*counts.PROBLEMS}


def test_bad_arguments(capsys):
    for arguments, words in (
        (["rolling_stone"], "there is no problem rolling_stone"),
        (["standing", "--write"], "name none"),
    ):
        with pytest.raises(SystemExit):
            counts.main(arguments)
        assert words in capsys.readouterr().err
