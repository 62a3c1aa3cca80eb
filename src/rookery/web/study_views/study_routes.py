"""Routes of studies: the list, a study, its trials as columns, and what is read of some trials."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from rookery.studies.storage.trial_table import STATE_NAMES, TrialTable
from rookery.web.dashboard_state import state_of
from rookery.web.queries import integer_of, names_of
from rookery.web.study_views.open_studies import OpenStudies, OpenStudy
from rookery.web.study_views.study_summary import (
    MOST_ASKED,
    column_importances,
    details,
    failures,
    learning_curves,
    pareto_front,
    running_runs,
    summary,
)
from rookery.web.study_views.study_threads import in_thread

CURVES = 200  # trials whose intermediate values are drawn, unless the page asks for fewer
IMPORTANCES_SECONDS = 10.0  # a study that continues gets new importances so often
Answer = Callable[[OpenStudy, Request], Any]
KINDS = {"f": "f4", "d": "f8", "i": "i4", "b": "i1"}  # by NumPy's letter
ALIGNED = 8  # bytes: an array of doubles in a browser may begin there


def study_routes() -> list[BaseRoute]:
    """What the pages of studies ask for."""
    one = "/api/studies/{place}/{name}"
    return [
        Route("/api/studies", studies),
        Route(one, _answering(_study)),
        Route(f"{one}/trials", _answering(_trials)),
        Route(f"{one}/trials/details", _answering(_details)),
        Route(f"{one}/curves", _answering(_curves)),
        Route(f"{one}/importances", _answering(_importances)),
    ]


async def studies(request: Request) -> Response:
    """All studies, without their trials."""
    known = _open_studies(request)
    return _json({"studies": await in_thread(known.rows)})


def _answering(answer: Answer) -> Any:
    """An endpoint for one study: the database is read in a thread, and its errors are sentences."""

    async def endpoint(request: Request) -> Response:
        known = _open_studies(request)

        def made() -> Response:
            found = answer(known.find(request.path_params["place"], request.path_params["name"]), request)
            return _packed(found) if request.query_params.get("format") == "packed" else _json(found)

        try:
            return await in_thread(made)
        except orjson.JSONEncodeError as error:
            return JSONResponse({"error": f"the study is damaged ({error})"}, 409)

    return endpoint


def _study(study: OpenStudy, request: Request) -> dict[str, Any]:
    """Its figures, and the details of the trial to use."""
    with study.look(with_params=False) as columns:
        about = {"id": f"{study.place}/{study.name}", "name": study.name, "given_as": study.given_as}
        made = {**about, **summary(columns, study.folder, time.time())}
        best = made["best_trial"] if made["verified_trial"] is None else made["verified_trial"]
        found = {} if best is None else details(columns, [best], study.folder, study.run_place)
        made["best"] = found.get(str(best))
        made["failures"] = failures(columns) if made["counts"]["failed"] else []
        if len(columns.head.directions) > 1:
            made["front"] = pareto_front(columns)
        return made


def _trials(study: OpenStudy, request: Request) -> dict[str, Any]:
    """Columns of the trials that changed after `after`, which is the `cursor` of the answer before. `columns` asks for
    the results or for the parameters alone: results are read sooner."""
    wanted = request.query_params.get("columns", "all")
    with study.look(with_params=wanted != "results") as columns:
        epoch, _, seen = request.query_params.get("after", "").partition("-")
        is_known = epoch == columns.epoch and seen.isdecimal()
        where = np.flatnonzero(columns.changed > int(seen)) if is_known else np.arange(len(columns))
        made = {
            "all": not is_known,
            "cursor": f"{columns.epoch}-{columns.revision}",
            "number": columns.number[where],
        }
        if wanted != "params":
            made |= _results(columns, where)
        if wanted != "results":
            made |= _params(columns, where)
        return made


def _results(columns: TrialTable, where: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Times are in seconds after `origin`."""
    known = columns.start[np.isfinite(columns.start)]
    origin = float(known.min()) if len(known) else 0.0
    return {
        "states": STATE_NAMES, "origin": origin, "state": columns.state[where],
        "start": np.round(columns.start[where] - origin, 3), "end": np.round(columns.end[where] - origin, 3),
        "values": [np.ascontiguousarray(columns.values[where, k]) for k in range(columns.values.shape[1])],
    }  # fmt: skip


def _params(columns: TrialTable, where: np.ndarray[Any, Any]) -> dict[str, Any]:
    """What may be chosen for each parameter, and what was. A choice is its place in the parameter's list of choices."""
    return {
        "space": [
            {"name": name, "low": each.low, "high": each.high, "log": each.log, "choices": each.choices}
            for name, each in columns.distributions.items()
        ],
        "params": {name: column[where].astype(np.float32) for name, column in columns.params.items()},
    }


def _details(study: OpenStudy, request: Request) -> dict[str, Any]:
    words = names_of(request.query_params, "numbers", MOST_ASKED)
    numbers = [integer_of({"numbers": word}, "numbers") or 0 for word in words]
    with study.look(with_params=False) as columns:
        found = details(columns, numbers, study.folder, study.run_place)
        opened = {int(number) for number in columns.number[columns.open]}
    for number in opened & set(numbers):
        one = found[str(number)]
        one["runs"] = running_runs(study.folder, study.run_place, number, [part["run"] for part in one["parts"]])
    return {"trials": found}


def _curves(study: OpenStudy, request: Request) -> dict[str, Any]:
    most = min(CURVES, integer_of(request.query_params, "trials", least=1) or CURVES)
    with study.look(with_params=False) as columns:
        return learning_curves(columns, most)


def _importances(study: OpenStudy, request: Request) -> Any:
    """Kept while no trial has ended, and for some seconds."""
    with study.look() as columns:
        mark = columns.epoch, int((~columns.open).sum())
        (known, moment), made = study.cached.get("importances", ((None, 0.0), None))
        if known is None or known[0] != mark[0] or (known != mark and time.monotonic() - moment > IMPORTANCES_SECONDS):
            made = column_importances(columns)
            study.cached["importances"] = (mark, time.monotonic()), made
        return made


def _open_studies(request: Request) -> OpenStudies:
    state = state_of(request)
    found: OpenStudies = state.parts.setdefault("studies", OpenStudies(state.folders))
    return found


def _packed(value: Any) -> Response:
    return Response(packed(value), media_type="application/octet-stream", headers={"Cache-Control": "no-store"})


def _json(value: Any) -> Response:
    text = orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)
    return Response(text, media_type="application/json", headers={"Cache-Control": "no-store"})


def packed(answer: dict[str, Any]) -> bytes:
    """An answer with its columns, which are NumPy's, as plain bytes: a browser reads 50,000 trials without parsing a
    number.

    The bytes are the length of the JSON (4, little-endian), the JSON, and the columns. In the JSON a column is
    `{"$column": [kind, where, length]}`: its place is counted from the end of the JSON, in bytes, and is a multiple of
    8. Unknown values are NaN.
    """
    parts: list[bytes] = []
    end = 0

    def placed(array: np.ndarray[Any, Any]) -> dict[str, list[Any]]:
        nonlocal end
        found = [KINDS[array.dtype.char], end, len(array)]
        data = array.tobytes()
        parts.append(data + bytes(-len(data) % ALIGNED))
        end += len(parts[-1])
        return {"$column": found}

    head = orjson.dumps(_with(answer, placed))
    head += b" " * (-(len(head) + 4) % ALIGNED)
    return b"".join([struct.pack("<I", len(head)), head, *parts])


def _with(value: Any, placed: Any) -> Any:
    """The same, with every array replaced."""
    if isinstance(value, np.ndarray):
        return placed(value)
    if isinstance(value, dict):
        return {key: _with(each, placed) for key, each in value.items()}
    return [_with(each, placed) for each in value] if isinstance(value, list | tuple) else value
