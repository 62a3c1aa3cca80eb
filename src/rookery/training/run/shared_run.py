"""A run in several processes: which envs and which device each has, and what the first tells the others.

Rank 0 is the process that the user has started: it decides, evaluates and writes. The others do as they are told: see
`follower`. Rollouts are complete pieces, so that all processes are at the same step whenever rank 0 decides something.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rookery.config import RunConfig
from rookery.engine.segment_stepping import EPISODE
from rookery.errors import ConfigError, OptionError, UsageError
from rookery.learners.learner import Learner, Tree
from rookery.training.resolve.resolved_run import ResolvedRun
from rookery.training.run.collector import Collector
from rookery.training.storage.checkpoint_files import bytes_to_tree, tree_to_bytes
from rookery.user_code import OBJECT

if TYPE_CHECKING:
    from rookery.learners.execution.ranks import Ranks


class RunAlone:
    """The only process of a run: there is nobody to tell."""

    ranks: Ranks | None = None

    def begin(self, config: RunConfig, learner: Learner, envs: Tree | None, seed: int) -> None:
        """The run begins or is resumed: with the state of `envs` in its checkpoint, or None and a seed for new ones."""

    def collect(self) -> None:
        """A rollout begins."""

    def update(self, learner: Learner) -> None:
        """The learner learns from it."""

    def episodes(self, collector: Collector) -> np.ndarray:
        """The episodes that have ended, in the envs of all processes."""
        return collector.finished_episodes()

    def with_all_envs(self, envs: Tree) -> Tree:
        """The state of the envs of all processes, for a checkpoint; {} if any cannot be saved."""
        return envs


class SharedRun(RunAlone):
    """The first of several processes."""

    ranks: Ranks

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self._options: dict[str, Any] = {}

    def begin(self, config: RunConfig, learner: Learner, envs: Tree | None, seed: int) -> None:
        self._options = learner.options.model_dump(mode="json")
        self._tell("begin", config=config.model_dump(mode="json"), seed=seed)
        fits = envs is not None and envs.get("processes") == self.ranks.size
        parts = envs["others"] if envs is not None and fits else {}
        self.ranks.send_bytes(tree_to_bytes({"learner": learner.state(), "envs": parts}))

    def collect(self) -> None:
        self._tell("collect")

    def update(self, learner: Learner) -> None:
        before, self._options = self._options, learner.options.model_dump(mode="json")
        changed = {name: value for name, value in self._options.items() if before[name] != value}
        self._tell("update", progress=learner.progress, options=changed)

    def episodes(self, collector: Collector) -> np.ndarray:
        self._tell("episodes")
        return gather_episodes(self.ranks, collector)

    def with_all_envs(self, envs: Tree) -> Tree:
        self._tell("save")
        parts = [bytes_to_tree(part) for part in self.ranks.exchange(tree_to_bytes(envs))]
        if not all(parts):
            return {}
        others = {str(rank): part for rank, part in enumerate(parts) if rank != self.ranks.rank}
        return {**envs, "processes": self.ranks.size, "others": others}

    def end(self) -> None:
        """The others end too."""
        self._tell("end")

    def _tell(self, do: str, **values: Any) -> None:
        self.ranks.send({"do": do, **values})


def gather_episodes(ranks: Ranks, collector: Collector) -> np.ndarray:
    """The finished episodes of all processes, their envs numbered as in one; counts those that are not listed, and the
    restarts of the others' envs."""
    own = collector.finished_episodes().copy()
    own["env"] += ranks.rank * collector.envs.num_envs
    counts = np.array([collector.uncounted_episodes, collector.envs.restarts], np.int64)  # type: ignore[union-attr]
    parts = ranks.exchange(counts.tobytes() + own.tobytes())
    uncounted, restarts = np.sum([np.frombuffer(part[: counts.nbytes], np.int64) for part in parts], axis=0).tolist()
    collector.uncounted_episodes, collector.restarts_elsewhere = uncounted, restarts - int(counts[1])
    return np.concatenate([np.frombuffer(part[counts.nbytes :], EPISODE) for part in parts])


# --- what each process has -----------------------------------------------------------------------------------------


def device_names(config: RunConfig) -> list[str]:
    """The device of each process."""
    numbers = list(range(config.devices)) if isinstance(config.devices, int) else list(config.devices)
    if not config.device.startswith("cuda"):
        return [config.device] * len(numbers)
    return [f"cuda:{number}" for number in numbers]


def with_shared_devices(config: RunConfig) -> RunConfig:
    """With the kind of device that several processes use, where the config leaves it open."""
    size = len(device_names(config))
    if int(os.environ.get("WORLD_SIZE", 1)) > 1 and "TORCHELASTIC_RUN_ID" in os.environ:
        raise UsageError("torchrun would train one run in each of its processes: start rookery without it, with --gpus")
    if size == 1 or config.device != "auto":
        return config
    return config.model_copy(update={"device": "cuda" if torch.cuda.is_available() else "cpu"})


def check_shared(run: ResolvedRun, asked: RunConfig) -> ResolvedRun:
    """Refuse a run that cannot be split over processes. If the config that was `asked` for leaves the number of envs
    open, it is one that can be split."""
    config, names = run.config, device_names(run.config)
    size = len(names)
    if size == 1:
        return run
    if asked.num_envs == "auto":
        num_envs = -(-run.num_envs // size) * size
        run = replace(run.with_config(num_envs=num_envs), num_envs=num_envs)
    if config.learner != "ppo":
        raise ConfigError(f"`devices` = {size} is for ppo: {config.learner} trains in one process, with `devices` = 1")
    if config.has_curriculum or config.num_envs == "adaptive":
        what = '`num_envs` = "adaptive"' if config.num_envs == "adaptive" else "phases, opponents or `reward_scale`"
        raise ConfigError(f"`devices` = {size} cannot be combined with {what}: use `devices` = 1")
    if config.world.startswith(OBJECT):
        raise ConfigError(
            f"`devices` = {size} needs a world that other processes can import: give it as 'my_file.py:MyEnv'"
        )
    if config.device.startswith("cuda"):
        _check_gpus(names)
    elif config.device != "cpu":
        raise ConfigError(f'`devices` = {size} needs `device` = "cuda" or "cpu", got {config.device!r}')
    if run.num_envs % size:
        raise ConfigError(
            f"`num_envs` = {run.num_envs} cannot be split over {size} processes: "
            f"{max(1, run.num_envs // size) * size} can"
        )
    return run


def _check_gpus(names: list[str]) -> None:
    found = torch.cuda.device_count()
    missing = [name for name in names if int(name.partition(":")[2]) >= found]
    if missing:
        raise OptionError(f"`devices` asks for {missing[-1]}, but torch finds {found} CUDA GPUs: cuda:0 is the first")


def share_of(run: ResolvedRun, rank: int) -> ResolvedRun:
    """The part of a run that one process has: its envs and its device."""
    names = device_names(run.config)
    size = len(names)
    if size == 1:
        return run
    num_envs = run.num_envs // size
    workers = None if run.config.workers is None else max(1, min(run.config.workers // size, num_envs))
    groups = 1 if num_envs == 1 else run.config.groups
    changed = run.with_config(num_envs=num_envs, workers=workers, groups=groups, device=names[rank])
    return replace(changed, num_envs=num_envs, choice=None)
