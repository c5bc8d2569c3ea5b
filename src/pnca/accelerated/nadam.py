"""A step of Nadam on a GPU: one kernel instead of torch's fifteen, and gradients mixed within it."""

import functools

import torch
from torch import Tensor

from pnca.accelerated.compiler import power_of_two
from pnca.maths.nadam import BETA1, BETA2, EPSILON, coefficients
from pnca.maths.stein import Mixing

#: Steps after which the coefficients no longer change, to a part in a billion.
_N_STEPS = 2**17
#: Columns of a program that has 16 particles, the fewest that products on a GPU can take.
_BLOCK, _FEWEST = 128, 16
#: Most particles that are mixed within the step.
MOST_MIXED = 64


@functools.lru_cache(maxsize=4)
def all_coefficients(learning_rate: float, device: torch.device) -> Tensor:
    """Coefficients (steps, 3) of all steps until they settle; see :func:`pnca.maths.nadam.coefficients`."""
    return coefficients(_N_STEPS, learning_rate, device).float()


def nadam_step(
    particles: Tensor,
    gradients: Tensor,
    mixing: Mixing,
    mean: Tensor,
    sq_mean: Tensor,
    n_steps: Tensor,
    coefficients: Tensor,
) -> None:
    """Take one step, in place; the host reads nothing, so that it can be captured in a CUDA graph.

    The gradients (m, p) are not mixed yet; at most ``MOST_MIXED`` particles (m, p), float32, can be. Their
    moments ``mean`` and ``sq_mean`` (m, p) and the number of steps taken, (), are updated like the particles.
    The ``coefficients`` (steps, 3) are :func:`all_coefficients`.
    """
    from pnca.accelerated import _step_kernels

    m, p = particles.shape
    of_gradients, of_particles = (None if t is None else t.contiguous() for t in mixing)
    is_mixed = of_gradients is not None or of_particles is not None
    # All particles if they are mixed; else as many as leave a program enough columns.
    n_rows = max(power_of_two(m), _FEWEST) if is_mixed else min(power_of_two(m), _FEWEST)
    n_columns = _BLOCK * _FEWEST // n_rows
    _step_kernels.nadam[(-(-p // n_columns), -(-m // n_rows))](
        particles, gradients.contiguous(),
        particles if of_gradients is None else of_gradients,
        particles if of_particles is None else of_particles,
        mean, sq_mean, coefficients, n_steps, m, p, len(coefficients) - 1, BETA1, BETA2, EPSILON,
        MIXES_GRADIENTS=of_gradients is not None, MIXES_PARTICLES=of_particles is not None,
        M=n_rows, BLOCK=n_columns,
    )  # fmt: skip
    n_steps += 1
