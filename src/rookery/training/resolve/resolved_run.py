"""A run, resolved once: from what the user gave, or from the config in a run's folder, to a world and an engine."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any

from gymnasium import Space

from rookery.config import RunConfig, with_recipe
from rookery.config.layers import merge
from rookery.config.run_size import check_run_size
from rookery.config.validation import check_phases
from rookery.engine.autotune import Choice
from rookery.engine.cost_memory import Probe
from rookery.engine.machine import usable_cores
from rookery.engine.seeding import child_seed
from rookery.engine.wrapping import USUAL_SIZE, ImageSize, size_of
from rookery.training.resolve.engine_choice import choose_engine, engine_recipe, measure, with_engine, with_gpu
from rookery.training.resolve.recipes import (
    recipe_for,
    small_image_options,
    usual_learner,
    usual_options,
    with_asset_columns,
)
from rookery.training.resolve.seats import (
    Seat,
    needs_two_player_form,
    seat_of,
    with_absolute_paths,
    with_length_in_episodes,
    with_steps_of_phases,
)
from rookery.training.resolve.tensor_world import TensorWorld, tensor_run
from rookery.training.resolve.world_choice import (
    World,
    choose_learner,
    episode_option,
    find,
    not_for_two_players,
    num_agents,
    recorded_options,
    training_options,
    two_player_form,
    without_training_options,
    world_of_object,
)
from rookery.worlds.world_spec import Recipe

EVALUATION_KEY = 1_000_003  # sets the evaluation's seed apart from those of all envs


@dataclass(frozen=True)
class ResolvedRun:
    """All that is decided about a run before its envs are started. Nothing after this looks a world up again."""

    config: RunConfig  # complete, with the learner and the engine
    world: World  # as the user named it: evaluations and videos use this one
    env_world: World  # what the run's envs are: `world`, or its two-player form if an opponent is a policy
    num_envs: int  # to begin or resume with: an adaptive run changes it
    seat: Seat | None = None  # the learner's spaces; None until the engine's first env gives them
    choice: Choice | None = None  # of the backend, if it was open and an env was measured

    @property
    def num_rows(self) -> int:
        """The rows of the learner's batch: every agent of every env."""
        return self.num_envs * num_agents(self.env_world)

    @property
    def title(self) -> str:
        """A name for the run's folder, if the user gave none."""
        suffix = f"_vec{self.config.num_envs}" if isinstance(self.config.num_envs, int) else ""
        world = re.sub(r"[^A-Za-z0-9_.+=,@-]+|[.]{2,}", "-", self.world.name).strip("-.")[:60]  # a file has any name
        return f"{world or 'world'}-{self.config.learner}-s{self.config.seed}{suffix}"

    def with_config(self, **changes: Any) -> ResolvedRun:
        """The same run with other values of some keys."""
        return replace(self, config=self.config.model_copy(update=changes))

    def with_num_envs(self, num_envs: int) -> ResolvedRun:
        """The same adaptive run with as many envs as it had when it was saved."""
        run = replace(self, num_envs=num_envs)
        return run.with_config(workers=min(usable_cores(), num_envs))

    def with_image_size(self, full: Space | None) -> ResolvedRun:
        """The same run with the size of images that `image_size="auto"` led to; `full` is the observation space before
        images were shrunk, None if they were not."""
        if self.config.image_size != "auto":
            return self
        size: ImageSize = "full" if full is None else USUAL_SIZE
        worlds = {name: replace(getattr(self, name), image_size=size) for name in ("world", "env_world")}
        recorded = size if isinstance(size, str) else list(size)
        return replace(self.with_config(image_size=recorded), **worlds)

    def with_spaces(self, observation_space: Space, action_space: Space) -> ResolvedRun:
        """The same run with the learner's seat, from the spaces of one env."""
        seat = _seat(self.config, self.env_world, observation_space, action_space)
        has_own = bool(recipe_for(self.world.name, self.config.learner, self.world.kernel))
        recipe = {} if has_own else usual_options(seat.observation_space, seat.action_space)
        if not recipe_for(self.world.name, self.config.learner, kernel=False):
            recipe = recipe or small_image_options(seat.observation_space, seat.action_space)
        return replace(self, seat=seat, config=with_recipe(self.config, recipe) if recipe else self.config)


def resolve_run(config: RunConfig, world_object: Any = None, *, may_take_gpu: bool = False) -> ResolvedRun:
    """A new run from a valid config. `world_object` is the class or function that `config.world` names, if the user
    gave that. With `may_take_gpu`, a run whose device is open takes the machine's GPU where that pays: not one of many
    runs, which share the machine.

    No env is built in this process: the spaces of a kernel world are known, and those of others come from a worker.
    Vector envs of other libraries are the exception.
    """
    if isinstance(world_object, TensorWorld):
        return _resolve_tensor_run(with_length_in_episodes(config), world_object)
    world, config = _find_world(with_length_in_episodes(config), world_object)
    env_world = _env_world(config, world)
    spaces = env_world.spaces if env_world.kernel else None
    learner = config.learner if config.learner != "auto" else usual_learner(world.name)
    measured: Probe | None = None
    if learner is None:
        if spaces is None:
            measured = measure(config, env_world)
            spaces = measured.description.observation_space, measured.description.action_space
        action_space = _seat(config, env_world, *spaces).action_space
        learner = choose_learner(action_space, measured.step_seconds if measured else 0.0)
    config = with_gpu(config.model_copy(update={"learner": learner}), env_world, may_take_gpu)
    recipe = merge(recipe_for(world.name, learner, world.kernel), engine_recipe(config, world))
    if recipe:
        world = _with_usual_options(world, recipe.get("world_options", {}), learner)
        world, config = _with_episode_length(world, with_recipe(config, recipe))
        env_world = _env_world(config, world)
        if "world_options" in recipe:  # they may change the spaces
            spaces, measured = env_world.spaces if env_world.kernel else None, None
    config = with_asset_columns(config, env_world)
    config = with_steps_of_phases(config)
    config = with_absolute_paths(config)
    check_phases(config)  # the learner is known only now
    check_run_size(config)  # and with it the settings of its recipe
    choice = choose_engine(config, env_world, measured if measured and measured.step_seconds else None)
    if spaces is None and choice.description is not None:
        spaces = choice.description.observation_space, choice.description.action_space
    measured_choice = choice if config.backend == "auto" and choice.cost is not None else None
    run = ResolvedRun(with_engine(config, choice), world, env_world, choice.num_envs, choice=measured_choice)
    run = _with_training_options(run)
    return run if spaces is None else run.with_spaces(*spaces)


def resolve_recorded_run(config: RunConfig, *, resuming: bool = False, world_object: Any = None) -> ResolvedRun:
    """A run that is there already, from the config in its folder. Only one that is `resuming` needs its engine again;
    what its config does not record about that is measured. `world_object` is its world, if only the user has it."""
    config = with_recorded_image_size(with_absolute_paths(config))
    if isinstance(world_object, TensorWorld):
        return _resolve_tensor_run(config, world_object)
    if world_object is None:
        world = wrapped(config, find(config.world, config.takes_compiled, config.learner, config.world_options))
    else:
        world = wrapped(config, world_of_object(world_object, config.world, config.world_options))
    env_world = _env_world(config, world)
    if not resuming:
        return ResolvedRun(config, world, env_world, config.num_envs if isinstance(config.num_envs, int) else 1)
    check_run_size(config)
    choice = choose_engine(config, env_world)
    return _with_training_options(ResolvedRun(with_engine(config, choice), world, env_world, choice.num_envs))


def _resolve_tensor_run(config: RunConfig, source: TensorWorld) -> ResolvedRun:
    config, world, spaces = tensor_run(with_absolute_paths(config), source)
    assert isinstance(config.num_envs, int)
    return ResolvedRun(config, world, world, config.num_envs).with_spaces(*spaces)


def evaluation_seed(config: RunConfig) -> int:
    """The seed of a run's evaluations."""
    seed = config.evaluation.seed
    return child_seed(config.seed, EVALUATION_KEY) if seed is None else seed


def _find_world(config: RunConfig, world_object: Any) -> tuple[World, RunConfig]:
    """The world, and the config as a run should record it: with absolute paths, and `episode_length` as an option of
    the world."""
    if world_object is not None:
        world = world_of_object(world_object, config.world, config.world_options)
    else:
        named = None if config.learner == "auto" else config.learner
        world = find(config.world, config.takes_compiled, named, config.world_options)
    world, config = _with_episode_length(wrapped(config, world), config)
    changes: dict[str, Any] = {"world_options": recorded_options(world, config.world_options)}
    if isinstance(world.source, str) and ".py:" in world.source:
        changes["world"] = world.source  # its absolute path, so that the run can be resumed from any folder
    return world, config.model_copy(update=changes)


def _with_episode_length(world: World, config: RunConfig) -> tuple[World, RunConfig]:
    """`episode_length` as an option of the world, as a run records it, unless that option is given already."""
    if config.episode_length is None:
        return world, config
    name = episode_option(world)
    length = {} if name in config.world_options else {name: config.episode_length}
    options = {**config.world_options, **length}
    world = replace(world, env_kwargs={**world.env_kwargs, **length})
    return world, config.model_copy(update={"world_options": options, "episode_length": None})


def _with_usual_options(world: World, options: Recipe, learner: str) -> World:
    """With options from a recipe that the user did not give, and a note that says so."""
    open_options = {name: value for name, value in options.items() if name not in world.env_kwargs}
    if not open_options:
        return world
    said = " ".join(f"--set world_options.{name}={json.dumps(value)}" for name, value in open_options.items())
    notes = (world.note, f"the recipe of {learner} for {world.name} has {said}; give another value to change it")
    return replace(world, env_kwargs={**open_options, **world.env_kwargs}, note="; ".join(filter(None, notes)))


def with_recorded_image_size(config: RunConfig) -> RunConfig:
    """The config of a recorded run. New runs record what "auto" led to; older ones had all images at full size."""
    return config.model_copy(update={"image_size": "full"}) if config.image_size == "auto" else config


def wrapped(config: RunConfig, world: World) -> World:
    """With the config's wrappers and image size. They are Python code: a kernel world is stepped env by env then."""
    size = size_of(config.image_size)
    if size == "auto" and world.kernel:
        size = "full"  # nothing is worth leaving compiled code without being asked
    kernel = world.kernel and not config.wrappers and size == "full"
    return replace(without_training_options(world), wrappers=tuple(config.wrappers), image_size=size, kernel=kernel)


def _with_training_options(run: ResolvedRun) -> ResolvedRun:
    """With the options that only envs which train get: those that are measured or evaluate do not have them."""
    options = training_options(run.env_world, run.config.world_options, run.config.steps, run.num_envs)
    if not options:
        return run
    env_world = replace(run.env_world, env_kwargs={**run.env_world.env_kwargs, **options})
    return replace(run.with_config(world_options={**run.config.world_options, **options}), env_world=env_world)


def _env_world(config: RunConfig, world: World) -> World:
    return two_player_form(world, training=True) if needs_two_player_form(config) else world


def _seat(config: RunConfig, world: World, observation_space: Space, action_space: Space) -> Seat:
    """What the learner observes and does: in a two-player world, one player's half."""
    if not needs_two_player_form(config):
        return Seat(observation_space, action_space)
    seat = seat_of(observation_space, action_space)
    if seat is None:
        raise not_for_two_players(world)
    return seat
