"""Keywords that public functions do not have: a sentence, and nothing else about them changes."""

import enum
import importlib
import inspect
import pickle
import traceback
import warnings
from functools import cache
from inspect import Parameter

import numpy as np
import pytest

import kinesym as ks
from kinesym.keywords import misnamed, told
from kinesym.keywords._told import Told
from kinesym.notebook import Displayed

PLACES = ["", ".hybrid", ".multibody", ".gait", ".osim", ".urdf", ".mjcf", ".models"]


def own(name, owner):
    """Public methods that classes of the project define."""
    for base in owner.__mro__:
        if base.__module__.startswith("kinesym"):
            for key, method in vars(base).items():
                kinds = (classmethod, staticmethod)
                found = getattr(owner, key) if isinstance(method, kinds) else method
                if not key.startswith("_") and inspect.isroutine(found) and callable(found):
                    yield f"{name}.{key}", found


@cache
def public():
    """Callables by name, but those that take any keyword."""
    found = {}
    for place in PLACES:
        module = importlib.import_module(f"kinesym{place}")
        for name in module.__all__:
            value = getattr(module, name)
            if isinstance(value, type) and not issubclass(value, enum.Enum):
                if any(key in vars(value) for key in ("__init__", "__new__")):
                    found[name] = value
                found |= dict(own(name, value))
            elif inspect.isfunction(value):
                found[name] = value
    return {
        name: call
        for name, call in found.items()
        if Parameter.VAR_KEYWORD not in {p.kind for p in parameters(call).values()}
    }


def parameters(call):
    return inspect.signature(call).parameters


def test_all_public_callables_name_what_they_do_not_have():
    """Themselves, the keyword, and what they have; the nearest if one letter is wrong."""
    assert len(public()) > 500
    for name, call in public().items():
        kinds = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
        names = [p.name for p in parameters(call).values() if p.kind in kinds]
        names = names[names[:1] in (["self"], ["cls"]) :]
        for near in names or [""]:
            with pytest.raises(TypeError) as caught:
                call(**{f"{near}zz": 1})
            said = str(caught.value)
            assert f"has no argument {near}zz; " in said and "unexpected" not in said, name
            assert said.split()[0].split(".")[-1] == name.split(".")[-1], said
            if len(near) > 3:
                assert any(f"did you mean {other}?" in said for other in names), said


def test_what_is_shown_is_told():
    """Results, which come from solves and not by their name, too."""

    def every(owner):
        for child in owner.__subclasses__():
            yield child
            yield from every(child)

    for owner in every(Displayed):
        for name, method in vars(owner).items():
            if inspect.isfunction(method) and not name.startswith("_"):
                assert type(method) is Told, (owner, name)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: ks.Experiment([0, 1], measurments={}), "Experiment has .*mean measurements"),
        (lambda: ks.simulate(None, [0, 1], {}, parameter={}), "simulate has .* mean parameters"),
        (lambda: ks.sensitivities(None, [0, 1], {}, steps=2), "sensitivities has .* mean substeps"),
        (lambda: ks.nrmse(1, 2, axes=3), "nrmse has no argument axes"),
        (lambda: ks.Signal.pieces([0], values=[1.0]), r"Signal.pieces has .* mean value"),
    ],
)
def test_slips(call, said):
    with pytest.raises(TypeError, match=said):
        call()


def grow(mass, *, length=1.0):
    """A function."""
    if mass < 0.0:
        warnings.warn("negative", stacklevel=2)
        return length(wrong=1)
    return mass * length


def test_nothing_else_changes():
    """Class, signature, text, copies by pickle; no line of tracebacks, no level of warnings."""
    made = told(grow)
    assert made(2.0, length=3.0) == 6.0 and made.__doc__ == "A function."
    assert inspect.isfunction(made)
    assert inspect.signature(made) == inspect.signature(grow) and repr(made) == repr(grow)
    assert pickle.loads(pickle.dumps(made))(2.0) == 2.0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(TypeError, match="unexpected keyword argument 'wrong'") as error:
            made(-1.0, length=lambda: 0)  # of another function: as the interpreter says it
    assert caught[0].filename == __file__
    assert [frame.name for frame in traceback.extract_tb(error.tb)][1:] == ["grow"]
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'mass'"):
        made(length=2.0)
    assert misnamed(grow, ["mass", "length"]) is None
    assert pickle.loads(pickle.dumps(ks.nrmse))(np.eye(3)[0], np.ones(3)) > 0.0


def test_methods_of_classes_and_instances():
    class Plain:
        def __init__(self, size=1):
            self.size = size

        def times(self, factor):
            return self.size * factor

        @classmethod
        def large(cls, size=10):
            return cls(size)

        @staticmethod
        def none(of=0):
            return of

    assert told(Plain) is Plain and told(Plain) is Plain
    assert Plain(size=3).times(factor=2) == 6 and Plain.large().size == 10 and Plain.none(of=4) == 4
    for call, said in (
        (lambda: Plain(sice=2), "Plain has no argument sice; did you mean size"),
        (lambda: Plain().times(factr=2), "times has no argument factr; did you mean factor"),
        (lambda: Plain.large(sizes=2), "large has no argument sizes; did you mean size"),
        (lambda: Plain.none(off=2), "none has no argument off; did you mean of"),
    ):
        with pytest.raises(TypeError, match=said):
            call()
