"""Paths of muscles against a plain evaluation of the files, shortest paths by brute force, and
forces that OpenSim found."""

import gzip
import warnings

import numpy as np
import pytest
import sympy as sp
from scipy import optimize, signal
from test_osim import EXAMPLES, MODELS, TESTS, Plain, evaluated, numbers

import kinesym as ks
from kinesym.models.files.description import Frame, Wrap
from kinesym.models.files.wrapping import around
from kinesym.multibody import with_muscles

pytestmark = pytest.mark.filterwarnings("ignore:LaiUhlrich2022. body toes")


def inside_ranges(path, count, seed=0):
    rng = np.random.default_rng(seed)
    return {name: rng.uniform(*path.ranges[name], count) for name in path.coordinates}


# -- points ---------------------------------------------------------------------------------------


def along(e, q):
    """A function of the file; straight if it has two points."""
    if e.tag == "MultiplierFunction":
        return float(e.findtext("scale")) * along(e.find("function")[0], q)
    if e.find("x") is not None and len(numbers(e, "x")) == 2:
        (a, b), (y, z) = numbers(e, "x"), numbers(e, "y")
        return y + (z - y) * (q[0] - a) / (b - a)
    return evaluated(e, q)


def plain_length(plain, muscle, q):
    """From point to point, with those that are there."""
    places, every = plain.places(q), plain.all_of(q)
    nodes = []
    for e in muscle.findall("GeometryPath/PathPointSet/objects/*"):
        body = (e.findtext("body") or e.findtext("socket_parent_frame")).split("/")[-1].strip()
        at = numbers(e, "location")
        if e.tag == "MovingPathPoint":
            at = []
            for axis in "xyz":
                name = e.findtext(f"{axis}_coordinate") or e.findtext(f"socket_{axis}_coordinate")
                given = [every[name.split("/")[-1].strip()]] if name else [0.0]
                at.append(along(e.find(f"{axis}_location")[0], given))
        if e.tag == "ConditionalPathPoint":
            name = e.findtext("coordinate") or e.findtext("socket_coordinate")
            low, high = numbers(e, "range")
            if not low <= every[name.split("/")[-1].strip()].real <= high:
                continue
        nodes.append((places[body] @ [*at, 1.0])[:3].real)
    return np.linalg.norm(np.diff(nodes, axis=0), axis=1).sum()


@pytest.mark.parametrize("name", ["gait2354", "gait10dof18musc", "2D_gait", "subject01"])
def test_lengths_between_points_are_as_the_file_says(name):
    plain, tree = Plain(MODELS[name]), ks.osim.read(MODELS[name], locked=[])
    elements = {e.get("name"): e for e in plain.model.iter() if e.tag.endswith("Muscle")}
    assert set(tree.muscles) <= set(elements) and len(tree.muscles) >= 18
    rng = np.random.default_rng(1)
    q = {name: rng.uniform(*tree.ranges.get(name, (-1, 1)), 4) for name in tree.coordinates}
    for muscle, path in tree.muscles.items():
        found = path.lengths(q)
        for k in range(4):
            here = {name: row[k] for name, row in q.items()}
            assert found[k] == pytest.approx(plain_length(plain, elements[muscle], here), abs=1e-12)


def test_conditional_points_come_and_go():
    path = ks.osim.read(MODELS["2D_gait"]).muscles["rect_fem_r"]
    knee = np.array([-1.46, -1.4599])
    near = path.lengths({"hip_flexion_r": np.zeros(2), "knee_angle_r": knee})
    assert path.coordinates == ("hip_flexion_r", "knee_angle_r")
    assert abs(near[1] - near[0]) > 1e-6  # the point makes a step there


# -- surfaces -------------------------------------------------------------------------------------


def surface_point(kind, a, b):
    """At an angle and a height, or two angles."""
    if kind == "cylinder":
        return np.array([np.cos(a), np.sin(a), b])
    return np.array([np.cos(a) * np.cos(b), np.sin(a) * np.cos(b), np.sin(b)])


def by_contacts(kind, p, q, first, last):
    """The shortest of all strings that touch a unit cylinder or sphere from one point to another
    and do not go through it."""

    def ends(x):
        return surface_point(kind, *x[:2]), surface_point(kind, *x[2:])

    def length(x):
        u, v = ends(x)
        if kind == "cylinder":
            arc = np.hypot(x[2] - x[0], x[3] - x[1])
        else:
            arc = np.arctan2(np.linalg.norm(np.cross(u, v)), u @ v)
        return np.linalg.norm(p - u) + arc + np.linalg.norm(q - v)

    def outside(x):
        u, v = ends(x)
        flat = [1, 1, 0] if kind == "cylinder" else [1, 1, 1]
        return [(p - u) @ (u * flat), (q - v) @ (v * flat)]

    def start(at):
        return [np.arctan2(at[1], at[0]), at[2] if kind == "cylinder" else np.arcsin(at[2])]

    begin = np.array([*start(first), *start(last)])
    begin += 0.1 * np.array([1.0, -0.7, -1.0, 0.5])
    found = optimize.minimize(
        length,
        begin,
        constraints={"type": "ineq", "fun": outside},
        method="SLSQP",
        options={"ftol": 1e-13},
    )
    assert found.success
    return found.fun


def by_pieces(half, p, q, first, last, count=24):
    """A string of pieces whose joints stay in planes across the line, outside an ellipsoid; the
    pieces cut corners."""
    along = (q - p) / np.linalg.norm(q - p)
    across = np.linalg.svd(along[None])[2][1:]
    s = np.linspace((first - p) @ along, (last - p) @ along, count)[:, None]
    middle = 0.5 * (first + last) - p
    bulge = across @ (middle - (middle @ along) * along)

    def nodes(x):
        return p + s * along + x.reshape(-1, 2) @ across

    def length(x):
        steps = np.diff(np.vstack([p, nodes(x), q]), axis=0)
        norms = np.linalg.norm(steps, axis=1)
        units = steps / norms[:, None]
        return norms.sum(), ((units[:-1] - units[1:]) @ across.T).ravel()

    found = optimize.minimize(
        length,
        np.tile(1.5 * bulge, count),
        jac=True,
        constraints={"type": "ineq", "fun": lambda x: np.sum((nodes(x) / half) ** 2, axis=1) - 1},
        method="SLSQP",
        options={"maxiter": 200},
    )
    return found.fun


def string(wrap, p, q):
    found = around(wrap, p[None], q[None])
    assert found.touches[0] and found.needed[0]
    first, last, arc = found.first[0], found.last[0], found.arc[0]
    return np.linalg.norm(first - p) + arc + np.linalg.norm(q - last), first, last


ENDS = [([-2.0, 0.3, -0.5], [1.8, 0.2, 0.9]), ([-1.2, 0.1, 0.4], [1.5, -0.3, 0.3])]


@pytest.mark.parametrize(("p", "q"), ENDS)
@pytest.mark.parametrize("kind", ["cylinder", "sphere", "ellipsoid"])
def test_strings_are_the_shortest_way_around(kind, p, q):
    scale = 0.03  # metres, as of bones
    sizes = {"cylinder": (1.0, 9.0), "sphere": (1.0,), "ellipsoid": (1.1, 1.0, 0.7)}[kind]
    half = {"cylinder": (1, 1, np.inf), "sphere": (1, 1, 1), "ellipsoid": sizes}[kind]
    p, q = np.array(p), np.array(q)
    wrap = Wrap("w", kind, tuple(scale * s for s in sizes), Frame(None))
    length, first, last = string(wrap, scale * p, scale * q)

    contacts = first / scale, last / scale
    if kind == "ellipsoid":  # pieces cut corners, and a plane is no geodesic
        shortest = by_pieces(np.array(half), p, q, *contacts)
        assert shortest < length / scale < 1.001 * shortest
    else:
        assert length / scale == pytest.approx(by_contacts(kind, p, q, *contacts), rel=1e-9)
    for end, at in ((p, first / scale), (q, last / scale)):
        normal = at / np.square(half)
        assert np.sum((at / half) ** 2) == pytest.approx(1.0)
        assert (end - at) @ normal == pytest.approx(0.0, abs=1e-9)


def test_a_round_ellipsoid_is_a_sphere():
    p, q = np.array([-2.0, 0.3, -0.5]), np.array([1.8, 0.2, 0.9])
    for side in (None, (1, 1), (1, -1)):
        lengths = [
            string(Wrap("w", kind, sizes, Frame(None), side), p, q)[0]
            for kind, sizes in (("sphere", (1.0,)), ("ellipsoid", (1.0, 1.0, 1.0)))
        ]
        if side is None:
            assert lengths[0] == pytest.approx(lengths[1], rel=1e-9)
        assert lengths[1] < 1.2 * lengths[0]


def test_sides_choose_the_way():
    p, q = np.array([[-2.0, 0.5, 0.0]]), np.array([[2.0, 0.5, 0.0]])
    up, down = (
        around(Wrap("w", "cylinder", (1.0, 9.0), Frame(None), (1, s)), p, q) for s in (1, -1)
    )
    free = around(Wrap("w", "cylinder", (1.0, 9.0), Frame(None)), p, q)
    assert up.arc == pytest.approx(free.arc) and up.first[0, 1] > 0
    assert down.arc[0] > up.arc[0] and down.first[0, 1] < 0
    away = np.array([0.0, 2.0, 0.0])  # on its side, and free of the cylinder
    assert not around(
        Wrap("w", "cylinder", (1.0, 9.0), Frame(None), (1, 1)), p + away, q + away
    ).touches
    short = Wrap("w", "cylinder", (1.0, 0.5), Frame(None))
    assert not around(short, p + [0, 0, 1], q + [0, 0, 1]).touches  # beyond its ends


@pytest.mark.parametrize("kind", ["cylinder", "sphere", "ellipsoid"])
def test_lengths_go_on_where_strings_begin_to_touch(kind):
    sizes = {"cylinder": (0.02, 0.3), "sphere": (0.02,), "ellipsoid": (0.02, 0.03, 0.04)}[kind]
    heights = np.linspace(0.0, 0.05, 1001)
    p = np.stack([np.full(1001, -0.1), heights, np.zeros(1001)], axis=1)
    q = p * [-1, 1, 1] + [0, 0, 0.01]
    found = around(Wrap("w", kind, sizes, Frame(None)), p, q)
    straight = np.linalg.norm(q - p, axis=1)
    bent = found.arc + sum(
        np.linalg.norm(a - b, axis=1) for a, b in ((p, found.first), (q, found.last))
    )
    length = np.where(found.touches, bent, straight)
    assert 0.2 < found.touches.mean() < 0.9
    assert np.abs(np.diff(length)).max() < 5e-5


# -- OpenSim's own results ------------------------------------------------------------------------

#: Time [s] and forces [N] by static optimisation of OpenSim for the motion of arm26:
#: Applications/Analyze/test/std_arm26_StaticOptimization_force.sto of opensim-core, Apache-2.0.
FORCES = """
0.08333311 0.01534826221 2.708338371 2.454309518 62.66983656 11.30006281 1.837895629
0.16666644 0.01594050491 3.278606466 2.954619145 57.76610263 9.981697675 1.196853918
0.24999971 0.01320056450 6.117272874 5.432320088 65.00481965 10.14767165 0.504314353
0.33333299 0.01124388167 9.585369254 8.519092692 68.81695856 9.496849478 0.415279909
0.41666629 0.009789288194 13.81760145 12.48540022 70.95596182 8.670297789 1.631236894
0.49999960 0.008151851185 18.74861020 17.04226035 74.06202527 6.418749975 0.341516282
0.58333291 0.006650581743 27.01512195 24.86585030 79.39587009 3.437985399 0.110345025
0.66666620 0.005403976166 37.89065031 35.26246522 84.95836725 0.611530192 0.0546932867
0.74999950 0.005082709125 51.72154352 48.56246170 91.18374840 0.589834356 0.0378118170
0.83333278 0.003956241147 64.97959667 61.42866405 99.45234911 0.340382779 0.0464415242
0.91666610 0.003963830749 68.91840253 65.42945551 98.53602365 0.147654090 0.0316474908
"""


def test_forces_of_opensim_give_its_torques():
    tree = ks.osim.read(MODELS["arm26"])
    time, *forces = np.array([line.split() for line in FORCES.split("\n") if line], float).T
    motion = ks.gait.read_mot(EXAMPLES / "opensim_arm26.mot.gz")
    b, a = signal.butter(3, 2.0 * 6.0 * np.mean(np.diff(motion.time)))
    q = {}
    for name in tree.coordinates:
        smooth = signal.filtfilt(b, a, np.deg2rad(motion[name]), padlen=len(motion.time) // 2)
        q[name] = np.interp(time, motion.time, smooth)
    found = dict.fromkeys(q, 0.0)
    for path, force in zip(tree.muscles.values(), forces, strict=True):
        for name, arm in path.moment_arms(q).items():
            found[name] = found[name] + arm * force
    theirs = ks.gait.read_mot(TESTS / "std_arm26_InverseDynamics.sto.gz")
    expected = {n: np.interp(time, theirs.time, theirs[f"{n}_moment"]) for n in q}
    np.testing.assert_allclose(found["r_elbow_flex"], expected["r_elbow_flex"], atol=2e-4)
    # The plane in which OpenSim has a string around an ellipsoid is not the one of the shortest:
    # BIClong has 0.26 mm less of 21 mm.
    np.testing.assert_allclose(found["r_shoulder_elev"], expected["r_shoulder_elev"], rtol=0.015)


# -- polynomials ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "names"),
    [
        ("2D_gait", ["soleus_r", "gastroc_r"]),
        ("LaiUhlrich2022", ["gasmed_r", "vasint_l"]),
    ],
)
def test_polynomials_are_as_close_as_they_say(model, names):
    tree = ks.osim.read(MODELS[model])
    muscles = ks.osim.fit_muscles(tree, names, tolerance=1.2e-3)
    for name, muscle in muscles.items():
        path, fit = tree.muscles[name], muscle.fit
        q = inside_ranges(path, 300, seed=2)
        symbols = [tree.coordinates[key] for key in fit.ranges]
        slopes = [-muscle.length.diff(symbol) for symbol in symbols]
        length, *arms = sp.lambdify(symbols, [muscle.length, *slopes])(*map(q.get, fit.ranges))
        np.testing.assert_allclose(fit.lengths(q), length, rtol=1e-14)
        np.testing.assert_allclose([*fit.moment_arms(q).values()], arms, atol=1e-15)
        error = length - path.lengths(q)
        assert np.sqrt(np.mean(error**2)) < 1.5 * fit.length_rms + 1e-5 < 1.3e-3
        assert np.abs(error).max() < 2.0 * fit.length_max + 1e-5
        expected = path.moment_arms(q)
        for key, arm in zip(fit.ranges, arms, strict=True):
            rms = np.sqrt(np.mean((arm - expected[key]) ** 2))
            assert rms < 1.5 * fit.arm_rms[key] + 1e-5 < 2e-3
        assert f"{fit.terms} terms" in str(muscle)


def test_moment_arms_are_minus_the_slopes_of_lengths():
    for model, name in (
        ("arm26", "BIClong"),
        ("LaiUhlrich2022", "recfem_r"),
        ("2D_gait", "vasti_r"),
    ):
        path = ks.osim.read(MODELS[model]).muscles[name]
        q = inside_ranges(path, 40, seed=3)
        for key, arm in path.moment_arms(q).items():
            h = 2e-4
            at = {k: path.lengths({**q, key: q[key] + k * h}) for k in (-2, -1, 1, 2)}
            slope = (at[-2] - 8 * at[-1] + 8 * at[1] - at[2]) / (12 * h)
            smooth = np.abs(slope + arm) < 1e-6
            assert smooth.mean() > 0.9  # elsewhere points or surfaces come and go


def test_what_is_missed_is_said():
    tree = ks.osim.read(MODELS["arm26"])
    with pytest.warns(UserWarning, match=r"miss 1 mm .* for . of 2 muscles, most BIC.* mm"):
        ks.osim.fit_muscles(tree, ["BICshort", "BRA"], degree=2)
    with pytest.raises(ValueError, match="TRI is no muscle of arm26"):
        ks.osim.fit_muscles(tree, ["TRI"])
    path = ks.osim.read(MODELS["LaiUhlrich2022"]).muscles["soleus_r"]
    with pytest.raises(ValueError, match=r"the range of ankle_angle_r is 0 .* give ranges="):
        path.fit(ranges={"ankle_angle_r": (0, np.inf)})


def test_degrees_follow_from_the_number_of_coordinates():
    """A path of one coordinate that jumps or bends takes more terms, not a loss of precision."""
    tree = ks.osim.read(MODELS["2D_gait"])
    path = tree.muscles["iliopsoas_r"]
    high, low = path.fit().fit, path.fit(degree=6).fit
    assert high.worst < 1e-3 < 3e-3 < low.worst and 6 < high.degree <= 12 and high.terms <= 12
    with pytest.raises(ValueError, match="the degree must be 1 or more, got 0"):
        path.fit(degree=0)


def test_ranges_of_a_motion():
    """Over those of the file, +-120 degrees of the hip, no polynomial is close to lines that pass
    the joint on either side; over those of a walk all are."""
    tree = ks.osim.read(MODELS["subject01"])
    walk = ks.gait.read_mot(EXAMPLES / "opensim_subject01.mot.gz")
    ranges = ks.osim.ranges_of(tree, walk, margin=0.2)
    knee = np.deg2rad(walk["knee_angle_r"])
    assert ranges["knee_angle_r"] == pytest.approx((knee.min() - 0.2, knee.max() + 0.2))
    assert ranges["pelvis_tx"][1] == pytest.approx(walk["pelvis_tx"].max() + 0.2)  # no angle
    names = ["glut_max1_r", "quad_fem_r"]
    with pytest.warns(UserWarning, match=r"2 of 2 .* glut_max1_r by 1\d mm, quad.*ranges_of"):
        wide = ks.osim.fit_muscles(tree, names)
    close = ks.osim.fit_muscles(tree, names, ranges=ks.osim.ranges_of(tree, walk))
    for name in names:
        assert close[name].fit.worst < 1.1e-3 < 10e-3 < wide[name].fit.worst
    some = ks.osim.ranges_of(tree, {"time": [0.0, 1.0], "knee_angle_r": [0.0, -1.0]})
    assert some == {"knee_angle_r": (-1.1, 0.1)}
    with pytest.raises(ValueError, match=r"the motion has no coordinate of .*; it has knee"):
        ks.osim.ranges_of(tree, {"time": [0.0, 1.0], "knee": [0.0, 1.0]})
    with pytest.raises(ValueError, match="the margin must be positive, got 0"):
        ks.osim.ranges_of(tree, walk, margin=0)


def test_numbers_come_from_the_file():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tree = ks.osim.read(MODELS["arm26"])
    muscle = tree.muscles["BRA"].fit(tendon="compliant", width=1.2)
    assert (muscle.max_force, muscle.optimal_length, muscle.tendon) == (987.26, 0.0858, "compliant")
    assert (muscle.tendon_strain, muscle.activation_time, muscle.width) == (0.033, 0.01, 1.2)
    planar = ks.osim.read(MODELS["2D_gait"]).muscles["soleus_r"].row
    assert planar.kind == "DeGrooteFregly2016Muscle" and planar.numbers["activation_time"] == 0.015


@pytest.mark.parametrize(
    ("model", "old", "new", "sentence"),
    [
        ("arm26", "<wrap_object> TRI <", "<wrap_object> TRX <", "Muscle TRIlong goes around TRX"),
        ("arm26", "<range> -1 -1 <", "<range> -1 <", "MuscleWrap: its range is two numbers, got 1"),
        ("2D_gait", "-1.5708 0.785398<", "-1.5708<", "psoas_r-P3: its range is two numbers"),
        (
            "arm26",
            "<location>      -0.0536",
            "<location> x",
            "TRIlong-P1: location must be numbers",
        ),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path, model, old, new, sentence):
    text = gzip.decompress(MODELS[model].read_bytes()).decode()
    assert old in text
    (tmp_path / "wrong.osim").write_text(text.replace(old, new, 1))
    with pytest.raises(ValueError, match=f"wrong.osim.*{sentence}"):
        ks.osim.read(tmp_path / "wrong.osim")


def test_coordinates_of_points_are_known(tmp_path):
    text = gzip.decompress(MODELS["2D_gait"].read_bytes()).decode()
    where = text.index("<ConditionalPathPoint")
    point = text[where:].replace("hip_flexion_r<", "hip<", 2)
    (tmp_path / "wrong.osim").write_text(text[:where] + point)
    path = ks.osim.read(tmp_path / "wrong.osim").muscles["iliopsoas_r"]
    with pytest.raises(ValueError, match="is no coordinate of"):
        path.lengths({})


def test_tori_are_left_out_with_a_warning(tmp_path):
    text = gzip.decompress(MODELS["arm26"].read_bytes()).decode()
    text = text.replace('<WrapCylinder name="TRI">', '<WrapTorus name="TRI">', 1)
    end = text.index("</WrapCylinder>", text.index("<WrapTorus"))
    text = text[:end] + "</WrapTorus>" + text[end + len("</WrapCylinder>") :]
    (tmp_path / "torus.osim").write_text(text)
    with pytest.warns(UserWarning, match="the surface TRI of muscles is left out"):
        tree = ks.osim.read(tmp_path / "torus.osim")
    assert not tree.muscles["TRIlat"].row.wraps


@pytest.mark.parametrize("tendon", ["rigid", "compliant"])
def test_a_locked_joint_is_a_parameter_of_lengths(tendon):
    arm = ks.osim.read(MODELS["arm26"])
    ranges = {"r_shoulder_elev": (-0.5, 0.5), "r_elbow_flex": (0.0, 2.0)}
    muscles = ks.osim.fit_muscles(arm, ["BICshort"], ranges=ranges, tendon=tendon)
    model = with_muscles(arm.lock("r_shoulder_elev_speed"), muscles.values())
    assert model.parameter_names == ("r_shoulder_elev",)
    assert "r_shoulder_elev" not in model.state_names and model.values["r_shoulder_elev"] == 0.0
