"""Opening a run: its folder, envs, learner and loop, for a new run or from a checkpoint of one that is there."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rookery.config import RunConfig, build_config, resumed_config
from rookery.console import printable
from rookery.engine.engine import Engine
from rookery.errors import ConfigError, UsageError
from rookery.learners.cpu_threads import keep_memory, small_products
from rookery.learners.learner import Learner
from rookery.learners.registry import specs
from rookery.monitor.trackers import check_trackers
from rookery.training.curriculum.curriculum import check_opponents
from rookery.training.resolve.resolved_run import ResolvedRun, resolve_recorded_run, resolve_run
from rookery.training.resolve.session_world import recordable, session_world
from rookery.training.resolve.world_choice import find
from rookery.training.run.announcement import announce
from rookery.training.run.callbacks import Callback, make_callback
from rookery.training.run.components import (
    fit_learner,
    make_learner,
    open_components,
    with_image_size,
    with_tables,
    with_threads,
)
from rookery.training.run.initial_weights import (
    InitialWeights,
    check_initial_weights,
    load_initial_weights,
    load_into,
    load_latest,
    read_initial_weights,
    with_fixed_versions,
    with_nets_of,
)
from rookery.training.run.loop import Loop
from rookery.training.run.measured_envs import check_cluster, open_envs, with_cluster_device, with_measured_envs
from rookery.training.run.out_of_memory import Lower, explained_shortage, fit_saved, less_text, with_less
from rookery.training.run.run_end import write_failure
from rookery.training.run.shared_run import (
    RunAlone,
    check_shared,
    device_names,
    share_of,
    with_shared_devices,
)
from rookery.training.run.stop_request import StopRequest
from rookery.training.storage.load_agent import check_device
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_history import note_opening
from rookery.training.storage.trust import check_run, remember
from rookery.user_code import OBJECT

MakeLearner = Callable[[ResolvedRun], Learner]


@dataclass(frozen=True)
class OpenRun:
    """A run that is about to make steps."""

    run: ResolvedRun
    folder: RunDir
    loop: Loop
    observations: Any
    infos: dict[str, Any]


@dataclass
class Opening:
    """What a run is opened with: what was given for it and, as soon as it is there, what its passes look at."""

    config: RunConfig  # as it was requested
    stop: StopRequest
    callbacks: list[Callback] | None  # None: those of the config
    make: MakeLearner
    weights: InitialWeights | None = None  # of another run, to begin with
    saved: Any = None  # the checkpoint of a run that was there before
    changed: str = ""  # which keys of the config are different since then
    recorded: RunConfig | None = None  # the configuration before these changes
    engine: Engine = field(init=False)
    shared: RunAlone = field(init=False)
    learner: Learner = field(init=False)


# All that completes the configuration of a run, in order: each pass as soon as what it looks at is there. Those of its
# learner are made again when a run is resumed; the others have left their choices in its configuration.
PASSES: dict[str, tuple[Callable[[Any, Opening], Any], ...]] = {
    "configuration": (
        lambda config, _: with_fixed_versions(config),
        lambda config, _: with_shared_devices(config),
        lambda config, _: with_cluster_device(config),
        lambda config, opening: with_nets_of(opening.weights, config) if opening.weights else config,
    ),
    "run": (
        lambda run, opening: check_shared(run, opening.config),
        lambda run, opening: _checked(run, opening),
        lambda run, _: run if run.seat is None else fit_learner(run),
        lambda run, opening: run if run.seat is None else with_measured_envs(run, opening.config),
    ),
    "envs": (
        lambda run, opening: with_image_size(run, opening.engine),
        lambda run, opening: run if run.seat is not None else fit_learner(_with_spaces(run, opening)),
    ),
    "learner": (
        lambda run, opening: with_threads(run, opening.learner),
        lambda run, opening: with_tables(run, opening.engine),
    ),
}


def _complete(stage: str, value: Any, opening: Opening) -> Any:
    for change in PASSES[stage]:
        value = change(value, opening)
    return value


@contextmanager
def open_new_run(
    config: RunConfig,
    stop: StopRequest,
    callbacks: list[Callback] | None = None,
    world_object: Any = None,
    make: MakeLearner = make_learner,
) -> Iterator[OpenRun]:
    """A new run, in a folder of its own that is locked in the meantime. Without `callbacks` it has those of the
    config."""
    _refuse_objects(config)
    opening = Opening(config, stop, callbacks, make)
    if config.init_from:
        opening.weights = read_initial_weights(config.init_from, Path(config.runs_dir))
    opening.config = _complete("configuration", config, opening)
    run = _complete("run", resolve_run(opening.config, world_object, may_take_gpu=True), opening)
    keep_memory()
    with explained_shortage(run), _open_envs(run, opening):
        run = _complete("envs", run, opening)
        config = run.config
        if opening.weights is not None:
            check_initial_weights(opening.weights, run)
        checkpoint_dir = Path(config.checkpoints.dir) if config.checkpoints.dir else None
        folder = RunDir.create(Path(config.runs_dir), config.name or run.title, checkpoint_dir)
        with ExitStack() as undo:
            undo.callback(folder.discard)
            with folder.lock(), _open_loop(run, folder, opening) as opened:
                undo.pop_all()  # the run has begun: its folder stays, whatever happens
                yield opened


def _refuse_objects(config: RunConfig) -> None:
    """Options of the world that no run can record."""
    for name, value in recordable(config.world_options)[1].items():
        raise ConfigError(
            f"`world_options.{name}` is a {type(value).__name__}, which a configuration cannot hold: give a path or "
            "numbers, or envs that are made with it, as rookery.train(rookery.make_vec(world, env_kwargs=...))"
        )


def _checked(run: ResolvedRun, opening: Opening) -> ResolvedRun:
    """Refuse what cannot be done or is not there, before anything takes long."""
    check_cluster(run)
    check_trackers(name for name in ("wandb", "mlflow") if getattr(run.config.monitor, name))
    _make_callbacks(run.config, opening)
    check_opponents(run.config)
    return run


def _make_callbacks(config: RunConfig, opening: Opening) -> None:
    if opening.callbacks is None:
        opening.callbacks = [make_callback(name) for name in config.callbacks]


def _with_spaces(run: ResolvedRun, opening: Opening) -> ResolvedRun:
    return run.with_spaces(opening.engine.single_observation_space, opening.engine.single_action_space)


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
        run = resolve_recorded_run(config, resuming=True, world_object=_world_again(recorded, world))
        opening = Opening(config, stop, callbacks, make, changed=changed, recorded=recorded)
        _make_callbacks(config, opening)
        opening.saved = load_latest(folder, config)
        if opening.saved is not None and lower:
            opening.saved = fit_saved(opening.saved, lower, run.num_rows)
        if opening.saved is None and config.init_from is not None:
            opening.weights = read_initial_weights(config.init_from, runs_dir)
        if opening.saved and config.num_envs == "adaptive":
            run = run.with_num_envs(opening.saved["loop"]["num_envs"])
        check_shared(run, config)
        check_cluster(run)
        with explained_shortage(run), _open_envs(run, opening):
            run = _with_spaces(run, opening)
            if opening.weights is not None:
                check_initial_weights(opening.weights, run)
            with _open_loop(run, folder, opening, was_there=True) as opened:
                yield opened


def _world_again(recorded: RunConfig, world: Any) -> Any:
    """What makes the envs of a run whose world only the user has."""
    if world is None:
        return None
    if not recorded.world.startswith(OBJECT):
        raise UsageError(f"the run finds its world {recorded.world!r} itself: omit `world`")
    found = session_world(world)
    return find(found.name, options=found.options).factory if found.source is None else found.source


@contextmanager
def _open_envs(run: ResolvedRun, opening: Opening) -> Iterator[None]:
    """The run's envs, and its other processes if it has any: they end with it."""
    names = device_names(run.config)
    if len(names) == 1:
        shared: AbstractContextManager[RunAlone] = nullcontext(RunAlone())
    else:
        from rookery.training.run.rank_processes import start_processes

        shared = start_processes(names)
    with shared as opening.shared, open_envs(share_of(run, 0)) as opening.engine:
        yield


@contextmanager
def _open_loop(run: ResolvedRun, folder: RunDir, opening: Opening, was_there: bool = False) -> Iterator[OpenRun]:
    """The run's components and its loop, from the start or from a checkpoint. A run that was there before keeps the
    reason if it cannot continue."""
    shared, saved, weights = opening.shared, opening.saved, opening.weights
    learner = opening.learner = opening.make(run) if shared.ranks is None else make_learner(run, shared.ranks)
    changed = opening.changed
    if weights is not None:
        load_initial_weights(weights, learner)
        changed = ", ".join(filter(None, (changed, weights.note)))
    run = _complete("learner", run, opening)
    folder.write_config(run.config.model_dump(mode="json"))
    if folder.id is None:
        folder.remember(id=uuid.uuid4().hex)
    remember(folder, run.config)
    step = saved["loop"]["steps"] if saved else None
    before = None if opening.recorded is None else opening.recorded.model_dump(mode="json")
    note_opening(folder, step or 0, before, run.config.model_dump(mode="json"))
    given = {"stop": opening.stop, "callbacks": opening.callbacks, "shared": shared}
    with (
        small_products(learner),
        open_components(run, folder, opening.engine, learner, step, **given) as components,
        closing(Loop(run.config, components)) as loop,
    ):
        announce(loop, run, folder, step, changed)
        try:
            if not saved and getattr(learner.options, "dataset", None):
                _fill_replay(learner, f"{run.config.learner}.dataset")
            observations, infos = load_into(loop, saved) if saved else loop.begin()
            shared.begin(run.config, learner, saved["envs"] if saved else None, run.config.seed + (step or 0))
        except Exception as error:
            if was_there:
                write_failure(folder, loop, error)
            raise
        yield OpenRun(run, folder, loop, observations, infos)


def _fill_replay(learner: Learner, key: str) -> None:
    """Its module imports Numba, which some runs do without."""
    from rookery.training.run.dataset_start import fill_replay

    fill_replay(learner, learner.options.dataset, key)
