"""Whipple's bicycle against the eigenvalues of its benchmark, and on its own wheels."""

import numpy as np
import pytest

import kinesym as ks
from kinesym.models import whipple_bicycle

#: Meijaard et al. 2007, table 2: by speed [m/s], weave (real and imaginary part), capsize and
#: castering [1/s]; at rest two pairs of real ones.
TABLE = {
    0: (3.13164324790656, -3.13164324790656, 5.53094371765393, -5.53094371765393),
    1: (3.52696170990070 + 0.80774027519930j, -3.13423125066578, -7.11008014637442),
    2: (2.68234517512745 + 1.68066296590675j, -3.07158645641514, -8.67387984831735),
    3: (1.70675605663975 + 2.31582447384325j, -2.63366137253667, -10.35101467245920),
    4: (0.41325331521125 + 3.07910818603206j, -1.42944427361326, -12.15861426576447),
    5: (-0.77534188219585 + 4.46486771378823j, -0.32286642900409, -14.07838969279822),
    6: (-1.52644486584142 + 5.87673060598709j, -0.00406690076970, -16.08537123098026),
    7: (-2.13875644258362 + 7.19525913329805j, 0.10268170574766, -18.15788466125262),
    8: (-2.69348683581097 + 8.46037971396931j, 0.14327879765713, -20.27940894394569),
    9: (-3.21675402252485 + 9.69377351531791j, 0.15790184030917, -22.43788559040858),
    10: (-3.72016840437287 + 10.90681139476287j, 0.16105338653172, -24.62459635017404),
}


@pytest.fixture(scope="module")
def bicycle():
    return whipple_bicycle().model(outputs=["energy"]).reduced_index(index=0)


def rolling(speed):
    """Upright, straight ahead."""
    wheels = {"rear_wheel_wy": speed / 0.3, "front_wheel_wy": speed / 0.35}
    return {"frame_pz": 0.3, "frame_vx": speed, **wheels}


@pytest.fixture(scope="module")
def functions(bicycle):
    return ks.compile(bicycle)


@pytest.mark.parametrize("speed", TABLE)
def test_eigenvalues_are_those_of_the_benchmark(bicycle, functions, speed):
    x = np.array([rolling(speed).get(name, 0.0) for name in bicycle.state_names])
    p = [bicycle.values[name] for name in bicycle.parameter_names]
    x_dot = functions.rhs(x, [], p)
    by_rate, by_state = (
        functions.jacobian(x_dot, x, [], p, wrt=group).reshape(len(x), -1)
        for group in ("derivatives", "states")
    )
    found = np.linalg.eigvals(-np.linalg.solve(by_rate, by_state))
    for value in TABLE[speed]:
        assert np.abs(found - value).min() < 1e-11 * abs(value) + 1e-11


def test_it_rides_by_itself_and_keeps_rolling(bicycle):
    """At 5 m/s it is stable: a push to the side dies out; for a minute no energy is lost."""
    first = dict.fromkeys(bicycle.state_names, 0.0) | rolling(5.0) | {"frame_wx": 0.3}
    free = [
        n for n in first if n not in ("frame_pz", "frame_y", "frame_vx", "frame_vy", "frame_vz")
    ]
    start = ks.consistent(bicycle, (0.0, 60.0), first, keep=free)
    time = np.linspace(0.0, 60.0, 601)
    run = ks.simulate(bicycle, time, start, method="dormand-prince", rtol=1e-11, atol=1e-11)
    energy = run["kinetic_energy"] + run["potential_energy"]
    assert np.ptp(energy) < 1e-9 * energy[0]
    for name in bicycle.invariants:
        assert np.abs(run[name]).max() < 1e-9
    assert np.abs(run["frame_x"][-100:]).max() < 1e-4 < np.abs(run["frame_x"]).max()
    assert np.hypot(run["frame_px"][-1], run["frame_py"][-1]) > 100.0


def test_a_tyre_of_finite_width_rolls_on_its_side():
    """Upright it is the knife edge; leaning by q about its lowest point, the centre is lower by
    (1 - cos q) of the inner radius only."""
    tyre = whipple_bicycle(crown=0.02)
    gap = next(c.expression for c in tyre.conditions if c.force.name == "rear_wheel_base_fz")
    program = dict(tyre.recursion.steps.definitions)
    numbers = {q: 0.0 for q in tyre.coordinates.values()}
    numbers[tyre.coordinates["frame_x"]] = 0.4
    numbers[tyre.coordinates["frame_pz"]] = 0.28 * np.cos(0.4) + 0.02
    while gap.free_symbols & program.keys():
        gap = gap.xreplace(program)
    assert abs(float(gap.xreplace(numbers).evalf())) < 1e-15
