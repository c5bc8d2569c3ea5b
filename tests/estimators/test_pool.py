"""The pool: experts beside the neighbours, weighed out of fold, silent far from the data."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_iris, load_wine
from torch import nn

from models import make
from pnca import PNCAClassifier
from pnca.exceptions import InvalidInputError

NAMES = ["neighbours", "linear", "forest"]


def pooled(**settings):
    return make("PNCA pooled", **{"max_epochs": 10, **settings})


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    rows = np.random.RandomState(0).permutation(len(y))
    return X[rows[:60]], y[rows[:60]], X[rows[60:]], y[rows[60:]]


@pytest.fixture(scope="module")
def model(wine):
    return pooled().fit(*wine[:2])


# What is heard


def test_pool__its_weights_are_shares_by_name(model):
    assert list(model.pool_weights_) == NAMES
    assert sum(model.pool_weights_.values()) == pytest.approx(1)
    assert min(model.pool_weights_.values()) > 0


@pytest.mark.parametrize("experts", [["linear"], ("forest",), ["forest", "linear"]])
def test_experts__only_those_that_are_named_are_heard(experts, wine):
    found = pooled(experts=experts).fit(*wine[:2]).pool_weights_
    assert list(found) == ["neighbours", *sorted(experts, reverse=True)]


@pytest.mark.parametrize(
    "settings",
    [
        {"experts": ()},
        {"n_folds": None},
        {"kernel": "positive"},
        {"image_shape": (13, 1)},
        {"module": lambda: nn.Linear(13, 4)},
    ],
)
def test_experts__auto_hears_none_but_for_rows_that_are_compared_one_by_one(settings, wine):
    assert not hasattr(pooled(**settings).fit(*wine[:2]), "pool_weights_")


def test_experts__can_be_asked_for_with_images_and_modules_and_positive_features(wine):
    X, y = wine[:2]
    for settings in ({"image_shape": (13, 1)}, {"kernel": "positive"}, {"module": lambda: nn.Linear(13, 4)}):
        model = pooled(experts=["linear", "forest"], **settings).fit(X, y)
        assert list(model.pool_weights_) == NAMES
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"experts": ["tree"]}, "experts names 'tree': the experts are linear, forest"),
        ({"experts": [1]}, "experts names 1"),
        ({"experts": ["linear"], "n_folds": None}, "learnt out of fold: give n_folds"),
    ],
)
def test_experts__wrong_ones_are_named(settings, message, wine):
    with pytest.raises(InvalidInputError, match=message):
        pooled(**settings).fit(*wine[:2])


def test_networks__are_small_beside_experts_and_large_without(noisy):
    X, y = noisy
    alone, beside = PNCAClassifier(experts=(), max_epochs=1), PNCAClassifier(max_epochs=1)
    assert [len(model.fit(X, y).particles_) for model in (alone, beside)] == [10, 8]
    assert [model.particles_.shape[1] for model in (alone, beside)] == [4 * 200 + 201 * 200 + 201 * 10, 1410]


@pytest.mark.parametrize(("n_columns", "begins_with"), [(100, 0), (101, 10)])
def test_pool__neighbours_begin_with_trust_where_columns_are_as_many_as_pixels(n_columns, begins_with):
    X = np.random.RandomState(0).normal(size=(60, n_columns))
    X[:, 0] *= 30
    weights = pooled(max_epochs=2).fit(X, X[:, 0] > 0).pool_weights_  # a line is right everywhere
    # Each round of maximisation leaves a part what it began with, of all examples and all that began.
    least = begins_with / (60 + begins_with + 2 + 2)
    assert weights["neighbours"] >= least
    assert (weights["neighbours"] > 10 / 74) == (begins_with == 10)


# What is said


def test_proba__is_the_weighted_mean_of_all_answers_where_inputs_are_familiar(model, wine):
    X = wine[0]
    reader, scaled = model.fitted_.reader, model.fitted_.scaler
    import torch

    inputs = scaled.apply(torch.from_numpy(X)).double()
    say = np.exp(reader.pool.say.log(inputs).numpy())
    alone = pooled(experts=()).fit(*wine[:2]).predict_proba(X)
    answers = [alone, *(e.log_probabilities(inputs).exp().numpy() for e in reader.pool.experts.values())]
    mixed = sum(weight * answer for weight, answer in zip(model.pool_weights_.values(), answers, strict=True))
    expected = say[:, None] * mixed + (1 - say)[:, None] * model.class_prior_
    assert (say == 1).mean() > 0.5
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-6)


def test_oof__probabilities_are_pooled_and_sum_to_one(model, wine):
    y = wine[1]
    np.testing.assert_allclose(model.oof_proba_.sum(axis=1), 1, atol=1e-12)
    assert model.oof_loss_ == pytest.approx(-np.log(model.oof_proba_[np.arange(60), y]).mean())
    alone = pooled(experts=()).fit(*wine[:2])
    assert model.oof_loss_ < alone.oof_loss_
    np.testing.assert_array_equal(model.oof_evidence_, alone.oof_evidence_)
    np.testing.assert_array_equal(model.evidence(wine[2]), alone.evidence(wine[2]))


def test_oof__is_an_honest_estimate_of_what_new_examples_cost(model, wine):
    X, y = wine[2:]
    loss = -np.log(model.predict_proba(X)[np.arange(len(y)), y]).mean()
    assert loss == pytest.approx(model.oof_loss_, abs=0.1)


@pytest.mark.parametrize("scale", [1e3, 1e6, 1e12])
def test_far_from_all_data__the_class_shares_are_left(model, wine, scale):
    directions = np.random.RandomState(0).normal(size=(20, 13)) * wine[0].std(axis=0)
    found = model.predict_proba(wine[0][:20] + scale * directions)
    np.testing.assert_allclose(found, np.tile(model.class_prior_, (20, 1)), atol=0.02)


def test_novelty__without_it_experts_keep_their_say_everywhere(wine):
    model = pooled(novelty=False, experts=["linear"]).fit(*wine[:2])
    assert model.predict_proba(wine[0][:20] * 1e6).max(axis=1).min() > 0.5


def test_unseen_class__is_answered_with_less_confidence_than_by_the_experts_alone():
    X, y = load_iris(return_X_y=True)
    sure = {}
    for novelty in (True, False):
        confidences = []
        for unseen in (0, 2):
            model = pooled(novelty=novelty).fit(X[y != unseen][::2], y[y != unseen][::2])
            confidences.append((model.predict_proba(X[y == unseen]).max(axis=1) > 0.9).mean())
        sure[novelty] = np.mean(confidences)
    assert sure[True] < 0.3
    assert sure[True] < sure[False]


# The ledger


def test_shares__of_a_class_are_its_probability_less_what_no_example_carries(model, wine):
    import torch

    X, y = wine[2][:30], wine[1]
    indices, shares = model.neighbors(X)
    sums = np.stack([(shares * (y[indices] == c)).sum(axis=1) for c in range(3)], axis=1)
    reader = model.fitted_.reader
    inputs = model.fitted_.scaler.apply(torch.from_numpy(X)).double()
    say = np.exp(reader.pool.say.log(inputs).numpy())[:, None]
    line = reader.pool.experts["linear"].log_probabilities(inputs).exp().numpy()
    alone = pooled(experts=()).fit(*wine[:2])
    missing = 1 - alone.neighbors(X)[1].sum(axis=1)[:, None]  # of the background
    weights = model.pool_weights_
    of_nobody = say * (weights["neighbours"] * missing * model.class_prior_ + weights["linear"] * line)
    of_nobody += (1 - say) * model.class_prior_
    np.testing.assert_allclose(sums + of_nobody, model.predict_proba(X), rtol=1e-6)


def test_shares__of_neighbours_and_a_forest_without_novelty_lack_the_background_only(wine):
    X, y, queries, _ = wine
    model = pooled(experts=["forest"], novelty=False, background=0.0).fit(X, y)
    indices, shares = model.neighbors(queries)
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    sums = np.stack([(shares * (y[indices] == c)).sum(axis=1) for c in range(3)], axis=1)
    np.testing.assert_allclose(sums, model.predict_proba(queries), rtol=1e-9)


def test_uncertainty__parts_add_up_and_experts_that_contradict_count(model, wine):
    total, aleatoric, epistemic = model.uncertainty(wine[2])
    np.testing.assert_allclose(total, aleatoric + epistemic)
    entropy = -(model.predict_proba(wine[2]) * model.predict_log_proba(wine[2])).sum(axis=1)
    np.testing.assert_allclose(total, entropy, rtol=1e-6, atol=1e-9)
    assert epistemic.max() > 0.05


# How it is fitted


def test_groups__are_never_split_between_an_expert_and_what_it_is_judged_by(wine):
    X = wine[0]
    # Every example twice: a fold that split the pair would find it again.
    twice, labels = np.vstack([X, X]), np.random.RandomState(0).permutation(120) % 2
    labels[60:] = labels[:60]
    model = pooled().fit(twice, labels, groups=np.tile(np.arange(60), 2))
    assert (model.folds_[:60] == model.folds_[60:]).all()
    assert model.oof_loss_ > 0.6  # of noise


def test_pure_noise__costs_little_more_than_the_class_shares():
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(400, 6)), (rng.rand(400) < 0.3).astype(int)
    model = pooled(max_epochs=30).fit(X[:100], y[:100])
    loss = -np.log(model.predict_proba(X[100:])[np.arange(300), y[100:]]).mean()
    shares = -np.log(np.where(y[100:] == 1, y[:100].mean(), 1 - y[:100].mean())).mean()
    assert loss < 1.05 * shares


def test_class_weight__that_is_nothing_beside_another_is_refused(wine):
    """In a leaf of such examples alone shares would be nothing of nothing."""
    X, y = wine[:2]
    with pytest.raises(InvalidInputError, match="gives class 2 1e-30, which is nothing beside 1e"):
        pooled(class_weight={0: 1e30, 1: 1.0, 2: 1e-30}).fit(X, y)
    model = pooled(class_weight={0: 1e18, 1: 1.0, 2: 1e-18}).fit(X, y)
    assert np.isfinite(model.neighbors(X)[1]).all()


def test_class_weight__is_like_repeating_examples_for_experts_too(wine):
    X, y = wine[:2]
    model = pooled(class_weight={0: 3.0, 1: 1.0, 2: 1.0}).fit(X, y)
    plain = pooled().fit(X, y)
    far = X[:5] + 1e9
    assert model.predict_proba(far)[:, 0].min() > plain.predict_proba(far)[:, 0].max()


def test_order_of_rows__changes_nothing(wine):
    X, y, queries, _ = wine
    order = np.random.RandomState(1).permutation(len(y))
    one, other = pooled().fit(X, y), pooled().fit(X[order], y[order])
    np.testing.assert_allclose(one.predict_proba(queries), other.predict_proba(queries), rtol=1e-12)
    np.testing.assert_array_equal(one.oof_proba_[order], other.oof_proba_)
    assert one.pool_weights_ == other.pool_weights_
    # Examples with equal shares come in the order of the rows, so shares are compared row by row.
    of_rows = []
    for fitted, rows in ((one, np.arange(len(y))), (other, order)):
        indices, shares = fitted.neighbors(queries)
        of_rows.append(np.empty_like(shares))
        np.put_along_axis(of_rows[-1], rows[indices], shares, axis=1)
    np.testing.assert_allclose(*of_rows)


def test_pickle__predicts_the_same(model, wine):
    restored = pickle.loads(pickle.dumps(model))
    assert np.array_equal(restored.predict_log_proba(wine[2]), model.predict_log_proba(wine[2]))
    assert restored.pool_weights_ == model.pool_weights_


def test_interrupted__fits_have_particles_alone(wine, monkeypatch):
    def interrupt(self, *args, **kwargs):
        raise KeyboardInterrupt

    model = pooled(max_epochs=5)
    from pnca.models import neighbours

    monkeypatch.setattr(neighbours, "with_pool", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*wine[:2])
    assert model.was_interrupted_
    assert not hasattr(model, "pool_weights_")
    np.testing.assert_allclose(model.predict_proba(wine[2]).sum(axis=1), 1)
