"""A model, and the way to it: files and rows in, batches, answers and cases out."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pnca.estimators.decisions import held_out_of
from pnca.exceptions import InvalidInputError
from pnca.explanations.case import Explanation, WhatIf
from pnca.interfaces.web.settings import ServerSettings
from pnca.interfaces.web.store import Store
from pnca.interfaces.web.uploads import Upload
from pnca.interfaces.web.worker import Worker
from pnca.pipelines import last_step
from pnca.tables.files import TEXT_SUFFIXES
from pnca.tables.text import open_text
from pnca.vision.features import compute_features
from pnca.workflows.about import about_fitted
from pnca.workflows.answers import Scores, Settings, with_names
from pnca.workflows.batches import (
    IMAGES,
    NUMBERS,
    TABLE,
    Answered,
    Batch,
    RowsTable,
    answered,
    batch_of_table,
    explain_input,
    kind_of,
    table_parts,
    without_rows,
)
from pnca.workflows.image_content import Picture, picture_of
from pnca.workflows.images import image_source_of
from pnca.workflows.predicting import source_of
from pnca.workflows.samples import Sample, sample_of, samples_of

#: Images that go through a backbone at once.
_AT_ONCE = 16
#: Uploads that are decoded at once; others wait.
_DECODED_AT_ONCE = 2


class Service:
    """What the pages and the REST interface ask."""

    def __init__(self, model: Any, settings: ServerSettings) -> None:  # noqa: ANN401
        self.settings, self.limits = settings, settings.limits
        self.last, _ = last_step(model, None, "decide")
        held_out_of(self.last)  # an error if no decision can be made
        self.kind = kind_of(model)
        self.model = model
        #: A copy whose training examples all have names, if only their rows.
        shown = with_names(copy.copy(self.last))
        self.record, self._explained = shown.record_, shown if self.last is model else model
        if self.kind == IMAGES and image_source_of(model).has_features and settings.backbone is None:
            raise InvalidInputError("This model was fitted on features of images: pass its backbone, too.")
        inputs = self.record.inputs
        #: Whether there are pictures of training examples.
        self.has_pictures = self.kind == IMAGES and (
            settings.images is not None or (inputs is not None and inputs.ndim > 2)
        )
        self.columns = list(source_of(model).sorts) if self.kind == TABLE else []
        self.about = about_fitted(model)
        self.samples = samples_of(model, settings.answers)
        self.worker = Worker(model, settings.answers.n_examples)
        self.store = Store(settings.limits)
        self._decoding = asyncio.Semaphore(_DECODED_AT_ONCE)

    async def batch_of_files(self, uploads: Sequence[Upload]) -> Batch:
        """Read files and ask the model of what is in them."""
        if self.kind == IMAGES:
            return await self._batch_of_images(uploads)
        if self.kind == NUMBERS:
            raise InvalidInputError("This model takes rows of numbers (POST /api/predict), and no files.")
        if len(uploads) > 1:
            raise InvalidInputError("This model takes one table at a time: choose one file.")
        name, content = uploads[0]
        if not name.lower().endswith(TEXT_SUFFIXES):
            raise InvalidInputError(
                f"{name} is no table in text: this model takes {', '.join(TEXT_SUFFIXES)}. Of a spreadsheet, "
                "save the sheet as CSV."
            )
        if len(content) > self.limits.max_table_bytes:
            most = self.limits.max_table_bytes / 2**20
            raise InvalidInputError(f"{name} has more than {most:g} MiB: divide it, or use pnca predict.")
        async with self._decoding:
            table = await asyncio.to_thread(open_text, Path(name), content=content)
            return await self._batch_of_table(table)

    async def batch_of_rows(self, rows: Sequence[Mapping[str, Any] | Sequence[Any]]) -> Batch:
        """Ask the model of rows of values."""
        if self.kind == IMAGES:
            raise InvalidInputError("This model takes images: send files as a form (multipart/form-data).")
        if self.kind == TABLE:
            return await self._batch_of_table(RowsTable(rows, self.columns))
        X = _numbers(rows, self.model.n_features_in_)
        return Batch(name="row", names=range(1, len(X) + 1), X=X, scores=await self.worker.score(X))

    async def answered(self, batch: Batch, **shares: float) -> Answered:
        """What is said of a batch; ``shares`` are those of :class:`Settings` that differ."""
        return await asyncio.to_thread(answered, self.model, batch, self.answered_settings(**shares))

    def answered_settings(self, **shares: float) -> Settings:
        """What is asked, with ``shares`` of :class:`Settings` that differ from those of the server."""
        settings: Settings = replace(self.settings.answers, **shares)  # type: ignore[arg-type]
        return settings

    async def explained(self, batch: Batch, row: int, k: int = 5) -> Explanation:
        """The case of one input of a batch."""
        return await self.worker.run(explain_input, self._explained, batch, row, k)

    async def without(self, case: Explanation, rows: Sequence[int]) -> WhatIf | None:
        """The answer of a case without some training examples, by their rows."""
        return await self.worker.run(without_rows, case, rows) if rows else None

    async def sample(self, row: int, k: int = 5) -> Sample:
        """A training example, explained without itself."""
        return await self.worker.run(sample_of, self._explained, row, k)

    async def _batch_of_table(self, table: Any) -> Batch:  # noqa: ANN401
        inputs, parts = await asyncio.to_thread(table_parts, self.model, table, self.limits.max_rows)
        scores = [await self.worker.score(part.X) for part in parts]
        return await asyncio.to_thread(batch_of_table, inputs, parts, Scores.joined(scores))

    async def _batch_of_images(self, uploads: Sequence[Upload]) -> Batch:
        source = image_source_of(self.model)
        scores, inputs, shown = [], [], []
        for start in range(0, len(uploads), _AT_ONCE):
            some = uploads[start : start + _AT_ONCE]
            async with self._decoding:
                pictures = await asyncio.to_thread(self._pictures, some)
            pixels: Any = np.stack([picture.pixels for picture in pictures])
            if source.has_features:
                names = [upload.name for upload in some]
                pixels = await self.worker.run(compute_features, pixels, self.settings.backbone, names)
            inputs.append(pixels)
            shown += [picture.png for picture in pictures]
            scores.append(await self.worker.score(pixels))
        return Batch(
            name="image",
            names=[upload.name for upload in uploads],
            X=np.concatenate(inputs),
            scores=Scores.joined(scores),
            pictures=tuple(shown),
        )

    def _pictures(self, uploads: Sequence[Upload]) -> list[Picture]:
        source, limits = image_source_of(self.model), self.limits.images
        return [picture_of(upload.content, upload.name, source, limits) for upload in uploads]


def _numbers(
    rows: Sequence[Mapping[str, Any] | Sequence[Any]], n: int
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Rows of numbers (n, p); None is a missing value."""
    found = []
    for number, row in enumerate(rows, start=1):
        is_row = not isinstance(row, Mapping) and len(row) == n
        if not is_row or not all(value is None or isinstance(value, (int, float)) for value in row):
            raise InvalidInputError(
                f"Row {number} must be a list of {n} numbers, with null where one is missing."
            )
        found.append([np.nan if value is None else float(value) for value in row])
    return np.array(found, dtype=np.float64).reshape(len(found), n)
