"""Muscles that pull on a tree: curves, activation and tendons of De Groote et al. (2016)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import sympy as sp
from sympy.core.function import AppliedUndef

from kinesym.base.checks import check_choice, check_identifier, listed_of
from kinesym.symbolic.expression import parts_of, real_expression
from kinesym.symbolic.model import Model
from kinesym.symbolic.multibody.assemble import coordinate_rates, standing
from kinesym.symbolic.multibody.tree import Tree
from kinesym.symbolic.multibody.vectors import Steps
from kinesym.symbolic.names import name_of, t

#: Heights, places, widths, and changes of the widths with length, of the active force-length curve.
_BELLS = (
    (0.8150671134243542, 1.055033428970575, 0.162384573599574, 0.063303448465465),
    (0.433004984392647, 0.716775413397760, -0.029947116970696, 0.200356847296188),
    (0.1, 1.0, math.sqrt(0.125), 0.0),
)
#: Force-velocity curve d1 asinh(d2 v + d3) + d4: its scale of forces.
_D1 = -0.3211346127989808
#: Force-velocity curve: its scale of velocities.
_D2 = -8.149
#: Force-velocity curve: its shift along velocities.
_D3 = -0.374
#: Force-velocity curve: its shift along forces.
_D4 = 0.8825327733249912
#: Shape of the passive force-length curve: exponential growth over the passive strain.
_STIFF = 4.0
#: Length of fibres at which the passive force is 0, over the optimal length.
_SHORTEST = 0.2
#: Tendon curve c1 exp(k (l - c2)) - c3: its scale of forces.
_C1 = 0.2
#: Tendon curve: the length over slack length about which it is exponential.
_C2 = 1.0
#: Tendon curve: its shift along forces.
_C3 = 0.2
#: Parameters that must be positive, and those that may be 0.
_POSITIVE = (
    "max_force",
    "optimal_length",
    "slack_length",
    "max_velocity",
    "activation_time",
    "deactivation_time",
    "tendon_strain",
    "passive_strain",
    "width",
    "steepness",
)
#: Function of a name and an expression that returns a symbol for it, or the expression.
Naming: TypeAlias = Callable[[str, sp.Expr], sp.Expr]
_NUMBERS = ("length", *_POSITIVE, "pennation", "damping")

# Functions of long arguments are not evaluated: SymPy would ask long whether there is anything to
# simplify.


def active_force(length: Any, width: Any = 1) -> sp.Expr:
    """Force of the active fibres at a length, both normalised: 1 at 1."""
    x = (real_expression(length, "length") - 1) / real_expression(width, "width") + 1
    bells = []
    for height, b2, b3, b4 in _BELLS:
        exponent = -(((x - b2) / (b3 + b4 * x)) ** 2) / 2
        hill = sp.exp(exponent, evaluate=False)
        bells.append(sp.Mul(sp.Float(height), hill, evaluate=False))
    return sp.Add(*bells, evaluate=False)


def passive_force(length: Any, strain: Any = 0.6) -> sp.Expr:
    """Force of the passive fibres at a length, both normalised: 1 at 1 + strain, 0 at 0.2."""
    x, e = real_expression(length, "length"), real_expression(strain, "strain")
    least = sp.exp(_STIFF * (_SHORTEST - 1) / e)
    return (sp.exp(_STIFF * (x - 1) / e) - least) / (math.exp(_STIFF) - least)


def velocity_force(velocity: Any) -> sp.Expr:
    """Factor of the active force at a velocity of the fibres in units of the largest; 0 at -1, 1 at
    0, 1.794 at 1."""
    x = _D2 * real_expression(velocity, "velocity") + _D3
    return _D1 * sp.asinh(x, evaluate=False) + _D4


def tendon_force(length: Any, strain: Any = 0.049) -> sp.Expr:
    """Force of the tendon at a length in units of the slack length: 0 at 1, 1 at 1 + strain."""
    return _C1 * sp.exp(_stiffness(strain) * (real_expression(length, "length") - _C2)) - _C3


def tendon_length(force: Any, strain: Any = 0.049) -> sp.Expr:
    """The inverse of `tendon_force`."""
    return sp.log((real_expression(force, "force") + _C3) / _C1) / _stiffness(strain) + _C2


def _stiffness(strain: Any) -> sp.Expr:
    return math.log((1 + _C3) / _C1) / (real_expression(strain, "strain") + 1 - _C2)


def spelled_out(name: str, expression: sp.Expr) -> sp.Expr:
    """The expression itself."""
    return expression


@dataclass(frozen=True)
class Muscle:
    """A muscle of De Groote, Kinney, Rao, Fregly (2016), Ann Biomed Eng 44(10), 2922-2936, with the
    numbers of OpenSim's `DeGrooteFregly2016Muscle`: rounded ones of the paper miss curves that go
    through (1, 1), (-1, 0), (0, 1), and 0 in a tendon at its slack length.

    length : of muscle and tendon together [m], an expression of the coordinates of a tree.
    max_force : isometric, at the optimal length [N]. optimal_length : of the fibres [m].
    slack_length : of the tendon [m]. pennation : angle of the fibres at the optimal length [rad];
    their thickness stays. max_velocity : of the fibres [optimal lengths/s]. activation_time,
    deactivation_time : [s]. tendon : "rigid", or "compliant", whose force is a state and follows
    from an implicit equation. tendon_strain, passive_strain : of tendon and passive fibres at the
    largest isometric force. damping : force of the fibres at the largest velocity, as a share of
    the largest force. width : of the active force-length curve. steepness : of the switch between
    both times.

    States are the activation `soleus_activation`, and with a compliant tendon the normalised force
    `soleus_tendon_force`; the input is `soleus_excitation`, all 0 ... 1. A compliant tendon needs
    an activation above 0. Numbers may be symbols, which become parameters.

    Raises `ValueError` for numbers that are out of range.
    """

    name: str
    length: Any
    max_force: Any
    optimal_length: Any
    slack_length: Any
    pennation: Any = 0
    max_velocity: Any = 10
    activation_time: Any = 0.015
    deactivation_time: Any = 0.060
    tendon: str = "rigid"
    tendon_strain: Any = 0.049
    passive_strain: Any = 0.6
    damping: Any = 0
    width: Any = 1
    steepness: Any = 0.1

    def __post_init__(self) -> None:
        check_identifier(self.name, "the name of a muscle")
        check_choice(self.tendon, ("rigid", "compliant"), f"muscle {self.name}: tendon")
        for key in _NUMBERS:
            value = real_expression(getattr(self, key), f"muscle {self.name}: {key}")
            object.__setattr__(self, key, value)
            if key in _POSITIVE and value.is_number and not value > 0:
                raise ValueError(f"muscle {self.name}: {key} must be positive, got {value}")
        for key, limit, said in (
            ("pennation", math.pi / 2, "an angle from 0 to below pi/2 [rad]"),
            ("damping", math.inf, "0 or more"),
        ):
            value = getattr(self, key)
            if value.is_number and not 0 <= value < limit:
                raise ValueError(f"muscle {self.name}: {key} must be {said}, got {value}")

    def _signal(self, what: str) -> AppliedUndef:
        return sp.Function(f"{self.name}_{what}")(t)

    @cached_property
    def activation(self) -> AppliedUndef:
        """The share of the fibres that are active, a state."""
        return self._signal("activation")

    @cached_property
    def excitation(self) -> AppliedUndef:
        """Neural excitation, an input."""
        return self._signal("excitation")

    @cached_property
    def normalised_force(self) -> AppliedUndef:
        """The force of a compliant tendon in units of the largest, a state."""
        return self._signal("tendon_force")

    def slope(self, q: sp.Expr) -> sp.Expr:
        """The derivative of the length with respect to a coordinate."""
        return self.length.diff(q)

    @property
    def activation_rate(self) -> sp.Expr:
        """The derivative of the activation [1/s]; times by the activation, as in Winters (1995), go
        over smoothly."""
        a, e = self.activation, self.excitation
        switch = sp.tanh(self.steepness * (e - a), evaluate=False)
        share, slow = switch / 2, sp.Rational(1, 2) + 3 * a / 2
        half = sp.Rational(1, 2)
        rise = (half + share) / (self.activation_time * slow)
        fall = (half - share) * slow / self.deactivation_time
        return (rise + fall) * (e - a)

    @property
    def _tendon(self) -> sp.Expr:
        """Length of the tendon [m]."""
        if self.tendon == "rigid":
            return self.slack_length
        return self.slack_length * tendon_length(self.normalised_force, self.tendon_strain)

    @property
    def fibres_along(self) -> sp.Expr:
        """Length of the fibres along the tendon [m]."""
        return self.length - self._tendon

    @property
    def fibre_length(self) -> sp.Expr:
        """Fibre length in units of the optimal length."""
        if self.pennation.is_zero:
            return self.fibres_along / self.optimal_length
        thickness = self.optimal_length * sp.sin(self.pennation)
        return sp.sqrt(self.fibres_along**2 + thickness**2) / self.optimal_length

    def cosine(self, length: sp.Expr) -> sp.Expr:
        """Cosine of the angle between fibres and tendon, at a length of the fibres in units of the
        optimal one."""
        if self.pennation.is_zero:
            return sp.S.One
        return self.fibres_along / (length * self.optimal_length)

    def fibre_velocity(self, rate: sp.Expr, cosine: sp.Expr) -> sp.Expr:
        """Fibre velocity in units of the largest; rate : at which muscle and tendon lengthen
        [m/s]."""
        if self.tendon == "compliant":
            force = self.normalised_force
            slope = _stiffness(self.tendon_strain) * (force + _C3)
            rate -= self.slack_length * force.diff(t) / slope
        return rate * cosine / (self.optimal_length * self.max_velocity)

    def fibre_force(self, rate: sp.Expr, named: Naming = spelled_out) -> sp.Expr:
        """Fibre force along the tendon, in units of the largest force. named : makes symbols of
        what is used several times, given its name and expression."""
        length = named(f"fibre.{self.name}", self.fibre_length)
        cosine = named(f"cosine.{self.name}", self.cosine(length))
        velocity = named(f"velocity.{self.name}", self.fibre_velocity(rate, cosine))
        active = self.activation * active_force(length, self.width) * velocity_force(velocity)
        passive = passive_force(length, self.passive_strain) + self.damping * velocity
        return (active + passive) * cosine

    def force(self, rate: sp.Expr, named: Naming = spelled_out) -> sp.Expr:
        """Tendon force [N]; arguments of `fibre_force`."""
        if self.tendon == "compliant":
            return self.max_force * self.normalised_force
        return self.max_force * self.fibre_force(rate, named)


def with_muscles(
    tree: Tree,
    muscles: Iterable[Muscle],
    torques: Mapping[Any, Any] | None = None,
    outputs: Mapping[str, sp.Expr] | Iterable[str | Mapping[str, sp.Expr]] = (),
    values: Mapping[Any, float] | None = None,
) -> Model:
    """The model of a tree that muscles drive, besides `torques`; see `Tree.model`.

    A muscle pulls on each speed with its force times minus the slope of its rate of lengthening:
    with its moment arm, if speeds are rates of coordinates. Further outputs are forces,
    `soleus_force` [N].

    Raises `ValueError` for two muscles of one name, and for lengths that depend on what the tree
    does not have.
    """
    made = listed_of(muscles, Muscle, f"muscles of {tree.name}")
    names = [muscle.name for muscle in made]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{tree.name} has two muscles {name}; rename one")
    tree = replace(tree)  # its intermediates get more
    steps = tree.recursion.steps
    total = tree.checked_torques(torques)
    moving = coordinate_rates(tree, steps)
    ways = {
        q: {name: rate.diff(u) for name, u in tree.speeds.items() if rate.has(u)}
        for q, rate in moving.items()
    }
    forces: dict[str, sp.Expr] = {}
    tendons: dict[AppliedUndef, sp.Expr] = {}
    pulls: dict[str, list[sp.Expr]] = {}
    for muscle in made:
        arms = _arms(tree, muscle, steps, moving)
        rate = -sp.Add(*(arm * moving[q] for q, arm in arms.items()))
        rate = steps.scalar(f"rate.{muscle.name}", rate)
        short = replace(muscle, length=steps.scalar(f"length.{muscle.name}", muscle.length))
        force = steps.scalar(f"force.{muscle.name}", short.force(rate, steps.scalar))
        forces[f"{muscle.name}_force"] = force
        for q, arm in arms.items():
            for name, way in ways[q].items():
                pulls.setdefault(name, []).append(arm * way * force)
        if muscle.tendon == "compliant":
            state = muscle.normalised_force
            tendons[state] = state - short.fibre_force(rate, steps.scalar)
    total |= {name: sp.Add(total.get(name, sp.S.Zero), *terms) for name, terms in pulls.items()}
    model = tree.model(total, [*_parts(outputs), forces], values)
    return _completed(tree, model, made, tendons)


def _arms(
    tree: Tree, muscle: Muscle, steps: Steps, moving: Iterable[AppliedUndef]
) -> dict[AppliedUndef, sp.Expr]:
    """Minus the slopes of the length by coordinates that move, as intermediates."""
    used = parts_of(AppliedUndef, muscle.length)
    if unknown := used - set(tree.coordinates.values()):
        first = min(map(name_of, unknown))
        raise ValueError(f"muscle {muscle.name}: {first} is no coordinate of {tree.name}")
    return {
        q: -steps.scalar(f"slope.{muscle.name}.{name_of(q)}", muscle.slope(q))
        for q in moving
        if q in used
    }


def _parts(outputs: Any) -> list[Any]:
    """Outputs as a list of kinds and expressions."""
    return [outputs] if isinstance(outputs, (Mapping, str)) else list(outputs)


def _completed(
    tree: Tree, model: Model, muscles: Sequence[Muscle], tendons: Mapping[AppliedUndef, sp.Expr]
) -> Model:
    """Model with the equations of activations and tendons."""
    rates = {muscle.activation: muscle.activation_rate for muscle in muscles}
    constant, still = standing(tree)
    rows = [e.xreplace(still) for e in tendons.values()]
    known = {symbol for symbol, _ in model.intermediates}
    steps = tree.recursion.steps.needed(rows)
    more = [(s, e.xreplace(still)) for s, e in steps if s not in known]
    used = parts_of(sp.Symbol, *rates.values(), *rows, *(e for _, e in more))
    used -= {*model.parameters, *known, *(symbol for symbol, _ in more), t}
    values = {q: 0.0 for q in constant.values() if q in used and q.name not in tree.values}
    inputs = [muscle.excitation for muscle in muscles]
    model = model.extended(rates, inputs, sorted(used, key=name_of), values=values)
    if not tendons:
        return model
    return replace(
        model,
        states=(*model.states, *tendons),
        inputs=tuple(u for u in model.inputs if u not in tendons),
        equations=(*model.equations, *rows),
        intermediates=(*model.intermediates, *more),
        explicit=None,
    )
