"""Each table and figure of a run, made from its files."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pnca import evaluation
from pnca_studies.experiments.answers import Answers
from pnca_studies.experiments.settings import Exhibit, load_exhibits
from pnca_studies.experiments.store import RunFolder
from pnca_studies.reports.figures import save_figure
from pnca_studies.reports.frame import Frame
from pnca_studies.reports.panels import Panel, panels_figure
from pnca_studies.reports.tables import NOTHING, Table, mean_sd, number, per_cent, signed

#: Confidence thresholds of the curves.
THRESHOLDS: NDArray[np.float64] = np.arange(51) / 50

#: An accuracy over fewer examples is not drawn.
LEAST_EXAMPLES = 10

_SET_NAMES = {
    "rotated": "MNIST rotated by 60°",
    "notmnist": "notMNIST",
    "actualmed": "Actualmed",
    "bones": "bone X-rays",
}
_GROUP_NAMES = {
    "bones": "all",
    "bones MURA_XR_HAND": "MURA hands",
    "bones MURA_XR_HUMERUS": "MURA upper arms",
    "bones MURA_XR_SHOULDER": "MURA shoulders",
    "bones UCI_SHOULDER_IMPLANT(not MURA)": "shoulder implants, not MURA",
}
_SPREAD = "Lines are means, bands one standard deviation over "
_TOO_FEW = (
    f"An accuracy over fewer than {LEAST_EXAMPLES} examples does not count, and a point is drawn where at "
    "least half of the repetitions have a value."
)
_ABLATION_PANELS = {
    "Kernel": [
        *("PNCA (paper)", "30 d features", "100 d features", "exact"),
        *("exact + background .01", "exact + background .1", "exact + background 1"),
    ],
    "Particles": [
        *("PNCA (paper)", "independent", "exact", "exact independent"),
        *("exact + background .1", "exact + background .1 independent"),
    ],
    "Bandwidth": ["h=1", "h=2", "PNCA (paper)", "h=16", "exact h=1", "exact h=2", "exact", "exact h=16"],
}


@dataclass(frozen=True, kw_only=True)
class Section:
    """One exhibit, ready to be written down.

    Attributes
    ----------
    name : str
        Name of its files.
    title : str
        Heading.
    tables : list of Table
    figures : list of Path
        Pictures, already written.
    notes : list of str
        What a reader must know, as Markdown.
    """

    name: str
    title: str
    tables: list[Table] = field(default_factory=list)
    figures: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def markdown(self, relative_to: Path) -> str:
        """Write it as Markdown whose pictures are found from a folder.

        Parameters
        ----------
        relative_to : Path
            The folder of the document.

        Returns
        -------
        str
        """
        parts = [f"## {self.title}"]
        parts += [f"![{self.title}]({path.relative_to(relative_to).as_posix()})" for path in self.figures]
        parts += [f"{table.caption}\n\n{table.markdown()}" for table in self.tables]
        return "\n\n".join([*parts, *self.notes]) + "\n"


def make_sections(folder: RunFolder, figures: Path) -> list[Section]:
    """Make every exhibit that a run has the cells for.

    Parameters
    ----------
    folder : RunFolder
        The run.
    figures : Path
        Folder for pictures; it exists.

    Returns
    -------
    list of Section
        Those of the paper first.
    """
    run, frame = folder.read_run(), Frame(folder.rows())
    sections = []
    for exhibit in load_exhibits(run["study"]).values():
        sections += _MAKERS[exhibit.kind](exhibit, folder, frame, figures)
    return sections


def _table(exhibit: Exhibit, folder: RunFolder, frame: Frame, figures: Path) -> list[Section]:
    """Table 1: ours, the paper's, the difference."""
    shown = _of_exhibit(exhibit, frame)
    binary = any("auroc" in row for row in shown)
    headings = ["model"]
    for column in exhibit.columns:
        headings += [f"{column} accuracy", "paper", "difference"]
        headings += ["AUROC", "balanced accuracy"] if binary else []
    notes = _actualmed_notes(folder, shown) if exhibit.experiment == "covid" else []
    rows = []
    for model in _models(exhibit, shown):
        cells = [model]
        for column in exhibit.columns:
            given = shown.where(model=model, test_set=column)
            paper = exhibit.paper.get(model, {}).get(column) if _is_the_papers(exhibit, shown) else None
            cells += _beside_the_paper(given, paper, comparable=not (notes and column == "actualmed"))
            cells += [mean_sd(given.values(key)) for key in ("auroc", "balanced_accuracy") if binary]
        rows.append(cells)
    if not rows:
        return []
    caption = f"{_repetitions(exhibit, shown).capitalize()}."
    table = Table(caption=caption, headings=headings, rows=rows)
    more = [] if exhibit.experiment == "covid" else [_more_measures(exhibit, frame)]
    return [Section(name=exhibit.name, title=_title(exhibit), tables=[table, *more], notes=notes)]


def _beside_the_paper(given: Frame, paper: Sequence[float] | None, *, comparable: bool) -> list[str]:
    ours = given.values("accuracy")
    if paper is None:
        return [mean_sd(ours), NOTHING, NOTHING]
    printed = " ± ".join(number(value, 2) for value in paper)
    return [mean_sd(ours), printed, signed(given.mean("accuracy") - paper[0]) if comparable else NOTHING]


def _more_measures(exhibit: Exhibit, frame: Frame) -> Table:
    """What accuracy does not show, for every number of training images."""
    rows = []
    for n_train in sorted(frame.unique("n_train")):
        given = frame.where(n_train=n_train)
        for model in _models(exhibit, given):
            rows.append([f"{model}, n = {n_train}", *_measures_of(given.where(model=model))])
    return Table(
        caption="Calibration, shift and foreign inputs, for every number of training images.",
        headings=["model", *_MEASURES],
        rows=rows,
    )


_MEASURES = (
    *("accuracy", "NLL", "ECE", "rotated accuracy", "rotated AUGRC", "rotated above .9"),
    *("notMNIST above .9", "OoD AUROC by confidence", "by evidence"),
)


def _measures_of(given: Frame) -> list[str]:
    test, rotated, letters = (given.where(test_set=name) for name in ("test", "rotated", "notmnist"))
    return [
        mean_sd(test.values("accuracy")),
        mean_sd(test.values("nll"), 2),
        mean_sd(test.values("ece")),
        mean_sd(rotated.values("accuracy")),
        number(rotated.mean("augrc")),
        per_cent(rotated.values("above_0.9"), 2),
        per_cent(letters.values("above_0.9"), 2),
        number(letters.mean("ood_auroc_confidence")),
        number(letters.mean("ood_auroc_evidence")),
    ]


def _confidence(exhibit: Exhibit, folder: RunFolder, frame: Frame, figures: Path) -> list[Section]:
    """Accuracy and count against the confidence threshold, with the spread over repetitions."""
    shown = _of_exhibit(exhibit, frame)
    if not _models(exhibit, shown):
        return []
    sizes = sorted(shown.unique("n_train")) or [None]
    panels = [
        _confidence_panel(folder, exhibit, shown, panel, n_train)
        for n_train in sizes
        for panel in exhibit.panels
    ]
    path = figures / f"{exhibit.name}.png"
    save_figure(panels_figure(panels, _title(exhibit)), path)
    if exhibit.experiment == "covid":
        tables = _bones_tables(exhibit, shown)
        notes = [f"{_SPREAD}folds and partitions. {_TOO_FEW}", *_actualmed_notes(folder, shown)]
    else:
        tables = []
        notes = [f"{_SPREAD}draws. On rotated digits and on letters, lower counts are better. {_TOO_FEW}"]
    return [Section(name=exhibit.name, title=_title(exhibit), figures=[path], tables=tables, notes=notes)]


def _confidence_panel(
    folder: RunFolder, exhibit: Exhibit, shown: Frame, panel: str, n_train: int | None
) -> Panel:
    test_set, curve = panel.rsplit(" ", 1)
    where = {} if n_train is None else {"n_train": n_train}
    measure = accuracy_curve if curve == "accuracy" else count_curve
    lines = curves(folder, _models(exhibit, shown), test_set, measure, _condition(exhibit) | where)
    size = "" if n_train is None else f", n = {n_train}"
    title = f"{_SET_NAMES.get(test_set, test_set)}{size}"
    if curve == "accuracy":
        return _threshold_panel(title, lines, "accuracy where confidence ≥ τ", top=1)
    n = int(shown.where(test_set=test_set, **where).rows[0]["n"])
    return _threshold_panel(title, lines, f"of {n:,}, confidence ≥ τ", top=n)


def _threshold_panel(title: str, lines: dict[str, NDArray[np.float64]], y_label: str, top: int) -> Panel:
    """Something from 0 to its top against the confidence threshold."""
    return Panel(
        title=title,
        x=THRESHOLDS,
        lines=lines,
        x_label="confidence threshold τ",
        y_label=y_label,
        y_range=(-0.02 * top, 1.02 * top),
    )


def curves(
    folder: RunFolder,
    models: Sequence[str],
    test_set: str,
    measure: Callable[[Answers], NDArray[np.float64]],
    where: dict[str, object],
) -> dict[str, NDArray[np.float64]]:
    """A curve for each cell, by model.

    Parameters
    ----------
    folder : RunFolder
        The run.
    models : sequence of str
        Which models, in order.
    test_set : str
        On which answers.
    measure : callable
        Makes a curve (t,) of them.
    where : dict
        Values of columns that a cell must have.

    Returns
    -------
    dict of str to ndarray of shape (r, t)
    """
    found: dict[str, list[NDArray[np.float64]]] = {model: [] for model in models}
    for result in folder.results(test_sets=[test_set]):
        columns = result.columns
        wanted = columns["model"] in found and all(columns.get(key) == where[key] for key in where)
        if wanted and test_set in result.answers:
            found[columns["model"]].append(measure(result.answers[test_set]))
    return {model: np.stack(lines) for model, lines in found.items() if lines}


def accuracy_curve(answers: Answers) -> NDArray[np.float64]:
    """Accuracy among the examples above each of ``THRESHOLDS``: (t,).

    Parameters
    ----------
    answers : Answers
        On a labelled test set.

    Returns
    -------
    ndarray of shape (t,)
        NaN where there are fewer than ``LEAST_EXAMPLES``.
    """
    if answers.labels is None:
        raise ValueError("accuracy needs labels")
    curve = evaluation.accuracy_vs_confidence(answers.labels, answers.probabilities, THRESHOLDS)
    return np.where(count_curve(answers) >= LEAST_EXAMPLES, curve.values, np.nan)


def count_curve(answers: Answers) -> NDArray[np.float64]:
    """Number of examples above each of ``THRESHOLDS``: (t,).

    Parameters
    ----------
    answers : Answers
        On any test set.

    Returns
    -------
    ndarray of shape (t,)
    """
    return evaluation.count_vs_confidence(answers.probabilities, THRESHOLDS).values.astype(np.float64)


def _angles(exhibit: Exhibit, folder: RunFolder, frame: Frame, figures: Path) -> list[Section]:
    """Accuracy, likelihood and calibration against the angle of rotation."""
    shown = _of_exhibit(exhibit, frame)
    angles = [a for a in exhibit.angles if shown.where(test_set=f"angle {a}")]
    if not angles or not _models(exhibit, shown):
        return []
    panels = [
        Panel(
            title=f"{label}, n = {n_train}",
            x=angles,
            lines={
                model: np.stack(
                    [
                        shown.where(n_train=n_train, model=model, test_set=f"angle {angle}").values(measure)
                        for angle in angles
                    ],
                    axis=1,
                )
                for model in _models(exhibit, shown)
            },
            x_label="rotation in degrees",
            y_label=label,
            y_range=(0, 1) if measure == "accuracy" else None,
        )
        for n_train in sorted(shown.unique("n_train"))
        for measure, label in (("accuracy", "accuracy"), ("nll", "NLL"), ("ece", "ECE"))
    ]
    path = figures / f"{exhibit.name}.png"
    save_figure(panels_figure(panels, _title(exhibit)), path)
    n = int(shown.where(test_set=f"angle {angles[0]}").rows[0]["n"])
    note = f"{_SPREAD}draws; {n:,} test images, spread over the file, at each angle."
    return [Section(name=exhibit.name, title=_title(exhibit), figures=[path], notes=[note])]


def _conditions(exhibit: Exhibit, folder: RunFolder, frame: Frame, figures: Path) -> list[Section]:
    """COVID by features, labels and folds."""
    headings = [
        *("features, labels, folds: model", "validation accuracy", "balanced accuracy", "AUROC", "NLL"),
        *("Actualmed AUROC", "balanced accuracy", "bones above .9", "OoD AUROC by confidence", "by evidence"),
    ]
    # The paper's own condition may have more partitions than the others.
    shown = Frame(row for row in frame if row["trial"] < exhibit.trials)
    rows = []
    for labels in exhibit.labels:
        for features in exhibit.features:
            for folds in exhibit.folds:
                given = shown.where(features=features, labels=labels, folds=folds)
                for model in _models(exhibit, given):
                    name = f"{features}, {labels}, {folds}: {model}"
                    rows.append([name, *_condition_measures(given.where(model=model))])
    # The paper's own condition alone would be Table 1 again.
    if (
        not rows
        or len(frame.unique("features")) * len(frame.unique("labels")) * len(frame.unique("folds")) < 2
    ):
        return []
    table = Table(
        caption=f"{_repetitions(exhibit, shown).capitalize()}.",
        headings=headings,
        rows=rows,
    )
    positive, n_xrays = _counts(folder, "xrays_positive"), _counts(folder, "xrays")
    share = _counts(folder, "train_positive") / _counts(folder, "train")
    note = (
        f"Labels `paper`: {_counts(folder, 'train')} images, of which {number(share, 2)} positive, the "
        f"accuracy of always answering COVID. Labels `any_covid`: X-rays alone, {positive} positive of "
        f"{n_xrays}. Folds `grouped` never split a patient, so no model has seen the patient it is asked "
        "about. Compare Actualmed on equalised features: on the plain ones most positive images had other "
        "processing than the negative ones."
    )
    return [Section(name=exhibit.name, title=_title(exhibit), tables=[table], notes=[note])]


def _condition_measures(given: Frame) -> list[str]:
    validation, actualmed = given.where(test_set="validation"), given.where(test_set="actualmed")
    bones = given.where(test_set="bones")
    return [
        mean_sd(validation.values("accuracy")),
        mean_sd(validation.values("balanced_accuracy")),
        mean_sd(validation.values("auroc")),
        mean_sd(validation.values("nll"), 2),
        mean_sd(actualmed.values("auroc")),
        mean_sd(actualmed.values("balanced_accuracy")),
        per_cent(bones.values("above_0.9")),
        number(bones.mean("ood_auroc_confidence")),
        number(bones.mean("ood_auroc_evidence")),
    ]


def _bones_tables(exhibit: Exhibit, shown: Frame) -> list[Table]:
    """Confident answers on the bone X-rays, and how well they are told from chests, by group."""
    groups = [name for name in shown.unique("test_set") if name.startswith("bones")]
    sizes = {group: int(shown.where(test_set=group).rows[0]["n"]) for group in groups}
    headings = ["model", *(f"{_GROUP_NAMES.get(g, g.removeprefix('bones '))} ({sizes[g]})" for g in groups)]
    contents: dict[str, Callable[[Frame], str]] = {
        "Share of the bone X-rays above confidence .9, by group.": lambda given: per_cent(
            given.values("above_0.9")
        ),
        "OoD AUROC of bones against the validation fold, by confidence / by evidence.": lambda given: (
            f"{number(given.mean('ood_auroc_confidence'), 2)} / {number(given.mean('ood_auroc_evidence'), 2)}"
        ),
    }
    return [
        Table(
            caption=caption,
            headings=headings,
            rows=[
                [model, *(write(shown.where(model=model, test_set=group)) for group in groups)]
                for model in _models(exhibit, shown)
            ],
        )
        for caption, write in contents.items()
    ]


def _actualmed_notes(folder: RunFolder, shown: Frame) -> list[str]:
    """What the missing negatives do to the Actualmed column."""
    positive, negative = _counts(folder, "actualmed_positive"), _counts(folder, "actualmed_negative")
    if negative >= PAPER_NEGATIVES:
        return []
    here, there = positive / (positive + negative), positive / (positive + PAPER_NEGATIVES)
    given = shown.where(test_set="actualmed")
    mixed = [
        f"{model} {number(at_the_papers_mix(given.where(model=model), positive, negative), 2)}"
        for model in shown.unique("model")
    ]
    missing, n, n_paper = PAPER_NEGATIVES - negative, positive + negative, positive + PAPER_NEGATIVES
    return [
        f"**Actualmed is incomplete here.** {missing} of its {PAPER_NEGATIVES} negative images were not to "
        f"be had, and the {negative} that were are not a random sample. Always answering COVID scores "
        f"{number(here, 2)} on these {n} images and {number(there, 2)} on the paper's {n_paper}, so the "
        "accuracies cannot be compared with the paper's, and the curves over confidence are those of mostly "
        f"positive images. With each class's own accuracy at the paper's mix of {positive} and "
        f"{PAPER_NEGATIVES}: {', '.join(mixed)}; this assumes that the missing negatives are like the few at "
        "hand."
    ]


#: Negative images of Actualmed in the paper.
PAPER_NEGATIVES = 127


def at_the_papers_mix(given: Frame, positive: int, negative: int) -> float:
    """Accuracy if the classes were mixed as in the paper's copy of Actualmed.

    Accuracy and balanced accuracy are two weighted means of the two recalls, so they give both.

    Parameters
    ----------
    given : Frame
        A model's rows on Actualmed.
    positive, negative : int
        Images of each class here.

    Returns
    -------
    float

    Examples
    --------
    >>> # 75 of 100 images are positive, and all are called so
    >>> row = {"trial": 0, "fold": 0, "accuracy": 0.75, "balanced_accuracy": 0.5}
    >>> round(at_the_papers_mix(Frame([row]), 75, 25), 4) == round(75 / (75 + PAPER_NEGATIVES), 4)
    True
    """
    accuracy, balanced = given.mean("accuracy"), given.mean("balanced_accuracy")
    if positive == negative:
        return float("nan")
    n = positive + negative
    recall = (n * accuracy - 2 * negative * balanced) / (positive - negative)
    specificity = 2 * balanced - recall
    return (positive * recall + PAPER_NEGATIVES * specificity) / (positive + PAPER_NEGATIVES)


def _ablation(exhibit: Exhibit, folder: RunFolder, frame: Frame, figures: Path) -> list[Section]:
    """One thing changed at a time."""
    shown = _of_exhibit(exhibit, frame)
    models = _models(exhibit, shown)
    if not models:
        return []
    rows = [[model, *_measures_of(shown.where(model=model))] for model in models]
    found = curves(folder, models, "notmnist", count_curve, {"n_train": shown.rows[0]["n_train"]})
    n = int(shown.where(test_set="notmnist").rows[0]["n"])
    paths = []
    for title, names in _ABLATION_PANELS.items():
        lines = {name: found[name] for name in names if name in found}
        if lines:
            panel = _threshold_panel(_SET_NAMES["notmnist"], lines, f"of {n:,}, confidence ≥ τ", top=n)
            path = figures / f"{exhibit.name}_{title.lower()}.png"
            paths.append(save_figure(panels_figure([panel], f"Confident answers by {title.lower()}"), path))
    table = Table(
        caption=f"`PNCA (paper)` is the paper's; every other row changes what its name says. "
        f"{_repetitions(exhibit, shown).capitalize()}.",
        headings=["change", *_MEASURES],
        rows=rows,
    )
    return [Section(name=exhibit.name, title=_title(exhibit), figures=paths, tables=[table])]


_MAKERS: dict[str, Callable[[Exhibit, RunFolder, Frame, Path], list[Section]]] = {
    "table": _table,
    "confidence": _confidence,
    "angles": _angles,
    "conditions": _conditions,
    "ablation": _ablation,
}


def _condition(exhibit: Exhibit) -> dict[str, object]:
    """The one condition of an exhibit of the paper, as columns."""
    names = ("features", "labels", "folds")
    return {name: getattr(exhibit, name)[0] for name in names if len(getattr(exhibit, name)) == 1}


def _of_exhibit(exhibit: Exhibit, frame: Frame) -> Frame:
    """The rows that an exhibit shows: its condition, and its numbers of training images."""
    given = frame.where(**_condition(exhibit))
    if not exhibit.train_sizes:
        return given
    sizes = set(given.unique("n_train"))
    shown = sizes & set(exhibit.train_sizes) or sizes  # a run may have other sizes alone
    if exhibit.kind in ("table", "ablation") and shown:
        shown = {min(shown)}  # these have one row a model
    return Frame(row for row in given if row["n_train"] in shown)


def _is_the_papers(exhibit: Exhibit, shown: Frame) -> bool:
    return set(shown.unique("n_train")) <= set(exhibit.train_sizes)


def _models(exhibit: Exhibit, given: Frame) -> list[str]:
    there = set(given.unique("model"))
    return [model for model in exhibit.models if model in there]


def _repetitions(exhibit: Exhibit, shown: Frame) -> str:
    if exhibit.experiment == "covid":
        n = len(shown.unique("trial"))
        what = f"the folds of {n} partitions" if n > 1 else "the folds of one partition"
        return f"mean ± standard deviation over {what}"
    sizes = " and ".join(str(n) for n in sorted(shown.unique("n_train")))
    n = len(shown.unique("draw"))
    return f"mean ± standard deviation over {n} draw{'s' * (n > 1)} of {sizes} training images"


def _title(exhibit: Exhibit) -> str:
    return f"{exhibit.in_paper}: {exhibit.title}" if exhibit.in_paper else exhibit.title


def _counts(folder: RunFolder, key: str) -> int:
    """A count of the COVID data; both kinds of features have the same images."""
    data: dict[str, dict[str, int]] = folder.read_run()["protocol"]["data"]
    return next(iter(data.values()))[key]
