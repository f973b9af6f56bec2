"""The body in the sagittal plane against Pinocchio and in natural coordinates."""

from dataclasses import replace

import numpy as np
import pytest

import kinesym as ks
from kinesym.codegen.evaluate import model_symbols
from kinesym.codegen.interpret import interpret
from kinesym.codegen.kernel import Kernel
from kinesym.gait.natural.planar import PlanarBody
from kinesym.models.planar_body import (
    GROUPS,
    HIP,
    PlanarSegment,
    joint_angles,
    planar_body,
    planar_segments,
)
from kinesym.models.whole_body import segments_of_body

pin = pytest.importorskip("pinocchio")


def residual(model, values, rates):
    """Equations of motion by the name of their speed at one point, without inputs."""
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
    nodes = tuple(map(point.lower, model.equations))
    kernel = Kernel("all", point.graph, arguments, nodes, model.state_names)
    found = interpret(kernel, {**arrays, "t": np.zeros((1, 1))}, 1)
    return dict(zip(model.state_names, np.ravel(found), strict=True))


def pinocchio_model(segments):
    """Two sliders and hinges about y; places in their order."""
    model = pin.Model()
    model.gravity.linear = np.array([0.0, 0.0, -9.81])
    still = pin.SE3.Identity()
    x = model.addJoint(0, pin.JointModelPX(), still, "x")
    owner = {HIP: (model.addJoint(x, pin.JointModelPZ(), still, "z"), (0.0, 0.0))}
    for row in segments:
        parent, (x, z) = owner[row.proximal]
        place = pin.SE3(np.eye(3), np.array([x, 0.0, z]))
        joint = model.addJoint(parent, pin.JointModelRY(), place, row.name)
        moments = np.diag(3 * [row.inertia])
        centre = np.array([row.com[0], 0.0, row.com[1]])
        model.appendBodyToJoint(joint, pin.Inertia(row.mass, centre, moments), still)
        owner |= {point: (joint, at) for point, at in row.points.items()}
    return model


def relative(segments):
    """From rows of z, with angles in the world, to coordinates of joints."""
    result = np.eye(2 + len(segments))
    result[2:, 2:] = joint_angles(segments)
    return result


def by_pinocchio(segments, z, zd, zdd):
    """Forces on z, mass matrix and energy at one instant: J' tau, J' M J."""
    model, J = pinocchio_model(segments), relative(segments)
    data = model.createData()
    order = [
        model.joints[model.getJointId(name)].idx_v
        for name in ("x", "z", *(row.name for row in segments))
    ]
    q, v, a = (np.zeros(model.nv) for _ in range(3))
    q[order], v[order], a[order] = J @ z, J @ zd, J @ zdd
    tau = pin.rnea(model, data, q, v, a)[order]
    M = pin.crba(model, data, q)[np.ix_(order, order)]
    energy = pin.computeKineticEnergy(model, data, q, v) + pin.computePotentialEnergy(
        model, data, q
    )
    return J.T @ tau, J.T @ M @ J, energy


@pytest.mark.parametrize("count", GROUPS)
def test_three_formulations(count):
    """Natural coordinates, the tree and Pinocchio need the same generalised forces."""
    segments = planar_segments(85.0, 1.82, count)
    tree, body = planar_body(segments), PlanarBody(segments)
    model, J, rng = tree.model(), relative(segments), np.random.default_rng(count)
    assert len(tree.coordinates) == len(tree.speeds) == body.g == {7: 9, 11: 13}[count]
    z, zd, zdd = (rng.normal(0.0, scale, (body.g, 3)) for scale in (1.5, 3.0, 20.0))
    forces, kinematics = body.forces(z, zd, zdd), body.kinematics(z, zd, zdd)
    for k in range(3):
        expected, M, energy = by_pinocchio(segments, z[:, k], zd[:, k], zdd[:, k])
        np.testing.assert_allclose(forces[:, k], expected, atol=1e-9)
        np.testing.assert_allclose(body.reduced_mass_matrix(z[:, k]), M, atol=1e-11)
        kinetic = kinematics.qd[:, k] @ body.mass_matrix @ kinematics.qd[:, k] / 2.0
        np.testing.assert_allclose(kinetic - body.weight @ kinematics.q[:, k], energy, rtol=1e-12)
        values = dict(zip(tree.coordinates, J @ z[:, k], strict=True))
        values |= dict(zip(tree.speeds, J @ zd[:, k], strict=True))
        rates = dict(zip(tree.coordinates, J @ zd[:, k], strict=True))
        rates |= dict(zip(tree.speeds, J @ zdd[:, k], strict=True))
        found = residual(model, values, rates)
        torques = np.array([found[name] for name in tree.speeds])
        np.testing.assert_allclose(J.T @ torques, expected, atol=1e-9)


@pytest.mark.study
def test_flight():
    """Energy is kept in flight; the trapezoid rule is of second order."""
    segments = planar_segments(85.0, 1.82, 7)
    tree = planar_body(segments)
    model = tree.model(outputs=["energy", "momentum"])
    rng = np.random.default_rng(1)
    initial = {name: 0.3 * rng.normal() for name in tree.coordinates}
    initial |= {name: 2.0 * rng.normal() for name in tree.speeds}
    time = np.linspace(0.0, 0.4, 17)
    right = ks.simulate(
        model, time, initial, method="dormand-prince", rtol=1e-12, atol=1e-12, progress=False
    )
    energy = right["kinetic_energy"] + right["potential_energy"]
    np.testing.assert_allclose(energy, energy[0], atol=1e-9)
    spin = right["angular_momentum_y"]
    np.testing.assert_allclose(spin, spin[0], atol=1e-9)
    errors = []
    for substeps in (2, 4, 8):
        found = ks.simulate(
            model, time, initial, method="trapezoid", substeps=substeps, progress=False
        )
        errors.append(max(abs(found[name][-1] - right[name][-1]) for name in tree.coordinates))
    np.testing.assert_allclose(np.divide(errors[:-1], errors[1:]), 4.0, atol=0.1)


# -- the table ------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", GROUPS)
def test_merging(count):
    """Mass, centre of mass and moment of inertia of the whole body when standing upright."""
    rows = segments_of_body(70.0, 1.7)
    at, parts = {"J1": np.zeros(3)}, []
    for row in rows:
        at |= {p: at[row.proximal] + place for p, place in row.points.items()}
        parts.append((row.mass, (at[row.proximal] + row.com)[[0, 2]], row.inertia[1]))
    hip = (at["RH"] + at["LH"])[[0, 2]] / 2.0
    place, merged = {HIP: hip}, []
    for row in planar_segments(70.0, 1.7, count):
        place |= {p: place[row.proximal] + where for p, where in row.points.items()}
        merged.append((row.mass, place[row.proximal] + row.com, row.inertia))

    def whole(bodies):
        mass = sum(m for m, _, _ in bodies)
        centre = sum(m * x for m, x, _ in bodies) / mass
        return mass, *centre, sum(i + m * (x - centre) @ (x - centre) for m, x, i in bodies)

    np.testing.assert_allclose(whole(merged), whole(parts), rtol=1e-12)
    for name, point in (("RK", "RK"), ("LA", "LA"), ("RM", "RM")):
        np.testing.assert_allclose(place[name], at[point][[0, 2]], atol=1e-15)


def test_measured_segments():
    """Those given are merged in place of the scaled ones."""
    heavy = [replace(row, mass=2.0 * row.mass) for row in segments_of_body()]
    for scaled, given in zip(planar_segments(), planar_segments(segments=heavy), strict=True):
        np.testing.assert_allclose(given.mass, 2.0 * scaled.mass)
        np.testing.assert_allclose(given.com, scaled.com, atol=1e-15)


def test_bad_tables():
    rows = list(planar_segments())
    with pytest.raises(ValueError, match="bodies of 7 and 11 segments in the plane, not of 9"):
        planar_segments(count=9)
    with pytest.raises(ValueError, match="'Rfoot': segment 'Rforefoot' is not in the table"):
        planar_segments(segments=[r for r in segments_of_body() if r.name != "Rforefoot"])
    with pytest.raises(ValueError, match="'forearm': proximal point 'RE' is not defined"):
        planar_segments(segments=[replace(segments_of_body()[5], name="forearm")])
    with pytest.raises(ValueError, match="'HAT': proximal point 'X' is not defined by any earlier"):
        planar_body([replace(rows[0], proximal="X"), *rows[1:]])
    with pytest.raises(ValueError, match="'Rshank': point 'RK' belongs to two segments"):
        planar_body([*rows[:2], replace(rows[2], points={"RK": (0.0, 1.0)})])
    with pytest.raises(ValueError, match="'trunk': inertia must not be negative, got -1"):
        PlanarSegment("trunk", HIP, 1.0, (0.0, 0.0), -1.0, {})
    with pytest.raises(ValueError, match="'trunk': point 'P' must be two finite numbers"):
        PlanarSegment("trunk", HIP, 1.0, (0.0, 0.0), 1.0, {"P": (0.0, float("nan"))})
