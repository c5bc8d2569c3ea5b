import itertools
import math
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from pnca.exceptions import TrainingDivergedError
from pnca.maths.stein import Mixing
from pnca.training.loop import Step
from pnca.training.objective import Evaluation
from pnca.training.optimisers import make_optimiser
from training.quadratic import TARGET, Evaluated, Quadratic, begun, run

# Steps


def test_train__finds_the_minimum_and_keeps_a_history():
    particles, history, was_interrupted = run()
    torch.testing.assert_close(particles, TARGET, atol=0.05, rtol=0)
    assert len(history.loss) == len(history.accuracy) == 300
    assert history.loss[0] == pytest.approx(TARGET.square().sum().item())
    assert history.loss[-1] < 0.01
    assert set(history.accuracy) == {1.0}
    assert not was_interrupted
    assert not particles.requires_grad


@pytest.mark.parametrize(("solver", "reference"), [("nadam", torch.optim.NAdam), ("adam", torch.optim.Adam)])
def test_train__steps_are_those_of_the_solver(solver, reference):
    expected = torch.zeros(2, 2, requires_grad=True)
    optimiser = reference([expected], lr=0.1)
    for _ in range(7):
        optimiser.zero_grad()
        (expected - TARGET).square().sum().backward()
        optimiser.step()
    torch.testing.assert_close(run(max_epochs=7, solver=solver).particles, expected.detach())


def test_train__adam_finds_the_minimum():
    particles, history, _ = run(solver="adam")
    torch.testing.assert_close(particles, TARGET, atol=0.05, rtol=0)
    assert history.loss[-1] < 0.01 < history.loss[0]


@pytest.mark.parametrize(("solver", "reference"), [("nadam", torch.optim.NAdam), ("adam", torch.optim.Adam)])
def test_train__follows_the_direction_and_not_the_gradient(solver, reference):
    mixing = Mixing(torch.tensor([[1.0, 0.5], [0.0, 0.0]]), torch.tensor([[0.3, 0.0], [1.0, -2.0]]))
    particles = run(Quadratic(mixing=mixing), max_epochs=7, solver=solver).particles
    expected = torch.zeros(2, 2)
    optimiser = reference([expected], lr=0.1)
    for _ in range(7):
        expected.grad = mixing.direction(expected, 2 * (expected - TARGET))
        optimiser.step()
    torch.testing.assert_close(particles, expected)


def test_train__loss_is_averaged_over_batches_by_their_size():
    def evaluation(particles, batch, generator):
        loss = 0 * particles.sum() + float(len(batch))
        return Evaluation(loss, loss.detach(), torch.tensor(1.0))

    history = run(Evaluated(evaluation, sizes=(3, 1)), max_epochs=2).history
    assert history.loss == (pytest.approx((3 * 3 + 1 * 1) / 4),) * 2
    assert history.accuracy == (pytest.approx(2 / 4),) * 2
    assert history.as_dict() == {"loss": list(history.loss), "accuracy": list(history.accuracy)}


def test_train__does_not_change_the_initial_particles():
    initial = torch.zeros(2, 2)
    run(particles=initial, max_epochs=2)
    assert (initial == 0).all()


def test_train__takes_the_batches_from_the_random_state():
    class Drawn(Quadratic):
        def batches(self, rng):
            return [rng.permutation(4)]

    objective, rng = Drawn(), np.random.RandomState(5)
    run(objective, max_epochs=3, rng=np.random.RandomState(5))
    assert objective.prepared == [rng.permutation(4).tolist() for _ in range(3)]


@pytest.mark.parametrize(("sizes", "n_prepared"), [((4,), 1), ((3, 1), 6), ((3, 3), 1)])
def test_train__a_batch_that_follows_itself_is_prepared_once(sizes, n_prepared):
    objective = Quadratic(sizes)
    run(objective, max_epochs=3)
    assert len(objective.prepared) == n_prepared


def test_step__batches_of_one_size_are_told_apart_by_their_examples():
    objective, particles = Quadratic(), torch.zeros(2, 2, requires_grad=True)
    step = Step(objective, particles, make_optimiser("nadam", particles, 0.1))
    for indices in ([0, 1], [0, 1], [1, 0], [0, 1]):
        step.take(np.array(indices))
    assert objective.prepared == [[0, 1], [1, 0], [0, 1]]


def test_train__is_in_full_precision_under_autocast():
    def evaluation(particles, batch, generator):
        assert not torch.is_autocast_enabled("cpu")

    with torch.autocast("cpu", dtype=torch.bfloat16):
        run(Evaluated(evaluation), max_epochs=1)
        assert torch.is_autocast_enabled("cpu")


# Randomness


def noise(uses_global_generator, seed):
    """What evaluations draw in three epochs, from the generator that they are given."""
    drawn = []

    def evaluation(particles, batch, generator):
        assert (generator is None) == uses_global_generator
        drawn.append(torch.rand(1, generator=generator).item())

    objective = Evaluated(evaluation)
    objective.uses_global_generator = uses_global_generator
    run(objective, max_epochs=3, seed=seed)
    return drawn


@pytest.mark.parametrize("uses_global_generator", [False, True])
def test_train__randomness_follows_the_seed_and_leaves_the_global_generator_alone(uses_global_generator):
    before = torch.get_rng_state()
    first, again, other = (noise(uses_global_generator, seed) for seed in (0, 0, 1))
    assert first == again != other
    assert len(set(first)) == 3
    assert torch.equal(torch.get_rng_state(), before)


# Wrappers


def noted(name, events):
    """A wrapper that notes what is done with it."""

    @contextmanager
    def wrap(run):
        events.append(f"{name} enters {run.n_epochs}")
        try:
            yield lambda: events.append(f"{name} after {run.n_epochs}")
        finally:
            events.append(f"{name} leaves {run.n_epochs}")

    return wrap


def test_train__wrappers_are_called_after_each_epoch_in_their_order():
    events = []
    run(wrappers=[noted("a", events), noted("b", events)], max_epochs=2)
    assert events == [
        *("a enters 0", "b enters 0"),
        *("a after 1", "b after 1", "a after 2", "b after 2"),
        *("b leaves 2", "a leaves 2"),
    ]


def test_train__shows_the_particles_after_each_epoch_without_gradients():
    seen = []

    @contextmanager
    def wrap(run):
        def after_epoch():
            assert not torch.is_grad_enabled()
            seen.append((run.n_epochs, run.particles.clone()))

        yield after_epoch

    particles = run(Quadratic((3, 1)), max_epochs=5, wrappers=[wrap]).particles
    assert [epoch for epoch, _ in seen] == [1, 2, 3, 4, 5]
    for (_, before), (_, after) in itertools.pairwise(seen):
        assert (before != after).all()
    assert torch.equal(seen[-1][1], particles)
    assert torch.equal(seen[1][1], run(Quadratic((3, 1)), max_epochs=2).particles)


@pytest.mark.parametrize("solver", ["nadam", "adam"])
def test_train__goes_on_from_what_a_wrapper_restores(solver):
    def copied(state):
        return {name: value.clone() for name, value in state.items()}

    @contextmanager
    def keep(run):
        def after_epoch():
            if run.n_epochs == 3:
                kept.update(particles=run.particles.clone())
                kept.update(optimiser=copied(run.optimiser.state()), log=copied(run.log.state()))

        yield after_epoch

    @contextmanager
    def restore(run):
        with torch.no_grad():
            run.particles.copy_(kept["particles"])
        run.optimiser.restore(kept["optimiser"])
        run.log.restore(kept["log"])
        yield lambda: None

    kept = {}
    whole = run(max_epochs=8, solver=solver, wrappers=[keep])
    resumed = run(max_epochs=8, solver=solver, wrappers=[restore, noted("a", seen := [])])
    assert torch.equal(resumed.particles, whole.particles)
    assert resumed.history == whole.history
    assert seen == ["a enters 3", *(f"a after {epoch}" for epoch in (4, 5, 6, 7, 8)), "a leaves 8"]


# Ends before the last epoch


def interrupted_at(step):
    calls = []

    def evaluation(particles, batch, generator):
        calls.append(1)
        if len(calls) == step:
            raise KeyboardInterrupt

    return Evaluated(evaluation)


def test_train__interrupt_leaves_what_was_learnt_so_far():
    seen, left = [], begun(interrupted_at(6))
    with pytest.raises(KeyboardInterrupt):
        left.train([noted("a", seen)])
    assert left.has_learnt()
    particles, history, was_interrupted = left.trained(was_interrupted=True)
    assert len(history.loss) == 5
    assert torch.equal(particles, run(max_epochs=5).particles)
    assert was_interrupted
    assert seen[-2:] == ["a after 5", "a leaves 5"]


def test_train__interrupt_before_the_end_of_the_first_epoch_leaves_nothing():
    left = begun(interrupted_at(1))
    with pytest.raises(KeyboardInterrupt):
        left.train()
    assert not left.has_learnt()


@pytest.mark.parametrize("what", ["particles", "loss"])
def test_train__interrupt_of_a_training_that_diverged_leaves_nothing(what):
    left = begun(interrupted_at(3))
    with pytest.raises(KeyboardInterrupt):
        left.train()
    assert left.has_learnt()
    (left.particles.data if what == "particles" else left.log.means)[0] = math.nan
    assert not left.has_learnt()


def test_train__interrupt_by_a_wrapper_keeps_the_epoch():
    @contextmanager
    def wrap(run):
        def after_epoch():
            if run.n_epochs == 2:
                raise KeyboardInterrupt

        yield after_epoch

    left = begun()
    with pytest.raises(KeyboardInterrupt):
        left.train([wrap])
    assert torch.equal(left.trained().particles, run(max_epochs=2).particles)


def test_train__an_error_leaves_the_wrappers():
    def evaluation(particles, batch, generator):
        raise MemoryError

    seen = []
    with pytest.raises(MemoryError):
        run(Evaluated(evaluation), wrappers=[noted("a", seen)])
    assert seen == ["a enters 0", "a leaves 0"]


def test_train__divergence_says_what_to_do():
    calls = []

    def evaluation(particles, batch, generator):
        calls.append(1)
        loss = particles.sum() * (torch.nan if len(calls) == 3 else 1.0)
        return Evaluation(loss, loss.detach(), torch.tensor(0.0))

    with pytest.raises(TrainingDivergedError, match=r"nan in epoch 3.*learning_rate"):
        run(Evaluated(evaluation))
    assert len(calls) == 3


def test_train__particles_that_are_not_finite_are_an_error():
    def evaluation(particles, batch, generator):
        loss = (0 * particles).sqrt().sum()  # zero, of which the gradient is not a number
        return Evaluation(loss, loss.detach(), torch.tensor(0.0))

    with pytest.raises(TrainingDivergedError, match=r"parameters became infinite or NaN.*learning_rate"):
        run(Evaluated(evaluation), max_epochs=1)
