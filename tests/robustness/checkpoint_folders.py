"""Checkpoint folders that fail before a fit, or in the middle of it."""

import errno
import os
import resource
import shutil
import warnings
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np
from sklearn.base import clone

import pnca
from pnca.exceptions import InvalidInputError
from pnca.training.loop import Run
from robustness.fits import assert_same, fitted, outcome, random_fit

FILE = "fit-001.safetensors"


def _error(number):
    return OSError(number, os.strerror(number))


# What a folder is when the fit begins: each makes it so.


def _a_file(folder):
    folder.write_text("mine")


def _below_a_file(folder):
    folder.parent.rmdir()
    folder.parent.write_text("mine")


def _dangling(folder):
    folder.symlink_to(folder.parent / "gone")


def _with(make):
    """With something that is no file where the checkpoint goes."""

    def made(folder):
        folder.mkdir()
        make(folder / FILE)

    made.__name__ = f"with {make.__name__}"
    return made


def _link(path):
    path.symlink_to("gone")


def _link_to_a_file(path):
    (path.parent / "mine").write_text("mine")
    path.symlink_to("mine")


_BEFORE = [_a_file, _below_a_file, _dangling, *map(_with, [Path.mkdir, os.mkfifo, _link, _link_to_a_file])]


# What happens to it later: each is a context, entered after an epoch.


@contextmanager
def _full(folder):
    """As a full disk: some bytes still fit."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def _failing(name, number):
    """A call of the system that fails."""

    def context(folder):
        def fail(*arguments, **settings):
            raise _error(number)

        return patch(name, fail)

    context.__name__ = f"{name} fails by {errno.errorcode[number]}"
    return context


@contextmanager
def _deleted(folder):
    shutil.rmtree(folder)
    yield


@contextmanager
def _replaced(folder):
    folder.rename(folder.with_name("moved"))
    folder.write_text("mine")
    yield


@contextmanager
def _blocked(folder):
    """A folder takes the checkpoint's place."""
    (folder / FILE).unlink(missing_ok=True)
    (folder / FILE).mkdir()
    yield


_LATER = [
    _full,
    _deleted,
    _replaced,
    _blocked,
    _failing("os.fsync", errno.ENOSPC),
    _failing("os.fsync", errno.EIO),
    _failing("pathlib.Path.open", errno.EACCES),
    _failing("pathlib.Path.open", errno.EROFS),
    _failing("pathlib.Path.replace", errno.EACCES),
]


@contextmanager
def _happening(what, folder, n_epochs):
    """Let it happen after so many epochs of the fit in the block."""
    original = Run.advance
    with ExitStack() as stack:

        def advance(run):
            original(run)
            if run.n_epochs == n_epochs:
                stack.enter_context(what(folder))

        with patch.object(Run, "advance", advance):
            yield


def failing_folder(seed, folder):
    """Refused by name before the fit begins; later one warning by name, and the fit is as any other."""
    rng = np.random.RandomState(seed)
    model, X, y = random_fit(rng, most_epochs=12)
    kept = folder / "parent" / "checkpoints"
    kept.parent.mkdir()
    cases = [*_BEFORE, *_LATER]
    what = cases[rng.randint(len(cases))]
    if what in _BEFORE:
        what(kept)
        return _assert_refused(model, X, y, kept, f"seed {seed}, {what.__name__}")
    every, n_epochs = int(rng.randint(1, 4)), int(rng.randint(1, model.max_epochs + 1))
    case = f"seed {seed}, every {every}, after {n_epochs} of {model.max_epochs} epochs {what.__name__}"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pnca.checkpoints(kept, every=every), _happening(what, kept, n_epochs):
            found = clone(model).fit(X, y)
    ours = [str(w.message) for w in caught if "checkpoints" in str(w.message)]
    # After the epoch in which it happens a file is due, and another at the end.
    assert len(ours) == 1, f"{case}: {len(ours)} warnings"
    assert f"{kept} cannot be written" in ours[0], f"{case}: {ours[0]}"
    assert_same(outcome(found, X), outcome(fitted(model, X, y), X), case)
    return None


def _assert_refused(model, X, y, kept, case):
    refusal = ""
    try:
        with pnca.checkpoints(kept):
            fitted(model, X, y)
    except InvalidInputError as error:
        refusal = str(error)
    assert str(kept) in refusal, f"{case}: {refusal!r}"
    assert "another folder for the checkpoints" in refusal, f"{case}: {refusal}"
    mine = [path for path in kept.parent.parent.rglob("*") if path.is_file() and path.stat().st_size]
    assert all(path.read_text() == "mine" for path in mine), f"{case}: something was overwritten"
