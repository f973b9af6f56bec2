"""Multibody models of open trees: bodies, joints, bases, and the tree that makes the model."""

from kinesym.symbolic.multibody.base import FixedBase, PrescribedBase
from kinesym.symbolic.multibody.base_parameters import BaseParameters
from kinesym.symbolic.multibody.bodies import Body, Imu, Load
from kinesym.symbolic.multibody.joints import (
    Custom,
    Fixed,
    Free,
    Oriented,
    Planar,
    Prismatic,
    Revolute,
    Spherical,
    Universal,
)
from kinesym.symbolic.multibody.matrices import matrix_model
from kinesym.symbolic.multibody.muscles import Muscle, with_muscles
from kinesym.symbolic.multibody.tree import Tree

__all__ = [
    "BaseParameters",
    "Body",
    "Custom",
    "Fixed",
    "FixedBase",
    "Free",
    "Imu",
    "Load",
    "Muscle",
    "Oriented",
    "Planar",
    "PrescribedBase",
    "Prismatic",
    "Revolute",
    "Spherical",
    "Tree",
    "Universal",
    "matrix_model",
    "with_muscles",
]
