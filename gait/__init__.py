"""`ks.gait`: from markers and force plates to joint torques and back to motion.

Names are loaded when they are first used: those that make models need SymPy, the rest does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kinesym.base.lazy import lazy_names

if TYPE_CHECKING:
    from kinesym.gait.axes import rotation as rotation
    from kinesym.gait.body import Body as Body
    from kinesym.gait.body import read_segments as read_segments
    from kinesym.gait.c3d_files import Recording as Recording
    from kinesym.gait.c3d_files import read_c3d as read_c3d
    from kinesym.gait.c3d_files import write_c3d as write_c3d
    from kinesym.gait.checks import Check as Check
    from kinesym.gait.checks import Finding as Finding
    from kinesym.gait.contacts import read_contacts as read_contacts
    from kinesym.gait.contacts import write_contacts as write_contacts
    from kinesym.gait.cutoffs import Residuals as Residuals
    from kinesym.gait.cutoffs import residual_analysis as residual_analysis
    from kinesym.gait.cutoffs import step_rate as step_rate
    from kinesym.gait.events import Contact as Contact
    from kinesym.gait.events import Cycle as Cycle
    from kinesym.gait.events import completed as completed
    from kinesym.gait.events import contacts_from_markers as contacts_from_markers
    from kinesym.gait.events import contacts_from_wrench as contacts_from_wrench
    from kinesym.gait.events import gait_cycle as gait_cycle
    from kinesym.gait.figures import flexion_angles as flexion_angles
    from kinesym.gait.figures import joint_torques as joint_torques
    from kinesym.gait.figures import tracking_errors as tracking_errors
    from kinesym.gait.force_files import read_forces as read_forces
    from kinesym.gait.force_files import write_forces as write_forces
    from kinesym.gait.forward import PD as PD
    from kinesym.gait.forward import Tracking as Tracking
    from kinesym.gait.functional import functional_centre as functional_centre
    from kinesym.gait.ground_forces import ContactForces as ContactForces
    from kinesym.gait.ground_forces import contact_forces as contact_forces
    from kinesym.gait.inverse import InverseDynamics as InverseDynamics
    from kinesym.gait.inverse import JointLoads as JointLoads
    from kinesym.gait.kinematics import Samples as Samples
    from kinesym.gait.kinematics import Spline as Spline
    from kinesym.gait.marker_files import read_csv as read_csv
    from kinesym.gait.marker_files import read_places as read_places
    from kinesym.gait.marker_files import read_trc as read_trc
    from kinesym.gait.marker_fit import MarkerFit as MarkerFit
    from kinesym.gait.marker_fit import fit_markers as fit_markers
    from kinesym.gait.marker_scale import Scaling as Scaling
    from kinesym.gait.marker_scale import scale as scale
    from kinesym.gait.marker_sets import marker_set as marker_set
    from kinesym.gait.markers import Markers as Markers
    from kinesym.gait.motion_files import Table as Table
    from kinesym.gait.motion_files import read_mot as read_mot
    from kinesym.gait.motion_files import read_table as read_table
    from kinesym.gait.natural.body import NaturalBody as NaturalBody
    from kinesym.gait.natural.constrained import ConstrainedSystem as ConstrainedSystem
    from kinesym.gait.natural.planar import PlanarBody as PlanarBody
    from kinesym.gait.plates import assign_plates as assign_plates
    from kinesym.gait.pressure import PressureTransfer as PressureTransfer
    from kinesym.gait.reconstruction import Reconstruction as Reconstruction
    from kinesym.gait.reconstruction import reconstruct as reconstruct
    from kinesym.gait.relations import Axes as Axes
    from kinesym.gait.relations import Carried as Carried
    from kinesym.gait.relations import Chord as Chord
    from kinesym.gait.relations import FunctionalCentre as FunctionalCentre
    from kinesym.gait.relations import Like as Like
    from kinesym.gait.relations import Midpoint as Midpoint
    from kinesym.gait.relations import Relations as Relations
    from kinesym.gait.relations import Shifted as Shifted
    from kinesym.gait.relations import Trial as Trial
    from kinesym.gait.relations import landmarks as landmarks
    from kinesym.gait.sessions import Session as Session
    from kinesym.gait.sessions import find_files as find_files
    from kinesym.gait.shared_reaction import Sharing as Sharing
    from kinesym.gait.sharing import share as share
    from kinesym.gait.sharing_methods import CorrectedForcePlates as CorrectedForcePlates
    from kinesym.gait.sharing_methods import LeastCorrection as LeastCorrection
    from kinesym.gait.sharing_methods import SmoothTransition as SmoothTransition
    from kinesym.gait.smoothing import SSA as SSA
    from kinesym.gait.smoothing import Butterworth as Butterworth
    from kinesym.gait.smoothing import GCVSpline as GCVSpline
    from kinesym.gait.strides import Strides as Strides
    from kinesym.gait.strides import read_norms as read_norms
    from kinesym.gait.walks import Walk as Walk
    from kinesym.gait.wrench import Wrench as Wrench
    from kinesym.models.planar_body import planar_body as planar_body
    from kinesym.models.planar_body import planar_segments as planar_segments
    from kinesym.models.whole_body import check_mass as check_mass
    from kinesym.models.whole_body import segments_of_body as segments_of_body
    from kinesym.models.whole_body import segments_with as segments_with
    from kinesym.models.whole_body import whole_body as whole_body
    from kinesym.models.whole_body import write_segments as write_segments
    from kinesym.symbolic.multibody.segments import PlanarSegment as PlanarSegment
    from kinesym.symbolic.multibody.segments import Segment as Segment

__getattr__, __all__ = lazy_names(__name__, __file__)


def __dir__() -> list[str]:
    return __all__
