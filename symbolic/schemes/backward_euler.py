"""Backward Euler: robust, first order, numerically damping."""

from kinesym.symbolic.schemes.scheme import StageScheme

BACKWARD_EULER = StageScheme(
    name="backward-euler",
    derivative=(-1.0, 1.0),
    state=(0.0, 1.0),
    time=1.0,
    quadrature=(0.0, 1.0),
    order=1,
    reference="Moore, van den Bogert 2015, slide 'Discretization'",
)
