"""Monte Carlo dropout."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from pnca.estimators._compat import Interval
from pnca.maths.neighbours import log_mean
from pnca.maths.pool import Answers
from pnca.maths.uncertainty import split_entropy
from pnca_studies.rivals.networks import Augment, NetworkBaseline, multilayer


class MCDropoutClassifier(NetworkBaseline):
    r"""A network that keeps its dropout on to predict (Gal & Ghahramani, 2016).

    Inputs and hidden units are dropped at random before every layer of weights, in training for every example
    separately. A prediction is the mean over T thinned networks, :math:`\bar p = \frac{1}{T} \sum_t p_t`,
    which are drawn once per fit and shared by all inputs, so that equal inputs get equal predictions.

    The evidence is minus the mutual information of the label and the thinned network,

    .. math:: -I = \frac{1}{T} \sum_t H[p_t] - H[\bar p],

    close to zero where the thinned networks agree.
    """

    _parameter_constraints = {  # noqa: RUF012
        **NetworkBaseline._parameter_constraints,
        "dropout": [Interval(Real, 0, 1, closed="left")],
        "input_dropout": [Interval(Real, 0, 1, closed="left")],
        "n_passes": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        *,
        hidden_layer_sizes: tuple[int, ...] = (200, 200),
        max_epochs: int = 300,
        learning_rate: float = 1e-3,
        dropout: float = 0.5,  # share of the hidden units
        input_dropout: float = 0.2,  # share of the inputs
        weight_decay: float = 1e-4,
        n_passes: int = 100,  # T
        augment: Augment | None = None,
        random_state: Any = None,  # noqa: ANN401
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.max_epochs = max_epochs
        self.learning_rate = learning_rate
        self.dropout = dropout
        self.input_dropout = input_dropout
        self.weight_decay = weight_decay
        self.n_passes = n_passes
        self.augment = augment
        self.random_state = random_state

    def _build(self, inputs: Tensor, *, n_classes: int) -> nn.Module:
        hidden = self._checked_sizes()
        return multilayer([inputs.shape[1], *hidden, n_classes], self._rates(len(hidden)))

    def _rates(self, n_hidden: int) -> list[float]:
        return [self.input_dropout] + n_hidden * [self.dropout]

    def _finish(self, inputs: Tensor, labels: Tensor, rng: np.random.RandomState) -> None:
        self.mask_seed_ = int(rng.randint(2**31))

    def _answer(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        generator = torch.Generator().manual_seed(self.mask_seed_)
        passes = torch.stack([self._thinned(inputs, generator) for _ in range(self.n_passes)])  # (T, n, c)
        return log_mean(passes).log_softmax(dim=1), -split_entropy(Answers(passes)).epistemic

    def _thinned(self, inputs: Tensor, generator: torch.Generator) -> Tensor:
        """Return log-probabilities (n, c) of the next thinned network, without computing what it drops."""
        layers = [module for module in self.network_.modules() if isinstance(module, nn.Linear)]
        rates = self._rates(len(layers) - 1)
        drawn = [torch.rand(layer.in_features, generator=generator) for layer in layers]
        kept = [(draw >= rate).nonzero()[:, 0] for draw, rate in zip(drawn, rates, strict=True)]
        kept.append(torch.arange(layers[-1].out_features))
        hidden = inputs[:, kept[0]]
        for k, layer in enumerate(layers):
            if k > 0:
                hidden = hidden.relu()
            weight = layer.weight[kept[k + 1]][:, kept[k]] / (1 - rates[k])
            hidden = functional.linear(hidden, weight, layer.bias[kept[k + 1]])
        return hidden.log_softmax(dim=1)
