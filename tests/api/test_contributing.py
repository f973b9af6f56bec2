"""CONTRIBUTING names files and folders that exist, and eight files that explain the engine."""

import re
from itertools import takewhile
from pathlib import Path

TOP = Path(__file__).parents[2]
TEXT = (TOP / "CONTRIBUTING.md").read_text(encoding="utf-8")
ROOMS = ("api", "base", "benchmarks", "codegen", "docs", "examples", "gait", "models", "runtime")
TREE = [TOP / room for room in (*ROOMS, "symbolic", "tests", "tools")]


def test_files_that_are_named_exist():
    """Each path is one of the tree, or the end of one where a folder is named before it."""
    named = set(re.findall(r"`((?:[\w.]+/)*[\w.]+\.(?:py|pyx|c|h|sh|md|toml)|(?:\w+/)+)`", TEXT))
    assert len(named) > 100
    there = {"/" + path.relative_to(TOP).as_posix() for room in TREE for path in room.rglob("*")}
    there |= {"/" + path.name for path in TOP.iterdir()}
    ends = {path[i:] for path in there for i, letter in enumerate(path) if letter == "/"}
    free = {"results/", "bench_report/"}  # made by `make demo` and `make bench`
    free |= {name for name in named if "NAME" in name}
    assert not {name for name in named - free if "/" + name.rstrip("/") not in ends}


def test_eight_files_to_read_first():
    """They are short enough to be read in a day, and begin with a docstring that is long enough to
    say what stage they are."""
    section = TEXT.split("## Read these eight files first")[1].splitlines()[1:]
    lines = takewhile(lambda line: not line.startswith("## "), section)
    files = [TOP / m[1] for line in lines if (m := re.match(r"\d\. `([\w/]+\.py)`: ", line))]
    texts = [path.read_text(encoding="utf-8") for path in files]
    assert len(files) == 8
    assert sum(text.count("\n") for text in texts) <= 2500
    assert all(text.startswith('"""') for text in texts)


def test_folders_name_their_stages():
    """The docstring of each folder of the engine names files of it."""
    inner = [f"api/internal/{room}" for room in ("problems", "running", "fitting")]
    for room in ("symbolic", "codegen", "runtime", *inner):
        text = (TOP / room / "__init__.py").read_text(encoding="utf-8")
        named = re.findall(r"`(\w+)`", text.split('"""')[1])
        inside = {path.stem for path in (TOP / room).iterdir()}
        assert len(named) > 3 and {*named} <= inside
