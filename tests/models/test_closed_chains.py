"""Mechanisms in redundant coordinates against their one equation in one coordinate."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.spatial.transform import Rotation

import kinesym as ks
from kinesym.multibody import Body, Revolute, Tree

MASSES, LENGTHS, BASE, G = (0.3, 0.9, 0.7), (0.3, 0.9, 0.7), 1.0, 9.81


def four_bar_at(angle):
    """Angles of the rods, their rates and those of their centres for a crank at 1 rad/s: the
    coupler's end is where two circles meet, on the upper side."""
    l1, l2, l3 = LENGTHS
    b = l1 * np.exp(1j * angle)
    to_d = BASE - b
    distance = abs(to_d)
    cosine = (l2**2 + distance**2 - l3**2) / (2.0 * l2 * distance)
    e2 = to_d / distance * np.exp(1j * np.arccos(cosine))
    e3 = (b + l2 * e2 - BASE) / l3
    unit = [b / l1, e2, e3]
    # l1 e1 i w1 + l2 e2 i w2 = l3 e3 i w3
    matrix = np.array([[(l2 * e2).real, -(l3 * e3).real], [(l2 * e2).imag, -(l3 * e3).imag]])
    w2, w3 = np.linalg.solve(matrix, [-b.real, -b.imag])
    rates = np.array([1.0, w2, w3])
    centres = [b / 2, b + l2 * e2 / 2, BASE + l3 * e3 / 2]
    speeds = [1j * b / 2, 1j * b + 1j * w2 * l2 * e2 / 2, 1j * w3 * l3 * e3 / 2]
    return np.angle(unit), rates, np.array(centres), np.array(speeds)


def inertia_and_height(angle):
    _, rates, centres, speeds = four_bar_at(angle)
    m, length = np.array(MASSES), np.array(LENGTHS)
    inertia = m @ (np.abs(speeds) ** 2 + length**2 / 12 * rates**2)
    return inertia, G * m @ centres.imag


def start(linkage, angle, rate):
    angles, rates, centres, speeds = four_bar_at(angle)
    values = dict.fromkeys(linkage.state_names, 0.0)
    for k in range(3):
        values |= {
            f"x_{k + 1}": centres[k].real,
            f"y_{k + 1}": centres[k].imag,
            f"phi_{k + 1}": angles[k],
            f"u_{k + 1}": rate * speeds[k].real,
            f"v_{k + 1}": rate * speeds[k].imag,
            f"omega_{k + 1}": rate * rates[k],
        }
    return values


def test_four_bar_turns_in_the_time_of_its_energy():
    """dt = dphi sqrt(I(phi) / 2 (E - V(phi))) over one revolution of the crank."""
    linkage = ks.models.four_bar()
    values = start(linkage, 0.8, 12.0)
    time = np.linspace(0.0, 2.0, 401)
    assert ks.consistent(linkage, time, values)["phi_2"] == values["phi_2"]
    inertia, potential = inertia_and_height(0.8)
    energy = inertia * 12.0**2 / 2 + potential

    def slowness(angle):
        inertia, potential = inertia_and_height(angle)
        return np.sqrt(inertia / (2.0 * (energy - potential)))

    turn = quad(slowness, 0.8, 0.8 + 2.0 * np.pi, epsabs=1e-12, epsrel=1e-12)[0]
    reduced = linkage.reduced_index(index=0)
    values = {name: values.get(name, 0.0) for name in reduced.state_names}
    grid = np.array([0.0, turn / 3, turn])
    run = ks.simulate(reduced, grid, values, method="dormand-prince", rtol=1e-11, atol=1e-13)
    assert run["phi_1"][-1] == pytest.approx(0.8 + 2.0 * np.pi, abs=1e-8)
    assert run["energy"][0] == pytest.approx(energy, rel=1e-13)
    angle = run["phi_1"][1]
    np.testing.assert_allclose(
        [run[f"phi_{k}"][1] for k in (2, 3)], four_bar_at(angle)[0][1:], atol=1e-9
    )
    assert run["joint_c_x"][1] == pytest.approx(BASE + 0.7 * np.cos(run["phi_3"][1]), abs=1e-9)


def test_cartesian_pendulum_is_the_pendulum():
    """The equation theta'' = -g / L sin(theta)."""
    time = np.linspace(0.0, 3.0, 31)
    reduced = ks.models.cartesian_pendulum().reduced_index(index=0)
    values = {"x": 0.7 * np.sin(2.0), "y": -0.7 * np.cos(2.0), "u": 0.0, "v": 0.0}
    options = {"method": "dormand-prince", "rtol": 1e-11, "atol": 1e-13}
    two = ks.simulate(reduced, time, {**values, "tension_integral": 0.0}, {"L": 0.7}, **options)
    rest = {"theta": 2.0, "omega": 0.0}
    one = ks.simulate(ks.models.pendulum(), time, rest, {"p": 9.81 / 0.7}, **options)
    np.testing.assert_allclose(two["x"], 0.7 * np.sin(one["theta"]), atol=1e-8)


@pytest.fixture(scope="module")
def slider():
    """A crank of 0.3 m and a rod of 0.9 m whose end stays at z = 0; and where the end is."""
    rods = [
        Body("crank", 1.0, (0.15, 0, 0), (0, 0.0075, 0.0075), Revolute("y")),
        Body("rod", 1.0, (0.45, 0, 0), (0, 0.0675, 0.0675), Revolute("y"), (0.3, 0, 0), "crank"),
    ]
    tree = Tree("slider", rods, gravity=(0, 0, -9.81))
    end = tree.place("rod", (0.9, 0, 0))
    return tree.constrain(end[2], "guide").model(outputs=[{"x": end[0]}, "energy"])


def of_slider(slider, time):
    guess = dict.fromkeys(slider.state_names, 0.0) | {"crank_y": -1.0, "rod_y": 1.3}
    return ks.consistent(slider, time, {**guess, "crank_wy": 2.0}, keep=["crank_y", "crank_wy"])


def end_at(angle):
    return 0.3 * np.cos(angle) + np.sqrt(0.9**2 - 0.3**2 * np.sin(angle) ** 2)


def test_slider_crank_keeps_its_guide_and_its_energy_for_a_minute(slider):
    """Drift of the guide and relative change of the energy below 1e-9."""
    time = np.linspace(0.0, 60.0, 601)
    options = {"method": "dormand-prince", "rtol": 1e-12, "atol": 1e-14}
    run = ks.simulate(slider, time, of_slider(slider, time), **options)
    left = [run[name] for name in run.outputs if name.startswith("constraint")]
    assert len(left) == 2 and np.abs(left).max() < 1e-9
    energy = run["kinetic_energy"] + run["potential_energy"]
    assert np.ptp(energy) < 1e-9 * np.ptp(run["kinetic_energy"])
    np.testing.assert_allclose(run["x"], end_at(run["crank_y"]), atol=1e-9)
    assert np.ptp(run["crank_y"]) > 1.0


def test_a_slider_crank_is_on_its_guide_from_the_first_node_on(slider):
    """Of a fit of a tree, whose constraints are made of intermediates: the rod, which nothing else
    tells, starts where the crank has it."""
    time = np.linspace(0.0, 0.5, 26)
    run = ks.simulate(slider, time, of_slider(slider, time), method="dormand-prince")
    fit = ks.Collocation(slider, ks.Experiment(time, measurements={"crank_y": run["crank_y"]}))
    found = fit.solve(guess={"crank_y": run["crank_y"], "rod_y": run["rod_y"] + 0.1})
    np.testing.assert_allclose(found["x"], end_at(found["crank_y"]), atol=1e-8)
    np.testing.assert_allclose(found["rod_y"], run["rod_y"], atol=3e-4)


#: Of the test set for initial value problems, andrews: beta, Theta, gamma, Phi, delta, Omega,
#: epsilon at the start, and after 0.03 s.
ANDREWS = {
    "k1_z": (-0.0617138900142764496358948458001, 0.1581077119629904e2),
    "k2_z": (0.0, -0.1575637105984298e2),
    "k3_z": (0.455279819163070380255912382449, 0.4082224013073101e-1),
    "k4_z": (0.222668390165885884674473185609, -0.5347301163226948),
    "k5_z": (0.487364979543842550225598953530, 0.5244099658805304),
    "k6_z": (-0.222668390165885884674473185609, 0.5347301163226948),
    "k7_z": (1.23054744454982119249735015568, 0.1048080741042263e1),
}


def test_squeezer_ends_where_the_test_set_says():
    tree = ks.models.squeezer()
    assert tree.redundant == ("k2_k3_fz", "k2_k4_fz", "k2_k6_fz")
    model = tree.model(outputs=["energy"])
    assert model.index.value == 3 and model.index.freedom == 2
    low = model.reduced_index(index=0)
    start = dict.fromkeys(low.state_names, 0.0) | {name: row[0] for name, row in ANDREWS.items()}
    time = np.linspace(0.0, 0.03, 31)
    run = ks.simulate(low, time, start, method="dormand-prince", rtol=1e-11, atol=1e-12)
    for name, (_, end) in ANDREWS.items():
        np.testing.assert_allclose(run[name][-1], end, rtol=1e-8)
    for name in low.invariants:
        assert np.abs(run[name]).max() < 1e-9


# at t = 0 and t = 0.1 s, where the test set prints its reference
CRANK = {
    "phi_1": (0.0, 15.0),
    "phi_2": (0.0, -0.3311734988256260),
    "x_3": (0.450016933, 0.1697373328427860),
    "q_1": (0.0, 1.893192899613509e-4),
    "q_2": (0.0, 2.375751249879174e-5),
    "q_3": (1.03339863e-5, -5.323896770569702e-6),
    "q_4": (1.69327969e-5, -8.363313279112129e-6),
    "omega_1": (150.0, 150.0),
    "omega_2": (-74.99576703969453, 60.25346755138369),
    "u_3": (-2.689386719979040e-6, -8.753116326670527),
    "w_1": (0.4448961125815990, -0.03005541400289738),
    "w_2": (4.634339319238670e-3, -5.500431812571696e-3),
    "w_3": (-1.785910760000550e-6, 4.974111734266989e-4),
    "w_4": (-2.689386719979040e-6, 1.105560003626645e-3),
    "lam_1": (-6.552727150584648e-8, -62.32935833287916),
    "lam_2": (382.4589509350831, -163.7920993367306),
    "lam_3": (-4.635908708561371e-9, 25.29857947066878),
}


def test_a_flexible_slider_crank_ends_where_the_test_set_says():
    """Angles to the rounding of 9 digits of the start; what swings fast, to its last digits."""
    model = ks.models.flexible_slider_crank()
    assert model.index.value == 3 and model.index.freedom == 8
    start = {name: row[0] for name, row in CRANK.items()}
    run = ks.simulate(
        model, np.linspace(0.0, 0.1, 11), start, method="radau-5", rtol=1e-9, atol=1e-12
    )
    close = {"phi_1": 1e-11, "phi_2": 1e-11, "x_3": 1e-8, "q_1": 1e-8, "q_2": 1e-8, "omega_2": 1e-8}
    for name, (_, end) in CRANK.items():
        np.testing.assert_allclose(run[name][-1], end, rtol=close.get(name, 2e-5))
    # the solver's start of the multipliers is that of the document
    np.testing.assert_allclose(run["lam_2"][0], CRANK["lam_2"][0], rtol=1e-9)


def test_a_parallelogram_that_is_flat_has_two_ways_to_go_on():
    """Stretched out, all rods lie on one line, and the constraints depend on each other."""
    turn = Revolute("y")
    rods = [
        Body("crank", 0.3, (0.15, 0, 0), (0, 0.01, 0.01), turn),
        Body("coupler", 0.9, (0.45, 0, 0), (0, 0.06, 0.06), turn, (0.3, 0, 0), "crank"),
        Body("rocker", 0.3, (0.15, 0, 0), (0, 0.01, 0.01), turn, (0.9, 0, 0)),
    ]
    tree = Tree("rods", rods, gravity=(0, 0, 0)).close(
        "coupler", "rocker", at=(0.9, 0, 0), to=(0.3, 0, 0)
    )
    reduced = tree.model().reduced_index(index=0)
    values = dict.fromkeys(reduced.state_names, 0.0)
    values |= {"crank_y": -1.0, "coupler_y": 1.0, "rocker_y": -1.0}
    values |= {"crank_wy": 6.0, "coupler_wy": -6.0, "rocker_wy": 6.0}
    before = ks.simulate(reduced, np.linspace(0.0, 0.15, 6), values, method="dormand-prince")
    assert not before.message and before["rocker_y"][-1] < -0.05
    loop = "constraint_coupler_rocker_fx, constraint_coupler_rocker_fz depend on each other"
    time = np.linspace(0.0, 0.3, 11)
    with pytest.warns(UserWarning, match=loop):
        beyond = ks.simulate(reduced, time, values, method="dormand-prince")
    assert beyond["crank_y"][-1] > 0.0 and "from t = 0.15 s on: before t = 0.18 s" in beyond.message
    slow = {"crank_wy": [6.0, 1.0], "coupler_wy": [-6.0, -1.0], "rocker_wy": [6.0, 1.0]}
    with pytest.warns(UserWarning, match=f"1 of 2 members .* member 0: .* {loop}"):
        both = ks.simulate(reduced, time, values | slow, method="dormand-prince")
    (failure,) = both.failures
    assert failure.time == time[6] and failure.message == beyond.message
    assert np.isfinite(both["crank_y"]).all()  # as they are, of both


def bricard_at(angle):
    """Moment of inertia in the first angle, and m g h, of Bricard's mechanism: where its loop is
    closed its angles are a, b, a, b, a with sin b = -sin a / (1 + sin a)."""

    def rods(a):
        b = np.arcsin(-np.sin(a) / (1.0 + np.sin(a)))
        turned, corner, found = Rotation.identity(), np.zeros(3), []
        for axis, size, rod in zip("yzxyz", (a, b, a, b, a), RODS, strict=True):
            turned = turned * Rotation.from_euler(axis, size)
            found.append((corner + turned.apply(rod) / 2, turned.as_matrix()))
            corner = corner + turned.apply(rod)
        assert np.allclose(corner, (0, 0, 1), atol=1e-9)
        return found

    h, inertia = 1e-5, 0.0
    for rod, (low, before), (high, after) in zip(
        RODS, rods(angle - h), rods(angle + h), strict=True
    ):
        rate = 0.5 * (after + before).T @ (after - before) / (2 * h)  # in the axes of the rod
        spin = np.array([rate[2, 1], rate[0, 2], rate[1, 0]])
        inertia += np.sum(((high - low) / (2 * h)) ** 2)
        inertia += np.where(rod != 0, 0.01 / 6, 1.01 / 12) @ spin**2
    return inertia, 9.81 * sum(centre[1] for centre, _ in rods(angle))


RODS = np.array([(1, 0, 0), (0, -1, 0), (0, 0, 1), (-1, 0, 0), (0, 1, 0)], dtype=float)


def test_bricards_mechanism_falls_in_the_time_of_its_energy():
    """dt = da sqrt(I / 2 (E - V)) from rest, across the place where four of its five conditions
    would depend on one another if another one were left out; for 10 s no energy is lost."""
    tree = ks.models.bricard()
    assert tree.redundant == ("rod5_base_m2",)
    model = tree.model(outputs=["energy"])
    zero = dict.fromkeys(model.state_names, 0.0)
    start = ks.consistent(model, (0.0, 10.0), zero, keep=["rod1_y", "rod1_wy"])
    time = np.linspace(0.0, 10.0, 1001)
    run = ks.simulate(model, time, start, method="dormand-prince", rtol=1e-10, atol=1e-10)
    assert np.ptp(run["kinetic_energy"] + run["potential_energy"]) < 1e-8
    total = bricard_at(0.0)[1]

    def slowness(angle):
        inertia, potential = bricard_at(angle)
        return np.sqrt(inertia / (2.0 * (total - potential)))

    ends = run["rod1_y"][[40, 170]]
    assert ends[0] < 0.5 * np.pi < ends[1] < np.pi
    assert quad(slowness, *ends, epsabs=1e-9)[0] == pytest.approx(time[170] - time[40], abs=1e-7)
