"""`init_from`: a new run that begins with the weights of another one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

import rookery
from rookery.cli.main import main
from rookery.errors import CheckpointError, OptionError, RookeryError, RunError
from rookery.learners import make_learner
from rookery.learners.registry import specs
from training.runs import QUIET, differences, last_state, small, train

pytestmark = pytest.mark.usefixtures("plain_python")

STILL = 1e-30  # a learning rate that changes no weight


def begin(learner: str, folder: Path, init_from: Any, **options: Any) -> Path:
    """A run that begins with other weights and keeps them."""
    config = small(learner, folder, steps=128, seed=9, **options)
    config[learner] = {"learning_rate": STILL, **options.get(learner, {})}
    return rookery.train(config, init_from=init_from).path


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = {"normalise_observations": True, "normalise_rewards": True}
    return train("ppo", tmp_path_factory.mktemp("source"), steps=512, ppo=options, name="source").path


def weights(run: Path) -> dict[str, Any]:
    policy = last_state(run)["policy"]
    return {name: value for name, value in policy.items() if "norm" not in name}


@pytest.mark.slow
def test_by_folder_checkpoint_file_and_name(source: Path, tmp_path: Path) -> None:
    """With the networks of the other run, unless they are given; the run records where it began."""
    checkpoint = sorted((source / "checkpoints").iterdir())[-1]
    for number, place in enumerate((source, str(checkpoint), checkpoint / "agent.safetensors")):
        run = begin("ppo", tmp_path / str(number), place, num_envs=2)
        assert not differences(weights(source), weights(run))
        config = json.loads((run / "config.json").read_text())
        assert config["ppo"]["hidden"] == [16] and config["ppo"]["normalise_observations"]
        assert Path(config["init_from"]) == (source if number == 0 else checkpoint).resolve()
    copied = tmp_path / "runs" / "source"
    shutil.copytree(source, copied)
    words = ["--from", "source", "--runs-dir", str(tmp_path / "runs"), "--steps", "128", "--learning-rate", "1e-30"]
    assert main(["train", "CartPole-v1", "--num-envs", "4", "--name", "next", "--no-panel", *words]) == 0
    assert not differences(weights(source), weights(tmp_path / "runs" / "next"))
    assert "weights and normalisers of source at step 512" in (tmp_path / "runs" / "next" / "metrics.jsonl").read_text()


def test_normalisers_go_on(source: Path, tmp_path: Path) -> None:
    """Those of observations and of rewards, of which the envs' own sums are new."""
    before, after = last_state(source), last_state(begin("ppo", tmp_path, source))
    norms = [name for name in before["policy"] if name.endswith("count")]
    assert norms and all(after["policy"][name] > before["policy"][name] > 0 for name in norms)
    assert after["learner"]["scale"]["statistics.count"] > before["learner"]["scale"]["statistics.count"] > 0
    plain = last_state(begin("ppo", tmp_path, source, ppo={"normalise_rewards": False}))
    assert plain["learner"]["scale"] == {}


@pytest.mark.few(1)
@pytest.mark.parametrize("learner", ["sac", "dqn"])
def test_critics_too(learner: str, tmp_path: Path) -> None:
    """Replay, optimizers and counters are new."""
    first = train(learner, tmp_path / "first", steps=256).path
    second = begin(learner, tmp_path / "second", first, num_envs=2)
    one, other = last_state(first), last_state(second)
    assert not differences(one["policy"], other["policy"])
    if learner == "sac":
        assert not differences(one["learner"]["vectors"]["critics"], other["learner"]["vectors"]["critics"])
    assert other["learner"]["steps"] == 128


@pytest.mark.parametrize("name", ["sac", "td3", "xqc"])
def test_an_agent_without_critics_begins_with_its_actor(name: str) -> None:
    """Its critics are new, over the agent's own encoder, and so are the target networks."""
    images, arm = spaces.Box(0, 255, (1, 36, 36), np.uint8), spaces.Box(-1, 1, (2,))

    def learner(seed: int) -> Any:
        options = specs()[name].options(hidden=[8], images="cnn", buffer_size=100)
        return make_learner(name, images, arm, options, 1, seed=seed)

    policy, begun = learner(1).state(replay=False)["policy"], learner(2)
    begun.load_weights({"policy": policy})
    assert not differences(policy, begun.state(replay=False)["policy"])
    assert begun.target_weights.equal(begun.critic_adam.flat.data)
    if name == "td3":
        assert begun.target_actor_weights.equal(begun.actor_adam.flat.data)


def test_a_run_that_was_killed_at_once_begins_with_them_again(source: Path, tmp_path: Path) -> None:
    run = begin("ppo", tmp_path, source)
    shutil.rmtree(run / "checkpoints")
    rookery.resume(run)
    assert not differences(weights(source), weights(run))


def test_what_does_not_fit_is_named(source: Path, tmp_path: Path) -> None:
    """In one sentence, and no folder is left."""
    runs = tmp_path / "runs"
    cases: list[tuple[type[RookeryError], str, dict[str, Any]]] = [
        (OptionError, "trained with ppo, and this run has `learner` = 'dqn'", {"learner": "dqn"}),
        (OptionError, r"`ppo.hidden` = \[8\], and source at step 512 has \[16\]", {"ppo": {"hidden": [8]}}),
        (OptionError, "the observation space of source at step 512 is", {"world": "Acrobot-v1"}),
        (OptionError, "weights of other trainers are not read", {"init_from": "theirs.pt"}),
        (RunError, "no checkpoint is there, and there is no run 'nowhere'", {"init_from": "nowhere"}),
    ]
    for error, words, options in cases:
        config = {
            "world": "CartPole-v1",
            "init_from": source,
            "runs_dir": runs,
            "monitor": QUIET,
            "steps": 64,
            **options,
        }
        with pytest.raises(error, match=words) as caught:
            rookery.train(config)
        assert "\n" not in str(caught.value)
    assert not runs.exists()


def test_a_damaged_checkpoint_and_foreign_code_are_refused(source: Path, tmp_path: Path) -> None:
    """As when a run is resumed: hashes are checked, and the code of somebody's network is not imported."""
    copied = tmp_path / "copied"
    shutil.copytree(sorted((source / "checkpoints").iterdir())[-1], copied)
    (copied / "agent.safetensors").write_bytes(b"\0" * np.dtype("f4").itemsize)
    with pytest.raises(CheckpointError, match=r"agent\.safetensors"):
        rookery.train("CartPole-v1", init_from=copied, runs_dir=tmp_path / "runs")


def test_by_the_older_name_and_in_curriculum_files(source: Path) -> None:
    assert rookery.config.build_config("a", checkpoint_path=source).init_from == str(source)
    phases = [{"name": "a", "episodes": 5, "environment": {"mode": "NORMAL"}, "opponent": {"type": "none"}}]
    file = {"curriculum": {"phases": phases}, "agent": {"type": "SAC", "checkpoint_path": "runs/first"}}
    assert rookery.config.build_config(file).init_from == "runs/first"
    file["agent"]["checkpoint_path"] = None
    assert rookery.config.build_config(file).init_from is None
