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
def test_fit__dates_in_arrays_are_no_numbers(name, missing):
    days = np.array(["2026-01-01"] * 20, dtype="datetime64[D]")
    days[0] = np.datetime64("NaT", "D") if missing else days[0]
    with pytest.raises(InvalidInputError, match="X holds dates or durations"):
        make(name, max_epochs=1).fit(days[:, None], Y)
    # Of a table they are days.
    table = pd.DataFrame({"day": days.astype("datetime64[s]"), "x": X[:, 0]})
    assert make(name, max_epochs=1).fit(table, Y).columns_[0].kind == "date"


@one_of_each_kind
@pytest.mark.parametrize("sizes", [{4}, {4: 1}, np.array(4), [[2, 2]]])
def test_hidden_layer_sizes__must_be_a_sequence(name, sizes):
    with pytest.raises(ValueError, match="hidden_layer_sizes"):
        make(name, max_epochs=1, hidden_layer_sizes=sizes).fit(X, Y)


@one_of_each_kind
def test_network__that_fits_into_no_memory_is_refused(name):
    with pytest.raises(InvalidInputError, match="parameters do not fit into memory"):
        make(name, max_epochs=1, hidden_layer_sizes=(2**62,)).fit(X, Y)


def test_numbers__of_any_type_are_taken_and_too_large_ones_refused():
    settings = {"n_folds": None, "n_particles": np.uint64(2), "max_epochs": np.int8(2), "batch_size": True}
    a = make("PNCA", **{**settings, "batch_size": None, "learning_rate": np.float32(0.5)}).fit(X, Y)
    b = make("PNCA", n_folds=None, n_particles=2, max_epochs=2, learning_rate=0.5).fit(X, Y)
    np.testing.assert_array_equal(a.particles_, b.particles_)
    assert make("DNN", max_epochs=True, batch_size=True).fit(X, Y).n_iter_ == 1
    with pytest.raises(InvalidInputError, match="prior_precision is too large"):
        make("BNN", max_epochs=1, prior_precision=10**400).fit(X, Y)
    with pytest.raises(InvalidInputError, match="class_weight must hold positive, finite"):
        make("DNN", max_epochs=1, class_weight={"sick": 10**400, "well": 1}).fit(X, Y)


@one_of_each_kind
def test_labels__no_two_become_one(name):
    names = [2**53 + k % 2 for k in range(20)]
    assert make(name, max_epochs=1).fit(X, names).classes_.tolist() == [2**53, 2**53 + 1]
    merged = [0.0, *names[1:]]  # numpy makes all of them floats
    with pytest.raises(InvalidInputError, match="make them of one type"):
        make(name, max_epochs=1).fit(X, merged)
    with pytest.raises(InvalidInputError, match="y holds floats so large"):
        make(name, max_epochs=1).fit(X, np.array(merged))


def test_groups__of_several_types_are_told_apart():
    a, b = (
        make("PNCA", max_epochs=2).fit(X, Y, groups=groups)
        for groups in ([1, "1"] * 5 + list(range(2, 12)), ["1 ", "1"] * 5 + list(map(str, range(2, 12))))
    )
    assert sorted(set(a.folds_[:2])) == sorted(set(b.folds_[:2]))
    assert len(set(a.folds_[:10:2])) == len(set(a.folds_[1:10:2])) == 1


@one_of_each_kind
def test_sparse_tensors__are_refused(name):
    with pytest.raises(InvalidInputError, match=r"pass tensor\.to_dense"):
        make(name, max_epochs=1).fit(torch.from_numpy(X).to_sparse(), Y)


def failing():
    raise OSError("no such weights")


class Refusing(torch.nn.Linear):
    def forward(self, x):
        raise KeyError("x")


class Empty(torch.nn.Linear):
    def forward(self, x):
        return super().forward(x)[:, :0]


@one_of_each_kind
@pytest.mark.parametrize(
    ("module", "message"),
    [
        (failing, r"module\(\) failed, OSError: no such weights"),
        (torch.nn.Linear, r"module\(\) failed, TypeError"),
        (lambda: Refusing(3, 2), r"module cannot take inputs of shape \(3,\): KeyError: 'x'"),
        (lambda: Empty(3, 2), r"module must turn 2 inputs into a tensor of shape \(2, d\)"),
    ],
)
def test_module__that_fails_is_refused_with_its_error(name, module, message):
    with pytest.raises(InvalidInputError, match=message):
        make(name, max_epochs=1, module=module).fit(X, Y)


def test_module__that_takes_two_rows_for_two_channels_is_refused():
    def convolution():
        return torch.nn.Sequential(torch.nn.Conv2d(2, 2, 1), torch.nn.Flatten())

    with pytest.raises(InvalidInputError, match=r"module cannot take inputs of shape \(1, 4\)"):
        make("DNN", max_epochs=1, module=convolution).fit(np.zeros((20, 1, 4)), Y)


def test_module__queries_that_overflow_it_are_named_and_others_are_far_away():
    model = make("PNCA", max_epochs=1, module=lambda: torch.nn.Linear(3, 2)).fit(X, Y)
    assert np.isfinite(model.predict_proba(np.full((1, 3), 1e25))).all()
    with pytest.raises(InvalidInputError, match="outputs for the input in row 1 are not finite"):
        model.predict_proba(np.array([[0, 0, 0], [3e38, 3e38, 3e38], [1, 1, 1]]))


@pytest.mark.parametrize("name", ["NCA", "PNCA orthogonal"])
def test_neighbours__far_away_without_a_background_share_one(name):
    model = make(name, max_epochs=1).fit(X, Y)
    for far in (1e6, 1e15, 1e30):
        _, shares = model.neighbors(np.full((1, 3), far))
        assert shares.sum() == pytest.approx(1)
        assert model.uncertainty(np.full((1, 3), far)).total[0] <= np.log(2) + 1e-9


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
