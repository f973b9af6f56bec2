"""Saving and loading: an older file survives whatever happens, a damaged one is named."""

import csv
import os
import signal
import stat
import subprocess
import sys
import textwrap
from dataclasses import fields, is_dataclass, replace

import h5py
import matplotlib.pyplot as plt
import numpy as np
import pytest
import sympy as sp
import xarray as xr

from kinesym.base.files import replacing
from kinesym.runtime.results.files import SEALED
from kinesym.runtime.results.fit import Fit
from kinesym.runtime.results.saved import Saved, read_dataset
from kinesym.runtime.results.solution import Solution
from kinesym.runtime.status import Solve

KINDS = [
    *("Trajectory", "Solution", "Fit", "Ensemble", "Bands", "InfluenceMeasures"),
    *(pytest.param(kind, marks=pytest.mark.domain) for kind in ("MarkerFit", "Scaling")),
]


def digest(thing):
    """Equal for equal content; a list is as good as a tuple."""
    if isinstance(thing, np.ndarray):
        return thing.dtype.str, thing.shape, thing.tobytes()
    if is_dataclass(thing):
        return type(thing), [digest(getattr(thing, field.name)) for field in fields(thing)]
    if isinstance(thing, dict):
        return [(key, digest(value)) for key, value in thing.items()]
    if isinstance(thing, float):  # NaN is as good as NaN
        return type(thing), repr(thing)
    return list(map(digest, thing)) if isinstance(thing, (list, tuple)) else (type(thing), thing)


# -- saving ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_saved_comes_back(every, kind, tmp_path):
    result, path = every[kind], tmp_path / "run.nc"
    result.save(path)
    again = type(result).load(str(path))
    assert str(again) == str(result)
    if hasattr(result, "keys"):
        assert list(again.keys()) == list(result.keys())
        for name in dict(result):
            np.testing.assert_array_equal(again[name], result[name])
    assert digest(again) == digest(result)
    assert [item.name for item in tmp_path.iterdir()] == ["run.nc"]  # nothing is left beside


@pytest.mark.parametrize(
    ("message", "success", "status"),
    [
        ("converged: the gradient is small", True, Solve.CONVERGED),
        ("interrupted: this is the best iterate, not a solution", False, Solve.INTERRUPTED),
        ("the limit of 3 iterations was reached", False, Solve.UNKNOWN),
    ],
)
def test_fits_of_versions_without_a_status(every, message, success, status):
    """Their unknowns were called values."""
    fit = replace(every["Fit"], trials=[], uncertainty=[], grid=[])
    data = fit.to_xarray().rename(free_vector="values")
    data["values"].attrs["kind"] = "values"
    del data.attrs["status"]
    data.attrs |= {"message": message, "success": int(success)}
    again = read_dataset(Fit, data)
    assert (again.status, again.success, again.message) == (status, success, message)
    np.testing.assert_array_equal(again.values, fit.values)


@pytest.mark.parametrize(
    ("was", "success", "status"),
    [
        (Solve.ACCEPTABLE, True, Solve.ACCEPTABLE),
        (Solve.INFEASIBLE, False, Solve.INFEASIBLE),
        (Solve.CONVERGED, False, Solve.UNKNOWN),  # no maximum of a marginal likelihood
        (Solve.ITERATION_LIMIT, True, Solve.CONVERGED),
    ],
)
def test_solutions_of_versions_that_said_twice_how_they_ended(every, was, success, status):
    solution = replace(every["Solution"], trials=[], status=was)
    data = Saved.to_xarray(solution)
    data.attrs["success"] = int(success)
    again = read_dataset(Solution, data)
    assert (again.status, again.success) == (status, success)


@pytest.mark.parametrize("kind", KINDS)
def test_an_older_file_survives_a_failure(every, kind, tmp_path, monkeypatch):
    """Ctrl-C, or no space, in the middle of writing."""
    result, path = every[kind], tmp_path / "run.nc"
    result.save(path)
    old = path.read_bytes()

    def interrupted(content):
        raise KeyboardInterrupt

    monkeypatch.setattr("kinesym.runtime.results.files.zlib.crc32", interrupted)
    with pytest.raises(KeyboardInterrupt):
        result.save(path)
    assert path.read_bytes() == old and len(list(tmp_path.iterdir())) == 1


def test_an_older_table_survives_a_failure(results, tmp_path, monkeypatch):
    path = tmp_path / "run.csv"
    path.write_text("old")

    def half(file, *rest, **options):
        file.write("ti")
        raise OSError("no space")

    monkeypatch.setattr(np, "savetxt", half)
    with pytest.raises(OSError, match="no space"):
        results["Trajectory"].to_csv(path)
    assert path.read_text() == "old" and len(list(tmp_path.iterdir())) == 1


def test_killed_while_it_saves(results, tmp_path):
    """kill -9 at random moments of saving over a good file again and again."""
    path = tmp_path / "run.nc"
    result = results["Trajectory"]
    result.save(path)
    program = textwrap.dedent("""
        import sys
        from kinesym.runtime.results.trajectory import Trajectory
        run = Trajectory.load(sys.argv[1])
        print("ready", flush=True)
        while True:
            run.save(sys.argv[1])
    """)
    for delay in (0.0, 0.013):
        child = subprocess.Popen(
            [sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout.readline() == "ready\n"
        try:
            child.wait(0.3 + delay)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        np.testing.assert_array_equal(type(result).load(path)["x"], result["x"])


@pytest.mark.parametrize(
    "wrong, error, words",
    [
        (None, ValueError, "saved under the name of a file, such as 'run.nc', got None"),
        ("", ValueError, "saved under the name of a file"),
        (".", ValueError, "is a folder; add the name of a file"),
        (
            "none/run.nc",
            FileNotFoundError,
            r"there is no folder .*none to save run\.nc in; make it",
        ),
    ],
)
def test_no_name_of_a_file(results, wrong, error, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for result in results.values():
        with pytest.raises(error, match=words):
            result.save(wrong)
    with pytest.raises(error, match=words):
        results["Trajectory"].to_csv(wrong)
    assert not list(tmp_path.iterdir())


def test_permissions_and_links(results, tmp_path):
    """New files as the umask has it, older ones keep their mode, and links go on to be links."""
    run, path, link = results["Trajectory"], tmp_path / "run.nc", tmp_path / "link.nc"
    before = os.umask(0o027)
    try:
        run.save(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o604)
    link.symlink_to(path)
    run.save(link)
    assert link.is_symlink() and stat.S_IMODE(path.stat().st_mode) == 0o604
    assert type(run).load(link)["x"][0] == 0.0


def test_what_must_not_be_changed(results, tmp_path, monkeypatch):
    """Also where the rights of the folder would let a file be replaced."""
    path = tmp_path / "run.nc"
    path.write_text("old")
    for protected, words in ((path, r"run\.nc is write-protected"), (tmp_path, "cannot be writt")):
        with monkeypatch.context() as patch:
            patch.setattr(os, "access", lambda name, mode, kept=protected: str(name) != str(kept))
            with pytest.raises(PermissionError, match=words):
                results["Trajectory"].save(path)
    assert path.read_text() == "old"


def test_a_device_is_written_to(tmp_path):
    with replacing("/dev/null") as path:
        path.write_text("gone")
    assert not os.path.isfile("/dev/null")


def test_tables_are_exact(results, tmp_path):
    """17 digits, measurements too."""
    run, path = results["Trajectory"], tmp_path / "run.csv"
    run.to_csv(path)
    names, *rows = csv.reader(path.read_text(encoding="utf-8").splitlines())
    table = dict(
        zip(
            names, np.array([[float(cell or "nan") for cell in row] for row in rows]).T, strict=True
        )
    )
    assert names == ["time", "x", "v", "u", "hip_x", "hip_y", "measured_x", "std_x"]
    for name in run:
        np.testing.assert_array_equal(table[name], run[name])
    np.testing.assert_array_equal(table["measured_x"], run.measurements["x"])
    np.testing.assert_array_equal(table["std_x"], run.std["x"])


def test_values_by_name_and_symbol(results):
    parameters = results["Fit"].parameters
    name = next(iter(parameters))
    symbol = sp.Symbol(name)
    assert name in parameters and symbol in parameters and 1 not in parameters
    assert parameters[symbol] == parameters[name]


# -- loading --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_files_of_something_else(every, saved, kind, tmp_path):
    cls = type(every[kind])
    for other in set(saved) - {kind}:
        path = tmp_path / f"{other}.nc"
        path.write_bytes(saved[other])
        with pytest.raises(
            ValueError,
            match=rf"{other}\.nc was not written by {kind}\.save, but "
            rf"by {other}\.save; use {other}\.load",
        ):
            cls.load(path)
    xr.Dataset({"a": ("b", [1.0])}).to_netcdf(tmp_path / "plain.nc", engine="h5netcdf")
    text = tmp_path / "text.nc"
    text.write_text("text")
    (tmp_path / "empty.nc").write_bytes(b"")
    for name, words in {
        "plain.nc": "nor by any other of kinesym",
        "text.nc": "no netCDF file",
        "empty.nc": "it is empty",
    }.items():
        with pytest.raises(ValueError, match=rf"{name} was not written by {kind}\.save.*{words}"):
            cls.load(tmp_path / name)
    with pytest.raises(FileNotFoundError, match=r"there is no file .*none\.nc"):
        cls.load(tmp_path / "none.nc")
    with pytest.raises(ValueError, match=rf"is a folder; {kind}\.load reads a file"):
        cls.load(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files(every, saved, kind, tmp_path):
    """Cut short, or one byte changed, wherever it is."""
    path, whole = tmp_path / "run.nc", saved[kind]
    rng = np.random.default_rng(0)
    for at in rng.integers(0, len(whole), 20):
        for content in (whole[:at], whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]):
            path.write_bytes(content)
            with pytest.raises(ValueError, match=r"run\.nc (is damaged|was not written by)"):
                type(every[kind]).load(path)
    other = bytes(byte ^ 255 for byte in whole[2177:4177])
    path.write_bytes(whole[:2177] + other + whole[4177:])  # HDF5 might not come back
    with pytest.raises(ValueError, match=r"run\.nc is damaged"):
        type(every[kind]).load(path)


@pytest.mark.parametrize("kind", KINDS)
def test_files_without_a_seal(every, saved, kind, tmp_path):
    """Of an earlier version, or changed by another program: they still load."""
    path = tmp_path / "run.nc"
    path.write_bytes(saved[kind])
    with h5py.File(path, "r+") as file:  # cuts the seal off
        file.attrs["remark"] = "by hand"
    assert str(type(every[kind]).load(path)) == str(every[kind])
    path.write_bytes(saved[kind][:-SEALED])
    assert str(type(every[kind]).load(path)) == str(every[kind])
    path.write_bytes(saved[kind][: -SEALED - 1])
    with pytest.raises(ValueError, match=r"run\.nc is damaged"):
        type(every[kind]).load(path)


def test_a_damaged_story_without_a_seal(results, tmp_path):
    path = tmp_path / "run.nc"
    results["Solution"].save(path)
    with h5py.File(path, "r+") as file:
        file.attrs["parameters"] = "{"
    with pytest.raises(ValueError, match=r"run\.nc is damaged, or was not written by Solution"):
        type(results["Solution"]).load(path)


def test_other_programs_read_saved_files(results, tmp_path):
    path = tmp_path / "run.nc"
    results["Trajectory"].save(path)
    with xr.open_dataset(path) as data:
        np.testing.assert_array_equal(data["x"], results["Trajectory"]["x"])
    with h5py.File(path) as file:
        assert file.attrs["model"] == "swing"


#: Names that the file has for something else: fields, dimensions, what its variables begin with.
TAKEN = (
    "time member event side state event_time parameter_k measured_x std_x model kind a/b".split()
)


@pytest.mark.parametrize("kind", ["Trajectory", "Ensemble"])
def test_states_may_have_any_name(results, kind, tmp_path):
    """One called as a parameter is in the file took its place."""
    result = results[kind]
    states = {name: k + result["x"] for k, name in enumerate(["x", *TAKEN])}
    inputs = {"parameter_k_": -result["x"]}
    result = replace(result, states=states, inputs=inputs)
    result.save(tmp_path / "run.nc")
    again = type(result).load(tmp_path / "run.nc")
    assert list(again.states) == ["x", *TAKEN] and list(again.inputs) == list(inputs)
    for name in (*states, *inputs):
        np.testing.assert_array_equal(again[name], result[name])
    np.testing.assert_array_equal(again.parameters["k"], result.parameters["k"])
    np.testing.assert_array_equal(again.time, result.time)


@pytest.mark.parametrize("kind", ["Trajectory", "Ensemble"])
def test_datasets_come_back(results, kind):
    result = results[kind]
    assert digest(type(result).from_xarray(result.to_xarray())) == digest(result)
    for other in (xr.Dataset(), results["Fit"].to_xarray()):
        with pytest.raises(ValueError, match=f"the dataset was not made by {kind}.to_xarray"):
            type(result).from_xarray(other)


def test_trials_keep_their_order(results, tmp_path):
    trials = [replace(results["Fit"].trials[0], model=str(k)) for k in range(12)]
    replace(results["Fit"], trials=trials).save(tmp_path / "run.nc")
    again = type(results["Fit"]).load(tmp_path / "run.nc")
    assert [trial.model for trial in again.trials] == [str(k) for k in range(12)]


def test_files_of_an_earlier_version(results, tmp_path):
    data = results["Trajectory"].to_xarray().drop_attrs(deep=False).assign_attrs(model="swing")
    data.to_netcdf(tmp_path / "old.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match=r"old\.nc was not .* but by an earlier version"):
        type(results["Trajectory"]).load(tmp_path / "old.nc")


def test_datasets_from_before_a_field(results):
    """A field that was added since has its default; one without a default is needed."""
    run = results["Trajectory"]
    data = run.to_xarray()
    del data.attrs["units"]
    assert digest(type(run).from_xarray(data)) == digest(run)
    del data.attrs["parameters"]
    with pytest.raises(ValueError, match="parameters is missing, or of another version"):
        type(run).from_xarray(data)


# -- what results are -----------------------------------------------------------------------------


def test_results_are_mappings(results):
    for kind, result in results.items():
        names = ["x", "u", "y"] if kind == "Ensemble" else ["x", "v", "u", "hip_x", "hip_y"]
        assert result.keys() == names and "x" in result and "q" not in result and 3 not in result
        if kind != "Ensemble":  # which is a list of its members too
            assert list(result) == names and len(result) == 5
        assert dict(result).keys() == dict(result.items()).keys() == set(names)
        assert result == result and hash(result)
    assert len(results["Ensemble"]) == len(list(results["Ensemble"])) == 3


def test_a_failed_solve_says_so_when_exported(results):
    data = results["Solution"].to_xarray(1)
    assert data.attrs["success"] == 0 and data.attrs["objective"] == 1.5
    assert data.attrs["message"] == "stopped at the limit of iterations"


def test_pictures_of_a_solution(results, tmp_path):
    for kind in ("Solution", "Fit"):
        assert len(results[kind].plot(0, ["x", "hip_x"]).axes) == 2
        with pytest.raises(ValueError, match="the model swing has no stick figure"):
            results[kind].animate(tmp_path / "film.html")


def test_what_happened(results):
    """Breaks of inputs are in the log, and no events."""
    run = results["Trajectory"]
    assert [e.kind for e in run.events] == ["impact", "event"] and len(run.log) == 4
    assert len(run.happened("clock")) == 2 and "2 events" in repr(run)
    assert run.happened("event", "never") == [] and len(run.happened("event", "peak")) == 1
    for typo in ("peek", ""):
        with pytest.raises(
            ValueError, match=f"there is no contact or event '{typo}'; there are floor, peak, never"
        ):
            run.happened("event", typo)
    with pytest.raises(ValueError, match="there is no kind 'evnt'; there are clock, impact"):
        run.happened("evnt")


def test_one_line_and_a_table(results):
    for kind, result in results.items():
        line, table = repr(result), result._repr_html_()
        assert "\n" not in line and line.startswith("<") and "swing" in line, kind
        assert table.startswith("<div>") and "<table>" in table and "swing" in table
        assert len(line) < 250
    text = str(results["Solution"])
    assert text.startswith("swing: stopped") and "\n  k            2\n" in text
    assert "\n  condition    10 (scaled)\n" in str(results["Fit"])


def test_tables_are_escaped(results):
    run = replace(results["Trajectory"], model="<b>&")
    assert "&lt;b&gt;&amp;" in run._repr_html_() and "<b>" not in run._repr_html_()


def test_a_notebook_shows_a_figure_once(results, monkeypatch):
    """As the value of its cell; elsewhere `plt.show()` finds it."""
    plt.close("all")
    figure = results["Trajectory"].plot()
    assert plt.get_fignums() == [figure.number]
    plt.close("all")
    monkeypatch.setattr(plt, "get_backend", lambda: "module://matplotlib_inline.backend_inline")
    for make in (
        results["Trajectory"].plot,
        results["Ensemble"].plot,
        results["Trajectory"].plot_modes,
        results["Fit"].plot_history,
    ):
        assert make().axes and not plt.get_fignums()
