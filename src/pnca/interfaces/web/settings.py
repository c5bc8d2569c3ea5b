"""What a server is told once, when it starts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pnca.exceptions import InvalidInputError
from pnca.vision.images import ImageLimits
from pnca.workflows.answers import Settings

if TYPE_CHECKING:
    from pnca.vision import Backbone

MIB = 2**20
#: Names and addresses that never leave the machine.
LOOPBACK = ("127.0.0.1", "localhost", "::1")
#: Addresses that stand for all those of a machine.
EVERYWHERE = ("0.0.0.0", "::")
#: Characters of a token; what people make up is shorter.
SHORTEST_TOKEN = 16


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much a request may ask for; what is above is refused in a sentence."""

    max_bytes: int = 256 * MIB  # of a request
    max_table_bytes: int = 32 * MIB  # of a table in it
    max_files: int = 500
    max_rows: int = 20_000  # of a table
    max_explained: int = 20  # inputs that are explained in one request
    images: ImageLimits = field(default_factory=ImageLimits)
    kept_bytes: int = 1024 * MIB  # of uploads that can be looked at
    kept_batches: int = 50
    seconds_of_silence: float = 60.0  # after which a client that sends nothing more is given up


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Where a server listens, who may ask, and how much.

    Attributes
    ----------
    host, port : str and int
        The address it listens at. Requests must name it, or one of ``hosts``.
    token : str or None
        What every request must bring; without one anybody who reaches the address may ask.
    hosts : tuple of str
        Further names under which it is asked, without a port, such as that of a proxy.
    title : str
        What the model is called; by custom the name of its file.
    answers : Settings
        What is asked of the model unless a request says otherwise.
    limits : Limits
        How much a request may ask for.
    backbone : Backbone or None
        Of a model of features of images.
    images : Path or None
        The folder of the training images, by which examples behind an answer are shown if the model has
        their names alone.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = None
    hosts: tuple[str, ...] = ()
    title: str = "model"
    answers: Settings = field(default_factory=lambda: Settings(n_examples=5))
    limits: Limits = field(default_factory=Limits)
    backbone: Backbone | None = None
    images: Path | None = None

    def __post_init__(self) -> None:
        if self.token is not None and len(self.token) < SHORTEST_TOKEN:
            raise InvalidInputError(
                f"A token has at least {SHORTEST_TOKEN} characters, so that nobody guesses it; leave "
                "PNCA_TOKEN away and one is made."
            )
        if self.token is None and not self.is_loopback:
            raise InvalidInputError(
                f"{self.host} can be reached by other machines: that takes a token, in PNCA_TOKEN."
            )

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return self.host in LOOPBACK
