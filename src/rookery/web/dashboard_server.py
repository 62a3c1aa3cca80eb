"""The dashboard's server: its socket, and an end without a trace."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rookery.deploy.serving.server import open_socket
from rookery.errors import MissingExtra
from rookery.web.run_folders import RunFolders

PORT = 7007
KEEP_ALIVE_SECONDS = 30
STOP_SECONDS = 2  # streams of events never end by themselves


class DashboardServer:
    """The dashboard behind HTTP. `run` serves in this thread until SIGTERM or Ctrl-C; as a context, it serves in
    another thread until the end of the block."""

    def __init__(
        self,
        folders: Iterable[str | Path] = ("runs",),
        *,
        host: str = "127.0.0.1",
        port: int = PORT,
        allow_control: bool = False,
    ) -> None:
        """Open the socket. Port 0 is any free port."""
        uvicorn, app, dashboard_state = _load_packages()
        self._socket = open_socket(host, port, has_token=False)
        state = dashboard_state.DashboardState(RunFolders(folders), allow_control)
        config = uvicorn.Config(
            app.make_app(state), log_config=None, log_level="warning", access_log=False, lifespan="on",
            server_header=False, timeout_keep_alive=KEEP_ALIVE_SECONDS, timeout_graceful_shutdown=STOP_SECONDS,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where it is reached, such as http://127.0.0.1:7007."""
        host, port = self._socket.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def run(self) -> None:
        """Serve until a signal says to stop, or `stop` is called."""
        in_main = threading.current_thread() is threading.main_thread()
        # uvicorn raises the signal again at the end, which would end this process before it has cleaned up.
        names = (signal.SIGINT, signal.SIGTERM)
        before = {name: signal.signal(name, lambda *_: None) for name in names} if in_main else {}
        try:
            self._server.run(sockets=[self._socket])
        finally:
            for name, handler in before.items():
                signal.signal(name, handler)
            self._socket.close()

    def stop(self) -> None:
        """Let `run` end; may be called in any thread."""
        self._server.should_exit = True

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self.run, name="rookery dashboard", daemon=True)
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


def _load_packages() -> tuple[Any, Any, Any]:
    """uvicorn, and the modules of the application."""
    try:
        import uvicorn

        from rookery.web import dashboard_app, dashboard_state
    except ImportError as error:
        raise MissingExtra(
            f"the dashboard needs Starlette and uvicorn, which cannot be imported ({error}): pip install 'rookery[web]'"
        ) from None
    return uvicorn, dashboard_app, dashboard_state
