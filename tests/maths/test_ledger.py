"""Parts of an answer against loops, and against each other: nothing is counted twice or lost."""

import math

import pytest
import torch

from pnca.maths.inputs import Plane, log_residuals, residual_vectors
from pnca.maths.ledger import (
    background_share,
    carried_by_examples,
    carried_by_nobody,
    column_squares,
    standard_distances,
)
from pnca.maths.neighbours import LOG_ZERO

DOUBLE = torch.float64


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(0)


def test_carried_by_examples__matches_a_loop(generator):
    shares = torch.rand(4, 7, generator=generator, dtype=DOUBLE)
    labels = torch.tensor([0, 1, 2, 0, 1, 2, 2])
    found = carried_by_examples(shares.log(), labels, 4, k=3)
    for i in range(4):
        order = sorted(range(7), key=lambda j: -float(shares[i, j]))
        assert found.rows[i].tolist() == order[:3]
        for c in range(4):
            for part, rows in ((found.named, order[:3]), (found.others, order[3:])):
                expected = sum(float(shares[i, j]) for j in rows if labels[j] == c)
                assert math.isclose(float(part[i, c]), expected, abs_tol=1e-15)


def test_carried_by_examples__of_equal_shares_names_the_first_and_zero_is_no_number_of_its_own():
    logs = torch.tensor([[-1.0, -1.0, LOG_ZERO, float("-inf")]], dtype=DOUBLE)
    found = carried_by_examples(logs, torch.tensor([0, 0, 1, 1]), 2, k=1)
    assert found.rows.tolist() == [[0]]
    assert found.others.tolist() == [[math.exp(-1), 0.0]]


def test_background_share__matches_a_loop_and_is_all_where_nothing_else_is(generator):
    masses = torch.rand(3, 5, 2, generator=generator, dtype=DOUBLE)
    expected = [sum(0.3 / (float(masses[m, i].sum()) + 0.3) for m in range(3)) / 3 for i in range(5)]
    torch.testing.assert_close(background_share(masses.log(), 0.3), torch.tensor(expected, dtype=DOUBLE))
    assert background_share(torch.full((2, 1, 2), -1e6), 0.3).item() == pytest.approx(1)
    assert background_share(masses.log(), 0.0).tolist() == [0.0] * 5


def test_carried_by_nobody__of_an_input_that_nobody_knows_is_the_class_shares():
    prior = torch.tensor([0.25, 0.75])
    nothing, all_of_it = torch.zeros(1), torch.ones(1)
    torch.testing.assert_close(carried_by_nobody(nothing, 0.5, nothing, all_of_it, prior), prior[None])
    torch.testing.assert_close(carried_by_nobody(nothing, 0.5, all_of_it, nothing, prior), prior[None])
    assert carried_by_nobody(nothing, 0.5, all_of_it, all_of_it, prior).sum() == 0


def test_distances__match_a_loop(generator):
    points, others = torch.rand(2, 3, generator=generator), torch.rand(2, 4, 3, generator=generator)
    for i in range(2):
        for k in range(4):
            squares = [float((points[i, j] - others[i, k, j]) ** 2) for j in range(3)]
            found = standard_distances(points, others, 0.5)[i, k]
            assert math.isclose(found, math.sqrt(sum(squares) / 3) / 0.5, rel_tol=1e-5)
        for j in range(3):
            mean = sum(float((points[i, j] - others[i, k, j]) ** 2) for k in range(4)) / 4
            assert math.isclose(column_squares(points, others)[i, j], mean, rel_tol=1e-5)


def test_residual_vectors__add_up_to_the_residual(generator):
    directions = torch.linalg.qr(torch.rand(4, 2, generator=generator, dtype=DOUBLE))[0].T
    plane = Plane(torch.rand(4, generator=generator, dtype=DOUBLE), directions, 0.1)
    points = torch.rand(5, 4, generator=generator, dtype=DOUBLE)
    residuals = residual_vectors(points, plane)
    torch.testing.assert_close((residuals.square().sum(dim=1) + 0.1).log(), log_residuals(points, plane))
    torch.testing.assert_close(residuals @ directions.T, torch.zeros(5, 2, dtype=DOUBLE))
