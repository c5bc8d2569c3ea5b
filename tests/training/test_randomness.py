"""Whose random numbers a fit draws: its own, also while others run, and never the caller's."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import nn

from models import make
from pnca.networks import seeded

IMAGES = {"image_shape": (4, 4), "dropout": 0.2, "max_epochs": 6}
PRIVATE = {
    "PNCA": {"n_folds": 2, "n_particles": 4, "augmentation": "auto", **IMAGES},
    "PNCA positive": {"n_folds": None, "augmentation": 1.0, **IMAGES},
    "NCA": {"augmentation": 0.7, **IMAGES},
    "Ensemble": {"augmentation": 0.7, "batch_size": 16, **IMAGES},
    "BNN": {"dropout": 0.3, "max_epochs": 6},
}


def layers():
    return nn.Sequential(nn.Linear(16, 8), nn.Dropout(0.5), nn.Linear(8, 3))


MODULES = {
    "NCA": {"module": layers, "max_epochs": 15},
    "PNCA": {"module": layers, "max_epochs": 10, "n_folds": 2},
    "Ensemble": {"module": layers, "max_epochs": 10},
    "DNN": {"module": layers(), "max_epochs": 10},
}


@pytest.fixture
def one_thread():
    """Sums whose order depends on nothing."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def data():
    rng = np.random.RandomState(0)
    y = np.arange(48) % 3
    return (rng.normal(size=(48, 16)) + y[:, None]).astype(np.float32), y


def fit(name, settings, data, seed=0):
    return make(name, **settings, random_state=seed).fit(*data)


@pytest.mark.parametrize("kind", [PRIVATE, MODULES], ids=["layers", "module"])
@pytest.mark.parametrize("name", ["PNCA", "NCA", "Ensemble"])
def test_fit__leaves_the_caller_s_stream_alone_and_does_not_depend_on_it(name, kind, data):
    settings, particles = kind[name], []
    with torch.random.fork_rng(devices=[]):
        for seed in (1, 2):
            before = torch.manual_seed(seed).get_state()
            particles.append(fit(name, settings, data).particles_)
            assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(*particles)


@pytest.mark.parametrize("name", ["NCA", "Ensemble"])
def test_fit__draws_dropout_and_augmentation(name, data):
    # Without, the same initial particles go elsewhere.
    still = {**PRIVATE[name], "dropout": 0.0, "augmentation": 0.0}
    assert fit(name, still, data).history_ != fit(name, PRIVATE[name], data).history_


def at_once(works):
    """Do works in threads that begin together."""
    start = threading.Barrier(len(works))

    def work(function):
        start.wait()
        return function()

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(work, works))


def assert_equal_in_threads(jobs, data):
    works = [lambda job=job: fit(*job[:2], data, seed=job[2]) for job in jobs]
    in_turn = [work() for work in works]
    for alone, beside in zip(in_turn, at_once(works), strict=True):
        assert beside.history_ == alone.history_
        np.testing.assert_array_equal(beside.particles_, alone.particles_)
        np.testing.assert_array_equal(beside.predict_proba(data[0]), alone.predict_proba(data[0]))


@pytest.mark.parametrize("name", PRIVATE)
def test_fits__in_four_threads_are_those_in_turn(name, data, one_thread):
    assert_equal_in_threads([(name, PRIVATE[name], seed) for seed in range(4)], data)


@pytest.mark.parametrize("name", MODULES)
def test_fits__of_modules_with_dropout_in_two_threads_are_those_in_turn(name, data, one_thread):
    before = torch.get_rng_state()
    assert_equal_in_threads([(name, MODULES[name], seed) for seed in range(2)], data)
    assert torch.equal(torch.get_rng_state(), before)


def test_fits__of_a_module_and_of_layers_run_beside_each_other(data, one_thread):
    assert_equal_in_threads([("NCA", MODULES["NCA"], 0), ("NCA", PRIVATE["NCA"], 0)], data)


# The loan of torch's global generator


def test_seeded__one_thread_at_a_time():
    entered, events = threading.Event(), []

    def second():
        entered.wait(10)
        with seeded(1):
            events.append("second")
            return torch.rand(3)

    def first():
        with seeded(0):
            entered.set()
            drawn = [torch.rand(1)]
            thread.join(0.2)  # time in which the other could draw
            events.append("first")
            return torch.cat([*drawn, torch.rand(2)])

    results = {}
    thread = threading.Thread(target=lambda: results.update(second=second()))
    thread.start()
    results["first"] = first()
    thread.join(10)
    assert events == ["first", "second"]
    for seed, name in enumerate(["first", "second"]):
        expected = torch.rand(3, generator=torch.Generator().manual_seed(seed))
        assert torch.equal(results[name], expected)


def test_seeded__blocks_of_a_thread_may_be_nested():
    with seeded(0):
        outer = [torch.rand(1)]
        with seeded(0):
            inner = torch.rand(2)
        outer.append(torch.rand(1))
    assert torch.equal(torch.cat(outer), inner)


def test_seeded__an_error_gives_the_generator_back():
    before = torch.get_rng_state()
    with pytest.raises(ValueError, match="drawn"), seeded(0):
        raise ValueError(f"{torch.rand(1)} was drawn")
    assert torch.equal(torch.get_rng_state(), before)

    def borrow():
        with seeded(0):
            return torch.rand(1)

    with ThreadPoolExecutor(1) as pool:  # another thread is not kept waiting
        pool.submit(borrow).result(timeout=10)
