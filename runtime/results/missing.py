"""Terms that a model lacks, and the unknown forces that its record wants."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from kinesym.base.notebook import Displayed
from kinesym.runtime.arrays import Array
from kinesym.runtime.results.plot import plain, subplots
from kinesym.runtime.summary import aligned, listed

if TYPE_CHECKING:
    import pandas as pd

#: Difference of log L up to which two terms are alike.
_ALIKE = 2.0


@dataclass(frozen=True)
class Tried:
    """A term that was tried. step : number of terms that were put in before. where : the rate to
    which it is added, or, of equations with masses, the force. coefficient : of it; of what is
    delayed the delay, of a dead zone of what is there its half width. gain : of log L, -inf if the
    fit has failed. p : of a likelihood ratio test, times the number of terms in the library
    (of delays and widths that were compared)."""

    step: int
    name: str
    where: str
    term: str
    coefficient: float
    standard_error: float
    gain: float
    p: float


@dataclass(frozen=True, eq=False)
class Force:
    """The unknown force in an equation over a trial, NaN at the last node; when : "before" or
    "after" terms were put in."""

    where: str
    when: str
    trial: int
    time: Array
    value: Array

    @property
    def rms(self) -> float:
        """Root mean square."""
        return float(np.sqrt(np.nanmean(self.value**2)))


@dataclass(frozen=True, eq=False, repr=False)
class Missing(Displayed):
    """Terms that a model lacks; see `Solution.missing`.

    tried : terms by the order in which they were tried, those with the least p first at each step.
    found : names of those that are missing, which are the names of their coefficients. forces :
    before and after these were put in. level : of the tests. larger : the model with these terms.
    fit : of that, from the same record, without unknown forces.
    """

    model: str
    tried: Sequence[Tried]
    found: Sequence[str]
    forces: Sequence[Force]
    level: float
    larger: Any
    fit: Any
    notes: Sequence[str] = field(default=())

    @property
    def alike(self) -> dict[str, list[str]]:
        """Names of terms that explain the record about as well as each that was found: log L is
        less by 2 at most."""
        best = {row.step: row for row in self.tried if self._is_found(row)}
        return {
            one.name: [
                row.name
                for row in self.tried
                if row.step == step and row is not one and row.gain >= one.gain - _ALIKE
            ]
            for step, one in best.items()
        }

    def _is_found(self, row: Tried) -> bool:
        """Whether a row is that with which the term was put in."""
        return [row.name] == list(self.found[row.step : row.step + 1])

    def __repr__(self) -> str:
        return f"<missing terms of {self.model}: {listed(self.found) or 'none found'}>"

    def __str__(self) -> str:
        head = f"{self.model}: no term of the library is missing, at the level {self.level:g}"
        if self.found:
            head = f"{self.model}: {listed(self.found)} missing"
        elif not self.tried:
            head = f"{self.model}: no term was tried"
        rows = [("step", "added to", "term", "value", "log L", "p")]
        for row in self.tried:
            error = f"{row.coefficient:.4g}{_error(row.standard_error)}"
            p = f"{row.p:.2g}" + " *" * self._is_found(row)
            gain = f"{row.gain:+.4g}" if np.isfinite(row.gain) else "failed"
            rows.append((str(row.step + 1), row.where, row.term, error, gain, p))
        lines = aligned(rows, (0, 1, 2, 5)) if self.tried else []
        return "\n".join([head, *(f"  {line}" for line in lines), *self._words()])

    def _words(self) -> list[str]:
        """Sentences on the forces, and notes."""
        found = [
            f"  {name} cannot be told from {listed(others)}: log L is less by {_ALIKE:g} at most"
            for name, others in self.alike.items()
            if others
        ]
        if self.found and self.fit.success:  # widths are known while terms are tried
            own = [
                f"{name} = {row.value:.4g}{_error(row.standard_error)}"
                for name, row in self.fit.parameters.table.items()
                if any(name == one or name.endswith(f"_of_{one}") for one in self.found)
            ]
            found.insert(0, f"  fit without unknown forces: {listed(own)}")
        failed = [f"{r.term} in {r.where}" for r in self.tried if not np.isfinite(r.gain)]
        if failed:
            words = listed(dict.fromkeys(failed))
            is_it = "these are" if len({*failed}) > 1 else "that is"
            found.append(f"  fits with {words} failed: it is not known whether {is_it} missing")
        for where in dict.fromkeys(force.where for force in self.forces):
            after = f", {self._rms(where, 'after'):.3g} with these terms" if self.found else ""
            found.append(f"  unknown force in {where}: rms {self._rms(where, 'before'):.3g}{after}")
        return [*found, *(f"  note: {note}" for note in self.notes)]

    def _rms(self, where: str, when: str) -> float:
        mine = [force.rms**2 for force in self.forces if (force.where, force.when) == (where, when)]
        return float(np.sqrt(np.mean(mine)))

    def to_pandas(self) -> pd.DataFrame:
        """Table of what was tried."""
        import pandas as pd  # here: slow to import

        return pd.DataFrame(self.tried)

    def plot(self, trial: int = 0) -> Any:
        """Figure of the unknown forces of a trial over time, before and after."""
        mine = [force for force in self.forces if force.trial == trial]
        wheres = list(dict.fromkeys(force.where for force in mine))
        figure, axes = subplots(len(wheres), 1, sharex=True, squeeze=False)
        for axis, where in zip(axes[:, 0], wheres, strict=True):
            for force in mine:
                if force.where == where and (force.when == "before" or self.found):
                    words = {
                        "before": "force that the record wants",
                        "after": f"with {listed(self.found, 3)}",
                    }
                    axis.plot(force.time, force.value, label=plain(words[force.when]), lw=1.2)
            axis.set_ylabel(plain(f"added to {where}"))
            axis.legend(loc="upper right", fontsize="small")
        axes[-1, 0].set_xlabel("time [s]")
        figure.suptitle(plain(f"{self.model}: what the model lacks"))
        return figure


def _error(error: float) -> str:
    return f" +- {error:.2g}" if error > 0.0 else ""  # none at a bound
