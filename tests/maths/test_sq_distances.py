import pytest
import torch

import reference
import scenarios
from pnca.maths.kernels import sq_distances


@pytest.mark.parametrize("seed", range(5))
def test_sq_distances__equals_the_loop(seed):
    a, b = scenarios.cloud(2, 6, 3, seed)[0], scenarios.cloud(2, 4, 3, seed + 50)[0]
    expected = torch.stack([torch.stack([reference.sq_distance(x, y) for y in b]) for x in a])
    torch.testing.assert_close(sq_distances(a, b), expected)


def test_sq_distances__of_a_set_with_itself_equals_two_copies():
    a = scenarios.cloud(3, 7, 4)
    torch.testing.assert_close(sq_distances(a, a), sq_distances(a, a.clone()))


def test_sq_distances__diagonal_is_exactly_zero():
    a = scenarios.cloud(1, 50, 5).float()[0] + 1000
    assert (sq_distances(a, a).diagonal() == 0).all()


def test_sq_distances__is_accurate_far_from_the_origin():
    # 1e4 squared has 8 digits: without centring, float32 would keep nothing of a distance of 1e-2.
    a = scenarios.cloud(1, 20, 3, scale=0.1).float()[0]
    exact = sq_distances(a.double(), a.double())
    shifted = (a.double() + 2.0**13).float()  # a power of two, so the shift itself rounds little
    exact_shifted = sq_distances(shifted.double(), shifted.double())
    torch.testing.assert_close(sq_distances(shifted, shifted).double(), exact_shifted, atol=1e-5, rtol=1e-5)
    assert not torch.equal(exact, exact_shifted)


def test_sq_distances__never_negative():
    a = torch.ones(30, 7) * 0.1
    assert (sq_distances(a, a.clone()) >= 0).all()


def test_sq_distances__gradient_is_finite_where_points_coincide():
    a = torch.zeros(4, 2, dtype=torch.float64, requires_grad=True)
    sq_distances(a, a).sum().backward()
    assert torch.equal(a.grad, torch.zeros_like(a))


def test_sq_distances__row_does_not_depend_on_other_rows():
    a, b = scenarios.cloud(1, 9, 3)[0], scenarios.cloud(1, 5, 3, seed=1)[0]
    torch.testing.assert_close(sq_distances(a[2:3], b), sq_distances(a, b)[2:3], rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("same", [True, False])
def test_sq_distances__gradcheck(same):
    a, b = scenarios.cloud(2, 5, 3)[0].requires_grad_(), scenarios.cloud(2, 4, 3, 1)[0].requires_grad_()
    if same:
        assert torch.autograd.gradcheck(lambda a: sq_distances(a, a), a)
    else:
        assert torch.autograd.gradcheck(sq_distances, (a, b))
