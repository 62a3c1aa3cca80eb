"""A server for one agent: its socket, its threads, and an end that loses no accepted request."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rookery.deploy.serving.champion_watch import ChampionWatch, find_source
from rookery.deploy.serving.http_server import HttpServer, OwnHosts, checked_token, open_socket, socket_url
from rookery.deploy.serving.served_agent import MOST_WAITING, Batcher
from rookery.errors import MissingExtra

TOKEN = "ROOKERY_SERVE_TOKEN"  # noqa: S105 - the variable's name
KEEP_ALIVE_SECONDS = 75  # of a connection that is not used
STOP_SECONDS = 35  # within which accepted requests are finished; longer than a body may take to arrive


class AgentServer(HttpServer):
    """An agent behind HTTP. `run` serves in this thread until SIGTERM or Ctrl-C; as a context, it serves in another
    thread until the end of the block."""

    def __init__(
        self,
        what: str | Path,
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        runs_dir: str | Path = "runs",
        best: bool = True,
        device: str = "cpu",
        trust: bool = False,
        token: str | None = None,
        allow_hosts: Iterable[str] = (),
        poll_seconds: float = 1.0,
        most_waiting: int = MOST_WAITING,
        most_body_bytes: int | None = None,
    ) -> None:
        """Open the socket and load the agent. `token` is that of ROOKERY_SERVE_TOKEN if it is not given; port 0 is any
        free port; `allow_hosts` are further names by which clients reach it, through a proxy or a tunnel."""
        uvicorn, app = _load_packages()
        token = checked_token(token or os.environ.get(TOKEN), TOKEN)
        self._socket = open_socket(host, port, token is not None, TOKEN)
        try:
            hosts = OwnHosts(host, self._socket.getsockname()[1], allow_hosts)
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
            app.make_app(state, token, hosts), log_config=None, log_level="warning", access_log=False, lifespan="off",
            ws="none", server_header=False, timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=STOP_SECONDS,
        )  # fmt: skip
        super().__init__(uvicorn.Server(config), self._socket)

    @property
    def url(self) -> str:
        """Where it is reached, such as http://127.0.0.1:8000."""
        return socket_url(self._socket)

    @property
    def version(self) -> int | str:
        """The version that acts."""
        return self.batcher.agent.version

    def close(self) -> None:
        self.watch.close()
        self.batcher.close()
        super().close()


serve = AgentServer  # the verb


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
