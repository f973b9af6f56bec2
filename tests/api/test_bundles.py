"""Bundles: a fit in one file, checked without solving; what was changed is found. That every
argument travels is in `test_bundled_arguments.py`."""

import json
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym import bundles
from kinesym.cli import main
from kinesym.internal.fitting.claims import optimality

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
        ("problem.json", members["problem.json"].replace(b"!experiment", b"!trial")),
        ("problem.json", members["problem.json"].replace(b"solve", b"load")),
        ("problem.json", b'{"arguments": ' + b"[" * 5000 + b"]" * 5000 + b"}"),
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
    spoiled = replace(solution, lower_multipliers=-solution.lower_multipliers - 1.0)
    gaps = optimality(problem.problem, spoiled)
    assert gaps[0] > 1e-3 and gaps[2] > 1e-3


START = [{x: 0.5, v: 0.0}, {x: 1.0, v: 0.0}]
WITH_STD = {x: 0.01, v: 0.1}
NEAR = {k: 8.0, c: 0.3}
DECAY = ks.Model("decay", [x], [], [k], [x.diff(ks.t) + k * x])
DECAY_TIME = np.linspace(0.0, 3.0, 31)
DECAY_NOISE = np.array([0.1 * np.random.default_rng(s).standard_normal(31) for s in (1, 2, 3)])
DECAY_NOISE[0, 5] += 0.5


def simulated(unknown, std=WITH_STD, initial=START, **more):
    return ks.Shooting(SPRING, trials(std), unknown, initial=initial, **more)


@pytest.mark.parametrize(
    ("make", "guess", "options"),
    [
        # a bound that holds, an optimiser with options of its own
        (
            lambda: simulated({k: (1, 30), c: (0.25, 1)}),
            NEAR,
            {"optimizer": "bfgs", "options": {"maxcor": 20}},
        ),
        # standard deviations that are found in turn
        (lambda: simulated({k: (1, 30), c: None}, {}), NEAR, {}),
        # segments, unknown starts, a prior, a logarithm
        (
            lambda: simulated(
                {k: ks.log_scale(1, 30), c: ks.normal(0.2, 0.1)},
                initial={x: None, v: (-0.1, 0.1)},
                segments=3,
            ),
            NEAR,
            {"optimizer": "ipopt"},
        ),
        # segments, a loss with a standard deviation that is found in turn
        (
            lambda: ks.Shooting(
                DECAY,
                [
                    ks.Experiment(DECAY_TIME, measurements={x: each})
                    for each in 2.0 * np.exp(-1.3 * DECAY_TIME) + DECAY_NOISE
                ],
                {k: (0.01, 20)},
                initial={x: None},
                segments=4,
                substeps=2,
                objective=ks.LeastSquares(loss="huber"),
            ),
            {k: 1.0},
            {"optimizer": "ipopt"},
        ),
        # many starts with a seed
        (lambda: simulated({k: (1, 30), c: (0, 1)}), None, {"starts": 4, "seed": 3}),
        # process noise, whose parameters have the largest likelihood
        (
            lambda: ks.Collocation(
                SPRING,
                ks.Experiment(TIME, measurements={x: trials({})[0].measurements["x"]}),
                {k: (1, 30)},
                noise={u: (0.01, 10)},
                scheme="midpoint",
            ),
            {k: 8.0},
            {},
        ),
    ],
    ids=["bound", "std", "segments", "loss", "starts", "noise"],
)
def test_problems_of_all_kinds_are_solved_again(make, guess, options, tmp_path):
    problem, path = make(), tmp_path / "fit.kin"
    found = (problem.multistart if "starts" in options else problem.solve)(guess=guess, **options)
    ks.bundle(problem, found, path, guess=guess, **options)
    given, best = ks.Bundle.read(path), getattr(found, "best", found)
    verdict = given.verify()
    assert best.success and verdict.holds and "byte for byte" in str(verdict), str(verdict)
    again = given.rerun()
    assert again.iterations == best.iterations
    np.testing.assert_allclose(again.free_vector, best.free_vector, rtol=1e-9, atol=1e-12)


def test_wrong_claims_of_a_fit_by_simulation(tmp_path):
    problem, path = simulated({k: (1, 30), c: None}), tmp_path / "wrong.kin"
    fit = problem.solve(NEAR)
    for wrong in (
        replace(fit, free_vector=fit.free_vector * 1.001),
        replace(fit, objective=0.999 * fit.objective),
        replace(fit, gradient=fit.gradient + 1.0),
        replace(fit, likelihood=[replace(fit.likelihood[0], log_likelihood=1e3)]),
        replace(fit, grid=[replace(fit.grid[0], shifts={"k": 0.0, "c": 0.0})]),
    ):
        ks.bundle(problem, wrong, path)
        verdict = ks.Bundle.read(path).verify()
        assert not verdict.holds and "NOT" in str(verdict), str(verdict)


def test_what_cannot_be_bundled_is_refused_before_a_file_is_written(fit, tmp_path):
    _, problem, solution = fit
    path = tmp_path / "fit.kin"
    other = ks.Collocation(SPRING, problem.trials[:1], {k: (1, 30)}, bounds={x: (np.cos, None)})
    for wrong, words in (
        ((other, other.solve({k: 5.0})), "a bundle cannot hold arguments/bounds/x/0"),
        ((simulated({k: (1, 30)}), solution), "expected a kinesym.Fit"),
        ((SPRING, solution), "expected a kinesym.Collocation or a kinesym.Shooting"),
        ((problem.refined(solution, 1e-4), solution), "is on finer grids than its arguments"),
    ):
        with pytest.raises(ValueError, match=words):
            ks.bundle(*wrong, path)
    with pytest.raises(ValueError, match="solve has no argument max_iteration; did you mean"):
        ks.bundle(problem, solution, path, max_iteration=3)
    assert not path.exists()


def test_the_manifest_is_plain(fit):
    with zipfile.ZipFile(fit[0]) as archive:
        about = json.loads(archive.read("manifest.json"))
        told = json.loads(archive.read("problem.json"))
    assert about["kinesym"] == "bundle" and {"kinesym", "numpy"} <= about["versions"].keys()
    assert told["arguments"]["unknown"] == {"k": [1, 30], "c": None}
    assert told["problem"] == "collocation" and told["call"] == "solve"
