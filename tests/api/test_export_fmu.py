"""FMUs: loaded by ctypes, against compiled models and simulations, and, where FMPy is installed,
checked and run by it, against the headers of the standard."""

import ctypes
import importlib
import shutil
import subprocess
import zipfile
from functools import partial
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.examples.studies import fes_knee
from kinesym.hybrid import Contact, Event, Hybrid
from kinesym.internal.exporting.fmu_units import BASES, base_unit
from kinesym.models.whole_body import whole_body
from kinesym.runtime.library.build import CompilerError

t = ks.t
x, v, F, d, mode = ks.dynamicsymbols("x v F d mode")
m, c, k = sp.symbols("m c k")
ODD = sp.Function("a \"<&>' \\ é")(t)

Vector = partial(np.ascontiguousarray, dtype=np.float64)


def driven():
    """Inputs, outputs with x', time and a table, units, names that XML escapes."""
    points = np.linspace(-1.0, 1.0, 9)
    spring = ks.table(x, points, np.tanh(points))
    return ks.Model(
        "2 driven & <odd>",
        [x, v, ODD],
        [F, d],
        [m, c, k],
        [x.diff(t) - v, m * v.diff(t) + c * (v - d) + k * spring - F * sp.cos(3 * t), ODD.diff(t)],
        {"acceleration": v.diff(t), "power": F * v, "lag": sp.sin(t) + x},
        values={m: 2.0, c: 0.3, k: 40.0},
        units={x: "m", v: "m/s", k: "N", m: "kg", "power": "W", "lag": "furlong"},
    )


def ball():
    model = ks.Model("ball", [x, v], [], [k], [x.diff(t) - v, v.diff(t) + 10], values={k: 0.5})
    return Hybrid(model, events=[Event("impact", x, resets={v: -k * v})])


def thermostat():
    """A level that is also found beyond zero, guards of both directions."""
    model = ks.Model("room", [x], [mode], [], [x.diff(t) - (50 * mode - (x - 10)) / 10])
    events = [
        Event("on", x - 18, -1, sets={mode: 1}, level=True, when=1 - mode),
        Event("off", x - 22, 1, sets={mode: 0}, level=True, when=mode),
    ]
    return Hybrid(model, modes={mode: 0}, events=events)


def algebraic():
    equations = [x.diff(t) - v, v**3 + v + x - F]
    return ks.Model("algebraic", [x, v], [F], [], equations, {"product": x * v})


def exported(what, folder, **options):
    """The file and the description of an FMU."""
    ks.export(what, folder, target="fmu", **options)
    (path,) = folder.glob("*.fmu")
    with zipfile.ZipFile(path) as archive:
        return path, ElementTree.fromstring(archive.read("modelDescription.xml"))


class Instance:
    """An FMU of FMI 3.0, in initialisation mode, called with names."""

    def __init__(self, path, description, folder):
        with zipfile.ZipFile(path) as archive:
            archive.extractall(folder)
        (library,) = folder.glob("binaries/*/*")
        self.library = ctypes.CDLL(str(library))
        self.library.fmi3GetVersion.restype = ctypes.c_char_p
        self.number = {
            e.get("name"): int(e.get("valueReference")) for e in description.find("ModelVariables")
        }
        self.token = description.get("instantiationToken").encode()

    def begin(self, steps, time=0.0):
        """A new instance, its log."""
        self.said = []
        kind = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p
        )
        self.tell = kind(lambda _, status, category, text: self.said.append(text.decode()))
        name = "CoSimulation" if steps else "ModelExchange"
        make = getattr(self.library, f"fmi3Instantiate{name}")
        make.restype = ctypes.c_void_p
        off = ctypes.c_bool(False)
        more = (off, off, None, ctypes.c_size_t(0)) if steps else ()
        last = (self.tell, None) if steps else (self.tell,)
        self.it = ctypes.c_void_p(make(b"one", self.token, b"", off, off, *more, None, *last))
        self.steps = steps
        if self.it:
            zero = ctypes.c_double(0.0)
            self.call("EnterInitializationMode", off, zero, ctypes.c_double(time), off, zero)
        return self

    def run(self):
        """Go on to steps or continuous time."""
        self.call("ExitInitializationMode")
        if not self.steps:
            self.call("EnterContinuousTimeMode")
        return self

    def call(self, name, *given, status=0):
        assert getattr(self.library, f"fmi3{name}")(self.it, *given) == status, self.said

    def _references(self, names):
        return (ctypes.c_uint32 * len(names))(*map(self.number.get, names)), ctypes.c_size_t(
            len(names)
        )

    def get(self, names):
        out = np.empty(len(names))
        self.call("GetFloat64", *self._references(names), *_array(out))
        return out

    def set(self, values, status=0):
        numbers = Vector(list(values.values()))
        self.call("SetFloat64", *self._references(list(values)), *_array(numbers), status=status)

    def product(self, name, unknown, known, seed):
        out = np.empty(len(known if name == "Adjoint" else unknown))
        references = (*self._references(unknown), *self._references(known))
        self.call(f"Get{name}Derivative", *references, *_array(Vector(seed)), *_array(out))
        return out

    def advance(self, time, length):
        """Whether the simulation ends."""
        flags = [ctypes.c_bool() for _ in range(3)]
        last = ctypes.c_double()
        self.call(
            "DoStep",
            ctypes.c_double(time),
            ctypes.c_double(length),
            ctypes.c_bool(True),
            *map(ctypes.byref, (*flags, last)),
        )
        return flags[1].value

    def course(self, names, time):
        """Values at all times, by co-simulation."""
        rows = [self.get(names)]
        for begin, end in pairwise(time):
            self.advance(begin, end - begin)
            rows.append(self.get(names))
        return np.array(rows).T


def _array(values):
    return values.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(len(values))


@pytest.fixture(scope="module")
def smooth(tmp_path_factory):
    """A model, its FMU and that as loaded."""
    folder = tmp_path_factory.mktemp("smooth")
    model = driven()
    path, description = exported(model, folder / "fmu", initial={"x": 0.5}, inputs={F: 2.0})
    return model, path, description, Instance(path, description, folder / "unpacked")


def total_derivatives(model, at):
    """d (x', outputs) / d (states, inputs, parameters), of the implicit equations."""
    functions = ks.compile(model)
    groups = ("derivatives", "states", "inputs", "parameters")
    found = []
    for of in ("residual", "outputs"):
        blocks = [functions.jacobian(*at, of=of, wrt=group) for group in groups]
        found.append((blocks[0], np.hstack(blocks[1:])))
    (by_rates, rest), (g_rates, g_rest) = found
    rates = -np.linalg.solve(by_rates, rest)
    return np.vstack([rates, g_rest + g_rates @ rates])


def test_values_and_derivatives(smooth):
    """As of the compiled model; adjoint derivatives are directional ones transposed."""
    model, _, _, fmu = smooth
    assert fmu.library.fmi3GetVersion() == b"3.0"
    at = {"x": 0.3, "v": -0.7, ODD.name: 0.1, "F": 1.5, "d": -0.4, "m": 2.5, "c": 0.7, "k": 31.0}
    values = Vector(list(at.values()))
    states, inputs, parameters = np.split(values, (3, 5))
    fmu.begin(steps=False, time=0.2).set(at)
    fmu.run()
    functions = ks.compile(model)
    rates = functions.rhs(states, inputs, parameters, 0.2)
    unknown = [*(f"der({name})" for name in model.state_names), *model.outputs]
    outputs = functions.outputs(rates, states, inputs, parameters, 0.2)
    assert np.allclose(fmu.get(unknown), [*rates, *outputs], rtol=1e-14, atol=1e-15)
    out = np.empty(3)
    fmu.call("GetContinuousStateDerivatives", *_array(out))
    assert np.allclose(out, rates, rtol=1e-14, atol=1e-15)
    expected = total_derivatives(model, (rates, states, inputs, parameters, 0.2))
    directions = np.eye(len(at))
    found = np.array([fmu.product("Directional", unknown, list(at), e) for e in directions]).T
    assert np.allclose(found, expected, rtol=1e-12, atol=1e-13)
    directions = np.eye(len(unknown))
    found = np.array([fmu.product("Adjoint", unknown, list(at), e) for e in directions])
    assert np.allclose(found, expected, rtol=1e-12, atol=1e-13)
    assert fmu.product("Directional", ["x", "v"], ["v"], [2.0]).tolist() == [0.0, 2.0]


def test_steps_and_states(smooth):
    """Co-simulation is rk4; a state that is kept, written out and read again goes on alike."""
    model, _, _, fmu = smooth
    time = np.linspace(0.0, 0.2, 5)
    names = ["x", "v", "power", "acceleration"]
    initial = {"x": 0.5, "v": 0.0, ODD.name: 0.0}
    expected = ks.simulate(model, time, initial, inputs={"F": 2.0, "d": 0.0}, substeps=50)
    fmu.begin(steps=True).run()
    found = fmu.course(names, time[:3])
    state, size = ctypes.c_void_p(), ctypes.c_size_t()
    fmu.call("GetFMUState", ctypes.byref(state))
    fmu.call("SerializedFMUStateSize", state, ctypes.byref(size))
    content, again = (ctypes.c_uint8 * size.value)(), ctypes.c_void_p()
    fmu.call("SerializeFMUState", state, content, size)
    fmu.call("DeserializeFMUState", content, size, ctypes.byref(again))
    first = fmu.course(names, time[2:])
    fmu.call("SetFMUState", again)
    assert np.array_equal(fmu.course(names, time[2:]), first)
    fmu.call("FreeFMUState", ctypes.byref(state))
    whole = np.hstack([found, first[:, 1:]])
    assert np.allclose(whole, [expected[name] for name in names], rtol=1e-12, atol=1e-12)
    fmu.call("Reset")
    assert fmu.get(["x"]) == [0.5]


def test_what_is_said(smooth):
    _, _, _, fmu = smooth
    fmu.begin(steps=False).run()
    fmu.set({"x": 1.0}, status=3)
    fmu.set({"k": 1.0}, status=3)
    fmu.set({"power": 1.0}, status=3)
    fmu.call("EnterEventMode")
    fmu.set({"k": 50.0})
    fmu.call("EnterInitializationMode", *[ctypes.c_double(0)] * 2, status=3)
    assert [text.split(" ")[-1] for text in fmu.said] == ["initialisation", "events", "set", "mode"]
    fmu.begin(steps=True).run().set({"F": np.inf})
    with pytest.raises(AssertionError, match="not finite"):
        fmu.advance(0.0, 0.1)
    token, fmu.token = fmu.token, b"{another}"
    assert not fmu.begin(steps=True).it and token.decode() in fmu.said[0]
    fmu.token = token


def test_description(smooth):
    """Names as they are, units in base units, dependencies from the patterns."""
    model, path, description, _ = smooth
    assert path.name == "model_2_driven_odd.fmu" and description.get("modelName") == model.name
    variables = {e.get("name"): e for e in description.find("ModelVariables")}
    assert [int(e.get("valueReference")) for e in variables.values()] == list(range(len(variables)))
    assert variables[ODD.name].get("start") == "0.0" and variables["x"].get("start") == "0.5"
    assert variables["der(v)"].get("derivative") == variables["v"].get("valueReference")
    assert (variables["k"].get("causality"), variables["k"].get("start")) == ("parameter", "40.0")
    bases = {e.get("name"): e.find("BaseUnit") for e in description.iter("Unit")}
    assert bases["W"].attrib == {"kg": "1", "m": "2", "s": "-3"} and bases["furlong"] is None
    assert variables["der(v)"].get("unit") == "(m/s)/s"
    assert bases["(m/s)/s"].attrib == {"m": "1", "s": "-2"}
    names = {e.get("valueReference"): name for name, e in variables.items()}
    depends = {
        names[e.get("valueReference")]: {
            names[on]: kind
            for on, kind in zip(
                e.get("dependencies").split(), e.get("dependenciesKind").split(), strict=True
            )
        }
        for e in description.find("ModelStructure")
        if e.tag != "InitialUnknown"
    }
    some = dict.fromkeys(["time", "F", "x"], "dependent")
    assert depends["der(x)"] == {"v": "constant"} and depends["x"] == {"x": "constant"}
    assert depends["der(v)"].items() >= some.items() and depends[f"der({ODD.name})"] == {}
    assert depends["acceleration"].keys() == depends["der(v)"].keys()
    assert depends["lag"] == {"time": "dependent", "x": "constant"}
    assert depends["power"] == {"v": "dependent", "F": "dependent"}


def test_equal_content(tmp_path):
    """Equal bytes; another start has another token. A model needs no states."""
    gain = ks.Model("gain", [], [F], [k], [], {"y": k * F}, values={k: 3.0})
    exported(gain, tmp_path / "one", version="2.0")
    again = ks.export(gain, tmp_path / "one", target="fmu", version="2.0")
    assert again.changed == ()
    path, description = exported(gain, tmp_path / "two", inputs={F: 2.0})
    fmu = Instance(path, description, tmp_path / "there").begin(steps=True).run()
    assert not fmu.advance(0.0, 1.0) and fmu.get(["y", "time"]).tolist() == [6.0, 1.0]


@pytest.fixture(scope="module")
def bouncing(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bouncing")
    path, description = exported(ball(), folder / "fmu", initial={x: 0.8}, step=0.01)
    return path, Instance(path, description, folder / "unpacked")


def bounced(time):
    """Height of the ball: parabolas of closed form."""
    begin, speed, height = 0.0, 0.0, 0.8
    parts = []
    for _ in range(4):
        lasts = (speed + np.sqrt(speed**2 + 20 * height)) / 10
        parts.append((begin, begin + lasts, speed, height))
        begin, speed, height = begin + lasts, 0.5 * (10 * lasts - speed), 0.0
    return np.array(
        [
            next(h + u * (s - a) - 5 * (s - a) ** 2 for a, b, u, h in parts if a <= s <= b)
            for s in time
        ]
    )


def test_events_in_steps(bouncing):
    """Bounces at their times, closed form: the steps are exact for a parabola."""
    time = np.linspace(0.0, 1.05, 22)
    found = bouncing[1].begin(steps=True).run().course(["x"], time)[0]
    assert np.allclose(found, bounced(time), rtol=0, atol=1e-12)


def test_bounces_without_end(bouncing):
    """They are followed to where they accumulate, 1.2 s, though shorter than steps; then said."""
    fmu = bouncing[1].begin(steps=True).run()
    fmu.advance(0.0, 1.19999)
    with pytest.raises(AssertionError, match="events come ever faster"):
        fmu.advance(1.19999, 0.1)
    assert abs(fmu.get(["time"])[0] - 1.2) < 1e-5 and abs(fmu.get(["x"])[0]) < 1e-9


def test_event_mode(bouncing):
    """The guard is an indicator; beyond zero the reset happens, once."""
    _, fmu = bouncing
    fmu.begin(steps=False).set({"x": 1e-3, "v": -2.0})
    fmu.run()
    indicator, flags, next_time = (
        np.empty(1),
        [ctypes.c_bool() for _ in range(5)],
        ctypes.c_double(),
    )
    fmu.call("SetContinuousStates", *_array(Vector([-1e-12, -3.0])))
    fmu.call("GetEventIndicators", *_array(indicator))
    assert indicator[0] == -1e-12
    for moved, speed in ((True, 1.5), (False, 1.5)):
        fmu.call("EnterEventMode")
        fmu.call("UpdateDiscreteStates", *map(ctypes.byref, (*flags, next_time)))
        assert flags[3].value == moved and fmu.get(["v"]) == [speed]
        fmu.call("EnterContinuousTimeMode")
    row = fmu.product("Directional", ["guard(impact)", "der(x)"], ["x", "v"], [1.0, 3.0])
    assert row.tolist() == [1.0, 3.0]


def test_what_another_event_arms_at_the_same_time(tmp_path):
    """Happens in steps and in event mode; not what has crossed before."""
    y, on = ks.dynamicsymbols("y on")
    model = ks.Model("tie", [x, y], [on], [], [x.diff(ks.t) - 1, y.diff(ks.t) + 0 * on])
    arms = Event("arms", x - 1, 1, sets={on: 1})
    for level, resets in ((1.0, 10.0), (0.999, 0.0)):
        armed = Event("armed", x - level, 1, resets={y: y + 10}, when=on - 0.5)
        system = Hybrid(model, {on: 0}, [arms, armed])
        path, description = exported(system, tmp_path / f"{level}", step=0.3)
        fmu = Instance(path, description, tmp_path / f"{level} there").begin(steps=True).run()
        assert not fmu.advance(0.0, 2.0) and fmu.get(["y"])[0] == resets
        fmu.begin(steps=False).set({"x": 0.5})
        fmu.run()
        indicators, flags = np.empty(2), [ctypes.c_bool() for _ in range(5)]
        for time in (0.6, 0.9, 1.0):
            fmu.call("SetTime", ctypes.c_double(time))
            fmu.call("SetContinuousStates", *_array(Vector([time, 0.0])))
            fmu.call("GetEventIndicators", *_array(indicators))
        fmu.call("EnterEventMode")
        fmu.call("UpdateDiscreteStates", *map(ctypes.byref, (*flags, ctypes.c_double())))
        assert fmu.get(["y"])[0] == resets


def test_modes_and_levels(tmp_path):
    """As the simulation with events, by steps that end at them."""
    path, description = exported(thermostat(), tmp_path / "fmu", initial={x: 17.0}, step=0.05)
    fmu = Instance(path, description, tmp_path / "unpacked").begin(steps=True).run()
    time = np.linspace(0.0, 12.0, 49)
    expected = ks.simulate(thermostat(), time, {"x": 17.0})
    # levels are late by 1.5e-8; that grows to some 1e-7 over eight switches
    assert np.allclose(fmu.course(["x"], time)[0], expected["x"], rtol=0, atol=1e-6)


def test_algebraic_equations(tmp_path):
    """Co-simulation alone, by Radau's method, outputs by algebraic states."""
    model, time = algebraic(), np.linspace(0.0, 1.0, 5)
    given = {"F": 0.3}
    initial = ks.consistent(model, time, {"x": 1.0, "v": 0.0}, inputs=given, keep=["x"])
    made = tmp_path / "fmu"
    path, description = exported(model, made, initial=initial, inputs=given, step=0.05)
    assert description.find("ModelExchange") is None
    fmu = Instance(path, description, tmp_path / "unpacked")
    assert not fmu.begin(steps=False).it and "co-simulation alone" in fmu.said[0]
    names = ["x", "v", "product"]
    found = fmu.begin(steps=True).run().course(names, time)
    run = ks.simulate(model, time, initial, inputs=given, method="radau-5")
    assert np.allclose(found, [run[name] for name in names], rtol=0, atol=1e-8)


decay = ks.Model("decay", [x], [F], [k], [x.diff(t) + k * x - F])
point = ks.Model("point", [x, v], [F], [], [x.diff(t) - v, v.diff(t) - F])


@pytest.mark.parametrize(
    ("what", "options", "says"),
    [
        (decay, {}, r"parameter k of model decay has no value.*parameters=\{'k'"),
        (decay, {"parameters": {"k": 1}, "initial": {"z": 1}}, "z is unknown"),
        (decay, {"parameters": {"k": 1}, "version": "1.0"}, r"is one of 3\.0, 2\.0"),
        (decay, {"parameters": {"k": 1}, "step": 0}, "must be positive"),
        (decay, {"parameters": {"k": 1}, "method": "euler"}, "is one of rk4, radau-5"),
        (algebraic(), {"method": "rk4"}, "no explicit derivatives.*reduced_index"),
        (ks.models.cartesian_pendulum(), {}, r"its index 3.*reduced_index\(\)"),
        (
            ks.Model("rate", [x], [], [], [x.diff(t) ** 3 + x.diff(t) + x], {"y": x.diff(t)}),
            {},
            "by which its output y is given",
        ),
        (ks.Model("late", [x], [], [], [x.diff(t) + ks.delayed(x, 0.1)]), {}, r"delays, x\(t - 0"),
        (Hybrid(point, contacts=[Contact("floor", x, F)]), {}, "has contacts, floor"),
        (ks.Model("two", [x], [], [], [x.diff(t) + x], {"der(x)": x}), {}, r"called 'der\(x\)'"),
        (ks.Model("wide", [x], [], [], [x.diff(t) + x], {"a\uffff": x}), {}, "XML does not allow"),
    ],
)
def test_refusals(what, options, says, tmp_path):
    with pytest.raises(ValueError, match=says):
        ks.export(what, tmp_path / "fmu", target="fmu", **options)
    assert not (tmp_path / "fmu").exists()


def test_no_compiler(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(CompilerError, match="was not found"):
        ks.export(ks.models.pendulum(), tmp_path / "fmu", target="fmu")
    assert not (tmp_path / "fmu").exists()


def test_units_against_pint():
    """Sizes and exponents; radians, which pint takes for 1, are a base unit of FMI."""
    registry = pytest.importorskip("pint").UnitRegistry()
    for (
        text
    ) in "N*m rad/s kg*m**2/s**2 1/s mm cm^2 deg/s rpm kPa ms 1/(s*kg) min km/h V/(m*s)".split():
        found, quantity = base_unit(text), registry.Quantity(1.0, text).to_base_units()
        exponents = [found.exponents.get(base, 0) for base in BASES[:-1]]
        names = ("kilogram", "meter", "second", "ampere", "kelvin", "mole", "candela")
        assert exponents == [quantity.units._units.get(name, 0) for name in names], text
        assert found.factor == pytest.approx(quantity.magnitude, rel=1e-14), text
    assert base_unit("N m/rad").exponents["rad"] == -1 and base_unit("degC").offset == 273.15
    assert base_unit("N·m") == base_unit("J") and base_unit("-") == base_unit("1")
    assert [base_unit(text) for text in ("furlong", "m/", "(m", "m^x", "m)", "5 m", "", "?")] == [
        None
    ] * 8


# -- by FMPy --------------------------------------------------------------------------------------


def checked_by_fmpy(path):
    """FMPy, which finds nothing wrong with an FMU."""
    fmpy = pytest.importorskip("fmpy")
    from fmpy.validation import validate_fmu

    assert validate_fmu(str(path)) == []
    return fmpy


def of_fmpy(path, kind, names, **options):
    """Course of variables, and its times."""
    run = checked_by_fmpy(path).simulate_fmu(
        str(path), fmi_type=kind, output=names, relative_tolerance=1e-9, **options
    )
    return np.asarray(run["time"]), np.array([run[name] for name in names])


def test_fmpy_with_events(bouncing):
    """Model exchange by CVODE, whose root finding gives the events."""
    time, found = of_fmpy(bouncing[0], "ModelExchange", ["x"], stop_time=1.05, output_interval=0.05)
    assert np.allclose(found[0], bounced(time), rtol=0, atol=1e-6)


def test_fmpy_with_version_2(tmp_path):
    path, _ = exported(driven(), tmp_path / "fmu", version="2.0", initial={"x": 0.5})
    options = {"stop_time": 0.2, "output_interval": 0.05}
    names = ["x", "v", "acceleration"]
    time, found = of_fmpy(path, "CoSimulation", names, **options)
    initial = {"x": 0.5, "v": 0.0, ODD.name: 0.0}
    run = ks.simulate(driven(), time, initial, inputs={"F": 0.0, "d": 0.0}, substeps=50)
    assert np.allclose(found, [run[name] for name in names], rtol=1e-12, atol=1e-12)
    _, found = of_fmpy(path, "ModelExchange", names, **options)
    assert np.allclose(found[:, -1], [run[name][-1] for name in names], rtol=0, atol=1e-5)


@pytest.mark.parametrize("version", [3, 2])
def test_sources_fit_the_headers_of_the_standard(version, smooth, tmp_path):
    """Signatures as FMI declares them; no warning of a strict compiler."""
    fmpy = pytest.importorskip("fmpy")
    _, path, _, _ = smooth
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path)
    here = tmp_path / "sources"
    texts = Path(ks.export.__code__.co_filename).parent / "internal" / "exporting" / "fmi"
    for name in ("fmi-2.c", "fmi-2-types.h"):
        shutil.copy(texts / name, here)
    strict = "-std=c99 -fsyntax-only -Wall -Wextra -Wconversion -Wshadow -Werror -pedantic".split()
    file = f"fmi-{version}.c"
    subprocess.run(["gcc", *strict, file, "fmi-model.c", "fmi-instance.c"], cwd=here, check=True)
    standard = Path(fmpy.__file__).parent / "c-code" / f"fmi{version}Functions.h"
    (here / f"fmi-{version}-types.h").write_text(f'#include "{standard}"\n')
    subprocess.run(["gcc", "-std=c99", "-fsyntax-only", "-Werror", file], cwd=here, check=True)


@pytest.mark.study
@pytest.mark.parametrize(
    "make",
    [
        ks.models.pendulum,
        partial(ks.models.n_link_pendulum_on_cart, 1),
        partial(ks.models.n_link_pendulum_on_cart, 10),
        ks.models.standing,
        ks.models.cip,
        ks.models.cartip,
        driven,
        lambda: ks.models.cartesian_pendulum().reduced_index(index=0),
    ],
)
def test_models(make, tmp_path):
    """Checked; both ways to run, against `ks.simulate`."""
    model, time = make(), np.linspace(0.0, 1.0, 101)
    initial = {name: 0.01 * (j + 1) for j, name in enumerate(model.state_names)}
    if model.invariants:
        initial = {**dict.fromkeys(model.state_names, 0.0), "x": 1.0}
    inputs = dict.fromkeys(model.input_names, 0.1)
    path, _ = exported(model, tmp_path / "fmu", initial=initial, inputs=inputs)
    run = ks.simulate(model, time, initial, inputs=inputs, substeps=10)
    names = list(model.state_names)
    expected = np.array([run[name] for name in names])
    scale = 1.0 + np.abs(expected).max()
    options = {"stop_time": 1.0, "output_interval": 0.01}
    _, found = of_fmpy(path, "CoSimulation", names, **options)
    assert np.allclose(found, expected, rtol=0, atol=1e-12 * scale)
    _, found = of_fmpy(path, "ModelExchange", names, **options)
    assert np.allclose(found[:, -1], expected[:, -1], rtol=0, atol=1e-5 * scale)


@pytest.mark.study
@pytest.mark.parametrize("kind", ["CoSimulation", "ModelExchange"])
def test_knee_with_muscle(kind, tmp_path):
    """Four events of a stimulated muscle, two of them switch its mode."""
    hybrid, time = fes_knee.knee(fes_knee.quadriceps()), np.linspace(0.0, 0.5, 101)
    names = list(hybrid.model.state_names)
    initial, inputs = dict.fromkeys(names, 0.0), {hybrid.given[0]: 8.0}
    path, _ = exported(hybrid, tmp_path / "fmu", initial=initial, inputs=inputs)
    run = ks.simulate(hybrid, time, initial, inputs=inputs)
    _, found = of_fmpy(path, kind, names, stop_time=0.5, output_interval=0.005)
    for name, course in zip(names, found, strict=True):
        scale = np.abs(run[name]).max()
        assert np.allclose(course[-1], run[name][-1], rtol=0, atol=1e-7 * scale), name


DATA = Path(__file__).parents[1] / "data"
KINDS = ["energy", "center_of_mass"]
TREES = {
    "urdf": lambda: ks.urdf.read(DATA / "arm.urdf", "free").model(outputs=KINDS),
    "osim": lambda: ks.osim.read(DATA / "opensim" / "2D_gait.osim.gz").model(outputs=KINDS),
    "whole body": lambda: whole_body().model(outputs=KINDS),
}


@pytest.mark.study
@pytest.mark.domain
@pytest.mark.parametrize("kind", TREES)
def test_models_of_files(kind, tmp_path):
    """Rates and outputs of a robot, of a model of OpenSim and of a whole body in FMPy."""
    model = TREES[kind]()
    path, _ = exported(model, tmp_path / "fmu", initial=dict.fromkeys(model.state_names, 0.1))
    about = checked_by_fmpy(path).read_model_description(str(path))
    number = {each.name: each.valueReference for each in about.modelVariables}
    chance = np.random.default_rng(0)
    x, u = chance.normal(0, 0.2, len(model.states)), chance.normal(size=len(model.inputs))
    fmu = importlib.import_module("fmpy.fmi3").FMU3Model(
        guid=about.guid,
        unzipDirectory=importlib.import_module("fmpy").extract(str(path), str(tmp_path / "at")),
        modelIdentifier=about.modelExchange.modelIdentifier,
        instanceName="one",
    )
    fmu.instantiate()
    fmu.enterInitializationMode()
    if len(u):
        fmu.setFloat64([number[name] for name in model.input_names], u.tolist())
    fmu.exitInitializationMode()
    fmu.enterContinuousTimeMode()
    states, rates = ((ctypes.c_double * len(x))(*row) for row in (x, 0.0 * x))
    fmu.setContinuousStates(states, len(x))
    fmu.getContinuousStateDerivatives(rates, len(x))
    outputs = fmu.getFloat64([number[name] for name in model.outputs])
    fmu.terminate()
    fmu.freeInstance()
    f, p = ks.compile(model), [model.values[name] for name in model.parameter_names]
    expected = f.rhs(x, u, p)
    np.testing.assert_allclose(rates, expected, atol=1e-12 * np.abs(expected).max())
    expected = f.outputs(expected, x, u, p)
    np.testing.assert_allclose(outputs, expected, atol=1e-12 * np.abs(expected).max())
