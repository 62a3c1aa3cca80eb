"""The command `serve`: an agent behind HTTP."""

from __future__ import annotations

import argparse
import json
import os

from rookery.cli.arguments import best_argument, check_positive, runs_dir_argument, trust_argument
from rookery.cli.parser import Commands, add_command
from rookery.cli.stored_run import LOADING
from rookery.console import meanwhile, say
from rookery.training import check_installed


def add_commands(commands: Commands) -> None:
    """Add it to the parser."""
    parser = add_command(
        commands, "serve", _serve, "answer requests for actions over HTTP",
        "POST /act takes observations and returns actions; GET /health and /version tell about the server. The agent "
        "is the champion of a registry, and a newly promoted one takes over without a restart. The token is read from "
        "the environment variable ROOKERY_SERVE_TOKEN; it is needed for any --host but this machine's own.",
        "rookery serve agents/ --port 8000",
    )  # fmt: skip
    parser.add_argument(
        "name", metavar="DIR", help="the folder of a registry; or the name of a run, its folder, or a saved agent"
    )
    runs_dir_argument(parser)
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="the port to listen on; 0 is any free one (8000)")
    parser.add_argument(
        "--allow-host", action="append", metavar="NAME[:PORT]",
        help="another name by which clients reach it, through a proxy or a tunnel; may be given several times",
    )  # fmt: skip
    parser.add_argument("--device", default="cpu", help="where the agent computes: cpu or cuda (cpu)")
    parser.add_argument(
        "--max-waiting", type=int, default=1024, metavar="N",
        help="requests that may wait at the same time; further ones are refused with status 503 (1024)",
    )  # fmt: skip
    parser.add_argument(
        "--max-body", type=int, default=16, metavar="MB", help="the largest body of a request, in MB (16)"
    )
    best_argument(parser)
    trust_argument(parser)


def _serve(options: argparse.Namespace) -> int:
    check_positive(options, "max_waiting", "max_body")
    check_installed()
    with meanwhile(LOADING):
        from rookery.deploy.serving.server import AgentServer
    server = AgentServer(
        options.name, host=options.host, port=options.port, runs_dir=options.runs_dir, best=options.best,
        device=options.device, trust=options.trust, most_waiting=options.max_waiting,
        most_body_bytes=options.max_body << 20, allow_hosts=options.allow_host or (),
    )  # fmt: skip
    if options.json:
        print(json.dumps({"url": server.url, "version": server.version, "pid": os.getpid()}), flush=True)
    else:
        say(f"version {server.version} of {options.name} answers at {server.url}; Ctrl-C ends it")
    server.run()
    return 0
