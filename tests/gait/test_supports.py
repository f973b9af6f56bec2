"""Stairs, boxes and chairs: motions whose forces are known under each foot and on the seat."""

from functools import reduce
from operator import add

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter1d

import kinesym as ks

WEIGHT, RATE = 700.0, 100.0


def rise(time, begin, end):
    """From 0 to 1 between two instants, without a jump of acceleration (N,)."""
    s = np.clip((time - begin) / (end - begin), 0.0, 1.0)
    return s**3 * (10.0 - 15.0 * s + 6.0 * s**2)


def wrench(time, force, at):
    """A force (3, N) that acts at a place (3, N)."""
    return ks.gait.Wrench(time, force, np.cross(at, force, axis=0))


# -- stairs ---------------------------------------------------------------------------------------

STEP, TREAD, STANCE, DOUBLE, STEPS = 0.18, 0.29, 0.9, 0.2, 5


def stairs(up):
    """Feet by turns on stairs of 0.18 m, from the floor up or down to it: time, heels and toes 3 cm
    above the tread, and by foot the force of the treads, which brakes and pushes, and contacts."""
    every = STANCE - DOUBLE
    time = np.arange(0.0, every * STEPS + DOUBLE + 1e-9, 1.0 / RATE)
    feet, forces, stances = {}, {}, []
    for k, foot in enumerate(("left", "right")):
        at = np.zeros((3, len(time)))
        at[1] = 0.1 - 0.2 * k
        parts = []
        for n in range(k - 2, STEPS + 2, 2):
            begin, level = n * every, STEP * (n + 1 if up else STEPS - n)
            new = np.array([TREAD * n, at[1, 0], level])
            if n == k - 2:
                at[:] = new[:, None]
            swing = rise(time, begin - (every - DOUBLE) + 0.02, begin)
            at = at + (new[:, None] - at) * swing
            at[2] += 0.08 * np.sin(np.pi * swing) ** 2
            s = np.clip((time - begin) / STANCE, 0.0, 1.0)
            load = WEIGHT * np.minimum(1.0, np.minimum(s, 1.0 - s) * STANCE / DOUBLE)
            push = load * np.array(
                [0.12 * (2.0 * s - 1.0), 0.04 * k - 0.02 + 0.0 * s, 0.0 * s + 1.0]
            )
            pressed = new[:, None] + np.array([0.05 + 0.15 * s, 0.0 * s, 0.0 * s])
            parts.append(wrench(time, push, pressed))
            if begin + STANCE > 0.1 and begin < time[-1] - 0.1:
                ends = max(begin, 0.0), min(begin + STANCE, time[-1])
                cut = {"struck": begin > 0.0, "lifted": begin + STANCE < time[-1] - 1e-9}
                stances.append(ks.gait.Contact(foot, *ends, **cut, height=level))
        forces[foot] = reduce(add, parts)
        heel = at + np.array([[0.0], [0.0], [0.03]])
        feet[foot] = heel, heel + np.array([[0.22], [0.0], [0.0]])
    return time, feet, forces, stances


def off(found, truth, time, within=0.0):
    """Largest rms error of the vertical force on a foot, over the weight; away from the ends of the
    record, where a double support is cut."""
    here = (time >= time[0] + within) & (time <= time[-1] - within)
    errors = [found[foot].force[2, here] - wrench.force[2, here] for foot, wrench in truth.items()]
    return max(np.sqrt(np.mean(row**2)) for row in errors) / WEIGHT


@pytest.mark.parametrize("up", [True, False])
def test_stairs_are_seen(up):
    """Each stance at its height, and forces with contacts that are longer by the slow ends of these
    swings; known ones do better. The treads press under the feet."""
    time, feet, forces, stances = stairs(up)
    total = forces["left"] + forces["right"]
    found = ks.gait.contact_forces(total, time, feet, weight=WEIGHT)
    for foot in feet:
        ours, theirs = ([c for c in row if c.foot == foot] for row in (found.contacts, stances))
        for one, other in zip(ours, theirs, strict=True):
            assert one.height == pytest.approx(other.height, abs=0.002)
            assert max(abs(one.begin - other.begin), abs(one.end - other.end)) < 0.1
    assert off(found, forces, time) < 0.05 and found.astray < 0.01
    assert "at heights of 0.18, 0.54, 0.9" in str(found)
    told = ks.gait.contact_forces(total, time, feet, weight=WEIGHT, contacts=stances)
    assert off(told, forces, time, 0.3) < 0.006
    lever = ks.gait.PressureTransfer(time, feet, contacts=stances)
    by = ks.gait.contact_forces(total, time, feet, weight=WEIGHT, contacts=stances, method=lever)
    assert off(by, forces, time, 0.3) < 0.02
    for contact in stances:
        here = (time > contact.begin + 0.25) & (time < contact.end - 0.25)
        centre = told[contact.foot].cop(contact.height) - forces[contact.foot].cop(contact.height)
        assert np.abs(centre[:, here]).max(initial=0.0) < 1e-9


def test_a_foot_that_is_held_up_is_on_no_stair():
    """It rests beside the other in the air, which bears all."""
    time = np.arange(0.0, 4.0, 0.01)
    up = 0.25 * (rise(time, 0.8, 1.4) - rise(time, 2.6, 3.2))
    none = np.zeros_like(time)
    feet = {
        name: tuple(np.array([x + none, y + none, 0.03 + z]) for x in (0.0, 0.22))
        for name, y, z in (("left", 0.1, none), ("right", -0.1, up))
    }
    alone = rise(time, 0.2, 0.8) - rise(time, 3.2, 3.8)
    at = np.array([0.1 + none, 0.1 * alone, none])
    total = wrench(time, np.array([none, none, WEIGHT + none]), at)
    found = ks.gait.contact_forces(total, time, feet, weight=WEIGHT)
    assert not any(contact.height for contact in found.contacts)
    here = (time > 1.4) & (time < 2.6)
    np.testing.assert_allclose(found["left"].force[2, here], WEIGHT)


def test_a_jump_from_a_box():
    """Both feet leave a box of 0.4 m and land on the floor: heights, a warning of impacts that the
    low-pass of the motion takes, not of those that it leaves, and how far it is off as the manual
    says, from the box to rest."""
    time = np.arange(0.0, 3.0, 0.005)
    fall = np.sqrt(2.0 * 0.4 / 9.81)
    drop = 0.4 - 4.905 * np.clip(time - 1.0, 0.0, fall) ** 2
    shift = 0.4 * rise(time, 0.95, 1.0 + fall)
    moving = (time > 1.0) & (time < 1.4 + fall)
    feet = {
        name: tuple(np.array([x + shift, y + 0.0 * time, 0.03 + drop]) for x in (0.0, 0.22))
        for name, y in (("left", 0.1), ("right", -0.1))
    }
    late = time - 1.0 - fall
    impact = 2.5 * np.exp(-0.5 * ((late - 0.03) / 0.01) ** 2) + 1.5 * np.sin(np.pi * late / 0.4)
    load = np.where(time < 1.0, 1.0, np.where(late < 0.0, 0.0, np.where(late < 0.4, impact, 1.0)))
    force = np.array([0.0 * time, 0.0 * time, WEIGHT * load])
    total = wrench(time, force, np.array([0.1 + shift, 0.0 * time, 0.0 * time]))
    for cutoff, limits in ((6.0, (0.2, 0.45)), (20.0, (0.05, 0.15))):
        seen = total.smoothed(cutoff, 4)
        error = (seen.force[2] - total.force[2])[moving] / WEIGHT
        assert limits[0] < np.sqrt(np.mean(error**2)) < limits[1]
        if cutoff < 10.0:
            with pytest.warns(
                UserWarning, match=r"landing at 1.2. s, after 0.2. s .* at about [6-8] Hz"
            ):
                found = ks.gait.contact_forces(seen, time, feet, weight=WEIGHT)
        else:
            found = ks.gait.contact_forces(seen, time, feet, weight=WEIGHT)
        heights = {(c.foot, c.begin < 1.0): c.height for c in found.contacts}
        for foot in feet:
            assert heights[foot, True] == pytest.approx(0.4, abs=0.04)
            assert heights[foot, False] == 0.0
        half = 0.5 * seen.force[2]
        np.testing.assert_allclose(found["left"].force[2], half, atol=0.08 * WEIGHT)


# -- chairs ---------------------------------------------------------------------------------------

TIME = np.arange(0.0, 5.0, 0.01)


def standing_up(friction=0.0):
    """From a chair 0.45 m high, left after 2 s: feet, the middle of the hips, and the forces on the
    feet and of the chair, which bears four fifths before the trunk leans forwards."""
    none = np.zeros_like(TIME)
    feet = {
        name: tuple(np.array([x + none, y + none, 0.03 + none]) for x in (0.0, 0.22))
        for name, y in (("left", 0.12), ("right", -0.12))
    }
    up = rise(TIME, 1.95, 3.2)
    hips = np.array([-0.38 + 0.4 * up, none, 0.52 + 0.38 * up])
    chair = 0.8 * (1.0 - rise(TIME, 1.0, 2.0))
    left, at = 0.5 + 0.08 * np.sin(3.0 * TIME), 0.1 + 0.03 * np.sin(2.0 * TIME)
    forces = {}
    for name, share in (("left", left), ("right", 1.0 - left)):
        force = WEIGHT * share * (1.0 - chair)
        place = np.array([at, feet[name][0][1], none])
        forces[name] = wrench(
            TIME, np.array([-friction * WEIGHT * share * chair, none, force]), place
        )
    seat = np.array([friction * WEIGHT * chair, none, WEIGHT * chair])
    return feet, hips, forces, wrench(TIME, seat, np.array([hips[0], none, 0.45 + none]))


def test_a_chair_bears_what_feet_do_not():
    """Where it is pressed tells how much, when not said while the hips rest; the feet bear the
    rest, the friction of the seat too."""
    for friction in (0.0, 0.05):
        feet, hips, forces, chair = standing_up(friction)
        total = forces["left"] + forces["right"] + chair
        given = {"weight": WEIGHT, "seats": {"chair": hips}}
        for contacts in (
            None,
            [ks.gait.Contact(foot, 0.0, 5.0, False, False) for foot in feet]
            + [ks.gait.Contact("chair", 0.0, 2.0, False, seat=True)],
        ):
            found = ks.gait.contact_forces(total, TIME, feet, contacts=contacts, **given)
            assert off(found, forces | {"chair": chair}, TIME) < 0.03
            (seat,) = [c for c in found.contacts if c.seat]
            assert seat.foot == "chair" and 1.9 < seat.end < 2.3
            together = found["left"].force + found["right"].force + found["chair"].force
            np.testing.assert_allclose(together, total.force, atol=1e-9 * WEIGHT)
            late = TIME > 2.3
            assert not found.seats["chair"].force[:, late].any()
    wrong = ks.gait.Wrench(
        TIME, total.force, total.moment + np.cross([0.04, 0, 0], total.force.T).T
    )
    moved = ks.gait.contact_forces(wrong, TIME, feet, **given)
    error = np.abs(moved["chair"].force[2] - chair.force[2])
    assert (
        error.max() > 0.05 * WEIGHT and (error <= 2.0 * moved.std["chair"][2] + 1.0).mean() > 0.95
    )
    assert "chair    vertical force up to" in str(moved) and "pressed 0.00" in str(moved)
    assert moved.to_pandas()["chair"].shape == (len(TIME), 9)
    assert len(moved.plot().axes) == 9


def test_a_chair_may_bear_all():
    """Feet rest, and nothing is left for them."""
    feet, hips, _, _ = standing_up()
    still = np.repeat(hips[:, :1], len(TIME), axis=1)
    total = wrench(TIME, np.array([0.0, 0.0, WEIGHT])[:, None] + 0.0 * still, still)
    down = [ks.gait.Contact(foot, 0.0, 5.0, False, False) for foot in feet]
    seat = ks.gait.Contact("chair", -1.0, 9.0, seat=True)
    found = ks.gait.contact_forces(
        total, TIME, feet, weight=WEIGHT, contacts=[*down, seat], seats={"chair": still}
    )
    np.testing.assert_allclose(found["chair"].force[2], WEIGHT, rtol=0.01)
    for foot in feet:
        np.testing.assert_allclose(found[foot].force, 0.0, atol=0.01 * WEIGHT)


def test_a_chair_that_is_not_said_is_refused():
    """Its force is never given to the feet."""
    feet, hips, forces, chair = standing_up()
    total = forces["left"] + forces["right"] + chair
    with pytest.raises(ValueError, match=r"a force 0.2. m off both ends of the feet from 0 to 1"):
        ks.gait.contact_forces(total, TIME, feet, weight=WEIGHT)
    said = [ks.gait.Contact("chair", 0.0, 2.0, seat=True)]
    with pytest.raises(ValueError, match=r"the seat 'chair' .* seats=\{'chair': place\}"):
        ks.gait.contact_forces(total, TIME, feet, weight=WEIGHT, contacts=said)
    with pytest.raises(ValueError, match=r"rises by 0.00 m only .* does not tell when it bears"):
        still = np.repeat(hips[:, :1], len(TIME), axis=1)
        ks.gait.contact_forces(total, TIME, feet, weight=WEIGHT, seats={"chair": still})


def test_plates_under_the_feet_tell_the_chair():
    """What they leave, without a place; it is refused where a foot is on none."""
    feet, _, forces, chair = standing_up(0.05)
    total = forces["left"] + forces["right"] + chair
    down = [ks.gait.Contact(foot, 0.0, 5.0, False, False, measured=True) for foot in feet]
    seat = ks.gait.Contact("chair", 0.0, 2.0, False, seat=True)
    shared = ks.gait.share(total, [*down, seat], forces, weight=WEIGHT)
    np.testing.assert_allclose(shared.seats["chair"].rows, chair.rows, atol=1e-9 * WEIGHT)
    for foot, truth in forces.items():
        np.testing.assert_allclose(shared[foot].rows, truth.rows, atol=1e-9 * WEIGHT)
    assert np.abs(shared.correction.rows).max() < 1e-9 * WEIGHT
    with pytest.raises(ValueError, match=r"plates under both feet show .* Contact\(\"chair\""):
        ks.gait.share(total, down, forces, weight=WEIGHT)
    with pytest.raises(ValueError, match="'right' stands on no plate"):
        ks.gait.share(total, [*down, seat], {"left": forces["left"]}, weight=WEIGHT)
    with pytest.raises(ValueError, match="another at the same time"):
        rail = ks.gait.Contact("rail", 1.0, 3.0, seat=True)
        ks.gait.share(total, [*down, seat, rail], forces, weight=WEIGHT)


def test_a_table_of_contacts_has_heights_and_seats(tmp_path):
    """Files without these columns stay as they were; see `test_contacts`."""
    rows = [
        ks.gait.Contact("left", 0.0, 1.5),
        ks.gait.Contact("chair", 0.0, 2.0, height=0.45, seat=True),
        ks.gait.Contact("right", 1.0, 3.0, height=-0.18),
    ]
    path = tmp_path / "contacts.csv"
    ks.gait.write_contacts(path, rows)
    assert path.read_text().splitlines()[:2] == [
        "foot,begin,end,height,seat", "left,0.0,1.5,0.0,no",
    ]  # fmt: skip
    assert ks.gait.read_contacts(path) == rows
    path.write_text("foot,begin,end,seat\nleft,0,1,\n")
    assert ks.gait.read_contacts(path) == [ks.gait.Contact("left", 0.0, 1.0)]
    path.write_text("foot,begin,end,seat\nleft,0,1,maybe\n")
    with pytest.raises(ValueError, match="line 2: seat is one of yes, no, got 'maybe'"):
        ks.gait.read_contacts(path)
    with pytest.raises(ValueError, match="height of a contact of 'left'"):
        ks.gait.Contact("left", 0.0, 1.0, height=np.nan)


# -- how far off it is, as docs/how-to/video.md says ----------------------------------------------

#: Errors of two drop jumps from 0.3 m, least and most, by cutoff [% of weight].
SMOOTHED = {4.0: (28, 37), 6.0: (21, 27), 10.0: (14, 17), 15.0: (11, 13), 20.0: (8.9, 11)}


@pytest.mark.parametrize("stance", [0.22, 0.45])
def test_low_passes_take_impacts(stance):
    """A stiff and a soft landing from 0.3 m, a jump of 0.25 m, and a landing: two impacts each, of
    forefoot and heel, the rest as momenta need it. Errors of the total from the box to rest."""
    time = np.arange(0.0, 4.0, 0.005)
    fall, flight, last = np.sqrt(0.6 / 9.81), 0.45, 0.35
    first = 1.0 + fall
    second = first + stance + flight

    def landing(begin, length, impacts, impulse):
        late = time - begin
        hits = sum(a * np.exp(-0.5 * ((late - at) / w) ** 2) for at, w, a in impacts) * (late >= 0)
        rest = np.sin(np.pi * np.clip(late / length, 0.0, 1.0))
        return hits + rest * (impulse - np.trapezoid(hits, time)) / np.trapezoid(rest, time)

    load = np.where((time < 1.0) | (time > second + last), 1.0, 0.0)
    impacts = [(0.018, 0.006, 1.5), (0.05, 0.012, 2.0)]
    load = load + landing(first, stance, impacts, stance + fall + 0.5 * flight)
    impacts = [(0.02, 0.007, 1.2), (0.06, 0.015, 1.8)]
    load = load + landing(second, last, impacts, last + 0.5 * flight)
    moving = (time > 1.0) & (time < second + last)
    total = wrench(time, WEIGHT * np.array([0.0 * load, 0.0 * load, load]), np.zeros((3, 800)))
    for cutoff, (least, most) in SMOOTHED.items():
        error = (total.smoothed(cutoff, 4).force[2] / WEIGHT - load)[moving]
        assert least < 100.0 * np.sqrt(np.mean(error**2)) < most


def spoiled(rng, time, feet, total):
    """Markers that are off by 5 mm each frame and as much drifting, and a total whose centre of
    pressure drifts by 2 cm."""

    def drifting(shape, size):
        rows = gaussian_filter1d(rng.normal(size=shape), 20.0, axis=-1)
        return size * rows / rows.std()

    places = {
        foot: tuple(p + 5e-3 * rng.normal(size=p.shape) + drifting(p.shape, 5e-3) for p in pair)
        for foot, pair in feet.items()
    }
    aside = np.vstack([drifting((2, len(time)), 0.02), 0.0 * time])
    moment = total.moment + np.cross(aside, total.force, axis=0)
    return places, ks.gait.Wrench(time, total.force, moment)


@pytest.mark.parametrize("seed", [0, 1])
def test_errors_of_motions_with_noise(seed):
    """Heights of stairs are found all the same, and the bands tell the errors."""
    rng = np.random.default_rng(seed)
    time, feet, forces, stances = stairs(up=True)
    places, total = spoiled(rng, time, feet, forces["left"] + forces["right"])
    found = ks.gait.contact_forces(total, time, places, weight=WEIGHT)
    assert sorted(c.height for c in found.contacts) == pytest.approx(
        sorted(c.height for c in stances), abs=0.03
    )
    assert off(found, forces, time) < 0.085
    feet, hips, sitting, chair = standing_up()
    places, total = spoiled(rng, TIME, feet, sitting["left"] + sitting["right"] + chair)
    rose = ks.gait.contact_forces(total, TIME, places, weight=WEIGHT, seats={"chair": hips})
    assert off(rose, sitting, TIME) < 0.11
    for one, truth in ((found, forces), (rose, sitting | {"chair": chair})):
        for name, wrench in truth.items():
            error = np.abs(one[name].force[2] - wrench.force[2])
            assert np.mean(error <= 2.0 * one.std[name][2] + 5.0) > 0.9
