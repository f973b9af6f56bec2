"""Simulated trials as functions of few unknowns q, the base of all kinds of shooting.

The kinds are `SmoothTrials`, sweeps over steps, and `HybridTrials`, runs from event to event.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from kinesym.runtime.arrays import Array
from kinesym.runtime.estimation.priors import Priors
from kinesym.runtime.losses import RobustLoss
from kinesym.runtime.nlp.samples import Samples
from kinesym.runtime.results.trajectory import Drawing, Trajectory
from kinesym.runtime.shooting.scores import Scores
from kinesym.runtime.shooting.steady_start import Settled
from kinesym.runtime.shooting.unknowns import Unknowns
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.simulation.following import Following
from kinesym.runtime.simulation.stepper import Diverged

#: Growth of a small error over a trial, as a power of e, from which a model counts as unstable.
_GROWTH = 20.0


@dataclass(frozen=True)
class System:
    """Model for results: its name, its parameters in order, known values of each trial (also of
    other parameters), its drawing, and units. hidden : inputs that are not shown."""

    name: str
    parameters: Sequence[str]
    known: Sequence[Mapping[str, float]]
    drawing: Drawing = ()
    units: Mapping[str, str] = field(default_factory=dict)
    hidden: Sequence[str] = ()


class Simulated(ABC):
    """Simulated trials as functions of q; they are simulated again if q has changed. If one does
    not reach its end, the cost is infinite and other methods raise `Diverged`.

    measured : whether least squares of measurements are in J, times `factor`, or their loss.
    weighted : whether J has no other terms, so that residuals are in units of their standard
    deviations. scored : whether J is a likelihood that is no sum of squares, and residuals are
    scores, see `Scores` and `Priors`. following : per trial, initial values that depend on
    parameters. substeps : per interval of the grids, where the objective is evaluated too. priors :
    of parameters, further terms in J.
    """

    measured = weighted = True
    scored = False
    factor = 1.0
    loss: RobustLoss | None = None
    substeps = 1

    @property
    def kinked(self) -> bool:
        """Whether J has absolute values of residuals."""
        return self.loss is not None and self.loss.kinked

    def __init__(
        self,
        unknowns: Unknowns,
        system: System,
        trials: Sequence[Experiment],
        priors: Priors,
        following: Sequence[Following | Settled | None],
    ) -> None:
        self.unknowns, self.system, self.trials = unknowns, system, trials
        self.priors, self.following = priors, following
        self._q: Array | None = None
        self._found: Any = None

    def simulate(self, q: Array) -> Any:
        """Simulate the trials at q; the next q overwrites the result. Raises `Diverged`."""
        if self._q is None or not np.array_equal(q, self._q):
            self._q = None  # known again when all is done: Ctrl-C may come between
            try:
                if not np.isfinite(q).all():
                    raise Diverged("the unknowns are not finite")
                self._found = self._simulated(q)
            except Diverged as error:
                self._found = error
            self._q = np.array(q, dtype=np.float64)
        if isinstance(self._found, Diverged):
            raise Diverged(str(self._found))
        return self._found

    def _title(self, trial: int) -> str:
        """The trial, before a sentence about it; empty if there is but one."""
        return f"trial {trial}: " if len(self.trials) > 1 else ""

    def set_in(self, trial: int) -> Collection[str]:
        """Parameters that a trial sets to functions of the unknowns."""
        return ()

    def values(self, q: Array, trial: int) -> dict[str, float]:
        """Values of all parameters of a trial by name."""
        owned = self.unknowns.owned
        found = zip(owned.parameters, map(float, q[owned.places(trial)]), strict=True)
        return {**self.system.known[trial], **dict(found)}

    def followed(self, q: Array, trial: int) -> dict[str, float]:
        """Initial values of a trial that depend on parameters; raises `Diverged` if they are not
        finite."""
        rule = self.following[trial]
        if rule is None:
            return {}
        found = {x: float(value) for x, value in rule.values(self.values(q, trial)).items()}
        for x, value in found.items():
            if not np.isfinite(value):
                raise Diverged(f"the initial value of state {x} is {value} at these parameters")
        return found

    def start_slopes(self, q: Array, trial: int) -> Array:
        """Derivatives (n, r) of the start of a trial by its unknown parameters."""
        unknowns, rule = self.unknowns, self.following[trial]
        found = np.zeros((len(unknowns.states), len(unknowns.owned.parameters)))
        if rule is not None:
            mine = [unknowns.states.index(x) for x in rule.states]
            found[mine] = rule.slopes(self.values(q, trial), unknowns.owned.parameters)
        return found

    def start_pull(self, q: Array, trial: int, weights: Array) -> Array:
        """Weights (n,) times these derivatives, (r,)."""
        unknowns, rule = self.unknowns, self.following[trial]
        if rule is None:
            return np.zeros(len(unknowns.owned.parameters))
        mine = weights[[unknowns.states.index(x) for x in rule.states]]
        return rule.pulled(self.values(q, trial), unknowns.owned.parameters, mine)

    def cost(self, q: Array) -> float:
        """Cost J(q), infinite if a simulation does not reach its end."""
        try:
            value = self._cost(q)
        except Diverged:
            return np.inf
        value += self.priors.cost(q) if self.priors else 0.0
        return value if np.isfinite(value) else np.inf

    @property
    def steps(self) -> Sequence[int]:
        """Steps that each trial has taken where it was last simulated; none of methods that do not
        choose them."""
        return ()

    @contextmanager
    def at_most(self, steps: Sequence[int]) -> Iterator[None]:
        """Context in which a trial that takes more than so many steps does not reach its end,
        unless it gets on, see `Run.forget`."""
        try:
            yield
        finally:
            if isinstance(self._found, Diverged):
                self._q = None

    @abstractmethod
    def _simulated(self, q: Array) -> Any:
        """Simulate the trials at q; raises `Diverged`."""

    def gradient(self, q: Array) -> Array:
        """Gradient d J/d q, backwards in time (adjoint)."""
        found = self._gradient(q)
        return found + self.priors.gradient(q) if self.priors else found

    def forward_gradient(self, q: Array) -> Array:
        """Gradient d J/d q forwards in time, for few unknowns."""
        return self._forward_gradient(q) + self.priors.gradient(q)

    def residuals(self, q: Array) -> Array:
        """Residuals r with J = sum r^2 or, if `scored`, the scores; those of priors last."""
        rows, scores = self._rows(q)
        return self._with_priors(q, rows if scores is None else scores.values(rows))

    def rows(self, q: Array) -> Array:
        """Residuals before scores are made of them, see `Scores`; those of priors last."""
        return self._with_priors(q, self._rows(q)[0])

    def change(self, before: Array, q: Array) -> Array:
        """Change of the residuals from where they had these rows, with the standard deviations
        there, so that it is to first order what `jacobian` says."""
        rows, scores = self._rows(q)
        now = self._with_priors(q, rows)
        return now - before if scores is None else scores.change(before, now)

    def _with_priors(self, q: Array, rows: Array) -> Array:
        return np.concatenate([rows, self.priors.residuals(q)]) if self.priors else rows

    def jacobian(self, q: Array) -> csr_array:
        """Jacobian d r/d q; zeros that may differ from zero elsewhere are kept."""
        own = self._jacobian(q)
        return csr_array(vstack([own, self.priors.jacobian(q)])) if self.priors else own

    # -- of the simulations, without priors ------------------------------------------------------

    @abstractmethod
    def _cost(self, q: Array) -> float:
        """Cost J(q) without priors; raises `Diverged`."""

    @abstractmethod
    def _gradient(self, q: Array) -> Array:
        """Gradient d J/d q without priors, backwards in time."""

    @abstractmethod
    def _forward_gradient(self, q: Array) -> Array:
        """Gradient d J/d q without priors, forwards in time."""

    @abstractmethod
    def _rows(self, q: Array) -> tuple[Array, Scores | None]:
        """Residuals r with J = sum r^2, without priors; or what scores are made of, and by what."""

    @abstractmethod
    def _jacobian(self, q: Array) -> csr_array:
        """Jacobian d r/d q without priors."""

    # -- what else there is ----------------------------------------------------------------------

    def check_squares(self) -> None:  # noqa: B027 (nothing to check is the rule)
        """Raise `ValueError` if J is no sum of squares."""

    @abstractmethod
    def samples(self) -> Samples:
        """Samples of the residuals; the channel of residuals without measurement is -1, the weight
        of a missing sample 0."""

    def gaps(self, q: Array) -> Array:
        """Gaps: end of each segment minus start of the next, all trials; zero for a solution."""
        return np.zeros(0)

    def tried_gaps(self, q: Array) -> Array:
        """Gaps, NaN if a simulation does not reach its end."""
        try:
            return self.gaps(q)
        except Diverged:
            count = sum(len(begins) - 1 for begins in self.unknowns.segments)
            return np.full(count * len(self.unknowns.states), np.nan)

    def gap_jacobian(self, q: Array) -> csr_array:
        """Jacobian d gaps/d q."""
        return csr_array((0, q.size))

    @abstractmethod
    def course_slopes(self, q: Array, trial: int, names: Collection[str]) -> dict[str, csr_array]:
        """Derivatives (N, n) of trajectories of a trial at its nodes by the unknowns, for these
        names of states, or of outputs that have derivatives."""

    @abstractmethod
    def trajectories(self, q: Array) -> list[Trajectory]:
        """Trajectories of the trials with their measurements."""

    @abstractmethod
    def largest(self, q: Array) -> list[tuple[Array, Array]]:
        """Largest absolute values of states and of unknown inputs of each trial."""

    @abstractmethod
    def instability(self, q: Array) -> str:
        """Message if the model is stiff or unstable at a start, else empty."""


def unstable(trial: int, modes: NDArray[Any], longest: float, remedy: str) -> str:
    """Message if the fastest growing one of `modes` [1/s] makes the start irrelevant after the
    `longest` time [s], else empty."""
    worst = modes[np.argmax(modes.real)]
    if not worst.real * longest > _GROWTH:
        return ""
    return (
        f"the model is unstable at the start of trial {trial}: eigenvalue {worst:.4g} 1/s grows "
        f"by e^{worst.real * longest:.0f} in {longest:g} s; use bounds that exclude this, {remedy}"
    )
