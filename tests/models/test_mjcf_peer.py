"""Random models of MuJoCo against MuJoCo itself: mass matrices, and forces that motions need.

Numbers of MuJoCo 4.0.0 for some are in `tests/data/mjcf_random.json.gz`, which this file writes if
it is run as a program where MuJoCo is installed (`pip install mujoco`).
"""

import gzip
import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from random_mjcf import random_model
from scipy.spatial.transform import Rotation

import kinesym as ks
from kinesym.symbolic.derivation import values_at

STORED = Path(__file__).parents[1] / "data" / "mjcf_random.json.gz"
#: Seeds of the models whose numbers are stored; together they have all that is understood.
SEEDS = (18, 38, 44, 229)
#: Those whose accelerations have no explicit form: rotors of balls, joints that follow others.
COUPLED = (38, 229)


class Ours:
    """What a motion of a tree needs, in numbers."""

    def __init__(self, path):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.tree = ks.mjcf.read(path)
        self.names = [*self.tree.coordinates]
        q = [*self.tree.coordinates.values()]
        u = [self.tree.speeds[f"{name}_speed"] for name in self.names]
        (t,) = q[0].args
        self.atoms = [*q, *u, *(e.diff(t) for e in u)]
        needed = self.tree.needed()
        self.forces = [needed[f"{name}_speed"] for name in self.names]
        self.program = self.tree.recursion.steps.needed(self.forces)

    def needed(self, q, u, du):
        point = dict(zip(self.atoms, [*q, *u, *du], strict=True))
        return values_at(self.forces, self.program, point)

    def mass(self, q):
        none = np.zeros(len(q))
        rest = self.needed(q, none, none)
        return np.transpose([self.needed(q, none, e) - rest for e in np.eye(len(q))])


class MuJoCo:
    """The same by MuJoCo, in the coordinates of the tree."""

    def __init__(self, path, names):
        import mujoco

        self.mujoco, self.names = mujoco, names
        self.model = m = mujoco.MjModel.from_xml_path(str(path))
        off = mujoco.mjtDisableBit.mjDSBL_CONSTRAINT | mujoco.mjtDisableBit.mjDSBL_ACTUATION
        m.opt.disableflags |= off
        self.data = mujoco.MjData(m)
        first = {body: joint for joint, body in reversed([*enumerate(m.jnt_bodyid)])}
        self.joints = []
        for j, body in enumerate(m.jnt_bodyid):
            own = m.body(body).name or f"body_{body}"
            self.joints.append(m.joint(j).name or f"{own}_joint{j - first[body] + 1}")

    def parts(self, q):
        """Of each joint its place and rotation, or its value, and its speeds by the rates."""
        m, at = self.model, dict(zip(self.names, q, strict=True))
        rows = dict(zip(self.names, np.eye(len(q)), strict=True))
        kinds = self.mujoco.mjtJoint
        for e, data in zip(range(m.neq), m.eq_data, strict=True):
            y, x = m.eq_obj1id[e], m.eq_obj2id[e]
            shift, a = at[self.joints[x]] - m.qpos0[m.jnt_qposadr[x]], data[:5]
            value, slope = np.polyval(a[::-1], shift), np.polyval(np.polyder(a[::-1]), shift)
            at[self.joints[y]] = m.qpos0[m.jnt_qposadr[y]] + value
            rows[self.joints[y]] = slope * rows[self.joints[x]]
        for j, name in enumerate(self.joints):
            kind = self.mujoco.mjtJoint(m.jnt_type[j])
            if kind in (kinds.mjJNT_HINGE, kinds.mjJNT_SLIDE):
                yield [at[name]], rows[name][None]
                continue
            free, body = kind == kinds.mjJNT_FREE, m.jnt_bodyid[j]
            start = Rotation.from_quat(m.body_quat[body], scalar_first=True)
            a, b, c = (at[f"{name}_r{axis}"] for axis in "xyz")
            turn = Rotation.from_euler("XYZ", [a, b, c])
            back = Rotation.from_euler("YZ", [b, c]).inv(), Rotation.from_euler("Z", c).inv()
            axes = np.stack([back[0].apply([1, 0, 0]), back[1].apply([0, 1, 0]), [0, 0, 1]], 1)
            rate = axes @ [rows[f"{name}_r{axis}"] for axis in "xyz"]
            if not free:
                yield turn.as_quat(scalar_first=True), rate
                continue
            place = start.apply([at[f"{name}_t{axis}"] for axis in "xyz"]) + m.body_pos[body]
            shift = start.as_matrix() @ [rows[f"{name}_t{axis}"] for axis in "xyz"]
            yield [*place, *(start * turn).as_quat(scalar_first=True)], np.vstack([shift, rate])

    def speeds(self, q):
        """MuJoCo's speeds by rates of our coordinates."""
        return np.vstack([rates for _, rates in self.parts(q)])

    def move(self, q, u, du):
        h = 1e-3 / max(np.abs(u).max(), 1.0)
        near = [self.speeds(q + k * h * u) for k in (-3, -2, -1, 1, 2, 3)]
        change = np.tensordot([-1, 9, -45, 45, -9, 1], near, 1) / (60.0 * h)
        J = self.speeds(q)
        self.data.qpos[:] = np.concatenate([place for place, _ in self.parts(q)])
        self.data.qvel[:], self.data.qacc[:] = J @ u, J @ du + change @ u
        self.mujoco.mj_inverse(self.model, self.data)
        return J

    def needed(self, q, u, du):
        return self.move(q, u, du).T @ self.data.qfrc_inverse

    def mass(self, q):
        J = self.move(q, 0.0 * q, 0.0 * q)
        columns = np.zeros((self.model.nv, self.model.nv))
        for k, e in enumerate(np.eye(self.model.nv)):
            self.mujoco.mj_mulM(self.model, self.data, columns[k], e)
        return J.T @ columns @ J


def motion(count, seed):
    """Coordinates, speeds and their rates at random."""
    rng = np.random.default_rng(seed)
    return rng.uniform(-0.9, 0.9, count), rng.normal(size=count), rng.normal(size=count)


def agree(ours, mass, needed, q, u, du):
    np.testing.assert_allclose(ours.mass(q), mass, rtol=0, atol=1e-10 * np.abs(mass).max())
    found = ours.needed(q, u, du)
    np.testing.assert_allclose(found, needed, rtol=0, atol=1e-10 * np.abs(needed).max())


@pytest.mark.parametrize("seed", SEEDS)
def test_numbers_of_mujoco(seed, tmp_path):
    row = json.loads(gzip.decompress(STORED.read_bytes()))[str(seed)]
    path = tmp_path / "model.xml"
    path.write_text(row["text"])
    ours = Ours(path)
    assert ours.names == row["names"]
    q, u, du = np.array(row["motion"])
    agree(ours, row["mass"], row["needed"], q, u, du)
    explicit = ours.tree.model().explicit
    assert (explicit is None) == (seed in COUPLED)
    if explicit is None:
        return
    point = dict(zip(ours.atoms, (*q, *u), strict=False))
    found = values_at(explicit.rates, explicit.intermediates, point)
    forces = np.subtract(row["needed"], row["mass"] @ du)
    expected = np.linalg.solve(row["mass"], -forces)
    np.testing.assert_allclose(found[len(q) :], expected, rtol=1e-9)


@pytest.mark.parametrize(
    "seed", [pytest.param(k, marks=[pytest.mark.study] * (k > 301)) for k in range(300, 345)]
)
def test_random_models(seed, tmp_path, monkeypatch):
    pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path)  # where MuJoCo writes its log
    path = tmp_path / "model.xml"
    path.write_text(random_model(seed))
    ours = Ours(path)
    peer = MuJoCo(path, ours.names)
    q, u, du = motion(len(ours.names), seed)
    agree(ours, peer.mass(q), peer.needed(q, u, du), q, u, du)


def stored(path):
    """The numbers of MuJoCo for some models."""
    found = {}
    for seed in SEEDS:
        path.write_text(random_model(seed))
        names = Ours(path).names
        peer, moves = MuJoCo(path, names), motion(len(names), seed)
        found[seed] = {
            "text": path.read_text(),
            "names": names,
            "motion": [part.tolist() for part in moves],
            "mass": peer.mass(moves[0]).tolist(),
            "needed": peer.needed(*moves).tolist(),
        }
    return found


if __name__ == "__main__":
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        written = json.dumps(stored(Path(folder) / "model.xml"))
        STORED.write_bytes(gzip.compress(written.encode(), mtime=0))
