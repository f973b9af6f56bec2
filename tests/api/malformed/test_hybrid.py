"""Hybrid models and their runs that cannot be."""

from functools import cache

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym import hybrid as kh
from kinesym.multibody import Body, Planar, Tree

t = ks.t
x, v, u, w, on = ks.dynamicsymbols("x v u w on")
k, c = sp.symbols("k c")
TIME = np.linspace(0.0, 1.0, 5)


def model(**changes):
    fields = {
        "name": "ball",
        "states": [x, v],
        "inputs": [u],
        "parameters": [],
        "equations": [x.diff(t) - v, v.diff(t) + 9.81 - u],
    }
    return ks.Model(**{**fields, **changes})


def hybrid(**parts):
    return kh.Hybrid(model(), **parts)


def event(name="e", guard=x, **more):
    return hybrid(events=[kh.Event(name, guard, **more)])


def contact(name="c", height=x, force=u, **more):
    return hybrid(contacts=[kh.Contact(name, height, force, **more)])


def muscle(name="q", **more):
    return kh.FESMuscle(name, **{"rate": v, "F0": 1e3, "k0": 1e4, "ks": 2e4, "Lc0": 0.1, **more})


@cache
def ball():
    """One model for all runs: a parameter, an input, an event, a contact."""
    forced = model(inputs=[u, w], parameters=[k], equations=[x.diff(t) - v, v.diff(t) + k - u - w])
    return kh.Hybrid(forced, events=[kh.Event("top", v)], contacts=[kh.Contact("floor", x, u)])


def run(what=None, call=ks.simulate, **changes):
    given = {"time": TIME, "initial": {x: 1.0, v: 0.0}, "parameters": {k: 9.81}, "inputs": {w: 0.0}}
    return call(ball() if what is None else what, **{**given, **changes})


def members(**changes):
    return run(call=ks.simulate, **{"initial": {x: [1.0, 2.0], v: 0.0}, **changes})


def state(n=2, contacts=1, events=1):
    integers = (np.zeros(size, dtype=np.intc) for size in (contacts, contacts, events))
    return kh.HybridState(0.0, np.ones(n), np.zeros(0), *integers)


def phases(of, sequence, **more):
    ends = {name: more.pop(name) for name in ("start", "end", "drift") if name in more}
    return ks.Collocation(of, ks.Phases(sequence, **ends), **more)


def phase(*sequence, **more):
    return phases(ball(), sequence or [kh.Phase()], **{"known": {k: 9.81}, **more})


@cache
def body():
    return Tree("t", [Body("a", 1.0, (0, 0, 0.5), (1, 1, 1), Planar("xz"))], gravity=(0, 0, -9.81))


def ground(point, **more):
    return kh.on_ground(body(), [point], **more)


PARTS = [
    (lambda: event(""), "name of an event", "''"),
    (lambda: event(None), "name of an event", "None"),
    (lambda: event(5), "name of an event", "5"),
    (lambda: event("e\0"), "name of an event", "control character"),
    (lambda: event("a\nb"), "name of an event", "control character"),
    (lambda: event(guard=None), "event 'e': the guard is no expression", "None"),
    (lambda: event(guard="x"), "event 'e': the guard is text", "'x'"),
    (lambda: event(guard=x > 1), "event 'e': the guard is no expression", "x - 5"),
    (lambda: event(guard=[x]), "event 'e': the guard is no expression"),
    (lambda: event(guard=5), "event 'e': the guard, 5, is constant"),
    (lambda: event(guard=0.0), "event 'e': the guard", "is constant"),
    (lambda: event(guard=c), "event 'e': the guard, c, is constant"),
    (lambda: event(guard=sp.pi), "event 'e': the guard, pi, is constant"),
    (lambda: event(guard=w), "event 'e'", "w(t)", "ball"),
    (lambda: event(guard=x.diff(t, 2)), "event 'e'", "order 2"),
    (lambda: event(guard=w.diff(t)), "event 'e'", "w(t)"),
    (lambda: event(guard=sp.Symbol("x")), "event 'e'", "x"),
    (lambda: event(guard=sp.Function("x")(c)), "event 'e'", "x(c)"),
    (lambda: event(guard=sp.nan), "event 'e': the guard contains NaN"),
    (lambda: event(direction=2), "event 'e': direction is -1, 0 or 1", "2"),
    (lambda: event(direction="up"), "event 'e': direction is -1, 0 or 1", "'up'"),
    (lambda: event(direction=None), "event 'e': direction is -1, 0 or 1", "None"),
    (lambda: event(direction=[1]), "event 'e': direction is -1, 0 or 1", "[1]"),
    (lambda: event(scale=0.0), "event 'e': scale must be positive", "0.0"),
    (lambda: event(scale=-1), "event 'e': scale must be positive", "-1"),
    (lambda: event(scale=np.nan), "event 'e': scale", "nan"),
    (lambda: event(scale=np.inf), "event 'e': scale", "inf"),
    (lambda: event(scale="1"), "event 'e': scale", "'1'"),
    (lambda: event(scale=None), "event 'e': scale", "None"),
    (lambda: event(stop="yes"), "event 'e': stop is True or False", "'yes'"),
    (lambda: event(stop=1), "event 'e': stop is True or False", "1"),
    (lambda: event(failure="no"), "event 'e': failure is True or False", "'no'"),
    (lambda: event(level="low"), "event 'e': level is True or False", "'low'"),
    (lambda: event(level=True), "event 'e': a level that sets no mode"),
    (lambda: event(level=True, direction=0), "event 'e': level needs one direction"),
    (lambda: event(resets=[v]), "event 'e': resets must be a mapping", "[v(t)]"),
    (lambda: event(resets=v), "event 'e': resets must be a mapping", "v(t)"),
    (lambda: event(resets="v"), "event 'e': resets must be a mapping", "'v'"),
    (lambda: event(resets=None), "event 'e': resets must be a mapping", "None"),
    (lambda: event(resets={v: "-v"}), "event 'e': the reset of v", "text", "'-v'"),
    (lambda: event(resets={v: None}), "event 'e': the reset of v", "no expression"),
    (lambda: event(resets={u: 0}), "event 'e' resets u, which is no state"),
    (lambda: event(resets={"vv": 0}), "event 'e' resets vv, which is no state; did you mean v"),
    (lambda: event(resets={5: 0}), "event 'e'", "5", "neither a name nor a symbol"),
    (lambda: event(resets={v: w}), "event 'e'", "w(t)"),
    (lambda: event(resets={v: v.diff(t, 2)}), "event 'e'", "order 2"),
    (lambda: event(resets={v: 0, "v": 1}), "event 'e'", "v is given twice"),
    (lambda: event(sets=[on]), "event 'e': sets must be a mapping"),
    (lambda: event(sets=5), "event 'e': sets must be a mapping", "5"),
    (lambda: event(sets={on: 1}), "event 'e' sets on, which is no mode"),
    (lambda: event(sets={on: "1"}), "event 'e': the value of on", "text"),
    (lambda: event(when="on"), "event 'e': when is text", "'on'"),
    (lambda: event(when=None), "event 'e': when is no expression", "None"),
    (lambda: event(when=on > 0), "event 'e': when is no expression"),
    (lambda: event(when=w), "event 'e'", "w(t)"),
    (lambda: event(when=0), "event 'e': when is 0", "never"),
    (lambda: contact(""), "name of a contact", "''"),
    (lambda: contact(None), "name of a contact", "None"),
    (lambda: contact(5), "name of a contact", "5"),
    (lambda: contact("c\0"), "name of a contact", "control character"),
    (lambda: contact(height=None), "contact 'c': height is no expression", "None"),
    (lambda: contact(height="x"), "contact 'c': height is text", "'x'"),
    (lambda: contact(height=x > 0), "contact 'c': height is no expression"),
    (lambda: contact(height=5), "contact 'c'", "height", "constant"),
    (lambda: contact(height=w), "contact 'c': its height", "w(t)"),
    (lambda: contact(height=t), "contact 'c': its height", "t"),
    (lambda: contact(height=c * x), "contact 'c': its height", "c"),
    (lambda: contact(height=v.diff(t)), "contact 'c': its height"),
    (lambda: contact(force="zz"), "contact 'c': force", "zz is no input"),
    (lambda: contact(force=None), "contact 'c': force", "None"),
    (lambda: contact(force=5), "contact 'c': force", "5"),
    (lambda: contact(force=x), "contact 'c': force", "x is no input"),
    (lambda: contact(force=[u]), "contact 'c': force", "[u(t)]"),
    (lambda: contact(force=2 * u), "contact 'c': force", "2*u(t)"),
    (lambda: contact(law="sticky"), "contact 'c': law is one of", "'sticky'"),
    (lambda: contact(law=None), "contact 'c': law is one of", "None"),
    (lambda: contact(law=["slip"]), "contact 'c': law is one of", "['slip']"),
    (lambda: contact(law="stick"), "contact 'c': law 'stick' needs place= and friction="),
    (lambda: contact(law="coulomb", place=x), "contact 'c': law 'coulomb' needs"),
    (lambda: contact(law="stick", place="x", friction=w), "contact 'c': place is text"),
    (lambda: contact(law="stick", place=x, friction="zz"), "contact 'c': friction", "zz is no inp"),
    (lambda: contact(law="stick", place=x, friction=u), "u is a mode or the force of two"),
    (lambda: contact(law="stick", place=x, friction=5), "contact 'c': friction", "5"),
    (lambda: contact(friction_coefficient=-1), "contact 'c': the friction coefficient", "-1"),
    (lambda: contact(friction_coefficient="0.5"), "contact 'c': the friction coefficient", "'0.5'"),
    (lambda: contact(friction_coefficient=np.nan), "contact 'c': the friction coefficient", "nan"),
    (lambda: contact(friction_coefficient=np.inf), "contact 'c': the friction coefficient", "inf"),
    (lambda: contact(friction_coefficient=k), "contact 'c': the friction coefficient", "k"),
    (lambda: contact(restitution=2), "contact 'c': restitution must be within 0 ... 1", "2"),
    (lambda: contact(restitution="e"), "contact 'c': restitution", "'e'"),
    (lambda: contact(restitution=None), "contact 'c': restitution", "None"),
    (lambda: contact(restitution=k), "contact 'c': restitution", "k"),
    (lambda: kh.Hybrid(None), "kinesym.Model", "None"),
    (lambda: kh.Hybrid("ball"), "kinesym.Model", "'ball'"),
    (lambda: kh.Hybrid(hybrid()), "kinesym.Model", "Hybrid"),
    (lambda: hybrid(events=None), "events of ball must be a list", "None"),
    (lambda: hybrid(events=kh.Event("e", x)), "events of ball must be a list"),
    (lambda: hybrid(events=["e"]), "events of ball must be a list of Event", "'e'"),
    (lambda: hybrid(events=[x]), "events of ball must be a list of Event", "x(t)"),
    (lambda: hybrid(events=[kh.Contact("c", x, u)]), "events of ball must be a list of Event"),
    (lambda: hybrid(events={"e": kh.Event("e", x)}), "events of ball must be a list of Event"),
    (lambda: hybrid(contacts=None), "contacts of ball must be a list", "None"),
    (lambda: hybrid(contacts=kh.Contact("c", x, u)), "contacts of ball must be a list"),
    (lambda: hybrid(contacts=["c"]), "contacts of ball must be a list of Contact", "'c'"),
    (lambda: hybrid(contacts=[kh.Event("e", x)]), "contacts of ball must be a list of Contact"),
    (lambda: hybrid(muscles=None), "muscles of ball must be a list", "None"),
    (lambda: hybrid(muscles=muscle()), "muscles of ball must be a list"),
    (lambda: hybrid(muscles=["q"]), "muscles of ball must be a list of FESMuscle", "'q'"),
    (lambda: hybrid(muscles=[muscle(), muscle()]), "q", "twice"),
    (lambda: hybrid(muscles=[muscle(rate=w)]), "w(t), which is not declared"),
    (lambda: hybrid(modes=[on]), "modes of ball must be a mapping", "[on(t)]"),
    (lambda: hybrid(modes="on"), "modes of ball must be a mapping", "'on'"),
    (lambda: hybrid(modes=None), "modes of ball must be a mapping", "None"),
    (lambda: hybrid(modes={"zz": 1}), "zz is no input of ball"),
    (lambda: hybrid(modes={x: 1}), "x is no input of ball"),
    (lambda: hybrid(modes={5: 1}), "5", "neither a name nor a symbol"),
    (lambda: hybrid(modes={u: "on"}), "mode u", "finite number", "'on'"),
    (lambda: hybrid(modes={u: None}), "mode u", "finite number", "None"),
    (lambda: hybrid(modes={u: np.nan}), "mode u", "finite number", "nan"),
    (lambda: hybrid(modes={u: k}), "mode u", "finite number", "k"),
    (lambda: hybrid(modes={u: 1}, contacts=[kh.Contact("c", x, u)]), "u is a mode or the force"),
    (lambda: hybrid(events=[kh.Event("e", x), kh.Event("e", v)]), "called 'e'"),
    (lambda: hybrid(events=[kh.Event("c", x)], contacts=[kh.Contact("c", x, u)]), "called 'c'"),
    (lambda: hybrid(contacts=[kh.Contact("a", x, u), kh.Contact("b", x, u)]), "two contacts"),
    (lambda: hybrid(contacts=[kh.Contact(f"c{i}", x, u) for i in range(9)]), "8 contacts", "got 9"),
]

MUSCLES = [
    (lambda: muscle(""), "name of a muscle", "''"),
    (lambda: muscle(None), "name of a muscle", "None"),
    (lambda: muscle(5), "name of a muscle", "5"),
    (lambda: muscle("1q"), "name of a muscle", "'1q'"),
    (lambda: muscle(rate="v"), "muscle 'q': rate is text", "'v'"),
    (lambda: muscle(rate=None), "muscle 'q': rate is no expression", "None"),
    (lambda: muscle(rate=[v]), "muscle 'q': rate is no expression"),
    (lambda: muscle(F0=0), "muscle 'q': F0 must be positive", "0"),
    (lambda: muscle(F0=-1), "muscle 'q': F0 must be positive", "-1"),
    (lambda: muscle(F0="big"), "muscle 'q': F0 is text"),
    (lambda: muscle(F0=None), "muscle 'q': F0 is no expression"),
    (lambda: muscle(k0=np.nan), "muscle 'q': k0 contains NaN"),
    (lambda: muscle(ks=0.0), "muscle 'q': ks must be positive"),
    (lambda: muscle(Lc0=[0.1]), "muscle 'q': Lc0 is no expression"),
    (lambda: muscle(recruitment=2.0), "muscle 'q': recruitment must be within 0 ... 1", "2.0"),
    (lambda: muscle(recruitment=-0.1), "muscle 'q': recruitment must be within 0 ... 1", "-0.1"),
    (lambda: muscle(recruitment="full"), "muscle 'q': recruitment", "'full'", '"input"'),
    (lambda: muscle(recruitment=None), "muscle 'q': recruitment is no expression", "None"),
    (lambda: muscle(force_factor="f"), "muscle 'q': force_factor is text"),
    (lambda: muscle(stiffness_factor=None), "muscle 'q': stiffness_factor is no expression"),
    (lambda: muscle(slack="loose"), "muscle 'q': slack is one of error, hold", "'loose'"),
    (lambda: muscle(slack=None), "muscle 'q': slack is one of error, hold", "None"),
    (lambda: muscle(slack=["hold"]), "muscle 'q': slack is one of error, hold"),
]

GROUND = [
    (lambda: ground(kh.GroundPoint("heel", "zz")), "zz is no body of t"),
    (lambda: ground(kh.GroundPoint("heel", None)), "point 'heel'", "None"),
    (lambda: ground(kh.GroundPoint("heel", 5)), "point 'heel'", "5"),
    (lambda: kh.GroundPoint("", "a"), "name of a point", "''"),
    (lambda: kh.GroundPoint(None, "a"), "name of a point", "None"),
    (lambda: kh.GroundPoint("1st", "a"), "name of a point", "'1st'"),
    (lambda: kh.GroundPoint("heel", "a", at=5), "point 'heel'", "three components", "5"),
    (lambda: kh.GroundPoint("heel", "a", at=(0, 0)), "point 'heel'", "three components"),
    (lambda: kh.GroundPoint("heel", "a", at=(0, 0, "z")), "point 'heel'", "text"),
    (lambda: kh.GroundPoint("heel", "a", law="glue"), "law is one of", "'glue'"),
    (lambda: kh.GroundPoint("heel", "a", friction_coefficient=-1), "friction coefficient", "-1"),
    (lambda: kh.GroundPoint("heel", "a", restitution=3), "restitution must be within", "3"),
    (lambda: kh.GroundPoint("heel", "a", restitution="1"), "restitution", "'1'"),
    (lambda: kh.on_ground(None, []), "kinesym.multibody.Tree", "None"),
    (lambda: kh.on_ground("tree", []), "kinesym.multibody.Tree", "'tree'"),
    (lambda: kh.on_ground(model(), []), "kinesym.multibody.Tree"),
    (lambda: kh.on_ground(body(), None), "points", "list of GroundPoint", "None"),
    (lambda: kh.on_ground(body(), kh.GroundPoint("h", "a")), "points", "list of GroundPoint"),
    (lambda: kh.on_ground(body(), ["heel"]), "points", "list of GroundPoint", "'heel'"),
    (lambda: kh.on_ground(body(), [], up="z"), "up must have three components", "'z'"),
    (lambda: kh.on_ground(body(), [], up=(0, 0)), "up must have three components"),
    (lambda: kh.on_ground(body(), [], up=(0, 0, 2)), "up is no unit vector"),
    (lambda: kh.on_ground(body(), [], up=(0, 0, k)), "up", "number", "k"),
    (lambda: kh.on_ground(body(), [], along=(0, 0, 1)), "up and along are not orthogonal"),
    (lambda: kh.on_ground(body(), [], along=None), "along must have three components", "None"),
    (lambda: kh.on_ground(body(), [], torques=5), "torques of t must be a mapping", "5"),
    (lambda: kh.on_ground(body(), [], outputs=5), "outputs of t", "5"),
    (lambda: kh.on_ground(body(), [], values=5), "values of t must be a mapping", "5"),
    (lambda: kh.on_ground(body(), [], modes=5), "modes of t must be a mapping", "5"),
    (lambda: kh.on_ground(body(), [], events=5), "events of t must be a list of Event", "5"),
    (lambda: kh.on_ground(body(), [], muscles=5), "muscles of t must be a list", "5"),
]

INPUTS = [
    (lambda: ks.Signal.pieces(None, [1.0]), "begins, values and slopes of a signal", "()"),
    (lambda: ks.Signal.pieces("ab", [1.0]), "begins", "text"),
    (lambda: ks.Signal.pieces([0.0, 1.0], [1.0]), "(2,), (1,)"),
    (lambda: ks.Signal.pieces([], []), "(0,)"),
    (lambda: ks.Signal.pieces([[0.0]], [[1.0]]), "(1, 1)"),
    (lambda: ks.Signal.pieces([0.0, 0.0], [1.0, 2.0]), "begins of a signal must increase", "0 s"),
    (lambda: ks.Signal.pieces([1.0, 0.0], [1.0, 2.0]), "begins of a signal must increase"),
    (lambda: ks.Signal.pieces([0.0], [np.nan]), "must be finite"),
    (lambda: ks.Signal.pieces([0.0], ["a"]), "values", "text"),
    (lambda: ks.Signal.pieces([0.0], [1.0], [2.0, 3.0]), "(2,)"),
    (lambda: ks.Signal.pieces([0.0], [1.0], "up"), "slopes", "text"),
    (lambda: ks.Signal.pieces([0.0], [1j]), "values", "complex"),
    (lambda: ks.Signal.pieces([0.0], [[1.0], [1.0, 2.0]]), "values", "unequal"),
    (lambda: ks.Signal([0.0, 1.0], [1.0]), "(2,)", "(1,)"),
    (lambda: ks.Signal([0.0], [1.0]), "needs 2 samples or more"),
    (lambda: ks.Signal(0.0, 1.0), "times and values of a signal must be (B,)"),
    (lambda: ks.Signal([0.0, 0.0], [1.0, 2.0]), "must increase"),
    (lambda: ks.Signal("ab", [1.0, 2.0]), "text"),
    (lambda: ks.Signal([0.0, 1.0], None), "(2,)", "()"),
    (lambda: ks.Signal.pieces([0.0], [1.0])("now"), "times", "text"),
    (lambda: kh.train(0.0, 0.1, 2.5), "impulses", "2.5"),
    (lambda: kh.train(0.0, 0.1, 0), "impulses", "0"),
    (lambda: kh.train(0.0, 0.1, -1), "impulses", "-1"),
    (lambda: kh.train(0.0, 0.1, "3"), "impulses", "'3'"),
    (lambda: kh.train(0.0, 0.1, None), "impulses", "None"),
    (lambda: kh.train(0.0, 0.0, 3), "period", "0.0"),
    (lambda: kh.train(0.0, -0.1, 3), "period", "-0.1"),
    (lambda: kh.train(0.0, "0.1", 3), "period", "'0.1'"),
    (lambda: kh.train(0.0, None, 3), "period", "None"),
    (lambda: kh.train(np.nan, 0.1, 3), "start", "nan"),
    (lambda: kh.train("0", 0.1, 3), "start", "'0'"),
    (lambda: kh.train(None, 0.1, 3), "start", "None"),
    (lambda: kh.Calcium(-0.1, 0.1, 0.1, 1.0, -1.0), "tau of a calcium clock", "-0.1"),
    (lambda: kh.Calcium("a", 0.1, 0.1, 1.0, -1.0), "tau of a calcium clock", "'a'"),
    (lambda: kh.Calcium(0.1, None, 0.1, 1.0, -1.0), "tau1 of a calcium clock", "None"),
    (lambda: kh.Calcium(0.1, 0.1, np.nan, 1.0, -1.0), "tau2 of a calcium clock", "nan"),
    (lambda: kh.Calcium(0.1, 0.1, 0.1, -1.0, -1.0), "Up must be positive", "-1.0"),
    (lambda: kh.Calcium(0.1, 0.1, 0.1, "1", -1.0), "Up of a calcium clock", "'1'"),
    (lambda: kh.Calcium(0.1, 0.1, 0.1, 1.0, 1.0), "Um must be negative", "1.0"),
    (lambda: kh.Calcium(0.1, 0.1, 0.1, 1.0, None), "Um of a calcium clock", "None"),
    (lambda: kh.Calcium(0.1, 0.1, 0.1, 1.0, -1.0, ramp="fast"), "ramp is one of", "'fast'"),
    (lambda: kh.Calcium(0.1, 0.1, 0.1, 1.0, -1.0, ramp=None), "ramp is one of", "None"),
    (lambda: kh.Calcium(0.1, 0.1, 0.1, 1.0, -1.0, hold="yes"), "True or False", "'yes'"),
    (lambda: kh.Calcium(0, 0.1, 0.1, 1.0, -1.0).signal([]), "impulses", "(0,)"),
    (lambda: kh.Calcium(0, 0.1, 0.1, 1.0, -1.0).signal(None), "impulses", "()"),
    (lambda: kh.Calcium(0, 0.1, 0.1, 1.0, -1.0).signal("now"), "impulses", "text"),
    (lambda: kh.Calcium(0, 0.1, 0.1, 1.0, -1.0).signal([1.0, 0.0]), "must increase", "0 s"),
    (
        lambda: kh.Calcium(0, 0.1, 0.1, 1.0, -1.0).signal([0.0, np.nan]),
        "impulses",
        "finite, number 1",
    ),
    (lambda: kh.Calcium(1, 0.1, 0.1, 1.0, -1.0).signal([0.0, 0.5]), "before the delay of 1 s"),
    (lambda: kh.Calcium(0, 0.1, 0.1, 1.0, -1.0).signal([0.0], "a"), "place", "'a'"),
    (lambda: kh.Calcium(0, 0.1, 0.1, 1.0, -1.0).by_impulse([0.0], None), "gradient", "None"),
]

RUNS = [
    (lambda: run("ball"), "a kinesym.Model or kinesym.hybrid.Hybrid", "'ball'"),
    (lambda: run(5), "kinesym.hybrid.Hybrid", "5"),
    (lambda: run([ball()]), "kinesym.hybrid.Hybrid"),
    (lambda: run(body()), "kinesym.hybrid.Hybrid"),
    (lambda: run(time=[0.0]), "time needs at least 2 instants"),
    (lambda: run(time=[1.0, 0.0]), "time must increase"),
    (lambda: run(time=None), "time needs at least 2 instants"),
    (lambda: run(initial=None), "initial must be a mapping", "None"),
    (lambda: run(initial=[1.0, 0.0]), "initial must be a mapping", "[1.0, 0.0]"),
    (lambda: run(initial=np.zeros(2)), "initial must be a mapping", "array"),
    (lambda: run(initial="rest"), "initial must be a mapping", "'rest'"),
    (lambda: run(initial={x: 1.0}), "initial value of state v is missing"),
    (lambda: run(initial={x: 1.0, v: 0.0, "z": 1}), "initial: z is unknown"),
    (lambda: run(initial={x: np.nan, v: 0.0}), "initial value of state x", "finite", "nan"),
    (lambda: run(initial={x: "1", v: 0.0}), "initial value of state x", "text", "'1'"),
    (lambda: run(initial={x: None, v: 0.0}), "initial value of state x is nan"),
    (lambda: run(initial={x: sp.Symbol("q"), v: 0.0}), "initial value of state x", "q is no para"),
    (lambda: run(initial={x: v, v: 0.0}), "initial value of state x", "v(t) is no parameter"),
    (lambda: run(initial=state(n=3)), "3 states, ball has 2", "another model"),
    (lambda: run(initial=state(contacts=0)), "0 contacts, ball has 1"),
    (lambda: run(initial=state(events=2)), "2 events, ball has 1"),
    (lambda: run(initial=state(), time=TIME + 1.0), "the grid begins at 1 s"),
    (lambda: run(parameters=None), "parameter k is missing"),
    (lambda: run(parameters=9.81), "parameters must be a mapping", "9.81"),
    (lambda: run(parameters=[9.81]), "parameters must be a mapping"),
    (lambda: run(parameters="k"), "parameters must be a mapping", "'k'"),
    (lambda: run(parameters={}), "parameter k is missing"),
    (lambda: run(parameters={"kk": 1}), "kk is unknown"),
    (lambda: run(parameters={k: np.nan}), "parameter k", "finite", "nan"),
    (lambda: run(parameters={k: "9.81"}), "parameter k", "text", "'9.81'"),
    (lambda: run(parameters={k: None}), "parameter k is nan"),
    (lambda: run(inputs=None), "the input w is missing"),
    (lambda: run(inputs={}), "the input w is missing"),
    (lambda: run(inputs=0.0), "inputs must be a mapping", "0.0"),
    (lambda: run(inputs=[0.0]), "inputs must be a mapping"),
    (lambda: run(inputs={w: 0.0, "z": 1}), "z is unknown"),
    (lambda: run(inputs={w: 0.0, u: 1}), "u is unknown"),
    (lambda: run(inputs={w: "zero"}), "input w", "'zero'"),
    (lambda: run(inputs={w: None}), "input w", "None"),
    (lambda: run(inputs={w: np.nan}), "input w", "not finite"),
    (lambda: run(inputs={w: [0.0, 1.0]}), "input w has 2 values", "expected 5"),
    (lambda: run(inputs={w: ["a"] * 5}), "input w", "text"),
    (lambda: run(inputs={w: np.full(5, np.inf)}), "input w", "finite"),
    (lambda: run(inputs={w: np.sin}), "input w", "function"),
    (lambda: run(inputs={w: k}), "input w", "k"),
    (lambda: run(inputs={w: 1j}), "input w", "1j"),
    (lambda: run(inputs={w: {}}), "input w", "{}"),
    (lambda: run(initial={x: 1.0, v: 0.0, "floor": "yes"}), "floor says whether", "'yes'"),
    (lambda: run(initial={x: 1.0, v: 0.0, "wall": True}), "wall is unknown"),
    (lambda: run(initial={x: 1.0, v: 0.0, "floor": None}), "floor says whether", "None"),
    (lambda: run(initial={x: 1.0, v: 0.0, "floor": 5}), "floor says whether", "5"),
    (lambda: run(initial={x: 1.0, v: 0.0, "floor": [[True]]}), "floor says whether"),
    (lambda: run(method="euler"), "method is one of", "'euler'"),
    (lambda: run(method=["rk4"]), "method is one of", "['rk4']"),
    (lambda: run(method="rk4", substeps=0), "substeps must be at least 1", "0"),
    (lambda: run(method="rk4", substeps="2"), "substeps must be at least 1", "'2'"),
    (lambda: run(method="rk4", substeps=[2]), "substeps must be at least 1", "[2]"),
    (lambda: run(rtol=0), "rtol must be positive", "0"),
    (lambda: run(rtol=None), "rtol must be positive", "None"),
    (lambda: run(rtol="1e-9"), "rtol must be positive", "'1e-9'"),
    (lambda: run(atol=-1), "atol must be positive", "-1"),
    (lambda: run(atol=np.nan), "atol must be positive", "nan"),
    (lambda: hybrid(v_stop=0), "v_stop of ball must be positive", "0"),
    (
        lambda: hybrid(v_stop=1e-4, contacts=[kh.Contact("c", x, u, restitution=0.5)]),
        "v_stop of ball must be at least 0.00054 m/s",
        "0.0001",
    ),
    (lambda: hybrid(v_stop="slow"), "v_stop of ball", "'slow'"),
    (lambda: hybrid(release="soft"), "release of ball is one of", "'soft'"),
    (lambda: hybrid(release=None), "release of ball is one of", "None"),
    (lambda: hybrid(per_second=0), "per_second of ball must be at least 1 and whole", "0"),
    (lambda: hybrid(per_second=2.5), "per_second of ball must be at least 1 and whole", "2.5"),
    (lambda: hybrid(per_second="many"), "per_second of ball", "'many'"),
    (lambda: run(call=ks.sensitivities, parameters={k: [1.0, 2.0]}), "those of one run"),
    (lambda: run("ball", call=ks.sensitivities), "a kinesym.Model or", "'ball'"),
    (lambda: run(call=ks.sensitivities, parameters={k: np.nan}), "parameter k", "finite"),
    (lambda: run(call=ks.sensitivities, method="euler"), "method is one of"),
    (lambda: phases(ball(), [ks.Experiment(TIME)]), "which contacts of ball press", "ks.Phases"),
    (lambda: ks.Collocation(ball(), ks.Experiment(TIME)), "which contacts", "ks.Phases"),
]

PHASES = [
    (lambda: phases(None, [kh.Phase()]), "kinesym.hybrid.Hybrid", "None"),
    (lambda: phases(ball().model, [kh.Phase()]), "kinesym.hybrid.Hybrid", "model ball"),
    (lambda: phases(ball(), None), "sequence must be a list of Phase", "None"),
    (lambda: phases(ball(), []), "at least one phase"),
    (lambda: phases(ball(), kh.Phase()), "sequence must be a list of Phase"),
    (lambda: phases(ball(), ["flight"]), "sequence must be a list of Phase", "'flight'"),
    (lambda: phases(ball(), [None]), "sequence must be a list of Phase", "None"),
    (lambda: phases(ball(), 5), "sequence must be a list of Phase", "5"),
    (lambda: phase(kh.Phase(closed="floor", inputs={w: 0})), "closed of a phase", "'floor'"),
    (lambda: phase(kh.Phase(closed=["wall"], inputs={w: 0})), "phase 0: there is no contact"),
    (lambda: phase(kh.Phase(closed=None, inputs={w: 0})), "closed of a phase", "None"),
    (lambda: phase(kh.Phase(closed=[5], inputs={w: 0})), "there is no contact 5"),
    (lambda: phase(kh.Phase(ignored=["wall"], inputs={w: 0})), "there is no contact 'wall'"),
    (lambda: phase(kh.Phase(loose="floor", inputs={w: 0})), "loose of a phase", "'floor'"),
    (lambda: phase(kh.Phase(hits=["floor"], inputs={w: 0})), "phase 0: nothing comes before"),
    (lambda: phase(kh.Phase(hits=5, inputs={w: 0})), "hits of a phase must be a list", "5"),
    (lambda: phase(kh.Phase(duration=1.0, inputs={w: 0})), "duration must be (low, high)", "1.0"),
    (lambda: phase(kh.Phase(duration=(2, 1), inputs={w: 0})), "duration must be (low, high)"),
    (lambda: phase(kh.Phase(duration=None, inputs={w: 0})), "duration", "None"),
    (lambda: phase(kh.Phase(duration="long", inputs={w: 0})), "duration", "'long'"),
    (lambda: phase(kh.Phase(duration=("a", 1), inputs={w: 0})), "duration must be real numbers"),
    (lambda: phase(kh.Phase(nodes=1, inputs={w: 0})), "nodes", "at least 2", "1"),
    (lambda: phase(kh.Phase(nodes=2.5, inputs={w: 0})), "nodes", "2.5"),
    (lambda: phase(kh.Phase(nodes="many", inputs={w: 0})), "nodes", "'many'"),
    (lambda: phase(kh.Phase(nodes=None, inputs={w: 0})), "nodes", "None"),
    (lambda: phase(kh.Phase(modes=5, inputs={w: 0})), "modes of a phase must be a mapping", "5"),
    (lambda: phase(kh.Phase(modes={"on": 1}, inputs={w: 0})), "modes: on is unknown"),
    (lambda: phase(kh.Phase(inputs=5)), "inputs of a phase must be a mapping", "5"),
    (lambda: phase(kh.Phase(inputs={"z": 1})), "inputs: z is unknown"),
    (lambda: phase(kh.Phase(inputs={w: "a"})), "input w", "'a'"),
    (lambda: phase(kh.Phase(inputs={w: [1.0]})), "input w has 1 values, expected 41"),
    (lambda: phase(kh.Phase(inputs={w: np.nan})), "input w", "finite"),
    (lambda: phase(kh.Phase(inputs={})), "input w"),
    (lambda: phase(kh.Phase(inputs={w: 0}), start=x), "start conditions must be a list"),
    (lambda: phase(kh.Phase(inputs={w: 0}), end=5), "end conditions must be a list", "5"),
    (lambda: phase(kh.Phase(inputs={w: 0}), start=None), "start conditions must be a list"),
    (lambda: phase(kh.Phase(inputs={w: 0}), start=["x"]), "start condition 0 is text"),
    (lambda: phase(kh.Phase(inputs={w: 0}), drift=-1), "drift", "-1"),
    (lambda: phase(kh.Phase(inputs={w: 0}), drift="small"), "drift", "'small'"),
    (lambda: phase(kh.Phase(inputs={w: 0}), drift=None), "drift", "None"),
    (lambda: phase(kh.Phase(inputs={w: 0}), unknown_inputs=5), "unknown_inputs must be a mapping"),
    (lambda: phase(kh.Phase(inputs={w: 0}), path=5), "path conditions must be a list", "5"),
]

REFUSED = [*PARTS, *MUSCLES, *GROUND, *INPUTS, *RUNS, *PHASES]


@pytest.mark.parametrize("row", REFUSED)
def test_refused(refused, row):
    refused(*row)
