"""Trials as functions of few unknowns q: what every kind of shooting has.

The kinds are `SmoothTrials`, sweeps over steps, and `HybridTrials`, runs from event to event.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from kinesym.runtime.arrays import Array
from kinesym.runtime.losses import RobustLoss
from kinesym.runtime.nlp.samples import Samples
from kinesym.runtime.results.trajectory import Drawing, Trajectory
from kinesym.runtime.shooting.priors import Priors
from kinesym.runtime.shooting.unknowns import Unknowns
from kinesym.runtime.signals.experiment import Experiment
from kinesym.runtime.simulation.following import Following
from kinesym.runtime.simulation.stepper import Diverged

#: Growth of a small error over a trial, as a power of e, from which a model counts as unstable.
_GROWTH = 20.0


@dataclass(frozen=True)
class System:
    """A model as results name it: its name, its parameters in order, known values of each trial
    (also of other parameters), its drawing, and units. hidden : inputs that are not shown."""

    name: str
    parameters: Sequence[str]
    known: Sequence[Mapping[str, float]]
    drawing: Drawing = ()
    units: Mapping[str, str] = field(default_factory=dict)
    hidden: Sequence[str] = ()


class Simulated(ABC):
    """Trials as functions of q, simulated anew where q has changed. Where one does not reach its
    end, the cost is infinite and all else raises `Diverged`.

    measured : whether least squares of measurements are in J, times `factor`, or their loss.
    weighted : whether J has nothing else, so that residuals are in units of their standard
    deviations. following : of each trial, starts that follow from parameters. substeps : per
    interval of the grids, where the objective is taken too. priors : of parameters, further squares
    in J.
    """

    measured = weighted = True
    factor = 1.0
    loss: RobustLoss | None = None
    substeps = 1

    def __init__(
        self,
        unknowns: Unknowns,
        system: System,
        trials: Sequence[Experiment],
        priors: Priors,
        following: Sequence[Following | None],
    ) -> None:
        self.unknowns, self.system, self.trials = unknowns, system, trials
        self.priors, self.following = priors, following
        self._q: Array | None = None
        self._found: Any = None

    def simulate(self, q: Array) -> Any:
        """The trials at q, which the next q overwrites; raises `Diverged`."""
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

    def values(self, q: Array, trial: int) -> dict[str, float]:
        """All parameters of a trial by name."""
        owned = self.unknowns.owned
        found = zip(owned.parameters, map(float, q[owned.places(trial)]), strict=True)
        return {**self.system.known[trial], **dict(found)}

    def followed(self, q: Array, trial: int) -> dict[str, float]:
        """Starts of a trial that follow from parameters; raises `Diverged` where there are none."""
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

    def cost(self, q: Array) -> float:
        """J(q), infinite if a simulation does not reach its end."""
        try:
            value = self._cost(q)
        except Diverged:
            return np.inf
        value += float((self.priors.residuals(q) ** 2).sum()) if self.priors else 0.0
        return value if np.isfinite(value) else np.inf

    @abstractmethod
    def _simulated(self, q: Array) -> Any:
        """The trials at q; raises `Diverged`."""

    def gradient(self, q: Array) -> Array:
        """d J/d q, backwards in time."""
        found = self._gradient(q)
        return found + self.priors.gradient(q) if self.priors else found

    def forward_gradient(self, q: Array) -> Array:
        """The same forwards in time, for few unknowns."""
        return self._forward_gradient(q) + self.priors.gradient(q)

    def residuals(self, q: Array) -> Array:
        """r with J = sum r^2, those of priors last."""
        own = self._residuals(q)
        return np.concatenate([own, self.priors.residuals(q)]) if self.priors else own

    def jacobian(self, q: Array) -> csr_array:
        """d r/d q; zeros that may be something elsewhere are kept."""
        own = self._jacobian(q)
        return csr_array(vstack([own, self.priors.jacobian(q)])) if self.priors else own

    # -- of the simulations, without priors ------------------------------------------------------

    @abstractmethod
    def _cost(self, q: Array) -> float:
        """J(q); raises `Diverged`."""

    @abstractmethod
    def _gradient(self, q: Array) -> Array:
        """d J/d q, backwards in time."""

    @abstractmethod
    def _forward_gradient(self, q: Array) -> Array:
        """The same forwards in time."""

    @abstractmethod
    def _residuals(self, q: Array) -> Array:
        """r with J = sum r^2."""

    @abstractmethod
    def _jacobian(self, q: Array) -> csr_array:
        """d r/d q."""

    # -- what else there is ----------------------------------------------------------------------

    def check_squares(self) -> None:  # noqa: B027 (nothing to check is the rule)
        """Raise `ValueError` if J is no sum of squares."""

    @abstractmethod
    def samples(self) -> Samples:
        """What the residuals are about; the channel of what is no measurement is -1, the weight of
        a missing sample 0."""

    def tried_residuals(self, q: Array) -> Array:
        """The same, infinite if a simulation does not reach its end."""
        try:
            return self.residuals(q)
        except Diverged:
            return np.array([np.inf])

    def gaps(self, q: Array) -> Array:
        """End of each segment minus start of the next, all trials; zero for a solution."""
        return np.zeros(0)

    def tried_gaps(self, q: Array) -> Array:
        """The same, NaN if a simulation does not reach its end."""
        try:
            return self.gaps(q)
        except Diverged:
            count = sum(len(begins) - 1 for begins in self.unknowns.segments)
            return np.full(count * len(self.unknowns.states), np.nan)

    def gap_jacobian(self, q: Array) -> csr_array:
        """d gaps/d q."""
        return csr_array((0, q.size))

    @abstractmethod
    def course_slopes(self, q: Array, trial: int, names: Collection[str]) -> dict[str, csr_array]:
        """Derivatives (N, n) of trajectories of a trial at its nodes by the unknowns, of those of
        these names that are states, or outputs that have derivatives."""

    @abstractmethod
    def trajectories(self, q: Array) -> list[Trajectory]:
        """The trials with their measurements."""

    @abstractmethod
    def largest(self, q: Array) -> list[tuple[Array, Array]]:
        """Of each trial the largest absolute values of states and of unknown inputs."""

    @abstractmethod
    def instability(self, q: Array) -> str:
        """A sentence if the model is stiff or unstable at a start, else nothing."""


def unstable(trial: int, modes: NDArray[Any], longest: float, remedy: str) -> str:
    """A sentence if the fastest growing one of `modes` [1/s] leaves nothing of a start after the
    `longest` time [s], else nothing."""
    worst = modes[np.argmax(modes.real)]
    if not worst.real * longest > _GROWTH:
        return ""
    return (
        f"the model is unstable at the start of trial {trial}: eigenvalue {worst:.4g} 1/s grows "
        f"by e^{worst.real * longest:.0f} in {longest:g} s; use bounds that exclude this, {remedy}"
    )
