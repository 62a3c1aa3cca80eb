"""The players of a tournament: the agents of runs, and others by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rookery.engine.seeding import child_seed
from rookery.errors import OptionError
from rookery.training.evaluation.trained_run import TrainedRun, open_run
from rookery.training.league.league_files import stored_league
from rookery.training.league.tournament import play_tournament
from rookery.training.league.tournament_report import Entry, TournamentReport
from rookery.training.players.agents import Player, Script, find_player, seated
from rookery.training.resolve.seats import Seat, seat_of
from rookery.training.resolve.world_choice import duel_of
from rookery.training.storage.checkpoint import NAME
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.shipped_agents import agent_in

TOURNAMENT_KEY = 1_000_039  # sets the seeds of its games apart from all others of a run


@dataclass(frozen=True)
class TournamentPlayer:
    """A player, and its entry in the report."""

    entry: Entry
    player: Player | Script


def hold_tournament(
    runs: Sequence[RunDir],
    games: int,
    *,
    others: Sequence[str] = (),
    runs_dir: str | Path = "runs",
    seed: int | None = None,
    trust: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> TournamentReport:
    """Play so many games of every two agents of some runs, and others by name (see `find_player`), in the first run's
    world, with deterministic actions. The report is kept in the first run's folder. `trust` lets the code of that world
    run without a question."""
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
    acting = [player.player for player in players]
    results = play_tournament(duel, acting, games, seed, backend=first.config.backend, progress=progress)
    entries = _distinct([player.entry for player in players])
    report = TournamentReport(duel.name, games, seed, entries, results, results.rate())
    report.save(first.run.outputs)
    return report


def _agents_of(trained: TrainedRun, seat: Seat, with_run: bool) -> Iterator[TournamentPlayer]:
    """The members of a run's archive or, if it has none, its checkpoints; and its latest agent."""
    run, prefix = trained.run, f"{trained.run.name}/" if with_run else ""
    league = stored_league(run)
    steps = set()
    if league is not None and league.archive.active:
        found = [(member.name, member.step, league.archive.load_policy(member)) for member in league.archive.active]
    else:
        found = [(f"step-{step}", step, agent_in(path)) for step, path in _checkpoints(run)]
    for name, step, agent in found:
        steps.add(step)
        yield TournamentPlayer(Entry(prefix + name, run.name, step), seated(agent, prefix + name, seat))
    if trained.step not in steps:
        latest = seated(trained.agent, f"{prefix}latest", seat)
        yield TournamentPlayer(Entry(f"{prefix}latest", run.name, trained.step), latest)


def _checkpoints(run: RunDir) -> list[tuple[int, Path]]:
    """A run's checkpoints by step; of several at one step, the last."""
    found = {}
    for path in sorted(run.checkpoints.iterdir()):
        if match := NAME.fullmatch(path.name):
            found[int(match[1])] = path
    return sorted(found.items())


def _other(who: str, seat: Seat, runs_dir: str | Path) -> TournamentPlayer:
    player = find_player(who, seat, runs_dir)
    return TournamentPlayer(Entry(player.name), player)


def _distinct(entries: list[Entry]) -> list[Entry]:
    """With a number behind names that occur before."""
    seen: dict[str, int] = {}
    for k, entry in enumerate(entries):
        seen[entry.name] = seen.get(entry.name, 0) + 1
        if seen[entry.name] > 1:
            entries[k] = replace(entry, name=f"{entry.name} ({seen[entry.name]})")
    return entries
