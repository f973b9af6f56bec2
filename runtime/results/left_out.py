"""Samples that are left out of a fit, as trials, channels, windows of time and single ones, and
estimates without them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kinesym.base.checks import listed as all_of
from kinesym.base.checks import shown, suggest
from kinesym.runtime.arrays import Array
from kinesym.runtime.results.bootstrap import Record
from kinesym.runtime.results.estimates import Estimates, Uncertainty, estimates_of
from kinesym.runtime.results.inference import Inference, Left
from kinesym.runtime.results.plot import chosen_trial
from kinesym.runtime.results.saved import Saved
from kinesym.runtime.results.series import Series
from kinesym.runtime.results.trajectory import Values
from kinesym.runtime.signals.experiment import key_name
from kinesym.runtime.statistics.deletion import cook_distances
from kinesym.runtime.summary import aligned, in_errors, listed

#: Masks of samples that are left out, by trial and channel.
Out: TypeAlias = Mapping[tuple[int, str], NDArray[np.bool_]]
#: Change by a second step [standard errors] from which the first one is doubtful.
_MORE = 0.1
#: Groups of a kind that are left out one by one; more take long.
_MOST = 50


class Group(NamedTuple):
    """Samples that are left out together: "trial", "channel", "subject" or "samples", in words, and
    how many there are."""

    kind: str
    what: str
    samples: int
    out: Out


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LeftOut(Saved):
    """Estimates of a fit without some of its samples.

    what : is left out; kind : "trial", "channel", "subject", or "samples". samples : how many.
    names : of the parameters (r,). values, errors : (r,), NaN for what is not determined then.
    before, errors_before : of all samples. cook : Cook's distance of those that are determined.
    solved : whether it was solved again, else it is one Gauss-Newton step from the fit of all
    samples, exact for linear models. more : by how much a second step, or bounds, would change
    the estimates at most, in standard errors of the fit of all samples. note : why there are none.
    """

    kind: str
    what: str
    samples: int
    names: Sequence[str]
    values: Annotated[Array, "parameter"]
    errors: Annotated[Array, "parameter"]
    before: Annotated[Array, "parameter"]
    errors_before: Annotated[Array, "parameter"]
    covariance: Annotated[Array, "parameter", "other"]
    cook: float
    freedom: float = np.inf
    solved: bool = False
    more: float = 0.0
    note: str = ""

    @property
    def parameters(self) -> Estimates:
        """Estimates without these samples, with standard errors and intervals."""
        held = [name for name, e in zip(self.names, self.errors, strict=True) if e == 0.0]
        about = Uncertainty(
            names=self.names, covariance=self.covariance, held=held, freedom=self.freedom
        )
        return estimates_of(named(self.names, self.values), about)

    @property
    def change(self) -> Mapping[str, float]:
        """Change of each estimate, in its unit."""
        return Values(named(self.names, self.values - self.before))

    @property
    def in_errors(self) -> Mapping[str, float]:
        """Change of each estimate, in standard errors of the fit of all samples."""
        return Values(named(self.names, over_errors(self.values - self.before, self.errors_before)))

    @property
    def doubtful(self) -> bool:
        """Whether a second step would change what is said, so that `solve=True` is worth its
        time."""
        return self.more > _MORE

    @property
    def lost(self) -> list[str]:
        """Names of parameters that are not determined without these samples."""
        was = np.isfinite(self.errors_before) & (self.errors_before > 0.0)
        return [
            n
            for n, v, told in zip(self.names, self.values, was, strict=True)
            if told and np.isnan(v)
        ]

    @property
    def lost_of_others(self) -> list[str]:
        """Names of `lost` parameters but for those of an owner of its own, as `c[s01]`."""
        whole = self.kind in ("trial", "subject")
        return [name for name in self.lost if not (whole and name.endswith("]"))]

    @property
    def _freed(self) -> list[str]:
        """Names of parameters that a new solve has moved from a bound."""
        left = (self.errors_before == 0.0) & (self.errors > 0.0)
        return [name for name, own in zip(self.names, left, strict=True) if own]

    @property
    def _stopped(self) -> list[str]:
        """Names of parameters that a new solve has moved to a bound."""
        now = (self.errors_before > 0.0) & (self.errors == 0.0)
        return [name for name, own in zip(self.names, now, strict=True) if own]

    @property
    def _heading(self) -> str:
        how = "solved again" if self.solved else "to first order"
        words = f"without {self.what} ({counted(self.samples, 'sample')}), {how}"
        if self.note:
            return f"{words}: {self.note}"
        return f"{words}: {self.verdict}"

    @property
    def verdict(self) -> str:
        """Verdict on what is different, in words."""
        if self.note:
            return self.note
        lost = [f"{listed(self.lost_of_others)} not determined"] if self.lost_of_others else []
        doubt = f"a second step adds {in_errors(f'{self.more:.2g}')}: solve again, solve=True"
        some = self._freed
        free = [f"{listed(some)} left {'its bound' if len(some) == 1 else 'their bounds'}"]
        ends = [f"{listed(self._stopped)} at a bound"] if self._stopped else []
        most = most_changed(self.in_errors)
        return "; ".join([*lost, *free[: len(some)], *ends, most, *[doubt] * self.doubtful])

    def __str__(self) -> str:
        rows = [("", "estimate", "std. error", "of all", "std. error", "change [std. errors]")]
        pairs = zip(self.values, self.errors, self.before, self.errors_before, strict=True)
        for (name, off), (v, e, b, s) in zip(self.in_errors.items(), pairs, strict=True):
            change = "from its bound" if name in self._freed else f"{off:+.2g}"
            rows.append((name, f"{v:.6g}", f"{e:.2g}", f"{b:.6g}", f"{s:.2g}", change))
        return "\n".join([self._heading, *(f"  {line}" for line in aligned(rows, [0]))])

    def __repr__(self) -> str:
        return f"<{self._heading}>"


def record_without(series: Sequence[Series], out: Out) -> Record:
    """The measurements, NaN for samples that are left out, of channels that have some."""
    found = {}
    for s in series:
        mask = out.get((s.trial, s.channel))
        if mask is not None and mask.any():
            row = found[s.trial, s.channel] = np.full(s.nodes, np.nan)
            row[s.index[~mask]] = s.measured[~mask]
    return found


def groups_of(series: Sequence[Series], labels: Sequence[str]) -> tuple[list[Group], list[str]]:
    """Trials, values of labels, and channels, where there are several; and notes on those that are
    not looked at."""
    trials = list(dict.fromkeys(s.trial for s in series))
    channels = list(dict.fromkeys(s.channel for s in series))
    named = {k: labels[k] if k < len(labels) else "" for k in trials}
    subjects = [name for name in dict.fromkeys(named.values()) if name]
    parts: dict[str, list[tuple[str, list[Series]]]] = {
        "trial": [(f"trial {k}", [s for s in series if s.trial == k]) for k in trials],
        "subject": [(f"subject {x}", [s for s in series if named[s.trial] == x]) for x in subjects],
        "channel": [(c, [s for s in series if s.channel == c]) for c in channels],
    }
    if len(subjects) == len(trials):  # they are the trials
        parts["subject"] = []
    found, notes = list[Group](), list[str]()
    for kind, some in parts.items():
        if len(some) > _MOST:
            notes.append(f"{len(some)} {kind}s are too many to leave out each; use fit.without")
        elif len(some) > 1:
            found += [_whole(kind, what, mine) for what, mine in some]
    return found, notes


def _whole(kind: str, what: str, mine: Iterable[Series]) -> Group:
    out = {(s.trial, s.channel): np.ones(len(s.time), dtype=bool) for s in mine}
    return Group(kind, what, sum(map(len, out.values())), out)


def selected(
    series: Sequence[Series],
    labels: Sequence[str],
    count: int,
    trials: Any = None,
    channels: Any = None,
    subjects: Any = None,
    window: Any = None,
    samples: Any = None,
) -> Group:
    """Samples that are in all of what is given; raises `ValueError` for names and numbers that
    there are not, and if no sample or every sample is meant."""
    if all(each is None for each in (trials, channels, subjects, window, samples)):
        raise ValueError("say what is left out: trials, channels, subjects, window or samples")
    words = list[str]()
    known = list(dict.fromkeys(s.channel for s in series))
    names = [str(n) for n in dict.fromkeys(labels) if n]
    numbers = None if trials is None else [chosen_trial(k, count) for k in _several(trials)]
    wanted = None if channels is None else [_known(c, known, "channel") for c in _several(channels)]
    owners = None if subjects is None else [_known(s, names, "subject") for s in _several(subjects)]
    low, high = (-np.inf, np.inf) if window is None else _span(window)
    single = None if samples is None else _single(samples)
    if owners is not None:
        words.append(listed(owners))
    if wanted is not None:
        words.append(listed(wanted))
    if numbers is not None:
        words.append(f"trial{'s' * (len(numbers) > 1)} {listed(map(str, numbers))}")
    if window is not None:
        words.append(f"{low:g} to {high:g} s")
    out = {}
    for s in series:
        if numbers is not None and s.trial not in numbers:
            continue
        if wanted is not None and s.channel not in wanted:
            continue
        if owners is not None and labels[s.trial] not in owners:
            continue
        mask = (low <= s.time) & (s.time <= high)
        if single is not None:
            mask &= np.isin(s.index, [i for k, c, i in single if (k, c) == (s.trial, s.channel)])
        if mask.any():
            out[s.trial, s.channel] = mask
    found = sum(int(mask.sum()) for mask in out.values())
    if single is not None:
        words.append(f"{found} chosen sample{'s' * (found != 1)}")
    what = ", ".join(words)
    if not found:
        raise ValueError(f"there is no sample in {what}")
    if found == sum(len(s.time) for s in series):
        raise ValueError(f"without {what} nothing that is measured is left")
    return Group("samples", what, found, out)


def _several(given: Any) -> list[Any]:
    """One or several of something."""
    alone = isinstance(given, str) or not np.iterable(given)
    return [given] if alone else list(all_of(given, "what is left out"))


def _known(given: Any, known: Collection[str], what: str) -> str:
    name = key_name(given)
    if name not in known:
        raise ValueError(f"there is no {what} {name!r}; {suggest(name, known)}")
    return name


def _span(window: Any) -> tuple[float, float]:
    try:
        low, high = map(float, window)
    except (TypeError, ValueError):
        raise ValueError(f"window must be two times [s], got {shown(window)}") from None
    if not low <= high:
        raise ValueError(f"window must be two times [s], the first one first, got {shown(window)}")
    return low, high


def _single(samples: Any) -> list[tuple[int, str, int]]:
    try:
        return [(s.trial, s.channel, s.index) for s in _several(samples)]
    except AttributeError:
        raise ValueError(
            "samples must be such as fit.influence().most(10) gives (with trial, channel and "
            f"index), got {shown(samples)}"
        ) from None


def left_out(
    of: Inference,
    about: Uncertainty,
    values: Mapping[str, float],
    series: Sequence[Series],
    group: Group,
    solve: bool = False,
) -> LeftOut:
    """Estimates without a group of samples; a note where there are none."""
    names, r, note = list(values), len(values), ""
    before, errors = np.array([*values.values()]), about.deviations()[:r]
    try:
        found = of.without(record_without(series, group.out), solve)
    except ValueError as error:
        nothing = np.full((r, r), np.nan)
        found, note = Left(nothing[0], nothing, nothing[0]), str(error)
    held = (errors == 0.0) & (not solve)  # by a bound, which a new solve may leave
    new = np.where(np.isnan(errors), np.nan, np.where(held, before, found.values))
    with np.errstate(invalid="ignore"):
        width = np.sqrt(np.diag(found.covariance))
    told = np.isfinite(new)
    more = named(names, over_errors(np.where(errors == 0.0, 0.0, found.more), errors))
    cook = cook_distances((new - before)[None, told], about.covariance[:r, :r][told][:, told])[0]
    return LeftOut(
        kind=group.kind,
        what=group.what,
        samples=group.samples,
        names=names,
        values=new,
        errors=width,
        before=before,
        errors_before=errors,
        covariance=found.covariance,
        cook=float(cook),
        freedom=about.freedom - group.samples if np.isfinite(about.freedom) else np.inf,
        solved=solve,
        more=max((v for v in more.values() if not np.isnan(v)), default=0.0),
        note=note,
    )


def counted(number: int, what: str) -> str:
    """Number of things, in words."""
    return f"{number} {what}{'s' * (number != 1)}"


def named(names: Sequence[str], values: Array) -> dict[str, float]:
    """Numbers by name."""
    return dict(zip(names, map(float, values), strict=True))


def over_errors(change: Array, errors: Array) -> Array:
    """Changes in standard errors; zero where there is none to change."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(errors > 0.0, change / errors, np.where(errors == 0.0, 0.0, np.nan))


def largest(changes: Mapping[str, float]) -> float:
    """Largest size of changes in standard errors, 0 if none is known."""
    return max((abs(v) for v in changes.values() if np.isfinite(v)), default=0.0)


def most_changed(changes: Mapping[str, float]) -> str:
    """Estimate that changes most, in words."""
    known = {name: v for name, v in changes.items() if np.isfinite(v)}
    if not known:
        return "nothing is known of the changes"
    name = max(known, key=lambda n: abs(known[n]))
    return f"{name} changes by {in_errors(f'{known[name]:+.2g}')}"
