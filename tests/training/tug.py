"""Games for two, and players, for tests."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces

from rookery.learners.agent import Agent
from rookery.learners.registry import make_policy, option_classes
from rookery.training.evaluation.match import GameEnvs, Match
from rookery.training.evaluation.win_record import WinRecord
from rookery.training.players.agents import Player, Script
from rookery.training.resolve.seats import Seat
from rookery.training.resolve.world_choice import World

SEEN, ACTS = spaces.Box(-np.inf, np.inf, (3,), np.float32), spaces.Box(-1, 1, (1,), np.float32)
SEAT = Seat(SEEN, ACTS)


class Tug(gym.Env):
    """A rope at which both pull, from a random place, for a few steps. Players see where it is, which step it is, and a
    random number of the game. Who has it on the own side in the end has won; near the middle it is a draw."""

    observation_space = SEEN
    action_space = spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, length: int = 6, tell: str = "all", breaks_at: int = 0) -> None:
        self.length, self.tell, self.breaks_at, self.total = length, tell, breaks_at, 0

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.place, self.number = self.np_random.uniform(-1, 1, 2)
        self.steps, self.most = 0, self.length + int(self.np_random.integers(3))
        return self._view(1), self._info()

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.steps += 1
        self.total += 1
        if self.total == self.breaks_at:
            raise RuntimeError("the rope broke")
        pull = float(action[0] - action[1])
        self.place += 0.2 * pull
        return self._view(1), pull, self.steps >= self.most, False, self._info()

    def _view(self, side: int) -> np.ndarray:
        return np.array([side * self.place, self.steps, self.number], np.float32)

    def _info(self) -> dict[str, Any]:
        winner = int(np.sign(self.place)) if abs(self.place) > 0.3 else 0
        told = {"winner": {"winner": winner}, "view": {"obs_agent_two": self._view(-1)}}
        return told[self.tell] if self.tell in told else {**told["winner"], **told["view"]}


class Scripted(Tug):
    """One that has scripts: they pull a little, or a lot."""

    player_one = player_two = "free"

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        self.player_one, self.player_two = (options or {})["player_one"], (options or {})["player_two"]
        return super().reset(seed=seed)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        for k, script in enumerate((self.player_one, self.player_two)):
            if script != "free":
                assert action[k] == 0.0, "a seat that the world plays gets no request"
                action[k] = 0.2 if script == "weak" else 0.9
        return super().step(action)


TUG = World("tug", Tug, kernel=False)


def agent(learner: str = "ppo", seed: int = 0, seat: Seat = SEAT, **options: Any) -> Agent:
    """An agent with random weights that shows some will."""
    torch.manual_seed(seed)
    chosen = option_classes()[learner].model_validate({"hidden": [16], **options})
    policy = make_policy(learner, seat.observation_space, seat.action_space, chosen)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += 0.5 * torch.randn_like(parameter)
    return Agent(policy, seat.observation_space, seat.action_space, torch.device("cpu"))


def play_games(
    duel: World, first: Player | Script, second: Player | Script, games: int, seed: int, batch: int = 1, **told: Any
) -> WinRecord:
    """A match of two, on envs of its own."""
    with closing(GameEnvs(duel, min(batch, games))) as table:
        results = Match(table, (first, second), games, seed).play(**told)
    assert results is not None
    return results.record()


class Puller:
    """Pulls as hard as it is told, and writes down what it was asked."""

    def __init__(self, strength: float, name: str = "puller") -> None:
        self.name, self.strength = name, strength
        self.begun: list[int] = []
        self.seen: list[np.ndarray] = []

    def begin(self, envs: np.ndarray, seeds: Any = None) -> None:
        self.begun += envs.tolist()

    def act(self, observations: np.ndarray, envs: np.ndarray) -> np.ndarray:
        assert len(observations) == len(envs) > 0
        self.seen.append(observations.copy())
        return np.full((len(envs), 1), self.strength, np.float32)


def write_agent(folder: Path, body: str, name: str = "agent.py") -> str:
    """A file with a class Agent of this body; returns its place."""
    path = folder / name
    path.write_text("import numpy as np\n\n\nclass Agent:\n" + "".join(f"    {line}\n" for line in body.splitlines()))
    return f"{path}:Agent"
