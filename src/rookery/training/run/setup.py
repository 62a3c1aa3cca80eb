"""What a run needs, made from its configuration: the world, the engine, the learner, the evaluator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from rookery.config import RunConfig, resolve
from rookery.config.validation import check_phases
from rookery.console import meanwhile, say
from rookery.engine.autotune import Choice
from rookery.engine.engine import Engine
from rookery.engine.env_factory import kernel_of
from rookery.engine.machine import usable_cores
from rookery.engine.make_vec import make_vec, plan
from rookery.engine.seeding import child_seed
from rookery.errors import OptionError
from rookery.kernel.tables import check_same
from rookery.learners.cpu_threads import threads_for
from rookery.learners.learner import Learner
from rookery.learners.observations import leaves_of
from rookery.learners.registry import make_learner
from rookery.training.curriculum.setup_curriculum import (
    anchored,
    check_opponents,
    judges,
    length_of,
    seat_in,
    world_for,
)
from rookery.training.evaluation.evaluator import EVALUATION_KEY, Evaluator
from rookery.training.resolve.recipes import recipe_for, usual_learner
from rookery.training.resolve.seats import Seat
from rookery.training.resolve.world_choice import (
    World,
    check_learner,
    choose_learner,
    episode_option,
    find,
    given_world,
    lasting_options,
)
from rookery.training.run.memory_check import check_memory, enough_memory

MOST_OBJECTS = 100_000  # envs that are an object each


def settle(given: dict[str, Any], actual: Any = None) -> tuple[RunConfig, World]:
    """Answer what the user left open about the learner, before anything is started. `actual` is the class or function
    that the config's world names, if that is at hand."""
    if given.get("num_envs") == "auto":  # as if nothing had been said, so that a recipe can speak
        given = {key: value for key, value in given.items() if key != "num_envs"}
    first = resolve(given)
    named = None if first.learner == "auto" else first.learner
    if actual is not None:
        world = given_world(actual, first.world, first.world_options)
    else:
        world = find(first.world, first.takes_twin, named, first.world_options)
    if first.episode_length is not None:  # from here on an option of the world like others
        option = {episode_option(world): first.episode_length}
        others = {key: value for key, value in given.items() if key != "episode_length"}
        return settle({**others, "world_options": {**first.world_options, **option}}, actual)
    seat = seat_in(first, world_for(first, world))
    learner = named or usual_learner(world.name) or choose_learner(seat.action_space, world.kernel)
    check_learner(learner, seat.action_space, seat.observation_space)
    config = resolve(given, recipe_for(world.name, learner, world.kernel))
    check_memory(learner, seat.observation_space, seat.action_space, getattr(config, learner))
    changes: dict[str, Any] = {"learner": learner, "device": _device(config.device, seat.observation_space)}
    changes |= length_of(config, given) | anchored(config)
    changes["world_options"] = lasting_options(world, config.world_options)
    if isinstance(world.source, str) and ".py:" in world.source:
        changes["world"] = world.source  # its whole path, so that the run can be resumed from anywhere
    config = config.model_copy(update=changes)
    check_phases(config)  # the learner is known only now
    check_opponents(config)
    return config, world


def check_device(wish: str) -> None:
    """Refuse one that is not here."""
    if wish.startswith("cuda") and not torch.cuda.is_available():
        raise OptionError(f"device={wish!r} was asked for, but torch finds no CUDA GPU here; device='cpu' works")
    if wish == "mps" and not torch.backends.mps.is_available():
        raise OptionError("device='mps' was asked for, but torch finds none here; device='cpu' works")


def _device(wish: str, observation_space: Any) -> str:
    """A GPU pays for images; for vectors the nets are so small that a CPU is as quick."""
    check_device(wish)
    if wish != "auto":
        return wish
    images = any(leaf.kind == "image" for leaf in leaves_of(observation_space))
    return "cuda" if images and torch.cuda.is_available() else "cpu"


def planned(config: RunConfig, world: World, saved: Any = None) -> RunConfig:
    """With everything about the engine answered, so that resuming need not measure again."""
    if config.num_envs == "adaptive":
        if world.kernel:
            raise OptionError(
                f"num_envs='adaptive' is for worlds in processes; {world.name} is compiled: give a number"
            )
        changes = {"backend": "process", "groups": 1, "workers": min(usable_cores(), _first_envs(saved))}
        return config.model_copy(update=changes)
    wish = config.num_envs if isinstance(config.num_envs, int) else None
    if wish is not None and wish > MOST_OBJECTS and not world.kernel:
        raise OptionError(f"`num_envs` = {wish:,}: of a world that is not compiled there are {MOST_OBJECTS:,} at most")
    backend = "process" if config.step_timeout is not None and not world.kernel else config.backend
    workers = config.workers
    if backend == "process" and wish is not None and workers is None:
        workers = min(usable_cores(), wish)
    with meanwhile(f"measuring a step of {world.name}") if not world.kernel else nullcontext():
        choice = plan(world.source, wish, backend, workers, config.start_method, world.env_kwargs)
    changes = {
        "num_envs": choice.num_envs,
        "backend": choice.backend,
        "workers": choice.workers,
        "groups": _groups(config, choice),
    }
    return config.model_copy(update=changes)


def _groups(config: RunConfig, choice: Choice) -> int:
    """With 2, the policy acts for one half of the envs while the other half steps in its workers."""
    if config.has_curriculum:
        if config.groups == 2:
            say("groups=1 instead of 2: with phases, opponents or a reward scale, all envs are stepped at once")
        return 1
    overlap = choice.backend == "process" and config.learner == "ppo" and choice.num_envs > 1
    return config.groups or (2 if overlap else 1)


def _first_envs(saved: Any) -> int:
    """How many envs an adaptive run goes on or begins with."""
    return saved["loop"]["num_envs"] if saved else usable_cores()


@contextmanager
def open_engine(config: RunConfig, world: World, saved: Any = None) -> Iterator[Engine]:
    """An engine, closed in the end; where envs are more than arrays, that is told."""
    engine = make_engine(config, world, saved)
    try:
        yield engine
    finally:
        engine.close()
        if engine.backend != "kernel":
            say(f"closed {engine.num_envs} env{'s' if engine.num_envs > 1 else ''}")


def make_engine(config: RunConfig, world: World, saved: Any = None) -> Engine:
    return make_vec(
        world.source,
        config.num_envs if isinstance(config.num_envs, int) else _first_envs(saved),
        config.backend,
        config.workers,
        groups=config.groups or 1,
        start_method=config.start_method,
        autoreset_mode="SameStep",
        copy=False,
        env_kwargs=world.env_kwargs,
        **_guard(config),
    )


def _guard(config: RunConfig) -> dict[str, Any]:
    """What an engine does about failures."""
    return {
        "step_timeout": config.step_timeout,
        "on_failure": config.on_failure,
        "max_restarts": config.max_restarts,
        "bad_values": config.bad_values,
    }


def with_threads(config: RunConfig, learner: Learner) -> RunConfig:
    """With the number of threads that suits the learner's nets on this machine."""
    options = learner.options
    if config.device == "cpu" and options.threads is None:
        with enough_memory(config.learner):
            threads = threads_for(learner, config.learner, usable_cores())
        options = options.model_copy(update={"threads": threads})
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    return config.model_copy(update={config.learner: options})


def with_tables(config: RunConfig, envs: Engine) -> RunConfig:
    """With shape and hash of the world's tables; refuses others than those that the run was begun with."""
    kernel = kernel_of(envs.source)
    facts = {} if kernel is None else kernel.world.table_facts
    if config.tables:
        check_same(envs.source.name, config.tables, facts)
    return config.model_copy(update={"tables": facts})


def make_evaluator(config: RunConfig, world: World) -> Evaluator:
    wish = config.evaluation
    seed = child_seed(config.seed, EVALUATION_KEY) if wish.seed is None else wish.seed
    opponents = judges(config, world) if config.has_curriculum or wish.opponents else ()
    return Evaluator(
        world, config.backend, wish.episodes, seed, wish.deterministic, opponents, config.runs_dir, **_guard(config)
    )


def learner_for(config: RunConfig, world: World, envs: Engine) -> Learner:
    seat = (
        seat_in(config, world)
        if config.has_curriculum
        else Seat(envs.single_observation_space, envs.single_action_space)
    )
    sees, does, options = seat.observation_space, seat.action_space, getattr(config, config.learner)
    check_memory(config.learner, sees, does, options)
    with enough_memory(config.learner):
        return make_learner(config.learner, sees, does, options, envs.num_envs, config.seed, config.device)
