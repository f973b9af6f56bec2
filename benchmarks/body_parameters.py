"""What do motion and force plates tell of the masses and inertias of a walking body?

Its six equations at the root hold no torque of a joint, and determine all that any forces do
(Ayusawa, Venture and Nakamura 2014, International Journal of Robotics Research 33, 446-468): ranks
of what is measured of a body in 18 segments, exact and by singular values. Then one stride on
plates, simulated with noise and measured: the table of segments as it is, least squares, and bodies
that exist, with the table as prior; the next stride judges.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from time import process_time
from typing import Any

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before NumPy asks

import numpy as np
from base_parameters import SINGULAR, Array, Consistent, exists, fitted
from record import table
from report import leave, machine, number, parsed

import kinesym as ks
from kinesym.examples.studies import gait as example
from kinesym.gait.kinematics import states
from kinesym.models.whole_body import whole_body
from kinesym.multibody import Tree

#: What is measured of the walking body, as base parameters are asked for it.
TOLD = {"force of plates": "J1", "force and moment of plates": "base_wrench", "all torques": None}
#: Standard deviations of force [N] and moment [N m] of plates, and whether these are simulated.
PLATES = {
    "simulated, 1 N, 0.3 N m": (1.0, 0.3, True),
    "simulated, 8 N, 5 N m": (8.0, 5.0, True),
    "measured": (8.0, 5.0, False),
}
#: Two strides of the walk, by 10 ms [s].
WALK = (0.09, 2.41, 0.01)
#: By how much the table of segments is off, in sizes of what it has: standard deviation.
SPREAD = 0.1
#: Columns of the second table.
FOUND = (
    "plates",
    "parameters by",
    "directions told",
    "draws",
    "exist",
    "force of the next stride [N]",
    "its moment [N m]",
    "its torques [N m]",
    "masses [kg]",
)


def known(tree: Tree) -> list[dict[str, Any]]:
    """Rows of the first table: ranks, exact and by singular values of the regressor of all
    parameters at random motions."""
    every, rows, rng = tree.base_parameters(), list[dict[str, Any]](), np.random.default_rng(4)
    own = np.repeat([body.mass != 0 for body in tree.bodies], 10)  # the root has none
    for words, measured in TOLD.items():
        begin = process_time()
        base = tree.base_parameters(measured)
        took = process_time() - begin
        full = [n for n, its in zip(base.standard, own, strict=True) if its]
        Y = ks.regressor(replace(base, names=[n for n in full if n not in base.unseen]))
        y = np.concatenate(Y(*rng.uniform(-1.0, 1.0, (3, len(Y.speeds), 300))).transpose(2, 0, 1))
        sizes = np.linalg.svd(y / np.linalg.norm(y, axis=0), compute_uv=False)
        both = np.vstack([base.matrix, every.matrix])[:, own]
        row = {
            "measured": words,
            "parameters": len(full),
            "base": int(np.linalg.matrix_rank(base.matrix[:, own])),
            "numerical": int(np.sum(sizes > SINGULAR * sizes[0])),
            "together": int(np.linalg.matrix_rank(both)),
            "rank": took,
        }
        print(row, flush=True)
        rows.append(row)
    return rows


class Walk:
    """A recorded walk of a body in 18 segments on plates: its tree, and regressors of the wrench
    about the root, (6, standard parameters, N), and of torques, as their rows for two strides."""

    def __init__(self) -> None:
        walk, plates = example.walk()
        time = np.arange(*WALK)
        x, xdot = states(walk.kinematics.sample(time))
        n, root = len(x) // 2, x[:3]
        motion, self.tree = (x[:n], x[n:], xdot[n:]), whole_body(walk.segments)
        self.base, every = (self.tree.base_parameters(m) for m in ("base_wrench", None))
        y, torques = ks.regressor(self.base)(*motion), ks.regressor(every)(*motion)[3:]
        y[3:] -= np.cross(root[:, None], y[:3], axis=0)
        under = [one.at(time) for one in walk.alike(plates).values()]
        forces = np.array([sum(one.force for one in under), sum(one.about(root) for one in under)])
        self.first, self.wrench = time < np.mean(WALK[:2]), forces.reshape(6, -1)
        self.y, self.torques, self.matrix = y, torques, every.matrix

    def needed(self, standard: Array) -> Array:
        """The wrench that standard parameters need, (6, N)."""
        return np.einsum("ijn,j->in", self.y, self.base.matrix @ standard)

    def errors(self, found: Array, true: Array | None) -> Array:
        """Mean squares on the second stride: of force, moment and torques; of masses."""
        at = ~self.first
        wrench = self.needed(found) - (self.wrench if true is None else self.needed(true))
        off = np.full_like(found, np.nan) if true is None else found - true
        torques = np.einsum("ijn,j->in", self.torques, self.matrix @ off)[:, at]
        parts = [wrench[:3, at], wrench[3:, at], torques, off[9::10][1:]]
        return np.array([np.mean(part**2) for part in parts])


def walked(walk: Walk, words: str, count: int) -> list[dict[str, Any]]:
    """Rows of the second table: inertial parameters by the wrench of one stride."""
    force, moment, simulated = PLATES[words]
    weights, base = 1.0 / np.repeat([force, moment], 3), walk.base
    rows = (weights[:, None, None] * walk.y)[..., walk.first].transpose(2, 0, 1)
    orthogonal, R = np.linalg.qr(np.concatenate(rows))
    seen = orthogonal.T @ (weights[:, None] * walk.wrench)[:, walk.first].T.ravel()
    map_, rng, W = Consistent(base), np.random.default_rng(6), R @ base.matrix
    sizes = SPREAD * np.abs(map_.start).clip(0.05)
    given, slopes, _ = map_(map_.start, np.zeros(map_.size))
    off = np.abs(slopes * sizes).sum(axis=1)  # of standard parameters by the table
    inverse = off[:, None] * np.linalg.pinv(W * off)
    squares, exist, done = np.zeros((3, 4)), np.zeros(3), 0
    for _ in range(count if simulated else 1):
        true = None
        if simulated:
            true = map_(map_.start + sizes * rng.standard_normal(len(sizes)), 0.0 * given)[0]
            seen = W @ true + rng.standard_normal(len(W))
        found, ended = fitted(map_, W, seen, SPREAD)
        ways = given, given + inverse @ (seen - W @ given), found
        squares += [walk.errors(one, true) for one in ways]
        exist, done = exist + [exists(one) for one in ways], done + ended
    n = count if simulated else 1
    print(words, exist / n, done / n, flush=True)
    errors = np.sqrt(squares / n)
    names = ("table", "least squares", "consistent fit")
    told = int(np.sum(np.linalg.svd(W @ slopes * sizes, compute_uv=False) > 1.0))
    return [
        dict(zip(FOUND, (words, name, told, n, *row), strict=True))
        for name, row in zip(names, np.c_[exist / n, errors], strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draws", type=int, default=1000, help="of noise and bodies")
    given = parsed(parser)
    count = 5 if given.quick else given.draws
    words = machine()
    walk = Walk()
    asked = known(walk.tree)
    header = ["measured", "inertial parameters of segments", "base parameters", "numerical rank"]
    header += ["rank with those of all torques", "rank [s]"]
    parts: list[Any] = [
        table(header, [[*map(str, [*r.values()][:5]), number(r["rank"])] for r in asked])
    ]
    walks = [row for plates in PLATES for row in walked(walk, plates, count)]
    lines = [
        [
            *map(str, [*r.values()][:4]),
            f"{r['exist']:.1%}",
            *("-" if np.isnan(e) else number(e) for e in [*r.values()][5:]),
        ]
        for r in walks
    ]
    parts.append(table([*FOUND], lines))
    leave(given, "body_parameters", words, parts, [*asked, *walks])


if __name__ == "__main__":
    main()
