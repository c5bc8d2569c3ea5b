"""The constructor arguments that make each model the paper's."""

from typing import Any

from pnca.exceptions import InvalidInputError

_SHARED = {"max_epochs": 100, "learning_rate": 1e-3}
_SOFTMAX = {"batch_size": 20}
_NEIGHBOUR = {"batch_size": None}

# Bandwidths: the paper's text has exp(-||z - z'||^2), but the figures were made with the authors' code,
# which divides the squared distance by 2 in NCA and by 4 in PNCA's random features.
_MODELS: dict[str, dict[str, Any]] = {
    "DNN": {**_SOFTMAX},
    "Ensemble": {**_SOFTMAX, "n_particles": 10},
    "BNN": {**_SOFTMAX, "n_particles": 10, "update": "svgd"},
    "NCA": {**_NEIGHBOUR, "bandwidth": 2.0},
    "PNCA": {
        **_NEIGHBOUR,
        "bandwidth": 4.0,
        "n_particles": 10,
        "kernel": "orthogonal",
        "n_feature_blocks": 10,
        "update": "functional",
        "expectation": "cross",
        "background": 0.0,
        "input_weight": 0.0,
        "novelty": False,
        "n_folds": None,
        "scaling": None,
        "solver": "nadam",
        "dropout": 0.0,
        "augmentation": 0.0,
    },
}

# MNIST: two hidden layers. COVID: one linear layer on frozen ResNet-50 features.
_EXPERIMENTS: dict[str, dict[str, Any]] = {
    "mnist": {"hidden_layer_sizes": (200, 200), "n_components": 10},
    "covid": {"hidden_layer_sizes": (), "n_components": 2},
}

# Training examples: 100 images, and four fifths of 351.
_N_TRAIN = {"mnist": 100, "covid": 281}


def paper_settings(model: str, experiment: str = "mnist", n_train: int | None = None) -> dict[str, Any]:
    """Return the arguments with which a model is the one in the paper.

    Parameters
    ----------
    model : str
        ``"PNCA"``, ``"NCA"``, ``"DNN"``, ``"BNN"`` or ``"Ensemble"``.
    experiment : str
        ``"mnist"`` or ``"covid"``.
    n_train : int, optional
        Number of training examples, with which the BNN's ``prior_precision`` grows; by default the
        paper's, 100 or 281.

    Returns
    -------
    dict
        Keyword arguments for the model's constructor.

    Examples
    --------
    >>> paper_settings("NCA", "covid")["n_components"]
    2
    """
    if model not in _MODELS:
        raise InvalidInputError(f"Unknown model {model!r}; the paper's models are {', '.join(_MODELS)}.")
    if experiment not in _EXPERIMENTS:
        raise InvalidInputError(
            f"Unknown experiment {experiment!r}; the paper's experiments are {', '.join(_EXPERIMENTS)}."
        )
    settings = {**_SHARED, **_EXPERIMENTS[experiment], **_MODELS[model]}
    if model == "BNN":
        # The authors' penalty beside the mean loss is 1e-3 (n / batch_size) ||w||^2. Beside the sum of the
        # losses, as a prior stands, that is a precision of n^2 / 10^4.
        n = _N_TRAIN[experiment] if n_train is None else n_train
        settings["prior_precision"] = n**2 / 1e4
    if model not in ("NCA", "PNCA"):
        del settings["n_components"]
    return settings
