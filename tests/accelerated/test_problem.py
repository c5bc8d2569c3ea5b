from dataclasses import replace

import pytest
import torch

import scenarios
from pnca.accelerated.problem import InputFactor, MassProblem
from pnca.accelerated.tiles import chunked_class_log_masses


def problem(**changes):
    a, b, x, y = scenarios.cloud(2, 7, 3), scenarios.cloud(2, 9, 3, 1), torch.rand(7, 4), torch.rand(9, 4)
    fields = MassProblem(a, b, scenarios.labels(9, 2), 2, 1.5, [slice(0, 2)])
    return replace(fields, **{"input_factor": InputFactor(x.double(), y.double(), 2.0, 0.5), **changes})


def test_problem__is_symmetric_if_points_and_inputs_are_the_same():
    z, x = scenarios.cloud(2, 9, 3), torch.rand(9, 4)
    same = problem(a=z, b=z, input_factor=InputFactor(x, x, 2.0, 0.5))
    assert same.is_symmetric
    assert replace(same, input_factor=None).is_symmetric
    assert not replace(same, input_factor=InputFactor(x, x.clone(), 2.0, 0.5)).is_symmetric
    assert not replace(same, b=z.clone()).is_symmetric


def test_problem__left_out_examples_are_in_the_order_of_the_support():
    z = scenarios.cloud(2, 9, 3)
    assert not problem().same_order
    assert problem(a=z, b=z).same_order
    assert problem(a=z, b=z.clone(), leave_one_out=True).same_order


@pytest.mark.parametrize("factor", [True, False])
def test_problem__for_some_queries_has_their_masses(factor):
    whole = problem() if factor else problem(input_factor=None)
    rows = torch.tensor([5, 0])
    expected = chunked_class_log_masses(whole)[:, rows]
    torch.testing.assert_close(chunked_class_log_masses(whole.for_queries(rows)), expected)
