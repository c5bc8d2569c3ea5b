"""Parameters become parts: what follows from the data, and the only place that reads option strings."""

import math

import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer
from torch import nn

import scenarios
from models import make, noisy, options_of, planned
from pnca import PNCAClassifier
from pnca.exceptions import InvalidInputError
from pnca.maths.stein import (
    functional_gradient,
    svgd_posterior_mixing,
    svgd_posterior_mixing_as_published,
)
from pnca.models.kernels import ExactKernel, OrthogonalKernel, PositiveKernel
from pnca.models.options import Options
from pnca.models.plan import (
    Examples,
    check_kernel,
    class_prior,
    make_fold_models,
    make_kernel,
    make_network,
    make_scaler,
    make_schedule,
    neighbour_mixing,
    random_sources,
    softmax_mixing,
)
from pnca.networks import MLP, StackedModule
from pnca.training.sampling import FoldModels


def options(shape=(4,), **given):
    """Those of the recommended model for images, modules and the like, with changes."""
    return options_of(PNCAClassifier(**{"experts": (), **given})).settled(shape)


def examples(n=12, n_classes=2, shape=(4,), groups=None):
    rng = np.random.RandomState(0)
    return Examples(
        inputs=rng.normal(size=(n, math.prod(shape))).astype(np.float32),
        labels=np.arange(n) % n_classes,
        classes=np.arange(n_classes),
        class_weight=np.ones(n_classes),
        input_shape=shape,
        groups=groups,
    )


# What follows from the data


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
def test_options__batch_size_and_epochs_follow_the_number_of_examples(n, n_classes, batch_size, max_epochs):
    assert (options().n_per_batch(n, n_classes), options().n_epochs(n)) == (batch_size, max_epochs)
    given = options(batch_size=None, max_epochs=7)
    assert (given.n_per_batch(n, n_classes), given.n_epochs(n)) == (None, 7)
    assert options(batch_size=32).n_per_batch(n, n_classes) == 32


def test_options__the_number_of_steps_does_not_jump():
    sizes = (500, 600, 1000, 2000, 3000)
    steps = [options().n_epochs(n) * math.ceil(n / (options().n_per_batch(n, 2) or n)) for n in sizes]
    assert min(steps) == 300
    assert max(steps) < 600


def test_options__networks_and_steps_are_small_beside_experts_unless_they_are_given():
    beside, alone = options(experts="auto"), options()
    assert beside.experts == ("linear", "forest")
    assert (beside.n_particles, beside.hidden_layer_sizes, beside.learning_rate) == (8, (100,), 1e-2)
    assert (alone.n_particles, alone.hidden_layer_sizes, alone.learning_rate) == (10, (200, 200), 3e-3)
    given = {"n_particles": 3, "hidden_layer_sizes": (7,), "learning_rate": 0.5}
    for found in (options(experts="auto", **given), options(**given)):
        assert {name: getattr(found, name) for name in given} == given


@pytest.mark.parametrize(
    ("n_columns", "networks"),
    [
        (100, (8, (100,), 1e-2)),
        (101, (12, (100, 100), 5e-3)),
        (1000, (12, (100, 100), 5e-3)),
        (1001, (8, (100,), 1e-2)),
    ],
)
def test_options__networks_beside_experts_are_deeper_and_learn_slower_with_many_columns(n_columns, networks):
    found = Options.of(PNCAClassifier()).settled((n_columns,))
    assert (found.n_particles, found.hidden_layer_sizes, found.learning_rate) == networks


@pytest.mark.parametrize(
    ("n", "n_columns", "epochs"), [(100, 100, 50), (100, 101, 140), (100, 1001, 60), (5000, 20, 22)]
)
def test_options__of_the_epochs_beside_experts_there_are_few(n, n_columns, epochs):
    assert options(experts="auto").n_epochs(n, n_columns) == epochs
    assert options(experts="auto", max_epochs=7).n_epochs(n, n_columns) == 7


@pytest.mark.parametrize(("kernel", "epochs"), [("exact", 20), ("orthogonal", 20), ("positive", 5)])
def test_options__of_many_examples_there_are_few_epochs(kernel, epochs):
    assert options(kernel=kernel).n_epochs(60_000) == epochs


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
def test_options__dropout_follows_the_kind_of_the_inputs(shape, others, dropout):
    assert options(**others).dropout_rate(shape) == pytest.approx(dropout)


@pytest.mark.parametrize(
    ("shape", "others", "strengths"),
    [
        ((8, 8), {}, (1.0, 1.5)),
        ((64,), {"image_shape": (8, 8)}, (1.0, 1.5)),
        ((64,), {}, (0.0,)),
        ((8, 8), {"augmentation": 0.5}, (0.5,)),
        ((8, 8), {"module": nn.Flatten}, (0.0,)),
        # No kinds: members that cannot be told apart, or too few to be halved.
        ((8, 8), {"expectation": "cross"}, (1.0,)),
        ((8, 8), {"n_folds": None}, (1.0,)),
        ((8, 8), {"n_particles": 5}, (1.0,)),
        ((8, 8), {"n_particles": 2}, (1.0,)),
        ((8, 8), {"n_particles": 4}, (1.0, 1.5)),
    ],
)
def test_options__images_are_augmented_and_half_of_the_particles_see_more_of_it(shape, others, strengths):
    found = options(**others)
    assert found.strengths(shape) == strengths
    augmenter = found.augmenter(shape)
    assert (augmenter is not None) == any(strengths)
    if augmenter is not None:
        assert augmenter.strengths == strengths
        assert (augmenter.image.height, augmenter.image.width) == (8, 8)


def test_options__augmentation_of_rows_is_refused_with_advice():
    with pytest.raises(InvalidInputError, match=r"pass image_shape=\(height, width\), or X of shape"):
        options(augmentation=1.0).augmenter((64,))


@pytest.mark.parametrize(
    ("given", "background", "weight"),
    [
        ({}, None, None),
        ({"background": 0, "input_weight": 0.5}, 0.0, 0.5),
        ({"background": 2, "kernel": "positive"}, 2.0, 0.0),
    ],
)
def test_options__auto_is_none_until_it_is_chosen(given, background, weight):
    assert (options(**given).given_background, options(**given).given_input_weight) == (background, weight)


def test_options__a_classifier_that_lacks_a_parameter_has_the_plain_value():
    plain = options_of(make("DNN"))
    assert (plain.n_particles, plain.n_folds, plain.update, plain.scaling) == (1, None, "independent", None)
    nca = options_of(make("NCA"))
    assert (nca.kernel, nca.background, nca.input_weight, nca.novelty) == ("exact", 0.0, 0.0, False)


def test_examples__weights_are_those_of_their_classes():
    found = examples(4)._replace(class_weight=np.array([0.5, 1.5]), groups=np.array([0, 2, 1, 1]))
    assert found.on(torch.device("cpu"))["weights"].tolist() == [0.5, 1.5, 0.5, 1.5]
    assert found.n_groups == 3
    assert examples(4).n_groups == 0


# The parts


@pytest.mark.parametrize("sizes", [(0,), (16, -1), (2.5,), ("8",)])
def test_make_network__refuses_sizes_that_are_none(sizes):
    with pytest.raises(InvalidInputError, match="hidden_layer_sizes must hold positive whole numbers"):
        make_network(options(hidden_layer_sizes=sizes), examples(), n_outputs=3, head=None, seed=0)


def test_make_network__built_in_layers_or_the_users_module():
    layers = make_network(options(hidden_layer_sizes=(6,)), examples(), n_outputs=3, head=None, seed=0)
    assert isinstance(layers, MLP)
    assert (layers.layer_sizes, layers.dropout) == ((4, 6, 3), options().dropout_rate((4,)))
    module = options(module=lambda: nn.Linear(4, 5))
    for head, n_outputs in ((None, 5), (2, 2)):
        network = make_network(module, examples(), n_outputs=9, head=head, seed=0)
        assert isinstance(network, StackedModule)
        outputs = network(network.draw(3, torch.Generator()), torch.zeros(7, 4))
        assert outputs.shape == (3, 7, n_outputs)


def test_make_network__dropout_is_for_the_built_in_layers():
    with pytest.raises(InvalidInputError, match=r"put nn\.Dropout into your module"):
        make_network(options(module=nn.Flatten, dropout=0.1), examples(), n_outputs=3, head=None, seed=0)


def graph_key(data, network, n_particles=5, **given):
    return make_schedule(options(**given), data, network, n_particles, torch.device("cpu")).graph_key


def test_make_schedule__steps_of_the_same_operations_share_a_graph_and_others_do_not():
    data, network = examples(), MLP([4, 3])
    key = graph_key(data, network)
    hash(key)
    assert graph_key(data, network, random_state=7) == key
    changes = [
        {"bandwidth": 2.0},
        {"kernel": "positive"},
        {"dropout": 0.1},
        {"batch_size": 8},
        {"n_particles": 9},
    ]
    others = [graph_key(data, network, **change) for change in changes]
    others.append(graph_key(data, network, 4))
    others.append(graph_key(examples(13), network))
    others.append(graph_key(examples(n_classes=3), network))
    others.append(graph_key(examples(shape=(2, 2)), network))
    others.append(graph_key(examples(groups=np.arange(12) // 2), network))
    assert len({key, *others}) == len(others) + 1


def test_make_schedule__a_users_module_is_not_captured():
    module = StackedModule(lambda: nn.Linear(4, 2), sample=torch.zeros(2, 4), n_outputs=None, seed=0)
    assert graph_key(examples(), module) is None


def test_make_scaler__none_for_a_module_or_if_told_so():
    assert make_scaler(options(scaling=None), examples()) is None
    assert make_scaler(options(module=nn.Flatten), examples()) is None
    assert make_scaler(options(), examples()) is not None


def test_make_scaler__a_line_may_see_a_difference_that_neighbours_do_not():
    """Neighbours alone find one scale for areas and shares as good here as a scale for each column."""
    X, y = load_breast_cancer(return_X_y=True)
    rows = np.random.RandomState(0).permutation(len(y))[:200]
    data = examples(200, shape=(30,))._replace(inputs=X[rows], labels=y[rows].astype(np.int64))
    for experts, n_scales in (((), 1), (("forest",), 1), (("linear",), 30), ("auto", 30)):
        scaler = make_scaler(options(shape=(30,), experts=experts), data)
        assert len(set(scaler.spread.tolist())) == n_scales


def test_make_scaler__one_group_among_the_rows_leaves_it_to_neighbours():
    data = examples(groups=np.zeros(12, dtype=np.int64))
    assert make_scaler(options(experts=("linear",)), data) is not None


@pytest.mark.parametrize(
    ("n_particles", "n_kinds", "n_per_fold"),
    [(1, 1, 1), (2, 1, 1), (3, 1, 2), (10, 1, 5), (4, 2, 2), (6, 2, 4)],
)
def test_make_fold_models__half_of_the_particles_stand_in_for_all(n_particles, n_kinds, n_per_fold):
    data = examples(40, shape=(8, 8)[:n_kinds])
    found = make_fold_models(options(n_particles=n_particles, n_folds=4), data, torch.Generator())
    assert (found.n_particles, found.n_kinds, found.n_per_fold, found.n_folds) == (
        n_particles,
        n_kinds,
        n_per_fold,
        4,
    )
    alone = make_fold_models(options(n_particles=n_particles, n_folds=None), data, torch.Generator())
    assert (alone.folds, alone.n_total) == (None, n_particles)


def test_make_fold_models__groups_stay_together():
    groups = np.arange(40) // 4
    folds = make_fold_models(options(n_folds=3), examples(40, groups=groups), torch.Generator()).folds
    assert all(len(set(folds[groups == group])) == 1 for group in range(10))


def test_make_kernel__is_the_one_that_was_asked_for():
    generator = torch.Generator().manual_seed(0)
    assert make_kernel(options(bandwidth=2), 4, 3, generator) == ExactKernel(2.0, True)
    assert make_kernel(options(expectation="cross"), 4, 3, generator) == ExactKernel(3.0, False)
    for n_blocks, n_drawn in ((2, 2), (10, 10)):
        given = options(kernel="orthogonal", expectation="cross", n_feature_blocks=n_blocks)
        orthogonal = make_kernel(given, 4, 3, generator)
        assert isinstance(orthogonal, OrthogonalKernel)
        assert orthogonal.frequencies.shape == (4, 4 * n_drawn)
    for n_blocks, n_drawn in ((1, 3), (5, 5)):  # one for each class at least
        positive = make_kernel(options(kernel="positive", n_feature_blocks=n_blocks), 4, 3, generator)
        assert isinstance(positive, PositiveKernel)
        assert positive.is_shared
        assert positive.directions.shape == (4, 4 * n_drawn)


def test_make_kernel__frequencies_are_for_the_bandwidth_and_directions_for_any():
    def drawn(kernel, bandwidth):
        given = options(kernel=kernel, expectation="cross", bandwidth=bandwidth)
        return make_kernel(given, 4, 2, torch.Generator().manual_seed(0))

    near, far = (drawn("orthogonal", h).frequencies for h in (1.0, 4.0))
    torch.testing.assert_close(near, 2 * far)
    assert torch.equal(drawn("positive", 1.0).directions, drawn("positive", 4.0).directions)


@pytest.mark.parametrize(
    ("given", "groups", "message"),
    [
        ({"kernel": "orthogonal"}, None, "expectation='cross'"),
        ({"kernel": "positive", "input_weight": 0.5}, None, "input_weight=0 or 'auto'.* instead of 0.5"),
        ({"kernel": "positive"}, np.arange(12) // 2, "cannot leave out a group: use kernel='exact'"),
    ],
)
def test_check_kernel__says_what_a_kernel_cannot_do(given, groups, message):
    with pytest.raises(InvalidInputError, match=message):
        check_kernel(options(**given), examples(groups=groups))


def test_check_kernel__lets_the_others_pass():
    check_kernel(options(), examples(groups=np.arange(12) // 2))
    check_kernel(options(kernel="orthogonal", expectation="cross"), examples(groups=np.arange(12) // 2))
    for weight in (0, 0.0, "auto"):
        check_kernel(options(kernel="positive", input_weight=weight), examples())


def test_class_prior__is_the_weighted_share_of_each_class():
    found = class_prior(examples(9)._replace(class_weight=np.array([1.0, 3.0])))
    np.testing.assert_allclose(found, np.array([5, 12]) / 17)


def test_class_prior__classes_of_one_example_each_are_refused():
    with pytest.raises(InvalidInputError, match="Every class has a single example"):
        class_prior(examples(4, n_classes=4))


def test_class_prior__a_class_of_one_example_is_reported():
    data = examples(5, n_classes=4)._replace(classes=np.array(["ash", "birch", "cedar", "yew"]))
    with pytest.warns(UserWarning, match="Only one example of class 'birch', 'cedar', 'yew'"):
        class_prior(data)


def test_class_prior__labels_that_groups_tell_are_refused():
    with pytest.raises(InvalidInputError, match="outside its group, so nothing can be learnt"):
        class_prior(examples(4, groups=np.array([0, 1, 0, 1])))
    class_prior(examples(4, groups=np.array([0, 1, 2, 1])))


# Directions of descent


def test_neighbour_mixing__independent_particles_descend_their_own_gradients():
    one_model = FoldModels(folds=None, n_particles=2)
    gradients = torch.tensor([[1.0, 2.0], [3.0, -4.0]])
    particles = torch.tensor([[0.0, 0.0], [0.1, 0.0]])
    assert neighbour_mixing(options(), one_model)(particles) == (None, None)
    smoothed = neighbour_mixing(options(update="functional"), one_model)(particles)
    direction = smoothed.direction(particles, gradients)
    torch.testing.assert_close(direction, functional_gradient(particles, gradients))
    assert not torch.allclose(direction, gradients)


def test_neighbour_mixing__gradients_are_smoothed_within_a_model_and_never_between_two():
    models = FoldModels(folds=np.array([0, 1, 0]), n_particles=3, n_per_fold=2)
    particles, gradients = (both.float() for both in scenarios.particles_and_scores(7, 4))
    mixing = neighbour_mixing(options(update="functional"), models)(particles)
    direction = mixing.direction(particles, gradients)
    for rows in (slice(0, 3), slice(3, 5), slice(5, 7)):
        torch.testing.assert_close(direction[rows], functional_gradient(particles[rows], gradients[rows]))


@pytest.mark.parametrize(
    ("update", "expected"),
    [("svgd", svgd_posterior_mixing), ("as_published", svgd_posterior_mixing_as_published)],
)
def test_softmax_mixing__is_that_of_the_posterior(update, expected):
    particles, gradients = (both.float() for both in scenarios.particles_and_scores(4, 5))
    found = softmax_mixing(Options(update=update, prior_precision=3.0), n_samples=20)(particles)
    by_hand = expected(particles, n_samples=20, prior_precision=3.0)
    torch.testing.assert_close(found.direction(particles, gradients), by_hand.direction(particles, gradients))
    assert softmax_mixing(Options(), n_samples=20)(particles) == (None, None)


# The whole


def test_random_sources__are_drawn_from_the_state_that_is_given():
    first, again = (random_sources(np.random.RandomState(0)) for _ in range(2))
    assert first[1] == again[1]
    assert torch.equal(torch.rand(3, generator=first[0]), torch.rand(3, generator=again[0]))
    assert random_sources(np.random.RandomState(1))[1] != first[1]


@pytest.mark.parametrize("name", ["PNCA", "PNCA cross", "NCA", "Ensemble"])
def test_plan__has_particles_of_all_models_and_scaled_examples(name):
    X, y = noisy()
    plan = planned(make(name), X, y)
    n_models = getattr(getattr(plan.objective, "models", None), "n_total", 3)
    assert len(plan.particles) == n_models
    assert plan.schedule.max_epochs == 30
    examples = plan.examples
    if examples.scaler is None:
        assert np.array_equal(examples.inputs, X)
    else:
        assert np.array_equal(examples.inputs, examples.scaler.apply(torch.from_numpy(X)).numpy())
    assert np.array_equal(examples.labels, y)
    assert len(plan.wrappers) == (name in ("PNCA", "PNCA cross"))  # snapshots, where folds choose
