"""Damage to the folder of a run: what is damaged is named, left out of a report, and computed again."""

import io
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from rich.console import Console
from typer.testing import CliRunner

from pnca.exceptions import PncaError
from pnca.interfaces import cli
from pnca_studies.commands.running import say_what_is_missing
from pnca_studies.experiments.answers import Answers, compress, measure
from pnca_studies.experiments.cells import CellResult
from pnca_studies.experiments.grid import Engine
from pnca_studies.experiments.settings import ModelSettings
from pnca_studies.experiments.store import RunFolder
from pnca_studies.experiments.study import Options, Study, run_study
from robustness.mutators import any_damage, forge_cell, forge_run
from robustness.verdicts import need_commands

DNN = ModelSettings(name="PNCA (paper)", estimator="PNCA", settings="paper")
LENGTHS = {"test": 60, "rotated": 5, "notmnist": 7}


def make_result(number=0, **details):
    """A result that no model gave, with all that a cell can have."""
    rng = np.random.RandomState(number)
    logs = np.log(rng.dirichlet(np.ones(3), size=LENGTHS["test"]))
    answers = {
        "test": Answers(
            compact=compress(logs),
            labels=np.arange(60).astype(np.uint8) % 3,
            evidence=rng.normal(size=60).astype(np.float32),
        ),
        "rotated": Answers(compact=compress(logs[:5]), labels=np.arange(5).astype(np.uint8) % 3),
        "notmnist": Answers(compact=compress(logs[:7])),
    }
    return CellResult(
        columns={"n_train": 100, "draw": number, "model": "PNCA (paper)"},
        answers=answers,
        measures=measure(answers, "test"),
        details={"seconds": {"fit_seconds": 1.5}, "settings": {"kernel": "exact"}, **details},
    )


@dataclass(frozen=True)
class Draw:
    """A cell whose result needs no fit."""

    number: int
    model = DNN

    def columns(self):
        return {"n_train": 100, "draw": self.number, "model": self.model.name}

    def settings(self):
        return {}


def make_study():
    """A study of three cells."""
    return Study(
        name="mnist",
        cells=[Draw(number) for number in range(3)],
        data=None,
        work=lambda cell, data: make_result(cell.number),
        options=Options(trials=3, models=("PNCA (paper)",)),
        protocol={"test_sets": {}},
        seeds="draw s: seed s",
        headline=[],
        test_sets=lambda cell: LENGTHS,
    )


# --- forgeries: what is wrong although digests fit --------------------------------------------------------


def _array(key, change):
    return lambda record, arrays: arrays.update({key: change(arrays[key])})


def _record(part, **values):
    return lambda record, arrays: record[part].update(values)


#: Changes to the record and the arrays of a cell that no result can have.
FORGERIES = {
    "no predictions of a test set": lambda record, arrays: arrays.pop("rotated/compact"),
    "no measures of a test set": lambda record, arrays: record["measures"].pop("test"),
    "no test sets": lambda record, arrays: (record["measures"].clear(), arrays.clear()),
    "an unknown part": lambda record, arrays: arrays.update({"test/colour": np.zeros(60)}),
    "an unknown test set": lambda record, arrays: arrays.update({"bones/compact": arrays["rotated/compact"]}),
    "short predictions": _array("test/compact", lambda values: values[:-1]),
    "short labels": _array("test/labels", lambda values: values[:-1]),
    "short evidence": _array("test/evidence", lambda values: values[:-1]),
    "predictions in one row": _array("test/compact", np.ravel),
    "predictions of one class": _array("test/compact", lambda values: values[:, :1]),
    "predictions of other classes": _array("test/compact", lambda values: values[:, :2]),
    "predictions in four bytes": _array("test/compact", lambda values: values.astype(np.float32)),
    "labels in eight bytes": _array("test/labels", lambda values: values.astype(np.int64)),
    "labels as text": _array("test/labels", lambda values: values.astype(str)),
    "predictions that are NaN": _array("test/compact", lambda values: values * np.float16("nan")),
    "predictions that are infinite": _array("test/compact", lambda values: values - np.float16("inf")),
    "predictions without a best class": _array("test/compact", lambda values: values - 1),
    "labels of no class": _array("test/labels", lambda values: values + 3),
    "evidence that is NaN": _array("test/evidence", lambda values: values * np.nan),
    "evidence that is infinite": _array("test/evidence", lambda values: values + np.inf),
    "a measure that is text": _record("measures", test={"n": 60, "auroc": "high"}),
    "a measure that is NaN": _record("measures", test={"n": 60, "auroc": float("nan")}),
    "a measure beyond all numbers": _record("measures", test={"n": 60, "auroc": 10**400}),
    "a length that is none": _record("measures", test={"n": None}),
    "a length below zero": _record("measures", test={"n": -60}),
    "a length that is not whole": _record("measures", test={"n": 60.5}),
    "columns that are lists": _record("columns", model=["PNCA"]),
    "columns of half a character": _record("columns", model="\ud800"),
    "no seconds": lambda record, arrays: record["details"].pop("seconds"),
    "seconds that are text": _record("details", seconds={"fit_seconds": "1"}),
    "a sum that is text": _record("details", mean_parameter_kernel_sum="1"),
}


def _without(record, arrays):
    """A result of fewer test sets, whole in itself: the study tells that some are missing."""
    del record["measures"]["notmnist"], arrays["notmnist/compact"]


_OF_THE_STUDY = {
    "fewer test sets": _without,
    "measures alone": lambda record, arrays: arrays.clear(),
    "columns of another cell": _record("columns", draw=9),
}

#: Changes to a ``run.json`` that make it none.
RUN_FORGERIES = [
    *({key: None} for key in ("study", "options", "protocol", "seeds", "versions", "hardware", "engine")),
    *({"cells": cells} for cells in (None, "abc", [1], {"a": 1}, ["../a"], ["a\0"])),
    *({"sessions": given} for given in (None, [{}], [{"fits": 10**400, "seconds": 1}])),
    {"sessions": [{"fits": 1, "seconds": float("nan")}]},
    {"failed": None},
    {"options": {}},
    {"options": {"trials": None, "train_sizes": "100", "models": None, "quick": False}},
    {"hardware": {"processor": "abacus"}},
    {"engine": {"name": "local", "jobs": "2", "scheduler": None}},
    {"protocol": {"temperature_folds": 3}},
    {"command": {"--trials": []}},
]


# --- cases ------------------------------------------------------------------------------------------------


def damaged_cell(seed, folder):
    """The file of a cell is damaged: it is named, left out of the tables, and computed again."""
    rng, out = np.random.RandomState(seed), _copy(folder)
    whole = RunFolder.open(out)
    stem = list(whole.read_run()["cells"])[rng.randint(3)]
    path = out / "cells" / f"{stem}.npz"
    damage = f"seed {seed}: {_damage_cell(path, rng)}"
    found = RunFolder.open(out)
    finished = found.finished()
    assert set(finished) >= whole.read_run()["cells"].keys() - {stem}, f"{damage}: others were left out"
    if stem in finished:
        assert _same(found.find(stem), stem), f"{damage}: another result was read"
    elif os.path.lexists(path):
        assert str(path) in found.damaged[stem], f"{damage}: not named"
    assert len(list(found.results())) == len(list(found.results(()))) == len(finished), damage
    said = io.StringIO()
    say_what_is_missing(Console(file=said, width=1000), found)
    assert ("fits are missing" in said.getvalue()) == (len(finished) < 3), damage
    found.write_tables()
    if (refusal := _refusal(lambda: _run(out))) is not None:
        assert path.is_dir(), f"{damage}: {refusal}"
        assert str(path) in refusal, f"{damage}: {refusal}"
        return
    assert (out / "results.jsonl").read_bytes() == _undisturbed()[1], f"{damage}: other results"


def damaged_run(seed, folder):
    """``run.json`` is damaged: it is refused by name, or what it says is what was written."""
    need_commands()
    rng, out = np.random.RandomState(seed), _copy(folder)
    path = out / "run.json"
    before = RunFolder.open(out).read_run()
    damage = f"seed {seed}: {_damage_run(path, rng)}"
    refusal = _refusal(lambda: RunFolder.open(out).read_run())
    if refusal is None:
        assert RunFolder.open(out).read_run() == before, f"{damage}: taken for a run"
    else:
        assert "run.json" in refusal, f"{damage}: {refusal}"
    if seed % 4 == 0:  # figures take time
        said = CliRunner().invoke(cli.make_app(), ["report", str(out)])
        assert isinstance(said.exception, PncaError | None), f"{damage}: {said.exception!r}"
        assert (said.exception is None) == (refusal is None), f"{damage}: {said.exception}"
    _resume(out, damage, refusal)


def _resume(out, damage, refusal):
    """Continue the run; if ``run.json`` was refused, after it was deleted as the refusal says."""
    path = out / "run.json"
    kept = {cell: cell.stat().st_mtime_ns for cell in (out / "cells").iterdir()}
    if refusal is not None and path.exists():
        again = _refusal(lambda: _run(out))
        assert again == refusal, f"{damage}: {again}"
        path.rmdir() if path.is_dir() else path.unlink()
    assert _refusal(lambda: _run(out)) is None, damage
    assert {cell: cell.stat().st_mtime_ns for cell in kept} == kept, f"{damage}: computed again"
    assert (out / "results.jsonl").read_bytes() == _undisturbed()[1], f"{damage}: other results"


def _damage_cell(path, rng):
    """Damage the file of a cell in some way, and say in which."""
    others = sorted(other for other in path.parent.iterdir() if other != path)
    obstacles = {
        "absent": lambda: path.unlink(),
        "a folder": lambda: (path.unlink(), path.mkdir()),
        "a link to another": lambda: (path.unlink(), path.symlink_to(others[0])),
        "a link to nowhere": lambda: (path.unlink(), path.symlink_to("nowhere")),
        "a link to itself": lambda: (path.unlink(), path.symlink_to(path)),
        "another cell": lambda: shutil.copy(others[0], path),
    }
    return _one_of(rng, path, obstacles, lambda: _forge(path, rng))


def _forge(path, rng):
    known = {**FORGERIES, **_OF_THE_STUDY}
    name, with_digests = sorted(known)[rng.randint(len(known))], bool(rng.randint(2))
    forge_cell(path, known[name], with_digests=with_digests)
    return f"{name}, {'with' if with_digests else 'without'} digests"


def _damage_run(path, rng):
    """Damage a ``run.json`` in some way, and say in which."""
    obstacles = {
        "a folder": lambda: (path.unlink(), path.mkdir()),
        "a link to nowhere": lambda: (path.unlink(), path.symlink_to("nowhere")),
        "a link to itself": lambda: (path.unlink(), path.symlink_to(path)),
        "another file": lambda: path.write_text(json.dumps({"cells": []})),
    }

    def forge():
        change, with_digest = RUN_FORGERIES[rng.randint(len(RUN_FORGERIES))], bool(rng.randint(2))
        forge_run(path, lambda run: run.update(change), with_digest=with_digest)
        return f"{change}, {'with' if with_digest else 'without'} a digest"

    return _one_of(rng, path, obstacles, forge)


def _one_of(rng, path, obstacles, forge):
    """Change bytes, forge content, or put something else in the place of a file."""
    kind = rng.randint(3)
    if kind == 0:
        name, content = any_damage(path.read_bytes(), rng)
        path.write_bytes(content)
        return name
    if kind == 1:
        return forge()
    name = sorted(obstacles)[rng.randint(len(obstacles))]
    obstacles[name]()
    return name


def _run(out):
    """Continue the run in a folder."""
    assert run_study(make_study(), RunFolder.create(out, resume=True), Engine()) == []


def _refusal(call):
    """What one of our own errors says; None if nothing is refused."""
    try:
        call()
    except PncaError as error:
        return str(error)
    return None


def _same(result, stem):
    """Whether a result is that of a cell, in all that counts."""
    cells = {make_study().stem(cell): cell for cell in make_study().cells}
    wanted = make_result(cells[stem].number)
    return (result.columns, result.measures) == (wanted.columns, wanted.measures) and all(
        np.array_equal(getattr(given, part), getattr(wanted.answers[name], part))
        for name, given in result.answers.items()
        for part in ("compact", "labels", "evidence")
        if getattr(wanted.answers[name], part) is not None
    )


def _copy(folder):
    """A complete run in a folder of its own."""
    return shutil.copytree(_undisturbed()[0], folder / "run")


@cache
def _undisturbed():
    """The folder and the results of a run that nobody damaged; the folder ends with the process."""
    holder = tempfile.TemporaryDirectory()
    out = Path(holder.name) / "run"
    run_study(make_study(), RunFolder.create(out, resume=False), Engine())
    return out, (out / "results.jsonl").read_bytes(), holder
