"""A match of a tournament, played again step by step for a page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from rookery.config import build_config
from rookery.engine.env_factory import kernel_of, resolve
from rookery.kernel.kernel_env import KernelEnv
from rookery.training.players.agents import AgentPlayer, Player, Script, find_player, seated
from rookery.training.resolve.resolved_run import resolve_recorded_run
from rookery.training.resolve.seats import Seat, seat_of
from rookery.training.resolve.world_choice import World, duel_of
from rookery.training.show.episode import ONLY_ENV, WINNERS, ReplayedGame
from rookery.training.show.rendered_env import RenderedEnv, open_rendered
from rookery.training.storage import checkpoint
from rookery.training.storage.load_agent import agent_from, check_network
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.trust import check_run
from rookery.web.play.frame_contents import FrameImages, policy_outputs
from rookery.web.play.play_request import ReplayRequest
from rookery.web.play.play_session import HOCKEY_NAMES, hockey_state, observation_parts, plain_action
from rookery.worlds.hockey.world import HockeyWorld


@contextmanager
def open_replay(request: ReplayRequest) -> Iterator[ReplaySession]:
    """Load both players and make the env."""
    run = RunDir(Path(request.run))
    config = build_config(run.read_config())
    check_run(run, config, trust=False, playing=True)
    duel = duel_of(resolve_recorded_run(config).world)
    seat = seat_of(*duel.spaces)
    assert seat is not None  # or `duel_of` would have raised
    first, second = (_player(each, run, seat) for each in request.players)
    kernel, hockey = kernel_of(resolve(duel.source, kwargs=duel.env_kwargs)), None
    if kernel is not None and isinstance(kernel.world, HockeyWorld):
        # Compiled, as in the tournament: plain Python might round otherwise.
        hockey = KernelEnv(kernel.world)
        opened: AbstractContextManager[RenderedEnv] = nullcontext(RenderedEnv(duel.factory.wrap(hockey), live=False))
    else:
        opened = open_rendered(duel)
    with opened as rendered:
        game = ReplayedGame(rendered.env, seat, (first, second), request.seed, request.number)
        yield ReplaySession(request, duel, rendered, game, hockey)


def _player(told: dict[str, Any], run: RunDir, seat: Seat) -> Player | Script:
    if told["kind"] != "agent":
        return find_player(told["value"], seat)
    tree = checkpoint.load(Path(told["value"]), only=("agent",))["agent"]
    check_network(run, tree, trust=False)
    return seated(agent_from(tree), told["name"], seat)


class ReplaySession:
    """The game, in the form of a `PlaySession`. At its end it says whether it went as it was recorded."""

    deterministic = True
    keyboard = None

    def __init__(
        self, request: ReplayRequest, duel: World, rendered: RenderedEnv, game: ReplayedGame, hockey: KernelEnv | None
    ) -> None:
        """`hockey` is the game whose state the page draws itself."""
        self._request, self._duel, self._rendered, self._game, self._hockey = request, duel, rendered, game, hockey
        self.fps, self.seed = rendered.fps, request.seed
        game.step()  # what is compiled or loaded at the first step is there before the page gets "ready"
        game.begin()
        self._images = None if hockey is not None else FrameImages(1, self._picture())
        names = [player["name"] for player in request.players]
        self._names = names[::-1] if request.number % 2 else names

    def restart(self, seed: int) -> None:
        """Play it again; the seed of a match is given."""
        self._game.begin()

    def step(self) -> None:
        self._game.step()

    def describe(self) -> dict[str, Any]:
        """What does not change from frame to frame."""
        request, is_hockey = self._request, self._hockey is not None
        first, second = (player["name"] for player in request.players)
        winner = {1: first, -1: second}.get(request.winner)
        return {
            "view": "hockey" if is_hockey else "frames", "world": self._duel.name, "fps": self.fps, "seed": self.seed,
            "step": None, "names": self._names, "human": False, "envs": 1,
            "tiles": None if self._images is None else self._images.describe(),
            "match": {"number": request.number, "players": [first, second], "winner": winner, "length": request.length},
            **(HOCKEY_NAMES if is_hockey else {}),
        }  # fmt: skip

    def frame(self, with_details: bool) -> tuple[dict[str, Any], bytes | None]:
        """The game as it is now, and its image."""
        game = self._game
        outcome = None if game.winner is None else WINNERS[game.winner]
        message: dict[str, Any] = {
            "episode": game.number + 1, "steps": game.steps, "return": game.returned, "playing": game.winner is None,
            "outcomes": {outcome: 1} if outcome else {}, "last_outcome": outcome, "deterministic": True,
            "seed": self.seed, "as_recorded": self._as_recorded(),
        }  # fmt: skip
        if with_details:
            message["details"] = self._details()
        if self._hockey is not None:
            return {**message, "hockey": hockey_state(self._hockey)}, None
        assert self._images is not None
        cell = {"return": game.returned, "steps": game.steps, "playing": game.winner is None, "episodes": 1}
        return {**message, "cells": [{**cell, "outcome": outcome}]}, self._images.encode([self._picture()])

    def _picture(self) -> Any:
        return self._rendered.frame()

    def _as_recorded(self) -> bool | None:
        """Whether the game has ended as in the tournament; None before its end."""
        if self._game.winner is None:
            return None
        winner = -self._game.winner if self._request.number % 2 else self._game.winner
        return (winner, self._game.steps) == (self._request.winner, self._request.length)

    def _details(self) -> dict[str, Any]:
        """What the player on the first side sees, thinks and did last; of two, the first that is an agent."""
        game = self._game
        side = next((k for k, player in enumerate(game.players) if isinstance(player, AgentPlayer)), 0)
        player, view = game.players[side], game.views[side]
        said = {"observation": list(observation_parts(view[0])), "action": plain_action(game.actions[side])}
        if not isinstance(player, AgentPlayer):
            return said
        mask = None if game.masks is None else game.masks[side]
        return {**said, **policy_outputs(player.agent, view, mask, player.memory(ONLY_ENV))}
