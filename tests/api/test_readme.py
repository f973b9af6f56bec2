"""The code of the README and of docs/ runs, in order within a page; its links lead somewhere."""

import re
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

TOP = Path(__file__).parents[2]
DOCS = TOP / "docs"


def name_of(path):
    """`how-to/models` of docs/how-to/models.md, `README` of that."""
    return path.relative_to(DOCS if path.is_relative_to(DOCS) else TOP).with_suffix("").as_posix()


PAGES = {name_of(path): path for path in (TOP / "README.md", *sorted(DOCS.rglob("*.md")))}


def closely(number, expected, within):
    return abs(number - expected) < within


#: What the blocks of a page leave behind.
EXPECTED = {
    "README": lambda said: [
        closely(said["solution"].parameters["K"], 1094.6, 0.1),
        closely(said["solution"].parameters["B"], 259.2, 0.1),
        Path("standing.nc").exists(),
    ],
    "index": lambda said: [closely(said["run"]["angle"].max(), 0.1, 1e-9)],
    "models": lambda said: [
        closely(said["run"]["acceleration"][0], -2.5, 1e-12),
        closely(said["rates"][1], -2.5, 1e-12),
        abs(said["hanging"]["q"]).max() < 0.31,
        "work" in said["counted"].state_names,
        said["slow"].input_names == ("F_rate",),
        max(said["drift"]) < 1e-9 and np.ptp(said["swing"]["energy"]) < 1e-7,
    ],
    "identification": lambda said: [
        closely(said["solution"].parameters["p"], 10.0, 0.05),
        closely(said["fit"].parameters["p"], 10.0, 0.002) and said["fit"].success,
        closely(said["weighed"].estimated_std["theta"], 0.05, 0.002),
        closely(said["weighed"].estimated_std["omega"], 0.3, 0.01),
        closely(said["hardy"].estimated_std["theta"], 0.05, 0.003),
        0.001 < said["standard_error"] < 0.002,
        closely(said["found"].parameters["K"], 15.0, 0.1),
        closely(said["estimates"].parameters["p"], 12.0, 0.05),
        closely(said["estimates"].parameters["b[s02]"], 1.5, 0.1),
        closely(said["estimates"].trials[2].parameters["c"], -0.5, 0.05),
        closely(said["sensed"].parameters["drift"], 0.2, 0.01),
        closely(said["sensed"].estimated_std["gyro"], 0.05, 0.003),
        closely(said["swung"].objective, 9.314, 0.001),
        closely(said["moved"].parameters["gate"], 1.6451, 0.001),
        closely(said["whole"].time[-1], 1.7324, 0.001),
        closely(said["rocket"].trials[2]["height"][-1], 2520377, 100),
        Path("pendulum.png").exists() and Path("fit.nc").exists(),
    ],
    "intervals": lambda said: [
        closely(said["fit"].parameters["k"], 12.0, 0.02),
        closely(said["fit"].parameters["b[s03]"], 0.32, 0.005),
        said["profile"].low < 12.0 < said["profile"].high,
        1.3 < said["drawn"].parameters["factor(b)"] < 1.7,
        said["models"].best == "one each",
        Path("swings.html").exists() and Path("profile.png").exists(),
    ],
    "simulation": lambda said: [
        said["runs"]["theta"].shape == (1000, 5000),
        abs(said["exact"].run["theta"] - said["pushed"][1]["theta"]).max() < 1e-6,
        closely(said["gradient"].parameters["p"], said["tangents"].states["theta"][0, -1], 1e-6),
        said["more"]["theta"][0] == said["run"]["theta"][-1],
        "costate_theta" in said["continuous"].conjugates,
    ],
    "constraints": lambda said: [
        said["pedalling"].redundant == ("shank_crank_fy",),
        closely(said["circles"]["lam1"][-1], 100.0, 1e-5),
        closely(said["fit"].parameters["push"], 20.0, 0.2),
    ],
    "convergence": lambda said: ["at least 4.75" in said["lost"].why().causes[0]],
    "multibody": lambda said: [
        Path("person.html").exists(),
        closely(said["run"]["base_force_z"][1000:].mean(), 78 * 9.81, 10.0),
        len(said["straight"].state_names) == 2,
    ],
    "gait": lambda said: [
        closely(said["needed"].total.force[2].mean(), 72.6 * 9.81, 30.0),
        abs(said["joints"].force[0]).max() < 1e-9,
        abs(said["again"].error).max() < 1e-5 and not said["again"].message,
        Path("walk.html").exists() and Path("joints.csv").exists(),
        said["seen"].points["RA"].shape == (3, said["markers"].time.size),
    ],
    "hybrid": lambda said: [
        closely(said["first"].after["speed"], 0.8 * np.sqrt(2 * 9.81), 1e-9),
        closely(said["peak"].after["angle"], 0.95, 0.01),
        closely(said["step"]["heel_normal"][-1] + said["step"]["toe_normal"][-1], 1.2 * 9.81, 1e-6),
        closely(said["fit"].parameters["g"], 9.81, 1e-6),
        closely(said["thrown"].trials[0]["speed"][0], -2.8232, 1e-3),
        Path("knee.png").exists() and Path("contacts.png").exists(),
    ],
    "files-and-results": lambda said: [
        all(Path(f"throw.{kind}").exists() for kind in ("png", "html", "nc", "csv")),
    ],
    "gallery": lambda said: [
        said["solution"].success,
        Path("crane.png").exists() and Path("violations.png").exists(),
    ],
    "troubles": lambda said: [],
    "starts": lambda said: [
        said["solution"].success and not said["solution"].ladder,
        closely(said["led"].parameters["p"], 10.0, 0.05) and len(said["led"].ladder) > 2,
        closely(said["best"].parameters["a"], 1.0, 0.05),
    ],
    "studies": lambda said: [
        closely(said["best"].parameters["k"], 9.0, 0.1),
        (said["table"]["status"] == "done").all() and len(said["table"]) == 6,
        Path("waterfall.png").exists() and Path("stiffness.png").exists(),
    ],
    "delays": lambda said: [
        closely(said["fit"].parameters["tau"], 0.12, 0.005),
        closely(said["best"].objective, 2.0 + np.tanh(1.0), 1e-6),
    ],
    "speed": lambda said: [],
    "reliability": lambda said: [],
}


@pytest.mark.parametrize("page", PAGES)
def test_examples_run(page, tmp_path, monkeypatch):
    mpl.use("Agg")
    monkeypatch.chdir(tmp_path)
    Path("examples").symlink_to(TOP / "examples")
    blocks = re.findall(r"```python\n(.*?)```", PAGES[page].read_text(), flags=re.DOTALL)
    assert blocks or page == "reliability"
    namespace = {}
    for block in blocks:
        exec(block, namespace)
    assert all(EXPECTED[page](namespace))


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    path = PAGES[page]
    for link in re.findall(r"\]\((?!https:)([^)]+)\)", path.read_text()):
        place, _, heading = link.partition("#")
        target = path.parent / place
        assert target.exists(), link
        titles = re.findall(r"^#+ (.*)$", target.read_text(), flags=re.MULTILINE) if heading else []
        named = [re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles]
        assert not heading or heading in named, link


def test_index_names_all_pages():
    index = PAGES["index"].read_text()
    assert all(f"({page}.md)" in index for page in PAGES if page not in ("README", "index"))
