"""The C of a function to be read, and counts of operations."""

import numpy as np
import pytest

import kinesym as ks
from kinesym.models import pendulum, standing

x, v, F = ks.dynamicsymbols("x v F")


def test_c_of_a_model():
    """The function that is exported, with the operations behind each result."""
    text = ks.show(standing())
    assert repr(text) == text and text._repr_html_().startswith("<pre>/* standing_rhs: x&#x27; =")
    assert "int standing_rhs(const double *restrict x" in text
    lines = text.splitlines()
    total = int(lines[1].split()[1])
    rows = [line.split(None, 2)[1:] for line in lines[3 : lines.index(" */")]]
    assert [label for _, label in rows] == [
        "of parameters alone",
        *(f"{name}'" for name in standing().state_names),
    ]
    assert total == sum(int(count) for count, _ in rows) > 50
    assert "cos(" in ks.show(pendulum(), "residual_jacobian_states")


def test_names_and_kinds():
    with pytest.raises(ValueError, match="pendulum has no function 'rsh'; did you mean rhs"):
        ks.show(pendulum(), "rsh")
    with pytest.raises(ValueError, match=r"the program of a problem, problem.program, got 3"):
        ks.show(3)


def test_a_program_is_counted():
    cart = ks.Model("cart", [x, v], [F], [], [x.diff(ks.t) - v, v.diff(ks.t) - F])
    problem = ks.Collocation(
        cart,
        ks.Experiment(np.linspace(0, 1, 5)),
        objective=ks.Integral(F**2),
        boundary=[ks.at_start(x), ks.at_start(v), ks.at_end(x) - 1],
        unknown_inputs={F: None},
    )
    text, code = str(problem.program), ks.show(problem.program, "interval_constraints")
    head, *rows = (line.split() for line in text.splitlines()[1:])
    assert head[:3] == ["kernel", "outputs", "operations"]
    for row in rows:
        assert int(row[2]) == sum(map(int, row[3:])) == problem.program.kernel(row[0]).operations
    assert "equation 1 (v'), stage 2" in code and repr(problem.program).startswith("<program cart")
    assert "<th" in problem.program._repr_html_()


def test_objects_need_no_folder(tmp_path):
    with pytest.raises(ValueError, match="target casadi writes no files"):
        ks.export(pendulum(), tmp_path / "there", target="casadi")
    assert [*ks.export(pendulum(), target="casadi")] == ["residual", "rhs"]
    written = ks.export(pendulum(), tmp_path / "here", target="python")
    assert written.files and (tmp_path / "here" / "pendulum.py").exists()
