import torch

from pnca.maths.nadam import BETA1, BETA2, EPSILON, coefficients


def test_coefficients__steps_are_those_of_torch():
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(5, dtype=torch.float64, generator=generator)
    expected = w.clone().requires_grad_()
    optimiser = torch.optim.NAdam([expected], lr=0.02)
    mean = sq_mean = torch.zeros(5, dtype=torch.float64)
    for of_gradient, of_mean, correction in coefficients(200, 0.02):
        g = torch.randn(5, dtype=torch.float64, generator=generator)
        mean = BETA1 * mean + (1 - BETA1) * g
        sq_mean = BETA2 * sq_mean + (1 - BETA2) * g.square()
        w = w - (of_gradient * g + of_mean * mean) / ((sq_mean * correction).sqrt() + EPSILON)
        expected.grad = g
        optimiser.step()
    torch.testing.assert_close(w, expected.detach())


def test_coefficients__settle():
    # The momentum is beta1 in the end: c_g is then .1 and c_m .9 times the step size.
    torch.testing.assert_close(
        coefficients(2**17, 2.0)[-1], torch.tensor([0.2, 1.8, 1.0], dtype=torch.float64), rtol=1e-6, atol=0
    )
