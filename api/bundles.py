"""`ks.bundle`: a problem and its solution in one file that others can check without solving."""

from __future__ import annotations

import io
import json
import platform
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from kinesym.base.checks import check_kind, check_path, naming
from kinesym.base.files import replacing
from kinesym.base.notebook import Displayed
from kinesym.codegen.c import emit
from kinesym.collocation import Collocation
from kinesym.internal.fitting.bundled import problem_members, question_of
from kinesym.internal.fitting.certificate import told
from kinesym.internal.fitting.discretisation import Discretisation
from kinesym.runtime.arrays import Array
from kinesym.runtime.results.solution import Solution
from kinesym.symbolic.model import Model
from kinesym.symbolic.text import document
from kinesym.symbolic.text.model import arguments_in

#: End of a bundle: the SHA-256 of all bytes before it, as the comment of the ZIP file.
_SEAL = b"kinesym sha256 "
#: Bytes of this end.
_SEALED = len(_SEAL) + 64
#: Largest violation of the conditions of optimality that still counts as a solution [-]; of the
#: constraints as of the gradient, relative to its largest terms.
_MET = 1e-6
#: The same of gradient and objective where standard deviations of measurements are estimated in
#: turn with the fit, which ends as they change by 1e-4.
_REWEIGHED = 1e-3
#: Relative difference of numbers that are computed again on another machine.
_SAME = 1e-6
#: A member is no larger than this when it is unpacked [bytes].
_UNPACKED = 1 << 30
#: Errors that a damaged ZIP file ends in.
_DAMAGED = (KeyError, TypeError, AttributeError, ValueError, EOFError, RuntimeError, zlib.error)
#: Packages whose versions numbers depend on.
_PACKAGES = ("kinesym", "numpy", "scipy", "sympy")


def bundle(problem: Collocation, solution: Solution, path: str | Path, guess: Any = None) -> None:
    """Write a fit as one file, `fit.kin`: the model as text, options, data, the start, generated C,
    the solution with its multipliers, versions, and SHA-256 of all of it.

    `kinesym verify fit.kin` checks it without solving, `kinesym rerun fit.kin` solves again;
    `Bundle.read` opens it. guess : the guess that was solved from, for `rerun`.

    Raises `ValueError` for a solution of another problem, and for what a bundle cannot hold, by
    name: systems with events, phases, conditions, priors, values per trial, losses, sensors,
    process noise.
    """
    check_kind(problem, Collocation, "kinesym")
    check_kind(solution, Solution, "kinesym")
    question = problem.problem.formulation.question
    members: dict[str, bytes] = {}
    for name, content in problem_members(question).items():
        members[name] = content if isinstance(content, bytes) else _packed(content)
    problem.problem.on_grid_of(solution)  # raises for one of another problem
    members["start.npz"] = _packed({"z": problem.pack(guess)})
    with TemporaryDirectory() as folder:
        model, solved = Path(folder, "model.json"), Path(folder, "solution.nc")
        question.system.write(model)
        solution.save(solved)
        members |= {"model.json": model.read_bytes(), "solution.nc": solved.read_bytes()}
    for name, text in emit(problem.program).files.items():
        members[f"code/{name}"] = text.encode()
    about = {
        "kinesym": "bundle",
        "version": document.VERSION,
        "versions": {name: version(name) for name in _PACKAGES},
        "python": platform.python_version(),
        "members": {name: sha256(data).hexdigest() for name, data in members.items()},
    }
    members["manifest.json"] = (document.layout(about) + "\n").encode()
    with replacing(path) as beside:
        beside.write_bytes(_sealed(members))


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

    code : the generated C by name, as it was. start : the free vector that was solved from.
    versions : of packages it was made with.
    """

    problem: Collocation
    solution: Solution
    code: Mapping[str, str]
    start: Array
    versions: Mapping[str, str]

    def __repr__(self) -> str:
        made = self.versions.get("kinesym", "?")
        return f"<bundle of {repr(self.problem)[1:-1]}; made by kinesym {made}>"

    @classmethod
    def read(cls, path: str | Path) -> Bundle:
        """Read a file of `bundle`. Raises `ValueError` if a byte of it was changed, naming the
        member, or what is in it does not fit."""
        check_path(path)
        data = Path(path).read_bytes()
        with naming(path), TemporaryDirectory() as folder:
            members, about = _checked(data)
            try:
                return cls._of(members, about, Path(folder))
            except (KeyError, IndexError, TypeError, AttributeError) as error:
                raise ValueError(f"its members do not fit together: {error}") from error

    @classmethod
    def _of(cls, members: Mapping[str, bytes], about: Mapping[str, Any], folder: Path) -> Bundle:
        """The bundle of members; folder : for those that are read as files."""
        model, solved = folder / "model.json", folder / "solution.nc"
        model.write_bytes(members["model.json"])
        solved.write_bytes(members["solution.nc"])
        with document.reading(model, "model") as entries:
            arguments, scope = arguments_in(entries)
        arrays = _unpacked(members["data.npz"])
        question = question_of(members["problem.json"], arrays, Model(**arguments), scope)
        names = ("system", "trials", "unknown", "known", "scheme", "objective", "bounds")
        return cls(
            Collocation(**{name: getattr(question, name) for name in (*names, "unknown_inputs")}),
            Solution.load(solved),
            {k[5:]: v.decode() for k, v in members.items() if k.startswith("code/")},
            _unpacked(members["start.npz"])["z"],
            about["versions"],
        )

    def verify(self) -> Verdict:
        """Check the solution without solving: functions, optimality, what is said of it.

        Sums of the conditions of optimality are taken in extended precision
        (`numpy.longdouble`), functions and derivatives in double.
        """
        again = emit(self.problem.program).files
        same = dict(again) == dict(self.code)
        made = ", ".join(f"{name} {each}" for name, each in self.versions.items())
        first = (
            f"regenerated: the C of {len(again)} files is the same, byte for byte"
            if same
            else f"regenerated: the C differs, as by other versions (it was made by {made})"
        )
        solution = self.solution
        grids = self.problem.problem.on_grid_of(solution)
        found = _of_its_objective(grids, solution)
        slope, gap, idle = optimality(Collocation.of(found), solution)
        cost = _apart(found.cost(solution.free_vector), solution.objective)
        most = _MET if found is grids else _REWEIGHED
        good = max(slope, cost) <= most and max(gap, idle) <= _MET
        second = (
            f"optimality: gradient of the Lagrangian {slope:.1e}, constraints {gap:.1e}, "
            f"complementarity {idle:.1e}, objective {solution.objective:.10g} to {cost:.1e}: "
            f"{'' if good else 'NOT '}a solution"
        )
        bare = replace(solution, grid=[], likelihood=[], uncertainty=[], notes=[])
        judged = told(grids, bare, found)
        pairs = [("log L", solution.log_likelihood, judged.log_likelihood)]
        for one, other in zip(solution.grid, judged.grid, strict=False):
            pairs.append(("largest error of the grid", one.largest, other.largest))
        told_same = len(solution.grid) == len(judged.grid) and all(
            _apart(a, b) <= _SAME or abs(a - b) <= 1e-9 for _, a, b in pairs if not np.isnan(a)
        )
        numbers = ", ".join(f"{name} {value:.6g}" for name, _, value in pairs)
        third = f"said of it: {numbers}: {'as' if told_same else 'NOT as'} recorded"
        return Verdict((first, second, third), good and told_same)

    def rerun(self) -> Solution:
        """Solution of the problem, solved again from its start."""
        return self.problem.solve(self.start)


def optimality(problem: Collocation, solution: Solution) -> tuple[float, float, float]:
    """Violations of the conditions of optimality (Karush, Kuhn, Tucker) by a solution: gradient of
    the Lagrangian relative to its largest term, constraints and bounds, complementarity."""
    z = solution.free_vector
    low, high = problem.variable_bounds
    floor, ceiling = problem.constraint_bounds
    values = problem.constraints(z)
    terms = problem.constraint_jacobian(z).tocoo()
    gradient = problem.cost_gradient(z)
    products = terms.data.astype(np.longdouble) * solution.multipliers[terms.row]
    lower, upper = solution.lower_multipliers, solution.upper_multipliers
    total = gradient.astype(np.longdouble) - lower + upper
    np.add.at(total, terms.col, products)
    scale = max(1.0, *(float(np.abs(row).max(initial=0.0)) for row in (gradient, products)))
    sizes = np.ones(len(values))
    np.maximum.at(sizes, terms.row, np.abs(terms.data * z[terms.col]))
    outside = [(floor - values) / sizes, (values - ceiling) / sizes, low - z, z - high]
    gap = max(float(side.max(initial=0.0)) for side in outside)
    idle = 0.0
    for push, side in ((lower, low), (upper, high)):
        room = np.where(np.isfinite(side), z - side, 1.0)  # no bound has no multiplier
        wrong = max(np.abs(push * room).max(initial=0.0), -push.min(initial=0.0))
        idle = max(idle, float(wrong) / scale)
    return float(np.abs(total).max(initial=0.0)) / scale, gap, idle


def _of_its_objective(problem: Discretisation, solution: Solution) -> Discretisation:
    """The problem whose objective the solution has: as it is, or with the standard deviations that
    were estimated."""
    std = {each.group: each.std for each in solution.noise}
    plain = _apart(problem.cost(solution.free_vector), solution.objective) <= _SAME
    return problem if plain or not std else problem.with_std(std)


def _apart(one: float, other: float) -> float:
    """Relative difference of two numbers."""
    return abs(one - other) / max(abs(one), abs(other), 1e-300)


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
    return members, about


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    """A member; empty if it is damaged, so that its hash names it."""
    try:
        return archive.read(name)
    except (zipfile.BadZipFile, *_DAMAGED):
        return b""
