"""What the REST interface takes and gives, as types: the OpenAPI description is made of them."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NoReturn

from pydantic import BaseModel, Field, StrictBool, StrictFloat, StrictInt
from starlette.exceptions import HTTPException
from starlette.requests import Request

from pnca.interfaces.web.settings import Limits
from pnca.tables.values import DATE, EMPTY, NUMBER, TEXT, TRUTH
from pnca.workflows.batches import Kind
from pnca.workflows.verdicts import Reason

_LONGEST_TEXT = 10_000
#: A number that is a measurement: single precision has to hold its square.
_NUMBER: dict[str, Any] = {"type": ["number", "null"], "minimum": -1e15, "maximum": 1e15}
#: A label or a value: what JSON has, without numbers that no file could hold.
Value = (
    StrictBool
    | Annotated[StrictInt, Field(ge=-(2**63), lt=2**63)]
    | Annotated[StrictFloat, Field(allow_inf_nan=False)]
    | Annotated[str, Field(max_length=_LONGEST_TEXT)]
    | None
)


class Refusal(BaseModel):
    """Why a request was refused, and what to change."""

    detail: str


class TrainingExample(BaseModel):
    """A training example behind an answer."""

    row: int = Field(description="In the training data, from 1.")
    name: str
    label: Value
    share: float = Field(description="Of the probability of its class.")
    distance: float | None = Field(None, description="From the input, in standard deviations.")


class Prediction(BaseModel):
    """What is said of one input."""

    name: str
    label: Value = Field(description="The class, or null where it is not answered.")
    reason: Reason
    verdict: str
    details: str
    confidence: float
    familiarity: float
    classes: list[str] = Field(description="Those that cannot be ruled out at the coverage.")
    probabilities: dict[str, float]
    examples: list[TrainingExample]


class Predictions(BaseModel):
    """What is said of several inputs."""

    predictions: list[Prediction]
    summary: str
    notes: list[str]


class Cell(BaseModel):
    """A column of an input, and how unusual it is."""

    name: str
    value: str
    typical: str
    deviations: float | None = Field(description="From the named examples, in standard deviations.")
    is_new: bool


class What(BaseModel):
    """The answer without some training examples, all that was learnt held fixed."""

    change: str
    probabilities: dict[str, float]


class Case(BaseModel):
    """What one answer consists of."""

    name: str
    verdict: str
    reason: Reason
    probabilities: dict[str, float]
    parts: dict[str, dict[str, float]] = Field(description="They add up to the probabilities.")
    sentences: list[str]
    examples: list[TrainingExample]
    columns: list[Cell]
    notes: list[str]
    what_if: What | None


class Cases(BaseModel):
    """Explanations of several inputs."""

    cases: list[Case]


class Info(BaseModel):
    """What the model is, and what it can promise."""

    title: str
    version: str
    takes: Kind
    model: str
    n_examples: int
    n_groups: int | None
    classes: dict[str, int]
    columns: list[str]
    input_shape: list[int]
    promises: dict[str, Any] | None
    limits: dict[str, int]


class Health(BaseModel):
    """That the server answers."""

    status: Literal["ok"] = "ok"


async def rows_of(request: Request, limits: Limits) -> list[dict[str, Any] | list[Any]]:
    """The rows of a JSON body, or an error that says what is wrong with it."""
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > limits.max_table_bytes:
            raise HTTPException(413, f"At most {limits.max_table_bytes / 2**20:.3g} MiB of rows can be sent.")
    return await asyncio.to_thread(_parsed, bytes(content), limits.max_rows)


def _parsed(content: bytes, most: int) -> list[dict[str, Any] | list[Any]]:
    """The rows of a body, looked at one by one: it may hold a million that are wrong."""

    def refuse(constant: str) -> NoReturn:
        raise HTTPException(422, f"{constant} is no number of JSON: a value that is missing is null.")

    try:
        value = json.loads(content, parse_constant=refuse, object_pairs_hook=_without_twins)
    except (ValueError, RecursionError):  # numbers of a thousand digits, a thousand brackets
        raise HTTPException(422, "The body is no JSON that can be read.") from None
    rows = value.get("rows") if isinstance(value, dict) and len(value) == 1 else None
    if not isinstance(rows, list) or not rows:
        raise HTTPException(422, 'The body must be an object with rows and nothing else: {"rows": [...]}.')
    if len(rows) > most:
        raise HTTPException(422, f"At most {most:,} rows can be sent; there are {len(rows):,}.")
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict | list) or not all(map(_is_value, (*row, *_values_of(row)))):
            raise HTTPException(
                422,
                f"Row {number} must be an object, or a list, of values: texts of at most {_LONGEST_TEXT:,} "
                "characters, finite numbers, true, false or null.",
            )
    return rows


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise HTTPException(422, "An object of the body has a name twice: name each column once.")
    return found


def _values_of(row: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return row.values() if isinstance(row, dict) else ()


def _is_value(value: Any) -> bool:  # noqa: ANN401
    """Whether this is a text, a number, a truth value or null, as a file could hold it."""
    if isinstance(value, str):
        return len(value) <= _LONGEST_TEXT and not any("\ud800" <= letter <= "\udfff" for letter in value)
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, bool) or (isinstance(value, int) and -(2**63) <= value < 2**63)


def first_error(errors: Sequence[Mapping[str, Any]]) -> str:
    """What is wrong with a request, in a sentence; nothing of its values is repeated.

    >>> first_error([{"loc": ("query", "max_error"), "msg": "Input should be less than 1"}])
    'max_error: Input should be less than 1.'
    """
    first = errors[0]
    place = ".".join(str(part)[:50] for part in first["loc"] if part not in ("query", "body", "path"))
    more = f" There are {len(errors) - 1} more errors." if len(errors) > 1 else ""
    return f"{place or 'body'}: {first['msg']}.{more}"


def schema_of_rows(sorts: Mapping[str, str] | None, n_features: int, most: int) -> dict[str, Any]:
    """JSON schema of a body with rows as a model takes them, ``most`` of them at most.

    ``sorts`` are of columns, if these have names.
    """
    if sorts is None:
        row: dict[str, Any] = {
            "type": "array",
            "items": _NUMBER,
            "minItems": n_features,
            "maxItems": n_features,
        }
    else:
        row = {
            "type": "object",
            "properties": {
                name: _SCHEMAS.get(sort, {"type": ["string", "null"]}) for name, sort in sorts.items()
            },
            "required": [name for name, sort in sorts.items() if sort != EMPTY],
            "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
        }
    rows = {"type": "array", "minItems": 1, "maxItems": most, "items": row}
    return {
        "type": "object",
        "properties": {"rows": rows},
        "required": ["rows"],
        "additionalProperties": False,
    }


_SCHEMAS: dict[str, dict[str, Any]] = {
    NUMBER: _NUMBER,
    TRUTH: {"type": ["boolean", "null"]},
    TEXT: {"type": ["string", "null"]},
    DATE: {"type": ["string", "null"], "format": "date"},
    EMPTY: {},
}
#: A form with files.
FILES: dict[str, Any] = {
    "type": "object",
    "properties": {
        "files": {"type": "array", "items": {"type": "string", "format": "binary"}, "minItems": 1}
    },
    "required": ["files"],
}
