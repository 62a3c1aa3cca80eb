"""`rookery.fork`: a new run that leaves another one at a moment, with other settings or another seed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Unpack

from rookery.config import RunConfig, collect_changes, resumed_config
from rookery.config.schema import SEEDS
from rookery.config.train_options import ResumeOptions, with_keywords
from rookery.console import say
from rookery.errors import OptionError
from rookery.gate import allow_given
from rookery.training.rewind.replay import Replay
from rookery.training.rewind.scratch import copy_num_envs, share_folder, share_league
from rookery.training.run.callbacks import Result, take_callbacks
from rookery.training.run.train import resume
from rookery.training.storage.checkpoint import save
from rookery.training.storage.moments import Moment, find_moment
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_history import base_before, segments
from rookery.training.storage.runs_table import NamedRun, find_runs
from rookery.training.storage.trust import check_run, remember
from rookery.user_code import end_import

TRUNK = ("metrics", "evaluations", "episodes", "hints")  # lines of the parent that are the fork's too


@with_keywords(ResumeOptions, {})
def fork(
    run: NamedRun,
    at: int | str | None = None,
    *,
    update: int | None = None,
    episode: int | None = None,
    name: str | None = None,
    seed: int | None = None,
    steps: int | None = None,
    runs_dir: str | Path = "runs",
    trust: bool = False,
    world: Any = None,
    **options: Unpack[ResumeOptions],
) -> Result:
    """Train a run again from one of its moments on, with other settings or another seed; returns the fork's result.

    The fork is a run of its own, beside its parent. Up to the moment it is its parent: curves and counters are, and a
    checkpoint of the parent takes no space twice. With nothing changed it ends as its parent did, bit for bit.

    Args:
        run: The parent: a result of `rookery.train`, or a run by its name, its path or as "latest".
        at: The moment, as for `rookery.rewind`; so are `update` and `episode`.
        name: The fork's name; if omitted, that of its parent and "-fork".
        seed: Another seed of all that follows: envs begin new episodes, and actions, minibatches and opponents are
            drawn with it.
        steps: Train until the fork has so many steps in all; if omitted, as many as its parent.
        runs_dir: The folder of the runs.
        trust: Execute the Python files that the run names without asking.
        world: The world again, if it was an object of a Python session.
        options: Settings that may change when a run is resumed, such as `ppo={"clip": 0.1}`.
    """
    end_import("rookery.fork")
    allow_given(run)
    (parent,) = find_runs([run], runs_dir)
    given: dict[str, Any] = dict(options)
    callbacks = take_callbacks(given)
    changes = collect_changes(**given, steps=steps)
    if seed is not None and not 0 <= seed < SEEDS:
        raise OptionError(f"seed should be an integer >= 0 and < {SEEDS}, got {seed}")
    moment = find_moment(parent, at, update, episode)
    config, changed = resumed_config(_config_at(parent, moment), changes)
    check_run(parent, config, trust)
    again = {"world": world, "callbacks": callbacks}
    with ExitStack() as undo:
        made = _make(parent, config, name, seed, Path(runs_dir))
        undo.callback(made.discard)
        step = _write_trunk(parent, made, moment, seed, {"runs_dir": Path(runs_dir), "trust": True, **again})
        made.remember(parent={"run": parent.name, "id": parent.id, "path": str(parent.path.absolute()), "step": step})
        remember(made, config)
        undo.pop_all()
    what = [changed.removeprefix("resumed with "), "" if seed is None else f"seed = {seed}"]
    say(f"{made.name} leaves {parent.name} at step {step:,}, with {', '.join(filter(None, what)) or 'nothing changed'}")
    return resume(made.path, runs_dir, trust=True, **{key: value for key, value in again.items() if value is not None})


def _config_at(parent: RunDir, moment: Moment) -> dict[str, Any]:
    """The parent's configuration at a moment."""
    parts = [part.config for part in segments(parent) if part.step <= moment.known]
    return parts[-1] if parts else parent.read_config()


def _make(parent: RunDir, config: RunConfig, name: str | None, seed: int | None, runs_dir: Path) -> RunDir:
    """The fork's folder, with its configuration: its checkpoints are in there."""
    made = RunDir.create(runs_dir, name or f"{parent.path.resolve().name}-fork")
    own: dict[str, Any] = {
        "checkpoints": config.checkpoints.model_copy(update={"dir": None}),
        "name": made.name,
        "runs_dir": str(runs_dir),
    }
    made.write_config(config.model_copy(update=own | ({} if seed is None else {"seed": seed})).model_dump(mode="json"))
    return made


def _write_trunk(parent: RunDir, made: RunDir, moment: Moment, seed: int | None, given: Mapping[str, Any]) -> int:
    """What the fork has of its parent: a checkpoint of the moment, the lines up to it, and the league; returns the
    step."""
    base = None if moment.step is None or seed is not None else base_before(parent, moment.step)
    made.checkpoints.mkdir()
    if base is None or base.step != moment.step:
        return _play_and_save(parent, made, moment, seed, given)
    share_folder(base.path, made.checkpoints / base.path.name)
    share_league(parent, made)
    _copy_lines(parent, made, base.step)
    return base.step


def _copy_lines(parent: RunDir, made: RunDir, step: int) -> None:
    """What the parent recorded up to a step."""
    for name in TRUNK:
        if getattr(parent, name).is_file():
            shutil.copyfile(getattr(parent, name), getattr(made, name))
    made.truncate_after(step)
    copy_num_envs(parent, made, until=step)


def _play_and_save(parent: RunDir, made: RunDir, moment: Moment, seed: int | None, given: Mapping[str, Any]) -> int:
    """Train up to the moment, and save it. The checkpoint has the parent's id: the fork never removes it."""
    with closing(Replay(parent, moment.known, **given)) as replay:
        replay.to(moment)
        loop = replay.loop
        if seed is not None:
            loop.learner.generator.manual_seed(seed)
            loop.learner.reset_envs(slice(0, loop.envs.num_envs))
            loop.collector.begin(*loop.state.reset_envs(seed + loop.steps))
        save(made.checkpoints / f"step-{loop.steps:012d}", loop.tree(), run=parent.id)
        share_league(replay.scratch, made)
        _copy_lines(parent, made, loop.steps)
        loop.records.flush()
        _add_episodes(replay.scratch.episodes, made.episodes)
        return loop.steps


def _add_episodes(played: Path, own: Path) -> None:
    """Episodes that ended in the middle of a rollout: the parent recorded them at its end, after the moment."""
    if played.is_file() and own.is_file():
        known = [json.loads(line)["episode"] for line in own.read_bytes().splitlines()[-1:]]
        later = [line for line in played.read_bytes().splitlines(True) if json.loads(line)["episode"] > sum(known)]
        with own.open("ab") as file:
            file.writelines(later)
