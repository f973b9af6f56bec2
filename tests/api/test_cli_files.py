"""Odd files and folders, given to each command: one sentence, and no half-written output; what
`ks.export` takes, the command takes."""

import os
from inspect import signature

import pytest

import kinesym as ks
from kinesym.cli import main
from kinesym.exporting import TARGETS, options_of_files

#: What a file may be instead of what it should be.
ODD = {
    "missing": lambda path: None,
    "a folder": lambda path: path.mkdir(),
    "empty": lambda path: path.touch(),
    "binary": lambda path: path.write_bytes(bytes(range(256)) * 9),
    "something else": lambda path: path.write_text("{what is this\n"),
    "not readable": lambda path: path.symlink_to("/proc/self/mem"),  # not by root, either
}
#: Commands that read a file: the end of its name, and the arguments.
READING = {
    "verify": (".kin", ["verify", "{}"]),
    "rerun": (".kin", ["rerun", "{}"]),
    "export of a file": (".json", ["export", "{}", "out"]),
    "export of a script": (".py", ["export", "{}:model", "out"]),
    "export of a text": (".txt", ["export", "{}:model", "out"]),
    "study run": (".py", ["study", "run", "{}"]),
    "study status": ("", ["study", "status", "{}"]),
    "bench": (".py", ["bench", "{}"]),
}
#: What a folder that is to be written may be instead.
PLACES = {
    "a file": lambda path: path.touch(),
    "below a file": lambda path: path.parent.touch(),
    "not writable": lambda path: path.parent.symlink_to("/proc/self"),
}
WRITING = {
    "export": ["export", "pendulum", "{}", "--target", "python"],
    "run": ["run", "standing", "--out", "{}"],
}


def files_of(folder):
    """Files in a folder, without the compiled code of scripts that were run there."""
    every = sorted(path for path in folder.rglob("*") if path.is_file())
    return [path for path in every if path.suffix != ".pyc"]


@pytest.fixture
def told(monkeypatch, tmp_path, capsys):
    """Runs a command that is to be refused, and returns the one line that it says."""
    monkeypatch.chdir(tmp_path)

    def run(arguments, path, status=2):
        before = files_of(tmp_path)
        assert main([word.format(path) for word in arguments]) == status
        said = capsys.readouterr()
        assert said.out == "" and len(said.err.splitlines()) == 1, said
        assert not any(raw in said.err for raw in ("Errno", "Error", "Traceback", "codec"))
        assert files_of(tmp_path) == before
        return said.err

    return run


#: An empty file is a script; what it lacks, the benchmark says in a process of its own.
ROWS = [
    (command, odd) for command in READING for odd in ODD if (command, odd) != ("bench", "empty")
]


@pytest.mark.parametrize(("command", "odd"), ROWS)
def test_odd_files(command, odd, told, tmp_path):
    ending, arguments = READING[command]
    path = tmp_path / f"given{ending}"
    ODD[odd](path)
    assert "given" in told(arguments, path.name)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("command", WRITING)
def test_odd_folders(command, place, told, tmp_path):
    path = tmp_path / "taken" if place == "a file" else tmp_path / "taken" / "out"
    PLACES[place](path)
    assert "taken" in told(WRITING[command], path)


@pytest.mark.parametrize("command", [["cache"], ["cache", "--clear"]])
def test_odd_caches(command, told, tmp_path, monkeypatch):
    for name in ("file", "file/below"):
        (tmp_path / "file").touch()
        monkeypatch.setenv("KINESYM_CACHE", str(tmp_path / name))
        assert "KINESYM_CACHE" in told(command, "", status=1)


def test_an_odd_index_of_a_study(told, tmp_path):
    for number, spoil in enumerate((ODD["binary"], ODD["not readable"])):
        folder = tmp_path / f"study_{number}"
        study = ks.Study(folder)
        (folder / "index.sqlite").unlink(missing_ok=True)
        spoil(folder / "index.sqlite")
        assert study.folder.name in told(["study", "status", "{}"], folder)


def test_what_a_script_says_is_said_with_its_line(told, tmp_path):
    (tmp_path / "mine.py").write_text("import kinesym\n\nstudy = kinesym.Study('mine.py')\n")
    assert told(["study", "run", "mine.py"], "").startswith("mine.py, line 3: a study needs a fold")


def test_options_of_export_are_those_of_its_targets(tmp_path, capsys):
    known = {
        name
        for target in TARGETS.values()
        for make in target.kinds.values()
        for name in [*signature(make).parameters][1:]
        if target.folder
    }
    assert options_of_files().keys() == known
    with pytest.raises(SystemExit, match="0"):
        main(["export", "--help"])
    said = capsys.readouterr().out
    assert all(f"--{name}" in said for name in known - {"guess"})  # a value of Python
    folder = str(tmp_path / "out")
    assert main(["export", "--lanes", "4", "pendulum", folder, "--target", "simd"]) == 0
    assert main(["export", "pendulum", folder, "--lanes", "4"]) == 2
    assert "c99, of a Model, has no option lanes" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["export", "pendulum", folder, "--initial", "theta=a"])
    assert "the value of theta is no number: 'a'" in capsys.readouterr().err


def test_version_and_models_with_events(tmp_path, capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out.strip() == ks.__version__
    x, u = ks.dynamicsymbols("x u")
    model = ks.Model("m", [x], [u], [], [x.diff(ks.t) - u])
    event = ks.hybrid.Event("stop", x - 1, resets={x: 0})
    ks.hybrid.Hybrid(model, events=[event]).write(tmp_path / "m.json")
    assert main(["export", str(tmp_path / "m.json"), str(tmp_path / "out")]) == 0
    assert "m_guards" in (tmp_path / "out" / "m.h").read_text() and os.listdir(tmp_path)
