"""Files of a request, in memory and nowhere else."""

from __future__ import annotations

import sys
from typing import NamedTuple

from python_multipart.exceptions import MultipartParseError
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from pnca.interfaces.web.settings import Limits

_LONGEST_NAME = 200


class Upload(NamedTuple):
    """A file that somebody sent."""

    name: str
    content: bytes


class _InMemory(MultiPartParser):
    """Never writes a part to the disk, however long it is: the bytes of the request are limited before."""

    spool_max_size = sys.maxsize


async def files_of(request: Request, limits: Limits) -> list[Upload]:
    """The files of a form; an error if there are none, or too many.

    Parameters
    ----------
    request : Request
        With a body of ``multipart/form-data``.
    limits : Limits
        How many may come.

    Returns
    -------
    list of Upload
    """
    if media_type(request) != "multipart/form-data":
        raise HTTPException(415, "Send files as a form (multipart/form-data).")
    parser = _InMemory(request.headers, request.stream(), max_files=limits.max_files, max_fields=20)
    try:
        form = await parser.parse()
    except MultiPartException as error:
        raise HTTPException(422, f"The form cannot be read: {error.message}") from None
    except (MultipartParseError, UnicodeError, ValueError, KeyError):
        raise HTTPException(422, "The form cannot be read: it is damaged.") from None
    try:
        sent = [part for _, part in form.multi_items() if isinstance(part, UploadFile)]
        found = [Upload(name_of(part.filename), await part.read()) for part in sent]
    finally:
        await form.close()
    found = [upload for upload in found if upload.content or upload.name != _NAMELESS]
    if not found:
        raise HTTPException(422, "No file came along: choose one or several.")
    return found


_NAMELESS = "a file without a name"


def name_of(given: str | None) -> str:
    r"""The last part of a file's name, of letters that can be shown.

    >>> name_of("../../etc/passwd"), name_of("C:\\x\\scan.png"), name_of("a\x00b\n.csv")
    ('passwd', 'scan.png', 'ab.csv')
    """
    last = (given or "").replace("\\", "/").rsplit("/", 1)[-1]
    shown = "".join(letter for letter in last if letter.isprintable()).strip()
    if shown in ("", ".", ".."):
        return _NAMELESS
    return (
        shown
        if len(shown) <= _LONGEST_NAME
        else shown[: _LONGEST_NAME // 2] + "…" + shown[-_LONGEST_NAME // 2 :]
    )


def media_type(request: Request) -> str:
    """What kind of body a request says that it has."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()
