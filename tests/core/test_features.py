"""Positive features of classes: masses, places, sums in parts."""

import numpy as np
import pytest
import torch
from torch._subclasses import FakeTensorMode

import reference
import scenarios
from pnca.maths.features import orthogonal_frequencies
from pnca.maths.neighbours import LOG_ZERO, class_log_masses, has_partner, leave_one_out
from pnca.models import features
from pnca.models.features import Clouds, place_around_classes, summarise, training_log_masses
from pnca.training.sampling import FoldModels

both_expectations = pytest.mark.parametrize("expectation", ["shared", "cross"])
# Two particles that are trained on all examples, and two fold models of one.
MODELS = FoldModels(folds=np.array([0, 1, 0, 1, 0, 1, 0, 1]), n_particles=2, n_per_fold=1)
LABELS = torch.tensor([0, 0, 1, 1, 0, 0, 1, 1])


def directions(d=3, n_blocks=4):
    return orthogonal_frequencies(d, n_blocks, 2.0, torch.Generator().manual_seed(0))


@both_expectations
def test_training_log_masses__equal_those_of_the_kernel_for_models_of_different_sizes(expectation):
    z, queries = scenarios.cloud(4, 8, 3), scenarios.cloud(4, 8, 3, seed=1)
    models = None if expectation == "shared" else MODELS.slices
    shown = MODELS.trained_on().double()
    weights = shown[MODELS.of_particles()] if expectation == "shared" else shown
    weights = weights * torch.linspace(0.5, 2, 8)
    log_weights = weights.log().clamp_min(LOG_ZERO)
    of_support, of_queries = Clouds.of(z, models), Clouds.of(queries, models)
    places = place_around_classes(of_support, LABELS, 2, weights, directions(), 3.0)
    masses = training_log_masses(of_queries, of_support, LABELS, 2, log_weights, places)
    members = [slice(k, k + 1) for k in range(4)] if expectation == "shared" else MODELS.slices
    assert len(masses) == len(members)
    for member, rows in enumerate(members):
        of = places.points[member], places.log_scales[member], 3.0
        K = reference.mean_features(queries[rows], *of) @ reference.mean_features(z[rows], *of).mT
        expected = class_log_masses(leave_one_out(K.log()), LABELS, 2, log_weights[member])
        torch.testing.assert_close(masses[member], expected, rtol=1e-8, atol=1e-8)


@both_expectations
def test_training_log_masses__gradcheck_of_examples_that_carry_their_places_along(expectation):
    models = None if expectation == "shared" else [slice(0, 2)]
    omega = directions(2, 3)
    labels, weights = torch.tensor([0, 1, 0, 1, 0]), torch.linspace(0.5, 2, 5).double()

    def own_masses(z):
        clouds = Clouds.of(z, models)
        places = place_around_classes(clouds, labels, 2, weights, omega, 3.0)
        masses = training_log_masses(clouds, clouds, labels, 2, weights.log(), places)
        return masses.gather(2, labels[None, :, None].expand(len(masses), 5, 1))

    assert torch.autograd.gradcheck(own_masses, scenarios.cloud(2, 5, 2).requires_grad_())


@both_expectations
def test_training_log_masses__do_not_wait_for_any_value(expectation):
    # Tensors without values: reading one, or a shape that depends on one, fails here.
    models = None if expectation == "shared" else MODELS.slices
    with FakeTensorMode():
        z, labels = torch.randn(4, 8, 3), torch.arange(8) % 2
        weights = torch.ones(4 if models is None else 3, 8)
        clouds = Clouds.of(z, models)
        places = place_around_classes(clouds, labels, 2, weights, torch.randn(3, 12), 3.0)
        masses = training_log_masses(clouds, clouds, labels, 2, weights, places)
        assert masses.shape == (len(weights), 8, 2)
        assert has_partner(labels, 2, shown=weights > 0).shape == weights.shape
        with pytest.raises(RuntimeError):
            float(masses.sum())


def test_place_around_classes__a_model_has_its_places_where_its_own_examples_are():
    z = scenarios.cloud(4, 8, 3)
    weights = MODELS.trained_on().double()
    moved = z.clone()
    moved[:, MODELS.folds == 1] += 10
    before, after = (
        place_around_classes(Clouds.of(some, MODELS.slices), LABELS, 2, weights, directions(), 3.0).points
        for some in (z, moved)
    )
    torch.testing.assert_close(after[2], before[2])  # the model that is not trained on fold 1
    assert (after[:2] - before[:2]).abs().amax(dim=(1, 2)).min() > 1


def test_summarise__parts_of_the_examples_add_up(monkeypatch):
    clouds, weights = Clouds.of(scenarios.cloud(2, 8, 3), None), torch.ones(8).double()
    places = place_around_classes(clouds, LABELS, 2, weights, directions(), 3.0)
    whole = summarise(clouds, LABELS, 2, weights.log(), places)
    masses = whole.log_masses(clouds)
    monkeypatch.setattr(features, "_MANY_NUMBERS", 3 * 24)  # three examples at a time
    assert len(clouds.split(places)) == 3
    in_parts = summarise(clouds, LABELS, 2, weights.log(), places)
    torch.testing.assert_close(in_parts.log_sums, whole.log_sums)
    torch.testing.assert_close(in_parts.log_masses(clouds), masses)
    assert in_parts.log_masses(clouds.rows(slice(0, 0))).shape == (2, 0, 2)


def test_class_features__masses_are_sums_of_the_kernel():
    clouds, queries = (
        Clouds.of(scenarios.cloud(2, n, 3, seed), [slice(0, 2)]) for n, seed in ((8, 0), (5, 1))
    )
    weights = torch.linspace(0.5, 2, 8).double()
    places = place_around_classes(clouds, LABELS, 2, weights, directions(), 3.0)
    summary = summarise(clouds, LABELS, 2, weights.log(), places)
    expected = class_log_masses(summary.log_kernel(queries, clouds), LABELS, 2, weights.log())
    torch.testing.assert_close(summary.log_masses(queries), expected)
    single = summary.to(torch.zeros(1))
    assert single.log_sums.dtype == single.places.points.dtype == torch.float32
