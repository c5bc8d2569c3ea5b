"""The class masses to compute: one description for the tiled and for the fused implementation."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from torch import Tensor


class InputFactor(NamedTuple):
    r"""The factor by which the distance between inputs shrinks their kernel.

    .. math:: \log f_{ij} = \lambda \left(1 - \frac{\|x_i - x'_j\|^2}{s}\right)

    See :func:`pnca.maths.kernels.log_input_factor`. It has no gradient.
    """

    a: Tensor  # (n_a, p), inputs x of the queries
    b: Tensor  # (n_b, p), inputs x' of the support
    scale: float  # s
    weight: float  # lambda


@dataclass(frozen=True)
class MassProblem:
    r"""Queries, a labelled support, and which of their pairs count.

    .. math:: \log S_{ric} = \log \sum_{j:\, y_j = c} w_{rj} f_{ij} K^r_{ij}

    See :func:`pnca.accelerated.class_log_masses`, which builds it.
    """

    a: Tensor  # (m, n_a, d), embeddings of the queries
    b: Tensor  # (m, n_b, d), embeddings of the support; may be `a` itself
    labels: Tensor  # (n_b,), classes y_j of the support
    n_classes: int
    bandwidth: float
    answers: Sequence[slice]  # particles of each ensemble member r
    log_weights: Tensor | None = None  # (n_b,) or (answers, n_b), log w_rj
    leave_one_out: bool = False  # queries and support are the same examples
    groups: Tensor | None = None  # (n_b,), with leave_one_out
    input_factor: InputFactor | None = None

    @property
    def same_order(self) -> bool:
        """Whether queries and support are the same examples in the same order."""
        return self.leave_one_out or self.a is self.b

    @property
    def is_symmetric(self) -> bool:
        """Whether the kernel matrix is symmetric, input factor included."""
        factor = self.input_factor
        return self.a is self.b and (factor is None or factor.a is factor.b)

    def for_queries(self, rows: Tensor) -> "MassProblem":
        """The same problem for some of the queries, by index."""
        factor = self.input_factor
        of_rows = None if factor is None else factor._replace(a=factor.a[rows])
        return replace(self, a=self.a[:, rows], input_factor=of_rows)
