"""The forecast of memory: refused in a sentence before anything is taken."""

import numpy as np
import pytest

import kinesym as ks
from kinesym.runtime.nlp import memory
from kinesym.runtime.nlp.memory import Forecast, check_sizes, forecast

theta, omega = ks.dynamicsymbols("theta omega")


def problem():
    time = np.linspace(0.0, 5.0, 401)
    trial = ks.Experiment(time, measurements={theta: 0.1 * np.cos(3.0 * time)})
    return ks.Collocation(ks.models.pendulum(), trial, unknown={"p": (1.0, 20.0)})


def test_sizes_are_those_of_the_problem():
    task = problem()
    sizes = forecast(task.nlp)
    assert (sizes.variables, sizes.constraints) == (task.n_variables, task.n_constraints)
    assert sizes.jacobian == task.constraint_jacobian(task.pack()).nnz
    assert sizes.evaluation < sizes.solve(own_solver=True) < sizes.solve(own_solver=False)


def test_linear_in_nodes():
    """Twice the nodes, twice the memory: nothing is quadratic."""
    time = np.linspace(0.0, 5.0, 801)
    trial = ks.Experiment(time, measurements={theta: 0.1 * np.cos(3.0 * time)})
    twice = ks.Collocation(ks.models.pendulum(), trial, unknown={"p": (1.0, 20.0)})
    ratio = forecast(twice.nlp).solve(True) / forecast(problem().nlp).solve(True)
    assert ratio == pytest.approx(2.0, rel=0.01)


def test_solve_is_refused(monkeypatch):
    task = problem()
    monkeypatch.setattr(memory, "available", lambda: 1e5)
    with pytest.raises(MemoryError, match=r"1,603 variables with .* about 0.0 GB, 0.0 GB are"):
        task.solve()


def test_problem_is_refused(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 1e4)
    with pytest.raises(MemoryError, match=r"entries of the Jacobian and .*; use fewer"):
        problem()


def test_unknown_amount_is_no_obstacle(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: None)
    assert problem().solve().success


def test_more_than_ipopt_counts():
    with pytest.raises(ValueError, match="3,000,000,000 entries in the Jacobian, IPOPT c"):
        check_sizes(Forecast(10, 10, 3_000_000_000, 10, 0.0))


def test_what_the_system_says(tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    2048 kB\n")
    assert memory._of_the_machine(tmp_path / "meminfo") == 2048.0 * 1024.0
    assert memory._of_the_group(tmp_path) is None
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("400\n")
    assert memory._of_the_group(tmp_path) == 600.0
    (tmp_path / "memory.max").write_text("max\n")
    assert memory._of_the_group(tmp_path) is None
