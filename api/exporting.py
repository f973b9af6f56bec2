"""`export`: the code of a model or problem, for programs without kinesym; `show`: as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kinesym.base.checks import check_choice, check_kind
from kinesym.internal.exporting.c99 import hybrid_files, model_files, shown_function, tree_files
from kinesym.internal.exporting.fmu import fmu_files
from kinesym.internal.exporting.folder import written
from kinesym.symbolic.hybrid import Hybrid
from kinesym.symbolic.model import Model
from kinesym.symbolic.multibody.tree import Tree
from kinesym.symbolic.names import check_known


@dataclass(frozen=True)
class Target:
    """Language or format. kinds : what it takes, with the function that makes of it the content of
    files by name, or, if `folder` is False, an object."""

    kinds: Mapping[type, Callable[..., Any]]
    folder: bool = True


#: Targets by name.
TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        "c99": Target({Model: model_files, Tree: tree_files, Hybrid: hybrid_files}),
        "fmu": Target({Model: fmu_files, Tree: fmu_files, Hybrid: fmu_files}),
    }
)


def export(what: Any, folder: str | Path | None = None, target: str = "c99", **options: Any) -> Any:
    """Write the code of a model for programs without kinesym.

    Parameters
    ----------
    what : a `Model`, a `Tree`, which is its model without torques, or a `Hybrid` without contacts,
        with guards and resets of its events.
    folder : a new or empty folder, or one that `export` wrote before, whose files have not been
        edited since. It appears as a whole or not at all.
    target : "c99": functions of one point without allocation, in a header that explains them, with
        Jacobians, products with Hessians, steps of time and their derivatives, a program that calls
        them, gateways to MATLAB and Simulink. `precision="single"` has `float` in place of
        `double`. "fmu": one file for simulators that read FMI, for model exchange and
        co-simulation, with derivatives and events. `version="3.0"` or "2.0"; `step=1e-3`, the
        longest step of co-simulation [s], and its `method`, "rk4" or "radau-5"; `initial`,
        `parameters` and `inputs`: values at the start, as those of `ks.simulate`.

    Returns what was written, whose `str` says what has changed. The files are the user's: no
    licence of kinesym binds them. Raises `ValueError` for what the target cannot say,
    `FileExistsError` for a folder with files of others or with files that were edited since.
    """
    check_choice(target, TARGETS, "target")
    chosen = TARGETS[target]
    make = next((f for kind, f in chosen.kinds.items() if isinstance(what, kind)), None)
    if make is None:
        kinds = " or a ".join(kind.__name__ for kind in chosen.kinds)
        raise ValueError(f"the target {target} takes a {kinds}, got {type(what).__name__}")
    for name in options:
        check_known(name, [*signature(make).parameters][1:], f"{target} has no option {name}")
    if not chosen.folder:
        return make(what, **options)
    if folder is None:
        raise ValueError(f"the target {target} writes files: name a folder")
    name = what.model.name if isinstance(what, Hybrid) else what.name
    return written(folder, target, name, make(what, **options))


def show(model: Model | Tree, function: str = "rhs") -> str:
    """The C of a function of a model, as `export` writes it, after the numbers of operations of all
    that there are; to be printed.

    function : "rhs", "residual", "outputs", "rhs_jacobian_states", ...; raises `ValueError` for
    others.
    """
    model = model.model() if isinstance(model, Tree) else model
    check_kind(model, Model, "kinesym")
    return shown_function(model, function)
