"""`train` and `resume`: from a configuration to a finished run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv

from rookery.config import RunConfig, collect_changes, is_config, resumed_config, user_config
from rookery.config.layers import MISSING, look_up
from rookery.config.train_options import ResumeOptions, TrainOptions, with_keywords
from rookery.console import say, silent
from rookery.errors import CheckpointError, MemoryShortage, OptionTypeError, RunError, UsageError
from rookery.gate import allow_given
from rookery.monitor.run_summary import ended_early
from rookery.training.resolve.session_world import SessionWorld, session_world, with_objects
from rookery.training.run.callbacks import Callback, Result, take_callbacks
from rookery.training.run.open_run import OpenRun, open_new_run, open_recorded_run
from rookery.training.run.out_of_memory import Lower, less_text, release_memory, with_less
from rookery.training.run.run_end import run_to_end
from rookery.training.run.stop_request import StopRequest
from rookery.training.storage.checkpoint import Checkpoints
from rookery.training.storage.load_agent import load_agent
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.runs_table import NamedRun, find_runs
from rookery.user_code import end_import

WORLD_NAMES = ("world", "env", "env_id", "env_name")


@with_keywords(TrainOptions, {name: field.default for name, field in RunConfig.model_fields.items()})
def train(
    world: str | Path | Mapping[str, Any] | RunConfig | Callable[..., Any] | gym.Env | VectorEnv | None = None,
    /,
    *others: Any,
    config_path: str | Path | None = None,
    **options: Unpack[TrainOptions],
) -> Result:
    """Train an agent; returns the result, with the agent.

    Args:
        world: A Gymnasium id, "file.py:MyEnv", a class, a function or lambda, an env or a vector env; or a
            configuration: its path, a dict or a `RunConfig`.
        steps: How many steps to train for, counted over all envs. rookery has tested settings for some worlds, which
            replace the defaults above.
        seed: The same seed and settings give the same run.
        num_envs: How many envs are stepped at once; "auto" measures.
        learner: "ppo", "sac", "dqn", "td3", "pqn" or "xqc"; "auto" chooses by the action space.
        device: "cpu", "cuda", "cuda:1" or "mps"; "auto" takes a GPU where it is faster.
        options: All keys of the configuration (`rookery train --help-config` describes them), such as
            `ppo={"clip": 0.1}`. Callbacks, wrappers, networks and schedules may be given as objects, classes and
            functions.
        config_path: The path of a configuration, instead of `world`.

    Example:
        >>> import contextlib, io, rookery, tempfile
        >>> with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        ...     result = rookery.train("CartPole-v1", steps=1_024, runs_dir=folder)
        >>> result.total_steps
        1024
        >>> result.agent.act([[0.0, 0.0, 0.0, 0.0]], deterministic=True).shape
        (1,)
    """
    end_import("rookery.train")
    if others:
        raise OptionTypeError("rookery.train() takes one world; give the others by name, as in steps=100_000")
    given: dict[str, Any] = dict(options)
    if world is None and config_path is None:
        world = next((given.pop(name) for name in WORLD_NAMES if name in given), None)
    what = _one_of(world, config_path)
    callbacks = take_callbacks(given)
    name, world_object = what, None
    if not isinstance(what, (str, Mapping, Path, RunConfig)):
        name, world_object = _of_session(session_world(what), given)
    elif isinstance(what, str) and isinstance(given.get("world_options"), Mapping) and not is_config(what):
        found = with_objects(what, given["world_options"])
        if found is not None:
            name, world_object, given["world_options"] = found.name, found.source, found.options
    with silent(given.get("verbose") in (False, 0)):
        config = user_config(name, **given)
    with silent(not config.monitor.verbose):
        return _train(config, world_object, callbacks)


def _of_session(found: SessionWorld, given: dict[str, Any]) -> tuple[str, Any]:
    """The recorded name of a world that is an object, and what makes its envs; adds what the object says to `given`."""
    if found.num_envs is not None and not {"num_envs", "n_envs"} & given.keys():
        given["num_envs"] = found.num_envs
        if not {"backend", "wrappers", "image_size"} & given.keys():  # with one of these it may not be possible
            given |= {key: value for key, value in found.settings.items() if key not in given}
    if found.options:
        given["world_options"] = {**found.options, **given.get("world_options", {})}
    return found.name, found.source


def _one_of(what: Any, config_path: str | Path | None) -> Any:
    if (what is None) == (config_path is None):
        raise UsageError("rookery.train() takes a world, such as 'CartPole-v1', or `config_path`: give one of them")
    return what if config_path is None else Path(config_path)


def _train(config: RunConfig, world_object: Any, callbacks: list[Callback] | None) -> Result:
    with StopRequest() as stop:
        again = partial(open_recorded_run, runs_dir=Path(config.runs_dir), stop=stop, changes={}, callbacks=callbacks)
        again = partial(again, trust=True, world=world_object)

        def open_run(lower: Lower) -> AbstractContextManager[OpenRun]:
            return open_new_run(with_less(config, lower), stop, callbacks, world_object)

        result = _run_with_enough_memory(open_run, again)
    result.agent.source = world_object
    return result


def _run_with_enough_memory(
    open_run: Callable[[Lower], AbstractContextManager[OpenRun]],
    again: Callable[..., AbstractContextManager[OpenRun]],
) -> Result:
    """Train a run to its end. Where memory runs out and the config says so, it is opened with lower values: as a new
    run, or from its folder (`again`) once it has begun."""
    lower: Lower = {}
    folder: RunDir | None = None
    while True:
        try:
            with open_run(lower) if folder is None else again(folder, lower=lower) as opened:
                folder = opened.folder
                return run_to_end(opened.run, opened.folder, opened.loop, opened.observations, opened.infos)
        except MemoryShortage as shortage:
            if not shortage.lower:
                raise
            lower = shortage.lower if folder is not None else {**lower, **shortage.lower}
        say(less_text(lower))
        opened = None  # type: ignore[assignment]
        release_memory()  # out here, where the error no longer holds the frames of the run


@with_keywords(ResumeOptions, {})
def resume(
    run: NamedRun,
    runs_dir: str | Path = "runs",
    *,
    steps: int | None = None,
    trust: bool = False,
    world: Any = None,
    **options: Unpack[ResumeOptions],
) -> Result:
    """Continue a run from its latest checkpoint, by its name, its path or as "latest"; to `steps` in all, if given.

    Other keys that the checkpoint does not depend on can be changed too, such as `evaluation={"every": 10_000}`; they
    are written into the run's configuration. All others are rejected with a ConfigError.

    A run that would run code, or write outside of its folder, and was not started here by this user is only continued
    after a question on the terminal, or with `trust`.

    A run whose world was an object of a Python session, such as a lambda, needs it again as `world`.

    A run that is over, or that has passed what is given here, stays as it is: one line says so.
    """
    end_import("rookery.resume")
    allow_given(run)
    (folder,) = find_runs([run], runs_dir)
    folder.refuse_version()
    given: dict[str, Any] = dict(options)
    callbacks = take_callbacks(given)
    changes = collect_changes(**given, steps=steps)
    with silent(_is_silent(changes, folder.read_config())):
        return _resume(folder, Path(runs_dir), changes, callbacks, trust, world)


def _is_silent(*configs: Mapping[str, Any]) -> bool:
    """Whether the first of these that says anything about it wants nothing printed. They may not be valid yet."""
    found = [look_up(config, "monitor.verbose") for config in configs]
    return next((value for value in found if value is not MISSING), True) is False


def _resume(
    folder: RunDir,
    runs_dir: Path,
    changes: dict[str, Any],
    callbacks: list[Callback] | None,
    trust: bool,
    world: Any,
) -> Result:
    over = result_if_over(folder, changes, trust)
    if over is not None:
        return over
    with StopRequest() as stop:

        def open_run(lower: Lower) -> AbstractContextManager[OpenRun]:
            return open_recorded_run(folder, runs_dir, stop, changes, callbacks, trust, world, lower=lower)

        again = partial(open_recorded_run, runs_dir=runs_dir, stop=stop, changes={}, callbacks=callbacks)
        result = _run_with_enough_memory(open_run, partial(again, trust=True, world=world))
    result.agent.source = None if world is None else session_world(world).source
    return result


COUNTED = ("steps", "seconds", "num_envs", "last_evaluation", "best_evaluation")  # of a checkpoint's part "loop"


def result_if_over(folder: RunDir, changes: Mapping[str, Any], trust: bool) -> Result | None:
    """The result of a run that would make no further step with these changes of its config, after saying why; None if
    there is something to do, be it the summary of a run that was killed at its end."""
    folder.refuse_links()
    saved, summary = _saved_counts(folder), _summary(folder)
    if saved is None:
        return None
    is_last = summary.get("steps") == saved["steps"]
    if is_last:  # of an evaluation that was made after the checkpoint
        scores = {"last_evaluation": summary.get("eval/return"), "best_evaluation": summary.get("eval/best_return")}
        saved |= {name: value for name, value in scores.items() if isinstance(value, float)}
    recorded = folder.read_config()
    why = _why_over(Goals.of(changes, recorded), saved, summary)
    ended = is_last and not ended_early(summary)
    if not why or (not ended and _why_over(Goals.of(recorded), saved, summary)):
        return None
    resumed_config(recorded, changes)  # refuses keys that may not change
    say(f"{folder.name} {why}")
    return _result(folder, saved, summary, trust)


@dataclass(frozen=True)
class Goals:
    """What ends a run; NaN where there is none. Configs are read as they are: they are validated once, if there is
    something to do."""

    steps: float
    episodes: float
    evaluation: float

    @classmethod
    def of(cls, *configs: Mapping[str, Any]) -> Goals:
        """Those of the first of these configs that says anything about them."""
        return cls(*(_goal(key, configs) for key in ("steps", "episodes", "evaluation.stop_at")))


def _goal(key: str, configs: Iterable[Mapping[str, Any]]) -> float:
    found = (look_up(config, key) for config in configs)
    value = next((value for value in found if value is not MISSING), None)
    return float(value) if isinstance(value, (int, float)) else math.nan


def _saved_counts(folder: RunDir) -> dict[str, Any] | None:
    """What the latest checkpoint has counted; None if there is no valid one: opening the run reports what is wrong."""
    try:
        with silent():
            loop = Checkpoints(folder.checkpoints).load_latest(("loop",))[1]["loop"]
        episodes = loop["episodes"]
        saved = {name: loop[name] for name in COUNTED} | {"episodes": episodes["count"], "returns": episodes["returns"]}
    except (CheckpointError, KeyError, TypeError):
        return None
    counts = saved["steps"], saved["episodes"]
    numbers = (value for value in (saved["last_evaluation"], *counts) if value is not None)
    return saved if None not in counts and all(isinstance(value, (int, float)) for value in numbers) else None


def _summary(folder: RunDir) -> dict[str, Any]:
    """The summary; {} if there is none, or one that cannot be read."""
    try:
        return folder.read_summary() or {}
    except RunError:
        return {}


def _why_over(goals: Goals, saved: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    """Why the run is over, and how it can continue; "" if it is not over."""
    steps, episodes, last = saved["steps"], saved["episodes"], saved["last_evaluation"]
    made, further = [], []
    if steps >= goals.steps:
        made.append(f"has made {steps:,} of {goals.steps:,.0f} steps")
        further.append(f"more steps, such as --steps {2 * steps}")
    if episodes >= goals.episodes:
        made.append(f"has made {episodes:,} of {goals.episodes:,.0f} episodes")
        further.append(f"more episodes, such as --num-episodes {2 * episodes}")
    if last is not None and last >= goals.evaluation:
        made.append(f"has reached `evaluation.stop_at` = {goals.evaluation:g} with {last:.4g}")
        further.append("a higher goal, or none by --set evaluation.stop_at=none")
    if made:
        return f"{' and '.join(made)}: there is nothing to do. To train longer, give {', and '.join(further)}"
    return "has finished all of its phases: there is nothing to do" if summary.get("phases_done") else ""


def _result(folder: RunDir, saved: Mapping[str, Any], summary: Mapping[str, Any], trust: bool) -> Result:
    return Result(
        run_name=folder.name,
        path=folder.path,
        agent=load_agent(folder, trust=trust),
        total_steps=saved["steps"],
        episodes=saved["episodes"],
        mean_reward=float(np.mean(saved["returns"])) if len(saved["returns"]) else float("nan"),
        evaluation=saved["last_evaluation"],
        best_evaluation=saved["best_evaluation"],
        seconds=saved["seconds"],
        steps_per_second=summary.get("steps_per_second") or 0.0,
        num_envs=saved["num_envs"],
        reason=str(summary.get("reason", "finished")),
    )
