"""Inverse dynamics: forces that a motion of a tree needs, from its coordinates over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import sympy as sp
from numpy.typing import ArrayLike
from scipy.interpolate import BSpline, make_interp_spline

from kinesym.base.checks import check_kind, mapping
from kinesym.base.quiet import quietly, warn
from kinesym.codegen.evaluate import model_outputs
from kinesym.gait.axes import name_of as axis_name
from kinesym.gait.motion_files import Table
from kinesym.gait.tables import SLOWEST
from kinesym.gait.wrench import Wrench, between
from kinesym.internal.problems.pipeline import realise
from kinesym.models.files.plausible import doubts
from kinesym.runtime.arrays import AXES, Array, check_span, real_array, time_grid
from kinesym.runtime.functions import Functions
from kinesym.runtime.library.manifest import Built
from kinesym.runtime.summary import listed
from kinesym.symbolic.multibody.assemble import needs
from kinesym.symbolic.multibody.bodies import Load, mass_of
from kinesym.symbolic.multibody.links import Aim, Ball, turning
from kinesym.symbolic.multibody.tree import Tree
from kinesym.symbolic.multibody.vectors import Vector, vector
from kinesym.symbolic.names import check_known, name_of, t

#: Share of the weight from which on wrenches have to be against gravity.
SUPPORT = 0.3
#: Degree of the splines through coordinates; their second derivatives are smooth.
DEGREE = 5


def inverse_dynamics(
    tree: Tree,
    motion: Table | Mapping[str, ArrayLike],
    wrenches: Mapping[str, Wrench] | None = None,
    time: ArrayLike | None = None,
) -> Table:
    """Generalised forces that a motion of a tree needs, in one compiled pass over all samples.

    Parameters
    ----------
    tree : whose speeds are the rates of its coordinates, as of `ks.osim.read`.
    motion : coordinates over time by name (N,) and their "time" [s], N >= 6 [rad, m]; a table of
        `ks.gait.read_mot` may hold angles in degrees, and paths as OpenSim 4 writes them. Others
        than those of the tree are left out; coordinates that are missing stay at their default
        value in the file, with a warning. Rates come from
        splines of degree 5 through the samples, so smooth noisy ones before.
    wrenches : of the world on bodies, by the name of the body, in world axes and about the origin
        of the world; on straight lines between their samples.
    time : instants of the result (M,) [s]; those of the motion by default.

    Returns
    -------
    A table of (M,) columns with the names of `tree.torque_inputs()`, such as `knee_angle_r_moment`
    [N m] and `pelvis_tx_force` [N]: what acts along the coordinate besides gravity and wrenches.

    Warns of wrenches that bear the weight in another direction than against gravity, of angles of
    trees with `ranges` that look like degrees or have the other sign, and of time that looks like
    milliseconds. Raises `ValueError` for unknown bodies, motions without any coordinate of the
    tree, times outside the motion or the wrenches, trees with closed loops, and speeds that are no
    rates of coordinates.
    """
    check_kind(tree, Tree, "kinesym.multibody")
    rates = rates_of(tree)
    if tree.closures:
        loops = listed([closure.name for closure in tree.closures], 4)
        raise ValueError(
            f"{tree.name} has closed loops ({loops}); what keeps them closed is not determined by "
            "a motion. Take the open tree, of a file by read(path, without=[...]): forces of "
            "loops are then part of the result, as in OpenSim"
        )
    given = mapping({} if wrenches is None else wrenches, "wrenches")
    for body, wrench in given.items():
        check_known(body, [b.name for b in tree.bodies], f"wrenches: there is no body {body!r}")
        check_kind(wrench, Wrench, "kinesym.gait")
    check_upright(tree, given)
    grid, splines = courses(tree, motion)
    instants = grid if time is None else time_grid(time)
    check_span(instants, (grid[0], grid[-1]), "the motion")
    for wrench in given.values():
        check_span(instants, (wrench.time[0], wrench.time[-1]), "a wrench")
    f = functions_of(tree, tuple(given))
    for name in f.parameters:
        check_known(name, f.values, f"{tree.name}: the parameter {name} has no value; give values=")
    names = tuple(tree.coordinates)
    q, u, du = (dict(zip(names, splines(instants, nu=k).T, strict=True)) for k in range(3))
    x = [q[name] if name in q else u[rates[name]] for name in f.states]
    xdot = [u[name] if name in q else du[rates[name]] for name in f.states]
    loads = [between(instants, wrench.time, wrench.rows) for wrench in given.values()]
    rows = np.concatenate(loads) if loads else np.zeros((0, len(instants)))
    parameters = [f.values[name] for name in f.parameters]
    y = f.outputs(xdot, x, rows, parameters, instants)
    return Table(instants, dict(zip(f.output_names, y, strict=True)))


def ground_reaction(
    tree: Tree,
    motion: Table | Mapping[str, ArrayLike],
    time: ArrayLike | None = None,
    feet: Sequence[str] = (),
) -> Wrench:
    """The wrench of the ground, about the origin of the world, that a motion of a free tree needs.

    motion, time : as of `inverse_dynamics`. feet : bodies that are to bear it, for which
    `inverse_dynamics` is asked later: one build serves both; by default the first body.

    With this wrench nothing is left along the coordinates of the first body. Of trees in a plane,
    components that the motion does not tell are zero. Axes are those of the tree: for
    `ks.gait.contact_forces` turn those of OpenSim, `wrench.rotated(ks.gait.rotation("y", "x"))`.

    Raises `ValueError` as `inverse_dynamics`, and if the first body is not free to move.
    """
    check_kind(tree, Tree, "kinesym.multibody")
    bodies = tuple(feet) or (tree.bodies[0].name,)
    speeds = [name_of(u) for link in tree.joint_of(tree.bodies[0].name) for u in link.u]
    along = [tree.inputs[name] for name in speeds]
    if len(along) < 3:
        raise ValueError(
            f"{tree.bodies[0].name} of {tree.name} has {len(along)} coordinates: a body that "
            "nothing holds has 6, in a plane 3"
        )
    grid, _ = courses(tree, motion)
    instants = grid if time is None else time_grid(time)

    def left(force: Array) -> Array:
        """Forces along the coordinates of the first body, (k, N), under a constant wrench."""
        rows = np.repeat(force[:, None], len(grid), axis=1)
        wrenches = {body: Wrench.zero(grid) for body in bodies}
        wrenches[bodies[0]] = Wrench(grid, rows[:3], rows[3:])
        with quietly():  # what is to be said of the motion was said above
            table = inverse_dynamics(tree, motion, wrenches, instants)
        return np.array([table[name] for name in along])

    needed = left(np.zeros(6))
    unit = np.array([needed - left(row) for row in np.eye(6)])  # (6, k, N)
    found = np.einsum("nik,kn->in", np.linalg.pinv(unit.transpose(2, 1, 0)), needed)
    return Wrench(instants, found[:3], found[3:])


def courses(tree: Tree, motion: Table | Mapping[str, ArrayLike]) -> tuple[Array, BSpline]:
    """The instants of a motion, and splines through all coordinates of the tree in its order."""
    grid, columns = coordinates_of(tree, motion, DEGREE + 1)
    defaults = getattr(tree, "defaults", {})
    missing = [name for name in tree.coordinates if name not in columns]
    for name in missing:
        what = f"the motion has no coordinate {name} of {tree.name}"
        check_known(name, {**columns, **defaults}, what)
    if missing:
        warn(
            f"the motion has no {listed(missing, 6)}: taken at the default values of {tree.name}",
            stacklevel=3,
        )
    still = {name: np.full(len(grid), defaults[name]) for name in missing}
    rows = {name: {**columns, **still}[name] for name in tree.coordinates}
    _doubt(tree, rows, grid)
    return grid, make_interp_spline(grid, np.transpose([*rows.values()]), DEGREE)


def coordinates_of(
    tree: Tree, motion: Table | Mapping[str, ArrayLike], least: int = 1
) -> tuple[Array, dict[str, Array]]:
    """The instants of a motion (N,) [s], at least so many, and the coordinates of a tree that it
    has (N,) [rad, m].

    Raises `ValueError` for motions without time or without any coordinate of the tree, and for what
    is no row of finite numbers.
    """
    degrees = isinstance(motion, Table) and motion.degrees
    if isinstance(motion, Table):
        motion = {**motion.columns, "time": motion.time}
    columns = mapping(motion, "the motion", "of 'time' and coordinates, or a table of read_mot")
    check_known("time", columns, "the motion has no 'time'")
    grid = time_grid(columns["time"])
    if len(grid) < least:
        raise ValueError(f"a motion needs {least} samples or more, got {len(grid)}")
    turns = turning(tree.links) if degrees else ()
    columns = {short_name(name): row for name, row in columns.items()}
    names = [name for name in tree.coordinates if name in columns]
    if not names:
        there = [name for name in columns if name != "time"]
        raise ValueError(
            f"the motion has no coordinate of {tree.name}, such as "
            f"{listed([*tree.coordinates], 4)}; it has {listed(there, 4)}"
        )
    found = {}
    for name in names:
        row = real_array(columns[name], name)
        if row.shape != grid.shape or not np.isfinite(row).all():
            raise ValueError(f"{name} must be {len(grid)} finite numbers, one for each time")
        found[name] = np.deg2rad(row) if name in turns else row
    return grid, found


def _doubt(tree: Tree, rows: Mapping[str, Array], grid: Array) -> None:
    """Warn of angles in degrees or with the other sign, as the ranges of a file tell, but those of
    a free body, which may turn as it likes; and of time in milliseconds."""
    first = [name_of(q) for link in tree.joint_of(tree.bodies[0].name) for q in link.q]
    free = first if len(first) > 3 else []
    turns = turning(tree.links).difference(free)
    angles = {name: row for name, row in rows.items() if name in turns}
    step = float(np.median(np.diff(grid)))
    late = f"a sample every {step:g} s: is time in milliseconds?" if step >= SLOWEST else ""
    for said in (doubts(angles, getattr(tree, "ranges", {})), late):
        if said:
            warn(f"the motion of {tree.name}: {said}", stacklevel=4)


def short_name(name: str) -> str:
    """Short name of a coordinate, as models have it, of a path like
    `/jointset/knee_r/knee_angle_r/value`, which OpenSim 4 writes."""
    parts = name.split("/")
    return parts[-2] if len(parts) > 2 and parts[-1] == "value" else name


def check_upright(tree: Tree, wrenches: Mapping[str, Wrench]) -> None:
    """Warn of wrenches that bear much of the weight of a tree, but not against its gravity."""
    gravity = vector(tree.gravity)
    numbers = [*gravity, *(mass_of(body) for body in tree.bodies)]
    if not wrenches or not all(e.is_number for e in numbers):
        return
    down, mass = np.array(gravity, dtype=float), float(sum(numbers[3:]))
    total = np.sum([wrench.force.mean(axis=1) for wrench in wrenches.values()], axis=0)
    size, weight = np.linalg.norm(total), mass * np.linalg.norm(down)
    if size > SUPPORT * weight > 0.0 and -total @ down < 0.7 * size * np.linalg.norm(down):
        warn(
            f"wrenches push {size:.0f} N along {axis_name(total)} in the mean, but gravity of "
            f"{tree.name} is along {axis_name(down)}: they belong in the axes of the tree, as "
            "ks.osim.read_loads gives them; wrench.rotated(...) turns others",
            stacklevel=3,
        )


def rates_of(tree: Tree) -> dict[str, str]:
    """Names of coordinates by those of their rates; raises `ValueError` for other speeds."""
    for link in tree.links:
        if isinstance(link.primitive, (Ball, Aim)) and len(link.q) > 1:
            raise ValueError(
                f"the speeds of {link.name} are no rates of its coordinates; make it of a "
                "Custom joint with three rotations"
            )
    return {
        name_of(u): name_of(q) for link in tree.links for q, u in zip(link.q, link.u, strict=True)
    }


@lru_cache(maxsize=8)
def functions_of(tree: Tree, bodies: tuple[str, ...]) -> Functions:
    """The needed forces as compiled outputs; inputs are force and moment of each wrench, in the
    order of the bodies."""
    base = tree.parametrised()
    wrenches = {body: [external(body, kind) for kind in ("force", "moment")] for body in bodies}

    def loads(made: Tree) -> list[Load]:
        own = base.loads(made) if callable(base.loads) else base.loads
        return [
            *own,
            *(
                Load(body, force, moment - made.place(body).cross(force))
                for body, (force, moment) in wrenches.items()
            ),
        ]

    inputs = [f for pair in wrenches.values() for v in pair for f in v]
    program = model_outputs(needs(replace(base, loads=loads)), map(name_of, inputs))
    return Functions(realise(program), no_jacobians)


def external(body: str, kind: str) -> Vector:
    """A part of the wrench on a body as inputs."""
    return Vector(sp.Function(f"external_{kind}_{axis}_on_{body}")(t) for axis in AXES)


def no_jacobians() -> Built:
    """Raise `ValueError`: inverse dynamics has no Jacobians."""
    raise ValueError("inverse dynamics has no Jacobians; compile the model of the tree")
