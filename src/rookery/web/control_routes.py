"""What the page can change: stop, resume and fork a run, tag and hide it. Off without --allow-control."""

from __future__ import annotations

import hmac
import json
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from rookery.errors import FileError, OptionError, RunError
from rookery.files import open_to_append, read_plain
from rookery.training.storage.run_dir import NAME
from rookery.training.storage.run_record import as_object
from rookery.web.dashboard_state import DashboardState, state_of
from rookery.web.marks import Marks, marks_of

if TYPE_CHECKING:
    import psutil

# The run continues when the dashboard has ended, and when the terminal in which that was started is closed.
LASTING = (
    "import signal, sys; hasattr(signal, 'SIGHUP') and signal.signal(signal.SIGHUP, signal.SIG_IGN); sys.argv.pop(1); "
    "from rookery.cli.main import main; sys.exit(main())"
)
LOGS = {"resume": "resume.log", "fork": "fork.log"}  # in the run's folder: what the command prints
START_SECONDS = 30.0  # until which an error of the command is reported
MOST_ERROR = 2000  # characters
SETTING = re.compile(r"[a-z][\w.]*=.{0,300}")
Change = Callable[[DashboardState, str, str, dict[str, Any]], dict[str, Any]]


def control_routes() -> list[BaseRoute]:
    """Routes of the session and of all changes."""
    changes: dict[str, Change] = {
        "stop": lambda state, place, name, _: {"stopping": stop_run(state.folders.find(place, name))},
        "resume": lambda state, place, name, _: {"resumed": resume_run(state.folders.find(place, name))},
        "fork": lambda state, place, name, values: {"forked": fork_run(state.folders.find(place, name), values)},
        "tags": lambda state, *run_and_values: _mark(marks_of(state), "tags", *run_and_values),
        "hide": lambda state, *run_and_values: _mark(marks_of(state), "hidden", *run_and_values),
    }
    paths = {name: f"/api/runs/{{place}}/{{name}}/{name}" for name in changes}
    posts = [Route(paths[name], _changing(change), methods=["POST"]) for name, change in changes.items()]
    return [Route("/api/session", session), *posts]


async def session(request: Request) -> Response:
    """The token that changes need, which only our own page can read, and whether they are allowed."""
    state = state_of(request)
    return JSONResponse({"csrf": state.csrf, "allow_control": state.allow_control})


def _changing(change: Change) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        state = state_of(request)
        values = await _checked(request, state)
        place, name = request.path_params["place"], request.path_params["name"]
        try:
            return JSONResponse(await run_in_threadpool(change, state, place, name, values))
        except OptionError as error:
            raise HTTPException(400, str(error)) from None
        except (RunError, FileError, OSError) as error:
            raise HTTPException(409, str(error)) from None

    return answer


async def _checked(request: Request, state: DashboardState) -> dict[str, Any]:
    """The JSON object of a request that may change something."""
    if not state.allow_control:
        raise HTTPException(403, "runs are only shown: start the dashboard with --allow-control to change them")
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HTTPException(415, f"the type of the body should be application/json, got {kind!r:.60}")
    if not hmac.compare_digest(request.headers.get("x-csrf-token", "").encode(), state.csrf.encode()):
        raise HTTPException(403, "the header X-CSRF-Token is missing or wrong: /api/session has its value")
    try:
        values = json.loads(await request.body() or b"{}")
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise HTTPException(400, "the body should be a JSON object")
    return values


def _mark(marks: Marks, what: str, place: str, name: str, values: dict[str, Any]) -> dict[str, Any]:
    change = marks.set_tags if what == "tags" else marks.set_hidden
    change(place, name, values.get(what))
    return dict(zip(("tags", "hidden"), marks.of(place, name), strict=True))


def stop_run(path: Path) -> int:
    """Ask the process of a run to save and end, as Ctrl-C does, and return its pid."""
    import psutil  # late, like what `resume_run` imports: together a tenth of the start of the server

    process = _holder(path)
    if process is None:
        raise RunError(f"{path.name} does not run on this machine: there is nothing to stop")
    try:
        process.send_signal(signal.SIGTERM)  # unlike a second SIGINT, a second SIGTERM does no harm
    except psutil.Error:
        raise RunError(f"{path.name} cannot be stopped: its process {process.pid} is another user's, or gone") from None
    return process.pid


def resume_run(path: Path) -> int:
    """Start `rookery resume` as a process of its own and return its pid, when the run has begun or START_SECONDS have
    passed."""
    if _holder(path) is not None:
        raise RunError(f"{path.name} runs already")
    return _start(path, ["resume", str(path), "--runs-dir", str(path.parent), "--no-panel"], lambda: [path])


def fork_run(path: Path, values: Mapping[str, Any]) -> str:
    """Start `rookery fork` likewise, and return the name of the new run; of several, what their names begin with."""
    step, name, settings = values.get("step"), values.get("name") or f"{path.name}-fork", values.get("settings", [])
    if type(step) is not int or step < 0:
        raise OptionError(f"step should be an integer >= 0, got {step!r:.40}")
    numbers = {key: values[key] for key in ("seed", "seeds") if values.get(key) is not None}
    for key, number in numbers.items():
        if type(number) is not int or number < 0:
            raise OptionError(f"{key} should be an integer >= 0, got {number!r:.40}")
    if not isinstance(settings, list) or not all(isinstance(each, str) and SETTING.match(each) for each in settings):
        raise OptionError("settings should be a list of texts such as ppo.clip=0.1")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise OptionError(f"{name!r:.80} cannot be the name of a run")
    name = next(one for k in count(1) if not (path.parent / (one := name if k == 1 else f"{name}-{k}")).exists())
    words = ["fork", str(path), "--at", str(step), "--name", name, "--runs-dir", str(path.parent), "--no-panel"]
    words += [f"--{key}={number}" for key, number in numbers.items()] + [f"--set={each}" for each in settings]
    _start(path, words, lambda: path.parent.glob(f"{name}*"))
    return name


def _start(path: Path, words: Sequence[str], made: Callable[[], Iterable[Path]]) -> int:
    """Start a command about a run, which lasts; until one of the runs that it makes has begun, its errors are told."""
    from rookery.training.commands import start_command

    log = path / LOGS[words[0]]
    descriptor = open_to_append(log)
    try:
        begin = os.fstat(descriptor).st_size
        process = start_command(*words, code=LASTING, stdout=descriptor, stderr=descriptor)
    finally:
        os.close(descriptor)
    threading.Thread(target=process.wait, name=f"rookery {words[0]}", daemon=True).start()  # no zombie is left
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if process.returncode not in (None, 0):
            with open(log, "rb") as file:
                file.seek(begin)
                text = file.read(1 << 16).decode(errors="replace").strip()[-MOST_ERROR:]
            raise RunError(
                f"{path.name} was not {words[0].rstrip('e')}ed: {text or f'exit status {process.returncode}'}"
            )
        if process.returncode == 0 or any(_holder(run) is not None for run in made()):
            break
        time.sleep(0.1)
    return process.pid


def _holder(path: Path) -> psutil.Process | None:
    """The process on this machine that holds the run's lock. A file can name any process: this one has it open."""
    import psutil

    lock = path / "run.lock"
    about: dict[str, Any] = {}
    with suppress(OSError):
        about = as_object(read_plain(lock, 4096))
    if about.get("host") != socket.gethostname() or type(about.get("pid")) is not int:
        return None
    with suppress(psutil.Error, OSError, ValueError, OverflowError):
        process = psutil.Process(about["pid"])
        if any(os.path.samefile(file.path, lock) for file in process.open_files() if file.path.endswith("/run.lock")):
            return process
    return None
