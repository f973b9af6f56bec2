"""Regressors of trees: what base parameters do to the forces that a motion needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinesym.base.checks import check_kind
from kinesym.base.notebook import Displayed
from kinesym.codegen.evaluate import describe_model, model_jacobians
from kinesym.codegen.kernel import Program
from kinesym.internal.problems.pipeline import realise
from kinesym.runtime.arrays import Array, real_array
from kinesym.runtime.functions import Functions
from kinesym.runtime.library.manifest import Built
from kinesym.symbolic.model import Model
from kinesym.symbolic.multibody.base_parameters import BaseParameters
from kinesym.symbolic.names import by_name, check_known


class Regressor(Displayed):
    """Y of forces = Y(q, u, u') base parameters, compiled; see `regressor`.

    name : of the tree. coordinates, speeds, inputs, forces, parameters : names, in the order of
    arrays.
    """

    def __init__(self, base: BaseParameters) -> None:
        tree, built = base.tree, realise(derivatives(base.model))
        self._functions = f = Functions(built, partial(_same, built))
        self.name = tree.name
        self.coordinates = tuple(name for name in tree.coordinates if name in f.states)
        self.speeds = tuple(name for name in tree.speeds if name in f.states)
        self.inputs, self.forces = tuple(f.inputs), tuple(f.output_names)
        self.parameters = base.names

    def __repr__(self) -> str:
        sizes = f"{len(self.forces)} forces, {len(self.parameters)} parameters"
        return f"<regressor of {self.name}: {sizes}>"

    def __str__(self) -> str:
        groups = ("coordinates", "speeds", "inputs", "forces", "parameters")
        rows = [f"  {group:<11}  {', '.join(getattr(self, group)) or '-'}" for group in groups]
        return "\n".join([f"regressor of {self.name}", *rows])

    def __call__(
        self,
        q: ArrayLike,
        u: ArrayLike,
        du: ArrayLike,
        inputs: ArrayLike = (),
        values: Mapping[Any, float] | None = None,
    ) -> Array:
        """Y (forces, parameters, N) at N coordinates, speeds and rates of speeds, (count, N) each;
        (forces, parameters) at one, (count,) each.

        inputs : those of a base that moves, (count, N). values : lengths and gravity that are
        symbols, besides `values` of the tree. Raises `ValueError` for arrays of other shapes and
        for what has no value.
        """
        f = self._functions
        at = _rows(self.coordinates, q, "q") | _rows(self.speeds, u, "u")
        rates = _rows(self.speeds, du, "du")
        x = np.array([at[name] for name in f.states])
        xdot = np.array([rates.get(name, 0.0 * at[name]) for name in f.states])
        external = np.array([*_rows(self.inputs, inputs, "inputs").values()])
        known = dict.fromkeys(self.parameters, 0.0)  # any: forces are linear in them
        known |= {**f.values, **by_name({} if values is None else values, f.parameters, "values")}
        for name in f.parameters:
            check_known(name, known, f"the parameter {name} has no value; give values=")
        p = [known[name] for name in f.parameters]
        found = f.jacobian(xdot, x, external, p, of="outputs", wrt="parameters")
        return found[:, [f.parameters.index(name) for name in self.parameters]]


def regressor(base: BaseParameters) -> Regressor:
    """The regressor of base parameters, compiled: `Y = ks.regressor(tree.base_parameters())`.

    The forces that bodies need along a motion are Y(q, u, u') times the base parameters, for one
    state or arrays of them; loads and passive forces come besides. Y times `base.matrix` is the
    regressor of all inertial parameters. Raises `ValueError` for what are no base parameters.
    """
    check_kind(base, BaseParameters, "tree.base_parameters(): kinesym")
    return Regressor(base)


def derivatives(model: Model) -> Program:
    """The kernel of derivatives of outputs with respect to parameters alone."""
    made = model_jacobians(model, only=["outputs_parameters"])
    about = {**describe_model(model), "explicit": False, "reason": "it has no equations"}
    return replace(
        made, name=f"{model.name}_regressor", description={**made.description, "functions": about}
    )


def _same(built: Built) -> Built:
    return built


def _rows(names: tuple[str, ...], given: ArrayLike, what: str) -> dict[str, Array]:
    """Rows of an array by name."""
    rows = real_array(given, what)
    if rows.ndim not in (1, 2) or len(rows) != len(names):
        shape = ", ".join(map(str, rows.shape))
        raise ValueError(
            f"{what} has shape ({shape}); expected ({len(names)}, N): {', '.join(names)}"
        )
    return dict(zip(names, rows, strict=True))
