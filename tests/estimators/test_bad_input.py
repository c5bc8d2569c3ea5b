"""Bad input is answered by one clear sentence.

What all models check alike is asked of one neighbour model and one softmax model: their ``fit`` differ. Each
class declares its own parameters, so these are asked of all five classes.
"""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from torch import nn

from models import make
from pnca.exceptions import InvalidInputError

X = np.random.RandomState(0).normal(size=(20, 3))
Y = np.arange(20) % 2
CLASSES = ["PNCA", "NCA", "DNN", "Ensemble", "BNN"]

one_of_each_kind = pytest.mark.parametrize("name", ["PNCA", "DNN"])
neighbour_models = pytest.mark.parametrize("name", ["PNCA", "NCA"])


def with_value(value):
    changed = X.copy()
    changed[3, 1] = value
    return changed


@one_of_each_kind
@pytest.mark.parametrize(
    ("inputs", "labels", "message"),
    [
        (X, np.zeros(20), "at least 2 classes; all 20 belong to one class"),
        (X[:2], Y[:2], "at least 3 examples; got n_samples=2"),
        (np.where(np.arange(64).reshape(8, 8) == 9, np.nan, np.zeros((20, 8, 8))), Y, "contains NaN"),
        (with_value(np.inf), Y, "contains infinity"),
        (with_value(1e300), Y, "too large for dtype"),
        (X, Y[:7], "inconsistent numbers of samples"),
        (X[:, 0], Y, "Reshape your data"),
        (X, np.linspace(0, 1, 20), "Unknown label type: continuous"),
        (np.zeros((20, 2, 5, 7)), Y, r"shape \(2, 5, 7\) is not an image: .* 1, 3 or 4 channels. Reshape"),
        (np.zeros((20, 7, 5, 2)), Y, r"shape \(7, 5, 2\) is not an image"),
        (np.zeros((20, 1, 2, 5, 7)), Y, r"shape \(1, 2, 5, 7\) is not an image: .* rows of numbers"),
    ],
)
def test_fit__says_what_is_wrong_with_the_data(name, inputs, labels, message):
    with pytest.raises(ValueError, match=message):
        make(name, max_epochs=1).fit(inputs, labels)


@one_of_each_kind
def test_fit__a_module_takes_what_is_no_image(name):
    def module():
        return nn.Sequential(nn.Flatten(), nn.Linear(70, 3))

    for shape in [(2, 5, 7), (1, 2, 5, 7), (7, 5, 2)]:
        inputs = np.random.RandomState(0).normal(size=(20, *shape)).astype(np.float32)
        assert make(name, max_epochs=1, module=module).fit(inputs, Y).predict(inputs).shape == (20,)


@one_of_each_kind
@pytest.mark.parametrize("shape", [(3, 1), (1, 3), (3, 1, 1), (1, 3, 1)])
def test_fit__images_are_taken_as_they_are(name, shape):
    images = X.reshape(20, *shape)
    model = make(name, max_epochs=2).fit(images, Y)
    assert model.input_shape_ == shape
    assert model.predict_proba(images).shape == (20, 2)
    assert model.predict_proba(images.tolist()).shape == (20, 2)


@one_of_each_kind
def test_predict__inputs_of_another_shape_than_the_fit_are_refused(name):
    model = make(name, max_epochs=1).fit(np.random.RandomState(1).normal(size=(20, 3, 3)), Y)
    for wrong in (X, X[:, :, None], np.zeros((20, 4, 4))):  # the first two have three columns too
        with pytest.raises(InvalidInputError, match=r"fitted on inputs of shape \(3, 3\)"):
            model.predict(wrong)


@one_of_each_kind
@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("max_epochs", 0, "'max_epochs' parameter .* must be an int in the range"),
        ("learning_rate", -1.0, "'learning_rate' parameter .* range"),
        ("batch_size", 0, "'batch_size' parameter .* range"),
        ("device", "abacus", "device='abacus' cannot be used here"),
        ("module", "resnet", "'module' parameter .* must be a callable or None"),
        ("hidden_layer_sizes", (16.7,), "hidden_layer_sizes must hold positive whole numbers"),
        ("hidden_layer_sizes", (16, 0), "hidden_layer_sizes must hold positive whole numbers"),
        ("hidden_layer_sizes", 16, "'hidden_layer_sizes' parameter .* array-like"),
        ("class_weight", "heavy", "'class_weight' parameter .*'balanced'"),
        ("dropout", 1.0, "'dropout' parameter .* range"),
        ("augmentation", -1.0, "'augmentation' parameter .* range"),
        ("augmentation", 1.0, r"augmentation is for images.* pass image_shape=\(height, width\)"),
        ("image_shape", (2, 2), r"image_shape=\(2, 2\) has 4 numbers, but the inputs have 3"),
        ("image_shape", (3,), r"shape \(3,\) is not an image"),
    ],
)
def test_fit__says_what_is_wrong_with_a_setting(name, setting, value, message):
    with pytest.raises(ValueError, match=message):
        make(name, **{setting: value}).fit(X, Y)


@pytest.mark.parametrize(
    ("name", "setting", "value", "message"),
    [
        ("PNCA", "kernel", "cubic", "must be a str among {'.*', '.*'}. Got 'cubic'"),
        ("PNCA", "background", -0.1, "'background' parameter .* range"),
        ("PNCA", "background", "much", "'background' parameter .*'auto'"),
        ("PNCA", "input_weight", -0.1, "'input_weight' parameter .* range"),
        ("PNCA", "n_folds", 1, "'n_folds' parameter .* range"),
        ("PNCA", "scaling", "rows", "'scaling' parameter .*'columns'"),
        ("PNCA", "solver", "sgd", "'solver' parameter .*'adam'"),
        ("PNCA", "bandwidth", 0, "'bandwidth' parameter .* range"),
        ("PNCA", "n_particles", 0, "'n_particles' parameter .* range"),
        ("NCA", "n_components", 0, "'n_components' parameter .* range"),
        ("BNN", "prior_precision", -1.0, "'prior_precision' parameter .* range"),
        ("BNN", "update", "sgd", "must be a str among"),
    ],
)
def test_fit__says_what_is_wrong_with_a_setting_of_one_model(name, setting, value, message):
    with pytest.raises(ValueError, match=message):
        make(name, **{setting: value}).fit(X, Y)


@pytest.mark.parametrize("name", CLASSES)
def test_fit__every_parameter_of_every_class_is_checked(name):
    for setting in make(name).get_params():
        with pytest.raises(ValueError, match=f"The '{setting}' parameter of {name}Classifier must be"):
            make(name, **{setting: object()}).fit(X, Y)


@pytest.mark.parametrize("name", CLASSES)
def test_constructor__unknown_option_is_an_error(name):
    with pytest.raises(TypeError, match="learning_rat"):
        make(name, learning_rat=0.1)


@one_of_each_kind
def test_predict__wrong_number_of_features(name):
    model = make(name, max_epochs=1).fit(X, Y)
    with pytest.raises(ValueError, match=r"X has 2 features, but .* is expecting 3"):
        model.predict(X[:, :2])


# Each kernel gives the single example's class its mass in another way.
@pytest.mark.parametrize("name", ["PNCA", "PNCA orthogonal", "PNCA positive", "NCA"])
def test_fit__class_with_one_example_is_kept_with_a_warning(name):
    labels = np.array(["often"] * 19 + ["once"])
    inputs = X.copy()
    inputs[-1] += 20
    with pytest.warns(UserWarning, match="Only one example of class 'once'"):
        model = make(name).fit(inputs, labels)
    assert np.isfinite(model.history_["loss"]).all()
    assert model.predict(inputs[-1:]).tolist() == ["once"]


@pytest.mark.parametrize("name", ["DNN", "BNN"])
def test_fit__class_with_one_example_is_ordinary_for_softmax_models(name):
    model = make(name).fit(X, np.array(["often"] * 19 + ["once"]))
    assert np.isfinite(model.predict_log_proba(X)).all()


@neighbour_models
def test_fit__classes_of_one_example_each_cannot_be_learnt(name):
    with pytest.raises(ValueError, match="Every class has a single example"):
        make(name).fit(X[:4], [0, 1, 2, 3])


@neighbour_models
def test_fit__more_classes_than_a_batch_can_pair(name):
    with pytest.raises(ValueError, match="batch_size >= 10"):
        make(name, batch_size=6).fit(X, np.arange(20) % 5)


@pytest.mark.parametrize("name", ["DNN", "BNN"])
def test_fit__more_classes_than_examples_in_a_batch_is_ordinary_for_softmax_models(name):
    model = make(name, batch_size=3, max_epochs=2).fit(X, np.arange(20) % 5)
    assert model.predict_proba(X).shape == (20, 5)


# The solvers and updates differ. Where there is a background mass and expectation="shared", what diverges has
# no mass and a finite loss: that is warned of instead.
@pytest.mark.parametrize("name", ["PNCA cross", "PNCA orthogonal", "NCA", "DNN", "BNN"])
def test_fit__divergence_is_reported_and_not_returned_as_nan(name):
    with pytest.raises(ArithmeticError, match="lower learning_rate, or scale the inputs"):
        make(name, learning_rate=1e30, max_epochs=50).fit(X * 1e15, Y)


@pytest.mark.parametrize("name", ["DNN", "BNN", "NCA"])
def test_fit__divergence_in_the_last_step_is_reported_too(name):
    with pytest.raises(ArithmeticError, match="parameters became infinite or NaN"):
        make(name, learning_rate=1e38, max_epochs=1, hidden_layer_sizes=(4,)).fit(X * 100, Y)


@one_of_each_kind
def test_fit__failure_leaves_an_unfitted_model_and_not_half_of_an_earlier_one(name):
    model = make(name, max_epochs=1).fit(X, Y)
    with pytest.raises(ValueError, match="one class"):
        model.fit(X, np.zeros(20))
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_fit__inputs_far_too_large_to_learn_from_are_reported():
    # All kernel mass underflows and the background alone decides: finite, but nothing is learnt.
    with pytest.warns(ConvergenceWarning) as warned:
        make("PNCA exact", max_epochs=50).fit(X * 1e15, Y)
    messages = [str(warning.message) for warning in warned]
    assert "did not fall in 50 epochs" in messages[0]
    assert "100% of the training examples" in messages[1]
    assert all("cale the inputs" in message for message in messages)


def test_fit__the_default_model_learns_from_inputs_of_any_size():
    labels = np.arange(20) % 2
    inputs = (X + 4 * labels[:, None]) * 1e15
    assert make("PNCA").fit(inputs, labels).score(inputs, labels) > 0.9  # warnings are errors here


@neighbour_models
@pytest.mark.parametrize("n_groups", [7, 21])
def test_fit__groups_of_another_length_are_refused(name, n_groups):
    with pytest.raises(InvalidInputError, match=f"groups has {n_groups} entries, but there are 20 examples"):
        make(name, max_epochs=1).fit(X, Y, groups=np.arange(n_groups))


def test_fit__groups_of_several_columns_are_refused():
    with pytest.raises(InvalidInputError, match=r"groups must have one entry .* shape is \(20, 2\)"):
        make("PNCA", max_epochs=1).fit(X, Y, groups=np.zeros((20, 2)))


def test_fit__folds_of_one_group_are_refused():
    with pytest.raises(InvalidInputError, match=r"All examples are of one group.* leave groups out"):
        make("PNCA", max_epochs=1).fit(X, Y, groups=np.zeros(20))


@pytest.mark.parametrize("k", [0, 21, 2.5, "all"])
def test_neighbors__k_out_of_range(k):
    model = make("PNCA", max_epochs=1).fit(X, Y)
    with pytest.raises(ValueError, match="whole number from 1 to 20"):
        model.neighbors(X, k)


@pytest.mark.parametrize("labels", [[0, "a"] * 10, np.array([0, "a"] * 10, dtype=object)])
def test_fit__labels_of_mixed_types_are_refused(labels):
    with pytest.raises(InvalidInputError, match=r"y has labels of several types \(int and str\)"):
        make("PNCA").fit(X, labels)
