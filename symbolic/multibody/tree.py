"""Multibody models of trees, open or with closed loops, from a table of bodies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sympy as sp

from kinesym.base.checks import check_identifier
from kinesym.symbolic.expression import real_expression
from kinesym.symbolic.model import Model
from kinesym.symbolic.multibody.assemble import assemble
from kinesym.symbolic.multibody.base_parameters import BaseParameters, base_parameters
from kinesym.symbolic.multibody.bodies import Body, check_values, inertia_matrix, mass_of
from kinesym.symbolic.multibody.closures import Closure, Coupling
from kinesym.symbolic.multibody.consistent import consistent_body, inertia_bounds, moments_of
from kinesym.symbolic.multibody.joints import rotation_matrix, unit
from kinesym.symbolic.multibody.mechanism import Mechanism
from kinesym.symbolic.multibody.outputs import named_outputs
from kinesym.symbolic.multibody.vectors import IDENTITY, vector
from kinesym.symbolic.names import check_known, names_of


@dataclass(frozen=True, repr=False, eq=False)
class Tree(Mechanism):
    """A tree of rigid bodies on a fixed or moving base.

    bodies : each after its parent. base : `FixedBase()` or `PrescribedBase()`.
    gravity : in world axes [m/s^2], e.g. (0, 0, -g). loads : external ones, or a function that
        makes them from the tree without loads, for forces that depend on its motion:
        `loads=lambda tree: [Load("foot", (0, 0, -k * tree.place("foot")[2]))]`.
    locked : names of speeds that are zero; see `lock`. lockable : see there.
    values : default values of parameters, by name. imus : inertial sensors on bodies, which the
        outputs "imu" are of. closures : conditions that close loops; made by `close` and
        `constrain`. passive : generalised forces that joints have by themselves, by the name of
        their speeds, springs, dampers, and of rotors behind gears minus their inertia times the
        rates of speeds [N m, N]; torques and `ks.inverse_dynamics` are what acts besides.

    Raises `ValueError` for bodies that make no tree or cannot exist, naming the body.
    """

    def model(
        self,
        torques: Mapping[Any, Any] | None = None,
        outputs: Mapping[str, sp.Expr] | Iterable[str | Mapping[str, sp.Expr]] = (),
        values: Mapping[Any, float] | None = None,
    ) -> Model:
        """Equations of motion with these generalised forces by the name of their speeds [N m, N].

        outputs : expressions by name, or a list of such and of kinds: "places" (which lets
            trajectories be animated), "velocities", "attitudes", "imu", "center_of_mass",
            "momentum", "energy", "actuators", "base_wrench", "joint_wrenches", "held"; see
            `kinesym.symbolic.multibody.outputs`.

        values : of parameters; they come before those of the tree. Those that the model does not
            have are left out, as one table serves whatever is locked.

        Whatever function of time appears that is no coordinate and no speed becomes an input, those
        that drive joints in the order of the speeds, then others by name; every other symbol is a
        parameter. Raises `ValueError` if a speed or a kind is unknown or if the
        values are those of bodies that cannot exist.
        """
        torques = self.checked_torques(torques)
        numbers = {**self.values, **self.numbers(values)}
        check_values(self.bodies, numbers)
        return assemble(self, torques, named_outputs(self, torques, outputs), numbers)

    def close(
        self,
        body: str,
        other: str | None = None,
        kind: str = "point",
        *,
        at: Sequence[Any] = (0, 0, 0),
        to: Sequence[Any] = (0, 0, 0),
        axis: str | Sequence[Any] = "y",
        to_axis: str | Sequence[Any] | None = None,
        radius: Any = 0,
        crown: Any = 0,
        attitude: Sequence[Sequence[Any]] = IDENTITY,
        name: str | None = None,
    ) -> Tree:
        """The tree with a loop closed: a body that is held by another one, or by the base.

        kind : "point": the points `at` and `to`, in the axes of either body [m], coincide. "hinge":
            so do `axis` and `to_axis`, by default the same. "weld": the axes of both bodies are
            the same, or turned by the rotation `attitude` from those of the body to those of the
            other.
            "rolling": the body is a wheel with this axis, centre `at` and radius [m], which rolls
            without slip on the plane z = 0 of the world; crown : radius of the cross-section of its
            tyre [m], 0 for a knife edge.

        Forces of the loop on the body are states: `foot_pedal_fx`, ... along axes of the world [N]
        and `foot_pedal_m1`, ... [N m], with `name` in place of `foot_pedal`; of the ground on a
        wheel `wheel_base_fx` ahead, `_fy` across, along the axle, and `_fz` up. The model is one of
        higher index; see `Model.reduced_index`. Raises `ValueError` for what is no body.
        """
        for one in (body, *([other] if other is not None else [])):
            check_known(one, [b.name for b in self.bodies], f"close: {one} is no body")
        ours, theirs = (
            unit(a) if isinstance(a, str) else vector(a, "the axis of a loop")
            for a in (axis, axis if to_axis is None else to_axis)
        )
        closure = Closure(
            body,
            other,
            kind,
            vector(at, "at"),
            vector(to, "to"),
            ours,
            theirs,
            real_expression(radius, "radius"),
            real_expression(crown, "crown"),
            f"{body}_{other or 'base'}" if name is None else name,
            rotation_matrix(attitude, f"the attitude of the loop at {body}"),
        )
        return self._closed(closure)

    def constrain(self, expression: Any, name: str) -> Tree:
        """The tree with an expression of its coordinates, or of these and linearly of its speeds,
        that stays zero: gears, screws, guides, given motions.

        `name` is a state, the multiplier: the generalised force on a speed is this times the
        derivative of the expression, or of its rate, with respect to the speed. See `close`. Raises
        `ValueError` for an expression that binds nothing or is not linear in the speeds.
        """
        check_identifier(name, "the name of a constraint")
        made = self._closed(Coupling(name, real_expression(expression, f"constraint {name}")))
        made.closures[-1].conditions(self)  # to be refused here
        return made

    def base_parameters(self, measured: Iterable[Any] | str | None = None) -> BaseParameters:
        """Base parameters: the fewest combinations of masses, first moments and moments of inertia
        that generalised forces depend on, along any motion; all that can be identified from them.

        measured : names of speeds, or of bodies for their joints, whose forces are known, and
            "base_wrench" for the force and moment between base and tree; all speeds by default. A
            free root has its wrench, as of force plates, along its own speeds.

        Found by exact rank in prime fields, wrong with a probability below 1e-8. Sines and cosines
        of coordinates are exact; other functions of joints than polynomials, as those of data,
        count as any. Raises `ValueError` for names of no joint, and for closed loops.
        """
        return base_parameters(self, measured)

    def consistent(self, *bodies: str) -> Tree:
        """The tree with mass, centre and inertia of bodies as functions of ten numbers each, of
        which any make a body that can exist; of all bodies that have mass and inertia by default.

        `upper_m` > 0 [kg], the centre `upper_cx`, ... [m], and the Cholesky factor of its second
        moments about that, divided by the mass: `upper_Dxx`, `upper_Dyy`, `upper_Dzz` > 0,
        `upper_Dxy`, ... [m]. `inertias` is what a fit has to know, `moments_of_inertia` is what it
        finds. Bodies in a plane, with inertia (0, 0, I), have a radius of gyration `upper_Dzz`.
        Values are those of the tree; thin bodies get some thickness, so that a fit can start.

        Raises `ValueError` for what is no body, or has no mass or inertia.
        """
        chosen = self._bodies(
            bodies, lambda b: mass_of(b) != 0 and any(map(any, inertia_matrix(b)))
        )
        made = {b.name: consistent_body(b, dict(self.values)) for b in chosen}
        values = {name: value for _, own in made.values() for name, value in own.items()}
        rows = tuple(made[b.name][0] if b.name in made else b for b in self.bodies)
        return replace(self, bodies=rows, values={**self.values, **values})

    def inertias(self, *bodies: str) -> dict[str, tuple[float, float] | None]:
        """Parameters that mass, centre and inertia of bodies are of, of all by default, with their
        bounds, as problems take them: `unknown=tree.inertias()`.

        Of a tree by `consistent`, all estimates are bodies that can exist.
        """
        found = [inertia_bounds(body) for body in self._bodies(bodies)]
        return {name: bounds for own in found for name, bounds in own.items()}

    def moments_of_inertia(self, *bodies: str) -> dict[str, sp.Expr]:
        """Moments of inertia of bodies about their centres, of all by default, by name such as
        `upper_Ixy`, as expressions of parameters; `fit.interval(e)` has the standard error."""
        found = [moments_of(body) for body in self._bodies(bodies)]
        return {name: e for own in found for name, e in own.items()}

    def _bodies(
        self, names: Iterable[str], wanted: Callable[[Body], bool] = lambda body: True
    ) -> list[Body]:
        """Bodies of these names, without names all that are wanted."""
        chosen = names_of(names, f"bodies of {self.name}")
        for name in chosen:
            self._check_body(name)
        return [b for b in self.bodies if (b.name in chosen if chosen else wanted(b))]

    def _closed(self, closure: Closure | Coupling) -> Tree:
        if closure.name in {other.name for other in self.closures}:
            raise ValueError(f"{self.name} has a loop {closure.name} already; give a name=")
        return replace(self, closures=(*self.closures, closure))

    def checked_torques(self, given: Mapping[Any, Any] | None) -> dict[str, sp.Expr]:
        """Generalised forces by the name of their speed; raises `ValueError` for another name."""
        return self.forces(given, "torque")
