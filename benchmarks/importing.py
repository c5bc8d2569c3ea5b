"""Waiting to begin: what importing pnca and asking it for help take, in fresh processes."""

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from measuring import finish, median, parser, spread
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


def run_seconds(command: Sequence[str]) -> float:
    """Seconds that a fresh interpreter takes from start to end."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *command], check=True, capture_output=True)
    return time.perf_counter() - start


def measure(repeats: int, run: Callable[[Sequence[str]], float] = run_seconds) -> dict[str, list[float]]:
    """Run every command in turn, several times, after one round that fills the disk cache.

    Parameters
    ----------
    repeats : int
        Rounds that count.
    run : callable
        Runs a command and returns its seconds.

    Returns
    -------
    dict of str to list of float
    """
    rounds = [{name: run(command) for name, command in COMMANDS.items()} for _ in range(repeats + 1)]
    return {name: [taken[name] for taken in rounds[1:]] for name in COMMANDS}


def make_records(taken: Mapping[str, Sequence[float]]) -> list[Record]:
    """Turn the times of whole processes into what each import adds to others.

    Parameters
    ----------
    taken : mapping of str to sequence of float
        Seconds by command, in the order of the rounds.

    Returns
    -------
    list of Record
    """
    within = Target(text="under .3 s beyond torch", at_most=0.3)

    def beyond(name: str, base: str) -> list[float]:
        return [a - b for a, b in zip(taken[name], taken[base], strict=True)]

    torch_alone = Reference(name="import torch", seconds=median(beyond("torch", "nothing")))
    library = Reference(
        name="scikit-learn's base class alone", seconds=median(beyond("torch, scikit-learn", "torch"))
    )
    return [
        Record(
            name="import pnca, beyond torch",
            **spread(beyond("torch, pnca", "torch")),
            alternatives=(torch_alone,),
            targets=(within,),
        ),
        Record(
            name="from pnca import PNCAClassifier, beyond torch",
            **spread(beyond("torch, PNCAClassifier", "torch")),
            alternatives=(torch_alone,),
            floors=(library,),
            targets=(within,),
            note="an estimator is a subclass of scikit-learn's",
        ),
        Record(
            name="from pnca import PNCAClassifier, beyond torch and scikit-learn",
            **spread(beyond("torch, PNCAClassifier", "torch, scikit-learn")),
            alternatives=(torch_alone,),
            targets=(Target(text="under .3 s", at_most=0.3),),
        ),
        Record(
            name="pnca --help",
            **spread(taken["help"]),
            alternatives=(torch_alone,),
            floors=(Reference(name="an interpreter that does nothing", seconds=median(taken["nothing"])),),
            targets=(Target(text="under .5 s", at_most=0.5),),
        ),
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    chosen = parser(__doc__, repeats=9).parse_args(arguments)
    finish(chosen, "importing", [make_records(measure(1 if chosen.tiny else chosen.repeats))])


if __name__ == "__main__":
    main()
