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
        "PNCA orthogonal": PNCAClassifier,
        "NCA": NCAClassifier,
        "DNN": DNNClassifier,
        "Ensemble": EnsembleClassifier,
        "BNN": BNNClassifier,
    }
    particles = {} if name in ("NCA", "DNN") else {"n_particles": 3}
    kernel = {"kernel": "orthogonal", "background": 0.0} if name == "PNCA orthogonal" else {}
    return classes[name](**{**SMALL, **particles, **kernel, **settings})


NEIGHBOUR = ["PNCA", "PNCA orthogonal", "NCA"]
SOFTMAX = ["DNN", "Ensemble", "BNN"]
ALL = NEIGHBOUR + SOFTMAX
