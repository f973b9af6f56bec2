"""Report of a fit: one page with a verdict in sentences, figures and tables."""

from __future__ import annotations

import base64
import io
import platform
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from html import escape
from importlib import metadata
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from kinesym.base.checks import check_path
from kinesym.base.files import replacing
from kinesym.base.notebook import with_unit
from kinesym.runtime.arrays import Array
from kinesym.runtime.results.bands import Bands
from kinesym.runtime.results.diagnostics import Diagnostics
from kinesym.runtime.results.estimates import Estimates, Uncertainty
from kinesym.runtime.results.influence import InfluenceMeasures
from kinesym.runtime.results.plot import close, plain, subplots
from kinesym.runtime.results.profile import Profile
from kinesym.runtime.summary import listed

#: Packages whose versions affect numbers.
_PACKAGES = ("kinesym", "numpy", "scipy", "sympy", "casadi", "cyipopt")
#: Relative standard error above which an estimate is not well known.
_VAGUE = 0.5
#: Correlation above which two estimates are badly distinguished.
_CORRELATED = 0.95
#: Estimates, and sentences on channels, that are listed at most.
_LISTED = 12
#: Sentences on badly known parameters at most.
_SAID = 5
#: Sentences on what decides.
_DECIDES = 2
#: Parameters up to which correlations are written into their figure.
_WRITTEN = 12


@dataclass(frozen=True)
class Picture:
    """Figure of matplotlib with a title and a sentence below."""

    title: str
    figure: Any
    caption: str = ""

    @property
    def png(self) -> bytes:
        """PNG file of the figure, as bytes."""
        file = io.BytesIO()
        self.figure.savefig(file, format="png", dpi=130)
        return file.getvalue()

    @property
    def inline(self) -> str:
        """Data URL of the figure, the source of an image in an HTML page."""
        return "data:image/png;base64," + base64.b64encode(self.png).decode()


@dataclass(frozen=True)
class Table:
    """Rows of text below a head."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Report:
    """Content of a report, in its order."""

    title: str
    verdict: Sequence[str]
    pictures: Sequence[Picture]
    tables: Sequence[Table]
    details: Mapping[str, str] = field(default_factory=dict)

    def write(self, path: str | Path) -> Path:
        """Write the report: an .html path gives one file with all figures in it; an .md path a text
        with the figures in a folder beside it. Raises `ValueError` for another ending."""
        target = target_of(path)
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


def target_of(path: Any) -> Path:
    """Path of a report; raises `ValueError` for an invalid path, and for another ending."""
    check_path(path)
    target = Path(path)
    if target.suffix not in (".html", ".md"):
        raise ValueError(f"a report is a .html or a .md file, got {target.name!r}")
    return target


#: Markup of Markdown that is escaped in text: tags, formulas, emphasis (underscores within words
#: are none), bars of tables, links, and begins of headings, lists and quotations.
_MARKS = re.compile(r"[\\`*$|]|(?<!\w)_|_(?!\w)|~(?=~)|\](?=[(\[:])|^#(?=#*\s)|^>|^[+-](?=[\s-])")
_TAGS = re.compile(r"<|&(?=#?\w+;)")


def markdown(text: object) -> str:
    """Text escaped for Markdown."""
    line = _MARKS.sub(lambda mark: f"\\{mark[0]}", " ".join(str(text).split()))
    return _TAGS.sub(lambda mark: escape(mark[0]), line)


@cache
def _template(name: str) -> Any:
    """Template of Jinja; in HTML it escapes text by itself, in Markdown by `markdown`."""
    import jinja2  # here: slow to import

    environment = jinja2.Environment(
        autoescape=name.endswith(".html"), trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["text"] = markdown
    environment.filters["path"] = quote
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


def known_to(
    estimates: Estimates, instead: Collection[str] = (), owned: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Sentences on the relative errors of parameters, except those with an identifiable combination
    instead; owned : parameters of values that have an owner, by name."""
    well: dict[str, list[tuple[float, str]]] = {}
    vague, not_known = list[tuple[float, str]](), dict[str, list[str]]()
    for name, row in estimates.table.items():
        if name in instead:
            continue
        if row.remark:
            not_known.setdefault(row.remark, []).append(name)
        elif not np.isfinite(row.standard_error) or row.value == 0.0:
            continue
        else:
            share = row.standard_error / abs(row.value)
            if share > _VAGUE:
                vague.append((share, f"{name} is known to {_percent(share)}"))
            else:
                well.setdefault((owned or {}).get(name, name), []).append((share, name))
    if well:
        known = [words for _, words in sorted(_known(p, rows) for p, rows in well.items())]
        more = f"; {len(known) - _LISTED} more" if len(known) > _LISTED else ""
        yield "; ".join(known[:_LISTED]) + f"{more} (standard errors)."
    for _, words in sorted(vague)[:_SAID]:
        yield f"{words}: this record tells little about it."
    if len(vague) > _SAID:
        yield f"{len(vague) - _SAID} more parameters are known as badly; see the table."
    for remark, names in not_known.items():
        yield f"{listed(names)}: {remark}."


def correlated(names: Sequence[str], covariance: Array) -> Iterator[str]:
    """Sentences on strongly correlated estimates."""
    rho = np.nan_to_num(correlations(covariance))
    pairs = [pair for pair in combinations(range(len(names)), 2) if abs(rho[pair]) > _CORRELATED]
    for a, b in sorted(pairs, key=lambda pair: -abs(rho[pair]))[:_SAID]:
        what = "their difference" if rho[a, b] < 0.0 else "their sum"
        yield (
            f"{names[a]} and {names[b]} are told apart badly (correlation {rho[a, b]:.3f}): of "
            f"steps of one standard error each, {what} is least certain."
        )
    if len(pairs) > _SAID:
        yield f"{len(pairs) - _SAID} more pairs are correlated as much; see the picture."


def correlations(covariance: Array) -> Array:
    """Correlation matrix of a covariance (n, n); NaN if a variance is not positive."""
    with np.errstate(divide="ignore", invalid="ignore"):
        deviation = np.sqrt(np.diag(covariance))
        rho = covariance / np.outer(deviation, deviation)
    rho[:, ~(deviation > 0.0)] = rho[~(deviation > 0.0)] = np.nan
    return np.asarray(rho)


def plot_correlations(names: Sequence[str], covariance: Array) -> Any:
    """Figure of the correlations of estimates."""
    rho = correlations(covariance)
    size = 2.2 + 0.42 * len(names)
    figure, axis = subplots(grid="", figsize=(size + 0.8, size))
    image = axis.imshow(rho, vmin=-1.0, vmax=1.0, cmap="RdBu_r")
    labels = [plain(name) for name in names]
    axis.set_xticks(range(len(names)), labels, rotation=45, ha="right")
    axis.set_yticks(range(len(names)), labels)
    for a, b in np.ndindex(*rho.shape) if len(names) <= _WRITTEN else ():
        if np.isfinite(rho[a, b]):
            colour = "white" if abs(rho[a, b]) > 0.6 else "black"
            axis.text(b, a, f"{rho[a, b]:.2f}", ha="center", va="center", color=colour, fontsize=8)
    figure.colorbar(image, ax=axis, shrink=0.8)
    axis.set_title("Correlation of the estimates")
    return figure


def _percent(share: float) -> str:
    return f"{100.0 * share:.2g} %" if share < 1.0 else f"{100.0 * share:.0f} %"


def _known(parameter: str, rows: Sequence[tuple[float, str]]) -> tuple[float, str]:
    """Relative error of a parameter of one or several owners: the least one, and a sentence."""
    (least, first), (most, last) = min(rows), max(rows)
    if len(rows) == 1:
        return least, f"{first} is known to {_percent(least)}"
    ends = f"{_percent(least)} ({first}) to {_percent(most)} ({last})"
    return least, f"{parameter} of {len(rows)} owners is known to {ends}"


#: Trials with a figure of their own in a report, at most.
_TRIALS = 6


@dataclass(frozen=True)
class Findings:
    """Findings of a fit, for a report: how it ended, estimates and their uncertainty, notes, checks
    of the residuals, measured channels by trial, a figure of a trial with some of its channels,
    their bands or why there are none, profiles, influence of the samples, the problem in words
    (`Trials.setting`), known
    values, units by name, and facts by name."""

    title: str
    ending: str
    estimates: Estimates
    about: Uncertainty
    notes: Sequence[str]
    checks: Diagnostics
    channels: Sequence[Sequence[str]]
    plot: Callable[[int, Sequence[str]], Any]
    bands: Bands | str = ""
    profiles: Sequence[Profile] = ()
    influence: InfluenceMeasures | None = None
    setting: Mapping[str, Any] = field(default_factory=dict)
    known: Sequence[tuple[str, str]] = ()
    units: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)

    def report(self) -> Report:
        """Report: verdict, figures of the trials, residuals, correlations, profiles, tables."""
        estimates, checks = self.estimates, self.checks
        return Report(
            title=self.title,
            verdict=list(self._verdict()),
            pictures=list(self._pictures()),
            tables=[
                Table("Estimates" if self.ending else estimates.title, *self._estimates()),
                *([Table("Residuals", checks.HEAD, self._residuals())] if checks.checks else []),
                *self._model(),
            ],
            details={**self.facts, **environment()},
        )

    def _estimates(self) -> tuple[list[str], list[list[str]]]:
        """Head and rows of the table, with the bounds of those that have some."""
        head, rows = _used(self.estimates)
        bounds = self.setting.get("bounds", {})
        if not any(name in bounds for name in self.estimates):
            return head, rows
        names = zip(self.estimates, rows, strict=True)
        return [*head, "bounds"], [[*row, bounds.get(name, "")] for name, row in names]

    def _residuals(self) -> list[tuple[str, ...]]:
        """Rows of the table; rms and std have the unit of the channel."""
        pairs = zip(self.checks.checks, self.checks.rows(), strict=True)
        return [
            (with_unit(check.channel, self.units) + self._of(check.trial), *row[1:])
            for check, row in pairs
        ]

    def _model(self) -> Iterator[Table]:
        """Tables of the problem: equations, and values that were given."""
        equations = self.setting.get("equations", ())
        if equations:
            yield Table("Equations of the model", ("",), [(line,) for line in equations])
        if self.known:
            yield Table("Known values", ("", "value"), self.known)

    def _verdict(self) -> Iterator[str]:
        """Verdict: sentences on the most important findings, in order."""
        if self.ending:
            yield _sentence(self.ending)
        owned = self.setting.get("owned", {})
        yield from known_to(self.estimates, self.about.instead, owned)
        yield from correlated(self.about.names, self.about.covariance)
        yield from map(_sentence, dict.fromkeys((*self.about.notes, *self.notes)))
        decides = self.influence.sentences[:_DECIDES] if self.influence else []
        yield from (_sentence(f"{words[0].upper()}{words[1:]}") for words in decides)
        said = self.checks.sentences
        yield from map(_sentence, said[:_LISTED])
        if len(said) > _LISTED:
            yield f"{len(said) - _LISTED} more channels have residuals like these; see the table."
        if self.checks.checks and not said:
            yield (
                "No test contradicts residuals that are white, normal and unrelated to the inputs "
                "(p in the table of residuals)."
            )

    def _pictures(self) -> Iterator[Picture]:
        names, shown = self.about.names, self._shown
        measured = {check.trial for check in self.checks.checks}
        for k in shown:
            words = self._caption if k == shown[0] else ""
            yield Picture(f"Fit{self._of(k)}", self._fit(k), words)
        for k in (k for k in shown if k in measured):
            words = "Grey: 95 % of the autocorrelations of white residuals stay within."
            yield Picture(f"Residuals{self._of(k)}", self.checks.plot(k), words)
        if len(names) > 1 and (self.about.deviations() > 0.0).any():
            yield Picture("Correlations", plot_correlations(names, self.about.covariance))
        if self.influence and len(self.influence.cook):
            words = "Circles: the ten most influential samples."
            yield Picture("What decides", self.influence.plot(), words)
        for profile in self.profiles:
            words = f"{100.0 * profile.level:g} % interval {profile.low:.6g} ... {profile.high:.6g}"
            notes = "".join(f" {_sentence(note)}" for note in profile.notes)
            yield Picture(f"Profile of {profile.name}", profile.plot(), f"{words}.{notes}")

    @property
    def _shown(self) -> list[int]:
        """Trials with a figure; of many, those with the largest residuals relative to their std."""
        worst = {k: 0.0 for k, names in enumerate(self.channels) if names}
        for check in self.checks.checks:
            size = check.rms / check.std if check.std > 0.0 else 0.0
            worst[check.trial] = max(worst[check.trial], size)
        return sorted(sorted(worst, key=lambda k: (-worst[k], k))[:_TRIALS])

    def _fit(self, trial: int) -> Any:
        """Figure of a trial, with bands."""
        names = self.channels[trial]
        figure = self.plot(trial, names)
        figure.suptitle("")  # the page has a title
        if isinstance(self.bands, Bands):
            band, level = self.bands.trials[trial], self.estimates.level
            for axis, name in zip(figure.axes, names, strict=False):
                if name in band:
                    limits = band.limits(name, level)
                    axis.fill_between(band.time, *limits, alpha=0.3, lw=0.0, color="C0")
        return figure

    @property
    def _caption(self) -> str:
        """Caption of the figures of trials, with the selection of trials."""
        percent = f"{100.0 * self.estimates.level:g} %"
        words = "Dots: measured. Line: model. "
        if isinstance(self.bands, Bands):
            words += (
                f"Shaded: where the model is with {percent} at any one time, by the errors of what "
                "is estimated; samples scatter around it. "
            )
        elif self.bands:
            words += f"Without a band: {_sentence(self.bands)} "
        if len(self.channels) > _TRIALS:
            words += (
                f"Of {len(self.channels)} trials those {_TRIALS} are shown whose residuals are "
                "largest."
            )
        return words.rstrip()

    def _of(self, trial: int) -> str:
        """Title of one of several trials, with its subject."""
        subjects = self.setting.get("subjects", ())
        whose = subjects[trial] if trial < len(subjects) else ""
        several = len(self.channels) > 1
        return f", trial {trial}" * several + f" ({whose})" * bool(whose)


def _used(estimates: Estimates) -> tuple[list[str], list[list[str]]]:
    """Head and rows of a table, without columns that are empty."""
    rows = estimates.rows()
    used = [k for k in range(len(estimates.HEAD)) if k < 2 or any(row[k] for row in rows)]
    return [estimates.HEAD[k] for k in used], [[row[k] for k in used] for row in rows]


def _sentence(words: str) -> str:
    """Sentence with a full stop at its end."""
    return words if words.endswith(".") else f"{words}."
