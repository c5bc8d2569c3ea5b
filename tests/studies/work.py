"""Work for the grid that a worker process can import, and that does what its cell says."""

import os
import signal
import time
import warnings
from pathlib import Path

import numpy as np
import torch

from pnca_studies.experiments.answers import Answers, compress, measure
from pnca_studies.experiments.cells import CellResult


def simple_work(cell, data):
    """A cell is (kind, number); the answer depends on the number and the data alone."""
    kind, number = cell
    if kind == "fails":
        raise ArithmeticError(f"cell {number} diverged")
    if kind == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "dies once":
        if Path(number).exists():
            Path(number).unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        number = 0
    if kind == "warns":
        warnings.warn("scale the inputs", stacklevel=1)
    if kind == "slow":
        time.sleep(0.3)
    logs = np.log([[0.25, 0.75], [0.5, 0.5]]) * number + data[:2, None]
    answers = {"test": Answers(compact=compress(logs), labels=np.array([0, 1], np.uint8))}
    details = {"threads": torch.get_num_threads(), "seconds": {"fit_seconds": 0.0}, "pid": os.getpid()}
    return CellResult(
        columns={"experiment": "simple", "draw": number, "model": kind},
        answers=answers,
        measures=measure(answers, "test"),
        details=details,
    )
