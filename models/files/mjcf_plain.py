"""MJCF spelled out: without included files, and with the attributes of default classes in place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from xml.etree.ElementTree import Element

from kinesym.base.checks import shown
from kinesym.models.files.xml import listed_numbers, named, root_of

Attributes: TypeAlias = Mapping[str, str]
#: Attributes of the elements of a class, by tag.
Class: TypeAlias = dict[str, Attributes]

#: Ways to say an orientation; one that an element has hides all that its class has.
ORIENTATIONS = ("quat", "axisangle", "xyaxes", "zaxis", "euler")
#: Attributes of several numbers of which an element may give the first ones only.
PARTIAL = ("size", "stiffness", "damping", "polycoef")
#: Elements of bodies that have classes.
WITH_CLASS = ("joint", "geom", "site")
#: Sections of a model; which elements they may hold is not checked but in bodies.
SECTIONS = (
    *("compiler", "option", "size", "statistic", "visual", "default", "custom", "extension"),
    *("asset", "worldbody", "deformable", "contact", "equality", "tendon", "actuator", "sensor"),
    "keyframe",
)


def plain_root(path: str | Path) -> Element:
    """The root of a model of MuJoCo, spelled out.

    Raises `FileNotFoundError`, also for a file that is included, and `ValueError` for what is no
    model.
    """
    root = root_of(path)
    if root.tag != "mujoco":
        raise ValueError(f"it is no model of MuJoCo: its root is {root.tag}")
    folder = Path(path).resolve().parent
    include(root, folder, folder, {Path(path).resolve()})
    for section in root:
        if section.tag not in SECTIONS:
            raise ValueError(f"{named(section)} is no section of a model of MuJoCo")
    if root.find("worldbody") is None:
        raise ValueError("it is no whole model of MuJoCo: it has no worldbody")
    classes = classes_of(root)
    for section in root:
        if section.tag == "worldbody":
            inherit(section, classes)
        elif section.tag != "default":
            for e in section:
                fill(e, "main", classes)
    return root


# -- included files -------------------------------------------------------------------------------


def include(parent: Element, folder: Path, main: Path, seen: set[Path]) -> None:
    """Replace elements that include files by the contents of these files.

    folder : of the file of `parent`, which names of files are relative to; main : of the model, if
    there is none. seen : files that were read.
    """
    found = list[Element]()
    for child in parent:
        if child.tag != "include":
            include(child, folder, main, seen)
            found.append(child)
            continue
        name = child.get("file")
        if not name:
            raise ValueError("an include has no file")
        path = (folder / name).resolve()
        path = path if path.is_file() else (main / name).resolve()
        if path in seen:
            raise ValueError(f"the file {name} is included twice")
        seen.add(path)
        try:
            other = root_of(path)
        except ValueError as error:
            raise ValueError(f"included file {name}: {error}") from error
        include(other, path.parent, main, seen)
        found += other
    parent[:] = found


# -- classes of defaults --------------------------------------------------------------------------


def classes_of(root: Element) -> dict[str, Class]:
    """Classes of a model by name, each with its inherited defaults. Sections are read in turn."""
    classes: dict[str, Class] = {"main": {}}
    for section in root.findall("default"):
        if (name := section.get("class", "main")) != "main":
            raise ValueError(f"the outermost default has the class main, got {shown(name)}")
        classes["main"] = extended(classes["main"], section)
        add_classes(section, "main", classes)
    return classes


def extended(inherited: Class, section: Element) -> Class:
    """A class with what a section says."""
    found = dict(inherited)
    for e in section:
        if e.tag != "default":
            found[e.tag] = merged(found.get(e.tag, {}), e)
    return found


def add_classes(section: Element, name: str, classes: dict[str, Class]) -> None:
    """Add the classes within one."""
    for inner in section.findall("default"):
        own = inner.get("class")
        if not own:
            raise ValueError(f"a default within that of the class {name} has no class")
        if own in classes:
            raise ValueError(f"the class {own} of defaults is defined twice")
        classes[own] = extended(classes[name], inner)
        add_classes(inner, own, classes)


def merged(inherited: Attributes, e: Element) -> dict[str, str]:
    """The attributes of an element over those that it inherits."""
    own = e.attrib
    turned = any(name in own for name in ORIENTATIONS)
    found = {k: v for k, v in inherited.items() if not (turned and k in ORIENTATIONS)} | own
    for name in PARTIAL:
        if name in own and name in inherited:
            words = own[name].split()
            found[name] = " ".join([*words, *inherited[name].split()[len(words) :]])
    return found


def fill(e: Element, name: str, classes: Mapping[str, Class]) -> None:
    """Give an element what its class has, by default the one of this name."""
    name = e.get("class", name)
    if name not in classes:
        raise ValueError(f"{named(e)}: there is no class {name} of defaults")
    e.attrib = merged(classes[name].get(e.tag, {}), e)


def inherit(world: Element, classes: Mapping[str, Class]) -> None:
    """Give joints, geoms and sites what their classes have."""
    waiting = [(world, "main")]
    while waiting:
        parent, name = waiting.pop()
        name = parent.get("childclass", name)
        if name not in classes:
            raise ValueError(f"{named(parent)}: there is no class {name} of defaults")
        for e in parent:
            if e.tag in ("body", "frame"):
                waiting.append((e, name))
            elif e.tag in WITH_CLASS:
                fill(e, name, classes)


def word(e: Element, name: str, known: tuple[str, ...]) -> str:
    """A word of an element, the first of those known if it has none."""
    said = e.get(name, known[0])
    if said not in known:
        raise ValueError(f"{named(e)}: {name} is {' or '.join(known)}, got {shown(said)}")
    return said


# -- settings -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Settings:
    """Settings of a whole model: attributes of all its elements `compiler`, of `option`, and the
    flags of these."""

    compiler: Element
    option: Element
    flags: Attributes

    def is_off(self, *flags: str) -> bool:
        """Whether one of these flags is disabled."""
        return any(self.flags.get(flag) == "disable" for flag in flags)

    def choice(self, name: str, known: tuple[str, ...]) -> str:
        """A word of `compiler`, the first of those known if it has none."""
        return word(self.compiler, name, known)

    @property
    def degrees(self) -> bool:
        """Whether angles are in degrees."""
        return self.choice("angle", ("degree", "radian")) == "degree"

    @property
    def sequence(self) -> str:
        """The axes of Euler angles; capital letters for axes that do not turn along."""
        said = self.compiler.get("eulerseq", "xyz")
        if len(said) != 3 or not {*said} <= {*"xyzXYZ"}:
            raise ValueError(f"compiler: eulerseq is three of x, y, z, X, Y, Z, got {shown(said)}")
        return said

    @property
    def groups(self) -> tuple[float, float]:
        """The first and the last group of geoms that have mass."""
        first, last = listed_numbers(self.compiler, "inertiagrouprange", 2, (0.0, 5.0))
        return first, last


def settings_of(root: Element) -> Settings:
    """The settings of a model."""

    def joined(tag: str) -> Element:
        found = Element(tag.rpartition("/")[2])
        for e in root.findall(tag):
            found.attrib.update(e.attrib)
        return found

    found = Settings(joined("compiler"), joined("option"), joined("option/flag").attrib)
    if found.compiler.get("coordinate", "local") != "local":
        raise ValueError(
            "compiler: coordinates that are global are not understood, nor by MuJoCo since 2.3.4; "
            "load and save the model by MuJoCo 2.3.3"
        )
    return found
