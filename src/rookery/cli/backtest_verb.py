"""The command `backtest`: a trained agent on bars that it has not seen, or a walk-forward test of a world."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rookery.cli.arguments import (
    changes_from,
    check_positive,
    check_seed,
    config_value,
    runs_dir_argument,
    set_argument,
    trust_argument,
)
from rookery.cli.parser import Commands, add_command
from rookery.cli.stored_run import LOADING, check_run_world, find_run, stdout_to_stderr
from rookery.console import meanwhile
from rookery.errors import OptionError
from rookery.training import check_installed

SPLITS = ("test", "validation", "train", "all")
OF_RUNS = ("split", "checkpoint", "trust")  # flags that a walk-forward test decides itself
OF_FOLDS = ("steps", "learner", "embargo", "rolling", "name_of_runs")  # flags that only a walk-forward test has


def add_commands(commands: Commands) -> None:
    """Add it to the parser."""
    parser = add_command(
        commands, "backtest", _backtest, "test a trained agent on bars of a market that it has not seen",
        "Plays the agent once through the bars, with costs, and compares its account with buy and hold and with equal "
        "weights: return, Sharpe ratio, drawdown, costs, by period and by asset, with confidence intervals. Prints "
        "tables, and writes report.json, report.html, report.png and account.npy. With --walk-forward it first trains: "
        "on the past, tested on the bars that follow, several times, with one report on all tests.",
        "rookery backtest forex --walk-forward 4 --steps 200_000",
    )  # fmt: skip
    parser.add_argument(
        "name", metavar="RUN|WORLD",
        help="the name of a run, its folder, or latest; with --walk-forward, a world or a config file",
    )  # fmt: skip
    runs_dir_argument(parser)
    parser.add_argument("--split", choices=SPLITS, help="which bars (test: those that no run trains or evaluates on)")
    parser.add_argument("--data", metavar="PATH", help="other bars: a file or a folder (those of the run)")
    parser.add_argument("--costs", metavar="NAME", help="other costs, by the name of a preset (those of the run)")
    parser.add_argument("--checkpoint", choices=("best", "latest"), help="which checkpoint of the run (best)")
    parser.add_argument("--out", metavar="DIR", help="the folder for the report (report/ in the run's folder)")
    parser.add_argument("--stochastic", action="store_true", help="sample actions instead of the deterministic ones")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of sampled actions and intervals (0)")
    set_argument(parser, "an option of the world such as world_options.leverage=2; with --walk-forward, any key")
    trust_argument(parser)
    folds = parser.add_argument_group("walk-forward")
    folds.add_argument("--walk-forward", type=int, metavar="FOLDS", help="train and test so many times")
    folds.add_argument("--steps", type=config_value, metavar="N", help="steps of each training (as in rookery train)")
    folds.add_argument("--learner", metavar="NAME", help="the learner (as in rookery train)")
    folds.add_argument("--embargo", type=int, metavar="N", help="bars between training and test (50)")
    folds.add_argument(
        "--rolling", action="store_true", help="train on a past of equal length each time, instead of all of it"
    )
    folds.add_argument("--name", dest="name_of_runs", metavar="NAME", help="the beginning of the names of the runs")


def _backtest(options: argparse.Namespace) -> int:
    check_seed(options.seed)
    check_positive(options, "walk_forward")
    if options.walk_forward is None:
        _refuse(options, OF_FOLDS, "is for --walk-forward: add it, or omit")
    else:
        _refuse(options, OF_RUNS, "has no effect with --walk-forward: omit")
    check_installed()
    with stdout_to_stderr(options.json):
        report, folder = (_test_run if options.walk_forward is None else _test_folds)(options)
        written = report.write(folder)
    if options.json:
        from rookery import printing

        printing.emit_json({**report.summary, "report": str(written)})
    else:
        report.print()
        print(f"\nreport: {written}")
    return 0


def _refuse(options: argparse.Namespace, names: tuple[str, ...], why: str) -> None:
    for name in names:
        if getattr(options, name) not in (None, False):
            flag = "--name" if name == "name_of_runs" else f"--{name.replace('_', '-')}"
            raise OptionError(f"{flag} {why} {flag}")


def _test_run(options: argparse.Namespace) -> tuple[Any, Path]:
    found = find_run(options)
    keywords: Any = check_run_world(found, options)
    changes = changes_from(options)
    others = [key for key in changes if key != "world_options"]
    if others:
        raise OptionError(f"`{others[0]}` has no effect on a backtest; options of the world have: world_options.*")
    with meanwhile(LOADING):
        from rookery.training.backtest.backtest import backtest
    with meanwhile("testing the agent"):
        report = backtest(
            found.path, options.runs_dir, split=options.split or "test", data=options.data, costs=options.costs,
            world_options=changes.get("world_options"), checkpoint=options.checkpoint or "best",
            deterministic=not options.stochastic, seed=options.seed, **keywords,
        )  # fmt: skip
    return report, Path(options.out) if options.out else found.report


def _test_folds(options: argparse.Namespace) -> tuple[Any, Path]:
    from rookery.config import user_config

    flags = {
        "steps": options.steps, "learner": options.learner, "name": options.name_of_runs, "runs_dir": options.runs_dir,
        "world_options.data": options.data, "world_options.costs": options.costs,
    }  # fmt: skip
    given = {key: value for key, value in flags.items() if value is not None}
    config = user_config(options.name, options.set, **given)
    with meanwhile(LOADING):
        from rookery.training.walk_forward import walk_forward
    keywords = {} if options.embargo is None else {"embargo": options.embargo}
    report = walk_forward(
        config, options.walk_forward, expanding=not options.rolling, deterministic=not options.stochastic,
        seed=options.seed, **keywords,
    )  # fmt: skip
    name = options.name_of_runs or config.world.rpartition("/")[2]
    return report, Path(options.out) if options.out else Path(options.runs_dir) / f"{name}-walk-forward"
