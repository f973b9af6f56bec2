"""What is left out of a fit: trials, channels, labels, windows of time and single samples, as masks
of its samples."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kinesym.base.checks import listed as all_of
from kinesym.base.checks import shown, suggest
from kinesym.runtime.results.bootstrap import Record
from kinesym.runtime.results.plot import chosen_trial
from kinesym.runtime.results.series import Series
from kinesym.runtime.signals.experiment import key_name
from kinesym.runtime.summary import listed

#: Masks of samples that are left out, by trial and channel.
Out: TypeAlias = Mapping[tuple[int, str], NDArray[np.bool_]]
#: Groups of a kind that are left out one by one; more take long.
_MOST = 50


class Group(NamedTuple):
    """Samples that are left out together: "trial", "channel", "subject" or "samples", in words, and
    how many there are."""

    kind: str
    what: str
    samples: int
    out: Out


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
    return [given] if alone else all_of(given, "what is left out")


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
