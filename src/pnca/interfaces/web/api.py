"""The REST interface: predictions, explanations, what the model is."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from starlette.exceptions import HTTPException

from pnca import __version__
from pnca.explanations.case import Explanation, WhatIf
from pnca.explanations.text import name_of, sentences, short
from pnca.interfaces.web.messages import (
    FILES,
    Case,
    Cases,
    Cell,
    Health,
    Info,
    Prediction,
    Predictions,
    Refusal,
    TrainingExample,
    What,
    rows_of,
    schema_of_rows,
)
from pnca.interfaces.web.service import Service
from pnca.interfaces.web.uploads import files_of, media_type
from pnca.workflows.answers import names_of_examples
from pnca.workflows.batches import IMAGES, NUMBERS, TABLE, Answered, Batch
from pnca.workflows.predicting import source_of
from pnca.workflows.verdicts import verdict_of

MaxError = Annotated[
    float, Query(gt=0, lt=1, allow_inf_nan=False, description="Share of the answers that may be wrong.")
]
Confidence = Annotated[
    float, Query(gt=0, lt=1, allow_inf_nan=False, description="Probability with which that shall hold.")
]
Coverage = Annotated[
    float, Query(gt=0, lt=1, allow_inf_nan=False, description="Share of the sets that shall hold the class.")
]
_REFUSALS: dict[int | str, dict[str, Any]] = {
    401: {"model": Refusal, "description": "The token is missing."},
    403: {"model": Refusal, "description": "Another Host or Origin."},
    408: {"model": Refusal, "description": "The request did not go on."},
    413: {"model": Refusal, "description": "The request is too long."},
    415: {"model": Refusal, "description": "Another media type."},
    422: {"model": Refusal, "description": "The data, or a setting, cannot be used."},
    503: {"model": Refusal, "description": "Too much is being sent at once."},
}


def make_api(service: Service) -> APIRouter:
    """Build the routes that machines ask."""
    router = APIRouter(responses=_REFUSALS)
    _add_predict(router, service)
    _add_explain(router, service)

    @router.get("/api/info", summary="What the model is")
    async def info() -> Info:
        return info_of(service)

    @router.get("/healthz", summary="Whether the server answers")
    async def healthz() -> Health:
        return Health()

    return router


def _add_predict(router: APIRouter, service: Service) -> None:
    asked, body = service.settings.answers, _body(service, service.limits.max_rows)

    @router.post(
        "/api/predict",
        response_model=Predictions,
        summary="Predict rows or images",
        openapi_extra={"requestBody": body},
    )
    async def predict(
        request: Request,
        max_error: MaxError = asked.max_error,
        confidence: Confidence = asked.confidence,
        coverage: Coverage = asked.coverage,
    ) -> Response:
        batch = await _batch(service, request)
        found = await service.answered(batch, max_error=max_error, confidence=confidence, coverage=coverage)
        # Of many rows this takes a while, in which others are answered.
        content = await asyncio.to_thread(lambda: _predictions(service, batch, found).model_dump_json())
        return Response(content, media_type="application/json")


def _add_explain(router: APIRouter, service: Service) -> None:
    asked, most = service.settings.answers, service.limits.max_explained
    rows = {"type": "integer", "minimum": 1, "maximum": service.last.n_samples_fit_}
    without_of = Query(
        default_factory=list,
        max_length=100,
        description="Rows, from 1, of training examples to answer without.",
        json_schema_extra={"items": rows},
    )

    @router.post(
        "/api/explain", summary="Explain answers", openapi_extra={"requestBody": _body(service, most)}
    )
    async def explain(
        request: Request,
        max_error: MaxError = asked.max_error,
        confidence: Confidence = asked.confidence,
        examples: Annotated[int, Query(ge=1, le=50, description="Training examples that are named.")] = 5,
        without: list[int] = without_of,
    ) -> Cases:
        batch = await _batch(service, request, most)
        found = await service.answered(batch, max_error=max_error, confidence=confidence)
        cases = []
        for row in range(len(batch)):
            case = await service.explained(batch, row, examples)
            what_if = await service.without(case, [number - 1 for number in without])
            cases.append(_case(service, batch, found, row, case, what_if))
        return Cases(cases=cases)


def info_of(service: Service) -> Info:
    """What is known of the model, without a path."""
    about, limits = service.about, service.limits
    return Info(
        title=service.settings.title,
        version=__version__,
        takes=service.kind,
        limits={
            "max_bytes": limits.max_bytes,
            "max_table_bytes": limits.max_table_bytes,
            "max_files": limits.max_files,
            "max_rows": limits.max_rows,
            "max_pixels": limits.images.max_pixels,
        },
        **{
            name: about[name]
            for name in ("model", "n_examples", "n_groups", "classes", "columns", "input_shape", "promises")
        },
    )


async def _batch(service: Service, request: Request, most: int | None = None) -> Batch:
    """The inputs of a request, whichever way they came."""
    kind = media_type(request)
    if kind == "application/json":
        rows = await rows_of(request, service.limits)
        if most is not None and len(rows) > most:
            raise HTTPException(422, f"At most {most} rows are explained at once; there are {len(rows):,}.")
        return await service.batch_of_rows(rows)
    if kind != "multipart/form-data":
        raise HTTPException(415, "Send rows as application/json, or files as multipart/form-data.")
    uploads = await files_of(request, service.limits)
    if most is not None and len(uploads) > most:
        raise HTTPException(422, f"At most {most} files are explained at once; there are {len(uploads):,}.")
    batch = await service.batch_of_files(uploads)
    if most is not None and len(batch) > most:
        raise HTTPException(422, f"At most {most} rows are explained at once; there are {len(batch):,}.")
    return batch


def _body(service: Service, most: int) -> dict[str, Any]:
    """The body of a request, as this model takes it, with so many rows at most."""
    content: dict[str, Any] = {}
    if service.kind != IMAGES:
        sorts = source_of(service.model).sorts if service.kind == TABLE else None
        n_features = 0 if sorts is not None else service.model.n_features_in_
        content["application/json"] = {"schema": schema_of_rows(sorts, n_features, most)}
    if service.kind != NUMBERS:
        content["multipart/form-data"] = {"schema": FILES}
    return {"required": True, "content": content}


def _predictions(service: Service, batch: Batch, found: Answered) -> Predictions:
    decisions, classes, proba = found.decisions, service.last.classes_, batch.scores.proba
    shown = [str(label) for label in classes.tolist()]
    names, record = names_of_examples(service.last), service.record
    sets = found.sets
    predictions = []
    for i in range(len(batch)):
        verdict = verdict_of(decisions, i, classes, proba[i])
        rows, shares = batch.scores.rows[i].tolist(), batch.scores.shares[i].tolist()
        label = decisions.label[i]
        predictions.append(
            Prediction(
                name=str(batch.names[i]),
                label=_plain(label),
                reason=verdict.reason,
                verdict=verdict.title,
                details=verdict.details,
                confidence=float(decisions.confidence[i]),
                familiarity=float(decisions.familiarity[i]),
                classes=[text for text, is_in in zip(shown, sets[i], strict=True) if is_in],
                probabilities=dict(zip(shown, proba[i].tolist(), strict=True)),
                examples=[
                    TrainingExample(
                        row=row + 1,
                        name=names[row],
                        label=_plain(record.labels[row]),
                        share=share,
                        distance=None,
                    )
                    for row, share in zip(rows, shares, strict=True)
                ],
            )
        )
    return Predictions(predictions=predictions, summary=decisions.summary(), notes=list(found.notes))


def _case(
    service: Service, batch: Batch, found: Answered, row: int, case: Explanation, what_if: WhatIf | None
) -> Case:
    shown = [str(label) for label in case.classes.tolist()]
    verdict = verdict_of(found.decisions, row, case.classes, batch.scores.proba[row])
    return Case(
        name=str(batch.names[row]),
        verdict=verdict.title,
        reason=verdict.reason,
        probabilities=dict(zip(shown, case.proba.tolist(), strict=True)),
        parts={name: dict(zip(shown, part.tolist(), strict=True)) for name, part in case.parts.items()},
        sentences=sentences(case),
        examples=[
            TrainingExample(
                row=example.row + 1,
                name=name_of(example),
                label=_plain(example.label),
                share=example.share,
                distance=example.distance,
            )
            for example in case.examples
        ],
        columns=[
            Cell(
                name=str(column.name),
                value=short(column.value),
                typical=short(column.typical),
                deviations=column.distance,
                is_new=column.is_new,
            )
            for column in case.columns
        ],
        notes=list(case.notes),
        what_if=None
        if what_if is None
        else What(
            change=what_if.change, probabilities=dict(zip(shown, what_if.after[0].tolist(), strict=True))
        ),
    )


def _plain(label: Any) -> Any:  # noqa: ANN401
    """A label as JSON has it."""
    plain = label.item() if hasattr(label, "item") else label
    return plain if isinstance(plain, (bool, int, float, str)) or plain is None else str(plain)
