"""Run the server until it is stopped."""

from __future__ import annotations

import secrets
import signal
import socket
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import typer
import uvicorn

from pnca.exceptions import InvalidInputError, MissingDataError
from pnca.interfaces.web.app import create_app
from pnca.interfaces.web.settings import EVERYWHERE, LOOPBACK, MIB, Limits, ServerSettings
from pnca.workflows.answers import Settings

#: Seconds for what is under way when the server is stopped.
_GRACE = 300


def run(model: Any, *, opens: bool = False, **settings: Any) -> None:  # noqa: ANN401
    """Serve a model until Ctrl-C or SIGTERM; what is under way is finished.

    Parameters
    ----------
    model : PNCAClassifier
        Fitted.
    opens : bool
        Whether the page is opened in a browser.
    **settings
        Of :class:`ServerSettings`; a ``port`` of zero takes a free one.
    """
    images = settings.get("images")
    if images is not None and not Path(images).is_dir():
        raise MissingDataError(f"There is no folder {images}: name that of the training images.")
    with _listening(settings.pop("host"), settings.pop("port")) as (listener, host, port):
        app_settings = ServerSettings(host=host, port=port, **settings)
        app = create_app(model, app_settings)
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, lifespan="on", timeout_graceful_shutdown=_GRACE,
            server_header=False, date_header=False, proxy_headers=False, ws="none",
        )  # fmt: skip
        address = _address(app_settings)
        typer.echo(f"The page is at {address} (stop it with Ctrl-C).")
        if opens:
            webbrowser.open(address)
        with _finishing():
            uvicorn.Server(config).run(sockets=[listener])
    typer.echo("Stopped.")


def token_for(host: str, given: str | None) -> str | None:
    """The token that a server at this address takes: one that was given, or of its own where it needs one."""
    if given:
        return given
    return None if host in LOOPBACK else secrets.token_urlsafe(32)


def answer_settings(max_error: float) -> Settings:
    """What is asked of the model unless a request says otherwise."""
    return Settings(max_error=max_error, n_examples=5)


def limits_of(max_mib: int) -> Limits:
    """Limits of a server that takes uploads of so many MiB."""
    return Limits(max_bytes=max_mib * MIB)


@contextmanager
def _listening(host: str, port: int) -> Iterator[tuple[socket.socket, str, int]]:
    """A socket that is bound before anything is loaded for it, with its address."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InvalidInputError(f"There is no address {host} to listen at ({error.strerror}).") from error
    with listener:
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(place)
        except OSError as error:
            raise InvalidInputError(
                f"The server cannot listen at {host}:{port} ({error.strerror}): name another --port, or 0 "
                "for a free one."
            ) from error
        yield listener, host, listener.getsockname()[1]


def _address(settings: ServerSettings) -> str:
    """What to open in a browser, with the token where it takes one."""
    host = socket.gethostname() if settings.host in EVERYWHERE else settings.host
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{settings.port}/" + (f"?token={settings.token}" if settings.token else "")


@contextmanager
def _finishing() -> Iterator[None]:
    """Ctrl-C and SIGTERM, which the server raises once more when it has finished, are an end and no error."""

    def ignore(number: int, frame: FrameType | None) -> None:
        """The server has stopped already."""

    former = signal.signal(signal.SIGTERM, ignore)
    try:
        with suppress(KeyboardInterrupt):
            yield
    finally:
        signal.signal(signal.SIGTERM, former)
