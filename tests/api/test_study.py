"""Studies: what is missing runs, what is there stays, whatever is killed, changed or full."""

import inspect
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cloudpickle
import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import sympy as sp

import kinesym as ks
from kinesym.cli import main
from kinesym.runtime.status import Task
from kinesym.runtime.studies.index import Entry, Index
from kinesym.runtime.studies.work import Call, Order, Outcome, me, work
from kinesym.study import digest

pytestmark = pytest.mark.filterwarnings("ignore:.* tasks have no result")
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers do not find it by name

x, v = ks.dynamicsymbols("x v")
k = sp.Symbol("k")
SPRING = ks.Model("spring", [x, v], [], [k], [x.diff(ks.t) - v, v.diff(ks.t) + k * x])
TIME = np.linspace(0.0, 2.0, 41)


def record(stiffness, seed):
    """Of a spring, with noise."""
    noise = 0.01 * np.random.default_rng(seed).standard_normal(41)
    return ks.Experiment(TIME, measurements={x: np.cos(np.sqrt(stiffness) * TIME) + noise})


def fitted(trial, start=1.0):
    problem = ks.Collocation(SPRING, trial, unknown={k: (0, 30)})
    return problem.solve(guess={k: start})


def square(number):
    return {"square": number**2, "word": "even" if number % 2 == 0 else "odd"}


def counted(folder, number):
    """As `square`, leaving a trace of each call."""
    with open(Path(folder) / "calls", "a") as file:
        file.write(f"{number}\n")
    return square(number)


def calls(folder):
    path = Path(folder) / "calls"
    return sorted(map(int, path.read_text().split())) if path.is_file() else []


@pytest.fixture(scope="module")
def pool():
    with ThreadPoolExecutor(2) as pool:
        yield pool


# -- what a study does ----------------------------------------------------------------------------


def test_fits_of_several_subjects(tmp_path, pool):
    study = ks.Study(tmp_path / "springs")
    trials = {"s01": record(4.0, 1), "s02": record(9.0, 2)}

    @study.cross(trial=trials, start=[2.0, 12.0])
    def fit(trial, start):
        return fitted(trial, start), {"from": start}

    table = study.run(pool)
    assert list(table.columns[:3]) == ["trial", "start", "status"]
    assert (table["status"] == "done").all() and (table["success"] == 1.0).all()
    np.testing.assert_allclose(table["k"], [4, 4, 9, 9], rtol=0.02)
    assert (table["k_se"] > 0).all() and (table["from"] == table["start"]).all()
    again = study.results("s02", 12.0)
    np.testing.assert_array_equal(again["x"], fitted(trials["s02"], 12.0)["x"])
    assert study.results(trial="s01", start=2.0).parameters["k"] == table["k"].iloc[0]
    assert repr(study).endswith("4 done>")


def test_only_what_is_missing_or_changed(tmp_path, pool):
    folder = tmp_path / "squares"

    def made(numbers):
        study = ks.Study(folder)
        for number in numbers:
            study.add(number, counted, folder=str(tmp_path), number=number)
        return study

    made(range(3)).run(pool)
    assert calls(tmp_path) == [0, 1, 2]
    table = made(range(5)).run(pool)
    assert calls(tmp_path) == [0, 1, 2, 3, 4]
    assert table["square"].tolist() == [0, 1, 4, 9, 16]
    assert table["word"].tolist() == ["even", "odd", "even", "odd", "even"]
    other = ks.Study(folder)
    other.add(2, counted, folder=str(tmp_path), number=7)
    assert other.table()["status"].tolist() == ["stale"]
    other.run(pool)
    assert ks.Study(folder).table()["square"].tolist() == [0, 1, 49, 9, 16]
    assert calls(tmp_path) == [0, 1, 2, 3, 4, 7]


def test_failures_are_rows(tmp_path, pool):
    study = ks.Study(tmp_path / "s")

    @study.cross(number=range(4))
    def root(number):
        if number == 2:
            raise ArithmeticError("two has no root here")
        return np.sqrt(number)

    table = study.run(pool, retries=0)
    assert table["status"].tolist() == ["done", "done", "failed", "done"]
    assert table["message"].iloc[2] == "ArithmeticError: two has no root here"
    assert np.isnan(table["value"].iloc[2])
    with pytest.raises(ValueError, match=r"(?s)is failed: Arithmetic.*line \d+, in root"):
        study.results(2)
    assert study.run(pool)["status"].tolist() == table["status"].tolist()  # not tried again


def test_retries(tmp_path, pool):
    study = ks.Study(tmp_path / "s")
    study.add("late", succeeds_at_last, folder=str(tmp_path))
    table = study.run(pool, retries=2)
    assert table["status"].tolist() == ["done"]
    assert study.table(timing=True)["attempts"].tolist() == [3]


def succeeds_at_last(folder):
    counted(folder, 1)
    if len(calls(folder)) < 3:
        raise OSError("not yet")


def test_numbers_alone(tmp_path, pool):
    study = ks.Study(tmp_path / "s")
    study.add("one", fitted, trial=record(4.0, 1))
    study.run(pool, keep=False)
    assert not list((tmp_path / "s" / "results").rglob("*.nc"))
    with pytest.raises(ValueError, match="has numbers only, see table"):
        study.results("one")


def test_pictures(tmp_path, pool):
    mpl.use("Agg")
    study = ks.Study(tmp_path / "s")
    trials = {f"s{i}": record(4.0 + i, i) for i in range(3)}
    study.cross(trial=trials, start=[2.0, 3.0])(fitted)
    with pytest.raises(ValueError, match=r"no task of the study in .* is done yet"):
        study.plot()
    study.run(pool)
    assert len(study.plot("k").axes[0].get_xticks()) == 3
    assert len(study.plot(by="trial").axes[0].lines) == 3
    with pytest.raises(ValueError, match="a number of the table"):
        study.plot("mass")


def test_a_waterfall_of_fits_with_unknown_std(tmp_path, pool):
    """Two channels whose std is estimated: objectives of all are alike, the likelihood is not."""
    mpl.use("Agg")
    rng = np.random.default_rng(3)
    y = {x: np.cos(3.0 * TIME), v: -3.0 * np.sin(3.0 * TIME)}
    trial = ks.Experiment(
        TIME, measurements={n: row + 0.05 * rng.standard_normal(41) for n, row in y.items()}
    )
    study = ks.Study(tmp_path / "s")
    study.cross(trial={"one": trial}, most=[30.0, 5.0])(fitted_up_to)
    table = study.run(pool)
    assert np.ptp(table["objective"]) < 1.5 and np.ptp(table["merit"]) > 50.0
    axis = study.plot().axes[0]
    assert np.ptp(axis.lines[0].get_ydata()) == pytest.approx(np.ptp(table["merit"]))
    assert axis.get_ylabel() == "-2 log L above the best"


def fitted_up_to(trial, most):
    start = {x: 1.0, v: 0.0}
    return ks.Shooting(SPRING, trial, {k: (0, most)}, initial=start).solve({k: 4.0})


# -- processes and what happens to them -----------------------------------------------------------


def dies_once(folder, number):
    """The first call of number 1 takes its process with it, as one out of memory."""
    mark = Path(folder) / "died"
    if number == 1 and not mark.exists():
        mark.write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    return counted(folder, number)


def dies(number):
    if number == 1:
        os._exit(1)
    return square(number)


def sleeps(number):
    time.sleep(60.0 if number == 1 else 0.0)
    return square(number)


def test_processes(tmp_path):
    """One pool each, as each loses workers: one dies once, one always, one does not end."""
    study = ks.Study(tmp_path / "once")
    for number in range(6):
        study.add(number, dies_once, folder=str(tmp_path), number=number)
    assert study.run(workers=2)["square"].tolist() == [0, 1, 4, 9, 16, 25]
    assert sorted(set(calls(tmp_path))) == list(range(6))

    study = ks.Study(tmp_path / "always")
    study.cross(number=range(4))(dies)
    table = study.run(workers=2)
    assert table["status"].tolist() == ["done", "lost", "done", "done"]
    assert "its worker died 2 times while it ran" in table["message"].iloc[1]

    study = ks.Study(tmp_path / "sleeps")
    study.cross(number=range(4))(sleeps)
    table = study.run(workers=2, timeout=0.5)
    assert table["status"].tolist() == ["done", "timeout", "done", "done"]
    assert table["message"].iloc[1] == "not done within 0.5 s"


SCRIPT = """
import sys, time
import kinesym as ks

study = ks.Study(sys.argv[1])

@study.cross(number=range(40))
def cube(number):
    time.sleep(0.02)
    return {{"cube": number**3}}

if __name__ == "__main__":
    print(study.run(workers=2).to_csv())
"""


@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.study)])
def test_a_killed_driver_loses_nothing(kills, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT.format()))

    def run(folder):
        return subprocess.Popen(
            [sys.executable, str(script), str(folder)], stdout=subprocess.PIPE, text=True
        )

    whole = run(tmp_path / "whole").communicate()[0]
    chance = random.Random(1)
    for _ in range(kills):
        process = run(tmp_path / "killed")
        time.sleep(1.2 + chance.uniform(0.0, 1.5))
        before = done(tmp_path / "killed")
        process.kill()
        process.wait()
        assert done(tmp_path / "killed") >= before
    assert run(tmp_path / "killed").communicate()[0] == whole
    assert "cube" in whole


def done(folder):
    path = folder / "index.sqlite"
    return Index(path).counts().get(Task.DONE, 0) if path.is_file() else 0


def test_ctrl_c_keeps_what_is_there(tmp_path):
    class Interrupting(ThreadPoolExecutor):
        sent = 0

        def submit(self, *args):
            self.sent += 1
            if self.sent == 4:
                raise KeyboardInterrupt
            return super().submit(*args)

    study = ks.Study(tmp_path / "s")
    study.cross(number=range(9))(square)
    with Interrupting(1) as pool:
        table = study.run(pool, workers=1)
    assert set(table["status"]) <= {"done", "pending"}
    assert study.run(workers=1)["square"].tolist() == [n**2 for n in range(9)]


def test_a_folder_that_workers_do_not_see(tmp_path):
    """Results come back with the outcome."""
    study = ks.Study(tmp_path / "s")
    study.add("one", fitted, trial=record(4.0, 1))
    ((_, function),) = study._entries(pickled=True)
    (added,) = study._added.values()
    call = Call(1, "ab" * 16, function, added.arguments)
    order = Order(str(tmp_path / "s"), "another", np.inf, 1, True, ks.__version__, me())
    (outcome,) = work([call], study._pickles, order, "part")
    assert outcome.status is Task.DONE and outcome.file and outcome.kind.endswith(":Solution")
    assert not list((tmp_path / "s" / "journal").iterdir())


@pytest.mark.study
def test_dask(tmp_path):
    distributed = pytest.importorskip("distributed")
    study = ks.Study(tmp_path / "s")
    trials = {f"s{i}": record(4.0 + i, i) for i in range(2)}
    study.cross(trial=trials)(fitted)
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        there = study.run(client)
    here = ks.Study(tmp_path / "here")
    here.cross(trial=trials)(fitted)
    pd.testing.assert_frame_equal(there, here.run(ThreadPoolExecutor(1)))
    assert study.results("s1").success


# -- bad input ------------------------------------------------------------------------------------


def test_what_is_refused(tmp_path, pool):
    study = ks.Study(tmp_path / "s")
    study.add("a", square, number=1)
    with pytest.raises(ValueError, match="there is a task key=a already"):
        study.add("a", square, number=2)
    lock = threading.Lock()
    study.add("b", lambda: lock.locked())
    words = r"the function .* cannot be sent to a worker: cannot pickle"
    with pytest.raises(ValueError, match=words):
        study.run(pool)
    study = ks.Study(tmp_path / "t")
    study.add("a", square, number=1)
    with pytest.raises(ValueError, match=r"the task key=b: square: .*number"):
        study.add("b", square, size=1)
    with pytest.raises(ValueError, match="names of a label are columns of the table, which has"):
        study.add({"status": "a"}, square, number=1)
    with pytest.raises(ValueError, match="labels of tasks are words and numbers, key is nan"):
        study.add(np.nan, square, number=1)
    with pytest.raises(ValueError, match="labels of tasks are words and numbers, trial is"):
        study.cross(trial=[record(4.0, 1)])
    with pytest.raises(ValueError, match="number must be several values, got 3"):
        study.cross(number=3)
    with pytest.raises(ValueError, match=r"a task is a function and its data, got 3"):
        study.add("c", 3)
    with pytest.raises(ValueError, match=r"executor must be one of concurrent.futures"):
        study.run(4)
    with pytest.raises(ValueError, match="nothing can end a thread"):
        study.run(pool, timeout=1.0)
    with pytest.raises(KeyError, match="no tasks are b"):
        study.results("b")
    study.add("d", lambda: object())
    assert "a task returns a result of kinesym, numbers" in study.run(pool)["message"].iloc[1]


def test_folders_that_are_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"a study needs a folder, but .* is a file"):
        ks.Study(tmp_path / "file")
    with pytest.raises(ValueError, match="holds something else than a study"):
        ks.Study(tmp_path)
    study = ks.Study(tmp_path / "s")
    with study._alone(), pytest.raises(ValueError, match="another process runs the study in"):
        ks.Study(tmp_path / "s").run()
    with study._index._open() as base:
        base.execute("update about set value = '99' where name = 'format'")
    with pytest.raises(ValueError, match="has version 99 of the index of studies"):
        ks.Study(tmp_path / "s")
    (tmp_path / "s" / "index.sqlite").write_text("no database " * 100)
    with pytest.raises(ValueError, match="is no index of a study"):
        ks.Study(tmp_path / "s")


def test_another_version(tmp_path, pool, monkeypatch):
    study = ks.Study(tmp_path / "s")
    study.add("a", square, number=1)
    monkeypatch.setattr("kinesym.study.version", lambda name: "0.0")
    with pytest.raises(ValueError, match=r"has kinesym .*, the study runs with 0.0; install"):
        study.run(pool)


# -- content --------------------------------------------------------------------------------------


def test_equal_content_has_equal_digests():
    y, w = ks.dynamicsymbols("x v")
    other = ks.Model("spring", [y, w], [], [k], [y.diff(ks.t) - w, w.diff(ks.t) + k * y])
    pairs = [
        (SPRING, other),
        (record(4.0, 1), record(4.0, 1)),
        ({"a": 1, "b": [2.0]}, {"b": [2.0], "a": 1}),
        (ks.Signal(TIME, TIME), ks.Signal(TIME, TIME.copy())),
        (
            ks.Collocation(SPRING, record(4.0, 1), unknown={k: (0, 9)}),
            ks.Collocation(other, record(4.0, 1), unknown={k: (0, 9)}),
        ),
    ]
    for one, same in pairs:
        assert digest(one) == digest(same)


def test_results_count_by_what_is_saved_of_them():
    """Not by the problem that can be asked, which may hold what has no copy."""
    shooting = ks.Shooting(SPRING, record(4.0, 1), {k: (0, 9)}, initial={x: 1.0, v: 0.0})
    collocation = ks.Collocation(SPRING, record(4.0, 1), unknown={k: (0, 9)})
    for fit in (shooting.solve({k: 3.5}), collocation.solve({k: 3.5})):
        assert fit.inference is not None
        assert digest(fit) == digest(cloudpickle.loads(cloudpickle.dumps(fit)))


def test_other_content_has_other_digests(tmp_path):
    (tmp_path / "data").write_text("1")
    values = [
        SPRING,
        SPRING.substitute({k: 2 * k}),
        record(4.0, 1),
        record(4.0, 2),
        ks.Collocation(SPRING, record(4.0, 1), unknown={k: (0, 9)}),
        ks.Collocation(SPRING, record(4.0, 1), unknown={k: (0, 8)}),
        ks.Collocation(SPRING, record(4.0, 1), unknown={k: (0, 9)}, scheme="midpoint"),
        *[1, 1.0, True, "1", b"1", None, [1], {1: 1}, {1}, np.ones(1), np.ones(1, int)],
        *[square, counted, tmp_path, tmp_path / "data", SPRING.equations[1]],
    ]
    assert len({digest(value) for value in values}) == len(values)


LEVEL, PUSH = sp.Symbol("level"), ks.dynamicsymbols("push")
PUSHED = SPRING.extended(inputs=[PUSH], parameters=[LEVEL], values={LEVEL: 1.0})
TWO = [record(4.0, j) for j in (1, 2)]
LABELLED = [
    ks.Experiment(TIME, measurements={x: trial.measurements["x"]}, labels=own)
    for trial in TWO
    for own in ({"subject": "a"}, {"subject": "b"})
]


def changed_by(kind, base, changes):
    """Digests of a problem, and of the same with one argument changed at a time."""
    made = [kind(**base), *(kind(**{**base, name: value}) for name, value in changes)]
    assert digest(made[0]) == digest(kind(**base))
    return [digest(problem) for problem in made]


def test_every_argument_of_a_problem_counts():
    """An argument that is new has to be in these tables."""
    drawn = {k: ks.per("subject", ks.normal((1, 8), 0.2))}
    base = {"system": SPRING, "trials": LABELLED, "unknown": {k: (0, 9)}, "bounds": {v: (-50, 50)}}
    changes = [
        ("system", SPRING.substitute({k: 2 * k})),
        ("trials", LABELLED[:3]),
        ("unknown", drawn),
        ("unknown", {k: ks.per("subject", ks.normal((1, 8), 3.0))}),
        ("unknown", {k: ks.per("subject", ks.normal((1, 9), 0.2))}),
        ("unknown", {k: ks.log_scale(1e-3, 9)}),
        ("scheme", "midpoint"),
        ("objective", ks.LeastSquares("huber")),
        ("bounds", {v: (None, lambda time: 50.0 - time)}),
        ("boundary", [ks.at_start(x) - 1]),
        ("path", [(x, -2, 2)]),
        ("sensors", {"two": 2 * x}),
        ("homotopy", "data"),
    ]
    found = changed_by(ks.Collocation, base, changes)
    assert len(set(found)) == len(found)
    pushed = {
        "system": PUSHED,
        "trials": TWO,
        "unknown": {k: (0, 9)},
        "unknown_inputs": {PUSH: None},
    }
    more = [
        ("unknown_inputs", {PUSH: ks.held(-1, 1)}),
        ("noise", {PUSH: 0.3}),
        ("known", {LEVEL: 2.0}),
    ]
    pushed["objective"] = ks.LeastSquares() + ks.Integral(PUSH**2)
    noisy = {name: value for name, value in pushed.items() if name != "unknown_inputs"}
    noisy |= {"noise": {PUSH: 0.3}, "objective": None, "scheme": "midpoint"}
    found += changed_by(ks.Collocation, pushed, [more[0], more[2]])
    found += changed_by(ks.Collocation, noisy, [("noise", {PUSH: 0.4})])
    assert len(set(found)) == len(found)
    _all_are_there(ks.Collocation, [name for name, _ in (*changes, *more)])


def test_every_argument_of_shooting_counts():
    base = {"system": SPRING, "trials": TWO, "unknown": {k: (0, 9)}, "initial": {x: 1, v: 0}}
    changes = [
        ("system", SPRING.substitute({k: 2 * k})),
        ("trials", TWO[:1]),
        ("unknown", {k: ks.normal(3, 1)}),
        ("initial", {x: 1.5, v: 0}),
        ("objective", ks.LeastSquares("huber")),
        ("method", "trapezoid"),
        ("segments", 3),
        ("substeps", 2),
        ("sensors", {"two": 2 * x}),
    ]
    found = changed_by(ks.Shooting, base, changes)
    pushed = {**base, "system": PUSHED, "unknown_inputs": {PUSH: None}}
    more = [("unknown_inputs", {PUSH: (-1, 1)}), ("known", {LEVEL: 2.0})]
    found += changed_by(ks.Shooting, pushed, more)
    ball = ks.hybrid.Hybrid(SPRING, events=[ks.hybrid.Event("up", v, direction=1)])
    tolerances = [("rtol", 1e-7), ("atol", 1e-8)]
    found += changed_by(ks.Shooting, {**base, "system": ball}, tolerances)
    assert len(set(found)) == len(found)
    _all_are_there(ks.Shooting, [name for name, _ in (*changes, *more, *tolerances)])


def _all_are_there(kind, names):
    assert {*names, "threads"} == {*inspect.signature(kind).parameters}


def test_a_refined_problem_begins_elsewhere():
    problem = ks.Collocation(SPRING, record(4.0, 1), unknown={k: (0, 9)}, scheme="radau-5")
    solution = problem.solve({k: 3.0})
    assert digest(problem.refined(solution, 1e-9)) != digest(problem)


def test_what_a_function_uses_counts(tmp_path):
    """Functions of its module, at any depth, and values."""
    text = (
        "LEVEL = {level}\n\ndef inner(a):\n    return {inner}\n\n"
        "def outer(a):\n    return inner(a) + LEVEL\n"
    )

    def made(**parts):
        space = {"__name__": "somewhere"}
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.py"
        path.write_text(text.format(**parts))
        exec(compile(path.read_text(), str(path), "exec"), space)
        return digest(space["outer"])

    base = made(level=1, inner="a")
    assert made(level=1, inner="a") == base
    assert made(level=2, inner="a") != base
    assert made(level=1, inner="2 * a") != base


# -- many rows ------------------------------------------------------------------------------------


def test_many_rows(tmp_path):
    index = Index(tmp_path / "index.sqlite")
    entries = [Entry(("subject", "start"), (f"s{i % 7}", i), f"{i:032x}") for i in range(20_000)]
    known = index.register(entries)
    numbers = [task.number for task in known]
    some = [Outcome(n, f"{n - 1:032x}", Task.DONE, scalars={"b": 1.0}) for n in numbers[::2]]
    assert index.put(some) == []
    rows = index.table({}, timing=False)
    assert rows["status"].value_counts().to_dict() == {"pending": 10_000, "done": 10_000}
    every = [Outcome(n, "other", Task.DONE, scalars={"a": float(n)}) for n in numbers]
    assert len(index.put(every)) == 20_000
    assert index.table({}, timing=False)["a"].tolist() == [float(n) for n in numbers]
    assert index.table({3: "other", 5: "new"}, timing=False)["status"].tolist() == ["done", "stale"]


# -- the command line -----------------------------------------------------------------------------


def test_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "study.py"
    script.write_text(
        "import kinesym\n\n\ndef inverse(a):\n    return 1 / a\n\n\n"
        "study = kinesym.Study('done')\n\n\n"
        "@study.cross(a=[4, 2])\ndef half(a):\n    return inverse(a - 2)\n\n\n"
        "if __name__ == '__main__':\n    print(study.run(workers=1)['value'].tolist())\n"
    )
    assert main(["study", "run", "study.py", "--workers", "1"]) == 1
    assert "1 done, 1 failed" in capsys.readouterr().out
    assert ks.Study("done").table()["value"].iloc[0] == 0.5
    assert main(["study", "status", "done"]) == 0
    assert "a=2: ZeroDivisionError: division by zero" in capsys.readouterr().out
    assert main(["study", "run", "study.py"]) == 2
    assert "add --resume to go on" in capsys.readouterr().err
    before = ks.Study("done").table(timing=True)["worker"].tolist()
    assert main(["study", "run", "study.py", "--resume"]) == 1
    subprocess.run([sys.executable, "study.py"], check=True, capture_output=True)  # the same study
    assert ks.Study("done").table(timing=True)["worker"].tolist() == before
    shutil.rmtree("done")
    for arguments, words in [
        (["run", "nothing.py"], "there is no file nothing.py"),
        (["status", "done"], "there is no study in done"),
    ]:
        assert main(["study", *arguments]) == 2
        assert words in capsys.readouterr().err
    script.write_text("")
    assert main(["study", "run", "study.py"]) == 2
    assert "study.py makes no study" in capsys.readouterr().err


# -- what users saw who tried to break it ---------------------------------------------------------


class Settings:
    gain = 1.0


def test_data_are_as_they_were_when_a_task_was_added(tmp_path, pool):
    study, settings, array = ks.Study(tmp_path / "s"), Settings(), np.zeros(2)
    for gain in (1.0, 2.0, 3.0):
        settings.gain, array[:] = gain, gain
        study.add(
            gain, lambda settings, array: settings.gain + array[0], settings=settings, array=array
        )
    assert study.run(pool)["value"].tolist() == [2.0, 4.0, 6.0]


def test_tasks_do_not_share_what_they_change(tmp_path, pool):
    study, data = ks.Study(tmp_path / "s"), np.zeros(1)

    def raised(data):
        data += 1.0
        return data

    for number in range(4):
        study.add(number, raised, data=data)
    assert study.run(pool)["value"].tolist() == [1.0] * 4


def test_functions_are_as_they_are_when_they_run(tmp_path, pool):
    study = ks.Study(tmp_path / "s")

    @study.cross(number=[1, 2])
    def twice(number):
        return later(number)

    def later(number):
        return 2 * number

    assert study.run(pool)["value"].tolist() == [2.0, 4.0]


def test_a_change_that_is_taken_back(tmp_path):
    """What was done stays until there is something else."""

    def made(number):
        study = ks.Study(tmp_path / "s")
        study.add("one", fitted, trial=record(4.0, number))
        return study

    with ThreadPoolExecutor(1) as threads:
        first = made(1).run(threads)
    assert made(2).table()["status"].tolist() == ["stale"]
    assert made(1).table().equals(first)
    assert made(1).results("one").success


def test_errors_of_all_kinds(tmp_path, pool):
    class Speechless(Exception):
        def __str__(self):
            raise RuntimeError

    def fails(number):
        raise [SystemExit(3), Speechless(), MemoryError()][number]

    study = ks.Study(tmp_path / "s")
    study.cross(number=range(3))(fails)
    table = study.run(pool, retries=0)
    assert table["status"].tolist() == ["failed"] * 3
    assert table["message"].tolist()[:2] == ["SystemExit: 3", "Speechless"]


def test_numbers_with_the_name_of_a_label(tmp_path, pool):
    study = ks.Study(tmp_path / "s")
    study.cross(k=[1, 2])(lambda k: {"k": 3.0 * k, "status": 1.0})
    table = study.run(pool)
    assert table["k"].tolist() == [1, 2] and table["k_found"].tolist() == [3.0, 6.0]
    assert table["status"].tolist() == ["done", "done"] and len(set(table.columns)) == 4


def test_tasks_that_are_not_asked_for_any_more(tmp_path, pool):
    ks_study = ks.Study(tmp_path / "s")
    ks_study.cross(number=range(4))(square)
    ks_study.run(pool)
    fewer = ks.Study(tmp_path / "s")
    fewer.cross(number=range(2))(square)
    assert len(fewer.run(pool)) == 2 and len(ks.Study(tmp_path / "s").table()) == 4


def test_workers_end_with_their_study(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import kinesym, os, sys, time\nstudy = kinesym.Study(sys.argv[1])\n"
        "def told(n):\n    print(os.getpid(), flush=True)\n    time.sleep(60)\n"
        "study.add(1, told, n=1)\nstudy.run(workers=1)\n"
    )
    command = [sys.executable, str(script), str(tmp_path / "s")]
    driver = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    worker = int(driver.stdout.readline())
    driver.kill()
    driver.wait()
    for _ in range(100):
        if not Path(f"/proc/{worker}").exists():
            return
        time.sleep(0.1)
    raise AssertionError("the worker is still there")


def test_code_counts_and_comments_do_not(tmp_path):
    def compiled(text):
        space = {"np": np, "__name__": "typed"}
        exec(compile(text, "typed", "exec"), space)
        return digest(space["f"])

    one = compiled("def f(a):\n    return np.sin(a)")
    assert compiled("def f(a):\n    # the same\n    return np.sin(a)") == one
    assert compiled("def f(a):\n    return np.cos(a)") != one
    helper = "class C:\n    def m(self):\n        return {}\n\ndef f(a):\n    return C().m()"
    assert compiled(helper.format(1)) != compiled(helper.format(2))
    cached = (
        "import functools\n@functools.lru_cache\ndef g():\n    return {}\n\n"
        "def f(a):\n    return g()"
    )
    assert compiled(cached.format(1)) != compiled(cached.format(2))
    loop = "def g(a):\n    return f(a)\n\ndef f(a):\n    return g(a) if a else {}"
    assert compiled(loop.format(1)) != compiled(loop.format(2))
    itself = []
    itself.append(itself)
    assert digest(itself) == digest(itself)


def test_what_looks_alike_is_told_apart():
    plain = np.array([1.0, 2.0])
    masked = [np.ma.array(plain, mask=mask) for mask in ([0, 0], [0, 1])]
    fields = [np.zeros(1, dtype=[(name, float)]) for name in ("a", "b")]
    tables = [pd.DataFrame({"a": [1]}, index=pd.Index([0], name=name)) for name in ("x", "y")]
    values = [plain, *masked, *fields, *tables, [1], (1,), np.longdouble(1), np.float32(1)]
    assert len({digest(value) for value in values}) == len(values)
    assert digest(ks.compile(SPRING)) == digest(ks.compile(SPRING))
