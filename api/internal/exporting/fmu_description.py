"""The model description of an FMU, in XML of FMI 3.0 and of FMI 2.0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import version as version_of
from xml.etree import ElementTree

from kinesym.codegen.exported import Exported
from kinesym.internal.exporting.fmu_component import METHODS, Component, described_units

Element = ElementTree.Element

#: Causality, variability and `initial` of variables, by group. States can be tuned before a run,
#: and seen.
_KINDS: Mapping[str, tuple[str, str, str]] = {
    "time": ("independent", "continuous", ""),
    "states": ("output", "continuous", "exact"),
    "rates": ("local", "continuous", "calculated"),
    "inputs": ("input", "continuous", ""),
    "parameters": ("parameter", "tunable", "exact"),
    "outputs": ("output", "continuous", "calculated"),
    "modes": ("local", "discrete", "exact"),
    "indicators": ("local", "continuous", "calculated"),
}
#: What can be depended on, by its value reference, and whether that is linear.
_Dependencies = dict[int, bool]


def description(found: Component, identifier: str, version: str, token: str, step: float) -> bytes:
    """modelDescription.xml. step : of co-simulation [s]."""
    new = version == "3.0"
    about = {
        "fmiVersion": version,
        "modelName": found.model.name,
        "instantiationToken" if new else "guid": token,
        "generationTool": f"kinesym {version_of('kinesym')}",
        "variableNamingConvention": "flat",
    }
    if not new:
        about["numberOfEventIndicators"] = str(len(found.events))
    root = Element("fmiModelDescription", about)
    _interfaces(root, found, identifier, new)
    units = ElementTree.SubElement(root, "UnitDefinitions")
    for name, base in described_units(found):
        unit = ElementTree.SubElement(units, "Unit", name=name)
        if base is not None:
            numbers = {b: str(k) for b, k in base.exponents.items()}
            numbers |= {"factor": repr(base.factor)} if base.factor != 1.0 else {}
            numbers |= {"offset": repr(base.offset)} if base.offset else {}
            ElementTree.SubElement(unit, "BaseUnit", numbers)
    categories = ElementTree.SubElement(root, "LogCategories")
    ElementTree.SubElement(categories, "Category", name="logStatus")
    ElementTree.SubElement(root, "DefaultExperiment", startTime="0.0", stepSize=repr(step))
    variables = ElementTree.SubElement(root, "ModelVariables")
    for group, name, reference in _variables(found):
        if new:
            variables.append(_variable(found, group, name, reference))
        elif group != "indicators":
            variables.append(_old_variable(found, group, name, reference))
    structure = ElementTree.SubElement(root, "ModelStructure")
    (_structure if new else _old_structure)(structure, found)
    return document(root)


def source_names(found: Component, identifier: str, version: str) -> list[str]:
    """Names of the files to compile."""
    step = [METHODS[found.method].removeprefix("step")] * bool(found.model.states)
    own = [f"{identifier}{part}.c" for part in ("", "_jacobians", "_data", *step)]
    return [*own, "fmi-model.c", "fmi-instance.c", f"fmi-{version[0]}.c"]


def build_description(found: Component, identifier: str) -> bytes:
    """buildDescription.xml: how the sources of an FMU of FMI 3.0 are compiled."""
    root = Element("fmiBuildDescription", fmiVersion="3.0")
    build = ElementTree.SubElement(root, "BuildConfiguration", modelIdentifier=identifier)
    files = ElementTree.SubElement(build, "SourceFileSet", language="C99")
    for name in source_names(found, identifier, "3.0"):
        ElementTree.SubElement(files, "SourceFile", name=name)
    return document(root)


def document(root: Element) -> bytes:
    """The text of a document."""
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'.encode()


def _interfaces(root: Element, found: Component, identifier: str, new: bool) -> None:
    """Abilities of model exchange and of co-simulation."""
    completed = bool(found.events)  # guards that leave zero are noted then
    words = (
        ("canGetAndSetFMUState", "canSerializeFMUState", "providesDirectionalDerivatives")
        if new
        else ("canGetAndSetFMUstate", "canSerializeFMUstate", "providesDirectionalDerivative")
    )
    common = {"modelIdentifier": identifier, **dict.fromkeys(words, "true")}
    if new:
        common["providesAdjointDerivatives"] = "true"
    if not found.explicit:
        common = {k: v for k, v in common.items() if not k.startswith("provides")}
    if new:
        own = {"needsCompletedIntegratorStep": str(completed).lower()}
    else:
        own = {"completedIntegratorStepNotNeeded": str(not completed).lower()}
    steps = {"canHandleVariableCommunicationStepSize": "true"}
    kinds = {"ModelExchange": own, "CoSimulation": steps}
    for kind, more in list(kinds.items())[not found.explicit :]:
        element = ElementTree.SubElement(root, kind, {**common, **more})
        if not new:
            files = ElementTree.SubElement(element, "SourceFiles")
            for name in source_names(found, identifier, "2.0"):
                ElementTree.SubElement(files, "File", name=name)


# -- variables ------------------------------------------------------------------------------


def _variables(found: Component) -> Iterator[tuple[str, str, int]]:
    """Groups, names and value references of all variables."""
    for group, names in found.names.items():
        for k, name in enumerate(names):
            yield group, name, found.first[group] + k


def _about(group: str, name: str, reference: int) -> dict[str, str]:
    """Attributes of a variable that both versions of FMI have."""
    causality, variability, initial = _KINDS[group]
    about = {"name": name, "valueReference": str(reference), "causality": causality}
    about |= {"variability": variability}
    if initial:
        about["initial"] = initial
    return about


def _variable(found: Component, group: str, name: str, reference: int) -> Element:
    about = _about(group, name, reference) | _numbers(found, group, name)
    if group == "rates":
        about["derivative"] = str(reference - len(found.names["states"]))
    return Element("Float64", about)


def _old_variable(found: Component, group: str, name: str, reference: int) -> Element:
    element = Element("ScalarVariable", _about(group, name, reference))
    numbers = _numbers(found, group, name)
    if group == "rates":  # by its number, from 1
        numbers["derivative"] = str(reference - len(found.names["states"]) + 1)
    ElementTree.SubElement(element, "Real", numbers)
    return element


def _numbers(found: Component, group: str, name: str) -> dict[str, str]:
    """Unit and value at the start."""
    unit = found.unit(group, name)
    numbers = {"unit": unit} if unit else {}
    if group in ("states", "inputs", "parameters", "modes"):
        numbers["start"] = repr(found.start[name])
    return numbers


# -- what depends on what -------------------------------------------------------------------


def _structure(structure: Element, found: Component) -> None:
    """Unknowns by their value references."""
    first, names = found.first, found.names
    rows = [(tag, reference, _depends(on, 0)) for tag, reference, on in _unknowns(found)]
    for tag, groups in (
        ("InitialUnknown", ("rates", "outputs")),
        ("EventIndicator", ("indicators",)),
    ):
        rows += [(tag, first[group] + k, {}) for group in groups for k in range(len(names[group]))]
    for tag, reference, about in rows:
        ElementTree.SubElement(structure, tag, {"valueReference": str(reference), **about})


def _old_structure(structure: Element, found: Component) -> None:
    """Unknowns by their numbers, from 1."""
    unknowns = list(_unknowns(found))
    firsts = [(found.first[g], len(found.names[g])) for g in ("rates", "outputs")]
    rows: dict[str, list[tuple[int, _Dependencies | None]]] = {
        "Outputs": [(k, on) for tag, k, on in unknowns if tag == "Output"],
        "Derivatives": [(k, on) for tag, k, on in unknowns if tag != "Output"],
        "InitialUnknowns": [(first + k, None) for first, n in firsts for k in range(n)],
    }
    for name, members in rows.items():
        if members:
            part = ElementTree.SubElement(structure, name)
        for k, on in members:
            ElementTree.SubElement(part, "Unknown", {"index": str(k + 1), **_depends(on, 1)})


def _depends(on: _Dependencies | None, from_one: int) -> dict[str, str]:
    if on is None:
        return {}
    return {
        "dependencies": " ".join(str(reference + from_one) for reference in sorted(on)),
        "dependenciesKind": " ".join(
            "constant" if on[reference] else "dependent" for reference in sorted(on)
        ),
    }


def _unknowns(found: Component) -> Iterator[tuple[str, int, _Dependencies | None]]:
    """States, which are outputs, outputs and x', in the order of the schema; without explicit x'
    everything may depend on everything."""
    first = found.first
    if not found.explicit:
        for group in ("states", "outputs"):
            for k in range(len(found.names[group])):
                yield "Output", first[group] + k, None
        return
    rates = _rows(found, "rhs", len(found.names["rates"]))
    outputs = _rows(found, "outputs", found.n_outputs, rates)
    for k in range(len(rates)):
        yield "Output", first["states"] + k, {first["states"] + k: True}
    for k, on in enumerate(outputs):
        yield "Output", first["outputs"] + k, on
    for k, on in enumerate(rates):
        yield "ContinuousStateDerivative", first["rates"] + k, on


def _rows(
    found: Component, of: str, count: int, rates: list[_Dependencies] | None = None
) -> list[_Dependencies]:
    """Dependencies of the first rows of a function; through x', those of `rates`."""
    rows: list[_Dependencies] = [{} for _ in range(count)]
    places = [("states", "states"), ("inputs", "inputs")]
    for name, group in places:
        for i, j, linear in _entries(found.functions.get(f"{of}_jacobian_{name}")):
            if i < count and j < len(found.names[group]):
                rows[i][found.first[group] + j] = linear
    for i, j, _ in _entries(found.functions.get(f"{of}_jacobian_derivatives")):
        if i < count and rates is not None:
            rows[i] |= dict.fromkeys(rates[j], False)
    for i in _with_time(found.functions.get(of)):
        if i < count:
            rows[i][0] = False
    return rows


def _entries(jacobian: Exported | None) -> Iterator[tuple[int, int, bool]]:
    """Rows and columns of entries, and whether they are constant."""
    if jacobian is None or jacobian.sparsity is None:
        return
    kernel, sparsity = jacobian.kernel, jacobian.sparsity
    for j, (begin, end) in enumerate(zip(sparsity.begin, sparsity.begin[1:], strict=False)):
        for k in range(begin, end):
            yield sparsity.row[k], j, kernel.outputs[k] in kernel.graph.value


def _with_time(function: Exported | None) -> Iterator[int]:
    """Numbers of the values of a function that depend on time itself."""
    if function is None:
        return
    kernel = function.kernel
    time = kernel.graph.symbol("t.time")
    if time in kernel.nodes:
        for k, node in enumerate(kernel.outputs):
            if time in kernel.graph.ancestors([node]):
                yield k
