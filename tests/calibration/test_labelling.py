"""What to label next: against the plain greedy choice, and on clouds where the answer is known."""

import numpy as np
import pytest

from pnca.calibration.labelling import cloud_similarity, representatives, suggest


def slow_choice(similarity, weights, k):
    """The definition of F, for every row at every step."""

    def value(rows):
        return sum(w * max(similarity[i][j] for j in rows) for i, w in enumerate(weights))

    chosen, reached = [], 0.0
    for _ in range(k):
        gains = {j: value([*chosen, j]) - reached for j in range(len(weights)) if j not in chosen}
        best = max(gains, key=lambda j: (round(gains[j], 12), -j))
        reached += gains[best]
        chosen.append(best)
    return chosen, reached


@pytest.mark.parametrize("seed", range(5))
def test_representatives__are_those_of_the_definition(seed):
    rng = np.random.RandomState(seed)
    similarity = cloud_similarity(rng.normal(size=(2, 25, 2)), 0.5)
    weights = rng.uniform(size=25)
    found = representatives(similarity, weights, 8)
    rows, reached = slow_choice(similarity, weights, 8)
    assert found.rows.tolist() == rows
    assert found.gains.sum() == pytest.approx(reached)
    assert (np.diff(found.gains) <= 1e-12).all()


def test_representatives__equal_rows_are_chosen_once_while_others_are_left():
    points = np.repeat([[0.0], [10.0], [20.0]], [5, 3, 1], axis=0)
    found = representatives(cloud_similarity(points[None], 1.0), np.ones(9), 9)
    assert sorted(points[found.rows[:3], 0].tolist()) == [0, 10, 20]
    np.testing.assert_allclose(found.gains, [5, 3, 1, 0, 0, 0, 0, 0, 0], atol=1e-9)
    assert sorted(found.rows.tolist()) == list(range(9))


def test_cloud_similarity__is_the_mean_kernel_of_the_particles():
    z = np.random.RandomState(0).normal(size=(3, 6, 2))
    found = cloud_similarity(z, 0.7)
    for i in range(6):
        for j in range(6):
            kernels = [np.exp(-((z[p, i] - z[p, j]) ** 2).sum() / 0.7) for p in range(3)]
            assert found[i, j] == pytest.approx(np.mean(kernels))
    assert (np.diag(found) == 1).all()


def asked(similarity, mistakes, k=2, **others):
    proba = np.stack([1 - mistakes, mistakes], axis=1)
    n = len(mistakes)
    given = {"rows": np.arange(n), "n": n, "min_familiarity": 0.05, **others}
    return suggest(proba, given.pop("familiarity", np.full(n, 0.5)), similarity, k, **given)


def test_suggest__says_why():
    points = np.array([0.0, 0.1, 0.2, 50.0, 90.0, 91.0])[None, :, None]
    mistakes = np.array([0.3, 0.1, 0.3, 0.4, 0.02, 0.02])
    found = asked(
        cloud_similarity(points, 1.0), mistakes, 3, familiarity=np.array([0.5, 0.5, 0.5, 0.01, 0.5, 0.5])
    )
    assert found.rows.tolist() == [1, 3, 4]  # the middle of the three stands for all of them
    assert found.reason.tolist() == ["typical", "unfamiliar", "typical"]
    assert found.expected_mistakes == pytest.approx(mistakes.sum())
    assert found.score.sum() < found.expected_mistakes
    assert "3 of 6 inputs" in found.summary()
    assert repr(found).splitlines()[1].startswith("- row 1: typical, confidence 0.90; stands for")
    assert found.to_frame().index.tolist() == [1, 3, 4]


def test_suggest__of_a_drawn_part_counts_the_pool():
    found = asked(np.eye(3), np.full(3, 0.25), rows=np.array([4, 9, 11]), n=12)
    assert found.rows.tolist() == [4, 9]
    np.testing.assert_allclose(found.score, 1.0)
    assert found.expected_mistakes == pytest.approx(3)
    assert "3 of it were drawn" in found.summary()
    assert set(found.reason) == {"unsure"}
