"""Studies of quiet standing: published setting against an independent implementation, and records.

Values called reference below were found by an implementation that shares no code with kinesym, on
the shipped record `cip_10Hz` (described in tests/data/README.md).
"""

from pathlib import Path

import numpy as np
import pytest
from scipy.signal import decimate

import kinesym as ks
from kinesym.examples import quiet_standing
from kinesym.examples.studies import quiet_standing_sensitivities as study
from kinesym.examples.studies import quiet_standing_subjects

TIME, NOISE, SAME, OTHER = np.genfromtxt(
    Path(__file__).parents[1] / "data" / "cip_10Hz.csv.gz", delimiter=",", skip_header=1
).T
K, AB, ALL = study.EXPERIMENTS

#: J and its gradient at the start of the paper: reference (RK4, KI: by a complex step).
START = {
    "rk4": (
        7.368085333594928e-4,
        [
            -4.348717658571823e-6,
            -1.0912839593777371e-4,
            -1.4878678577937907e-6,
            5.491899172510311e-6,
            -5.384267323049018e-5,
        ],
    ),
    "trapezoid": (
        7.381553396563268e-4,
        [
            -4.359286256541641e-6,
            -1.09140336538061e-4,
            -1.4989745436179656e-6,
            5.497053062217875e-6,
            -5.3904921187661264e-5,
        ],
    ),
}

#: Least squares: parameters, J, condition of the scaled Jacobian: reference, digits as given.
OPTIMA = [
    ("rk4", K, [1657.744, 22.20270, 375.0225], 2.662743e-5, 11.6),
    ("rk4", AB, [644.2149, 66.41145], 3.075406e-5, 8.0),
    ("rk4", ALL, [1395.977, 19.28643, 257.2875, 1022.158, 112.0536], 8.289843e-6, 219.0),
    ("trapezoid", ALL, [1402.789, 19.47865, 261.5029, 1032.987, 112.2036], 8.294480e-6, 218.0),
]


# -- the published setting -------------------------------------------------------------------------


@pytest.mark.parametrize("method", START)
def test_cost_and_gradient(method):
    problem = study.shooting(TIME, NOISE, SAME, ALL, method=method)
    cost, gradient = START[method]
    assert problem.cost() == pytest.approx(cost, rel=1e-12)
    np.testing.assert_allclose(problem.gradient(), gradient, rtol=1e-11)


@pytest.mark.parametrize(("method", "free", "values", "lowest", "condition"), OPTIMA)
def test_optima(method, free, values, lowest, condition):
    problem = study.shooting(TIME, NOISE, SAME, free, method=method)
    for optimizer in ("least-squares", "bfgs"):
        fit = problem.solve(optimizer=optimizer)
        # L-BFGS stops by the cost, which is flat along the valley of A and B
        tolerance = 2e-6 if optimizer == "least-squares" else 1e-4
        np.testing.assert_allclose(fit.values, values, rtol=tolerance)
        assert fit.objective == pytest.approx(lowest, rel=1e-6)
        scaled = problem.residual_jacobian(fit) * problem.pack()  # as printed: by the guess
        assert np.linalg.cond(scaled) == pytest.approx(condition, rel=5e-3)
        assert not fit.active


def test_steepest_descent_needs_scaled_parameters():
    """500 iterations: reference 2.66274e-5, 3.07541e-5, 8.394e-6 scaled; raw 5 to 45 % above."""
    for free, low, scaled in (
        (K, 2.662743e-5, 2.66274e-5),
        (AB, 3.075406e-5, 3.07541e-5),
        (ALL, 8.289843e-6, 8.394e-6),
    ):
        problem = study.shooting(TIME, NOISE, SAME, free)
        fit = problem.solve(optimizer="steepest-descent")
        assert fit.objective == pytest.approx(scaled, rel=5e-3)
        assert problem.solve(optimizer="steepest-descent", scale=False).objective > 1.05 * low


def test_another_noise_drives_parameters_to_their_bounds():
    """No finite gains are best; with all five free, A goes to zero and KP to m g h."""
    gains = study.shooting(TIME, NOISE, OTHER, K).solve(optimizer="least-squares")
    assert "KP" in gains.active or "KD" in gains.active
    everything = study.shooting(TIME, NOISE, OTHER, ALL).solve(optimizer="least-squares")
    assert everything.active
    assert everything.vaf()["u_COP"] < 60.0


def test_twins_have_the_same_centre_of_pressure():
    """Two sets of parameters, which no record of the centre of pressure tells apart."""
    other = study.twin(study.TRUE)
    loop = [76.0, 260.0, 1400.0 - 60.0 * 9.81 * 1.13, 20.0]
    assert np.polyval(loop, -1.0 / other["B"]) == pytest.approx(0.0, abs=1e-11)
    first, second = (study.simulate(TIME, NOISE, p) for p in (study.TRUE, other))
    for name in ("u_COP", "u"):
        np.testing.assert_allclose(second[name], first[name], atol=1e-13)
    assert np.abs(second["Td"] - first["Td"]).max() > 0.1
    again = study.twin(other)
    for name, value in study.TRUE.items():
        assert again[name] == pytest.approx(value, rel=1e-10)


# -- people ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def records():
    return quiet_standing_subjects.measured()


def test_compact_records_are_the_full_ones(records):
    """Up to the filter's ends, which differ, and 1 um of rounding."""
    compact = {record.name: record for record in records}
    assert len(compact) == 24 and len({record.subject for record in records}) == 8
    for name in ("BDS00001", "BDS00037", "BDS00073"):
        time, pressure, mass, stature = quiet_standing.load(name)
        np.testing.assert_allclose(compact[name].time, time[::10], atol=1e-9)
        reduced = decimate(pressure, 10, ftype="fir")
        np.testing.assert_allclose(compact[name].pressure[10:-10], reduced[10:-10], atol=1.1e-6)
        assert compact[name].body == quiet_standing.body(mass, stature)


def test_likelihood_is_that_of_the_gaussian(records):
    """Covariance of the samples from impulse responses: no filter, no state-space matrices. States
    at the start are equally likely everywhere, in units of what moves the first 12 samples."""
    record, N = records[0], 60
    y, time, found, expected = record.pressure[:N], record.time[:N], [], []
    for gains in ({"KP": 900.0, "KD": 100.0, "A": 250.0}, {"KP": 700.0, "KD": 60.0, "A": 150.0}):
        values = {**record.body, **gains}

        def response(initial, noise, values=values):
            start = {name: initial.get(name, 0.0) for name in ("u", "v", "z", "Td")}
            given = {"x": ks.Signal(time, noise, "held")}
            run = ks.simulate(ks.models.cip(), time, start, values, given, method="midpoint")
            return run["u_COP"]

        pulses = np.array([response({}, pulse) for pulse in np.eye(N)[: N - 1]]).T
        starts = [response({name: 1.0}, np.zeros(N)) for name in ("u", "v", "z", "Td")]
        inverse = np.linalg.inv(pulses @ pulses.T + quiet_standing.SIGMA**2 * np.eye(N))
        starts = np.array(starts).T
        open_ = starts.T @ inverse @ starts  # integrated over the states at the start
        left = inverse - inverse @ starts @ np.linalg.solve(open_, starts.T @ inverse)
        unit = np.linalg.svd(starts[:12] / quiet_standing.SIGMA, compute_uv=False)
        spread = np.linalg.slogdet(open_)[1] - np.linalg.slogdet(inverse)[1]
        spread -= 2.0 * np.log(unit).sum()
        expected.append(-0.5 * (y @ left @ y + spread + (N - 4) * np.log(2.0 * np.pi)))
        trial = ks.Experiment(time, measurements={"u_COP": y}, std={"u_COP": quiet_standing.SIGMA})
        noise = {"x": np.sqrt(quiet_standing.NOISE_STEP)}
        given = {"known": values, "noise": noise, "scheme": "midpoint"}
        found.append(ks.Collocation(ks.models.cip(), trial, **given).solve().log_likelihood)
    assert found == pytest.approx(expected, abs=1e-5)


def test_known_gains_are_found_only_with_the_noise_integrated_out(records):
    record = quiet_standing_subjects.simulated(1, records[0])
    truth = quiet_standing_subjects.TRUTH
    found = quiet_standing_subjects.marginal(record)
    for name, value in truth.items():
        assert abs(found[name] - value) < 3.0 * found[name + "_se"] < 0.6 * value
    together = quiet_standing_subjects.joint(record)
    assert together["KP"] == pytest.approx(truth["KP"], rel=0.1)
    assert together["bound"] == "KD"


def test_one_draw_identifies_the_draw(records):
    found = [quiet_standing_subjects.one_draw(records[0], seed) for seed in range(4)]
    stiffness = [draw["KP"] for draw in found]
    assert max(stiffness) > 2.0 * min(stiffness)
    assert sum(draw["bound"] for draw in found) >= 2
    assert max(draw["VAF"] for draw in found) < 50.0
