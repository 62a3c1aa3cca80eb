"""Compares a candidate with the champion, by the gate of their world. Every comparison is logged before it begins."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from rookery.config import RunConfig
from rookery.deploy.candidate import Candidate
from rookery.deploy.gates.evaluation import EPISODES, evaluation_gate
from rookery.deploy.gates.games import GAMES, games_gate
from rookery.deploy.gates.gate_result import GateResult
from rookery.deploy.gates.last_segment import last_segment
from rookery.deploy.gates.market import market_gate
from rookery.deploy.history import History
from rookery.errors import OptionError
from rookery.studies.storage.study_view import StudyView
from rookery.studies.trials.plans import is_market
from rookery.training.resolve import world_choice
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.trust import check_run
from rookery.worlds import registry as worlds

Kind = Literal["market", "games", "episodes"]


@dataclass(frozen=True)
class ComparisonOptions:
    """How agents are compared. `margin` and `episodes` are the gate's own if they are omitted."""

    margin: float | None = None
    episodes: int | None = None
    seed: int | None = None
    trust: bool = False
    stop: Callable[[], bool] = lambda: False


def gate_kind(config: RunConfig) -> Kind:
    """Which gate a world has. It imports the world's code, so the run should have been checked."""
    if is_market(config):
        return "market"
    opponents = [opponent for phase in config.all_phases for opponent in phase.opponents]
    if config.evaluation.opponents or opponents:
        return "games"
    world = world_choice.find(config.world, config.takes_twin, config.learner, config.world_options)
    spec = worlds.by_source(world.source)
    is_game = (spec is not None and spec.two_player is not None) or world_choice.num_agents(world) == 2
    return "games" if is_game else "episodes"


def compare(
    candidate: Candidate,
    run: RunDir,
    champion: RunDir | None,
    history: History,
    options: ComparisonOptions,
    log: Callable[[dict[str, Any]], None],
) -> GateResult | None:
    """Compare the agent in `run`, a version made from the candidate or its own folder, with the champion. `log` is
    called with what decides about the comparison before anything is played. None if it was stopped."""
    config = candidate.config
    check_run(candidate.run, config, options.trust, playing=True)
    kind = gate_kind(config)
    if kind == "market":
        return _compare_on_bars(candidate, run, champion, history, options, log)
    seed = new_seed(history) if options.seed is None else _unused(options.seed, history)
    count = options.episodes or (GAMES if kind == "games" else EPISODES)
    log({"gate": kind, "seed": seed, "episodes": count})
    how: dict[str, Any] = {
        "seed": seed,
        "margin": options.margin or 0.0,
        "checkpoint": candidate.checkpoint,
        "trust": options.trust,
        "stop": options.stop,
    }
    if kind == "games":
        return games_gate(run, champion, games=count, **how)
    return evaluation_gate(run, champion, episodes=count, **how)


def new_seed(history: History) -> int:
    """A seed that no comparison in this registry has used."""
    while (seed := secrets.randbits(62)) in history.seeds:
        pass
    return seed


def _unused(seed: int, history: History) -> int:
    if seed in history.seeds:
        raise OptionError(f"seed = {seed}: a comparison has used it, and agents are compared on new episodes; omit it")
    return seed


def _compare_on_bars(
    candidate: Candidate,
    run: RunDir,
    champion: RunDir | None,
    history: History,
    options: ComparisonOptions,
    log: Callable[[dict[str, Any]], None],
) -> GateResult:
    """On the last segment of a market's bars. There are no new bars for every comparison, so that each one counts as
    an attempt in those that follow."""
    segment = last_segment(run).key
    before = history.comparisons_on(segment)
    log({"gate": "market", "segment": segment, "comparisons_before": before})
    study = candidate.study or StudyView(candidate.run.name, None, "", True, ())
    margin = {} if options.margin is None else {"margin": options.margin}
    return market_gate(run, champion, study=study, comparisons=before, **margin)
