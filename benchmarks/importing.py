"""Waiting to begin: what importing pnca and asking it for help take, in fresh processes."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial

from measuring import finish, interleaved, median, parser, spread
from records import Record, Reference, Target

#: What a process runs; each is started anew, in turn with the others.
COMMANDS: dict[str, list[str]] = {
    "nothing": ["-c", "pass"],
    "torch": ["-c", "import torch"],
    "torch, pnca": ["-c", "import torch; import pnca"],
    "torch, scikit-learn": ["-c", "import torch; import sklearn.base, sklearn.utils.validation"],
    "torch, PNCAClassifier": ["-c", "import torch; from pnca import PNCAClassifier"],
    "help": ["-m", "pnca.interfaces.cli", "--help"],
}


def start(command: Sequence[str]) -> None:
    """Run a fresh interpreter from start to end."""
    subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)


def make_records(taken: Mapping[str, Sequence[float]]) -> list[Record]:
    """Turn the times of whole processes, by round, into what each import adds to others."""

    def beyond(name: str, base: str) -> list[float]:
        return [a - b for a, b in zip(taken[name], taken[base], strict=True)]

    def record(name: str, seconds: Sequence[float], limit: str, at_most: float, **others: object) -> Record:
        target = Target(text=limit, at_most=at_most)
        return Record(name=name, **spread(seconds), alternatives=(torch_alone,), targets=(target,), **others)

    torch_alone = Reference(name="import torch", seconds=median(beyond("torch", "nothing")))
    base_class = median(beyond("torch, scikit-learn", "torch"))
    library = Reference(name="scikit-learn's base class alone", seconds=base_class)
    nothing = Reference(name="an interpreter that does nothing", seconds=median(taken["nothing"]))
    classifier = "from pnca import PNCAClassifier, beyond torch"
    limit = "under .3 s beyond torch"
    return [
        record("import pnca, beyond torch", beyond("torch, pnca", "torch"), limit, 0.3),
        record(
            classifier,
            beyond("torch, PNCAClassifier", "torch"),
            limit,
            0.3,
            floors=(library,),
            note="an estimator is a subclass of scikit-learn's",
        ),
        record(
            f"{classifier} and scikit-learn",
            beyond("torch, PNCAClassifier", "torch, scikit-learn"),
            "under .3 s",
            0.3,
        ),
        record("pnca --help", taken["help"], "under .5 s", 0.5, floors=(nothing,)),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    chosen = parser(__doc__, repeats=9).parse_args(arguments)
    tasks = {name: partial(start, command) for name, command in COMMANDS.items()}
    finish(chosen, "importing", [make_records(interleaved(tasks, 1 if chosen.tiny else chosen.repeats))])


if __name__ == "__main__":
    main()
