"""`ks.gait`: from markers and force plates to joint torques and back to motion.

What makes models is loaded when it is first used, so that the rest works without SymPy.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from kinesym.gait.control import PD
from kinesym.gait.events import (
    Contact,
    Cycle,
    assign_plates,
    completed,
    contacts_from_markers,
    contacts_from_wrench,
    gait_cycle,
)
from kinesym.gait.figures import flexion_angles, joint_torques, tracking_errors
from kinesym.gait.forward import Tracking
from kinesym.gait.inverse import InverseDynamics, JointLoads
from kinesym.gait.kinematics import Samples, Spline
from kinesym.gait.markers import Markers
from kinesym.gait.natural.body import NaturalBody
from kinesym.gait.natural.constrained import ConstrainedSystem
from kinesym.gait.natural.planar import PlanarBody
from kinesym.gait.readers import (
    read_c3d,
    read_csv,
    read_forces,
    read_mot,
    read_places,
    read_table,
    read_trc,
)
from kinesym.gait.reconstruct import Reconstruction, reconstruct
from kinesym.gait.relations import (
    Axes,
    Carried,
    Like,
    Midpoint,
    Relations,
    Shifted,
    Trial,
    landmarks,
)
from kinesym.gait.sharing import (
    CorrectedForcePlates,
    LeastCorrection,
    Sharing,
    SmoothTransition,
    share,
)
from kinesym.gait.smoothing import SSA
from kinesym.gait.wrench import Wrench
from kinesym.symbolic.multibody.segments import PlanarSegment, Segment

if TYPE_CHECKING:
    from kinesym.gait.body import Body as Body
    from kinesym.gait.body import read_segments as read_segments
    from kinesym.models.planar_body import planar_body as planar_body
    from kinesym.models.planar_body import planar_segments as planar_segments
    from kinesym.models.whole_body import check_mass as check_mass
    from kinesym.models.whole_body import segments_of_body as segments_of_body
    from kinesym.models.whole_body import segments_with as segments_with
    from kinesym.models.whole_body import whole_body as whole_body
    from kinesym.models.whole_body import write_segments as write_segments

__all__ = [
    "PD",
    "SSA",
    "Axes",
    "Body",
    "Carried",
    "ConstrainedSystem",
    "Contact",
    "CorrectedForcePlates",
    "Cycle",
    "InverseDynamics",
    "JointLoads",
    "LeastCorrection",
    "Like",
    "Markers",
    "Midpoint",
    "NaturalBody",
    "PlanarBody",
    "PlanarSegment",
    "Reconstruction",
    "Relations",
    "Samples",
    "Segment",
    "Sharing",
    "Shifted",
    "SmoothTransition",
    "Spline",
    "Tracking",
    "Trial",
    "Wrench",
    "assign_plates",
    "check_mass",
    "completed",
    "contacts_from_markers",
    "contacts_from_wrench",
    "flexion_angles",
    "gait_cycle",
    "joint_torques",
    "landmarks",
    "planar_body",
    "planar_segments",
    "read_c3d",
    "read_csv",
    "read_forces",
    "read_mot",
    "read_places",
    "read_segments",
    "read_table",
    "read_trc",
    "reconstruct",
    "segments_of_body",
    "segments_with",
    "share",
    "tracking_errors",
    "whole_body",
    "write_segments",
]

#: Where the names are that need SymPy.
_HOME = {
    "Body": "gait.body",
    "check_mass": "models.whole_body",
    "planar_body": "models.planar_body",
    "planar_segments": "models.planar_body",
    "read_segments": "gait.body",
    "segments_of_body": "models.whole_body",
    "segments_with": "models.whole_body",
    "whole_body": "models.whole_body",
    "write_segments": "models.whole_body",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"kinesym.gait has no {name}; it has {', '.join(__all__)}")
    value = getattr(importlib.import_module(f"kinesym.{_HOME[name]}"), name)
    globals()[name] = value
    return value
