"""From a request to an agent in its envs: what is loaded, and how it is shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym

from rookery.engine.env_factory import kernel_of, resolve
from rookery.errors import OptionError, RunError
from rookery.kernel.kernel_env import KernelEnv
from rookery.training.resolve.world_choice import World, find
from rookery.training.show.grid import default_env_count
from rookery.training.show.matchup import Matchup, OpponentWrapper, make_matchup, usual_opponent
from rookery.training.show.rendered_env import RenderedEnv, open_rendered_envs
from rookery.training.show.watch import ShowSetup, show_setup, with_opponent
from rookery.training.storage.shipped_agents import shipped_agent
from rookery.training.storage.trust import TRUST
from rookery.web.play.keyboard_player import KeyboardPlayer
from rookery.web.play.play_request import HUMAN, PlayRequest
from rookery.worlds import registry
from rookery.worlds.hockey.render import PLAYERS
from rookery.worlds.hockey.world import HockeyWorld

EMULATORS = "gameboy"  # the world whose envs are shown as a grid


@dataclass
class OpenedGame:
    """Envs that can be played, and the agent in them. `hockey` is the game whose state the page draws itself."""

    setup: ShowSetup
    rendered: Sequence[RenderedEnv]
    keyboard: KeyboardPlayer | None
    hockey: KernelEnv | None
    names: tuple[str, str] | None
    step: int | None


@contextmanager
def open_game(request: PlayRequest) -> Iterator[OpenedGame]:
    """Load the agent and make the envs."""
    setup, step, num_envs = _setup(request)
    keyboard = None
    if request.opponent == HUMAN:
        setup, keyboard = _against_a_person(setup)
    else:
        setup = with_opponent(replace(setup, opponent=request.opponent or setup.opponent))
    kernel = kernel_of(resolve(setup.world.source, kwargs=setup.world.env_kwargs))
    if kernel is not None and isinstance(kernel.world, HockeyWorld):
        # In plain Python a step takes 4 ms or less, and nothing is compiled before the first.
        bare = KernelEnv(kernel.world, plain=True)
        rendered = RenderedEnv(_seated(setup.world.factory.wrap(bare), setup.matchup), live=False)
        yield OpenedGame(setup, [rendered], keyboard, bare, _names(setup, kernel.world), step)
        return
    count = request.envs or (default_env_count(num_envs) if _is_grid(setup.world) else 1)
    # Each env has an opponent of its own, as an opponent may have a memory of its game.
    setups = [setup, *(with_opponent(setup) for _ in range(count - 1))]
    with open_rendered_envs(setup.world, [each.matchup for each in setups]) as opened:
        names = None if setup.matchup is None else setup.matchup.names
        yield OpenedGame(setup, opened, keyboard, None, names, step)


def _setup(request: PlayRequest) -> tuple[ShowSetup, int | None, Any]:
    """The setup; the step of the checkpoint and the number of envs of a run."""
    if request.shipped:
        world = find(request.agent)
        agent = shipped_agent(request.agent)
        return ShowSetup(world, agent, request.seed or 0, request.agent, usual_opponent(world)), None, None
    try:
        setup, trained = show_setup(request.agent, "runs", request.best, request.seed, trust=False)
    except RunError as error:
        raise _with_command(error, request) from None
    assert trained is not None
    return setup, trained.step, trained.config.num_envs


def _with_command(error: RunError, request: PlayRequest) -> RunError:
    """A page never trusts code: the sentence tells the command with which its user may."""
    if TRUST not in str(error):
        return error
    said = str(error).removesuffix(TRUST).rstrip("; ")
    return RunError(f"{said}; if you trust it, type: rookery watch {request.agent} --trust")


def _against_a_person(setup: ShowSetup) -> tuple[ShowSetup, KeyboardPlayer]:
    """The agent on the left, a person on the right."""
    spec = registry.by_source(setup.world.source)
    if spec is None or spec.game is None:
        raise OptionError(f"{setup.world.name} cannot be played by a person: opponent=human is for hockey")
    world, matchup = make_matchup(setup.world, setup.agent, setup.name, "none", "runs")
    keyboard = KeyboardPlayer()
    matchup = replace(matchup, opponent=keyboard, names=(matchup.names[0], keyboard.name))
    return replace(setup, world=world, matchup=matchup), keyboard


def _names(setup: ShowSetup, world: HockeyWorld) -> tuple[str, str]:
    """The players of a game; without a matchup, the world itself plays the second."""
    if setup.matchup is not None:
        return setup.matchup.names
    return setup.name, PLAYERS[int(world.values["player_two"])].format(2)


def _seated(env: gym.Env, matchup: Matchup | None) -> gym.Env:
    return env if matchup is None else OpponentWrapper(env, matchup)


def _is_grid(world: World) -> bool:
    spec = registry.by_source(world.source)
    return spec is not None and spec.name == EMULATORS
