"""Radau IIA of three stages: fifth order, damps what is stiff, for algebraic equations too."""

from math import sqrt

from kinesym.symbolic.schemes.scheme import CollocationScheme

_R = sqrt(6.0)

RADAU_5 = CollocationScheme(
    name="radau-5",
    alias="",
    nodes=((4 - _R) / 10, (4 + _R) / 10, 1.0),
    matrix=(
        ((88 - 7 * _R) / 360, (296 - 169 * _R) / 1800, (-2 + 3 * _R) / 225),
        ((296 + 169 * _R) / 1800, (88 + 7 * _R) / 360, (-2 - 3 * _R) / 225),
        ((16 - _R) / 36, (16 + _R) / 36, 1 / 9),
    ),
    weights=((16 - _R) / 36, (16 + _R) / 36, 1 / 9),
    order=5,
    reference="Hairer, Wanner, Solving Ordinary Differential Equations II, table IV.5.6",
)
