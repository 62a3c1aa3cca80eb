"""Starts the other processes of a run, and notices when one of them dies: then the run ends, with its last words."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from rookery.config import build_config
from rookery.errors import RookeryError, WorkerDied
from rookery.gate import follow_parent
from rookery.learners.cpu_threads import keep_memory, small_products
from rookery.learners.execution.ranks import Ranks
from rookery.training.commands import start_command
from rookery.training.resolve.resolved_run import resolve_recorded_run
from rookery.training.run.components import make_learner, open_engine
from rookery.training.run.shared_run import SharedRun, gather_episodes, share_of
from rookery.training.run.training_state import TrainingState
from rookery.training.storage.checkpoint_files import bytes_to_tree, tree_to_bytes

START_SECONDS = 300.0  # for importing torch and finding one another, on a busy machine
NOTICE_SECONDS = 3.0  # for a process that broke the connection to end
POLL_SECONDS = 0.2
LAST_WORDS = 2_000  # characters


@contextmanager
def start_processes(names: list[str]) -> Iterator[SharedRun]:
    """A process for each of these devices but the first, which is this one's; they end with the run."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rookery-ranks-")))
        store = dist.TCPStore(
            "127.0.0.1", 0, len(names), is_master=True, timeout=timedelta(seconds=START_SECONDS), wait_for_workers=False
        )
        others = RankProcesses(names, store.port, folder)
        stack.callback(others.kill)
        try:
            with others.watched():
                ranks = _connect(store, names, others)
                stack.callback(ranks.close)
                stack.callback(others.kill)  # before that: nobody may wait for this process any more
                shared = SharedRun(ranks)
                yield shared
                shared.end()
                others.wait()
        except Exception as error:
            broken = isinstance(error, RuntimeError) and not isinstance(error, RookeryError)  # as connections break
            died = others.death(NOTICE_SECONDS if broken else 0.0)
            if died is not None:
                raise died from error
            raise


def _connect(store: dist.TCPStore, names: list[str], others: RankProcesses) -> Ranks:
    """Wait until all processes are there, so that one that cannot start is noticed before anybody waits for it."""
    deadline = time.monotonic() + START_SECONDS
    while not all(store.check([f"rank{rank}"]) for rank in range(1, len(names))):
        if any(process.poll() is not None for process in others.processes) or time.monotonic() > deadline:
            died = others.death(0.0)
            raise died or WorkerDied(f"the {len(names)} processes have not all started in {START_SECONDS:g} s")
        time.sleep(POLL_SECONDS / 4)
    ranks = Ranks(store, 0, len(names), torch.device(names[0]), len(set(names)) == len(names))
    others.ranks = ranks
    return ranks


class RankProcesses:
    """The processes of all ranks but 0."""

    def __init__(self, names: list[str], port: int, folder: Path) -> None:
        self.names, self.folder = names, folder
        self.ranks: Ranks | None = None
        self.processes: list[subprocess.Popen[bytes]] = []
        own_device = len(set(names)) == len(names)
        for rank in range(1, len(names)):
            with open(self._log(rank), "wb") as log:
                words = str(rank), str(len(names)), str(port), names[rank], str(own_device)
                self.processes.append(start_command(*words, code=CODE, stdout=log, stderr=log))

    def _log(self, rank: int) -> Path:
        return self.folder / f"rank{rank}.log"

    @contextmanager
    def watched(self) -> Iterator[None]:
        """In the meantime, a thread ends the wait of this process for one that has died. gloo does so by itself."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(POLL_SECONDS):
                if self.ranks is not None and any(process.poll() not in (None, 0) for process in self.processes):
                    with suppress(Exception):
                        self.ranks.abort()
                    return

        thread = threading.Thread(target=watch, name="rookery-ranks", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def death(self, wait: float) -> WorkerDied | None:
        """The error about a process that has ended before the others, or does so in these seconds; None if all run."""
        deadline = time.monotonic() + wait
        while True:
            for rank, process in enumerate(self.processes, 1):
                status = process.poll()
                if status is not None:
                    return WorkerDied(self._text(rank, status))
            if time.monotonic() >= deadline:
                return None
            time.sleep(POLL_SECONDS / 4)

    def _text(self, rank: int, status: int) -> str:
        words = self._log(rank).read_text(errors="replace")[-LAST_WORDS:].strip()
        how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
        return (
            f"process {rank} of the run's {len(self.names)} (on {self.names[rank]}) {how}, so all of them end; "
            "`rookery resume` continues from the latest checkpoint" + (f":\n{words}" if words else "")
        )

    def wait(self) -> None:
        """Until all have ended."""
        for process in self.processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(START_SECONDS)

    def kill(self) -> None:
        """End those that still run."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()


CODE = (
    "import sys; from rookery.engine.workers.child_process import set_up_child; set_up_child(int(sys.argv.pop(1))); "
    "from rookery.training.run.rank_processes import main; main()"
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
