"""The tuned pattern, checked by simulation and by finite differences."""

import numpy as np

import kinesym as ks
from kinesym.examples import fes_tuning as study


def test_gradient_of_the_peak():
    """Angle and time of the peak against central differences, in random directions."""
    rng = np.random.default_rng(3)
    q = np.concatenate([rng.uniform(0.2, 0.4, study.IMPULSES), rng.uniform(-0.5, 0.5, 16)])
    here = study.peak(q)
    for _ in range(2):
        way = rng.normal(size=len(q))
        ahead, behind = study.peak(q + 1e-4 * way), study.peak(q - 1e-4 * way)
        angle, time = (ahead.angle - behind.angle) / 2e-4, (ahead.time - behind.time) / 2e-4
        np.testing.assert_allclose(here.angle_slope @ way, angle, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(here.time_slope @ way, time, rtol=1e-5, atol=1e-6)


def test_tuned_peak():
    """Another simulation, at a tighter tolerance, peaks where it should, with less effort."""
    before, after, _ = study.tune()
    run = ks.simulate(study.HYBRID, **study.task(after, 151), rtol=1e-11, atol=1e-12)
    peak = run.happened("event", "peak")[0]
    assert abs(peak.after["theta"] - study.ANGLE) < 1e-5 and abs(peak.time - study.TIME) < 1e-5
    assert study.effort(after)[0] < study.effort(before)[0]
