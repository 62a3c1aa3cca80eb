"""The command `search`. The configuration is checked before torch is imported, as for `train`."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import Any

from rookery.cli import train_verb
from rookery.cli.arguments import check_cluster_flags, config_value, no_panel_argument, set_argument
from rookery.cli.parser import Commands, add_command
from rookery.cli.stored_run import LOADING, stdout_to_stderr
from rookery.cli.train_verb import Flag, add_flag, world_flags
from rookery.console import meanwhile
from rookery.training import check_installed
from rookery.worlds import registry

SEARCH: list[Flag] = [
    ("--n-trials --trials", "search.n_trials", "N"),
    ("--study-name --study", "search.study_name", "NAME"),
    ("--workers --n-jobs", "search.workers", "K"),
    ("--storage", "search.storage", "FILE|URL"),
    ("--timeout", "search.timeout", "20h"),
    ("--sampler", "search.sampler", "tpe|gp|cmaes|random|grid"),
    ("--pruner", "search.pruner", "none|median|asha|hyperband|wilcoxon"),
    ("--seeds", "search.seeds", "N"),
    ("--seed", "search.seed", "N"),
    ("--studies-dir", "search.studies_dir", "DIR"),
]
TEXTS = {
    "search.study_name",
    "search.storage",
    "search.timeout",
    "search.sampler",
    "search.pruner",
    "search.studies_dir",
}
REFUSED = "--nodes", "cluster.nodes"  # known, but only to say what to give instead
NOT_HERE = {"seed", "workers", "name", "runs_dir", "checkpoints.dir", REFUSED[1]}  # a search sets these for each run
EXAMPLES = (
    "rookery search CartPole-v1 --n-trials 10 --steps 5000",
    "rookery search my_config.toml --n-trials 500 --study-name first --timeout 20h",
    "rookery search crypto --data-dir data/5m --timeframe 5m --n-envs 12 --n-trials 500 --study-name crypto --gpu 0",
    "rookery search Pendulum-v1 --learner sac --n-trials 40 --set search.verify_seeds=10",
)


def add_commands(commands: Commands) -> None:
    """Add it to the parser."""
    parser = add_command(
        commands, "search", _search, "search for good settings",
        "Every trial is a run, or several with different seeds, in studies/NAME/runs. The best trials are trained "
        "again with held-out seeds before one is called the best. Ctrl-C stops, and the same command continues; with "
        "more --n-trials it extends the study. What varies is in the section [search.space] of a config file, or a "
        "space that suits the learner.",
        "",
        _add_arguments,
    )  # fmt: skip
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = train_verb.filled(parser.description)
    parser.epilog = "example: " + "\n         ".join(EXAMPLES)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "world", metavar="WORLD_OR_CONFIG",
        help=f"a world, as for `rookery train`, such as CartPole-v1, my_env.py:MyEnv or {registry.names()[0]}; or a "
        "config file (.toml, .json, .yaml), also one with lists of values, as grid searches have",
    )  # fmt: skip
    group = parser.add_argument_group("the search")
    for names, key, metavar in SEARCH:
        add_flag(group, names, key, metavar, is_text=key in TEXTS)
    groups = {title: parser.add_argument_group(title) for title in train_verb.FLAGS}
    for title, flags in train_verb.FLAGS.items():
        for names, key, metavar in flags:
            if key not in NOT_HERE:
                add_flag(groups[title], names, key, metavar)
    groups["the learner"].add_argument("--gpu", type=int, metavar="N", help="short for --device cuda:N")
    groups["many machines"].add_argument(REFUSED[0], dest=REFUSED[1], type=config_value, help=argparse.SUPPRESS)
    train_verb.add_world_flags(groups["the world"])
    no_panel_argument(groups["output"])
    groups["output"].add_argument(
        "--quiet", dest="monitor.verbose", action="store_const", const=False, help="print nothing at all"
    )
    set_argument(
        parser.add_argument_group("everything else"),
        "any that `rookery train --help-config` lists, such as search.first_seeds=3",
    )


def _search(options: argparse.Namespace) -> int:
    from rookery import printing
    from rookery.config import user_config
    from rookery.config.run_size import check_search_size

    config = user_config(options.world, options.set, **_given(options))
    check_cluster_flags(options, config)
    check_search_size(config)
    from rookery.training.resolve import world_choice

    world_choice.find(config.world, config.takes_twin, config.learner, config.world_options)
    check_installed()
    with meanwhile(LOADING):
        from rookery.studies.search_screen import print_result
        from rookery.studies.search_study import run_search
    from rookery.console import silent

    with stdout_to_stderr(options.json), silent(not config.monitor.verbose):
        result = run_search(config)
    if options.json:
        printing.emit_json(result.as_json())
    elif config.monitor.verbose:
        print_result(result, shlex.join(["rookery", *sys.argv[1:]]))
    return result.exit_code


def _given(options: argparse.Namespace) -> dict[str, Any]:
    """The keys of the configuration that flags set."""
    keys = {key for flags in train_verb.FLAGS.values() for _, key, _ in flags} - NOT_HERE
    keys |= {key for _, key, _ in SEARCH} | {REFUSED[1], "gpu", "monitor.verbose"} | world_flags().keys()
    given = {key: value for key, value in vars(options).items() if key in keys and value is not None}
    return given if options.panel is None else {**given, "monitor.panel": options.panel}
