"""Verdicts of larger published models, and exact ranks against numerical ones at three points."""

from functools import partial

import known_answers
import numpy as np
import pytest
import sympy as sp
from known_functions import OF_PARAMETERS, OF_STATES, read
from known_verdicts import HIDDEN, WITH_FUNCTIONS
from numerical_rank import numerical_rank

import kinesym as ks
from kinesym.symbolic.identifiability.question import measured_expression
from kinesym.symbolic.prime_field import rank

#: Those that are asked in every run of the tests; the others are studies.
SHORT = {"treatment", "stirred tank", "Qi-Wang-Wyk-Chen", "transfection"}


def rows(table):
    return [
        pytest.param(row, id=name, marks=[pytest.mark.study] * (name not in SHORT))
        for name, row in table.items()
    ]


def exact_rank(verdict):
    """In how many directions of what is asked for measurements change."""
    silent, n = verdict.silent, len(verdict.parameters) + len(verdict.starts)
    return n - rank(silent.basis[:, :n], silent.p)


def check_ranks(model, measured, verdict, *asked):
    """At three points, by real numbers."""
    order = verdict.order + 2
    ranks = {numerical_rank(model, measured, order, *asked, seed=seed) for seed in range(3)}
    assert ranks == {exact_rank(verdict)} and verdict.chance < 1e-6


@pytest.mark.parametrize("row", rows(WITH_FUNCTIONS))
def test_published_functions_with_states(row):
    model, measured, functions = read(row)
    verdict = model.identifiability(measured)
    assert all(map(verdict.__getitem__, (*functions, *verdict.combinations)))
    symbols = [*model.parameters, *model.states]
    point = np.random.default_rng(3).uniform(0.5, 1.5, len(symbols))
    at = dict(zip(symbols, point, strict=True))
    slopes = [[float(f.diff(s).subs(at)) for s in symbols] for f in functions]
    assert np.linalg.matrix_rank(slopes, 1e-9) == exact_rank(verdict)
    check_ranks(model, measured, verdict)


@pytest.mark.parametrize("row", rows(HIDDEN))
def test_verdicts_of_published_models(row):
    model, measured, _ = read((*row[:3], ""))
    verdict = model.identifiability(measured)
    known = {**verdict.parameters, **verdict.starts}
    assert {name for name in known if not known[name]} == set(row[3].split())
    check_ranks(model, measured, verdict)


@pytest.mark.study
@pytest.mark.parametrize("row", [*OF_PARAMETERS.values(), *OF_STATES.values()])
def test_ranks_of_published_models(row):
    model, measured, _ = read(row)
    check_ranks(model, measured, model.identifiability(measured))


@pytest.mark.parametrize(
    "row",
    [row for row in (*known_answers.KNOWN, *known_answers.HIDDEN) if "?" in row[2]],
    ids=lambda row: row[0],
)
def test_ranks_where_inputs_are_unknown(row):
    model, measured, _ = read((*row[:2], row[2].replace("?", ""), ""))
    free = model.input_names
    check_ranks(model, measured, model.identifiability(measured, unknown_inputs=free), free)


POSTURE, TORQUES = ["theta_a", "theta_h"], ["T_a", "T_h"]
GAINS = [f"k_{i}{j}" for i in range(2) for j in range(4)]


def cart(links):
    return ks.models.n_link_pendulum_on_cart(links)


def places(links):
    return [f"q_{k}" for k in range(links + 1)]


@pytest.mark.parametrize(
    ("make", "measured", "asked"),
    [
        (ks.models.cip, ["u_COP"], {}),
        (partial(cart, 2), places(2), {"unknown_inputs": ["F"]}),
        *(
            pytest.param(*row, marks=pytest.mark.study)
            for row in (
                (partial(cart, 10), places(10), {}),
                (partial(cart, 10), places(10), {"unknown_inputs": ["F"]}),
                (partial(cart, 10), ["q_0"], {}),
                (ks.models.standing, POSTURE, {"unknown": GAINS}),
                (ks.models.standing, POSTURE, {}),
                (ks.models.standing, [*POSTURE, *TORQUES], {}),
            )
        ),
    ],
)
def test_ranks_of_mechanisms(make, measured, asked):
    model = make()
    verdict = model.identifiability(measured, **asked)
    shown = [measured_expression(model, name, "measured") for name in measured]
    known = {*model.parameter_names} - {*verdict.parameters}
    check_ranks(model, shown, verdict, asked.get("unknown_inputs", ()), known)


@pytest.mark.study
def test_rank_of_a_closed_chain():
    """Constraints of index 3 are measured, as it were, at a start that obeys them."""
    bars = ks.models.four_bar()
    verdict = bars.identifiability(["phi_1"])
    model = bars.reduced_index(index=0)
    conditions = [model.outputs[name] for name in model.invariants]
    known = {"baumgarte_rate", *model.integrals}
    x = dict(zip(model.state_names, model.states, strict=True))
    free = {name: x.pop(name) for name in ("phi_1", "omega_1", *model.integrals)}
    slopes = sp.Matrix(conditions).jacobian([*x.values()])
    guess = {"phi_2": 0.4, "phi_3": 1.7, "x_2": 0.8, "y_2": 0.7, "x_3": 1.0, "y_3": 0.4}
    for seed in range(3):
        draw = np.random.default_rng(seed)
        lengths = dict(zip(sp.symbols("l_0:4"), (1.2, 0.5, 1.1, 0.9), strict=True))
        point = {one: sp.Float(v + draw.uniform(-0.05, 0.05), 170) for one, v in lengths.items()}
        point |= {one: sp.Float(draw.uniform(0.5, 1.5), 170) for one in free.values()}
        at = {one: sp.Float(guess.get(name, 0.3), 170) for name, one in x.items()}
        for _ in range(12):
            step = slopes.subs(point).subs(at).LUsolve(sp.Matrix(conditions).subs(point).subs(at))
            at = {one: v - change for (one, v), change in zip(at.items(), step, strict=True)}
        measured = [free["phi_1"], *conditions]
        found = numerical_rank(model, measured, verdict.order + 2, (), known, seed, point | at)
        assert found == exact_rank(verdict)
