"""What is loaded is what was saved; what cannot be saved is named; an earlier file is never lost."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.utils.validation import check_is_fitted
from torch import nn

import pnca
from conftest import needs_cuda
from models import ALL, digits, make, noisy
from pnca import files
from pnca.exceptions import CorruptDataError, InvalidInputError, MissingDataError
from pnca.persistence import container
from pnca.persistence.container import packed, unpacked
from robustness.fits import fitted
from robustness.small_fits import answers

X, Y = noisy()
TEXTS = np.array(["ash", "birch"])[Y]


def layers():
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.1), nn.Linear(4, 3))


def with_frozen():
    """A module with a random frozen layer and a buffer that is in no state dict."""
    module = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 3))
    module[0].requires_grad_(False)
    module[1].register_buffer("scale", nn.init.normal_(module[0].bias.detach().clone()), persistent=False)
    return module


def saved_and_loaded(model, folder, **others):
    return pnca.load(pnca.save(model, folder / "model.pnca"), **others)


def assert_same(found, model, X):
    """Two models say and hold the same, to the bit."""
    expected = answers(model, X)
    for name, values in answers(found, X).items():
        np.testing.assert_array_equal(values, expected[name], err_msg=name)
    assert vars(found).keys() == vars(model).keys()
    for name, value in vars(model).items():
        if isinstance(value, np.ndarray):
            assert getattr(found, name).dtype == value.dtype, name
            np.testing.assert_array_equal(getattr(found, name), value, err_msg=name)
        elif isinstance(value, (int, float, list, dict, tuple)) and name not in ("module", "device"):
            assert getattr(found, name) == value, name
    if hasattr(model, "decide") and hasattr(model, "oof_proba_"):
        decisions, others = (m.decide(X, max_error=0.2).__dict__ for m in (model, found))
        for name in ("label", "reason", "confidence", "familiarity"):
            np.testing.assert_array_equal(others[name], decisions[name], err_msg=name)
    check_is_fitted(found)
    assert repr(found) == repr(clone(model).set_params(device=found.device, module=found.module))


@pytest.mark.parametrize("data", [noisy, digits])
@pytest.mark.parametrize("name", ALL)
def test_model__comes_back_to_the_bit(name, data, tmp_path):
    inputs, labels = data()
    model = fitted(make(name, max_epochs=4), inputs, labels)
    assert_same(saved_and_loaded(model, tmp_path), model, inputs[:20] + 0.1)


CASES = {
    "default": (pnca.PNCAClassifier(max_epochs=3, random_state=0, device="cpu"), {}),
    "paper": (
        pnca.PNCAClassifier(
            **{**pnca.paper_settings("PNCA"), "n_particles": 2, "max_epochs": 3}, random_state=0, device="cpu"
        ),
        {},
    ),
    "groups": (make("PNCA pooled", max_epochs=3), {"groups": np.arange(40) // 4}),
    "class weights": (make("PNCA pooled", max_epochs=3, class_weight={"ash": 1.0, "birch": 3}), {}),
    "balanced": (make("Ensemble", max_epochs=3, class_weight="balanced"), {}),
    "positive": (make("PNCA positive", max_epochs=3, expectation="cross", n_folds=2), {}),
    "one expert": (make("PNCA", max_epochs=3, experts=["linear"]), {}),
    "as published": (make("BNN", max_epochs=3, update="as_published"), {}),
    "numpy's parameters": (make("NCA", max_epochs=np.int64(3), hidden_layer_sizes=np.array([4, 3])), {}),
    "no layers": (make("PNCA", max_epochs=3, hidden_layer_sizes=[], n_components=2), {}),
}


@pytest.mark.filterwarnings("ignore:The batch as a whole is unlike")  # the queries are
@pytest.mark.parametrize("case", CASES)
def test_model__of_other_options_comes_back_to_the_bit(case, tmp_path):
    made, others = CASES[case]
    model = clone(made).fit(X, TEXTS, **others)
    found = saved_and_loaded(model, tmp_path)
    assert_same(found, model, np.vstack([X[:10], 100 + X[:3]]))
    again = clone(found).fit(X, TEXTS, **others)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


LABELS = {
    "text": TEXTS,
    "long type": TEXTS.astype("<U30"),
    "objects": TEXTS.astype(object),
    "bytes": TEXTS.astype("S5"),
    "bools": Y == 1,
    "small integers": Y.astype(np.int8),
    "big-endian": Y.astype(">i4"),
    "floats": Y.astype(np.float32) / 2,
    "large": Y.astype(np.uint64) + 2**63,
    "days": np.array(["2020-01-01", "2021-01-01"], "M8[D]")[Y],
}


@pytest.mark.parametrize("case", LABELS)
def test_labels__keep_their_type(case, tmp_path):
    try:
        model = make("DNN", max_epochs=2).fit(X, LABELS[case])
    except (TypeError, ValueError):
        pytest.skip("scikit-learn takes no such labels")
    found = saved_and_loaded(model, tmp_path)
    assert found.classes_.dtype == model.classes_.dtype
    assert list(map(repr, found.classes_.tolist())) == list(map(repr, model.classes_.tolist()))
    assert found.predict(X).dtype == model.predict(X).dtype


def table(pd):
    rng = np.random.RandomState(0)
    frame = pd.DataFrame(
        {
            "size": np.where(np.arange(40) % 9 == 0, np.nan, X[:, 0]),
            "smoker": np.array(["no", "yes"])[rng.randint(2, size=40)],
            "ward": pd.Categorical(np.array(list("abcd"))[rng.randint(4, size=40)]),
            "seen": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.randint(900, size=40), unit="D"),
            "stay": pd.to_timedelta(rng.randint(90, size=40), unit="h"),
            "well": rng.randint(2, size=40) == 1,
            "age": pd.cut(rng.uniform(0, 90, size=40), 3),
            "code": rng.randint(3, size=40),
            "left out": np.full(40, np.nan),
        }
    )
    frame.loc[3, "ward"] = None
    return frame


@pytest.mark.parametrize("name", ["PNCA pooled", "DNN"])
@pytest.mark.filterwarnings("ignore:Not used", "ignore:X lacks")
def test_table__comes_back_with_its_columns(name, tmp_path):
    pd = pytest.importorskip("pandas")
    frame = table(pd)
    settings = {"categorical_features": ["code"]} if name == "PNCA pooled" else {}
    model = make(name, max_epochs=3, **settings).fit(frame, TEXTS)
    found = saved_and_loaded(model, tmp_path)
    query = frame.iloc[:9].copy()
    query.loc[0, "smoker"] = "sometimes"
    query.loc[1, "smoker"] = None
    assert_same(found, model, frame)
    np.testing.assert_array_equal(found.predict_proba(query), model.predict_proba(query))
    assert repr(found.columns_) == repr(model.columns_)
    assert found.columns_ == model.columns_


def test_names__of_features_come_back(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=["a", "b", "ü"])
    model = make("NCA", max_epochs=2).fit(frame, Y)
    found = saved_and_loaded(model, tmp_path)
    assert found.feature_names_in_.tolist() == ["a", "b", "ü"]
    assert found.feature_names_in_.dtype == model.feature_names_in_.dtype
    with pytest.raises(ValueError, match="feature names"):
        found.predict(frame.rename(columns={"a": "c"}))


def test_random_state__that_is_an_object_comes_back_as_it_was(tmp_path):
    model = make("DNN", max_epochs=2, random_state=np.random.RandomState(5)).fit(X, Y)
    found = saved_and_loaded(model, tmp_path)
    np.testing.assert_array_equal(
        found.fit(X, Y).predict_proba(X), model.fit(X, Y).predict_proba(X)
    )  # both went on from where it stood after the first fit


def test_interrupted_model__comes_back(tmp_path, monkeypatch):
    from pnca.training.loop import Run

    original = Run.advance

    def advance(run):
        original(run)
        if run.n_epochs == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Run, "advance", advance)
    model = make("PNCA pooled", max_epochs=9)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    found = saved_and_loaded(model, tmp_path)
    assert found.was_interrupted_ is True
    assert_same(found, model, X)


# --- modules ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["PNCA shared", "PNCA positive", "DNN"])
@pytest.mark.parametrize("builder", [layers, with_frozen])
def test_module__comes_back_with_its_builder(builder, name, tmp_path):
    model = make(name, module=builder, max_epochs=3).fit(X, Y)
    found = saved_and_loaded(model, tmp_path, module=builder)
    assert_same(found, model, X)
    assert found.module is builder
    clone(found).fit(X, Y)


def test_module__that_was_an_instance_comes_back_with_one(tmp_path):
    model = make("PNCA shared", module=with_frozen(), max_epochs=3).fit(X, Y)
    assert_same(saved_and_loaded(model, tmp_path, module=with_frozen()), model, X)


def test_module__is_asked_for_and_compared(tmp_path):
    path = pnca.save(make("DNN", module=layers, max_epochs=2).fit(X, Y), tmp_path / "a.pnca")
    with pytest.raises(InvalidInputError, match=r"a\.pnca: .* pass module="):
        pnca.load(path)
    wide = lambda: nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Dropout(0.1), nn.Linear(5, 3))  # noqa: E731
    with pytest.raises(InvalidInputError, match=r"it trains 0\.0\.weight \[5, 3\], where .* \[4, 3\]"):
        pnca.load(path, module=wide)
    with pytest.raises(InvalidInputError, match=r"a\.pnca: module is another one .* it trains"):
        pnca.load(path, module=with_frozen)
    with pytest.raises(InvalidInputError, match=r"a\.pnca: module\(\) must return"):
        pnca.load(path, module=lambda: 3)
    plain = pnca.save(make("DNN", max_epochs=2).fit(X, Y), tmp_path / "b.pnca")
    with pytest.raises(InvalidInputError, match=r"b\.pnca: .* leave out module"):
        pnca.load(plain, module=layers)


# --- what is refused --------------------------------------------------------------------------------------


class Other(pnca.DNNClassifier):
    pass


def test_model__that_cannot_be_saved_is_named(tmp_path):
    path = tmp_path / "model.pnca"
    with pytest.raises(InvalidInputError, match="This DNNClassifier is not fitted"):
        pnca.save(make("DNN"), path)
    with pytest.raises(InvalidInputError, match="Other cannot be saved"):
        pnca.save(Other(max_epochs=2).fit(X, Y), path)
    search = GridSearchCV(make("NCA", max_epochs=1), {}, cv=2).fit(X, Y)
    with pytest.raises(InvalidInputError, match="GridSearchCV cannot be saved: save its best_estimator_"):
        pnca.save(search, tmp_path / "model.pnca")
    with pytest.raises(InvalidInputError, match="dict cannot be saved"):
        pnca.save({}, path)
    model = make("DNN", max_epochs=2).fit(X, Y)
    model.notes_ = "mine"
    with pytest.raises(InvalidInputError, match=r"attribute 'notes_' .* delete it"):
        pnca.save(model, path)
    del model.notes_
    model.set_params(class_weight=object())
    with pytest.raises(
        InvalidInputError, match=r"The parameter 'class_weight' holds .* set_params\(class_weight="
    ):
        pnca.save(model, path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [None, 3, "", b"a", "a\0b"])
def test_path__that_is_none_is_refused(name):
    for call in (pnca.load, lambda path: pnca.save(make("DNN", max_epochs=1).fit(X, Y), path)):
        with pytest.raises(InvalidInputError, match="path must be the name of a file"):
            call(name)


def test_device__that_is_none_is_refused_before_the_file_is_read(tmp_path):
    for device in ("tpu9", None, 3):
        with pytest.raises(InvalidInputError, match="device"):
            pnca.load(tmp_path / "none.pnca", device=device)


def test_device__is_where_it_predicts_from_now_on(tmp_path):
    model = make("DNN", max_epochs=2, device="auto").fit(X, Y)
    assert saved_and_loaded(model, tmp_path).device == "cpu"
    assert pnca.load(tmp_path / "model.pnca", device="auto").device == "auto"


# --- files ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model():
    return make("DNN", max_epochs=2).fit(X, Y)


def test_file__that_exists_is_kept_unless_it_may_be_replaced(model, tmp_path):
    path = tmp_path / "model.pnca"
    path.write_text("mine")
    with pytest.raises(InvalidInputError, match=r"exists: .* overwrite=True"):
        pnca.save(model, path)
    assert path.read_text() == "mine"
    assert pnca.save(model, str(path), overwrite=True) == path
    pnca.load(str(path))
    (tmp_path / "link.pnca").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InvalidInputError, match="exists"):
        pnca.save(model, tmp_path / "link.pnca")


def test_folder__that_cannot_be_written_to_is_named(model, tmp_path):
    with pytest.raises(InvalidInputError, match=r"There is no folder .*none: make it"):
        pnca.save(model, tmp_path / "none" / "model.pnca")
    with pytest.raises(InvalidInputError, match="is a folder: name a file in it"):
        pnca.save(model, tmp_path, overwrite=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match="There is no folder"):
        pnca.save(model, tmp_path / "file" / "model.pnca")
    with pytest.raises(InvalidInputError, match="cannot be written"):
        pnca.save(model, tmp_path / ("x" * 300))
    with pytest.raises(MissingDataError, match="no model file"):
        pnca.load(tmp_path / "none.pnca")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EIO])
@pytest.mark.parametrize("step", ["write", "sync", "move"])
def test_save__that_fails_leaves_the_earlier_file_and_nothing_else(step, code, model, tmp_path, monkeypatch):
    path = pnca.save(model, tmp_path / "model.pnca")
    before = path.read_bytes()

    def fail(*args):
        raise OSError(code, os.strerror(code))

    where = {"write": (Path, "open"), "sync": (files.os, "fsync"), "move": (Path, "replace")}[step]
    monkeypatch.setattr(*where, fail)
    with pytest.raises(InvalidInputError, match=rf"model\.pnca cannot be written \({os.strerror(code)}\)"):
        pnca.save(model, path, overwrite=True)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(sys.platform == "win32", reason="no kill -9")
def test_save__that_is_killed_leaves_the_earlier_file(model, tmp_path):
    path = pnca.save(model, tmp_path / "model.pnca")
    before = path.read_bytes()
    code = f"""
import os, signal, pnca
from pnca import files
files.os.fsync = lambda number: os.kill(os.getpid(), signal.SIGKILL)
pnca.save(pnca.load({str(path)!r}), {str(path)!r}, overwrite=True)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    assert path.read_bytes() == before


def test_load__from_a_disk_that_fails_is_told(model, tmp_path, monkeypatch):
    path = pnca.save(model, tmp_path / "model.pnca")

    def fail(*args):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(container, "_manifest", fail)
    with pytest.raises(InvalidInputError, match=rf"model\.pnca cannot be read \({os.strerror(errno.EIO)}\)"):
        pnca.load(path)


@needs_cuda
@pytest.mark.parametrize("name", ["PNCA pooled", "PNCA orthogonal", "PNCA positive", "Ensemble"])
def test_model__of_a_gpu_answers_on_both_devices(name, tmp_path):
    model = make(name, max_epochs=3, device="cuda").fit(X, Y)
    path = pnca.save(model, tmp_path / "model.pnca")
    np.testing.assert_array_equal(pnca.load(path, device="cuda").predict_proba(X), model.predict_proba(X))
    on_cpu = model.set_params(device="cpu").predict_proba(X)
    np.testing.assert_array_equal(pnca.load(path).predict_proba(X), on_cpu)


def test_save__of_what_was_loaded_is_the_same_file(tmp_path):
    first = pnca.save(fitted(make("PNCA pooled", max_epochs=2), X, Y), tmp_path / "first.pnca")
    second = pnca.save(pnca.load(first), tmp_path / "second.pnca")
    assert first.read_bytes() == second.read_bytes()


def test_load__needs_no_pandas_and_no_pickle(tmp_path):
    path = pnca.save(fitted(make("PNCA pooled", max_epochs=2), X, Y), tmp_path / "model.pnca")
    code = f"""
import sys, pickle
sys.modules["pandas"] = None
def refuse(*args, **kwargs): raise AssertionError("a pickle was read")
pickle.load = pickle.loads = pickle.Unpickler = refuse
import pnca
print(pnca.load({str(path)!r}).predict([[0.0, 1.0, 2.0]]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_memory__of_a_vast_module_is_never_taken(tmp_path):
    """A forger asks for a trial of the module with inputs of a terabyte."""
    path = pnca.save(make("DNN", module=layers, max_epochs=2).fit(X, Y), tmp_path / "model.pnca")
    content = unpacked(path)
    about = {
        name: value for name, value in content.about.items() if name not in ("format", "parts", "digest")
    }
    inside = content.model["fitted"]["Fitted"]
    inside["input_shape"] = inside["network"]["StackedModule"]["sample"][1:] = [2**20, 2**20]
    path.write_bytes(b"".join(packed(content._replace(about=about))))
    with pytest.raises(CorruptDataError, match="a module of no inputs"):
        pnca.load(path, module=layers)
