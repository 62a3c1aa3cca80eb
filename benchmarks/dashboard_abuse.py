"""What the dashboard stands: `python benchmarks/dashboard_abuse.py [--only streams|unread|bad] [--requests 10000]`.

Each part starts `rookery dashboard` with a token, on a few runs, of which one grows. In the meantime, a good client
asks again and again, and must be answered. The abuse is repeated in rounds on one server: Python keeps memory and
threads that it has needed once, but what leaks grows with every round. After the last round the server may have no more
memory, descriptors and threads than the most after the rounds before. Server and clients share the machine. Exits with
1 if a figure misses what it must reach.

- streams: so many streams at once (--streams), half of the run, half of the table; each must be complete
- unread: clients that ask for streams and large files, and never read
- bad: requests with one fault each (bad_requests.py); none may be let in
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import psutil

from bad_requests import SECRET, BadRequests
from engine_rows import Row
from report import measured, parser_for, report

RECORDED = Path(__file__).parent.parent / "tests" / "data" / "recorded_runs"
RUN_STREAM, TABLE_STREAM = "/api/runs/runs/first/stream", "/api/stream"
ROUNDS = 3
EVENTS = (
    30  # of a round that the run writes while streams are open; fewer than 100 in all, for their numbers to be alike
)
UNREAD = 40  # clients that never read
UNREAD_SECONDS = 45.0  # within which they must be gone
MOST_MB = 24.0  # that memory may grow in all: Python keeps what it has had
MOST_LEAKED = {"MB": 4.0, "descriptors": 2, "threads": 2}  # beyond the most after earlier rounds
ASK_SECONDS = 30.0


@dataclass
class Abused:
    """A dashboard to abuse, and what a good client has seen of it."""

    process: psutil.Process
    port: int
    token: str
    run: Path
    errors: Path
    seconds: list[float] = field(default_factory=list)
    failures: int = 0
    round: int = 0

    @property
    def requests(self) -> BadRequests:
        return BadRequests(self.port, self.token, random.Random(self.round))

    def state(self) -> dict[str, float]:
        """Megabytes, descriptors and threads of the server now."""
        with self.process.oneshot():
            memory = self.process.memory_info().rss / 2**20
            return {"MB": memory, "descriptors": self.process.num_fds(), "threads": self.process.num_threads()}


Abuse = Callable[[Abused], Awaitable[list[Row]]]


@contextmanager
def abused() -> Iterator[Abused]:
    """A dashboard on copies of recorded runs, with a secret beside them."""
    with tempfile.TemporaryDirectory(prefix="dashboard-abuse-") as name:
        runs = Path(name) / "runs"
        shutil.copytree(next(path for path in sorted(RECORDED.iterdir()) if path.is_dir()), runs / "first")
        (Path(name) / "secret.txt").write_text(SECRET)
        (runs / "link").symlink_to(name)
        (runs / "first" / "link.txt").symlink_to(Path(name) / "secret.txt")
        token = secrets.token_urlsafe()
        command = [sys.executable, "-m", "rookery", "dashboard", "--runs-dir", str(runs), "--port", "0", "--json"]
        variables = {**os.environ, "ROOKERY_DASHBOARD_TOKEN": token, "ROOKERY_STATE": str(Path(name) / "state")}
        errors = Path(name) / "errors.txt"
        with errors.open("wb") as stderr:
            command.append("--allow-control")
            started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, env=variables)
        try:
            assert started.stdout is not None
            port = int(json.loads(started.stdout.readline())["url"].rpartition(":")[2])
            yield Abused(psutil.Process(started.pid), port, token, runs / "first", errors)
            assert started.poll() is None, "the dashboard has crashed"
        finally:
            started.terminate()
            assert started.wait(30) == 0


async def ask(server: Abused, request: bytes) -> bytes:
    """What is answered, until the server closes; b"" if it closes at once."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    answer = b""
    with suppress(ConnectionError):
        writer.write(request)
        await writer.drain()
    with suppress(ConnectionError):
        while part := await asyncio.wait_for(reader.read(1 << 16), ASK_SECONDS):
            answer += part
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()
    return answer


def status(answer: bytes) -> int:
    """The status of an answer; 0 without one."""
    words = answer[:32].split()
    return int(words[1]) if len(words) > 1 and words[1].isdigit() else 0


@asynccontextmanager
async def good_client(server: Abused) -> AsyncIterator[None]:
    """Asks for what pages need, ten times a second; counts what is not answered."""
    targets = ("/api/health", "/", "/api/runs/runs/first", "/static/js/main.js")

    async def go_on() -> None:
        while True:
            for target in targets:
                began = time.perf_counter()
                try:
                    found = status(await ask(server, server.requests.request(target)))
                except (OSError, TimeoutError):
                    found = 0
                server.seconds.append(time.perf_counter() - began)
                server.failures += found != 200
                await asyncio.sleep(0.1)

    task = asyncio.create_task(go_on())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def write_events(server: Abused, first: int, events: int, padding: str = "") -> None:
    """So many new events of the run."""
    with (server.run / "metrics.jsonl").open("a") as file:
        for number in range(first, first + events):
            event = {"kind": "progress", "step": 10**9 + number, "time": time.time(), "padding": padding}
            file.write(json.dumps(event) + "\n")


async def follow(server: Abused, path: str, ready: asyncio.Semaphore, last: int) -> bool:
    """Whether a stream gets the last event and, if it is that of the run, every event of the round before. The table
    tells only how a run is now."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 24)
    writer.write(server.requests.request(path))
    seen, ended = 0, False
    try:
        while line := await asyncio.wait_for(reader.readline(), 2 * ASK_SECONDS):
            if line.startswith(b"HTTP/1.1 200"):
                ready.release()
            seen += line.count(b"10000000")
            if ended := b"%d" % (10**9 + last) in line:
                break
    except (TimeoutError, ConnectionError):
        pass
    writer.close()
    return ended and (path == TABLE_STREAM or seen == EVENTS)


async def many_streams(server: Abused, streams: int) -> list[Row]:
    """All streams at once, while the run writes."""
    ready = asyncio.Semaphore(0)
    began = time.perf_counter()
    paths = [TABLE_STREAM if number % 2 else RUN_STREAM for number in range(streams)]
    first = server.round * EVENTS
    following = [asyncio.create_task(follow(server, path, ready, first + EVENTS - 1)) for path in paths]
    for _ in range(streams):
        await asyncio.wait_for(ready.acquire(), 60)
    opened = time.perf_counter() - began
    for number in range(first, first + EVENTS):
        write_events(server, number, 1)
        await asyncio.sleep(0.1)
    complete = sum(await asyncio.gather(*following))
    what = f"{streams} streams at once, of a run or of the table"
    return [Row(f"{what}: complete", f"{complete}", f"open after {opened:.1f} s", complete, streams, unit="")]


async def never_read(server: Abused, clients: int) -> list[Row]:
    """Clients that do not read what they asked for, while the run writes megabytes."""
    write_events(server, 0, 2000, "x" * 2000)
    file = server.requests.request("/static/vendor/uPlot.iife.min.js", Connection="keep-alive") * 200
    requests = [server.requests.request(RUN_STREAM) if number % 2 else file for number in range(clients)]
    opened = []
    for request in requests:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 10)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(request)
        opened.append((reader, writer))
    highest, end = 0.0, time.perf_counter() + UNREAD_SECONDS
    left = clients
    while left and time.perf_counter() < end:
        write_events(server, 0, 200, "x" * 2000)
        await asyncio.sleep(0.5)
        highest = max(highest, server.state()["MB"])
        left = sum(one.status == "ESTABLISHED" for one in server.process.net_connections("tcp"))
    for _, writer in opened:
        writer.transport.abort()
    what = f"{clients} clients that never read"
    memory = Row(f"{what}: memory in the meantime", f"{highest:.0f} MB", "", highest, 300, unit=" MB", most=True)
    return [memory, Row(f"{what}: still connected", f"{left}", "the good client", left, 1, unit="", most=True)]


async def bad_requests(server: Abused, requests: int) -> list[Row]:
    """Bad requests by 16 clients at a time; what was let in, and what failed in the server."""
    bad, statuses, let_in = server.requests, Counter[int](), list[str]()
    waiting = iter(range(requests))

    async def client() -> None:
        for _ in waiting:
            kind, request = bad.any()
            answer = await ask(server, request)
            found = status(answer)
            statuses[found] += 1
            if 100 <= found < 400 or SECRET.encode() in answer or b"root:" in answer:
                let_in.append(f"{kind}: {request[:120]!r} {answer[:80]!r}")

    await asyncio.gather(*(client() for _ in range(16)))
    for line in let_in[:10]:
        print(line, file=sys.stderr)
    answered = ", ".join(f"{count:,} of {found or 'no status'}" for found, count in sorted(statuses.items()))
    failed = sum(count for found, count in statuses.items() if found >= 500)
    return [
        Row(
            f"{requests:,} bad requests a round: let in", f"{len(let_in)}", answered, len(let_in), 0, unit="", most=True
        ),
        Row(f"{requests:,} bad requests a round: failed inside", f"{failed}", "", failed, 0, unit="", most=True),
    ]


async def warm_up(server: Abused) -> None:
    """Everything once, so that what is loaded late is there, and threads that wait for work have been started."""
    bad = server.requests
    good = [bad.request(target) for target in ("/", "/api/runs", "/api/runs/runs/first", "/static/js/main.js")]
    for begin in range(0, 400, 40):
        await asyncio.gather(
            *(ask(server, bad.any()[1] if n % 4 else good[n // 4 % 4]) for n in range(begin, begin + 40))
        )


def abuse_rows(name: str, abuse: Abuse, rounds: int = ROUNDS) -> list[Row]:
    """The worst figures of all rounds of a part, and what every part must not do."""

    async def run() -> list[Row]:
        with abused() as server:
            await warm_up(server)
            states, found = [server.state()], []
            for server.round in range(rounds):
                async with good_client(server):
                    found.append(await abuse(server))
                await asyncio.sleep(3.0)  # until the last connections are closed
                states.append(server.state())
            worst = [_worst(rows) for rows in zip(*found, strict=True)]
            return [*worst, *after_rows(name, server), *leak_rows(name, states)]

    return asyncio.run(run())


def _worst(rows: Sequence[Row]) -> Row:
    """The same figure of all rounds, where it is furthest from what it must reach."""
    return max(rows, key=lambda row: row.value if row.most else -row.value)


def after_rows(name: str, server: Abused) -> list[Row]:
    """Whether others were served, and whether the server complained."""
    asked = f"{len(server.seconds)} asked, slowest {max(server.seconds):.2f} s"
    text = server.errors.read_text(errors="replace")
    print(text[:4000], file=sys.stderr, end="")
    lines = len(text.splitlines())
    return [
        Row(f"{name}: others not served", f"{server.failures}", asked, server.failures, 0, unit="", most=True),
        Row(f"{name}: lines of errors", f"{lines}", "", lines, 0, unit="", most=True),
    ]


def leak_rows(name: str, states: Sequence[dict[str, float]]) -> list[Row]:
    """What has grown since the beginning, and what still grows in the last round."""
    grown = states[-1]["MB"] - states[0]["MB"]
    megabytes = " -> ".join(f"{state['MB']:.0f}" for state in states)
    rows = [Row(f"{name}: MB more than before", megabytes, "", grown, MOST_MB, unit="", most=True)]
    for unit, most in MOST_LEAKED.items():
        counts = [state[unit] for state in states]
        leaked = counts[-1] - max(counts[:-1])
        figures = " -> ".join(f"{count:.0f}" for count in counts)
        rows.append(Row(f"{name}: {unit} more after the last round", figures, "", leaked, most, unit="", most=True))
    return rows


def parts(streams: int, requests: int) -> dict[str, Abuse]:
    """What is done to the server in a round."""
    return {
        "streams": lambda server: many_streams(server, streams),
        "unread": lambda server: never_read(server, UNREAD),
        "bad": lambda server: bad_requests(server, math.ceil(requests / ROUNDS)),
    }


def main() -> int:
    """Measure and print."""
    parser = parser_for(__doc__, ["streams", "unread", "bad"])
    parser.add_argument("--streams", type=int, default=200, help="at once (default: %(default)s)")
    parser.add_argument("--requests", type=int, default=10_000, help="bad ones (default: %(default)s)")
    args = parser.parse_args()
    rows = {name: partial(abuse_rows, name, part) for name, part in parts(args.streams, args.requests).items()}
    return report(measured(rows, args.only), "the dashboard under abuse", args.json)


if __name__ == "__main__":
    sys.exit(main())
