"""Tables as Markdown and LaTeX, and the way numbers are written in them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from pnca.exceptions import InvalidInputError

#: Stands for a number that does not exist.
NOTHING = "-"

_LATEX = {
    **{letter: f"\\{letter}" for letter in "&%_#${}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "`": ""},
    **{"±": r"$\pm$", "<": "$<$", ">": "$>$", "≥": r"$\geq$"},
}


def check_document(path: Path) -> None:
    """Refuse a name for a document that does not say that it is Markdown.

    Parameters
    ----------
    path : Path
        Where it is to be.
    """
    if path.suffix != ".md":
        raise InvalidInputError(f"{path.name} must end in .md: the document is Markdown.")


@dataclass(frozen=True, kw_only=True)
class Table:
    """Text in rows and columns.

    Attributes
    ----------
    caption : str
        What it shows.
    headings : sequence of str
        One a column.
    rows : sequence of sequence of str
        The first column is a name, the others are numbers.
    """

    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """Write it as Markdown, without its caption.

        Returns
        -------
        str

        Examples
        --------
        >>> print(Table(caption="", headings=["model", "accuracy"], rows=[["DNN", ".7"]]).markdown())
        | model | accuracy |
        |---|--:|
        | DNN | .7 |
        """
        rule = "|---|" + "--:|" * (len(self.headings) - 1)
        lines = ["| " + " | ".join(cells) + " |" for cells in (self.headings, *self.rows)]
        return "\n".join([lines[0], rule, *lines[1:]])

    def latex(self) -> str:
        """Write it as a LaTeX table; the document needs the package booktabs.

        Returns
        -------
        str
        """
        lines = [" & ".join(map(_escape, cells)) + r" \\" for cells in (self.headings, *self.rows)]
        columns = "l" + "r" * (len(self.headings) - 1)
        return "\n".join(
            [
                r"\begin{table}",
                r"  \centering",
                rf"  \begin{{tabular}}{{{columns}}}",
                r"    \toprule",
                f"    {lines[0]}",
                r"    \midrule",
                *(f"    {line}" for line in lines[1:]),
                r"    \bottomrule",
                r"  \end{tabular}",
                rf"  \caption{{{_escape(self.caption)}}}",
                r"\end{table}",
                "",
            ]
        )


def number(value: float | None, digits: int = 3) -> str:
    """Write a number as the tables of this field do: no zero before the point.

    Parameters
    ----------
    value : float or None
        None and NaN are written as ``NOTHING``.
    digits : int
        After the point.

    Returns
    -------
    str

    Examples
    --------
    >>> number(0.7434), number(-0.02, 2), number(1.5, 2), number(None)
    ('.743', '-.02', '1.50', '-')
    """
    if value is None or not np.isfinite(value):
        return NOTHING
    text = f"{round(value, digits) + 0.0:.{digits}f}"  # adding zero turns -0 into 0
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def mean_sd(values: ArrayLike, digits: int = 3) -> str:
    """Write mean ± standard deviation (n - 1), or the mean alone where there is one value.

    Parameters
    ----------
    values : array-like of shape (n,)
        One a repetition; NaN are left out.
    digits : int
        After the point.

    Returns
    -------
    str

    Examples
    --------
    >>> mean_sd([0.5, 0.7]), mean_sd([0.5])
    ('.600 ± .141', '.500')
    """
    known = np.asarray(values, dtype=np.float64)
    known = known[np.isfinite(known)]
    if len(known) < 2:
        return number(known[0] if len(known) else None, digits)
    return f"{number(known.mean(), digits)} ± {number(known.std(ddof=1), digits)}"


def per_cent(values: ArrayLike, digits: int = 1) -> str:
    """Write the mean share as a percentage.

    Parameters
    ----------
    values : array-like of shape (n,)
        Shares from 0 to 1.
    digits : int
        After the point.

    Returns
    -------
    str

    Examples
    --------
    >>> per_cent([0.25, 0.35])
    '30.0 %'
    """
    known = np.asarray(values, dtype=np.float64)
    known = known[np.isfinite(known)]
    return f"{100 * known.mean():.{digits}f} %" if len(known) else NOTHING


def signed(value: float, digits: int = 3) -> str:
    """Write a difference with its sign.

    Parameters
    ----------
    value : float
        The difference.
    digits : int
        After the point.

    Returns
    -------
    str

    Examples
    --------
    >>> signed(0.011, 2), signed(-0.02, 2), signed(0.001, 2)
    ('+.01', '-.02', '.00')
    """
    text = number(value, digits)
    return f"+{text}" if text not in (NOTHING, number(0.0, digits)) and value > 0 else text


def _escape(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)
