"""What rookery knows about a world by name. A spec holds texts and light functions only: whatever is heavy is named as
"package.module:name" and imported when it is used, so that reading every spec imports no torch, numba, pygame or PyBoy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rookery.lazy import load_object

if TYPE_CHECKING:
    import numpy as np
    from gymnasium import spaces

Recipe = dict[str, Any]  # settings of a run that are known to work, as in a config file
Recipes = Mapping[str, Mapping[str, Recipe]]  # by run name (a pattern, the first that fits) and by learner


class Viewer(Protocol):
    """Draws one env of a world, for worlds that show more than `env.render()` does, such as names and a score.

    It is made as `MyViewer(env, fps, names)`: the KernelEnv or gymnasium.Env, the steps per second, and the names of
    both players of a two-player game (None otherwise).
    """

    @property
    def closed(self) -> bool:
        """Whether the user has closed the window."""

    def draw(self, mode: str) -> np.ndarray | None:
        """The env as it is now: an array for "rgb_array"; shown in a window for "human"."""

    def end_episode(self, info: Mapping[str, Any]) -> None:
        """An episode has ended with this info."""

    def close(self) -> None:
        """Close the window, if there is one."""


class AgentReport(Protocol):
    """What a world's `report` function returns about an agent, such as the backtest of a market world."""

    @property
    def summary(self) -> Mapping[str, Any]:
        """All of it, as plain data; "verdict" is the result as one sentence."""

    def print(self) -> None:
        """Print it on standard output."""

    def write(self, folder: Path) -> Path:
        """Write it as files. Returns the one to open first."""


@dataclass(frozen=True)
class WorldOption:
    """An option of a world that has a flag of its own in `rookery train`."""

    name: str  # as the env takes it; the flag is --name, with dashes for underscores
    metavar: str
    help: str
    is_file: bool = False  # a run stores an existing file by its absolute path
    is_folder: bool = False  # the same for an existing folder, or a file without a suffix
    connects: tuple[str, ...] = ()  # values for which the world connects to a service


@dataclass(frozen=True)
class TwoPlayerForm:
    """The form of a game in which one env holds both players (see `rookery.training.resolve.seats`)."""

    source: str  # the Gymnasium id
    from_one_player: Callable[[Mapping[str, Any]], dict[str, Any]] = dict  # options of the one-player form, translated
    unused_options: tuple[str, ...] = ()  # options that this form is never given
    discrete_options: tuple[str, ...] = ()  # options that make the actions discrete
    player_spaces: str | None = None  # function () -> (observation space, action space) of one player
    # Function (observation space, continuous action space, discrete action space) -> a table with one continuous
    # action per discrete one, or None if these spaces are not of this game.
    action_table: str | None = None
    usual_opponent: str = "none"  # the opponent to show an agent against if none is named

    def load_spaces(self) -> tuple[spaces.Space, spaces.Space]:
        """Observation space and action space of one player."""
        assert self.player_spaces is not None
        return load_object(self.player_spaces)()


@dataclass(frozen=True)
class ShippedAgent:
    """A trained agent that is installed with the world."""

    folder: str  # "package:folder", of the form that `rookery.training.storage.shipped_agents` writes
    title: str  # for people who watch it
    aliases: tuple[str, ...] = ()  # other names than the world's

    @property
    def path(self) -> Path:
        package, _, folder = self.folder.partition(":")
        return Path(str(import_module(package).__file__)).parent / folder


@dataclass(frozen=True)
class PlayableGame:
    """A game that people play in a window, by `rookery play`."""

    function: str  # called as play(player, opponent, mode, fps, seed, games, record)
    players: tuple[str, ...]  # players that the game itself has, such as "human" and its scripts
    modes: tuple[str, ...]
    keys: str  # the keyboard, for the help


@dataclass(frozen=True)
class WorldSpec:
    """A world that rookery knows by name. Only `name` and `source` are needed.

    Example:
        >>> spec = WorldSpec("maze", "maze/Maze-v0", envs={"maze/Maze-v0": "maze_package.env:MazeEnv"})
        >>> spec.options
        ()
    """

    name: str  # what `rookery train NAME` takes, in lower case; of a compiled version, the id of the original
    source: str  # the Gymnasium id
    envs: Mapping[str, str] = field(default_factory=dict)  # Gymnasium ids to register: id -> class of the env
    kernels: Mapping[str, str] = field(default_factory=dict)  # the same for kernel worlds: id -> class or function
    is_kernel: bool | None = None  # whether the world is compiled; if omitted, this is found out from the source
    original: str | None = None  # the Gymnasium id whose env `source` is the compiled version of
    # Function (id of another library's env) -> the options with which this world is that env; None if it is not.
    stands_for: Callable[[str], dict[str, Any] | None] | None = None
    compiled: str | None = None  # of a world that is not compiled: the id of its compiled version, which may refuse
    extra: str | None = None  # the pip extra that it needs, as in pip install 'rookery[extra]'
    recipes: str | None = None  # the place of a `Recipes` mapping
    search_space: str | None = None  # the place of a table in the form of `[search.space]`: what a search varies here
    options: tuple[WorldOption, ...] = ()
    option_names: Mapping[str, str] = field(default_factory=dict)  # other names of options, and the option of each
    discrete_options: Mapping[str, Any] = field(default_factory=dict)  # for learners that need discrete actions
    continuous_options: Mapping[str, Any] = field(default_factory=dict)  # for learners that need continuous actions
    # Function (options, steps of the run, number of envs) -> those options that only envs which train get, complete.
    training_options: Callable[[Mapping[str, Any], int, int], dict[str, Any]] | None = None
    # Function (options) -> options that only envs which evaluate get, such as a part of the data that nobody trains on.
    evaluation_options: Callable[[Mapping[str, Any]], dict[str, Any]] | None = None
    episode_length_option: str | None = None  # if omitted, Gymnasium's max_episode_steps
    run_name: Callable[[Mapping[str, Any]], str] | None = None  # by the options; if omitted, `name`
    kernel_class: str | None = None  # the class that all its kernel worlds derive from, for the viewer
    viewer: str | None = None  # a `Viewer` for them
    two_player: TwoPlayerForm | None = None
    agent: ShippedAgent | None = None
    game: PlayableGame | None = None
    # A function (run's folder, *, checkpoint="best", deterministic=True, world=None, world_options=None, trust=False)
    # -> `AgentReport`, called when a run ends and by `rookery eval`.
    report: str | None = None
    commands: str | None = None  # a module with `add_commands(commands, command)`: CLI verbs of its own
    examples: tuple[str, ...] = ()  # of `rookery train`
    has_curriculum_json: bool = False  # whether older trainers' curriculum JSON files are about this world
    has_trading_config: bool = False  # whether configurations of older trading trainers are about this world

    def load_recipes(self) -> Recipes:
        return {} if self.recipes is None else load_object(self.recipes)
