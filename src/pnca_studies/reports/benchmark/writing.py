"""How names, numbers and tables are written in the documents."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from pnca_studies.experiments.benchmark.models import PNCA
from pnca_studies.reports.benchmark.measures import FIT, SECONDS, Interval, Measure
from pnca_studies.reports.benchmark.results import Place, Results
from pnca_studies.reports.tables import NOTHING, Table, number

#: The mark of seconds on a GPU.
GPU_MARK = "†"

#: How the values of a measure, one a draw, are written.
Writers = Mapping[Measure, Callable[[ArrayLike], str]]


def listed(names: Sequence[str]) -> str:
    """Write names in a row: a, b and c."""
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names) or "none"


def counted(n: int, what: str) -> str:
    """Write a number of things: 1 draw, 2 draws."""
    return f"{n:,} {what}{'s' * (n != 1)}"


def bold(model: str) -> str:
    """Write the name of a model; PNCA's stands out."""
    return f"**{model}**" if model == PNCA else model


def folded(summary: str, text: str) -> str:
    """Hide Markdown behind a line that opens it."""
    return f"<details>\n<summary>{summary}</summary>\n\n{text}\n</details>\n"


def seconds(values: ArrayLike) -> str:
    """Write the mean of some seconds in about three digits."""
    average = float(np.mean(np.asarray(values))) if np.size(values) else float("nan")
    if average < 0.005:
        return "< .01"
    return number(average, 0 if average >= 100 else 1 if average >= 10 else 2)


def share(value: float) -> str:
    """Write a share as a percentage in about two digits."""
    if not np.isfinite(value):
        return NOTHING
    return f"{100 * value:.0f} %" if value >= 0.1 else f"{100 * value:.1f} %"


def marked(difference: Interval | None, measure: Measure) -> str:
    """Write a difference: bold if its interval is on the better side of zero, italic if on the worse."""
    if difference is None:
        return NOTHING
    mark = {"win": "**", "loss": "*"}.get(difference.side(measure), "")
    return f"{mark}{difference}{mark}"


def on_gpu(results: Results, place: Place, model: str) -> bool:
    """Whether a fit of a model was on a GPU."""
    devices = results.column(place, model, SECONDS, "device").values()
    return any(str(device).startswith("cuda") for device in devices)


def measure_columns(
    results: Results, place: Place, models: Sequence[str], writers: Writers
) -> dict[str, list[str]]:
    """Write measures of models by the name of the measure; seconds of a fit on a GPU have a mark."""
    columns = {
        measure.name: [write(list(results.values(place, model, measure).values())) for model in models]
        for measure, write in writers.items()
    }
    marks = [GPU_MARK * on_gpu(results, place, model) for model in models]
    columns[FIT.name] = [cell + mark for cell, mark in zip(columns[FIT.name], marks, strict=True)]
    return columns


def columns_table(heading: str, names: Sequence[str], columns: Mapping[str, Sequence[str]]) -> str:
    """Write columns of cells as Markdown, a row a name; a column without a number is left out."""
    shown = {name: cells for name, cells in columns.items() if set(cells) - {NOTHING}}
    rows = [list(row) for row in zip(names, *shown.values(), strict=True)]
    return Table(headings=[heading, *shown], rows=rows).markdown()


def missing_line(results: Results) -> str:
    """Say how many cells are missing; nothing if none is."""
    if not results.missing:
        return ""
    models = sorted({cell.model for cell in results.missing})
    of_models = listed(models) if len(models) <= 4 else counted(len(models), "model")
    return (
        f"**{len(results.missing):,} of {counted(results.n_planned, 'planned cell')} "
        f"{'is' if len(results.missing) == 1 else 'are'} missing** (of {of_models}). Ranks and tests are of "
        "models that have every draw of every data set they are about; all others are left out of them.\n"
    )
