"""Why a request is not answered."""

from __future__ import annotations

from starlette.responses import JSONResponse, Response


class Refused(Exception):
    """A request that is not let through; the message is for who sent it. The connection is closed, because what
    follows on it may be the rest of a body that nobody reads."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}

    def answer(self) -> Response:
        """The answer, as JSON."""
        return JSONResponse({"error": str(self)}, self.status, {"connection": "close", **self.headers})
