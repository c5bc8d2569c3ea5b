"""Checkpoints: the whole state of a training, written to a file every few epochs.

A file is written under a temporary name and then renamed, so it is complete or absent. A block of several
fits keeps one file for each until it ends, so that a run that is killed in a later fit does not train the
earlier ones again.
"""

import hashlib
import json
import os
import stat
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from pnca.exceptions import CorruptDataError, InvalidInputError
from pnca.files import make_folder, own_folder, write_bytes
from pnca.training.shards import ONE_PROCESS, PROCESSES, Shards
from pnca.training.states import HasState, NumpyStream, State, TorchStreams, Values

if TYPE_CHECKING:
    from pnca.training.loop import Run

#: Version of the files; raise it when their content changes.
_FORMAT = 3
_ADVICE = "name another folder for the checkpoints"


class Checkpoint:
    """The state of one fit in a file, which rank 0 reads, and writes every so many epochs."""

    def __init__(self, path: Path, every: int, shards: Shards, report: Callable[[OSError], None]) -> None:
        self.path, self.every, self.shards, self.report = path, every, shards, report
        self.is_complete = False
        self._parts: dict[str, HasState] = {}
        self._fingerprints: dict[str, str] = {}
        self._seed, self._epoch_written = 0, -1
        content = None
        with shards.together(dict):  # a file that cannot be read is an error on every rank
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
        try:
            write_bytes(self.path, content)
        except OSError as error:
            self.report(error)


class _Session:
    """The fits of one block, in their order, and the folder that is theirs while it runs."""

    def __init__(self, folder: Path, every: int, block: ExitStack) -> None:
        self.folder, self.every, self.block = folder.absolute(), every, block
        self.fits: list[Checkpoint] = []
        self._process, self._is_own, self._has_warned = os.getpid(), False, False

    def own(self, shards: Shards) -> None:
        """Take the folder; an error on every rank if another has it, or if it cannot be written to."""
        if self._is_own:
            return
        with shards.together(dict):
            if shards.is_first:
                make_folder(self.folder, _ADVICE)
                self.block.enter_context(own_folder(self.folder, f"wait for it to end, or {_ADVICE}"))
                self._try()
        self._is_own = True

    def open(self, shards: Shards) -> Checkpoint | None:
        """The checkpoint of the next fit; none in a process that was forked from the block's."""
        if os.getpid() != self._process:
            return None
        self.own(shards)
        path = self.folder / f"fit-{len(self.fits) + 1:03d}.safetensors"
        self.fits.append(Checkpoint(path, self.every, shards, self._report))
        return self.fits[-1]

    def remove_complete(self) -> None:
        """Remove the files of fits that ended."""
        try:
            for fit in self.fits:
                if fit.is_complete and fit.shards.is_first:
                    fit.path.unlink(missing_ok=True)
        except OSError as error:
            self._report(error)

    def _try(self) -> None:
        """Remove what killed processes left half written, and write a file."""
        try:
            for left_over in self.folder.glob(".fit-*.tmp"):
                left_over.unlink()
            write_bytes(self.folder / "fit-000", b"trial").unlink()
        except OSError as error:
            raise InvalidInputError(
                f"No checkpoint can be written to {self.folder} ({error.strerror}): make room there, or "
                f"{_ADVICE}."
            ) from error

    def _report(self, error: OSError) -> None:
        """Warn once: a file that cannot be written is no reason to end a fit."""
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"The checkpoints in {self.folder} cannot be written ({error.strerror or error}). The "
                "fit goes on and ends as it would; but if it is killed, what it learns from here on is lost. "
                "Make room there while it runs, or name another folder the next time.",
                stacklevel=2,
            )


#: The block of :func:`checkpoints` that the caller is in, if any.
SESSION: ContextVar[_Session | None] = ContextVar("checkpoints", default=None)


def _as_path(folder: Any) -> Path:  # noqa: ANN401
    if not isinstance(folder, str | os.PathLike) or "\0" in str(folder):
        raise InvalidInputError(f"folder must be the name of a folder; got {folder!r}.")
    return Path(folder)


@contextmanager
def checkpoints(folder: str | Path, *, every: int = 10) -> Iterator[None]:
    """Keep the fits in this block resumable: every few epochs their state is written to a file.

    Run the same script again after it was killed, and each fit in the block goes on from its last file; a
    fit that was complete is not trained again. On a CPU the result is that of a run that nobody killed, bit
    for bit. A file of other data or parameters is refused.

    The files of complete fits are removed when the block ends without an error: what they could save is
    done, and the next run starts afresh. After Ctrl-C they stay, and the next run takes the fit further. Fits
    in other threads or processes, as of a search with ``n_jobs``, are not kept.

    A folder is of one block at a time: another, of this process or another one, is refused. A folder that
    cannot be written to is an error at the start; later, as when the disk fills up, it is a warning, and the
    fit goes on without its file.

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
    if not (isinstance(every, Integral) and every >= 1):
        raise InvalidInputError(f"every must be a whole number of epochs, at least 1; got {every!r}.")
    with ExitStack() as block:
        session, shards = _Session(_as_path(folder), int(every), block), PROCESSES.get()
        # Of torchrun's processes that are no group yet the first is to have the folder: at its first fit.
        if shards is not None or "RANK" not in os.environ:
            session.own(shards or ONE_PROCESS)
        token = SESSION.set(session)
        try:
            yield
        finally:
            SESSION.reset(token)
        session.remove_complete()


def _read(path: Path) -> bytes | None:
    """Bytes of a file, None if it does not exist."""
    try:
        if stat.S_ISREG(path.lstat().st_mode):
            return path.read_bytes()
        reason: str | None = "it is not a file"
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        reason = error.strerror
    raise InvalidInputError(
        f"The checkpoint {path} cannot be read ({reason}): delete it to start over, or {_ADVICE}."
    )


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
    seed = metadata.get("seed")
    is_ours = isinstance(metadata.get("fingerprints"), dict) and type(seed) is int and 0 <= seed < 2**32
    if not is_ours or digest != _digest(metadata, tensors):
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
        return all(tensor.dtype == torch.float32 for tensor in saved.values())  # the rest they see themselves
    is_row = part in ("log", "torch", "rng")
    return now.keys() == saved.keys() and all(
        saved[name].dtype == tensor.dtype
        and (saved[name].shape[1:] == tensor.shape[1:] if is_row else saved[name].shape == tensor.shape)
        for name, tensor in now.items()
    )
