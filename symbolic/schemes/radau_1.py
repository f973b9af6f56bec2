"""Backward Euler, the Radau IIA method of one stage: robust, first order, damps strongly."""

from kinesym.symbolic.schemes.scheme import CollocationScheme

RADAU_1 = CollocationScheme(
    name="radau-1",
    alias="backward-euler",
    nodes=(1.0,),
    matrix=((1.0,),),
    weights=(1.0,),
    order=1,
    reference="Hairer, Wanner, Solving Ordinary Differential Equations II, section IV.5",
)
