"""Opening a run: its folder, envs, learner and loop, for a new run or from a checkpoint of one that is there."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
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
from rookery.training.resolve.world_choice import OBJECT, find
from rookery.training.run.announcement import announce
from rookery.training.run.callbacks import Callback, make_callback
from rookery.training.run.components import (
    check_device,
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
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.trust import check_run, remember

MakeLearner = Callable[[ResolvedRun], Learner]


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
        saved = load_latest(folder, config)
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


def _world_again(recorded: RunConfig, world: Any) -> Any:
    """What makes the envs of a run whose world only the user has."""
    if world is None:
        return None
    if not recorded.world.startswith(OBJECT):
        raise UsageError(f"the run finds its world {recorded.world!r} itself: omit `world`")
    found = session_world(world)
    return find(found.name, options=found.options).factory if found.source is None else found.source


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
        announce(components.sinks, run, folder, engine, learner, step, changed)
        try:
            observations, infos = load_into(loop, saved) if saved else loop.begin()
            seed = run.config.seed + (step or 0)
            shared.begin(run.config, learner, saved["envs"] if saved else None, seed)
        except Exception as error:
            if begun is None:  # a run that was there before
                write_failure(folder, loop, error)
            raise
        if begun is not None:
            begun.append(True)
        yield OpenRun(run, folder, loop, observations, infos)


def open_shared_run(run: ResolvedRun) -> AbstractContextManager[RunAlone]:
    """The other processes of a run, which end with it; of most runs there are none."""
    names = device_names(run.config)
    if len(names) == 1:
        return nullcontext(RunAlone())
    from rookery.training.run.rank_processes import start_processes

    return start_processes(names)
