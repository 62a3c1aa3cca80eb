"""Options that were given and have no effect: a run notes them in one line."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.in_process import InProcess, use
from cluster.test_async_steps import run as run_off_policy
from cluster.test_same_numbers import run as run_collectors
from rookery.config import build_config
from rookery.training.resolve.resolved_run import resolve_run
from rookery.training.run.announcement import _start_method, unread_options
from training.runs import notes, train


def unread(*overrides: str, **keywords: Any) -> list[str]:
    run = resolve_run(build_config("CartPole-v1", overrides, **keywords))
    return unread_options(run, run.config.backend)


def test_options_of_another_learner() -> None:
    assert unread("learner=ppo", "sac.tau=0.1") == ["the learner is ppo: `sac.tau` has no effect"]


def test_a_name_of_another_library_that_the_chosen_learner_lacks() -> None:
    """It is known to off-policy learners only, and PPO is chosen later."""
    (note,) = unread("learning_starts=10")
    assert note.startswith("the learner is ppo: ") and "`dqn.start_steps`" in note and note.endswith("have no effect")


@pytest.mark.parametrize("given", ["learning_rate=1e-4", "gamma=0.9", "sac.tau=0.005", "dqn.gamma=0.99"])
def test_what_all_learners_get_and_what_is_usual_is_not_noted(given: str) -> None:
    assert unread(given) == []


def test_many_are_counted() -> None:
    many = ("sac.tau=0.1", "sac.gamma=0.5", "dqn.gamma=0.5", "td3.tau=0.1", "td3.gamma=0.5", "dqn.batch_size=7")
    assert " and 2 more have no effect" in unread("learner=ppo", *many)[0]


def test_a_start_method_without_worker_processes() -> None:
    (note,) = unread(start_method="fork")
    assert note == "`start_method` = 'fork' has no effect: the backend kernel steps the envs without worker processes"
    assert unread(start_method="fork", backend="process", num_envs=2) == []


def test_a_start_method_of_a_run_that_may_change_to_processes() -> None:
    """Its backend was chosen by measuring, and is looked at again while it runs."""
    chosen = SimpleNamespace(config=SimpleNamespace(start_method="fork"), choice=object())
    assert _start_method(chosen, "serial") == ""


def test_a_run_has_the_notes(tmp_path: Path) -> None:
    """A new one: a resumed run does not repeat them."""
    result = train("ppo", tmp_path, steps=64, sac={"tau": 0.1})
    assert [text for text in notes(result.path) if "no effect" in text] == [
        "the learner is ppo: `sac.tau` has no effect"
    ]


def test_more_collectors_than_envs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(InProcess(), monkeypatch)
    result = run_collectors(tmp_path, "few", 5, num_envs=3, steps=3 * 32, world="rookery/CartPole-v1")
    assert "`cluster.nodes` = 5, but 3 envs make 3 collectors" in notes(result.path)


def test_off_policy_collectors_never_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They do so without `cluster.asynchronous` too."""
    use(InProcess(), monkeypatch)
    result = run_off_policy(tmp_path, "dqn", cluster={"asynchronous": True})
    assert "`cluster.asynchronous` has no effect: collectors of dqn never wait for the learner" in notes(result.path)
