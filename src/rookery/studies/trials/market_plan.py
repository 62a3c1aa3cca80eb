"""How a trial of a market world is judged: by combinatorial purged cross-validation.

A trial is one run per fold. Each run trains on the train windows of its fold, and its value is the Sharpe ratio of its
agent less that of holding on the fold's test windows. No fold has a bar of the last segment, the split "test".
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from rookery.config import RunConfig
from rookery.config.sections import SearchOptions
from rookery.console import silent
from rookery.data.splits import Split, combinatorial_purged
from rookery.errors import OptionError
from rookery.files import replace_file
from rookery.performance.worth import CONFIDENCE, annual_sharpe, beyond, excess_moments, least_sharpe
from rookery.studies.trials.plans import SEVERAL, TrialPart, Values, part_of
from rookery.studies.trials.pruning import BY_EVALUATIONS
from rookery.training.backtest.backtest import world_to_test
from rookery.training.backtest.joined_account import JoinedAccount, join
from rookery.training.backtest.recording import MarketView, record_windows
from rookery.training.backtest.records import MarketFacts
from rookery.training.evaluation.trained_run import open_run
from rookery.training.evaluation.win_record import interval_of
from rookery.training.storage.run_dir import RunDir
from rookery.worlds.market.market_options import with_own_names

SPREAD_WEIGHT = 0.1  # of the standard deviation over folds, which is subtracted
HELD_OUT = 1_000  # added to the first seed of a trial: the first seed of its verification
# A report at the end of a run would play the last segment, and nobody looks at the plots of thousands of runs.
NO_REPORT = {"report": False, "plot": False, "tensorboard": False, "video": False}
NEVER = 10**12  # steps: a run that evaluates so rarely does so once, at its end
GROUPS = 4  # of combinatorial purged cross-validation, unless `search.folds` says otherwise
LAST_SEGMENT = 0.15  # of the bars: the split "test" of a market world
LEAST_BARS = 10  # of a window, beyond the lookback: fewer say nothing
OF_A_SEARCH = {"split": "train", "evaluation_split": "validation"}  # options that a search sets itself
FIGURES = "test_figures.json"  # in the folder of a trial's run
BLOCKS = 12  # of bars, for the probability of backtest overfitting: 924 choices of half of them


class CrossValidationPlan:
    """Trials of market worlds: one part per fold; verified with held-out seeds on the split "validation"."""

    def __init__(self, search: SearchOptions) -> None:
        if search.pruner in BY_EVALUATIONS:
            raise OptionError(
                f'search.pruner = "{search.pruner}" compares evaluations during a run, which are on the bars that a '
                'fold trains on: use "wilcoxon", which compares folds, or "none"'
            )
        self.search = search

    def first_parts(self, config: RunConfig) -> list[TrialPart]:
        """One run per fold, each with a seed of its own. Evaluations stay inside the windows that train."""
        refuse_own_splits(config)
        splits = [fold.train.tolist() for fold in market_folds(config, self.search)]
        return [_part(config, f"fold-{k}", config.seed + k, split, split) for k, split in enumerate(splits)]

    def more_parts(self, config: RunConfig, values: Values, others: Sequence[Values]) -> list[TrialPart]:
        """None: all trials have the same folds, so that they can be compared fold by fold."""
        return []

    def verify_parts(self, config: RunConfig) -> list[TrialPart]:
        """Runs with held-out seeds on the whole split "train", to be judged on "validation"."""
        refuse_own_splits(config)
        first = config.seed + HELD_OUT
        seeds = range(first, first + self.search.verify_seeds)
        return [_part(config, f"verify-{seed}", seed, "train", "validation") for seed in seeds]

    def value(self, part: TrialPart, run: RunDir) -> float:
        """The Sharpe ratio a year above holding, on the bars of the fold's test or on the split "validation"."""
        starts = block_starts(part.config, self.search) if part.name.startswith("fold-") else None
        return sharpe_above_hold(run, self.tested(part), starts)

    def tested(self, part: TrialPart) -> Any:
        """The bars that a part is judged on: a split, as the world takes it."""
        kind, _, number = part.name.partition("-")
        if kind == "verify":
            return "validation"
        return market_folds(part.config, self.search)[int(number)].test.tolist()

    def total(self, values: Values) -> float:
        """The mean over folds less a tenth of the standard deviation: one fold that went well is not a result."""
        found = list(values.values())
        return float(np.mean(found) - SPREAD_WEIGHT * np.std(found))

    def interval(self, values: Values) -> tuple[float, float] | None:
        """About 95 % for the total; None for a single value. Folds share bars, so that the true one is wider."""
        if len(values) < SEVERAL:
            return None
        found: Sequence[float] = list(values.values())
        low, high = interval_of(found)
        less = SPREAD_WEIGHT * float(np.std(found))
        return low - less, high - less


def _part(config: RunConfig, name: str, seed: int, split: Any, evaluation_split: Any) -> TrialPart:
    """A run on these bars. It evaluates once, at its end, unless the configuration says how often: then the best
    checkpoint is chosen by these evaluations."""
    changes: dict[str, Any] = {
        "world_options": {**config.world_options, "split": split, "evaluation_split": evaluation_split},
        "monitor": config.monitor.model_copy(update=NO_REPORT),
        "seed": seed,
    }
    if config.evaluation.every is None and config.evaluation.every_episodes is None:
        rarely = {"every": NEVER, "max_episodes": config.evaluation.max_episodes or config.evaluation.episodes}
        changes["evaluation"] = config.evaluation.model_copy(update=rarely)
    return part_of(config, name, **changes)


def groups_per_test(groups: int) -> int:
    """How many of the groups a fold tests on: two, and never more than half of them.

    >>> groups_per_test(4), groups_per_test(6), groups_per_test(3)
    (2, 2, 1)
    """
    return min(2, groups // 2)


def groups_by_fold(groups: int) -> list[tuple[int, ...]]:
    """The groups that each fold tests on, in the order of the folds.

    >>> groups_by_fold(4)
    [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    """
    return list(combinations(range(groups), groups_per_test(groups)))


def market_folds(config: RunConfig, search: SearchOptions) -> list[Split]:
    """The folds of a trial, as positions among the times of the bars: for each, where it trains and where it tests.

    The last segment and the embargo before it are omitted. After each test no bar is trained on for `search.embargo`
    bars, or as far as an observation looks back if that is longer: it would show bars of the test.
    """
    view = market_of(config)
    groups, lookback = search.folds or GROUPS, int(view.world.lookback)
    embargo = embargo_of(view, search)
    rows, least = len(np.unique(view.market.times)), lookback + LEAST_BARS
    if groups < 2:
        raise OptionError(f"search.folds = {groups}: cross-validation needs at least 2 groups of bars, such as 4")
    known = known_rows(rows, embargo)
    if known // groups < least:
        raise _too_few(rows, groups, embargo, f"a group would have {max(known, 0) // groups}, and needs {least}")
    try:
        folds = combinatorial_purged(known, groups, groups_per_test(groups), embargo=embargo)
    except OptionError as error:
        raise _too_few(rows, groups, embargo, str(error)) from None
    if any(np.diff(fold.train).max(initial=0) < least for fold in folds):
        raise _too_few(rows, groups, embargo, f"training needs a window of {least}")
    return folds


def embargo_of(view: MarketView, search: SearchOptions) -> int:
    """The embargo of a search: at least the bars that an observation shows, and those that its features are made of."""
    return max(search.embargo, view.reach)


def known_rows(rows: int, embargo: int) -> int:
    """How many of the bars the folds have: all but the last segment, and the embargo before it."""
    return rows - round(LAST_SEGMENT * rows) - embargo


def block_starts(config: RunConfig, search: SearchOptions) -> np.ndarray:
    """The times at which the blocks of bars begin by which the study's overfitting is measured."""
    view = market_of(config)
    times = np.unique(view.market.times)
    return times[np.arange(BLOCKS) * known_rows(len(times), embargo_of(view, search)) // BLOCKS]


def least_shown(config: RunConfig) -> str:
    """Which Sharpe ratio the bars of a search can show at all, for the user: a lower one looks like luck."""
    view = market_of(config)
    rows, a_year, trials = len(np.unique(view.market.times)), view.facts().periods_per_year, config.search.n_trials
    last, known = round(LAST_SEGMENT * rows), known_rows(rows, embargo_of(view, config.search))
    found = least_sharpe((max(known, 2), trials), (max(last, 2), 1), confidence=CONFIDENCE) * math.sqrt(a_year)
    return (
        f"{rows / a_year:.2g} years of bars, {trials:,} trials: a strategy must show a Sharpe ratio of {found:.1f} a "
        "year beyond holding to pass the gate of `rookery deploy`; a lower one is indistinguishable from luck"
    )


def market_of(config: RunConfig) -> MarketView:
    """All bars of the world that a configuration names."""
    world = world_to_test(config, {"split": "all"}).kernel_world
    if world is None:
        raise OptionError(
            f"{config.world} is not a market world: search.metric = sharpe_difference is for crypto and forex"
        )
    return MarketView(world)


def refuse_own_splits(config: RunConfig) -> None:
    """Refuse windows of the user's own: a search could not keep the last segment from its trials."""
    for option, usual in OF_A_SEARCH.items():
        value: Any = config.world_options.get(option, usual)
        if value is not None and value != usual:
            raise OptionError(
                f"world_options.{option} = {value!r}: a search of a market world chooses the bars of its trials, so "
                "that none is shown the last segment; omit this option"
            )


def _too_few(rows: int, groups: int, embargo: int, why: str) -> OptionError:
    """The error for data that are too short."""
    return OptionError(
        f"{rows} bars are too few for search.folds = {groups} groups with search.embargo = {embargo} ({why}): take "
        "more bars, fewer groups or a shorter embargo"
    )


def played(run: RunDir, split: Any, changes: Mapping[str, Any] | None = None) -> tuple[JoinedAccount, MarketFacts]:
    """The account of a run's best checkpoint on the bars of a split, and the facts about these bars. `changes` are
    other options of the world, such as its data; None is the world's default."""
    with silent():
        trained = open_run(run.path, run.path.parent, trust=True)
    options = {**with_own_names(trained.config.world_options), **(changes or {})}
    kept = {name: value for name, value in options.items() if value is not None}
    world = world_to_test(trained.config.model_copy(update={"world_options": kept}), {"split": split})
    records, facts = record_windows(world, trained.agent, deterministic=trained.config.evaluation.deterministic)
    return join(records), facts


def sharpe_above_hold(run: RunDir, split: Any, block_starts: np.ndarray | None = None) -> float:
    """The Sharpe ratio a year of the run's agent less that of holding. The figures are written into the run's folder,
    for the study's overfitting figures; with `block_starts`, also the sums over each block of bars."""
    account, facts = played(run, split)
    figures = figures_of(account, facts)
    if block_starts is not None:
        figures["blocks"] = block_sums(account, block_starts).tolist()
    replace_file(run.path / FIGURES, [json.dumps(figures, indent=2).encode(), b"\n"])
    return float(figures["sharpe_difference"])


def block_sums(account: JoinedAccount, starts: np.ndarray) -> np.ndarray:
    """What an account earned beyond holding in each block: (blocks, 3), the number of bars, the sum of the returns and
    that of their squares. `block_overfitting` needs no more of the returns of each bar."""
    excess = beyond(account.returns("agent"), account.returns("hold"))
    block = np.searchsorted(starts, account.times[1:], side="right") - 1
    powers = np.ones_like(excess), excess, excess**2
    return np.stack([np.bincount(block, each, len(starts)) for each in powers], axis=1)


def figures_of(account: JoinedAccount, facts: MarketFacts) -> dict[str, Any]:
    """Sharpe ratios a year, and the moments of what the agent earned beyond holding, per bar."""
    a_year = facts.periods_per_year
    agent, hold = (annual_sharpe(account.returns(name), a_year) for name in ("agent", "hold"))
    return {
        "sharpe": agent,
        "hold_sharpe": hold,
        "sharpe_difference": agent - hold,
        "periods_per_year": a_year,
        **excess_moments(account.returns("agent"), account.returns("hold")),
    }


def read_figures(run: Path) -> dict[str, Any] | None:
    """The figures in a run's folder; None if there are none."""
    try:
        found = json.loads((run / FIGURES).read_bytes())
        numbers = np.array([value for name, value in found.items() if name != "blocks"], np.float64)
        blocks = np.array(found.get("blocks", np.zeros((0, 3))), np.float64)
    except (OSError, ValueError, TypeError, AttributeError):
        return None
    good = np.isfinite(numbers).all() and np.isfinite(blocks).all() and blocks.ndim == 2 and blocks.shape[1] == 3
    return {**found, "blocks": blocks} if good else None
