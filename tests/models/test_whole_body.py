"""The body of 18 segments against the numbers of another implementation."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kinesym.models.whole_body import segments_of_body, whole_body

DATA = Path(__file__).parents[1] / "data"


def test_segments_of_the_reference():
    given = json.loads((DATA / "gait57_model.json").read_text())["segments"]
    made = segments_of_body(85.0, 1.82)
    assert [row.name for row in made] == [row["name"] for row in given]
    for ours, theirs in zip(made, given, strict=True):
        assert ours.proximal == theirs["proximal"]
        numbers = [ours.mass, *ours.com, *ours.inertia]
        expected = [theirs["mass"], *theirs["com"], *theirs["inertia_com_diag"]]
        np.testing.assert_allclose(numbers, expected, rtol=1e-10, atol=1e-14)
        assert ours.points.keys() == theirs["points"].keys()
        for point, place in ours.points.items():
            np.testing.assert_allclose(place, theirs["points"][point], rtol=1e-10, atol=1e-14)


def test_counts():
    """22 points; two unit vectors and three angles of each segment: 228 coordinates, 57 free."""
    rows, tree = segments_of_body(), whole_body()
    points = 1 + sum(len(row.points) for row in rows)
    assert (points, len(rows), len(tree.speeds), len(tree.coordinates)) == (22, 18, 57, 57)
    assert 3 * points + (2 * 3 + 3) * len(rows) == 228
    np.testing.assert_allclose(sum(row.mass for row in rows), 85.0, rtol=1e-12)
    model = tree.model(outputs=["center_of_mass", "places"])
    assert len(model.states) == 114 and model.explicit is not None


def test_persons_scale():
    small, tall = segments_of_body(60.0, 1.6), segments_of_body(60.0, 1.9)
    for a, b in zip(small, tall, strict=True):
        assert a.mass == b.mass
        np.testing.assert_allclose(np.array(b.inertia), np.array(a.inertia) * (1.9 / 1.6) ** 2)
    with pytest.raises(ValueError, match="must be positive, got 0"):
        segments_of_body(0.0)


def test_bad_tables():
    rows = list(segments_of_body())
    with pytest.raises(ValueError, match=r"segment 'torso': proximal point 'X' is not defined"):
        whole_body([rows[0], replace(rows[1], proximal="X")])
    with pytest.raises(ValueError, match=r"segment 'torso': point 'RH' belongs to two segments"):
        whole_body([rows[0], replace(rows[1], points={"RH": (0, 0, 0)})])
