"""`train` and `resume`: from a configuration to a finished run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import gymnasium as gym
from gymnasium.vector import VectorEnv

from rookery.config import RunConfig, collect_changes, is_config, user_config
from rookery.config.layers import MISSING, look_up
from rookery.config.train_options import ResumeOptions, TrainOptions, with_keywords
from rookery.console import say, silent
from rookery.errors import ConfigError, MemoryShortage, UsageError
from rookery.gate import allow_given
from rookery.learners.registry import specs
from rookery.training.resolve.session_world import SessionWorld, session_world, with_objects
from rookery.training.resolve.world_choice import name_in_file
from rookery.training.run.callbacks import Callback, take_callbacks
from rookery.training.run.open_run import OpenRun, open_new_run, open_recorded_run
from rookery.training.run.out_of_memory import Lower, less_text, release_memory, with_less
from rookery.training.run.result import Result
from rookery.training.run.run_end import run_to_end
from rookery.training.run.run_over import result_if_over
from rookery.training.run.stop_request import StopRequest
from rookery.training.storage.run_dir import RunDir
from rookery.user_code import being_imported


@with_keywords(TrainOptions)
def train(
    what: str | Path | Mapping[str, Any] | RunConfig | Callable[..., Any] | gym.Env | VectorEnv | None = None,
    *,
    config_path: str | Path | None = None,
    **options: Unpack[TrainOptions],
) -> Result:
    """Train an agent; returns the result, with the agent.

    Args:
        what: A world (a Gymnasium id, "file.py:MyEnv", a class, a function or lambda, an env or a vector env), the path
            of a configuration, or one as a dict or `RunConfig`.
        config_path: The path of a configuration, instead of `what`.
        options: Keys of the configuration (`rookery train --help-config` describes them), such as `num_envs=8`,
            `device="cuda"`, `steps=20_000` or `ppo={"clip": 0.1}`. Callbacks, wrappers, networks and schedules may be
            given as objects, classes and functions.

    Example:
        >>> import contextlib, io, rookery, tempfile
        >>> with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        ...     result = rookery.train("CartPole-v1", steps=1_024, runs_dir=folder)
        >>> result.total_steps
        1024
        >>> result.agent.act([[0.0, 0.0, 0.0, 0.0]], deterministic=True).shape
        (1,)
    """
    _refuse_while_imported("train")
    what = _one_of(what, config_path)
    given: dict[str, Any] = dict(options)
    callbacks = take_callbacks(given)
    name, world_object = what, None
    if not isinstance(what, (str, Mapping, Path, RunConfig)):
        name, world_object = _of_session(session_world(what), given)
    elif isinstance(what, str) and isinstance(given.get("world_options"), Mapping) and not is_config(what):
        found = with_objects(what, given["world_options"])
        if found is not None:
            name, world_object, given["world_options"] = found.name, found.source, found.options
    with silent(given.get("verbose") in (False, 0)):
        config = user_config(name, **code_by_name(given))
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

        return _run_with_enough_memory(open_run, again)


def _run_with_enough_memory(
    open_run: Callable[[Lower], AbstractContextManager[OpenRun]],
    again: Callable[..., AbstractContextManager[OpenRun]],
) -> Result:
    """Train a run to its end. Where memory runs out and the config says so, it is opened with lower values: anew, or
    from its folder (`again`) once it has begun."""
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


@with_keywords(ResumeOptions)
def resume(
    run: str | Path,
    runs_dir: str | Path = "runs",
    *,
    steps: int | None = None,
    trust: bool = False,
    world: Any = None,
    **options: Unpack[ResumeOptions],
) -> Result:
    """Continue a run from its latest checkpoint, by its name, its path or as "latest"; to `steps` in all, if given.

    Other keys that the checkpoint does not depend on can be changed too, such as `evaluation={"every": 10_000}`; they
    are written into the run's configuration. All others are refused with a ConfigError.

    A run that would run code, or write outside of its folder, and was not started here by this user is only continued
    after a question on the terminal, or with `trust`.

    A run whose world was an object of a Python session, such as a lambda, needs it again as `world`.

    A run that is over, or that has passed what is given here, stays as it is: one line says so.
    """
    _refuse_while_imported("resume")
    allow_given(run)
    folder = RunDir.find(run, Path(runs_dir))
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
        return _run_with_enough_memory(open_run, partial(again, trust=True, world=world))


def code_by_name(options: dict[str, Any]) -> dict[str, Any]:
    """Options with wrappers, networks and schedules that are classes or functions by names that a run can record."""

    def named(key: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: named(f"{key}.{name}", item) for name, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [named(key, item) for item in value]
        return _recorded_name(key, value) if callable(value) else value

    places = ("wrappers", *specs())
    return {key: named(key, value) if key in places else value for key, value in options.items()}


def _recorded_name(key: str, code: Any) -> str:
    name = name_in_file(code)
    if name is None:
        shown = getattr(code, "__qualname__", type(code).__name__).rpartition(".")[2].replace("<lambda>", "a lambda")
        around = "; or wrap the envs yourself: rookery.train(lambda: MyWrapper(MyEnv()))" if key == "wrappers" else ""
        raise ConfigError(
            f"`{key}`: {shown} has no name by which worker processes and a resumed run could find it: give a class or "
            f"function at the top of a file, or its name, 'file.py:Name'{around}"
        )
    return name


def _refuse_while_imported(name: str) -> None:
    """A script that trains on its own class is imported where that class is not known, and must not train then."""
    file = being_imported()
    if file is not None:
        raise UsageError(
            f"rookery.{name}() was called while {file} was imported by {_this_process()}, which needs a class or "
            "function in it; put the call under `if __name__ == '__main__':`, or the class into a file of its own"
        )


def _this_process() -> str:
    main = Path(getattr(sys.modules.get("__main__"), "__file__", None) or "rookery")
    return "a process of rookery" if main.name in ("rookery", "__main__.py") else f"the process of {main.name}"
