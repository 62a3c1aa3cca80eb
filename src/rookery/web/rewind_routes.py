"""A run's forks, as `run.json` of each says, and where two runs part. What needs torch is done by the command, in
another process."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from rookery.training.storage.run_dir import RunDir
from rookery.web.dashboard_state import DashboardState, encoded, json_answer, state_of
from rookery.web.run_folders import RunFolders

RUN = "/api/runs/{place}/{name}"
MOST_AT_ONCE = 2
POLL_SECONDS = 0.05
MOST_ERROR = 2000  # characters
SHOWN = 50  # arrays that differ
MOST_RUNS = 100  # of a family that are shown
Node = dict[str, Any]


def rewind_routes() -> list[BaseRoute]:
    return [Route(f"{RUN}/family", run_family), Route(f"{RUN}/parting", parting)]


async def run_family(request: Request) -> Response:
    """The run with its forks, and what it is a fork of."""
    state, place = state_of(request), request.path_params["place"]
    return await json_answer(
        state, place, lambda: {"runs": family(state.folders, place, request.path_params["name"])}
    )  # fmt: skip


def family(folders: RunFolders, place: str, name: str) -> list[Node]:
    """The first ancestor of a run that is shown and all forks from there, each after its parent: id, name, the id of
    its parent, and the step at which it left it. `from` names the parent also where that is not shown."""
    folders.find(place, name)
    nodes = {f"{one}/{other}": _node(one, path.name, RunDir(path).birth()) for one, other, path in folders.children()}
    by_id = {node.pop("run_id"): key for key, node in nodes.items()}
    forks = defaultdict[str, list[str]](list)
    for key, node in nodes.items():
        node["parent"] = by_id.get(node.pop("parent_id")) if node["step"] is not None else None
        if node["parent"] is not None:
            forks[node["parent"]].append(key)
    root, seen = f"{place}/{name}", set[str]()
    while nodes[root]["parent"] is not None and root not in seen:  # a file may say anything, also a circle
        seen.add(root)
        root = nodes[root]["parent"]
    return [nodes[key] for key, _ in zip(_down(root, forks, set()), range(MOST_RUNS), strict=False)]


def _node(place: str, name: str, birth: Mapping[str, Any]) -> Node:
    said = birth.get("parent")
    parent: Mapping[str, Any] = said if isinstance(said, dict) else {}
    step, parent_id, parent_name = parent.get("step"), parent.get("id"), parent.get("run")
    return {
        "id": f"{place}/{name}", "name": name, "run_id": str(birth.get("id")),
        "parent_id": parent_id if isinstance(parent_id, str) else None,
        "from": parent_name if isinstance(parent_name, str) else None,
        "step": step if type(step) is int and step >= 0 else None,
    }  # fmt: skip


def _down(key: str, forks: Mapping[str, list[str]], seen: set[str]) -> Iterator[str]:
    if key not in seen:
        seen.add(key)
        yield key
        for fork in sorted(forks.get(key, [])):
            yield from _down(fork, forks, seen)


async def parting(request: Request) -> Response:
    """Where a run parts from another one, as `rookery diff` says: by their records or, with `replay=1`, by playing both
    again. It ends with the page that asks."""
    state, params = state_of(request), request.path_params
    other, _, other_name = request.query_params.get("with", "").partition("/")
    if not other_name:
        raise HTTPException(400, "`with` names the other run, such as with=runs/NAME")
    runs = [state.folders.find(params["place"], params["name"]), state.folders.find(other, other_name)]
    if runs[0] == runs[1]:
        raise HTTPException(400, "two different runs are compared; these are one")
    found = await _diff(request, state, runs, request.query_params.get("replay") == "1")
    found["differences_in_all"] = len(found["differences"])
    found["differences"] = found["differences"][:SHOWN]
    return Response(encoded(found), media_type="application/json")


async def _diff(request: Request, state: DashboardState, runs: list[Path], replay: bool) -> dict[str, Any]:
    at_work: set[object] = state.parts.setdefault("partings", set())
    if len(at_work) >= MOST_AT_ONCE:
        raise HTTPException(
            503, f"{MOST_AT_ONCE} pairs of runs are compared already: wait for them, or close their page"
        )
    mine = object()
    at_work.add(mine)
    try:
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            words = ["diff", *map(str, runs), "--json", *([] if replay else ["--no-replay"])]
            status = await _run(request, words, output, errors)
            if status not in (0, 1):  # 1: they differ
                said = _text(errors)[-MOST_ERROR:].strip().removeprefix("rookery: ")
                raise HTTPException(409, said or f"rookery diff ended with status {status}")
            return dict(json.loads(_text(output)))
    except ValueError:
        raise HTTPException(409, "rookery diff gave no answer") from None
    finally:
        at_work.discard(mine)


async def _run(request: Request, words: list[str], output: IO[bytes], errors: IO[bytes]) -> int:
    """The exit status of the command, which is killed when nobody waits for its answer any more."""
    from rookery.engine.workers.child_process import in_lasting_thread
    from rookery.forks import kill_group
    from rookery.training.commands import start_command

    process = await asyncio.to_thread(
        in_lasting_thread, lambda: start_command(*words, stdout=output, stderr=errors)
    )  # fmt: skip
    try:
        while process.poll() is None:
            if await request.is_disconnected():
                raise HTTPException(499, "nobody waits for the answer")
            await asyncio.sleep(POLL_SECONDS)
        return int(process.returncode)
    finally:
        if process.returncode is None:
            kill_group(process)
            process.wait()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
