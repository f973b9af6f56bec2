"""Gauss method of three stages: sixth order, without damping."""

from math import sqrt

from kinesym.symbolic.schemes.scheme import CollocationScheme

_R = sqrt(15.0)

GAUSS_6 = CollocationScheme(
    name="gauss-6",
    alias="",
    nodes=(1 / 2 - _R / 10, 1 / 2, 1 / 2 + _R / 10),
    matrix=(
        (5 / 36, 2 / 9 - _R / 15, 5 / 36 - _R / 30),
        (5 / 36 + _R / 24, 2 / 9, 5 / 36 - _R / 24),
        (5 / 36 + _R / 30, 2 / 9 + _R / 15, 5 / 36),
    ),
    weights=(5 / 18, 4 / 9, 5 / 18),
    order=6,
    reference="Hairer, Wanner, Solving Ordinary Differential Equations II, table IV.5.2",
)
