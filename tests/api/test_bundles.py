"""Bundles: a fit in one file, checked without solving; what was changed is found."""

import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym import bundles
from kinesym.cli import main

x, v, u = ks.dynamicsymbols("x v u")
k, c = sp.symbols("k c")
TIME = np.linspace(0.0, 2.0, 21)
SPRING = ks.Model(
    name="spring",
    states=[x, v],
    inputs=[u],
    parameters=[k, c],
    equations=[x.diff(ks.t) - v, v.diff(ks.t) + k * x + c * v - u],
    values={k: 9.0, c: 0.2},
)


def trials(std):
    rng, found = np.random.default_rng(3), []
    for start in (0.5, 1.0):
        push = ks.Signal(TIME[::5], rng.standard_normal(5), "linear")
        run = ks.simulate(SPRING, TIME, {x: start, v: 0.0}, inputs={u: push})
        noisy = run["x"] + 0.01 * rng.standard_normal(21)
        noisy[3] = np.nan
        late = ks.Signal(TIME[1:-1:2] + 0.03, run["v"][1:-1:2])
        found.append(ks.Experiment(TIME, {u: push}, {x: noisy, v: late}, std))
    return found


@pytest.fixture(scope="module")
def fit(tmp_path_factory):
    path = tmp_path_factory.mktemp("bundle") / "fit.kin"
    problem = ks.Collocation(
        SPRING, trials({x: 0.01, v: 0.1}), {k: (1, 30), c: None}, scheme="radau-3"
    )
    solution = problem.solve({k: 5.0})
    assert solution.success
    ks.bundle(problem, solution, path, guess={k: 5.0})
    return path, problem, solution


def test_a_fit_is_what_it_claims(fit, capsys):
    path, problem, solution = fit
    assert main(["verify", str(path)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert len(said) == 3 and "byte for byte" in said[0] and said[2].endswith("as recorded")
    given = ks.Bundle.read(path)
    np.testing.assert_array_equal(given.start, problem.pack({k: 5.0}))
    np.testing.assert_array_equal(
        given.problem.cost_gradient(given.start), problem.cost_gradient(given.start)
    )
    again = given.rerun()
    assert again.iterations == solution.iterations
    assert again.parameters["k"] == pytest.approx(solution.parameters["k"], rel=1e-12)
    assert main(["rerun", str(path)]) == 0 and "objective as recorded" in capsys.readouterr().out


def test_standard_deviations_that_were_estimated(tmp_path):
    path = tmp_path / "fit.kin"
    problem = ks.Collocation(SPRING, trials({v: 0.1})[0], {k: (1, 30)})
    solution = problem.solve({k: 5.0})
    ks.bundle(problem, solution, path)
    verdict = ks.Bundle.read(path).verify()
    assert verdict.holds and solution.noise, str(verdict)


def test_every_changed_byte_is_found(fit, tmp_path, capsys):
    path, data = tmp_path / "fit.kin", fit[0].read_bytes()
    for at in (*range(0, len(data), len(data) // 150), len(data) - 1):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(ValueError, match=r"changed|damaged|no bundle"):
            ks.Bundle.read(path)
    for spoiled in (data[:-1], data + b"\n", data[: len(data) // 2], b""):
        path.write_bytes(spoiled)
        assert main(["verify", str(path)]) == 2
    assert str(path) in capsys.readouterr().err
    with zipfile.ZipFile(fit[0]) as archive:
        names = set(archive.namelist())
    assert {"model.json", "problem.json", "data.npz", "solution.nc", "manifest.json"} < names


def test_members_that_do_not_fit_are_told(fit, tmp_path):
    """A file that somebody else wrote, with hashes of its own."""
    with zipfile.ZipFile(fit[0]) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    about, path = json.loads(members.pop("manifest.json")), tmp_path / "made.kin"
    for name, content in (
        ("problem.json", b"{}"),
        ("problem.json", members["problem.json"].replace(b'"x"', b'"y"')),
        ("model.json", members["model.json"].replace(b"k*x", b"k*xx")),
        ("data.npz", b"PK"),
        ("solution.nc", b""),
    ):
        changed = members | {name: content}
        hashes = {each: bundles.sha256(data).hexdigest() for each, data in changed.items()}
        changed["manifest.json"] = json.dumps(about | {"members": hashes}).encode()
        path.write_bytes(bundles._sealed(changed))
        with pytest.raises(ValueError, match=r"made\.kin: "):
            ks.Bundle.read(path)


def test_a_claim_that_is_wrong_is_found(fit, tmp_path):
    """The file is whole, but the solution is none, or more is said of it than is true."""
    _, problem, solution = fit
    z = solution.free_vector.copy()
    z[-2] *= 1.001  # k
    for wrong in (
        replace(solution, free_vector=z),
        replace(solution, objective=0.99 * solution.objective),
        replace(solution, multipliers=1.001 * solution.multipliers),
        replace(solution, likelihood=[replace(solution.likelihood[0], log_likelihood=1e3)]),
    ):
        made = tmp_path / "wrong.kin"
        ks.bundle(problem, wrong, made)
        verdict = ks.Bundle.read(made).verify()
        assert not verdict.holds and "NOT" in str(verdict)


def test_optimal_control_and_bounds_that_hold(tmp_path):
    """Active bounds, an objective in text, a free duration, estimates of none."""
    path = tmp_path / "swing.kin"
    problem = ks.Collocation(
        SPRING,
        ks.Experiment(nodes=11, duration=(0.5, 3.0)),
        objective=ks.Integral((x - sp.sin(ks.t)) ** 2) + 0.1 * ks.Terminal(ks.t),
        unknown_inputs={u: (-1.0, 1.0)},
        bounds={x: (-0.3, 0.5)},
        known={c: 0.5},
        scheme="midpoint",
    )
    solution = problem.solve()
    assert solution.success
    ks.bundle(problem, solution, path)
    verdict = ks.Bundle.read(path).verify()
    assert verdict.holds, str(verdict)
    gaps = bundles.optimality(
        problem, replace(solution, lower_multipliers=-solution.lower_multipliers - 1.0)
    )
    assert gaps[0] > 1e-3 and gaps[2] > 1e-3


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"unknown": {k: ks.normal(9, 1)}}, "the unknown k"),
        ({"boundary": [ks.at_start(x) - 1]}, "the argument boundary"),
        ({"objective": ks.LeastSquares("huber")}, "a loss"),
    ],
)
def test_what_cannot_be_held_is_refused_by_name(arguments, words, fit, tmp_path):
    solution = fit[2]
    given = {"unknown": {k: (1, 30), c: None}} | arguments
    other = ks.Collocation(SPRING, trials({v: 0.1})[:1], **given)
    path = tmp_path / "fit.kin"
    with pytest.raises(ValueError, match=f"a bundle cannot hold {words}"):
        ks.bundle(other, solution, path)
    assert not path.exists()


def test_the_manifest_is_plain(fit):
    with zipfile.ZipFile(fit[0]) as archive:
        about = json.loads(archive.read("manifest.json"))
        told = json.loads(archive.read("problem.json"))
    assert about["kinesym"] == "bundle" and {"kinesym", "numpy"} <= about["versions"].keys()
    assert told["unknown"] == {"k": [1.0, 30.0], "c": None} and told["scheme"] == "radau-3"
