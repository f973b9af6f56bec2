"""Tables of a model file, whatever the format. SI units and radians."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias
from xml.etree.ElementTree import Element

Triple: TypeAlias = tuple[float, float, float]
#: Rows of a rotation matrix.
Turn: TypeAlias = tuple[Triple, Triple, Triple]

UPRIGHT: Turn = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))


# -- functions of coordinates ---------------------------------------------------------------------


@dataclass(frozen=True)
class Constant:
    """Constant function."""

    value: float


@dataclass(frozen=True)
class Linear:
    """The first coefficients times the coordinates, plus the last one."""

    coefficients: tuple[float, ...]


@dataclass(frozen=True)
class Polynomial:
    """Polynomial of one coordinate; the coefficient of the highest power comes first."""

    coefficients: tuple[float, ...]


@dataclass(frozen=True)
class Multivariate:
    """A polynomial of several coordinates, all terms up to an order; powers of the last coordinate
    rise first."""

    order: int
    coefficients: tuple[float, ...]


@dataclass(frozen=True)
class Points:
    """Through points, in a way that `ks.table` knows by its name (`kind`), and beyond them
    (`outside`)."""

    kind: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    outside: str = "linear"


@dataclass(frozen=True)
class Sine:
    """amplitude sin(omega q + phase) + offset."""

    amplitude: float
    omega: float
    phase: float
    offset: float


@dataclass(frozen=True)
class OnEllipsoid:
    """Radius times a component of the axis z of axes that were turned about x, then y, by two
    coordinates: where their origin is on an ellipsoid that z is across to."""

    axis: int
    radius: float


@dataclass(frozen=True)
class OnArc:
    """A component of the end of an arc of a circle of this length [m] that begins along y and ends
    along y turned about x, then z, by two coordinates, beyond angles of `neutral` [rad]."""

    axis: int
    length: float
    neutral: tuple[float, ...] = (0.0, 0.0)


@dataclass(frozen=True)
class Scaled:
    """A function times a number."""

    function: Function
    scale: float


Function: TypeAlias = (
    Constant | Linear | Polynomial | Multivariate | Points | Sine | OnEllipsoid | OnArc | Scaled
)


# -- rows -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BodyRow:
    """A rigid body. com : in its axes [m]. inertia : xx, yy, zz, xy, xz, yz about the centre of
    mass [kg m^2]. carried : the share of its weight that is taken off it."""

    name: str
    mass: float
    com: Triple
    inertia: tuple[float, float, float, float, float, float]
    carried: float = 0.0


@dataclass(frozen=True)
class Frame:
    """Axes that are fixed in a body; in the ground if that is None. at : their origin in those of
    the body [m]. turn : the rotation that takes components along them to those of the body."""

    body: str | None
    at: Triple = (0.0, 0.0, 0.0)
    turn: Turn = UPRIGHT


@dataclass(frozen=True)
class CoordinateRow:
    """A coordinate of a joint [rad or m]: value to begin with, range, whether it stays at its
    value."""

    name: str
    default: float = 0.0
    range: tuple[float, float] | None = None
    locked: bool = False


@dataclass(frozen=True)
class Motion:
    """A rotation about, or translation along, a direction by a function of coordinates."""

    direction: Triple
    function: Function
    coordinates: tuple[str, ...] = ()


@dataclass(frozen=True)
class JointRow:
    """Joint, the motion of the axes of the child in those of the parent: translations along axes of
    the parent frame, then rotations one after the other."""

    name: str
    parent: Frame
    child: Frame
    coordinates: tuple[CoordinateRow, ...] = ()
    rotations: tuple[Motion, ...] = ()
    translations: tuple[Motion, ...] = ()


@dataclass(frozen=True)
class Passive:
    """Passive forces of a joint: spring, damper and rotor along a coordinate, or about the axis of
    the relative rotation by three coordinates, which turn about x, y, z in turn.

    stiffness : of a spring, coefficients of x, x^2, ... with x from `rest`, of one coordinate only.
    damping : of v, v |v|, v^3, ... with the rate v; the first one only of three coordinates.
    armature : inertia of a rotor behind a gear [kg m^2, kg].
    """

    coordinates: tuple[str, ...]
    stiffness: tuple[float, ...] = ()
    rest: float = 0.0
    damping: tuple[float, ...] = ()
    armature: float = 0.0


@dataclass(frozen=True)
class Coupler:
    """A coordinate that is a function of others."""

    name: str
    coordinate: str
    function: Function
    of: tuple[str, ...]


@dataclass(frozen=True)
class Loop:
    """Two frames that are held together. kind : "weld", or "point" for their origins alone."""

    name: str
    kind: str
    first: Frame
    second: Frame


@dataclass(frozen=True)
class MarkerRow:
    """A point of a body, in its axes [m]."""

    name: str
    body: str | None
    at: Triple


@dataclass(frozen=True)
class Sphere:
    """A sphere for contact. center : in the axes of its body; radius [m]."""

    name: str
    body: str | None
    center: Triple
    radius: float


@dataclass(frozen=True)
class HalfSpace:
    """Half-space that a sphere may touch: all points behind a plane. point : of the plane [m];
    normal : away from what is behind, both in the axes of the body, None for the ground."""

    name: str
    body: str | None
    point: Triple
    normal: Triple


@dataclass(frozen=True)
class PathPoint:
    """A point of a path. at : in the axes of the frame [m], from where it moves. when : a
    coordinate and the range [rad, m] in which the path has the point."""

    frame: Frame
    at: Triple = (0.0, 0.0, 0.0)
    moves: tuple[Motion, ...] = ()
    when: tuple[str, float, float] | None = None


@dataclass(frozen=True)
class Wrap:
    """A surface that a path goes around. kind : "cylinder" about z, "sphere" or "ellipsoid". sizes
    : radius and length, radius, or three half axes [m]. frame : its axes. side : the half that the
    path may touch: the number of an axis and 1 or -1. span : numbers of the first and last point
    between which the path may touch it."""

    name: str
    kind: str
    sizes: tuple[float, ...]
    frame: Frame
    side: tuple[int, int] | None = None
    span: tuple[int, int] | None = None


@dataclass(frozen=True)
class MuscleRow:
    """A muscle as a file has it. kind : the class of OpenSim. numbers : by their names in
    `kinesym.multibody.Muscle`, as far as the file has them [SI]."""

    name: str
    kind: str
    numbers: dict[str, float]
    points: tuple[PathPoint, ...]
    wraps: tuple[Wrap, ...] = ()


@dataclass(frozen=True)
class Description:
    """A model as its file has it.

    joints : in the order of the file, which need not be from the ground outwards. left_out : what
    the file has and these tables have not, as sentences. element : the whole model in the file, for
    readers of other parts; None if the format is none of XML. forces : elements of forces and
    actuators among these. muscles : those of the forces that are muscles. passive : springs,
    dampers and rotors of joints.
    """

    name: str
    gravity: Triple
    bodies: tuple[BodyRow, ...]
    joints: tuple[JointRow, ...]
    couplers: tuple[Coupler, ...] = ()
    markers: tuple[MarkerRow, ...] = ()
    spheres: tuple[Sphere, ...] = ()
    half_spaces: tuple[HalfSpace, ...] = ()
    left_out: tuple[str, ...] = ()
    element: Element | None = None
    forces: tuple[Element, ...] = ()
    muscles: tuple[MuscleRow, ...] = ()
    loops: tuple[Loop, ...] = ()
    version: str = ""
    passive: tuple[Passive, ...] = ()

    @property
    def coordinates(self) -> dict[str, CoordinateRow]:
        """Coordinates of all joints by name."""
        return {row.name: row for joint in self.joints for row in joint.coordinates}
