"""Where a served agent comes from: the champion of a registry, which may change, or a run or saved agent."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch

from rookery.deploy.registry import Registry
from rookery.deploy.serving.served_agent import ServedAgent
from rookery.errors import OptionError
from rookery.training.storage.load_agent import load, load_agent
from rookery.training.storage.registry_folder import MARKER, registry_name


class VersionSource(Protocol):
    """Says which version should be served, and loads it."""

    def wanted(self) -> int | str:
        """The version that should be served now. It is asked for every second, so that it must be quick."""

    def load(self, version: int | str) -> ServedAgent:
        """That version, ready to act."""


@dataclass(frozen=True)
class ChampionSource:
    """The champion of a registry."""

    folder: Path
    device: str = "cpu"
    trust: bool = False

    def wanted(self) -> int | str:
        registry = Registry(self.folder)
        number = registry.champion_number()
        return registry.version("champion").number if number is None else number  # which says why there is none

    def load(self, version: int | str) -> ServedAgent:
        run = Registry(self.folder).version(version).run
        return _ready(ServedAgent(load_agent(run, device=self.device, trust=self.trust), version))


@dataclass(frozen=True)
class RunSource:
    """The agent of a run, a saved agent, or one version of a registry: it does not change while it is served."""

    name: str
    runs_dir: Path
    best: bool = False
    device: str = "cpu"
    trust: bool = False

    def wanted(self) -> int | str:
        return self.name

    def load(self, version: int | str) -> ServedAgent:
        agent = load(self.name, self.runs_dir, best=self.best, device=self.device, trust=self.trust)
        return _ready(ServedAgent(agent, version))


def find_source(
    what: str | Path, runs_dir: str | Path = "runs", *, best: bool = False, device: str = "cpu", trust: bool = False
) -> VersionSource:
    """The source of a name: the folder of a registry, `registry:DIR`, a run, or the folder of a saved agent."""
    _check_device(device)
    named = registry_name(what)
    if named is not None and named.which == "champion":
        return ChampionSource(named.folder, device, trust)
    if named is None and (Path(what) / MARKER).is_file():
        return ChampionSource(Path(what), device, trust)
    return RunSource(str(what), Path(runs_dir), best, device, trust)


def _check_device(device: str) -> None:
    """Refuse a device that torch does not know, or that this machine does not have."""
    if device == "cpu":
        return
    from rookery.training.run.components import check_device

    try:
        torch.device(device)
    except RuntimeError:
        raise OptionError(f"--device should be cpu, cuda or cuda:N, got {device!r}") from None
    check_device(device)


def _ready(agent: ServedAgent) -> ServedAgent:
    agent.warm_up()
    return agent
