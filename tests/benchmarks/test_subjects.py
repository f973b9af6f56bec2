"""What more subjects cost: a small case of the benchmark."""

import subjects


def test_two_subjects():
    cost = subjects.measured(2, 120)
    assert cost.subjects == 2 and 0 < cost.iterations < 50
    assert cost.off < 3.0  # estimates are where their standard errors say
    assert len(subjects.cells(cost)) == len(subjects.HEADER) + 2
