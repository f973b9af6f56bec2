"""The classical explicit Runge-Kutta method, for shooting: costs at the nodes, no defects."""

from kinesym.symbolic.schemes.scheme import ExplicitScheme

RK4 = ExplicitScheme(
    name="rk4",
    nodes=(0.0, 1 / 2, 1 / 2, 1.0),
    matrix=((), (1 / 2,), (0.0, 1 / 2), (0.0, 0.0, 1.0)),
    weights=(1 / 6, 1 / 3, 1 / 3, 1 / 6),
    order=4,
    reference="Hairer, Norsett, Wanner, Solving Ordinary Differential Equations I, table II.1.2",
)
