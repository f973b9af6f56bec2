"""Gait analysis of what cannot be."""

from functools import cache

import numpy as np
import pytest

import kinesym as ks
from kinesym import gait as kg

N = 60
TIME = np.arange(N) / 100.0
ROWS = np.zeros((3, N))
UP = np.array([0.0 * TIME, 0.0 * TIME, 700.0 + 0.0 * TIME])


@cache
def person():
    return kg.segments_of_body()


@cache
def man():
    return kg.Body()


def segment(**changes):
    given = {
        "name": "a",
        "proximal": "J1",
        "mass": 1.0,
        "com": (0, 0, 0),
        "inertia": (1, 1, 1),
        "points": {"A": (0, 0, 1)},
        "basis_point": "A",
    }
    return kg.Segment(**{**given, **changes})


def planar(**changes):
    given = {
        "name": "a",
        "proximal": "hip",
        "mass": 1.0,
        "com": (0, 0),
        "inertia": 1.0,
        "points": {"A": (0, 1)},
    }
    return kg.PlanarSegment(**{**given, **changes})


def wrench(time=TIME, force=UP, moment=ROWS):
    return kg.Wrench(time, force, moment)


def markers(time=TIME, positions=None):
    return kg.Markers(time, {"R.Heel": ROWS} if positions is None else positions)


def spline(values=ROWS, time=TIME, **more):
    return kg.Spline.through(time, values, **more)


def contacts():
    return [kg.Contact("right", 0.0, 0.3), kg.Contact("left", 0.2, 0.5)]


def shared(total=None, on=None, **more):
    given = wrench() if total is None else total
    return kg.share(given, contacts() if on is None else on, **more)


def plates(of=None, feet=None, time=TIME, **more):
    given = {"one": wrench()} if of is None else of
    return kg.assign_plates(given, time, {"right": (ROWS, ROWS)} if feet is None else feet, **more)


def constrained(**changes):
    """A particle on a line."""
    given = {
        "mass_matrix": np.eye(2),
        "forces": lambda q, qd, t: np.zeros(2),
        "constraints": lambda q, t: q[:1],
        "jacobian": lambda q, t: np.array([[1.0, 0.0]]),
        "velocity_terms": lambda q, t: np.zeros(1),
        "acceleration_terms": lambda q, qd, t: np.zeros(1),
    }
    return kg.ConstrainedSystem(**{**given, **changes})


RELATIONS = kg.Relations({"J1": "R.Heel"}, {})

BODIES = [
    (lambda: kg.segments_of_body(mass="80"), "mass must be a finite number", "'80'"),
    (lambda: kg.segments_of_body(mass=None), "mass must be a finite number", "None"),
    (lambda: kg.segments_of_body(mass=-80.0), "mass and stature must be positive", "-80"),
    (lambda: kg.segments_of_body(stature=0.0), "mass and stature must be positive", "0.0"),
    (lambda: kg.segments_of_body(stature=np.nan), "stature must be a finite number", "nan"),
    (lambda: kg.segments_of_body(stature=182), "stature is in metres", "182"),
    (lambda: segment(name=""), "name of a segment", "''"),
    (lambda: segment(name=5), "name of a segment", "5"),
    (lambda: segment(proximal=None), "segment 'a': proximal", "None"),
    (lambda: segment(mass=-1.0), "segment 'a': mass must not be negative", "-1.0"),
    (lambda: segment(mass="1"), "segment 'a': mass", "'1'"),
    (lambda: segment(mass=None), "segment 'a': mass", "None"),
    (lambda: segment(mass=np.nan), "segment 'a': mass", "nan"),
    (lambda: segment(com=5.0), "segment 'a': com must be three finite numbers", "5.0"),
    (lambda: segment(com=(0, 0)), "segment 'a': com must be three finite numbers", "(0, 0)"),
    (lambda: segment(com="abc"), "segment 'a': com must be three finite numbers", "'abc'"),
    (lambda: segment(com=None), "segment 'a': com must be three finite numbers", "None"),
    (lambda: segment(com=(0, 0, np.nan)), "segment 'a': com must be three finite numbers"),
    (lambda: segment(inertia=(1, 1, 5)), "segment 'a': no body", "inertia 1, 1, 5"),
    (lambda: segment(inertia=1.0), "segment 'a': inertia must be three finite numbers", "1.0"),
    (lambda: segment(inertia=None), "segment 'a': inertia must be three finite numbers", "None"),
    (lambda: segment(points=[("A", (0, 0, 1))]), "segment 'a': points must be a mapping"),
    (lambda: segment(points=None), "segment 'a': points must be a mapping", "None"),
    (lambda: segment(points={"A": 1.0}), "segment 'a': point 'A'", "1.0"),
    (lambda: kg.segments_with(person(), masses={"zz": 1.0}), "no segment 'zz'"),
    (lambda: kg.segments_with(person(), masses={"Rthigh": "8"}), "Rthigh", "mass", "'8'"),
    (lambda: kg.segments_with(person(), masses={"Rthigh": -8.0}), "mass must not be negative"),
    (lambda: kg.segments_with(person(), masses=5), "masses must be a mapping", "5"),
    (lambda: kg.segments_with(person(), points={"zz": (0, 0, 0)}), "point 'zz'"),
    (lambda: kg.segments_with(person(), points=5), "points must be a mapping", "5"),
    (lambda: kg.segments_with(person(), coms=[1.0]), "coms must be a mapping"),
    (lambda: kg.segments_with(None), "segments must be a list of Segment", "None"),
    (lambda: kg.segments_with("man"), "segments must be a list of Segment", "'man'"),
    (lambda: kg.segments_with([5]), "segments must be a list of Segment", "5"),
    (lambda: kg.check_mass(None, 80.0), "segments must be a list", "None"),
    (lambda: kg.check_mass(person(), None), "mass", "None"),
    (lambda: kg.check_mass(person(), "80"), "mass", "'80'"),
    (lambda: kg.whole_body("man"), "segments must be a list of Segment", "'man'"),
    (lambda: kg.whole_body([5]), "segments must be a list of Segment", "5"),
    (lambda: kg.whole_body([segment(proximal="Z")]), "proximal point 'Z' is not defined"),
    (lambda: kg.whole_body(5), "segments must be a list of Segment", "5"),
    (lambda: planar(name=None), "name of a segment", "None"),
    (lambda: planar(mass=-1), "segment 'a': mass must not be negative", "-1"),
    (lambda: planar(mass="1"), "segment 'a': mass", "'1'"),
    (lambda: planar(inertia=None), "segment 'a': inertia", "None"),
    (lambda: planar(inertia=-1.0), "segment 'a': inertia must not be negative", "-1.0"),
    (lambda: planar(com=(0, 0, 0)), "segment 'a': com must be two finite numbers"),
    (lambda: planar(com="ab"), "segment 'a': com must be two finite numbers", "'ab'"),
    (lambda: planar(com=5), "segment 'a': com must be two finite numbers", "5"),
    (lambda: planar(points=None), "segment 'a': points must be a mapping", "None"),
    (lambda: planar(points={"A": None}), "segment 'a': point 'A'", "None"),
    (lambda: kg.planar_segments(count=9), "7 and 11 segments", "not of 9"),
    (lambda: kg.planar_segments(count="7"), "7 and 11 segments", "'7'"),
    (lambda: kg.planar_segments(count=[7]), "7 and 11 segments", "[7]"),
    (lambda: kg.planar_segments(mass="80"), "mass must be a finite number", "'80'"),
    (lambda: kg.planar_segments(segments=5), "segments must be a list of Segment", "5"),
    (lambda: kg.planar_segments(segments=[segment()]), "is not in the table"),
    (lambda: kg.planar_body(5), "segments must be a list of PlanarSegment", "5"),
    (lambda: kg.planar_body([segment()]), "segments must be a list of PlanarSegment"),
    (lambda: kg.planar_body([planar(proximal="Z")]), "proximal point 'Z' is not defined"),
    (lambda: kg.Body(segments=None), "segments must be a list of Segment", "None"),
    (lambda: kg.Body(segments="man"), "segments must be a list of Segment", "'man'"),
    (lambda: kg.Body(segments=[5]), "segments must be a list of Segment", "5"),
    (lambda: kg.Body(segments=[]), "at least one segment"),
    (lambda: kg.Body(mass="80"), "mass", "'80'"),
    (lambda: kg.Body(mass=-80.0), "mass", "-80.0"),
    (lambda: kg.Body(mass=np.nan), "mass", "nan"),
    (lambda: kg.Body(joints=["hip"]), "joints must be a mapping", "['hip']"),
    (lambda: kg.Body(joints=None), "joints must be a mapping", "None"),
    (lambda: kg.Body(joints={"hip": "zz"}), "joint 'hip': there is no segment 'zz'"),
    (lambda: kg.Body(joints={"hip": 5}), "joint 'hip': there is no segment 5"),
    (lambda: kg.Body(feet=5), "feet must be a mapping", "5"),
    (lambda: kg.Body(feet={"right": "Rhindfoot"}), "foot 'right'", "two segments", "'Rhindfoot'"),
    (lambda: kg.Body(feet={"right": ("a", "b", "c")}), "foot 'right'", "two segments"),
    (lambda: kg.Body(feet={"right": ("Rhindfoot", "zz")}), "foot 'right'", "'zz'"),
    (lambda: man().inverse(None), "the motion at instants", "None"),
    (lambda: man().inverse(spline()), "the motion at instants"),
    (lambda: man().inverse(spline().sample(TIME[10:20])), "3 coordinates, this body 57"),
    (lambda: man().forward(None, TIME), "a Spline", "None"),
    (lambda: man().forward("walk", TIME), "a Spline", "'walk'"),
    (lambda: man().forward(spline(), TIME, control="PD"), "control is None or PD(...)", "'PD'"),
    (lambda: man().forward(spline(), TIME**2), "equal steps"),
    (lambda: man().forward(spline(), TIME[10:20]), "3 coordinates, this body 57"),
    (lambda: man().forward(spline(), None), "time needs at least 2 instants"),
    (
        lambda: man().forward(spline(), TIME[10:20], method="euler"),
        "method is one of",
        "'euler'",
    ),
    (lambda: kg.NaturalBody(None), "segments must be a list", "None"),
    (lambda: kg.NaturalBody([5]), "segments must be a list", "5"),
    (lambda: kg.NaturalBody(person(), variant="best"), "variant is one of", "'best'"),
    (lambda: kg.NaturalBody(person(), root="Z"), "proximal point 'J1' is not defined"),
    (lambda: kg.NaturalBody(person(), gravity=9.81), "gravity", "9.81"),
    (lambda: kg.NaturalBody(person()).kinematics(5, 5, 5), "(57, instants)", "()"),
    (lambda: kg.NaturalBody(person()).kinematics("z", "z", "z"), "z", "text"),
    (lambda: kg.NaturalBody(person()).projection([1.0]), "(57, instants)"),
    (lambda: kg.PlanarBody(None), "segments must be a list", "None"),
    (lambda: kg.PlanarBody([5]), "segments must be a list", "5"),
    (lambda: kg.PlanarBody(kg.planar_segments(), gravity=9.81), "gravity", "9.81"),
    (lambda: kg.PlanarBody([planar(points={})]), "its first point must lie apart"),
    (lambda: kg.PlanarBody(kg.planar_segments()).kinematics(5, 5, 5), "(9, instants)", "()"),
]

SYSTEMS = [
    (lambda: constrained(mass_matrix=None), "mass matrix must be (n, n)", "()"),
    (lambda: constrained(mass_matrix="M"), "mass matrix", "text"),
    (lambda: constrained(mass_matrix=np.ones((2, 3))), "mass matrix must be (n, n)", "(2, 3)"),
    (lambda: constrained(forces=None), "forces is a function", "None"),
    (lambda: constrained(jacobian=np.eye(2)), "jacobian is a function", "array"),
    (lambda: constrained().simulate(None, [0, 0], [0, 0]), "time needs at least 2 instants"),
    (lambda: constrained().simulate(TIME, "q", [0, 0]), "q must be real numbers", "text"),
    (lambda: constrained().simulate(TIME, [0.0], [0, 0]), "q has shape (1,), expected (2,)"),
    (lambda: constrained().simulate(TIME, [0, 0], [0.0]), "qd has shape (1,), expected (2,)"),
    (lambda: constrained().simulate(TIME, [0, np.nan], [0, 0]), "q", "finite"),
    (lambda: constrained().simulate(TIME, [0, 0], [0, 0], substeps=0), "substeps", "0"),
    (lambda: constrained().simulate(TIME, [0, 0], [0, 0], substeps="two"), "substeps", "'two'"),
    (lambda: kg.Samples(None, None, None, None), "time", "()"),
    (lambda: kg.Samples(TIME, ROWS, ROWS, ROWS[:2]), "(3, 60)", "(2, 60)"),
    (lambda: kg.Samples(TIME, "z", ROWS, ROWS), "z", "text"),
    (lambda: kg.Trial(5), "markers of a trial must be a mapping", "5"),
    (lambda: kg.Trial({"a": ROWS}, calibration=5), "calibration of a trial", "5"),
    (lambda: kg.Like(5), "Like", "5"),
]

SIGNALS = [
    (lambda: markers(time=None), "time needs at least 2 instants", "()"),
    (lambda: markers(time="abc"), "time", "text"),
    (lambda: markers(time=[0.0]), "marker 'R.Heel' must be (3, 1)"),
    (lambda: markers(time=TIME**2), "time is not uniform"),
    (lambda: markers(time=TIME * np.nan), "time is not finite at index 0"),
    (lambda: markers(positions={}), "there are no markers"),
    (lambda: kg.Markers(TIME, None), "positions must be a mapping", "None"),
    (lambda: markers(positions=[ROWS]), "positions must be a mapping"),
    (lambda: markers(positions=ROWS), "positions must be a mapping"),
    (lambda: markers(positions={"a": None}), "marker 'a' must be (3, 60)", "()"),
    (lambda: markers(positions={"a": TIME}), "marker 'a' must be (3, 60)", "(60,)"),
    (lambda: markers(positions={"a": "x"}), "marker 'a'", "text"),
    (lambda: markers(positions={"a": ROWS + 1j}), "marker 'a'", "complex"),
    (lambda: markers(positions={"a": ROWS + np.inf}), "marker 'a' is infinite"),
    (lambda: markers(positions={"a": ROWS + 900.0}), "look like millimetres", "900"),
    (lambda: markers(positions={5: ROWS}), "name of a marker", "5"),
    (lambda: markers(positions={"": ROWS}), "name of a marker", "''"),
    (lambda: markers()["L.Heel"], "no marker 'L.Heel'", "R.Heel"),
    (lambda: markers()[5], "no marker 5"),
    (lambda: markers()[["R.Heel"]], "no marker ['R.Heel']"),
    (lambda: markers().between(2.0, 3.0), "fewer than two samples are between 2 and 3 s"),
    (lambda: markers().between(0.3, 0.1), "fewer than two samples"),
    (lambda: markers().between("a", "b"), "begin", "'a'"),
    (lambda: markers().between(None, 0.3), "begin", "None"),
    (lambda: markers().without("zz"), "no marker 'zz'"),
    (lambda: markers().without("R.Heel"), "there are no markers"),
    (lambda: markers().without(5), "no marker 5"),
    (lambda: markers().renamed({"zz": "a"}), "no marker 'zz'"),
    (lambda: markers().renamed(5), "new names must be a mapping", "5"),
    (lambda: markers().renamed({"R.Heel": 5}), "name of a marker", "5"),
    (lambda: markers().exchanged("X.", "Y."), "no marker begins with 'X.' or 'Y.'"),
    (lambda: markers().exchanged(1, 2), "beginning", "1"),
    (lambda: markers().filled("long"), "longest", "'long'"),
    (lambda: markers().filled(None), "longest", "None"),
    (lambda: markers().filled(-1.0), "longest", "-1.0"),
    (lambda: markers().smoothed(None), "smooth", "function", "None"),
    (lambda: markers().smoothed("SSA"), "smooth", "function", "'SSA'"),
    (lambda: markers().smoothed(lambda x, rate: 5), "must be (3, 60)"),
    (lambda: markers().plot(["zz"]), "no marker 'zz'"),
    (lambda: markers().plot("R.Heel"), "names must be a list", "'R.Heel'"),
    (lambda: kg.SSA(window=1), "window of SSA", "1"),
    (lambda: kg.SSA(window="half"), "window of SSA", "'half'"),
    (lambda: kg.SSA(window=-0.5), "window of SSA", "-0.5"),
    (lambda: kg.SSA(window=np.nan), "window of SSA", "nan"),
    (lambda: kg.SSA(rank=0), "rank of SSA must be at least 1", "0"),
    (lambda: kg.SSA(rank=2.5), "rank of SSA", "2.5"),
    (lambda: kg.SSA(rank="two"), "rank of SSA", "'two'"),
    (lambda: kg.SSA(rank=True), "rank of SSA", "True"),
    (lambda: kg.SSA(share=1.5), "share SSA may leave out", "1.5"),
    (lambda: kg.SSA(share="all"), "share SSA may leave out", "'all'"),
    (lambda: kg.SSA(share=None), "share SSA may leave out", "None"),
    (lambda: kg.SSA(noise=-1.0), "noise SSA may leave out", "-1.0"),
    (lambda: kg.SSA(noise="low"), "noise SSA may leave out", "'low'"),
    (lambda: kg.SSA(rank=2, noise=1e-3), "either rank=... or noise=..."),
    (lambda: kg.SSA()(None), "SSA needs series", "()"),
    (lambda: kg.SSA()("abc"), "series", "text"),
    (lambda: kg.SSA()([1.0, 2.0]), "at least 4 samples", "(2,)"),
    (lambda: kg.SSA()(TIME * np.nan), "SSA needs finite values"),
    (lambda: kg.SSA()(TIME, "fast"), "rate", "'fast'"),
    (lambda: kg.SSA()(TIME, -100.0), "rate", "-100.0"),
    (lambda: kg.SSA(window=50)(TIME), "SSA window 50", "30"),
    (lambda: kg.SSA(window=10, rank=20)(TIME), "cannot keep 20 components"),
    (lambda: spline(None), "values must be (g, 60)", "()"),
    (lambda: spline(TIME), "values must be (g, 60)", "(60,)"),
    (lambda: spline("abc"), "values", "text"),
    (lambda: spline(ROWS + np.nan), "series 0 is nan"),
    (lambda: spline(time=None), "time needs at least 2 instants"),
    (lambda: spline(degree=2), "degree of the splines must be 3, 4 or 5", "2"),
    (lambda: spline(degree="five"), "degree of the splines must be 3, 4 or 5", "'five'"),
    (lambda: spline(degree=None), "degree of the splines must be 3, 4 or 5", "None"),
    (lambda: spline(trim=40), "of 60 samples 40 cannot be left out"),
    (lambda: spline(trim="few"), "trim", "'few'"),
    (lambda: spline(trim=2.5), "trim", "2.5"),
    (lambda: spline(trim=-1), "-1"),
    (lambda: spline().sample(None), "times must be finite numbers (n,)", "None"),
    (lambda: spline().sample("now"), "times", "'now'"),
    (lambda: spline().sample(0.3), "times must be finite numbers (n,)", "0.3"),
    (lambda: spline().sample([9.0]), "the spline is known for"),
    (lambda: spline().sample([np.nan]), "times must be finite numbers"),
    (lambda: spline().grid(0.0), "step must be positive", "0.0"),
    (lambda: spline().grid("fine"), "step must be positive", "'fine'"),
    (lambda: spline().grid(None), "step must be positive", "None"),
    (lambda: kg.PD(stiffness=-1.0), "gains of a PD controller must not be negative"),
    (lambda: kg.PD(stiffness="hard"), "stiffness", "text"),
    (lambda: kg.PD(stiffness=np.nan), "gains of a PD controller"),
    (lambda: kg.PD(stiffness=None), "gains of a PD controller"),
    (lambda: kg.PD(Td=-1.0), "derivative time must not be negative", "-1.0"),
    (lambda: kg.PD(Td="a"), "derivative time", "'a'"),
    (lambda: kg.PD(Td=None), "derivative time", "None"),
    (lambda: kg.PD(root_mass="big"), "root_mass", "'big'"),
    (lambda: kg.PD(root_mass=-1.0), "root_mass", "-1.0"),
    (lambda: kg.PD(sampled="yes"), "sampled is True or False", "'yes'"),
    (lambda: kg.PD(stiffness=[1.0, 2.0]).gains(person()), "or 57", "(2,)"),
    (lambda: kg.PD().gains(None), "segments must be a list", "None"),
]

FORCES = [
    (lambda: wrench(time=None), "time needs at least 2 instants"),
    (lambda: wrench(time=TIME[::-1]), "time must increase"),
    (lambda: wrench(force=None), "force must be (3, 60)", "()"),
    (lambda: wrench(force=TIME), "force must be (3, 60)", "(60,)"),
    (lambda: wrench(force="F"), "force", "text"),
    (lambda: wrench(force=UP * np.nan), "force: 180 values are not finite"),
    (lambda: wrench(moment="M"), "moment", "text"),
    (lambda: wrench(moment=ROWS + 1j), "moment", "complex"),
    (lambda: wrench(moment=ROWS[:, :4]), "moment must be (3, 60)", "(3, 4)"),
    (lambda: kg.Wrench.zero(None), "time needs at least 2 instants"),
    (lambda: kg.Wrench.zero([0.0]), "at least 2 instants"),
    (lambda: kg.Wrench.at_cop(TIME, -UP, ROWS), "the load, not the reaction", "-700"),
    (lambda: kg.Wrench.at_cop(TIME, UP, ROWS + np.nan), "centre of pressure is missing"),
    (lambda: kg.Wrench.at_cop(TIME, UP, "cop"), "cop", "text"),
    (lambda: kg.Wrench.at_cop(TIME, UP, ROWS, "free"), "free_moment", "text"),
    (lambda: kg.Wrench.at_cop(TIME, UP, ROWS, [1.0]), "free_moment"),
    (lambda: kg.Wrench.at_cop(TIME, UP, ROWS, threshold="low"), "threshold", "'low'"),
    (lambda: kg.Wrench.at_cop(TIME, UP, None), "cop must be (3, 60)", "()"),
    (lambda: wrench().about(5.0), "a point must be (3,)", "()"),
    (lambda: wrench().about("ankle"), "a point", "text"),
    (lambda: wrench().about(None), "a point must be (3,)", "()"),
    (lambda: wrench().cop("floor"), "height", "'floor'"),
    (lambda: wrench().cop(None), "height", "None"),
    (lambda: wrench().cop(threshold="low"), "threshold", "'low'"),
    (lambda: wrench().at([5.0, 6.0]), "needed for 5 ... 6 s"),
    (lambda: wrench().at(None), "time needs at least 2 instants"),
    (lambda: wrench().smoothed("low"), "cutoff", "'low'"),
    (lambda: wrench().smoothed(1e9), "cutoff must lie between"),
    (lambda: wrench().smoothed(None), "cutoff", "None"),
    (lambda: wrench() + 5, "kinesym.gait.Wrench", "5"),
    (lambda: wrench() - None, "kinesym.gait.Wrench", "None"),
    (lambda: wrench() + wrench(TIME + 1.0), "different times"),
    (lambda: wrench().scaled("big"), "scaled", "text"),
    (lambda: wrench().scaled([1.0, 2.0]), "scaled by a number", "(2,)"),
    (lambda: wrench().scaled(None), "not finite"),
    (lambda: kg.Contact("right", 1.0, 0.0), "'right'", "from 1.0 to 0.0 s"),
    (lambda: kg.Contact("right", "a", 1.0), "'right'", "'a'"),
    (lambda: kg.Contact("right", None, 1.0), "'right'", "None"),
    (lambda: kg.Contact("right", 0.0, np.nan), "'right'", "nan"),
    (lambda: kg.Contact(5, 0.0, 1.0), "foot", "5"),
    (lambda: kg.Contact("", 0.0, 1.0), "foot", "''"),
    (lambda: kg.contacts_from_wrench("right", None), "kinesym.gait.Wrench", "None"),
    (lambda: kg.contacts_from_wrench("right", UP), "kinesym.gait.Wrench", "array"),
    (lambda: kg.contacts_from_wrench("right", wrench(), threshold=0.0), "threshold", "0.0"),
    (lambda: kg.contacts_from_wrench("right", wrench(), threshold="a"), "threshold", "'a'"),
    (lambda: kg.contacts_from_wrench("right", wrench(), shortest="a"), "shortest", "'a'"),
    (lambda: kg.contacts_from_wrench("right", wrench(force=-UP)), "the load, not the reaction"),
    (lambda: kg.contacts_from_wrench(None, wrench()), "foot", "None"),
    (lambda: kg.contacts_from_markers("right", TIME, ROWS, ROWS), "makes no step"),
    (lambda: kg.contacts_from_markers("right", TIME, None, ROWS), "heel must be (3, 60)"),
    (lambda: kg.contacts_from_markers("right", TIME, "a", ROWS), "heel", "text"),
    (
        lambda: kg.contacts_from_markers("right", None, ROWS, ROWS),
        "time needs at least 2 instants",
    ),
    (
        lambda: kg.contacts_from_markers("right", TIME, ROWS, ROWS + np.nan),
        "toe: 180 values are not finite",
    ),
    (lambda: kg.contacts_from_markers("right", TIME, ROWS, ROWS, cutoff="a"), "cutoff", "'a'"),
    (lambda: kg.completed(None, []), "contacts must be a list of Contact", "None"),
    (lambda: kg.completed([5], []), "contacts must be a list of Contact", "5"),
    (lambda: kg.completed([], 5), "contacts must be a list of Contact", "5"),
    (lambda: kg.gait_cycle(None), "contacts must be a list of Contact", "None"),
    (lambda: kg.gait_cycle("walk"), "contacts must be a list of Contact", "'walk'"),
    (lambda: kg.gait_cycle([5]), "contacts must be a list of Contact", "5"),
    (lambda: kg.gait_cycle([]), "a cycle needs two heel strikes of 'right'"),
    (lambda: kg.gait_cycle(contacts(), foot="middle"), "two heel strikes of 'middle'"),
    (lambda: kg.gait_cycle(contacts(), begin="start"), "begin", "'start'"),
    (lambda: plates(of={}), "at least one plate and one foot"),
    (lambda: plates(feet={}), "at least one plate and one foot"),
    (lambda: plates(of=[wrench()]), "plates must be a mapping"),
    (lambda: plates(of={"one": UP}), "kinesym.gait.Wrench"),
    (lambda: plates(feet=[ROWS]), "feet must be a mapping"),
    (lambda: plates(feet={"right": ROWS}), "foot 'right'", "heel and toe"),
    (lambda: plates(feet={"right": None}), "foot 'right'", "heel and toe"),
    (lambda: plates(feet={"right": (ROWS, "toe")}), "toe of 'right'", "text"),
    (lambda: plates(time=None), "time needs at least 2 instants"),
    (lambda: plates(near="far"), "near", "'far'"),
    (lambda: plates(threshold=None), "threshold", "None"),
    (lambda: plates(height="low"), "height", "'low'"),
    (lambda: kg.share(None, contacts()), "kinesym.gait.Wrench", "None"),
    (lambda: kg.share(UP, contacts()), "kinesym.gait.Wrench", "array"),
    (lambda: kg.share(wrench(), None), "contacts must be a list of Contact", "None"),
    (lambda: shared(on="right"), "contacts must be a list of Contact", "'right'"),
    (lambda: shared(on=[5]), "contacts must be a list of Contact", "5"),
    (lambda: shared(on=[]), "there is no contact"),
    (lambda: shared(method="half"), "method is CorrectedForcePlates()", "'half'"),
    (lambda: shared(method=kg.SmoothTransition), "method is CorrectedForcePlates()"),
    (lambda: shared(weight=-1.0), "weight of the body must be positive", "-1"),
    (lambda: shared(weight="700"), "weight of the body", "'700'"),
    (lambda: shared(flight="none"), "flight", "'none'"),
    (lambda: shared(flight=-1), "flight", "-1"),
    (lambda: shared(plates=5), "plates must be a mapping", "5"),
    (lambda: shared(plates={"right": 5}), "kinesym.gait.Wrench", "5"),
    (lambda: shared(plates={"middle": wrench()}), "middle"),
    (lambda: kg.CorrectedForcePlates(ramp="steep"), "ramp is one of linear", "got 'steep'"),
    (lambda: kg.CorrectedForcePlates(ramp=None), "ramp is one of linear", "got None"),
    (lambda: kg.SmoothTransition(height="low"), "height", "'low'"),
    (lambda: kg.SmoothTransition(height=np.nan), "height", "nan"),
    (lambda: kg.LeastCorrection(weights=5), "weights must be a mapping", "5"),
    (lambda: kg.LeastCorrection(weights={"right": -1.0}), "weight of 'right'", "-1.0"),
    (lambda: kg.LeastCorrection(weights={"right": "a"}), "weight of 'right'", "'a'"),
]

RECONSTRUCTED = [
    (lambda: kg.Midpoint("A"), "Midpoint needs a list of positions", "'A'"),
    (lambda: kg.Midpoint(None), "Midpoint needs a list of positions", "None"),
    (lambda: kg.Midpoint(5), "Midpoint needs a list of positions", "5"),
    (lambda: kg.Midpoint([]), "Midpoint needs a list of positions", "[]"),
    (lambda: kg.Midpoint([5]), "a position is", "5"),
    (lambda: kg.Axes("x"), "axes need two directions"),
    (lambda: kg.Axes("w", x="up", y=("A", "B")), "axes need two directions"),
    (lambda: kg.Axes(None, x="up", y=("A", "B")), "axes need two directions"),
    (lambda: kg.Axes("x", x="down", y=("A", "B")), "a direction is", "'down'"),
    (lambda: kg.Axes("x", x=("A",), y=("A", "B")), "a direction is", "('A',)"),
    (lambda: kg.Axes("x", x=5, y=("A", "B")), "a direction is", "5"),
    (lambda: kg.Carried("A", ["m1", "m2"]), "at least three markers"),
    (lambda: kg.Carried("A", "abc"), "cluster", "list", "'abc'"),
    (lambda: kg.Carried("A", None), "cluster", "None"),
    (lambda: kg.Shifted("A", 5.0, kg.Like("s")), "three", "5.0"),
    (lambda: kg.Shifted("A", "abc", kg.Like("s")), "the vector of a shift", "text"),
    (lambda: kg.Shifted("A", (0, 0, 1), "s"), "axes", "'s'"),
    (lambda: kg.Shifted(5, (0, 0, 1), kg.Like("s")), "a position is", "5"),
    (lambda: kg.Relations(points=5), "points must be a mapping", "5"),
    (lambda: kg.Relations(points={"A": 5}), "point 'A'", "a position is", "5"),
    (lambda: kg.Relations(axes=["s"]), "axes must be a mapping"),
    (lambda: kg.Relations(axes={"s": "up"}), "segment 's'", "'up'"),
    (lambda: kg.landmarks(None, kg.Trial({"R.Heel": ROWS})), "kinesym.gait.Relations", "None"),
    (lambda: kg.landmarks(RELATIONS, None), "kinesym.gait.Trial", "None"),
    (lambda: kg.landmarks(RELATIONS, kg.Trial({"a": ROWS})), "marker 'R.Heel' is not in the trial"),
    (lambda: kg.reconstruct(person(), RELATIONS, None), "kinesym.gait.Markers", "None"),
    (lambda: kg.reconstruct(person(), RELATIONS, {"R.Heel": ROWS}), "kinesym.gait.Markers"),
    (lambda: kg.reconstruct(None, RELATIONS, markers()), "segments must be a list", "None"),
    (lambda: kg.reconstruct(person(), None, markers()), "kinesym.gait.Relations", "None"),
    (lambda: kg.reconstruct(person(), {"J1": "R.Heel"}, markers()), "kinesym.gait.Relations"),
    (lambda: kg.reconstruct(person(), RELATIONS, markers(), calibration=5), "calibration", "5"),
    (lambda: kg.reconstruct(person(), RELATIONS, markers(), smooth="SSA"), "smooth", "'SSA'"),
    (lambda: kg.reconstruct(person(), RELATIONS, markers(), again="SSA"), "again", "'SSA'"),
    (lambda: kg.reconstruct(person(), RELATIONS, markers(), smooth=-5), "cutoff", "-5"),
    (lambda: kg.joint_torques(None, None), "loads must be a mapping", "None"),
    (lambda: kg.joint_torques({}, None), "kinesym.gait.Cycle", "None"),
    (lambda: kg.joint_torques({"a": 5}, kg.Cycle(0.0, 1.0, 1.1, ())), "JointLoads", "5"),
    (lambda: kg.flexion_angles(None, kg.Cycle(0.0, 1.0, 1.1, ()), {}), "walks must be", "None"),
    (lambda: kg.flexion_angles({}, kg.Cycle(0.0, 1.0, 1.1, ()), {}), "at least one walk"),
    (lambda: kg.flexion_angles({"a": 5}, kg.Cycle(0.0, 1.0, 1.1, ()), {}), "Tracking", "5"),
    (lambda: kg.tracking_errors(None, kg.Cycle(0.0, 1.0, 1.1, ()), ["thigh"]), "Tracking", "None"),
    (lambda: ks.gait.Cycle(0.0, 1.0, 1.1, ()).percent("now"), "instants", "text"),
    (lambda: ks.gait.Cycle(0.0, 1.0, 1.1, ()).instant("half"), "per cent", "text"),
]

#: Counts that would take all memory, or days.
COUNTS = [(lambda: kg.Butterworth(6.0, 10**9), "order of Butterworth must be at most 50")]

REFUSED = [*COUNTS, *BODIES, *SYSTEMS, *SIGNALS, *FORCES, *RECONSTRUCTED]

WARNED = [
    (lambda: kg.Body(mass=60.0), "the segments have 85 kg together"),
    (lambda: kg.check_mass(person(), 60.0), "the segments have 85 kg together"),
    (lambda: kg.PD(sampled=True).check_step(0.01), "lags by 0.005 s"),
]


@pytest.mark.parametrize("row", REFUSED)
def test_refused(refused, row):
    refused(*row)


@pytest.mark.parametrize("row", WARNED)
def test_warned(warned, row):
    warned(*row)
