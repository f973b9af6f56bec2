"""Models in SBML against closed forms, and what is refused."""

import ast

import numpy as np
import pytest
import sympy as sp

import kinesym as ks
from kinesym.models.files.petab import Measurement, Observable, Period, Tables
from kinesym.models.files.sbml import model_of
from kinesym.models.files.sbml_document import document_of
from kinesym.petab.runs import simulated

HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>'
    '<sbml xmlns="http://www.sbml.org/sbml/level3/version2/core" level="3" version="2">'
    '<model id="m">'
)
MATH = '<math xmlns="http://www.w3.org/1998/Math/MathML">{}</math>'


def species(name, amount=None, concentration=None, home="c", **flags):
    given = {"hasOnlySubstanceUnits": "false", "boundaryCondition": "false", "constant": "false"}
    if amount is not None:
        given["initialAmount"] = amount
    if concentration is not None:
        given["initialConcentration"] = concentration
    words = " ".join(f'{key}="{value}"' for key, value in {**given, **flags}.items())
    return f'<species id="{name}" compartment="{home}" {words}/>'


def compartment(name="c", size=1.0, constant="true"):
    return f'<compartment id="{name}" size="{size}" spatialDimensions="3" constant="{constant}"/>'


def parameter(name, value=None, constant="true"):
    said = "" if value is None else f'value="{value}"'
    return f'<parameter id="{name}" {said} constant="{constant}"/>'


TAGS = {
    **{ast.Add: "plus", ast.Sub: "minus", ast.Mult: "times", ast.Div: "divide", ast.Pow: "power"},
    **{ast.Lt: "lt", ast.LtE: "leq", ast.Gt: "gt", ast.GtE: "geq", ast.Eq: "eq"},
    **{ast.And: "and", ast.Or: "or", ast.USub: "minus"},
}
URL = "http://www.sbml.org/sbml/symbols/"


def content(node):
    """Content MathML of a node of Python's grammar."""

    def apply(tag, *parts):
        return f"<apply>{tag}{''.join(map(content, parts))}</apply>"

    match node:
        case ast.Constant(value=int() as value):
            return f'<cn type="integer"> {value} </cn>'
        case ast.Constant(value=value):
            return f"<cn> {value} </cn>"
        case ast.Name(id="time"):
            return f'<csymbol encoding="text" definitionURL="{URL}time"> time </csymbol>'
        case ast.Name(id=name):
            return f"<ci> {name} </ci>"
        case ast.BinOp(left, op, right):
            return apply(f"<{TAGS[type(op)]}/>", left, right)
        case ast.UnaryOp(op, operand):
            return apply(f"<{TAGS[type(op)]}/>", operand)
        case ast.BoolOp(op, values):
            return apply(f"<{TAGS[type(op)]}/>", *values)
        case ast.Compare(left, [op], [right]):
            return apply(f"<{TAGS[type(op)]}/>", left, right)
        case ast.Call(ast.Name("piecewise"), [*pairs, last]):
            pieces = zip(map(content, pairs[::2]), map(content, pairs[1::2]), strict=True)
            rows = "".join(f"<piece>{value}{condition}</piece>" for value, condition in pieces)
            return f"<piecewise>{rows}<otherwise>{content(last)}</otherwise></piecewise>"
        case ast.Call(ast.Name("exp" | "floor" | "xor" | "implies" as name), args):
            return apply(f"<{name}/>", *args)
        case ast.Call(ast.Name("delay" | "rateOf" as name), args):
            return apply(f'<csymbol definitionURL="{URL}{name}"> d </csymbol>', *args)
        case ast.Call(ast.Name(name), args):
            return apply(f"<ci> {name} </ci>", *args)
    raise AssertionError(ast.dump(node))


def math(formula):
    """The formula of a text, such as "k*a^2" or "x > 1 && y < 2"."""
    python = formula.replace("^", "**").replace("&&", " and ").replace("||", " or ")
    return MATH.format(content(ast.parse(python, mode="eval").body))


def reaction(name, law, reactants=(), products=()):
    def references(kind, names):
        rows = [
            f'<speciesReference species="{one}" stoichiometry="{count}" constant="true"/>'
            for one, count in names
        ]
        return f"<listOf{kind}>{''.join(rows)}</listOf{kind}>" if rows else ""

    return (
        f'<reaction id="{name}" reversible="false">{references("Reactants", reactants)}'
        f"{references('Products', products)}<kineticLaw>{math(law)}</kineticLaw></reaction>"
    )


def rule(kind, formula, variable=""):
    of = f' variable="{variable}"' if variable else ""
    return f"<{kind}Rule{of}>{math(formula)}</{kind}Rule>"


def initially(name, formula):
    return f'<initialAssignment symbol="{name}">{math(formula)}</initialAssignment>'


def event(name, trigger, initial="true", more="", at_trigger="true", persistent="true", **resets):
    rows = "".join(
        f'<eventAssignment variable="{k}">{math(v)}</eventAssignment>' for k, v in resets.items()
    )
    return (
        f'<event id="{name}" useValuesFromTriggerTime="{at_trigger}"><trigger '
        f'initialValue="{initial}" persistent="{persistent}">{math(trigger)}</trigger>{more}'
        f"<listOfEventAssignments>{rows}</listOfEventAssignments></event>"
    )


ORDER = (
    "FunctionDefinitions UnitDefinitions Compartments Species Parameters InitialAssignments Rules "
    "Reactions Events"
).split()


@pytest.fixture
def written(tmp_path):
    """Writes a document and returns its path."""

    def write(head=HEAD, **lists):
        parts = [f"<listOf{k}>{''.join(lists[k])}</listOf{k}>" for k in ORDER if k in lists]
        path = tmp_path / "model.xml"
        path.write_text(f"{head}{''.join(parts)}</model></sbml>", encoding="utf-8")
        return path

    return write


def course(file, time, names, **parameters):
    made = ks.simulate(
        file.system, time, file.starts, parameters or None, method="radau-5", rtol=1e-10, atol=1e-12
    )
    assert not made.message
    return [np.asarray(made[name]) for name in names]


TIME = np.linspace(0.0, 2.0, 9)


def test_a_decay_in_concentrations_and_amounts(written):
    """a in c (size 2) goes to b, an amount, twice: law k*a*c per second in amounts."""
    file = ks.sbml.read(
        written(
            Compartments=[compartment(size=2)],
            Species=[
                species("a", concentration=3),
                species("b", amount=1, hasOnlySubstanceUnits="true"),
            ],
            Parameters=[parameter("k", 0.7)],
            Reactions=[reaction("fade", "k*a*c", [("a", 1)], [("b", 2)])],
        )
    )
    a, b, fade = course(file, TIME, ["a", "b", "fade"])
    true = 3 * np.exp(-0.7 * TIME)
    assert a == pytest.approx(true, rel=1e-8)
    assert b == pytest.approx(1 + 2 * 2 * (3 - true), rel=1e-8)
    assert fade == pytest.approx(0.7 * 2 * true, rel=1e-8)
    assert file.model.values == {"c": 2.0, "k": 0.7}
    assert file.starts == {"a": 3, "b": 1}


def test_initial_amounts_are_concentrations_where_these_are_meant(written):
    file = ks.sbml.read(
        written(
            Compartments=[compartment(size=4)],
            Species=[
                species("a", amount=2),
                species("b", concentration=2, hasOnlySubstanceUnits="true"),
            ],
            Reactions=[reaction("r", "0*a", [("a", 1)], [("b", 1)])],
        )
    )
    assert file.starts == {"a": sp.Rational(1, 2) * 1.0, "b": 8}


def test_a_compartment_that_grows_dilutes(written):
    file = ks.sbml.read(
        written(
            Compartments=[compartment(size=1, constant="false")],
            Species=[species("a", concentration=2)],
            Parameters=[parameter("g", 0.5), parameter("k", 0.25)],
            Rules=[rule("rate", "g*c", "c")],
            Reactions=[reaction("made", "k*c", [], [("a", 1)])],
        )
    )
    # (a c)' = k c with c = exp(g t): a = k/g + (a0 - k/g) exp(-g t)
    a, c = course(file, TIME, ["a", "c"])
    assert a == pytest.approx(0.5 + 1.5 * np.exp(-0.5 * TIME), rel=1e-8)
    assert c == pytest.approx(np.exp(0.5 * TIME), rel=1e-8)


def test_a_compartment_by_an_assignment_rule(written):
    file = ks.sbml.read(
        written(
            Compartments=[compartment(constant="false")],
            Species=[species("a", concentration=2)],
            Parameters=[parameter("s", 1, "false")],
            Rules=[rule("assignment", "1 + s^2", "c"), rule("rate", "1", "s")],
            Reactions=[reaction("r", "0*a", [("a", 1)])],
        )
    )
    (a,) = course(file, TIME, ["a"])  # the amount 2 (1 + 1) is kept
    assert a == pytest.approx(4 / (1 + (1 + TIME) ** 2), rel=1e-8)


def test_amounts_where_formulas_say_the_size_of_the_compartment(written):
    """By an initial assignment, or a rule: not the size in the attribute."""
    sizes = (
        {"InitialAssignments": [initially("c", "2*p")]},
        {"Rules": [rule("assignment", "6", "c")]},
    )
    for size, constant in zip(sizes, ("true", "false"), strict=True):
        file = ks.sbml.read(
            written(
                Compartments=[compartment(size=2, constant=constant)],
                Species=[
                    species("a", amount=3),
                    species("b", concentration=2, hasOnlySubstanceUnits="true"),
                ],
                Parameters=[parameter("p", 3)],
                Reactions=[reaction("r", "a*c", [("a", 1)], [("b", 1)])],
                **size,
            )
        )
        a, b = course(file, TIME, ["a", "b"])
        assert a == pytest.approx(0.5 * np.exp(-TIME), rel=1e-8)
        assert b == pytest.approx(12 + 3 * (1 - np.exp(-TIME)), rel=1e-8)


def test_a_compartment_dilutes_what_nothing_else_changes(written):
    file = ks.sbml.read(
        written(
            Compartments=[compartment(size=2, constant="false")],
            Species=[species("a", concentration=3), species("b", 3, boundaryCondition="true")],
            Rules=[rule("rate", "0.5*c", "c")],
            Events=[event("again", "time > 1", b="1.5*exp(-0.5*time)")],
        )
    )
    a, b = course(file, TIME, ["a", "b"])
    assert a == pytest.approx(3 * np.exp(-0.5 * TIME), rel=1e-8)
    assert b == pytest.approx(1.5 * np.exp(-0.5 * TIME), rel=1e-8)


def test_functions_local_parameters_and_rules_in_any_order(written):
    function = (
        '<functionDefinition id="twice"><math xmlns="http://www.w3.org/1998/Math/MathML"><lambda>'
        "<bvar><ci>x</ci></bvar><apply><times/><cn>2</cn><ci>x</ci></apply></lambda></math>"
        "</functionDefinition>"
    )
    law = reaction("r", "twice(j)*a", [("a", 1)]).replace(
        "</kineticLaw>",
        '<listOfLocalParameters><localParameter id="j" value="0.5"/></listOfLocalParameters>'
        "</kineticLaw>",
    )
    file = ks.sbml.read(
        written(
            FunctionDefinitions=[function],
            Compartments=[compartment()],
            Species=[species("a", concentration=1)],
            Parameters=[parameter("y", constant="false"), parameter("z", constant="false")],
            Rules=[rule("assignment", "z + a", "y"), rule("assignment", "10*a + time", "z")],
            Reactions=[law],
        )
    )
    a, y = course(file, TIME, ["a", "y"])
    assert a == pytest.approx(np.exp(-TIME), rel=1e-8)
    assert y == pytest.approx(11 * np.exp(-TIME) + TIME, rel=1e-8)


def test_initial_assignments_follow_parameters(written):
    file = ks.sbml.read(
        written(
            Compartments=[compartment()],
            Species=[species("a"), species("b")],
            Parameters=[parameter("p", 2), parameter("q")],
            InitialAssignments=[
                initially("b", "a + q"),
                initially("q", "3*p"),
                initially("a", "q^2"),
            ],
            Reactions=[reaction("r", "q*a", [("a", 1)], [("b", 1)])],
        )
    )
    p = sp.Symbol("p")
    assert sp.expand(file.starts["a"] - 9 * p**2) == 0
    assert sp.expand(file.starts["b"] - 9 * p**2 - 3 * p) == 0
    (a,) = course(file, TIME, ["a"], p=0.5)
    assert a == pytest.approx(2.25 * np.exp(-1.5 * TIME), rel=1e-8)


def test_constants_that_are_what_states_are_at_the_start(written):
    """p is twice a at the start, and b is p; where another value of a is told, they follow it."""
    file = ks.sbml.read(
        written(
            Compartments=[compartment()],
            Species=[species("a", concentration=3), species("b")],
            Parameters=[parameter("p"), parameter("r")],
            InitialAssignments=[
                initially("p", "2*a + time"),
                initially("b", "p"),
                initially("r", "fade"),
            ],
            Reactions=[reaction("fade", "0.5*a", [("a", 1)])],
        )
    )
    a, p, r = course(file, TIME, ["a", "p", "r"])
    assert a == pytest.approx(3 * np.exp(-0.5 * TIME), rel=1e-8)
    assert (p.tolist(), r.tolist()) == ([6.0] * len(TIME), [1.5] * len(TIME))
    assert file.starts_with({"a": 5}) == {"a": 5, "b": 10, "p": 10, "r": 2.5}


def test_initial_assignments_are_of_the_first_period(written):
    """Of experiments in PEtab 2, of which one begins at -1."""
    path = written(
        Parameters=[
            parameter("p", 2),
            parameter("q"),
            parameter("x", 0, "false"),
            parameter("n", 0, "false"),
        ],
        InitialAssignments=[initially("q", "3*p")],
        Rules=[rule("rate", "q", "x")],
        Events=[event("from_zero", "time >= 0", "false", n="n + 100")],
    )
    file = model_of(document_of(path), {"p"}, {"p"})
    shown = Observable("o", sp.Symbol("x") + sp.Symbol("n"), sp.S.One, (), (), "normal", "lin")
    rows = [Measurement("o", "", time, 1.0, (), (), "") for time in (-0.5, 0.5, 2.0)]
    periods = {"": [Period(-1.0, {"p": sp.Integer(4)}), Period(1.0, {"p": sp.Integer(5)})]}
    found = simulated(Tables("", path, {}, {"o": shown}, periods, rows), file, {})
    assert found.simulation == pytest.approx([6.0, 118.0, 136.0], rel=1e-9)


def test_events_that_follow_as_a_period_begins(written):
    """x is 3 more from 1.5 on, 4.417: doubled first, so that n counts, and then 2 more than it was;
    the late one is 1 after that, with 10 more, and n counts again."""
    path = written(
        Parameters=[parameter("x", 3, "false"), parameter("n", 0, "false")],
        Rules=[rule("rate", "-x/2", "x")],
        Events=[
            event("late", "x > 3", more=waits(delay="1"), x="x + 10"),
            event("last", "x > 3.1", x="x + 2"),
            event("doubled", "x > 3.5", more=waits("1"), x="2*x"),
            event("counted", "x > 8", more=waits("3"), n="n + 1"),
        ],
    )
    file = model_of(document_of(path), {"x"})
    shown = Observable(
        "o", sp.Symbol("x") + 100 * sp.Symbol("n"), sp.S.One, (), (), "normal", "lin"
    )
    rows = [Measurement("o", "", time, 1.0, (), (), "") for time in (1.5, 2.0, 3.0)]
    periods = {"": [Period(0.0, {}), Period(1.5, {"x": sp.Symbol("x") + 3})]}
    found = simulated(Tables("", path, {}, {"o": shown}, periods, rows), file, {})
    x = 3 * np.exp(-0.75) + 3
    expected = [x + 102, (x + 2) * np.exp(-0.25) + 100, (x + 10) * np.exp(-0.25) + 200]
    assert found.simulation == pytest.approx(expected, rel=1e-8)


def test_a_local_parameter_by_the_name_of_another(written):
    law = reaction("r", "k*a", [("a", 1)]).replace(
        "</kineticLaw>",
        '<listOfLocalParameters><localParameter id="k" value="0.5"/></listOfLocalParameters>'
        "</kineticLaw>",
    )
    file = ks.sbml.read(
        written(
            Compartments=[compartment()],
            Species=[species("a", concentration=1)],
            Parameters=[parameter("r_k", 7), parameter("k", 9)],
            Reactions=[law],
        )
    )
    assert course(file, TIME, ["a"])[0] == pytest.approx(np.exp(-0.5 * TIME), rel=1e-8)


def test_an_algebraic_rule(written):
    file = ks.sbml.read(
        written(
            Parameters=[parameter("x", 1, "false"), parameter("y", 3, "false")],
            Rules=[rule("rate", "-y", "x"), rule("algebraic", "y - 3*x")],
        )
    )
    x, y = course(file, TIME, ["x", "y"])
    assert x == pytest.approx(np.exp(-3 * TIME), rel=1e-8)
    assert y == pytest.approx(3 * np.exp(-3 * TIME), rel=1e-8)


def test_conversion_factors_and_constant_boundaries(written):
    head = HEAD.replace('id="m"', 'id="m" conversionFactor="f"')
    file = ks.sbml.read(
        written(
            head,
            Compartments=[compartment()],
            Species=[
                species("a", concentration=1),
                species("pool", concentration=5, boundaryCondition="true", constant="true"),
            ],
            Parameters=[parameter("f", 3)],
            Reactions=[reaction("r", "pool", [("pool", 1)], [("a", 2)])],
        )
    )
    (a,) = course(file, TIME, ["a"])
    assert a == pytest.approx(1 + 3 * 2 * 5 * TIME, rel=1e-9)
    assert file.model.state_names == ["a"] or list(file.model.state_names) == ["a"]


def test_pieces_of_time(written):
    file = ks.sbml.read(
        written(
            Parameters=[parameter("x", 0, "false"), parameter("on", 0.5)],
            Rules=[rule("rate", "piecewise(1, time < on, 0.1)", "x")],
        )
    )
    (x,) = course(file, TIME, ["x"])
    assert x == pytest.approx(np.where(TIME < 0.5, TIME, 0.5 + 0.1 * (TIME - 0.5)), abs=1e-8)


def test_pieces_of_states(written):
    """Newton's method goes on after a jump within a step, however well it did before."""
    file = ks.sbml.read(
        written(
            Parameters=[parameter("x", 0, "false"), parameter("y", 1, "false")],
            Rules=[
                rule("rate", "piecewise(1, (x < 0.5) || (x > 0.9), 2)", "x"),
                rule("rate", "-y*piecewise(3, x < 0.8 && y > 0.5, 1)", "y"),
            ],
        )
    )
    (x,) = course(file, TIME, ["x"])
    assert x[2:5] == pytest.approx([0.5, 0.95, 1.2], abs=1e-6)


def test_events(written):
    file = ks.sbml.read(
        written(
            Parameters=[parameter("x", 1, "false"), parameter("n", 0, "false")],
            Rules=[rule("rate", "x", "x")],
            Events=[event("halve", "x >= 2", x="x/2", n="n + 1")],
        )
    )
    x, n = course(file, np.array([0.0, 0.5, 1.0, 2.0]), ["x", "n"])
    assert x[-1] == pytest.approx(np.exp(2.0) / 4, rel=1e-7)
    assert n.tolist() == [0, 0, 1, 2]


def test_events_at_once_use_the_values_before_all_of_them(written):
    lists = {"Parameters": [parameter("x", 1, "false"), parameter("n", 0, "false")]}
    events = [event("a", "time > 1", x="x + 1"), event("b", "time > 1", n="x")]
    file = ks.sbml.read(written(**lists, Events=events))
    x, n = course(file, TIME, ["x", "n"])
    assert (x[-1], n[-1]) == (2, 1)
    with pytest.raises(ValueError, match="the events a, c set x at once, in an order that nothing"):
        ks.sbml.read(written(**lists, Events=[events[0], event("c", "1 < time", x="7")]))


def test_triggers_of_what_events_set_where_both_sides_are_equal(written):
    """On, then n, from a reset to the very level; a parameter that is its level."""
    file = ks.sbml.read(
        written(
            Parameters=[
                parameter("x", 1, "false"),
                parameter("on", 0, "false"),
                parameter("n", 0, "false"),
                parameter("m", 0, "false"),
                parameter("p", 0),
            ],
            Rules=[rule("rate", "-x", "x")],
            Events=[
                event("a", "x < 0.5", on="1"),
                event("b", "on >= 1", n="n + 1"),
                event("c", "on > 1", n="7"),
                event("d", "x < 0.4 && p >= 0", m="1"),
            ],
        )
    )
    on, n, m = course(file, TIME, ["on", "n", "m"])
    assert (on[-1], n[-1], m[-1]) == (1, 1, 1)


def test_events_at_the_start_happen(written):
    """Those whose trigger was not true before, with the values before them; one with a strict
    condition happens just after, and one that was true already does not."""
    path = written(
        Parameters=[parameter("x", 1, "false"), parameter("n", 2, "false"), parameter("k", 3)],
        Rules=[rule("rate", "-x", "x")],
        Events=[
            event("dose", "time >= 0", "false", x="x + k*n", n="5"),
            event("never", "time + 1 >= 0", x="100"),
            event("later", "time > 0", n="n + 1"),
        ],
    )
    x, n = course(ks.sbml.read(path), TIME, ["x", "n"])
    assert x == pytest.approx(7.0 * np.exp(-TIME), rel=1e-7)
    assert n.tolist() == [5, *[6] * (len(TIME) - 1)]


def waits(priority=None, delay=None):
    """Priority and delay of an event."""
    rows = [("priority", priority), ("delay", delay)]
    return "".join(f"<{what}>{math(e)}</{what}>" for what, e in rows if e is not None)


def now(priority=None, delay=None, **more):
    """Options of an event whose values are those at its execution."""
    return {"more": waits(priority, delay), "at_trigger": "false", **more}


#: Triggers at 1 of x' = 1 from 0 and n from 0; events as (trigger, options, resets); n at the end.
ORDERS = {
    "priorities": (
        ("time >= 1", now("1"), {"n": "n + 1"}),
        ("time >= 1", now("5"), {"n": "10*n + 3"}),
        4.0,
    ),
    "values of the trigger": (
        ("time >= 1", {"more": waits("5")}, {"n": "n + 1"}),
        ("time >= 1", {"more": waits("1")}, {"n": "n + 10"}),
        10.0,
    ),
    "priorities by the ones before": (  # SBML test suite, case 00934
        ("time >= 1", now("10"), {"n": "1", "m": "0"}),
        ("time >= 1", now("2*m"), {"n": "2", "m": "1"}),
        ("time >= 1", now("2*n"), {"n": "3", "m": "2"}),
        2.0,
    ),
    "none is the last": (
        ("time >= 1", now(), {"n": "n + 1"}),
        ("time >= 1", now("-7"), {"n": "10*n + 3"}),
        4.0,
    ),
    "one between two": (
        ("time >= 1", now("10"), {"n": "n + 1"}),
        ("n > 0", now("5"), {"n": "10*n"}),
        ("time >= 1", now("1"), {"n": "n + 3"}),
        13.0,
    ),
    "false again": (
        ("time >= 1 && m > 0", now("2", persistent="false"), {"m": "0", "n": "n + 1"}),
        ("time >= 1 && m > 0", now("1", persistent="false"), {"n": "n + 10"}),
        ("time >= 1 && m > 0", now("0"), {"n": "n + 100"}),
        101.0,
    ),
    "at one time by other triggers": (
        ("time >= 1", {}, {"n": "5"}),
        ("x >= 1", {}, {"m": "n + 1"}),
        ("time >= 1.5", {}, {"n": "n + m"}),
        6.0,
    ),
    "a clock and the time at once": (
        ("time >= 1", now("10"), {"n": "n + 1"}),
        ("x >= 1", now("1"), {"n": "10*n + 3"}),
        ("x >= 1.5", now("10"), {"n": "n + 1"}),
        ("time >= 1.5", now("1"), {"n": "10*n + 3"}),
        143.0,
    ),
    "a level that a rounded value comes to": (
        ("y >= 1", {}, {"n": "n + x + 10"}),
        11.0,
    ),
    "conditions of conditions": (
        ("xor(x > 0.5, x > 1.5)", {}, {"n": "n + 1"}),
        ("piecewise(x > 1, x < 1.5, x > 1.8)", {}, {"n": "n + 10"}),
        ("implies(x > 0.5, x > 1.2)", {}, {"n": "n + 100"}),
        121.0,
    ),
    "a level that is set": (
        ("time >= 1", {}, {"x": "3"}),
        ("x >= 3", {}, {"n": "n + 1"}),
        ("x > 3", {}, {"n": "n + 10"}),
        11.0,
    ),
    "a delay": (("x >= 0.5", {"more": waits(None, "0.25")}, {"n": "x + 10"}), 10.5),
    "a delay, values of its end": (("x >= 0.5", now(None, "x/2"), {"n": "x + 10"}), 10.75),
    "a delay of none": (("x >= 0.5", now(None, "m - 1"), {"n": "x + 10"}), 10.5),
    "false before its end": (
        ("x > 0.5 && x < 0.9", now(None, "0.5", persistent="false"), {"n": "n + 1"}),
        ("x > 0.5 && x < 0.9", now("1", "0.5"), {"n": "n + 10"}),
        ("x > 0.5 && x < 0.9", now(None, "0.25", persistent="false"), {"n": "n + 100"}),
        110.0,
    ),
    "ends of delays at one time": (
        ("time >= 0.5", now("1", "0.5"), {"n": "n + 1"}),
        ("time >= 0.75", now("5", "0.25"), {"n": "10*n + 3"}),
        ("time >= 1", now("3"), {"n": "n^2 + 1"}),
        11.0,
    ),
    "from the start": (
        ("time >= 0", now("1", initial="false"), {"n": "n + 3"}),
        ("x < 1", now("3", initial="false"), {"n": "2*n + 5"}),
        ("n > 1", now("2"), {"n": "n^2"}),
        ("time >= 0", now("7", "0.5", initial="false"), {"n": "n/2"}),
        14.0,
    ),
}


@pytest.mark.parametrize("name", ORDERS)
def test_events_in_order(written, name):
    *rows, last = ORDERS[name]
    events = [event(f"e{k}", when, **how, **sets) for k, (when, how, sets) in enumerate(rows)]
    path = written(
        Parameters=[
            parameter("x", 0, "false"),
            parameter("n", 0, "false"),
            parameter("m", 1, "false"),
            parameter("y", None, "false"),
        ],
        Rules=[rule("rate", "1", "x"), rule("assignment", "floor(x)", "y")],
        Events=events,
    )
    (n,) = course(ks.sbml.read(path), np.array([0.0, 0.3, 2.0]), ["n"])
    assert n[-1] == pytest.approx(last, rel=1e-9)


def test_a_trigger_again_before_its_delay_is_over(written):
    """x goes up and down between 0.1 and 1.1, through 0.6 upwards at 0.6, 2.6, ...; executions wait
    side by side, up to four."""
    lists = {
        "Parameters": [parameter(name, 0, "false") for name in ("x", "n", "s")],
        "Rules": [rule("rate", "piecewise(1, s < 0.5, -1)", "x")],
    }
    turns = [event("up", "x >= 1.1", s="1"), event("down", "x <= 0.1", s="0")]

    def read(delay):
        late = event("late", "x > 0.6", **now(None, delay), n="n + 1")
        return ks.sbml.read(written(**lists, Events=[*turns, late]))

    (n,) = course(read("5"), np.array([0.0, 5.5, 5.7, 7.7, 20.0]), ["n"])
    assert n.tolist() == [0, 0, 1, 2, 8]
    with pytest.warns(UserWarning, match="late while 4 of its executions wait"):
        file = read("9")
        ks.simulate(file.system, np.array([0.0, 20.0]), file.starts)


def test_derivatives_across_a_delay(written):
    """x' = -k x from 1; d after x is 0.5 it is 1 more than it was then."""
    k, d, T = 0.7, 0.4, 3.0
    late = event("late", "x < h", more=waits(None, "d"), x="x + 1")
    file = ks.sbml.read(
        written(
            Parameters=[
                parameter("x", 1, "false"),
                parameter("k", k),
                parameter("d", d),
                parameter("h", 0.5),
            ],
            Rules=[rule("rate", "-k*x", "x")],
            Events=[late],
        )
    )
    found = ks.sensitivities(file.system, np.array([0.0, T]), file.starts, rtol=1e-12, atol=1e-13)
    x = 3 * np.exp(-k * (T - d))  # (1 + h) exp(-k (T - d))/h
    assert found.run["x"][-1] == pytest.approx(x, rel=1e-9)
    slopes = found.forward(["k", "d", "h"]).states["x"][:, -1]
    assert slopes == pytest.approx([-(T - d) * x, k * x, (1 / 1.5 - 1 / 0.5) * x], rel=1e-9)


def test_rates_in_formulas(written):
    """The compartment c' = 0.1 c dilutes a: a' = -(k + 0.1) a."""
    file = ks.sbml.read(
        written(
            Compartments=[compartment(size=2, constant="false")],
            Species=[species("a", concentration=3)],
            Parameters=[parameter(name, 0, "false") for name in ("u", "v", "w")],
            Rules=[
                rule("rate", "0.1*c", "c"),
                rule("assignment", "2*rateOf(a)", "u"),
                rule("rate", "rateOf(a) + rateOf(c)", "v"),
                rule("rate", "rateOf(v)", "w"),
            ],
            Reactions=[reaction("r", "0.3*a*c", [("a", 1)])],
        )
    )
    a, c, u, v, w = course(file, TIME, ["a", "c", "u", "v", "w"])
    assert a == pytest.approx(3 * np.exp(-0.4 * TIME), rel=1e-8)
    assert u == pytest.approx(-0.8 * a, rel=1e-9)
    assert v == pytest.approx(a - 3 + c - 2, abs=1e-8)
    assert w == pytest.approx(v, abs=1e-8)


def test_a_strict_trigger_that_begins_at_equality(written):
    path = written(
        Parameters=[parameter("x", 1, "false"), parameter("n", 0, "false")],
        Rules=[rule("rate", "-x", "x")],
        Events=[event("below", "x < 1", n="n + 1"), event("at", "x <= 1", n="n + 10")],
    )
    (n,) = course(ks.sbml.read(path), TIME, ["n"])
    assert n.tolist() == [0, *[1] * (len(TIME) - 1)]


def test_events_at_the_start_by_parameters_are_refused(written):
    path = written(
        Parameters=[parameter("x", 1, "false"), parameter("y", 2)],
        Rules=[rule("rate", "-x", "x")],
        Events=[event("now", "x < y", "false", x="5")],
    )
    with pytest.raises(ValueError, match="now happens at the start by the values of parameters"):
        ks.sbml.read(path)


@pytest.mark.parametrize("trigger, at_once", [("time >= 0.5", True), ("time > 0.5", False)])
def test_a_sample_at_the_time_of_an_event(written, trigger, at_once):
    """A strict condition is not met at that time yet."""
    path = written(
        Parameters=[parameter("x", 1, "false")],
        Rules=[rule("rate", "1", "x")],
        Events=[event("jump", trigger, x="x + 10")],
    )
    (x,) = course(ks.sbml.read(path), np.array([0.0, 0.5, 1.0]), ["x"])
    assert x == pytest.approx([1.0, 11.5 if at_once else 1.5, 12.0], abs=1e-9)


def test_events_that_set_the_size_of_a_compartment(written):
    """Amounts are kept; a concentration that the same event sets is one in the size before."""
    path = written(
        Compartments=[compartment(size=2.0, constant="false")],
        Species=[
            species("a", concentration=3.0),
            species("b", concentration=1.0),
            species("m", amount=4.0, hasOnlySubstanceUnits="true"),
        ],
        Events=[event("pour", "time >= 0.5", c="2*c", b="6", m="m + 1")],
    )
    c, a, b, m = course(ks.sbml.read(path), np.array([0.0, 0.25, 1.0]), ["c", "a", "b", "m"])
    assert (c[1], a[1], b[1], m[1]) == (2, 3, 1, 4)
    assert (c[-1], a[-1], b[-1], m[-1]) == (4, 1.5, 3, 5)


def test_units(written):
    units = (
        '<unitDefinition id="nM"><listOfUnits><unit kind="mole" exponent="1" scale="-9" '
        'multiplier="1"/><unit kind="litre" exponent="-1" scale="0" multiplier="1"/></listOfUnits>'
        '</unitDefinition><unitDefinition id="per_minute"><listOfUnits><unit kind="second" '
        'exponent="-1" scale="0" multiplier="60"/></listOfUnits></unitDefinition>'
    )
    file = ks.sbml.read(
        written(
            UnitDefinitions=[units],
            Parameters=[
                parameter("x", 1, "false").replace("/>", ' units="nM"/>'),
                parameter("k", 1).replace("/>", ' units="per_minute"/>'),
            ],
            Rules=[rule("rate", "-k*x", "x")],
        )
    )
    pint = pytest.importorskip("pint")
    assert file.model.units == {"x": "nanomole / litre", "k": "1 / (60 second)"}
    assert pint.UnitRegistry()(file.model.units["k"]).to("1/hour").magnitude == pytest.approx(60.0)


def test_names_of_time_get_another(written):
    file = ks.sbml.read(
        written(
            Parameters=[parameter("t", 2), parameter("x", 0, "false")],
            Rules=[rule("rate", "t", "x")],
        )
    )
    assert file.model.values == {"t_": 2.0}


@pytest.mark.parametrize(
    "lists, words",
    [
        (
            {
                "Compartments": [compartment()],
                "Species": [species("a", 1)],
                "Reactions": [reaction("r", "a", [("a", 1)]).replace('stoichiometry="1"', "")],
            },
            "a reaction has no stoichiometry of a",
        ),
        (
            {
                "Parameters": [parameter("x", 1, "false")],
                "Rules": [rule("rate", "delay(x, 1)", "x")],
            },
            "the rate rule of x: the function delay, which is not read",
        ),
        (
            {"Parameters": [parameter("x", 1, "false")], "Rules": [rule("rate", "z", "x")]},
            "z",
        ),
        (
            {"Parameters": [parameter("x", None, "false")], "Rules": [rule("rate", "1", "x")]},
            "x has no value at the start",
        ),
        (
            {
                "Parameters": [parameter("x", 1, "false"), parameter("y", 1, "false")],
                "Rules": [rule("assignment", "y", "x"), rule("assignment", "x", "y")],
            },
            "circle|cycle",
        ),
        (
            {
                "Parameters": [parameter("x", 1, "false"), parameter("y", 1, "false")],
                "Rules": [rule("rate", "rateOf(y)", "x"), rule("assignment", "x", "y")],
            },
            "the rate rule of x: rateOf y, which has no rate of its own",
        ),
        (
            {
                "Parameters": [parameter("x", 1, "false")],
                "Rules": [rule("rate", "1", "x")],
                "Events": [event("odd", "x == 2", x="0")],
            },
            "the trigger of event odd",
        ),
    ],
)
def test_what_is_not_read_is_named(written, lists, words):
    with pytest.raises(ValueError, match=words):
        ks.sbml.read(written(**lists))


@pytest.mark.parametrize(
    "formula, words",
    [
        ("<apply><minus/>" * 400 + "<ci>x</ci>" + "</apply>" * 400, "too deep to be read"),
        ("<cn> 1e999 </cn>", "the number '1e999' of type real"),
        ('<cn type="e-notation"> 1 <sep/> 99999999 </cn>', "of type e-notation"),
        ("<cn>1</cn><cn>2</cn>", "a formula is one expression, got 2"),
        ("<apply><power/><cn>9</cn><cn>9999999</cn></apply>", "9 to the power of 9999999"),
        ("<apply><factorial/><cn>9999999</cn></apply>", "the factorial of 9999999"),
        ("<apply><divide/><cn>1</cn><cn>0</cn></apply>", "contains NaN, infinity"),
        ("<apply><ci>f</ci><cn>1</cn><cn>1</cn></apply>", "f is a function of 1 arguments, got 2"),
        ("<apply><ci>f</ci><ci>x</ci></apply>", "too deep to be read"),
        ("<infinity/>", "infinity in a formula, which is not read"),
    ],
)
def test_formulas_that_are_no_use(written, formula, words):
    """Nesting, numbers without bounds, functions of themselves."""
    itself = "<lambda><bvar><ci>a</ci></bvar><apply><ci>f</ci><ci>a</ci></apply></lambda>"
    rate = f'<rateRule variable="x">{MATH.format(formula)}</rateRule>'
    path = written(
        FunctionDefinitions=[
            f'<functionDefinition id="f">{MATH.format(itself)}</functionDefinition>'
        ],
        Parameters=[parameter("x", 1, "false")],
        Rules=[rate],
    )
    with pytest.raises(ValueError, match=words):
        ks.sbml.read(path)


def test_a_condition_as_a_number(written):
    rules = [rule("rate", "1 + 2*(time < 0.5)", "x")]
    file = ks.sbml.read(written(Parameters=[parameter("x", 1, "false")], Rules=rules))
    (x,) = course(file, TIME, ["x"])
    assert x[-1] == pytest.approx(1.0 + 2.0 + 1.0, rel=1e-9)


@pytest.mark.parametrize(
    "lists, words",
    [
        ({"Parameters": [parameter("a b", 1)]}, "'a b' is no id"),
        ({"Parameters": [parameter("a", 1)] * 2}, "the id a is there twice"),
        ({"Parameters": [parameter("a", "1,5")]}, "a: value is a number, got '1,5'"),
        ({"Species": [species("a", 1)]}, "species a: there is no compartment c"),
        ({"Rules": [rule("rate", "1", "b")]}, "rateRule of b, which there is not"),
        (
            {
                "Parameters": [parameter("a", 1, "false")],
                "Rules": [rule("rate", "1", "a"), rule("assignment", "2", "a")],
            },
            "a has an assignment rule and a rate rule",
        ),
        (
            {
                "Parameters": [parameter("a", 1, "false")],
                "Rules": [rule("assignment", "2", "a")],
                "Events": [event("e", "time > 1", a="3")],
            },
            "event e sets a, which follows from a formula",
        ),
        ({"Rules": ["<odd/>"]}, "odd in listOfRules, which is not read"),
    ],
)
def test_documents_that_are_wrong(written, lists, words):
    with pytest.raises(ValueError, match=words):
        ks.sbml.read(written(**lists))


def test_fast_reactions_are_refused(written):
    head = HEAD.replace(
        'version2/core" level="3" version="2"', 'version1/core" level="3" version="1"'
    )
    fast = reaction("r", "a", [("a", 1)]).replace("reversible", 'fast="true" reversible')
    path = written(head, Compartments=[compartment()], Species=[species("a", 1)], Reactions=[fast])
    with pytest.raises(ValueError, match="reaction r is fast, which is not read"):
        ks.sbml.read(path)


def test_what_is_no_model(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        ks.sbml.read(tmp_path / "none.xml")
    path = tmp_path / "odd.xml"
    path.write_text("<html></html>", encoding="utf-8")
    with pytest.raises(ValueError, match=str(path)):
        ks.sbml.read(path)
    path.write_text('<!DOCTYPE a [<!ENTITY b "c">]><sbml/>', encoding="utf-8")
    with pytest.raises(ValueError, match="entities"):
        ks.sbml.read(path)
    path.write_text("<sbml", encoding="utf-8")
    with pytest.raises(ValueError, match="no XML"):
        ks.sbml.read(path)
