"""Every error this library raises on purpose.

::

    Exception
    ├── PncaError
    │   ├── InvalidInputError    (also ValueError)    the data or a setting cannot be used as given
    │   ├── MissingDataError     (also FileNotFoundError) a data set is not on this machine
    │   ├── CorruptDataError     (also ValueError)    a file is truncated, altered or not what its name says
    │   ├── TrainingDivergedError (also ArithmeticError) the loss stopped being a number
    │   ├── WorkersLostError     (also RuntimeError)  the processes that do the work died
    │   └── MissingExtraError    (also ImportError)   an optional dependency is not installed

Each also derives from the built-in a scikit-learn user would catch. Two warnings have a class of their own,
so that they can be silenced or made errors: ``InconsistentVersionWarning`` and ``DriftWarning``.
"""


class InconsistentVersionWarning(UserWarning):
    """A pickle was written by another version; scikit-learn has a warning of this name for its own."""


class DriftWarning(UserWarning):
    """Decisions were asked for a batch that is clearly unlike the training data: the promise is void."""


class PncaError(Exception):
    """Base class: ``except PncaError`` catches whatever this library raises on purpose."""


class InvalidInputError(PncaError, ValueError):
    """The data or a setting cannot be used; the message says what to change."""


class MissingDataError(PncaError, FileNotFoundError):
    """A data set is not on this machine; the message says where to get it and where to put it."""


class CorruptDataError(PncaError, ValueError):
    """A file is truncated, altered or of another version; the message names it."""


class TrainingDivergedError(PncaError, ArithmeticError):
    """The training loss became infinite or NaN."""


class WorkersLostError(PncaError, RuntimeError):
    """The processes that do the work died; the message says what is left of it."""


class MissingExtraError(PncaError, ImportError):
    """An optional dependency is missing; the message names the extra that installs it."""

    def __init__(self, module: str, extra: str) -> None:
        super().__init__(f"This needs {module!r}, which is not installed: run  pip install 'pnca[{extra}]'")
