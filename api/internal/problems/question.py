"""Questions: the arguments of `Collocation` and of `Shooting` as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kinesym.internal.problems.checked_trials import keep_trials
from kinesym.internal.problems.content import UNCOUNTED
from kinesym.symbolic.objective import Objective


@dataclass(frozen=True, eq=False)
class Question:
    """Arguments of `Collocation`, as the user gave them: first stage of the engine.

    `formulate` checks and rewrites them. A digest (`kinesym.internal.problems.content`) counts
    every field but `threads`, on which results depend by rounding only.
    """

    system: Any
    trials: Any
    unknown: Mapping[Any, Any] | None = None
    known: Mapping[Any, float] | None = None
    scheme: str = "radau-3"
    objective: Objective | None = None
    bounds: Mapping[Any, Any] | None = None
    boundary: Sequence[Any] = ()
    path: Sequence[Any] = ()
    unknown_inputs: Mapping[Any, Any] | None = None
    threads: int | None = field(default=None, metadata=UNCOUNTED)
    sensors: Mapping[str, Any] | None = None
    noise: Mapping[Any, Any] | None = None
    homotopy: str | None = None

    def __post_init__(self) -> None:
        keep_trials(self)


@dataclass(frozen=True, eq=False)
class ShootingQuestion:
    """Arguments of `Shooting`, as they were given; a digest counts every field but `threads`."""

    system: Any
    trials: Any
    unknown: Mapping[Any, Any] | None = None
    known: Mapping[Any, float] | None = None
    initial: Any = None
    objective: Objective | None = None
    method: str | None = None
    unknown_inputs: Mapping[Any, Any] | None = None
    segments: int = 1
    threads: int | None = field(default=None, metadata=UNCOUNTED)
    substeps: int | None = None
    rtol: float = 1e-9
    atol: float = 1e-11
    sensors: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        keep_trials(self)
