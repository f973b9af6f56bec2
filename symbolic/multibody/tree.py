"""Multibody models of open trees from a table of bodies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import sympy as sp

from kinesym.symbolic.expression import real_expressions
from kinesym.symbolic.model import Model
from kinesym.symbolic.multibody.assemble import assemble
from kinesym.symbolic.multibody.bodies import check_values
from kinesym.symbolic.multibody.mechanism import Mechanism
from kinesym.symbolic.multibody.outputs import named_outputs
from kinesym.symbolic.names import by_name, check_known


@dataclass(frozen=True, eq=False)
class Tree(Mechanism):
    """An open tree of rigid bodies on a fixed or moving base.

    bodies : each after its parent. base : `FixedBase()` or `PrescribedBase()`.
    gravity : in world axes [m/s^2], e.g. (0, 0, -g). loads : external ones, or a function that
        makes them from the tree without loads, for forces that depend on its motion:
        `loads=lambda tree: [Load("foot", (0, 0, -k * tree.place("foot")[2]))]`.
    locked : names of speeds that are zero; see `lock`. lockable : see there.
    values : default values of parameters, by name. imus : inertial sensors on bodies, which the
        outputs "imu" are of.

    Raises `ValueError` for bodies that make no tree or cannot exist, naming the body.
    """

    def model(
        self,
        torques: Mapping[Any, Any] | None = None,
        outputs: Mapping[str, sp.Expr] | Iterable[str | Mapping[str, sp.Expr]] = (),
        values: Mapping[Any, float] | None = None,
    ) -> Model:
        """Equations of motion with these generalised forces by the name of their speeds [N m, N].

        outputs : expressions by name, or a list of such and of families: "places" (which lets
            trajectories be animated), "velocities", "attitudes", "imu", "center_of_mass",
            "momentum", "energy", "actuators", "base_wrench", "joint_wrenches", "held"; see
            `kinesym.symbolic.multibody.outputs`.

        values : of parameters; they come before those of the tree. Those that the model does not
            have are left out, as one table serves whatever is locked.

        Whatever function of time appears that is no coordinate and no speed becomes an input, every
        other symbol a parameter. Raises `ValueError` if a speed or family is unknown or if the
        values are those of bodies that cannot exist.
        """
        torques = self.checked_torques(torques)
        numbers = {**self.values, **self.numbers(values)}
        check_values(self.bodies, numbers)
        return assemble(self, torques, named_outputs(self, torques, outputs), numbers)

    def checked_torques(self, given: Mapping[Any, Any] | None) -> dict[str, sp.Expr]:
        """Generalised forces by the name of their speed; raises `ValueError` for another name."""
        torques = by_name({} if given is None else given, None, f"torques of {self.name}")
        for name in torques:
            check_known(name, self.speeds, f"torques: {name} is no speed")
        return real_expressions(torques, "torque")
