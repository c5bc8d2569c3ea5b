"""``pnca demo``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pnca_studies.commands.options import Formats

if TYPE_CHECKING:
    from rich.console import Console


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the figures and results.json.")] = Path("pnca-demo"),
    n_train: Annotated[int, typer.Option(help="Training images, of 1797 digits in all.")] = 100,
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="Seed of the draw, the letters and the models.")
    ] = 0,
    format: Formats = None,
) -> None:
    """Run the paper's experiment in small: train on 100 digits, test on digits, rotated digits and letters.

    Needs no network and no data. Takes under a minute.
    """
    from rich.console import Console
    from rich.progress import track

    from pnca.files import prepare_folder, write_json
    from pnca_studies.data import load_digits_experiment
    from pnca_studies.experiments.demo import demo_models, record, run_demo
    from pnca_studies.reports.demo import write_figures

    console = Console()
    formats = [kind.value for kind in format or ()]
    experiment = load_digits_experiment(n_train, random_state=seed)
    folder = prepare_folder(out, marker="results.json")
    models = demo_models(seed)
    console.print(f"Training {len(models)} models on {n_train} digits.")
    results = list(
        track(run_demo(experiment, models), description="training", total=len(models), console=console)
    )
    content = record(results, experiment, n_train=n_train, random_state=seed)

    _print_table(console, content["models"], len(experiment.test_labels))
    console.print(
        "> .9: share of predictions with a confidence above .9. No letter is a digit, so each of those is a "
        "confident mistake. AUROC: how well confidence, or evidence (log kernel mass), tells digits from "
        "letters; 1 is best, .5 is chance.",
    )
    # First the file by which a later run recognises the folder.
    written = [
        write_json(folder / "results.json", content),
        *write_figures(results, experiment, folder, formats),
    ]
    console.print(f"\nWritten to {folder.resolve()}:")
    for path in written:
        console.print(f"  {path.name}")


def _print_table(console: Console, models: Mapping[str, Any], n_test: int) -> None:
    """Print the measures of each model; as wide as a terminal of 80 columns."""
    from rich import box
    from rich.table import Table

    from pnca_studies.reports.demo import COLUMNS, table_rows

    title = f"{n_test} test digits, the same rotated by 60°, and {n_test} letters"
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=0, show_edge=False)
    table.add_column("\nmodel", no_wrap=True)
    for heading, _ in COLUMNS.values():
        table.add_column(heading, justify="right", no_wrap=True)
    for row in table_rows(models):
        table.add_row(*row)
    console.print(table)
