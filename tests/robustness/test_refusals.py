"""What cannot be right is refused in one sentence that names it; nothing is trained silently on it."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from models import make
from pnca.exceptions import InvalidInputError

X = np.random.RandomState(0).normal(size=(20, 3)).astype(np.float32)
Y = np.array(["sick", "well"])[np.arange(20) % 2]
CLASSES = ["PNCA", "NCA", "DNN", "Ensemble", "BNN"]

one_of_each_kind = pytest.mark.parametrize("name", ["PNCA", "DNN"])


@one_of_each_kind
@pytest.mark.parametrize("weight", [-1.0, 0.0, np.nan, np.inf])
def test_class_weight__that_is_none_is_refused_with_its_class(name, weight):
    model = make(name, max_epochs=1, class_weight={"sick": 1.0, "well": weight})
    with pytest.raises(InvalidInputError, match=rf"class_weight must hold positive.*'well': {weight}"):
        model.fit(X, Y)


@pytest.mark.parametrize("bandwidth", [0.0, 1e-300, 1e-9])
def test_bandwidth__that_no_two_embeddings_can_be_near_in_is_refused(bandwidth):
    with pytest.raises(ValueError, match=r"'bandwidth' parameter"):
        make("PNCA", max_epochs=1, bandwidth=bandwidth).fit(X, Y)


def test_bandwidth__the_smallest_that_is_taken_trains():
    model = make("PNCA", max_epochs=12, bandwidth=1e-6, n_folds=3)
    with pytest.warns(ConvergenceWarning, match="The loss did not fall|less kernel mass"):
        assert np.isfinite(model.fit(X, Y).predict_proba(X)).all()


@one_of_each_kind
def test_fit__inputs_without_numbers_are_refused(name):
    with pytest.raises(ValueError, match=r"hold no numbers|0 feature"):
        make(name, max_epochs=1, module=lambda: torch.nn.Flatten()).fit(np.zeros((20, 0, 5)), Y)


@one_of_each_kind
def test_predict__nested_lists_of_another_shape_are_refused(name):
    model = make(name, max_epochs=1).fit(np.zeros((20, 3, 4)) + X[:, :, None], Y)
    with pytest.raises(InvalidInputError, match=r"shape \(3, 5\), but .* fitted on inputs of shape \(3, 4\)"):
        model.predict(np.zeros((2, 3, 5)).tolist())
    with pytest.raises(ValueError, match=r"X has 4 features, but .* is expecting 3"):
        model.predict(np.zeros((2, 4, 3)).tolist())


@one_of_each_kind
@pytest.mark.parametrize("image_shape", [(-1, -3), (1.5, 2), (0, 3)])
def test_image_shape__must_hold_positive_whole_numbers(name, image_shape):
    with pytest.raises(InvalidInputError, match="image_shape must hold positive whole numbers"):
        make(name, max_epochs=1, image_shape=image_shape).fit(X, Y)


@one_of_each_kind
def test_device__without_numbers_is_refused(name):
    with pytest.raises(InvalidInputError, match="device='meta' cannot be used here"):
        make(name, max_epochs=1, device="meta").fit(X, Y)


@one_of_each_kind
def test_bfloat16__tensors_are_taken_as_the_numbers_they_are(name):
    rounded = torch.from_numpy(X).bfloat16()
    a, b = (make(name, max_epochs=2).fit(inputs, Y) for inputs in (rounded, rounded.float().numpy()))
    np.testing.assert_array_equal(a.predict_proba(rounded), b.predict_proba(rounded.float()))


@pytest.mark.parametrize(
    "groups",
    [
        np.r_[np.nan, np.arange(19.0)],
        [None, *range(19)],
        np.array(["NaT", *["2026-01-01"] * 19], dtype="datetime64[D]"),
        pd.Series([pd.NA, *map(str, range(19))], dtype="string"),
    ],
)
def test_groups__that_are_missing_are_refused(groups):
    with pytest.raises(InvalidInputError, match="groups is missing for 1 examples, the first in row 0"):
        make("PNCA", max_epochs=1).fit(X, Y, groups=groups)


@one_of_each_kind
@pytest.mark.parametrize("missing", [False, True])
def test_fit__dates_are_no_numbers(name, missing):
    days = np.array(["2026-01-01"] * 20, dtype="datetime64[D]")
    days[0] = np.datetime64("NaT", "D") if missing else days[0]
    for inputs in (days[:, None], pd.DataFrame({"day": days.astype("datetime64[s]"), "x": X[:, 0]})):
        with pytest.raises(InvalidInputError, match="X holds dates or durations"):
            make(name, max_epochs=1).fit(inputs, Y)


@pytest.mark.parametrize("name", CLASSES)
def test_notebook__can_show_a_fitted_model_in_and_out_of_a_pipeline(name):
    model = make(name, max_epochs=1).fit(X, Y)
    pipeline = make_pipeline(StandardScaler(), make(name, max_epochs=1)).fit(X, Y)
    for shown in (model, pipeline, pipeline[-1]):
        assert {"predict", "predict_proba"} <= set(dir(shown))
        assert type(model).__name__ in repr(shown)
        assert type(model).__name__ in shown._repr_html_()
        for attribute in dir(shown):
            getattr(shown, attribute, None)  # a property may be absent, and may not raise anything else
