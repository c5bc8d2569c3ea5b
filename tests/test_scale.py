"""The example of docs/scale.md runs as printed, and shared scoring is that of one process."""

import re
from pathlib import Path

import numpy as np
import pytest

from models import make

ROOT = Path(__file__).parents[1]


def examples(language):
    text = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


def test_scale__scoring_by_blocks_is_scoring_at_once(blobs):
    pytest.importorskip("dask.array")
    (code,) = (code for code in examples("python") if "map_blocks" in code)
    X, y = blobs
    names = {"model": make("PNCA", n_folds=3).fit(X, y), "X_new": np.tile(X, (5, 1)), "block": 70}
    exec(code, names)  # the reader would paste it
    expected = names["model"].predict_proba(names["X_new"])
    np.testing.assert_allclose(names["probabilities"], expected, atol=1e-9)
