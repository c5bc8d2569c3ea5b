"""What NCA and PNCA add: embeddings, evidence, neighbours, the background mass."""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

import reference
from models import NEIGHBOUR, make, with_kernel
from pnca import accelerated
from pnca.exceptions import InvalidInputError
from pnca.models import kernels
from pnca.models.kernels import ExactKernel

neighbour_models = pytest.mark.parametrize("name", NEIGHBOUR)
# What experts add to shares is told in test_pool.py.
models_without_experts = pytest.mark.parametrize("name", [n for n in NEIGHBOUR if n != "PNCA pooled"])


@neighbour_models
def test_embed__one_cloud_of_particles_per_input(name, blobs):
    model = make(name, n_components=6).fit(*blobs)
    assert model.embed(blobs[0][:4]).shape == (1 if name == "NCA" else 3, 4, 6)
    # Training inputs are kept in float32 once they are scaled, which moves their embeddings by its rounding.
    np.testing.assert_allclose(model.embed(blobs[0]), model.support_embeddings_, atol=1e-5)
    if not hasattr(model, "input_centre_"):
        assert np.array_equal(model.embed(blobs[0]), model.support_embeddings_)


@pytest.mark.parametrize("name", ["PNCA exact", "PNCA cross"])
@pytest.mark.parametrize("background", [0.0, 0.5])
def test_predict_proba__equals_the_equation_on_the_embeddings(background, name, blobs):
    X, y = blobs
    weight = {"ash": 2.0, "birch": 1.0, "cedar": 1.0}
    model = make(name, background=background, input_weight=0.0, class_weight=weight).fit(X, y)
    queries = X[:5] + 0.3
    embeddings, support = torch.from_numpy(model.embed(queries)), torch.from_numpy(model.support_embeddings_)
    K = reference.expected_kernel(embeddings, support, model.bandwidth_)
    weights = torch.from_numpy(model.class_weight_[model.support_labels_])
    expected = reference.class_probabilities(
        K,
        torch.from_numpy(model.support_labels_),
        3,
        background,
        torch.from_numpy(model.class_prior_),
        weights,
    )
    np.testing.assert_allclose(model.predict_proba(queries), expected.numpy(), rtol=1e-9)
    np.testing.assert_allclose(model.evidence(queries), torch.log((K * weights).sum(1)).numpy(), rtol=1e-9)


@models_without_experts
def test_neighbors__shares_of_a_class_sum_to_its_probability(name, blobs):
    X, y = blobs
    model = make(name).fit(X, y)
    queries = X[:8] + 0.5
    indices, shares = model.neighbors(queries)
    assert indices.shape == shares.shape == (8, 60)
    background_share = 1 - shares.sum(axis=1)
    for column, label in enumerate(model.classes_):
        of_class = np.where(y[indices] == label, shares, 0).sum(axis=1)
        expected = of_class + background_share * model.class_prior_[column]
        np.testing.assert_allclose(model.predict_proba(queries)[:, column], expected, atol=1e-9)
    if model.background_ == 0:
        np.testing.assert_allclose(background_share, 0, atol=1e-12)


@neighbour_models
def test_neighbors__largest_share_first_and_k_of_them(name, blobs):
    model = make(name).fit(*blobs)
    indices, shares = model.neighbors(blobs[0], k=5)
    assert indices.shape == shares.shape == (60, 5)
    assert (np.diff(shares, axis=1) <= 0).all()
    if name == "NCA":  # with one particle a training example is nearest to itself
        assert (indices[:, 0] == np.arange(60)).mean() > 0.95


@pytest.mark.parametrize("name", ["PNCA", "NCA"])
def test_evidence__falls_with_the_distance_from_the_data(name, blobs):
    X, y = blobs
    model = make(name).fit(X, y)
    along = [model.evidence(X + shift).mean() for shift in (0, 10, 30, 100)]
    assert (np.diff(along) < 0).all()


def test_background__far_away_the_prediction_is_the_class_shares(blobs):
    X, y = blobs[0][:50], blobs[1][:50]
    model = make("PNCA exact", background=0.1).fit(X, y)
    far = model.predict_proba(X[:3] * 1000)
    np.testing.assert_allclose(far, np.tile(model.class_prior_, (3, 1)), atol=1e-9)
    without = make("PNCA exact", background=0.0).fit(X, y)
    assert without.predict_proba(X[:3] * 1000).max() > 0.99


def test_background__unscaled_inputs_are_reported():
    X, y = load_breast_cancer(return_X_y=True)  # columns up to 4,000
    with pytest.warns(ConvergenceWarning, match=r"% of the training examples .* Scale the inputs"):
        make("PNCA exact").fit(X[:100], y[:100])
    scaled = StandardScaler().fit_transform(X[:100])
    make("PNCA exact").fit(scaled, y[:100])  # warnings are errors here
    make("PNCA").fit(X[:100], y[:100])  # scales them by itself


def test_nca__is_pnca_with_one_particle_and_no_background(blobs):
    nca = make("NCA", bandwidth=2.0).fit(*blobs)
    pnca = make("PNCA exact", n_particles=1, background=0.0, bandwidth=2.0).fit(*blobs)
    np.testing.assert_allclose(pnca.predict_proba(blobs[0]), nca.predict_proba(blobs[0]), rtol=1e-6)


@neighbour_models
def test_fit__minibatches_learn_too(name, blobs):
    model = make(name, batch_size=15).fit(*blobs)
    assert model.score(*blobs) > 0.9
    assert len(model.history_["loss"]) == 30


def test_orthogonal_kernel__approximates_the_exact_one(blobs):
    # Same particles, both kernels: with 10 d = 200 frequencies the error of K is about 0.07.
    model = make("PNCA orthogonal", n_components=20).fit(*blobs)
    approximate = np.exp(model.evidence(blobs[0]))
    exact = np.exp(with_kernel(model, ExactKernel(model.bandwidth_, False)).evidence(blobs[0]))
    assert np.corrcoef(approximate, exact)[0, 1] > 0.5
    np.testing.assert_allclose(approximate / 60, exact / 60, atol=0.1)


def test_class_prior__follows_counts_and_weights(blobs):
    X, y = blobs[0][:50], blobs[1][:50]
    model = make("PNCA", max_epochs=1).fit(X, y)
    np.testing.assert_allclose(model.class_prior_, np.array([17, 17, 16]) / 50)
    weighted = make("PNCA", max_epochs=1, class_weight="balanced").fit(X, y)
    np.testing.assert_allclose(weighted.class_prior_, 1 / 3)


# Shared particles, and the distance between inputs


def test_shared__one_particle_is_the_same_as_cross(blobs):
    X, y = blobs
    cross, shared = (
        make("PNCA", n_particles=1, expectation=expectation).fit(X, y) for expectation in ("cross", "shared")
    )
    assert shared.bandwidth_ == pytest.approx(cross.bandwidth_, rel=1e-6)
    np.testing.assert_allclose(shared.predict_proba(X), cross.predict_proba(X), atol=1e-6)
    np.testing.assert_allclose(shared.evidence(X), cross.evidence(X), atol=1e-6)
    np.testing.assert_allclose(shared.oof_proba_, cross.oof_proba_, atol=1e-6)


def test_shared__probabilities_and_evidence_are_means_over_particles(blobs):
    X, y = blobs
    model = make("PNCA shared", input_weight=0.0, novelty=False).fit(X[:40], y[:40])
    z, support = model.embed(X[40:]), model.support_embeddings_
    kernel = np.exp(-((z[:, :, None] - support[:, None]) ** 2).sum(-1) / model.bandwidth)  # (m, 20, 40)
    masses = np.stack([kernel[..., model.support_labels_ == c].sum(-1) for c in range(3)], axis=-1)
    alpha = model.background
    p = (masses + alpha * model.class_prior_) / (masses.sum(-1, keepdims=True) + alpha)
    np.testing.assert_allclose(model.predict_proba(X[40:]), p.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(model.evidence(X[40:]), np.log(masses.sum(-1).mean(0)), rtol=1e-6)


@models_without_experts
def test_neighbors__shares_and_background_make_up_the_probabilities(name, blobs):
    X, y = blobs
    model = make(name).fit(X, y)
    indices, shares = model.neighbors(X[:6])
    by_class = np.stack(
        [np.where(model.support_labels_[indices] == c, shares, 0).sum(axis=1) for c in range(3)], axis=1
    )
    missing = 1 - shares.sum(axis=1, keepdims=True)  # what the background has
    expected = by_class + missing * model.class_prior_
    np.testing.assert_allclose(model.predict_proba(X[:6]), expected, atol=1e-9)


def test_input_weight__a_network_that_forgets_distance_cannot_hide_a_strange_input(blobs):
    X, y = blobs
    blind = {"hidden_layer_sizes": (16,), "learning_rate": 1e-12}  # random weights: it learns nothing
    far = np.zeros((1, 5), np.float32)
    far[0] = 1e4 * np.array([1, -1, 1, -1, 0])
    model = make("PNCA shared", input_weight=1.0, n_particles=2, **blind)
    model.fit(X, y)
    np.testing.assert_allclose(model.predict_proba(far), model.class_prior_[None], atol=1e-12)
    assert model.evidence(far) < model.evidence(X).min() - 100


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), direction=st.integers(0, 10_000))
def test_input_weight__far_in_input_space_the_prediction_is_the_prior(seed, direction):
    # Whatever the network: here one with random weights. The factor alone bounds the mass.
    rng = np.random.RandomState(seed)
    X = rng.normal(size=(12, 4)).astype(np.float32)
    y = rng.permutation([0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2])
    model = make("PNCA shared", max_epochs=1, input_weight=0.5, n_particles=2, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # one epoch teaches nothing
        model.fit(X, y)
    away = np.random.RandomState(direction).normal(size=(1, 4))
    away *= 100 / np.linalg.norm(away)
    np.testing.assert_allclose(
        model.predict_proba(away.astype(np.float32)), [[7 / 12, 3 / 12, 2 / 12]], atol=1e-9
    )


def test_input_weight__works_on_images_and_survives_being_switched_off(blobs):
    X = blobs[0].reshape(60, 1, 5, 1)
    model = make(
        "PNCA",
        input_weight=0.5,
        module=lambda: torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(5, 4)),
    )
    model.fit(X, blobs[1])
    assert model.support_inputs_.shape == (60, 1, 5, 1)
    assert np.isfinite(model.evidence(X)).all()
    plain = make("PNCA", input_weight=0.0).fit(blobs[0], blobs[1])
    assert not hasattr(plain, "support_inputs_")


def test_predict__uses_what_the_fit_had_whatever_is_set_later(blobs):
    for fitted, later in ((0.0, 1.0), (1.0, 0.0), ("auto", 3.0)):
        model = make("PNCA", input_weight=fitted, max_epochs=5).fit(*blobs)
        expected = model.predict_proba(blobs[0])
        model.set_params(input_weight=later, background=7.0, bandwidth=0.1, n_folds=None, scaling=None)
        assert np.array_equal(model.predict_proba(blobs[0]), expected)


@pytest.mark.parametrize(
    ("kernel", "expectation"), [("exact", "shared"), ("orthogonal", "cross"), ("positive", "cross")]
)
@pytest.mark.parametrize("novelty", [True, False])
def test_predict__another_kernel_or_novelty_needs_another_fit(kernel, expectation, novelty, blobs):
    X, y = blobs
    quick = {"n_folds": None, "max_epochs": 2}
    model = make("PNCA", kernel=kernel, expectation=expectation, novelty=novelty, **quick).fit(X, y)
    later = {"novelty": not novelty, "kernel": "exact" if kernel == "positive" else "positive"}
    later["expectation"] = "shared" if expectation == "cross" else "cross"

    def answers():
        return [model.predict_log_proba(X + 3), model.evidence(X + 3), *model.neighbors(X + 3, k=3)]

    expected = answers()
    model.set_params(**later)
    assert all(np.array_equal(a, b) for a, b in zip(answers(), expected, strict=True))
    model.fit(X, y)
    assert not np.array_equal(answers()[1], expected[1])
    assert hasattr(model, "novelty_depth_") != novelty


def test_shared__refuses_random_features(blobs):
    with pytest.raises(InvalidInputError, match="expectation='cross'"):
        make("PNCA shared", kernel="orthogonal").fit(*blobs)


def test_dropout__needs_the_built_in_layers(blobs):
    model = make("PNCA", dropout=0.1, module=lambda: torch.nn.Linear(5, 2))
    with pytest.raises(InvalidInputError, match=r"nn\.Dropout"):
        model.fit(*blobs)


@pytest.mark.parametrize(
    "name", [name for name in NEIGHBOUR if name != "PNCA positive"]
)  # it has its own way
@pytest.mark.parametrize("with_groups", [False, True])
def test_many_points__the_model_is_the_same_without_the_kernel_in_memory(
    name, with_groups, blobs, monkeypatch
):
    X, y = blobs
    groups = np.arange(len(y)) // 2 if with_groups else None
    expected = make(name, max_epochs=5).fit(X, y, groups=groups)
    used, by_tiles = [], accelerated.class_log_masses

    def watched(*args, **options):
        used.append(True)
        return by_tiles(*args, **options)

    monkeypatch.setattr(kernels, "TILED", 0)
    monkeypatch.setattr(accelerated, "class_log_masses", watched)
    model = make(name, max_epochs=5).fit(X, y, groups=groups)
    assert bool(used) == (name != "PNCA orthogonal")  # random features have no tiles
    # Five steps of Nadam let rounding in the gradients grow.
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X), atol=2e-4)
    np.testing.assert_allclose(model.evidence(10 * X), expected.evidence(10 * X), rtol=1e-3, atol=1e-3)
