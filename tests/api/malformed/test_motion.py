"""Motions of a base and loads of a support that cannot be."""

from functools import cache

import numpy as np
import pytest

import kinesym as ks
from kinesym.multibody import PrescribedBase

N = 12
TIME = np.linspace(0.0, 1.0, N)
ROWS = np.zeros((3, N))
SHIP = PrescribedBase("ship")
NAMES = ["ship_x", "ship_wx"]


def harmonics(omega=(1.0,), amplitude=((1.0,),) * 6, phase=(0.0,), **more):
    return ks.Motion.harmonics(omega, amplitude, phase, **more)


def samples(time=TIME, angles=ROWS, **more):
    return ks.Motion.samples(time, angles, **more)


def recording(**changes):
    given = {
        "time": TIME,
        "angles": ROWS,
        "rates": ROWS,
        "angular_accelerations": ROWS,
        "accelerations": ROWS,
        "acceleration": "imu",
    }
    return ks.Recording(**{**given, **changes})


@cache
def motion():
    return harmonics()


def support(**changes):
    given = {"front": 0.2, "back": 0.1, "left": 0.1, "right": 0.1, "friction": 0.5}
    return ks.Support(**{**given, **changes})


FORCE = np.array([np.zeros(N), np.zeros(N), np.ones(N)])


def interrupted(time=TIME, force=FORCE, moment=ROWS, on=None, **more):
    return ks.interruptions(time, force, moment, support() if on is None else on, **more)


MOTIONS = [
    (lambda: ks.Motion(None), "coordinates of a motion are a function", "None"),
    (lambda: ks.Motion("sine"), "coordinates of a motion are a function", "'sine'"),
    (lambda: ks.Motion(np.zeros((3, 6, 5))), "coordinates of a motion are a function", "array"),
    (lambda: ks.Motion(5), "coordinates of a motion are a function", "5"),
    (lambda: ks.Motion(np.sin, span=None), "span of a motion must be (begin, end)", "None"),
    (lambda: ks.Motion(np.sin, span=5.0), "span of a motion must be (begin, end)", "5.0"),
    (lambda: ks.Motion(np.sin, span=(1.0, 0.0)), "span of a motion", "(1.0, 0.0)"),
    (lambda: ks.Motion(np.sin, span=(0.0, np.nan)), "span of a motion", "nan"),
    (lambda: ks.Motion(np.sin, span=(0.0,)), "span of a motion must be (begin, end)"),
    (lambda: ks.Motion(np.sin, span=("a", "b")), "span of a motion", "'a'"),
    (lambda: ks.Motion(np.sin, sequence="xyx"), "sequence is one of", "'xyx'", "xyz"),
    (lambda: ks.Motion(np.sin, sequence=None), "sequence is one of", "None"),
    (lambda: ks.Motion(np.sin, sequence=5), "sequence is one of", "5"),
    (lambda: ks.Motion(np.sin, sequence=["x", "y", "z"]), "sequence is one of"),
    (
        lambda: ks.Motion(lambda t: None).kinematics(TIME),
        "coordinates of a motion must return",
        "()",
    ),
    (lambda: ks.Motion(lambda t: t).kinematics(TIME), "must return (3, 6, 12), got (12,)"),
    (lambda: ks.Motion(lambda t: "a").kinematics(TIME), "coordinates of a motion must return"),
    (lambda: harmonics(amplitude=np.ones((5, 1))), "must be (6, K)", "(5, 1)"),
    (lambda: harmonics(amplitude=1.0), "must be (6, K)", "()"),
    (lambda: harmonics(amplitude=None), "must be (6, K)", "()"),
    (lambda: harmonics(amplitude="big"), "amplitude", "text"),
    (lambda: harmonics(omega="fast"), "omega", "text"),
    (lambda: harmonics(omega=[1.0, 2.0]), "must be (6, K)", "(2,)"),
    (lambda: harmonics(omega=[np.nan]), "omega", "nan"),
    (lambda: harmonics(phase=[np.inf]), "phase", "inf"),
    (lambda: harmonics(phase=[1j]), "phase", "complex"),
    (lambda: harmonics(omega={}), "omega", "{}"),
    (lambda: harmonics(omega=[[1.0], [1.0, 2.0]]), "omega", "unequal"),
    (lambda: harmonics(sequence="abc"), "sequence is one of", "'abc'"),
    (lambda: samples(time=None), "time needs at least 2 instants"),
    (lambda: samples(time=TIME[:5], angles=ROWS[:, :5]), "at least 6 samples, got 5"),
    (lambda: samples(time=TIME[::-1]), "time must increase"),
    (lambda: samples(angles=None), "angles must be (3, 12)", "()"),
    (lambda: samples(angles=TIME), "angles must be (3, 12)", "(12,)"),
    (lambda: samples(angles=ROWS.T), "angles must be (3, 12)", "(12, 3)"),
    (lambda: samples(angles="ship"), "angles", "text"),
    (lambda: samples(angles=[["a"] * N] * 3), "angles", "text"),
    (lambda: samples(angles=[[1], [1, 2], [3]]), "angles", "unequal"),
    (lambda: samples(angles=ROWS + np.nan), "angles: 36 values are not finite"),
    (lambda: samples(angles=ROWS + 1j), "angles", "complex"),
    (lambda: samples(angles=np.array([4.0 * (TIME > 0.5)] * 3)), "jumps from 0 to 4", "unwrap"),
    (lambda: samples(place=TIME), "place must be (3, 12)"),
    (lambda: samples(place="origin"), "place", "text"),
    (lambda: samples(cutoff=1e9), "cutoff must lie between", "1000000000"),
    (lambda: samples(cutoff=0.0), "cutoff must lie between", "0"),
    (lambda: samples(cutoff=-1), "cutoff must lie between", "-1"),
    (lambda: samples(cutoff="low"), "cutoff", "'low'"),
    (lambda: samples(cutoff=[1.0]), "cutoff", "[1.0]"),
    (lambda: samples(cutoff=np.nan), "cutoff", "nan"),
    (lambda: samples(time=TIME**2, cutoff=4.0), "uniform samples"),
    (lambda: samples(sequence="xx"), "sequence is one of", "'xx'"),
    (lambda: motion().scaled(0.0), "scale of lengths must be positive", "0.0"),
    (lambda: motion().scaled(-1.0), "scale of lengths must be positive", "-1.0"),
    (lambda: motion().scaled("big"), "scale of lengths must be positive", "'big'"),
    (lambda: motion().scaled(None), "scale of lengths must be positive", "None"),
    (lambda: motion().scaled([2.0]), "scale of lengths must be positive", "[2.0]"),
    (lambda: motion().at(5.0), "three finite coordinates", "5.0"),
    (lambda: motion().at([1.0, 2.0]), "three finite coordinates", "[1.0, 2.0]"),
    (lambda: motion().at("deck"), "a point of the base", "'deck'"),
    (lambda: motion().at(None), "three finite coordinates", "None"),
    (lambda: motion().at([0.0, 0.0, np.nan]), "three finite coordinates", "nan"),
    (lambda: motion().at([0.0, 0.0, "z"]), "a point of the base", "text"),
    (lambda: motion().kinematics(None), "times must be finite numbers (n,)", "None"),
    (lambda: motion().kinematics("now"), "times", "'now'"),
    (lambda: motion().kinematics(1.0), "times must be finite numbers (n,)", "1.0"),
    (lambda: motion().kinematics([]), "times must be finite numbers (n,)", "[]"),
    (lambda: motion().kinematics([np.nan]), "times must be finite numbers (n,)", "nan"),
    (lambda: samples().kinematics([2.0]), "known for 0 ... 1 s", "2"),
    (lambda: motion().inputs(None, TIME, NAMES), "base None", "ship_x"),
    (lambda: motion().inputs(5, TIME, NAMES), "base 5", "ship_x"),
    (lambda: motion().inputs("boat", TIME, NAMES), "base 'boat'", "ship_x"),
    (lambda: motion().inputs("ship", TIME, []), "there are none"),
    (lambda: motion().inputs("ship", TIME, None), "names must be a list", "None"),
    (lambda: motion().inputs("ship", TIME, "ship_x"), "names must be a list", "'ship_x'"),
    (lambda: motion().inputs("ship", TIME, 5), "names must be a list", "5"),
    (lambda: motion().inputs("ship", TIME, [5]), "5 is neither a name nor a symbol"),
    (lambda: motion().inputs("ship", [1.0], NAMES), "at least 2 instants"),
    (lambda: motion().inputs("ship", TIME, NAMES, gravity=9.81), "gravity has three", "9.81"),
    (lambda: motion().inputs("ship", TIME, NAMES, gravity="down"), "gravity", "text"),
    (lambda: motion().inputs("ship", TIME, NAMES, gravity=(0, 0, np.nan)), "gravity", "finite"),
    (lambda: motion().inputs(PrescribedBase("ship", "zyx"), TIME, NAMES), "in the order zyx"),
]

RECORDINGS = [
    (lambda: recording(time=None), "time needs at least 2 instants"),
    (lambda: recording(time=TIME[::-1]), "time must increase"),
    (lambda: recording(angles=None), "angles must be (3, 12)", "()"),
    (lambda: recording(angles=ROWS[:2]), "angles must be (3, 12)", "(2, 12)"),
    (lambda: recording(angles="a"), "angles", "text"),
    (lambda: recording(rates=None), "rates must be (3, 12)", "()"),
    (lambda: recording(rates=ROWS + np.nan), "rates: 36 values are not finite"),
    (lambda: recording(rates="w"), "rates", "text"),
    (lambda: recording(angular_accelerations=5.0), "angular_accelerations must be (3, 12)"),
    (lambda: recording(accelerations=TIME), "accelerations must be (3, 12)", "(12,)"),
    (lambda: recording(acceleration=""), "say what the accelerations are"),
    (lambda: recording(acceleration=None), "say what the accelerations are"),
    (lambda: recording(acceleration="fast"), "acceleration is one of", "'fast'", "kinematic"),
    (lambda: recording(acceleration=5), "acceleration is one of", "5"),
    (lambda: recording(acceleration=["imu"]), "acceleration is one of"),
    (lambda: recording(acceleration="derivative"), "need velocities"),
    (lambda: recording(velocities="v"), "velocities", "text"),
    (lambda: recording(velocities=ROWS[:, :3]), "velocities must be (3, 12)", "(3, 3)"),
    (lambda: recording(sequence="abc"), "sequence is one of", "'abc'"),
    (lambda: recording(sequence=None), "sequence is one of", "None"),
    (lambda: recording(place=5.0), "place must be (3, 12)"),
    (lambda: recording().inputs("boat", TIME[:3], NAMES), "base 'boat'"),
    (lambda: recording().inputs("ship", TIME, None), "names must be a list", "None"),
    (lambda: recording().inputs("ship", TIME + 5.0, NAMES), "the record ends at 1 s"),
    (lambda: recording().inputs("ship", TIME, NAMES), "half steps are missing"),
    (lambda: recording().inputs("ship", TIME[::2], ["ship_vx"]), "which was not recorded"),
    (lambda: recording().inputs("ship", None, NAMES), "time needs at least 2 instants"),
    (lambda: recording().inputs("ship", TIME, NAMES, interpolate="yes"), "interpolate", "'yes'"),
]

SUPPORTS = [
    (lambda: support(front=0.0), "front of a support must be positive", "0.0"),
    (lambda: support(back=-0.1), "back of a support must be positive", "-0.1"),
    (lambda: support(left="a"), "left of a support must be positive", "'a'"),
    (lambda: support(right=None), "right of a support must be positive", "None"),
    (lambda: support(friction=np.nan), "friction of a support must be positive", "nan"),
    (lambda: support(front=[0.1]), "front of a support must be positive", "[0.1]"),
    (lambda: support(front=True), "front of a support must be positive", "True"),
    (lambda: ks.center_of_pressure(None, ROWS), "must be (3, N)", "()"),
    (lambda: ks.center_of_pressure("f", ROWS), "force", "text"),
    (lambda: ks.center_of_pressure(ROWS, "n"), "moment", "text"),
    (lambda: ks.center_of_pressure(ROWS, None), "must be (3, N)", "()"),
    (lambda: ks.center_of_pressure(ROWS, ROWS[:, :4]), "must be (3, N)", "(3, 4)"),
    (lambda: ks.center_of_pressure(ROWS[:2], ROWS[:2]), "must be (3, N)", "(2, 12)"),
    (lambda: ks.center_of_pressure([1.0, 2.0, 3.0], ROWS), "must be (3, N)", "(3,)"),
    (lambda: ks.center_of_pressure(ROWS + np.nan, ROWS), "the force is not finite", "sample 0"),
    (lambda: ks.center_of_pressure(ROWS, ROWS + 1j), "moment", "complex"),
    (lambda: ks.support_loads(ROWS, ROWS, None), "kinesym.Support", "None"),
    (lambda: ks.support_loads(ROWS, ROWS, "deck"), "kinesym.Support", "'deck'"),
    (lambda: ks.support_loads(None, ROWS, support()), "must be (3, N)"),
    (lambda: ks.support_loads("f", ROWS, support()), "force", "text"),
    (lambda: interrupted(time=None), "time needs at least 2 instants"),
    (lambda: interrupted(time=TIME[:4]), "time has shape (4,)", "(3, 12)"),
    (lambda: interrupted(time=TIME[::-1]), "time must increase"),
    (lambda: interrupted(force=None), "expected (3, N)"),
    (lambda: interrupted(force="f"), "force ()", "expected (3, N)"),
    (lambda: interrupted(force=5.0), "expected (3, N)"),
    (lambda: interrupted(moment=ROWS + np.inf), "the moment is not finite"),
    (lambda: interrupted(moment=None), "must be (3, N)"),
    (lambda: interrupted(on=5), "kinesym.Support", "5"),
    (lambda: interrupted(on=support), "kinesym.Support", "function"),
    (lambda: interrupted(gap=-1.0), "gap must not be negative", "-1.0"),
    (lambda: interrupted(gap="short"), "gap", "'short'"),
    (lambda: interrupted(gap=None), "gap", "None"),
    (lambda: interrupted(gap=np.nan), "gap", "nan"),
]

#: A support is of the domain.
OF_GAIT = [pytest.param(row, marks=pytest.mark.domain) for row in SUPPORTS]
REFUSED = [*MOTIONS, *RECORDINGS, *OF_GAIT]

WARNED = [
    (lambda: samples(angles=ROWS + 90.0), "90 rad", "degrees"),
    (lambda: recording(rates=ROWS + 1.0), "the angular velocity differs"),
]


@pytest.mark.parametrize("row", REFUSED)
def test_refused(refused, row):
    refused(*row)


@pytest.mark.parametrize("row", WARNED)
def test_warned(warned, row):
    warned(*row)
