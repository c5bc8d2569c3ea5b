"""Fit a model on images, and predict others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pnca.exceptions import CorruptDataError, InvalidInputError
from pnca.sources import ImageSource
from pnca.tables import Roles, TableFile, read_labels
from pnca.tables.extras import require
from pnca.tables.writing import write_table
from pnca.vision import Preprocessing, image_features, load_backbone, read_pixels
from pnca.vision.folders import ImageFiles, classes_of, image_files, listed_files
from pnca.workflows.answers import Answers, Settings
from pnca.workflows.predicting import PredictedFile

if TYPE_CHECKING:
    from pnca.estimators import PNCAClassifier
    from pnca.vision import Backbone

#: Numbers of an image that a model of a few hundred examples can be fitted on directly: 64 by 64 grey pixels.
MOST_NUMBERS = 64 * 64
#: Images that are predicted and written at once.
_AT_ONCE = 256
BROKEN = "cannot be read"


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelledImages:
    """Image files with what is known of them."""

    files: ImageFiles
    y: NDArray[Any]  # (n,)
    groups: NDArray[Any] | None = None  # (n,)
    target: str = ""  # columns, where a table named the files
    path: str = ""
    group: str = ""
    notes: tuple[str, ...] = ()

    def of(self, rows: Sequence[int]) -> LabelledImages:
        """Some of them."""
        files = replace(self.files, paths=tuple(self.files.paths[row] for row in rows))
        groups = None if self.groups is None else self.groups[list(rows)]
        return replace(self, files=files, y=self.y[list(rows)], groups=groups)


def images_of_folder(folder: str | Path) -> LabelledImages:
    """Images of a folder that has a folder for each class.

    Parameters
    ----------
    folder : str or Path
        The folder.

    Returns
    -------
    LabelledImages
    """
    files = image_files(folder)
    return LabelledImages(files=files, y=np.array(classes_of(files)), notes=files.notes)


def images_of_table(
    table: TableFile, roles: Roles, folder: str | Path, *, skip_missing: bool = False
) -> LabelledImages:
    """Images that a table names, by its column ``roles.path``.

    Parameters
    ----------
    table : TableFile
        From :func:`pnca.tables.open_table`.
    roles : Roles
        Which columns are the class, the path and the group.
    folder : str or Path
        To which paths are relative.
    skip_missing : bool
        Whether rows without a class are left out.

    Returns
    -------
    LabelledImages
    """
    labels = read_labels(table, roles, skip_missing=skip_missing)
    assert labels.ids is not None
    return LabelledImages(
        files=listed_files(folder, labels.ids),
        y=labels.y,
        groups=labels.groups,
        target=roles.target,
        path=roles.path or "",
        group=roles.group or "",
        notes=labels.notes,
    )


def without_broken(images: LabelledImages) -> LabelledImages:
    """Leave out the images that cannot be read, and name each.

    Parameters
    ----------
    images : LabelledImages
        Files and classes.

    Returns
    -------
    LabelledImages
    """
    broken = broken_images(images.files.paths)
    kept = [place for place in range(len(images.files.paths)) if place not in broken]
    if not kept:
        raise InvalidInputError(f"None of the {len(broken)} images of {images.files.folder} can be read.")
    notes = (*images.notes, *(f"left out: {reason}" for reason in broken.values()))
    return replace(images.of(kept), notes=notes)


def fit_images(
    images: LabelledImages,
    backbone: Backbone | None = None,
    *,
    size: int | None = None,
    scale: str = "",
    seed: int = 0,
    verbose: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> PNCAClassifier:
    """Fit the default model on images: on features by a backbone, or on the pixels of small ones.

    Parameters
    ----------
    images : LabelledImages
        Files and classes.
    backbone : Backbone, optional
        From :func:`pnca.vision.load_backbone`.
    size : int, optional
        Side to which images are brought whose pixels are inputs.
    scale : str
        That of an ONNX backbone, which another one of its kind gets too.
    seed : int
        Of the fit.
    verbose : bool
        Whether progress of the fit is shown.
    progress : callable, optional
        ``progress(done, n)`` is called after each image.

    Returns
    -------
    PNCAClassifier
        Fitted, with ``source_``.
    """
    from pnca.estimators import PNCAClassifier

    if backbone is not None and size is not None:
        raise InvalidInputError("A backbone has a size of its own: leave out --size.")
    source = _pixel_source(images.files, size) if backbone is None else _feature_source(backbone, scale)
    X = image_inputs(images.files.paths, source, backbone, progress)
    model = PNCAClassifier(random_state=seed, verbose=verbose)
    model.fit(X, images.y, groups=images.groups, ids=np.array(images.files.names, dtype=object))
    model.source_ = replace(source, target=images.target, path=images.path, group=images.group)
    model.set_params(verbose=False)
    return model


def predict_images(
    model: Any,  # noqa: ANN401
    files: ImageFiles,
    path: str | Path,
    backbone: Backbone | None = None,
    settings: Settings | None = None,
    *,
    skip_broken: bool = False,
    overwrite: bool = False,
    advance: Callable[[int], None] | None = None,
) -> PredictedFile:
    """Predict image files, some at a time, and write what is said of each; see ``predict_table``.

    With ``skip_broken`` an image that cannot be read gets a row that says so; it is an error otherwise.
    """
    source = image_source_of(model)
    answers, notes = Answers(model, settings), list(files.notes)
    counts: dict[str, int] = {}
    with write_table(path, overwrite=overwrite) as writer:
        for start in range(0, len(files.paths), _AT_ONCE):
            part = replace(files, paths=files.paths[start : start + _AT_ONCE])
            is_broken = np.zeros(len(part.paths), dtype=bool)
            if skip_broken:
                broken = broken_images(part.paths)
                notes += [f"not read: {reason}" for reason in broken.values()]
                is_broken[list(broken)] = True
            counts[BROKEN] = counts.get(BROKEN, 0) + int(is_broken.sum())
            whole = [p for p, lost in zip(part.paths, is_broken, strict=True) if not lost]
            if whole:
                said = answers.frame(image_inputs(whole, source, backbone))
                writer.write(_with_broken(said, part.names, is_broken))
            elif answers.n == 0:
                n = len(part.paths)
                raise InvalidInputError(f"None of the first {n} images of {files.folder} can be read.")
            if advance is not None:
                advance(len(part.paths))
    counts = {**answers.counts, **({BROKEN: counts[BROKEN]} if counts[BROKEN] else {})}
    n = len(files.paths)
    return PredictedFile(path=Path(path), n=n, counts=counts, drift=answers.drift(), notes=tuple(notes))


def image_source_of(model: Any) -> ImageSource:  # noqa: ANN401
    """How image files become inputs of this model."""
    source = getattr(model, "source_", None)
    if not isinstance(source, ImageSource):
        raise InvalidInputError("This model was not fitted on image files by pnca fit: give it a table.")
    return source


def backbone_of(source: ImageSource, spec: str | Path | None, place: Path, **options: Any) -> Backbone | None:  # noqa: ANN401
    """The backbone of a model: what was named, or by its name here or beside the model; another is refused.

    Parameters
    ----------
    source : ImageSource
        Of the model.
    spec : str, Path or None
        What the user named.
    place : Path
        The folder of the model file.
    **options
        ``weights`` and ``download`` of :func:`pnca.vision.load_backbone`.
    """
    if not source.has_features:
        if spec is not None:
            raise InvalidInputError("This model was fitted on pixels: it takes no backbone.")
        return None
    if spec is None and source.backbone.startswith("timm:"):
        spec = source.backbone
    if spec is None:
        beside = [folder / source.backbone for folder in (Path(), place)]
        spec = next((path for path in beside if path.is_file()), None)
    if spec is None:
        raise InvalidInputError(
            f"The model was fitted on features by {source.backbone}, which is neither here nor beside the "
            "model: name it with --backbone."
        )
    scale: Any = source.scale or None
    found = load_backbone(spec, scale=scale, **options)
    if found.key != source.key:
        raise InvalidInputError(
            f"{spec} is another network than {source.backbone}, by whose features the model was fitted, "
            "or has other weights: its features would mean something else. Name that one with --backbone."
        )
    return found


def image_inputs(
    paths: Sequence[Path],
    source: ImageSource,
    backbone: Backbone | None,
    progress: Callable[[int, int], None] | None = None,
) -> NDArray[Any]:
    """Inputs (n, ...) of image files as a model takes them."""
    if source.has_features:
        assert backbone is not None
        return image_features(paths, backbone, preprocessing=preprocessing_of(source), progress=progress)
    pixels = []
    for done, path in enumerate(paths, start=1):
        pixels.append(_pixels(path, source))
        if progress is not None:
            progress(done, len(paths))
    return np.stack(pixels)


def preprocessing_of(source: ImageSource) -> Preprocessing:
    """How an image becomes what the backbone takes."""
    mode: Any = source.mode
    interpolation: Any = source.interpolation
    return Preprocessing(
        size=source.size,
        mode=mode,
        resize=source.resize,
        equalise=source.is_equalised,
        interpolation=interpolation,
    )


def broken_images(paths: Sequence[Path]) -> dict[int, str]:
    """Which files cannot be read, by their place, and why."""
    found = {}
    for place, path in enumerate(paths):
        try:
            read_pixels(path)
        except (CorruptDataError, InvalidInputError) as error:
            found[place] = str(error).rstrip(".")
    return found


def _pixels(path: Path, source: ImageSource) -> NDArray[np.uint8]:
    shape = source.shape
    return as_inputs(read_pixels(path, (shape[0], shape[1]) if source.is_resized else None), source, path)


def as_inputs(found: NDArray[np.uint8], source: ImageSource, path: str | Path) -> NDArray[np.uint8]:
    """Pixels (h, w) or (h, w, 3) in the shape that a model takes, or an error that names the image."""
    shape = source.shape
    if found.shape[:2] != shape[:2]:
        raise InvalidInputError(
            f"The image {path} has {found.shape[0]} by {found.shape[1]} pixels, and others have "
            f"{shape[0]} by {shape[1]}: bring all to one size, or let it be done with --size."
        )
    is_grey = len(shape) == 2
    if is_grey and found.ndim == 3:
        if not (found == found[:, :, :1]).all():
            raise InvalidInputError(f"The image {path} has colours, and those of the model are grey.")
        return np.ascontiguousarray(found[:, :, 0])
    return found if is_grey or found.ndim == 3 else np.repeat(found[:, :, None], 3, axis=2)


def _pixel_source(files: ImageFiles, size: int | None) -> ImageSource:
    """Whether the pixels can be inputs, and of which shape these are."""
    first = read_pixels(files.paths[0], None if size is None else (size, size))
    is_grey = all(_is_grey(path) for path in files.paths)
    shape = first.shape[:2] if is_grey else (*first.shape[:2], 3)
    if (n := int(np.prod(shape))) > MOST_NUMBERS:
        side = int((MOST_NUMBERS / (1 if is_grey else 3)) ** 0.5)
        raise InvalidInputError(
            f"The image {files.paths[0]} has {first.shape[0]} by {first.shape[1]} pixels, {n:,} numbers: "
            f"too many to learn from {len(files.paths)} examples (at most {MOST_NUMBERS:,}). Name a "
            "pretrained network whose features are learnt from, --backbone FEATURES.onnx or --backbone "
            f"timm:resnet50, or shrink the images: --size {min(32, side)}."
        )
    return ImageSource(shape=tuple(map(int, shape)), is_resized=size is not None)


def _is_grey(path: Path) -> bool:
    found = read_pixels(path)
    return found.ndim == 2 or bool((found == found[:, :, :1]).all())


def _feature_source(backbone: Backbone, scale: str) -> ImageSource:
    wanted = backbone.preprocessing
    return ImageSource(
        shape=(backbone.n_features,),
        mode=wanted.mode,
        size=wanted.size,
        resize=wanted.resized,
        is_equalised=wanted.equalise,
        interpolation=wanted.interpolation,
        backbone=backbone.name,
        key=backbone.key,
        scale=scale,
    )


def _with_broken(said: Any, names: list[str], is_broken: NDArray[np.bool_]) -> Any:  # noqa: ANN401
    """Rows of all images: those that could not be read have a reason and nothing else."""
    places = np.flatnonzero(~is_broken)
    whole = said.set_index(places).reindex(range(len(names)))
    whole.insert(0, "image", require("pandas").Series(names, dtype="str"))
    whole.loc[is_broken, "reason"] = BROKEN
    return whole
