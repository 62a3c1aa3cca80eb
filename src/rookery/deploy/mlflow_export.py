"""Shows a registry in MLflow's model registry: one model version per version, with the same aliases."""

from __future__ import annotations

from typing import Any

from rookery.deploy.registered_version import Version
from rookery.deploy.registry import Registry
from rookery.errors import MissingExtra
from rookery.training.storage.registry_folder import ALIASES

TAG = "rookery.version"


def export_to_mlflow(registry: Registry, name: str, client: Any = None) -> dict[str, str]:
    """Add versions that MLflow's registered model `name` lacks, and set its aliases; returns MLflow's version by alias.
    `client` is an `MlflowClient`; if omitted, one with the tracking server of MLflow's own settings. The files stay in
    the registry: MLflow gets their address."""
    client = client or _client()
    known = _known_versions(client, name)
    for version in registry.versions():
        if version.number not in known:
            known[version.number] = _create(client, name, version)
    aliases = registry.aliases()
    for alias in ALIASES:
        if alias in aliases:
            client.set_registered_model_alias(name, alias, known[aliases[alias]])
        elif alias in _their_aliases(client, name):
            client.delete_registered_model_alias(name, alias)
    return {alias: known[number] for alias, number in aliases.items()}


def _client() -> Any:
    try:
        from mlflow import MlflowClient
    except ImportError as error:
        raise MissingExtra(
            f"versions are exported to MLflow, which cannot be imported ({error}): pip install mlflow"
        ) from None
    return MlflowClient()


def _known_versions(client: Any, name: str) -> dict[int, str]:
    """MLflow's versions by ours; the model is made if it does not exist."""
    if not client.search_registered_models(filter_string=f"name='{name}'"):
        client.create_registered_model(name)
        return {}
    found = client.search_model_versions(f"name='{name}'")
    return {int(version.tags[TAG]): str(version.version) for version in found if TAG in (version.tags or {})}


def _create(client: Any, name: str, version: Version) -> str:
    about = version.about
    facts = {
        key: str(about[key]) for key in ("world", "study", "trial", "step", "data_hash") if about.get(key) is not None
    }
    tags = {TAG: str(version.number), **{f"rookery.{key}": value for key, value in facts.items()}}
    made = client.create_model_version(name, version.folder.resolve().as_uri(), tags=tags)
    return str(made.version)


def _their_aliases(client: Any, name: str) -> dict[str, Any]:
    return client.get_registered_model(name).aliases or {}
