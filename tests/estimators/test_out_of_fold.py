"""Folds choose what is not given, and predict the training examples."""

import math

import numpy as np
import pytest
import torch

import reference
from models import make, watched_fit
from pnca.maths.inputs import held_out_log_residuals
from pnca.models import selection

OUT_OF_FOLD = ["oof_proba_", "oof_evidence_", "oof_loss_", "folds_"]


def test_oof__every_example_has_a_fold_and_probabilities(noisy):
    X, y = noisy
    model = make("PNCA").fit(X, y)
    assert model.oof_proba_.shape == (40, 2)
    assert model.oof_evidence_.shape == model.folds_.shape == (40,)
    assert np.bincount(model.folds_).tolist() == [8] * 5
    np.testing.assert_allclose(model.oof_proba_.sum(axis=1), 1, rtol=0, atol=1e-12)
    correct = model.oof_proba_[np.arange(40), y]
    assert model.oof_loss_ == pytest.approx(-np.log(correct).mean())


@pytest.mark.parametrize("n_folds", [2, 3, 7])
def test_oof__n_folds_is_the_number_of_folds(n_folds, noisy):
    assert set(make("PNCA", n_folds=n_folds, max_epochs=2).fit(*noisy).folds_) == set(range(n_folds))


def test_oof__without_folds_nothing_is_chosen_and_nothing_left_of_an_earlier_fit(noisy):
    model = make("PNCA", max_epochs=3).fit(*noisy)
    assert all(hasattr(model, name) for name in OUT_OF_FOLD)
    model.set_params(n_folds=None).fit(*noisy)
    assert not any(hasattr(model, name) for name in OUT_OF_FOLD)
    assert (model.bandwidth_, model.background_, model.best_epoch_) == (3.0, 0.03, 3)
    assert model.predict_proba(noisy[0]).shape == (40, 2)


def test_oof__what_is_chosen_lies_among_the_candidates(noisy):
    model = make("PNCA", novelty=False).fit(*noisy)
    typical = math.exp(np.median(model.oof_evidence_))
    assert 3 / 4 < model.bandwidth_ < 3 * 32
    assert math.exp(-5) / 16 < model.background_ / typical < math.exp(-5) * 16
    assert model.best_epoch_ in (1, 3, 10, 30)


def test_oof__a_single_candidate_is_the_one_that_is_taken(noisy, monkeypatch):
    monkeypatch.setattr(selection, "_BANDWIDTHS", (2.0,))
    monkeypatch.setattr(selection, "_BACKGROUNDS", (0.5,))
    model = make("PNCA", novelty=False).fit(*noisy)
    assert model.bandwidth_ == pytest.approx(6.0)
    typical = math.exp(np.median(model.oof_evidence_))
    assert model.background_ == pytest.approx(0.5 * math.exp(-5) * typical)


@pytest.mark.parametrize("background", [0.0, 0.1, 2.0])
@pytest.mark.parametrize("n_folds", [None, 3])
def test_oof__background_that_is_given_is_kept(background, n_folds, noisy):
    model = make("PNCA", background=background, n_folds=n_folds, max_epochs=5).fit(*noisy)
    assert model.background_ == background


def test_oof__particles_are_those_of_the_epoch_that_was_chosen(noisy):
    model = make("PNCA")
    by_epoch = {snapshot.epoch: snapshot for snapshot in watched_fit(model, *noisy)[0]}
    chosen = by_epoch[model.best_epoch_]
    assert np.array_equal(model.particles_, chosen.particles.numpy())
    np.testing.assert_allclose(model.support_embeddings_, chosen.embeddings[:3].numpy(), atol=1e-5)


@pytest.mark.parametrize("expectation", ["shared", "cross"])
@pytest.mark.parametrize(("weight", "factor"), [(None, 0.5), ({0: 1.0, 1: 3.0}, 2.0)])
def test_oof__equals_the_equation_on_the_embeddings(expectation, weight, factor, noisy, monkeypatch):
    X, y = noisy
    monkeypatch.setattr(selection, "_BANDWIDTHS", (factor,))
    model = make("PNCA", expectation=expectation, class_weight=weight, n_folds=3, n_particles=3)
    by_epoch = {snapshot.epoch: snapshot for snapshot in watched_fit(model, X, y)[0]}
    embeddings = by_epoch[model.best_epoch_].embeddings.double()
    assert model.bandwidth_ == pytest.approx(3.0 * factor)
    x, alpha, prior = model.support_inputs_.astype(np.float64), model.background_, model.class_prior_
    weights = model.class_weight_[y]
    for i, fold in enumerate(model.folds_):
        z = embeddings[3 + 2 * fold : 5 + 2 * fold]  # two particles that are not trained on the fold
        others = model.folds_ != fold
        if expectation == "shared":
            sq = (z[:, i : i + 1] - z).square().sum(dim=2).numpy()
            latent = np.exp(-sq / model.bandwidth_)  # (2, n)
        else:
            latent = reference.expected_kernel(z[:, i : i + 1], z, model.bandwidth_).numpy()  # (1, n)
        near = np.exp(model.input_weight_ * (1 - ((x[i] - x) ** 2).sum(axis=1) / model.input_scale_))
        residual = held_out_log_residuals(torch.from_numpy(x), torch.from_numpy(model.folds_))[i]
        z = (residual.item() - model.typical_log_residual_) / model.log_residual_spread_
        familiar = np.exp(-model.novelty_depth_ * max(0, (z - 1) / 2.5) ** 2)
        K = latent * near * familiar * weights * others * 40 / others.sum()
        S = np.stack([K[:, y == c].sum(axis=1) for c in range(2)], axis=1)
        p = (S + alpha * prior) / (S.sum(axis=1, keepdims=True) + alpha)
        np.testing.assert_allclose(model.oof_proba_[i], p.mean(axis=0), rtol=1e-6)
        assert model.oof_evidence_[i] == pytest.approx(np.log(S.sum(axis=1).mean()), abs=1e-6)


def test_oof__estimates_what_new_examples_will_cost():
    rng = np.random.RandomState(0)
    y = np.arange(1200) % 2
    X = (rng.normal(size=(1200, 3)) + 1.2 * y[:, None]).astype(np.float32)
    model = make("PNCA", max_epochs=40).fit(X[:200], y[:200])
    new = -model.predict_log_proba(X[200:])[np.arange(1000), y[200:]].mean()
    # The mean of 200 losses that differ by about .5 from each other is known to .04.
    assert model.oof_loss_ == pytest.approx(new, abs=0.12)
    own = -model.predict_log_proba(X[:200])[np.arange(200), y[:200]].mean()
    assert own < model.oof_loss_


def test_oof__labels_without_sense_lead_back_to_the_class_shares():
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(200, 4)), np.arange(200) % 2
    new, labels = rng.normal(size=(500, 4)), rng.randint(2, size=500)
    hasty = {"learning_rate": 0.05, "dropout": 0.0, "max_epochs": 40}
    chosen, last = (make("PNCA", n_folds=n_folds, **hasty).fit(X, y) for n_folds in (5, None))
    assert chosen.best_epoch_ < 40
    # What the distance between inputs says cannot be chosen away, and costs a little.
    assert chosen.oof_loss_ < math.log(2) + 0.06
    costs = [-m.predict_log_proba(new)[np.arange(500), labels].mean() for m in (chosen, last)]
    assert costs[0] < math.log(2) + 0.06 < costs[1]


@pytest.mark.filterwarnings("ignore:Only one example of class")
def test_fit__class_of_one_example_leaves_a_choice_without_a_background(blobs):
    X, y = np.r_[blobs[0], blobs[0][:1] + 9], np.r_[blobs[1], ["yew"]]
    model = make("PNCA", background=0.0).fit(X, y)
    assert model.best_epoch_ > 1
