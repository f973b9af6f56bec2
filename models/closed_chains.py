"""Mechanisms in redundant coordinates: differential-algebraic models of index 3."""

import sympy as sp

from kinesym.symbolic.model import Model
from kinesym.symbolic.names import dynamicsymbols, t


def cartesian_pendulum() -> Model:
    """A point mass m [kg] on a rod of length L [m], at (x, y) [m] from the pivot, y upwards, with
    the tension of the rod [N] as an algebraic state.

    Length, mass and gravity as in the simple pendulum of the library of benchmarks of the IFToMM
    committee for multibody dynamics (Gonzalez et al. 2006, Multibody System Dynamics 16:179).
    """
    x, y, u, v, tension = dynamicsymbols("x y u v tension")
    m, L, g = sp.symbols("m L g")
    return Model(
        name="cartesian_pendulum",
        states=[x, y, u, v, tension],
        inputs=[],
        parameters=[m, L, g],
        equations=[
            x.diff(t) - u,
            y.diff(t) - v,
            m * u.diff(t) + tension * x / L,
            m * v.diff(t) + tension * y / L + m * g,
            x**2 + y**2 - L**2,
        ],
        outputs={"energy": m * (u**2 + v**2) / 2 + m * g * y},
        values={m: 1.0, L: 1.0, g: 9.81},
        positive=[m, L],
    )


def four_bar() -> Model:
    """Three uniform rods between two pivots, each with the position (x, y) [m] of its centre and
    its angle phi [rad], and the reactions of the four joints [N] as algebraic states.

    Rod 1, the crank, turns about the pivot a = (0, 0), rod 2 couples its end b to the end c of rod
    3, which turns about the pivot d = (l_0, 0). One degree of freedom in nine coordinates. Lengths
    of a crank-rocker: the crank turns all round (Grashof: l_1 + l_0 < l_2 + l_3). 1 kg/m.
    """
    numbers = (1, 2, 3)
    m, g, (l0, *lengths) = sp.symbols("m_1:4"), sp.Symbol("g"), sp.symbols("l_:4")
    q = [dynamicsymbols(f"x_{k} y_{k} phi_{k}") for k in numbers]
    w = [dynamicsymbols(f"u_{k} v_{k} omega_{k}") for k in numbers]
    joints = ["joint_a", "joint_b", "joint_c", "joint_d"]
    forces = [dynamicsymbols(f"fx_{joint} fy_{joint}") for joint in "abcd"]

    def end(k: int, side: int) -> sp.Matrix:
        x, y, phi = q[k]
        return sp.Matrix([x, y]) + side * lengths[k] / 2 * sp.Matrix([sp.cos(phi), sp.sin(phi)])

    gaps = [
        end(0, -1),
        end(0, 1) - end(1, -1),
        end(1, 1) - end(2, 1),
        end(2, -1) - sp.Matrix([l0, 0]),
    ]
    closed, reactions = sp.Matrix.vstack(*gaps), sp.Matrix([f for pair in forces for f in pair])
    coordinates, speeds = sp.Matrix([*q[0], *q[1], *q[2]]), sp.Matrix([*w[0], *w[1], *w[2]])
    mass = [part for k in range(3) for part in (m[k], m[k], m[k] * lengths[k] ** 2 / 12)]
    weight = sp.Matrix([part for k in range(3) for part in (0, -m[k] * g, 0)])
    dynamic = sp.diag(*mass) * speeds.diff(t) - weight
    dynamic += closed.jacobian(coordinates).T * reactions
    kinetic = sum(part * speed**2 for part, speed in zip(mass, speeds, strict=True)) / 2
    points = dict(zip(joints, (end(0, -1), end(0, 1), end(1, 1), end(2, -1)), strict=True))
    return Model(
        name="four_bar",
        states=[*coordinates, *speeds, *reactions],
        inputs=[],
        parameters=[*m, l0, *lengths, g],
        equations=[*(coordinates.diff(t) - speeds), *dynamic, *closed],
        outputs={
            "energy": kinetic + sum(m[k] * g * q[k][1] for k in range(3)),
            **{f"{name}_x": point[0] for name, point in points.items()},
            **{f"{name}_y": point[1] for name, point in points.items()},
        },
        values=dict(
            zip([*m, l0, *lengths, g], [0.3, 0.9, 0.7, 1.0, 0.3, 0.9, 0.7, 9.81], strict=True)
        ),
        positive=[*m, *lengths],
        drawing=[joints],
    )
