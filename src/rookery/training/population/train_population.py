"""Trains runs that differ in numbers, seeds or windows side by side, as one program."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import torch

from rookery.config import RunConfig
from rookery.console import say, silent
from rookery.engine.machine import usable_cores
from rookery.errors import ConfigError
from rookery.learners.population.population_update import PopulationUpdate
from rookery.training.population.batchable import why_not_batchable, why_not_learners
from rookery.training.population.members import Member, MemberPlan, open_member
from rookery.training.run.callbacks import Result
from rookery.training.run.stop_request import StopRequest
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_groups import read_config

Outcome = Result | Exception
LEAST_MEMBERS = 2  # of a thread: fewer would be updated one by one


class PopulationLoop:
    """Members collect, learn, are evaluated and saved in the same turns, each at its own number of steps. A member that
    ends, or fails, leaves; the others continue."""

    def __init__(self, members: Sequence[Member], stop: StopRequest, team: Team) -> None:
        self.members, self.stop, self.team = list(members), stop, team
        self.outcomes: dict[int, Outcome] = {}  # by the member's place
        self.on_turn: Callable[[PopulationLoop], None] = lambda loop: None  # between two turns
        self._active = dict(enumerate(self.members))
        self._updates: list[PopulationUpdate] = []

    @property
    def active(self) -> list[Member]:
        return list(self._active.values())

    def run(self) -> list[Outcome]:
        """Train until every member has ended; returns what became of each."""
        self._each(Member.start, quick=False)
        while self._end_those_that_are_done():
            self._collect()
            if self.stop.asked and not all(member.learner.ready() for member in self.active):
                continue  # rollouts are saved as they are: a resumed member completes its own
            self._update()
            self._each(lambda member: member.loop.learn())
            self._each(lambda member: member.loop.evaluate_save_and_log(), quick=False)
            self.on_turn(self)
        return [self.outcomes[place] for place in range(len(self.members))]

    def regroup(self) -> None:
        """Members' settings or weights were changed from outside."""
        self._updates = []

    # --- the parts of a turn --------------------------------------------------------------------------------------

    def _end_those_that_are_done(self) -> bool:
        """Returns whether any member is left."""
        done = {place: reason for place, member in self._active.items() if (reason := member.loop.end_reason())}
        places = list(done)
        members = [self._active[place] for place in places]
        ended = self._team_for(members).map(lambda place: self._active[place].end(done[place]), places)
        for place, outcome in zip(places, ended, strict=True):
            self._leave(place, outcome)
        return bool(self._active)

    def _collect(self) -> None:
        """A complete rollout of every member."""
        compiled = all(member.is_compiled for member in self.active)
        self._each(lambda member: member.loop.collect(), quick=not compiled)

    def _update(self) -> None:
        if not self._active:
            return
        started, members = time.perf_counter(), self.active
        for member in members:
            member.loop.collector.set_progress()
        updates = self._updates = self._updates or self._grouped(members)
        found = self.team.map(PopulationUpdate.update, updates)
        for outcome in found:
            if isinstance(outcome, Exception):
                raise outcome
        metrics = [one for outcome in found if not isinstance(outcome, Exception) for one in outcome]
        seconds = (time.perf_counter() - started) / len(members)
        for member, values in zip(members, metrics, strict=True):
            member.loop.collector.metrics = values
            member.loop.state.stopwatch.seconds["learner"] += seconds

    def _grouped(self, members: Sequence[Member]) -> list[PopulationUpdate]:
        """On a CPU, one group of members for each thread; on a GPU, all in one."""
        device = torch.device(members[0].device)
        groups = 1
        if device.type == "cpu":
            groups = max(1, min(self.team.threads, len(members) // LEAST_MEMBERS))
        size = -(-len(members) // groups)
        learners = [member.learner for member in members]
        return [PopulationUpdate(learners[k : k + size], device) for k in range(0, len(learners), size)]

    def _each(self, function: Callable[[Member], None], quick: bool = True) -> None:
        """Call a function for every member; what is not `quick`, on all threads. One that raises an error leaves."""
        places = list(self._active)
        team = Team(1) if quick else self._team_for(self.active)
        outcomes = team.map(lambda place: function(self._active[place]), places)
        for place, outcome in zip(places, outcomes, strict=True):
            if isinstance(outcome, Exception):
                self._leave(place, outcome)

    def _team_for(self, members: Sequence[Member]) -> Team:
        """Code of the user's own, in callbacks or Python envs, is called on the main thread."""
        safe = all(member.is_compiled and not member.loop.components.callbacks for member in members)
        return self.team if safe else Team(1)

    def _leave(self, place: int, outcome: Outcome) -> None:
        member = self._active.pop(place)
        if isinstance(outcome, Exception):
            outcome = member.fail(outcome)
        self.outcomes[place] = outcome
        self.regroup()


BeforeRun = Callable[[PopulationLoop], None]


def train_population(configs: Sequence[RunConfig], *, names: Sequence[str] | None = None) -> list[Result]:
    """Train runs side by side; returns the result of each. They are ordinary runs, in folders of their own: each can be
    watched, resumed alone and exported, and has the numbers that it has when it is trained alone.

    Args:
        configs: The configurations of the runs. They may differ in the learner's numbers, seeds, lengths and the
            world's options; `why_not_batchable` says what does not work.
        names: The names of the runs' folders.

    Example:
        >>> import tempfile
        >>> from rookery.config import build_config
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     settings = {"learner": "ppo", "steps": 2_048, "runs_dir": folder, "verbose": False}
        ...     rates = [1e-4, 3e-4, 1e-3]
        ...     configs = [build_config("CartPole-v1", learning_rate=rate, **settings) for rate in rates]
        ...     results = train_population(configs, names=["slow", "usual", "fast"])
        >>> [(result.run_name, result.total_steps) for result in results]
        [('slow', 2048), ('usual', 2048), ('fast', 2048)]

    Raises:
        ConfigError: The runs cannot train as one program.
    """
    if names is not None:
        configs = [c.model_copy(update={"name": name}) for c, name in zip(configs, names, strict=True)]
    return _results(run_population([MemberPlan(config) for config in configs]))


def resume_population(
    runs: Sequence[str | Path], runs_dir: str | Path = "runs", *, steps: int | None = None
) -> list[Result]:
    """Continue runs side by side, each from its latest checkpoint; to `steps` in all, if given."""
    folders = [RunDir.find(run, Path(runs_dir)) for run in runs]
    changes = {} if steps is None else {"steps": steps}
    return _results(run_population([MemberPlan(recorded_config(folder), folder, changes) for folder in folders]))


def recorded_config(folder: RunDir) -> RunConfig:
    """The configuration in a run's folder."""
    return RunConfig.model_validate(read_config(folder))


def run_population(plans: Sequence[MemberPlan], before: BeforeRun = lambda loop: None) -> list[Outcome]:
    """Train members side by side; returns the result of each, or the error that ended it. `before` is called before the
    first turn."""
    reason = why_not_batchable([plan.config for plan in plans])
    if reason:
        raise ConfigError(f"these runs cannot train as one program: {reason}; train them one by one")
    verbose = any(plan.config.monitor.verbose for plan in plans)
    with silent(not verbose):
        say(f"{len(plans)} runs train side by side as one program")
    with StopRequest() as stop, ExitStack() as stack:
        with silent():
            members = [stack.enter_context(open_member(plan, stop)) for plan in plans]
        _check(members)
        with _threads(members) as threads, Team(threads) as team, silent():
            loop = PopulationLoop(members, stop, team)
            before(loop)
            return loop.run()


def _check(members: Sequence[Member]) -> None:
    reason = why_not_learners([member.learner for member in members])
    if reason:
        raise ConfigError(f"these runs cannot train as one program: {reason}; train them one by one")


@contextmanager
def _threads(members: Sequence[Member]) -> Iterator[int]:
    """How many threads of members there are. Each of them computes with as many threads of torch as a member would
    alone; those that learn on a GPU act on one."""
    before = torch.get_num_threads()
    of_torch = members[0].run.config.model_dump()["ppo"]["threads"] or 1
    torch.set_num_threads(of_torch)
    try:
        yield max(1, min(usable_cores() // of_torch, len(members)))
    finally:
        torch.set_num_threads(before)


def _results(outcomes: Sequence[Outcome]) -> list[Result]:
    """All results; raises the first error, after all other members have ended."""
    results = []
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
        results.append(outcome)
    return results


T = TypeVar("T")
R = TypeVar("R")


class Team:
    """Calls a function for several items, each on one of some threads. What it does to an item depends on that item
    alone, so that timing changes no number."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads, "rookery-population") if threads > 1 else None

    def map(self, function: Callable[[T], R], items: Sequence[T]) -> list[R | Exception]:
        """The results in order; an error takes the place of its result."""

        def call(item: T) -> R | Exception:
            try:
                return function(item)
            except Exception as error:  # noqa: BLE001 - the caller decides what becomes of the item
                return error

        if self._pool is None or len(items) < 2:
            return [call(item) for item in items]
        return list(self._pool.map(call, items))

    def __enter__(self) -> Team:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown()
