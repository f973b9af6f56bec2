"""What a visitor sees first is true: who wrote it, and which tests run where."""

import re
from pathlib import Path

TOP = Path(__file__).parents[2]
AUTHORS = "the kinesym developers"


def text(name):
    return (TOP / name).read_text(encoding="utf-8")


def test_authors_are_the_same_everywhere_and_nothing_is_to_be_filled_in():
    for name in ("CITATION.cff", "paper/paper.md", "pyproject.toml"):
        assert AUTHORS in text(name), name
        assert not re.search(r"TODO|XXX|to be filled|0000-000|orcid:\s*$", text(name)), name


def test_the_workflow_runs_make_test_with_the_oldest_and_a_new_python():
    workflow, project = text(".github/workflows/test.yml"), text("pyproject.toml")
    oldest = re.search(r'requires-python = ">=(3\.\d+)"', project)[1]
    versions = re.search(r"python: \[(.*)\]", workflow)[1].replace('"', "").split(", ")
    assert {oldest, "3.13"} <= {*versions}
    assert "push:" in workflow and "timeout-minutes:" in workflow
    assert "run: .ci/run" in workflow and "exec make test" in text(".ci/run")


def test_no_badge_without_a_workflow():
    named = re.findall(r"actions/workflows/([\w.-]+)/badge", text("README.md"))
    assert all((TOP / ".github" / "workflows" / name).exists() for name in named)
