"""Memory and time of ``pnca predict`` on a large table, against the same from arrays with pandas.

    nice python benchmarks/predicting_files.py --rows 1000000 --columns 50

Each run is a fresh process. Rows come in parts, so memory must not grow with them; reading, checking and
writing parts must cost little beside the predictions. Each is a row of
``results/predicting_files.csv``.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

N_TRAIN = 200
_IMPORTS = (
    f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); from pathlib import Path; "
    "import predicting_files; from predicting_files import by_arrays, make_files; "
)
RESULTS = Path(__file__).parent / "results" / "predicting_files.csv"


def make_files(folder: Path, numbers: tuple[int, int], n_columns: int) -> None:
    """A model of ``N_TRAIN`` rows, and tables of few and many rows."""
    import pandas as pd

    import pnca

    rng = np.random.default_rng(0)
    names = [f"x{i}" for i in range(n_columns)]
    X, noise = rng.normal(size=(N_TRAIN, n_columns)), rng.normal(size=N_TRAIN)
    y = np.where(X[:, :5].sum(axis=1) + noise > 0, "ill", "well")
    model = pnca.PNCAClassifier(random_state=0).fit(pd.DataFrame(X, columns=names), y)
    pnca.save(model, folder / "model.pnca")
    for n in set(numbers):
        rows = pd.DataFrame(rng.normal(size=(n, n_columns)), columns=names)
        rows.insert(0, "sample", [f"S{i}" for i in range(n)])
        rows.to_csv(folder / f"{n}.csv", index=False)


def make_in_a_process(folder: Path, numbers: tuple[int, int], n_columns: int) -> None:
    """Make the files elsewhere: the peak of a process begins with what its parent held at its start."""
    code = f"make_files(Path({str(folder)!r}), {numbers!r}, {n_columns})"
    subprocess.run(
        [sys.executable, "-c", f"{_IMPORTS}predicting_files.N_TRAIN = {N_TRAIN}; {code}"], check=True
    )


def by_arrays(folder: str, n: int) -> None:
    """The same outputs by pandas and the methods of the model."""
    import pandas as pd

    import pnca

    model = pnca.load(f"{folder}/model.pnca")
    rows = pd.read_csv(f"{folder}/{n}.csv")
    X = rows[model.feature_names_in_]
    said = model.decide(X).to_frame()
    said.insert(0, "sample", rows["sample"])
    classes = model.classes_.astype(object)
    said["set"] = ["; ".join(classes[row]) for row in model.predict_set(X)]
    for c, proba in zip(classes, model.predict_proba(X).T, strict=True):
        said[f"probability_{c}"] = proba
    places, shares = model.neighbors(X, k=3)
    said["examples"] = ["; ".join(map(str, row)) for row in places]
    said["shares"] = ["; ".join(f"{share:.3f}" for share in row) for row in shares]
    said.to_csv(f"{folder}/arrays.csv", index=False)


def measured(command: list[str], folder: Path) -> dict[str, float]:
    """Seconds and peak memory in MB of a process."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    process.returncode = 0
    cpu = usage.ru_utime + usage.ru_stime
    return {"seconds": time.perf_counter() - start, "cpu_seconds": cpu, "peak_mb": usage.ru_maxrss / 1024}


def main(arguments: list[str] | None = None) -> None:
    """Measure, and write a row for each process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--few", type=int, default=10_000, help="rows above which memory must not grow")
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args(arguments)
    found = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make_in_a_process(folder, (given.few, given.rows), given.columns)
        for n in (given.few, given.rows):
            for name, command in commands(n).items():
                taken = measured(command, folder)
                found.append({"what": name, "rows": n, "columns": given.columns, **taken})
                print(found[-1], flush=True)
                write(given.out, found)  # at once: a run that is stopped keeps what it measured
    few, _, many, arrays = found
    print(f"peak memory above {given.few} rows: {many['peak_mb'] - few['peak_mb']:.0f} MB")
    print(f"seconds of the processor, of those by arrays: {many['cpu_seconds'] / arrays['cpu_seconds']:.2f}")


def write(path: Path, found: list[dict[str, Any]]) -> None:
    """Write a row for each process."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, found[0])
        writer.writeheader()
        writer.writerows(found)


def commands(n: int) -> dict[str, list[str]]:
    """The command on the file of n rows, and the same by arrays."""
    files = ["model.pnca", f"{n}.csv", "-o", "p.csv", "--force"]
    own = f"{_IMPORTS}by_arrays('.', {n})"
    return {
        "command": [sys.executable, "-m", "pnca", "predict", *files],
        "arrays": [sys.executable, "-c", own],
    }


if __name__ == "__main__":
    main()
