"""Who may look, where the dashboard has a token: by a header, or by a cookie that `?token=TOKEN` gives once."""

from __future__ import annotations

import hashlib
import hmac
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Scope

from rookery.web.refused import Refused

# What the page that asks for the token needs; everybody has these files.
PUBLIC = ("/static/css/login.css", "/static/icon.svg")
WRONG = '<p class="wrong" role="alert">This token is wrong.</p>'
# A link from another site opens this page without the cookie (SameSite=Strict): the second link is our own.
LOGIN_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>rookery: log in</title>
<link rel="icon" href="/static/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/static/css/login.css">
</head>
<body>
<main>
<h1><img src="/static/icon.svg" alt="">rookery</h1>
<p>This dashboard has a token: the value of <code>ROOKERY_DASHBOARD_TOKEN</code> where it was started.</p>
{wrong}<form method="get">
<label for="token">Token</label>
<input id="token" type="password" name="token" autocomplete="current-password" required autofocus>
<button>Log in</button>
</form>
<p>If you have logged in before, <a href="">open this page again</a>.</p>
</main>
</body>
</html>
"""


class TokenLogin:
    """Compares tokens in constant time. The cookie is not the token, but follows from it, so that a dashboard that is
    started again knows its browsers."""

    def __init__(self, token: str, port: int) -> None:
        self._token = token.encode()
        self._cookie = hmac.new(self._token, b"rookery dashboard", hashlib.sha256).hexdigest()
        self._name = f"rookery_dashboard_{port}"  # browsers share cookies between the ports of a host

    def check(self, scope: Scope, headers: Headers) -> Response | None:
        """None for a request that may pass, or the answer to it: after a login, and in place of a page. Everything else
        is refused."""
        if scope["type"] == "http" and scope["path"] in PUBLIC:
            return None
        if self._is_known(headers):
            return self._without_token(scope) if _query_token(scope) is not None else None
        given = _query_token(scope)
        if given is not None and hmac.compare_digest(given.encode(), self._token):
            return self._logged_in(scope)
        if (
            scope["type"] == "http"
            and not scope["path"].startswith("/api/")
            and "text/html" in headers.get("accept", "")
        ):
            page = LOGIN_PAGE.format(wrong=WRONG if given else "")
            return HTMLResponse(page, 401, {"cache-control": "no-store"})
        raise Refused(
            401, "the token is missing or wrong: open /?token=TOKEN once, or send `Authorization: Bearer TOKEN`",
            www_authenticate="Bearer",
        )  # fmt: skip

    def _is_known(self, headers: Headers) -> bool:
        given = headers.get("authorization", "")
        scheme, _, token = given.partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), self._token):
            return True
        cookies = (cookie_parser(line).get(self._name, "") for line in headers.getlist("cookie"))
        return any([hmac.compare_digest(cookie.encode(), self._cookie.encode()) for cookie in cookies])

    def _logged_in(self, scope: Scope) -> Response:
        answer = self._without_token(scope)
        answer.set_cookie(self._name, self._cookie, httponly=True, samesite="strict", path="/")
        return answer

    def _without_token(self, scope: Scope) -> Response:
        """The same address without the token. It begins with one slash: two would be another site."""
        path = scope.get("raw_path", scope["path"].encode()).decode("ascii", "replace").lstrip("/\\")
        rest = [(name, value) for name, value in _query(scope) if name != "token"]
        return RedirectResponse(
            f"/{path}" + (f"?{urlencode(rest)}" if rest else ""), 303, {"cache-control": "no-store"}
        )


def _query(scope: Scope) -> list[tuple[str, str]]:
    return parse_qsl(scope["query_string"].decode("ascii", "replace"), keep_blank_values=True)


def _query_token(scope: Scope) -> str | None:
    """The token of an address that was opened in a browser."""
    if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
        return None
    return next((value for name, value in _query(scope) if name == "token"), None)
