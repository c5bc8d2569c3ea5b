"""The five models at toy size, for tests that all of them must pass."""

from pnca import BNNClassifier, DNNClassifier, EnsembleClassifier, NCAClassifier, PNCAClassifier

SMALL = {
    "hidden_layer_sizes": (16,),
    "learning_rate": 0.01,
    "max_epochs": 30,
    "random_state": 0,
    "device": "cpu",
}


def make(name, **settings):
    classes = {
        "PNCA": PNCAClassifier,
        "PNCA cross": PNCAClassifier,
        "PNCA exact": PNCAClassifier,
        "PNCA orthogonal": PNCAClassifier,
        "PNCA positive": PNCAClassifier,
        "PNCA shared": PNCAClassifier,
        "NCA": NCAClassifier,
        "DNN": DNNClassifier,
        "Ensemble": EnsembleClassifier,
        "BNN": BNNClassifier,
    }
    particles = {} if name in ("NCA", "DNN") else {"n_particles": 3}
    # Nothing left to choose.
    given = {"n_folds": None, "scaling": None, "background": 0.1, "bandwidth": 1.0}
    # The paper's equation, apart from its random features and with a background.
    exact = {
        **given,
        "expectation": "cross",
        "update": "functional",
        "solver": "nadam",
        "input_weight": 0.0,
        "dropout": 0.0,
    }
    variant = {
        "PNCA cross": {"expectation": "cross", "update": "functional", "n_folds": 3},
        "PNCA exact": exact,
        "PNCA orthogonal": {**exact, "kernel": "orthogonal", "background": 0.0},
        "PNCA positive": {"kernel": "positive", "n_folds": None, "background": 0.1, "dropout": 0.2},
        "PNCA shared": {**given, "input_weight": 0.5, "dropout": 0.2},
    }.get(name, {})
    if settings.get("module") is not None and "dropout" in variant:
        variant = {**variant, "dropout": 0.0}  # it is for the built-in layers
    return classes[name](**{**SMALL, **particles, **variant, **settings})


NEIGHBOUR = ["PNCA", "PNCA cross", "PNCA orthogonal", "PNCA positive", "PNCA shared", "NCA"]
SOFTMAX = ["DNN", "Ensemble", "BNN"]
ALL = NEIGHBOUR + SOFTMAX
