"""`rookery.rewind`: a moment of a run, live."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Self

import numpy as np

from rookery.console import say
from rookery.engine.value_tree import copied_state
from rookery.errors import OptionError
from rookery.files import own_folder
from rookery.gate import allow_given
from rookery.learners.agent import Agent
from rookery.learners.learner import Learner, Tree, module_state
from rookery.training.rewind.gradients import batch_of, next_gradients, norm
from rookery.training.rewind.replay import Replay
from rookery.training.run.callbacks import Callback
from rookery.training.storage.moments import Moment, find_moment
from rookery.training.storage.runs_table import NamedRun, find_runs
from rookery.user_code import end_import


class Rewound:
    """A run as it was at a moment. It can be looked at, trained on and thrown away: the run itself is never changed.

    It holds envs and a scratch folder: use it in a `with`, or close it.
    """

    def __init__(self, replay: Replay, moment: Moment) -> None:
        self._replay, self.moment = replay, str(moment)
        self.run = replay.run.path

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Rewound({self._replay.run.name}, step {self.step:,}, update {self.updates:,}, {self.verdict})"

    def close(self) -> None:
        """Close its envs, and remove its scratch folder."""
        self._replay.close()

    # --- what is there ----------------------------------------------------------------------------------------------

    @property
    def step(self) -> int:
        """Steps of all envs so far."""
        return self._replay.loop.steps

    @property
    def updates(self) -> int:
        """Updates of the learner so far."""
        return self._replay.loop.learner.updates

    @property
    def episodes(self) -> int:
        """Episodes that have ended so far."""
        return self._replay.loop.episodes.count

    @property
    def learner(self) -> Learner:
        """The learner, with its networks, optimizers and buffers."""
        return self._replay.loop.learner

    @property
    def agent(self) -> Agent:
        """The agent as it was; it changes when this run continues."""
        agent = self._replay.loop.learner.agent
        agent.run, agent.steps = self.run, self.step
        return agent

    @property
    def envs(self) -> Any:
        """The vector env, in the middle of its episodes."""
        return self._replay.loop.envs

    @property
    def batch(self) -> dict[str, np.ndarray]:
        """What was collected for the next update: the rollout of an on-policy learner as far as it goes, [steps, envs,
        ...], or the next minibatch of an off-policy one."""
        return batch_of(self.learner)

    @property
    def metrics(self) -> Mapping[str, float]:
        """Losses and the like of the latest update that was made here."""
        return self._replay.loop.collector.metrics

    def gradients(self) -> dict[str, np.ndarray]:
        """The gradients of the next update at its first minibatch, by parameter. The learner is left as it was."""
        return next_gradients(self.learner)[1]

    def state(self) -> Tree:
        """All that a checkpoint of this moment would hold: agent, learner, envs, counters."""
        return copied_state(self._replay.loop.tree())

    # --- whether it is exact ----------------------------------------------------------------------------------------

    @property
    def exact(self) -> bool:
        """Whether nothing is known that makes this differ from the run, and it agrees with all that was recorded."""
        return not self._replay.doubts()

    @property
    def notes(self) -> list[str]:
        """What differs from the run, and versions that may make it differ."""
        return self._replay.doubts() + self._replay.other_versions()

    @property
    def verdict(self) -> str:
        """Whether it is exact, in a few words."""
        if not self.exact:
            return f"not exact: {self._replay.doubts()[0]}"
        compared = self._replay.evidence.compared
        times = "1 recorded step agrees" if compared == 1 else f"{compared:,} recorded steps agree"
        return f"exact: {times} bit for bit" if compared else "exact"

    # --- onwards ----------------------------------------------------------------------------------------------------

    def forward(self, *, steps: int | None = None, updates: int | None = None) -> Self:
        """Train on: so many steps further, until so many more updates are made, or one update."""
        if steps is not None and updates is not None:
            raise OptionError("give `steps` or `updates`, not both")
        if steps is not None:
            self._replay.to_step(self.step + steps)
        else:
            wanted = self.updates + (updates or 1)
            while self.updates < wanted and not self._replay.over:
                self._replay.round(None if self.learner.on_policy else 1)
        return self

    # --- to files ---------------------------------------------------------------------------------------------------

    def dump(self, folder: str | Path) -> Path:
        """Write what the next update learns from to a folder: `batch.npz`, `weights.npz` and `moment.json`; if an
        update is due, `minibatch.npz` and `gradients.npz` too."""
        path = own_folder(Path(folder))
        minibatch, gradients = next_gradients(self.learner) if self.learner.ready() else ({}, {})
        weights = module_state(self.learner.policy)
        files = {"batch": self.batch, "weights": weights, "minibatch": minibatch, "gradients": gradients}
        for name, arrays in files.items():
            if arrays:
                np.savez(path / f"{name}.npz", **arrays)  # type: ignore[arg-type]
        facts = self.as_json() | {"gradient": norm(gradients) if gradients else None}
        (path / "moment.json").write_text(json.dumps(facts, indent=2) + "\n")
        return path

    def record(self, out: str | Path, episodes: int = 1) -> Path | None:
        """Record a video of the agent as it was, in new episodes."""
        from rookery.training.show.watch import record

        return record(self.agent, out, episodes=episodes)

    def as_json(self) -> dict[str, Any]:
        """Where it is, as plain values."""
        return {
            "run": str(self.run), "moment": self.moment, "step": self.step, "updates": self.updates,
            "episodes": self.episodes, "began_at": self._replay.began_at, "exact": self.exact,
            "compared": self._replay.evidence.compared, "notes": self.notes,
        }  # fmt: skip

    def print(self) -> None:
        """Print where it is."""
        print(f"{self._replay.run.name} at {self.moment}: {self.step:,} steps, {self.updates:,} updates, "
              f"{self.episodes:,} episodes")  # fmt: skip
        print(self.verdict)
        for note in self._replay.other_versions():
            print(f"note: {note}")


def rewind(
    run: NamedRun,
    at: int | str | None = None,
    *,
    update: int | None = None,
    episode: int | None = None,
    runs_dir: str | Path = "runs",
    trust: bool = False,
    world: Any = None,
    callbacks: Sequence[Callback] | None = None,
) -> Rewound:
    """A moment of a run, live: its learner, envs and batch, as they were.

    The run continues from its last checkpoint before the moment, in a scratch folder, bit for bit as it was. What it
    recorded on the way is compared: `exact` says whether all of it agrees, `notes` what differs.

    Args:
        run: A result of `rookery.train`, or a run by its name, its path or as "latest"; or a crash report.
        at: A step: the last moment with at most so many. Or "worst" (the episode furthest below the mean of the
            hundred before it), "drop" (before the largest lasting fall of the evaluations), "nan" (before the update
            after which a loss is not a number), or "crash" (before the error that ended the run; also if no moment is
            given).
        update: Just before this update, with all that it learns from.
        episode: Where this episode of episodes.jsonl begins.
        runs_dir: The folder of the runs.
        trust: Execute the Python files that the run names without asking.
        world: The world again, if it was an object of a Python session.
        callbacks: Callbacks again, if they are not at the top of a file.

    Example:
        >>> import rookery, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     options = {"steps": 1_024, "num_envs": 4, "verbose": False}
        ...     result = rookery.train("CartPole-v1", runs_dir=folder, **options)
        ...     with rookery.rewind(result, at=700) as live:
        ...         print(live.step, live.exact, live.batch["rewards"].shape[1])
        700 True 4
    """
    end_import("rookery.rewind")
    allow_given(run)
    (found,) = find_runs([run], runs_dir)
    given = {"runs_dir": Path(runs_dir), "trust": trust, "world": world, "callbacks": callbacks}
    if (at, update, episode) == (None, None, None) and "crash" in found.birth():
        at = "crash"
    moment = find_moment(found, at, update, episode)
    if at == "nan" or (at == "crash" and found.birth()["crash"].get("kind") == "nan"):
        moment = _nan_update(Replay(found, moment.known, **given), moment)
    live = Rewound(Replay(found, moment.known, **given), moment)
    try:
        live._replay.to(moment)
    except BaseException:
        live.close()
        raise
    if not live.exact:
        say(live.verdict)
    return live


def _nan_update(replay: Replay, moment: Moment) -> Moment:
    """Just before the first update after which a loss or a weight is not a number, found by training up to it."""
    with closing(replay):
        replay.to(moment)
        loop = replay.loop
        while not replay.over:
            number, step = loop.learner.updates + 1, loop.steps
            replay.round(None if loop.learner.on_policy else 1)
            numbers = [
                *loop.collector.metrics.values(),
                *(float(p.detach().sum()) for p in loop.learner.policy.parameters()),
            ]
            if not all(map(math.isfinite, numbers)):
                text = f"update {number:,}, after which a loss or a weight is not a number"
                return Moment(None, number, min(step, moment.known), text=text)
    return moment
