import numpy as np
import pytest

from pnca.exceptions import InvalidInputError
from pnca_studies.rivals import nearest_distance, pca_residual, scores


@pytest.fixture
def clouds():
    rng = np.random.default_rng(0)
    train, x = rng.normal(size=(40, 6)).astype(np.float32), rng.normal(size=(25, 6)).astype(np.float32)
    train.setflags(write=False)
    x.setflags(write=False)
    return train, x


def test_nearest_distance__matches_double_loop(clouds):
    train, x = clouds
    slow = [min(np.sqrt(sum((a - b) ** 2)) for b in train.astype(float)) for a in x.astype(float)]
    np.testing.assert_allclose(nearest_distance(train, x), slow, rtol=1e-12)


def test_nearest_distance__is_zero_at_training_inputs_and_exact_close_by(clouds):
    train = clouds[0].astype(float) + 1e4  # squares of 1e8 would cancel eight digits more than distances
    assert (nearest_distance(train, train) == 0).all()
    shift = np.array([1e-3, 0, 0, 0, 0, 0])
    np.testing.assert_allclose(nearest_distance(train, train + shift), 1e-3, rtol=1e-6)


def test_pca_residual__is_zero_in_the_span_and_the_distance_off_it():
    rng = np.random.default_rng(1)
    basis = np.linalg.qr(rng.normal(size=(10, 4)))[0].T  # (4, 10), orthonormal rows
    offset = rng.normal(size=10)
    train = rng.normal(size=(50, 3)) @ basis[:3] + offset
    inside = 7 * rng.normal(size=(8, 3)) @ basis[:3] + offset
    np.testing.assert_allclose(pca_residual(train, inside, n_components=3), 0, atol=1e-12)
    heights = np.arange(8.0)
    outside = inside + heights[:, None] * basis[3]
    np.testing.assert_allclose(pca_residual(train, outside, n_components=3), heights, atol=1e-12)


def test_pca_residual__matches_scikit_learn(clouds):
    from sklearn.decomposition import PCA

    train, x = clouds
    pca = PCA(2, svd_solver="full").fit(train.astype(float))
    expected = np.linalg.norm(x - pca.inverse_transform(pca.transform(x.astype(float))), axis=1)
    np.testing.assert_allclose(pca_residual(train, x, n_components=2), expected, rtol=1e-9)


@pytest.mark.parametrize("shape", [(40, 6), (6, 40)])
def test_pca_residual__uses_at_most_half_of_the_components(shape):
    rng = np.random.default_rng(2)
    train, x = rng.normal(size=shape), rng.normal(size=(5, shape[1]))
    limited = pca_residual(train, x, n_components=30)
    np.testing.assert_array_equal(limited, pca_residual(train, x, n_components=3))
    assert (limited > 0.1).all()
    assert (pca_residual(train, train) > 0.1).mean() > 0.9


@pytest.mark.parametrize("score", [nearest_distance, pca_residual])
def test_score__does_not_depend_on_chunks(score, clouds, monkeypatch):
    whole = score(*clouds)
    monkeypatch.setattr(scores, "CHUNK_NUMBERS", 150)
    np.testing.assert_allclose(score(*clouds), whole, rtol=1e-9)
    assert whole.shape == (25,)
    assert whole.dtype == np.float64


@pytest.mark.parametrize("score", [nearest_distance, pca_residual])
def test_score__bad_input_is_refused(score):
    for train, x in [
        (np.zeros(3), np.zeros((1, 3))),
        (np.zeros((2, 3)), np.zeros((1, 2))),
        (np.zeros((0, 3)),) * 2,
    ]:
        with pytest.raises(InvalidInputError, match="same columns"):
            score(train, x)
    with pytest.raises(InvalidInputError, match="n_components is 0"):
        pca_residual(np.zeros((2, 3)), np.zeros((1, 3)), n_components=0)
