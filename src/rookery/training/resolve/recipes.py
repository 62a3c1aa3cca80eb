"""Recipes: settings that are known to work for a world and a learner. A world's spec names them; those of Gymnasium's
own tasks are in `worlds/known_recipes.py`.

Whatever the user gives has priority over a recipe. `benchmarks/learning.py` prints what the recipes reach.
"""

from __future__ import annotations

from copy import deepcopy
from fnmatch import fnmatchcase

from gymnasium import spaces as gs

from rookery.config import RunConfig, with_recipe
from rookery.errors import OptionError
from rookery.learners.plain_spaces import is_read_flat
from rookery.learners.registry import specs
from rookery.training.resolve.world_choice import World
from rookery.worlds import known_recipes, registry
from rookery.worlds.world_spec import Recipe, Recipes


def all_recipes() -> Recipes:
    """The recipes of all worlds, by run name (or a pattern for run names) and learner."""
    own = {name: by_learner for spec in registry.specs() for name, by_learner in spec.load_recipes().items()}
    return own | {name: by_learner for name, by_learner in known_recipes.GYMNASIUM.items() if name not in own}


def recipe_for(world: str, learner: str, kernel: bool) -> Recipe:
    """What to take for a world (by its run name) and a learner unless the user says otherwise."""
    known = _recipes_of(world).get(learner)
    if known is not None:
        return deepcopy(known)
    return {"num_envs": specs()[learner].kernel_envs} if kernel else {}


def with_usual_settings(config: RunConfig, world: str, kernel: bool) -> RunConfig:
    """With the recipe of the world, if the learner is known before an env is made."""
    learner = config.learner if config.learner != "auto" else usual_learner(world)
    if learner is None:
        return config
    chosen = config.model_copy(update={"learner": learner})
    recipe = recipe_for(world, learner, kernel)
    return with_recipe(chosen, recipe) if recipe else chosen


def usual_options(observation_space: gs.Space, action_space: gs.Space) -> Recipe:
    """What suits worlds that no recipe is known for: with continuous actions, PPO needs observations and rewards of
    about the same size, whatever their units are."""
    is_vector = isinstance(observation_space, gs.Box) and len(observation_space.shape) == 1
    if not is_vector or not isinstance(action_space, gs.Box):
        return {}
    return {"ppo": {"normalise_observations": True, "normalise_rewards": True}}


def small_image_options(observation_space: gs.Space, action_space: gs.Space) -> Recipe:
    """What suits small images and boards that no recipe is known for, with discrete actions: where things are in
    relation to each other takes a wider perceptron than a vector of measurements does. `benchmarks/snake.py` prints
    what PPO reaches with it."""
    if not is_read_flat(observation_space) or not isinstance(action_space, (gs.Discrete, gs.MultiDiscrete)):
        return {}
    network = {"hidden": [256, 128], "activation": "relu"}
    return {"ppo": {**network, "learning_rate": 1e-3, "minibatches": 8, "entropy": 0.01}}


def with_asset_columns(config: RunConfig, world: World) -> RunConfig:
    """With the layout of the world's observations by asset, for nets that assets share."""
    options = config.learner_options
    if not getattr(options, "share_weights", False) or options.asset_columns is not None:
        return config
    columns = getattr(world.kernel_world, "asset_columns", None)
    if columns is None:
        raise OptionError(
            f"`{config.learner}.share_weights`: {world.name} does not say which numbers of its observations are an "
            f"asset's, as crypto, perpetuals and forex-account do; `{config.learner}.asset_columns` says it"
        )
    return with_recipe(config, {config.learner: {"asset_columns": columns}})


def usual_learner(world: str) -> str | None:
    """The learner that is usually used for a known world: that of its first recipe."""
    return next(iter(_recipes_of(world)), None)


def _recipes_of(world: str) -> dict[str, Recipe]:
    name = world.removeprefix("rookery/")
    return next((dict(found) for pattern, found in all_recipes().items() if fnmatchcase(name, pattern)), {})
