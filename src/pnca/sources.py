"""What a model remembers of the files that it was fitted on, so that others can be read alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class TableSource:
    """A table: which column was what, and how its values were read."""

    target: str
    sorts: Mapping[str, str]  # of each input column, in their order; see pnca.tables.values
    id: str | None = None  # the column that names examples
    group: str | None = None  # the column that says which belong together
    holes: tuple[str, ...] = field(default=())  # further texts that stand for a missing value


@dataclass(frozen=True, kw_only=True)
class ImageSource:
    """Images: how a file becomes an input, and which columns of a table named files and classes.

    No path is kept, and nothing that a file says of a person.
    """

    shape: tuple[int, ...]  # of an input: (h, w) and (h, w, 3) are pixels, (q,) features
    is_resized: bool = False  # pixels: whether images are brought to the size, or must have it
    mode: str = "crop"  # features: the preprocessing, see pnca.vision.Preprocessing
    size: int = 0
    resize: int = 0
    is_equalised: bool = False
    interpolation: str = "bilinear"
    backbone: str = ""  # name, for people
    key: str = ""  # fingerprint of the network and its weights
    scale: str = ""  # pixels of an ONNX network
    target: str = ""  # columns, where a table named the files
    path: str = ""
    group: str = ""

    @property
    def has_features(self) -> bool:
        """Whether inputs are features by a backbone."""
        return bool(self.key)
