"""All C, ours and generated, passes -Wall -Wextra -Wshadow -Werror; its names are our own."""

import os
import shlex
import subprocess
from pathlib import Path

import numpy as np
import pytest

import kinesym as ks
from kinesym.hybrid import Calcium, Contact, FESMuscle, GroundPoint, Hybrid
from kinesym.internal.problems.step_options import METHODS
from kinesym.multibody import Body, Planar, PrescribedBase, Revolute, Spherical, Tree

NATIVE = Path(__file__).parents[2] / "runtime" / "native" / "c"
SOURCES = sorted(NATIVE.glob("*/*.c"))
#: How external names begin; IPOPT looks up the second.
OURS = ("ks_", "ma57", "kkt_")
STRICT = "-Wall -Wextra -Wshadow -Werror"
TIME = np.linspace(0.0, 0.2, 21)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_sources_of_the_extensions(source, tmp_path):
    made = tmp_path / "made.o"
    compiler = shlex.split(os.environ.get("CC", "cc"))
    flags = ["-std=gnu11", "-O2", "-Wno-psabi", *STRICT.split()]
    includes = [f"-I{NATIVE}", f"-I{NATIVE / 'include'}"]
    done = subprocess.run(
        [*compiler, *flags, *includes, "-c", source, "-o", made], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    table = subprocess.run(
        ["nm", "-g", "--defined-only", made], capture_output=True, text=True, check=True
    )
    names = [line.split()[-1].lstrip("_") for line in table.stdout.splitlines()]
    assert names and not [name for name in names if not name.startswith(OURS)]


@pytest.fixture
def strict(monkeypatch):
    """Every library of the test is compiled so."""
    monkeypatch.setenv("CC", f"{os.environ.get('CC', 'cc')} {STRICT}")


def simulated(model, inputs=None, **options):
    values = dict.fromkeys(model.parameter_names, 1.0) | {
        str(name): value for name, value in model.values.items()
    }
    return ks.simulate(
        model, TIME, dict.fromkeys(model.state_names, 0.1), values, inputs or {}, **options
    )


def test_tree(strict):
    """Bodies with joints of all kinds on a moving base, simulated, with all outputs."""
    ball, hinge, plane = Spherical(), Revolute("y"), Planar("xz")
    bodies = [
        Body("hip", 3.0, (0, 0, 0.1), (0.1, 0.2, 0.3), plane),
        Body("thigh", 2.0, (0, 0, -0.2), (0.1, 0.2, 0.3), ball, parent="hip"),
        Body("shank", 1.0, (0, 0, -0.2), (0.1, 0.2, 0.3), hinge, (0, 0, -0.4), "thigh"),
    ]
    tree = Tree("strict", bodies, PrescribedBase("ship")).parametrised()
    families = ["places", "velocities", "attitudes", "momentum", "energy", "joint_wrenches"]
    model = tree.model(torques=tree.joint_pd(), outputs=families)
    motion = ks.Motion.harmonics([1.0], np.full((6, 1), 0.1), np.zeros((6, 1)))
    run = simulated(model, motion.inputs("ship", TIME, model.input_names))
    assert np.isfinite(run["shank_force_z"]).all()


@pytest.mark.parametrize("method", METHODS)
def test_stepping(method, strict):
    """All methods of simulation, one run and an ensemble."""
    model = ks.models.pendulum()
    assert np.isfinite(simulated(model, method=method)["theta"]).all()
    many = ks.simulate(model, TIME, {"theta": np.linspace(0, 1, 9), "omega": 0.0}, method=method)
    assert np.isfinite(many["theta"]).all()


@pytest.mark.parametrize("scheme", ["midpoint", "trapezoid", "backward-euler"])
def test_collocation(scheme, strict):
    """A program with its derivatives, conditions and unknown inputs."""
    model = ks.models.standing_plant()
    lean = model.states[0]
    problem = ks.Collocation(
        model,
        ks.Experiment(nodes=5, duration=(0.1, 1.0)),
        scheme=scheme,
        objective=ks.Integral(sum(u**2 for u in model.inputs)) + ks.Terminal(ks.t),
        boundary=[ks.at_start(lean), ks.at_end(lean) - 0.1],
        path=[(lean**2, 0, 1)],
        unknown_inputs={u: ks.held(-1, 1) if k else None for k, u in enumerate(model.inputs)},
    )
    z = problem.pack()
    multipliers = np.ones(problem.n_constraints)
    assert np.isfinite(problem.constraint_jacobian(z).data).all()
    assert np.isfinite(problem.lagrangian_hessian(z, multipliers).data).all()


@pytest.mark.parametrize("loss", ["huber", "pseudo-huber", "student"])
def test_residuals_and_losses(loss, strict):
    model = ks.models.pendulum()
    trial = ks.Experiment(TIME, measurements={"theta": 0.1 * np.cos(TIME)})
    objective = ks.LeastSquares(loss=loss)
    problem = ks.Collocation(model, trial, unknown={"p": (1, 20)}, objective=objective)
    z = problem.pack({"p": 9.0})
    assert np.isfinite(problem.residual_jacobian(z).data).all()
    assert np.isfinite(problem.lagrangian_hessian(z, np.ones(problem.n_constraints)).data).all()


def test_shooting_and_the_continuous_adjoint(strict):
    model = ks.models.pendulum()
    run = simulated(model)
    trial = ks.Experiment(TIME, measurements={"theta": run["theta"] + 0.1})
    start = {"theta": 0.1, "omega": 0.1}
    problem = ks.Shooting(model, trial, unknown={"p": (1, 20)}, initial=start)
    for mode in ("adjoint", "forward"):
        assert np.isfinite(problem.gradient({"p": 9.0}, mode=mode)).all()
    assert np.isfinite(problem.multistart(3).objective).all()
    adjoint = ks.ContinuousAdjoint(model, ks.Integral(model.states[0] ** 2), unknown=["p"])
    assert np.isfinite(adjoint.gradient(run).parameters["p"])


def test_muscle(strict):
    """A stimulated muscle with its switches, and sensitivities across them."""
    x, v = ks.dynamicsymbols("x v")
    quad = FESMuscle("quad", rate=-0.05 * v, F0=1200, k0=3e4, ks=2e4, Lc0=0.1)
    equations = [x.diff(ks.t) - v, v.diff(ks.t) + v + 12 * x - 0.05 * quad.force]
    knee = Hybrid(ks.Model("knee", [x, v], [quad.force], [], equations), muscles=[quad])
    clock = Calcium(0.02, 0.015, 0.01, 20, -15).signal(ks.hybrid.train(0.0, 0.05, 4))
    start = {x: 0.0, v: 0.0, **quad.rest}
    exact = ks.sensitivities(knee, TIME, start, {}, {quad.clock: clock})
    assert np.isfinite(exact.gradient("x").initial["v"])


def test_contacts(strict):
    """A foot that lands with friction, by all methods; a ball that bounces, in phases."""
    bodies = [Body("foot", 1.0, (0, 0, 0), (0.1, 0.1, 0.1), Planar("xz"))]
    heel = GroundPoint("heel", "foot", (-0.1, 0, 0), "coulomb", friction_coefficient=0.5)
    foot = ks.hybrid.on_ground(Tree("foot", bodies, gravity=(0, 0, -9.81)), [heel])
    start = dict.fromkeys(foot.model.state_names, 0.0) | {"foot_pz": 0.05}
    for method in ("dormand-prince", "rk4", "trapezoid"):
        assert ks.simulate(foot, TIME, start, method=method).happened("impact", "heel")
    x, v, n = ks.dynamicsymbols("x v n")
    ball = Hybrid(
        ks.Model("ball", [x, v], [n], [], [x.diff(ks.t) - v, v.diff(ks.t) + 9.81 - n]),
        contacts=[Contact("floor", x, n, restitution=0.5)],
    )
    flight = ks.Phase(nodes=5, duration=(0.1, 2.0))
    problem = ks.Collocation(ball, ks.Phases([flight, ks.Phase(nodes=5, hits=("floor",))]))
    assert np.isfinite(problem.constraints(problem.pack())).all()
