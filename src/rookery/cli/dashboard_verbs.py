"""The commands `dashboard` and `report`: runs, studies and playing agents in a browser, or as one file."""

from __future__ import annotations

import argparse
import gc
import json
import os
import socket
import threading
from typing import TYPE_CHECKING

from rookery.cli.arguments import print_path, runs_dir_argument
from rookery.cli.parser import Commands, add_command, takes
from rookery.console import say
from rookery.errors import OptionError

if TYPE_CHECKING:
    from rookery.web.dashboard_server import DashboardServer

END_SECONDS = 0.5  # for threads that still read


def add_dashboard(commands: Commands) -> None:
    parser = add_command(
        commands, "dashboard", _dashboard, "show runs, studies and playing agents in a browser",
        "It reads the files that runs write, and shows them as they grow. Nothing is uploaded. "
        "It listens on this machine alone; another --host needs a token in the environment variable "
        "ROOKERY_DASHBOARD_TOKEN, with which people log in. `rookery train ... --dashboard` starts it with a run.",
        "rookery dashboard --open",
    )  # fmt: skip
    takes(
        parser, "--runs-dir DIR", "a folder of runs, studies or registries; may be given several times (runs, studies "
        "and agents)", action="append",
    )  # fmt: skip
    takes(parser, "--host", "the address to listen on", "127.0.0.1")
    takes(parser, "--port", "the port to listen on; 0 is any free one", 7007)
    takes(
        parser, "--allow-host NAME[:PORT]", "another name by which browsers reach it, through a proxy or a tunnel; "
        "may be given several times", action="append",
    )  # fmt: skip
    takes(parser, "--open", "open it in the browser")
    takes(parser, "--allow-control", "allow the page to stop, resume, tag and hide runs")


def _dashboard(options: argparse.Namespace) -> int:
    folders = options.runs_dir or ["runs", "studies", "agents"]
    _check_folders(options.runs_dir or ["runs"])
    gc.disable()  # what a start makes stays: looking for garbage in it took 0.02 s
    try:
        server = _server(options, folders)
        gc.freeze()
    finally:
        gc.enable()
    if options.json:
        about = {"url": server.url, "pid": os.getpid(), "folders": list(map(str, server.folders.places.values()))}
        print(json.dumps({**about, "allow_control": options.allow_control}), flush=True)
    else:
        _tell(server, options)
    if options.open:
        # In a thread: a browser in the terminal would wait here for an answer of the server.
        threading.Thread(target=_open, args=(server.url,), daemon=True).start()
    server.run()
    _end_soon()
    return 0


def _end_soon() -> None:
    """Nothing is written any more, so a thread that still reads a hung drive is not waited for."""
    from rookery.web.dashboard_server import end_process

    end_process(END_SECONDS).start()


def _server(options: argparse.Namespace, folders: list[str]) -> DashboardServer:
    from rookery.web.dashboard_server import DashboardServer

    try:
        return DashboardServer(
            folders, host=options.host, port=options.port, allow_control=options.allow_control,
            allow_hosts=options.allow_host or (),
        )  # fmt: skip
    except OptionError as error:
        raise OptionError(f"{error}{_running_hint(options.port, folders)}") from None


def _check_folders(folders: list[str]) -> None:
    for folder in folders:
        if not os.path.exists(folder):
            say(f"there is no folder {folder} yet: its runs are shown as soon as `rookery train` has made it")
        elif not os.path.isdir(folder):
            study = f"; a study that is a file is shown with its folder, --runs-dir {os.path.dirname(folder) or '.'}"
            hint = study if folder.endswith(".db") else ""
            raise OptionError(f"--runs-dir {folder} is a file, and should be a folder of runs{hint}")


def _tell(server: DashboardServer, options: argparse.Namespace) -> None:
    say(f"the dashboard is at {server.url}; Ctrl-C ends it")
    if options.host in ("0.0.0.0", "::"):  # noqa: S104 - a token is needed there
        say(f"from other machines: http://{socket.gethostname()}:{server.url.rpartition(':')[2]}")
    if server.has_token:
        say("the page asks for the token in ROOKERY_DASHBOARD_TOKEN; /?token=TOKEN logs in too")
    if options.allow_control:
        say("runs can be stopped, resumed, tagged and hidden from the page")


def _running_hint(port: int, folders: list[str]) -> str:
    """Where these folders are shown already, if they are."""
    from rookery.web.dashboard_process import running_dashboard

    running = running_dashboard(port, *folders) if 0 < port < 65536 else None
    return f"; a dashboard of the same folders is at {running}" if running else ""


def _open(url: str) -> None:
    import webbrowser

    if not webbrowser.open(url):
        say(f"no browser could be opened: open {url} yourself")


def add_report(commands: Commands) -> None:
    parser = add_command(
        commands, "report", _report, "write the dashboard's pages of runs to one HTML file that you can send",
        "The file needs neither rookery nor a network: curves, bands over seeds, evaluations, where time went, "
        "episodes, settings, notes and backtests are in it. Videos and checkpoints are not.",
        "rookery report first second --html comparison.html",
    )  # fmt: skip
    takes(parser, "names RUN", "names of runs, their folders, or latest", nargs="+")
    takes(parser, "--html FILE", "the file to write", "report.html")
    runs_dir_argument(parser)


def _report(options: argparse.Namespace) -> int:
    from rookery.web.report import report

    return print_path(report(*options.names, html=options.html, runs_dir=options.runs_dir), options)
