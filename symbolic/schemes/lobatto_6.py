"""Lobatto IIIA of four stages: sixth order."""

from math import sqrt

from kinesym.symbolic.schemes.scheme import CollocationScheme

_R = sqrt(5.0)

LOBATTO_6 = CollocationScheme(
    name="lobatto-6",
    alias="",
    nodes=(0.0, (5 - _R) / 10, (5 + _R) / 10, 1.0),
    matrix=(
        (0.0, 0.0, 0.0, 0.0),
        ((11 + _R) / 120, (25 - _R) / 120, (25 - 13 * _R) / 120, (-1 + _R) / 120),
        ((11 - _R) / 120, (25 + 13 * _R) / 120, (25 + _R) / 120, (-1 - _R) / 120),
        (1 / 12, 5 / 12, 5 / 12, 1 / 12),
    ),
    weights=(1 / 12, 5 / 12, 5 / 12, 1 / 12),
    order=6,
    reference="Hairer, Wanner, Solving Ordinary Differential Equations II, table IV.5.8",
)
