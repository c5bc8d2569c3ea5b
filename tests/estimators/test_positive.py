"""What positive features change: one vector for each class instead of a kernel to each example."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import reference
from models import make, watched_fit, with_kernel
from pnca import accelerated
from pnca.exceptions import InvalidInputError
from pnca.models import kernels, selection
from pnca.models.features import ClassFeatures, Clouds, place_around_classes
from pnca.models.fitted import NeighbourReader
from pnca.models.kernels import ExactKernel

both_expectations = pytest.mark.parametrize("expectation", ["shared", "cross"])


def positive(**settings):
    return make("PNCA positive", **{"dropout": 0.0, "scaling": None, "bandwidth": 1.0, **settings})


def approximate_kernels(model, queries):
    """Of queries to the training examples, one for each member."""
    z, support = torch.from_numpy(model.embed(queries)), torch.from_numpy(model.support_embeddings_)
    groups = [slice(k, k + 1) for k in range(len(z))] if model.expectation == "shared" else [slice(None)]
    points, scales = torch.from_numpy(model.places_), torch.from_numpy(model.place_scales_)
    for member, rows in enumerate(groups):
        of = points[member], scales[member], model.bandwidth_
        yield reference.mean_features(z[rows], *of) @ reference.mean_features(support[rows], *of).mT


# Prediction


@both_expectations
@pytest.mark.parametrize("background", [0.0, 0.5])
def test_predict_proba__equals_the_equation_on_the_features(expectation, background, blobs):
    X, y = blobs
    weight = {"ash": 2.0, "birch": 1.0, "cedar": 1.0}
    model = positive(expectation=expectation, background=background, class_weight=weight, n_components=2)
    model.set_params(novelty=False).fit(X[:30], y[:30])
    weights = torch.from_numpy(model.class_weight_[model.support_labels_])
    labels, prior = torch.from_numpy(model.support_labels_), torch.from_numpy(model.class_prior_)
    kernels = list(approximate_kernels(model, X[30:34] + 0.3))
    expected = [reference.class_probabilities(K, labels, 3, background, prior, weights) for K in kernels]
    np.testing.assert_allclose(model.predict_proba(X[30:34] + 0.3), torch.stack(expected).mean(0), rtol=1e-8)
    masses = torch.stack([(K * weights).sum(1) for K in kernels]).mean(0)
    np.testing.assert_allclose(model.evidence(X[30:34] + 0.3), masses.log(), rtol=1e-8, atol=1e-8)


@both_expectations
def test_predict_proba__needs_nothing_of_the_examples_but_one_vector_for_each_class(expectation, blobs):
    X, y = blobs
    model = positive(expectation=expectation).fit(X, y)
    expected = model.predict_proba(X), model.evidence(X), model.predict(X)
    assert model.class_features_.shape == (3 if expectation == "shared" else 1, 3, 100)
    reader = model.fitted_.reader
    lost = replace(
        reader.support, embeddings=torch.full_like(reader.support.embeddings, torch.nan), labels=None
    )
    model.fitted_ = replace(model.fitted_, reader=replace(reader, support=lost))
    for after, before in zip(
        (model.predict_proba(X), model.evidence(X), model.predict(X)), expected, strict=True
    ):
        assert np.array_equal(after, before)
    assert np.isnan(model.neighbors(X)[1]).all()


@both_expectations
def test_predict_proba__more_features_come_nearer_to_the_exact_kernel(expectation, blobs):
    X, y = blobs
    errors = []
    for n_blocks in (3, 1000):
        model = positive(expectation=expectation, n_feature_blocks=n_blocks, n_components=3, max_epochs=10)
        approximate, evidence = model.fit(X, y).predict_proba(X + 0.5), model.evidence(X)
        exact = with_kernel(model, ExactKernel(model.bandwidth_, expectation == "shared"))
        errors.append(
            [
                np.abs(approximate - exact.predict_proba(X + 0.5)).mean(),
                np.median(np.abs(evidence - exact.evidence(X))),
            ]
        )
    assert errors[1][0] < 0.02
    assert errors[1][1] < 0.1
    assert (np.array(errors[1]) < np.array(errors[0]) / 3).all()


def test_predict_proba__far_in_the_latent_space_is_the_class_shares(blobs):
    X, y = blobs[0][:50], blobs[1][:50]
    model = positive(module=lambda: nn.Linear(5, 6), max_epochs=5).fit(X, y)
    far = X[:1] + np.array([[100.0], [1e4], [1e6]]) * np.ones(5)
    np.testing.assert_allclose(model.predict_proba(far), np.tile(model.class_prior_, (3, 1)), atol=1e-6)
    assert (np.diff(np.r_[model.evidence(X).min(), model.evidence(far)]) < -10).all()


def test_predict_proba__without_background_is_finite_however_far(blobs):
    model = positive(module=lambda: nn.Linear(5, 6), background=0.0, max_epochs=5).fit(*blobs)
    assert np.isfinite(model.predict_log_proba(1e5 * blobs[0])).all()


# Training


@both_expectations
@pytest.mark.parametrize("weight", [None, {0: 1.0, 1: 3.0}])
def test_oof__equals_the_equation_on_the_features(expectation, weight, monkeypatch):
    rng = np.random.RandomState(1)
    y = np.arange(24) % 2
    X = (rng.normal(size=(24, 3)) + 1.5 * y[:, None]).astype(np.float32)
    monkeypatch.setattr(selection, "_BANDWIDTHS", (2.0,))
    model = positive(
        expectation=expectation,
        class_weight=weight,
        n_folds=2,
        background="auto",
        novelty=False,
        n_components=2,
        max_epochs=6,
    )
    snapshots, _ = watched_fit(model, X, y)
    assert model.bandwidth_ == pytest.approx(2.0)
    (chosen,) = (snapshot for snapshot in snapshots if snapshot.epoch == model.best_epoch_)
    weights, labels = torch.from_numpy(model.class_weight_[y]), torch.from_numpy(y)
    directions = torch.from_numpy(model.directions_)
    for fold in (0, 1):
        z = chosen.embeddings[3 + 2 * fold : 5 + 2 * fold].double()  # not trained on the fold
        others = torch.from_numpy(model.folds_ != fold)
        groups = [slice(0, 1), slice(1, 2)] if expectation == "shared" else [slice(None)]
        answers, masses = [], []
        for rows in groups:
            clouds = Clouds.of(z[rows][:, others], [slice(None)])
            points, scales, h = place_around_classes(
                clouds, labels[others], 2, weights[others], directions, 2.0
            )
            features = reference.mean_features(z[rows], points[0], scales[0], h)
            K = features[~others] @ features[others].mT * 24 / others.sum()
            prior = torch.from_numpy(model.class_prior_)
            answers.append(
                reference.class_probabilities(K, labels[others], 2, model.background_, prior, weights[others])
            )
            masses.append((K * weights[others]).sum(1))
        found = torch.from_numpy(model.oof_proba_)[~others]
        torch.testing.assert_close(found, torch.stack(answers).mean(0), rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(model.oof_evidence_[~others], torch.stack(masses).mean(0).log(), atol=1e-6)


@both_expectations
@pytest.mark.parametrize("batch_size", [None, 15])
def test_fit__never_compares_examples_pair_by_pair(expectation, batch_size, blobs, monkeypatch):
    def refuse(*args, **options):
        raise AssertionError("a kernel between pairs was asked for")

    for name in ("log_latent_kernel", "log_expected_kernel", "leave_one_out_loss", "class_log_masses"):
        monkeypatch.setattr(kernels, name, refuse)
    monkeypatch.setattr(selection, "class_log_masses", refuse)
    monkeypatch.setattr(accelerated, "class_log_masses", refuse)
    monkeypatch.setattr(NeighbourReader, "isolated_share", lambda self: 0.0)  # of a few examples
    monkeypatch.setattr(ClassFeatures, "log_kernel", refuse)
    model = positive(expectation=expectation, n_folds=2, max_epochs=20, batch_size=batch_size).fit(*blobs)
    assert model.score(*blobs) > 0.9
    assert np.isfinite(model.evidence(blobs[0])).all()


def test_fit__keeps_no_tensor(blobs):
    model = positive(max_epochs=1).fit(*blobs)
    assert not any(isinstance(value, torch.Tensor) for value in vars(model).values())


# What it cannot do


@pytest.mark.parametrize("input_weight", [0.5, 1])
def test_fit__refuses_an_input_factor(input_weight, blobs):
    with pytest.raises(InvalidInputError, match=r"input_weight=0 or 'auto'.* instead of"):
        positive(input_weight=input_weight).fit(*blobs)


@pytest.mark.parametrize("input_weight", [0.0, "auto"])
def test_fit__has_no_input_factor_by_itself(input_weight, blobs):
    model = positive(input_weight=input_weight, max_epochs=1).fit(*blobs)
    assert model.input_weight_ == 0
    assert not hasattr(model, "support_inputs_")


def test_fit__refuses_groups(blobs):
    with pytest.raises(InvalidInputError, match="cannot leave out a group: use kernel='exact'"):
        positive().fit(*blobs, groups=np.arange(60) // 2)


@pytest.mark.parametrize(("n_feature_blocks", "n_features"), [(1, 12), (5, 20)])
def test_n_feature_blocks__of_one_for_each_class_at_least(n_feature_blocks, n_features, blobs):
    model = positive(n_feature_blocks=n_feature_blocks, n_components=4, max_epochs=1).fit(*blobs)
    assert model.directions_.shape == (4, n_features)
    assert math.isfinite(model.evidence(blobs[0]).sum())
