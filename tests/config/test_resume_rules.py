"""What may be changed when a run is resumed, and what is said of the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rookery.config import collect_changes, resumed_config
from rookery.config.inputs import CHANGEABLE, CHANGEABLE_SECTIONS
from rookery.errors import ConfigError

RECORDED: dict[str, Any] = {
    "world": "CartPole-v1", "learner": "ppo", "num_envs": 4, "workers": 2, "backend": "process", "groups": 2,
    "steps": 1000, "seed": 3, "world_options": {"a": 1, "b": 2}, "ppo": {"hidden": [16], "learning_rate": 0.001},
    "opponents": [{"who": "self", "weight": 1.0, "deterministic": False}], "runs_dir": "runs",
}  # fmt: skip


def resumed(*overrides: str, **keywords: Any):
    return resumed_config(RECORDED, collect_changes(overrides, **keywords))


def test_nothing_changes_by_itself():
    """Without changes the configuration is the recorded one, and there is nothing to tell."""
    config, told = resumed()
    assert (config.steps, config.num_envs, config.ppo.hidden, told) == (1000, 4, [16], "")


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("steps=2e3", "steps = 2000 (1000 before)"),
        ("episodes=7", "episodes = 7 (none before)"),
        ("workers=1", "workers = 1 (2 before)"),
        ("evaluation.every=50", "evaluation.every = 50 (none before)"),
        ("evaluation.opponents=weak,strong", 'evaluation.opponents = ["weak", "strong"] ([] before)'),
        ("checkpoints.keep=9", "checkpoints.keep = 9 (3 before)"),
        ("monitor.panel=false", 'monitor.panel = false ("auto" before)'),
        ("bad_values=allow", 'bad_values = "allow" ("finite" before)'),
        ("ppo.clip=0.1", "ppo.clip = 0.1 (0.2 before)"),
        ("learning_rate=0.01", "ppo.learning_rate = 0.01 (0.001 before)"),
        ("eval_every=50", "evaluation.every = 50 (none before)"),
        ("total_timesteps=2000", "steps = 2000 (1000 before)"),
    ],
)
def test_what_the_checkpoint_does_not_depend_on_can_change(override, told):
    """By its name or an older one; the change is told with what there was before."""
    config, text = resumed(override)
    assert text == f"resumed with {told}"
    assert config != resumed()[0]


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("num_envs=1", "num_envs"),  # also where it does not go with other keys of the run
        ("n_envs=8", "num_envs"),
        ("seed=4", "seed"),
        ("world=Acrobot-v1", "world"),
        ("world_options.a=3", "world_options"),
        ("world_options.c=3", "world_options"),
        ("learner=dqn", "learner"),
        ("backend=serial", "backend"),
        ("device=cuda", "device"),
        ("opponents=weak", "opponents"),
        ("name=other", "name"),
        ("runs_dir=elsewhere", "runs_dir"),
        ("step_timeout=3", "step_timeout"),
        ("checkpoints.dir=elsewhere", "checkpoints.dir"),
    ],
)
def test_the_rest_is_refused(override, key):
    """With the key, what can change, and how to begin a new run that has it."""
    with pytest.raises(ConfigError) as error:
        resumed(override)
    start, _, way = str(error.value).partition("learning_rate. ")
    assert start == (
        f"`{key}` cannot change when a run is resumed; these can: steps, episodes, workers, on_failure, max_restarts, "
        "bad_values, on_out_of_memory, devices, cluster.*, evaluation.*, checkpoints.*, monitor.* (but not "
        "checkpoints.dir), and options of the learner such as ppo."
    )
    ways = {
        "world": "`rookery train OTHER_WORLD --from RUN` begins a new run with its agent",
        "world_options": "`rookery train CartPole-v1 --from RUN --set world_options.NAME=...` begins a new run with "
        "its agent",
        "learner": "The weights fit no other: `rookery train CartPole-v1 --set learner=...` begins a new run without "
        "them",
    }
    usual = f"`rookery train CartPole-v1 --from RUN --set {key}=...` begins a new run with its agent"
    assert way == ways.get(key, usual)


def test_of_a_learner_what_is_built_at_the_start_is_refused():
    """The message lists what a learner can change as it runs."""
    with pytest.raises(ConfigError, match=r"^`ppo.hidden` cannot change .*; of ppo these can: batch_size, clip, "):
        resumed("ppo.hidden=[64, 64]")


@pytest.mark.parametrize(
    "same", ["num_envs=4", "world_options.a=1", "opponents=self", "runs_dir=runs", "ppo.hidden=[16]"]
)
def test_what_stays_as_it_is_may_be_said(same):
    """A command that was used before with the same values works again."""
    assert resumed(same) == resumed()


def test_all_keys_that_are_changed_together_are_told():
    """Later ones win, and keywords over texts, as for a new run."""
    config, told = resumed("steps=5", "monitor.video=true", "steps=6", steps=7)
    assert config.steps == 7
    assert told == "resumed with steps = 7 (1000 before), monitor.video = true (false before)"


def test_values_are_checked_as_for_a_new_run():
    """With the words of the command line."""
    expected = r"--set checkpoints.keep=0: `checkpoints.keep` should be an integer >= 1, got 0"
    with pytest.raises(ConfigError, match=expected):
        resumed("checkpoints.keep=0")


@pytest.mark.parametrize("override", ["cluster.nodes=2", "cluster.address=auto", "cluster.timeout=9"])
def test_keys_of_a_cluster_need_one(override):
    """In a run on one machine they would have no effect; with a cluster, or on the way back from one, they may be."""
    with pytest.raises(ConfigError, match=r"`cluster.\w+` is for runs on a cluster: give `cluster.kind` = \"ray\" too"):
        resumed(override)
    assert resumed(override, "cluster.kind=ray")[0].cluster.kind == "ray"
    on_ray = {**RECORDED, "cluster": {"kind": "ray", "nodes": 4, "address": "10.0.0.5:6379", "timeout": 3.0}}
    assert resumed_config(on_ray, collect_changes([override, "cluster.kind=local"]))[0].cluster.kind == "local"
    assert resumed_config(on_ray, collect_changes([override]))[0].cluster.kind == "ray"


def test_help_and_docs_name_every_key_that_can_change():
    """And the error does."""
    from rookery.cli.main import build_parser

    resume = next(iter(build_parser()._subparsers._group_actions)).choices["resume"]
    help_text = next(action.help for action in resume._actions if action.dest == "set")
    page = (Path(__file__).parents[2] / "docs/runs.md").read_text()
    listed = page[page.index("`--set` (in Python: keywords of `rookery.resume`)") :].partition("The checkpoint")[0]
    for key in (*CHANGEABLE, *(f"{section}.*" for section in CHANGEABLE_SECTIONS)):
        assert key in help_text and f"`{key}`" in listed, key
