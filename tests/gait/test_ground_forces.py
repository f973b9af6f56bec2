"""Ground forces without plates: closed forms, plates that were held back, runs."""

import numpy as np
import pytest
from scipy.optimize import nnls

import kinesym as ks
from kinesym.examples.studies.gait import data
from kinesym.gait.events import distance_to_line
from kinesym.gait.ground_forces import REACH
from kinesym.gait.pressure import HEEL, ROLLED, nonnegative, point_forces

WEIGHT = 700.0
FOOT = 0.25


def standing(time, heel):
    """Heel and toe of a foot that stays, (3, N) each."""
    still = np.repeat(np.array([[heel[0]], [heel[1]], [0.0]]), len(time), axis=1)
    return still, still + np.array([[FOOT], [0.0], [0.0]])


def transfer(share, pivot=1.2, height=0.0):
    """A double support of half a second in which the leading foot bears this share: the total, and
    that of the leading foot. Lines of both forces meet above the ground."""
    time = np.linspace(0.0, 0.5, len(share))
    feet = {"left": standing(time, (0.0, 0.1)), "right": standing(time, (0.6, -0.1))}
    phase = time / 0.5
    behind = feet["left"][1] + np.array([[0.0], [0.0], [height]])
    ahead = feet["right"][0] + np.outer([FOOT, 0.0, 0.0], HEEL + (ROLLED - HEEL) * phase)
    ahead[2] = height
    centre = behind + share * (ahead - behind)
    meet = centre + np.array([[0.0], [0.0], [pivot]])
    parts = [
        WEIGHT * part * (meet - at) / pivot for part, at in ((1.0 - share, behind), (share, ahead))
    ]
    wrenches = [
        ks.gait.Wrench.at_cop(time, f, at, threshold=1e4)
        for f, at in zip(parts, (behind, ahead), strict=True)
    ]
    contacts = [
        ks.gait.Contact("left", -0.4, 0.5, struck=False),
        ks.gait.Contact("right", 0.0, 0.9, lifted=False),
    ]
    return time, feet, wrenches, contacts


@pytest.mark.parametrize("pivot", [0.8, 1.2])
@pytest.mark.parametrize("height", [0.0, 0.3])
def test_a_lever_shares_as_its_supports_do(pivot, height):
    phase = np.linspace(0.0, 1.0, 41)
    time, feet, (_, leading), contacts = transfer(phase**2 * (3.0 - 2.0 * phase), pivot, height)
    method = ks.gait.PressureTransfer(time, feet, height, pivot)
    trailing = transfer(phase**2 * (3.0 - 2.0 * phase), pivot, height)[2][0]
    found = ks.gait.share(trailing + leading, contacts, method=method)
    np.testing.assert_allclose(found["right"].rows, leading.rows, atol=1e-9 * WEIGHT)
    np.testing.assert_allclose(found["left"].rows, trailing.rows, atol=1e-9 * WEIGHT)


def test_the_share_begins_at_nothing_and_ends_at_all():
    """Where the centre of pressure says otherwise, it is shifted."""
    time, feet, (trailing, leading), contacts = transfer(np.linspace(0.2, 0.7, 41))
    method = ks.gait.PressureTransfer(time, feet)
    total = trailing + leading
    found = ks.gait.share(total, contacts, method=method)
    assert found["right"].force[2, 0] == pytest.approx(0.0, abs=1e-9)
    assert found["left"].force[2, -1] == pytest.approx(0.0, abs=1e-9)
    together = found["left"] + found["right"]
    np.testing.assert_allclose(together.rows, total.rows, atol=1e-9)


def test_pressure_transfer_refuses():
    time, feet, (trailing, leading), contacts = transfer(np.linspace(0.0, 1.0, 11))
    with pytest.raises(ValueError, match="no foot 'right'"):
        method = ks.gait.PressureTransfer(time, {"left": feet["left"]})
        ks.gait.share(trailing + leading, contacts, method=method)
    with pytest.raises(ValueError, match="pivot"):
        ks.gait.PressureTransfer(time, feet, pivot=0.0)
    with pytest.raises(ValueError, match="heel of 'left'"):
        ks.gait.PressureTransfer(time, {"left": (np.zeros((3, 4)), feet["left"][1])})


# -- points under the feet that push ----------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_nonnegative_least_squares_as_of_scipy(seed):
    """In bands of any width, some places taken out."""
    rng = np.random.default_rng(seed)
    n, width = 60, 3 + seed
    rows = np.triu(np.tril(rng.normal(size=(n, n)), width), -width) + 2.0 * np.eye(n)
    given, free = rng.normal(size=n), rng.random(n) < 0.8
    A = rows.T @ rows
    bands = np.array([np.append(np.diagonal(A, -k), np.zeros(k)) for k in range(2 * width + 1)])
    found = nonnegative(bands, rows.T @ given, free)
    expected = np.zeros(n)
    expected[free] = nnls(rows[:, free], given)[0]
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert 5 < (found == 0.0).sum() < 55


def rolling(rate):
    """Three steps of feet that roll from heel to toe, 1.1 s a stance, 0.25 s double support: total,
    feet, contacts, and what each foot bears."""
    time = np.arange(0.0, 2.2 + 1e-9, 1.0 / rate)
    begins, wrenches, contacts = {"left": (-0.6, 1.1), "right": (0.25,)}, {}, []
    places = {"left": (0.0, 1.2), "right": (0.6,)}
    feet = {}
    for foot, starts in begins.items():
        y, rows = (0.1 if foot == "left" else -0.1), np.zeros((6, len(time)))
        heel = np.zeros((3, len(time)))
        heel[1] = y
        for begin, x in zip(starts, places[foot], strict=True):
            s = np.clip((time - begin) / 1.1, 0.0, 1.0)
            force = WEIGHT * np.minimum(1.0, np.minimum(s, 1.0 - s) * 1.1 / 0.25)
            at = np.array([x + FOOT * (0.1 + 0.8 * s), y + 0.0 * s, 0.0 * s])
            up = np.array([0.0 * s, 0.0 * s, force])
            rows += np.vstack([up, np.cross(at, up, axis=0)])
            heel[0] = np.where(time >= begin - 0.1, x, heel[0])
            contacts.append(
                ks.gait.Contact(
                    foot, max(begin, 0.0), min(begin + 1.1, time[-1]), struck=begin > 0.0,
                    lifted=begin + 1.1 < time[-1],
                )
            )  # fmt: skip
        feet[foot] = heel, heel + np.array([[FOOT], [0.0], [0.0]])
        wrenches[foot] = ks.gait.Wrench(time, rows[:3], rows[3:])
    return time, feet, wrenches, contacts


@pytest.mark.parametrize("rate", [50.0, 200.0])
def test_points_bear_what_rolling_feet_do(rate):
    """Nearer than a lever, which does not know that the trailing foot still rolls; the more so as
    samples are no matter."""
    time, feet, wrenches, contacts = rolling(rate)
    total = wrenches["left"] + wrenches["right"]
    lever = ks.gait.PressureTransfer(time, feet)
    points = point_forces(total, contacts, lever, WEIGHT)
    off = {}
    for name, method in (("lever", lever), ("points", points)):
        found = ks.gait.share(total, contacts, method=method, weight=WEIGHT)
        gap = found["right"].force[2] - wrenches["right"].force[2]
        off[name] = float(np.sqrt(np.mean(gap**2))) / WEIGHT
        together = found["left"] + found["right"]
        np.testing.assert_allclose(together.rows, total.rows, atol=1e-9 * WEIGHT)
    assert off["points"] < 0.02 and off["points"] < 0.8 * off["lever"]


def test_points_push_only_in_contact():
    time, feet, wrenches, contacts = rolling(100.0)
    points = point_forces(
        wrenches["left"] + wrenches["right"], contacts, ks.gait.PressureTransfer(time, feet), WEIGHT
    )
    for foot, borne in points.borne.items():
        here = np.any([(time >= c.begin) & (time <= c.end) for c in contacts if c.foot == foot], 0)
        assert (borne[~here] == 0.0).all() and (borne >= 0.0).all() and borne[here].max() > 0.9


# -- a walk whose plates are held back --------------------------------------------------------


@pytest.fixture(scope="module")
def walk():
    """Time, feet and plates of a recorded walk."""
    markers = ks.gait.read_csv(data("gait_subject01_markers.csv.gz"))
    feet = {f: (markers[f"{f[0].upper()}.Heel"], markers[f"{f[0].upper()}.Toe.Tip"]) for f in FEET}
    return markers.time, feet, ks.gait.read_forces(data("gait_subject01_forces.csv.gz"))


FEET = ("right", "left")


def test_the_sum_of_plates_is_put_under_the_feet(walk):
    """The sum of both plates, from which each is found again, within the band."""
    time, feet, plates = walk
    inside = time[12:-12]
    total = plates["right"].at(inside) + plates["left"].at(inside)
    found = ks.gait.contact_forces(total, time, feet)
    assert found.astray < 0.03
    for foot in FEET:
        off = found[foot].force - plates[foot].at(inside).force
        assert np.sqrt(np.mean(off[2] ** 2)) < 0.03 * found.sharing.weight
        within = np.abs(off) <= 2.0 * found.std[foot] + 5.0
        assert within.mean() > 0.93
    np.testing.assert_allclose(
        found["right"].force + found["left"].force, total.force, atol=1e-9 * WEIGHT
    )
    table = found.to_pandas()
    assert table["left"].shape == (len(inside), 9)
    assert "mm off the foot" in str(found)
    assert len(found.plot(plates).axes) == 6


@pytest.mark.parametrize("slower", [1.7, 2.5])
def test_slow_walks_are_walks(walk, slower):
    """A foot is longer in the air than in a walk at ease, but comes forwards meanwhile, seen from
    the other one."""
    time, feet, plates = walk
    total = plates["right"].at(time[12:-12]) + plates["left"].at(time[12:-12])
    slow = ks.gait.Wrench(slower * total.time, total.force, total.moment)
    at_ease = ks.gait.contact_forces(total, time, feet).contacts
    found = ks.gait.contact_forces(slow, slower * time, feet).contacts
    assert [c.foot for c in found] == [c.foot for c in at_ease]
    for one, other in zip(found, at_ease, strict=True):
        assert one.begin / slower == pytest.approx(other.begin, abs=0.03)
        assert one.end / slower == pytest.approx(other.end, abs=0.03)


def test_forces_press_under_the_feet(walk):
    """A total that is wrong by 20 cm beside is put there, and `astray` tells."""
    time, feet, plates = walk
    inside = time[12:-12]
    total = plates["right"].at(inside) + plates["left"].at(inside)
    aside = np.cross([0.0, 0.2, 0.0], total.force.T).T
    wrong = ks.gait.Wrench(total.time, total.force, total.moment + aside)
    found = ks.gait.contact_forces(wrong, time, feet)
    assert found.astray > 0.1
    for foot in FEET:
        heel, toe = (np.array([np.interp(inside, time, r) for r in p]) for p in feet[foot])
        centre = found[foot].cop()[:2]
        on = np.isfinite(centre[0])
        assert distance_to_line(centre[:, on], heel[:, on], toe[:, on]).max() < REACH + 1e-9


def test_contact_forces_refuse(walk):
    time, feet, plates = walk
    total = plates["right"].at(time[12:-12])
    with pytest.raises(ValueError, match="the feet"):
        short = {f: tuple(x[:, 40:60] for x in pair) for f, pair in feet.items()}
        ks.gait.contact_forces(total, time[40:60], short)
    whole = total + plates["left"].at(time[12:-12])
    found = ks.gait.contact_forces(whole, time, feet)
    with pytest.raises(KeyError, match="no foot 'rigth'"):
        found["rigth"]


# -- a run ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [2.5, 3.0])
def test_a_run_is_seen_from_its_flights(rate):
    """Half sines between flights, feet in turns; the foot in the air is higher."""
    time = np.arange(0.0, 2.0, 0.005)
    step = np.floor(time * rate)
    phase = time * rate - step
    vertical = np.where(phase < 0.6, np.sin(np.pi * np.minimum(phase / 0.6, 1.0)), 0.0)
    vertical *= WEIGHT * np.pi / 1.2
    feet, expected = {}, {}
    for k, foot in enumerate(FEET):
        mine = step % 2 == k
        heel, toe = standing(time, (0.0, 0.1 - 0.2 * k))
        lift = np.where(mine & (phase < 0.6), 0.0, 0.15)
        feet[foot] = (heel + [[0.0], [0.0], [1.0]] * lift, toe + [[0.0], [0.0], [1.0]] * lift)
        expected[foot] = np.where(mine, vertical, 0.0)
    centre = np.array([0.0 * time + 0.1, np.where(step % 2 == 0, 0.1, -0.1), 0.0 * time])
    force = np.array([0.0 * time, 0.0 * time, vertical])
    total = ks.gait.Wrench.at_cop(time, force, centre, threshold=1e4)
    found = ks.gait.contact_forces(total, time, feet, weight=WEIGHT)
    assert len(found.contacts) == int(2.0 * rate)
    for foot in FEET:
        off = np.abs(found[foot].force[2] - expected[foot])
        assert off.max() <= 0.1 * WEIGHT + 1e-9
        assert (off <= 2.0 * found.std[foot][2] + 1e-9).mean() > 0.85
    assert found.astray < 1e-6
    told = ks.gait.contact_forces(total, time, feet, weight=WEIGHT, contacts=found.contacts)
    np.testing.assert_allclose(told["left"].rows, found["left"].rows, atol=1e-9 * WEIGHT)
    aside = np.cross([0.03, 0.0, 0.0], force.T).T  # 3 cm off: of forces that are more than weight
    wrong = ks.gait.Wrench(time, force, total.moment + aside)
    again = ks.gait.contact_forces(wrong, time, feet, weight=WEIGHT)
    middle = np.abs(phase - 0.3) < 0.1
    loaded = vertical > 0.1 * WEIGHT
    borne = np.sqrt(np.mean(vertical[loaded] ** 2))
    std = np.max([again.std[foot][0] for foot in FEET], axis=0)[middle]
    assert np.all(std > 0.9 * again.astray * borne)
    assert again.astray * borne > 1.2 * again.astray * WEIGHT


@pytest.mark.parametrize("angle", [0.7, np.pi])
def test_the_way_walked_does_not_matter(walk, angle):
    """Feet and total turned about the vertical: so are the forces."""
    time, feet, plates = walk
    inside = time[12:-12]
    total = plates["right"].at(inside) + plates["left"].at(inside)
    turn = np.array(
        [[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]]
    )
    turned = {foot: tuple(turn @ place for place in pair) for foot, pair in feet.items()}
    one = ks.gait.contact_forces(total, time, feet)
    other = ks.gait.contact_forces(total.turned(angle), time, turned)
    far = np.array([[100.0], [-40.0], [0.0]])
    moved = ks.gait.Wrench(inside, total.force, total.moment + np.cross(far, total.force, axis=0))
    away = ks.gait.contact_forces(
        moved, time, {foot: tuple(far + place for place in pair) for foot, pair in feet.items()}
    )
    for foot in FEET:
        np.testing.assert_allclose(away[foot].force, one[foot].force, atol=1e-7 * WEIGHT)
        np.testing.assert_allclose(
            other[foot].rows, one[foot].turned(angle).rows, atol=1e-9 * WEIGHT
        )


def test_a_foot_that_never_touches_the_ground():
    """It bears nothing; the other one bears all."""
    time = np.linspace(0.0, 1.0, 101)
    force = np.vstack([np.zeros((2, 101)), np.full(101, 700.0)])
    centre = np.array([[0.1], [0.1], [0.0]]) + np.zeros((3, 101))
    total = ks.gait.Wrench(time, force, np.cross(centre, force, axis=0))
    feet = {
        side: tuple(np.array([[x], [y], [z]]) + np.zeros((3, 101)) for x in (0.0, 0.2))
        for side, y, z in (("left", 0.1, 0.0), ("right", -0.1, 0.3))
    }
    contacts = [ks.gait.Contact("left", 0.0, 1.0, struck=False, lifted=False)]
    found = ks.gait.contact_forces(total, time, feet, contacts=contacts)
    np.testing.assert_allclose(found["left"].force, force)
    assert not found["right"].rows.any() and not found.std["right"].any()
    found.plot()
    assert "right" in str(found)
