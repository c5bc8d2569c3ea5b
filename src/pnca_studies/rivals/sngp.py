"""Spectral-normalised neural Gaussian process (SNGP)."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.parametrizations import spectral_norm

from pnca.estimators._compat import Interval, StrOptions
from pnca.exceptions import InvalidInputError
from pnca_studies.rivals.networks import Augment, NetworkBaseline, mean_field_log_probabilities


class BoundedLinear(nn.Module):
    r"""A linear layer whose weights have at most a given spectral norm.

    .. math:: \bar W = W \cdot \min\!\left(1, \frac{b}{\sigma(W)}\right)

    The norm :math:`\sigma(W)` is estimated by the power iteration of torch's ``spectral_norm``, one step in
    every forward pass of training.
    """

    def __init__(self, n_in: int, n_out: int, *, bound: float) -> None:
        super().__init__()
        self.linear = nn.Linear(n_in, n_out)
        spectral_norm(self.linear)
        self.bound = bound

    def forward(self, inputs: Tensor) -> Tensor:
        """Map inputs (n, n_in) to (n, n_out)."""
        unit = self.linear.weight  # W / sigma(W)
        original = self.get_parameter("linear.parametrizations.weight.original")  # W
        with torch.no_grad():
            sigma = original.norm() / unit.norm()
        weight = unit * self.bound if sigma > self.bound else original
        return functional.linear(inputs, weight, self.get_parameter("linear.bias"))


class SNGPNetwork(nn.Module):
    r"""Residual layers that nearly keep distances, followed by random features of a Gaussian process.

    .. math:: h_0 = \bar W_0 x + b_0, \quad h_k = h_{k-1} + \mathrm{ReLU}(\bar W_k h_{k-1} + b_k), \quad
              \phi = \sqrt{2 / D} \cos(\Omega h_K / l + u), \quad f = \beta^\top \phi

    with :math:`\|\bar W_k\| \le b`, and :math:`\Omega` standard normal and u uniform in :math:`[0, 2 \pi]`,
    both drawn once: :math:`\phi(h)^\top \phi(h') \approx e^{-\|h - h'\|^2 / 2 l^2}`.

    The paper leaves the length scale l to the user. Here it is given in units of the median distance of two
    inputs in the untrained network, so that it means the same whatever the units of the inputs.
    """

    def __init__(
        self,
        inputs: Tensor,
        *,
        width: int,
        n_blocks: int,  # K
        n_features: int,  # D
        n_classes: int,
        bound: float,  # b
        lengthscale: float,  # l, in median distances
    ) -> None:
        super().__init__()
        self.first = BoundedLinear(inputs.shape[1], width, bound=bound)
        self.blocks = nn.ModuleList([BoundedLinear(width, width, bound=bound) for _ in range(n_blocks)])
        self.beta = nn.Parameter(torch.zeros(n_features, n_classes))
        self.register_buffer("phases", 2 * math.pi * torch.rand(n_features))
        scale = lengthscale * self._median_distance(inputs)
        self.register_buffer("frequencies", torch.randn(width, n_features) / scale)

    def hidden(self, inputs: Tensor) -> Tensor:
        """Return the hidden representation h_K (n, width) of inputs (n, p)."""
        hidden: Tensor = self.first(inputs)
        for block in self.blocks:
            hidden = hidden + block(hidden).relu()
        return hidden

    def features(self, inputs: Tensor) -> Tensor:
        """Return the random features phi (n, D) of inputs (n, p)."""
        angles = self.hidden(inputs) @ self.get_buffer("frequencies") + self.get_buffer("phases")
        return math.sqrt(2 / len(self.beta)) * angles.cos()

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the logits (n, c) of inputs (n, p)."""
        return self.features(inputs) @ self.beta

    @torch.no_grad()
    def _median_distance(self, inputs: Tensor, n_rows: int = 1000) -> float:
        distances = functional.pdist(self.hidden(inputs[:n_rows]))
        return float(distances[distances > 0].median()) if distances.any() else 1.0


class SNGPClassifier(NetworkBaseline):
    r"""Spectral-normalised neural Gaussian process (Liu et al., 2020).

    A network that keeps distances (:class:`SNGPNetwork`) feeds a Gaussian process in the form of D random
    features, whose weights have the prior :math:`\beta_k \sim N(0, s^2 I)` and, after training, the posterior
    :math:`N(\hat\beta_k, \Sigma_k)` (Laplace approximation):

    .. math:: \Sigma_k^{-1} = s^{-2} I + \sum_i w_{ik}\, \phi_i \phi_i^\top, \qquad
              v_k(x) = \phi(x)^\top \Sigma_k \phi(x)

    The weights are :math:`w_{ik} = p_{ik} (1 - p_{ik})` in the paper and 1, as for a Gaussian likelihood, in
    the code that its authors published. The first vanish where a network is certain of its few training
    examples, which then hardly count; the second are the default here.

    The variances :math:`v_k` lower the confidence by the mean-field formula of
    :mod:`pnca_studies.rivals.networks`. The evidence is minus their mean over the classes, about
    :math:`-s^2` far from all training examples.
    """

    _parameter_constraints = {  # noqa: RUF012
        **NetworkBaseline._parameter_constraints,
        "n_features": [Interval(Integral, 1, None, closed="left")],
        "likelihood": [StrOptions({"gaussian", "logistic"})],
        "prior_variance": [Interval(Real, 0, None, closed="neither")],
        "spectral_bound": [Interval(Real, 0, None, closed="neither")],
        "lengthscale": [Interval(Real, 0, None, closed="neither")],
    }

    network_: SNGPNetwork

    def __init__(
        self,
        *,
        hidden_layer_sizes: tuple[int, ...] = (200, 200),
        max_epochs: int = 300,
        learning_rate: float = 1e-3,
        weight_decay: float = 1e-4,  # of the hidden layers; the last layer's follows from the prior
        n_features: int = 1024,  # D
        likelihood: str = "gaussian",  # whether w_ik is 1, or p_ik (1 - p_ik): "logistic"
        prior_variance: float = 10.0,  # s²
        spectral_bound: float = 0.95,
        lengthscale: float = 2.0,  # in median distances; a shorter one learns less from each example
        augment: Augment | None = None,
        random_state: Any = None,  # noqa: ANN401
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.max_epochs = max_epochs
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.n_features = n_features
        self.likelihood = likelihood
        self.prior_variance = prior_variance
        self.spectral_bound = spectral_bound
        self.lengthscale = lengthscale
        self.augment = augment
        self.random_state = random_state

    def _build(self, inputs: Tensor, *, n_classes: int) -> nn.Module:
        sizes = self._checked_sizes()
        if len(set(sizes)) > 1:
            raise InvalidInputError(f"hidden_layer_sizes must be equal in a residual network; got {sizes}.")
        return SNGPNetwork(
            inputs,
            width=sizes[0],
            n_blocks=len(sizes),
            n_features=self.n_features,
            n_classes=n_classes,
            bound=self.spectral_bound,
            lengthscale=self.lengthscale,
        )

    def _parameter_groups(self, network: nn.Module, n_samples: int) -> list[dict[str, Any]]:
        beta = network.get_parameter("beta")
        others = [parameter for parameter in network.parameters() if parameter is not beta]
        return [
            {"params": others, "weight_decay": self.weight_decay},
            # The log prior of beta, divided like the log-likelihood by the number of examples.
            {"params": [beta], "weight_decay": 1 / (self.prior_variance * n_samples)},
        ]

    @torch.no_grad()
    def _finish(self, inputs: Tensor, labels: Tensor, rng: np.random.RandomState) -> None:
        features = self.network_.features(inputs)  # (n, D)
        if self.likelihood == "gaussian":
            weights = torch.ones(len(features), 1, dtype=features.dtype)
        else:
            probabilities = (features @ self.network_.beta).softmax(dim=1)
            weights = probabilities * (1 - probabilities)  # (n, c)
        precision = laplace_precision(features, weights, self.prior_variance)
        self.precision_factors_ = torch.linalg.cholesky(precision)

    def _answer(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        features = self.network_.features(inputs)
        variances = posterior_variance(features, self.precision_factors_)
        logits = features @ self.network_.beta
        return mean_field_log_probabilities(logits, variances), -variances.mean(dim=1)


def laplace_precision(features: Tensor, weights: Tensor, prior_variance: float) -> Tensor:
    r"""Return the posterior precision (c, D, D) of the last layer from features (n, D) and weights (n, c).

    .. math:: \Sigma_k^{-1} = s^{-2} I + \sum_i w_{ik}\, \phi_i \phi_i^\top
    """
    prior = torch.eye(features.shape[1], dtype=features.dtype) / prior_variance
    return torch.stack([prior + features.T @ (column[:, None] * features) for column in weights.T])


def posterior_variance(features: Tensor, precision_factors: Tensor) -> Tensor:
    r"""Return the variance (n, c) of the logits from features (n, D) and Cholesky factors (c, D, D).

    .. math:: v_k(x) = \phi(x)^\top \Sigma_k \phi(x) = \|L_k^{-1} \phi(x)\|^2,
              \qquad \Sigma_k^{-1} = L_k L_k^\top
    """
    columns = [
        torch.linalg.solve_triangular(factor, features.T, upper=False).square().sum(dim=0)
        for factor in precision_factors
    ]
    return torch.stack(columns, dim=1)
