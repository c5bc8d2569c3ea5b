"""The full trial: thousands of small random cases of everything that users, files and machines do.

    python tests/robustness/full.py --workers 8 --out results.json       # all of it
    python tests/robustness/full.py --only small_fit --seed 123           # one case again
    python tests/robustness/full.py --merge a.json b.json --out tests/robustness/results.json
    python tests/robustness/full.py --document docs/reliability.md        # the table, from the stored results

It needs Python, this folder and what the library itself needs; cases that need more are skipped and counted.
"""

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).resolve().parents[1]
# This folder itself must not be searched: its modules have common names.
sys.path[:] = [str(TESTS), str(TESTS.parent / "src")] + [
    entry for entry in sys.path if entry and Path(entry).resolve() != TESTS / "robustness"
]
RESULTS = TESTS / "robustness" / "results.json"
BEGIN, END = "<!-- results of tests/robustness/full.py -->", "<!-- end of the results -->"


class Task(NamedTuple):
    """A function of a module of this package that does one random case."""

    module: str
    count: int
    what: str
    seconds: float = 60.0  # how long a case may take


TASKS = {
    "default_fit": Task(
        "small_fits", 100, "`PNCAClassifier()` on 20 to 40 rows of odd data, odd queries", 600
    ),
    "killed_study": Task("study_kills", 20, "a study is killed at a random moment and resumed", 600),
    "killed_fit": Task("kills", 80, "a fit with checkpoints is killed at a random moment and resumed", 300),
    "interrupted_fit": Task("interrupts", 100, "a fit gets Ctrl-C at a random moment, or twice", 300),
    "failing_folder": Task("checkpoint_folders", 100, "a folder of checkpoints that fails in some way", 120),
    "damaged_checkpoint": Task("checkpoints", 500, "a damaged or forged checkpoint", 120),
    "damaged_model": Task("model_files", 10_000, "a damaged or forged file of a model", 120),
    "damaged_cell": Task("cells", 500, "a damaged result of a study", 120),
    "damaged_run": Task("cells", 300, "a damaged folder of a study", 120),
    "damaged_data": Task("data_damage", 600, "a damaged file of images or arrays"),
    "damaged_features": Task("cache_damage", 400, "a damaged cache of features, or network file"),
    "bomb": Task("bombs", 60, "a small file that would unpack to gigabytes"),
    "small_fit": Task("small_fits", 3000, "odd parameters, data, labels and queries, legal or not"),
    "odd_table": Task("tables", 300, "a pandas table of odd columns, fitted; asked about odd tables"),
    "decision": Task("decisions", 2000, "a question to `decide` and the like, legal or not, on odd inputs"),
    "metric_call": Task("metrics", 1000, "a metric of legal or illegal arrays"),
    "same_under_batches": Task("invariance", 100, "predictions do not depend on who else asks", 300),
    "same_under_dtype": Task(
        "invariance", 100, "equal numbers in other types and layouts are equal inputs", 300
    ),
    "same_under_threads": Task("invariance", 100, "the threads of torch and of the user do not matter", 300),
    "same_under_row_order": Task("invariance", 100, "the order of the training rows does not matter", 120),
    "seeds": Task("invariance", 100, "`random_state` 0 to 99 all give an accurate model"),
}


def absent(task):
    """Why a task cannot be run here; None if it can."""
    module = TASKS[task].module
    try:
        if hasattr(importlib.import_module(f"robustness.{module}"), task):
            return None
    except ModuleNotFoundError as error:
        if error.name != f"robustness.{module}":
            return None  # its cases are skipped
        return f"there is no robustness/{module}.py"
    except Exception as error:
        return f"robustness/{module}.py cannot be imported ({type(error).__name__}: {error})"
    return f"robustness/{module}.py has no {task}()"


# --- running --------------------------------------------------------------------------------------------


def run(options):
    """Run what was asked for; the results, by task."""
    from robustness.pool import Case, run_cases

    names = [name for name in TASKS if name in (options.only or TASKS)]
    counts = dict(item.split("=") for item in options.count)
    cases, found = [], {}
    for name in names:
        task = TASKS[name]
        if (reason := absent(name)) is not None:
            print(f"{name}: absent, {reason}")
            continue
        n = 1 if options.seed is not None else int(counts.get(name, task.count))
        if n == 0:
            continue
        first = options.first if options.seed is None else options.seed
        found[name] = {"run": 0, "skipped": 0, "seconds": 0.0, "seeds": [[first, first + n]], "failures": []}
        cases += [Case(name, task.module, name, seed, task.seconds) for seed in range(first, first + n)]
    said = began = time.monotonic()
    for done, outcome in enumerate(run_cases(cases, options.workers, int(options.gigabytes * 2**30)), 1):
        record(found[outcome.case.task], outcome)
        if done == len(cases) or time.monotonic() > said + 15:
            said = time.monotonic()
            n_failed = sum(len(result["failures"]) for result in found.values())
            print(f"{done} of {len(cases)} cases, {n_failed} failures, {said - began:.0f} s", flush=True)
    return {"runs": [machine(options)], "tasks": found}


def record(result, outcome):
    """Count an outcome; a failure is told at once, with the command that repeats it."""
    case = outcome.case
    result["seconds"] = round(result["seconds"] + outcome.seconds, 3)
    result["skipped" if outcome.verdict == "skipped" else "run"] += 1
    if outcome.verdict == "failed":
        result["failures"].append({"seed": case.seed, "message": outcome.message[-2000:]})
        print(f"\nFAILED: {outcome.message}", flush=True)
        print(f"    python tests/robustness/full.py --only {case.task} --seed {case.seed}", flush=True)


def machine(options):
    """Where and of what the results are."""
    import numpy
    import sklearn
    import torch

    return {
        "commit": options.commit or _commit(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        **{package.__name__: package.__version__.split("+")[0] for package in (torch, numpy, sklearn)},
    }


def _commit():
    try:
        command = ["git", "-C", str(TESTS), "rev-parse", "--short=12", "HEAD"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


# --- results --------------------------------------------------------------------------------------------


def merged(parts):
    """Results of several runs as one; an error if a case was run twice."""
    whole = {"runs": [], "tasks": {}}
    for part in parts:
        whole["runs"] += [one for one in part["runs"] if one not in whole["runs"]]
        for name, result in part["tasks"].items():
            if name not in whole["tasks"]:
                whole["tasks"][name] = json.loads(json.dumps(result))
                continue
            into = whole["tasks"][name]
            for first, stop in result["seeds"]:
                if any(first < other_stop and other < stop for other, other_stop in into["seeds"]):
                    raise SystemExit(f"{name}: both runs have seeds among {first} to {stop - 1}.")
            into.update({key: into[key] + result[key] for key in into})
            into["seconds"] = round(into["seconds"], 3)
    return whole


def table(results):
    """The results as a table in Markdown."""
    lines = ["| task | one case | cases | failures | skipped | seconds a case |", "|---|---|--:|--:|--:|--:|"]
    tasks = results["tasks"]
    for name in [name for name in TASKS if name in tasks]:
        result = tasks[name]
        n = result["run"] + result["skipped"]
        numbers = f"{result['run']:,} | {len(result['failures'])} | {result['skipped']}"
        lines.append(f"| `{name}` | {TASKS[name].what} | {numbers} | {result['seconds'] / max(n, 1):.2g} |")
    total, failed = (sum(f(result) for result in tasks.values()) for f in (_n_run, _n_failed))
    lines.append(f"| | **all** | **{total:,}** | **{failed}** | {sum(map(_n_skipped, tasks.values()))} | |")
    lines += [""] + [
        "Commit `{commit}`; {machine}; Python {python}, torch {torch}, numpy {numpy}, "
        "scikit-learn {sklearn}.".format(**one)
        for one in results["runs"]
    ]
    return "\n".join(lines)


def _n_run(result):
    return result["run"]


def _n_failed(result):
    return len(result["failures"])


def _n_skipped(result):
    return result["skipped"]


def documented(page, results):
    """A page with its table renewed."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n\n{table(results)}\n\n{END}{rest.split(END)[1]}"


# --- command line ---------------------------------------------------------------------------------------


def main(arguments=None):
    """Run the command line; the exit code is one if a case failed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--list", action="store_true", help="show the tasks and how many cases each has")
    parser.add_argument("--only", action="append", choices=TASKS, metavar="TASK", help="may be repeated")
    parser.add_argument("--count", action="append", default=[], metavar="TASK=N", help="may be repeated")
    parser.add_argument("--seed", type=int, help="the one case to run")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    parser.add_argument("--gigabytes", type=float, default=4.0, help="memory that a process may take")
    parser.add_argument("--commit", help="what to write down as the commit, where git cannot tell")
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="where results are written")
    parser.add_argument(
        "--merge", type=Path, nargs="+", metavar="FILE.json", help="run nothing, join results"
    )
    parser.add_argument("--document", type=Path, metavar="PAGE.md", help="renew the table of a page")
    options = parser.parse_args(arguments)
    if options.list:
        for name, task in TASKS.items():
            print(f"{name:22}{'absent' if absent(name) else task.count:>8}  {task.what}")
        return 0
    if options.document:
        results = json.loads(RESULTS.read_text(encoding="utf-8"))
        page = options.document.read_text(encoding="utf-8")
        options.document.write_text(documented(page, results), encoding="utf-8")
        return 0
    if options.merge:
        results = merged([json.loads(path.read_text(encoding="utf-8")) for path in options.merge])
    else:
        results = run(options)
    if options.out:
        options.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(table(results))
    return int(any(map(_n_failed, results["tasks"].values())))


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    sys.exit(main())
