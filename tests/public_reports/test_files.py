"""Public reports of other projects about files, written for kinesym; numbers are our own.

The first words of each docstring name the report."""

import warnings

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import kinesym as ks

HEAD = (
    "PathFileType\t4\t(X/Y/Z)\tspaces.trc\nDataRate\tCameraRate\tNumFrames\tNumMarkers\tUnits"
    "\tOrigDataRate\tOrigDataStartFrame\tOrigNumFrames\n100\t100\t20\t3\tmm\t100\t1\t20\n"
)
ROBOT = (
    '<robot name="r"><link name="base"/><link name="arm"><inertial><origin xyz="0 0 {below}"/>'
    '<mass value="0.1"/><inertia ixx="2e-4" iyy="2e-4" izz="1e-4" ixy="0" ixz="0" iyz="0"/>'
    '</inertial></link><joint name="q" type="{kind}"><parent link="base"/><child link="arm"/>'
    '<axis xyz="{axis}"/>{more}</joint></robot>'
)


def test_rows_between_spaces(tmp_path):
    """OpenMA/openma#59: a TRC file with rows between spaces, and fewer than announced."""
    names = ["RASI", "LASI", "RKNE"]
    cells = [[f"{100 + i + k:.4f}" for k in range(9)] for i in range(12)]
    rows = [f"{i + 1}  {i / 100:.4f}  " + "  ".join(each) for i, each in enumerate(cells)]
    axes = "\t\t" + "\t".join(f"{axis}{k + 1}" for k in range(3) for axis in "XYZ")
    text = HEAD + "Frame#\tTime\t" + "\t\t\t".join(names) + "\n" + axes + "\n\n" + "\n".join(rows)
    (tmp_path / "spaces.trc").write_text(text + "\n")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        markers = ks.gait.read_trc(tmp_path / "spaces.trc")
    assert [*markers.names] == names and len(markers.time) == 12


TABLES = {
    "vectors.sto": "DataType=Vec3\nversion=3\nOpenSimVersion=4.1\nendheader\ntime\tf_1\tf_2\n"
    + "".join(f"{i / 100}\t1,2,3\t4,5,6\n" for i in range(5)),
    "windows.mot": "x\nnRows=3\nnColumns=2\ninDegrees=no\nendheader\ntime\tq\n0\t1\n0.1\t-1.#IND\n"
    "0.2\t1.#QNAN\n",
    "semicolons.csv": "time;RASI_x;RASI_y;RASI_z\n"
    + "".join(f"0,0{i};1,5;2,5;3,5\n" for i in range(5)),
    "nexus.csv": "Trajectories\n100\n,,Subj:RASI,,,Subj:LASI,,\nFrame,Sub Frame,X,Y,Z,X,Y,Z\n"
    ",,mm,mm,mm,mm,mm,mm\n" + "".join(f"{i + 1},0,{100 + i},1,2,4,5,6\n" for i in range(5)),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables_of_other_programs(name, tmp_path):
    """opensim-org/opensim-core#2345, opensim-org/opensim-core#2289, opensim-org/opensim-core#1650:
    readers that are too strict."""
    (tmp_path / name).write_text(TABLES[name])
    read = ks.gait.read_csv if name.endswith("csv") else ks.gait.read_mot
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert len(read(tmp_path / name).time) == (3 if name == "windows.mot" else 5)


@pytest.mark.parametrize("damping", (0.001, 0.003))
def test_damping_of_a_joint(damping, tmp_path):
    """google-deepmind/mujoco#3527: elements of URDF files that are dropped in silence."""
    more = f'<dynamics damping="{damping}" friction="0.0"/>'
    path = tmp_path / "pendulum.urdf"
    path.write_text(ROBOT.format(below=-0.05, kind="continuous", axis="0 1 0", more=more))
    model = ks.urdf.read(path).model()
    start = {"q": 0.5, "q_speed": 0.0}
    run = ks.simulate(model, np.linspace(0, 1, 101), start, method="dormand-prince")

    def rates(s, q):
        return [q[1], (-0.1 * 9.81 * 0.05 * np.sin(q[0]) - damping * q[1]) / 4.5e-4]

    exact = solve_ivp(rates, (0, 1), [0.5, 0], rtol=1e-10, atol=1e-12).y[0, -1]
    assert run["q"][-1] == pytest.approx(exact, abs=1e-5)


def test_planar_joint(tmp_path):
    """stack-of-tasks/pinocchio#2753: joint types of the standard that a parser does not take."""
    path = tmp_path / "planar.urdf"
    path.write_text(ROBOT.format(below=0, kind="planar", axis="0 0 1", more=""))
    names = ks.urdf.read(path).model().state_names
    assert {"q_tx", "q_ty"} <= {*names}
