"""Algebraic states at nodes that are no stages of the scheme."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from kinesym.runtime.arrays import Array
from kinesym.runtime.nlp.nlp import NLP
from kinesym.runtime.nlp.point import PointFunctions
from kinesym.runtime.signals.experiment import Experiment

#: Step at which Newton's method ends, as a share of the largest values [-].
_SOLVED = 1e-12
#: Steps of Newton's method, at most.
_STEPS = 12


def algebraic_at_nodes(
    nlp: NLP,
    f: PointFunctions,
    trial: Experiment,
    number: int,
    z: Array,
    found: Mapping[str, Array],
) -> dict[str, Array]:
    """States and outputs at the nodes of a trial, (N,) each, that agree with the equations of a
    model of index 1 there.

    found : all states, unknown inputs and outputs at the nodes, by name. Where the scheme has no
    stage - at the first node, with Gauss methods at all - algebraic states and outputs with these
    or x' are continued from the stages by polynomials, whose order is only the number of stages;
    where inputs jump they are those before the jump. There the equations are solved for x' and the
    algebraic states, from these values on. Where Newton's method does not converge they stay.
    """
    f = f.of_trial(number)
    about, names = f.about, (*f.about.states, *f.about.outputs)
    given = _given(nlp, f, trial, number, z, found)
    size = np.abs(given["x"]).max(axis=1)
    free = bool(nlp.layout.held.intersection(nlp.layout.inputs))
    here = trial.jumps(trial.signals) | (free or nlp.about.stages[-1] < 1.0)
    here[0] = True
    given = {k: a if k == "p" else np.ascontiguousarray(a[..., here]) for k, a in given.items()}
    with np.errstate(all="ignore"):  # where there is no root, steps may grow without bound
        solved = _newton(f, given, size)
    values = [*given["x"], *(f.outputs(given) if about.outputs else ())]
    made = {name: found[name].copy() for name in names}
    for name, row in zip(names, values, strict=True):
        made[name][here] = np.where(solved, row, made[name][here])
    return made


def _given(
    nlp: NLP,
    f: PointFunctions,
    trial: Experiment,
    number: int,
    z: Array,
    found: Mapping[str, Array],
) -> dict[str, Array]:
    """Arguments of the equations at all nodes; an unknown input that is held keeps its value to the
    end."""
    about, time = f.about, nlp.layout.time(z, number)
    rows = {**trial.inputs, **found}
    for name in nlp.layout.held.intersection(nlp.layout.inputs):
        rows[name] = np.append(rows[name][:-1], rows[name][-2])
    x, u, s = (
        np.array([rows[name] for name in names]).reshape(len(names), len(time))
        for names in (about.states, about.inputs, about.signals)
    )
    rates = np.gradient(x, time, axis=1)
    p = nlp.layout.parameters_of(z, number)
    return {"xdot": rates, "x": x, "u": u, "s": s, "p": p, "t": time}


def _newton(f: PointFunctions, given: dict[str, Array], size: Array) -> NDArray[np.bool_]:
    """Solves the equations at P points for x' of the states with a rate and for the others, in
    place; returns where (P,) that has converged. size : of the states, (n,)."""
    rated = [k for k, x in enumerate(f.about.states) if x in f.about.rated]
    other = [k for k in range(len(size)) if k not in rated]
    columns = [*(f.xdot.start + k for k in rated), *(f.x.start + k for k in other)]
    done = np.zeros(given["t"].size, dtype=bool)
    for _ in range(_STEPS):
        at = f(given)
        try:
            step = at.jacobian.part(columns).solve(at.residual)[0].T
        except np.linalg.LinAlgError:
            return np.zeros_like(done)
        given["xdot"][rated] -= step[: len(rated)]
        given["x"][other] -= step[len(rated) :]
        small = _SOLVED * size[other, None] if other else _SOLVED * np.abs(given["xdot"]).max()
        done = np.all(np.abs(step[len(rated) :] if other else step) <= small, axis=0)
        if done.all():
            break
    return done
