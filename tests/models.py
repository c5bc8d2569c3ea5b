"""The five models at toy size, for tests that all of them must pass."""

import torch

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


NEIGHBOUR = ["PNCA", "PNCA cross", "PNCA orthogonal", "PNCA positive", "PNCA shared", "NCA"]
SOFTMAX = ["DNN", "Ensemble", "BNN"]
ALL = NEIGHBOUR + SOFTMAX


def training_batch(model, inputs, labels, teams, indices=None):
    """These examples, or some of them, as one batch of a fitted neighbour model."""
    is_shared, n_teams = model.expectation == "shared", len(teams.slices)
    data = NeighbourData(
        inputs=inputs,
        labels=labels,
        weights=torch.ones(len(labels), dtype=inputs.dtype),
        groups=None,
        sees=None if teams.folds is None else teams.sees(),
        teams=teams,
        log_prior=torch.from_numpy(model.class_prior_).to(inputs).log(),
        team_of_answer=None
        if teams.folds is None
        else (teams.of_particles() if is_shared else torch.arange(n_teams)),
        kinds=teams.kinds(),
        frequencies=model._frequencies(inputs),
        n_groups=0,
    )
    return model._batch(data, torch.arange(len(labels)) if indices is None else indices)


def assert_blind_to_fold(model, particles, inputs, labels, teams, held_out, other_labels, tolerance):
    """A team's gradients do not depend on the labels or inputs of its fold, and all other teams' do."""

    def gradients(inputs, labels):
        w = particles.clone().requires_grad_()
        batch = training_batch(model, inputs, labels, teams)
        return torch.autograd.grad(model._evaluate(w, batch).total_loss, w)[0]

    hidden = torch.from_numpy(teams.folds == held_out)
    before, blind = gradients(inputs, labels), teams.without(held_out)
    for after in (gradients(inputs, other_labels), gradients(inputs + 5 * hidden[:, None], labels)):
        torch.testing.assert_close(after[blind], before[blind], rtol=tolerance, atol=tolerance)
        for team in teams.slices:
            if team != blind:
                assert (after[team] - before[team]).abs().max() > 1e-3
