"""Rows of the Game Boy's table that are about learning."""

from __future__ import annotations

import json
import tempfile
import time
from typing import Any

import gymnasium as gym

import rookery
from engine_rows import Row
from learning import quiet

WORLD = "rookery/GameBoy-v0"
TENTHS = 10  # episodes


def short_rows(rounds: int) -> list[Row]:
    """What `make train-20k` does, and what a random policy does in ten episodes of the same length."""
    started = time.perf_counter()
    figures = _trained(steps=20_000, num_envs=2, episode_length=750, ppo={"epochs": 6})
    seconds = time.perf_counter() - started
    fetched = TENTHS * figures["has_key_last_10"]
    label = "meadow, 20,000 steps, 2 envs, 750 steps an episode, 6 epochs"
    return [
        Row(f"{label}: time", f"{figures['steps_per_second']:,.0f} steps/s", "", seconds, 60, " s", most=True),
        Row(f"{label}: key fetched in the last 10 episodes", "", "", fetched, 7, " of 10"),
        Row("a random policy: key fetched", "", "", _random_keys(), 2, " of 10", most=True),
    ]


def memory_rows(rounds: int) -> list[Row]:
    """PPO from memory, by its recipe."""
    return [_door_row("memory", 300_000, 90)]


def pixel_rows(rounds: int) -> list[Row]:
    """PPO from the screen, by its recipe."""
    return [_door_row("pixels", 500_000, 60)]


def _door_row(kind: str, steps: int, least: float) -> Row:
    options = {} if kind == "memory" else {"observation": kind}
    figures = _trained(steps=steps, world_options=options, evaluation={"episodes": 100, "every": 10**9})
    reached = 100 * figures["success_rate"]
    label = f"PPO on meadow from {kind}, {steps // 1000} k steps: door opened, of 100 episodes"
    return Row(
        label, f"{figures['steps_per_second']:,.0f} steps/s", f"{figures['seconds']:.0f} s", reached, least, " %"
    )


def _trained(**keys: Any) -> dict[str, Any]:
    """A run's summary, with what its last evaluation says."""
    with tempfile.TemporaryDirectory() as folder, quiet():
        result = rookery.train("gameboy", runs_dir=folder, monitor={"panel": False, "plot": False}, **keys)
        summary = json.loads((result.path / "summary.json").read_text())
        last = json.loads((result.path / "evaluations.jsonl").read_text().splitlines()[-1])
    return {**summary, "success_rate": last["eval/success_rate"]}


def _random_keys() -> float:
    """In how many of ten episodes random buttons fetch the key, on average over a hundred."""
    env, fetched, episodes = gym.make(WORLD, episode_length=750), 0, 100
    env.action_space.seed(0)
    for episode in range(episodes):
        env.reset(seed=episode)
        over = False
        while not over:
            _, _, terminated, truncated, info = env.step(env.action_space.sample())
            over = terminated or truncated
        fetched += int(info["has_key"])
    env.close()
    return TENTHS * fetched / episodes


LEARNING = {"train-20k": short_rows, "learn-memory": memory_rows, "learn-pixels": pixel_rows}
