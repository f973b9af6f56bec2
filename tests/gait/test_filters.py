"""Low-pass and smoothing splines: closed forms, SciPy's own, and noise of known size."""

import matplotlib
import numpy as np
import pytest
from scipy.interpolate import make_interp_spline, make_smoothing_spline
from scipy.linalg import eigh
from scipy.signal import butter, filtfilt

from kinesym.gait.cutoffs import low_pass_of, residual_analysis, step_rate
from kinesym.gait.markers import Markers
from kinesym.gait.smoothing import Butterworth, GCVSpline

matplotlib.use("Agg")
RATE = 100.0
TIME = np.arange(500) / RATE
MIDDLE = slice(100, -100)


def acceleration(x):
    """Of a quintic through the samples."""
    return make_interp_spline(TIME, x, 5).derivative(2)(TIME)


def amplitude(x, frequency):
    """Of a sine in the middle of a series."""
    t = TIME[MIDDLE]
    base = np.array([np.sin(2 * np.pi * frequency * t), np.cos(2 * np.pi * frequency * t)])
    return np.linalg.norm(np.linalg.lstsq(base.T, x[MIDDLE], rcond=None)[0])


@pytest.mark.parametrize("order", [1, 2, 4])
@pytest.mark.parametrize("frequency", [2.0, 6.0, 12.0])
def test_gain_of_both_passes_is_the_closed_form(order, frequency):
    """And the acceleration of a sine is (2 pi f)^2 times it."""
    smooth = Butterworth(6.0, order)(np.sin(2 * np.pi * frequency * TIME), RATE)
    warped = np.tan(np.pi * frequency / RATE) / np.tan(np.pi * 6.0 / RATE)
    gain = 1.0 / (1.0 + (np.sqrt(2.0) - 1.0) * warped ** (2 * order))
    assert amplitude(smooth, frequency) == pytest.approx(gain, rel=1e-6)
    wanted = gain * (2 * np.pi * frequency) ** 2
    assert amplitude(acceleration(smooth), frequency) == pytest.approx(wanted, rel=1e-3)


def test_agrees_with_filtfilt_away_from_the_ends():
    x = np.random.default_rng(0).normal(size=500).cumsum()
    single = np.arctan(np.tan(np.pi * 0.06) / (np.sqrt(2.0) - 1.0) ** 0.25) / np.pi
    wanted = filtfilt(*butter(2, 2.0 * single), x)
    np.testing.assert_allclose(Butterworth(6.0)(x, RATE)[MIDDLE], wanted[MIDDLE], atol=1e-6)


@pytest.mark.parametrize("law", [Butterworth(6.0), GCVSpline(), GCVSpline(3)])
def test_shape_scale_units_and_reversal(law):
    x = np.random.default_rng(1).normal(size=(2, 3, 120)).cumsum(axis=-1)
    smooth = law(x, RATE)
    assert smooth.shape == x.shape
    np.testing.assert_allclose(law(x[1, 2], RATE), smooth[1, 2], atol=1e-11)
    np.testing.assert_allclose(law(1e3 * x + 5.0, RATE), 1e3 * smooth + 5.0, atol=1e-6)
    # one pass is first: what it makes of the ends differs
    near = 1e-4 if isinstance(law, Butterworth) else 1e-9
    np.testing.assert_allclose(law(x[..., ::-1], RATE)[..., ::-1], smooth, atol=near)


def test_time_in_other_units_is_the_same():
    x = np.random.default_rng(2).normal(size=200).cumsum()
    np.testing.assert_allclose(Butterworth(6.0)(x, 100.0), Butterworth(6e-3)(x, 0.1), atol=1e-9)
    np.testing.assert_array_equal(GCVSpline()(x, 100.0), GCVSpline()(x, 0.1))


@pytest.mark.parametrize("law", [Butterworth(6.0), Butterworth(4.0, 4)])
def test_polynomials_pass_up_to_the_ends(law):
    """A low-pass of a fall through a parabola: nothing bends at the ends."""
    fall = 1.0 + 2.0 * TIME - 4.905 * TIME**2
    smooth = law(fall, RATE)
    np.testing.assert_allclose(smooth, fall, atol=2e-2)
    np.testing.assert_allclose(acceleration(smooth)[MIDDLE], -9.81, atol=1e-2)


@pytest.mark.parametrize("frequency", [0.02, 0.1, 0.4])
def test_cubic_spline_is_that_of_scipy(frequency):
    x = np.random.default_rng(3).normal(size=80)
    ours = x - GCVSpline(3)._residual(x[None], frequency)[0]
    wanted = make_smoothing_spline(np.arange(80.0), x, lam=(2 * np.pi * frequency) ** -4)
    np.testing.assert_allclose(ours, wanted(np.arange(80)), atol=1e-11)


@pytest.mark.parametrize("degree", [3, 5])
def test_spline_limits(degree):
    """Hardly smoothed it is the series, wholly the polynomial of the natural boundary."""
    half = (degree + 1) // 2
    x = np.random.default_rng(4).normal(size=60)
    spline = GCVSpline(degree)
    assert np.abs(spline._residual(x[None], 30.0)).max() < 1e-4
    line = np.polynomial.Polynomial.fit(np.arange(60), x, half - 1)(np.arange(60))
    np.testing.assert_allclose(x - spline._residual(x[None], 1e-4)[0], line, atol=1e-3)
    np.testing.assert_allclose(spline(line, RATE), line, atol=1e-9)


@pytest.mark.parametrize("degree", [3, 5])
@pytest.mark.parametrize("N", [60, 200])
def test_trace_of_the_spline(degree, N):
    """Eigenvalues of a free beam in closed form, against those of the matrices."""
    half = (degree + 1) // 2
    D = np.diff(np.eye(N), half, axis=0)
    gram = [66.0, 26.0, 1.0] if half == 3 else [4.0, 1.0]
    R = sum(
        value * (np.eye(N - half, k=k) + (k > 0) * np.eye(N - half, k=-k))
        for k, value in enumerate(gram)
    ) / (120.0 if half == 3 else 6.0)
    sizes = eigh(D @ D.T, R, eigvals_only=True)
    for frequency in (0.03, 0.1, 0.3):
        scaled = (2 * np.pi * frequency) ** (-2 * half) * sizes
        wanted = np.sum(scaled / (1.0 + scaled))
        assert np.sum(GCVSpline(degree)._lost(N, frequency)) == pytest.approx(wanted, rel=0.02)


def test_quintic_spline_finds_noise_and_accelerations():
    """White noise of 0.5 ... 2 mm: little of it is left, and accelerations are within a tenth."""
    w = 2.0 * np.pi * 1.5
    motion, truth = 0.1 * np.sin(w * TIME), -0.1 * w**2 * np.sin(w * TIME)
    for size in (5e-4, 2e-3):
        noise = size * np.random.default_rng(5).normal(size=(12, 500))
        found = GCVSpline()(motion + noise, RATE)
        assert np.std(motion + noise - found) == pytest.approx(size, rel=0.1)
        off = np.median([np.std(acceleration(row)[MIDDLE] - truth[MIDDLE]) for row in found])
        assert off < 0.1 * np.std(truth)
    cutoffs = GCVSpline().cutoffs(motion + noise, RATE)
    assert cutoffs.shape == (12,) and 1.5 < np.median(cutoffs) < 8.0


def walking(steps, rate=RATE, duration=5.0, noise=0.0):
    """Markers that go up and down twice as often as they swing, and forwards."""
    t, rng = np.arange(int(duration * rate)) / rate, np.random.default_rng(6)
    up = 0.02 * np.sin(2 * np.pi * steps * t) + 0.003 * np.sin(4 * np.pi * steps * t)
    found = {}
    for k, side in enumerate((0.0, np.pi)):
        swing = 0.2 * np.sin(np.pi * steps * t + side)
        found[f"m{k}"] = np.array([1.3 * t + swing, 0.1 * swing, 1.0 + up + 0.2 * swing])
    return Markers(t, {n: p + noise * rng.normal(size=p.shape) for n, p in found.items()})


@pytest.mark.parametrize("rate", [50.0, 100.0, 240.0])
@pytest.mark.parametrize("steps", [1.5, 1.9, 2.8])
def test_rate_of_steps_and_the_default_cutoff(steps, rate):
    markers = walking(steps, rate, noise=1e-3)
    assert step_rate(markers) == pytest.approx(steps, rel=0.03)
    assert low_pass_of(markers).cutoff == pytest.approx(max(5.0, 2.5 * steps), rel=0.03)


def test_default_without_steps_and_of_slow_records():
    still = Markers(TIME, {"m": np.ones((3, 500))})
    assert step_rate(still) == 0.0 and low_pass_of(still) == Butterworth(5.0)
    slow = Markers(np.arange(40) / 10.0, {"m": np.ones((3, 40))})
    assert low_pass_of(slow).cutoff == pytest.approx(4.0)  # below half the rate


def test_cutoff_of_a_marker():
    markers = walking(1.8, noise=1e-3)
    law = Butterworth(5.0, markers={"m1": 12.0})
    found = markers.smoothed(law)
    np.testing.assert_array_equal(found["m0"], Butterworth(5.0)(markers["m0"], markers.rate))
    np.testing.assert_array_equal(found["m1"], Butterworth(12.0)(markers["m1"], markers.rate))
    with pytest.raises(KeyError, match="there is no marker 'heel'"):
        markers.smoothed(Butterworth(5.0, markers={"heel": 12.0}))


def test_residuals_are_the_noise_beyond_the_motion():
    """Of white noise a low-pass of gain H takes the root mean square of 1 - H over frequencies."""
    markers, size = walking(1.8, noise=1e-3), 1e-3 * np.sqrt(3.0)
    found = residual_analysis(markers, used={"used": 5.0})
    assert found.rms.shape == (2, 48) and found.names == ("m0", "m1")
    k = np.argmin(np.abs(found.cutoffs - 25.0))
    warped = np.tan(np.pi * np.arange(0.0, 50.0, 0.05) / RATE) / np.tan(
        np.pi * found.cutoffs[k] / RATE
    )
    share = 1.0 - 1.0 / (1.0 + (np.sqrt(2.0) - 1.0) * warped**4)
    np.testing.assert_allclose(found.rms[:, k], size * np.sqrt(np.mean(share**2)), rtol=0.05)
    np.testing.assert_allclose(found.noise, size, rtol=0.25)
    assert (found.advised > 3.0).all() and (found.advised < 10.0).all()
    assert "median" in str(found) and "m1" in str(found)
    figure = found.plot()
    assert figure.axes[0].get_xlabel() == "cutoff [Hz]"
    words = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert any(word.startswith("used: 5.0 Hz takes off") for word in words)


def test_residuals_of_markers_that_were_smoothed_before():
    """No noise is left that a cutoff could take off."""
    markers = walking(1.8, noise=1e-3).smoothed(Butterworth(8.0, order=4))
    found = residual_analysis(markers)
    assert np.median(found.advised) == found.cutoffs[-1]
    assert "low-passed before" in str(found)
    assert "low-passed" not in str(residual_analysis(walking(1.8, noise=1e-3)))


def test_residuals_of_a_short_record():
    """0.9 s of a run: cutoffs begin where two periods fit."""
    markers = walking(2.8, noise=1e-3).between(1.0, 1.9)
    found = residual_analysis(markers)
    assert 2.0 / 0.92 < found.cutoffs[0] < 2.0 / 0.88
    assert 3.0 < np.median(found.advised) < 20.0


@pytest.mark.parametrize(
    "given, message",
    [
        (lambda: Butterworth(0.0), "cutoff of Butterworth must be positive"),
        (lambda: Butterworth(6.0, 0), "order of Butterworth must be at least 1"),
        (lambda: Butterworth(6.0, markers={"a": -1.0}), "cutoff of marker 'a' must be positive"),
        (lambda: Butterworth(60.0)(np.zeros(100), RATE), "half the sampling rate, got 60"),
        (lambda: Butterworth(6.0)(np.zeros(100), 0.0), "rate of a series must be positive"),
        (lambda: Butterworth(6.0)([0.0, np.nan] * 9, RATE), r"Butterworth .* at \(1,\) is nan"),
        (lambda: GCVSpline(4), "degree of a GCVSpline is 3 or 5, got 4"),
        (lambda: GCVSpline()(np.zeros(3), RATE), "at least 4 samples"),
        (lambda: residual_analysis(walking(1.8), cutoffs=[5.0, 6.0]), "at least 8 increasing"),
    ],
)
def test_errors(given, message):
    with pytest.raises(ValueError, match=message):
        given()
