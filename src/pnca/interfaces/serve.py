"""``pnca serve``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from pnca.interfaces.options import BackboneName, Download, Model, Weights


def serve(
    model: Model,
    host: Annotated[
        str, typer.Option(help="Address to listen at; all but this machine's own take a token.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen at; 0 takes a free one.")
    ] = 8000,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Further name under which it is asked, such as a proxy's; may be repeated."),
    ] = None,
    max_error: Annotated[
        float, typer.Option(help="Share of the answers that may be wrong, at first.")
    ] = 0.05,
    max_mb: Annotated[int, typer.Option(min=1, max=4096, help="MiB of one upload.")] = 256,
    images: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the training images, to show those behind an answer.", show_default=False
        ),
    ] = None,
    backbone: BackboneName = None,
    weights: Weights = None,
    download: Download = False,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
) -> None:
    """Serve a page, and a REST interface, that say what a model thinks of files.

    Example: pnca serve model.pnca

    It listens at this machine alone, keeps uploads in memory, and writes nothing. At another address every
    request needs a token: that of the environment variable PNCA_TOKEN, or one that is made and printed.

    Exit status: 0 if it was stopped by Ctrl-C or SIGTERM, after what was under way; 1 if the model or a
    setting is refused; 2 for a wrong command line.
    """
    from pnca.interfaces.networks import network_of
    from pnca.interfaces.saying import warnings_said
    from pnca.sources import ImageSource

    check_web()
    with warnings_said():
        from pnca.interfaces.web.running import answer_settings, limits_of, run, token_for
        from pnca.persistence.model_file import load

        fitted = load(model)
        network = None
        if isinstance(getattr(fitted, "source_", None), ImageSource):
            network = network_of(fitted, model, backbone, weights, download=download)
    run(
        fitted,
        host=host,
        port=port,
        token=token_for(host, os.environ.get("PNCA_TOKEN")),
        hosts=tuple(allow_host or ()),
        title=model.name,
        answers=answer_settings(max_error),
        limits=limits_of(max_mb),
        backbone=network,
        images=images,
        opens=open_browser,
    )


def check_web() -> None:
    """Say what is missing, if a package is that serves pages."""
    from importlib.util import find_spec

    from pnca.exceptions import MissingExtraError

    for module in ("fastapi", "uvicorn", "python_multipart", "jinja2", "matplotlib", "pandas"):
        if find_spec(module) is None:
            raise MissingExtraError(module, "web")
