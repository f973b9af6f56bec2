"""The parts of a shooting problem: checks of what the user gives, program, numbers."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kinesym.codegen.kernel import Program
from kinesym.codegen.stepping import shooting_kernels
from kinesym.codegen.transcribe import transcribe
from kinesym.runtime import checks
from kinesym.runtime.arrays import real_array
from kinesym.runtime.collocation import bound_pair, make_layout, trial_data
from kinesym.runtime.experiment import MOST_NODES, Experiment
from kinesym.runtime.manifest import Built, CollocationManifest
from kinesym.runtime.nlp import NLP
from kinesym.symbolic.model import KINKS, Model
from kinesym.symbolic.names import by_name, name_of
from kinesym.symbolic.problem import Problem
from kinesym.symbolic.schemes import EXPLICIT, SCHEMES, ExplicitScheme

METHODS = (*(name for name, scheme in EXPLICIT.items() if not scheme.error), *SCHEMES)


def shooting_program(problem: Problem) -> Program:
    """Objective and defects of the problem, and what steps its model."""
    scheme = problem.scheme
    made, about = shooting_kernels(
        problem.model,
        None if isinstance(scheme, ExplicitScheme) else scheme,
        problem.unknown_inputs,
        problem.unknown_parameters,
    )
    program = without_hessians(transcribe(problem))
    return Program(
        program.name + "_shooting",
        (*program.kernels, *made),
        {**program.description, "stepping": about},
    )


def without_hessians(program: Program) -> Program:
    """The program without second derivatives, which shooting does not use."""
    kernels = tuple(k for k in program.kernels if not k.name.endswith("_hessian"))
    return Program(program.name, kernels, program.description)


def make_nlp(
    built: Built,
    trials: Sequence[Experiment],
    known: Mapping[str, float],
    threads: int,
) -> NLP:
    """The objective (and constraints) of the trials as functions of all trajectories."""
    about = built.manifest.of(CollocationManifest)
    data = [trial_data(about, trial, known) for trial in trials]
    return NLP(built, make_layout(about, trials), data, threads)


def warn_of_kinks(model: Model) -> None:
    """Warn if an equation has a kink, naming it."""
    expressions = {f"equation {i}": e for i, e in enumerate(model.equations)}
    expressions |= {f"intermediate {name_of(s)}": e for s, e in model.intermediates}
    for where, expression in expressions.items():
        kinks = sorted(expression.atoms(*KINKS), key=str)
        if kinks:
            warnings.warn(
                f"{where} of {model.name} contains {kinks[0]}: where a trajectory passes its kink, "
                "gradients are one-sided; smooth it if the optimiser stalls",
                stacklevel=3,
            )
            return


def segment_starts(nodes: int, count: int) -> tuple[int, ...]:
    """The nodes at which segments begin."""
    if count >= nodes:
        raise ValueError(f"{count} segments need more than {nodes} nodes")
    return tuple(int(k) for k in np.linspace(0, nodes - 1, count + 1)[:-1])


def check_steps(
    method: str, substeps: int, inputs: Mapping[str, Any], trials: Sequence[Experiment]
) -> None:
    """Raise `ValueError` for a method, steps or trials that shooting cannot use."""
    if method not in METHODS:
        raise ValueError(f"unknown method {method!r}; choose one of {', '.join(METHODS)}")
    longest = max((trial.n_nodes for trial in trials), default=1)
    checks.count(substeps, "substeps", most=max(1, MOST_NODES // longest))
    if substeps > 1 and inputs:
        raise ValueError("unknown inputs need substeps=1; refine the grid of the experiment")
    if any(trial.free_duration for trial in trials):
        raise ValueError("shooting needs a known duration; use ks.Collocation for a free one")


def initial_values(
    model: Model, initial: Any, trials: int
) -> tuple[list[dict[str, float]], dict[str, list[tuple[float, float]]]]:
    """Fixed initial values of each trial (NaN where unknown), and by state the bounds of unknown
    ones in each trial."""
    rows = _rows_of_trials(model, initial, trials)
    values: list[dict[str, float]] = [{} for _ in range(trials)]
    bounds: dict[str, list[tuple[float, float]]] = {}
    for name in model.state_names:
        given = [row[name] for row in rows]
        unknown = [value is None or isinstance(value, tuple) for value in given]
        if any(unknown) and not all(unknown):
            k = unknown.index(False)
            raise ValueError(
                f"initial {name} is known in trial {k} and unknown in trial "
                f"{unknown.index(True)}; give None or (low, high) in all"
            )
        if all(unknown):
            bounds[name] = [bound_pair(f"initial {name}", value) for value in given]
        for k, value in enumerate(given):
            number = (
                np.asarray(np.nan)
                if unknown[k]
                else real_array(value, f"the initial value of {name}")
            )
            if number.ndim or not (unknown[k] or np.isfinite(number)):
                raise ValueError(
                    f"the initial value of {name} must be one finite number, got {value!r}"
                )
            values[k][name] = float(number)
    return values, bounds


def _rows_of_trials(model: Model, initial: Any, trials: int) -> list[dict[str, Any]]:
    """What is given for every state, by trial; raises `ValueError` for what is missing."""
    each = isinstance(initial, (list, tuple)) and all(isinstance(r, Mapping) for r in initial)
    if each and len(initial) != trials:
        raise ValueError(
            f"initial has {len(initial)} mappings, expected one or one per trial ({trials})"
        )
    given = initial if each else [{} if initial is None else initial] * trials
    rows = []
    for k, mapping in enumerate(given):
        row = by_name(mapping, model.state_names, f"initial of trial {k}" if each else "initial")
        for name in model.state_names:
            if name not in row:
                raise ValueError(
                    f"the initial value of state {name} is missing; add it to initial={{...}}, "
                    "None or (low, high) if it is unknown"
                )
            value = row[name]
            if isinstance(value, (list, np.ndarray)) and np.ndim(np.asarray(value, object)):
                if len(value) != trials or each:
                    raise ValueError(
                        f"initial {name} has {len(value)} values, expected one"
                        + ("" if each else f", or one per trial ({trials})")
                        + "; bounds are a tuple (low, high)"
                    )
                row[name] = value[k]
        rows.append(row)
    return rows
