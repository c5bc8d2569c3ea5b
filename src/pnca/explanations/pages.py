"""A page of HTML that needs no other file: cases with their figures, tables and pictures."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pnca import __version__
from pnca.exceptions import MissingExtraError
from pnca.explanations.drawing import as_png, as_shown, as_svg, require_matplotlib
from pnca.explanations.figures import MAPS, draw_classes, draw_familiarity, limits_of
from pnca.explanations.text import (
    MOST_COLUMNS,
    columns_table,
    decimal,
    examples_table,
    heading,
    name_of,
    parts_table,
    sentences,
    short,
)

if TYPE_CHECKING:
    from jinja2 import Environment

    from pnca.explanations.case import Explanation, Explanations

TEMPLATES = Path(__file__).parent / "templates"
#: Inches of a figure: on a telephone its letters can still be read.
_WIDTH = 4.4
#: Columns in the table of the most unusual ones.
_MOST_COLUMNS = 2 * MOST_COLUMNS


def page_of(cases: Explanations) -> str:
    """The page of these cases."""
    title = f"{len(cases)} explained cases"
    if len(cases) == 1:
        title = heading(cases[0])
    return rendered("cases.html", title=title, cases=[parts_of(case) for case in cases], version=__version__)


def check_extra() -> None:
    """Raise an error that names the extra if a page cannot be drawn, before anything is computed for it."""
    require_matplotlib()
    _environment()


def rendered(template: str, *folders: Path, **values: Any) -> str:  # noqa: ANN401
    """A template with these values, of which everything is escaped that is not marked as HTML.

    Templates are looked for in ``folders``, and then here.
    """
    return _environment(*folders).get_template(template).render(**values)


def parts_of(case: Explanation) -> dict[str, Any]:
    """What the template ``case.html`` shows of a case."""
    from markupsafe import Markup

    anchor, height = f"case-{case.row}", 1.1 + 0.3 * min(len(case.classes), 12)
    classes = as_svg(draw_classes, case, (_WIDTH, height), mark=f"{anchor}-classes")
    figures = {"classes": Markup(classes)}
    if case.usual is not None:
        familiarity = as_svg(draw_familiarity, case, (_WIDTH, 1.9), mark=f"{anchor}-familiarity")
        figures["familiarity"] = Markup(familiarity)
    return {
        "anchor": anchor,
        "heading": heading(case),
        "sentences": sentences(case),
        "figures": figures,
        "parts": parts_table(case),
        "examples": examples_table(case),
        "columns": columns_table(case, _MOST_COLUMNS) if case.columns else None,
        "n_columns": len(case.names),
        "pictures": list(_pictures(case)) if case.is_picture else [],
        "has_photos": False,
        "maps": [_map(name, found) for name, found in case.maps.items()],
        "notes": case.notes,
    }


def data_uri(png: bytes) -> str:
    """A picture as the address of itself."""
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def _pictures(case: Explanation) -> Iterable[dict[str, str]]:
    limits = limits_of(case)
    yield {"source": data_uri(as_png(as_shown(case.given, limits))), "caption": "this case"}
    for example in case.examples:
        if example.given is not None:
            caption = f"{name_of(example)}: {short(example.label)}, share {decimal(example.share)}"
            yield {"source": data_uri(as_png(as_shown(example.given, limits))), "caption": caption}


def _map(name: str, found: Any) -> dict[str, str]:  # noqa: ANN401
    """A map as a picture, and where and how far it is highest, in words."""
    row, column = np.unravel_index(int(np.argmax(found)), found.shape)
    picture = as_png(as_shown(found, (0.0, float(found.max()))), cmap="magma")
    caption = f"{MAPS[name]}: at most {found.max():.1f} sd, at pixel ({row}, {column}), counted from zero"
    return {"source": data_uri(picture), "caption": caption}


def _environment(*folders: Path) -> Environment:
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError as error:
        raise MissingExtraError("jinja2", "report") from error
    loader = FileSystemLoader([*folders, TEMPLATES])
    return Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
