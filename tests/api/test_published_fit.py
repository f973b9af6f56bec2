"""A published fit: phosphorylation and transport of STAT5 (Boehm et al. 2014, Journal of Proteome
Research 13:5685), data and parameters as in the collection Benchmark-Models-PEtab (BSD licence)."""

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import solve_ivp

import kinesym as ks

TIME = np.array([0, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 80, 100, 120, 160, 200, 240.0])
DATA = {
    "pA": [
        7.901072999,
        66.36349397,
        81.17132392,
        94.73030806,
        95.11648305,
        91.44171655,
        91.25709923,
        93.67229784,
        88.75423282,
        85.26970322,
        81.13239534,
        76.13592848,
        65.24805913,
        42.59965871,
        25.15779754,
        15.4301824,
    ],
    "pB": [
        4.596533343,
        29.63454599,
        46.04380647,
        81.97473362,
        80.5716093,
        79.03571964,
        75.67238037,
        71.62471986,
        69.06286328,
        67.14738432,
        60.89947629,
        54.80925777,
        43.98128998,
        29.77145816,
        20.08901656,
        10.96184517,
    ],
    "rA": [
        14.72316822,
        33.76234229,
        36.79985129,
        49.71760229,
        46.9281201,
        47.83657456,
        46.92872725,
        40.59775294,
        43.78366389,
        44.45738765,
        41.32715926,
        41.06273321,
        39.23583003,
        36.61946054,
        34.8937144,
        32.21107716,
    ],
}
PARAMETERS = sp.symbols("kd keh keo kih kio kp")
PUBLISHED = (
    0.026982514033029,
    1.00067973851508e-05,
    0.006170228086381,
    0.0163679184468,
    97749.3794024716,
    15766.5070195731,
)
START, SHARE = [207.6 * 0.693, 207.6 * 0.307, 0, 0, 0, 0, 0, 0], 0.107


def rates(t, y, kd, keh, keo, kih, kio, kp, exp=np.exp):
    A, B, AB, AA, BB, nAA, nAB, nBB = y
    epo, cyt, nuc = 1.25e-7 * exp(-kd * t) * kp, 1.4, 0.45
    bind = [cyt * epo * A * A, cyt * epo * A * B, cyt * epo * B * B]
    enter = [cyt * kio * AA, cyt * kih * AB, cyt * kio * BB]
    leave = [nuc * keo * nAA, nuc * keh * nAB, nuc * keo * nBB]
    return [
        (-2 * bind[0] - bind[1] + 2 * leave[0] + leave[1]) / cyt,
        (-2 * bind[2] - bind[1] + 2 * leave[2] + leave[1]) / cyt,
        (bind[1] - enter[1]) / cyt,
        (bind[0] - enter[0]) / cyt,
        (bind[2] - enter[2]) / cyt,
        *((into - out) / nuc for into, out in zip(enter, leave, strict=True)),
    ]


def seen(y):
    A, B, AB, AA, BB = y[:5]
    a, b = SHARE, 1 - SHARE
    every = 2 * AB + A * a + 2 * AA * a + B * b + 2 * BB * b
    return {
        "pA": (100 * AB + 200 * AA * a) / (AB + A * a + 2 * AA * a),
        "pB": (100 * AB + 200 * BB * b) / (B * b + AB + 2 * BB * b),
        "rA": (100 * AB + 100 * A * a + 200 * AA * a) / every,
    }


def less_log_likelihood(values):
    """By SciPy, with standard deviations at their likeliest."""
    about = {"t_eval": TIME, "method": "LSODA", "rtol": 1e-9, "atol": 1e-9, "args": list(values)}
    y = solve_ivp(rates, (0, 240), START, **about).y
    squares = [np.mean((np.array(DATA[name]) - row) ** 2) for name, row in seen(y).items()]
    return sum(8.0 * (np.log(2.0 * np.pi * s) + 1.0) for s in squares)


@pytest.mark.parametrize("off", [1.0, 3.0])
def test_the_published_optimum(off):
    """From itself, and from a guess that is off by threes: -log L is 138.222 there."""
    assert less_log_likelihood(PUBLISHED) == pytest.approx(138.222, abs=1e-3)
    states = ks.dynamicsymbols("A B AB AA BB nAA nAB nBB")
    moved = rates(ks.t, states, *PARAMETERS, exp=sp.exp)
    equations = [s.diff(ks.t) - f for s, f in zip(states, moved, strict=True)]
    model = ks.Model("stat5", list(states), [], list(PARAMETERS), equations, outputs=seen(states))
    problem = ks.Collocation(
        model,
        ks.Experiment(TIME, measurements=DATA),
        dict.fromkeys(PARAMETERS, ks.log_scale(1e-5, 1e5)),
        boundary=[ks.at_start(s) - v for s, v in zip(states, START, strict=True)],
        scheme="radau-5",
    )
    signs = (1, 0, -1, 1, -1, 1)
    guess = {p: v * off**s for p, v, s in zip(PARAMETERS, PUBLISHED, signs, strict=True)}
    fit = problem.solve(guess)
    assert fit.success
    assert less_log_likelihood([fit.parameters[str(p)] for p in PARAMETERS]) < 138.24
