"""Cross-entropy of each particle, and the plan of a softmax model."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional

from models import digits, make, noisy, planned
from pnca.models.fitted import SoftmaxReader
from pnca.training import augmentation
from pnca.training.loop import Run


class Rank:
    """One of two ranks of a process group."""

    def __init__(self, rank):
        self.rank = rank

    def rows(self, n):
        return slice(0, 15) if self.rank == 0 else slice(15, n)


def double(plan):
    """Its objective and particles in float64."""
    of = plan.objective
    return replace(of, inputs=of.inputs.double(), weights=of.weights.double()), plan.particles.double()


def test_evaluate__is_the_weighted_cross_entropy_of_each_particle():
    X, y = noisy()
    of, particles = double(planned(make("Ensemble", class_weight={0: 1.0, 1: 3.0}), X, y))
    found = of.evaluate(particles, of.prepare(torch.arange(40)), None, None)
    logits, labels = of.network(particles, of.inputs), torch.from_numpy(y)
    losses = torch.stack([functional.cross_entropy(of_one, labels, reduction="none") for of_one in logits])
    weights = torch.from_numpy(np.where(y == 1, 1.5, 0.5))  # mean one
    torch.testing.assert_close(found.mean_loss, (weights * losses).mean())
    torch.testing.assert_close(found.total_loss, (weights * losses).mean(dim=1).sum())
    predicted = logits.softmax(dim=2).mean(dim=0).argmax(dim=1)
    assert found.n_correct == (predicted == labels).sum()


def test_evaluate__rows_of_two_ranks_add_up():
    alone, particles = double(planned(make("Ensemble"), *noisy()))
    indices = torch.from_numpy(np.random.RandomState(0).permutation(40)[:31])

    def evaluated(of):
        return of.evaluate(particles, of.prepare(indices), None, None)

    whole, parts = evaluated(alone), [evaluated(replace(alone, shards=Rank(rank))) for rank in (0, 1)]
    for total, *of_ranks in zip(whole, *parts, strict=True):
        torch.testing.assert_close(sum(of_ranks), total)
    assert 0 < parts[0].total_loss < whole.total_loss


def test_evaluate__images_are_moved_by_the_given_generator(monkeypatch):
    moved = []
    original = augmentation.augment

    def spy(inputs, image, strength, generator):
        moved.append((strength, generator))
        return original(inputs, image, strength, generator)

    monkeypatch.setattr(augmentation, "augment", spy)
    plan = planned(make("DNN", augmentation=0.5, dropout=0.2), *digits())
    of, batch = plan.objective, plan.objective.prepare(torch.arange(60))
    state = torch.random.get_rng_state()
    generators = [torch.Generator().manual_seed(seed) for seed in (0, 0, 1)]
    first, again, other = (of.evaluate(plan.particles, batch, None, g).total_loss for g in generators)
    assert first == again != other
    assert moved == [(0.5, g) for g in generators]
    assert torch.equal(torch.random.get_rng_state(), state)


def test_batches__each_example_occurs_once():
    of = planned(make("DNN", batch_size=15), *noisy()).objective
    batches = of.batches(np.random.RandomState(0))
    assert [len(batch) for batch in batches] == [15, 15, 10]
    assert sorted(np.concatenate(batches)) == list(range(40))


def test_ensemble__networks_are_independent_of_their_number():
    """The first network of an ensemble of three is trained as if it were alone."""
    together = planned(make("Ensemble"), *noisy())
    rng = np.random.RandomState
    of_three = Run(together.objective, together.particles, together.schedule, rng(0)).train().particles
    alone = Run(together.objective, together.particles[:1], together.schedule, rng(0)).train().particles
    torch.testing.assert_close(of_three[:1], alone, atol=1e-5, rtol=0)
    assert (of_three[0] - of_three[1]).abs().max() > 0.01


@pytest.mark.parametrize(("name", "n_particles"), [("DNN", 1), ("Ensemble", 3), ("BNN", 3)])
def test_plan__nothing_is_chosen_and_nothing_scaled(name, n_particles):
    X, y = noisy()
    plan = planned(make(name), X, y)
    trained = Run(plan.objective, plan.particles, plan.schedule, np.random.RandomState(0)).train()
    assert plan.examples.scaler is None
    assert plan.choose(trained) is None
    fitted = plan.finish(trained, None)
    assert isinstance(fitted.reader, SoftmaxReader)
    assert fitted.particles.shape == (n_particles, 3 * 16 + 16 + 16 * 2 + 2)
    assert torch.equal(fitted.particles, trained.particles)
    mixing = plan.objective.mixing(plan.particles)
    assert (mixing.of_gradients is None) == (name != "BNN")
