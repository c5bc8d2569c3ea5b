"""What must not matter does not."""

import pytest

from robustness import invariance


@pytest.mark.parametrize(
    ("name", "n"),
    [
        ("same_under_batches", 8),
        ("same_under_dtype", 8),
        ("same_under_threads", 8),
        ("same_under_row_order", 20),
        ("seeds", 5),
    ],
)
def test_model__is_the_same(name, n, tmp_path):
    for seed in range(n):
        (folder := tmp_path / str(seed)).mkdir()
        getattr(invariance, name)(seed, folder)
