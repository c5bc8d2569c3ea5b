"""What the benchmarks run on: rows to fit, embeddings in clusters, and the data sets in ``PNCA_DATA_DIR``."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pnca.accelerated import InputFactor
from pnca.maths.kernels import log_expected_kernel, log_input_factor, log_latent_kernel
from pnca.maths.neighbours import class_log_masses, leave_one_out
from pnca_studies.data import load_mnist, load_notmnist

#: Columns of an MNIST image, and classes.
COLUMNS, N_CLASSES = 784, 10
NO_DATA = "PNCA_DATA_DIR is not set"


def make_inputs(
    n: int, n_classes: int = N_CLASSES, columns: int = COLUMNS, seed: int = 0
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Rows in [0, 1] and their classes in turn, hard to tell apart; times do not need real images."""
    centres = np.random.RandomState(0).uniform(size=(n_classes, columns))
    labels = np.arange(n) % n_classes
    noise = np.random.RandomState(seed).uniform(size=(n, columns))
    return (0.3 * centres[labels] + 0.7 * noise).astype(np.float32), labels


def make_embeddings(n: int, m: int, d: int, draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """Particles (m, n, d) around the centres of their classes, and labels (n,)."""
    at = {"generator": draw, "device": draw.device}
    labels = torch.randint(N_CLASSES, (n,), **at)
    points = 1.5 * torch.randn(N_CLASSES, d, **at)[labels] + 0.5 * torch.randn(n, d, **at)
    return points + 0.5 * torch.randn(m, n, d, **at), labels


def answering(m: int, *, is_shared: bool) -> list[slice]:
    """Which particles answer together: each alone if shared, else all pairs of them."""
    return [slice(row, row + 1) for row in range(m)] if is_shared else [slice(0, m)]


def whole_kernel(
    z: Tensor,
    labels: Tensor,
    answers: Sequence[slice],
    bandwidth: float,
    factor: InputFactor | None = None,
    **options: Any,
) -> Tensor:
    """Leave-one-out log class masses from the whole (n, n) kernel, as small data are computed."""
    if len(answers) == len(z):
        log_kernel = log_latent_kernel(z, z, bandwidth)
    else:
        log_kernel = log_expected_kernel(z, z, bandwidth, **options)[None]
    if factor is not None:
        log_kernel = log_kernel + log_input_factor(*factor)
    return class_log_masses(leave_one_out(log_kernel), labels, N_CLASSES)


def load_digits_and_letters() -> tuple[Any, Any] | None:
    """MNIST and notMNIST, or None where ``PNCA_DATA_DIR`` is not set."""
    folder = os.environ.get("PNCA_DATA_DIR")
    return (load_mnist(Path(folder)), load_notmnist(Path(folder))) if folder else None
