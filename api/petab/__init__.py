"""Identification problems in PEtab, the format of published problems of systems biology."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import isnan
from pathlib import Path
from typing import Any

from kinesym.base.checks import mapping, naming
from kinesym.base.extras import required
from kinesym.base.notebook import Displayed
from kinesym.models.files import petab_v1, petab_v2
from kinesym.models.files.petab import Tables, check_measurements, check_names
from kinesym.models.files.petab_write import written_again
from kinesym.models.files.sbml import FileModel, model_of
from kinesym.models.files.sbml_document import document_of
from kinesym.petab.fits import shooting_of
from kinesym.petab.priors import log_prior_of
from kinesym.petab.runs import simulated
from kinesym.runtime.arrays import one_number
from kinesym.runtime.results.fit import Fit
from kinesym.runtime.results.simulated import Simulated
from kinesym.runtime.signals.experiment import key_name
from kinesym.runtime.summary import aligned
from kinesym.shooting import Shooting
from kinesym.symbolic.names import check_known

__all__ = ["Problem", "Simulated", "read"]


def read(path: str | Path) -> Problem:
    """A problem in PEtab, version 1 or 2, from its YAML file: the model in SBML, experiments,
    observables, measurements and parameters.

    Needs the package PyYAML, `pip install 'kinesym[petab]'`. Raises `ImportError` without it,
    `FileNotFoundError`, and `ValueError` that names file, line and column of what is wrong, and
    what is not read: several models, models that are not SBML, extensions of version 2, and what
    `ks.sbml.read` does not read.
    """
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    with naming(path):
        entries = _entries(file)
        version = str(entries.get("format_version", ""))
        reader = {"1": petab_v1, "2": petab_v2}.get(version.partition(".")[0])
        if reader is None:
            raise ValueError(f"format_version is 1 or 2, got {version or 'none'}")
        tables = reader.tables_of(file.stem.lstrip("_"), file.parent, entries)
        check_measurements(tables)
        changed = {n for each in tables.experiments.values() for p in each for n in p.changes}
        with naming(tables.model.name):
            document = document_of(tables.model)
            later = {n for each in tables.experiments.values() for p in each[1:] for n in p.changes}
            free = changed | tables.parameters.keys()
            model = model_of(document, free, later if reader is petab_v2 else ())
        for name in ("true", "false", "inf"):
            if name in document.by_id:
                raise ValueError(f"{name} is a word of formulas, and a name in the model")
        check_names(tables, model.model)
        return Problem(tables, model, file)


def _entries(file: Path) -> dict[str, Any]:
    """The entries of a YAML file; nothing in it is executed."""
    yaml = required("yaml")
    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"it is no YAML file: {' '.join(str(error).split())}") from error
    if not isinstance(found, dict):
        raise ValueError("it is no problem in PEtab: a YAML file with entries by name")
    return found


@dataclass(frozen=True, eq=False, repr=False)
class Problem(Displayed):
    """A problem in PEtab: its `tables`, the model of its `file` with the start, and the `path` of
    its YAML file."""

    tables: Tables
    file: FileModel
    path: Path

    @cached_property
    def nominal(self) -> dict[str, float]:
        """Nominal values of the parameters, on linear scale."""
        rows = self.tables.parameters
        return {name: row.nominal for name, row in rows.items() if not isnan(row.nominal)}

    @property
    def unknown(self) -> dict[str, tuple[float, float]]:
        """Bounds of the parameters that are to be estimated."""
        rows = self.tables.parameters
        return {name: (row.low, row.high) for name, row in rows.items() if row.estimated}

    def shooting(self, **options: Any) -> Shooting:
        """The problem of finding its unknown parameters by simulation: experiments as trials,
        observables as sensors; `problem.shooting().multistart(100)` fits from many starts.

        options : of `Shooting`; default: rtol 1e-8, atol 1e-12, and method "radau-5", or
        "dormand-prince" where events, or jumps of the equations, are at no known times. Raises
        `ValueError` for what is simulated and not fitted yet: steady states of models with events,
        those measured after several periods, and Laplace noise beside normal noise.
        """
        return shooting_of(self.tables, self.file, **options)

    def fit(self, guess: Mapping[Any, float] | None = None, **options: Any) -> Fit:
        """Maximise the likelihood, times the density of priors, by shooting.

        guess : of unknown parameters, on linear scale; the nominal values where not given.
        options : of `Shooting.solve`; default: optimizer "least-squares". The log likelihood is
        that of `problem.simulate(fit.parameters)`. Raises `ValueError` for a name in the guess that
        is no unknown parameter, as `shooting`, and as `Shooting.solve` does.
        """
        given = self._named({} if guess is None else guess, "guess")
        for name in given.keys() - self.unknown.keys():
            raise ValueError(f"guess: {name} is known, and not to be found")
        start = {n: v for n, v in {**self.nominal, **given}.items() if n in self.unknown}
        problem = self.shooting()
        found = {name: value for name, value in start.items() if name in problem.names}
        return problem.solve(found, **{"optimizer": "least-squares", **options})

    def simulate(self, values: Mapping[Any, float] | None = None) -> Simulated:
        """Simulate the experiments by radau-5, with a relative tolerance of 1e-10, after steady
        states where they ask for these: measurements beside what the model says of them.

        values : of parameters, on linear scale; the nominal ones where not given. Raises
        `ValueError` for unknown names, parameters without a value, and runs that end early.
        """
        known = {**self.nominal, **self._named({} if values is None else values)}
        for name, row in self.tables.parameters.items():
            if name not in known:
                kind = "unknown" if row.estimated else "known"
                raise ValueError(f"the {kind} parameter {name} has no nominal value; give values")
        return simulated(self.tables, self.file, known)

    def log_prior(self, values: Mapping[Any, float] | None = None) -> dict[str, float]:
        """Log density of the prior of each unknown parameter, with all constants: that of the
        parameter, or in version 1 where the prior is told on its scale, of that. In version 2
        priors are within bounds, and uniform where none is told; in version 1 none is none.

        values : of parameters, on linear scale; the nominal ones where not given. Raises
        `ValueError` for unknown names, and numbers that are none of a distribution.
        """
        known = {**self.nominal, **self._named({} if values is None else values)}
        rows = {n: p for n, p in self.tables.parameters.items() if p.estimated and n in known}
        return {name: log_prior_of(row, known[name]) for name, row in rows.items()}

    def write(self, folder: str | Path, values: Mapping[Any, float] | None = None) -> Path:
        """Write the problem into another folder: its files as they are, but with these nominal
        values in the table of parameters, so that `problem.write("found", fit.parameters)` keeps a
        fit for all tools that read PEtab.

        values : of parameters, on linear scale. Returns the path of the YAML file. Raises
        `ValueError` for unknown names, values that are no numbers, and the problem's own folder.
        """
        found = self._named({} if values is None else values)
        return written_again(self.path, _entries(self.path), Path(folder), found)

    def _named(self, values: Any, what: str = "values") -> dict[str, float]:
        """Values of parameters by name; `what` they are, in messages."""
        found = dict[str, float]()
        for key, value in mapping(values, what).items():
            name = key_name(key)
            check_known(name, self.tables.parameters, f"{name} is no parameter of the problem")
            found[name] = one_number(value, name)
        return found

    def __str__(self) -> str:
        rows = [("parameter", "nominal", "low", "high", "scale")]
        for name, row in self.tables.parameters.items():
            if row.estimated:
                bounds = (f"{row.low:.6g}", f"{row.high:.6g}", row.scale)
                rows.append((name, f"{row.nominal:.6g}", *bounds))
        return "\n".join([self._heading, *(f"  {line}" for line in aligned(rows, [0, 4]))])

    @property
    def _heading(self) -> str:
        told = self.tables
        return (
            f"{told.name}: {len(self.file.model.states)} states, {len(self.unknown)} unknown "
            f"parameters, {len(told.measurements)} measurements of {len(told.observables)} "
            f"observables in {len(told.experiments)} experiments"
        )

    def __repr__(self) -> str:
        return f"<{self._heading}>"
