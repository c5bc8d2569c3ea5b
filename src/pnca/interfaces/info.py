"""``pnca info``."""

from __future__ import annotations

from typing import Any

import typer

from pnca.interfaces.options import Json, Model


def info(model: Model, as_json: Json = False) -> None:
    """Say what a model file holds: classes, columns, counts, settings, versions, checksum, promises.

    Example: pnca info model.pnca --json

    Exit status: 0 if it is a model, 1 if not, 2 for a wrong command line.
    """
    from pnca.interfaces.saying import say_json, warnings_said
    from pnca.workflows import about_model

    with warnings_said():
        about = about_model(model)
    if as_json:
        say_json(about)
    else:
        say_about(about)


def say_about(about: dict[str, Any], *, is_new: bool = False) -> None:
    """Print what a model is."""
    from pnca.interfaces.saying import say_list

    if about["columns"]:
        say_list("Columns:", about["columns"])
    elif source := about["source"]:
        say_list("Images:", [f"{name}: {value}" for name, value in source.items()])
    else:
        typer.echo(f"Inputs: of shape {tuple(about['input_shape'])}")
    counts = ", ".join(f"{name} ({n})" if n else name for name, n in about["classes"].items())
    groups = "" if about["n_groups"] is None else f" in {about['n_groups']} groups"
    typer.echo(f"Classes: {counts}; {about['n_examples']} examples{groups}.")
    if about["promises"] is None:
        typer.echo("Promises: none; the model knows nothing of its training examples out of fold.")
    else:
        say_list("Promises:", about["promises"]["lines"])
    if is_new:
        typer.echo(f"Written to {about['file']}.")
        return
    settings = ", ".join(f"{name}={value!r}" for name, value in about["settings"].items())
    typer.echo(f"Settings: {settings or 'the default ones'}.")
    typer.echo(f"Model: {about['model']}, saved by pnca {about['pnca']}, format {about['format']}.")
    typer.echo(f"SHA-256: {about['sha256']}")
