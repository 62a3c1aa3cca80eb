"""Makes run folders as PPO writes them, quickly: what `dashboard.py` measures with."""

from __future__ import annotations

import json
import random
from pathlib import Path

from rookery.monitor.column_file import BLOCK, COLUMNS, ColumnWriter

START = 1_790_000_000.0
TEXTS = 4  # different metrics; runs share them, apart from their first and last lines
EVALUATE_EVERY = 100  # lines
STEPS = 1024  # of a rollout
NUMBERS = (
    "episode/return", "episode/length", "time/env", "time/policy", "time/learner", "time/gpu", "time/waiting",
    "time/evaluation", "time/other", "loss/kl", "loss/policy", "loss/value", "loss/entropy", "loss/gradient",
    "steps_per_second", "episodes_per_second", "seconds", "eta_seconds", "share", "learning_rate",
)  # fmt: skip
PROGRESS = '{"kind": "progress", "step": %d, "time": %.7f, "episodes": %d, "episodes_in_rollout": %d, ' + ", ".join(
    f'"{name}": %.16g' for name in NUMBERS
)
PROGRESS += ', "updates": %d, "num_envs": 16}\n'
EVALUATION = (
    '{"kind": "evaluation", "step": %d, "time": %.7f, "eval/return": %.6f, "eval/return_std": 12.25, '
    '"eval/return_low": 180.5, "eval/return_high": 220.25, "eval/length": 200.0, "eval/episodes": 40, '
    '"eval/seconds": 0.5, "eval/best": %s}\n'
)


def make_runs(folder: Path, runs: int, lines: int) -> int:
    """Runs of so many lines each; returns the bytes of their metrics."""
    texts = [metrics(lines - 2, random.Random(seed)) for seed in range(min(TEXTS, runs))]
    return sum(
        make_run(folder / f"CartPole-v1-ppo-s{number}", number, *texts[number % TEXTS]) for number in range(runs)
    )


def make_run(path: Path, seed: int, middle: bytes, evaluations: bytes, ended: bool = True, columns: bool = True) -> int:
    """One run; returns the bytes of its metrics. Runs of before there were columns had none."""
    path.mkdir(parents=True)
    facts = {"world": "CartPole-v1", "learner": "ppo", "num_envs": 16, "backend": "kernel", "workers": 2}
    config = {**facts, "steps": 10_000_000, "seed": seed, "device": "cpu", "groups": 1, "ppo": {"gamma": 0.98}}
    (path / "config.json").write_text(json.dumps(config))
    (path / "run.json").write_text(json.dumps({"created": START + seed, "id": f"{seed:032x}"}))
    first = {"kind": "start", "step": 0, "time": START, "run": path.name, **facts, "steps": 10_000_000, "seed": seed}
    last = {"kind": "end", "step": 10**9, "time": START + 10**6, "seconds": 100.0, "reason": "finished"}
    (path / "evaluations.jsonl").write_bytes(evaluations)
    text = b"".join((_line(first), middle, _line(last) if ended else b""))
    (path / "metrics.jsonl").write_bytes(text)
    if columns:
        _write_columns(path, text)
    return len(text)


def _write_columns(path: Path, text: bytes) -> None:
    with (path / "metrics.jsonl").open("rb") as file:
        writer = ColumnWriter(path / COLUMNS, file.fileno())
        while writer.last < len(text):
            end = text.find(b"\n", writer.last + BLOCK) + 1 or len(text)
            writer.add(text[writer.last : end], end)
        writer.close()


def metrics(lines: int, random_numbers: random.Random) -> tuple[bytes, bytes]:
    """The lines of progress and evaluations, and those of evaluations alone."""
    found, evaluations = [], []
    for number in range(1, lines + 1):
        step, time = number * STEPS, START + 0.15 * number
        if number % EVALUATE_EVERY == 0:
            best = "true" if number == EVALUATE_EVERY else "false"
            line = EVALUATION % (step, time, 200 + random_numbers.gauss(0, 10), best)
            evaluations.append(line)
        else:
            noise = [random_numbers.random() for _ in NUMBERS]
            noise[0] = 500 * number / lines + 50 * noise[0]
            line = PROGRESS % (step, time, 10 * number, 10, *noise, number)
        found.append(line)
    return "".join(found).encode(), "".join(evaluations).encode()


def _line(event: dict[str, object]) -> bytes:
    return json.dumps(event).encode() + b"\n"
