"""Validation of a person on a ship: four models against four codes that share no formula with them.

Bourgeois and Langlois 2015 compare their model of 18 degrees of freedom with a rigid body (GRM3D),
a pendulum (PSM3D), a planar chain on a cart (CARTIP) and a multibody program (SIM3D). This repeats
the four comparisons, figures 3 to 8, over 30 s at 100 Hz by RK4. The other codes are written here,
each by another route than the model: one composite body by Newton and Euler; the same on a joint
with two speeds; Lagrange in absolute angles, and linear in closed form; Pinocchio, with six joints
for the ship and three hinges for every ball joint. They are integrated to ten digits, so that the
differences are the errors of RK4 (GRM3D: rounding; linear chain: the linearisation).
"""

import csv
import importlib
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import solve_ivp
from scipy.spatial.transform import Rotation

import kinesym as ks

STEP = 0.01  # s
LINKS = ("shank", "thigh", "trunk", "head")
ANGLES = [f"{link}_{axis}" for link in LINKS for axis in "xyz"]

#: Motion of the ship, three sines each: amplitudes [deg, m], frequencies [rad/s], phases [rad].
WAVES = np.array(
    [
        [[5.0, 2.0, 1.0], [0.60, 0.85, 1.3], [0.0, 1.1, 2.0]],  # roll
        [[2.0, 1.2, 0.5], [0.75, 1.05, 1.6], [0.3, 1.7, 0.9]],  # pitch
        [[1.5, 0.5, 0.3], [0.40, 0.70, 1.1], [2.2, 0.4, 1.5]],  # yaw
        [[0.5, 0.3, 0.05], [0.55, 0.80, 1.9], [0.7, 1.9, 0.2]],  # surge
        [[0.8, 0.3, 0.05], [0.62, 0.88, 2.1], [1.3, 0.1, 2.7]],  # sway
        [[1.0, 0.5, 0.08], [0.70, 1.00, 2.3], [0.5, 2.4, 1.0]],  # heave
    ]
)
OMEGA, PHASE = WAVES[:, 1], WAVES[:, 2]
AMPLITUDE = WAVES[:, 0] * np.radians([[1.0]] * 3 + [[180.0 / np.pi]] * 3)
SURGE = AMPLITUDE * [[0.0], [0.0], [0.0], [1.0], [0.0], [0.0]]
#: Of the motion and its first two derivatives, each a quarter of a turn ahead of the one before.
RATES = np.array([AMPLITUDE * OMEGA**k for k in range(3)])
PHASES = np.array([PHASE + k * np.pi / 2 for k in range(3)])

#: What the figures of the paper show.
TITLES = {
    3: "rigid body: forces of the ship on the feet",
    4: "rigid body: moments about the ankle",
    5: "pendulum: angles",
    6: "pendulum: forces of the ship on the feet",
    7: "four links on a cart: link 4, from the vertical",
    8: "four links on a ship: joint angles of links 1 and 4",
}


@dataclass(frozen=True)
class Signal:
    """One quantity by kinesym and by another code. paper: NRMSE printed there [%]."""

    figure: int | None
    model: str
    name: str
    unit: str
    ours: np.ndarray
    other: np.ndarray
    code: str
    paper: str = ""

    @property
    def nrmse(self):
        """[%]"""
        return 100.0 * ks.nrmse(self.ours, self.other)


# -- ours -----------------------------------------------------------------------------------------


def simulate(model, time, initial=None, amplitude=AMPLITUDE):
    """A model on the ship by RK4, from zero where not given."""
    motion = ks.Motion.harmonics(OMEGA, amplitude, PHASE)
    start = {**dict.fromkeys(model.state_names, 0.0), **(initial or {})}
    return ks.simulate(model, time, start, inputs=motion.inputs("ship", time, model.input_names))


def reactions(figure, model, kind, unit, run, other, code, papers):
    """Signals of the force or moment of the ship on the feet, in axes of the ship."""
    return [
        Signal(figure, model, f"{kind} {axis}", unit, run[f"base_{kind}_{axis}"], row, code, p)
        for axis, row, p in zip("xyz", other, papers, strict=True)
    ]


def joint_angles(figure, model, link, run, other, code, papers):
    """Signals of as many joint angles of a link as `other` has [rad]."""
    turns = [("x", "roll"), ("y", "pitch"), ("z", "yaw")][: len(other)]
    return [
        Signal(
            figure,
            model,
            f"{turn} of link {link}",
            "deg",
            np.degrees(run[f"{LINKS[link - 1]}_{axis}"]),
            np.degrees(row),
            code,
            p,
        )
        for (axis, turn), row, p in zip(turns, other, papers, strict=True)
    ]


# -- the others: the ship and the person ----------------------------------------------------------


def motion(t):
    """Roll, pitch, yaw [rad] and place [m] of the ship with two derivatives, (3, 6)."""
    return (RATES * np.sin(OMEGA * t + PHASES)).sum(axis=-1)


def turning(angles):
    """E of w = E angles', for roll, pitch, yaw (..., 3); w in the axes of the body."""
    (_, b, c), zero = np.moveaxis(angles, -1, 0), np.zeros_like(angles[..., 0])
    rows = [
        [np.cos(b) * np.cos(c), np.sin(c), zero],
        [-np.cos(b) * np.sin(c), np.cos(c), zero],
        [np.sin(b), zero, zero + 1.0],
    ]
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


def deck(t, gravity):
    """w, w' and the acceleration of the origin minus gravity, in axes of the ship."""
    tiny = 1e-30
    values, first, second = motion(t + 1j * tiny)  # a complex step: no second formula for w'
    w = turning(values[:3]) @ first[:3]
    C = Rotation.from_euler("XYZ", values[:3].real).as_matrix()
    return w.real, w.imag / tiny, C.T @ (second[3:].real + [0.0, 0.0, gravity])


def numbers(values):
    """Masses (4,), centres of mass, joints on the link below and principal moments (4, 3)."""
    vectors = [
        [[values.get(f"{link}_{letter}{axis}", 0.0) for axis in "xyz"] for link in LINKS]
        for letter in "crI"
    ]
    return np.array([values[f"{link}_m"] for link in LINKS]), *map(np.array, vectors)


def gains(values, names):
    """Kp [N m/rad] and Kd [N m s/rad] of joint angles."""
    return (np.array([values[f"{kind}_{name}"] for name in names]) for kind in ("Kp", "Kd"))


def cross(a, b):
    (a1, a2, a3), (b1, b2, b3) = a, b
    return np.array([a2 * b3 - a3 * b2, a3 * b1 - a1 * b3, a1 * b2 - a2 * b1])


def integrate(slope, start, time):
    """States (n, N) at these times, to ten digits."""
    return solve_ivp(
        slope, time[[0, -1]], start, "DOP853", time, rtol=1e-10, atol=1e-11, max_step=0.05
    ).y


# -- GRM3D: a rigid body --------------------------------------------------------------------------


def composite(values):
    """Mass, centre of mass (3,) and moments of inertia (3, 3) about the ankle, standing upright."""
    m, com, joint, inertia = numbers(values)
    c = np.cumsum(joint, axis=0) + com
    about = sum(
        np.diag(i) + mass * (x @ x * np.eye(3) - np.outer(x, x))
        for mass, x, i in zip(m, c, inertia, strict=True)
    )
    return m.sum(), m @ c / m.sum(), about


def wrench(body, w, dw, lift):
    """Force and moment about its origin that move a body, in its axes: Newton and Euler."""
    mass, com, inertia = body
    force = mass * (lift + cross(dw, com) + cross(w, cross(w, com)))
    return force, inertia @ dw + cross(w, inertia @ w) + mass * cross(com, lift)


def rigid_body(values, time):
    """Force (3, N) and moment (3, N) of the ship on the body about the ankle, axes of the ship."""
    body = composite(values)
    return np.array([wrench(body, *deck(t, values["g"])) for t in time]).transpose(1, 2, 0)


def grm3d(time):
    """Figures 3 and 4."""
    model = ks.models.grm3d()
    run = simulate(model, time)
    (force, moment), code = rigid_body(model.values, time), "Newton-Euler"
    rows = reactions(3, "GRM3D", "force", "N", run, force, code, ("0.51", "0.18", "0.15"))
    return rows + reactions(
        4, "GRM3D", "moment", "N m", run, moment, code, ("0.41", "0.57", "0.80")
    )


# -- PSM3D: a pendulum ----------------------------------------------------------------------------


def pendulum_rates(values, body, t, state):
    """Rates of (angles, w_x, w_y), and the force of the ship in its axes [N]; w_z is locked."""
    kp, kd = gains(values, ("shank_x", "shank_y"))
    angles, u = state[:3], np.append(state[3:], 0.0)
    C = Rotation.from_euler("XYZ", angles).as_matrix()
    w_ship, dw_ship, lift = deck(t, values["g"])
    carried = C.T @ w_ship
    force, moment = wrench(body, carried + u, C.T @ dw_ship - cross(u, carried), C.T @ lift)
    mass, com, inertia = body  # force and moment so far are those without u'
    du = np.linalg.solve(inertia[:2, :2], -kp * angles[:2] - kd * u[:2] - moment[:2])
    force += mass * cross(np.append(du, 0.0), com)
    return np.concatenate([np.linalg.solve(turning(angles), u), du]), C @ force


def pendulum(values, time, start):
    """Angles (3, N) [rad] and the force of the ship (3, N) [N]."""
    body = composite(values)
    states = integrate(lambda t, s: pendulum_rates(values, body, t, s)[0], start, time)
    forces = [pendulum_rates(values, body, t, s)[1] for t, s in zip(time, states.T, strict=True)]
    return states[:3], np.array(forces).T


def psm3d(time):
    """Figures 5 and 6."""
    model, start, code = ks.models.psm3d(), {"shank_x": 0.02, "shank_y": 0.03}, "Euler's equations"
    run = simulate(model, time, start)
    angles, force = pendulum(model.values, time, [*start.values(), 0.0, 0.0, 0.0])
    rows = joint_angles(5, "PSM3D", 1, run, angles[:2], code, ("0.32", "0.45"))
    return rows + reactions(6, "PSM3D", "force", "N", run, force, code, ("0.51", "0.85", "1.61"))


# -- CARTIP: a planar chain on a cart -------------------------------------------------------------


def planar(values):
    """Masses (4,), moments (4, 4), arms (4, 4, 2) of mass k along link i [m], Kp and Kd (4, 4)."""
    m, com, joint, inertia = numbers(values)
    along = np.roll(joint, -1, axis=0)  # the next joint on each link
    arms = np.array(
        [[com[k] if i == k else along[i] * (i < k) for i in range(4)] for k in range(4)]
    )[..., [0, 2]]
    relative = np.eye(4) - np.eye(4, k=-1)  # joint angles from absolute ones
    kp, kd = (
        relative.T @ np.diag(g) @ relative for g in gains(values, [f"{link}_y" for link in LINKS])
    )
    return m, np.diag(inertia[:, 1]), arms, kp, kd


def pitched(arms, q):
    """Arms (2, 4, 4) turned by absolute pitch angles (4,), and how they change with them."""
    x, z, s, c = arms[..., 0], arms[..., 1], np.sin(q), np.cos(q)
    return np.stack([c * x + s * z, c * z - s * x]), np.stack([c * z - s * x, -s * z - c * x])


def chain_nonlinear(values, time):
    """Absolute pitch angles (4, N) by Lagrange's equations, surge only, no gravity."""
    m, inertia, arms, kp, kd = planar(values)

    def slope(t, state):
        q, u = np.split(state, 2)
        place, change = pitched(arms, q)
        M = np.einsum("k,aki,akj->ij", m, change, change) + inertia
        push = -place @ u**2  # what accelerates the masses besides q'', (2, 4)
        push[0] += motion(t)[2, 3]
        return np.append(
            u, np.linalg.solve(M, -np.einsum("k,aki,ak->i", m, change, push) - kp @ q - kd @ u)
        )

    return integrate(slope, np.zeros(8), time)[:4]


def chain_linear(values, time):
    """The same of M q'' + C q' + K q = -M_qs x_s'', by eigenvectors: no integration."""
    m, inertia, arms, kp, kd = planar(values)
    change = pitched(arms, np.zeros(4))[1]
    M = np.einsum("k,aki,akj->ij", m, change, change) + inertia
    # q_k = Im sum X e^{i w t}, X from each sine of x_s = Im sum a e^{i (w t + p)}
    w, push = OMEGA[3], AMPLITUDE[3] * OMEGA[3] ** 2 * np.exp(1j * PHASE[3])
    X = np.array(
        [
            np.linalg.solve(kp + 1j * s * kd - s * s * M, (m @ change[0]) * f)
            for s, f in zip(w, push, strict=True)
        ]
    )
    A = np.vstack([np.eye(4, 8, k=4), -np.linalg.solve(M, np.hstack([kp, kd]))])
    decay, modes = np.linalg.eig(A)
    start = -np.concatenate([X.sum(axis=0).imag, (w @ (1j * X)).imag])
    free = modes @ (np.linalg.solve(modes, start)[:, None] * np.exp(np.outer(decay, time)))
    return free[:4].real + (X.T @ np.exp(1j * np.outer(w, time))).imag


def cartip(time):
    """Figure 7, and in the table the other links too."""
    model = ks.models.cartip()
    run = simulate(model, time, amplitude=SURGE)
    ours = np.cumsum([run[f"{link}_y"] for link in LINKS], axis=0)  # from the vertical
    codes = {
        "nonlinear chain": chain_nonlinear(model.values, time),
        "linear chain": chain_linear(model.values, time),
    }
    return [
        Signal(
            7 if k == 3 else None,
            "CARTIP",
            f"pitch of link {k + 1}",
            "deg",
            np.degrees(ours[k]),
            np.degrees(other[k]),
            code,
            "0.17 to 0.29" if k == 3 else "",
        )
        for code, other in codes.items()
        for k in range(4)
    ]


# -- SIM3D: Pinocchio -----------------------------------------------------------------------------


def pinocchio_chain(pin, values):
    """A world, three slides and three hinges to the ship, and three hinges to every link."""
    model = pin.Model()
    model.gravity.linear = np.array([0.0, 0.0, -values["g"]])

    def add(kinds, at):
        place = pin.SE3(np.eye(3), at)
        for kind in kinds.split():
            axis = getattr(pin, f"JointModel{kind}")()
            last = model.addJoint(model.njoints - 1, axis, place, f"{kind} {model.njoints}")
            place = pin.SE3.Identity()
        return last

    add("PX PY PZ RX RY RZ", np.zeros(3))
    for m, com, at, inertia in zip(*numbers(values), strict=True):
        joint = add("RX RY RZ", at)
        model.appendBodyToJoint(joint, pin.Inertia(m, com, np.diag(inertia)), pin.SE3.Identity())
    return model


def pinocchio_states(pin, values, time):
    """Bryant angles (12, N) and angular velocities (12, N) of the joints, from rest at zero.

    A torque M along w does the work of E^T M along the rates of the angles.
    """
    model = pinocchio_chain(pin, values)
    data = model.createData()
    kp, kd = (gain.reshape(4, 3) for gain in gains(values, ANGLES))

    def slope(t, state):
        q, u = np.split(state, 2)
        ship = motion(t)[:, [3, 4, 5, 0, 1, 2]]  # place first
        whole, angles = np.append(ship[0], q), q.reshape(4, 3)
        E = turning(angles)
        torque = -kp * angles - kd * (E @ u.reshape(4, 3, 1))[..., 0]
        bias = pin.rnea(model, data, whole, np.append(ship[1], u), np.append(ship[2], 0.0 * u))
        M = pin.crba(model, data, whole)
        return np.append(u, np.linalg.solve(M[6:, 6:], (torque[:, None] @ E).ravel() - bias[6:]))

    q, u = integrate(slope, np.zeros(24), time).reshape(2, 4, 3, -1).transpose(0, 3, 1, 2)
    w = (turning(q) @ u[..., None])[..., 0]
    return q.reshape(-1, 12).T, w.reshape(-1, 12).T


def sim3d(pin, time):
    """Figure 8."""
    model = ks.models.sim3d()
    run = simulate(model, time)
    angles = pinocchio_states(pin, model.values, time)[0]
    rows = joint_angles(8, "SIM3D", 1, run, angles[:3], "Pinocchio", ["0.17"] * 3)
    return rows + joint_angles(8, "SIM3D", 4, run, angles[9:], "Pinocchio", ["0.30"] * 3)


def transient(pin):
    """SIM3D in its first second by RK4 with steps h, h/2, h/4, h/8.

    Returns the run with h, the pitch rate of link 2 [rad/s] and its times by Pinocchio, and by step
    the largest error of all angles at multiples of h [deg].
    """
    model, time = ks.models.sim3d(), STEP / 8 * np.arange(801)
    angles, speeds = pinocchio_states(pin, model.values, time)
    runs = {k: simulate(model, time[:: 8 // k]) for k in (1, 2, 4, 8)}
    ours = {k: np.array([run[name][::k] for name in ANGLES]) for k, run in runs.items()}
    errors = {
        STEP / k: np.degrees(np.abs(rows - angles[:, ::8])).max(axis=0) for k, rows in ours.items()
    }
    return runs[1], time, speeds[ANGLES.index("thigh_y")], errors


def orders(errors):
    """Observed orders of convergence, longest step first."""
    largest = np.array([row.max() for row in errors.values()])
    return np.log2(largest[:-1] / largest[1:])


# -- pictures and table ---------------------------------------------------------------------------


def difference(axis, time, s):
    """The difference of two codes; what the first second makes much larger is cut off and said."""
    values = s.ours - s.other
    axis.plot(time, values, "C3", lw=0.9)
    axis.set_ylabel(f"difference [{s.unit}]")
    axis.set_title(f"NRMSE {s.nrmse:.1e} %, paper {s.paper} %", loc="right", fontsize="medium")
    axis.ticklabel_format(axis="y", scilimits=(-2, 3), useMathText=True)
    largest, later = np.abs(values).max(), np.abs(values[time >= 1.0]).max(initial=0.0)
    if 0.0 < later < 0.5 * largest:
        axis.set_ylim(-1.5 * later, 1.5 * later)
        axis.text(
            0.98,
            0.04,
            f"first second: up to {largest:.1e} {s.unit}",
            ha="right",
            transform=axis.transAxes,
            fontsize="small",
            color="C3",
        )


def picture(number, time, signals):
    """Every signal by both codes, and beside it their difference on a scale of its own."""
    fig, axes = plt.subplots(
        len(signals),
        2,
        figsize=(12, 0.8 + 1.9 * len(signals)),
        sharex=True,
        squeeze=False,
        width_ratios=(3, 2),
        layout="constrained",
    )
    for (left, right), s in zip(axes, signals, strict=True):
        left.plot(time, s.ours, "C0", lw=3.0, alpha=0.6, label="kinesym")
        left.plot(time, s.other, "k--", lw=1.0, label=s.code)
        left.set_ylabel(f"{s.name} [{s.unit}]")
        left.legend(
            loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.1, ncols=2, frameon=False
        )
        difference(right, time, s)
    for axis in axes.flat:
        axis.grid(alpha=0.3)
        axis.margins(x=0.0)
    fig.supxlabel("time [s]")
    fig.align_ylabels()
    fig.suptitle(f"Figure {number}. {signals[0].model}, {TITLES[number]}")
    return fig


def transient_picture(run, time, speed, errors):
    """The speed whose error is most visible, and the error of the angles for every step."""
    fig, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5), layout="constrained")
    early, nodes = time <= 0.06, run.time <= 0.06
    left.plot(time[early], np.degrees(speed[early]), "k--", lw=1.0, label="Pinocchio")
    left.plot(
        run.time[nodes],
        np.degrees(run["thigh_wy"][nodes]),
        "C0o",
        ms=6,
        alpha=0.7,
        label=f"kinesym, RK4 at {STEP} s",
    )
    left.set(xlabel="time [s]", ylabel="pitch rate of link 2 [deg/s]")
    for h, row in errors.items():
        right.semilogy(run.time[1:], row[1:], lw=1.2, label=f"h = {h:g} s, up to {row.max():.1e}")
    right.set(xlabel="time [s]", ylabel="largest error of all angles [deg]")
    for axis in (left, right):
        axis.legend()
        axis.grid(alpha=0.3)
    fig.suptitle(
        "SIM3D from rest, error of RK4 in the first second; order on halving h: "
        f"{', '.join(f'{order:.2f}' for order in orders(errors))}"
    )
    return fig


def table(path, signals):
    """All comparisons as text, and as a file."""
    rows = [
        ("model", "signal", "other_code", "nrmse_percent", "paper_percent"),
        *((s.model, s.name, s.code, f"{s.nrmse:.1e}", s.paper) for s in signals),
    ]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return "\n".join(f"{a:<8}{b:<17}{c:<18}{d:>13}  {e}" for a, b, c, d, e in rows)


def other_program():
    """Pinocchio, or None and a sentence."""
    try:
        return importlib.import_module("pinocchio")
    except ImportError:
        print(
            "SIM3D and figure 8 are left out: Pinocchio is not installed; `pip install pin` "
            "gets it.\n"
        )
        return None


def main(out: Path, nodes: int | None = None) -> list[Path]:
    """The four comparisons: table, CSV file and figures 3 to 8, and the error of RK4."""
    time, pin = STEP * np.arange(nodes or 3001), other_program()
    signals = [*grm3d(time), *psm3d(time), *cartip(time), *(sim3d(pin, time) if pin else ())]
    print(table(out / "ship_validation.csv", signals))
    shown = {k: [s for s in signals if s.figure == k] for k in TITLES}
    pictures = {f"ship_fig{k}.png": picture(k, time, rows) for k, rows in shown.items() if rows}
    if pin:
        run, fine, speed, errors = transient(pin)
        sizes = ", ".join(f"{row.max():.1e} deg with {h:g} s" for h, row in errors.items())
        print(f"\nSIM3D, largest error of RK4 in the first second: {sizes}")
        print("order on halving the step:", ", ".join(f"{k:.2f}" for k in orders(errors)))
        pictures["ship_rk4.png"] = transient_picture(run, fine, speed, errors)
    for name, fig in pictures.items():
        fig.savefig(out / name, dpi=120)
        plt.close(fig)
    return [out / name for name in pictures]
