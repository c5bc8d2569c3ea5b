"""Choosing by the likelihood out of fold: snapshots and a question in, a choice out."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import scenarios
from models import make, watched_fit
from pnca.maths.features import orthogonal_frequencies
from pnca.maths.inputs import InputFactor
from pnca.models import selection
from pnca.models.kernels import ExactKernel, OrthogonalKernel, PositiveKernel
from pnca.models.selection import Question, Snapshot, choose
from pnca.training.sampling import FoldModels

N, FOLDS = 40, np.arange(40) // 2 % 4


def question(**changes):
    """Two classes in four folds; three particles, and two in each fold model."""
    labels = torch.arange(N) % 2
    given = {
        "kernel": ExactKernel(1.0, True),
        "models": FoldModels(folds=FOLDS, n_particles=3, n_per_fold=2),
        "labels": labels,
        "weights": torch.ones(N, dtype=torch.float64),
        "log_prior": torch.tensor([0.5, 0.5], dtype=torch.float64).log(),
        "inputs": None,
        "input_factor": None,
        "background": None,
        "max_epochs": 30,
        "novelty": None,
        "residuals": None,
    }
    return Question(**{**given, **changes})


def snapshot(epoch=30, apart=2.0, seed=0, of=None):
    """Embeddings of all models in which the classes are so far apart."""
    models = (of or question()).models
    z = scenarios.cloud(models.n_total, N, 2, seed)
    z[..., 0] += apart * (torch.arange(N) % 2)
    return Snapshot(epoch, torch.full((models.n_particles, 5), float(epoch)), z.float())


def kernels():
    directions = orthogonal_frequencies(2, 4, 2.0, torch.Generator().manual_seed(0))
    return {
        "exact shared": ExactKernel(1.0, True),
        "exact cross": ExactKernel(1.0, False),
        "orthogonal": OrthogonalKernel(1.0, directions),
        "positive shared": PositiveKernel(1.0, True, directions),
        "positive cross": PositiveKernel(1.0, False, directions),
    }


every_kernel = pytest.mark.parametrize("kernel", kernels().values(), ids=kernels())


# A choice


@every_kernel
def test_choose__mutates_nothing_and_is_the_same_again(kernel):
    asked, taken = question(kernel=kernel), [snapshot(3, 0.5), snapshot(30, 2.0, seed=1)]
    copies = [Snapshot(s.epoch, s.particles.clone(), s.embeddings.clone()) for s in taken]
    before = {name: value.clone() for name, value in vars(asked).items() if isinstance(value, torch.Tensor)}
    first, again = choose(taken, asked), choose(copies, asked)
    assert (first.bandwidth, first.background, first.epoch) == (
        again.bandwidth,
        again.background,
        again.epoch,
    )
    assert np.array_equal(first.out_of_fold.proba, again.out_of_fold.proba)
    assert all(torch.equal(getattr(asked, name), value) for name, value in before.items())
    assert asked.kernel.bandwidth == 1.0
    for s, c in zip(taken, copies, strict=True):
        assert torch.equal(s.embeddings, c.embeddings)


@every_kernel
def test_choose__takes_the_snapshot_that_tells_the_classes_apart(kernel):
    taken = [snapshot(3, 0.0), snapshot(10, 4.0, seed=1), snapshot(30, 0.0, seed=2)]
    choice = choose(taken, question(kernel=kernel))
    assert choice.epoch == 10
    assert torch.equal(choice.particles, taken[1].particles)
    assert choice.out_of_fold.loss < math.log(2) / 2
    assert np.array_equal(choice.folds, FOLDS)


def test_choose__the_last_snapshot_unless_another_is_clearly_better():
    # The same embeddings: what is left is the cost of leaving the last epoch.
    first, last = (snapshot(epoch, 2.0) for epoch in (1, 30))
    assert choose([first, last], question()).epoch == 30


@pytest.mark.parametrize("background", [0.0, 0.7])
def test_choose__a_background_that_is_given_is_kept(background):
    assert choose([snapshot()], question(background=background)).background == background


def test_choose__frequencies_are_not_tuned():
    choice = choose([snapshot()], question(kernel=kernels()["orthogonal"]))
    assert choice.bandwidth == pytest.approx(1.0)


def test_choose__wide_embeddings_ask_for_a_wide_kernel():
    near, far = (
        choose([s._replace(embeddings=scale * s.embeddings)], question()).bandwidth
        for s, scale in ((snapshot(), 1.0), (snapshot(), 3.0))
    )
    assert far > 3 * near


def test_choose__a_kind_of_particles_that_knows_nothing_is_left_out():
    models = FoldModels(folds=FOLDS, n_particles=4, n_per_fold=2, n_kinds=2)
    asked = question(models=models)
    good = snapshot(apart=4.0, of=asked)
    z = good.embeddings.clone()
    z[1::2, :, 0] = scenarios.cloud(models.n_total // 2, N, 2, seed=5)[..., 0].float()
    particles = torch.arange(4.0)[:, None].expand(4, 5)
    choice = choose([Snapshot(30, particles, z)], asked)
    assert choice.kinds == (0,)
    assert choice.particles[:, 0].tolist() == [0, 2]
    both = choose([Snapshot(30, particles, good.embeddings)], asked)
    assert both.kinds == (0, 1)
    assert len(both.particles) == 4


# What it is chosen by


@every_kernel
def test_choose__what_fold_models_say_does_not_depend_on_the_chunks(kernel, monkeypatch):
    asked = question(kernel=kernel)
    whole = choose([snapshot()], asked)
    fixed = replace(asked, kernel=kernel.at(whole.bandwidth), background=whole.background)
    monkeypatch.setattr(selection, "_BANDWIDTHS", (1.0,))
    expected = choose([snapshot()], fixed).out_of_fold
    monkeypatch.setattr(selection, "MANY_ROWS", 7)
    found = choose([snapshot()], fixed).out_of_fold
    np.testing.assert_allclose(found.proba, expected.proba, rtol=1e-9)
    np.testing.assert_allclose(found.evidence, expected.evidence, rtol=1e-9)
    assert found.loss == pytest.approx(expected.loss)


def test_choose__the_distance_between_inputs_counts():
    # Embeddings that know nothing, and inputs that tell the classes apart.
    inputs = 6 * (torch.arange(N) % 2)[:, None] + scenarios.cloud(1, N, 1, seed=4)[0]
    blind = snapshot(apart=0.0)
    with_inputs = question(inputs=inputs.float(), input_factor=InputFactor(1.0, 1.0))
    assert choose([blind], with_inputs).out_of_fold.loss < 0.2
    assert choose([blind], question()).out_of_fold.loss > 0.6


@every_kernel
def test_choose__an_example_has_mass_from_other_folds_alone(kernel, monkeypatch):
    monkeypatch.setattr(selection, "_BANDWIDTHS", (1.0,))
    asked = question(kernel=kernel, background=0.1)
    own, i = asked.models.without(2), int(np.flatnonzero(FOLDS == 2)[0])

    def evidence(moved):
        """Of example i, when these are elsewhere as the model without its fold embeds them."""
        taken = snapshot()
        taken.embeddings[own, torch.from_numpy(np.flatnonzero(moved))] += 3.0
        return choose([taken], asked).out_of_fold.evidence[i]

    nobody, rest = np.zeros(N, dtype=bool), np.arange(N) != i
    assert evidence((FOLDS == 2) & rest) == pytest.approx(evidence(nobody), abs=1e-9)
    assert evidence(FOLDS == 1) < evidence(nobody) - 0.1


def test_has_support__an_example_without_another_of_its_class_elsewhere_does_not_count():
    labels = torch.zeros(N, dtype=torch.long)
    labels[[0, 1]] = 1  # both in fold 0
    labels[[2, 4]] = 2  # in folds 1 and 2
    log_prior = torch.full((3,), 1 / 3, dtype=torch.float64).log()
    found = selection._has_support(question(labels=labels, log_prior=log_prior))
    assert found.tolist() == [False, False] + [True] * (N - 2)


def test_choose__examples_of_weight_zero_leave_a_choice():
    labels = torch.arange(N) % 2
    weights = torch.where(labels == 1, 0.0, 2.0).double()
    log_prior = torch.tensor([1.0, 0.0], dtype=torch.float64).log()
    choice = choose([snapshot()], question(weights=weights, log_prior=log_prior))
    assert math.isfinite(choice.bandwidth)
    assert math.isfinite(choice.background)
    assert (choice.out_of_fold.proba[:, 1] == 0).all()


def test_mixtures__all_kinds_or_one_alone():
    assert selection._mixtures(1) == [(0,)]
    assert selection._mixtures(2) == [(0, 1), (0,), (1,)]


def test_typical_mass__has_a_floor():
    assert selection._typical_mass(torch.full((1, 3, 2), -1e30)) == pytest.approx(math.exp(-50))
    assert selection._typical_mass(torch.zeros(1, 3, 2)) == pytest.approx(2.0)


def test_positive_features__part_of_the_examples_stands_for_all_as_neighbours(monkeypatch):
    rng = np.random.RandomState(0)
    y = np.arange(400) % 2
    X = (rng.normal(size=(400, 2)) + 3 * y[:, None]).astype(np.float32)
    monkeypatch.setattr(selection, "_BANDWIDTHS", (8.0,))  # so that many count
    monkeypatch.setattr(selection, "MANY_ROWS", 100)
    original, evidence = selection._log_masses, []
    for many in (4000, 200):
        monkeypatch.setattr(selection, "_MANY_NEIGHBOURS", many)
        masses = []

        def spy(*args, masses=masses):
            masses.append(original(*args))
            return masses[-1]

        model = make("PNCA positive", dropout=0.0, scaling=None, bandwidth=1.0, n_folds=2, max_epochs=3)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(selection, "_log_masses", spy)
            watched_fit(model, X, y)
        assert [len(m[0]) for m in masses[-2:]] == [100, 400]  # to choose by, and in the end
        evidence.append(masses[0].logsumexp(dim=2))
    torch.testing.assert_close(evidence[0], evidence[1], rtol=0, atol=0.35)
    assert not torch.equal(evidence[0], evidence[1])
