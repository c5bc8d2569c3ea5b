"""Softmax classifiers: one network, an ensemble, and a Bayesian network trained by SVGD."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

from pnca.estimators._compat import Interval, StrOptions
from pnca.estimators.base import ParticleClassifier, keep_parameters
from pnca.models.softmax import plan_softmax


class _SoftmaxClassifier(ParticleClassifier):
    """Particles that each minimise their own cross-entropy, and are averaged to predict."""

    _plan = staticmethod(plan_softmax)


class DNNClassifier(_SoftmaxClassifier):
    """One neural network with a softmax output: the paper's DNN.

    Parameters
    ----------
    hidden_layer_sizes : sequence of int
        Widths of the hidden layers (ReLU).
    module : nn.Module, callable or None
        Replaces the layers: a callable that builds a module, or an instance whose trainable
        layers are drawn anew. It maps (n, ...) to (n, d); a linear layer to the classes follows.
    max_epochs : int
        Passes over the training data.
    learning_rate : float
        Step size of Nadam.
    dropout : float
        Share of the inputs set to zero at random in training, anew for each network and example.
    augmentation : float
        For images: how far they are moved, turned and resized at random in training. Strength one means
        at most a fourteenth of the side, fifteen degrees and a tenth of the size; zero leaves them alone.
    image_shape : tuple of int or None
        (height, width) or with channels, if X has images as rows of numbers; None reads it off X.
    batch_size : int or None
        Examples per step; None takes all.
    class_weight : dict, "balanced" or None
        Weights of the classes in the loss.
    device : str
        ``"auto"`` (a CUDA GPU if there is one), ``"cpu"``, ``"cuda"``, ...
    random_state : int, RandomState or None
        Seed of the initial weights and the order of the examples.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (c,)
        The labels, in the order of the columns of :meth:`predict_proba`.
    particles_ : ndarray of shape (m, p)
        The trained parameters; m is one here.
    history_ : dict
        ``loss`` and ``accuracy`` on the training data in each epoch.
    n_iter_ : int
        Epochs run.
    was_interrupted_ : bool
        Whether Ctrl-C ended the fit, which then has what it had learnt.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> DNNClassifier(random_state=0).fit(X, y).predict_proba(X[:1]).round(2)
    array([[1., 0., 0.]])
    """

    def __init__(
        self,
        *,
        hidden_layer_sizes: tuple[int, ...] = (200, 200),
        module: Any = None,  # noqa: ANN401
        max_epochs: int = 100,
        learning_rate: float = 1e-3,
        dropout: float = 0.0,
        augmentation: float = 0.0,
        image_shape: tuple[int, ...] | None = None,
        batch_size: int | None = 20,
        class_weight: dict[Any, float] | str | None = None,
        device: str = "auto",
        random_state: Any = None,  # noqa: ANN401
        verbose: bool = False,
    ) -> None:
        keep_parameters(self, locals())


class EnsembleClassifier(_SoftmaxClassifier):
    """Several networks from different initial weights, their probabilities averaged: a deep ensemble.

    Parameters
    ----------
    n_particles : int
        Number of networks m.
    hidden_layer_sizes, module, max_epochs, learning_rate, dropout, augmentation, image_shape
        See :class:`DNNClassifier`.
    batch_size, class_weight, device, random_state, verbose
        See :class:`DNNClassifier`.

    Attributes
    ----------
    classes_, particles_, history_, n_iter_
        See :class:`DNNClassifier`.
    """

    _parameter_constraints = {  # noqa: RUF012
        **ParticleClassifier._parameter_constraints,
        "n_particles": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        *,
        n_particles: int = 10,
        hidden_layer_sizes: tuple[int, ...] = (200, 200),
        module: Any = None,  # noqa: ANN401
        max_epochs: int = 100,
        learning_rate: float = 1e-3,
        dropout: float = 0.0,
        augmentation: float = 0.0,
        image_shape: tuple[int, ...] | None = None,
        batch_size: int | None = 20,
        class_weight: dict[Any, float] | str | None = None,
        device: str = "auto",
        random_state: Any = None,  # noqa: ANN401
        verbose: bool = False,
    ) -> None:
        keep_parameters(self, locals())


class BNNClassifier(EnsembleClassifier):
    """A Bayesian neural network: particles moved by Stein variational gradient descent.

    Parameters
    ----------
    n_particles : int
        Number of particles m that stand for the posterior.
    prior_precision : float
        Precision of the Gaussian prior on every parameter.
    update : "svgd" or "as_published"
        ``"svgd"`` is Liu & Wang's direction. ``"as_published"`` is what the public code behind the
        PNCA paper does, and serves to reproduce it: the repulsion is reversed, and the log
        posterior is divided by the number of examples.
    hidden_layer_sizes, module, max_epochs, learning_rate, dropout, augmentation, image_shape
        See :class:`DNNClassifier`.
    batch_size, class_weight, device, random_state, verbose
        See :class:`DNNClassifier`.

    Attributes
    ----------
    classes_, particles_, history_, n_iter_
        See :class:`DNNClassifier`.
    """

    _parameter_constraints = {  # noqa: RUF012
        **EnsembleClassifier._parameter_constraints,
        "prior_precision": [Interval(Real, 0, None, closed="left")],
        "update": [StrOptions({"svgd", "as_published"})],
    }

    def __init__(
        self,
        *,
        n_particles: int = 10,
        prior_precision: float = 1.0,
        update: str = "svgd",
        hidden_layer_sizes: tuple[int, ...] = (200, 200),
        module: Any = None,  # noqa: ANN401
        max_epochs: int = 100,
        learning_rate: float = 1e-3,
        dropout: float = 0.0,
        augmentation: float = 0.0,
        image_shape: tuple[int, ...] | None = None,
        batch_size: int | None = 20,
        class_weight: dict[Any, float] | str | None = None,
        device: str = "auto",
        random_state: Any = None,  # noqa: ANN401
        verbose: bool = False,
    ) -> None:
        keep_parameters(self, locals())
