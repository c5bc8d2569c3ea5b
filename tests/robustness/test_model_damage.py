"""A model file that is damaged or forged is refused by name, or answers; the full trial has 10,000 cases."""

import numpy as np
import pytest

from robustness.model_files import FILE, NAMES, damaged_model, opened, written
from robustness.mutators import flips, truncations, zeroed_tails


@pytest.mark.parametrize("name", NAMES)
def test_model__of_which_a_bit_flips_or_an_end_is_lost_is_refused(name, tmp_path):
    content, path = written(name), tmp_path / FILE
    damages = [*flips(content, np.random.RandomState(0), 10), *truncations(content), *zeroed_tails(content)]
    for what, damaged in damages:
        path.write_bytes(damaged)
        assert opened(path, name) is None or damaged == content, what


@pytest.mark.parametrize("first", range(0, 500, 50))
def test_model__with_random_damage_is_refused_or_answers(first, tmp_path):
    for seed in range(first, first + 50):
        damaged_model(seed, tmp_path)
