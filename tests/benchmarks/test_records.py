"""What the benchmarks write can be read again, and ratios and verdicts follow from it."""

import json
from dataclasses import asdict
from pathlib import Path

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


FILE = {"benchmark": "b", "environment": {}, "records": [], "skipped": []}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ('{"benchmark": "b"', "delimiter"),
        ("[]", "list"),
        ("{}", "benchmark"),
        (json.dumps({**FILE, "records": [{"seconds": 1}]}), "name"),
        (json.dumps({**FILE, "records": ["a fit"]}), "str"),
    ],
)
def test_read_results__refuses_what_is_not_a_file_of_results(tmp_path, content, reason):
    path = tmp_path / "b.json"
    path.write_text(content)
    with pytest.raises(InvalidInputError, match=rf"b\.json is not a file of benchmark results: .*{reason}"):
        read_results(path)


def test_read_results__leaves_out_keys_it_does_not_know(tmp_path):
    path = tmp_path / "b.json"
    entry = {"name": "a", "colour": "blue", "targets": [{"text": "fast", "met": None}]}
    path.write_text(json.dumps({**FILE, "records": [entry]}))
    assert read_results(path).records == (Record(name="a", targets=(Target(text="fast"),)),)


def test_stored_results__load():
    """Files of earlier versions stay readable: nothing in them is lost but empty fields."""
    paths = sorted((Path(__file__).parents[2] / "benchmarks" / "results").glob("*.json"))
    assert len(paths) == 11
    for path in paths:
        stored, read = json.loads(path.read_text()), read_results(path)
        assert len(read.records) == len(stored["records"]) > 0
        for entry, record in zip(stored["records"], read.records, strict=True):
            assert (
                asdict(record).items() >= {k: v for k, v in entry.items() if not isinstance(v, list)}.items()
            )
