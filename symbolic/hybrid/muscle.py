"""A muscle under electrical stimulation, whose contractile element switches between two modes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.base.checks import check_choice, check_name
from kinesym.symbolic.expression import real_expression
from kinesym.symbolic.hybrid.events import Event
from kinesym.symbolic.model import Model
from kinesym.symbolic.names import name_of, t


@dataclass(frozen=True)
class FESMuscle:
    """A contractile element in series with a linear tendon (El Makssoud 2005; the equations are
    (8) to (10) of Wieber, Billet 2006).

    rate : how fast muscle and tendon together lengthen [m/s], an expression of the states, such as
        -r w for a moment arm r. F0 : largest force [N]. k0 : largest stiffness of the contractile
        element [N/m]. ks : stiffness of the tendon [N/m]. Lc0 : length of the contractile element
        [m]. recruitment : share of fibres that are stimulated, 0 to 1: a number, or "input" for an
        input `name_recruitment`. force_factor, stiffness_factor : of F0 and k0, for what the
        literature adds, such as a force-length relation. slack : what happens where the equations
        let the tendon push: "error" ends the run; "hold" keeps the force at 0 and counts the length
        `name_slack` [m] by which the tendon hangs, until it is tight again.

    Numbers may be symbols, which become parameters. States are the stiffness `name_kc` [N/m] and
    the force `name_F` [N], `force`; the input `name_u` [1/s] is the calcium clock, `clock`. The
    rate of the contractile element follows from the other equations in one of two modes: unique
    while its force is below (kc + ks) Lc0, which ends a run.

    Raises `ValueError` for numbers that are not positive, recruitment outside 0 ... 1; warns of
    numbers with which the force could reach that limit.
    """

    name: str
    rate: Any
    F0: Any
    k0: Any
    ks: Any
    Lc0: Any
    recruitment: Any = 1.0
    force_factor: Any = 1
    stiffness_factor: Any = 1
    slack: str = "error"

    def __post_init__(self) -> None:
        check_name(self.name, "the name of a muscle")
        for key in ("rate", "force_factor", "stiffness_factor"):
            object.__setattr__(self, key, self._expression(key))
        if isinstance(self.recruitment, str) and self.recruitment != "input":
            raise ValueError(
                f'muscle {self.name!r}: recruitment is a number or "input", '
                f"got {self.recruitment!r}"
            )
        check_choice(self.slack, ("error", "hold"), f"muscle {self.name!r}: slack")
        numbers = self.check({})
        if len(numbers) == 5 and numbers["recruitment"] > 0.0:
            self._check_unique(**numbers)

    def _expression(self, key: str) -> sp.Expr:
        return real_expression(getattr(self, key), f"muscle {self.name!r}: {key}")

    @cached_property
    def _constants(self) -> dict[str, float | sp.Expr]:
        """Numbers, and expressions of parameters, by name; recruitment if it is no input."""
        keys = ("F0", "k0", "ks", "Lc0", *([] if self.recruitment == "input" else ["recruitment"]))
        given = {key: self._expression(key) for key in keys}
        return {key: float(e) if e.is_number else e for key, e in given.items()}

    def check(self, values: Mapping[str, float]) -> dict[str, float]:
        """Numbers of the muscle by name, as far as they are known with these values of parameters.

        Raises `ValueError` for one that is not positive, or recruitment not within 0 ... 1.
        """
        numbers = {"recruitment": 1.0} if self.recruitment == "input" else {}
        for key, value in self._constants.items():
            if isinstance(value, sp.Expr):
                value = value.subs(
                    {p: values[p.name] for p in value.free_symbols if p.name in values}
                )
                if not value.is_number:
                    continue
            numbers[key] = float(value)
            if key == "recruitment" and not 0.0 <= numbers[key] <= 1.0:
                raise ValueError(
                    f"muscle {self.name!r}: recruitment must be within 0 ... 1, got {numbers[key]}"
                )
            if key != "recruitment" and not 0.0 < numbers[key] < math.inf:
                raise ValueError(
                    f"muscle {self.name!r}: {key} must be positive, got {numbers[key]:g}"
                )
        return numbers

    def _check_unique(
        self, recruitment: float, F0: float, k0: float, ks: float, Lc0: float
    ) -> None:
        """Warns if a stretch from the largest force and stiffness could reach (kc + ks) Lc0: there
        F - kc Lc0 is largest after a stretch by 2 - F/(kc Lc0)."""
        kc = recruitment * k0
        needed = kc * math.exp(min(recruitment * F0 / (kc * Lc0) - 2.0, 700.0))
        if ks <= needed:
            warnings.warn(
                f"muscle {self.name!r}: ks = {ks:g} N/m may lose uniqueness in a stretch:"
                f" needs more than {needed:.4g} N/m",
                stacklevel=4,
            )

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
        """Stiffness and force; the length of a slack tendon if it may be."""
        return [self._signal("kc"), self.force, *self._hanging]

    @property
    def inputs(self) -> list[AppliedUndef]:
        """Clock, modes, and recruitment if it is an input."""
        more = [self._signal("recruitment")] if self.recruitment == "input" else []
        return [self.clock, *self.modes, *more]

    @property
    def modes(self) -> dict[AppliedUndef, float]:
        """1 while the contractile element lengthens, -1 while it shortens; 1 while the tendon is
        tight, 0 while it is slack."""
        tight = {self._signal("tight"): 1.0} if self._hanging else {}
        return {self._signal("mode"): 1.0, **tight}

    @property
    def _hanging(self) -> list[AppliedUndef]:
        return [self._signal("slack")] if self.slack == "hold" else []

    @property
    def rest(self) -> dict[AppliedUndef, float]:
        """The states of a muscle that was not stimulated."""
        return dict.fromkeys(self.states, 0.0)

    @cached_property
    def _parts(self) -> tuple[sp.Expr, sp.Expr, sp.Expr, sp.Expr]:
        """b, whose sign is the mode, (kc + ks) Lc0, what the clock adds to stiffness and force."""
        kc, F, u = self._signal("kc"), self.force, self.clock
        charge = self._share * sp.Max(u, 0)
        force = charge * self.F0 * self.force_factor
        b = self.ks * self.rate + sp.Abs(u) * F - force
        return b, (kc + self.ks) * self.Lc0, charge * self.k0 * self.stiffness_factor, force

    @property
    def _share(self) -> Any:
        return self._signal("recruitment") if self.recruitment == "input" else self.recruitment

    @property
    def contractile_rate(self) -> sp.Expr:
        """The relative rate of the contractile element [1/s]."""
        b, limit, _, force = self._parts
        tight = b / (limit - self._signal("mode") * self.force)
        if not self._hanging:
            return tight
        # Force 0 in (9); a muscle without stiffness would shorten infinitely fast
        slack = -force / ((self._signal("kc") + sp.Float(1e-6) * self.k0) * self.Lc0)
        closed = self._signal("tight")
        return closed * tight + (1 - closed) * slack

    @property
    def rates(self) -> list[sp.Expr]:
        """Derivatives of the states."""
        _, _, stiffness, _ = self._parts
        x, closed = self.contractile_rate, self._signal("tight") if self._hanging else 1
        moving = self._signal("mode") * x * closed - (1 - closed) * x
        kc_rate = stiffness - (sp.Abs(self.clock) + moving) * self._signal("kc")
        stretch = self.rate - self.Lc0 * x
        hanging = [(closed - 1) * stretch] if self._hanging else []
        return [kc_rate, closed * self.ks * stretch, *hanging]

    @property
    def events(self) -> list[Event]:
        """Events: switches of the mode, and ends of the range of validity of the equations."""
        b, limit, _, _ = self._parts
        mode, closed = self._signal("mode"), self._signal("tight") if self._hanging else 1
        b = b / (self.ks * self.Lc0)
        room, force = 1 - sp.Abs(self.force) / limit, self.force / self.F0
        switches = [
            Event(f"{self.name} shortens", b, -1, sets={mode: -1}, when=mode * closed, level=True),
            Event(f"{self.name} lengthens", b, 1, sets={mode: 1}, when=-mode * closed, level=True),
            Event(
                f"{self.name}: the force reaches (kc + ks) Lc0, beyond which equations (9) and "
                "(10) have no unique solution",
                room,
                -1,
                level=True,
                failure=True,
            ),
        ]
        if not self._hanging:
            name = f"{self.name}: the tendon is slack, it cannot push; slack='hold' goes on"
            return [*switches, Event(name, force + sp.Float(1e-6), -1, level=True, failure=True)]
        (length,) = self._hanging
        return [
            *switches,
            Event(
                f"{self.name} goes slack",
                force,
                -1,
                resets={self.force: 0, length: 0},
                sets={closed: 0},
                when=closed,
                level=True,
            ),
            Event(
                f"{self.name} is tight",
                length / self.Lc0,
                -1,
                resets={length: 0},
                sets={closed: 1},
                when=1 - closed,
            ),
        ]


def with_muscle(model: Model, muscle: FESMuscle) -> Model:
    """The model with a muscle: its force, an input if it was used, becomes a state; the relative
    rate of its contractile element, `quad_rate` [1/s], an output.

    Raises `ValueError` if the model has other states or inputs of the muscle already.
    """
    taken = {*model.states, *model.inputs} - {muscle.force, muscle.clock}
    for symbol in (*muscle.states, *muscle.inputs):
        if symbol in taken:
            raise ValueError(f"muscle {muscle.name!r}: {model.name} has {name_of(symbol)} already")
    rates = dict(zip(muscle.states, muscle.rates, strict=True))
    known = {*model.parameters, *(symbol for symbol, _ in model.intermediates), t}
    more = set().union(*(e.free_symbols for e in rates.values())) - known
    return model.extended(
        rates,
        [u for u in muscle.inputs if u not in model.inputs],
        sorted(more, key=name_of),
        {f"{muscle.name}_rate": muscle.contractile_rate},
    )
