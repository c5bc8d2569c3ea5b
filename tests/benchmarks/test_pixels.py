"""Pooling what is stored of a fit: what a way to pool does to weights, temperature and measures."""

import numpy as np
import pytest
import torch

from pixels import WAYS, measured, pool, shrunken_temperature, table
from pnca.calibration import fit_temperature
from pool_study import Parts


def parts(n=60, n_classes=3):
    """Answers of three parts, of which the second is right by far the most."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(n) % n_classes
    strengths = torch.tensor([1.0, 4.0, 0.5]).double()[:, None, None]
    right = torch.nn.functional.one_hot(labels).double()

    def answers():
        noise = torch.randn(3, n, n_classes, generator=generator).double()
        return (strengths * right + noise).log_softmax(dim=2)

    near = torch.zeros(n).double()
    return Parts(
        labels=labels,
        log_prior=torch.full((n_classes,), 1 / n_classes).double().log(),
        out_of_fold=answers(),
        held_out=near,
        tested=answers(),
        tested_out=near,
        unseen=answers(),
        unseen_out=near + 20,
        apartness=1.0,
    )


def test_pool__neighbours_weigh_more_the_more_they_begin_with():
    weights = [pool(parts(), (count, True, 1, 0))[2] for count in (0, 5, 20, 1e6)]
    assert weights == sorted(weights)
    assert weights[0] < 0.2
    assert weights[-1] > 0.99


def test_pool__without_experts_neighbours_have_all_the_weight_and_without_say_all_answers_stay():
    given = parts()
    tested, unseen, weight = pool(given, (0, False, 0, 0))
    assert weight == 1
    # Normalised once more by a temperature of one.
    torch.testing.assert_close(tested, given.tested[0], rtol=0, atol=1e-12)
    torch.testing.assert_close(unseen, given.unseen[0], rtol=0, atol=1e-12)
    of_far = pool(given, (0, False, 1, 0))[1]
    assert of_far.exp().amax() < 0.34


@pytest.mark.parametrize(("spread", "expected"), [(1e-6, 1.0), (1e6, None)])
def test_shrunken_temperature__lies_between_one_and_what_the_examples_say(spread, expected):
    given = parts()
    expected = expected or fit_temperature(given.out_of_fold[0].numpy(), given.labels.numpy(), spread=None)
    found = shrunken_temperature(given.out_of_fold[0], given.labels, spread)
    assert found == pytest.approx(expected, abs=1e-3)  # the search stops at 1e-5 of the logarithm


def test_measured__turned_rows_are_those_beyond_the_digits():
    given = parts()
    truth = given.labels.numpy().copy()
    truth[50:] = (truth[50:] + 1) % 3  # ten in sixty are turned
    found = measured(given, truth, WAYS["begin with 0"])
    assert found["accuracy"] > 0.9
    assert found["turned"] > 0.3
    assert found["nll"] == pytest.approx(
        -float(pool(given, WAYS["begin with 0"])[0][torch.arange(50), given.labels[:50]].mean())
    )


def test_table__has_means_over_the_draws():
    ways = [{name: dict.fromkeys(("nll", "accuracy", "ece", "turned", "letters", "sure", "weight"), value)
             for name in WAYS} for value in (0.25, 0.75)]  # fmt: skip
    cells = [
        {"networks": "8 of 100-100", "draw": s, "seconds": 4.0, "ways": way} for s, way in enumerate(ways)
    ]
    lines = table(cells).splitlines()
    assert len(lines) == 2 + len(WAYS)
    assert "| begin with 5 | 0.5000 |" in lines[2 + list(WAYS).index("begin with 5")]
    assert np.all([line.endswith("| 2 | 4.0 |") for line in lines[2:]])
