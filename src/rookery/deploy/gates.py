"""What decides whether a challenger replaces the champion, outside of markets: agents play the same new episodes, and
the mean difference must be above a margin; in games of two the candidate must win more of the decided games."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array

from rookery.errors import OptionError, RegistryError
from rookery.training.backtest.joined_account import JoinedAccount
from rookery.training.evaluation.episodes import EpisodeEnvs, Episodes
from rookery.training.evaluation.evaluator import DEFAULT_ENVS, OpponentGames
from rookery.training.evaluation.trained_run import TrainedRun, open_run
from rookery.training.evaluation.win_record import WinRecord, interval_of
from rookery.training.players.agents import AgentPlayer
from rookery.training.players.file_player import NAME as RANDOM
from rookery.training.players.file_player import RandomPlayer
from rookery.training.resolve.option_errors import failure_options
from rookery.training.resolve.seats import Seat
from rookery.training.resolve.world_choice import World, num_agents
from rookery.training.storage.run_dir import RunDir

EPISODES, GAMES = 200, 400
FEWEST = 10
SPACES = (("observation_space", "observes"), ("action_space", "acts in"))


@dataclass(frozen=True)
class GateResult:
    """The decision of a gate. `reasons` are sentences for people, one per condition; `figures` can be written as JSON;
    `accounts` are those that were compared, of a market: of the "candidate" and of the "champion".

    >>> GateResult(False, ("its mean return is not higher",), {"difference": -1.5}).as_json()["passed"]
    False
    """

    passed: bool
    reasons: tuple[str, ...] = ()
    figures: dict[str, Any] = field(default_factory=dict)
    accounts: Mapping[str, JoinedAccount] = field(default_factory=dict, repr=False, compare=False)

    def as_json(self) -> dict[str, Any]:
        return {"passed": self.passed, "reasons": list(self.reasons), "figures": self.figures}


def evaluation_gate(
    candidate: RunDir,
    champion: RunDir | None,
    *,
    seed: int,
    episodes: int = EPISODES,
    margin: float = 0.0,
    checkpoint: str = "best",
    trust: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> GateResult | None:
    """Whether the candidate's mean return is higher than the champion's by more than `margin`: the lower end of the
    95 % interval of the difference must be above it. Without a champion, the candidate has to beat random actions.

    Both play the same `episodes` episodes, which begin from children of `seed`; that must be a seed that neither has
    seen. None if `stop()` was true before the end.
    """
    if episodes < FEWEST:
        raise OptionError(f"episodes = {episodes}: a comparison needs at least {FEWEST}")
    mine = _opened(candidate, checkpoint, trust)
    other = None if champion is None else _opened(champion, "best", trust)
    world = mine.world if other is None else _fitting_world(mine, other)
    config = mine.config
    made = EpisodeEnvs(world, config.backend, episodes, _num_envs(mine), config.workers, **failure_options(config))
    with closing(made) as envs:
        returns = []
        for player in (_player(mine), _RandomActions(mine.agent.action_space) if other is None else _player(other)):
            played = Episodes(envs, player, seed, range(episodes)).play(stop)  # type: ignore[arg-type]
            if played is None:
                return None
            returns.append(np.array([episode.total for episode in played]))
    return _decide(returns[0], returns[1], margin, "random actions" if champion is None else "the champion")


def _decide(mine: np.ndarray, other: np.ndarray, margin: float, name: str) -> GateResult:
    gains = mine - other
    low, high = interval_of(gains.tolist())
    passed = bool(low > margin)
    text = (
        f"mean return {mine.mean():.4g} against {other.mean():.4g} of {name} over the same {len(mine):,} new episodes: "
        f"a difference of {gains.mean():.4g}, 95 % interval {low:.4g} to {high:.4g}, "
        f"{'above' if passed else 'not above'} the margin of {margin:g}"
    )
    figures = {
        "episodes": len(mine),
        "return_mean": float(mine.mean()),
        "return_interval": list(interval_of(mine.tolist())),
        "other": name,
        "other_return_mean": float(other.mean()),
        "difference": float(gains.mean()),
        "interval": [low, high],
        "margin": margin,
    }
    return GateResult(passed, (text,), figures)


def games_gate(
    candidate: RunDir,
    champion: RunDir | None,
    *,
    seed: int,
    games: int = GAMES,
    margin: float = 0.0,
    checkpoint: str = "best",
    trust: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> GateResult | None:
    """Whether the candidate wins more than half of the decided games against the champion: the lower end of the 95 %
    interval of its share must be above 0.5 + `margin`. Draws decide nothing.

    Sides alternate, and games begin from children of `seed`, which must be a new one. Without a champion the candidate
    plays the usual opponent: the world's weak script, or random actions. None if `stop()` was true before the end.
    """
    if games < FEWEST:
        raise OptionError(f"games = {games}: a comparison needs at least {FEWEST}")
    mine = _opened(candidate, checkpoint, trust)
    if champion is None:
        world = mine.world
        opponent = name = RANDOM if num_agents(world) == 2 else "weak"
    else:
        world = _fitting_world(mine, _opened(champion, "best", trust), same_spaces=False)
        opponent, name = str(champion.path), "the champion"
    config = mine.config
    options = {"games": games, "num_envs": _num_envs(mine), **failure_options(config)}
    made = OpponentGames(world, config.backend, [opponent], candidate.path.parent, **options)
    with closing(made) as against:
        played = against.play(mine.agent, games, seed, stop)
    if played is None:
        return None
    return _decide_games(next(iter(played.values())).record(), margin, name)


def _decide_games(record: WinRecord, margin: float, name: str) -> GateResult:
    decided = WinRecord(record.won, 0, record.lost, 0.0, 0.0)
    low, high = decided.interval(decided.won) if decided.games else (0.0, 1.0)
    share = decided.win_rate if decided.games else float("nan")
    passed = low > 0.5 + margin
    text = (
        f"won {record.won:,}, drew {record.drawn:,} and lost {record.lost:,} of {record.games:,} new games against "
        f"{name}: {100 * share:.1f} % of those decided, 95 % interval {100 * low:.1f} to {100 * high:.1f} %, "
        f"{'above' if passed else 'not above'} {100 * (0.5 + margin):g} %"
    )
    if not decided.games:
        text = f"all {record.games:,} new games against {name} were drawn: nobody is better"
    figures = {**record.as_json(), "other": name, "decided_share": share if decided.games else None}
    return GateResult(passed, (text,), {**figures, "interval": [low, high], "margin": margin})


def _opened(run: RunDir, checkpoint: str, trust: bool) -> TrainedRun:
    """A run's best or latest checkpoint."""
    return open_run(run.path, run.path.parent, checkpoint == "best", trust=trust)


def _player(run: TrainedRun) -> AgentPlayer:
    """As it plays evaluation episodes: deterministic if its own evaluations were."""
    return AgentPlayer(run.agent, "agent", deterministic=run.config.evaluation.deterministic, copy=False)


def _num_envs(run: TrainedRun) -> int:
    return run.config.num_envs if isinstance(run.config.num_envs, int) else DEFAULT_ENVS


def _fitting_world(candidate: TrainedRun, champion: TrainedRun, same_spaces: bool = True) -> World:
    """The champion's world: it is what the agent in use is for. A candidate from elsewhere is rejected. Players of a
    game may have other spaces than each other: they are seated later."""
    mine, theirs = candidate.config.world, champion.config.world
    if mine != theirs:
        raise RegistryError(
            f"the candidate was trained in {mine}, and the champion in {theirs}: they cannot be compared; name another "
            "folder with --to"
        )
    for name, what in SPACES if same_spaces else ():
        ours, others = getattr(candidate.agent, name), getattr(champion.agent, name)
        if ours != others:
            raise RegistryError(
                f"the candidate {what} {ours}, and the champion {others}: they cannot be compared in one world; name "
                "another folder with --to"
            )
    return champion.world


class _RandomActions:
    """Acts in evaluation episodes as an `AgentPlayer` does. An episode's actions depend on its seed alone."""

    name = "random actions"

    def __init__(self, action_space: spaces.Space) -> None:
        self.action_space = action_space
        plain = isinstance(action_space, (spaces.Discrete, spaces.MultiDiscrete, spaces.Box))
        self._fast = RandomPlayer(Seat(action_space, action_space)) if plain else None
        self._by_row: dict[int, spaces.Space] = {}

    def begin(self, envs: np.ndarray, seeds: Sequence[int] | None = None) -> None:
        if self._fast is not None:
            return self._fast.begin(envs, seeds)
        for row, seed in zip(np.asarray(envs).tolist(), seeds or range(len(envs)), strict=True):
            self._by_row[row] = deepcopy(self.action_space)
            self._by_row[row].seed(seed)
        return None

    def act(self, observations: Any, envs: np.ndarray, mask: np.ndarray | None = None) -> Any:
        if self._fast is not None:
            return self._fast.act(observations, envs, mask)
        drawn = [self._by_row[row].sample() for row in np.asarray(envs).tolist()]
        batch: Any = create_empty_array(self.action_space, len(drawn))
        return concatenate(self.action_space, drawn, batch)
