"""Networks by name, for settings files."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from pnca.exceptions import InvalidInputError


class SpectralLinear(nn.Linear):
    """A linear layer that stretches no distance by more than a bound.

    The largest singular value of its weight comes from a few steps of power iteration, from a fixed start
    in every pass, so that the layer has no state.
    """

    def __init__(self, n_in: int, n_out: int, bound: float = 0.95) -> None:
        super().__init__(n_in, n_out)
        self.bound = bound
        self.register_buffer("start", torch.ones(n_out) / n_out**0.5)

    def forward(self, inputs: Tensor) -> Tensor:
        """Map (n, n_in) to (n, n_out)."""
        u: Tensor = self.start  # type: ignore[assignment]
        with torch.no_grad():
            for _ in range(5):
                v = functional.normalize(self.weight.T @ u, dim=0)
                u = functional.normalize(self.weight @ v, dim=0)
        stretch = u @ self.weight @ v
        return functional.linear(inputs, self.weight / (stretch / self.bound).clamp_min(1), self.bias)


class ResidualEmbedding(nn.Module):
    """Two residual blocks; if ``spectral``, of bounded stretch, which keeps distances up to a factor."""

    def __init__(self, n_in: int, n_out: int, *, width: int, dropout: float, spectral: bool) -> None:
        super().__init__()
        layer = SpectralLinear if spectral else nn.Linear
        self.dropout = nn.Dropout(dropout)
        self.first = nn.Linear(n_in, width)
        self.blocks = nn.ModuleList(layer(width, width) for _ in range(2))
        self.last = nn.Linear(width, n_out)

    def forward(self, inputs: Tensor) -> Tensor:
        """Map (n, n_in) to (n, n_out)."""
        hidden = self.first(self.dropout(inputs))
        for block in self.blocks:
            hidden = hidden + block(hidden).relu()
        outputs: Tensor = self.last(hidden)
        return outputs


#: For rows of 784 pixels.
_MODULES = {
    "residual": partial(ResidualEmbedding, 784, 10, width=200, dropout=0.5, spectral=False),
    "spectral residual": partial(ResidualEmbedding, 784, 10, width=200, dropout=0.5, spectral=True),
}


def constructor_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Turn a table of TOML into constructor arguments: a module by name, None as the word "none"."""
    arguments = {name: None if value == "none" else value for name, value in arguments.items()}
    if "module" not in arguments:
        return arguments
    if arguments["module"] not in _MODULES:
        raise InvalidInputError(f"Unknown module {arguments['module']!r}; known are {', '.join(_MODULES)}.")
    return {**arguments, "module": _MODULES[arguments["module"]]}
