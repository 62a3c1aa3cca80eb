"""What every request to the dashboard passes first: size, Host, Origin, token; and the headers of every answer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient, WebSocketDenialResponse
from starlette.websockets import WebSocket

from rookery.deploy.serving.http_server import OwnHosts, is_same_origin
from rookery.errors import OptionError
from rookery.web import guard
from rookery.web.dashboard_app import make_app
from rookery.web.dashboard_state import DashboardState
from rookery.web.guard import PUBLIC, Guard, TokenLogin
from rookery.web.run_folders import RunFolders

TOKEN = "a-token-of-good-length"
OWN = "http://127.0.0.1:7007"
HTML = {"accept": "text/html,*/*"}


async def echo(request: Request) -> Response:
    return JSONResponse({"body": (await request.body()).decode()}, headers={"Content-Security-Policy": "none at all"})


async def fail(request: Request) -> Response:
    raise RuntimeError("secret")


async def socket(websocket: WebSocket) -> None:
    await websocket.accept()
    await websocket.send_text("welcome")
    await websocket.close()


def guarded(token: str | None = None, **options: Any) -> TestClient:
    routes = [
        Route("/api/echo", echo, methods=["GET", "POST"]),
        Route("/api/fail", fail),
        Route("/api/stream", echo),
        WebSocketRoute("/api/play", socket),
    ]
    app = Guard(Starlette(routes=routes), OwnHosts("127.0.0.1", 7007), TokenLogin(token, 7007) if token else None)
    return TestClient(app, base_url=OWN, raise_server_exceptions=False, follow_redirects=False, **options)


@pytest.mark.parametrize("host", ["127.0.0.1:7007", "localhost:7007", "LOCALHOST:7007", "[::1]:7007", "127.0.0.2:7007"])
def test_own_hosts_are_answered(host: str) -> None:
    assert guarded().get("/api/echo", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:7007", "evil.example", "localhost", "localhost:8080", "localhost:7007.evil.example", "",
        "localhost.evil.example:7007", "127.0.0.1.evil.example:7007", "evil@localhost:7007", "localhost:7007/", "a b",
        "10.0.0.1:7007", "0.0.0.0:7007", "localhost.:7007", "localhost:07007x", "[::1", "127.1:7007", "2130706433:7007",
    ],
)  # fmt: skip
def test_other_hosts_are_refused(host: str) -> None:
    answer = guarded().get("/api/echo", headers={"host": host})
    assert answer.status_code == 403
    assert "--allow-host" in answer.json()["error"]


def test_hosts_of_a_dashboard_for_other_machines() -> None:
    everywhere = OwnHosts("0.0.0.0", 7007)
    assert everywhere.has("192.168.1.7:7007") and everywhere.has("[fe80::1]:7007")
    assert not everywhere.has("evil.example:7007")
    named = OwnHosts("lab.example", 7007, ["runs.example.org", "localhost:8080"])
    assert all(map(named.has, ["lab.example:7007", "runs.example.org", "runs.example.org:444", "localhost:8080"]))
    assert not named.has("192.168.1.7:7007") and not named.has("localhost:8081")
    assert OwnHosts("127.0.0.1", 80).has("localhost")
    with pytest.raises(OptionError, match="--allow-host should be a name"):
        OwnHosts("127.0.0.1", 7007, ["http://a/b"])


@pytest.mark.parametrize(
    ("origin", "same"),
    [
        ("http://localhost:7007", True), ("https://localhost:7007", True), ("HTTP://localhost:7007", False),
        ("http://localhost", False), ("http://127.0.0.1:7007", False), ("null", False), ("", False),
        ("http://localhost:7007/", False), ("http://a@localhost:7007", False), ("file://", False),
        ("http://localhost:7007.evil.example", False), ("chrome-extension://abc", False),
    ],
)  # fmt: skip
def test_origins(origin: str, same: bool) -> None:
    assert is_same_origin(origin, "localhost:7007") == same


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:8888", "http://localhost:7007"])
def test_other_origins_are_refused(method: str, origin: str) -> None:
    assert guarded().request(method, "/api/echo", headers={"origin": origin}).status_code == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site", "none", "anything"])
def test_other_sites_change_nothing(site: str) -> None:
    navigation = {"sec-fetch-site": site, "sec-fetch-mode": "navigate"}
    assert guarded().post("/api/echo", headers=navigation).status_code == 403
    assert guarded().post("/api/echo", headers={"origin": OWN, "sec-fetch-site": "same-origin"}).status_code == 200


def test_other_sites_may_link_but_not_load() -> None:
    client = guarded()
    assert client.get("/api/echo", headers={"sec-fetch-site": "cross-site"}).status_code == 403
    assert client.get("/api/echo", headers={"sec-fetch-site": "same-site", "sec-fetch-mode": "cors"}).status_code == 403
    for headers in ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, {"sec-fetch-site": "none"}):
        assert client.get("/api/echo", headers=headers).status_code == 200


def test_sockets_are_checked_too() -> None:
    client = guarded()
    with client.websocket_connect("/api/play", headers={"origin": OWN, "host": "127.0.0.1:7007"}) as opened:
        assert opened.receive_text() == "welcome"
    for headers in ({"origin": "http://evil.example"}, {"host": "evil.example:7007"}, {"sec-fetch-site": "same-site"}):
        with (
            pytest.raises(WebSocketDenialResponse) as denial,
            client.websocket_connect("/api/play", headers={"host": "127.0.0.1:7007", **headers}),
        ):
            pass
        assert denial.value.status_code == 403
        assert denial.value.headers["x-content-type-options"] == "nosniff"


def test_without_the_token_nothing_is_answered() -> None:
    client = guarded(TOKEN)
    for path in ("/", "/api/echo", "/api/nothing", "/static/js/main.js", "/api/stream"):
        assert client.get(path).status_code == 401, path
    for value in (f"Bearer {TOKEN}x", "Bearer ", TOKEN, f"Basic {TOKEN}", "Bearer \xfc"):
        assert client.get("/api/echo", headers={"authorization": value.encode("latin-1")}).status_code == 401
    assert client.get("/api/echo?token=wrong").status_code == 401
    assert client.post(f"/api/echo?token={TOKEN}").status_code == 401
    with pytest.raises(WebSocketDenialResponse), client.websocket_connect("/api/play", headers={"host": OWN[7:]}):
        pass


def test_the_token_by_a_header() -> None:
    client = guarded(TOKEN)
    assert client.get("/api/echo", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    headers = {"host": OWN[7:], "authorization": f"bearer {TOKEN}"}
    with client.websocket_connect("/api/play", headers=headers) as opened:
        assert opened.receive_text() == "welcome"


def test_the_token_in_the_address_gives_a_cookie_once() -> None:
    client = guarded(TOKEN)
    answer = client.get(f"/runs/a%2Fb/c?x=1&token={TOKEN}&y=%26")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/runs/a%2Fb/c?x=1&y=%26"
    cookie = answer.headers["set-cookie"]
    assert TOKEN not in cookie
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
    assert client.get("/api/echo").status_code == 200  # the client kept the cookie
    assert client.get(f"/?token={TOKEN}").headers["location"] == "/"
    assert guarded(TOKEN, cookies=dict(client.cookies)).get("/api/echo").status_code == 200  # another start
    assert guarded("another-token-of-length", cookies=dict(client.cookies)).get("/api/echo").status_code == 401


@pytest.mark.parametrize("path", ["//evil.example/", "///evil.example", "/\\evil.example", "/%5Cevil.example"])
def test_the_login_leads_to_no_other_site(path: str) -> None:
    scope = {"type": "http", "method": "GET", "path": path, "raw_path": path.encode(), "headers": []}
    answer = TokenLogin(TOKEN, 7007)._without_token({**scope, "query_string": b"token=x"})
    location = answer.headers["location"]
    assert location.startswith("/") and location[1:2] not in ("/", "\\")


def test_a_browser_is_asked_for_the_token() -> None:
    answer = guarded(TOKEN).get("/runs/a/b", headers=HTML)
    assert answer.status_code == 401
    assert 'name="token"' in answer.text and "<script" not in answer.text and "style=" not in answer.text
    assert "is wrong" not in answer.text
    assert "is wrong" in guarded(TOKEN).get("/?token=<b>guess", headers=HTML).text
    assert "guess" not in guarded(TOKEN).get("/?token=<b>guess", headers=HTML).text
    assert guarded(TOKEN).get("/api/echo", headers=HTML).json()["error"].startswith("the token is missing or wrong")


@pytest.mark.parametrize(
    ("path", "status", "headers"),
    [
        ("/api/echo", 200, {}), ("/api/nothing", 404, {}), ("/api/fail", 500, {}), ("/", 404, {}),
        ("/api/echo", 403, {"host": "evil"}), ("/api/echo", 403, {"origin": "null"}), ("/api/" + "x" * 3000, 414, {}),
    ],
)  # fmt: skip
def test_every_answer_has_the_headers(path: str, status: int, headers: dict[str, str]) -> None:
    answer = guarded().get(path, headers=headers)
    assert answer.status_code == status
    assert "secret" not in answer.text
    policies = answer.headers.get_list("content-security-policy")
    assert len(policies) == 1 and "default-src '" in policies[0] and "frame-ancestors 'none'" in policies[0]
    assert "unsafe" not in policies[0] and "http" not in policies[0]
    assert ("sandbox" in policies[0]) == path.startswith("/api/")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers.get("cache-control") == ("no-store" if path.startswith("/api/") else None)


def test_sizes() -> None:
    client = guarded()
    assert client.post("/api/echo", content=b"x" * 1000).json() == {"body": "x" * 1000}
    assert client.post("/api/echo", content=b"x" * (guard.MOST_BODY_BYTES + 1)).status_code == 413
    chunks = (b"x" * 1024 for _ in range(100))
    assert client.post("/api/echo", content=chunks).status_code == 413
    assert client.post("/api/echo", content=b"", headers={"content-length": "9" * 30}).status_code == 413
    assert client.get("/api/echo", headers={f"x-{i}": "1" for i in range(120)}).status_code == 431
    assert client.get("/api/echo", headers={"cookie": "x" * 50_000}).status_code == 431
    assert client.get("/api/echo?ids=" + "x" * 40_000).status_code == 200
    assert client.get("/api/echo?ids=" + "x" * 60_000).status_code == 431


def test_streams_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    client = guarded()
    for _ in range(3):  # each ends, and is not counted any more
        monkeypatch.setattr(guard, "MOST_STREAMS", 1)
        assert client.get("/api/stream").status_code == 200
    monkeypatch.setattr(guard, "MOST_STREAMS", 0)
    answer = client.get("/api/stream")
    assert answer.status_code == 503 and answer.headers["retry-after"]
    assert client.get("/api/echo").status_code == 200


def test_the_page_of_the_login_is_complete(tmp_path: Path) -> None:
    app = make_app(DashboardState(RunFolders([tmp_path])))
    client = TestClient(Guard(app, OwnHosts("127.0.0.1", 7007), TokenLogin(TOKEN, 7007)), base_url=OWN)
    needed = re.findall(r'(?:href|src)="(/[^"]+)"', client.get("/", headers=HTML).text)
    assert set(needed) == set(PUBLIC)
    assert all(client.get(path).status_code == 200 for path in needed)
    assert client.get("/static/css/base.css").status_code == 401
    assert client.get("/static/css/login.css/../base.css").status_code == 401


def test_errors_of_the_application_are_sentences(tmp_path: Path) -> None:
    app = make_app(DashboardState(RunFolders([tmp_path])))
    app.router.routes.insert(0, Route("/api/fail", fail))
    answer = TestClient(app, raise_server_exceptions=False).get("/api/fail")
    assert answer.status_code == 500
    assert answer.json()["error"].startswith("the dashboard failed") and "secret" not in answer.text
