"""Feature vectors on disk, each with a digest of its numbers and of what they are the features of."""

import warnings
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pnca.files import cache_folder, make_folder, open_to_read, write_atomically
from pnca.vision.base import Backbone
from pnca.vision.images import Preprocessing

_NUMBER = np.dtype("<f4")  # the same file on every machine
_DIGEST_BYTES = 32  # of SHA-256


class FeatureCache:
    """The features of one network with one preprocessing: one file for each image.

    A file is a SHA-256 digest and then the numbers, float32 with the lowest byte first. The digest is over
    the network, the preprocessing, the image and the numbers, so that a damaged file, or one of another
    image, is noticed: it counts as absent, and is replaced.
    """

    def __init__(
        self, backbone: Backbone, preprocessing: Preprocessing, cache_dir: str | Path | None
    ) -> None:
        self.n_features = backbone.n_features
        self.owner = sha256(f"{backbone.key}\n{preprocessing.key}".encode()).hexdigest()
        root = cache_folder() / "features" if cache_dir is None else Path(cache_dir)
        self.folder = make_folder(
            root / self.owner[:32], "pass another cache_dir for the features, or cache=False"
        )
        self.is_writable = True

    def load(self, image: str) -> NDArray[np.float32] | None:
        """Return the features (n_features,) of the image with this digest; None if absent or damaged."""
        n_bytes = _DIGEST_BYTES + self.n_features * _NUMBER.itemsize
        try:
            with open_to_read(self._entry(image)) as file:
                content = file.read(n_bytes + 1)  # one more, so that a longer file is noticed
        except (OSError, ValueError):
            return None
        digest, numbers = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if len(content) != n_bytes or digest != self._digest(image, numbers):
            return None
        vector = np.frombuffer(numbers, dtype=_NUMBER).astype(np.float32)
        return vector if np.isfinite(vector).all() else None

    def store(self, image: str, vector: NDArray[np.float32]) -> None:
        """Keep the features (n_features,) of an image; where that fails, warn once and keep no more."""
        if not self.is_writable:
            return
        path, numbers = self._entry(image), vector.astype(_NUMBER).tobytes()
        content = self._digest(image, numbers) + numbers

        def write(temporary: Path) -> None:
            temporary.write_bytes(content)

        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, write)
        except OSError as error:
            self.is_writable = False
            warnings.warn(
                f"The features cannot be kept in {path} ({error.strerror}) and will be computed again next "
                "time: make room, or pass another cache_dir or cache=False.",
                stacklevel=4,  # the caller of image_features
            )

    def _entry(self, image: str) -> Path:
        # Two levels, as a folder of many thousand files is slow on some file systems.
        return self.folder / image[:2] / f"{image}.features"

    def _digest(self, image: str, numbers: bytes) -> bytes:
        return sha256(f"{self.owner} {image}\n".encode() + numbers).digest()
