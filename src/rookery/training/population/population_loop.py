"""The training loop of a population: the loops of all members in step, with one batched update for all."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch

from rookery.learners.population.population_update import PopulationUpdate
from rookery.training.population.members import Member
from rookery.training.population.team import Team
from rookery.training.run.result import Result
from rookery.training.run.stop_request import StopRequest

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
        """The members that have not ended."""
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
        quick = all(member.is_compiled for member in self.active)
        if quick:
            self._each(lambda member: member.loop.collect(), quick=False)
        else:
            self._each(lambda member: member.loop.collect())

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
