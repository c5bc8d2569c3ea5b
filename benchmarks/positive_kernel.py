"""Positive random features: their error against the exact kernel, and models of MNIST made with them."""

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from measuring import finish, parser
from mnist_scale import measure as measure_model
from mnist_scale import whole_numbers
from pnca import PNCAClassifier
from pnca.maths.features import FLOOR, mean_random_features, orthogonal_frequencies
from pnca.maths.kernels import log_latent_kernel
from pnca.maths.neighbours import class_log_masses
from pnca.maths.positive import class_centres, log_inner_products, log_positive_features, place
from problems import NO_DATA, load_digits_and_letters
from records import Record, Reference

#: Log kernels (n_a, n_b), from queries, support, labels, blocks of d features and a seed.
Approximation = Callable[[Tensor, Tensor, Tensor, int, int], Tensor]
#: Queries (n_a, d), support (n, d) and its labels.
Embeddings = tuple[Tensor, Tensor, Tensor]

BLOCKS = (10, 30, 100, 300)
BANDWIDTH = 3.0
N_SEEDS = 3
#: Beside models with features, and where asked for.
EXACT: dict[str, dict[str, Any]] = {"exact kernel": {}, "exact kernel without inputs": {"input_weight": 0.0}}


def trigonometric(queries: Tensor, support: Tensor, labels: Tensor, blocks: int, seed: int) -> Tensor:
    """The paper's features; as many numbers a point, so half as many frequencies."""
    frequencies = orthogonal_frequencies(queries.shape[1], max(1, blocks // 2), BANDWIDTH, _generator(seed))
    of_queries, of_support = (mean_random_features(z[None], frequencies) for z in (queries, support))
    products = of_queries @ of_support.mT
    return (products.relu() + FLOOR).log()


def positive(kind: str) -> Approximation:
    """Positive features: plain, of the best variance (one centre) or around each of the classes."""

    def log_kernel(queries: Tensor, support: Tensor, labels: Tensor, blocks: int, seed: int) -> Tensor:
        n_classes = int(labels.max()) + 1 if kind == "classes" else 1
        groups = labels if kind == "classes" else torch.zeros_like(labels)
        one_hot = torch.nn.functional.one_hot(groups, n_classes).to(support)
        centres, spread = class_centres(support[None], one_hot, torch.ones(len(labels)).to(support))
        directions = orthogonal_frequencies(queries.shape[1], blocks, 2.0, _generator(seed))
        spread = torch.zeros_like(spread) if kind == "plain" else spread
        places = place(directions, centres, spread, BANDWIDTH)
        return log_inner_products(
            log_positive_features(queries, places), log_positive_features(support, places)
        )

    return log_kernel


#: The first is pnca's.
APPROXIMATIONS: dict[str, Approximation] = {
    "positive, around the classes": positive("classes"),
    "positive of the best variance": positive("one centre"),
    "plain positive": positive("plain"),
    "trigonometric with ReLU": trigonometric,
}


def measure_errors(name: str, embeddings: Embeddings, blocks: int) -> Record:
    """Compare approximations with so many features, by the error of the class shares (total variation)."""
    found = {key: errors(approximation, embeddings, blocks) for key, approximation in APPROXIMATIONS.items()}
    ours, *others = found
    n, d = embeddings[1].shape
    return Record(
        name=f"{name} embeddings, {blocks * d:,} features",
        n=n,
        m=1,
        d=d,
        c=int(embeddings[2].max()) + 1,
        repeats=N_SEEDS,
        value=found[ours]["shares"],
        unit="error of shares",
        alternatives=[Reference(name=other, value=found[other]["shares"]) for other in others],
        note=(
            f"medians: kernels of near points wrong by {found[ours]['near']:.1%}, "
            f"the mass of all classes by {found[ours]['mass']:.1%}"
        ),
    )


def errors(approximation: Approximation, embeddings: Embeddings, blocks: int) -> dict[str, float]:
    """Errors of an approximation against the exact kernel, means over seeds.

    ``near``: median relative error of the kernels that make up most of a mass; ``mass``: of the mass of all
    classes; ``shares``: mean total variation between class shares.
    """
    queries, support, labels = embeddings
    n_classes = int(labels.max()) + 1
    exact = log_latent_kernel(queries, support, BANDWIDTH)
    exact_masses = class_log_masses(exact, labels, n_classes)
    near = exact > exact.amax(dim=1, keepdim=True) - math.log(10)
    found = []
    for seed in range(N_SEEDS):
        log_kernel = approximation(queries, support, labels, blocks, seed)
        masses = class_log_masses(log_kernel, labels, n_classes)
        mass_error = masses.logsumexp(dim=1) - exact_masses.logsumexp(dim=1)
        shares = 0.5 * (masses.softmax(dim=1) - exact_masses.softmax(dim=1)).abs().sum(dim=1)
        near_error = ((log_kernel - exact)[near].exp() - 1).abs().median()
        found.append([near_error.item(), (mass_error.exp() - 1).abs().median().item(), shares.mean().item()])
    return dict(zip(("near", "mass", "shares"), np.mean(found, axis=0).tolist(), strict=True))


def random_embeddings(n: int = 1000) -> Embeddings:
    """Normal ones, whose labels mean nothing."""
    z = torch.randn(n + n // 2, 10, generator=_generator(0), dtype=torch.float64)
    return z[: n // 2], z[n // 2 :], torch.arange(n) % 10


def fitted_embeddings(mnist: Any, n: int = 1000, epochs: int = 40) -> Embeddings:
    """Those of one particle of an exact model of n digits: it was not made for any features."""
    rows = np.random.RandomState(0).choice(len(mnist.train_labels), n, replace=False)
    model = PNCAClassifier(
        n_particles=1, n_folds=None, input_weight=0.0, max_epochs=epochs, random_state=0, device="cpu"
    )
    model.fit(mnist.train_images[rows] / 255, mnist.train_labels[rows])
    queries = torch.from_numpy(model.embed(mnist.test_images[: n // 2] / 255)[0])
    return queries, torch.from_numpy(model.support_embeddings_[0]), torch.from_numpy(model.support_labels_)


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    options = parser(__doc__, repeats=1)
    options.add_argument(
        "--sizes", type=whole_numbers, default=(1000, 10_000, 60_000), help="Training digits: 1000,60000."
    )
    options.add_argument(
        "--exact-sizes", type=whole_numbers, default=(1000,), help="Those at which exact models run too."
    )
    options.add_argument("--no-errors", action="store_true", help="Leave the errors of features out.")
    chosen = options.parse_args(arguments)
    torch.set_num_threads(chosen.threads or torch.get_num_threads())
    data = load_digits_and_letters()
    finish(chosen, "positive_kernel", _measure_all(chosen, data), {} if data else {"MNIST": NO_DATA})


def _measure_all(chosen: argparse.Namespace, data: Any) -> Iterator[list[Record]]:
    sizes, exact_sizes, blocks, n, quick = chosen.sizes, chosen.exact_sizes, BLOCKS, 1000, {}
    if chosen.tiny:
        sizes, exact_sizes, blocks, n, quick = (60,), (60,), (2, 4), 60, {"max_epochs": 2}
    if not chosen.no_errors:
        kinds = {"random": random_embeddings(n)}
        if data is not None:
            kinds["fitted"] = fitted_embeddings(data[0], n, quick.get("max_epochs", 40))
        for name, embeddings in kinds.items():
            yield [measure_errors(name, embeddings, count) for count in blocks]
    for size in sizes if data is not None else ():
        beside = []
        for name, own in EXACT.items() if size in exact_sizes else ():
            record = measure_model(f"MNIST, {name}", size, {**quick, **own}, data, chosen.device)
            beside.append(Reference(name=name, seconds=record.seconds, value=record.value))
            yield [record]
        features = {**quick, "kernel": "positive"}
        record = measure_model("MNIST, positive features", size, features, data, chosen.device)
        yield [replace(record, alternatives=beside)]


if __name__ == "__main__":
    main()
