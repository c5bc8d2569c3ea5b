import torch

import scenarios
from pnca.maths.likelihood import cross_entropy, log_mean_probabilities


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


def test_log_mean_probabilities__gradcheck():
    assert torch.autograd.gradcheck(log_mean_probabilities, scenarios.cloud(2, 4, 3).requires_grad_())


def test_log_mean_probabilities__average_probabilities_and_not_logits():
    logits = scenarios.cloud(4, 5, 3)
    torch.testing.assert_close(log_mean_probabilities(logits).exp(), logits.softmax(dim=2).mean(dim=0))


def test_log_mean_probabilities__stay_finite_for_extreme_logits():
    logits = torch.tensor([[[0.0, 1e4]], [[0.0, 1e4]]])
    assert log_mean_probabilities(logits).tolist() == [[-1e4, 0.0]]


def test_cross_entropy__of_shares_adds_up_even_if_one_is_empty():
    logits, labels = scenarios.cloud(3, 5, 4), torch.tensor([0, 3, 1, 1, 2])
    weights = torch.tensor([1.0, 2.0, 0.5, 0.0, 1.0], dtype=logits.dtype)
    shares = [slice(0, 3), slice(3, 5), slice(5, 5)]
    parts = [cross_entropy(logits[:, rows], labels[rows], weights[rows], 5) for rows in shares]
    torch.testing.assert_close(sum(parts), cross_entropy(logits, labels, weights))
