"""Connections to a real server: slow ones, ones that never read, what is not HTTP, and too many."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from rookery.errors import OptionError
from rookery.web.dashboard_server import DashboardServer
from rookery.web.http_connection import HttpConnection


@pytest.fixture
def server(tmp_path: Path) -> Iterator[DashboardServer]:
    with DashboardServer([tmp_path], port=0) as server:
        yield server


def connect(server: DashboardServer) -> socket.socket:
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=10)


def everything(client: socket.socket) -> bytes:
    """All bytes until the server closes."""
    parts = []
    try:
        while part := client.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


@pytest.mark.parametrize(
    "request_bytes",
    [b"nonsense\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/9.9\r\n\r\n", b"GET /\x00 HTTP/1.1\r\n\r\n",
     b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
     b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000,
     b"GET /api/play HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"],
)  # fmt: skip
def test_what_is_not_http_is_refused(server: DashboardServer, request_bytes: bytes) -> None:
    with connect(server) as client:
        client.sendall(request_bytes)
        client.shutdown(socket.SHUT_WR)
        answer = everything(client)
    if answer:  # a reset may have overtaken it
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 4")
        assert b"content-security-policy" in head.lower() and b"nosniff" in head
        assert "error" in json.loads(body)
    assert httpx2.get(f"{server.url}/api/health").status_code == 200


def test_the_server_checks_hosts(server: DashboardServer) -> None:
    assert httpx2.get(f"{server.url}/api/health", headers={"host": "evil.example"}).status_code == 403
    assert httpx2.get(f"{server.url}/api/health", headers={"origin": "http://evil.example"}).status_code == 403
    assert httpx2.get(f"{server.url}/", headers={"x-forwarded-for": "1.2.3.4"}).headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize("body", [b"ZZ\r\nhello\r\n0\r\n\r\n", b"5\r\nhel"])
def test_a_malformed_body_is_no_error_of_ours(
    server: DashboardServer, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with connect(server) as client:
        head = f"POST /api/health HTTP/1.1\r\nHost: {server.url[7:]}\r\nTransfer-Encoding: chunked\r\n\r\n"
        client.sendall(head.encode() + body)
        client.shutdown(socket.SHUT_WR)
        answer = everything(client)
    assert not answer or answer.startswith(b"HTTP/1.1 4")
    assert httpx2.get(f"{server.url}/api/health").status_code == 200
    assert not caplog.records


def test_a_stream_does_not_hold_up_the_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = tmp_path / "runs" / "a"
    run.mkdir(parents=True)
    (run / "run.json").write_text("{}")
    with DashboardServer([tmp_path / "runs"], port=0) as server:
        client = connect(server)
        client.sendall(f"GET /api/runs/runs/a/stream HTTP/1.1\r\nHost: {server.url[7:]}\r\n\r\n".encode())
        assert client.recv(100).startswith(b"HTTP/1.1 200")
        began = time.monotonic()
    everything(client)
    client.close()
    assert time.monotonic() - began < 1.9  # not uvicorn's own wait for it
    assert not caplog.records


def test_clients_that_send_slowly_are_ended(server: DashboardServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HttpConnection, "request_seconds", 0.2)
    for begin in (b"", b"GET / HTTP/1.1\r\nHost:"):
        with connect(server) as client:
            client.sendall(begin)
            assert everything(client) == b""


def test_a_client_that_never_reads_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HttpConnection, "unread_seconds", 0.2)
    with DashboardServer([tmp_path], port=0) as server, connect(server) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one = f"GET /static/vendor/uPlot.iife.min.js HTTP/1.1\r\nHost: {server.url[7:]}\r\n\r\n".encode()
        client.sendall(one * 400)  # about 20 MB of answers: more than the buffers on the way hold
        end = time.monotonic() + 20
        while server._server.server_state.connections and time.monotonic() < end:
            time.sleep(0.02)
        assert not server._server.server_state.connections
        assert httpx2.get(f"{server.url}/api/health").status_code == 200


def test_connections_that_only_wait_make_room(server: DashboardServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HttpConnection, "most_connections", 5)
    idle = [connect(server) for _ in range(12)]
    assert httpx2.get(f"{server.url}/api/health").status_code == 200
    assert len(server._server.server_state.connections) <= 6
    for client in idle:
        client.close()


def test_other_machines_need_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROOKERY_DASHBOARD_TOKEN", raising=False)
    with pytest.raises(OptionError, match="set ROOKERY_DASHBOARD_TOKEN to a token"):
        DashboardServer([tmp_path], host="0.0.0.0", port=0)
    monkeypatch.setenv("ROOKERY_DASHBOARD_TOKEN", "short")
    with pytest.raises(OptionError, match="ROOKERY_DASHBOARD_TOKEN should have at least 16"):
        DashboardServer([tmp_path], port=0)
    token = "a-token-of-good-length"
    monkeypatch.setenv("ROOKERY_DASHBOARD_TOKEN", token)
    with DashboardServer([tmp_path], host="0.0.0.0", port=0) as server:
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        assert httpx2.get(f"{url}/api/health").status_code == 401
        assert httpx2.get(f"{url}/api/health", headers={"authorization": f"Bearer {token}"}).status_code == 200
