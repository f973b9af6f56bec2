"""Balance: unstable plants, mostly in closed loop; delays, noisy platforms, random torques."""

from ..declare import (
    Start,
    Unknown,
    channel,
    clock,
    exact,
    noisy,
    problem,
    random,
    sines,
    state,
    swing,
    turning,
)

# Sum of sines of Moore and van den Bogert, those of 0.4 to 14 rad/s.
PERIODS = (16, 25, 38, 61, 103, 131, 151, 181, 313, 523)
PLATFORM = sines(
    *((round(0.025 * (0.0261799388 * p) ** 2, 6), round(0.0261799388 * p, 6), 0) for p in PERIODS)
)
MOORE = "Moore, van den Bogert 2015, 'Quiet standing controller parameter identification'"
GAINS = {
    "k_00": 950,
    "k_01": 175,
    "k_02": 185,
    "k_03": 50,
    "k_10": 45,
    "k_11": 290,
    "k_12": 60,
    "k_13": 26,
}
BODY = {"m": (70.0, "kg"), "h": (0.9, "m"), "J": (75.0, "kg m^2"), "g": (9.81, "m/s^2")}

PROBLEMS = [
    problem(
        "standing_platform",
        "A person of two links stands on a moving platform: 8 gains from zero",
        ["unstable", "closed loop", "bad guesses"],
        MOORE + ": model, gains, noise; subject by Winter's tables.",
        states={
            "q1": state("rad", 0.0, "ankle"),
            "q2": state("rad", 0.0, "hip, relative"),
            "w1": state("rad/s"),
            "w2": state("rad/s"),
        },
        inputs={"a": exact("m/s^2", PLATFORM, 0.02, meaning="acceleration of the platform")},
        let={
            "T1": "-(k_00*q1 + k_01*q2 + k_02*w1 + k_03*w2)",
            "T2": "-(k_10*q1 + k_11*q2 + k_12*w1 + k_13*w2)",
            "a22": "I_T + m_T*d_T**2",
            "h": "m_T*l_L*d_T",
            "a12": "a22 + h*cos(q2)",
            "a11": "I_L + m_L*d_L**2 + m_T*l_L**2 + a22 + 2*h*cos(q2)",
            "legs": "m_L*d_L + m_T*l_L",
            "torso": "m_T*d_T",
            "p2": "torso*(g*sin(q1 + q2) + a*cos(q1 + q2))",
            "r1": "T1 + h*sin(q2)*(2*w1*w2 + w2**2) + legs*(g*sin(q1) + a*cos(q1)) + p2",
            "r2": "T2 - h*sin(q2)*w1**2 + p2",
            "det": "a11*a22 - a12**2",
        },
        rates={
            "q1": "w1",
            "q2": "w2",
            "w1": "(a22*r1 - a12*r2)/det",
            "w2": "(a11*r2 - a12*r1)/det",
        },
        known={
            "l_L": (0.878, "m"),
            "d_L": (0.5716, "m"),
            "m_L": (32.126, "kg"),
            "I_L": (1.7992, "kg m^2"),
            "d_T": (0.3145, "m"),
            "m_T": (48.8306, "kg"),
            "I_T": (2.4812, "kg m^2"),
            "g": (9.81, "m/s^2"),
        },
        unknown={
            k: Unknown("N m/rad" if k[-1] in "01" else "N m s/rad", -2000, 3000, 0.0, v)
            for k, v in GAINS.items()
        },
        measured={
            "ankle": channel("q1", "rad", 0.0052),
            "hip": channel("q2", "rad", 0.0052),
            "ankle_rate": channel("w1", "rad/s", 0.07),
            "hip_rate": channel("w2", "rad/s", 0.07),
        },
        clocks={"main": clock(20.0, 0.02)},
    ),
    problem(
        "standing_delayed",
        "A person stands on a moving platform with a reflex that is late",
        ["unstable", "closed loop", "delay"],
        "Peterka 2002, J. Neurophysiol. 88, 1097-1118: mass, height, inertia, gains and delay near "
        "those of normal subjects; before the start the person stands upright.",
        states=swing(),
        inputs={"a": exact("m/s^2", PLATFORM, 0.05, meaning="acceleration of the platform")},
        delays=["tau"],
        rates={
            "theta": "omega",
            "omega": "(m*g*h*sin(theta) + m*h*a*cos(theta)"
            " - KP*delayed(theta, tau) - KD*delayed(omega, tau))/J",
        },
        known={"m": (83.3, "kg"), "h": (0.896, "m"), "J": (81.1, "kg m^2"), "g": (9.81, "m/s^2")},
        unknown={
            "KP": Unknown("N m/rad", 500, 2500, 1300.0, 971.0),
            "KD": Unknown("N m s/rad", 50, 800, 250.0, 344.0),
            "tau": Unknown("s", 0.05, 0.30, 0.10, 0.171),
        },
        measured={"sway": channel("theta", "rad", 0.002)},
        clocks={"main": clock(20.0, 0.02)},
    ),
    problem(
        "falling_stick",
        "A stick falls from near upright, five times: an unstable plant in open loop",
        ["unstable", "unknown start"],
        "A rod about its end, p = 3 g/(2 l).",
        states=swing(
            Start(-0.5, 0.5, 0.0, [0.02, -0.03, 0.05, -0.01, 0.035]),
            Start(-1, 1, 0.0, [0.05, -0.02, -0.1, -0.08, 0.0]),
        ),
        rates=turning("p*sin(theta) - d*omega"),
        unknown={"p": Unknown("1/s^2", 1, 80, 8.0, 14.7), "d": Unknown("1/s", 0, 5, 0.0, 0.25)},
        measured={"angle": channel("theta", "rad", 0.005)},
        clocks={"main": clock(1.1, 0.01)},
        trials=[{} for _ in range(5)],
    ),
    problem(
        "cart_pole",
        "A pole is balanced on a cart by a known law; the cart follows a reference",
        ["unstable", "closed loop"],
        "Cart and pole of Quanser's IP02 with the long rod (values of its manual); LQR gains.",
        states={"x": state("m"), "th": state("rad"), "v": state("m/s"), "w": state("rad/s")},
        inputs={"ref": exact("m", sines((0.15, 1.1, 0), (0.08, 2.9, 1), (0.03, 6.1, 2)), 0.02)},
        let={
            "F": "31.6*(x - ref) + 117*th + 32.4*v + 22.8*w",
            "J": "m*l**2/3",
            "a11": "M + m",
            "a12": "m*l*cos(th)",
            "a22": "m*l**2 + J",
            "r1": "F - b*v + m*l*sin(th)*w**2",
            "r2": "m*g*l*sin(th) - c*w",
            "det": "a11*a22 - a12**2",
        },
        rates={"x": "v", "th": "w", "v": "(a22*r1 - a12*r2)/det", "w": "(a11*r2 - a12*r1)/det"},
        known={"M": (0.94, "kg"), "g": (9.81, "m/s^2")},
        unknown={
            "m": Unknown("kg", 0.02, 2, 0.4, 0.23),
            "l": Unknown("m", 0.05, 1, 0.25, 0.3302),
            "b": Unknown("N s/m", 0, 30, 3.0, 5.4),
            "c": Unknown("N m s/rad", 0, 0.1, 0.01, 0.0024),
        },
        measured={"cart": channel("x", "m", 0.001), "pole": channel("th", "rad", 0.002)},
        clocks={"main": clock(10.0, 0.02)},
    ),
    problem(
        "quiet_standing",
        "A person stands still, driven by a random torque of unknown strength",
        ["unstable", "closed loop", "unknown input", "random input"],
        "Maurer, Peterka 2005, J. Neurophysiol. 93, 189-200, without its delay; values plausible.",
        states=swing(),
        inputs={"T": random("N m", "sigma", 0.05, "disturbing torque")},
        rates=turning("((m*g*h - K)*theta - B*omega + T)/J"),
        known=BODY,
        unknown={
            "K": Unknown("N m/rad", 620, 3000, 1000.0, 850.0),
            "B": Unknown("N m s/rad", 10, 1500, 150.0, 250.0),
            "sigma": Unknown("N m sqrt(s)", 0.05, 50, 1.0, 2.0),
        },
        measured={"sway": channel("theta", "rad", 0.0003)},
        clocks={"main": clock(60.0, 0.05, 0.05)},
    ),
    problem(
        "levitation",
        "A ball is held under a magnet by a known law of the current",
        ["unstable", "closed loop"],
        "Laboratory apparatus; force C i^2/(x + a)^2, Woodson, Melcher 1968. Values plausible.",
        states={"x": state("m", 0.008, "gap"), "v": state("m/s")},
        let={
            "i": "0.81 + 200*(x - 0.008) + 2*v + 0.02*sin(21*t) + 0.02*sin(55*t + 1)"
            " + 0.015*sin(9*t)"
        },
        rates={"x": "v", "v": "g - C*i**2/(m*(x + a)**2) - d*v"},
        known={"m": (0.068, "kg"), "g": (9.81, "m/s^2")},
        unknown={
            "C": Unknown("N m^2/A^2", 1e-5, 5e-4, 1e-4, 8.2e-5),
            "a": Unknown("m", 0.0, 0.005, 0.0, 0.001),
            "d": Unknown("1/s", 0, 20, 1.0, 3.0),
        },
        measured={"gap": channel("x", "m", 2e-5)},
        clocks={"main": clock(3.0, 0.002)},
    ),
    problem(
        "bicycle_rider",
        "A rider steers a bicycle that cannot ride itself, while its frame is pushed",
        ["unstable", "closed loop"],
        "Meijaard, Papadopoulos, Ruina, Schwab 2007, Proc. R. Soc. A 463, 1955-1982: benchmark "
        "bicycle at 4 m/s, below its stable speeds. The rider's law is of this suite.",
        states={
            "phi": state("rad", 0.0, "lean"),
            "delta": state("rad", 0.0, "steer"),
            "p": state("rad/s"),
            "s": state("rad/s"),
        },
        inputs={
            "w": exact(
                "N m",
                sines((20, 1.7, 0), (15, 4.3, 1), (10, 8.9, 2)),
                0.02,
                meaning="lean torque by a pulled rope",
            )
        },
        let={
            "Td": "kp*phi + kd*p - c*s",
            "f1": "w - 4*33.86641391492494*s - (-9.81*80.95*phi"
            " + (-9.81*2.59951685249872 + 16*76.59734589573222)*delta)",
            "f2": "Td + 4*0.85035641456978*p - 4*1.68540397397560*s"
            " - (-9.81*2.59951685249872*phi + (-9.81*0.80329488458618"
            " + 16*2.65431523794604)*delta)",
            "det": "80.81722*0.29784188199686 - 2.31941332208709**2",
        },
        rates={
            "phi": "p",
            "delta": "s",
            "p": "(0.29784188199686*f1 - 2.31941332208709*f2)/det",
            "s": "(80.81722*f2 - 2.31941332208709*f1)/det",
        },
        unknown={
            "kp": Unknown("N m/rad", -50, 100, 0.0, 10.0),
            "kd": Unknown("N m s/rad", -50, 100, 5.0, 15.0),
            "c": Unknown("N m s/rad", 0, 20, 0.5, 2.0),
        },
        measured={"lean_rate": channel("p", "rad/s", 0.02), "steer": channel("delta", "rad", 0.01)},
        clocks={"main": clock(10.0, 0.01)},
    ),
    problem(
        "treadmill_rider",
        "A person balances on a treadmill whose acceleration is measured with noise",
        ["errors in variables", "unstable", "closed loop"],
        MOORE + ": noise; one link, values plausible.",
        states=swing(),
        inputs={
            "a": noisy("m/s^2", sines((0.5, 2.1, 0), (0.7, 5.0, 1), (0.6, 9.3, 2)), 0.05, 0.42)
        },
        rates=turning("(m*g*h*sin(theta) + m*h*a*cos(theta) - K*theta - B*omega)/J"),
        known=BODY,
        unknown={
            "K": Unknown("N m/rad", 0, 5000, 1500.0, 1050.0),
            "B": Unknown("N m s/rad", 0, 2000, 100.0, 320.0),
        },
        measured={
            "angle": channel("theta", "rad", 0.0052),
            "rate": channel("omega", "rad/s", 0.07),
        },
        clocks={"main": clock(10.0, 0.02)},
    ),
]
