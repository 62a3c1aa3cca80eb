"""The gate of most worlds: both agents play the same new episodes, and the mean difference must be above a margin."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import numpy as np

from rookery.deploy.gates.compared_agents import ComparedAgent, fitting_world, open_compared
from rookery.deploy.gates.gate_result import GateResult
from rookery.deploy.gates.random_actions import RandomActions
from rookery.errors import OptionError
from rookery.training.evaluation.episodes import EpisodeEnvs, Episodes
from rookery.training.evaluation.evaluator import DEFAULT_ENVS
from rookery.training.evaluation.win_record import interval_of
from rookery.training.resolve.option_errors import failure_options
from rookery.training.resolve.world_choice import World
from rookery.training.storage.run_dir import RunDir

EPISODES = 200
FEWEST = 10


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
    mine = open_compared(candidate, checkpoint, trust)
    other = None if champion is None else open_compared(champion, "best", trust)
    world = mine.trained.world if other is None else fitting_world(mine, other)
    with closing(_envs(world, mine, episodes)) as envs:
        returns = []
        for player in (mine.player(), RandomActions(mine.agent.action_space) if other is None else other.player()):
            played = Episodes(envs, player, seed, range(episodes)).play(stop)  # type: ignore[arg-type]
            if played is None:
                return None
            returns.append(np.array([episode.total for episode in played]))
    return _decide(returns[0], returns[1], margin, "random actions" if champion is None else "the champion")


def _envs(world: World, compared: ComparedAgent, episodes: int) -> EpisodeEnvs:
    config = compared.trained.config
    num_envs = config.num_envs if isinstance(config.num_envs, int) else DEFAULT_ENVS
    return EpisodeEnvs(world, config.backend, episodes, num_envs, config.workers, **failure_options(config))


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
