"""Are base parameters those of Pinocchio, and do consistent fits find bodies that exist?

Robots are read from the URDF files of the package example-robot-data. Their regressor by Pinocchio
is turned into parameters of links, and must have the rank and the row space of ours; torques must
be those of its recursive Newton-Euler algorithm. Then torques along a periodic motion get noise,
again and again: once base parameters are fitted by least squares, once masses, centres and Cholesky
factors of the bodies of `Tree.consistent`.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy asks

import numpy as np
import pinocchio as pin
import sympy as sp
from numpy.typing import NDArray
from record import table
from report import leave, machine, number, parsed
from scipy.linalg import cho_factor, cho_solve

import kinesym as ks
from kinesym.multibody import Body, Free, Revolute, Tree
from kinesym.symbolic.multibody.base_parameters import (
    BaseParameters,
    standard_parameters,
    standard_values,
)
from kinesym.symbolic.multibody.unit_forces import INERTIAL

Array = NDArray[np.float64]

#: Files below `robots/`, and their base.
ROBOTS = {
    "ur5": ("ur_description/urdf/ur5_robot.urdf", "fixed"),
    "z1": ("z1_description/urdf/z1.urdf", "fixed"),
    "xarm7": ("xarm_description/urdf/xarm7.urdf", "fixed"),
    "talos_arm": ("talos_data/robots/talos_left_arm.urdf", "fixed"),
    "solo12": ("solo_description/robots/solo12.urdf", "free"),
    "g1": ("g1_description/urdf/g1_29dof_rev_1_0.urdf", "fixed"),
}
SHARE = Path("cmeel.prefix/share/example-robot-data/robots")
#: Relative singular value below which Pinocchio's regressor counts as singular.
SINGULAR = 1e-7
#: Noise of torques, as shares of their root mean square.
NOISE = (0.01, 0.05, 0.2)
#: Standard deviation of the prior of consistent fits around the true parameters, in sizes of what
#: they are: it only holds what torques do not tell.
VAGUE = 3.0
#: Kinds of Pinocchio's ten parameters of a body.
THEIRS = ("m", "mcx", "mcy", "mcz", "Jxx", "Jxy", "Jyy", "Jxz", "Jyz", "Jzz")


# -- Pinocchio ------------------------------------------------------------------------------------


def pseudo_inertia(kind: str) -> Array:
    """Sums of products of (r, 1) with itself (4, 4) over a body with one parameter alone."""
    found = np.zeros((4, 4))
    if kind == "m":
        found[3, 3] = 1.0
    elif kind.startswith("mc"):
        k = "xyz".index(kind[-1])
        found[k, 3] = found[3, k] = 1.0
    else:
        i, j = ("xyz".index(axis) for axis in kind[1:])
        found[:3, :3] = 0.5 * np.eye(3) * (i == j)
        found[i, j] = found[j, i] = -0.5 if i == j else -1.0
    return found


def parameters_of(pseudo: Array) -> Array:
    """Pinocchio's ten parameters of a pseudo-inertia."""
    moment = np.trace(pseudo[:3, :3]) * np.eye(3) - pseudo[:3, :3]
    entries = {"m": pseudo[3, 3]} | {f"mc{a}": pseudo[k, 3] for k, a in enumerate("xyz")}
    entries |= {f"J{'xyz'[i]}{'xyz'[j]}": moment[i, j] for i in range(3) for j in range(i, 3)}
    return np.array([entries[kind] for kind in THEIRS])


def joints_of_links(model: pin.Model, links: Sequence[str]) -> Array:
    """Parameters of joints by those of links, (10 joints, 10 links): links are welded to joints."""
    made = np.zeros((10 * (model.njoints - 1), 10 * len(links)))
    for k, link in enumerate(links):
        frame = model.frames[model.getBodyId(link)] if model.existBodyName(link) else None
        if frame is None or frame.parentJoint == 0:
            continue
        X, begin = frame.placement.homogeneous, 10 * (frame.parentJoint - 1)
        for i, kind in enumerate(INERTIAL):
            made[begin : begin + 10, 10 * k + i] = parameters_of(X @ pseudo_inertia(kind) @ X.T)
    return made


def peer(text: str, base: str) -> pin.Model:
    """Pinocchio's model; a free root has our coordinates."""
    if base == "fixed":
        return pin.buildModelFromXML(text)
    root = pin.JointModelComposite()
    kinds = ("PX", "PY", "PZ", "RX", "RY", "RZ")
    for kind in kinds:
        root.addJoint(getattr(pin, f"JointModel{kind}")())
    return pin.buildModelFromXML(text, root)


def columns_of(model: pin.Model, names: Sequence[str]) -> list[int]:
    """Places of our speeds in theirs."""
    found = []
    for name in names:
        joint = name.removesuffix("_speed")
        number = model.getJointId(joint) if model.existJointName(joint) else 1
        first = model.joints[number].idx_v
        kinds = ("root_tx", "root_ty", "root_tz", "root_rx", "root_ry", "root_rz")
        found.append(first + (kinds.index(joint) if joint in kinds else 0))
    return found


def placed(model: pin.Model, q: Array) -> Array:
    """A configuration of theirs (nq,) for their speeds in place of coordinates (nv,)."""
    return pin.integrate(model, pin.neutral(model), q)


def compared(
    base: BaseParameters, Y: ks.Regressor, text: str, root: str, n: int
) -> tuple[int, float, float]:
    """Rank of Pinocchio's regressor, how far its rows are out of the space of ours, and the largest
    difference of torques, relative to the largest entries."""
    model, rng = peer(text, root), np.random.default_rng(0)
    data, order = model.createData(), columns_of(model, Y.speeds)
    q, u, du = (rng.uniform(-1.5, 1.5, (len(order), n)) for _ in range(3))
    theirs, torques = [], []
    for k in range(n):
        at = np.zeros((3, model.nv))
        at[:, order] = q[:, k], u[:, k], du[:, k]
        place = placed(model, at[0])
        theirs.append(pin.computeJointTorqueRegressor(model, data, place, *at[1:])[order])
        torques.append(pin.rnea(model, data, place, *at[1:])[order])
    links = [body.name for body in base.tree.bodies]
    full = np.array(theirs) @ joints_of_links(model, links)
    kept = [base.standard.index(name) for name in base.names]
    out = np.abs(full - full[..., kept] @ base.matrix).max() / np.abs(full).max()
    rows = np.concatenate(theirs)
    sizes = np.linalg.svd(rows / np.linalg.norm(rows, axis=0).clip(1e-6), compute_uv=False)
    ours = np.einsum("ijn,j->ni", Y(q, u, du), [*base.values.values()])
    error = np.abs(ours - torques).max() / np.abs(torques).max()
    return int(np.sum(sizes > SINGULAR * sizes[0])), float(out), float(error)


def robot(name: str, folder: Path, turns: int) -> dict[str, Any]:
    """A row of the first table."""
    file, root = ROBOTS[name]
    text = (folder / file).read_text()
    begin = process_time()
    tree = ks.urdf.read(folder / file, root)
    read = process_time()
    base = tree.base_parameters()
    found = process_time()
    width = base.matrix.shape[1]
    factors = process_time()
    Y = ks.regressor(base)
    n = max(60, 3 * width // len(Y.speeds))
    rank, out, error = compared(base, Y, text, root, n)
    q, u, du = np.random.default_rng(1).uniform(-1.0, 1.0, (3, len(Y.speeds), 1000))
    times = []
    for _ in range(turns):
        start = process_time()
        Y(q, u, du)
        times.append((process_time() - start) / 1000)
    return {
        "robot": name,
        "freedoms": len(Y.speeds),
        "parameters": width,
        "base": len(base.names),
        "pinocchio": rank,
        "out": out,
        "torques": error,
        "read": read - begin,
        "rank": found - read,
        "factors": factors - found,
        "regressor": 1e6 * min(times),
    }


# -- estimates from noisy torques -----------------------------------------------------------------


def arm() -> Tree:
    """Three links of 0.4 m, cylinders of 5 cm radius, that turn about z, y and y."""
    bodies = list[Body]()
    for k, (axis, mass) in enumerate(zip("zyy", (6.0, 4.0, 2.0), strict=True)):
        across, along = mass * (0.05**2 / 4 + 0.4**2 / 12), mass * 0.05**2 / 2
        inertia = (along, across, across) if k else (across, across, along)
        com = (0.2, 0, 0) if k else (0, 0, 0.2)
        at = [(0, 0, 0), (0, 0, 0.4), (0.4, 0, 0)][k]
        parent = bodies[-1].name if bodies else None
        bodies.append(Body(f"link{k}", mass, com, inertia, Revolute(axis), at, parent))
    return Tree("arm", bodies, gravity=(0, 0, -9.81))


def load() -> Tree:
    """A box of 0.1 x 0.2 x 0.3 m in a gripper, on a wrist that measures force and moment."""
    sizes, mass = np.array([0.1, 0.2, 0.3]), 3.0
    inertia = (mass * (np.sum(sizes**2) - sizes**2) / 12.0).tolist()
    box = Body("box", mass, (0.05, 0.0, 0.15), inertia, Free("xyz"))
    return Tree("load", [box], gravity=(0, 0, -9.81))


def triangular(base: BaseParameters, noise: float) -> Array:
    """R of weighted rows of the regressor along a periodic motion: sums of squares of torques are
    those of R (parameters - estimates)."""
    Y, rng = ks.regressor(base), np.random.default_rng(2)
    time, count = np.linspace(0.0, 10.0, 400, endpoint=False), len(Y.speeds)
    w = 2.0 * np.pi * 0.1 * np.arange(1, 6)[:, None]
    a, b = rng.uniform(-0.2, 0.2, (2, count, 5))
    sine, cosine = np.sin(w * time), np.cos(w * time)
    q, u = a @ sine + b @ cosine, a @ (w * cosine) - b @ (w * sine)
    y = Y(q, u, -a @ (w**2 * sine) - b @ (w**2 * cosine))
    torques = np.einsum("ijn,j->in", y, [*base.values.values()])
    std = noise * np.sqrt(np.mean(torques**2, axis=1))
    rows = np.concatenate((y / std[:, None, None]).transpose(2, 0, 1))
    return np.linalg.qr(rows, mode="r")


class Consistent:
    """Inertial parameters of all bodies as functions of masses, by their roots, centres and
    Cholesky factors, with their derivatives."""

    def __init__(self, base: BaseParameters) -> None:
        made, places = base.tree.consistent(), {n: k for k, n in enumerate(base.standard)}
        names, self.size = [*made.inertias()], len(base.standard)
        roots = {sp.Symbol(n): sp.Symbol(n) ** 2 for n in names if n.endswith("_m")}
        self.start = np.array([made.values[n] for n in names])
        masses = np.array([n.endswith("_m") for n in names])
        self.start[masses] = np.sqrt(self.start[masses])
        self.parts, weights = list[Any](), sp.symbols("w:10")
        for body in made.bodies:
            rows = standard_parameters(body)
            own = sorted({s.name for e in rows.values() for s in e.free_symbols})
            if own:
                symbols, e = sp.symbols(own), sp.Matrix([*rows.values()]).subs(roots)
                curve = sp.hessian((e.T * sp.Matrix(weights))[0], symbols)
                told = [e.T, e.jacobian(symbols), curve]
                f = sp.lambdify([symbols, weights], told, cse=True)
                self.parts.append(([places[n] for n in rows], [names.index(n) for n in own], f))

    def __call__(self, x: Array, weights: Array) -> tuple[Array, Array, Array]:
        """Parameters, their Jacobian, and the Hessian of their sum with these weights."""
        values, slopes = np.zeros(self.size), np.zeros((self.size, len(x)))
        curves = np.zeros((len(x), len(x)))
        for rows, columns, f in self.parts:
            e, slope, curve = f(x[columns], weights[rows])
            values[rows], slopes[np.ix_(rows, columns)] = e[0], slope
            curves[np.ix_(columns, columns)] = curve
        return values, slopes, curves


def fitted(map_: Consistent, W: Array, y: Array, spread: float = VAGUE) -> tuple[Array, bool]:
    """Parameters of the least sum of squares of W parameters - y and of the prior, and whether it
    was found, by Newton's method, damped until it descends."""
    none, sizes = np.zeros(map_.size), np.abs(map_.start).clip(0.05)
    z, damping, one = np.zeros(len(sizes)), 1.0, np.eye(len(sizes))

    def at(z: Array) -> tuple[float, Array, Array, Array]:
        values, slopes, _ = map_(map_.start + sizes * z, none)
        rest = W @ values - y
        return float(rest @ rest + z @ z / spread**2), values, slopes, rest

    cost, values, slopes, rest = at(z)
    for _ in range(300):
        pull, slope = 2.0 * (W.T @ rest), W @ slopes
        gradient = sizes * (slopes.T @ pull) + 2.0 * z / spread**2
        if np.linalg.norm(gradient) < 1e-3:
            return values, True
        bent = map_(map_.start + sizes * z, pull)[2]
        H = np.outer(sizes, sizes) * (2.0 * slope.T @ slope + bent) + 2.0 * one / spread**2
        while True:
            try:
                step = -cho_solve(cho_factor(H + damping * one), gradient)
            except np.linalg.LinAlgError:
                damping *= 4.0
                continue
            tried = at(z + step)
            gain = (cost - tried[0]) / -(gradient @ step + 0.5 * step @ H @ step)
            if gain > 1e-4 or np.linalg.norm(step) < 1e-14:
                break
            damping *= 4.0
        z, (cost, values, slopes, rest) = z + step, tried
        damping *= 0.2 if gain > 0.75 else 3.0 if gain < 0.25 else 1.0
    return values, False


def exists(standard: Array) -> bool:
    """Whether the pseudo-inertias of all bodies are positive, but for rounding: none is of negative
    density."""
    kinds = np.array([pseudo_inertia(kind) for kind in INERTIAL])
    sizes = np.linalg.eigvalsh(np.tensordot(standard.reshape(-1, 10), kinds, 1))
    return bool((sizes[:, 0] >= -1e-14 * sizes[:, -1]).all())


def draws(name: str, tree: Tree, noise: float, count: int) -> dict[str, Any]:
    """A row of the second table. By least squares parameters are the nearest to the true ones, in
    sizes of these, of those with the least sum of squares."""
    base = tree.base_parameters()
    R, map_ = triangular(base, noise), Consistent(base)
    W, true = R @ base.matrix, np.array([*standard_values(tree).values()])
    sizes = np.abs(true.reshape(-1, 10)).clip(0.05 * np.abs(true).max()).ravel()
    inverse = sizes[:, None] * np.linalg.pinv(W * sizes)
    rng, begin = np.random.default_rng(3), process_time()
    plain = there = done = 0
    squares = np.zeros(2)
    for _ in range(count):
        z = rng.standard_normal(len(W))  # all that noise does to the sum of squares
        found, ended = fitted(map_, W, W @ true + z)
        plain, there = plain + exists(true + inverse @ z), there + exists(found)
        done, squares = done + ended, squares + (z @ z, np.sum((W @ (found - true)) ** 2))
    print(name, noise, plain, there, done, flush=True)
    return {
        "robot": name,
        "noise": noise,
        "base": len(base.names),
        "draws": count,
        "impossible": 1.0 - plain / count,
        "exist": there / count,
        "converged": done / count,
        "error": float(np.sqrt(squares[1] / squares[0])),
        "fit": (process_time() - begin) / count,
    }


def folder_of(given: str | None) -> Path | None:
    """Where the files are: given, or of the installed package."""
    places = (
        [Path(given)] if given else [Path(pin.__file__).parents[3], *Path(pin.__file__).parents]
    )
    found = [p for place in places for p in (place, place / SHARE, place.parent / SHARE)]
    return next((p for p in found if (p / ROBOTS["ur5"][0]).exists()), None)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--robots", help="folder with the files of example-robot-data")
    parser.add_argument("--draws", type=int, default=1000, help="of noise")
    given = parsed(parser)
    names, count, turns = (["ur5"], 25, 2) if given.quick else ([*ROBOTS], given.draws, 20)
    warnings.simplefilter("ignore")  # of what is left out of files
    words, folder = machine("pin"), folder_of(given.robots)
    parts, rows, trees = list[Any](), list[dict[str, Any]](), {"load": load(), "arm": arm()}
    if folder is None:
        parts.append("Left out: robots (pip install --no-deps example-robot-data).")
    else:
        rows = [robot(name, folder, turns) for name in names]
        trees["ur5"] = replace(ks.urdf.read(folder / ROBOTS["ur5"][0]), passive={})
        header = ["robot", "degrees of freedom", "inertial parameters", "base parameters"]
        header += ["rank by Pinocchio", "rows out of the span", "difference of torques"]
        header += ["read [s]", "rank [s]", "factors [s]", "regressor [us]"]
        lines = [[r["robot"], *map(str, [*r.values()][1:5]), *map(number, [*r.values()][5:])]
                 for r in rows]  # fmt: skip
        parts.append(table(header, lines))
    tries = [
        draws(name, tree, noise, count)
        for name, tree in trees.items()
        for noise in (NOISE if name == "load" else NOISE[1:2])
    ]
    header = ["robot", "noise of torques", "base parameters", "draws"]
    header += ["impossible by least squares", "exist by consistent fits", "converged"]
    header += ["error of torques by that of least squares", "fit [s]"]
    lines = [
        [
            r["robot"],
            f"{r['noise']:.0%}",
            str(r["base"]),
            str(r["draws"]),
            *(f"{r[key]:.1%}" for key in ("impossible", "exist", "converged")),
            number(r["error"]),
            number(r["fit"]),
        ]
        for r in tries
    ]
    parts.append(table(header, lines))
    leave(given, "base_parameters", words, parts, [*rows, *tries])


if __name__ == "__main__":
    main()
