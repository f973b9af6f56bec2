"""Contacts of feet that do not walk, from motions whose forces are known under each foot."""

import numpy as np
import pytest

import kinesym as ks

WEIGHT, HALF, FOOT = 700.0, 0.12, 0.25
TIME = np.arange(0.0, 8.0 + 1e-9, 0.01)


def rise(begin, end):
    """From 0 to 1 between two instants, without a jump of acceleration (N,)."""
    s = np.clip((TIME - begin) / (end - begin), 0.0, 1.0)
    return s**3 * (10.0 - 15.0 * s + 6.0 * s**2)


def lifted(begin, end, slow=0.8):
    """1 while a foot is held up, of which going up and down is a part."""
    return rise(begin, begin + slow) - rise(end - slow, end)


def sway(size, *rates):
    """A quiet motion about 0 (N,)."""
    return size * sum(np.sin(2.0 * np.pi * f * TIME + 3.0 * f) for f in rates) / len(rates)


def foot(side, heel=0.0, toe=0.0):
    """Heel and toe that rise by so much, 3 cm above the sole."""
    y = HALF if side == "left" else -HALF
    none = np.zeros_like(TIME)
    return (
        np.array([none, y + none, 0.03 + heel + none]),
        np.array([FOOT + none, y + none, 0.02 + toe + none]),
    )


def pressed(side, share, forwards):
    """The wrench on a foot that bears this share of the weight, so far before the heel."""
    force = np.array([0.0 * TIME, 0.0 * TIME, WEIGHT * share])
    at = np.array([forwards + 0.0 * TIME, HALF + 0.0 * TIME, 0.0 * TIME])
    at[1] *= 1.0 if side == "left" else -1.0
    return ks.gait.Wrench.at_cop(TIME, force, at, threshold=1e4)


def found(feet, left, forwards, **given):
    """What is found, and the truth by foot, of shares of the left foot."""
    truth = {"left": pressed("left", left, forwards), "right": pressed("right", 1 - left, forwards)}
    total = truth["left"] + truth["right"]
    return ks.gait.contact_forces(total, TIME, feet, weight=WEIGHT, **given), truth


def spans(forces, name):
    return [(c.begin, c.end, c.struck, c.lifted) for c in forces.contacts if c.foot == name]


def check(forces, truth, force=0.02, centre=0.01):
    """Vertical forces and centres of pressure of those feet that bear a tenth of the weight."""
    for name, wrench in truth.items():
        off = forces[name].force[2] - wrench.force[2]
        assert np.abs(off).max() < force * WEIGHT
        on = wrench.force[2] > 0.1 * WEIGHT
        apart = (forces[name].cop() - wrench.cop())[:2, on]
        assert not on.any() or np.abs(apart).max() < centre


def test_quiet_standing():
    """Both feet stay; where the body leans, left and right, is what each foot bears."""
    feet = {side: foot(side) for side in ("left", "right")}
    forces, truth = found(feet, 0.5 + sway(0.2, 0.2, 0.5), 0.1 + sway(0.02, 0.3, 0.7))
    for name in feet:
        assert spans(forces, name) == [(0.0, 8.0, False, False)]
    check(forces, truth, force=0.01)
    aside = np.cross([0.0, 0.03, 0.0], forces.sharing.total.force.T).T  # 3 cm off, feet 24 cm apart
    total = truth["left"] + truth["right"]
    wrong = ks.gait.Wrench(TIME, total.force, total.moment + aside)
    off = ks.gait.contact_forces(wrong, TIME, feet, weight=WEIGHT)
    error = np.abs(off["left"].force[2] - truth["left"].force[2])
    assert 0.1 * WEIGHT < error.max() < (2.0 * off.std["left"][2]).min()
    assert "no foot stands alone" in str(forces)
    assert "right    vertical force" in str(forces) and "0.00 ... 8.00 s" in str(forces)


def test_a_squat_lifts_heels_only():
    up = 0.08 * lifted(2.0, 6.0)
    feet = {side: foot(side, heel=up) for side in ("left", "right")}
    forces, truth = found(feet, 0.5 + sway(0.1, 0.3), 0.1 + 0.1 * lifted(2.0, 6.0))
    for name in feet:
        assert spans(forces, name) == [(0.0, 8.0, False, False)]
    check(forces, truth)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("height", [0.08, 0.3])
def test_standing_on_one_leg_for_a_while(side, height):
    """The load goes over before the foot leaves, and back after it has come."""
    up = lifted(2.5, 5.5)
    other = "left" if side == "right" else "right"
    feet = {side: foot(side, height * up, height * up), other: foot(other)}
    alone = rise(1.2, 2.3) - rise(5.7, 6.8)
    left = 0.5 + (0.5 if other == "left" else -0.5) * alone
    forces, truth = found(feet, left, 0.12)
    assert spans(forces, other) == [(0.0, 8.0, False, False)]
    (first, last) = spans(forces, side)
    assert 2.4 < first[1] < 3.0 and 5.0 < last[0] < 5.6
    check(forces, truth, force=0.03)
    assert forces.astray < 0.005


def test_a_foot_may_come_and_go_while_the_other_stays():
    """It touches the ground between: none of both leads."""
    up = lifted(1.0, 3.5, 0.5) + lifted(4.5, 7.0, 0.5)
    feet = {"left": foot("left"), "right": foot("right", 0.2 * up, 0.2 * up)}
    touch = rise(3.6, 4.0) - rise(4.0, 4.4)
    ends = 1.0 - rise(0.1, 0.9) + rise(7.1, 7.9)
    forces, truth = found(feet, 1.0 - 0.4 * touch - 0.5 * ends, 0.1)
    assert len(spans(forces, "right")) == 3
    check(forces, truth, force=0.03)


def test_standing_on_one_leg_all_along():
    up = 0.25 + sway(0.02, 0.4, 0.9)
    feet = {"left": foot("left"), "right": foot("right", up, up)}
    forces, truth = found(feet, 1.0 + 0.0 * TIME, 0.1 + sway(0.03, 0.5))
    assert not spans(forces, "right") and spans(forces, "left") == [(0.0, 8.0, False, False)]
    check(forces, truth)


def test_a_jump_from_both_feet():
    """From both feet into the air and down on both, of which the total tells when."""
    air = (TIME > 3.0) & (TIME < 3.5)
    up = np.where(air, 4.905 * (TIME - 3.0) * (3.5 - TIME), 0.0)
    feet = {side: foot(side, up, up) for side in ("left", "right")}
    push, left = 1.0 - rise(2.8, 3.0) + rise(3.5, 3.7), 0.5 + sway(0.1, 0.3)
    truth = {n: pressed(n, s * push, 0.1) for n, s in (("left", left), ("right", 1.0 - left))}
    total = truth["left"] + truth["right"]
    with pytest.warns(UserWarning, match=r"the landing at 3.5. s"):  # soft, as if it was smoothed
        forces = ks.gait.contact_forces(total, TIME, feet, weight=WEIGHT)
    for name in feet:
        (before, after) = spans(forces, name)
        assert 2.9 < before[1] < 3.0 and 3.5 < after[0] < 3.6
    check(forces, truth, force=0.06)  # less than a tenth of the weight is taken for nothing


def test_feet_that_never_rest_are_refused():
    """As on a treadmill, where no foot is slow, if they do not step."""
    rows = {side: foot(side) for side in ("left", "right")}
    slide = np.array([1.5 * TIME, 0.0 * TIME, 0.0 * TIME])
    with pytest.raises(ValueError, match=r"no heel or toe rests on the ground .* contacts="):
        found({n: tuple(p + slide for p in pair) for n, pair in rows.items()}, 0.5 + 0 * TIME, 0.1)


def test_contacts_that_are_given(tmp_path):
    """Begin and end may lie beyond the record; a table keeps them."""
    feet = {"left": foot("left"), "right": foot("right")}
    share = 0.5 + 0.5 * (rise(1.2, 2.3) - rise(5.7, 6.8))
    given = [
        ks.gait.Contact("left", -1.0, 99.0),
        ks.gait.Contact("right", -1.0, 2.4),
        ks.gait.Contact("right", 5.6, 99.0),
    ]
    forces, truth = found(feet, share, 0.1, contacts=given)
    check(forces, truth, force=0.03)
    assert not forces["right"].force[:, (TIME > 2.4) & (TIME < 5.6)].any()
    path = tmp_path / "contacts.csv"
    ks.gait.write_contacts(path, given)
    assert path.read_text().splitlines()[0] == "foot,begin,end"
    assert ks.gait.read_contacts(path) == sorted(given, key=lambda c: (c.begin, c.end))
    with pytest.raises(ValueError, match=r"no foot 'rigth'; did you mean right\?"):
        found(feet, share, 0.1, contacts=[*given[:2], ks.gait.Contact("rigth", 5.6, 99.0)])


@pytest.mark.parametrize(
    "text, message",
    [
        ("foot,begin\nleft,1\n", "line 1 lacks the column end; there are foot, begin"),
        ("foot,begin,end\nleft,1,0.5\n", "line 2: a contact must end after it begins"),
        ("foot,begin,end\nleft,1,2\n\nright,x,3\n", "line 4, column begin: 'x' is no number"),
        ("foot,begin,end\nleft,,2\n", "line 2: a contact must end after it begins"),
        ("foot,begin,end\n,0,2\n", "line 2: the foot of a contact"),
        ("left 0 2\n", "is no CSV file"),
    ],
)
def test_a_table_that_is_wrong(tmp_path, text, message):
    path = tmp_path / "contacts.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        ks.gait.read_contacts(path)
