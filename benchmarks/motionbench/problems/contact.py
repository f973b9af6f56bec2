"""Contact and impact: bounces, a rocking block, legs and heels that give way."""

from ..declare import Start, Unknown, channel, clock, problem, state, swing, turning

PROBLEMS = [
    problem(
        "bouncing_ball",
        "A ball bounces: restitution and drag, from a camera",
        ["impact"],
        "Newton's restitution; values near those of a basketball.",
        states={"y": state("m", 1.2, "height of its lowest point"), "v": state("m/s")},
        rates={"y": "v", "v": "-g - d*v*abs(v)"},
        kinks=["v"],
        events=[{"name": "floor", "guard": "y", "direction": -1, "reset": {"v": "-e*v"}}],
        known={"g": (9.81, "m/s^2")},
        unknown={"e": Unknown("1", 0.3, 1.0, 0.7, 0.78), "d": Unknown("1/m", 0, 0.3, 0.05, 0.02)},
        measured={"height": channel("y", "m", 0.004)},
        clocks={"main": clock(2.5, 0.01)},
    ),
    problem(
        "rocking_block",
        "A block rocks from corner to corner and loses speed at each impact",
        ["impact", "friction"],
        "Housner 1963, Bull. Seismol. Soc. Am. 53, 403-417. side is 1 on the right corner, -1 on "
        "the left; R = 0.5 m.",
        states=swing(0.15),
        modes={"side": 1},
        rates=turning("-p2*sin(side*alpha - theta)"),
        events=[
            {
                "name": "left",
                "guard": "theta",
                "direction": -1,
                "reset": {"omega": "e*omega"},
                "set": {"side": -1},
            },
            {
                "name": "right",
                "guard": "theta",
                "direction": 1,
                "reset": {"omega": "e*omega"},
                "set": {"side": 1},
            },
        ],
        unknown={
            "p2": Unknown("1/s^2", 5, 40, 16.0, 14.7),
            "alpha": Unknown("rad", 0.2, 0.5, 0.27, 0.25),
            "e": Unknown("1", 0.5, 1, 0.88, 0.908),
        },
        measured={"tilt": channel("theta", "rad", 0.002)},
        clocks={"main": clock(3.0, 0.01)},
    ),
    problem(
        "hopper",
        "A body lands on a springy leg and hops on: a camera and a force plate",
        ["contact", "multi-rate", "unknown start"],
        "Blickhan 1989, J. Biomech. 22, 1217-1227: the spring-mass model; losses as of Hunt and "
        "Crossley 1975.",
        states={"y": state("m", Start(0.9, 1.4, 1.1, 1.12)), "v": state("m/s")},
        let={"squeeze": "max(length - y, 0)", "force": "(k - c*v)*squeeze"},
        kinks=["length - y"],
        rates={"y": "v", "v": "force/m - g"},
        known={"m": (70.0, "kg"), "g": (9.81, "m/s^2")},
        unknown={
            "k": Unknown("N/m", 5e3, 8e4, 1.6e4, 2.2e4),
            "c": Unknown("N s/m^2", 0, 1e4, 500.0, 900.0),
            "length": Unknown("m", 0.9, 1.1, 0.98, 1.0),
        },
        measured={
            "height": channel("y", "m", 0.003, "camera"),
            "plate": channel("force", "N", 25.0, "plate"),
        },
        clocks={"camera": clock(2.0, 0.01), "plate": clock(2.0, 0.005)},
    ),
    problem(
        "heel_pad",
        "A pendulum strikes a heel: stiffness and loss of its pad, in 60 ms",
        ["contact", "unknown start"],
        "Aerts, De Clercq 1993, J. Sports Sci. 11, 449-461 (the test); force of Hunt and Crossley "
        "1975 with the exponent 3/2.",
        states={"x": state("m", 0.0, "compression"), "v": state("m/s", Start(0.1, 2, 0.6, 0.8))},
        let={"pad": "max(x, 0)", "force": "k*pad*sqrt(pad)*(1 + loss*v)"},
        kinks=["x"],
        rates={"x": "v", "v": "-force/m"},
        known={"m": (11.0, "kg")},
        unknown={
            "k": Unknown("N/m^1.5", 5e4, 5e6, 5e5, 8.4e5),
            "loss": Unknown("s/m", 0, 3, 0.2, 0.55),
        },
        measured={"compression": channel("x", "m", 1e-4), "load": channel("force", "N", 8.0)},
        clocks={"main": clock(0.06, 0.0002)},
    ),
]
