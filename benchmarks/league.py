"""What a tournament of a league takes, and whether ratings say who wins: `make bench-league`, or

    python benchmarks/league.py [--agents 20] [--games 50] [--steps 5_000_000] [--json FILE]

The agents are the archive of a run of PPO on hockey that has played against it. Exits with 1 if a figure misses what it
must reach.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import rookery
from engine_rows import Row
from learning import quiet
from report import measured, parser_for, report
from rookery.training.league.tournament import enter_tournament
from rookery.training.league.tournament_report import TournamentReport
from rookery.training.storage.run_dir import RunDir

MINUTES = 3
AGREEMENT = 0.95


def trained(folder: str, agents: int, steps: int) -> RunDir:
    """A run whose agent has entered its archive so many times, from a beginner to what it became."""
    with quiet():
        result = rookery.train(
            "hockey", learner="ppo", steps=steps, seed=1, runs_dir=folder, opponents=["archive"],
            league={"every": steps // agents}, evaluation={"every": steps},
            monitor={"plot": False, "tensorboard": False},
        )  # fmt: skip
    return RunDir(result.path)


def held(run: RunDir, games: int) -> tuple[TournamentReport, float]:
    """A tournament, and how long it took from opening the run to the stored report; worlds are compiled before."""
    enter_tournament([run], 1).hold()
    started = time.perf_counter()
    return enter_tournament([run], games).hold(), time.perf_counter() - started


def rows(played: TournamentReport, seconds: float) -> list[Row]:
    """How long it took, and whether the ratings say who wins."""
    agents, games = len(played.entries), int(played.results.games.sum()) // 2
    what = f"league of {agents} agents, {played.games} games a pair"
    speed = f"{games:,} games, {games / seconds:,.0f}/s"
    agreement = played.agreement()
    wins, scores = agreement["win_rate"] or 0.0, agreement["score"] or 0.0
    return [
        Row(f"{what}: minutes", f"{seconds:.1f} s", speed, seconds / 60, MINUTES, unit=" min", most=True),
        Row("Spearman of rating and win rate", f"{wins:.3f}", f"draws half: {scores:.3f}", wins, AGREEMENT, unit=""),
    ]


def league_rows(agents: int, games: int, steps: int) -> list[Row]:
    """Train, and hold the tournament."""
    with tempfile.TemporaryDirectory() as folder:
        return rows(*held(trained(folder, agents, steps), games))


def main() -> int:
    """Measure and print."""
    parser = parser_for(__doc__, ["league"])
    parser.add_argument("--agents", type=int, default=20, help="how many there are (default: %(default)s)")
    parser.add_argument("--games", type=int, default=50, help="games a pair (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=5_000_000, help="of the run (default: %(default)s)")
    args = parser.parse_args()
    logging.getLogger("rookery").setLevel("WARNING")
    league = partial(league_rows, args.agents, args.games, args.steps)
    return report(measured({"league": league}, args.only), "rookery league", args.json)


if __name__ == "__main__":
    sys.exit(main())
