"""Pendulums: the knee that swings, two links with friction, sensors of several kinds."""

from ..declare import Start, Unknown, channel, clock, exact, problem, sines, state, swing, turning

STANDARD = "Textbook equations; values of this suite."

PROBLEMS = [
    problem(
        "knee_swing",
        "Pendulum test of the knee: the relaxed shank is dropped and swings",
        ["smooth", "unknown start"],
        "Lin, Rymer 1991, IEEE Trans. Biomed. Eng. 38, 166-179 (test and model); values plausible "
        "for 75 kg: m, l by Winter, Biomechanics and Motor Control, table 4.1.",
        states=swing(Start(-0.5, 2.0, 1.0, 1.05), meaning="knee angle from hanging"),
        rates=turning("(-b*omega - k*(theta - theta_0) - m*g*l*sin(theta))/J"),
        known={"m": (4.6, "kg"), "l": (0.26, "m"), "J": (0.40, "kg m^2"), "g": (9.81, "m/s^2")},
        unknown={
            "b": Unknown("N m s/rad", 0, 5, 1.0, 0.38),
            "k": Unknown("N m/rad", 0, 50, 10.0, 3.4),
            "theta_0": Unknown("rad", -1, 1, 0.0, 0.25, meaning="rest angle of the tissue"),
        },
        measured={"angle": channel("theta", "rad", 0.01)},
        clocks={"main": clock(8.0, 0.02)},
    ),
    problem(
        "pendulum_bad_guess",
        "A long record of a pendulum, and a guess that is off by a factor 10",
        ["bad guesses", "smooth"],
        "Vyasarayani, Uchida, Carvalho, McPhee 2011, Multibody Syst. Dyn. 26, 411-424: a pendulum "
        "over 50 s has many local minima by simulation.",
        states=swing(0.5),
        rates=turning("-p*sin(theta)"),
        unknown={"p": Unknown("1/s^2", 0.1, 50, 1.0, 10.0, meaning="g over length")},
        measured={"angle": channel("theta", "rad", 0.05)},
        clocks={"main": clock(50.0, 0.02)},
    ),
    problem(
        "double_pendulum_friction",
        "Two links swing down, with viscous and dry friction in both joints",
        ["friction", "chaotic", "smooth"],
        "Equations of the point-mass double pendulum; dry friction as tanh(omega/0.05). "
        + STANDARD,
        states={
            "q1": state("rad", 1.6, "first angle from hanging"),
            "q2": state("rad", -0.9, "second angle from hanging"),
            "w1": state("rad/s"),
            "w2": state("rad/s"),
        },
        let={
            "s": "sin(q1 - q2)",
            "c": "cos(q1 - q2)",
            "dw": "w2 - w1",
            "e1": "b1*w1 + f1*tanh(w1/0.05)",
            "e2": "b2*dw + f2*tanh(dw/0.05)",
            "r1": "-m2*l1*l2*s*w2**2 - (m1 + m2)*g*l1*sin(q1) - e1 + e2",
            "r2": "m2*l1*l2*s*w1**2 - m2*g*l2*sin(q2) - e2",
            "a11": "(m1 + m2)*l1**2",
            "a12": "m2*l1*l2*c",
            "a22": "m2*l2**2",
            "det": "a11*a22 - a12**2",
        },
        rates={
            "q1": "w1",
            "q2": "w2",
            "w1": "(a22*r1 - a12*r2)/det",
            "w2": "(a11*r2 - a12*r1)/det",
        },
        known={"m1": (0.6, "kg"), "m2": (0.4, "kg"), "l1": (0.30, "m"), "g": (9.81, "m/s^2")},
        unknown={
            "l2": Unknown("m", 0.05, 1, 0.23, 0.25),
            "b1": Unknown("N m s/rad", 0, 0.2, 0.01, 0.004),
            "b2": Unknown("N m s/rad", 0, 0.2, 0.01, 0.002),
            "f1": Unknown("N m", 0, 0.5, 0.01, 0.03),
            "f2": Unknown("N m", 0, 0.5, 0.01, 0.015),
        },
        measured={"first": channel("q1", "rad", 0.01), "second": channel("q2", "rad", 0.01)},
        clocks={"main": clock(5.0, 0.01)},
    ),
    problem(
        "marker_gaps",
        "A damped arm seen by cameras that lose its marker for 40 % of the time",
        ["gaps", "unknown start"],
        STANDARD,
        states=swing(Start(-2, 2, 0.0, -0.4), Start(-9, 9, 0.0, 1.2)),
        rates=turning("-p*sin(theta) - d*omega + u"),
        inputs={"u": exact("1/s^2", sines((6, 2.3, 0), (4, 5.1, 1)), 0.02)},
        unknown={"p": Unknown("1/s^2", 1, 80, 10.0, 22.0), "d": Unknown("1/s", 0, 10, 1.0, 0.6)},
        measured={
            "marker": channel(
                "theta",
                "rad",
                0.008,
                gaps=[[0.6, 1.4], [2.1, 2.5], [3.3, 4.6], [5.0, 5.2], [6.1, 7.1], [8.2, 8.5]],
            )
        },
        clocks={"main": clock(10.0, 0.02)},
    ),
    problem(
        "gyro_bias",
        "A swinging limb with a camera at 50 Hz and a gyroscope at 200 Hz that has an "
        "unknown bias and gain",
        ["multi-rate", "unknown start"],
        STANDARD,
        states=swing(Start(-2, 2, 0.3, 0.6), Start(-9, 9, 0.0, -0.8)),
        rates=turning("-p*sin(theta) - d*omega"),
        unknown={
            "p": Unknown("1/s^2", 1, 80, 12.0, 15.5),
            "d": Unknown("1/s", 0, 5, 0.2, 0.11),
            "bias": Unknown("rad/s", -1, 1, 0.0, 0.07),
            "gain": Unknown("1", 0.5, 2, 1.0, 1.04),
        },
        measured={
            "marker": channel("theta", "rad", 0.004, "camera"),
            "gyro": channel("gain*omega + bias", "rad/s", 0.05, "imu"),
        },
        clocks={"camera": clock(6.0, 0.02), "imu": clock(6.0, 0.005)},
    ),
    problem(
        "camera_latency",
        "A camera shows a pendulum late, beside an encoder that does not: how late?",
        ["delay", "multi-rate"],
        STANDARD,
        states=swing(0.8),
        rates=turning("-p*sin(theta) - d*omega"),
        unknown={
            "p": Unknown("1/s^2", 1, 80, 12.0, 14.0),
            "d": Unknown("1/s", 0, 5, 0.2, 0.08),
            "tau": Unknown("s", 0.0, 0.2, 0.02, 0.064, meaning="latency of the camera"),
            "scale": Unknown("1", 0.5, 2, 1.0, 0.97, meaning="of the camera"),
        },
        measured={
            "encoder": channel("theta", "rad", 0.02, "encoder"),
            "video": channel("scale*theta", "rad", 0.01, "camera", delay="tau"),
        },
        clocks={"encoder": clock(6.0, 0.01), "camera": clock(5.98, 0.04, 0.3)},
    ),
    problem(
        "arm_masses",
        "An arm under a known torque: mass, length and inertia at once",
        ["cannot be known"],
        "J and m l^2 act together, m and l in m l only. " + STANDARD,
        states=swing(0.2),
        rates=turning("(T - c*omega - m*g*l*sin(theta))/(J + m*l**2)"),
        inputs={"T": exact("N m", sines((1.5, 2.0, 0), (1.0, 5.3, 0.5)), 0.02)},
        known={"g": (9.81, "m/s^2")},
        unknown={
            "J": Unknown("kg m^2", 0.001, 1, 0.05, 0.03),
            "m": Unknown("kg", 0.1, 10, 1.5, 1.2),
            "l": Unknown("m", 0.05, 1, 0.25, 0.3),
            "c": Unknown("N m s/rad", 0, 2, 0.1, 0.15),
        },
        measured={"angle": channel("theta", "rad", 0.005)},
        clocks={"main": clock(8.0, 0.02)},
        cannot_be_known=["J", "m", "l"],
    ),
    problem(
        "end_stop",
        "A pendulum with an elastic end stop that it never reaches in the record",
        ["cannot be known", "contact"],
        "What is not touched cannot be known: the stiffness of the stop. " + STANDARD,
        states=swing(0.9),
        rates=turning("-p*sin(theta) - d*omega - k_stop*max(theta - 1.3, 0)"),
        kinks=["theta - 1.3"],
        unknown={
            "p": Unknown("1/s^2", 1, 80, 12.0, 14.0),
            "d": Unknown("1/s", 0, 5, 0.2, 0.1),
            "k_stop": Unknown("1/s^2", 0, 5000, 100.0, 800.0),
        },
        measured={"angle": channel("theta", "rad", 0.01)},
        clocks={"main": clock(6.0, 0.02)},
        cannot_be_known=["k_stop"],
    ),
]
