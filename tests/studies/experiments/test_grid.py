"""Cells run on every engine, one thread each; what fails stays alone."""

import os

import cloudpickle
import numpy as np
import pytest

import work
from pnca.exceptions import InvalidInputError
from pnca_studies.experiments.grid import Engine, WorkersLostError, run_cells

# Workers cannot import the tests' modules: send this one's functions as code.
cloudpickle.register_pickle_by_value(work)

DATA = np.arange(4.0)
engines = pytest.mark.parametrize("name", ["local", "dask"])


def run(cells, name, jobs=2):
    return {o.cell: o for o in run_cells(cells, work.simple_work, DATA, Engine(name=name, jobs=jobs))}


@engines
def test_run_cells__every_cell_once_in_other_processes_with_one_thread(name):
    cells = [("plain", i) for i in range(5)]
    outcomes = run(cells, name)
    assert sorted(outcomes) == cells
    for (_, number), outcome in outcomes.items():
        assert outcome.error is None
        assert outcome.result.columns["draw"] == number
        assert outcome.result.details["threads"] == 1
        assert outcome.result.details["pid"] != os.getpid()


@engines
def test_run_cells__a_failure_is_that_cells_outcome_alone(name):
    outcomes = run([("plain", 1), ("fails", 2), ("plain", 3)], name)
    assert outcomes["fails", 2].result is None
    assert "ArithmeticError: cell 2 diverged" in outcomes["fails", 2].error
    assert outcomes["plain", 1].error is None
    assert outcomes["plain", 3].error is None


def test_run_cells__both_engines_give_the_same_answers():
    cells = [("plain", i) for i in range(4)]
    local, dask = run(cells, "local"), run(cells, "dask")
    for cell in cells:
        a, b = (o[cell].result.answers["test"].compact for o in (local, dask))
        np.testing.assert_array_equal(a, b)


def test_run_cells__warnings_come_home_as_text():
    outcomes = run([("warns", 1), ("plain", 2)], "local")
    assert outcomes["warns", 1].result.details["warnings"] == ["scale the inputs"]
    assert outcomes["plain", 2].result.details["warnings"] == []


def test_run_cells__what_is_finished_comes_before_the_rest_is():
    cells = [("slow", i) for i in range(6)]
    outcomes = run_cells(cells, work.simple_work, DATA, Engine(jobs=1))
    assert next(outcomes).cell == ("slow", 0)
    outcomes.close()


def test_run_cells__a_worker_that_dies_is_an_error_that_says_what_to_do():
    with pytest.raises(WorkersLostError, match="--resume"):
        run([("plain", 1), ("dies", 2)], "local")


def test_run_cells__a_worker_that_dies_once_is_replaced(tmp_path):
    (tmp_path / "bad luck").touch()
    cells = [("plain", 1), ("dies once", str(tmp_path / "bad luck")), ("plain", 3), ("plain", 4)]
    assert sorted(run(cells, "local"), key=str) == sorted(cells, key=str)


def test_run_cells__nothing_to_do_starts_nothing():
    assert list(run_cells([], work.simple_work, DATA, Engine(name="dask"))) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "ray"}, "engines are local and dask"),
        ({"jobs": 0}, "at least 1"),
        ({"scheduler": "tcp://host:8786"}, "--engine dask"),
    ],
)
def test_engine__impossible_settings_are_refused(settings, message):
    with pytest.raises(InvalidInputError, match=message):
        Engine(**settings)


def test_run_cells__no_scheduler_at_the_address_is_said(monkeypatch):
    engine = Engine(name="dask", scheduler="tcp://127.0.0.1:9")  # the discard port: nobody answers
    with pytest.raises(InvalidInputError, match=r"No Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        list(run_cells([("plain", 1)], work.simple_work, DATA, engine))


def test_run_cells__on_a_running_scheduler(tmp_path):
    from dask.distributed import LocalCluster

    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        engine = Engine(name="dask", scheduler=cluster.scheduler_address)
        outcomes = list(run_cells([("plain", 1), ("plain", 2)], work.simple_work, DATA, engine))
    assert sorted(o.cell for o in outcomes) == [("plain", 1), ("plain", 2)]
    assert all(o.error is None for o in outcomes)
