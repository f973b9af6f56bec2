"""Mechanisms in redundant coordinates: differential-algebraic models of index 3."""

from functools import partial
from itertools import pairwise
from typing import Any

import sympy as sp

from kinesym.symbolic.model import Model
from kinesym.symbolic.multibody.bodies import Body, Load
from kinesym.symbolic.multibody.joints import Revolute
from kinesym.symbolic.multibody.tree import Tree
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


def _spring(c: tuple[float, ...], tree: Tree) -> list[Load]:
    """Loads on the squeezer: its spring, from the third body to the place c, and the torque that
    drives the first."""
    hook = (2e-2, -18e-3, 0)
    reach = [there - here for there, here in zip(c, tree.place("k3", hook), strict=True)]
    length = sp.sqrt(reach[0] ** 2 + reach[1] ** 2)
    pull = [4530 * (length - 0.07785) / length * part for part in reach]
    return [Load("k3", pull, at=hook), Load("k1", torque=(0, 0, 0.033))]


def squeezer() -> Tree:
    """Andrews' squeezing mechanism: seven bodies in the plane x, y, without gravity, driven by
    0.033 N m at the crank `k1` against a spring at `k3`; a benchmark of multibody programs.

    Geometry, masses and spring as in the test set for initial value problems (Mazzia, Magherini
    2008, Test Set for Initial Value Problem Solvers, release 2.4, problem andrews; Schiehlen 1990,
    Multibody Systems Handbook). Angles there are `k1_z` (beta), `k2_z` (Theta), `k3_z` (gamma),
    `k4_z` (Phi), `k5_z` (delta), `k6_z` (Omega), `k7_z` (epsilon), and stretched out at zero.
    """
    a, b, c = (-0.06934, -0.00227, 0), (-0.03635, 0.03273, 0), (0.014, 0.072, 0)
    rr, d, ss, zt, u, e, zf = 7e-3, 28e-3, 35e-3, 4e-2, 4e-2, 2e-2, 2e-2
    table = [  # name, mass, moment about z, centre of mass, joint, parent
        ("k1", 0.04325, 2.194e-6, (92e-5, 0, 0), (0, 0, 0), None),
        ("k2", 0.00365, 4.410e-7, (-115e-4, 0, 0), (rr, 0, 0), "k1"),
        ("k3", 0.02373, 5.255e-6, (1043e-5, -1874e-5, 0), b, None),
        ("k5", 0.07050, 1.169e-5, (2308e-5, 916e-5, 0), a, None),
        ("k4", 0.00706, 5.667e-7, (0, 1421e-5 - e, 0), (zt, 0, 0), "k5"),
        ("k7", 0.05498, 1.912e-5, (-449e-5, -1228e-5, 0), a, None),
        ("k6", 0.00706, 5.667e-7, (zf - 1421e-5, 0, 0), (0, -u, 0), "k7"),
    ]
    bodies = [
        Body(name, mass, com, (moment, moment, moment), Revolute("z"), at, parent)
        for name, mass, moment, com, at, parent in table
    ]

    tree = Tree("squeezer", bodies, gravity=(0, 0, 0), loads=partial(_spring, c))
    for name, end in (("k3", (0, -ss, 0)), ("k4", (0, -e, 0)), ("k6", (zf, 0, 0))):
        tree = tree.close("k2", name, at=(-d, 0, 0), to=end)
    return tree


def flexible_slider_crank() -> Model:
    """A slider-crank whose connecting rod bends and stretches, the crank turned at Omega [rad/s];
    a stiff benchmark of index 3.

    Two sines across the rod, q_1 and q_2 [m], a quadratic element along it, q_3 and q_4 [m];
    angles of crank and rod phi_1, phi_2 [rad], place of the block x_3 [m]; the multipliers are
    forces [N] of the closed chain, lam_1 and lam_2, and the moment of the drive, lam_3 [N m].
    Masses, beam and its matrices as in the test set for initial value problems (Mazzia, Magherini
    2008, Test Set for Initial Value Problem Solvers, release 2.4, problem crank, with linear
    stiffness and without damping; Simeon 1996, Mathematical Modelling of Systems 2:1), which has
    pi to 8 digits.
    """
    q = sp.Matrix(dynamicsymbols("phi_1 phi_2 x_3 q_1:5"))
    v = sp.Matrix(dynamicsymbols("omega_1 omega_2 u_3 w_1:5"))
    forces = sp.Matrix(dynamicsymbols("lam_1:4"))
    J1, J2, m2, m3, l1, l2, rho, E, b, h, Omega = symbols = sp.symbols(
        "J_1 J_2 m_2 m_3 l_1 l_2 rho E b h Omega"
    )
    mass, stiffness, coupling, c1, c2, c12, c21 = _beam(l2, rho, E, b, h)
    e, across = q[3:, :], q[0] - q[1]
    cos, sin = sp.cos(across), sp.sin(across)
    M = sp.diag(J1 + m2 * l1**2, J2 + (e.T * mass * e)[0] + 2 * rho * c12.dot(e), m3, mass)
    M[0, 1] = M[1, 0] = l1 * (l2 * m2 * cos / 2 + rho * (sin * c2.dot(e) + cos * c1.dot(e)))
    M[3:, 0] = rho * l1 * (cos * c2 - sin * c1)
    M[3:, 1] = rho * (c21 + coupling.T * e)
    M[:2, 3:] = M[3:, :2].T
    kinetic, potential = (v.T * M * v)[0] / 2, (e.T * stiffness * e)[0] / 2
    reach = l2 + q[6]
    closed = sp.Matrix(
        [
            l1 * sp.sin(q[0]) + reach * sp.sin(q[1]),
            q[2] - l1 * sp.cos(q[0]) - reach * sp.cos(q[1]),
            q[0] - Omega * t,
        ]
    )
    momenta = (M * v).diff(t).subs(dict(zip(q.diff(t), v, strict=True)))
    lagrangian = sp.Matrix([kinetic - potential])
    dynamic = momenta - lagrangian.jacobian(q).T + closed.jacobian(q).T * forces
    values = [2.727e-3, 4.5339259e-3, 0.151104, 0.075552, 0.15, 0.3, 7870.0, 2e11, 8e-3, 8e-3, 150]
    return Model(
        name="flexible_slider_crank",
        states=[*q, *v, *forces],
        inputs=[],
        parameters=symbols,
        equations=[*(q.diff(t) - v), *dynamic, *closed],
        outputs={"energy": kinetic + potential},
        values=dict(zip(symbols, values, strict=True)),
        positive=symbols[:-1],
    )


def _beam(length: Any, rho: Any, E: Any, b: Any, h: Any) -> tuple[sp.Matrix, ...]:
    """Mass, stiffness and gyroscopic coupling (4, 4) of a beam of section b x h, and its moments
    c_1, c_2, c_12, c_21 (4, 1): integrals of the shape functions (Simeon 1996, appendix)."""
    pi, R = sp.Float("3.1415927"), sp.Rational
    volume, bending = length * b * h, pi**4 * (h / length) ** 2
    mass = rho * volume * sp.diag(R(1, 2), R(1, 2), sp.Matrix([[8, 1], [1, 2]]))
    along = sp.Matrix([[16, -8], [-8, 7]]) / 3
    stiffness = E * b * h / length * sp.diag(bending / 24, bending * R(2, 3), along)
    half = sp.zeros(4)
    half[0, 2], half[0, 3], half[1, 3] = -16 / pi**3, 8 / pi**3 - 1 / pi, 1 / (2 * pi)
    moments = (
        volume * sp.Matrix([0, 0, R(2, 3), R(1, 6)]),
        volume * sp.Matrix([2 / pi, 0, 0, 0]),
        volume * length * sp.Matrix([0, 0, R(1, 3), R(1, 6)]),
        volume * length * sp.Matrix([1 / pi, -1 / (2 * pi), 0, 0]),
    )
    return mass, stiffness, volume * (half - half.T), *moments


def bricard() -> Tree:
    """Bricard's mechanism: five rods of 1 m, 1 kg and a square section of 0.1 m, hinged to one
    another and to the ground at six corners of a cube; gravity along -y.

    By the count of its joints it could not move, and it has one degree of freedom: of the five
    conditions of the last hinge one follows from the others. Dimensions of problem A04 of the
    library of benchmarks of the IFToMM committee for multibody dynamics (Gonzalez et al. 2006,
    Multibody System Dynamics 16:179). Angles are zero at the start, where all corners are right.
    """
    corners = [(0, 0, 0), (1, 0, 0), (1, -1, 0), (1, -1, 1), (0, -1, 1), (0, 0, 1)]
    axes, side = "yzxyz", sp.Rational(1, 10)
    rods = [tuple(b - a for a, b in zip(*ends, strict=True)) for ends in pairwise(corners)]
    bodies = []
    for k, rod in enumerate(rods):
        inertia = [side**2 / 6 if length else (1 + side**2) / 12 for length in rod]
        middle = [sp.Rational(length, 2) for length in rod]
        at, parent = (rods[k - 1], f"rod{k}") if k else (corners[0], None)
        bodies.append(Body(f"rod{k + 1}", 1, middle, inertia, Revolute(axes[k]), at, parent))
    tree = Tree("bricard", bodies, gravity=(0, -9.81, 0))
    return tree.close("rod5", kind="hinge", at=rods[-1], to=corners[-1], axis="x")
