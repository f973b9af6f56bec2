"""Models of OpenSim against a plain evaluation of their files, and against OpenSim's own results.

`Plain` reads the XML with nothing of the reader's and multiplies 4x4 matrices of numbers, which may
be complex: so that Jacobians, and mass matrices from them, are exact to rounding.
"""

import gzip
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy import signal

import kinesym as ks
from kinesym.codegen.evaluate import model_symbols
from kinesym.codegen.interpret import interpret
from kinesym.codegen.kernel import Kernel

TESTS = Path(__file__).parents[1] / "data" / "opensim"
EXAMPLES = Path(ks.__file__).parents[1] / "examples" / "data"
MODELS = {
    "LaiUhlrich2022": EXAMPLES / "opensim_LaiUhlrich2022.osim.gz",
    "arm26": EXAMPLES / "opensim_arm26.osim.gz",
    "gait2354": TESTS / "gait2354_simbody.osim.gz",
    "subject01": EXAMPLES / "opensim_subject01.osim.gz",
    "gait10dof18musc": TESTS / "gait10dof18musc_subject01.osim.gz",
    "2D_gait": TESTS / "2D_gait.osim.gz",
}
STEP = 1e-30
pytestmark = pytest.mark.filterwarnings("ignore:LaiUhlrich2022. body toes")


# -- a plain evaluation of the file ---------------------------------------------------------------


def numbers(e, tag, default="0 0 0"):
    return np.array((e.findtext(tag) or default).split(), dtype=float)


def about(axis, angle):
    """The matrix of a rotation by Rodrigues' formula."""
    x, y, z = axis / np.linalg.norm(axis)
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * K @ K


def moved(turn, at):
    T = np.eye(4, dtype=complex)
    T[:3, :3], T[:3, 3] = turn, at
    return T


def offset(at, angles):
    turn = np.eye(3)
    for axis, angle in zip(np.eye(3), angles, strict=True):
        turn = turn @ about(axis, angle)
    return moved(turn, at)


@lru_cache
def spline(x, y):
    """Slopes, and sixths of second derivatives, by elimination as in Forsythe, Malcolm and Moler's
    SPLINE."""
    n, h, s = len(x), np.diff(x), np.diff(y) / np.diff(x)
    A, r = np.zeros((n, n)), np.zeros(n)
    for i in range(1, n - 1):
        A[i, i - 1 : i + 2] = h[i - 1], 2 * (h[i - 1] + h[i]), h[i]
        r[i] = s[i] - s[i - 1]
    A[0, :2], A[-1, -2:] = (-h[0], h[0]), (h[-1], -h[-1])
    third = [0.0, 0.0]
    for k, i in enumerate((0, n - 4)):
        if n > 3:
            steps = np.subtract(x[i + 2 : i + 4], x[i : i + 2])
            second = np.diff(s[i : i + 3]) / steps
            third[k] = (second[1] - second[0]) / (x[i + 3] - x[i])
    r[0], r[-1] = h[0] ** 2 * third[0], -(h[-1] ** 2) * third[1]
    c = np.linalg.solve(A, r)
    return [*(s - h * (c[1:] + 2 * c[:-1])), s[-1] + h[-1] * (c[-2] + 2 * c[-1])], c


def simm(x, y, at):
    """A spline of SIMM at a complex place, straight beyond its ends."""
    slopes, c = spline(tuple(x), tuple(y))
    if at.real < x[0]:
        return y[0] + slopes[0] * (at - x[0])
    if at.real > x[-1]:
        return y[-1] + slopes[-1] * (at - x[-1])
    k = min(int(np.searchsorted(x, at.real, side="right")) - 1, len(x) - 2)
    d = at - x[k]
    return y[k] + d * (slopes[k] + d * (3 * c[k] + d * (c[k + 1] - c[k]) / (x[k + 1] - x[k])))


def evaluated(e, q):
    """A function of the file at complex coordinates."""
    if e.tag == "Constant":
        return float(e.findtext("value"))
    if e.tag == "LinearFunction":
        *slopes, last = numbers(e, "coefficients")
        return np.dot(slopes, q) + last
    if e.tag == "PolynomialFunction":
        return np.polyval(numbers(e, "coefficients"), q[0])
    if e.tag == "Sine":
        a, w, p, b = (float(e.findtext(k)) for k in ("amplitude", "omega", "phase", "offset"))
        return a * np.sin(w * q[0] + p) + b
    if e.tag == "MultiplierFunction":
        return float(e.findtext("scale")) * evaluated(e.find("function")[0], q)
    assert e.tag in ("SimmSpline", "NaturalCubicSpline")
    return simm(numbers(e, "x"), numbers(e, "y"), complex(q[0]))


class Plain:
    def __init__(self, path):
        data = path.read_bytes()
        data = gzip.decompress(data) if path.suffix == ".gz" else data
        self.model = ElementTree.fromstring(data).find("Model")
        every = self.model.findall("BodySet/objects/Body")
        self.bodies = {e.get("name"): e for e in every if e.get("name") != "ground"}
        self.joints = {}
        for name, body in self.bodies.items():
            for joint in body.findall("Joint/*"):
                ends = joint.findtext("parent_body").strip(), name
                self.joints[name] = (joint, *ends, *self.old_offsets(joint))
        for joint in self.model.findall("JointSet/objects/*"):
            (parent, before), (child, after) = (
                self.new_end(joint, joint.findtext(f"socket_{end}_frame"))
                for end in ("parent", "child")
            )
            self.joints[child] = joint, parent, child, before, after
        self.coordinates = [
            e.get("name") for j in self.joints.values() for e in j[0].iter("Coordinate")
        ]
        self.couplers = {}
        for e in self.model.iter("CoordinateCouplerConstraint"):
            self.couplers[e.findtext("dependent_coordinate_name").strip()] = e

    def old_offsets(self, joint):
        for end in ("_in_parent", ""):
            yield offset(numbers(joint, f"location{end}"), numbers(joint, f"orientation{end}"))

    def new_end(self, joint, path):
        name = path.split("/")[-1]
        for e in joint.findall("frames/PhysicalOffsetFrame"):
            if e.get("name") == name:
                inner, before = self.new_end(joint, e.findtext("socket_parent"))
                step = offset(numbers(e, "translation"), numbers(e, "orientation"))
                return inner, before @ step
        return name, np.eye(4)

    def free(self):
        return [name for name in self.coordinates if name not in self.couplers]

    def all_of(self, q):
        q = dict(q)
        for name, e in self.couplers.items():
            given = [q[other] for other in e.findtext("independent_coordinate_names").split()]
            scale = float(e.findtext("scale_factor") or 1)
            q[name] = scale * evaluated(e.find("coupled_coordinates_function")[0], given)
        return q

    def motion(self, joint, q):
        axes, names = np.eye(3), [e.get("name") for e in joint.iter("Coordinate")]
        if joint.tag == "PinJoint":
            return moved(about(axes[2], q[names[0]]), 0)
        if joint.tag == "PlanarJoint":
            return moved(about(axes[2], q[names[0]]), [q[names[1]], q[names[2]], 0])
        if joint.tag == "UniversalJoint":
            return moved(about(axes[0], q[names[0]]) @ about(axes[1], q[names[1]]), 0)
        if joint.tag == "WeldJoint":
            return np.eye(4)
        if joint.tag == "SliderJoint":
            return moved(np.eye(3), [q[names[0]], 0, 0])
        if joint.tag in ("BallJoint", "GimbalJoint", "FreeJoint"):
            turn = np.eye(3)
            for axis, name in zip(axes, names, strict=False):
                turn = turn @ about(axis, q[name])
            return moved(turn, [q[name] for name in names[3:]] or 0)
        if joint.tag == "EllipsoidJoint":
            return self.on_ellipsoid(numbers(joint, "radii_x_y_z"), [q[name] for name in names])
        if joint.tag == "ScapulothoracicJoint":
            x, y, z = numbers(joint, "thoracic_ellipsoid_radii_x_y_z")
            *angles, wing = (q[name] for name in names)
            quarter = moved(about(axes[2], np.pi / 2), 0)
            glide = quarter @ self.on_ellipsoid([y, x, z], angles) @ quarter.T
            direction = float(joint.findtext("scapula_winging_axis_direction"))
            axis = np.array([-np.sin(direction), np.cos(direction), 0.0])
            at = np.array([*numbers(joint, "scapula_winging_axis_origin"), 0.0])
            turn = about(axis, wing)
            return glide @ moved(turn, at - turn @ at)
        assert joint.tag == "CustomJoint"
        turn, at = np.eye(3), np.zeros(3)
        for k, e in enumerate(joint.find("SpatialTransform")):
            given = [q[name] for name in (e.findtext("coordinates") or "").split()]
            inner = e.find("function")
            function = next(
                f for f in (e if inner is None else inner) if f.tag not in ("coordinates", "axis")
            )
            value, axis = evaluated(function, given), numbers(e, "axis")
            if k < 3:
                turn = turn @ about(axis, value)
            else:
                at = at + value * axis / np.linalg.norm(axis)
        return moved(turn, at)

    @staticmethod
    def on_ellipsoid(radii, angles):
        turn = np.eye(3)
        for axis, angle in zip(np.eye(3), angles, strict=True):
            turn = turn @ about(axis, angle)
        return moved(turn, np.array(radii) * turn[:, 2])

    def places(self, q):
        """Transforms of all bodies to the ground."""
        q, found = self.all_of(q), {"ground": np.eye(4)}
        while len(found) <= len(self.joints):
            for child, (joint, parent, _, before, after) in self.joints.items():
                if parent in found and child not in found:
                    here = found[parent] @ before @ self.motion(joint, q)
                    found[child] = here @ np.linalg.inv(after)
        return found

    def inertia(self, name):
        body = self.bodies[name]
        if body.find("inertia") is not None:
            xx, yy, zz, xy, xz, yz = numbers(body, "inertia")
        else:
            parts = ("xx", "yy", "zz", "xy", "xz", "yz")
            xx, yy, zz, xy, xz, yz = (float(body.findtext(f"inertia_{k}")) for k in parts)
        return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])

    def mass_matrix(self, q, names):
        """Sums over bodies with Jacobians by complex steps."""
        here = self.places(q)
        columns = {name: [] for name in self.bodies}
        for name in names:
            there = self.places({**q, name: q[name] + 1j * STEP})
            for body, e in self.bodies.items():
                slope = there[body].imag / STEP
                spin = slope[:3, :3] @ here[body][:3, :3].real.T
                centre = slope @ [*numbers(e, "mass_center"), 1.0]
                columns[body].append([*centre[:3], spin[2, 1], spin[0, 2], spin[1, 0]])
        total = np.zeros((len(names), len(names)))
        for body, e in self.bodies.items():
            J, R = np.array(columns[body]), here[body][:3, :3].real
            about_axes = R @ self.inertia(body) @ R.T
            total += float(e.findtext("mass")) * J[:, :3] @ J[:, :3].T
            total += J[:, 3:] @ about_axes @ J[:, 3:].T
        return total


# -- the tree -------------------------------------------------------------------------------------


def interpreted(model, expressions, values, rates=None):
    """Rows of expressions at points."""
    point = model_symbols(model)
    rates = {} if rates is None else rates
    n = max(map(np.size, [*values.values(), *rates.values()]))
    arrays = {
        "xdot": [np.broadcast_to(rates.get(name, 0.0), n) for name in model.state_names],
        "x": [np.broadcast_to(values.get(name, 0.0), n) for name in model.state_names],
        "u": [np.zeros(n) for _ in model.input_names],
        "p": [*(model.values[name] for name in model.parameter_names), *model.tables.values],
        "t": [0.0],
    }
    nodes = tuple(map(point.lower, expressions))
    arguments = (point.xdot, point.x, point.u, point.p, point.t)
    names = [f"row{k}" for k in range(len(nodes))]
    return np.array(interpret(Kernel("rows", point.graph, arguments, nodes, names), arrays, n))


def poses(plain, count, seed=0):
    """Coordinates beyond their ranges, too, so that splines are continued."""
    rng = np.random.default_rng(seed)
    return {name: rng.uniform(-2.5, 2.5, count) for name in plain.free()}


@pytest.mark.parametrize("name", MODELS)
def test_bodies_are_where_the_file_says(name):
    plain, tree = Plain(MODELS[name]), ks.osim.read(MODELS[name])
    assert [*tree.coordinates] and set(tree.coordinates) == set(plain.free())
    q = poses(plain, 100)
    model = tree.parametrised().model(outputs=["places", "attitudes"])
    found = dict(zip(model.outputs, interpreted(model, model.outputs.values(), q), strict=True))
    for k in range(100):
        places = plain.places({name: row[k] for name, row in q.items()})
        for body in plain.bodies:
            ours = [found[f"{body}_place_{axis}"][k] for axis in "xyz"]
            np.testing.assert_allclose(ours, places[body][:3, 3].real, rtol=0, atol=1e-12)
            turn = [[found[f"{body}_attitude_{i}{j}"][k] for j in "xyz"] for i in "xyz"]
            np.testing.assert_allclose(turn, places[body][:3, :3].real, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_mass_matrices_are_sums_over_bodies(name):
    plain, tree = Plain(MODELS[name]), ks.osim.read(MODELS[name])
    q, names = poses(plain, 5, seed=1), [*tree.coordinates]
    model = tree.parametrised().model()
    n = len(names)
    for k in range(5):
        here = {name: row[k] for name, row in q.items()}
        rates = {f"{name}_speed": row for name, row in zip(names, np.eye(n, n + 1, 1), strict=True)}
        rows = interpreted(model, model.equations[n:], here, rates)
        mass = rows[:, 1:] - rows[:, :1]
        expected = plain.mass_matrix(here, names)
        np.testing.assert_allclose(mass, expected, rtol=0, atol=1e-11 * np.abs(expected).max())


# -- OpenSim's own results ------------------------------------------------------------------------


def low_passed(table, names, cutoff=6.0):
    """As in the setup of these results: a filter of order 3 forwards and backwards."""
    b, a = signal.butter(3, 2.0 * cutoff * np.mean(np.diff(table.time)))
    half = len(table.time) // 2
    rows = {name: signal.filtfilt(b, a, table[name], padlen=half) for name in names}
    return replace(table, columns=rows)


def rms(rows):
    return np.sqrt(np.mean(np.square(rows)))


def test_inverse_dynamics_of_the_arm():
    tree = ks.osim.read(MODELS["arm26"])
    motion = low_passed(ks.gait.read_mot(EXAMPLES / "opensim_arm26.mot.gz"), tree.coordinates)
    theirs = ks.gait.read_mot(TESTS / "std_arm26_InverseDynamics.sto.gz")
    ours = ks.inverse_dynamics(tree, motion, time=np.clip(theirs.time, 0.0, 1.0))
    for name in theirs.names:
        assert rms(ours[name] - theirs[name]) < 5e-4 * rms(theirs[name])


def test_inverse_dynamics_of_a_walk():
    """By OpenSim 4.6; what is published with these files is of other inertias and forces: OpenSim
    itself is as far from that as this."""
    tree = ks.osim.read(MODELS["subject01"])
    table = ks.gait.read_mot(EXAMPLES / "opensim_subject01.mot.gz")
    motion = low_passed(table, tree.coordinates)
    forces = ks.osim.read_loads(EXAMPLES / "opensim_subject01_forces.xml")
    assert set(forces) == {"calcn_r", "calcn_l"}
    theirs = ks.gait.read_mot(TESTS / "subject01_InverseDynamics.sto.gz")
    time = np.clip(theirs.time, table.time[0], None)
    ours = ks.inverse_dynamics(tree, motion, forces, time)
    assert set(ours.names) == set(theirs.names)
    for name in theirs.names:
        error = (ours[name] - theirs[name])[1:]  # the end of a spline is not the same
        assert rms(error) < 3e-3 * rms(theirs[name])
        if name.startswith(("lumbar", "mtp")):  # nothing of the plates, nothing of the ends
            assert np.abs(error[11:]).max() < 1e-4


# -- what users give ------------------------------------------------------------------------------


def test_motions_of_other_models_are_refused():
    """Of OpenSim 4 the paths of coordinates are understood; what is missing is said."""
    tree = ks.osim.read(MODELS["arm26"])
    motion = ks.gait.read_mot(EXAMPLES / "opensim_arm26.mot.gz")
    plain = {"time": motion.time, **motion.columns}
    paths = {f"/jointset/joint/{n}/value": row for n, row in motion.columns.items()}
    expected = ks.inverse_dynamics(tree, replace(motion, degrees=False))
    found = ks.inverse_dynamics(tree, {"time": motion.time, **paths})
    np.testing.assert_array_equal(found["r_elbow_flex_moment"], expected["r_elbow_flex_moment"])
    with pytest.raises(ValueError, match=r"the motion has no coordinate of .*it has knee"):
        ks.inverse_dynamics(tree, {"time": motion.time, "knee": motion.time})
    del plain["r_elbow_flex"]
    with pytest.warns(UserWarning, match="the motion has no r_elbow_flex: taken at the default"):
        ks.inverse_dynamics(tree, plain)


def test_wrenches_in_other_axes_are_noticed():
    tree = ks.osim.read(MODELS["subject01"])
    motion = ks.gait.read_mot(EXAMPLES / "opensim_subject01.mot.gz")
    time = motion.time[20:40]
    with pytest.warns(
        UserWarning, match=r"push \d+ N along z in the mean, but gravity .* along -y"
    ):
        ks.inverse_dynamics(
            tree, motion, ks.gait.read_forces(EXAMPLES / "opensim_subject01_forces.xml"), time
        )
