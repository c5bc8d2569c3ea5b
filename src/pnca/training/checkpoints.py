"""Checkpoints: the whole state of a training, written to a file every few epochs.

A file is written under a temporary name and then renamed, so it is complete or absent. Each part of the state
has ``state()``, which returns named tensors, and ``restore(state)``. A block of several fits keeps one file
for each until it ends, so that a run that is killed in a later fit does not train the earlier ones again.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor

from pnca.exceptions import CorruptDataError, InvalidInputError
from pnca.files import make_folder, write_atomically
from pnca.training.shards import Shards

if TYPE_CHECKING:
    from pnca.training.loop import Run

#: Version of the files; raise it when their content changes.
_FORMAT = 2

State = dict[str, Tensor]


class HasState(Protocol):
    """A part of the state that a checkpoint holds."""

    def state(self) -> Mapping[str, Tensor]:
        """All that decides what happens next, as named tensors."""

    def restore(self, state: State) -> None:
        """Go back to a state."""


class Checkpoint:
    """The state of one fit in a file, which rank 0 reads, and writes every so many epochs."""

    def __init__(self, path: Path, every: int, shards: Shards) -> None:
        self.path, self.every, self.shards = path, every, shards
        self.is_complete = False
        self._parts: dict[str, HasState] = {}
        self._fingerprints: dict[str, str] = {}
        self._seed, self._epoch_written = 0, -1
        content = None
        with shards.together(dict):  # a folder that cannot be read is an error on every rank
            if shards.is_first:
                content = _read(path)
        # From rank 0: the machines need no disk in common.
        content = shards.broadcast(content)
        self._saved = None if content is None else _parse(content, path)

    def seed(self, fresh: int) -> int:
        """Seed of a fit without one: that of the fit that is resumed, or a fresh one."""
        self._seed = fresh if self._saved is None else int(self._saved[0]["seed"])
        return self._seed

    def identify(self, describe: Callable[[], Mapping[str, str]]) -> None:
        """Take the fingerprints of the fit, by name; an error if the file is of another fit."""
        fingerprints = self._fingerprints = dict(describe())
        if self._saved is None:
            return
        saved = self._saved[0]["fingerprints"]
        names = dict.fromkeys([*saved, *fingerprints])
        if different := [name for name in names if saved.get(name) != fingerprints.get(name)]:
            raise InvalidInputError(
                f"{self.path} is the checkpoint of another fit; it differs in {', '.join(different)}. To "
                "resume that one, use the same data and parameters; to start this one, use another folder or "
                "delete the file."
            )

    @contextmanager
    def around(self, run: "Run") -> Iterator[Callable[[], None]]:
        """Restore the state of a training, write it every few epochs, and once more when it is complete."""
        self._parts = {
            "particles": Values(run.particles),
            "optimiser": run.optimiser,
            "log": run.log,
            "rng": NumpyStream(run.rng),
            "torch": TorchStreams(run.generator, run.particles.device, self.shards),
            **run.kept,
        }
        self._resume(run.schedule.max_epochs)
        yield lambda: self._write(run.n_epochs) if run.n_epochs % self.every == 0 else None
        if run.n_epochs == run.schedule.max_epochs:
            self._write(run.n_epochs)
            self.is_complete = True

    def _resume(self, max_epochs: int) -> None:
        """Restore all parts, if there is a file; an error if it does not hold what they need."""
        if self._saved is None:
            return
        metadata, tensors = self._saved
        states = {part: _of_part(part, tensors) for part in self._parts}
        n_epochs = len(states["log"].get("means", ()))
        # A digest can be computed anew: what would skip the training or spread over it is looked at too.
        is_whole = (
            0 < n_epochs == metadata["epoch"] <= max_epochs
            and len(tensors) == sum(map(len, states.values()))
            and all(_fits(keeper.state(), states[part], part) for part, keeper in self._parts.items())
        )
        if not is_whole:
            raise _damaged(self.path)
        try:
            for part, keeper in self._parts.items():
                keeper.restore(states[part])
        except (RuntimeError, ValueError, TypeError, KeyError) as error:
            raise _damaged(self.path) from error
        self._saved = None  # free its memory
        self._epoch_written = n_epochs

    def _write(self, epoch: int) -> None:
        from safetensors.torch import save

        if epoch == self._epoch_written:
            return
        self._epoch_written = epoch
        # On every rank: the generators of all ranks are gathered.
        tensors = {
            f"{part}.{name}": tensor.detach().cpu().contiguous().clone()  # no two may share memory
            for part, keeper in self._parts.items()
            for name, tensor in keeper.state().items()
        }
        if not self.shards.is_first:
            return
        metadata = {
            "format": _FORMAT,
            "epoch": epoch,
            "seed": self._seed,
            "fingerprints": self._fingerprints,
        }
        metadata["digest"] = _digest(metadata, tensors)
        content = save(tensors, metadata={"pnca": json.dumps(metadata)})

        def write(temporary: Path) -> None:
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                # On the disk before it takes the place of the last one: a power cut must not cost both.
                os.fsync(file.fileno())

        write_atomically(self.path, write)


class _Session:
    """The fits of one block, in their order."""

    def __init__(self, folder: Path, every: int) -> None:
        self.folder, self.every = folder, every
        self.fits: list[Checkpoint] = []

    def open(self, shards: Shards) -> Checkpoint:
        path = self.folder / f"fit-{len(self.fits) + 1:03d}.safetensors"
        self.fits.append(Checkpoint(path, self.every, shards))
        return self.fits[-1]

    def remove_complete(self) -> None:
        for fit in self.fits:
            if fit.is_complete and fit.shards.is_first:
                fit.path.unlink(missing_ok=True)


#: The block of :func:`checkpoints` that the caller is in, if any.
SESSION: ContextVar[_Session | None] = ContextVar("checkpoints", default=None)


@contextmanager
def checkpoints(folder: str | Path, *, every: int = 10) -> Iterator[None]:
    """Keep the fits in this block resumable: every few epochs their state is written to a file.

    Run the same script again after it was killed, and each fit in the block goes on from its last file; a
    fit that was complete is not trained again. On a CPU the result is that of a run that nobody killed, bit
    for bit. A file of other data or parameters is refused.

    The files of complete fits are removed when the block ends without an error: what they could save is
    done, and the next run starts afresh. That of a fit ended by Ctrl-C, which keeps what was learnt so far,
    stays, and the next run takes it further. Fits in other threads or processes, as of a search with
    ``n_jobs``, are not kept.

    Parameters
    ----------
    folder : str or Path
        For files ``fit-001.safetensors``, ..., one for each fit in the order of the block.
    every : int
        Epochs between two writes. A file holds three times the particles (4 m p bytes each), and what the
        folds choose from.

    Examples
    --------
    >>> import tempfile, numpy as np, pnca
    >>> X, y = np.eye(4), [0, 0, 1, 1]
    >>> with tempfile.TemporaryDirectory() as folder, pnca.checkpoints(folder, every=5):
    ...     model = pnca.DNNClassifier(max_epochs=10, random_state=0).fit(X, y)
    """
    if not (isinstance(every, int) and every >= 1):
        raise InvalidInputError(f"every must be a whole number of epochs, at least 1; got {every!r}.")
    session = _Session(Path(folder), every)
    token = SESSION.set(session)
    try:
        yield
    finally:
        SESSION.reset(token)
    session.remove_complete()


class Values:
    """A tensor as its own state, restored in place."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def state(self) -> State:
        """The tensor."""
        return {"values": self.tensor}

    @torch.no_grad()
    def restore(self, state: State) -> None:
        """Go back to a state."""
        self.tensor.copy_(state["values"])


class NumpyStream:
    """The state of a numpy generator, restored in place."""

    def __init__(self, rng: np.random.RandomState) -> None:
        self.rng = rng

    def state(self) -> State:
        """The state as JSON in bytes, whatever the bit generator."""
        state: Any = self.rng.get_state(legacy=False)
        text = json.dumps(state, default=lambda array: array.tolist())
        return {"json": torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)}

    def restore(self, state: State) -> None:
        """Go back to a state."""
        content = json.loads(state["json"].numpy().tobytes())
        content["state"] = {
            name: np.array(value, dtype=np.uint32) if isinstance(value, list) else value
            for name, value in content["state"].items()
        }
        self.rng.set_state(content)


class TorchStreams:
    """The states of the generators behind dropout and augmentation, in all ranks.

    They are the fit's own or, if that is None, torch's global ones, of the CPU and of the fit's GPU.
    """

    def __init__(self, generator: torch.Generator | None, device: torch.device, shards: Shards) -> None:
        self.shards = shards
        if generator is not None:
            self.generators = {"own": generator}
        else:
            self.generators = {"cpu": torch.default_generator}
            if device.type == "cuda":
                index = torch.cuda.current_device() if device.index is None else device.index
                self.generators["cuda"] = torch.cuda.default_generators[index]

    def state(self) -> State:
        """State of each generator, one row for each rank."""
        return {name: self.shards.stack(each.get_state()) for name, each in self.generators.items()}

    def restore(self, state: State) -> None:
        """Go back to a state; a rank that the saved group did not have keeps its own."""
        for name, generator in self.generators.items():
            rows = state.get(name, ())
            if self.shards.rank < len(rows):
                # A copy: torch reads a generator's state from the start of the memory, wherever a row begins.
                generator.set_state(rows[self.shards.rank].clone())


def _read(path: Path) -> bytes | None:
    """Bytes of a file, None if it does not exist; removes what a killed process left half written."""
    make_folder(path.parent, "name another folder for the checkpoints")
    for unfinished in path.parent.glob(f".{path.name}.*.tmp"):
        unfinished.unlink(missing_ok=True)
    return path.read_bytes() if path.exists() else None


def _parse(content: bytes, path: Path) -> tuple[dict[str, Any], State]:
    """Metadata and tensors of a file."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        tensors = load(content)
        # The format begins with the length of its header, which is JSON.
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        metadata: dict[str, Any] = json.loads(header["__metadata__"]["pnca"])
        is_known = metadata["format"] == _FORMAT
        digest = metadata.pop("digest", None)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(path) from error
    if not is_known:
        raise InvalidInputError(f"{path} is of another version of pnca: delete it to start over.")
    if digest != _digest(metadata, tensors):
        raise _damaged(path)
    return metadata, tensors


def _damaged(path: Path) -> CorruptDataError:
    return CorruptDataError(f"{path} is damaged or not a checkpoint of pnca: delete it to start over.")


def _digest(metadata: Mapping[str, Any], tensors: State) -> str:
    """Hash of all that a file says."""
    digest = hashlib.blake2b(json.dumps(metadata, sort_keys=True).encode(), digest_size=32)
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _of_part(part: str, tensors: State) -> State:
    """The tensors of one part, by the names that it gave them."""
    prefix = f"{part}."
    return {name.removeprefix(prefix): t for name, t in tensors.items() if name.startswith(prefix)}


def _fits(now: Mapping[str, Tensor], saved: State, part: str) -> bool:
    """Whether a saved state has the names, types and shapes of the present one.

    The log and the snapshots grow with the epochs, random streams with the ranks.
    """
    if part == "snapshots":
        return all(name.partition(".")[0].isdigit() for name in saved)
    is_row = part in ("log", "torch", "rng")
    return now.keys() == saved.keys() and all(
        saved[name].dtype == tensor.dtype
        and (saved[name].shape[1:] == tensor.shape[1:] if is_row else saved[name].shape == tensor.shape)
        for name, tensor in now.items()
    )
