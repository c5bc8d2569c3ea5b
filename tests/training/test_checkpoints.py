"""A fit that is killed and started again ends as one that nobody killed."""

import errno
import os
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

import pnca
from models import make, noisy
from pnca.exceptions import CorruptDataError, InvalidInputError
from pnca.files import LOCK, own_folder
from pnca.models.neighbours import NeighbourObjective
from pnca.models.softmax import SoftmaxObjective
from pnca.training.checkpoints import Checkpoint
from pnca.training.loop import surroundings
from pnca.training.shards import ONE_PROCESS, Shards
from pnca.training.states import NumpyStream, TorchStreams, Values

FILE = "fit-001.safetensors"


class KilledError(Exception):
    pass


def files(folder):
    """Names of the files in a folder, but for its lock."""
    return sorted(path.name for path in folder.iterdir() if path.name != LOCK)


def raise_at(patch, step, error):
    """Let trainings fail at a step, counted over all of them; returns the steps so far."""
    calls = []

    def failing(original):
        def evaluate(self, *arguments):
            calls.append(1)
            if len(calls) == step:
                raise error
            return original(self, *arguments)

        return evaluate

    for objective in (NeighbourObjective, SoftmaxObjective):
        patch.setattr(objective, "evaluate", failing(objective.evaluate))
    return calls


def fit_killed(monkeypatch, folder, model, X, y, *, step, every=3):
    with monkeypatch.context() as patch:
        raise_at(patch, step, KilledError)
        with pytest.raises(KilledError), pnca.checkpoints(folder, every=every):
            clone(model).fit(X, y)


def assert_same_fit(a, b, X):
    np.testing.assert_array_equal(a.particles_, b.particles_)
    assert a.history_ == b.history_
    np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X))


RANDOM = {"dropout": 0.3, "batch_size": 16, "max_epochs": 10}  # five steps an epoch, or four


@pytest.mark.parametrize(
    "name", ["PNCA", "PNCA pooled", "PNCA cross", "PNCA orthogonal", "NCA", "DNN", "Ensemble", "BNN"]
)
def test_killed_fit__ends_as_one_that_was_not(name, blobs, monkeypatch, tmp_path):
    model = make(name, **RANDOM)
    whole = clone(model).fit(*blobs)
    fit_killed(monkeypatch, tmp_path, model, *blobs, step=32)  # in the eighth epoch
    assert files(tmp_path) == [FILE]
    calls = raise_at(monkeypatch, -1, KilledError)
    with pnca.checkpoints(tmp_path, every=3):
        resumed = clone(model).fit(*blobs)
    assert len(calls) == 4 * 4  # from the sixth epoch to the tenth
    assert_same_fit(whole, resumed, blobs[0])
    assert not files(tmp_path)


def test_killed_fit__comes_back_to_snapshots_of_before(monkeypatch, tmp_path):
    # There is nothing to learn, so the choice falls on an early epoch, before the kill.
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(60, 5)).astype(np.float32), rng.randint(2, size=60)
    model = make("PNCA", n_folds=3, max_epochs=30, learning_rate=0.1)
    whole = clone(model).fit(X, y)
    assert whole.best_epoch_ < 20
    fit_killed(monkeypatch, tmp_path, model, X, y, step=25, every=10)
    with pnca.checkpoints(tmp_path, every=10):
        resumed = clone(model).fit(X, y)
    assert resumed.best_epoch_ == whole.best_epoch_
    assert_same_fit(whole, resumed, X)


@pytest.mark.parametrize("solver", ["adam", "nadam"])
def test_killed_fit__that_was_killed_twice(solver, blobs, monkeypatch, tmp_path):
    model = make("PNCA shared", max_epochs=12, solver=solver)
    whole = clone(model).fit(*blobs)
    for _ in range(2):
        fit_killed(monkeypatch, tmp_path, model, *blobs, step=5)
    with pnca.checkpoints(tmp_path, every=3):
        resumed = clone(model).fit(*blobs)
    assert_same_fit(whole, resumed, blobs[0])


def test_killed_fit__without_a_seed_keeps_the_one_it_had(blobs, monkeypatch, tmp_path):
    model = make("PNCA", n_folds=3, max_epochs=8, random_state=None)
    fit_killed(monkeypatch, tmp_path, model, *blobs, step=7)
    seed = Checkpoint(tmp_path / FILE, 3, ONE_PROCESS, print).seed(-1)
    with pnca.checkpoints(tmp_path, every=3):
        resumed = clone(model).fit(*blobs)
    assert_same_fit(
        clone(model).set_params(random_state=np.random.RandomState(seed)).fit(*blobs), resumed, blobs[0]
    )


def test_killed_fit__leaves_a_users_generator_where_a_whole_fit_does(blobs, monkeypatch, tmp_path):
    settings = {"max_epochs": 8, "batch_size": 16}
    ours, theirs = np.random.RandomState(5), np.random.RandomState(5)
    whole = make("DNN", random_state=ours, **settings).fit(*blobs)
    fit_killed(
        monkeypatch, tmp_path, make("DNN", random_state=np.random.RandomState(5), **settings), *blobs, step=30
    )
    with pnca.checkpoints(tmp_path, every=3):
        resumed = make("DNN", random_state=theirs, **settings).fit(*blobs)
    assert_same_fit(whole, resumed, blobs[0])
    assert ours.randint(2**31) == theirs.randint(2**31)


def test_killed_fit__of_a_module_with_dropout_of_its_own(blobs, monkeypatch, tmp_path):
    def build():
        return nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.5), nn.Linear(8, 3))

    model = make("NCA", module=build, max_epochs=8)
    whole = make("NCA", module=build, max_epochs=8).fit(*blobs)
    fit_killed(monkeypatch, tmp_path, model, *blobs, step=8)
    with pnca.checkpoints(tmp_path, every=3):
        resumed = make("NCA", module=build, max_epochs=8).fit(*blobs)
    assert_same_fit(whole, resumed, blobs[0])


def test_checkpoints__a_complete_fit_of_a_killed_run_is_not_trained_again(blobs, monkeypatch, tmp_path):
    first, second = make("NCA", max_epochs=5), make("DNN", max_epochs=5, batch_size=None)
    with monkeypatch.context() as patch:
        raise_at(patch, 5 + 4, KilledError)  # five epochs of the first, and in the fourth of the second
        with pytest.raises(KilledError), pnca.checkpoints(tmp_path, every=2):
            [clone(model).fit(*blobs) for model in (first, second)]
    whole = clone(first).fit(*blobs)
    assert files(tmp_path) == [FILE, "fit-002.safetensors"]
    steps = raise_at(monkeypatch, -1, KilledError)
    with pnca.checkpoints(tmp_path, every=2):
        assert_same_fit(whole, clone(first).fit(*blobs), blobs[0])
        assert not steps
        clone(second).fit(*blobs)
    assert len(steps) == 3  # two of five epochs were kept
    assert not files(tmp_path)


def test_checkpoints__ctrl_c_keeps_the_fit_and_the_file(blobs, monkeypatch, tmp_path):
    model = make("NCA", max_epochs=12)
    whole = clone(model).fit(*blobs)
    with monkeypatch.context() as patch:
        raise_at(patch, 9, KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt, match="after 8 of 12"), pnca.checkpoints(tmp_path, every=5):
            (kept := clone(model)).fit(*blobs)
    assert kept.n_iter_ == 8
    assert (tmp_path / FILE).exists()
    with pnca.checkpoints(tmp_path, every=5):
        assert_same_fit(whole, clone(model).fit(*blobs), blobs[0])


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("X", {"X": 1}),
        ("y", {"y": 1}),
        ("learning_rate", {"learning_rate": 0.02}),
        ("max_epochs", {"max_epochs": 20}),
        ("random_state", {"random_state": 1}),
    ],
)
def test_checkpoint__of_another_fit_is_refused(what, change, blobs, monkeypatch, tmp_path):
    X, y = blobs
    fit_killed(monkeypatch, tmp_path, make("NCA", max_epochs=9), X, y, step=5)
    before = (tmp_path / FILE).read_bytes()
    X, y = X + change.pop("X", 0), np.roll(y, change.pop("y", 0))
    other = make("NCA", **{"max_epochs": 9, **change})
    refusal = rf"differs in {what}\. .*delete the file"
    with pytest.raises(InvalidInputError, match=refusal), pnca.checkpoints(tmp_path):
        other.fit(X, y)
    assert (tmp_path / FILE).read_bytes() == before


def test_checkpoint__what_does_not_decide_the_result_may_change(blobs, monkeypatch, tmp_path, capsys):
    fit_killed(monkeypatch, tmp_path, make("NCA", max_epochs=9), *blobs, step=5)
    with pnca.checkpoints(tmp_path, every=1):
        resumed = make("NCA", max_epochs=9, verbose=True).fit(*blobs)
    assert_same_fit(make("NCA", max_epochs=9).fit(*blobs), resumed, blobs[0])
    assert "6/6" in capsys.readouterr().out  # three are done


def test_checkpoint__half_written_files_are_ignored_and_removed(blobs, tmp_path):
    half = tmp_path / f".{FILE}.0123.tmp"
    half.write_bytes(b"half of it")
    with pnca.checkpoints(tmp_path):
        fitted = make("NCA", max_epochs=4).fit(*blobs)
    assert_same_fit(make("NCA", max_epochs=4).fit(*blobs), fitted, blobs[0])
    assert not files(tmp_path)


@pytest.mark.parametrize("n_fitting", [1, 2, 3])
def test_checkpoint__writes_that_fail_are_one_warning_and_the_fit_goes_on(
    n_fitting, blobs, monkeypatch, tmp_path
):
    original, n_written = os.fsync, []

    def sync(file):
        n_written.append(file)
        if len(n_written) > n_fitting:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(file)

    model = make("NCA", max_epochs=15)
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", sync)
        with (
            pytest.warns(UserWarning, match="cannot be written") as warned,
            pnca.checkpoints(tmp_path, every=3),
        ):
            fitted = clone(model).fit(*blobs)
    (warning,) = warned
    assert f"in {tmp_path} cannot be written (No space left on device)" in str(warning.message)
    assert len(n_written) == 6  # a trial, and every three of fifteen epochs
    assert not files(tmp_path)
    assert_same_fit(clone(model).fit(*blobs), fitted, blobs[0])


def test_checkpoints__a_folder_that_cannot_be_written_to_is_an_error_at_once(monkeypatch, tmp_path):
    def full(file):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    refusal = rf"{tmp_path} \(No space left on device\): make room there, or name another folder"
    with pytest.raises(InvalidInputError, match=refusal), pnca.checkpoints(tmp_path):
        raise AssertionError
    assert not files(tmp_path)
    monkeypatch.undo()
    with pnca.checkpoints(tmp_path):  # it was not kept
        pass


def test_checkpoints__a_folder_is_of_one_block_at_a_time(tmp_path):
    with (
        pnca.checkpoints(tmp_path),
        pytest.raises(InvalidInputError, match=r"in use by another .* or name another folder for the check"),
        pnca.checkpoints(str(tmp_path)),
    ):
        raise AssertionError
    with pnca.checkpoints(tmp_path), pnca.checkpoints(tmp_path / "inside"):
        pass


def test_checkpoints__the_fits_of_a_forked_process_have_no_part_in_the_folder(monkeypatch, tmp_path):
    with pnca.checkpoints(tmp_path):
        assert surroundings().checkpoint is not None
        monkeypatch.setattr(os, "getpid", lambda: -1)
        assert surroundings().checkpoint is None


def test_checkpoints__torchrun_s_processes_wait_with_the_lock_until_they_are_a_group(monkeypatch, tmp_path):
    monkeypatch.setenv("RANK", "1")
    with pnca.checkpoints(tmp_path), pnca.checkpoints(tmp_path):
        surroundings()
        with pytest.raises(InvalidInputError, match="in use"), own_folder(tmp_path):
            pass


@pytest.mark.parametrize("what", ["folder", "link", "pipe"])
def test_checkpoint__what_is_no_file_is_refused(what, blobs, tmp_path):
    make_it = {"folder": Path.mkdir, "link": lambda path: path.symlink_to("gone"), "pipe": os.mkfifo}[what]
    make_it(tmp_path / FILE)
    refusal = rf"{FILE} cannot be read \(it is not a file\): delete it"
    with pytest.raises(InvalidInputError, match=refusal), pnca.checkpoints(tmp_path):
        make("NCA").fit(*blobs)


def test_checkpoint__a_fit_that_fails_after_its_training_is_not_complete(blobs, monkeypatch, tmp_path):
    model = make("PNCA", n_folds=2, max_epochs=5)
    with monkeypatch.context() as patch:
        patch.setattr("pnca.models.neighbours.choose", lambda *_: 1 / 0)
        with pnca.checkpoints(tmp_path), suppress(ZeroDivisionError):
            clone(model).fit(*blobs)
    assert files(tmp_path) == [FILE]
    steps = raise_at(monkeypatch, -1, KilledError)
    with pnca.checkpoints(tmp_path):
        resumed = clone(model).fit(*blobs)
    assert not steps
    assert_same_fit(clone(model).fit(*blobs), resumed, blobs[0])


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"\x10\x00\x00\x00\x00\x00\x00\x00{}"])
def test_checkpoint__a_broken_file_is_named(content, blobs, tmp_path):
    (tmp_path / FILE).write_bytes(content)
    refusal = r"fit-001.safetensors is damaged.*delete"
    with pytest.raises(CorruptDataError, match=refusal), pnca.checkpoints(tmp_path):
        make("NCA").fit(*blobs)


def test_checkpoints__settings_that_cannot_be(blobs, tmp_path):
    with pytest.raises(InvalidInputError, match=r"every .* got 0"), pnca.checkpoints(tmp_path, every=0):
        pass
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "folder"
    with pytest.raises(InvalidInputError, match="another folder for the"), pnca.checkpoints(folder):
        make("NCA").fit(*blobs)


def test_checkpoint__there_is_none_outside_of_a_block(blobs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pnca.checkpoints(tmp_path / "inside"):
        assert surroundings().checkpoint is not None
    assert surroundings().checkpoint is None
    make("NCA", max_epochs=2).fit(*blobs)
    assert files(tmp_path) == ["inside"]


def test_numpy_stream__goes_back():
    for rng in (np.random.RandomState(3), np.random.RandomState(np.random.PCG64(3))):
        rng.normal()  # one of a pair is in store
        state = NumpyStream(rng).state()
        expected = rng.normal(), rng.randint(1000)
        NumpyStream(rng).restore(state)
        assert (rng.normal(), rng.randint(1000)) == expected


def test_values__are_restored_in_place():
    tensor = torch.zeros(2)
    Values(tensor).restore({"values": torch.ones(2)})
    assert tensor.tolist() == [1, 1]


class SecondOfTwo(Shards):
    rank, size = 1, 2

    def stack(self, tensor):
        return torch.stack([torch.Generator().manual_seed(0).get_state(), tensor])


@pytest.mark.parametrize("shards", [ONE_PROCESS, SecondOfTwo()])
def test_torch_streams__each_rank_goes_back_to_its_own(shards):
    generator = torch.Generator().manual_seed(3)
    streams = TorchStreams(generator, torch.device("cpu"), shards)
    state = streams.state()
    expected = torch.rand(2, generator=generator)
    streams.restore(state)
    assert torch.equal(torch.rand(2, generator=generator), expected)


def test_torch_streams__a_rank_that_there_was_not_before_keeps_its_own():
    generator, other = (torch.Generator().manual_seed(seed) for seed in (3, 4))
    before = generator.get_state()
    state = TorchStreams(other, torch.device("cpu"), ONE_PROCESS).state()
    TorchStreams(generator, torch.device("cpu"), SecondOfTwo()).restore(state)
    assert torch.equal(generator.get_state(), before)


def in_block(folder, X, y, weights):
    with pnca.checkpoints(folder):
        return make("PNCA", max_epochs=8).fit(X, y, sample_weight=weights)


def test_checkpoint__is_of_the_weights_of_the_examples(monkeypatch, tmp_path):
    X, y = noisy()
    weights = 1 + np.arange(len(y)) % 3
    with monkeypatch.context() as patch:
        raise_at(patch, 5, KilledError)
        with pytest.raises(KilledError), pnca.checkpoints(tmp_path, every=2):
            make("PNCA", max_epochs=8).fit(X, y, sample_weight=weights)
    for other in (None, weights[::-1]):
        with pytest.raises(InvalidInputError, match=r"another fit; it differs in sample_weight\."):
            in_block(tmp_path, X, y, other)
    resumed = in_block(tmp_path, X, y, weights)
    whole = make("PNCA", max_epochs=8).fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(resumed.predict_proba(X), whole.predict_proba(X))
