"""The commands that exchange agents, episodes and settings with other programs: `export`, `import-sb3`, `dataset`,
`clone`, `convert`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rookery.cli import arguments
from rookery.cli.parser import Commands, add_command
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
    formats.add_argument(
        "--onnx", nargs="?", const="", metavar="FILE",
        help="write ONNX, to this file (policy.onnx in the run's folder); this is the default format",
    )  # fmt: skip
    formats.add_argument(
        "--standalone", nargs="?", const="", metavar="FILE",
        help="write one Python file with a class Agent that needs only NumPy (agent.py in the run's folder; for "
        "an agent that comes with rookery: NAME_agent.py in the current folder)",
    )  # fmt: skip
    formats.add_argument(
        "--sb3", nargs="?", const="", metavar="FILE",
        help="write a model that Stable-Baselines3 loads (sb3_model.zip in the run's folder)",
    )  # fmt: skip
    formats.add_argument(
        "--card", nargs="?", const="", metavar="FILE",
        help="write an agent card in Markdown, as Hugging Face shows it (README.md in the run's folder)",
    )  # fmt: skip
    for name, title in (("freqtrade", "freqtrade"), ("nautilus", "nautilus_trader")):
        formats.add_argument(
            f"--{name}", nargs="?", const="", metavar="FILE",
            help=f"write a strategy of {title}, for agents of markets ({name}_strategy.py in the run's folder)",
        )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")
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
    parser.add_argument("model", metavar="MODEL.ZIP", help="the file that model.save() wrote")
    parser.add_argument(
        "--env",
        metavar="ENV",
        help=f"the env it was trained in, if the file does not contain its spaces: {arguments.WORLD_HELP}",
    )
    parser.add_argument(
        "--vecnormalize", metavar="FILE", help="an .npz or .json file with mean and var of its VecNormalize"
    )
    parser.add_argument("--output", metavar="DIR", help="the folder to write (the name of the model, without .zip)")
    parser.add_argument("--force", action="store_true", help="replace an existing agent")


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
    parser.add_argument("dataset", metavar="DATASET", help="its name in Minari, such as cartpole/ppo-v0")
    parser.add_argument("--episodes", type=int, default=100, help="how many episodes (100)")
    parser.add_argument("--seed", type=int, help="seed of the first episode (as in the run's evaluations)")
    arguments.last_argument(parser)
    arguments.trust_argument(parser)


def add_clone(commands: Commands) -> None:
    parser = add_command(
        commands, "clone", _clone, "train an agent to imitate a Minari dataset",
        "Behaviour cloning, for PPO. `rookery train ENV --from DIR` begins a run with the agent; its critic has "
        "learned nothing.",
        "rookery clone cartpole/ppo-v0 --output my_agent",
    )  # fmt: skip
    parser.add_argument("dataset", metavar="DATASET", help="its name in Minari's folder, such as cartpole/ppo-v0")
    parser.add_argument("--output", metavar="DIR", required=True, help="the folder to write")
    parser.add_argument("--epochs", type=int, default=20, help="number of passes over all steps (20)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the initial weights and the order of steps (0)")
    parser.add_argument("--force", action="store_true", help="replace an existing agent")


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
    parser.add_argument("source", metavar="FILE", help="a config file (.json, .toml or .yaml)")
    parser.add_argument("target", metavar="NEW_FILE", nargs="?", help="the file to write, .toml (standard output)")
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")


def _convert(options: argparse.Namespace) -> int:
    from rookery.config.inputs import convert

    target, end = options.target, "" if options.target is None else "\n"
    text = convert(options.source, target, overwrite=options.force)
    return arguments.show(options, lambda: {"path": target, "text": text}, lambda: print(target or text, end=end))
