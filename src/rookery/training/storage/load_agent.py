"""`rookery.load`: an agent from a run's checkpoint, without its world, learner or replay buffer."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from gymnasium import spaces

from rookery.console import is_silent, printable, say
from rookery.errors import CheckpointError, FileError, OptionError, OptionTypeError, RunError, UsageError
from rookery.foreign_names import OF_AGENTS, explains_keywords
from rookery.gate import Reach, allow, allow_given, reaches
from rookery.learners.agent import Agent
from rookery.learners.learner import load_module
from rookery.learners.learner_spec import Options
from rookery.learners.plain_spaces import from_tree
from rookery.learners.registry import make_policy, option_classes
from rookery.learners.saved_agent import saved_agent
from rookery.monitor.formatting import NOT_BETTER, number
from rookery.training.storage.checkpoint import UNFINISHED, agents_of, save
from rookery.training.storage.checkpoint import load as read_tree
from rookery.training.storage.checkpoint_files import MALFORMED, MANIFEST, short_text
from rookery.training.storage.run_dir import RunDir
from rookery.training.storage.run_record import RunRecord
from rookery.training.storage.trust import check_reach

_said: set[tuple[Path, str]] = set()


@explains_keywords(OF_AGENTS, "it takes a run or a folder")
def load(
    run: str | Path = "latest",
    runs_dir: str | Path = "runs",
    *,
    best: bool = True,
    device: str = "cpu",
    trust: bool = False,
) -> Agent:
    """The agent of a run, by its name, its path or as "latest": the best by evaluation, or the last if the run was
    never evaluated or with `best=False`. Or the agent in a folder that `agent.save(folder)` wrote, or in a checkpoint's
    folder. If an agent has a network of somebody's own, `trust` imports its code without asking.

    Its `act(observations, deterministic=True)` works with Gymnasium's own envs too.
    """
    if not isinstance(run, (str, PathLike)):
        raise OptionTypeError(f"rookery.load() takes the name of a run or a folder, got {run!r:.80}")
    check_device(device := str(device))
    allow_given(run)
    if holds_agent(Path(run)):
        return agent_from(read_agent(Path(run), trust), device)
    return load_agent(RunDir.find(run, Path(runs_dir)), best, device, trust)


def check_device(device: str) -> None:
    """Refuse a device that torch does not know, or that this machine does not have."""
    try:
        torch.device("cpu" if device == "auto" else device)
    except RuntimeError:
        raise OptionError(f"device should be cpu, cuda, cuda:N or mps, got {device!r}") from None
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise OptionError(f"device={device!r} was requested, but torch finds no CUDA GPU here; device='cpu' works")
    number = device.partition(":")[2]
    if number and int(number) >= torch.cuda.device_count():
        raise OptionError(
            f"device={device!r} was requested, but torch finds {torch.cuda.device_count()} CUDA GPUs here: they are "
            "counted from cuda:0"
        )
    if device == "mps" and not torch.backends.mps.is_available():
        raise OptionError("device='mps' was requested, but torch finds none here; device='cpu' works")


def load_agent(run: RunDir, best: bool = True, device: str = "cpu", trust: bool = False) -> Agent:
    """As `load`, from a run's folder."""
    steps, tree = load_checkpoint(run, best, trust=trust)
    agent = agent_from(tree["agent"], device)
    agent.world, agent.steps, agent.run = str(run.read_config().get("world", "")), steps, run.path
    return agent


def load_checkpoint(
    run: RunDir, best: bool = True, parts: Sequence[str] = ("agent",), trust: bool = False
) -> tuple[int, dict[str, Any]]:
    """Step and parts of a run's best checkpoint, or of its last one if none has a score or `best` is False. One that
    does not describe an agent is skipped, as a damaged one is. If best and last differ, one line tells which it is."""

    def check(tree: dict[str, Any]) -> None:
        check_network(run, tree["agent"], trust)
        check_agent(tree["agent"])

    checkpoints = agents_of(run.name, run.checkpoints)
    if not best:
        return checkpoints.load_latest(parts, check)
    step, tree = checkpoints.load_best(parts, check)
    best_one, last = checkpoints.best(), checkpoints.steps()[-1]
    if best_one is not None and best_one[0].step == step != last:
        _say_once(run.path, choice_text(step, best_one[1], last, RunRecord(run).return_at(last)))
    return step, tree


def choice_text(step: int, score: float, last: int, last_score: float | None) -> str:
    """Which agent was taken, and how to get the other.

    >>> choice_text(40960, 94.1, 50000, -59.0)
    'the best agent, from step 40,960: 94.1 (--last or best=False takes the last, from step 50,000: -59)'
    """
    other = "not evaluated" if last_score is None else number(last_score)
    if last_score is not None and last_score > score:
        other += f", {NOT_BETTER}"
    the_other = f"--last or best=False takes the last, from step {last:,}: {other}"
    return f"the best agent, from step {step:,}: {number(score)} ({the_other})"


def _say_once(run: Path, line: str) -> None:
    """A command may open a run again, such as for the report after an evaluation."""
    if not is_silent() and (run, line) not in _said:
        _said.add((run, line))
        say(line)


def agent_from(saved: dict[str, Any], device: str = "cpu") -> Agent:
    """The agent that a checkpoint's part "agent" describes."""
    check_agent(saved)
    observation_space, action_space, options = _described(saved)
    policy = make_policy(saved["learner"], observation_space, action_space, options)
    load_module(policy, saved["policy"])
    agent = Agent(policy.to(device).eval(), observation_space, action_space, torch.device(device))
    agent.writer, agent.learner = write_agent, saved["learner"]
    return agent


def check_network(run: RunDir, saved: Any, trust: bool) -> None:
    """Ask before the code of an agent's own network is imported, unless this user trained with it here."""
    check_reach(run, reached_by_agent(saved), trust)


def check_agent(saved: Any) -> None:
    """Refuse a tree that describes no agent, or whose arrays are of another agent, before memory is allocated for its
    nets: they are made on torch's meta device, and their shapes compared."""
    try:
        described = _described(saved)
        with torch.device("meta" if described[-1].network is None else "cpu"):  # the user's own may read its weights
            nets = make_policy(saved["learner"], *described).state_dict()
        wanted = {name: (*part.shape, str(part.dtype).removeprefix("torch.")) for name, part in nets.items()}
        given = {name: (*part.shape, part.dtype.name) for name, part in saved["policy"].items()}
    except UsageError:  # the file of its own network cannot be imported here
        raise
    except MALFORMED as error:
        raise CheckpointError(f"a checkpoint describes no agent: {short_text(error)}") from error
    for name in sorted(wanted.keys() | given.keys()):
        if wanted.get(name) != given.get(name):
            raise CheckpointError(
                f"a checkpoint describes another agent than it holds: {name!r:.80} should be {wanted.get(name)}, and "
                f"is {given.get(name)}"
            )


def _described(saved: dict[str, Any]) -> tuple[spaces.Space, spaces.Space, Options]:
    """Both spaces and the learner's options, as the tree describes them."""
    options = option_classes()[saved["learner"]].model_validate(saved["options"])
    return from_tree(saved["observation_space"]), from_tree(saved["action_space"]), options


def check_fits(saved: dict[str, Any], agent: Agent) -> None:
    """Refuse a world whose spaces are not those of when the checkpoint was written."""
    for name in ("observation_space", "action_space"):
        then, now = from_tree(saved[name]), getattr(agent, name)
        if then != now:
            what = name.replace("_", " ")
            raise RunError(
                f"the world has changed since the checkpoint was written: its {what} was {then}, and is {now} now. "
                "Change it back, or start a new run"
            )


def write_agent(agent: Agent, folder: Path) -> Path:
    """Write an agent to a folder; an agent that is there is replaced when the new one is complete."""
    if not folder.name:
        raise FileError(f"{printable(folder)} cannot hold an agent: name a folder, such as 'my_agent'")
    tree = {"agent": saved_agent(agent)}
    if not folder.is_symlink() and holds_agent(folder):
        new, old = (folder.with_name(f"{UNFINISHED}{uuid.uuid4().hex}") for _ in range(2))
        save(new, tree)
        folder.rename(old)
        new.rename(folder)
        shutil.rmtree(old, ignore_errors=True)
    elif folder.exists() or folder.is_symlink():
        raise FileError(
            f"{printable(folder)} exists already, and is not an agent: nothing is written; choose another name"
        )
    else:
        save(folder, tree)
    return folder


def holds_agent(folder: Path) -> bool:
    """Whether this is the folder of an agent or of a checkpoint."""
    return (folder / MANIFEST).is_file()


def read_agent(folder: Path, trust: bool = False) -> dict[str, Any]:
    """The part "agent" of such a folder; `trust` lets the code of the agent's own network be imported."""
    saved = read_tree(folder, only=("agent",))["agent"]
    if trust:
        allow(reached_by_agent(saved))
    return saved


def reached_by_agent(saved: Any) -> list[Reach]:
    """What a saved agent's own description names outside: the code of its network."""
    try:
        options = option_classes()[saved["learner"]].model_validate(saved["options"])
    except MALFORMED:  # which loading it reports
        return []
    return list(reaches(options, playing=True, key="agent"))
