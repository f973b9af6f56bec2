"""A car is parked to its side: from rest to rest 2 m to the left in 30 s, with least effort.

A bicycle model whose wheels do not slip sideways: two nonholonomic constraints, by Kane's method of
SymPy. Inputs: steering torque T [N m] and propulsion F [N].
"""

import numpy as np
import sympy as sp
from sympy.physics import mechanics as me

import kinesym as ks
from kinesym.examples.gallery import shown

x, y, theta, delta = place = ks.dynamicsymbols("x y theta delta")
vx, vy, omega, beta = ks.dynamicsymbols("v_x v_y omega beta")
T, F = ks.dynamicsymbols("T F")
m, inertia, a, b = sp.symbols("m I a b")


def car():
    """Mass centre between the wheels, front wheel on a steering axis through its contact."""
    ground, body, wheel = map(me.ReferenceFrame, ("N", "A", "B"))
    body.orient_axis(ground, theta, ground.z)
    wheel.orient_axis(body, delta, body.z)
    body.set_ang_vel(ground, omega * ground.z)
    wheel.set_ang_vel(body, beta * ground.z)
    centre = me.Point("A_o")
    rear, front = centre.locatenew("P_r", -b * body.x), centre.locatenew("P_f", a * body.x)
    centre.set_vel(ground, vx * body.x + vy * body.y)
    for point in (rear, front):
        point.v2pt_theory(centre, ground, body)
    moved = x.diff() * ground.x + y.diff() * ground.y
    kane = me.KanesMethod(
        ground,
        place,
        [vx, beta],
        [vx - moved.dot(body.x), vy - moved.dot(body.y), omega - theta.diff(), beta - delta.diff()],
        u_dependent=[vy, omega],
        velocity_constraints=[rear.vel(ground).dot(body.y), front.vel(ground).dot(wheel.y)],
    )
    parts = (centre, body, m, inertia), (front, wheel, m / 6, inertia / 32)
    kane.kanes_equations(
        [me.RigidBody(p.name, p, f, mass, (me.inertia(f, 0, 0, i), p)) for p, f, mass, i in parts],
        [(rear, F * body.x), (body, -T * ground.z), (wheel, T * ground.z)],
    )
    values = {inertia: 1300.0, m: 1200.0, a: 1.5, b: 1.5}
    return ks.Model.from_kane(kane, [T, F], name="parallel_park", values=values)


def problem(nodes=501, scheme="backward-euler"):
    return ks.Collocation(
        car(),
        ks.Experiment(np.linspace(0.0, 30.0, nodes)),
        objective=ks.Integral(F**2 + T**2),
        boundary=[
            *map(ks.at_start, (*place, vx, beta)),
            *map(ks.at_end, (x, theta, delta, vx, beta)),
            ks.at_end(y) - 2.0,
        ],
        bounds={delta: (-np.pi / 4, np.pi / 4)},
        unknown_inputs={T: (-50.0, 50.0), F: (-300.0, 300.0)},
        scheme=scheme,
    )


def solve(nodes=501):
    back = abs(np.linspace(-3.0, 3.0, nodes)) - 3.0
    return problem(nodes).solve(guess={x: back})


main = shown(solve)
