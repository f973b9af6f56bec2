"""Functions of a model as C text that a user has edited, beside those that were generated."""

from __future__ import annotations

import ctypes
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinesym.base.quiet import quietly
from kinesym.runtime.arrays import Array
from kinesym.runtime.functions import Functions
from kinesym.runtime.library.build import CompilerError, build_alone
from kinesym.runtime.library.manifest import Built

#: Points at which functions are compared.
_POINTS = 100
#: Types of values in C, with those of NumPy.
_TYPES: Mapping[str, tuple[Any, Any]] = {
    "double": (ctypes.c_double, np.float64),
    "float": (ctypes.c_float, np.float32),
}


@dataclass(frozen=True)
class Difference:
    """Largest difference of a function from that of the model, relative to the larger of the value
    and 1. component : of the function. expected, found : values there. point : arguments, by name.
    """

    function: str
    component: str
    relative: float
    expected: float
    found: float
    point: Mapping[str, Any]

    def __str__(self) -> str:
        return (
            f"{self.function}, {self.component}: {self.found:.9g} where the model has "
            f"{self.expected:.9g}, the largest relative difference of {_POINTS} random points, "
            f"{self.relative:.2g}"
        )


class Edited(Functions):
    """Functions of a model of which `rhs`, `residual` and `outputs` are those of C text, where it
    has them; Jacobians are those of the model. differences : from the model, by function."""

    def __init__(
        self, built: Built, jacobians: Callable[[], Built], source: str | Path, prefix: str
    ) -> None:
        super().__init__(built, jacobians)
        self.source, self._prefix = Path(source), prefix
        self._model = Functions(built, jacobians)
        self._made = _compiled(self.source, self.source.with_name(f"{prefix}_data.c"))
        self._plain = _functions_in(self.source, prefix)
        if not self._plain:
            raise ValueError(
                f"{source} has none of the functions {prefix}_rhs, {prefix}_residual and "
                f"{prefix}_outputs of this model"
            )
        self.differences = {name: self._difference(name) for name in self._plain}

    def __reduce__(self) -> tuple[Any, ...]:
        """State for pickling: the text is compiled again."""
        return Edited, (self._built, self._build_jacobians, self.source, self._prefix)

    def __str__(self) -> str:
        return "\n".join(map(str, self.differences.values()))

    def _call(self, name: str, n_out: int, **given: ArrayLike) -> Array:
        if name not in self._plain:
            return super()._call(name, n_out, **given)
        arrays, n = self._shaped(given)
        scalar, kind = _TYPES[self._plain[name]]
        call, count = getattr(self._made, f"{self._prefix}_{name}"), 1 if n is None else n
        out = np.empty((count, n_out), kind)
        points = {
            argument: np.ascontiguousarray(
                np.broadcast_to(array.T, (count, len(array))), dtype=kind
            )
            for argument, array in arrays.items()
        }
        for k in range(count):
            passed = [
                scalar(of[k, 0]) if argument == "t" else of[k].ctypes.data_as(ctypes.c_void_p)
                for argument, of in points.items()
            ]
            call(*passed, out[k].ctypes.data_as(ctypes.c_void_p))
        values = out.T.astype(np.float64)
        return values[:, 0] if n is None else values

    def _difference(self, name: str) -> Difference:
        """The largest difference at random points: angles, speeds and inputs of about 1, parameters
        within 20 % of their values, or of about 1."""
        rng = np.random.default_rng(0)
        n, m = len(self.states), len(self.inputs)
        p = np.array([self.values.get(key, np.nan) for key in self.parameters])
        p = np.where(np.isnan(p), rng.uniform(0.5, 1.5, p.shape), p)
        given: dict[str, Any] = {
            "xdot": rng.normal(size=(n, _POINTS)),
            "x": rng.normal(size=(n, _POINTS)),
            "u": rng.normal(size=(m, _POINTS)),
            "p": p * rng.uniform(0.8, 1.2, p.shape),
            "t": rng.uniform(0.0, 1.0, _POINTS),
        }
        given = {key: value for key, value in given.items() if key != "xdot" or name != "rhs"}
        with quietly():
            expected, found = (getattr(f, name)(**given) for f in (self._model, self))
        error = np.abs(found - expected) / np.maximum(np.abs(expected), 1.0)
        one_sided = np.isnan(expected) != np.isnan(found)
        error = np.where(one_sided, np.inf, np.nan_to_num(error, nan=0.0))
        i, k = (int(v) for v in np.unravel_index(np.argmax(error), error.shape))
        labels = self.output_names if name == "outputs" else self.states
        component = {"rhs": f"{labels[i]}'", "residual": f"equation {i}"}.get(name, labels[i])
        point = {key: value if key == "p" else value[..., k] for key, value in given.items()}
        numbers = float(error[i, k]), float(expected[i, k]), float(found[i, k])
        return Difference(name, component, *numbers, point)


def _compiled(source: Path, data: Path) -> ctypes.CDLL:
    """A library of the text, and of the data beside it, with the headers there."""
    if not source.is_file():
        raise ValueError(f"there is no file {source}")
    files = {path.name: path.read_text() for path in (source, data) if path.is_file()}
    headers = {path.name: path.read_text() for path in source.parent.glob("*.h")}
    try:
        library = build_alone(files, headers)
    except CompilerError as error:
        raise CompilerError(f"{source} does not compile: {error}") from error
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "edited.so"
        made.write_bytes(library)
        return ctypes.CDLL(str(made))


def _functions_in(source: Path, prefix: str) -> dict[str, str]:
    """Types of the functions that a text has, by name."""
    pattern = rf"^int {prefix}_(rhs|residual|outputs)\(\s*const (double|float)\b"
    return dict(re.findall(pattern, source.read_text(), re.MULTILINE))
