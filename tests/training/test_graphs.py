"""Steps that are captured and replayed do what the same steps do one by one."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from conftest import needs_cuda
from models import make
from pnca import BNNClassifier, EnsembleClassifier, NCAClassifier, PNCAClassifier, paper_settings
from pnca.training import graphs, loop
from pnca.training.graphs import CapturedStep
from pnca.training.loop import Run, Schedule, Step
from pnca.training.objective import Evaluation
from pnca.training.optimisers import make_optimiser
from training.quadratic import Quadratic
from training.tape import TapeGraphs


@pytest.fixture(autouse=True)
def nothing_taken(monkeypatch):
    """As in a new process."""
    monkeypatch.setattr(graphs, "_TAKEN", set())


class FakeGraphs:
    """Notes what it captures; a replay calls the work once more."""

    def __init__(self, generator=None):
        self.replays, self.n_beside, self.n_joined = [], 0, 0

    def capture(self, work):
        number = len(self.replays)
        self.replays.append(0)

        def replay():
            self.replays[number] += 1
            work()

        return SimpleNamespace(replay=replay)

    def beside(self):
        self.n_beside += 1
        return nullcontext()

    def join(self):
        self.n_joined += 1


class Sums(Quadratic):
    """Draws particles to the sum of the indices of a batch."""

    def __init__(self):
        super().__init__()
        self.evaluated = []

    def prepare(self, indices):
        self.prepared.append(indices.tolist())
        return indices.float()

    def evaluate(self, particles, batch, mixing, generator):
        self.evaluated.append([int(index) for index in batch])
        loss = (particles - batch.sum()).square().sum()
        return Evaluation(loss, loss.detach(), torch.tensor(float(len(batch))))


class Moving:
    """Plain gradient descent, in which each step shows."""

    mixes_gradients = False

    def __init__(self, particles):
        self.particles = particles

    def step(self, gradients, mixing):
        self.particles -= 0.01 * gradients


def captured_step(key="key"):
    objective, particles = Sums(), torch.zeros(2, 2, requires_grad=True)
    step = Step(objective, particles, Moving(particles))
    fake = FakeGraphs()
    return CapturedStep(step, fake, key), objective, fake


def take(step, *batches):
    for indices in batches:
        step.take(np.array(indices))


def test_captured_step__the_first_is_eager_and_the_second_captured_and_replayed():
    step, objective, fake = captured_step()
    take(step, [0, 1])
    assert fake.replays == []
    take(step, [0, 1])
    assert fake.replays == [1]
    take(step, [0, 1], [0, 1])
    assert fake.replays == [3]
    assert objective.evaluated == [[0, 1]] * 4


def test_captured_step__capturing_alone_moves_nothing():
    # What CUDA captures it does not do: a captured step must be replayed too.
    step, _, _ = captured_step()
    moved = []
    for _ in range(4):
        take(step, [0, 1])
        moved.append(step.step.particles.detach().clone())
    eager, _, _ = captured_step()
    for expected in moved:
        take(eager.step, [0, 1])
        assert torch.equal(eager.step.particles, expected)
    assert torch.equal(step.sums, eager.sums)


def test_captured_step__a_repeated_batch_is_prepared_once():
    step, objective, _ = captured_step()
    take(step, *[[0, 1]] * 5)
    assert objective.prepared == [[0, 1]]


def test_captured_step__a_key_that_was_met_is_captured_at_once():
    take(captured_step()[0], [0, 1])
    step, objective, fake = captured_step()
    take(step, [0, 1])
    assert fake.replays == [1]
    assert objective.evaluated == [[0, 1]]


@pytest.mark.parametrize(("key", "batch"), [("another", [0, 1]), ("key", [0, 1, 2])])
def test_captured_step__another_key_or_size_is_not_one_that_was_met(key, batch):
    take(captured_step("key")[0], [0, 1])
    step, _, fake = captured_step(key)
    take(step, batch)
    assert fake.replays == []


def test_captured_step__a_key_that_another_thread_met_is_not_one_that_was_met(monkeypatch):
    take(captured_step()[0], [0, 1])
    monkeypatch.setattr(graphs.threading, "get_ident", lambda: -1)
    step, _, fake = captured_step()
    take(step, [0, 1])
    assert fake.replays == []


def test_captured_step__batches_that_differ_share_a_graph_and_are_copied_into_its_buffer():
    step, objective, fake = captured_step()
    batches = [[0, 1], [2, 3], [4, 5], [0, 1]]
    take(step, *batches)
    assert fake.replays == [3]
    assert objective.evaluated == batches


def test_captured_step__the_caller_s_indices_are_not_its_buffer():
    step, objective, _ = captured_step()
    indices = [np.array(batch) for batch in ([0, 1], [2, 3], [4, 5])]
    for batch in indices:
        step.take(batch)
    assert [batch.tolist() for batch in indices] == [[0, 1], [2, 3], [4, 5]]
    assert objective.evaluated == [[0, 1], [2, 3], [4, 5]]


def test_captured_step__each_size_has_a_graph_of_its_own():
    step, objective, fake = captured_step()
    batches = [[0, 1, 2], [3, 4], [2, 1, 0], [4, 3], [0, 1, 2], [3, 4]]
    take(step, *batches)
    assert fake.replays == [2, 2]
    assert objective.evaluated == batches
    assert step.sums[1] == 15


def test_captured_step__a_repeated_batch_and_others_take_turns():
    step, objective, fake = captured_step()
    batches = [[0, 1], [0, 1], [2, 3], [2, 3], [0, 1], [0, 1], [5], [5], [0, 1]]
    take(step, *batches)
    assert objective.evaluated == batches
    # The first batch repeated, all of two examples, the one of one example repeated.
    assert fake.replays == [1, 5, 1]


def test_captured_step__mixing_is_issued_beside_the_step_and_joined_before_the_gradients():
    step, _, fake = captured_step()
    take(step, [0, 1], [0, 1], [2, 3])
    assert fake.n_beside == fake.n_joined == 3


# Which steps are captured


def made_step(monkeypatch, *, key="key", is_cuda=True, shards=None):
    monkeypatch.setattr(graphs, "CudaGraphs", lambda device, generator: FakeGraphs(generator))
    run = SimpleNamespace(
        objective=Sums(),
        particles=SimpleNamespace(is_cuda=is_cuda, device=torch.device("cpu")),
        schedule=Schedule(max_epochs=1, learning_rate=0.1, graph_key=key),
        **{"optimiser": None, "generator": None, "shards": shards},
    )
    return type(Run._make_step(run))


def test_run__captures_steps_on_a_gpu_in_one_process_if_there_is_a_key(monkeypatch):
    assert made_step(monkeypatch) is CapturedStep
    assert made_step(monkeypatch, key=None) is Step
    assert made_step(monkeypatch, is_cuda=False) is Step
    assert made_step(monkeypatch, shards=object()) is Step  # ranks wait for each other


# Whole fits


def data(n=60):
    rng = np.random.RandomState(0)
    y = np.arange(n) % 3
    return rng.randn(n, 20).astype(np.float32) + y[:, None], y


CASES = {
    "PNCA": {"n_folds": 3},
    "PNCA cross": {},
    "PNCA exact": {"update": "functional", "batch_size": 16},
    "PNCA orthogonal": {"batch_size": 16},
    "PNCA positive": {"batch_size": 16},
    "PNCA shared": {"batch_size": 16},
    "NCA": {"dropout": 0.3},
    "DNN": {"batch_size": 16, "dropout": 0.3},
    "Ensemble": {"batch_size": None, "dropout": 0.3},
    "BNN": {"batch_size": 16},
}


def capture_with(monkeypatch, kind):
    """Let fits on the CPU capture their steps; returns what captures them."""
    made = []

    def make_step(run):
        assert run.schedule.graph_key is not None
        step = Step(run.objective, run.particles, run.optimiser, run.generator)
        made.append(kind(run.generator))
        return CapturedStep(step, made[-1], run.schedule.graph_key)

    monkeypatch.setattr(Run, "_make_step", make_step)
    return made


def assert_equal_fits(a, b, X):
    assert a.history_ == b.history_
    np.testing.assert_array_equal(a.particles_, b.particles_)
    np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X))


@pytest.mark.parametrize("name", CASES)
def test_captured_fit__equals_the_eager_one_the_first_time_and_later(name, blobs, monkeypatch):
    settings = {"max_epochs": 6, **CASES[name]}
    eager = make(name, **settings).fit(*blobs)
    made = capture_with(monkeypatch, FakeGraphs)
    for _ in range(2):
        assert_equal_fits(make(name, **settings).fit(*blobs), eager, blobs[0])
    first, later = made
    n_steps = 6 * (4 if settings.get("batch_size") else 1)
    assert 0 < sum(first.replays) < n_steps
    assert sum(first.replays) < sum(later.replays) <= n_steps


@pytest.mark.parametrize("name", CASES)
def test_captured_fit__equals_the_eager_one_where_operations_alone_are_replayed(name, blobs, monkeypatch):
    # No Python runs in a replay, and no step may wait for a value. Adam's counter is a tensor everywhere,
    # Nadam's only on a GPU.
    monkeypatch.setattr(loop, "make_optimiser", lambda _, *arguments: make_optimiser("adam", *arguments))
    settings = {"max_epochs": 6, **CASES[name]}
    eager = make(name, **settings).fit(*blobs)
    made = capture_with(monkeypatch, TapeGraphs)
    for _ in range(2):
        assert_equal_fits(make(name, **settings).fit(*blobs), eager, blobs[0])
    assert all(each.captured for each in made)


def test_captured_fit__of_images_draws_on_in_each_replay(monkeypatch):
    X, y = data(30)
    images = np.repeat(X, 5, axis=1).reshape(len(X), 10, 10)
    settings = {"n_folds": 2, "n_particles": 4, "max_epochs": 4}  # two kinds of particles
    eager = make("PNCA", **settings).fit(images, y)
    made = capture_with(monkeypatch, TapeGraphs)
    assert_equal_fits(make("PNCA", **settings).fit(images, y), eager, images)
    assert made[0].captured


# On a GPU


PAPERS = {"PNCA": PNCAClassifier, "NCA": NCAClassifier, "Ensemble": EnsembleClassifier, "BNN": BNNClassifier}
SETTINGS = {
    "default": {},
    "without folds": {"n_folds": None},
    "batches": {"batch_size": 25},
    "random features and folds": {
        "kernel": "orthogonal",
        "expectation": "cross",
        "update": "functional",
        "input_weight": 0.0,
    },
}


def make_on_gpu(name):
    common = {"max_epochs": 12, "device": "cuda", "random_state": 0}
    if name in PAPERS:
        return PAPERS[name](**{**paper_settings(name), **common})
    return PNCAClassifier(**SETTINGS[name], **common)


@needs_cuda
@pytest.mark.parametrize("name", [*PAPERS, *SETTINGS])
def test_captured_fit__on_a_gpu_equals_the_eager_one_the_first_time_and_later(name, monkeypatch):
    X, y = data()
    captured = [make_on_gpu(name).fit(X, y) for _ in range(3)]  # the first meets the key
    assert graphs._TAKEN
    monkeypatch.setattr(graphs, "CapturedStep", lambda step, graphs, key: step)
    eager = make_on_gpu(name).fit(X, y)
    for model in captured:
        assert model.history_ == eager.history_
        assert np.array_equal(model.particles_, eager.particles_)


@needs_cuda
def test_captured_fit__of_images_on_a_gpu_is_the_same_the_first_time_and_later():
    X, y = data()
    images = np.repeat(X, 5, axis=1).reshape(len(X), 10, 10)
    fits = [PNCAClassifier(max_epochs=6, device="cuda", random_state=0).fit(images, y) for _ in range(3)]
    for model in fits[1:]:
        assert np.array_equal(model.particles_, fits[0].particles_)
