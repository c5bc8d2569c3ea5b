"""Features of image files, cached by content: image bytes, network weights and preprocessing."""

from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pnca.exceptions import CorruptDataError, InvalidInputError
from pnca.vision.base import Backbone
from pnca.vision.cache import FeatureCache
from pnca.vision.images import Preprocessing, check_count, prepare_image, read_bytes


def image_features(
    paths: Sequence[str | Path],
    backbone: Backbone,
    *,
    preprocessing: Preprocessing | None = None,
    cache: bool = True,
    cache_dir: str | Path | None = None,
    batch_size: int = 16,
    progress: Callable[[int, int], None] | None = None,
) -> NDArray[np.float32]:
    """Compute the features of image files, or read them from the cache.

    Up to float32 rounding, features do not depend on an image's name, position or batch. Duplicates are
    computed once. An unreadable file is an error that names it; what was computed before is cached. What is
    damaged in the cache is computed again.

    Parameters
    ----------
    paths : sequence of n str or Path
        Image files in any format that :func:`read_image` reads.
    backbone : Backbone
        The frozen network, from :func:`load_backbone`.
    preprocessing : Preprocessing or None, default=None
        How an image is brought to the network's size; None is ``backbone.preprocessing``.
    cache : bool, default=True
        Whether features are stored and looked up.
    cache_dir : str, Path or None, default=None
        None is ``features`` in :func:`pnca.files.cache_folder`. Each image takes one small file; the folder
        can be deleted at any time.
    batch_size : int, default=16
        Images per forward pass; larger takes more memory.
    progress : callable or None, default=None
        ``progress(done, n)`` is called after each image is read.

    Returns
    -------
    ndarray of shape (n, n_features), float32

    Examples
    --------
    >>> image_features(sorted(Path("xrays").glob("*.png")), backbone).shape  # doctest: +SKIP
    (347, 2048)
    """
    if isinstance(paths, (str, Path)):
        raise InvalidInputError(f"paths must be a list of files; for one image pass [{str(paths)!r}].")
    check_count("batch_size", batch_size)
    files = [Path(path) for path in paths]
    preprocessing = backbone.preprocessing if preprocessing is None else preprocessing
    kept = FeatureCache(backbone, preprocessing, cache_dir) if cache else None

    features = np.empty((len(files), backbone.n_features), dtype=np.float32)
    first_row: dict[str, int] = {}  # digest to the first row that has it
    digests: list[str] = []
    waiting: list[tuple[int, NDArray[np.uint8]]] = []  # rows with their pixels, at most one batch

    def compute() -> None:
        names = [files[row] for row, _ in waiting]
        vectors = compute_features(np.stack([pixels for _, pixels in waiting]), backbone, names)
        for (row, _), vector in zip(waiting, vectors, strict=True):
            features[row] = vector
            if kept is not None:
                kept.store(digests[row], vector)
        waiting.clear()

    for row, path in enumerate(files):
        content = read_bytes(path)
        digest = sha256(content).hexdigest()
        digests.append(digest)
        if first_row.setdefault(digest, row) == row:
            found = None if kept is None else kept.load(digest)
            if found is None:
                waiting.append((row, prepare_image(content, preprocessing, path=path)))
            else:
                features[row] = found
        if len(waiting) == batch_size:
            compute()
        if progress is not None:
            progress(row + 1, len(files))
    if waiting:
        compute()
    return features[[first_row[digest] for digest in digests]]


def compute_features(
    pixels: NDArray[np.uint8], backbone: Backbone, names: Sequence[str | Path]
) -> NDArray[np.float32]:
    """Run the network on one batch; features of another shape, or not finite, are an error.

    Parameters
    ----------
    pixels : ndarray of shape (batch, size, size, 3), uint8
        Images as the network takes them.
    backbone : Backbone
        The network.
    names : sequence of batch str or Path
        Names of the images, for errors.

    Returns
    -------
    ndarray of shape (batch, n_features), float32
    """
    vectors = backbone(pixels)
    if np.shape(vectors) != (len(pixels), backbone.n_features):
        raise InvalidInputError(
            f"{backbone.name} must give features of shape {(len(pixels), backbone.n_features)}, "
            f"but they have shape {np.shape(vectors)}."
        )
    for name, vector in zip(names, vectors, strict=True):
        if not np.isfinite(vector).all():
            raise CorruptDataError(
                f"{backbone.name} gives features that are not numbers for {name}: "
                "its weights are damaged, or it expects pixels on another scale."
            )
    return vectors
