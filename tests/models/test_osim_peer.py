"""The same files in OpenSim itself, where it is installed (`pip install opensim`): places, mass
matrices, inverse dynamics with coordinates, speeds and accelerations at random."""

import gzip

import numpy as np
import pytest
from scipy.linalg import null_space
from test_osim import MODELS, interpreted
from test_osim_files import CHAIN, CUSTOM, FUNCTIONS, HELD, SURFACES, WELDED, model_file
from test_stretched import factors_of, stretched

import kinesym as ks

osim = pytest.importorskip("opensim")
pytestmark = pytest.mark.filterwarnings("ignore:LaiUhlrich2022. body toes")

#: OpenSim turns files before version 4 into new ones, in which joints are at places of 6 digits.
#: With kneecaps, its forces are not those that follow from its mass matrix, by 1e-4.
ROUNDED = {"subject01": 1e-6, "gait10dof18musc": 1e-6}
BIAS = {"LaiUhlrich2022": 2e-4}


class Peer:
    """A model without forces, all of its coordinates free."""

    def __init__(self, path):
        osim.Logger.setLevelString("off")
        self.model = model = osim.Model(str(path))
        forces, every = model.updForceSet(), [*model.getComponentsList()]
        for k in range(forces.getSize()):
            forces.get(k).set_appliesForce(False)
        for e in every:
            if osim.Force.safeDownCast(e) is not None:
                osim.Force.safeDownCast(e).set_appliesForce(False)
        coordinates = model.updCoordinateSet()
        self.coordinates = {}
        for k in range(coordinates.getSize()):
            one = coordinates.get(k)
            one.set_locked(False)
            one.set_clamped(False)
            self.coordinates[one.getName()] = one
        self.state = model.initSystem()
        self.matter, self.n = model.getMatterSubsystem(), self.state.getNU()
        self.places = {name: self._place(one) for name, one in self.coordinates.items()}
        self.among = {name: self._among(one) for name, one in self.coordinates.items()}

    def _among(self, one):
        """Where it is among all coordinates."""
        before = self.state.getQ().to_numpy().copy()
        value = one.getValue(self.state)
        one.setValue(self.state, value + 0.1, False)
        found = int(np.argmax(np.abs(self.state.getQ().to_numpy() - before)))
        one.setValue(self.state, value, False)
        return found

    def _place(self, one):
        """Where its speed is among all."""
        one.setSpeedValue(self.state, 1.0)
        found = int(np.argmax(np.abs(self.state.getU().to_numpy())))
        one.setSpeedValue(self.state, 0.0)
        return found

    def move(self, q, u):
        for name, one in self.coordinates.items():
            one.setValue(self.state, q[name], False)
            one.setSpeedValue(self.state, u[name])
        self.model.realizeVelocity(self.state)

    def bodies(self):
        bodies = self.model.getBodySet()
        for k in range(bodies.getSize()):
            X = bodies.get(k).getTransformInGround(self.state)
            at = [X.p().get(i) for i in range(3)]
            yield (
                bodies.get(k).getName(),
                at,
                [[X.R().get(i, j) for j in range(3)] for i in range(3)],
            )

    def mass_matrix(self):
        M = osim.Matrix()
        self.matter.calcM(self.state, M)
        return np.array([[M.get(i, j) for j in range(self.n)] for i in range(self.n)])

    def rates(self):
        """Rates of coordinates by speeds, which of some joints are angular velocities."""
        before, columns = self.state.getU().to_numpy().copy(), np.zeros((self.n, self.n))
        for k, column in enumerate(np.eye(self.n)):
            self.speed(column)
            found = self.state.getQDot().to_numpy()  # with a number more for each quaternion
            for name, place in self.places.items():
                columns[place, k] = found[self.among[name]]
        self.speed(before)
        return columns

    def speed(self, u):
        for name, k in self.places.items():
            self.coordinates[name].setSpeedValue(self.state, float(u[k]))
        self.model.realizeVelocity(self.state)

    def needed(self, rates):
        accelerations = osim.Vector(self.n, 0.0)
        for k, rate in enumerate(rates):
            accelerations.set(k, float(rate))
        return osim.InverseDynamicsSolver(self.model).solve(self.state, accelerations).to_numpy()


def follow(names):
    """All coordinates from those of the tree, which kneecaps of these models repeat."""
    return {f"{name}_beta": name for name in names if name.startswith("knee_angle_")}


@pytest.mark.parametrize("name", MODELS)
def test_places_masses_and_forces(name, tmp_path):
    path = tmp_path / "model.osim"
    path.write_bytes(gzip.decompress(MODELS[name].read_bytes()))
    agree(ks.osim.read(MODELS[name]), Peer(path), ROUNDED.get(name, 1e-11), BIAS.get(name))


def agree(tree, peer, rounded=1e-11, bias=None, moving=True):
    """Places, attitudes, the mass matrix and, of what moves, forces at random."""
    tree = tree.parametrised()
    names = [*tree.coordinates]
    twins = {k: v for k, v in follow(names).items() if k in peer.coordinates}
    row = {k: i for i, k in enumerate(names)} | {k: names.index(v) for k, v in twins.items()}
    J = np.zeros((peer.n, len(names)))  # of all speeds by those of the tree
    for other, i in row.items():
        J[peer.places[other], i] = 1.0
    model = tree.model(outputs=["places", "attitudes"])
    n, rng = len(names), np.random.default_rng(4)
    for _ in range(2):
        q, u, du = rng.uniform(0.0, 0.8, n), rng.normal(size=n), rng.normal(size=n)
        u = u if moving else 0.0 * u
        at = dict(zip(names, q, strict=True)) | {
            f"{k}_speed": v for k, v in zip(names, u, strict=True)
        }
        peer.move(*({k: float(v[i]) for k, i in row.items()} for v in (q, u)))
        found = dict(
            zip(model.outputs, interpreted(model, model.outputs.values(), at), strict=True)
        )
        for body, place, turn in peer.bodies():
            ours = [found[f"{body}_place_{axis}"][0] for axis in "xyz"]
            np.testing.assert_allclose(ours, place, rtol=0, atol=rounded)
            ours = [[found[f"{body}_attitude_{i}{j}"][0] for j in "xyz"] for i in "xyz"]
            np.testing.assert_allclose(ours, turn, rtol=0, atol=1e-13)
        rates = {f"{k}_speed": e for k, e in zip(names, np.eye(n, n + 1, 1), strict=True)}
        rows = interpreted(model, model.equations[n:], at, rates)
        mass, rest = rows[:, 1:] - rows[:, :1], rows[:, 0]
        K = np.linalg.solve(peer.rates(), J)  # speeds of OpenSim by rates of coordinates
        expected = K.T @ peer.mass_matrix() @ K
        np.testing.assert_allclose(mass, expected, rtol=0, atol=rounded * np.abs(expected).max())
        forces = K.T @ peer.needed(K @ du)
        share = (bias or rounded) * np.abs(forces).max()
        np.testing.assert_allclose(mass @ du + rest, forces, rtol=0, atol=share)


@pytest.mark.filterwarnings("ignore:all. joint joint1 moves by a function that has corners")
@pytest.mark.parametrize("functions", [CUSTOM.replace("stuck", "a"), FUNCTIONS])
def test_functions_of_joints(functions, tmp_path):
    """At rest: where a coordinate turns about two axes, forces of OpenSim in motion are not those
    that follow from its mass matrix; for second derivatives of polynomials of several coordinates
    it takes first ones."""
    path = tmp_path / "functions.osim"
    joints = {"PinJoint": ("pin", "0.1 0.2 0.3", "0 0 0"), "CustomJoint": ("a b", "0 0 0", "0 1 0")}
    text = without_forces(model_file(joints, ""))
    path.write_text(text.replace(CUSTOM, functions))
    agree(ks.osim.read(path), Peer(path), moving=False)


@pytest.mark.parametrize("kind", ["EllipsoidJoint", "ScapulothoracicJoint"])
def test_joints_on_ellipsoids(kind, tmp_path):
    """At rest, as speeds of OpenSim are angular velocities."""
    path = tmp_path / "ellipsoids.osim"
    joints = {"PinJoint": ("pin", "0.1 0.2 0.3", "0 0 0"), kind: SURFACES[kind]}
    path.write_text(
        without_forces(model_file({**joints, "SliderJoint": ("s", "0 0 0", "0 0 1")}, ""))
    )
    agree(ks.osim.read(path), Peer(path), moving=False)


def without_forces(text):
    """And without contact, as muscles of these files have no paths."""
    for name in ("ForceSet", "ContactGeometrySet", "MarkerSet"):
        begin, end = f"<{name}>", f"</{name}>"
        text = text[: text.index(begin)] + text[text.index(end) + len(end) :]
    return text


@pytest.mark.parametrize("constraint", [HELD, WELDED], ids=["point", "weld"])
def test_accelerations_of_closed_loops(constraint, tmp_path):
    """Those of OpenSim need no other forces than those of the loop, and keep it closed."""
    path = tmp_path / "chain.osim"
    path.write_text(without_forces(model_file(CHAIN, constraint)))
    tree, peer = ks.osim.read(path), Peer(path)
    peer.model.set_assembly_accuracy(1e-13)
    peer.state = peer.model.initSystem()
    for one in peer.coordinates.values():
        one.setValue(peer.state, 0.2, False)
    peer.model.assemble(peer.state)
    names = [*tree.coordinates]
    n, model = len(names), tree.model()
    q = {name: one.getValue(peer.state) for name, one in peer.coordinates.items()}
    forces = model.state_names[2 * n :]

    def rows(values, rates=None):
        found = interpreted(model, model.equations[n:], values, rates)
        return found[:n], found[n:, 0]

    unit = dict(zip(forces, np.eye(len(forces), len(forces) + 1, 1), strict=True))
    pushes, gap = rows({**q, **unit})
    J = (pushes[:, 1:] - pushes[:, :1]).T
    np.testing.assert_allclose(gap, 0.0, atol=1e-10)
    u = null_space(J) @ np.random.default_rng(3).normal(size=n - len(forces))
    speeds = dict(zip(names, u, strict=True))
    peer.move(q, speeds)
    peer.model.realizeAcceleration(peer.state)
    a = {name: one.getAccelerationValue(peer.state) for name, one in peer.coordinates.items()}
    here = {**q, **{f"{name}_speed": v for name, v in speeds.items()}}
    left = rows(here, {f"{name}_speed": v for name, v in a.items()})[0][:, 0]
    given = np.linalg.lstsq(J.T, -left)[0]
    np.testing.assert_allclose(left + J.T @ given, 0.0, atol=1e-9 * np.abs(left).max())
    h = 1e-3
    ahead, back = (
        rows({name: q[name] + s * u + 0.5 * s**2 * a[name] for name, u in speeds.items()})[1]
        for s in (h, -h)
    )
    np.testing.assert_allclose((ahead + back - 2 * gap) / h**2, 0.0, atol=1e-4)


#: Axes of its knees are none of the thigh, where OpenSim takes the sum of their components for the
#: factor; shortest strings around surfaces are not those of OpenSim.
TILTED, STRINGS = ("LaiUhlrich2022",), {"LaiUhlrich2022": 0.03, "arm26": 2e-4}


@pytest.mark.parametrize("alike", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_scaled_models(name, alike, tmp_path):
    """What OpenSim's own scaling makes of a model, and that it reads what is written."""
    path, out = tmp_path / "model.osim", tmp_path / "scaled.osim"
    path.write_bytes(gzip.decompress(MODELS[name].read_bytes()))
    tree = ks.osim.read(path)
    factors = factors_of(tree, alike)
    made, _ = stretched(tree, factors, 70.0)
    ks.osim.write(tmp_path / "ours.osim", made)
    Peer(tmp_path / "ours.osim")
    model, each = osim.Model(str(path)), osim.ScaleSet()
    for body, row in factors.items():
        one = osim.Scale()
        one.setSegmentName(body)
        one.setScaleFactors(osim.Vec3(*map(float, row)))
        one.setApply(True)
        each.cloneAndAppend(one)
    model.scale(model.initSystem(), each, True, 70.0)
    model.printToXML(str(out))
    ours, theirs = made.description, ks.osim.parse(out)
    rounded = ROUNDED.get(name, 1e-12)
    for a, b in zip(ours.bodies, theirs.bodies, strict=True):
        assert (a.mass, *a.com) == pytest.approx((b.mass, *b.com), abs=1e-12)
        if alike:  # it takes bodies for solid cylinders otherwise
            assert a.inertia == pytest.approx(b.inertia, rel=1e-4, abs=rounded)
    for a, b in zip(ours.joints, theirs.joints, strict=True):
        assert (*a.parent.at, *a.child.at) == pytest.approx(
            (*b.parent.at, *b.child.at), abs=rounded
        )
        if name not in TILTED:
            for moves in zip(a.translations, b.translations, strict=True):
                scales = [getattr(move.function, "scale", 1.0) for move in moves]
                assert scales[0] == pytest.approx(scales[1], rel=1e-12)
    for a, b in zip(ours.markers, theirs.markers, strict=True):
        assert a.at == pytest.approx(b.at, abs=1e-12)
    by_name = {row.name: row for row in theirs.muscles}
    for a in ours.muscles:
        b = by_name[a.name]
        for p, q in zip(a.points, b.points, strict=True):
            assert p.at == pytest.approx(q.at, abs=1e-12)
        for p, q in zip(a.wraps, b.wraps, strict=True):
            assert (*p.frame.at, *p.sizes) == pytest.approx((*q.frame.at, *q.sizes), abs=1e-12)
        for key in ("optimal_length", "slack_length"):
            near = STRINGS.get(name, 1e-6)
            assert a.numbers[key] == pytest.approx(b.numbers[key], rel=near)
