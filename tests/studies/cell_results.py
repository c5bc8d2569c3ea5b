"""A result of a cell that no model gave."""

import numpy as np

from pnca_studies.experiments.answers import Answers, compress
from pnca_studies.experiments.cells import CellResult


def make_result(number=0, **details):
    rng = np.random.RandomState(number)
    logs = np.log(rng.dirichlet(np.ones(3), size=200))
    answers = {
        "test": Answers(
            compact=compress(logs),
            labels=rng.randint(3, size=200).astype(np.uint8),
            evidence=rng.normal(size=200).astype(np.float32),
        ),
        "angle 60": Answers(compact=compress(logs[:5]), labels=np.zeros(5, np.uint8)),
        "bones MURA_XR_HAND": Answers(compact=compress(logs[:7])),
    }
    measures = {name: {"n": len(given.compact), "auroc": None} for name, given in answers.items()}
    return CellResult(
        columns={"n_train": 100, "draw": number, "model": "PNCA (paper)"},
        answers=answers,
        measures=measures,
        details={"seconds": {"fit_seconds": 1.5}, "settings": {"kernel": "exact"}, **details},
    )
