"""Growth: time and peak memory of fit and predict against n, m, d and the number of classes."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from measuring import PeakMemory, clocked, finish, in_fresh_process, median, parser, timed
from pnca import PNCAClassifier
from problems import make_inputs
from records import Record

#: What stays as it is while one letter varies.
BASE = {"n": 1000, "m": 5, "d": 10, "c": 10}
SWEEPS = {"n": (250, 500, 1000, 2000, 4000), "m": (2, 4, 8, 16), "d": (2, 8, 32, 128), "c": (2, 10, 50, 250)}
KERNELS: dict[str, dict[str, Any]] = {
    "exact, cross": {"kernel": "exact", "expectation": "cross"},
    "exact, shared": {"kernel": "exact", "expectation": "shared"},
    "positive": {"kernel": "positive", "expectation": "cross"},
}
#: Rows of a prediction.
N_PREDICTED = 1000
#: A model without what is chosen or computed once: the kernel and the network remain.
_PLAIN: dict[str, Any] = {
    "n_folds": None,
    "scaling": None,
    "background": 0.03,
    "input_weight": 0.0,
    "dropout": 0.0,
    "augmentation": 0.0,
    "batch_size": None,
    "random_state": 0,
}


def measure_point(
    *, kernel: str, n: int, m: int, d: int, c: int, device: str, epochs: int, n_predicted: int = N_PREDICTED
) -> dict[str, float | None]:
    """Fit and predict in this process: seconds of an epoch but the first and of a prediction, GiB of each."""
    settings = {**KERNELS[kernel], **_PLAIN, "device": device}
    (X, y), (new, _) = make_inputs(n, c), make_inputs(n_predicted, c, seed=1)
    # What torch loads at a first time is not what grows.
    first = PNCAClassifier(**settings, n_particles=2, n_components=2, max_epochs=2).fit(*make_inputs(20, 2))
    first.predict_proba(new[:2])
    model = PNCAClassifier(**settings, n_particles=m, n_components=d, max_epochs=epochs)
    peak = PeakMemory(device)
    with clocked("epoch", device) as of_epochs:
        model.fit(X, y)
    fit = {"fit_seconds": median(of_epochs["wall"][1:]), "fit_gib": peak.gib()}
    peak = PeakMemory(device)
    seconds = median([timed(lambda: model.predict_proba(new), device) for _ in range(3)])
    return {**fit, "predict_seconds": seconds, "predict_gib": peak.gib()}


def make_records(
    kernel: str, sweep: str, sizes: Mapping[str, int], device: str, measured: Mapping[str, float | None]
) -> list[Record]:
    """Turn a point into one record of the fit and one of the prediction."""
    words = {"fit": "an epoch", "predict": f"{N_PREDICTED:,} rows"}
    return [
        Record(
            name=f"{kernel}: {task} ({words[task]}), {sweep} = {sizes[sweep]}",
            **sizes,
            device=device,
            seconds=measured[f"{task}_seconds"],
            memory_gib=measured[f"{task}_gib"],
            series=f"{kernel}: {task}",
            sweep=sweep,
        )
        for task in words
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    options = parser(__doc__, repeats=1)
    options.add_argument("--epochs", type=int, default=6, help="Epochs of a fit; the first does not count.")
    options.add_argument(
        "--kernels", nargs="*", choices=KERNELS, default=list(KERNELS), help="Which kernels."
    )
    finish(chosen := options.parse_args(arguments), "growth", _measure_all(chosen))


def _measure_all(chosen: argparse.Namespace) -> Iterator[list[Record]]:
    sweeps = {"n": (20, 40)} if chosen.tiny else SWEEPS
    for kernel in chosen.kernels[:1] if chosen.tiny else chosen.kernels:
        for sweep, values in sweeps.items():
            for value in values:
                sizes = {**BASE, sweep: value}
                point = {**sizes, "kernel": kernel, "device": chosen.device, "epochs": chosen.epochs}
                measured = in_fresh_process(__file__, "--point", json.dumps(point), chosen.threads or 0)
                yield make_records(kernel, sweep, sizes, chosen.device, measured)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--point"]:
        torch.set_num_threads(int(sys.argv[3]) or torch.get_num_threads())
        print(json.dumps(measure_point(**json.loads(sys.argv[2]))))
    else:
        main()
