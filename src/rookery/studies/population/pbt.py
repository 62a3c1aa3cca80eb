"""Population-based training: members train side by side, and now and then the worst become changed copies of the best.

A round is made where all members have been evaluated and saved at the same step. It is recorded in `lineage.jsonl` in
the folder of the runs before anything is copied: a population that is killed in the middle of a round makes it again.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from rookery.config import RunConfig
from rookery.console import say
from rookery.errors import ConfigError, StudyError
from rookery.files import own_folder
from rookery.studies.space.default_spaces import default_space
from rookery.studies.space.dimensions import Dimension, inside
from rookery.studies.space.space import SearchSpace, with_settings
from rookery.training.population.members import Member, MemberPlan
from rookery.training.population.train_population import PopulationLoop, recorded_config, run_population
from rookery.training.run.callbacks import Result
from rookery.training.storage.checkpoint import Checkpoints
from rookery.training.storage.run_dir import RunDir

__all__ = ["Scheduler", "read_lineage", "train_pbt"]

FIRST_SETTINGS = 0  # the key of the random numbers of the members' first settings; rounds count from 1
LINEAGE = "lineage.jsonl"


def train_pbt(config: RunConfig) -> list[Result]:
    """Train `search.population.size` members with settings from the search space, in `runs_dir`; returns the result of
    each. Called again with the same configuration, it continues from the last step that all members have saved.

    Raises:
        ConfigError: The size or `exploit_every` is missing, or a key of the space cannot change during a run.
    """
    scheduler = Scheduler(config)
    outcomes = run_population(scheduler.plans(), scheduler.attach)
    for outcome in outcomes:
        if isinstance(outcome, Exception):
            raise outcome
    return [outcome for outcome in outcomes if isinstance(outcome, Result)]


class Scheduler:
    """Decides which member becomes a copy of which, and with which numbers. Draws depend on `search.seed` and the
    number of the round alone."""

    def __init__(self, config: RunConfig) -> None:
        options = config.search.population
        if options.size < 2 or options.exploit_every is None:
            raise ConfigError(
                "population-based training needs `search.population.size` >= 2 and `search.population.exploit_every`, "
                f"got {options.size} and {options.exploit_every}"
            )
        self.config, self.options = config, options
        self.folder = Path(config.runs_dir)
        self.space = _adjustable_space(config)

    # --- members ----------------------------------------------------------------------------------------------------

    def plans(self) -> list[MemberPlan]:
        """New members, or those that are there already, from the last step that all have saved."""
        names = [f"member-{k:03d}" for k in range(self.options.size)]
        folders = [RunDir(self.folder / name) for name in names]
        known = [folder for folder in folders if folder.config.is_file()]
        if len(known) == len(folders) and _align(folders):
            return [MemberPlan(recorded_config(folder), folder) for folder in folders]
        if any(Checkpoints(folder.checkpoints).steps() for folder in known):
            raise StudyError(f"some members of the population in {self.folder} are missing: restore or remove the rest")
        for folder in folders:
            folder.discard()
        return [MemberPlan(self._member(k, name)) for k, name in enumerate(names)]

    def _member(self, number: int, name: str) -> RunConfig:
        """The configuration of a new member: evaluated and saved at every round."""
        random = np.random.default_rng([self.config.search.seed, FIRST_SETTINGS, number])
        settings = {} if number == 0 else {one.key: drawn(one, random) for one in self.space.dimensions}
        config = with_settings(self.config, settings)
        every = {"every": self.options.exploit_every, "every_episodes": None}
        changes = {name: getattr(config, name).model_copy(update=every) for name in ("evaluation", "checkpoints")}
        return config.model_copy(update={**changes, "name": name, "seed": self.config.seed + number})

    # --- rounds -----------------------------------------------------------------------------------------------------

    def attach(self, loop: PopulationLoop) -> None:
        """Make rounds between the turns of a population; one that a kill has interrupted is made first."""
        reached = {member.loop.steps for member in loop.members}
        rounds = drop_later(self.folder, max(reached))
        if rounds and reached == {rounds[-1]["step"]}:
            self._apply(loop, rounds[-1])
        loop.on_turn = self._after_turn

    def _after_turn(self, loop: PopulationLoop) -> None:
        """Where all members were evaluated in this turn, and none has ended or will now."""
        members = loop.active
        complete = len(members) == len(loop.members) and not loop.stop.asked
        if not complete or any(one.loop.state.evaluated_at != one.loop.steps for one in members):
            return
        if any(one.loop.end_reason() for one in members):
            return
        for member in members:
            member.loop.save()
        rounds = read_lineage(self.folder)
        decided = self._decide(len(rounds) + 1, members)
        append_round(self.folder, decided)
        say(_announcement(decided))
        self._apply(loop, decided)

    def _decide(self, number: int, members: Sequence[Member]) -> dict[str, Any]:
        random = np.random.default_rng([self.config.search.seed, number])
        scores = {one.folder.name: one.loop.state.last_evaluation for one in members}
        ranked = sorted(members, key=lambda one: (_score(one), one.folder.name))
        count = max(1, int(self.options.quantile * len(members)))
        copies = []
        for worst in ranked[:count]:
            best = ranked[-1 - int(random.integers(count))]
            copies.append({
                "member": worst.folder.name,
                "from": best.folder.name,
                "settings": self._explored(best, worst, random),
            })  # fmt: skip
        return {"round": number, "step": members[0].loop.steps, "time": time.time(), "scores": scores, "copies": copies}

    def _explored(self, best: Member, worst: Member, random: np.random.Generator) -> dict[str, list[Any]]:
        """Each setting of the worse member before, and after the round."""
        found = {}
        for dimension in self.space.dimensions:
            name = dimension.key.partition(".")[2]
            before, copied = getattr(worst.learner.options, name), getattr(best.learner.options, name)
            draws_again = random.random() < self.options.resample
            factor = self.options.perturb if random.random() < 0.5 else 1 / self.options.perturb
            fresh = drawn(dimension, random)
            found[dimension.key] = [before, fresh if draws_again else perturbed(dimension, copied, factor)]
        return found

    def _apply(self, loop: PopulationLoop, decided: Mapping[str, Any]) -> None:
        """Copy and change members, and save them. Doing it twice changes nothing: those that are copied stay."""
        members = {member.folder.name: member for member in loop.members}
        for copy in decided["copies"]:
            member, source = members[copy["member"]], members[copy["from"]]
            _copy_weights(source, member)
            section = self.config.learner
            changes = {key.partition(".")[2]: after for key, (_, after) in copy["settings"].items()}
            member.learner.adjust(changes)
            config = member.run.config
            numbers = getattr(config, section).model_copy(update=changes)
            member.use_config(config.model_copy(update={section: numbers}))
            member.loop.outputs.note(f"copied from {source.folder.name}, with {_text(copy['settings'])}")
            member.loop.save(again=True)
        loop.regroup()


def _adjustable_space(config: RunConfig) -> SearchSpace:
    """The space of a configuration; of the usual one, those keys that can change during a run."""
    learner = config.learner
    adjustable: frozenset[str] = getattr(getattr(config, learner, None), "adjustable", frozenset())
    known = {f"{learner}.{name}" for name in adjustable}
    if not config.search.space:
        usual = {key: spec for key, spec in default_space(config).items() if key in known}
        search = config.search.model_copy(update={"space": usual})
        config = config.model_copy(update={"search": search})
    space = SearchSpace.of(config)
    for key in space.keys:
        if key not in known:
            raise ConfigError(
                f"`search.space`: `{key}` cannot change during a run, so that population-based training cannot vary "
                f"it; it can vary {', '.join(sorted(known))}"
            )
    return space


def _copy_weights(source: Member, member: Member) -> None:
    """Weights, optimizer and normalisers; random numbers, envs and counters stay the member's own."""
    own, its = member.learner.state(), source.learner.state()
    scale = {**its["scale"], "running": own["scale"]["running"]} if own["scale"] else {}
    member.learner.load({**own, "policy": its["policy"], "adam": its["adam"], "scale": scale})


def _align(folders: Sequence[RunDir]) -> bool:
    """Remove checkpoints after the last step that all members have saved; returns whether there is one."""
    steps = [set(Checkpoints(folder.checkpoints).steps()) for folder in folders]
    common = set.intersection(*steps)
    if not common:
        return False
    for folder in folders:
        Checkpoints(folder.checkpoints).remove_after(max(common))
    return True


def _score(member: Member) -> float:
    score = member.loop.state.last_evaluation
    return -math.inf if score is None or math.isnan(score) else score


def _announcement(decided: Mapping[str, Any]) -> str:
    known = [score for score in decided["scores"].values() if score is not None]
    copies = ", ".join(f"{copy['member']} is now a copy of {copy['from']}" for copy in decided["copies"])
    best = f", best evaluation {max(known):.4g}" if known else ""
    return f"round {decided['round']}, {decided['step']:,} steps{best}: {copies}"


def _text(settings: Mapping[str, Sequence[Any]]) -> str:
    return ", ".join(f"{key} = {after!r} (was {before!r})" for key, (before, after) in settings.items())


def drawn(dimension: Dimension, random: np.random.Generator) -> Any:
    """A value from the whole range."""
    found = dimension.distribution
    if isinstance(found, CategoricalDistribution):
        return dimension.from_param(found.choices[int(random.integers(len(found.choices)))])
    assert isinstance(found, FloatDistribution | IntDistribution)
    place = random.random()
    if found.log:
        value = math.exp(math.log(found.low) + place * (math.log(found.high) - math.log(found.low)))
    else:
        value = found.low + place * (found.high - found.low)
    return inside(found, value)


def perturbed(dimension: Dimension, value: Any, factor: float) -> Any:
    """A number a little larger or smaller; a choice becomes the one beside it."""
    found = dimension.distribution
    if isinstance(found, CategoricalDistribution):
        choices = [dimension.from_param(choice) for choice in found.choices]
        at = choices.index(value) if value in choices else 0
        return choices[min(max(at + (1 if factor > 1 else -1), 0), len(choices) - 1)]
    assert isinstance(found, FloatDistribution | IntDistribution)
    if isinstance(found, IntDistribution) and round(value * factor) == value:
        return inside(found, value + (1 if factor > 1 else -1))
    return inside(found, value * factor)


def read_lineage(folder: Path) -> list[dict[str, Any]]:
    """The rounds of a population, the first one first. A line that a kill has left incomplete does not count."""
    try:
        lines = (folder / LINEAGE).read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    try:
        return [json.loads(line) for line in lines]
    except ValueError as error:
        raise StudyError(f"{folder / LINEAGE} is damaged: {error}") from None


def append_round(folder: Path, line: Mapping[str, Any]) -> None:
    """Add a line that is there after a power cut; the rest of one that a kill has cut is removed."""
    with open(own_folder(folder) / LINEAGE, "ab+") as file:
        file.seek(0)
        whole = file.read().rfind(b"\n") + 1
        file.truncate(whole)
        file.write(json.dumps(line).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())


def drop_later(folder: Path, step: int) -> list[dict[str, Any]]:
    """Forget rounds after the step that members continue from, as they will be made again; returns the others."""
    rounds = read_lineage(folder)
    kept = [one for one in rounds if one["step"] <= step]
    if len(kept) < len(rounds):
        beside = folder / f"{LINEAGE}.new"
        beside.write_text("".join(json.dumps(one) + "\n" for one in kept))
        beside.replace(folder / LINEAGE)
    return kept
