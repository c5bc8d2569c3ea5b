"""Pools of answers, against optima and sums that are found another way."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from pnca.maths.pool import Answers, pool_weights, pooled, tempered


def some_likelihoods(k, n, seed):
    return torch.from_numpy(np.random.RandomState(seed).beta(2, 1, size=(k, n)))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("counts", [[0.5, 0.5, 0.5], [0.1, 2.0, 3.0]])
def test_pool_weights__are_the_optimum_that_scipy_finds(seed, counts):
    k, n = 3, 40
    likelihoods, examples = some_likelihoods(k, n, seed), torch.rand(n).double() + 0.5
    counts = np.array(counts)

    def cost(logits):
        weights = np.exp(logits - np.logaddexp.reduce(logits))
        mixed = np.log(weights @ likelihoods.numpy())
        return -(examples.numpy() @ mixed + counts @ np.log(weights))

    best = minimize(
        cost, np.zeros(k), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 9999}
    )
    expected = np.exp(best.x - np.logaddexp.reduce(best.x))
    found = pool_weights(likelihoods, examples, torch.from_numpy(counts))
    np.testing.assert_allclose(found.numpy(), expected, atol=2e-4)


def test_pool_weights__weighted_examples_count_like_repeated_ones():
    likelihoods = some_likelihoods(3, 6, 0)
    twice = torch.cat([likelihoods, likelihoods[:, :2]], dim=1)
    counts = torch.tensor([2.0, 2.0, 1.0, 1.0, 1.0, 1.0]).double()
    prior = torch.full((3,), 0.5)
    found = pool_weights(likelihoods, counts, prior)
    torch.testing.assert_close(found, pool_weights(twice, torch.ones(8).double(), prior))


@pytest.mark.parametrize(("count", "most"), [(0.0, 1e-9), (0.5, 0.01)])
def test_pool_weights__a_hopeless_answer_gets_what_the_prior_gives_it(count, most):
    likelihoods = torch.stack([torch.full((100,), 0.9), torch.zeros(100)]).double()
    found = pool_weights(likelihoods, torch.ones(100).double(), torch.tensor([0.5, count]))
    assert 0 <= found[1] <= most
    assert (found[1] > 0) == (count > 0)


def test_pool_weights__where_all_are_impossible_there_is_no_nan():
    likelihoods = torch.tensor([[0.0, 0.5], [0.0, 0.5]]).double()
    assert pool_weights(likelihoods, torch.ones(2).double(), torch.ones(2)).tolist() == pytest.approx(
        [0.5, 0.5]
    )


def test_pooled__is_the_equation():
    rng = np.random.RandomState(0)
    answers = rng.dirichlet(np.ones(4), size=(3, 5))
    weights, say, prior = np.array([0.5, 0.2, 0.3]), rng.rand(5), np.array([0.1, 0.2, 0.3, 0.4])
    expected = say[:, None] * np.tensordot(weights, answers, 1) + (1 - say)[:, None] * prior
    tensors = [torch.from_numpy(part) for part in (answers, weights, prior, say)]
    found = pooled(tensors[0].log(), tensors[1], tensors[2].log(), tensors[3].log())
    np.testing.assert_allclose(found.mean().exp().numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(found.log_weights.exp().sum(dim=0).numpy(), 1, rtol=1e-12)


@pytest.mark.parametrize("log_say", [None, torch.zeros(5).double()])
def test_pooled__with_all_the_say_the_class_shares_count_for_nothing(log_say):
    answers = torch.rand(3, 5, 4).double().log_softmax(dim=2)
    weights = torch.tensor([0.5, 0.2, 0.3]).double()
    found = pooled(answers, weights, torch.full((4,), 0.25).log(), log_say).mean()
    torch.testing.assert_close(found.exp(), torch.tensordot(weights, answers.exp(), 1))


def test_answers__without_weights_are_averaged():
    logs = torch.rand(3, 5, 4).double().log_softmax(dim=2)
    even = torch.full((3, 5), 1 / 3).double().log()
    torch.testing.assert_close(Answers(logs).mean(), Answers(logs, even).mean())


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan"), float("inf")])
def test_tempered__takes_positive_numbers_only(temperature):
    with pytest.raises(ValueError, match="temperature"):
        tempered(torch.zeros(1, 2), temperature)
