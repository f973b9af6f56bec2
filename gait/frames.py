"""Tables of pandas, which is loaded when one is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from kinesym.runtime.arrays import Array

if TYPE_CHECKING:
    import pandas as pd

DataFrame: TypeAlias = "pd.DataFrame"


def by_time(time: Array, columns: Mapping[Any, Array]) -> DataFrame:
    """Columns (N,) by time (N,) [s]."""
    import pandas as pd  # here: slow to import

    return pd.DataFrame(dict(columns), index=pd.Index(time, name="time"))


def by_foot(frames: Mapping[str, DataFrame]) -> DataFrame:
    """Tables of wrenches on feet, by name, side by side."""
    import pandas as pd  # here: slow to import

    return pd.concat(frames, axis=1, names=["foot", "part"])
