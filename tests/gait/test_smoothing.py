"""Singular spectrum analysis: what must hold for any series, and what it gains on noisy gait."""

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from kinesym.gait.kinematics import Spline
from kinesym.gait.smoothing import SSA, projected, spectrum

matplotlib.use("Agg")

SERIES = arrays(np.float64, st.integers(8, 60), elements=st.floats(-10.0, 10.0, width=32))


def hankel(x, L):
    return np.array([x[i : i + len(x) - L + 1] for i in range(L)])


def slow(x, L, r):
    """The definition: a truncated singular value decomposition, anti-diagonals one by one."""
    X = hankel(x - x.mean(), L)
    U, s, V = np.linalg.svd(X, full_matrices=False)
    Y = (U[:, :r] * s[:r]) @ V[:r]
    sums, counts = np.zeros((2, len(x)))
    for i in range(L):
        for k in range(Y.shape[1]):
            sums[i + k] += Y[i, k]
            counts[i + k] += 1
    return sums / counts + x.mean()


def gait(time, order=0):
    """Three harmonics of a cycle of 1.1 s, as much as a knee moves [m, s]."""
    x = np.zeros_like(time)
    for k, (size, phase) in enumerate([(0.1, 0.3), (0.05, 1.1), (0.02, 2.0)], start=1):
        w = 2.0 * np.pi * k / 1.1
        x += size * w**order * np.sin(w * time + phase + 0.5 * np.pi * order)
    return x


def test_agrees_with_its_definition():
    x = np.random.default_rng(1).normal(size=50).cumsum()
    for L, r in ((2, 1), (10, 3), (25, 6)):
        np.testing.assert_allclose(SSA(L, r)(x), slow(x, L, r), atol=1e-13 * np.abs(x).max())


def test_eigenvalues_are_squares_of_singular_values():
    x = np.random.default_rng(2).normal(size=40)
    values, vectors = spectrum(x, 12)
    s = np.linalg.svd(hankel(x, 12), compute_uv=False)
    np.testing.assert_allclose(values, s**2, rtol=1e-12)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(12), atol=1e-14)


@settings(max_examples=60, deadline=None)
@given(x=SERIES, data=st.data())
def test_all_components_are_the_series(x, data):
    L = data.draw(st.integers(2, len(x) // 2))
    np.testing.assert_allclose(SSA(L, L)(x), x, atol=2e-14 * (1.0 + np.abs(x).max()))


@settings(max_examples=60, deadline=None)
@given(x=SERIES, data=st.data(), factor=st.floats(0.1, 10.0), offset=st.floats(-10.0, 10.0))
def test_reversal_scale_and_offset_go_through(x, data, factor, offset):
    L = data.draw(st.integers(2, len(x) // 2))
    values = spectrum(x - x.mean(), L)[0]
    # The kept space must be determined: a clear gap below an eigenvalue.
    r = int(np.argmax(values[:-1] - values[1:])) + 1
    if values[r - 1] - values[r] < 1e-3 * (values[0] + 1e-9):
        return
    smooth = SSA(L, r)(x)
    tolerance = 1e-9 * (1.0 + np.abs(x).max()) * 10.0
    np.testing.assert_allclose(
        SSA(L, r)(factor * x + offset), factor * smooth + offset, atol=tolerance
    )
    np.testing.assert_allclose(SSA(L, r)(x[::-1]), smooth[::-1], atol=tolerance)


def test_linear_for_a_given_space():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(2, 60))
    U = spectrum(x, 20)[1][:, :5]
    wanted = 2.0 * projected(x, U) - 3.0 * projected(y, U)
    np.testing.assert_allclose(projected(2.0 * x - 3.0 * y, U), wanted, atol=1e-13)


def test_a_sine_over_whole_periods_has_two_components():
    k = np.arange(120)
    x = np.sin(2.0 * np.pi * 3 * k / 120)
    scree = SSA(40, share=1e-12).scree(x)
    # One period in the window: sine and cosine, over 81 columns, together L K / 2 = 1620.
    assert scree.values[:2] == pytest.approx([820.0, 800.0], rel=1e-12)
    assert scree.values[2] < 1e-11
    assert scree.rank == 2
    np.testing.assert_allclose(SSA(40, 2)(x), x, atol=1e-13)


def test_smooths_every_row_on_its_own():
    x = np.random.default_rng(4).normal(size=(2, 3, 50)).cumsum(axis=-1)
    smooth = SSA(12, 3)(x)
    assert smooth.shape == x.shape
    np.testing.assert_array_equal(smooth[1, 2], SSA(12, 3)(x[1, 2]))


def test_recovers_accelerations_from_noise():
    """1 mm of noise at 100 Hz: the bare spline is useless, SSA is within a tenth."""
    time = np.arange(200) / 100.0
    truth = gait(time[5:-5], 2)

    def error(x):
        found = Spline.through(time, x[None]).sample(time[5:-5]).zdd[0]
        return np.sqrt(np.mean((found - truth) ** 2) / np.mean(truth**2))

    noise = 1e-3 * np.random.default_rng(5).normal(size=(20, 200))
    noisy = gait(time) + noise
    raw = np.median([error(row) for row in noisy])
    smooth = np.median([error(row) for row in SSA(50, 6)(noisy)])
    assert raw > 5.0
    assert smooth < 0.1  # measured: 8.1 and 0.073


def test_share_keeps_as_few_as_are_needed():
    x = gait(np.arange(300) / 100.0) + 1e-4 * np.random.default_rng(6).normal(size=300)
    for share in (1e-2, 1e-4, 1e-6):
        scree = SSA(60, share=share).scree(x)
        assert scree.left_out[scree.rank - 1] <= share < scree.left_out[scree.rank - 2]
        np.testing.assert_array_equal(SSA(60, share=share)(x), SSA(60, scree.rank)(x))


def test_noise_is_what_is_left_out():
    time, rng = np.arange(300) / 100.0, np.random.default_rng(7)
    for size in (1.0, 10.0):  # the same noise is found under signals of different size
        x = size * gait(time) + 1e-3 * rng.normal(size=300)
        scree = SSA(60, noise=1e-3).scree(x)
        assert 5 <= scree.rank <= 8  # three sines
        assert np.std(x - SSA(60, noise=1e-3)(x)) == pytest.approx(1e-3, rel=0.15)


def test_window_in_seconds_and_by_default():
    x = np.random.default_rng(8).normal(size=400)
    assert len(SSA(0.5).scree(x, rate=100.0).values) == 50
    assert len(SSA().scree(x, rate=100.0).values) == 60  # half a gait cycle
    assert len(SSA().scree(x[:100], rate=100.0).values) == 50  # half the series
    assert len(SSA().scree(x).values) == 200


def test_constant_and_nearly_constant_series():
    np.testing.assert_array_equal(SSA(5)(np.full(20, 3.0)), np.full(20, 3.0))
    np.testing.assert_array_equal(SSA(5, 2)(np.zeros((2, 20))), np.zeros((2, 20)))


def test_scree_prints():
    scree = SSA(20).scree(gait(np.arange(100) / 100.0))
    text = str(scree)
    assert "left out" in text and "<- rank" in text
    assert scree.shares.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    "given, message",
    [
        (lambda: SSA(80)(np.zeros(120)), "SSA window 80 must be between 2 and N/2 = 60"),
        (lambda: SSA(0.8)(np.zeros(120), 100.0), "SSA window 80 must be between 2 and N/2 = 60"),
        (lambda: SSA(0.01)(np.zeros(120), 100.0), "SSA window 1 must be between 2"),
        (lambda: SSA(0.5)(np.zeros(120)), "needs the rate"),
        (lambda: SSA(10)(np.zeros(120), rate=0.0), "rate of a series must be positive"),
        (lambda: SSA(1), "window of SSA"),
        (lambda: SSA(-0.5), "window of SSA"),
        (lambda: SSA(0.0), "window of SSA"),
        (lambda: SSA(True), "window of SSA"),
        (lambda: SSA(float("nan")), "window of SSA"),
        (lambda: SSA(10, 0), "rank of SSA must be at least 1"),
        (lambda: SSA(10, 11)(np.zeros(50)), "cannot keep 11 components of a window of 10"),
        (lambda: SSA(share=1.5), "within 0 ... 1"),
        (lambda: SSA(noise=-1.0), "must not be negative"),
        (lambda: SSA(rank=3, noise=1.0), "either rank=... or noise="),
        (lambda: SSA(5)([0.0, np.nan] * 10), r"the one at \(1,\) is nan"),
        (lambda: SSA(2)([1.0, 2.0]), "at least 4 samples"),
        (lambda: SSA(5).scree(np.zeros((2, 50))), "one series"),
    ],
)
def test_errors(given, message):
    with pytest.raises(ValueError, match=message):
        given()
