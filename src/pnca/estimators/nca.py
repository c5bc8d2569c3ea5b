"""NCA: one particle, compared by kernel mass."""

from __future__ import annotations

from typing import Any

from pnca.estimators.base import keep_parameters
from pnca.estimators.neighbour import NeighbourClassifier


class NCAClassifier(NeighbourClassifier):
    """Neighbourhood component analysis with a network: one particle, the exact kernel.

    Parameters
    ----------
    n_components : int
        Dimension d of the latent space; ignored if ``module`` is given.
    bandwidth : float
        h in the latent kernel exp(-||z - z'||^2 / h).
    hidden_layer_sizes : sequence of int
        Widths of the hidden layers (ReLU).
    module : nn.Module, callable or None
        Replaces the layers: a callable that builds a module, or an instance whose trainable
        layers are drawn anew. It maps (n, ...) to the latent space (n, d).
    max_epochs : int
        Passes over the training data.
    learning_rate : float
        Step size of Nadam.
    dropout : float
        Share of the inputs set to zero at random in training, anew for each particle and example. Those an
        example is compared with are whole.
    augmentation : float
        For images: how far they are moved, turned and resized at random in training. Strength one means
        at most a fourteenth of the side, fifteen degrees and a tenth of the size; zero leaves them alone.
    image_shape : tuple of int or None
        (height, width) or with channels, if X has images as rows of numbers; None reads it off X.
    batch_size : int or None
        Examples per step, which are then each other's neighbours; None takes all, as the paper does.
    class_weight : dict, "balanced" or None
        Weights of the classes, in the loss and in the kernel mass: like repeating examples.
    device : str
        ``"auto"`` (a CUDA GPU if there is one), ``"cpu"``, ``"cuda"``, ...
    random_state : int, RandomState or None
        Seed of everything random.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (c,)
        The labels, in the order of the columns of :meth:`predict_proba`.
    particles_ : ndarray of shape (m, p)
        The trained parameters; m is one here.
    support_embeddings_ : ndarray of shape (m, n, d)
        The training examples in the latent space.
    support_labels_ : ndarray of shape (n,)
        Their classes, as positions in ``classes_``.
    class_prior_ : ndarray of shape (c,)
        Weighted share of each class in the training data.
    record_ : Record
        What the fit was given, in that order: ``inputs`` (a copy of X, up to 1 GiB), ``labels``, ``ids``,
        ``groups``. Predictions do not use it.
    history_ : dict
        ``loss`` and ``accuracy`` (both leave-one-out) in each epoch.
    n_iter_ : int
        Epochs run.
    was_interrupted_ : bool
        Whether Ctrl-C ended the fit, which then has what it had learnt.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = NCAClassifier(random_state=0).fit(X, y)
    >>> bool(model.evidence(X).min() > model.evidence(X + 100).max())
    True
    """

    def __init__(
        self,
        *,
        n_components: int = 10,
        bandwidth: float = 1.0,
        hidden_layer_sizes: tuple[int, ...] = (200, 200),
        module: Any = None,  # noqa: ANN401
        max_epochs: int = 100,
        learning_rate: float = 1e-3,
        dropout: float = 0.0,
        augmentation: float = 0.0,
        image_shape: tuple[int, ...] | None = None,
        batch_size: int | None = None,
        class_weight: dict[Any, float] | str | None = None,
        device: str = "auto",
        random_state: Any = None,  # noqa: ANN401
        verbose: bool = False,
    ) -> None:
        keep_parameters(self, locals())
