"""The classical explicit Runge-Kutta method, for shooting: costs at the nodes, no defects."""

from kinesym.symbolic.schemes.scheme import NodeScheme

RK4 = NodeScheme(
    name="rk4",
    rates=None,
    quadrature=(0.5, 0.5),
    order=4,
    reference="Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, table II.1.2",
)
