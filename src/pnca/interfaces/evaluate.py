"""``pnca evaluate``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pnca.exceptions import InvalidInputError
from pnca.interfaces.networks import is_images, network_of
from pnca.interfaces.options import (
    BackboneName,
    Download,
    Encoding,
    Folder,
    Force,
    Json,
    Model,
    PathColumn,
    Separator,
    Sheet,
    SkipBroken,
    Weights,
    open_users_table,
    refuse_for_tables,
)

if TYPE_CHECKING:
    from pnca.reports.values import Evaluation
    from pnca.tables import TableFile
    from pnca.vision import Backbone
    from pnca.workflows.cases import Cases
    from pnca.workflows.evaluating import Evaluating
    from pnca.workflows.pictures import Pictures


def evaluate(
    model: Model,
    data: Annotated[
        Path | None,
        typer.Argument(
            help="A table with the columns and the target of the fit, or a folder of images with a folder "
            "for each class. Without it: the training examples, out of fold.",
            show_default=False,
        ),
    ] = None,
    ood: Annotated[
        Path | None,
        typer.Option(
            help="Inputs that belong to no class: a table, or a folder of images.", show_default=False
        ),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="The report: a page of HTML.", show_default=False)
    ] = None,
    max_error: Annotated[float, typer.Option(help="Share of the answers that may be wrong.")] = 0.05,
    confidence: Annotated[float, typer.Option(help="Probability with which that shall hold.")] = 0.9,
    learning_curve: Annotated[
        bool,
        typer.Option(
            "--learning-curve", help="Also fit on parts of the training examples, 25 times, for the report."
        ),
    ] = False,
    target: Annotated[
        str | None, typer.Option(help="Column with the class.", show_default="that of the fit")
    ] = None,
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Leave out rows without a class.")
    ] = False,
    sheet: Sheet = None,
    encoding: Encoding = None,
    separator: Separator = None,
    path_column: PathColumn = None,
    folder: Folder = None,
    backbone: BackboneName = None,
    weights: Weights = None,
    download: Download = False,
    skip_broken: SkipBroken = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Evaluate a model on labelled cases, or on its training examples out of fold, and write a report.

    Example: pnca evaluate model.pnca test.csv --ood other.csv --report report.html

    Example: pnca evaluate model.pnca --report report.html

    Columns are those of the fit, its target and its groups among them. Labels that are no class of the model
    are counted apart. The report is one file that needs no network: accuracy, calibration, answers,
    familiarity, the most confident mistakes and the least familiar cases with their evidence, limits.

    Exit status: 0 if it is evaluated, 1 if the data, the model or a setting is refused, 2 for a wrong command
    line, 130 if it was stopped. If it is not 0, nothing was written.
    """
    from pnca.explanations.pages import check_extra
    from pnca.files import check_target, write_text
    from pnca.interfaces.saying import stages, warnings_said
    from pnca.interfaces.stopping import stoppable

    with stoppable(), warnings_said():
        if report is not None:
            check_target(report, overwrite=force, inputs=[model, *filter(None, (data, ood))])
            check_extra()
        elif learning_curve:
            raise InvalidInputError("--learning-curve is for the report: name one with --report.")
        import pnca
        from pnca.workflows.evaluating import Evaluating

        fitted = pnca.load(model)
        given = Given(
            fitted, model, folder, path_column, target, skip_missing, skip_broken,
            {"sheet": sheet, "encoding": encoding, "separator": separator},
            {"backbone": backbone, "weights": weights, "download": download},
        )  # fmt: skip
        with stages() as stage:
            evaluating = Evaluating(fitted, max_error=max_error, confidence=confidence, stage=stage)
            cases = None if data is None else given.labelled(data, stage)
            others = None if ood is None else given.ood(ood, stage)
            found = evaluating.evaluation(cases, others)
            if report is not None:
                from pnca.reports.pages import report_html

                whole = evaluating.report(
                    model,
                    found,
                    cases,
                    others,
                    checksums=given.checksums,
                    pictures=given.pictures(data),
                    learning_curve=learning_curve,
                )
                write_text(report, report_html(whole))
    _say(evaluating, found, data, report, as_json=as_json)


@dataclass
class Given:
    """Files that a user names, and how they are read."""

    model: Any
    model_file: Path
    folder: Path | None
    path_column: str | None
    target: str | None
    skip_missing: bool
    skip_broken: bool
    of_tables: dict[str, Any]
    of_networks: dict[str, Any]
    checksums: dict[str, str] = field(default_factory=dict)

    @cached_property
    def takes_images(self) -> bool:
        """Whether the model was fitted on images."""
        from pnca.sources import ImageSource

        return isinstance(getattr(self.model, "source_", None), ImageSource)

    @cached_property
    def network(self) -> Backbone | None:
        """The backbone of a model of features."""
        return network_of(self.model, self.model_file, **self.of_networks)

    def labelled(self, data: Path, stage: Callable[[str], None]) -> Cases:
        """The cases of a table or folder, with their labels."""
        from pnca.workflows.cases import cases_of_images, cases_of_table, labelled_images

        stage(f"reading {data.name}")
        table = self._table(data)
        if not self.takes_images:
            assert table is not None
            self._note(data, [data])
            return cases_of_table(self.model, table, target=self.target, skip_missing=self.skip_missing)
        images = labelled_images(
            self.model,
            data,
            table,
            target=self.target,
            path_column=self.path_column,
            folder=self.folder,
            skip_missing=self.skip_missing,
        )
        self._note(data, images.files.paths if table is None else [data])
        return cases_of_images(
            self.model,
            images,
            data.name,
            self.network,
            skip_broken=self.skip_broken,
            progress=_counting(stage),
        )

    def ood(self, data: Path, stage: Callable[[str], None]) -> Cases:
        """The cases of a table or folder, without labels."""
        from pnca.tables.files import read_table
        from pnca.vision.folders import image_files, listed_files
        from pnca.workflows.cases import ood_cases_of_table, ood_images, path_column_of

        stage(f"reading {data.name}")
        table = self._table(data)
        if not self.takes_images:
            assert table is not None
            self._note(data, [data])
            return ood_cases_of_table(self.model, table)
        if table is None:
            files = image_files(data)
        else:
            name = path_column_of(self.model, table, self.path_column)
            files = listed_files(self.folder or data.parent, read_table(data, texts=[name])[name])
        self._note(data, files.paths if table is None else [data])
        return ood_images(self.model, files, data.name, self.network, progress=_counting(stage))

    def pictures(self, data: Path | None) -> Pictures | None:
        """Where pictures are found, for a model of features."""
        from pnca.workflows.pictures import Pictures

        if not (self.takes_images and self.model.source_.has_features):
            return None
        place = data if data is not None and data.is_dir() else Path() if data is None else data.parent
        return Pictures(source=self.model.source_, backbone=self.network, folder=self.folder or place)

    def _table(self, data: Path) -> TableFile | None:
        """The table, or None of images; what the model does not take is refused."""
        if is_images(data):
            if not self.takes_images:
                raise InvalidInputError(
                    f"{data} is images, and the model was fitted on a table: give it one."
                )
            return None
        if not self.takes_images:
            options = {name: value for name, value in self.of_networks.items() if name != "download"}
            refuse_for_tables(**options, folder=self.folder, path_column=self.path_column)
        return open_users_table(data, **self.of_tables)

    def _note(self, data: Path, paths: Sequence[Path]) -> None:
        from pnca.workflows.about import checksum_of

        name = f"{data.name} ({len(paths)} images)" if data.is_dir() else data.name
        self.checksums[name] = checksum_of(paths)


def _counting(stage: Callable[[str], None]) -> Callable[[int, int], None]:
    return lambda done, n: stage(f"reading images: {done} of {n}")


def _say(
    evaluating: Evaluating,
    found: Evaluation,
    data: Path | None,
    report: Path | None,
    *,
    as_json: bool,
) -> None:
    """Print the numbers, and warn of what should be looked at."""
    from pnca.interfaces.saying import say_json, warn
    from pnca.reports.words import summary_lines

    for note in evaluating.notes:
        warn(note)
    drift = evaluating.drift
    if drift is not None and drift.is_clear:
        warn(f"drift: {drift.summary()}")
    if as_json:
        say_json(
            found.as_dict() | {"notes": evaluating.notes, "report": None if report is None else str(report)}
        )
        return
    for line in summary_lines(found):
        typer.echo(line)
    if report is not None:
        typer.echo(f"Written to {report}.")
