"""A muscle under electrical stimulation, whose contractile element switches between two modes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.symbolic.hybrid import Event
from kinesym.symbolic.names import t


@dataclass(frozen=True)
class FESMuscle:
    """A contractile element in series with a linear tendon (El Makssoud 2005; the equations are
    (8) to (10) of Wieber, Billet 2006).

    rate : how fast muscle and tendon together lengthen [m/s], an expression of the states, such as
        -r w for a moment arm r. F0 : largest force [N]. k0 : largest stiffness of the contractile
        element [N/m]. ks : stiffness of the tendon [N/m]. Lc0 : length of the contractile element
        [m]. recruitment : share of fibres that are stimulated, 0 to 1: a number, or "input" for an
        input `name_recruitment`. force_factor, stiffness_factor : of F0 and k0, for what the
        literature adds, such as a force-length relation.

    States are the stiffness `name_kc` [N/m] and the force `name_F` [N], `force`; the input `name_u`
    [1/s] is the calcium clock, `clock`. The rate of the contractile element follows from the other
    equations in one of two modes: unique while its force is below (kc + ks) Lc0, which ends a run.

    Raises `ValueError` for numbers that are not positive, recruitment outside 0 ... 1.
    """

    name: str
    rate: Any
    F0: float
    k0: float
    ks: float
    Lc0: float
    recruitment: Any = 1.0
    force_factor: Any = 1
    stiffness_factor: Any = 1

    def __post_init__(self) -> None:
        for key in ("F0", "k0", "ks", "Lc0"):
            value = getattr(self, key)
            if not value > 0.0:
                raise ValueError(f"muscle {self.name!r}: {key} must be positive, got {value}")
        if self.recruitment != "input" and not 0.0 <= self.recruitment <= 1.0:
            raise ValueError(f"muscle {self.name!r}: recruitment must be within 0 ... 1, "
                             f"got {self.recruitment}")  # fmt: skip

    def _signal(self, what: str) -> AppliedUndef:
        return sp.Function(f"{self.name}_{what}")(t)

    @cached_property
    def force(self) -> AppliedUndef:
        """The force of the muscle [N]."""
        return self._signal("F")

    @cached_property
    def clock(self) -> AppliedUndef:
        """The calcium clock [1/s], an input."""
        return self._signal("u")

    @property
    def states(self) -> list[AppliedUndef]:
        """Stiffness and force."""
        return [self._signal("kc"), self.force]

    @property
    def inputs(self) -> list[AppliedUndef]:
        """Clock, mode, and recruitment if it is an input."""
        more = [self._signal("recruitment")] if self.recruitment == "input" else []
        return [self.clock, self._signal("mode"), *more]

    @property
    def modes(self) -> dict[AppliedUndef, float]:
        """1 while the contractile element lengthens, -1 while it shortens."""
        return {self._signal("mode"): 1.0}

    @property
    def rest(self) -> dict[AppliedUndef, float]:
        """The states of a muscle that was not stimulated."""
        return dict.fromkeys(self.states, 0.0)

    @cached_property
    def _parts(self) -> tuple[sp.Expr, sp.Expr, sp.Expr, sp.Expr]:
        """b, whose sign is the mode, (kc + ks) Lc0, what the clock adds to stiffness and force."""
        kc, F = self.states
        u, share = self.clock, self._share
        charge = share * sp.Max(u, 0)
        force = charge * self.F0 * self.force_factor
        b = self.ks * self.rate + sp.Abs(u) * F - force
        return b, (kc + self.ks) * self.Lc0, charge * self.k0 * self.stiffness_factor, force

    @property
    def _share(self) -> Any:
        return self._signal("recruitment") if self.recruitment == "input" else self.recruitment

    @property
    def contractile_rate(self) -> sp.Expr:
        """The relative rate of the contractile element [1/s]."""
        b, limit, _, _ = self._parts
        return b / (limit - self._signal("mode") * self.force)

    @property
    def equations(self) -> list[sp.Expr]:
        """Of stiffness and force, each = 0."""
        kc, F = self.states
        _, _, stiffness, _ = self._parts
        x = self.contractile_rate
        relaxing = sp.Abs(self.clock) + self._signal("mode") * x
        return [kc.diff(t) + relaxing * kc - stiffness,
                F.diff(t) - self.ks * (self.rate - self.Lc0 * x)]  # fmt: skip

    @property
    def events(self) -> list[Event]:
        """The two switches, and the two ends of what the equations describe."""
        b, limit, _, _ = self._parts
        mode, scale = self._signal("mode"), self.ks * self.Lc0
        return [
            Event(f"{self.name} shortens", b, -1, scale, sets={mode: -1}, when=mode, level=True),
            Event(f"{self.name} lengthens", b, 1, scale, sets={mode: 1}, when=-mode, level=True),
            Event(f"{self.name}: the force reaches (kc + ks) Lc0, beyond which the rate of the "
                  "contractile element is not unique", limit - sp.Abs(self.force), -1, scale,
                  stop=True),
            Event(f"{self.name}: the tendon is slack, it cannot push", self.force + 1e-6 * self.F0,
                  -1, self.F0, stop=True),
        ]  # fmt: skip
