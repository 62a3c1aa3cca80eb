"""`train` and `resume`: from a configuration to a finished run."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Unpack

import gymnasium as gym
from gymnasium.vector import VectorEnv

from rookery.config import RunConfig, build_config, collect_changes, is_config, resumed_config
from rookery.config.layers import MISSING, look_up
from rookery.config.train_options import ResumeOptions, TrainOptions, with_keywords
from rookery.console import printable, say, silent
from rookery.engine.engine import Engine
from rookery.engine.machine import usable_cores
from rookery.errors import CheckpointError, ConfigError, MemoryShortage, RookeryError, UsageError
from rookery.learners.cpu_threads import keep_memory, small_products
from rookery.learners.learner import Learner
from rookery.learners.registry import specs
from rookery.monitor.events import Event, Sinks
from rookery.monitor.trackers import check_trackers
from rookery.training.curriculum.setup_curriculum import check_opponents
from rookery.training.resolve.built_envs import recordable
from rookery.training.resolve.curriculum_config import NO_STEP_LIMIT
from rookery.training.resolve.engine_choice import MAX_ADAPTIVE_ENVS
from rookery.training.resolve.resolved_run import ResolvedRun, resolve_recorded_run, resolve_run
from rookery.training.resolve.session_world import SessionWorld, session_world, with_objects
from rookery.training.resolve.world_choice import OBJECT, find, name_of_object
from rookery.training.run.callbacks import Callback, make_callback, take_callbacks
from rookery.training.run.components import (
    check_device,
    fit_learner,
    make_learner,
    open_components,
    with_image_size,
    with_tables,
    with_threads,
)
from rookery.training.run.env_places import check_cluster, open_envs, with_cluster_device
from rookery.training.run.initial_weights import (
    InitialWeights,
    check_initial_weights,
    load_initial_weights,
    read_initial_weights,
    with_nets_of,
)
from rookery.training.run.loop import Loop
from rookery.training.run.measured_envs import with_measured_envs
from rookery.training.run.out_of_memory import (
    Lower,
    explained_shortage,
    fit_saved,
    less_text,
    release_memory,
    with_less,
)
from rookery.training.run.process_choice import open_shared_run
from rookery.training.run.registered_opponents import with_fixed_versions
from rookery.training.run.result import Result
from rookery.training.run.run_end import run_to_end, write_failure
from rookery.training.run.shared_run import RunAlone, check_shared, share_of, with_shared_devices
from rookery.training.run.stop_request import StopRequest
from rookery.training.storage.checkpoint import Checkpoints
from rookery.training.storage.checkpoint_files import MALFORMED, short_text
from rookery.training.storage.load_agent import check_agent
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.trust import check_run, code_in, remember
from rookery.user_code import being_imported, permit

FEW_UPDATES = 10
MakeLearner = Callable[[ResolvedRun], Learner]


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
        config = build_config(name, **code_by_name(given))
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


@dataclass(frozen=True)
class OpenRun:
    """A run that is about to make steps."""

    run: ResolvedRun
    folder: RunDir
    loop: Loop
    observations: Any
    infos: dict[str, Any]


@contextmanager
def open_new_run(
    config: RunConfig,
    stop: StopRequest,
    callbacks: list[Callback] | None = None,
    world_object: Any = None,
    make: MakeLearner = make_learner,
) -> Iterator[OpenRun]:
    """A new run, in a folder of its own that is locked meanwhile. Without `callbacks` it has those of the config."""
    _refuse_objects(config)
    config = with_cluster_device(with_shared_devices(with_fixed_versions(config)))
    weights = read_initial_weights(config.init_from, Path(config.runs_dir)) if config.init_from else None
    config = config if weights is None else with_nets_of(weights, config)
    run = check_shared(resolve_run(config, world_object, may_take_gpu=True), config)
    check_cluster(run)
    permit(code_in(run.config))
    check_trackers(name for name in ("wandb", "mlflow") if getattr(config.monitor, name))
    callbacks = [make_callback(name) for name in run.config.callbacks] if callbacks is None else callbacks
    check_opponents(run.config)
    if run.seat is not None:
        run = with_measured_envs(fit_learner(run), config)
    keep_memory()
    with explained_shortage(run), open_shared_run(run) as shared, open_envs(share_of(run, 0)) as engine:
        run = with_image_size(run, engine)
        if run.seat is None:
            run = fit_learner(run.with_spaces(engine.single_observation_space, engine.single_action_space))
        config = run.config
        if weights is not None:
            check_initial_weights(weights, run)
        checkpoint_dir = Path(config.checkpoints.dir) if config.checkpoints.dir else None
        folder = RunDir.create(Path(config.runs_dir), config.name or run.title, checkpoint_dir)
        with (
            _removed_unless_begun(folder) as begun,
            folder.lock(),
            _open_loop(run, folder, engine, stop, callbacks, make, shared, weights=weights, begun=begun) as opened,
        ):
            yield opened


def _refuse_objects(config: RunConfig) -> None:
    """Options of the world that no run can record."""
    for name, value in recordable(config.world_options)[1].items():
        raise ConfigError(
            f"`world_options.{name}` is a {type(value).__name__}, which a configuration cannot hold: give a path or "
            "numbers, or envs that are made with it, as rookery.train(rookery.make_vec(world, env_kwargs=...))"
        )


@contextmanager
def _removed_unless_begun(folder: RunDir) -> Iterator[list[bool]]:
    """Remove the folder of a new run if there is an error before the list that this gives holds a value."""
    begun: list[bool] = []
    try:
        yield begun
    except BaseException:
        if not begun:
            folder.discard()
        raise


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
    """
    _refuse_while_imported("resume")
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


def _world_again(recorded: RunConfig, world: Any) -> Any:
    """What makes the envs of a run whose world only the user has."""
    if world is None:
        return None
    if not recorded.world.startswith(OBJECT):
        raise UsageError(f"the run finds its world {recorded.world!r} itself: omit `world`")
    found = session_world(world)
    return find(found.name, options=found.options).factory if found.source is None else found.source


def _resume(
    folder: RunDir,
    runs_dir: Path,
    changes: dict[str, Any],
    callbacks: list[Callback] | None,
    trust: bool,
    world: Any,
) -> Result:
    with StopRequest() as stop:

        def open_run(lower: Lower) -> AbstractContextManager[OpenRun]:
            return open_recorded_run(folder, runs_dir, stop, changes, callbacks, trust, world, lower=lower)

        again = partial(open_recorded_run, runs_dir=runs_dir, stop=stop, changes={}, callbacks=callbacks)
        return _run_with_enough_memory(open_run, partial(again, trust=True, world=world))


@contextmanager
def open_recorded_run(
    folder: RunDir,
    runs_dir: Path,
    stop: StopRequest,
    changes: dict[str, Any],
    callbacks: list[Callback] | None = None,
    trust: bool = False,
    world: Any = None,
    make: MakeLearner = make_learner,
    lower: Lower | None = None,
) -> Iterator[OpenRun]:
    """A run that is there already, from its latest checkpoint, with some keys of its config changed. `lower` has values
    to lower because memory ran out, also of keys that cannot be changed otherwise."""
    folder.refuse_links()
    keep_memory()
    with folder.lock():
        recorded = build_config(folder.read_config())
        config, changed = resumed_config(recorded, changes)
        if lower:
            config, changed = with_less(config, lower), ", ".join(filter(None, (changed, less_text(lower))))
        if config.learner == "auto":
            raise ConfigError(f"{printable(folder.config)}: `learner` should be one of {', '.join(specs())}")
        check_device(config.device)
        check_run(folder, recorded, trust)  # `changes` are of the user who calls this
        resolved = resolve_recorded_run(config, resuming=True, world_object=_world_again(recorded, world))
        callbacks = [make_callback(name) for name in config.callbacks] if callbacks is None else callbacks
        saved = _load_latest(folder, config)
        if saved is not None and lower:
            saved = fit_saved(saved, lower, resolved.num_rows)
        weights = None
        if saved is None and config.init_from is not None:
            weights = read_initial_weights(config.init_from, runs_dir)
        if saved and config.num_envs == "adaptive":
            resolved = resolved.with_num_envs(saved["loop"]["num_envs"])
        check_shared(resolved, config)
        check_cluster(resolved)
        opening = open_shared_run(resolved)
        with explained_shortage(resolved), opening as shared, open_envs(share_of(resolved, 0)) as engine:
            resolved = resolved.with_spaces(engine.single_observation_space, engine.single_action_space)
            if weights is not None:
                check_initial_weights(weights, resolved)
            with _open_loop(resolved, folder, engine, stop, callbacks, make, shared, saved, changed, weights) as opened:
                yield opened


def code_by_name(options: dict[str, Any]) -> dict[str, Any]:
    """Options with wrappers, networks and schedules that are classes or functions by names that a run can record."""

    def named(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: named(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [named(item) for item in value]
        return name_of_object(value) if callable(value) else value

    places = ("wrappers", *specs())
    return {key: named(value) if key in places else value for key, value in options.items()}


def _refuse_while_imported(name: str) -> None:
    """A script that trains on its own class is imported to find that class again, and must not train then."""
    file = being_imported()
    if file is not None:
        raise UsageError(
            f"rookery.{name}() was called while {file} is imported for the world in it; "
            "put the call under `if __name__ == '__main__':`"
        )


@contextmanager
def _open_loop(
    run: ResolvedRun,
    folder: RunDir,
    engine: Engine,
    stop: StopRequest,
    callbacks: list[Callback],
    make: MakeLearner,
    shared: RunAlone,
    saved: Any = None,
    changed: str = "",
    weights: InitialWeights | None = None,
    begun: list[bool] | None = None,
) -> Iterator[OpenRun]:
    """Make the run's components and its loop, from the start or from a checkpoint (`saved`). `changed` says which
    keys of the config are different since then. A new run may begin with the `weights` of another one. A value is
    added to `begun` once the loop begins."""
    learner = make(run) if shared.ranks is None else make_learner(run, shared.ranks)
    if weights is not None:
        load_initial_weights(weights, learner)
        changed = ", ".join(filter(None, (changed, weights.note)))
    run = with_tables(with_threads(run, learner), engine)
    folder.write_config(run.config.model_dump(mode="json"))
    if folder.id is None:
        folder.remember(id=uuid.uuid4().hex)
    remember(folder, run.config)
    step = saved["loop"]["steps"] if saved else None
    opened = open_components(run, folder, engine, learner, stop, step, callbacks, shared)
    with small_products(learner), opened as components, closing(Loop(run.config, components)) as loop:
        _announce(components.sinks, run, folder, engine, learner, step, changed)
        try:
            observations, infos = _load(loop, saved) if saved else loop.begin()
            seed = run.config.seed + (step or 0)
            shared.begin(run.config, learner, saved["envs"] if saved else None, seed)
        except Exception as error:
            if begun is None:  # a run that was there before
                write_failure(folder, loop, error)
            raise
        if begun is not None:
            begun.append(True)
        yield OpenRun(run, folder, loop, observations, infos)


# --- checkpoints to resume from ---------------------------------------------------------------------------------------


def _load_latest(folder: RunDir, config: RunConfig) -> Any:
    """The latest valid checkpoint, with later metrics removed; None to begin anew."""
    checkpoints = Checkpoints(folder.checkpoints, config.checkpoints.keep)
    if checkpoints.latest() is None:
        say(f"{folder.name} has no checkpoint yet; starting from the beginning")
        folder.truncate_after(-1)
        return None
    step, saved = checkpoints.load_latest(check=partial(_check_saved, config))
    folder.truncate_after(step)
    _say_if_over(folder, config, step, saved["loop"]["episodes"]["count"])
    return saved


def _say_if_over(folder: RunDir, config: RunConfig, steps: int, episodes: int) -> None:
    done = ""
    if steps >= config.steps:
        done, flag = f"{steps:,} of {config.steps:,} steps", "--steps N"
    elif config.episodes is not None and episodes >= config.episodes:
        done, flag = f"{episodes:,} of {config.episodes:,} episodes", "--num-episodes N"
    if done:
        say(f"{folder.name} has made {done}: there is nothing to do. To train longer, give more with {flag}")


def _check_saved(config: RunConfig, saved: Any) -> None:
    """Refuse a checkpoint that is not of this config, before nets are made for it."""
    agent, loop = saved.get("agent"), saved.get("loop")
    check_agent(agent)
    if config.learner != agent["learner"] or getattr(config, config.learner).hidden != agent["options"]["hidden"]:
        raise CheckpointError(f"a checkpoint's agent, of {agent['learner']}, has other nets than the run's config")
    steps = loop.get("steps") if isinstance(loop, dict) else None
    if type(steps) is not int or not 0 <= steps < NO_STEP_LIMIT:
        raise CheckpointError(f"a checkpoint has {steps!r:.40} steps, which is not possible")
    num_envs = loop.get("num_envs")
    if config.num_envs == "adaptive" and (type(num_envs) is not int or not 1 <= num_envs <= MAX_ADAPTIVE_ENVS):
        raise CheckpointError(
            f"a checkpoint has {num_envs!r:.40} envs, and adaptive runs have up to {MAX_ADAPTIVE_ENVS}"
        )


def _load(loop: Loop, saved: Any) -> tuple[Any, dict[str, Any]]:
    """Continue from a checkpoint. One that is complete but was not written by rookery may fail in any way."""
    try:
        return loop.load(saved)
    except RookeryError:
        raise
    except MALFORMED as error:
        if getattr(error, "__notes__", None):  # of the user's env
            raise
        raise CheckpointError(f"the run cannot continue from its checkpoint: {short_text(error)}") from error


# --- the first events ----------------------------------------------------------------------------------------------


def _announce(
    sinks: Sinks, run: ResolvedRun, folder: RunDir, engine: Engine, learner: Learner, step: int | None, changed: str
) -> None:
    config = run.config
    facts = {
        "run": folder.name,
        "path": str(folder.path),
        "world": run.world.name,
        "learner": config.learner,
        "num_envs": engine.num_envs * learner.processes,
        "backend": engine.backend,
        "workers": config.workers,
        "start_method": getattr(engine, "start_method", None),
        "device": config.device,
        "steps": config.steps if config.steps < NO_STEP_LIMIT else None,
        "episodes": config.episodes,
        "seed": config.seed,
        "resumed_from": step,
        "groups": config.groups,
        "cores": usable_cores(),
        "threads": getattr(config, config.learner).threads,
        **(engine.facts() if hasattr(engine, "facts") else {}),  # of a cluster
    }
    sinks.write(Event("start", step or 0, facts))
    over = step is not None and step >= config.steps
    notes = [run.world.note if step is None else "", changed, "" if over else _few_updates(config, learner)]
    notes += [_two_lengths(config), _guide_note(config)]
    for text in filter(None, notes):
        sinks.write(Event("note", step or 0, {"text": text}))


def _two_lengths(config: RunConfig) -> str:
    if config.episodes is None or config.steps >= NO_STEP_LIMIT:
        return ""
    return f"the run ends after {config.episodes:,} episodes or {config.steps:,} steps, whichever comes first"


def _guide_note(config: RunConfig) -> str:
    """A note for a run whose numbers depend on when a guide answers."""
    guide = config.world_options.get("guide")
    if not isinstance(guide, str) or guide.endswith(".jsonl"):
        return ""
    return (
        "hints count from when the guide answers, so the same seed gives other numbers: hints.jsonl in the run's "
        "folder, given as --guide, repeats this run exactly"
    )


def _few_updates(config: RunConfig, learner: Learner) -> str:
    """A note for a run that ends before it has made many updates."""
    if not learner.on_policy:
        return ""
    length = learner.steps_until_update
    each = learner.num_envs * learner.processes * length
    if config.steps >= FEW_UPDATES * each:
        return ""
    return (
        f"an update takes {each:,} steps ({learner.num_envs} envs x {length}), so there will be few "
        "in this run: more --steps, or fewer --num-envs, would help"
    )
