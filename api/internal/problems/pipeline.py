"""Pipeline from a symbolic problem to its compiled library and nonlinear program.

Model, Hybrid, Experiment    what is given; `formulation.py` rewrites it
-> Problem                   `symbolic_problem`: equations, objective and conditions, checked
-> Program                   `codegen`: kernels as graphs, and their description
-> Source                    `emit`: C, when a compiler is to read it, and a manifest in JSON
-> Built                     `build`, `load_manifest`: the opened library, the manifest as data
-> NLP                       `make_nlp`: with the data of the trials

Simulation, collocation and shooting share these stages.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kinesym.codegen.bytecode import encode
from kinesym.codegen.kernel import Program
from kinesym.codegen.own import only_compiled
from kinesym.codegen.transcribe import output_slopes
from kinesym.internal.problems.c_files import c_of
from kinesym.runtime.arrays import Array
from kinesym.runtime.library.build import CompilerError, build
from kinesym.runtime.library.manifest import Built, CollocationManifest, load_manifest
from kinesym.runtime.library.tiers import INTERPRETED, opened, tier
from kinesym.runtime.native import Interpreted, Library
from kinesym.runtime.nlp.collocation import make_layout, trial_data
from kinesym.runtime.nlp.delay_rows import Lag, Lags
from kinesym.runtime.nlp.layout import Layout
from kinesym.runtime.nlp.nlp import NLP, TrialData
from kinesym.runtime.nlp.owned import Owned
from kinesym.runtime.progress import waiting_line
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.statistics.densities import Density
from kinesym.symbolic.problem import Problem


def realise(program: Program, lanes: int | None = None, narrow: bool = False) -> Built:
    """Print a program as C, compile and open it, or interpret its kernels until it is compiled.

    An unchanged program is taken from the cache. Arguments and errors as of `build`. With `lanes`
    or `narrow` it is compiled before the first call.
    """
    start = time.perf_counter()
    source = {"files": c_of(program), "lanes": lanes, "narrow": narrow}
    if (own := only_compiled(program)) and tier() != INTERPRETED:
        library, compiling = _compiled(own, source)
    else:
        library, compiling = opened(
            lambda: source,
            lambda: _interpreted(program, lanes),
            at_once=narrow or lanes is not None,
        )
    derive = time.perf_counter() - start - compiling
    return Built(library, load_manifest(program.manifest), derive, compiling, program.tables)


def _compiled(own: Sequence[str], source: Mapping[str, Any]) -> tuple[Library, float]:
    """Compile a program whose functions are C text alone; returns its library and the seconds it
    took."""
    try:
        return build(**source)
    except CompilerError as error:
        raise CompilerError(
            f"the C text of {', '.join(own)} cannot be compiled: {error}"
        ) from error


def _interpreted(program: Program, lanes: int | None) -> Interpreted:
    with waiting_line("preparing what is evaluated"):
        return Interpreted(program.name, encode(program), lanes)


def make_nlp(
    built: Built,
    trials: Sequence[Experiment],
    known: Sequence[Mapping[str, float]],
    threads: int | None,
    priors: Mapping[str, Density] | None = None,
    lags: Sequence[Lag] = (),
    curved: bool = True,
    sides: Array | None = None,
) -> NLP:
    """Nonlinear program (objective, constraints, derivatives) of trials on their grids.

    known : values of the known parameters, by trial. Each trial is linked to the next, the last to
    the first. priors, sides : of parameters, see `prior_data`. lags : delays of inputs. curved :
    whether the Hessian includes the curvature of delayed signals in constraints.
    """
    about = built.manifest.of(CollocationManifest)
    layout = make_layout(about, trials, [lag.input for lag in lags])
    lobatto = about.stages[0] == 0.0
    rows = Lags(layout, lags, trials, known, lobatto, curved) if lags else None
    return NLP(built, layout, _data(built, layout, trials, known, priors, sides), threads, rows)


def with_data(
    nlp: NLP,
    trials: Sequence[Experiment],
    known: Sequence[Mapping[str, float]],
    priors: Mapping[str, Density],
    sides: Array | None = None,
) -> NLP:
    """Replace the numbers of a nonlinear program, on the same grids; arguments as of `make_nlp`."""
    return nlp.with_data(_data(nlp.built, nlp.layout, trials, known, priors, sides))


def _data(
    built: Built,
    layout: Layout,
    trials: Sequence[Experiment],
    known: Sequence[Mapping[str, float]],
    priors: Mapping[str, Density] | None,
    sides: Array | None,
) -> list[TrialData]:
    """Numbers that the kernels read, by trial: each linked to the next, the last to the first."""
    about = built.manifest.of(CollocationManifest)
    after, given = [*trials[1:], trials[0]], priors or {}
    return [
        {
            **trial_data(about, trial, values, following, built.tables),
            **prior_data(about, layout.owned, k, given, sides),
        }
        for k, (trial, values, following) in enumerate(zip(trials, known, after, strict=True))
    ]


def prior_data(
    about: CollocationManifest,
    owned: Owned,
    trial: int,
    priors: Mapping[str, Density],
    sides: Array | None = None,
) -> TrialData:
    """Data of priors, see `codegen.priors`; the first trial of an owner has them, others have the
    weight 0. sides : of kinks, of all parameters (r,)."""
    found = dict(zip(owned.parameters, owned.places(trial), strict=True))
    places = np.array([found[p] for p in about.priors], dtype=np.intp)
    here = np.array(owned.first_trials)[places] == trial
    every = [priors[p] for p in about.priors]
    rows = {
        "mean": [p.location for p in every],
        "precision": np.where(here, [p.scale**-2.0 for p in every], 0.0),
        "power": [p.power for p in every],
        "rate": [p.rate for p in every],
        "there": here,
        "side": np.zeros(len(every)) if sides is None else sides[places],
    }
    return {("ends", kind): (np.array(row, dtype=float), 0, 1) for kind, row in rows.items()}


def slopes_library(problem: Problem) -> Built | None:
    """Library of the derivatives of outputs; None if they depend on nothing unknown."""
    if not problem.model.outputs:
        return None
    program = output_slopes(problem)
    return realise(program) if program.kernels else None
