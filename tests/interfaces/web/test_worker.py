"""What several requests ask at once is answered together, and each gets its own."""

import asyncio
import time

import numpy as np
import pytest

from pnca.interfaces.web import worker as worker_module
from pnca.interfaces.web.worker import Worker


@pytest.fixture
def worker(image_model):
    found = Worker(image_model, 3)
    yield found
    found.close()


def test_worker__joins_what_waits_and_gives_each_its_own(worker, image_model, monkeypatch):
    X = image_model.record_.inputs
    asked, scores_of = [], worker_module.scores_of

    def counted(model, inputs, k):
        asked.append(len(inputs))
        return scores_of(model, inputs, k)

    monkeypatch.setattr(worker_module, "scores_of", counted)

    async def ask():
        slow = worker.run(lambda: time.sleep(0.3))
        waiting = asyncio.create_task(slow)
        await asyncio.sleep(0.05)
        return await asyncio.gather(*(worker.score(X[i : i + 1 + i % 2]) for i in range(20)), waiting)

    *found, _ = asyncio.run(ask())
    assert asked == [30]  # all of them, in one call
    proba = image_model.predict_proba(X)
    for i, scores in enumerate(found):
        np.testing.assert_allclose(scores.proba, proba[i : i + 1 + i % 2], rtol=1e-9)
        assert scores.rows.shape == (1 + i % 2, 3)


def test_worker__an_input_that_is_wrong_is_alone(worker, image_model):
    X = image_model.record_.inputs

    async def ask():
        return await asyncio.gather(
            worker.score(X[:1]),
            worker.score(np.zeros((1, 3, 3))),
            worker.score(X[1:2]),
            return_exceptions=True,
        )

    first, wrong, last = asyncio.run(ask())
    assert isinstance(wrong, ValueError)
    np.testing.assert_allclose(
        np.concatenate([first.proba, last.proba]), image_model.predict_proba(X[:2]), rtol=1e-9
    )


def test_worker__divides_what_is_too_much_at_once(worker, image_model, monkeypatch):
    monkeypatch.setattr(worker_module, "MOST_ROWS", 4)
    X = image_model.record_.inputs

    async def ask():
        return await asyncio.gather(*(worker.score(X[3 * i : 3 * i + 3]) for i in range(10)))

    found = asyncio.run(ask())
    np.testing.assert_allclose(
        np.concatenate([scores.proba for scores in found]), image_model.predict_proba(X[:30]), rtol=1e-9
    )


def test_worker__a_request_that_is_given_up_costs_nothing_else(worker, image_model):
    X = image_model.record_.inputs

    async def ask():
        blocking = asyncio.create_task(worker.run(lambda: time.sleep(0.2)))
        await asyncio.sleep(0.05)
        gone = asyncio.create_task(worker.score(X[:1]))
        stays = asyncio.create_task(worker.score(X[1:2]))
        await asyncio.sleep(0)
        gone.cancel()
        found = await stays
        await blocking
        return found

    np.testing.assert_allclose(asyncio.run(ask()).proba, image_model.predict_proba(X[1:2]), rtol=1e-9)
