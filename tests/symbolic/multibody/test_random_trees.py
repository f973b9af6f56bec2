"""Random trees against Pinocchio: equations of motion, wrenches, momenta, energies, loads, locks.

Both are built from one random table. In Pinocchio the base is a free-flyer of known motion, every
joint is made of joints with one primitive motion each, and a weld is a hinge that stays at zero, so
that Pinocchio tells the wrench in it. Quaternions and turned vectors come from SciPy.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import sympy as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from kinesym.codegen.evaluate import model_symbols
from kinesym.codegen.interpret import interpret
from kinesym.codegen.kernel import Kernel
from kinesym.multibody import (
    Body,
    Fixed,
    FixedBase,
    Free,
    Imu,
    Load,
    Planar,
    PrescribedBase,
    Prismatic,
    Revolute,
    Spherical,
    Tree,
    Universal,
)

pin = pytest.importorskip("pinocchio")

AXES = "xyz"
#: What is given as the acceleration of a base, and letters of the inputs.
GIVEN = {"kinematic": "a", "derivative": "dv", "imu": "imu"}

sequences = st.permutations(AXES).map("".join)
numbers = st.integers(-20, 20).map(lambda k: float(np.sin(k)))  # all digits, none tiny but 0
directions = st.tuples(numbers, numbers, numbers).filter(any)
joints = st.one_of(
    st.just(Fixed()),
    st.sampled_from(AXES).map(Revolute),
    directions.map(Revolute),
    st.sampled_from(["x", "yz", "zyx"]).map(Prismatic),
    sequences.map(lambda s: Planar(s[:2])),
    sequences.map(lambda s: Universal(s[:2])),
    sequences.map(Spherical),
    sequences.map(Free),
)
#: Joint and parent of each body; the parent is a number to be taken modulo what there is.
shapes = st.lists(st.tuples(joints, st.integers(0, 11)), min_size=1, max_size=12)
seeds = st.integers(0, 2**32 - 1)
moving = st.builds(PrescribedBase, st.just("ship"), sequences, st.sampled_from([*GIVEN]))
bases = st.one_of(st.just(FixedBase()), moving)
#: A chain of all kinds of joints.
ALL = [
    Free("yxz"),
    Revolute((1.0, 2.0, -0.5)),
    Universal("zx"),
    Fixed(),
    Spherical("xzy"),
    Planar("zy"),
    Revolute("y"),
    Free("zxy"),
    Prismatic("x"),
    Universal("xy"),
    Planar("xz"),
]


def some(count):
    """Few examples, as each is a model of its own, and the same ones every time."""
    return settings(max_examples=count, deadline=None, derandomize=True, database=None)


def all_joints(test):
    """Also the chain of all kinds of joints, on bases with all kinds of given accelerations."""
    shape = [(joint, k) for k, joint in enumerate(ALL)]
    for acceleration in GIVEN:
        test = example(shape, 0, PrescribedBase("ship", "zyx", acceleration))(test)
    return test


# -- the random table and its tree ----------------------------------------------------------------


@dataclass
class Case:
    """Bodies and loads in numbers, the tree of them, and the value of every name in the tree."""

    bodies: list[Body]
    loads: list[Load]
    gravity: np.ndarray
    tree: Tree
    values: dict[str, float]

    def vector(self, name, axes=AXES):
        return np.array([self.values[f"{name}{axis}"] for axis in axes])


def random_body(k, joint, parent, rng, massless):
    """Numbers of order one, some of them exactly zero; the inertia of some distribution of mass."""
    mass, lengths = rng.uniform(0.5, 5.0), rng.uniform(0.05, 0.5, 3)
    inertia = mass * (lengths @ lengths - lengths**2)
    if rng.random() < 0.8:
        turn = Rotation.from_quat(rng.normal(size=4)).as_matrix()
        inertia = turn @ np.diag(inertia) @ turn.T
        inertia = (inertia + inertia.T) / 2
    if massless and rng.random() < 0.1:
        mass, inertia = 0.0, np.zeros(3)
    com, at = (rng.normal(0.0, 0.5, 3) * (rng.random(3) > 0.2) for _ in range(2))
    on = None if parent < 0 else f"b{parent}"
    return Body(f"b{k}", mass, com.tolist(), inertia.tolist(), joint, at.tolist(), on)


def random_loads(bodies, rng):
    """None to three, in world and in body axes, perhaps two on one body."""
    return [
        Load(f"b{rng.integers(len(bodies))}", *rng.normal(0.0, 3.0, (3, 3)).tolist(), axes)
        for axes in rng.choice(["world", "body"], rng.integers(4))
    ]


def named(values, name, numbers):
    """Symbols with these values."""
    put(values, f"{name}_", range(len(numbers)), numbers)
    return [sp.Symbol(f"{name}_{k}") for k in range(len(numbers))]


def in_symbols(body, values):
    """The body with symbols for its numbers."""
    (mass,) = named(values, f"{body.name}_m", [body.mass])
    com, at = (named(values, f"{body.name}_{k}", getattr(body, k)) for k in ("com", "at"))
    inertia = named(values, f"{body.name}_I", np.ravel(body.inertia))
    if len(inertia) == 9:
        inertia = [[inertia[3 * min(i, j) + max(i, j)] for j in range(3)] for i in range(3)]
    return replace(body, mass=mass, com=com, inertia=inertia, at=at)


def random_case(shape, seed, base, turning=False):
    """Bodies in numbers or in symbols, loads and gravity in symbols, and a random state.

    A world to be turned has one body on the base, no massless ones, and everything in symbols.
    """
    rng, values, bodies = np.random.default_rng(seed), {}, []
    for k, (joint, number) in enumerate(shape):
        parent = number % k if turning and k else number % (k + 1) - 1
        bodies.append(random_body(k, joint, parent, rng, massless=k > 0 and not turning))
    loads, gravity = random_loads(bodies, rng), rng.normal(0.0, 6.0, 3)
    chosen = [turning or (b.mass > 0 and rng.random() < 0.5) for b in bodies]
    tree = Tree(
        "random",
        [in_symbols(b, values) if yes else b for yes, b in zip(chosen, bodies, strict=True)],
        base,
        named(values, "g", gravity),
        [
            replace(
                load,
                force=named(values, f"F{k}", load.force),
                torque=named(values, f"M{k}", load.torque),
            )
            for k, load in enumerate(loads)
        ],
    )
    for link in tree.links:
        for k, q in enumerate(link.q):  # not near the singular rates of Bryant angles
            values[q.name] = rng.uniform(-1.2, 1.2) if k == 1 else rng.uniform(-3.0, 3.0)
        values.update((u.name, rng.normal()) for u in link.u)
    for kind in ("", "p", "v", "w", "dw", *GIVEN.values()):
        motion = rng.normal(size=3) if isinstance(base, PrescribedBase) else np.zeros(3)
        put(values, f"ship_{kind}", AXES, motion)
    return Case(bodies, loads, gravity, tree, values)


def put(values, prefix, axes, vector):
    """Set the values of the components of a vector."""
    values.update(zip((f"{prefix}{axis}" for axis in axes), vector, strict=True))


# -- its twin in Pinocchio ------------------------------------------------------------------------


def hinge(axis):
    """A revolute joint about "x", "y", "z" or a vector."""
    if isinstance(axis, str):
        return getattr(pin, f"JointModelR{axis.upper()}")()
    return pin.JointModelRevoluteUnaligned(np.array(axis) / np.linalg.norm(axis))


def slide(axes):
    """Translations along some axes."""
    joint = pin.JointModelComposite(len(axes))
    for axis in axes:
        joint.addJoint(getattr(pin, f"JointModelP{axis.upper()}")())
    return joint


def primitives(joint):
    """What one of our joints is in Pinocchio."""
    match joint:
        case Fixed():
            return [hinge("x")]
        case Revolute(axis=axis):
            return [hinge(axis)]
        case Prismatic(axes=axes):
            return [slide(axes)]
        case Planar(plane=axes):
            return [slide(axes), hinge(min(set(AXES) - set(axes)))]
        case Universal(axes=axes):
            return [hinge(axis) for axis in axes]
        case Spherical():
            return [pin.JointModelSpherical()]
        case Free():
            return [pin.JointModelTranslation(), pin.JointModelSpherical()]


class Twin:
    """The table of a case and its state in Pinocchio."""

    def __init__(self, case):
        self.case, self.model, self.rows = case, pin.Model(), {}  # rows of speeds
        self.model.gravity.linear = case.gravity
        root = self.model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "base")
        self.joints = {None: [root]}
        self._grow(None)
        self.data, self.q = self.model.createData(), pin.neutral(self.model)
        self.v, self.a = np.zeros((2, self.model.nv))  # joints do not accelerate
        self._move_base()
        for body in case.bodies:
            self._move(body)
        pin.forwardKinematics(self.model, self.data, self.q, self.v)
        self.loads = self._loads()

    def _grow(self, parent):
        """Depth first, as Pinocchio counts on it."""
        for body in (b for b in self.case.bodies if b.parent == parent):
            last, at, self.joints[body.name] = self.joints[parent][-1], np.array(body.at), []
            for k, joint in enumerate(primitives(body.joint)):
                where = pin.SE3(np.eye(3), at if k == 0 else np.zeros(3))
                last = self.model.addJoint(last, joint, where, f"{body.name}_{k}")
                self.joints[body.name].append(last)
            inertia = np.array(body.inertia)
            inertia = np.diag(inertia) if inertia.ndim == 1 else inertia
            inertia = pin.Inertia(body.mass, np.array(body.com), inertia)
            self.model.appendBodyToJoint(last, inertia, pin.SE3.Identity())
            self._grow(body.name)

    def _move_base(self):
        """Spatial acceleration is the derivative of the components of velocity."""
        base = self.case.tree.base
        sequence = getattr(base, "sequence", "xyz")
        acceleration = getattr(base, "acceleration", "derivative")
        letters = ("v", "w", "dw", GIVEN[acceleration])
        v, w, dw, a = (self.case.vector(f"ship_{letter}") for letter in letters)
        turn = Rotation.from_euler(sequence.upper(), self.case.vector("ship_", sequence))
        if acceleration == "imu":
            a = a + turn.inv().apply(self.case.gravity)
        if acceleration != "derivative":
            a = a - np.cross(w, v)
        self.q[:7] = [*self.case.vector("ship_p"), *turn.as_quat()]
        self.v[:6], self.a[:6] = [*v, *w], [*a, *dw]

    def _move(self, body):
        links = self.case.tree.joint_of(body.name)
        for link, number in zip(links, self.joints[body.name], strict=True):
            joint = self.model.joints[number]
            q = [self.case.values[q.name] for q in link.q]
            if joint.nq == 4:
                q = Rotation.from_euler(body.joint.sequence.upper(), q).as_quat()
            self.q[joint.idx_q : joint.idx_q + len(q)] = q
            for k, u in enumerate(link.u):
                self.rows[u.name] = joint.idx_v + k
                self.v[joint.idx_v + k] = self.case.values[u.name]

    def _loads(self):
        """Loads as Pinocchio takes them: about the joint, in the axes of the body."""
        loads = [pin.Force.Zero() for _ in range(self.model.njoints)]
        for load in self.case.loads:
            number, force, torque = self.joints[load.body][-1], load.force, load.torque
            if load.axes == "world":
                force, torque = (self.data.oMi[number].rotation.T @ v for v in (force, torque))
            loads[number] += pin.Force(np.array(force), torque + np.cross(load.at, force))
        return loads

    def needed(self, names, rates=0.0):
        """Generalised forces of the speeds of these names, of which only they change."""
        a, rows = self.a.copy(), [self.rows[name] for name in names]
        a[rows] = rates
        return pin.rnea(self.model, self.data, self.q, self.v, a, self.loads)[rows]

    def mass_matrix(self, names):
        rows = [self.rows[name] for name in names]
        return pin.crba(self.model, self.data, self.q)[np.ix_(rows, rows)]


def close(ours, theirs, relative):
    """Relative to the largest entry, or to one, as the numbers of all bodies are of order one."""
    scale = max(1.0, np.max(np.abs(theirs), initial=0.0))
    np.testing.assert_allclose(ours, theirs, rtol=0.0, atol=relative * scale)


def evaluate(model, values, rates):
    """Residual by state and outputs by name, a row for each; rates are numbers or such rows."""
    point = model_symbols(model)
    n = max(map(np.size, rates.values()), default=1)
    arrays = {
        "xdot": [np.broadcast_to(rates.get(name, 0.0), n) for name in model.state_names],
        "x": [values[name] for name in model.state_names],
        "u": [values[name] for name in model.input_names],
        "p": [values[name] for name in model.parameter_names],
        "t": [0.0],
    }
    names = (*model.state_names, *model.outputs)
    nodes = tuple(map(point.lower, (*model.equations, *model.outputs.values())))
    arguments = (point.xdot, point.x, point.u, point.p, point.t)
    kernel = Kernel("all", point.graph, arguments, nodes, names)
    return dict(zip(names, interpret(kernel, arrays, n), strict=True))


def mass_and_bias(model, values, names):
    """From the residual, which is linear in the accelerations; and everything without these."""
    n = len(names)
    found = evaluate(model, values, dict(zip(names, np.eye(n, n + 1, 1), strict=True)))
    rows = np.array([found[name] for name in names]).reshape(n, n + 1)
    return rows[:, 1:] - rows[:, :1], rows[:, 0], {name: row[0] for name, row in found.items()}


def check_explicit(model, values, mass, bias, names):
    """Rates by articulated bodies solve M u' + bias = 0, and are those of q' in the equations."""
    if not len(names) or np.linalg.cond(mass) > 1e8:  # nothing moves; massless ends
        return
    point = model_symbols(model)
    point.lower.define(model.explicit.intermediates)
    arrays = {
        "x": [values[name] for name in model.state_names],
        "u": [values[name] for name in model.input_names],
        "p": [values[name] for name in model.parameter_names],
        "t": [0.0],
    }
    nodes = tuple(map(point.lower, model.explicit.rates))
    arguments = (point.x, point.u, point.p, point.t)
    kernel = Kernel("rates", point.graph, arguments, nodes, model.state_names)
    rates = dict(zip(model.state_names, np.ravel(interpret(kernel, arrays, 1)), strict=True))
    expected = np.linalg.solve(mass, -bias)
    close([rates[name] for name in names], expected, 1e-14 * np.linalg.cond(mass) + 1e-12)
    left = evaluate(model, values, {name: rates[name] for name in model.state_names})
    close([left[name][0] for name in model.state_names if name not in names], 0.0, 1e-13)


def check_kinematics(case, found):
    """Rates of angles, each about its axis turned by the angles after it, sum up to the speeds."""
    for body in case.bodies:
        for link in case.tree.joint_of(body.name):
            w = rates = [-found[q.name] for q in link.q if q.name in found]
            if len(rates) == 3 and isinstance(body.joint, (Spherical, Free)) and link.body:
                w = np.zeros(3)
                for axis, q, rate in zip(body.joint.sequence, link.q, rates, strict=True):
                    turn = Rotation.from_euler(axis, case.values[q.name])
                    w = turn.inv().apply(w) + rate * np.eye(3)[AXES.index(axis)]
            if rates:
                close(w, [case.values[u.name] for u in link.u], 1e-13)


def flat(outputs):
    """Named vectors and matrices as named numbers."""
    return {
        f"{name}_{k}": e
        for name, value in outputs.items()
        for k, e in enumerate(np.ravel(np.array(value, dtype=object)))
    }


# -- tests ----------------------------------------------------------------------------------------


@all_joints
@some(9)
@given(shapes, seeds, bases)
def test_equations_of_motion(shape, seed, base):
    case = random_case(shape, seed, base)
    names, twin = list(case.tree.speeds), Twin(case)
    torques = {name: 0.5 + k for k, name in enumerate(names[::2])}
    model = case.tree.model(torques)
    mass, bias, found = mass_and_bias(model, case.values, names)
    close(mass, twin.mass_matrix(names), 1e-12)
    close(bias, twin.needed(names) - [torques.get(name, 0.0) for name in names], 1e-12)
    check_kinematics(case, found)
    check_explicit(model, case.values, mass, bias, names)


def motion_of_tree(tree, at, about):
    outputs = {
        "com": tree.center_of_mass(),
        "momentum": tree.momentum(),
        "angular": tree.angular_momentum(about),
        "kinetic": tree.kinetic_energy(),
        "potential": tree.potential_energy(),
    }
    for name in (None, *(body.name for body in tree.bodies)):
        outputs |= {
            f"wrench_{name}": tree.wrench(name),
            f"place_{name}": tree.place(name, at),
            f"velocity_{name}": tree.velocity(name, at),
            f"attitude_{name}": tree.attitude(name),
        }
    return outputs


def motion_of_twin(twin, at, about):
    """After `needed`, whose accelerations the wrenches are for."""
    model, data, q, v = twin.model, twin.data, twin.q, twin.v
    outputs = {}
    for name, numbers in twin.joints.items():
        k = numbers[-1]
        turn, speed = data.oMi[k].rotation, data.v[k]
        outputs |= {
            f"wrench_{name}": data.f[k].vector.copy(),
            f"place_{name}": data.oMi[k].act(at),
            f"velocity_{name}": turn @ (speed.linear + np.cross(speed.angular, at)),
            f"attitude_{name}": turn.copy(),
        }
    com = pin.centerOfMass(model, data, q).copy()
    momentum = pin.computeCentroidalMomentum(model, data, q, v)
    spin = momentum.angular + np.cross(com - about, momentum.linear)
    return outputs | {
        "com": com,
        "momentum": momentum.linear,
        "angular": spin,
        "kinetic": pin.computeKineticEnergy(model, data, q, v),
        "potential": pin.computePotentialEnergy(model, data, q),
    }


@all_joints
@some(8)
@given(shapes, seeds, bases)
def test_wrenches_and_motion(shape, seed, base):
    case = random_case(shape, seed, base)
    rng = np.random.default_rng(seed)
    at, about = rng.normal(size=(2, 3))
    rates, twin = {name: rng.normal() for name in case.tree.speeds}, Twin(case)
    model = case.tree.model({}, flat(motion_of_tree(case.tree, at, about)))
    found = evaluate(model, case.values, rates)
    twin.needed(rates, [*rates.values()])
    for name, value in motion_of_twin(twin, at, about).items():
        ours = [found[f"{name}_{k}"][0] for k in range(np.size(value))]
        close(ours, np.ravel(value), 1e-11)


@some(7)
@given(shapes, seeds, bases)
def test_locks_take_out_rows_and_columns(shape, seed, base):
    """Some bodies and some single speeds locked; the wrench on the base is still the whole one."""
    case = random_case(shape, seed, base)
    rng = np.random.default_rng(seed)
    names = [*case.tree.speeds, *(body.name for body in case.bodies)]
    tree = case.tree.lock(*([name for name in names if rng.random() < 0.3] or ["b0"]))
    case.values.update(dict.fromkeys(tree.locked, 0.0))
    free, twin = [name for name in tree.speeds if name not in tree.locked], Twin(case)
    model = tree.model({}, flat({"wrench": tree.wrench()}))
    mass, bias, found = mass_and_bias(model, case.values, free)
    close(mass, twin.mass_matrix(free), 1e-12)
    close(bias, twin.needed(free), 1e-12)
    close([found[name] for name in model.outputs], twin.data.f[1].vector, 1e-11)
    check_kinematics(case, found)
    check_explicit(model, case.values, mass, bias, free)
    rigid = [
        q.name for link in tree.links for q in link.q if all(u.name in tree.locked for u in link.u)
    ]
    assert set(model.state_names) == {*free, *tree.coordinates} - {*rigid}


def turned(case, turn):
    """The values of a case in a turned world: of what is given in world axes."""
    values, base, root = dict(case.values), case.tree.base, case.bodies[0]
    loads = [k for k, load in enumerate(case.loads) if load.axes == "world"]
    vectors = [("g_", "012"), *((f"{kind}{k}_", "012") for k in loads for kind in "FM")]
    prefix, sequence = "ship_", getattr(base, "sequence", None)
    if isinstance(base, FixedBase):
        prefix, sequence = "b0_", root.joint.sequence
        vectors.append(("b0_at_", "012"))
        vectors += [("b0_p", AXES), ("b0_v", AXES)] if isinstance(root.joint, Free) else []
    for name, axes in vectors:
        put(values, name, axes, turn.apply(case.vector(name, axes)))
    attitude = turn * Rotation.from_euler(sequence.upper(), case.vector(prefix, sequence))
    put(values, prefix, sequence, attitude.as_euler(sequence.upper()))
    return values


@pytest.mark.parametrize("root", [Spherical, Free, None])
@some(4)
@given(shapes, seeds, sequences)
def test_turned_worlds_have_the_same_accelerations(root, shape, seed, sequence):
    """On a base at rest with its first joint, or on a moving base: nothing knows where up is."""
    base = FixedBase() if root else PrescribedBase("ship", sequence)
    if root:
        shape = [(root(sequence), 0), *shape[1:]]
    case = random_case(shape, seed, base, turning=True)
    names = list(case.tree.speeds)
    turn = Rotation.from_quat(np.random.default_rng(seed).normal(size=4))
    model = case.tree.model()
    mass, bias, _ = mass_and_bias(model, case.values, names)
    rates = dict(zip(names, np.linalg.solve(mass, -bias), strict=True))
    if root is Free:
        put(rates, "b0_v", AXES, turn.apply([rates[f"b0_v{axis}"] for axis in AXES]))
    found = evaluate(model, turned(case, turn), rates)
    close([found[name][0] for name in names] + bias, bias, 1e-11)


@example([(joint, k) for k, joint in enumerate(ALL)], 0, PrescribedBase("ship", "zyx"))
@some(5)
@given(shapes, seeds, bases)
def test_inertial_sensors(shape, seed, base):
    """Gyroscopes and accelerometers anywhere on all bodies, turned anyhow, joints accelerating."""
    case, rng = random_case(shape, seed, base), np.random.default_rng(seed)
    twin, names = Twin(case), list(case.tree.speeds)
    rates, frames, imus = rng.normal(size=len(names)), {}, []
    for body in case.bodies:
        at, angles = rng.normal(size=(2, 3))
        imus.append(Imu(body.name, at.tolist(), angles.tolist(), "yxz"))
        where = pin.SE3(Rotation.from_euler("YXZ", angles).as_matrix(), at)
        frame = pin.Frame(f"imu {body.name}", twin.joints[body.name][-1], where, pin.OP_FRAME)
        frames[body.name] = twin.model.addFrame(frame)
    model = replace(case.tree, imus=imus).model({}, ["imu"])
    found = evaluate(model, case.values, dict(zip(names, rates, strict=True)))
    a, data = twin.a.copy(), twin.model.createData()
    a[[twin.rows[name] for name in names]] = rates
    pin.forwardKinematics(twin.model, data, twin.q, twin.v, a)
    pin.updateFramePlacements(twin.model, data)
    for name, k in frames.items():
        turn, local = data.oMf[k].rotation, pin.ReferenceFrame.LOCAL
        force = pin.getFrameClassicalAcceleration(twin.model, data, k, local).linear
        force = force - turn.T @ case.gravity
        gyro = pin.getFrameVelocity(twin.model, data, k, local).angular
        for kind, theirs in (("gyro", gyro), ("accel", force)):
            ours = [found[f"imu_{name}_{kind}_{axis}"][0] for axis in AXES]
            close(ours, theirs, 1e-12)
