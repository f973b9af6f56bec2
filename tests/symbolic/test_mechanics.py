"""Models from `sympy.physics.mechanics` with constraints, against trees and closed forms."""

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import solve_ivp
from sympy.physics import mechanics as me
from sympy.physics.mechanics import models as of_sympy

import kinesym as ks
from kinesym.multibody import Body, Free, Tree

r, m, g = sp.symbols("r m g")
VALUES = {r: 0.5, m: 1.3, g: 9.81}


def disc_of_kane(**more):
    """A thin disc that rolls without slip: yaw, lean, spin, and the place of its centre."""
    yaw, lean, spin, x, y, z = me.dynamicsymbols("yaw lean spin x y z")
    u1, u2, u3, vx, vy, vz = speeds = me.dynamicsymbols("u1 u2 u3 vx vy vz")
    N = me.ReferenceFrame("N")
    Y = N.orientnew("Y", "Axis", [yaw, N.z])
    L = Y.orientnew("L", "Axis", [lean, Y.x])
    R = L.orientnew("R", "Axis", [spin, L.y])
    w = R.ang_vel_in(N)
    R.set_ang_vel(N, u1 * L.x + u2 * L.y + u3 * L.z)
    rates = [w.dot(axis) - u for axis, u in zip((L.x, L.y, L.z), speeds, strict=False)]
    rates += [q.diff() - v for q, v in zip((x, y, z), (vx, vy, vz), strict=True)]
    O, D = me.Point("O"), me.Point("D")  # noqa: E741
    O.set_vel(N, 0)
    D.set_pos(O, x * N.x + y * N.y + z * N.z)
    D.set_vel(N, vx * N.x + vy * N.y + vz * N.z)
    C = D.locatenew("C", -r * L.z)
    C.v2pt_theory(D, N, R)
    inertia = me.inertia(L, m * r**2 / 4, m * r**2 / 2, m * r**2 / 4)
    kane = me.KanesMethod(
        N,
        [yaw, lean, spin, x, y],
        [u1, u2, u3],
        kd_eqs=rates,
        q_dependent=[z],
        u_dependent=[vx, vy, vz],
        **{
            "configuration_constraints": [z - r * sp.cos(lean)],
            "velocity_constraints": [C.vel(N).dot(axis) for axis in (N.x, N.y, N.z)],
            **more,
        },
    )
    kane.kanes_equations([me.RigidBody("disc", D, R, m, (inertia, D))], [(D, -m * g * N.z)])
    return kane, N


def disc_of_tree():
    disc = Body("disc", m, inertia=(m * r**2 / 4, m * r**2 / 2, m * r**2 / 4), joint=Free("zxy"))
    tree = Tree("disc", [disc], gravity=(0, 0, -g), values=VALUES)
    return tree.close("disc", kind="rolling", radius=r)


TIME = np.linspace(0.0, 3.0, 61)
LEAN, RATES = 0.2, (0.1, 4.0, 0.3)
START = {"lean": LEAN, "z": 0.5 * np.cos(LEAN), "u1": RATES[0], "u2": RATES[1], "u3": RATES[2]}
KEPT = ["yaw", "lean", "spin", "x", "y", "u1", "u2", "u3"]


@pytest.fixture(scope="module")
def by_tree(simulated):
    """The same disc as a tree that is closed by its contact; its axes are at the start those of the
    frame that leans but does not spin."""
    start = {"disc_pz": 0.5 * np.cos(LEAN), "disc_x": LEAN}
    start |= dict(zip(("disc_wx", "disc_wy", "disc_wz"), RATES, strict=True))
    keep = ["disc_x", "disc_y", "disc_z", "disc_px", "disc_py", "disc_wx", "disc_wy", "disc_wz"]
    return simulated(disc_of_tree().model(), start, keep, TIME)


@pytest.mark.parametrize("multipliers", [False, True])
def test_disc_of_kane_rolls_as_that_of_a_tree(by_tree, multipliers, simulated):
    kane, frame = disc_of_kane()
    model = ks.Model.from_kane(kane, values=VALUES, frame=frame if multipliers else None)
    assert ("lam1" in model.state_names) == multipliers
    assert model.index.value == 2 + multipliers and model.index.freedom == 8
    run = simulated(model, START, KEPT, TIME)
    for ours, theirs in (("x", "disc_px"), ("y", "disc_py"), ("z", "disc_pz"), ("lean", "disc_x")):
        np.testing.assert_allclose(run[ours], by_tree[theirs], atol=1e-8)


def test_forces_of_the_contact_are_the_same(by_tree, simulated):
    """Multipliers of Kane are forces of the ground along x, y, z, those of the tree ahead, across
    and up."""
    kane, frame = disc_of_kane()
    model = ks.Model.from_kane(kane, values=VALUES, frame=frame)
    run = simulated(model, START, KEPT, TIME)
    cosine, sine = np.cos(run["yaw"]), np.sin(run["yaw"])
    ahead, across, up = (by_tree[f"disc_base_f{axis}"] for axis in "xyz")
    expected = (cosine * ahead - sine * across, sine * ahead + cosine * across, up)
    for multiplier, force in zip(("lam1", "lam2", "lam3"), expected, strict=True):
        np.testing.assert_allclose(run[multiplier], force, atol=1e-6)


def pendulum_of_lagrange():
    """A point mass on a rod, in Cartesian coordinates."""
    x, y = me.dynamicsymbols("x y")
    N, P = me.ReferenceFrame("N"), me.Point("P")
    P.set_vel(N, x.diff() * N.x + y.diff() * N.y)
    body = me.Particle("P", P, m)
    body.potential_energy = m * g * y
    lagrange = me.LagrangesMethod(
        me.Lagrangian(N, body), [x, y], hol_coneqs=[x**2 + y**2 - r**2], frame=N
    )
    lagrange.form_lagranges_equations()
    return lagrange


def test_lagrange_with_a_constraint_swings_as_a_pendulum(simulated):
    model = ks.Model.from_kane(pendulum_of_lagrange(), values=VALUES)
    assert model.state_names == ("x", "y", "x_rate", "y_rate", "lam1") and model.index.value == 3
    start = {"x": 0.5 * np.sin(1.0), "y": -0.5 * np.cos(1.0)}
    run = simulated(model, start, ["x", "x_rate"], TIME)
    angle, rate = ks.dynamicsymbols("angle rate")
    simple = ks.Model(
        "pendulum",
        [angle, rate],
        [],
        [r, g],
        [angle.diff(ks.t) - rate, rate.diff(ks.t) + g / r * sp.sin(angle)],
    )
    exact = ks.simulate(
        simple,
        TIME,
        {angle: 1.0, rate: 0.0},
        {r: 0.5, g: 9.81},
        method="dormand-prince",
        rtol=1e-11,
        atol=1e-11,
    )
    np.testing.assert_allclose(run["x"], 0.5 * np.sin(exact["angle"]), atol=1e-8)
    # tension of the rod: m (g cos + r rate^2); the multiplier times the gradient, 2 r
    tension = 1.3 * (9.81 * np.cos(exact["angle"]) + 0.5 * exact["rate"] ** 2)
    # which pulls inwards, against the gradient: M u' = F + J' lam, as of Kane's method
    np.testing.assert_allclose(-run["lam1"] * 2 * 0.5, tension, atol=1e-6)


def test_a_system_brings_its_frame():
    system = me.System()
    q, u = me.dynamicsymbols("q u")
    bob = me.RigidBody("bob", mass=m)
    bob.masscenter.set_vel(bob.frame, 0)
    joint = me.PinJoint(
        "pin", system_ground(system), bob, q, u, child_point=r * bob.y, joint_axis=system.z
    )
    system.add_joints(joint)
    system.apply_uniform_gravity(-g * system.y)
    with pytest.raises(ValueError, match=r"call form_eoms\(\) of the System first"):
        ks.Model.from_kane(system)
    system.form_eoms()
    model = ks.Model.from_kane(system)
    assert model.state_names == ("q", "u") and model.index.value == 0


def system_ground(system):
    ground = me.RigidBody("ground", masscenter=system.fixed_point, frame=system.frame)
    system.add_bodies(ground)
    return ground


def test_acceleration_constraints():
    """Those that are derivatives of the others change nothing; what they bind else is refused."""
    kane, _ = disc_of_kane()
    velocity = list(kane.to_linearizer().f_v)
    rates = kane.kindiffdict()
    derived = [e.diff(ks.t).doit().xreplace(rates) for e in velocity]
    same, _ = disc_of_kane(acceleration_constraints=derived)
    one, other = (ks.Model.from_kane(each, values=VALUES) for each in (kane, same))
    assert one.index.value == other.index.value == 2 and other.index.freedom == 8
    assert len(one.equations) == len(other.equations)
    u1 = me.dynamicsymbols("u1")
    vz = me.dynamicsymbols("vz")
    odd, _ = disc_of_kane(acceleration_constraints=[*derived[:2], vz.diff() - u1.diff()])
    with pytest.raises(ValueError, match=r"acceleration constraint 2, .* is not a derivative"):
        ks.Model.from_kane(odd)


@pytest.mark.parametrize("method", ["dormand-prince", "radau-5", "radau-3", "gauss-4"])
def test_models_without_multipliers_run_by_any_method(method):
    """A pendulum in Cartesian coordinates swings as its angle, as SciPy has it, though nothing is
    algebraic and its constraint is differentiated twice."""
    q1, q2, u1, u2 = me.dynamicsymbols("q1 q2 u1 u2")
    N = me.ReferenceFrame("N")
    origin = me.Point("O")
    origin.set_vel(N, 0)
    P = origin.locatenew("P", q1 * N.x + q2 * N.y)
    P.set_vel(N, u1 * N.x + u2 * N.y)
    kane = me.KanesMethod(
        N,
        q_ind=[q1],
        u_ind=[u1],
        q_dependent=[q2],
        u_dependent=[u2],
        configuration_constraints=[q1**2 + q2**2 - 2.25],
        velocity_constraints=[q1 * u1 + q2 * u2],
        kd_eqs=[q1.diff() - u1, q2.diff() - u2],
    )
    kane.kanes_equations([me.Particle("p", P, m)], [(P, -m * g * N.y)])
    time, angle = np.linspace(0.0, 1.0, 101), np.arcsin(0.5 / 1.5)
    model = ks.Model.from_kane(kane, values={m: 3.0, g: 9.81})
    start = {"q1": 0.5, "q2": -np.sqrt(2.0), "u1": 0.0, "u2": 0.0}
    run = ks.simulate(model, time, start, method=method)
    swing = solve_ivp(
        lambda _, s: [s[1], -9.81 / 1.5 * np.sin(s[0])], (0, 1), [angle, 0], rtol=1e-11, atol=1e-12
    )
    assert run.time[-1] == 1.0
    assert run["q1"][-1] == pytest.approx(1.5 * np.sin(swing.y[0, -1]), abs=1e-5)


def sleigh():
    """A body whose point at the blade slides along it; the speed across is the dependent one."""
    X, Y, turn, vx, vy, omega = me.dynamicsymbols("X Y turn vx vy omega")
    inertia, arm = sp.symbols("inertia arm")
    N, B = me.ReferenceFrame("N"), me.ReferenceFrame("B")
    B.orient_axis(N, turn, N.z)
    B.set_ang_vel(N, omega * N.z)
    blade = me.Point("P")
    blade.set_vel(N, vx * N.x + vy * N.y)
    center = blade.locatenew("G", arm * B.x)
    center.v2pt_theory(blade, N, B)
    kane = me.KanesMethod(
        N,
        q_ind=[X, Y, turn],
        u_ind=[vx, omega],
        u_dependent=[vy],
        velocity_constraints=[blade.vel(N).dot(B.y)],
        kd_eqs=[X.diff() - vx, Y.diff() - vy, turn.diff() - omega],
    )
    body = me.RigidBody("b", center, B, m, (inertia * me.outer(N.z, N.z), center))
    kane.kanes_equations([body], [])
    return ks.Model.from_kane(kane, values={m: 2.0, inertia: 0.5, arm: 0.3})


@pytest.mark.parametrize("method", ["dormand-prince", "rk4", "radau-5"])
def test_a_sleigh_without_multipliers_runs_by_any_method(method):
    """As Neimark and Fufaev have it: forward v' = a w^2, turning (I + m a^2) w' = -m a w v."""
    time = np.linspace(0.0, 0.5, 51)  # before the dependent speed is along the blade
    start = {"X": 0.0, "Y": 0.0, "turn": 0.4, "vx": np.cos(0.4), "vy": np.sin(0.4), "omega": 2.0}
    run = ks.simulate(sleigh(), time, start, method=method)
    exact = solve_ivp(
        lambda _, s: [0.3 * s[1] ** 2, -2.0 * 0.3 * s[0] * s[1] / (0.5 + 2.0 * 0.09)],
        (0, 0.5),
        [1.0, 2.0],
        rtol=1e-11,
        atol=1e-12,
    )
    forward = run["vx"] * np.cos(run["turn"]) + run["vy"] * np.sin(run["turn"])
    assert forward[-1] == pytest.approx(exact.y[0, -1], abs=1e-5)
    assert run["omega"][-1] == pytest.approx(exact.y[1, -1], abs=1e-5)


def test_constraints_that_depend_are_named():
    kane, _ = disc_of_kane(configuration_constraints=[me.dynamicsymbols("z") - r])
    with pytest.raises(ValueError, match=r"configuration constraint 0, -r . z, does not"):
        ks.Model.from_kane(kane)


def test_inputs_are_found_in_the_loads(rows_of):
    """SymPy's own models have forces over time; the pendulum is ours with other names."""
    theirs = ks.Model.from_kane(of_sympy.n_link_pendulum_on_cart(2, joint_torques=True))
    assert theirs.input_names == ("F", "T1", "T2")
    ours, rng = ks.models.n_link_pendulum_on_cart(2), np.random.default_rng(0)
    numbers = {name: rng.uniform(0.3, 1.3, 5) for name in (*theirs.state_names, "F")}
    numbers |= {f"{name}'": rng.normal(size=5) for name in theirs.state_names}
    numbers |= {"T1": 0.0, "T2": 0.0, "g": 9.81}
    numbers |= dict(zip(("m0", "m1", "m2", "l0", "l1"), (1.1, 0.7, 0.5, 0.9, 1.2), strict=True))
    same = {f"{name[0]}_{name[1:]}": value for name, value in numbers.items()}
    same |= {"F": numbers["F"], "g": 9.81, "l_1": 0.9, "l_2": 1.2}
    np.testing.assert_allclose(rows_of(theirs, numbers), rows_of(ours, same), atol=1e-12)


def test_inputs_of_masses_on_springs():
    kane = of_sympy.multi_mass_spring_damper(1, apply_external_forces=True)
    model = ks.Model.from_kane(kane)
    x, v, f = me.dynamicsymbols("x0 v0 f0")
    mass, damping, stiffness = sp.symbols("m0 c0 k0")
    force = f - stiffness * x - damping * v
    assert model.inputs == (f,)
    assert sp.expand(model.equations[1] - mass * v.diff() + force) == 0
    with pytest.raises(ValueError, match="f0"):  # what is given counts
        ks.Model.from_kane(kane, inputs=[])


def test_rate_of_an_input_is_named():
    kane = of_sympy.multi_mass_spring_damper(1)
    ((point, pull),) = kane.forcelist
    kane.kanes_equations(kane.bodies, [(point, me.dynamicsymbols("F").diff() * pull)])
    with pytest.raises(ValueError, match=r"contains Derivative\(F\(t\), t\), but F\(t\) is not"):
        ks.Model.from_kane(kane)


def test_bad_input():
    for given in (None, "kane", 3.0):
        with pytest.raises(
            ValueError, match="expected a KanesMethod, a LagrangesMethod or a System"
        ):
            ks.Model.from_kane(given)
    x = me.dynamicsymbols("x")
    open_ = me.LagrangesMethod(x.diff() ** 2, [x])
    with pytest.raises(ValueError, match="call form_lagranges_equations"):
        ks.Model.from_kane(open_)
