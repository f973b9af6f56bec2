"""Gauss method of two stages: fourth order, without damping."""

from math import sqrt

from kinesym.symbolic.schemes.scheme import CollocationScheme

_R = sqrt(3.0)

GAUSS_4 = CollocationScheme(
    name="gauss-4",
    alias="",
    nodes=(1 / 2 - _R / 6, 1 / 2 + _R / 6),
    matrix=((1 / 4, 1 / 4 - _R / 6), (1 / 4 + _R / 6, 1 / 4)),
    weights=(1 / 2, 1 / 2),
    order=4,
    reference="Hairer, Wanner, Solving Ordinary Differential Equations II, table IV.5.1",
)
