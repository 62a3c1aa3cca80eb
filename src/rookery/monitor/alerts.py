"""Alerts: a message to a webhook or a command when something happens that a person should know of.

Sending never raises an error and takes a few seconds at most, so that it cannot stop what sends it, such as a
kill-switch. The URL of a webhook is often a secret: it is never printed.
"""

from __future__ import annotations

import http.client
import json
import os
import shlex
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from rookery.console import say
from rookery.forks import kill_group
from rookery.monitor.jsonl import plain

WEBHOOK, COMMAND = "ROOKERY_ALERT_WEBHOOK", "ROOKERY_ALERT_COMMAND"
TIMEOUT = 5.0  # seconds that sending may take, whatever the network does


class Alerts:
    """Sends messages to a webhook (a POST of JSON), to a command (JSON on its standard input), to both, or to none.

    >>> Alerts().send("promotion", "version 3 is the champion")  # nothing is configured: nothing is sent
    """

    def __init__(self, webhook: str | None = None, command: str | None = None) -> None:
        """`command` is split as a shell does; no shell runs it."""
        self._ways: dict[str, Callable[[bytes], None]] = {}
        if webhook and webhook.lower().startswith(("http://", "https://")):
            self._ways["webhook"] = lambda body: _post(webhook, body)
        elif webhook:
            say(f"alerts: the webhook ({WEBHOOK}) is not a http:// or https:// address: no alert is sent to it")
        if words := _words(command):
            self._ways["command"] = lambda body: _run(words, body)

    @classmethod
    def from_environment(cls, webhook: str | None = None, command: str | None = None) -> Alerts:
        """Alerts by ROOKERY_ALERT_WEBHOOK and ROOKERY_ALERT_COMMAND, where nothing else is given."""
        return cls(webhook or os.environ.get(WEBHOOK), command or os.environ.get(COMMAND))

    def send(self, kind: str, text: str, facts: Mapping[str, Any] | None = None) -> None:
        """Tell what happened: "promotion", "kill-switch", "search-failed", "parity" or another kind, as a sentence,
        with facts for programs. A failure to send is reported on standard error."""
        if not self._ways:
            return
        body = _encode(kind, text, facts or {})
        sending = [(name, _Sending(way, body)) for name, way in self._ways.items()]
        deadline = time.monotonic() + TIMEOUT
        for name, thread in sending:
            thread.join(max(0.0, deadline - time.monotonic()))
            problem = f"no answer within {TIMEOUT:.0f} s" if thread.is_alive() else thread.problem
            if problem:
                say(f"the alert {kind!r} was not delivered by the {name}: {problem}")


class _Sending(threading.Thread):
    """One delivery. A thread, because looking up the name of a host has no timeout of its own."""

    def __init__(self, way: Callable[[bytes], None], body: bytes) -> None:
        super().__init__(name="rookery alert", daemon=True)
        self._way, self._body = way, body
        self.problem = ""
        self.start()

    def run(self) -> None:
        try:
            self._way(self._body)
        except Exception as error:  # noqa: BLE001 - an alert never stops what sends it
            self.problem = _problem(error)


def _encode(kind: str, text: str, facts: Mapping[str, Any]) -> bytes:
    """Strict JSON. Chat programs show `text`."""
    sent = datetime.now(UTC).isoformat(timespec="seconds")
    message = {"kind": kind, "text": text, "facts": facts, "time": sent, "host": socket.gethostname()}
    return json.dumps(plain(message), default=str).encode()


def _words(command: str | None) -> list[str]:
    try:
        return shlex.split(command or "")
    except ValueError as error:
        say(f"alerts: the command ({COMMAND}) cannot be split into words ({error}): it is not used")
        return []


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirected POST would become a GET without the message, and may lead to another host."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _post(url: str, body: bytes) -> None:
    headers = {"Content-Type": "application/json", "User-Agent": "rookery"}
    request = urllib.request.Request(url, body, headers, method="POST")  # noqa: S310 - http and https only, see above
    with urllib.request.build_opener(_NoRedirect).open(request, timeout=TIMEOUT):
        pass


def _run(words: list[str], body: bytes) -> None:
    """Run a command, with what it starts killed if it takes too long."""
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        process.communicate(body, timeout=TIMEOUT * 0.9)
    except subprocess.TimeoutExpired:
        kill_group(process)
        process.wait()
        raise
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, "the command")


def _problem(error: Exception) -> str:
    """Why it was not delivered, without the address or the command, in which there may be secrets."""
    if isinstance(error, urllib.error.HTTPError):
        return f"it answered {error.code}"
    if isinstance(error, urllib.error.URLError):
        error = error.reason if isinstance(error.reason, Exception) else error
    if isinstance(error, subprocess.CalledProcessError):
        return f"it ended with status {error.returncode}"
    if isinstance(error, subprocess.TimeoutExpired):
        return f"it took longer than {TIMEOUT * 0.9:.1f} s and was killed"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, http.client.HTTPException | ValueError):
        return "the address or the answer cannot be understood"
    return type(error).__name__
