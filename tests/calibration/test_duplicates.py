"""Pairs that are alike: what chance brings, what copies are, and how they connect."""

import numpy as np
import pytest

from pnca.calibration.duplicates import (
    clusters,
    intrinsic_dimension,
    largest_ratio,
    near_duplicates,
)


@pytest.mark.parametrize("dimension", [2, 5, 20])
def test_near_duplicates__chance_brings_hardly_any(dimension):
    found = [
        len(near_duplicates(np.random.RandomState(seed).normal(size=(120, dimension))).rows)
        for seed in range(40)
    ]
    assert sum(found) <= 6  # two are expected; more than six have probability below .005


@pytest.mark.parametrize("dimension", [3, 10, 40])
def test_near_duplicates__copies_with_little_noise_are_found(dimension):
    rng = np.random.RandomState(0)
    X = rng.normal(size=(150, dimension))
    X[[7, 90]] = X[[30, 31]] + 1e-4 * rng.normal(size=(2, dimension))
    found = near_duplicates(X)
    assert found.rows.tolist() == [[7, 30], [31, 90]]
    assert ((found.ratios > 0) & (found.ratios < 0.01)).all()


def test_near_duplicates__equal_rows_are_pairs_with_the_first():
    X = np.random.RandomState(0).normal(size=(30, 2))
    X[[4, 20, 29]] = X[9]
    found = near_duplicates(X)
    assert found.rows.tolist() == [[4, 9], [4, 20], [4, 29]]
    assert found.ratios.tolist() == [0, 0, 0]


def test_near_duplicates__of_few_or_coarse_rows_are_the_equal_ones():
    assert near_duplicates(np.array([[0.0], [1e-9], [5.0]])).rows.tolist() == []
    grid = np.stack(np.meshgrid(np.arange(6.0), np.arange(6.0)), axis=-1).reshape(-1, 2)
    assert near_duplicates(grid).rows.tolist() == []


def test_intrinsic_dimension__is_that_of_the_cloud():
    from sklearn.neighbors import NearestNeighbors

    for dimension in (1, 2, 4):
        points = np.random.RandomState(0).uniform(size=(2000, dimension))
        wide = np.hstack([points, points @ np.ones((dimension, 3))])  # a plane in more columns
        distances = NearestNeighbors(n_neighbors=3).fit(wide).kneighbors(wide)[0]
        assert intrinsic_dimension(distances[:, 1], distances[:, 2]) == pytest.approx(dimension, rel=0.12)


def test_largest_ratio__chance_is_as_derived():
    """The nearest of ten uniform points in a ball, the tenth on its edge, is as near as often as said."""
    rng, n, dimension = np.random.RandomState(0), 100, 2
    radii = np.sort(rng.uniform(size=(200_000, 10)) ** (1 / dimension), axis=1)
    ratios = radii[:, 0] / radii[:, -1]
    x = 0.05
    assert (ratios <= x).mean() == pytest.approx(9 * x**dimension, rel=0.05)
    assert largest_ratio(n, dimension) == pytest.approx((0.05 / (9 * n)) ** 0.5)
    assert largest_ratio(n, 500.0) == 0.25


def test_clusters__are_connected():
    found = clusters(np.array([[5, 6], [0, 3], [3, 6]]), 8)
    assert [rows.tolist() for rows in found] == [[0, 3, 5, 6]]
    assert clusters(np.empty((0, 2), dtype=int), 3) == []


def test_equal_rows__are_found_whatever_the_sign_of_zero():
    from pnca.calibration.duplicates import equal_rows

    others = np.array([[0.0, 1.0], [2.0, 3.0]])
    assert equal_rows(np.array([[2.0, 3.0], [-0.0, 1.0], [2.0, 3.1]]), others).tolist() == [1, 0, -1]
    assert equal_rows(others.reshape(2, 1, 2), others[:1].reshape(1, 1, 2)).tolist() == [0, -1]
