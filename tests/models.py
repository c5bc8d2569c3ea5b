"""The five models at toy size, what they minimise, and what they choose from."""

from copy import copy
from dataclasses import replace

import numpy as np
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits

from pnca import BNNClassifier, DNNClassifier, EnsembleClassifier, NCAClassifier, PNCAClassifier
from pnca.estimators.checks import Given, check_examples
from pnca.models import neighbours, plan
from pnca.models.options import Options
from pnca.training import sampling

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
        "PNCA pooled": PNCAClassifier,
        "PNCA positive": PNCAClassifier,
        "PNCA shared": PNCAClassifier,
        "NCA": NCAClassifier,
        "DNN": DNNClassifier,
        "Ensemble": EnsembleClassifier,
        "BNN": BNNClassifier,
    }
    particles = {} if name in ("NCA", "DNN") else {"n_particles": 3}
    if classes[name] is PNCAClassifier:
        particles["experts"] = "auto" if name == "PNCA pooled" else ()
    # Nothing left to choose.
    given = {"n_folds": None, "scaling": None, "background": 0.1, "bandwidth": 1.0}
    # The paper's equation, apart from its random features and with a background.
    exact = {
        **given,
        "expectation": "cross",
        "update": "functional",
        "solver": "nadam",
        "input_weight": 0.0,
        "novelty": False,
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


def share_of_line(model, X):
    """What the linear expert of a pool adds to the probabilities (n, c); zero without one."""
    pool = getattr(model.fitted_.reader, "pool", None)
    if pool is None or "linear" not in pool.experts:
        return np.zeros((len(X), len(model.classes_)))
    scaler = model.fitted_.scaler
    rows = torch.from_numpy(np.asarray(X))
    inputs = (rows if scaler is None else scaler.apply(rows)).double()
    say = 1.0 if pool.say is None else pool.say.log(inputs).exp().numpy()[:, None]
    line = pool.experts["linear"].log_probabilities(inputs).exp().numpy()
    return model.pool_weights_["linear"] * say * line


NEIGHBOUR = ["PNCA", "PNCA cross", "PNCA orthogonal", "PNCA pooled", "PNCA positive", "PNCA shared", "NCA"]
SOFTMAX = ["DNN", "Ensemble", "BNN"]
ALL = NEIGHBOUR + SOFTMAX


def noisy():
    """Two classes that overlap: 40 examples in three dimensions."""
    rng = np.random.RandomState(1)
    y = np.arange(40) % 2
    return (rng.normal(size=(40, 3)) + 1.5 * y[:, None]).astype(np.float32), y


def digits():
    """Sixty images (8, 8) of zeros and ones."""
    X, y = load_digits(n_class=2, return_X_y=True)
    return X[:60].reshape(60, 8, 8).astype(np.float32), y[:60]


def options_of(model):
    return Options(**model.get_params(deep=False))


def planned(model, X, y, groups=None, sample_weight=None):
    """The plan of a fit of this model, its examples in the order of X."""
    options = options_of(model)
    examples = check_examples(
        clone(model), options, Given(X, y, groups, sample_weight=sample_weight)
    ).as_given()
    return model._plan(options, examples, np.random.RandomState(0), None)


def objective(model, X, y, models=None, groups=None, sample_weight=None):
    """What a neighbour model minimises on these examples, in float64; with other fold models if given."""
    found = planned(model, X, y, groups, sample_weight).objective
    double = {name: getattr(found, name).double() for name in ("inputs", "weights", "log_prior")}
    return replace(found, **double, kernel=found.kernel.on(double["inputs"]), models=models or found.models)


def draw(objective, seed=3):
    """Particles of all models of a neighbour objective, in its precision."""
    generator = torch.Generator().manual_seed(seed)
    return objective.network.draw(objective.models.n_total, generator).to(objective.inputs)


def gradients(objective, particles, indices=None):
    """Of the loss of these examples, or of all."""
    w = particles.clone().requires_grad_()
    batch = objective.prepare(torch.arange(len(objective.labels)) if indices is None else indices)
    loss = objective.evaluate(w, batch, None, torch.Generator().manual_seed(0)).total_loss
    return torch.autograd.grad(loss, w)[0]


def assert_blind_to_fold(objective, particles, held_out, other_labels, tolerance):
    """A fold model's gradients do not depend on labels or inputs of its fold, and all other models' do."""
    models = objective.models
    hidden = torch.from_numpy(models.folds == held_out)
    before, blind = gradients(objective, particles), models.without(held_out)
    moved = objective.inputs + 5 * hidden[:, None]
    for changed in (replace(objective, labels=other_labels), replace(objective, inputs=moved)):
        after = gradients(changed, particles)
        torch.testing.assert_close(after[blind], before[blind], rtol=tolerance, atol=tolerance)
        for rows in models.slices:
            if rows != blind:
                assert (after[rows] - before[rows]).abs().max() > 1e-3


def watched_fit(model, X, y, folds=None, **others):
    """Fit a model, on given folds if any; the snapshots it chose from, and what it asked of them.

    The examples stay in the order of X.
    """
    asked, original = [], neighbours.choose

    def spy(*args):
        asked.append(args[:2])
        return original(*args)

    import pytest  # here, because hostile cases use the models without it

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbours, "choose", spy)
        patch.setattr(sampling, "row_order", lambda inputs, *others: np.arange(len(inputs)))
        if folds is not None:
            patch.setattr(plan, "assign_folds", lambda *args: folds)
        model.fit(X, y, **others)
    (found,) = asked
    return found


def with_kernel(model, kernel):
    """The same fitted model, with another kernel between the same embeddings."""
    other = copy(model)
    other.fitted_ = replace(model.fitted_, reader=replace(model.fitted_.reader, kernel=kernel))
    return other
