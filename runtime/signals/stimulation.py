"""Electrical stimulation: trains of impulses, and the calcium clock that each of them starts."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinesym.base import checks
from kinesym.base.checks import finite, flag, positive
from kinesym.runtime.arrays import Array, increasing, real_array
from kinesym.runtime.signals.signal import Signal, SignalGradient

RAMPS = ("to_Um", "to_zero")
#: More impulses are no train that a simulation could reach the end of.
_MOST_IMPULSES = 10**7


@dataclass(frozen=True)
class Calcium:
    """The calcium clock of a muscle: Um; `tau` after an impulse Up during `tau1`; a ramp during
    `tau2`; Um again (Wieber, Billet 2006, figure 2).

    tau, tau1, tau2 : [s]. Up, Um : rates of activation and, negative, of relaxation [1/s].
    ramp : "to_Um", continuous at its end, or "to_zero". hold : an impulse does not end the sequence
    of the one before but acts at its own time after `tau`, and replaces the pulse then.

    Raises `ValueError` for durations or rates of the wrong sign.
    """

    tau: float
    tau1: float
    tau2: float
    Up: float
    Um: float
    ramp: str = "to_Um"
    hold: bool = False

    def __post_init__(self) -> None:
        for name in ("tau", "tau1", "tau2"):
            if finite(getattr(self, name), f"{name} of a calcium clock") < 0.0:
                raise ValueError(
                    f"{name} of a calcium clock must not be negative, got {getattr(self, name)}"
                )
        if not finite(self.Up, "Up of a calcium clock") > 0.0:
            raise ValueError(f"Up must be positive (rate of activation), got {self.Up}")
        if not finite(self.Um, "Um of a calcium clock") < 0.0:
            raise ValueError(f"Um must be negative (relaxation rate), got {self.Um}")
        flag(self.hold, "hold of a calcium clock")
        checks.check_choice(self.ramp, RAMPS, "ramp")

    def signal(self, impulses: ArrayLike, place: int = 0) -> Signal:
        """The clock over time for impulses at increasing times (n,) [s].

        place : of this clock among several that are synchronised; it is late by that many times 100
        machine epsilons, as Wieber and Billet keep such clocks apart (section 5.2). Nothing depends
        on it: pulses closer than 1e-12 s are simultaneous.

        Warns if an impulse comes before the sequence of the last one is over; raises `ValueError`
        for times that do not increase and, without `hold`, if none can act.
        """
        [at] = increasing([impulses], ["impulses"], "a train")
        place = checks.count(place, "the place of a clock", least=0)
        at = at + place * 100.0 * np.finfo(float).eps * np.maximum(1.0, np.abs(at))
        shortest = float(np.diff(at).min()) if len(at) > 1 else np.inf
        if self.hold:
            at = at + self.tau
        elif shortest <= self.tau:
            raise ValueError(
                f"impulses {shortest:g} s apart come before the delay of {self.tau:g} s is over: "
                "none but the last acts; use hold=True"
            )
        if shortest < self.tau + self.tau1 + self.tau2:
            warnings.warn(f"impulses {shortest:g} s apart cut the pulse before them", stacklevel=2)
        times, kept = self._times(at)
        _, value, slope = self._pulse()
        rows = [np.broadcast_to(row, times.shape)[kept] for row in (value, slope)]
        first = min(0.0, float(at[0])) - 1.0
        return Signal.pieces(
            np.append(first, times[kept]), np.append(self.Um, rows[0]), np.append(0.0, rows[1])
        )

    def by_impulse(self, impulses: ArrayLike, gradient: SignalGradient) -> Array:
        """Derivatives with respect to the times of the impulses (n,), from those with respect to
        the pieces of `signal(impulses)`."""
        if not isinstance(gradient, SignalGradient):
            raise ValueError(f"the gradient must be a SignalGradient, got {gradient!r}")
        _, kept = self._times(real_array(impulses, "impulses"))
        rows = np.zeros(kept.shape)
        rows[kept] = gradient.begin[1:]
        return np.asarray(rows.sum(axis=1))

    def _times(self, at: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Begins of the segments of each impulse (n, segments), and which the next one spares."""
        times = at[:, None] + self._pulse()[0]
        return times, times < np.append(at[1:], np.inf)[:, None] - 1e-12

    def _pulse(self) -> tuple[Array, Array, Array]:
        """Begins of the segments after an impulse, values there and slopes. The zero of the ramp is
        one: there |u| has a kink."""
        delay = 0.0 if self.hold else self.tau
        low = self.Um if self.ramp == "to_Um" else 0.0
        rows = [(0.0, self.Um, 0.0)] if delay > 0.0 else []
        if self.tau1 > 0.0:
            rows.append((delay, self.Up, 0.0))
        if self.tau2 > 0.0:
            fall = (low - self.Up) / self.tau2
            rows.append((delay + self.tau1, self.Up, fall))
            if low < 0.0:
                rows.append((delay + self.tau1 - self.Up / fall, 0.0, fall))
        rows.append((delay + self.tau1 + self.tau2, self.Um, 0.0))
        begin, value, slope = np.array(rows).T
        return begin, value, slope


def train(start: float, period: float, count: int) -> Array:
    """Times of equal impulses (count,) [s]: each start + n period, so that none drifts.

    Raises `ValueError` for a start, period or count that is none.
    """
    first, step = finite(start, "the start of a train"), positive(period, "the period of a train")
    number = checks.count(count, "the impulses of a train", most=_MOST_IMPULSES)
    return np.asarray(first + step * np.arange(number))
