"""Events as a run would tell them."""

from __future__ import annotations

from typing import Any

from rookery.monitor.events import Event

START: dict[str, Any] = {
    "run": "CartPole-v1_ppo",
    "path": "runs/CartPole-v1_ppo",
    "world": "CartPole-v1",
    "learner": "ppo",
    "num_envs": 8,
    "backend": "serial",
    "workers": 1,
    "groups": 1,
    "device": "cpu",
    "steps": 100_000,
    "seed": 1,
    "resumed_from": None,
    "cores": 8,
}
PROGRESS: dict[str, Any] = {
    "steps_per_second": 12_345.6,
    "eta_seconds": 80.0,
    "episodes": 812,
    "episode/return": 123.4,
    "episode/length": 321.5,
    "updates": 64,
    "num_envs": 8,
    "loss/policy": -0.0123,
    "loss/value": 4.56,
    "learning_rate": 3e-4,
    "time/env": 0.7,
    "time/policy": 0.1,
    "time/learner": 0.15,
    "time/waiting": 0.0,
    "time/other": 0.05,
}
EVALUATION: dict[str, Any] = {
    "eval/return": 456.75,
    "eval/return_std": 26.0,
    "eval/return_low": 444.25,
    "eval/return_high": 469.25,
    "eval/length": 456.75,
    "eval/episodes": 20,
    "eval/seconds": 1.5,
    "eval/best": True,
}
END: dict[str, Any] = {
    "run": "CartPole-v1_ppo",
    "path": "runs/CartPole-v1_ppo",
    "steps": 100_000,
    "episodes": 812,
    "seconds": 75.0,
    "return_last_10": 499.5,
    "return_last_100": 487.25,
    "num_envs": 8,
    "steps_per_second": 1333.3,
    "eval/return": 480.0,
    "eval/best_return": 500.0,
    "reason": "finished",
}


def start(**changes: Any) -> Event:
    return Event("start", changes.pop("step", 0), {**START, **changes}, time=1000.0)


def progress(step: int, time: float, **changes: Any) -> Event:
    return Event("progress", step, {**PROGRESS, **changes}, time=time)


def evaluation(step: int, time: float = 1050.0, **changes: Any) -> Event:
    return Event("evaluation", step, {**EVALUATION, **changes}, time=time)


def note(text: str, step: int = 0) -> Event:
    return Event("note", step, {"text": text}, time=1001.0)


def end(**changes: Any) -> Event:
    return Event("end", 100_000, {**END, **changes}, time=1075.0)


def whole_run() -> list[Event]:
    """A run with everything in it."""
    told = [start(), note("8 envs, one after another: measured fastest")]
    for i in range(1, 51):
        told.append(progress(2000 * i, 1000.0 + i, **{"episode/return": 10.0 * i}))
    saved = Event("checkpoint", 90_000, {"path": "c", "seconds": 0.1, "bytes": 2_340_000}, time=1049.0)
    return [*told, evaluation(50_000), saved, note("second note"), note("third note")]
