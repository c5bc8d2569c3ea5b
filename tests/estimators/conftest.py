"""Data that several files of these tests share."""

import pytest

import models


@pytest.fixture(scope="module")
def noisy():
    """Two classes that overlap: 40 examples in three dimensions."""
    return models.noisy()


@pytest.fixture(scope="module")
def digits():
    """Sixty images (8, 8) of zeros and ones."""
    return models.digits()
