"""Hermite-Simpson, the Lobatto IIIA method of three stages: fourth order."""

from kinesym.symbolic.schemes.scheme import CollocationScheme

LOBATTO_4 = CollocationScheme(
    name="lobatto-4",
    alias="hermite-simpson",
    nodes=(0.0, 1 / 2, 1.0),
    matrix=((0.0, 0.0, 0.0), (5 / 24, 1 / 3, -1 / 24), (1 / 6, 2 / 3, 1 / 6)),
    weights=(1 / 6, 2 / 3, 1 / 6),
    order=4,
    reference="Hairer, Wanner, Solving Ordinary Differential Equations II, table IV.5.7",
)
