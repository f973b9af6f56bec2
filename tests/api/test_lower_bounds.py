"""The oldest releases that pyproject.toml allows, installed beside each other: `KINESYM_LONG=1`."""

import os
import re
import subprocess
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BOUND = re.compile(r'^ *"([\w-]+)>=([\d.]+)"', re.MULTILINE)
WORK = """
import kinesym as ks, numpy as np, sympy as sp
t, (x, v), k = ks.t, ks.dynamicsymbols("x v"), sp.Symbol("k")
model = ks.Model("m", [x, v], [], [k], [x.diff(t) - v, (1 + x**2) * v.diff(t) + k * x])
T = np.linspace(0.0, 2.0, 41)
run = ks.simulate(model, T, {x: 1.0, v: 0.0}, {k: 4.0})
record = ks.Experiment(T, measurements={x: run["x"]}, std={x: 0.01})
for scheme in ("hermite-simpson", "trapezoid"):
    fit = ks.Collocation(model, record, unknown={k: (1, 9)}, scheme=scheme).solve({k: 3.0})
    assert abs(fit.parameters[k] - 4.0) < 0.01, fit
shot = ks.Shooting(model, record, unknown={k: (1, 9)}, initial={x: 1.0, v: 0.0}).solve({k: 3.0})
assert abs(shot.parameters[k] - 4.0) < 1e-6, shot
free = ks.Model("ball", [x, v], [], [], [x.diff(t) - v, v.diff(t) + 9.81])
bounce = ks.hybrid.Event("bounce", x, direction=-1, resets={v: -v})
ball = ks.simulate(ks.hybrid.Hybrid(free, events=[bounce]), T, {x: 1.0, v: 0.0})
assert len(ball.events) == 2 and np.allclose(ball["v"] ** 2 / 2 + 9.81 * ball["x"], 9.81), ball
fit.report("report.html"), fit.save("fit.nc"), ks.Solution.load("fit.nc")
"""


@pytest.mark.study
@pytest.mark.skipif(not os.environ.get("KINESYM_LONG"), reason="installs packages, minutes")
def test_oldest(tmp_path):
    about = (ROOT / "pyproject.toml").read_text()
    needed = about[about.index("dependencies = [") : about.index("[project.optional")]
    oldest = [f"{name}=={bound}" for name, bound in BOUND.findall(needed)]
    assert {"numpy", "scipy", "sympy"} <= {one.partition("==")[0] for one in oldest}
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--prefer-binary", str(ROOT), *oldest]
    subprocess.run(install, check=True)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"MPLBACKEND": "Agg"}
    done = subprocess.run(
        [python, "-c", WORK], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
