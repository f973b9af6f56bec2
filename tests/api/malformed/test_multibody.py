"""Trees of bodies that cannot be."""

from functools import cache

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.multibody import (
    Body,
    Fixed,
    Free,
    Load,
    Oriented,
    Planar,
    PrescribedBase,
    Prismatic,
    Revolute,
    Spherical,
    Tree,
    Universal,
    matrix_model,
)

x = ks.dynamicsymbols("x")
k = sp.Symbol("k")
INERTIA = (0.1, 0.1, 0.01)


def body(name="a", mass=1.0, com=(0, 0, 0.5), inertia=INERTIA, **more):
    return Body(name, mass, com, inertia, **{"joint": Revolute("y"), **more})


def tree(*bodies, name="arm", **more):
    return Tree(name, bodies or (body(),), **more)


def moved(*bodies):
    """A simulation: a model of torques that a motion needs may be without inertia."""
    model = tree(*bodies, gravity=(0, 0, -9.81)).model()
    return ks.simulate(model, [0.0, 1.0], dict.fromkeys(model.state_names, 0.0))


@cache
def arm():
    return tree(gravity=(0, 0, -9.81))


@cache
def ball():
    return tree(body(joint=Spherical("xyz")), gravity=(0, 0, -9.81))


BODIES = [
    (lambda: tree(body("")), "name of a body", "''"),
    (lambda: tree(body(None)), "name of a body", "None"),
    (lambda: tree(body(5)), "name of a body", "5"),
    (lambda: tree(body("1a")), "name of a body", "'1a'"),
    (lambda: tree(body("a b")), "name of a body", "'a b'"),
    (lambda: tree(body("a\0")), "name of a body"),
    (lambda: tree(body(["a"])), "name of a body", "['a']"),
    (lambda: body(mass=-5), "body a: mass must not be negative", "-5"),
    (lambda: tree(body(mass=-5)), "body a: mass must not be negative", "-5"),
    (lambda: tree(body(mass=None)), "mass of body a is no expression", "None"),
    (lambda: tree(body(mass="1")), "mass of body a is text", "'1'"),
    (lambda: tree(body(mass=np.nan)), "mass of body a", "NaN"),
    (lambda: tree(body(mass=np.inf)), "mass of body a", "infinity"),
    (lambda: tree(body(mass=[1.0])), "mass of body a is no expression", "[1.0]"),
    (lambda: tree(body(mass=2j)), "mass of body a", "imaginary"),
    (lambda: tree(body(mass=True)), "mass of body a", "True"),
    (lambda: tree(body(mass=ks.t)), "body a: mass holds t"),
    (lambda: tree(body(mass=sp.Symbol("w.a.x"))), "body a: mass holds w.a.x"),
    (lambda: tree(body(mass=10**400)), "beyond double precision"),
    (lambda: tree(body(com=0.5)), "com must have three components", "0.5"),
    (lambda: tree(body(com=(0, 0))), "com must have three components", "(0, 0)"),
    (lambda: tree(body(com="xyz")), "com must have three components", "'xyz'"),
    (lambda: tree(body(com=None)), "com must have three components", "None"),
    (lambda: tree(body(com=(0, 0, "z"))), "com is text", "'z'"),
    (lambda: tree(body(com=(0, 0, None))), "com is no expression", "None"),
    (lambda: tree(body(com=(0, 0, np.nan))), "com contains NaN"),
    (lambda: tree(body(com=np.zeros((3, 3)))), "com"),
    (lambda: tree(body(com={"x": 0, "y": 0, "z": 1})), "com must have three components"),
    (lambda: tree(body(com={0, 1, 2})), "com must have three components"),
    (lambda: tree(body(inertia=1.0)), "body a: inertia is three", "1.0"),
    (lambda: tree(body(inertia=(1, 2))), "body a: inertia is three", "(1, 2)"),
    (lambda: tree(body(inertia="big")), "body a: inertia is three", "'big'"),
    (lambda: tree(body(inertia=None)), "body a: inertia is three", "None"),
    (lambda: tree(body(inertia=[[1, 0, 0], [0, 1]])), "body a: inertia is three"),
    (lambda: tree(body(inertia=(1, 1, "z"))), "inertia of body a is text"),
    (lambda: tree(body(inertia=(1, 1, np.nan))), "inertia of body a contains NaN"),
    (lambda: tree(body(inertia=(1, 1, 5))), "no body has principal moments", "1, 1, 5"),
    (lambda: tree(body(inertia=(-1, 1, 1))), "no body has principal moments", "-1"),
    (lambda: tree(body(inertia=[[1, 2, 0], [0, 1, 0], [0, 0, 1]])), "inertia is not symmetric"),
    (lambda: tree(body(inertia={"x": 1})), "body a: inertia is three"),
    (lambda: tree(body(at=(0, 0))), "at must have three components", "(0, 0)"),
    (lambda: tree(body(at="base")), "at must have three components", "'base'"),
    (lambda: tree(body(at=(0, 0, ks.t))), "at holds t"),
    (lambda: tree(body(end=1.0)), "end must have three components", "1.0"),
    (lambda: tree(body(end=(0, 0, "top"))), "end is text"),
    (lambda: tree(body(parent="b")), "parent b is not defined"),
    (lambda: tree(body(parent="a")), "parent a is not defined"),
    (lambda: tree(body(parent=5)), "parent", "5"),
    (lambda: tree(body(parent=body("b"))), "parent", "name"),
    (lambda: tree(body(parent=["b"])), "parent", "['b']"),
    (lambda: tree(body(parent="")), "parent", "''"),
    (lambda: tree(body(parent="b"), body("b")), "parent b is not defined before it; move it"),
    (lambda: tree(body(), body()), "body a is defined twice"),
    (lambda: tree(body("ship"), base=PrescribedBase("ship")), "ship is defined twice"),
    (lambda: moved(body(mass=0, inertia=(0, 0, 0))), "state a_wy has no derivative"),
    (lambda: moved(body(mass=0, inertia=(0, 0, 0), joint=Free())), "state a_vx has no"),
    (lambda: moved(body(mass=0, inertia=(0, 0, 0), joint=Prismatic("z"))), "state a_vz has no"),
    (lambda: moved(body(com=(0, 0, 0), inertia=(0, 0, 0))), "state a_wy has no derivative"),
    (lambda: moved(body(com=(0, 0.5, 0), inertia=(0, 0, 0))), "state a_wy has no derivative"),
    (lambda: moved(body(), body("b", 0, inertia=(0, 0, 0), parent="a")), "state b_wy has no"),
]

JOINTS = [
    (lambda: tree(body(joint=None)), "a joint is Fixed()", "None"),
    (lambda: tree(body(joint="y")), "a joint is Fixed()", "'y'"),
    (lambda: tree(body(joint=Revolute)), "a joint is Fixed()", "the class Revolute"),
    (lambda: tree(body(joint=[Revolute("y")])), "a joint is Fixed()"),
    (lambda: tree(body(joint=Revolute("q"))), "axis of a revolute joint", "'q'"),
    (lambda: tree(body(joint=Revolute("xy"))), "axis of a revolute joint", "'xy'"),
    (lambda: tree(body(joint=Revolute(""))), "axis of a revolute joint", "''"),
    (lambda: tree(body(joint=Revolute((0, 0, 0)))), "not all 0"),
    (lambda: tree(body(joint=Revolute((0, 1)))), "three components", "(0, 1)"),
    (lambda: tree(body(joint=Revolute(None))), "three components", "None"),
    (lambda: tree(body(joint=Revolute(2))), "three components", "2"),
    (lambda: tree(body(joint=Revolute((0, "y", 0)))), "axis of a joint is text"),
    (lambda: tree(body(joint=Revolute((0, np.nan, 0)))), "axis of a joint contains NaN"),
    (lambda: tree(body(joint=Revolute({"x": 1, "y": 0, "z": 0}))), "three components"),
    (lambda: tree(body(joint=Prismatic(""))), "prismatic joint", "''"),
    (lambda: tree(body(joint=Prismatic("xx"))), "prismatic joint", "'xx'"),
    (lambda: tree(body(joint=Prismatic("w"))), "prismatic joint", "'w'"),
    (lambda: tree(body(joint=Prismatic(None))), "prismatic joint", "None"),
    (lambda: tree(body(joint=Prismatic(3))), "prismatic joint", "3"),
    (lambda: tree(body(joint=Prismatic(["x", "y"]))), "prismatic joint", "['x', 'y']"),
    (lambda: tree(body(joint=Planar("x"))), "plane of a planar joint", "'x'"),
    (lambda: tree(body(joint=Planar("xx"))), "plane of a planar joint", "'xx'"),
    (lambda: tree(body(joint=Planar(None))), "plane of a planar joint", "None"),
    (lambda: tree(body(joint=Planar(7))), "plane of a planar joint", "7"),
    (lambda: tree(body(joint=Universal("yy"))), "universal joint", "'yy'"),
    (lambda: tree(body(joint=Universal(1))), "universal joint", "1"),
    (lambda: tree(body(joint=Spherical("xyx"))), "Bryant angles", "'xyx'"),
    (lambda: tree(body(joint=Spherical(None))), "Bryant angles", "None"),
    (lambda: tree(body(joint=Spherical(["x", "y", "z"]))), "Bryant angles", "['x', 'y', 'z']"),
    (lambda: tree(body(joint=Oriented("xy"))), "Bryant angles", "'xy'"),
    (lambda: tree(body(joint=Free("zzz"))), "Bryant angles", "'zzz'"),
    (lambda: PrescribedBase(""), "name of a base", "''"),
    (lambda: PrescribedBase("my ship"), "name of a base", "'my ship'"),
    (lambda: PrescribedBase(None), "name of a base", "None"),
    (lambda: PrescribedBase(1), "name of a base", "1"),
    (lambda: PrescribedBase("ship", "xx"), "Bryant angles", "'xx'"),
    (lambda: PrescribedBase("ship", None), "Bryant angles", "None"),
    (lambda: PrescribedBase("ship", acceleration="fast"), "acceleration of a base", "'fast'"),
    (lambda: PrescribedBase("ship", acceleration=None), "acceleration of a base", "None"),
    (lambda: PrescribedBase("ship", acceleration=["imu"]), "acceleration of a base", "['imu']"),
]

TREES = [
    (lambda: Tree(None, [body()]), "name of a tree", "None"),
    (lambda: Tree("", [body()]), "name of a tree", "''"),
    (lambda: Tree(5, [body()]), "name of a tree", "5"),
    (lambda: Tree("a\0", [body()]), "name of a tree"),
    (lambda: Tree("arm", []), "arm has no bodies"),
    (lambda: Tree("arm", None), "bodies of arm must be a list of Body", "None"),
    (lambda: Tree("arm", body()), "bodies of arm must be a list of Body"),
    (lambda: Tree("arm", "a"), "bodies of arm must be a list of Body", "'a'"),
    (lambda: Tree("arm", ["a"]), "bodies of arm must be a list of Body"),
    (lambda: Tree("arm", [None]), "bodies of arm must be a list of Body"),
    (lambda: Tree("arm", {"a": body()}), "bodies of arm must be a list of Body"),
    (lambda: Tree("arm", 5), "bodies of arm must be a list of Body", "5"),
    (lambda: tree(base=None), "base must be FixedBase() or PrescribedBase()", "None"),
    (lambda: tree(base="ship"), "base must be FixedBase() or PrescribedBase()", "'ship'"),
    (lambda: tree(base=PrescribedBase), "base must be FixedBase()", "PrescribedBase"),
    (lambda: tree(gravity=9.81), "gravity must have three components", "9.81"),
    (lambda: tree(gravity=(0, -9.81)), "gravity must have three components"),
    (lambda: tree(gravity="down"), "gravity must have three components", "'down'"),
    (lambda: tree(gravity=None), "gravity must have three components", "None"),
    (lambda: tree(gravity=(0, 0, np.nan)), "gravity contains NaN"),
    (lambda: tree(gravity=(0, 0, "g")), "gravity is text"),
    (lambda: tree(loads=None), "loads of arm must be a list of Load", "None"),
    (lambda: tree(loads=5), "loads of arm must be a list of Load", "5"),
    (lambda: tree(loads=Load("a")), "loads of arm must be a list of Load"),
    (lambda: tree(loads=[body()]), "loads of arm must be a list of Load"),
    (lambda: tree(loads="a"), "loads of arm must be a list of Load"),
    (lambda: tree(loads=lambda tree: None).model(), "loads of arm must be a list of Load", "None"),
    (lambda: tree(loads=[Load("zz")]), "load on zz", "no body of arm"),
    (lambda: tree(loads=[Load(None)]), "load on None", "no body of arm"),
    (lambda: tree(loads=[Load(["a"])]), "load on ['a']", "no body of arm"),
    (lambda: tree(loads=[Load("a", force=5)]), "load on a: force must have three components", "5"),
    (lambda: tree(loads=[Load("a", force="up")]), "load on a: force must have three components"),
    (lambda: tree(loads=[Load("a", force=(0, 0, "F"))]), "load on a: force is text"),
    (lambda: tree(loads=[Load("a", force=(0, 0, np.inf))]), "load on a: force contains NaN, inf"),
    (lambda: tree(loads=[Load("a", torque=None)]), "load on a: torque must have three components"),
    (lambda: tree(loads=[Load("a", at=(0, 1))]), "load on a: at must have three components"),
    (lambda: tree(loads=[Load("a", axes="ship")]), "axes of a load", "'ship'"),
    (lambda: tree(loads=[Load("a", axes=None)]), "axes of a load are 'world' or 'body'", "None"),
    (lambda: tree(values=[1.0]), "values of arm must be a mapping", "[1.0]"),
    (lambda: tree(values=5), "values of arm must be a mapping", "5"),
    (lambda: tree(values={"g": "9.81"}), "value of g must be a finite number", "'9.81'"),
    (lambda: tree(values={"g": np.nan}), "value of g must be a finite number", "nan"),
    (lambda: tree(values={5: 9.81}), "values of arm", "5", "neither a name nor a symbol"),
    (lambda: tree(locked="a"), "locked", "list", "'a'"),
    (lambda: tree(locked=["a_wz"]), "locked", "a_wz", "speed"),
    (lambda: tree(lockable=["zz"]), "lockable", "zz", "speed"),
    (lambda: tree(locked=None), "locked", "None"),
    (lambda: tree(locked=5), "locked", "5"),
    (lambda: arm().lock("b"), "b is no joint and no speed of arm"),
    (lambda: arm().lock(5), "5", "neither a name nor a symbol"),
    (lambda: arm().lock(None), "None", "neither a name nor a symbol"),
    (lambda: arm().lock(["a"]), "['a']", "neither a name nor a symbol"),
    (lambda: arm().with_locks("b"), "b is no joint and no speed of arm"),
    (lambda: arm().locks("a"), "a_wy cannot be locked at run time"),
    (lambda: arm().locks("zz"), "zz is no joint and no speed of arm"),
    (lambda: arm().speeds_of("zz"), "zz is no joint and no speed of arm"),
    (lambda: arm().torque_inputs("zz"), "zz is no joint and no speed of arm"),
    (lambda: arm().torque_inputs(3), "3", "neither a name nor a symbol"),
    (lambda: arm().joint_pd("zz"), "zz is no joint and no speed of arm"),
    (lambda: arm().joint_of("zz"), "zz is no body of arm"),
    (lambda: arm().joint_of(None), "None is no body of arm"),
    (lambda: arm().frame("zz"), "zz is no body of arm"),
    (lambda: arm().place("zz"), "zz is no body of arm"),
    (lambda: arm().place(5), "5 is no body of arm"),
    (lambda: arm().place(["a"]), "['a'] is no body of arm"),
    (lambda: arm().place("a", 5), "must have three components", "5"),
    (lambda: arm().place("a", "tip"), "must have three components", "'tip'"),
    (lambda: arm().place("a", (0, 0, None)), "no expression", "None"),
    (lambda: arm().velocity("a", (0, 0)), "must have three components", "(0, 0)"),
    (lambda: arm().velocity("zz"), "zz is no body of arm"),
    (lambda: arm().attitude("zz"), "zz is no body of arm"),
    (lambda: arm().wrench("zz"), "zz is no body of arm"),
    (lambda: arm().angular_momentum("com"), "must have three components", "'com'"),
    (lambda: arm().angular_momentum(0), "must have three components", "0"),
    (lambda: tree(body(mass=0)).center_of_mass(), "arm has no centre of mass"),
]

MODELS = [
    (lambda: arm().model(torques="a_wy"), "torques of arm must be a mapping", "'a_wy'"),
    (lambda: arm().model(torques=5), "torques of arm must be a mapping", "5"),
    (lambda: arm().model(torques=["a_wy"]), "torques of arm must be a mapping"),
    (lambda: arm().model(torques=x), "torques of arm must be a mapping", "x(t)"),
    (lambda: arm().model(torques={"a_wz": 1.0}), "a_wz is no speed", "a_wy"),
    (lambda: arm().model(torques={"a_y": 1.0}), "a_y is no speed"),
    (lambda: arm().model(torques={"a_wy": "T"}), "torque a_wy is text", "'T'"),
    (lambda: arm().model(torques={"a_wy": None}), "torque a_wy is no expression", "None"),
    (lambda: arm().model(torques={"a_wy": np.nan}), "torque a_wy contains NaN"),
    (lambda: arm().model(torques={"a_wy": [1.0]}), "torque a_wy is no expression"),
    (lambda: tree(passive={"a_wz": 1.0}), "passive forces: a_wz is no speed", "a_wy"),
    (lambda: tree(passive={"a_wy": "T"}), "passive force a_wy is text", "'T'"),
    (lambda: tree(passive={"a_wy": x.diff(ks.t)}), "passive force a_wy of arm is of"),
    (lambda: arm().model(torques={5: 1.0}), "5", "neither a name nor a symbol"),
    (lambda: arm().model(torques={"a_wy": x.diff(ks.t)}), "x(t) is not a state"),
    (lambda: arm().model(outputs="place"), "no kind place", "did you mean places"),
    (lambda: arm().model(outputs=["places", "enrgy"]), "no kind enrgy", "did you mean energy"),
    (lambda: arm().model(outputs=5), "outputs of arm", "5"),
    (lambda: arm().model(outputs=None), "outputs of arm", "None"),
    (lambda: arm().model(outputs=[5]), "outputs of arm", "5"),
    (lambda: arm().model(outputs=[None]), "outputs of arm", "None"),
    (lambda: arm().model(outputs=[x]), "outputs of arm", "x(t)"),
    (lambda: arm().model(outputs=x), "outputs of arm", "x(t)"),
    (lambda: arm().model(outputs={"y": "x"}), "output y is text"),
    (lambda: arm().model(outputs={"y": None}), "output y is no expression"),
    (lambda: arm().model(outputs={"y": sp.Matrix([x])}), "output y is a matrix"),
    (lambda: arm().model(outputs={"y": arm().place("a")}), "output y is no expression"),
    (lambda: arm().model(outputs={"": x}), "name of an output", "''"),
    (lambda: arm().model(outputs={5: x}), "output", "5"),
    (lambda: arm().model(outputs={"a_y": x}), "a_y is declared more than once"),
    (lambda: arm().model(outputs=["energy", "energy"]), "kinetic_energy is defined twice"),
    (lambda: arm().model(outputs=[{"y": x}, {"y": x}]), "y is defined twice"),
    (lambda: arm().model(values=5), "values of arm must be a mapping", "5"),
    (lambda: arm().model(values=["g"]), "values of arm must be a mapping"),
    (lambda: tree().model(values={"g": "a"}), "value of g must be a finite number", "'a'"),
    (lambda: tree().model(values={"g": None}), "value of g must be a finite number", "None"),
    (lambda: tree().model(values={"g": [9.81]}), "value of g must be a finite number"),
    (lambda: arm().parametrised().model(values={"a_m": -1.0}), "a_m", "positive"),
    (lambda: arm().parametrised().model(values={"a_Iz": 5.0}), "no body has principal moments"),
    (lambda: arm().parametrised().model(values={"a_Iz": "5"}), "a_Iz", "finite number", "'5'"),
    (lambda: tree(body(mass=k)).model(values={k: -1.0}), "k must be positive", "-1"),
    (lambda: arm().lock("a").model(torques={"a_wz": 1}), "a_wz is no speed"),
    (lambda: matrix_model(None), "Tree", "None"),
    (lambda: matrix_model(arm().model()), "Tree"),
    (lambda: matrix_model(arm()), "body a: the matrices cover spherical joints only"),
    (lambda: matrix_model(ball().with_locks("a")), "can be locked at run time"),
    (lambda: matrix_model(ball(), torques=5), "torques of arm must be a mapping", "5"),
    (lambda: matrix_model(ball(), torques={"zz": 1.0}), "zz is no speed"),
    (
        lambda: matrix_model(tree(body(joint=Spherical("xyz")), passive={"a_wx": 1.0})),
        "a_wx has a passive force, which the matrices do not cover",
    ),
    (lambda: matrix_model(ball(), outputs=[x]), "outputs of arm must be a mapping"),
    (lambda: matrix_model(ball(), outputs={"y": "x"}), "output y is text"),
    (lambda: matrix_model(ball(), values=5), "values of arm must be a mapping", "5"),
    (lambda: matrix_model(ball(), torques={"a_wx": "T"}), "torque a_wx is text"),
    (lambda: tree(body(joint=Fixed())).speeds_of("b"), "b is no joint and no speed"),
]

REFUSED = [*BODIES, *JOINTS, *TREES, *MODELS]


@pytest.mark.parametrize("row", REFUSED)
def test_refused(refused, row):
    refused(*row)
