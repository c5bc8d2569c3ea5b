"""The application: a model, its pages and its REST interface, behind the layers of safety."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from pnca import __version__
from pnca.exceptions import PncaError
from pnca.explanations.pages import TEMPLATES as EXPLANATIONS
from pnca.interfaces.web.api import make_api
from pnca.interfaces.web.messages import first_error
from pnca.interfaces.web.pages import STATIC, page
from pnca.interfaces.web.safety import HEADERS, BodyLimit, Guard
from pnca.interfaces.web.service import Service
from pnca.interfaces.web.settings import ServerSettings
from pnca.interfaces.web.views import make_views
from pnca.reports.pages import TEMPLATES as REPORTS

#: Files that pages load, all from here.
_FILES = {
    "app.js": (STATIC / "app.js", "text/javascript"),
    "page.css": (STATIC / "page.css", "text/css"),
    "report.css": (EXPLANATIONS / "style.css", "text/css"),
    "parts.css": (REPORTS / "report.css", "text/css"),
}
_FAILED = "The server failed on this request. What it said is on its terminal; nothing was kept."


def create_app(model: Any, settings: ServerSettings | None = None) -> FastAPI:  # noqa: ANN401
    """Build the page and the REST interface of a model.

    Parameters
    ----------
    model : PNCAClassifier, or Pipeline that ends in one
        Fitted with folds, or loaded.
    settings : ServerSettings, optional
        Where it will listen, who may ask, and how much.

    Returns
    -------
    FastAPI
        An ASGI application. It checks the Host header of every request against the settings.
    """
    settings = settings or ServerSettings()
    service = Service(model, settings)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        service.worker.close()

    app = FastAPI(
        title="pnca",
        version=__version__,
        summary=f"Predictions, decisions and explanations of {settings.title}.",
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
    )
    app.state.service = service
    _add_errors(app)
    app.include_router(make_api(service))
    app.include_router(make_views(service))
    _add_files(app)
    app.add_middleware(BodyLimit, limits=settings.limits)
    app.add_middleware(Guard, settings=settings)
    return app


def _add_files(app: FastAPI) -> None:
    @app.get("/static/{name}", include_in_schema=False)
    async def static(name: str) -> FileResponse:
        if name not in _FILES:
            raise HTTPException(404, "There is no such file.")
        path, media_type = _FILES[name]
        return FileResponse(path, media_type=media_type)


def _add_errors(app: FastAPI) -> None:
    """A message, and never a trace."""

    @app.exception_handler(PncaError)
    async def refused(request: Request, error: PncaError) -> Response:
        return _said(request, 422, str(error))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return _said(request, 422, first_error(error.errors()))

    @app.exception_handler(HTTPException)
    async def known(request: Request, error: HTTPException) -> Response:
        headers = dict(error.headers or {})
        return _said(request, error.status_code, str(error.detail), headers)

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=400)  # which nobody reads

    @app.exception_handler(MemoryError)
    async def too_large(request: Request, error: MemoryError) -> Response:
        return _said(request, 413, "There is not enough memory for this request: send less.")

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> Response:
        return _said(request, 500, _FAILED, HEADERS)  # it passes by the layers around the application


def _said(request: Request, status: int, text: str, headers: dict[str, str] | None = None) -> Response:
    """An error as JSON for machines, as a page for people."""
    if request.url.path.startswith(("/api/", "/openapi", "/healthz")):
        return JSONResponse({"detail": text}, status_code=status, headers=headers)
    answer = page("refused.html", status=status, text=text)
    answer.headers.update(headers or {})
    return answer
