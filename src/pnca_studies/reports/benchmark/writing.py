"""How names and numbers are written in the documents."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pnca_studies.reports.benchmark.measures import Interval, Measure
from pnca_studies.reports.benchmark.results import PNCA
from pnca_studies.reports.tables import NOTHING, number

#: The mark of seconds on a GPU.
GPU_MARK = "†"


def listed(names: Sequence[str]) -> str:
    """Write names in a row.

    Parameters
    ----------
    names : sequence of str
        Which.

    Returns
    -------
    str

    Examples
    --------
    >>> listed(["DNN", "BNN", "NCA"]), listed(["DNN"]), listed([])
    ('DNN, BNN and NCA', 'DNN', 'none')
    """
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else "".join(names) or "none"


def bold(model: str) -> str:
    """Write the name of a model; PNCA's stands out.

    Parameters
    ----------
    model : str
        Its name.

    Returns
    -------
    str
    """
    return f"**{model}**" if model == PNCA else model


def folded(summary: str, text: str) -> str:
    """Hide text behind a line that opens it.

    Parameters
    ----------
    summary : str
        The line.
    text : str
        Markdown.

    Returns
    -------
    str
    """
    return f"<details>\n<summary>{summary}</summary>\n\n{text}\n</details>\n"


def mean(values: NDArray[np.float64]) -> str:
    """Write the mean of values (r,)."""
    return number(float(values.mean())) if len(values) else NOTHING


def seconds(values: NDArray[np.float64]) -> str:
    """Write the mean of seconds (r,) in about three digits.

    Parameters
    ----------
    values : ndarray of shape (r,)
        One a draw.

    Returns
    -------
    str

    Examples
    --------
    >>> [seconds(np.array([value])) for value in (0.001, 1.234, 12.34, 123.4)]
    ['< .01', '1.23', '12.3', '123']
    """
    if not len(values):
        return NOTHING
    average = float(values.mean())
    if average < 0.005:
        return "< .01"
    return number(average, 0 if average >= 100 else 1 if average >= 10 else 2)


def marked(difference: Interval | None, measure: Measure) -> str:
    """Write a difference: bold if it is surely for the better, italic if it is surely for the worse.

    Parameters
    ----------
    difference : Interval or None
        None if there is none.
    measure : Measure
        Of what.

    Returns
    -------
    str

    Examples
    --------
    >>> marked(Interval(0.2, 0.1, 0.3), Measure(name="NLL", test_set="test", column="nll"))
    '*+.200 (+.100 to +.300)*'
    """
    if difference is None:
        return NOTHING
    mark = {"win": "**", "loss": "*"}.get(difference.side(measure), "")
    return f"{mark}{difference}{mark}"
