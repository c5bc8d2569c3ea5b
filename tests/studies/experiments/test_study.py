import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch

import pnca_studies.experiments.study as study_module
import reference
from models import make
from pnca.exceptions import InvalidInputError
from pnca_studies.experiments.answers import Answers, compress, measure
from pnca_studies.experiments.cells import CellResult
from pnca_studies.experiments.grid import Engine, Outcome
from pnca_studies.experiments.settings import ModelSettings, load_exhibits
from pnca_studies.experiments.store import RunFolder
from pnca_studies.experiments.study import Options, Study, fit_and_ask, run_study

NCA = ModelSettings(name="NCA", estimator="NCA", settings="paper")
DNN = ModelSettings(name="DNN", estimator="DNN", settings="paper")


@dataclass(frozen=True, kw_only=True)
class NumberCell:
    """A cell whose result is its number."""

    number: int
    model: ModelSettings = NCA

    def columns(self):
        return {"number": self.number, "model": self.model.name}

    def settings(self):
        return self.model.build("mnist", 100, random_state=self.number).get_params()


def work(cell, broken):
    """Answer at once, or fail on the numbers that are broken."""
    if cell.number in broken:
        raise ZeroDivisionError(f"number {cell.number} is broken")
    logs = np.log(np.random.RandomState(cell.number).dirichlet(np.ones(3), size=6))
    answers = {
        "test": Answers(compact=compress(logs), labels=np.arange(6, dtype=np.uint8) % 3),
        "letters": Answers(compact=compress(logs[:4])),
    }
    seconds = {"fit_seconds": 0.5, "predict_seconds": 0.25}
    return CellResult(
        columns=cell.columns(),
        answers=answers,
        measures=measure(answers, "test"),
        details={"seconds": seconds},
    )


@pytest.fixture
def study():
    return Study(
        name="numbers",
        cells=[NumberCell(number=number) for number in (2, 0, 3, 1)],
        data=frozenset(),
        work=work,
        options=Options(),
        protocol={"test_sets": {"test": 6}},
        seeds="none",
        headline=[("test", "accuracy")],
        test_sets=lambda cell: {"test": 6, "letters": 4},
    )


@pytest.fixture
def folder(tmp_path):
    return RunFolder.create(tmp_path / "run", resume=False)


@pytest.fixture
def computed(monkeypatch):
    """Numbers of the cells that were computed; they are computed here, the last one first."""
    numbers = []

    def run_cells(cells, work, data, engine):
        for cell in reversed(cells):
            numbers.append(cell.number)
            try:
                yield Outcome(cell=cell, result=work(cell, data))
            except ZeroDivisionError as error:
                yield Outcome(cell=cell, error=str(error))

    monkeypatch.setattr(study_module, "run_cells", run_cells)
    return numbers


def read_lines(folder, name="results.jsonl"):
    return [json.loads(line) for line in (folder.path / name).read_text(encoding="utf-8").splitlines()]


# --- run_study ------------------------------------------------------------------------------------------


def test_run_study__writes_each_cell_and_one_row_a_test_set_in_order(study, folder, computed):
    assert run_study(study, folder, Engine()) == []
    assert computed == [1, 3, 0, 2]
    assert {path.stem for path in (folder.path / "cells").iterdir()} == set(map(study.stem, study.cells))
    rows = read_lines(folder)
    assert [(row["number"], row["test_set"]) for row in rows] == [
        (number, name) for number in (2, 0, 3, 1) for name in ("test", "letters")
    ]
    for cell in study.cells:
        assert folder.find(study.stem(cell)).measures == work(cell, ()).measures
    assert [row["number"] for row in read_lines(folder, "timings.jsonl")] == [2, 0, 3, 1]


def test_run_study__by_the_engine_itself(study, folder):
    assert run_study(study, folder, Engine(jobs=1)) == []
    assert [row["number"] for row in read_lines(folder)] == [2, 2, 0, 0, 3, 3, 1, 1]
    assert folder.find(study.stem(study.cells[0])).details["warnings"] == []


def test_run_study__says_how_it_was_run(study, folder, computed):
    study = replace(study, cells=[*study.cells, NumberCell(number=9, model=DNN)])
    run_study(study, folder, Engine(name="dask", jobs=3))
    run = folder.read_run()
    assert (run["study"], run["protocol"]) == ("numbers", study.protocol)
    assert run["cells"] == {study.stem(cell): study.outline(cell) for cell in study.cells}
    assert run["models"]["DNN"] == {"estimator": "DNN", "settings": "paper", "changes": {}}
    assert run["engine"] == {"name": "dask", "jobs": 3, "scheduler": None}
    assert run["versions"]["numpy"] == np.__version__
    assert run["failed"] == {}
    assert [session["fits"] for session in run["sessions"]] == [5]
    assert run["sessions"][0]["seconds"] >= 0


def test_run_study__resume_computes_what_is_missing_and_changes_no_row(study, folder, computed):
    run_study(study, folder, Engine())
    before = (folder.path / "results.jsonl").read_bytes()
    (folder.path / "cells" / f"{study.stem(study.cells[1])}.npz").unlink()
    damaged = folder.path / "cells" / f"{study.stem(study.cells[2])}.npz"
    damaged.write_bytes(damaged.read_bytes()[:100])
    computed.clear()
    seen = []
    again = RunFolder.create(folder.path, resume=True)
    assert run_study(study, again, Engine(), resumed=lambda r: seen.append(r.columns["number"])) == []
    assert sorted(computed) == [0, 3]
    assert seen == [2, 1]
    assert (folder.path / "results.jsonl").read_bytes() == before
    assert [session["fits"] for session in folder.read_run()["sessions"]] == [4, 2]


def test_run_study__complete_run_computes_nothing(study, folder, computed):
    run_study(study, folder, Engine())
    before = (folder.path / "results.jsonl").read_bytes()
    computed.clear()
    run_study(study, folder, Engine())
    assert computed == []
    assert (folder.path / "results.jsonl").read_bytes() == before


def test_run_study__failing_cell_is_reported_and_done_alone_later(study, folder):
    (failed,) = run_study(replace(study, data=frozenset({0})), folder, Engine())
    assert failed.cell == NumberCell(number=0)
    assert "ZeroDivisionError: number 0 is broken" in failed.error
    stem = study.stem(failed.cell)
    assert folder.read_run()["failed"] == {stem: failed.error}
    assert [row["number"] for row in read_lines(folder)] == [2, 2, 3, 3, 1, 1]
    done = []
    assert run_study(study, folder, Engine(), watch=lambda o, *_: done.append(o.cell.number)) == []
    assert done == [0]
    assert folder.read_run()["failed"] == {}
    assert [row["number"] for row in read_lines(folder)] == [2, 2, 0, 0, 3, 3, 1, 1]


def test_run_study__watch_counts_what_was_there_already(study, folder, computed):
    run_study(replace(study, cells=study.cells[:1]), folder, Engine())
    calls = []

    def watch(outcome, done, total):
        # Written before it is told of: whoever stops the run now has lost nothing.
        assert folder.find(study.stem(outcome.cell)) is not None
        calls.append((outcome.cell.number, done, total))

    run_study(study, folder, Engine(), watch=watch)
    assert calls == [(1, 2, 4), (3, 3, 4), (0, 4, 4)]


def test_run_study__interrupted_run_keeps_what_it_has(study, folder, computed):
    def stop(outcome, done, total):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(study, folder, Engine(), watch=stop)
    computed.clear()
    again = RunFolder.create(folder.path, resume=True)  # run.json is there although the run never ended
    run_study(study, again, Engine())
    assert sorted(computed) == [0, 2]


def test_run_study__smaller_grid_keeps_the_cells_of_the_larger_one(study, folder, computed):
    run_study(study, folder, Engine())
    run_study(replace(study, cells=study.cells[1:3]), folder, Engine())
    assert [row["number"] for row in read_lines(folder)] == [0, 0, 3, 3, 2, 2, 1, 1]


def test_run_study__another_study_is_refused_and_changes_nothing(study, folder, computed):
    run_study(study, folder, Engine())
    before = (folder.path / "run.json").read_bytes()
    with pytest.raises(InvalidInputError, match="holds a run of numbers, not of letters"):
        run_study(replace(study, name="letters"), folder, Engine())
    assert (folder.path / "run.json").read_bytes() == before


# --- names of cells -------------------------------------------------------------------------------------


def test_stem__differs_for_whatever_decides_the_result(study, monkeypatch):
    def named(**changes):
        return NumberCell(number=2, model=replace(NCA, **changes))

    stems = [
        *map(study.stem, study.cells),
        study.stem(named(name="NCA 2")),
        study.stem(named(estimator="PNCA")),
        study.stem(named(settings="default")),
        study.stem(named(changes={"bandwidth": 5.0})),
        study.stem(named(changes={"bandwidth": 6.0})),
        replace(study, protocol={"test_sets": {"test": 7}}).stem(study.cells[0]),
    ]
    newer = {**study_module.versions(), "torch": "99.0"}
    monkeypatch.setattr(study_module, "versions", lambda: newer)
    stems.append(study.stem(study.cells[0]))
    assert len(set(stems)) == len(stems) == 11


def test_stem__is_the_same_for_the_same_and_not_of_data_or_work(study):
    other = replace(study, data=frozenset({5}), cells=study.cells[:1], headline=[])
    assert other.stem(NumberCell(number=2)) == study.stem(study.cells[0])


def test_stem__is_a_file_name(study):
    stem = study.stem(NumberCell(number=1, model=replace(NCA, name="exact + background .1/../ä h=1")))
    assert stem.startswith("1-exact___background_.1_.._")
    assert "/" not in stem
    assert not set(stem) & set(' +=()\\:*?"<>|')


# --- options --------------------------------------------------------------------------------------------


def test_pick_models__by_default_those_of_the_exhibits_once_each():
    exhibits = load_exhibits("mnist").values()
    names = [model.name for model in Options().pick_models(exhibits)]
    assert names == ["DNN", "BNN", "BNN as published", "Ensemble", "NCA", "PNCA (paper)", "PNCA"]


def test_pick_models__by_name_in_the_order_given():
    picked = Options(models=("PNCA", "NCA", "DNN", "NCA")).pick_models(load_exhibits("mnist").values())
    assert [model.name for model in picked] == ["PNCA", "NCA", "DNN"]


def test_pick_models__unknown_name_is_an_error_with_the_models():
    with pytest.raises(InvalidInputError, match=r"\['PNAC'\].*DNN, BNN, BNN as published, .*PNCA \(paper\)"):
        Options(models=("NCA", "PNAC")).pick_models(load_exhibits("mnist").values())


def test_pick_trials__most_of_the_exhibits_unless_told():
    exhibits = load_exhibits("covid").values()
    assert Options().pick_trials(exhibits, quick=1) == range(5)
    assert Options(quick=True).pick_trials(exhibits, quick=1) == range(1)
    assert Options(trials=7).pick_trials(exhibits, quick=1) == range(7)
    assert Options(trials=3, quick=True).pick_trials(exhibits, quick=1) == range(3)


def test_pick_trials__none_is_an_error():
    for options in (Options(trials=0), Options(trials=-2, quick=True)):
        with pytest.raises(InvalidInputError, match=f"at least 1, but it is {options.trials}"):
            options.pick_trials(load_exhibits("mnist").values(), quick=2)


# --- the work of a cell ---------------------------------------------------------------------------------


@pytest.fixture
def digits(experiment):
    """The demo's digits: training inputs and labels, and test sets with and without labels."""

    def flat(images):
        return images.reshape(len(images), -1)

    tests = {
        "test": (flat(experiment.test_images[:40]), experiment.test_labels[:40]),
        "rotated": (flat(experiment.rotated_images[:40]), experiment.test_labels[:40]),
        "letters": (flat(experiment.ood_images[:30]), None),
    }
    return flat(experiment.train_images), experiment.train_labels, tests


def ask_about(model, digits):
    X, y, tests = digits
    return fit_and_ask(NumberCell(number=5), model, X, y, tests, reference="test", n_classes=10)


@pytest.mark.parametrize("name", ["PNCA", "DNN"])
def test_fit_and_ask__answers_are_the_models(digits, name):
    X, y, tests = digits
    result = ask_about(make(name, max_epochs=3), digits)
    model = make(name, max_epochs=3).fit(X, y)
    assert result.columns == {"number": 5, "model": "NCA"}
    assert list(result.answers) == list(result.measures) == list(tests)
    for test_set, (x, labels) in tests.items():
        answers = result.answers[test_set]
        # Log-odds are kept to one part in 2048.
        np.testing.assert_allclose(answers.probabilities, model.predict_proba(x), atol=4e-4)
        assert (answers.labels is None) == (labels is None)
    assert result.measures["test"]["accuracy"] == pytest.approx(model.score(*tests["test"]))
    assert result.details["n_train"] == len(X)
    assert result.details["settings"] == model.get_params()
    assert result.details["seconds"].keys() == {"fit_seconds", "predict_seconds"}
    json.dumps(result.details, allow_nan=False)


def test_fit_and_ask__evidence_is_of_the_familiar_and_the_foreign(digits):
    answers = ask_about(make("PNCA", max_epochs=1), digits).answers
    assert {name: given.evidence is not None for name, given in answers.items()} == {
        "test": True,
        "rotated": False,
        "letters": True,
    }
    assert all(
        given.evidence is None for given in ask_about(make("DNN", max_epochs=1), digits).answers.values()
    )


def test_fit_and_ask__kernel_sum_is_of_many_particles(digits):
    assert "mean_parameter_kernel_sum" not in ask_about(make("NCA", max_epochs=1), digits).details
    model = make("PNCA", max_epochs=1)
    details = ask_about(model, digits).details
    particles = torch.from_numpy(model.particles_).double()
    # With gradients of one, the functional gradient of a particle is the sum of its kernel values.
    sums = reference.functional_gradient(particles, torch.ones_like(particles))[:, 0]  # (m,)
    assert details["mean_parameter_kernel_sum"] == pytest.approx(float(sums.mean()))


def test_fit_and_ask__interrupt_is_of_the_whole_run(digits, monkeypatch):
    model = make("DNN", batch_size=None)

    def interrupted(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr("pnca.models.softmax.SoftmaxObjective.evaluate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ask_about(model, digits)
