"""The players of a tournament: the agents of runs, and others by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from rookery.engine.seeding import child_seed
from rookery.errors import OptionError
from rookery.gate import allow_given
from rookery.training.evaluation.trained_run import TrainedRun, open_run
from rookery.training.league.archive import FOLDER
from rookery.training.league.game_log import GameHeader, GameLog, LoggedPlayer
from rookery.training.league.league_files import stored_league
from rookery.training.league.player_source import PlayerSource, source_in_run, source_of
from rookery.training.league.tournament import PlayTournament, play_tournament
from rookery.training.league.tournament_report import Entry, TournamentReport
from rookery.training.players.agents import Player, Script, find_player, seated
from rookery.training.resolve.seats import Seat, seat_of
from rookery.training.resolve.world_choice import World, duel_of
from rookery.training.storage.checkpoint import NAME
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.shipped_agents import agent_in

TOURNAMENT_KEY = 1_000_039  # sets the seeds of its games apart from all others of a run


@dataclass(frozen=True)
class TournamentPlayer:
    """A player, its entry in the report, and where it comes from."""

    entry: Entry
    player: Player | Script
    source: PlayerSource


@dataclass(frozen=True)
class EnteredTournament:
    """A tournament whose players are found and fit the game: nothing is played yet."""

    first: TrainedRun  # in whose world and folder it is
    duel: World
    players: list[TournamentPlayer]
    games: int
    seed: int

    def hold(
        self, play: PlayTournament = play_tournament, progress: Callable[[int, int], None] = lambda done, total: None
    ) -> TournamentReport:
        """Play all games; `play` does so, here or elsewhere. The report is kept in the first run's folder."""
        entries = _distinct([player.entry for player in self.players])
        header = GameHeader(self.duel.name, self.games, self.seed, _logged(self.players, entries))
        acting, backend = [player.player for player in self.players], self.first.config.backend
        with closing(GameLog(self.first.run.outputs / FOLDER, header)) as log:
            results = play(self.duel, acting, self.games, self.seed, backend=backend, progress=progress, log=log)
        report = TournamentReport(
            self.duel.name, self.games, self.seed, entries, results, results.rate(), id=header.id
        )  # fmt: skip
        report.save(self.first.run.outputs)
        return report


def enter_tournament(
    runs: Sequence[RunDir],
    games: int,
    *,
    others: Sequence[str] = (),
    runs_dir: str | Path = "runs",
    seed: int | None = None,
    trust: bool = False,
) -> EnteredTournament:
    """A tournament of so many games of every two agents of some runs, and others by name (see `find_player`), in the
    first run's world, with deterministic actions. `trust` lets the code of that world run without a question."""
    allow_given(others)
    runs[0].refuse_links()
    opened = [open_run(run.path, runs_dir, best=False, trust=trust) for run in runs]
    first = opened[0]
    duel = duel_of(first.world)
    seat = seat_of(*duel.spaces)
    assert seat is not None  # `duel_of` refuses worlds without one
    players = [player for trained in opened for player in _agents_of(trained, seat, with_run=len(runs) > 1)]
    players += [_other(who, seat, runs_dir) for who in others]
    if len(players) < 2:
        raise OptionError(
            f"a tournament needs two players, and {first.run.name} has one agent: name more runs, or give "
            "--with weak,strong"
        )
    seed = child_seed(first.config.seed, TOURNAMENT_KEY) if seed is None else seed
    return EnteredTournament(first, duel, players, games, seed)


def _logged(players: Sequence[TournamentPlayer], entries: Sequence[Entry]) -> list[LoggedPlayer]:
    return [
        LoggedPlayer(entry.name, player.source.run, entry.step, player.source.source, player.source.sha256)
        for player, entry in zip(players, entries, strict=True)
    ]


def _agents_of(trained: TrainedRun, seat: Seat, with_run: bool) -> Iterator[TournamentPlayer]:
    """The members of a run's archive or, if it has none, its checkpoints; and its latest agent."""
    run, prefix = trained.run, f"{trained.run.name}/" if with_run else ""
    league = stored_league(run)
    if league is not None and league.archive.active:
        archive = league.archive
        found = [
            (member.name, member.step, archive.load_policy(member), archive.folder / member.name)
            for member in archive.active
        ]
    else:
        found = [(f"step-{step}", step, agent_in(path), path) for step, path in _checkpoints(run)]
    if trained.step not in {step for _, step, _, _ in found}:
        path = dict(_checkpoints(run))[trained.step]
        found.append(("latest", trained.step, trained.agent, path))
    for name, step, agent, path in found:
        player = seated(agent, prefix + name, seat)
        yield TournamentPlayer(Entry(prefix + name, run.name, step), player, source_in_run(run, path))


def _checkpoints(run: RunDir) -> list[tuple[int, Path]]:
    """A run's checkpoints by step; of several at one step, the last."""
    found = {}
    for path in sorted(run.checkpoints.iterdir()):
        if match := NAME.fullmatch(path.name):
            found[int(match[1])] = path
    return sorted(found.items())


def _other(who: str, seat: Seat, runs_dir: str | Path) -> TournamentPlayer:
    player = find_player(who, seat, runs_dir)
    return TournamentPlayer(Entry(player.name), player, source_of(who, Path(runs_dir)))


def _distinct(entries: list[Entry]) -> list[Entry]:
    """With a number behind names that occur before."""
    seen: dict[str, int] = {}
    for k, entry in enumerate(entries):
        seen[entry.name] = seen.get(entry.name, 0) + 1
        if seen[entry.name] > 1:
            entries[k] = replace(entry, name=f"{entry.name} ({seen[entry.name]})")
    return entries
