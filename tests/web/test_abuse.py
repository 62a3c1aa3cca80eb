"""The bad requests of benchmarks/dashboard_abuse.py, a few of each kind, and that their faults are what is rejected."""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

import psutil
import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from bad_requests import SECRET, BadRequests
from dashboard_abuse import Abused, ask, status
from rookery.web.dashboard_server import DashboardServer

TOKEN = "a-token-of-good-length"


def test_bad_requests_are_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = tmp_path / "runs" / "first"
    run.mkdir(parents=True)
    (run / "run.json").write_text("{}")
    (tmp_path / "secret.txt").write_text(SECRET)
    (run / "link.txt").symlink_to(tmp_path / "secret.txt")

    async def answers(server: Abused) -> list[bytes]:
        bad = BadRequests(server.port, server.token, random.Random(1))
        assert status(await ask(server, bad.request("/api/health"))) == 200  # without a fault
        return [await ask(server, bad.any()[1]) for _ in range(200)]

    with DashboardServer([tmp_path / "runs"], port=0, token=TOKEN, allow_control=True) as server:
        port = int(server.url.rpartition(":")[2])
        found = asyncio.run(answers(Abused(psutil.Process(), port, TOKEN, run, tmp_path / "errors")))
    assert all(status(answer) >= 400 or not answer for answer in found)
    assert all(SECRET.encode() not in answer and status(answer) < 500 for answer in found)
    assert {400, 401, 403, 404} <= set(map(status, found))
    assert not caplog.records
