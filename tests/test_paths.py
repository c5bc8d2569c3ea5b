"""How many files one datum passes: a fit, and a prediction, stay easy to follow."""

import sys
from pathlib import Path

import numpy as np
import pytest

import pnca

SOURCE = Path(pnca.__file__).parent


def files_passed(work):
    """Files of the library in which a function runs while the work is done, in order."""
    found = {}

    def profile(frame, event, argument):
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(str(SOURCE)) and frame.f_code.co_name != "<module>":
            found.setdefault(str(Path(path).relative_to(SOURCE)))

    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
    return list(found)


@pytest.fixture(scope="module", params=[(), "auto"], ids=["neighbours", "pool"])
def trained(request):
    rng = np.random.RandomState(0)
    y = np.arange(40) % 2
    X = rng.normal(size=(40, 4)) + 2 * y[:, None]
    settings = {"max_epochs": 3, "n_particles": 2, "random_state": 0, "device": "cpu"}
    model = pnca.PNCAClassifier(experts=request.param, **settings)
    return model.fit(X, y), X, y


def test_fit__passes_few_files(trained):
    model, X, y = trained
    files = files_passed(lambda: model.fit(X, y))
    assert len(files) <= (28 if model.experts == "auto" else 21), files


def test_predict_proba__passes_few_files(trained):
    model, X, _ = trained
    files = files_passed(lambda: model.predict_proba(X))
    assert len(files) <= (15 if model.experts == "auto" else 12), files
