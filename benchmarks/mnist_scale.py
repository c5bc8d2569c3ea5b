"""All of MNIST with the exact kernel: the learning curve of the default model, and other ways at its end."""

import argparse
from collections.abc import Iterator, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from measuring import PeakMemory, finish, is_cuda, parser, synchronise
from pnca import PNCAClassifier
from pnca.evaluation import (
    accuracy,
    expected_calibration_error,
    negative_log_likelihood,
    ood_auroc,
    share_above,
)
from problems import NO_DATA, load_digits_and_letters
from records import Record

SIZES = (100, 400, 1000, 4000, 10_000, 60_000)
#: At the last size: features instead of pairs; and all examples each other's neighbours at every step.
OTHERS: dict[str, dict[str, Any]] = {
    "positive features": {"kernel": "positive"},
    "positive features, 50 blocks": {"kernel": "positive", "n_feature_blocks": 50},
    "all examples at every step": {"batch_size": None, "max_epochs": 100, "n_folds": None},
}


def measure(name: str, n: int, settings: dict[str, Any], data: Any, device: str) -> Record:
    """Fit a model to n digits (the seconds), and ask it about all test digits and letters."""
    mnist, letters = data
    rows = np.random.RandomState(0).choice(len(mnist.train_labels), n, replace=False)
    X, tests, others = (
        (images / 255).astype(np.float32).reshape(len(images), -1)
        for images in (mnist.train_images[rows], mnist.test_images, letters.images)
    )
    memory = PeakMemory(device)
    model = PNCAClassifier(random_state=0, device=device, **settings)
    start = perf_counter()
    model.fit(X, mnist.train_labels[rows])
    synchronise(device)
    fitted = perf_counter()
    p = model.predict_proba(tests)
    predicted = perf_counter()
    memory_gib = memory.gib() if is_cuda(device) else None
    p_others, labels = model.predict_proba(others), mnist.test_labels
    by_confidence = ood_auroc(-p.max(axis=1), -p_others.max(axis=1))
    by_evidence = ood_auroc(-model.evidence(tests), -model.evidence(others))
    return Record(
        name=name,
        n=n,
        m=model.n_particles,
        d=model.n_components,
        device=device,
        seconds=fitted - start,
        memory_gib=memory_gib,
        value=float(accuracy(labels, p)),
        unit="accuracy",
        note=(
            f"NLL {negative_log_likelihood(labels, p):.4f}, ECE {expected_calibration_error(labels, p):.4f}, "
            f"letters above .9 {share_above(p_others, 0.9):.2%}, OoD AUROC {by_confidence:.4f} by confidence "
            f"and {by_evidence:.4f} by evidence; {model.n_iter_} epochs; 10,000 predictions in "
            f"{predicted - fitted:.2g} s"
        ),
    )


def whole_numbers(text: str) -> tuple[int, ...]:
    """Sizes from an option: ``1000,60000``."""
    return tuple(int(number) for number in text.split(",") if number)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure the default at every size and the others at the last."""
    options = parser(__doc__, repeats=1)
    options.add_argument("--sizes", type=whole_numbers, default=SIZES, help="Training digits.")
    chosen = options.parse_args(arguments)
    data = load_digits_and_letters()
    if data is None:
        finish(chosen, "mnist_scale", (), {"MNIST": NO_DATA})
    else:
        finish(chosen, "mnist_scale", _measure_all(chosen, data))


def _measure_all(chosen: argparse.Namespace, data: Any) -> Iterator[list[Record]]:
    sizes, quick = ((60,), {"max_epochs": 2}) if chosen.tiny else (chosen.sizes, {})
    if is_cuda(chosen.device):
        measure("", 60, {"max_epochs": 3}, data, chosen.device)  # what CUDA sets up once
    for n in sizes:
        yield [measure("default", n, quick, data, chosen.device)]
    for name, settings in OTHERS.items():
        yield [measure(name, sizes[-1], {**settings, **quick}, data, chosen.device)]


if __name__ == "__main__":
    main()
