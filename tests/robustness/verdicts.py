"""What the hostile tests accept: a right result, or a clear refusal."""

import contextlib
import random
import re
import traceback
import warnings
from importlib.metadata import entry_points

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning, NotFittedError

from pnca.exceptions import PncaError

with contextlib.suppress(ImportError):
    import sklearn.callback  # noqa: F401  (loaded by a first fit, and draws from Python's generator)

#: Warnings of ours and of scikit-learn, as text; any other is a fault.
_EXPECTED = re.compile(
    "Only one example of class|The loss did not fall|less kernel mass from all others"
    "|distinct values become equal in single precision|column-vector y|valid feature names"
    "|X lacks (values in columns|far more values)|X holds values that no|unlike the training data|Not used: "
    "|looks like a number of the rows|tells the groups apart|holds (numbers|dates).* as text"
    "|The number of unique classes is greater than 50%|least populated class"
)


class Skipped(Exception):  # noqa: N818  (no error)
    """A case needs a package that is not installed."""


def need_commands():
    """Skip a case where the package is not installed: its commands are found by their entry points."""
    if not entry_points(group="pnca.commands"):
        raise Skipped("pnca is not installed, so it has no commands")


class Refused(Exception):  # noqa: N818  (an answer too)
    """A clear error was raised; the message is its own."""


@contextlib.contextmanager
def refusals(case):
    """Turn a clear error into Refused, and any other error or warning into a failure that names the case."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        except (AssertionError, Refused, Skipped):
            raise
        except Exception as error:
            if not is_clear(error):
                raise AssertionError(f"{case}: raw {type(error).__name__}: {error}") from error
            raise Refused(f"{type(error).__name__}: {error}") from error
        finally:
            seen = [w for w in caught if not _is_expected(w)]
    for warning in seen:
        raise AssertionError(
            f"{case}: {warning.category.__name__}: {warning.message} ({warning.filename}:{warning.lineno})"
        )


def is_clear(error):
    """Whether it is an error of ours, or one by which scikit-learn's checks refuse an argument."""
    if isinstance(error, PncaError | NotFittedError):
        return bool(str(error))
    if not isinstance(error, ValueError | TypeError):
        return False
    files = [frame.filename.replace("\\", "/") for frame in traceback.extract_tb(error.__traceback__)]
    ours = max((place for place, name in enumerate(files) if "/src/pnca/" in name), default=-1)
    return any("/sklearn/" in name for name in files[ours + 1 :]) and len(str(error)) > 10


def _is_expected(warning):
    known = ConvergenceWarning, DataConversionWarning, UserWarning
    return issubclass(warning.category, known) and bool(_EXPECTED.search(str(warning.message)))


@contextlib.contextmanager
def untouched_random_numbers(case, *, but_numpy=False):
    """The generators that the whole process shares go on as if nothing had happened."""
    before = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        yield
    finally:
        after = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
        same = torch.equal(before[0], after[0]) and before[2] == after[2]
        same = same and (but_numpy or str(before[1]) == str(after[1]))
        assert same, f"{case}: a random state of the whole process was changed"
