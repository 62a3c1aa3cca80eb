"""The dashboard's views of a few runs as one HTML file: its page with all its files and the recorded answers inside.

Modules become `data:` addresses, which an import map gives names to. Nothing else is allowed to load. The answers are
those of the application itself, so that a report shows what the dashboard shows.
"""

from __future__ import annotations

import asyncio
import base64
import html
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlencode

import orjson
from starlette.applications import Starlette
from starlette.types import ASGIApp, Message

from rookery.files import replace_file
from rookery.training.backtest.joined_account import STRATEGIES
from rookery.training.backtest.records import COSTS
from rookery.web.dashboard_app import make_app
from rookery.web.dashboard_state import DashboardState
from rookery.web.page_shell import STATIC
from rookery.web.run_folders import RunFolders
from rookery.web.run_views.metric_curves import AXES

MODULE_NAME = re.compile(r'"(\.{1,2}/[\w./-]+\.js)"')
LINKED = re.compile(r'<link rel="(?:stylesheet|icon)"[^>]*href="/static/([^"]+)"[^>]*>\n?')
PICTURE = re.compile(r'url\("/static/([^"]+\.svg)"\)')
SCRIPT = re.compile(r'<script[^>]*src="/static/([^"]+)"[^>]*></script>\n?')
# The one page with inline scripts: it comes from a file, and holds everything that it may load.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' data:; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
PARTS = ("bands", "markets")  # of what is recorded that not every report has
FIRST = ("js/report/recorded.js", "vendor/uPlot.iife.min.js")  # no modules
POINTS = 600  # of a curve
EPISODES = 3000
NAMES_AT_ONCE = 100
BAND_POINTS = 250  # of a band
BAND_COLUMNS = ("x", "y", "low", "high")
MARKET_POINTS = 1000  # of a curve
MOST_SYMBOLS = 20  # whose positions are drawn, as in `static/js/markets/account_board.js`
MARKET_CURVES = (
    *(f"{what}/{strategy}" for what in ("equity", "drawdown") for strategy in STRATEGIES),
    *(f"cost/{kind}" for kind in COSTS), "turnover",
)  # fmt: skip


def inlined_page(recorded: dict[str, Any], title: str) -> str:
    """The page as one HTML text."""
    page = (STATIC / "index.html").read_text()
    styles = [name for name in LINKED.findall(page) if name.endswith(".css")]
    scripts = [name for name in SCRIPT.findall(page) if not _is_module(name)]
    page = SCRIPT.sub("", LINKED.sub("", page))
    head = "\n".join(
        [
            f'<meta http-equiv="Content-Security-Policy" content="{html.escape(POLICY)}">',
            *(f"<style>{_style(name)}</style>" for name in styles),
            f'<script type="application/json" id="recorded">{_json(recorded)}</script>',
            *(f"<script>{_text(name)}</script>" for name in (*FIRST, *scripts)),
            f'<script type="importmap">{_json({"imports": _modules()})}</script>',
            '<script type="module">import "rookery/main.js";</script>',
        ]
    )
    page = page.replace("<title>rookery</title>", f"<title>{html.escape(title)}</title>")
    shown = " ".join(part for part in PARTS if recorded.get(part))
    ids = list(recorded.get("runs", ()))  # a report on one run opens on that run, others on the table of runs
    first = "/runs/" + "/".join(quote(word, safe="") for word in ids[0].split("/", 1)) if len(ids) == 1 else "/"
    marks = f'data-report="{shown}" data-first="{html.escape(first)}"'
    return page.replace("<html ", f"<html {marks} ").replace("</head>", f"{head}\n</head>")


def _modules() -> dict[str, str]:
    """Every module by a name of its own, as an address that holds it."""
    folder = STATIC / "js"
    modules = [path for path in sorted(folder.rglob("*.js")) if _is_module(f"js/{path.relative_to(folder)}")]
    return {_name(path): _address("text/javascript", _code(path).encode()) for path in modules}


def _code(module: Path) -> str:
    """A module whose imports have those names."""

    def renamed(found: re.Match[str]) -> str:
        return f'"{_name((module.parent / found[1]).resolve())}"'

    return MODULE_NAME.sub(renamed, module.read_text())


def _name(module: Path) -> str:
    return f"rookery/{module.relative_to(STATIC / 'js').as_posix()}"


def _address(kind: str, contents: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(contents).decode()}"


def _is_module(name: str) -> bool:
    return name.startswith("js/") and name not in (*FIRST, "js/theme.js")


def _style(name: str) -> str:
    """A style sheet with its pictures."""

    def inlined(found: re.Match[str]) -> str:
        return f'url("{_address("image/svg+xml", (STATIC / found[1]).read_bytes())}")'

    return PICTURE.sub(inlined, _text(name))


def _text(name: str) -> str:
    """A file that goes into a <script> or <style>, which `</` would end."""
    return (STATIC / name).read_text().replace("</script", "<\\/script")


def _json(value: Any) -> str:
    """JSON that no text in it can leave."""
    return orjson.dumps(value).decode().replace("<", "\\u003c")


def write_report(runs: Sequence[Path], file: Path) -> int:
    """Write the views of these runs to one file, which needs nothing else. Returns its size in bytes."""
    names = ", ".join(run.name for run in runs[:3]) + (", …" if len(runs) > 3 else "")
    page = inlined_page(record_answers(runs), f"rookery: {names}").encode()
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, [page])
    return len(page)


def record_answers(runs: Sequence[Path]) -> dict[str, Any]:
    """By run: its details, its curves over each axis and its episodes; the table of these runs, bands of those that
    differ in their seeds, and the accounts of those that trade."""
    paths = [Path(os.path.abspath(run)) for run in runs]
    folders = RunFolders(path.parent for path in paths)
    app = make_app(DashboardState(folders))
    places = {path: place for place, path in folders.places.items()}
    ids = [(places[path.parent], path.name) for path in paths]
    with ThreadPoolExecutor(1) as pool:  # a notebook has an event loop in this thread already
        return pool.submit(asyncio.run, _record(app, ids)).result()


async def _record(app: Starlette, ids: Sequence[tuple[str, str]]) -> dict[str, Any]:
    chosen = {f"{place}/{name}" for place, name in ids}
    async with app.router.lifespan_context(app):
        table = await ask(app, "/api/runs")
        rows = [row for row in table["runs"] if row["id"] in chosen]
        runs = {f"{place}/{name}": await _record_run(app, place, name) for place, name in ids}
        return {
            "rows": rows,
            "runs": runs,
            "sparks": await ask(app, "/api/sparks", ids=listed(sorted(chosen))),
            "diffs": {run: await _difference(app, ids[0], run) for run in runs},
            "bands": await _record_bands(app, rows, runs),
            "markets": await _record_markets(app, rows),
        }


async def _difference(app: ASGIApp, first: tuple[str, str], run: str) -> dict[str, Any]:
    """The settings of a run that differ from those of the first one; what others differ in follows from that."""
    place, name = (quote(part, safe="") for part in first)
    return dict(await ask(app, f"/api/runs/{place}/{name}/diff", **{"with": run}))


async def _record_run(app: ASGIApp, place: str, name: str) -> dict[str, Any]:
    path = f"/api/runs/{quote(place, safe='')}/{quote(name, safe='')}"
    details = await ask(app, path)
    while details.get("complete") is False:  # a long run is read a part at a time
        details = await ask(app, path)
    metrics = await ask(app, f"{path}/metrics")
    names = [metric["name"] for metric in metrics["names"]]
    return {
        "details": details,
        "metrics": metrics,
        "changed": await ask(app, f"{path}/changed"),
        "curves": {axis: await _curves(app, path, names, axis) for axis in AXES},
        "episodes": await ask(app, f"{path}/episodes", points=EPISODES),
    }


async def _curves(app: ASGIApp, path: str, names: Sequence[str], axis: str) -> list[dict[str, Any]]:
    parts = [names[start : start + NAMES_AT_ONCE] for start in range(0, len(names), NAMES_AT_ONCE)]
    return [await _read_whole(app, path, part, axis) for part in parts]


async def _read_whole(app: ASGIApp, path: str, names: Sequence[str], axis: str) -> dict[str, Any]:
    """Curves of all points: of a long file the first answers are of samples, while it is read."""
    while True:
        found = await ask(app, f"{path}/metrics/data", names=",".join(names), x=axis, points=POINTS)
        if not found["sampled"]:
            return dict(found)
        await asyncio.sleep(0.2)


async def _record_bands(
    app: ASGIApp, rows: Sequence[Mapping[str, Any]], runs: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Runs that differ in their seeds alone, as the bands of a comparison, by axis and metric; {} without."""
    groups: dict[str, list[str]] = {}
    for row in rows:
        if row["group"] is not None:
            groups.setdefault(row["group"], []).append(row["id"])
    ids = [run for members in groups.values() if len(members) > 1 for run in members]
    if not ids:
        return {}
    names = dict.fromkeys(metric["name"] for run in ids for metric in runs[run]["metrics"]["names"])
    found = {axis: {name: await _bands(app, ids, name, axis) for name in names} for axis in AXES}
    return found if any(bands for metrics in found.values() for bands in metrics.values()) else {}


async def _bands(app: ASGIApp, ids: Sequence[str], metric: str, axis: str) -> list[dict[str, Any]]:
    found = await ask(app, "/api/compare", ids=listed(ids), metric=metric, x=axis, bands="seeds")
    return [_short(curve) for curve in found["curves"] if "ids" in curve]


def _short(curve: dict[str, Any]) -> dict[str, Any]:
    """Evenly chosen points, with the last one."""
    last = len(curve["x"]) - 1
    count = min(BAND_POINTS, last + 1)
    places = [round(number * last / max(1, count - 1)) for number in range(count)]
    return {**curve, **{name: [curve[name][place] for place in places] for name in BAND_COLUMNS}}


async def _record_markets(app: ASGIApp, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The `list` of backtests, and those `of` each run; empty if no run has one."""
    listed = (await ask(app, "/api/markets"))["backtests"]
    chosen = {row["id"] for row in rows}
    found = {}
    for row in listed:
        if row["id"] in chosen:
            with suppress(NoAnswer):  # its file is damaged
                found[row["id"]] = await _record_market(app, row["place"], row["name"])
    return {"list": [row for row in listed if row["id"] in found], "of": found} if found else {}


async def _record_market(app: ASGIApp, place: str, name: str) -> dict[str, Any]:
    path = f"/api/markets/{quote(place, safe='')}/{quote(name, safe='')}"
    report = await ask(app, f"{path}/report")
    names = [*MARKET_CURVES, *(f"weight/{place}" for place in range(min(MOST_SYMBOLS, len(report["symbols"]))))]
    series = {
        account: await ask(app, f"{path}/series", accounts=account, names=",".join(names), points=MARKET_POINTS)
        for account in report["accounts"]
    }
    return {"report": report, "series": series}


class NoAnswer(LookupError):
    """The application has refused, for the reason that is the message."""


async def ask(app: ASGIApp, path: str, **query: Any) -> Any:
    """The answer of the application to a GET request, which does not leave this process."""
    body, status = bytearray(), 0

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status
        status = message.get("status", status)
        body.extend(message.get("body", b""))

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http",
        "path": unquote(path), "raw_path": path.encode(), "query_string": urlencode(query).encode(), "root_path": "",
        "headers": [(b"host", b"localhost")], "client": None, "server": None,
    }  # fmt: skip
    await app(scope, receive, send)
    answer = orjson.loads(bytes(body))
    if status != 200:
        raise NoAnswer(answer.get("error", f"{path}: {status}"))
    return answer


def listed(ids: Iterable[str]) -> str:
    """Several runs in one word of a query, as `static/js/api.js` writes them."""
    return ",".join(run.replace("%", "%25").replace(",", "%2C") for run in ids)
