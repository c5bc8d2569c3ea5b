r"""Nadam: Adam with Nesterov's look ahead (Dozat, 2016), as the paper's models are trained."""

import torch
from torch import Tensor

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
#: The momentum grows towards beta1 with this factor to the power of the steps.
_DECAY = 0.96**4e-3


def coefficients(n_steps: int, learning_rate: float, device: torch.device | str = "cpu") -> Tensor:
    r"""Coefficients :math:`c_g, c_m, c_v` of each step: (n_steps, 3), float64.

    .. math:: w \leftarrow w - \frac{c_g\, g + c_m\, m_t}{\sqrt{v_t\, c_v} + \delta}, \quad
              m_t = \beta_1 m_{t-1} + (1 - \beta_1) g, \quad v_t = \beta_2 v_{t-1} + (1 - \beta_2) g^2

    .. math:: c_g = \epsilon\, \frac{1 - \mu_t}{1 - \prod_{s \le t} \mu_s}, \quad
              c_m = \epsilon\, \frac{\mu_{t+1}}{1 - \prod_{s \le t+1} \mu_s}, \quad
              c_v = \frac{1}{1 - \beta_2^t}, \quad \mu_t = \beta_1 (1 - .96^{.004 t} / 2)

    with :math:`\epsilon` the learning rate and t = 1, 2, ...
    """
    t = torch.arange(1, n_steps + 2, dtype=torch.float64, device=device)
    momenta = BETA1 * (1 - 0.5 * _DECAY**t)
    products = momenta.cumprod(dim=0)
    of_gradient = learning_rate * (1 - momenta[:-1]) / (1 - products[:-1])
    of_mean = learning_rate * momenta[1:] / (1 - products[1:])
    return torch.stack([of_gradient, of_mean, 1 / (1 - BETA2 ** t[:-1])], dim=1)
