"""What a run offers at its end is what it has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rookery
from rookery.monitor.run_summary import commands
from training import moody
from training.runs import small


class Failing(rookery.Callback):
    fails = True

    def on_rollout(self, run: rookery.RunControl, *args: Any) -> None:
        if self.fails:
            raise RuntimeError("in the first rollout")


def offered(path: Path) -> list[str]:
    return [what for what, _ in commands(json.loads((path / "summary.json").read_text()))]


def test_a_run_without_a_checkpoint_has_no_agent_to_show(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="first rollout"):
        rookery.train(small("ppo", tmp_path), callbacks=[Failing()])
    (failed,) = tmp_path.iterdir()
    assert offered(failed) == ["begin it again"]
    healed = Failing()
    healed.fails = False
    rookery.resume(failed, callbacks=[healed])
    assert "evaluate it" in offered(failed)


@pytest.mark.parametrize(("world", "seen"), [(f"{moody.__file__}:Steady", False), ("CartPole-v1", True)])
def test_only_what_draws_can_be_watched(world: str, seen: bool, tmp_path: Path) -> None:
    result = rookery.train(small("ppo", tmp_path, world=world, backend="serial", compiled=False, steps=64))
    assert ("watch it" in offered(result.path)) == seen
