"""The command `dashboard`: runs, studies and leagues in a browser."""

from __future__ import annotations

import argparse
import json
import os

from rookery.cli.parser import Commands, add_command
from rookery.cli.stored_run import LOADING
from rookery.console import meanwhile, say


def add_commands(commands: Commands) -> None:
    """Add it to the parser."""
    parser = add_command(
        commands, "dashboard", _dashboard, "show runs, studies and leagues in a browser",
        "It reads the files that runs write, and shows them as they grow. Nothing is uploaded, and no run is slowed "
        "down.",
        "rookery dashboard --open",
    )  # fmt: skip
    parser.add_argument(
        "--runs-dir", action="append", metavar="DIR", help="a folder of runs; may be given several times (runs)"
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=7007, help="the port to listen on; 0 is any free one (7007)")
    parser.add_argument(
        "--allow-host", action="append", metavar="NAME[:PORT]",
        help="another name by which browsers reach it, through a proxy or a tunnel; may be given several times",
    )  # fmt: skip
    parser.add_argument("--open", action="store_true", help="open it in the browser")
    parser.add_argument(
        "--allow-control", action="store_true", help="allow to stop, resume, tag and hide runs from the page"
    )


def _dashboard(options: argparse.Namespace) -> int:
    with meanwhile(LOADING):
        from rookery.web.dashboard_server import DashboardServer
    server = DashboardServer(
        options.runs_dir or ["runs"], host=options.host, port=options.port, allow_control=options.allow_control,
        allow_hosts=options.allow_host or (),
    )  # fmt: skip
    if options.json:
        print(json.dumps({"url": server.url, "pid": os.getpid()}), flush=True)
    else:
        say(f"the dashboard is at {server.url}; Ctrl-C ends it")
    if options.open:
        import webbrowser

        webbrowser.open(server.url)
    server.run()
    return 0
