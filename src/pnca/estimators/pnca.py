"""PNCA: clouds of particles, compared by kernel mass, and experts beside them; weighed out of fold."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

from pnca.estimators._compat import Interval, StrOptions
from pnca.estimators.base import keep_parameters
from pnca.estimators.decisions import Decides
from pnca.estimators.neighbour import NeighbourClassifier


class PNCAClassifier(Decides, NeighbourClassifier):
    """Probabilistic neighbourhood component analysis.

    Every input becomes a cloud of m points in a latent space, one from each particle, and a class is as
    probable as the share of kernel mass that its training examples give the input. A background mass
    belongs to no example: far from all of them it decides, and the prediction tends to the class
    shares. For rows of numbers the answer of these neighbours is pooled with those of experts: a logistic
    regression, and a forest. Without arguments this is the recommended model;
    ``pnca.paper_settings("PNCA")`` gives the arguments of the paper.

    The prediction's bandwidth, its background, the number of epochs and the weights of the pool are learnt
    out of fold: beside the particles that predict, which are trained on every example, each of ``n_folds``
    fold models of half as many is trained on all folds but one, in the same stacked program.

    Parameters
    ----------
    n_particles : int or "auto"
        Number of networks m; of images half of them may be kept in the end (``augmentation``). ``"auto"`` is
        eight beside experts, and ten without.
    n_components : int
        Dimension d of the latent space; ignored if ``module`` is given.
    bandwidth : float
        h in the latent kernel exp(-||z - z'||^2 / h) of the training; the reference for the one that
        is chosen for predictions.
    kernel : "exact", "orthogonal" or "positive"
        The kernel itself, the paper's orthogonal random features of it with ReLU, or positive random
        features, for many examples: a class is then one vector, so that training costs in proportion to
        the examples and prediction does not depend on their number. They approximate the kernel and have
        no ``input_weight``; ``groups`` needs another kernel.
    expectation : "shared" or "cross"
        ``"shared"`` compares inputs within each particle; each is trained and predicts on its own, and
        their probabilities are averaged. ``"cross"``, the paper's, compares every particle of an input with
        every particle of the other.
    input_weight : float or "auto"
        Weight of the distance between the inputs themselves, as a factor of the kernel. A network may
        map an out-of-distribution input onto the embedding of a training example; with a positive weight it
        still gets little mass. ``"auto"`` follows from the distances between the training inputs; zero is the
        paper, and all that ``kernel="positive"`` can do.
    novelty : bool
        Whether to reduce the kernel mass of an input that lies far from the principal subspace of the
        training inputs. About five in six in-distribution inputs lose nothing, most others little.
        False is the paper.
    background : float or "auto"
        Kernel mass that belongs to no example and is split among the classes as in the training data.
        ``"auto"`` trains with .03 and chooses the prediction's out of fold, near e^-5 of the mass that an
        example typically gets; zero is the paper.
    n_feature_blocks : int
        With ``kernel="orthogonal"``, the number of frequencies per latent dimension: the more, the
        nearer to the exact kernel. The paper uses ten. With ``kernel="positive"``, the number of features
        per latent dimension; they lie around the classes in turn, and each class has one block at least.
    update : "independent" or "functional"
        The plain gradient of each particle, or the paper's functional gradient, which smooths the
        gradients over the particles.
    n_folds : int or None
        Number of folds. None fits no fold models: ``background="auto"`` is then .03, the bandwidth is that of
        the training, the last epoch is taken, and ``novelty`` takes log(n / background) for its depth.
    experts : "auto", or sequence of "linear" and "forest"
        What is heard beside the neighbours: logistic regression whose ridge is chosen out of fold, and a
        random forest that is read as neighbours (an example counts where it shares a leaf). The pool is the
        mean of all answers under the weights ``pool_weights_``. With ``novelty`` all of them lose their say
        to the class shares with the distance of an input from every class; without it experts may be sure of
        anything. ``"auto"`` is both for rows of numbers, and none for images, with a ``module``, with
        ``kernel="positive"`` and with ``n_folds=None``.
    categorical_features : array-like of str, int or bool, or None
        Columns of numbers that are codes: their names, their positions, or a truth value for each. Text,
        truth values and dates of a pandas table are found without it.
    scaling : "auto", "columns", "common" or None
        How inputs are put on a scale. ``"columns"`` centres each column and divides it by its spread, as
        tables need; ``"common"`` divides all by one spread, as pixels and spectra need. ``"auto"`` takes
        the first if neighbours then share a class clearly more often, and never for images. None leaves
        inputs as they are, as does a ``module``.
    hidden_layer_sizes : sequence of int or "auto"
        Widths of the hidden layers (ReLU). ``"auto"`` is two of 200; beside experts one of 100, but with 101
        to 1,000 columns.
    module : nn.Module, callable or None
        Replaces the layers: a callable that builds a module, or an instance whose trainable
        layers are drawn anew. It maps (n, ...) to the latent space (n, d).
    max_epochs : int or "auto"
        Passes over the training data. ``"auto"`` is 300 for up to 500 examples and fewer for more, so that
        the number of steps stays about the same; but never fewer than 20, or 5 with ``kernel="positive"``.
        Beside experts it is at most 50; 90 with more than 100 columns, and 60 with more than 1,000.
    learning_rate : float or "auto"
        Step size. ``"auto"`` is .01 beside experts, and .003 without.
    solver : "adam" or "nadam"
        Adam, or the paper's Nadam.
    dropout : float or "auto"
        Share of the inputs set to zero at random in training, anew for each particle and example.
        ``"auto"`` is .2 for images and grows with the number of columns otherwise, from none to one half.
    augmentation : float or "auto"
        For images: how far they are moved, turned and resized at random in training. Strength one means at
        most a fourteenth of the side, fifteen degrees and a tenth of the size. ``"auto"`` is zero unless X
        has images. Of those, every other particle sees strength one and the rest one and a half, and out of
        fold it is chosen which of them predict, or all (with an even number of at least four particles that
        predict each on its own; otherwise it is one). Set it to zero where the place or direction of things
        matters.
    image_shape : tuple of int or None
        (height, width) or with channels, if X has images as rows of numbers; None reads it off X.
    batch_size : int, "auto" or None
        Examples per step, which are then each other's neighbours; None takes all, ``"auto"`` up to 500
        and otherwise about 250, or ten of each class if that is more.
    class_weight : dict, "balanced" or None
        Weights of the classes, in the loss, in the kernel mass and in the background: like repeating
        examples. Probabilities are then those of the reweighted classes; leave it out for calibrated ones.
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
    bandwidth_, background_, input_weight_ : float
        What predictions use.
    novelty_depth_ : float
        With ``novelty``, by how much the log mass of an input falls whose log residual is 3.5 standard
        deviations above the typical one: to the background. The residual is the squared distance from the
        principal subspace through ``input_mean_`` (p,) along ``input_directions_`` (k, p), plus
        ``input_noise_``; ``typical_log_residual_`` and ``log_residual_spread_`` are of held-out training
        inputs.
    columns_ : tuple of Column
        What each column of X was taken for; not with images or a ``module``.
    pool_weights_ : dict
        What ``"neighbours"`` and each expert count for; with experts only.
    best_epoch_ : int
        Epochs after which the particles were taken.
    augmentation_ : tuple of float
        Strengths of the augmentation of the particles that were kept.
    oof_proba_ : ndarray of shape (n, c)
        Class probabilities of each training example from particles that were not trained on it; with
        ``n_folds`` only, like the next three.
    oof_evidence_ : ndarray of shape (n,)
        Its log kernel mass from the examples of other folds.
    oof_loss_ : float
        Mean negative log-likelihood of those probabilities.
    folds_ : ndarray of shape (n,)
        The fold of each training example.
    groups_ : ndarray of shape (n,)
        The group of each training example, as a number; if ``groups`` were given.
    particles_ : ndarray of shape (m, p)
        The trained parameters; half as many if one strength of the augmentation was chosen.
    support_embeddings_ : ndarray of shape (m, n, d)
        The training examples in the latent space.
    support_labels_ : ndarray of shape (n,)
        Their classes, as positions in ``classes_``.
    class_features_ : ndarray of shape (m, c, f), or (1, c, f) with ``expectation="cross"``
        With ``kernel="positive"``, the log sum of the features of each class. Beside the particles it
        is all that predictions need of the training data, with the centres of the features in the
        latent space, ``places_`` (m, f, d), their log weights, ``place_scales_`` (m, f), and the subspace of
        ``novelty``.
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
        Whether Ctrl-C ended the fit. It then has the particles that it had trained, and the bandwidth and
        background of the training; nothing was chosen out of fold, and there is no ``oof_proba_``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = PNCAClassifier(random_state=0).fit(X, y)
    >>> model.predict_proba(X[:1] + 1000).round(2)
    array([[0.33, 0.33, 0.33]])
    """

    _parameter_constraints = {  # noqa: RUF012
        **NeighbourClassifier._parameter_constraints,
        "n_particles": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "kernel": [StrOptions({"exact", "orthogonal", "positive"})],
        "expectation": [StrOptions({"cross", "shared"})],
        "input_weight": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "novelty": ["boolean"],
        "background": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "n_feature_blocks": [Interval(Integral, 1, None, closed="left")],
        "update": [StrOptions({"functional", "independent"})],
        "n_folds": [Interval(Integral, 2, None, closed="left"), None],
        "experts": ["array-like", StrOptions({"auto"})],
        "hidden_layer_sizes": ["array-like", StrOptions({"auto"})],
        "learning_rate": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "categorical_features": ["array-like", None],
        "scaling": [StrOptions({"auto", "columns", "common"}), None],
        "max_epochs": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "batch_size": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), None],
        "solver": [StrOptions({"adam", "nadam"})],
        "dropout": [Interval(Real, 0, 1, closed="left"), StrOptions({"auto"})],
        "augmentation": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
    }

    def __init__(
        self,
        *,
        n_particles: int | str = "auto",
        n_components: int = 10,
        bandwidth: float = 3.0,
        kernel: str = "exact",
        expectation: str = "shared",
        input_weight: float | str = "auto",
        novelty: bool = True,
        background: float | str = "auto",
        n_feature_blocks: int = 10,
        update: str = "independent",
        n_folds: int | None = 5,
        experts: Sequence[str] | str = "auto",
        categorical_features: Sequence[Any] | None = None,
        scaling: str | None = "auto",
        hidden_layer_sizes: Sequence[int] | str = "auto",
        module: Any = None,  # noqa: ANN401
        max_epochs: int | str = "auto",
        learning_rate: float | str = "auto",
        solver: str = "adam",
        dropout: float | str = "auto",
        augmentation: float | str = "auto",
        image_shape: tuple[int, ...] | None = None,
        batch_size: int | str | None = "auto",
        class_weight: dict[Any, float] | str | None = None,
        device: str = "auto",
        random_state: Any = None,  # noqa: ANN401
        verbose: bool = False,
    ) -> None:
        keep_parameters(self, locals())
