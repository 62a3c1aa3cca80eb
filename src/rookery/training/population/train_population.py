"""Trains runs that differ in numbers, seeds or windows side by side, as one program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import torch

from rookery.config import RunConfig
from rookery.console import say, silent
from rookery.engine.machine import usable_cores
from rookery.errors import ConfigError
from rookery.training.population.batchable import why_not_batchable, why_not_learners
from rookery.training.population.members import Member, MemberPlan, open_member
from rookery.training.population.population_loop import Outcome, PopulationLoop
from rookery.training.population.team import Team
from rookery.training.run.result import Result
from rookery.training.run.stop_request import StopRequest
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_groups import read_config

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
