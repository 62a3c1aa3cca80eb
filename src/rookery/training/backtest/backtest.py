"""`rookery.backtest`: an agent on bars that it has not seen, with costs, compared with holding."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from rookery.errors import OptionError, UsageError
from rookery.learners.agent import Agent
from rookery.training.backtest.backtest_report import BacktestReport, make_report
from rookery.training.backtest.recording import record_windows
from rookery.training.backtest.world_to_test import world_to_test
from rookery.training.evaluation.trained_run import open_run
from rookery.training.resolve.world_choice import find

CHECKPOINTS = ("best", "latest")
Split = str | list[Any]  # "test", "validation", "train", "all", or a list of [start, end]


def backtest(
    agent: str | Path | Agent = "latest",
    runs_dir: str | Path = "runs",
    *,
    split: Split = "test",
    data: Any = None,
    costs: Any = None,
    world: str | None = None,
    world_options: Mapping[str, Any] | None = None,
    checkpoint: Literal["best", "latest"] = "best",
    deterministic: bool = True,
    seed: int = 0,
    out: str | Path | None = None,
    trust: bool = False,
) -> BacktestReport:
    """Play an agent once through the bars of a market world, and report what its account did against holding.

    Args:
        agent: A run by its name, its path or as "latest"; or an agent, which needs `world`.
        split: The bars: "test", which no run trains or evaluates on, "validation", "train", "all", or a list of
            [start, end) as rows or times.
        data: Other bars than the agent was trained on, in any form that the world takes.
        costs: Other costs: the name of a preset, or a table of rates.
        world: Another world, such as "forex".
        world_options: Further options of the world.
        checkpoint: Which of the run's checkpoints: "best" in its evaluations, or "latest".
        deterministic: Take deterministic actions instead of sampled ones.
        seed: Of sampled actions, and of the bootstrap.
        out: A folder to write `report.json`, `report.html`, `report.png` and `account.npy` to.
        trust: Run the world's code without a question, even if this user has not trained with it here.
    """
    if checkpoint not in CHECKPOINTS:
        raise OptionError(f"checkpoint should be one of {', '.join(CHECKPOINTS)}, got {checkpoint!r}")
    about: dict[str, Any] = {"run": None, "checkpoint": None}
    notes: list[str] = []
    changes = {"data": data, "costs": costs, **(world_options or {}), "split": split}
    changes = {name: value for name, value in changes.items() if value is not None}
    if isinstance(agent, Agent):
        if world is None:
            raise UsageError("backtest(agent) needs the agent's world: backtest(agent, world='crypto')")
        played, player = find(world, options=changes), agent
    else:
        trained = open_run(agent, runs_dir, checkpoint == "best", trust=trust)
        trained.check_code()
        played, player = world_to_test(trained.config, changes, world), trained.agent
        about = {"run": trained.run.name, "checkpoint": f"{checkpoint} checkpoint (step {trained.step:,})"}
        notes = seen_notes(trained.config.world_options, split) if data is None and world is None else []
    records, market = record_windows(played, player, deterministic=deterministic, seed=seed)
    named = split if isinstance(split, str) else "given windows"
    about |= {"world": played.name, "split": named, "deterministic": deterministic, "notes": notes}
    report = make_report(records, market, about, seed)
    if out is not None:
        report.write(out)
    return report


def seen_notes(options: Mapping[str, Any], split: Split) -> list[str]:
    """What a reader must know about bars that the agent has met before."""
    trained_on = options.get("split", "train")
    if split == "train" or trained_on == split or trained_on == "all" or split == "all":
        return ["The agent was trained on bars of this split: the result says nothing about others."]
    if not isinstance(trained_on, str) or not isinstance(split, str):
        return ["Windows were given as a list: whether the agent was trained on some of these bars is not known."]
    if split == options.get("evaluation_split", "validation"):
        return ["The best checkpoint was chosen on bars of this split, so that the result is too good."]
    return []
