from itertools import product

import pytest

from pnca import BNNClassifier, DNNClassifier, EnsembleClassifier, NCAClassifier, PNCAClassifier
from pnca.exceptions import InvalidInputError
from pnca_studies.experiments.settings import (
    EXPERIMENTS,
    KINDS,
    ModelSettings,
    load_exhibits,
    load_models,
    settings_folder,
)

SEVEN = ("DNN", "BNN", "BNN as published", "Ensemble", "NCA", "PNCA (paper)", "PNCA")

# The paper's Table 1: mean and standard deviation; its COVID validation has no deviation.
TABLE_1 = {
    "BNN": [(0.74, 0.02), (0.20, 0.04), (0.79,), (0.40, 0.04)],
    "NCA": [(0.69, 0.01), (0.18, 0.04), (0.77,), (0.44, 0.05)],
    "DNN": [(0.75, 0.02), (0.17, 0.02), (0.80,), (0.37, 0.02)],
    "PNCA (paper)": [(0.67, 0.03), (0.18, 0.03), (0.82,), (0.37, 0.03)],
    "Ensemble": [(0.76, 0.02), (0.17, 0.03), (0.79,), (0.38, 0.03)],
}

MODELS = '[DNN]\nestimator = "DNN"\nsettings = "paper"\n'
EXHIBIT = {
    "experiment": '"mnist"',
    "kind": '"table"',
    "title": '"Accuracy"',
    "models": '["DNN"]',
    "trials": "3",
    "train_sizes": "[100]",
}


@pytest.fixture
def folder(tmp_path):
    """Settings of one model and one exhibit; ``write(key=TOML)`` changes the exhibit, None removes a key."""
    (tmp_path / "models.toml").write_text(MODELS)

    def write(**changes):
        values = {key: value for key, value in {**EXHIBIT, **changes}.items() if value is not None}
        text = "".join(f"{key} = {value}\n" for key, value in values.items())
        (tmp_path / "table9.toml").write_text(text)
        return tmp_path

    write()
    return write


# --- the files that are shipped -------------------------------------------------------------------------


def test_shipped__every_file_belongs_to_one_experiment():
    names = [name for experiment in EXPERIMENTS for name in load_exhibits(experiment)]
    assert sorted([*names, "models", "choices"]) == sorted(
        path.stem for path in settings_folder().glob("*.toml")
    )


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_shipped__those_of_the_paper_come_first(experiment):
    in_paper = [bool(exhibit.in_paper) for exhibit in load_exhibits(experiment).values()]
    assert in_paper
    assert in_paper == sorted(in_paper, reverse=True)


def test_shipped__numbers_of_table_1_are_the_papers():
    mnist, covid = load_exhibits("mnist")["table1_mnist"], load_exhibits("covid")["table1_covid"]
    assert mnist.columns == ("test", "rotated")
    assert covid.columns == ("validation", "actualmed")
    # The paper's one BNN stands beside both of ours.
    assert mnist.paper.keys() == covid.paper.keys() == {*TABLE_1, "BNN as published"}
    for exhibit in (mnist, covid):
        assert exhibit.paper["BNN as published"] == exhibit.paper["BNN"]
    for model, printed in TABLE_1.items():
        shown = [mnist.paper[model][column] for column in mnist.columns]
        shown += [covid.paper[model][column] for column in covid.columns]
        assert [tuple(numbers) for numbers in shown] == printed


def test_shipped__mnist_needs_210_fits():
    fits = {
        cell
        for exhibit in load_exhibits("mnist").values()
        for cell in product(exhibit.train_sizes, range(exhibit.trials), exhibit.models)
    }
    assert fits == set(product((100, 200, 400), range(10), SEVEN))
    assert len(fits) == 210


def test_shipped__covid_has_every_condition_and_the_papers_more_often():
    exhibits = load_exhibits("covid")
    for name in ("table1_covid", "figure3"):
        shown = exhibits[name]
        assert (shown.features, shown.labels, shown.folds) == (("plain",), ("paper",), ("random",))
        assert shown.trials == 5
    conditions = exhibits["covid_conditions"]
    assert (conditions.features, conditions.labels, conditions.folds) == (
        ("plain", "equalised"),
        ("paper", "any_covid"),
        ("random", "grouped"),
    )
    assert {exhibit.models for exhibit in exhibits.values()} == {SEVEN}


@pytest.mark.parametrize("experiment", ["mnist", "covid"])
def test_shipped__every_model_builds_on_the_cpu(experiment):
    classes = {
        "DNN": DNNClassifier,
        "BNN": BNNClassifier,
        "Ensemble": EnsembleClassifier,
        "NCA": NCAClassifier,
        "PNCA": PNCAClassifier,
    }
    for settings in load_models().values():
        model = settings.build(experiment, 100, random_state=7)
        assert type(model) is classes[settings.estimator]
        assert (model.device, model.random_state) == ("cpu", 7)
        assert {key: getattr(model, key) for key in settings.changes} == dict(settings.changes)


def test_shipped__default_model_has_the_constructors_own_settings():
    model = load_models()["PNCA"].build("mnist", 100, random_state=0)
    assert model.get_params() == PNCAClassifier(random_state=0, device="cpu").get_params()


def test_shipped__ablations_change_what_their_names_say():
    models = load_models()
    names = load_exhibits("ablation")["ablation"].models
    assert {"PNCA (paper)", "exact", "independent"} <= set(names)
    for name in names:
        settings = models[name]
        base = models["PNCA (paper)" if settings.estimator == "PNCA" else settings.estimator]
        before, after = base.arguments("mnist", 100), settings.arguments("mnist", 100)
        # No change repeats the paper's value.
        assert {key for key in after if after[key] != before.get(key)} == settings.changes.keys()
        if "h=" in name:
            assert after["bandwidth"] == float(name.partition("h=")[2])
        if "background" in name:
            assert after["background"] == float(name.partition("background ")[2].split()[0])
        assert (after.get("kernel") == "exact") == ("exact" in name)
        assert (after.get("update") == "independent") == ("independent" in name)


@pytest.mark.parametrize("name", ["BNN", "BNN as published"])
def test_arguments__prior_precision_grows_with_n(name):
    settings = load_models()[name]
    precisions = [settings.arguments("mnist", n)["prior_precision"] for n in (100, 200, 400)]
    assert precisions == [1.0, 4.0, 16.0]  # n^2 / 10^4
    assert settings.build("mnist", 200, random_state=0).prior_precision == 4.0


def test_arguments__paper_means_those_of_the_experiment():
    nca = load_models()["NCA"]
    assert nca.arguments("mnist", 100)["hidden_layer_sizes"] == (200, 200)
    assert nca.arguments("covid", 100)["hidden_layer_sizes"] == ()


# --- mistakes in a file ---------------------------------------------------------------------------------


def test_exhibit__of_the_tests_is_sound(folder):
    (exhibit,) = load_exhibits("mnist", folder()).values()
    assert (exhibit.name, exhibit.trials, exhibit.train_sizes) == ("table9", 3, (100,))


def test_exhibit__unknown_key_is_named_with_the_known_ones(folder):
    with pytest.raises(
        InvalidInputError, match=r"table9.*unknown keys \['trails'\].*'train_sizes', 'trials'"
    ):
        load_exhibits("mnist", folder(trails="3"))


def test_exhibit__a_mistake_shows_whichever_experiment_is_asked_for(folder):
    with pytest.raises(InvalidInputError, match="trails"):
        load_exhibits("covid", folder(trails="3"))


def test_exhibit__missing_key_is_named(folder):
    for key in ("experiment", "kind", "title", "models", "trials"):
        with pytest.raises(InvalidInputError, match=rf"table9.*\['{key}'\].*missing"):
            load_exhibits("mnist", folder(**{key: None}))


def test_exhibit__wrong_type_is_named_with_the_value(folder):
    for key, value, expected in (
        ("trials", '"ten"', "trials must be int"),
        ("trials", "true", "trials must be int"),
        ("trials", "2.5", "trials must be int"),
        ("trials", "[3]", "trials must be int"),
        ("train_sizes", "100", "train_sizes must be a list"),
        ("train_sizes", '["100"]', "train_sizes must be int"),
        ("train_sizes", "[true]", "train_sizes must be int"),
        ("models", '"DNN"', "models must be a list"),
        ("models", "[1]", "models must be str"),
        ("title", "7", "title must be str"),
        ("paper", "[1]", "paper must be Mapping"),
    ):
        with pytest.raises(InvalidInputError, match=f"table9.*{expected}, but it is"):
            load_exhibits("mnist", folder(**{key: value}))


@pytest.mark.parametrize(
    ("key", "value", "choices"),
    [
        ("experiment", '"minst"', EXPERIMENTS),
        ("kind", '"tabel"', KINDS),
        ("features", '["plane"]', ("plain", "equalised")),
        ("labels", '["paper", "any"]', ("paper", "any_covid")),
        ("folds", '["group"]', ("random", "grouped")),
        ("models", '["DNN", "PNAC"]', ("DNN",)),
        ("paper", "{ DMM = { test = [0.5] } }", ("DNN",)),
    ],
)
def test_exhibit__unknown_choice_is_named_with_the_choices(folder, key, value, choices):
    with pytest.raises(InvalidInputError) as caught:
        load_exhibits("mnist", folder(**{key: value}))
    message = str(caught.value)
    wrong = {"models": "PNAC", "paper": "DMM", "labels": "any"}.get(key, value.strip('[]"'))
    assert message.startswith("table9")
    assert repr(wrong) in message
    assert ", ".join(choices) in message


def test_exhibit__numbers_must_be_positive_and_models_named(folder):
    for key, value in (("trials", "0"), ("trials", "-1"), ("train_sizes", "[100, 0]")):
        with pytest.raises(InvalidInputError, match=f"table9.*{key} must be positive"):
            load_exhibits("mnist", folder(**{key: value}))
    with pytest.raises(InvalidInputError, match=r"table9.*models is empty"):
        load_exhibits("mnist", folder(models="[]"))


@pytest.mark.parametrize(
    ("name", "content"), [("models.toml", b"trials = = 3"), ("table9.toml", b'title = "\xff"')]
)
def test_broken_toml__names_the_file(folder, name, content):
    place = folder()
    (place / name).write_bytes(content)
    with pytest.raises(InvalidInputError, match=rf"{name}: it cannot be read"):
        load_exhibits("mnist", place)


def test_models__missing_file_is_named(tmp_path):
    with pytest.raises(InvalidInputError, match=r"models\.toml: it cannot be read"):
        load_models(tmp_path)


@pytest.mark.parametrize(
    ("lines", "culprits"),
    [
        (
            '["My DNN"]\nestimator = "DNN"\nsetings = "paper"',
            ["My DNN", "'setings'", "'settings'", "'changes'"],
        ),
        ('["My DNN"]\nestimator = "DNN"', ["My DNN", "'settings'", "missing"]),
        (
            '["My DNN"]\nestimator = "CNN"\nsettings = "paper"',
            ["My DNN", "'CNN'", "DNN, BNN, Ensemble, NCA, PNCA"],
        ),
        ('["My DNN"]\nestimator = "DNN"\nsettings = "best"', ["My DNN", "'best'", "paper, default"]),
        ('["My DNN"]\nestimator = "DNN"\nsettings = "paper"\nchanges = 3', ["My DNN", "changes", "3"]),
        (
            '["My DNN"]\nestimator = "DNN"\nsettings = "paper"\nchanges = { bandwidth = 2.0 }',
            ["My DNN", "DNN has no arguments ['bandwidth']", "'learning_rate'"],
        ),
        ("estimator = 5", ["estimator", "expected a table", "5"]),
    ],
)
def test_models__mistake_is_named_with_the_model_and_the_choices(tmp_path, lines, culprits):
    (tmp_path / "models.toml").write_text(lines)
    with pytest.raises(InvalidInputError) as caught:
        load_models(tmp_path)
    for culprit in culprits:
        assert culprit in str(caught.value)


def test_models__mistake_is_named_with_the_file(tmp_path):
    (tmp_path / "models.toml").write_text(MODELS + "trails = 3\n")
    with pytest.raises(InvalidInputError, match=r"models\.toml"):
        load_models(tmp_path)


@pytest.mark.parametrize("changes", [{"device": "cuda"}, {"random_state": 1}])
def test_models__what_the_run_decides_cannot_be_changed(changes):
    with pytest.raises(InvalidInputError, match=f"mine.*{next(iter(changes))}"):
        ModelSettings(name="mine", estimator="DNN", settings="paper", changes=changes).build("mnist", 100, 0)


def test_models__another_folder_is_read_instead(folder):
    assert list(load_models(folder())) == ["DNN"]
