"""Trapezoidal rule: second order, everything known at the nodes."""

from kinesym.symbolic.schemes.scheme import NodeScheme

TRAPEZOID = NodeScheme(
    name="trapezoid",
    rates=(0.5, 0.5),
    quadrature=(0.5, 0.5),
    order=2,
    reference="Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, section II.7",
)
