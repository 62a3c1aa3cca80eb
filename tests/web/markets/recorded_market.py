"""A copy of the recorded market, and a client of a dashboard that shows it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from rookery.deploy.paper.account_files import MARK, checksum
from web.run_views.recorded import client_of

RECORDED = Path(__file__).parents[2] / "data" / "recorded_markets"
COINS = "/api/markets/agents/coins"


def copied(to: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(RECORDED, to / "market"))


def client(market: Path) -> TestClient:
    return client_of(market / "runs", market / "agents")


def written_lines(lines: list[dict[str, Any]], total: bytes = b"", first: int = 0) -> bytes:
    """Lines of a paper account's log, with their numbers and checksums."""
    texts = []
    for number, line in enumerate(lines, first):
        body = json.dumps({"seq": number, **{key: line[key] for key in line if key not in ("seq", "sum")}}).encode()
        total = checksum(total, body)
        texts.append(body[:-1] + MARK + total + b'"}\n')
    return b"".join(texts)


def log_lines(market: Path) -> list[dict[str, Any]]:
    text = (market / "agents" / "coins" / "paper" / "log.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]
