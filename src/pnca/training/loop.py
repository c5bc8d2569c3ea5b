"""The training loop of every model: particles in, trained particles and their history out."""

import math
import warnings
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from pnca.exceptions import TrainingDivergedError
from pnca.training.checkpoints import NO_CHECKPOINT, Checkpoint, Values
from pnca.training.optimisers import make_optimiser
from pnca.training.progress import progress_bar
from pnca.training.shards import ONE_PROCESS, Shards
from pnca.training.steps import Evaluate, Mix, Prepare, RecordedStep, Step

_DIVERGED = (
    "{what}: lower learning_rate, or scale the inputs "
    "(for example with sklearn.preprocessing.StandardScaler)."
)
#: Epochs between two looks at the loss on a GPU, which waits while it is looked at.
_GPU_LOOK = 20

#: The batches of one epoch, as arrays of indices.
Batches = Callable[[], Iterable[np.ndarray]]


@dataclass(frozen=True)
class History:
    """What happened in each epoch: the mean loss per example and the share it got right."""

    loss: tuple[float, ...]
    accuracy: tuple[float, ...]

    def as_dict(self) -> dict[str, list[float]]:
        """As a mapping of columns, ready for ``pandas.DataFrame``."""
        return {"loss": list(self.loss), "accuracy": list(self.accuracy)}


def train(
    particles: Tensor,
    prepare: Prepare,
    evaluate: Evaluate,
    mix: Mix,
    batches: Batches,
    *,
    max_epochs: int,
    learning_rate: float,
    optimiser: str = "nadam",
    recorded_as: Hashable | None = None,
    after_epoch: Callable[[int, Tensor], None] = lambda epoch, particles: None,
    verbose: bool = False,
    description: str = "fit",
    shards: Shards = ONE_PROCESS,
    checkpoint: Checkpoint = NO_CHECKPOINT,
) -> tuple[Tensor, History]:
    """Move particles along a direction with Nadam or Adam.

    Ctrl-C ends the training early and keeps what has been learnt, with a warning.

    Parameters
    ----------
    particles : Tensor of shape (m, p)
        Initial parameters; they are not changed.
    prepare : callable
        ``prepare(indices)`` makes ready what a batch needs whatever the particles are. It is not called
        again for a batch that follows itself.
    evaluate : callable
        ``evaluate(particles, batch, mixing)`` returns an :class:`~pnca.training.steps.Evaluation` of that
        batch, whose gradients reach the particles multiplied by ``mixing`` (m, m), if it is not None.
    mix : callable
        ``mix(particles)``, how gradients and particles make the direction that is descended.
    batches : callable
        Returns the batches of indices of the next epoch.
    max_epochs : int
        Passes over the data.
    learning_rate : float
        Step size.
    optimiser : "nadam" or "adam"
        Nadam is the paper's; Adam is faster.
    recorded_as : hashable, optional
        On a CUDA GPU, record the step once and play it again: a small step is then several times
        faster. Nothing in it may depend on a value that the GPU has computed. What is given here must be
        equal for steps of the same operations on the same shapes, and for no others.
    after_epoch : callable
        ``after_epoch(epochs_done, particles)``, called without gradients.
    verbose : bool
        Show a progress bar.
    description : str
        Its caption.
    shards : Shards
        Processes that share each batch; every one of them trains the same particles.
    checkpoint : Checkpoint
        Where the state is kept every few epochs, and from where it is taken up.

    Returns
    -------
    particles : Tensor of shape (m, p)
    history : History
    """
    particles = particles.detach().clone().requires_grad_()
    steps = make_optimiser(optimiser, particles, learning_rate)
    is_cuda = particles.device.type == "cuda"
    log = _Log(max_epochs, particles.device)
    checkpoint.keep(particles=Values(particles), optimiser=steps, log=log)
    n_done = checkpoint.resume()  # before a step is recorded: a recording remembers where things lie
    step = (
        RecordedStep(particles, prepare, evaluate, mix, steps, recorded_as)
        if recorded_as is not None and is_cuda and shards.size == 1
        else Step(particles, prepare, evaluate, mix, steps, shards)
    )
    look_every = _GPU_LOOK if is_cuda and not verbose else 1
    bar = progress_bar(description, max_epochs - n_done, enabled=verbose and shards.is_first)
    with bar as advance, shards.stop_on_request() as check:
        try:
            for epoch in range(n_done + 1, max_epochs + 1):
                step.epoch(batches(), log.room())
                log.keep()
                with torch.no_grad():
                    after_epoch(epoch, particles)
                if epoch % look_every == 0:
                    advance(*log.look())
                checkpoint.after_epoch(epoch)
                check()
        except KeyboardInterrupt:
            warnings.warn(
                f"Interrupted: the fit after {log.n_epochs} of {max_epochs} epochs is kept.", stacklevel=2
            )
    history = log.history()
    if not particles.isfinite().all():
        raise TrainingDivergedError(_DIVERGED.format(what="The parameters became infinite or NaN"))
    if log.n_epochs == max_epochs:
        checkpoint.complete(max_epochs)
    return shards.follow_(particles.detach()), history


class _Log:
    """Loss and accuracy of each epoch, kept where they are computed until they are looked at."""

    def __init__(self, max_epochs: int, device: torch.device) -> None:
        self.means = torch.zeros(max_epochs, 2, device=device)  # loss, accuracy
        self.n_epochs = 0

    def room(self) -> Tensor:
        """Where the loss and accuracy of the next epoch go."""
        return self.means[self.n_epochs]

    def keep(self) -> None:
        """Count what was put there."""
        self.n_epochs += 1

    def state(self) -> dict[str, Tensor]:
        return {"means": self.means[: self.n_epochs]}

    def restore(self, state: dict[str, Tensor]) -> None:
        self.n_epochs = len(state["means"])
        self.means[: self.n_epochs] = state["means"].to(self.means)

    def look(self) -> tuple[float, float]:
        """Loss and accuracy of the last epoch."""
        loss, accuracy = self.means[self.n_epochs - 1].tolist()
        if not math.isfinite(loss):
            self.history()
        return loss, accuracy

    def history(self) -> History:
        """All epochs; an error if the loss of one is not finite."""
        loss, accuracy = self.means[: self.n_epochs].T.tolist() if self.n_epochs else ([], [])
        for epoch, value in enumerate(loss, start=1):
            if not math.isfinite(value):
                what = f"The loss became {value} in epoch {epoch}"
                raise TrainingDivergedError(_DIVERGED.format(what=what))
        return History(tuple(loss), tuple(accuracy))
