"""What fold models are not trained on they do not know, and groups are never taken apart."""

import numpy as np
import pytest

from models import make, watched_fit
from pnca.models import neighbours, selection
from pnca.training.sampling import FoldModels

# Folds


@pytest.mark.parametrize("batch_size", [None, 30])
@pytest.mark.parametrize("update", ["independent", "functional"])
def test_folds__trained_fold_models_do_not_know_the_labels_of_their_fold(batch_size, update, blobs):
    X, y = blobs
    folds = np.arange(60) // 3 % 4  # five examples of each class in each
    within = np.flatnonzero(folds == 1)
    shuffled = y.copy()
    shuffled[within] = np.roll(y[within], 1)  # all wrong, but the class shares stay
    quick = {"scaling": "columns", "dropout": 0.0, "n_folds": 4, "batch_size": batch_size, "update": update}
    # The batches follow the labels too; here they must not.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            neighbours,
            "partnered_batches",
            lambda labels, size, rng: np.array_split(rng.permutation(60), 60 // (size or 60)),
        )
        right, wrong = (
            watched_fit(make("PNCA", **quick), X, labels, folds)[0][-1] for labels in (y, shuffled)
        )
    models = FoldModels(folds=folds, n_particles=3, n_per_fold=2)
    # Where the whole cloud lies does not matter to any distance: no gradient holds it, and rounding moves it.
    right, wrong = (z.embeddings - z.embeddings.mean(dim=1, keepdim=True) for z in (right, wrong))
    moved = (right - wrong).abs()
    # Held-out terms of weight zero stand elsewhere in the sums, whose rounding Adam amplifies.
    assert moved[models.without(1)].max() < 1e-3
    for rows in (models.full, models.without(0), models.without(2), models.without(3)):
        assert moved[rows].amax(dim=(1, 2)).min() > 0.05


def test_folds__own_label_does_not_show_in_the_probability_of_an_example(noisy, monkeypatch):
    # Swapping the labels of two examples of a fold moves everything but what is predicted for that fold.
    # The choice among settings sees all labels, so there is none here.
    monkeypatch.setattr(selection, "_BANDWIDTHS", (1.0,))
    monkeypatch.setattr(neighbours, "_SNAPSHOTS", (1.0,))
    X, y = noisy
    folds = np.arange(40) // 2 % 5
    first, second = np.flatnonzero(folds == 2)[:2]
    swapped = y.copy()
    swapped[[first, second]] = y[[second, first]]
    answers = []
    for labels in (y, swapped):
        model = make("PNCA", scaling="columns", dropout=0.0, background=0.05)
        watched_fit(model, X, labels, folds)
        answers.append(model.oof_proba_)
    moved = np.abs(answers[0] - answers[1]).max(axis=1)
    assert moved[folds == 2].max() < 1e-3
    assert moved[folds != 2].max() > 0.01


# Groups


@pytest.fixture(scope="module")
def patients():
    """24 patients with four images each that are much alike; the labels say nothing about others."""
    rng = np.random.RandomState(0)
    groups = np.repeat(np.arange(24), 4)
    X = rng.normal(size=(24, 5))[groups] + 0.05 * rng.normal(size=(96, 5))
    return X, rng.permutation(np.arange(24) % 2)[groups], np.array([f"patient {g}" for g in groups])


def test_groups__what_is_known_of_a_patient_does_not_count(patients):
    X, y, groups = patients
    leaky, honest = make("PNCA").fit(X, y), make("PNCA").fit(X, y, groups=groups)
    assert (leaky.oof_proba_.argmax(axis=1) == y).mean() > 0.9
    assert (honest.oof_proba_.argmax(axis=1) == y).mean() < 0.75
    assert leaky.history_["accuracy"][-1] > 0.8
    assert honest.history_["accuracy"][0] < 0.75
    assert honest.oof_loss_ > leaky.oof_loss_ + 0.3


def test_groups__are_never_split_between_folds(patients):
    X, y, groups = patients
    folds = make("PNCA", max_epochs=1).fit(X, y, groups=groups).folds_
    assert set(folds) == set(range(5))
    for group in np.unique(groups):
        assert len(set(folds[groups == group])) == 1


def test_groups__each_example_on_its_own_is_no_grouping(noisy):
    X, y = noisy
    quick = {"n_folds": None, "max_epochs": 5}
    grouped = make("PNCA", **quick).fit(X, y, groups=np.arange(40))
    np.testing.assert_allclose(
        grouped.predict_proba(X), make("PNCA", **quick).fit(X, y).predict_proba(X), atol=1e-6
    )
