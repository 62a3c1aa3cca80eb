"""A server for one agent: its socket, its threads, and an end that loses no accepted request."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rookery.deploy.serving.batching import MOST_WAITING, Batcher
from rookery.deploy.serving.listening import checked_token, open_socket, socket_url
from rookery.deploy.serving.swap import ChampionWatch
from rookery.deploy.serving.version_source import find_source
from rookery.errors import MissingExtra, UsageError

TOKEN = "ROOKERY_SERVE_TOKEN"  # noqa: S105 - the variable's name
KEEP_ALIVE_SECONDS = 75  # of a connection that is not used
STOP_SECONDS = 35  # within which accepted requests are finished; longer than a body may take to arrive


class AgentServer:
    """An agent behind HTTP. `run` serves in this thread until SIGTERM or Ctrl-C; as a context, it serves in another
    thread until the end of the block."""

    def __init__(
        self,
        what: str | Path,
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        runs_dir: str | Path = "runs",
        best: bool = False,
        device: str = "cpu",
        trust: bool = False,
        token: str | None = None,
        poll_seconds: float = 1.0,
        most_waiting: int = MOST_WAITING,
        most_body_bytes: int | None = None,
    ) -> None:
        """Open the socket and load the agent. `token` is that of ROOKERY_SERVE_TOKEN if it is not given; port 0 is any
        free port."""
        uvicorn, app = _load_packages()
        token = checked_token(token or os.environ.get(TOKEN), TOKEN)
        self._socket = open_socket(host, port, token is not None, TOKEN)
        try:
            source = find_source(what, runs_dir, best=best, device=device, trust=trust)
            first = source.load(source.wanted())
        except BaseException:
            self._socket.close()
            raise
        self.batcher = Batcher(first, most_waiting)
        self.watch = ChampionWatch(source, self.batcher, poll_seconds)
        state = app.ServedState(self.batcher, self.watch, {"agent": str(what)})
        if most_body_bytes is not None:
            state.most_body_bytes = most_body_bytes
        config = uvicorn.Config(
            app.make_app(state, token), log_config=None, log_level="warning", access_log=False, lifespan="off",
            ws="none", server_header=False, timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=STOP_SECONDS,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where it is reached, such as http://127.0.0.1:8000."""
        return socket_url(self._socket)

    @property
    def version(self) -> int | str:
        """The version that acts."""
        return self.batcher.agent.version

    def run(self) -> None:
        """Serve until a signal says to stop, or `stop` is called. Accepted requests are finished."""
        in_main = threading.current_thread() is threading.main_thread()
        # uvicorn raises the signal again at the end, which would end this process before it has cleaned up.
        before = {name: signal.signal(name, lambda *_: None) for name in _stop_signals()} if in_main else {}
        try:
            self._server.run(sockets=[self._socket])
        finally:
            for name, handler in before.items():
                signal.signal(name, handler)
            self.watch.close()
            self.batcher.close()
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


def _stop_signals() -> tuple[signal.Signals, ...]:
    return (signal.SIGINT, signal.SIGTERM)


def _load_packages() -> tuple[Any, Any]:
    """uvicorn, and the module of the application."""
    try:
        import uvicorn

        from rookery.deploy.serving import app
    except ImportError as error:
        raise MissingExtra(
            f"agents are served by Starlette and uvicorn, which cannot be imported ({error}): pip install "
            "'rookery[serve]'"
        ) from None
    return uvicorn, app
