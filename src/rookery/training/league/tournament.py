"""A tournament: a match of many players in one batch of envs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from rookery.engine.seeding import child_seed
from rookery.engine.settings import positive_int
from rookery.errors import CheckpointError, OptionError, RookeryError
from rookery.gate import allow_given
from rookery.training.evaluation.match import GameEnvs, Match
from rookery.training.evaluation.trained_run import TrainedRun, open_run
from rookery.training.league.archive import FOLDER, stored_league
from rookery.training.league.ratings import PairResults
from rookery.training.league.tournament_report import IN_RUN, Entry, GameHeader, GameLog, LoggedPlayer, TournamentReport
from rookery.training.players import file_player
from rookery.training.players.agents import Player, Script, find_player, seated
from rookery.training.players.file_player import FilePlayer
from rookery.training.resolve.seats import SCRIPTS, Seat, seat_of
from rookery.training.resolve.world_choice import World, duel_of
from rookery.training.storage.checkpoint import NAME, Checkpoints
from rookery.training.storage.checkpoint_files import MANIFEST, read_manifest
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.shipped_agents import agent_in
from rookery.worlds import registry

AT_ONCE = 1024  # games, where steps are cheap: enough that call overhead is small, few enough to stay in caches
FEW_AT_ONCE = 64  # games, where steps are not cheap, or a player from a file has an instance per game


PlayTournament = Callable[..., PairResults]  # as `play_tournament`


def play_tournament(
    duel: World,
    players: Sequence[Player | Script],
    games: int,
    seed: int,
    *,
    batch: int | None = None,
    backend: str = "serial",
    progress: Callable[[int, int], None] = lambda done, total: None,
    log: GameLog | None = None,
) -> PairResults:
    """Play so many games of every two players.

    Args:
        duel: The world, as `duel_of` gives it.
        games: For each pair; of an even number, both play half from either side.
        batch: How many games are played at once.
        backend: As for the envs of the training run.
        progress: Called after games with the number of finished games and of all games.
        log: The games are written to it as they end.
    """
    positive_int("games", games)
    if len(players) < 2:
        raise OptionError(f"a tournament needs at least two players, got {len(players)}")
    batch = batch or default_batch(duel, players)
    pairs = len(players) * (len(players) - 1) // 2
    with closing(GameEnvs(duel, min(batch, pairs * games), backend)) as envs:
        match = Match(envs, players, games, seed)

        def told(done: int) -> None:
            progress(done, match.games)
            if log is not None:
                log.add(match, last=done == match.games)

        played = match.play(progress=told)
    assert played is not None  # nobody asked it to stop
    return PairResults.of(len(players), match.pairs, played.winners)


def default_batch(duel: World, players: Sequence[Player | Script]) -> int:
    """How many games are played at once."""
    from_files = any(isinstance(player, FilePlayer) for player in players)
    return AT_ONCE if duel.kernel and not from_files else FEW_AT_ONCE


WEIGHTS = "agent.safetensors"


@dataclass(frozen=True)
class PlayerSource:
    """A player: "script:NAME", "shipped:NAME", "random", or a place in the folder of a run with the hash of the
    weights; None if it cannot be found again, as a Python file may change."""

    source: str | None = None
    run: str | None = None
    sha256: str | None = None


def source_in_run(run: RunDir, folder: Path) -> PlayerSource:
    """The agent in a folder of a run's league, or of its checkpoints."""
    return PlayerSource(
        f"{'league' if folder.parent.name == 'league' else 'checkpoints'}/{folder.name}", run.name, weights_hash(folder)
    )


def source_of(who: str, runs_dir: Path) -> PlayerSource:
    """The player that `find_player` finds by this name."""
    if who.lower() in SCRIPTS:
        return PlayerSource(f"script:{SCRIPTS[who.lower()]}")
    if who == file_player.NAME:
        return PlayerSource(file_player.NAME)
    if who in registry.agents():
        return PlayerSource(f"shipped:{registry.agents()[who].name}")
    if ".py:" in who:
        return PlayerSource()
    folder = Path(who).absolute()
    try:
        if (folder / MANIFEST).is_file():
            known = IN_RUN.fullmatch(f"{folder.parent.name}/{folder.name}")
            return source_in_run(RunDir(folder.parent.parent), folder) if known else PlayerSource()
        run = RunDir.find(who, runs_dir)
        checkpoints = Checkpoints(run.checkpoints)
        best = checkpoints.best()
        path = checkpoints.latest() if best is None else best[0].path
    except RookeryError:
        return PlayerSource()
    return PlayerSource() if path is None else source_in_run(run, path)


def weights_hash(folder: Path) -> str | None:
    """The hash of the agent's weights, as the folder's manifest has it; None if it has none."""
    try:
        found = read_manifest(folder)["files"][WEIGHTS]["sha256"]
    except (CheckpointError, OSError, LookupError, TypeError):
        return None
    return found if isinstance(found, str) else None


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
