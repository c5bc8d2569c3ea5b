"""Odd sequences of calls, settings of torch and kinds of input that the random cases do not draw."""

import contextlib
import datetime

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import NotFittedError
from torch import nn

import pnca
from models import make
from pnca.calibration import apply_temperature
from pnca.evaluation import ood_auroc
from pnca.exceptions import InvalidInputError
from pnca.training.loop import Run

X = np.random.RandomState(0).normal(size=(24, 5))
Y = np.arange(24) % 3
QUICK = {"max_epochs": 3, "hidden_layer_sizes": (4,)}


def small(name="PNCA", **settings):
    return make(name, **{**QUICK, **settings})


@pytest.mark.parametrize("wrong", [{"max_epochs": 0}, {"bandwidth": -1.0}])
def test_fit__that_fails_leaves_no_earlier_model(wrong):
    model = small().fit(X, Y)
    with pytest.raises(ValueError, match=next(iter(wrong))):
        model.set_params(**wrong).fit(X, Y)
    with pytest.raises(NotFittedError):
        model.predict(X)


# Labels


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ([1, "1", 2], r"several types \(int and str\): make them of one type"),
        (["a", "a\0", "b"], "3 labels .* make 2: make them of one type"),
        ([2**53, 2**53 + 1, 0.5], "3 labels .* make 2: make them of one type"),
    ],
)
def test_labels__that_numpy_would_merge_are_refused(labels, told):
    with pytest.raises(InvalidInputError, match=told):
        small().fit(X, labels * 8)


def test_labels__in_a_tensor_are_taken():
    assert small().fit(X, torch.from_numpy(Y)).classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
def test_labels__that_are_missing_are_counted(missing):
    for y in ([missing, *"abc" * 7, "a", "b"], pd.Series([missing, *"abc" * 7, "a", "b"], dtype=object)):
        with pytest.raises(InvalidInputError, match="y is missing for 1 examples, the first in row 0"):
            small().fit(X, y)


@pytest.mark.parametrize("weights", [{0: "a"}, {0: 1j}, {0: 1e308, 1: 1e308, 2: 1e308}, {0: 10**400}])
def test_class_weight__of_no_use_is_named(weights):
    with pytest.raises(InvalidInputError, match="class_weight"):
        small(class_weight=weights).fit(X, Y)


# Inputs


@pytest.mark.parametrize(
    "day", [np.datetime64("2020-01-01"), np.timedelta64(1, "D"), datetime.date(2020, 1, 1), pd.Timestamp(0)]
)
def test_dates__in_lists_and_objects_are_refused(day):
    for dates in ([[day] * 5] * 24, np.full((24, 5), day, dtype=object)):
        with pytest.raises(InvalidInputError, match="dates or durations"):
            small().fit(dates, Y)


def test_masked_arrays__are_refused():
    with pytest.raises(InvalidInputError, match="Masked arrays"):
        small().fit(np.ma.masked_array(X, X > 1), Y)
    with pytest.raises(InvalidInputError, match="Masked arrays"):
        small().fit(X, Y).predict(np.ma.masked_array(X, X > 1))
    with pytest.raises(InvalidInputError, match="groups is a masked array"):
        small().fit(X, Y, groups=np.ma.masked_array(np.arange(24), X[:, 0] > 1))
    with pytest.raises(InvalidInputError, match=r"scores.*masked arrays"):
        ood_auroc(np.ma.masked_array(X[:, 0], X[:, 0] > 1), X[:, 1])


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.float64])
def test_inputs__without_numbers_are_refused(dtype):
    with pytest.raises(InvalidInputError, match=r"shape \(0, 5\), which hold no numbers"):
        small().fit(np.zeros((24, 0, 5), dtype=dtype), Y)


def test_numbers__beyond_all_floats_are_refused():
    with pytest.raises(InvalidInputError, match="too large"):
        small().fit([[10**400] * 5] * 24, Y)


def test_series__as_inputs_is_told_to_be_a_table():
    model = small().fit(X, Y)
    with pytest.raises(InvalidInputError, match=r"X is a pandas Series: pass a table"):
        model.predict(pd.DataFrame(X).iloc[0])


def nanoseconds(step):
    return 1_700_000_000_000_000_000 + step * np.arange(24)


@pytest.mark.filterwarnings("ignore:Column 0 looks like a number of the rows")
def test_whole_numbers__that_float64_cannot_tell_apart_are_named():
    column = nanoseconds(3)
    for table in (
        np.c_[np.arange(24), column],
        pd.DataFrame({"a": X[:, 0], "t": column}),
        torch.from_numpy(np.c_[np.arange(24), column]),
    ):
        with pytest.warns(UserWarning, match=r"column 1 .* float64 cannot tell apart") as caught:
            small().fit(table, Y)
        assert caught[0].filename == __file__


@pytest.mark.filterwarnings("ignore:Column . looks like a number of the rows")
def test_whole_numbers__that_float64_tells_apart_are_not_warned_of():
    small(scaling="columns").fit(np.c_[np.arange(24), nanoseconds(10**9)], Y)


@pytest.mark.parametrize(
    "tensor", [torch.zeros(3, 5, device="meta"), torch.zeros(3, 5).to(torch.float8_e4m3fn)], ids=str
)
def test_tensors__that_hold_no_numbers_for_numpy_are_refused(tensor):
    model = small().fit(X, Y)
    with pytest.raises(InvalidInputError, match="cannot be read"):
        model.predict(tensor)


# Settings of torch


@pytest.fixture
def double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


CASES = {
    "PNCA": {},
    "positive": {"kernel": "positive"},
    "orthogonal": {"kernel": "orthogonal", "expectation": "cross"},
    "functional": {"update": "functional", "solver": "nadam"},
}


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("name", ["NCA", "DNN", "BNN", "Ensemble"])
def test_default_type__of_torch_does_not_matter(name):
    in_double = small(name).fit(X, Y).predict_proba(X)
    torch.set_default_dtype(torch.float32)
    assert np.array_equal(in_double, small(name).fit(X, Y).predict_proba(X))


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("case", CASES)
def test_default_type__of_torch_does_not_matter_to_pnca(case):
    found = small(**CASES[case]).fit(X, Y).predict_proba(X)
    torch.set_default_dtype(torch.float32)
    np.testing.assert_allclose(found, small(**CASES[case]).fit(X, Y).predict_proba(X), atol=1e-6)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("name", ["PNCA", "DNN"])
def test_default_type__of_torch_is_that_in_which_a_module_is_drawn(name):
    model = make(name, max_epochs=3, module=lambda: nn.Linear(5, 3)).fit(X, Y)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


def test_inference_mode__and_no_grad_do_not_matter():
    expected = small().fit(X, Y).predict_proba(X)
    for setting in (torch.inference_mode, torch.no_grad):
        with setting():
            assert np.array_equal(small().fit(X, Y).predict_proba(X), expected)


def test_device__of_no_kind_is_refused_in_predictions_too():
    model = small().fit(X, Y).set_params(device=None)
    with pytest.raises(InvalidInputError, match="device=None cannot be used"):
        model.predict(X)


# Modules


class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(5, 3)

    def forward(self, x):
        return self.layer(x)


class WritesItsInput(Linear):
    def forward(self, x):
        x += 1
        return self.layer(x)


class Asks(Linear):
    def forward(self, x):
        outputs = self.layer(x)
        return outputs if outputs.sum().item() > 0 else -outputs


class Detached(Linear):
    def forward(self, x):
        return self.layer(x).detach()


class Counts(Linear):
    def forward(self, x):
        return self.layer(x).round().int()


@pytest.mark.parametrize("name", ["PNCA", "DNN"])
def test_module__that_writes_into_its_input_leaves_the_data_alone(name):
    inputs = X.astype(np.float32)
    model = make(name, max_epochs=3, module=WritesItsInput).fit(inputs, Y)
    first = model.predict_proba(inputs)
    assert np.array_equal(inputs, X.astype(np.float32))
    assert np.array_equal(model.predict_proba(inputs), first)


@pytest.mark.parametrize(
    ("name", "module", "match"),
    [
        ("PNCA", Asks, "vmap"),
        ("DNN", Asks, "vmap"),
        ("PNCA", Detached, "do not depend on its parameters"),
        ("PNCA", Counts, "must give floats"),
    ],
)
def test_module__that_cannot_be_trained_is_refused(name, module, match):
    with pytest.raises(InvalidInputError, match=match):
        make(name, max_epochs=2, module=module).fit(X, Y)


class KilledError(Exception):
    pass


def resumed(first, second, folder):
    with contextlib.suppress(KilledError), pnca.checkpoints(folder, every=1):
        make("PNCA", max_epochs=3, module=first).fit(X, Y)
        raise KilledError
    with pnca.checkpoints(folder, every=1):
        return make("PNCA", max_epochs=3, module=second).fit(X, Y)


class Doubled(Linear):
    def forward(self, x):
        return 2 * self.layer(x)


class Tripled(Linear):
    def forward(self, x):
        return 3 * self.layer(x)


class Times(Linear):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x):
        return self.factor * self.layer(x)


class Within(Linear):
    def forward(self, x):
        return sum(self.layer(x) * k for k in (1, 2))


class WithinOther(Linear):
    def forward(self, x):
        return sum(self.layer(x) / k for k in (1, 2))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda: nn.Sequential(Linear(), nn.ReLU()), lambda: nn.Sequential(Linear(), nn.Tanh())),
        (lambda: nn.Sequential(Linear(), nn.Dropout(0.1)), lambda: nn.Sequential(Linear(), nn.Dropout(0.9))),
        (Linear, Doubled),
        (Doubled, Tripled),
        (lambda: Times(2.0), lambda: Times(3.0)),
        (Within, WithinOther),
    ],
)
def test_checkpoint__of_another_module_is_refused(first, second, tmp_path):
    with pytest.raises(InvalidInputError, match="another fit; it differs in module"):
        resumed(first, second, tmp_path)


def test_checkpoint__of_the_same_module_is_resumed(tmp_path):
    found = resumed(Doubled, Doubled, tmp_path).predict_proba(X)
    assert np.array_equal(found, make("PNCA", max_epochs=3, module=Doubled).fit(X, Y).predict_proba(X))


@pytest.mark.parametrize("folder", [None, 3, b"folder", "a\0b", ["folder"]])
def test_checkpoints__folder_that_has_no_name_is_refused(folder):
    with pytest.raises(InvalidInputError, match="folder must be the name"), pnca.checkpoints(folder):
        pass


# Attributes


def test_out_of_fold__attributes_that_are_absent_say_why():
    model = small(n_folds=None).fit(X, Y)
    assert not hasattr(model, "oof_proba_")
    with pytest.raises(
        AttributeError, match="nothing was chosen out of fold, with n_folds=None or after Ctrl-C"
    ):
        model.oof_evidence_  # noqa: B018
    with pytest.raises(AttributeError, match=r"has no attribute 'oof_evidence_'$"):
        small().oof_evidence_  # noqa: B018


@pytest.mark.parametrize("temperature", [0, 5e-324, 1e-301, 1e301, 10**400])
def test_temperature__at_which_numbers_overflow_is_refused(temperature):
    with pytest.raises(InvalidInputError, match="temperature is"):
        apply_temperature([[0.0, -1.0]], temperature)


class Terminated(KeyboardInterrupt):
    """What a handler of SIGTERM may raise."""


def test_interrupt__of_the_callers_kind_is_raised_as_it_is(monkeypatch):
    original = Run.advance

    def stopping(run):
        if run.n_epochs == 2:
            raise Terminated
        original(run)

    monkeypatch.setattr(Run, "advance", stopping)
    model = small()
    with pytest.raises(Terminated, match="after 2 of 3 epochs is kept"):
        model.fit(X, Y)
    assert model.was_interrupted_
