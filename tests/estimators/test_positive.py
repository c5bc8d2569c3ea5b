"""What positive features change: one vector for each class instead of a kernel to each example."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode

import reference
import scenarios
from models import assert_blind_to_fold, make, training_batch
from pnca.estimators import neighbour
from pnca.estimators.positive import (
    Clouds,
    Support,
    place_around_classes,
    summarise,
    training_log_masses,
)
from pnca.exceptions import InvalidInputError
from pnca.maths.features import orthogonal_frequencies
from pnca.maths.neighbours import LOG_ZERO, class_log_masses, has_partner, leave_one_out
from pnca.training.folds import Teams

both_expectations = pytest.mark.parametrize("expectation", ["shared", "cross"])
# Two particles that see all, and two teams of one.
TEAMS = Teams(folds=np.array([0, 1, 0, 1, 0, 1, 0, 1]), n_particles=2, n_per_fold=1)
LABELS = torch.tensor([0, 0, 1, 1, 0, 0, 1, 1])


def positive(**settings):
    return make("PNCA positive", **{"dropout": 0.0, "scaling": None, "bandwidth": 1.0, **settings})


def mean_features(z, points, log_scales, bandwidth):
    """Features (n, f) of clouds (p, n, d), averaged over their particles; straight from the equation."""
    features = torch.zeros(z.shape[1], len(points), dtype=z.dtype)
    for i in range(z.shape[1]):
        for k in range(len(points)):
            for particle in z:
                sq_dist = reference.sq_distance(particle[i], points[k])
                features[i, k] += torch.exp(log_scales[k] - 2 / bandwidth * sq_dist) / len(z)
    return features


def approximate_kernels(model, queries):
    """Of queries to the training examples, one for each answer."""
    z, support = torch.from_numpy(model.embed(queries)), torch.from_numpy(model.support_embeddings_)
    groups = [slice(k, k + 1) for k in range(len(z))] if model.expectation == "shared" else [slice(None)]
    points, scales = torch.from_numpy(model.places_), torch.from_numpy(model.place_scales_)
    for answer, rows in enumerate(groups):
        of = points[answer], scales[answer], model.bandwidth_
        yield mean_features(z[rows], *of) @ mean_features(support[rows], *of).mT


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
    del model.support_embeddings_, model.support_labels_
    for after, before in zip(
        (model.predict_proba(X), model.evidence(X), model.predict(X)), expected, strict=True
    ):
        assert np.array_equal(after, before)
    with pytest.raises(AttributeError):
        model.neighbors(X)


@both_expectations
def test_predict_proba__more_features_come_nearer_to_the_exact_kernel(expectation, blobs):
    X, y = blobs
    errors = []
    for n_blocks in (3, 1000):
        model = positive(expectation=expectation, n_feature_blocks=n_blocks, n_components=3, max_epochs=10)
        approximate, evidence = model.fit(X, y).predict_proba(X + 0.5), model.evidence(X)
        model.set_params(kernel="exact")
        errors.append(
            [
                np.abs(approximate - model.predict_proba(X + 0.5)).mean(),
                np.median(np.abs(evidence - model.evidence(X))),
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


def test_kernel__changed_to_positive_after_the_fit_is_an_error(blobs):
    model = make("PNCA cross", max_epochs=1).fit(*blobs)
    with pytest.raises(InvalidInputError, match="fit again"):
        model.set_params(kernel="positive").predict(blobs[0])


# Training


@both_expectations
def test_training_log_masses__equal_those_of_the_kernel_for_teams_of_different_sizes(expectation):
    z, queries = scenarios.cloud(4, 8, 3), scenarios.cloud(4, 8, 3, seed=1)
    teams = None if expectation == "shared" else TEAMS.slices
    shown = TEAMS.sees().double()
    weights = shown[TEAMS.of_particles()] if expectation == "shared" else shown
    weights = weights * torch.linspace(0.5, 2, 8)
    log_weights = weights.log().clamp_min(LOG_ZERO)
    omega = orthogonal_frequencies(3, 4, 2.0, torch.Generator().manual_seed(0))
    of_support, of_queries = Clouds.of(z, teams), Clouds.of(queries, teams)
    places = place_around_classes(of_support, LABELS, 2, weights, omega, 3.0)
    masses = training_log_masses(of_queries, of_support, LABELS, 2, log_weights, places)
    groups = [slice(k, k + 1) for k in range(4)] if expectation == "shared" else TEAMS.slices
    assert len(masses) == len(groups)
    for answer, rows in enumerate(groups):
        of = places.points[answer], places.log_scales[answer], 3.0
        K = mean_features(queries[rows], *of) @ mean_features(z[rows], *of).mT
        expected = class_log_masses(leave_one_out(K.log()), LABELS, 2, log_weights[answer])
        torch.testing.assert_close(masses[answer], expected, rtol=1e-8, atol=1e-8)


@both_expectations
def test_training_log_masses__gradcheck_of_examples_that_carry_their_places_along(expectation):
    teams = None if expectation == "shared" else [slice(0, 2)]
    omega = orthogonal_frequencies(2, 3, 2.0, torch.Generator().manual_seed(0))
    labels, weights = torch.tensor([0, 1, 0, 1, 0]), torch.linspace(0.5, 2, 5).double()

    def own_masses(z):
        clouds = Clouds.of(z, teams)
        places = place_around_classes(clouds, labels, 2, weights, omega, 3.0)
        masses = training_log_masses(clouds, clouds, labels, 2, weights.log(), places)
        return masses.gather(2, labels[None, :, None].expand(len(masses), 5, 1))

    assert torch.autograd.gradcheck(own_masses, scenarios.cloud(2, 5, 2).requires_grad_())


def test_place_around_classes__a_team_has_its_places_where_its_own_examples_are():
    z = scenarios.cloud(4, 8, 3)
    omega = orthogonal_frequencies(3, 4, 2.0, torch.Generator().manual_seed(0))
    weights = TEAMS.sees().double()
    moved = z.clone()
    moved[:, TEAMS.folds == 1] += 10
    before, after = (
        place_around_classes(Clouds.of(some, TEAMS.slices), LABELS, 2, weights, omega, 3.0).points
        for some in (z, moved)
    )
    torch.testing.assert_close(after[2], before[2])  # the team that does not see fold 1
    assert (after[:2] - before[:2]).abs().amax(dim=(1, 2)).min() > 1


def test_summarise__parts_of_the_examples_add_up(monkeypatch):
    clouds, weights = Clouds.of(scenarios.cloud(2, 8, 3), None), torch.ones(8).double()
    omega = orthogonal_frequencies(3, 4, 2.0, torch.Generator().manual_seed(0))
    places = place_around_classes(clouds, LABELS, 2, weights, omega, 3.0)
    whole = summarise(clouds, LABELS, 2, weights.log(), places)
    masses = whole.log_masses(clouds)
    monkeypatch.setattr("pnca.estimators.positive._MANY_NUMBERS", 3 * 24)  # three examples at a time
    in_parts = summarise(clouds, LABELS, 2, weights.log(), places)
    torch.testing.assert_close(in_parts.class_features, whole.class_features)
    torch.testing.assert_close(in_parts.log_masses(clouds), masses)
    assert in_parts.log_masses(clouds.rows(slice(0, 0))).shape == (2, 0, 2)


@both_expectations
@pytest.mark.parametrize("held_out", [0, 2])
def test_folds__gradients_of_a_team_do_not_depend_on_its_fold(expectation, held_out, blobs):
    X, names = blobs
    y = np.unique(names, return_inverse=True)[1]
    model = positive(expectation=expectation, max_epochs=1).fit(X, y)
    folds = np.arange(60) // 3 % 4
    teams = Teams(folds=folds, n_particles=2, n_per_fold=2)
    particles = model.network_.draw(teams.n_total, torch.Generator().manual_seed(3)).double()

    inputs, labels = torch.from_numpy(X.copy()).double(), torch.from_numpy(y)
    hidden = torch.from_numpy(folds == held_out)
    assert_blind_to_fold(
        model, particles, inputs, labels, teams, held_out, torch.where(hidden, (labels + 1) % 3, labels), 1e-7
    )


def test_folds__a_batch_of_which_a_team_sees_nothing_leaves_its_gradient_finite(blobs):
    X, y = blobs
    model = positive(max_epochs=1).fit(X, y)
    teams = Teams(folds=np.arange(60) // 6 % 2, n_particles=2, n_per_fold=1)
    particles = model.network_.draw(teams.n_total, torch.Generator().manual_seed(3)).requires_grad_()
    labels = torch.from_numpy(model.support_labels_)
    batch = training_batch(model, torch.from_numpy(X.copy()), labels, teams, torch.arange(6))
    loss = model._evaluate(particles, batch).total_loss  # all of fold 0
    (gradient,) = torch.autograd.grad(loss, particles)
    assert gradient.isfinite().all()
    assert (gradient[teams.without(0)] == 0).all()
    assert gradient[teams.without(1)].abs().max() > 0


@both_expectations
@pytest.mark.parametrize("weight", [None, {0: 1.0, 1: 3.0}])
def test_oof__equals_the_equation_on_the_features(expectation, weight, monkeypatch):
    rng = np.random.RandomState(1)
    y = np.arange(24) % 2
    X = (rng.normal(size=(24, 3)) + 1.5 * y[:, None]).astype(np.float32)
    snapshots, original = [], type(positive())._snapshots

    def seen(self, epoch, particles, data):
        found = original(self, epoch, particles, data)
        snapshots.extend(found)
        return found

    monkeypatch.setattr(type(positive()), "_snapshots", seen)
    monkeypatch.setattr("pnca.estimators.choosing._BANDWIDTHS", (2.0,))
    model = positive(
        expectation=expectation,
        class_weight=weight,
        n_folds=2,
        background="auto",
        novelty=False,
        n_components=2,
        max_epochs=6,
    ).fit(X, y)
    assert model.bandwidth_ == pytest.approx(2.0)
    (chosen,) = (snapshot for snapshot in snapshots if snapshot.epoch == model.best_epoch_)
    weights, labels = torch.from_numpy(model.class_weight_[y]), torch.from_numpy(y)
    directions = torch.from_numpy(model.directions_)
    for fold in (0, 1):
        z = chosen.embeddings[3 + 2 * fold : 5 + 2 * fold].double()  # two particles that do not see the fold
        others = torch.from_numpy(model.folds_ != fold)
        groups = [slice(0, 1), slice(1, 2)] if expectation == "shared" else [slice(None)]
        answers, masses = [], []
        for rows in groups:
            clouds = Clouds.of(z[rows][:, others], [slice(None)])
            points, scales, h = place_around_classes(
                clouds, labels[others], 2, weights[others], directions, 2.0
            )
            features = mean_features(z[rows], points[0], scales[0], h)
            K = features[~others] @ features[others].mT * 24 / others.sum()
            prior = torch.from_numpy(model.class_prior_)
            answers.append(
                reference.class_probabilities(K, labels[others], 2, model.background_, prior, weights[others])
            )
            masses.append((K * weights[others]).sum(1))
        found = torch.from_numpy(model.oof_proba_)[~others]
        torch.testing.assert_close(found, torch.stack(answers).mean(0), rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(model.oof_evidence_[~others], torch.stack(masses).mean(0).log(), atol=1e-6)


def test_oof__part_of_the_examples_stands_for_all_as_neighbours(monkeypatch):
    rng = np.random.RandomState(0)
    y = np.arange(400) % 2
    X = (rng.normal(size=(400, 2)) + 3 * y[:, None]).astype(np.float32)
    monkeypatch.setattr("pnca.estimators.choosing._BANDWIDTHS", (8.0,))  # so that many count
    evidence = []
    for many in (4000, 200):
        monkeypatch.setattr("pnca.estimators.choosing._MANY_NEIGHBOURS", many)
        monkeypatch.setattr("pnca.estimators.choosing.MANY_ROWS", 100)
        model = positive(n_folds=2, max_epochs=3)
        masses, original = [], type(model)._out_of_fold_sums

        def spy(self, *args, original=original, masses=masses):
            masses.append(original(self, *args))
            return masses[-1]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(model), "_out_of_fold_sums", spy)
            model.fit(X, y)
        assert [len(m[0]) for m in masses[-2:]] == [100, 400]  # to choose by, and in the end
        evidence.append(masses[0].logsumexp(dim=2))
    torch.testing.assert_close(evidence[0], evidence[1], rtol=0, atol=0.35)
    assert not torch.equal(evidence[0], evidence[1])


@both_expectations
@pytest.mark.parametrize("batch_size", [None, 15])
def test_fit__never_compares_examples_pair_by_pair(expectation, batch_size, blobs, monkeypatch):
    def refuse(*args):
        raise AssertionError("a kernel between pairs was asked for")

    for module, name in (
        (neighbour, "log_latent_kernel"),
        (neighbour, "log_expected_kernel"),
        (neighbour, "shares_and_log_correct"),
        (neighbour, "class_log_masses"),
    ):
        monkeypatch.setattr(module, name, refuse)
    monkeypatch.setattr("pnca.estimators.choosing.class_log_masses", refuse)
    monkeypatch.setattr(neighbour.NeighbourClassifier, "_warn_if_isolated", lambda self, inputs: None)
    monkeypatch.setattr(Support, "log_kernel", refuse)
    model = positive(expectation=expectation, n_folds=2, max_epochs=20, batch_size=batch_size).fit(*blobs)
    assert model.score(*blobs) > 0.9
    assert np.isfinite(model.evidence(blobs[0])).all()


@both_expectations
def test_training_log_masses__do_not_wait_for_any_value(expectation):
    # Tensors without values: reading one, or a shape that depends on one, fails here.
    teams = None if expectation == "shared" else TEAMS.slices
    with FakeTensorMode():
        z, labels, weights = (
            torch.randn(4, 8, 3),
            torch.arange(8) % 2,
            torch.ones(4 if teams is None else 3, 8),
        )
        clouds = Clouds.of(z, teams)
        places = place_around_classes(clouds, labels, 2, weights, torch.randn(3, 12), 3.0)
        masses = training_log_masses(clouds, clouds, labels, 2, weights, places)
        assert masses.shape == (len(weights), 8, 2)
        assert has_partner(labels, 2, shown=weights > 0).shape == weights.shape
        with pytest.raises(RuntimeError):
            float(masses.sum())


@pytest.mark.parametrize(("kernel", "epochs"), [("exact", 20), ("positive", 5)])
def test_max_epochs__of_many_examples_are_few(kernel, epochs):
    model = positive(kernel=kernel, max_epochs="auto", augmentation=0.0)
    model.n_samples_fit_ = 60_000
    assert model._max_epochs == epochs


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
