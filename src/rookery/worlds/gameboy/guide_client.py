"""Asks a guide in a process of its own. An env never waits for it: a thread does, with one question at a time. Both
sides send each other a JSON object, and the bytes of a screen."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

import numpy as np

from rookery.console import say
from rookery.worlds.gameboy.guide_settings import GuideSettings

MOST_FAILURES = 3  # in a row; then the guide is not started again
START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); "
    "from rookery.worlds.gameboy.guide_process import main; main()"
)
Answers = deque[tuple[int, dict[str, Any]]]  # the step of the question, and what came back

_clients: dict[tuple[int, str], GuideClient] = {}
_lock = threading.Lock()


def client_for(settings: GuideSettings, about: Mapping[str, Any]) -> GuideClient:
    """The client that all envs of this process share; each of them must `release` it."""
    key = os.getpid(), json.dumps([settings.model_dump(), about])
    with _lock:
        client = _clients.setdefault(key, GuideClient(settings, about))
        client.users += 1
        return client


class GuideClient:
    """A guide's process, and the thread that asks it."""

    def __init__(self, settings: GuideSettings, about: Mapping[str, Any]) -> None:
        self.users = 0
        self.process: subprocess.Popen[bytes] | None = None
        self._settings, self._about = settings, about
        self._socket: socket.socket | None = None
        self._questions: SimpleQueue[tuple[Answers, int, dict[str, int], bytes] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._failures = 0
        self._is_busy = self._is_over = False
        self._guard = threading.Lock()  # of the process: it must not start while the last env is closed

    def ask(self, answers: Answers, step: int, state: dict[str, int], screen: np.ndarray) -> bool:
        """Have the answer appended to `answers` some time later; False, without any effect, if the guide is busy."""
        if self._is_busy or self._is_over:
            return False
        self._is_busy = True
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="guide", daemon=True)
            self._thread.start()
        self._questions.put((answers, step, state, screen.tobytes()))
        return True

    def release(self) -> None:
        """One env less needs it. The last one ends the process, whatever that is doing."""
        with _lock:
            self.users -= 1
            if self.users:
                return
            for key in [key for key, client in _clients.items() if client is self]:
                del _clients[key]
        self._is_over = True
        self._questions.put(None)
        self._end_process()

    def _work(self) -> None:
        while (question := self._questions.get()) is not None:
            answers, step, state, screen = question
            answer = self._exchange(state, screen)
            if not self.users:
                return
            answers.append((step, answer))
            self._is_busy = False

    def _exchange(self, state: dict[str, int], screen: bytes) -> dict[str, Any]:
        """The answer to one question. A process that crashed or hangs is replaced at the next question."""
        try:
            sock = self._socket or self._start_process()
            sock.settimeout(self._settings.guide_timeout)
            send_frame(sock, state, screen)
            answer, _ = receive_frame(sock, self._settings.guide_timeout)
        except TimeoutError:
            return self._failed(f"no answer in {self._settings.guide_timeout:g} s")
        except (OSError, EOFError, ValueError, RecursionError) as error:
            return self._failed(str(error) or "its process ended")
        if not isinstance(answer, dict) or "fatal" in answer:
            self._failures = MOST_FAILURES
            return self._failed(str(answer.get("fatal")) if isinstance(answer, dict) else "it answered no object")
        self._failures = 0
        return answer

    def _failed(self, why: str) -> dict[str, Any]:
        self._end_process()
        self._failures += 1
        if self._failures >= MOST_FAILURES and self.users:
            self._is_over = True
            say(f"the guide {self._settings.guide} is not asked any more: {why}; training continues without it")
        return {"error": why}

    def _start_process(self) -> socket.socket:
        settings = json.dumps([self._settings.model_dump(), dict(self._about)])
        if sys.platform == "win32":  # which cannot give an open socket to a process that it starts
            self._failures = MOST_FAILURES
            raise OSError("a guide needs Linux or macOS")
        with self._guard:
            if not self.users:
                raise EOFError
            mine, its = socket.socketpair()
            self._socket = mine
            self.process = subprocess.Popen(
                [sys.executable, "-c", START, str(its.fileno()), settings, json.dumps(sys.path)],
                pass_fds=[its.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C is for the run, which then ends it
            )
            its.close()
        return mine

    def _end_process(self) -> None:
        with self._guard:
            sock, process, self._socket, self.process = self._socket, self.process, None, None
        if process is not None:
            process.kill()
            process.wait()
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)  # wakes the thread, if it waits
            sock.close()


HEADER = struct.Struct(">II")
LARGEST = 1 << 20  # bytes of either part


def send_frame(sock: socket.socket, content: Any, screen: bytes = b"") -> None:
    """Send both parts."""
    text = json.dumps(content).encode()
    sock.sendall(HEADER.pack(len(text), len(screen)) + text + screen)


def receive_frame(sock: socket.socket, seconds: float | None = None) -> tuple[Any, bytes]:
    """Both parts; TimeoutError after so many seconds, EOFError if the other side is gone, ValueError if what comes is
    too large or no JSON."""
    deadline = None if seconds is None else time.monotonic() + seconds
    sizes = HEADER.unpack(_receive(sock, HEADER.size, deadline))
    if max(sizes) > LARGEST:
        raise ValueError(f"an answer of {max(sizes):,} bytes is too large")
    text, screen = (_receive(sock, size, deadline) for size in sizes)
    return json.loads(text), screen


def _receive(sock: socket.socket, size: int, deadline: float | None) -> bytes:
    data = bytearray()
    while len(data) < size:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            sock.settimeout(left)
        part = sock.recv(min(size - len(data), 1 << 16))
        if not part:
            raise EOFError
        data += part
    return bytes(data)
