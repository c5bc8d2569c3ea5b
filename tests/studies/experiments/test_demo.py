import json

import numpy as np
import pytest

from models import make
from pnca_studies.experiments.demo import TEST_SETS, demo_models, measure, record, run_demo


def test_demo_models__are_the_papers_five_and_our_default():
    models = demo_models(0)
    assert set(models) == {"DNN", "BNN", "Ensemble", "NCA", "PNCA (paper)", "PNCA"}
    assert models["PNCA (paper)"].kernel == "orthogonal"
    assert models["PNCA"].get_params() == {**type(models["PNCA"])().get_params(), "random_state": 0}


def test_demo_models__all_run(experiment):
    models = {name: model.set_params(max_epochs=1) for name, model in demo_models(0).items()}
    assert [result.name for result in run_demo(experiment, models)] == list(models)


def test_run_demo__interrupt_ends_all_of_it(experiment, monkeypatch):
    model = make("DNN", batch_size=None)

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("pnca.models.softmax.SoftmaxObjective.evaluate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(run_demo(experiment, {"DNN": model}))


def test_run_demo__asks_every_model_about_every_test_set(results, experiment):
    assert [result.name for result in results] == ["PNCA", "DNN"]
    n = len(experiment.test_labels)
    for result in results:
        assert {name: p.shape for name, p in result.probabilities.items()} == dict.fromkeys(
            TEST_SETS, (n, 10)
        )
    assert results[0].evidence["letters"].shape == (n,)
    assert results[1].evidence is None


def test_measure__numbers_are_those_of_the_answers(results, experiment):
    measures = measure(results[0], experiment.test_labels)
    predicted = results[0].probabilities["digits"].argmax(axis=1)
    assert measures["accuracy"] == pytest.approx((predicted == experiment.test_labels).mean())
    confident = results[0].probabilities["letters"].max(axis=1) > 0.9
    assert measures["letters_above_0.9"] == pytest.approx(confident.mean())
    assert measures["accuracy"] > measures["rotated_accuracy"]
    assert measures["letters_auroc_evidence"] > 0.5  # letters are the stranger ones
    assert measure(results[1], experiment.test_labels)["letters_auroc_evidence"] is None


def test_record__is_json_and_says_how_it_was_made(results, experiment):
    content = record(results, experiment, n_train=60, random_state=0)
    again = json.loads(json.dumps(content, allow_nan=False))
    assert again["models"]["DNN"]["settings"]["learning_rate"] == 0.01
    assert again["data"]["n_test"] == len(experiment.test_labels)
    assert np.isfinite(again["models"]["PNCA"]["measures"]["nll"])
