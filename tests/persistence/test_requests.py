"""What was asked of metadata routing, as plain values."""

import pytest
import sklearn
from sklearn.preprocessing import StandardScaler

from pnca import PNCAClassifier
from pnca.persistence.encoding import MalformedError
from pnca.persistence.requests import NAME, requests_of, set_requests


def test_requests__are_those_that_were_set():
    with sklearn.config_context(enable_metadata_routing=True):
        model = PNCAClassifier().set_fit_request(groups="patient", ids=True, sample_weight=True)
        model.set_score_request(sample_weight=False)
    found = requests_of(model)
    assert found["fit"] == {"groups": "patient", "ids": True, "sample_weight": True}
    assert found["score"] == {"sample_weight": False}
    other = PNCAClassifier()
    assert NAME not in vars(other)
    set_requests(other, found)
    assert requests_of(other) == found


@pytest.mark.parametrize(
    "found",
    [
        {"get_params": {"groups": True}},
        {"fit": {"nothing": True}},
        {"fit": {"sample_weight": "no name"}},
        {"fit": [1]},
        {"predict": {"groups": True}},
        3,
    ],
)
def test_requests__that_could_not_have_been_set_are_refused(found):
    with pytest.raises(MalformedError):
        set_requests(StandardScaler(), found)
