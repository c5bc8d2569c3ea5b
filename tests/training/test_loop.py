import itertools

import numpy as np
import pytest
import torch

from pnca.exceptions import TrainingDivergedError
from pnca.maths.stein import Mixing
from pnca.networks.stacked import mix_gradients
from pnca.training.loop import train
from pnca.training.steps import Evaluation

TARGET = torch.tensor([[1.0, -2.0], [3.0, 0.5]])


def quadratic(particles, indices, mixing):
    loss = (mix_gradients(particles, mixing) - TARGET).square().sum()
    return Evaluation(loss, loss.detach(), torch.tensor(float(len(indices))))


def plain(particles):
    return Mixing()


def as_it_is(indices):
    return indices


def one_batch():
    return [np.arange(4)]


def run(evaluate=quadratic, mix=plain, batches=one_batch, **settings):
    settings = {"max_epochs": 300, "learning_rate": 0.1, **settings}
    return train(torch.zeros(2, 2), as_it_is, evaluate, mix, batches, **settings)


def test_train__finds_the_minimum_and_keeps_a_history():
    particles, history = run()
    torch.testing.assert_close(particles, TARGET, atol=0.05, rtol=0)
    assert len(history.loss) == len(history.accuracy) == 300
    assert history.loss[0] == pytest.approx(TARGET.square().sum().item())
    assert history.loss[-1] < 0.01
    assert set(history.accuracy) == {1.0}


def test_train__steps_are_those_of_nadam():
    particles, _ = run(max_epochs=7)
    expected = torch.zeros(2, 2, requires_grad=True)
    optimiser = torch.optim.NAdam([expected], lr=0.1)
    for _ in range(7):
        optimiser.zero_grad()
        (expected - TARGET).square().sum().backward()
        optimiser.step()
    torch.testing.assert_close(particles, expected.detach())


def test_train__steps_are_those_of_adam_on_request():
    particles, _ = run(max_epochs=7, optimiser="adam")
    expected = torch.zeros(2, 2, requires_grad=True)
    optimiser = torch.optim.Adam([expected], lr=0.1)
    for _ in range(7):
        optimiser.zero_grad()
        (expected - TARGET).square().sum().backward()
        optimiser.step()
    torch.testing.assert_close(particles, expected.detach())


def test_train__adam_finds_the_minimum():
    particles, history = run(optimiser="adam")
    torch.testing.assert_close(particles, TARGET, atol=0.05, rtol=0)
    assert history.loss[-1] < 0.01 < history.loss[0]


def test_train__shows_the_particles_after_each_epoch_without_gradients():
    seen = []

    def after_epoch(epoch, particles):
        assert not torch.is_grad_enabled()
        seen.append((epoch, particles.clone()))

    particles, _ = run(max_epochs=5, after_epoch=after_epoch, batches=lambda: [np.arange(3), np.arange(1)])
    assert [epoch for epoch, _ in seen] == [1, 2, 3, 4, 5]
    for (_, before), (_, after) in itertools.pairwise(seen):
        assert (before != after).all()
    assert torch.equal(seen[-1][1], particles)
    early, _ = run(max_epochs=2, batches=lambda: [np.arange(3), np.arange(1)])
    assert torch.equal(seen[1][1], early)


def test_train__follows_the_direction_and_not_the_gradient():
    mixing = Mixing(torch.tensor([[1.0, 0.5], [0.0, 0.0]]), torch.tensor([[0.3, 0.0], [1.0, -2.0]]))
    particles, _ = run(mix=lambda w: mixing, max_epochs=7)
    expected = torch.zeros(2, 2)
    optimiser = torch.optim.NAdam([expected], lr=0.1)
    for _ in range(7):
        expected.grad = mixing.direction(expected, 2 * (expected - TARGET))
        optimiser.step()
    torch.testing.assert_close(particles, expected)


def test_train__loss_is_averaged_over_batches_by_their_size():
    def evaluate(particles, indices, mixing):
        loss = 0 * particles.sum() + float(len(indices))
        return Evaluation(loss, loss.detach(), torch.tensor(1.0))

    _, history = run(evaluate, batches=lambda: [np.arange(3), np.arange(1)], max_epochs=1)
    assert history.loss == (pytest.approx((3 * 3 + 1 * 1) / 4),)
    assert history.accuracy == (pytest.approx(2 / 4),)


def test_train__does_not_change_the_initial_particles():
    initial = torch.zeros(2, 2)
    train(initial, as_it_is, quadratic, plain, one_batch, max_epochs=2, learning_rate=0.1)
    assert (initial == 0).all()


def test_train__interrupt_keeps_the_fit_so_far():
    calls = 0

    def interrupted(particles, indices, mixing):
        nonlocal calls
        calls += 1
        if calls == 6:
            raise KeyboardInterrupt
        return quadratic(particles, indices, mixing)

    with pytest.warns(UserWarning, match="5 of 300 epochs is kept"):
        particles, history = run(interrupted)
    assert len(history.loss) == 5
    assert (particles != 0).all()


def test_train__divergence_says_what_to_do():
    def diverging(particles, indices, mixing):
        loss = particles.sum() * torch.nan
        return Evaluation(loss, loss.detach(), torch.tensor(0.0))

    with pytest.raises(TrainingDivergedError, match=r"nan in epoch 1.*learning_rate"):
        run(diverging)


def test_train__is_quiet_unless_verbose(capsys):
    run(max_epochs=2)
    assert capsys.readouterr().out == ""
    run(max_epochs=2, verbose=True, description="my model")
    shown = capsys.readouterr().out
    assert "my model" in shown
    assert "2/2" in shown
    assert "loss" in shown
