"""What may surround a fit: a process group that shares it, a checkpoint, a progress bar."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

from pnca.training.checkpoints import SESSION
from pnca.training.shards import ONE_PROCESS, PROCESSES

if TYPE_CHECKING:
    from pnca.training.checkpoints import Checkpoint
    from pnca.training.loop import Wrapper
    from pnca.training.shards import ProcessShards

#: Returns the fingerprints of a fit by name: of its data, parameters and initial particles.
Identity = Callable[[], Mapping[str, str]]


@dataclass(frozen=True)
class Surroundings:
    """The process group and the checkpoint of one fit; usually neither."""

    shards: "ProcessShards | None" = None
    checkpoint: "Checkpoint | None" = None

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

        Yields
        ------
        callable
            The block calls it with the fit's :data:`Identity`.
        """
        told: list[Identity] = []
        with nullcontext() if self.shards is None else self.shards.together(lambda: told[0]()):
            yield lambda identity: told.append(cache(identity))
        if self.checkpoint is not None:
            self.checkpoint.identify(told[0])

    def seed(self, common: int) -> int:
        """Seed of this rank's dropout and augmentation, which must differ between shards."""
        return common if self.shards is None else self.shards.seed(common)

    def wrappers(self, caption: str | None) -> "list[Wrapper]":
        """What surrounds the training loop; with a caption, a progress bar too."""
        found: list[Wrapper] = [p.around for p in (self.checkpoint, self.shards) if p is not None]
        if caption is not None and (self.shards is None or self.shards.is_first):
            from pnca.training.progress import progress_bar

            found.append(progress_bar(caption))
        return found


def surroundings() -> Surroundings:
    """The process group and checkpoint that the caller has opened around a fit that begins now."""
    shards, session = PROCESSES.get(), SESSION.get()
    return Surroundings(shards, None if session is None else session.open(shards or ONE_PROCESS))
