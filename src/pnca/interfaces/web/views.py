"""The pages: what a person sees."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException

from pnca.explanations.text import short
from pnca.interfaces.web.api import info_of
from pnca.interfaces.web.pages import page, parts_of_batch, parts_of_input, parts_of_model, query
from pnca.interfaces.web.service import Service
from pnca.interfaces.web.uploads import files_of
from pnca.workflows.answers import decisions_out_of_fold
from pnca.workflows.batches import IMAGES, SORTED_BY, TABLE, Answered, Batch, arranged
from pnca.workflows.evaluating import evaluated_out_of_fold
from pnca.workflows.image_content import training_picture
from pnca.workflows.verdicts import Reason, verdict_of

#: Share of the answers that may be wrong.
MaxError = Annotated[float, Query(gt=0, lt=1, allow_inf_nan=False)]
Rows = Annotated[list[int] | None, Query(max_length=100)]
_HTML: dict[str, Any] = {"include_in_schema": False}


def make_views(service: Service) -> APIRouter:
    """Build the routes that people look at."""
    router, usual = APIRouter(**_HTML), service.settings.answers.max_error
    _add_batches(router, service, usual)
    _add_inputs(router, service, usual)
    _add_examples(router, service, usual)

    @router.get("/")
    async def home() -> HTMLResponse:
        return page("home.html", **_common(service), active="ask", info=info_of(service))

    @router.get("/model")
    async def model(max_error: MaxError = usual) -> HTMLResponse:
        evaluation = await asyncio.to_thread(evaluated_out_of_fold, service.model, max_error)
        values = await service.worker.run(parts_of_model, service.about, evaluation)
        return page("model.html", **_common(service), active="model", max_error=max_error, **values)

    @router.get("/interface")
    async def interface(request: Request) -> HTMLResponse:
        described = request.app.openapi()
        return page(
            "interface.html", **_common(service), active="interface", api=described,
            columns=service.columns, address=str(request.base_url).rstrip("/"),
        )  # fmt: skip

    return router


def _add_batches(router: APIRouter, service: Service, usual: float) -> None:
    """The pages of all inputs that came together."""

    @router.get("/batches/{key}")
    async def batch(
        key: str,
        max_error: MaxError = usual,
        sort: Annotated[str, Query(max_length=20)] = "",
        descending: bool = False,
        reason: Reason | None = None,
        number: Annotated[int, Query(alias="page", ge=1, le=10**6)] = 1,
    ) -> HTMLResponse:
        kept = service.store.of(key)
        found = await service.answered(kept, max_error=max_error)
        by = sort if sort in SORTED_BY else ""
        arrange = partial(arranged, found.frame, by=by, descending=descending, reason=reason or "")
        rows = (await asyncio.to_thread(arrange)).tolist()
        asked = {
            "sort": sort,
            "descending": "true" if descending else "",
            "reason": reason or "",
            "max_error": f"{max_error:g}",
        }
        values = parts_of_batch(kept, found, rows, number, asked)
        return page(
            "batch.html", **_common(service), active="ask", key=key, asked=asked, query=query,
            max_error=max_error, has_pictures=bool(kept.pictures), batch=values,
        )  # fmt: skip

    @router.get("/batches/{key}/predictions.csv")
    async def download(key: str, max_error: MaxError = usual) -> Response:
        found = await service.answered(service.store.of(key), max_error=max_error)
        text = await asyncio.to_thread(found.frame.to_csv, index=False)
        named = {"content-disposition": 'attachment; filename="predictions.csv"'}
        return Response(text, media_type="text/csv; charset=utf-8", headers=named)


def _add_inputs(router: APIRouter, service: Service, usual: float) -> None:
    """The pages of single inputs that came along."""

    @router.post("/inputs")
    async def upload(request: Request) -> RedirectResponse:
        batch = await service.batch_of_files(await files_of(request, service.limits))
        key = service.store.keep(batch)
        return RedirectResponse(f"/batches/{key}" + "/1" * (len(batch) == 1), status_code=303)

    @router.get("/batches/{key}/{number}")
    async def one(key: str, number: int, max_error: MaxError = usual, without: Rows = None) -> HTMLResponse:
        kept = service.store.of(key)
        row = _place(number, len(kept))
        found = await service.answered(kept, max_error=max_error)
        case = await service.explained(kept, row)
        removed = [one - 1 for one in without or []]
        what_if = await service.without(case, removed)
        values = await service.worker.run(parts_of_input, case, what_if, removed)
        return page(
            "input.html", **_common(service), active="ask", key=key, number=number, n=len(kept),
            name=short(kept.names[row], most=80), max_error=max_error, query=query,
            verdict=verdict_of(found.decisions, row, service.last.classes_, kept.scores.proba[row]),
            picture=f"/batches/{key}/{number}/picture" if kept.pictures else "",
            notes=_notes(kept, found), sample=None, **values,
        )  # fmt: skip

    @router.get("/batches/{key}/{number}/picture")
    async def picture(key: str, number: int) -> Response:
        kept = service.store.of(key)
        if not kept.pictures:
            raise HTTPException(404, "There is no picture of a row.")
        return Response(kept.pictures[_place(number, len(kept))], media_type="image/png")


def _add_examples(router: APIRouter, service: Service, usual: float) -> None:
    """The pages of training examples."""

    @router.get("/examples/{number}")
    async def example(number: int, max_error: MaxError = usual, without: Rows = None) -> HTMLResponse:
        row = _place(number, service.last.n_samples_fit_)
        sample = await service.sample(row)
        settings = service.answered_settings(max_error=max_error)
        decisions = await asyncio.to_thread(decisions_out_of_fold, service.model, settings)
        removed = [one - 1 for one in without or []]
        what_if = await service.without(sample.case, removed)
        values = await service.worker.run(parts_of_input, sample.case, what_if, removed)
        proba, classes = service.last.oof_proba_[row], service.last.classes_
        return page(
            "input.html", **_common(service), active="ask", key="", number=number,
            n=service.last.n_samples_fit_, max_error=max_error, query=query,
            name=_name_of_example(service, row), notes=(),
            verdict=verdict_of(decisions, row, classes, proba),
            picture=f"/examples/{number}/picture" if service.has_pictures else "",
            sample={"label": short(sample.label), "was": short(classes.tolist()[proba.argmax()])},
            **values,
        )  # fmt: skip

    @router.get("/examples/{number}/picture")
    async def picture(number: int) -> Response:
        row = _place(number, service.last.n_samples_fit_)
        settings, record = service.settings, service.record
        png = await asyncio.to_thread(training_picture, record, row, settings.images, settings.limits.images)
        if png is None:
            raise HTTPException(404, "There is no picture of this training example.")
        return Response(png, media_type="image/png")


def _common(service: Service) -> dict[str, Any]:
    """What every page has."""
    return {
        "model": service.settings.title,
        "kind": service.kind,
        "takes_images": service.kind == IMAGES,
        "takes_files": service.kind in (IMAGES, TABLE),
        "limits": service.limits,
        "samples": service.samples,
        "has_training_pictures": service.has_pictures,
        "has_examples": bool(service.samples),
    }


def _place(number: int, n: int) -> int:
    if not 1 <= number <= n:
        raise HTTPException(404, f"There is no number {number}: there are {n}.")
    return number - 1


def _name_of_example(service: Service, row: int) -> str:
    return short(service.record.ids[row], most=80)


def _notes(batch: Batch, found: Answered) -> tuple[str, ...]:
    """What a user should know who looks at a single input; of several the batch says it."""
    return found.notes if len(batch) == 1 else ()
