"""Callbacks: when they are called, what they can do, and how they are recorded and resumed."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import rookery
from rookery.errors import ConfigError, OptionError, RunError
from rookery.training.run.callbacks import Callback, Callbacks, RunControl

OPTIONS: dict[str, Any] = {
    "num_envs": 4, "steps": 1024, "ppo": {"rollout_length": 64, "hidden": [8], "epochs": 1},
    "evaluation": {"every": 512, "episodes": 2}, "checkpoints": {"every": 512},
    "monitor": {"panel": False, "plot": False, "tensorboard": False},
}  # fmt: skip


class Recorder(Callback):
    """Notes what it is called with, and counts updates over all sittings."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []
        self.updates, self.returns = 0, []

    def on_start(self, run: RunControl) -> None:
        self.calls.append(("start", run.step))

    def on_rollout(self, run: RunControl) -> None:
        self.calls.append(("rollout", run.step))

    def on_update(self, run: RunControl, metrics: Any) -> None:
        assert "policy" in metrics
        self.updates += 1
        self.calls.append(("update", run.step))
        run.log(**{"mine/updates": self.updates})

    def on_episode(self, run: RunControl, episode: Any) -> None:
        self.returns.append(episode["return"])

    def on_evaluation(self, run: RunControl, metrics: Any) -> None:
        self.calls.append(("evaluation", run.step))

    def on_checkpoint(self, run: RunControl, path: Path) -> None:
        assert (path / "manifest.json").is_file()
        self.calls.append(("checkpoint", run.step))

    def on_end(self, run: RunControl, result: Any) -> None:
        self.calls.append(("end", result.total_steps))

    def state_dict(self) -> dict[str, Any]:
        return {"updates": self.updates, "returns": np.array(self.returns)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.updates, self.returns = state["updates"], list(state["returns"])


class Stopper(Callback):
    """Ends a run at its second update, after halving its learning rate at the first."""

    def on_update(self, run: RunControl, metrics: Any) -> None:
        if run.learner.updates == 1:
            run.set_options(learning_rate=run.learner.options.learning_rate / 2)
        else:
            run.stop("seen enough")


class Picky(Callback):
    """Cannot be made without arguments."""

    def __init__(self, needed: int) -> None:
        self.needed = needed


def test_the_order_of_calls(tmp_path: Path) -> None:
    """Start, then rollouts and updates with evaluations and checkpoints between them, then the end."""
    recorder = Recorder()
    result = rookery.train("CartPole-v1", runs_dir=tmp_path, callbacks=[recorder], **OPTIONS)
    loop = [("rollout", 256), ("update", 256), ("rollout", 512), ("update", 512)]
    later = [("evaluation", 512), ("checkpoint", 512), ("rollout", 768), ("update", 768), ("rollout", 1024)]
    last = [("update", 1024), ("evaluation", 1024), ("checkpoint", 1024), ("end", 1024)]
    assert recorder.calls == [("start", 0), *loop, *later, *last]
    assert len(recorder.returns) == result.episodes
    lines = map(json.loads, (result.path / "metrics.jsonl").read_text().splitlines())
    assert [line["mine/updates"] for line in lines if "mine/updates" in line][-1] == 4


def test_a_callback_changes_options_and_stops_the_run(tmp_path: Path) -> None:
    result = rookery.train("CartPole-v1", runs_dir=tmp_path, callbacks=[Stopper()], learning_rate=1e-3, **OPTIONS)
    assert (result.reason, result.total_steps) == ("seen enough", 512)
    assert json.loads((result.path / "summary.json").read_text())["reason"] == "seen enough"


def test_resumed_with_its_state(tmp_path: Path) -> None:
    """Recorded by its file and class, made again, and given its state; an object can be given instead."""
    result = rookery.train("CartPole-v1", runs_dir=tmp_path, callbacks=[Recorder()], **OPTIONS)
    assert json.loads((result.path / "config.json").read_text())["callbacks"] == [
        f"{Path(__file__).resolve()}:Recorder"
    ]
    again = Recorder()
    resumed = rookery.resume(result.path, steps=2048, callbacks=[again])
    assert (again.calls[0], again.updates, len(again.returns)) == (("start", 1024), 8, resumed.episodes)
    rookery.resume(result.path, steps=3072, trust=True)
    lines = map(json.loads, (result.path / "metrics.jsonl").read_text().splitlines())
    assert [line["mine/updates"] for line in lines if "mine/updates" in line][-1] == 12


def test_by_name_from_a_configuration(tmp_path: Path) -> None:
    name = f"{__file__}:Stopper"
    result = rookery.train({"world": "CartPole-v1", "callbacks": name, "runs_dir": str(tmp_path), **OPTIONS})
    assert result.reason == "seen enough"


def test_code_of_others_is_not_run_without_a_question(tmp_path: Path) -> None:
    """A run that names a callback in a file that this user has not trained with here."""
    code = tmp_path / "theirs.py"
    code.write_text("import rookery\nclass Theirs(rookery.Callback):\n    pass\n")
    result = rookery.train("CartPole-v1", runs_dir=tmp_path, callbacks=[f"{code}:Theirs"], **OPTIONS)
    code.write_text(code.read_text() + "print('other code')\n")
    import sys

    from rookery.gate import module_name

    del sys.modules[module_name(str(code))]
    with pytest.raises(RunError, match=r"it would run code: .*theirs.py:Theirs .*: the file is not the one"):
        rookery.resume(result.path, steps=2048)


@pytest.mark.parametrize(
    ("callbacks", "words"),
    [
        ([Recorder], "derived from rookery.Callback.*make an object of it"),
        (3, "derived from rookery.Callback, got 3"),
        (["nowhere.py:A"], "there is no file 'nowhere.py'"),
        ([f"{__file__}:OPTIONS"], "no class or function 'OPTIONS' of its own"),
        ([f"{__file__}:test_the_order_of_calls"], "should be a class that is derived from rookery.Callback"),
        ([f"{__file__}:Picky"], "Picky cannot be made without arguments.*give the object instead"),
    ],
)
def test_what_is_no_callback(tmp_path: Path, callbacks: Any, words: str) -> None:
    """Refused before anything starts."""
    with pytest.raises((OptionError, ConfigError), match=words):
        rookery.train("CartPole-v1", runs_dir=tmp_path, callbacks=callbacks, **OPTIONS)
    assert not list(tmp_path.iterdir())


def test_methods_that_are_never_called_are_named(caplog: pytest.LogCaptureFixture) -> None:
    """Misspelt ones, and those of other libraries; other methods are the user's own."""

    class Strange(Callback):
        def on_updat(self, run: RunControl, metrics: Any) -> None: ...
        def _on_step(self) -> None: ...
        def only_mine(self) -> None: ...

    run: Any = SimpleNamespace(learner=SimpleNamespace(updates=0))
    Callbacks([Strange()], run)
    shown = caplog.text
    assert "Strange.on_updat is never called; did you mean on_update?" in shown
    assert "Strange._on_step is never called; called are on_start, on_rollout, " in shown and "only_mine" not in shown


def test_what_cannot_be_logged(tmp_path: Path) -> None:
    class Wrong(Callback):
        def on_rollout(self, run: RunControl) -> None:
            run.log(name="text")  # type: ignore[arg-type]

    with pytest.raises(OptionError, match="logs numbers, got name='text'"):
        rookery.train("CartPole-v1", runs_dir=tmp_path, callbacks=[Wrong()], **OPTIONS)


def test_wrapped_training(tmp_path: Path) -> None:
    """Each env is wrapped, in training and evaluation, from a class at the top of a file or by its name."""
    options = {**OPTIONS, "steps": 512, "num_envs": 2}
    result = rookery.train("CartPole-v1", runs_dir=tmp_path, wrappers=[tenth], **options)
    assert result.mean_reward < 20
    config = json.loads((result.path / "config.json").read_text())
    assert config["wrappers"] == [f"{Path(__file__).resolve()}:tenth"] and config["backend"] != "kernel"
    again = rookery.resume(result.path, steps=1024)
    assert again.evaluation is not None and again.evaluation < 51


def tenth(reward: float) -> float:
    return reward / 10
