"""What decisions promise, of fitted models on new examples: a few draws here, fifty with ``-m slow``."""

import numpy as np
import pytest
from scipy.stats import binom

import decisions

DATA = ["gaussians", "noisy labels", "iris", "wine", "breast cancer", "digits", "patients (50 groups of 4)"]


def check(draws):
    """Compare draws of any data sets with the promises, each with a margin for their number."""
    n = len(draws)
    for level in (0.05, 0.1, 0.2):
        shares = np.array([draw[f"below {level}"] for draw in draws])
        # Between draws such a share varies by about twice what one sample of 75 examples would.
        assert shares.mean() <= level + 3 * 2 * np.sqrt(level * (1 - level) / 75 / n)
    covered = np.array([draw["covered"] for draw in draws])
    assert covered.mean() >= decisions.COVERAGE - 3 * 2 * np.sqrt(0.09 / 75 / n)
    for allowed in decisions.MAX_ERRORS:
        n_broken = sum(draw[f"wrong {allowed}"] > allowed * draw[f"answered {allowed}"] for draw in draws)
        assert n_broken <= binom.ppf(0.999, n, 1 - decisions.CONFIDENCE), allowed


def small(monkeypatch, max_epochs):
    monkeypatch.setitem(decisions.SETTINGS, "max_epochs", max_epochs)


def test_promises__hold_in_a_few_draws(monkeypatch):
    small(monkeypatch, 8)
    check([decisions.measure(name, seed) for name in DATA for seed in range(2)])


@pytest.mark.slow
@pytest.mark.parametrize("name", list(decisions.sources()))
def test_promises__hold_in_fifty_draws(monkeypatch, name):
    small(monkeypatch, 20)
    check([decisions.measure(name, seed) for seed in range(50)])
