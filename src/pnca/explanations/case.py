"""What ``explain`` returns: one case, several of them, and what would be if examples were others."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pnca.exceptions import InvalidInputError, MissingExtraError
from pnca.files import write_text
from pnca.record import Record

FloatArray = NDArray[np.float64]

#: The parts of a probability, in the order in which they are shown.
NAMED, OTHERS, LINE, NOBODY = "named examples", "all other examples", "linear expert", "class shares"
PARTS = (NAMED, OTHERS, LINE, NOBODY)
HELD_FIXED = (
    "Held fixed: networks, trees, line, bandwidth, weights of the pool, class shares, novelty. A new fit "
    "would choose them anew."
)


class Example(NamedTuple):
    """A training example that carries part of an answer."""

    row: int  # in the training data
    id: Any  # as given to the fit, or None
    label: Any
    share: float  # of the probability of its class
    distance: float | None  # from the input, in standard units; None where inputs are not known
    given: Any  # values of its columns, or its picture; None where the record does not have it


class Column(NamedTuple):
    """A column of one input, and how unusual it is."""

    name: Any
    value: Any  # as it was given
    typical: Any  # median of the training examples, or their most frequent value; None where not known
    low: Any  # least and largest of them, if they have an order
    high: Any
    residual: float | None  # what the other columns do not lead to expect, in standard deviations
    residual_share: float | None  # of the squared residual of the input
    distance: float | None  # from the named examples, root mean square, in standard deviations
    distance_share: float | None  # of the squared distance
    class_share: float | None  # of the squared distance from the nearest class; it may be negative
    is_new: bool  # a category that no training example had


class Agreement(NamedTuple):
    """How far the members of the neighbour model agree, and what the experts say."""

    n_members: int
    votes: NDArray[np.int64]  # (c,), members by the class that each finds most probable
    low: FloatArray  # (c,), least and largest probability that a member gives each class
    high: FloatArray
    experts: Mapping[str, FloatArray]  # (c,) each

    def same(self, best: int) -> int:
        """Members that name a class, given by its position."""
        return int(self.votes[best])


class Usual(NamedTuple):
    """How familiar an input is, beside the training examples out of fold."""

    familiarity: float
    evidence: float
    of_training: FloatArray  # (n,), their evidence out of fold
    n_units: int  # independent examples: groups, if there are some
    units: str  # what these are, in words


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class WhatIf:
    """Answers with some training examples removed or relabelled, all else held fixed.

    Attributes
    ----------
    classes : ndarray of shape (c,)
        The labels.
    before, after : ndarray of shape (n, c)
        Probabilities with the examples as they are, and with the change.
    change : str
        What was changed, in words.
    """

    classes: NDArray[Any]
    before: FloatArray
    after: FloatArray
    change: str

    @property
    def label(self) -> NDArray[Any]:
        """The most probable classes (n,) after the change."""
        labels: NDArray[Any] = self.classes[self.after.argmax(axis=1)]
        return labels

    @property
    def is_other(self) -> NDArray[np.bool_]:
        """Whether another class is most probable (n,)."""
        other: NDArray[np.bool_] = self.before.argmax(axis=1) != self.after.argmax(axis=1)
        return other

    def __str__(self) -> str:
        from pnca.explanations.text import what_if_text

        return what_if_text(self)

    __repr__ = __str__


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Source:
    """What all cases of one call share: the training examples, and how to answer with others."""

    classes: NDArray[Any]
    record: Record
    answer_with: Callable[[NDArray[np.int64], NDArray[np.int64], Mapping[int, int]], FloatArray]
    notes: tuple[str, ...] = ()  # what cannot be shown, and why

    def what_if(
        self, rows: NDArray[np.int64], before: FloatArray, removed: Iterable[Any], labels: Mapping[Any, Any]
    ) -> WhatIf:
        """Answers of cases in these rows (n,), which have these probabilities (n, c)."""
        removed = list(removed)
        gone = self.record.rows_of(removed)
        if len(set(gone.tolist())) >= len(self.record):
            raise InvalidInputError("Without any training example there is no answer: leave at least one.")
        known = {label: place for place, label in enumerate(self.classes.tolist())}
        if wrong := [label for label in labels.values() if _plain(label) not in known]:
            raise InvalidInputError(
                f"{wrong[0]!r} is no class of the model: its classes are {', '.join(map(repr, known))}."
            )
        others = {
            int(row): known[_plain(label)]
            for row, label in zip(self.record.rows_of(labels), labels.values(), strict=True)
        }
        what = "id" if self.record.ids is not None else "row"
        parts = [f"without {len(removed)} training example{'s' * (len(removed) != 1)}"] * bool(removed)
        parts += [f"{what} {name!r} labelled {_plain(label)!r}" for name, label in labels.items()]
        after = self.answer_with(rows, gone, others)
        change = ", ".join(parts) or "nothing changed"
        return WhatIf(classes=self.classes, before=before, after=after, change=change)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Explanation:
    """The ledger of one case: what its answer consists of.

    Attributes
    ----------
    row : int
        The row of X.
    classes : ndarray of shape (c,)
        The labels.
    proba : ndarray of shape (c,)
        Their probabilities.
    parts : dict of str to ndarray of shape (c,)
        What each probability consists of: the examples in ``examples``, all other examples, the linear
        expert, and the class shares, which have what no example carries. They add up to ``proba``.
    examples : tuple of Example
        The training examples that carry most, the largest share first.
    agreement : Agreement
        How many members name each class, and how far their probabilities are apart.
    usual : Usual or None
        Familiarity and evidence beside those of the training examples; None without folds.
    deviations : float or None
        How far the distance from the principal subspace lies above the typical one, in standard deviations.
    columns : tuple of Column
        The columns, the most unusual first, a hundred at most; empty where inputs have none.
    maps : dict of str to ndarray of shape (h, w)
        Of an image where it is unusual: ``"residual"`` and ``"distance"``, in standard deviations.
    given : tuple or ndarray
        The values of the columns, or the picture.
    names : tuple
        The names of the columns.
    name, number : optional
        What the case is called in the file that it is from, and its row there from 1.
    """

    row: int
    classes: NDArray[Any]
    proba: FloatArray
    parts: Mapping[str, FloatArray]
    examples: tuple[Example, ...]
    agreement: Agreement
    usual: Usual | None
    deviations: float | None
    columns: tuple[Column, ...]
    maps: Mapping[str, FloatArray]
    given: Any
    names: tuple[Any, ...]
    source: Source
    name: Any = None
    number: int | None = None

    @property
    def best(self) -> int:
        """The position of the most probable class."""
        return int(self.proba.argmax())

    @property
    def label(self) -> Any:  # noqa: ANN401
        """The most probable class."""
        return self.classes.tolist()[self.best]

    @property
    def is_picture(self) -> bool:
        """Whether the input is an image."""
        return isinstance(self.given, np.ndarray)

    @property
    def notes(self) -> tuple[str, ...]:
        """What cannot be shown, and why."""
        return self.source.notes

    def without(self, names: Iterable[Any]) -> WhatIf:
        """Answer without some training examples, given by their ids; without ids by their rows."""
        return self.source.what_if(np.array([self.row]), self.proba[None], names, {})

    def relabelled(self, labels: Mapping[Any, Any]) -> WhatIf:
        """Answer with other labels of some training examples, by their ids; without ids by their rows."""
        return self.source.what_if(np.array([self.row]), self.proba[None], (), labels)

    def to_frame(self) -> Any:  # noqa: ANN401
        """Return the examples as a pandas table, with the columns of the data where they are known."""
        return Explanations((self,)).to_frame()

    def plot(self) -> Any:  # noqa: ANN401
        """Draw the case on a page with matplotlib (``pip install 'pnca[plots]'``); returns the figure."""
        from pnca.explanations.figures import draw_page

        return draw_page(self)

    def to_html(self, path: str | Path | None = None) -> str:
        """Return one page of HTML that needs no other file (``pip install 'pnca[report]'``).

        Parameters
        ----------
        path : str or Path, optional
            Where to write it, too; a file that is there is replaced.
        """
        return Explanations((self,)).to_html(path)

    def __str__(self) -> str:
        from pnca.explanations.text import case_text

        return case_text(self)

    __repr__ = __str__


class Explanations(Sequence[Explanation]):
    """Several cases: a sequence of :class:`Explanation`."""

    def __init__(self, cases: Iterable[Explanation]) -> None:
        self._cases = tuple(cases)

    def __len__(self) -> int:
        return len(self._cases)

    def __getitem__(self, place: Any) -> Any:  # noqa: ANN401
        found = self._cases[place]
        return Explanations(found) if isinstance(place, slice) else found

    def __str__(self) -> str:
        from pnca.explanations.text import cases_text

        return cases_text(self)

    __repr__ = __str__

    def without(self, names: Iterable[Any]) -> WhatIf:
        """Answer all cases without some training examples, given by their ids; without ids by their rows."""
        return self._cases[0].source.what_if(self._rows, self._proba, names, {})

    def relabelled(self, labels: Mapping[Any, Any]) -> WhatIf:
        """Answer all cases with other labels of some training examples, by their ids or rows."""
        return self._cases[0].source.what_if(self._rows, self._proba, (), labels)

    def to_frame(self) -> Any:  # noqa: ANN401
        """Return a pandas table with a row for each example of each case."""
        try:
            import pandas as pd
        except ImportError as error:
            raise MissingExtraError("pandas", "studies") from error
        return pd.DataFrame(list(self._frame_rows()))

    def plot(self) -> Any:  # noqa: ANN401
        """Draw one case on a page; of several, take one: ``explanations[3].plot()``."""
        if len(self) != 1:
            raise InvalidInputError(
                f"plot draws one case, and there are {len(self)}: take one, as in explanations[0].plot()."
            )
        return self[0].plot()

    def to_html(self, path: str | Path | None = None) -> str:
        """Return one page of HTML with all cases; see :meth:`Explanation.to_html`."""
        from pnca.explanations.pages import page_of

        text = page_of(self)
        if path is not None:
            write_text(path, text)
        return text

    @property
    def _rows(self) -> NDArray[np.int64]:
        return np.array([case.row for case in self])

    @property
    def _proba(self) -> FloatArray:
        return np.stack([case.proba for case in self])

    def _frame_rows(self) -> Iterator[dict[Any, Any]]:
        for case in self:
            for example in case.examples:
                is_shown = example.given is not None and not case.is_picture
                named = zip(case.names, example.given, strict=True) if is_shown else ()
                own = {
                    "case": case.row,
                    "predicted": case.label,
                    "row": example.row,
                    "id": example.id,
                    "label": example.label,
                    "share": example.share,
                    "distance": example.distance,
                }
                for name, value in named:  # a column of the user's never takes the place of another
                    own[_free_name(str(name), own)] = value
                yield own


def _plain(value: Any) -> Any:  # noqa: ANN401
    return value.item() if isinstance(value, np.generic) else value


def _free_name(name: str, taken: Container[str]) -> str:
    """A name that is not taken: ``x_label`` where there is a ``label``."""
    while name in taken:
        name = f"x_{name}"
    return name
