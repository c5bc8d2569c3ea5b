"""Shared fixtures. Real data is found through PNCA_DATA_DIR; tests that need it skip without it."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from models import make
from pnca.models import experts
from pnca_studies.data import ShiftExperiment, load_digits_experiment
from pnca_studies.experiments.demo import DemoResult, run_demo


@pytest.fixture(autouse=True)
def few_trees(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Forests of few trees, but where a test is marked ``all_trees``."""
    if "all_trees" not in request.keywords:
        monkeypatch.setattr(experts, "_TREES", 20)
        monkeypatch.setattr(experts, "_TREES_IN_FOLDS", 10)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder with the real data sets."""
    folder = os.environ.get("PNCA_DATA_DIR")
    if not folder:
        pytest.skip("PNCA_DATA_DIR is not set: it names the folder with mnist.npz and notmnist.npz")
    if not (path := Path(folder)).is_dir():
        pytest.skip(f"PNCA_DATA_DIR={folder} is not a folder")
    return path


@pytest.fixture(scope="session")
def blobs() -> tuple[np.ndarray, np.ndarray]:
    """Three separable classes in five dimensions, 60 examples, string labels; read-only."""
    rng = np.random.RandomState(0)
    labels = np.array(["ash", "birch", "cedar"])[np.arange(60) % 3]
    centres = {"ash": -2.0, "birch": 0.0, "cedar": 2.0}
    X = 0.5 * rng.normal(size=(60, 5)) + np.array([[centres[name]] for name in labels])
    X = X.astype(np.float32)
    X.setflags(write=False)
    labels.setflags(write=False)
    return X, labels


@pytest.fixture(scope="session")
def experiment() -> ShiftExperiment:
    """The demo's data, with 60 training digits."""
    return load_digits_experiment(60)


@pytest.fixture(scope="session")
def results(experiment: ShiftExperiment) -> list[DemoResult]:
    """What a model with evidence and one without answer in the demo."""
    return list(run_demo(experiment, {"PNCA": make("PNCA"), "DNN": make("DNN")}))


needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")
