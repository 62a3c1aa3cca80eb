"""Where two runs part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rookery
from rookery.errors import OptionError
from rookery.training.rewind.trees import differences
from training.rewind.planted import ACTION, BIT, planted_file
from training.runs import small

OFTEN = {"steps": 512, "backend": "serial", "checkpoints": {"every": 128}}


def run(folder: Path, name: str, **options: Any) -> rookery.Result:
    return rookery.train(small("ppo", folder, name=name, **{**OFTEN, **options}))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> rookery.Result:
    return run(tmp_path_factory.mktemp("diff"), "base")


def test_equal_runs_are_equal(base: rookery.Result) -> None:
    """Also on another backend: that changes no number."""
    found = rookery.diff(base, run(base.path.parent, "same"))
    assert found.equal and found.agree_at == 512 and not found.differences


def test_another_seed_differs_from_the_beginning(base: rookery.Result) -> None:
    found = rookery.diff(base, run(base.path.parent, "seed", seed=6))
    assert found.step == 0 and found.layer is not None
    assert found.config["seed"] == (5, 6)


def test_another_setting_differs_from_the_first_update(base: rookery.Result) -> None:
    found = rookery.diff(base, run(base.path.parent, "setting", ppo={"gamma": 0.9}))
    assert (found.agree_at, found.step, found.update) == (60, 64, 1)
    assert found.config["ppo.gamma"][1] == 0.9 and found.layer is not None


@pytest.mark.slow
def test_a_fork_parts_at_its_first_update(base: rookery.Result) -> None:
    """It begins within a rollout, which is still its parent's."""
    made = rookery.fork(base, at=200, overrides=["ppo.gamma=0.9"], runs_dir=base.path.parent, name="fork")
    found = rookery.diff(base, made)
    assert (found.agree_at, found.step, found.update) == (252, 256, 4)
    assert found.config["ppo.gamma"][1] == 0.9


@pytest.mark.slow
def test_the_last_bit_of_one_weight_is_found(base: rookery.Result) -> None:
    layer = "critic.layers.0.bias"
    callback = planted_file(base.path.parent / "code", "bit", BIT, update=5, layer=layer, place=3)
    found = rookery.diff(base, run(base.path.parent, "bit", callbacks=[callback]))
    assert (found.source, found.step, found.update, found.layer) == ("replay", 320, 5, layer)
    (difference,) = [each for each in found.differences if each.name.startswith("agent")]
    assert difference.count == 1 and difference.index == (3,)


def test_one_action_of_one_env_is_found(base: rookery.Result) -> None:
    callback = planted_file(base.path.parent / "code", "action", ACTION, step=200, env=2)
    found = rookery.diff(base, run(base.path.parent, "action", callbacks=[callback]))
    assert (found.agree_at, found.step, found.env, found.layer) == (200, 204, 2, None)
    found.print()


def test_without_a_replay_the_record_is_named(base: rookery.Result) -> None:
    other = run(base.path.parent, "record", ppo={"gamma": 0.9})
    found = rookery.diff(base, other, replay=False)
    assert found.source != "replay" and found.step is not None and found.step >= 64
    assert found.as_json()["config"]["ppo.gamma"][1] == 0.9


def test_a_run_is_not_compared_with_itself(base: rookery.Result) -> None:
    with pytest.raises(OptionError, match="two different runs"):
        rookery.diff(base, base)


def test_differences_are_measured() -> None:
    one = {"agent": {"policy": {"w": np.zeros((2, 3), np.float32)}}, "envs": {"x": np.arange(4)}}
    other = {"agent": {"policy": {"w": np.zeros((2, 3), np.float32)}}, "envs": {"x": np.array([0, 1, 7, 3])}}
    other["agent"]["policy"]["w"][1, 2] = 0.5
    weight, env = differences(one, other)
    assert (weight.name, weight.index, weight.largest, weight.count) == ("agent.policy.w", (1, 2), 0.5, 1)
    assert env.env == 2
