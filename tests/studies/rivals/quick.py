"""Baselines made quick enough for tests."""

from importlib.util import find_spec

import pytest

from pnca_studies.rivals import RIVALS, build_rival

# Not importorskip: the import itself warns, and warnings are errors here.
needs_laplace = pytest.mark.skipif(find_spec("laplace") is None, reason="laplace-torch is not installed")


def quick_rival(name, *, random_state=0, augment=None, **settings):
    """A baseline with its own settings but for those that take time."""
    model = build_rival(name, random_state=random_state, augment=augment)
    cheap = {
        "n_estimators": 50,
        "forest__n_estimators": 20,
        "max_epochs": 30,
        "learning_rate": 3e-3,
        "n_features": 128,
    }
    cheap = {key: value for key, value in cheap.items() if key in model.get_params()}
    return model.set_params(**{**cheap, **settings})


def parameters(*names):
    """Parameters of a test: the baselines named, or all."""
    return [pytest.param(n, marks=needs_laplace if n == "Laplace" else ()) for n in names or RIVALS]
