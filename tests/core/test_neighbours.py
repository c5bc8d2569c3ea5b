"""The leave-one-out objective: who is compared with whom, and what each model is trained on."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import reference
from models import (
    assert_blind_to_fold,
    digits,
    draw,
    gradients,
    make,
    noisy,
    objective,
    options_of,
    planned,
    watched_fit,
)
from pnca.maths.inputs import InputFactor
from pnca.maths.neighbours import LOG_ZERO
from pnca.models import kernels, neighbours, plan
from pnca.models.kernels import ExactKernel
from pnca.training import augmentation
from pnca.training.sampling import FoldModels

both_expectations = pytest.mark.parametrize("expectation", ["shared", "cross"])


@pytest.fixture
def three_classes(blobs):
    """The blobs, with numbers as labels."""
    return blobs[0], np.unique(blobs[1], return_inverse=True)[1]


# The loss


@pytest.mark.parametrize("n_particles", [1, 3])
def test_evaluate__without_a_background_is_the_loss_of_the_paper(n_particles):
    X, y = noisy()
    of = objective(make("PNCA exact", n_particles=n_particles, background=0.0, bandwidth=1.7), X[:8], y[:8])
    particles = draw(of)
    found = of.evaluate(particles, of.prepare(torch.arange(8)), None, None)
    expected = reference.pnca_loss(of.embed(particles), of.labels, 1.7)
    torch.testing.assert_close(found.total_loss, expected)
    torch.testing.assert_close(found.mean_loss, expected / 8)


def test_evaluate__shared_particles_learn_on_their_own(three_classes):
    # A particle's gradient does not depend on how many others there are.
    of = objective(make("PNCA shared", dropout=0.0), *three_classes)
    particles = draw(of)
    together = gradients(of, particles)
    assert (together.norm(dim=1) > 0).all()
    alone = replace(of, models=FoldModels(folds=None, n_particles=1))
    for row in range(3):
        torch.testing.assert_close(together[row : row + 1], gradients(alone, particles[row : row + 1]))


@both_expectations
def test_evaluate__accuracy_is_that_of_the_full_model_and_the_mean_is_over_all_terms(expectation):
    of = objective(make("PNCA", expectation=expectation, n_folds=4, dropout=0.0), *noisy())
    particles, batch = draw(of), of.prepare(torch.arange(40))
    found = of.evaluate(particles, batch, None, None)
    spoilt = particles.clone()
    spoilt[of.models.n_particles :] *= -5
    other = of.evaluate(spoilt, batch, None, None)
    assert other.n_correct == found.n_correct
    assert other.total_loss != found.total_loss
    # Three particles on 40 examples and 4 x 2 on 30; or one answer of each model.
    n_terms = 3 * 40 + 4 * 2 * 30 if expectation == "shared" else 40 + 4 * 30
    torch.testing.assert_close(found.mean_loss, found.total_loss / n_terms)


def test_evaluate__mixing_is_applied_to_the_gradients():
    of = objective(make("PNCA", n_folds=None, dropout=0.0), *noisy())
    particles, batch = draw(of).requires_grad_(), of.prepare(torch.arange(40))
    mixing = torch.rand(3, 3, dtype=torch.float64)
    plain, mixed = (
        torch.autograd.grad(of.evaluate(particles, batch, how, None).total_loss, particles)[0]
        for how in (None, mixing)
    )
    torch.testing.assert_close(mixed, mixing @ plain)


# Batches


def test_prepare__a_part_of_the_examples_meets_that_part_of_the_background(three_classes):
    of = objective(make("PNCA", background=0.1), *three_classes)
    for n in (20, 60):
        assert of.prepare(torch.arange(n)).target.background == pytest.approx(0.1 * n / 60)


@both_expectations
def test_prepare__groups_follow_their_examples(expectation):
    X, _ = noisy()
    groups = np.arange(40) // 2
    y = groups % 2  # a group tells the label
    of = objective(make("PNCA", expectation=expectation, n_folds=None), X, y, groups=groups)
    indices = torch.from_numpy(np.random.RandomState(0).permutation(40)[:15])
    batch = of.prepare(indices)
    assert torch.equal(batch.groups, torch.from_numpy(groups)[indices])
    assert torch.equal(batch.groups % 2, batch.target.labels)
    same = batch.groups[:, None] == batch.groups
    assert (batch.log_factor[same] == LOG_ZERO).all()
    assert (batch.log_factor[~same] > LOG_ZERO / 2).all()


def test_prepare__an_example_whose_class_is_in_its_group_alone_has_no_weight():
    X, _ = noisy()
    y = np.r_[np.zeros(20), np.ones(18), 2, 2].astype(int)
    groups = np.r_[np.arange(38), 38, 38]  # both of class 2 are of one group
    weights = (
        objective(make("PNCA", n_folds=None), X, y, groups=groups).prepare(torch.arange(40)).target.weights
    )
    assert (weights[38:] == 0).all()
    assert (weights[:38] > 0).all()


@both_expectations
def test_prepare__examples_of_the_fold_are_neither_neighbours_nor_terms(expectation):
    of = objective(make("PNCA", expectation=expectation, n_folds=4), *noisy())
    batch, folds = of.prepare(torch.arange(40)), torch.from_numpy(of.models.folds)
    models = of.models.of_particles() if expectation == "shared" else torch.arange(5)
    assert len(batch.shown) == len(batch.target.weights) == len(models)
    for member, model in enumerate(models.tolist()):
        held_out = folds == model - 1  # the full model comes first, and no fold is -1
        assert (batch.shown[member] == 0).equal(held_out)
        assert (batch.target.weights[member] == 0).equal(held_out)
        assert (batch.log_factor[member, :, held_out] <= LOG_ZERO / 2).all()


def test_batches__give_each_example_a_partner(three_classes):
    of = objective(make("PNCA", batch_size=12), *three_classes)
    batches = of.batches(np.random.RandomState(0))
    assert sorted(np.concatenate(batches)) == list(range(60))
    assert len(batches) == 5
    assert all(np.bincount(of.labels[batch]).min() >= 2 for batch in batches)


def test_embed__does_not_depend_on_how_it_is_split(monkeypatch):
    of = objective(make("PNCA"), *noisy())
    whole = of.embed(draw(of))
    monkeypatch.setattr(neighbours, "_SNAPSHOT_ROWS", 7)
    torch.testing.assert_close(of.embed(draw(of)), whole)


def test_can_be_captured__unless_pairs_are_visited_in_tiles(monkeypatch):
    names = ("PNCA", "PNCA cross", "PNCA orthogonal", "PNCA positive")
    found = {name: planned(make(name), *noisy()) for name in names}
    assert all(plan.schedule.graph_key is not None for plan in found.values())
    monkeypatch.setattr(kernels, "TILED", 20_000)  # 13 members x 40 x 40 are more, 4 are not
    can = {name: planned(make(name), *noisy()).schedule.graph_key is not None for name in names}
    assert can == {"PNCA": False, "PNCA cross": True, "PNCA orthogonal": True, "PNCA positive": True}
    # Batches may be up to twice as large as asked for.
    assert planned(make("PNCA", batch_size=15), *noisy()).schedule.graph_key is not None
    assert planned(make("PNCA", batch_size=20), *noisy()).schedule.graph_key is None


# What a model is not trained on it does not know


@both_expectations
@pytest.mark.parametrize("held_out", [0, 2])
def test_folds__gradients_of_a_fold_model_do_not_depend_on_its_fold(expectation, held_out):
    X, y = noisy()
    models = FoldModels(folds=np.arange(40) // 2 % 4, n_particles=2, n_per_fold=2)
    of = objective(make("PNCA", expectation=expectation, dropout=0.0), X, y, models)
    hidden = torch.from_numpy(models.folds == held_out)
    other_labels = torch.where(hidden, 1 - of.labels, of.labels)
    assert_blind_to_fold(of, draw(of), held_out, other_labels, 1e-9)


@both_expectations
@pytest.mark.parametrize("held_out", [0, 2])
def test_folds__gradients_with_positive_features_do_not_depend_on_the_fold(
    expectation, held_out, three_classes
):
    models = FoldModels(folds=np.arange(60) // 3 % 4, n_particles=2, n_per_fold=2)
    settings = {"scaling": None, "bandwidth": 1.0, "dropout": 0.0}
    of = objective(make("PNCA positive", expectation=expectation, **settings), *three_classes, models)
    hidden = torch.from_numpy(models.folds == held_out)
    other_labels = torch.where(hidden, (of.labels + 1) % 3, of.labels)
    assert_blind_to_fold(of, draw(of), held_out, other_labels, 1e-7)


@pytest.mark.parametrize("background", [0.0, 0.1])
def test_folds__an_example_whose_partner_is_held_out_learns_nothing_from_it(background):
    # Class 2 has two examples, and the model without fold 1 is trained on one of them.
    rng = np.random.RandomState(0)
    y = np.r_[np.arange(20) % 2, 2, 2]
    X = rng.normal(size=(22, 3)) + y[:, None]
    models = FoldModels(folds=np.r_[np.arange(20) // 2 % 2, 0, 1], n_particles=1, n_per_fold=1)
    of = objective(make("PNCA", background=background, dropout=0.0), X, y, models)
    particles, blind = draw(of), models.without(1)
    other = replace(of, labels=torch.from_numpy(np.r_[y[:21], 0]))
    before, after = (gradients(some, particles)[blind] for some in (of, other))
    torch.testing.assert_close(after, before, rtol=1e-9, atol=1e-9)


def test_folds__a_batch_that_a_model_is_not_trained_on_leaves_its_gradient_finite(three_classes):
    models = FoldModels(folds=np.arange(60) // 6 % 2, n_particles=2, n_per_fold=1)
    of = objective(make("PNCA positive", scaling=None, bandwidth=1.0, dropout=0.0), *three_classes, models)
    found = gradients(of, draw(of), torch.arange(6))  # all of fold 0
    assert found.isfinite().all()
    assert (found[models.without(0)] == 0).all()
    assert found[models.without(1)].abs().max() > 0


# Queries are perturbed, neighbours are not


def compared_in_training(model, X, y):
    """Embeddings, and inputs, of the queries and of their neighbours at the first step."""
    embeddings, inputs = [], []
    pairs, factor = ExactKernel.log_pairs, InputFactor.log

    def spy_on_embeddings(self, a, b, *others):
        embeddings.append((a.detach(), b.detach()))
        return pairs(self, a, b, *others)

    def spy_on_inputs(self, a, b):
        inputs.append((a, b))
        return factor(self, a, b)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ExactKernel, "log_pairs", spy_on_embeddings)
        patch.setattr(InputFactor, "log", spy_on_inputs)
        model.fit(X, y)
    return *embeddings[0], *inputs[0]


def test_images__only_the_query_is_moved(monkeypatch):
    monkeypatch.setattr(augmentation, "augment", lambda inputs, image, strength, generator: inputs + 100)
    moved_embeddings, embeddings, moved, inputs = compared_in_training(
        make("PNCA", dropout=0.0, max_epochs=1, background=0.0, n_folds=None), *digits()
    )
    torch.testing.assert_close(moved, inputs + 100)
    assert (moved_embeddings - embeddings).abs().mean() > 1


def test_images__half_of_the_particles_see_them_moved_more(monkeypatch):
    strengths, moved = [], {1.0: 100.0, 1.5: 200.0}

    def spy(inputs, image, strength, generator):
        strengths.append(strength)
        return inputs + moved[strength]

    monkeypatch.setattr(augmentation, "augment", spy)
    settings = {"n_particles": 4, "n_folds": 2, "dropout": 0.0, "max_epochs": 1}
    outputs, _, queries, inputs = compared_in_training(make("PNCA", **settings), *digits())
    assert strengths == [1.0, 1.5]
    assert len(outputs) == 4 + 2 * 2
    for kind, by in enumerate((100, 200)):
        torch.testing.assert_close(queries[kind], inputs + by)
    # What the particles embed is what those of their kind see.
    far = outputs.abs().mean(dim=(1, 2))
    assert far[1::2].min() > 1.3 * far[0::2].max()


@pytest.mark.parametrize("in_tiles", [False, True])
def test_images__kinds_of_particles_train_as_each_would_alone(in_tiles, monkeypatch):
    # Particles do not know of each other: the gradient of one kind is that of a model of this kind only.
    monkeypatch.setattr(augmentation, "augment", lambda inputs, image, strength, generator: inputs * strength)
    monkeypatch.setattr(kernels, "TILED", 0 if in_tiles else 2**40)
    of = objective(make("PNCA", n_particles=4, n_folds=2, dropout=0.0), *digits())
    assert (of.models.n_kinds, of.augmentation.strengths) == (2, (1.0, 1.5))
    particles = draw(of)
    both = gradients(of, particles)
    models = FoldModels(folds=of.models.folds, n_particles=2, n_per_fold=1)
    for kind, strength in enumerate((1.0, 1.5)):
        only = replace(of, models=models, augmentation=replace(of.augmentation, strengths=(strength,)))
        torch.testing.assert_close(both[kind::2], gradients(only, particles[kind::2]), rtol=1e-9, atol=1e-9)


def test_dropout__falls_on_the_query_alone():
    settings = {"max_epochs": 1, "n_folds": None, "random_state": 0}
    dropped, embeddings, *_ = compared_in_training(make("PNCA", dropout=0.5, **settings), *noisy())
    whole, support, *_ = compared_in_training(make("PNCA", dropout=0.0, **settings), *noisy())
    assert (dropped - whole).abs().mean() > 0.01
    assert torch.equal(embeddings, whole)
    assert torch.equal(support, whole)


def test_dropout__and_augmentation_draw_from_the_given_generator():
    of = objective(make("PNCA", n_folds=None), *digits())
    particles, batch = draw(of), of.prepare(torch.arange(60))
    state = torch.random.get_rng_state()
    first, again, other = (
        of.evaluate(particles, batch, None, torch.Generator().manual_seed(seed)).total_loss
        for seed in (0, 0, 1)
    )
    assert first == again != other
    assert torch.equal(torch.random.get_rng_state(), state)


# Novelty and the distance between inputs


def test_novelty__of_very_wide_inputs_is_found_from_a_few(monkeypatch):
    monkeypatch.setattr(plan, "_PLANE_NUMBERS", 100)
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(60, 40)).astype(np.float32), np.arange(60) % 2
    model = make("PNCA", max_epochs=1).fit(X, y)
    assert len(model.input_directions_) < 20
    assert np.isfinite(model.evidence(X)).all()


def test_novelty__is_known_where_almost_all_examples_are_of_one_group(monkeypatch):
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(60, 4)).astype(np.float32), np.arange(60) % 2
    groups = np.r_[np.zeros(58, dtype=int), 1, 1]
    monkeypatch.setattr(plan, "_PLANE_ROWS", 20)
    # Of the large group alone.
    monkeypatch.setattr(plan, "spread_rows", lambda n, k: torch.arange(min(n, k)))
    model = make("PNCA", max_epochs=1, n_folds=2).fit(X, y, groups=groups)
    assert np.isfinite(model.predict_proba(X)).all()
    assert np.isfinite(model.oof_evidence_).all()


def test_novelty__of_many_examples_a_sample_is_held_out_and_the_others_are_anyway(monkeypatch):
    monkeypatch.setattr(plan, "_PLANE_ROWS", 50)
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(200, 4)).astype(np.float32), np.arange(200) % 2
    _, question = watched_fit(make("PNCA", max_epochs=1, n_folds=3), X, y)
    assert question.residuals.shape == (200,)
    assert question.residuals.isfinite().all()
    assert question.novelty.plane.directions.shape[1] == 4


def test_novelty__without_folds_a_group_is_held_out_as_a_whole(monkeypatch):
    found = []
    fit = lambda inputs, rows, folds: found.append(folds) or (None, None)  # noqa: E731
    monkeypatch.setattr(plan.Novelty, "fit", fit)
    examples = planned(make("PNCA", n_folds=None), *noisy()).examples
    for n_per_group, n_folds in ((1, 5), (4, 5), (20, 2)):
        groups = np.arange(40) // n_per_group
        plan.make_novelty(options_of(make("PNCA")), examples._replace(groups=groups), None)
        folds = found[-1].numpy()
        assert set(folds) == set(range(n_folds))
        assert all(len(set(folds[groups == group])) == 1 for group in groups)


def test_input_factor__of_many_examples_is_measured_on_some(monkeypatch):
    monkeypatch.setattr(plan, "_MANY_POINTS", 10)
    X, y = noisy()
    some = planned(make("PNCA"), X, y).objective.input_factor
    inputs = torch.from_numpy(planned(make("PNCA"), X, y).examples.inputs)
    assert some == InputFactor.fit(inputs, None, None, every=4)
    assert planned(make("PNCA", input_weight=0), X, y).objective.input_factor is None
