import os

import pytest

from pnca.exceptions import InvalidInputError
from pnca_studies.commands.options import EngineName, make_engine, make_options, whole_numbers, words
from pnca_studies.experiments.study import Options


def test_lists__are_split_at_commas():
    assert words("DNN, PNCA (paper),") == ("DNN", "PNCA (paper)")
    assert words("COVID, equalised; car", ";") == ("COVID, equalised", "car")
    assert whole_numbers("100, 200") == (100, 200)
    for text in ("", " , "):
        with pytest.raises(InvalidInputError, match="separated by commas"):
            words(text)
    with pytest.raises(InvalidInputError, match=r"whole numbers such as 100,200, but found '1\.5'"):
        whole_numbers("1.5")


def test_options__what_is_not_given_stays_open():
    assert make_options(None, None, None, quick=False) == Options()
    given = make_options(3, "100,200", "DNN", quick=True)
    assert given == Options(trials=3, train_sizes=(100, 200), models=("DNN",), quick=True)


def test_engine__has_by_default_a_job_per_core_that_may_be_used(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 3, 5}, raising=False)
    assert make_engine(EngineName.local, None, None).jobs == 3
    assert make_engine(EngineName.dask, 7, None).jobs == 7


def test_engine__a_scheduler_that_does_not_answer_is_refused_at_once():
    with pytest.raises(InvalidInputError, match="No Dask scheduler answers"):
        make_engine(EngineName.dask, None, "tcp://127.0.0.1:9")  # the discard port: nobody answers
