"""Radau IIA of two stages: third order, damps what is stiff, for algebraic equations too."""

from kinesym.symbolic.schemes.scheme import CollocationScheme

RADAU_3 = CollocationScheme(
    name="radau-3",
    alias="",
    nodes=(1 / 3, 1.0),
    matrix=((5 / 12, -1 / 12), (3 / 4, 1 / 4)),
    weights=(3 / 4, 1 / 4),
    order=3,
    reference="Hairer, Wanner, Solving Ordinary Differential Equations II, table IV.5.5",
)
