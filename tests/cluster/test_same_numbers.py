"""A run over several collectors is the run of one machine, bit for bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rookery
from cluster.in_process import InProcess, use
from rookery.cluster.rollout_collector import INEXACT
from rookery.training.run.callbacks import Result
from training import moody
from training.runs import differences, last_state, notes, small

PPO = {"normalise_rewards": True, "learning_rate_schedule": "linear"}
MASKED = Path(__file__).parent / "masked_worlds.py"
WORLDS = {
    "kernel": {"world": "rookery/CartPole-v1"},
    "serial": {"world": "CartPole-v1", "backend": "serial", "compiled": False},
    "continuous": {
        "world": "rookery/Pendulum-v1", "episode_length": 40, "ppo": {**PPO, "normalise_observations": True},
    },
    "masked": {"world": f"{MASKED}:Masked", "backend": "serial"},
    "masked choices": {"world": f"{MASKED}:MaskedChoices", "backend": "serial"},
    "some infos": {"world": f"{moody.__file__}:Steady", "backend": "serial"},
}  # fmt: skip


def run(folder: Path, name: str, collectors: int | None = None, **options: Any) -> Result:
    """20 updates of PPO on 7 envs, which no number of collectors but 1 and 7 divides."""
    base = {"num_envs": 7, "steps": 7 * 16 * 20, "device": "cpu", "ppo": PPO, "world_options": {}, "name": name}
    if collectors is not None:
        base |= {"cluster": {"kind": "ray", "nodes": collectors}}
    callbacks = options.pop("callbacks", [])
    return rookery.train(small("ppo", folder, **{**base, **options}), callbacks=callbacks)


def episodes(result: Result) -> list[Any]:
    """The recorded episodes, without the time that they took."""
    lines = [json.loads(line) for line in (result.path / "episodes.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if "second" not in key and key != "time"} for line in lines]


COLLECTORS = ((1, True), (1, False), (2, True), (3, True), (3, False))
EACH_ONE = {world: [COLLECTORS[(k + 3) % 5]] for k, world in enumerate(WORLDS)}
ALL = {world: COLLECTORS for world in WORLDS}


@pytest.mark.slow
@pytest.mark.parametrize("chosen", [EACH_ONE, pytest.param(ALL, marks=pytest.mark.slow)], ids=["one", "all"])
@pytest.mark.parametrize("world", WORLDS)
def test_weights_do_not_depend_on_the_number_of_collectors(
    world: str, chosen: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does anything else that decides how the run goes on, nor the record of its episodes."""
    alone = run(tmp_path, "alone", **WORLDS[world])
    assert alone.episodes > 20
    for collectors, has_own in chosen[world]:
        use(InProcess(has_own=has_own), monkeypatch)
        shared = run(tmp_path, f"shared{collectors}{has_own}", collectors, **WORLDS[world])
        assert not differences(last_state(alone.path), last_state(shared.path))
        assert (shared.total_steps, shared.episodes) == (alone.total_steps, alone.episodes)
        assert shared.mean_reward == alone.mean_reward
        assert episodes(shared) == episodes(alone)
        assert world != "some infos" or not moody.wrong_rows(episodes(shared))
        assert INEXACT not in notes(shared.path)


@pytest.mark.parametrize(("options", "said"), [({"recurrent": 8}, True), ({}, False)])
def test_a_run_whose_numbers_depend_on_it_says_so(
    options: dict[str, Any], said: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recurrent nets act by torch, perceptrons row by row."""
    use(InProcess(), monkeypatch)
    result = run(tmp_path, "noted", 2, **{**WORLDS["masked"], "steps": 7 * 16, "ppo": options})
    assert (INEXACT in notes(result.path)) == said
