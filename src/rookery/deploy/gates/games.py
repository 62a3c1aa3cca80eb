"""The gate of two-player games: the candidate must win more of the decided games than the champion."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from rookery.deploy.gates.compared_agents import fitting_world, open_compared
from rookery.deploy.gates.gate_result import GateResult
from rookery.errors import OptionError
from rookery.training.evaluation.evaluator import DEFAULT_ENVS, OpponentGames
from rookery.training.evaluation.win_record import WinRecord
from rookery.training.players.file_player import NAME as RANDOM
from rookery.training.resolve.option_errors import failure_options
from rookery.training.resolve.world_choice import num_agents
from rookery.training.storage.run_dir import RunDir

GAMES = 400
FEWEST = 10


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
    mine = open_compared(candidate, checkpoint, trust)
    if champion is None:
        world = mine.trained.world
        opponent = name = RANDOM if num_agents(world) == 2 else "weak"
    else:
        world = fitting_world(mine, open_compared(champion, "best", trust), same_spaces=False)
        opponent, name = str(champion.path), "the champion"
    config = mine.trained.config
    num_envs = config.num_envs if isinstance(config.num_envs, int) else DEFAULT_ENVS
    options = {"games": games, "num_envs": num_envs, **failure_options(config)}
    made = OpponentGames(world, config.backend, [opponent], candidate.path.parent, **options)
    with closing(made) as against:
        played = against.play(mine.agent, games, seed, stop)
    if played is None:
        return None
    return _decide(next(iter(played.values())).record(), margin, name)


def _decide(record: WinRecord, margin: float, name: str) -> GateResult:
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
