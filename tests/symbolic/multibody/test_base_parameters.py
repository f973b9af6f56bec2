"""Base parameters against textbooks, and bodies that exist whatever their numbers are."""

from dataclasses import replace

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.multibody import Body, Custom, Fixed, FixedBase, Free, PrescribedBase, Revolute, Tree

L = sp.Symbol("L")


def planar(**more):
    hinge, round_ = Revolute("y"), (0.1, 0.1, 0.1)
    upper = Body("upper", 1.0, (0.1, 0, 0), round_, hinge)
    fore = Body("fore", 2.0, (0.1, 0, 0.2), round_, hinge, at=(L, 0, 0), parent="upper")
    return Tree("arm", [upper, fore], **more)


def test_a_planar_arm_has_the_six_of_textbooks():
    """J1 + m2 L^2, m1 c1 + m2 L, and J2, m2 c2 (Siciliano et al. 2009, Robotics, section 7.2)."""
    base = planar(values={"L": 0.5}).base_parameters()
    m = sp.Symbol("fore_m")
    regrouped = {"upper_Jyy": L**2 * m, "upper_mcx": L * m}
    names = ["upper_Jyy", "upper_mcx", "upper_mcz", "fore_Jyy", "fore_mcx", "fore_mcz"]
    assert base.combinations == {n: sp.Symbol(n) + regrouped.get(n, 0) for n in names}
    np.testing.assert_allclose([*base.values.values()], [0.61, 1.1, 0.0, 0.2, 0.2, 0.4], atol=1e-15)
    text = str(base)
    assert text.startswith("arm: forces of 2 speeds depend on 6 combinations of the 20 inertial")
    assert "\n  upper_Jyy  upper_Jyy + L**2*fore_m\n" in text and "depends on upper_Jxx" in text
    assert "fore_mcx</td></tr>" in base._repr_html_()


def modified_dh(name, rows):
    """A robot of hinges by modified Denavit-Hartenberg parameters (alpha [quarter turns], d, r)."""
    bodies = []
    for k, (turns, d, r) in enumerate(rows, 1):
        s, c = [(0, 1), (1, 0), (0, -1), (-1, 0)][turns % 4]
        q, axes = ks.dynamicsymbols(f"q{k}"), ((1, 0, 0), (0, c, -s), (0, s, c))
        joint = Custom([q], [((0, -s, c), q)], attitude=axes)
        parent = f"b{k - 1}" if bodies else None
        bodies.append(Body(f"b{k}", 1, joint=joint, at=(d, -r * s, r * c), parent=parent))
    return Tree(name, bodies)


def test_puma_has_the_36_of_gautier_and_khalil():
    """Of each joint the second moment across its axis, the first along it, and the mass are
    regrouped with the link before (Gautier, Khalil 1990, IEEE Trans. Robotics and Automation 6,
    368-373, equations for revolute joints)."""
    a2, d3, a3, d4 = sp.symbols("a2 d3 a3 d4")
    rows = [(0, 0, 0), (-1, 0, 0), (0, a2, d3), (-1, a3, d4), (1, 0, 0), (-1, 0, 0)]
    lengths = {a2: 0.43, d3: 0.15, a3: 0.02, d4: 0.44}
    base = replace(modified_dh("puma", rows), values=lengths).base_parameters()
    assert len(base.names) == 36
    last = sp.Symbol("b6_m")
    assert base.combinations["b3_Jzz"].coeff(last) == a3**2 + d4**2
    assert base.combinations["b3_Jxy"].coeff(last) == -a3 * d4
    for k, row in enumerate(rows[1:], 2):
        turns, d, r = (lengths.get(e, e) for e in row)
        s, c = [(0, 1), (1, 0), (0, -1), (-1, 0)][turns % 4]
        second = {"Jxx": 1, "Jyy": c * c, "Jyz": c * s, "Jzz": s * s}
        first = {e: 2 * r * factor for e, factor in second.items()}
        first |= {"Jxy": d * s, "Jxz": -d * c, "mcy": -s, "mcz": c}
        mass = {e: r * r * factor for e, factor in second.items()}
        mass |= {"Jxy": d * r * s, "Jxz": -d * r * c, "mcx": d, "mcy": -r * s, "mcz": r * c, "m": 1}
        mass["Jyy"], mass["Jzz"] = mass["Jyy"] + d * d, mass["Jzz"] + d * d
        for own, inner in (({"Jxx": 1, "Jyy": 1}, second), ({"mcz": 1}, first), ({"m": 1}, mass)):
            change = {f"b{k}_{e}": x for e, x in own.items()}
            change |= {f"b{k - 1}_{e}": -x for e, x in inner.items()}
            moved = base.matrix @ [change.get(name, 0.0) for name in base.standard]
            np.testing.assert_allclose(moved, 0.0, atol=1e-15)


def test_a_root_has_the_forces_that_all_depend_on():
    """The wrench on a free root tells all that joints tell (Ayusawa, Venture, Nakamura 2014, Int.
    Journal of Robotics Research 33, 446-468), and so does a base that stands on a plate."""
    legs = [
        Body("root", 1, joint=Free()),
        Body("left", 1, joint=Revolute("x"), at=(0, 0.1, 0), parent="root"),
        Body("right", 1, joint=Revolute((1, 0, 1)), at=(0, -0.1, 0), parent="root"),
    ]
    every, some = (Tree("legs", legs).base_parameters(m) for m in (None, "root"))
    assert len(some.measured) == 6 and every.combinations == some.combinations
    fixed = [Body("root", 1, joint=Fixed()), *legs[1:]]
    for base in (FixedBase(), PrescribedBase("ship")):
        found = Tree("legs", fixed, base=base).base_parameters("base_wrench")
        hinges = Tree("legs", fixed, base=base).base_parameters()
        assert {*hinges.names} <= {*found.names} and len(found.measured) == 1
    assert found.combinations == every.combinations  # of any motion of the base


def test_joints_that_follow_others():
    """Sines of multiples of one coordinate are no others: a body that turns half as far back."""
    q, r = ks.dynamicsymbols("q"), sp.Symbol("r")
    first = Body("first", 1, joint=Custom([q], [("z", q)]))
    half = Custom([q], [("z", -q / 2)], (r, 0, 0))
    base = Tree("gear", [first, Body("second", 1, joint=half, parent="first")]).base_parameters()
    J, K, m = sp.symbols("first_Jzz second_Jzz second_m")
    assert base.combinations["first_Jzz"] == J + K / 4 + r**2 * m
    assert base.names == ("first_Jzz", "second_mcx", "second_mcy")


def test_bodies_that_exist_whatever_their_numbers():
    given = sp.Matrix([[0.05, 0.004, -0.01], [0.004, 0.06, 0.002], [-0.01, 0.002, 0.04]])
    solid = Body("solid", 2.0, (0.1, 0, -0.2), given.tolist(), Free())
    rod = Body("rod", 1.0, (0, 0, 0.5), (0.1, 0.1, 0), Free(), parent="solid")
    ghost = Body("ghost", 0.0, joint=Fixed(), parent="rod")
    tree = Tree("three", [solid, rod, ghost]).consistent()
    own = [n for n in tree.values if n.startswith("solid")]
    assert len(own) == 10 and [*tree.inertias("solid")] == sorted(own)
    assert tree.inertias()["rod_Dzz"] == tree.inertias()["rod_m"] == (0.0, np.inf)
    found = {n: float(e.subs(tree.values)) for n, e in tree.moments_of_inertia("solid").items()}
    expected = [given[i, j] for i in range(3) for j in range(i, 3)]
    np.testing.assert_allclose([*found.values()], np.array(expected, dtype=float), rtol=1e-13)
    thin = [float(e.subs(tree.values)) for e in tree.moments_of_inertia("rod").values() if e != 0]
    np.testing.assert_allclose(thin, [0.1, 0, 0, 0.1, 0, 0], atol=2e-4)
    rng = np.random.default_rng(0)
    for _ in range(5):
        at = {n: x for n, x in zip(own, rng.normal(size=10) * 10.0 ** rng.uniform(-3, 3, 10),
                                   strict=True)}  # fmt: skip
        I = sp.Matrix(tree.bodies[0].inertia).subs({**at, "solid_m": abs(at["solid_m"])})  # noqa: E741
        a, b, c = np.linalg.eigvalsh(np.array(I, dtype=float))
        assert a > 0.0 and c <= (a + b) * (1.0 + 1e-12)


def test_a_planar_body_keeps_its_one_moment():
    tree = Tree("leg", [Body("leg", 2.0, (0, 0, 0.3), (0, 0.08, 0), Revolute("y"))]).consistent()
    assert tree.values == {"leg_m": 2.0, "leg_cz": 0.3, "leg_Dyy": 0.2}
    assert tree.moments_of_inertia() == {"leg_Iyy": sp.Symbol("leg_m") * sp.Symbol("leg_Dyy") ** 2}


CLOSED = planar().close("fore", at=(0.3, 0, 0))
WRONG = [
    (lambda: planar().base_parameters("elbow"), "measured: elbow is no joint and no speed of arm"),
    (lambda: planar().base_parameters([]), "measured: arm has no speed there"),
    (lambda: planar().base_parameters([1.0]), "measured by arm: 1.0 is neither a name nor"),
    (lambda: CLOSED.base_parameters(), "arm has closed loops .fore_base.: a motion does not"),
    (lambda: planar().base_parameters().matrix, "arm: a joint holds L; give it a value"),
    (lambda: planar().consistent("hand"), "hand is no body of arm"),
    (lambda: planar().inertias("hand"), "hand is no body of arm"),
    (
        lambda: Tree("a", [Body("tip", 0)]).consistent("tip"),
        "body tip has no mass, so nothing to be kept consistent",
    ),
    (lambda: ks.regressor(planar()), "expected a tree.base_parameters"),
]


@pytest.mark.parametrize(("act", "words"), WRONG)
def test_told(act, words):
    with pytest.raises(ValueError, match=words):
        act()
