"""Adam and the paper's Nadam on one flat buffer of particles, each step in as few passes as torch has."""

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor
from torch.optim.adam import adam

_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8
#: Nadam's momentum grows towards beta1 with this factor to the power of the steps (Dozat, 2016).
_MOMENTUM_DECAY, _MOMENTUM_BASE = 4e-3, 0.96


class Optimiser(Protocol):
    """Moves particles, in place, against a direction."""

    def step(self, direction: Tensor) -> None:
        """Take one step: (m, p)."""
        ...

    def state(self) -> Mapping[str, Tensor]:
        """What the next steps depend on."""
        ...

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from a state of an optimiser of the same kind."""
        ...


def make_optimiser(name: str, particles: Tensor, learning_rate: float) -> Optimiser:
    """Make an optimiser for particles.

    Parameters
    ----------
    name : "nadam" or "adam"
        Nadam is the paper's.
    particles : Tensor of shape (m, p)
        They are changed at every step.
    learning_rate : float
        Step size.

    Returns
    -------
    Optimiser
    """
    if name == "nadam" and particles.device.type == "cpu":
        return FusedNadam(particles, learning_rate)
    # On a GPU a step may be recorded once and played many times: its counter must live there too.
    is_cuda = particles.device.type == "cuda"
    if name == "nadam":
        return _TorchOptimiser(
            torch.optim.NAdam([particles], lr=learning_rate, foreach=True, capturable=is_cuda), particles
        )
    return _TorchOptimiser(
        torch.optim.Adam([particles], lr=learning_rate, fused=True, capturable=is_cuda), particles
    )


class FusedNadam:
    r"""Nadam by torch's fused Adam, three times faster on a CPU than torch's Nadam.

    .. math:: w \leftarrow w - \epsilon\, \frac{c_g\, g + c_m\, m_t}{\sqrt{v_t / (1 - \beta_2^t)} + \delta},
              \quad c_g = \frac{1 - \mu_t}{1 - \prod_{s \le t} \mu_s},
              \quad c_m = \frac{\mu_{t+1}}{1 - \prod_{s \le t + 1} \mu_s}

    With :math:`m_t = \beta_1 m_{t-1} + (1 - \beta_1) g` the numerator is
    :math:`(c_g + c_m) (b\, m_{t-1} + (1 - b)\, g)` for :math:`b = c_m \beta_1 / (c_g + c_m)`: a step of Adam
    from the same moments with its first rate equal to :math:`b` and the step size adjusted.

    Parameters
    ----------
    particles : Tensor of shape (m, p)
        They are changed at every step.
    learning_rate : float
        Step size :math:`\epsilon`.
    """

    def __init__(self, particles: Tensor, learning_rate: float) -> None:
        self.particles, self.learning_rate = particles, learning_rate
        self.mean, self.sq_mean = torch.zeros_like(particles), torch.zeros_like(particles)
        self.n_steps, self.momentum_product = 0, 1.0

    @torch.no_grad()
    def step(self, direction: Tensor) -> None:
        """Take one step: (m, p)."""
        t = self.n_steps = self.n_steps + 1
        momentum, next_momentum = _momentum(t), _momentum(t + 1)
        self.momentum_product *= momentum
        of_gradient = (1 - momentum) / (1 - self.momentum_product)
        of_mean = next_momentum / (1 - self.momentum_product * next_momentum)
        rate = of_mean * _BETA1 / (of_gradient + of_mean)
        adam(
            [self.particles],
            [direction],
            [self.mean],  # becomes b m + (1 - b) g
            [self.sq_mean],
            [],
            [torch.tensor(float(t - 1))],
            fused=True,
            amsgrad=False,
            beta1=rate,
            beta2=_BETA2,
            # Adam divides by 1 - rate^t.
            lr=self.learning_rate * (of_gradient + of_mean) * (1 - rate**t),
            weight_decay=0.0,
            eps=_EPSILON,
            maximize=False,
        )
        # From there to beta1 m + (1 - beta1) g along the same line: no second buffer.
        self.mean.lerp_(direction, -of_gradient / of_mean)

    def state(self) -> dict[str, Tensor]:
        """What the next steps depend on."""
        counted = torch.tensor([self.n_steps, self.momentum_product], dtype=torch.float64)
        return {"mean": self.mean, "sq_mean": self.sq_mean, "counted": counted}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from a state."""
        self.mean.copy_(state["mean"])
        self.sq_mean.copy_(state["sq_mean"])
        n_steps, self.momentum_product = state["counted"].tolist()
        self.n_steps = int(n_steps)


class _TorchOptimiser:
    """An optimiser of torch, told the direction instead of reading it off the gradient."""

    def __init__(self, optimiser: torch.optim.Optimizer, particles: Tensor) -> None:
        self.optimiser, self.particles = optimiser, particles

    def step(self, direction: Tensor) -> None:
        self.particles.grad = direction
        self.optimiser.step()

    def state(self) -> dict[str, Tensor]:
        return dict(self.optimiser.state[self.particles])

    def restore(self, state: dict[str, Tensor]) -> None:
        # Counters too: they are on the particles' device, for a recorded step.
        moved = {name: value.to(self.particles.device, copy=True) for name, value in state.items()}
        self.optimiser.state[self.particles] = moved


def _momentum(step: int) -> float:
    momentum: float = _BETA1 * (1 - 0.5 * _MOMENTUM_BASE ** (step * _MOMENTUM_DECAY))
    return momentum
