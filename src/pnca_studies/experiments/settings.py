"""What each table and figure of the paper needs, read from ``paper/*.toml``.

``models.toml`` names the models; every other file is one exhibit: a table or a figure.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from pnca import estimators
from pnca.estimators import paper_settings
from pnca.estimators.base import ParticleClassifier
from pnca.exceptions import InvalidInputError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: What an exhibit may be: which experiment it belongs to and how it is shown.
EXPERIMENTS = ("mnist", "covid", "ablation")
KINDS = ("table", "confidence", "angles", "conditions", "ablation")
# Files beside the exhibits: names of models, and questions about PNCA's own settings.
_NOT_EXHIBITS = ("models", "choices")

_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class ModelSettings:
    """A model by name.

    Attributes
    ----------
    name : str
        Its name in tables and figures.
    estimator : str
        ``"DNN"``, ``"BNN"``, ``"Ensemble"``, ``"NCA"`` or ``"PNCA"``.
    settings : str
        ``"paper"`` or ``"default"``.
    changes : mapping
        Constructor arguments that differ from those settings.
    """

    name: str
    estimator: str
    settings: str
    changes: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        _check_choice(self.name, "estimator", self.estimator, ("DNN", "BNN", "Ensemble", "NCA", "PNCA"))
        _check_choice(self.name, "settings", self.settings, ("paper", "default"))
        # Seed and device are the grid's.
        known = set(self._class._get_param_names()) - {"random_state", "device"}
        if unknown := sorted(self.changes.keys() - known):
            raise InvalidInputError(
                f"{self.name}: {self.estimator} has no arguments {unknown}; it has {sorted(known)}."
            )

    @property
    def _class(self) -> type[ParticleClassifier]:
        model: type[ParticleClassifier] = getattr(estimators, f"{self.estimator}Classifier")
        return model

    def arguments(self, experiment: str, n_train: int) -> dict[str, Any]:
        """Constructor arguments for an experiment (``"mnist"`` or ``"covid"``) with so many examples.

        Parameters
        ----------
        experiment : str
            Whose settings ``"paper"`` means.
        n_train : int
            Training examples.

        Returns
        -------
        dict
        """
        base = paper_settings(self.estimator, experiment, n_train) if self.settings == "paper" else {}
        return {**base, **self.changes}

    def build(self, experiment: str, n_train: int, random_state: int) -> ParticleClassifier:
        """Make the unfitted model.

        Parameters
        ----------
        experiment : str
            Whose settings ``"paper"`` means.
        n_train : int
            Training examples.
        random_state : int
            Its seed.

        Returns
        -------
        ParticleClassifier
            On the CPU, so that every worker of a grid computes the same.
        """
        arguments = self.arguments(experiment, n_train)
        return self._class(**arguments, random_state=random_state, device="cpu")


@dataclass(frozen=True, kw_only=True)
class Exhibit:
    """One table or figure: which fits it shows, and what the paper prints there.

    Attributes
    ----------
    name : str
        The file's name.
    experiment, kind : str
        One of ``EXPERIMENTS`` and one of ``KINDS``.
    title : str
        Heading.
    in_paper : str
        Where the paper shows it; empty for what goes beyond the paper.
    models : tuple of str
        Names from ``models.toml``, in order.
    trials : int
        Draws of the training set, or of the partition into folds.
    train_sizes : tuple of int
        Numbers of training images (MNIST).
    angles : tuple of int
        Rotations in degrees (MNIST).
    features, labels, folds : tuple of str
        Which features, labels and partitions (COVID).
    columns : tuple of str
        Test sets of a table.
    panels : tuple of str
        Test set and curve of each panel of a figure, such as ``"rotated count"``.
    paper : mapping of model to mapping of column to (mean, standard deviation) or (mean,)
        The paper's numbers.
    """

    name: str
    experiment: str
    kind: str
    title: str
    models: tuple[str, ...]
    trials: int
    in_paper: str = ""
    train_sizes: tuple[int, ...] = ()
    angles: tuple[int, ...] = ()
    features: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    folds: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    panels: tuple[str, ...] = ()
    paper: Mapping[str, Mapping[str, list[float]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_choice(self.name, "experiment", self.experiment, EXPERIMENTS)
        _check_choice(self.name, "kind", self.kind, KINDS)
        for key, known in (
            ("features", ("plain", "equalised")),
            ("labels", ("paper", "any_covid")),
            ("folds", ("random", "grouped")),
        ):
            for value in getattr(self, key):
                _check_choice(self.name, key, value, known)
        if not self.models:
            raise InvalidInputError(f"{self.name}: models is empty.")
        for key, values in (("trials", (self.trials,)), ("train_sizes", self.train_sizes)):
            if any(value < 1 for value in values):
                raise InvalidInputError(f"{self.name}: {key} must be positive.")


def settings_folder() -> Path:
    """Folder of the settings, which are part of the package."""
    return Path(__file__).parent / "paper"


def load_models(folder: Path | None = None) -> dict[str, ModelSettings]:
    """Read ``models.toml``.

    Parameters
    ----------
    folder : Path, optional
        By default :func:`settings_folder`.

    Returns
    -------
    dict of str to ModelSettings
    """
    path = (folder or settings_folder()) / "models.toml"
    try:
        return {name: _build(ModelSettings, name, table) for name, table in read_toml(path).items()}
    except InvalidInputError as error:
        raise InvalidInputError(f"{path.name}: {error}") from None


def load_exhibits(experiment: str, folder: Path | None = None) -> dict[str, Exhibit]:
    """Read the tables and figures of an experiment.

    Parameters
    ----------
    experiment : str
        One of ``EXPERIMENTS``.
    folder : Path, optional
        By default :func:`settings_folder`.

    Returns
    -------
    dict of str to Exhibit
        By file name without ending, those of the paper first.
    """
    _check_choice("load_exhibits", "experiment", experiment, EXPERIMENTS)
    folder = folder or settings_folder()
    known = load_models(folder)
    exhibits = []
    for path in sorted(path for path in folder.glob("*.toml") if path.stem not in _NOT_EXHIBITS):
        try:
            exhibit = _build(Exhibit, path.stem, read_toml(path))
            for name in (*exhibit.models, *exhibit.paper):
                _check_choice(exhibit.name, "model", name, tuple(known))
        except InvalidInputError as error:
            raise InvalidInputError(f"{path.name}: {error}") from None
        exhibits.append(exhibit)
    found = [exhibit for exhibit in exhibits if exhibit.experiment == experiment]
    return {exhibit.name: exhibit for exhibit in sorted(found, key=_place)}


def _place(exhibit: Exhibit) -> tuple[bool, bool, str]:
    """What the paper has comes first, and its table before its figures."""
    return not exhibit.in_paper, not exhibit.in_paper.startswith("Table"), exhibit.in_paper


def read_toml(path: Path) -> dict[str, Any]:
    """Read a settings file.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    dict
    """
    try:
        table: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"it cannot be read: {error}.") from error
    return table


def _build(kind: Callable[..., _T], name: str, table: Any) -> _T:  # noqa: ANN401
    """Make a frozen value from a TOML table; a misspelt, missing or mistyped key is an error."""
    if not isinstance(table, dict):
        raise InvalidInputError(f"{name}: expected a table of settings, but found {table!r}.")
    known: dict[str, Field[Any]] = {f.name: f for f in fields(kind) if f.name != "name"}  # type: ignore[arg-type]
    if unknown := sorted(table.keys() - known.keys()):
        raise InvalidInputError(f"{name}: unknown keys {unknown}; known keys are {sorted(known)}.")
    required = {n for n, f in known.items() if f.default is MISSING and f.default_factory is MISSING}
    if missing := sorted(required - table.keys()):
        raise InvalidInputError(f"{name}: the keys {missing} are missing.")
    hints = get_type_hints(kind)
    return kind(name=name, **{key: _convert(name, key, value, hints[key]) for key, value in table.items()})


def _convert(name: str, key: str, value: Any, hint: Any) -> Any:  # noqa: ANN401
    """Check a value against ``str``, ``int``, ``tuple[..., ...]`` or a mapping; TOML arrays become tuples."""
    if get_origin(hint) is tuple and isinstance(value, list):
        return tuple(_convert(name, key, item, get_args(hint)[0]) for item in value)
    expected = get_origin(hint) or hint
    if not isinstance(value, expected) or isinstance(value, bool):
        kind = "a list" if expected is tuple else getattr(expected, "__name__", str(expected))
        raise InvalidInputError(f"{name}: {key} must be {kind}, but it is {value!r}.")
    return value


def _check_choice(name: str, key: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InvalidInputError(f"{name}: unknown {key} {value!r}; known are {', '.join(known)}.")
