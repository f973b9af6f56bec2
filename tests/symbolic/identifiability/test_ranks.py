"""Verdicts of larger published models, and exact ranks against numerical ones at three points."""

import numpy as np
import pytest
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


def check_ranks(model, measured, verdict, **asked):
    """At three points, by real numbers."""
    order = verdict.order + 2
    ranks = {numerical_rank(model, measured, order, seed=seed, **asked) for seed in range(3)}
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
    ("links", "asked"),
    [
        (2, {"unknown_inputs": ["F"]}),
        pytest.param(10, {}, marks=pytest.mark.study),
        pytest.param(10, {"unknown_inputs": ["F"]}, marks=pytest.mark.study),
    ],
)
def test_ranks_of_links(links, asked):
    model = ks.models.n_link_pendulum_on_cart(links)
    names = [f"q_{k}" for k in range(links + 1)]
    measured = [measured_expression(model, name, "measured") for name in names]
    check_ranks(model, measured, model.identifiability(names, **asked), **asked)


def test_rank_of_quiet_standing():
    """Nothing but the gains, with the body known; of noise that drives it, too."""
    model = ks.models.cip()
    verdict = model.identifiability(["u_COP"])
    check_ranks(model, [measured_expression(model, "u_COP", "measured")], verdict)
