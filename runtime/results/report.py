"""Report of a fit: one page with a verdict in sentences, figures and tables."""

from __future__ import annotations

import base64
import io
import platform
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from html import escape
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kinesym.base.checks import check_path
from kinesym.base.files import replacing
from kinesym.base.notebook import with_unit
from kinesym.runtime.results.bands import Bands
from kinesym.runtime.results.diagnostics import Diagnostics
from kinesym.runtime.results.estimates import Estimates, Uncertainty
from kinesym.runtime.results.influence import InfluenceMeasures
from kinesym.runtime.results.left_out import most_changed
from kinesym.runtime.results.plot import close, in_order
from kinesym.runtime.results.precision import (
    correlated,
    known_to,
    least_certain,
    plot_correlations,
    precision,
)
from kinesym.runtime.results.profile import Profile

#: Packages whose versions affect numbers.
_PACKAGES = ("kinesym", "numpy", "scipy", "sympy", "casadi", "cyipopt")
#: Sentences on channels that are listed at most.
_LISTED = 12
#: Sentences on what decides.
_DECIDES = 2
#: Samples in the table of these.
_SAMPLES = 5
#: Heads of tables.
_PRECISION = ("", "standard error", "if all others were known")
_INFLUENCE = ("sample", "residual", "leverage", "Cook's distance", "without it")
#: What would tell more.
_MORE = (
    "Without priors, four such records have half of these standard errors. Where that with all "
    "others known is much smaller, parameters are told apart badly, and other inputs or channels "
    "do more than more records: ks.forecast, ks.design."
)


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
    """Rows of text below a head, and a sentence below these."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: str = ""


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


#: Trials with a figure of their own in a report, at most.
_TRIALS = 6
#: Channels in a figure of a report, at most.
_CHANNELS = 12
#: Samples of a channel up to which its residuals have no figure.
_SOME = 2


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
                *self._told(),
                *([Table("Residuals", checks.HEAD, self._residuals())] if checks.checks else []),
                *self._decides(),
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

    def _told(self) -> Iterator[Table]:
        """Table of what this experiment can tell of each parameter."""
        rows = precision(self.estimates, self.about)
        if rows:
            words = " ".join([*least_certain(self.estimates, self.about), _MORE])
            yield Table("What this experiment can tell", _PRECISION, rows, words)

    def _decides(self) -> Iterator[Table]:
        """Table of the samples that decide."""
        rows = [
            (
                each.name,
                f"{each.residual:.3g}",
                f"{each.leverage:.2g}",
                f"{each.cook:.2g}",
                most_changed(each.in_errors),
            )
            for each in (self.influence.most(_SAMPLES) if self.influence else [])
        ]
        if rows:
            yield Table("What decides", _INFLUENCE, rows)

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
        many = {(c.trial, c.channel) for c in self.checks.checks if c.samples > _SOME}
        for k in shown:
            words = self._caption if k == shown[0] else ""
            yield Picture(f"Fit{self._of(k)}", self._fit(k), words)
        for k in shown:
            mine = [name for name in self._drawn(k) if (k, name) in many]
            words = "Grey: 95 % of the autocorrelations of white residuals stay within."
            if mine:
                yield Picture(f"Residuals{self._of(k)}", self.checks.plot(k, mine), words)
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
        for (k, _), size in self._misses.items():
            worst[k] = max(worst[k], size)
        return sorted(sorted(worst, key=lambda k: (-worst[k], k))[:_TRIALS])

    @property
    def _misses(self) -> dict[tuple[int, str], float]:
        """Root mean squares of residuals over their std, by trial and channel."""
        checks = self.checks.checks
        return {(c.trial, c.channel): c.rms / c.std if c.std > 0.0 else 0.0 for c in checks}

    def _drawn(self, trial: int) -> list[str]:
        """Channels of a trial in a figure; of many, those with the largest residuals."""
        names, sizes = list(self.channels[trial]), self._misses
        worst = sorted(names, key=lambda name: -sizes.get((trial, name), 0.0))[:_CHANNELS]
        return [name for name in names if name in worst]

    def _fit(self, trial: int) -> Any:
        """Figure of a trial, with bands."""
        names = self._drawn(trial)
        figure = self.plot(trial, names)
        figure.suptitle("")  # the page has a title
        if isinstance(self.bands, Bands):
            band, level = self.bands.trials[trial], self.estimates.level
            for axis, name in zip(in_order(figure), names, strict=False):
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
        if max(map(len, self.channels)) > _CHANNELS:
            words += f" Of many channels those {_CHANNELS} are shown whose residuals are largest."
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
