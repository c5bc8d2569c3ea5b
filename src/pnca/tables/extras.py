"""The optional packages that read files."""

from __future__ import annotations

import importlib
from typing import Any

from pnca.exceptions import MissingExtraError


def require(module: str) -> Any:  # noqa: ANN401
    """Import an optional module, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingExtraError(module.partition(".")[0], "files") from error
