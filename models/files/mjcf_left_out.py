"""Elements of MuJoCo that change a motion and that no table has, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from xml.etree.ElementTree import Element

from kinesym.models.files.mjcf_bodies import SEVERAL, Skeleton
from kinesym.models.files.mjcf_geoms import numbers_of
from kinesym.models.files.mjcf_inertia import still_unread
from kinesym.models.files.mjcf_plain import ORIENTATIONS
from kinesym.models.files.mjcf_ties import TIES
from kinesym.models.files.xml import attribute, named

#: Number of names that are listed.
MANY = 4
#: Attributes that are read, and those that say nothing of a motion without contact and actuators,
#: or of how it is computed.
ATTRIBUTES = {
    "compiler": "angle autolimits balanceinertia boundinertia boundmass coordinate eulerseq "
    "inertiafromgeom inertiagrouprange settotalmass alignfree assetdir meshdir texturedir "
    "strippath conflict discardvisual convexhull exactmeshinertia fitaabb fusestatic passthrough "
    "savecanonical savecompiled saveinertial usethread",
    "option": "gravity density viscosity wind magnetic timestep apirate impratio tolerance "
    "ls_tolerance noslip_tolerance ccd_tolerance mpr_tolerance sleep_tolerance o_margin o_solref "
    "o_solimp o_friction integrator collision cone jacobian solver iterations ls_iterations "
    "noslip_iterations ccd_iterations mpr_iterations sdf_iterations sdf_initpoints "
    "actuatorgroupdisable",
    "frame": "name childclass pos",
    "body": "name childclass mocap pos gravcomp user simple fuse sleep",
    "inertial": "pos mass diaginertia fullinertia",
    "joint": "name class type pos axis springdamper limited range ref springref springyield "
    "stiffness damping armature frictionloss group margin user solreflimit solimplimit "
    "solreffriction solimpfriction actuatorfrclimited actuatorfrcrange actuatorgravcomp",
    "freejoint": "name group align",
    "geom": "name class type pos size fromto mass density shellinertia mesh hfield group contype "
    "conaffinity condim priority friction solmix solref solimp margin gap adhesion surfacevel "
    "material rgba fitscale fluidshape fluidcoef castshadow user",
    "site": "name class type pos size fromto mesh group material rgba user",
}
#: Elements whose own elements are looked at elsewhere.
HOLDERS = ("compiler", "option", "body", "frame")
#: Attributes of tendons that pull.
PULLING = ("stiffness", "damping", "armature", "frictionloss", "range")


def left_out_of(root: Element, equalities: Iterable[Element], skeleton: Skeleton) -> Iterator[str]:
    """Elements that are left out, by kinds, with names."""
    off = skeleton.settings.is_off
    tendons = [e for e in root.findall("tendon/*") if any(nonzero(e, name) for name in PULLING)]
    found = {
        "force of actuators": [] if off("actuation") else root.findall("actuator/*"),
        "force of tendons": tendons,
        "force of equalities": [e for e in equalities if e.tag not in TIES],
        **of_joints(skeleton),
        "effect of plugins": root.findall("extension/plugin"),
        "motion of mocap bodies": [
            node.element for node in skeleton.bodies if node.element.get("mocap") == "true"
        ],
        "mass of meshes that stand still": [*still_unread(skeleton)],
        "force of flexes": root.findall("deformable/flex"),
        "what is not known": [*unknown(root)],
    }
    yield from (f"{what} ({few(elements)})" for what, elements in found.items() if elements)
    if touching(root, skeleton):
        yield "contact of geoms"
    if nonzero(skeleton.settings.option, "density", "viscosity"):
        yield "force of the fluid"


def of_joints(skeleton: Skeleton) -> dict[str, list[Element]]:
    """Joints by their effects that are left out."""
    joints, off = [*skeleton.joints.values()], skeleton.settings.is_off
    return {
        "frictionloss of joints": [
            joint.element
            for joint in joints
            if nonzero(joint.element, "frictionloss") and not off("frictionloss", "constraint")
        ],
        "springyield of joints": [j.element for j in joints if nonzero(j.element, "springyield")],
        "stiffness of balls and free joints": [
            joint.element
            for joint in joints
            if joint.kind in SEVERAL
            and nonzero(joint.element, "stiffness", "springdamper")
            and not off("spring", "passive")
        ],
        "higher coefficients of damping of balls and free joints": [
            joint.element
            for joint in joints
            if joint.kind in SEVERAL and any(numbers_of(joint.element, "damping")[1:])
        ],
        "range of balls": [
            joint.element
            for joint in joints
            if joint.kind == "ball"
            and nonzero(joint.element, "range")
            and joint.element.get("limited") != "false"
            and not off("limit", "constraint")
        ],
    }


def nonzero(e: Element, *names: str) -> bool:
    """Whether one of these attributes has a number but 0."""
    return any(any(numbers_of(e, name)) for name in names)


def touching(root: Element, skeleton: Skeleton) -> bool:
    """Whether geoms can touch."""
    if skeleton.settings.is_off("contact", "constraint"):
        return False
    masks = Counter(
        (int(attribute(e, "contype", 1.0)), int(attribute(e, "conaffinity", 1.0)))
        for node in skeleton.nodes
        for e, _ in node.having("geom")
    )
    touch = any(a[0] & b[1] for a in masks for b in masks if a != b or masks[a] > 1)
    return touch or root.find("contact/pair") is not None


def unknown(root: Element) -> Iterator[Element]:
    """An element by the name of the attribute or element and where it is, for each that is not
    known."""
    sections = (e for tag in ("compiler", "option", "worldbody") for e in root.findall(tag))
    for e in (e for section in sections for e in section.iter() if e.tag in ATTRIBUTES):
        known = {*ATTRIBUTES[e.tag].split(), *ORIENTATIONS}
        strange = [name for name in e.attrib if name not in known]
        if e.tag not in HOLDERS:
            strange += [inner.tag for inner in e if inner.tag != "plugin"]
        yield from (Element(f"{name} of {named(e)}") for name in strange)


def few(elements: Sequence[Element]) -> str:
    """Their names, if they are not many; otherwise the first ones."""
    said = [[e.get(key) for key in ("name", "joint", "plugin")] for e in elements]
    names = [next(filter(None, words), e.tag) for words, e in zip(said, elements, strict=True)]
    more = f" and {len(names) - MANY + 1} more" if len(names) > MANY else ""
    return ", ".join(names[: MANY - 1] if more else names) + more
