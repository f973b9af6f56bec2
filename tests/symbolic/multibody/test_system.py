"""Trees of a SymPy `System`: the equations that `form_eoms` has, for joints, loads, constraints."""

import numpy as np
import pytest
import sympy as sp
from sympy.physics import mechanics as me

import kinesym as ks

g, k, c, r, m, length = sp.symbols("g k c r m l")
F, T, P = me.dynamicsymbols("F T P")


def grounded():
    """A system whose base is a body."""
    system = me.System()
    ground = me.RigidBody("ground", masscenter=system.fixed_point, frame=system.frame)
    system.add_bodies(ground)
    return system, ground


def rod(name):
    """A body, its mass and one product of inertia symbols, and its ends."""
    body = me.RigidBody(name, mass=sp.Symbol(f"m_{name}"))
    moments = me.inertia(body.frame, 2, 3, 4, sp.Symbol(f"Ixy_{name}"), -0.1, 0.2)
    body.inertia = (moments, body.masscenter)
    return body, -length / 2 * body.y, length / 2 * body.y


def chain_on_cart():
    """Pins on a cart, with gravity, a force, torques of joints, a torque on one link alone."""
    system, ground = grounded()
    cart = me.RigidBody("cart", mass=sp.Symbol("m_cart"))
    system.add_joints(me.PrismaticJoint("rail", ground, cart, joint_axis=ground.x))
    last, tip = cart, 0 * cart.x
    for i in range(2):
        body, near, far = rod(f"link{i}")
        joint = me.PinJoint(
            f"pin{i}", last, body, parent_point=tip, child_point=near, joint_axis=last.z
        )
        system.add_joints(joint)
        torque = (T if i else 0) - k * joint.coordinates[0] - c * joint.speeds[0]
        system.add_actuators(me.TorqueActuator.at_pin_joint(torque, joint))
        last, tip = body, far
    system.apply_uniform_gravity(-g * system.y)
    system.add_loads((cart.masscenter, F * system.x), (last.frame, P * last.z + T * cart.x))
    return system


def on_a_ball(**turning):
    """Any rotation, and a force along axes of the base at a point beside."""
    system, ground = grounded()
    body, near, _ = rod("a")
    system.add_joints(me.SphericalJoint("ball", ground, body, child_point=near, **turning))
    system.apply_uniform_gravity(g * (system.x + 2 * system.z))
    point = body.masscenter.locatenew("point", 0.3 * body.x + r * body.z)
    system.add_loads((point, F * system.x - 2 * body.y), (body.frame, k * system.z))
    return system


def ball_of_space_angles():
    return on_a_ball(rot_type="SPACE", rot_order=213)


def ball_of_body_angles():
    return on_a_ball(rot_order="ZXY")


def inclined_cylinder():
    """A joint along an axis that is none of a frame, on a frame that is turned in the body."""
    system, ground = grounded()
    (a, near, far), (b, beside, _) = rod("a"), rod("b")
    tilted = me.ReferenceFrame("tilted")
    tilted.orient_axis(a.frame, a.x + a.y, 0.7)
    system.add_joints(
        me.PinJoint("pin", ground, a, child_point=near, joint_axis=ground.y + 2 * ground.z),
        me.CylindricalJoint("tube", a, b, None, None, None, None, far, beside, tilted),
    )
    system.add_loads((b.masscenter, F * tilted.y + P * system.y), (a.frame, T * tilted.x))
    return system


def planar_with_springs():
    """A planar joint, a weld, a particle, springs and dampers, masses that gravity leaves out."""
    system, ground = grounded()
    (plate, _, edge), (fin, near, _) = rod("plate"), rod("fin")
    bead = me.Particle("bead", mass=m)
    skewed = me.ReferenceFrame("skewed")
    skewed.orient_axis(plate.frame, plate.z, 0.4)
    system.add_joints(
        me.PlanarJoint("floor", ground, plate, parent_interframe=ground.z),
        me.WeldJoint(
            "glue", plate, fin, parent_point=edge, child_point=near, parent_interframe=skewed
        ),
        me.PrismaticJoint(
            "thread", fin, bead, parent_interframe=fin.x + fin.y, child_interframe=None
        ),
    )
    anchor = system.fixed_point.locatenew("anchor", r * system.x)
    anchor.set_vel(system.frame, 0)
    path = me.LinearPathway(anchor, fin.masscenter)
    system.add_actuators(
        me.LinearSpring(k, path, r),
        me.LinearDamper(c, path),
        me.TorqueActuator(T, plate.z, plate.frame),
    )
    system.add_loads((plate.masscenter, -g * plate.mass * system.y), (bead.masscenter, F * fin.y))
    return system


def held():
    """A chain of two whose tip is held on a line, by coordinates, and a rate that is given."""
    system = chain_on_cart()
    q, u = list(system.q), list(system.u)
    system.add_holonomic_constraints(sp.cos(q[1]) + sp.cos(q[1] + q[2]) - r)
    system.add_nonholonomic_constraints(u[0] - k * q[1] * u[1])
    system.q_ind, system.q_dep = q[:2], q[2:]
    system.u_ind, system.u_dep = u[:1], u[1:]
    return system


@pytest.mark.filterwarnings(r"ignore:\s+Velocity of:UserWarning")  # SymPy knows two ways
@pytest.mark.parametrize(
    "make",
    [
        chain_on_cart,
        ball_of_body_angles,
        ball_of_space_angles,
        inclined_cylinder,
        planar_with_springs,
        held,
    ],
)
def test_equations_are_those_of_form_eoms(make, rows_of):
    system = make()
    ours = ks.Model.from_system(system)
    system.form_eoms()
    theirs = ks.Model.from_kane(system)
    assert ours.state_names == theirs.state_names
    assert set(ours.input_names) == set(theirs.input_names)
    assert set(theirs.parameter_names) <= set(ours.parameter_names)
    rng = np.random.default_rng(1)
    names = [*ours.state_names, *ours.input_names, *ours.parameter_names]
    numbers = {name: rng.uniform(0.3, 1.3, 40) for name in names}
    numbers |= {f"{name}'": rng.normal(size=40) for name in ours.state_names}
    found, expected = rows_of(ours, numbers), rows_of(theirs, numbers)
    expected[: len(system.q)] *= -1.0  # q' - u, not u - q'
    np.testing.assert_allclose(found, expected, atol=1e-12 * np.abs(expected).max())
    if not make().holonomic_constraints:
        rates = rows_of(ours, numbers, explicit=True)
        numbers |= {f"{name}'": x for name, x in zip(ours.state_names, rates, strict=True)}
        left = rows_of(ours, numbers)
        np.testing.assert_allclose(left, 0.0, atol=1e-9 * np.abs(expected).max())


def pendulum(**more):
    system, ground = grounded()
    q, u = me.dynamicsymbols("q u")
    bob = me.RigidBody("a bob")
    joint = me.PinJoint("pin", ground, bob, **{"coordinates": q, "speeds": u} | more)
    system.add_joints(joint)
    return system, bob, joint


def test_symbols_and_names_are_the_users():
    system, bob, _ = pendulum(speeds=me.dynamicsymbols("q", 1), child_point=r * me.Vector(0))
    system.add_loads((bob.frame, T * bob.x + k * me.dynamicsymbols("q", 1) * system.x))
    outputs = [{"twice": 2 * T}, "attitudes"]
    model = ks.Model.from_system(system, outputs, "swing", {"k": 2.0}, {T: "N m"})
    assert model.name == "swing" and model.state_names == ("q", "q_rate")
    assert (
        model.input_names == ("T",) and model.units == {"T": "N m"} and model.values == {"k": 2.0}
    )
    assert {"twice", "a_bob_attitude_xy"} <= set(model.outputs)
    with pytest.raises(ValueError, match="values of model system: kk is unknown"):
        ks.Model.from_system(system, values={"kk": 1.0})


class Screw(me.PinJoint):
    """A joint of one's own."""


def no_tree(change):
    """A pendulum to which something is done that no tree can say."""
    system, bob, joint = pendulum()
    change(system, bob, joint)
    return system


def of_two_joints(system, bob, joint):
    system.add_joints(me.WeldJoint("weld", joint.parent, bob))


def on_its_own_screw(system, bob, joint):
    system.add_joints(Screw("screw", bob, me.Particle("nut")))


def with_potential_energy(system, bob, joint):
    bob.potential_energy = k


def with_a_speed_that_is_no_rate(system, bob, joint):
    system.kdes = [joint.speeds[0] - 2 * joint.coordinates[0].diff()]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (of_two_joints, "body a bob is the child of 2 joints"),
        (on_its_own_screw, "joint screw is a Screw, none of SymPy's; call form_eoms"),
        (with_potential_energy, "body a bob has a potential energy"),
        (with_a_speed_that_is_no_rate, r"equation u . 2\*Derivative\(q, t\) is of no joint; call"),
        (lambda s, b, j: s.add_auxiliary_speeds(P), "the auxiliary speed P is of no joint"),
        (lambda s, b, j: s.add_coordinates(P), "the coordinate P is of no joint"),
        (lambda s, b, j: s.add_bodies(me.RigidBody("tool")), "body tool is moved by no joint"),
        (lambda s, b, j: s.add_loads((me.Point("lost"), s.x)), "load at lost is on what is fixed"),
        (
            lambda s, b, j: s.add_loads((b.frame, me.ReferenceFrame("Z").x)),
            "axes of Z, which no body",
        ),
        (
            lambda s, b, j: s.add_loads((b.frame, F.diff() * b.x)),
            r"contains Derivative\(F\(t\), t\)",
        ),
        (
            lambda s, b, j: setattr(s, "velocity_constraints", [P]),
            "velocity_constraints of its own",
        ),
    ],
)
def test_what_is_no_tree_is_named_with_a_remedy(change, sentence):
    with pytest.raises(ValueError, match=sentence):
        ks.Model.from_system(no_tree(change))


def test_a_system_is_expected():
    with pytest.raises(ValueError, match="expected a System of sympy"):
        ks.Model.from_system(None)
