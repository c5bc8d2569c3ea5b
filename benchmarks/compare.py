"""Compare the speed of two source trees: fits, predictions, imports. ``compare.py /tmp/former/src src``.

Every time is that of a fresh process with ``PYTHONPATH`` set to its tree; the trees take turns, each first in
every other round. Nothing need be installed: this file imports ``pnca`` in those processes alone.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

#: Tasks that are a fit: class, columns of the 100 rows, and the device. The paper's models have its settings.
FITS: dict[str, tuple[str, int, str]] = {
    "paper's PNCA, 100 rows": ("PNCA", 784, "cpu"),
    "paper's BNN, 100 rows": ("BNN", 784, "cpu"),
    "paper's Ensemble, 100 rows": ("Ensemble", 784, "cpu"),
    "default fit, 100 rows of 784 columns": ("", 784, "cpu"),
    "default fit, 100 rows of 8 columns": ("", 8, "cpu"),
}
PREDICT = "predict_proba of 1,000 rows"
#: Tasks that are a whole process: arguments of the interpreter.
PROCESSES = {
    "import pnca": ["-c", "import pnca"],
    "from pnca import PNCAClassifier": ["-c", "from pnca import PNCAClassifier"],
    "pnca --help": ["-m", "pnca.interfaces.cli", "--help"],
}
ON_GPU = {"paper's PNCA, 100 rows, on the GPU": ("PNCA", 784, "cuda")}
LARGE = "default fit, 60,000 images, exact kernel, on the GPU"


def make_rows(n: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of ten classes that are hard to tell apart."""
    draw, labels = np.random.RandomState(0), np.arange(n) % 10
    rows = 0.3 * draw.uniform(size=(10, columns))[labels] + 0.7 * draw.uniform(size=(n, columns))
    return rows.astype(np.float32), labels


def make_task(name: str, *, is_tiny: bool, data_dir: str = "") -> Callable[[bool], object]:
    """What a process times; called with True for a short version that loads and compiles what is needed."""
    import pnca

    n, few = (40, 2) if is_tiny else (100, 2)
    if name == PREDICT:
        X, y = make_rows(n, 784)
        model = pnca.PNCAClassifier(max_epochs=few, n_folds=None, device="cpu", random_state=0).fit(X, y)
        new = make_rows(1000, 784)[0]
        return lambda is_first: model.predict_proba(new)
    if name == LARGE:
        with np.load(Path(data_dir) / "mnist.npz") as mnist:
            X, y = (mnist["x_train"].reshape(60_000, -1) / 255).astype(np.float32), mnist["y_train"]
        kind, device = "", "cuda"
    else:
        kind, columns, device = {**FITS, **ON_GPU}[name]
        X, y = make_rows(n, columns)
    settings: dict[str, Any] = {"device": device, "random_state": 0}
    settings |= pnca.paper_settings(kind, n_train=len(X)) if kind else {"kernel": "exact"}
    make = getattr(pnca, f"{kind or 'PNCA'}Classifier")

    def fit(is_first: bool) -> None:
        rows = slice(0, 100 if is_first else None)
        make(**settings | ({"max_epochs": few} if is_first or is_tiny else {})).fit(X[rows], y[rows])

    return fit


def run_task(name: str, tree: str, is_tiny: bool, data_dir: str) -> float:
    """Seconds of a task in this process: the median of as many runs as fit into a second, or of one."""
    import torch

    import pnca

    if not Path(pnca.__file__).resolve().is_relative_to(tree):
        sys.exit(f"compare.py: pnca was imported from {pnca.__file__}, not from {tree}.")
    task, taken = make_task(name, is_tiny=is_tiny, data_dir=data_dir), []
    task(True)
    while not taken or (sum(taken) < 1 and len(taken) < 20 and not is_tiny):
        start = time.perf_counter()
        task(False)
        if torch.cuda.is_initialized():
            torch.cuda.synchronize()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def seconds_in(tree: Path, name: str, chosen: argparse.Namespace) -> float:
    """Seconds of a task in a fresh process that finds this tree first."""
    inside = ["--run", name, str(tree), json.dumps(chosen.tiny), str(chosen.data_dir or "")]
    command = [sys.executable, *PROCESSES.get(name, [__file__, *inside])]
    start = time.perf_counter()
    said = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(tree)},
        stdout=subprocess.PIPE,
        text=True,
        cwd=tree,  # not where another pnca may lie
    )
    taken = time.perf_counter() - start
    if said.returncode:
        sys.exit(f"compare.py: {name!r} failed with {tree}: see above.")
    return taken if name in PROCESSES else float(json.loads(said.stdout.splitlines()[-1]))


def compare(name: str, chosen: argparse.Namespace) -> tuple[list[float], list[float]]:
    """Seconds of a task with either tree, by round."""
    taken: tuple[list[float], list[float]] = [], []
    trees = list(zip((chosen.former, chosen.new), taken, strict=True))
    if name in PROCESSES:
        for tree, _ in trees:  # a first time writes byte code and fills the disk cache
            seconds_in(tree, name, chosen)
    for k in range(chosen.rounds):
        for tree, seconds in trees if k % 2 == 0 else reversed(trees):
            seconds.append(seconds_in(tree, name, chosen))
    return taken


def ratio_interval(former: Sequence[float], new: Sequence[float]) -> tuple[float, float, float]:
    """Geometric mean of new / former over the rounds, with its 95 % interval by Student's t.

    Examples
    --------
    >>> [round(number, 3) for number in ratio_interval([1.0, 1.0, 1.0], [2.0, 2.0, 2.2])]
    [2.065, 1.801, 2.367]
    """
    logs = np.log(new) - np.log(former)
    error = stats.sem(logs) * stats.t.ppf(0.975, len(logs) - 1) if len(logs) > 1 else np.nan
    low, high = np.exp(logs.mean() - error), np.exp(logs.mean() + error)
    return float(np.exp(logs.mean())), float(low), float(high)


def row(name: str, former: Sequence[float], new: Sequence[float]) -> str:
    """A line of the table: medians and quartiles in seconds, the ratio, and what it says."""
    ratio, low, high = ratio_interval(former, new)
    is_known = len(new) > 1
    verdict = (
        "slower" if low > 1 else "faster" if high < 1 else "no difference seen" if is_known else "one round"
    )
    quartiles = (np.quantile(seconds, [0.25, 0.5, 0.75]) for seconds in (former, new))
    cells = ["{1:.4g} ({0:.4g} to {2:.4g})".format(*seconds) for seconds in quartiles]
    return f"| {name} | {' | '.join(cells)} | {ratio:.3f} ({low:.3f} to {high:.3f}) | {verdict} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare two trees."""
    parser = argparse.ArgumentParser(description=__doc__)
    folder = {"type": lambda text: Path(text).resolve()}
    parser.add_argument("former", **folder, help="Folder that holds the former package pnca.")
    parser.add_argument("new", **folder, help="Folder that holds the new one.")
    parser.add_argument("--rounds", type=int, default=5, help="Processes of each task and tree.")
    parser.add_argument("--only", nargs="+", default=[""], help="Tasks whose name contains one of these.")
    parser.add_argument("--large", action="store_true", help="On a GPU: all of MNIST too, from --data-dir.")
    parser.add_argument("--data-dir", **folder, help="Folder with mnist.npz.")
    parser.add_argument("--tiny", action="store_true", help="Toy sizes and one round: to see that it works.")
    chosen = parser.parse_args(arguments)
    for tree in (chosen.former, chosen.new):
        if not (tree / "pnca" / "__init__.py").is_file():
            parser.error(f"{tree} holds no package pnca.")
    if chosen.large and not (chosen.data_dir and (chosen.data_dir / "mnist.npz").is_file()):
        parser.error("--large needs --data-dir, a folder with mnist.npz.")
    chosen.rounds = 1 if chosen.tiny else chosen.rounds
    import torch

    on_gpu = [*ON_GPU, *([LARGE] if chosen.large else [])] if torch.cuda.is_available() else []
    print("| task | former, s | new, s | new / former (95 %) | |\n|---|--:|--:|--:|---|")
    for name in (*FITS, PREDICT, *PROCESSES, *on_gpu):
        if any(word in name for word in chosen.only):
            print(row(name, *compare(name, chosen)), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        _, _, task_name, its_tree, toy, folder = sys.argv
        print(run_task(task_name, its_tree, json.loads(toy), folder))
    else:
        main()
