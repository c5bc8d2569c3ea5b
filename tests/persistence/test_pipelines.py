import json

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.exceptions import InconsistentVersionWarning
from sklearn.feature_selection import SelectKBest, VarianceThreshold, chi2, f_classif, mutual_info_classif
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

import pnca
from models import make, noisy
from pnca.exceptions import CorruptDataError, InvalidInputError
from pnca.persistence.container import Content, packed, unpacked

_, Y = noisy()
RNG = np.random.RandomState(0)
X = RNG.uniform(size=(40, 5)) + Y[:, None] / 2
HOLED = np.where(RNG.uniform(size=X.shape) < 0.1, np.nan, X)
WORDS = np.array(list("abc"), dtype=object)[RNG.randint(3, size=(40, 2))]

STEPS = {
    "StandardScaler": (StandardScaler(), X),
    "MinMaxScaler": (MinMaxScaler(feature_range=(-1, 1)), X),
    "RobustScaler": (RobustScaler(), X),
    "SimpleImputer": (SimpleImputer(strategy="median", add_indicator=True), HOLED),
    "PCA": (PCA(2, whiten=True), X),
    "OneHotEncoder": (OneHotEncoder(sparse_output=False, dtype=np.float32, min_frequency=15), WORDS),
    "OrdinalEncoder": (OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1), WORDS),
    "PowerTransformer": (PowerTransformer(), X),
    "QuantileTransformer": (QuantileTransformer(n_quantiles=10, random_state=0), X),
    "VarianceThreshold": (VarianceThreshold(), X),
    "SelectKBest": (SelectKBest(k=2), X),
    "chi2": (SelectKBest(chi2, k=2), X),
    "mutual information": (SelectKBest(mutual_info_classif, k=2), X),
    "FunctionTransformer": (FunctionTransformer(), X),
    "nested": (make_pipeline(RobustScaler(), PCA(3)), X),
    "passthrough": ("passthrough", X),
    "columns": (
        ColumnTransformer(
            [
                ("scaled", make_pipeline(SimpleImputer(), StandardScaler()), [0, 1]),
                ("as it is", "passthrough", [2]),
            ],
            remainder=MinMaxScaler(),
        ),
        np.where(np.arange(5) < 2, HOLED, X),
    ),
}


def there_and_back(model, folder):
    return pnca.load(pnca.save(model, folder / "pipeline.pnca", overwrite=True))


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.filterwarnings("ignore:Bins whose width")
def test_pipeline__comes_back_to_the_bit(name, tmp_path):
    step, inputs = STEPS[name]
    step = step if isinstance(step, str) else clone(step)
    model = Pipeline([("first", step), ("last", make("DNN", max_epochs=3))])
    model.fit(inputs, Y)
    found = there_and_back(model, tmp_path)
    np.testing.assert_array_equal(found.predict_proba(inputs), model.predict_proba(inputs))
    assert repr(found) == repr(model)
    clone(found).fit(inputs, Y)
    assert type(found[-1]) is pnca.DNNClassifier


def test_pipeline__of_a_table_comes_back_to_the_bit(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(HOLED[:, :2], columns=["a", "b"]).assign(c=WORDS[:, 0], d=X[:, 3])
    columns = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), ["a", "b"]),
            ("words", OneHotEncoder(sparse_output=False, handle_unknown="ignore"), ["c"]),
        ],
        remainder="passthrough",
    ).set_output(transform="pandas")
    model = make_pipeline(columns, make("PNCA pooled", max_epochs=3)).fit(frame, Y)
    found = there_and_back(model, tmp_path)
    np.testing.assert_array_equal(found.predict_proba(frame), model.predict_proba(frame))
    assert found[-1].feature_names_in_.tolist() == model[-1].feature_names_in_.tolist()


def own_score(X, y):
    return f_classif(X, y)


class OwnScaler(StandardScaler):
    pass


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (Normalizer(), "Normalizer cannot be saved: .* is of StandardScaler"),
        (OwnScaler(), "OwnScaler cannot be saved"),
        (FunctionTransformer(np.log1p), r"in 0\.func, holds .*numpy\.ufunc"),
        (SelectKBest(own_score, k=2), r"in 0\.score_func, holds .*own_score"),
        (make_pipeline(PCA(2), memory="folder"), r"set_params\(memory=None\)"),
    ],
)
def test_step__that_is_not_of_the_table_is_refused_by_name(step, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = make_pipeline(step, make("DNN", max_epochs=2)).fit(X, Y)
    with pytest.raises(InvalidInputError, match=told):
        pnca.save(model, tmp_path / "pipeline.pnca")
    assert not (tmp_path / "pipeline.pnca").exists()


def test_pipeline__that_ends_otherwise_is_refused(tmp_path):
    with pytest.raises(InvalidInputError, match=r"PCA cannot be saved\. .* Pipeline that ends with one"):
        pnca.save(make_pipeline(StandardScaler(), PCA()).fit(X, Y), tmp_path / "a.pnca")
    with pytest.raises(InvalidInputError, match="DNNClassifier is not fitted"):
        pnca.save(make_pipeline(StandardScaler(), make("DNN")), tmp_path / "a.pnca")


@pytest.fixture
def forged(tmp_path):
    """The path of a pipeline's file whose JSON was changed, with checksums that fit."""
    path = tmp_path / "pipeline.pnca"
    pnca.save(make_pipeline(StandardScaler(), make("DNN", max_epochs=2)).fit(X, Y), path)
    content = unpacked(path)
    about = {
        name: value for name, value in content.about.items() if name not in ("format", "parts", "digest")
    }

    def forge(change):
        found = json.loads(json.dumps(content.model))
        change(found)
        path.write_bytes(b"".join(packed(Content(about, found, content.tensors))))
        return path

    return forge


def scaler_of(found):
    return found["steps"][0]["estimator"]


@pytest.mark.parametrize(
    "change",
    [
        lambda found: scaler_of(found).update({"class": "Popen"}),
        lambda found: scaler_of(found).update({"class": "Normalizer"}),
        lambda found: scaler_of(found)["fitted"].update({"transform": {"plain": 1}}),
        lambda found: scaler_of(found)["fitted"].update({"__class__": {"type": "object"}}),
        lambda found: scaler_of(found)["fitted"].update({"a b": {"plain": 1}}),
        lambda found: scaler_of(found)["parameters"].update({"memory": {"plain": "/tmp"}}),
        lambda found: scaler_of(found)["parameters"].update({"with_mean": {"type": "eval"}}),
        lambda found: scaler_of(found)["parameters"].update({"with_mean": {"score": "get_scorer"}}),
        lambda found: scaler_of(found)["parameters"].update({"with_mean": {"dtype": "<f8,<f8"}}),
        lambda found: found["parameters"].update({"memory": "/tmp"}),
        lambda found: found.update({"names": ["a", "a"]}),
        lambda found: found.update({"names": ["steps__x", "a"]}),
        lambda found: found.update({"steps": []}),
        lambda found: found.update({"steps": [{"plain": 3}]}),
        lambda found: found.update({"last": found["steps"][0]}),
        lambda found: found.pop("sklearn"),
    ],
)
def test_pipeline__forged_is_refused(change, forged):
    path = forged(change)
    with pytest.raises(CorruptDataError, match=r"pipeline\.pnca is damaged"):
        pnca.load(path)


@pytest.mark.parametrize("depth", [100, 400, 1000, 5000])
def test_pipeline__of_lists_without_end_is_refused(depth, forged, monkeypatch):
    """However deep: JSON may refuse it, or what reads the lists."""
    monkeypatch.setattr("pnca.persistence.container.to_json", deep_json)
    marker = f"deep {depth}"
    path = forged(lambda found: found["steps"].insert(0, marker))
    with pytest.raises(CorruptDataError, match=r"pipeline\.pnca is damaged"):
        pnca.load(path)


def deep_json(value):
    """JSON in which a text stands for lists in lists."""
    text = json.dumps(value, separators=(",", ":"))
    for depth in (100, 400, 1000, 5000):
        text = text.replace(f'"deep {depth}"', '{"list":[' * depth + "]}" * depth)
    return text.encode()


def test_pipeline__of_another_scikit_learn_is_warned_of(forged):
    path = forged(lambda found: found.update({"sklearn": "1.0"}))
    with pytest.warns(InconsistentVersionWarning, match=rf"1\.0 .*{sklearn.__version__}"):
        assert isinstance(pnca.load(path), BaseEstimator)
