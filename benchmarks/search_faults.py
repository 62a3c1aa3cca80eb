"""Whether a search survives kills, a restart of PostgreSQL, a full, locked or deleted database, and sick trials.

    make bench-search-faults, or python benchmarks/search_faults.py [--repeats 20 | --short] [--only NAME ...]

Each repeat is a `rookery search` of three small trials of PPO. It is disturbed at a random moment, and passes if every
trial ends once, with the value that it has in a search that nobody disturbed, bit for bit; if runs that had a
checkpoint continued in their folders; and if the command prints why it stopped, where it must stop. Or one of its
trials hangs, leaks memory or returns NaN: it passes if this trial alone has failed, at its limit and with its reason.
Exits with 1 if a repeat fails.
"""

from __future__ import annotations

import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import psutil

from engine_rows import Row
from report import measured, parser_for, report
from rookery.studies.storage.study_view import StudyView, open_study
from rookery.training.storage.run_dir import RunDir
from studies.postgres import Server, programs

N_TRIALS = 3
DOWN_SECONDS = 20.0
WAIT_SECONDS = 300.0
CONFIG = f"""
world = "CartPole-v1"
learner = "ppo"
steps = 12_000
num_envs = 8
[evaluation]
every = 6_000
episodes = 5
[checkpoints]
every = 1_000
[monitor]
tensorboard = false
plot = false
report = false
[search]
study_name = "probe"
n_trials = {N_TRIALS}
jobs = 2
sampler = "random"
seeds = 1
verify = 1
verify_seeds = 1
[search.space]
"ppo.learning_rate" = {{log = [1e-5, 1e-2]}}
"ppo.gamma" = {{uniform = [0.9, 0.999]}}
"""
SHORT = 2  # repeats of each fault
# How an env is sick from its 25th step on, and what the reason of the trial must say.
SICK = {
    "hangs": ("time.sleep(1e9)", "took longer than search.trial_timeout"),
    "leaks": ("self.kept.append(np.ones(1 << 23))", "more than search.trial_memory"),
    "nan": ("reward = float('nan')", "nan"),
}
SICK_ENV = """
import time
import gymnasium as gym
import numpy as np

class Env(gym.Env):
    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, sick=False):
        self.sick, self.steps, self.kept = sick, 0, []

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {{}}

    def step(self, action):
        self.steps += 1
        reward = float(action)
        if self.sick and self.steps >= 25:
            {harm}
        return np.zeros(2, np.float32), reward, self.steps % 10 == 0, False, {{}}
"""
SICK_CONFIG = """
world = "{folder}/env.py:Env"
learner = "ppo"
steps = 2_048
num_envs = 1
backend = "serial"
on_failure = "raise"
[world_options]
sick = false
[evaluation]
episodes = 1
[search]
study_name = "probe"
n_trials = 3
jobs = 2
sampler = "random"
seeds = 1
verify = 0
trial_timeout = "30s"
trial_memory = "2GB"
enqueue = [{{"world_options.sick" = true}}, {{"world_options.sick" = false}}]
[search.space]
"world_options.sick" = {{choice = [false, true]}}
"""


class Search:
    """A search in a folder of its own, started as users start it."""

    def __init__(self, folder: Path, storage: str | None = None, config: str = CONFIG) -> None:
        self.folder, self._storage = folder, storage
        self.study = folder / "studies" / "probe"
        self.config = folder / "search.toml"
        self.config.write_text(config)
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        words = ["--studies-dir", str(self.study.parent), *(["--storage", self._storage] if self._storage else [])]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rookery", "search", str(self.config), *words, "--no-panel"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip

    def end(self) -> tuple[int, str]:
        """Its exit status, and what it said last."""
        assert self.process is not None
        said, _ = self.process.communicate(timeout=WAIT_SECONDS)
        return self.process.returncode, (said.strip().splitlines() or [""])[-1]

    def end_well(self) -> None:
        status, said = self.end()
        assert status == 0, f"exit status {status}: {said}"

    def workers(self) -> list[psutil.Process]:
        assert self.process is not None
        return psutil.Process(self.process.pid).children()

    def wait_for_checkpoints(self, count: int) -> None:
        """Until so many have been written; none are removed before a run has more than it keeps."""
        deadline = time.monotonic() + WAIT_SECONDS
        while len(list(self.study.glob("runs/*/checkpoints/step-*"))) < count:
            assert self.process is not None and self.process.poll() is None, f"it ended: {self.end()}"
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def kill(self) -> None:
        """All of it at one moment."""
        if self.process is not None and self.process.poll() is None:
            everyone = [psutil.Process(self.process.pid)]
            everyone += everyone[0].children(recursive=True)
            for process in everyone:
                process.kill()
            self.process.communicate()

    def view(self) -> StudyView:
        return open_study(self.study)

    def runs_with_checkpoints(self) -> dict[str, str | None]:
        """The ids of runs that can be continued: a run that is started over gets another one."""
        found = {path.parents[1] for path in self.study.glob("runs/*/checkpoints/step-*")}
        return {path.name: RunDir(path).id for path in found}


def values(view: StudyView) -> dict[int, float | None]:
    """The values of finished trials by their numbers."""
    numbers = [trial.number for trial in view.trials]
    assert len(numbers) == len(set(numbers)), "a number was given twice"
    return {trial.number: trial.value for trial in view.trials if trial.state == "finished"}


def disturbed(search: Search, harm: Callable[[Search], None], expected: dict[int, float | None], seed: int) -> None:
    """Disturb a search at a random moment, and compare what it ends with."""
    search.start()
    search.wait_for_checkpoints(random.Random(seed).randrange(1, 8))
    before, kept = values(search.view()), search.runs_with_checkpoints()
    harm(search)
    after = values(search.view())
    assert {number: after.get(number) for number in before} == before, "a finished trial was lost"
    assert after == expected, f"values {after} instead of {expected}"
    now = search.runs_with_checkpoints()
    assert {name: now.get(name) for name in kept} == kept, "a run was started over"


# --- the faults -----------------------------------------------------------------------------------------------------


def kill_a_worker(search: Search) -> None:
    workers = search.workers()
    if workers:  # else it has just ended
        random.choice(workers).kill()
    search.end_well()


def kill_all(search: Search) -> None:
    search.kill()
    search.start()
    search.end_well()


def lock_database(search: Search) -> None:
    """For longer than SQLite itself waits."""
    other = sqlite3.connect(search.study / "study.db", isolation_level=None, timeout=30.0)
    other.execute("BEGIN EXCLUSIVE")
    time.sleep(8.0)
    other.close()
    search.end_well()


def delete_database(search: Search) -> None:
    """It must stop with an error; with the file back, it continues."""
    database = search.study / "study.db"
    database.rename(database.with_name("moved"))
    status, said = search.end()
    assert status != 0 and "was deleted or replaced while it was in use" in said, f"exit status {status}: {said}"
    assert not database.exists()
    database.with_name("moved").rename(database)
    search.start()
    search.end_well()


def restart_postgres(server: Server, search: Search) -> None:
    server.kill()
    time.sleep(DOWN_SECONDS)
    server.start()
    search.end_well()


def fill_disk(search: Search) -> None:
    """For five seconds."""
    rubbish = search.folder / "rubbish"
    with rubbish.open("wb", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError:
                pass
    time.sleep(5.0)
    rubbish.unlink()
    search.end_well()


# --- rows -----------------------------------------------------------------------------------------------------------


@contextmanager
def new_folder(small: bool = False) -> Iterator[Path]:
    """An empty folder; a small disk of its own if that is wanted."""
    folder = Path(tempfile.mkdtemp(prefix="rookery-faults-"))
    try:
        if small:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)], check=True)
        yield folder
    finally:
        if small:
            subprocess.run(["umount", "-l", str(folder)], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def undisturbed() -> dict[int, float | None]:
    """What the trials have when nobody disturbs them."""
    with new_folder() as folder:
        search = Search(folder)
        search.start()
        search.end_well()
        found = values(search.view())
    assert len(found) == N_TRIALS
    return found


def repeated(name: str, once: Callable[[int], None], repeats: int) -> list[Row]:
    good = 0
    for seed in range(repeats):
        try:
            once(seed)
            good += 1
        except Exception:  # noqa: BLE001 - whatever it was, the repeat has failed
            print(f"{name}, repeat {seed}:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
    return [Row(f"a search survives: {name}", f"{good} of {repeats}", "", good, repeats, unit="")]


def in_a_folder(harm: Callable[[Search], None], expected: dict[int, float | None], small: bool, seed: int) -> None:
    with new_folder(small) as folder:
        search = Search(folder)
        try:
            disturbed(search, harm, expected, seed)
        finally:
            search.kill()


def with_sick_trial(kind: str, seed: int) -> None:
    """The others are not worse for it, and its reason is in the study."""
    harm, reason = SICK[kind]
    with new_folder() as folder:
        (folder / "env.py").write_text(SICK_ENV.format(harm=harm))
        search = Search(folder, config=SICK_CONFIG.format(folder=folder))
        try:
            search.start()
            search.end_well()
            states = {trial.number: (trial.state, trial.reason) for trial in search.view().trials}
        finally:
            search.kill()
    assert [states[number][0] for number in range(N_TRIALS)] == ["finished", "failed", "finished"], states
    assert reason in states[1][1].lower(), states[1][1]


def on_postgres(server: Server, expected: dict[int, float | None], seed: int) -> None:
    with new_folder() as folder:
        search = Search(folder, server.new_database(f"repeat{seed}"))
        try:
            disturbed(search, partial(restart_postgres, server), expected, seed)
        finally:
            search.kill()


def postgres_row(expected: dict[int, float | None], repeats: int) -> list[Row]:
    if programs() is None:
        print("PostgreSQL is not installed", file=sys.stderr)
        return []
    with Server() as server:
        return repeated("PostgreSQL killed, back after 20 s", partial(on_postgres, server, expected), repeats)


def main() -> int:
    harms = {
        "worker": ("SIGKILL of a worker", kill_a_worker, False),
        "all": ("SIGKILL of all", kill_all, False),
        "locked": ("the database locked for 8 s", lock_database, False),
        "deleted": ("the database deleted", delete_database, False),
        "full": ("the disk full for 5 s", fill_disk, True),
    }
    parser = parser_for(__doc__, [*harms, *SICK, "postgres"])
    parser.add_argument("--repeats", type=int, default=20, help="of each fault (default: %(default)s)")
    parser.add_argument("--short", action="store_const", dest="repeats", const=SHORT, help=f"{SHORT} of each fault")
    options = parser.parse_args()
    expected = {} if options.only and SICK.keys() >= set(options.only) else undisturbed()
    rows: dict[str, Callable[[], list[Row]]] = {
        key: partial(repeated, name, partial(in_a_folder, harm, expected, small), options.repeats)
        for key, (name, harm, small) in harms.items()
    }
    rows |= {kind: partial(repeated, kind, partial(with_sick_trial, kind), options.repeats) for kind in SICK}
    rows["postgres"] = partial(postgres_row, expected, options.repeats)
    return report(measured(rows, options.only), "Faults of a search", options.json)


if __name__ == "__main__":
    sys.exit(main())
