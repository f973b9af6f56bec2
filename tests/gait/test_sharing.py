"""Sharing between the feet: sums, ends, continuity, symmetry; two measured walks."""

import gzip
from importlib import resources

import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from kinesym.gait.events import Contact, contacts_from_wrench
from kinesym.gait.sharing import share
from kinesym.gait.sharing_methods import (
    CorrectedForcePlates,
    DoubleSupport,
    LeastCorrection,
    SmoothTransition,
)
from kinesym.gait.wrench import Wrench

#: Plates and motions are made up here: their centres differ on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:from .* the shared centre of pressure")

matplotlib.use("Agg")

#: Right from 0.0, left from 0.5 s, ...; all strikes and toe-offs are samples.
STEP = 0.0125
TIME = STEP * np.arange(129)
CONTACTS = (
    Contact("right", 0.0, 0.6, struck=False),
    Contact("left", 0.5, 1.1),
    Contact("right", 1.0, 1.6, lifted=False),
)
DOUBLE = ((0.5, 0.6, "right", "left"), (1.0, 1.1, "left", "right"))
CONTINUOUS = (CorrectedForcePlates(), CorrectedForcePlates("smoothstep"), SmoothTransition())
WITH_PLATES = (*CONTINUOUS[:2], CorrectedForcePlates("half"), LeastCorrection({"left": 3.0}))
SEEDS = st.integers(0, 2**32 - 1)
MANY = settings(max_examples=12, deadline=None)


def rows(wrench):
    return np.vstack([wrench.force, wrench.moment])


def random_wrench(rng, time=TIME):
    """A few sines about a body weight of 700 N, far from the origin."""
    amplitude, phase = rng.normal(0.0, 40.0, (6, 3)), rng.uniform(0.0, 6.0, (6, 3))
    waves = amplitude[..., None] * np.sin(
        2.0 * np.pi * (1.0 + np.arange(3.0))[:, None] * time + phase[..., None]
    )
    values = waves.sum(axis=1)
    values[2] += 700.0
    return Wrench(time, values[:3], values[3:] + np.array([[100.0], [-900.0], [0.0]]))


def loads(foot):
    """How much a foot bears, 0 to 1, in smooth steps: 1 in all for both feet."""
    kinematics = np.zeros(len(TIME))
    for contact in CONTACTS:
        if contact.foot == foot:
            up = np.clip((TIME - contact.begin) / 0.1, 0.0, 1.0) if contact.struck else 1.0
            down = np.clip((contact.end - TIME) / 0.1, 0.0, 1.0) if contact.lifted else 1.0
            middle, half = 0.5 * (contact.begin + contact.end), 0.5 * (contact.end - contact.begin)
            inside = np.abs(TIME - middle) < half + 1e-9
            kinematics += inside * np.minimum(smooth(up), smooth(down))
    return kinematics


def smooth(x):
    return x**2 * (3.0 - 2.0 * x)


def perfect(total):
    return {foot: total.scaled(loads(foot)) for foot in ("right", "left")}


def measured(rng, total):
    """Plates with errors that vanish where a foot is free."""
    return {
        foot: (total + random_wrench(rng).scaled(0.05)).scaled(loads(foot))
        for foot in ("right", "left")
    }


def index(instant):
    return round(instant / STEP)


# -- what holds for every method --------------------------------------------------------------


@MANY
@given(SEEDS)
def test_wrenches_add_up_to_the_total(seed):
    rng = np.random.default_rng(seed)
    total = random_wrench(rng)
    plates = measured(rng, total)
    cases = [(method, plates) for method in WITH_PLATES]
    cases += [(method, {foot: plates[foot]}) for method in WITH_PLATES for foot in plates]
    cases += [(SmoothTransition(), {})]
    for method, known in cases:
        shared = share(total, CONTACTS, known, method)
        whole = rows(shared["right"] + shared["left"])
        scale = np.abs(rows(total)).max()
        assert np.abs(whole - rows(total)).max() < 1e-13 * scale


@MANY
@given(SEEDS)
def test_one_foot_bears_all_in_single_support_and_nothing_in_the_air(seed):
    rng = np.random.default_rng(seed)
    total = random_wrench(rng)
    for method in (*WITH_PLATES, SmoothTransition()):
        shared = share(total, CONTACTS, measured(rng, total), method)
        alone, air = (TIME > 0.601) & (TIME < 0.999), TIME > 1.101
        assert_allclose(rows(shared["left"])[:, alone], rows(total)[:, alone], rtol=1e-15)
        assert not rows(shared["right"])[:, alone].any()
        assert not rows(shared["left"])[:, air].any()


@MANY
@given(SEEDS)
def test_ends_are_exact(seed):
    """The foot that strikes begins with nothing, the one that leaves ends with nothing."""
    rng = np.random.default_rng(seed)
    phase = np.linspace(0.0, 1.0, 11)
    total = random_wrench(rng, 0.01 * phase)
    values = rows(total)
    plates = rng.normal(0.0, 300.0, (2, 6, 11)) * np.array([1.0 - phase, phase])[:, None]
    for known in ((True, True), (True, False), (False, True)):
        double = DoubleSupport(
            phase,
            ("right", "left"),
            values,
            values[:, 0],
            tuple(p if k else None for p, k in zip(plates, known, strict=True)),
            tuple((values[:, n] - plates[i][:, n]) * known[i] for i, n in ((0, 0), (1, -1))),
            (0.0, 0.01),
            ends=(0.0, 1.0),
        )
        for method in CONTINUOUS:
            leading = method.leading(double)
            scale = np.abs(values).max()
            assert np.abs(leading[:, 0]).max() < 1e-13 * scale
            assert np.abs((values - leading)[:, -1]).max() < 1e-13 * scale


@MANY
@given(SEEDS, st.integers(4, 9))
def test_wrenches_are_continuous_also_with_poor_plates(seed, halvings):
    """Plates that are wrong all the time, at the ends too: steps shrink with the step of time."""
    coarse, fine = STEP, 0.1 / 2**halvings

    def largest_step(step):
        time = step * np.arange(round(1.6 / step) + 1)
        rng = np.random.default_rng(seed)
        total = random_wrench(rng, time)
        plates = {foot: random_wrench(rng, time) for foot in ("right", "left")}
        found = []
        for method in CONTINUOUS:
            shared = share(total, CONTACTS, plates, method)
            found.append(max(np.abs(np.diff(rows(w))).max() for w in shared.wrenches.values()))
        return np.array(found)

    assert (largest_step(fine) < 1.3 * fine / coarse * largest_step(coarse) + 1e-9).all()


@MANY
@given(SEEDS)
def test_exchanging_the_feet_exchanges_the_wrenches(seed):
    rng = np.random.default_rng(seed)
    total = random_wrench(rng)
    plates = measured(rng, total)
    other = {"right": "left", "left": "right"}
    exchanged = [Contact(other[c.foot], c.begin, c.end, c.struck, c.lifted) for c in CONTACTS]
    for method, mirrored in (
        *((method, method) for method in CONTINUOUS),
        (LeastCorrection({"left": 3.0}), LeastCorrection({"right": 3.0})),
    ):
        one = share(total, CONTACTS, plates, method)
        two = share(total, exchanged, {other[f]: w for f, w in plates.items()}, mirrored)
        for foot, name in other.items():
            assert_allclose(rows(one[foot]), rows(two[name]), rtol=1e-15)


@MANY
@given(SEEDS)
def test_running_the_film_backwards_exchanges_trailing_and_leading(seed):
    """Corrected plates treat both ends alike, with one plate too."""
    rng = np.random.default_rng(seed)
    total = random_wrench(rng)
    plates = measured(rng, total)

    def backwards(wrench):
        return Wrench(TIME, wrench.force[:, ::-1], wrench.moment[:, ::-1])

    mirrored = [
        Contact(c.foot, TIME[-1] - c.end, TIME[-1] - c.begin, c.lifted, c.struck) for c in CONTACTS
    ]
    for known in (plates, {"left": plates["left"]}):
        for method in CONTINUOUS[:2]:
            one = share(total, CONTACTS, known, method)
            two = share(
                backwards(total), mirrored, {f: backwards(w) for f, w in known.items()}, method
            )
            for foot in ("right", "left"):
                assert_allclose(rows(backwards(two[foot])), rows(one[foot]), atol=1e-9)


# -- corrected plates -------------------------------------------------------------------------


@MANY
@given(SEEDS)
def test_perfect_plates_are_kept_by_both_or_by_one(seed):
    total = random_wrench(np.random.default_rng(seed))
    plates = perfect(total)
    for method in WITH_PLATES:
        for known in (plates, {"right": plates["right"]}, {"left": plates["left"]}):
            shared = share(total, CONTACTS, known, method)
            for foot in ("right", "left"):
                assert_allclose(rows(shared[foot]), rows(plates[foot]), atol=1e-9)
            assert_allclose(shared.correction.force, 0.0, atol=1e-9)


def test_the_ramp_is_what_the_leading_foot_gets_of_the_correction():
    rng = np.random.default_rng(1)
    total = random_wrench(rng)
    plates = measured(rng, total)
    within = slice(index(0.5) + 1, index(0.6))
    part = (TIME[within] - 0.5) / 0.1
    lacks = rows(total - plates["right"] - plates["left"])[:, within]
    for ramp, kappa in (("linear", part), ("smoothstep", smooth(part)), ("half", 0.5)):
        shared = share(total, CONTACTS, plates, CorrectedForcePlates(ramp))
        for foot, own in (("left", kappa), ("right", 1.0 - kappa)):
            expected = rows(plates[foot])[:, within] + own * lacks
            assert_allclose(rows(shared[foot])[:, within], expected, atol=1e-9)


def test_one_plate_is_corrected_by_what_it_lacks_in_single_support():
    """A plate that shows 5 % too little of its foot's force, where it bears all too."""
    total = random_wrench(np.random.default_rng(2))
    plates = perfect(total)
    shared = share(total, CONTACTS, {"left": plates["left"].scaled(0.95)})
    within = slice(index(0.5) + 1, index(0.6))
    part = (TIME[within] - 0.5) / 0.1
    lacks = 0.05 * rows(total)[:, [index(0.6)]]
    expected = 0.95 * rows(plates["left"])[:, within] + part * lacks
    assert_allclose(rows(shared["left"])[:, within], expected, atol=1e-9)


def test_a_foot_beside_the_plates_is_not_measured():
    """Only the left contact has a plate; the right one has it in its second contact."""
    total = random_wrench(np.random.default_rng(4))
    plates = perfect(total)
    late = plates["right"].scaled((TIME > 0.9).astype(float))
    shared = share(total, CONTACTS, {"left": plates["left"], "right": late})
    alone = share(total, CONTACTS, {"left": plates["left"]})
    first = TIME <= 0.6
    assert_allclose(rows(shared["left"])[:, first], rows(alone["left"])[:, first], rtol=1e-15)
    assert not shared.measured[: index(0.6)].any()
    assert shared.measured[index(0.6) + 1 :].all()
    assert np.isnan(shared.shares()[:, 0]).all()


def test_a_record_that_begins_or_ends_in_double_support():
    """What is cut cannot be corrected from an end that is not there: one plate is believed."""
    total = random_wrench(np.random.default_rng(5))
    plates = perfect(total)
    kept = slice(index(0.55), index(1.05) + 1)

    def cut(wrench):
        return Wrench(TIME[kept], wrench.force[:, kept], wrench.moment[:, kept])

    contacts = [
        Contact("right", 0.55, 0.6, struck=False),
        Contact("left", 0.55, 1.05, struck=False, lifted=False),
        Contact("right", 1.0, 1.05, lifted=False),
    ]
    for known in (("right", "left"), ("left",), ("right",)):
        shared = share(cut(total), contacts, {foot: cut(plates[foot]) for foot in known})
        for foot in ("right", "left"):
            assert_allclose(rows(shared[foot]), rows(cut(plates[foot])), atol=1e-9)
    with pytest.raises(ValueError, match=r"begins within the double support .* until 0.6 s"):
        share(cut(total), contacts, method=SmoothTransition())


# -- the others -------------------------------------------------------------------------------


def test_the_least_correction_is_least():
    rng = np.random.default_rng(6)
    total = random_wrench(rng)
    plates = measured(rng, total)
    weights = {"right": 1.0, "left": 4.0}
    shared = share(total, CONTACTS, plates, LeastCorrection(weights))
    within = slice(index(0.5) + 1, index(0.6))

    def cost(change):
        parts = {"left": rows(shared["left"]) + change, "right": rows(shared["right"]) - change}
        return sum(
            weights[foot] * ((parts[foot] - rows(plates[foot]))[:, within] ** 2).sum()
            for foot in parts
        )

    direction = rng.normal(size=(6, len(TIME)))
    slope = (cost(1e-3 * direction) - cost(-1e-3 * direction)) / 2e-3
    assert abs(slope) < 1e-6 * cost(0.0 * direction)
    assert cost(0.1 * direction) > cost(0.0 * direction) < cost(-0.1 * direction)


def test_the_smooth_transition_has_its_published_shape():
    """Ren et al. 2008: along x exp(4/9) exp(-(s - 2/3)^2) - k2 s, others exp(-s^3), s from 0 to 2.

    At a third of the double support (s = 2/3) the force along x has grown to 1.560 - 0.088.
    """
    force = np.array([[-100.0], [20.0], [700.0]]) * np.ones(len(TIME))
    position = np.array([[5.0], [0.3], [0.0]])
    moment = np.cross(position, force, axis=0) + np.array([[0.0], [0.0], [4.0]])
    shared = share(Wrench(TIME, force, moment), CONTACTS, method=SmoothTransition())
    within = slice(index(0.5) + 1, index(0.6))
    s = 2.0 * (TIME[within] - 0.5) / 0.1
    right = shared["right"]
    k1 = np.exp(4.0 / 9.0)
    along = k1 * np.exp(-((s - 2.0 / 3.0) ** 2)) - 0.5 * k1 * np.exp(-16.0 / 9.0) * s
    assert_allclose(right.force[0, within], -100.0 * along, rtol=1e-12)
    assert_allclose(right.force[2, within], 700.0 * np.exp(-(s**3)), atol=0.3)
    assert_allclose(right.force[1, within], 20.0 * np.exp(-(s**3)), atol=0.01)
    pressed = right.force[2] > 1.0
    centre = right.cop(threshold=1.0)[:, pressed]
    assert_allclose(centre, np.broadcast_to(position, centre.shape), atol=1e-6)
    assert_allclose(right.about([5.0, 0.3, 0.0])[2, within], 4.0 * np.exp(-(s**3)), atol=0.002)


def test_the_smooth_transition_does_not_depend_on_the_origin():
    total = random_wrench(np.random.default_rng(8))
    shift = np.array([[7.0], [-3.0], [0.0]])

    def moved(wrench):
        return Wrench(TIME, wrench.force, wrench.moment + np.cross(shift, wrench.force, axis=0))

    here = share(total, CONTACTS, method=SmoothTransition())
    there = share(moved(total), CONTACTS, method=SmoothTransition())
    for foot in ("right", "left"):
        assert_allclose(rows(moved(here[foot])), rows(there[foot]), atol=1e-8)


# -- measured walks ---------------------------------------------------------------------------


def plate(table, name, free):
    def turned(what, unit):  # from x forwards, y up, z to the right
        x, y, z = (table[f"{name}_{what}_{axis}_{unit}"] for axis in "xyz")
        return np.array([x, -z, y])

    moment = turned("torque", "Nm") if free is None else table[f"{name}_{free}"]
    return Wrench.at_cop(table["time_s"], turned("force", "N"), turned("cop", "m"), moment)


def walk(file, feet, free):
    raw = (resources.files("kinesym.examples") / "data" / file).read_bytes()
    lines = gzip.decompress(raw).decode().splitlines()
    table = np.genfromtxt(lines, delimiter=",", names=True)
    wrenches = {}
    for foot, (first, *others) in feet.items():
        wrenches[foot] = plate(table, first, free)
        for name in others:
            wrenches[foot] = wrenches[foot] + plate(table, name, free)
    contacts = [c for foot, w in wrenches.items() for c in contacts_from_wrench(foot, w)]
    return wrenches, contacts


def treadmill():
    return walk("gait_subject01_forces.csv.gz", {"right": ["right"], "left": ["left"]}, None)


def walkway():
    feet = {"right": ["plate6", "plate3"], "left": ["plate5", "plate4"]}
    return walk("gait_bmc_walk1_forces.csv.gz", feet, "free_moment_Nm")


@pytest.mark.parametrize(
    "record, begin, end, limit", [(treadmill, 0.2, 2.44, 21.0), (walkway, 0.32, 2.4, 30.0)]
)
def test_one_plate_finds_what_two_measured(record, begin, end, limit):
    """Of the sum of both plates; limit [N]: the threshold of contacts, and its resampling."""
    wrenches, contacts = record()
    grid = np.arange(begin, end, 1.0 / 600.0)
    plates = {foot: wrench.at(grid) for foot, wrench in wrenches.items()}
    total = plates["right"] + plates["left"]
    both = share(total, contacts, wrenches)
    assert both.measured.all()
    for known in (wrenches, {"right": wrenches["right"]}, {"left": wrenches["left"]}):
        shared = share(total, contacts, known)
        for foot in ("right", "left"):
            assert np.abs(shared[foot].force - plates[foot].force).max() < limit
    assert np.abs(both.shares()).max() < 1e-12


def test_the_smooth_transition_is_off_by_a_quarter_of_the_weight():
    """Treadmill: 193 N vertically, 41 N along, 13 N across, at worst."""
    wrenches, contacts = treadmill()
    grid = np.arange(0.2, 2.44, 1.0 / 600.0)
    plates = {foot: wrench.at(grid) for foot, wrench in wrenches.items()}
    shared = share(plates["right"] + plates["left"], contacts, method=SmoothTransition())
    errors = np.abs(shared["right"].force - plates["right"].force).max(axis=1)
    assert (errors < [45.0, 15.0, 200.0]).all()


# -- reports and what is refused --------------------------------------------------------------


def test_the_report_gives_the_correction_as_a_share_of_the_weight():
    up = np.array([[0.0], [0.0], [700.0]]) * np.ones(len(TIME))
    total = Wrench(TIME, up, 0.0 * up)
    plates = {foot: wrench.scaled(0.98) for foot, wrench in perfect(total).items()}
    shared = share(total, CONTACTS, plates)
    assert shared.weight == pytest.approx(700.0)
    assert_allclose(shared.shares()[2], 0.02, rtol=1e-9)
    assert_allclose(shared.correction.force[2], 14.0, rtol=1e-9)
    lines = shared.report().splitlines()
    span = f"{len(TIME)} samples, t = {TIME[0]:g} ... {TIME[-1]:g} s, {len(shared.phases)} phases"
    assert repr(shared) == f"<ground reaction shared by left, right: {span}>"
    assert len(lines) == 6 and "700.0 N" in lines[0]
    assert "right to left" in lines[2] and "rms 2.0, largest 2.0," in lines[2]
    assert lines[2].endswith("N m")
    assert "not measured" in share(total, CONTACTS, method=SmoothTransition()).report()
    with pytest.raises(KeyError, match="there is no foot 'l'; known are: left, right"):
        shared["l"]


def test_a_force_without_a_foot_is_refused():
    total = random_wrench(np.random.default_rng(9))
    running = [CONTACTS[0], Contact("left", 0.7, 1.1), CONTACTS[2]]
    with pytest.raises(
        ValueError,
        match=r"no foot is in contact from 0.6125 to 0.6875 s but the "
        r"motion needs F_z = [67]\d\d N",
    ):
        share(total, running, method=SmoothTransition())
    step = float(np.diff(TIME)[0])
    short = [CONTACTS[0], Contact("left", CONTACTS[0].end + 1.5 * step, 1.1), CONTACTS[2]]
    with pytest.raises(ValueError, match=r"in contact at t = [\d.]+ s but the motion"):
        share(total, short, method=SmoothTransition())
    falling = total.scaled(1.0 - 0.97 * ((TIME > 0.6) & (TIME < 0.7)))
    shared = share(falling, [*running[:2], CONTACTS[2]], perfect(total))
    flying = (TIME > 0.605) & (TIME < 0.695)
    assert not any(rows(w)[:, flying].any() for w in shared.wrenches.values())


def test_impossible_plates_are_refused():
    total = random_wrench(np.random.default_rng(10))
    plates = perfect(total)
    with pytest.raises(ValueError, match=r"the foot 'rigth', but contacts only of left, right"):
        share(total, CONTACTS, {"rigth": plates["right"]})
    with pytest.raises(ValueError, match=r"plate of 'left' seems to give the load"):
        share(total, CONTACTS, {"left": plates["left"].scaled(-1.0)})
    with pytest.raises(
        ValueError,
        match=r"plate of 'left' shows Fz = \d\d N from 0.6 to 1 s, "
        r"where it stands alone and the motion needs \d{3} N",
    ):
        share(total, CONTACTS, {"left": plates["left"].scaled(0.1), "right": plates["right"]})
    with pytest.raises(
        ValueError,
        match=r"neither 'right' nor 'left' .* from 0.5 to 0.6 s, which "
        "CorrectedForcePlates needs",
    ):
        share(total, CONTACTS)
    with pytest.raises(ValueError, match=r"'right' nor 'left' .* LeastCorrection needs"):
        share(total, CONTACTS, method=LeastCorrection())


def test_impossible_options_are_refused():
    total = random_wrench(np.random.default_rng(11))
    with pytest.raises(ValueError, match="ramp is one of linear, smoothstep, half, got 'cubic'"):
        CorrectedForcePlates("cubic")
    with pytest.raises(ValueError, match="weight of 'left' must be positive, got 0"):
        LeastCorrection({"left": 0.0})
    with pytest.raises(ValueError, match="weight of the body must be positive"):
        share(total.scaled(-1.0), CONTACTS, method=SmoothTransition())
    falling = total.scaled(np.where(TIME < 0.45, 1.0, -0.1))
    with pytest.raises(ValueError, match=r"nothing presses on the ground at 0.5 s, where 'left'"):
        share(falling, CONTACTS, method=SmoothTransition())


def test_a_picture():
    import matplotlib.pyplot as plt

    total = random_wrench(np.random.default_rng(12))
    figure = share(total, CONTACTS, perfect(total)).plot()
    assert len(figure.axes) == 6
    plt.close(figure)


def test_a_foot_that_comes_and_goes_while_the_other_stays():
    """No load passes over: methods that need that say what does without."""
    total = random_wrench(np.random.default_rng(3))
    contacts = [Contact("right", 0.0, 1.6, False, False), Contact("left", 0.5, 1.1)]
    touch = np.where((TIME >= 0.5) & (TIME <= 1.1), 0.3 * np.sin(np.pi * (TIME - 0.5) / 0.6), 0.0)
    plates = {"left": total.scaled(touch), "right": total.scaled(1.0 - touch)}
    for known, method in (
        ({}, SmoothTransition()),
        ({"right": plates["right"]}, CorrectedForcePlates()),
    ):
        with pytest.raises(ValueError, match=r"'left' stands from 0.5 to 1.1 s while 'right' st"):
            share(total, contacts, known, method)
    for method in (CorrectedForcePlates(), CorrectedForcePlates("half"), LeastCorrection()):
        found = share(total, contacts, plates, method)
        assert_allclose(found["left"].rows, plates["left"].rows, atol=1e-9)
    wrong = plates | {"right": plates["right"].scaled(1.1)}  # its error stays where it is
    found = share(total, contacts, wrong)
    assert_allclose(found["left"].rows, plates["left"].rows, atol=1e-9)


def test_the_weight_is_that_of_whole_strides():
    """The mean over all of a force that swings with the steps is off; what was taken is said."""
    swing = 700.0 + 200.0 * np.sin(2.0 * np.pi * TIME / 0.5)
    force = np.array([0.0 * TIME, 0.0 * TIME, swing])
    total = Wrench(TIME, force, 0.0 * force)
    walk = [*CONTACTS[:2], Contact("right", 1.0, 1.5), Contact("left", 1.5, 1.9)]
    found = share(total, walk, method=SmoothTransition())
    assert found.weight == pytest.approx(700.0, abs=1e-6) and abs(swing.mean() - 700.0) > 7.0
    assert (
        "700.0 N, the mean vertical force from 0.500 to 1.500 s, over whole str" in found.report()
    )
    short = share(total, CONTACTS, method=SmoothTransition())
    assert short.weight == pytest.approx(swing.mean())
    assert "from 0.000 to 1.600 s, as no whole stride is in it" in short.report()
    given = share(total, CONTACTS, method=SmoothTransition(), weight=710.0)
    assert "body weight 710.0 N, as given" in given.report()
