"""Inverse dynamics against Newton and Euler segment by segment, Pinocchio, and energy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

import kinesym as ks
from kinesym.gait import Body, NaturalBody, Samples, Wrench, segments_of_body
from kinesym.gait.inverse import flexion_angle
from kinesym.runtime.results.trajectory import Trajectory

pin = pytest.importorskip("pinocchio")

ROWS = segments_of_body(80.0, 1.8)
NAMES = [row.name for row in ROWS]
NATURAL = NaturalBody(ROWS)
G = np.array([0.0, 0.0, -9.81])


@pytest.fixture(scope="module")
def body():
    return Body(ROWS)


def random_motion(count=4, seed=0):
    """States that have nothing to do with each other; abduction well below 90 degrees."""
    rng = np.random.default_rng(seed)
    z, zd, zdd = (rng.uniform(-1, 1, (57, count)) * scale for scale in (3.0, 4.0, 30.0))
    z[3::3] /= 3.0
    return Samples(0.01 * np.arange(count), z, zd, zdd)


def smooth_motion(time, seed=0):
    """Sines along all coordinates around standing upright, with exact rates."""
    rng = np.random.default_rng(seed)
    size, at = rng.uniform(0.1, 0.4, (57, 1)), np.zeros((57, 1))
    at[2] = 1.0
    a, b = rng.uniform(3, 9, (57, 1)), rng.uniform(0, 6, (57, 1))
    z, zd, zdd = (size * f(a * time + b) for f in (np.sin, np.cos, np.sin))
    return Samples(time, at + z, a * zd, -a * a * zdd)


def random_wrench(time, seed):
    rng = np.random.default_rng(seed)
    force, moment = (
        rng.uniform(low, high, (3, len(time))) for low, high in ((-300, 900), (-90, 90))
    )
    return Wrench(time, force, moment)


@pytest.fixture(scope="module")
def needed(body):
    return body.inverse(random_motion())


def test_results_are_shown_in_one_line(body, needed):
    assert repr(body) == "<body of 18 segments, 80 kg>"
    span = "4 samples, t = 0 ... 0.03 s"
    assert repr(needed) == f"<inverse dynamics of 18 segments: {span}>"
    assert repr(needed.joints({})) == f"<reaction wrenches of 18 joints: {span}>"


# -- kinematics of the test: rotations of SciPy, derivatives by complex steps -----------------


def rotation(angles):
    """A and H of the angles (3,), also complex."""
    (sa, sb, sc), (ca, cb, cc) = np.sin(angles), np.cos(angles)
    y = np.array([[cb, 0, sb], [0, 1, 0], [-sb, 0, cb]])
    x = np.array([[1, 0, 0], [0, ca, -sa], [0, sa, ca]])
    z = np.array([[cc, -sc, 0], [sc, cc, 0], [0, 0, 1]])
    return y @ x @ z, np.column_stack([y[:, 0], [0, 1, 0], (y @ x)[:, 2]])


def turning(z, zd, zdd):
    """A, angular velocity and acceleration in world axes at one instant."""
    A, H = rotation(z)
    change = rotation(z + 1e-30j * zd)[1].imag / 1e-30
    return A, H @ zd, H @ zdd + change @ zd


class Newton:
    """Segments of a motion at one instant: positions, velocities, accelerations, what they need."""

    def __init__(self, motion, k):
        z, zd, zdd = (part[:, k] for part in (motion.z, motion.zd, motion.zdd))
        point = {"J1": (z[:3], zd[:3], zdd[:3])}
        self.turning, self.position, self.parent = {}, {}, {}
        self.force, self.moment = {}, {}  # of inertia less weight, the moment about the joint
        owner = {"J1": None}
        for n, row in enumerate(ROWS):
            own = slice(3 + 3 * n, 6 + 3 * n)
            A, w, dw = turning(z[own], zd[own], zdd[own])
            at, velocity, acceleration = point[row.proximal]

            def moved(position, A=A, w=w, dw=dw, at=at, v=velocity, a=acceleration):
                arm = A @ np.array(position)
                return (
                    at + arm,
                    v + np.cross(w, arm),
                    a + np.cross(dw, arm) + np.cross(w, np.cross(w, arm)),
                )

            point |= {name: moved(position) for name, position in row.points.items()}
            owner |= dict.fromkeys(row.points, row.name)
            centre, _, a = moved(row.com)
            inertia = A @ np.diag(row.inertia) @ A.T
            self.force[row.name] = row.mass * (a - G)
            self.moment[row.name] = (
                inertia @ dw
                + np.cross(w, inertia @ w)
                + np.cross(centre - at, self.force[row.name])
            )
            self.turning[row.name], self.position[row.name] = (A, w), (at, velocity)
            self.parent[row.name] = owner[row.proximal] or ("pelvis" if n else None)

    def joints(self, loads):
        """Force and torque from the parent on each segment; loads are (force, moment about the
        origin) by segment. From the outermost segments inwards."""
        forces, torques = {}, {}
        for name in reversed(NAMES):
            at = self.position[name][0]
            force, torque = self.force[name].copy(), self.moment[name].copy()
            for child in (n for n in NAMES if self.parent[n] == name):
                arm = self.position[child][0] - at
                force += forces[child]
                torque += torques[child] + np.cross(arm, forces[child])
            if name in loads:
                F, M = loads[name]
                force -= F
                torque -= M - np.cross(at, F)
            forces[name], torques[name] = force, torque
        return forces, torques


# -- what a motion needs ----------------------------------------------------------------------


@pytest.mark.study
def test_generalised_forces(body):
    """Total force and torques from the world are those of the natural coordinates, at states that
    another implementation does not choose."""
    for seed in range(3):
        motion = random_motion(3, seed)
        found = body.inverse(motion)
        Q = NATURAL.forces(motion.z, motion.zd, motion.zdd)
        np.testing.assert_allclose(found.total.force, Q[:3], atol=1e-9)
        for k in range(18):
            own = slice(3 + 3 * k, 6 + 3 * k)
            for n in range(3):
                _, H = rotation(motion.z[own, n])
                np.testing.assert_allclose(H.T @ found.torque[k, :, n], Q[own, n], atol=1e-9)
        np.testing.assert_allclose(found.forces, Q, atol=1e-9)
        np.testing.assert_allclose(
            found.total.about(motion.z[:3]), found.torque.sum(axis=0), atol=1e-9
        )


def test_multipliers(needed):
    """At a point that does not span its segment: with which the left leg pulls at the hip, by
    Newton's law in the test; names and values are those of natural coordinates."""
    found = needed.multipliers()
    for n in range(len(needed.time)):
        other = Newton(needed.kinematics, n)
        pull = -sum(other.force[name] for name in ("Lthigh", "Lshank", "Lhindfoot", "Lforefoot"))
        ours = [found[f"pelvis: point LH {axis}"][n] for axis in "xyz"]
        np.testing.assert_allclose(ours, pull, atol=1e-9)
    assert len(found) == 171
    assert "pelvis: u.v" in needed.multipliers("orthonormal")


def test_places_and_attitudes(needed):
    motion = needed.kinematics
    still = NATURAL.kinematics(motion.z, motion.zd, motion.zdd)
    for k, row in enumerate(ROWS):
        at = 3 * NATURAL.points[row.proximal]
        np.testing.assert_allclose(needed.position[k], still.q[at : at + 3], atol=1e-12)
        A = Rotation.from_euler("YXZ", motion.z[[4 + 3 * k, 3 + 3 * k, 5 + 3 * k]].T).as_matrix()
        np.testing.assert_allclose(needed.attitude[k], A.transpose(1, 2, 0), atol=1e-14)
        for n in range(len(motion.time)):
            own = slice(3 + 3 * k, 6 + 3 * k)
            _, w, _ = turning(*(part[own, n] for part in (motion.z, motion.zd, motion.zdd)))
            np.testing.assert_allclose(needed.angular_velocity[k, :, n], w, atol=1e-12)


def pinocchio_model():
    """A free-flyer, the pelvis, and 17 spherical joints."""
    model, owner = pin.Model(), {"J1": ("pelvis", np.zeros(3))}
    model.gravity.linear = G
    for row in ROWS:
        parent, at = owner[row.proximal]
        first = row.name == "pelvis"
        joint = model.addJoint(
            0 if first else model.getJointId(parent),
            pin.JointModelFreeFlyer() if first else pin.JointModelSpherical(),
            pin.SE3(np.eye(3), np.zeros(3) if first else np.array(at)),
            row.name,
        )
        inertia = pin.Inertia(row.mass, np.array(row.com), np.diag(row.inertia))
        model.appendBodyToJoint(joint, inertia, pin.SE3.Identity())
        owner |= {point: (row.name, position) for point, position in row.points.items()}
    return model, {row.name: owner[row.proximal][0] for row in ROWS}


def test_pinocchio(needed):
    """Recursive Newton-Euler: the wrench of the base is the total one, torques of spherical joints
    those of joints without loads."""
    model, parents = pinocchio_model()
    data, motion, free = model.createData(), needed.kinematics, needed.joints({})
    for n in range(len(motion.time)):
        z, zd, zdd = (part[:, n] for part in (motion.z, motion.zd, motion.zdd))
        parts = {
            name: turning(z[k : k + 3], zd[k : k + 3], zdd[k : k + 3])
            for name, k in zip(NAMES, range(3, 57, 3), strict=True)
        }
        q, v, a = np.zeros(model.nq), np.zeros(model.nv), np.zeros(model.nv)
        for name, (A, w, dw) in parts.items():
            joint = model.joints[model.getJointId(name)]
            to, at = slice(joint.idx_q, joint.idx_q + joint.nq), joint.idx_v
            if name == "pelvis":
                q[to] = [*z[:3], *Rotation.from_matrix(A).as_quat()]
                v[at : at + 6] = np.r_[A.T @ zd[:3], A.T @ w]
                a[at : at + 6] = np.r_[A.T @ (zdd[:3] - np.cross(w, zd[:3])), A.T @ dw]
                continue
            B, wb, dwb = parts[parents[name]]
            q[to] = Rotation.from_matrix(B.T @ A).as_quat()
            v[at : at + 3] = A.T @ (w - wb)
            a[at : at + 3] = A.T @ (dw - dwb - np.cross(w, w - wb))
        tau = pin.rnea(model, data, q, v, a)
        for k, name in enumerate(NAMES):
            A, at = parts[name][0], model.joints[model.getJointId(name)].idx_v
            if name == "pelvis":
                force, moment = A @ tau[at : at + 3], A @ tau[at + 3 : at + 6]
                about = needed.total.about(motion.z[:3])
                np.testing.assert_allclose(needed.total.force[:, n], force, atol=1e-9)
                np.testing.assert_allclose(about[:, n], moment, atol=1e-9)
                np.testing.assert_allclose(free.torque[0, :, n], moment, atol=1e-9)
                continue
            np.testing.assert_allclose(free.torque[k, :, n], A @ tau[at : at + 3], atol=1e-9)


# -- joints -----------------------------------------------------------------------------------


def test_newton_and_euler(needed):
    """With wrenches on both forefeet, a hindfoot, a hand and the torso."""
    time = needed.time
    loads = {
        name: random_wrench(time, seed)
        for seed, name in enumerate(("Rforefoot", "Lforefoot", "Lhindfoot", "Rhand", "torso"))
    }
    found = needed.joints(loads)
    rest_force, rest_torque = found.residual.force, found.residual.about(needed.kinematics.z[:3])
    for n in range(len(time)):
        other = Newton(needed.kinematics, n)
        forces, torques = other.joints(
            {name: (w.force[:, n], w.moment[:, n]) for name, w in loads.items()}
        )
        for k, name in enumerate(NAMES):
            np.testing.assert_allclose(found.force[k, :, n], forces[name], atol=1e-9)
            np.testing.assert_allclose(found.torque[k, :, n], torques[name], atol=1e-9)
        np.testing.assert_allclose(rest_force[:, n], forces["pelvis"], atol=1e-9)
        np.testing.assert_allclose(rest_torque[:, n], torques["pelvis"], atol=1e-9)


@given(
    seed=st.integers(0, 2**31),
    names=st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True),
)
@settings(max_examples=30, deadline=None)
def test_nothing_is_left_over(needed, seed, names):
    """However the total is split, and on whichever segments: the residual vanishes."""
    rest, loads = needed.total, {}
    for k, name in enumerate(names[:-1]):
        loads[name] = random_wrench(needed.time, seed % 10**6 + k)
        rest = rest - loads[name]
    loads[names[-1]] = rest
    found = needed.joints(loads)
    for part in (found.force[0], found.torque[0], found.residual.force, found.residual.moment):
        np.testing.assert_allclose(part, 0.0, atol=1e-8)
    assert found.loads.keys() == set(names)


def test_under_foot(needed):
    """On which segment of a foot the ground acts changes the torque between both alone."""
    wrench = random_wrench(needed.time, 3)
    position = needed.position[NAMES.index("Rforefoot")]
    ahead = needed.attitude[NAMES.index("Rhindfoot")][:, 0]
    sides = np.array([1.0, -1.0, 1.0, -1.0])  # of the ball
    cop = position + 0.05 * sides * ahead
    force = np.array([[10.0], [-20.0], [700.0]]) * np.ones(4)
    wrench = Wrench(needed.time, force, np.cross(cop, force, axis=0))
    found = needed.joints(needed.under_foot("right", wrench))
    level = wrench.cop()
    behind = np.einsum("in,in->n", level - position, ahead) <= 0.0
    for hind in (True, False):
        one = needed.joints({"Rhindfoot" if hind else "Rforefoot": wrench})
        for k, name in enumerate(NAMES):
            if name == "Rforefoot":
                same = behind == hind
                np.testing.assert_allclose(
                    found.torque[k][:, same], one.torque[k][:, same], atol=1e-9
                )
                continue
            np.testing.assert_allclose(found.torque[k], one.torque[k], atol=1e-9)
            np.testing.assert_allclose(found.force[k], one.force[k], atol=1e-9)
    parts = needed.under_foot("right", wrench)
    both = parts["Rhindfoot"] + parts["Rforefoot"]
    np.testing.assert_allclose(both.force, wrench.force, atol=0)
    np.testing.assert_allclose(both.moment, wrench.moment, atol=0)


# -- signs ------------------------------------------------------------------------------------


def posture(angles, root=(0.0, 0.0, 1.0)):
    """At rest with these angles beta [rad]."""
    z = np.zeros((57, 3))
    z[:3] = np.array(root)[:, None]
    for name, beta in angles.items():
        z[4 + 3 * NAMES.index(name)] = beta
    return Samples(np.arange(3.0), z, 0 * z, 0 * z)


@pytest.fixture(scope="module")
def light():
    """A body that weighs next to nothing, so that the ground alone counts."""
    return Body(segments_of_body(1e-9, 1.8))


def ground(position, force):
    force = np.outer(force, np.ones(3))
    return Wrench(np.arange(3.0), force, np.cross(np.outer(position, np.ones(3)), force, axis=0))


def test_signs_of_the_ankle(light):
    """Standing on the ball: the calf pulls, 700 N 0.13 m before the ankle."""
    found = light.inverse(posture({}))
    ankle = found.position[NAMES.index("Rhindfoot")][:, 0]
    push = ground(ankle + [0.13, 0.0, -0.08], [0.0, 0.0, 700.0])
    for segment in ("Rhindfoot", "Rforefoot", "right_ankle"):
        loads = found.joints({segment: push})
        np.testing.assert_allclose(loads.flexion("right_ankle"), -0.13 * 700.0, atol=1e-6)
    brake = ground(ankle + [0.0, 0.0, -0.08], [-100.0, 0.0, 0.0])  # turns the toes down
    loads = found.joints({"Rforefoot": brake})
    np.testing.assert_allclose(loads.flexion("right_ankle"), 8.0, atol=1e-6)
    np.testing.assert_allclose(loads.flexion("left_ankle"), 0.0, atol=1e-6)


def test_signs_of_knee_and_hip(light):
    """In a squat the ground pushes upwards behind the knee and before the hip: knee and hip are
    stretched by their muscles."""
    bent = {"Lthigh": -1.2, "Lshank": 0.6, "Lhindfoot": 0.0}
    found = light.inverse(posture(bent))
    hip, knee = (found.position[NAMES.index(name)][:, 0] for name in ("Lthigh", "Lshank"))
    assert knee[0] > hip[0] + 0.3
    position = np.array([(hip[0] + knee[0]) / 2.0, knee[1], 0.0])
    loads = found.joints({"Lforefoot": ground(position, [0.0, 0.0, 500.0])})
    np.testing.assert_allclose(
        loads.flexion("left_knee"), 500.0 * (knee[0] - position[0]), atol=1e-6
    )
    np.testing.assert_allclose(
        loads.flexion("left_hip"), -500.0 * (position[0] - hip[0]), atol=1e-6
    )
    assert (loads.flexion("left_knee") > 0.0).all() and (loads.flexion("left_hip") < 0.0).all()
    np.testing.assert_allclose(loads.flexion_angle("left_hip"), 1.2, atol=1e-12)
    np.testing.assert_allclose(loads.flexion_angle("left_knee"), -1.8, atol=1e-12)
    np.testing.assert_allclose(loads.flexion_angle("left_ankle"), 0.6, atol=1e-12)
    np.testing.assert_allclose(loads.power("left_knee"), 0.0, atol=1e-12)


def test_a_leg_in_the_air(body):
    """Held forwards: the hip carries mass times lever, towards flexion; the knee its shank."""
    found = body.inverse(posture({"Rthigh": -np.pi / 2, "Rshank": -np.pi / 2}))
    loads, rows = found.joints({}), dict(zip(NAMES, ROWS, strict=True))
    thigh = -rows["Rthigh"].points["RK"][2]
    ankle = thigh - rows["Rshank"].points["RA"][2]
    foot = rows["Rhindfoot"].points["RM"][0] + rows["Rforefoot"].com[0]
    levers = {
        "Rthigh": -rows["Rthigh"].com[2],
        "Rshank": thigh - rows["Rshank"].com[2],
        "Rhindfoot": ankle + rows["Rhindfoot"].com[0],
        "Rforefoot": ankle + foot,
    }
    hip = sum(9.81 * rows[name].mass * lever for name, lever in levers.items())
    np.testing.assert_allclose(loads.flexion("right_hip"), hip, rtol=1e-9)
    knee = sum(
        9.81 * rows[name].mass * (lever - thigh)
        for name, lever in levers.items()
        if name != "Rthigh"
    )
    np.testing.assert_allclose(loads.flexion("right_knee"), knee, rtol=1e-9)


@pytest.mark.parametrize(("side", "sign"), [("right", 1.0), ("left", -1.0)])
def test_signs_of_adduction_and_rotation(light, side, sign):
    """The ground pushes a foot inwards by 50 N and turns it inwards by 8 N m: muscles abduct and
    rotate outwards, the same on both sides."""
    found, foot = light.inverse(posture({})), f"{side[0].upper()}hindfoot"
    ankle = found.position[NAMES.index(foot)][:, 0]
    push = ground(ankle + [0.0, 0.0, -0.08], [0.0, 50.0 * sign, 0.0])
    turn = Wrench(push.time, push.force, push.moment + [[0.0], [0.0], [8.0 * sign]])
    loads = found.joints({foot: turn})
    for joint in ("hip", "knee", "ankle"):
        name = f"{side}_{joint}"
        height = found.position[found.skeleton.number(name)][2] - ankle[2] + 0.08
        np.testing.assert_allclose(loads.adduction(name), -50.0 * height, atol=1e-6)
        across = found.position[found.skeleton.number(name)][0] - ankle[0]
        np.testing.assert_allclose(loads.rotation(name), -8.0 + 50.0 * across, atol=1e-6)
        np.testing.assert_allclose(loads.flexion(name), 0.0, atol=1e-6)


def test_components_are_conjugate_to_their_angles(body):
    """Their products with the rates of the angles are the power of the joint."""
    h, middle = 1e-4, np.linspace(0.1, 0.5, 5)
    before, here, after = (body.inverse(smooth_motion(middle + k * h)) for k in (-1, 0, 1))
    loads = here.joints({"Rforefoot": here.total})
    ends = before.joints({}), after.joints({})
    for name in ("right_hip", "left_knee", "right_ankle", "left_shoulder", "lumbar"):
        power = 0.0
        for part in ("flexion", "adduction", "rotation"):
            low, high = (getattr(end, f"{part}_angle")(name) for end in ends)
            power = power + getattr(loads, part)(name) * (high - low) / (2.0 * h)
        scale = np.abs(loads.power(name)).max()
        np.testing.assert_allclose(power, loads.power(name), atol=1e-5 * scale)


def test_angles_go_on():
    """A segment that turns twice over, before one that leans sideways."""
    beta = np.linspace(0.0, 4 * np.pi, 50)
    before = Rotation.from_euler("x", np.full((50, 1), 0.2))
    beyond = before * Rotation.from_euler("y", -beta[:, None])
    A, B = (each.as_matrix().transpose(1, 2, 0) for each in (before, beyond))
    np.testing.assert_allclose(flexion_angle(A, B), beta, atol=1e-12)


# -- energy -----------------------------------------------------------------------------------


def test_powers_are_the_rate_of_energy(body):
    """What joints and external wrenches do goes into kinetic and potential energy, by differences
    of order 6 along a smooth motion."""
    h, middle = 1e-3, np.linspace(0.1, 0.5, 7)
    found = body.inverse(smooth_motion(middle))

    def energy(at):
        motion = smooth_motion(at)
        natural = NATURAL.kinematics(motion.z, motion.zd, motion.zdd)
        kinetic = np.einsum("in,in->n", natural.qd, NATURAL.mass_matrix @ natural.qd) / 2.0
        return kinetic - NATURAL.weight @ natural.q

    weights = {1: 45.0 / 60.0, 2: -9.0 / 60.0, 3: 1.0 / 60.0}
    change = (
        sum(w * (energy(middle + k * h) - energy(middle - k * h)) for k, w in weights.items()) / h
    )
    loads = {name: random_wrench(middle, seed) for seed, name in enumerate(("Rforefoot", "Lhand"))}
    loads["Lhindfoot"] = found.total - loads["Rforefoot"] - loads["Lhand"]
    joints = found.joints(loads)
    natural = NATURAL.kinematics(found.kinematics.z, found.kinematics.zd, found.kinematics.zdd)
    outside = 0.0
    for name, wrench in loads.items():
        k = NAMES.index(name)
        at = 3 * NATURAL.points[ROWS[k].proximal]
        moment = wrench.about(natural.q[at : at + 3])
        outside = outside + np.sum(wrench.force * natural.qd[at : at + 3], axis=0)
        outside = outside + np.sum(moment * found.angular_velocity[k], axis=0)
    inside = sum(joints.power(name) for name in NAMES[1:])
    scale = np.abs(change).max()
    np.testing.assert_allclose(inside + outside, change, atol=1e-6 * scale)
    np.testing.assert_allclose(joints.power("right_knee"), joints.power("Rshank"), atol=0)


# -- tables and files -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def loads(body):
    found = body.inverse(smooth_motion(np.linspace(0.0, 0.3, 31)))
    half = found.total.scaled(0.5)
    return found.joints({"Rforefoot": half, "Lforefoot": half})


def test_columns(loads):
    columns = loads.columns()
    assert all(row.shape == (31,) for row in columns.values())
    for k, segment in enumerate(NAMES):
        for i, axis in enumerate("xyz"):
            torque, force = (
                columns[f"{segment}_{what}"] for what in (f"torque_{axis}_Nm", f"force_{axis}_N")
            )
            np.testing.assert_array_equal(torque, loads.torque[k, i])
            np.testing.assert_array_equal(force, loads.force[k, i])
    np.testing.assert_allclose(
        columns["left_hip_flexion_Nm_per_kg"] * 80.0, loads.flexion("left_hip"), rtol=1e-12
    )
    np.testing.assert_array_equal(columns["lumbar_power_W"], loads.power("torso"))
    np.testing.assert_array_equal(
        columns["right_knee_flexion_rad"], loads.flexion_angle("right_knee")
    )
    np.testing.assert_array_equal(
        columns["Rforefoot_ground_force_z_N"], loads.loads["Rforefoot"].force[2]
    )
    np.testing.assert_array_equal(
        columns["Lforefoot_ground_moment_x_Nm"], loads.loads["Lforefoot"].moment[0]
    )
    for name, wrench in {"total": loads.inverse.total, **loads.loads}.items():
        found = [columns[f"{name}_ground_cop_{axis}_m"] for axis in "xyz"]
        np.testing.assert_array_equal(found, wrench.cop())
        np.testing.assert_array_equal(columns[f"{name}_ground_force_y_N"], wrench.force[1])
    assert next(iter(columns)) == "time_s"


@pytest.mark.study
def test_files(loads, tmp_path):
    """What is written is what is read: CSV to ten digits, netCDF exactly, with the figure."""
    trajectory = loads.trajectory()
    trajectory.to_csv(tmp_path / "joints.csv")
    trajectory.save(tmp_path / "joints.nc")
    table = np.genfromtxt(tmp_path / "joints.csv", delimiter=",", names=True)
    again, columns = Trajectory.load(tmp_path / "joints.nc"), loads.columns()
    np.testing.assert_allclose(table["time"], loads.time, rtol=1e-9)
    for name, row in columns.items():
        if name != "time_s":
            np.testing.assert_allclose(table[name], row, rtol=1e-9, atol=1e-300)
            np.testing.assert_array_equal(again[name], row)
    motion, g = loads.inverse.kinematics, [f"J1_p{axis}" for axis in "xyz"]
    g += [f"{name}_{axis}" for name in NAMES for axis in "xyz"]
    Q = NATURAL.forces(motion.z, motion.zd, motion.zdd)
    for k, name in enumerate(g):
        np.testing.assert_array_equal(again[name], motion.z[k])
        np.testing.assert_array_equal(again[f"{name}_rate"], motion.zd[k])
        np.testing.assert_array_equal(again[f"{name}_acceleration"], motion.zdd[k])
        np.testing.assert_allclose(again[f"{name}_needed"], Q[k], atol=1e-9)
    q = NATURAL.kinematics(motion.z, motion.zd, motion.zdd).q
    for point, k in NATURAL.points.items():
        np.testing.assert_allclose(again.vector(point), q[3 * k : 3 * k + 3], atol=1e-14)
    np.testing.assert_array_equal(again.time, loads.time)
    assert again.drawing == trajectory.drawing and len(again.drawing) == 21
    assert {("J1", "RH"), ("RH", "RK"), ("RM", "RFG")} < {tuple(line) for line in again.drawing}


# -- bad input --------------------------------------------------------------------------------


def test_wrenches_at_other_times(needed):
    later = random_wrench(needed.time + 0.005, 1)
    with pytest.raises(
        ValueError,
        match=r"the wrench on Rforefoot is at other times than the "
        r"motion; use wrench.at\(time\)",
    ):
        needed.joints({"Rforefoot": later})
    fewer = random_wrench(needed.time[:-1], 1)
    with pytest.raises(ValueError, match="at other times than the motion"):
        needed.joints({"Rforefoot": fewer})


def test_unknown_names(needed):
    wrench, loads = random_wrench(needed.time, 1), needed.joints({})
    with pytest.raises(ValueError, match="there is no segment or joint 'Rtoes'; did you mean"):
        needed.joints({"Rtoes": wrench})
    with pytest.raises(ValueError, match="there is no segment or joint 'knee'"):
        loads.flexion("knee")
    for one in (loads.flexion, loads.adduction, loads.rotation, loads.power, loads.flexion_angle):
        with pytest.raises(ValueError, match="pelvis has no neighbour"):
            one("pelvis")


def test_wrenches_of_feet(needed):
    """A foot by its name is the segment over the centre of pressure."""
    wrench = random_wrench(needed.time, 5)
    one, other = needed.joints({"left": wrench}), needed.joints(needed.under_foot("left", wrench))
    np.testing.assert_array_equal(one.torque, other.torque)
    assert set(one.loads) == {"Lhindfoot", "Lforefoot"}
    np.testing.assert_allclose(one.residual.force, (needed.total - wrench).force, atol=1e-10)


def test_a_foot_and_its_segment(needed):
    """Nothing of the wrenches is lost."""
    wrench, other = random_wrench(needed.time, 5), random_wrench(needed.time, 6)
    found = needed.joints({"left": wrench, "Lforefoot": other})
    expected = needed.total - wrench - other
    np.testing.assert_allclose(found.residual.force, expected.force, atol=1e-9)


def test_feet_at_other_times(needed):
    with pytest.raises(ValueError, match="the wrench on left is at other times"):
        needed.joints({"left": random_wrench(needed.time[:-1], 1)})


def test_all_names_are_public():
    for name in ("InverseDynamics", "JointLoads", "Body", "Wrench", "Samples"):
        assert name in ks.gait.__all__
