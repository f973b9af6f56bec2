"""Every example runs at small size, from the command line, and makes its pictures; that of the
validation on a ship in `test_ship_validation.py`."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import kinesym as ks
from kinesym.cli import example_names, main
from kinesym.examples import gallery, studies
from kinesym.examples.studies import video_to_torques

SMALL = {
    "standing": 600,
    "quiet_standing": 300,
    "swing_up": 201,
    "pendulum_local_minima": 600,
    "reaction_time": 601,
    "standing_noise": 600,
    "quiet_standing_sensitivities": 301,
    "quiet_standing_subjects": 150,
    "posture_study": 100,
    "ship": 2501,
    "ship_gains": 1501,
    "gait_planar": 301,
    "gait_treadmill": 801,
    "gait": 101,
    "gait_plates": 301,
    "gait_tracking": 41,
    "gait_without_plates": 41,
    "video_to_torques": 151,
    "bounces": 301,
    "fes_knee": 301,
    "foot_landing": 201,
    "fes_tuning": 151,
    "muscle_fit": 201,
    "walker": 401,
    "walker_step": 11,
    "knee_curve": 81,
    "arm_reach": 31,
}

#: As `test_gait_without_plates.py`; tracked with plates it runs always. Of the other one the gait
#: and the picture are those of `test_walker_step.py`. Each of the others has a sister
#: that is shorter.
LONG = {
    "gait",
    "gait_without_plates",
    "posture_study",
    "quiet_standing_sensitivities",
    "standing_noise",
    "video_to_torques",
    "walker_step",
}

SCRIPTS = {*example_names(), *example_names(studies)}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.study] * (name in LONG))
        for name in sorted(SCRIPTS - {"ship_validation"})
    ],
)
def test_example(name, tmp_path, capsys):
    assert main(["run", name, "--nodes", str(SMALL[name]), "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    pictures = list(tmp_path.glob("*.png"))
    assert pictures and all(str(path) in printed for path in pictures)
    assert all(path.stat().st_size > 10_000 for path in pictures)


@pytest.mark.parametrize(("name", "nodes"), [("ship_gains", 61), ("quiet_standing_subjects", 11)])
def test_gains_at_a_bound(name, nodes, tmp_path, capsys):
    """Short records leave some without a standard error: the example goes on."""
    assert main(["run", name, "--nodes", f"{nodes}", "--out", str(tmp_path)]) == 0
    assert "at a bound" in capsys.readouterr().out


def test_what_is_long_is_a_study():
    folder = Path(studies.__file__).parent
    lengths = {path: len(path.read_text().splitlines()) for path in folder.parent.glob("*.py")}
    assert max(lengths.values()) <= 300


def test_options_of_an_example(tmp_path, capsys):
    """Those of the example itself; others, and what is missing, are said."""
    for given, said in (
        ([], "the mass of the person tells forces from motions; give --mass KG\n"),
        (["--mass", "70"], f"there is no file {tmp_path / 'walk.trc'}\n"),
    ):
        trc = ["--trc", str(tmp_path / "walk.trc"), "--out", str(tmp_path)]
        assert main(["run", "video_to_torques", *trc, *given]) == 2
        assert capsys.readouterr().err == said
    with pytest.raises(SystemExit):
        main(["run", "standing", "--trc", "walk.trc"])
    assert "unrecognized arguments: --trc" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["list", "--trc", "walk.trc"])
    assert "unrecognized arguments: --trc" in capsys.readouterr().err


def test_help_of_an_example(tmp_path, capsys):
    """Its first lines and its own options; nothing runs and nothing is made."""
    assert main(["run", "video_to_torques", "--help", "--out", str(tmp_path / "new")]) == 0
    printed = capsys.readouterr().out
    assert (
        "--contacts CONTACTS" in printed
        and printed.count("Joint torques from markers that a video gave") == 1
    )
    assert not (tmp_path / "new").exists()
    for given, code in ((["--help"], 0), ([], 2)):
        assert main(["run", *given]) == code
        assert "kinesym run EXAMPLE --help" in capsys.readouterr().out


def test_markers_of_another_set_are_named(tmp_path, capsys):
    walk = ks.gait.read_csv(video_to_torques.data("gait_subject01_markers.csv.gz"))
    walk.to_trc(tmp_path / "walk.trc")
    given = ["--trc", str(tmp_path / "walk.trc"), "--mass", "70", "--out", str(tmp_path)]
    assert main(["run", "video_to_torques", *given]) == 2
    assert "there is no marker 'RHeel' among R.ASIS, L.ASIS, " in (said := capsys.readouterr().err)
    assert "ks.gait.fit_markers" in said


def test_markers_of_videos_have_two_sides():
    places = video_to_torques.both_sides(video_to_torques.AUGMENTED)
    assert places["L.ASIS_study"] == ("pelvis", (0.028, 0.010, -0.128))
    assert places["L_lwrist_study"][0] == "radius_l" and "LHJC_study" in places
    assert [name for name in places if "C7" in name] == ["C7_study"]
    assert {"LKnee", "Neck"} < {*video_to_torques.both_sides(video_to_torques.KEYPOINTS)}


def test_list(capsys):
    assert main(["list"]) == 0
    printed = capsys.readouterr().out
    for name in (*ks.models.__all__, *SCRIPTS, *example_names(gallery)):
        assert name in printed


def test_as_a_module():
    """`python -m kinesym` is the command."""
    command = [sys.executable, "-m", "kinesym", "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert said.stdout == f"{version('kinesym')}\n"


def test_doctor(capsys):
    assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    for what in ("compiler", "lanes", "Ipopt", "linear solvers", "threads", "cache"):
        assert what in printed


def test_doctor_says_what_is_missing(capsys, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    assert main(["doctor"]) == 1
    assert "MISSING compiler" in capsys.readouterr().out


def test_unknown_example(capsys):
    assert main(["run", "walking"]) == 2
    assert "there is no example walking; there are" in capsys.readouterr().err


def test_bench(capfd):
    """A benchmark by name with its own options; another name is refused."""
    assert main(["bench", "published", "gas_oil", "--nodes", "41"]) in (0, 1)  # a coarse grid
    assert "gas_oil" in capfd.readouterr().out
    assert main(["bench", "nothing"]) == 2
    said = capfd.readouterr().err
    assert "there is no benchmark nothing; there are accuracy, base_parameters" in said
