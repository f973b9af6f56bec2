"""A chain of links on a cart, for any number of links."""

from numbers import Integral

import sympy as sp

from kinesym.base.checks import shown
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import dynamicsymbols, t


def n_link_pendulum_on_cart(n: int) -> Model:
    """n massless links with point masses at their tips on a cart that is driven by a force F [N].

    q_0 [m] is the position of the cart, q_i [rad] the absolute angle of link i, 0 upwards and
    positive counter-clockwise; gravity acts along -y. Masses m_0 ... m_n [kg], lengths l_1 ... l_n
    [m], g [m/s^2]. Defaults: all masses 1 kg, all lengths 1 m, 9.81 m/s^2.

    Kane's method, outwards for the accelerations and inwards for the sums of active and inertia
    forces: the partial velocity of every mass beyond joint j with respect to u_j is the same
    vector, so that the number of operations is linear in n. Benchmark of Moore and van den Bogert
    2015 for n = 10.

    Raises `ValueError` if n is not a positive integer.
    """
    if isinstance(n, bool) or not isinstance(n, Integral) or n < 1:
        raise ValueError(f"the number of links must be a positive integer, got {shown(n)}")
    q, u = dynamicsymbols(f"q_:{n + 1}"), dynamicsymbols(f"u_:{n + 1}")
    m, length = sp.symbols(f"m_:{n + 1}"), sp.symbols(f"l_1:{n + 1}")
    g, force = sp.Symbol("g"), dynamicsymbols("F")
    steps: list[tuple[sp.Symbol, sp.Expr]] = []

    def named(name: str, expression: sp.Expr) -> sp.Symbol:
        steps.append((sp.Symbol(name), expression))
        return steps[-1][0]

    ax, ay = u[0].diff(t), sp.S.Zero  # acceleration of the mass at hand
    partial = [(sp.S.One, sp.S.Zero)]
    inertia = [(m[0] * ax, sp.S.Zero)]  # m (a - gravity); the rail bears the cart
    for i in range(1, n + 1):
        s, c = named(f"s_{i}", sp.sin(q[i])), named(f"c_{i}", sp.cos(q[i]))
        rate, square = u[i].diff(t), named(f"w_{i}", u[i] ** 2)
        ax = named(f"ax_{i}", ax - length[i - 1] * (c * rate - s * square))
        ay = named(f"ay_{i}", ay - length[i - 1] * (s * rate + c * square))
        partial.append((-length[i - 1] * c, -length[i - 1] * s))
        inertia.append((m[i] * ax, m[i] * (ay + g)))
    kane = []
    px, py = sp.S.Zero, sp.S.Zero  # sums over all masses from joint j outwards
    for j in range(n, -1, -1):
        px, py = named(f"px_{j}", px + inertia[j][0]), named(f"py_{j}", py + inertia[j][1])
        kane.append(partial[j][0] * px + partial[j][1] * py)
    kane[-1] -= force
    return Model(
        name=f"n_link_{n}",
        states=[*q, *u],
        inputs=[force],
        parameters=[*m, *length, g],
        equations=[*(x.diff(t) - v for x, v in zip(q, u, strict=True)), *reversed(kane)],
        intermediates=[step for step in steps if step[0].name != "py_0"],
        values={**dict.fromkeys([*m, *length], 1.0), g: 9.81},
    )
