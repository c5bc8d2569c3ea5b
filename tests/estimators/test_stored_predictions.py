"""Predictions stored at toy size: a change of these numbers is a change of a model."""

import numpy as np
import pytest
from sklearn.datasets import load_iris

from models import make

# Probabilities of iris rows 0, 70 and 120 after 30 epochs on every fifth row.
STORED = {
    "PNCA": [[0.99801, 0.001, 0.00099], [0.00175, 0.91398, 0.08426], [0.00133, 0.00673, 0.99195]],
    "PNCA exact": [[0.98593, 0.00704, 0.00704], [0.02206, 0.83873, 0.13921], [0.01484, 0.01553, 0.96962]],
    "PNCA orthogonal": [[0.99396, 0.00604, 0.0], [0.01457, 0.91713, 0.0683], [0.0, 0.0, 1.0]],
    "NCA": [[1.0, 0.0, 0.0], [0.0, 0.96662, 0.03338], [0.0, 0.0, 1.0]],
    "DNN": [[0.94401, 0.04692, 0.00908], [0.02275, 0.4769, 0.50035], [0.0071, 0.26048, 0.73242]],
    "Ensemble": [[0.89568, 0.09269, 0.01163], [0.03653, 0.40512, 0.55836], [0.00998, 0.29681, 0.69321]],
    "BNN": [[0.86667, 0.10816, 0.02517], [0.04362, 0.40265, 0.55372], [0.01441, 0.30488, 0.68071]],
}


@pytest.mark.parametrize("name", STORED)
def test_predict_proba__equals_the_stored_numbers(name):
    X, y = load_iris(return_X_y=True)
    model = make(name).fit(X[::5], y[::5])
    # Training is in float32: another number of threads rounds otherwise, and Nadam amplifies it to 0.003.
    np.testing.assert_allclose(model.predict_proba(X[[0, 70, 120]]), STORED[name], atol=0.02)
