"""`ks.bundle`: a problem and its solution in one file that others can check without solving."""

from __future__ import annotations

import io
import json
import platform
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from hashlib import sha256
from importlib.metadata import version
from inspect import Parameter, signature
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from kinesym.base.checks import naming, shown
from kinesym.base.files import content_of, replacing
from kinesym.base.notebook import Displayed
from kinesym.codegen.c import emit
from kinesym.codegen.kernel import Program
from kinesym.collocation import Collocation
from kinesym.internal.fitting.bundled import members_of, told_in
from kinesym.internal.fitting.claims import (
    Claims,
    check_fit,
    check_solution,
    of_fit,
    of_solution,
)
from kinesym.runtime.arrays import Array
from kinesym.runtime.results.fit import Fit
from kinesym.runtime.results.multistart import MultiStart
from kinesym.runtime.results.solution import Solution
from kinesym.shooting import Shooting
from kinesym.symbolic.hybrid.model import read_system
from kinesym.symbolic.names import check_known
from kinesym.symbolic.text import document

#: Version of the members of a bundle.
_VERSION = 2
#: End of a bundle: the SHA-256 of all bytes before it, as the comment of the ZIP file.
_SEAL = b"kinesym sha256 "
#: Bytes of this end.
_SEALED = len(_SEAL) + 64
#: A member is no larger than this when it is unpacked [bytes].
_UNPACKED = 1 << 30
#: Errors that a damaged ZIP file ends in.
_DAMAGED = (KeyError, TypeError, AttributeError, ValueError, EOFError, RuntimeError, zlib.error)
#: Errors that members end in which do not fit together.
_MISFITS = (KeyError, IndexError, TypeError, AttributeError, RecursionError)
#: Packages whose versions numbers depend on.
_PACKAGES = ("kinesym", "numpy", "scipy", "sympy")


class _Kind(NamedTuple):
    """A kind of problems: its class, that of its solutions, its arguments as they were given, its
    kernels, a check that a solution is one of it, and the claims of a solution."""

    made: Any
    solution: Any
    question: Callable[[Any], Any]
    program: Callable[[Any], Program]
    check: Callable[[Any, Any], Any]
    claims: Callable[[Any, Any], Claims]


#: Kinds of problems by name.
_KINDS: Mapping[str, _Kind] = MappingProxyType(
    {
        "collocation": _Kind(
            *(Collocation, Solution, lambda asked: asked.problem.formulation.question),
            lambda asked: asked.program,
            lambda asked, found: check_solution(asked.problem, found),
            lambda asked, found: of_solution(asked.problem, found),
        ),
        "shooting": _Kind(
            *(Shooting, Fit, lambda asked: asked.problem.question),
            lambda asked: asked.problem.kernels,
            lambda asked, found: check_fit(asked.problem, found),
            lambda asked, found: of_fit(asked.problem, found),
        ),
    }
)


def bundle(
    problem: Collocation | Shooting,
    solution: Solution | Fit | MultiStart,
    path: str | Path,
    guess: Any = None,
    **options: Any,
) -> None:
    """Write a fit as one file, `fit.kin`: models as text, all arguments of the problem, data, the
    start, options, generated C, the solution, versions, and SHA-256 of all of it.

    `kinesym verify fit.kin` checks it without solving, `kinesym rerun fit.kin` solves again;
    `Bundle.read` opens it. solution : what `solve` found, or the best one of `multistart`. guess,
    options : the arguments with which it was found, for `rerun`, such as `max_iterations=500` of
    `solve`, or `starts=50, seed=3` of `multistart`.

    Raises `ValueError` for a solution of another problem, for an option that there is not, and by
    its place for what is code, as functions of Python.
    """
    name = next((name for name, kind in _KINDS.items() if isinstance(problem, kind.made)), None)
    if name is None:
        raise ValueError(
            f"expected a kinesym.Collocation or a kinesym.Shooting, got {shown(problem)}"
        )
    kind, many = _KINDS[name], isinstance(solution, MultiStart)
    best = solution.best if isinstance(solution, MultiStart) else solution
    if not isinstance(best, kind.solution):
        raise ValueError(f"expected a kinesym.{kind.solution.__name__}, got {shown(solution)}")
    kind.check(problem, best)
    call, start = problem.multistart if many else problem.solve, problem.pack(guess)
    _check_options(call, options)
    told = members_of(
        {
            "problem": name,
            "arguments": _arguments(kind.question(problem)),
            "call": call.__name__,
            "guess": guess if guess is None or isinstance(guess, Mapping) else start,
            "options": options,
        }
    )
    members = {"problem.json": told.text.encode(), "data.npz": _packed(told.arrays)}
    members["start.npz"] = _packed({"z": start})
    with TemporaryDirectory() as folder:
        for member, system in told.models.items():
            system.write(Path(folder, member))
            members[member] = Path(folder, member).read_bytes()
        best.save(Path(folder, "solution.nc"))
        members["solution.nc"] = Path(folder, "solution.nc").read_bytes()
    for file, text in emit(kind.program(problem)).files.items():
        members[f"code/{file}"] = text.encode()
    about = {
        "kinesym": "bundle",
        "version": _VERSION,
        "versions": {name: version(name) for name in _PACKAGES},
        "python": platform.python_version(),
        "members": {name: sha256(data).hexdigest() for name, data in members.items()},
    }
    members["manifest.json"] = (document.layout(about) + "\n").encode()
    with replacing(path) as beside:
        beside.write_bytes(_sealed(members))


def _check_options(call: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Raise `ValueError` for an option that `call` does not have."""
    found = signature(call).parameters.items()
    known = [name for name, each in found if each.kind is not Parameter.VAR_KEYWORD]
    for name in options:
        check_known(name, known, f"{call.__name__} has no argument {name}")


def _arguments(question: Any) -> dict[str, Any]:
    """Arguments of a problem that are not what they are by default, by name."""
    pairs = ((field, getattr(question, field.name)) for field in fields(question))
    return {
        field.name: value
        for field, value in pairs
        if not (type(value) is type(field.default) and value == field.default)
    }


@dataclass(frozen=True)
class Verdict(Displayed):
    """Result of `Bundle.verify`: three sentences, and whether the file is what it claims."""

    sentences: tuple[str, str, str]
    holds: bool

    def __str__(self) -> str:
        return "\n".join(self.sentences)


@dataclass(frozen=True, eq=False, repr=False)
class Bundle(Displayed):
    """A bundle that was read: the problem, made again from its members, and its solution.

    code : the generated C by name, as it was. start : the free vector of the guess. call, guess,
    options : how it was solved. versions : of packages it was made with.
    """

    problem: Collocation | Shooting
    solution: Solution | Fit
    code: Mapping[str, str]
    start: Array
    call: str
    guess: Any
    options: Mapping[str, Any]
    versions: Mapping[str, str]

    def __repr__(self) -> str:
        made = self.versions.get("kinesym", "?")
        return f"<bundle of {repr(self.problem)[1:-1]}; made by kinesym {made}>"

    @classmethod
    def read(cls, path: str | Path) -> Bundle:
        """Read a file of `bundle`. Raises `ValueError` if a byte of it was changed, naming the
        member, or what is in it does not fit."""
        data = content_of(path)
        with naming(path), TemporaryDirectory() as folder:
            members, about = _checked(data)
            try:
                return cls._of(members, about, Path(folder))
            except _MISFITS as error:
                raise ValueError(f"its members do not fit together: {error}") from error

    @classmethod
    def _of(cls, members: Mapping[str, bytes], about: Mapping[str, Any], folder: Path) -> Bundle:
        """The bundle of members; folder : for those that are read as files."""
        systems = {name for name in members if Path(name).stem.startswith("model")}
        for name in (*systems, "solution.nc"):
            Path(folder, name).write_bytes(members[name])
        models = {name: read_system(Path(folder, name)) for name in systems}
        told = told_in(
            document.loaded(members["problem.json"]), _unpacked(members["data.npz"]), models
        )
        kind = _KINDS[told["problem"]]
        return cls(
            kind.made(**told["arguments"]),
            kind.solution.load(Path(folder, "solution.nc")),
            {k[5:]: v.decode() for k, v in members.items() if k.startswith("code/")},
            _unpacked(members["start.npz"])["z"],
            {"solve": "solve", "multistart": "multistart"}[told["call"]],
            told["guess"],
            told["options"],
            about["versions"],
        )

    @property
    def _kind(self) -> _Kind:
        return next(kind for kind in _KINDS.values() if isinstance(self.problem, kind.made))

    def verify(self) -> Verdict:
        """Check the solution without solving: functions, optimality, what is said of it."""
        again = emit(self._kind.program(self.problem)).files
        same = dict(again) == dict(self.code)
        made = ", ".join(f"{name} {each}" for name, each in self.versions.items())
        first = (
            f"regenerated: the C of {len(again)} files is the same, byte for byte"
            if same
            else f"regenerated: the C differs, as by other versions (it was made by {made})"
        )
        claims = self._kind.claims(self.problem, self.solution)
        second = f"optimality: {claims.optimality}: {'' if claims.met else 'NOT '}a solution"
        said = [each for each in claims.told if not np.isnan([each.recorded, each.again]).all()]
        numbers = ", ".join(f"{each.name} {each.recorded:.6g}" for each in said) or "nothing"
        told = all(each.same for each in claims.told)
        third = f"said of it: {numbers}: {'as' if told else 'NOT as'} recorded"
        return Verdict((first, second, third), claims.met and told)

    def rerun(self) -> Solution | Fit:
        """Solution of the problem, solved again as it was: from its start, or from many."""
        if self.call == "solve":
            return self.problem.solve(self.start, **self.options)
        return self.problem.multistart(guess=self.guess, **self.options).best


# -- the file -------------------------------------------------------------------------------------


def _packed(arrays: Mapping[str, Array]) -> bytes:
    """Arrays by name as NumPy's archive."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            part = io.BytesIO()
            np.lib.format.write_array(part, np.asarray(array), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), part.getvalue())
    return file.getvalue()


def _unpacked(data: bytes) -> dict[str, Array]:
    with np.load(io.BytesIO(data), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _sealed(members: Mapping[str, bytes]) -> bytes:
    """A ZIP file whose comment is a hash of all bytes before it."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
        archive.comment = b" " * _SEALED
    whole = file.getvalue()[:-_SEALED]
    return whole + _SEAL + sha256(whole).hexdigest().encode()


def _checked(data: bytes) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Members of a file that nobody changed, and its manifest."""
    sealed = data[-_SEALED:] == _SEAL + sha256(data[:-_SEALED]).hexdigest().encode()
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if sum(info.file_size for info in archive.infolist()) > _UNPACKED:
                raise ValueError(f"it unpacks to more than {_UNPACKED >> 20} MB")
            about = json.loads(archive.read("manifest.json"))
            members = {name: _member(archive, name) for name in about["members"]}
    except (zipfile.BadZipFile, *_DAMAGED) as error:
        raise ValueError(f"it is no bundle, or damaged ({error}); take another copy") from error
    for name, digest in about["members"].items():
        if sha256(members[name]).hexdigest() != digest:
            raise ValueError(f"the member {name} was changed after the file was written")
    if not sealed or about.get("kinesym") != "bundle":
        raise ValueError("it was changed after it was written; take another copy")
    if about.get("version") != _VERSION:
        raise ValueError(
            f"it has version {about.get('version')} of the form, not {_VERSION}; install kinesym "
            f"{about['versions']['kinesym']}"
        )
    return members, about


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    """A member; empty if it is damaged, so that its hash names it."""
    try:
        return archive.read(name)
    except (zipfile.BadZipFile, *_DAMAGED):
        return b""
