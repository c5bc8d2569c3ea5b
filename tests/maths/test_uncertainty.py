import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import entropy

import scenarios
from pnca.maths.pool import Answers
from pnca.maths.uncertainty import split_entropy


@pytest.mark.parametrize("seed", range(3))
def test_split_entropy__equals_scipys_entropies(seed):
    logs = scenarios.cloud(4, 5, 3, seed, scale=2.0).log_softmax(dim=-1)
    p = logs.exp().numpy()
    split = split_entropy(Answers(logs))
    np.testing.assert_allclose(split.total, entropy(p.mean(axis=0), axis=1))
    np.testing.assert_allclose(split.aleatoric, entropy(p, axis=2).mean(axis=0))
    # Mutual information: how far the particles are from their mean.
    divergence = entropy(p, p.mean(axis=0, keepdims=True), axis=2).mean(axis=0)
    np.testing.assert_allclose(split.epistemic, divergence, atol=1e-12)


@settings(max_examples=100, deadline=None)
@given(
    m=st.integers(1, 6),
    n=st.integers(1, 4),
    c=st.integers(2, 6),
    scale=st.sampled_from([0.0, 1e-9, 1.0, 30.0, 1e4]),
    impossible=st.floats(0, 0.9),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    seed=st.integers(0, 9999),
)
def test_split_entropy__parts_add_up_and_none_is_negative(m, n, c, scale, impossible, dtype, seed):
    logits = scenarios.cloud(m, n, c, seed, scale).to(dtype)
    excluded = torch.rand(m, n, c, generator=torch.Generator().manual_seed(seed)) < impossible
    excluded[..., 0] = False  # one class is possible
    total, aleatoric, epistemic = split_entropy(
        Answers(logits.masked_fill(excluded, -torch.inf).log_softmax(dim=-1))
    )
    torch.testing.assert_close(aleatoric + epistemic, total)
    for part in (total, aleatoric, epistemic):
        assert part.shape == (n,)
        assert (part >= 0).all()  # and not NaN
        assert (part <= math.log(c) + 1e-6).all()
    assert (epistemic <= math.log(m) + 1e-6).all()  # which particle it is has no more information


def test_split_entropy__particles_that_agree_are_not_epistemically_uncertain():
    logs = scenarios.cloud(1, 6, 3).log_softmax(dim=-1).expand(5, -1, -1)
    split = split_entropy(Answers(logs))
    torch.testing.assert_close(split.epistemic, torch.zeros(6, dtype=logs.dtype), atol=1e-12, rtol=0)
    torch.testing.assert_close(split.total, split.aleatoric)
    assert (split.total > 0).all()


def test_split_entropy__sure_particles_that_contradict_each_other_are_only_epistemically_uncertain():
    logs = torch.eye(4, dtype=torch.float64).log()[:, None]  # four particles, one class each
    split = split_entropy(Answers(logs))
    assert split.aleatoric.item() == 0
    assert split.total.item() == split.epistemic.item() == pytest.approx(math.log(4))


def test_split_entropy__impossible_classes_are_no_nan_and_add_nothing():
    logs = torch.tensor([[0.25, 0.75, 0.0], [0.5, 0.5, 0.0]], dtype=torch.float64).log()
    assert logs.isinf().any()
    split = split_entropy(Answers(logs))
    for got, expected in zip(split, split_entropy(Answers(logs[:, :2])), strict=True):
        torch.testing.assert_close(got, expected)


def test_split_entropy__does_not_depend_on_the_order_of_particles_and_classes():
    logs = scenarios.cloud(4, 5, 3, scale=2.0).log_softmax(dim=-1)
    for got, expected in zip(
        split_entropy(Answers(logs[[2, 0, 3, 1]][..., [1, 2, 0]])), split_entropy(Answers(logs)), strict=True
    ):
        torch.testing.assert_close(got, expected)
