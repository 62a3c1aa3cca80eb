"""The command `train`. The configuration is checked before torch is imported, so that a mistake is reported at once."""

from __future__ import annotations

import argparse
import shlex
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.cli.arguments import (
    check_cluster_flags,
    config_value,
    finish_run,
    loading,
    no_panel_argument,
    quiet_argument,
    set_argument,
    show,
    stdout_to_stderr,
)
from rookery.cli.parser import Commands, Parser, add_command, takes
from rookery.console import say, silent
from rookery.errors import OptionError
from rookery.kernel.gpu_driver import open_context_early
from rookery.training import check_installed
from rookery.worlds import registry

if TYPE_CHECKING:
    from rookery.config import RunConfig
    from rookery.worlds.world_spec import WorldOption

Flag = tuple[str, str, str]  # its names, the key that it sets, the metavar ("": the names of all learners)

TEXTS = {
    "learner",
    "name",
    "device",
    "runs_dir",
    "backend",
    "start_method",
    "checkpoints.dir",
    "init_from",
    "cluster.kind",
    "cluster.address",
}
FLAGS: dict[str, list[Flag]] = {
    "the run": [
        ("--steps --total-timesteps", "steps", "N"),
        ("--num-episodes --episodes", "episodes", "N"),
        ("--episode-length", "episode_length", "N"),
        ("--seed", "seed", "N"),
    ],
    "the world": [
        ("--num-envs --n-envs", "num_envs", "N|auto|adaptive"),
        ("--opponents --opponent", "opponents", "WHO,..."),
        ("--backend", "backend", "NAME"),
        ("--workers", "workers", "N"),
        ("--start-method --parallel-start-method", "start_method", "HOW"),
        ("--image-size", "image_size", "N|full|auto"),
    ],
    "the learner": [
        ("--learner --algo --algorithm", "learner", ""),
        ("--learning-rate --lr", "learning_rate", "X"),
        ("--from --checkpoint-path", "init_from", "RUN|CHECKPOINT"),
        ("--device", "device", "auto|cpu|cuda|cuda:N|N|mps"),
    ],
    "many machines": [
        ("--on", "cluster.kind", "local|ray"),
        ("--address", "cluster.address", "auto|HOST:PORT"),
        ("--nodes", "cluster.nodes", "N"),
    ],
    "evaluation": [
        ("--eval-every --eval-freq-steps", "evaluation.every", "N"),
        ("--eval-episodes --eval-num-games", "evaluation.episodes", "N"),
        ("--eval-opponents", "evaluation.opponents", "WHO,..."),
    ],
    "output": [
        ("--name --run-name", "name", "NAME"),
        ("--runs-dir --base-output-dir", "runs_dir", "DIR"),
        ("--checkpoint-dir", "checkpoints.dir", "DIR"),
    ],
}
SWITCHES = {
    "gpu",
    "batch_size",
    "monitor.verbose",
    "monitor.video",
    "wrappers",
    "callbacks",
}  # flags with a shape of their own
EXAMPLES = (
    "rookery train CartPole-v1",
    "rookery train my_file.py:MyEnv --num-envs 8 --steps 1e6",
    "rookery train CartPole-v1 --num-episodes 500 --learning-rate 1e-3",
    "rookery train CartPole-v1 --from latest --steps 50_000",
    "rookery train catch --num-envs 1024 --steps 2M",
    "rookery train configs/curriculum_base.json --num-envs 8 --name third",
)


def add_train(commands: Commands) -> None:
    parser = add_command(
        commands, "train", _train, "train an agent",
        "The only argument that is needed is a world. The default learner depends on its action space. For some worlds "
        "rookery has tested settings, which replace the defaults in parentheses below. Flags override --set, and both "
        "override the config file. Ctrl-C saves a checkpoint and ends the run; `rookery resume` continues it.",
        "",
        _add_arguments,
    )  # fmt: skip
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = filled(parser.description)
    parser.epilog = "example: " + "\n         ".join(EXAMPLES)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    takes(
        parser, "world WORLD_OR_CONFIG",
        "a Gymnasium id, such as CartPole-v1; a class or function in a file, such as my_env.py:MyEnv; "
        f"{'; '.join(registry.names())}; or a config file (.toml, .json, .yaml)", nargs="?",
    )  # fmt: skip
    groups = {title: parser.add_argument_group(title) for title in FLAGS}
    for title, flags in FLAGS.items():
        for names, key, metavar in flags:
            add_flag(groups[title], names, key, metavar)
    _add_switches(groups)
    add_world_flags(parser)
    add_seed_arguments(groups["the run"])
    more = parser.add_argument_group("everything else")
    set_argument(
        more,
        "any that --help-config lists, such as ppo.clip=0.1; option names of Stable-Baselines3 and CleanRL, such as "
        "n_steps or ent_coef, are understood too",
    )
    takes(more, "--help-config", "print a config file with every key, and exit")


def filled(text: str | None) -> str:
    """A description in lines, for a parser that prints it as it is."""
    return textwrap.fill(text or "", 100)


def add_flag(group: argparse._ArgumentGroup, names: str, key: str, metavar: str, is_text: bool = False) -> None:
    """A flag for a key of the configuration, with the description of the key as its help."""
    kind: Callable[[str], Any] = str if is_text or key in TEXTS else config_value
    group.add_argument(*names.split(), dest=key, type=kind, metavar=metavar or _learners(), help=_help_of(key))


def _learners() -> str:
    from rookery.learners.registry import specs

    return "|".join(("auto", *specs()))


def _add_switches(groups: dict[str, argparse._ArgumentGroup]) -> None:
    takes(groups["the learner"], "--gpu N", "short for --device cuda:N", type=int)
    takes(
        groups["the learner"], "--gpus N|I,J,...", "train on several GPUs together: how many, or their numbers; short "
        "for --device cuda --set devices=...", type=_gpus,
    )  # fmt: skip
    takes(
        groups["the learner"], "--batch-size N", "rows of a minibatch (PPO), or transitions in one update, of the "
        "chosen learner", dest="batch_size", type=config_value,
    )  # fmt: skip
    for flag, key, title in (("--wrap", "wrappers", "the world"), ("--callback", "callbacks", "the run")):
        takes(groups[title], f"{flag} FILE:NAME", f"{_help_of(key)}; can be repeated", dest=key, action="append")
    video = groups["evaluation"]
    takes(video, "--video", "record a video when the run ends", dest="monitor.video", action="store_const", const=True)
    no_panel_argument(groups["output"])
    takes(groups["output"], "--dashboard", "show the folder of runs in a browser until the run ends")
    quiet_argument(groups["output"])


def _gpus(text: str) -> int | list[int]:
    """How many GPUs, or their numbers.

    >>> _gpus("2"), _gpus("0,2")
    (2, [0, 2])
    """
    return [int(number) for number in text.split(",")] if "," in text else int(text)


def add_world_flags(parser: argparse.ArgumentParser) -> None:
    """The flags of options that worlds add. The help shows those of the world that is named before `--help`."""
    worlds = [spec.name for spec in registry.specs() if spec.options]
    group = parser.add_argument_group(
        "options of a world", f"`{parser.prog} WORLD --help` lists them, for {', '.join(worlds)}"
    )
    actions = {}
    for key, option in world_flags().items():
        names = dict.fromkeys((f"--{option.name.replace('_', '-')}", f"--{option.name}"))  # underscores as in a file
        kind = str if option.is_file or option.is_folder else config_value
        actions[key] = group.add_argument(*names, dest=key, type=kind, metavar=option.metavar, help=argparse.SUPPRESS)

    def add_to_help(given: argparse.Namespace) -> None:
        spec = registry.get(given.world) if given.world else None
        if spec is None and given.world and (found := registry.stand_in(given.world)):  # such as ALE/Pong-v5
            spec = found[0]
        if spec is not None and (spec.options or spec.examples):
            group.title, group.description = f"options of {spec.name}", None
            for option in spec.options:
                actions[f"world_options.{option.name}"].help = option.help
            if spec.examples and parser.prog.endswith(" train"):
                parser.epilog = "example: " + "\n         ".join(spec.examples)

    if isinstance(parser, Parser):
        parser.add_to_help = add_to_help


def world_flags() -> dict[str, WorldOption]:
    """Keys of the options that worlds add to this command, with the first option of each key."""
    options = (option for spec in reversed(registry.specs()) for option in spec.options)
    return {f"world_options.{option.name}": option for option in options}


def _help_of(key: str) -> str:
    """The description of a key, with its default in parentheses."""
    from rookery.config.fields import default_of, fields

    field = fields()[key]
    default = default_of(field).strip('"')
    text = (field.description or "").rstrip(".") + (f" ({default})" if default not in ("", "[]") else "")
    return (text[0].lower() + text[1:]).replace("%", "%%")


def _train(options: argparse.Namespace) -> int:
    if options.help_config:
        return _print_config()
    if options.world is None and options.init_from is not None:
        raise OptionError(_world_is_missing(options))
    if options.world is None:
        from rookery.cli.train_choices import print_choices

        return print_choices(options.json)
    from rookery.config import user_config
    from rookery.config.run_size import check_run_size

    keys = {key for flags in FLAGS.values() for _, key, _ in flags} | SWITCHES | world_flags().keys()
    flags = {key: value for key, value in vars(options).items() if key in keys and value is not None}
    if options.panel is not None:
        flags["monitor.panel"] = options.panel
    if options.gpus is not None:
        flags = {"device": "cuda", **flags, "devices": options.gpus}
    config = user_config(options.world, options.set, **flags)
    check_cluster_flags(options, config)
    if config.on_out_of_memory == "raise":  # else the run lowers what does not fit
        check_run_size(config)
    from rookery.training.resolve import recipes, world_choice

    world = world_choice.find(config.world, config.takes_compiled, config.learner, config.world_options)
    if config.on_out_of_memory == "raise":
        check_run_size(recipes.with_usual_settings(config, world.name, world.kernel))
    check_installed()
    with _dashboard(config, options.dashboard) as tell_address:
        return _start(config, options, tell_address)


def _world_is_missing(options: argparse.Namespace) -> str:
    """The sentence about `--from RUN` alone. The run may be another person's, so its world is only named here."""
    from rookery.training.storage.run_dir import RunDir
    from rookery.training.storage.runs_table import row

    world = row(RunDir.find(options.init_from, Path(options.runs_dir or "runs")))["world"] or "WORLD"
    return f"--from gives the agent, not the world: write rookery train {world} --from {options.init_from}"


def _start(config: RunConfig, options: argparse.Namespace, tell_address: Callable[[], None]) -> int:
    if wants_several_seeds(options):
        tell_address()
        return train_with_seeds(config, options)
    from rookery.monitor.plot_process import imported_early

    with imported_early(config.monitor.plot):
        return _train_here(config, options, tell_address)


def _train_here(config: RunConfig, options: argparse.Namespace, tell_address: Callable[[], None]) -> int:
    early = config.start_method != "fork"  # a fork beside a thread that opens a GPU would be asking for trouble
    if early:
        open_context_early(config.device)
    with loading():
        if early and config.device.startswith("cuda"):
            from rookery.learners.kernels.gpu.triton_support import hash_triton_early

            hash_triton_early()
        from rookery.training.run.train import train
    tell_address()
    with stdout_to_stderr(options.json):
        result = train(config)
    return finish_run(result, options)


@contextmanager
def _dashboard(config: RunConfig, wanted: bool) -> Iterator[Callable[[], None]]:
    """A dashboard beside the run, if it is wanted. It starts while torch is loaded; then its address is printed."""
    if not wanted:
        yield lambda: None
        return
    from rookery.web.dashboard_process import DashboardProcess

    def tell_address() -> None:
        with silent(not config.monitor.verbose):
            say(f"the dashboard is at {process.url()}" + (" until the run ends" if process.is_own else ""))

    with DashboardProcess(config.runs_dir) as process:
        yield tell_address


def _print_config() -> int:
    """Print every key as a TOML file; keys without a default are comments."""
    from rookery.config import fields_help

    section = ""
    for key, valid, default, sentence in fields_help():
        place, _, name = key.rpartition(".")
        if place != section:
            section = place
            print(f"[{section}]\n")
        value = f"{name} = {default}" if default else f"# {name} ="
        print(f"# {sentence}\n# Valid: {valid}.\n{value}\n")
    return 0


def add_seed_arguments(group: argparse._ArgumentGroup) -> None:
    """Add `--seeds` and `--jobs`."""
    takes(
        group, "--seeds N|A,B,...", "train with N seeds, counted from --seed, or with the seeds A,B,...: one run for "
        "each seed, and a summary of all. The same command again resumes runs that have not finished, and does not "
        "repeat those that have",
    )  # fmt: skip
    takes(group, "--jobs N", "with --seeds: how many runs at a time (chosen by cores and backend)", type=int)


def wants_several_seeds(options: argparse.Namespace) -> bool:
    """Whether several seeds are to be trained."""
    if options.seeds is None and options.jobs is not None:
        raise OptionError("--jobs says how many of --seeds are trained at a time, and --seeds is not given")
    return options.seeds is not None


def train_with_seeds(config: RunConfig, options: argparse.Namespace) -> int:
    """Train all seeds, and print the summary. Returns the exit status."""
    from rookery.training.seeds.train_seeds import print_result, seed_list, train_seeds

    seeds = seed_list(options.seeds, config.seed)
    if "," in options.seeds and "seed" in config.model_fields_set:
        raise OptionError(
            f"--seeds {options.seeds} lists the seeds, so that `seed` = {config.seed} has no use: omit it"
        )
    with stdout_to_stderr(options.json):
        result = train_seeds(config, seeds, options.jobs)
    printed = partial(print_result, result, typed_command())
    show(options, result.as_json, printed if config.monitor.verbose else None)
    return result.exit_code


def typed_command() -> str:
    """The command that the user has typed."""
    return shlex.join(["rookery", *sys.argv[1:]])
