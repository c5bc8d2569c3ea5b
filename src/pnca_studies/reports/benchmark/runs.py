"""Folders of runs: the cells they hold, and how they were made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pnca.exceptions import InvalidInputError
from pnca_studies.experiments.cells import CellResult, fingerprint
from pnca_studies.experiments.contenders import CONTENDERS, TRIVIAL
from pnca_studies.experiments.store import RunFolder
from pnca_studies.reports.benchmark.measures import SECONDS
from pnca_studies.reports.benchmark.results import ABOUT, COVID, IMAGES, MNIST, PNCA, Results, is_gpu
from pnca_studies.reports.benchmark.writing import listed
from pnca_studies.reports.frame import Row
from pnca_studies.reports.run import command
from pnca_studies.rivals import RIVALS

#: The studies that have a document of this kind, and the command that runs each.
_COMMANDS = {"benchmark": "pnca benchmark", "choices": "pnca benchmark --choices"}
_ALONE = {
    "benchmark": "the benchmark has a document of its own",
    "choices": "the choices have a document of their own",
}


@dataclass(frozen=True, kw_only=True)
class Run:
    """A folder by its ``run.json`` and by its finished fits; a device that cannot be told is empty."""

    name: str
    record: Mapping[str, Any]
    n_done: int
    devices: frozenset[str]
    data_sets: tuple[str, ...]
    models: tuple[str, ...]
    sizes: tuple[int, ...]


def read_runs(
    folders: Sequence[RunFolder], study: str = "benchmark", models: Sequence[str] = CONTENDERS
) -> tuple[Results, list[Run]]:
    """Merge the finished cells of folders of one study; the last folder that has a cell counts."""
    cells: dict[tuple[Any, ...], list[Row]] = {}
    runs = []
    for folder in folders:
        run = folder.read_run()
        if run["study"] != study:
            raise InvalidInputError(
                f"{folder.path} holds a run of {run['study']}; {_ALONE[study]}, so name folders "
                f"of the {study} alone."
            )
        found: dict[tuple[Any, ...], list[Row]] = {}
        for stem in run["cells"]:
            if (result := folder.find(stem)) is not None:
                # Those of the latest session are listed first; what an earlier one left gives way.
                found.setdefault(tuple(result.columns.values()), cell_rows(stem, result, run))
        runs.append(_described(folder.path.name, run, list(found.values())))
        cells.update(found)
    results = Results((row for rows in cells.values() for row in rows), models)
    if not any(PNCA in results.models(place) for place in results.places):
        raise InvalidInputError(
            f"No fit of {PNCA} is finished in {listed([run.name for run in runs])}, and the document "
            f"compares it with the others: name a run with {PNCA} too."
        )
    return results, runs


def _described(name: str, record: Mapping[str, Any], cells: Sequence[Sequence[Row]]) -> Run:
    """A run by the cells it has: several sessions may have filled its folder, and it records the last."""
    of_cells = [rows[-1] for rows in cells]
    return Run(
        name=name,
        record=record,
        n_done=len(cells),
        devices=frozenset(str(row["device"]) for row in of_cells),
        data_sets=tuple(dict.fromkeys(str(row["data"]) for row in of_cells)),
        models=tuple(dict.fromkeys(str(row["model"]) for row in of_cells)),
        sizes=tuple(sorted({int(row["n_train"]) for row in of_cells})),
    )


def has_fit(folder: RunFolder, model: str = PNCA) -> bool:
    """Whether a fit of a model is finished."""
    found = (folder.find(stem) for stem in folder.read_run()["cells"])
    return any(result is not None and result.columns["model"] == model for result in found)


def cell_rows(stem: str, result: CellResult, run: Mapping[str, Any]) -> list[Row]:
    """Turn a cell into rows: one a test set and, as the last, one with its seconds and its device."""
    seconds = {"test_set": SECONDS, **result.details["seconds"], "device": _device(stem, result, run)}
    return [*result.rows(), {**result.columns, **seconds}]


def _device(stem: str, result: CellResult, run: Mapping[str, Any]) -> str:
    """Where a cell was trained, or nothing if it cannot be told."""
    model = result.columns["model"]
    if model in (*RIVALS, *TRIVIAL):
        return "cpu"  # whatever was asked for
    if "device" in result.details:
        return str(result.details["device"])
    # The name of a cell's file ends in a hash of what decides its result; the device is among that.
    described = run.get("models", {}).get(model, {})
    estimator, changes = described.get("estimator", model), described.get("changes", {})
    for device in ("cpu", "cuda"):
        decides = [result.columns, estimator, {"device": device, **changes}, run["protocol"], run["versions"]]
        if stem.endswith(fingerprint(decides)):
            return device
    return ""


def made_by(runs: Sequence[Run], path: Path) -> str:
    """Say as Markdown how a document came about: commands, numbers of fits, hardware and versions."""
    lines = ["Made by", "", "```sh", *(_command(run) for run in runs)]
    lines += [f"pnca report {' '.join(run.name for run in runs)} --out {path.as_posix()}", "```", ""]
    for run in runs:
        hardware, n_cells = run.record["hardware"], len(run.record["cells"])
        done = f"{n_cells} fits" if run.n_done >= n_cells else f"**{run.n_done} of {n_cells} fits**"
        failed = f", **{len(run.record['failed'])} failed**" if run.record["failed"] else ""
        versions = ", ".join(f"{name} {version}" for name, version in run.record["versions"].items())
        machine = f"{hardware['processor']}, {hardware['cores']} cores, {hardware['system']}"
        lines.append(f"- `{run.name}`: {done}{failed}; {machine}; {versions}.")
    return "\n".join(lines) + "\n"


def _command(run: Run) -> str:
    study, options = run.record["study"], dict(run.record["options"])
    options["train_sizes"] = run.sizes if options["train_sizes"] else None
    options["models"] = run.models if options["models"] else None
    words = [
        command({**run.record, "options": options}).replace(f"pnca reproduce {study}", _COMMANDS[study], 1)
    ]
    words += [f"--data-sets '{','.join(run.data_sets)}'"] if set(run.data_sets) != set(ABOUT) else []
    words += ["--data-dir DATA"] if {MNIST, IMAGES, COVID} & set(run.data_sets) else []
    words += ["--device cuda"] if is_gpu(run.devices) else []
    return " ".join([*words, f"--out {run.name}"])
