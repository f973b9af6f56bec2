"""The code of the README runs."""

import re
from pathlib import Path

import matplotlib as mpl

README = Path(__file__).parents[2] / "README.md"


def test_readme(tmp_path, monkeypatch, capsys):
    mpl.use("Agg")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) == 6
    namespace = {}
    for block in blocks:
        exec(block, namespace)
    assert abs(namespace["solution"].parameters["p"] - 10.0) < 0.05
    assert abs(namespace["fit"].parameters["p"] - 10.0) < 0.002 and namespace["fit"].success
    assert namespace["runs"]["theta"].shape == (1000, 5000)
    assert (tmp_path / "pendulum.png").exists() and (tmp_path / "fit.nc").exists()
    assert (tmp_path / "person.html").exists()
    force = namespace["run"]["base_force_z"]
    assert abs(force[1000:].mean() - 78 * 9.81) < 10.0
    assert abs(namespace["needed"].total.force[2].mean() - 72.6 * 9.81) < 30.0
    assert abs(namespace["joints"].force[0]).max() < 1e-9
    assert abs(namespace["again"].error).max() < 1e-5 and not namespace["again"].message
    assert (tmp_path / "walk.html").exists() and (tmp_path / "joints.csv").exists()
    assert abs(namespace["peak"].after["angle"] - 0.95) < 0.01
    assert (tmp_path / "knee.png").exists() and (tmp_path / "contacts.png").exists()
    assert "converged" in capsys.readouterr().out
