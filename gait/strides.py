"""Strides: gait cycles over 0-100 %, their mean and spread, outliers, and numbers of walking."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinesym.base.checks import Named, check_kind, finite, listed_of, mapping, suggest
from kinesym.base.files import replacing
from kinesym.base.notebook import Displayed
from kinesym.gait.frames import DataFrame
from kinesym.gait.tables import File, check_columns, csv_cells, numbers_of
from kinesym.runtime.arrays import Array, mean_of_known, real_array
from kinesym.runtime.results.plot import chosen, subplots
from kinesym.runtime.summary import aligned

#: Instants of a stride at which curves are known [% of the stride].
PERCENT = np.linspace(0.0, 100.0, 101)
#: Distance of the curve of an outlier from the median one, over the median of these distances [-]:
#: of 40 random curves one is beyond in 3 % of records of 5 strides, in 0.3 % of 8.
FAR = 5.0
#: The same for the time of a stride [-]: beyond in 7 % of records of 5 strides, in 2 % of 8.
LATE = 10.0
#: Strides of a side below which there are no outliers.
FEW = 5
#: Panels of a figure, if they are not chosen: angle, torque and power of these joints.
_SENSES = {"hip": "flexion", "knee": "extension", "ankle": "flexion"}
_USUAL = [
    f"{joint}_{sense}_{unit}" for unit in ("rad", "Nm_per_kg") for joint, sense in _SENSES.items()
]
_USUAL += [f"{joint}_power_W_per_kg" for joint in _SENSES]
#: Curves of other tables that are drawn at most, if they are not chosen.
_MOST = 12


@dataclass(frozen=True, eq=False, repr=False)
class Strides(Displayed):
    """Strides of the feet (n), each from a heel strike to the next of the same foot; see
    `Walk.strides`.

    labels : of each stride, such as {"side": "right", "trial": "walk 1", "subject": "S07"}. begin,
    end : (n,) [s]. whole : (n,), whether force plates show the whole stance. curves : by name
    (n, 101), at 0, 1, ... 100 % of the stride, NaN where a value is not known. numbers : by name
    (n,). Names of curves lack the side, which is that of the stride: `knee_extension_rad`.
    """

    labels: tuple[Mapping[str, str], ...]
    begin: Array
    end: Array
    whole: NDArray[np.bool_]
    curves: Mapping[str, Array]
    numbers: Mapping[str, Array]

    @classmethod
    def joined(cls, parts: Sequence[Strides]) -> Strides:
        """Strides of several walks; a curve or number that a walk does not have is NaN there."""
        given = listed_of(parts, Strides, "strides")
        if not given:
            raise ValueError("give strides of at least one walk")

        def rows(kind: str, shape: tuple[int, ...]) -> dict[str, Array]:
            names = dict.fromkeys(name for part in given for name in getattr(part, kind))
            empty = [np.full((len(part), *shape), np.nan) for part in given]
            return {
                name: np.concatenate(
                    [getattr(p, kind).get(name, e) for p, e in zip(given, empty, strict=True)]
                )
                for name in names
            }

        return cls(
            tuple(label for part in given for label in part.labels),
            np.concatenate([part.begin for part in given]),
            np.concatenate([part.end for part in given]),
            np.concatenate([part.whole for part in given]),
            Named("curve", rows("curves", PERCENT.shape)),
            Named("number", rows("numbers", ())),
        )

    def __len__(self) -> int:
        """Number of strides n."""
        return len(self.labels)

    def __getitem__(self, name: str) -> Array:
        """A curve (n, 101) or a number (n,) of all strides."""
        return Named("curve or number", {**self.curves, **self.numbers})[name]

    def __repr__(self) -> str:
        sides = ", ".join(f"{len(part)} {side}" for side, part in self._sides().items())
        return (
            f"<strides: {sides or 'none'}, {int(self.whole.sum())} with a whole stance "
            f"on plates; {len(self.curves)} curves, {len(self.numbers)} numbers>"
        )

    def __str__(self) -> str:
        groups = self._sides()
        rows = [["", *(f"{side} (n = {len(part)})" for side, part in groups.items())]]
        for name in self.numbers:
            pairs = [(float(_mean(p[name])), float(_std(p[name]))) for p in groups.values()]
            rows.append([name, *(f"{m:.4g}" + f" ± {s:.2g}" * (s == s) for m, s in pairs)])
        return "\n".join([repr(self)[1:-1], *aligned(rows, {0})])

    def _sides(self) -> dict[str, Strides]:
        sided = all("side" in one for one in self.labels)
        return self.by("side") if sided else {"of both sides": self}

    # -- some of them ---------------------------------------------------------------------------

    def take(self, rows: Sequence[int] | NDArray[np.bool_]) -> Strides:
        """Strides of these numbers, or where a mask (n,) is true, such as `strides.whole`."""
        index = np.arange(len(self))[np.asarray(rows)] if len(rows) else np.zeros(0, dtype=int)
        curves = {name: row[index] for name, row in self.curves.items()}
        numbers = {name: row[index] for name, row in self.numbers.items()}
        labels = tuple(self.labels[k] for k in index)
        ends = self.begin[index], self.end[index], self.whole[index]
        return Strides(labels, *ends, Named("curve", curves), Named("number", numbers))

    def without(self, rows: Sequence[int] | Mapping[int, str]) -> Strides:
        """Strides but those of these numbers, such as `strides.outliers()`."""
        return self.take(~np.isin(np.arange(len(self)), list(rows)))

    def by(self, label: str) -> dict[str, Strides]:
        """Strides by a label: "side", or those given to the walks, such as "trial", "subject"."""
        values = [self._label(k, label) for k in range(len(self))]
        return {v: self.take(np.array(values) == v) for v in dict.fromkeys(values)}

    def averaged(self, *labels: str) -> Strides:
        """Mean strides, one for each combination of labels, such as `averaged("subject", "side")`:
        the SD of these is that between subjects."""
        keys = [tuple(self._label(k, label) for label in labels) for k in range(len(self))]
        found = []
        for key in dict.fromkeys(keys):
            part = self.take(np.array([one == key for one in keys]))
            mean, label = part.mean, dict(zip(labels, key, strict=True))
            begin, end = np.array([part.begin.mean()]), np.array([part.end.mean()])
            one = [{k: mean[k][None] for k in m} for m in (part.curves, part.numbers)]
            found.append(Strides((label,), begin, end, np.array([part.whole.all()]), *one))
        return Strides.joined(found)

    def _label(self, k: int, label: str) -> str:
        if label not in self.labels[k]:
            raise KeyError(f"stride {k} has no label {label!r}; {suggest(label, self.labels[k])}")
        return self.labels[k][label]

    # -- mean and spread ------------------------------------------------------------------------

    @property
    def mean(self) -> Mapping[str, Array]:
        """Mean of each curve (101,) and number, over the strides in which it is known."""
        return Named("curve or number", {k: _mean(self[k]) for k in (*self.curves, *self.numbers)})

    @property
    def std(self) -> Mapping[str, Array]:
        """Standard deviation of each curve (101,) and number over strides, with n - 1; NaN where
        fewer than two strides are known."""
        return Named("curve or number", {k: _std(self[k]) for k in (*self.curves, *self.numbers)})

    def band(self, name: str, deviations: float = 1.0) -> tuple[Array, Array]:
        """Lower and upper bound of a curve, (101,) each: its mean and so many standard deviations
        to either side."""
        row, width = self[name], finite(deviations, "deviations")
        return _mean(row) - width * _std(row), _mean(row) + width * _std(row)

    def symmetry(self) -> Mapping[str, float]:
        """Symmetry index of each number [%]: the difference right - left of its means, over the
        mean of both sizes (Robinson et al. 1987); 0 if both are the same.

        Raises `ValueError` if there are only strides of one foot.
        """
        sides = self.by("side")
        if len(sides) != 2 or not {"right", "left"} <= sides.keys():
            raise ValueError(
                f"symmetry needs strides of the right and the left foot, there are those of "
                f"{' and '.join(sides) or 'none'}"
            )
        right, left = sides["right"].mean, sides["left"].mean
        return Named("number", {k: _index(right[k], left[k]) for k in self.numbers})

    def outliers(self) -> Mapping[int, str]:
        """Strides unlike the others of their side and person, by number: the curve that is
        farthest off, or the time of the stride, as a sentence.

        A curve is off if its distance (rms) from the median curve is 5 times the median of these
        distances, a time 10 times. Of fewer than 5 strides nothing is said.
        """
        kinds = [{k: v for k, v in one.items() if k != "trial"} for one in self.labels]
        rows = {f"its curve of {k}": (row, FAR) for k, row in self.curves.items()}
        rows["its time"] = (self.end - self.begin, LATE)
        worst: dict[int, tuple[float, float, str]] = {}
        for kind in [one for k, one in enumerate(kinds) if one not in kinds[:k]]:
            index = np.flatnonzero([one == kind for one in kinds])
            for name, (row, limit) in rows.items():
                for k, size in zip(index.tolist(), _farness(row[index]).tolist(), strict=True):
                    if size > limit:
                        worst[k] = max(worst.get(k, (0.0, 0.0, "")), (size / limit, size, name))
        return {
            k: f"stride {k} ({', '.join(self.labels[k].values())}, {self.begin[k]:.2f}-"
            f"{self.end[k]:.2f} s): {name} is {size:.0f} times as far from the median as usual"
            for k, (_, size, name) in sorted(worst.items())
        }

    # -- tables and figures ---------------------------------------------------------------------

    def table(self, by: str = "side") -> DataFrame:
        """Numbers of walking as a paper has them: mean, SD and n of each number by a label, and
        `symmetry` [%] by sides."""
        import pandas as pd  # here: slow to import

        columns: dict[tuple[str, str], list[float]] = {}
        for value, part in self.by(by).items():
            mean, std = part.mean, part.std
            columns[value, "mean"] = [float(mean[name]) for name in self.numbers]
            columns[value, "SD"] = [float(std[name]) for name in self.numbers]
            columns[value, "n"] = [int(np.isfinite(part[name]).sum()) for name in self.numbers]
        if by == "side" and {"right", "left"} <= {value for value, _ in columns}:
            columns["symmetry", "%"] = list(self.symmetry().values())
        return pd.DataFrame(columns, index=list(self.numbers))

    def to_pandas(self) -> DataFrame:
        """Curves by stride, labels and per cent: one row for each stride and per cent."""
        import pandas as pd  # here: slow to import

        names, rows = self._index_rows()
        index = pd.MultiIndex.from_tuples(rows, names=names)
        return pd.DataFrame({k: row.ravel() for k, row in self.curves.items()}, index=index)

    def to_csv(self, path: str | Path) -> None:
        """Write the rows of `to_pandas` as CSV, in all digits; what is not known is empty."""
        names, rows = self._index_rows()
        values = np.array([row.ravel() for row in self.curves.values()]).T.tolist()
        with replacing(path) as beside, beside.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([*names, *self.curves])
            for row, cells in zip(rows, values, strict=True):
                writer.writerow([*row, *("" if x != x else f"{x:.17g}" for x in cells)])

    def _index_rows(self) -> tuple[list[str], list[tuple[Any, ...]]]:
        kinds = list(dict.fromkeys(k for one in self.labels for k in one))
        rows = [
            (k, *(one.get(kind, "") for kind in kinds), bool(whole), int(percent))
            for k, (one, whole) in enumerate(zip(self.labels, self.whole, strict=True))
            for percent in PERCENT
        ]
        return ["stride", *kinds, "whole", "percent"], rows

    def plot(
        self,
        names: Sequence[str] | None = None,
        by: str = "side",
        norms: Mapping[str, Array] | None = None,
        beside: Mapping[str, Strides] | None = None,
        deviations: float = 1.0,
    ) -> Any:
        """Mean and band of curves over the stride, one colour for each value of a label.

        names : of curves; by default angle, torque and power of hip, knee and ankle. norms : bands
        in grey by name of the curve, see `read_norms`. beside : other strides by their name in the
        legend, such as those of a program of the laboratory, means alone, dashed. deviations : half
        the width of bands, in standard deviations. Angles [rad] are drawn in degrees.
        """
        usual = [name for name in _USUAL if name in self.curves] or list(self.curves)[:_MOST]
        wanted = usual if names is None else chosen(names, self.curves)
        groups = self.by(by)
        across = 3 if len(wanted) > 2 else max(len(wanted), 1)
        down = -(-len(wanted) // across)
        size = (3.6 * across, 2.5 * down + 0.6)
        figure, axes = subplots(down, across, sharex=True, squeeze=False, figsize=size)
        for panel, name in zip(axes.flat, wanted, strict=False):
            scale, label = (
                (180.0 / np.pi, f"{name[:-4]}_deg") if name.endswith("_rad") else (1, name)
            )
            for number, (value, part) in enumerate(groups.items()):
                low, high = part.band(name, deviations)
                panel.fill_between(
                    PERCENT, scale * low, scale * high, color=f"C{number}", alpha=0.25, lw=0
                )
                said = f"{value} (n = {len(part)})"
                panel.plot(
                    PERCENT, scale * _mean(part[name]), color=f"C{number}", lw=1.6, label=said
                )
            if norms and name in norms:
                band = real_array(norms[name], f"the norm of {name!r}")
                if band.ndim != 2 or len(band) != 3:
                    raise ValueError(f"the norm of {name!r} must be (3, k), got {band.shape}")
                percent, low, high = band
                panel.fill_between(
                    percent, scale * low, scale * high, color="0.5", alpha=0.25, lw=0, label="norm"
                )
            for other, one in mapping(beside or {}, "beside").items():
                check_kind(one, Strides, "kinesym.gait")
                if name in one.curves:
                    panel.plot(PERCENT, scale * _mean(one[name]), "k--", lw=1.2, label=other)
            panel.axhline(0.0, color="k", lw=0.6)
            panel.set(title=label, xlim=(0.0, 100.0))
            panel.title.set_fontsize("medium")
        for panel in axes.flat[len(wanted) :]:
            panel.set_axis_off()
        figure.supxlabel("stride [%]")
        if wanted:
            figure.legend(
                *axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=across
            )
        return figure


def read_norms(path: File) -> dict[str, Array]:
    """Norm bands of curves from a CSV file: rows percent, low and high, (3, k), by name.

    Columns: `curve`, a name as of `Strides.curves`, `percent` of the stride, `low` and `high`, in
    the unit of the curve; rows of a curve in the order of per cent. Raises `FileNotFoundError`, and
    `ValueError` naming line and column of the fault.
    """
    cells = csv_cells(path)
    check_columns(path, cells, ("curve", "percent", "low", "high"))
    rows = numbers_of(path, cells.part(["percent", "low", "high"]))
    curves = np.array([name for (name,) in cells.part(["curve"]).rows.values()])
    found = {str(name): rows[:, curves == name] for name in dict.fromkeys(curves)}
    for name, band in found.items():
        if not (np.diff(band[0]) > 0.0).all() or not (band[1] <= band[2]).all():
            raise ValueError(f"{path}: percent of {name!r} must increase, and low not exceed high")
    return Named("norm", found)


# -- statistics, leaving out what is not known ------------------------------------------------


def _mean(rows: Array) -> Array:
    return mean_of_known(rows, 0)


def _std(rows: Array) -> Array:
    many = np.isfinite(rows).sum(axis=0)
    variance = mean_of_known((rows - _mean(rows)) ** 2, 0)
    return np.where(many > 1, np.sqrt(variance * many / np.maximum(many - 1, 1)), np.nan)


def _index(right: Array, left: Array) -> float:
    size = 0.5 * (abs(float(right)) + abs(float(left)))
    return 100.0 * float(right - left) / size if size else 0.0 if right == left else float("nan")


def _farness(rows: Array) -> Array:
    """Distances of strides from their median, over the median of these; 0 where not known."""
    known = np.isfinite(rows if rows.ndim == 1 else rows.sum(axis=1))
    found = np.zeros(len(rows))
    if known.sum() >= FEW:
        off = (rows[known] - np.median(rows[known], axis=0)).reshape(int(known.sum()), -1)
        far = np.sqrt(np.mean(off**2, axis=1))
        usual = float(np.median(far))
        found[known] = far / usual if usual > 0.0 else 0.0
    return found
