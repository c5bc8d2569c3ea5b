"""All of MNIST with the exact kernel: the learning curve of the default model, and other ways at its end."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

from measuring import finish, parser, synchronise
from pnca import PNCAClassifier
from pnca.evaluation import (
    accuracy,
    expected_calibration_error,
    negative_log_likelihood,
    ood_auroc,
    share_above,
)
from pnca_studies.data import load_mnist, load_notmnist
from records import Record

SIZES = (100, 400, 1000, 4000, 10_000, 60_000)
#: At the last size: features instead of pairs; and all examples each other's neighbours at every step.
OTHERS: dict[str, dict[str, Any]] = {
    "positive features": {"kernel": "positive"},
    "positive features, 50 blocks": {"kernel": "positive", "n_feature_blocks": 50},
    "all examples at every step": {"batch_size": None, "max_epochs": 100, "n_folds": None},
}


def measure(name: str, n: int, settings: dict[str, Any], data: Any, device: str) -> Record:
    """Fit a model to n digits, and ask it about all test digits and letters.

    Parameters
    ----------
    name : str
        What is different from the default.
    n : int
        Training digits, those of draw 0.
    settings : dict
        Arguments of the model.
    data : tuple
        MNIST and notMNIST.
    device : str
        Where it runs.

    Returns
    -------
    Record
        The seconds are those of the fit.
    """
    mnist, letters = data
    rows = np.random.RandomState(0).choice(len(mnist.train_labels), n, replace=False)
    X, tests, foreign = (
        (images / 255).astype(np.float32).reshape(len(images), -1)
        for images in (mnist.train_images[rows], mnist.test_images, letters.images)
    )
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()
    model = PNCAClassifier(random_state=0, device=device, **settings)
    start = perf_counter()
    model.fit(X, mnist.train_labels[rows])
    synchronise(device)
    fitted = perf_counter()
    p = model.predict_proba(tests)
    predicted = perf_counter()
    memory = torch.cuda.max_memory_allocated() / 2**30 if device.startswith("cuda") else None
    p_foreign, labels = model.predict_proba(foreign), mnist.test_labels
    by_confidence = ood_auroc(-p.max(axis=1), -p_foreign.max(axis=1))
    by_evidence = ood_auroc(-model.evidence(tests), -model.evidence(foreign))
    note = (
        f"NLL {negative_log_likelihood(labels, p):.4f}, ECE {expected_calibration_error(labels, p):.4f}, "
        f"letters above .9 {share_above(p_foreign, 0.9):.2%}, OoD AUROC {by_confidence:.4f} by confidence "
        f"and {by_evidence:.4f} by evidence; {model.n_iter_} epochs; 10,000 predictions in "
        f"{predicted - fitted:.2g} s"
    )
    return Record(
        name=name,
        n=n,
        m=model.n_particles,
        d=model.n_components,
        device=device,
        seconds=fitted - start,
        memory_gib=memory,
        value=float(accuracy(labels, p)),
        unit="accuracy",
        note=note,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the default at every size and the others at the last."""
    options = parser(__doc__, repeats=1)
    options.add_argument("--sizes", default=",".join(map(str, SIZES)), help="Training digits.")
    chosen = options.parse_args(arguments)
    sizes = (60,) if chosen.tiny else tuple(int(n) for n in chosen.sizes.split(","))
    folder = os.environ.get("PNCA_DATA_DIR")
    if folder is None:
        finish(chosen, "mnist_scale", (), [{"name": "MNIST", "reason": "PNCA_DATA_DIR is not set"}])
        return
    data = load_mnist(Path(folder)), load_notmnist(Path(folder))
    quick: dict[str, Any] = {"max_epochs": 2} if chosen.tiny else {}

    def measurements() -> Iterator[list[Record]]:
        if chosen.device.startswith("cuda"):
            measure("", 60, {"max_epochs": 3}, data, chosen.device)  # what CUDA sets up once
        for n in sizes:
            yield [measure("default", n, quick, data, chosen.device)]
        for name, settings in OTHERS.items():
            yield [measure(name, sizes[-1], {**settings, **quick}, data, chosen.device)]

    finish(chosen, "mnist_scale", measurements())


if __name__ == "__main__":
    main()
