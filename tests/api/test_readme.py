"""The code of the README and of docs/ runs, in order within a page; its links lead somewhere; the
reference has every public name."""

import importlib
import re
import subprocess
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

import kinesym as ks
from kinesym.base.extras import installed

TOP = Path(__file__).parents[2]
DOCS = TOP / "docs"


def name_of(path):
    """`how-to/models` of docs/how-to/models.md, `README` of that."""
    return path.relative_to(DOCS if path.is_relative_to(DOCS) else TOP).with_suffix("").as_posix()


#: Without those that `make docs` makes.
PAGES = {
    name_of(path): path
    for path in (TOP / "README.md", *sorted(DOCS.rglob("*.md")))
    if path.parent.name != "pages"
}


def closely(number, expected, within):
    return abs(number - expected) < within


def inside(estimate, truth):
    return estimate.low < truth < estimate.high


def printed_by_c(page):
    """Numbers that the C program of a page prints, built as the page says."""
    Path("mine.c").write_text(re.findall(r"```c\n(.*?)```", PAGES[page].read_text(), re.DOTALL)[0])
    [command] = re.findall(r"```sh\n(.*?)```", PAGES[page].read_text(), re.DOTALL)
    ks.export(ks.models.standing(), "again")  # the page has edited a file since
    text = command.replace("standing_c", "again")
    said = subprocess.run(text, shell=True, check=True, capture_output=True, text=True).stdout
    return {
        name: float(value) for name, _, value in (s.partition(" = ") for s in said.splitlines())
    }


def fitted_by_c(page):
    """What the second program of C on a page prints, in place of that of an exported fit."""
    text = re.findall(r"```c\n(.*?)```", PAGES[page].read_text(), re.DOTALL)[1]
    (Path("fit_c") / "main.c").write_text(text)
    subprocess.run(["make", "-s", "CFLAGS=-std=c99 -O0"], cwd="fit_c", check=True)
    return subprocess.run("fit_c/main", check=True, capture_output=True, text=True).stdout


def agree_with_c(printed, said):
    """Derivatives of the states, and the angle of the ankle after a second."""
    start = dict(zip(said["model"].state_names, said["x"], strict=True))
    run = ks.simulate(said["model"], np.linspace(0.0, 1.0, 1001), start, inputs={"a": 0.0})
    rates = [printed[f"d/dt {name}"] for name in start]
    return np.allclose([*rates, printed["theta_a"]], [*said["rates"], run["theta_a"][-1]], 1e-11, 0)


#: What the pages say of what their blocks leave behind: numbers, intervals, files.
EXPECTED = {
    "README": lambda said: [
        closely(said["solution"].parameters["K"], 1094.6, 0.1),
        closely(said["solution"].parameters["B"], 259.2, 0.1),
        Path("standing.nc").exists(),
    ],
    "index": lambda said: [
        closely(said["fit"].parameters["KP"], 916.0, 1.0),
        closely(said["fit"].parameters["KD"], 123.0, 1.0),
        closely(said["fit"].parameters.table["KP"].standard_error, 49.0, 1.0),
        closely(said["fit"].parameters.table["KD"].standard_error, 17.0, 1.0),
        Path("front.png").exists(),
    ],
    "how-to/models": lambda said: [
        closely(said["run"]["acceleration"][0], -2.5, 1e-12),
        closely(said["rates"][1], -2.5, 1e-12),
        abs(said["hanging"]["q"]).max() < 0.31,
        said["double"].state_names == ("q_shoulder", "q_elbow", "u_shoulder", "u_elbow"),
        "work" in said["counted"].state_names,
        said["slow"].input_names == ("F_rate",),
        str(said["softplus"](said["x"])) == "softplus(x(t))",
        max(said["drift"]) < 1e-9 and np.ptp(said["swing"]["energy"]) < 1e-7,
    ],
    "how-to/model-files": lambda said: [
        said["said"].endswith("column 8: thta is not declared; did you mean theta?"),
        PAGES["how-to/model-files"].read_text().count(Path("arm.json").read_text()) == 1,
        len(said["run"].events) > 0,
    ],
    "tutorial/pendulum": lambda said: [
        said["kicked"]["theta"].max() > 0.2,
        said["many"]["theta"].shape == (1000, 1001),
        Path("swing.png").exists(),
    ],
    "tutorial/identify": lambda said: [
        closely(said["solution"].parameters["p"], 10.0, 0.05),
        inside(said["solution"].parameters.table["p"], 10.0),
        abs(said["solution"].grid_error().parameters["p"])
        < said["solution"].parameters.table["p"].standard_error,
        Path("pendulum.png").exists() and Path("fit.nc").exists(),
    ],
    "tutorial/check": lambda said: [
        closely(said["solution"].parameters["p"], 10.0, 0.002),
        closely(said["adapted"].parameters["p"], 10.0, 0.002),
        not inside(said["problem"].solve({"p": 8.0}).parameters.table["p"], 10.0),
        closely(said["found"].best.parameters["p"], 10.0, 0.002),
    ],
    "tutorial/own-data": lambda said: [
        closely(said["fit"].parameters["k"], 12.0, 0.02),
        closely(said["fit"].parameters["b[s03]"], 0.32, 0.005),
        said["profile"].low < 12.0 < said["profile"].high,
        Path("swings.html").exists() and Path("profile.png").exists(),
    ],
    "tutorial/experiment": lambda said: [
        {round(1000 * sample.time) for sample in said["decides"].most(4)}
        == {1650, 4200, 4225, 7825},
        said["lacks"].found == ["coulomb_rate_in_rate"],
        not inside(said["fit"].parameters.table["B"], 0.3),
        all(inside(said["final"].parameters.table[str(p)], v) for p, v in said["truth"].items()),
        inside(said["final"].parameters.table["coulomb_rate_in_rate"], -0.2),
        said["best"].gain > 10.0
        and "What this experiment can tell" in Path("elbow.html").read_text(),
    ],
    "how-to/identification": lambda said: [closely(said["found"].parameters["K"], 15.0, 0.1)],
    "how-to/shooting": lambda said: [
        closely(said["fit"].parameters["p"], 10.0, 0.002) and said["fit"].success,
        inside(said["found"].parameters.table["k_weak"], 0.3),
    ],
    "how-to/uncertainty": lambda said: [
        closely(said["weighed"].estimated_std["theta"], 0.05, 0.002),
        closely(said["weighed"].estimated_std["omega"], 0.3, 0.01),
        closely(said["hardy"].estimated_std["theta"], 0.05, 0.003),
        0.001 < said["standard_error"] < 0.002,
    ],
    "how-to/which-samples-decide": lambda said: [
        (said["first"].channel, said["first"].trial, said["first"].index) == ("theta", 1, 185),
        said["first"].in_errors["p"] > 2.0,
        abs(said["solved"].in_errors["p"] - said["left"].in_errors["p"]) < 0.02,
        Path("decides.png").exists(),
    ],
    "how-to/before-you-measure": lambda said: [
        "without cell gain cannot be known" in str(said["choice"]),
        closely(said["errors"]["5 trials"]["c"] * 5**0.5 / said["table"]["c"]["as it is"], 1, 1e-3),
        abs(said["band"]).max() < 0.01,
    ],
    "how-to/sampling": lambda said: [
        closely(said["density"].value(said["density"].best), said["value"], 1e-9),
        closely(np.log(said["samples"][:, 0].std() / said["fit"].standard_errors()["p"]), 0.0, 0.1)
        if "samples" in said
        else True,
    ],
    "how-to/subjects": lambda said: [
        closely(said["estimates"].parameters["p"], 12.0, 0.05),
        closely(said["estimates"].parameters["b[s02]"], 1.5, 0.1),
        closely(said["estimates"].trials[2].parameters["c"], -0.5, 0.05),
        1.1 < said["drawn"].parameters["factor(b)"] < 1.5,
    ],
    "how-to/sensors": lambda said: [
        closely(said["sensed"].parameters["drift"], 0.2, 0.01),
        closely(said["sensed"].estimated_std["gyro"], 0.05, 0.003),
        closely(said["heard"].parameters["tau"], 0.037, 0.002),
    ],
    "how-to/schemes": lambda said: [
        closely(said["found"].parameters["k"], 1000.0, 1.0),
        closely(said["fine"].duration, 2.0, 1e-5),
    ],
    "how-to/missing": lambda said: [
        said["found"].found == ["cubic_x_in_v"],
        closely(said["found"].fit.parameters["cubic_x_in_v"], -1.5, 0.03),
    ],
    "how-to/compare-models": lambda said: [
        said["models"].best == "with a square",
        closely(said["fit"].parameters["q"], 0.05, 0.01),
    ],
    "how-to/optimal-control": lambda said: [
        closely(said["swung"].objective, 9.314, 0.001),
        closely(said["moved"].parameters["gate"], 1.6451, 0.001),
        closely(said["up"].objective, -18550.872, 0.01),
        closely(said["whole"].time[-1], 1.7324, 0.001),
        closely(said["rocket"].trials[2]["height"][-1], 2520377, 100),
    ],
    "how-to/simulation": lambda said: [
        said["runs"]["theta"].shape == (1000, 5000),
        abs(said["exact"].run["theta"] - said["pushed"][1]["theta"]).max() < 1e-6,
        closely(said["gradient"].parameters["p"], said["tangents"].states["theta"][0, -1], 1e-6),
        said["more"]["theta"][0] == said["run"]["theta"][-1],
        "costate_theta" in said["continuous"].conjugates,
    ],
    "how-to/constraints": lambda said: [
        said["pedalling"].redundant == ("shank_crank_fy",),
        closely(said["circles"]["lam1"][-1], 100.0, 1e-5),
        closely(said["fit"].parameters["push"], 20.0, 0.2),
    ],
    "how-to/convergence": lambda said: ["at least 4.75" in said["lost"].why().causes[0]],
    "how-to/multibody": lambda said: [
        Path("person.html").exists(),
        closely(said["run"]["base_force_z"][1000:].mean(), 78 * 9.81, 10.0),
        len(said["straight"].state_names) == 2,
    ],
    "how-to/gait": lambda said: [
        closely(said["needed"].total.force[2].mean(), 72.6 * 9.81, 30.0),
        np.sqrt(np.mean(said["joints"].force[0] ** 2)) < 20.0,  # the plates are believed
        abs(said["without_residual"].force[0]).max() < 1e-9,
        abs(said["again"].error).max() < 1e-5 and not said["again"].message,
        Path("walk.html").exists() and Path("joints.csv").exists(),
        said["seen"].points["RA"].shape == (3, said["markers"].time.size),
    ],
    "how-to/strides": lambda said: [
        said["strides"].whole.all() and len(said["strides"]) == 2,
        closely(said["strides"]["speed_m_per_s"].mean(), 1.19, 0.02),
        [len(part) for part in said["many"].by("side").values()] == [14, 14],
        list(said["many"].outliers()) == [14, 15],
        closely(said["treadmill"].belt_speed, 0.78, 0.01),
        Path("strides.png").exists() and Path("numbers.csv").exists(),
    ],
    "how-to/contact": lambda said: [
        closely(said["first"].after["speed"], 0.8 * np.sqrt(2 * 9.81), 1e-9),
        closely(said["peak"].after["angle"], 0.95, 0.01),
        closely(said["step"]["heel_normal"][-1] + said["step"]["toe_normal"][-1], 1.2 * 9.81, 1e-6),
        closely(said["fit"].parameters["g"], 9.81, 1e-6),
        closely(said["thrown"].trials[0]["speed"][0], -2.8232, 1e-3),
        Path("knee.png").exists() and Path("contacts.png").exists(),
    ],
    "how-to/results": lambda said: [
        all(Path(f"throw.{kind}").exists() for kind in ("png", "html", "nc", "csv")),
    ],
    "gallery/index": lambda said: [
        said["solution"].success,
        Path("crane.png").exists() and Path("violations.png").exists(),
    ],
    "how-to/troubles": lambda said: [],
    "how-to/starts": lambda said: [
        said["solution"].success and not said["solution"].ladder,
        closely(said["led"].parameters["p"], 10.0, 0.05) and len(said["led"].ladder) > 2,
        closely(said["best"].parameters["a"], 1.0, 0.05),
    ],
    "how-to/fmu": lambda said: [
        said["problems"] == [],
        closely(said["body"][0], 0.02, 1e-12) and abs(said["body"]).max() < 0.1,
        min(said["bounces"]["y"]) > -1e-4,
    ],
    "how-to/export": lambda said: [
        agree_with_c(printed_by_c("how-to/export"), said),
        closely(float(fitted_by_c("how-to/export")[4:]), said["fit"].solve().parameters["k"], 1e-6),
        "rhs, omega_" in str(said["edited"]) and said["faster"][2] != said["rates"][2],
    ],
    "how-to/studies": lambda said: [
        closely(said["best"].parameters["k"], 9.0, 0.1),
        (said["table"]["status"] == "done").all() and len(said["table"]) == 6,
        Path("waterfall.png").exists() and Path("stiffness.png").exists(),
    ],
    "how-to/delays": lambda said: [
        closely(said["fit"].parameters["tau"], 0.12, 0.005),
        closely(said["best"].objective, 2.0 + np.tanh(1.0), 1e-6),
    ],
    "benchmarks/index": lambda said: [],
    "migration/opty": lambda said: [
        closely(said["solution"].objective, said["info"]["obj_val"], 1e-6),
    ],
    "migration/casadi": lambda said: [
        closely(said["solution"].objective, said["theirs"].value(said["opti"].f), 1e-6),
        closely(said["solution"].objective, float(said["again"]), 1e-6),
        closely(float(said["there"][0]), 0.42612, 1e-4),  # 2 - 4 (1 - exp(-1/2))
        closely(said["fit"].parameters["b"], 0.5, 1e-4),
    ],
}
#: Packages of which blocks of a page are about, and with them all that follows.
SAMPLERS = ("emcee", "jax", "blackjax")
#: Pages whose examples need a package that few have.
PEERS = {"migration/opty": "opty", "migration/casadi": "casadi", "how-to/fmu": "fmpy"}
#: What runs in other pages, or says how others are found.
WORDS = {
    "reliability",
    "benchmarks/motion",
    "how-to/index",
    "tutorial/index",
    "api/index",
    "migration/index",
}
WORDS |= {page for page in PAGES if page.startswith("theory/")}

#: Packages, which pages are about as a whole.
PARTS = {"gait", "hybrid", "mjcf", "models", "multibody", "osim", "petab", "sbml", "urdf"}
PACKAGES = ("kinesym", *(f"kinesym.{part}" for part in sorted(PARTS)))


def code_of(page):
    return re.findall(r"```python\n(.*?)```", PAGES[page].read_text(), flags=re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_examples_run(page, tmp_path, monkeypatch):
    if page in PEERS:
        pytest.importorskip(PEERS[page])
    mpl.use("Agg")
    monkeypatch.chdir(tmp_path)
    Path("examples").symlink_to(TOP / "examples")
    blocks = code_of(page)
    assert bool(blocks) == (page not in WORDS)
    namespace, missing = {}, False
    for block in blocks:
        missing |= any(f"import {name}\n" in block and not installed(name) for name in SAMPLERS)
        if not missing:
            exec(block, namespace)
    assert all(EXPECTED.get(page, lambda said: [])(namespace))


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    path = PAGES[page]
    for link in re.findall(r"\]\((?!https:)([^)]+)\)", path.read_text()):
        place, _, heading = link.partition("#")
        target = path.parent / place if place else path
        assert target.exists(), link
        titles = re.findall(r"^#+ (.*)$", target.read_text(), flags=re.MULTILINE) if heading else []
        named = [re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles]
        assert not heading or heading in named, link


@pytest.mark.parametrize("folder", sorted({page.rpartition("/")[0] for page in PAGES} - {""}))
def test_index_of_a_folder_names_its_pages(folder):
    index = PAGES[f"{folder}/index"].read_text()
    mine = [page.rpartition("/")[2] for page in PAGES if page.startswith(f"{folder}/")]
    assert all(f"({page}.md)" in index for page in mine if page != "index")
    assert f"({folder}/index.md)" in PAGES["index"].read_text()


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_told_of_with_an_example(package):
    """On a page of the reference, in a directive and in code that runs."""
    told, names = set(), importlib.import_module(package).__all__
    for page in PAGES:
        if page.startswith("api/"):
            code = "\n".join(code_of(page))
            found = re.findall(
                r"^\.\. auto\w+:: kinesym\.(?:\w+\.)?(\w+)$", PAGES[page].read_text(), re.MULTILINE
            )
            told |= {name for name in found if re.search(rf"\b{name}\b", code)}
    assert not set(names) - told - PARTS
