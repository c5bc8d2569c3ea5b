"""Snapshots of a training, from which folds choose."""

import numpy as np
import pytest
import torch

from models import make, noisy, planned, watched_fit
from pnca.models.neighbours import Snapshots
from pnca.training.loop import Run, Schedule


@pytest.mark.parametrize(("n_particles", "n_per_fold"), [(1, 1), (2, 1), (3, 2)])
def test_snapshots__are_of_the_full_model_and_embed_with_all(n_particles, n_per_fold):
    model = make("PNCA", n_particles=n_particles, n_folds=4, max_epochs=30)
    snapshots, _ = watched_fit(model, *noisy())
    assert [snapshot.epoch for snapshot in snapshots] == [1, 3, 10, 30]
    assert all(len(snapshot.particles) == n_particles for snapshot in snapshots)
    assert snapshots[0].embeddings.shape == (n_particles + 4 * n_per_fold, 40, 10)


def taken_in(max_epochs):
    """Snapshots of a training."""
    plan = planned(make("PNCA", n_folds=2), *noisy())
    of = plan.objective
    shapes = {"particles": (3, plan.particles.shape[1]), "embeddings": (len(plan.particles), 40, 10)}
    snapshots = Snapshots(of.embed, of.models.full, shapes, max_epochs)
    schedule = Schedule(max_epochs=max_epochs, learning_rate=0.01)
    trained = Run(of, plan.particles, schedule, np.random.RandomState(0)).train([snapshots.around])
    return snapshots, trained


def test_snapshots__the_last_is_of_the_end():
    snapshots, trained = taken_in(4)
    last = snapshots.taken[-1]
    assert torch.equal(last.particles, trained.particles[snapshots.full])
    torch.testing.assert_close(last.embeddings, snapshots.embed(trained.particles))


def test_snapshots__state_can_be_restored():
    snapshots, _ = taken_in(4)
    other = Snapshots(snapshots.embed, snapshots.full, snapshots._shapes, 4)
    other.restore(dict(reversed(snapshots.state().items())))
    assert [s.epoch for s in other.taken] == [s.epoch for s in snapshots.taken] == [1, 2, 4]
    for found, expected in zip(other.taken, snapshots.taken, strict=True):
        assert torch.equal(found.particles, expected.particles)
        assert torch.equal(found.embeddings, expected.embeddings)
