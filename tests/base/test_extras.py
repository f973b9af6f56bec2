"""Optional packages: extras of the distribution, what is said where one is missing, the doctor."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kinesym.base.extras import EXTRAS, NotInstalled, installed, required
from kinesym.cli import main

PACKAGES = [(package, extra) for extra, packages in EXTRAS.items() for package in packages]
PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def extra_in_project(name):
    """The packages of an extra, by the names of their modules."""
    line = re.search(rf"^{name} = \[(.*)\]", PROJECT.read_text(encoding="utf-8"), re.MULTILINE)[1]
    names = (re.match(r"[\w-]+", text)[0] for text in re.findall(r'"([^"]+)"', line))
    return {{"pyyaml": "yaml"}.get(name, name) for name in names}


@pytest.mark.parametrize("extra", EXTRAS)
def test_extras_are_those_of_the_distribution(extra):
    assert extra_in_project(extra) == {*EXTRAS[extra]}


def test_all_is_gait_petab_and_studies():
    assert 'all = ["kinesym[gait,petab,studies]"]' in PROJECT.read_text(encoding="utf-8")


@pytest.mark.parametrize("package, extra", PACKAGES)
def test_a_missing_package_is_named_with_the_command(monkeypatch, package, extra):
    monkeypatch.setitem(sys.modules, package, None)
    assert not installed(package)
    with pytest.raises(
        NotInstalled, match=rf"{package}; pip install 'kinesym\[{extra}\]'$"
    ) as said:
        required(package)
    assert isinstance(said.value, ImportError) and said.value.name == package


@pytest.mark.parametrize("package, extra", PACKAGES)
def test_a_package_that_is_there_is_its_module(package, extra):
    module = pytest.importorskip(package)
    assert required(package) is module


@pytest.mark.parametrize("package, extra", PACKAGES)
def test_doctor_says_which_extras_are_there(monkeypatch, capsys, package, extra):
    monkeypatch.setitem(sys.modules, package, None)
    main(["doctor"])
    line = next(line for line in capsys.readouterr().out.splitlines() if " extras " in line)
    assert line.startswith("ok")
    assert re.search(rf"{extra} without [\w, ]*{package}.*pip install 'kinesym\[{extra}\]'", line)


#: What is typed, and the package without which it does not go.
DOORS = [
    ("import kinesym as ks; ks.Study", "loky"),
    ("import kinesym as ks; ks.Study", "cloudpickle"),
    ("from kinesym.cli import main; raise SystemExit(main(['study', 'status', '.']))", "loky"),
]


@pytest.mark.parametrize("code, package", DOORS)
def test_studies_without_their_packages(code, package):
    """In a new process, as modules are imported once."""
    command = f"import sys; sys.modules[{package!r}] = None; {code}"
    ended = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True)
    assert ended.returncode in (1, 2)
    last = ended.stderr.splitlines()[-1]
    assert "kinesym.Study" in last and last.endswith("pip install 'kinesym[studies]'")
    assert ("Traceback" in ended.stderr) == ("main" not in code)


def test_the_core_starts_without_any_optional_package():
    """None of them is imported, nor any room of the domain."""
    code = """
import sys
import kinesym as ks
for name in ("Collocation", "Shooting", "simulate", "Model", "hybrid", "multibody", "models"):
    getattr(ks, name)
rooms = "gait", "osim", "urdf", "mjcf", "study", "inverse", "models.files", "runtime.studies"
print([name for name in (*(f"kinesym.{room}" for room in rooms), "ezc3d", "loky", "cloudpickle")
       if name in sys.modules])
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"
