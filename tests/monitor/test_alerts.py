"""Alerts arrive as JSON, never raise, never wait long, and never print the address."""

from __future__ import annotations

import json
import shlex
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest

from rookery.monitor import alerts
from rookery.monitor.alerts import Alerts


class Hook(HTTPServer):
    """A webhook that keeps what it receives."""

    def __init__(self, status: int = 200, pause: float = 0.0) -> None:
        self.received: list[dict] = []
        self.status, self.pause = status, pause
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/secret-path"


class Handler(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(self.server.pause)
        self.server.received.append(json.loads(body))
        self.send_response(self.server.status)
        if self.server.status == 302:
            self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hook() -> Iterator[Hook]:
    server = Hook()
    yield server
    server.shutdown()
    server.server_close()


def test_a_webhook_receives_strict_json(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROOKERY_ALERT_WEBHOOK", hook.url)
    facts = {"version": np.int64(3), "drawdown": float("nan"), "folder": hook, "values": (1.5, None)}
    Alerts.from_environment().send("promotion", "version 3 is the champion", facts)
    (message,) = hook.received
    assert message["kind"] == "promotion" and message["text"] == "version 3 is the champion"
    assert message["facts"]["version"] == 3 and message["facts"]["drawdown"] is None
    assert message["facts"]["values"] == [1.5, None] and isinstance(message["facts"]["folder"], str)


def test_a_command_receives_it_on_standard_input(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its words are split as a shell does, and no shell runs it."""
    code = "import sys; open(sys.argv[1], 'w').write(sys.stdin.read())"
    file = tmp_path / "an alert; $(false)"
    monkeypatch.setenv("ROOKERY_ALERT_COMMAND", shlex.join([sys.executable, "-c", code, str(file)]))
    Alerts.from_environment().send("kill-switch", "drawdown", {})
    assert json.loads(file.read_text())["kind"] == "kill-switch"


def threads_of_alerts() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "rookery alert"]


def test_nothing_is_sent_when_nothing_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ROOKERY_ALERT_WEBHOOK", "ROOKERY_ALERT_COMMAND"):
        monkeypatch.delenv(name, raising=False)
    Alerts.from_environment().send("promotion", "text")
    assert not threads_of_alerts()


@pytest.mark.parametrize(
    ("webhook", "command", "reason"),
    [("http://127.0.0.1:1/secret-path", None, "refused"),
     ("http://127.0.0.1:port/secret-path", None, "cannot be understood"),
     ("file:///etc/secret-path", None, "http"),
     (None, "/no/such/secret-path", "No such file"),
     (None, "'secret-path", "cannot be split"),
     (None, f"{sys.executable} -c 'raise SystemExit(3)' secret-path", "status 3")],
)  # fmt: skip
def test_a_failure_is_one_line_without_the_address(webhook, command, reason, caplog, monkeypatch) -> None:
    """And no error."""
    for name in ("ROOKERY_ALERT_WEBHOOK", "ROOKERY_ALERT_COMMAND"):
        monkeypatch.delenv(name, raising=False)
    Alerts.from_environment(webhook, command).send("parity", "first difference at bar 3", {})
    shown = caplog.text
    assert reason in shown and len(shown.splitlines()) == 1
    assert "secret-path" not in shown


@pytest.mark.parametrize(("status", "reason"), [(500, "answered 500"), (302, "answered 302")])
def test_an_answer_that_is_no_success_is_reported(status: int, reason: str, hook: Hook, caplog) -> None:
    """A redirect is not followed."""
    hook.status = status
    Alerts(hook.url).send("promotion", "text")
    assert reason in caplog.text and len(hook.received) == 1


def test_it_does_not_wait_for_what_does_not_answer(hook: Hook, caplog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerts, "TIMEOUT", 0.3)
    hook.pause = 1.0
    began = time.monotonic()
    Alerts(hook.url, f"{sys.executable} -c 'import time; time.sleep(60)'").send("promotion", "text")
    assert time.monotonic() - began < 30
    shown = caplog.text
    assert "by the webhook" in shown and "by the command" in shown
