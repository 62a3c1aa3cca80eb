"""The files of the page, from memory: a view loads some thirty small ones at once."""

from __future__ import annotations

import hashlib
import mimetypes
from email.utils import formatdate
from functools import lru_cache
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

STATIC = Path(__file__).resolve().parent / "static"


def file_route() -> Route:
    """The route of all files. Only those that are there now are ever read, so no name leads elsewhere."""
    known = {path.relative_to(STATIC).as_posix(): path for path in STATIC.rglob("*") if path.is_file()}

    async def page_file(request: Request) -> Response:
        path = known.get(request.path_params["name"])
        if path is None:
            raise HTTPException(404)
        body, headers = _read(path, path.stat().st_mtime_ns)
        if request.headers.get("if-none-match") == headers["ETag"]:
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers, media_type=mimetypes.guess_type(path.name)[0])

    return Route("/static/{name:path}", page_file)


@lru_cache(maxsize=1024)
def _read(path: Path, modified_ns: int) -> tuple[bytes, dict[str, str]]:
    body = path.read_bytes()
    digest = hashlib.sha256(body).hexdigest()[:32]
    return body, {"ETag": f'"{digest}"', "Last-Modified": formatdate(modified_ns / 1e9, usegmt=True)}
