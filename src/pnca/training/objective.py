"""What the training loop asks of a model."""

from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from pnca.maths.stein import Mixing
from pnca.training.sampling import Indices


class Evaluation(NamedTuple):
    """Loss of one batch, or of this rank's rows of it: the ranks' losses add up."""

    total_loss: Tensor  # (), minimised
    mean_loss: Tensor  # (), per example, for the history
    n_correct: Tensor  # (), examples classified correctly


class Objective(Protocol):
    """A loss of the particles (m, p), in batches of examples."""

    @property
    def uses_global_generator(self) -> bool:
        """Whether the network draws from torch's global generator, as ``nn.Dropout`` does."""
        ...

    def batches(self, rng: np.random.RandomState) -> list[Indices]:
        """Batches of one epoch; each example occurs once."""
        ...

    def prepare(self, indices: Tensor) -> Any:  # noqa: ANN401
        """All that the evaluation of these examples (n,) needs and that does not depend on the particles."""
        ...

    def evaluate(
        self,
        particles: Tensor,
        batch: Any,  # noqa: ANN401
        mixing: Tensor | None,
        generator: torch.Generator | None,
    ) -> Evaluation:
        """Evaluate particles (m, p) on a prepared batch.

        With ``mixing`` (m, m) the particle gradient is ``mixing @ grad``. ``generator`` is the source of
        dropout and augmentation; None is torch's global one.
        """
        ...

    def mixing(self, particles: Tensor) -> Mixing:
        """How gradients and particles make the direction that the optimiser descends."""
        ...
