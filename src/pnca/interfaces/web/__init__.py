"""The page and the REST interface of a model: parse, call, show; nothing else lives here."""

from pnca.interfaces.web.app import create_app
from pnca.interfaces.web.settings import Limits, ServerSettings

__all__ = ["Limits", "ServerSettings", "create_app"]
