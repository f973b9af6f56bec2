"""Implicit midpoint rule, the Gauss method of one stage: second order, without damping."""

from kinesym.symbolic.schemes.scheme import CollocationScheme

GAUSS_2 = CollocationScheme(
    name="gauss-2",
    alias="midpoint",
    nodes=(1 / 2,),
    matrix=((1 / 2,),),
    weights=(1.0,),
    order=2,
    reference="Hairer, Wanner, Solving Ordinary Differential Equations II, section IV.5; "
    "Moore, van den Bogert 2015, slide 'Discretization'",
)
