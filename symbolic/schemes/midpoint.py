"""Implicit midpoint rule: second order, without numerical damping."""

from kinesym.symbolic.schemes.scheme import StageScheme

MIDPOINT = StageScheme(
    name="midpoint",
    derivative=(-1.0, 1.0),
    state=(0.5, 0.5),
    time=0.5,
    quadrature=(0.5, 0.5),
    order=2,
    reference="Moore, van den Bogert 2015, slide 'Discretization'; explicit time at t_i + h/2",
)
