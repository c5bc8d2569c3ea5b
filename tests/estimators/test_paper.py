import pytest

import pnca
from pnca.exceptions import InvalidInputError

MODELS = ["PNCA", "NCA", "DNN", "BNN", "Ensemble"]


@pytest.mark.parametrize("experiment", ["mnist", "covid"])
@pytest.mark.parametrize("model", MODELS)
def test_paper_settings__are_arguments_of_the_model(model, experiment):
    settings = pnca.paper_settings(model, experiment)
    estimator = getattr(pnca, f"{model}Classifier")(**settings)
    assert {name: estimator.get_params()[name] for name in settings} == settings


@pytest.mark.parametrize("model", MODELS)
def test_paper_settings__are_those_of_the_appendix(model):
    settings = pnca.paper_settings(model)
    assert settings["max_epochs"] == 100
    assert settings["learning_rate"] == 0.001
    assert settings["hidden_layer_sizes"] == (200, 200)
    assert settings["batch_size"] == (None if model in ("NCA", "PNCA") else 20)


def test_paper_settings__pnca_uses_random_features_and_no_background():
    settings = pnca.paper_settings("PNCA")
    assert (settings["kernel"], settings["background"]) == ("orthogonal", 0.0)
    assert (settings["n_particles"], settings["n_components"]) == (10, 10)


def test_paper_settings__covid_is_one_linear_layer_to_two_dimensions():
    settings = pnca.paper_settings("PNCA", experiment="covid")
    assert (settings["hidden_layer_sizes"], settings["n_components"]) == ((), 2)


def test_paper_settings__bnn_prior_follows_the_number_of_examples():
    assert pnca.paper_settings("BNN")["prior_precision"] == pytest.approx(100**2 / 1e4)
    n_covid = 351 * 4 // 5 + 1
    assert pnca.paper_settings("BNN", "covid")["prior_precision"] == pytest.approx(n_covid**2 / 1e4, abs=0.05)
    assert pnca.paper_settings("BNN", n_train=400)["prior_precision"] == 16.0


def test_paper_settings__a_caller_cannot_change_them_for_others():
    pnca.paper_settings("DNN")["max_epochs"] = 1
    assert pnca.paper_settings("DNN")["max_epochs"] == 100


@pytest.mark.parametrize(
    ("model", "experiment", "known"),
    [("SVM", "mnist", "models are DNN"), ("PNCA", "cifar", "experiments are mnist")],
)
def test_paper_settings__unknown_name_lists_the_known_ones(model, experiment, known):
    with pytest.raises(InvalidInputError, match=known):
        pnca.paper_settings(model, experiment)
