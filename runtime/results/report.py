"""A report of a fit: one page that says in sentences what is known, with pictures and tables."""

from __future__ import annotations

import base64
import io
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from importlib import metadata
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from kinesym.runtime.arrays import Array
from kinesym.runtime.results.diagnostics import Diagnostics
from kinesym.runtime.results.estimates import Estimates, Uncertainty
from kinesym.runtime.results.files import replacing
from kinesym.runtime.results.plot import close, subplots
from kinesym.runtime.results.profile import Profile

#: Packages whose versions decide about numbers.
_PACKAGES = ("kinesym", "numpy", "scipy", "sympy", "cyipopt")
#: An estimate with a larger relative error than this is not well known.
_VAGUE = 0.5
#: Estimates more correlated than this are told apart badly.
_CORRELATED = 0.95
#: Of so many parameters at most the correlations are written into their picture.
_WRITTEN = 12


@dataclass(frozen=True)
class Picture:
    """A figure of matplotlib with a title and a sentence below."""

    title: str
    figure: Any
    caption: str = ""

    @property
    def png(self) -> bytes:
        """As a PNG file."""
        file = io.BytesIO()
        self.figure.savefig(file, format="png", dpi=130)
        return file.getvalue()

    @property
    def inline(self) -> str:
        """As the source of an image in a page."""
        return "data:image/png;base64," + base64.b64encode(self.png).decode()


@dataclass(frozen=True)
class Table:
    """Rows of text below a head."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Report:
    """What a report shows, in its order."""

    title: str
    verdict: Sequence[str]
    pictures: Sequence[Picture]
    tables: Sequence[Table]
    details: Mapping[str, str] = field(default_factory=dict)

    def write(self, path: str | Path) -> Path:
        """Write a page: of a path that ends on .html one file with all pictures in it; on .md a
        text with the pictures in a folder beside it. Raises `ValueError` for another ending."""
        target = Path(path)
        if target.suffix not in (".html", ".md"):
            raise ValueError(f"a report is a .html or a .md file, got {target.name!r}")
        folder = target.with_name(f"{target.stem}_pictures")
        sources = [picture.inline for picture in self.pictures]
        if target.suffix == ".md":
            names = [f"{folder.name}/{k + 1}.png" for k in range(len(self.pictures))]
            folder.mkdir(parents=True, exist_ok=True)
            for name, picture in zip(names, self.pictures, strict=True):
                (target.parent / name).write_bytes(picture.png)
            sources = names
        text = _template(f"report{target.suffix}").render(
            report=self,
            pictures=list(zip(self.pictures, sources, strict=True)),
            made=f"{datetime.now():%Y-%m-%d %H:%M}",
        )
        with replacing(target) as beside:
            beside.write_text(text, encoding="utf-8")
        close(picture.figure for picture in self.pictures)
        return target


@cache
def _template(name: str) -> Any:
    """A template of Jinja; text is escaped in HTML, and bars in tables of Markdown."""
    import jinja2  # here: slow to import

    environment = jinja2.Environment(
        autoescape=name.endswith(".html"), trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["cell"] = lambda text: str(text).replace("|", "\\|")
    source = files("kinesym.runtime.results").joinpath(name).read_text(encoding="utf-8")
    return environment.from_string(source)


def environment() -> dict[str, str]:
    """Versions and the machine, by name."""
    found = {"Python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    script = Path(sys.argv[0]).name if sys.argv and sys.argv[0] else ""
    more = {"machine": f"{platform.system()}, {platform.machine()}"}
    return found | more | ({"script": script} if script else {})


def known_to(estimates: Estimates) -> Iterator[str]:
    """Sentences on how well parameters are known."""
    well, vague = list[tuple[float, str]](), list[tuple[float, str]]()
    not_known = list[str]()
    for name, row in estimates.table.items():
        if row.remark:
            not_known.append(f"{name}: {row.remark}.")
        elif not np.isfinite(row.standard_error) or row.value == 0.0:
            continue
        else:
            share = row.standard_error / abs(row.value)
            words = f"{name} is known to {_percent(share)}"
            (vague if share > _VAGUE else well).append((share, words))
    if well:
        yield "; ".join(words for _, words in sorted(well)) + " (standard errors)."
    for _, words in sorted(vague):
        yield f"{words}: this record tells little about it."
    yield from not_known


def correlated(names: Sequence[str], covariance: Array) -> Iterator[str]:
    """Sentences on estimates that are told apart badly."""
    rho = correlations(covariance)
    for a, b in combinations(range(len(names)), 2):
        if abs(rho[a, b]) > _CORRELATED:
            form = f"{names[a]} and {names[b]}"
            what = "their difference" if rho[a, b] < 0.0 else "their sum"
            yield (
                f"{form} are told apart badly (correlation {rho[a, b]:.3f}): of steps of one "
                f"standard error each, {what} is least certain."
            )


def correlations(covariance: Array) -> Array:
    """Of a covariance (n, n); NaN where a variance is not positive."""
    with np.errstate(divide="ignore", invalid="ignore"):
        deviation = np.sqrt(np.diag(covariance))
        rho = covariance / np.outer(deviation, deviation)
    rho[:, ~(deviation > 0.0)] = rho[~(deviation > 0.0)] = np.nan
    return np.asarray(rho)


def plot_correlations(names: Sequence[str], covariance: Array) -> Any:
    """A figure of the correlations of estimates."""
    rho = correlations(covariance)
    size = 2.2 + 0.42 * len(names)
    figure, axis = subplots(figsize=(size + 0.8, size), layout="constrained")
    image = axis.imshow(rho, vmin=-1.0, vmax=1.0, cmap="RdBu_r")
    axis.set_xticks(range(len(names)), names, rotation=45, ha="right")
    axis.set_yticks(range(len(names)), names)
    for a, b in np.ndindex(*rho.shape) if len(names) <= _WRITTEN else ():
        if np.isfinite(rho[a, b]):
            colour = "white" if abs(rho[a, b]) > 0.6 else "black"
            axis.text(b, a, f"{rho[a, b]:.2f}", ha="center", va="center", color=colour, fontsize=8)
    figure.colorbar(image, ax=axis, shrink=0.8)
    axis.set_title("Correlation of the estimates")
    return figure


def _percent(share: float) -> str:
    return f"{100.0 * share:.2g} %" if share < 1.0 else f"{100.0 * share:.0f} %"


#: More trials than these have no pictures of their own in a report.
_TRIALS = 6


@dataclass(frozen=True)
class Findings:
    """What a fit has to report: how it ended, estimates and what is known of their errors, notes,
    checks of the residuals, a picture of a trial with some of its channels, profiles, and facts by
    name."""

    title: str
    ending: str
    estimates: Estimates
    about: Uncertainty
    notes: Sequence[str]
    checks: Diagnostics
    trials: int
    plot: Callable[[int, list[str]], Any]
    profiles: Sequence[Profile] = ()
    facts: Mapping[str, str] = field(default_factory=dict)

    def report(self) -> Report:
        """Verdict, pictures of the trials, residuals, correlations, profiles, tables."""
        estimates, checks = self.estimates, self.checks
        return Report(
            title=self.title,
            verdict=list(self._verdict()),
            pictures=list(self._pictures()),
            tables=[
                Table(estimates.title, estimates.HEAD, estimates.rows()),
                Table("Residuals", checks.HEAD, checks.rows()),
            ],
            details={**self.facts, **environment()},
        )

    def _verdict(self) -> Iterator[str]:
        """What is known and what is not, the most important first."""
        if self.ending:
            yield _sentence(self.ending)
        yield from known_to(self.estimates)
        yield from correlated(self.about.names, self.about.covariance)
        yield from map(_sentence, (*self.about.notes, *self.notes, *self.checks.sentences))
        if not self.checks.sentences:
            yield "The residuals are as they should be."

    def _pictures(self) -> Iterator[Picture]:
        names, measured = self.about.names, sorted({check.trial for check in self.checks.checks})
        for k in range(min(self.trials, _TRIALS)):
            channels = [check.channel for check in self.checks.checks if check.trial == k]
            figure = self.plot(k, channels)
            yield Picture(f"Fit{self._of(k)}", figure, "Dots: measured. Line: model.")
        for k in measured[:_TRIALS]:
            words = "Grey: 95 % of the autocorrelations of white residuals stay within."
            yield Picture(f"Residuals{self._of(k)}", self.checks.plot(k), words)
        if len(names) > 1:
            yield Picture("Correlations", plot_correlations(names, self.about.covariance))
        for profile in self.profiles:
            words = f"{100.0 * profile.level:g} % interval {profile.low:.6g} ... {profile.high:.6g}"
            yield Picture(f"Profile of {profile.name}", profile.plot(), f"{words}.")

    def _of(self, trial: int) -> str:
        return f", trial {trial}" * (self.trials > 1)


def _sentence(words: str) -> str:
    """With a stop at its end."""
    return words if words.endswith(".") else f"{words}."
