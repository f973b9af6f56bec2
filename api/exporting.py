"""`export`: the code of a model or problem, for programs without kinesym."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kinesym.base.checks import check_choice
from kinesym.collocation import Collocation
from kinesym.internal.exporting.c99 import hybrid_files, model_files
from kinesym.internal.exporting.c99_problem import problem_files
from kinesym.internal.exporting.c99_shooting import shooting_files
from kinesym.internal.exporting.fmu import fmu_files
from kinesym.internal.exporting.folder import written
from kinesym.internal.exporting.jax_function import density_function, model_function
from kinesym.internal.exporting.python_file import python_files
from kinesym.internal.exporting.simd import lane_files
from kinesym.runtime.results.fit import Fit
from kinesym.runtime.results.log_density import LogDensity
from kinesym.runtime.results.solution import Solution
from kinesym.shooting import Shooting
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


def _collocation_files(what: Collocation, guess: Any = None) -> Mapping[str, bytes]:
    return problem_files(what.problem, guess)


def _shooting_files(what: Shooting, guess: Any = None) -> Mapping[str, bytes]:
    return shooting_files(what.problem, what.pack(guess))


def _in_casadi(model: Model) -> dict[str, Any]:
    from kinesym.internal.exporting.casadi_function import model_in_casadi  # brings CasADi

    return dict(model_in_casadi(model))


def _collocation_in_casadi(what: Collocation, guess: Any = None) -> dict[str, Any]:
    from kinesym.internal.exporting.casadi_function import problem_in_casadi

    return problem_in_casadi(what.problem, guess)


#: Targets by name.
TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        "c99": Target(
            {
                Model: model_files,
                Hybrid: hybrid_files,
                Collocation: _collocation_files,
                Shooting: _shooting_files,
            }
        ),
        "simd": Target({Model: lane_files}),
        "casadi": Target({Model: _in_casadi, Collocation: _collocation_in_casadi}, folder=False),
        "python": Target({Model: python_files}),
        "jax": Target(
            {Model: model_function, **dict.fromkeys((Fit, Solution, LogDensity), density_function)},
            folder=False,
        ),
        "fmu": Target({Model: fmu_files, Hybrid: fmu_files}),
    }
)


def export(what: Any, folder: str | Path | None = None, target: str = "c99", **options: Any) -> Any:
    """Write the code of a model for programs without kinesym.

    Parameters
    ----------
    what : a `Model`, or what else the target takes. A `Tree` is its model without torques.
    folder : a new or empty folder, or one that `export` wrote before, whose files have not been
        edited since. It appears as a whole or not at all.
    target : what is written.

        - "c99": functions of one point without allocation, in a header that explains them, with
          Jacobians, products with Hessians, steps of time and their derivatives, a program that
          calls them, gateways to MATLAB and Simulink. `precision="single"` has `float` in place of
          `double`. Of a `Hybrid` without contacts also guards and resets of its events. Of a
          `Collocation` cost, constraints and exact derivatives over all nodes, with data, a start
          from `guess=`, and a program that solves with IPOPT. Of a `Shooting` cost, gradient and
          residuals as functions of the unknowns, with data and a start from `guess=`.
        - "simd": functions of a `Model` for many points per call, `lanes=8` of them side by side.
        - "python": one file of NumPy, for papers and teaching, with functions and Jacobians.
        - "fmu": one file for simulators that read FMI, for model exchange and co-simulation, with
          derivatives and events. `version="3.0"` or "2.0"; `step=1e-3`, the longest step of
          co-simulation [s], and its `method`, "rk4" or "radau-5"; `initial`, `parameters` and
          `inputs`: values at the start, as those of `ks.simulate`.
        - "casadi": no files, but what CasADi takes: of a model or tree `casadi.Function`s of SX by
          name, "residual" (xdot, x, u, p, t), "outputs" and "rhs" (x, u, p, t); of a `Collocation`
          "nlp", for `casadi.nlpsol`, and "arguments" of that solver, start from `guess=` and
          bounds.
        - "jax": no files, but a function of JAX around the compiled code: of a model f(x, u, p, t),
          its right-hand side, or with `time=` the simulation f(p, x0, u), states (n, N), and
          `substeps=`; of a fit, or its `log_density()`, f(theta). `jax.jit`, `jax.grad` and
          `jax.vmap` work.

    Returns what was written, whose `str` says what has changed. The files are the user's: no
    licence of kinesym binds them. Raises `ValueError` for what the target cannot say,
    `FileExistsError` for a folder with files of others or with files that were edited since.
    """
    check_choice(target, TARGETS, "target")
    chosen = TARGETS[target]
    what = what.model() if isinstance(what, Tree) else what
    make = next((f for kind, f in chosen.kinds.items() if isinstance(what, kind)), None)
    if make is None:
        given = (
            kind for each in chosen.kinds for kind in ((Model, Tree) if each is Model else (each,))
        )
        kinds = " or a ".join(kind.__name__ for kind in given)
        raise ValueError(f"the target {target} takes a {kinds}, got {type(what).__name__}")
    for name in options:
        check_known(
            name,
            [*signature(make).parameters][1:],
            f"{target}, of a {type(what).__name__}, has no option {name}",
        )
    if not chosen.folder:
        if folder is not None:
            raise ValueError(
                f"the target {target} writes no files but makes objects of Python: leave the "
                "folder out"
            )
        return make(what, **options)
    if folder is None:
        raise ValueError(f"the target {target} writes files: name a folder")
    name = what.model.name if isinstance(what, Hybrid | Collocation | Shooting) else what.name
    return written(folder, target, name, make(what, **options))
