"""Adam and the paper's Nadam on one flat buffer of particles, each step in as few passes as torch has."""

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor
from torch.optim.adam import adam

from pnca.accelerated.compiler import takes_kernels
from pnca.accelerated.nadam import MOST_MIXED, all_coefficients, nadam_step
from pnca.maths.nadam import BETA1, BETA2, EPSILON, coefficients
from pnca.maths.stein import UNMIXED, Mixing

#: Steps whose coefficients are computed at once.
_N_STEPS = 4096


class Optimiser(Protocol):
    """Moves particles, in place, against a direction."""

    #: Whether :meth:`step` can multiply gradients by ``mixing.of_gradients`` at no cost. If not, the backward
    #: pass had better do it.
    mixes_gradients: bool

    def step(self, gradients: Tensor, mixing: Mixing = UNMIXED) -> None:
        """Take one step along minus the direction that gradients (m, p) and particles are mixed into."""
        ...

    def state(self) -> Mapping[str, Tensor]:
        """Tensors on which the next steps depend."""
        ...

    def restore(self, state: dict[str, Tensor]) -> None:
        """Continue from the state of an optimiser of the same kind."""
        ...


def make_optimiser(name: str, particles: Tensor, learning_rate: float) -> Optimiser:
    """The fastest "nadam" (the paper's) or "adam" for these particles (m, p), which it changes in place."""
    if name == "nadam" and particles.device.type == "cpu":
        return NadamByAdam(particles, learning_rate)
    if name == "nadam":
        return (FusedNadam if takes_kernels(particles) else _TorchNadam)(particles, learning_rate)
    return FusedAdam(particles, learning_rate)


class _Moments:
    """Moments of the gradients and the number of steps, on the particles' device."""

    counter = torch.int64

    def __init__(self, particles: Tensor, learning_rate: float) -> None:
        self.particles, self.learning_rate = particles.detach(), learning_rate
        self.mean, self.sq_mean = torch.zeros_like(self.particles), torch.zeros_like(self.particles)
        self.n_steps = torch.zeros((), dtype=self.counter, device=particles.device)

    def state(self) -> dict[str, Tensor]:
        return {"mean": self.mean, "sq_mean": self.sq_mean, "n_steps": self.n_steps}

    def restore(self, state: dict[str, Tensor]) -> None:
        for name, value in self.state().items():
            value.copy_(state[name])


class FusedNadam(_Moments):
    """Nadam in one kernel on a GPU; see :func:`pnca.accelerated.nadam.nadam_step`."""

    def __init__(self, particles: Tensor, learning_rate: float) -> None:
        super().__init__(particles, learning_rate)
        self._coefficients = all_coefficients(learning_rate, particles.device)
        self.mixes_gradients = len(particles) <= MOST_MIXED

    @torch.no_grad()
    def step(self, gradients: Tensor, mixing: Mixing = UNMIXED) -> None:
        """Take one step, with gradients and particles mixed within it if they are few enough."""
        if not self.mixes_gradients:
            gradients, mixing = _direction(gradients, mixing, self.particles), UNMIXED
        nadam_step(self.particles, gradients, mixing, **self.state(), coefficients=self._coefficients)


class NadamByAdam(_Moments):
    r"""Nadam by torch's fused Adam, three times faster on a CPU than torch's Nadam.

    The numerator of a step (see :func:`pnca.maths.nadam.coefficients`) is
    :math:`(c_g + c_m) (b\, m_{t-1} + (1 - b)\, g)` with :math:`b = c_m \beta_1 / (c_g + c_m)`: a step of Adam
    from the same moments, with :math:`b` for its first rate and another step size.
    """

    mixes_gradients = False

    def __init__(self, particles: Tensor, learning_rate: float) -> None:
        super().__init__(particles, learning_rate)
        self._coefficients: list[list[float]] = []

    @torch.no_grad()
    def step(self, gradients: Tensor, mixing: Mixing = UNMIXED) -> None:
        """Take one step."""
        direction, n_steps = _direction(gradients, mixing, self.particles), int(self.n_steps)
        if n_steps >= len(self._coefficients):
            self._coefficients = coefficients(max(_N_STEPS, 2 * n_steps), self.learning_rate).tolist()
        of_gradient, of_mean, _ = self._coefficients[n_steps]
        rate = of_mean * BETA1 / (of_gradient + of_mean)
        step_size = (of_gradient + of_mean) * (1 - rate ** (n_steps + 1))  # Adam divides by 1 - b^t
        step = torch.tensor(float(n_steps), dtype=torch.float32)
        adam(
            [self.particles], [direction], [self.mean], [self.sq_mean], [], [step],
            lr=step_size, beta1=rate, beta2=BETA2, eps=EPSILON,
            fused=True, amsgrad=False, weight_decay=0.0, maximize=False,
        )  # fmt: skip
        # The mean is now b m + (1 - b) g; beta1 m + (1 - beta1) g lies on the same line: no second buffer.
        self.mean.lerp_(direction, -of_gradient / of_mean)
        self.n_steps += 1


class FusedAdam(_Moments):
    """Adam by torch's fused function.

    ``torch.optim.Adam`` calls the same one, but it imports torch's compiler first, for a second; and Ctrl-C
    meanwhile would leave half of that, with which no later fit of the process could begin.
    """

    counter = torch.float32  # torch's
    mixes_gradients = False

    @torch.no_grad()
    def step(self, gradients: Tensor, mixing: Mixing = UNMIXED) -> None:
        """Take one step."""
        direction = _direction(gradients, mixing, self.particles)
        adam(
            [self.particles], [direction], [self.mean], [self.sq_mean], [], [self.n_steps],
            lr=self.learning_rate, beta1=BETA1, beta2=BETA2, eps=EPSILON, capturable=self.particles.is_cuda,
            fused=True, amsgrad=False, weight_decay=0.0, maximize=False,
        )  # fmt: skip


class _TorchNadam:
    """Torch's own Nadam, given the direction instead of reading it off the gradient."""

    mixes_gradients = False

    def __init__(self, particles: Tensor, learning_rate: float) -> None:
        # A captured step's counter must live on the GPU too.
        self.optimiser = torch.optim.NAdam(
            [particles], lr=learning_rate, foreach=True, capturable=particles.is_cuda
        )
        self.particles = particles
        # Torch allocates the state in the first step. In a captured one every replay would do so again.
        self.step(torch.zeros_like(particles))
        for name, value in self.state().items():
            value.fill_(1 if name == "mu_product" else 0)

    @torch.no_grad()
    def step(self, gradients: Tensor, mixing: Mixing = UNMIXED) -> None:
        self.particles.grad = _direction(gradients, mixing, self.particles)
        self.optimiser.step()

    def state(self) -> dict[str, Tensor]:
        return dict(self.optimiser.state[self.particles])

    def restore(self, state: dict[str, Tensor]) -> None:
        # Counters too: they are on the particles' device, for a captured step.
        moved = {name: value.to(self.particles.device, copy=True) for name, value in state.items()}
        self.optimiser.state[self.particles] = moved


def _direction(gradients: Tensor, mixing: Mixing, particles: Tensor) -> Tensor:
    """Direction (m, p) that is descended; the memory of the gradients may be used for it."""
    mixed = gradients if mixing.of_gradients is None else mixing.of_gradients @ gradients
    return mixed if mixing.of_particles is None else mixed.addmm_(mixing.of_particles, particles)
