"""Run folders as a run writes them, made quickly."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from rookery.web.dashboard_app import make_app
from rookery.web.dashboard_state import DashboardState
from rookery.web.run_folders import RunFolders

START = 1_700_000_000.0


def start(steps: int = 1000, at: float = START, **facts: Any) -> dict[str, Any]:
    facts = {"world": "CartPole-v1", "learner": "ppo", "num_envs": 8, "backend": "serial", "cores": 2, **facts}
    return {"kind": "start", "step": 0, "time": at, "steps": steps, "seed": 1, "resumed_from": None, **facts}


def progress(step: int, at: float | None = None, **values: Any) -> dict[str, Any]:
    """A progress event as PPO's, of which the return is a tenth of the step."""
    base = {
        "episodes": step // 10, "episode/return": step / 10, "time/env": 0.8, "time/policy": 0.1, "time/learner": 0.1,
        "steps_per_second": 100.0, "seconds": step / 100, "eta_seconds": 5.0, "share": step / 1000, "num_envs": 8,
    }  # fmt: skip
    return {"kind": "progress", "step": step, "time": START + step / 100 if at is None else at, **base, **values}


def evaluation(step: int, value: float, best: bool) -> dict[str, Any]:
    return {"kind": "evaluation", "step": step, "time": START + step / 100, "eval/return": value, "eval/best": best}


def end(step: int, reason: str = "finished") -> dict[str, Any]:
    return {"kind": "end", "step": step, "time": START + step / 100, "seconds": 10.5, "reason": reason}


def write_run(folder: Path, events: Iterable[dict[str, Any]], **config: Any) -> Path:
    """A run with these events."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"world": "CartPole-v1", "learner": "ppo", "steps": 1000, "seed": 1, "num_envs": 8, **config}
    (folder / "config.json").write_text(json.dumps(settings))
    (folder / "run.json").write_text(json.dumps({"created": START, "id": "0" * 32}))
    append(folder, events)
    return folder


def append(folder: Path, events: Iterable[dict[str, Any]]) -> None:
    events = list(events)
    for name, kinds in (("metrics.jsonl", None), ("evaluations.jsonl", "evaluation")):
        lines = [json.dumps(event) + "\n" for event in events if kinds in (None, event["kind"])]
        if lines:
            with (folder / name).open("a") as file:
                file.writelines(lines)


def client_of(*folders: Path) -> TestClient:
    return TestClient(make_app(DashboardState(RunFolders(folders))))
