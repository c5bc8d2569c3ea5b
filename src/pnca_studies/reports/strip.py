"""Where everything goes in the strip of inputs: geometry only, nothing is drawn here.

Lengths are in inches, because text keeps its size however many columns there are.
"""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from pnca_studies.reports.style import text_width

CELL = 1.05  # width of a column, and side of its image
ROW_HEIGHT = 0.44  # one model: a line of text with a bar below it
BAR_HEIGHT = 0.11
EDGE = 0.2
NAME_SIZE = 10  # points, of the model names

_COLUMN_GAP = 0.2
_GROUP_GAP = 0.5
_LINE_HEIGHT = 0.2
_LETTER_WIDTH = 0.095  # of a common letter in a heading


@dataclass(frozen=True, kw_only=True)
class Group:
    """Neighbouring columns under one heading.

    Attributes
    ----------
    heading : str
        Broken into as many lines as the columns' width asks for.
    lefts : tuple of float
        Left end of each column, from the left edge of the figure.
    """

    heading: str
    lefts: tuple[float, ...]

    @property
    def left(self) -> float:
        """Where the first column begins."""
        return self.lefts[0]

    @property
    def right(self) -> float:
        """Where the last column ends."""
        return self.lefts[-1] + CELL


@dataclass(frozen=True, kw_only=True)
class StripLayout:
    """The places of a strip with k columns, from the left and from the top edge of the figure.

    Attributes
    ----------
    groups : tuple of Group
        The columns, from left to right.
    images_top, rows_top : float
        Upper ends of the images and of the first model's row.
    n_rows : int
        How many models there are.
    """

    groups: tuple[Group, ...]
    images_top: float
    rows_top: float
    n_rows: int

    @classmethod
    def of(cls, group_names: Sequence[str], models: Sequence[str], *, has_captions: bool) -> "StripLayout":
        """Measure the strip for these columns and models."""
        names_width = max(text_width(name, NAME_SIZE) for name in models)
        groups = _place_groups(group_names, start=2 * EDGE + names_width)
        heading_lines = max(group.heading.count("\n") + 1 for group in groups)
        images_top = EDGE + _LINE_HEIGHT * heading_lines + 0.14
        captions_height = _LINE_HEIGHT if has_captions else 0.0
        return cls(
            groups=groups,
            images_top=images_top,
            rows_top=images_top + CELL + captions_height + 0.04,
            n_rows=len(models),
        )

    @property
    def lefts(self) -> tuple[float, ...]:
        """Left ends of all k columns."""
        return tuple(left for group in self.groups for left in group.lefts)

    @property
    def width(self) -> float:
        """Width of the figure."""
        return self.groups[-1].right + EDGE

    @property
    def height(self) -> float:
        """Height of the figure."""
        return self.rows_top + self.n_rows * ROW_HEIGHT + EDGE

    def point(self, x: float, y: float) -> tuple[float, float]:
        """Convert inches from the top left into matplotlib's figure coordinates."""
        return x / self.width, 1 - y / self.height

    def box(self, left: float, top: float, height: float) -> tuple[float, float, float, float]:
        """Return the figure rectangle (left, bottom, width, height) of something one cell wide."""
        x, y = self.point(left, top + height)
        return x, y, CELL / self.width, height / self.height


def _place_groups(group_names: Sequence[str], start: float) -> tuple[Group, ...]:
    """Set columns side by side from ``start``, with a wider gap where the group changes."""
    groups: list[Group] = []
    left = start
    for name, members in groupby(group_names):
        lefts = tuple(left + i * (CELL + _COLUMN_GAP) for i, _ in enumerate(members))
        width = lefts[-1] + CELL - left
        groups.append(Group(heading=textwrap.fill(name, int(width / _LETTER_WIDTH)), lefts=lefts))
        left = groups[-1].right + _GROUP_GAP
    return tuple(groups)
