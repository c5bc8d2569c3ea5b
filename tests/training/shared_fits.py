"""What the processes of test_distributed.py do, all in one start: ``torchrun shared_fits.py folder``."""

import errno
import json
import os
import signal
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from torch import distributed as dist
from torch import nn

import pnca
from pnca.exceptions import PncaError
from pnca.models import kernels
from pnca.models.neighbours import NeighbourObjective

sys.path.insert(0, str(Path(__file__).parents[1]))
from models import make

N = 61  # of which no number of processes is a divisor
QUIET = {"dropout": 0.0, "max_epochs": 5}
TINY = {"batch_size": 4, "two_classes": True, "dropout": 0.0, "max_epochs": 2}

#: Without anything random in a step, so one process and several must agree.
CASES = {
    "PNCA shared": {"name": "PNCA shared", **QUIET},
    "PNCA shared, folds": {"name": "PNCA", "n_folds": 3, **QUIET},
    "PNCA shared, folds, batches": {"name": "PNCA", "n_folds": 3, "batch_size": 16, **QUIET},
    "PNCA shared, batches, weights": {
        "name": "PNCA shared",
        "batch_size": 16,
        "class_weight": {"ash": 1, "birch": 3, "cedar": 0.5},
        **QUIET,
    },
    "PNCA shared, sample weights": {"name": "PNCA", "n_folds": 3, "batch_size": 16, "weights": True, **QUIET},
    "PNCA cross": {"name": "PNCA exact", **QUIET},
    "PNCA cross, folds": {"name": "PNCA cross", **QUIET},
    "PNCA orthogonal": {"name": "PNCA orthogonal", "batch_size": 20, **QUIET},
    "PNCA groups": {"name": "PNCA", "n_folds": 3, "groups": True, **QUIET},
    "PNCA nadam": {"name": "PNCA shared", "solver": "nadam", **QUIET},
    "PNCA positive": {"name": "PNCA positive", "n_folds": 3, **QUIET},
    "PNCA pooled": {"name": "PNCA pooled", **QUIET},
    "PNCA in tiles": {"name": "PNCA", "n_folds": 3, "in_tiles": True, **QUIET},
    "NCA": {"name": "NCA", **QUIET},
    # With three processes the last one's share of four rows is empty.
    "PNCA cross, tiny batches": {"name": "PNCA exact", **TINY},
    "NCA, module, tiny batches": {"name": "NCA", "module": "layers", **TINY},
    "DNN, tiny batches": {"name": "DNN", "batch_size": 2, "class_weight": "balanced", "max_epochs": 2},
    "Ensemble": {"name": "Ensemble", "batch_size": 16, "max_epochs": 5},
    "BNN": {"name": "BNN", "batch_size": None, "max_epochs": 5},
}

#: With randomness of each process's own.
RANDOM_CASES = {
    "PNCA dropout": {"name": "PNCA", "n_folds": 3, "dropout": 0.3, "max_epochs": 10},
    "PNCA images": {"name": "PNCA", "n_folds": 3, "images": True, "max_epochs": 10},
    "PNCA images, two kinds": {"name": "PNCA", "n_folds": 2, "n_particles": 4, "images": True, **TINY},
    "PNCA images, two kinds in tiles": {
        "name": "PNCA",
        "n_folds": 2,
        "n_particles": 4,
        "images": True,
        "in_tiles": True,
        **TINY,
    },
    "PNCA images, tiny batches": {"name": "PNCA shared", "images": True, **TINY},
    "Ensemble dropout": {"name": "Ensemble", "dropout": 0.3, "max_epochs": 10},
    "no seed": {"name": "PNCA", "n_folds": 3, "random_state": None, "max_epochs": 4},
}


class Layers(nn.Module):
    """A module that cannot take nought inputs."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 3)

    def forward(self, inputs):
        assert len(inputs)
        return self.linear(inputs.reshape(len(inputs), -1))


def examples(two_classes=False, images=False):
    """Three classes in five dimensions, or as many tiny images."""
    rng = np.random.RandomState(0)
    labels = np.array(["ash", "birch", "cedar"])[np.arange(N) % (2 if two_classes else 3)]
    centres = {"ash": -1.0, "birch": 0.0, "cedar": 1.0}
    shape = (4, 4) if images else (5,)
    X = rng.normal(size=(N, *shape)) + np.array([centres[name] for name in labels]).reshape(
        -1, *[1] * len(shape)
    )
    return X.astype(np.float32), labels


def fit(name, *, two_classes=False, images=False, groups=False, weights=False, in_tiles=False, **settings):
    if settings.get("module") == "layers":
        settings["module"] = Layers
    X, y = examples(two_classes, images)
    arguments = {"groups": np.arange(N) // 2} if groups else {}
    arguments |= {"sample_weight": 1 + np.arange(N) % 3} if weights else {}
    with patch.object(kernels, "TILED", 0 if in_tiles else kernels.TILED):
        return make(name, **settings).fit(X, y, **arguments), X


def result(case):
    model, X = fit(**case)
    return {
        "particles": model.particles_,
        "probabilities": model.predict_proba(X),
        "loss": model.history_["loss"],
        "accuracy": model.history_["accuracy"],
    }


def error_of(work):
    try:
        work()
    except PncaError as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def errors(rank):
    """What each process says where the processes are not at the same fit, or one cannot begin."""
    X, y = examples()
    other_X = X + (rank == 1)
    other_y = np.roll(y, rank)
    unusable = np.where(rank == 1, np.inf, X).astype(np.float32)
    return {
        "X": error_of(lambda: make("NCA", max_epochs=2).fit(other_X, y)),
        "rows": error_of(lambda: make("NCA", max_epochs=2).fit(X[rank:], y[rank:])),
        "y": error_of(lambda: make("NCA", max_epochs=2).fit(X, other_y)),
        "sample_weight": error_of(
            lambda: make("NCA", max_epochs=2).fit(X, y, sample_weight=1 + rank * np.arange(N))
        ),
        "bandwidth": error_of(lambda: make("NCA", max_epochs=2, bandwidth=1.0 + rank).fit(X, y)),
        "random_state": error_of(lambda: make("NCA", max_epochs=2, random_state=rank).fit(X, y)),
        "model": error_of(lambda: make(["NCA", "DNN"][rank % 2], max_epochs=2).fit(X, y)),
        "infinity": str(first_error(lambda: make("NCA", max_epochs=2).fit(unusable, y))),
        "none": error_of(lambda: make("NCA", max_epochs=2).fit(X, y)),
    }


def first_error(work):
    try:
        work()
    except ValueError as error:
        return error
    return "no error"


@contextmanager
def at_step(step, happens):
    """Let something happen at a step of the training of a neighbour model."""
    original, calls = NeighbourObjective.evaluate, []

    def evaluate(self, *arguments):
        calls.append(1)
        if len(calls) == step:
            happens()
        return original(self, *arguments)

    with patch.object(NeighbourObjective, "evaluate", evaluate):
        yield


def interrupted(rank):
    """A model whose fit ends in all processes when one gets Ctrl-C."""

    def interrupt():
        if rank == 1:
            os.kill(os.getpid(), signal.SIGINT)

    model = make("NCA", max_epochs=500)
    with at_step(5, interrupt), suppress(KeyboardInterrupt):
        model.fit(*examples())
    return model


def fail():
    raise MemoryError


def error_where_one_fails():
    """Name of the error that a process gets if the second dies of one in the middle of a fit."""
    try:
        step = 5 if os.environ["RANK"] == "1" else -1
        with pnca.distributed(timeout=60), at_step(step, fail):
            fit("NCA", max_epochs=100_000)
    except (MemoryError, RuntimeError) as error:
        return type(error).__name__
    return "no error"


def killed_and_resumed(folder):
    """A fit that dies in all processes and is taken up again, and one that does not."""
    case = {"name": "PNCA", "n_folds": 3, "dropout": 0.3, "batch_size": 16, "max_epochs": 8}
    whole, _ = fit(**case)
    # In the sixth epoch of four steps.
    with suppress(MemoryError), at_step(22, fail), pnca.checkpoints(folder, every=3):
        fit(**case)
    files = sorted(path.name for path in Path(folder).glob("fit-*"))
    with pnca.checkpoints(folder, every=3):
        resumed, _ = fit(**case)
    return whole.particles_, resumed.particles_, whole.history_ == resumed.history_, files


def kept_in(folder):
    """What a fit says that is to be kept in this folder."""

    def work():
        with pnca.checkpoints(folder):
            fit("NCA", max_epochs=2)

    return error_of(work)


def fitted_on_a_full_disk(folder, rank):
    """Particles of a fit whose first process cannot write its checkpoints."""
    with pnca.checkpoints(folder, every=1), patch("os.fsync", lambda file: 1 / 0 if rank else no_room()):
        return fit("NCA", max_epochs=3)[0].particles_


def no_room():
    raise OSError(errno.ENOSPC, "No space left on device")


def main(folder):
    torch.set_num_threads(1)
    with pnca.distributed(timeout=60) as processes:
        rank = processes.rank
        arrays = {
            f"{case}/{part}": value
            for case, settings in {**CASES, **RANDOM_CASES}.items()
            for part, value in result(settings).items()
        }
        stopped = interrupted(rank)
        arrays["stopped/particles"] = stopped.particles_
        whole, resumed, same_history, files = killed_and_resumed(folder / "checkpoints")
        arrays |= {"whole/particles": whole, "resumed/particles": resumed}
        arrays["full disk/particles"] = fitted_on_a_full_disk(folder / "full", rank)
        with pnca.checkpoints(folder / "used"):
            used = kept_in(folder / "used")
        (folder / "file").touch()
        told = {
            "errors": errors(rank) | {"used": used, "file": kept_in(folder / "file")},
            "stopped": stopped.n_iter_,
            "was_interrupted": stopped.was_interrupted_,
            "same_history": same_history,
            "files": files,
            "rank": rank,
            "size": processes.size,
        }
    told["was_destroyed"] = not dist.is_initialized()
    dist.init_process_group("gloo")
    with pnca.distributed():
        arrays["own group/particles"] = result(CASES["NCA"])["particles"]
    told["was_kept"] = dist.is_initialized()
    dist.destroy_process_group()
    told["where one fails"] = error_where_one_fails()
    np.savez(folder / f"{rank}.npz", **arrays)
    (folder / f"{rank}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
