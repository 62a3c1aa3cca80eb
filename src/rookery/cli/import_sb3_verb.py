"""The command `import-sb3`: an agent from a model of Stable-Baselines3."""

from __future__ import annotations

import argparse
from pathlib import Path

from rookery.cli.arguments import WORLD_HELP
from rookery.cli.parser import Commands, add_command
from rookery.cli.stored_run import LOADING, print_path
from rookery.console import meanwhile, say
from rookery.errors import OptionError
from rookery.training import check_installed


def add_commands(commands: Commands) -> None:
    """Add it to the parser."""
    parser = add_command(
        commands, "import-sb3", _import, "make an agent from a model of Stable-Baselines3",
        "Reads the zip file of a PPO, SAC, DQN or TD3 model without unpickling anything in it. The agent's folder can "
        "be loaded by rookery.load(), and is an opponent or the start of a run by its path.",
        "rookery import-sb3 model.zip --output my_agent",
    )  # fmt: skip
    parser.add_argument("model", metavar="MODEL.ZIP", help="the file that model.save() wrote")
    parser.add_argument(
        "--env", metavar="ENV", help=f"the env it was trained in, if its spaces are asked for: {WORLD_HELP}"
    )
    parser.add_argument(
        "--vecnormalize", metavar="FILE", help="an .npz or .json file with mean and var of its VecNormalize"
    )
    parser.add_argument("--output", metavar="DIR", help="the folder to write (the name of the model, without .zip)")
    parser.add_argument("--force", action="store_true", help="replace an agent that is there")


def _import(options: argparse.Namespace) -> int:
    from rookery.training.storage.agent_folder import holds_agent

    folder = Path(options.output or Path(options.model).stem)
    if holds_agent(folder) and not options.force:
        raise OptionError(f"{folder} holds an agent already; --force replaces it")
    check_installed()
    with meanwhile(LOADING):
        from rookery.training.sb3_models.import_sb3 import import_sb3

    found = import_sb3(options.model, options.env, options.vecnormalize)
    path = found.agent.save(folder)
    say(f"{options.model} is a {found.learner} agent: {found.agent.observation_space} -> {found.agent.action_space}")
    for note in found.notes:
        say(note)
    return print_path(path, options.json)
