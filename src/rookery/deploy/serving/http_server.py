"""A uvicorn server on a socket that is open already: in this thread until a signal, or in another one."""

from __future__ import annotations

import signal
import socket
import threading
import time
from types import TracebackType
from typing import Any, Self

from rookery.errors import UsageError

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class HttpServer:
    """`run` serves in this thread until SIGTERM or Ctrl-C; as a context, it serves in another thread until the end of
    the block."""

    def __init__(self, server: Any, listening: socket.socket) -> None:
        self._server, self._socket = server, listening
        self._thread: threading.Thread | None = None

    def run(self) -> None:
        """Serve until a signal says to stop, or `stop` is called."""
        in_main = threading.current_thread() is threading.main_thread()
        # uvicorn raises the signal again at the end, which would end this process before it has cleaned up.
        before = {name: signal.signal(name, lambda *_: None) for name in STOP_SIGNALS} if in_main else {}
        try:
            self._server.run(sockets=[self._socket])
        finally:
            for name, handler in before.items():
                signal.signal(name, handler)
            self.close()

    def close(self) -> None:
        """Release what was served; `run` does so at its end."""
        self._socket.close()

    def stop(self) -> None:
        """Let `run` end; may be called in any thread."""
        self._server.should_exit = True

    def __enter__(self) -> Self:
        if self._thread is not None:
            raise UsageError("this server has been started already: make another one")
        self._thread = threading.Thread(target=self.run, name="rookery http", daemon=True)
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.005)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.stop()
        if self._thread is not None:
            self._thread.join()
