"""A process that trains beside rank 0 of a run, in what rank 0 tells it to do. It writes nothing."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import Any

import torch
import torch.distributed as dist

from rookery.config import build_config
from rookery.gate import follow_parent
from rookery.learners.cpu_threads import keep_memory, small_products
from rookery.learners.execution.ranks import Ranks
from rookery.training.resolve.resolved_run import resolve_recorded_run
from rookery.training.run.components import make_learner, open_engine
from rookery.training.run.shared_run import gather_episodes, share_of
from rookery.training.run.training_state import TrainingState
from rookery.training.storage.tree_bytes import bytes_to_tree, tree_to_bytes

CODE = (
    "import sys; from rookery.engine.workers.child_process import set_up_child; set_up_child(int(sys.argv.pop(1))); "
    "from rookery.training.run.follower import main; main()"
)


def main() -> None:
    """The process: its arguments are its rank, the number of processes, a port of rank 0, its device, and whether no
    other process has that device."""
    follow_parent()
    rank, size, port, device, own_device = sys.argv[1:]
    store = dist.TCPStore("127.0.0.1", int(port), int(size), is_master=False)
    store.set(f"rank{rank}", "there")
    follow(Ranks(store, int(rank), int(size), torch.device(device), own_device == "True"))


def follow(ranks: Ranks) -> None:
    """Train with the others until rank 0 ends the run."""
    with closing(ranks):
        message = ranks.receive()
        if message["do"] == "end":
            return
        config = build_config(message["config"])
        keep_memory()
        run = resolve_recorded_run(config, resuming=True)
        local = share_of(run, ranks.rank)
        with open_engine(local) as engine:
            run = run.with_spaces(engine.single_observation_space, engine.single_action_space)
            learner = make_learner(run, ranks)
            if learner.options.threads is not None:
                torch.set_num_threads(learner.options.threads)
            with small_products(learner):
                Follower(ranks, FollowerState(config, engine, learner)).run(message["seed"])


class FollowerState(TrainingState):
    """Where this process is: rank 0 counts the steps and episodes of all."""

    told_share = 0.0

    def share_done(self, steps: int) -> float:
        return self.told_share


class Follower:
    """The envs and the learner of this process."""

    def __init__(self, ranks: Ranks, state: FollowerState) -> None:
        self.ranks, self.state = ranks, state
        self.learner, self.collector = state.learner, state.collector

    def run(self, seed: int) -> None:
        """Do what rank 0 tells, message by message."""
        self.begin(seed)
        while (message := self.ranks.receive())["do"] != "end":
            if message["do"] == "collect":
                self.collector.collect(self.learner.steps_until_update, lambda: False)
            elif message["do"] == "update":
                self.update(message["progress"], message["options"])
            elif message["do"] == "episodes":
                gather_episodes(self.ranks, self.collector)
                self.collector.uncounted_episodes = 0
            elif message["do"] == "save":
                self.ranks.exchange(tree_to_bytes(self.state.env_tree()))

    def begin(self, seed: int) -> None:
        """With the learner of rank 0, and this process's envs of a checkpoint or new ones."""
        tree = bytes_to_tree(self.ranks.receive_bytes())
        self.learner.load(tree["learner"])
        own = tree["envs"].get(str(self.ranks.rank))
        if own is None:
            beginning = self.state.reset_envs(seed)
        else:
            beginning = self.state.load_envs({**own, "processes": self.ranks.size})
        self.collector.begin(*beginning)

    def update(self, progress: float, options: dict[str, Any]) -> None:
        """Learn with the others, by the schedules and options of rank 0."""
        if options:
            self.learner.adjust(options)
        self.state.told_share = progress
        self.collector.update()
