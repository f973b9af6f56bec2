"""Time trial of one leg with four muscles: 10 m on a fixed gear from rest in the least time.

Crank A, foot B, lower leg C, upper leg D: a closed loop of four bodies between the axle and the
hip, by Kane's method of SymPy. At the crank resists what a bicycle and its rider have on a road;
muscles are those of De Groote et al. 2016 with rigid tendons, from SymPy.
"""

import numpy as np
import sympy as sp
from scipy.optimize import fsolve
from sympy.physics import biomechanics as bm
from sympy.physics import mechanics as me

import kinesym as ks
from kinesym.examples.gallery import shown

q, u = ks.dynamicsymbols("q1:5"), ks.dynamicsymbols("u1:5")
SEAT, CRANK, FOOT, LOWER, UPPER = 0.8, 0.175, 0.08, 0.611, 0.424  # m
TUBE, KNEE, ANKLE = np.deg2rad(75.0), 0.04, 30.0  # angle of the seat; radius [m]; damping [N m s]
MASSES, INERTIAS = (0.0, 1.0, 6.769, 17.01), (0.0, 0.01, 0.101, 0.282)  # kg, kg m^2
WHEEL, GEAR, RIDER, G, DISTANCE = 0.3, 2.0, 85.0, 9.81, 10.0  # m, 1, kg, m/s^2, m
TURNS = DISTANCE / WHEEL / GEAR / 2 / np.pi
FORCES = {"knee_top": 1400.0, "knee_bot": 1200.0, "ankle_top": 400.0, "ankle_bot": 1000.0}  # N
SPEEDS = {x.diff(ks.t): v for x, v in zip(q, u, strict=True)}


class Extensor(me.PathwayBase):
    """From a point on the lower leg around a circle at the knee to one on the upper leg."""

    def __init__(self, origin, knee, insertion, frames, angle):
        super().__init__(origin, insertion)
        lower, upper = frames
        spans = [point.pos_from(knee).magnitude() for point in (origin, insertion)]
        bends = [sp.asin(KNEE / span) for span in spans]
        straight = sum(s * sp.cos(b) for s, b in zip(spans, bends, strict=True))
        self.span, self.rate = straight + KNEE * (angle + sum(bends)), KNEE * angle.diff(ks.t)
        leaves = [  # where it leaves the circle, on either side
            KNEE * (sp.sin(bends[0]) * -lower.x - sp.cos(bends[0]) * (-lower.x).cross(lower.z)),
            KNEE * (sp.sin(bends[1]) * upper.x + sp.cos(bends[1]) * upper.x.cross(lower.z)),
        ]
        pulls = [
            (p.pos_from(knee) - at).normalize()
            for p, at in zip((origin, insertion), leaves, strict=True)
        ]
        self.pulls = [(origin, pulls[0]), (knee, -pulls[0] - pulls[1]), (insertion, pulls[1])]

    @property
    def length(self):
        return self.span

    @property
    def extension_velocity(self):
        return self.rate

    def to_loads(self, force_magnitude):
        return [me.Force(point, force_magnitude * pull) for point, pull in self.pulls]


def leg():
    """Frames, points and muscles."""
    ground = me.ReferenceFrame("N")
    frames, axle, at = [], me.Point("axle"), []
    parent, point = ground, axle
    axle.set_vel(ground, 0)
    for name, angle, rate, length in zip("ABCD", q, u, (CRANK, FOOT, LOWER, UPPER), strict=True):
        frame = parent.orientnew(name, "Axis", (angle, parent.z))
        frame.set_ang_vel(parent, rate * parent.z)
        ends = [(0.5, "o"), (1.0, "end"), (1.5, "beyond"), (1 / 6, "upper")]
        row = {key: point.locatenew(name + key, share * length * frame.x) for share, key in ends}
        if name == "C":
            row["patella"] = point.locatenew("patella", (length - 2 * KNEE) * frame.x)
        for moved in row.values():
            moved.v2pt_theory(point, ground, frame)
        frames.append(frame)
        at.append(row)
        parent, point = frame, row["end"]
    return ground, frames, axle, at


def muscles(frames, at):
    """By name, with their excitations as inputs and activations as states."""
    A, B, C, D = at
    paths = {
        "knee_top": Extensor(C["patella"], C["end"], D["end"], frames[2:], q[3]),
        "knee_bot": me.LinearPathway(C["patella"], D["end"]),
        "ankle_top": me.LinearPathway(C["upper"], A["end"]),
        "ankle_bot": me.LinearPathway(C["upper"], B["beyond"]),
    }
    activation = bm.FirstOrderActivationDeGroote2016.with_defaults
    made = bm.MusculotendonDeGroote2016.with_defaults
    return [made(name, path, activation(name)) for name, path in paths.items()]


def model():
    """The bicycle, postures that close the loop, and the muscles."""
    ground, frames, axle, at = leg()
    pull = muscles(frames, at)
    hip = SEAT * (-np.cos(TUBE) * ground.x + np.sin(TUBE) * ground.y)
    gap = (at[3]["end"].pos_from(axle) - hip).to_matrix(ground)[:2, :]
    rows = zip(at, frames, MASSES, INERTIAS, strict=True)
    bodies = [
        me.RigidBody(f.name, p["o"], f, m, (me.inertia(f, 0, 0, i), p["o"])) for p, f, m, i in rows
    ]
    rolling = 0.006 * RIDER * G * WHEEL * GEAR
    air = 1.204 * 1.15 * 0.55 * GEAR**3 * WHEEL**3 / 2
    inertia = (2 * 0.1524 + RIDER * WHEEL**2) * GEAR**2
    loads = [load for muscle in pull for load in muscle.to_loads()]
    loads += [(p["o"], -m * G * ground.y) for p, m in zip(at[1:], MASSES[1:], strict=True)]
    loads += [
        (frames[0], (rolling + air * u[0] ** 2 - inertia * u[0].diff(ks.t)) * ground.z),
        (frames[1], ANKLE * u[2] * ground.z),
        (frames[2], -ANKLE * u[2] * ground.z),
    ]
    kane = me.KanesMethod(
        ground,
        q[:2],
        u[:2],
        [v - rate for rate, v in SPEEDS.items()],
        q_dependent=q[2:],
        configuration_constraints=gap,
        velocity_constraints=me.msubs(gap.diff(ks.t), SPEEDS),
        u_dependent=u[2:],
        constraint_solver="CRAMER",
    )
    kane.kanes_equations(bodies, loads)
    loop = sp.lambdify([q[:2], q[2:]], list(gap))
    lengths = sp.lambdify([q], [muscle.pathway.length for muscle in pull])
    tuned: dict[sp.Symbol, float] = {}
    for muscle, length in zip(
        pull, lengths(posture(loop, -TUBE, 1.5 * np.pi, [-1.7, 0.3])), strict=True
    ):
        force = {muscle.F_M_max: FORCES[muscle.name], muscle.l_T_slack: length / 2}
        tuned |= {**force, muscle.l_M_opt: length / 2 + 0.01}
    active = [muscle.a for muscle in pull]
    leg_model = ks.Model.from_kane(kane, active, name="one_legged_time_trial", values=tuned)
    rates = {muscle.a: muscle.rhs()[0] for muscle in pull}
    return leg_model.extended(rates, [muscle.e for muscle in pull]).reduced_index(), loop


def posture(loop, crank, foot, near):
    """All angles, from those of crank and foot."""
    rest = fsolve(lambda others: loop([crank, foot], others), near, xtol=1e-12)
    return np.array([crank, foot, *rest])


def problem(nodes=int(100 * TURNS), scheme="backward-euler"):
    pedalling, loop = model()
    begin = posture(loop, 0.0, np.pi, np.deg2rad([-90.0, 90.0]))
    most, muscle = 2 * np.pi * TURNS, pedalling.inputs
    active = [x for x in pedalling.states if x.func.__name__.startswith("a_")]
    return ks.Collocation(
        pedalling,
        ks.Experiment(nodes=nodes, duration=(1e-2, 0.1 * (nodes - 1))),
        objective=ks.Terminal(ks.t),
        boundary=[
            *(ks.at_start(x) - value for x, value in zip(q, begin, strict=True)),
            *map(ks.at_start, (*u, *active)),
            ks.at_end(q[0]) + most,
        ],
        bounds={
            q[0]: (-most - 4 * np.pi, 0),
            q[2]: np.deg2rad((-105, -30)),
            q[3]: (0, 1.5 * np.pi),
            u[0]: (-30, 0),
        },
        unknown_inputs=dict.fromkeys(muscle, (0, 1)),
        scheme=scheme,
    ), loop


def solve(nodes=int(100 * TURNS)):
    """From a foot that stays as it is while the crank turns faster and faster."""
    task, loop = problem(nodes)
    share, duration = np.linspace(0.0, 1.0, nodes), 4.0
    crank, near, rows = -2 * np.pi * TURNS * share**1.5, np.deg2rad([-90.0, 90.0]), []
    for angle in crank:
        rows.append(posture(loop, angle, np.pi - angle, near))
        near = rows[-1][2:]
    rows = np.clip(rows, [-np.inf, -np.inf, *map(np.deg2rad, (-105, 0))], np.inf)
    rates = np.gradient(rows, duration * share, axis=0)
    guess = dict(zip((*q, *u), (*np.transpose(rows), *rates.T), strict=True))
    return task.solve(guess={**guess, "duration": duration})


main = shown(solve, *q, *(f"a_{name}" for name in FORCES))
