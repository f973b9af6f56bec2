"""Machines, vehicles, balls, ships: friction, unknown roads and noise, long and short records."""

from ..declare import Start, Unknown, channel, clock, exact, hidden, problem, sines, state

ROAD = sines((0.25, 6.3, 0), (0.2, 14.1, 1), (0.2, 27.0, 2))

PROBLEMS = [
    problem(
        "servo_stribeck",
        "A servo drive turns to and fro: Stribeck friction, viscous friction, inertia",
        ["friction"],
        "Armstrong-Helouvry, Dupont, Canudas de Wit 1994, Automatica 30, 1083-1138 (the law); the "
        "sign as tanh(w/0.02). Values plausible.",
        states={"w": state("rad/s")},
        inputs={"T": exact("N m", sines((0.9, 1.9, 0), (0.5, 4.7, 1), (0.3, 9.1, 0.3)), 0.01)},
        let={"dry": "F_c + (F_s - F_c)*exp(-(w/w_s)**2)"},
        kinks=["w"],
        rates={"w": "(T - dry*tanh(w/0.02) - b*w)/J"},
        unknown={
            "J": Unknown("kg m^2", 0.005, 0.5, 0.06, 0.04),
            "F_c": Unknown("N m", 0, 1, 0.3, 0.22),
            "F_s": Unknown("N m", 0, 2, 0.3, 0.38),
            "w_s": Unknown("rad/s", 0.05, 5, 1.0, 0.6),
            "b": Unknown("N m s/rad", 0, 1, 0.1, 0.06),
        },
        measured={"speed": channel("w", "rad/s", 0.05)},
        clocks={"main": clock(10.0, 0.01)},
    ),
    problem(
        "lugre",
        "A mass slides and sticks on bristles: LuGre friction, stiff",
        ["friction", "stiff"],
        "Canudas de Wit, Olsson, Astrom, Lischinsky 1995, IEEE Trans. Autom. Control 40, 419-425; "
        "bristles ten times as soft.",
        states={"x": state("m"), "v": state("m/s"), "z": state("m", 0.0, "bristles")},
        inputs={"u": exact("N", sines((1.6, 2.0, 0), (0.9, 5.2, 0.7)), 0.02)},
        let={"dry": "F_c + (F_s - F_c)*exp(-(v/v_s)**2)", "zd": "v - 10000*abs(v)/dry*z"},
        kinks=["v"],
        rates={"x": "v", "v": "(u - 10000*z - 100*zd - b*v)/m", "z": "zd"},
        known={"m": (1.0, "kg")},
        unknown={
            "F_c": Unknown("N", 0.2, 3, 0.8, 1.0),
            "F_s": Unknown("N", 0.2, 5, 1.2, 1.5),
            "v_s": Unknown("m/s", 0.001, 0.5, 0.03, 0.02),
            "b": Unknown("N s/m", 0, 5, 0.8, 0.4),
        },
        measured={"place": channel("x", "m", 0.0005)},
        clocks={"main": clock(6.0, 0.01)},
    ),
    problem(
        "quarter_car",
        "Suspension of a car on an unknown road",
        ["unknown input", "multi-rate"],
        "Rajamani 2012, Vehicle Dynamics and Control, chapter 10: masses, stiffnesses, "
        "damping; the progressive spring and the road are of this suite. The road rises with a "
        "speed that is held for 0.05 s.",
        states={
            "zs": state("m", 0.0, "body"),
            "zu": state("m", 0.0, "wheel"),
            "zr": state("m", 0.0, "road"),
            "vs": state("m/s"),
            "vu": state("m/s"),
        },
        inputs={"road": hidden("m/s", ROAD, 0.05, -3.0, 3.0, "speed with which the road rises")},
        let={"d": "zs - zu", "spring": "ks*d + k3*d**3 + cs*(vs - vu)"},
        rates={
            "zs": "vs",
            "zu": "vu",
            "zr": "road",
            "vs": "-spring/ms",
            "vu": "(spring - kt*(zu - zr))/mu",
        },
        known={"ms": (290.0, "kg"), "mu": (59.0, "kg"), "kt": (190000.0, "N/m")},
        unknown={
            "ks": Unknown("N/m", 2e3, 1e5, 1e4, 16812.0),
            "cs": Unknown("N s/m", 50, 1e4, 2000.0, 1000.0),
            "k3": Unknown("N/m^3", 0, 2e7, 1e6, 2e6),
        },
        measured={
            "body": channel("-spring/ms", "m/s^2", 0.05, "accelerometer"),
            "stroke": channel("d", "m", 0.0005, "potentiometer"),
            "wheel": channel("zu", "m", 0.001, "potentiometer"),
        },
        clocks={"accelerometer": clock(4.0, 0.005, 0.005), "potentiometer": clock(4.0, 0.01, 0.01)},
    ),
    problem(
        "mass_on_base",
        "Mass, spring and damper on a base with known motion, at once",
        ["cannot be known"],
        "Only ratios act; the bias of the sensor can be known.",
        states={"x": state("m"), "v": state("m/s")},
        inputs={"r": exact("m", sines((0.02, 7.0, 0), (0.01, 15.0, 1)), 0.01)},
        rates={"x": "v", "v": "(-k*(x - r) - c*v)/m"},
        unknown={
            "m": Unknown("kg", 1, 1000, 200.0, 290.0),
            "k": Unknown("N/m", 1e3, 2e5, 2e4, 38000.0),
            "c": Unknown("N s/m", 10, 1e4, 1000.0, 1300.0),
            "bias": Unknown("m", -0.1, 0.1, 0.0, 0.004),
        },
        measured={"place": channel("x + bias", "m", 0.001)},
        clocks={"main": clock(5.0, 0.01)},
        cannot_be_known=["m", "k", "c"],
    ),
    problem(
        "two_masses",
        "Two masses on springs, seen by two sensors of unknown noise",
        ["unknown sigma", "unknown start"],
        "Textbook equations; values of this suite.",
        states={
            "x1": state("m", Start(-1, 1, 0.0, 0.05)),
            "x2": state("m", Start(-1, 1, 0.0, -0.02)),
            "v1": state("m/s"),
            "v2": state("m/s"),
        },
        inputs={"F": exact("N", sines((8, 3.0, 0), (6, 6.5, 1), (5, 11.0, 2)), 0.02)},
        rates={
            "x1": "v1",
            "x2": "v2",
            "v1": "(-k1*x1 - c1*v1 + k2*(x2 - x1) + c2*(v2 - v1))/m1",
            "v2": "(F - k2*(x2 - x1) - c2*(v2 - v1))/m2",
        },
        known={"m1": (2.0, "kg"), "m2": (1.0, "kg")},
        unknown={
            "k1": Unknown("N/m", 1, 1000, 60.0, 90.0),
            "k2": Unknown("N/m", 1, 1000, 100.0, 70.0),
            "c1": Unknown("N s/m", 0, 50, 2.0, 0.9),
            "c2": Unknown("N s/m", 0, 50, 2.0, 0.6),
        },
        measured={
            "first": channel("x1", "m", None, true_std=0.004),
            "second": channel("x2", "m", None, true_std=0.02),
        },
        clocks={"main": clock(8.0, 0.02)},
    ),
    problem(
        "ship_roll_long",
        "A ship rolls in waves of known steepness: a hundred thousand samples",
        ["10^5 samples"],
        "Nayfeh, Balachandran 1995, Applied Nonlinear Dynamics (roll with quadratic damping and a "
        "softening moment); values plausible for a period of 8 s.",
        states={"phi": state("rad", 0.1), "w": state("rad/s")},
        kinks=["w"],
        rates={
            "phi": "w",
            "w": "-2*zeta*w - q*w*abs(w) - w02*phi + s*phi**3 + gain*(0.05*sin(0.61*t)"
            " + 0.04*sin(0.83*t + 1) + 0.03*sin(1.27*t + 2))",
        },
        unknown={
            "zeta": Unknown("1/s", 0, 1, 0.05, 0.02),
            "q": Unknown("1/rad", 0, 2, 0.05, 0.15),
            "w02": Unknown("1/s^2", 0.1, 3, 0.5, 0.617),
            "s": Unknown("1/s^2", 0, 3, 0.1, 0.4),
            "gain": Unknown("1/s^2", 0, 5, 0.4, 0.6),
        },
        measured={"roll": channel("phi", "rad", 0.01)},
        clocks={"main": clock(1000.0, 0.01)},
    ),
    problem(
        "roll_decay",
        "A ship model rolls out in calm water: linear and quadratic damping",
        ["unknown start", "friction", "unknown sigma"],
        "ITTC recommended procedure 7.5-02-07-04.5 (the test). Values plausible for a 3 m model.",
        states={
            "phi": state("rad", Start(-1, 1, 0.3, 0.35)),
            "w": state("rad/s", Start(-2, 2, 0.0, 0.1)),
        },
        rates={"phi": "w", "w": "-a*w - q*w*abs(w) - w02*phi"},
        kinks=["w"],
        unknown={
            "a": Unknown("1/s", 0, 2, 0.2, 0.06),
            "q": Unknown("1/rad", 0, 3, 0.1, 0.35),
            "w02": Unknown("1/s^2", 1, 40, 8.0, 10.2),
        },
        measured={"roll": channel("phi", "rad", None, true_std=0.004)},
        clocks={"main": clock(25.0, 0.05)},
    ),
    problem(
        "spinning_ball",
        "Drag and lift of a spinning ball, from 26 pictures of its flight",
        ["few samples", "unknown start"],
        "Mehta 1985, Annu. Rev. Fluid Mech. 17, 151-189; values near those of a tennis ball.",
        states={
            "x": state("m", 0.0),
            "y": state("m", 1.0),
            "vx": state("m/s", Start(5, 60, 20.0, 28.0)),
            "vy": state("m/s", Start(-20, 20, 0.0, 4.0)),
        },
        let={"v": "sqrt(vx**2 + vy**2)"},
        rates={"x": "vx", "y": "vy", "vx": "-D*v*vx - L*v*vy", "vy": "-g - D*v*vy + L*v*vx"},
        known={"g": (9.81, "m/s^2")},
        unknown={
            "D": Unknown("1/m", 0, 0.2, 0.005, 0.0185),
            "L": Unknown("1/m", -0.1, 0.1, 0.0, -0.006),
        },
        measured={"along": channel("x", "m", 0.01), "up": channel("y", "m", 0.01)},
        clocks={"main": clock(0.5, 0.02)},
    ),
]
