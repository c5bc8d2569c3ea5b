import io

import numpy as np
import pytest
from rich.console import Console

from pnca_studies.commands.watch import Display, RunningMeans
from pnca_studies.experiments.cells import CellResult


def result(accuracy, auroc=0.5, **columns):
    measures = {"test": {"accuracy": accuracy, "auroc": auroc}, "other": {"accuracy": 0.0}}
    return CellResult(columns=columns, answers={}, measures=measures)


@pytest.fixture
def means():
    return RunningMeans([("test", "accuracy"), ("test", "auroc")])


def test_rows__means_are_over_draws(means):
    for draw, accuracy in enumerate([0.5, 0.75, 1.0]):
        means.add(result(accuracy, experiment="mnist", n_train=100, draw=draw, model="NCA"))
    means.add(result(0.25, experiment="mnist", n_train=100, draw=0, model="DNN"))
    assert means.identifiers == ["n_train", "model"]
    assert list(means.rows()) == [(("100", "NCA"), 3, [0.75, 0.5]), (("100", "DNN"), 1, [0.25, 0.5])]


def test_rows__means_are_over_trials_and_folds(means):
    for trial in range(2):
        for fold in range(5):
            columns = {"features": "plain", "trial": trial, "fold": fold, "model": "NCA"}
            means.add(result(fold / 4 + trial, **columns))
    assert list(means.rows()) == [(("plain", "NCA"), 10, [1.0, 0.5])]


def test_rows__are_by_size_and_models_of_a_size_in_the_order_in_which_they_came(means):
    for n_train in (1000, 200):
        for model in ("PNCA", "BNN"):
            means.add(result(n_train / 2000, n_train=n_train, draw=0, model=model))
    assert [identity for identity, _, _ in means.rows()] == [
        ("200", "PNCA"),
        ("200", "BNN"),
        ("1000", "PNCA"),
        ("1000", "BNN"),
    ]


def test_rows__missing_value_is_left_out_of_the_mean(means):
    for accuracy, auroc in ((0.5, None), (0.75, 0.8), (1.0, 0.9)):
        means.add(result(accuracy, auroc, draw=0, model="NCA"))
    ((_, n, values),) = means.rows()
    assert n == 3
    assert values == pytest.approx([0.75, 0.85])


def test_rows__measure_without_any_value_is_nan_and_no_warning(means):
    means.add(result(0.5, None, draw=0, model="NCA"))
    ((_, _, values),) = means.rows()
    assert values[0] == 0.5
    assert np.isnan(values[1])


def test_rows__nothing_finished_is_nothing(means):
    assert list(means.rows()) == []


def test_display__shows_cells_done_and_the_table_so_far():
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    display = Display(console, [("test", "accuracy")], n_cells=3)
    with display.shown():
        display.resumed(result(1.0, draw=0, model="DNN"))
        display.finished("cell", result(0.5, draw=1, model="DNN"), 2, 3)
    text = console.file.getvalue()
    assert "2/3" in text
    assert "0.750" in text


def test_display__a_pipe_gets_one_line_per_cell():
    console = Console(file=io.StringIO(), width=100)
    display = Display(console, [("test", "accuracy")], n_cells=2)
    with display.shown():
        display.finished("first", result(1.0, draw=0, model="DNN"), 1, 2)
        display.finished("second", None, 2, 2)
    assert console.file.getvalue() == "1/2 first\n2/2 second: failed\n"
