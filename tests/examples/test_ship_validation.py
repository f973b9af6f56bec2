"""The validation on a ship: the other codes against reference numbers, and kinesym against them."""

import csv
import gzip
import importlib
import json
from pathlib import Path

import numpy as np
import pytest

import kinesym as ks
from kinesym.cli import main
from kinesym.examples.studies import ship_validation as study

DATA = Path(__file__).parents[1] / "data"
TIME = study.STEP * np.arange(301)

#: NRMSE [%] over 3 s that is rounding, the error of RK4 at 0.01 s or, linear, the linearisation.
LIMITS = {
    "Newton-Euler": 1e-11,
    "Euler's equations": 5e-6,
    "nonlinear chain": 5e-4,
    "linear chain": 0.05,
    "Pinocchio": 1e-3,
}


@pytest.fixture(scope="module")
def values():
    """Parameters of the person of the reference records, by name."""
    given = json.loads((DATA / "ship_params.json").read_text())
    joints = [[0.0, 0.0, 0.0], *given["q_next"]]
    found = {"g": given["g"]}
    for k, link in enumerate(study.LINKS):
        found[f"{link}_m"] = given["m"][k]
        for letter, rows in (("I", given["I"]), ("c", given["r_cg"]), ("r", joints)):
            found |= {f"{link}_{letter}{axis}": rows[k][i] for i, axis in enumerate("xyz")}
        for kind in ("Kp", "Kd"):
            found |= {f"{kind}_{link}_{axis}": given[kind][k][i] for i, axis in enumerate("xyz")}
    return found


# -- the other codes ------------------------------------------------------------------------------


def test_the_ship_moves_as_in_the_reference():
    given = json.loads((DATA / "ship_motion.json").read_text())
    np.testing.assert_allclose(study.AMPLITUDE, given["amp"], rtol=1e-14)
    np.testing.assert_array_equal(study.OMEGA, given["omega"])
    np.testing.assert_array_equal(study.PHASE, given["phase"])


def test_the_person_is_the_one_of_the_reference(values):
    """Its numbers are printed with six decimals."""
    model = ks.models.sim3d()
    for name, value in model.values.items():
        if name != "head_ez":  # for pictures only
            assert value == pytest.approx(values[name], abs=1e-6), name


def test_composite_body(values):
    """Numbers of an independent implementation."""
    mass, com, _ = study.composite(values)
    assert mass == pytest.approx(77.808, abs=1e-12)
    np.testing.assert_allclose(com, [-0.00972137, 0.00021407, 0.99626867], atol=5e-9)


def test_rigid_body(values):
    """Force and moment at 30 s of an independent implementation [N, N m]."""
    force, moment = study.rigid_body(values, np.array([30.0]))[:, :, 0]
    np.testing.assert_allclose(force, [0.9543724512, -66.45871998, 685.5956642], rtol=5e-10)
    np.testing.assert_allclose(moment, [66.39935213025, 7.773539106146, 0.6419981769], rtol=1e-10)


def test_pendulum(values):
    """A record by RK4 at 0.01 s, whose error is 2.5e-9 rad."""
    with gzip.open(DATA / "ship_PSM3D.csv.gz", "rt") as file:
        record = np.genfromtxt(file, delimiter=",", names=True)[:11]
    angles, force = study.pendulum(values, record["t"], [0.02, 0.03, 0.0, 0.0, 0.0])
    for axis, row, push in zip("xyz", angles, force, strict=True):
        np.testing.assert_allclose(row, record[f"th1{axis}"], atol=5e-9)
        np.testing.assert_allclose(push, record[f"F{axis}"], atol=1e-5)


def test_pinocchio_chain(values):
    pin = pytest.importorskip("pinocchio")
    model = study.pinocchio_chain(pin, values)
    data = model.createData()
    assert model.nv == 18
    mass, com, inertia = study.composite(values)
    assert pin.computeTotalMass(model) == pytest.approx(mass, rel=1e-14)
    np.testing.assert_allclose(pin.centerOfMass(model, data, np.zeros(18)), com, atol=1e-14)
    upright = pin.crba(model, data, np.zeros(18))
    np.testing.assert_allclose(upright[3:6, 3:6], inertia, atol=1e-13)  # about the ankle


def test_chains_agree_for_small_motion(values, monkeypatch):
    """What they differ by is of second order in the motion: the linearisation."""
    found = []
    for scale in (1.0, 0.1):
        monkeypatch.setattr(study, "AMPLITUDE", scale * study.AMPLITUDE)
        monkeypatch.setattr(study, "RATES", scale * study.RATES)
        straight, bent = study.chain_linear(values, TIME), study.chain_nonlinear(values, TIME)
        found.append(np.abs(straight - bent).max() / np.abs(bent).max())
    assert found[0] < 5e-3
    assert found[1] == pytest.approx(0.1 * found[0], rel=0.5)


# -- kinesym --------------------------------------------------------------------------------------


def check(signals, count):
    assert len(signals) == count
    for s in signals:
        assert s.nrmse < LIMITS[s.code], s
        if s.paper:
            assert s.nrmse < 0.5 * float(s.paper.split()[0])


def test_rigid_body_pendulum_and_cart():
    check(study.grm3d(TIME), 6)
    check(study.psm3d(TIME), 5)
    check(study.cartip(TIME), 8)


def test_four_links_against_pinocchio():
    check(study.sim3d(pytest.importorskip("pinocchio"), TIME), 6)


def test_order_of_rk4():
    """From h |lambda| = 0.92 towards the order 4 of small steps."""
    errors = study.transient(pytest.importorskip("pinocchio"))[-1]
    assert errors[study.STEP].argmax() < 20  # in the transient
    assert errors[study.STEP].max() == pytest.approx(1.76e-4, rel=0.02)  # deg
    orders = study.orders(errors)
    assert ((orders > 4.0) & (orders < 4.8)).all()
    assert (np.diff(orders) < 0.0).all()


# -- the example ----------------------------------------------------------------------------------


def test_pictures_and_table(tmp_path, capsys):
    pytest.importorskip("pinocchio")
    assert main(["run", "ship_validation", "--nodes", "101", "--out", str(tmp_path)]) == 0
    printed, pictures = capsys.readouterr().out, sorted(tmp_path.glob("*.png"))
    names = [f"ship_fig{k}.png" for k in range(3, 9)] + ["ship_rk4.png"]
    assert [path.name for path in pictures] == names
    assert all(path.stat().st_size > 10_000 and str(path) in printed for path in pictures)
    with (tmp_path / "ship_validation.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["model"] for row in rows] == (
        ["GRM3D"] * 6 + ["PSM3D"] * 5 + ["CARTIP"] * 8 + ["SIM3D"] * 6
    )
    assert all(row["nrmse_percent"] in printed for row in rows)


def test_without_pinocchio(tmp_path, capsys, monkeypatch):
    real = importlib.import_module

    def missing(name, *rest):
        if name == "pinocchio":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", missing)
    monkeypatch.setattr(study, "TITLES", {k: study.TITLES[k] for k in (7, 8)})  # for speed
    pictures = study.main(tmp_path, 11)
    assert [path.name for path in pictures] == ["ship_fig7.png"]
    assert "pip install pin" in capsys.readouterr().out
