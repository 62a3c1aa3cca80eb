"""From a world's name in a configuration to what is stepped, and to who can learn there. No torch here."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium import spaces as gs

from rookery.console import join_or, printable
from rookery.engine.autotune import probe
from rookery.engine.env_factory import EnvFactory, RegisteredEnv, file_meant, kernel_of, no_file, resolve, with_wrappers
from rookery.engine.wrapping import ImageSize
from rookery.errors import OptionError, RookeryError, WorldError
from rookery.foreign_names import world_answer
from rookery.kernel.two_players import EITHER, TwoPlayerWorld
from rookery.kernel.world import KernelWorld
from rookery.learners.registry import specs
from rookery.training.resolve.option_errors import explain_option_errors
from rookery.training.resolve.seats import seat_of
from rookery.user_code import OBJECT, name_in_file
from rookery.worlds import registry
from rookery.worlds.world_spec import WorldOption, WorldSpec

# Keywords of Gymnasium's and of rookery's own for how an env is made: options are the env's, and never among them.
NOT_OPTIONS = (
    "id", "world", "plain", "entry_point", "vector_entry_point", "vectorization_mode", "vector_kwargs", "wrappers",
    "additional_wrappers", "apply_api_compatibility", "autoreset", "disable_env_checker", "order_enforce", "kwargs",
)  # fmt: skip
SLOW_STEP = 0.05  # seconds of a step from which on steps are what a run should save
SESSION_NOTE = "the world is an object of this Python session, so that the run cannot be resumed from the shell"
VERSION = re.compile(r"-v(\d+)$")


@dataclass(frozen=True)
class World:
    """A world that was found: `make_vec(world.source, env_kwargs=world.env_kwargs)` steps it."""

    name: str  # for run names
    source: Any  # an id, "file.py:MyEnv", or the class or function itself
    kernel: bool
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    note: str = ""  # a choice made on the way, for the user to know
    wrappers: tuple[str, ...] = ()  # of every env, as "file.py:Name"
    image_size: ImageSize = "full"  # of observations, as the agent sees them

    @cached_property
    def factory(self) -> EnvFactory:
        """What builds its envs: `make_vec(world.factory)` looks nothing up again."""
        return self.factory_with()

    def factory_with(self, **kwargs: Any) -> EnvFactory:
        """The same with more keyword arguments."""
        found = with_wrappers(resolve(self.source, kwargs={**self.env_kwargs, **kwargs}), self.wrappers)
        return replace(found, image_size=self.image_size)

    @cached_property
    def kernel_world(self) -> KernelWorld | None:
        kernel = kernel_of(self.factory) if self.kernel else None
        return None if kernel is None else kernel.world

    @cached_property
    def spaces(self) -> tuple[gs.Space, gs.Space]:
        """The spaces of observations and actions of one env. For a world that is not a kernel world, a worker process
        builds an env: where an engine is there already, use its spaces."""
        if self.kernel_world is not None:
            return self.kernel_world.observation_space, self.kernel_world.action_space
        with explain_option_errors(self):
            description = probe(self.factory, seconds=0).description
        return description.observation_space, description.action_space


def find(
    world: str, compiled: bool = True, learner: str | None = None, options: Mapping[str, Any] | None = None
) -> World:
    """Look a world up by its id, its short name or its place in a file.

    Args:
        world: As the user wrote it.
        compiled: Use rookery's compiled version of a Gymnasium env, if there is one and it takes the options.
        learner: If it is known already; one for discrete actions only gets these where a world has both kinds.
        options: Keyword arguments for the world.

    Example:
        >>> find("CartPole-v1").source, find("CartPole-v1", compiled=False).source
        ('rookery/CartPole-v1', 'CartPole-v1')
    """
    if world.startswith(OBJECT):
        raise WorldError(
            f"the run was trained on an object of a Python session, {world.removeprefix(OBJECT)}, which cannot be "
            "found again by name. In Python, rookery.resume(run, world=...) takes the object, and rookery.load(run) "
            "the agent"
        )
    kwargs = dict(options or {})
    if ".py" not in world:
        _refuse_keywords(world, kwargs)
    known = registry.get(world)
    if known is not None:
        return _known(known, kwargs, learner, compiled)
    if world.endswith(".py") or ".py:" in world:
        return _in_file(world, kwargs)
    stands_in = registry.stand_in(world)
    if stands_in is not None:
        return _known(stands_in[0], {**stands_in[1], **kwargs}, learner)
    if ":" not in world and (world not in gym.registry or _is_removed(world)):
        successor = _successor(world)
        if successor is None:
            raise WorldError(_unknown(world))
        found = find(successor, compiled, learner, options)
        return replace(found, note=f"{world}: using {successor}, its newest version here. {found.note}".strip())
    version = registry.compiled_version(world) if compiled else None
    if version is not None:
        return _compiled(version, kwargs)
    return _plain(world, kwargs)


def _is_removed(world: str) -> bool:
    """Whether Gymnasium registers an id only to say that its env is gone, as for versions that need mujoco-py."""
    return getattr(gym.registry[world].entry_point, "__name__", "").startswith("_raise")


def _successor(world: str) -> str | None:
    """The newest registered version of an id that is given without a version, or with an older one, which Gymnasium
    removes at times."""
    title, version = VERSION.sub("", world), _version(world) if VERSION.search(world) else -1
    newest = max((name for name in gym.registry if VERSION.sub("", name) == title), key=_version, default=None)
    return newest if newest is not None and _version(newest) > version else None


def _refuse_keywords(world: str, options: Mapping[str, Any]) -> None:
    for key in NOT_OPTIONS:
        if key in options:
            raise OptionError(
                f"{world!r}: `{key}` configures how the env is created and cannot be a world option; omit it"
            )


def recorded_options(world: World, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a world as a run stores them: files and folders by their absolute paths, so that it can be resumed
    from any folder."""
    spec = registry.by_source(world.source)
    files = {option.name: option for option in spec.options if option.is_file or option.is_folder} if spec else {}
    return {key: _absolute_path(value, files[key]) if key in files else value for key, value in options.items()}


def _absolute_path(value: Any, option: WorldOption) -> Any:
    if not isinstance(value, (str, Path)):
        return value
    if ".py:" in str(value):
        file, _, name = str(value).rpartition(":")
        return f"{Path(file).expanduser().resolve()}:{name}"
    path = Path(value).expanduser()
    named = bool(path.suffix) and os.path.isfile(path)  # what has no suffix is a profile's name
    return str(path.resolve()) if named or (option.is_folder and os.path.exists(path)) else value


def without_training_options(world: World) -> World:
    """The world as envs that evaluate and show an agent have it."""
    spec = registry.by_source(world.source)
    if spec is None or spec.training_options is None:
        return world
    own = spec.training_options(world.env_kwargs, 1, 1)
    added = {} if spec.evaluation_options is None else spec.evaluation_options(world.env_kwargs)
    rest = {name: value for name, value in world.env_kwargs.items() if name not in own}
    return replace(world, env_kwargs={**rest, **added})


def training_options(world: World, options: Mapping[str, Any], steps: int, num_envs: int) -> dict[str, Any]:
    """Those options that only envs which train get."""
    spec = registry.by_source(world.source)
    return {} if spec is None or spec.training_options is None else spec.training_options(options, steps, num_envs)


def episode_option(world: World) -> str:
    """The world's option for the most steps of an episode."""
    spec = registry.by_source(world.source)
    if spec is not None and spec.episode_length_option is not None:
        return spec.episode_length_option
    if isinstance(world.source, str) and world.source in gym.registry:
        return "max_episode_steps"
    raise OptionError(
        f"{world.name} decides itself how long its episodes are: omit `episode_length`, and give the world an "
        "option for it, as in --set world_options.length=500"
    )


def name_of_object(world: Any) -> str:
    """The name of a class or function in a config: "file.py:MyEnv". Strings are returned unchanged."""
    name = world if isinstance(world, str) else name_in_file(world)
    if name is None:
        raise WorldError(
            f"{world!r} has no name that a run could record, and a resumed run must find its world again: "
            "give a class or function at the top of a file, 'file.py:MyEnv', or a registered id"
        )
    return name


def world_of_object(world: Any, name: str, options: Mapping[str, Any]) -> World:
    """The world of a class or function that the user gave: it is not imported from its file, which may be the running
    script."""
    path, _, attribute = name.rpartition(":")
    if options and isinstance(world, EnvFactory) and not any(hasattr(maker, "kwargs") for maker in world.makers):
        raise OptionError(f"{attribute} is made already: give its options when it is made, not as world_options")
    source = resolve(world, kwargs=dict(options))
    kernel = kernel_of(source) is not None
    maker = source.makers[0]
    alone = isinstance(world, EnvFactory) and len(source.makers) == 1 and not source.wrappers
    if alone and isinstance(maker, RegisteredEnv) and maker.spec.id in gym.registry:  # the id leads to its WorldSpec
        return World(printable(attribute), maker.spec.id, kernel, dict(maker.kwargs), SESSION_NOTE)
    if name.startswith(OBJECT):
        return World(printable(attribute), world, kernel, dict(options), SESSION_NOTE)
    return World(printable(f"{Path(path).stem}-{attribute}"), world, kernel, dict(options))


def duel_of(world: World) -> World:
    """As `two_player_form`; refuses a world whose spaces cannot be those of two players."""
    form = two_player_form(world)
    if not is_two_player(form) and seat_of(*form.spaces) is None:
        raise not_for_two_players(world)
    return form


def two_player_form(world: World, *, training: bool = False) -> World:
    """The two-player form of a world: one env has both players (see `training.resolve.seats`).

    The options are kept; the opponent becomes `player_two`. Actions are continuous there, so that all agents can play
    each other; in `training`, discrete actions are kept, and the learner plays both sides of a world whose agents may
    differ. A world that has no other form is returned unchanged.

    Example:
        >>> duel_of(find(registry.default_game().name, options={"opponent": "strong", "mode": "shooting"})).env_kwargs
        {'mode': 'shooting', 'player_two': 'strong'}
    """
    spec = registry.by_source(world.source)
    form = None if spec is None else spec.two_player
    if form is None:
        return _form_for_two_agents(world, training) if num_agents(world) > 1 else world
    options = world.env_kwargs if world.source == form.source else form.from_one_player(world.env_kwargs)
    dropped = form.unused_options if training else form.unused_options + form.discrete_options
    kept = {key: value for key, value in options.items() if key not in dropped}
    return replace(world, source=form.source, env_kwargs=kept)


def num_agents(world: World) -> int:
    """How many agents an env of the world has."""
    return 1 if world.kernel_world is None else world.kernel_world.num_agents


def takes_turns(world: World) -> bool:
    """Whether the agents of the world take turns."""
    return world.kernel_world is not None and world.kernel_world.turn is not None


def _form_for_two_agents(world: World, training: bool) -> World:
    """The two-player form of a kernel world with two agents. In training, the learner is either agent, drawn in each
    episode: opponents and evaluations need both sides. Scripts of the world decide the sides themselves."""
    kernel_world = world.kernel_world
    assert kernel_world is not None
    has_scripts = not {"opponent", "player_two"}.isdisjoint((*kernel_world.values, *kernel_world.aliases))
    form = TwoPlayerWorld(kernel_world, EITHER if training and not has_scripts else 0)
    return replace(world, source=form, env_kwargs={})


def not_for_two_players(world: World) -> WorldError:
    """The error for a world that should be in its two-player form."""
    return WorldError(
        f"{world.name} is not a two-player game: it should be a kernel world with num_agents = 2, or the action of "
        f"one env "
        f"should hold both players' actions in order, and the info obs_agent_two the second player's view; of those "
        f"that come with rookery it is {' or '.join(spec.name for spec in registry.specs() if spec.two_player)}"
    )


def is_two_player(world: World) -> bool:
    """Whether it is the two-player form of a game that the registry knows."""
    return registry.is_two_player(registry.by_source(world.source), world.source)


def choose_learner(action_space: gs.Space, step_seconds: float = 0.0) -> str:
    """PPO, or where steps are slow, and actions continuous, SAC: it learns from fewer steps, but its updates cost more
    than most steps (on a CPU, tens of milliseconds each)."""
    able = _able_or_refuse(action_space)
    efficient = [name for name in able if specs()[name].sample_efficient and step_seconds >= SLOW_STEP]
    return (efficient or able)[0]


def check_learner(learner: str, action_space: gs.Space, observation_space: gs.Space | None = None) -> None:
    """Refuse a learner that does not support these spaces, and name those that do."""
    able = _able_or_refuse(action_space)
    if learner not in able:
        raise OptionError(
            f"learner {learner!r} cannot act in {action_space}: {specs()[learner].needs}; "
            f"here it can be {join_or(able)}"
        )
    odd = next((part for part in _leaves(observation_space) if not isinstance(part, LEARNABLE)), None)
    if odd is not None:
        raise OptionError(
            f"no learner can take observations in {odd}: turn them into a Box, Discrete, MultiDiscrete, MultiBinary, "
            "or a Dict or Tuple of these, with a wrapper such as gymnasium.wrappers.TransformObservation"
        )


def _able_or_refuse(action_space: gs.Space) -> list[str]:
    """The learners that support an action space; the first is the usual choice."""
    able = [name for name, spec in specs().items() if spec.supports(action_space)]
    if not able:
        raise OptionError(
            f"no learner can act in {action_space}: it should be a Discrete, MultiDiscrete, MultiBinary or a Box of "
            "floats, or a Dict or Tuple of these; gymnasium.wrappers.TransformAction can make it one"
        )
    return able


LEARNABLE = (gs.Box, gs.Discrete, gs.MultiDiscrete, gs.MultiBinary)


def _leaves(space: gs.Space | None) -> list[gs.Space]:
    if isinstance(space, gs.Dict):
        return [leaf for part in space.spaces.values() for leaf in _leaves(part)]
    if isinstance(space, gs.Tuple):
        return [leaf for part in space.spaces for leaf in _leaves(part)]
    return [] if space is None else [space]


def _plain(world: str, kwargs: dict[str, Any], note: str = "") -> World:
    source = resolve(world, kwargs=kwargs)
    name = re.sub(r"[^\w.+=-]+", "-", source.name.removeprefix("rookery/"))
    return World(name, world, kernel_of(source) is not None, kwargs, note)


def _in_file(world: str, kwargs: dict[str, Any]) -> World:
    path, _, attribute = world.rpartition(":") if not world.endswith(".py") else (world, "", "")
    if not attribute and os.path.isfile(path):
        raise WorldError(f"{world!r}: name the class in the file as well, such as {path}:MyEnv")
    if not attribute:
        raise WorldError(no_file(world, path))
    source = resolve(world, kwargs=kwargs)
    place = f"{Path(path).resolve()}:{attribute}"  # to be found again from anywhere, when the run is resumed
    return World(printable(f"{Path(path).stem}-{attribute}"), place, kernel_of(source) is not None, kwargs)


def _known(spec: WorldSpec, kwargs: dict[str, Any], learner: str | None, compiled: bool = False) -> World:
    """A world that the registry knows by name."""
    if learner in specs() and not specs()[learner].supports(gs.Box(-1.0, 1.0)):
        kwargs = {**spec.discrete_options, **kwargs}
    elif learner in specs() and not specs()[learner].supports(gs.Discrete(2)):
        kwargs = {**spec.continuous_options, **kwargs}
    is_kernel = spec.is_kernel
    if is_kernel is None:
        is_kernel = kernel_of(resolve(spec.source, kwargs=kwargs)) is not None
    name = spec.name if spec.run_name is None else spec.run_name(kwargs)
    plain = World(name, spec.source, is_kernel, env_kwargs=kwargs)
    return plain if spec.compiled is None or not compiled else _compiled_if_possible(spec.compiled, plain)


def _compiled_if_possible(source: str, plain: World) -> World:
    """The compiled version of a world, unless it refuses these options."""
    if find_spec("numba") is None:
        return plain
    try:
        kernel_of(resolve(source, kwargs=plain.env_kwargs))
    except RookeryError as error:
        return replace(plain, note=f"{plain.name}: not compiled: {error}")
    note = f"{plain.name}: using the compiled version {source}; --set compiled=false keeps {plain.source}"
    return replace(plain, source=source, kernel=True, note=note)


def _compiled(spec: WorldSpec, kwargs: dict[str, Any]) -> World:
    """The compiled version of a Gymnasium env, unless it cannot be compiled here or does not know the options."""
    world = str(spec.original)
    if find_spec("numba") is None:
        hint = f"{world}: pip install 'rookery[{spec.extra}]' brings a compiled version, which is far faster"
        return _plain(world, kwargs, hint)
    try:
        kernel_of(resolve(spec.source, kwargs=kwargs))
    except RookeryError as error:
        if "did you mean" in str(error):  # a name that is nearly one of the compiled version is not one of Gymnasium's
            raise
        return _plain(world, kwargs, f"{world}: using Gymnasium's env, as rookery's compiled version refuses: {error}")
    note = f"{world}: using rookery's compiled version {spec.source}; --set compiled=false keeps Gymnasium's"
    return World(world, spec.source, kernel=True, env_kwargs=kwargs, note=note)


def _unknown(world: str) -> str:
    if meant := file_meant(world):
        return f"there is no world {world!r}; did you mean {meant}?"
    if os.path.isdir(world):
        return f"{world!r} is a folder: name a config file, or a class in a file, such as my_file.py:MyEnv"
    if world.lower() in specs():
        return (
            f"{world!r} is a learner; the world comes first, as in rookery train CartPole-v1 --learner {world.lower()}"
        )
    near = _near(world)
    if foreign := world_answer(world, near):
        return f"there is no world {world!r}: {foreign}"
    if near:
        return f"there is no world {world!r}; did you mean {join_or(near)}?"
    return (
        f"there is no world {world!r}: give a Gymnasium id such as CartPole-v1 or package:MyEnv-v0, a class in a file "
        f"such as my_env.py:MyEnv, a config file (.toml, .json, .yaml), or one of {', '.join(registry.names())}"
    )


def _near(world: str) -> list[str]:
    """The nearest names, each by its newest version."""
    newest: dict[str, str] = {}
    for name in sorted(gym.registry, key=_version):
        newest[VERSION.sub("", name)] = name
    titles: dict[str, list[str]] = {}
    for name, full in [*newest.items(), *((short, short) for short in registry.names())]:
        titles.setdefault(name.rpartition("/")[2].lower(), []).append(full)
    asked = VERSION.sub("", world).lower().rpartition("/")[2]
    close = difflib.get_close_matches(asked, titles, n=3, cutoff=0.6)
    if asked in close:
        close = [asked]
    return [name for title in close for name in _without_namesakes(titles[title])]


def _without_namesakes(names: list[str]) -> list[str]:
    """Of worlds with one title, those that need no prefix, if there are any: a compiled version needs no name."""
    return [name for name in names if "/" not in name] or names


def _version(name: str) -> int:
    found = VERSION.search(name)
    return int(found[1]) if found else 0
