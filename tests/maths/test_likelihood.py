import torch

import scenarios
from pnca.maths.likelihood import cross_entropy, cross_entropy_and_probabilities
from pnca.maths.neighbours import log_mean


def test_cross_entropy__equals_the_loop():
    logits, labels = scenarios.cloud(3, 5, 4), torch.tensor([0, 3, 1, 1, 2])
    weights = torch.tensor([1.0, 2.0, 0.5, 0.0, 1.0], dtype=logits.dtype)
    for particle, value in zip(logits, cross_entropy(logits, labels, weights), strict=True):
        terms = [
            weights[i] * (torch.log(torch.exp(particle[i]).sum()) - particle[i, labels[i]]) for i in range(5)
        ]
        torch.testing.assert_close(value, sum(terms) / 5)


def test_cross_entropy__of_one_particle_is_torchs():
    logits, labels = scenarios.cloud(1, 6, 3), torch.tensor([0, 1, 2, 0, 1, 2])
    expected = torch.nn.functional.cross_entropy(logits[0], labels)
    torch.testing.assert_close(cross_entropy(logits, labels, torch.ones(6, dtype=logits.dtype))[0], expected)


def test_cross_entropy__gradcheck():
    logits = scenarios.cloud(2, 4, 3).requires_grad_()
    labels, weights = torch.tensor([0, 2, 1, 1]), torch.tensor([1.0, 0.5, 2.0, 1.0], dtype=logits.dtype)
    assert torch.autograd.gradcheck(lambda z: cross_entropy(z, labels, weights), logits)


def test_cross_entropy__probabilities_come_with_it():
    logits, labels = scenarios.cloud(2, 4, 3), torch.tensor([0, 2, 1, 1])
    losses, probabilities = cross_entropy_and_probabilities(logits, labels, torch.ones(4).to(logits))
    torch.testing.assert_close(probabilities, logits.softmax(dim=2))
    torch.testing.assert_close(losses, cross_entropy(logits, labels, torch.ones(4).to(logits)))


def test_log_mean__stays_finite_for_extreme_logs():
    assert log_mean(torch.tensor([[-1e4, 0.0], [-1e4, 0.0]])).tolist() == [-1e4, 0.0]


def test_cross_entropy__of_shares_adds_up_even_if_one_is_empty():
    logits, labels = scenarios.cloud(3, 5, 4), torch.tensor([0, 3, 1, 1, 2])
    weights = torch.tensor([1.0, 2.0, 0.5, 0.0, 1.0], dtype=logits.dtype)
    shares = [slice(0, 3), slice(3, 5), slice(5, 5)]
    parts = [cross_entropy(logits[:, rows], labels[rows], weights[rows], 5) for rows in shares]
    torch.testing.assert_close(sum(parts), cross_entropy(logits, labels, weights))
