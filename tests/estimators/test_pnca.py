"""What surrounds a fit of PNCA: the paper's settings, interrupts, copies."""

import copy

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

from models import make, options_of
from pnca import PNCAClassifier, paper_settings
from pnca.models import neighbours, selection
from pnca.models.neighbours import NeighbourObjective

OUT_OF_FOLD = ["oof_proba_", "oof_evidence_", "oof_loss_", "folds_"]


def test_paper_settings__choose_nothing_and_add_nothing(noisy):
    model = PNCAClassifier(**{**paper_settings("PNCA"), "max_epochs": 2, "random_state": 0}).fit(*noisy)
    assert (model.bandwidth_, model.background_, model.input_weight_, model.best_epoch_) == (4.0, 0.0, 0.0, 2)
    assert not any(hasattr(model, name) for name in [*OUT_OF_FOLD, "input_centre_", "support_inputs_"])
    options = options_of(model)
    assert (options.dropout_rate((3,)), options.strengths((3,))) == (0.0, (0.0,))
    assert options.n_per_batch(1000, 2) is None


def interrupted_after(monkeypatch, owner, name, n_done):
    """Let a function of a class or module raise Ctrl-C from this call on."""
    original, calls = getattr(owner, name), []

    def interrupted(*args, **settings):
        calls.append(1)
        if len(calls) > n_done:
            raise KeyboardInterrupt
        return original(*args, **settings)

    monkeypatch.setattr(owner, name, interrupted)


def assert_usable_without_a_choice(model, X, n_done):
    assert (model.was_interrupted_, model.n_iter_, model.best_epoch_) == (True, n_done, n_done)
    assert (model.bandwidth_, model.background_) == (model.bandwidth, 0.03)  # those of the training
    assert not any(hasattr(model, name) for name in OUT_OF_FOLD)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    assert np.isfinite(model.evidence(X)).all()


@pytest.mark.parametrize("n_done", [1, 2, 25])  # the first snapshot is after two epochs of sixty
def test_interrupt__in_training_leaves_what_was_learnt(n_done, noisy, monkeypatch):
    interrupted_after(monkeypatch, NeighbourObjective, "evaluate", n_done)
    model = make("PNCA", max_epochs=60)
    with pytest.raises(KeyboardInterrupt, match=f"after {n_done} of 60 epochs is kept"):
        model.fit(*noisy)
    assert_usable_without_a_choice(model, noisy[0], n_done)
    assert np.isfinite(model.novelty_depth_)


def test_interrupt__before_the_end_of_the_first_epoch_leaves_an_unfitted_model(noisy, monkeypatch):
    model = make("PNCA", max_epochs=2).fit(*noisy)
    interrupted_after(monkeypatch, NeighbourObjective, "evaluate", 0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*noisy)
    assert not hasattr(model, "classes_")
    with pytest.raises(NotFittedError):
        model.predict(noisy[0])


@pytest.mark.parametrize("n_done", [0, 1, 20])
def test_interrupt__while_choosing_leaves_the_trained_particles(n_done, noisy, monkeypatch):
    interrupted_after(monkeypatch, selection, "_log_masses", n_done)
    model = make("PNCA", max_epochs=5, n_folds=2)
    with pytest.raises(KeyboardInterrupt, match="after 5 of 5 epochs is kept, with nothing chosen"):
        model.fit(*noisy)
    assert_usable_without_a_choice(model, noisy[0], 5)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_interrupt__whose_ending_fails_leaves_an_unfitted_model(error, noisy, monkeypatch):
    def failing(*_):
        raise error

    interrupted_after(monkeypatch, selection, "_log_masses", 0)
    monkeypatch.setattr(neighbours, "run_network", failing)
    model = make("PNCA", max_epochs=5, n_folds=2)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*noisy)
    assert not [name for name in vars(model) if name.endswith("_") and name != "n_features_in_"]


def test_interrupt__ends_a_search(noisy, monkeypatch):
    interrupted_after(monkeypatch, NeighbourObjective, "evaluate", 3)
    search = GridSearchCV(make("NCA", max_epochs=6), {"learning_rate": [0.01, 0.1]}, cv=2)
    with pytest.raises(KeyboardInterrupt):
        search.fit(*noisy)
    assert not hasattr(search, "cv_results_")


def test_fit__leaves_gradients_as_they_were(noisy):
    with torch.no_grad():
        model = make("NCA", max_epochs=2).fit(*noisy)
        assert not torch.is_grad_enabled()
    assert np.array_equal(model.particles_, make("NCA", max_epochs=2).fit(*noisy).particles_)


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
