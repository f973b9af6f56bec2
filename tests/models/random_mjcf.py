"""Random models of MuJoCo, of all that is understood, as texts."""

import numpy as np

KINDS = {"sphere": 1, "capsule": 2, "cylinder": 2, "ellipsoid": 3, "box": 3}
SEQUENCES = ("xyz", "zyx", "XYZ", "zxY", "xzx", "yXz")


class Writer:
    """A model from a seed."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.degrees = self.rng.random() < 0.6
        self.count = 0
        self.hinges = []

    def numbers(self, *values):
        return " ".join(f"{value:.4g}" for value in np.hstack(values))

    def chance(self, p):
        return self.rng.random() < p

    def vector(self, size=0.4, n=3):
        return self.numbers(self.rng.uniform(-size, size, n))

    def angle(self, most=2.5):
        value = self.rng.uniform(-most, most)
        return np.degrees(value) if self.degrees else value

    def orientation(self):
        rng = self.rng
        v = rng.normal(size=6)
        said = [
            "",
            f'quat="{self.numbers(rng.normal(size=4))}"',
            f'axisangle="{self.numbers(v[:3], self.angle())}"',
            f'xyaxes="{self.numbers(v)}"',
            f'zaxis="{self.numbers(v[:3])}"',
            f'euler="{self.numbers([self.angle() for _ in range(3)])}"',
        ]
        return said[rng.integers(len(said))]

    def pose(self):
        return f'pos="{self.vector()}" {self.orientation()}' if self.chance(0.9) else ""

    def at(self):
        return f'pos="{self.vector()}"' if self.chance(0.7) else ""

    def klass(self):
        return f'class="{self.rng.choice(["main", "a", "b", "c"])}"' if self.chance(0.3) else ""

    def childclass(self):
        return f'childclass="{self.rng.choice(["a", "b", "c"])}"' if self.chance(0.3) else ""

    def geom(self):
        rng = self.rng
        kind = rng.choice([*KINDS])
        size = self.numbers(rng.uniform(0.05, 0.3, 3))
        ends = kind != "sphere" and self.chance(0.3)
        place = f'fromto="{self.vector(n=6)}"' if ends else self.pose()
        mass = ["", f'mass="{rng.uniform(0.2, 3):.3g}"', f'density="{rng.uniform(200, 3000):.4g}"']
        shell = 'shellinertia="true"' if self.chance(0.1) else ""
        group = f'group="{rng.integers(0, 5)}"' if self.chance(0.2) else ""
        return (
            f'<geom type="{kind}" size="{size}" {place} {rng.choice(mass)} {shell} {group} '
            f"{self.klass()}/>"
        )

    def inertial(self):
        rng = self.rng
        R = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        a, b = rng.uniform(0.1, 0.3, 2)
        full = R @ np.diag([a, b, a + 0.7 * b]) @ R.T
        xx, yy, zz, xy, xz, yz = full[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]]
        said = f'diaginertia="{self.numbers(a, b, a + 0.5 * b)}" {self.orientation()}'
        if self.chance(0.5):
            said = f'fullinertia="{self.numbers(xx, yy, zz, xy, xz, yz)}"'
        return f'<inertial pos="{self.vector()}" mass="{rng.uniform(0.3, 2):.3g}" {said}/>'

    def forces(self, some):
        """Of a joint: of one coordinate, or of several without stiffness."""
        rng, found = self.rng, ""
        if some and self.chance(0.3):
            found += f'stiffness="{self.numbers(rng.uniform(0, 5, rng.integers(1, 4)))}" '
            found += f'springref="{self.angle(1):.3g}" '
        if self.chance(0.3):
            several = rng.integers(1, 4) if some else 1
            found += f'damping="{self.numbers(rng.uniform(0, 2, several))}" '
        if self.chance(0.3):
            found += f'armature="{rng.uniform(0.01, 0.5):.3g}" '
        if some and self.chance(0.1):
            found += 'springdamper="0.4 0.6" '
        return found

    def joint(self, kind):
        self.count += 1
        name = f'name="j{self.count}"' if self.chance(0.8) else ""
        if kind == "ball":
            return f'<joint type="ball" class="calm" {name} {self.at()} {self.forces(False)}/>'
        if name:
            self.hinges.append(name[6:-1])
        ref = f'ref="{self.angle(1):.3g}"' if self.chance(0.2) else ""
        axis = f'axis="{self.vector(1)}"' if self.chance(0.8) else ""
        ends = f'range="{self.numbers(sorted([self.angle(), self.angle()]))}"'
        return (
            f'<joint type="{kind}" {name} {axis} {self.at()} {ref} {self.klass()} '
            f"{ends if self.chance(0.3) else ''} {self.forces(True)}/>"
        )

    def framed(self, text):
        if not self.chance(0.25):
            return text
        return f"<frame {self.pose()} {self.childclass()}>{text}</frame>"

    def body(self, depth):
        rng = self.rng
        kinds = ["hinge", "hinge", "slide"]
        joints = [self.joint(rng.choice(kinds)) for _ in range(rng.integers(0, 3))]
        if self.chance(0.2):
            joints.append(self.joint("ball"))  # MuJoCo takes none before a hinge
        if depth == 0 and self.chance(0.3):
            self.hinges = [
                name for name in self.hinges if not any(f'"{name}"' in e for e in joints)
            ]
            joints = ["<freejoint/>" if self.chance(0.5) else '<joint type="free" class="calm"/>']
        parts = [self.framed(joint) if "free" not in joint else joint for joint in joints]
        parts += [self.framed(self.geom()) for _ in range(rng.integers(1, 4))]
        if self.chance(0.3):
            parts.append(self.inertial())
        parts.append(f'<site name="s{depth}_{rng.integers(1 << 30)}" {self.pose()}/>')
        if depth < 3:
            parts += [self.framed(self.body(depth + 1)) for _ in range(rng.integers(0, 3))]
        comp = f'gravcomp="{rng.uniform(0, 1):.3g}"' if self.chance(0.2) else ""
        return f"<body {self.pose()} {self.childclass()} {comp}>{''.join(parts)}</body>"

    def defaults(self):
        def klass(name, inner=""):
            geom = f'<geom {self.orientation()} density="{self.rng.uniform(300, 2000):.4g}"/>'
            joint = f'<joint {self.forces(True)} axis="{self.vector(1)}"/>'
            own = (geom if self.chance(0.5) else "") + (joint if self.chance(0.5) else "")
            return f'<default class="{name}">{own}{inner}</default>'

        calm = '<joint stiffness="0 0 0" damping="0 0 0" springdamper="0 0"/>'
        calm = f'<default class="calm">{calm}</default>'
        return klass("main", klass("a", klass("b")) + klass("c") + calm)

    def compiler(self):
        rng = self.rng
        options = [
            f'eulerseq="{rng.choice(SEQUENCES)}"',
            'boundmass="0.7"',
            'boundinertia="0.02"',
            'settotalmass="9"',
            'inertiagrouprange="0 3"',
            'inertiafromgeom="true"',
        ]
        chosen = " ".join(option for option in options if self.chance(0.25))
        angle = "" if self.degrees else 'angle="radian"'
        return f'<compiler {angle} {chosen} balanceinertia="true"/>'

    def text(self):
        bodies = "".join(self.framed(self.body(0)) for _ in range(self.rng.integers(1, 3)))
        equal = ""
        if len(self.hinges) > 1 and self.chance(0.4):
            y, x = self.hinges[:2]
            equal = (
                f'<equality><joint joint1="{y}" joint2="{x}" polycoef="0.1 0.7 0.2"/></equality>'
            )
        gravity = f'<option gravity="{self.vector(9)}"/>' if self.chance(0.5) else ""
        return (
            f"<mujoco>{self.compiler()}{gravity}{self.defaults()}"
            f"<worldbody>{bodies}</worldbody>{equal}</mujoco>"
        )


def random_model(seed):
    """A text."""
    return Writer(seed).text()
