"""Trapezoidal rule, the Lobatto IIIA method of two stages: second order, all at the nodes."""

from kinesym.symbolic.schemes.scheme import CollocationScheme

LOBATTO_2 = CollocationScheme(
    name="lobatto-2",
    alias="trapezoid",
    nodes=(0.0, 1.0),
    matrix=((0.0, 0.0), (1 / 2, 1 / 2)),
    weights=(1 / 2, 1 / 2),
    order=2,
    reference="Hairer, Wanner, Solving Ordinary Differential Equations II, table IV.5.7",
)
