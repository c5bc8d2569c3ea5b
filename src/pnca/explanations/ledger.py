"""What answers consist of, as arrays; cases are made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


class Ledger(NamedTuple):
    """What makes the answers to n inputs; the first four parts of a class add up to its probability."""

    named: FloatArray  # (n, c), of the k examples that carry most
    others: FloatArray  # (n, c), of all other examples
    line: FloatArray  # (n, c), of the linear expert
    nobody: FloatArray  # (n, c), to the class shares
    rows: NDArray[np.int64]  # (n, k), of the named examples
    shares: FloatArray  # (n, k), theirs
    members: FloatArray  # (m, n, c), what each member of the neighbour model says on its own
    experts: Mapping[str, FloatArray]  # (n, c) each, what each expert says
    residuals: FloatArray | None  # (n, p), what the principal subspace leaves; None without novelty
    deviations: FloatArray | None  # (n,), of the residual from the typical one
    distances: FloatArray | None  # (n, k), to the named examples in standard units
    squares: FloatArray | None  # (n, p), of the differences from them
    class_parts: FloatArray | None  # (n, p), of the squared distance from the nearest class; None without say
    unit: float  # standard deviation of scaled inputs, by which residuals and squares are measured

    @property
    def proba(self) -> FloatArray:
        """Probabilities (n, c)."""
        return self.named + self.others + self.line + self.nobody

    @property
    def has_line(self) -> bool:
        """Whether there is a linear expert."""
        return "linear" in self.experts
