"""The tidy table of a run as a pandas frame: a row for each fit and test set, a column for each measure."""

from collections.abc import Iterable, Mapping
from typing import Any

from pnca.exceptions import MissingExtraError

try:
    import pandas as pd
except ImportError as error:  # said on import, so that no command trains first
    raise MissingExtraError("pandas", "studies") from error

# The others import pandas from here: without it the first of them names the extra to install.
__all__ = ["Row", "by_repetition", "make_frame", "pd", "unique", "where"]

Row = Mapping[str, Any]


def where(frame: pd.DataFrame, **columns: Any) -> pd.DataFrame:  # noqa: ANN401
    """Rows with these values; none if the frame lacks one of the columns."""
    for name, value in columns.items():
        frame = frame[frame[name] == value] if name in frame else frame[:0]
    return frame


def unique(frame: pd.DataFrame, column: str) -> list[Any]:
    """Values of a column in order of appearance; none if the frame lacks it."""
    return list(frame[column].unique()) if column in frame else []


def by_repetition(frame: pd.DataFrame, measure: str) -> pd.Series:
    """A measure by draw, or by partition and fold, in order; NaN where it does not exist."""
    if not len(frame):
        return pd.Series(dtype=float)
    repetition = ["trial", "fold"] if "trial" in frame else ["draw"]
    values = frame[measure] if measure in frame else pd.Series(float("nan"), index=frame.index)
    return values.astype(float).groupby([frame[name] for name in repetition]).mean()


def make_frame(rows: Iterable[Row]) -> pd.DataFrame:
    """Collect rows that may have different columns."""
    return pd.DataFrame(list(rows))
