"""What every one of the five models promises.

What depends on the kernel, the expectation or the update is asked of all variants, what is common code of one
neighbour and one softmax model.
"""

import pickle
from functools import cache

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import entropy
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

import pnca
from conftest import needs_cuda
from models import ALL, make

all_variants = pytest.mark.parametrize("name", ALL)
all_classes = pytest.mark.parametrize("name", ["PNCA", "NCA", "DNN", "Ensemble", "BNN"])
one_of_each_kind = pytest.mark.parametrize("name", ["PNCA", "DNN"])


class TinyConvNet(nn.Module):
    """Maps images (n, 1, 6, 6) to (n, 4)."""

    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(1, 4, 3)

    def forward(self, x):
        return self.convolution(x).relu().mean(dim=(2, 3))


@pytest.fixture(scope="module")
def fitted(blobs):
    """A model by name, fitted on the blobs once for all tests that do not change it."""
    return cache(lambda name: make(name).fit(*blobs))


def on_training_calls(monkeypatch, action):
    """Call ``action`` before each forward pass in training; all particles share one."""
    original = pnca.networks.MLP.__call__

    def watched(self, *args, training=False, **options):
        if training:
            action()
        return original(self, *args, training=training, **options)

    monkeypatch.setattr(pnca.networks.MLP, "__call__", watched)


@pytest.fixture(scope="module")
def stripes():
    """Images of vertical and horizontal stripes."""
    rng = np.random.RandomState(0)
    X = np.zeros((30, 1, 6, 6), dtype=np.float32)
    X[::2, :, :, ::2] = 1
    X[1::2, :, ::2, :] = 1
    return X + 0.1 * rng.normal(size=X.shape).astype(np.float32), np.arange(30) % 2


@all_variants
def test_model__learns_and_predicts_string_labels(name, fitted, blobs):
    X, y = blobs
    model = fitted(name)
    assert model.score(X, y) > 0.9
    assert model.classes_.tolist() == ["ash", "birch", "cedar"]
    assert set(model.predict(X)) <= set(y)


@all_variants
def test_model__probabilities_are_probabilities(name, fitted, blobs):
    model, X = fitted(name), blobs[0]
    probabilities, logs = model.predict_proba(X), model.predict_log_proba(X)
    assert probabilities.shape == (60, 3)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=0, atol=1e-12)
    np.testing.assert_allclose(np.exp(logs), probabilities)
    assert (model.classes_[probabilities.argmax(axis=1)] == model.predict(X)).all()


@all_variants
def test_model__uncertainty_is_the_entropy_of_the_probabilities_in_two_parts(name, fitted, blobs):
    model, X = fitted(name), blobs[0]
    queries = np.r_[X + 1.0, 100 * X[:3]]
    total, aleatoric, epistemic = model.uncertainty(queries)
    np.testing.assert_allclose(total, entropy(model.predict_proba(queries), axis=1), atol=1e-6)
    np.testing.assert_allclose(aleatoric + epistemic, total, atol=1e-12)
    assert min(total.min(), aleatoric.min(), epistemic.min()) >= 0
    if name in ("Ensemble", "BNN", "PNCA", "PNCA pooled", "PNCA positive", "PNCA shared"):
        assert epistemic.max() > 1e-4
    else:  # there is one answer only
        np.testing.assert_allclose(epistemic, 0, atol=1e-12)


@all_variants
def test_model__same_seed_same_result_and_another_seed_another(name, blobs):
    X, y = blobs
    first, again, other = (make(name, random_state=seed).fit(X, y).predict_proba(X) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


# Random features, folds, dropout and batches draw numbers.
@pytest.mark.parametrize("name", ["PNCA", "PNCA orthogonal", "PNCA positive", "PNCA shared", "DNN"])
def test_model__fit_leaves_global_random_state_alone(name, blobs):
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002
    expected = torch.rand(1), np.random.rand()  # noqa: NPY002
    torch.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002
    make(name, max_epochs=1).fit(*blobs)
    assert (torch.rand(1), np.random.rand()) == expected  # noqa: NPY002


@all_variants
def test_model__prediction_does_not_depend_on_the_batch(name, fitted, blobs, monkeypatch):
    model, X = fitted(name), blobs[0]
    whole = model.predict_log_proba(X)
    one_by_one = np.concatenate([model.predict_log_proba(X[i : i + 1]) for i in range(len(X))])
    np.testing.assert_allclose(one_by_one, whole, rtol=1e-9, atol=1e-9)
    monkeypatch.setattr("pnca.models.fitted.PREDICTION_NUMBERS", 7 * 3 * 5)
    np.testing.assert_allclose(model.predict_log_proba(X), whole, rtol=1e-9, atol=1e-9)


@one_of_each_kind
def test_model__result_does_not_depend_on_the_type_of_array(name, blobs):
    X, y = blobs
    expected = make(name).fit(X, y).predict_proba(X)
    for other in (X.astype(np.float64), X.tolist(), torch.from_numpy(X.copy()), np.asfortranarray(X)):
        assert np.array_equal(make(name).fit(other, y).predict_proba(other), expected)


@one_of_each_kind
def test_model__pandas_in_and_feature_names_checked(name, blobs):
    X, y = blobs
    table = pd.DataFrame(X, columns=list("abcde"))
    model = make(name).fit(table, pd.Series(y))
    assert model.feature_names_in_.tolist() == list("abcde")
    assert np.array_equal(model.predict_proba(table), make(name).fit(X, y).predict_proba(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(table[list("edcba")])


@one_of_each_kind
def test_model__works_in_pipeline_grid_search_and_cross_validation(name, blobs):
    X, y = blobs
    search = GridSearchCV(
        make_pipeline(StandardScaler(), make(name, max_epochs=10)),
        {f"{type(make(name)).__name__.lower()}__learning_rate": [0.01, 0.02]},
        cv=3,
        error_score="raise",
    ).fit(X, y)
    assert search.best_score_ > 0.8
    out_of_fold = cross_val_predict(make(name, max_epochs=10), X, y, cv=3, method="predict_proba")
    assert out_of_fold.shape == (60, 3)


@one_of_each_kind
def test_model__clone_keeps_settings_and_drops_the_fit(name, fitted, blobs):
    model = fitted(name)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(blobs[0])


# What is kept differs between the kernels.
@pytest.mark.parametrize("name", ["PNCA", "PNCA orthogonal", "PNCA positive", "DNN"])
def test_model__survives_pickling_by_joblib_and_others(name, fitted, blobs):
    model = fitted(name)
    restored = pickle.loads(pickle.dumps(model))
    assert np.array_equal(restored.predict_proba(blobs[0]), model.predict_proba(blobs[0]))


@all_classes
def test_model__history_has_loss_and_accuracy_per_epoch(name, blobs):
    model = make(name, max_epochs=12).fit(*blobs)
    assert set(model.history_) == {"loss", "accuracy"}
    assert len(model.history_["loss"]) == len(model.history_["accuracy"]) == model.n_iter_ == 12
    assert model.history_["loss"][-1] < model.history_["loss"][0]
    assert all(0 <= value <= 1 for value in model.history_["accuracy"])


@one_of_each_kind
def test_model__quiet_by_default_and_a_bar_when_verbose(name, blobs, capsys):
    make(name, max_epochs=2).fit(*blobs)
    assert capsys.readouterr() == ("", "")
    make(name, max_epochs=2, verbose=True).fit(*blobs)
    assert type(make(name)).__name__ in capsys.readouterr().out


@one_of_each_kind
def test_model__interrupt_keeps_a_usable_model(name, blobs, monkeypatch):
    calls = []

    def interrupt():
        calls.append(1)
        if len(calls) > 8:
            raise KeyboardInterrupt

    on_training_calls(monkeypatch, interrupt)
    model = make(name, max_epochs=1000, batch_size=None)
    with pytest.raises(KeyboardInterrupt, match="after 8 of 1000 epochs is kept"):
        model.fit(*blobs)
    assert model.was_interrupted_
    assert model.n_iter_ == 8
    assert model.predict(blobs[0]).shape == (60,)


@pytest.mark.parametrize("name", ["PNCA", "PNCA cross", "PNCA positive", "Ensemble", "BNN"])
def test_model__runs_all_particles_in_one_call(name, blobs, monkeypatch):
    calls = []
    on_training_calls(monkeypatch, lambda: calls.append(1))
    make(name, max_epochs=5, batch_size=None).fit(*blobs)
    assert len(calls) == 5


@one_of_each_kind
def test_model__class_weight_balanced_equals_the_same_weights_by_hand(name, blobs):
    X, y = blobs[0][:45], blobs[1][:45]
    keep = np.r_[np.flatnonzero(y == "ash")[:3], np.flatnonzero(y != "ash")]
    X, y = X[keep], y[keep]
    counts = {label: (y == label).sum() for label in np.unique(y)}
    by_hand = {label: len(y) / (3 * count) for label, count in counts.items()}
    balanced = make(name, class_weight="balanced").fit(X, y).predict_proba(X)
    np.testing.assert_allclose(make(name, class_weight=by_hand).fit(X, y).predict_proba(X), balanced)


@all_variants
def test_model__class_weight_favours_the_heavier_class(name):
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(80, 3)).astype(np.float32), np.arange(80) % 2  # nothing to learn
    lean = {
        heavy: make(name, class_weight={heavy: 5.0, 1 - heavy: 1.0}, max_epochs=5).fit(X, y).predict_proba(X)
        for heavy in (0, 1)
    }
    assert lean[1][:, 1].mean() > lean[0][:, 1].mean() + 0.2


# The updates differ.
@pytest.mark.parametrize("name", ["PNCA", "PNCA orthogonal", "DNN", "BNN"])
def test_model__embeds_images_through_a_module(name, stripes):
    X, y = stripes
    for module in (TinyConvNet, TinyConvNet()):
        model = make(name, module=module, max_epochs=60, learning_rate=0.03).fit(X, y)
        assert model.score(X, y) > 0.9
        one_by_one = np.concatenate([model.predict_proba(X[i : i + 1]) for i in range(4)])
        # A user's module runs in float32.
        np.testing.assert_allclose(one_by_one, model.predict_proba(X[:4]), atol=1e-5)
        assert np.array_equal(clone(model).fit(X, y).predict_proba(X), model.predict_proba(X))


@one_of_each_kind
def test_model__images_of_another_size_are_refused(name, stripes):
    model = make(name, module=TinyConvNet, max_epochs=1).fit(*stripes)
    with pytest.raises(
        ValueError, match=r"inputs of shape \(1, 8, 8\).*fitted on inputs of shape \(1, 6, 6\)"
    ):
        model.predict(np.zeros((2, 1, 8, 8)))


@all_variants
def test_model__one_particle_and_no_hidden_layer_work(name, blobs):
    settings = {} if name in ("NCA", "DNN") else {"n_particles": 1}
    model = make(name, hidden_layer_sizes=(), max_epochs=60, **settings).fit(*blobs)
    assert model.score(*blobs) > 0.9


# Scaled by column, unscaled, without a background mass, softmax.
@pytest.mark.parametrize("name", ["PNCA", "PNCA orthogonal", "NCA", "DNN"])
def test_model__constant_features_are_harmless(name, blobs):
    X = np.hstack([blobs[0], np.full((60, 2), 7.0)])
    model = make(name, max_epochs=60).fit(X, blobs[1])
    assert model.score(X, blobs[1]) > 0.9
    assert np.isfinite(model.predict_log_proba(X)).all()


# Each kernel multiplies matrices in its own way.
@pytest.mark.parametrize("name", ["PNCA", "PNCA orthogonal", "PNCA positive", "DNN", "BNN"])
def test_model__is_not_touched_by_autocast(name, blobs):
    expected = make(name, max_epochs=3).fit(*blobs).predict_proba(blobs[0])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert np.array_equal(make(name, max_epochs=3).fit(*blobs).predict_proba(blobs[0]), expected)


@needs_cuda
@one_of_each_kind
def test_model__fit_on_the_cpu_leaves_the_gpus_generator_alone(name, blobs):
    torch.cuda.manual_seed(5)
    expected = torch.rand(1, device="cuda")
    torch.cuda.manual_seed(5)
    make(name, max_epochs=1).fit(*blobs)
    make(name, max_epochs=1, module=lambda: nn.Linear(5, 2)).fit(*blobs)
    assert torch.equal(torch.rand(1, device="cuda"), expected)


@needs_cuda
@all_variants
def test_model__fits_on_a_gpu_and_predicts_on_the_cpu(name, blobs):
    model = make(name, device="cuda").fit(*blobs)
    on_gpu = model.predict_proba(blobs[0])
    on_cpu = model.set_params(device="cpu").predict_proba(blobs[0])
    np.testing.assert_allclose(on_gpu, on_cpu, atol=1e-9)
    assert model.score(*blobs) > 0.9
