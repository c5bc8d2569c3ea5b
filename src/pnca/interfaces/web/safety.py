"""Who may ask, how much, and what a browser may do with the answer: as layers around the application."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import socket
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs, urlsplit

from fastapi.responses import HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pnca.explanations.pages import rendered
from pnca.interfaces.web.pages import TEMPLATES
from pnca.interfaces.web.settings import EVERYWHERE, LOOPBACK, Limits, ServerSettings

#: Nothing from another host, nothing inline, no frame around the page.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
#: What is answered without a token: that the server is there.
_OPEN = "/healthz"
_READS = ("GET", "HEAD")


class Guard:
    """Refuses requests under another name (DNS rebinding), from another page, or without the token."""

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self.app, self.settings = app, settings
        self.cookie = f"pnca-{settings.port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no web sockets here
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                added = [(n.encode(), v.encode()) for n, v in HEADERS.items() if n.encode() not in given]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        answer = self._refusal(scope)
        await (self.app if answer is None else answer)(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        """What is answered instead, if the request is not passed on."""
        hosts = _values(scope, b"host")
        if len(hosts) != 1 or not self.is_known(hosts[0]):
            return _refused(
                scope, 403, "The server is not known by this name: ask it by the address it printed."
            )
        origins = _values(scope, b"origin")
        site = _values(scope, b"sec-fetch-site")
        is_foreign = any(_place_of(origin) != hosts[0].lower() for origin in origins)
        if is_foreign or (scope["method"] not in _READS and "cross-site" in site):
            return _refused(scope, 403, "Another page sent this request: open this server's own page.")
        if self.settings.token is None or scope["path"] == _OPEN:
            return None
        asked = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        if asked and scope["method"] == "GET" and self._is_token(asked):
            return self._entered()
        if self._is_token([*_bearers(scope), *_cookies(scope, self.cookie)]):
            return None
        return _refused(scope, 401, "This server wants its token: open the whole address that it printed.")

    def is_known(self, host: str) -> bool:
        """Whether a Host header names this server.

        Of a server at all addresses of a machine these are its addresses and its own name: any other name
        that leads here is one that somebody else chose.
        """
        try:
            parts = urlsplit(f"//{host}")
            name, port = (parts.hostname or "").lower(), parts.port
        except ValueError:
            return False
        if name in {known.lower() for known in self.settings.hosts}:
            return True  # a proxy has a port of its own
        if (port or 80) != self.settings.port or "@" in host:
            return False
        if self.settings.is_loopback:
            return name in LOOPBACK
        if name == self.settings.host.lower() or name in LOOPBACK:
            return True
        is_own = _is_address(name) or name == socket.gethostname().lower()
        return self.settings.host in EVERYWHERE and is_own

    def _is_token(self, given: Iterable[str]) -> bool:
        wanted = (self.settings.token or "").encode()
        return any([hmac.compare_digest(one.encode(), wanted) for one in given])

    def _entered(self) -> ASGIApp:
        """A page that sets the cookie and goes on: a redirect from another site would not bring it along."""
        answer = HTMLResponse(rendered("entered.html", TEMPLATES))
        answer.set_cookie(self.cookie, self.settings.token or "", httponly=True, samesite="strict", path="/")
        return answer


class BodyLimit:
    """Counts the bytes of requests as they come, of each and of all together, and gives up silent clients."""

    def __init__(self, app: ASGIApp, limits: Limits) -> None:
        self.app, self.limits, self.n_waiting = app, limits, 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, with a body that ends in an error where it is too long."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        said = _values(scope, b"content-length")
        if said and said[0].isdigit() and int(said[0]) > self.limits.max_bytes:
            await _refused(scope, 413, self._too_long())(scope, receive, send)
            return
        n, is_whole = 0, False

        async def counted() -> Message:
            nonlocal n, is_whole
            if is_whole:
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), self.limits.seconds_of_silence)
            except asyncio.TimeoutError:
                raise HTTPException(408, "The request did not go on: send it again.") from None
            if message["type"] == "http.request":
                is_whole = not message.get("more_body", False)
                n += len(message.get("body", b""))
                self.n_waiting += len(message.get("body", b""))
                if n > self.limits.max_bytes:
                    raise HTTPException(413, self._too_long())
                if self.n_waiting > 2 * self.limits.max_bytes:
                    raise HTTPException(503, "Too much is being sent at once: try again in a minute.")
            return message

        try:
            await self.app(scope, counted, send)
        finally:
            self.n_waiting -= n

    def _too_long(self) -> str:
        return f"At most {self.limits.max_bytes / 2**20:.3g} MiB can be sent at once: send less."


def _refused(scope: Scope, status: int, text: str) -> ASGIApp:
    if scope["path"].startswith(("/api/", "/openapi")):
        return JSONResponse({"detail": text}, status_code=status)
    return HTMLResponse(rendered("refused.html", TEMPLATES, text=text), status_code=status)


def _place_of(origin: str) -> str | None:
    """Host and port of an origin; None where it is no address."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def _bearers(scope: Scope) -> list[str]:
    given = [value.partition(" ") for value in _values(scope, b"authorization")]
    return [token.strip() for kind, _, token in given if kind.lower() == "bearer"]


def _cookies(scope: Scope, name: str) -> list[str]:
    found = []
    for value in _values(scope, b"cookie"):
        try:
            cookies = SimpleCookie(value)
        except CookieError:
            continue
        if name in cookies:
            found.append(cookies[name].value)
    return found


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
