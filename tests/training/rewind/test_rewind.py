"""A moment of a run, live."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rookery
from rookery.errors import OptionError, RunError, StateError
from rookery.training.storage.checkpoint import Checkpoints
from rookery.training.storage.moments import find_moment
from rookery.training.storage.run_dir import RunDir
from training.rewind.truth import comparable, state_at
from training.runs import differences, small


def files_of(run: Path) -> dict[str, bytes]:
    return {str(path.relative_to(run)): path.read_bytes() for path in run.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def ppo(tmp_path_factory: pytest.TempPathFactory) -> rookery.Result:
    """1,024 steps in 16 updates of 64 steps, with checkpoints and evaluations on the way."""
    folder = tmp_path_factory.mktemp("ppo")
    return rookery.train(small("ppo", folder, evaluation={"episodes": 1, "every": 256}))


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("learner", "backend"), [("ppo", "kernel"), ("ppo", "serial"), ("sac", "kernel"), ("dqn", "serial")]
)
def test_a_moment_equals_a_run_that_was_stopped_there(learner: str, backend: str, tmp_path: Path) -> None:
    """Weights, optimiser, random streams, envs, replay and counters: from a checkpoint, and in the middle of a
    rollout."""
    often = {"evaluation": {"episodes": 1, "every": 128}, "checkpoints": {"every": 64}}
    config = small(learner, tmp_path / "runs", backend=backend, steps=384, **often)
    result = rookery.train(config)
    for step in (100, 360):  # before all checkpoints that are left, and after one
        with rookery.rewind(result, at=step) as live:
            assert live.exact and live.step == step
            again = comparable(live.state())
        assert not differences(again, state_at(config, step, tmp_path / str(step)))


def test_the_run_itself_is_only_read(ppo: rookery.Result) -> None:
    before = files_of(ppo.path)
    with rookery.rewind(ppo, at=700) as live:
        live.forward(updates=3)
        scratch = live._replay.scratch.path
        assert scratch.is_dir()
    assert files_of(ppo.path) == before
    assert not scratch.exists()


def test_before_an_update_its_batch_is_complete(ppo: rookery.Result) -> None:
    """The gradient is computed without changing anything; the update then is the one that the run made."""
    rows = [json.loads(line) for line in (ppo.path / "metrics.jsonl").read_text().splitlines()]
    row = next(row for row in rows if row["kind"] == "progress" and row.get("updates", 0) >= 5)
    with rookery.rewind(ppo, update=row["updates"]) as live:
        assert live.learner.ready() and live.updates == row["updates"] - 1
        assert live.batch["rewards"].shape == (16, 4)
        before = live.state()
        gradients = live.gradients()
        assert not differences(comparable(before), comparable(live.state()))
        assert gradients["policy.actor.layers.0.weight"].any()
        live.forward()
        assert {f"loss/{name}": value for name, value in live.metrics.items()}.items() <= row.items()
        with pytest.raises(StateError, match="no update is due"):
            live.gradients()


def test_gradients_are_those_of_the_loss(tmp_path: Path) -> None:
    """Plain descent by hand on the dumped minibatch's gradient norm agrees with what PPO reports for one minibatch."""
    options = {"epochs": 1, "minibatches": 1}
    result = rookery.train(small("ppo", tmp_path, steps=256, ppo=options))
    with rookery.rewind(result, update=3) as live:
        folder = live.dump(tmp_path / "dump")
        live.forward()
        norm = live.metrics["gradient"]
    facts = json.loads((folder / "moment.json").read_text())
    assert facts["gradient"] == pytest.approx(norm, rel=1e-4)
    assert facts["updates"] == 2 and facts["exact"]
    assert np.load(folder / "minibatch.npz").files and np.load(folder / "weights.npz").files


def test_an_off_policy_learner_stops_before_an_update(tmp_path: Path) -> None:
    result = rookery.train(small("dqn", tmp_path, steps=512))
    with rookery.rewind(result, update=100) as live:
        assert live.updates <= 99 < live.updates + live.learner.updates_due
        assert live.batch and live.gradients()
        live.forward()
        assert live.updates >= 100


def test_moments_by_what_happened(ppo: rookery.Result) -> None:
    episodes = [json.loads(line) for line in (ppo.path / "episodes.jsonl").read_text().splitlines()]
    last = episodes[-1]
    with rookery.rewind(ppo, episode=last["episode"]) as live:  # its env has just begun an episode
        lengths = sum(row["length"] for row in episodes[:-1] if row["env"] == last["env"])
        assert live.step == 4 * lengths
    with rookery.rewind(ppo, at="worst") as live:
        assert "episode" in live.moment


def test_a_drop_is_a_fall_that_lasts(tmp_path: Path) -> None:
    """Not one evaluation that was unlucky."""
    run = RunDir(tmp_path)
    scores = [100, 500, 20, 490, 480, 60, 50, 70]
    events = [{"kind": "evaluation", "step": 10 * k, "time": 0.0, "eval/return": x} for k, x in enumerate(scores)]
    run.evaluations.write_text("".join(json.dumps(event) + "\n" for event in events))
    moment = find_moment(run, "drop")
    assert (moment.step, moment.until) == (40, 50)
    run.evaluations.write_text("".join(json.dumps(event) + "\n" for event in events[:2]))
    with pytest.raises(RunError, match="never fall"):
        find_moment(run, "drop")


class Poison(rookery.Callback):
    """Makes the weights NaN in the sixth update."""

    def on_update(self, run: Any, metrics: Any) -> None:
        if run.learner.updates == 5:
            run.set_options(learning_rate=float("1e30"))


def test_the_update_that_makes_a_nan_is_found(tmp_path: Path) -> None:
    result = rookery.train(small("ppo", tmp_path, steps=1024, evaluation={"episodes": 1}), callbacks=[Poison()])
    with rookery.rewind(result, at="nan") as live:
        found = live.updates
        assert np.isfinite(live.learner.policy.actor.layers[0].weight.detach().numpy()).all()
        live.forward()
        assert not all(np.isfinite(value) for value in live.metrics.values())
    assert 5 <= found <= 7


def test_a_run_resumed_with_other_settings_has_each_where_it_had_them(tmp_path: Path) -> None:
    """A schedule depends on the length of the run, so that the first half needs the length of then."""
    schedule = {"learning_rate_schedule": "linear"}
    result = rookery.train(small("ppo", tmp_path, steps=512, ppo=schedule))
    rookery.resume(result.path, steps=1024, ppo={"clip": 0.1})
    for step in (128, 640, 1024):
        with rookery.rewind(result.path, at=step) as live:
            assert live.exact, live.verdict
            assert live.learner.options.clip == (0.2 if step < 512 else 0.1)


def test_what_differs_is_named(ppo: rookery.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version is a note; a number that is not the recorded one makes it inexact."""
    import shutil

    run = RunDir(tmp_path / "other")
    shutil.copytree(ppo.path, run.path)
    history = run.birth()["history"]
    history[0]["versions"]["torch"] = "1.0"
    run.remember(history=history)
    lines = (run.path / "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    first = next(k for k, row in enumerate(rows) if row["kind"] == "progress" and row["step"] > 0)
    for entry in Checkpoints(run.checkpoints).entries():  # from one of this step, nothing would be played again
        if entry.step == rows[first]["step"]:
            shutil.rmtree(entry.path)
    with rookery.rewind(run.path, at=rows[first]["step"]) as live:
        assert live.exact and any("torch was 1.0" in note for note in live.notes)
    rows[first]["loss/value"] += 1e-9
    (run.path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with rookery.rewind(run.path, at=rows[first]["step"]) as live:
        assert not live.exact and "loss/value" in live.verdict


def test_a_world_without_states_is_played_from_the_beginning(tmp_path: Path) -> None:
    file = tmp_path / "locked.py"
    file.write_text(
        "import threading\n"
        "from gymnasium.envs.classic_control.cartpole import CartPoleEnv\n"
        "class Locked(CartPoleEnv):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.lock = threading.Lock()\n"
    )
    config = small("ppo", tmp_path / "runs", backend="serial", steps=512) | {"world": f"{file}:Locked"}
    result = rookery.train(config)
    with rookery.rewind(result, at=300) as live:
        assert live.exact and live.as_json()["began_at"] == 0
        assert not differences(comparable(live.state()), state_at(config, 300, tmp_path / "truth"))


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        ({}, "one moment"),
        ({"at": 5, "update": 2}, "one moment"),
        ({"at": "soon"}, "should be a step"),
        ({"update": 0}, "update"),
        ({"episode": 99_999}, "episode 99,999"),
        ({"at": "nan"}, "every loss"),
        ({"at": 1_025}, "step 1,025 is after the end of .*: step 1,024"),
        ({"update": 18}, "update 18 is after the end of .*, update 16"),
    ],
)
def test_moments_that_do_not_exist_are_named(moment: dict[str, Any], text: str, ppo: rookery.Result) -> None:
    with pytest.raises((OptionError, RunError), match=text):
        rookery.rewind(ppo, **moment)
