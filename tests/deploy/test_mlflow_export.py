"""A registry in MLflow's: versions, aliases, and what is said without MLflow."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from deploy.agents import GOOD, cartpole_run
from rookery.deploy.registry import Registry, export_to_mlflow
from rookery.errors import MissingExtra


class StandIn:
    """The part of `MlflowClient` that is used."""

    def __init__(self) -> None:
        self.models: dict[str, dict[str, str]] = {}
        self.versions: list[SimpleNamespace] = []

    def search_registered_models(self, filter_string: str) -> list[str]:
        return [name for name in self.models if filter_string == f"name='{name}'"]

    def create_registered_model(self, name: str) -> None:
        assert name not in self.models
        self.models[name] = {}

    def get_registered_model(self, name: str) -> Any:
        return SimpleNamespace(aliases=dict(self.models[name]))

    def search_model_versions(self, filter_string: str) -> list[SimpleNamespace]:
        return [version for version in self.versions if filter_string == f"name='{version.name}'"]

    def create_model_version(self, name: str, source: str, tags: dict[str, str]) -> SimpleNamespace:
        version = SimpleNamespace(name=name, version=str(len(self.versions) + 11), source=source, tags=tags)
        self.versions.append(version)
        return version

    def set_registered_model_alias(self, name: str, alias: str, version: str) -> None:
        self.models[name][alias] = version

    def delete_registered_model_alias(self, name: str, alias: str) -> None:
        del self.models[name][alias]


def test_versions_and_aliases(tmp_path: Path) -> None:
    """Each version is added once; aliases follow, and one that is gone is removed."""
    registry, client = Registry.create(tmp_path / "agents"), StandIn()
    run = cartpole_run(tmp_path / "runs", GOOD)
    registry.promote(registry.add(run, {"world": "CartPole-v1"}).number)
    registry.add(run)
    assert export_to_mlflow(registry, "cartpole", client) == {"champion": "11", "challenger": "12"}
    assert client.versions[0].source == registry.version(1).folder.resolve().as_uri()
    assert client.versions[0].tags["rookery.world"] == "CartPole-v1"
    registry.promote(2)
    assert export_to_mlflow(registry, "cartpole", client) == {"champion": "12", "previous": "11"}
    assert client.models == {"cartpole": {"champion": "12", "previous": "11"}}
    assert len(client.versions) == 2


def test_without_mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "mlflow", None)
    with pytest.raises(MissingExtra, match="pip install mlflow"):
        export_to_mlflow(Registry.create(tmp_path / "agents"), "cartpole")
