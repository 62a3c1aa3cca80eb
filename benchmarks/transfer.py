"""How an agent trained here plays in the original's hockey game, on Box2D: `make bench-transfer`, or

    python benchmarks/transfer.py [--only NAME ...] [--games 1000] [--agent FILE_OR_NAME] [--json FILE]

The agent plays from its exported file, with NumPy alone and one observation at a time, on both sides by turns. Before
it does, the game is compared with the original: in recorded steps, and in how its scripts' games end. Exits with 1 if a
figure misses what it must reach.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np

import hockey_fidelity as fidelity
import hockey_outcomes as outcomes

sys.path.insert(0, str(Path(__file__).parent))

from box2d_hockey import KEPT, Game, Script
from engine_rows import Row
from report import measured, parser_for, report
from rookery.errors import RookeryError
from rookery.training.export.onnx_file import export_standalone
from rookery.training.players.file_player import FilePlayer
from rookery.training.resolve.seats import Seat
from rookery.worlds import registry
from rookery.worlds.hockey.world import player_spaces

RECORDED = Path(__file__).parent.parent / "tests" / "worlds" / "hockey_rows.npz"
SEED = 20_261_115
WON, LOST = 75, 10  # per cent of games: at least, and less than
SHARES_WITHIN = 5.0  # points
STEPS_WITHIN = 1e-4  # the 99th percentile of errors
COMPARED = ("weak against strong, normal", "strong against strong, normal")
COMPARED_GAMES = 2000  # as many as were played of the original


class Player(Protocol):
    """Who plays at the table."""

    def reset(self) -> None: ...

    def act(self, observation: np.ndarray) -> np.ndarray: ...


class FromFile:
    """The agent in `file.py:Agent`, as a tournament runs it."""

    def __init__(self, place: str) -> None:
        self._player = FilePlayer(place, Seat(*player_spaces()))
        self._env = np.zeros(1, np.int64)
        self.reset()

    def reset(self) -> None:
        self._player.begin(self._env)

    def act(self, observation: np.ndarray) -> np.ndarray:
        return self._player.act(observation[None], self._env)[0]


def player_of(agent: str) -> FromFile:
    """The player in a Python file (`agent.py` or `agent.py:Class`), or of an agent that is exported for it."""
    if agent.endswith(".py"):
        return FromFile(f"{agent}:Agent")
    if ".py:" in agent:
        return FromFile(agent)
    with tempfile.TemporaryDirectory() as folder:
        path = export_standalone(None if agent in registry.agents() else agent, out=Path(folder) / "agent.py")
        return FromFile(f"{path}:Agent")


def play(first: Player, second: Player, games: int) -> outcomes.Outcome:
    """How games end for the first player, who is on the left in two of them, then on the right in two."""
    game = Game(SEED)
    winners, lengths, catches = np.zeros(games), np.zeros(games), 0
    for number in range(games):
        side = number // 2 % 2
        players = (second, first) if side else (first, second)
        catches += play_one(game, players, side)
        winners[number], lengths[number] = (-game.winner if side else game.winner), game.time
    won, lost = float(np.mean(winners == 1)), float(np.mean(winners == -1))
    return outcomes.Outcome(won, 1.0 - won - lost, lost, float(lengths.mean()), catches / games)


def play_one(game: Game, players: tuple[Player, Player], side: int) -> int:
    """Plays a game to its end; returns how often the player on this side caught the puck."""
    game.reset()
    catches = 0
    for player in players:
        player.reset()
    while not game.is_over:
        game.step([player.act(game.observe(k)) for k, player in enumerate(players)])
        catches += game.hold[side] == KEPT
    return catches


def agent_rows(player: FromFile, name: str, games: int) -> list[Row]:
    """The agent against both scripts."""
    rows = []
    for strong, who in ((True, "strong"), (False, "weak")):
        ended = play(player, Script(strong, SEED), games)
        what, result = f"{name} in the original's Box2D game against {who}", shown(ended)
        rows.append(Row(f"{what}: won", result, "", 100 * ended.won, WON, " %"))
        rows.append(Row(f"{what}: lost", result, "", 100 * ended.lost, LOST, " %", most=True))
    return rows


def outcome_rows() -> list[Row]:
    """How far shares of won, drawn and lost games are from the original's, between scripts."""
    rows = []
    for name, _, first, second, original in outcomes.PAIRINGS:
        if name in COMPARED:
            one, two = (Script(who == outcomes.STRONG, SEED + k) for k, who in enumerate((first, second)))
            ours = play(one, two, COMPARED_GAMES)
            apart = 100 * max(abs(ours[k] - original[k]) for k in range(3))
            label = f"{name.removesuffix(', normal')}: largest difference of shares"
            rows.append(Row(label, shown(ours), shown(original), apart, SHARES_WITHIN, " points", most=True))
    return rows


def shown(ended: outcomes.Outcome) -> str:
    """Shares of games won, drawn and lost, and their mean length."""
    shares = "/".join(f"{100 * share:.1f}" for share in ended[:3])
    return f"{shares} %, {ended.length:.0f} steps"


def step_rows() -> list[Row]:
    """Recorded steps of the original, made again on this table."""
    rows = fidelity.read_rows(RECORDED)
    observations, events = (np.array(each) for each in zip(*map(replayed, rows), strict=True))
    errors = np.abs(observations - rows[:, fidelity.NEXT_OBSERVATION])
    recorded = np.column_stack([rows[:, fidelity.WINNER], rows[:, fidelity.CATCH]])
    alike = 100 * float(np.mean((events == recorded).all(axis=1)))
    what, spread = f"{len(rows)} recorded steps", f"median {np.median(errors):.0e}, largest {errors.max():.0e}"
    near = float(np.percentile(errors, 99)) / STEPS_WITHIN
    return [
        Row(f"{what}: 99 % of errors, over {STEPS_WITHIN:.0e}", spread, "", near, 1, "", most=True),
        Row(f"{what}: goals and catches alike", f"{alike:.1f} %", "", alike, 100, " %"),
    ]


def replayed(row: np.ndarray) -> tuple[np.ndarray, tuple[int, bool, bool]]:
    """The next observation, and the winner and both players' catches, of a recorded step made again."""
    game = Game()
    start = fidelity.OBSERVATION
    game.put(row[start : start + 18], spin=row[53], met=(row[55:57] > 0).tolist())
    game.push_puck(*row[fidelity.PENDING].tolist())
    before = list(game.hold)
    game.step(np.split(row[fidelity.ACTIONS], 2))
    one, two = ((game.hold[k] == KEPT and before[k] == 0) for k in range(2))
    return game.observe(0), (game.winner, one, two)


def main() -> int:
    """Measure the chosen rows and print them."""
    parser = parser_for(__doc__, ["steps", "outcomes", "agent"])
    parser.add_argument("--games", type=int, default=1000, help="against each script (default: %(default)s)")
    parser.add_argument(
        "--agent", default="hockey", metavar="FILE_OR_NAME", help="agent.py, a run, or %(default)s, which is shipped"
    )
    args = parser.parse_args()
    try:
        player = player_of(args.agent)
    except RookeryError as error:
        parser.error(str(error))
    name = "the shipped agent" if args.agent in registry.agents() else args.agent
    rows: dict[str, Callable[[], list[Row]]] = {
        "steps": step_rows,
        "outcomes": outcome_rows,
        "agent": partial(agent_rows, player, name, args.games),
    }
    return report(measured(rows, args.only), "rookery transfer", args.json)


if __name__ == "__main__":
    sys.exit(main())
