"""The Laplace approximation of a network's last layer."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from pnca.exceptions import MissingExtraError
from pnca_studies.rivals.networks import Augment, NetworkBaseline, mean_field_log_probabilities, multilayer


class LaplaceClassifier(NetworkBaseline):
    r"""A network whose last layer is given a Gaussian posterior after training (Daxberger et al., 2021).

    Its precision is the generalised Gauss-Newton matrix of the last layer in Kronecker form, plus that of a
    Gaussian prior of maximal marginal likelihood; laplace-torch (extra ``benchmark``) computes both. The
    softmax of the Gaussian logits is averaged by :func:`mean_field_log_probabilities`, and the evidence is
    minus their mean variance.
    """

    #: A row's derivatives of all logits by all weights of the last layer are c times c d numbers.
    _prediction_rows = 128

    def __init__(
        self,
        *,
        hidden_layer_sizes: tuple[int, ...] = (200, 200),
        max_epochs: int = 300,
        learning_rate: float = 1e-3,
        weight_decay: float = 1e-3,
        augment: Augment | None = None,
        random_state: Any = None,  # noqa: ANN401
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.max_epochs = max_epochs
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.augment = augment
        self.random_state = random_state

    def _build(self, inputs: Tensor, *, n_classes: int) -> nn.Module:
        _import_laplace()  # what is missing should be said before the network is trained
        return multilayer([inputs.shape[1], *self._checked_sizes(), n_classes])

    def _finish(self, inputs: Tensor, labels: Tensor, rng: np.random.RandomState) -> None:
        laplace = _import_laplace().Laplace(
            self.network_, "classification", subset_of_weights="last_layer", hessian_structure="kron"
        )
        laplace.fit(DataLoader(TensorDataset(inputs, labels), batch_size=len(inputs)))
        with warnings.catch_warnings():
            # Said at every call; the link named there is the one of mean_field_log_probabilities.
            warnings.filterwarnings("ignore", message="By default `link_approx` is `probit`")
            laplace.optimize_prior_precision(pred_type="glm", method="marglik", prior_structure="scalar")
        self.laplace_ = laplace

    def _answer(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        jacobians, logits = self.laplace_.backend.last_layer_jacobians(inputs)
        covariances = self.laplace_.functional_variance(jacobians)  # (n, c, c)
        variances = covariances.diagonal(dim1=1, dim2=2)
        return mean_field_log_probabilities(logits, variances), -variances.mean(dim=1)


def _import_laplace() -> Any:  # noqa: ANN401
    try:
        with warnings.catch_warnings():
            # One of its dependencies uses torch.jit.script, which is deprecated.
            warnings.simplefilter("ignore", DeprecationWarning)
            import laplace
    except ImportError as error:
        raise MissingExtraError("laplace", "benchmark") from error
    return laplace
