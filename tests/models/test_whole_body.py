"""The body of 18 segments against the numbers of another implementation, and against Pinocchio."""

import gzip
import json
import warnings
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import kinesym as ks
from kinesym.codegen.evaluate import model_symbols
from kinesym.codegen.interpret import interpret
from kinesym.codegen.kernel import Kernel
from kinesym.gait import read_segments
from kinesym.gait.natural.body import NaturalBody
from kinesym.models.whole_body import (
    ROOT,
    Segment,
    check_mass,
    segments_of_body,
    segments_with,
    whole_body,
    write_segments,
)

pin = pytest.importorskip("pinocchio")

DATA = Path(__file__).parents[1] / "data"
AXES = "xyz"


def test_segments_of_the_reference():
    given = json.loads((DATA / "gait57_model.json").read_text())["segments"]
    made = segments_of_body(85.0, 1.82)
    assert [row.name for row in made] == [row["name"] for row in given]
    for ours, theirs in zip(made, given, strict=True):
        assert ours.proximal == theirs["proximal"]
        numbers = [ours.mass, *ours.com, *ours.inertia]
        expected = [theirs["mass"], *theirs["com"], *theirs["inertia_com_diag"]]
        np.testing.assert_allclose(numbers, expected, rtol=1e-10, atol=1e-14)
        assert ours.points.keys() == theirs["points"].keys()
        for point, place in ours.points.items():
            np.testing.assert_allclose(place, theirs["points"][point], rtol=1e-10, atol=1e-14)


def test_counts():
    """22 points; two unit vectors and three angles of each segment: 228 coordinates, 57 free."""
    rows, tree = segments_of_body(), whole_body()
    points = 1 + sum(len(row.points) for row in rows)
    assert (points, len(rows), len(tree.speeds), len(tree.coordinates)) == (22, 18, 57, 57)
    assert 3 * points + (2 * 3 + 3) * len(rows) == 228
    np.testing.assert_allclose(sum(row.mass for row in rows), 85.0, rtol=1e-12)
    model = tree.model(outputs=["center_of_mass", "places"])
    assert len(model.states) == 114 and model.explicit is not None


# -- against Pinocchio: a free-flyer, the pelvis, and 17 spherical joints -------------------------


class Other:
    """The same body, of joints with relative rotations as quaternions."""

    def __init__(self, segments):
        self.segments, self.model = segments, pin.Model()
        self.model.gravity.linear = np.array([0.0, 0.0, -9.81])
        first, still = segments[0], pin.SE3.Identity()
        owner = {ROOT: (first.name, np.zeros(3))}
        self.parents = {first.name: None}
        for row in segments:
            parent, at = owner[row.proximal]
            if row is first:
                joint = self.model.addJoint(0, pin.JointModelFreeFlyer(), still, row.name)
            else:
                self.parents[row.name] = parent
                place = pin.SE3(np.eye(3), np.array(at))
                joint = self.model.addJoint(
                    self.model.getJointId(parent), pin.JointModelSpherical(), place, row.name
                )
            body = pin.Inertia(row.mass, np.array(row.com), np.diag(row.inertia))
            self.model.appendBodyToJoint(joint, body, still)
            owner |= {point: (row.name, place) for point, place in row.points.items()}
        self.data = self.model.createData()

    def state(self, z, zd, zdd):
        """q, v, a of the absolute angles in z, and J of v = J zd."""
        parts = [turning(*(each[k : k + 3] for each in (z, zd, zdd))) for k in range(3, 57, 3)]
        names = {row.name: k for k, row in enumerate(self.segments)}
        q, v, a = np.zeros(self.model.nq), np.zeros(self.model.nv), np.zeros(self.model.nv)
        J = np.zeros((self.model.nv, 57))
        for k, row in enumerate(self.segments):
            A, H, w, dw = parts[k]
            joint = self.model.joints[self.model.getJointId(row.name)]
            place, at = slice(joint.idx_q, joint.idx_q + joint.nq), joint.idx_v
            parent, own = self.parents[row.name], slice(3 + 3 * k, 6 + 3 * k)
            if parent is None:
                q[place] = [*z[:3], *Rotation.from_matrix(A).as_quat()]
                v[at : at + 3], a[at : at + 3] = A.T @ zd[:3], A.T @ (zdd[:3] - np.cross(w, zd[:3]))
                v[at + 3 : at + 6], a[at + 3 : at + 6] = A.T @ w, A.T @ dw
                J[at : at + 3, :3], J[at + 3 : at + 6, own] = A.T, A.T @ H
                continue
            B, G, wb, dwb = parts[names[parent]]
            q[place] = Rotation.from_matrix(B.T @ A).as_quat()
            v[at : at + 3] = A.T @ (w - wb)
            a[at : at + 3] = A.T @ (dw - dwb - np.cross(w, w - wb))
            J[at : at + 3, own] = A.T @ H
            other = 3 + 3 * names[parent]
            J[at : at + 3, other : other + 3] = -A.T @ G
        return q, v, a, J


def turning(angles, rates, accelerations):
    """A, H, angular velocity and acceleration in world axes of A = Ry Rx Rz, by complex steps of
    angular velocity in A."""
    alpha, beta, gamma = angles
    A = Rotation.from_euler("YXZ", [beta, alpha, gamma]).as_matrix()

    def columns(angles):
        a, b, _ = angles
        return np.array(
            [
                [np.cos(b), 0 * a, -np.sin(b)],
                [0 * a, 1 + 0 * a, 0 * a],
                [np.cos(a) * np.sin(b), -np.sin(a), np.cos(a) * np.cos(b)],
            ]
        ).T

    H, h = columns(angles), 1e-30
    change = columns(angles + 1j * h * rates).imag / h
    return A, H, H @ rates, H @ accelerations + change @ rates


def states(count=3, seed=11):
    """With abduction well below 90 degrees."""
    rng = np.random.default_rng(seed)
    z, zd, zdd = (rng.uniform(-1.0, 1.0, (57, count)) * scale for scale in (3.0, 4.0, 30.0))
    z[3::3] /= 3.0
    return z, zd, zdd


@pytest.fixture(scope="module")
def bodies():
    rows = segments_of_body(85.0, 1.82)
    return NaturalBody(rows), Other(rows)


def test_inverse_dynamics_of_pinocchio(bodies):
    """Generalised forces on z are J' tau; kinetic and potential energies, mass matrices."""
    natural, other = bodies
    z, zd, zdd = states()
    found, kinematics = natural.forces(z, zd, zdd), natural.kinematics(z, zd, zdd)
    for k in range(3):
        q, v, a, J = other.state(z[:, k], zd[:, k], zdd[:, k])
        np.testing.assert_allclose(J @ zd[:, k], v, atol=1e-13)
        tau = pin.rnea(other.model, other.data, q, v, a)
        np.testing.assert_allclose(found[:, k], J.T @ tau, atol=1e-9)
        M = pin.crba(other.model, other.data, q)
        np.testing.assert_allclose(natural.reduced_mass_matrix(z[:, k]), J.T @ M @ J, atol=1e-10)
        kinetic = kinematics.qd[:, k] @ natural.mass_matrix @ kinematics.qd[:, k] / 2.0
        expected = pin.computeKineticEnergy(other.model, other.data, q, v)
        np.testing.assert_allclose(kinetic, expected, rtol=1e-12)
        expected = pin.computePotentialEnergy(other.model, other.data, q)
        np.testing.assert_allclose(-natural.weight @ kinematics.q[:, k], expected, atol=1e-9)


def test_forward_dynamics_of_pinocchio(bodies):
    """Accelerations of the articulated-body algorithm under forces on z, of equation 16: forces
    that random accelerations need, and the fall without any."""
    natural, other = bodies
    z, zd, zdd = states(seed=12)
    for forces in (natural.forces(z, zd, zdd), np.zeros_like(z)):
        found = natural.accelerations(z, zd, forces)
        for k in range(3):
            q, v, bias, J = other.state(z[:, k], zd[:, k], np.zeros(57))
            a = pin.aba(other.model, other.data, q, v, np.linalg.solve(J.T, forces[:, k]))
            expected = np.linalg.solve(J, a - bias)
            scale = max(1.0, np.abs(expected).max())
            np.testing.assert_allclose(found[:, k], expected, atol=1e-9 * scale)


@pytest.fixture(scope="module")
def tree_model():
    tree = whole_body(segments_of_body(85.0, 1.82))
    return tree, tree.model(outputs=["energy", "momentum"])


def at_point(model, expressions, values, rates):
    """Expressions by name at one point; whatever has no value is 0."""
    point = model_symbols(model)
    groups = {
        "xdot": (model.state_names, rates),
        "x": (model.state_names, values),
        "u": (model.input_names, {}),
        "p": (model.parameter_names, {}),
    }
    arrays = {
        key: np.array([[given.get(name, 0.0)] for name in names]).reshape(len(names), 1)
        for key, (names, given) in groups.items()
    }
    arguments = (point.xdot, point.x, point.u, point.p, point.t)
    nodes = tuple(map(point.lower, expressions.values()))
    kernel = Kernel("all", point.graph, arguments, nodes, tuple(expressions))
    found = interpret(kernel, {**arrays, "t": np.zeros((1, 1))}, 1)
    return dict(zip(expressions, np.ravel(found), strict=True))


def test_tree_and_natural_coordinates(tree_model, bodies):
    """Forces of the tree are conjugate to angular velocities in segment axes, A' H angles'."""
    (tree, model), (natural, other) = tree_model, bodies
    z, zd, zdd = states(count=2, seed=13)
    expected = natural.forces(z, zd, zdd)
    for k in range(2):
        motion = z[:, k], zd[:, k], zdd[:, k]
        values, rates, turns = {}, {}, {}
        for number, body in enumerate(tree.bodies):
            own = slice(3 * number, 3 * number + 3)
            q, dq, ddq = (each[own] for each in motion)
            u, du, letters = dq, ddq, ("p", "v")
            if body.name != ROOT:
                A, H, w, dw = turning(q, dq, ddq)
                u, du, letters, turns[body.name] = A.T @ w, A.T @ dw, ("", "w"), A.T @ H
            for j, axis in enumerate(AXES):
                place, speed = (f"{body.name}_{letter}{axis}" for letter in letters)
                values |= {place: q[j], speed: u[j]}
                rates |= {place: dq[j], speed: du[j]}
        rows = dict(zip(model.state_names, model.equations, strict=True))
        found = at_point(model, rows, values, rates)
        forces = [[found[f"{ROOT}_v{axis}"] for axis in AXES]]
        forces += [
            turn.T @ [found[f"{name}_w{axis}"] for axis in AXES] for name, turn in turns.items()
        ]
        np.testing.assert_allclose(np.concatenate(forces), expected[:, k], atol=1e-9)
        energies = {name: model.outputs[name] for name in ("kinetic_energy", "potential_energy")}
        energy = at_point(model, energies, values, rates)
        q, v, _, _ = other.state(*motion)
        total = pin.computeKineticEnergy(other.model, other.data, q, v)
        total += pin.computePotentialEnergy(other.model, other.data, q)
        np.testing.assert_allclose(sum(energy.values()), total, rtol=1e-12)


@pytest.mark.study
def test_flight(tree_model):
    """Nothing but weight acts: energy and angular momentum about the centre of mass are kept, and
    momentum changes by weight times time."""
    tree, model = tree_model
    rng = np.random.default_rng(2)
    initial = {name: 0.2 * rng.normal() for name in tree.coordinates}
    initial |= {name: rng.normal() for name in tree.speeds}
    time = np.linspace(0.0, 0.5, 11)
    found = ks.simulate(
        model, time, initial, method="dormand-prince", rtol=1e-12, atol=1e-12, progress=False
    )
    energy = found["kinetic_energy"] + found["potential_energy"]
    assert np.abs(energy - energy[0]).max() < 1e-9
    for axis in AXES:
        spin, moved = found[f"angular_momentum_{axis}"], found[f"momentum_{axis}"]
        np.testing.assert_allclose(spin, spin[0], atol=1e-10)
        weight = -9.81 * 85.0 if axis == "z" else 0.0
        np.testing.assert_allclose(moved - moved[0], weight * time, atol=1e-9)


def test_balance_of_momentum(bodies):
    """The total force is the rate of change of momentum less weight, by differences in time."""
    natural, other = bodies
    z, zd, zdd = states(count=1, seed=14)
    force, h = natural.forces(z, zd, zdd)[:3, 0], 1e-4

    def momentum(s):
        q, v, _, _ = other.state(
            (z + s * zd + s * s / 2 * zdd)[:, 0], (zd + s * zdd)[:, 0], zdd[:, 0]
        )
        return pin.computeCentroidalMomentum(other.model, other.data, q, v).linear

    change = (8 * (momentum(h) - momentum(-h)) - momentum(2 * h) + momentum(-2 * h)) / (12 * h)
    np.testing.assert_allclose(force, change + [0.0, 0.0, 9.81 * 85.0], rtol=1e-6)


# -- tables ---------------------------------------------------------------------------------------


def test_persons_scale():
    small, tall = segments_of_body(60.0, 1.6), segments_of_body(60.0, 1.9)
    for a, b in zip(small, tall, strict=True):
        assert a.mass == b.mass
        np.testing.assert_allclose(np.array(b.inertia), np.array(a.inertia) * (1.9 / 1.6) ** 2)
    with pytest.raises(ValueError, match="must be positive, got 0"):
        segments_of_body(0.0)


def test_measured_numbers():
    rows = segments_of_body()
    given = segments_with(
        rows,
        masses={"Rthigh": 11.0},
        coms={"head": (0.01, 0.0, 0.1)},
        inertias={"Rthigh": (0.2, 0.2, 0.04)},
        points={"RK": (0.0, 0.0, -0.43), "LH": (0.0, 0.09, -0.28)},
    )
    by_name = {row.name: row for row in given}
    thigh, pelvis = by_name["Rthigh"], by_name["pelvis"]
    assert (thigh.mass, thigh.inertia) == (11.0, (0.2, 0.2, 0.04))
    assert thigh.points == {"RK": (0.0, 0.0, -0.43)} and by_name["head"].com == (0.01, 0.0, 0.1)
    assert pelvis.points == {"RH": rows[0].points["RH"], "LH": (0.0, 0.09, -0.28)}
    changed = {"Rthigh", "head", "pelvis"}
    for before, after in zip(rows, given, strict=True):
        assert (before == after) == (before.name not in changed)
    assert segments_with(rows) == rows


def test_bad_measured_numbers():
    rows = segments_of_body()
    with pytest.raises(ValueError, match=r"there is no segment 'Rtigh'.*Rthigh"):
        segments_with(rows, masses={"Rtigh": 11.0})
    with pytest.raises(ValueError, match="no segment has a point 'KR'"):
        segments_with(rows, points={"KR": (0.0, 0.0, 0.0)})
    with pytest.raises(
        ValueError,
        match=r"segment 'Rthigh': no body has principal moments of inertia 0.1, 0.1, 0.3; "
        r"each is at most the sum of the others",
    ):
        segments_with(rows, inertias={"Rthigh": (0.1, 0.1, 0.3)})
    with pytest.raises(ValueError, match=r"segment 'head': no body has .* inertia -0.1, 0.1, 0.1;"):
        segments_with(rows, inertias={"head": (-0.1, 0.1, 0.1)})
    with pytest.raises(ValueError, match="segment 'head': mass must not be negative, got -1"):
        segments_with(rows, masses={"head": -1.0})
    with pytest.raises(ValueError, match="segment 'Rthigh': point 'RK' must be three finite"):
        segments_with(rows, points={"RK": (0.0, 1.0)})


def test_tables_of_a_person(tmp_path):
    """Files like those of the package, in kg, m, kg m^2, in any order of columns."""
    rows = segments_of_body(70.0, 1.75)
    header = "segment,proximal,basis_point,basis_vectors,mass,com_x,com_y,com_z,I_xx,I_yy,I_zz"
    lines = [
        ",".join(
            map(
                repr_,
                (r.name, r.proximal, r.basis_point, r.basis_vectors, r.mass, *r.com, *r.inertia),
            )
        )
        for r in rows
    ]
    points = [
        ",".join(map(repr_, (point, r.name, *place)))
        for r in rows
        for point, place in r.points.items()
    ]
    table, places = tmp_path / "body.csv", tmp_path / "points.csv"
    table.write_text("\n".join([header, *lines]))
    places.write_text("\n".join(["point,segment,x,y,z", *points]))
    assert read_segments(table, str(places)) == rows

    table.write_text("\n".join([header, lines[0], *reversed(lines[1:])]))  # in any order
    places.write_text("\n".join(["point,segment,x,y,z", *reversed(points)]))
    turned = read_segments(table, places)
    assert turned[0] == rows[0] and {r.name for r in turned} == {r.name for r in rows}

    def with_tables(rows=lines, points=points, header=header):
        table.write_text("\n".join([header, *rows]))
        places.write_text("\n".join(["point,segment,x,y,z", *points]))
        return read_segments(table, places)

    with pytest.raises(ValueError, match="segment 'pelvis': mass must be a number, got 'heavy'"):
        with_tables([lines[0].replace("19.25", "heavy"), *lines[1:]])
    with pytest.raises(ValueError, match="point 'X': there is no segment 'tigh'"):
        with_tables(points=[*points, "X,tigh,0,0,0"])
    with pytest.raises(ValueError, match=r"points\.csv, line 2 has 4 cells, not 5"):
        with_tables(points=["RH,pelvis,0,0", *points[1:]])
    with pytest.raises(ValueError, match="segment 'pelvis': column basis_point is missing"):
        with_tables(header=header.replace("basis_point", "basis"))
    with pytest.raises(ValueError, match="a table of segments: column segment is missing"):
        with_tables(header=header.replace("segment", "name"))


def repr_(value):
    return value if isinstance(value, str) else repr(float(value))


def test_the_table_of_the_package_is_in_shares(tmp_path):
    """It is refused as a table of a person; what is written from it is not."""
    names = [
        Path(str(files("kinesym.models").joinpath("data", f"body18{end}.csv")))
        for end in ("", "_points")
    ]
    with pytest.raises(ValueError, match="sum up to 1: these are fractions, not kg"):
        read_segments(*names)
    with pytest.raises(FileNotFoundError, match=r"there is no file none\.csv"):
        read_segments("none.csv", names[1])
    own = [tmp_path / "body.csv", tmp_path / "points.csv"]
    write_segments(segments_of_body(72.0, 1.75), *own)
    assert read_segments(*own) == segments_of_body(72.0, 1.75)
    own[0].write_text(own[0].read_text().replace("Rshank,RK", "Rshank,RKK"))
    with pytest.raises(ValueError, match="segment 'Rshank': proximal point 'RKK' is not defined"):
        read_segments(*own)


def test_tables_of_older_systems(tmp_path):
    """Latin-1, or compressed; what is no number is one nowhere."""
    own = [tmp_path / "body.csv", tmp_path / "points.csv"]
    rows = segments_of_body(72.0, 1.75)
    write_segments(rows, *own)
    latin = [path.read_text().replace("head", "tête").encode("latin-1") for path in own]
    for path, content in zip(own, latin, strict=True):
        path.write_bytes(gzip.compress(content))
    assert "tête" in [row.name for row in read_segments(*own)]
    for wrong in ("1_000", "nan", "1e999"):
        text = latin[0].decode("latin-1").replace(f",{rows[0].mass!r},", f",{wrong},", 1)
        own[0].write_text(text)
        with pytest.raises(ValueError, match=rf"body\.csv.*mass must be a number, got '{wrong}'"):
            read_segments(*own)


def test_mass_of_the_body():
    rows = segments_of_body(85.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_mass(rows, 85.8)
    with pytest.warns(UserWarning, match="the segments have 85 kg together, the body 80 kg"):
        check_mass(rows, 80.0)


def test_bad_tables():
    rows = list(segments_of_body())
    with pytest.raises(ValueError, match=r"segment 'torso': proximal point 'X' is not defined"):
        whole_body([rows[0], replace(rows[1], proximal="X")])
    with pytest.raises(ValueError, match=r"segment 'torso': proximal point 'NK' is not defined"):
        whole_body([rows[0], replace(rows[1], proximal="NK")])  # a cycle
    with pytest.raises(ValueError, match=r"segment 'torso': point 'RH' belongs to two segments"):
        whole_body([rows[0], replace(rows[1], points={"RH": (0, 0, 0)})])
    with pytest.raises(ValueError, match="segment 'a': com must be three finite numbers"):
        Segment("a", "J1", 1.0, (0.0, 0.0, float("inf")), (1.0, 1.0, 1.0), {})


def test_plates_tell_what_all_torques_tell():
    """The mass and nine numbers of each segment; first moments of the root, which has none, come
    besides."""
    tree = whole_body()
    plates, torques = (tree.base_parameters(measured) for measured in ("base_wrench", None))
    assert len(torques.names) == 1 + 9 * 18
    assert {*plates.names} - {*torques.names} == {"J1_mcx", "J1_mcy", "J1_mcz"}
