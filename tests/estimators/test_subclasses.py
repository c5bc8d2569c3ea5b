"""What users build on the classifiers: subclasses with other parameters, and pickles."""

import pickle

import numpy as np
import pytest

import pnca
from models import make
from pnca.exceptions import InvalidInputError


class Small(pnca.PNCAClassifier):
    """Fewer parameters than its base."""

    def __init__(self, *, random_state=None):
        super().__init__(n_particles=3, hidden_layer_sizes=(8,), max_epochs=3, random_state=random_state)


class Extra(pnca.DNNClassifier):
    """One parameter more than its base."""

    def __init__(self, *, colour="red", max_epochs=3, random_state=None):
        super().__init__(max_epochs=max_epochs, random_state=random_state)
        self.colour = colour


def test_subclass__with_fewer_parameters_is_the_model_it_says(blobs):
    settings = {"n_particles": 3, "hidden_layer_sizes": (8,), "max_epochs": 3, "random_state": 0}
    found, expected = Small(random_state=0).fit(*blobs), pnca.PNCAClassifier(**settings).fit(*blobs)
    assert found.particles_.shape[0] == 3
    np.testing.assert_array_equal(found.particles_, expected.particles_)


def test_subclass__with_more_parameters_can_be_fitted_and_resumed(blobs, tmp_path):
    with pnca.checkpoints(tmp_path):
        model = Extra(colour="blue", random_state=0).fit(*blobs)
    assert model.n_iter_ == 3
    assert model.get_params()["colour"] == "blue"


@pytest.mark.parametrize("name", ["PNCA", "PNCA positive", "NCA", "Ensemble"])
def test_pickle__holds_every_array_once_and_gives_all_attributes_back(name, blobs):
    model = make(name, max_epochs=2).fit(*blobs)
    written = pickle.dumps(model)
    again = pickle.loads(written)
    assert vars(again).keys() == vars(model).keys()
    np.testing.assert_array_equal(again.predict_proba(blobs[0]), model.predict_proba(blobs[0]))
    large = make(name, max_epochs=2, hidden_layer_sizes=(500,)).fit(*blobs)
    assert len(pickle.dumps(large)) < 1.2 * large.particles_.nbytes + 2 * len(written)


def test_pickle__of_an_unfitted_model_is_unfitted():
    model = pickle.loads(pickle.dumps(make("PNCA", n_particles=7)))
    assert model.n_particles == 7
    assert not model.__sklearn_is_fitted__()


def test_pickle__of_a_model_fitted_by_version_01_is_refused():
    model = make("PNCA")
    with pytest.raises(InvalidInputError, match=r"pickled by pnca 0\.1.*fit it again"):
        model.__setstate__({**vars(model), "n_iter_": 3, "particles_": np.zeros((1, 1))})


def test_warning__of_a_class_with_one_example_points_at_the_caller(blobs):
    X, y = blobs[0][:10], np.r_[np.arange(9) % 2, 2]
    with pytest.warns(UserWarning, match="Only one example of class 2") as caught:
        make("PNCA", max_epochs=1).fit(X, y)
    assert caught[0].filename == __file__
