"""Images that a user names, and the backbones for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pnca.exceptions import InvalidInputError
from pnca.interfaces.options import ScaleName

if TYPE_CHECKING:
    from pnca.tables import TableFile
    from pnca.vision import Backbone
    from pnca.vision.folders import ImageFiles


def is_images(data: Path) -> bool:
    """Whether this is a folder, or a single image."""
    from pnca.vision.folders import SUFFIXES

    return data.is_dir() or data.suffix.lower() in SUFFIXES


def network_of(
    model: Any,  # noqa: ANN401
    path: Path,
    backbone: str | None,
    weights: Path | None,
    *,
    download: bool,
) -> Backbone | None:
    """The backbone of a model of features."""
    from pnca.workflows.images import backbone_of, image_source_of

    options = {"weights": weights, "download": download} if weights or download else {}
    return backbone_of(image_source_of(model), backbone, path.parent, **options)


def load_network(
    spec: str | None, weights: Path | None, scale: ScaleName | None, *, download: bool
) -> Backbone | None:
    """Load the backbone that a user names, if one is named."""
    if spec is None:
        if weights is not None or scale is not None or download:
            raise InvalidInputError("--weights, --scale and --download are for a --backbone: name one.")
        return None
    from pnca.vision import load_backbone

    pixels: Any = None if scale is None else scale.value
    return load_backbone(spec, weights=weights, download=download, scale=pixels)


def images_named(
    model: Any,  # noqa: ANN401
    data: Path,
    table: TableFile | None,
    path_column: str | None,
    folder: Path | None,
) -> ImageFiles:
    """The images of a folder, or those that a table names."""
    from pnca.tables.files import read_table
    from pnca.tables.names import column_of
    from pnca.vision.folders import image_files, listed_files
    from pnca.workflows.images import image_source_of

    image_source_of(model)
    if table is None:
        return image_files(data)
    name = column_of(path_column or "", table.names, table.path, "--path-column")
    return listed_files(folder or data.parent, read_table(data, texts=[name])[name])
