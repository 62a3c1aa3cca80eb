"""The commands `dataset` and `clone`: episodes of an agent as a Minari dataset, and an agent from such a dataset."""

from __future__ import annotations

import argparse
from pathlib import Path

from rookery.cli.arguments import best_argument, check_positive, check_seed, run_arguments, trust_argument
from rookery.cli.parser import Commands, add_command
from rookery.cli.stored_run import LOADING, find_run, print_path
from rookery.console import meanwhile, say
from rookery.errors import OptionError
from rookery.training import check_installed


def add_commands(commands: Commands) -> None:
    """Add them to the parser."""
    dataset = add_command(
        commands, "dataset", _dataset, "write episodes of a trained agent as a Minari dataset",
        "Plays complete episodes in one env. The dataset is in Minari's folder (MINARI_DATASETS_PATH).",
        "rookery dataset latest cartpole/ppo-v0 --episodes 200",
    )  # fmt: skip
    run_arguments(dataset)
    dataset.add_argument("dataset", metavar="DATASET", help="its name in Minari, such as cartpole/ppo-v0")
    dataset.add_argument("--episodes", type=int, default=100, help="how many episodes (100)")
    dataset.add_argument("--seed", type=int, help="of the first episode (as in the run's evaluations)")
    best_argument(dataset)
    trust_argument(dataset)
    clone = add_command(
        commands, "clone", _clone, "train an agent to do what a Minari dataset shows",
        "Behaviour cloning, for PPO. `rookery train ENV --from DIR` begins a run with the agent; its critic has "
        "learned nothing.",
        "rookery clone cartpole/ppo-v0 --output my_agent",
    )  # fmt: skip
    clone.add_argument("dataset", metavar="DATASET", help="its name in Minari's folder, such as cartpole/ppo-v0")
    clone.add_argument("--output", metavar="DIR", required=True, help="the folder to write")
    clone.add_argument("--epochs", type=int, default=20, help="how many times all steps are used (20)")
    clone.add_argument("--seed", type=int, default=0, help="of the initial weights and the order of steps (0)")
    clone.add_argument("--force", action="store_true", help="replace an agent that is there")


def _dataset(options: argparse.Namespace) -> int:
    check_positive(options, "episodes")
    check_seed(options.seed)
    found = find_run(options)
    check_installed()
    with meanwhile(LOADING):
        from rookery.training.export.minari_dataset import write_dataset

    made = write_dataset(
        str(found.path), options.dataset, options.runs_dir, options.episodes, options.seed, options.best,
        trust=options.trust,
    )  # fmt: skip
    say(f"{options.dataset} has {made.total_episodes} episodes with {made.total_steps:,} steps")
    return print_path(Path(made.storage.data_path).parent, options.json)


def _clone(options: argparse.Namespace) -> int:
    from rookery.training.storage.agent_folder import holds_agent

    check_positive(options, "epochs")
    check_seed(options.seed)
    folder = Path(options.output)
    if holds_agent(folder) and not options.force:
        raise OptionError(f"{folder} holds an agent already; --force replaces it")
    check_installed()
    with meanwhile(LOADING):
        from rookery.training.run.behaviour_cloning import clone_dataset

    found = clone_dataset(options.dataset, options.epochs, seed=options.seed)
    same = "of the actions are the same" if found.agreement >= 0 else "is the mean error of actions"
    figure = f"{found.agreement:.1%}" if found.agreement >= 0 else f"{-found.agreement:.4g}"
    say(f"{found.steps:,} steps: {figure} {same}")
    return print_path(found.agent.save(folder), options.json)
