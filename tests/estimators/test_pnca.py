"""What surrounds a fit of PNCA: the paper's settings, interrupts, copies."""

import copy
import warnings

import numpy as np
import pytest
from sklearn.base import clone

from models import make, options_of
from pnca import PNCAClassifier, paper_settings
from pnca.models.neighbours import NeighbourObjective

OUT_OF_FOLD = ["oof_proba_", "oof_evidence_", "oof_loss_", "folds_"]


def test_paper_settings__choose_nothing_and_add_nothing(noisy):
    model = PNCAClassifier(**{**paper_settings("PNCA"), "max_epochs": 2, "random_state": 0}).fit(*noisy)
    assert (model.bandwidth_, model.background_, model.input_weight_, model.best_epoch_) == (4.0, 0.0, 0.0, 2)
    assert not any(hasattr(model, name) for name in [*OUT_OF_FOLD, "input_centre_", "support_inputs_"])
    options = options_of(model)
    assert (options.dropout_rate((3,)), options.strengths((3,))) == (0.0, (0.0,))
    assert options.n_per_batch(1000, 2) is None


@pytest.mark.parametrize("n_done", [0, 1, 2, 25])  # the first look is after two epochs of sixty
def test_interrupt__leaves_a_usable_model(n_done, noisy, monkeypatch):
    X, y = noisy
    original, calls = NeighbourObjective.evaluate, []

    def interrupted(self, *args):
        calls.append(1)
        if len(calls) > n_done:
            raise KeyboardInterrupt
        return original(self, *args)

    monkeypatch.setattr(NeighbourObjective, "evaluate", interrupted)
    model = make("PNCA", max_epochs=60)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        model.fit(X, y)
    assert f"after {n_done} of 60 epochs is kept" in str(warned[0].message)
    assert model.was_interrupted_
    assert model.n_iter_ == n_done
    assert model.best_epoch_ <= n_done
    assert all(hasattr(model, name) for name in OUT_OF_FOLD) == (n_done > 0)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    assert np.isfinite(model.evidence(X)).all()


def test_fit__that_was_not_interrupted_says_so(noisy):
    assert not make("PNCA", max_epochs=2).fit(*noisy).was_interrupted_


def test_copy__predicts_the_same_and_a_clone_can_be_fitted_again(noisy):
    X, y = noisy
    model = make("PNCA", max_epochs=5).fit(X, y)
    expected = model.predict_proba(X)
    assert np.array_equal(copy.deepcopy(model).predict_proba(X), expected)
    again = clone(model)
    assert not hasattr(again, "n_iter_")
    assert again.get_params() == model.get_params()
    assert np.array_equal(again.fit(X, y).predict_proba(X), expected)
    assert clone(PNCAClassifier()).get_params() == PNCAClassifier().get_params()
