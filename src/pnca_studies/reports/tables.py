"""Tables as Markdown and LaTeX, and the way numbers are written in them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pnca.exceptions import InvalidInputError

#: Stands for a number that does not exist.
NOTHING = "-"

_LATEX = {
    **{letter: f"\\{letter}" for letter in "&%_#${}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "`": ""},
    **{"±": r"$\pm$", "<": "$<$", ">": "$>$", "≥": r"$\geq$"},
}


def check_document(path: Path) -> None:
    """Refuse a name for a document that does not say that it is Markdown."""
    if path.suffix != ".md":
        raise InvalidInputError(f"{path.name} must end in .md: the document is Markdown.")


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of text under headings; the first column holds names, the others numbers."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""

    def markdown(self) -> str:
        """Write it as Markdown, without its caption."""
        rule = "|---|" + "--:|" * (len(self.headings) - 1)
        lines = ["| " + " | ".join(cells) + " |" for cells in (self.headings, *self.rows)]
        return "\n".join([lines[0], rule, *lines[1:]])

    def latex(self) -> str:
        """Write it as a LaTeX table; the document needs the package booktabs."""
        head, *body = [" & ".join(map(_escape, cells)) + r" \\" for cells in (self.headings, *self.rows)]
        columns = "l" + "r" * (len(self.headings) - 1)
        return "\n".join(
            [
                r"\begin{table}",
                r"  \centering",
                rf"  \begin{{tabular}}{{{columns}}}",
                *(f"    {line}" for line in (r"\toprule", head, r"\midrule", *body, r"\bottomrule")),
                r"  \end{tabular}",
                rf"  \caption{{{_escape(self.caption)}}}",
                r"\end{table}",
                "",
            ]
        )


def number(value: float | None, digits: int = 3) -> str:
    """Write a number without a zero before the point, and ``NOTHING`` for None, NaN and infinity."""
    if value is None or not np.isfinite(value):
        return NOTHING
    text = f"{round(value, digits) + 0.0:.{digits}f}"  # adding zero turns -0 into 0
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def signed(value: float, digits: int = 3) -> str:
    """Write a difference with its sign."""
    text = number(value, digits)
    return f"+{text}" if text not in (NOTHING, number(0.0, digits)) and value > 0 else text


def mean(values: ArrayLike, digits: int = 3) -> str:
    """Write the mean of the finite values."""
    known = _finite(values)
    return number(float(known.mean()), digits) if len(known) else NOTHING


def mean_sd(values: ArrayLike, digits: int = 3) -> str:
    """Write mean ± standard deviation (n - 1) of the finite values; of one value, the value alone."""
    known = _finite(values)
    if not len(known):
        return NOTHING
    spread = f" ± {number(known.std(ddof=1), digits)}" if len(known) > 1 else ""
    return number(known.mean(), digits) + spread


def per_cent(values: ArrayLike, digits: int = 1) -> str:
    """Write the mean of the finite shares as a percentage."""
    known = _finite(values)
    return f"{100 * known.mean():.{digits}f} %" if len(known) else NOTHING


def _finite(values: ArrayLike) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    return array[np.isfinite(array)]


def _escape(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)
