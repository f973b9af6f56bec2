"""Derivatives of trajectories at nodes with respect to all that a nonlinear program solves for."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import coo_array

from kinesym.runtime.arrays import Array
from kinesym.runtime.library.manifest import Built
from kinesym.runtime.nlp.courses import weights_at_nodes
from kinesym.runtime.nlp.nlp import NLP


def course_slopes(nlp: NLP, trial: int) -> dict[str, Any]:
    """Derivatives of states and unknown inputs at the nodes of a trial by z, by name, (N,
    n_variables) sparse."""
    layout, index = nlp.layout, np.arange(nlp.n_variables)
    found: dict[str, Any] = {}
    for name, place, row in layout.named_rows(index, trial):
        if place is None:
            found[name] = _matrix(row, np.ones(len(row)), nlp.n_variables)
    for name, stages in layout.staged(index, trial).items():
        own = [_matrix(row, np.ones(len(row)), nlp.n_variables) for row in stages]
        found[name] = _at_nodes(nlp, trial, own)
    return {name: found[name] for name in (*layout.states, *layout.inputs)}


def slopes_of_outputs(nlp: NLP, built: Built, z: Array, trial: int) -> dict[str, Any]:
    """Derivatives of the outputs at the nodes of a trial by z, by name; built : the library of
    `codegen.transcribe.output_slopes`."""
    found: dict[str, Any] = {}
    for family in ("node", "interval"):
        outputs, index, values = nlp.output_slopes(built, z, trial, family)
        n, inner = nlp.layout.points(trial, family), family == "interval"
        places = len(nlp.about.stages) if inner else 1
        for number, name in enumerate(nlp.about.families[family].outputs):
            own = [outputs == places * number + k for k in range(places)]
            rows = [_matrix(index[one], values[one], nlp.n_variables, n) for one in own]
            found[name] = _at_nodes(nlp, trial, rows) if inner else rows[0]
    return found


def _at_nodes(nlp: NLP, trial: int, stages: list[Any]) -> Any:
    """Rows at each stage of the intervals, (N - 1, n_variables), at the nodes."""
    about = nlp.about
    weights = weights_at_nodes(about.stages, about.to_ends, nlp.layout.grids[trial])
    return sum(
        (w @ s for w, s in zip(weights[1:], stages[1:], strict=True)), weights[0] @ stages[0]
    )


def _matrix(columns: Any, values: Array, width: int, count: int = 0) -> Any:
    """Rows (n, width) with values at columns, (e, n) or (n,)."""
    n = count or columns.shape[-1]
    rows = np.broadcast_to(np.arange(n), columns.shape)
    entries = (values.ravel(), (rows.ravel(), columns.ravel()))
    return coo_array(entries, shape=(n, width)).tocsr()
