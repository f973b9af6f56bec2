"""Models as files: what is written is read as the same model, whatever it has; what is wrong in a
file is told with its place."""

import json
import re
from dataclasses import fields, replace

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.codegen.c import emit
from kinesym.codegen.evaluate import model_functions
from kinesym.examples.fes_tuning import model as tuned
from kinesym.examples.studies.bounces import ball
from kinesym.examples.studies.muscle_fit import soleus
from kinesym.internal.problems.content import digest
from kinesym.symbolic.text.document import layout

t = ks.t
x, v, u, z = ks.dynamicsymbols("x v u z")
k, m = sp.Symbol("k"), sp.Symbol("m", positive=True)
tau = sp.Symbol("tau")


def again(system, tmp_path):
    path = tmp_path / "system.json"
    system.write(path)
    found = type(system).read(path)
    text = path.read_text()
    found.write(path)
    assert path.read_text() == text
    return found


def same(one, other):
    """Whether two models have equal parts."""
    forms = [form and (form.intermediates, form.rates) for form in (one.explicit, other.explicit)]
    names = [field.name for field in fields(one) if field.name != "explicit"]
    return forms[0] == forms[1] and all(getattr(one, n) == getattr(other, n) for n in names)


#: Ready-made models; of those that are alike one is no study.
ALIKE = ("cartip", "grm3d", "psm3d", "person_on_ship", "squeezer")
READY = [
    pytest.param(name, marks=[pytest.mark.study] if name in ALIKE else [])
    for name in ks.models.__all__
    if callable(getattr(ks.models, name)) and name != "n_link_pendulum_on_cart"
]


@pytest.mark.parametrize("name", [*READY, "links"])
def test_ready_made_models_are_the_same_when_read(name, tmp_path):
    made = ks.models.n_link_pendulum_on_cart(10) if name == "links" else getattr(ks.models, name)()
    model = made if isinstance(made, ks.Model) else made.model()
    found = again(model, tmp_path)
    assert same(found, model)
    if name in ("pendulum", "standing", "links"):
        one, other = (emit(model_functions(each)).files for each in (model, found))
        assert one == other


def rich():
    """A model that has one of everything."""
    soft = ks.function("soft", [k], sp.log(1 + sp.exp(k)), [1 / (1 + sp.exp(-k))])
    twice = ks.function("twice", [k], soft(k) ** 2, [2 * soft(k) * sp.diff(soft(k), k)])
    points = [0.0, 0.5, 1.5, 2.0]
    force = ks.table(x, points, [0.0, 1.0, 0.5, 0.1], "pchip", "constant", "force")
    free = ks.table(x, points, [k, 0.3, 0.2, k**2])
    plane = ks.table((x, v), (points, [0.0, 1.0, 2.0, 4.0]), np.arange(16.0).reshape(4, 4) ** 2)
    nowhere = ks.table(x, points, [0.0, 1.0, 0.5, 0.1], outside="nan", name="sin")
    inner, odd = sp.Function("c")(t), sp.Symbol("d = e")
    return ks.Model(
        name="with one of everything",
        states=[x, v, z],
        inputs=[u, sp.Function("w", real=True)(t)],
        parameters=[k, m, tau],
        intermediates=[(inner, sp.cos(x)), (odd, inner * ks.delayed(x * v, tau))],
        equations=[
            x.diff(t) - v,
            m * v.diff(t) + force + force.diff(x) + free + twice(x) + odd + ks.homotopy(u, 0),
            z - ks.delayed(v, 0.1) - ks.delayed(u, k * x**2, range=(0, 2)) - sp.Abs(inner) + plane,
        ],
        outputs={
            "a b": sp.Piecewise((x, x < 0), (sp.Heaviside(v) * sp.sqrt(m**2), True)),
            "pp_x": x,
            "pp_y": plane.diff(x).diff(v) + nowhere,
            "late": ks.sensor(x, delay=0.02),
        },
        values={k: 0.1, "m": 2},
        positive=[m],
        limits={"x is too far out": 2 - x},
        drawing=[("pp", "pp")],
        units={x: "m", "a b": "m", k: "N/m"},
        labels={1: "motion"},
    )


def test_a_model_with_one_of_everything(tmp_path):
    model = rich()
    found = again(model, tmp_path)
    assert digest(found) == digest(model)
    assert found.delays == model.delays and found.units == model.units
    assert emit(model_functions(found)).files == emit(model_functions(model)).files
    assert found.parameters[1].is_positive and found.outputs["a b"] == model.outputs["a b"]


def test_what_models_are_made_into(tmp_path):
    rod = ks.models.cartesian_pendulum()
    for model in (rod.reduced_index(index=0), rod.reduced_index("gear-gupta-leimkuhler")):
        assert same(again(model, tmp_path), model)


@pytest.mark.parametrize("make", [ball, tuned, lambda: soleus(True)])
def test_systems_with_events(make, tmp_path):
    system = make()
    found = again(system, tmp_path)
    assert same(found.model, system.model)
    for group in ("modes", "events", "contacts", "muscles", "release", "v_stop", "per_second"):
        assert getattr(found, group) == getattr(system, group)
    with pytest.raises(ValueError, match="it is a hybrid, not a model"):
        ks.Model.read(tmp_path / "system.json")


def test_events_keep_their_options(tmp_path):
    mode = sp.Function("mode")(t)
    model = ks.Model("switch", [x], [mode], [k], [x.diff(t) - mode * k], values={k: 1.0})
    events = [
        ks.hybrid.Event("up", x - 1, 1, 2.5, {x: x / 2}, {mode: -1}),
        ks.hybrid.Event("down", x, sets={mode: 1}, when=1 - mode, level=True),
        ks.hybrid.Event("end", x - t, 0, stop=True, failure=True),
    ]
    system = ks.hybrid.Hybrid(model, {mode: 1.0}, events, per_second=50)
    assert again(system, tmp_path).events == system.events


@pytest.mark.domain
def test_models_from_files_of_others(tmp_path):
    from kinesym.examples.studies.gait import data

    robot = tmp_path / "robot.urdf"
    robot.write_text("""<robot name="swing"><link name="beam"/>
      <link name="seat"><inertial><origin xyz="0 0.1 -2"/><mass value="30"/>
      <inertia ixx="2" iyy="2" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
      <joint name="rope" type="continuous"><parent link="beam"/><child link="seat"/>
      <axis xyz="0 0.6 0.8"/></joint></robot>""")
    for tree in (ks.urdf.read(robot), ks.osim.read(data("opensim_arm26.osim.gz"))):
        model = tree.model()
        assert same(again(model, tmp_path), model)


def test_by_hand(tmp_path):
    """Defaults are left out, and derived as from Python."""
    path = tmp_path / "swing.json"
    path.write_text(
        """{"kinesym": "model", "version": 1, "name": "swing",
        "states": [{"name": "x"}, {"name": "v"}], "parameters": [{"name": "k", "value": 4}],
        "tables": [{"name": "law", "points": [0, 1, 2, 4], "values": [0, 1, 4, 16]}],
        "equations": ["x' - v", "v' + k*(x + law(x)) - law[1](2)"]}"""
    )
    law = ks.table(x, [0, 1, 2, 4], [0, 1, 4, 16], name="law")
    slope = law.diff(x).subs(x, 2)
    known = ks.Model("swing", [x, v], [], [k], [x.diff(t) - v, v.diff(t) + k * (x + law) - slope])
    found = ks.Model.read(path)
    assert digest(found) == digest(replace(known, values={k: 4.0}))


BASE = {
    "kinesym": "model",
    "version": 1,
    "name": "swing",
    "states": [{"name": "x"}, {"name": "v"}],
    "parameters": [{"name": "k", "value": 4.0}],
    "equations": ["x' - v", "v' + k*x"],
}
TABLE = {"name": "law", "points": [0, 1, 2, 4], "values": [0, 1, 4, 16]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"equations": ["x' - v", "v' + kk*x"]}, "equations[1]: column 6: kk is not declared; did"),
        ({"equations": ["x' - v", 3]}, "equations[1]: expected text, got 3"),
        ({"equations": ["x' - v"]}, "model swing: 1 equations for 2 states"),
        ({"equations": "x"}, "equations: expected a list of texts, got 'x'"),
        ({"stats": []}, "there is no entry 'stats'; did you mean states?"),
        (
            {"states": [{"name": "x", "units": "m"}]},
            "states[0]: there is no entry 'units'; did you",
        ),
        ({"states": [{}]}, "states[0]: name is missing; it is text"),
        ({"states": ["x"]}, "states[0]: expected an object {...}, got 'x'"),
        ({"name": None}, "name: expected text, got None"),
        ({"version": 2}, "version 2 of the form"),
        ({"kinesym": "table"}, "it is a table, not a model"),
        ({"parameters": [{"name": "k", "value": True}]}, "parameters[0].value: expected a number"),
        ({"parameters": [{"name": "k", "positive": 1}]}, "parameters[0].positive: expected true"),
        ({"parameters": [{"name": "k", "value": -1, "positive": True}]}, "k must be positive"),
        (
            {"parameters": [{"name": "k", "assumptions": {"reel": True}}]},
            "parameters[0]: assumptions have no 'reel'; did you mean real",
        ),
        (
            {"parameters": [{"name": "k", "assumptions": {"real": 1}}]},
            "parameters[0]: the assumption real is true or false, got 1",
        ),
        (
            {"parameters": [{"name": "k", "assumptions": {"real": True, "imaginary": True}}]},
            "parameters[0]: SymPy refuses the assumptions",
        ),
        (
            {"tables": [{**TABLE, "points": [0, 2, 1, 4]}]},
            "tables[0]: the table law: the points do",
        ),
        ({"tables": [{**TABLE, "kind": "cubc"}]}, "the kind is one of cubic"),
        ({"tables": [{**TABLE, "name": "sin"}]}, "the name sin is that of another function"),
        ({"tables": [{**TABLE, "coefficients": [[1.0]]}]}, "coefficients are of 5 cells"),
        ({"tables": [{**TABLE, "points": [[], 1], "coefficients": [[1.0]]}]}, "points are a list"),
        ({"outputs": [{"name": "y", "value": "x"}] * 2}, "outputs[1]: the name y is declared more"),
        ({"labels": {"one": "a"}}, "labels.one: expected the number of an equation"),
        ({"delays": ["delayed(x', 1)"]}, "has the delayed rate"),
        ({"drawing": ["ab"]}, "a line of the drawing names two points or more"),
        (
            {
                "intermediates": [{"name": "a", "value": "b"}, {"name": "b", "value": "x"}],
            },
            "intermediates[0].value: column 1: b is defined further below; move it up",
        ),
        (
            {"functions": [{"name": "f", "arguments": ["q"], "value": "r"}]},
            "functions[0].value: column 1: r is not declared",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_place(change, words, tmp_path):
    path = tmp_path / "swing.json"
    path.write_text(json.dumps(BASE | change))
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        ks.Model.read(path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1,}', "line 1, column 9: it is no JSON"),
        ('{"a": 1, "a": 2}', "the entry 'a' occurs twice"),
        ('{"a": NaN}', "NaN is no number here"),
        ('{"a": 1e999}', "beyond double precision"),
        (f'{{"a": {"9" * 10_000}}}', "beyond double precision"),
        ("[" * 100_000, "nested too deeply"),
        ("[1]", "expected an object"),
        ("", "line 1, column 1: it is no JSON"),
        ("é".encode("latin-1"), "it is no text in UTF-8"),
    ],
)
def test_what_is_no_document(text, words, tmp_path):
    path = tmp_path / "swing.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=re.escape(words)):
        ks.Model.read(path)


def test_what_has_no_text_form_is_refused_by_name(tmp_path):
    path = tmp_path / "system.json"
    own = ks.function("own", [k], "sin(k)", [sp.cos(k)], python=np.sin)
    model = ks.Model("m", [x], [], [], [x.diff(t) - own(x)])
    with pytest.raises(ValueError, match=r"model m: the function own has C text and no expression"):
        model.write(path)
    deep = x
    for _ in range(30):
        deep = sp.sin(deep) + sp.cos(deep) * sp.tan(deep)
    with pytest.raises(ValueError, match="make them intermediates"):
        ks.Model("m", [x], [], [], [x.diff(t) - deep]).write(path)
    assert not path.exists()
    known = ks.function("own", [k], "sin(k)", [sp.cos(k)], python=sp.sin(k))
    found = again(ks.Model("m", [x], [], [], [x.diff(t) - known(x)]), tmp_path)
    assert sp.diff(found.equations[0], x).has(sp.cos)  # its expression, not its C text


def test_layout_shows_changes_line_by_line():
    text = layout({"a": [{"b": 1}, {"b": [0.5, 1]}], "c": {}, "d": ["e"], "f": [1.0] * 90})
    assert text.splitlines()[:4] == ["{", '  "a": [', '    {"b": 1},', '    {"b": [0.5, 1]}']
    assert len(text.splitlines()) == 9 and json.loads(text)["f"] == [1.0] * 90
