"""What PNCA adds: folds that choose, a distance that is kept, images, groups, scales."""

import copy
import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from torch import nn

import reference
from models import assert_blind_to_fold, make, training_batch
from pnca import PNCAClassifier, paper_settings
from pnca.estimators import neighbour
from pnca.estimators.base import Examples
from pnca.exceptions import InvalidInputError
from pnca.maths.inputs import held_out_log_residuals
from pnca.training.folds import Teams

OUT_OF_FOLD = ["oof_proba_", "oof_evidence_", "oof_loss_", "folds_"]


@pytest.fixture(scope="module")
def noisy():
    """Two classes that overlap: 40 examples in three dimensions."""
    rng = np.random.RandomState(1)
    y = np.arange(40) % 2
    return (rng.normal(size=(40, 3)) + 1.5 * y[:, None]).astype(np.float32), y


@pytest.fixture(scope="module")
def digits():
    """Sixty images (8, 8) of zeros and ones."""
    X, y = load_digits(n_class=2, return_X_y=True)
    return X[:60].reshape(60, 8, 8).astype(np.float32), y[:60]


@pytest.fixture
def watch(monkeypatch):
    """Fit a model on given folds and return what it looked at on the way."""

    def fit(model, X, y, folds=None, **others):
        snapshots, original = [], PNCAClassifier._snapshots

        def seen(self, epoch, particles, data):
            found = original(self, epoch, particles, data)
            snapshots.extend(found)
            return found

        with monkeypatch.context() as patch:
            patch.setattr(PNCAClassifier, "_snapshots", seen)
            if folds is not None:
                patch.setattr("pnca.estimators.choosing.assign_folds", lambda *args: folds)
            model.fit(X, y, **others)
        return snapshots

    return fit


# Out of fold


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
    monkeypatch.setattr("pnca.estimators.choosing._BANDWIDTHS", (2.0,))
    monkeypatch.setattr("pnca.estimators.choosing._BACKGROUNDS", (0.5,))
    model = make("PNCA", novelty=False).fit(*noisy)
    assert model.bandwidth_ == pytest.approx(6.0)
    typical = math.exp(np.median(model.oof_evidence_))
    assert model.background_ == pytest.approx(0.5 * math.exp(-5) * typical)


@pytest.mark.parametrize("background", [0.0, 0.1, 2.0])
@pytest.mark.parametrize("n_folds", [None, 3])
def test_oof__background_that_is_given_is_kept(background, n_folds, noisy):
    model = make("PNCA", background=background, n_folds=n_folds, max_epochs=5).fit(*noisy)
    assert model.background_ == background


def test_oof__one_of_the_particles_in_two_stands_in_for_all(noisy, watch):
    for n_particles, n_per_fold in ((1, 1), (2, 1), (3, 2)):
        snapshots = watch(make("PNCA", n_particles=n_particles, n_folds=4, max_epochs=30), *noisy)
        assert [snapshot.epoch for snapshot in snapshots] == [1, 3, 10, 30]
        assert all(len(snapshot.particles) == n_particles for snapshot in snapshots)
        assert snapshots[0].embeddings.shape == (n_particles + 4 * n_per_fold, 40, 10)


def test_oof__particles_are_those_of_the_epoch_that_was_chosen(noisy, watch):
    model = make("PNCA")
    by_epoch = {snapshot.epoch: snapshot for snapshot in watch(model, *noisy)}
    chosen = by_epoch[model.best_epoch_]
    assert np.array_equal(model.particles_, chosen.particles.numpy())
    np.testing.assert_allclose(model.support_embeddings_, chosen.embeddings[:3].numpy(), atol=1e-5)


@pytest.mark.parametrize("expectation", ["shared", "cross"])
@pytest.mark.parametrize(("weight", "factor"), [(None, 0.5), ({0: 1.0, 1: 3.0}, 2.0)])
def test_oof__equals_the_equation_on_the_embeddings(expectation, weight, factor, noisy, watch, monkeypatch):
    X, y = noisy
    monkeypatch.setattr("pnca.estimators.choosing._BANDWIDTHS", (factor,))
    model = make("PNCA", expectation=expectation, class_weight=weight, n_folds=3, n_particles=3)
    by_epoch = {snapshot.epoch: snapshot for snapshot in watch(model, X, y)}
    embeddings = by_epoch[model.best_epoch_].embeddings.double()
    assert model.bandwidth_ == pytest.approx(3.0 * factor)
    x, alpha, prior = model.support_inputs_.astype(np.float64), model.background_, model.class_prior_
    weights = model.class_weight_[y]
    for i, fold in enumerate(model.folds_):
        team = embeddings[3 + 2 * fold : 5 + 2 * fold]  # two particles that do not see the fold
        others = model.folds_ != fold
        if expectation == "shared":
            sq = (team[:, i : i + 1] - team).square().sum(dim=2).numpy()
            latent = np.exp(-sq / model.bandwidth_)  # (2, n)
        else:
            latent = reference.expected_kernel(team[:, i : i + 1], team, model.bandwidth_).numpy()  # (1, n)
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


# Honesty: what a team is not shown it does not know


@pytest.mark.parametrize("expectation", ["shared", "cross"])
@pytest.mark.parametrize("held_out", [0, 2])
def test_folds__gradients_of_a_team_do_not_depend_on_its_fold(expectation, held_out, noisy):
    X, y = noisy
    model = make("PNCA", expectation=expectation, max_epochs=1, dropout=0.0).fit(X, y)
    folds = np.arange(40) // 2 % 4
    teams = Teams(folds=folds, n_particles=2, n_per_fold=2)
    particles = model.network_.draw(teams.n_total, torch.Generator().manual_seed(3)).double()

    inputs, labels = torch.from_numpy(X.copy()).double(), torch.from_numpy(y)
    hidden = torch.from_numpy(folds == held_out)
    assert_blind_to_fold(
        model, particles, inputs, labels, teams, held_out, torch.where(hidden, 1 - labels, labels), 1e-9
    )


@pytest.mark.parametrize("background", [0.0, 0.1])
def test_folds__an_example_whose_partner_is_held_out_learns_nothing_from_it(background):
    # Class 2 has two examples, and the team without fold 1 is shown one of them.
    rng = np.random.RandomState(0)
    y = np.r_[np.arange(20) % 2, 2, 2]
    X = rng.normal(size=(22, 3)) + y[:, None]
    model = make("PNCA", background=background, n_folds=None, max_epochs=1, dropout=0.0).fit(X, y)
    teams = Teams(folds=np.r_[np.arange(20) // 2 % 2, 0, 1], n_particles=1, n_per_fold=1)
    particles = model.network_.draw(3, torch.Generator().manual_seed(3)).double()

    def team_gradient(labels):
        w = particles.clone().requires_grad_()
        batch = training_batch(model, torch.from_numpy(X), torch.from_numpy(labels), teams)
        total_loss = model._evaluate(w, batch).total_loss
        return torch.autograd.grad(total_loss, w)[0][teams.without(1)]

    torch.testing.assert_close(team_gradient(np.r_[y[:21], 0]), team_gradient(y), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("batch_size", [None, 30])
@pytest.mark.parametrize("update", ["independent", "functional"])
def test_folds__trained_teams_do_not_know_the_labels_of_their_fold(batch_size, update, blobs, watch):
    X, y = blobs
    folds = np.arange(60) // 3 % 4  # five examples of each class in each
    within = np.flatnonzero(folds == 1)
    shuffled = y.copy()
    shuffled[within] = np.roll(y[within], 1)  # all wrong, but the class shares stay
    quick = {"scaling": "columns", "dropout": 0.0, "n_folds": 4, "batch_size": batch_size, "update": update}
    # The batches follow the labels too; here they must not.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "pnca.estimators.neighbour.partnered_batches",
            lambda labels, size, rng: np.array_split(rng.permutation(60), 60 // (size or 60)),
        )
        right, wrong = (watch(make("PNCA", **quick), X, labels, folds)[-1] for labels in (y, shuffled))
    teams = Teams(folds=folds, n_particles=3, n_per_fold=2)
    # Where the whole cloud lies does not matter to any distance: no gradient holds it, and rounding moves it.
    right, wrong = (z.embeddings - z.embeddings.mean(dim=1, keepdim=True) for z in (right, wrong))
    moved = (right - wrong).abs()
    # Held-out terms of weight zero stand elsewhere in the sums, whose rounding Adam amplifies.
    assert moved[teams.without(1)].max() < 1e-3
    for team in (teams.full, teams.without(0), teams.without(2), teams.without(3)):
        assert moved[team].amax(dim=(1, 2)).min() > 0.05


def test_folds__own_label_does_not_show_in_the_probability_of_an_example(noisy, watch, monkeypatch):
    # Swapping the labels of two examples of a fold moves everything but what is predicted for that fold.
    # The choice among settings sees all labels, so there is none here.
    monkeypatch.setattr("pnca.estimators.choosing._BANDWIDTHS", (1.0,))
    monkeypatch.setattr("pnca.estimators.choosing._CHECKPOINTS", (1.0,))
    X, y = noisy
    folds = np.arange(40) // 2 % 5
    first, second = np.flatnonzero(folds == 2)[:2]
    swapped = y.copy()
    swapped[[first, second]] = y[[second, first]]
    answers = []
    for labels in (y, swapped):
        model = make("PNCA", scaling="columns", dropout=0.0, background=0.05)
        watch(model, X, labels, folds)
        answers.append(model.oof_proba_)
    moved = np.abs(answers[0] - answers[1]).max(axis=1)
    assert moved[folds == 2].max() < 1e-3
    assert moved[folds != 2].max() > 0.01


def test_fit__class_of_weight_zero_leaves_a_choice(noisy):
    # 0 * log 0 must not turn the costs of all candidates into NaN, of which the first would be taken.
    X, y = noisy
    three = np.r_[y, [2] * 10]
    inputs = np.r_[X, X[:10] + 3]
    weighted = make("PNCA", class_weight={0: 1.0, 1: 1.0, 2: 0.0}).fit(inputs, three)
    assert weighted.best_epoch_ > 1
    assert (weighted.oof_proba_[:, 2] == 0).all()


@pytest.mark.filterwarnings("ignore:Only one example of class")
def test_fit__class_of_one_example_leaves_a_choice_without_a_background(blobs):
    X, y = np.r_[blobs[0], blobs[0][:1] + 9], np.r_[blobs[1], ["yew"]]
    model = make("PNCA", background=0.0).fit(X, y)
    assert model.best_epoch_ > 1


# The guarantee: far from all training examples the class shares decide


@st.composite
def problems(draw):
    """Random inputs of random classes, of which one at least has two examples."""
    n, p, c = draw(st.integers(8, 14)), draw(st.integers(1, 5)), draw(st.integers(2, 4))
    rng = np.random.RandomState(draw(st.integers(0, 10_000)))
    unit = 10.0 ** draw(st.integers(-3, 3))
    y = rng.permutation(np.r_[np.arange(c), np.arange(c), rng.randint(c, size=n)])
    X = unit * rng.normal(size=(len(y), p)) + unit * rng.normal(size=p)
    direction = rng.normal(size=p)
    return X, y, X[0], unit * direction / np.linalg.norm(direction), int(rng.randint(1000))


def fitted(X, y, **others):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a few epochs of noise teach nothing
        return make("PNCA", n_particles=2, **others).fit(X, y)


@settings(max_examples=15, deadline=None)
@given(problem=problems(), max_epochs=st.sampled_from([1, 8]), n_folds=st.sampled_from([None, 3]))
def test_guarantee__far_in_input_space_the_prediction_is_the_class_shares(problem, max_epochs, n_folds):
    X, y, start, direction, seed = problem
    model = fitted(X, y, max_epochs=max_epochs, n_folds=n_folds, random_state=seed)
    far = start + np.array([[100.0], [1e4], [1e8]]) * direction
    np.testing.assert_allclose(
        model.predict_proba(far), np.tile(np.bincount(y) / len(y), (3, 1)), rtol=0, atol=1e-6
    )
    evidence = model.evidence(far)
    assert (np.diff(evidence) < 0).all()
    assert evidence[0] < model.evidence(X).min() - 10


@settings(max_examples=15, deadline=None)
@given(problem=problems(), n_folds=st.sampled_from([None, 3]))
def test_guarantee__far_in_the_latent_space_the_prediction_is_the_class_shares(problem, n_folds):
    X, y, start, direction, seed = problem
    p = X.shape[1]
    model = fitted(
        X,
        y,
        input_weight=0.0,
        module=lambda: nn.Linear(p, p + 2),  # nothing is lost
        n_folds=n_folds,
        max_epochs=3,
        random_state=seed,
    )
    unit = np.linalg.norm(direction)
    far = start + np.array([[1e6], [1e8]]) * direction / min(unit, 1)
    np.testing.assert_allclose(
        model.predict_proba(far), np.tile(np.bincount(y) / len(y), (2, 1)), rtol=0, atol=1e-6
    )


def test_guarantee__does_not_hold_without_a_background(noisy):
    model = make("PNCA", background=0.0, max_epochs=3).fit(*noisy)
    assert model.predict_proba(1e4 * np.ones((1, 3))).max() > 0.9


@pytest.mark.parametrize("expectation", ["shared", "cross"])
def test_guarantee__holds_for_images_and_their_inversion(expectation, digits):
    X, y = digits
    model = make("PNCA", expectation=expectation, max_epochs=10).fit(X, y)
    strange = np.stack([16 * (np.indices((8, 8)).sum(axis=0) % 2), 100 * X[0], -50 * X[1]])
    np.testing.assert_allclose(
        model.predict_proba(strange)[1:], np.tile(model.class_prior_, (2, 1)), atol=1e-6
    )
    assert model.evidence(strange).max() < np.quantile(model.evidence(X), 0.02)


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


def test_groups__follow_their_examples_into_batches(noisy, monkeypatch):
    X, _ = noisy
    groups = np.arange(40) // 2
    y, batches = groups % 2, []  # so that a group tells the label
    original = neighbour.has_partner

    def spy(labels, n_classes, of_batch, *others):
        batches.append((labels, of_batch))
        return original(labels, n_classes, of_batch, *others)

    monkeypatch.setattr(neighbour, "has_partner", spy)
    make("PNCA", batch_size=15, max_epochs=2).fit(X, y, groups=groups)
    assert len(batches[1:]) == 6  # the first look is at all examples
    for labels, of_batch in batches:
        assert torch.equal(of_batch % 2, labels)


# Novelty


def far_off_the_plane(X, by):
    """Inputs that have something the others lack: a column that is nearly constant there."""
    return X + by * np.array([0, 0, 1], dtype=X.dtype)


def test_novelty__of_very_wide_inputs_is_found_from_a_few(monkeypatch):
    monkeypatch.setattr("pnca.estimators.novelty._MANY_NUMBERS", 100)
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(60, 40)).astype(np.float32), np.arange(60) % 2
    model = make("PNCA", max_epochs=1).fit(X, y)
    assert len(model.input_directions_) < 20
    assert np.isfinite(model.evidence(X)).all()


def test_novelty__is_known_where_almost_all_examples_are_of_one_group():
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(60, 4)).astype(np.float32), np.arange(60) % 2
    groups = np.r_[np.zeros(58, dtype=int), 1, 1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pnca.estimators.novelty._MANY_ROWS", 20)
        patch.setattr(
            "pnca.estimators.novelty.spread_rows", lambda n, k: torch.arange(min(n, k))
        )  # of the large group alone
        model = make("PNCA", max_epochs=1, n_folds=2).fit(X, y, groups=groups)
    assert np.isfinite(model.predict_proba(X)).all()
    assert np.isfinite(model.oof_evidence_).all()


@pytest.fixture
def flat():
    """Two classes in a plane of three dimensions, and a little beside it."""
    rng = np.random.RandomState(0)
    y = np.arange(60) % 2
    X = rng.normal(size=(60, 3)) * [1, 1, 0.02] + 2 * y[:, None] * [1, 0, 0]
    return X.astype(np.float32), y


@pytest.mark.parametrize("name", ["PNCA", "PNCA cross", "PNCA positive", "PNCA shared"])
def test_novelty__takes_an_input_off_the_plane_to_the_class_shares(name, flat):
    X, y = flat
    settings = {"scaling": None, "max_epochs": 10, "input_weight": 0.0, "module": lambda: nn.Linear(3, 4)}
    model = make(name, **settings).fit(X, y)
    away = far_off_the_plane(X, 3.0)
    np.testing.assert_allclose(model.predict_proba(away), np.tile(model.class_prior_, (60, 1)), atol=1e-3)
    assert model.evidence(away).max() < model.evidence(X).min()
    confident = make(name, novelty=False, **settings).fit(X, y)
    assert np.abs(confident.predict_proba(X) - model.predict_proba(X)).mean() < 0.05


def test_novelty__can_be_switched_off_after_the_fit_but_not_on(flat):
    X, y = flat
    model = make("PNCA", max_epochs=2).fit(X, y)
    away = far_off_the_plane(X, 3.0)
    assert (
        model.set_params(novelty=False).evidence(away).min()
        > model.set_params(novelty=True).evidence(away).max()
    )
    without = make("PNCA", max_epochs=2, novelty=False).fit(X, y).set_params(novelty=True)
    with pytest.raises(InvalidInputError, match="novelty was set to True after the fit; fit again"):
        without.predict(X)


def test_novelty__leaves_ordinary_inputs_alone(flat):
    X, y = flat
    model = make("PNCA", max_epochs=10).fit(X[:40], y[:40])
    factor = model._log_familiarity(model._scaled(torch.from_numpy(X[40:]).double()))
    assert (factor == 0).double().mean() > 0.6
    assert factor.min() > -model.novelty_depth_


@pytest.mark.parametrize("name", ["PNCA", "PNCA cross"])
def test_novelty__neighbours_lose_the_mass_that_the_answer_loses(name, flat):
    X, y = flat
    model = make(name, max_epochs=10).fit(X, y)
    queries = far_off_the_plane(X[:8], 0.1)
    indices, shares = model.neighbors(queries)
    own = np.zeros((8, 2))
    for i in range(8):
        np.add.at(own[i], model.support_labels_[indices[i]], shares[i])
    background = 1 - shares.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(own + background * model.class_prior_, model.predict_proba(queries), rtol=1e-6)


def test_novelty__held_out_examples_are_as_familiar_as_new_ones():
    rng = np.random.RandomState(0)
    X = (rng.normal(size=(400, 6)) * [3, 2, 1, 0.3, 0.2, 0.1]).astype(np.float32)
    y = np.arange(400) % 2
    model = make("PNCA", max_epochs=1, scaling=None).fit(X[:100], y[:100])
    new = model._log_familiarity(torch.from_numpy(X[100:]).double())
    held_out = model._log_familiarity_of(
        held_out_log_residuals(torch.from_numpy(X[:100]).double(), torch.from_numpy(model.folds_))
    )
    assert abs((new < 0).double().mean() - (held_out < 0).double().mean()) < 0.12


def test_novelty__many_examples_are_a_sample_that_is_held_out_too(monkeypatch):
    monkeypatch.setattr("pnca.estimators.novelty._MANY_ROWS", 50)
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(200, 4)).astype(np.float32), np.arange(200) % 2
    model = make("PNCA", max_epochs=1, n_folds=3).fit(X, y)
    residuals = model._set_plane(Examples(model.support_inputs_, y), model.folds_)
    assert residuals.shape == (200,)
    assert residuals.isfinite().all()
    assert model.input_directions_.shape[1] == 4


# Images


def compared_in_training(model, X, y):
    """Embeddings, and inputs, of the examples and of those they are compared with at the first step."""
    embeddings, inputs = [], []
    kernel, factor = PNCAClassifier._log_latent_kernel, PNCAClassifier._log_input_factor

    def spy_on_embeddings(self, a, b, *others):
        embeddings.append((a.detach(), b.detach()))
        return kernel(self, a, b, *others)

    def spy_on_inputs(self, a, b):
        inputs.append((a, b))
        return factor(self, a, b)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PNCAClassifier, "_log_latent_kernel", spy_on_embeddings)
        patch.setattr(PNCAClassifier, "_log_input_factor", spy_on_inputs)
        model.fit(X, y)
    return *embeddings[0], *inputs[0]


@pytest.mark.parametrize("shape", [(8, 8), (8, 8, 1), (1, 8, 8)])
def test_images__are_the_same_as_rows_with_their_shape(shape, digits):
    X, y = digits
    rows = X.reshape(60, 64)
    quick = {"max_epochs": 10, "dropout": "auto"}
    of_rows = make("PNCA", image_shape=(8, 8), **quick).fit(rows, y)
    of_images = make("PNCA", **quick).fit(X.reshape(60, *shape), y)
    assert of_images.input_shape_ == shape
    assert np.array_equal(of_images.predict_proba(X.reshape(60, *shape)), of_rows.predict_proba(rows))
    assert np.array_equal(of_images.oof_proba_, of_rows.oof_proba_)
    assert of_rows.score(rows, y) > 0.95


def test_images__are_augmented_unless_told_otherwise(digits, monkeypatch):
    X, y = digits
    strengths = []

    def spy(inputs, image, strength):
        strengths.append(strength)
        assert (image.height, image.width, image.channels) == (8, 8, 1)
        return inputs

    monkeypatch.setattr("pnca.estimators.base.augment", spy)
    make("PNCA", max_epochs=2).fit(X, y)
    make("PNCA", max_epochs=1, augmentation=0.5).fit(X, y)
    assert strengths == [1.0, 1.0, 0.5]  # three particles cannot be halved
    make("PNCA", max_epochs=2, augmentation=0.0).fit(X, y)
    make("PNCA", max_epochs=2).fit(X.reshape(60, 64), y)
    make("PNCA", max_epochs=2, module=lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 4))).fit(X, y)
    assert len(strengths) == 3


def test_images__half_of_the_particles_see_them_moved_more(digits, monkeypatch):
    X, y = digits
    strengths, moved = [], {1.0: 100.0, 1.5: 200.0}

    def spy(inputs, image, strength):
        strengths.append(strength)
        return inputs + moved[strength]

    monkeypatch.setattr("pnca.estimators.base.augment", spy)
    settings = {"n_particles": 4, "n_folds": 2, "dropout": 0.0, "max_epochs": 1}
    outputs, _, queries, inputs = compared_in_training(make("PNCA", **settings), X, y)
    assert strengths == [1.0, 1.5]
    assert len(outputs) == 4 + 2 * 2
    for kind, by in enumerate((100, 200)):
        torch.testing.assert_close(queries[kind], inputs + by)
    # What the particles embed is what those of their kind see.
    far = outputs.abs().mean(dim=(1, 2))
    assert far[1::2].min() > 1.3 * far[0::2].max()


@pytest.mark.parametrize("in_tiles", [False, True])
def test_images__kinds_of_particles_train_as_each_would_alone(in_tiles, digits, monkeypatch):
    # Particles do not know of each other: the gradient of one kind is that of a model of this kind only.
    X, y = digits
    monkeypatch.setattr("pnca.estimators.base.augment", lambda inputs, image, strength: inputs * strength)
    monkeypatch.setattr("pnca.accelerated.WORTH_WHILE", 0 if in_tiles else 2**40)
    model = make("PNCA", n_particles=4, n_folds=2, dropout=0.0, max_epochs=1).fit(X, y)
    model.background_ = 0.03
    inputs, labels = torch.from_numpy(model.support_inputs_), torch.from_numpy(model.support_labels_)
    particles = model.network_.draw(8, torch.Generator().manual_seed(0))

    def gradients(some, teams):
        w = some.clone().requires_grad_()
        batch = training_batch(model, inputs, labels, teams)
        return torch.autograd.grad(model._evaluate(w, batch).total_loss, w)[0]

    both = gradients(particles, Teams(folds=model.folds_, n_particles=4, n_per_fold=2, n_kinds=2))
    for kind, strength in enumerate((1.0, 1.5)):
        model.augmentation = strength
        alone = gradients(particles[kind::2], Teams(folds=model.folds_, n_particles=2, n_per_fold=1))
        torch.testing.assert_close(both[kind::2], alone, rtol=1e-4, atol=1e-5)


def test_images__the_strength_that_held_out_images_ask_for_is_kept():
    # Held-out images are turned by any angle: who has seen more of that predicts them better.
    X, y = load_digits(return_X_y=True)
    X = X[:80].reshape(-1, 8, 8)
    model = make("PNCA", n_particles=4, max_epochs=20).fit(X, y[:80])
    assert set(model.augmentation_) <= {1.0, 1.5}
    assert len(model.particles_) == len(model.support_embeddings_) == 2 * len(model.augmentation_)
    assert model.oof_proba_.shape == (80, 10)


def test_kinds__one_that_learns_nothing_is_left_out(digits, monkeypatch):
    X, y = digits

    def noise_if_strong(inputs, image, strength):
        return inputs if strength == 1 else 30 * torch.randn_like(inputs)

    monkeypatch.setattr("pnca.estimators.base.augment", noise_if_strong)
    model = make("PNCA", n_particles=4, max_epochs=30).fit(X, y)
    assert model.augmentation_ == (1.0,)
    assert len(model.particles_) == 2


def test_images__only_the_example_itself_is_moved(digits, monkeypatch):
    # Those it is compared with are as they will be in prediction.
    X, y = digits
    monkeypatch.setattr("pnca.estimators.base.augment", lambda inputs, image, strength: inputs + 100)
    moved_embeddings, embeddings, moved, inputs = compared_in_training(
        make("PNCA", dropout=0.0, max_epochs=1, background=0.0, n_folds=None), X, y
    )
    torch.testing.assert_close(moved, inputs + 100)
    assert (moved_embeddings - embeddings).abs().mean() > 1


def test_dropout__falls_on_the_example_itself_alone(noisy):
    settings = {"max_epochs": 1, "n_folds": None, "random_state": 0}
    dropped, embeddings, *_ = compared_in_training(make("PNCA", dropout=0.5, **settings), *noisy)
    whole, support, *_ = compared_in_training(make("PNCA", dropout=0.0, **settings), *noisy)
    assert (dropped - whole).abs().mean() > 0.01
    assert torch.equal(embeddings, whole)
    assert torch.equal(support, whole)


def test_images__have_one_centre_and_one_spread(digits):
    X, y = digits
    model = make("PNCA", max_epochs=1).fit(X + 1.0, y)  # no zeros: they would be the background
    assert np.unique(model.input_centre_).size == np.unique(model.input_spread_).size == 1
    assert model.input_centre_[0] == pytest.approx((X + 1).mean())
    X, y = table(n=40)  # as a table it would get a spread for each column
    assert np.unique(make("PNCA", max_epochs=1).fit(X[:, None, :], y).input_spread_).size == 1


def test_images__augmentation_of_a_table_is_refused_with_advice(noisy):
    with pytest.raises(InvalidInputError, match=r"pass image_shape=\(height, width\), or X of shape"):
        make("PNCA", augmentation=1.0).fit(*noisy)


# Class shares


@pytest.fixture(scope="module")
def lopsided():
    """Four examples of class 0 for one of class 1, which overlap: 200 to learn from, 1,000 to test."""
    rng = np.random.RandomState(2)
    y = (np.arange(1200) % 5 == 0).astype(int)
    X = (rng.normal(size=(1200, 3)) + y[:, None]).astype(np.float32)
    return X[:200], y[:200], X[200:]


def test_imbalance__the_rare_class_is_predicted_as_often_as_it_is_there(lopsided):
    X, y, new = lopsided
    model = make("PNCA").fit(X, y)
    np.testing.assert_allclose(model.class_prior_, [0.8, 0.2])
    assert model.predict_proba(new)[:, 1].mean() == pytest.approx(0.2, abs=0.05)
    assert model.oof_proba_[:, 1].mean() == pytest.approx(0.2, abs=0.05)
    far = model.predict_proba(1000 * np.ones((1, 3)))
    np.testing.assert_allclose(far, [[0.8, 0.2]], atol=1e-6)


def test_imbalance__balanced_weights_make_the_classes_equal(lopsided):
    X, y, new = lopsided
    model = make("PNCA", class_weight="balanced").fit(X, y)
    np.testing.assert_allclose(model.class_prior_, [0.5, 0.5])
    np.testing.assert_allclose(model.predict_proba(1000 * np.ones((1, 3))), [[0.5, 0.5]], atol=1e-6)
    plain = make("PNCA").fit(X, y)
    assert model.predict_proba(new)[:, 1].mean() > plain.predict_proba(new)[:, 1].mean() + 0.1


# Uncertainty and evidence


def test_uncertainty__far_away_it_is_the_entropy_of_the_class_shares(noisy):
    model = make("PNCA").fit(*noisy)
    far = 1e5 * np.ones((1, 3))
    total, _, epistemic = model.uncertainty(far)
    assert total[0] == pytest.approx(math.log(2))
    assert epistemic[0] == pytest.approx(0, abs=1e-6)  # all agree that they do not know
    assert model.evidence(far)[0] < model.evidence(noisy[0]).min() - 100


def test_uncertainty__between_two_classes_it_is_larger_than_within(blobs):
    X, y = blobs
    model = make("PNCA").fit(X, y)
    within = model.uncertainty(np.full((1, 5), -2.0)).total[0]
    between = model.uncertainty(np.full((1, 5), -1.0)).total[0]
    assert between > within + 0.2


def test_uncertainty__one_particle_or_crossed_particles_do_not_disagree(noisy):
    for alike in ({"n_particles": 1}, {"expectation": "cross"}):
        epistemic = make("PNCA", max_epochs=5, **alike).fit(*noisy).uncertainty(noisy[0]).epistemic
        np.testing.assert_allclose(epistemic, 0, atol=1e-12)
    assert make("PNCA", max_epochs=5).fit(*noisy).uncertainty(noisy[0]).epistemic.max() > 1e-4


def test_predictions__do_not_depend_on_how_they_are_split(digits, monkeypatch):
    X, y = digits
    model = make("PNCA", max_epochs=5).fit(X, y)

    def answers():
        return [model.predict_log_proba(X), model.evidence(X), *model.uncertainty(X), *model.neighbors(X, 3)]

    whole = answers()
    monkeypatch.setattr("pnca.estimators.base.PREDICTION_ROWS", 7)
    for expected, got in zip(whole, answers(), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)


# Settings that depend on the data


def seen_by(n, n_classes=2, shape=(4,), **others):
    """A model that knows the size of its training data, and nothing else."""
    model = PNCAClassifier(**others)
    model.n_samples_fit_, model.classes_, model.input_shape_ = n, np.arange(n_classes), shape
    return model


@pytest.mark.parametrize(
    ("n", "n_classes", "batch_size", "max_epochs"),
    [
        (400, 2, None, 300),
        (500, 10, None, 300),
        (1000, 2, 250, 112),
        (1000, 40, 400, 112),
        (60_000, 10, 250, 20),
    ],
)
def test_auto__batch_size_and_epochs_follow_the_number_of_examples(n, n_classes, batch_size, max_epochs):
    for shape in ((4,), (8, 8)):
        model = seen_by(n, n_classes, shape)
        assert (model._batch_size, model._max_epochs) == (batch_size, max_epochs)
        model.set_params(batch_size=None, max_epochs=7)
        assert (model._batch_size, model._max_epochs) == (None, 7)
        model.set_params(batch_size=32)
        assert model._batch_size == 32


def test_auto__the_number_of_steps_does_not_jump():
    steps = []
    for n in (500, 600, 1000, 2000, 3000):
        model = seen_by(n)
        steps.append(model._max_epochs * math.ceil(n / (model._batch_size or n)))
    assert min(steps) == 300
    assert max(steps) < 600


@pytest.mark.parametrize(
    ("shape", "others", "dropout"),
    [
        ((50,), {}, 0.25),
        ((2,), {}, 0.5 * 2 / 52),
        ((5000,), {}, 0.5 * 5000 / 5050),
        ((28, 28), {}, 0.2),
        ((784,), {"image_shape": (28, 28)}, 0.2),
        ((28, 28), {"module": nn.Flatten}, 0.0),
        ((50,), {"dropout": 0.4}, 0.4),
    ],
)
def test_auto__dropout_follows_the_kind_of_the_inputs(shape, others, dropout):
    assert seen_by(100, shape=shape, **others)._dropout == pytest.approx(dropout)


def test_auto__input_weight_follows_from_the_distances_alone(noisy):
    X, y = noisy
    first, second = (make("PNCA", max_epochs=1).fit(X, labels) for labels in (y, np.roll(y, 7) * 3))
    assert first.input_weight_ == second.input_weight_ > 0
    assert make("PNCA", max_epochs=1, input_weight=0.7).fit(X, y).input_weight_ == 0.7


def test_paper_settings__choose_nothing_and_add_nothing(noisy):
    model = PNCAClassifier(**{**paper_settings("PNCA"), "max_epochs": 2, "random_state": 0}).fit(*noisy)
    assert (model.bandwidth_, model.background_, model.input_weight_, model.best_epoch_) == (4.0, 0.0, 0.0, 2)
    assert not any(hasattr(model, name) for name in [*OUT_OF_FOLD, "input_centre_", "support_inputs_"])
    assert (model._dropout, model._augmentation, model._batch_size) == (0.0, 0.0, None)


# Scaling


def table(n=120, informative=1e-3, noise=1e3):
    """What matters is in tiny units, noise in huge ones."""
    rng = np.random.RandomState(0)
    y = np.arange(n) % 2
    X = np.stack([informative * (rng.normal(size=n) + 5 * y), noise * rng.normal(size=n) + 2e3], axis=1)
    return X, y


def test_scaling__finds_a_tiny_column_beside_a_huge_one():
    X, y = table()
    model = make("PNCA").fit(X[:60], y[:60])
    assert model.score(X[60:], y[60:]) > 0.9
    assert (model.oof_proba_.argmax(axis=1) == y[:60]).mean() > 0.9
    centre, spread = X[:60].mean(axis=0), 3 * X[:60].std(axis=0)
    np.testing.assert_allclose(model.input_centre_, centre, rtol=1e-5)
    np.testing.assert_allclose(model.input_spread_, spread, rtol=1e-5)


def test_scaling__takes_one_unit_where_small_columns_are_noise():
    rng = np.random.RandomState(0)
    y = np.arange(60) % 2
    X = np.hstack([rng.normal(size=(60, 2)) + 4 * y[:, None], 0.02 * rng.normal(size=(60, 60))])
    assert np.unique(make("PNCA", max_epochs=1).fit(X, y).input_spread_).size == 1
    assert np.unique(make("PNCA", max_epochs=1, scaling="columns").fit(X, y).input_spread_).size == 62


def test_scaling__of_many_examples_does_not_depend_on_their_order():
    X, y = table(n=1200)  # the classes take turns
    order = np.random.RandomState(0).permutation(1200)
    for rows in (order, np.arange(1200)):
        model = make("PNCA", n_folds=None, max_epochs=1).fit(X[rows], y[rows])
        assert np.unique(model.input_spread_).size == 2


def test_scaling__unit_of_the_inputs_does_not_matter(noisy):
    X, y = noisy
    expected = make("PNCA").fit(X, y)
    # A power of two changes no digit; a thousand rounds, and training makes a little more of that.
    for unit, tolerance in ((1024.0, 1e-12), (1000.0, 0.01)):
        model = make("PNCA").fit(unit * X, y)
        np.testing.assert_allclose(model.predict_proba(unit * X), expected.predict_proba(X), atol=tolerance)
        np.testing.assert_allclose(model.oof_proba_, expected.oof_proba_, atol=tolerance)


def test_scaling__none_leaves_inputs_alone(noisy):
    X, y = noisy
    model = make("PNCA", scaling=None, max_epochs=1).fit(X, y)
    assert not hasattr(model, "input_centre_")
    assert np.array_equal(model.support_inputs_, X)
    refitted = make("PNCA", max_epochs=1).fit(X, y).set_params(scaling=None).fit(X, y)
    assert np.array_equal(refitted.predict_proba(X), model.predict_proba(X))


# Interrupts and copies


@pytest.mark.parametrize("n_done", [0, 1, 2, 25])  # the first look is after two epochs of sixty
def test_interrupt__leaves_a_usable_model(n_done, noisy, monkeypatch):
    X, y = noisy
    original, calls = PNCAClassifier._evaluate, []

    def interrupted(self, *args):
        calls.append(1)
        if len(calls) > n_done:
            raise KeyboardInterrupt
        return original(self, *args)

    monkeypatch.setattr(PNCAClassifier, "_evaluate", interrupted)
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
