"""The dashboard's server: its socket, and an end without a trace."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rookery.deploy.serving.http_server import HttpServer, OwnHosts, checked_token, open_socket, socket_url
from rookery.errors import MissingExtra
from rookery.web.run_folders import RunFolders

PORT = 7007
TOKEN = "ROOKERY_DASHBOARD_TOKEN"  # noqa: S105 - the variable's name
KEEP_ALIVE_SECONDS = 30
STOP_SECONDS = 2  # streams of events never end by themselves
END_SECONDS = 4.0  # after a signal; a thread that reads a hung drive cannot be ended otherwise
MOST_MESSAGE_BYTES = 64 << 10  # of a browser, over a WebSocket


# What uvicorn reports as an error of ours, after a WebSocket was rejected and a reader that does not read was dropped.
NO_ERRORS = (
    "ASGI callable returned without completing handshake.",
    "ASGI callable returned without completing response.",
)


class DashboardServer(HttpServer):
    """The dashboard behind HTTP. `run` serves in this thread until SIGTERM or Ctrl-C; as a context, it serves in
    another thread until the end of the block."""

    def __init__(
        self,
        folders: Iterable[str | Path] = ("runs",),
        *,
        host: str = "127.0.0.1",
        port: int = PORT,
        allow_control: bool = False,
        allow_hosts: Iterable[str] = (),
        token: str | None = None,
    ) -> None:
        """Open the socket. Port 0 is any free port. `token` is that of ROOKERY_DASHBOARD_TOKEN if it is not given;
        `allow_hosts` are further names by which browsers reach it, through a proxy or a tunnel."""
        self.folders = RunFolders(folders)
        uvicorn, modules = _load_packages()
        token = checked_token(token or os.environ.get(TOKEN), TOKEN)
        self.has_token = token is not None
        self._socket = open_socket(host, port, token is not None, TOKEN)
        state = modules.dashboard_state.DashboardState(self.folders, allow_control)
        bound = self._socket.getsockname()[1]
        app = modules.guard.Guard(
            modules.dashboard_app.make_app(state),
            OwnHosts(host, bound, allow_hosts),
            modules.guard.TokenLogin(token, bound) if token else None,
        )
        config = uvicorn.Config(
            app, http=modules.http_connection.HttpConnection, ws=_web_socket, log_config=None, log_level="error",
            access_log=False, lifespan="on", server_header=False, proxy_headers=False, ws_max_size=MOST_MESSAGE_BYTES,
            timeout_keep_alive=KEEP_ALIVE_SECONDS, timeout_graceful_shutdown=STOP_SECONDS,
        )  # fmt: skip
        logging.getLogger("uvicorn.error").addFilter(_is_error)
        super().__init__(uvicorn.Server(config), self._socket)

    def run(self) -> None:
        """Serve until a signal says to stop, or `stop` is called. A process that has not stopped soon after the signal,
        whatever it reads, is ended."""
        ending = end_process(END_SECONDS)
        handle = self._server.handle_exit

        def handle_exit(sig: int, frame: Any) -> None:
            if not ending.is_alive() and not self._server.should_exit:
                ending.start()
            handle(sig, frame)

        self._server.handle_exit = handle_exit
        try:
            super().run()
        finally:
            ending.cancel()

    @property
    def url(self) -> str:
        """Where it is reached from this machine, such as http://127.0.0.1:7007."""
        return socket_url(self._socket).replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:")


dashboard = DashboardServer  # the verb


def end_process(seconds: float) -> threading.Timer:
    """What ends this process after some seconds, once it is started. The interpreter's own end waits for threads."""
    timer = threading.Timer(seconds, os._exit, (0,))
    timer.daemon = True
    return timer


def _web_socket(*args: Any, **kwargs: Any) -> Any:
    """The protocol of a WebSocket. Only a playing agent needs one, and it takes a while to import."""
    from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

    return WebSocketsSansIOProtocol(*args, **kwargs)


def _is_error(record: logging.LogRecord) -> bool:
    return record.msg not in NO_ERRORS


def _load_packages() -> tuple[Any, Any]:
    """uvicorn, and the package `web` with its modules that need it or Starlette."""
    try:
        import uvicorn

        import rookery.web.dashboard_app
        import rookery.web.guard
        import rookery.web.http_connection
    except ImportError as error:
        raise MissingExtra(
            f"the dashboard needs Starlette and uvicorn, which cannot be imported ({error}): pip install 'rookery[web]'"
        ) from None
    return uvicorn, rookery.web
