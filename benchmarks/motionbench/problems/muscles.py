"""Muscles, reflexes and people: elbows, several subjects, a hand that tracks."""

from ..declare import (
    Start,
    Unknown,
    channel,
    clock,
    exact,
    noisy,
    problem,
    sines,
    state,
    swing,
    turning,
)

PLAUSIBLE = "Values plausible for an adult."

PROBLEMS = [
    problem(
        "elbow_muscles",
        "Two muscles move an elbow under known excitations",
        ["muscle"],
        "Hill-type torques with first-order activation, as in Zajac 1989, Crit. Rev. Biomed. Eng. "
        "17, 359-411; curves of this suite. " + PLAUSIBLE,
        states={
            "theta": state("rad", 0.3, "flexion from hanging"),
            "omega": state("rad/s"),
            "f": state("1", 0.05, "activation of flexors"),
            "e": state("1", 0.05, "of extensors"),
        },
        inputs={
            "u_f": exact("1", "0.14 + 0.07*sin(3*t) + 0.06*sin(7.1*t)", 0.05, "held"),
            "u_e": exact("1", "0.09 + 0.07*sin(4.4*t + 1)", 0.05, "held"),
        },
        let={
            "flex": "T_f*f*exp(-((theta - 1.4)/1.2)**2)*(1 - tanh(omega/v_max))",
            "extend": "T_e*e*exp(-((theta - 1.0)/1.2)**2)*(1 + tanh(omega/v_max))",
        },
        rates={
            "theta": "omega",
            "omega": "(flex - extend - b*omega - k*(theta - 0.9) - m*g*l*sin(theta))/J",
            "f": "(u_f - f)/tau",
            "e": "(u_e - e)/tau",
        },
        known={
            "m": (1.5, "kg"),
            "l": (0.18, "m"),
            "J": (0.07, "kg m^2"),
            "g": (9.81, "m/s^2"),
            "b": (0.25, "N m s/rad"),
            "k": (3.0, "N m/rad"),
        },
        unknown={
            "T_f": Unknown("N m", 1, 150, 20.0, 34.0),
            "T_e": Unknown("N m", 1, 150, 20.0, 26.0),
            "tau": Unknown("s", 0.005, 0.3, 0.03, 0.06),
            "v_max": Unknown("rad/s", 2, 60, 10.0, 14.0),
        },
        measured={"elbow": channel("theta", "rad", 0.005)},
        clocks={"main": clock(6.0, 0.01)},
    ),
    problem(
        "elbow_impedance",
        "Inertia, damping and stiffness of an elbow from a noisy force sensor",
        ["errors in variables"],
        "Bennett, Hollerbach, Xu, Hunter 1992, Exp. Brain Res. 88, 433-442 (the test). "
        + PLAUSIBLE,
        states=swing(),
        inputs={"T": noisy("N m", sines((1.0, 3.1, 0), (1.2, 9.7, 1), (1.5, 17.3, 2)), 0.025, 0.5)},
        rates=turning("(T - B*omega - K*theta)/J"),
        unknown={
            "J": Unknown("kg m^2", 0.005, 0.5, 0.05, 0.075),
            "B": Unknown("N m s/rad", 0, 10, 0.5, 0.9),
            "K": Unknown("N m/rad", 0, 200, 10.0, 18.0),
        },
        measured={"elbow": channel("theta", "rad", 0.002)},
        clocks={"main": clock(6.0, 0.0125)},
    ),
    problem(
        "strength_and_arm",
        "Strength of a muscle and its moment arm at once, from the motion alone",
        ["cannot be known", "muscle"],
        "Only their product moves the joint. " + PLAUSIBLE,
        states=swing(0.1),
        inputs={"u": exact("1", "0.3 + 0.2*sin(2.7*t) + 0.1*sin(6.3*t)", 0.05)},
        rates=turning("(F*r*u - b*omega - m*g*l*sin(theta))/J"),
        known={"m": (1.5, "kg"), "l": (0.18, "m"), "J": (0.07, "kg m^2"), "g": (9.81, "m/s^2")},
        unknown={
            "F": Unknown("N", 10, 2000, 200.0, 110.0),
            "r": Unknown("m", 0.005, 0.1, 0.03, 0.035),
            "b": Unknown("N m s/rad", 0, 5, 0.3, 0.6),
        },
        measured={"elbow": channel("theta", "rad", 0.005)},
        clocks={"main": clock(6.0, 0.02)},
        cannot_be_known=["F", "r"],
    ),
    problem(
        "knees_of_four",
        "Pendulum tests of four persons, twice each: common and own parameters",
        ["several subjects", "unknown start"],
        "As knee_swing; persons differ in mass, stiffness and damping, rest angles from trial to "
        "trial. " + PLAUSIBLE,
        states=swing(Start(-0.5, 2.0, 1.0, [1.1, 0.9, 1.0, 1.2, 0.8, 1.0, 1.1, 0.95])),
        rates=turning("(-b*omega - k*(theta - rest) - m*g*l*sin(theta))/(m*rho2)"),
        known={"l": (0.26, "m"), "g": (9.81, "m/s^2"), "m": (4.6, "kg")},
        unknown={
            "rho2": Unknown("m^2", 0.02, 0.4, 0.06, 0.087, meaning="squared radius of gyration"),
            "k": Unknown(
                "N m/rad", 0, 50, 6.0, {"s1": 3.4, "s2": 5.2, "s3": 2.6, "s4": 4.4}, "subject"
            ),
            "b": Unknown(
                "N m s/rad", 0, 5, 0.8, {"s1": 0.38, "s2": 0.6, "s3": 0.3, "s4": 0.9}, "subject"
            ),
            "rest": Unknown(
                "rad",
                -1,
                1,
                0.0,
                dict(zip("01234567", (0.25, 0.21, 0.1, 0.16, 0.3, 0.27, -0.05, 0.02), strict=True)),
                "trial",
            ),
        },
        measured={"angle": channel("theta", "rad", 0.01)},
        clocks={"main": clock(5.0, 0.02)},
        trials=[
            {"subject": f"s{k // 2 + 1}", "known": {"m": (4.6, 5.3, 3.9, 4.9)[k // 2]}}
            for k in range(8)
        ],
    ),
    problem(
        "tracking_hand",
        "A person keeps a cursor on a target that moves: gain and reaction time",
        ["delay", "closed loop"],
        "McRuer, Jex 1967, IEEE Trans. Hum. Factors Electron. 8, 231-249: the crossover model. "
        "Before the start hand and target rest at their first values.",
        states={"y": state("cm", 0.0, "cursor")},
        inputs={
            "r": exact(
                "cm", sines((2, 0.4, 0), (1.5, 1.1, 0.5), (0.8, 2.7, 1.5)), 0.05, meaning="target"
            )
        },
        delays=["tau"],
        rates={"y": "K*(delayed(r, tau) - delayed(y, tau))"},
        unknown={
            "K": Unknown("1/s", 0.5, 10, 2.0, 3.9),
            "tau": Unknown("s", 0.05, 0.4, 0.10, 0.21),
        },
        measured={"cursor": channel("y", "cm", 0.25)},
        clocks={"main": clock(30.0, 0.05)},
    ),
]
