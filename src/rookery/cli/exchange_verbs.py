"""The commands that exchange agents, episodes and settings with other programs: `export`, `import-sb3`, `dataset`,
`clone`, `convert`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rookery.cli import arguments
from rookery.cli.parser import Commands, add_command, takes
from rookery.console import say
from rookery.errors import OptionError
from rookery.files import check_file
from rookery.training import check_installed

FORMATS = ("onnx", "standalone", "sb3", "card", "freqtrade", "nautilus")


def add_export(commands: Commands) -> None:
    parser = add_command(
        commands, "export", _export, "write a trained agent to a file for other programs",
        "The file includes the normalisation of observations and the action masks. Its actions are compared with those "
        "of the agent before the command ends.",
        "rookery export latest --standalone agent.py",
    )  # fmt: skip
    arguments.run_arguments(parser, f"; or {arguments.shipped_help()}, with --standalone")
    formats = parser.add_mutually_exclusive_group()
    takes(
        formats, "--onnx FILE", "write ONNX, to this file (policy.onnx in the run's folder); this is the default "
        "format", nargs="?", const="",
    )  # fmt: skip
    takes(
        formats, "--standalone FILE", "write one Python file with a class Agent that needs only NumPy (agent.py in "
        "the run's folder; for an agent that comes with rookery: NAME_agent.py in the current folder)",
        nargs="?", const="",
    )  # fmt: skip
    takes(
        formats, "--sb3 FILE", "write a model that Stable-Baselines3 loads (sb3_model.zip in the run's folder)",
        nargs="?", const="",
    )  # fmt: skip
    takes(
        formats, "--card FILE", "write an agent card in Markdown, as Hugging Face shows it (README.md in the run's "
        "folder)", nargs="?", const="",
    )  # fmt: skip
    for name, title in (("freqtrade", "freqtrade"), ("nautilus", "nautilus_trader")):
        takes(
            formats, f"--{name} FILE", f"write a strategy of {title}, for agents of markets ({name}_strategy.py in the "
            "run's folder)", nargs="?", const="",
        )  # fmt: skip
    takes(parser, "--force", "overwrite an existing file")
    arguments.last_argument(parser)
    arguments.trust_argument(parser)


def _export(options: argparse.Namespace) -> int:
    formats = {name: getattr(options, name) for name in FORMATS if getattr(options, name) is not None}
    chosen: Any
    chosen, file = next(iter(formats.items()), ("onnx", ""))
    if file:
        check_file(file)
    found = arguments.find_run_or_shipped(options)
    if found is None and chosen != "standalone":
        raise OptionError(f"the agent {options.name} that comes with rookery can only be exported with --standalone")
    if chosen != "card":
        check_installed()
    if chosen == "onnx" and found is not None:
        say(f"exporting {found.name} to ONNX, which takes some seconds")
    with arguments.loading():
        from rookery.training.export.export import export

    with arguments.stdout_to_stderr(options.json):
        path = export(
            options.name if found is None else str(found.path), file or None, format=chosen, runs_dir=options.runs_dir,
            best=options.best, overwrite=options.force, trust=options.trust,
        )  # fmt: skip
    return arguments.print_path(path, options)


def add_import_sb3(commands: Commands) -> None:
    parser = add_command(
        commands, "import-sb3", _import, "make an agent from a model of Stable-Baselines3",
        "Reads the zip file of a PPO, SAC, DQN or TD3 model without unpickling anything in it. The agent's folder can "
        "be loaded by rookery.load(), and is an opponent or the start of a run by its path.",
        "rookery import-sb3 model.zip --output my_agent",
    )  # fmt: skip
    takes(parser, "model MODEL.ZIP", "the file that model.save() wrote")
    takes(
        parser, "--env ENV",
        f"the env it was trained in, if the file does not contain its spaces: {arguments.WORLD_HELP}",
    )  # fmt: skip
    takes(parser, "--vecnormalize FILE", "an .npz or .json file with mean and var of its VecNormalize")
    takes(parser, "--output DIR", "the folder to write (the name of the model, without .zip)")
    takes(parser, "--force", "replace an existing agent")


def _import(options: argparse.Namespace) -> int:
    from rookery.training.storage.load_agent import holds_agent

    folder = Path(options.output or Path(options.model).stem)
    if holds_agent(folder) and not options.force:
        raise OptionError(f"{folder} holds an agent already; --force replaces it")
    check_installed()
    with arguments.loading():
        from rookery.training.sb3_models.import_sb3 import import_sb3

    found = import_sb3(options.model, options.env, options.vecnormalize)
    path = found.agent.save(folder)
    say(f"{options.model} is a {found.learner} agent: {found.agent.observation_space} -> {found.agent.action_space}")
    for note in found.notes:
        say(note)
    return arguments.print_path(path, options)


def add_dataset(commands: Commands) -> None:
    parser = add_command(
        commands, "dataset", _dataset, "write episodes of a trained agent as a Minari dataset",
        "Plays complete episodes in one env. The dataset is in Minari's folder (MINARI_DATASETS_PATH).",
        "rookery dataset latest cartpole/ppo-v0 --episodes 200",
    )  # fmt: skip
    arguments.run_arguments(parser)
    takes(parser, "dataset DATASET", "its name in Minari, such as cartpole/ppo-v0")
    takes(parser, "--episodes", "how many episodes", 100)
    takes(parser, "--seed", "seed of the first episode (as in the run's evaluations)", type=int)
    arguments.last_argument(parser)
    arguments.trust_argument(parser)


def add_clone(commands: Commands) -> None:
    parser = add_command(
        commands, "clone", _clone, "train an agent to imitate a Minari dataset",
        "Behaviour cloning, for PPO. `rookery train ENV --from DIR` begins a run with the agent; its critic has "
        "learned nothing.",
        "rookery clone cartpole/ppo-v0 --output my_agent",
    )  # fmt: skip
    takes(parser, "dataset DATASET", "its name in Minari's folder, such as cartpole/ppo-v0")
    takes(parser, "--output DIR", "the folder to write", required=True)
    takes(parser, "--epochs", "number of passes over all steps", 20)
    takes(parser, "--seed", "seed of the initial weights and the order of steps", 0)
    takes(parser, "--force", "replace an existing agent")


def _dataset(options: argparse.Namespace) -> int:
    arguments.check_positive(options, "episodes")
    arguments.check_seed(options.seed)
    found = arguments.find_run(options)
    check_installed()
    with arguments.loading():
        from rookery.training.export.minari_dataset import write_dataset

    made = write_dataset(
        str(found.path), options.dataset, options.runs_dir, options.episodes, options.seed, options.best,
        trust=options.trust,
    )  # fmt: skip
    say(f"{options.dataset} has {made.total_episodes} episodes with {made.total_steps:,} steps")
    return arguments.print_path(Path(made.storage.data_path).parent, options)


def _clone(options: argparse.Namespace) -> int:
    from rookery.training.storage.load_agent import holds_agent

    arguments.check_positive(options, "epochs")
    arguments.check_seed(options.seed)
    folder = Path(options.output)
    if holds_agent(folder) and not options.force:
        raise OptionError(f"{folder} holds an agent already; --force replaces it")
    check_installed()
    with arguments.loading():
        from rookery.training.export.minari_dataset import clone

    found = clone(options.dataset, options.epochs, seed=options.seed)
    same = "of the actions are the same" if found.agreement >= 0 else "is the mean error of actions"
    figure = f"{found.agreement:.1%}" if found.agreement >= 0 else f"{-found.agreement:.4g}"
    say(f"{found.steps:,} steps: {figure} {same}")
    return arguments.print_path(found.agent.save(folder), options)


def add_convert(commands: Commands) -> None:
    parser = add_command(
        commands, "convert", _convert, "translate a config file, such as a curriculum of an older trainer, to TOML",
        "`rookery train` accepts JSON files of older trainers as they are. TOML has more options, such as phases that "
        "end once enough games are won.",
        "rookery convert curriculum_base.json curriculum.toml",
    )  # fmt: skip
    takes(parser, "source FILE", "a config file (.json, .toml or .yaml)")
    takes(parser, "target NEW_FILE", "the file to write, .toml (standard output)", nargs="?")
    takes(parser, "--force", "overwrite an existing file")


def _convert(options: argparse.Namespace) -> int:
    from rookery.config.inputs import convert

    target, end = options.target, "" if options.target is None else "\n"
    text = convert(options.source, target, overwrite=options.force)
    return arguments.show(options, lambda: {"path": target, "text": text}, lambda: print(target or text, end=end))
