"""A distributed fit equals that of one process. Each world size is launched once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from filelock import FileLock

import pnca
from pnca.exceptions import InvalidInputError
from pnca.training.loop import surroundings
from pnca.training.shards import ONE_PROCESS
from training.shared_fits import CASES, RANDOM_CASES, examples, fit, result

SCRIPT = Path(__file__).with_name("shared_fits.py")


def run(script, *arguments, n_processes):
    """Launch a script as a user does."""
    command = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={n_processes}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    environment["PYTHONPATH"] = str(Path(pnca.__file__).parents[1])
    return subprocess.run(
        [sys.executable, *command, str(script), *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


class Processes:
    """Results of all ranks of one launch."""

    def __init__(self, n, folder):
        self.n = n
        self.reports = [json.loads((folder / f"{rank}.json").read_text()) for rank in range(n)]
        self.arrays = [dict(np.load(folder / f"{rank}.npz")) for rank in range(n)]
        self.left = list((folder / "checkpoints").glob("fit-*"))

    def of(self, case, part="particles"):
        return [arrays[f"{case}/{part}"] for arrays in self.arrays]


@pytest.fixture(scope="module", params=[2, 3])
def processes(request, tmp_path_factory):
    root, n = tmp_path_factory.getbasetemp(), request.param
    # The workers of pytest-xdist, whose folders have a common parent, share one launch.
    folder = (root.parent if "PYTEST_XDIST_WORKER" in os.environ else root) / f"processes-{n}"
    with FileLock(f"{folder}.lock"):
        if not (folder / f"{n - 1}.json").exists():
            folder.mkdir(exist_ok=True)
            done = run(SCRIPT, folder, n_processes=n)
            assert done.returncode == 0, done.stderr[-3000:]
    return Processes(n, folder)


@pytest.fixture(scope="module")
def alone():
    """The same fits in this process."""
    torch.set_num_threads(1)
    return {case: result(settings) for case, settings in CASES.items()}


def that_matter(case, particles):
    """Drop parameters without effect: distances do not change when all embeddings are translated.

    The gradient of the last layer's bias is then rounding error, which Adam scales to a whole step. (With
    ``expectation="cross"`` the biases of different particles matter, and they are compared too.)
    """
    is_moved = case.startswith(
        ("PNCA shared", "PNCA groups", "PNCA nadam", "PNCA positive", "PNCA pooled", "PNCA in tiles", "NCA")
    )
    n_components = 3 if "module" in case else 10
    return particles[:, :-n_components] if is_moved else particles


@pytest.mark.parametrize("case", CASES)
def test_shared_fit__is_that_of_one_process(processes, alone, case):
    # Sums of float32 in another order, over some steps of Adam: 1e-5 is typical.
    expected = alone[case]
    found = {part: processes.of(case, part)[0] for part in expected}
    np.testing.assert_allclose(found["loss"], expected["loss"], rtol=1e-5)
    np.testing.assert_allclose(found["accuracy"], expected["accuracy"], atol=1e-6)
    np.testing.assert_allclose(found["probabilities"], expected["probabilities"], atol=1e-4)
    np.testing.assert_allclose(
        that_matter(case, found["particles"]), that_matter(case, expected["particles"]), atol=1e-4
    )


@pytest.mark.parametrize("case", [*CASES, *RANDOM_CASES])
def test_shared_fit__is_the_same_in_all_processes(processes, case):
    for part in ("particles", "probabilities", "loss"):
        first, *others = processes.of(case, part)
        for other in others:
            np.testing.assert_array_equal(first, other)


@pytest.mark.parametrize("case", ["PNCA dropout", "PNCA images", "Ensemble dropout"])
def test_shared_fit__learns_with_randomness_of_each_process(processes, case):
    loss = processes.of(case, "loss")[0]
    assert loss[-1] < 0.9 * loss[0]
    assert not np.allclose(loss, result(RANDOM_CASES[case])["loss"], rtol=1e-4)  # own streams


def test_shared_fit__stops_everywhere_when_one_process_gets_ctrl_c(processes):
    assert {(report["stopped"], report["was_interrupted"]) for report in processes.reports} == {(5, True)}
    np.testing.assert_array_equal(*processes.of("stopped")[:2])
    expected, _ = fit("NCA", max_epochs=5)
    np.testing.assert_allclose(
        that_matter("NCA", processes.of("stopped")[0]), that_matter("NCA", expected.particles_), atol=1e-4
    )


def test_shared_fit__is_resumed_bit_for_bit(processes):
    for whole, resumed, report in zip(
        processes.of("whole"), processes.of("resumed"), processes.reports, strict=True
    ):
        np.testing.assert_array_equal(whole, resumed)
        assert report["same_history"]
        assert report["files"] == ["fit-001.safetensors"]
    assert processes.left == []


def test_shared_fit__goes_on_without_checkpoints_where_the_disk_is_full(processes):
    expected, _ = fit("NCA", max_epochs=3)
    for particles in processes.of("full disk"):
        np.testing.assert_allclose(
            that_matter("NCA", particles), that_matter("NCA", expected.particles_), atol=1e-4
        )


@pytest.mark.parametrize(("folder", "reason"), [("used", "in use by another"), ("file", "cannot be made")])
def test_shared_fit__every_process_refuses_a_folder_that_the_first_cannot_use(processes, folder, reason):
    for report in processes.reports:
        assert reason in report["errors"][folder]
        assert "name another folder for the checkpoints" in report["errors"][folder]


@pytest.mark.parametrize("what", ["X", "rows", "y", "sample_weight", "bandwidth", "random_state", "model"])
def test_shared_fit__of_different_things_is_the_same_error_everywhere(processes, what):
    (error,) = {report["errors"][what] for report in processes.reports}
    assert error.startswith(f"InvalidInputError: The {processes.n} processes are not at the same fit; they")
    assert ("X" if what == "rows" else what) in error.split(". Each")[0].split("differ in ")[1].split(", ")


def test_shared_fit__that_one_process_cannot_begin_is_an_error_everywhere(processes):
    for report in processes.reports:
        assert "contains infinity" in report["errors"]["infinity"]
        assert ("Process 1 could not" in report["errors"]["infinity"]) == (report["rank"] != 1)
        assert report["errors"]["none"] == "no error"


def test_distributed__ends_what_it_began_and_leaves_what_it_found(processes):
    for rank, report in enumerate(processes.reports):
        assert (report["rank"], report["size"]) == (rank, processes.n)
        assert report["was_destroyed"]
        assert report["was_kept"]
    np.testing.assert_array_equal(processes.of("own group")[0], processes.of("NCA")[0])


def test_distributed__an_error_in_one_process_does_not_leave_the_others_waiting(processes):
    errors = [report["where one fails"] for report in processes.reports]
    assert errors.pop(1) == "MemoryError"
    # torch's error for a lost connection, raised before the launch's timeout.
    assert {*errors} <= {"RuntimeError", "DistBackendError"}


def test_distributed__without_torchrun_says_how_to_start(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(InvalidInputError, match=r"RANK.*torchrun --nproc-per-node=2"), pnca.distributed():
        pass
    assert surroundings().shards is None


def test_examples__do_not_divide_evenly():
    X, _ = examples()
    assert len(X) % 2
    assert len(X) % 3


def test_distributed__one_process_is_one_process():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    try:
        with pnca.distributed() as processes:
            assert processes is ONE_PROCESS
            assert surroundings().shards is None  # nothing is exchanged
        assert torch.distributed.is_initialized()
    finally:
        torch.distributed.destroy_process_group()
