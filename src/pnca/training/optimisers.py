"""Adam and the paper's Nadam on one flat buffer of particles, each step in as few passes as torch has."""

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor
from torch.optim.adam import adam

from pnca.accelerated import nadam
from pnca.maths.nadam import BETA1, BETA2, EPSILON, coefficients
from pnca.maths.stein import UNMIXED, Mixing

#: Steps whose coefficients are found at once.
_N_STEPS = 4096


class Optimiser(Protocol):
    """Moves particles, in place, against a direction."""

    #: Whether a step mixes the gradients; otherwise they must come mixed.
    mixes: bool

    def step(self, gradients: Tensor, mixing: Mixing = UNMIXED) -> None:
        """Take one step along the direction that gradients (m, p) and particles are mixed into."""
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
        return NadamByAdam(particles, learning_rate)
    if name == "nadam" and nadam.is_fused(particles):
        return nadam.FusedNadam(particles, learning_rate)
    # On a GPU a step may be captured as a CUDA graph and replayed: its counter must live there too.
    is_cuda = particles.device.type == "cuda"
    if name == "nadam":
        return _TorchOptimiser(
            torch.optim.NAdam([particles], lr=learning_rate, foreach=True, capturable=is_cuda), particles
        )
    return _TorchOptimiser(
        torch.optim.Adam([particles], lr=learning_rate, fused=True, capturable=is_cuda), particles
    )


class NadamByAdam:
    r"""Nadam by torch's fused Adam, three times faster on a CPU than torch's Nadam.

    The numerator of a step (see :func:`pnca.maths.nadam.coefficients`) is
    :math:`(c_g + c_m) (b\, m_{t-1} + (1 - b)\, g)` with :math:`b = c_m \beta_1 / (c_g + c_m)`: a step of Adam
    from the same moments, with :math:`b` for its first rate and another step size.

    Parameters
    ----------
    particles : Tensor of shape (m, p)
        They are changed at every step.
    learning_rate : float
        Step size.
    """

    mixes = False

    def __init__(self, particles: Tensor, learning_rate: float) -> None:
        self.particles, self.learning_rate = particles, learning_rate
        self.mean, self.sq_mean = torch.zeros_like(particles), torch.zeros_like(particles)
        self.n_steps = 0
        self._coefficients: list[list[float]] = []

    @torch.no_grad()
    def step(self, gradients: Tensor, mixing: Mixing = UNMIXED) -> None:
        """Take one step; the gradients (m, p) come mixed."""
        direction = _with_particles(gradients, mixing, self.particles)
        if self.n_steps >= len(self._coefficients):
            n_steps = max(_N_STEPS, 2 * self.n_steps)
            self._coefficients = coefficients(n_steps, self.learning_rate).tolist()
        of_gradient, of_mean, _ = self._coefficients[self.n_steps]
        rate = of_mean * BETA1 / (of_gradient + of_mean)
        adam(
            [self.particles],
            [direction],
            [self.mean],  # becomes b m + (1 - b) g
            [self.sq_mean],
            [],
            [torch.tensor(float(self.n_steps))],
            fused=True,
            amsgrad=False,
            beta1=rate,
            beta2=BETA2,
            # Adam divides by 1 - b^t.
            lr=(of_gradient + of_mean) * (1 - rate ** (self.n_steps + 1)),
            weight_decay=0.0,
            eps=EPSILON,
            maximize=False,
        )
        # From there to beta1 m + (1 - beta1) g along the same line: no second buffer.
        self.mean.lerp_(direction, -of_gradient / of_mean)
        self.n_steps += 1

    def state(self) -> dict[str, Tensor]:
        """What the next steps depend on."""
        return {"mean": self.mean, "sq_mean": self.sq_mean, "n_steps": torch.tensor(self.n_steps)}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from a state."""
        self.mean.copy_(state["mean"])
        self.sq_mean.copy_(state["sq_mean"])
        self.n_steps = int(state["n_steps"])


class _TorchOptimiser:
    """An optimiser of torch, told the direction instead of reading it off the gradient."""

    mixes = False

    def __init__(self, optimiser: torch.optim.Optimizer, particles: Tensor) -> None:
        self.optimiser, self.particles = optimiser, particles
        # Torch makes the state in the first step. Captured, it would be made anew at every replay.
        self.step(torch.zeros_like(particles))
        for name, value in self.state().items():
            value.fill_(1 if name == "mu_product" else 0)

    def step(self, gradients: Tensor, mixing: Mixing = UNMIXED) -> None:
        self.particles.grad = _with_particles(gradients, mixing, self.particles)
        self.optimiser.step()

    def state(self) -> dict[str, Tensor]:
        return dict(self.optimiser.state[self.particles])

    def restore(self, state: dict[str, Tensor]) -> None:
        # Counters too: they are on the particles' device, for a captured step.
        moved = {name: value.to(self.particles.device, copy=True) for name, value in state.items()}
        self.optimiser.state[self.particles] = moved


def _with_particles(gradients: Tensor, mixing: Mixing, particles: Tensor) -> Tensor:
    """Add the part of a direction that the particles themselves have."""
    return gradients if mixing.of_particles is None else gradients.addmm_(mixing.of_particles, particles)
