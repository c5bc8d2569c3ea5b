"""Measure ``kernel="positive"``: the error of its features, and models on MNIST from 1,000 to 60,000 images.

    PNCA_DATA_DIR=... python benchmarks/positive_kernel.py --n-train 1000,10000,60000 --exact-sizes 1000 \
        --out positive.json

The first part compares features with the exact kernel, for the embeddings of a fitted model and for
random ones. The second fits models end to end. Numbers go to a JSON file, lines to the screen as they come.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pnca import PNCAClassifier
from pnca.data import load_mnist, load_notmnist
from pnca.evaluation import (
    accuracy,
    expected_calibration_error,
    negative_log_likelihood,
    ood_auroc,
    share_above,
)
from pnca.maths.features import FLOOR, orthogonal_frequencies, random_features
from pnca.maths.kernels import log_latent_kernel
from pnca.maths.neighbours import class_log_masses
from pnca.maths.positive import Places, class_centres, log_inner_products, log_positive_features, place

#: Log kernels (n_a, n_b) by ``f`` features, from queries, support, labels, features wanted and a seed.
Approximation = Callable[[Tensor, Tensor, Tensor, int, int], Tensor]

BLOCKS = (10, 30, 100, 300)
BANDWIDTH = 3.0


def main() -> None:
    """Run the parts that are asked for, and write what they give."""
    options = _options()
    data_dir = os.environ.get("PNCA_DATA_DIR")
    mnist, letters = load_mnist(data_dir), load_notmnist(data_dir)
    results: dict[str, Any] = {"threads": torch.get_num_threads(), "device": options.device}
    if not options.no_errors:
        results["errors"] = [*errors_of("random", *_random_embeddings())]
        results["errors"] += errors_of("fitted", *_fitted_embeddings(mnist, options.draw))
    results["models"] = []
    for n, name, settings in _models(options):
        results["models"].append(
            {"n": n, "model": name, **measure(n, settings, mnist, letters, options.draw, options.device)}
        )
        print(json.dumps(results["models"][-1]), flush=True)
        options.out.write_text(json.dumps(results, indent=1))
    options.out.write_text(json.dumps(results, indent=1))


def errors_of(name: str, queries: Tensor, support: Tensor, labels: Tensor) -> Iterator[dict[str, Any]]:
    """Compare approximations of the kernel between queries (n_a, d) and support (n, d), by feature count."""
    n_classes = int(labels.max()) + 1
    exact = log_latent_kernel(queries, support, BANDWIDTH)
    exact_masses = class_log_masses(exact, labels, n_classes)
    near = exact > exact.amax(dim=1, keepdim=True) - math.log(10)  # those that make up the mass
    for blocks in BLOCKS:
        for approximation, log_kernel_of in APPROXIMATIONS.items():
            found: list[list[float]] = []
            for seed in range(3):
                log_kernel = log_kernel_of(queries, support, labels, blocks, seed)
                masses = class_log_masses(log_kernel, labels, n_classes)
                mass_error = masses.logsumexp(dim=1) - exact_masses.logsumexp(dim=1)
                shares = 0.5 * (masses.softmax(dim=1) - exact_masses.softmax(dim=1)).abs().sum(dim=1)
                found.append(
                    [
                        ((log_kernel - exact)[near].exp() - 1).abs().median().item(),
                        (mass_error.exp() - 1).abs().median().item(),
                        mass_error.abs().median().item(),
                        shares.mean().item(),
                    ]
                )
            means = np.mean(found, axis=0).round(4).tolist()
            row = {
                "embeddings": name,
                "features": approximation,
                "count": blocks * queries.shape[1],
                "relative_error_of_near_kernels": means[0],
                "relative_error_of_mass": means[1],
                "log_error_of_mass": means[2],
                "error_of_shares": means[3],
            }
            print(json.dumps(row), flush=True)
            yield row


def _trigonometric(queries: Tensor, support: Tensor, labels: Tensor, blocks: int, seed: int) -> Tensor:
    """The paper's; as many numbers a point, so half as many frequencies."""
    frequencies = orthogonal_frequencies(queries.shape[1], max(1, blocks // 2), BANDWIDTH, _generator(seed))
    products = random_features(queries, frequencies) @ random_features(support, frequencies).mT
    return (products.relu() + FLOOR).log()


def _positive(kind: str) -> Approximation:
    def log_kernel(queries: Tensor, support: Tensor, labels: Tensor, blocks: int, seed: int) -> Tensor:
        n_classes = int(labels.max()) + 1 if kind == "classes" else 1
        groups = labels if kind == "classes" else torch.zeros_like(labels)
        one_hot = torch.nn.functional.one_hot(groups, n_classes).to(support)
        centres, spread = class_centres(support[None], one_hot, torch.ones(len(labels)).to(support))
        directions = orthogonal_frequencies(queries.shape[1], blocks, 2.0, _generator(seed))
        spread = torch.zeros_like(spread) if kind == "plain" else spread
        places: Places = place(directions, centres, spread, BANDWIDTH)
        return log_inner_products(
            log_positive_features(queries, places), log_positive_features(support, places)
        )

    return log_kernel


APPROXIMATIONS: dict[str, Approximation] = {
    "trigonometric with ReLU (the paper)": _trigonometric,
    "positive (Choromanski et al.)": _positive("plain"),
    "positive, best variance (Likhosherstov et al.)": _positive("one centre"),
    "positive, around the classes (pnca)": _positive("classes"),
}


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _random_embeddings() -> tuple[Tensor, Tensor, Tensor]:
    z = torch.randn(1500, 10, generator=_generator(0), dtype=torch.float64)
    return z[:500], z[500:], torch.arange(1000) % 10


def _fitted_embeddings(mnist: Any, draw: int) -> tuple[Tensor, Tensor, Tensor]:
    """Of one particle of an exact model of 1,000 digits: it was not made for any features."""
    rows = _rows(draw, 1000)
    model = PNCAClassifier(
        n_particles=1, n_folds=None, input_weight=0.0, max_epochs=40, random_state=0, device="cpu"
    )
    model.fit(mnist.train_images[rows] / 255, mnist.train_labels[rows])
    queries = torch.from_numpy(model.embed(mnist.test_images[:500] / 255)[0])
    return queries, torch.from_numpy(model.support_embeddings_[0]), torch.from_numpy(model.support_labels_)


def _rows(draw: int, n: int) -> Any:
    return np.random.RandomState(draw).choice(60_000, n, replace=False)


def measure(
    n: int,
    settings: dict[str, Any],
    mnist: Any,
    letters: Any,
    draw: int,
    device: str,
) -> dict[str, Any]:
    """Fit a model to a draw of n digits and measure it on all test digits and letters."""
    rows = _rows(draw, n)
    model = PNCAClassifier(random_state=0, device=device, **settings)
    start = time.perf_counter()
    model.fit(mnist.train_images[rows] / 255, mnist.train_labels[rows])
    fitted = time.perf_counter()
    p = model.predict_proba(mnist.test_images / 255)
    predicted = time.perf_counter()
    p_letters = model.predict_proba(letters.images / 255)
    evidence, of_letters = (model.evidence(images / 255) for images in (mnist.test_images, letters.images))
    return {
        "settings": settings,
        "fit_seconds": round(fitted - start, 1),
        "predict_seconds": round(predicted - fitted, 2),
        "accuracy": accuracy(mnist.test_labels, p),
        "nll": round(negative_log_likelihood(mnist.test_labels, p), 4),
        "ece": round(expected_calibration_error(mnist.test_labels, p), 4),
        "letters_above_.9": share_above(p_letters, 0.9),
        "auroc_confidence": round(ood_auroc(-p.max(axis=1), -p_letters.max(axis=1)), 4),
        "auroc_evidence": round(ood_auroc(-evidence, -of_letters), 4),
        "out_of_fold_nll": getattr(model, "oof_loss_", None),
        "chosen": [model.bandwidth_, model.background_, model.best_epoch_],
        "epochs": model.n_iter_,
    }


def _models(options: argparse.Namespace) -> Iterator[tuple[int, str, dict[str, Any]]]:
    for n in options.n_train:
        shared = dict(options.settings)
        yield n, "positive", {"kernel": "positive", **shared}
        if n in options.exact_sizes:
            yield n, "exact, input_weight=0", {"input_weight": 0.0, **shared}
            yield n, "exact", shared


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--n-train", type=_numbers, default=[1000], help="training images, such as 1000,60000"
    )
    parser.add_argument(
        "--exact-sizes", type=_numbers, default=[], help="those at which exact models run too"
    )
    parser.add_argument("--draw", type=int, default=0, help="which training images")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--no-errors", action="store_true", help="leave out the first part")
    parser.add_argument(
        "--settings",
        type=json.loads,
        default={},
        help='arguments of all models, as JSON: {"n_particles": 5, "n_folds": 2}',
    )
    parser.add_argument("--out", type=Path, default=Path("positive_kernel.json"))
    return parser.parse_args()


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]


if __name__ == "__main__":
    main()
