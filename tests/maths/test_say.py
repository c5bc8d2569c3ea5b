"""How far from every class, against numpy and scikit-learn."""

import numpy as np
import pytest
import torch
from sklearn.covariance import ledoit_wolf, ledoit_wolf_shrinkage
from sklearn.metrics import roc_auc_score

from pnca.maths.say import (
    Say,
    apartness,
    class_distance_parts,
    class_shape,
    log_class_distances,
    log_say,
    shrinkage_share,
)


def classes(n, p, c, seed=0):
    rng = np.random.RandomState(seed)
    labels = np.arange(n) % c
    points = rng.normal(size=(n, p)) * np.linspace(0.2, 2, p) + 3 * rng.normal(size=(c, p))[labels]
    return points, labels


@pytest.mark.parametrize(("n", "p"), [(50, 4), (30, 60), (300, 20)])
def test_shrinkage_share__is_that_of_scikit_learn(n, p):
    points = np.random.RandomState(0).normal(size=(n, p)) * np.linspace(0.2, 2, p)
    points -= points.mean(axis=0)
    variances = torch.linalg.svdvals(torch.from_numpy(points)).square() / n
    found = shrinkage_share(torch.from_numpy(points), variances)
    assert float(found) == pytest.approx(ledoit_wolf_shrinkage(points, assume_centered=True))


@pytest.mark.parametrize(("n", "p", "c"), [(50, 4, 3), (30, 60, 2), (20, 1, 2)])
def test_class_distance_parts__match_a_loop_over_columns(n, p, c):
    points, labels = classes(n, p, c)
    queries = 3 * np.random.RandomState(1).normal(size=(7, p))
    centres = np.stack([points[labels == k].mean(axis=0) for k in range(c)])
    covariance, _ = ledoit_wolf(points - centres[labels], assume_centered=True)
    precision = np.linalg.inv(covariance)
    given = torch.from_numpy(points), torch.from_numpy(labels)
    shape = class_shape(*given, torch.ones(n, dtype=torch.bool))
    found = class_distance_parts(torch.from_numpy(queries), shape).numpy()
    for query, parts in zip(queries, found, strict=True):
        gaps = [query - centre for centre in centres]
        gap = min(gaps, key=lambda gap: float(gap @ precision @ gap))
        expected = [gap[j] * sum(precision[j, k] * gap[k] for k in range(p)) for j in range(p)]
        np.testing.assert_allclose(parts, expected, rtol=1e-6, atol=1e-8)
    log_distances = log_class_distances(torch.from_numpy(queries), shape)
    np.testing.assert_allclose(found.sum(axis=1) + 1e-4, np.exp(2 * log_distances.numpy()), rtol=1e-9)


@pytest.mark.parametrize(("n", "p", "c"), [(50, 4, 3), (30, 60, 2), (20, 1, 2)])
def test_log_class_distances__are_mahalanobis_distances_to_the_nearest_class(n, p, c):
    points, labels = classes(n, p, c)
    queries = 3 * np.random.RandomState(1).normal(size=(7, p))
    centres = np.stack([points[labels == k].mean(axis=0) for k in range(c)])
    covariance, _ = ledoit_wolf(points - centres[labels], assume_centered=True)
    gaps = queries[:, None] - centres
    expected = np.einsum("ikp,pq,ikq->ik", gaps, np.linalg.inv(covariance), gaps).min(axis=1)
    shape = class_shape(
        *(torch.from_numpy(part) for part in (points, labels)), torch.ones(n, dtype=torch.bool)
    )
    found = log_class_distances(torch.from_numpy(queries), shape)
    np.testing.assert_allclose(found.exp().square().numpy(), expected, rtol=1e-6, atol=2e-4)


def test_class_shape__of_classes_that_are_points_each_is_finite():
    points = torch.tensor([[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]]).double()
    shape = class_shape(points, torch.tensor([0, 0, 1]), torch.ones(3, dtype=torch.bool))
    assert torch.isfinite(log_class_distances(points + 1, shape)).all()


def test_class_shape__where_none_are_used_all_are():
    points, labels = (torch.from_numpy(part) for part in classes(20, 3, 2))
    none, every = torch.zeros(20, dtype=torch.bool), torch.ones(20, dtype=torch.bool)
    for found, expected in zip(
        class_shape(points, labels, none), class_shape(points, labels, every), strict=True
    ):
        torch.testing.assert_close(found, expected)


def test_fit__the_distance_of_an_example_does_not_depend_on_itself_or_its_fold():
    points, labels = (torch.from_numpy(part) for part in classes(40, 3, 2))
    folds, moved, other = torch.arange(40) % 5, points.clone(), labels.clone()
    held_out = folds == 2
    other[held_out] = 1 - labels[held_out]
    _, distances = Say.fit(points, labels, torch.arange(40), folds)
    _, relabelled = Say.fit(points, other, torch.arange(40), folds)
    torch.testing.assert_close(distances[held_out], relabelled[held_out])
    moved[2] += 100
    _, of_moved = Say.fit(moved, labels, torch.arange(40), folds)
    rest = held_out & (torch.arange(40) != 2)
    torch.testing.assert_close(distances[rest], of_moved[rest])
    assert of_moved[2] > distances[2] + 1


def test_fit__about_one_training_input_in_twenty_is_beyond_the_95th_percentile_of_a_normal_law():
    points, labels = (torch.from_numpy(part) for part in classes(2000, 3, 2))
    say, distances = Say.fit(points, labels, torch.arange(2000), torch.arange(2000) % 5)
    z = (distances - say.typical) / say.spread
    assert float((z > 1.645).double().mean()) == pytest.approx(0.05, abs=0.002)


def test_log_say__is_whole_near_a_class_and_falls_ever_faster_with_the_log_of_the_distance():
    deviations = torch.tensor([-5.0, 0.25, 1.25, 2.25, 20.25])
    for apart in (0.0, 0.5, 1.0):
        expected = [0, 0, *(-u * (apart**2 + u / 10) / 4 for u in (1, 2, 20))]
        np.testing.assert_allclose(log_say(deviations, apart).numpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("n", "m"), [(7, 5), (1, 9), (40, 40)])
def test_apartness__is_that_of_all_pairs(n, m):
    rng = np.random.RandomState(n)
    known, unknown = rng.randint(10, size=n), rng.randint(3, 13, size=m)  # with ties
    pairs = np.sign(unknown[:, None] - known)
    found = apartness(torch.from_numpy(known).double(), torch.from_numpy(unknown).double())
    assert found == pytest.approx(max(0, pairs.mean()))
    area = roc_auc_score(np.repeat([0, 1], [n, m]), np.concatenate([known, unknown]))
    assert found == pytest.approx(max(0, 2 * area - 1))


@pytest.mark.parametrize(("distance", "least", "most"), [(0, 0, 0.2), (1.5, 0.3, 0.9), (20, 1, 1)])
def test_fit__apartness_is_how_far_classes_lie_from_each_other(distance, least, most):
    rng = np.random.RandomState(0)
    labels = torch.arange(120) % 3
    points = torch.from_numpy(rng.normal(size=(120, 4)) + distance * np.eye(3, 4)[labels])
    say, _ = Say.fit(points, labels, torch.arange(120), torch.arange(120) % 5)
    assert least <= say.apartness <= most


def test_fit__a_single_class_lies_apart_from_none():
    points, labels = torch.randn(20, 3, generator=torch.Generator().manual_seed(0)), torch.zeros(20).long()
    say, _ = Say.fit(points, labels, torch.arange(20), torch.arange(20) % 5)
    assert say.apartness == 0


def test_log__of_images_is_that_of_their_rows():
    points, labels = (torch.from_numpy(part) for part in classes(40, 6, 2))
    say, _ = Say.fit(points, labels, torch.arange(40), torch.arange(40) % 5)
    of_images, _ = Say.fit(points.reshape(40, 2, 3), labels, torch.arange(40), torch.arange(40) % 5)
    torch.testing.assert_close(say.log(points + 1), of_images.log(points.reshape(40, 2, 3) + 1))
