"""What the benchmarks write can be read again, and ratios and verdicts follow from it."""

import json

import numpy as np
import pytest

from pnca.exceptions import InvalidInputError
from records import Record, Reference, Results, Target, read_results


def test_results__survive_writing_and_reading(tmp_path):
    record = Record(
        name="a fit",
        n=100,
        seconds=np.float64(0.5),
        low=0.4,
        high=0.6,
        repeats=5,
        alternatives=(Reference(name="theirs", seconds=5.0),),
        floors=(Reference(name="products", seconds=0.4),),
        targets=(Target(text="fast", quantity="speedup", at_least=5),),
    )
    written = Results(
        benchmark="b", environment={"cores": 2}, records=(record,), skipped=({"name": "x", "reason": "y"},)
    )
    assert read_results(written.write(tmp_path / "new" / "b.json")) == written


def test_ratios__are_theirs_over_ours_and_ours_over_the_floor():
    record = Record(
        name="a fit",
        seconds=2.0,
        alternatives=(Reference(name="a", seconds=10.0), Reference(name="b", seconds=1.0)),
        floors=(Reference(name="f", seconds=1.6),),
    )
    assert record.speedup() == record.speedup("a") == 5
    assert record.speedup("b") == 0.5
    assert record.over_floor() == 1.25
    assert record.speedup("unheard of") is None
    assert Record(name="nothing").over_floor() is None
    assert Record(name="noise", seconds=-0.1, floors=record.floors).over_floor() is None


def test_ratios__of_rates_say_the_same_as_those_of_times():
    """Twice the rows a second is half the time a row."""
    rate = Record(
        name="r",
        value=200.0,
        alternatives=(Reference(name="a", value=100.0),),
        floors=(Reference(name="f", value=400.0),),
    )
    time = Record(
        name="t",
        seconds=1 / 200,
        alternatives=(Reference(name="a", seconds=1 / 100),),
        floors=(Reference(name="f", seconds=1 / 400),),
    )
    assert rate.speedup() == time.speedup() == 2
    assert rate.over_floor() == time.over_floor() == 2


@pytest.mark.parametrize(
    ("target", "verdict"),
    [
        (Target(text="", at_most=2.0), True),
        (Target(text="", at_most=1.9), False),
        (Target(text="", quantity="over_floor", at_most=1.5), True),
        (Target(text="", quantity="over_floor", of="lower", at_most=1.5), False),
        (Target(text="", quantity="speedup", at_least=35), False),
        (Target(text="", quantity="speedup", at_least=5), True),
        (Target(text="", quantity="memory_gib", at_most=1.0), None),
        (Target(text="", met=True), True),
        (Target(text="", met=True, at_most=1.0), False),
        (Target(text=""), None),
    ],
)
def test_verdict__is_computed_wherever_there_is_a_bound(target, verdict):
    record = Record(
        name="",
        seconds=2.0,
        alternatives=(Reference(name="a", seconds=10.0),),
        floors=(Reference(name="f", seconds=1.6), Reference(name="lower", seconds=1.0)),
    )
    assert record.verdict(target) is verdict


def test_verdict__of_an_unknown_quantity_is_an_error():
    with pytest.raises(InvalidInputError, match="unknown quantity 'sceonds'"):
        Record(name="", seconds=1.0).verdict(Target(text="", quantity="sceonds", at_most=1))


def test_read_results__takes_a_bare_list_with_one_of_each(tmp_path):
    entry = {
        "name": "forward and backward",
        "n": 60000,
        "seconds": 0.4,
        "memory_gib": 0.5,
        "alternative": {"name": "flex_attention", "seconds": 13.2},
        "floor": {"name": "exponentials", "seconds": 0.3},
        "target": {"text": "at most .5 s", "met": True},
        "colour": "blue",
    }
    path = tmp_path / "gpu_masses.json"
    path.write_text(json.dumps([entry]))
    results = read_results(path)
    (record,) = results.records
    assert (results.benchmark, results.environment) == ("gpu_masses", {})
    assert record.speedup() == pytest.approx(33)
    assert record.verdict(record.targets[0]) is True


def test_read_results__refuses_a_record_without_a_name(tmp_path):
    path = tmp_path / "b.json"
    path.write_text('[{"seconds": 1}]')
    with pytest.raises(InvalidInputError, match=r"b\.json: a record has no name"):
        read_results(path)
