"""What each table and figure of the paper needs, read from ``paper/*.toml``.

``models.toml`` names the models; every other file is one exhibit: a table or a figure.
"""

import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

from pnca import estimators
from pnca.estimators import paper_settings
from pnca.estimators.base import ParticleClassifier
from pnca.exceptions import InvalidInputError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: Any of the library's models.
Classifier: TypeAlias = ParticleClassifier

EXPERIMENTS = ("mnist", "covid", "ablation")
KINDS = ("table", "confidence", "angles", "conditions", "ablation")
_CONDITIONS = {
    "features": ("plain", "equalised"),
    "labels": ("paper", "any_covid"),
    "folds": ("random", "grouped"),
}
# Files beside the exhibits: names of models, and questions about PNCA's own settings.
_NOT_EXHIBITS = ("models", "choices")

_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True)
class Model:
    """A model by name, and how it differs from its class's settings."""

    name: str  # in tables and figures
    estimator: str  # what it is made from
    settings: str  # whose settings it starts from
    changes: Mapping[str, Any] = field(default_factory=dict, hash=False)  # constructor arguments that differ


@dataclass(frozen=True, kw_only=True)
class ModelSettings(Model):
    """One of the library's models, with the paper's settings or the default ones."""

    def __post_init__(self) -> None:
        check_choice(self.name, "estimator", self.estimator, ("DNN", "BNN", "Ensemble", "NCA", "PNCA"))
        check_choice(self.name, "settings", self.settings, ("paper", "default"))
        known = changeable_arguments(self._class)
        if unknown := sorted(self.changes.keys() - known):
            raise InvalidInputError(
                f"{self.name}: {self.estimator} has no arguments {unknown}; it has {sorted(known)}."
            )

    @property
    def _class(self) -> type[Classifier]:
        model: type[Classifier] = getattr(estimators, f"{self.estimator}Classifier")
        return model

    def arguments(self, experiment: str, n_train: int) -> dict[str, Any]:
        """Return the constructor arguments for ``"mnist"`` or ``"covid"`` with so many training examples."""
        base = paper_settings(self.estimator, experiment, n_train) if self.settings == "paper" else {}
        return {**base, **self.changes}

    def build(self, experiment: str, n_train: int, random_state: int) -> Classifier:
        """Build the unfitted model, on the CPU, so that every worker of a grid computes the same."""
        arguments = self.arguments(experiment, n_train)
        return self._class(**arguments, random_state=random_state, device="cpu")


@dataclass(frozen=True, kw_only=True)
class Exhibit:
    """One table or figure: which fits it shows, and what the paper prints there."""

    name: str  # of the file
    experiment: str  # one of EXPERIMENTS
    kind: str  # one of KINDS
    title: str
    models: tuple[str, ...]  # names from models.toml
    trials: int  # draws of the training set, or of the partition into folds
    in_paper: str = ""  # where the paper shows it; empty for what goes beyond the paper
    train_sizes: tuple[int, ...] = ()  # MNIST
    angles: tuple[int, ...] = ()  # MNIST: rotations in degrees
    features: tuple[str, ...] = ()  # COVID, as the next two
    labels: tuple[str, ...] = ()
    folds: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()  # test sets of a table
    panels: tuple[str, ...] = ()  # test set and curve of each panel of a figure, such as "rotated count"
    paper: Mapping[str, Mapping[str, list[float]]] = field(default_factory=dict)  # model, column: mean, std

    def __post_init__(self) -> None:
        check_choice(self.name, "experiment", self.experiment, EXPERIMENTS)
        check_choice(self.name, "kind", self.kind, KINDS)
        for key, known in _CONDITIONS.items():
            for value in getattr(self, key):
                check_choice(self.name, key, value, known)
        if not self.models:
            raise InvalidInputError(f"{self.name}: models is empty.")
        for key, values in (("trials", (self.trials,)), ("train_sizes", self.train_sizes)):
            if any(value < 1 for value in values):
                raise InvalidInputError(f"{self.name}: {key} must be positive.")


def settings_folder() -> Path:
    """Return the folder of the settings, which are part of the package."""
    return Path(__file__).parent / "paper"


def changeable_arguments(model: type[Classifier]) -> set[str]:
    """Name the constructor arguments that settings may change; the run decides seed and device."""
    return set(model._get_param_names()) - {"random_state", "device"}


def load_models(folder: Path | None = None) -> dict[str, ModelSettings]:
    """Read ``models.toml`` from a folder, by default :func:`settings_folder`."""
    path = (folder or settings_folder()) / "models.toml"
    try:
        return {name: _build(ModelSettings, name, table) for name, table in read_toml(path).items()}
    except InvalidInputError as error:
        raise InvalidInputError(f"{path.name}: {error}") from None


def load_exhibits(experiment: str, folder: Path | None = None) -> dict[str, Exhibit]:
    """Read the tables and figures of an experiment, by file name, those of the paper first."""
    check_choice("load_exhibits", "experiment", experiment, EXPERIMENTS)
    folder = folder or settings_folder()
    known = load_models(folder)
    exhibits = []
    for path in sorted(path for path in folder.glob("*.toml") if path.stem not in _NOT_EXHIBITS):
        try:
            exhibit = _build(Exhibit, path.stem, read_toml(path))
            for name in (*exhibit.models, *exhibit.paper):
                check_choice(exhibit.name, "model", name, known)
        except InvalidInputError as error:
            raise InvalidInputError(f"{path.name}: {error}") from None
        exhibits.append(exhibit)
    found = [exhibit for exhibit in exhibits if exhibit.experiment == experiment]
    return {exhibit.name: exhibit for exhibit in sorted(found, key=_place)}


def _place(exhibit: Exhibit) -> tuple[bool, bool, str]:
    """Sort what the paper has first, and its table before its figures."""
    return not exhibit.in_paper, not exhibit.in_paper.startswith("Table"), exhibit.in_paper


def read_toml(path: Path) -> dict[str, Any]:
    """Read a settings file."""
    try:
        table: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"it cannot be read: {error}.") from error
    return table


def _build(kind: Callable[..., _T], name: str, table: Any) -> _T:  # noqa: ANN401
    """Make a frozen value from a TOML table; a misspelt, missing or mistyped key is an error."""
    if not isinstance(table, dict):
        raise InvalidInputError(f"{name}: expected a table of settings, but found {table!r}.")
    known = {f.name: f for f in fields(kind) if f.name != "name"}  # type: ignore[arg-type]
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


def check_choice(name: str, key: str, value: str, known: Collection[str]) -> None:
    """Refuse a value that is none of the known ones; ``name`` and ``key`` say in the error where it is."""
    if value not in known:
        raise InvalidInputError(f"{name}: unknown {key} {value!r}; known are {', '.join(known)}.")
