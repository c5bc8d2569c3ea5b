"""Each table and figure of a run, made from its files."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pnca_studies.experiments.settings import Exhibit, load_exhibits
from pnca_studies.experiments.store import RunFolder
from pnca_studies.reports.ablation import ABLATION_NAMES, ABLATION_PANELS
from pnca_studies.reports.actualmed import actualmed_notes, covid_counts
from pnca_studies.reports.curves import LEAST_EXAMPLES, accuracy_curve, count_curve, curves, threshold_panel
from pnca_studies.reports.figures import save_figures
from pnca_studies.reports.frame import by_repetition, make_frame, pd, unique, where
from pnca_studies.reports.panels import Panel, panels_figure
from pnca_studies.reports.tables import NOTHING, Table, mean, mean_sd, number, per_cent, signed

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


class _Column(NamedTuple):
    """A column of a table: a measure on a test set, and how its repetitions are written."""

    heading: str
    test_set: str
    measure: str
    write: Callable[[pd.Series], str] = mean_sd


_MNIST_COLUMNS = (
    _Column("accuracy", "test", "accuracy"),
    _Column("NLL", "test", "nll", partial(mean_sd, digits=2)),
    _Column("ECE", "test", "ece"),
    _Column("rotated accuracy", "rotated", "accuracy"),
    _Column("rotated AUGRC", "rotated", "augrc", mean),
    _Column("rotated above .9", "rotated", "above_0.9", partial(per_cent, digits=2)),
    _Column("notMNIST above .9", "notmnist", "above_0.9", partial(per_cent, digits=2)),
    _Column("OoD AUROC by confidence", "notmnist", "ood_auroc_confidence", mean),
    _Column("by evidence", "notmnist", "ood_auroc_evidence", mean),
)
_COVID_COLUMNS = (
    _Column("validation accuracy", "validation", "accuracy"),
    _Column("balanced accuracy", "validation", "balanced_accuracy"),
    _Column("AUROC", "validation", "auroc"),
    _Column("NLL", "validation", "nll", partial(mean_sd, digits=2)),
    _Column("Actualmed AUROC", "actualmed", "auroc"),
    _Column("balanced accuracy", "actualmed", "balanced_accuracy"),
    _Column("bones above .9", "bones", "above_0.9", per_cent),
    _Column("OoD AUROC by confidence", "bones", "ood_auroc_confidence", mean),
    _Column("by evidence", "bones", "ood_auroc_evidence", mean),
)


@dataclass(frozen=True)
class Section:
    """One exhibit: the name of its files, a heading, tables, pictures already written, notes in Markdown."""

    name: str
    title: str
    tables: list[Table] = field(default_factory=list)
    figures: list[Path] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def markdown(self, relative_to: Path) -> str:
        """Write it as Markdown whose pictures are found from a folder."""
        parts = [f"## {self.title}"]
        parts += [f"![{self.title}]({path.relative_to(relative_to).as_posix()})" for path in self.figures]
        parts += [f"{table.caption}\n\n{table.markdown()}" for table in self.tables]
        return "\n\n".join([*parts, *self.notes]) + "\n"


@dataclass(frozen=True, kw_only=True, eq=False)
class _Material:
    """An exhibit, its run, all rows of the run, those that the exhibit shows, and a folder for pictures."""

    exhibit: Exhibit
    folder: RunFolder
    rows: pd.DataFrame
    shown: pd.DataFrame
    figures: Path
    formats: Sequence[str] = ()  # of pictures beside PNG

    @property
    def models(self) -> list[str]:
        return self.models_in(self.shown)

    @property
    def title(self) -> str:
        place = self.exhibit.in_paper
        return f"{place}: {self.exhibit.title}" if place else self.exhibit.title

    @property
    def sizes(self) -> list[int]:
        return sorted(unique(self.shown, "n_train"))

    def models_in(self, rows: pd.DataFrame) -> list[str]:
        there = set(unique(rows, "model"))
        return [model for model in self.exhibit.models if model in there]

    def n_examples(self, test_set: str, **columns: object) -> int:
        return int(where(self.shown, test_set=test_set, **columns)["n"].iloc[0])

    def section(
        self, *, tables: Sequence[Table] = (), figures: Sequence[Path] = (), notes: Sequence[str] = ()
    ) -> Section:
        parts = (list(tables), list(figures), list(notes))
        return Section(self.exhibit.name, self.title, *parts)

    def draw(
        self,
        panels: Sequence[Panel],
        title: str = "",
        suffix: str = "",
        called: Mapping[str, str] | None = None,
    ) -> Path:
        figure = panels_figure(panels, title or self.title, called=called)
        return save_figures(figure, self.figures / f"{self.exhibit.name}{suffix}.png", self.formats)[0]


def make_sections(folder: RunFolder, figures: Path, formats: Sequence[str] = ()) -> list[Section]:
    """Make every exhibit that a run has the fits for, those of the paper first.

    Pictures are PNG, and beside that in further formats: svg, pdf.
    """
    rows = make_frame(folder.rows())
    sections = []
    for exhibit in load_exhibits(folder.read_run()["study"]).values():
        shown = _rows_of(exhibit, rows)
        place: dict[str, Any] = {"folder": folder, "figures": figures, "formats": tuple(formats)}
        material = _Material(exhibit=exhibit, rows=rows, shown=shown, **place)
        sections.append(_MAKERS[exhibit.kind](material) if material.models else None)
    return [section for section in sections if section is not None]


def _rows_of(exhibit: Exhibit, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that an exhibit shows: its condition, and its numbers of training images."""
    given = where(rows, **_condition(exhibit))
    if not exhibit.train_sizes or given.empty:
        return given
    sizes = set(given["n_train"])
    shown = sizes & set(exhibit.train_sizes) or sizes  # a run may have other sizes alone
    if exhibit.kind in ("table", "ablation"):
        shown = {min(shown)}  # these have one row a model
    return given[given["n_train"].isin(shown)]


def _condition(exhibit: Exhibit) -> dict[str, object]:
    """The one condition of an exhibit of the paper, as columns."""
    names = ("features", "labels", "folds")
    return {name: getattr(exhibit, name)[0] for name in names if len(getattr(exhibit, name)) == 1}


def _cells(rows: pd.DataFrame, columns: Sequence[_Column]) -> list[str]:
    return [c.write(by_repetition(where(rows, test_set=c.test_set), c.measure)) for c in columns]


def _repetitions(material: _Material, shown: pd.DataFrame) -> str:
    if material.exhibit.experiment == "covid":
        n = len(unique(shown, "trial"))
        what = f"the folds of {n} partitions" if n > 1 else "the folds of one partition"
    else:
        sizes, n = " and ".join(map(str, material.sizes)), len(unique(shown, "draw"))
        what = f"{n} draw{'s' * (n > 1)} of {sizes} training images"
    return f"Mean ± standard deviation over {what}."


def _table(material: _Material) -> Section:
    """Table 1: ours, the paper's, the difference."""
    exhibit, shown = material.exhibit, material.shown
    is_covid = exhibit.experiment == "covid"
    notes = actualmed_notes(material.folder, material.shown) if is_covid else []
    is_the_papers = set(material.sizes) <= set(exhibit.train_sizes)
    headings, rows = ["model"], []
    for column in exhibit.columns:
        headings += [f"{column} accuracy", "paper", "difference"]
        headings += ["AUROC", "balanced accuracy"] if is_covid else []
    for model in material.models:
        cells = [model]
        for column in exhibit.columns:
            given = where(shown, model=model, test_set=column)
            paper = exhibit.paper.get(model, {}).get(column) if is_the_papers else None
            cells += _beside_the_paper(given, paper, comparable=not (notes and column == "actualmed"))
            measures = ("auroc", "balanced_accuracy") if is_covid else ()
            cells += [mean_sd(by_repetition(given, measure)) for measure in measures]
        rows.append(cells)
    table = Table(caption=_repetitions(material, shown), headings=headings, rows=rows)
    tables = [table] if is_covid else [table, _every_size(material)]
    return material.section(tables=tables, notes=notes)


def _beside_the_paper(given: pd.DataFrame, paper: Sequence[float] | None, *, comparable: bool) -> list[str]:
    ours = by_repetition(given, "accuracy")
    if paper is None:
        return [mean_sd(ours), NOTHING, NOTHING]
    printed = " ± ".join(number(value, 2) for value in paper)
    return [mean_sd(ours), printed, signed(float(ours.mean()) - paper[0]) if comparable else NOTHING]


def _every_size(material: _Material) -> Table:
    """What accuracy does not show, for every number of training images."""
    rows = []
    for n_train in sorted(unique(material.rows, "n_train")):
        given = where(material.rows, n_train=n_train)
        for model in material.models_in(given):
            rows.append([f"{model}, n = {n_train}", *_cells(where(given, model=model), _MNIST_COLUMNS)])
    return Table(
        caption="Calibration, shifted and out-of-distribution inputs, for every number of training images.",
        headings=["model", *(column.heading for column in _MNIST_COLUMNS)],
        rows=rows,
    )


def _confidence(material: _Material) -> Section:
    """Accuracy and count against the confidence threshold, with the spread over repetitions."""
    sizes: Sequence[int | None] = material.sizes or [None]
    panels = [
        _confidence_panel(material, panel, n_train)
        for n_train, panel in product(sizes, material.exhibit.panels)
    ]
    if material.exhibit.experiment == "covid":
        tables = _bones_tables(material)
        notes = [
            f"{_SPREAD}folds and partitions. {_TOO_FEW}",
            *actualmed_notes(material.folder, material.shown),
        ]
    else:
        tables = []
        notes = [f"{_SPREAD}draws. On rotated digits and on letters, lower counts are better. {_TOO_FEW}"]
    return material.section(figures=[material.draw(panels)], tables=tables, notes=notes)


def _confidence_panel(material: _Material, panel: str, n_train: int | None) -> Panel:
    test_set, kind = panel.rsplit(" ", 1)
    size = {} if n_train is None else {"n_train": n_train}
    title = _SET_NAMES.get(test_set, test_set) + ("" if n_train is None else f", n = {n_train}")
    measure = accuracy_curve if kind == "accuracy" else count_curve
    condition = _condition(material.exhibit) | size
    lines = curves(material.folder, material.models, test_set, measure, condition)
    return threshold_panel(
        title, lines, None if kind == "accuracy" else material.n_examples(test_set, **size)
    )


def _angles(material: _Material) -> Section | None:
    """Accuracy, likelihood and calibration against the angle of rotation."""
    there = set(unique(material.shown, "test_set"))
    angles = [angle for angle in material.exhibit.angles if f"angle {angle}" in there]
    if not angles:
        return None
    panels = []
    for n_train, (measure, label) in product(
        material.sizes, {"accuracy": "accuracy", "nll": "NLL", "ece": "ECE"}.items()
    ):
        lines = {}
        for model in material.models:
            given = where(material.shown, n_train=n_train, model=model)
            at_angles = [by_repetition(where(given, test_set=f"angle {a}"), measure) for a in angles]
            lines[model] = np.stack(at_angles, axis=1)
        panels.append(
            Panel(
                title=f"{label}, n = {n_train}",
                x=angles,
                lines=lines,
                x_label="rotation in degrees",
                y_label=label,
                y_range=(0, 1) if measure == "accuracy" else None,
                ticks=angles,
            )
        )
    n = material.n_examples(f"angle {angles[0]}")
    note = f"{_SPREAD}draws; {n:,} test images, spread over the file, at each angle."
    return material.section(figures=[material.draw(panels)], notes=[note])


def _conditions(material: _Material) -> Section | None:
    """COVID by features, labels and folds."""
    exhibit = material.exhibit
    # The paper's own condition may have more partitions than the others.
    shown = material.shown[material.shown["trial"] < exhibit.trials]
    rows = []
    for labels, features, folds in product(exhibit.labels, exhibit.features, exhibit.folds):
        given = where(shown, features=features, labels=labels, folds=folds)
        for model in material.models_in(given):
            name = f"{features}, {labels}, {folds}: {model}"
            rows.append([name, *_cells(where(given, model=model), _COVID_COLUMNS)])
    # The paper's own condition alone would be Table 1 again.
    n_conditions = np.prod([len(unique(material.rows, name)) for name in ("features", "labels", "folds")])
    if not rows or n_conditions < 2:
        return None
    headings = ["features, labels, folds: model", *(column.heading for column in _COVID_COLUMNS)]
    table = Table(caption=_repetitions(material, shown), headings=headings, rows=rows)
    counts = covid_counts(material.folder)
    share = counts["train_positive"] / counts["train"]
    note = (
        f"Labels `paper`: {counts['train']} images, of which {number(share, 2)} positive, the "
        f"accuracy of always answering COVID. Labels `any_covid`: X-rays alone, {counts['xrays_positive']} "
        f"positive of {counts['xrays']}. Folds `grouped` never split a patient, so no model has seen the "
        "patient it is asked about. Compare Actualmed on equalised features: on the plain ones most positive "
        "images had other processing than the negative ones."
    )
    return material.section(tables=[table], notes=[note])


def _bones_tables(material: _Material) -> list[Table]:
    """Confident answers on the bone X-rays, and how well they are told from chests, by group."""
    groups = [name for name in unique(material.shown, "test_set") if name.startswith("bones")]
    names = [_GROUP_NAMES.get(group, group.removeprefix("bones ")) for group in groups]
    headings = [f"{name} ({material.n_examples(group)})" for name, group in zip(names, groups, strict=True)]
    contents: Mapping[str, Callable[[pd.DataFrame], str]] = {
        "Share of the bone X-rays above confidence .9, by group.": lambda given: per_cent(
            by_repetition(given, "above_0.9")
        ),
        "OoD AUROC of bones against the validation fold, by confidence / by evidence.": lambda given: (
            " / ".join(
                mean(by_repetition(given, f"ood_auroc_{score}"), 2) for score in ("confidence", "evidence")
            )
        ),
    }
    return [
        Table(
            caption=caption,
            headings=["model", *headings],
            rows=[
                [model, *(write(where(material.shown, model=model, test_set=group)) for group in groups)]
                for model in material.models
            ],
        )
        for caption, write in contents.items()
    ]


def _ablation(material: _Material) -> Section:
    """One thing changed at a time."""
    (n_train,) = material.sizes
    rows = [[m, *_cells(where(material.shown, model=m), _MNIST_COLUMNS)] for m in material.models]
    found = curves(material.folder, material.models, "notmnist", count_curve, {"n_train": n_train})
    n = material.n_examples("notmnist")
    figures = []
    for what, names in ABLATION_PANELS.items():
        if lines := {name: found[name] for name in names if name in found}:
            panel = threshold_panel(_SET_NAMES["notmnist"], lines, n)
            title = f"Confident answers by {what}"
            figures.append(material.draw([panel], title, f"_{what}", ABLATION_NAMES))
    caption = "`PNCA (paper)` is the paper's; every other row changes what its name says."
    table = Table(
        caption=f"{caption} {_repetitions(material, material.shown)}",
        headings=["change", *(column.heading for column in _MNIST_COLUMNS)],
        rows=rows,
    )
    return material.section(figures=figures, tables=[table])


_MAKERS: Mapping[str, Callable[[_Material], Section | None]] = {
    "table": _table,
    "confidence": _confidence,
    "angles": _angles,
    "conditions": _conditions,
    "ablation": _ablation,
}
