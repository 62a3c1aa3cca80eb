"""The commands `search` and `study`: search for good settings, and show what was found.

The configuration is checked before torch is imported, as for `train`.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.cli import arguments, train_verb
from rookery.cli.parser import Commands, add_command, takes
from rookery.cli.train_verb import Flag, add_flag, typed_command, world_flags
from rookery.console import say, silent
from rookery.errors import OptionError
from rookery.studies.workers.early_start import import_on_one_thread, import_what_workers_need, started_early
from rookery.studies.workers.forked_worker import can_be_forked
from rookery.training import check_installed
from rookery.worlds import registry

if TYPE_CHECKING:
    from rookery.config import RunConfig
    from rookery.studies.report.study import Study

SEARCH: list[Flag] = [
    ("--n-trials --trials", "search.n_trials", "N"),
    ("--study-name --study", "search.study_name", "NAME"),
    ("--jobs --n-jobs --workers", "search.jobs", "K"),
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


def add_search(commands: Commands) -> None:
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
    takes(
        parser, "world WORLD_OR_CONFIG",
        f"a world, as for `rookery train`, such as CartPole-v1, my_env.py:MyEnv or {registry.names()[0]}; or a "
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
    takes(groups["the learner"], "--gpu N", "short for --device cuda:N", type=int)
    takes(groups["many machines"], REFUSED[0], argparse.SUPPRESS, dest=REFUSED[1], type=arguments.config_value)
    train_verb.add_world_flags(parser)
    arguments.no_panel_argument(groups["output"])
    arguments.quiet_argument(groups["output"])
    arguments.set_argument(
        parser.add_argument_group("everything else"),
        "any that `rookery train --help-config` lists, such as search.first_seeds=3",
    )


def _search(options: argparse.Namespace) -> int:
    import_on_one_thread()
    from rookery.config import user_config
    from rookery.config.run_size import check_search_size

    config = user_config(options.world, options.set, **_given(options))
    arguments.check_cluster_flags(options, config)
    check_search_size(config)
    from rookery.training.resolve import world_choice

    world_choice.find(config.world, config.takes_compiled, config.learner, config.world_options)
    check_installed()
    jobs = _likely_jobs(config)
    if jobs and can_be_forked():
        with arguments.loading():
            import_what_workers_need()
    with started_early(jobs):
        return _run_search(config, options)


def _run_search(config: RunConfig, options: argparse.Namespace) -> int:
    with arguments.loading():
        from rookery.studies.search_screen import print_result
        from rookery.studies.search_study import WORKERS_ARE_JOBS, run_search
    if vars(options).get("given_by", {}).get("search.jobs", ("",))[0] == "--workers":
        say(WORKERS_ARE_JOBS)

    with arguments.stdout_to_stderr(options.json), silent(not config.monitor.verbose):
        result = run_search(config)
    printed = partial(print_result, result, typed_command())
    arguments.show(options, result.as_json, printed if config.monitor.verbose else None)
    return result.exit_code


def _likely_jobs(config: RunConfig) -> int:
    """How many workers the search will probably start in this machine: one for each core, if nothing else is given."""
    from rookery.config.run_size import LEARNING_PROCESS
    from rookery.engine.machine import available_memory, usable_cores

    search = config.search
    if config.cluster.kind != "local" or search.population.exploit_every is not None:
        return 0
    jobs = search.jobs or (usable_cores() if config.device in ("auto", "cpu") else 1)
    return min(jobs, search.n_trials, usable_cores(), available_memory() // LEARNING_PROCESS)


def _given(options: argparse.Namespace) -> dict[str, Any]:
    """The keys of the configuration that flags set."""
    keys = {key for flags in train_verb.FLAGS.values() for _, key, _ in flags} - NOT_HERE
    keys |= {key for _, key, _ in SEARCH} | {REFUSED[1], "gpu", "monitor.verbose"} | world_flags().keys()
    given = {key: value for key, value in vars(options).items() if key in keys and value is not None}
    return given if options.panel is None else {**given, "monitor.panel": options.panel}


SECONDS = 2.0


def add_study(commands: Commands) -> None:
    parser = add_command(
        commands, "study", _study, "show a search: its trials, the best settings, what matters; or list all",
        "It only reads, so it does not disturb a running search. It also shows studies that Optuna or "
        "rl_zoo3 made.",
        "rookery study cartpole --watch",
    )  # fmt: skip
    takes(
        parser, "study STUDY", "the name of a study, its folder, a SQLite file or journal of Optuna, or the URL of a "
        "database; without one, all studies are listed", nargs="?",
    )  # fmt: skip
    takes(parser, "--watch", "redraw it until the search ends")
    takes(parser, "--every SECONDS", f"with --watch: how often ({SECONDS:g} s)", type=float, default=SECONDS)
    takes(parser, "--top N", "number of best trials in the table", 5)
    takes(
        parser, "--importances", "how importances are computed (ped-anova); fanova needs scikit-learn",
        choices=("ped-anova", "fanova"), default="ped-anova",
    )  # fmt: skip
    _file_arguments(parser)
    takes(parser, "--storage URL", "the database of the study: a SQLite file, a journal of Optuna, or a URL")
    takes(parser, "--studies-dir DIR", "the folder that contains the studies", "studies")


def _file_arguments(parser: argparse.ArgumentParser) -> None:
    takes(parser, "--plot DIR", "draw plots into this folder (plots in the study's folder)", nargs="?", const="")
    takes(parser, "--export-config FILE", "write the best settings as a configuration for `rookery train`")
    takes(parser, "--trial N", "with --export-config: this trial instead of the best", type=int)
    takes(parser, "--world WORLD", "with --export-config: the world, for a study of others")
    takes(parser, "--learner NAME", "with --export-config: the learner, for a study of others")
    takes(parser, "--force", "with --export-config: overwrite an existing file")


def _study(options: argparse.Namespace) -> int:
    _check_flags(options)
    if options.study is None:
        return _list(options)
    if options.watch:
        return _watch(options)
    from rookery import printing
    from rookery.studies.report.study import study

    found = study(options.study, options.studies_dir, options.storage, importances=options.importances)
    if options.export_config:
        return _export(options, found)
    plots = [] if options.plot is None else list(map(str, found.plot(options.plot)))
    if options.json:
        printing.emit_json({**found.as_json(), **({"plots": plots} if plots else {})})
    else:
        found.print(options.top)
        for path in plots:
            print(f"plot: {path}")
    return 0


def _check_flags(options: argparse.Namespace) -> None:
    """Refuse flags that do not go together."""
    from rookery.cli.arguments import check_positive

    check_positive(options, "top")
    if not options.every > 0:
        raise OptionError(f"--every should be a number of seconds > 0, got {options.every}")
    if options.study is None:
        for name in _flags_given(options, "watch", "plot", "export_config", "storage"):
            raise OptionError(f"--{name.replace('_', '-')} needs a study: name it, such as `rookery study cartpole`")
    if options.export_config is None:
        for name in _flags_given(options, "trial", "world", "learner", "force"):
            raise OptionError(f"--{name} is for --export-config, which is not given")
    if options.watch and (options.json or options.export_config or options.plot is not None):
        raise OptionError("--watch shows the study on the terminal only: omit --json, --plot and --export-config")


def _flags_given(options: argparse.Namespace, *names: str) -> list[str]:
    return [name for name in names if getattr(options, name) not in (None, False)]


def _list(options: argparse.Namespace) -> int:
    from rookery import printing
    from rookery.studies.report.report_text import print_table
    from rookery.studies.report.study import list_studies

    rows = list_studies(options.studies_dir)
    if options.json:
        printing.emit_json({"studies": rows})
    elif rows:
        print_table(rows)
    else:
        print(
            f"there are no studies in {options.studies_dir}; `rookery search CartPole-v1 --n-trials 20 --study-name "
            "cartpole` starts one"
        )
    return 0


def _watch(options: argparse.Namespace) -> int:
    from rookery.studies.report.report import Reporter
    from rookery.studies.report.watching import StudyWatch
    from rookery.studies.storage.study_view import StudyReader

    def find() -> StudyReader:
        return StudyReader.find(options.study, options.studies_dir, options.storage)

    StudyWatch(find, Reporter(options.importances), every=options.every, top=options.top).run()
    return 0


def _export(options: argparse.Namespace, study: Study) -> int:
    from rookery import printing

    path = Path(options.export_config)
    exported = study.write_config(
        path, options.trial, world=options.world, learner=options.learner, overwrite=options.force
    )
    if options.json:
        printing.emit_json({"path": str(path), "trial": exported.trial, "notes": list(exported.notes)})
        return 0
    for note in exported.notes:
        print(f"note: {note}")
    print(f"{path}: trial {exported.trial} of {study.study.name}; `rookery train {path}` trains with it")
    return 0
