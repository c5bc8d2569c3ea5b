"""The training loop of every model, and what may surround it: a process group, a checkpoint."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from torch import Tensor

from pnca.exceptions import TrainingDivergedError
from pnca.maths.stein import Mixing
from pnca.networks.seeding import seeded
from pnca.training.checkpoints import SESSION, Checkpoint
from pnca.training.objective import Objective
from pnca.training.optimisers import Optimiser, make_optimiser
from pnca.training.shards import ONE_PROCESS, PROCESSES, ProcessShards, Shards
from pnca.training.states import HasState

_DIVERGED = (
    "{what}: lower learning_rate, or scale the inputs "
    "(for example with sklearn.preprocessing.StandardScaler)."
)
#: Epochs between two looks at the loss on a GPU, which waits while it is looked at.
_GPU_LOOK = 20


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """How long, how fast and by which optimiser particles are trained."""

    max_epochs: int  # passes over the data
    learning_rate: float
    solver: str = "nadam"  # the paper's, or "adam", which is faster
    #: On a CUDA GPU, capture the step as a CUDA graph and replay it: a small step is then several times
    #: faster. Nothing in it may depend on a value that the GPU has computed. The key must be equal for steps
    #: of the same operations on the same shapes, and for no others.
    graph_key: Hashable | None = None


class History(NamedTuple):
    """Mean loss per example and share of correct examples in each epoch."""

    loss: tuple[float, ...]
    accuracy: tuple[float, ...]

    def as_dict(self) -> dict[str, list[float]]:
        """As a mapping of columns, ready for ``pandas.DataFrame``."""
        return {name: list(values) for name, values in self._asdict().items()}

    def warn_unless_learnt(self) -> None:
        """Warn the caller of fit if the loss has not fallen."""
        # A few epochs prove nothing; after that, a loss that has not fallen is a matter of scale.
        first, *others = self.loss or (0.0,)
        if len(others) >= 10 and min(others) >= first > 1e-6:
            warnings.warn(
                f"The loss did not fall in {len(self.loss)} epochs (it began at {first:.4g} and ended at "
                f"{others[-1]:.4g}): scale the inputs (for example with "
                "sklearn.preprocessing.StandardScaler), or change learning_rate.",
                ConvergenceWarning,
                stacklevel=5,
            )


class Trained(NamedTuple):
    """What a training leads to."""

    particles: Tensor  # (m, p)
    history: History
    was_interrupted: bool


#: Surrounds a training: entered before its first epoch, where it may restore a state, and left after the
#: last. What it yields is called after every epoch. Progress bars, snapshots and checkpoints are wrappers.
Wrapper = Callable[["Run"], AbstractContextManager[Callable[[], None]]]


class Run:
    """The state of a training: all that decides what happens in the next epoch.

    It minimises an objective over particles (m, p) that start as those given, on their device. ``rng`` is the
    source of the batches, ``seed`` that of dropout and augmentation. The ranks of ``shards`` share each
    batch, and each trains the same particles.
    """

    def __init__(
        self,
        objective: Objective,
        particles: Tensor,
        schedule: Schedule,
        rng: np.random.RandomState,
        *,
        seed: int = 0,
        shards: ProcessShards | None = None,
    ) -> None:
        self.objective, self.schedule, self.rng, self.seed = objective, schedule, rng, seed
        is_own = not objective.uses_global_generator
        self.generator = torch.Generator(particles.device).manual_seed(seed) if is_own else None
        self.particles = particles.detach().clone().requires_grad_()
        self.optimiser = make_optimiser(schedule.solver, self.particles, schedule.learning_rate)
        self.log = Log(schedule.max_epochs, particles.device)
        self.shards = shards
        self.kept: dict[str, HasState] = {}  # what else has a state that a checkpoint must hold
        self._step: TakesSteps | None = None
        self._look_every = _GPU_LOOK if particles.is_cuda else 1

    @property
    def n_epochs(self) -> int:
        """Epochs done."""
        return self.log.n_epochs

    def train(self, wrappers: Sequence[Wrapper] = ()) -> Trained:
        """Train to the end; ``wrappers`` are called after every epoch in their order.

        What Ctrl-C, which is passed on, leaves is the state after the last step.
        """
        device, alone = self.particles.device, nullcontext(_go_on)
        # Autocast, where the caller has it on, would round kernels and updates to bfloat16.
        with (
            torch.autocast(device.type, enabled=False),
            seeded(self.seed, device) if self.generator is None else nullcontext(),
            alone if self.shards is None else self.shards.interruptible(self.particles) as check,
            ExitStack() as stack,
        ):
            after_epoch = [stack.enter_context(wrap(self)) for wrap in wrappers]
            while self.n_epochs < self.schedule.max_epochs:
                self.advance()
                with torch.no_grad():
                    for call in after_epoch:
                        call()
                check()
        self.log.history()
        if not self.particles.isfinite().all():
            raise TrainingDivergedError(_DIVERGED.format(what="The parameters became infinite or NaN"))
        return self.trained()

    def trained(self, *, was_interrupted: bool = False) -> Trained:
        """What the training has led to so far."""
        return Trained(self.particles.detach(), self.log.history(), was_interrupted)

    def advance(self) -> None:
        """Pass over the data once."""
        if self._step is None:  # after a checkpoint was restored: a CUDA graph remembers addresses
            self._step = self._make_step()
        means = self.log.next_row()
        sums, n_seen = self._step.sums.zero_(), 0
        for indices in self.objective.batches(self.rng):
            self._step.take(indices)
            n_seen += len(indices)
        torch.div(sums if self.shards is None else self.shards.sum_(sums), n_seen, out=means)
        self.log.n_epochs += 1
        if self.n_epochs % self._look_every == 0:
            self.log.last()

    def has_learnt(self) -> bool:
        """Whether there are particles after an epoch or more, and they are of use."""
        means = self.log.means[: self.n_epochs]
        return self.n_epochs > 0 and bool(means.isfinite().all() and self.particles.isfinite().all())

    def _make_step(self) -> TakesSteps:
        step = Step(self.objective, self.particles, self.optimiser, self.generator, self.shards)
        key = self.schedule.graph_key
        if key is None or not self.particles.is_cuda or self.shards is not None:
            return step
        from pnca.training.graphs import CapturedStep, CudaGraphs

        return CapturedStep(step, CudaGraphs(self.particles.device, self.generator), key)


def _go_on() -> None:
    """Ctrl-C needs no look where one process trains."""


class Log:
    """Loss and accuracy of each epoch, kept where they are computed until they are read."""

    def __init__(self, max_epochs: int, device: torch.device) -> None:
        self.means = torch.zeros(max_epochs, 2, device=device)  # loss, accuracy
        self.n_epochs = 0

    def next_row(self) -> Tensor:
        """Room (2,) for the loss and accuracy of the next epoch."""
        return self.means[self.n_epochs]

    def state(self) -> dict[str, Tensor]:
        """The epochs done."""
        return {"means": self.means[: self.n_epochs]}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go back to a state."""
        self.n_epochs = len(state["means"])
        self.means[: self.n_epochs] = state["means"].to(self.means)

    def last(self) -> tuple[float, float]:
        """Loss and accuracy of the last epoch; an error if the loss is not finite."""
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


class TakesSteps(Protocol):
    """A step of the training, eager or captured as a CUDA graph."""

    sums: Tensor

    def take(self, indices: np.ndarray) -> None:
        """Take one step with these examples."""
        ...


class SideStream(Protocol):
    """Where work is done that nothing needs before the gradients."""

    def beside(self) -> AbstractContextManager[Any]:
        """Issue the work of a block on the side."""
        ...

    def join(self) -> None:
        """Wait for that work."""
        ...


class Step:
    """Evaluates batches and moves the particles; see :class:`Run`."""

    def __init__(
        self,
        objective: Objective,
        particles: Tensor,
        optimiser: Optimiser,
        generator: torch.Generator | None = None,
        shards: ProcessShards | None = None,
    ) -> None:
        self.objective, self.particles, self.optimiser = objective, particles, optimiser
        self.generator, self.shards = generator, shards
        self.side: SideStream | None = None
        # Summed on the device: reading a number would make a GPU wait at every step.
        self.sums = torch.zeros(2, device=particles.device)  # loss, correct examples
        self._last: np.ndarray | None = None
        self._batch: Any = None

    def take(self, indices: np.ndarray) -> None:
        """Take one step; a batch that follows itself is not prepared again."""
        if self._last is None or not np.array_equal(self._last, indices):
            self._batch = self.objective.prepare(torch.as_tensor(indices, device=self.particles.device))
        self._last = indices
        self.move(self._batch, len(indices))

    def move(self, batch: Any, n: int) -> None:  # noqa: ANN401
        """Move the particles by the gradient of a prepared batch of n examples."""
        with torch.no_grad(), nullcontext() if self.side is None else self.side.beside():
            mixing = self.objective.mixing(self.particles)
        # Gradients are mixed in the backward pass, or by the optimiser.
        if self.optimiser.mixes_gradients:
            in_backward, in_step = None, mixing
        else:
            in_backward, in_step = mixing.of_gradients, Mixing(None, mixing.of_particles)
        total_loss, mean_loss, n_correct = self.objective.evaluate(
            self.particles, batch, in_backward, self.generator
        )
        if self.side is not None:
            self.side.join()
        (gradients,) = torch.autograd.grad(total_loss, self.particles)
        gradients = gradients.contiguous()
        if self.shards is not None:
            self.shards.sum_(gradients)
        with torch.no_grad():
            self.optimiser.step(gradients, in_step)
            of_loss, of_correct = self.sums.unbind()
            of_loss.add_(mean_loss, alpha=n)
            of_correct.add_(n_correct)


#: Announces a phase with a caption and its number of steps. The block calls what it is given after each step,
#: or with the number of steps done, and a word on how things stand.
Phase = Callable[[str, int], AbstractContextManager[Callable[..., None]]]


def silent(caption: str, n_steps: int) -> AbstractContextManager[Callable[..., None]]:
    """Announce a phase to nobody."""
    return nullcontext(lambda *_: None)


def announced(shards: Shards | None) -> Phase:
    """Show each phase as a bar, in the rank that prints."""
    if not (shards or ONE_PROCESS).is_first:
        return silent
    from pnca.training.progress import bar

    return bar


#: Returns the fingerprints of a fit by name: of its data, parameters and initial particles.
Identity = Callable[[], Mapping[str, str]]


@dataclass(frozen=True)
class Surroundings:
    """The process group and the checkpoint of one fit; usually neither."""

    shards: ProcessShards | None = None
    checkpoint: Checkpoint | None = None

    def random_state(self, given: Any) -> np.random.RandomState:  # noqa: ANN401
        """Source of all randomness of a fit: the same on all ranks, and when a fit is resumed."""
        rng: np.random.RandomState = check_random_state(given)
        if self.shards is None and self.checkpoint is None:
            return rng
        # Exchanged whatever random_state is: it may be None on one rank only, which agreement() finds out.
        fresh = str(rng.randint(2**31) if given is None else 0)
        common = int((self.shards or ONE_PROCESS).exchange(fresh)[0])
        seed = common if self.checkpoint is None else self.checkpoint.seed(common)
        return np.random.RandomState(seed) if given is None else rng

    @contextmanager
    def agreement(self) -> Iterator[Callable[[Identity], None]]:
        """Run the block on all ranks; an error if one fails, they differ, or the checkpoint is another's.

        The block calls what is yielded with the fit's :data:`Identity`.
        """
        told: list[Identity] = []
        with nullcontext() if self.shards is None else self.shards.together(lambda: told[0]()):
            yield lambda identity: told.append(cache(identity))
        if self.checkpoint is not None:
            self.checkpoint.identify(told[0])

    def seed(self, common: int) -> int:
        """Seed of this rank's dropout and augmentation, which must differ between shards."""
        return common if self.shards is None else self.shards.seed(common)

    def wrappers(self, caption: str | None) -> list[Wrapper]:
        """What surrounds the training loop; with a caption, a progress bar too."""
        found: list[Wrapper] = [] if self.checkpoint is None else [self.checkpoint.around]
        if caption is not None and (self.shards or ONE_PROCESS).is_first:
            from pnca.training.progress import progress_bar

            found.append(progress_bar(caption))
        return found

    def complete(self) -> None:
        """Let the checkpoint go when its block ends: the fit has all that it could save."""
        if self.checkpoint is not None:
            self.checkpoint.is_complete = True


def surroundings() -> Surroundings:
    """The process group and checkpoint that the caller has opened around a fit that begins now."""
    shards, session = PROCESSES.get(), SESSION.get()
    return Surroundings(shards, None if session is None else session.open(shards or ONE_PROCESS))
